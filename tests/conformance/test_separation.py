"""No account moves another, from OTLP bytes to the published series.

One control and one candidate that does a turn less; then one thing of the candidate is changed,
and the series of every account but that thing's own must stay exactly as they were.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_turnavoid.dialects import Reader
from otel_turnavoid.judge.accounts import known
from otel_turnavoid.judge.settings import SECOND, Settings
from otel_turnavoid.otlp import read_logs, read_traces
from otel_turnavoid.publish.totals import Series, Totals
from otel_turnavoid.store import Ledger
from otel_turnavoid.testing import Call, Turn, observation, run_spans
from otel_turnavoid.vocabulary import INSTRUMENTS, Account, Attr, GenAI

NOW_NS = 1_790_000_000 * SECOND
READER = Reader(Settings())
USED = {GenAI.USAGE_INPUT_TOKENS: 200, GenAI.USAGE_OUTPUT_TOKENS: 20}
PLAIN = (Turn(), Turn())

By = dict[Account, list[tuple[str, Series]]]


def published(turns: Sequence[Turn], *edits: Callable[[Any], None], **options: Any) -> By:
    """Return every series, by account, of a control and this candidate."""
    said = {"run_id": "k", "arm": "fused-batch", "turns": list(turns)}
    said |= {key: value for key, value in options.items() if key != "effects"}
    candidate = ExportTraceServiceRequest.FromString(run_spans(**said))
    for edit in edits:
        for span in candidate.resource_spans[0].scope_spans[0].spans:
            edit(span)
    bodies = (run_spans(run_id="c"), candidate.SerializeToString())
    facts = [fact for body in bodies for fact in read_traces(body, READER).facts]
    effects = [("c", ("a", "b")), ("k", options.get("effects", ("a", "b")))]
    seen = [
        each
        for run_id, labels in effects
        for each in read_logs(observation(run_id, labels), READER).observations
    ]
    totals = Totals(known(Settings()))
    with (
        tempfile.TemporaryDirectory() as folder,
        Ledger.open(f"sqlite:///{Path(folder) / 'ledger.db'}") as ledger,
    ):
        ledger.add(facts, seen, arrived_ns=NOW_NS)
        for decision in ledger.decide(Settings(), now_ns=NOW_NS, final=True):
            totals.add(decision)
    shot = totals.snapshot()
    return {
        account: [
            (each.name, series)
            for each in INSTRUMENTS
            if each.account is account
            for series in shot.series(each)
        ]
        for account in Account
    }


@pytest.fixture(scope="module")
def plain() -> By:
    return published(PLAIN)


def moved(before: By, after: By) -> set[Account]:
    return {account for account in Account if before[account] != after[account]}


def with_calls(**changes: Any) -> list[Turn]:
    return [Turn(calls=(Call(**changes),))] * 2


def slower(span: Any) -> None:
    span.end_time_unix_nano += 5_000_000_000 if span.name.startswith("chat") else 0


GUESS = Call(purpose="speculation", disposition="discarded", usage={})

ONE_THING: dict[str, tuple[Callable[[], By], set[Account]]] = {
    "tokens": (
        lambda: published(with_calls(usage={key: 9 * used for key, used in USED.items()})),
        {Account.TOKENS},
    ),
    "cache": (
        lambda: published(with_calls(usage={**USED, GenAI.USAGE_CACHE_READ: 190})),
        {Account.TOKENS},
    ),
    "tokens unknown": (lambda: published(with_calls(usage={})), {Account.TOKENS}),
    "money": (lambda: published(with_calls(cost_usd=0.5)), {Account.WORK}),
    "latency": (lambda: published(PLAIN, slower), {Account.WORK}),
    "tool calls": (
        lambda: published([Turn(tools=["a", "b"]), Turn(tools=[])]),
        {Account.TOOLS},
    ),
    "more tool calls": (
        lambda: published([Turn(tools=["a"] * 5), Turn()]),
        {Account.TOOLS, Account.WORK},
    ),
    "speculation": (
        lambda: published([Turn(calls=(GUESS, Call())), Turn()]),
        {Account.SPECULATION, Account.WORK, Account.TOKENS},
    ),
    "a cheaper turn that was kept": (
        lambda: published(
            PLAIN,
            attributes={Attr.RETAINED_TOKENS_REDUCED: 900, Attr.RETAINED_LATENCY_REDUCED_MS: 5},
        ),
        {Account.RETAINED},
    ),
    "side calls": (
        lambda: published([Turn(calls=(Call(purpose="side", usage={}), Call())), Turn()]),
        {Account.WORK, Account.TOKENS},
    ),
    "validation": (
        lambda: published([Turn(calls=(Call(), Call(purpose="validation", usage={}))), Turn()]),
        {Account.WORK, Account.TOKENS},
    ),
    "a retry": (
        lambda: published([Turn(calls=(Call(disposition="failed"), Call())), Turn()]),
        {Account.WORK},
    ),
}


@pytest.mark.parametrize("what", ONE_THING)
def test_changing_one_thing_moves_only_its_own_accounts_and_never_turns(
    what: str, plain: By
) -> None:
    change, accounts = ONE_THING[what]

    found = moved(plain, change())

    assert found == accounts


def instantly(span: Any) -> None:
    """Leave the last turn without time, so that it adds to no account but turns."""
    if span.name.startswith("chat") and span.attributes[1].value.int_value > 6:
        span.end_time_unix_nano = span.start_time_unix_nano


def test_changing_only_turns_moves_only_turns(plain: By) -> None:
    """A turn more, whose call took no time, no money and no tokens."""
    zero = {GenAI.USAGE_INPUT_TOKENS: 0, GenAI.USAGE_OUTPUT_TOKENS: 0}
    more = [*PLAIN, Turn(calls=(Call(usage=zero),), tools=[])]

    assert moved(plain, published(more, instantly)) == {Account.TURNS}


@pytest.mark.parametrize("options", [{"lifecycle": "attempted"}, {"trace_state": "ot=th:8"}])
def test_withholding_turns_moves_nothing_but_turns_and_tools_that_count_with_them(
    options: dict[str, Any], plain: By
) -> None:
    found = moved(plain, published(PLAIN, **options))

    assert found == {Account.TURNS, Account.TOOLS}


def test_an_effect_that_is_missing_moves_turns_and_effects_and_what_counts_with_them(
    plain: By,
) -> None:
    found = moved(plain, published(PLAIN, effects=("a",)))

    assert found == {Account.TURNS, Account.TOOLS, Account.EFFECTS}


used = st.dictionaries(
    st.sampled_from([*USED, GenAI.USAGE_CACHE_READ, GenAI.USAGE_CACHE_WRITE]),
    st.integers(0, 10**9),
)


@given(
    call=st.builds(Call, usage=used, cost_usd=st.none() | st.floats(0, 100)),
    tools=st.lists(st.sampled_from(["a", "b"]), max_size=6),
    guesses=st.integers(0, 3),
    late_ns=st.integers(0, 10**10),
)
@settings(max_examples=settings().max_examples // 4, deadline=None)
def test_nothing_but_turns_moves_turns(
    plain: By, call: Call, tools: list[str], guesses: int, late_ns: int
) -> None:
    def later(span: Any) -> None:
        span.end_time_unix_nano += late_ns

    turn = Turn(calls=(*[GUESS] * guesses, call), tools=tools)

    assert Account.TURNS not in moved(plain, published([turn, Turn()], later))


def names(instruments: Iterable[Any]) -> list[str]:
    return [each.name for each in instruments]


def test_every_instrument_has_a_name_of_its_own_in_one_account() -> None:
    """A sum over a name can never take in another account."""
    assert len(set(names(INSTRUMENTS))) == len(INSTRUMENTS)


def test_no_name_of_one_account_begins_like_those_of_another() -> None:
    """Nor can a sum over a prefix, such as ``turnavoid_tool_.*``."""
    families = {
        account: {each.name.split(".")[1] for each in INSTRUMENTS if each.account is account}
        for account in Account
    }
    shared = [
        (one, other)
        for one in Account
        for other in Account
        if one is not other and families[one] & families[other]
    ]

    assert shared == []
