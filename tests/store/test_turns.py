"""Threads write in the order in which they asked."""

from __future__ import annotations

import threading
import time
from statistics import median
from typing import Any

import pytest

from otel_turnavoid.errors import LedgerError
from otel_turnavoid.store.turns import Turns

DEADLINE_S = 60.0


def wait_for(turns: Turns, count: int) -> None:
    """Return when so many threads wait."""
    deadline, tick = time.monotonic() + DEADLINE_S, threading.Event()
    while len(turns._waiting) != count:
        assert time.monotonic() < deadline, f"{count} threads never waited"
        tick.wait(0.01)


def test_turns_come_in_the_order_in_which_they_were_asked_for() -> None:
    turns, order = Turns(), []

    def work(number: int) -> None:
        with turns.turn(DEADLINE_S):
            order.append(number)

    threads = []
    with turns.turn(DEADLINE_S):
        for number in range(5):
            threads.append(threading.Thread(target=work, args=(number,)))
            threads[-1].start()
            wait_for(turns, number + 1)
    for thread in threads:
        thread.join()

    assert order == [0, 1, 2, 3, 4]


def test_who_asks_again_at_once_comes_after_those_who_wait() -> None:
    turns, order = Turns(), []

    def other() -> None:
        with turns.turn(DEADLINE_S):
            order.append("other")

    thread = threading.Thread(target=other)
    with turns.turn(DEADLINE_S):
        thread.start()
        wait_for(turns, 1)
    with turns.turn(DEADLINE_S):
        order.append("again")
    thread.join()

    assert order == ["other", "again"]


def test_who_waits_too_long_is_told_and_stands_in_nobodys_way() -> None:
    turns = Turns()
    with turns.turn(DEADLINE_S), pytest.raises(LedgerError) as caught, turns.turn(0):
        pass

    assert str(caught.value) == "the ledger was busy for 0 s"
    with turns.turn(0):
        pass


def test_a_turn_ends_with_an_error_too() -> None:
    turns = Turns()
    with pytest.raises(ZeroDivisionError), turns.turn(0):
        raise ZeroDivisionError

    with turns.turn(0):
        pass


def test_a_ledger_that_is_written_without_pause_still_takes_what_others_bring(bench: Any) -> None:
    """As deciding does while it works off a backlog."""
    stop, writes = threading.Event(), []

    def write_on() -> None:
        while not stop.is_set():
            with bench.ledger._database.write() as connection:
                connection.exec_driver_sql("UPDATE turnavoid_ledger SET pruned_ns = pruned_ns + 1")
            writes.append(1)

    busy = threading.Thread(target=write_on)
    busy.start()
    while not writes:
        pass
    between = []
    for _ in range(20):
        before = len(writes)
        bench.ledger.release("nobody")
        between.append(len(writes) - before)
    stop.set()
    busy.join()

    # The median: the machine may stop this thread at any moment, and others write on meanwhile.
    assert median(between) <= 3
