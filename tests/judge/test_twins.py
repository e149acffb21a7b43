"""Copies of one call in different traces."""

from __future__ import annotations

from itertools import permutations

import pytest

from otel_turnavoid.judge.attribution import attribute
from otel_turnavoid.judge.facts import CallDetail, Usage
from otel_turnavoid.vocabulary import Entry

CALL = Entry.LLM_CALL
SOME = Usage(input=120, output=20)


def says(**said):
    return CallDetail(usage=SOME, **said)


def agent(script, name: str, detail: CallDetail, *, start_ms: int = 0):
    """A framework's run with one call: its agent span and the call."""
    run = script(name, arm=None, instance="process", start_ms=start_ms)
    root = run.foreign(Entry.INVOKE, start_ms=start_ms, ms=1000, parent_id=None)
    call = run.foreign(CALL, root, scope="framework", call=detail, start_ms=start_ms, ms=100)
    return root, call


def lone(script, trace_id: str, detail: CallDetail, *, scope: str = "provider", start_ms: int = 10):
    run = script("lone", arm=None, instance="process")
    return run.foreign(
        CALL, scope=scope, call=detail, start_ms=start_ms, ms=80, parent_id=None, trace_id=trace_id
    )


@pytest.mark.parametrize(
    ("framework", "provider"),
    [
        (says(response_id="r1"), says(response_id="r1")),
        (says(asks="c1"), says(asks="c1", response_id="r1")),
        (says(), says(response_id="r1")),
    ],
)
def test_a_providers_span_in_a_trace_of_its_own_belongs_to_the_run_that_shows_its_call(
    script, framework, provider
) -> None:
    root, call = agent(script, "k", framework)
    copy = lone(script, "zz", provider)

    found = attribute([root, call, copy])

    assert list(found.runs.values()) == [[root, call, copy]]
    assert found.strays == {}


@pytest.mark.parametrize(
    ("detail", "start_ms"),
    [(says(response_id="r2"), 10), (says(asks="c2"), 10), (says(response_id="r1"), 5000)],
)
def test_another_call_stays_without_a_run(script, detail, start_ms: int) -> None:
    root, call = agent(script, "k", says(response_id="r1", asks="c1"))
    other = lone(script, "zz", detail, start_ms=start_ms)

    assert attribute([root, call, other]).strays == {"zz": [other]}


def test_a_copy_that_two_runs_may_claim_belongs_to_none(script) -> None:
    first, second = agent(script, "k", says()), agent(script, "l", says())
    copy = lone(script, "zz", says())

    assert attribute([*first, *second, copy]).strays == {"zz": [copy]}


def test_an_id_decides_between_two_runs_that_may_claim_a_copy(script) -> None:
    first, second = agent(script, "k", says()), agent(script, "l", says(response_id="r1"))
    copy = lone(script, "zz", says(response_id="r1"))

    found = attribute([*first, *second, copy])

    assert [len(members) for members in found.runs.values()] == [2, 3]


def test_two_spans_of_a_call_without_a_run_are_listed_under_one_trace(script) -> None:
    one = lone(script, "bb", says(response_id="r1"), scope="framework")
    two = lone(script, "aa", says(response_id="r1"))

    for order in permutations([one, two]):
        [(trace_id, members)] = attribute(order).strays.items()
        assert (trace_id, sorted(fact.trace_id for fact in members)) == ("aa", ["aa", "bb"])
