"""``processors.turnavoid``: how users write what ``judge.settings.Settings`` holds."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from otel_turnavoid.collector.duration import Duration
from otel_turnavoid.collector.section import Section, refuse_unknown
from otel_turnavoid.errors import ConfigurationError
from otel_turnavoid.judge.settings import ArmRule, PurposeRule, RunLabel, Settings
from otel_turnavoid.vocabulary import (
    Arm,
    Attr,
    Evidence,
    Lifecycle,
    Mechanism,
    Purpose,
    Reason,
    Word,
)

_DEFAULTS = Settings()
_FLAG = "feature_flag."


class Sameness(Word):
    """Whether two runs of a pair must agree in something."""

    SAME = "same"
    ANY = "any"


class ArmSection(Section, frozen=True):
    """One value of an attribute in ``arms``, written in full; ``value: arm`` is short for it."""

    shorthand: ClassVar[str | None] = "arm"

    arm: Arm
    """Which side of the comparison the run stands on."""
    variant: str | None = None
    """A free name for one of several candidates in one arm."""
    experiment: str | None = None
    """The experiment."""
    mechanism: Mechanism | None = None
    """What was changed."""
    lifecycle: Lifecycle | None = None
    """How far the change got; only ``realized`` earns."""
    reason: Reason | None = None
    """Why the candidate differs."""


class PurposeSection(Section, frozen=True):
    """One of ``purposes``."""

    attribute: str
    """Key of a call's attribute."""
    equals: str
    """Value that it has."""
    purpose: Purpose
    """What such calls are for."""


class JudgingSection(Section, frozen=True):
    """``processors.turnavoid``."""

    accept: frozenset[Evidence] = _DEFAULTS.accept
    """Kinds of evidence that can earn credit; others are withheld."""
    models: Sameness = Sameness.SAME
    """``any`` compares runs of different models too, in series of their own."""
    instrumentation: Sameness = Sameness.SAME
    """``any`` compares runs that were instrumented differently, too, in series of their own."""
    decision_wait: Duration = Duration(_DEFAULTS.decision_wait_ns)
    """How long a pair waits for missing evidence."""
    settle: Duration = Duration(_DEFAULTS.settle_ns)
    """How long nothing may arrive before a pair with all its evidence is decided."""
    run_expiry: Duration = Duration(_DEFAULTS.run_expiry_ns)
    """How long after its last span a run without a partner gets its final outcome."""
    observation_skew: Duration = Duration(_DEFAULTS.observation_skew_ns)
    """How far outside a run's time an observation still counts."""
    arms: dict[str, dict[str, ArmSection]] = msgspec.field(default_factory=dict)
    """Attribute, or ``feature_flag.KEY``, -> value -> what the run is."""
    digest: tuple[str, ...] = ()
    """Attributes whose values make the input digest of runs that carry none."""
    purposes: tuple[PurposeSection, ...] = ()
    """Rules for calls that do not say what they are for."""
    prefix_chain: bool = _DEFAULTS.prefix_chain
    """Tell side calls from the loop by their recorded input messages."""
    runs: dict[str, str] = msgspec.field(default_factory=dict)
    """Scope name -> attribute whose value is the run id."""
    experiments: tuple[str, ...] = ()
    """Attributes of which the first that is there names the experiment."""
    units: tuple[str, ...] = ()
    """Attributes of which the first that is there names the unit."""
    labels: tuple[RunLabel, ...] = ()
    """Names of runs that split every metric's series too."""
    known_names: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """Variants and values of ``labels`` whose series exist at 0 from the start."""

    def settings(self) -> Settings:
        """Return the same as the judge reads it.

        Raises:
            ConfigurationError: A rule of ``arms`` names no flag, or ``known_names`` no label.
        """
        if _FLAG in self.arms:
            key = f"processors.turnavoid.arms.{_FLAG}"
            raise ConfigurationError(key, f"names no feature flag; write {_FLAG}KEY")
        return Settings(
            accept=self.accept,
            any_model=self.models is Sameness.ANY,
            any_instrumentation=self.instrumentation is Sameness.ANY,
            decision_wait_ns=int(self.decision_wait),
            settle_ns=int(self.settle),
            run_expiry_ns=int(self.run_expiry),
            observation_skew_ns=int(self.observation_skew),
            arms={
                attribute: {
                    value: ArmRule(**msgspec.structs.asdict(rule)) for value, rule in rules.items()
                }
                for attribute, rules in self.arms.items()
            },
            digest=self.digest,
            purposes=tuple(PurposeRule(**msgspec.structs.asdict(rule)) for rule in self.purposes),
            prefix_chain=self.prefix_chain,
            runs=self.runs,
            experiments=self.experiments,
            units=self.units,
            labels=self.labels,
            known_names=self._known_names(),
        )

    def _known_names(self) -> dict[str, tuple[str, ...]]:
        free = (Attr.VARIANT, *self.labels)
        key = "processors.turnavoid.known_names"
        for name in self.known_names:
            if name in {*RunLabel} - {*self.labels}:
                raise ConfigurationError(f"{key}.{name}", "is no label; name it in labels too")
        refuse_unknown(self.known_names, dict.fromkeys(free), key)
        return self.known_names
