"""Killed at any moment under load, the processor loses nothing and counts nothing twice."""

from __future__ import annotations

import os
import random
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

SEED = 20_260_528
KILLS = int(os.environ.get("TURNAVOID_TEST_KILLS", "50"))
"""Per database and configuration; several hundred take some minutes."""

TASKS_A_LIFE = 3
LONGEST_LIFE_S = 0.4

CONFIG = """
receivers: {otlp: {protocols: {http: {endpoint: "127.0.0.1:0"}}}}
processors: {turnavoid: {settle: 300s, decision_wait: 600s}}
exporters: {prometheus: {endpoint: "127.0.0.1:0"}}
"""
"""Nothing is decided before the end: what is decided early depends on what came early."""

DECIDING = CONFIG.replace("300s", "1ms")
"""Every kill may fall into a round of deciding, too."""


@pytest.mark.parametrize("text", [CONFIG, DECIDING], ids=["undecided", "deciding"])
def test_killed_at_random_moments_nothing_acknowledged_is_lost_and_nothing_counts_twice(
    text: str, scene: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(SEED)
    tasks = KILLS * TASKS_A_LIFE
    load = scene.load(tasks, rng)
    requests = list(load.waiting)
    scene.configure(text)

    starting = 0
    for number in range(KILLS):
        ends = time.monotonic() + rng.uniform(0, LONGEST_LIFE_S)
        life = scene.start()
        # A third counts from the fork, so that opening the ledger and starting are hit as well.
        address = life.up_by(ends) if number % 3 == 0 else life.up()
        if address is None:
            starting += 1
        else:
            if number % 3:
                ends = time.monotonic() + rng.uniform(0, LONGEST_LIFE_S)
            load.start(address)
            time.sleep(max(0, ends - time.monotonic()))
        life.kill()
        load.stop()
        check_file(scene.url)
    last = scene.start()
    load.finish(last.up())
    last.end()

    with capsys.disabled():
        sys.stdout.write(
            f"\n{KILLS} kills (seed {SEED}), {starting} before it listened, {load.unanswered}"
            f" requests unanswered, {len(load.acknowledged)} acknowledged\n"
        )
    assert load.unanswered > KILLS / 4
    scene.check(tasks, requests)


def check_file(url: str) -> None:
    """Check every page and index of a SQLite ledger, as its killed processor left it."""
    path = url.removeprefix("sqlite:///")
    if path == url or not Path(path).exists():
        return
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA quick_check").fetchall() == [("ok",)]
