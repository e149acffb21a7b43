"""Alert rules for Prometheus, as one file.

Each alert has a chapter of its name in ``docs/grafana.md``: what it means, what to do.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import yaml

from dashboards.promql import (
    APART,
    ARM,
    OVERFLOW,
    VARIANT,
    every,
    filled,
    increase,
    summed,
)
from otel_turnavoid.collector import telemetry
from otel_turnavoid.collector.telemetry import Own
from otel_turnavoid.vocabulary import Instrument, Metric

JUMP: Final = 0.2
"""By how much the share of an hour must exceed the share of the day before."""
ENOUGH_PAIRS: Final = 10
"""Pairs in an hour from which a share says something."""

_BY: Final = ("job", *APART)
_WHERE: Final = ("job", "instance")
_OF: Final = f"{{{{ $labels.{ARM} }}}} {{{{ $labels.{VARIANT} }}}}"
_AT: Final = "{{ $labels.instance }}"


class Alert(NamedTuple):
    """One rule."""

    name: str
    expression: str
    for_: str
    severity: str
    """``critical``: results or data are in danger now; ``warning``: look today."""
    summary: str
    description: str

    @property
    def rule(self) -> dict[str, object]:
        """The same as Prometheus reads it."""
        return {
            "alert": self.name,
            "expr": self.expression,
            "for": self.for_,
            "labels": {"severity": self.severity},
            "annotations": {
                "summary": self.summary,
                "description": self.description,
                "runbook": f"docs/grafana.md#{self.name.lower()}",
            },
        }


def text() -> str:
    """Return the rule file."""
    groups = [
        {"name": "turnavoid-accounts", "rules": [alert.rule for alert in _accounts()]},
        {"name": "turnavoid-operations", "rules": [alert.rule for alert in _operations()]},
    ]
    header = (
        "# Alert rules of turn avoidance; `make dashboards` writes this file. Names match with and"
        " without the\n# suffixes that Prometheus adds. docs/grafana.md has a chapter for each"
        " alert.\n"
    )
    body = yaml.dump(
        {"groups": groups}, Dumper=_Dumper, sort_keys=False, width=200, allow_unicode=True
    )
    return header + body


def _accounts() -> tuple[Alert, ...]:
    return (
        Alert(
            "TurnAvoidWithheldShareJumps",
            _withheld_share_jumps(),
            "10m",
            "warning",
            f"{_OF}: far more of the saved turns are withheld than before",
            "In the last hour {{ $value | humanizePercentage }} of the turns that candidates did"
            " without were withheld, at least 20 points more than in the day before. Something"
            " that proves savings is missing now.",
        ),
        Alert(
            "TurnAvoidEffectsSuppressed",
            _happened(Metric.EFFECTS_SUPPRESSED),
            "0m",
            "critical",
            f"{_OF}: required effects are missing in candidates",
            "In the last hour an independent observer did not see {{ $value | humanize }}"
            " required effects that the controls of the same inputs had. The change may break"
            " tasks.",
        ),
        Alert(
            "TurnAvoidVerdictsContradicted",
            _happened(Metric.VERDICTS_CONTRADICTED),
            "0m",
            "warning",
            f"{_OF}: late evidence speaks against verdicts",
            "In the last hour evidence came that speaks against {{ $value | humanize }} final"
            " verdicts. The accounts keep them.",
        ),
        Alert(
            "TurnAvoidNoPairsDecided",
            f"{increase(every(Metric.PAIRS_DECIDED), '1h', ('job',))} == 0\n"
            f"and {increase(every(Metric.PAIRS_DECIDED), '1d', ('job',))} > 0",
            "30m",
            "warning",
            "{{ $labels.job }}: no pair was decided for an hour and a half",
            "Pairs were decided in the last day, and none in the last hour: runs stopped"
            " arriving, do not end, or find no partner.",
        ),
        Alert(
            "TurnAvoidMetricsAbsent",
            f"absent({every(Metric.PAIRS_DECIDED)})",
            "10m",
            "critical",
            "No accounts of turn avoidance arrive",
            "Prometheus has no series of the accounts: no processor runs, or none is scraped or"
            " pushes. All other alerts are blind.",
        ),
        Alert(
            "TurnAvoidSeriesOverflow",
            f'count by (job) ({{__name__=~"turnavoid_.+", {OVERFLOW}="true"}}) > 0',
            "0m",
            "warning",
            "{{ $labels.job }}: more names than an instrument has series",
            "{{ $value | humanize }} instruments reached 2000 series; what came after them has"
            " lost its names. Too many variants, agents or experiments are labels.",
        ),
    )


def _operations() -> tuple[Alert, ...]:
    size, capacity = (
        summed((*_WHERE, "exporter"), every(each))
        for each in (telemetry.QUEUE_SIZE, telemetry.QUEUE_CAPACITY)
    )
    return (
        Alert(
            "TurnAvoidNotReady",
            f"{summed(_WHERE, every(telemetry.READY))} == 0",
            "5m",
            "critical",
            f"{_AT}: no exports are taken",
            "The processor tells senders to come back. They lose what they cannot keep.",
        ),
        Alert(
            "TurnAvoidQueueFilling",
            f"{size}\n/ ({capacity} > 0)\n> 0.5",
            "5m",
            "warning",
            f"{_AT}: the queue to {{{{ $labels.exporter }}}} is filling",
            "{{ $value | humanizePercentage }} of the forwarding queue is taken: the backend"
            " takes less than arrives.",
        ),
        Alert(
            "TurnAvoidQueueFull",
            _either(
                telemetry.ENQUEUE_FAILED_SPANS,
                telemetry.ENQUEUE_FAILED_RECORDS,
                by=(*_WHERE, "exporter"),
            ),
            "0m",
            "critical",
            f"{_AT}: the queue to {{{{ $labels.exporter }}}} takes no more",
            "{{ $value | humanize }} spans or log records in five minutes found no room or no"
            " disk. Their senders are told to come back, and lose what they cannot keep.",
        ),
        Alert(
            "TurnAvoidForwardingGivesUp",
            _either(
                telemetry.SEND_FAILED_SPANS,
                telemetry.SEND_FAILED_RECORDS,
                by=(*_WHERE, "exporter"),
            ),
            "0m",
            "critical",
            f"{_AT}: {{{{ $labels.exporter }}}} loses what is forwarded",
            "{{ $value | humanize }} spans or log records in five minutes were refused for good"
            " by the backend, or given up.",
        ),
        Alert(
            "TurnAvoidLedgerNotWritable",
            f"{increase(every(telemetry.LEDGER_FAILURES), '5m', _WHERE)} > 0",
            "1m",
            "critical",
            f"{_AT}: the ledger fails",
            "Commits or decision rounds failed in the last five minutes. Senders are told to come"
            " back; nothing is decided meanwhile.",
        ),
        Alert(
            "TurnAvoidRequestsFailing",
            increase(every(telemetry.REQUESTS, 'outcome="failure"'), "5m", _WHERE) + " > 0",
            "5m",
            "warning",
            f"{_AT}: export requests fail",
            "{{ $value | humanize }} requests in five minutes were not taken although they were"
            " sound: the ledger fails, or more arrives than it can take.",
        ),
        Alert(
            "TurnAvoidRequestsRefused",
            increase(every(telemetry.REQUESTS, 'outcome="refused"'), "5m", _WHERE) + " > 0",
            "15m",
            "warning",
            f"{_AT}: a sender keeps sending what cannot be taken",
            "{{ $value | humanize }} requests in five minutes could not be read or held too much.",
        ),
        Alert(
            "TurnAvoidCredentialsRefused",
            _either(
                telemetry.REFUSED_CREDENTIALS,
                telemetry.REFUSED_BY_ROLE,
                by=_WHERE,
            ),
            "5m",
            "warning",
            f"{_AT}: somebody sends without leave",
            "{{ $value | humanize }} requests or items in five minutes came without a known"
            " credential, or with one whose role may not send them.",
        ),
        Alert(
            "TurnAvoidOpenRunsLimited",
            increase(every(telemetry.EXPIRED_RUNS, 'reason="limit"'), "1h", _WHERE) + " > 0",
            "0m",
            "warning",
            f"{_AT}: runs expire because too many are open",
            "{{ $value | humanize }} runs in the last hour got their final outcome early: what"
            " completes them comes too late to count.",
        ),
        Alert(
            "TurnAvoidMetricsNotPushed",
            increase(every(telemetry.SEND_FAILED_POINTS), "15m", (*_WHERE, "exporter")) + " > 0",
            "15m",
            "warning",
            f"{_AT}: metrics do not reach {{{{ $labels.exporter }}}}",
            "{{ $value | humanize }} data points of pushes failed in fifteen minutes. The next push"
            " that arrives carries the totals.",
        ),
        Alert(
            "TurnAvoidDecisionsLate",
            f"{summed(_WHERE, every(telemetry.DECISION_LAG))} > 60",
            "5m",
            "warning",
            f"{_AT}: decisions lag behind",
            "The oldest commit that no decision round has seen is {{ $value | humanizeDuration }}"
            " old.",
        ),
    )


def _withheld_share_jumps() -> str:
    now, before = _share("1h"), _share("1d", " offset 1h")
    pairs = increase(every(Metric.PAIRS_DECIDED), "1h", _BY)
    return f"{now}\n> {JUMP} +\n{before}\nand\n{pairs} >= {ENOUGH_PAIRS}"


def _share(window: str, offset: str = "") -> str:
    withheld, avoided = (
        summed(_BY, f"increase({every(each)}[{window}]{offset})")
        for each in (Metric.TURNS_WITHHELD, Metric.TURNS_AVOIDED)
    )
    return f"({withheld} / (({filled(avoided, withheld)} + {withheld}) > 0))"


def _happened(instrument: Instrument) -> str:
    """Return what happened in the last hour, a series that was new then included.

    ``increase`` cannot see the event that a series begins with, and the series of a variant, an
    agent or an experiment begin with their first event.
    """
    series = every(instrument)
    new = f"last_over_time({series}[1h]) unless present_over_time({series}[1d] offset 1h)"
    return f"{summed(_BY, f'({new}) or increase({series}[1h])')} > 0"


def _either(*counters: Own, by: tuple[str, ...]) -> str:
    one, other = (increase(every(each), "5m", by) for each in counters)
    return f"({one} > 0)\nor ({other} > 0)"


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as such."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style)


_Dumper.add_representer(str, _text)
