"""Generated code agrees with its sources."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from google.protobuf import descriptor_pool
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2  # noqa: F401 - registers it
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2  # noqa: F401 - registers it

from otel_turnavoid._proto.turnavoid.v1 import otlp_view_pb2

ROOT = Path(__file__).parents[1]
COMMITTED = ROOT / "otel_turnavoid" / "_proto"


def contents(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in (folder / "turnavoid").rglob("*.py*")
        if "__pycache__" not in path.parts
    }


def test_the_committed_code_is_what_the_sources_generate(tmp_path: Path) -> None:
    version = pytest.importorskip("grpc_tools.grpc_version").VERSION
    assert version == "1.75.1", "grpcio-tools must be the pinned release; see pyproject.toml"
    spec = importlib.util.spec_from_file_location("generate", ROOT / "proto" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)

    script.generate(tmp_path)

    assert contents(COMMITTED) == contents(tmp_path), "run: make proto"


def test_generated_modules_import_without_help_from_the_path() -> None:
    assert otlp_view_pb2.TracesView.DESCRIPTOR.full_name == "turnavoid.v1.TracesView"
    assert "turnavoid" not in sys.modules


@pytest.mark.parametrize(
    ("view", "original"),
    [
        ("TracesView", "opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest"),
        ("ResourceSpansView", "opentelemetry.proto.trace.v1.ResourceSpans"),
        ("ScopeSpansView", "opentelemetry.proto.trace.v1.ScopeSpans"),
        ("LogsView", "opentelemetry.proto.collector.logs.v1.ExportLogsServiceRequest"),
        ("ResourceLogsView", "opentelemetry.proto.logs.v1.ResourceLogs"),
        ("ScopeLogsView", "opentelemetry.proto.logs.v1.ScopeLogs"),
        ("ResourceView", "opentelemetry.proto.resource.v1.Resource"),
        ("ScopeView", "opentelemetry.proto.common.v1.InstrumentationScope"),
        ("SpanView", "opentelemetry.proto.trace.v1.Span"),
        ("SpanIdsView", "opentelemetry.proto.trace.v1.Span"),
        ("SpanEventsView", "opentelemetry.proto.trace.v1.Span"),
        ("EventView", "opentelemetry.proto.trace.v1.Span.Event"),
        ("StatusView", "opentelemetry.proto.trace.v1.Status"),
        ("LogRecordView", "opentelemetry.proto.logs.v1.LogRecord"),
    ],
)
def test_every_field_of_the_view_is_the_original_field(view: str, original: str) -> None:
    """Same number and name, and the same bytes on the wire."""
    theirs = descriptor_pool.Default().FindMessageTypeByName(original).fields_by_number
    length_delimited = {9, 11, 12}  # string, message, bytes: the same on the wire
    varint = {5, 14}  # int32, enum
    for field in getattr(otlp_view_pb2, view).DESCRIPTOR.fields:
        same = theirs[field.number]
        assert field.name == same.name
        for kinds in (length_delimited, varint):
            if field.type in kinds:
                assert same.type in kinds
                break
        else:
            assert field.type == same.type
