"""``turnavoid collect`` from outside: what it says and how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from otel_turnavoid.store import Ledger
from otel_turnavoid.testing import run_spans

CONFIG = """
receivers:
  otlp:
    protocols:
      grpc: {endpoint: "127.0.0.1:0"}
      http: {endpoint: "127.0.0.1:0"}
exporters: {prometheus: {endpoint: "127.0.0.1:0"}}
"""


def collect(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    environment.pop("TURNAVOID_LEDGER", None)
    return subprocess.Popen(
        [sys.executable, "-m", "otel_turnavoid", "collect", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=environment,
    )


DRAINING = """
receivers: {otlp: {protocols: {http: {endpoint: "127.0.0.1:0"}}}}
exporters:
  otlphttp/dead: {endpoint: "http://127.0.0.1:9", retry_on_failure: {initial_interval: 1h}}
extensions: {health_check: {endpoint: "127.0.0.1:0"}}
service:
  extensions: [health_check]
  pipelines: {traces: {receivers: [otlp], processors: [turnavoid]}}
  telemetry: {logs: {encoding: json, level: debug}}
  shutdown_timeout: 1s
"""
BODY = run_spans(run_id="in-flight", turns=2)


def started(folder: Path, config: str) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    """Start a processor that logs JSON; return it and where it listens."""
    (folder / "c.yaml").write_text(config)
    process = collect(folder, "--config", "c.yaml")
    assert process.stderr is not None
    for line in process.stderr:
        said = json.loads(line)
        if said["msg"] == "listening":
            return process, said
    raise AssertionError("it ended before it listened")


def half_sent(place: str) -> socket.socket:
    """Send half of a request."""
    host, _, port = place.removeprefix("http://").partition(":")
    connection = socket.create_connection((host, int(port)))
    connection.settimeout(60)
    head = (
        f"POST /v1/traces HTTP/1.1\r\nhost: {host}\r\ncontent-length: {len(BODY)}\r\n"
        "content-type: application/x-protobuf\r\n\r\n"
    )
    connection.sendall(head.encode() + BODY[:20])
    return connection


def waits(process: subprocess.Popen[str], message: str) -> list[dict[str, Any]]:
    """Read the log until a line says ``message``."""
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(json.loads(line))
        if said[-1]["msg"] == message:
            return said
    raise AssertionError(f"it never said {message!r}: {said}")


def refused(folder: Path, *arguments: str) -> tuple[int, str, str]:
    process = collect(folder, *arguments)
    output, errors = process.communicate(timeout=60)
    return process.returncode, output, errors


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_where_it_listens_and_a_signal_ends_it_with_0(tmp_path, number):
    (tmp_path / "c.yaml").write_text(CONFIG)
    process = collect(tmp_path, "--config", "c.yaml")
    assert process.stderr is not None

    said = [process.stderr.readline() for _ in range(5)]
    process.send_signal(number)
    output, _ = process.communicate(timeout=60)

    assert [re.sub(r":\d+\b", ":PORT", line) for line in said] == [
        "OTLP/gRPC and LedgerService at 127.0.0.1:PORT\n",
        "OTLP/HTTP at http://127.0.0.1:PORT\n",
        "pages at http://127.0.0.1:PORT/\n",
        "metrics at http://127.0.0.1:PORT/metrics\n",
        "ledger sqlite:///turnavoid.db\n",
    ]
    assert (process.returncode, output) == (0, "")
    assert (tmp_path / "turnavoid.db").exists()


def test_the_ledger_of_the_command_line_wins(tmp_path):
    (tmp_path / "c.yaml").write_text(f"{CONFIG}\nextensions: {{ledger: {{url: sqlite:///a.db}}}}")
    process = collect(tmp_path, "--config", "c.yaml", "--ledger", "sqlite:///b.db")
    assert process.stderr is not None

    said = [process.stderr.readline() for _ in range(5)]
    process.terminate()
    process.communicate(timeout=60)

    assert said[-1] == "ledger sqlite:///b.db\n"
    assert not (tmp_path / "a.db").exists()


def test_a_bad_configuration_is_one_line_and_2(tmp_path):
    (tmp_path / "c.yaml").write_text("processors: {turnavoid: {decision_wait: soon}}")

    assert refused(tmp_path, "--config", "c.yaml") == (
        2,
        "",
        (
            "turnavoid collect: processors.turnavoid.decision_wait: "
            "wants a duration such as 10m, 500ms or 1h30m, got 'soon'\n"
        ),
    )


def test_a_configuration_that_is_not_there_is_one_line_and_2(tmp_path):
    assert refused(tmp_path, "--config", "c.yaml") == (
        2,
        "",
        "turnavoid collect: c.yaml: cannot be read: no such file or directory\n",
    )


def test_a_taken_port_is_one_line_and_2(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        (tmp_path / "c.yaml").write_text(
            CONFIG.replace(
                'http: {endpoint: "127.0.0.1:0"}', f'http: {{endpoint: "127.0.0.1:{port}"}}'
            )
        )

        assert refused(tmp_path, "--config", "c.yaml") == (
            2,
            "",
            (
                "turnavoid collect: receivers.otlp.protocols.http.endpoint: "
                f"cannot listen on 127.0.0.1:{port}: address already in use\n"
            ),
        )


def test_a_ledger_that_cannot_be_opened_is_one_line_and_2(tmp_path):
    (tmp_path / "c.yaml").write_text(CONFIG)

    assert refused(tmp_path, "--config", "c.yaml", "--ledger", "sqlite:///no/l.db") == (
        2,
        "",
        "turnavoid collect: sqlite:///no/l.db: the folder no does not exist\n",
    )


def test_as_json_it_says_where_it_listens_in_one_line(tmp_path):
    process, said = started(tmp_path, DRAINING)
    process.terminate()
    process.communicate(timeout=60)

    assert {"ts", "level", "logger", "msg"} <= set(said)
    assert said["http"].startswith("http://127.0.0.1:")
    assert said["health"].startswith("http://127.0.0.1:")
    assert (said["grpc"], said["metrics"], said["ledger"]) == (None, [], "sqlite:///turnavoid.db")
    assert process.returncode == 0


def test_a_request_in_flight_is_answered_and_kept_before_it_ends(tmp_path):
    process, said = started(tmp_path, DRAINING)
    with half_sent(said["http"]) as connection:
        process.terminate()
        waits(process, "stopping: draining what was accepted")
        connection.sendall(BODY[20:])
        answer = connection.recv(1000)
    process.communicate(timeout=60)

    assert answer.startswith(b"HTTP/1.1 200 ")
    assert process.returncode == 0
    with Ledger.open(f"sqlite:///{tmp_path / 'turnavoid.db'}") as ledger:
        assert [line.run.run_id for line in ledger.runs()] == ["in-flight"]


def test_a_request_that_does_not_come_is_waited_for_no_longer_than_the_limit(tmp_path):
    # Nothing else ends it: the request itself may take an hour.
    process, said = started(tmp_path, DRAINING.replace(':0"}', ':0", read_timeout: 1h}', 1))
    with half_sent(said["http"]):
        began = time.monotonic()
        process.terminate()
        process.communicate(timeout=60)

    assert process.returncode == 0
    assert time.monotonic() - began > 0.5


def test_while_it_drains_it_is_live_and_not_ready(tmp_path):
    process, said = started(tmp_path, DRAINING)
    with half_sent(said["http"]):
        process.terminate()
        waits(process, "stopping: draining what was accepted")
        live, ready = (
            httpx.get(f"{said['health']}/{path}", timeout=60) for path in ("health", "ready")
        )
    process.communicate(timeout=60)

    assert live.status_code == 200
    assert (ready.status_code, ready.json()["reasons"]) == (503, ["stopping"])


def test_what_waits_for_a_dead_backend_stays_queued_and_is_not_waited_for(tmp_path):
    config = DRAINING.replace(
        "processors: [turnavoid]}", "processors: [turnavoid], exporters: [otlphttp/dead]}"
    )
    process, said = started(tmp_path, config)
    answer = httpx.post(
        f"{said['http']}/v1/traces",
        content=BODY,
        headers={"content-type": "application/x-protobuf"},
        timeout=60,
    )
    waits(process, "otlphttp/dead: the backend takes no exports: ConnectionRefusedError")
    process.terminate()
    _, errors = process.communicate(timeout=60)
    again, _ = started(tmp_path, config)
    again.terminate()
    again.communicate(timeout=60)

    assert answer.status_code == 200
    assert process.returncode == 0
    assert "otlphttp/dead: 1 requests stay queued" in errors


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_it_at_once(tmp_path, second):
    process, said = started(
        tmp_path, DRAINING.replace("shutdown_timeout: 1s", "shutdown_timeout: 1h")
    )
    with half_sent(said["http"]):
        process.terminate()
        waits(process, "stopping: draining what was accepted")
        process.send_signal(second)
        process.communicate(timeout=60)

    assert process.returncode == -second


def test_systemd_hears_when_it_is_ready_and_when_it_stops(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.settimeout(60)
        manager.bind(str(tmp_path / "notify"))
        os.environ["NOTIFY_SOCKET"] = str(tmp_path / "notify")
        try:
            process, _ = started(tmp_path, DRAINING)
        finally:
            del os.environ["NOTIFY_SOCKET"]
        first = manager.recv(100)
        process.terminate()
        process.communicate(timeout=60)

        assert (first, manager.recv(100)) == (b"READY=1", b"STOPPING=1")


def test_what_cannot_be_drained_in_time_is_cut_off_and_said(tmp_path):
    """Somebody else holds the ledger: the request was not acknowledged, so nothing is lost."""
    process, said = started(tmp_path, DRAINING)
    with closing(sqlite3.connect(tmp_path / "turnavoid.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with half_sent(said["http"]) as connection:
            connection.sendall(BODY[20:])
            process.terminate()
            _, errors = process.communicate(timeout=60)

    assert process.returncode == 0
    assert json.loads(errors.splitlines()[-1])["msg"] == (
        "not drained in time; the next start goes on with what is in the ledger"
    )
