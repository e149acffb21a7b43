"""Recorded spans of other people's instrumentations show what really took place.

The ground truth (``facts.json``) was counted by the scripted model server from the requests
it answered, never from spans.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import yaml
from click.testing import CliRunner

from otel_turnavoid.cli.main import main
from otel_turnavoid.testing import observation

pytestmark = pytest.mark.corpus

FOLDER = Path(__file__).parents[3] / "shared" / "corpus" / "captures"

OPEN: Final[dict[str, str]] = {}
"""What does not come out right yet: folder and scenario -> why."""

NO_USAGE: Final = (
    "anthropic__opentelemetry-instrumentation-anthropic-old/stream",
    "openai__*/stream-nousage",
    "openai-agents__opentelemetry-instrumentation-openai-agents/control-chat",
)
"""Captures whose model spans carry no tokens: unknown, not 0."""

NO_OUTPUT: Final = ("anthropic__opentelemetry-instrumentation-anthropic/stream*-sdkoff",)
"""Captures whose model spans say one output token too many per call: unknown, too."""

COUNTS: Final = {
    "model_turns": "expected_model_turns",
    "llm_calls": "expected_llm_calls_including_retries",
    "tool_calls": "expected_tool_calls",
}
TOKENS: Final = {
    "input": "expected_input_tokens",
    "output": "expected_output_tokens",
    "cache_read": "expected_cached_tokens",
    "cache_write": "expected_cache_write_tokens",
}
PARTS: Final = ("cache_read", "cache_write")
"""Left out by many instrumentations, and by all where they are 0."""


class Capture(NamedTuple):
    """One recorded scenario and what took place in it."""

    name: str
    files: list[Path]
    facts: dict[str, Any]


def scenarios() -> list[str]:
    """Return every ``folder/scenario``; one that is skipped where there are none."""
    found = [
        f"{facts.parent.name}/{scenario}"
        for facts in sorted(FOLDER.glob("*/facts.json"))
        for scenario in json.loads(facts.read_bytes())["scenarios"]
    ]
    return found or ["absent/absent"]


def known(name: str) -> list[pytest.MarkDecorator]:
    return [
        pytest.mark.xfail(reason=reason, strict=True, raises=AssertionError)
        for pattern, reason in OPEN.items()
        if fnmatch(name, pattern)
    ]


@pytest.fixture
def capture(shared: Path) -> Callable[[str], Capture]:
    def read(name: str) -> Capture:
        folder, scenario = name.split("/")
        facts = json.loads((FOLDER / folder / "facts.json").read_bytes())["scenarios"][scenario]
        return Capture(name, sorted((FOLDER / name).glob("*.pb")), facts)

    return read


class Bench:
    """A fresh ledger and the command line."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ledger = f"sqlite:///{folder / 'ledger.db'}"

    def run(self, command: str, *arguments: str | Path) -> str:
        given = [command, *map(str, arguments), "--ledger", self._ledger]
        result = CliRunner().invoke(main, given)
        assert result.exit_code == 0, result.output
        return result.stdout

    def rows(self, command: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.run(command, "--json").splitlines()]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=known(name), id=name) for name in scenarios()]
)
def test_the_runs_show_what_took_place(
    name: str, capture: Callable[[str], Capture], bench: Bench
) -> None:
    recorded = capture(name)

    bench.run("ingest", *recorded.files)

    shown = summed(bench.rows("runs"))
    assert shown == expected(recorded, shown)


def summed(rows: list[dict[str, Any]]) -> dict[str, int]:
    """Return counts and tokens over all runs and strays; what none of them knows is absent."""
    flat = [{**row, **row["tokens"]} for row in rows]
    return {
        key: sum(row.get(key, 0) for row in flat)
        for key in (*COUNTS, *TOKENS)
        if any(key in row for row in flat)
    }


def expected(recorded: Capture, shown: dict[str, int]) -> dict[str, int]:
    """Return what must be shown, after what these spans can tell.

    Where a retry inside the SDK cannot be seen, the number of calls is left to the spans; so
    are parts of the input that many instrumentations do not report.
    """
    facts, cannot = recorded.facts, recorded.facts["spans_cannot_tell"]
    figures = {key: facts[fact] for key, fact in COUNTS.items() if key not in cannot}
    if "llm_calls" in cannot and "llm_calls" in shown and "model_turns" not in cannot:
        figures["llm_calls"] = shown["llm_calls"]
    if "model_turns" in cannot or any(fnmatch(recorded.name, each) for each in NO_USAGE):
        return figures
    tokens = {key: facts[fact] for key, fact in TOKENS.items()}
    if any(fnmatch(recorded.name, each) for each in NO_OUTPUT):
        del tokens["output"]
    return figures | {
        key: count for key, count in tokens.items() if key not in PARTS or key in shown
    }


class TestJudged:
    """A control and a fused capture of one task, told apart by their processes."""

    REALIZED: Final = {
        "arm": "fused-batch",
        "mechanism": "fused-batch",
        "lifecycle": "realized",
        "reason": "serial-round-trip-collapsed",
    }
    EFFECTS: Final = ("order:B-2=refunded",)

    @staticmethod
    def ingest(bench: Bench, folder: str, accept: list[str], runs: dict[str, str]) -> None:
        """Ingest control and fused of one folder with arms, digest and observations."""
        arms: dict[str, Any] = {}
        files = []
        for scenario, arm in (("control", "control"), ("fused", TestJudged.REALIZED)):
            spans = json.loads((FOLDER / folder / scenario / "01.json").read_bytes())
            arms[spans[0]["resource"]["service.instance.id"]] = arm
            seen = bench.folder / f"{scenario}.logs.pb"
            seen.write_bytes(
                observation(
                    run_id_of(spans, runs),
                    TestJudged.EFFECTS,
                    observed_ns=max(span["end"] for span in spans),
                )
            )
            files += [FOLDER / folder / scenario / "01.pb", seen]
        config = bench.folder / "turnavoid.yaml"
        judging = {
            "accept": accept,
            "arms": {"service.instance.id": arms},
            "digest": ["gen_ai.input.messages"],
            "runs": runs,
        }
        config.write_text(yaml.safe_dump({"processors": {"turnavoid": judging}}))
        bench.run("ingest", *files, "--config", config)

    @pytest.mark.parametrize(
        ("accept", "avoided", "causes"),
        [
            (["declared", "inferred"], 1, []),
            (["declared"], 0, ["completeness-unproven"]),
        ],
    )
    @pytest.mark.parametrize("runs", [{}, {"pydantic-ai": "gen_ai.conversation.id"}])
    @pytest.mark.usefixtures("shared")
    def test_a_frameworks_own_spans_earn_credit_where_inferred_evidence_is_accepted(
        self, bench: Bench, runs: dict[str, str], accept: list[str], avoided: int, causes: list[str]
    ) -> None:
        """A run is an agent span with what lies below it, or what shares a conversation id."""
        self.ingest(bench, "pydantic-ai__builtin", accept, runs)

        (pair,) = bench.rows("pairs")
        del pair["control"], pair["candidate"]
        assert pair == {
            **self.REALIZED,
            "variant": None,
            "evidence": "inferred",
            "control_turns": 4,
            "candidate_turns": 3,
            "potential": 1,
            "avoided": avoided,
            "withheld": 1 - avoided,
            "added": 0,
            "causes": causes,
        }

    @pytest.mark.usefixtures("shared")
    def test_bare_calls_earn_credit_where_the_configuration_says_which_are_one_run(
        self, bench: Bench
    ) -> None:
        self.ingest(
            bench,
            "openai__opentelemetry-instrumentation-openai-v2",
            ["declared", "inferred"],
            {"opentelemetry.util.genai.handler": "service.instance.id"},
        )

        (pair,) = bench.rows("pairs")
        assert (pair["avoided"], pair["withheld"], pair["causes"]) == (1, 0, [])


def run_id_of(spans: list[dict[str, Any]], runs: dict[str, str]) -> str:
    """Return the run id as the design makes it, from the recorded spans."""
    for span in spans:
        attribute = runs.get(span["scope"])
        if attribute is not None:
            said = {**span["resource"], **span.get("attributes", {})}
            return str(said[attribute])
    (root,) = [span for span in spans if "parent_span_id" not in span]
    return f"trace:{root['trace_id']}/{root['span_id']}"
