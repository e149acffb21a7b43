"""Runs whose spans a framework makes: a span processor that stamps and counts them.

Two lines around an agent that emits spans already::

    provider.add_span_processor(TurnAvoidSpanProcessor())

    with invoke(arm="control", input=task):
        agent.run(task)

Every span that starts inside the ``invoke`` gets the run id, arm and variant; those that end as
model calls or tool executions are counted, as raw spans and by the same dialects with which the
processor reads them. So the Invoke declares complete counts for spans that it did not make
(design section 3), and evidence is ``declared``.

Where something may be missing, the declaration shows it. A call that is still open when the
Invoke ends counts, and so does a span that may still become one, or that lost attributes to a
limit and may have been one: unless it arrives as a call, the run is incomplete. Nothing is
declared at all where spans may have been left out: the sampler drops some, or a model call was
made outside every run while one was open.
"""

from __future__ import annotations

import logging
import os
from threading import RLock
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakMethod

from opentelemetry import context as context_api
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.trace import SpanKind, get_current_span

from otel_turnavoid.dialects import Reader
from otel_turnavoid.instrument.readable import SpanKey, key_of, view_of
from otel_turnavoid.instrument.run import WATCHERS, RunState
from otel_turnavoid.instrument.sampling import keeps, keeps_everything
from otel_turnavoid.instrument.scope import innermost
from otel_turnavoid.judge.facts import SpanFact
from otel_turnavoid.vocabulary import SCOPE, Attr, Entry, GenAI

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import Span

_COUNTED: Final = frozenset({Entry.LLM_CALL, Entry.TOOL_TURN})
_STAMPS: Final = (Attr.RUN_ID, Attr.ARM, Attr.VARIANT)
_TELLING: Final = (
    GenAI.OPERATION_NAME,
    "openinference.span.kind",
    "traceloop.span.kind",
    "http.request.method",
    "http.method",
    "db.system.name",
    "db.system",
    "rpc.system.name",
    "rpc.system",
    "messaging.system",
)
"""Attributes that say what a span is: no call, where no dialect reads it as one."""

_CUT: Final = "span %r lost attributes to a limit and counts as a call: its run is incomplete"
_UNFINISHED: Final = "span %r is open at its run's end and counts as a call: the run is incomplete"
_LOST: Final = (
    "%r ran outside every run while one was open: its context was lost, so the open runs declare"
    " no counts (if it belongs to no run: TurnAvoidSpanProcessor(other_calls=True))"
)

_logger = logging.getLogger(__name__)


class TurnAvoidSpanProcessor(SpanProcessor):
    """Stamps and counts the spans that other instrumentations start inside an ``invoke``.

    Add one to every ``TracerProvider`` that the agent's spans go to, beside the exporter, in any
    order. It exports nothing itself.

    Args:
        other_calls: Whether this process also makes model calls that belong to no run. By
            default it does not: a model call or tool execution outside every run, while a run
            is open, is one whose context was lost, and the open runs declare no counts.
    """

    def __init__(self, *, other_calls: bool = False) -> None:
        self._other_calls = other_calls
        self._reader = Reader()
        self._known_to_keep: Any = None
        self._lock = RLock()  # a span can end where the collector of garbage runs: anywhere
        self._runs: dict[str, _Watched] = {}
        self._homes: dict[SpanKey, _Watched] = {}
        self._outside: dict[SpanKey, ReadableSpan] = {}
        WATCHERS.append(self)
        _forget_in_children(self)

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Stamp a span that starts in a run, and remember it until it ends."""
        key, said = key_of(span), span.attributes or {}
        if Attr.RUN_ID in said and _is_ours(span):
            self._note_entry(key, said)
            return
        context = context_api.get_current() if parent_context is None else parent_context
        handle = innermost(context) or innermost(context_api.get_current())
        run = None if handle is None or handle.run.run_id is None else handle.run
        with self._lock:
            watched = self._watched(get_current_span(context), run)
            if watched is None:
                if self._runs and not self._other_calls and run is None:
                    self._outside[key] = span
            else:
                watched.open[key] = span
                watched.keys.append(key)
                watched.lacks = watched.lacks or self._drops_some(span)
                self._homes[key] = watched
        if watched is not None:
            stamps = watched.stamps
        elif run is not None:  # its run has ended, or is another process's: it will show
            stamps = _stamps(run.common)
        else:
            return
        span.set_attributes({name: stamps[name] for name in stamps if name not in said})

    def on_end(self, span: ReadableSpan) -> None:
        """Count a span that ends as a model call or tool execution."""
        key = key_of(span)
        with self._lock:
            watched = self._homes.get(key)
            outside = self._outside.pop(key, None) is not None
        if watched is not None:
            entry = self._counted_as(span)
            if entry is None and span.dropped_attributes and not _is_telling(span):
                entry = Entry.LLM_CALL
                _logger.warning(_CUT, span.name)
            with self._lock:
                if watched.open.pop(key, None) is not None and entry is not None:
                    watched.counts[entry] += 1
                    watched.scopes.add(_scope(span))
        elif outside and self._entry_of(span) in _COUNTED:
            self._doubt(span)

    def settle(self, run: RunState) -> bool:
        """Add what was counted to a run that ends; False where it may lack something."""
        with self._lock:
            watched = self._runs.pop(_key(run), None)
            if watched is None:
                return True
            for key in watched.keys:
                self._homes.pop(key, None)
            unfinished = list(watched.open.values())
            watched.open.clear()
            outside = list(self._outside.values())
            if not self._runs:
                self._outside.clear()
        for span in unfinished:
            entry = self._counted_as(span)
            if entry is None and watched.may_become_a_call(span):
                entry = Entry.LLM_CALL
                _logger.warning(_UNFINISHED, span.name)
            if entry is not None:
                watched.counts[entry] += 1
        for entry, number in watched.counts.items():
            run.count(entry.value, number)
        for span in outside:
            if self._entry_of(span) in _COUNTED:
                watched.lacks = True
                _logger.warning(_LOST, span.name)
        return not watched.lacks and keeps_everything(run.tracer)

    def shutdown(self) -> None:
        """Stop watching."""
        if self in WATCHERS:
            WATCHERS.remove(self)
        self._forget()

    def _note_entry(self, key: SpanKey, said: Any) -> None:
        """Remember an entry of ours, so that spans below it are found by their parent."""
        run_id = said[Attr.RUN_ID]
        with self._lock:
            watched = self._runs.get(run_id)
            if watched is None:
                if said.get(Attr.ENTRY) != Entry.INVOKE.value:
                    return
                watched = self._runs[run_id] = _Watched(_stamps(said))
            watched.keys.append(key)
            self._homes[key] = watched

    def _watched(self, parent: Any, run: RunState | None) -> _Watched | None:
        """Return the open run that a span belongs to: its parent's, else the current one."""
        context = parent.get_span_context()
        home = self._homes.get((context.trace_id, context.span_id))
        if home is not None or run is None or run.ended or run.inherited:
            return home
        watched = self._runs.get(_key(run))
        if watched is None:  # its Invoke goes to another provider, or is in another process
            watched = self._runs[_key(run)] = _Watched(_stamps(run.common))
        return watched

    def _drops_some(self, span: Span) -> bool:
        """Whether the sampler of another provider than the Invoke's may leave spans out."""
        sampler = getattr(span, "_sampler", None)
        if sampler is not None and sampler is not self._known_to_keep:
            if not keeps(sampler):
                return True
            self._known_to_keep = sampler
        return False

    def _entry_of(self, span: ReadableSpan) -> Entry | None:
        try:
            fact = self._reader.read(view_of(span))
        except Exception:  # a bug of ours must not stop the agent, nor pass as an avoided call
            _logger.exception("span %r cannot be read and counts as a call", span.name)
            return Entry.LLM_CALL
        return fact.entry if isinstance(fact, SpanFact) else None

    def _counted_as(self, span: ReadableSpan) -> Entry | None:
        entry = self._entry_of(span)
        return entry if entry in _COUNTED else None

    def _doubt(self, span: ReadableSpan) -> None:
        with self._lock:
            for watched in self._runs.values():
                watched.lacks = True
        _logger.warning(_LOST, span.name)

    def _forget(self) -> None:
        self._lock = RLock()
        self._runs, self._homes, self._outside = {}, {}, {}


class _Watched:
    """What is known of one open run."""

    __slots__ = ("counts", "keys", "lacks", "open", "scopes", "stamps")

    def __init__(self, stamps: dict[str, Any]) -> None:
        self.stamps = stamps
        self.open: dict[SpanKey, ReadableSpan] = {}
        self.keys: list[SpanKey] = []
        self.counts = dict.fromkeys(_COUNTED, 0)
        self.lacks = False
        self.scopes: set[str] = set()
        """Those whose spans were counted."""

    def may_become_a_call(self, span: ReadableSpan) -> bool:
        """Whether an open span that is no call yet may still be told that it is one."""
        likely = span.kind is SpanKind.CLIENT or _scope(span) in self.scopes
        return likely and not _is_telling(span)


def _forget_in_children(processor: TurnAvoidSpanProcessor) -> None:
    """Let a forked process start anew: the runs that are open belong to its parent."""
    forget = WeakMethod(processor._forget)  # noqa: SLF001 - one module

    def in_child() -> None:
        still = forget()
        if still is not None:
            still()

    if hasattr(os, "register_at_fork"):  # not on Windows
        os.register_at_fork(after_in_child=in_child)


def _key(run: RunState) -> str:
    """Return what tells a run from others, and from its part beyond a hop in this process."""
    return str(run.run_id) if run.numbered else f"{run.run_id} {id(run)}"


def _stamps(said: Any) -> dict[str, Any]:
    return {name: said[name] for name in _STAMPS if name in said}


def _scope(span: ReadableSpan) -> str:
    scope = span.instrumentation_scope
    return "" if scope is None else scope.name


def _is_ours(span: ReadableSpan) -> bool:
    """Whether the run counts this span by itself, as an entry or for another process."""
    return _scope(span) == SCOPE


def _is_telling(span: ReadableSpan) -> bool:
    return any(name in (span.attributes or {}) for name in _TELLING)
