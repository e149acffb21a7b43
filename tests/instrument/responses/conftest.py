"""The run that the processor makes of what was emitted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from otel_turnavoid.dialects import Reader
from otel_turnavoid.judge.run import Run
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.otlp import read_traces
from otel_turnavoid.store import Ledger
from otel_turnavoid.testing import Telemetry


@pytest.fixture
def arrived(telemetry: Telemetry, tmp_path: Path) -> Callable[[], Run]:
    """Send the spans to a ledger, and return the one run that it then knows."""

    def send() -> Run:
        batch = read_traces(telemetry.trace_request(), Reader())
        with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
            ledger.add(batch.facts, batch.observations, arrived_ns=1)
            ledger.decide(Settings(), now_ns=2, final=True)
            (line,) = ledger.runs()
        return line.run

    return send
