"""From the facts of one run to the Run: identity, rejections, causes, figures."""

from __future__ import annotations

from itertools import permutations

import msgspec
import pytest
from msgspec.structs import replace

from otel_turnavoid.digest import input_digest
from otel_turnavoid.judge.attribution import inferred_run_id, stray_run_id
from otel_turnavoid.judge.facts import CallDetail, Fault, InvokeDetail, Retained, Usage
from otel_turnavoid.judge.run import Key
from otel_turnavoid.judge.settings import SECOND
from otel_turnavoid.vocabulary import (
    Arm,
    Attr,
    Disposition,
    Entry,
    Evidence,
    InvokeState,
    Lifecycle,
    Mechanism,
    Purpose,
    Reason,
    Rejection,
    ToolDisposition,
    WithheldCause,
)

INFERRED = frozenset(Evidence)
DIGEST = "sha256:" + "1d" * 32
OTHER = "sha256:" + "2e" * 32


def fault(cause, attribute=Attr.LIFECYCLE):
    return (Fault(cause, attribute, "want another"),)


def foreign_run(script, arm=Arm.EXACT_REUSE, **said):
    """What another instrumentation shows of a run, with an arm by configuration."""
    run = script(arm=arm)
    root = run.foreign(Entry.INVOKE, parent_id=None, start_ms=0, ms=9000, arm=arm, **said)
    return run, root


# What the run says of itself


def test_a_run_says_what_its_invoke_and_entries_said(script, assembled) -> None:
    run = script(variant="v1", experiment="exp", unit="u-1", agent="orders").turns(1, tools=1)

    found = assembled(run.done(turn_index=4, decision_basis=3))

    assert (found.run_id, found.evidence, found.arm, found.variant, found.agent) == (
        "k",
        Evidence.DECLARED,
        Arm.EXACT_REUSE,
        "v1",
        "orders",
    )
    assert found.key == Key("exp", DIGEST, "u-1", 4)
    assert (found.mechanism, found.lifecycle, found.reason, found.decision_basis) == (
        Mechanism.EXACT_REUSE,
        Lifecycle.REALIZED,
        Reason.EXACT_MATCH,
        3,
    )
    assert (found.models, found.scopes) == (("gpt-5.1",), ("otel_turnavoid",))
    assert found.identities == (("agent", "agent-k"),)
    assert found.trace_ids == ("trace-of-k",)
    assert (found.start_ns, found.end_ns) == (run.root.start_ns, run.spans[-1].end_ns)


def test_what_a_run_does_not_say_is_unknown_by_name(script, assembled) -> None:
    found = assembled(script().done(mechanism=None, lifecycle=None, reason=None))

    assert (found.mechanism, found.lifecycle, found.reason) == (
        Mechanism.UNKNOWN,
        Lifecycle.UNKNOWN,
        Reason.UNKNOWN,
    )
    assert found.key == Key("", DIGEST, "", 0)
    assert found.decision_basis == -1


def test_a_lifecycle_may_advance_over_a_pause(script, assembled) -> None:
    run = script()
    first = run.done(state=InvokeState.PAUSED, counts=None, lifecycle=Lifecycle.ATTEMPTED)
    last = run.add(Entry.INVOKE, trace_id="later", parent_id=None)
    said = replace(first[0].invoke, state=InvokeState.COMPLETED, counts=run.counts())
    said = replace(said, lifecycle=Lifecycle.REALIZED, mechanism=None)

    found = assembled([*first, replace(last, invoke=said)])

    assert (found.lifecycle, found.mechanism) == (Lifecycle.REALIZED, Mechanism.EXACT_REUSE)


def test_a_sub_agent_says_nothing_about_the_run(script, assembled) -> None:
    run = script()
    inner = run.add(Entry.INVOKE)
    said = replace(run.done()[0].invoke, counts=None, digest=OTHER, lifecycle=Lifecycle.UNKNOWN)
    run.spans[0] = replace(inner, invoke=said)

    found = assembled(run.done())

    assert (found.key.digest, found.lifecycle, found.rejections) == (DIGEST, "realized", ())


# Rejections


@pytest.mark.parametrize("cause", Rejection)
def test_a_fault_on_any_fact_refuses_the_run(script, assembled, cause: Rejection) -> None:
    facts = script().turns(1).done()
    facts[-1] = replace(facts[-1], faults=fault(cause))

    found = assembled(facts)

    assert found.rejections == (cause,)
    assert found.problems == (f"span {facts[-1].span_id}: turnavoid.lifecycle: want another",)


def test_rejections_are_listed_in_the_order_of_the_vocabulary(script, assembled) -> None:
    facts = script().turns(2).done()
    causes = list(Rejection)[::-1]
    faulty = [replace(fact, faults=fault(cause)) for fact, cause in zip(facts, causes, strict=True)]

    assert assembled(faulty).rejections == tuple(Rejection)


def test_a_refused_run_is_kept_with_its_figures(script, assembled) -> None:
    facts = script().turns(3, tools=1).done(faults=fault(Rejection.VOCABULARY))

    found = assembled(facts)

    assert (found.model_turns, found.tool_calls, found.key.digest) == (3, 3, DIGEST)


def test_a_run_without_an_arm_is_refused(script, assembled) -> None:
    """A66."""
    assert assembled(script(arm=None).done()).rejections == (Rejection.ARM_MISSING,)


def test_a_run_that_has_not_ended_may_name_its_arm_yet(script, assembled) -> None:
    [_, *rest] = script(arm=None).turns(1).done()

    assert assembled(rest).rejections == ()


def test_one_entry_that_names_the_arm_is_enough(script, assembled) -> None:
    run = script(arm=None)
    run.turn({}, arm=Arm.FUSED_BATCH)

    found = assembled(run.done())

    assert (found.arm, found.rejections) == (Arm.FUSED_BATCH, ())


def test_a_misspelled_arm_is_refused_for_its_spelling_alone(script, assembled) -> None:
    facts = script(arm=None, faults=fault(Rejection.VOCABULARY, Attr.ARM)).done()

    assert assembled(facts).rejections == (Rejection.VOCABULARY,)


def test_a_run_id_of_two_arms_is_refused_for_that_alone(script, assembled) -> None:
    facts = script().turns(1).done()
    facts[1] = replace(facts[1], arm=Arm.CONTROL)

    found = assembled(facts)

    assert found.rejections == (Rejection.RUN_ID_REUSED,)
    assert found.problems == ("the run id stands for several arms: control, exact-reuse",)


def test_a_run_id_of_two_variants_is_refused(script, assembled) -> None:
    facts = script(variant="a").turns(1).done()
    facts[1] = replace(facts[1], variant="b")

    assert assembled(facts).rejections == (Rejection.RUN_ID_REUSED,)


def test_a_variant_that_only_some_entries_name_is_the_runs(script, assembled) -> None:
    facts = script().turns(1).done(variant="a")

    found = assembled(facts)

    assert (found.variant, found.rejections) == ("a", ())


def test_a_run_id_of_two_inputs_is_refused(script, assembled) -> None:
    one = script().turns(1).done()
    two = script(start_ms=60_000, trace_id="u").turns(2).done(digest=OTHER)

    found = assembled(one + two)

    assert found.rejections == (Rejection.RUN_ID_REUSED,)
    assert WithheldCause.CONFLICTING_EVIDENCE in found.causes


@pytest.mark.parametrize("arm", [Arm.CONTROL, Arm.FUSED_BATCH])
def test_a_run_with_an_arm_and_no_digest_is_refused(script, assembled, arm) -> None:
    found = assembled(script(arm=arm).done(digest=None))

    assert (found.rejections, found.key) == ((Rejection.DIGEST,), None)


@pytest.mark.parametrize(
    ("turn_index", "basis", "leaks"),
    [
        (None, None, False),
        (0, -1, False),
        (None, -1, False),
        (3, 2, False),
        (3, 3, True),
        (3, 4, True),
        (None, 0, True),
    ],
)
def test_a_decision_that_knew_its_own_turn_is_refused(
    script, assembled, turn_index, basis, leaks
) -> None:
    found = assembled(script().done(turn_index=turn_index, decision_basis=basis))

    assert found.rejections == ((Rejection.LEAKAGE,) if leaks else ())


def test_leakage_is_seen_where_two_segments_say_it_together(script, assembled) -> None:
    run = script()
    paused = {"state": InvokeState.PAUSED, "counts": None}
    first = run.done(turn_index=5, decision_basis=4, **paused)
    last = run.add(Entry.INVOKE, trace_id="later", parent_id=None)
    said = replace(first[0].invoke, state=InvokeState.COMPLETED, counts=run.counts())
    last = replace(last, invoke=replace(said, turn_index=2, decision_basis=None))

    assert assembled([*first, last]).rejections == (Rejection.LEAKAGE,)


# Causes


@pytest.mark.parametrize("state", [InvokeState.FAILED, InvokeState.ABORTED, None])
def test_a_run_that_did_not_complete_says_so(script, assembled, state) -> None:
    found = assembled(script().done(state=state))

    assert (found.ended, found.causes) == (True, (WithheldCause.RUN_NOT_COMPLETED,))
    said = state.value if state else "an unstated state"
    assert found.problems == (f"the run ended as {said}",)


def test_conflicting_and_sampled_facts_are_causes(script, assembled) -> None:
    facts = script().turns(1).done()
    facts[2] = replace(facts[2], sampled=True)
    facts.append(replace(facts[1], agent="other"))

    assert assembled(facts).causes == (
        WithheldCause.CONFLICTING_EVIDENCE,
        WithheldCause.SAMPLED,
    )


def test_an_observer_that_contradicts_itself_is_conflicting_evidence(
    script, assembled, observation
) -> None:
    facts = script().turns(1).done()
    seen = [observation("k", "a"), observation("k", "b", at_ms=500)]

    found = assembled(facts, *seen)

    assert found.causes == (WithheldCause.CONFLICTING_EVIDENCE,)
    assert found.problems == ("observer orders-db said different things about this run",)
    assert len(found.observations) == 1


def test_causes_are_listed_in_the_order_of_the_vocabulary(script, assembled, observation) -> None:
    facts = script(sampled=True).turns(2).done(state=InvokeState.FAILED)[:-1]

    found = assembled(facts, observation("k", "a"), observation("k", "b"))

    assert found.causes == (
        WithheldCause.RUN_NOT_COMPLETED,
        WithheldCause.INCOMPLETE_RUN,
        WithheldCause.CONFLICTING_EVIDENCE,
        WithheldCause.SAMPLED,
    )


def test_observations_outside_of_the_run_are_not_its(script, assembled, observation) -> None:
    facts = script().turns(1).done()
    stale = observation("k", "a", at_ms=-24 * 3600 * 1000)

    assert assembled(facts, stale).observations == ()


def test_a_span_that_only_links_does_not_stretch_the_time_of_a_run(
    script, assembled, observation
) -> None:
    """Else one long span with the run id would let any stale observation in."""
    run = script().turns(1)
    facts = run.done()
    day_ms = 24 * 3600 * 1000
    link = run.foreign(None, stamped=True, start_ms=-2 * day_ms, ms=4 * day_ms)

    found = assembled([*facts, link], observation("k", "a", at_ms=-day_ms))

    assert (found.start_ns, found.end_ns) == (facts[0].start_ns, facts[0].end_ns)
    assert found.observations == ()


# What is replayed: pitfalls A09 and A11


def test_a_run_exported_again_under_fresh_ids_is_counted_once(script, assembled) -> None:
    facts = script().turns(3, tools=2).done()
    again = [replace(fact, trace_id="again", span_id=f"x{fact.span_id}") for fact in facts]

    one, both = assembled(facts), assembled(facts + again)

    assert replace(both, trace_ids=(), roots=()) == replace(one, trace_ids=(), roots=())
    assert both.usage == Usage(input=600, output=60)


def test_turns_replayed_by_a_durable_workflow_are_no_new_turns(script, assembled) -> None:
    """Turns 1 and 2, then 1 and 2 again, then 3."""
    run = script().turns(2)
    replayed = [
        replace(fact, span_id=f"x{fact.span_id}", start_ns=fact.start_ns + 1, parent_id=None)
        for fact in run.spans
    ]
    run.turns(1)

    found = assembled([*run.done(), *replayed])

    assert (found.model_turns, found.causes) == (3, ())


# Figures


def test_turns_calls_and_tools_are_counted(script, assembled) -> None:
    run = script()
    run.turn({"disposition": Disposition.FAILED}, {})
    run.turn({}, says=Disposition.DISCARDED)
    run.call(purpose=Purpose.SIDE)
    for disposition in ToolDisposition:
        run.tool(disposition=disposition)

    found = assembled(run.done())

    assert (found.model_turns, found.llm_calls, found.tool_calls) == (1, 4, 2)


def test_turns_of_a_run_that_is_not_whole_are_counted_as_far_as_seen(script, assembled) -> None:
    facts = script().turns(4).done()

    assert assembled([facts[0], *facts[3:]]).model_turns == 3


def test_usage_is_the_sum_of_the_calls(script, assembled) -> None:
    run = script()
    run.turn({"usage": Usage(input=1, output=2, cache_read=4)})
    run.turn({"usage": Usage(input=10, output=20, reasoning=5)})

    assert assembled(run.done()).usage == Usage(input=11, output=22, cache_read=4, reasoning=5)


def test_a_call_without_usage_makes_the_sum_unknown_not_smaller(script, assembled) -> None:
    """A87: missing is not zero."""
    run = script()
    run.turn({"usage": Usage(input=1, output=2)})
    run.turn({"usage": Usage(input=1)})

    assert assembled(run.done()).usage == Usage(input=2)


def test_a_failed_call_needs_no_usage_and_counts_what_it_states(script, assembled) -> None:
    run = script()
    failed = {"disposition": Disposition.FAILED}
    run.turn({**failed, "usage": Usage()}, {**failed, "usage": Usage(input=7)}, {})

    assert assembled(run.done()).usage == Usage(input=207, output=20)


def test_a_declared_run_without_calls_used_nothing(script, assembled) -> None:
    assert assembled(script().done()).usage == Usage(input=0, output=0)


def test_models_are_those_of_the_committed_agent_calls(script, assembled) -> None:
    run = script()
    run.turn({"model": "a", "disposition": Disposition.FAILED}, {"model": "b"})
    run.turn({"model": "c", "purpose": Purpose.VALIDATION})
    run.turn({"model": None})

    assert assembled(run.done()).models == ("b",)


def test_scopes_and_identities_are_those_of_entries_not_of_links(script, assembled) -> None:
    """An observer's own span may carry the run id without making it a part of the run."""
    run = script().turns(1)
    run.foreign(None, scope="observer", service="observer", stamped=True)

    found = assembled(run.done())

    assert (found.scopes, found.identities) == (("otel_turnavoid",), (("agent", "agent-k"),))


def test_every_process_of_a_run_is_among_its_identities(script, assembled) -> None:
    run = script().turns(1)
    run.tool(service="worker", instance=None)

    assert assembled(run.done()).identities == (("agent", "agent-k"), ("worker", ""))


def test_retained_reductions_are_summed(script, assembled) -> None:
    run = script()
    run.turn({"retained": Retained(tokens=100)})
    run.turn({"retained": Retained(tokens=28, latency_ms=0.5)})

    assert assembled(run.done()).retained == Retained(tokens=128, latency_ms=0.5)


@pytest.mark.parametrize(
    ("said", "retained"),
    [
        (Retained(), None),
        (Retained(tokens=1), Retained(tokens=1)),
        (Retained(latency_ms=0.5), Retained(latency_ms=0.5)),
    ],
)
def test_a_reduction_of_nothing_is_none(script, assembled, said, retained) -> None:
    assert assembled(script().done(retained=said)).retained == retained


def test_speculation_is_told_by_what_became_of_it(script, assembled) -> None:
    run = script()
    run.turn({"purpose": Purpose.SPECULATION})
    run.call(purpose=Purpose.SPECULATION, disposition=Disposition.DISCARDED)
    run.tool(disposition=ToolDisposition.SPECULATED)
    run.tool(disposition=ToolDisposition.DISCARDED)

    assert assembled(run.done()).speculation == (("committed", 2), ("discarded", 2))


# Digests from configured attributes


def with_parts(script, **parts):
    encoded = {key: msgspec.json.encode(value).decode() for key, value in parts.items()}
    run = script()
    run.turn({}, digest_parts=encoded)
    return run.done(digest=None)


def test_a_digest_is_made_of_the_configured_attributes(script, assembled) -> None:
    found = assembled(with_parts(script, task="cancel 42", tenant=7), digest=("task", "tenant"))

    assert found.key.digest == input_digest({"task": "cancel 42", "tenant": 7})
    assert found.rejections == ()


def test_a_stated_digest_wins_over_configured_attributes(script, assembled) -> None:
    facts = with_parts(script, task="cancel 42")
    facts[0] = replace(facts[0], invoke=replace(facts[0].invoke, digest=OTHER))

    assert assembled(facts, digest=("task",)).key.digest == OTHER


def test_an_attribute_counts_as_the_first_span_states_it(script, assembled) -> None:
    run = script()
    run.turn({}, digest_parts={"task": '"first"'})
    run.turn({}, digest_parts={"task": '"second"'})
    facts = run.done(digest=None)

    for order in (facts, facts[::-1]):
        assert assembled(order, digest=("task",)).key.digest == input_digest({"task": "first"})


def test_without_one_of_the_attributes_there_is_no_digest(script, assembled) -> None:
    found = assembled(with_parts(script, task="cancel 42"), digest=("task", "tenant"))

    assert (found.key, found.rejections) == (None, (Rejection.DIGEST,))


@pytest.mark.parametrize("parts", [{"task": ""}, {"task": []}, {"task": "", "more": {}}])
def test_empty_attributes_make_no_digest(script, assembled, parts) -> None:
    """Else all runs whose prompt was not captured would be runs on one input."""
    found = assembled(with_parts(script, **parts), digest=tuple(parts))

    assert (found.key, found.rejections) == (None, (Rejection.DIGEST,))


@pytest.mark.parametrize("value", [0, False])
def test_zero_is_a_value(script, assembled, value) -> None:
    found = assembled(with_parts(script, task=value), digest=("task",))

    assert found.key.digest == input_digest({"task": value})


# Runs that only others' spans show


def test_a_run_of_others_spans_is_inferred(script, assembled) -> None:
    run, root = foreign_run(script)
    for number in range(3):
        run.foreign(Entry.LLM_CALL, root, start_ms=100 * number, ms=90)
    run.foreign(Entry.TOOL_TURN, root)

    found = assembled(run.spans, run_id=inferred_run_id(root), accept=INFERRED)

    assert (found.evidence, found.ended, found.state) == (
        Evidence.INFERRED,
        True,
        InvokeState.COMPLETED,
    )
    assert (found.model_turns, found.llm_calls, found.tool_calls) == (3, 3, 1)
    assert (found.causes, found.whole) == ((), False)


def test_inferred_evidence_proves_nothing_unless_accepted(script, assembled) -> None:
    run, root = foreign_run(script)

    found = assembled(run.spans, run_id=inferred_run_id(root))

    assert found.causes == (WithheldCause.COMPLETENESS_UNPROVEN,)


def test_what_spans_cannot_tell_is_unknown_never_0(script, assembled) -> None:
    run, root = foreign_run(script)

    found = assembled(run.spans, run_id=inferred_run_id(root), accept=INFERRED)

    assert (found.model_turns, found.llm_calls, found.usage) == (None, None, Usage())
    assert found.tool_calls == 0


def test_an_agent_span_of_others_that_failed_is_a_failed_run(script, assembled) -> None:
    run, root = foreign_run(script, failed=True)

    found = assembled(run.spans, run_id=inferred_run_id(root), accept=INFERRED)

    assert found.causes == (WithheldCause.RUN_NOT_COMPLETED,)


@pytest.mark.parametrize("state", InvokeState)
def test_an_agent_span_of_others_may_state_how_it_ended(script, assembled, state) -> None:
    run, root = foreign_run(script, invoke=InvokeDetail(digest=DIGEST, state=state))

    found = assembled(run.spans, run_id=inferred_run_id(root), accept=INFERRED)

    assert (found.state, found.ended) == (state, state is not InvokeState.PAUSED)


def test_the_outermost_agent_span_is_the_run(script, assembled) -> None:
    run, root = foreign_run(script)
    run.foreign(Entry.INVOKE, root, start_ms=0, ms=100, failed=True)

    found = assembled(run.spans, run_id=inferred_run_id(root), accept=INFERRED)

    assert found.state is InvokeState.COMPLETED


def test_an_inferred_run_without_an_arm_is_refused(script, assembled) -> None:
    run, root = foreign_run(script, arm=None)

    found = assembled(run.spans, run_id=inferred_run_id(root), accept=INFERRED)

    assert found.rejections == (Rejection.ARM_MISSING,)


def test_strays_are_listed_and_not_refused(script, assembled) -> None:
    run = script(trace_id="t")
    for _ in range(4):
        run.foreign(
            Entry.LLM_CALL, parent_id=None, ms=10, call=CallDetail(model="m", usage=Usage())
        )

    found = assembled(run.spans, run_id=stray_run_id("t"), accept=INFERRED)

    assert (found.rejections, found.ended, found.key) == ((), False, None)
    assert (found.model_turns, found.tool_calls, found.usage) == (4, None, Usage())


# Odd facts


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("entry", [*Entry, None])
def test_a_fact_that_says_nothing_makes_a_run(script, assembled, entry, own) -> None:
    run = script()
    fact = run.add(entry) if own else run.foreign(entry, call=None)

    for settings in ({}, {"accept": INFERRED}):
        assert assembled([fact], **settings).run_id == "k"


def test_facts_with_absurd_times_and_numbers_make_a_run(script, assembled) -> None:
    facts = script().turns(2).done()
    facts[1] = replace(facts[1], start_ns=0, end_ns=2**63, seq=2**63)
    facts[2] = replace(facts[2], start_ns=2**63, end_ns=0)

    assert assembled(facts).causes == (WithheldCause.INCOMPLETE_RUN,)


def test_a_run_does_not_depend_on_the_order_of_its_facts(script, assembled, observation) -> None:
    run = script()
    run.turn({}, {})
    facts = [*run.done(), replace(run.spans[0], agent="other")]
    seen = [observation("k", "a"), observation("k", "b"), observation("k", "a", observer="m")]

    encoded = {
        msgspec.json.encode(assembled([*order, order[0]], *observed))
        for order in permutations(facts)
        for observed in (seen, seen[::-1])
    }

    assert len(encoded) == 1


@pytest.mark.parametrize(
    ("arm", "refused"), [(Arm.CONTROL, False), (Arm.EXACT_REUSE, True), (Arm.FUSED_BATCH, True)]
)
def test_control_is_no_mechanism_of_a_candidate(script, assembled, arm, refused) -> None:
    run = assembled(script(arm=arm).turns(1).done(mechanism=Mechanism.CONTROL))

    assert (run.rejections == (Rejection.VOCABULARY,)) is refused
    assert run.pairable is not refused


@pytest.mark.parametrize(
    ("accept", "problems"),
    [
        ({Evidence.DECLARED}, ()),
        ({Evidence.DECLARED, Evidence.INFERRED}, ()),
        ({Evidence.INFERRED}, ("declared evidence is not accepted by the configuration",)),
    ],
)
def test_the_configuration_says_which_evidence_counts(script, assembled, accept, problems) -> None:
    run = assembled(script().turns(1).done(), accept=frozenset(accept))

    assert run.problems == problems
    assert run.whole is not bool(problems)


def test_models_are_those_of_the_generations_that_made_committed_turns(script, assembled) -> None:
    """Whatever they were called; failed and discarded attempts made no turn."""
    run = script()
    run.turn({"model": "lost", "disposition": Disposition.FAILED}, {"model": "asked"})
    run.turn({"model": "guessed", "purpose": Purpose.SPECULATION})
    run.turn({"model": "thrown away"}, says=Disposition.DISCARDED)
    run.call(model="judge", purpose=Purpose.VALIDATION)

    assert assembled(run.done()).models == ("asked", "guessed")


def test_an_entry_with_a_broken_clock_does_not_make_an_old_observation_count(
    script, assembled, observation
) -> None:
    day_ns = 24 * 3600 * SECOND
    *entries, last = script().turns(1, tools=1).done()
    astray = replace(last, start_ns=last.start_ns - day_ns)
    stale = observation("k", "order:42=cancelled", at_ms=-day_ns // 1_000_000)

    assert assembled([*entries, astray], stale).observations == ()
