"""JSON of the right shape, with something in it that does not belong there."""

from __future__ import annotations

import json
from typing import Any, Final

from fuzz.choices import Choices

_ODD: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, -1, 1, 2**53, 2**63 - 1, 2**63, 2**64, -(2**63) - 1, 10**30, 10**400),
    *(0.5, -0.0, 1e15, 1e16, 1e308, 5e-324),
    *("", " ", "\x00", "a\nb", "\u2028", "\U0001f600", "x" * 300, "NaN", "1e999", "-0", "007"),
    *("9999-12-31T23:59:59Z", "0001-01-01T00:00:00+23:59", "2026-02-31 25:61:61", "assistant"),
    *([], {}, [[]], [{}], {"": {}}, [None], ["a", "a"], {"key": None}),
)


def odd_json(body: bytes, choices: Choices) -> bytes:
    """Return JSON, or lines of it, with one to three values changed, moved, lost or repeated."""
    try:
        values = [json.loads(body)]
    except ValueError:
        values = [_loaded(line) for line in body.splitlines()]
    for _ in range(1 + choices.number(3)):
        _change(values, choices)
    return b"\n".join(json.dumps(value).encode() for value in values)


def _loaded(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


def _change(values: list[Any], choices: Choices) -> None:
    holder, key = _place(values, choices)
    if key is None:
        return
    how = choices.number(4)
    if how == 0:
        holder[key] = choices.one(_ODD)
    elif how == 1:
        other, there = _place(values, choices)
        # A copy: a value within itself is no JSON.
        holder[key] = json.loads(json.dumps(other[there])) if there is not None else None
    elif how == 2:  # noqa: PLR2004
        del holder[key]
    elif isinstance(holder, list):
        holder.insert(key, json.loads(json.dumps(holder[key])))
    else:
        holder[choices.one(("", "x", f"{key}s", str(key).upper()))] = holder[key]


def _place(values: list[Any], choices: Choices) -> tuple[Any, Any]:
    """Return a list or object within the values, and one of its places; None has no place."""
    holder: Any = values
    while True:
        keys = list(range(len(holder)) if isinstance(holder, list) else holder)
        if not keys:
            return holder, None
        key = choices.one(keys)
        inner = holder[key]
        if not isinstance(inner, (list, dict)) or not inner or choices.number(4) == 0:
            return holder, key
        holder = inner
