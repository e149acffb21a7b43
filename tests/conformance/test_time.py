"""Clocks, days-long runs, pauses and what comes late, from OTLP bytes.

``c`` is a control run of three turns, ``k`` a candidate of two. The senders' clocks and the
processor's have nothing to do with each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from otel_turnavoid.dialects import Reader
from otel_turnavoid.judge.settings import SECOND, Settings
from otel_turnavoid.judge.verdict import PairDecided
from otel_turnavoid.otlp import read_logs, read_traces
from otel_turnavoid.store import Ledger
from otel_turnavoid.testing import START_NS, observation, run_spans, shatter

DAY_S = 24 * 3600
DAY_NS = DAY_S * SECOND
PROCESSOR_NS = 1_790_000_000 * SECOND
READER = Reader(Settings())
WAIT_S = 600

Verdict = tuple[int, int, tuple[str, ...]]
EARNED: Verdict = (1, 0, ())


class Bench:
    """A ledger, and the processor's clock in seconds."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def traces(self, *bodies: bytes, at: float = 0) -> None:
        facts = [fact for body in bodies for fact in read_traces(body, READER).facts]
        self.ledger.add(facts, arrived_ns=self._ns(at))

    def logs(self, *bodies: bytes, at: float = 0) -> None:
        seen = [each for body in bodies for each in read_logs(body, READER).observations]
        self.ledger.add([], seen, arrived_ns=self._ns(at))

    def verdicts(self, at: float) -> list[Verdict]:
        """Return what is decided now: avoided, withheld, causes."""
        made = self.ledger.decide(Settings(), now_ns=self._ns(at))
        pairs = [each for each in made if isinstance(each, PairDecided)]
        return [(each.avoided, each.withheld, tuple(map(str, each.causes))) for each in pairs]

    @staticmethod
    def _ns(at: float) -> int:
        return PROCESSOR_NS + round(at * SECOND)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        yield Bench(ledger)


def control(**options: Any) -> bytes:
    return run_spans(run_id="c", **options)


def candidate(**options: Any) -> bytes:
    return run_spans(run_id="k", arm="fused-batch", turns=2, **options)


def edited(body: bytes, edit: Callable[[Any], None]) -> bytes:
    request = ExportTraceServiceRequest.FromString(body)
    edit(request.resource_spans[0].scope_spans[0].spans)
    return request.SerializeToString()


@pytest.mark.parametrize("off_s", [-DAY_S, -90, 0, 90, DAY_S])
def test_two_hosts_clocks_need_not_agree(bench: Bench, off_s: int) -> None:
    """Each run is held against its own observation; nothing compares their times."""
    off_ns = off_s * SECOND
    bench.traces(control(), candidate(start_ns=START_NS + off_ns))
    bench.logs(observation("c"), observation("k", observed_ns=START_NS + 60 * SECOND + off_ns))

    assert bench.verdicts(1) == [EARNED]


@pytest.mark.parametrize("seconds", [-7200, 7200])
def test_spans_of_one_run_from_hosts_whose_clocks_differ_are_counted_alike(
    bench: Bench, seconds: int
) -> None:
    """A39: calls seem to begin hours before, or after, the turn that they lie in."""

    def shifted(spans: Any) -> None:
        for span in spans:
            if span.name.startswith("chat"):
                span.start_time_unix_nano += seconds * SECOND
                span.end_time_unix_nano += seconds * SECOND

    bench.traces(control(), edited(candidate(), shifted))
    bench.logs(observation("c"), observation("k"))

    assert bench.verdicts(1) == [EARNED]


def test_a_run_may_take_days(bench: Bench) -> None:
    """Its spans trickle in, each long after the one before; the observer looks at the end."""

    def stretched(spans: Any) -> None:
        for number, span in enumerate(spans):
            span.start_time_unix_nano = START_NS + number * DAY_NS
            span.end_time_unix_nano = START_NS + (number + 1) * DAY_NS
        spans[0].end_time_unix_nano = START_NS + len(spans) * DAY_NS

    invoke, *entries = shatter(edited(candidate(), stretched))
    bench.traces(control())
    bench.logs(observation("c"))
    for number, entry in enumerate(entries):
        # The control finds no partner within its expiry unless its key stays in use.
        bench.traces(entry, at=number * 3600)
        assert bench.verdicts(number * 3600) == []
    bench.traces(invoke, at=10 * 3600)
    bench.logs(observation("k", observed_ns=START_NS + len(entries) * DAY_NS), at=10 * 3600)

    assert bench.verdicts(10 * 3600 + 1) == [EARNED]


def test_an_observation_from_the_middle_of_a_days_long_run_counts(bench: Bench) -> None:
    def long(spans: Any) -> None:
        spans[0].end_time_unix_nano = START_NS + 5 * DAY_NS

    bench.traces(control(), edited(candidate(), long))
    bench.logs(observation("c"), observation("k", observed_ns=START_NS + 2 * DAY_NS))

    assert bench.verdicts(1) == [EARNED]


def segments(body: bytes) -> tuple[bytes, bytes]:
    """Return a run as two: paused before its last turn, and gone on with two days later."""
    whole = ExportTraceServiceRequest.FromString(body)
    first, second = ExportTraceServiceRequest(), ExportTraceServiceRequest()
    first.CopyFrom(whole)
    second.CopyFrom(whole)
    early = first.resource_spans[0].scope_spans[0].spans
    late = second.resource_spans[0].scope_spans[0].spans
    cut = next(place for place, span in enumerate(early) if place > 2 and span.name == "agent_turn")
    del early[cut:]
    say(early[0], {"turnavoid.invoke.state": "paused"})
    counts = ("agent_turns", "llm_calls", "tool_turns", "entries")
    kept = [pair for pair in early[0].attributes if pair.key.rpartition(".")[2] not in counts]
    del early[0].attributes[:]
    early[0].attributes.extend(kept)
    del late[1:cut]
    entries = len(whole.resource_spans[0].scope_spans[0].spans)
    say(late[0], {"turnavoid.seq": cut, "turnavoid.invoke.entries": entries + 1})
    for place, span in enumerate(late):
        span.trace_id, span.span_id = b"2" * 16, bytes([place + 1]) * 8
        span.parent_span_id = b"" if place == 0 else late[0].span_id
        span.start_time_unix_nano += 2 * DAY_NS
        span.end_time_unix_nano += 2 * DAY_NS
        if place:
            say(span, {"turnavoid.seq": cut + place})
    return first.SerializeToString(), second.SerializeToString()


def say(span: Any, said: dict[str, Any]) -> None:
    for pair in span.attributes:
        if pair.key in said:
            value = said[pair.key]
            word = isinstance(value, str)
            new = AnyValue(string_value=value) if word else AnyValue(int_value=value)
            pair.CopyFrom(KeyValue(key=pair.key, value=new))


def test_a_run_that_paused_for_days_is_one_run(bench: Bench) -> None:
    """A33: it went on in another process, in another trace."""
    first, second = segments(candidate())
    bench.traces(control(), first)
    bench.logs(observation("c"))
    assert bench.verdicts(3600) == []
    bench.traces(second, at=7200)
    bench.logs(observation("k", observed_ns=START_NS + 2 * DAY_NS + 60 * SECOND), at=7200)

    assert bench.verdicts(7201) == [EARNED]


def test_a_run_that_never_went_on_earns_nothing_and_is_not_compared(bench: Bench) -> None:
    first, _ = segments(candidate())
    bench.traces(control(), first)
    bench.logs(observation("c"), observation("k"))

    assert bench.verdicts(DAY_S - 1) == []
    assert bench.verdicts(DAY_S) == []
    assert {line.run.run_id: line.outcome.value for line in bench.ledger.runs()} == {
        "c": "unpaired",
        "k": "incomplete",
    }


def test_a_second_segment_alone_is_incomplete(bench: Bench) -> None:
    _, second = segments(candidate())
    bench.traces(control(), second)
    bench.logs(observation("c"), observation("k", observed_ns=START_NS + 2 * DAY_NS))

    ((avoided, withheld, causes),) = bench.verdicts(WAIT_S)

    assert (avoided, withheld) == (0, 2)
    assert causes[0] == "incomplete-run"


def test_a_late_span_within_the_wait_is_in_time(bench: Bench) -> None:
    late, *rest = list(shatter(candidate()))[::-1]
    bench.traces(control(), *rest)
    bench.logs(observation("c"), observation("k"))
    assert bench.verdicts(WAIT_S - 2) == []
    bench.traces(late, at=WAIT_S - 2)

    assert bench.verdicts(WAIT_S - 1) == [EARNED]


def test_a_span_after_the_verdict_changes_nothing_and_is_held_against_it(bench: Bench) -> None:
    """A19: what is published never falls."""
    late, *rest = list(shatter(candidate()))[::-1]
    bench.traces(control(), *rest)
    bench.logs(observation("c"), observation("k"))
    assert bench.verdicts(WAIT_S) == [(0, 1, ("incomplete-run",))]
    bench.traces(late, at=WAIT_S + 1)

    assert bench.verdicts(WAIT_S + 2) == []
    assert [each.pair.withheld for each in bench.ledger.contradictions()] == [1]
