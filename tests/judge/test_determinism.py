"""Same facts in any order, any splitting, any duplication: same runs and verdicts, to the byte."""

from __future__ import annotations

from collections import defaultdict

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from otel_turnavoid.dialects import Reader
from otel_turnavoid.judge.assembly import assemble
from otel_turnavoid.judge.attribution import attribute, stray_run_id
from otel_turnavoid.judge.judging import comparable_null, judge, judge_null
from otel_turnavoid.judge.pairing import pair
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.judge.verdict import encode
from otel_turnavoid.otlp import read_logs, read_traces
from otel_turnavoid.testing import Call, Turn, observation, other_spans, run_spans, shatter
from otel_turnavoid.vocabulary import Arm, Entry, Evidence

READER = Reader(Settings())
SETTINGS = Settings(accept=frozenset(Evidence))
FAILED, LOSER = Call(disposition="failed"), Call(purpose="speculation", disposition="discarded")

TRACES = (
    run_spans(run_id="c0", arm="control", turns=4),
    run_spans(run_id="c1", arm="control", turns=3, start_ns=1_780_000_020_000_000_000),
    run_spans(
        run_id="k0",
        arm="exact-reuse",
        turns=[Turn(calls=(FAILED, Call())), Turn(calls=(LOSER, Call(), Call()))],
    ),
    run_spans(run_id="k1", arm="exact-reuse", turns=2, lost={3}, trace_id=b"1" * 16),
    run_spans(run_id="f0", arm="fused-batch", turns=5, state="failed", trace_id=b"1" * 16),
    run_spans(run_id="f0", arm="fused-batch", turns=5, service="other"),
    other_spans(3),
)
SEEN = tuple(
    observation(run_id, labels)
    for run_id, labels in [
        ("c0", ("a", "b", "a")),
        ("c1", ("a",)),
        ("k0", ("b", "a", "a")),
        ("k1", ("a",)),
        ("k1", ("b",)),
        ("f0", ()),
    ]
)


def verdicts(facts, observations, setting=SETTINGS) -> bytes:
    """Runs and decisions on these facts as bytes, as a processor would make them."""
    found = attribute(facts)
    groups = dict(found.runs)
    groups |= {stray_run_id(trace_id): strays for trace_id, strays in found.strays.items()}
    seen = defaultdict(list)
    for each in observations:
        seen[each.run_id].append(each)
    runs = [assemble(name, groups[name], seen[name], setting) for name in sorted(groups)]
    keyed = defaultdict(list)
    for run in runs:
        if run.key is not None:
            keyed[run.key].append(run)
    decided = []
    for _, members in sorted(keyed.items()):
        pairs = pair(members)
        decided += [judge(control, candidate, setting) for control, candidate in pairs.candidates]
        decided += [
            judge_null(*both, setting) for both in pairs.null if comparable_null(*both, setting)
        ]
    return b"\n".join([*map(msgspec.json.encode, runs), *map(encode, decided)])


@pytest.fixture(scope="module")
def facts(script):
    """Our runs, runs that others' spans show, strays, copies, replays and contradictions."""
    found = [fact for body in TRACES for fact in read_traces(body, READER).facts]
    found += [
        replace(fact, trace_id="replayed", span_id=f"r{fact.span_id}", parent_id=None)
        for fact in found
        if fact.run_id == "c1"
    ]
    found += [replace(fact, failed=True) for fact in found if fact.run_id == "k1" and fact.call]
    for name, arm in (("i0", Arm.CONTROL), ("i1", Arm.FUSED_BATCH)):
        run = script(name, arm, trace_id=f"t-{name}")
        run.now_ms = 0
        root = run.foreign(
            Entry.INVOKE, parent_id=None, ms=9000, start_ms=0, arm=arm, invoke=run.done()[0].invoke
        )
        for number in range(3):
            outer = run.foreign(Entry.LLM_CALL, root, start_ms=100 * number, ms=90)
            run.foreign(Entry.LLM_CALL, outer, start_ms=100 * number + 5, ms=50, scope="b")
        run.foreign(Entry.TOOL_TURN, root, start_ms=50, ms=10, parent_id="lost")
        run.foreign(Entry.LLM_CALL, start_ms=20_000, parent_id=None)
        found += run.spans
    return found


@pytest.fixture(scope="module")
def observations():
    return [each for body in SEEN for each in read_logs(body, READER).observations]


@pytest.fixture(scope="module")
def expected(facts, observations):
    return verdicts(facts, observations)


def test_there_is_something_to_decide(expected) -> None:
    lines = expected.split(b"\n")

    assert sum(b'"type":"pair"' in line for line in lines) == 4
    assert sum(b'"type":"null"' in line for line in lines) == 1


@given(data=st.data())
@settings(max_examples=3 * settings().max_examples, deadline=None)
def test_order_and_duplication_change_nothing(facts, observations, expected, data) -> None:
    seed = data.draw(st.randoms(use_true_random=False))
    some = [*facts, *seed.choices(facts, k=seed.randrange(40))]
    seen = [*observations, *seed.choices(observations, k=seed.randrange(4))]
    seed.shuffle(some)
    seed.shuffle(seen)

    assert verdicts(some, seen) == expected


@given(data=st.data())
@settings(max_examples=settings().max_examples // 3, deadline=None)
def test_splitting_changes_nothing(data) -> None:
    seed = data.draw(st.randoms(use_true_random=False))
    whole = [fact for body in TRACES for fact in read_traces(body, READER).facts]
    parts = [part for body in TRACES for part in shatter(body)]
    seed.shuffle(parts)

    split = [fact for part in parts for fact in read_traces(part, READER).facts]

    assert verdicts(split, []) == verdicts(whole, [])


@given(data=st.data())
@settings(max_examples=settings().max_examples * 2 // 3, deadline=None)
def test_any_part_of_the_facts_can_be_judged(facts, observations, data) -> None:
    """Facts trickle in: whatever is there so far makes runs and verdicts, in any order alike."""
    seed = data.draw(st.randoms(use_true_random=False))
    part = seed.sample(facts, k=seed.randrange(1, len(facts)))

    assert verdicts(part, observations) == verdicts(part[::-1], observations[::-1])


@given(data=st.data())
@settings(max_examples=settings().max_examples * 3 // 2, deadline=None)
def test_losing_facts_of_the_candidate_earns_nothing(script, observation, data) -> None:
    """No subset of a declared run's spans avoids more turns than the whole."""
    control = script("c", Arm.CONTROL).turns(3, tools=1).done()
    candidate = script("k", start_ms=60_000).turns(3, tools=1).done()
    lost = data.draw(st.sets(st.sampled_from(range(len(candidate))), min_size=1))
    kept = [fact for number, fact in enumerate(candidate) if number not in lost]
    runs = [
        assemble(name, part, [observation(name, "a", at_ms=60_000)], Settings())
        for name, part in (("c", control), ("k", kept))
        if part
    ]

    found = pair(runs)

    decided = [judge(one, other, Settings()) for one, other in found.candidates]
    assert sum(verdict.avoided for verdict in decided) == 0
