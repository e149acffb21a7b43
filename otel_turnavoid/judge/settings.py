"""What the operator decides about judging: the keys of ``processors.turnavoid``."""

from __future__ import annotations

import msgspec

from otel_turnavoid.vocabulary import (
    Arm,
    Attr,
    Evidence,
    GenAI,
    Lifecycle,
    Mechanism,
    Purpose,
    Reason,
    Word,
)

SECOND = 1_000_000_000
"""Nanoseconds."""


class RunLabel(Word):
    """A name of the run that every series can carry besides its own labels (``labels``)."""

    AGENT = GenAI.AGENT_NAME
    EXPERIMENT = Attr.EXPERIMENT_ID


class ArmRule(msgspec.Struct, frozen=True, kw_only=True):
    """What a value of a resource or span attribute says about the run that carries it."""

    arm: Arm
    variant: str | None = None
    experiment: str | None = None
    mechanism: Mechanism | None = None
    lifecycle: Lifecycle | None = None
    reason: Reason | None = None


class PurposeRule(msgspec.Struct, frozen=True, kw_only=True):
    """Calls whose attribute ``attribute`` equals ``equals`` have this purpose."""

    attribute: str
    equals: str
    purpose: Purpose


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How runs are read and judged; the defaults are those of an empty configuration.

    Durations are nanoseconds here; configuration files write them as ``10m`` or ``500ms``.
    """

    accept: frozenset[Evidence] = frozenset({Evidence.DECLARED})
    """Kinds of evidence that can earn credit."""
    any_model: bool = False
    """Judge pairs across different models (``models: any``)."""
    any_instrumentation: bool = False
    """Judge pairs across differing instrumentation (``instrumentation: any``)."""
    decision_wait_ns: int = 600 * SECOND
    """How long a pair waits for missing evidence, from the arrival of its later run's end."""
    settle_ns: int = SECOND // 2
    """How long a key stays quiet before a pair with all its evidence is decided."""
    run_expiry_ns: int = 24 * 3600 * SECOND
    """How long after its last fact a run without a pair gets its final outcome."""
    observation_skew_ns: int = 300 * SECOND
    """How far outside a run's time an observation still counts."""
    arms: dict[str, dict[str, ArmRule]] = {}
    """Attribute key, or ``feature_flag.KEY`` for a flag's variant -> value -> what it says."""
    digest: tuple[str, ...] = ()
    """Attributes whose values make the input digest of runs that carry none."""
    purposes: tuple[PurposeRule, ...] = ()
    prefix_chain: bool = False
    """Tell the loop from side calls by their input messages, where no one says the purpose."""
    runs: dict[str, str] = {}
    """Scope name -> attribute whose value is the run id."""
    experiments: tuple[str, ...] = ()
    """Attributes of which the first that is there names the experiment, where no span does."""
    units: tuple[str, ...] = ()
    """Attributes of which the first that is there names the unit, where no span does."""
    labels: tuple[RunLabel, ...] = ()
    """Names of runs that split every published series."""
    known_names: dict[str, tuple[str, ...]] = {}
    """Variants (``turnavoid.variant``) and values of ``labels`` whose series exist beforehand."""
