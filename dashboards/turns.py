"""Rows of the account of turns, and of the noise beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dashboards.panels import (
    PAIRS,
    RUNS,
    SHARE,
    TURNS,
    VERDICTS,
    Drawn,
    Said,
    bars,
    coloured,
    columns,
    dashed,
    figures,
    lines,
    ranking,
)
from dashboards.promql import (
    ARM,
    ARMS,
    BAR,
    HOUR,
    RANGE,
    VARIANT,
    filled,
    grown,
    net,
    total,
)
from dashboards.queries import BY_ARM, Query, legend, with_control
from otel_turnavoid.publish.prometheus import label_name
from otel_turnavoid.vocabulary import (
    Attr,
    Lifecycle,
    Metric,
    Outcome,
    WithheldCause,
)

CAUSE: Final = label_name(Attr.WITHHELD_CAUSE)
LIFECYCLE: Final = label_name(Attr.LIFECYCLE)
OUTCOME: Final = label_name(Attr.OUTCOME)

_ESTIMATE = (
    "The figure is Prometheus' `increase` over the chosen time: an estimate at its ends, and"
    " without the event that the series of a new variant, agent or experiment begins with."
)


def turns() -> Iterator[Drawn]:
    """Yield the panels of a row: what became of model turns, in sum and over time."""
    avoided, added, pairs = (
        total(each) for each in (Metric.TURNS_AVOIDED, Metric.TURNS_ADDED, Metric.PAIRS_DECIDED)
    )
    withheld = total(Metric.TURNS_WITHHELD)
    yield columns(
        Said(
            "Verdicts since the ledger began",
            "The figures of the ledger at the end of the chosen time: pairs decided, turns"
            " avoided, turns added by the candidate, net (avoided less added) and turns withheld,"
            " per arm and variant.",
            "show the chosen time only, and a net above 0 is no saving yet: hold it against the"
            " noise floor below.",
        ),
        [
            ("Pairs", pairs),
            ("Avoided", filled(avoided, pairs)),
            ("Added", filled(added, pairs)),
            ("Net", net(avoided, added, pairs)),
            ("Withheld", filled(withheld, pairs)),
        ],
        {ARM: "Arm", VARIANT: "Variant"},
    )
    base = grown(Metric.PAIRS_DECIDED, RANGE)
    gone, more = grown(Metric.TURNS_AVOIDED, RANGE), grown(Metric.TURNS_ADDED, RANGE)
    yield figures(
        Said(
            "Avoided",
            f"Model turns that candidates did without, proven: both runs whole, the same required"
            f" effects seen by an independent observer. {_ESTIMATE}",
            "say that the change pays: read it beside added and net.",
        ),
        TURNS,
        Query(gone, BY_ARM),
        width=6,
    ).decimals(0)
    yield figures(
        Said(
            "Added",
            f"Model turns that candidates needed beyond their controls. {_ESTIMATE}",
            "get smaller by what was avoided elsewhere: nothing is clipped away.",
        ),
        TURNS,
        Query(more, BY_ARM),
        width=6,
    ).decimals(0)
    yield figures(
        Said(
            "Net",
            f"Turns avoided less turns added. {_ESTIMATE}",
            "count what was withheld, and a small net is chance: see the noise floor.",
        ),
        TURNS,
        Query(net(gone, more, base), BY_ARM),
        width=6,
    ).decimals(0)
    yield figures(
        Said(
            "Withheld",
            f"Model turns that candidates did without and that earn nothing, because something is"
            f" missing or speaks against them. {_ESTIMATE}",
            "mean lost savings: they were never proven.",
        ),
        TURNS,
        Query(grown(Metric.TURNS_WITHHELD, RANGE), BY_ARM),
        width=6,
    ).decimals(0)
    yield bars(
        Said(
            "Avoided over time",
            "Proven avoided turns in each bar. Points on it lead to a trace where exemplars are"
            " stored.",
            "show when the turns ran: a verdict comes after both runs and the observation.",
        ),
        TURNS,
        Query(grown(Metric.TURNS_AVOIDED, BAR), BY_ARM, exemplars=True),
    )
    yield bars(
        Said(
            "Added over time",
            "Turns in each bar that candidates needed beyond their controls.",
            "name a cause; `turnavoid pairs` lists the pairs.",
        ),
        TURNS,
        Query(grown(Metric.TURNS_ADDED, BAR), BY_ARM),
    )
    yield bars(
        Said(
            "Committed over time",
            "Committed model turns in each bar of runs that stand in a decided pair, each run"
            " once; the control beside the candidates.",
            "compare like with like: one control may stand against several candidates, so the"
            " difference of these bars is no saving.",
        ),
        TURNS,
        *with_control(Metric.TURNS_COMMITTED),
    )
    yield ranking(
        Said(
            "Withheld by cause",
            f"Withheld turns by the cause that each pair shows first. {_ESTIMATE}",
            "list every cause of a pair: `turnavoid explain` does.",
        ),
        TURNS,
        Query(
            f"sort_desc({grown(Metric.TURNS_WITHHELD, RANGE, (*ARMS, CAUSE))} > 0"
            f" or {grown(Metric.TURNS_WITHHELD, RANGE)} == 0)",
            legend(*ARMS, CAUSE),
        ),
    ).decimals(0)
    yield coloured(
        bars(
            Said(
                "Withheld by cause over time",
                "Withheld turns in each bar, by arm, variant and first cause.",
                "say how many pairs are behind a bar: one pair can withhold many turns.",
            ),
            TURNS,
            Query(
                grown(Metric.TURNS_WITHHELD, BAR, (*ARMS, CAUSE)),
                legend(*ARMS, CAUSE),
                exemplars=True,
            ),
        ),
        [cause.value for cause in WithheldCause],
    )
    missing, credited = grown(Metric.TURNS_WITHHELD, HOUR), grown(Metric.TURNS_AVOIDED, HOUR)
    yield (
        lines(
            Said(
                "Share withheld",
                "Of the turns that candidates did without in the hour before each point, the"
                " share that earns nothing. The alert on a jump looks at the same figure.",
                "exist where nothing was saved: avoided and withheld are both 0 then.",
            ),
            SHARE,
            Query(f"{missing} / (({filled(credited, missing)} + {missing}) > 0)", BY_ARM),
        )
        .min(0)
        .max(1)
    )


def noise() -> Iterator[Drawn]:
    """Yield the panels of a row: what two equal control runs show of themselves."""
    avoided, added, pairs = (
        total(each) for each in (Metric.TURNS_AVOIDED, Metric.TURNS_ADDED, Metric.PAIRS_DECIDED)
    )
    chance, loss, equal = (
        total(each, ()) for each in (Metric.NULL_AVOIDED, Metric.NULL_ADDED, Metric.NULL_PAIRS)
    )
    yield dashed(
        lines(
            Said(
                "Net per pair, beside the noise floor",
                "Turns avoided less turns added for each decided pair since the ledger began,"
                " beside what two equal control runs show of themselves: what the first has above"
                " the second by chance, and their own net. A saving means something only where"
                " its line is clear of the dashed ones.",
                "give an interval: `turnavoid report` does, over independent inputs. Controls and"
                " candidates are different accounts, shown side by side and never added.",
            ),
            TURNS,
            Query(f"({net(avoided, added, pairs)}) / ({pairs} > 0)", BY_ARM),
            Query(f"{chance} / ({equal} > 0)", "equal controls: avoided by chance"),
            Query(f"({chance} - {loss}) / ({equal} > 0)", "equal controls: net"),
            width=16,
        ),
        "/^equal controls/",
    ).decimals(2)
    yield figures(
        Said(
            "Equal controls since the ledger began",
            "Turns 'avoided' and 'added' between two runs of the control on the same input:"
            " chance alone.",
            "belong to any arm: nothing was changed between these runs. The turns are those of"
            " the account `null`.",
        ),
        TURNS,
        Query(chance, "avoided by chance"),
        Query(loss, "added by chance"),
        width=4,
    ).decimals(0)
    yield figures(
        Said(
            "Pairs of equal controls",
            "How many pairs of control runs the floor rests on since the ledger began.",
            "count pairs with a candidate. With a few only, the floor itself is chance.",
        ),
        PAIRS,
        Query(equal, "pairs"),
        width=4,
    ).decimals(0)


def verdicts() -> Iterator[Drawn]:
    """Yield the panels of a row: what the turns rest on."""
    yield coloured(
        bars(
            Said(
                "Runs by outcome",
                "Runs in each bar by their final outcome; only paired ones reach the accounts.",
                "follow the choice of arm, variant and comparison: a run that was refused may"
                " have none.",
            ),
            RUNS,
            Query(grown(Metric.RUNS_OBSERVED, BAR, (OUTCOME,)), legend(OUTCOME)),
        ),
        [outcome.value for outcome in Outcome],
    )
    yield coloured(
        bars(
            Said(
                "Pairs by lifecycle",
                "Pairs decided in each bar, by how far the change got; only `realized` can earn.",
                "mean that a realized pair earned something.",
            ),
            PAIRS,
            Query(
                grown(Metric.PAIRS_DECIDED, BAR, (*ARMS, LIFECYCLE)),
                legend(*ARMS, LIFECYCLE),
            ),
        ),
        [lifecycle.value for lifecycle in Lifecycle],
    )
    yield figures(
        Said(
            "Verdicts contradicted since the ledger began",
            "Final verdicts that evidence arriving later speaks against.",
            "change any account: a verdict is final, the contradiction is counted beside it.",
        ),
        VERDICTS,
        Query(total(Metric.VERDICTS_CONTRADICTED), BY_ARM),
        width=8,
    ).decimals(0)
