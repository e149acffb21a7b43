"""Every withheld cause and every rejection, alone and together with others, from OTLP bytes.

A scene is a control and a candidate that would earn one turn. Each spoiler spoils one thing of
it, in what agents and observers send; what must come of that is stated beside it, by hand.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from otel_turnavoid.dialects import Reader
from otel_turnavoid.judge.settings import SECOND, Settings
from otel_turnavoid.judge.verdict import PairDecided
from otel_turnavoid.otlp import read_logs, read_traces
from otel_turnavoid.store import Ledger
from otel_turnavoid.testing import START_NS, Call, Turn, observation, run_spans, shatter
from otel_turnavoid.vocabulary import Outcome, Rejection
from otel_turnavoid.vocabulary import WithheldCause as Cause

NOW_NS = 1_790_000_000 * SECOND
DAY_NS = 24 * 3600 * SECOND
EFFECTS = ("mailed", "refunded")
EMPTY_LIST = "sha256:4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"
"""SHA-256 of ``[]``."""
OTHER = "sha256:" + "ab" * 32

SUBJECT, OTHER_OBSERVER = {"service": "agent", "instance": "agent-k"}, {"observer": "mailbox/v1"}


def turns_of(number: int) -> list[Turn]:
    return [Turn()] * number


@dataclass
class Scene:
    """What is sent: options of ``run_spans`` and ``observation``, and whatever comes beside."""

    control: dict[str, Any] = field(default_factory=dict)
    candidate: dict[str, Any] = field(default_factory=dict)
    of_control: list[dict[str, Any]] = field(default_factory=lambda: [{"labels": EFFECTS}])
    of_candidate: list[dict[str, Any]] = field(default_factory=lambda: [{"labels": EFFECTS}])
    edits: list[Callable[[dict[str, Span]], None]] = field(default_factory=list)
    """Changes of the candidate's spans, by name; of several of one name the first."""
    more: list[bytes] = field(default_factory=list)
    """Further trace requests."""
    settings: dict[str, Any] = field(default_factory=dict)

    def traces(self) -> list[bytes]:
        control = run_spans(**{"run_id": "c", "arm": "control", "turns": 3, **self.control})
        said = {"run_id": "k", "arm": "fused-batch", "turns": 2, **self.candidate}
        return [control, edited(run_spans(**said), *self.edits), *self.more]

    def logs(self) -> list[bytes]:
        seen = [("c", self.of_control), ("k", self.of_candidate)]
        return [observation(run_id, **said) for run_id, each in seen for said in each]


def edited(request: bytes, *edits: Callable[[dict[str, Span]], None]) -> bytes:
    """Return a trace request with its spans changed."""
    whole = ExportTraceServiceRequest.FromString(request)
    spans = whole.resource_spans[0].scope_spans[0].spans
    named = {span.name: span for span in reversed(spans)}
    for edit in edits:
        edit(named)
    return whole.SerializeToString()


def decided(scene: Scene) -> tuple[list[PairDecided], dict[str, Any]]:
    """Return the pairs, and every run with its outcome."""
    judging = Settings(**scene.settings)
    reader = Reader(judging)
    facts = [fact for body in scene.traces() for fact in read_traces(body, reader).facts]
    seen = [each for body in scene.logs() for each in read_logs(body, reader).observations]
    with (
        tempfile.TemporaryDirectory() as folder,
        Ledger.open(f"sqlite:///{Path(folder) / 'ledger.db'}") as ledger,
    ):
        ledger.add(facts, seen, arrived_ns=NOW_NS)
        made = ledger.decide(judging, now_ns=NOW_NS, final=True)
        runs = {line.run.run_id: line for line in ledger.runs()}
    return [one for one in made if isinstance(one, PairDecided)], runs


def spoil(scene: Scene, *spoilers: Callable[[Scene], None]) -> Scene:
    for each in spoilers:
        each(scene)
    return scene


# Spoilers of the runs: any of them may come with any other.


def attempted(scene: Scene) -> None:
    scene.candidate["lifecycle"] = "attempted"


def unsaid_lifecycle(scene: Scene) -> None:
    scene.candidate["lifecycle"] = None


def failed(scene: Scene) -> None:
    scene.candidate["state"] = "failed"


def aborted_control(scene: Scene) -> None:
    scene.control["state"] = "aborted"


def call_lost(scene: Scene) -> None:
    scene.candidate["lost"] = [3]


def user_turn_of_control_lost(scene: Scene) -> None:
    scene.control["lost"] = [1]


def attributes_dropped(scene: Scene) -> None:
    def edit(named: dict[str, Span]) -> None:
        named["agent_turn"].dropped_attributes_count = 2

    scene.edits.append(edit)


def impaired(scene: Scene) -> None:
    attributes = scene.candidate.setdefault("attributes", {})
    attributes["turnavoid.invoke.impaired"] = 1


def no_counts(scene: Scene) -> None:
    scene.control["counts"] = False


def made_up_turn(scene: Scene) -> None:
    """A control pads itself with a turn in which no call of its was made."""
    scene.control["turns"] = [*turns_of(3), Turn(calls=(), tools=())]


def sub_agent_apart(scene: Scene) -> None:
    """The candidate moves work into a sub-agent that gets a run id of its own."""
    inner = run_spans(run_id="inner", arm=None, turns=5, trace_id=run_trace("k"), digest="")

    def below(named: dict[str, Span]) -> None:
        named["invoke_agent orders"].parent_span_id = span_id("k", 2)

    scene.more.append(edited(inner, below))


def span_claimed(scene: Scene) -> None:
    """A span of the candidate comes again as one of another run."""
    other = run_spans(run_id="thief", arm=None, turns=1, trace_id=run_trace("k"), digest="")

    def take(named: dict[str, Span]) -> None:
        named["user_turn"].span_id = span_id("k", 1)

    scene.more.append(edited(other, take))


def two_contents(scene: Scene) -> None:
    """One span of the control comes with two end times."""
    *_, last = shatter(run_spans(run_id="c", arm="control", turns=3))

    def longer(named: dict[str, Span]) -> None:
        for span in named.values():
            span.end_time_unix_nano += 1

    scene.more.append(edited(last, longer))


def sampled(scene: Scene) -> None:
    scene.control["trace_state"] = "vendor=a,ot=th:8"


def sampled_long_ago(scene: Scene) -> None:
    """The older way to state a probability."""
    scene.candidate["trace_state"] = "ot=r:10;p:4"


def other_model(scene: Scene) -> None:
    scene.candidate["model"] = "gpt-5.1-mini"


def speculation_with_another_model(scene: Scene) -> None:
    """What the generations of a turn are called does not matter: their model does."""
    guess = Call(purpose="speculation", model="gpt-5.1-mini")
    scene.candidate["turns"] = [Turn(calls=(guess,)), Turn(calls=(guess,))]


def other_instrumentation(scene: Scene) -> None:
    scene.candidate["scope"] = "a.fork.of.ours"


def run_trace(run_id: str) -> bytes:
    return bytes.fromhex(read_traces(run_spans(run_id=run_id), Reader()).facts[0].trace_id)


def span_id(run_id: str, seq: int) -> bytes:
    return bytes.fromhex(read_traces(run_spans(run_id=run_id), Reader()).facts[seq].span_id)


OF_RUNS: Mapping[Callable[[Scene], None], Cause] = {
    attempted: Cause.LIFECYCLE_NOT_REALIZED,
    unsaid_lifecycle: Cause.LIFECYCLE_NOT_REALIZED,
    failed: Cause.RUN_NOT_COMPLETED,
    aborted_control: Cause.RUN_NOT_COMPLETED,
    call_lost: Cause.INCOMPLETE_RUN,
    user_turn_of_control_lost: Cause.INCOMPLETE_RUN,
    attributes_dropped: Cause.INCOMPLETE_RUN,
    impaired: Cause.INCOMPLETE_RUN,
    no_counts: Cause.COMPLETENESS_UNPROVEN,
    made_up_turn: Cause.COMPLETENESS_UNPROVEN,
    sub_agent_apart: Cause.COMPLETENESS_UNPROVEN,
    span_claimed: Cause.CONFLICTING_EVIDENCE,
    two_contents: Cause.CONFLICTING_EVIDENCE,
    sampled: Cause.SAMPLED,
    sampled_long_ago: Cause.SAMPLED,
    other_model: Cause.MODEL_MISMATCH,
    speculation_with_another_model: Cause.MODEL_MISMATCH,
    other_instrumentation: Cause.INSTRUMENTATION_MISMATCH,
}

FOR_OTHERS = {
    two_contents: {user_turn_of_control_lost, sampled, no_counts, made_up_turn, aborted_control},
    made_up_turn: {no_counts, user_turn_of_control_lost},
}
"""Spoilers that would show something else together with these."""


# Situations of the observers: one at a time.


def seen(of_control: Iterable[dict[str, Any]], of_candidate: Iterable[dict[str, Any]]) -> Any:
    def situation(scene: Scene) -> None:
        scene.of_control, scene.of_candidate = list(of_control), list(of_candidate)

    return situation


GOOD = {"labels": EFFECTS}
ORDERED = {"labels": EFFECTS, "ordered": True}
OF_OBSERVERS: Mapping[str, tuple[Any, tuple[Cause, ...]]] = {
    "as it should be": (seen([GOOD], [GOOD]), ()),
    "in another order": (seen([GOOD], [{"labels": EFFECTS[::-1]}]), ()),
    "ordered and in order": (seen([ORDERED], [ORDERED]), ()),
    "ordered and in another order": (
        seen([ORDERED], [{**ORDERED, "labels": EFFECTS[::-1]}]),
        (Cause.EFFECTS_SUPPRESSED, Cause.EFFECTS_ADDED),
    ),
    "nobody at all": (seen([], []), (Cause.EFFECTS_UNOBSERVED,)),
    "nobody saw the candidate": (seen([GOOD], []), (Cause.EFFECTS_UNOBSERVED,)),
    "stale": (
        seen([GOOD], [{**GOOD, "observed_ns": START_NS - DAY_NS}]),
        (Cause.EFFECTS_UNOBSERVED,),
    ),
    "nothing was required": (
        seen([{"labels": ()}], [{"labels": ()}]),
        (Cause.NO_REQUIRED_EFFECTS,),
    ),
    "nothing was required, something happened": (
        seen([{"labels": ()}], [GOOD]),
        (Cause.NO_REQUIRED_EFFECTS, Cause.EFFECTS_ADDED),
    ),
    "the candidate reports itself": (
        seen([GOOD], [{**GOOD, **SUBJECT}]),
        (Cause.OBSERVER_NOT_INDEPENDENT,),
    ),
    "the candidate reports itself, and lies": (
        seen([GOOD], [{"labels": EFFECTS[:1], **SUBJECT}]),
        (Cause.OBSERVER_NOT_INDEPENDENT, Cause.EFFECTS_SUPPRESSED),
    ),
    "somebody else saw the candidate": (
        seen([GOOD], [{**GOOD, **OTHER_OBSERVER}]),
        (Cause.OBSERVER_MISMATCH,),
    ),
    "the candidate under a name of its own": (
        seen([GOOD], [{**GOOD, **OTHER_OBSERVER, **SUBJECT}]),
        (Cause.OBSERVER_NOT_INDEPENDENT, Cause.OBSERVER_MISMATCH),
    ),
    "one is missing": (seen([GOOD], [{"labels": EFFECTS[:1]}]), (Cause.EFFECTS_SUPPRESSED,)),
    "one happened twice": (
        seen([GOOD], [{"labels": (*EFFECTS, "mailed")}]),
        (Cause.EFFECTS_ADDED,),
    ),
    "another one happened": (
        seen([GOOD], [{"labels": ("mailed", "charged")}]),
        (Cause.EFFECTS_SUPPRESSED, Cause.EFFECTS_ADDED),
    ),
}


def check(scene: Scene, causes: Iterable[Cause]) -> None:
    """Assert that exactly these causes come of a scene, and that nothing is lost in counting."""
    expected = tuple(cause for cause in Cause if cause in set(causes))
    ((pair, *others), _) = decided(scene)

    assert others == []
    assert (pair.control.run_id, pair.candidate.run_id) == ("c", "k")
    assert pair.causes == expected
    turns = (pair.control.model_turns or 0) - (pair.candidate.model_turns or 0)
    assert (pair.potential, pair.added) == (max(turns, 0), max(-turns, 0))
    assert (pair.avoided, pair.withheld) == ((0, turns) if expected else (turns, 0))


@pytest.mark.parametrize("spoiler", OF_RUNS, ids=lambda each: each.__name__)
def test_what_spoils_a_run_gives_exactly_its_cause(spoiler: Any) -> None:
    check(spoil(Scene(), spoiler), [OF_RUNS[spoiler]])


@pytest.mark.parametrize("situation", OF_OBSERVERS)
def test_what_observers_say_gives_exactly_its_causes(situation: str) -> None:
    observe, causes = OF_OBSERVERS[situation]

    check(spoil(Scene(), observe), causes)


def compatible(spoilers: Iterable[Any]) -> bool:
    chosen = set(spoilers)
    fields = [
        (failed,),
        (attempted, unsaid_lifecycle),
        (other_model, speculation_with_another_model),
    ]
    return not any(FOR_OTHERS.get(each, set()) & chosen for each in chosen) and not any(
        len(chosen & set(group)) > 1 for group in fields
    )


@given(
    spoilers=st.sets(st.sampled_from(list(OF_RUNS)), max_size=8).filter(compatible),
    situation=st.sampled_from(list(OF_OBSERVERS)),
)
@settings(max_examples=settings().max_examples // 2, deadline=None)
def test_causes_add_up(spoilers: set[Any], situation: str) -> None:
    observe, causes = OF_OBSERVERS[situation]
    ordered = sorted(spoilers, key=lambda each: each.__name__)

    check(spoil(Scene(), *ordered, observe), [*causes, *(OF_RUNS[each] for each in ordered)])


# Rejections


def vocabulary(scene: Scene) -> None:
    scene.candidate["reason"] = "Exact-Match"


def mechanism_of_the_control(scene: Scene) -> None:
    scene.candidate["mechanism"] = "control"


def run_id_with_space(scene: Scene) -> None:
    scene.candidate["unit"] = " u "


def digest_cut(scene: Scene) -> None:
    scene.candidate["digest"] = "sha256:abc"


def digest_of_nothing(scene: Scene) -> None:
    scene.candidate["digest"] = EMPTY_LIST


def no_digest(scene: Scene) -> None:
    scene.candidate["digest"] = ""


def leakage(scene: Scene) -> None:
    scene.candidate |= {"turn_index": 2, "decision_basis": 2}


def no_arm(scene: Scene) -> None:
    scene.candidate["arm"] = None


def used_again_with_another_input(scene: Scene) -> None:
    again = run_spans(run_id="k", arm=scene.candidate.get("arm", "fused-batch"), digest=OTHER)

    def elsewhere(named: dict[str, Span]) -> None:
        for number, span in enumerate(named.values()):
            span.trace_id, span.span_id = b"2" * 16, bytes([number + 1]) * 8

    scene.more.append(edited(again, elsewhere))


def used_again_in_another_arm(scene: Scene) -> None:
    """The second use names the arm that the first one does not."""
    scene.more.append(run_spans(run_id="k", arm="exact-reuse", turns=2, trace_id=b"3" * 16))
    scene.more.append(run_spans(run_id="k", arm="fused-batch", turns=2, trace_id=b"4" * 16))


REFUSED: Mapping[Callable[[Scene], None], Rejection] = {
    vocabulary: Rejection.VOCABULARY,
    mechanism_of_the_control: Rejection.VOCABULARY,
    run_id_with_space: Rejection.VOCABULARY,
    digest_cut: Rejection.DIGEST,
    digest_of_nothing: Rejection.DIGEST,
    no_digest: Rejection.DIGEST,
    leakage: Rejection.LEAKAGE,
    no_arm: Rejection.ARM_MISSING,
    used_again_with_another_input: Rejection.RUN_ID_REUSED,
    used_again_in_another_arm: Rejection.RUN_ID_REUSED,
}


def check_refused(scene: Scene, rejections: Iterable[Rejection]) -> None:
    pairs, runs = decided(scene)

    assert pairs == []
    assert runs["k"].outcome is Outcome.REJECTED
    assert runs["c"].outcome is Outcome.UNPAIRED
    assert runs["k"].run.rejections == tuple(each for each in Rejection if each in set(rejections))
    assert len(runs["k"].run.problems) >= len(runs["k"].run.rejections)


@pytest.mark.parametrize("spoiler", REFUSED, ids=lambda each: each.__name__)
def test_what_breaks_the_contract_is_refused_for_exactly_that(spoiler: Any) -> None:
    check_refused(spoil(Scene(), spoiler), [REFUSED[spoiler]])


TOGETHER = (vocabulary, digest_cut, leakage, used_again_in_another_arm)
WITHOUT_ARM = (vocabulary, leakage, no_arm, run_id_with_space)


@given(
    st.one_of(
        st.sets(st.sampled_from(TOGETHER), min_size=2),
        st.sets(st.sampled_from(WITHOUT_ARM), min_size=2),
    ),
    st.sets(st.sampled_from([failed, call_lost, sampled, other_model])),
)
@settings(max_examples=settings().max_examples // 8, deadline=None)
def test_rejections_add_up_whatever_else_is_wrong(spoilers: set[Any], others: set[Any]) -> None:
    ordered = sorted(spoilers, key=lambda each: each.__name__)

    check_refused(spoil(Scene(), *ordered, *others), [REFUSED[each] for each in ordered])


# What the configuration lets pass


@pytest.mark.parametrize(
    ("spoilers", "lets", "comparison"),
    [
        ([other_model], {"any_model": True}, "cross-model"),
        ([other_instrumentation], {"any_instrumentation": True}, "cross-instrumentation"),
        (
            [other_model, other_instrumentation],
            {"any_model": True, "any_instrumentation": True},
            "cross-both",
        ),
        ([], {"any_model": True, "any_instrumentation": True}, None),
    ],
)
def test_what_may_differ_earns_in_a_series_of_its_own(
    spoilers: Any, lets: dict[str, bool], comparison: str | None
) -> None:
    ((pair,), _) = decided(spoil(Scene(settings=lets), *spoilers))

    assert (pair.avoided, pair.causes, pair.comparison) == (1, (), comparison)


@pytest.mark.parametrize("accept", [{"declared"}, {"declared", "inferred"}, {"inferred"}, set()])
def test_declared_evidence_counts_where_the_configuration_accepts_it(accept: set[str]) -> None:
    scene = Scene(settings={"accept": frozenset(accept)})

    check(scene, [] if "declared" in accept else [Cause.COMPLETENESS_UNPROVEN])
