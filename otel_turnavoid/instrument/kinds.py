"""The six kinds of entries that users open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from otel_turnavoid.instrument import checks
from otel_turnavoid.instrument.calls import CallScope, GivenCallScope
from otel_turnavoid.instrument.checks import MISSING
from otel_turnavoid.instrument.flags import ArmMap
from otel_turnavoid.instrument.functions import is_function
from otel_turnavoid.instrument.handles import (
    CallHandle,
    InvokeHandle,
    SystemTurnHandle,
    ToolHandle,
    TurnHandle,
    UserTurnHandle,
)
from otel_turnavoid.instrument.identity import Identity
from otel_turnavoid.instrument.invocation import InvokeScope
from otel_turnavoid.instrument.scope import Scope
from otel_turnavoid.vocabulary import Attr, GenAI, Purpose, ToolCaller, ToolDisposition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from opentelemetry.trace import TracerProvider

F = TypeVar("F", bound="Callable[..., Any]")


@overload
def invoke(function: F, /) -> F: ...
@overload
def invoke(
    agent: str | None = None,
    /,
    *,
    kind: str | None = None,
    run_id: str | None = None,
    arm: str | None = None,
    variant: str | None = None,
    experiment: str | None = None,
    unit: str | None = None,
    turn_index: int | None = None,
    decision_basis: int | None = None,
    mechanism: str | None = None,
    lifecycle: str | None = None,
    reason: str | None = None,
    input: Any = MISSING,
    input_from: str | None = None,
    state: Any = None,
    volatile: Iterable[str] = (),
    digest: str | None = None,
    conversation: str | None = None,
    flag: Any = None,
    arms: ArmMap | None = None,
    prices: bool | None = None,
    tracer_provider: TracerProvider | None = None,
) -> Scope[InvokeHandle]: ...
def invoke(  # noqa: PLR0913 - one run's identity, all optional
    agent: F | str | None = None,
    /,
    *,
    kind: str | None = None,
    run_id: str | None = None,
    arm: str | None = None,
    variant: str | None = None,
    experiment: str | None = None,
    unit: str | None = None,
    turn_index: int | None = None,
    decision_basis: int | None = None,
    mechanism: str | None = None,
    lifecycle: str | None = None,
    reason: str | None = None,
    input: Any = MISSING,  # noqa: A002 - as in input_digest
    input_from: str | None = None,
    state: Any = None,
    volatile: Iterable[str] = (),
    digest: str | None = None,
    conversation: str | None = None,
    flag: Any = None,
    arms: ArmMap | None = None,
    prices: bool | None = None,
    tracer_provider: TracerProvider | None = None,
) -> F | Scope[InvokeHandle]:
    """The agent goes from idle to active: a run, or inside one a sub-agent's part of it.

    Inside an open run it is an entry of that run; what is said about the run's identity then
    stands back. The outermost Invoke declares at its end how many entries there were.

    Args:
        agent: ``gen_ai.agent.name``; a decorated function gives its own name.
        kind: ``user_send``, ``notify``, ``pod_event``, ``system_reminder``, ``wakeup`` or
            ``unknown``. Default ``user_send``, for a sub-agent ``wakeup``.
        run_id: Identity of the run, unique; default a new UUID.
        arm: ``control``, ``exact-reuse`` or ``fused-batch``. A control run says mechanism
            ``control``, lifecycle ``realized``, reason ``baseline`` unless told otherwise.
        variant: A free name for one of several candidates.
        experiment: Runs are compared within it.
        unit: What the run is about, such as a user or a ticket.
        turn_index: Which turn of the unit this run is, from 0.
        decision_basis: Up to which turn's results the choice of arm rested on, from -1; below
            ``turn_index``.
        mechanism: ``turnavoid.mechanism``, see ``vocabulary.Mechanism``.
        lifecycle: ``turnavoid.lifecycle``, see ``vocabulary.Lifecycle``; only ``realized``
            earns.
        reason: ``turnavoid.reason``, see ``vocabulary.Reason``.
        input: The task input that all arms share, for the digest (``digest.input_digest``); it
            is hashed, never recorded.
        input_from: Name of the decorated function's parameter that is the input.
        state: What of the world's state belongs to the input's identity.
        volatile: Fields of the input left out of the digest.
        digest: The digest, where it was computed before.
        conversation: ``gen_ai.conversation.id``.
        flag: An evaluated feature flag that assigns the arm: OpenFeature's evaluation details,
            or ``feature_flag.*`` attributes (``instrument.flags``), or a function that returns
            them, which is asked at the start of each run.
        arms: Which variant or value of the flag is which arm; by default they are named alike.
        prices: Whether calls with usage and no stated cost are priced (extra ``prices``);
            default ``TURNAVOID_PRICES``.
        tracer_provider: Default: the global one.

    What is not given here comes from the flag, else from the environment (``TURNAVOID_ARM``,
    ``_VARIANT``, ``_EXPERIMENT``, ``_UNIT``, ``_MECHANISM``, ``_LIFECYCLE``, ``_REASON``), else
    from the resource attributes of the same meaning (``turnavoid.arm``…).
    """
    if is_function(agent):
        return invoke()(agent)
    return InvokeScope(
        agent,
        kind,
        conversation,
        Identity(
            run_id=run_id,
            arm=arm,
            variant=variant,
            experiment=experiment,
            unit=unit,
            turn_index=turn_index,
            decision_basis=decision_basis,
            mechanism=mechanism,
            lifecycle=lifecycle,
            reason=reason,
            input=input,
            state=state,
            volatile=volatile,
            digest=digest,
            flag=flag,
            arms=arms,
            prices=prices,
        ),
        input_from=input_from,
        tracer_provider=tracer_provider,
    )


@overload
def user_turn(function: F, /) -> F: ...
@overload
def user_turn() -> Scope[UserTurnHandle]: ...
def user_turn(function: F | None = None, /) -> F | Scope[UserTurnHandle]:
    """The user's stretch; its content is not recorded."""
    scope = Scope(UserTurnHandle, "user_turn")
    return scope if function is None else scope(function)


@overload
def system_turn(function: F, /) -> F: ...
@overload
def system_turn() -> Scope[SystemTurnHandle]: ...
def system_turn(function: F | None = None, /) -> F | Scope[SystemTurnHandle]:
    """Hook output, a notification, a reminder: whoever is not user, agent or tool."""
    scope = Scope(SystemTurnHandle, "system_turn")
    return scope if function is None else scope(function)


@overload
def agent_turn(function: F, /) -> F: ...
@overload
def agent_turn() -> Scope[TurnHandle]: ...
def agent_turn(function: F | None = None, /) -> F | Scope[TurnHandle]:
    """The agent's stretch on one input: the unit that is counted.

    It holds the model call and its retries with the identical input messages. Where the input
    changed, a tool result arrived for example, the next turn begins. It need not be opened by
    hand: calls outside of one make their turns by themselves (``instrument.automatic``).
    """
    scope = Scope(TurnHandle, "agent_turn")
    return scope if function is None else scope(function)


@overload
def llm_call(function: F, /) -> F: ...
@overload
def llm_call(
    model: str | None = None,
    /,
    *,
    provider: str | None = None,
    purpose: str | None = None,
    attempt: int | None = None,
    samplings: int | None = None,
    input: Any = MISSING,
    input_from: str | None = None,
    digest: str | None = None,
) -> Scope[CallHandle]: ...
def llm_call(  # noqa: PLR0913 - all optional
    model: F | str | None = None,
    /,
    *,
    provider: str | None = None,
    purpose: str | None = None,
    attempt: int | None = None,
    samplings: int | None = None,
    input: Any = MISSING,  # noqa: A002 - as in input_digest
    input_from: str | None = None,
    digest: str | None = None,
) -> F | Scope[CallHandle]:
    """One call of a model for one generation.

    Inside an ``agent_turn`` it belongs to that turn. Elsewhere the calls of the agent make their
    turns by themselves: the identical input is another attempt at the same turn, a changed input
    the next one (``instrument.automatic``).

    Args:
        model: The model asked (``gen_ai.request.model``).
        provider: ``gen_ai.provider.name``, as ``openai``.
        purpose: ``agent`` (default), ``validation``, ``speculation``, ``compaction`` or
            ``side``; of these only ``agent`` and ``speculation`` make turns.
        attempt: From 1; by default one more than that of the call before it in its turn, if
            that had the identical input or, where inputs are not stated, failed.
        samplings: 0 for a continuation that samples nothing new: a request that only hands tool
            results to code that the model wrote, or resumes a paused response. It stays in the
            turn before it.
        input: The input messages, to be hashed. Recorded only where content capture is on.
        input_from: Name of the decorated function's parameter that is the input.
        digest: Their digest, where it was computed before.
    """
    if is_function(model):
        return llm_call()(model)
    said: dict[str, Any] = {GenAI.OPERATION_NAME: "chat"}
    if provider is not None:
        said[GenAI.PROVIDER_NAME] = checks.text(GenAI.PROVIDER_NAME, provider)
    if purpose is not None:
        said[Attr.CALL_PURPOSE] = checks.word(Purpose, Attr.CALL_PURPOSE, purpose)
    if attempt is not None:
        said[Attr.CALL_ATTEMPT] = checks.whole(Attr.CALL_ATTEMPT, attempt, least=1)
    if samplings is not None:
        said[Attr.CALL_SAMPLINGS] = checks.whole(Attr.CALL_SAMPLINGS, samplings)
    if digest is not None:
        said[Attr.CALL_INPUT_DIGEST] = checks.digest(Attr.CALL_INPUT_DIGEST, digest)
    elif input is not MISSING:
        said[Attr.CALL_INPUT_DIGEST] = checks.digest_of(Attr.CALL_INPUT_DIGEST, input)
    if input is MISSING:
        return CallScope(model, said, input_from=input_from)
    return GivenCallScope(input, model, said, input_from=input_from)


@overload
def tool_turn(function: F, /) -> F: ...
@overload
def tool_turn(
    tool: str | None = None,
    /,
    *,
    call_id: str | None = None,
    caller: str | None = None,
    disposition: str | None = None,
) -> Scope[ToolHandle]: ...
def tool_turn(
    tool: F | str | None = None,
    /,
    *,
    call_id: str | None = None,
    caller: str | None = None,
    disposition: str | None = None,
) -> F | Scope[ToolHandle]:
    """One execution of a tool, or what stands for it: an answer reused, a call denied.

    Args:
        tool: ``gen_ai.tool.name``; a decorated function gives its own name.
        call_id: The model's id of the tool call (``gen_ai.tool.call.id``).
        caller: ``model`` (default) or ``code`` that the model wrote.
        disposition: ``executed`` (default), ``reused``, ``denied``, ``speculated`` or
            ``discarded``.
    """
    if is_function(tool):
        return tool_turn()(tool)
    return Scope(
        ToolHandle,
        "execute_tool",
        tool,
        name_key=GenAI.TOOL_NAME,
        attributes={
            GenAI.OPERATION_NAME: "execute_tool",
            GenAI.TOOL_CALL_ID: None
            if call_id is None
            else checks.text(GenAI.TOOL_CALL_ID, call_id),
            Attr.TOOL_CALLER: checks.word(
                ToolCaller, Attr.TOOL_CALLER, caller or ToolCaller.MODEL.value
            ),
            Attr.TOOL_DISPOSITION: checks.word(
                ToolDisposition,
                Attr.TOOL_DISPOSITION,
                disposition or ToolDisposition.EXECUTED.value,
            ),
        },
    )
