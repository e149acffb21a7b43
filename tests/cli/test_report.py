"""``turnavoid report``: the ledger's accounts, and its pairs as rows that replay alike."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from otel_turnavoid.cli.main import main
from otel_turnavoid.testing import START_NS, observation, run_spans

SECOND = 1_000_000_000
EFFECT = ["order:42=cancelled"]


@pytest.fixture(autouse=True)
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Ingest requests into the default ledger of an empty folder."""
    monkeypatch.chdir(tmp_path)

    def fill(*bodies: bytes) -> None:
        names = []
        for index, body in enumerate(bodies):
            names.append(f"{index}.pb")
            Path(names[-1]).write_bytes(body)
        assert CliRunner().invoke(main, ["ingest", *names]).exit_code == 0

    return fill


def report(*options: str) -> Result:
    return CliRunner().invoke(main, ["report", *options])


def some_runs() -> list[bytes]:
    """Two controls, a reuse that earns, a batch that loses an effect and one that adds a turn."""
    return [
        run_spans(run_id="c1", arm="control", turns=3),
        run_spans(run_id="c2", arm="control", turns=4, start_ns=START_NS + SECOND),
        run_spans(run_id="reuse", arm="exact-reuse", turns=1),
        run_spans(run_id="cheat", arm="fused-batch", turns=2, variant="b"),
        run_spans(run_id="slow", arm="fused-batch", turns=5, variant="a"),
        observation("c1", EFFECT),
        observation("c2", EFFECT),
        observation("reuse", EFFECT),
        observation("cheat", []),
        observation("slow", EFFECT),
    ]


def test_the_trace_replays_to_the_same_bytes(ledger: Callable[..., None]) -> None:
    ledger(*some_runs())

    traced = report("--trace", "trace.jsonl")
    replayed = CliRunner().invoke(main, ["replay", "--in", "trace.jsonl", "--json"])

    assert (traced.exit_code, traced.output) == (0, "")
    assert report("--json").stdout_bytes == replayed.stdout_bytes
    arms = {arm["arm"]: arm for arm in json.loads(replayed.stdout)["arms"]}
    assert arms["exact-reuse"]["realized_turns_avoided"] == 2
    assert arms["fused-batch"]["withheld_turns"] == 1


def test_a_trace_to_a_dash_is_standard_output(ledger: Callable[..., None]) -> None:
    ledger(*some_runs())

    report("--trace", "trace.jsonl")

    assert report("--trace", "-").stdout_bytes == Path("trace.jsonl").read_bytes()


def test_the_report_does_not_depend_on_the_order_of_arrival(
    ledger: Callable[..., None],
) -> None:
    ledger(*some_runs())
    first = report("--json").stdout_bytes, report("--trace", "-").stdout_bytes

    for seed in range(3):
        Path("turnavoid.db").unlink()
        for beside in Path().glob("turnavoid.db-*"):
            beside.unlink()
        ledger(*random.Random(seed).sample(some_runs(), 10))
        assert (report("--json").stdout_bytes, report("--trace", "-").stdout_bytes) == first


def test_text_shows_added_net_causes_and_noise_apart(ledger: Callable[..., None]) -> None:
    ledger(*some_runs())

    done = report()

    assert (done.exit_code, done.stderr) == (0, "")
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["exact-reuse", "-", "declared", "1", "2", "0", "+2", "0"] in lines
    assert ["fused-batch", "a", "declared", "1", "0", "2", "-2", "0"] in lines
    assert [
        *("fused-batch", "effects-suppressed", "a", "required", "effect", "is", "missing"),
        "1",
    ] in lines
    noise = lines.index(["Noise:", "control", "against", "control"])
    assert ["1", "0", "1", "-1"] in lines[noise:]


def test_html_writes_a_page(ledger: Callable[..., None]) -> None:
    ledger(*some_runs())

    done = report("--html", "report.html")

    assert (done.exit_code, done.output) == (0, "")
    assert "Noise: control against control" in Path("report.html").read_text(encoding="utf-8")


def test_a_mechanism_that_v1_lacks_is_said_on_standard_error(ledger: Callable[..., None]) -> None:
    ledger(
        run_spans(run_id="c", arm="control"),
        run_spans(run_id="k", arm="exact-reuse", turns=1, mechanism="semantic-reuse"),
        observation("c", EFFECT),
        observation("k", EFFECT),
    )

    done = report("--trace", "-")

    assert done.stderr == (
        "turnavoid report: trace/v1 has no mechanism semantic-reuse in a candidate arm; its pairs"
        " (1) are shown as unknown\n"
    )
    assert json.loads(done.stdout.splitlines()[1])["mechanism"] == "unknown"


def test_a_ledger_without_a_pair_has_a_report_of_zeros(ledger: Callable[..., None]) -> None:
    ledger(run_spans(run_id="c", arm="control"))

    as_json = json.loads(report("--json").stdout)

    assert (as_json["rows"], as_json["immutable_inputs"]) == (0, 0)
    assert [arm["decisions"] for arm in as_json["arms"]] == [0, 0, 0]
    assert report("--trace", "-").stdout == ""
    assert "No pair of a control and a candidate run has been decided yet" in report().stdout


def test_a_ledger_that_is_not_there_is_one_line() -> None:
    done = report("--ledger", "sqlite:///absent.db")

    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("turnavoid report: sqlite:///absent.db: ")
    assert done.stderr.count("\n") == 1
    assert not Path("absent.db").exists()


def test_json_html_and_trace_exclude_each_other() -> None:
    done = report("--json", "--trace", "-")

    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == (
        "turnavoid report: --json, --html and --trace exclude each other."
        " See: turnavoid report --help\n"
    )
