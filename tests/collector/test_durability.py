"""Killed at any moment, the processor loses nothing it accepted and counts nothing twice."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
import sqlalchemy

from otel_turnavoid.judge.verdict import PairDecided
from otel_turnavoid.store import Ledger, schema

ROUNDS = 4
PAIRS_A_ROUND = 12
PROTOBUF = {"content-type": "application/x-protobuf"}

CONFIG = """
receivers: {otlp: {protocols: {http: {endpoint: "localhost:0"}}}}
processors: {turnavoid: {settle: 50ms}}
exporters: {}
"""


class Collector:
    """``turnavoid collect`` as a process of its own."""

    def __init__(self, folder: Path, ledger_url: str) -> None:
        path = folder / "collector.yaml"
        path.write_text(CONFIG)
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "otel_turnavoid", "collect"),
                *("--config", str(path), "--ledger", ledger_url),
            ],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONWARNINGS": "error"},
        )
        assert self.process.stderr is not None
        self.said = []
        while True:
            line = self.process.stderr.readline()
            assert line, f"it ended: {self.said}"
            self.said.append(line)
            if found := re.fullmatch(r"OTLP/HTTP at (\S+)\n", line):
                self.url = found[1]
                break
        self._draining = threading.Thread(target=self.process.stderr.read, daemon=True)
        self._draining.start()

    def end(self, number: int) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(number)
        code = self.process.wait(timeout=60)
        self._draining.join()
        assert self.process.stderr is not None
        self.process.stderr.close()
        return code


def bodies(run_request, effects_request, name: str) -> list[tuple[str, bytes]]:
    """Return the requests of one pair whose candidate avoided two turns."""
    control, reuse = f"{name}-control", f"{name}-reuse"
    return [
        ("traces", run_request(control, turns=3, question=name).SerializeToString()),
        ("traces", run_request(reuse, "exact-reuse", 1, question=name).SerializeToString()),
        ("logs", effects_request(control).SerializeToString()),
        ("logs", effects_request(reuse).SerializeToString()),
    ]


def send_until_refused(url: str, requests: list[tuple[str, bytes]], accepted: list[bytes]) -> None:
    """Send in order, noting what was acknowledged, until the other side is gone."""
    with httpx.Client(timeout=60) as client:
        for kind, body in requests:
            try:
                response = client.post(f"{url}/v1/{kind}", content=body, headers=PROTOBUF)
            except httpx.TransportError:
                return
            if response.status_code == 200:
                accepted.append(body)


def test_killed_and_restarted_nothing_accepted_is_lost_and_nothing_counts_twice(
    tmp_path: Path, ledger_url: str, run_request, effects_request, until: Callable
):
    chance = random.Random(7)
    sent: list[tuple[str, bytes]] = []
    for number in range(ROUNDS):
        fresh = [
            request
            for pair in range(PAIRS_A_ROUND)
            for request in bodies(run_request, effects_request, f"q{number}-{pair}")
        ]
        sent += fresh
        collector = Collector(tmp_path, ledger_url)
        accepted: list[bytes] = []
        senders = [
            threading.Thread(
                target=send_until_refused, args=(collector.url, fresh[part::2], accepted)
            )
            for part in range(2)
        ]
        for sender in senders:
            sender.start()
        enough = chance.randrange(1, len(fresh))
        until(lambda accepted=accepted, enough=enough: len(accepted) >= enough)
        collector.end(signal.SIGKILL)
        for sender in senders:
            sender.join()

        assert stored_runs(ledger_url) >= runs_in(accepted, fresh)

    collector = Collector(tmp_path, ledger_url)
    chance.shuffle(sent)
    redelivered: list[bytes] = []
    send_until_refused(collector.url, sent, redelivered)
    assert len(redelivered) == len(sent)
    until(lambda: len(decided(ledger_url)) >= ROUNDS * PAIRS_A_ROUND)
    assert collector.end(signal.SIGTERM) == 0

    pairs = decided(ledger_url)
    expected = {
        (f"q{number}-{pair}-control", f"q{number}-{pair}-reuse")
        for number in range(ROUNDS)
        for pair in range(PAIRS_A_ROUND)
    }
    assert sorted((p.control.run_id, p.candidate.run_id) for p in pairs) == sorted(expected)
    assert {(p.avoided, p.withheld, p.added, p.causes) for p in pairs} == {(2, 0, 0, ())}
    with Ledger.open(ledger_url, create=False) as ledger:
        assert ledger.sizes()["spans"] == len(expected) * (7 + 3)


def runs_in(accepted: list[bytes], requests: list[tuple[str, bytes]]) -> set[str]:
    """Return the run ids in acknowledged trace requests."""
    traces = {body for kind, body in requests if kind == "traces"}
    found = (re.search(rb"q\d+-\d+-(?:control|reuse)", body) for body in accepted if body in traces)
    return {match[0].decode() for match in found if match}


def stored_runs(ledger_url: str) -> set[str]:
    engine = sqlalchemy.create_engine(ledger_url)
    try:
        with engine.connect() as connection:
            rows = connection.execute(sqlalchemy.select(schema.spans.c.run_id).distinct())
            return {row.run_id for row in rows}
    finally:
        engine.dispose()


def decided(ledger_url: str) -> list[PairDecided]:
    with Ledger.open(ledger_url, create=False) as ledger:
        return [made for _, made in ledger.decisions() if isinstance(made, PairDecided)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_what_was_accepted_in_the_ledger(
    tmp_path, ledger_url, run_request, number
):
    collector = Collector(tmp_path, ledger_url)
    body = run_request("r", turns=1).SerializeToString()
    accepted: list[bytes] = []
    send_until_refused(collector.url, [("traces", body)], accepted)

    assert collector.end(number) == 0
    assert accepted == [body]
    with Ledger.open(ledger_url, create=False) as ledger:
        assert ledger.sizes()["spans"] == 3
