"""The ledger's pairs as ``fak.turnavoid.trace/v1`` rows, which replay to the same figures.

One input stands for one control run and one variant: its control row, and a row for each
candidate arm. What v1 cannot express is never turned into credit; it becomes ``unknown``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from math import inf
from typing import Final, NamedTuple

from msgspec.structs import replace

from otel_turnavoid.errors import UsageError
from otel_turnavoid.judge.run import Key, Run, Work
from otel_turnavoid.judge.verdict import PairDecided, encode
from otel_turnavoid.ledger import (
    NO_OVERHEAD,
    TRACE_SCHEMA,
    EffectObservation,
    Gross,
    Overhead,
    RetainedTurnReduction,
    Row,
)
from otel_turnavoid.vocabulary import (
    CANDIDATE_ARMS,
    TRACE_V1_MECHANISMS,
    Arm,
    Lifecycle,
    Mechanism,
    Reason,
    WithheldCause,
)

_LARGEST: Final = 2**63 - 1
"""The largest whole number of v1."""
DEFAULT_TRACE: Final = "default"
"""``trace_id`` of pairs without an experiment."""

UNOBSERVED: Final = "unobserved"
"""Observer of a pair whose effects were not compared."""

_CAUSES_OF_V1: Final = frozenset(
    {
        WithheldCause.LIFECYCLE_NOT_REALIZED,
        WithheldCause.EFFECTS_SUPPRESSED,
        WithheldCause.EFFECTS_ADDED,
    }
)
"""Causes that a v1 row shows by itself; every other makes its lifecycle ``unknown``."""


class _Base(NamedTuple):
    """What names an input before repetitions are told apart."""

    trace_id: str
    unit_id: str
    turn_index: int


class _Control(NamedTuple):
    """What the arms of one input must state alike."""

    digest: str
    turns: int
    gross: tuple[float, float, float, float]
    observer: str
    effects: tuple[str, ...]


class _Input(NamedTuple):
    """One control run with the candidates of one variant, at most one in each arm."""

    control: _Control
    pairs: dict[Arm, PairDecided]

    @property
    def basis(self) -> int:
        """The last turn that any of the runs' decisions knew; v1 has one for all arms."""
        runs = [run for pair in self.pairs.values() for run in (pair.control, pair.candidate)]
        return max(run.decision_basis for run in runs)


def trace_rows(decisions: Iterable[PairDecided]) -> list[Row]:
    """Return the pairs as rows that ``ledger.fold`` accepts, whatever their order.

    ``trace_id`` is the experiment or ``default``. ``unit_id`` is the unit or the digest; where
    it was paired more than once at the same turn, the second control by start gets ``/2``, the
    third ``/3`` and so on, and the variants of one control are appended. Rows are sorted by
    trace, unit, turn and arm.
    """
    named = _named(_inputs(decisions))
    return [row for base in sorted(named) for row in _rows(base, named[base])]


def beyond_v1(decisions: Iterable[PairDecided]) -> Counter[Mechanism]:
    """Return the mechanisms that the rows call ``unknown`` instead, with their pairs."""
    mechanisms = (pair.candidate.mechanism for pair in decisions)
    return Counter(one for one in mechanisms if _mechanism(one) is not one)


def _inputs(decisions: Iterable[PairDecided]) -> dict[_Base, dict[tuple[int, str], list[_Input]]]:
    """Return the inputs by what names them, then by control run in the order of start."""
    alike: dict[tuple[_Base, tuple[int, str], str, _Control], dict[Arm, list[PairDecided]]] = {}
    for pair in decisions:
        run = (pair.control.start_ns, pair.control.run_id)
        variant = (pair.candidate.variant or "").strip()
        by_arm = alike.setdefault((_base(pair), run, variant, _control(pair)), defaultdict(list))
        if pair.candidate.arm in CANDIDATE_ARMS:
            by_arm[pair.candidate.arm].append(pair)
    inputs: dict[_Base, dict[tuple[int, str], list[_Input]]] = {}
    for (base, run, _, control), by_arm in sorted(alike.items(), key=lambda item: item[0]):
        columns = [sorted(by_arm[arm], key=_order) for arm in CANDIDATE_ARMS]
        for pairs in zip_longest(*columns):
            found = {arm: pair for arm, pair in zip(CANDIDATE_ARMS, pairs, strict=True) if pair}
            inputs.setdefault(base, {}).setdefault(run, []).append(_Input(control, found))
    return inputs


def _named(inputs: dict[_Base, dict[tuple[int, str], list[_Input]]]) -> dict[_Base, _Input]:
    """Give every input a name of its own."""
    wishes: list[tuple[bool, _Base, _Input]] = []
    for base, controls in inputs.items():
        for number, same_control in enumerate(controls.values(), 1):
            for one in same_control:
                unit = base.unit_id if number == 1 else f"{base.unit_id}/{number}"
                variant = _variant(one) if len(same_control) > 1 else ""
                wish = base._replace(unit_id=f"{unit}/{variant}" if variant else unit)
                wishes.append((wish != base, wish, one))
    named: dict[_Base, _Input] = {}
    # A name as given goes before one that was made, so that a unit called "a/2" keeps its own.
    for _, wish, one in sorted(wishes, key=lambda wish: wish[:2]):
        name, number = wish, 1
        while name in named:
            number += 1
            name = wish._replace(unit_id=f"{wish.unit_id}/{number}")
        named[name] = one
    return named


def _key(pair: PairDecided) -> Key:
    if pair.control.key is None:
        raise UsageError(f"control run {pair.control.run_id} has no key; only runs with one pair")
    return pair.control.key


def _base(pair: PairDecided) -> _Base:
    key = _key(pair)
    return _Base(
        trace_id=key.experiment.strip() or DEFAULT_TRACE,
        unit_id=key.unit.strip() or key.digest,
        turn_index=key.turn_index,
    )


def _control(pair: PairDecided) -> _Control:
    return _Control(
        digest=_key(pair).digest,
        turns=pair.control.model_turns or 0,
        gross=_gross_of(pair.control.work),
        observer=(pair.observer or "").strip() or UNOBSERVED,
        effects=_labels(pair.control_effects) if pair.observer else (),
    )


def _order(pair: PairDecided) -> tuple[int, str, bytes]:
    return pair.candidate.start_ns, pair.candidate.run_id, encode(pair)


def _variant(one: _Input) -> str:
    pair = next(iter(one.pairs.values()))
    return (pair.candidate.variant or "").strip()


def _rows(base: _Base, one: _Input) -> Iterator[Row]:
    """Yield the rows of one input; an arm without a run is an unused opportunity."""
    control = one.control
    gross = _gross(control.gross)
    own = Row(
        schema_version=TRACE_SCHEMA,
        trace_id=base.trace_id,
        unit_id=base.unit_id,
        turn_index=base.turn_index,
        decision_basis_through_turn=max(min(one.basis, base.turn_index - 1), -1),
        input_digest=control.digest,
        arm="control",
        mechanism="control",
        lifecycle="realized",
        reason="baseline",
        control_committed_model_turns=control.turns,
        candidate_committed_model_turns=control.turns,
        required_effect_observation=EffectObservation(
            independent_observer=control.observer,
            control_required=control.effects,
            candidate_required=control.effects,
        ),
        control_gross=gross,
        candidate_gross=gross,
        overhead=NO_OVERHEAD,
    )
    yield own
    for arm in CANDIDATE_ARMS:
        pair = one.pairs.get(arm)
        yield _unused(own, arm) if pair is None else _candidate(own, arm, pair)


def _unused(own: Row, arm: Arm) -> Row:
    return replace(
        own,
        arm=arm.value,
        mechanism=arm.value,
        lifecycle=Lifecycle.OPPORTUNITY.value,
        reason=Reason.NOT_APPLICABLE.value,
    )


def _candidate(own: Row, arm: Arm, pair: PairDecided) -> Row:
    run = pair.candidate
    observation = own.required_effect_observation
    seen = _labels(pair.candidate_effects) if pair.observer else ()
    # Where a count is unknown the verdict says what it took as the difference.
    turns = run.model_turns
    if turns is None or pair.control.model_turns is None:
        turns = max(own.control_committed_model_turns - pair.potential + pair.added, 0)
    return replace(
        own,
        arm=arm.value,
        mechanism=_mechanism(run.mechanism).value,
        lifecycle=_lifecycle(pair, alike=seen == observation.control_required).value,
        reason=run.reason.value,
        candidate_committed_model_turns=turns,
        required_effect_observation=replace(observation, candidate_required=seen),
        candidate_gross=_gross(_gross_of(run.work)),
        overhead=_overhead(run.work),
        retained_turn_reduction=_retained(run) if turns else None,
    )


def _mechanism(mechanism: Mechanism) -> Mechanism:
    """Return a mechanism that v1 knows in a candidate arm."""
    known = mechanism in TRACE_V1_MECHANISMS and mechanism is not Mechanism.CONTROL
    return mechanism if known else Mechanism.UNKNOWN


def _lifecycle(pair: PairDecided, *, alike: bool) -> Lifecycle:
    """Return a lifecycle with which v1 withholds exactly what the verdict withheld."""
    lifecycle = pair.candidate.lifecycle
    if pair.candidate.model_turns is None or pair.control.model_turns is None:
        return Lifecycle.UNKNOWN
    if lifecycle is not Lifecycle.REALIZED:
        return lifecycle
    if pair.comparison is not None:
        return Lifecycle.UNKNOWN  # v1 has one series for each arm, and that is not this pair's
    if not pair.causes:
        return lifecycle
    shown_by_effects = _CAUSES_OF_V1.issuperset(pair.causes) and not alike
    return lifecycle if shown_by_effects else Lifecycle.UNKNOWN


def _labels(labels: Iterable[str]) -> tuple[str, ...]:
    """Return effect labels as v1 wants them; the verdict was made on the labels as sent."""
    return tuple(sorted({label.strip() for label in labels} - {""}))


def _gross_of(work: Work) -> tuple[float, float, float, float]:
    return (
        _amount(work.model_ms),
        _amount(work.tool_ms),
        _amount(work.model_usd),
        _amount(work.tool_usd),
    )


def _amount(value: float) -> float:
    """Return a number that v1 can hold, so that one broken fact cannot block every report."""
    return value if 0.0 <= value < inf else 0.0


def _gross(figures: tuple[float, float, float, float]) -> Gross:
    model_ms, tool_ms, model_usd, tool_usd = figures
    return Gross(
        model_latency_ms=model_ms,
        tool_latency_ms=tool_ms,
        model_cost_usd=model_usd,
        tool_cost_usd=tool_usd,
    )


def _overhead(work: Work) -> Overhead:
    return Overhead(
        validation_latency_ms=_amount(work.validation_ms),
        speculation_latency_ms=_amount(work.speculation_ms),
        retry_latency_ms=_amount(work.retry_ms),
        recovery_latency_ms=_amount(work.recovery_ms),
        validation_cost_usd=_amount(work.validation_usd),
        speculation_cost_usd=_amount(work.speculation_usd),
        retry_cost_usd=_amount(work.retry_usd),
        recovery_cost_usd=_amount(work.recovery_usd),
    )


def _retained(run: Run) -> RetainedTurnReduction | None:
    retained = run.retained
    if retained is None:
        return None
    tokens = min(max(retained.tokens, 0), _LARGEST)
    latency_ms = _amount(retained.latency_ms)
    if not tokens and not latency_ms:
        return None
    return RetainedTurnReduction(tokens=tokens, latency_ms=latency_ms)
