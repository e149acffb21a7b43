"""``turnavoid runs``: every run with what is known of it, and nothing that is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from otel_turnavoid.cli.main import main
from otel_turnavoid.testing import START_NS, observation, run_spans

SECOND = 1_000_000_000


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    monkeypatch.chdir(tmp_path)

    def fill(*bodies: bytes) -> None:
        names = []
        for index, body in enumerate(bodies):
            names.append(f"{index}.pb")
            Path(names[-1]).write_bytes(body)
        assert CliRunner().invoke(main, ["ingest", *names]).exit_code == 0

    return fill


def runs() -> list[dict[str, object]]:
    done = CliRunner().invoke(main, ["runs", "--json"])
    assert (done.exit_code, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_run_as_json_has_exactly_the_agreed_keys(ledger: Callable[..., None]) -> None:
    ledger(
        run_spans(run_id="c", arm="control", turns=3),
        run_spans(run_id="k", arm="fused-batch", variant="v2", turns=2, start_ns=START_NS + SECOND),
        observation("c"),
        observation("k"),
    )

    # Each call of a made-up run uses 200 and 20 tokens; cache and reasoning are not stated.
    assert runs() == [
        {
            "run_id": "c",
            "arm": "control",
            "variant": None,
            "evidence": "declared",
            "outcome": "paired",
            "model_turns": 3,
            "llm_calls": 3,
            "tool_calls": 3,
            "tokens": {"input": 600, "output": 60},
            "causes": [],
        },
        {
            "run_id": "k",
            "arm": "fused-batch",
            "variant": "v2",
            "evidence": "declared",
            "outcome": "paired",
            "model_turns": 2,
            "llm_calls": 2,
            "tool_calls": 2,
            "tokens": {"input": 400, "output": 40},
            "causes": [],
        },
    ]


def test_runs_stand_in_the_order_of_their_start(ledger: Callable[..., None]) -> None:
    ledger(
        run_spans(run_id="a", task="3", start_ns=START_NS + 2 * SECOND),
        run_spans(run_id="b", task="2", start_ns=START_NS + SECOND),
        run_spans(run_id="c", task="1"),
        run_spans(run_id="aa", task="4"),
    )

    assert [run["run_id"] for run in runs()] == ["aa", "c", "b", "a"]


def test_a_refused_run_says_why(ledger: Callable[..., None]) -> None:
    ledger(run_spans(run_id="k", arm="exact-reuse", turn_index=2, decision_basis=2))

    assert [(run["outcome"], run["causes"]) for run in runs()] == [("rejected", ["leakage"])]


def test_a_run_whose_invoke_never_arrived_is_incomplete(ledger: Callable[..., None]) -> None:
    ledger(run_spans(run_id="c", lost=(0,)))

    (run,) = runs()
    assert run["outcome"] == "incomplete"
    assert run["model_turns"] == 3


def test_calls_without_a_run_are_one_unattributed_line_a_trace(
    ledger: Callable[..., None],
) -> None:
    spans = [
        {
            "traceId": trace * 32,
            "spanId": span * 16,
            "name": "chat",
            "kind": 3,
            "startTimeUnixNano": str(START_NS),
            "endTimeUnixNano": str(START_NS + SECOND),
            "attributes": [{"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}}],
        }
        for trace, span in (("a", "1"), ("a", "2"), ("b", "3"))
    ]
    scope = {"scope": {"name": "somebody"}, "spans": spans}
    ledger(json.dumps({"resourceSpans": [{"scopeSpans": [scope]}]}).encode())

    lines = [(run["run_id"], run["outcome"], run["arm"], run["llm_calls"]) for run in runs()]

    assert lines == [
        (f"trace:{'a' * 32}", "unattributed", None, 2),
        (f"trace:{'b' * 32}", "unattributed", None, 1),
    ]


def test_the_table_shows_the_same(ledger: Callable[..., None]) -> None:
    ledger(run_spans(run_id="a-run-id-that-is-long-enough-to-be-cut-on-a-narrow-terminal", turns=3))

    heading, _, row = CliRunner().invoke(main, ["runs"]).stdout.splitlines()

    assert heading.split() == [
        *("run", "arm", "variant", "evidence", "outcome", "turns", "calls", "tools"),
        *("tokens", "in", "tokens", "out", "causes"),
    ]
    assert row.split() == [
        "a-run-id-that-is-long-enough-to-be-cut-on-a-narrow-terminal",
        *("control", "-", "declared", "unpaired", "3", "3", "3", "600", "60"),
    ]


def test_an_empty_ledger_says_so(ledger: Callable[..., None]) -> None:
    ledger(b"")

    assert CliRunner().invoke(main, ["runs"]).stdout == "no runs yet\n"
    assert runs() == []


def test_a_ledger_that_does_not_exist_is_one_line_and_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    done = CliRunner().invoke(main, ["runs"])

    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.startswith("turnavoid runs: ")
    assert "sqlite:///turnavoid.db" in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
