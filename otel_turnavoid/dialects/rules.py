"""What the operator's configuration says about spans that do not say it themselves."""

from __future__ import annotations

from typing import Any

import msgspec

from otel_turnavoid.dialects.attributes import Attributes, shown
from otel_turnavoid.digest import canonical
from otel_turnavoid.errors import DigestError
from otel_turnavoid.judge.settings import ArmRule, Settings
from otel_turnavoid.vocabulary import Purpose, Rejection


class Rules:
    """The keys ``arms``, ``digest``, ``runs`` and ``purposes`` of the configuration.

    Their attributes may stand on the span or on its resource; the span's own win.
    """

    def __init__(self, settings: Settings) -> None:
        self._arms = tuple(settings.arms.items())
        self._digest = settings.digest
        self._purposes = settings.purposes
        self._runs = settings.runs
        self.keys = frozenset(
            (
                *settings.arms,
                *settings.digest,
                *settings.runs.values(),
                *(rule.attribute for rule in settings.purposes),
            )
        )
        """Attribute keys that the rules look at."""

    def arm(self, attributes: Attributes) -> ArmRule | None:
        """Return the rule for the first configured attribute whose value is listed."""
        for key, values in self._arms:
            rule = values.get(_text(attributes.value(key, run_wide=True)) or "")
            if rule is not None:
                return rule
        return None

    def run_id(self, scope: str, attributes: Attributes) -> str | None:
        """Return the run id by the attribute configured for the instrumentation scope."""
        key = self._runs.get(scope)
        return None if key is None else _text(attributes.value(key, run_wide=True))

    def purpose(self, attributes: Attributes) -> Purpose | None:
        """Return the purpose of a call by the first rule that its attributes fulfil."""
        for rule in self._purposes:
            if _text(attributes.value(rule.attribute, run_wide=True)) == rule.equals:
                return rule.purpose
        return None

    def digest_parts(self, attributes: Attributes) -> dict[str, str]:
        """Return the values of the configured attributes as canonical JSON.

        Text that holds JSON stands for the value in it, so that spacing and the order of keys
        do not matter. Text that starts like JSON and is none was cut on its way, and no longer
        identifies anything: a fault.
        """
        parts: dict[str, str] = {}
        for key in self._digest:
            value = attributes.value(key, run_wide=True)
            if value is None:
                continue
            try:
                parts[key] = canonical(_parsed(value)).decode()
            except (DigestError, ValueError, RecursionError) as error:
                problem = f"cannot identify an input: {error}; got {shown(value)}"
                attributes.fault(key, problem, Rejection.DIGEST)
        return parts


def _text(value: Any) -> str | None:
    """Return an attribute value as a configuration file spells it."""
    if isinstance(value, str):
        return value or None
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, (int, float)) else None


def _parsed(value: Any) -> Any:
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            return msgspec.json.decode(value)
        except msgspec.DecodeError as error:
            raise ValueError(f"cut or broken JSON ({error})") from error
    return value
