"""What can be said about each kind of entry while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from opentelemetry.trace import SpanKind

from otel_turnavoid.instrument import checks
from otel_turnavoid.instrument.misuse import Misuse, misused
from otel_turnavoid.instrument.scope import Handle
from otel_turnavoid.vocabulary import (
    Attr,
    Disposition,
    Entry,
    GenAI,
    InvokeState,
    Lifecycle,
    Mechanism,
    Purpose,
    Reason,
    ToolCaller,
    ToolDisposition,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from otel_turnavoid.instrument.run import RunState


_GENERATING = frozenset({Purpose.AGENT.value, Purpose.SPECULATION.value})


class UserTurnHandle(Handle):
    """An open UserTurn."""

    __slots__ = ()
    entry: ClassVar[str] = Entry.USER_TURN.value


class SystemTurnHandle(Handle):
    """An open SystemTurn."""

    __slots__ = ()
    entry: ClassVar[str] = Entry.SYSTEM_TURN.value


class InvokeHandle(Handle):
    """An open Invoke. What it says about the whole run goes to the run's outermost Invoke."""

    __slots__ = ()
    entry: ClassVar[str] = Entry.INVOKE.value

    @property
    def outermost(self) -> InvokeHandle:
        """The Invoke that started the run."""
        first: InvokeHandle | None = self.run.outermost
        return self if first is None else first

    def set(
        self,
        *,
        state: str | None = None,
        mechanism: str | None = None,
        lifecycle: str | None = None,
        reason: str | None = None,
    ) -> None:
        """State how this Invoke ends and how far the change of the run got.

        Args:
            state: ``completed``, ``paused``, ``failed`` or ``aborted``; stands even where an
                exception ends the Invoke. By itself: ``completed``, ``failed`` on an exception,
                ``aborted`` on a cancellation or interrupt. A paused Invoke declares no counts.
            mechanism: What was changed (``turnavoid.mechanism``), of the whole run.
            lifecycle: How far it got (``turnavoid.lifecycle``), of the whole run.
            reason: Why the run differs (``turnavoid.reason``), of the whole run.
        """
        if state is not None:
            self.record(Attr.INVOKE_STATE, checks.word(InvokeState, Attr.INVOKE_STATE, state))
        run = self.outermost
        if mechanism is not None:
            run.record(Attr.MECHANISM, checks.word(Mechanism, Attr.MECHANISM, mechanism))
        if lifecycle is not None:
            run.record(Attr.LIFECYCLE, checks.word(Lifecycle, Attr.LIFECYCLE, lifecycle))
        if reason is not None:
            run.record(Attr.REASON, checks.word(Reason, Attr.REASON, reason))

    def identify(
        self,
        input: Any,  # noqa: A002 - as in input_digest
        state: Any = None,
        *,
        volatile: Iterable[str] = (),
    ) -> None:
        """Give the run its input digest where the input is known only now (``input_digest``)."""
        value = checks.digest_of(Attr.INPUT_DIGEST, input, state, volatile)
        self.outermost.record(Attr.INPUT_DIGEST, value)

    def _closing(self, late: dict[str, Any], error: BaseException | None) -> None:
        if error is None:
            state = InvokeState.COMPLETED
        elif isinstance(error, Exception):
            state = InvokeState.FAILED
        else:
            state = InvokeState.ABORTED
        late.setdefault(Attr.INVOKE_STATE, state.value)
        if self.run.outermost is not self:
            return
        self.run.ended = True
        if late[Attr.INVOKE_STATE] != InvokeState.PAUSED:
            counts = self.run.counts()
            late[Attr.INVOKE_AGENT_TURNS] = counts.agent_turns
            late[Attr.INVOKE_LLM_CALLS] = counts.llm_calls
            late[Attr.INVOKE_TOOL_TURNS] = counts.tool_turns
            late[Attr.INVOKE_ENTRIES] = counts.entries


class TurnHandle(Handle):
    """An open AgentTurn."""

    __slots__ = ("failures", "generated", "side_work")
    entry: ClassVar[str] = Entry.AGENT_TURN.value

    def __init__(self, run: RunState, parent: Handle | None) -> None:
        super().__init__(run, parent)
        self.turn = self
        self.generated: set[str] = set()
        """Dispositions of the calls that ended in this turn and could make it a turn."""
        self.side_work = False
        """Whether calls of other purposes ended in it."""
        self.failures: dict[str, int] = {}
        """Failed calls so far, by purpose."""

    def set(self, *, disposition: str) -> None:
        """State what became of the turn: ``committed``, ``failed`` or ``discarded``.

        By itself, a turn is what the best of its generations became, those of the agent and
        speculative ones. Without any it is discarded where it held calls of other purposes,
        failed where an exception ended it, and else committed: its calls are not instrumented.
        """
        key = Attr.TURN_DISPOSITION
        self.record(key, checks.word(Disposition, key, disposition))

    def _closing(self, late: dict[str, Any], error: BaseException | None) -> None:
        if Attr.TURN_DISPOSITION not in late:
            late[Attr.TURN_DISPOSITION] = self._became(error).value

    def _became(self, error: BaseException | None) -> Disposition:
        for disposition in (Disposition.COMMITTED, Disposition.DISCARDED, Disposition.FAILED):
            if disposition.value in self.generated:
                return disposition
        if error is not None:
            return Disposition.FAILED
        return Disposition.DISCARDED if self.side_work else Disposition.COMMITTED


class CallHandle(Handle):
    """An open LlmCall."""

    __slots__ = ("_purpose",)
    entry: ClassVar[str] = Entry.LLM_CALL.value
    span_kind: ClassVar[SpanKind] = SpanKind.CLIENT

    def __init__(self, run: RunState, parent: Handle | None) -> None:
        super().__init__(run, parent)
        self.turn = parent.turn if parent is not None else None
        self._purpose: str = Purpose.AGENT.value

    def set(  # noqa: PLR0913 - all optional
        self,
        *,
        model: str | None = None,
        provider: str | None = None,
        response_id: str | None = None,
        finish_reasons: Sequence[str] | None = None,
        attempt: int | None = None,
        purpose: str | None = None,
        disposition: str | None = None,
        samplings: int | None = None,
    ) -> None:
        """State more about the call and its answer.

        Args:
            model: The model that answered (``gen_ai.response.model``).
            provider: ``gen_ai.provider.name``, as ``openai``.
            response_id: ``gen_ai.response.id``.
            finish_reasons: ``gen_ai.response.finish_reasons``.
            attempt: From 1; by itself one more than the failed calls before it in its turn.
            purpose: ``agent``, ``validation``, ``speculation``, ``compaction`` or ``side``.
            disposition: ``committed``, ``failed`` or ``discarded``; by itself committed, and
                failed where an exception ends the call.
            samplings: How often the model was sampled: 0 for a continuation, more than 1 where
                the provider ran tools inside one response; by itself 1 for a call that ended
                well.
        """
        if model is not None:
            self.record(GenAI.RESPONSE_MODEL, checks.text(GenAI.RESPONSE_MODEL, model))
        if provider is not None:
            self.record(GenAI.PROVIDER_NAME, checks.text(GenAI.PROVIDER_NAME, provider))
        if response_id is not None:
            self.record(GenAI.RESPONSE_ID, checks.text(GenAI.RESPONSE_ID, response_id))
        if finish_reasons is not None:
            key = GenAI.RESPONSE_FINISH_REASONS
            self.record(key, checks.texts(key, finish_reasons))
        if attempt is not None:
            self.record(Attr.CALL_ATTEMPT, checks.whole(Attr.CALL_ATTEMPT, attempt, least=1))
        if purpose is not None:
            value = checks.word(Purpose, Attr.CALL_PURPOSE, purpose)
            self.record(Attr.CALL_PURPOSE, value)
            self._purpose = value or self._purpose
        if disposition is not None:
            key = Attr.CALL_DISPOSITION
            self.record(key, checks.word(Disposition, key, disposition))
        if samplings is not None:
            self.record(Attr.CALL_SAMPLINGS, checks.whole(Attr.CALL_SAMPLINGS, samplings))

    def usage(
        self,
        *,
        input: int | None = None,  # noqa: A002 - the convention's word
        output: int | None = None,
        cache_read: int | None = None,
        cache_write: int | None = None,
        reasoning: int | None = None,
    ) -> None:
        """State the tokens of the call with the provider's own meaning; None is unknown.

        Args:
            input: ``gen_ai.usage.input_tokens``.
            output: ``gen_ai.usage.output_tokens``.
            cache_read: Input tokens read from the provider's cache.
            cache_write: Input tokens written to it.
            reasoning: Output tokens spent on reasoning.
        """
        for key, value in (
            (GenAI.USAGE_INPUT_TOKENS, input),
            (GenAI.USAGE_OUTPUT_TOKENS, output),
            (GenAI.USAGE_CACHE_READ, cache_read),
            (GenAI.USAGE_CACHE_WRITE, cache_write),
            (GenAI.USAGE_REASONING, reasoning),
        ):
            if value is not None:
                self.record(key, checks.whole(key, value))

    def _opening(self, attributes: dict[str, Any]) -> None:
        self._purpose = attributes.setdefault(Attr.CALL_PURPOSE, self._purpose)
        failed_before = 0
        if self.turn is not None:
            failed_before = self.turn.failures.get(self._purpose, 0)
        elif self._purpose == Purpose.AGENT and self.run.run_id is not None:
            misused(
                Misuse.OUTSIDE,
                "an llm_call of the agent lives in an agent_turn: without one it makes no turn;"
                " open an agent_turn around it, or give the call its purpose",
            )
        attributes.setdefault(Attr.CALL_ATTEMPT, failed_before + 1)

    def _closing(self, late: dict[str, Any], error: BaseException | None) -> None:
        usual = Disposition.COMMITTED if error is None else Disposition.FAILED
        disposition = late.setdefault(Attr.CALL_DISPOSITION, usual.value)
        failed = disposition == Disposition.FAILED
        if not failed:
            late.setdefault(Attr.CALL_SAMPLINGS, 1)
        turn = self.turn
        if turn is None:
            return
        if self._purpose in _GENERATING:
            turn.generated.add(disposition)
        else:
            turn.side_work = True
        failures = turn.failures
        failures[self._purpose] = failures.get(self._purpose, 0) + 1 if failed else 0


class ToolHandle(Handle):
    """An open ToolTurn."""

    __slots__ = ()
    entry: ClassVar[str] = Entry.TOOL_TURN.value

    def set(
        self,
        *,
        disposition: str | None = None,
        caller: str | None = None,
        call_id: str | None = None,
    ) -> None:
        """State more about the tool's execution.

        Args:
            disposition: ``executed`` (also one that failed), ``reused``, ``denied``,
                ``speculated`` or ``discarded``; by itself executed.
            caller: ``model`` or ``code`` that the model wrote; by itself model.
            call_id: The model's id of the tool call (``gen_ai.tool.call.id``).
        """
        if disposition is not None:
            key = Attr.TOOL_DISPOSITION
            self.record(key, checks.word(ToolDisposition, key, disposition))
        if caller is not None:
            self.record(Attr.TOOL_CALLER, checks.word(ToolCaller, Attr.TOOL_CALLER, caller))
        if call_id is not None:
            self.record(GenAI.TOOL_CALL_ID, checks.text(GenAI.TOOL_CALL_ID, call_id))
