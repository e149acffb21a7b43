"""``docs/troubleshooting.md`` has an entry for every word, and shows what is really shown."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_turnavoid.cli.main import main
from otel_turnavoid.collector import telemetry
from otel_turnavoid.publish.prometheus import sample_names
from otel_turnavoid.testing import observation, run_spans, shatter
from otel_turnavoid.vocabulary import INSTRUMENTS, Outcome, Rejection, WithheldCause

PACKAGE = Path(__file__).parents[2] / "otel_turnavoid"
ASK = ("explain", "control-1", "candidate-1")


@dataclass(frozen=True)
class Case:
    """What is sent: a pair that would earn a turn, but for what is said here."""

    control: dict[str, Any] = field(default_factory=dict)
    candidate: dict[str, Any] = field(default_factory=dict)
    seen_of_control: dict[str, Any] | None = field(default_factory=dict)
    seen_of_candidate: dict[str, Any] | None = field(default_factory=dict)
    ask: tuple[str, ...] = ASK
    more: tuple[bytes, ...] = ()
    edit: Callable[[bytes], bytes] = bytes
    """Changes what the candidate sends."""

    def bodies(self) -> list[bytes]:
        control = {"run_id": "control-1", "arm": "control", "turns": 3} | self.control
        candidate = {"run_id": "candidate-1", "arm": "exact-reuse", "turns": 2} | self.candidate
        made = [run_spans(**control), self.edit(run_spans(**candidate)), *self.more]
        for run_id, seen in (
            ("control-1", self.seen_of_control),
            ("candidate-1", self.seen_of_candidate),
        ):
            made += [] if seen is None else [observation(run_id, **seen)]
        return made


def two_contents(request: bytes) -> bytes:
    """Return the request with its last span a second time, ended later."""
    *_, last = shatter(request)
    again = ExportTraceServiceRequest.FromString(last)
    again.resource_spans[0].scope_spans[0].spans[0].end_time_unix_nano += 1
    return request + again.SerializeToString()


def unattributed(request: bytes) -> bytes:
    """Return the request with the calls alone, outside of every run."""
    whole = ExportTraceServiceRequest.FromString(request)
    scope = whole.resource_spans[0].scope_spans[0]
    calls = [span for span in scope.spans if span.name.startswith("chat ")]
    for call in calls:
        call.parent_span_id = b""
        kept = [each for each in call.attributes if each.key.startswith("gen_ai.")]
        del call.attributes[:]
        call.attributes.extend(kept)
    del scope.spans[:]
    scope.spans.extend(calls)
    return whole.SerializeToString()


SECOND = 1_000_000_000
ALONE = ("explain", "candidate-1")
CASES: dict[str, Case] = {
    WithheldCause.LIFECYCLE_NOT_REALIZED: Case(candidate={"lifecycle": "attempted"}),
    WithheldCause.RUN_NOT_COMPLETED: Case(candidate={"state": "failed"}),
    WithheldCause.INCOMPLETE_RUN: Case(candidate={"lost": [3]}),
    WithheldCause.COMPLETENESS_UNPROVEN: Case(candidate={"counts": False}),
    WithheldCause.CONFLICTING_EVIDENCE: Case(edit=two_contents),
    WithheldCause.SAMPLED: Case(control={"trace_state": "ot=th:8"}),
    WithheldCause.EFFECTS_UNOBSERVED: Case(seen_of_candidate=None),
    WithheldCause.NO_REQUIRED_EFFECTS: Case(
        seen_of_control={"labels": []}, seen_of_candidate={"labels": []}
    ),
    WithheldCause.OBSERVER_NOT_INDEPENDENT: Case(
        seen_of_candidate={"service": "agent", "instance": "agent-candidate-1"}
    ),
    WithheldCause.OBSERVER_MISMATCH: Case(seen_of_candidate={"observer": "mailbox/v1"}),
    WithheldCause.EFFECTS_SUPPRESSED: Case(seen_of_candidate={"labels": ["order:42=cancelled"]}),
    WithheldCause.EFFECTS_ADDED: Case(
        seen_of_control={"labels": ["order:42=cancelled"]},
        seen_of_candidate={"labels": ["order:42=cancelled", "order:42=cancelled"]},
    ),
    WithheldCause.MODEL_MISMATCH: Case(candidate={"model": "gpt-5.1-mini"}),
    WithheldCause.INSTRUMENTATION_MISMATCH: Case(candidate={"scope": "an.older.fork"}),
    Rejection.VOCABULARY: Case(candidate={"arm": "Exact-Reuse"}, ask=ALONE),
    Rejection.DIGEST: Case(candidate={"digest": ""}, ask=ALONE),
    Rejection.LEAKAGE: Case(candidate={"turn_index": 2, "decision_basis": 2}, ask=ALONE),
    Rejection.ARM_MISSING: Case(candidate={"arm": None}, ask=ALONE),
    Rejection.RUN_ID_REUSED: Case(
        more=(
            run_spans(run_id="candidate-1", arm="exact-reuse", task="another", trace_id=b"t" * 16),
        ),
        ask=ALONE,
    ),
    Outcome.PAIRED: Case(ask=ALONE),
    Outcome.UNPAIRED: Case(candidate={"task": "cancel order 43"}, ask=ALONE),
    Outcome.INCOMPLETE: Case(candidate={"lost": [0]}, ask=ALONE),
    Outcome.REJECTED: Case(candidate={"arm": None}, ask=ALONE),
    Outcome.UNATTRIBUTED: Case(edit=unattributed, ask=("runs",)),
}
WORDS = [word.value for words in (WithheldCause, Rejection, Outcome) for word in words]


@pytest.fixture(scope="module")
def text(page: Callable[[str], str]) -> str:
    return page("troubleshooting.md")


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Case], list[str]]:
    """Return what a command shows of a case, line by line."""
    monkeypatch.chdir(tmp_path)

    def show(case: Case) -> list[str]:
        names = [f"{number}.pb" for number, _ in enumerate(case.bodies())]
        for name, body in zip(names, case.bodies(), strict=True):
            Path(name).write_bytes(body)
        assert CliRunner().invoke(main, ["ingest", *names]).exit_code == 0
        done = CliRunner().invoke(main, list(case.ask))
        assert done.exit_code == 0
        return [line.rstrip() for line in done.stdout.splitlines()]

    return show


def test_every_word_has_an_entry_in_the_order_of_the_vocabulary(text: str) -> None:
    entries = re.findall(r"^### `([a-z-]+)`$", text, re.MULTILINE)

    assert sorted(entries) == sorted(WORDS)
    assert [each for each in entries if each in list(WithheldCause)] == list(WithheldCause)
    assert [each for each in entries if each in list(Rejection)] == list(Rejection)


@pytest.mark.parametrize("word", WORDS)
def test_every_entry_says_why_and_what_to_do(text: str, word: str) -> None:
    (entry,) = re.findall(rf"^### `{word}`$(.*?)(?=^##|\Z)", text, re.DOTALL | re.MULTILINE)

    assert word == Outcome.PAIRED or ("**Why" in entry and "do.**" in entry.lower())


@pytest.mark.parametrize("word", WORDS)
def test_what_is_quoted_is_what_is_shown(
    text: str,
    blocks: Callable[[str], list[tuple[str, str]]],
    shown: Callable[[Case], list[str]],
    word: str,
) -> None:
    lines = shown(CASES[word])
    quoted = dict(blocks(text)).get(f"text {word}")

    if quoted is None:
        assert word == Outcome.PAIRED
        assert any("1 model turn avoided" in line for line in lines)
        return
    wanted = [line.rstrip() for line in quoted.splitlines()]
    starts = range(len(lines) - len(wanted) + 1)
    assert any(lines[start : start + len(wanted)] == wanted for start in starts), lines


def test_every_metric_that_it_names_exists(text: str) -> None:
    named = set(re.findall(r"\bturnavoid_[a-z_]+[a-z]\b", text))
    own = [each for each in vars(telemetry).values() if isinstance(each, telemetry.Own)]
    known = {name for each in INSTRUMENTS for name in sample_names(each)}
    known |= {each.name.replace(".", "_") for each in own}

    assert {
        name
        for name in named - {"turnavoid_comparison"}
        if re.sub(r"_(total|seconds|bytes)$", "", name) not in known and name not in known
    } == set()


def test_every_message_that_it_explains_is_one_of_ours(text: str) -> None:
    section = text.split("## What a message means")[1]
    messages = re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)
    sources = "\n".join(file.read_text(encoding="utf-8") for file in sorted(PACKAGE.rglob("*.py")))
    said = re.sub(r'"\s*\n\s*f?"', "", sources)
    parts = [part.strip(" :") for message in messages for part in re.split("[…;]", message)]

    assert len(messages) > 10
    assert [part for part in parts if part not in said] == []


def test_contents_list_every_section(text: str) -> None:
    listed = re.findall(r"^- \[([^\]]+)\]", text, re.MULTILINE)

    assert listed == re.findall(r"^## (.+)$", text, re.MULTILINE)
