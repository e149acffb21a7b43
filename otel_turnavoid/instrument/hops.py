"""Parts of a run in other processes: subprocesses and HTTP services that report back.

The process with the Invoke numbers the run and declares its counts, so another one cannot number
entries of it. Its spans are raw spans instead, with the run id and without number (design
section 3); it counts them and reports the counts, and the Invoke declares them with its own::

    with hop() as away:                                   # caller
        reply = client.post(url, headers=away.headers())
        away.report(reply.headers)

    with join(request.headers) as here:                   # service
        answer = handle(request)                          # llm_call, tool_turn, invoke…
    response.headers.update(here.report())

Trace context and baggage travel as W3C headers, or as environment variables. Any number of hops
may be open at once. A hop that nothing came back from leaves the run unproven: it earns nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Final

from opentelemetry import baggage
from opentelemetry import context as context_api
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY, Context
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.trace import get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from otel_turnavoid.instrument.content import content_mode
from otel_turnavoid.instrument.misuse import Misuse, misused, noticed
from otel_turnavoid.instrument.prices import prices_wanted
from otel_turnavoid.instrument.run import RunState, tracer_of
from otel_turnavoid.instrument.scope import CURRENT, Handle, innermost
from otel_turnavoid.vocabulary import Attr, Entry

if TYPE_CHECKING:
    from contextvars import Token

    from opentelemetry.trace import TracerProvider
    from typing_extensions import Self

REPORT: Final = "turnavoid-report"
"""Header, and in upper case environment variable, in which a hop's counts come back."""

_CARRIED: Final = (Attr.RUN_ID, Attr.ARM, Attr.VARIANT)
_PROPAGATOR: Final = CompositePropagator([TraceContextTextMapPropagator(), W3CBaggagePropagator()])
_SHAPE: Final = re.compile(r"llm_calls=(\d{1,9});tool_turns=(\d{1,9});whole=(true|false)")
_ENV: Final = str.maketrans("-.", "__")


class Hop:
    """Work that another process does for the run; see ``hop``."""

    def __init__(self) -> None:
        self._reported = False
        self._token: Token[Context] | None = None
        self._before: Context
        self._run: RunState | None = None

    def __enter__(self) -> Self:
        self._before = context = context_api.get_current()
        handle = innermost(context)
        if context.get(_SUPPRESS_INSTRUMENTATION_KEY):
            return self
        if handle is None or handle.run.run_id is None:
            misused(Misuse.OUTSIDE, "a hop outside an invoke belongs to no run")
            return self
        self._run = handle.run
        for key in _CARRIED:
            if key in handle.run.common:
                context = baggage.set_baggage(key, handle.run.common[key], context)
        # Current as well, so that instrumented clients carry it by themselves.
        self._token = context_api.attach(context)
        return self

    def __exit__(self, *_error: object) -> None:
        if self._token is not None:
            with suppress(ValueError):  # ended in another task: there is nothing to put back
                self._token.var.reset(self._token)
        if self._run is not None and not self._reported:
            self._run.proven = False
            noticed(
                Misuse.PROCESS,
                "nothing was reported back from a hop: its run cannot be proven complete",
            )

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *error: object) -> None:
        self.__exit__(*error)

    def headers(self) -> dict[str, str]:
        """Return the headers to send along: ``traceparent``, ``baggage``."""
        carrier: dict[str, str] = {}
        _PROPAGATOR.inject(carrier)
        return carrier

    def environment(self) -> dict[str, str]:
        """Return the same as environment variables, to add to those of a subprocess."""
        return {key.upper().translate(_ENV): value for key, value in self.headers().items()}

    def report(self, reported: Mapping[str, Any] | str | None) -> None:
        """Take the other side's counts.

        Args:
            reported: What ``Joined.report`` returned there: the reply's headers, or the text.
                Nothing, or something else, leaves the run unproven.
        """
        text = reported
        if isinstance(reported, Mapping) or hasattr(reported, "items"):
            text = _lowered(reported).get(REPORT)
        found = _SHAPE.fullmatch(text) if isinstance(text, str) else None
        if found is None or self._run is None:
            return
        self._reported = True
        self._run.count(Entry.LLM_CALL.value, int(found[1]))
        self._run.count(Entry.TOOL_TURN.value, int(found[2]))
        if found[3] == "false":
            self._run.proven = False


def hop() -> Hop:
    """Let another process do a part of the run: a context manager, sync and async."""
    return Hop()


class _JoinedHandle(Handle):
    """Stands for the caller in the process that joined its run."""

    entry: ClassVar[str] = "join"
    counted: ClassVar[bool] = False


class Joined:
    """The part of a run that this process does; see ``join``."""

    def __init__(
        self, carrier: Mapping[str, str] | None, tracer_provider: TracerProvider | None
    ) -> None:
        self._handle: _JoinedHandle | None = None
        self._tokens: list[Token[Context]] = []
        self._context = _PROPAGATOR.extract(_lowered(carrier), context=Context())
        known = {key: baggage.get_baggage(key, self._context) for key in _CARRIED}
        run_id = known.pop(Attr.RUN_ID)
        if not isinstance(run_id, str) or not run_id:
            return
        run = RunState(
            run_id,
            {key: value for key, value in known.items() if value is not None},
            tracer_of(tracer_provider),
            numbered=False,
            content=content_mode(),
            prices=prices_wanted(),
        )
        self._handle = handle = _JoinedHandle(run, None)
        handle.span = get_current_span(self._context)
        handle.context = context_api.set_value(CURRENT, handle, self._context)

    @property
    def run_id(self) -> str | None:
        """The run that was joined; None where the caller was in none."""
        return None if self._handle is None else self._handle.run_id

    def __enter__(self) -> Self:
        if self._handle is not None:
            self._tokens.append(context_api.attach(self._handle.context))
        return self

    def __exit__(self, *_error: object) -> None:
        if self._handle is None:
            return
        token = self._tokens.pop()
        with suppress(ValueError):  # ended in another task: there is nothing to put back
            token.var.reset(token)
        if self._handle.automatic is not None:
            self._handle.automatic.close()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *error: object) -> None:
        self.__exit__(*error)

    def report(self) -> dict[str, str]:
        """Return the counts for the caller, as headers of the reply; nothing without a run.

        Ask when the work is done: what starts later is not in it.
        """
        if self._handle is None:
            return {}
        run = self._handle.run
        whole = "true" if run.settle() and not run.impaired else "false"
        counts = run.counts()
        return {
            REPORT: f"llm_calls={counts.llm_calls};tool_turns={counts.tool_turns};whole={whole}"
        }


def join(
    carrier: Mapping[str, str] | None = None, *, tracer_provider: TracerProvider | None = None
) -> Joined:
    """Do a part of a caller's run: a context manager, sync and async.

    Where the carrier names no run, everything in it works as if it were not there. Join only
    callers that you trust: what one says of its run is believed.

    Args:
        carrier: The request's headers, any case; default the process's environment.
        tracer_provider: Default: the global one.
    """
    return Joined(carrier, tracer_provider)


def _lowered(carrier: Any) -> dict[str, str]:
    if carrier is None:
        names = {name.upper().translate(_ENV): name for name in (*_PROPAGATOR.fields, REPORT)}
        return {name: os.environ[key] for key, name in names.items() if key in os.environ}
    return {str(key).lower(): value for key, value in carrier.items() if isinstance(value, str)}
