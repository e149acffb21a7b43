from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from opentelemetry import context, trace

from otel_turnavoid.dialects import Reader
from otel_turnavoid.instrument import misuse
from otel_turnavoid.instrument.content import CONTENT_VARIABLE
from otel_turnavoid.instrument.identity import SOURCES
from otel_turnavoid.instrument.prices import PRICES_VARIABLE
from otel_turnavoid.judge.assembly import assemble
from otel_turnavoid.judge.run import Run
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.otlp import read_traces
from otel_turnavoid.testing import Telemetry


@pytest.fixture
def telemetry() -> Telemetry:
    return Telemetry()


@pytest.fixture(autouse=True)
def _development(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bad use raises; tests of production mode say so."""
    monkeypatch.setenv("TURNAVOID_MODE", "development")
    for _, name, _ in SOURCES:
        monkeypatch.delenv(name, raising=False)
    for name in (CONTENT_VARIABLE, PRICES_VARIABLE):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def production(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TURNAVOID_MODE")
    monkeypatch.setattr(misuse, "_logged", set())
    monkeypatch.setattr(misuse, "_counts", type(misuse._counts)())


@pytest.fixture(autouse=True)
def _nothing_stays_current() -> Iterator[None]:
    before = context.get_current()
    yield
    assert context.get_current() == before
    assert trace.get_current_span() is trace.INVALID_SPAN


@pytest.fixture
def judged(telemetry: Telemetry) -> Callable[..., Run]:
    """What the judge makes of a run, from everything that was sent over the wire."""

    def judge(run_id: str = "r", *also: Telemetry) -> Run:
        facts = []
        for recorder in (telemetry, *also):
            facts += read_traces(recorder.trace_request(), Reader()).facts
        return assemble(run_id, [fact for fact in facts if fact.run_id == run_id], [], Settings())

    return judge


@pytest.fixture
def said(telemetry: Telemetry) -> Callable[[], dict[str, dict[str, Any]]]:
    """Attributes of the ended spans by span name, each name once."""

    def read() -> dict[str, dict[str, Any]]:
        spans = {span.name: dict(span.attributes or {}) for span in telemetry.spans}
        assert len(spans) == len(telemetry.spans)
        return spans

    return read
