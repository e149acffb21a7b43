"""The parts of a fact that every dialect fills alike, from our attributes and the GenAI ones."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from otel_turnavoid.dialects import answer, process
from otel_turnavoid.dialects.attributes import shown
from otel_turnavoid.digest import check_digest, is_digest
from otel_turnavoid.judge.attribution import MADE_RUN_PREFIX
from otel_turnavoid.judge.facts import (
    CallDetail,
    Counts,
    InvokeDetail,
    Retained,
    SpanFact,
    ToolDetail,
    Usage,
)
from otel_turnavoid.vocabulary import (
    USAGE_SPELLINGS,
    Arm,
    Attr,
    Disposition,
    Entry,
    GenAI,
    InvokeKind,
    InvokeState,
    Lifecycle,
    Mechanism,
    OverheadKind,
    Purpose,
    Reason,
    Rejection,
    ToolCaller,
    ToolDisposition,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_turnavoid.dialects.attributes import Attributes
    from otel_turnavoid.dialects.rules import Rules
    from otel_turnavoid.dialects.view import SpanView

OLD_TOOL_CALL_ID: Final = "gen_ai.tool.call_id"
"""A spelling of ``gen_ai.tool.call.id`` that the Gemini CLI keeps."""
ERROR_TYPE: Final = "error.type"
AGENT_NAME: Final = "agent.name"
"""OpenInference's ``gen_ai.agent.name``."""
SERVICE_NAME: Final = "service.name"
SERVICE_INSTANCE: Final = "service.instance.id"

_USAGE: Final = tuple((kind.value, spellings) for kind, spellings in USAGE_SPELLINGS.items())
_OT_MEMBER: Final = re.compile(r"(?:^|,)\s*ot=([^,]*)")
_ZERO_THRESHOLD: Final = re.compile(r"0{1,14}")
_THRESHOLD: Final = re.compile(r"[0-9a-f]{1,14}")


def fact(  # noqa: PLR0913 - one keyword per part of a fact
    view: SpanView,
    attributes: Attributes,
    rules: Rules,
    *,
    dialect: str,
    own: bool = False,
    entry: Entry | None = None,
    invoke: InvokeDetail | None = None,
    turn: Disposition | None = None,
    call: CallDetail | None = None,
    tool: ToolDetail | None = None,
) -> SpanFact:
    """Put a fact together: the parts given, and what any span may say about its run."""
    arm = attributes.word(Attr.ARM, Arm, run_wide=True)
    run_id = _run_id(attributes)
    configured = rules.configured(
        view.scope,
        attributes,
        view.evaluations,
        arm=arm,
        digest=invoke is not None and invoke.digest is not None,
        call=call is not None,
    )
    if run_id is None and own and (configured is None or configured.run_id is None):
        attributes.fault(Attr.RUN_ID, "missing: every entry names its run")
    # Keyword by keyword, because a fact is made for every span about agents: this is hot.
    return SpanFact(
        trace_id=view.trace_id,
        span_id=view.span_id,
        parent_id=view.parent_id,
        entry=entry,
        own=own,
        dialect=dialect,
        scope=view.scope,
        service=_resource_text(view.resource.get(SERVICE_NAME)),
        instance=_resource_text(view.resource.get(SERVICE_INSTANCE)),
        start_ns=view.start_ns,
        end_ns=view.end_ns,
        failed=view.status_error or attributes.span.get(ERROR_TYPE) is not None,
        sampled=bool(view.trace_state) and is_sampled(view.trace_state),
        dropped=view.dropped_attributes,
        resource_dropped=view.dropped_resource_attributes,
        process=process.read(view.resource),
        run_id=run_id,
        seq=attributes.count(Attr.SEQ),
        arm=arm,
        variant=attributes.name(Attr.VARIANT, run_wide=True),
        experiment=attributes.name(Attr.EXPERIMENT_ID, run_wide=True),
        unit=attributes.name(Attr.UNIT_ID, run_wide=True),
        agent=attributes.text(GenAI.AGENT_NAME, AGENT_NAME),
        overhead=attributes.word(Attr.OVERHEAD_KIND, OverheadKind),
        cost_usd=attributes.amount(Attr.COST_USD),
        retained=_retained(attributes),
        invoke=invoke,
        turn=turn,
        call=call,
        tool=tool,
        faults=tuple(attributes.faults),
        configured=configured,
    )


def entry_fact(  # noqa: PLR0913 - one keyword per part that dialects differ in
    view: SpanView,
    attributes: Attributes,
    rules: Rules,
    *,
    dialect: str,
    entry: Entry | None,
    own: bool = False,
    turn: Disposition | None = None,
    call: Callable[[Attributes], CallDetail] | None = None,
    tool: Callable[[Attributes], ToolDetail] | None = None,
) -> SpanFact:
    """Put the fact of an entry together with the detail that its kind has.

    ``call`` and ``tool`` read what a dialect says in its own words; by default ``call_detail``
    and ``tool_detail``.
    """
    return fact(
        view,
        attributes,
        rules,
        dialect=dialect,
        own=own,
        entry=entry,
        invoke=invoke_detail(attributes) if entry is Entry.INVOKE else None,
        turn=turn,
        call=(call or call_detail)(attributes) if entry is Entry.LLM_CALL else None,
        tool=(tool or tool_detail)(attributes) if entry is Entry.TOOL_TURN else None,
    )


def invoke_detail(attributes: Attributes) -> InvokeDetail:
    """Read what an Invoke says; what it says of its whole run may stand on the resource."""
    turn_index = attributes.count(Attr.TURN_INDEX, run_wide=True)
    basis = attributes.count(Attr.DECISION_BASIS, least=-1, run_wide=True)
    if (-1 if basis is None else basis) >= (turn_index or 0):
        attributes.fault(
            Attr.DECISION_BASIS,
            f"the decision knew turn {basis} and was made for turn {turn_index or 0}",
            Rejection.LEAKAGE,
        )
    return InvokeDetail(
        kind=attributes.word(Attr.INVOKE_KIND, InvokeKind),
        state=attributes.word(Attr.INVOKE_STATE, InvokeState),
        counts=_counts(attributes),
        impaired=attributes.count(Attr.INVOKE_IMPAIRED),
        digest=_digest(attributes),
        turn_index=turn_index,
        decision_basis=basis,
        mechanism=attributes.word(Attr.MECHANISM, Mechanism, run_wide=True),
        lifecycle=attributes.word(Attr.LIFECYCLE, Lifecycle, run_wide=True),
        reason=attributes.word(Attr.REASON, Reason, run_wide=True),
    )


def call_detail(attributes: Attributes) -> CallDetail:
    """Read what a model call says, in our words and in those of the GenAI conventions."""
    input_digest = attributes.value(Attr.CALL_INPUT_DIGEST)
    if input_digest is not None and not is_digest(input_digest):
        problem = check_digest(input_digest) or ""
        attributes.fault(Attr.CALL_INPUT_DIGEST, problem, Rejection.DIGEST)
        input_digest = None
    return CallDetail(
        purpose=attributes.word(Attr.CALL_PURPOSE, Purpose),
        disposition=attributes.word(Attr.CALL_DISPOSITION, Disposition),
        attempt=attributes.count(Attr.CALL_ATTEMPT, least=1),
        samplings=attributes.count(Attr.CALL_SAMPLINGS),
        input_digest=input_digest,
        model=attributes.text(GenAI.RESPONSE_MODEL, GenAI.REQUEST_MODEL),
        response_id=attributes.text(GenAI.RESPONSE_ID),
        asks=answer.tool_call_id(attributes.span.get(GenAI.OUTPUT_MESSAGES)),
        usage=_usage(attributes),
    )


def tool_detail(attributes: Attributes) -> ToolDetail:
    """Read what a tool execution says."""
    return ToolDetail(
        name=attributes.text(GenAI.TOOL_NAME),
        call_id=attributes.text(GenAI.TOOL_CALL_ID, OLD_TOOL_CALL_ID),
        disposition=attributes.word(Attr.TOOL_DISPOSITION, ToolDisposition),
        caller=attributes.word(Attr.TOOL_CALLER, ToolCaller),
    )


def is_sampled(trace_state: str) -> bool:
    """Tell whether a W3C trace state shows that traces like this one were left out.

    That is a rejection threshold ``th`` other than 0, or the older ``p`` above 0, in the member
    ``ot`` (OpenTelemetry "TraceState: probability sampling"). A broken value says nothing.
    """
    member = _OT_MEMBER.search(trace_state)
    if member is None:
        return False
    for field in member[1].split(";"):
        key, _, value = field.strip().partition(":")
        if key == "th" and _THRESHOLD.fullmatch(value):
            if not _ZERO_THRESHOLD.fullmatch(value):
                return True
        elif key == "p" and value.isascii() and value.isdigit() and int(value) > 0:
            return True
    return False


def _run_id(attributes: Attributes) -> str | None:
    run_id = attributes.name(Attr.RUN_ID, run_wide=True)
    if run_id is not None and run_id.startswith(MADE_RUN_PREFIX):
        problem = f"{MADE_RUN_PREFIX} starts the ids of runs that are made from traces"
        attributes.fault(Attr.RUN_ID, f"{problem}; got {shown(run_id)}")
        return None
    return run_id


def _digest(attributes: Attributes) -> str | None:
    value = attributes.value(Attr.INPUT_DIGEST, run_wide=True)
    if value is None:
        return None
    problem = check_digest(value)
    if problem is not None:
        attributes.fault(Attr.INPUT_DIGEST, problem, Rejection.DIGEST)
    return value if isinstance(value, str) else None


def _counts(attributes: Attributes) -> Counts | None:
    """Read the declared counts; they prove nothing unless all four are there."""
    agent_turns = attributes.count(Attr.INVOKE_AGENT_TURNS)
    llm_calls = attributes.count(Attr.INVOKE_LLM_CALLS)
    tool_turns = attributes.count(Attr.INVOKE_TOOL_TURNS)
    entries = attributes.count(Attr.INVOKE_ENTRIES)
    if agent_turns is None or llm_calls is None or tool_turns is None or entries is None:
        return None
    return Counts(agent_turns, llm_calls, tool_turns, entries)


def _usage(attributes: Attributes) -> Usage:
    return Usage(**{kind: attributes.tokens(*spellings) for kind, spellings in _USAGE})


def _retained(attributes: Attributes) -> Retained | None:
    tokens = attributes.count(Attr.RETAINED_TOKENS_REDUCED)
    latency = attributes.amount(Attr.RETAINED_LATENCY_REDUCED_MS)
    if tokens is None and latency is None:
        return None
    return Retained(tokens or 0, latency or 0.0)


def _resource_text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
