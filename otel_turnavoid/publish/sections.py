"""What a report says to people, as titled tables; text and HTML only set them.

One table for each account, so that no account can be added to another by accident. Wherever
``avoided`` stands, ``added`` and the signed net stand beside it: clipping at zero turns chance
into credit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from otel_turnavoid.judge.verdict import Decision, NullDecided, PairDecided
from otel_turnavoid.ledger import HONEST, ArmReport, Report
from otel_turnavoid.publish.conclusion import Conclusion, conclude
from otel_turnavoid.publish.figures import counted, dollars, milliseconds, of, signed
from otel_turnavoid.publish.nothing_asked import nothing_asked
from otel_turnavoid.publish.section import Section
from otel_turnavoid.publish.series import NullSeries, PairSeries, floor_of, series
from otel_turnavoid.publish.series_sections import series_sections
from otel_turnavoid.vocabulary import CANDIDATE_ARMS, Lifecycle, Reason

STRICT: Final = "Strict: where no effect was required, nothing is credited."


class Verdict(NamedTuple):
    """The report's verdict and what it means."""

    name: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Live:
    """What a ledger of live verdicts knows beyond its trace/v1 rows."""

    pairs: tuple[PairDecided, ...]
    nulls: tuple[NullDecided, ...]
    contradicted: int
    """Verdicts that later evidence speaks against."""

    @cached_property
    def series(self) -> tuple[list[PairSeries], list[NullSeries]]:
        """The pairs by arm, variant, evidence and comparison, and those of controls."""
        return series(self.pairs, self.nulls)


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


def conclusions(more: Live) -> Iterator[Conclusion]:
    """Yield what each series shows, in words."""
    pairs, nulls = more.series
    return (conclude(one, floor_of(one, nulls)) for one in pairs)


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
        f"{arm.arm}: {of(arm.withheld_turns, 'turn')} withheld,"
        f" {of(arm.needed_effects_suppressed, 'required effect')} suppressed."
        for arm in _candidates(report)
        if arm.honesty_verdict != HONEST
    )
    return Verdict(report.honesty_verdict, (_NOT_ALL, *withheld))


def headline(report: Report) -> str:
    """Return what was compared, and how much of it only stands in for an arm that did nothing."""
    compared = (
        f"{of(report.immutable_inputs, 'input')} in {of(report.rows, 'row')}:"
        f" each with the control, {' and '.join(CANDIDATE_ARMS)}."
    )
    unused = ", ".join(
        f"{arm.arm} in {of(count, 'input')}"
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
        *(
            series_sections(*more.series, contradicted=more.contradicted)
            if more
            else (_withheld(arms),)
        ),
        *(nothing_asked(more.pairs) if more else ()),
        Section(
            "Required effects",
            "What the observer saw of the control's effects in the candidate's runs.",
            ("arm", "preserved", "suppressed"),
            tuple(
                (
                    arm.arm,
                    counted(arm.required_effects_preserved),
                    counted(arm.needed_effects_suppressed),
                )
                for arm in arms
            ),
            apart=True,
        ),
        Section(
            "Kept turns made cheaper",
            "Attribution by the mechanism, already inside the candidate's work; never an avoided"
            " turn.",
            ("arm", "turns", "tokens less", "ms less"),
            tuple(
                (
                    arm.arm,
                    counted(arm.retained_turns_made_cheaper),
                    counted(arm.retained_turn_tokens_reduced),
                    milliseconds(arm.retained_turn_latency_reduced_ms),
                )
                for arm in arms
            ),
            apart=True,
        ),
        Section(
            "Time (ms)",
            "Work of models and tools. Gross is before the overhead of the change, net after it.",
            _WORK,
            tuple(_time(arm) for arm in arms),
            apart=True,
        ),
        Section(
            "Cost (USD)",
            "The same for stated cost.",
            _WORK,
            tuple(_cost(arm) for arm in arms),
            apart=True,
        ),
        _lifecycles(arms, live=more is not None),
    ]


def _withheld(arms: list[ArmReport]) -> Section:
    """Return why turns were withheld, as far as rows tell."""
    return Section(
        "Withheld turns by lifecycle and reason",
        "A change that was not realized earns nothing; where it was, the effects differ, or none"
        " was required.",
        ("arm", "lifecycle", "reason", "turns"),
        tuple(
            (arm.arm, one.lifecycle, one.reason, counted(one.withheld_turns))
            for arm in arms
            for one in arm.attribution
            if one.withheld_turns
        ),
        words=3,
    )


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
        tuple((arm.arm, *(counted(_of_lifecycle(arm, name)) for name in present)) for arm in arms),
        apart=True,
    )


def _of_lifecycle(arm: ArmReport, lifecycle: str) -> int:
    count: int = getattr(arm.lifecycle, lifecycle)
    return count


def _candidates(report: Report) -> list[ArmReport]:
    return [arm for arm in report.arms if arm.arm in set(CANDIDATE_ARMS)]


def _turns(arm: ArmReport) -> tuple[str, ...]:
    return (
        arm.arm,
        counted(arm.decisions),
        counted(arm.control_committed_model_turns),
        counted(arm.candidate_committed_model_turns),
        counted(arm.realized_turns_avoided),
        counted(arm.turns_added),
        signed(arm.realized_turns_avoided - arm.turns_added),
        counted(arm.withheld_turns),
    )


def _time(arm: ArmReport) -> tuple[str, ...]:
    work = arm.accounting
    return (
        arm.arm,
        milliseconds(work.gross_control_latency_ms),
        milliseconds(work.gross_candidate_latency_ms),
        milliseconds(work.gross_latency_saved_ms),
        milliseconds(work.overhead_latency_ms),
        milliseconds(work.net_latency_saved_ms),
    )


def _cost(arm: ArmReport) -> tuple[str, ...]:
    work = arm.accounting
    return (
        arm.arm,
        dollars(work.gross_control_cost_usd),
        dollars(work.gross_candidate_cost_usd),
        dollars(work.gross_cost_saved_usd),
        dollars(work.overhead_cost_usd),
        dollars(work.net_cost_saved_usd),
    )
