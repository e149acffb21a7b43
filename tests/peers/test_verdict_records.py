"""Verdicts as log records: in a Collector's file, and in the processor's own log."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from hashlib import sha256
from typing import Any, NamedTuple

import pytest
from harness.peer import Peer, until
from harness.workload import Workload

pytestmark = pytest.mark.peers

PROCESSOR = """
receivers: {{otlp: {{protocols: {{http: {{endpoint: "localhost:{http}"}}}}}}}}
processors: {{turnavoid: }}
exporters:
  prometheus: {{endpoint: "localhost:{metrics}"}}
  otlp_grpc/logs: {{endpoint: "localhost:{collector}", tls: {{insecure: true}}}}
service:
  pipelines:
    traces: {{receivers: [otlp], processors: [turnavoid]}}
    logs: {{receivers: [otlp], processors: [turnavoid]}}
    logs/verdicts: {{receivers: [turnavoid], exporters: [otlp_grpc/logs]}}
    metrics: {{receivers: [turnavoid], exporters: [prometheus]}}
"""
COLLECTOR = """
receivers: {{otlp: {{protocols: {{grpc: {{endpoint: "localhost:{collector}"}}}}}}}}
exporters: {{file: {{path: "{records}", flush_interval: 100ms}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines: {{logs: {{receivers: [otlp], exporters: [file]}}}}
"""


class Placed(NamedTuple):
    """A processor whose verdicts go to a Collector that writes log records into a file."""

    processor: Peer
    records: Callable[[], list[dict[str, Any]]]
    """Returns what is in the file."""


@pytest.fixture
def placed(peers):
    folder, ports = peers.folder, {name: peers.port() for name in ("http", "metrics", "collector")}
    file = folder / "records.jsonl"
    for name, text in (("turnavoid", PROCESSOR), ("collector", COLLECTOR)):
        (folder / f"{name}.yaml").write_text(text.format(**ports, records=file))
    command = [peers.program("otelcol"), "--config", str(folder / "collector.yaml")]
    peers.start(Peer("collector", command, folder, {}, [ports["collector"]]))
    command = [sys.executable, "-m", "otel_turnavoid", "collect", "--config", "turnavoid.yaml"]
    listening = [ports["http"], ports["metrics"]]
    processor = peers.start(Peer("turnavoid", command, folder, {}, listening))
    Workload(4).send(f"localhost:{ports['http']}")
    return Placed(processor, lambda: records(file))


def records(file):
    """The log records that a Collector wrote, by the candidate's run."""
    whole, _, _ = file.read_text().rpartition("\n") if file.exists() else ("", "", "")
    found = [
        record
        for line in whole.splitlines()
        for resource in json.loads(line)["resourceLogs"]
        for scope in resource["scopeLogs"]
        for record in scope["logRecords"]
    ]
    return sorted(
        found, key=lambda record: attributes(record)["turnavoid.verdict.candidate.run_id"]
    )


def attributes(record):
    """The attributes of a record that are one text."""
    texts = (each for each in record["attributes"] if "stringValue" in each["value"])
    return {each["key"]: each["value"]["stringValue"] for each in texts}


def trace_of(run_id):
    return sha256(run_id.encode()).hexdigest()[:32]


def test_a_collector_gets_a_record_of_each_verdict_and_nothing_else(placed):
    until(lambda: len(placed.records()) >= 4, "four records", peers=[placed.processor])

    assert [(each["eventName"], each["body"]["stringValue"]) for each in placed.records()] == [
        ("turnavoid.verdict.decided", "avoided 2, withheld 0, added 0"),
        ("turnavoid.verdict.decided", "avoided 0, withheld 1, added 0: effects-suppressed"),
        ("turnavoid.verdict.decided", "avoided 0, withheld 0, added 1"),
        ("turnavoid.verdict.decided", "avoided 0, withheld 0, added 0"),
    ]


def test_a_record_names_both_traces(placed):
    until(lambda: len(placed.records()) >= 4, "four records", peers=[placed.processor])
    sides = ("control", "candidate")

    for number, record in enumerate(placed.records()):
        said = attributes(record)
        assert [said[f"turnavoid.verdict.{side}.trace_id"] for side in sides] == [
            trace_of(f"control-{number}"),
            trace_of(f"exact-reuse-{number}"),
        ]


def test_the_processors_own_log_names_them_always(placed):
    line = re.compile(r'pair decided: .*control_traces=\["(\w+)"\] candidate_traces=\["(\w+)"\]')

    until(lambda: len(line.findall(placed.processor.said())) >= 4, "four lines in its log")
    assert sorted(line.findall(placed.processor.said())) == sorted(
        (trace_of(f"control-{number}"), trace_of(f"exact-reuse-{number}")) for number in range(4)
    )
