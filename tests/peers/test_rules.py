"""The alert rules, run by promtool on made-up series with and without suffixes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from otel_turnavoid.collector import telemetry
from otel_turnavoid.dashboards import RULES, Places, bundle
from otel_turnavoid.publish.prometheus import label_name
from otel_turnavoid.vocabulary import Kind, Metric

pytestmark = pytest.mark.peers

JOB = {"job": "otel_turnavoid"}
AT = {**JOB, "instance": "localhost:9464"}
REUSE = {
    **AT,
    "turnavoid_arm": "exact-reuse",
    "turnavoid_evidence": "declared",
}
FIRED_FOR = {key: value for key, value in REUSE.items() if key != "instance"}

CALM = 180
"""Minutes in which all is well, before something happens."""

SUFFIXES = {"s": "_seconds", "By": "_bytes"}


def name(instrument, *, suffixes):
    plain = label_name(instrument.name)
    if not suffixes:
        return plain
    total = "_total" if instrument.kind is Kind.COUNTER else ""
    return plain + SUFFIXES.get(instrument.unit, "") + total


def labels(values):
    return "{" + ", ".join(f'{key}="{value}"' for key, value in sorted(values.items())) + "}"


@pytest.fixture
def rules(tmp_path):
    file = tmp_path / RULES.name
    file.write_bytes(bundle(Places(tmp_path, "http://p", "http://j"))[RULES])
    return file


@pytest.fixture(params=[True, False], ids=["with suffixes", "without suffixes"])
def firing(request, peers, rules):
    """Check what fires at the end of a minute, and nothing else, as promtool sees it."""

    def check(series, expected, *, at):
        test = {
            "rule_files": [str(rules)],
            "evaluation_interval": "1m",
            "tests": [
                {
                    "interval": "1m",
                    "input_series": [
                        {"series": found + labels(told), "values": values}
                        for instrument, told, values in series
                        for found in [name(instrument, suffixes=request.param)]
                    ],
                    "promql_expr_test": [
                        {
                            "expr": 'ALERTS{alertstate="firing"}',
                            "eval_time": f"{at}m",
                            "exp_samples": [
                                {
                                    "labels": "ALERTS"
                                    + labels(
                                        {
                                            **told,
                                            "alertname": alert,
                                            "alertstate": "firing",
                                            "severity": severity,
                                        }
                                    ),
                                    "value": 1,
                                }
                                for alert, severity, told in expected
                            ],
                        }
                    ],
                }
            ],
        }
        run(peers, rules, test)

    return check


def run(peers, rules, test):
    file = rules.with_name("test.yml")
    file.write_text(yaml.safe_dump(test))
    promtool = peers.program("promtool")
    done = subprocess.run(
        [promtool, "test", "rules", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def healthy(*other, without=()):
    """A processor that decides a pair a minute, and series in place of its own."""
    long = 2 * CALM
    usual = [
        (Metric.PAIRS_DECIDED, REUSE, f"0+1x{long}"),
        (Metric.TURNS_AVOIDED, REUSE, f"0+3x{long}"),
        (Metric.TURNS_WITHHELD, REUSE, f"0+1x{long}"),
        (Metric.EFFECTS_SUPPRESSED, REUSE, f"0x{long}"),
        (Metric.VERDICTS_CONTRADICTED, REUSE, f"0x{long}"),
        (telemetry.LEDGER_FAILURES, AT, f"0x{long}"),
        (telemetry.READY, AT, f"1x{long}"),
        (telemetry.DECISION_LAG, AT, f"1x{long}"),
        (telemetry.QUEUE_CAPACITY, {**AT, "exporter": "otlp"}, f"100x{long}"),
        (telemetry.QUEUE_SIZE, {**AT, "exporter": "otlp"}, f"49x{long}"),
    ]
    replaced = {each[0] for each in other} | set(without)
    return [each for each in usual if each[0] not in replaced] + list(other)


def from_now(calm, then, minutes):
    """Values: so many calm minutes, then so many of another pace; each a start, a step."""
    (start, step), (jump, pace) = calm, then
    last = start + step * CALM
    return f"{start}+{step}x{CALM} {last + jump}+{pace}x{minutes}"


def test_promtool_takes_the_rules(peers, rules):
    done = subprocess.run(
        [peers.program("promtool"), "check", "rules", "--lint=all", "--lint-fatal", str(rules)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_nothing_fires_while_all_is_well(firing):
    firing(healthy(), [], at=2 * CALM)


def test_a_restart_fires_nothing(firing):
    """The accounts go on; the processor's own counters begin at 0 again, after a gap."""
    down = "_x5"
    firing(
        healthy(
            (Metric.PAIRS_DECIDED, REUSE, f"0+1x{CALM} {down} {CALM}+1x60"),
            (Metric.TURNS_AVOIDED, REUSE, f"0+3x{CALM} {down} {3 * CALM}+3x60"),
            (Metric.TURNS_WITHHELD, REUSE, f"0+1x{CALM} {down} {CALM}+1x60"),
            (Metric.EFFECTS_SUPPRESSED, REUSE, f"7x{CALM} {down} 7x60"),
            (Metric.VERDICTS_CONTRADICTED, REUSE, f"2x{CALM} {down} 2x60"),
            (telemetry.LEDGER_FAILURES, AT, f"4x{CALM} {down} 0x60"),
            (telemetry.SEND_FAILED_SPANS, {**AT, "exporter": "otlp"}, f"9x{CALM} {down} 0x60"),
        ),
        [],
        at=CALM + 30,
    )


JUMP = ("TurnAvoidWithheldShareJumps", "warning", FIRED_FOR)


def test_a_jump_of_the_withheld_share_fires(firing):
    avoided = (Metric.TURNS_AVOIDED, REUSE, from_now((0, 3), (0, 0), 120))
    withheld = (Metric.TURNS_WITHHELD, REUSE, from_now((0, 1), (0, 4), 120))

    firing(healthy(avoided, withheld), [JUMP], at=CALM + 70)


def test_a_share_that_grows_a_little_or_rests_on_few_pairs_fires_nothing(firing):
    withheld = (Metric.TURNS_WITHHELD, REUSE, from_now((0, 1), (0, 2), 120))
    firing(healthy(withheld), [], at=CALM + 70)

    few = (Metric.PAIRS_DECIDED, REUSE, f"0+1x{CALM} {CALM}+0x30 {CALM + 1}+1x7 {CALM + 8}+0x80")
    avoided = (Metric.TURNS_AVOIDED, REUSE, from_now((0, 3), (0, 0), 120))
    withheld = (Metric.TURNS_WITHHELD, REUSE, from_now((0, 1), (0, 4), 120))
    firing(healthy(few, avoided, withheld), [], at=CALM + 75)


@pytest.mark.parametrize(
    ("instrument", "alert", "severity"),
    [
        (Metric.EFFECTS_SUPPRESSED, "TurnAvoidEffectsSuppressed", "critical"),
        (Metric.VERDICTS_CONTRADICTED, "TurnAvoidVerdictsContradicted", "warning"),
    ],
)
def test_one_event_fires_for_an_hour_a_new_series_too(firing, instrument, alert, severity):
    once = (instrument, REUSE, f"0x{CALM} 1x120")
    firing(healthy(once), [(alert, severity, FIRED_FOR)], at=CALM + 50)
    firing(healthy(once), [], at=CALM + 70)

    new = {**REUSE, "turnavoid_variant": "v2"}
    born = (instrument, new, f"_x{CALM} 3x120")
    told = {**FIRED_FOR, "turnavoid_variant": "v2"}
    firing(healthy(born), [(alert, severity, told)], at=CALM + 50)
    firing(healthy(born), [], at=CALM + 70)


def test_no_pair_for_an_hour_and_a_half_fires(firing):
    stopped = (Metric.PAIRS_DECIDED, REUSE, f"0+1x{CALM} {CALM}x300")

    firing(healthy(stopped), [], at=CALM + 85)
    firing(healthy(stopped), [("TurnAvoidNoPairsDecided", "warning", JOB)], at=CALM + 95)


def test_no_series_at_all_fire(firing):
    firing([], [("TurnAvoidMetricsAbsent", "critical", {})], at=15)


def test_an_overflow_series_fires(firing):
    overflow = (Metric.TURNS_ADDED, {**AT, "otel_metric_overflow": "true"}, f"0x{CALM}")

    firing(healthy(overflow), [("TurnAvoidSeriesOverflow", "warning", JOB)], at=10)


OTLP = {**AT, "exporter": "otlp"}


def test_a_queue_that_fills_fires(firing):
    filling = (telemetry.QUEUE_SIZE, OTLP, f"10x{CALM} 51x60")

    firing(healthy(filling), [("TurnAvoidQueueFilling", "warning", OTLP)], at=CALM + 10)


@pytest.mark.parametrize(
    ("instrument", "told", "alert", "severity"),
    [
        (telemetry.ENQUEUE_FAILED_SPANS, OTLP, "TurnAvoidQueueFull", "critical"),
        (telemetry.ENQUEUE_FAILED_RECORDS, OTLP, "TurnAvoidQueueFull", "critical"),
        (telemetry.SEND_FAILED_SPANS, OTLP, "TurnAvoidForwardingGivesUp", "critical"),
        (telemetry.SEND_FAILED_RECORDS, OTLP, "TurnAvoidForwardingGivesUp", "critical"),
        (telemetry.LEDGER_FAILURES, AT, "TurnAvoidLedgerNotWritable", "critical"),
    ],
)
def test_a_failure_in_the_last_minutes_fires(firing, instrument, told, alert, severity):
    once = (instrument, told, f"0x{CALM} 5x60")

    firing(healthy(once), [(alert, severity, told)], at=CALM + 4)
    firing(healthy(once), [], at=CALM + 10)


@pytest.mark.parametrize(
    ("outcome", "alert", "minutes"),
    [("failure", "TurnAvoidRequestsFailing", 5), ("refused", "TurnAvoidRequestsRefused", 15)],
)
def test_requests_that_keep_failing_or_being_refused_fire(firing, outcome, alert, minutes):
    told = {**AT, "transport": "grpc", "signal": "traces", "outcome": outcome}
    requests = (telemetry.REQUESTS, told, f"0x{CALM} 1+1x60")

    firing(healthy(requests), [], at=CALM + minutes)
    firing(healthy(requests), [(alert, "warning", AT)], at=CALM + minutes + 3)


@pytest.mark.parametrize(
    ("instrument", "told", "alert", "minutes"),
    [
        (
            telemetry.REFUSED_CREDENTIALS,
            {**AT, "transport": "grpc", "reason": "forbidden"},
            "TurnAvoidCredentialsRefused",
            8,
        ),
        (telemetry.REFUSED_BY_ROLE, {**AT, "role": "agent"}, "TurnAvoidCredentialsRefused", 8),
        (telemetry.EXPIRED_RUNS, {**AT, "reason": "limit"}, "TurnAvoidOpenRunsLimited", 3),
        (telemetry.SEND_FAILED_POINTS, OTLP, "TurnAvoidMetricsNotPushed", 18),
    ],
)
def test_what_goes_on_for_a_while_fires(firing, instrument, told, alert, minutes):
    where = OTLP if "exporter" in told else AT
    going_on = (instrument, told, f"0x{CALM} 1+1x60")

    firing(healthy(going_on), [(alert, "warning", where)], at=CALM + minutes)


def test_runs_that_expire_by_age_fire_nothing(firing):
    expired = (telemetry.EXPIRED_RUNS, {**AT, "reason": "age"}, f"0x{CALM} 1+1x60")

    firing(healthy(expired), [], at=CALM + 30)


def test_a_processor_that_is_not_ready_for_five_minutes_fires(firing):
    refusing = (telemetry.READY, AT, f"1x{CALM} 0x60")

    firing(healthy(refusing), [], at=CALM + 3)
    firing(healthy(refusing), [("TurnAvoidNotReady", "critical", AT)], at=CALM + 10)


def test_decisions_that_lag_for_five_minutes_fire(firing):
    late = (telemetry.DECISION_LAG, AT, f"1x{CALM} 61x60")

    firing(healthy(late), [], at=CALM + 3)
    firing(healthy(late), [("TurnAvoidDecisionsLate", "warning", AT)], at=CALM + 10)


def test_an_alert_says_what_happened_and_where_to_read_on(peers, rules):
    queue = name(telemetry.QUEUE_SIZE, suffixes=True), name(telemetry.QUEUE_CAPACITY, suffixes=True)
    pairs = name(Metric.PAIRS_DECIDED, suffixes=True)
    series = {
        queue[0] + labels(OTLP): "90x20",
        queue[1] + labels(OTLP): "100x20",
        pairs + labels(REUSE): "0+1x20",
    }
    said = {
        "summary": "localhost:9464: the queue to otlp is filling",
        "description": "90% of the forwarding queue is taken: the backend takes less than arrives.",
        "runbook": "docs/grafana.md#turnavoidqueuefilling",
    }
    alert = {"exp_labels": {"severity": "warning", **OTLP}, "exp_annotations": said}
    test = {
        "rule_files": [str(rules)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {"series": each, "values": values} for each, values in series.items()
                ],
                "alert_rule_test": [
                    {
                        "eval_time": "10m",
                        "alertname": "TurnAvoidQueueFilling",
                        "exp_alerts": [alert],
                    }
                ],
            }
        ],
    }
    run(peers, rules, test)


def test_every_alert_of_the_rules_is_fired_by_a_test(rules):
    groups = yaml.safe_load(rules.read_text())["groups"]
    alerts = {rule["alert"] for group in groups for rule in group["rules"]}
    source = Path(__file__).read_text(encoding="utf-8")

    assert {alert for alert in alerts if f'"{alert}"' not in source} == set()
