"""Which process a resource names."""

from __future__ import annotations

from typing import Any

import pytest

from otel_turnavoid.dialects import process
from otel_turnavoid.judge.facts import Process

EVERYTHING = {
    "process.pid": 4711,
    "host.id": "fdbf79e8af94cb7f9e8df36789187052",
    "host.name": "web-1",
    "container.id": "a3bf90e006b2",
    "k8s.pod.uid": "275ecb36-5aa8-4c2a-9c47-d8bb681b9aff",
    "process.creation.time": "2026-05-28T20:26:40Z",
}


def test_a_process_is_what_the_conventions_say_of_it() -> None:
    assert process.read(EVERYTHING) == Process(
        pid=4711,
        host_id="fdbf79e8af94cb7f9e8df36789187052",
        host_name="web-1",
        container_id="a3bf90e006b2",
        pod_uid="275ecb36-5aa8-4c2a-9c47-d8bb681b9aff",
        created="2026-05-28T20:26:40Z",
    )


@pytest.mark.parametrize("pid", [None, "4711", 4711.0, True])
def test_without_a_number_there_is_none(pid: Any) -> None:
    assert process.read({**EVERYTHING, "process.pid": pid}) is None


@pytest.mark.parametrize("name", [None, "", 7, ["web-1"]])
def test_what_is_no_text_says_nothing(name: Any) -> None:
    assert process.read({"process.pid": 1, "host.name": name}) == Process(1)
