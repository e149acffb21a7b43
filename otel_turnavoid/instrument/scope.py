"""The machinery that all six kinds share: open an entry, make it current, end it once.

``Scope`` is what ``llm_call(…)`` returns: the description of entries to come, used as a context
manager or as a decorator; it can open any number of entries, one after the other or nested.
``Handle`` is one open entry: what ``with`` yields, to say more about it while it runs. What is
said is kept and set on the span in one go when the entry ends.
"""

from __future__ import annotations

from contextlib import contextmanager
from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from opentelemetry import context as context_api
from opentelemetry.trace import INVALID_SPAN, Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation import set_span_in_context

from otel_turnavoid.instrument import checks
from otel_turnavoid.instrument.misuse import Misuse, misused
from otel_turnavoid.instrument.run import RunState, tracer_of
from otel_turnavoid.vocabulary import ERROR_TYPE, Attr, OverheadKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextvars import Token
    from types import TracebackType

    from opentelemetry.context import Context
    from opentelemetry.trace import TracerProvider
    from typing_extensions import Self

    from otel_turnavoid.instrument.handles import TurnHandle

F = TypeVar("F", bound="Callable[..., Any]")
H = TypeVar("H", bound="Handle")

CURRENT = context_api.create_key("turnavoid-entry")
"""Where the innermost open handle stands in an OpenTelemetry context."""

_ERROR = Status(StatusCode.ERROR)


class Handle:
    """One open entry of a run."""

    __slots__ = ("_ended", "_late", "context", "parent", "run", "seq", "span", "turn")

    entry: ClassVar[str]
    """``turnavoid.entry``."""
    span_kind: ClassVar[SpanKind] = SpanKind.INTERNAL

    def __init__(self, run: RunState, parent: Handle | None) -> None:
        self.run = run
        self.parent = parent
        self.seq: int | None = None
        self.span: Span = INVALID_SPAN
        """The span, to add attributes of one's own."""
        self.turn: TurnHandle | None = None
        """The AgentTurn in which calls count as attempts."""
        self.context: Context
        self._late: dict[str, Any] = {}
        self._ended = False

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

        Threads and executors do not inherit what is current; asyncio tasks do.
        """
        token = context_api.attach(self.context)
        try:
            yield self
        finally:
            restore(token)

    def end(self, error: BaseException | None = None) -> None:
        """End the entry, once; a second end changes nothing."""
        if self._ended:
            return
        self._ended = True
        late, span = self._late, self.span
        self._closing(late, error)
        if error is not None:
            late[ERROR_TYPE] = _type_name(error)
            span.set_status(_ERROR)
        if late:
            span.set_attributes(late)
        span.end()

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

    As a decorator it serves any number of calls at once; as a context manager one thread or task
    at a time.

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
        self._start = {Attr.ENTRY: handle_type.entry}
        for key, value in (attributes or {}).items():
            if value is not None:
                self._start[key] = value
        self._tracer_provider = tracer_provider
        self._open: list[tuple[H, Token[Context]]] = []
        self._name = title
        if name is not None:
            self._rename(checks.text(name_key or title, name))

    def decorating(self, name: str) -> Self:
        """Return the scope of one decorated function, with its name where none was given."""
        scope = copy(self)
        scope._open = []  # noqa: SLF001 - its own, until it is returned
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

    def begin(self, arguments: dict[str, Any] | None = None) -> H:  # noqa: ARG002 - invoke's
        """Open an entry without making it current.

        Args:
            arguments: Those of the decorated function, by parameter.
        """
        context = context_api.get_current()
        parent = innermost(context)
        if parent is None:
            misused(Misuse.OUTSIDE, f"{self._type.entry} outside an invoke belongs to no run")
            run = RunState(None, {}, tracer_of(self._tracer_provider))
        else:
            run = parent.run
            if run.ended:
                misused(Misuse.ENDED, f"{self._type.entry} after the invoke of its run had ended")
        return self._start_entry(context, run, parent, {})

    def _start_entry(
        self, context: Context, run: RunState, parent: Handle | None, more: dict[str, Any]
    ) -> H:
        kind = self._type
        handle = kind(run, parent)
        attributes = {**self._start, **run.common, **more}
        handle._opening(attributes)  # noqa: SLF001 - a scope and its handles are one thing
        if run.run_id is not None:
            attributes[Attr.SEQ] = handle.seq = run.take(kind.entry)
        handle.span = span = run.tracer.start_span(
            self._name, context, kind=kind.span_kind, attributes=attributes
        )
        handle.context = context_api.set_value(CURRENT, handle, set_span_in_context(span, context))
        return handle

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
        handle, token = self._open.pop()
        restore(token)
        handle.end(error)

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
    found = context.get(CURRENT)
    return found if isinstance(found, Handle) else None


def restore(token: Token[Context]) -> None:
    """Put back the context that was current before ``token`` was made.

    Quiet, unlike ``context.detach``, where another task or thread ends what this one began, as
    happens to generators that are closed from elsewhere: there is nothing to put back there.
    """
    try:
        token.var.reset(token)
    except ValueError:
        return


def _type_name(error: BaseException) -> str:
    kind = type(error)
    module = kind.__module__
    return kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"
