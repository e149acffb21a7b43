"""``turnavoid report``: the ledger's accounts, and its pairs as rows that replay alike."""

from __future__ import annotations

import json
import random
import re
import sys
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


def everything() -> list[bytes]:
    """Every form of the report."""
    page = report("--html", "-").stdout_bytes
    others = [("--json",), ("--series",), (), ("--trace", "-")]
    return [page, *(report(*options).stdout_bytes for options in others)]


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
    first = everything()

    for seed in range(3):
        Path("turnavoid.db").unlink()
        for beside in Path().glob("turnavoid.db-*"):
            beside.unlink()
        ledger(*random.Random(seed).sample(some_runs(), 10))
        assert everything() == first


def test_text_shows_added_net_causes_and_noise_apart(ledger: Callable[..., None]) -> None:
    ledger(*some_runs())

    done = report()

    assert (done.exit_code, done.stderr) == (0, "")
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["exact-reuse", "-", "declared", "1", "2", "0", "+2", "0", "0%"] in lines
    assert ["fused-batch", "a", "declared", "1", "0", "2", "-2", "0", "-"] in lines
    assert ["fused-batch", "b", "declared", "effects-suppressed", "1"] in lines
    noise = lines.index(["Noise:", "control", "against", "control"])
    assert ["declared", "1", "0", "1", "-1", "1", "-1.00", "-"] in lines[noise:]


def test_text_says_of_each_series_how_sure_it_is(ledger: Callable[..., None]) -> None:
    ledger(*some_runs())

    said = " ".join(report().stdout.split())

    assert (
        "exact-reuse (declared evidence) 1 pair: 2 avoided, 0 added, net +2; 0 withheld."
        " Not decided: on average +2.00 turns saved per pair, but all of one input or unit; an"
        " interval needs at least two."
    ) in said


def test_series_are_json_lines_of_candidates_then_of_controls(ledger: Callable[..., None]) -> None:
    ledger(*some_runs())

    found = [json.loads(line) for line in report("--series").stdout.splitlines()]

    assert [(one["series"], one.get("arm"), one.get("variant")) for one in found] == [
        ("control-against-candidate", "exact-reuse", None),
        ("control-against-candidate", "fused-batch", "a"),
        ("control-against-candidate", "fused-batch", "b"),
        ("control-against-control", None, None),
    ]
    assert found[2] == {
        "series": "control-against-candidate",
        "arm": "fused-batch",
        "variant": "b",
        "evidence": "declared",
        "comparison": None,
        "pairs": 1,
        "avoided": 0,
        "added": 0,
        "net": 0,
        "withheld": 1,
        "withheld_share": 1.0,
        "causes": {"effects-suppressed": 1},
        "per_pair": {
            "pairs": 0,
            "groups": 0,
            "mean": None,
            "low": None,
            "high": None,
            "confidence": 0.95,
            "no_interval": "too-few-groups",
        },
        "added_in_mean": 0,
        "finding": "undecided",
    }


def test_without_scipy_one_line_says_how_to_get_intervals(
    ledger: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "scipy.special", None)
    for task in range(2):
        ledger(
            run_spans(run_id=f"c{task}", arm="control", turns=3, task=task + 1),
            run_spans(run_id=f"k{task}", arm="exact-reuse", turns=2 - task, task=task + 1),
            observation(f"c{task}", EFFECT),
            observation(f"k{task}", EFFECT),
        )

    done = report()

    assert done.exit_code == 0
    assert done.stdout.count("pip install 'otel-turnavoid[statistics]'") == 1
    assert "2 pairs: 3 avoided, 0 added, net +3; 0 withheld." in done.stdout


def test_html_writes_a_page(ledger: Callable[..., None]) -> None:
    ledger(*some_runs())

    done = report("--html", "report.html")

    assert (done.exit_code, done.output) == (0, "")
    assert "Noise: control against control" in Path("report.html").read_text(encoding="utf-8")


def test_html_shows_the_largest_pairs_with_both_timelines(ledger: Callable[..., None]) -> None:
    ledger(*some_runs())

    report("--html", "report.html")

    text = Path("report.html").read_text(encoding="utf-8")
    titles = re.findall(r"<h3>(Most turns \w+)</h3>", text)
    runs = re.findall(r'class="run" aria-label="([^"]+)"', text)
    assert titles == ["Most turns avoided", "Most turns withheld", "Most turns added"]
    assert runs == [
        *("Control run c1", "Candidate (exact-reuse) run reuse"),
        *("Control run c1", "Candidate (fused-batch) run cheat"),
        *("Control run c1", "Candidate (fused-batch) run slow"),
    ]
    assert text.count('<b class="what">Turn 3</b>') == 4  # three times of c1, once of slow


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


def test_json_series_html_and_trace_exclude_each_other() -> None:
    done = report("--json", "--trace", "-")

    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == (
        "turnavoid report: --json, --series, --html and --trace exclude each other."
        " See: turnavoid report --help\n"
    )
