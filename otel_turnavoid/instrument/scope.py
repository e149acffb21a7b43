"""The machinery that all six kinds share: open an entry, make it current, end it once.

``Scope`` is what ``llm_call(…)`` returns: the description of entries to come, used as a context
manager or as a decorator; it can open any number of entries, one after the other or nested.
``Handle`` is one open entry: what ``with`` yields, to say more about it while it runs. What is
said is kept and set on the span in one go when the entry ends.
"""

from __future__ import annotations

from contextlib import contextmanager
from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar

from opentelemetry import context as context_api
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY, Context
from opentelemetry.trace import INVALID_SPAN, NoOpTracer, Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation import set_span_in_context

from otel_turnavoid.instrument import checks
from otel_turnavoid.instrument.misuse import Misuse, misused, noticed
from otel_turnavoid.instrument.run import Process, RunState, note_stray, tracer_of
from otel_turnavoid.vocabulary import ERROR_TYPE, Attr, OverheadKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextvars import Token
    from types import TracebackType

    from opentelemetry.trace import Link, TracerProvider
    from typing_extensions import Self

    from otel_turnavoid.instrument.automatic import AutomaticTurns
    from otel_turnavoid.instrument.handles import TurnHandle

F = TypeVar("F", bound="Callable[..., Any]")
H = TypeVar("H", bound="Handle")

CURRENT = context_api.create_key("turnavoid-entry")
"""Where the innermost open handle stands in an OpenTelemetry context."""

_SPAN: Final = next(iter(set_span_in_context(INVALID_SPAN, Context())))
"""Where the API keeps the current span, which it does not name in public."""
_SEQ: Final = Attr.SEQ
_FEW: Final = 2
"""Up to so many attributes, setting each is cheaper than handing the SDK a mapping."""
_ERROR: Final = Status(StatusCode.ERROR)
_SUPPRESSED: Final = (
    "an entry was suppressed inside a run: the run counts it, so that it is not complete"
)
_LIMITED: Final = (
    "span limits cut attributes of an entry (OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT,"
    " OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT): its run may not be complete"
)


NOTHING_KNOWN: Final[
    tuple[RunState | None, Callable[[], int] | None, Callable[[], int] | None, dict[str, Any]]
] = (None, None, None, {})
"""Of a scope: the last run, what counts its entries there and what numbers them, if anything
does, and the attributes that they start with."""


class Handle:
    """One open entry of a run."""

    entry: ClassVar[str]
    """``turnavoid.entry``; of work that is no entry, what it is called."""
    counted: ClassVar[bool] = True
    """Whether it is an entry: numbered, and in the declared counts."""
    in_turn: ClassVar[bool] = False
    """Whether it belongs in an AgentTurn, which opens by itself where there is none."""
    span_kind: ClassVar[SpanKind] = SpanKind.INTERNAL

    # Defaults stand on the class: handles are made for every call.
    seq: int | None = None
    """``turnavoid.seq``; None where the run is not numbered here."""
    span: Span = INVALID_SPAN
    """The span, to add attributes of one's own."""
    turn: TurnHandle | None = None
    """The AgentTurn in which calls count as attempts."""
    automatic: AutomaticTurns | None = None
    """The AgentTurns that opened by themselves directly below this entry."""
    purpose: str | None = None
    """What model calls below are for where they do not say."""
    context: Context
    _ended = False
    _ended_with: Callable[[Any], None] | None = None
    """Hears that the entry has ended."""

    def __init__(self, run: RunState, parent: Handle | None) -> None:
        self.run = run
        self.parent = parent
        self._late: dict[str, Any] = {}
        self.purpose = None if parent is None else parent.purpose

    @property
    def run_id(self) -> str | None:
        """``turnavoid.run.id``; None outside a run."""
        return self.run.run_id

    def cost(self, usd: float) -> None:
        """State what the work of this entry cost, in US dollars (``turnavoid.cost.usd``)."""
        self.record(Attr.COST_USD, checks.amount(Attr.COST_USD, usd))

    def overhead(self, kind: str) -> None:
        """Mark this entry's work as overhead: validation, speculation, retry or recovery."""
        self.record(Attr.OVERHEAD_KIND, checks.word(OverheadKind, Attr.OVERHEAD_KIND, kind))

    def retained(self, *, tokens: int | None = None, latency_ms: float | None = None) -> None:
        """State what a kept turn needed less, as the mechanism knows it: never an avoided turn.

        Args:
            tokens: Tokens needed less (``turnavoid.retained.tokens_reduced``).
            latency_ms: Milliseconds needed less (``turnavoid.retained.latency_reduced_ms``).
        """
        if tokens is not None:
            key = Attr.RETAINED_TOKENS_REDUCED
            self.record(key, checks.whole(key, tokens))
        if latency_ms is not None:
            key = Attr.RETAINED_LATENCY_REDUCED_MS
            self.record(key, checks.amount(key, latency_ms))

    @contextmanager
    def attached(self) -> Iterator[Self]:
        """Make this entry current in another thread, whose entries then belong to it.

        Threads and executors do not inherit what is current; asyncio tasks do. ``carry`` and
        ``ContextExecutor`` do the same without naming the entry.
        """
        token = context_api.attach(self.context)
        try:
            yield self
        finally:
            restore(token, self)

    def end(self, error: BaseException | None = None, *, end_ns: int | None = None) -> None:
        """End the entry, once; a second end changes nothing.

        Args:
            error: What ended it, unless it ended well.
            end_ns: When it ended, nanoseconds since the epoch; default now.
        """
        self._finish(error, end_ns)

    def _finish(self, error: BaseException | None, end_ns: int | None) -> None:
        """End the entry as ``end`` does; all positional, which is what Python calls fastest."""
        if self._ended:
            return
        self._ended = True
        run = self.run
        if run.born != Process.forks:
            return  # it was opened before a fork: the parent process ends it
        if self.automatic is not None:
            self.automatic.close()
        late, span = self._late, self.span
        if error is not None:
            error = self._failed(error)
        self._closing(late, error)
        if len(late) > _FEW:
            span.set_attributes(late)
        else:
            for key, value in late.items():
                span.set_attribute(key, value)
        if getattr(span, "dropped_attributes", 0):
            run.impaired += 1
            noticed(Misuse.IMPAIRED, _LIMITED)
        span.end(end_ns)
        parent = self.parent
        if parent is not None:
            # A context that holds its own handle would have to wait for the cyclic collector.
            self.context = parent.context
        if self._ended_with is not None:
            self._ended_with(self)

    def _failed(self, error: BaseException) -> BaseException | None:
        """Say what ended the entry; None where that is no failure."""
        if self.run.paused:
            return None  # it unwinds a run that was paused on purpose
        self._late[ERROR_TYPE] = _type_name(error)
        self.span.set_status(_ERROR)
        return error

    def record(self, key: str, value: Any) -> None:
        """Keep an attribute for the span's end; the last value of a key stands, None is none."""
        if self._ended:
            misused(Misuse.ENDED, f"{key} was set after its {self.entry} had ended")
        elif value is not None:
            self._late[key] = value

    def _opening(self, attributes: dict[str, Any]) -> None:
        """Add to the attributes that the span starts with."""

    def _closing(self, late: dict[str, Any], error: BaseException | None) -> None:
        """Add to the attributes that the span ends with."""


class Scope(Generic[H]):
    """A description of entries to come: a context manager and a decorator.

    One serves any number of calls, threads and tasks at once.

    Args:
        handle_type: The kind.
        title: The first word of the span's name.
        name: The rest of it: an agent, model or tool; a decorated function gives its own.
        name_key: Attribute that carries the name, if any.
        attributes: What every span of this scope starts with; None is left out.
        function_name: Whether a decorated function gives a nameless scope its own name.
        tracer_provider: Where strays go; entries of a run go where the run goes.
    """

    __slots__ = (
        "_function_name",
        "_known",
        "_name",
        "_name_key",
        "_open",
        "_start",
        "_title",
        "_tracer_provider",
        "_type",
    )

    input_parameter: str | None = None
    """The decorated function's parameter that ``begin`` wants to see."""

    def __init__(  # noqa: PLR0913 - called from one module
        self,
        handle_type: type[H],
        title: str,
        name: str | None = None,
        *,
        name_key: str | None = None,
        attributes: dict[str, Any] | None = None,
        function_name: bool = True,
        tracer_provider: TracerProvider | None = None,
    ) -> None:
        self._type = handle_type
        self._title = title
        self._name_key = name_key
        self._function_name = function_name and name_key is not None and name is None
        self._start: dict[str, Any] = {Attr.ENTRY: handle_type.entry} if handle_type.counted else {}
        for key, value in (attributes or {}).items():
            if value is not None:
                self._start[key] = value
        self._tracer_provider = tracer_provider
        self._known = NOTHING_KNOWN
        self._open: list[tuple[H, Token[Context]]] = []
        self._name = title
        if name is not None:
            self._rename(checks.text(name_key or title, name))

    def decorating(self, name: str) -> Self:
        """Return the scope of one decorated function, with its name where none was given."""
        scope = copy(self)
        scope._open = []  # noqa: SLF001 - its own, until it is returned
        scope._known = NOTHING_KNOWN  # noqa: SLF001
        if self._function_name:
            scope._start = dict(self._start)  # noqa: SLF001
            scope._rename(name)  # noqa: SLF001
        return scope

    def _rename(self, name: str | None) -> None:
        if name is None:
            return
        self._name = f"{self._title} {name}"
        if self._name_key is not None:
            self._start[self._name_key] = name

    def begin(self, arguments: dict[str, Any] | None = None) -> H:
        """Open an entry without making it current.

        Args:
            arguments: Those of the decorated function, by parameter.
        """
        if arguments is not None:
            return self._given(arguments).begin()
        context = context_api.get_current()
        parent: Handle | None = context.get(CURRENT)  # type: ignore[assignment] # our key
        if context.get(_SUPPRESS_INSTRUMENTATION_KEY):
            return self._suppressed(context, parent)
        if parent is None:
            note_stray()
            misused(Misuse.OUTSIDE, f"{self._type.entry} outside an invoke belongs to no run")
            run = RunState(None, {}, tracer_of(self._tracer_provider))
        else:
            run = parent.run
            if run.ended or run.born != Process.forks:
                run = self._run_of(parent)
            if parent.turn is None and self._type.in_turn and run.run_id is not None:
                return self._start_outside_turn(context, run, parent)
        return self._start_entry(context, run, parent)

    def _given(self, arguments: dict[str, Any]) -> Scope[H]:  # noqa: ARG002 - of calls
        """Return the scope of one entry whose function has these arguments."""
        return self

    def _start_outside_turn(self, context: Context, run: RunState, parent: Handle) -> H:
        """Open an entry that belongs in an AgentTurn where there is none around it."""
        return self._start_entry(context, run, parent)

    def _run_of(self, parent: Handle) -> RunState:
        """Return the run that an entry below ``parent`` belongs to."""
        run = parent.run
        if run.inherited:
            misused(
                Misuse.PROCESS,
                f"{self._type.entry} in a forked process is not counted by the run that was open"
                " in its parent: hand work over with hop()",
            )
            run = run.here()
        if run.ended:
            misused(Misuse.ENDED, f"{self._type.entry} after the invoke of its run had ended")
        return run

    def _suppressed(self, context: Context, parent: Handle | None) -> H:
        """Open what leaves no trace; a run that is open counts it, so that the lack shows."""
        if parent is not None and self._type.counted:
            parent.run.take(self._type.entry)
            parent.run.impaired += 1
            if parent.run.run_id is not None:
                noticed(Misuse.IMPAIRED, _SUPPRESSED)
        handle = self._type(RunState(None, {}, NoOpTracer()), None)
        handle.context = context
        return handle

    def _start_entry(
        self,
        context: Context,
        run: RunState,
        parent: Handle | None,
        more: dict[str, Any] | None = None,
        links: Sequence[Link] | None = None,
    ) -> H:
        handle = self._type(run, parent)
        known, count, number, start = self._known
        if known is not run:
            count, number, start = self._know(run)
        attributes = start.copy() if more is None else {**start, **more}
        handle._opening(attributes)  # noqa: SLF001 - a scope and its handles are one thing
        if count is not None:
            count()
        if number is not None:
            handle.seq = attributes[_SEQ] = number()
        handle.span = span = run.tracer.start_span(
            self._name, context, handle.span_kind, attributes, links
        )
        if not span.is_recording():
            run.impaired += 1
        handle.context = Context({**context, _SPAN: span, CURRENT: handle})
        return handle

    def _know(
        self, run: RunState
    ) -> tuple[Callable[[], int] | None, Callable[[], int] | None, dict[str, Any]]:
        """Prepare what all entries of this scope in a run have in common."""
        count = number = None
        start = {**self._start, **run.common}
        if self._type.counted and run.run_id is not None:
            count, number = run.counting(self._type.entry)
            if number is None:
                del start[Attr.ENTRY]  # a raw span: the process that numbers counts it
        self._known = (run, count, number, start)
        return count, number, start

    def __call__(self, function: F) -> F:
        """Decorate a function: each call, or each iteration of a generator, is an entry."""
        from otel_turnavoid.instrument.functions import decorated  # noqa: PLC0415 - mutual

        return decorated(self, function)

    def __enter__(self) -> H:
        handle = self.begin()
        self._open.append((handle, context_api.attach(handle.context)))
        return handle

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        handle, token = self._leave()
        restore(token, handle)
        handle._finish(error, None)  # noqa: SLF001

    def _leave(self) -> tuple[H, Token[Context]]:
        """Return what the ``with`` that ends here opened, also where several tasks share it."""
        opened = self._open
        if len(opened) > 1:
            handle = innermost(context_api.get_current())
            while handle is not None:
                for entered in reversed(opened):
                    if entered[0] is handle:
                        opened.remove(entered)
                        return entered
                handle = handle.parent
        return opened.pop()

    async def __aenter__(self) -> H:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, traceback)


def innermost(context: Context) -> Handle | None:
    """Return the open entry that code in ``context`` runs in."""
    return context.get(CURRENT)  # type: ignore[return-value] # nobody else has the key


def restore(token: Token[Context], handle: Handle) -> None:
    """Put back the context that was current before ``handle`` became so.

    Only where ``handle``, or something inside it, still is current: a generator that is closed
    late or from elsewhere must not take away what others have made current since. Quiet, unlike
    ``context.detach``, where another task or thread ends what this one began.
    """
    current = context_api.get_current().get(CURRENT)
    while current is not handle:
        if current is None:
            return
        current = current.parent  # type: ignore[attr-defined] # it is a handle
    try:
        token.var.reset(token)
    except ValueError:
        return


def _type_name(error: BaseException) -> str:
    kind = type(error)
    module = kind.__module__
    return kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"
