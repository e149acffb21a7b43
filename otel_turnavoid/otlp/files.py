"""Recorded files -> batches of facts.

OTLP request bodies, lines of the collector's file exporter, and recorded conversations.
"""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any, Final, cast

from google.protobuf.message import DecodeError

from otel_turnavoid import conversations
from otel_turnavoid._proto.turnavoid.v1.otlp_view_pb2 import LogsView
from otel_turnavoid.dialects import Reader
from otel_turnavoid.errors import InputError
from otel_turnavoid.otlp import json
from otel_turnavoid.otlp.batch import Batch
from otel_turnavoid.otlp.logs import read_logs
from otel_turnavoid.otlp.traces import read_traces
from otel_turnavoid.otlp.wire import BYTES, FIXED32, FIXED64, VARINT, fields

_GZIP: Final = b"\x1f\x8b"
_SPACE: Final = b" \t\r\n"
_OTHER_SIGNALS: Final = ("resourceMetrics", "resourceProfiles")
_WANTED: Final = (
    "want OTLP traces or logs: a protobuf body, a JSON object, or one per line; or recorded"
    " conversations"
)

_SPAN_FIELDS: Final = {(1, BYTES), (2, BYTES), (6, VARINT), (7, FIXED64), (8, FIXED64)}
"""Field numbers and wire types that a span has and a log record has not."""
_LOG_FIELDS: Final = {(1, FIXED64), (2, VARINT), (6, BYTES), (8, FIXED32), (11, FIXED64)}
"""Field numbers and wire types that a log record has and a span has not."""


def read_files(paths: Iterable[str | Path], reader: Reader) -> Iterator[Batch]:
    """Read recorded OTLP and conversations; ``-`` is standard input.

    Each file is one protobuf body or one JSON object (traces or logs, told by the content), or
    one JSON object per line, as the collector's file exporter writes it; any of these may be
    gzipped. Lines are read one at a time; lines of metrics and profiles are passed over.
    A conversation is a JSON object, or one per line, or one of an array; see the room
    ``conversations`` for what is known. A session log is read as a whole.

    Raises:
        InputError: A file cannot be read, or is of another kind; names the file, and the line.
    """
    for path in paths:
        name = "standard input" if str(path) == "-" else str(path)
        try:
            with _opened(path) as stream:
                yield from _read_stream(stream, name, reader)
        except (OSError, EOFError, zlib.error) as error:
            problem = getattr(error, "strerror", None) or str(error)
            raise InputError(name, f"cannot be read: {problem}") from error


@contextmanager
def _opened(path: str | Path) -> Iterator[BufferedReader]:
    if str(path) == "-":
        yield _unzipped(cast("BufferedReader", sys.stdin.buffer))
        return
    with Path(path).open("rb") as stream:
        yield _unzipped(stream)


def _unzipped(stream: BufferedReader) -> BufferedReader:
    if stream.peek(2)[:2] == _GZIP:
        return BufferedReader(cast("Any", gzip.GzipFile(fileobj=stream)))
    return stream


def _read_stream(stream: BufferedReader, name: str, reader: Reader) -> Iterator[Batch]:
    # A serialized request starts with a newline, as tag of its first field.
    start = stream.peek(1)[:1]
    if not start or start == b"\n" or start not in _SPACE + b"{[":
        body = stream.read()
        if not start or not _looks_like_json(body):
            yield _read_body(body, name, reader)
            return
        lines: Iterator[bytes] = iter(body.splitlines(keepends=True))
    else:
        lines = iter(stream)
    yield from _read_json(lines, name, reader)


def _looks_like_json(body: bytes) -> bool:
    if not body.lstrip(_SPACE).startswith((b"{", b"[")):
        return False
    try:
        LogsView.FromString(body)
    except DecodeError:
        return True
    return False


def _read_body(body: bytes, name: str, reader: Reader) -> Batch:
    try:
        is_logs = _is_logs(LogsView.FromString(body), name)
    except DecodeError as error:
        raise InputError(name, _WANTED) from error
    try:
        return read_logs(body, reader) if is_logs else read_traces(body, reader)
    except InputError as error:
        raise InputError(name, error.problem) from error


def _is_logs(view: LogsView, name: str) -> bool:
    """Tell logs from traces: the requests differ only in their innermost messages."""
    for resource in view.resource_logs:
        for scope in resource.scope_logs:
            for record in scope.log_records:
                for field in fields(record):
                    if field in _SPAN_FIELDS:
                        return False
                    if field in _LOG_FIELDS:
                        return True
    return ".logs." in Path(name).name


def _read_json(lines: Iterator[bytes], name: str, reader: Reader) -> Iterator[Batch]:
    values = _decoded(lines, name)
    file = _stem(name)
    for number, (place, value) in enumerate(values, start=1):
        if number == 1 and conversations.is_session(value):
            yield _read_session([value, *(entry for _, entry in values)], name, file, reader)
            return
        if isinstance(value, list) and not conversations.is_messages(value):
            yield from _read_array(value, place, file, reader)
        else:
            yield _read_value(value, place, file, number, reader)


def _decoded(lines: Iterator[bytes], name: str) -> Iterator[tuple[str, Any]]:
    """Yield each JSON value and its place: one on each line, or one over all lines."""
    first = True
    for number, line in enumerate(lines, start=1):
        if not line.strip(_SPACE):
            continue
        place = f"{name}, line {number}"
        try:
            value = json.decode(line)
        except InputError as error:
            # If the first line is no object by itself, there may be one over all lines.
            rest = b"".join(lines) if first else b""
            if not rest.strip(_SPACE):
                raise InputError(place, error.problem) from error
            is_line = line.rstrip(_SPACE).endswith(b"}")
            value = _decode_whole(line + rest, place if is_line else name)
            place = name
        first = False
        yield place, value


def _stem(name: str) -> str:
    """Return the name of a file without its endings: it names what is recorded there."""
    return Path(name).name.removesuffix(".gz").rsplit(".", 1)[0]


def _decode_whole(body: bytes, place: str) -> Any:
    try:
        return json.decode(body)
    except InputError as error:
        raise InputError(place, error.problem) from error


def _read_value(value: Any, place: str, file: str, number: int, reader: Reader) -> Batch:
    known = conversations.read_record(value, file, number, reader.rules)
    if known is not None:
        return _conversation(known)
    if not isinstance(value, dict):
        kind = "a JSON array" if isinstance(value, list) else "a bare JSON value"
        raise InputError(place, f"holds {kind}; {_WANTED}")
    try:
        if "resourceSpans" in value:
            return read_traces(json.traces_request(value), reader)
        if "resourceLogs" in value:
            return read_logs(json.logs_request(value), reader)
    except InputError as error:
        raise InputError(f"{place}: {error.place}", error.problem) from error
    if value and not any(signal in value for signal in _OTHER_SIGNALS):
        raise InputError(place, f"has neither resourceSpans nor resourceLogs; {_WANTED}")
    return Batch()


def _read_array(values: list[Any], place: str, file: str, reader: Reader) -> Iterator[Batch]:
    """Read an array of conversations."""
    for number, value in enumerate(values, start=1):
        known = conversations.read_record(value, file, number, reader.rules)
        if known is None:
            raise InputError(place, f"holds a JSON array; {_WANTED}")
        yield _conversation(known)


def _read_session(entries: list[Any], name: str, file: str, reader: Reader) -> Batch:
    if not all(isinstance(entry, dict) for entry in entries):
        raise InputError(name, "a session log with a line that is no JSON object")
    runs = conversations.read_session(entries, file)
    facts = [fact for run in runs for fact in conversations.recorded(run, reader.rules).facts]
    return Batch(facts=facts, conversations=len(runs))


def _conversation(known: conversations.Recorded) -> Batch:
    return Batch(
        facts=known.facts,
        observations=known.observations,
        conversations=1 if known.facts else 0,
        records=0 if known.facts else len(known.observations),
    )
