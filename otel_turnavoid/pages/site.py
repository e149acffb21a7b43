"""The site: which path is which page, read from the ledger in threads of its own.

Nothing here changes anything. A page is whole before any of it is sent, never kept by who
receives it, and under a policy that lets it load, run and send nothing.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Final, NamedTuple

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from otel_turnavoid.errors import InputError, LedgerError
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.judge.verdict import RunDecided
from otel_turnavoid.pages import links
from otel_turnavoid.pages.asked import LONGEST, Asked, parsed
from otel_turnavoid.pages.counting import Counting
from otel_turnavoid.pages.finding import find
from otel_turnavoid.pages.frame import icon, policy
from otel_turnavoid.pages.latest import latest
from otel_turnavoid.pages.overview import overview
from otel_turnavoid.pages.pair_list import pair_list
from otel_turnavoid.pages.pair_page import pair_page
from otel_turnavoid.pages.problem_page import problem_page
from otel_turnavoid.pages.run_page import run_page
from otel_turnavoid.pages.trace_page import trace_page
from otel_turnavoid.publish.inquiry import explain_decision, explain_known_run, near_run_ids
from otel_turnavoid.publish.layout import moment
from otel_turnavoid.store import Ledger

READERS: Final = 2
"""Threads that read for pages: so many pages at once, whatever else the processor does."""

COUNTERS: Final = 1
"""Threads that count the accounts."""

MOST_WAITING: Final = 16
"""Pages asked for and not answered; more are told to come back."""

COUNTING_S: Final = 1.0
"""How long the overview waits for the accounts to be counted to the end."""

_ON_OVERVIEW: Final = 10

_HEADERS: Final = {
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "interest-cohort=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}

_logger = logging.getLogger(__name__)


class Source(NamedTuple):
    """What pages are made of."""

    ledger: Ledger
    settings: Settings
    """By which observations count."""
    counting: Counting
    reading: Executor
    """Reads and renders pages."""
    counter: Executor
    """Counts the accounts."""
    jaeger_url: str | None = None
    """Where Jaeger shows traces, without a slash at the end."""
    clock: Callable[[], int] = time.time_ns
    """Nanoseconds since the epoch."""


def application(source: Source) -> Starlette:
    """Return the ASGI application."""
    site = _Site(source)
    app = Starlette(
        routes=[
            Route(links.OVERVIEW, site.overview, methods=["GET"]),
            Route(links.PAIRS, site.pairs, methods=["GET"]),
            Route(f"{links.PAIRS}/{{number}}", site.pair, methods=["GET"]),
            Route("/runs/{run_id:path}", site.run, methods=["GET"]),
            Route("/traces/{trace_id}", site.trace, methods=["GET"]),
            Route(links.FIND, site.find, methods=["GET"]),
            Route(links.ICON, site.icon, methods=["GET"]),
        ],
        exception_handlers={HTTPException: _not_there},
    )
    app.router.redirect_slashes = False
    return app


def refused_page(status: int, title: str, problem: str) -> Response:
    """Return an answer that shows nothing of the ledger, for who stands before the site."""
    return _answer(problem_page(title, problem), status)


class _Missing(Exception):  # noqa: N818 - an answer, no error of ours
    """There is no such thing in the ledger."""


class _Site:
    """The pages of one ledger."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._waiting = 0
        self._counted: asyncio.Future[None] | None = None

    async def overview(self, _request: Request) -> Response:
        """Show the accounts and the latest pairs."""
        return await self._page(self._overview, first=self._count)

    async def pairs(self, request: Request) -> Response:
        """Show the pairs that the query asks for."""
        try:
            asked = Asked.parse(request.query_params)
        except InputError as error:
            return _answer(problem_page("That cannot be asked", str(error)), 400)
        return await self._page(partial(self._pairs, asked))

    async def pair(self, request: Request) -> Response:
        """Show one pair."""
        return await self._page(partial(self._pair, request.path_params["number"]))

    async def run(self, request: Request) -> Response:
        """Show one run."""
        return await self._page(partial(self._run, request.path_params["run_id"]))

    async def trace(self, request: Request) -> Response:
        """Show one trace."""
        return await self._page(partial(self._trace, request.path_params["trace_id"]))

    async def find(self, request: Request) -> Response:
        """Lead to the page that somebody looks for."""
        return await self._page(partial(self._find, request.query_params.get("id", "")))

    async def icon(self, _request: Request) -> Response:
        """Show the icon."""
        return Response(icon(), 200, _HEADERS, "image/svg+xml")

    async def _page(
        self,
        work: Callable[[], Response],
        first: Callable[[], asyncio.Future[None]] | None = None,
    ) -> Response:
        """Make a page in a thread; what goes wrong is a page too."""
        if self._waiting >= MOST_WAITING:
            return _busy("Too many pages were asked for at once; come back in a moment.")
        self._waiting += 1
        try:
            if first is not None:
                await asyncio.wait({counted := first()}, timeout=COUNTING_S)
                if counted.done():
                    counted.result()
            return await asyncio.get_running_loop().run_in_executor(self._source.reading, work)
        except _Missing as missing:
            return _answer(problem_page("Not found", str(missing)), 404)
        except LedgerError as error:
            _logger.warning("the ledger cannot be read: %s", error)
            return _busy("The ledger cannot be read now; come back in a moment.")
        except Exception as error:
            _logger.exception("a page failed because of a bug")
            page = problem_page("A bug", f"This page failed ({type(error).__name__}); the log says")
            return _answer(page, 500)
        finally:
            self._waiting -= 1

    def _count(self) -> asyncio.Future[None]:
        """Count what is new, unless somebody does already."""
        if self._counted is None or self._counted.done():
            self._counted = asyncio.get_running_loop().run_in_executor(
                self._source.counter, self._source.counting.read_on
            )
            # If it fails when nobody waits for it any more, the next one meets the same.
            self._counted.add_done_callback(lambda done: done.cancelled() or done.exception())
        return self._counted

    def _overview(self) -> Response:
        source = self._source
        pairs = latest(source.ledger, Asked(), shown=_ON_OVERVIEW)
        return _answer(overview(source.counting.counted(), pairs, said=self._said()))

    def _pairs(self, asked: Asked) -> Response:
        return _answer(pair_list(asked, latest(self._source.ledger, asked), said=self._said()))

    def _pair(self, text: str) -> Response:
        source, number = self._source, parsed(text)
        record = None if number is None else source.ledger.record(number)
        if number is None or record is None:
            raise _Missing(f"There is no pair {text[:LONGEST]!r} in this ledger.")
        if isinstance(record.decision, RunDecided):
            return _elsewhere(links.run_path(record.decision.run.run_id))
        found = explain_decision(source.ledger, number, source.settings)
        if found is None:
            raise AssertionError("the journal only grows")
        return _answer(pair_page(found, jaeger_url=source.jaeger_url, said=self._said()))

    def _run(self, run_id: str) -> Response:
        source = self._source
        found = explain_known_run(source.ledger, _name(run_id), source.settings)
        if found is None:
            raise _Missing(f"No span of a run {run_id!r} has arrived.")
        return _answer(run_page(found, jaeger_url=source.jaeger_url, said=self._said()))

    def _trace(self, trace_id: str) -> Response:
        source, name = self._source, _name(trace_id).lower()
        run_ids = source.ledger.run_ids_of_trace(name)
        if not run_ids:
            raise _Missing(f"No run has spans in a trace {trace_id!r}.")
        runs = [(run_id, source.ledger.run(run_id)) for run_id in run_ids]
        page = trace_page(name, runs, jaeger_url=source.jaeger_url, said=self._said())
        return _answer(page)

    def _find(self, text: str) -> Response:
        source = self._source
        try:
            return _elsewhere(find(source.ledger, text.replace("\0", ""), source.settings))
        except InputError as error:
            problem, _, hint = str(error).partition("; near: ")
        near = near_run_ids(source.ledger, text.strip()) if hint else []
        said = f"{problem[:1].upper()}{problem[1:]}."
        page = problem_page("Not found", said, asked=text, near=near)
        return _answer(page, 404)

    def _said(self) -> str:
        return f"As of {moment(self._source.clock())}, from {self._source.ledger.name}."


def _name(text: str) -> str:
    """Return an id that a database can be asked for."""
    if "\0" in text or len(text) > LONGEST:
        raise _Missing(f"An id has at most {LONGEST} characters, none of them NUL.")
    return text


def _answer(page: str, status: int = 200) -> Response:
    return HTMLResponse(page, status, {**_HEADERS, "content-security-policy": policy()})


def _elsewhere(path: str) -> Response:
    return RedirectResponse(path, 303, _HEADERS)


def _busy(problem: str) -> Response:
    response = _answer(problem_page("Not now", problem), 503)
    response.headers["retry-after"] = "1"
    return response


async def _not_there(_request: Request, error: Exception) -> Response:
    """Answer a path that is no page."""
    if not isinstance(error, HTTPException):
        raise error
    return _answer(problem_page("Not found", "There is no such page."), error.status_code)
