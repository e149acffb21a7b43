"""``turnavoid collect`` from outside: what it says and how it ends."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

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


def refused(folder: Path, *arguments: str) -> tuple[int, str, str]:
    process = collect(folder, *arguments)
    output, errors = process.communicate(timeout=30)
    return process.returncode, output, errors


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_where_it_listens_and_a_signal_ends_it_with_0(tmp_path, number):
    (tmp_path / "c.yaml").write_text(CONFIG)
    process = collect(tmp_path, "--config", "c.yaml")
    assert process.stderr is not None

    said = [process.stderr.readline() for _ in range(4)]
    process.send_signal(number)
    output, _ = process.communicate(timeout=30)

    assert [re.sub(r":\d+\b", ":PORT", line) for line in said] == [
        "OTLP/gRPC and LedgerService at 127.0.0.1:PORT\n",
        "OTLP/HTTP at http://127.0.0.1:PORT\n",
        "metrics at http://127.0.0.1:PORT/metrics\n",
        "ledger sqlite:///turnavoid.db\n",
    ]
    assert (process.returncode, output) == (0, "")
    assert (tmp_path / "turnavoid.db").exists()


def test_the_ledger_of_the_command_line_wins(tmp_path):
    (tmp_path / "c.yaml").write_text(f"{CONFIG}\nextensions: {{ledger: {{url: sqlite:///a.db}}}}")
    process = collect(tmp_path, "--config", "c.yaml", "--ledger", "sqlite:///b.db")
    assert process.stderr is not None

    said = [process.stderr.readline() for _ in range(4)]
    process.terminate()
    process.communicate(timeout=30)

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
