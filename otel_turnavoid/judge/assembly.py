"""From the facts of one run to the Run that is paired and judged.

Nothing here depends on the order in which facts arrived, on how often they came, or on when.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeVar

from otel_turnavoid.judge.across import Across
from otel_turnavoid.judge.attribution import stray_run_id
from otel_turnavoid.judge.calls import Call, Tool, calls_of, loop_inside, tools_of
from otel_turnavoid.judge.chains import with_purposes
from otel_turnavoid.judge.checks import (
    check_across,
    check_continuations,
    check_declared,
    check_end,
    check_evidence,
    check_facts,
    check_identity,
    check_inputs,
    check_said,
    check_segments,
    check_turns,
    names_arm,
)
from otel_turnavoid.judge.completeness import last_invoke, outermost_invokes
from otel_turnavoid.judge.facts import (
    InvokeDetail,
    Observation,
    Retained,
    SpanFact,
    Usage,
    resolved,
)
from otel_turnavoid.judge.findings import Findings
from otel_turnavoid.judge.keying import key_of
from otel_turnavoid.judge.observing import hear
from otel_turnavoid.judge.run import Run
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.judge.spans import SpanTree
from otel_turnavoid.judge.succession import check_succession
from otel_turnavoid.judge.turns import ModelTurn, turns_of
from otel_turnavoid.judge.work import batches_of, work_of
from otel_turnavoid.vocabulary import (
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


def assemble(
    run_id: str,
    facts: Iterable[SpanFact],
    observations: Iterable[Observation],
    settings: Settings,
    across: Across = Across(),  # noqa: B008 - immutable
) -> Run:
    """Return the run that these facts and observations make.

    ``facts`` are those that ``attribution`` gave to the run (or the strays of one trace, with
    ``stray_run_id`` as the run id); ``observations`` all that name the run; ``across`` what the
    spans of other runs say about it.
    """
    known, doubts = with_purposes(map(resolved, facts))
    tree = SpanTree(known)
    findings = Findings()
    stray = run_id in {stray_run_id(fact.trace_id) for fact in tree.facts}
    calls, tools = calls_of(tree), tools_of(tree)
    turns = turns_of(tree, calls)
    declared = any(fact.own for fact in tree.facts)
    overwritten = any(call.overwritten for call in calls)
    looping = None if declared else loop_inside(tree, calls, tools)
    countable = not overwritten and looping is None
    outermost = outermost_invokes(tree) if declared else _roots(tree)
    last = last_invoke(outermost)
    state = _state(last, outermost, declared=declared)
    if last is None and not declared and not stray:
        # The configuration names the run by an attribute; nothing shows its end but silence.
        state = InvokeState.FAILED if calls and calls[-1].fact.failed else InvokeState.COMPLETED
    ended = state is not InvokeState.PAUSED and (last is not None or state is not None)
    counted = [fact for fact in tree.facts if fact.entry is not None]
    # A span that only links others to the run, such as a server's, may be open for days.
    timed = counted or tree.facts
    start_ns, end_ns = _range(timed)

    check_facts(tree, findings)
    for doubt in doubts:
        findings.withhold(WithheldCause.COMPLETENESS_UNPROVEN, doubt)
    check_across(across, findings)
    if looping is not None:
        findings.withhold(
            WithheldCause.COMPLETENESS_UNPROVEN,
            f"span {looping.span_id} of a model call lasts over a tool and what the model made of"
            " its result: how often the model was sampled is unknown",
        )
    if overwritten:
        findings.withhold(
            WithheldCause.COMPLETENESS_UNPROVEN,
            "calls wrote their attributes onto one span, each over those of the one before:"
            " how many there were is unknown",
        )
    check_identity(tree, outermost, findings)
    if declared:
        check_declared(tree, outermost, calls, tools, findings)
        check_turns(outermost, turns, findings)
        check_continuations(calls, findings)
        check_inputs(turns, findings)
        check_succession(tree, turns, tools, findings)
        check_segments(outermost, findings)
    evidence = Evidence.DECLARED if declared else Evidence.INFERRED
    check_evidence(evidence, settings, findings)
    check_end(state, ended=ended, seen=last is not None, findings=findings)
    # A declared run takes as long as its Invokes: an entry with a broken clock may lie years back.
    heard = hear(observations, *_range((outermost if declared else ()) or timed), settings)
    for observer in heard.contradictory:
        findings.withhold(
            WithheldCause.CONFLICTING_EVIDENCE,
            f"observer {observer} said different things about this run",
        )

    speaking = outermost if declared else (*tree.facts, *outermost)
    said_by = _said([fact.invoke for fact in speaking if fact.invoke is not None])
    arm = _only(fact.arm for fact in tree.facts)
    key = key_of(tree, outermost, said_by, settings, findings)
    check_said(said_by, arm, findings)
    if not stray:
        if not names_arm(tree) and (ended or not declared):
            findings.reject(Rejection.ARM_MISSING, "no span of the run names its arm")
        if arm is not None and key is None and (ended or last is not None):
            findings.reject(Rejection.DIGEST, "the run has an arm and no input digest")
    return Run(
        run_id=run_id,
        evidence=evidence,
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
        model_turns=(
            sum(turn.committed for turn in turns) if countable and (declared or calls) else None
        ),
        llm_calls=(
            sum(call.attempts for call in calls) if countable and (declared or calls) else None
        ),
        tool_calls=_tool_calls(tree, calls, tools, declared=declared),
        usage=_usage(calls, declared=declared),
        rejections=findings.rejections,
        causes=findings.causes,
        problems=findings.problems,
        models=_models(turns),
        scopes=tuple(sorted({fact.scope for fact in counted})),
        identities=tuple(sorted({_identity(fact) for fact in counted})),
        observations=heard.usable,
        work=work_of(tree, turns, tools),
        retained=_retained(tree.facts),
        batches=batches_of(turns, tools),
        speculation=_speculation(calls, tools),
        agent=next((fact.agent for fact in (*outermost, *tree.facts) if fact.agent), None),
        trace_ids=tuple(sorted({fact.trace_id for fact in tree.facts})),
        roots=tuple((fact.trace_id, fact.span_id) for fact in outermost),
        processes=tuple(sorted({fact.process for fact in counted if fact.process}, key=repr)),
        cut=heard.cut,
    )


def _range(facts: Sequence[SpanFact]) -> tuple[int, int]:
    """Return when the first of the spans began and the last one ended, in ns."""
    return min(fact.start_ns for fact in facts), max(fact.end_ns for fact in facts)


def _identity(fact: SpanFact) -> tuple[str, str]:
    """Return service and instance; without a service where the rest may have been cut."""
    cut = fact.resource_dropped and not fact.instance
    return ("" if cut else fact.service or "", fact.instance or "")


def _roots(tree: SpanTree) -> list[SpanFact]:
    """Return the outermost agent spans of a run that other instrumentations show, in order.

    More than one where it went on in another trace, or where the operator's run id stands for more.
    """
    agents = [fact for fact in tree.facts if fact.entry is Entry.INVOKE]
    roots: list[SpanFact] = []
    for fact in sorted(agents, key=lambda fact: (fact.start_ns, -fact.end_ns, fact.span_id)):
        inner = tree.nearest(fact, Entry.INVOKE) is not None
        if not inner and not any(fact.end_ns <= root.end_ns for root in roots):
            roots.append(fact)
    return roots


def _state(
    last: SpanFact | None, outermost: Sequence[SpanFact], *, declared: bool
) -> InvokeState | None:
    """Return how a run ended; of others' spans, one that failed makes the run a failed one."""
    if last is None:
        return None
    stated = last.invoke.state if last.invoke is not None else None
    if declared:
        return stated
    failed = any(fact.failed for fact in outermost)
    return InvokeState.FAILED if failed else stated or InvokeState.COMPLETED


def _said(invokes: Sequence[InvokeDetail]) -> InvokeDetail:
    """Return what the outermost Invokes say about the run: the last to say a thing is right.

    A lifecycle may advance over a pause, but not beyond its ends; everything else is repeated.
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
    stated = {invoke.lifecycle for invoke in invokes}
    said["lifecycle"] = next((end for end in _ENDS if end in stated), said["lifecycle"])
    return InvokeDetail(**said)


_ENDS = (Lifecycle.INVALIDATED, Lifecycle.COUNTERFACTUAL_ONLY)
"""Nothing is realized after these."""


def _tool_calls(
    tree: SpanTree, calls: Sequence[Call], tools: Sequence[Tool], *, declared: bool
) -> int | None:
    """Return the executions, or None: an instrumentation without tool spans cannot tell."""
    if not declared and not tools:
        agents = any(fact.entry is Entry.INVOKE for fact in tree.facts)
        asked = any(call.fact.call is not None and call.fact.call.asks for call in calls)
        if asked or not agents:
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


def _models(turns: Sequence[ModelTurn]) -> tuple[str, ...]:
    """Return the models that made the committed turns, whatever their calls were called."""
    answers = (
        call
        for turn in turns
        if turn.committed
        for call in turn.calls
        if call.generated or call.continues
    )
    return tuple(sorted({call.model for call in answers if call.model}))


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
