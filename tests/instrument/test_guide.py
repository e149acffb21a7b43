"""Every block of docs/instrumentation.md runs, in order, and leaves complete runs."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

import otel_turnavoid
from otel_turnavoid.instrument.identity import SOURCES
from otel_turnavoid.judge.run import Run
from otel_turnavoid.judge.verdict import PairDecided
from otel_turnavoid.store import Ledger
from otel_turnavoid.testing import Telemetry

GUIDE = Path(__file__).parents[2] / "docs" / "instrumentation.md"


class Client:
    """A model that asks for one tool and then answers."""

    def __init__(self) -> None:
        self._failures = 1

    def complete(self, messages: list[Any]) -> Any:
        tool = SimpleNamespace(name="cancel", id="call-1", run=lambda: "cancelled")
        return SimpleNamespace(
            input_tokens=10,
            output_tokens=2,
            message="reply",
            text="Done.",
            tool_calls=[tool] if len(messages) == 1 else [],
        )

    async def acomplete(self, messages: list[Any]) -> Any:
        return self.complete(messages)

    def fail_once(self) -> None:
        if self._failures:
            self._failures -= 1
            raise ConnectionError


def test_the_guide(
    telemetry: Telemetry,
    judged: Callable[..., Run],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", telemetry.tracer_provider)
    ids: list[str] = []

    def run_ids() -> list[str]:
        return list(dict.fromkeys(span.attributes["turnavoid.run.id"] for span in telemetry.spans))

    def last_run() -> Run:
        return judged(run_ids()[-1])

    evaluated = SimpleNamespace(
        flag_key="memory", value=True, variant="on", reason="STATIC", error_code=None
    )
    names: dict[str, Any] = {
        "asyncio": asyncio,
        "suppress": suppress,
        "Thread": Thread,
        "ThreadPoolExecutor": ThreadPoolExecutor,
        "TracerProvider": TracerProvider,
        "BatchSpanProcessor": BatchSpanProcessor,
        "Resource": Resource,
        "client": Client(),
        "shop": SimpleNamespace(cancel=[].append),
        "flags": SimpleNamespace(get_boolean_details=lambda *_: evaluated),
        "ledger_url": f"sqlite:///{tmp_path}/ledger.db",
        "last_run": last_run,
    }
    text = GUIDE.read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 9
    for block in blocks:
        exec(compile(block, str(GUIDE), "exec"), names)
        new = [run_id for run_id in run_ids() if run_id not in ids]
        ids += new
        assert [judged(run_id).problems for run_id in new] == [()] * len(new)

    with Ledger.open(names["ledger_url"], create=False) as ledger:
        (pair,) = [each for _, each in ledger.decisions() if isinstance(each, PairDecided)]
    assert (pair.avoided, pair.causes) == (2, ())
    names["observers"].shutdown()


def test_every_public_name_for_agents_stands_in_a_guide() -> None:
    texts = [GUIDE, GUIDE.with_name("frameworks.md"), GUIDE.parents[1] / "README.md"]
    text = "".join(file.read_text(encoding="utf-8") for file in texts)
    public = set(otel_turnavoid.__all__) - {"__version__", "current_tool", "current_turn"}

    assert sorted(name for name in public if not re.search(rf"\b{name}\b", text)) == []


def test_every_variable_of_an_arm_stands_in_the_guide() -> None:
    text = GUIDE.read_text(encoding="utf-8")

    for _, variable, _ in SOURCES:
        assert variable in text or f"`{variable.removeprefix('TURNAVOID')}`" in text
