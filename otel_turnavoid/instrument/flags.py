"""Arms from feature flags: OpenFeature evaluation details, or ``feature_flag.*`` attributes.

Nothing of OpenFeature is imported: whatever has ``flag_key``, ``value`` and ``variant`` will do,
and so will a mapping with the attributes of the OpenTelemetry conventions for feature flags.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from otel_turnavoid.instrument.misuse import Misuse, misused

FLAG_KEY: Final = "feature_flag.key"
FLAG_VARIANT: Final = "feature_flag.result.variant"
FLAG_VALUE: Final = "feature_flag.result.value"
FLAG_REASON: Final = "feature_flag.result.reason"
_OLD_VARIANT: Final = "feature_flag.variant"

_FIELDS: Final = frozenset(
    {"arm", "variant", "experiment", "unit", "mechanism", "lifecycle", "reason"}
)

ArmMap = Mapping[str, "str | Mapping[str, str]"]
"""Flag variant (or value) -> arm, or a mapping of ``invoke``'s parameters."""


class Assignment(NamedTuple):
    """What a flag says about a run."""

    said: dict[str, str]
    """Parameters of ``invoke``: arm, variant, experiment…"""
    attributes: dict[str, Any]
    """``feature_flag.*``, for the Invoke's span."""


def assigned(flag: Any, arms: ArmMap | None) -> Assignment:
    """Return the assignment that an evaluated flag makes.

    The experiment is the flag's key unless the map says otherwise. An evaluation that failed
    assigns nothing: the run then has no arm and is not compared, which is right, because its
    flag's value is only a default.

    Args:
        flag: OpenFeature ``FlagEvaluationDetails``, or ``feature_flag.*`` attributes.
        arms: Which variant, or value where there is no variant, is which arm; by default the
            variants are named as the arms are.
    """
    attributes = _attributes(flag)
    key, variant = attributes.get(FLAG_KEY), attributes.get(FLAG_VARIANT)
    result = variant if variant is not None else attributes.get(FLAG_VALUE)
    if key is None or result is None:
        misused(Misuse.VALUE, f"a flag has a key and a variant or value, got {flag!r}")
        return Assignment({}, attributes)
    if "error.type" in attributes:
        return Assignment({}, attributes)
    name = str(result).lower() if isinstance(result, bool) else str(result)
    found: Any = name if arms is None else arms.get(name)
    if found is None:
        misused(Misuse.VALUE, f"arms has no word for {name!r} of flag {key!r}")
        return Assignment({}, attributes)
    said = {"arm": found} if isinstance(found, str) else dict(found)
    unknown = sorted(set(said) - _FIELDS)
    if unknown:
        misused(Misuse.VALUE, f"arms[{name!r}] knows {', '.join(sorted(_FIELDS))}, got {unknown}")
    said = {field: value for field, value in said.items() if field in _FIELDS}
    return Assignment({"experiment": str(key), **said}, attributes)


def _attributes(flag: Any) -> dict[str, Any]:
    if isinstance(flag, Mapping):
        said = {key: value for key, value in flag.items() if key.startswith("feature_flag.")}
        if FLAG_VARIANT not in said and _OLD_VARIANT in said:
            said[FLAG_VARIANT] = said.pop(_OLD_VARIANT)
        if "error.type" in flag:
            said["error.type"] = flag["error.type"]
        return said
    value, error = getattr(flag, "value", None), getattr(flag, "error_code", None)
    reason = getattr(flag, "reason", None)
    said = {
        FLAG_KEY: getattr(flag, "flag_key", None),
        FLAG_VARIANT: getattr(flag, "variant", None),
        FLAG_VALUE: value if isinstance(value, (str, bool, int, float)) else None,
        FLAG_REASON: None if reason is None else _word(reason).lower(),
        "error.type": None if error is None else _word(error).lower(),
    }
    return {key: value for key, value in said.items() if value is not None}


def _word(value: Any) -> str:
    """Return the text of a word or of an enumeration's member."""
    return str(getattr(value, "value", value))
