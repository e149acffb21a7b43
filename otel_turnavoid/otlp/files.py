"""Recorded files -> batches of facts.

OTLP request bodies, lines of the collector's file exporter, and recorded conversations.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any, Final, NoReturn

from google.protobuf.message import DecodeError

from otel_turnavoid import conversations
from otel_turnavoid._proto.turnavoid.v1.otlp_view_pb2 import LogsView
from otel_turnavoid.dialects import Reader
from otel_turnavoid.errors import InputError
from otel_turnavoid.otlp import json
from otel_turnavoid.otlp.batch import Batch
from otel_turnavoid.otlp.logs import read_logs
from otel_turnavoid.otlp.opening import STANDARD_INPUT, Watch, opened
from otel_turnavoid.otlp.traces import read_traces
from otel_turnavoid.otlp.wire import BYTES, FIXED32, FIXED64, VARINT, fields

Broken = Callable[[InputError], object]
"""Takes what is wrong with a file or a record of it; what is not broken is read on."""

_SPACE: Final = b" \t\r\n"
_OTHER_SIGNALS: Final = ("resourceMetrics", "resourceProfiles")
_WANTED: Final = (
    "want OTLP traces or logs: a protobuf body, a JSON object, or one per line; or recorded"
    " conversations"
)
_WHOLE: Final = "a session log is read as a whole"

_SPAN_FIELDS: Final = {(1, BYTES), (2, BYTES), (6, VARINT), (7, FIXED64), (8, FIXED64)}
"""Field numbers and wire types that a span has and a log record has not."""
_LOG_FIELDS: Final = {(1, FIXED64), (2, VARINT), (6, BYTES), (8, FIXED32), (11, FIXED64)}
"""Field numbers and wire types that a log record has and a span has not."""


def _stop(error: InputError) -> NoReturn:
    raise error


def read_files(
    paths: Iterable[str | Path],
    reader: Reader,
    *,
    broken: Broken = _stop,
    watch: Watch | None = None,
) -> Iterator[Batch]:
    """Read recorded OTLP and conversations; ``-`` is standard input.

    Each file is one protobuf body or one JSON object (traces or logs, told by the content), or
    one JSON object per line, as the collector's file exporter writes it; any of these may be
    gzipped. Lines are read one at a time; lines of metrics and profiles are passed over.
    A conversation is a JSON object, or one per line, or one of an array; see the room
    ``conversations`` for what is known. A session log is read as a whole.

    Args:
        paths: The files, read in this order.
        reader: Reads spans and records.
        broken: Is given each file, line or item of an array that cannot be used, by place and
            reason, and the rest is read; left out, the first one is raised.
        watch: Is told of the bytes read, a part of a file at a time.

    Raises:
        InputError: A file cannot be read, or is of another kind; names the file, and the line.
    """
    for path in paths:
        name = "standard input" if str(path) == STANDARD_INPUT else str(path)
        try:
            with opened(path, watch) as stream:
                yield from _read_stream(stream, name, reader, broken)
        except (OSError, EOFError, zlib.error) as error:
            problem = getattr(error, "strerror", None) or str(error)
            broken(InputError(name, f"cannot be read: {problem}"))


def _read_stream(
    stream: BufferedReader, name: str, reader: Reader, broken: Broken
) -> Iterator[Batch]:
    # A serialized request starts with a newline, as tag of its first field.
    start = stream.peek(1)[:1]
    if not start or start == b"\n" or start not in _SPACE + b"{[":
        body = stream.read()
        if not start or not _looks_like_json(body):
            try:
                batch = _read_body(body, name, reader)
            except InputError as error:
                if not _goes_on_in_json(body):
                    broken(error)
                    return
            else:
                yield batch
                return
        lines: Iterator[bytes] = iter(body.splitlines(keepends=True))
    else:
        lines = iter(stream)
    yield from _read_json(lines, name, reader, broken)


def _looks_like_json(body: bytes) -> bool:
    if not body.lstrip(_SPACE).startswith((b"{", b"[")):
        return False
    try:
        LogsView.FromString(body)
    except DecodeError:
        return True
    return False


def _goes_on_in_json(body: bytes) -> bool:
    """Whether only the first line is broken: the next one is a JSON object by itself."""
    following = body.split(b"\n", 2)[1:2]
    return bool(following) and isinstance(_value(following[0], ""), dict)


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


def _read_json(
    lines: Iterator[bytes], name: str, reader: Reader, broken: Broken
) -> Iterator[Batch]:
    values = _decoded(lines, name)
    file = _stem(name)
    # A broken value keeps its number: the names of runs do not move when it is mended.
    for number, (place, value) in enumerate(values, start=1):
        if isinstance(value, InputError):
            broken(value)
            continue
        batches: list[Batch] = []
        try:
            if number == 1 and conversations.is_session(value):
                batches = [_read_session([(place, value), *values], file, reader)]
            elif isinstance(value, list) and not conversations.is_messages(value):
                batches = _read_array(value, place, file, reader, broken)
            else:
                batches = [_read_value(value, place, file, number, reader)]
        except InputError as error:
            broken(error)
        yield from batches


def _decoded(lines: Iterator[bytes], name: str) -> Iterator[tuple[str, Any]]:
    """Yield each JSON value and its place: one on each line, or one over all lines.

    What is not readable as JSON is an InputError in place of the value.
    """
    numbered: Iterator[tuple[int, bytes]] = (
        (number, line) for number, line in enumerate(lines, start=1) if line.strip(_SPACE)
    )
    for number, line in numbered:
        place = f"{name}, line {number}"
        value = _value(line, place)
        if isinstance(value, InputError):
            # If the first line is no value by itself, there may be one over all lines.
            rest = list(numbered)
            whole = _value(b"".join([line, *(each for _, each in rest)]), name)
            if not isinstance(whole, InputError) or not _is_line(line, rest):
                yield name, whole
                return
            numbered = iter(rest)
        yield place, value
        break
    for number, line in numbered:
        place = f"{name}, line {number}"
        yield place, _value(line, place)


def _value(body: bytes, place: str) -> Any:
    """Return a decoded value, or what is wrong with it."""
    try:
        return json.decode(body)
    except InputError as error:
        return InputError(place, error.problem)


def _is_line(line: bytes, rest: list[tuple[int, bytes]]) -> bool:
    """Tell a broken record on a line of its own from the first line of a broken whole."""
    if not rest or line.rstrip(_SPACE).endswith(b"}"):
        return True
    return isinstance(_value(rest[0][1], ""), dict)


def _stem(name: str) -> str:
    """Return the name of a file without its endings: it names what is recorded there."""
    return Path(name).name.removesuffix(".gz").rsplit(".", 1)[0]


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


def _read_array(
    values: list[Any], place: str, file: str, reader: Reader, broken: Broken
) -> list[Batch]:
    """Read an array of conversations."""
    read = [
        conversations.read_record(value, file, number, reader.rules)
        for number, value in enumerate(values, start=1)
    ]
    if values and all(known is None for known in read):
        raise InputError(place, f"holds a JSON array; {_WANTED}")
    for number, known in enumerate(read, start=1):
        if known is None:
            broken(InputError(f"{place}, item {number}", "is no recorded conversation"))
    return [_conversation(known) for known in read if known is not None]


def _read_session(values: Iterable[tuple[str, Any]], file: str, reader: Reader) -> Batch:
    """Read a session log, as one record: with a hole in it, its turns cannot be counted."""
    entries = []
    for place, value in values:
        if isinstance(value, InputError):
            raise InputError(value.place, f"{value.problem}; {_WHOLE}")
        if not isinstance(value, dict):
            raise InputError(place, f"no JSON object; {_WHOLE}")
        entries.append(value)
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
