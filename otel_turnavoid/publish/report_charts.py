"""The charts of a report: each shows one account, arm by arm or series by series."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from otel_turnavoid.ledger import ArmReport
from otel_turnavoid.publish.charts import Bar, Bars, Reach, bar_chart, reach_chart
from otel_turnavoid.publish.conclusion import named
from otel_turnavoid.publish.figures import (
    counted,
    dollars,
    interval,
    milliseconds,
    per_pair,
    signed,
)
from otel_turnavoid.publish.markup import Html
from otel_turnavoid.publish.series import NullSeries, PairSeries


def turns_of_series(pairs: Iterable[PairSeries]) -> Html | None:
    """Return the turns of each series: bars side by side, never stacked."""
    return bar_chart(
        "Turns avoided, added and withheld, by series",
        [
            Bars(
                f"{named(one)}: net {signed(one.net)}",
                _turns(one.avoided, one.added, one.withheld),
            )
            for one in pairs
        ],
    )


def turns_of_arms(arms: Iterable[ArmReport]) -> Html | None:
    """Return the turns of each arm, where nothing is known of series."""
    return bar_chart(
        "Turns avoided, added and withheld, by arm",
        [
            Bars(
                f"{arm.arm}: net {signed(arm.realized_turns_avoided - arm.turns_added)}",
                _turns(arm.realized_turns_avoided, arm.turns_added, arm.withheld_turns),
            )
            for arm in arms
        ],
    )


def means(pairs: Sequence[PairSeries], nulls: Sequence[NullSeries]) -> Html | None:
    """Return the mean of each series with its interval, and the noise, around no effect."""
    return reach_chart(
        "Turns saved per pair: the mean with its 95% interval. Left of 0 the candidate needed"
        " more turns, right of it fewer; an interval across 0 shows no effect.",
        [
            *(
                Reach(
                    named(one),
                    one.per_pair.mean,
                    one.per_pair.low,
                    one.per_pair.high,
                    _in_words(one),
                    "series",
                )
                for one in pairs
            ),
            *(
                Reach(
                    _noise(null),
                    null.per_pair.mean,
                    null.per_pair.low,
                    null.per_pair.high,
                    _in_words(null),
                    "noise",
                )
                for null in nulls
            ),
        ],
    )


def causes(pairs: Iterable[PairSeries]) -> Html | None:
    """Return withheld turns by their first cause."""
    return bar_chart(
        "Withheld turns by first cause, by series",
        [
            Bars(
                named(one),
                tuple(
                    Bar(cause.value, turns, counted(turns), "withheld")
                    for cause, turns in one.causes.items()
                ),
            )
            for one in pairs
            if one.causes
        ],
        long=True,
    )


def withheld_by_attribution(arms: Iterable[ArmReport]) -> Html | None:
    """Return withheld turns by what a file of rows knows instead of causes."""
    return bar_chart(
        "Withheld turns by lifecycle and reason, by arm",
        [
            Bars(
                arm.arm,
                tuple(
                    Bar(
                        f"{one.lifecycle}, {one.reason}",
                        one.withheld_turns,
                        counted(one.withheld_turns),
                        "withheld",
                    )
                    for one in arm.attribution
                    if one.withheld_turns
                ),
            )
            for arm in arms
            if arm.withheld_turns
        ],
        long=True,
    )


def effects(arms: Iterable[ArmReport]) -> Html | None:
    """Return required effects preserved and suppressed."""
    return bar_chart(
        "Required effects, by arm",
        [
            Bars(
                arm.arm,
                (
                    _count("preserved", arm.required_effects_preserved, "avoided"),
                    _count("suppressed", arm.needed_effects_suppressed, "added"),
                ),
            )
            for arm in arms
        ],
    )


def retained(arms: Sequence[ArmReport]) -> Html | None:
    """Return what kept turns needed less, a scale for each unit."""
    turns = (_count(arm.arm, arm.retained_turns_made_cheaper, "candidate") for arm in arms)
    tokens = (_count(arm.arm, arm.retained_turn_tokens_reduced, "candidate") for arm in arms)
    spans = ((arm.arm, arm.retained_turn_latency_reduced_ms) for arm in arms)
    return bar_chart(
        "Kept turns made cheaper, each figure on a scale of its own",
        [
            Bars("turns", tuple(turns)),
            Bars("tokens less", tuple(tokens)),
            Bars(
                "milliseconds less",
                tuple(Bar(arm, ms, milliseconds(ms), "candidate") for arm, ms in spans),
            ),
        ],
        shared=False,
    )


def time(arms: Iterable[ArmReport]) -> Html | None:
    """Return the time of both sides."""
    return bar_chart(
        "Time (ms), by arm",
        [
            Bars(
                arm.arm,
                tuple(
                    Bar(label, value, milliseconds(value), kind)
                    for label, value, kind in (
                        ("control", arm.accounting.gross_control_latency_ms, "control"),
                        ("candidate", arm.accounting.gross_candidate_latency_ms, "candidate"),
                        ("overhead", arm.accounting.overhead_latency_ms, "added"),
                        ("saved gross", arm.accounting.gross_latency_saved_ms, "avoided"),
                        ("saved net", arm.accounting.net_latency_saved_ms, "avoided"),
                    )
                ),
            )
            for arm in arms
        ],
    )


def cost(arms: Iterable[ArmReport]) -> Html | None:
    """Return the stated cost of both sides."""
    return bar_chart(
        "Cost (USD), by arm",
        [
            Bars(
                arm.arm,
                tuple(
                    Bar(label, value, dollars(value), kind)
                    for label, value, kind in (
                        ("control", arm.accounting.gross_control_cost_usd, "control"),
                        ("candidate", arm.accounting.gross_candidate_cost_usd, "candidate"),
                        ("overhead", arm.accounting.overhead_cost_usd, "added"),
                        ("saved gross", arm.accounting.gross_cost_saved_usd, "avoided"),
                        ("saved net", arm.accounting.net_cost_saved_usd, "avoided"),
                    )
                ),
            )
            for arm in arms
        ],
    )


def _noise(null: NullSeries) -> str:
    apart = filter(None, (f"{null.evidence} evidence", null.comparison))
    return f"noise ({', '.join(apart)})"


def _turns(avoided: int, added: int, withheld: int) -> tuple[Bar, ...]:
    return (
        _count("avoided", avoided, "avoided"),
        _count("added", added, "added"),
        _count("withheld", withheld, "withheld"),
    )


def _count(label: str, value: int, kind: str) -> Bar:
    return Bar(label, value, counted(value), kind)


def _in_words(one: PairSeries | NullSeries) -> str:
    mean = one.per_pair
    if mean.mean is None:
        return "no pair counts"
    if mean.low is None:
        return f"{per_pair(mean.mean)}, no interval"
    return f"{per_pair(mean.mean)} ({interval(mean)})"
