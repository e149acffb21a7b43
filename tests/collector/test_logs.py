"""The process's own log: stable keys, no content, no floods."""

from __future__ import annotations

import json
import logging

import pytest

from otel_turnavoid.collector import logs
from otel_turnavoid.collector.components import LogEncoding, LogLevel, Logs, LogSampling
from otel_turnavoid.collector.config import parse
from otel_turnavoid.collector.duration import Duration
from otel_turnavoid.collector.logs import ConsoleLines, JsonLines, Sampling, said_by
from otel_turnavoid.errors import ConfigurationError

AT = 1_790_000_000.25
TICK = Duration(10_000_000_000)


def record(message="the ledger takes %s", *args, level=logging.INFO, **extra):
    made = logging.LogRecord("otel_turnavoid.x", level, "x.py", 1, message, args, None)
    made.created = AT
    vars(made).update(extra)
    return made


def failed():
    """A record of a bug whose words quote what was sent."""
    secret = "secret of a user"

    def cause():
        raise KeyError(secret)

    def effect():
        try:
            cause()
        except KeyError as error:
            raise ValueError(secret) from error

    try:
        effect()
    except ValueError as error:
        made = record("a bug", level=logging.ERROR)
        made.exc_info = (type(error), error, error.__traceback__)
        return made


def test_a_json_line_has_stable_keys():
    assert json.loads(JsonLines().format(record("%d shares", 3, level=logging.WARNING))) == {
        "ts": "2026-09-21T14:13:20.250Z",
        "level": "warn",
        "logger": "otel_turnavoid.x",
        "msg": "3 shares",
    }


@pytest.mark.parametrize(
    ("level", "spelled"),
    [
        (logging.DEBUG, "debug"),
        (logging.INFO, "info"),
        (logging.WARNING, "warn"),
        (logging.ERROR, "error"),
        (logging.CRITICAL, "error"),
    ],
)
def test_levels_are_spelled_as_in_the_configuration(level, spelled):
    assert json.loads(JsonLines().format(record(level=level)))["level"] == spelled


def test_what_a_line_speaks_of_has_keys_of_its_own():
    line = JsonLines().format(record("x", **said_by("pair decided", {"avoided": 2, "causes": []})))

    assert json.loads(line) == {
        "ts": "2026-09-21T14:13:20.250Z",
        "level": "info",
        "logger": "otel_turnavoid.x",
        "msg": "pair decided",
        "avoided": 2,
        "causes": [],
    }


def test_a_json_line_is_one_line_whatever_is_said():
    line = JsonLines().format(record("%s", 'a\n{"level": "error"}\u2028'))

    assert "\n" not in line
    assert json.loads(line)["msg"] == 'a\n{"level": "error"}\u2028'


@pytest.mark.parametrize("formatter", [JsonLines(), ConsoleLines()])
def test_a_bug_shows_where_it_is_and_not_what_it_says(formatter):
    line = formatter.format(failed())

    assert "of a user" not in line
    assert line.index("KeyError") < line.rindex("ValueError")
    assert "test_logs.py" in line


def sampled(limits, *messages, at=(0.0,)):
    """Return which of the messages pass, with the number dropped before each."""
    times = iter([*at, *[at[-1]] * len(messages)])
    sampling = Sampling(limits, clock=lambda: next(times))
    passed = []
    for message in messages:
        made = record(message)
        if sampling.filter(made):
            passed.append((message, getattr(made, "dropped", 0)))
    return passed


def test_of_lines_that_say_the_same_the_first_ones_pass_then_one_of_many():
    limits = LogSampling(tick=TICK, initial=2, thereafter=3)

    assert sampled(limits, *["same"] * 8) == [("same", 0), ("same", 0), ("same", 2), ("same", 2)]


def test_other_lines_are_not_held_against_each_other():
    limits = LogSampling(tick=TICK, initial=1, thereafter=0)

    assert sampled(limits, "a", "b", "a", "b") == [("a", 0), ("b", 0)]


def test_the_next_tick_begins_anew_and_says_what_was_dropped():
    limits = LogSampling(tick=TICK, initial=1, thereafter=0)

    assert sampled(limits, "a", "a", "a", "a", at=(0, 1, 9, 10)) == [("a", 0), ("a", 2)]


def test_figures_make_no_other_line():
    sampling = Sampling(LogSampling(tick=TICK, initial=1, thereafter=0), clock=lambda: 0.0)

    assert [sampling.filter(record("%d MiB", figure)) for figure in (1, 2)] == [True, False]


def test_verdicts_are_never_repetitions():
    sampling = Sampling(LogSampling(tick=TICK, initial=0, thereafter=0), clock=lambda: 0.0)

    assert sampling.filter(record("%s", "x", **said_by("pair decided", {})))


def test_what_was_dropped_stands_in_the_line():
    assert json.loads(JsonLines().format(record(dropped=4)))["dropped"] == 4
    assert ConsoleLines().format(record("x", dropped=4)).endswith("x (4 more like this)")


def test_the_collectors_keys_are_read():
    text = """
service:
  pipelines: {traces: {receivers: [otlp], processors: [turnavoid]}}
  telemetry:
    logs:
      level: warn
      encoding: json
      output_paths: [stdout, turnavoid.log]
      sampling: {enabled: false, tick: 1s, initial: 5, thereafter: 7}
"""

    assert parse(text, env={}).logging == Logs(
        level=LogLevel.WARN,
        encoding=LogEncoding.JSON,
        output_paths=("stdout", "turnavoid.log"),
        sampling=LogSampling(enabled=False, tick=Duration(1_000_000_000), initial=5, thereafter=7),
    )


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    path = tmp_path / "no" / "turnavoid.log"

    with pytest.raises(ConfigurationError) as refused:
        logs.set_up(Logs(output_paths=(str(path),)))

    assert str(refused.value) == (
        f"service.telemetry.logs.output_paths[0]: {path} cannot be written: "
        "no such file or directory"
    )
