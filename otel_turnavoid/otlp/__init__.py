"""The wire: OTLP requests and files -> batches of facts."""

from otel_turnavoid.otlp.batch import Batch
from otel_turnavoid.otlp.files import read_files
from otel_turnavoid.otlp.json import logs_from_json, traces_from_json
from otel_turnavoid.otlp.limits import Limits, check_json
from otel_turnavoid.otlp.logs import read_logs
from otel_turnavoid.otlp.traces import read_traces

__all__ = [
    "Batch",
    "Limits",
    "check_json",
    "logs_from_json",
    "read_files",
    "read_logs",
    "read_traces",
    "traces_from_json",
]
