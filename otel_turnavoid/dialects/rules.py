"""What the operator's configuration says about spans that do not say it themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from otel_turnavoid.dialects import flags
from otel_turnavoid.dialects.attributes import Attributes, from_json, name_problem, shown
from otel_turnavoid.dialects.chain import INSTRUCTIONS, MESSAGES, chain_of
from otel_turnavoid.digest import canonical
from otel_turnavoid.errors import DigestError
from otel_turnavoid.judge.attribution import MADE_RUN_PREFIX
from otel_turnavoid.judge.facts import Configured, Fault
from otel_turnavoid.judge.settings import ArmRule, Settings
from otel_turnavoid.vocabulary import Arm, Purpose, Rejection

_NOTHING = Configured()


class Rules:
    """The keys ``arms``, ``digest``, ``runs`` and ``purposes`` of the configuration.

    Their attributes may stand on the span or on its resource; the span's own win.
    """

    def __init__(self, settings: Settings) -> None:
        self._arms = tuple(settings.arms.items())
        self.flags = flags.flags_in(settings.arms)
        """Feature flags among the attributes of ``arms``."""
        self.digest = settings.digest
        """Attributes that make the digest of runs that carry none."""
        self._purposes = settings.purposes
        self._prefix_chain = settings.prefix_chain
        self._runs = settings.runs
        self._experiments = settings.experiments
        self._units = settings.units
        self.keys = frozenset(
            (
                *settings.arms,
                *settings.digest,
                *settings.experiments,
                *settings.units,
                *settings.runs.values(),
                *(rule.attribute for rule in settings.purposes),
                *((MESSAGES, INSTRUCTIONS) if settings.prefix_chain else ()),
            )
        )
        """Attribute keys that the rules look at."""

    def configured(  # noqa: PLR0913 - a span, and what it says of itself
        self,
        scope: str,
        attributes: Attributes,
        evaluations: Sequence[Mapping[str, Any]] = (),
        *,
        arm: Arm | None,
        digest: bool,
        call: bool,
    ) -> Configured | None:
        """Return what the configuration says about a span, None where it says nothing.

        Args:
            scope: Name of the span's instrumentation scope.
            attributes: The span's attributes.
            evaluations: Attributes of the feature flag evaluations among its events.
            arm: The arm that the span names: a rule for another one does not apply.
            digest: Whether the span brings a digest of its own.
            call: Whether it is a model call, which can have a purpose.
        """
        if not self.keys:
            return None
        rule = self._arm(attributes, evaluations)
        said = {} if rule is None or arm not in (None, rule.arm) else msgspec.structs.asdict(rule)
        said["experiment"] = said.get("experiment") or self._name(
            self._experiments, attributes, evaluations
        )
        parts, faults = ({}, []) if digest else self._digest_parts(attributes)
        if arm is None:
            faults += self._mixed_flags(evaluations)
        run_id, problem = self._run_id(scope, attributes)
        if problem is not None:
            faults.append(problem)
        found = Configured(
            run_id=run_id,
            unit=self._name(self._units, attributes, evaluations),
            flags=self._given(evaluations) if arm is None else {},
            purpose=self._purpose(attributes) if call else None,
            chain=self._chain(attributes) if call and self._prefix_chain else None,
            digest_parts=parts,
            faults=tuple(faults),
            **said,
        )
        return found if found != _NOTHING else None

    def _arm(
        self, attributes: Attributes, evaluations: Sequence[Mapping[str, Any]]
    ) -> ArmRule | None:
        """Return the rule for the first configured attribute, or flag, whose value is listed."""
        for key, values in self._arms:
            value = attributes.value(key, run_wide=True)
            if value is None and key in self.flags:
                value = next(iter(flags.variants_of(key, evaluations)), None)
            rule = values.get(_text(value) or "")
            if rule is not None:
                return rule
        return None

    def evaluated(self, evaluations: Sequence[Mapping[str, Any]]) -> bool:
        """Whether a flag that names arms was evaluated, and gave something."""
        return any(flags.variants_of(flag, evaluations) for flag in self.flags)

    def _given(self, evaluations: Sequence[Mapping[str, Any]]) -> dict[str, str]:
        """Return what each flag that names arms gave first, also a variant without a rule."""
        given: dict[str, str] = {}
        for flag in sorted(self.flags) if evaluations else ():
            text = _text(next(iter(flags.variants_of(flag, evaluations)), None))
            if text is not None:
                given[flag] = text
        return given

    def _name(
        self,
        keys: Sequence[str],
        attributes: Attributes,
        evaluations: Sequence[Mapping[str, Any]],
    ) -> str | None:
        """Return the first of the configured attributes that is there, also on an evaluation."""
        for key in keys:
            value = attributes.value(key, run_wide=True)
            if value is None and evaluations:
                value = flags.about(key, self.flags, evaluations)
            text = _text(value)
            if text is not None:
                return text
        return None

    def _mixed_flags(self, evaluations: Sequence[Mapping[str, Any]]) -> Iterator[Fault]:
        """Yield a fault for each flag that gave several variants within one span."""
        for flag in sorted(self.flags) if evaluations else ():
            found = flags.variants_of(flag, evaluations)
            if len(found) > 1:
                problem = f"one span was given several variants: {', '.join(map(shown, found))}"
                yield Fault(Rejection.VOCABULARY, flag, problem)

    def _run_id(self, scope: str, attributes: Attributes) -> tuple[str | None, Fault | None]:
        """Return the run id by the attribute configured for the scope, or why it is none."""
        key = self._runs.get(scope)
        run_id = None if key is None else _text(attributes.value(key, run_wide=True))
        if key is None or run_id is None:
            return None, None
        problem = name_problem(run_id.strip(" "))
        if run_id.startswith(MADE_RUN_PREFIX):
            problem = f"{MADE_RUN_PREFIX} starts the ids of runs that are made from traces"
        if problem is None:
            return run_id, None
        return None, Fault(Rejection.VOCABULARY, key, f"names no run: {problem}")

    def _purpose(self, attributes: Attributes) -> Purpose | None:
        """Return the purpose of a call by the first rule that its attributes fulfil."""
        for rule in self._purposes:
            if _text(attributes.value(rule.attribute, run_wide=True)) == rule.equals:
                return rule.purpose
        return None

    def _chain(self, attributes: Attributes) -> tuple[str, ...]:
        """Return the chain of a call's input messages, empty where they are not there whole."""
        try:
            messages = _parsed(attributes.span.get(MESSAGES))
            return chain_of(messages, _parsed(attributes.span.get(INSTRUCTIONS)))
        except (DigestError, ValueError, RecursionError):
            return ()

    def _digest_parts(self, attributes: Attributes) -> tuple[dict[str, str], list[Fault]]:
        """Return the values of the configured attributes as canonical JSON.

        Text that holds JSON stands for the value in it, so that spacing and the order of keys
        do not matter. Text that starts like JSON and is none was cut on its way, and no longer
        identifies anything: a fault.
        """
        parts: dict[str, str] = {}
        faults: list[Fault] = []
        for key in self.digest:
            value = attributes.value(key, run_wide=True)
            if value is None:
                continue
            try:
                parts[key] = canonical(_parsed(value)).decode()
            except (DigestError, ValueError, RecursionError) as error:
                problem = f"cannot identify an input: {error}; got {shown(value)}"
                faults.append(Fault(Rejection.DIGEST, key, problem))
        return parts, faults


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
            return from_json(value)
        except ValueError as error:
            raise ValueError(f"cut or broken JSON ({error})") from error
    return value
