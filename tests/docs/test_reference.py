"""The references say what the code says: attributes, environment variables, configuration."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from otel_turnavoid import agent_turn, invoke, llm_call, tool_turn, validation
from otel_turnavoid.collector import config
from otel_turnavoid.collector.section import Section
from otel_turnavoid.dialects import Reader
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.judge.verdict import PairDecided
from otel_turnavoid.otlp import read_logs, read_traces
from otel_turnavoid.publish.verdict_telemetry import Verdict, verdict_spans
from otel_turnavoid.store import Ledger
from otel_turnavoid.testing import START_NS, Telemetry, observation, run_spans
from otel_turnavoid.vocabulary import NAMESPACE, Attr, Env, VerdictAttr

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "otel_turnavoid"


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    """The program that ``make docs`` runs."""
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["attributes.md", "configuration.md", "metrics.md"])
def test_the_tables_are_those_of_the_code(
    generate: ModuleType, page: Callable[[str], str], name: str
) -> None:
    assert page(name) == generate.pages()[name], "run `make docs`"


def keys(owner: type) -> list[str]:
    return [value for name, value in vars(owner).items() if name.isupper()]


def test_every_attribute_of_ours_stands_in_one_place(generate: ModuleType) -> None:
    placed = [key for place in generate.ATTRIBUTES for key in place.keys]

    assert sorted(placed) == sorted([*keys(Attr), *keys(VerdictAttr)])


@pytest.mark.parametrize("owner", [Attr, VerdictAttr, Env])
def test_every_name_has_a_meaning(generate: ModuleType, owner: type) -> None:
    assert list(generate.meanings(owner)) == [name for name in vars(owner) if name.isupper()]


def kind_of(value: AnyValue) -> str:
    if value.WhichOneof("value") == "array_value":
        assert {kind_of(each) for each in value.array_value.values} <= {"string"}
        return "string[]"
    return str(value.WhichOneof("value")).removesuffix("_value")


def said_by_an_agent() -> bytes:
    """Return a run whose entries say all that they can, as a request."""
    telemetry = Telemetry()
    with invoke(
        "orders",
        run_id="run",
        arm="exact-reuse",
        variant="v2",
        experiment="e",
        unit="u",
        turn_index=1,
        decision_basis=0,
        lifecycle="realized",
        input="cancel order 42",
        tracer_provider=telemetry.tracer_provider,
    ) as run:
        with agent_turn(), llm_call("gpt-5.1", input=["cancel"]) as call:
            call.cost(0.5)
            call.set(samplings=1)
        with tool_turn("cancel", caller="code"):
            pass
        with validation():
            pass
        run.retained(tokens=3, latency_ms=1.5)
    return telemetry.trace_request()


def verdicts(folder: Path) -> bytes:
    """Return the verdict on a pair with effects and causes, as a request."""
    reader = Reader()
    facts = [
        fact
        for run_id, arm in (("control", "control"), ("candidate", "exact-reuse"))
        for fact in read_traces(run_spans(run_id=run_id, arm=arm, experiment="e"), reader).facts
    ]
    seen = [
        each
        for run_id, labels in (("control", ["a", "b"]), ("candidate", ["a"]))
        for each in read_logs(observation(run_id, labels), reader).observations
    ]
    ledger = Ledger.open(f"sqlite:///{folder}/ledger.db")
    ledger.add(facts, seen, arrived_ns=START_NS)
    (decided,) = [
        each
        for each in ledger.decide(Settings(), now_ns=START_NS, final=True)
        if isinstance(each, PairDecided)
    ]
    ledger.close()
    return verdict_spans([Verdict(1, START_NS, decided)], {}, "ledger")


def sent(folder: Path) -> Iterator[tuple[str, AnyValue]]:
    """Yield the attributes of runs, verdicts and observations."""
    for body in (said_by_an_agent(), verdicts(folder)):
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for scope in resource.scope_spans:
                for span in scope.spans:
                    yield from ((each.key, each.value) for each in span.attributes)
    body = observation("run", ["a", "b"], ordered=True)
    for resource in ExportLogsServiceRequest.FromString(body).resource_logs:
        for scope in resource.scope_logs:
            for record in scope.log_records:
                yield from ((each.key, each.value) for each in record.attributes)


def test_the_types_are_those_that_are_sent(generate: ModuleType, tmp_path: Path) -> None:
    kinds = {key: kind_of(value) for key, value in sent(tmp_path) if key.startswith(NAMESPACE)}

    assert kinds == {key: generate.type_of(key) for key in kinds}
    labels = {Attr.WITHHELD_CAUSE, Attr.COMPARISON, Attr.OUTCOME, Attr.SIDE, Attr.COMPONENT}
    labels |= {Attr.BASIS, Attr.TOKEN_TYPE, Attr.INVOKE_IMPAIRED}
    assert {*keys(Attr), *keys(VerdictAttr)} - kinds.keys() <= labels


def test_every_variable_that_the_code_reads_is_in_the_vocabulary() -> None:
    texts = [file.read_text(encoding="utf-8") for file in sorted(PACKAGE.rglob("*.py"))]
    read = {name for text in texts for name in re.findall(r"\bTURNAVOID_[A-Z_]+\b", text)}

    assert read == {name for name in keys(Env) if name.startswith("TURNAVOID_")}


def sections(kind: type[Section] = Section) -> Iterator[type[Section]]:
    for each in kind.__subclasses__():
        if each.__module__.startswith("otel_turnavoid."):
            yield each
            yield from sections(each)


def test_every_section_of_a_configuration_is_listed(generate: ModuleType) -> None:
    listed: list[Any] = [section for _, section in generate.SECTIONS]

    assert sorted(each.__name__ for each in listed) == sorted(each.__name__ for each in sections())


@pytest.mark.parametrize(
    ("text", "ns"),
    [("500ms", 5 * 10**8), ("10s", 10**10), ("10m", 6 * 10**11), ("24h", 864 * 10**11), ("0s", 0)],
)
def test_durations_are_written_as_they_are_read(generate: ModuleType, text: str, ns: int) -> None:
    assert generate.duration(ns) == text


def test_the_configuration_shown_is_the_default(
    page: Callable[[str], str], blocks: Callable[[str], list[tuple[str, str]]]
) -> None:
    (shown,) = [body for info, body in blocks(page("configuration.md")) if info == "yaml"]
    parsed, default = config.parse(shown, env={}), config.parse("", env={})

    assert parsed.receiver == default.receiver
    assert parsed.settings == default.settings
    assert parsed.exporters == default.exporters
    assert (parsed.traces, parsed.logs, parsed.forwarding) == (
        default.traces,
        default.logs,
        default.forwarding,
    )
    assert parsed.ledger_url == "sqlite:///turnavoid.db"
