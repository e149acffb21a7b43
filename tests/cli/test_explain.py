"""``turnavoid explain``: by every name that a run or verdict has, and for every way to stand."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from otel_turnavoid.cli.main import main
from otel_turnavoid.dialects import Reader
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.otlp import read_logs, read_traces
from otel_turnavoid.store import Ledger
from otel_turnavoid.testing import START_NS, observation, run_spans

SECOND = 1_000_000_000

PAIR = """\
c with k (fused-batch, variant v2)
  1 model turn withheld: effects-suppressed

  On the same input the candidate needed 1 committed model turn fewer than the control. That earns
  nothing, because a required effect of the control is missing in the candidate.

  verdict     1, decided DATE; verdicts are final
  turns       control 2, candidate 1: potential 1 = avoided 0 + withheld 1; added 0
  the change  mechanism fused-batch, lifecycle realized, reason serial-round-trip-collapsed

  Why it earns nothing
    effects-suppressed: a required effect of the control is missing in the candidate
      found   missing after the candidate: refund:42=19.90
      wanted  the candidate causes every effect of the control, as often as the control did

  Required effects, as orders-db/v1 saw them
    control  candidate  effect
    seen     seen       order:42=cancelled
    seen     MISSING    refund:42=19.90
"""

RUN = """\
Run k (fused-batch, variant v2)
  paired: it was compared with another run

  began        2026-05-28 20:26:40 UTC, took 1.1 s
  ended as     completed
  input        sha256:5a4e6ed342001065082062b8e04c7f71fe183b4b4e50c643dc1e971eb870ae0e
  compared in  turn index 0
  says         mechanism fused-batch, lifecycle realized, reason serial-round-trip-collapsed
  evidence     declared
  ran as       agent / agent-k
  traces       {trace}

  Entries, in order
    seq  entry       name          became        at    took  span
      0  invoke      orders        completed   0 ms   1.1 s  {spans[0]}
      1  user_turn   -             -           0 ms    1 ms  {spans[1]}
      2  agent_turn  -             committed   1 ms   1.0 s  {spans[2]}
      3  llm_call    gpt-5.1       committed   1 ms   1.0 s  {spans[3]}
      4  tool_turn   lookup_order  executed   1.0 s  100 ms  {spans[4]}

  How turns were counted: 1 committed
    turn 1   entry 2: an AgentTurn, with a successful generation

  Declared at its end: 1 AgentTurn, 1 LlmCall, 1 ToolTurn, 5 entries
    all of them arrived

  Observations
    orders-db/v1 as orders-observer / observer-1, 58.9 s after it ended: counts
      order:42=cancelled

Words
  run                 everything that one start of the agent (an Invoke) caused, sub-agents included
  committed turn      an AgentTurn with a successful model answer that was not thrown away; retries
                      of one input and calls for other purposes are no turns
  control, candidate  the run without and the run with the change, on the same input
  required effect     what an independent observer saw of the control in the outside world
  withheld            turns that disappeared and earn nothing, because something is not proven
"""


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


@pytest.fixture
def cheated(ledger: Callable[..., None]) -> None:
    """A control, and a candidate that left an effect out."""
    ledger(
        run_spans(run_id="c", arm="control", turns=2),
        run_spans(run_id="k", arm="fused-batch", variant="v2", turns=1),
        observation("c"),
        observation("k", ["order:42=cancelled"]),
    )


def trace_id(run_id: str) -> str:
    """Return the trace id that made-up runs have."""
    explained = explain_json(run_id)
    return str(explained["runs"][0]["trace_ids"][0])


def explain(*arguments: str) -> str:
    done = CliRunner().invoke(main, ["explain", *arguments])
    assert (done.exit_code, done.stderr) == (0, "")
    return done.stdout


def explain_json(*arguments: str) -> Any:
    return json.loads(explain("--json", *arguments))


def dated(text: str) -> str:
    lines = text.splitlines(keepends=True)
    return "".join(
        f"{line.split(', decided')[0]}, decided DATE; verdicts are final\n"
        if ", decided" in line
        else line
        for line in lines
    )


@pytest.mark.usefixtures("cheated")
def test_a_pair_is_explained_with_its_runs() -> None:
    shown = explain_json("k")["runs"][0]
    spans = [entry["span_id"] for entry in shown["entries"]]

    pair, control, candidate = dated(explain("c", "k")).split("\n\nRun ")

    assert pair + "\n" == PAIR
    assert control.startswith("c (control)\n")
    assert "Run " + candidate == RUN.format(trace=shown["trace_ids"][0], spans=spans)


@pytest.mark.usefixtures("cheated")
@pytest.mark.parametrize("ids", [("c", "k"), ("k", "c"), ("c/k",), ("k/c",), ("1",)], ids=" ".join)
def test_a_pair_is_found_by_both_runs_in_either_order_and_by_its_number(
    ids: tuple[str, ...],
) -> None:
    explained = explain_json(*ids)

    assert [pair["number"] for pair in explained["pairs"]] == [1]
    assert sorted(run["run_id"] for run in explained["runs"]) == ["c", "k"]


@pytest.mark.usefixtures("cheated")
@pytest.mark.parametrize("spelled", [str.lower, str.upper])
def test_a_run_is_found_by_its_trace(spelled: Callable[[str], str]) -> None:
    explained = explain_json(spelled(trace_id("k")))

    assert [run["run_id"] for run in explained["runs"]] == ["k"]
    assert [pair["control"] for pair in explained["pairs"]] == ["c"]


def test_a_run_of_that_name_comes_before_a_verdict_of_that_number(
    ledger: Callable[..., None],
) -> None:
    ledger(
        run_spans(run_id="c", arm="control"),
        run_spans(run_id="k", arm="fused-batch"),
        run_spans(run_id="1", arm="control", task="another"),
    )

    assert [run["run_id"] for run in explain_json("1")["runs"]] == ["1"]


def test_run_ids_with_slashes_are_found_as_a_pair(ledger: Callable[..., None]) -> None:
    ledger(
        run_spans(run_id="a/c", arm="control"),
        run_spans(run_id="a/k", arm="fused-batch"),
    )

    assert [pair["candidate"] for pair in explain_json("a/c/a/k")["pairs"]] == ["a/k"]


def test_two_runs_that_were_not_compared_are_said_to_be(ledger: Callable[..., None]) -> None:
    ledger(
        *(run_spans(run_id=f"c{task}", arm="control", task=task) for task in "ab"),
        *(run_spans(run_id=f"k{task}", arm="fused-batch", task=task) for task in "ab"),
    )

    shown = explain("ca", "kb")

    note, *parts = shown.split("\n\n")
    assert note == "ca and kb have not been compared with each other; this is about each."
    pairs = sorted(part.splitlines()[0] for part in parts if " with " in part.splitlines()[0])
    assert pairs == ["ca with ka (fused-batch)", "cb with kb (fused-batch)"]


@pytest.mark.usefixtures("cheated")
def test_json_holds_the_effects_and_their_difference() -> None:
    (pair,) = explain_json("c/k")["pairs"]

    assert pair["effects"] == {
        "observer": "orders-db/v1",
        "compared": True,
        "control": ["order:42=cancelled", "refund:42=19.90"],
        "candidate": ["order:42=cancelled"],
        "missing": ["refund:42=19.90"],
        "added": [],
    }
    assert pair["verdict"]["causes"] == ["effects-suppressed"]


@pytest.mark.usefixtures("cheated")
@pytest.mark.parametrize(
    ("ids", "line"),
    [
        (["kk"], "no run, trace, pair or verdict 'kk' in sqlite:///turnavoid.db; near: 'k'"),
        (["99"], "no run, trace, pair or verdict '99' in sqlite:///turnavoid.db"),
        (["c", "x"], "no run, trace, pair or verdict 'x' in sqlite:///turnavoid.db"),
        (["x" * 513], "an id has at most 512 characters, got 513"),
        (["c", "x" * 513], "an id has at most 512 characters, got 513"),
        (["0" * 32], f"no run, trace, pair or verdict '{'0' * 32}' in sqlite:///turnavoid.db"),
    ],
)
def test_an_unknown_name_is_one_line_and_exit_code_2(ids: list[str], line: str) -> None:
    done = CliRunner().invoke(main, ["explain", *ids])

    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == f"turnavoid explain: {line}\n"


@pytest.mark.usefixtures("cheated")
def test_more_than_two_ids_are_refused() -> None:
    done = CliRunner().invoke(main, ["explain", "a", "b", "c"])

    assert done.exit_code == 2
    assert "one id, or the two run ids of a pair, got 3." in done.stderr


def test_an_observation_without_a_run_is_said(ledger: Callable[..., None]) -> None:
    ledger(run_spans(run_id="c", arm="control"), observation("lost"))

    done = CliRunner().invoke(main, ["explain", "lost"])

    assert (done.exit_code, done.stderr) == (
        2,
        "turnavoid explain: no span of a run 'lost' has arrived yet, but an observation names it\n",
    )


def test_a_later_contradiction_is_shown_with_what_would_be_decided_today(
    ledger: Callable[..., None],
) -> None:
    ledger(
        run_spans(run_id="c", arm="control", turns=3),
        run_spans(run_id="k", arm="fused-batch", turns=2),
        observation("c"),
        observation("k"),
    )
    assert explain_json("c/k")["pairs"][0]["contradicted_ns"] is None

    ledger(observation("k", ["order:42=kept"], observer="orders-db/v1"))

    shown = explain("c", "k")
    assert "\n  1 model turn avoided\n" in shown
    assert "  Contradicted since " in shown
    assert "    Today it would be: 1 model turn withheld: conflicting-evidence.\n" in shown


@pytest.mark.parametrize(
    ("knobs", "outcome", "lines"),
    [
        (
            {"digest": "nope"},
            "rejected: it breaks the contract and is never paired",
            [
                "digest: the input digest is missing, malformed, or that of an empty value",
                (
                    "wanted give the Invoke the task's whole input"
                    " (or the attributes that configuration names)"
                ),
            ],
        ),
        (
            {"lost": (0,)},
            "incomplete: its Invoke never ended, so nobody knows whether all of it was seen",
            ["found the run has not ended: its Invoke never arrived"],
        ),
        (
            {"turn_index": 7},
            "unpaired: no verdict compares it with another run",
            ["found candidate k has the same input but another turn index (0, here 7)"],
        ),
        (
            {"task": "another"},
            "unpaired: no verdict compares it with another run",
            ["found no candidate run of this input (the same digest) has arrived"],
        ),
        (
            {"start_ns": START_NS + SECOND},
            "unpaired: no verdict compares it with another run",
            ["found candidate k has the same key and is compared with another run already"],
        ),
    ],
    ids=["rejected", "incomplete", "another key", "another input", "one too many"],
)
def test_a_run_without_a_pair_says_why_and_what_to_change(
    ledger: Callable[..., None], knobs: dict[str, Any], outcome: str, lines: list[str]
) -> None:
    ledger(
        run_spans(run_id="c", arm="control"),
        run_spans(run_id="k", arm="fused-batch"),
        run_spans(**{"run_id": "odd", "arm": "control", **knobs}),
    )

    shown = [" ".join(line.split()) for line in explain("odd").splitlines()]

    assert outcome in shown
    assert [line for line in lines if line not in shown] == []


@pytest.mark.parametrize(
    ("observed", "awaited"),
    [
        ((), "an observation of c and of k"),
        (("c",), "an observation of k"),
        (("c", "k"), "late evidence"),
    ],
    ids=["neither", "one", "both"],
)
def test_a_pair_that_is_not_decided_yet_says_what_it_waits_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, observed: tuple[str, ...], awaited: str
) -> None:
    monkeypatch.chdir(tmp_path)
    reader = Reader(Settings())
    runs = (run_spans(run_id="c", arm="control"), run_spans(run_id="k", arm="fused-batch"))
    ledger = Ledger.open()
    ledger.add(
        [fact for body in runs for fact in read_traces(body, reader).facts],
        [one for run in observed for one in read_logs(observation(run), reader).observations],
        arrived_ns=START_NS,
    )
    ledger.decide(Settings(), now_ns=START_NS)
    ledger.close()

    shown = " ".join(explain("c").split())

    waits = "found candidate k has the same key: their verdict still waits for"
    assert f"{waits} {awaited} wanted" in shown


def test_what_never_arrived_stands_where_it_is_missing(ledger: Callable[..., None]) -> None:
    ledger(run_spans(run_id="c", arm="control", turns=2, lost=(3, 6)))

    shown = [line.split() for line in explain("c").splitlines()]

    entries = [line[:3] for line in shown if line[:1] and line[0].isdigit()]
    assert [line for line in entries if line[1] == "never"] == [
        ["3", "never", "arrived"],
        ["6", "never", "arrived"],
    ]
    assert ["missing:", "2", "sequence", "numbers", "never", "arrived:", "3,", "6"] in shown


def test_an_observation_outside_of_the_runs_time_is_shown_and_does_not_count(
    ledger: Callable[..., None],
) -> None:
    ledger(
        run_spans(run_id="c", arm="control", turns=1),
        observation("c", observed_ns=START_NS - 400 * SECOND),
    )

    shown = " ".join(explain("c").split())

    assert (
        "6 min 40 s before it began: does not count: 400 s before the run; at most 300 s counts"
        " (observation_skew)"
    ) in shown


def test_text_from_senders_cannot_speak_to_the_terminal(ledger: Callable[..., None]) -> None:
    ledger(
        run_spans(run_id="c", arm="control", agent="a\x1b[31m\nb"),
        observation("c", ["x\x1b]0;title\x07"]),
    )

    shown = explain("c")

    assert [
        character for character in shown if not (character.isprintable() or character == "\n")
    ] == []
    assert "a\\x1b[31m\\nb" in shown


def test_calls_without_a_run_say_where_they_belong(
    ledger: Callable[..., None], tmp_path: Path
) -> None:
    stray = {
        "traceId": sha256(b"stray").hexdigest()[:32],
        "spanId": sha256(b"stray").hexdigest()[:16],
        "name": "chat m",
        "kind": 3,
        "startTimeUnixNano": str(START_NS),
        "endTimeUnixNano": str(START_NS + SECOND),
        "attributes": [
            {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
            {"key": "gen_ai.request.model", "value": {"stringValue": "m"}},
        ],
    }
    scope = {"scope": {"name": "other"}, "spans": [stray]}
    body = {"resourceSpans": [{"scopeSpans": [scope]}]}
    (tmp_path / "stray.json").write_text(json.dumps(body))
    assert CliRunner().invoke(main, ["ingest", str(tmp_path / "stray.json")]).exit_code == 0

    shown = [" ".join(line.split()) for line in explain(stray["traceId"]).splitlines()]  # type: ignore[arg-type]

    assert "unattributed: model calls or tools that belong to no run" in shown
    assert any(line.startswith("wanted make the calls inside an `invoke`") for line in shown)
