"""What speaks against a run by itself: each check adds to its findings (design section 4)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from otel_turnavoid.judge.across import Across
from otel_turnavoid.judge.calls import Call, Tool
from otel_turnavoid.judge.completeness import gaps, missing
from otel_turnavoid.judge.facts import InvokeDetail, SpanFact
from otel_turnavoid.judge.findings import Findings
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.judge.spans import SpanTree, within
from otel_turnavoid.judge.turns import ModelTurn
from otel_turnavoid.vocabulary import (
    CANDIDATE_ARMS,
    Arm,
    Attr,
    Evidence,
    InvokeState,
    Mechanism,
    Rejection,
    WithheldCause,
)

_SHOWN = 4
COMPLETED_WITH_AN_ERROR = "an Invoke says that it completed, and its span that it ended in an error"
"""The problem of a run whose Invoke contradicts itself."""


def check_facts(tree: SpanTree, findings: Findings) -> None:
    """Hold against a run what its spans say wrongly, twice, or only in part."""
    for fact in tree.facts:
        for fault in fact.faults:
            findings.reject(fault.cause, f"span {fact.span_id}: {fault.attribute}: {fault.problem}")
    for conflict in tree.conflicts:
        findings.withhold(WithheldCause.CONFLICTING_EVIDENCE, conflict)
    for fact in tree.facts:
        if fact.own and fact.dropped:
            findings.withhold(
                WithheldCause.INCOMPLETE_RUN,
                f"span {fact.span_id}: {fact.dropped} attributes were dropped by a span limit",
            )
    unknown = [fact for fact in tree.facts if fact.dropped and fact.entry is None]
    if unknown and not any(fact.own for fact in tree.facts):
        findings.withhold(
            WithheldCause.COMPLETENESS_UNPROVEN,
            f"{len(unknown)} spans lost attributes to a span limit, and perhaps what shows that"
            " they are model calls",
        )
    for dropped in sorted({fact.resource_dropped for fact in tree.facts if fact.own} - {0}):
        findings.withhold(
            WithheldCause.INCOMPLETE_RUN,
            f"{dropped} attributes of the resource were dropped, and perhaps the run's own",
        )
    if any(fact.sampled for fact in tree.facts):
        findings.withhold(WithheldCause.SAMPLED, "the trace state shows sampling")


def check_across(found: Across, findings: Findings) -> None:
    """Hold against a run what the spans of other runs say about it."""
    if found.claimed_by:
        findings.withhold(
            WithheldCause.CONFLICTING_EVIDENCE,
            f"spans of this run are claimed by another one too: {_shown(found.claimed_by)}",
        )
    if found.inside:
        findings.withhold(
            WithheldCause.COMPLETENESS_UNPROVEN,
            "another run began inside of this one, under an id of its own, and its turns are not"
            f" in the count: {_shown(found.inside)}",
        )
    if found.perhaps_inside:
        findings.withhold(
            WithheldCause.COMPLETENESS_UNPROVEN,
            "another run began in the trace of this one, below a span that is not here, and nothing"
            " shows that its turns are not this one's:"
            f" {_shown(found.perhaps_inside)}",
        )


def check_identity(tree: SpanTree, outermost: Sequence[SpanFact], findings: Findings) -> None:
    """Refuse a run id that two different runs carry."""
    arms = {(fact.arm, fact.variant) for fact in tree.facts if fact.arm is not None}
    digests = {fact.invoke.digest for fact in outermost if fact.invoke and fact.invoke.digest}
    if len({arm for arm, _ in arms}) > 1:
        named = ", ".join(sorted({arm.value for arm, _ in arms}))
        findings.reject(Rejection.RUN_ID_REUSED, f"the run id stands for several arms: {named}")
    elif len({variant for _, variant in arms if variant is not None}) > 1:
        findings.reject(Rejection.RUN_ID_REUSED, "the run id stands for several variants")
    if len(digests) > 1:
        findings.reject(Rejection.RUN_ID_REUSED, "the run id stands for several input digests")
    given: dict[str, set[str]] = {}
    for fact in tree.facts:
        for flag, variant in fact.flags.items():
            given.setdefault(flag, set()).add(variant)
    for flag, variants in sorted(given.items()):
        if len(variants) > 1:
            shown = ", ".join(sorted(map(repr, variants)))
            findings.reject(Rejection.RUN_ID_REUSED, f"{flag} gave several variants: {shown}")


def check_declared(
    tree: SpanTree,
    outermost: Sequence[SpanFact],
    calls: Sequence[Call],
    tools: Sequence[Tool],
    findings: Findings,
) -> None:
    """Hold what arrived against what the last outermost Invoke declares."""
    invokes = [fact.invoke for fact in outermost if fact.invoke is not None]
    impaired = sum(invoke.impaired or 0 for invoke in invokes)
    if impaired:
        findings.withhold(
            WithheldCause.INCOMPLETE_RUN,
            f"the Invoke says that {impaired} entries were not, or not wholly, recorded",
        )
    stated = [invoke.counts for invoke in invokes if invoke.counts]
    if not stated:
        if outermost:
            findings.withhold(
                WithheldCause.COMPLETENESS_UNPROVEN,
                "the Invoke declares no counts, so nothing proves that all spans arrived",
            )
            for problem in gaps(tree):
                findings.withhold(WithheldCause.INCOMPLETE_RUN, problem)
        return
    if len(set(stated)) > 1:
        findings.withhold(
            WithheldCause.CONFLICTING_EVIDENCE, "two Invokes of the run declare different counts"
        )
    for problem in missing(tree, stated[-1], calls, tools):
        findings.withhold(WithheldCause.INCOMPLETE_RUN, problem)


def check_turns(
    outermost: Sequence[SpanFact], turns: Sequence[ModelTurn], findings: Findings
) -> None:
    """Hold it against a whole run if turns are said to be committed that no call shows.

    Where no call is ever shown, turns are believed; beside shown calls they could be made up.
    """
    if WithheldCause.INCOMPLETE_RUN in findings.causes:
        return
    stated = [fact.invoke.counts for fact in outermost if fact.invoke and fact.invoke.counts]
    calls = stated[-1].llm_calls if stated else 0
    empty = sum(turn.committed and not turn.calls for turn in turns)
    if calls and empty:
        findings.withhold(
            WithheldCause.COMPLETENESS_UNPROVEN,
            f"{empty} committed AgentTurns hold none of the {calls} declared calls; a turn in which"
            " no model was asked is not committed",
        )
    unproven = 0 if calls else sum(not turn.committed and not turn.calls for turn in turns)
    if unproven:
        findings.withhold(
            WithheldCause.COMPLETENESS_UNPROVEN,
            f"{unproven} AgentTurns are said to be failed or discarded, and the run has no call"
            " that shows it",
        )


def check_continuations(calls: Sequence[Call], findings: Findings) -> None:
    """Hold it against a whole run if calls go on with an answer that was never begun.

    A continuation adds no turn; whoever says so of a call must have been sampled before.
    """
    if WithheldCause.INCOMPLETE_RUN in findings.causes:
        return
    begun = [call.fact for call in calls if call.began]
    unfounded = sum(
        call.continues and not any(_precedes(fact, call.fact) for fact in begun) for call in calls
    )
    if unfounded:
        findings.withhold(
            WithheldCause.COMPLETENESS_UNPROVEN,
            f"{unfounded} calls say that they only went on with an answer (samplings 0), and no"
            " call before them began one",
        )


def check_inputs(turns: Sequence[ModelTurn], findings: Findings) -> None:
    """Hold it against a run if generations of one turn cannot have had the one input they state.

    One model counts one input alike.
    """
    for turn in turns:
        counted: dict[tuple[str, str | None], set[int]] = defaultdict(set)
        for call in turn.calls:
            stated, tokens = call.input_digest, call.plain_input
            if call.generated and stated is not None and tokens is not None:
                counted[stated, call.model].add(tokens)
        for different in counted.values():
            if len(different) > 1:
                findings.withhold(
                    WithheldCause.CONFLICTING_EVIDENCE,
                    "calls with one input digest differ in their input tokens:"
                    f" {', '.join(map(str, sorted(different)))}",
                )


def check_segments(outermost: Sequence[SpanFact], findings: Findings) -> None:
    """Hold it against a run if any part of it failed, whatever is said in the end.

    An error that the agent recovered from stands on the call, tool or sub-agent that had it.
    """
    for fact in outermost:
        state = fact.invoke.state if fact.invoke is not None else None
        if state is InvokeState.COMPLETED and fact.failed:
            findings.withhold(WithheldCause.RUN_NOT_COMPLETED, COMPLETED_WITH_AN_ERROR)
    for fact in outermost[:-1]:
        state = fact.invoke.state if fact.invoke is not None else None
        apart = not any(within(fact, other) for other in outermost if other is not fact)
        if apart and state in (InvokeState.FAILED, InvokeState.ABORTED):
            findings.withhold(
                WithheldCause.RUN_NOT_COMPLETED,
                f"a part of the run, before it went on, ended as {state}",
            )


def check_evidence(evidence: Evidence, settings: Settings, findings: Findings) -> None:
    """Hold it against a run if the configuration does not accept its kind of evidence."""
    if evidence not in settings.accept:
        seen = "no Invoke declares counts; " if evidence is Evidence.INFERRED else ""
        findings.withhold(
            WithheldCause.COMPLETENESS_UNPROVEN,
            f"{seen}{evidence} evidence is not accepted by the configuration",
        )


def check_end(state: InvokeState | None, *, ended: bool, seen: bool, findings: Findings) -> None:
    """Hold it against a run if it has not ended, or not well; ``seen``: its Invoke arrived."""
    if not ended:
        what = "paused and did not go on" if seen else "its Invoke never arrived"
        findings.withhold(WithheldCause.INCOMPLETE_RUN, f"the run has not ended: {what}")
    elif state is not InvokeState.COMPLETED:
        said = state.value if state is not None else "an unstated state"
        findings.withhold(WithheldCause.RUN_NOT_COMPLETED, f"the run ended as {said}")


def check_said(said: InvokeDetail, arm: Arm | None, findings: Findings) -> None:
    """Refuse what the Invokes of a run cannot say together."""
    turn_index, basis = said.turn_index or 0, said.decision_basis
    leaks = basis is not None and basis >= turn_index
    if leaks and Rejection.LEAKAGE not in findings.rejections:
        problem = f"the decision knew turn {basis} and was made for turn {turn_index}"
        findings.reject(Rejection.LEAKAGE, problem)
    if arm in CANDIDATE_ARMS and said.mechanism is Mechanism.CONTROL:
        findings.reject(
            Rejection.VOCABULARY,
            f"{Attr.MECHANISM}: {Mechanism.CONTROL} is no mechanism of the arm {arm}",
        )


def names_arm(tree: SpanTree) -> bool:
    """Whether any span names an arm, rightly or in a spelling that was refused."""
    return any(
        fact.arm is not None or any(fault.attribute == Attr.ARM for fault in fact.faults)
        for fact in tree.facts
    )


def _precedes(fact: SpanFact, other: SpanFact) -> bool:
    """Whether a span came first: by number, as clocks differ, and else by its start."""
    if fact.seq is not None and other.seq is not None:
        return fact.seq < other.seq
    return fact.start_ns <= other.start_ns


def _shown(run_ids: Sequence[str]) -> str:
    return ", ".join(run_ids[:_SHOWN]) + (", …" if len(run_ids) > _SHOWN else "")
