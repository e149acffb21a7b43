"""What can be said about an LlmCall while it runs, and what it does to its turn."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final

from opentelemetry.trace import SpanKind

from otel_turnavoid.instrument import checks
from otel_turnavoid.instrument.content import as_text, emit_details
from otel_turnavoid.instrument.misuse import Misuse, misused
from otel_turnavoid.instrument.prices import price_usd
from otel_turnavoid.instrument.scope import Handle
from otel_turnavoid.vocabulary import Attr, Disposition, Entry, GenAI, Purpose

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_turnavoid.instrument.turn_handle import TurnHandle

# Looked up once: calls are the most frequent of entries.
_PURPOSE: Final = Attr.CALL_PURPOSE
_DIGEST: Final = Attr.CALL_INPUT_DIGEST
_SAMPLINGS: Final = Attr.CALL_SAMPLINGS
_ATTEMPT: Final = Attr.CALL_ATTEMPT
_DISPOSITION: Final = Attr.CALL_DISPOSITION
_AGENT: Final = Purpose.AGENT.value
_COMMITTED: Final = Disposition.COMMITTED.value
_FAILED: Final = Disposition.FAILED.value

GENERATING: Final = frozenset({Purpose.AGENT.value, Purpose.SPECULATION.value})
"""Purposes of calls that can make a turn."""

_CHANGED: Final = (
    "the input changed inside an agent_turn: a changed input begins the next turn; end the turn"
    " before, or open none and let the calls make their turns"
)


class CallHandle(Handle):
    """An open LlmCall."""

    entry: ClassVar[str] = Entry.LLM_CALL.value
    in_turn: ClassVar[bool] = True
    span_kind: ClassVar[SpanKind] = SpanKind.CLIENT

    attempt = 1
    failed = False
    input: str | None = None
    """Digest of its input messages, if stated."""
    samplings: int | None = None
    _purpose: str = Purpose.AGENT.value
    _asked: Mapping[str, Any] = MappingProxyType({})
    """What its span started with."""
    _content: dict[str, Any] | None = None

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
            attempt: From 1; by itself one more than that of the call before it in its turn, if
                that had the identical input or, where inputs are not stated, failed.
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
            counted = checks.whole(Attr.CALL_ATTEMPT, attempt, least=1)
            self.attempt = counted or self.attempt
            self.record(Attr.CALL_ATTEMPT, counted)
        if purpose is not None:
            value = checks.word(Purpose, Attr.CALL_PURPOSE, purpose)
            self.record(Attr.CALL_PURPOSE, value)
            self._purpose = value or self._purpose
        if disposition is not None:
            key = Attr.CALL_DISPOSITION
            self.record(key, checks.word(Disposition, key, disposition))
        if samplings is not None:
            self.samplings = checks.whole(Attr.CALL_SAMPLINGS, samplings)
            self.record(Attr.CALL_SAMPLINGS, self.samplings)

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

    def messages(self, *, input: Any = None, output: Any = None) -> None:  # noqa: A002 - as in llm_call
        """Give the call's messages: recorded only where content capture is on, as given.

        Args:
            input: ``gen_ai.input.messages``; not needed where ``llm_call`` was given its input.
            output: ``gen_ai.output.messages``.
        """
        content = self.run.content
        if not (content.on_spans or content.in_events):
            return
        said = {GenAI.INPUT_MESSAGES: input, GenAI.OUTPUT_MESSAGES: output}
        said = {key: as_text(value) for key, value in said.items() if value is not None}
        if content.on_spans:
            for key, value in said.items():
                self.record(key, value)
        if content.in_events:
            self._content = {**(self._content or {}), **said}

    def price(self) -> None:
        """Price the call by its usage, with the price tables of the extra ``prices``.

        A stated cost stands. Where no price is known, the cost stays unknown.
        """
        if Attr.COST_USD not in self._late:
            self.record(Attr.COST_USD, self._priced())

    def _priced(self) -> float | None:
        late = self._late
        model = late.get(GenAI.RESPONSE_MODEL, self._asked.get(GenAI.REQUEST_MODEL))
        provider = late.get(GenAI.PROVIDER_NAME, self._asked.get(GenAI.PROVIDER_NAME))
        return price_usd(model, provider, late)

    def _opening(self, attributes: dict[str, Any]) -> None:
        self._asked = attributes
        purpose = attributes.get(_PURPOSE)
        if purpose is None:
            attributes[_PURPOSE] = purpose = self.purpose or _AGENT
        self._purpose = purpose
        if _DIGEST in attributes:
            self.input = attributes[_DIGEST]
        if _SAMPLINGS in attributes:
            self.samplings = attributes[_SAMPLINGS]
        parent = self.parent
        if parent is not None and parent.turn is not None:
            self.turn = turn = parent.turn
            before = turn.calls.get(purpose)
            if before is not None and self.samplings != 0 and self._repeats(before, turn):
                self.attempt = before.attempt + 1
            turn.calls[purpose] = self
        if _ATTEMPT in attributes:
            self.attempt = attributes[_ATTEMPT]
        else:
            attributes[_ATTEMPT] = self.attempt

    def _repeats(self, before: CallHandle, turn: TurnHandle) -> bool:
        """Whether this is another attempt at what the call before it in its turn was for."""
        if self.input is None or before.input is None:
            return before.failed
        if self.input == before.input:
            return True
        if turn.automatic_for is None and self._purpose in GENERATING:
            misused(Misuse.TURN, _CHANGED)
        return False

    def _closing(self, late: dict[str, Any], error: BaseException | None) -> None:
        if self.run.prices and Attr.COST_USD not in late:
            cost = self._priced()
            if cost is not None:
                late[Attr.COST_USD] = cost
        if _DISPOSITION in late:
            disposition = late[_DISPOSITION]
        else:
            late[_DISPOSITION] = disposition = _COMMITTED if error is None else _FAILED
        failed = disposition == _FAILED
        samplings = self.samplings
        if failed:
            self.failed = True
        elif samplings is None:
            late[_SAMPLINGS] = 1
        turn = self.turn
        if turn is not None:
            if self._purpose not in GENERATING or (samplings == 0 and not failed):
                turn.side_work = True
            else:
                turn.generated.add(disposition)
        if self._content:
            about = (GenAI.OPERATION_NAME, GenAI.PROVIDER_NAME, GenAI.REQUEST_MODEL)
            asked = {key: self._asked[key] for key in about if key in self._asked}
            emit_details({**asked, **self._content}, self.context)
