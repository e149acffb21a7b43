"""From requests to accounts: no damage on the way may earn more than what was sent does."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource

from fuzz.choices import Choices
from fuzz.finding import check_refusal, hold
from fuzz.mutating import HARMLESS, damaged, drop_spans, mutated, spans_of
from fuzz.wire import PLAIN
from otel_turnavoid.errors import InputError
from otel_turnavoid.judge.accounts import postings
from otel_turnavoid.judge.assembly import assemble
from otel_turnavoid.judge.attribution import attribute
from otel_turnavoid.judge.facts import Observation, SpanFact
from otel_turnavoid.judge.judging import judge
from otel_turnavoid.judge.pairing import pair
from otel_turnavoid.judge.run import Run
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.judge.verdict import Decision, PairDecided, RunDecided, decode, encode
from otel_turnavoid.ledger import fold
from otel_turnavoid.otlp import read_logs, read_traces
from otel_turnavoid.publish.metrics import metrics_data
from otel_turnavoid.publish.totals import Totals
from otel_turnavoid.publish.trace import trace_rows
from otel_turnavoid.testing import observation, run_spans
from otel_turnavoid.vocabulary import Outcome

SETTINGS: Final = Settings()
_CONTROL, _CANDIDATE = "control run", "candidate run"


def accounts(facts: Iterable[SpanFact], observations: Sequence[Observation]) -> list[PairDecided]:
    """Take facts to every account, as a processor does at the end of its input."""
    facts = list({(fact.trace_id, fact.span_id, repr(fact)): fact for fact in facts}.values())
    sorted_facts = attribute(facts)
    seen: dict[str, list[Observation]] = defaultdict(list)
    for each in observations:
        if each not in seen[each.run_id]:
            seen[each.run_id].append(each)
    runs = [
        assemble(run_id, members, seen.get(run_id, ()), SETTINGS)
        for run_id, members in sorted(sorted_facts.runs.items())
    ]
    by_key: dict[object, list[Run]] = defaultdict(list)
    for run in runs:
        if run.key is not None:
            by_key[run.key].append(run)
    pairs = [
        judge(control, candidate, SETTINGS)
        for group in by_key.values()
        for control, candidate in pair(group).candidates
    ]
    _publish(runs, pairs)
    return pairs


def _publish(runs: list[Run], pairs: list[PairDecided]) -> None:
    totals = Totals()
    made: list[Decision] = [RunDecided(run=run, outcome=Outcome.UNPAIRED) for run in runs]
    for decision in (*made, *pairs):
        hold(encode(decode(encode(decision))) == encode(decision), "a decision is not kept")
        for posting in postings(decision):
            hold(math.isfinite(posting.value), f"{posting.instrument.name} is no number")
        totals.add(decision)
    if runs:
        snapshot = totals.snapshot()
        exported = metrics_data(snapshot, birth_ns=1, now_ns=2, resource=Resource({}))
        encode_metrics(exported).SerializeToString()
    for each in pairs:
        hold(each.avoided + each.withheld == each.potential, "turns are lost or made")
        hold(not (each.avoided and each.added), "avoided and added at once")
    if pairs:
        fold(trace_rows(pairs))


@lru_cache(maxsize=2)
def _sent(candidate_turns: int) -> tuple[bytes, bytes]:
    control = run_spans(run_id=_CONTROL, arm="control", turns=4)
    return control, run_spans(run_id=_CANDIDATE, arm="fused-batch", turns=candidate_turns)


def delivered(requests: Iterable[bytes], labels: Iterable[str] = ("order:42=cancelled",)) -> int:
    """Return the turns avoided according to these requests, both runs being observed."""
    facts: list[SpanFact] = []
    for request in requests:
        facts += _facts(request)
    seen = [
        found
        for run_id in (_CONTROL, _CANDIDATE)
        for found in read_logs(observation(run_id, labels), PLAIN).observations
    ]
    return sum(each.avoided for each in accounts(facts, seen))


def _facts(request: bytes) -> list[SpanFact]:
    try:
        return read_traces(request, PLAIN).facts
    except InputError as error:
        check_refusal(error)
        return []


def credit(data: bytes) -> None:
    """Check a pair of good runs whose export is damaged on the way, as the bytes decide."""
    choices = Choices(data)
    turns = 3 + choices.number(2)
    earned = 4 - turns
    requests = list(_sent(turns))
    side = choices.number(2)
    how = choices.number(4)
    request = ExportTraceServiceRequest.FromString(requests[side])
    whole = len(spans_of(request))
    if how == 0:
        for mutation in HARMLESS:
            mutation(request, choices)
        requests[side] = request.SerializeToString()
        hold(delivered(requests) == earned, "a harmless delivery changes the credit")
    elif how == 1:
        drop_spans(request, choices)
        hold(len(spans_of(request)) < whole, "nothing was dropped")
        requests[side] = request.SerializeToString()
        hold(delivered(requests) == 0, "credit in spite of lost spans")
    elif how == 2:  # noqa: PLR2004
        requests[side] = damaged(requests[side], choices)
        hold(delivered(requests) <= earned, "damaged bytes earn credit")
    else:
        requests[side] = mutated(requests[side], choices)
        hold(delivered(requests) <= earned, "a damaged export earns credit")
