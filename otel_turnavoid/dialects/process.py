"""Which process of an operating system a resource names (semantic conventions, "Process")."""

from __future__ import annotations

from typing import Any, Final

from otel_turnavoid.judge.facts import Process

_PID: Final = "process.pid"
_TEXTS: Final = {
    "host_id": "host.id",
    "host_name": "host.name",
    "container_id": "container.id",
    "pod_uid": "k8s.pod.uid",
    "created": "process.creation.time",
}
KEYS: Final = frozenset({_PID, *_TEXTS.values()})
"""Attribute keys that say which process it is."""


def read(resource: dict[str, Any]) -> Process | None:
    """Return the process, or None where its number is not stated."""
    pid = resource.get(_PID)
    if type(pid) is not int:
        return None
    stated = {field: resource.get(key) for field, key in _TEXTS.items()}
    return Process(
        pid, **{field: text for field, text in stated.items() if text and isinstance(text, str)}
    )
