"""The table of targets: what is checked of any bytes, and with what the fuzzer begins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from fuzz import bodies, chain, dialect, records, seeds, texts, traces_v1, wire


class Target(NamedTuple):
    """One of them."""

    check: Callable[[bytes], None]
    """Raises a Finding, or anything else that nobody foresaw."""
    seeds: Callable[[], list[bytes]]
    """Good input and near misses, of our own making."""


TARGETS: Final = {
    "traces": Target(wire.traces, seeds.trace_requests),
    "dialects": Target(dialect.dialects, seeds.decisions),
    "logs": Target(wire.logs, seeds.log_requests),
    "attribute": Target(wire.attribute, seeds.attributes),
    "traces-json": Target(texts.traces_json, seeds.trace_requests_as_json),
    "logs-json": Target(texts.logs_json, seeds.log_requests_as_json),
    "configuration": Target(texts.configuration, seeds.configurations),
    "trace-file": Target(traces_v1.trace_file, seeds.trace_files),
    "recorded-file": Target(records.recorded_file, seeds.recorded_files),
    "gzip": Target(bodies.gzipped, seeds.gzipped),
    "credit": Target(chain.credit, seeds.decisions),
}
