"""The dashboard of the processors themselves, from the table of their own telemetry.

What the table has and no panel here names gets one by itself in the last row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.models import dashboard as model

from dashboards import variables
from dashboards.panels import (
    BYTES,
    COLOURS,
    COUNT,
    SECONDS,
    SHARE,
    Drawn,
    Said,
    figures,
    lines,
)
from dashboards.promql import BAR, OVERFLOW, every, summed
from dashboards.queries import Query, legend
from otel_turnavoid.collector import telemetry
from otel_turnavoid.collector.telemetry import Own
from otel_turnavoid.publish.prometheus import label_name
from otel_turnavoid.vocabulary import Kind

UID: Final = "turnavoid-operations"
TITLE: Final = "Turn avoidance: operations"

A_SECOND: Final = "suffix: /s"
JOB: Final = 'job=~"$job"'
INSTANCE: Final = ("job", "instance")

TABLE: Final = tuple(value for value in vars(telemetry).values() if isinstance(value, Own))
"""Every instrument of the processor's own."""

_UNITS: Final = {"s": SECONDS, "By": BYTES}
_SHOWN: Final = {
    Kind.COUNTER: "Per second.",
    Kind.UP_DOWN: "As it is at each moment.",
    Kind.HISTOGRAM: "Half of all were below the first line, 99 of 100 below the second.",
}
_PROCESS = "carry over a restart: these series begin at 0 with each process."


def build() -> dashboard.Dashboard:
    """Return the dashboard."""
    built = (
        dashboard.Dashboard(TITLE)
        .uid(UID)
        .description(
            "What the processors say about themselves: intake, deciding, ledger, forwarding."
        )
        .tags(["turnavoid"])
        .time("now-3h", "now")
        .refresh("30s")
        .timezone("browser")
        .editable()
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .variables(variables.processors())
        .link(
            dashboard.DashboardLink("Turn avoidance")
            .type(model.DashboardLinkType.LINK)
            .url("/d/turnavoid-turns")
            .keep_time(keep_time=True)
        )
    )
    shown: set[Own] = set()
    for title, panels in _rows(shown):
        built.with_row(dashboard.Row(title))
        for panel in panels:
            built.with_panel(panel)
    if rest := [each for each in TABLE if each not in shown]:
        built.with_row(dashboard.Row("More"))
        for each in rest:
            built.with_panel(_own(set(), each.name, _PROCESS, each))
    return built


def _rows(shown: set[Own]) -> Iterator[tuple[str, Iterable[Drawn]]]:
    yield "Processes", list(_processes(shown))
    yield "Intake", list(_intake(shown))
    yield "Deciding", list(_deciding(shown))
    yield "Ledger", list(_ledger(shown))
    yield "Forwarding", list(_forwarding(shown))


def _processes(shown: set[Own]) -> Iterator[Drawn]:
    yield _own(
        shown,
        "Ready",
        "say that a processor is there at all: one that is down has no line.",
        telemetry.READY,
    )
    shown |= {telemetry.UPTIME}
    yield lines(
        Said(
            "Uptime",
            f"uptime: {telemetry.UPTIME.description} A line that begins again is a restart.",
            "concern the accounts: they go on over a restart.",
        ),
        SECONDS,
        Query(summed(INSTANCE, every(telemetry.UPTIME, JOB)), legend("instance")),
    ).min(0)
    yield _own(
        shown,
        "Processor time",
        "include agents or databases: only the process of `turnavoid collect`.",
        telemetry.CPU_TIME,
    ).unit("suffix: cores")
    yield _own(
        shown,
        "Memory",
        "have to fall after a peak: what was freed may stay with the process.",
        telemetry.MEMORY,
    )


def _intake(shown: set[Own]) -> Iterator[Drawn]:
    yield _own(
        shown,
        "Requests answered",
        "count spans. `refused` is the sender's fault, `failure` ours: the sender comes back.",
        telemetry.REQUESTS,
    )
    yield _own(
        shown,
        "Spans",
        "count only spans of agents: ignored ones are taken too.",
        telemetry.ACCEPTED_SPANS,
        telemetry.REFUSED_SPANS,
    )
    yield _own(
        shown,
        "Log records",
        "count only observations: other log records are taken and ignored.",
        telemetry.ACCEPTED_RECORDS,
        telemetry.REFUSED_RECORDS,
    )
    yield _own(
        shown,
        "Requests waiting for their commit",
        "mean that anything is lost: they are not answered yet. Steadily many: the ledger is too"
        " slow.",
        telemetry.PENDING_REQUESTS,
    )
    yield _own(
        shown,
        "Time to an answer",
        "include the network.",
        telemetry.REQUEST_DURATION,
    )
    yield _own(
        shown,
        "Refused credentials",
        "name the sender: the log does.",
        telemetry.REFUSED_CREDENTIALS,
        telemetry.REFUSED_BY_ROLE,
    )


def _deciding(shown: set[Own]) -> Iterator[Drawn]:
    yield _own(
        shown,
        "Facts and observations",
        "count runs. Duplicates are normal where senders retry.",
        telemetry.FACTS,
        telemetry.DUPLICATES,
        telemetry.IGNORED,
    )
    yield _own(
        shown,
        "Decisions",
        "show what was decided: the other dashboard does.",
        telemetry.DECISIONS,
    )
    yield _own(
        shown,
        "Decision lag",
        "include the waits that the configuration asks for (`settle`, `decision_wait`).",
        telemetry.DECISION_LAG,
    )
    yield _own(
        shown,
        "Time of a round",
        "say how many decisions a round made.",
        telemetry.ROUND_DURATION,
    )
    yield _own(
        shown,
        "Runs that expired",
        "include runs that stood in a pair.",
        telemetry.EXPIRED_RUNS,
    )


def _ledger(shown: set[Own]) -> Iterator[Drawn]:
    yield _own(
        shown,
        "Ledger failures",
        "mean lost spans: what was not committed was not acknowledged.",
        telemetry.LEDGER_FAILURES,
    )
    yield _own(
        shown,
        "Ledger size",
        "exist for ledgers in PostgreSQL.",
        telemetry.LEDGER_SIZE,
    )
    yield _own(
        shown,
        "Time of a commit",
        "include the wait for earlier commits.",
        telemetry.BATCH_DURATION,
    )
    yield _own(
        shown,
        "Requests in a commit",
        "mean slowness: many requests share one flush to disk.",
        telemetry.BATCH_SIZE,
    )
    yield _own(
        shown,
        "Left out and removed",
        "change a figure: decisions stay, whatever retention removes.",
        telemetry.LATE,
        telemetry.PRUNED,
    )
    overflow = f'count({{__name__=~"turnavoid_.+", {OVERFLOW}="true", {JOB}}}) or vector(0)'
    yield (
        figures(
            Said(
                "Instruments beyond their limit of series",
                "How many instruments have an overflow series: more names (variants, agents,"
                " experiments) than 2000 series hold.",
                "lose anything: the totals stand in the overflow series, without names.",
            ),
            COUNT,
            Query(overflow, "instruments"),
            width=8,
        )
        .decimals(0)
        .height(8)
    )


def _forwarding(shown: set[Own]) -> Iterator[Drawn]:
    size, capacity = (
        summed((*INSTANCE, "exporter"), every(each, JOB))
        for each in (telemetry.QUEUE_SIZE, telemetry.QUEUE_CAPACITY)
    )
    shown |= {telemetry.QUEUE_CAPACITY}
    yield (
        lines(
            Said(
                "Queue used",
                "Share of each exporter's queue that is taken. At 1 senders are told to come"
                " back; an alert comes earlier.",
                "exist where nothing is forwarded.",
            ),
            SHARE,
            Query(f"{size} / ({capacity} > 0)", "{{exporter}} {{instance}}"),
        )
        .min(0)
        .max(1)
    )
    yield _own(
        shown,
        "Queue length",
        "mean trouble while it falls again.",
        telemetry.QUEUE_SIZE,
    )
    yield _own(
        shown,
        "Sent",
        "count what other instances sent: each has its own queue.",
        telemetry.SENT_SPANS,
        telemetry.SENT_RECORDS,
    )
    yield _own(
        shown,
        "Given up",
        "include what is still being retried.",
        telemetry.SEND_FAILED_SPANS,
        telemetry.SEND_FAILED_RECORDS,
    )
    yield _own(
        shown,
        "Not queued",
        "mean loss: their senders were told to come back.",
        telemetry.ENQUEUE_FAILED_SPANS,
        telemetry.ENQUEUE_FAILED_RECORDS,
    )
    yield _own(
        shown,
        "Metrics pushed",
        "mean loss where pushes fail: the next one carries the totals anew.",
        telemetry.SENT_POINTS,
        telemetry.SEND_FAILED_POINTS,
    )


def _own(shown: set[Own], title: str, not_: str, *instruments: Own) -> Drawn:
    """Return a graph of instruments of one kind and unit, with a series for each of their labels.

    Of counters it shows the growth per second, of histograms the median and the 99th percentile.
    """
    shown |= set(instruments)
    first = instruments[0]
    means = " ".join(f"{_word(each)}: {each.description}" for each in instruments)
    queries = [query for each in instruments for query in _queries(each)]
    unit = A_SECOND if first.kind is Kind.COUNTER else _UNITS.get(first.unit, COUNT)
    said = Said(title, f"{means} {_SHOWN[first.kind]}", not_)
    panel = lines(said, unit, *queries).min(0)
    return panel if len(instruments) == 1 else _told_apart(panel, instruments)


def _queries(instrument: Own) -> Iterator[Query]:
    keys = tuple(label_name(key) for key, _ in instrument.labels)
    by, word = (*INSTANCE, *keys), _word(instrument)
    if instrument.kind is Kind.HISTOGRAM:
        grown = f"rate({every(instrument, JOB, part='bucket')}[{BAR}])"
        for share in (0.5, 0.99):
            quantile = f"histogram_quantile({share}, {summed(('le', *by), grown)})"
            yield Query(quantile, f"{word} p{share * 100:g} {legend(*keys, 'instance')}")
        return
    selector = every(instrument, JOB)
    inner = f"rate({selector}[{BAR}])" if instrument.kind is Kind.COUNTER else selector
    yield Query(summed(by, inner), f"{word} {legend(*keys, 'instance')}")


def _told_apart(panel: Drawn, instruments: Iterable[Own]) -> Drawn:
    for at, each in enumerate(instruments):
        value = {"mode": "shades", "fixedColor": COLOURS[at]}
        panel.override_by_regexp(
            f"/^{_word(each)} /", [model.DynamicConfigValue(id_val="color", value=value)]
        )
    return panel


def _word(instrument: Own) -> str:
    """Return what tells an instrument apart within a panel: the last words of its name."""
    return " ".join(instrument.name.replace("_", ".").split(".")[2:])
