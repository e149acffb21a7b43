"""The process's own log: lines for people or JSON for machines, without content.

Keys of a JSON line: ``ts`` (RFC 3339, UTC), ``level`` (``debug``, ``info``, ``warn``, ``error``),
``logger`` and ``msg``; what a line speaks of has keys of its own (``said_by``). ``dropped`` counts
lines like it that were not written, ``stacktrace`` shows where a bug is. What an unexpected error
says in words may quote what was sent: its kind and place are logged, its words are not.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from logging.handlers import WatchedFileHandler
from typing import Any, Final

import msgspec

from otel_turnavoid.collector.components import LogEncoding, LogLevel, Logs, LogSampling
from otel_turnavoid.errors import ConfigurationError
from otel_turnavoid.vocabulary import SCOPE

KEY: Final = "service.telemetry.logs"

_LEVELS: Final = {
    LogLevel.DEBUG: logging.DEBUG,
    LogLevel.INFO: logging.INFO,
    LogLevel.WARN: logging.WARNING,
    LogLevel.ERROR: logging.ERROR,
}
_FIELDS: Final = "turnavoid_fields"
_STREAMS: Final = {"stderr": lambda: sys.stderr, "stdout": lambda: sys.stdout}


def said_by(event: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``extra`` for a line that is about one thing: it is never taken for a repetition.

    Args:
        event: What happened, always in the same words: ``msg`` of the JSON line.
        fields: More keys of the JSON line.
    """
    return {_FIELDS: (event, dict(fields))}


def set_up(logs: Logs) -> None:
    """Let the process log as configured; other libraries' lines from warnings on.

    Raises:
        ConfigurationError: A file cannot be written.
    """
    root = logging.getLogger()
    for index, path in enumerate(logs.output_paths):
        handler = _handler(path, f"{KEY}.output_paths[{index}]")
        json = logs.encoding is LogEncoding.JSON
        handler.setFormatter(JsonLines() if json else ConsoleLines())
        if logs.sampling.enabled:
            handler.addFilter(Sampling(logs.sampling))
        root.addHandler(handler)
    logging.getLogger(SCOPE).setLevel(_LEVELS[logs.level])


class ConsoleLines(logging.Formatter):
    """Time, level, logger and message, as people read them."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's spelling
        """Return the line, with what was dropped before it."""
        dropped = getattr(record, "dropped", 0)
        line = super().formatMessage(record)
        return f"{line} ({dropped} more like this)" if dropped else line

    def formatException(self, ei: Any) -> str:  # noqa: N802 - logging's spelling
        """Return where an error was raised, without its words."""
        return _where(ei[1])


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without its end."""
        event, fields = getattr(record, _FIELDS, (record.getMessage(), {}))
        at = datetime.fromtimestamp(record.created, timezone.utc)
        line = {
            "ts": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": _level(record.levelno),
            "logger": record.name,
            "msg": event,
            **fields,
        }
        if dropped := getattr(record, "dropped", 0):
            line["dropped"] = dropped
        if record.exc_info and record.exc_info[1] is not None:
            line["stacktrace"] = _where(record.exc_info[1])
        encoded: bytes = msgspec.json.encode(line)
        return encoded.decode()


class Sampling(logging.Filter):
    """Lets pass, of lines that say the same within a tick, the first ones, then one of many."""

    def __init__(self, limits: LogSampling, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._limits = limits
        self._clock = clock
        self._lock = threading.Lock()
        self._tick = -1
        self._seen: dict[tuple[str, int, str], int] = {}
        self._dropped: dict[tuple[str, int, str], int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line is written, and note on it what was not."""
        if hasattr(record, _FIELDS):
            return True
        same = (record.name, record.levelno, str(record.msg))
        with self._lock:
            tick = int(self._clock() / max(self._limits.tick.seconds, 1e-3))
            if tick != self._tick:
                self._tick, self._seen = tick, {}
            seen = self._seen[same] = self._seen.get(same, 0) + 1
            beyond = seen - self._limits.initial
            written = beyond <= 0 or (
                self._limits.thereafter > 0 and beyond % self._limits.thereafter == 0
            )
            if not written:
                self._dropped[same] = self._dropped.get(same, 0) + 1
                return False
            dropped = self._dropped.pop(same, 0)
        if dropped:
            record.dropped = dropped
        return True


def _handler(path: str, key: str) -> logging.Handler:
    if path in _STREAMS:
        return logging.StreamHandler(_STREAMS[path]())
    try:
        return WatchedFileHandler(path, encoding="utf-8")
    except OSError as error:
        problem = f"{path} cannot be written: {(error.strerror or str(error)).lower()}"
        raise ConfigurationError(key, problem) from None


def _level(number: int) -> str:
    if number >= logging.ERROR:
        return str(LogLevel.ERROR)
    if number >= logging.WARNING:
        return str(LogLevel.WARN)
    return str(LogLevel.INFO if number >= logging.INFO else LogLevel.DEBUG)


def _where(error: BaseException | None) -> str:
    """Return the kinds and places of an error and of what it came from, the first one first."""
    told: list[str] = []
    while error is not None:
        places = "".join(traceback.format_tb(error.__traceback__))
        told.append(f"{places}{type(error).__qualname__}")
        cause = error.__cause__
        error = cause or (None if error.__suppress_context__ else error.__context__)
    return "\n".join(reversed(told))
