"""The verdict on a pair: credit only where absence is proven and the effects were seen.

``avoided`` counts if the candidate's lifecycle is ``realized``, both runs are complete, and an
independent observer saw the same required effects in both. Everything else stays visible as
``withheld``, with every cause that applies (design sections 1 and 4).
"""

from __future__ import annotations

from otel_turnavoid.judge.facts import Observation
from otel_turnavoid.judge.observing import effects, independent
from otel_turnavoid.judge.run import Run
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.judge.verdict import NullDecided, PairDecided
from otel_turnavoid.vocabulary import InvokeState, Lifecycle, WithheldCause


def judge(control: Run, candidate: Run, settings: Settings) -> PairDecided:
    """Return the verdict on a control and a candidate run of the same key."""
    causes = {*control.causes, *candidate.causes}
    if candidate.lifecycle is not Lifecycle.REALIZED:
        causes.add(WithheldCause.LIFECYCLE_NOT_REALIZED)
    if control.model_turns is None or candidate.model_turns is None:
        causes.add(WithheldCause.COMPLETENESS_UNPROVEN)
    both_known = bool(control.models and candidate.models)
    if both_known and control.models != candidate.models and not settings.any_model:
        causes.add(WithheldCause.MODEL_MISMATCH)
    if control.scopes != candidate.scopes and not settings.any_instrumentation:
        causes.add(WithheldCause.INSTRUMENTATION_MISMATCH)
    observed = _observed(control, candidate, causes)
    for pair in observed:
        causes |= _compared(*pair, (control, candidate))
    before, after = _shown(observed) if observed else (_first(control), _first(candidate))
    control_effects, candidate_effects = effects(before), effects(after)
    preserved = len(set(control_effects) & set(candidate_effects)) if observed else 0
    turns = _difference(control, candidate)
    potential = max(turns, 0)
    return PairDecided(
        control=control,
        candidate=candidate,
        potential=potential,
        avoided=0 if causes else potential,
        withheld=potential if causes else 0,
        added=max(-turns, 0),
        causes=tuple(cause for cause in WithheldCause if cause in causes),
        observer=before.observer if before is not None else None,
        control_effects=control_effects,
        candidate_effects=candidate_effects,
        preserved=preserved,
        suppressed=len(control_effects) - preserved if observed else 0,
    )


def judge_null(first: Run, second: Run) -> NullDecided:
    """Return how far apart two control runs of one key are, signed both ways."""
    turns = _difference(first, second)
    return NullDecided(first=first, second=second, avoided=max(turns, 0), added=max(-turns, 0))


def comparable_null(first: Run, second: Run) -> bool:
    """Whether two control runs say anything about noise: both completed, with known turns."""
    return all(
        run.ended
        and run.state is InvokeState.COMPLETED
        and not run.causes
        and run.model_turns is not None
        for run in (first, second)
    )


def _difference(control: Run, candidate: Run) -> int:
    """Return the turns the candidate did without; 0 where either count is unknown."""
    if control.model_turns is None or candidate.model_turns is None:
        return 0
    return control.model_turns - candidate.model_turns


def _observed(
    control: Run, candidate: Run, causes: set[WithheldCause]
) -> list[tuple[Observation, Observation]]:
    """Return both runs' observations by each observer that saw both."""
    if not control.observations or not candidate.observations:
        causes.add(WithheldCause.EFFECTS_UNOBSERVED)
        return []
    after = {observation.observer: observation for observation in candidate.observations}
    both = [
        (observation, after[observation.observer])
        for observation in control.observations
        if observation.observer in after
    ]
    if not both:
        causes.add(WithheldCause.OBSERVER_MISMATCH)
        for observation in (*control.observations, *candidate.observations):
            if not independent(observation, (control, candidate)):
                causes.add(WithheldCause.OBSERVER_NOT_INDEPENDENT)
    return both


def _compared(before: Observation, after: Observation, runs: tuple[Run, Run]) -> set[WithheldCause]:
    """Return what one observer's two observations give cause to withhold."""
    causes = set()
    if not before.labels:
        causes.add(WithheldCause.NO_REQUIRED_EFFECTS)
    if not (independent(before, runs) and independent(after, runs)):
        causes.add(WithheldCause.OBSERVER_NOT_INDEPENDENT)
    required, reached = set(effects(before)), set(effects(after))
    if required - reached:
        causes.add(WithheldCause.EFFECTS_SUPPRESSED)
    if reached - required:
        causes.add(WithheldCause.EFFECTS_ADDED)
    return causes


def _shown(observed: list[tuple[Observation, Observation]]) -> tuple[Observation, Observation]:
    """Return the observations that a verdict shows: the first that differ, else the first."""
    differing = (pair for pair in observed if effects(pair[0]) != effects(pair[1]))
    return next(differing, observed[0])


def _first(run: Run) -> Observation | None:
    return run.observations[0] if run.observations else None
