"""The examples run, and say what they claim to say."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from otel_turnavoid.testing import Telemetry

EXAMPLES = Path(__file__).parents[1] / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"examples_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if "OTEL_" not in key}
    return subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        env=environment | {"TURNAVOID_MODE": "development"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(("arm", "turns", "entries"), [("control", 4, 14), ("fused-batch", 3, 12)])
def test_own_loop_declares_the_turns_of_its_arm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arm: str, turns: int, entries: int
) -> None:
    monkeypatch.setenv("TURNAVOID_MODE", "development")
    own_loop, observer = load("own_loop"), load("observer")
    telemetry = Telemetry()
    path = str(tmp_path / "shop.db")

    shop = own_loop.open_shop(path)
    own_loop.run(shop, arm, telemetry.tracer_provider)
    shop.close()

    invoke = dict(telemetry.spans[-1].attributes or {})
    assert [
        invoke[f"turnavoid.invoke.{name}"]
        for name in ("agent_turns", "llm_calls", "tool_turns", "entries")
    ] == [turns, turns, 4, entries]
    assert len(telemetry.spans) == entries
    assert observer.effects(path) == ["order:41=cancelled", "order:42=cancelled"]


def test_both_arms_share_the_input_digest(tmp_path: Path) -> None:
    own_loop = load("own_loop")
    telemetry = Telemetry()
    for arm in ("control", "fused-batch"):
        shop = own_loop.open_shop(str(tmp_path / f"{arm}.db"))
        own_loop.run(shop, arm, telemetry.tracer_provider)
        shop.close()

    digests = [
        span.attributes["turnavoid.input.digest"]
        for span in telemetry.spans
        if span.attributes["turnavoid.entry"] == "invoke"
    ]
    assert len(digests) == 2
    assert len(set(digests)) == 1


def test_the_examples_run_as_commands(tmp_path: Path) -> None:
    database = str(tmp_path / "shop.db")

    agent = python(str(EXAMPLES / "own_loop.py"), database, "fused-batch")
    assert agent.returncode == 0, agent.stderr
    run_id = agent.stdout.strip()
    assert agent.stderr.count(f'"turnavoid.run.id": "{run_id}"') == 12

    observer = python(str(EXAMPLES / "observer.py"), database, run_id)
    assert observer.returncode == 0, observer.stderr
    assert observer.stdout == "order:41=cancelled\norder:42=cancelled\n"
    assert run_id in observer.stderr
