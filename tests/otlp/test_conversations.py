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


def test_a_session_log_with_a_bare_value_is_refused(tmp_path: Path) -> None:
    start = {"kind": "segment_start", "ts": 1}

    with pytest.raises(InputError, match=r"runs\.jsonl: a session log with a line that is no"):
        read(tmp_path, lines(start, 5))
