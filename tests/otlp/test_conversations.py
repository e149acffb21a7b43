"""Recorded conversations in files: one, one per line, an array, or a whole session log."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from otel_turnavoid.dialects import Reader
from otel_turnavoid.errors import InputError
from otel_turnavoid.otlp import read_files

MESSAGES = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Hello."}]
EFFECTS = {"task_id": 1, "goal_hash": "g", "observed_hash": "g", "db_match": True}


def read(folder: Path, body: bytes, name: str = "runs.jsonl"):
    file = folder / name
    file.write_bytes(body)
    batches = list(read_files([file], Reader()))
    return {fact.run_id for batch in batches for fact in batch.facts}, batches


def lines(*values) -> bytes:
    return b"\n".join(json.dumps(value).encode() for value in values)


@pytest.mark.parametrize(
    "body",
    [
        lines(MESSAGES),
        json.dumps(MESSAGES, indent=2).encode(),
        lines({"messages": MESSAGES}),
        json.dumps({"messages": MESSAGES}, indent=2).encode(),
        gzip.compress(lines({"messages": MESSAGES})),
    ],
)
def test_a_file_may_be_one_conversation(tmp_path: Path, body: bytes) -> None:
    runs, [batch] = read(tmp_path, body)

    assert (runs, batch.conversations, batch.spans, batch.records) == ({"runs/1"}, 1, 0, 0)


def test_a_file_may_hold_one_a_line_or_an_array_of_them(tmp_path: Path) -> None:
    conversation = {"messages": MESSAGES}

    by_line, _ = read(tmp_path, lines(conversation, conversation))
    by_array, _ = read(tmp_path, lines([conversation, conversation]))

    assert by_line == by_array == {"runs/1", "runs/2"}


@pytest.mark.parametrize("name", ["runs.jsonl.gz", "runs.jsonl", "runs.json", "runs"])
def test_a_run_without_a_name_has_that_of_its_file(tmp_path: Path, name: str) -> None:
    body = lines({"messages": MESSAGES})

    runs, _ = read(tmp_path, gzip.compress(body) if name.endswith(".gz") else body, name)

    assert runs == {"runs/1"}


def test_a_line_of_effects_is_a_record_with_an_observation(tmp_path: Path) -> None:
    _, [batch] = read(tmp_path, lines(EFFECTS), "effects-runs.jsonl")

    assert (batch.conversations, batch.records) == (0, 1)
    assert [observation.run_id for observation in batch.observations] == ["runs/1"]


def test_a_session_log_is_read_as_a_whole(tmp_path: Path) -> None:
    start = {"kind": "segment_start", "ts": 1, "session_id": "s"}
    run = [{"kind": "invoke", "ts": 2, "trigger": "wakeup"}, {"kind": "llm_usage", "ts": 3}]

    runs, [batch] = read(tmp_path, lines(start, *run, *run))

    assert (runs, batch.conversations) == ({"s/0", "s/1"}, 2)


def test_a_line_that_is_no_conversation_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"runs\.jsonl, line 2: has neither resourceSpans nor"):
        read(tmp_path, lines({"messages": MESSAGES}, {"message": "?"}))


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        (b"5", "no JSON object; a session log is read as a whole"),
        (b'{"kind": "inv', "not readable as JSON: .*; a session log is read as a whole"),
    ],
)
def test_a_session_log_with_a_broken_line_is_refused_as_a_whole(
    tmp_path: Path, broken: bytes, problem: str
) -> None:
    body = lines({"kind": "segment_start", "ts": 1}, {"kind": "invoke", "ts": 2}) + b"\n" + broken
    (tmp_path / "log.jsonl").write_bytes(body)
    said: list[InputError] = []

    with pytest.raises(InputError, match=rf"log\.jsonl, line 3: {problem}$"):
        read(tmp_path, body, "log.jsonl")
    read_on = list(read_files([tmp_path / "log.jsonl"], Reader(), broken=said.append))

    assert (read_on, [error.place for error in said]) == ([], [f"{tmp_path / 'log.jsonl'}, line 3"])


def test_a_broken_line_keeps_its_number_so_that_the_runs_keep_their_names(tmp_path: Path) -> None:
    conversation = json.dumps({"messages": MESSAGES}).encode()
    file = tmp_path / "runs.jsonl"
    file.write_bytes(b"\n".join([conversation, b"broken", conversation]))
    said: list[InputError] = []

    batches = list(read_files([file], Reader(), broken=said.append))

    assert {fact.run_id for batch in batches for fact in batch.facts} == {"runs/1", "runs/3"}
    assert [error.place for error in said] == [f"{file}, line 2"]


def test_an_item_of_an_array_that_is_no_conversation_is_named(tmp_path: Path) -> None:
    conversation = {"messages": MESSAGES}
    file = tmp_path / "runs.json"
    file.write_text(json.dumps([conversation, {"message": "?"}, conversation], indent=1))
    said: list[InputError] = []

    batches = list(read_files([file], Reader(), broken=said.append))

    assert {fact.run_id for batch in batches for fact in batch.facts} == {"runs/1", "runs/3"}
    assert [str(error) for error in said] == [f"{file}, item 2: is no recorded conversation"]
