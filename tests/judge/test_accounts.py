"""Accounts: what each decision posts, and that nothing of one account reaches another."""

from __future__ import annotations

from collections import defaultdict
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from otel_turnavoid.dialects import Reader
from otel_turnavoid.judge.accounts import Posting, contradiction, known, postings
from otel_turnavoid.judge.assembly import assemble
from otel_turnavoid.judge.attribution import attribute
from otel_turnavoid.judge.facts import Retained, Usage
from otel_turnavoid.judge.judging import comparable_null, judge, judge_null
from otel_turnavoid.judge.run import Batch, Work
from otel_turnavoid.judge.settings import RunLabel, Settings
from otel_turnavoid.judge.verdict import NullDecided, RunDecided
from otel_turnavoid.otlp import read_logs, read_traces
from otel_turnavoid.testing import Call, Turn, observation, run_spans
from otel_turnavoid.vocabulary import (
    INSTRUMENTS,
    Account,
    Arm,
    Evidence,
    GenAI,
    Lifecycle,
    Mechanism,
    Metric,
    Outcome,
    WithheldCause,
)

REUSE = {"turnavoid.arm": "exact-reuse", "turnavoid.evidence": "declared"}
CONTROL = {"turnavoid.arm": "control", "turnavoid.evidence": "declared"}


def posting(instrument, value, labels=REUSE, **more):
    labels = {
        **labels,
        **{f"turnavoid.{key.replace('__', '.')}": word for key, word in more.items()},
    }
    return Posting(instrument, tuple(sorted(labels.items())), value)


def posted(decision):
    return list(postings(decision))


# Small decisions, whole


def test_a_pair_with_credit(make_run) -> None:
    control = make_run("c", Arm.CONTROL, 4, "a", "b", work=Work(model_ms=4000, model_usd=1.0))
    candidate = make_run(
        "k",
        Arm.EXACT_REUSE,
        1,
        "a",
        "b",
        tool_calls=1,
        work=Work(model_ms=1000, tool_ms=500, model_usd=0.25, validation_ms=3000, retry_usd=0.5),
        retained=Retained(tokens=128, latency_ms=30.0),
    )

    assert posted(judge(control, candidate, Settings())) == [
        posting(Metric.TURNS_AVOIDED, 3, mechanism="exact-reuse"),
        posting(Metric.PAIRS_DECIDED, 1, lifecycle="realized"),
        posting(Metric.RETAINED_CHEAPER, 1),
        posting(Metric.RETAINED_TOKENS, 128),
        posting(Metric.RETAINED_LATENCY, 0.03),
        posting(Metric.TOOLS_AVOIDED, 1),
        posting(Metric.EFFECTS_PRESERVED, 2),
        posting(Metric.SAVED_DURATION, 2.5, basis="gross"),
        posting(Metric.SAVED_DURATION, -0.5, basis="net"),
        posting(Metric.SAVED_COST, 0.75, basis="gross"),
        posting(Metric.SAVED_COST, 0.25, basis="net"),
    ]


def test_a_cost_that_one_side_does_not_state_makes_no_saving(make_run) -> None:
    control = make_run("c", Arm.CONTROL, 4, "a", work=Work(model_usd=1.0))
    candidate = make_run("k", Arm.EXACT_REUSE, 1, "a", work=Work(unpriced_calls=1))

    saved = [
        found
        for found in posted(judge(control, candidate, Settings()))
        if "saved" in found.instrument.name
    ]

    assert saved == []


def test_a_withheld_pair_posts_its_first_cause(make_run) -> None:
    control = make_run("c", Arm.CONTROL, 4, "a", "b")
    candidate = make_run(
        "k", Arm.FUSED_BATCH, 1, "a", tool_calls=0, lifecycle=Lifecycle.ATTEMPTED, variant="v1"
    )
    fused = {**REUSE, "turnavoid.arm": "fused-batch", "turnavoid.variant": "v1"}

    assert posted(judge(control, candidate, Settings())) == [
        posting(Metric.TURNS_WITHHELD, 3, fused, withheld__cause="lifecycle-not-realized"),
        posting(Metric.PAIRS_DECIDED, 1, fused, lifecycle="attempted"),
        posting(Metric.EFFECTS_PRESERVED, 1, fused),
        posting(Metric.EFFECTS_SUPPRESSED, 1, fused),
    ]


def test_a_pair_that_needed_more_turns(make_run) -> None:
    control = make_run("c", Arm.CONTROL, 3, "a")
    candidate = make_run("k", Arm.EXACT_REUSE, 5, "a")

    assert posted(judge(control, candidate, Settings())) == [
        posting(Metric.TURNS_ADDED, 2),
        posting(Metric.PAIRS_DECIDED, 1, lifecycle="realized"),
        posting(Metric.EFFECTS_PRESERVED, 1),
    ]


@pytest.mark.parametrize("tools", [(None, 1), (3, None), (1, 3)])
def test_no_tool_call_is_avoided_where_there_are_not_fewer(make_run, tools) -> None:
    control = make_run("c", Arm.CONTROL, 4, "a", tool_calls=tools[0])
    candidate = make_run("k", Arm.EXACT_REUSE, 3, "a", tool_calls=tools[1])

    accounts = {each.instrument.account for each in posted(judge(control, candidate, Settings()))}

    assert Account.TOOLS not in accounts


def test_a_retained_turn_needs_a_turn_that_was_kept(make_run) -> None:
    control = make_run("c", Arm.CONTROL, 1, "a")
    candidate = make_run("k", Arm.EXACT_REUSE, 0, "a", retained=Retained(tokens=5))

    accounts = {each.instrument.account for each in posted(judge(control, candidate, Settings()))}

    assert Account.RETAINED not in accounts


def test_a_pair_with_inferred_evidence_on_one_side_is_inferred(make_run) -> None:
    control = make_run("c", Arm.CONTROL, 4, "a", evidence=Evidence.INFERRED)
    candidate = make_run("k", Arm.EXACT_REUSE, 3, "a")

    for pair in (judge(control, candidate, Settings()),):
        for each in posted(pair):
            assert dict(each.labels)["turnavoid.evidence"] == "inferred"


def test_two_controls(make_run) -> None:
    one, other = make_run("c0", Arm.CONTROL, 4), make_run("c1", Arm.CONTROL, 3)
    labels = {"turnavoid.evidence": "declared"}

    assert posted(judge_null(one, other, Settings())) == [
        posting(Metric.NULL_AVOIDED, 1, labels),
        posting(Metric.NULL_PAIRS, 1, labels),
    ]
    assert posted(judge_null(other, one, Settings())) == [
        posting(Metric.NULL_ADDED, 1, labels),
        posting(Metric.NULL_PAIRS, 1, labels),
    ]


def test_a_paired_run(make_run) -> None:
    run = make_run(
        "c",
        Arm.CONTROL,
        4,
        tool_calls=3,
        usage=Usage(input=100, cache_read=50),
        work=Work(model_ms=1500, tool_usd=0.25, retry_ms=500, validation_usd=0.5),
        batches=(Batch(2, 1), Batch(1, 1)),
        speculation=(("committed", 1), ("discarded", 2)),
    )
    sided = {**CONTROL, "turnavoid.side": "control"}

    assert posted(RunDecided(run=run, outcome=Outcome.PAIRED)) == [
        posting(Metric.RUNS_OBSERVED, 1, {}, outcome="paired", evidence="declared"),
        posting(Metric.TURNS_COMMITTED, 4, CONTROL),
        posting(Metric.TOOLS_EXECUTED, 3, CONTROL),
        posting(Metric.TOOL_BATCH_SIZE, 2, CONTROL),
        posting(Metric.TOOL_BATCH_DEPTH, 1, CONTROL),
        posting(Metric.TOOL_BATCH_SIZE, 1, CONTROL),
        posting(Metric.TOOL_BATCH_DEPTH, 1, CONTROL),
        posting(Metric.SPECULATION_CALLS, 1, CONTROL, outcome="committed"),
        posting(Metric.SPECULATION_CALLS, 2, CONTROL, outcome="discarded"),
        posting(Metric.WORK_DURATION, 1.5, sided, component="model"),
        posting(Metric.WORK_COST, 0.25, sided, component="tool"),
        posting(Metric.OVERHEAD_COST, 0.5, sided, overhead__kind="validation"),
        posting(Metric.OVERHEAD_DURATION, 0.5, sided, overhead__kind="retry"),
        posting(Metric.TOKENS_USED, 100, sided, token__type="input"),
        posting(Metric.TOKENS_USED, 50, sided, token__type="cache_read"),
    ]


@pytest.mark.parametrize("outcome", set(Outcome) - {Outcome.PAIRED})
@pytest.mark.parametrize("evidence", Evidence)
def test_a_run_in_no_pair_is_observed_and_nothing_else(make_run, outcome, evidence) -> None:
    run = make_run("k", Arm.EXACT_REUSE, 4, evidence=evidence, batches=(Batch(1, 1),))

    assert posted(RunDecided(run=run, outcome=outcome)) == [
        posting(Metric.RUNS_OBSERVED, 1, {}, outcome=outcome.value, evidence=evidence.value)
    ]


@pytest.mark.parametrize(
    ("differs", "lets", "comparison"),
    [
        ({"models": ("other",)}, {"any_model": True}, "cross-model"),
        ({"scopes": ("other",)}, {"any_instrumentation": True}, "cross-instrumentation"),
    ],
)
def test_what_is_compared_although_it_differs_has_series_of_its_own(
    make_run, differs, lets, comparison
) -> None:
    """Every series of such a pair, so that none of them is one of those without."""
    control, other = make_run("c", Arm.CONTROL, 4, "a"), make_run("c1", Arm.CONTROL, 3, **differs)
    candidate = make_run("k", Arm.EXACT_REUSE, 3, "a", tool_calls=1, **differs)
    setting = Settings(**lets)

    for decision in (judge(control, candidate, setting), judge_null(control, other, setting)):
        found = [dict(each.labels) for each in postings(decision)]
        assert found
        assert {labels.get("turnavoid.comparison") for labels in found} == {comparison}


def test_what_does_not_differ_has_no_series_of_its_own_whatever_may(make_run) -> None:
    setting = Settings(any_model=True, any_instrumentation=True)
    pair = judge(make_run("c", Arm.CONTROL, 4), make_run("k", Arm.EXACT_REUSE, 3), setting)

    assert all("turnavoid.comparison" not in dict(each.labels) for each in postings(pair))


def test_a_contradicted_verdict(make_run) -> None:
    pair = judge(make_run("c", Arm.CONTROL, 4), make_run("k", Arm.EXACT_REUSE, 3), Settings())

    assert contradiction(pair) == posting(Metric.VERDICTS_CONTRADICTED, 1)


# Conservation and separation, through real spans

OBSERVED = (observation("c"), observation("k"))


def journal(control, candidate, *, change=lambda fact: fact):
    """All decisions on two runs as they arrive on the wire."""
    reader, setting = Reader(Settings()), Settings()
    facts = [
        change(fact) for body in (control, candidate) for fact in read_traces(body, reader).facts
    ]
    seen = [each for body in OBSERVED for each in read_logs(body, reader).observations]
    runs = {
        run_id: assemble(run_id, found, [o for o in seen if o.run_id == run_id], setting)
        for run_id, found in attribute(facts).runs.items()
    }
    pair = judge(runs["c"], runs["k"], setting)
    return [pair, *(RunDecided(run=run, outcome=Outcome.PAIRED) for run in runs.values())]


def accounts(decisions):
    """Totals of every series by account."""
    totals = defaultdict(lambda: defaultdict(float))
    for decision in decisions:
        for each in postings(decision):
            totals[each.instrument.account][each.instrument.name, each.labels] += each.value
    return {account: dict(series) for account, series in totals.items()}


def pair_of(candidate=3, **said):
    return (
        run_spans(run_id="c", arm="control", turns=4),
        run_spans(run_id="k", arm="exact-reuse", turns=candidate, **said),
    )


BASE = accounts(journal(*pair_of()))


def slower(factor):
    def change(fact):
        start_ns = fact.start_ns // 10**10 * 10**10
        return replace(
            fact,
            start_ns=start_ns + (fact.start_ns - start_ns) * factor,
            end_ns=start_ns + (fact.end_ns - start_ns) * factor,
        )

    return change


def turns_of(**call):
    return [Turn(calls=(Call(**call),))] * 3


SIDEWAYS = {
    "tokens": pair_of(turns_of(usage={GenAI.USAGE_INPUT_TOKENS: 9, GenAI.USAGE_OUTPUT_TOKENS: 1})),
    "no tokens": pair_of(turns_of(usage={})),
    "cache": pair_of(
        turns_of(
            usage={
                GenAI.USAGE_INPUT_TOKENS: 200,
                GenAI.USAGE_OUTPUT_TOKENS: 20,
                GenAI.USAGE_CACHE_READ: 190,
                GenAI.USAGE_CACHE_WRITE: 5,
            }
        )
    ),
    "cost": pair_of(turns_of(cost_usd=0.125)),
    "more tools": pair_of([Turn(tools=("a", "b", "c"))] * 3),
    "no tools": pair_of([Turn(tools=())] * 3),
    "lost speculation": pair_of(
        [Turn(calls=(Call(purpose="speculation", disposition="discarded"), Call()))] * 3
    ),
    "discarded turn": pair_of(
        [
            *[Turn()] * 3,
            Turn(
                calls=(Call(purpose="speculation", disposition="discarded"),),
                tools=(),
                disposition="discarded",
            ),
        ]
    ),
    "retries": pair_of([Turn(calls=(Call(disposition="failed"), Call()))] * 3),
    "validation": pair_of([Turn(calls=(Call(), Call(purpose="validation")))] * 3),
}


def test_the_pair_that_is_changed_has_credit() -> None:
    assert (
        BASE[Account.TURNS][
            "turnavoid.model_turns.avoided",
            tuple(sorted({**REUSE, "turnavoid.mechanism": "exact-reuse"}.items())),
        ]
        == 1
    )


@pytest.mark.parametrize("changed", SIDEWAYS)
def test_nothing_else_reaches_the_turns(changed: str) -> None:
    found = accounts(journal(*SIDEWAYS[changed]))

    assert found[Account.TURNS] == BASE[Account.TURNS]
    assert found != BASE


@given(factor=st.integers(2, 9))
@settings(max_examples=8, deadline=None)
def test_latency_does_not_reach_the_turns(factor: int) -> None:
    found = accounts(journal(*pair_of(), change=slower(factor)))

    assert found[Account.TURNS] == BASE[Account.TURNS]
    assert found[Account.WORK] != BASE[Account.WORK]
    assert found[Account.TOKENS] == BASE[Account.TOKENS]


def test_prompt_caching_is_no_avoided_turn() -> None:
    """A56."""
    cached = Call(usage={GenAI.USAGE_INPUT_TOKENS: 200, GenAI.USAGE_CACHE_READ: 190})
    found = accounts(journal(*pair_of([Turn(calls=(cached,))] * 4)))

    names = {name for name, _ in found[Account.TURNS]}
    assert names == {
        "turnavoid.model_turns.committed",
        "turnavoid.pairs.decided",
        "turnavoid.runs.observed",
    }


def test_turns_do_not_reach_anything_else() -> None:
    """Only the inputs of the calls change: the same work, sampled for other turns."""

    def alike(fact):
        if fact.call is None or fact.run_id != "k":
            return fact
        return replace(fact, call=replace(fact.call, input_digest="sha256:" + "0" * 64))

    one = [Turn(calls=(Call(), Call(), Call()))]
    apart = accounts(journal(*pair_of(one)))
    together = accounts(journal(*pair_of(one), change=alike))

    assert apart.pop(Account.TURNS) != together.pop(Account.TURNS)
    assert apart == together


# Series known beforehand


def test_known_series_are_0_once_and_fit_their_instruments() -> None:
    found = list(known(Settings(accept=frozenset(Evidence))))

    assert {each.value for each in found} == {0}
    assert len({each[:2] for each in found}) == len(found)
    for each in found:
        keys = [key for key, _ in each.labels]
        assert keys == sorted(keys)
        assert set(keys) <= set(each.instrument.labels)


@pytest.mark.parametrize("accept", [{Evidence.DECLARED}, set(Evidence)])
def test_every_instrument_is_known(accept) -> None:
    found = {each.instrument for each in known(Settings(accept=frozenset(accept)))}

    assert found == set(INSTRUMENTS)


def test_every_outcome_of_a_run_is_known() -> None:
    found = {
        dict(each.labels)["turnavoid.outcome"]
        for each in known(Settings())
        if each.instrument is Metric.RUNS_OBSERVED
    }

    assert found == {outcome.value for outcome in Outcome}


def test_credit_that_the_configuration_rules_out_is_not_known() -> None:
    found = [
        each
        for each in known(Settings())
        if each.instrument in (Metric.TURNS_AVOIDED, Metric.NULL_PAIRS)
    ]

    assert {dict(each.labels)["turnavoid.evidence"] for each in found} == {"declared"}


works = st.builds(Work, **{name: st.sampled_from([0.0, 7.5]) for name in Work.__struct_fields__})


@given(data=st.data())
def test_known_series_hold_all_that_decisions_without_variants_post(make_run, data) -> None:
    accept = data.draw(st.sampled_from([frozenset({Evidence.DECLARED}), frozenset(Evidence)]))

    def draw(arm):
        evidence = data.draw(st.sampled_from(Evidence))
        causes = data.draw(st.sets(st.sampled_from(WithheldCause), max_size=2))
        if evidence not in accept:
            causes.add(WithheldCause.COMPLETENESS_UNPROVEN)
        return make_run(
            f"{arm.value}-{data.draw(st.integers(0, 1000))}",
            arm,
            data.draw(st.one_of(st.none(), st.integers(0, 5))),
            *data.draw(st.lists(st.sampled_from("ab"))),
            evidence=evidence,
            causes=tuple(sorted(causes)),
            mechanism=data.draw(st.sampled_from(Mechanism)),
            lifecycle=data.draw(st.sampled_from(Lifecycle)),
            tool_calls=data.draw(st.one_of(st.none(), st.integers(0, 3))),
            usage=Usage(input=1, output=2, cache_read=3, cache_write=4, reasoning=5),
            work=data.draw(works),
            retained=data.draw(st.sampled_from([None, Retained(1, 1.0)])),
            batches=(Batch(1, 1),),
            speculation=(("committed", 1), ("discarded", 1), ("failed", 1)),
            models=data.draw(st.sampled_from([("a",), ("b",)])),
            scopes=data.draw(st.sampled_from([("one",), ("other",)])),
        )

    control, other = draw(Arm.CONTROL), draw(Arm.CONTROL)
    candidate = draw(data.draw(st.sampled_from([Arm.EXACT_REUSE, Arm.FUSED_BATCH])))
    setting = Settings(
        accept=accept,
        any_model=data.draw(st.booleans()),
        any_instrumentation=data.draw(st.booleans()),
    )
    pair = judge(control, candidate, setting)
    decisions = [pair]
    if comparable_null(control, other, setting):
        decisions.append(judge_null(control, other, setting))
    decisions += [
        RunDecided(run=run, outcome=outcome)
        for run, outcome in product((control, candidate), Outcome)
    ]

    series = {each[:2] for each in known(setting)}

    found = [each for decision in decisions for each in postings(decision)]
    found.append(contradiction(pair))
    assert {each[:2] for each in found} - series == set()


@pytest.mark.parametrize("number", [0, 2])
def test_no_amount_of_0_is_posted(make_run, number: int) -> None:
    run = make_run("c", Arm.CONTROL, number, tool_calls=number, usage=Usage(input=number))

    for decision in (
        RunDecided(run=run, outcome=Outcome.PAIRED),
        NullDecided(first=run, second=run, avoided=0, added=0),
        judge(run, replace(run, arm=Arm.EXACT_REUSE), Settings()),
    ):
        assert 0 not in {each.value for each in postings(decision)}


# Names of the run, where configured


NAMES = {"gen_ai.agent.name": "desk", "turnavoid.experiment.id": "e"}


def named(make_run, arm, experiment="e", agent="desk"):
    made = make_run("r", arm, 1, "a")
    return replace(made, agent=agent, key=replace(made.key, experiment=experiment))


def test_configured_labels_name_the_candidate_of_a_pair_in_all_that_it_posts(make_run) -> None:
    control = named(make_run, Arm.CONTROL, agent="other")
    verdict = judge(control, named(make_run, Arm.EXACT_REUSE), Settings())

    for each in (*postings(verdict, RunLabel), contradiction(verdict, RunLabel)):
        assert NAMES.items() <= dict(each.labels).items()
        assert list(each.labels) == sorted(each.labels)


def test_configured_labels_name_the_run_and_the_first_of_two_controls(make_run) -> None:
    first, second = named(make_run, Arm.CONTROL), named(make_run, Arm.CONTROL, agent="other")

    paired = RunDecided(run=first, outcome=Outcome.PAIRED)
    for decision in (paired, judge_null(first, second, Settings())):
        posted = [dict(each.labels) for each in postings(decision, RunLabel)]
        assert posted
        assert all(NAMES.items() <= labels.items() for labels in posted)


def test_only_configured_labels_are_added_and_only_what_the_run_says(make_run) -> None:
    run = RunDecided(run=named(make_run, Arm.CONTROL, experiment=""), outcome=Outcome.UNPAIRED)
    plain = {"turnavoid.outcome": "unpaired", "turnavoid.evidence": "declared"}

    def labels(*configured):
        return [dict(each.labels) for each in postings(run, configured)]

    assert labels() == labels(RunLabel.EXPERIMENT) == [plain]
    assert labels(RunLabel.AGENT) == [plain | {"gen_ai.agent.name": "desk"}]


def test_known_names_exist_at_zero_in_every_combination_beside_what_has_no_name() -> None:
    plain = Settings()
    settings = Settings(
        labels=(RunLabel.AGENT,),
        known_names={"turnavoid.variant": ("v1", "v2"), "gen_ai.agent.name": ("desk",)},
    )

    def of(instrument, settings, **labels):
        labels = {f"turnavoid.{key}": value for key, value in labels.items()}
        found = [dict(each.labels) for each in known(settings) if each.instrument is instrument]
        return [each for each in found if labels.items() <= each.items()]

    (base,) = of(Metric.TURNS_ADDED, plain, arm="exact-reuse", evidence="declared")
    agent = {"gen_ai.agent.name": "desk"}
    assert of(Metric.TURNS_ADDED, settings, arm="exact-reuse", evidence="declared") == [
        base | variant | name
        for variant in ({}, {"turnavoid.variant": "v1"}, {"turnavoid.variant": "v2"})
        for name in ({}, agent)
    ]
    (control,) = of(Metric.TURNS_COMMITTED, plain, arm="control", evidence="declared")
    assert of(Metric.TURNS_COMMITTED, settings, arm="control", evidence="declared") == [
        control,
        control | agent,
    ]
    assert {each.value for each in known(settings)} == {0}
