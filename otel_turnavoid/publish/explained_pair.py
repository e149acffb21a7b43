"""One verdict in words: every cause with what was found, both effect lists, what holds today."""

from __future__ import annotations

from otel_turnavoid.judge.checks import COMPLETED_WITH_AN_ERROR
from otel_turnavoid.judge.facts import Observation, Process
from otel_turnavoid.judge.judging import counted_otherwise, judge
from otel_turnavoid.judge.observing import identity_cut, independent, shared_process
from otel_turnavoid.judge.run import Run
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.judge.verdict import NullDecided, PairDecided
from otel_turnavoid.publish.causes import WITHHELD
from otel_turnavoid.publish.explanation import (
    EffectsCompared,
    Figures,
    NullExplained,
    PairExplained,
    Why,
)
from otel_turnavoid.publish.layout import count
from otel_turnavoid.store.reading import Record
from otel_turnavoid.vocabulary import (
    Evidence,
    InvokeState,
    Lifecycle,
    WithheldCause,
)


def explain_pair(
    record: Record, today: tuple[Run, Run] | None, settings: Settings
) -> PairExplained:
    """Return one verdict in words.

    Args:
        record: A decision about a pair.
        today: Control and candidate as their facts make them now, to say what would be decided
            today where later evidence speaks against the verdict.
        settings: By which that would be decided.
    """
    pair = record.decision
    if not isinstance(pair, PairDecided):
        raise TypeError(f"decision {record.number} is not about a pair")
    again = None
    if record.contradicted_ns is not None and today is not None:
        again = judge(*today, settings)
    return PairExplained(
        number=record.number,
        decided_ns=record.decided_ns,
        control=pair.control.run_id,
        candidate=pair.candidate.run_id,
        arm=pair.candidate.arm,
        variant=pair.candidate.variant,
        mechanism=pair.candidate.mechanism,
        lifecycle=pair.candidate.lifecycle,
        reason=pair.candidate.reason,
        comparison=pair.comparison,
        verdict=_figures(pair),
        effects=_effects(pair),
        why=tuple(_why_withheld(cause, pair) for cause in pair.causes),
        for_credit=() if pair.causes else _for_credit(pair),
        contradicted_ns=record.contradicted_ns,
        today=_figures(again) if again else None,
        today_effects=_effects(again) if again else None,
    )


def explain_null(record: Record) -> NullExplained:
    """Return two compared control runs."""
    null = record.decision
    if not isinstance(null, NullDecided):
        raise TypeError(f"decision {record.number} is not about two controls")
    return NullExplained(
        number=record.number,
        first=null.first.run_id,
        second=null.second.run_id,
        first_turns=null.first.model_turns,
        second_turns=null.second.model_turns,
        avoided=null.avoided,
        added=null.added,
    )


def _figures(pair: PairDecided) -> Figures:
    return Figures(
        control_turns=pair.control.model_turns,
        candidate_turns=pair.candidate.model_turns,
        potential=pair.potential,
        avoided=pair.avoided,
        withheld=pair.withheld,
        added=pair.added,
        causes=pair.causes,
    )


def _effects(pair: PairDecided) -> EffectsCompared:
    control, candidate = set(pair.control_effects), set(pair.candidate_effects)
    apart = {WithheldCause.EFFECTS_UNOBSERVED, WithheldCause.OBSERVER_MISMATCH}
    return EffectsCompared(
        observer=pair.observer,
        compared=not apart & set(pair.causes),
        control=pair.control_effects,
        candidate=pair.candidate_effects,
        missing=tuple(label for label in pair.control_effects if label not in candidate),
        added=tuple(label for label in pair.candidate_effects if label not in control),
    )


def _why_withheld(cause: WithheldCause, pair: PairDecided) -> Why:
    meaning = WITHHELD[cause]
    return Why(
        cause=cause, what=meaning.what, found=tuple(_found(cause, pair)), wanted=meaning.wanted
    )


def _found(cause: WithheldCause, pair: PairDecided) -> list[str]:
    """Return what a cause is about in this pair."""
    control, candidate = pair.control, pair.candidate
    sides = (("control", control), ("candidate", candidate))
    compared = _effects(pair)
    if cause is WithheldCause.LIFECYCLE_NOT_REALIZED:
        return [f"the candidate's lifecycle is {candidate.lifecycle}"]
    if cause is WithheldCause.RUN_NOT_COMPLETED:
        return [f"the {side} {_ended(run)}" for side, run in sides if cause in run.causes]
    if cause is WithheldCause.EFFECTS_UNOBSERVED:
        return [
            f"no observation of the {side} counts{_of_which('; '.join(run.cut))}"
            for side, run in sides
            if not run.observations
        ]
    if cause is WithheldCause.OBSERVER_MISMATCH:
        by_name = set(_names(control)) & set(_names(candidate))
        return [
            f"the {side} was observed by {', '.join(_observers(run, by_name))}"
            for side, run in sides
        ]
    if cause is WithheldCause.OBSERVER_NOT_INDEPENDENT:
        said = [
            f"{one.observer} saw the {side} as"
            f" {process_name(one.service or '', one.instance or '')}"
            f"{_of_which(not_independent_because(one, (control, candidate)))}"
            for side, run in sides
            for one in run.observations
            if not independent(one, (control, candidate))
        ]
        said += _without_credential(control, candidate)
        agents = sorted(
            {process_name(*each) for run in (control, candidate) for each in run.identities}
        )
        return [*said, f"the agents ran as {', '.join(agents)}"]
    if cause is WithheldCause.EFFECTS_SUPPRESSED:
        return [f"missing after the candidate: {label}" for label in compared.missing]
    if cause is WithheldCause.EFFECTS_ADDED:
        return [f"only after the candidate: {label}" for label in compared.added]
    if cause is WithheldCause.MODEL_MISMATCH:
        return [f"the {side} used {', '.join(run.models)}" for side, run in sides]
    if cause is WithheldCause.INSTRUMENTATION_MISMATCH:
        return [f"the {side} has spans of {', '.join(run.scopes)}" for side, run in sides]
    return [*_counted_otherwise(cause, pair), *_problems(cause, pair)]


def _counted_otherwise(cause: WithheldCause, pair: PairDecided) -> list[str]:
    """Return why turns of two runs cannot be compared that each alone would be believed."""
    control, candidate = pair.control, pair.candidate
    if cause is not WithheldCause.COMPLETENESS_UNPROVEN:
        return []
    if not counted_otherwise(control, candidate):
        return []
    shown, said = ("control", "candidate") if control.llm_calls else ("candidate", "control")
    return [f"calls show the turns of the {shown}, and only its own word those of the {said}"]


def _problems(cause: WithheldCause, pair: PairDecided) -> list[str]:
    """Return what either run by itself gives cause for."""
    return [
        # A run's problems are not sorted by cause; with one cause they are all about that one.
        f"in the {side}: {problem}"
        for side, run in (("control", pair.control), ("candidate", pair.candidate))
        if cause in run.causes
        for problem in (run.problems if len(run.causes) == 1 else ("its part below says where",))
    ]


def _for_credit(pair: PairDecided) -> tuple[str, ...]:
    """Return what a pair without a cause was found to fulfil."""
    control, candidate = pair.control, pair.candidate
    proven = (
        "nothing that they declare is missing"
        if control.evidence is candidate.evidence is Evidence.DECLARED
        else "the configuration accepts what shows that they are whole"
    )
    return (
        f"the candidate's lifecycle is {Lifecycle.REALIZED}",
        f"both runs ended as completed, and {proven}",
        f"{pair.observer}, which by its identity is none of the agents, looked at both runs",
        f"it saw the same {count(len(pair.control_effects), 'required effect')} of both",
        "models and instrumentation are comparable",
        *_at_its_word(control, candidate),
    )


def _at_its_word(control: Run, candidate: Run) -> tuple[str, ...]:
    """Return what a reader should look at: work that only the candidate says was no turn."""
    before, after = _beside_turns(control), _beside_turns(candidate)
    if before is None or after is None or after <= 0:
        return ()
    said = (
        f"the candidate made {count(after, 'model call')} that added no turn, the control"
        f" {before}; what such calls were for is the agent's own word, so look at them below"
    )
    return (said,)


def _beside_turns(run: Run) -> int | None:
    """Return how many model calls a run made beyond its committed turns."""
    if run.llm_calls is None or run.model_turns is None:
        return None
    return run.llm_calls - run.model_turns


def _without_credential(control: Run, candidate: Run) -> list[str]:
    """Return which observations came with none, where the same observer's other one had one."""
    roles = {
        (side, seen.observer): seen.role
        for side, run in (("control", control), ("candidate", candidate))
        for seen in run.observations
    }
    return [
        f"{observer} saw the {side} without the credential that it had for the {other}"
        for side, other in (("control", "candidate"), ("candidate", "control"))
        for observer in _names(control if side == "control" else candidate)
        if roles[side, observer] is None and roles.get((other, observer)) is not None
    ]


def _ended(run: Run) -> str:
    """Return how a run ended that did not complete, or of which a part did not."""
    if COMPLETED_WITH_AN_ERROR in run.problems:
        return "says that it completed, and its Invoke's span that it ended in an error"
    if run.state is InvokeState.COMPLETED:
        return "went on after a part of it had failed or was aborted"
    return f"ended as {run.state}"


def not_independent_because(observation: Observation, runs: tuple[Run, ...]) -> str:
    """Return what apart from its names shows that an observer may be the agent; mostly nothing."""
    if identity_cut(observation):
        dropped = count(observation.resource_dropped, "attribute")
        return f"its resource lost {dropped}, and perhaps an identity"
    shared = shared_process(observation, runs)
    return f"the agent's own {_named(shared)}" if shared else ""


def _named(process: Process) -> str:
    place = process.container_id or process.pod_uid or process.host_name or process.host_id
    return f"process {process.pid} on {place}"


def _of_which(why: str) -> str:
    return f": {why}" if why else ""


def _names(run: Run) -> list[str]:
    return [seen.observer for seen in run.observations]


def _observers(run: Run, common: set[str]) -> list[str]:
    """Return who observed a run; where one id stands for two, as which process."""
    return [
        f"{seen.observer} as {process_name(seen.service or '', seen.instance or '')}"
        if seen.observer in common
        else seen.observer
        for seen in run.observations
    ]


def process_name(service: str, instance: str) -> str:
    """Return a service identity for people; what is not stated is said to be missing."""
    return f"{service or '(no service.name)'} / {instance or '(no service.instance.id)'}"
