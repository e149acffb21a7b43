"""Independence is enforced, not declared: whose word counts, from OTLP bytes.

``c`` is a control run of three turns of the service ``agent``, instance ``agent-c``; ``k`` a
candidate of two, instance ``agent-k``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from otel_turnavoid.dialects import Reader
from otel_turnavoid.judge.settings import SECOND, Settings
from otel_turnavoid.judge.verdict import PairDecided
from otel_turnavoid.otlp import read_logs, read_traces
from otel_turnavoid.store import Ledger
from otel_turnavoid.testing import START_NS, observation, observation_span, run_spans

NOW_NS = 1_790_000_000 * SECOND
READER = Reader(Settings())
CANDIDATE_END_NS = START_NS + 2_202 * 1_000_000
"""Invoke and UserTurn take a millisecond each, the two turns a second, their tools 100 ms."""
SKEW_NS = 300 * SECOND
LATER_NS = START_NS + 61 * SECOND
"""A second after the observer, unless told otherwise."""

INDEPENDENT, MISMATCH = "observer-not-independent", "observer-mismatch"
CONFLICT, UNOBSERVED = "conflicting-evidence", "effects-unobserved"


class Said(NamedTuple):
    """One observation, and the role of the credential that it came with."""

    run_id: str
    role: str | None = None
    says: Mapping[str, Any] = MappingProxyType({})
    as_span: bool = False


def by(service: str = "", instance: str = "", **more: Any) -> dict[str, Any]:
    return {"service": service, "instance": instance, **more}


def both(role: str | None = None, **says: Any) -> list[Said]:
    return [Said("c", role, says), Said("k", role, says)]


AGENT_K, AGENT_C = by("agent", "agent-k"), by("agent", "agent-c")
OBSERVER = by("orders-observer", "observer-1")


@pytest.fixture
def causes(tmp_path: Path) -> Any:
    ledgers = count()

    def judged(said: Sequence[Said], **options: Any) -> tuple[str, ...]:
        facts = [
            fact
            for body in (
                run_spans(run_id="c"),
                run_spans(run_id="k", arm="fused-batch", turns=2, **options),
            )
            for fact in read_traces(body, READER).facts
        ]
        seen = []
        for one in said:
            if one.as_span:
                body = observation_span(one.run_id, **one.says)
                seen += read_traces(body, READER, role=one.role).observations
            else:
                body = observation(one.run_id, **one.says)
                seen += read_logs(body, READER, role=one.role).observations
        with Ledger.open(f"sqlite:///{tmp_path / str(next(ledgers))}") as ledger:
            ledger.add(facts, seen, arrived_ns=NOW_NS)
            made = ledger.decide(Settings(), now_ns=NOW_NS, final=True)
        (pair,) = [one for one in made if isinstance(one, PairDecided)]
        assert (pair.avoided, pair.withheld) == ((0, 1) if pair.causes else (1, 0))
        return tuple(cause.value for cause in pair.causes)

    return judged


@pytest.mark.parametrize(
    ("observer", "expected"),
    [
        (OBSERVER, ()),
        (by("agent", "observer-1"), ()),
        (by("agent", ""), (INDEPENDENT,)),
        (by("", "observer-1"), (INDEPENDENT,)),
        (by("", ""), (INDEPENDENT,)),
        (AGENT_K, (INDEPENDENT,)),
        (AGENT_C, (INDEPENDENT,)),
        (by("Agent", "agent-k"), ()),
    ],
)
def test_an_observer_is_provably_another_process_than_both_runs(
    causes: Any, observer: dict[str, Any], expected: tuple[str, ...]
) -> None:
    assert causes(both(**observer)) == expected


def test_an_observer_in_the_agents_service_must_be_a_stated_other_instance(causes: Any) -> None:
    same_service = both(**by("agent", "observer-1"))

    assert causes(same_service, instance="agent-1") == ()
    assert causes(same_service, instance="observer-1") == (INDEPENDENT,)


@pytest.mark.parametrize(
    ("roles", "expected"),
    [
        (("observer", "observer"), ()),
        ((None, None), ()),
        (("agent", "agent"), (INDEPENDENT,)),
        (("observer", "agent"), (INDEPENDENT,)),
        (("observer", None), (INDEPENDENT,)),
        ((None, "observer"), (INDEPENDENT,)),
        (("agent", "observer"), (INDEPENDENT,)),
        (("operator", "operator"), (INDEPENDENT,)),
    ],
)
def test_a_credential_must_be_an_observers(
    causes: Any, roles: tuple[str | None, str | None], expected: tuple[str, ...]
) -> None:
    assert causes([Said("c", roles[0]), Said("k", roles[1])]) == expected


def test_spans_carry_effects_like_events(causes: Any) -> None:
    assert causes([Said("c", as_span=True), Said("k", as_span=True)]) == ()
    assert causes([Said("c", as_span=True), Said("k", "agent", as_span=True)]) == (INDEPENDENT,)


def test_the_same_observation_as_event_and_span_is_one(causes: Any) -> None:
    assert causes([*both(), Said("c", as_span=True), Said("k", as_span=True)]) == ()


# An agent that speaks for itself beside the observer


def test_an_agent_that_copies_the_observers_id_contradicts_it(causes: Any) -> None:
    assert causes([*both(), Said("k", says={**AGENT_K, "observed_ns": LATER_NS})]) == (CONFLICT,)


def test_whichever_of_the_two_spoke_first(causes: Any) -> None:
    early = Said("k", says={**AGENT_K, "observed_ns": START_NS})

    assert causes([*both(), early]) == (CONFLICT, INDEPENDENT)


def test_a_copied_id_and_identity_with_another_role_contradicts(causes: Any) -> None:
    assert CONFLICT in causes([*both("observer"), Said("k", "agent")])


def test_an_agent_that_speaks_in_its_own_name_about_itself_alone_is_not_heard(causes: Any) -> None:
    """It saw only one of the runs, and the observer saw both."""
    assert causes([*both(), Said("k", says={**AGENT_K, "observer": "me"})]) == ()


def test_an_agent_that_speaks_in_its_own_name_about_both_spoils_both(causes: Any) -> None:
    assert causes([*both(), *both(**AGENT_K, observer="me")]) == (INDEPENDENT,)


def test_an_agent_alone_earns_nothing(causes: Any) -> None:
    own = [
        Said("c", says={**AGENT_C, "observer": "me"}),
        Said("k", says={**AGENT_K, "observer": "me"}),
    ]

    assert causes(own) == (INDEPENDENT,)


# Replays


def test_the_observation_of_another_run_is_none_of_this_one(causes: Any) -> None:
    assert causes([Said("c"), Said("c"), Said("other")]) == (UNOBSERVED,)


def test_an_agent_that_rewrites_the_controls_observation_is_found_by_its_identity(
    causes: Any,
) -> None:
    assert causes([Said("c"), Said("k", says=AGENT_K)]) == (INDEPENDENT,)


def test_one_observation_is_used_once_however_often_it_comes(causes: Any) -> None:
    assert causes(both() * 5) == ()


def test_saying_the_same_again_later_is_still_one_observation(causes: Any) -> None:
    assert causes([*both(), *both(observed_ns=LATER_NS)]) == ()


def test_saying_something_else_later_is_a_contradiction(causes: Any) -> None:
    other = Said("k", says={"labels": ["nothing"], "observed_ns": LATER_NS})

    assert causes([*both(), other]) == (CONFLICT,)


# When


@pytest.mark.parametrize(
    ("observed_ns", "expected"),
    [
        (START_NS - SKEW_NS - 1, (UNOBSERVED,)),
        (START_NS - SKEW_NS, ()),
        (START_NS + 1, ()),
        (CANDIDATE_END_NS + SKEW_NS, ()),
        (CANDIDATE_END_NS + SKEW_NS + 1, (UNOBSERVED,)),
        (START_NS - 24 * 3600 * SECOND, (UNOBSERVED,)),
    ],
)
def test_an_observation_counts_within_the_run_and_the_skew(
    causes: Any, observed_ns: int, expected: tuple[str, ...]
) -> None:
    """A39, A77: clocks differ by seconds; an observation of yesterday is stale."""
    assert causes([Said("c"), Said("k", says={"observed_ns": observed_ns})]) == expected


@pytest.mark.parametrize("behind_s", [-90, -1, 0, 90])
def test_the_agents_clock_may_be_off_within_the_skew(causes: Any, behind_s: int) -> None:
    """The candidate's host differs from the observer's, which looked one second after its end."""
    seen = Said("k", says={"observed_ns": CANDIDATE_END_NS + SECOND})

    assert causes([Said("c"), seen], start_ns=START_NS + behind_s * SECOND) == ()


def test_a_stale_observation_contradicts_nothing(causes: Any) -> None:
    stale = Said("k", says={"labels": ["old"], "observed_ns": START_NS - 24 * 3600 * SECOND})

    assert causes([*both(), stale]) == ()
