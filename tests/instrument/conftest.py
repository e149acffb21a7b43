from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from opentelemetry import context, trace

from otel_turnavoid.instrument import misuse
from otel_turnavoid.testing import Telemetry


@pytest.fixture
def telemetry() -> Telemetry:
    return Telemetry()


@pytest.fixture(autouse=True)
def _development(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bad use raises; tests of production mode say so."""
    monkeypatch.setenv("TURNAVOID_MODE", "development")
    for name in ("TURNAVOID_ARM", "TURNAVOID_VARIANT", "TURNAVOID_EXPERIMENT"):
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
def said(telemetry: Telemetry) -> Callable[[], dict[str, dict[str, Any]]]:
    """Attributes of the ended spans by span name, each name once."""

    def read() -> dict[str, dict[str, Any]]:
        spans = {span.name: dict(span.attributes or {}) for span in telemetry.spans}
        assert len(spans) == len(telemetry.spans)
        return spans

    return read
