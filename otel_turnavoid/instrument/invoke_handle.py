"""What can be said about an Invoke, and about its whole run, while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from otel_turnavoid.instrument import checks
from otel_turnavoid.instrument.handover import Handover
from otel_turnavoid.instrument.lifecycle import advanced
from otel_turnavoid.instrument.misuse import Misuse, misused, noticed
from otel_turnavoid.instrument.scope import Handle
from otel_turnavoid.vocabulary import (
    Attr,
    Entry,
    GenAI,
    InvokeState,
    Lifecycle,
    Mechanism,
    Reason,
    read_word,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_turnavoid.instrument.run import RunState

_IMPAIRED: Final = (
    "entries of a run were suppressed, sampled out or cut: its Invoke counts them, so that it is"
    " not taken for complete"
)

_HANDED: Final = (
    Attr.INPUT_DIGEST,
    Attr.EXPERIMENT_ID,
    Attr.UNIT_ID,
    Attr.TURN_INDEX,
    Attr.DECISION_BASIS,
    Attr.MECHANISM,
    Attr.LIFECYCLE,
    Attr.REASON,
    GenAI.AGENT_NAME,
    GenAI.CONVERSATION_ID,
)
"""What every segment of a run repeats."""


class InvokeHandle(Handle):
    """An open Invoke. What it says about the whole run goes to the run's outermost Invoke."""

    entry: ClassVar[str] = Entry.INVOKE.value

    def __init__(self, run: RunState, parent: Handle | None) -> None:
        super().__init__(run, parent)
        self.lifecycle: Lifecycle | None = None
        """How far the change of the run has got, on the outermost Invoke."""
        self.said: dict[str, Any] = {}
        """What the outermost Invoke started with and its next segment repeats."""

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
                ``aborted`` on a cancellation or interrupt. ``completed`` where an exception ends
                it contradicts its span's status, and such a run earns nothing. A paused Invoke
                declares no counts.
            mechanism: What was changed (``turnavoid.mechanism``), of the whole run.
            lifecycle: How far it got (``turnavoid.lifecycle``), of the whole run; forward only
                (``instrument.lifecycle``).
            reason: Why the run differs (``turnavoid.reason``), of the whole run.
        """
        if state is not None:
            self.record(Attr.INVOKE_STATE, checks.word(InvokeState, Attr.INVOKE_STATE, state))
        run = self.outermost
        if mechanism is not None:
            run.record(Attr.MECHANISM, checks.word(Mechanism, Attr.MECHANISM, mechanism))
        if lifecycle is not None:
            run._step(lifecycle)  # noqa: SLF001 - of the same class
        if reason is not None:
            run.record(Attr.REASON, checks.word(Reason, Attr.REASON, reason))

    def opportunity(self, mechanism: str | None = None, *, reason: str | None = None) -> None:
        """Record that the change could apply in this run."""
        self.set(lifecycle=Lifecycle.OPPORTUNITY.value, mechanism=mechanism, reason=reason)

    def attempted(self, mechanism: str | None = None, *, reason: str | None = None) -> None:
        """Record that the change was tried."""
        self.set(lifecycle=Lifecycle.ATTEMPTED.value, mechanism=mechanism, reason=reason)

    def realized(self, mechanism: str | None = None, *, reason: str | None = None) -> None:
        """Record that the change took effect: only such runs can earn."""
        self.set(lifecycle=Lifecycle.REALIZED.value, mechanism=mechanism, reason=reason)

    def invalidated(self, *, reason: str | None = None) -> None:
        """Record that the change was undone or found wrong; nothing is realized after it."""
        self.set(lifecycle=Lifecycle.INVALIDATED.value, reason=reason)

    def counterfactual_only(
        self,
        mechanism: str | None = None,
        *,
        reason: str | None = Reason.COUNTERFACTUAL_ONLY.value,
    ) -> None:
        """Record that the change was computed and not applied, as in a shadow run."""
        self.set(lifecycle=Lifecycle.COUNTERFACTUAL_ONLY.value, mechanism=mechanism, reason=reason)

    def pause(self) -> Handover:
        """Pause the run, to be resumed later and elsewhere (``resume``), and hand it over.

        Say it last: what is entered afterwards is not in the handover. The Invoke ends
        ``paused``, also where an exception unwinds to it, and declares no counts; the last
        segment declares them for all.
        """
        outer, run = self.outermost, self.run
        proven = run.settle()
        run.paused = run.ended = True
        outer.record(Attr.INVOKE_STATE, InvokeState.PAUSED.value)
        said = dict(outer.said)
        said.update({k: v for k, v in outer._late.items() if k in _HANDED})  # noqa: SLF001
        return Handover.of(run, said, outer.span.get_span_context(), proven=proven)

    def _step(self, lifecycle: str) -> None:
        """Move the lifecycle of the run on, where that is forward."""
        word = checks.word(Lifecycle, Attr.LIFECYCLE, lifecycle)
        known = None if word is None else read_word(Lifecycle, word)
        if known is None:
            self.record(Attr.LIFECYCLE, word)
            return
        reached = advanced(self.lifecycle, known)
        if reached is None and self.lifecycle is not None:
            misused(
                Misuse.LIFECYCLE,
                f"{Attr.LIFECYCLE} cannot become {known.value} after {self.lifecycle.value}",
            )
            return
        self.lifecycle = reached
        self.record(Attr.LIFECYCLE, None if reached is None else reached.value)

    def _opening(self, attributes: dict[str, Any]) -> None:
        self.lifecycle = read_word(Lifecycle, attributes.get(Attr.LIFECYCLE))
        self.said = {key: attributes[key] for key in _HANDED if key in attributes}

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
        run = self.run
        if run.outermost is not self:
            return
        run.ended = True
        if run.impaired and self.span.is_recording():
            late[Attr.INVOKE_IMPAIRED] = run.impaired
            noticed(Misuse.IMPAIRED, _IMPAIRED)
        provable = run.settle()
        if provable and late[Attr.INVOKE_STATE] != InvokeState.PAUSED:
            counts = run.counts()
            late[Attr.INVOKE_AGENT_TURNS] = counts.agent_turns
            late[Attr.INVOKE_LLM_CALLS] = counts.llm_calls
            late[Attr.INVOKE_TOOL_TURNS] = counts.tool_turns
            late[Attr.INVOKE_ENTRIES] = counts.entries
