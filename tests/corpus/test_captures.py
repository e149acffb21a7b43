"""Recorded spans of other people's instrumentations show what really took place.

The ground truth (``facts.json``) was counted by the scripted model server from the requests
it answered, never from spans.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from otel_turnavoid.cli.main import main
from otel_turnavoid.dialects import Reader
from otel_turnavoid.judge.facts import encode
from otel_turnavoid.otlp import read_files
from otel_turnavoid.testing import observation

pytestmark = pytest.mark.corpus

FOLDER = Path(__file__).parents[3] / "shared" / "corpus" / "captures"

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


def facts_of(name: str) -> dict[str, Any]:
    """Return what took place in ``folder/scenario``."""
    folder, scenario = name.split("/")
    facts = FOLDER / folder / "facts.json"
    if not facts.exists():
        return {"spans_cannot_tell": []}
    return json.loads(facts.read_bytes())["scenarios"][scenario]


@pytest.fixture
def capture(shared: Path) -> Callable[[str], Capture]:
    def read(name: str) -> Capture:
        return Capture(name, sorted((FOLDER / name).glob("*.pb")), facts_of(name))

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


@pytest.mark.parametrize("name", scenarios())
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

    Where ``facts.json`` itself says that a retry inside the SDK cannot be seen, the spans are
    those of a run without one: they say as many calls as requests were answered. Parts of the
    input are left out that many instrumentations do not report.
    """
    facts, cannot = recorded.facts, recorded.facts["spans_cannot_tell"]
    figures = {key: facts[fact] for key, fact in COUNTS.items() if key not in cannot}
    if "llm_calls" in cannot and "model_turns" not in cannot:
        figures["llm_calls"] = answered(facts)
    if "model_turns" in cannot or any(fnmatch(recorded.name, each) for each in NO_USAGE):
        return figures
    tokens = {key: facts[fact] for key, fact in TOKENS.items()}
    if any(fnmatch(recorded.name, each) for each in NO_OUTPUT):
        del tokens["output"]
    return figures | {
        key: count for key, count in tokens.items() if key not in PARTS or key in shown
    }


def answered(facts: dict[str, Any]) -> int:
    """Return the requests that the model server did not answer with an error."""
    return facts["expected_llm_calls_including_retries"] - len(facts["http_error_responses"])


UNKNOWN: Final = {
    "model_turns": "model turns and LlmCalls: ",
    "llm_calls": ("model turns and LlmCalls: ", "retries inside a client: "),
    "tool_calls": "tool calls: ",
}
"""What ``spans_cannot_tell`` names -> how a line of an explanation begins that says so."""


@pytest.mark.parametrize(
    "name", [name for name in scenarios() if facts_of(name)["spans_cannot_tell"]]
)
def test_an_explanation_says_what_the_spans_cannot_tell(
    name: str, capture: Callable[[str], Capture], bench: Bench
) -> None:
    recorded = capture(name)
    bench.run("ingest", *recorded.files)

    for row in bench.rows("runs"):
        [run] = json.loads(bench.run("explain", row["run_id"], "--json"))["runs"]
        for key in recorded.facts["spans_cannot_tell"]:
            assert any(line.startswith(UNKNOWN[key]) for line in run["unknown"])


SILENT: Final = [
    name
    for name in scenarios()
    if fnmatch(name, "*/retry*") or fnmatch(name, "*/ratelimit")
    if "llm_calls" in facts_of(name)["spans_cannot_tell"]
]
"""Captures in which an SDK sent a request again, which ``facts.json`` says no span tells."""


@pytest.mark.parametrize("name", SILENT)
def test_a_silent_retry_leaves_the_spans_of_a_run_without_one(
    name: str, capture: Callable[[str], Capture]
) -> None:
    """So nothing could tell them apart, and the same figures are shown for both."""
    folder, scenario = name.split("/")
    without = re.sub("retry|ratelimit", "control", scenario)

    assert what_is_said(capture(name)) == what_is_said(capture(f"{folder}/{without}"))


def what_is_said(recorded: Capture) -> list[bytes]:
    """Return the facts of a capture without its ids and times."""
    facts = [fact for batch in read_files(recorded.files, Reader()) for fact in batch.facts]
    order = sorted(facts, key=lambda fact: (fact.start_ns, -fact.end_ns, fact.span_id))
    number = {fact.span_id: str(place) for place, fact in enumerate(order)}
    return [
        encode(
            msgspec.structs.replace(
                fact,
                trace_id="",
                span_id=number[fact.span_id],
                parent_id=number.get(fact.parent_id or "", ""),
                start_ns=0,
                end_ns=0,
                instance=None,
                call=fact.call
                and msgspec.structs.replace(
                    fact.call,
                    response_id=fact.call.response_id and "id",
                    asks=fact.call.asks and "id",
                ),
                tool=fact.tool
                and msgspec.structs.replace(fact.tool, call_id=fact.tool.call_id and "id"),
            )
        )
        for fact in order
    ]


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
    def ingest(  # noqa: PLR0913 - knobs, each with a name
        bench: Bench,
        folder: str,
        accept: list[str],
        runs: dict[str, str],
        *,
        scenarios: tuple[str, str] = ("control", "fused"),
        digest: str = "gen_ai.input.messages",
    ) -> None:
        """Ingest a control and a candidate of one folder with arms, digest and observations."""
        arms: dict[str, Any] = {}
        files = []
        for scenario, arm in zip(scenarios, ("control", TestJudged.REALIZED), strict=True):
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
            "digest": [digest],
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

    @pytest.mark.usefixtures("shared")
    def test_a_retry_that_the_candidate_did_without_is_no_turn_avoided(self, bench: Bench) -> None:
        self.ingest(
            bench,
            "pydantic-ai__builtin",
            ["declared", "inferred"],
            {},
            scenarios=("retry", "control"),
        )

        (pair,) = bench.rows("pairs")
        assert (pair["control_turns"], pair["candidate_turns"], pair["potential"]) == (4, 4, 0)

    @pytest.mark.usefixtures("shared")
    def test_turns_that_the_spans_cannot_tell_earn_nothing(self, bench: Bench) -> None:
        """Four calls and three, of each run only the last, written over the others."""
        self.ingest(
            bench,
            "litellm__builtin-otel",
            ["declared", "inferred"],
            {"refund-desk": "service.instance.id"},
            scenarios=("control-rooted", "fused-rooted"),
            digest="gen_ai.request.model",
        )

        (pair,) = bench.rows("pairs")
        figures = ("control_turns", "candidate_turns", "potential", "avoided", "withheld", "added")
        assert [pair[key] for key in figures] == [None, None, 0, 0, 0, 0]
        assert pair["causes"] == ["completeness-unproven"]


def run_id_of(spans: list[dict[str, Any]], runs: dict[str, str]) -> str:
    """Return the run id as the design makes it, from the recorded spans."""
    for span in spans:
        attribute = runs.get(span["scope"])
        if attribute is not None:
            said = {**span["resource"], **span.get("attributes", {})}
            return str(said[attribute])
    (root,) = [span for span in spans if "parent_span_id" not in span]
    return f"trace:{root['trace_id']}/{root['span_id']}"
