"""JSON Lines to rows: what a line must be, and what a field must be by itself.

A file is refused at its first bad *line* (not one row of JSON), wherever that stands; only a
file whose lines are all rows is refused at its first bad *row*. So after a bad row the rest is
still read, but only for bad lines.
"""

from __future__ import annotations

import re
from functools import cache, partial
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal, get_args, get_origin

import msgspec

from otel_turnavoid.errors import TraceError
from otel_turnavoid.ledger import row as rows_of_v1
from otel_turnavoid.ledger.row import Row
from otel_turnavoid.ledger.rules import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_LINE: Final = 4 * 1024 * 1024
"""Bytes of the longest line that is read, its ending not counted."""

_BOM: Final = b"\xef\xbb\xbf"
_ENDING: Final = 2  # "\r\n"

_JSON_TYPES: Final[dict[Any, Any]] = {
    rows_of_v1.Int64: rows_of_v1.Int64,
    rows_of_v1.Count: rows_of_v1.Int64,
    rows_of_v1.Basis: rows_of_v1.Int64,
    rows_of_v1.Amount: float,
}


def _shape(annotation: Any) -> Any:
    """Return the JSON type that ``annotation`` stands on, without its rules about values."""
    if annotation in _JSON_TYPES:
        return _JSON_TYPES[annotation]
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return msgspec.defstruct(
            annotation.__name__,
            [
                (field.name, _shape(field.type), field.default)
                if field.default is not msgspec.NODEFAULT
                else (field.name, _shape(field.type))
                for field in msgspec.structs.fields(annotation)
            ],
            forbid_unknown_fields=True,
            kw_only=True,
        )
    arguments = get_args(annotation)
    if get_origin(annotation) is tuple:
        return tuple[_shape(arguments[0]), ...]  # type: ignore[misc]
    if type(None) in arguments:
        return _shape(arguments[0]) | None
    return str


_row_decoder: Final = msgspec.json.Decoder(Row)


@cache
def _shape_decoder() -> msgspec.json.Decoder[Any]:
    """Return a decoder for rows of the right shape; only a file with a fault needs it."""
    return msgspec.json.Decoder(_shape(Row))


def decode(stream: BinaryIO) -> Iterator[Row]:
    r"""Yield the rows of a trace/v1 file, reading it line by line.

    Only ``\n`` ends a line; a ``\r`` before it and a missing last ``\n`` are fine.

    Raises:
        TraceError: at the first bad line, else at the first row with a bad field.
    """
    return decode_lines(iter(partial(stream.readline, MAX_LINE + _ENDING + 1), b""))


def decode_lines(lines: Iterable[bytes]) -> Iterator[Row]:
    """Yield the rows of lines that were split already; see ``decode``."""
    to_row = _row_decoder.decode
    numbered = enumerate(lines, 1)
    for number, line in numbered:
        try:
            if len(line) > MAX_LINE:
                _check_length(number, line)
            row = to_row(line)
        except msgspec.DecodeError as error:
            fault = _fault(number, line, error)
            if "line" not in fault.at:
                _check_lines(numbered)
            raise fault from None
        yield row


def _check_lines(numbered: Iterable[tuple[int, bytes]]) -> None:
    """Raise TraceError at the first line that is not one row of JSON."""
    for number, line in numbered:
        _check_length(number, line)
        try:
            _shape_decoder().decode(line)
        except msgspec.DecodeError as error:
            raise _line_fault(number, line, error) from None


def _check_length(number: int, line: bytes) -> None:
    if len(line.removesuffix(b"\n").removesuffix(b"\r")) > MAX_LINE:
        raise TraceError({"line": number}, "is longer than 4 MiB; one row is wanted")


def _fault(number: int, line: bytes, error: msgspec.DecodeError) -> TraceError:
    """Say whether ``line`` is no row at all, or a row with a bad field."""
    try:
        _shape_decoder().decode(line)
    except msgspec.DecodeError as worse:
        return _line_fault(number, line, worse)
    return TraceError({"row": number}, _field_problem(line, str(error)))


def _line_fault(number: int, line: bytes, error: msgspec.DecodeError) -> TraceError:
    at = {"line": number}
    if line.startswith(_BOM):
        return TraceError(at, "begins with a byte-order mark; plain UTF-8 is wanted")
    if not line.strip():
        return TraceError(at, "is blank; one row of JSON is wanted on each line")
    if not isinstance(error, msgspec.ValidationError):
        return TraceError(at, f"is not one row of JSON: {_lower(str(error))}")
    message, path = _split(str(error))
    return TraceError(at, f"{path}: {_lower(message)}" if path else _lower(message))


_PLACE: Final = re.compile(r" - at `\$\.?(.*)`$")
_ITEM: Final = re.compile(r"\[[^\]]*\]$")
_WORDS: Final = {
    field.name: get_args(field.type)
    for field in msgspec.structs.fields(Row)
    if get_origin(field.type) is Literal
}


def _split(message: str) -> tuple[str, str]:
    """Return a decoder's message without the place at its end, and the place."""
    place = _PLACE.search(message)
    return (message[: place.start()], place[1]) if place else (message, "")


def _lower(message: str) -> str:
    """Let a message go on within a sentence; an abbreviation keeps its capitals."""
    return message if message[1:2].isupper() else message[:1].lower() + message[1:]


def _field_problem(line: bytes, message: str) -> str:
    """Say which field of a row of the right shape has which value, and what is wanted."""
    _, path = _split(message)
    field, *inner = _ITEM.sub("", path).split(".")
    value: Any = msgspec.json.decode(line)[field]
    for name in inner:
        value = value[name]
    if isinstance(value, list):
        return f"{path} is empty; labels that are not empty are wanted"
    if field in _WORDS:
        return f"{path} is {shown(value)}; {' or '.join(_WORDS[field])} is wanted"
    if isinstance(value, str):
        return f"{path} is empty; a text is wanted"
    least = -1 if field == "decision_basis_through_turn" else 0
    return f"{path} is {value}; {least} or more is wanted"
