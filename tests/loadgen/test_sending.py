"""A load does what the receiver says, at its pace, and knows what became of everything."""

from __future__ import annotations

import asyncio

import pytest

from otel_turnavoid.forward import RetryPolicy, Signal
from otel_turnavoid.forward.outcome import Delivered, Failed, Retry
from otel_turnavoid.loadgen import Load, Pace, Plan, shipments

SOON = RetryPolicy(initial_interval_s=0.001, max_interval_s=0.001, max_elapsed_s=3600)


class Receiver:
    """Answers from a list, then takes everything."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.bodies = []

    async def send(self, request):
        self.bodies.append(request.body)
        return self.answers.pop(0) if self.answers else Delivered()

    async def close(self):
        pass

    def __getitem__(self, signal):
        assert isinstance(signal, Signal)
        return self


def sent(plan, receiver, **pace):
    return asyncio.run(Load(shipments(plan), receiver, Pace(**{"retry": SOON, **pace})).run())


def test_everything_is_sent_and_acknowledged():
    plan, receiver = Plan(seed=1, runs=20, batch=4), Receiver()

    tally = sent(plan, receiver)

    expected = [export.body for each in shipments(plan) for export in each.exports]
    assert sorted(receiver.bodies) == sorted(expected)
    assert (tally.runs, tally.acknowledged, tally.exact) == (20, len(expected), True)
    assert tally.accounts.avoided == 10


def test_an_odd_number_of_runs_is_filled_up_to_a_pair():
    assert sent(Plan(seed=1, runs=7, batch=2), Receiver()).runs == 8


def test_duplicates_are_sent_twice_and_counted_once():
    receiver = Receiver()

    tally = sent(Plan(seed=1, runs=2, duplicates=1.0), receiver)

    assert len(receiver.bodies) == 6
    assert len(set(receiver.bodies)) == 3
    assert (tally.runs, tally.spans) == (2, 25)
    assert tally.accounts.duplicates == 27


def test_a_retry_sends_the_same_bytes_again():
    receiver = Receiver(Retry("UNAVAILABLE"))

    tally = sent(Plan(seed=1, runs=2), receiver, workers=1)

    assert receiver.bodies[0] == receiver.bodies[1]
    assert (tally.retried, tally.runs, tally.exact) == (1, 2, True)


def test_no_retry_comes_earlier_than_the_receiver_asks():
    waited = []

    class Timed(Receiver):
        async def send(self, request):
            waited.append(asyncio.get_running_loop().time())
            return await super().send(request)

    sent(Plan(seed=1, runs=2), Timed(Retry("UNAVAILABLE", after_s=0.1)), workers=1)

    assert waited[1] - waited[0] >= 0.1


def test_a_request_that_is_given_up_ends_the_load():
    receiver = Receiver(*[Retry("UNAVAILABLE", after_s=0.05)] * 100)

    tally = sent(
        Plan(seed=1, runs=1000), receiver, workers=1, retry=SOON._replace(max_elapsed_s=0.2)
    )

    assert dict(tally.failed) == {"given up after UNAVAILABLE": 1}
    assert (tally.runs, tally.exact) == (0, False)


def test_a_final_refusal_ends_the_load_and_is_named():
    tally = sent(Plan(seed=1, runs=1000), Receiver(Failed("UNAUTHENTICATED")), workers=1)

    assert dict(tally.failed) == {"UNAUTHENTICATED": 1}
    assert tally.acknowledged == 0


def test_what_is_refused_singly_is_counted_and_makes_the_accounts_inexact():
    tally = sent(Plan(seed=1, runs=2), Receiver(Delivered(rejected=3)), workers=1)

    assert (tally.rejected, tally.exact) == (3, False)


def test_runs_start_no_faster_than_the_pace():
    tally = sent(Plan(seed=1, runs=40, batch=1), Receiver(), runs_per_s=200.0)

    assert tally.elapsed_s >= 38 / 200


def test_the_duration_ends_an_endless_plan():
    """The second shipment of eight runs would be due after 80 seconds."""
    tally = sent(Plan(seed=1), Receiver(), runs_per_s=0.1, duration_s=60.0)

    assert tally.runs == 8


def test_an_ended_load_begins_no_more_shipments():
    plan = Plan(seed=1)

    async def ended_at_once():
        load = Load(shipments(plan), Receiver(), Pace(workers=1), arrived=lambda _: load.end())
        return await load.run()

    assert asyncio.run(ended_at_once()).runs == 8


@pytest.mark.parametrize("workers", [1, 5])
def test_the_accounts_do_not_depend_on_the_workers(workers):
    tally = sent(Plan(seed=2, runs=60, lost=0.05), Receiver(), workers=workers)

    expected = [
        each.accounts.withheld["incomplete-run"] for each in shipments(Plan(2, 60, lost=0.05))
    ]
    assert tally.accounts.withheld["incomplete-run"] == sum(expected)
