"""Stating what was seen of one run in the outside world (design section 3, Effects).

**Independence.** An observation counts only where it does not come from those who did the work:
run the observer in a process of its own, with its own ``service.name`` and
``service.instance.id`` (its own credential where the processor asks for one), and let it look
at the world itself, a database, a file, a mailbox, not at what the agent says. The processor
compares the identities and gives no credit where they are the same.
"""

from __future__ import annotations

import os
from collections import Counter
from time import time_ns
from typing import TYPE_CHECKING, Any, Final

from otel_turnavoid.errors import UsageError
from otel_turnavoid.vocabulary import EVENT_EFFECTS_OBSERVED, SCOPE, Attr

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from opentelemetry._logs import LoggerProvider
    from opentelemetry.trace import TracerProvider

_SHOWN: Final = 80
_SPAN_LIMIT: Final = "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT"
_RECORD_LIMIT: Final = "OTEL_LOGRECORD_ATTRIBUTE_VALUE_LENGTH_LIMIT"
_ANY_LIMIT: Final = "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT"


class Observer:
    """One who looks at the outside world; the same id for both runs of a pair.

    Args:
        observer_id: Names who looked and by which rules, such as ``orders-db/v1``.
        logger_provider: Where events go; default the global one.
        tracer_provider: Send spans through this one instead, where only traces are carried.

    Raises:
        UsageError: The id is empty or has space around it, or both providers are given.
    """

    def __init__(
        self,
        observer_id: str,
        *,
        logger_provider: LoggerProvider | None = None,
        tracer_provider: TracerProvider | None = None,
    ) -> None:
        self.observer_id = _name("an observer id", observer_id)
        if logger_provider is not None and tracer_provider is not None:
            raise UsageError("an observer sends events or spans: give one provider, not both")
        self._logger_provider = logger_provider
        self._tracer_provider = tracer_provider

    def observe(
        self,
        run_id: str,
        labels: Iterable[str] | Mapping[str, int],
        *,
        ordered: bool = False,
        timestamp_ns: int | None = None,
    ) -> None:
        """State every required effect that the outside world shows of one run, once per run.

        Args:
            run_id: The run's ``turnavoid.run.id``.
            labels: A label for each effect, such as ``order:42=cancelled``: as often as it
                happened, in any order, or a mapping of labels to how often. None at all is an
                observation too: that nothing happened.
            ordered: The effects happened in the order of the labels, a list, and must have done
                so in both runs.
            timestamp_ns: When it was seen, nanoseconds since the epoch; default now.

        Raises:
            UsageError: A label or the run id is empty, no text, or has space around it; or a
                count is not a whole number from 0, or counts are said to be ordered; or a
                limit on attribute values in the environment would cut one of them short.
        """
        attributes: dict[str, str | bool | list[str]] = {
            Attr.RUN_ID: _name("a run id", run_id),
            Attr.OBSERVER_ID: self.observer_id,
            Attr.EFFECTS_LABELS: _labels(labels, ordered=ordered),
        }
        if ordered:
            attributes[Attr.EFFECTS_ORDERED] = True
        _refuse_cutting(attributes, _RECORD_LIMIT if self._tracer_provider is None else _SPAN_LIMIT)
        if self._tracer_provider is None:
            self._emit(attributes, timestamp_ns)
        else:
            self._trace(self._tracer_provider, attributes, timestamp_ns)

    def _emit(
        self, attributes: Mapping[str, str | bool | list[str]], timestamp_ns: int | None
    ) -> None:
        from opentelemetry._logs import SeverityNumber, get_logger  # noqa: PLC0415 - on use

        from otel_turnavoid import __version__  # noqa: PLC0415 - read from metadata once

        seen_ns = time_ns() if timestamp_ns is None else timestamp_ns
        get_logger(SCOPE, __version__, self._logger_provider).emit(
            timestamp=seen_ns,
            observed_timestamp=seen_ns,
            severity_number=SeverityNumber.INFO,
            attributes=attributes,
            event_name=EVENT_EFFECTS_OBSERVED,
        )

    @staticmethod
    def _trace(
        provider: TracerProvider,
        attributes: Mapping[str, str | bool | list[str]],
        timestamp_ns: int | None,
    ) -> None:
        from opentelemetry.context import Context  # noqa: PLC0415 - on use

        from otel_turnavoid import __version__  # noqa: PLC0415 - read from metadata once

        provider.get_tracer(SCOPE, __version__).start_span(
            EVENT_EFFECTS_OBSERVED, Context(), attributes=attributes, start_time=timestamp_ns
        ).end(timestamp_ns)


def observe_effects(
    run_id: str, labels: Iterable[str] | Mapping[str, int], *, observer_id: str
) -> None:
    """State what ``observer_id`` saw of a run, through the global logger provider.

    Arguments and errors are those of ``Observer`` and ``Observer.observe``.
    """
    Observer(observer_id).observe(run_id, labels)


def _labels(labels: Iterable[str] | Mapping[str, int], *, ordered: bool) -> list[str]:
    if isinstance(labels, str):
        raise UsageError(f"labels are a list of labels, got the text {_shown(labels)}")
    counted: Iterable[tuple[str, int]]
    if hasattr(labels, "items"):
        if ordered:
            raise UsageError("ordered effects are a list: how often each happened has no order")
        counted = labels.items()
    else:
        counted = [(label, 1) for label in labels] if ordered else Counter(labels).items()
    stated = []
    for label, times in counted:
        if not isinstance(times, int) or isinstance(times, bool) or times < 0:
            raise UsageError(f"how often {label!r} happened is a whole number, got {times!r}")
        stated += [_name("an effect label", label)] * times
    return stated


def _refuse_cutting(attributes: Mapping[str, Any], particular: str) -> None:
    """Raise where the SDK would cut a text: without a word, and two labels may become one."""
    variable = particular if os.environ.get(particular) else _ANY_LIMIT
    limit = os.environ.get(variable, "").strip()
    if not limit.isdecimal():
        return
    values = attributes.values()
    texts = [text for value in values for text in (value if isinstance(value, list) else [value])]
    for text in texts:
        if isinstance(text, str) and len(text) > int(limit):
            raise UsageError(f"{variable}={limit} would cut {_shown(text)} short: unset it here")


def _name(what: str, value: str) -> str:
    if not isinstance(value, str) or not value or value != value.strip():
        raise UsageError(
            f"{what} is text that is not empty and has no space around it, got {_shown(value)}"
        )
    return value


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"
