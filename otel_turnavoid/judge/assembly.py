"""From the facts of one run to the Run that is paired and judged.

Nothing here depends on the order in which facts arrived, on how often they came, or on when.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec

from otel_turnavoid.digest import input_digest
from otel_turnavoid.errors import DigestError
from otel_turnavoid.judge.attribution import stray_run_id
from otel_turnavoid.judge.calls import Call, Tool, calls_of, tools_of
from otel_turnavoid.judge.completeness import last_invoke, missing, outermost_invokes
from otel_turnavoid.judge.facts import (
    InvokeDetail,
    Observation,
    Retained,
    SpanFact,
    Usage,
    resolved,
)
from otel_turnavoid.judge.observing import usable_observations
from otel_turnavoid.judge.run import Key, Run
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.judge.spans import SpanTree, by_time
from otel_turnavoid.judge.turns import turns_of
from otel_turnavoid.judge.work import batches_of, work_of
from otel_turnavoid.vocabulary import (
    Attr,
    Disposition,
    Entry,
    Evidence,
    InvokeState,
    Lifecycle,
    Mechanism,
    Purpose,
    Reason,
    Rejection,
    TokenType,
    ToolDisposition,
    WithheldCause,
)

_T = TypeVar("_T")


class _Findings:
    """What speaks against a run, for the judge and for people."""

    def __init__(self) -> None:
        self.rejections: set[Rejection] = set()
        self.causes: set[WithheldCause] = set()
        self.problems: list[str] = []

    def reject(self, cause: Rejection, problem: str) -> None:
        self.rejections.add(cause)
        self.problems.append(problem)

    def withhold(self, cause: WithheldCause, problem: str) -> None:
        self.causes.add(cause)
        self.problems.append(problem)


def assemble(
    run_id: str,
    facts: Iterable[SpanFact],
    observations: Iterable[Observation],
    settings: Settings,
) -> Run:
    """Return the run that these facts and observations make.

    ``facts`` are those that ``attribution`` gave to the run (or the strays of one trace, with
    ``stray_run_id`` as the run id); ``observations`` all that name the run.
    """
    tree = SpanTree(map(resolved, facts))
    findings = _Findings()
    stray = run_id == stray_run_id(tree.facts[0].trace_id)
    calls, tools = calls_of(tree), tools_of(tree)
    turns = turns_of(tree, calls)
    declared = any(fact.own for fact in tree.facts)
    outermost = outermost_invokes(tree) if declared else _root(tree)
    last = last_invoke(outermost)
    state = _state(last, declared=declared)
    if last is None and not declared and not stray:
        # The configuration names the run by an attribute; nothing shows its end but silence.
        state = InvokeState.FAILED if calls and calls[-1].fact.failed else InvokeState.COMPLETED
    ended = state is not InvokeState.PAUSED and (last is not None or state is not None)
    counted = [fact for fact in tree.facts if fact.entry is not None]
    # A span that only links others to the run, such as a server's, may be open for days.
    timed = counted or tree.facts
    start_ns = min(fact.start_ns for fact in timed)
    end_ns = max(fact.end_ns for fact in timed)

    _check_facts(tree, findings)
    _check_identity(tree, outermost, findings)
    if declared:
        _check_declared(tree, outermost, calls, tools, findings)
    elif Evidence.INFERRED not in settings.accept:
        findings.withhold(
            WithheldCause.COMPLETENESS_UNPROVEN,
            "no Invoke declares counts; inferred evidence is not accepted by the configuration",
        )
    if not ended:
        what = "paused and did not go on" if last is not None else "its Invoke never arrived"
        findings.withhold(WithheldCause.INCOMPLETE_RUN, f"the run has not ended: {what}")
    elif state is not InvokeState.COMPLETED:
        said = state.value if state is not None else "an unstated state"
        findings.withhold(WithheldCause.RUN_NOT_COMPLETED, f"the run ended as {said}")
    usable, contradictory = usable_observations(observations, start_ns, end_ns, settings)
    for observer in contradictory:
        findings.withhold(
            WithheldCause.CONFLICTING_EVIDENCE,
            f"observer {observer} said different things about this run",
        )

    speaking = outermost if declared else (*tree.facts, *outermost)
    said_by = _said([fact.invoke for fact in speaking if fact.invoke is not None])
    arm = _only(fact.arm for fact in tree.facts)
    key = _key(tree, outermost, said_by, settings, findings)
    _check_basis(said_by, findings)
    if not stray:
        if not _names_arm(tree) and (ended or not declared):
            findings.reject(Rejection.ARM_MISSING, "no span of the run names its arm")
        if arm is not None and key is None and (ended or last is not None):
            findings.reject(Rejection.DIGEST, "the run has an arm and no input digest")
    return Run(
        run_id=run_id,
        evidence=Evidence.DECLARED if declared else Evidence.INFERRED,
        arm=arm,
        variant=_only(fact.variant for fact in tree.facts),
        key=key,
        ended=ended,
        state=state,
        start_ns=start_ns,
        end_ns=end_ns,
        mechanism=said_by.mechanism or Mechanism.UNKNOWN,
        lifecycle=said_by.lifecycle or Lifecycle.UNKNOWN,
        reason=said_by.reason or Reason.UNKNOWN,
        decision_basis=-1 if said_by.decision_basis is None else said_by.decision_basis,
        model_turns=sum(turn.committed for turn in turns) if declared or calls else None,
        llm_calls=len(calls) if declared or calls else None,
        tool_calls=_tool_calls(tree, tools, declared=declared),
        usage=_usage(calls, declared=declared),
        rejections=tuple(cause for cause in Rejection if cause in findings.rejections),
        causes=tuple(cause for cause in WithheldCause if cause in findings.causes),
        problems=tuple(findings.problems),
        models=tuple(sorted({model for call in calls if (model := _compared_model(call))})),
        scopes=tuple(sorted({fact.scope for fact in counted})),
        identities=tuple(sorted({(fact.service or "", fact.instance or "") for fact in counted})),
        observations=usable,
        work=work_of(tree, turns, tools),
        retained=_retained(tree.facts),
        batches=batches_of(turns, tools),
        speculation=_speculation(calls, tools),
        agent=next((fact.agent for fact in (*outermost, *tree.facts) if fact.agent), None),
        trace_ids=tuple(sorted({fact.trace_id for fact in tree.facts})),
    )


def _root(tree: SpanTree) -> list[SpanFact]:
    """Return the outermost agent span of a run that other instrumentations show."""
    agents = [fact for fact in tree.facts if fact.entry is Entry.INVOKE]
    return sorted(agents, key=lambda fact: (fact.start_ns, -fact.end_ns, fact.span_id))[:1]


def _state(last: SpanFact | None, *, declared: bool) -> InvokeState | None:
    if last is None:
        return None
    stated = last.invoke.state if last.invoke is not None else None
    if declared:
        return stated
    return InvokeState.FAILED if last.failed else stated or InvokeState.COMPLETED


def _names_arm(tree: SpanTree) -> bool:
    """Whether any span names an arm, rightly or in a spelling that was refused."""
    return any(
        fact.arm is not None or any(fault.attribute == Attr.ARM for fault in fact.faults)
        for fact in tree.facts
    )


def _check_facts(tree: SpanTree, findings: _Findings) -> None:
    for fact in tree.facts:
        for fault in fact.faults:
            findings.reject(fault.cause, f"span {fact.span_id}: {fault.attribute}: {fault.problem}")
    for conflict in tree.conflicts:
        findings.withhold(WithheldCause.CONFLICTING_EVIDENCE, conflict)
    if any(fact.sampled for fact in tree.facts):
        findings.withhold(WithheldCause.SAMPLED, "the trace state shows sampling")


def _check_identity(tree: SpanTree, outermost: Sequence[SpanFact], findings: _Findings) -> None:
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


def _check_declared(
    tree: SpanTree,
    outermost: Sequence[SpanFact],
    calls: Sequence[Call],
    tools: Sequence[Tool],
    findings: _Findings,
) -> None:
    """Hold what arrived against what the last outermost Invoke declares."""
    stated = [fact.invoke.counts for fact in outermost if fact.invoke and fact.invoke.counts]
    if not stated:
        if outermost:
            findings.withhold(
                WithheldCause.COMPLETENESS_UNPROVEN,
                "the Invoke declares no counts, so nothing proves that all spans arrived",
            )
        return
    if len(set(stated)) > 1:
        findings.withhold(
            WithheldCause.CONFLICTING_EVIDENCE, "two Invokes of the run declare different counts"
        )
    for problem in missing(tree, stated[-1], calls, tools):
        findings.withhold(WithheldCause.INCOMPLETE_RUN, problem)


def _said(invokes: Sequence[InvokeDetail]) -> InvokeDetail:
    """Return what the outermost Invokes say about the run: the last to say a thing is right.

    A lifecycle may advance over a pause; everything else is repeated.
    """
    said = {
        field: next(
            (
                value
                for invoke in reversed(invokes)
                if (value := getattr(invoke, field)) is not None
            ),
            None,
        )
        for field in InvokeDetail.__struct_fields__
    }
    return InvokeDetail(**said)


def _check_basis(said: InvokeDetail, findings: _Findings) -> None:
    """Refuse a decision that knew its own turn's result, also where two Invokes say so."""
    turn_index, basis = said.turn_index or 0, said.decision_basis
    if basis is not None and basis >= turn_index and Rejection.LEAKAGE not in findings.rejections:
        problem = f"the decision knew turn {basis} and was made for turn {turn_index}"
        findings.reject(Rejection.LEAKAGE, problem)


def _key(
    tree: SpanTree,
    outermost: Sequence[SpanFact],
    said: InvokeDetail,
    settings: Settings,
    findings: _Findings,
) -> Key | None:
    digest = said.digest
    if digest is None and settings.digest:
        digest = _configured_digest(tree, settings, findings)
    if digest is None:
        return None
    facts = (*outermost, *tree.facts)
    return Key(
        experiment=next((fact.experiment for fact in facts if fact.experiment), ""),
        digest=digest,
        unit=next((fact.unit for fact in facts if fact.unit), ""),
        turn_index=said.turn_index or 0,
    )


def _configured_digest(tree: SpanTree, settings: Settings, findings: _Findings) -> str | None:
    """Make the digest from the attributes that the configuration names, each as first seen."""
    named: dict[str, object] = {}
    for attribute in settings.digest:
        bearing = [fact for fact in tree.facts if attribute in fact.digest_parts]
        if not bearing:
            return None
        first = min(bearing, key=by_time)
        named[attribute] = msgspec.json.decode(first.digest_parts[attribute])
    if all(value in ("", None, [], {}) for value in named.values()):
        findings.reject(Rejection.DIGEST, "the attributes that make the digest are empty")
        return None
    try:
        return input_digest(named)
    except DigestError as error:
        findings.reject(Rejection.DIGEST, str(error))
        return None


def _tool_calls(tree: SpanTree, tools: Sequence[Tool], *, declared: bool) -> int | None:
    """Return the executions, or None: an instrumentation without tool spans cannot tell."""
    agents = any(fact.entry is Entry.INVOKE for fact in tree.facts)
    if not declared and not tools and not agents:
        return None
    return sum(tool.executed for tool in tools)


def _usage(calls: Sequence[Call], *, declared: bool) -> Usage:
    """Sum the tokens by type; unknown where a call that must have a figure has none.

    Senders leave out the part figures (cache, reasoning) where they are 0.
    """
    answered = [call for call in calls if call.disposition is not Disposition.FAILED]
    if not calls:
        return Usage(input=0, output=0) if declared else Usage()
    sums: dict[str, int | None] = {}
    for token_type in TokenType:
        field = token_type.value
        known = [used for call in calls if (used := getattr(call.usage, field)) is not None]
        whole = token_type in (TokenType.INPUT, TokenType.OUTPUT)
        lacking = whole and any(getattr(call.usage, field) is None for call in answered)
        sums[field] = sum(known) if known and not lacking else None
    return Usage(**sums)


def _compared_model(call: Call) -> str | None:
    return call.model if call.generated and call.purpose is Purpose.AGENT else None


def _retained(facts: Sequence[SpanFact]) -> Retained | None:
    stated = [fact.retained for fact in facts if fact.retained is not None]
    tokens = sum(retained.tokens for retained in stated)
    latency_ms = math.fsum(retained.latency_ms for retained in stated)
    return Retained(tokens=tokens, latency_ms=latency_ms) if tokens or latency_ms else None


def _speculation(calls: Sequence[Call], tools: Sequence[Tool]) -> tuple[tuple[str, int], ...]:
    became = Counter(
        call.disposition.value for call in calls if call.purpose is Purpose.SPECULATION
    )
    for tool in tools:
        if tool.disposition is ToolDisposition.SPECULATED:
            became[Disposition.COMMITTED.value] += 1
        elif tool.disposition is ToolDisposition.DISCARDED:
            became[Disposition.DISCARDED.value] += 1
    return tuple(sorted(became.items()))


def _only(values: Iterable[_T | None]) -> _T | None:
    """Return the value if exactly one distinct value is stated."""
    stated = {value for value in values if value is not None}
    return stated.pop() if len(stated) == 1 else None
