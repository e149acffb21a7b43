"""Session logs in yoi's shape: every run as ``expected.json`` gives it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from otel_turnavoid import conversations
from otel_turnavoid.cli.main import main

pytestmark = pytest.mark.corpus

FILES = ("serial.jsonl", "fused.jsonl", "retried.jsonl")


@pytest.fixture
def folder(shared: Path) -> Path:
    return shared / "corpus" / "yoi-logs"


@pytest.mark.parametrize("file", FILES)
def test_the_runs_of_a_log_show_what_took_place(folder: Path, tmp_path: Path, file: str) -> None:
    ledger = f"sqlite:///{tmp_path / 'ledger.db'}"
    for command in (["ingest", str(folder / file)], ["runs", "--json"]):
        result = CliRunner().invoke(main, [*command, "--ledger", ledger])
        assert result.exit_code == 0, result.output
    rows = sorted(map(json.loads, result.stdout.splitlines()), key=lambda row: row["run_id"])

    counted = ("model_turns", "llm_calls", "tool_calls", "tokens")
    assert [{key: row[key] for key in counted} for row in rows] == [
        {key: run[key] for key in counted} for run in expected_of(folder, file)
    ]


@pytest.mark.parametrize("file", FILES)
def test_the_runs_of_a_log_say_how_they_began_and_ended(folder: Path, file: str) -> None:
    entries = [json.loads(line) for line in (folder / file).read_bytes().splitlines()]

    runs = conversations.read_session(entries, "log")

    assert [{"invoke_kind": run.kind, "state": run.state.value} for run in runs] == [
        {key: run[key] for key in ("invoke_kind", "state")} for run in expected_of(folder, file)
    ]


def expected_of(folder: Path, file: str) -> list[dict[str, Any]]:
    return json.loads((folder / "expected.json").read_bytes())[file]
