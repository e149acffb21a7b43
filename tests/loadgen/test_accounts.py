"""What a load must come to, from the contract: small cases, counted by hand."""

from __future__ import annotations

from otel_turnavoid.loadgen.accounts import Accounts, Sent
from otel_turnavoid.vocabulary import Arm

INVOKE, FIRST_TURN, FIRST_CALL, FIRST_TOOL, SECOND_TURN, SECOND_CALL = 0, 2, 3, 4, 5, 6


def control(turns=4, lost=()):
    return Sent(Arm.CONTROL, turns, lost)


def candidate(turns=3, lost=(), **spoiled):
    return Sent(Arm.FUSED_BATCH, turns, lost, **spoiled)


def accounts(before, after):
    found = Accounts()
    found.add_pair(before, after)
    return found


def test_a_turn_that_disappeared_is_avoided():
    assert accounts(control(4), candidate(3)).as_json() == {
        "committed": {"control": 4, "fused-batch": 3},
        "avoided": 1,
        "withheld": {},
        "added": 0,
        "pairs": 1,
        "runs": {"paired": 2},
        "tools": {"control": 4, "fused-batch": 3},
        "waiting": 0,
        "facts": 14 + 11 + 2,
        "duplicates": 0,
    }


def test_a_turn_that_the_candidate_added_is_added():
    found = accounts(control(3), candidate(5))

    assert (found.avoided, found.added, dict(found.withheld)) == (0, 2, {})


def test_a_lost_span_makes_credit_withheld_as_an_incomplete_run():
    found = accounts(control(4), candidate(3, lost={FIRST_TOOL}))

    assert (found.avoided, dict(found.withheld)) == (0, {"incomplete-run": 1})


def test_turns_of_an_incomplete_run_count_as_far_as_seen():
    found = accounts(control(4), candidate(3, lost={FIRST_TURN, FIRST_CALL}))

    assert found.committed == {"control": 4, "fused-batch": 2}
    assert (found.avoided, dict(found.withheld)) == (0, {"incomplete-run": 2})


def test_a_turn_shows_by_its_call_alone_or_its_span_alone():
    assert candidate(3, lost={FIRST_TURN}).seen_turns == 3
    assert candidate(3, lost={FIRST_CALL}).seen_turns == 3


def test_a_span_without_its_call_and_a_call_without_its_span_are_counted_once():
    assert candidate(3, lost={FIRST_TURN, SECOND_CALL}).seen_turns == 2


def test_without_its_invoke_a_run_stands_in_no_pair():
    found = accounts(control(4, lost={INVOKE}), candidate(3))

    assert (found.pairs, found.avoided) == (0, 0)
    assert found.runs == {"incomplete": 1, "unpaired": 1}


def test_a_run_of_which_nothing_is_sent_is_nowhere():
    found = accounts(control(1, lost=range(5)), candidate(1))

    assert found.runs == {"unpaired": 1}


def test_causes_show_in_the_order_of_the_contract():
    spoiled = [
        ({"failed": True, "lost": {1}, "observed": False}, "run-not-completed"),
        ({"lost": {1}, "observed": False, "suppressed": True}, "incomplete-run"),
        ({"observed": False, "suppressed": True}, "effects-unobserved"),
        ({"suppressed": True}, "effects-suppressed"),
    ]

    for how, cause in spoiled:
        assert dict(accounts(control(4), candidate(3, **how)).withheld) == {cause: 1}


def test_what_lacks_evidence_waits_for_the_decision_wait():
    assert accounts(control(), candidate(observed=False)).waiting == 1
    assert accounts(control(lost={1}), candidate()).waiting == 1
    assert accounts(control(), candidate(suppressed=True)).waiting == 0
