"""A part of a run in another process is counted where the run is declared, or nothing is."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any
from urllib.request import Request, urlopen

import pytest
from opentelemetry import baggage, trace

from otel_turnavoid import ContextExecutor, agent_turn, hop, invoke, join, llm_call, tool_turn
from otel_turnavoid.instrument import misuses
from otel_turnavoid.judge.run import Run
from otel_turnavoid.testing import CountingIds, Telemetry
from otel_turnavoid.vocabulary import WithheldCause

Judged = Callable[..., Run]


@pytest.fixture
def remote() -> Telemetry:
    return Telemetry(service="billing", instance="billing-1", ids=CountingIds(1000))


def in_run(telemetry: Telemetry) -> Any:
    return invoke(
        "a", run_id="r", arm="control", input="x", tracer_provider=telemetry.tracer_provider
    )


def serve(remote: Telemetry, headers: dict[str, str]) -> dict[str, str]:
    with join(headers, tracer_provider=remote.tracer_provider) as here:
        with invoke("billing"):
            for question in ("q1", "q2"):
                with llm_call("m", input=question):
                    pass
            with tool_turn("refund"):
                pass
        return here.report()


def test_what_was_reported_back_is_declared_with_the_rest(
    telemetry: Telemetry, remote: Telemetry, judged: Judged
) -> None:
    with in_run(telemetry):
        with llm_call("m", input="q"):
            pass
        with tool_turn("ask_billing"), hop() as away:
            away.report(serve(remote, away.headers()))

    run = judged("r", remote)
    assert (run.problems, run.model_turns, run.llm_calls, run.tool_calls) == ((), 3, 3, 2)
    assert run.evidence.value == "declared"


def test_the_other_side_emits_raw_spans_of_the_run_and_continues_the_trace(
    telemetry: Telemetry, remote: Telemetry
) -> None:
    with in_run(telemetry), hop() as away:
        away.report(serve(remote, away.headers()))

    (outer,) = telemetry.spans
    assert {span.context.trace_id for span in remote.spans} == {outer.context.trace_id}
    for span in remote.spans:
        assert span.attributes["turnavoid.run.id"] == "r"
        assert span.attributes["turnavoid.arm"] == "control"
        assert not {"turnavoid.entry", "turnavoid.seq"} & set(span.attributes)
    assert remote.spans[-1].parent.span_id == outer.context.span_id


def test_hops_may_be_open_at_once(telemetry: Telemetry, remote: Telemetry, judged: Judged) -> None:
    def ask(_: int) -> None:
        with hop() as away:
            away.report(serve(remote, away.headers()))

    with in_run(telemetry), ContextExecutor(ThreadPoolExecutor(3)) as threads:
        list(threads.map(ask, range(3)))

    run = judged("r", remote)
    assert (run.problems, run.llm_calls, run.tool_calls) == ((), 6, 3)


@pytest.mark.parametrize("reply", [None, {}, {"turnavoid-report": "all fine"}])
@pytest.mark.usefixtures("production")
def test_a_hop_that_nothing_came_back_from_leaves_the_run_unproven(
    telemetry: Telemetry, remote: Telemetry, judged: Judged, reply: dict[str, str] | None
) -> None:
    with in_run(telemetry), hop() as away:
        serve(remote, away.headers())
        away.report(reply)

    assert "turnavoid.invoke.entries" not in telemetry.spans[-1].attributes
    assert WithheldCause.COMPLETENESS_UNPROVEN in judged("r", remote).causes
    assert misuses() == {"process": 1}


def test_spans_of_a_hop_that_never_arrive_make_the_run_incomplete(
    telemetry: Telemetry, remote: Telemetry, judged: Judged
) -> None:
    with in_run(telemetry), hop() as away:
        away.report(serve(remote, away.headers()))

    assert judged().causes == (WithheldCause.INCOMPLETE_RUN,)


def test_a_hop_inside_a_hop_is_reported_through(
    telemetry: Telemetry, remote: Telemetry, judged: Judged
) -> None:
    further = Telemetry(service="bank", ids=CountingIds(2000))

    def between(headers: dict[str, str]) -> dict[str, str]:
        with join(headers, tracer_provider=remote.tracer_provider) as here:
            with llm_call("m", input="between"), hop() as away:
                away.report(serve(further, away.headers()))
            return here.report()

    with in_run(telemetry), hop() as away:
        away.report(between(away.headers()))

    assert judged("r", remote, further).problems == ()


def test_instrumented_clients_carry_the_run_by_themselves(telemetry: Telemetry) -> None:
    """A hop puts the run into the current baggage, which propagators inject; only there."""
    with in_run(telemetry):
        assert baggage.get_all() == {}
        with hop() as away:
            assert baggage.get_all() == {"turnavoid.run.id": "r", "turnavoid.arm": "control"}
            away.report("llm_calls=0;tool_turns=0;whole=true")
        assert baggage.get_all() == {}


def test_where_the_caller_is_in_no_run_joining_changes_nothing(remote: Telemetry) -> None:
    with join({"accept": "text/plain"}, tracer_provider=remote.tracer_provider) as here:
        with invoke("b", run_id="own", tracer_provider=remote.tracer_provider), agent_turn():
            pass
        assert (here.run_id, here.report()) == (None, {})

    assert remote.spans[-1].attributes["turnavoid.run.id"] == "own"
    assert remote.spans[-1].attributes["turnavoid.invoke.entries"] == 2


def test_both_work_in_coroutines(telemetry: Telemetry, remote: Telemetry, judged: Judged) -> None:
    async def service(headers: dict[str, str]) -> dict[str, str]:
        async with join(headers, tracer_provider=remote.tracer_provider) as here:
            async with llm_call("m", input="q"):
                await asyncio.sleep(0)
            return here.report()

    async def agent() -> None:
        async with in_run(telemetry), hop() as away:
            away.report(await asyncio.create_task(service(away.headers())))

    asyncio.run(agent())
    assert judged("r", remote).problems == ()
    assert trace.get_current_span() is trace.INVALID_SPAN


def test_over_http(telemetry: Telemetry, remote: Telemetry, judged: Judged) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            reported = serve(remote, dict(self.headers))
            self.send_response(200)
            for name, value in reported.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    server = HTTPServer(("localhost", 0), Handler)
    thread = Thread(target=server.handle_request)
    thread.start()
    url = f"http://localhost:{server.server_address[1]}/"
    with in_run(telemetry), hop() as away:
        request = Request(url, method="POST", headers=away.headers())
        with urlopen(request, timeout=30) as reply:
            away.report(reply.headers)
    thread.join()
    server.server_close()

    assert judged("r", remote).problems == ()


CHILD = """
import sys
from otel_turnavoid import join, llm_call, tool_turn
from otel_turnavoid.testing import CountingIds, Telemetry

telemetry = Telemetry(service="child", ids=CountingIds(3000))
with join(tracer_provider=telemetry.tracer_provider) as here:
    with llm_call("m", input="q"):
        pass
    with tool_turn("t"):
        pass
    report = here.report()
sys.stdout.write(report["turnavoid-report"] + chr(10) + telemetry.trace_request().hex())
"""


def test_over_a_subprocess(telemetry: Telemetry, judged: Judged) -> None:
    with in_run(telemetry), hop() as away:
        environment = os.environ | away.environment()
        assert {"TRACEPARENT", "BAGGAGE"} <= set(away.environment())
        done = subprocess.run(
            [sys.executable, "-c", CHILD], env=environment, capture_output=True, check=True
        )
        report, spans = done.stdout.decode().split("\n")
        away.report(report)

    assert report == "llm_calls=1;tool_turns=1;whole=true"
    child = _Received(bytes.fromhex(spans))
    run = judged("r", child)
    assert (run.problems, run.llm_calls, run.tool_calls) == ((), 1, 1)


class _Received:
    def __init__(self, request: bytes) -> None:
        self._request = request

    def trace_request(self) -> bytes:
        return self._request


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.usefixtures("production")
class TestForkedChildren:
    def test_a_child_takes_no_numbers_and_ends_nothing_of_its_parents(
        self, telemetry: Telemetry
    ) -> None:
        with in_run(telemetry):
            seen = forked(lambda: self._in_child(telemetry))
            with tool_turn("after"):
                pass

        assert seen == [
            {"name": "execute_tool t", "run": "r", "seq": None, "entry": None},
        ]
        assert telemetry.spans[-1].attributes["turnavoid.invoke.entries"] == 2

    def test_a_lock_that_was_held_at_the_fork_does_not_stop_the_child(
        self, telemetry: Telemetry
    ) -> None:
        with in_run(telemetry) as run, run.run._lock:
            assert forked(lambda: self._in_child(telemetry))

    @staticmethod
    def _in_child(telemetry: Telemetry) -> list[dict[str, Any]]:
        with tool_turn("t"):
            pass
        return [
            {
                "name": span.name,
                "run": span.attributes["turnavoid.run.id"],
                "seq": span.attributes.get("turnavoid.seq"),
                "entry": span.attributes.get("turnavoid.entry"),
            }
            for span in telemetry.spans
        ]


def forked(work: Callable[[], Any]) -> Any:
    """Return what ``work`` returns in a forked child."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(writing, json.dumps(work()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text)
