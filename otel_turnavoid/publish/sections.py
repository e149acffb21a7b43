"""What a report says to people, as titled tables; text and HTML only set them.

One table for each account, so that no account can be added to another by accident. Wherever
``avoided`` stands, ``added`` and the signed net stand beside it: clipping at zero turns chance
into credit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from otel_turnavoid.judge.verdict import Decision, NullDecided, PairDecided
from otel_turnavoid.ledger import HONEST, ArmReport, Report
from otel_turnavoid.vocabulary import (
    CANDIDATE_ARMS,
    Arm,
    Evidence,
    Lifecycle,
    Reason,
    WithheldCause,
)

STRICT: Final = "Strict: where no effect was required, nothing is credited."

CAUSES: Final = {
    WithheldCause.LIFECYCLE_NOT_REALIZED: "the change did not take place",
    WithheldCause.RUN_NOT_COMPLETED: "a run failed or was aborted",
    WithheldCause.INCOMPLETE_RUN: "declared entries did not arrive",
    WithheldCause.COMPLETENESS_UNPROVEN: "a run may lack spans",
    WithheldCause.CONFLICTING_EVIDENCE: "one id came with two contents",
    WithheldCause.SAMPLED: "spans were left out by sampling",
    WithheldCause.EFFECTS_UNOBSERVED: "nobody observed one of the runs",
    WithheldCause.NO_REQUIRED_EFFECTS: "the control required no effect",
    WithheldCause.OBSERVER_NOT_INDEPENDENT: "the observer may be the agent",
    WithheldCause.OBSERVER_MISMATCH: "the runs' observers differ",
    WithheldCause.EFFECTS_SUPPRESSED: "a required effect is missing",
    WithheldCause.EFFECTS_ADDED: "an effect the control lacks",
    WithheldCause.MODEL_MISMATCH: "the runs' models differ",
    WithheldCause.INSTRUMENTATION_MISMATCH: "the runs' instrumentations differ",
}
"""Why turns were withheld, in the words of the report."""


class Section(NamedTuple):
    """One table with its title and what to know before reading it."""

    title: str
    note: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: int = 1
    """The first columns hold words, the others numbers."""


class Verdict(NamedTuple):
    """The report's verdict and what it means."""

    name: str
    lines: tuple[str, ...]


class Live(NamedTuple):
    """What a ledger of live verdicts knows beyond its trace/v1 rows."""

    pairs: tuple[PairDecided, ...]
    nulls: tuple[NullDecided, ...]
    contradicted: int
    """Verdicts that later evidence speaks against."""


def live(decisions: Iterable[Decision], *, contradicted: int = 0) -> Live:
    """Take from the journal's decisions those on pairs of runs."""
    pairs: list[PairDecided] = []
    nulls: list[NullDecided] = []
    for made in decisions:
        if isinstance(made, PairDecided):
            pairs.append(made)
        elif isinstance(made, NullDecided):
            nulls.append(made)
    return Live(tuple(pairs), tuple(nulls), contradicted)


_NOTHING: Final = (
    "No pair of a control and a candidate run has been decided yet, so there is nothing to credit"
    " and nothing to withhold."
)
_ALL: Final = (
    "Nothing was withheld and no required effect was suppressed: every turn that a candidate did"
    " without counts as avoided."
)
_NOT_ALL: Final = (
    "Some turns that disappeared earn nothing, or a required effect is missing. They are shown"
    " and not counted as avoided: an honest report, not a failure."
)


def verdict(report: Report) -> Verdict:
    """Return the verdict in words."""
    if not report.rows:
        return Verdict(report.honesty_verdict, (_NOTHING,))
    if report.honesty_verdict == HONEST:
        return Verdict(report.honesty_verdict, (_ALL,))
    withheld = (
        f"{arm.arm}: {_of(arm.withheld_turns, 'turn')} withheld,"
        f" {_of(arm.needed_effects_suppressed, 'required effect')} suppressed."
        for arm in _candidates(report)
        if arm.honesty_verdict != HONEST
    )
    return Verdict(report.honesty_verdict, (_NOT_ALL, *withheld))


def headline(report: Report) -> str:
    """Return what was compared, and how much of it only stands in for an arm that did nothing."""
    compared = (
        f"{_of(report.immutable_inputs, 'input')} in {_of(report.rows, 'row')}:"
        f" each with the control, {' and '.join(CANDIDATE_ARMS)}."
    )
    unused = ", ".join(
        f"{arm.arm} in {_of(count, 'input')}"
        for arm in _candidates(report)
        if (count := _not_applicable(arm))
    )
    if not unused:
        return compared
    return f"{compared} Where an arm was not applied the control stands in for it: {unused}."


def _not_applicable(arm: ArmReport) -> int:
    return sum(one.decisions for one in arm.attribution if one.reason == Reason.NOT_APPLICABLE)


def sections(report: Report, *, more: Live | None = None) -> list[Section]:
    """Return the tables of a report, and of the ledger it was made from."""
    arms = _candidates(report)
    return [
        Section(
            "Model turns",
            "A turn that a candidate did without is avoided only if the change was realized and"
            " an independent observer saw the control's effects; otherwise it is withheld. Net is"
            " avoided less added. Arms share their controls: do not add them.",
            ("arm", "inputs", "control", "candidate", "avoided", "added", "net", "withheld"),
            tuple(_turns(arm) for arm in arms),
        ),
        *(_of_pairs(more) if more else ()),
        Section(
            "Required effects",
            "What the observer saw of the control's effects in the candidate's runs.",
            ("arm", "preserved", "suppressed"),
            tuple(
                (
                    arm.arm,
                    _count(arm.required_effects_preserved),
                    _count(arm.needed_effects_suppressed),
                )
                for arm in arms
            ),
        ),
        Section(
            "Kept turns made cheaper",
            "Attribution by the mechanism, already inside the candidate's work; never an avoided"
            " turn.",
            ("arm", "turns", "tokens less", "ms less"),
            tuple(
                (
                    arm.arm,
                    _count(arm.retained_turns_made_cheaper),
                    _count(arm.retained_turn_tokens_reduced),
                    _ms(arm.retained_turn_latency_reduced_ms),
                )
                for arm in arms
            ),
        ),
        Section(
            "Time (ms)",
            "Work of models and tools. Gross is before the overhead of the change, net after it.",
            _WORK,
            tuple(_time(arm) for arm in arms),
        ),
        Section(
            "Cost (USD)",
            "The same for stated cost.",
            _WORK,
            tuple(_cost(arm) for arm in arms),
        ),
        _lifecycles(arms, live=more is not None),
    ]


_WORK: Final = ("arm", "control", "candidate", "saved gross", "overhead", "saved net")


def _lifecycles(arms: list[ArmReport], *, live: bool) -> Section:
    present = [
        name.value for name in Lifecycle if any(_of_lifecycle(arm, name.value) for arm in arms)
    ]
    return Section(
        "Inputs by lifecycle",
        "How far the change got; only realized can earn."
        + (
            " Pairs withheld for a cause that trace/v1 has no word for stand as unknown."
            if live
            else ""
        ),
        ("arm", *present),
        tuple((arm.arm, *(_count(_of_lifecycle(arm, name)) for name in present)) for arm in arms),
    )


def _of_lifecycle(arm: ArmReport, lifecycle: str) -> int:
    count: int = getattr(arm.lifecycle, lifecycle)
    return count


def _of_pairs(more: Live) -> Iterator[Section]:
    yield Section(
        "Pairs by variant and evidence",
        "Declared evidence proves that no span is missing; inferred evidence does not."
        + (
            f" Evidence that arrived later speaks against {_of(more.contradicted, 'verdict')};"
            " verdicts stay as they are."
            if more.contradicted
            else ""
        ),
        ("arm", "variant", "evidence", "pairs", "avoided", "added", "net", "withheld"),
        tuple(_series(more.pairs)),
        words=3,
    )
    yield Section(
        "Withheld turns by first cause",
        "The first of a pair's causes; turnavoid pairs lists them all.",
        ("arm", "cause", "meaning", "turns"),
        tuple(_withheld(more.pairs)),
        words=3,
    )
    avoided = sum(null.avoided for null in more.nulls)
    added = sum(null.added for null in more.nulls)
    yield Section(
        "Noise: control against control",
        "Equal runs differ by chance. This is the floor below which a saving means nothing.",
        ("pairs", "avoided", "added", "net"),
        ((_count(len(more.nulls)), _count(avoided), _count(added), _signed(avoided - added)),),
        words=0,
    )


def _series(pairs: tuple[PairDecided, ...]) -> Iterator[tuple[str, ...]]:
    found: dict[tuple[Arm | None, str, Evidence], list[PairDecided]] = {}
    for pair in pairs:
        run = pair.candidate
        inferred = Evidence.INFERRED in (run.evidence, pair.control.evidence)
        evidence = Evidence.INFERRED if inferred else Evidence.DECLARED
        found.setdefault((run.arm, run.variant or "", evidence), []).append(pair)
    for (arm, variant, evidence), series in sorted(found.items(), key=lambda item: str(item[0])):
        avoided = sum(pair.avoided for pair in series)
        added = sum(pair.added for pair in series)
        yield (
            str(arm),
            variant or "-",
            evidence.value,
            _count(len(series)),
            _count(avoided),
            _count(added),
            _signed(avoided - added),
            _count(sum(pair.withheld for pair in series)),
        )


def _withheld(pairs: tuple[PairDecided, ...]) -> Iterator[tuple[str, ...]]:
    turns: Counter[tuple[Arm | None, WithheldCause]] = Counter()
    for pair in pairs:
        if pair.withheld:
            turns[pair.candidate.arm, pair.causes[0]] += pair.withheld
    for arm in CANDIDATE_ARMS:
        for cause, meaning in CAUSES.items():
            if turns[arm, cause]:
                yield arm.value, cause.value, meaning, _count(turns[arm, cause])


def _candidates(report: Report) -> list[ArmReport]:
    return [arm for arm in report.arms if arm.arm in set(CANDIDATE_ARMS)]


def _turns(arm: ArmReport) -> tuple[str, ...]:
    return (
        arm.arm,
        _count(arm.decisions),
        _count(arm.control_committed_model_turns),
        _count(arm.candidate_committed_model_turns),
        _count(arm.realized_turns_avoided),
        _count(arm.turns_added),
        _signed(arm.realized_turns_avoided - arm.turns_added),
        _count(arm.withheld_turns),
    )


def _time(arm: ArmReport) -> tuple[str, ...]:
    work = arm.accounting
    return (
        arm.arm,
        _ms(work.gross_control_latency_ms),
        _ms(work.gross_candidate_latency_ms),
        _ms(work.gross_latency_saved_ms),
        _ms(work.overhead_latency_ms),
        _ms(work.net_latency_saved_ms),
    )


def _cost(arm: ArmReport) -> tuple[str, ...]:
    work = arm.accounting
    return (
        arm.arm,
        _usd(work.gross_control_cost_usd),
        _usd(work.gross_candidate_cost_usd),
        _usd(work.gross_cost_saved_usd),
        _usd(work.overhead_cost_usd),
        _usd(work.net_cost_saved_usd),
    )


def _of(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _count(count: int) -> str:
    return f"{count:,}"


def _signed(count: int) -> str:
    return f"{count:+,}" if count else "0"


def _ms(value: float) -> str:
    return f"{round(value, 1) + 0.0:,.1f}"


def _usd(value: float) -> str:
    return f"{round(value, 6) + 0.0:,.6f}"
