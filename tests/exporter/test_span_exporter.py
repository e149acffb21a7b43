"""The engine in the agent's process, fed by the SDK's own batch processor."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult, MetricsData
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from otel_turnavoid import Observer, TurnAvoidanceExporter, invoke, llm_call, tool_turn
from otel_turnavoid.errors import ConfigurationError, TurnAvoidError
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.judge.verdict import PairDecided
from otel_turnavoid.store import Ledger
from otel_turnavoid.vocabulary import Arm, Attr, Metric, WithheldCause

TASK = {"request": "cancel order 42"}


def provider(exporter: SpanExporter, service: str) -> TracerProvider:
    made = TracerProvider(
        resource=Resource({"service.name": service, "service.instance.id": f"{service}-1"}),
        shutdown_on_exit=False,
    )
    made.add_span_processor(BatchSpanProcessor(exporter))
    return made


def serve(agents: TracerProvider, arm: str, turns: int) -> None:
    with invoke(
        "desk",
        run_id=arm,
        arm=arm,
        lifecycle="realized",
        input=TASK,
        tracer_provider=agents,
    ):
        for turn in range(turns):
            with llm_call("m", input=[turn]):
                pass
        with tool_turn("cancel"):
            pass


def observed(agents: TracerProvider, observers: TracerProvider) -> None:
    """Two runs of one task, and an observer who saw the same effect after both."""
    observer = Observer("orders", tracer_provider=observers)
    for arm, turns in (("control", 4), ("exact-reuse", 1)):
        serve(agents, arm, turns)
        observer.observe(arm, ["order:42=cancelled"])


def pairs(url: str) -> list[PairDecided]:
    with Ledger.open(url, create=False) as ledger:
        return [each for _, each in ledger.decisions() if isinstance(each, PairDecided)]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/ledger.db"


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TURNAVOID_LEDGER", "TURNAVOID_CONFIG", "TURNAVOID_METRICS", "TURNAVOID_ARM"):
        monkeypatch.delenv(name, raising=False)


def test_a_pair_is_decided_in_process_by_the_time_of_shutdown(url: str) -> None:
    exporter = TurnAvoidanceExporter(url)
    agents, observers = provider(exporter, "agent"), provider(exporter, "observer")
    observed(agents, observers)
    agents.force_flush()
    observers.force_flush()
    agents.shutdown()

    (pair,) = pairs(url)
    assert (pair.control.run_id, pair.candidate.run_id) == ("control", "exact-reuse")
    assert (pair.control.model_turns, pair.candidate.model_turns, pair.avoided) == (4, 1, 3)
    assert pair.causes == ()
    observers.shutdown()


def test_the_observer_may_not_be_the_agent(url: str) -> None:
    exporter = TurnAvoidanceExporter(url)
    agents = provider(exporter, "agent")
    observed(agents, agents)
    agents.shutdown()

    (pair,) = pairs(url)
    assert pair.avoided == 0
    assert pair.causes == (WithheldCause.OBSERVER_NOT_INDEPENDENT,)


def test_the_accounts_grow_in_the_background(url: str) -> None:
    exporter = TurnAvoidanceExporter(url, settings=Settings(settle_ns=0))
    agents, observers = provider(exporter, "agent"), provider(exporter, "observer")
    observed(agents, observers)
    agents.force_flush()
    observers.force_flush()
    assert exporter.force_flush()

    labels = {(Attr.ARM, "exact-reuse"), (Attr.EVIDENCE, "declared")}
    found = exporter.totals.snapshot().series(Metric.TURNS_AVOIDED)
    assert sum(series.value for series in found if labels <= set(series.labels)) == 3  # type: ignore[misc]
    names = {metric.name for metric in exporter.collector().collect()}
    assert "turnavoid_model_turns_avoided" in {name.removesuffix("_total") for name in names}
    agents.shutdown()
    observers.shutdown()


class Pushed(MetricExporter):
    def __init__(self) -> None:
        super().__init__()
        self.last: MetricsData | None = None
        self.closed = False

    def export(self, metrics_data: MetricsData, *_: Any, **__: Any) -> MetricExportResult:
        self.last = metrics_data
        return MetricExportResult.SUCCESS

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        del timeout_millis
        return True

    def shutdown(self, timeout_millis: float = 30_000, **_: Any) -> None:
        del timeout_millis
        self.closed = True


def test_the_accounts_are_pushed_a_last_time_at_shutdown(url: str) -> None:
    pushed = Pushed()
    exporter = TurnAvoidanceExporter(url, metric_exporter=pushed)
    agents, observers = provider(exporter, "agent"), provider(exporter, "observer")
    observed(agents, observers)
    observers.force_flush()
    agents.shutdown()

    assert pushed.closed
    assert pushed.last is not None
    said = json.loads(pushed.last.to_json())
    scopes = said["resource_metrics"][0]["scope_metrics"]
    avoided = [
        point["value"]
        for scope in scopes
        for metric in scope["metrics"]
        if metric["name"] == "turnavoid.model_turns.avoided"
        for point in metric["data"]["data_points"]
    ]
    assert sum(avoided) == 3
    observers.shutdown()


def test_what_a_run_lacks_is_withheld_and_not_waited_for_at_shutdown(url: str) -> None:
    """An observer may still come, in another process: nothing is decided without it."""
    exporter = TurnAvoidanceExporter(url)
    agents = provider(exporter, "agent")
    serve(agents, "control", 3)
    serve(agents, "exact-reuse", 1)
    agents.shutdown()
    assert pairs(url) == []

    again = TurnAvoidanceExporter(url)
    observers = provider(again, "observer")
    for run_id in ("control", "exact-reuse"):
        Observer("orders", tracer_provider=observers).observe(run_id, ["order:42=cancelled"])
    observers.shutdown()
    assert [pair.avoided for pair in pairs(url)] == [2]


def test_a_duplicate_export_changes_nothing(url: str) -> None:
    class Twice(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            exporter.export(spans)
            return exporter.export(spans)

        def shutdown(self) -> None:
            exporter.shutdown()

    exporter = TurnAvoidanceExporter(url)
    agents, observers = provider(Twice(), "agent"), provider(Twice(), "observer")
    observed(agents, observers)
    observers.force_flush()
    agents.shutdown()

    assert [(pair.avoided, pair.causes) for pair in pairs(url)] == [(3, ())]
    observers.shutdown()


def test_a_ledger_that_cannot_be_opened_fails_the_export_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    exporter = TurnAvoidanceExporter(f"sqlite:///{tmp_path}/no/such/folder/ledger.db")

    assert exporter.export([]) is SpanExportResult.FAILURE
    assert exporter.export([]) is SpanExportResult.FAILURE
    assert [record.message.split(":")[0] for record in caplog.records] == ["spans cannot be stored"]


def test_after_shutdown_nothing_is_taken(url: str) -> None:
    exporter = TurnAvoidanceExporter(url)
    exporter.shutdown()
    exporter.shutdown()

    assert exporter.export([]) is SpanExportResult.FAILURE
    assert not exporter.force_flush()
    with pytest.raises(TurnAvoidError, match="has been shut down"):
        _ = exporter.totals


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_a_connection_and_a_thread_of_its_own(url: str) -> None:
    exporter = TurnAvoidanceExporter(url)
    agents = provider(exporter, "agent")
    serve(agents, "control", 4)
    agents.force_flush()
    in_child(lambda: _child(exporter))
    Observer("orders", tracer_provider=provider(exporter, "observer")).observe("gone", [])
    agents.shutdown()

    assert [(pair.control.run_id, pair.candidate.run_id, pair.avoided) for pair in pairs(url)] == [
        ("control", "exact-reuse", 3)
    ]


def _child(exporter: TurnAvoidanceExporter) -> None:
    agents, observers = provider(exporter, "agent"), provider(exporter, "observer")
    serve(agents, "exact-reuse", 1)
    observer = Observer("orders", tracer_provider=observers)
    for run_id in ("control", "exact-reuse"):
        observer.observe(run_id, ["order:42=cancelled"])
    observers.force_flush()
    agents.shutdown()


def in_child(work: Callable[[], None]) -> None:
    child = os.fork()
    if not child:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


class TestConfigurationFromTheEnvironment:
    def test_the_ledger(self, url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("TURNAVOID_LEDGER", url)
        exporter = TurnAvoidanceExporter()
        assert exporter.force_flush()
        exporter.shutdown()

        with closing(sqlite3.connect(tmp_path / "ledger.db")) as connection:
            assert connection.execute("select count(*) from sqlite_master").fetchone()[0]

    def test_the_settings(self, url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        (tmp_path / "turnavoid.yaml").write_text(
            "processors:\n  turnavoid:\n    arms:\n      tier:\n        base: control\n"
        )
        monkeypatch.setenv("TURNAVOID_CONFIG", f"{tmp_path}/turnavoid.yaml")

        assert "tier" in TurnAvoidanceExporter(url)._settings.arms

    def test_a_file_that_cannot_be_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TURNAVOID_CONFIG", "no-such.yaml")
        with pytest.raises(ConfigurationError, match=r"no-such\.yaml: cannot be read"):
            TurnAvoidanceExporter()

    def test_metrics(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TURNAVOID_METRICS", "statsd")
        with pytest.raises(ConfigurationError, match="must be otlp or none"):
            TurnAvoidanceExporter()
        monkeypatch.setenv("TURNAVOID_METRICS", "otlp")
        exporter = TurnAvoidanceExporter()
        assert type(exporter._metric_exporter).__name__ == "OTLPMetricExporter"


def test_opentelemetry_finds_it_by_name() -> None:
    """``opentelemetry-instrument --traces_exporter turnavoid``."""
    (found,) = entry_points(group="opentelemetry_traces_exporter", name="turnavoid")

    assert found.load() is TurnAvoidanceExporter


PROGRAM = """
from opentelemetry.sdk._configuration import _initialize_components
_initialize_components()  # what opentelemetry-instrument does
from otel_turnavoid import invoke, llm_call
with invoke("desk", run_id="r", input="x"):
    with llm_call("m"):
        pass
"""


def test_a_program_without_a_word_about_it_is_stored_when_it_ends(url: str) -> None:
    environment = os.environ | {
        "OTEL_TRACES_EXPORTER": "turnavoid",
        "OTEL_METRICS_EXPORTER": "none",
        "OTEL_LOGS_EXPORTER": "none",
        "TURNAVOID_LEDGER": url,
        "TURNAVOID_ARM": "control",
    }
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    with Ledger.open(url, create=False) as ledger:
        (line,) = ledger.runs()
    assert (line.run.run_id, line.run.arm, line.run.model_turns) == ("r", Arm.CONTROL, 1)
    assert line.run.problems == ()
