"""Delivery: section 3 of the requirements, each rule under its number."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import grpc
import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import (
    OTLPSpanExporter as HttpSpanExporter,
)
from opentelemetry.sdk.trace.export import SpanExportResult

from otel_turnavoid.collector.answer import RETRY_AFTER_S, Trouble
from otel_turnavoid.collector.config import parse
from otel_turnavoid.collector.processor import Processor
from otel_turnavoid.collector.rpc_status import CODES
from otel_turnavoid.errors import LedgerError
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.store import Ledger
from otel_turnavoid.testing import observation, run_spans, shatter
from otel_turnavoid.vocabulary import WithheldCause

RETRYABLE = {
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DATA_LOSS,
}


@pytest.fixture
def gate():
    """Hold every commit until the gate is opened; ``entered`` says that one waits."""

    class Gate:
        def __init__(self) -> None:
            self.opened, self.entered = threading.Event(), threading.Event()

    gate, real = Gate(), Ledger.add

    def add(self, *facts, **options):
        gate.entered.set()
        assert gate.opened.wait(60)
        return real(self, *facts, **options)

    with mock.patch.object(Ledger, "add", add):
        yield gate
        gate.opened.set()


@pytest.mark.parametrize("way", ["export", "post"])
def test_3_1_success_is_answered_only_after_the_commit(start, request_of, run_id, gate, way):
    running = start()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(getattr(running, way), request_of.SerializeToString())
        assert gate.entered.wait(60)

        assert (answer.done(), running.stored(run_id)) == (False, [])

        gate.opened.set()
        answer.result()
    assert len(running.stored(run_id)) == 5


def test_3_2_a_request_sent_again_over_either_protocol_is_stored_once(start, request_of, run_id):
    running, body = start(), request_of.SerializeToString()
    running.export(body)
    before = running.stored(run_id)

    running.export(body)
    running.post(body)

    assert running.stored(run_id) == before
    assert running.metric("turnavoid_processor_duplicates_total") == 10


def test_3_2_an_observation_sent_again_is_stored_once(start, run_id):
    running, body = start(), observation(run_id)

    running.export(body, "logs")
    running.post(body, "logs")

    assert running.metric("turnavoid_processor_stored_items_total") == 1
    assert running.metric("turnavoid_processor_duplicates_total") == 1


def test_3_3_a_retryable_code_is_given_to_passing_troubles_and_to_nothing_else():
    by_number = {code.value[0]: code for code in grpc.StatusCode}

    passing = {trouble for trouble, code in CODES.items() if by_number[code] in RETRYABLE}

    assert passing == {Trouble.UNAVAILABLE}


def test_3_3_the_sdk_drops_what_was_bad_and_does_not_send_it_again(running, sdk_spans):
    exporter = OTLPSpanExporter(running.grpc_endpoint, insecure=True)
    before = running.metric("turnavoid_receiver_requests_total", outcome="failure")
    with mock.patch("otel_turnavoid.dialects.Reader.read", side_effect=RuntimeError("a bug")):
        assert exporter.export(sdk_spans) is SpanExportResult.FAILURE
    exporter.shutdown()

    assert running.metric("turnavoid_receiver_requests_total", outcome="failure") == before + 1


@pytest.mark.parametrize("make", [OTLPSpanExporter, HttpSpanExporter])
def test_3_4_a_partial_success_is_not_sent_again_and_seen_in_metrics_and_log(
    start, sdk_spans, run_id, caplog, make
):
    """The SDK's exporters look at no partial success: what they sent is simply gone."""
    running = start(receiver="max_item_attributes: 20")
    over_grpc = make is OTLPSpanExporter
    exporter = (
        make(running.grpc_endpoint, insecure=True)
        if over_grpc
        else make(f"{running.http_endpoint}/v1/traces")
    )

    assert exporter.export(sdk_spans) is SpanExportResult.SUCCESS
    exporter.shutdown()

    transport = "grpc" if over_grpc else "http"
    assert running.metric("turnavoid_receiver_refused_spans_total", transport=transport) == 2
    assert running.metric("turnavoid_receiver_requests_total") == 1
    assert running.stored(run_id) == []
    said = [record.getMessage() for record in caplog.records if "refused" in record.getMessage()]
    assert said == [f"some traces over {transport} are refused singly"]


def test_3_4_the_log_says_it_once_however_often_it_happens(start, caplog):
    running = start()
    for _ in range(5):
        running.refused(b"\x0a\xff")

    said = [record.getMessage() for record in caplog.records if "refused" in record.getMessage()]
    assert said == ["requests with traces over grpc are refused: bad data"]


def test_3_5_the_delay_asked_for_leaves_room_for_retries_within_ten_seconds():
    """The SDK gives up when the delay exceeds what is left of its ten seconds."""
    assert RETRY_AFTER_S * 5 < 10


@pytest.mark.parametrize("make", [OTLPSpanExporter, HttpSpanExporter])
def test_3_5_after_several_refusals_the_sdk_still_delivers(start, sdk_spans, run_id, make):
    running, real = start(), Ledger.add
    troubles = [LedgerError("database is locked")] * 2

    def add(self, *facts, **options):
        if troubles:
            raise troubles.pop()
        return real(self, *facts, **options)

    exporter = (
        make(running.grpc_endpoint, insecure=True)
        if make is OTLPSpanExporter
        else make(f"{running.http_endpoint}/v1/traces")
    )
    with mock.patch.object(Ledger, "add", add):
        assert exporter.export(sdk_spans) is SpanExportResult.SUCCESS
    exporter.shutdown()
    assert len(running.stored(run_id)) == 2


def pair(running, name, **candidate):
    """Send a control of three turns, a candidate of one, and what an observer saw of both."""
    control, reuse = f"{name}-control", f"{name}-reuse"
    running.export(run_spans(run_id=control, turns=3, task=name))
    running.export(
        run_spans(run_id=reuse, arm="exact-reuse", turns=1, task=name, instance="b", **candidate)
    )
    running.export(observation(control), "logs")
    running.export(observation(reuse), "logs")


def test_3_6_a_span_that_is_missing_proves_nothing(start, clock, run_id, until):
    running = start(clock)
    pair(running, run_id, lost=(2,))
    clock.wait_over()

    [decided] = until(running.accounts)

    assert decided.avoided == 0
    assert WithheldCause.INCOMPLETE_RUN in decided.causes


def test_3_6_with_every_span_there_it_earns_credit(start, run_id, until):
    running = start()
    pair(running, run_id)

    [decided] = until(running.accounts)

    assert (decided.avoided, decided.causes) == (2, ())


def test_3_7_a_full_ledger_is_a_passing_error_and_never_a_silent_drop(running, request_of, run_id):
    body = request_of.SerializeToString()
    with mock.patch.object(Ledger, "add", side_effect=LedgerError("disk is full")):
        assert running.refused(body).code is grpc.StatusCode.UNAVAILABLE
        assert running.post(body).status_code == 503
    assert running.stored(run_id) == []

    running.post(body)
    assert len(running.stored(run_id)) == 5


def test_3_7_too_little_memory_is_a_passing_error(start, request_of):
    running = start(processors="memory_limiter: {limit_mib: 2, spike_limit_mib: 1}")
    body = request_of.SerializeToString()

    refusal, response = running.refused(body), running.post(body)

    assert (refusal.code, refusal.message) == (
        grpc.StatusCode.UNAVAILABLE,
        "too little memory is left",
    )
    assert "google.rpc.retryinfo-bin" in refusal.metadata
    assert (response.status_code, response.headers["retry-after"]) == (503, "1")


def test_3_8_spans_in_any_order_and_any_requests_are_one_run(start, run_id, until):
    """Every span in a request of its own, children before parents, over both protocols."""
    running, name = start(), run_id
    requests = [
        *shatter(run_spans(run_id=f"{name}-control", turns=3, task=name)),
        *shatter(
            run_spans(run_id=f"{name}-reuse", arm="exact-reuse", turns=1, task=name, instance="b")
        ),
    ]
    random.Random(8).shuffle(requests)
    for number, request in enumerate(requests):
        (running.export if number % 2 else running.post)(request)
    for each in ("control", "reuse"):
        running.post(observation(f"{name}-{each}"), "logs")

    [decided] = until(running.accounts)

    assert (decided.avoided, decided.causes) == (2, ())


def test_3_9_what_is_incomplete_waits_for_the_decision_wait_and_late_spans_start_no_new_run(
    start, clock, run_id, until
):
    running = start(clock)
    control, reuse = f"{run_id}-control", f"{run_id}-reuse"
    whole = run_spans(run_id=reuse, arm="exact-reuse", turns=1, task=run_id, instance="b")
    *early, late = shatter(whole)
    running.export(run_spans(run_id=control, turns=3, task=run_id))
    for request in early:
        running.export(request)
    clock.wait_over()
    [decided] = until(running.accounts)
    assert decided.avoided == 0

    running.export(late)
    until(lambda: running.metric("turnavoid_processor_decision_lag_seconds") == 0)

    assert running.accounts() == [decided]


def test_3_9_by_default_it_waits_for_ten_minutes():
    assert Settings().decision_wait_ns == 600 * 10**9


DEAD = """
service:
  pipelines:
    traces: {receivers: [otlp], processors: [turnavoid], exporters: [otlp_http/dead]}
    logs: {receivers: [otlp], processors: [turnavoid], exporters: [otlp_http/dead]}
    metrics: {receivers: [turnavoid], exporters: [prometheus, otlp_http/dead]}
"""


def test_3_10_a_destination_that_is_dead_blocks_neither_ledger_nor_senders(
    start, request_of, run_id
):
    running = start(
        exporters='otlp_http/dead: {endpoint: "http://127.0.0.1:9", timeout: 1s}', rest=DEAD
    )

    for _ in range(20):
        assert running.export(request_of.SerializeToString()) == b""
    assert len(running.stored(run_id)) == 5


def test_3_11_a_stop_commits_what_is_in_flight_and_takes_nothing_more(
    start, request_of, run_id, gate, until
):
    running = start()
    body = request_of.SerializeToString()
    with ThreadPoolExecutor(2) as pool:
        answer = pool.submit(running.export, body)
        assert gate.entered.wait(60)
        stopped = pool.submit(running.processor.stop)
        until(lambda: not reachable(running))
        gate.opened.set()
        stopped.result()
        assert answer.result() == b""

    assert len(running.stored(run_id)) == 5


def reachable(running) -> bool:
    try:
        running.connect().close()
    except OSError:
        return False
    return True


def test_3_11_stopping_is_safe_twice_and_without_a_start(tmp_path):
    config = parse('receivers: {otlp: {protocols: {http: {endpoint: "localhost:0"}}}}', env={})
    never = Processor(config, ledger_url=f"sqlite:///{tmp_path / 'never.db'}")
    never.stop()

    config = parse(
        """
        receivers: {otlp: {protocols: {http: {endpoint: "localhost:0"}}}}
        exporters: {prometheus: {endpoint: "localhost:0"}}
        """,
        env={},
    )
    once = Processor(config, ledger_url=f"sqlite:///{tmp_path / 'once.db'}")
    once.start()
    once.stop()
    once.stop()

    assert not once.running
