"""A small ledger, and somebody who asks for its pages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx
import pytest

from otel_turnavoid.dialects import Reader
from otel_turnavoid.judge.settings import SECOND, Settings
from otel_turnavoid.judge.verdict import PairDecided
from otel_turnavoid.otlp import read_logs, read_traces
from otel_turnavoid.pages.counting import Counting
from otel_turnavoid.pages.site import Source, application
from otel_turnavoid.store import Ledger
from otel_turnavoid.testing import EFFECTS, observation, run_spans

NOW_NS = 1_790_000_000 * SECOND
"""2026-09-21 14:13:20 UTC."""

JAEGER = "http://jaeger.example:16686"


class Shop:
    """A ledger, and what was added to it."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.settings = Settings()
        self._reader = Reader(self.settings)

    def run(self, run_id: str, arm: str = "control", turns: Any = 3, **changes: Any) -> None:
        """Add a run; ``effects`` are what the observer saw, None if it never looked."""
        effects = changes.pop("effects", EFFECTS)
        spans = run_spans(run_id=run_id, arm=arm, turns=turns, **changes)
        self.ledger.add(read_traces(spans, self._reader).facts, arrived_ns=NOW_NS)
        if effects is not None:
            seen = read_logs(observation(run_id, effects), self._reader).observations
            self.ledger.add([], seen, arrived_ns=NOW_NS)

    def decide(self) -> None:
        self.ledger.decide(self.settings, now_ns=NOW_NS, final=True)

    def number(self, candidate: str) -> int:
        """Return the number of the pair of a candidate."""
        return next(
            number
            for number, decision in self.ledger.decisions()
            if isinstance(decision, PairDecided) and decision.candidate.run_id == candidate
        )


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Shop]:
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        yield Shop(ledger)


@pytest.fixture
def shop(empty: Shop) -> Shop:
    """Two turns avoided, two withheld, two added, two controls of one input, a run alone."""
    shop = empty
    shop.run("c-refund", turns=4, task="refund")
    shop.run("c-refund-again", turns=5, task="refund", start_ns=NOW_NS)
    shop.run("k-refund", "exact-reuse", 2, task="refund")
    shop.run("c-move", turns=4, task="move", experiment="desk")
    shop.run("k-move", "exact-reuse", 2, task="move", experiment="desk", variant="v2", effects=[])
    shop.run("c-swap", turns=3, task="swap")
    shop.run("k-swap", "fused-batch", 5, task="swap")
    shop.run("alone", "fused-batch", 1, task="nobody else's")
    shop.decide()
    return shop


class Page(HTMLParser):
    """What somebody who cannot see a page takes from it."""

    def __init__(self, answer: httpx.Response) -> None:
        super().__init__()
        self.answer = answer
        self.status = answer.status_code
        self.ids: list[str] = []
        self.links: list[str] = []
        self.headings: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self._hidden = 0
        self._open: list[str] = []
        self._said: list[str] = []
        self.feed(answer.text)
        self.text = " ".join("".join(self._said).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.elements.append((tag, found))
        self._open.append(tag)
        self._said.append(" ")
        if "id" in found:
            self.ids.append(found["id"] or "")
        if tag == "a":
            self.links.append(found["href"] or "")
        if tag in ("h1", "h2", "h3", "h4"):
            self.headings.append("")

    def handle_endtag(self, tag: str) -> None:
        self._said.append(" ")
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if "style" in self._open or "title" in self._open:
            return
        self._said.append(data)
        if set(self._open) & {"h1", "h2", "h3", "h4"}:
            self.headings[-1] += data


class Visitor:
    """Asks a site for pages."""

    def __init__(self, app: Any) -> None:
        self._app = app

    def get(self, path: str, method: str = "GET") -> Page:
        async def asked() -> httpx.Response:
            transport = httpx.ASGITransport(app=self._app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as web:
                return await web.request(method, path)

        return Page(asyncio.run(asked()))


@pytest.fixture
def visit() -> Iterator[Callable[..., Visitor]]:
    """Return a visitor of the pages of a ledger."""
    with ThreadPoolExecutor(2) as reading, ThreadPoolExecutor(1) as counter:

        def make(ledger: Any, **changes: Any) -> Visitor:
            source = Source(
                ledger,
                Settings(),
                Counting(ledger),
                reading,
                counter,
                clock=lambda: NOW_NS,
                **{"jaeger_url": JAEGER, **changes},
            )
            return Visitor(application(source))

        yield make


@pytest.fixture
def visitor(shop: Shop, visit: Callable[..., Visitor]) -> Visitor:
    return visit(shop.ledger)
