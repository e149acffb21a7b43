"""``turnavoid ingest``: what a recorded input comes to, and what is said of a broken one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_turnavoid.cli.main import main
from otel_turnavoid.testing import observation, other_spans, run_spans

Ingest = Callable[..., Result]


@pytest.fixture
def ingest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ingest:
    """``ingest(name=body, …)``: write the files and ingest them in this order."""
    monkeypatch.chdir(tmp_path)

    def run(*options: str, **bodies: bytes) -> Result:
        for name, body in bodies.items():
            Path(name).write_bytes(body)
        return CliRunner().invoke(main, ["ingest", *bodies, *options])

    return run


def pairs() -> list[dict[str, object]]:
    done = CliRunner().invoke(main, ["pairs", "--json"])
    assert done.exit_code == 0
    return [json.loads(line) for line in done.stdout.splitlines()]


def without_id() -> bytes:
    request = ExportTraceServiceRequest.FromString(run_spans(run_id="bad", turns=1))
    spans = request.resource_spans[0].scope_spans[0].spans
    for span in spans:
        span.span_id = bytes(8)
    return request.SerializeToString()


def other_conversation() -> bytes:
    messages = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Hello."}]
    return json.dumps({"messages": messages}).encode()


def otlp_json(*spans: tuple[str, str, str | None], trace: str = "0a") -> bytes:
    """Return a trace of (id, operation, parent id), as another instrumentation sends it."""
    listed = [
        {
            "traceId": trace * 16,
            "spanId": span_id * 8,
            "parentSpanId": parent * 8 if parent else "",
            "startTimeUnixNano": "1",
            "endTimeUnixNano": "2",
            "attributes": [{"key": "gen_ai.operation.name", "value": {"stringValue": operation}}],
        }
        for span_id, operation, parent in spans
    ]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": listed}]}]}).encode()


def test_it_says_what_was_read_stored_and_decided(ingest: Ingest) -> None:
    done = ingest(
        control=run_spans(run_id="c", arm="control", turns=3),
        candidate=run_spans(run_id="k", arm="fused-batch", turns=2),
        control_seen=observation("c"),
        candidate_seen=observation("k"),
        others=other_spans(5),
    )

    # An Invoke, and a turn, a call and a tool for each turn: 1 + 3 * 3 and 1 + 3 * 2, and a user.
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == (
        "read     24 spans, 2 log records; 5 not about agents, 0 refused\n"
        "stored   19 facts, 2 observations; 0 known already\n"
        "decided  1 pair, 0 control pairs\n"
        "turns    1 avoided, 0 withheld, 0 added\n"
        "runs     2 paired\n"
    )


def test_reading_it_again_changes_nothing(ingest: Ingest) -> None:
    recorded = {
        "control": run_spans(run_id="c", arm="control", turns=3),
        "candidate": run_spans(run_id="k", arm="fused-batch", turns=2),
        "control_seen": observation("c"),
        "candidate_seen": observation("k"),
    }
    ingest(**recorded)
    before = pairs()

    done = ingest(**recorded)

    assert done.stdout == (
        "read     19 spans, 2 log records; 0 not about agents, 0 refused\n"
        "stored   0 facts, 0 observations; 21 known already\n"
        "decided  0 pairs, 0 control pairs\n"
        "turns    0 avoided, 0 withheld, 0 added\n"
        "runs     2 paired\n"
    )
    assert pairs() == before


def test_missing_evidence_is_not_waited_for(ingest: Ingest) -> None:
    ingest(
        control=run_spans(run_id="c", arm="control", turns=3),
        candidate=run_spans(run_id="k", arm="fused-batch", turns=2),
        control_seen=observation("c"),
    )

    (pair,) = pairs()
    assert (pair["withheld"], pair["causes"]) == (1, ["effects-unobserved"])


def test_single_spans_are_refused_singly_and_named(ingest: Ingest) -> None:
    done = ingest(
        control=run_spans(run_id="c", arm="control", turns=3),
        bad=without_id(),
    )

    assert done.exit_code == 0
    assert "5 refused\n" in done.stdout
    assert done.stderr.startswith("bad: spans refused: 5; ")
    assert done.stderr.count("\n") == 1


def test_it_says_where_the_runs_of_this_input_stand_and_not_those_before(
    ingest: Ingest, tmp_path: Path
) -> None:
    (tmp_path / "agents.json").write_bytes(
        otlp_json(("01", "invoke_agent", None), ("02", "chat", "01"))
    )
    ingest("agents.json", before=run_spans(run_id="before", task="Another task"))

    done = ingest(
        control=run_spans(run_id="c", arm="control"),
        second=run_spans(run_id="d", arm="control", turn_index=3),
        unended=run_spans(run_id="e", lost=(0,)),
        refused=run_spans(run_id="x", digest="sha256:short"),
        stray=otlp_json(("03", "chat", None), trace="03"),
    )

    assert done.stdout.splitlines()[-1] == (
        "runs     2 unpaired, 1 incomplete, 1 rejected, 1 unattributed"
    )


def test_a_run_without_a_name_is_told_by_its_trace(ingest: Ingest) -> None:
    done = ingest(agents=otlp_json(("01", "invoke_agent", None), ("02", "chat", "01")))

    # It says no arm either.
    assert done.stdout.splitlines()[-1] == "runs     1 rejected"


def test_an_input_about_no_runs_says_so(ingest: Ingest) -> None:
    done = ingest(others=other_spans(5))

    assert done.stdout.splitlines()[-1] == "runs     none"


def test_an_input_without_anything_usable_is_refused(ingest: Ingest) -> None:
    done = ingest(bad=without_id())

    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.startswith(
        "turnavoid ingest: nothing in the input can be used: bad: spans refused: 5;"
    )


def test_where_all_is_broken_nothing_is_decided(ingest: Ingest) -> None:
    ingest(
        "--strict",
        control=run_spans(run_id="c", arm="control", turns=3),
        candidate=run_spans(run_id="k", arm="fused-batch", turns=2),
        broken=b"?",
    )

    done = ingest("nowhere.json")

    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == (
        "nowhere.json: cannot be read: No such file or directory\n"
        "turnavoid ingest: nothing in the input can be used; nothing was decided\n"
    )
    assert pairs() == []


def test_what_is_broken_is_named_and_the_rest_is_decided(ingest: Ingest) -> None:
    lines = other_conversation(), b'{"messages": [', other_conversation()

    done = ingest(
        "nowhere.json",
        broken=run_spans(run_id="x")[:-3],
        control=run_spans(run_id="c", arm="control", turns=3),
        recorded=b"\n".join(lines),
        candidate=run_spans(run_id="k", arm="fused-batch", turns=2),
        control_seen=observation("c"),
        candidate_seen=observation("k"),
    )

    assert done.exit_code == 2
    said = done.stderr.splitlines()
    assert [line.partition(": ")[0] for line in said] == [
        "broken",
        "recorded, line 2",
        "nowhere.json",
        "turnavoid ingest",
    ]
    assert said[-1] == (
        "turnavoid ingest: left out as broken: 3, named above; the rest was read and decided"
    )
    assert done.stdout == (
        "read     19 spans, 2 log records, 2 conversations;"
        " 0 not about agents, 0 refused, 3 broken\n"
        "stored   23 facts, 2 observations; 0 known already\n"
        "decided  1 pair, 0 control pairs\n"
        "turns    1 avoided, 0 withheld, 0 added\n"
        "runs     2 paired, 2 rejected\n"  # the conversations say no arm
    )
    assert [(pair["avoided"], pair["causes"]) for pair in pairs()] == [(1, [])]


def test_strict_stops_at_the_first_broken_file_and_nothing_is_decided(ingest: Ingest) -> None:
    done = ingest(
        "--strict",
        control=run_spans(run_id="c", arm="control", turns=3),
        candidate=run_spans(run_id="k", arm="fused-batch", turns=2),
        broken=run_spans(run_id="x")[:-3],
        also_broken=b"?",
    )

    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr.startswith("turnavoid ingest: broken: ")
    assert done.stderr.endswith("; what was read before stays, nothing was decided\n")
    assert done.stderr.count("\n") == 1
    assert pairs() == []


def test_strict_stops_at_the_first_broken_line(ingest: Ingest) -> None:
    done = ingest("--strict", recorded=other_conversation() + b"\n{\n{\n")

    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("turnavoid ingest: recorded, line 2: not readable as JSON: ")
    assert done.stderr.count("\n") == 1


def test_under_strict_a_broken_file_can_be_mended_and_read_again(ingest: Ingest) -> None:
    whole = {
        "control": run_spans(run_id="c", arm="control", turns=3),
        "control_seen": observation("c"),
        "candidate": run_spans(run_id="k", arm="fused-batch", turns=2),
        "candidate_seen": observation("k"),
    }
    ingest("--strict", **whole | {"candidate": whole["candidate"][:-3]})

    ingest(**whole)

    assert [(pair["avoided"], pair["causes"]) for pair in pairs()] == [(1, [])]


def test_under_strict_a_missing_file_is_one_line(ingest: Ingest) -> None:
    done = ingest("nowhere.json", "--strict")

    assert done.exit_code == 2
    assert done.stderr == (
        "turnavoid ingest: nowhere.json: cannot be read: No such file or directory;"
        " what was read before stays, nothing was decided\n"
    )


def test_the_configuration_decides_how_runs_are_read(ingest: Ingest, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("processors: {turnavoid: {models: any}}\n")
    recorded = {
        "control": run_spans(run_id="c", arm="control", turns=3, model="small"),
        "candidate": run_spans(run_id="k", arm="fused-batch", turns=2, model="large"),
        "control_seen": observation("c"),
        "candidate_seen": observation("k"),
    }

    ingest("--config", "config.yaml", **recorded)

    assert [(pair["avoided"], pair["causes"]) for pair in pairs()] == [(1, [])]


def test_the_ledger_may_stand_in_the_configuration(ingest: Ingest, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("extensions: {ledger: {url: 'sqlite:///other.db'}}\n")

    ingest("--config", "config.yaml", control=run_spans(run_id="c"))

    assert (tmp_path / "other.db").exists()
    assert not (tmp_path / "turnavoid.db").exists()


def test_the_option_wins_over_environment_and_configuration(
    ingest: Ingest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.yaml").write_text("extensions: {ledger: {url: 'sqlite:///other.db'}}\n")
    monkeypatch.setenv("TURNAVOID_LEDGER", "sqlite:///environment.db")

    ingest(
        *("--config", "config.yaml", "--ledger", "sqlite:///option.db"),
        control=run_spans(run_id="c"),
    )

    assert sorted(path.name for path in tmp_path.glob("*.db")) == ["option.db"]


def test_an_unreadable_configuration_key_is_one_line(ingest: Ingest, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("processors: {turnavoid: {decision_wait: soon}}\n")

    done = ingest("--config", "config.yaml", control=run_spans(run_id="c"))

    assert done.exit_code == 2
    assert done.stderr.startswith("turnavoid ingest: processors.turnavoid.decision_wait: ")
    assert done.stderr.count("\n") == 1


def test_recorded_conversations_are_paired_as_the_configuration_says(
    ingest: Ingest, tmp_path: Path
) -> None:
    ask, done = {"role": "user", "content": "Refund A-1."}, {"role": "assistant", "content": "Ok."}
    runs = [
        {"task_id": 1, "trial": 0, "reward": 1.0, "messages": [ask, done, done, done]},
        {"task_id": 1, "trial": 1, "reward": 1.0, "messages": [ask, done]},
    ]
    config = tmp_path / "c.yaml"
    config.write_text(
        "processors: {turnavoid: {accept: [declared, inferred], arms: {trial: {'0': control,"
        " '1': {arm: exact-reuse, mechanism: exact-reuse, lifecycle: realized,"
        " reason: exact-match}}}}}"
    )

    result = ingest("--config", str(config), runs=b"\n".join(json.dumps(r).encode() for r in runs))

    assert result.exit_code == 0
    assert result.stdout == (
        "read     0 spans, 0 log records, 2 conversations; 0 not about agents, 0 refused\n"
        "stored   6 facts, 2 observations; 0 known already\n"
        "decided  1 pair, 0 control pairs\n"
        "turns    2 avoided, 0 withheld, 0 added\n"
        "runs     2 paired\n"
    )
    assert [(pair["control"], pair["candidate"]) for pair in pairs()] == [("runs/1/0", "runs/1/1")]
