"""Independent observations beside recorded runs: what state the outside world was left in."""

from __future__ import annotations

from typing import Any, Final

from otel_turnavoid.conversations import record as recorded
from otel_turnavoid.conversations.facts import seen
from otel_turnavoid.judge.facts import Observation

OBSERVER: Final = "recorded state"
_PREFIX: Final = "effects-"
_KEYS: Final = ("goal_hash", "observed_hash", "db_match")


def is_effects(record: dict[str, Any]) -> bool:
    """Tell whether a record says what a run left behind, and nothing of the run itself."""
    runs = "messages" in record or "events" in record
    return not runs and "task_id" in record and all(key in record for key in _KEYS)


def read_effects(record: dict[str, Any], file: str, number: int) -> Observation:
    """Read a line of an effects file, ``effects-NAME`` for the runs in ``NAME``.

    The task is done where the state is the wanted one, what had to be said was said, and the
    run was not cut off.
    """
    initial = record.get("initial_hash")
    done = all(record.get(key, True) is True for key in ("db_match", "outputs_ok", "finished"))
    runs = file.removeprefix(_PREFIX)
    return seen(
        recorded.run_id(record, runs, number),
        OBSERVER,
        done=done,
        asked=None if initial is None else record["goal_hash"] != initial,
        task=recorded.unit(record),
        observed_ns=0,
    )
