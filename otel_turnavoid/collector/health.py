"""What probes are answered over HTTP, in the manner of the collector's health_check extension."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from otel_turnavoid.collector.readiness import Readiness

LIVE: Final = "/health"
"""Answers 200 as long as the process answers at all: restart it where it does not."""

READY: Final = "/ready"
"""Answers 200 where exports are taken, else 503 with the reasons: send elsewhere meanwhile."""

_NANOSECOND: Final = 1e-9


def application(
    readiness: Readiness, path: str, started_ns: int, now_ns: Callable[[], int]
) -> Starlette:
    """Return the ASGI application.

    Args:
        readiness: Knows whether exports are taken.
        path: Answers as ``/ready`` does.
        started_ns: When the processor started, nanoseconds since the epoch.
        now_ns: Reads the same clock.
    """
    since = datetime.fromtimestamp(started_ns * _NANOSECOND, timezone.utc)

    def said(status: str, code: int, **more: object) -> JSONResponse:
        uptime_s = (now_ns() - started_ns) * _NANOSECOND
        shown = {"status": status, "upSince": since.isoformat(), "uptime": f"{uptime_s:.3f}s"}
        return JSONResponse({**shown, **more}, code)

    async def live(_: Request) -> JSONResponse:
        return said("Server available", 200)

    async def ready(_: Request) -> JSONResponse:
        reasons = await readiness.look()
        if reasons:
            return said("Server not available", 503, reasons=list(reasons))
        return said("Server available", 200)

    paths = {LIVE: live, READY: ready, path: ready}
    return Starlette(routes=[Route(at, answer) for at, answer in paths.items()])
