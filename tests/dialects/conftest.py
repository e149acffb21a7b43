"""Reading one hand-made span."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from otel_turnavoid.dialects import Reader, SpanView
from otel_turnavoid.judge.facts import SpanFact
from otel_turnavoid.judge.settings import Settings


@pytest.fixture
def fact_of() -> Callable[..., SpanFact | None]:
    """Read a span with these attributes; keywords are fields of the ``SpanView``."""

    def read(attributes: dict[str, Any], **view: Any) -> SpanFact | None:
        reader = Reader(Settings())
        wanted = {key: value for key, value in attributes.items() if key in reader.wanted}
        given = {"trace_id": "a" * 32, "span_id": "b" * 16, "scope": "s", **view}
        found = reader.read(SpanView(attributes=wanted, **given))
        assert found is None or isinstance(found, SpanFact)
        return found

    return read
