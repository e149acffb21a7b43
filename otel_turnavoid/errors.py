"""The family tree of errors; one base class that a caller may catch.

TurnAvoidError
├── UsageError          the caller of our API used it wrongly
│   └── DigestError     an input has no identity: empty, or not expressible as JSON
├── ConfigurationError  a configuration file or key cannot be used
├── InputError          a file or request cannot be read
│   ├── TooLargeError   a request holds more than it may
│   └── TraceError      a trace/v1 file is refused; says at which line, row or input
└── LedgerError         the ledger cannot be opened, read or written
"""

from __future__ import annotations

import re
from typing import Any, Final

_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""What would break a line, move a terminal's cursor or not be text at all."""


def _on_one_line(text: str) -> str:
    return _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class TurnAvoidError(Exception):
    """Base of everything this package raises on purpose; its message is one line.

    A name or value that was given may stand in it: what is not printable there is escaped.
    """

    def __init__(self, *message: object) -> None:
        super().__init__(*(_on_one_line(m) if isinstance(m, str) else m for m in message))


class UsageError(TurnAvoidError, ValueError):
    """The caller used the API wrongly; says what was given and what is wanted."""


class DigestError(UsageError):
    """The input has no digest: it is empty or cannot be written as canonical JSON."""


class ConfigurationError(TurnAvoidError):
    """A configuration cannot be used; ``key`` is the dotted path as users spell it."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(f"{key}: {problem}" if key else problem)
        self.key = key
        self.problem = problem


class InputError(TurnAvoidError):
    """A file or request body cannot be read; ``place`` is a file, line or field."""

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(f"{place}: {problem}" if place else problem)
        self.place = place
        self.problem = problem


class TooLargeError(InputError):
    """A request holds more than it may, whether or not it could be read."""


class TraceError(InputError):
    """A trace/v1 file is refused.

    ``at`` names the fault as the conformance data does: ``{"line": n}`` where a line is not
    one row of JSON, ``{"row": n}`` where a row breaks a rule by itself (both from 1), the
    input's key where the arms of one input disagree, and nothing for an empty file.
    """

    def __init__(self, at: dict[str, Any], problem: str) -> None:
        super().__init__(", ".join(f"{key} {value}" for key, value in at.items()), problem)
        self.at = at


class LedgerError(TurnAvoidError):
    """The ledger cannot be opened, read or written."""
