"""Feature flags and their evaluations, by OpenTelemetry's conventions.

An evaluation is a span event or a log record. A rule in ``arms`` names the flag ``KEY`` as
``feature_flag.KEY``, as if that were an attribute with the variant as its value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

PREFIX: Final = "feature_flag."
EVENTS: Final = frozenset({"feature_flag.evaluation", "feature_flag"})
"""Names of the event, new and old."""

_KEY: Final = "feature_flag.key"
_RESULTS: Final = (
    "feature_flag.result.variant",
    "feature_flag.variant",
    "feature_flag.result.value",
)
"""Newest spelling first; the value stands in for a variant that is not stated."""
_ERROR: Final = "error.type"
_ABOUT: Final = (
    *("feature_flag.context.id", "feature_flag.set.id", "feature_flag.version"),
    *("feature_flag.provider.name", "feature_flag.provider_name"),
)
"""What an evaluation was for and came from: may name the unit or the experiment."""
KEYS: Final = frozenset({_KEY, *_RESULTS, *_ABOUT, _ERROR})
"""Attribute keys of an evaluation that are looked at."""

_OF_CONVENTIONS: Final = (
    *("feature_flag.error.message", "feature_flag.evaluation.reason"),
    "feature_flag.result.reason",
)
_ATTRIBUTES: Final = KEYS.union(_OF_CONVENTIONS)


def flags_in(attributes: Iterable[str]) -> frozenset[str]:
    """Return those of the configured attributes that name a flag; the others are plain ones."""
    return frozenset(
        name for name in attributes if name.startswith(PREFIX) and name not in _ATTRIBUTES
    )


def variants_of(flag: str, evaluations: Iterable[Mapping[str, Any]]) -> list[Any]:
    """Return the distinct results of a flag, in order; an evaluation that failed has none.

    Args:
        flag: Its key after ``feature_flag.``.
        evaluations: The attributes of each evaluation.
    """
    found: list[Any] = []
    for said in evaluations:
        result = _result(said) if said.get(_KEY) == flag.removeprefix(PREFIX) else None
        if result is not None and result not in found:
            found.append(result)
    return found


def about(key: str, flags: Iterable[str], evaluations: Iterable[Mapping[str, Any]]) -> Any:
    """Return what the first evaluation of one of these flags says under a key, or None."""
    keys = {flag.removeprefix(PREFIX) for flag in flags}
    said = (each for each in evaluations if each.get(_KEY) in keys and _result(each) is not None)
    return next((each[key] for each in said if each.get(key) is not None), None)


def _result(said: Mapping[str, Any]) -> Any:
    """Return what an evaluation gave; one that failed gave a default, which says nothing."""
    if said.get(_ERROR) is not None:
        return None
    return next((said[key] for key in _RESULTS if said.get(key) is not None), None)
