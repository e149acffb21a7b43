"""Which run a span belongs to: run id, then ancestry, then time where only one can be meant."""

from __future__ import annotations

from itertools import permutations

from msgspec.structs import replace

from otel_turnavoid.judge.attribution import attribute, inferred_run_id, stray_run_id, trace_of
from otel_turnavoid.vocabulary import Arm, Entry


def ids(facts):
    return {run: sorted(fact.span_id for fact in found) for run, found in facts.items()}


def foreign_trace(script, trace_id="t"):
    """An agent span of others with a call in it: no run id anywhere."""
    run = script(trace_id=trace_id)
    root = run.foreign(Entry.INVOKE, parent_id=None, ms=10_000, start_ms=0)
    call = run.foreign(Entry.LLM_CALL, root, start_ms=10, ms=10)
    return run, root, call


def test_a_run_id_wins_over_the_trace(script) -> None:
    """A28, A29: every span a trace of its own, one run id, one run."""
    facts = script().turns(3).done()
    scattered = [
        replace(fact, trace_id=f"t{number}", parent_id=None) for number, fact in enumerate(facts)
    ]

    assert ids(attribute(scattered).runs) == {"k": sorted(fact.span_id for fact in facts)}


def test_a_run_id_wins_over_the_run_of_the_parent(script) -> None:
    outer = script("outer", trace_id="t")
    [root] = outer.done()
    inner = replace(script("inner", trace_id="t").done()[0], parent_id=root.span_id)

    assert ids(attribute([root, inner]).runs) == {
        "outer": [root.span_id],
        "inner": [inner.span_id],
    }


def test_two_runs_that_share_a_trace_id_are_two_runs(script) -> None:
    """A37: trace ids derived from a session."""
    one = script("c", Arm.CONTROL, trace_id="t").turns(2).done()
    two = script("k", trace_id="t").turns(1).done()

    found = attribute(one + two)

    assert {run: len(facts) for run, facts in found.runs.items()} == {"c": 5, "k": 3}
    assert found.strays == {}


def test_a_span_without_a_run_id_belongs_to_the_run_of_its_nearest_ancestor(script) -> None:
    run = script()
    turn = run.turn({})
    between = run.foreign(None, turn)
    call = run.foreign(Entry.LLM_CALL, between)

    assert call.span_id in ids(attribute(run.done()).runs)["k"]


def test_an_agent_span_of_others_starts_a_run_of_its_own(script) -> None:
    run, root, call = foreign_trace(script)

    assert ids(attribute(run.spans).runs) == {
        inferred_run_id(root): sorted([root.span_id, call.span_id])
    }


def test_an_inner_agent_belongs_to_the_outermost_one(script) -> None:
    run, root, _ = foreign_trace(script)
    tool = run.foreign(Entry.TOOL_TURN, root)
    inner = run.foreign(Entry.INVOKE, tool)
    run.foreign(Entry.LLM_CALL, inner)

    assert list(attribute(run.spans).runs) == [inferred_run_id(root)]


def test_an_agent_span_of_others_inside_our_run_is_part_of_it(script) -> None:
    run = script()
    inner = run.foreign(Entry.INVOKE)
    run.foreign(Entry.LLM_CALL, inner)

    assert list(attribute(run.done()).runs) == ["k"]


def test_two_roots_in_one_trace_are_two_runs(script) -> None:
    run, root, _ = foreign_trace(script)
    other = run.foreign(Entry.INVOKE, parent_id=None, start_ms=20_000, ms=10)

    assert set(attribute(run.spans).runs) == {inferred_run_id(root), inferred_run_id(other)}


def test_a_broken_chain_is_mended_by_time_where_one_agent_contains_the_span(script) -> None:
    _, root, call = foreign_trace(script)
    orphan = replace(call, span_id="orphan", parent_id="never-stored")

    assert "orphan" in ids(attribute([root, call, orphan]).runs)[inferred_run_id(root)]


def test_a_broken_chain_that_two_agents_contain_stays_a_stray(script) -> None:
    run, _, call = foreign_trace(script)
    run.foreign(Entry.INVOKE, parent_id=None, start_ms=5, ms=9_000)
    orphan = replace(call, span_id="orphan", parent_id="never-stored")

    assert ids(attribute([*run.spans, orphan]).strays) == {"t": ["orphan"]}


def test_two_agents_of_one_run_around_a_span_are_one_run(script) -> None:
    run, root, call = foreign_trace(script)
    run.foreign(Entry.INVOKE, root, start_ms=5, ms=9_000)
    orphan = replace(call, span_id="orphan", parent_id="never-stored")

    assert "orphan" in ids(attribute([*run.spans, orphan]).runs)[inferred_run_id(root)]


def test_an_agent_of_another_trace_contains_nothing_here(script) -> None:
    _, root, call = foreign_trace(script)
    orphan = replace(call, trace_id="elsewhere", span_id="orphan", parent_id="never-stored")

    assert ids(attribute([root, call, orphan]).strays) == {"elsewhere": ["orphan"]}


def test_one_nanosecond_outside_of_the_agent_is_outside(script) -> None:
    _, root, call = foreign_trace(script)
    early = replace(call, span_id="early", parent_id="lost", start_ns=root.start_ns - 1)
    late = replace(call, span_id="late", parent_id="lost", end_ns=root.end_ns + 1)

    assert ids(attribute([root, early, late]).strays) == {"t": ["early", "late"]}


def test_calls_and_tools_of_no_run_are_strays_and_links_are_nothing(script) -> None:
    """A23: model requests without an agent around them."""
    run = script(trace_id="t")
    call = run.foreign(Entry.LLM_CALL, parent_id=None)
    tool = run.foreign(Entry.TOOL_TURN, parent_id=None)
    run.foreign(None, parent_id=None)

    found = attribute(run.spans)

    assert found.runs == {}
    assert ids(found.strays) == {"t": sorted([call.span_id, tool.span_id])}


def test_attribution_does_not_depend_on_order(script) -> None:
    _, root, call = foreign_trace(script)
    orphan = replace(call, span_id="orphan", parent_id="never-stored")
    stray = replace(call, span_id="stray", parent_id=None, start_ns=1, end_ns=2)
    stamped = replace(call, span_id="stamped", run_id="r")
    below = replace(call, span_id="below", parent_id="stamped")

    seen = {
        repr((sorted(ids(found.runs).items()), ids(found.strays)))
        for order in permutations([root, call, orphan, stray, stamped, below])
        for found in [attribute(order)]
    }

    assert len(seen) == 1


def test_names_of_runs_made_from_traces(script) -> None:
    _, root, _ = foreign_trace(script, trace_id="abc")

    assert inferred_run_id(root) == f"trace:abc/{root.span_id}"
    assert stray_run_id("abc") == "trace:abc"
    assert trace_of(inferred_run_id(root)) == trace_of(stray_run_id("abc")) == "abc"
    assert trace_of("k") is None
    assert trace_of("other:abc") is None
    assert trace_of("trace") is None
