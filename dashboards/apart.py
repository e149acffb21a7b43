"""Rows of the accounts that stand apart from turns: each by itself, none added to another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dashboards.panels import (
    CALLS,
    COUNT,
    DOLLARS,
    EFFECTS,
    SECONDS,
    TURNS,
    Drawn,
    Said,
    bars,
    coloured,
    lines,
)
from dashboards.promql import (
    ARM,
    ARMS,
    BAR,
    chosen,
    grown,
    summed,
    total,
)
from dashboards.queries import BY_ARM, Query, legend, with_control
from otel_turnavoid.publish.prometheus import label_name
from otel_turnavoid.vocabulary import (
    Attr,
    Disposition,
    Instrument,
    Metric,
    ToolDisposition,
)

OUTCOME: Final = label_name(Attr.OUTCOME)
COMPONENT: Final = label_name(Attr.COMPONENT)
BASIS: Final = label_name(Attr.BASIS)
OVERHEAD: Final = label_name(Attr.OVERHEAD_KIND)
TOKENS: Final = label_name(Attr.TOKEN_TYPE)


def retained() -> Iterator[Drawn]:
    """Yield the panels of a row: turns that were kept and made cheaper."""
    yield bars(
        Said(
            "Turns made cheaper",
            "Pairs in each bar whose candidate kept a turn and made it cheaper, as the mechanism"
            " says.",
            "count as avoided: the turn took place.",
        ),
        TURNS,
        Query(grown(Metric.RETAINED_CHEAPER, BAR), BY_ARM),
    )
    yield bars(
        Said(
            "Tokens reduced in kept turns",
            "Tokens that kept turns needed less, as the mechanism attributed them.",
            "come from a comparison, and it is not subtracted from the tokens used.",
        ),
        COUNT,
        Query(grown(Metric.RETAINED_TOKENS, BAR), BY_ARM),
    )
    yield bars(
        Said(
            "Time reduced in kept turns",
            "Time that kept turns took less, as the mechanism attributed it.",
            "come from a comparison, and it is not part of the time saved.",
        ),
        SECONDS,
        Query(grown(Metric.RETAINED_LATENCY, BAR), BY_ARM),
    )


def tools() -> Iterator[Drawn]:
    """Yield the panels of a row: tool executions."""
    yield bars(
        Said(
            "Tool calls executed",
            "Tool executions in each bar of runs in decided pairs, each run once.",
            "say anything about model turns: fewer tool calls are no avoided turn.",
        ),
        CALLS,
        *with_control(Metric.TOOLS_EXECUTED),
    )
    yield bars(
        Said(
            "Tool calls avoided",
            "Tool executions that candidates did without, where their pair has no cause to"
            " withhold.",
            "count model turns, and it is never added to them.",
        ),
        CALLS,
        Query(grown(Metric.TOOLS_AVOIDED, BAR), BY_ARM),
    )
    yield lines(
        Said(
            "Mean tool batch",
            "Tool executions between one model turn and the next: how many, and the longest chain"
            " of them that ran one after the other; means since the ledger began.",
            "show single batches: one of 12 among many of 1 hardly moves a mean.",
        ),
        CALLS,
        *(
            Query(
                f"{_of(instrument, 'sum')} / ({_of(instrument, 'count')} > 0)",
                f"{legend(ARM)} {word}",
            )
            for instrument, word in (
                (Metric.TOOL_BATCH_SIZE, "size"),
                (Metric.TOOL_BATCH_DEPTH, "depth"),
            )
        ),
    ).decimals(1)


def speculation() -> Iterator[Drawn]:
    """Yield the panels of a row: what was done ahead of time."""
    # A word may be the outcome of a model call and of a tool execution.
    outcomes = dict.fromkeys(each.value for each in (*Disposition, *ToolDisposition))
    yield coloured(
        bars(
            Said(
                "Speculative calls by outcome",
                "Model calls and tool executions made ahead of time, by what became of them.",
                "count turns: a discarded call is no committed turn, and a committed one no"
                " avoided turn.",
            ),
            CALLS,
            Query(
                grown(Metric.SPECULATION_CALLS, BAR, (*ARMS, OUTCOME)),
                legend(*ARMS, OUTCOME),
            ),
            width=24,
        ),
        list(outcomes),
    )


def effects() -> Iterator[Drawn]:
    """Yield the panels of a row: what observers saw."""
    yield bars(
        Said(
            "Effects preserved",
            "Required effects of controls that the observer saw in the candidates too.",
            "rest on what an agent says: only on an independent observer.",
        ),
        EFFECTS,
        Query(grown(Metric.EFFECTS_PRESERVED, BAR), BY_ARM),
        width=12,
    )
    yield bars(
        Said(
            "Effects suppressed",
            "Required effects of controls that the observer did not see in the candidates. Every"
            " one of them is a task that the change may have broken.",
            "include effects of runs that nobody observed.",
        ),
        EFFECTS,
        Query(grown(Metric.EFFECTS_SUPPRESSED, BAR), BY_ARM),
        width=12,
    )


def work() -> Iterator[Drawn]:
    """Yield the panels of a row: time and money before overhead, the overhead, and savings."""
    for unit, what, done, overhead, saved in (
        (SECONDS, "Time", Metric.WORK_DURATION, Metric.OVERHEAD_DURATION, Metric.SAVED_DURATION),
        (DOLLARS, "Cost", Metric.WORK_COST, Metric.OVERHEAD_COST, Metric.SAVED_COST),
    ):
        stated = " as stated; what nobody stated is missing, not free" if unit is DOLLARS else ""
        yield bars(
            Said(
                f"{what} of work",
                f"{what} of model calls and tools in each bar before overhead, each run"
                f" once{stated}.",
                "include validation, speculation, retries and recovery: they stand beside it.",
            ),
            unit,
            *with_control(done, COMPONENT),
        )
        yield bars(
            Said(
                f"{what} of overhead",
                f"{what} of validation, speculation, retries and recovery in each bar{stated}.",
                "belong to the work before overhead.",
            ),
            unit,
            *with_control(overhead, OVERHEAD),
        )
        yield lines(
            Said(
                f"{what} saved since the ledger began",
                f"Control {what.lower()} less candidate {what.lower()} over decided pairs: gross,"
                " and net of the overhead. It falls where candidates take more.",
                "need an avoided turn, and it earns none: time and money are accounts of their"
                " own.",
            ),
            unit,
            Query(total(saved, (*ARMS, BASIS)), legend(*ARMS, BASIS)),
        )


def tokens() -> Iterator[Drawn]:
    """Yield the panels of a row: tokens as providers count them."""
    yield bars(
        Said(
            "Tokens used by type",
            "Tokens as the provider counted them in each bar, each run once. Cache figures are"
            " parts of input, reasoning of output.",
            "add types to each other, and fewer tokens are no avoided turn.",
        ),
        COUNT,
        *with_control(Metric.TOKENS_USED, TOKENS),
        width=24,
    )


def _of(histogram: Instrument, part: str) -> str:
    candidates, control = (
        summed((ARM,), chosen(histogram, part=part, control=control)) for control in (False, True)
    )
    return f"({candidates} or {control})"
