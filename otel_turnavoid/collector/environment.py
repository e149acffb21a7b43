"""``${env:NAME}`` in configuration values, as the OpenTelemetry Collector expands it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from otel_turnavoid.collector.problems import UNUSABLE, part
from otel_turnavoid.errors import ConfigurationError

_REFERENCE: Final = re.compile(r"\$\$|\$\{([^{}]*)\}")
_VARIABLE: Final = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)


class Expanded(str):
    """Text that came, wholly or in part, from the environment.

    Such text may also stand where a number or boolean is wanted, and is not shown in errors:
    it may be a secret.
    """

    __slots__ = ()


def expand(value: Any, env: Mapping[str, str], key: str = "") -> Any:
    """Return ``value`` with every reference replaced, in nested mappings and lists too.

    ``${env:NAME}`` is the variable, ``${env:NAME:-text}`` has a default, ``$$`` is one ``$``.

    Raises:
        ConfigurationError: A variable without a default is not set, or a reference is none.
    """
    if isinstance(value, dict):
        expanded: Any = dict.fromkeys(value, UNUSABLE)
        for name, inner in value.items():
            with part():
                expanded[name] = expand(inner, env, f"{key}.{name}" if key else str(name))
        return expanded
    if isinstance(value, list):
        expanded = [UNUSABLE] * len(value)
        for index, inner in enumerate(value):
            with part():
                expanded[index] = expand(inner, env, f"{key}[{index}]")
        return expanded
    if not isinstance(value, str) or "$" not in value:
        return value
    text = _REFERENCE.sub(lambda found: _replaced(found, env, key), value)
    return Expanded(text) if "${" in value else text


def _replaced(found: re.Match[str], env: Mapping[str, str], key: str) -> str:
    if found[0] == "$$":
        return "$"
    variable = _VARIABLE.fullmatch(found[1])
    if variable is None:
        raise ConfigurationError(key, f"{found[0]} is no reference; write ${{env:NAME}}")
    name, default = variable.groups()
    text = env.get(name, default)
    if text is None:
        raise ConfigurationError(
            key,
            f"the environment variable {name} is not set; "
            f"set it or give a default, ${{env:{name}:-default}}",
        )
    return text
