"""The verdict on a pair: credit only where absence is proven and the effects were seen.

``avoided`` counts if the candidate's lifecycle is ``realized``, both runs are complete, and an
independent observer saw the same required effects in both. Everything else stays visible as
``withheld``, with every cause that applies (design sections 1 and 4).
"""

from __future__ import annotations

from otel_turnavoid.judge.facts import Observation
from otel_turnavoid.judge.observing import independent
from otel_turnavoid.judge.ordering import compared_effects
from otel_turnavoid.judge.run import Run
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.judge.verdict import NullDecided, PairDecided
from otel_turnavoid.vocabulary import Comparison, InvokeState, Lifecycle, WithheldCause


def judge(control: Run, candidate: Run, settings: Settings) -> PairDecided:
    """Return the verdict on a control and a candidate run of the same key."""
    causes = {*control.causes, *candidate.causes}
    if candidate.lifecycle is not Lifecycle.REALIZED:
        causes.add(WithheldCause.LIFECYCLE_NOT_REALIZED)
    unknown = control.model_turns is None or candidate.model_turns is None
    if unknown or counted_otherwise(control, candidate):
        causes.add(WithheldCause.COMPLETENESS_UNPROVEN)
    causes |= _mismatches(control, candidate, settings)
    observed = _observed(control, candidate, causes)
    for pair in observed:
        causes |= _compared(*pair, (control, candidate))
    before, after = _shown(observed) if observed else (_first(control), _first(candidate))
    control_effects, candidate_effects = compared_effects(before, after)
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
        comparison=_comparison(control, candidate, settings),
    )


def judge_null(first: Run, second: Run, settings: Settings) -> NullDecided:
    """Return how far apart two control runs of one key are, signed both ways."""
    turns = _difference(first, second)
    return NullDecided(
        first=first,
        second=second,
        avoided=max(turns, 0),
        added=max(-turns, 0),
        comparison=_comparison(first, second, settings),
    )


def comparable_null(first: Run, second: Run, settings: Settings) -> bool:
    """Whether two control runs say anything about noise.

    Both completed, with known turns, and alike in what two runs of a pair must be alike in.
    """
    alike = not _mismatches(first, second, settings) and not counted_otherwise(first, second)
    return alike and all(
        run.ended
        and run.state is InvokeState.COMPLETED
        and not run.causes
        and run.model_turns is not None
        for run in (first, second)
    )


def counted_otherwise(one: Run, other: Run) -> bool:
    """Whether calls show the turns of one run, and nothing but its word those of the other.

    A run that needed no model has neither.
    """
    pairs = ((one, other), (other, one))
    return any(_on_its_word(said) and bool(shown.llm_calls) for said, shown in pairs)


def _on_its_word(run: Run) -> bool:
    return bool(run.model_turns) and run.llm_calls == 0


def _other_models(control: Run, candidate: Run) -> bool:
    """Whether the models differ; where one side states none, nothing shows that they do."""
    return bool(control.models and candidate.models) and control.models != candidate.models


def _mismatches(control: Run, candidate: Run, settings: Settings) -> set[WithheldCause]:
    """Return in what two runs differ that the configuration does not let differ."""
    found = set()
    if _other_models(control, candidate) and not settings.any_model:
        found.add(WithheldCause.MODEL_MISMATCH)
    if control.scopes != candidate.scopes and not settings.any_instrumentation:
        found.add(WithheldCause.INSTRUMENTATION_MISMATCH)
    return found


def _comparison(control: Run, candidate: Run, settings: Settings) -> Comparison | None:
    """Return in what two runs differ that the configuration lets differ."""
    models = settings.any_model and _other_models(control, candidate)
    scopes = settings.any_instrumentation and control.scopes != candidate.scopes
    if models and scopes:
        return Comparison.CROSS_BOTH
    if models:
        return Comparison.CROSS_MODEL
    return Comparison.CROSS_INSTRUMENTATION if scopes else None


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
    # Where one came with a credential, authentication is on: the other went around it.
    around = before.role != after.role
    if around or not (independent(before, runs) and independent(after, runs)):
        causes.add(WithheldCause.OBSERVER_NOT_INDEPENDENT)
    elif before.service != after.service:
        # An id is easily copied; who copies it mostly speaks from another service.
        causes.add(WithheldCause.OBSERVER_MISMATCH)
    required, reached = map(set, compared_effects(before, after))
    if required - reached:
        causes.add(WithheldCause.EFFECTS_SUPPRESSED)
    if reached - required:
        causes.add(WithheldCause.EFFECTS_ADDED)
    return causes


def _shown(observed: list[tuple[Observation, Observation]]) -> tuple[Observation, Observation]:
    """Return the observations that a verdict shows: the first that differ, else the first."""
    for before, after in observed:
        required, reached = compared_effects(before, after)
        if required != reached:
            return before, after
    return observed[0]


def _first(run: Run) -> Observation | None:
    return run.observations[0] if run.observations else None
