"""The tables of a ledger's series: counts, how sure they are, the noise, what was withheld why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from otel_turnavoid.publish.estimate import CONFIDENCE, INSTALL, NoInterval
from otel_turnavoid.publish.figures import counted, interval, of, per_pair, share, signed
from otel_turnavoid.publish.layout import clean
from otel_turnavoid.publish.section import Section
from otel_turnavoid.publish.series import NullSeries, PairSeries
from otel_turnavoid.vocabulary import WithheldCause

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


def series_sections(
    pairs: Sequence[PairSeries], nulls: Sequence[NullSeries], *, contradicted: int = 0
) -> Iterator[Section]:
    """Yield the tables of a ledger's series: counts, how sure they are, noise, causes."""
    apart = _apart(pairs)
    yield Section(
        "Turns by series",
        "Pairs by variant, evidence and comparison; never added together. Declared evidence proves"
        " that no span is missing; inferred evidence does not. The share is that of the turns that"
        " disappeared."
        + (
            f" Evidence that arrived later speaks against {of(contradicted, 'verdict')};"
            " verdicts stay as they are."
            if contradicted
            else ""
        ),
        (*apart, "pairs", "avoided", "added", "net", "withheld", "share"),
        tuple(
            (
                *_name(one, apart),
                counted(one.pairs),
                counted(one.avoided),
                counted(one.added),
                signed(one.net),
                counted(one.withheld),
                share(one.withheld_share),
            )
            for one in pairs
        ),
        words=len(apart),
    )
    yield Section(
        "How sure: turns saved per pair",
        "Only pairs with no cause to withhold count; in these, avoided less added is all the"
        " difference. Net above takes every added turn but only proven avoided ones, so it leans"
        " down and is no estimate. Pairs of one input or unit are not independent; groups are."
        " The counts stand whatever the interval says."
        + (f" For intervals: {INSTALL}" if _lacks_intervals(pairs, nulls) else ""),
        (*apart, "counted", "groups", "mean", _INTERVAL),
        tuple((*_name(one, apart), *_sure(one)) for one in pairs),
        words=len(apart),
    )
    crossing = ("evidence", *(("comparison",) if any(null.comparison for null in nulls) else ()))
    yield Section(
        "Noise: control against control",
        "Equal runs differ by chance. This is the floor below which a saving means nothing.",
        (*crossing, "pairs", "avoided", "added", "net", "groups", "mean", _INTERVAL),
        tuple((*_null_name(null)[: len(crossing)], *_noise(null)) for null in nulls)
        or (("-", "0", "0", "0", "0", "0", "-", "-"),),
        words=len(crossing),
    )
    yield Section(
        "Withheld turns by first cause",
        "The first of a pair's causes; turnavoid pairs lists them all.",
        (*apart, "cause", "turns"),
        tuple(
            (*_name(one, apart), cause.value, counted(turns))
            for one in pairs
            for cause, turns in one.causes.items()
        ),
        words=len(apart) + 1,
        legend=tuple(
            (cause.value, meaning)
            for cause, meaning in CAUSES.items()
            if any(cause in one.causes for one in pairs)
        ),
    )


def _lacks_intervals(pairs: Iterable[PairSeries], nulls: Iterable[NullSeries]) -> bool:
    means = [*(one.per_pair for one in pairs), *(null.per_pair for null in nulls)]
    return any(mean.no_interval is NoInterval.NOT_INSTALLED for mean in means)


_INTERVAL: Final = f"{CONFIDENCE:.0%} interval"


def _apart(pairs: Iterable[PairSeries]) -> tuple[str, ...]:
    """Return the columns that tell the series apart."""
    crossing = any(one.comparison for one in pairs)
    return ("arm", "variant", "evidence", *(("comparison",) if crossing else ()))


def _name(one: PairSeries, apart: tuple[str, ...]) -> tuple[str, ...]:
    name = (one.arm.value, clean(one.variant or "-"), one.evidence.value, one.comparison or "-")
    return name[: len(apart)]


def _null_name(null: NullSeries) -> tuple[str, ...]:
    return null.evidence.value, null.comparison or "-"


def _sure(one: PairSeries) -> tuple[str, ...]:
    mean = one.per_pair
    return (
        f"{counted(mean.pairs)} of {counted(one.pairs)}",
        counted(mean.groups),
        per_pair(mean.mean),
        interval(mean),
    )


def _noise(null: NullSeries) -> tuple[str, ...]:
    return (
        counted(null.pairs),
        counted(null.avoided),
        counted(null.added),
        signed(null.net),
        counted(null.per_pair.groups),
        per_pair(null.per_pair.mean),
        interval(null.per_pair),
    )
