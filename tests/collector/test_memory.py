"""The memory guard: its configuration in a pipeline, and what it reads."""

from __future__ import annotations

import asyncio

import pytest

from otel_turnavoid.collector.config import parse
from otel_turnavoid.collector.memory import MemoryGuard, resident_bytes, total_bytes
from otel_turnavoid.errors import ConfigurationError

MIB = 1 << 20
SERVICE = """
processors: {turnavoid: , memory_limiter/mine: {limit_mib: 100}}
service:
  pipelines:
    traces: {receivers: [otlp], processors: [PROCESSORS]}
    metrics: {receivers: [METRICS], exporters: [prometheus]}
"""


def service(processors: str, metrics: str = "turnavoid") -> str:
    return SERVICE.replace("PROCESSORS", processors).replace("METRICS", metrics)


def test_a_limiter_that_a_pipeline_names_is_used() -> None:
    config = parse(service("memory_limiter/mine, turnavoid"), env={})

    assert config.memory is not None
    assert config.memory.limit_mib == 100
    assert config.memory_key == "processors.memory_limiter/mine"


def test_a_limiter_that_no_pipeline_names_is_not() -> None:
    assert parse(service("turnavoid"), env={}).memory is None


def test_without_a_service_a_limiter_that_is_defined_is_used() -> None:
    config = parse("processors: {turnavoid: , memory_limiter: {limit_mib: 7}}", env={})

    assert config.memory is not None
    assert config.memory.limit_mib == 7


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            service("memory_limiter/mine"),
            "service.pipelines.traces.processors: must name turnavoid",
        ),
        (
            service("turnavoid", metrics="memory_limiter/mine"),
            (
                "service.pipelines.metrics.receivers[0]: memory_limiter/mine is not defined; "
                "processors defines turnavoid"
            ),
        ),
        (
            "processors: {memory_limiter: {limit_mib: 7}, memory_limiter/2: {limit_mib: 7}}",
            "processors.memory_limiter/2: only one memory_limiter can be defined",
        ),
    ],
)
def test_a_limiter_judges_nothing(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse(text, env={})

    assert str(caught.value) == said


def test_the_memory_in_use_is_some_megabytes_and_below_what_there_is() -> None:
    assert MIB < resident_bytes() < total_bytes()


def test_whether_memory_is_short_is_what_is_so_now_and_not_at_the_last_look() -> None:
    used = [1]
    guard = MemoryGuard(2, 4, lambda: None, lambda: used[0])
    guard.look()

    said = []
    for used[0] in (3, 1):
        said.append((guard.short(), guard.pressed))

    assert said == [(True, True), (False, False)]


def test_asking_whether_memory_is_short_gives_nothing_up() -> None:
    relieved: list[int] = []
    guard = MemoryGuard(2, 4, lambda: relieved.append(1), lambda: 9)

    assert guard.short()
    assert relieved == []


def test_it_looks_until_it_is_closed() -> None:
    async def looks() -> int:
        seen: list[int] = []

        def used() -> int:
            seen.append(1)
            if len(seen) == 3:
                guard.close()
            return 0

        guard = MemoryGuard(1, 2, lambda: None, used)
        await asyncio.wait_for(guard.run(0.001), timeout=60)
        return len(seen)

    assert asyncio.run(looks()) == 3
