"""Ways to make turns vanish on paper, or to add some to the control, and what comes of each.

A control ``c`` of three turns and a candidate ``k``, observed alike, from OTLP bytes. What an
agent alone can know, such as what a call was for, is believed; what its own spans speak against
is not.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToJson
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from otel_turnavoid.dialects import Reader
from otel_turnavoid.digest import input_digest
from otel_turnavoid.judge.run import Run
from otel_turnavoid.judge.settings import SECOND, Settings
from otel_turnavoid.judge.verdict import NullDecided, PairDecided
from otel_turnavoid.otlp import logs_from_json, read_logs, read_traces
from otel_turnavoid.publish.explained_pair import explain_pair
from otel_turnavoid.publish.inquiry import explain
from otel_turnavoid.store import Ledger
from otel_turnavoid.store.reading import Record
from otel_turnavoid.testing import START_NS, Call, Turn, observation, observation_span, run_spans
from otel_turnavoid.vocabulary import Attr, Evidence, GenAI

NOW_NS = 1_790_000_000 * SECOND
UNPROVEN, NOT_COMPLETED = "completeness-unproven", "run-not-completed"
INCOMPLETE, CONFLICT = "incomplete-run", "conflicting-evidence"
MISMATCH, DEPENDENT = "observer-mismatch", "observer-not-independent"
UNOBSERVED = "effects-unobserved"
CUT = Call(disposition="failed")
"""A stream that broke off: the model had been sampled."""
GOES_ON = Call(samplings=0)
LATER_NS = START_NS + 61 * SECOND
"""A second after the observer, unless told otherwise."""
INFERRED = Settings(accept=frozenset(Evidence))
ANY_SCOPE = Settings(any_instrumentation=True)


def control(turns: Any = 3, **options: Any) -> bytes:
    return run_spans(run_id="c", turns=turns, **options)


def candidate(turns: Any = 2, **options: Any) -> bytes:
    return run_spans(run_id="k", arm="fused-batch", turns=turns, **options)


def seen(*run_ids: str, **says: Any) -> list[bytes]:
    return [observation(run_id, **says) for run_id in run_ids or ("c", "k")]


def decided(
    traces: Iterable[bytes], logs: Iterable[bytes], settings: Settings | None = None
) -> list[PairDecided | NullDecided]:
    """Return the decisions about pairs."""
    judging = settings or Settings()
    reader = Reader(judging)
    batches = [read_traces(body, reader) for body in traces]
    batches += [read_logs(body, reader) for body in logs]
    facts = [fact for batch in batches for fact in batch.facts]
    observed = [each for batch in batches for each in batch.observations]
    with (
        tempfile.TemporaryDirectory() as folder,
        Ledger.open(f"sqlite:///{Path(folder) / 'ledger.db'}") as ledger,
    ):
        ledger.add(facts, observed, arrived_ns=NOW_NS)
        made = ledger.decide(judging, now_ns=NOW_NS, final=True)
    return [one for one in made if isinstance(one, (PairDecided, NullDecided))]


def verdict(*traces: bytes, logs: Iterable[bytes] | None = None, **more: Any) -> PairDecided:
    (pair,) = decided(traces, seen() if logs is None else logs, **more)
    assert isinstance(pair, PairDecided)
    return pair


def figures(pair: PairDecided) -> tuple[int | None, int | None, int, int, list[str]]:
    """Return both runs' turns, what is avoided and withheld, and why."""
    turns = pair.control.model_turns, pair.candidate.model_turns
    return *turns, pair.avoided, pair.withheld, [cause.value for cause in pair.causes]


def problems(run: Run) -> str:
    return "\n".join(run.problems)


def found(pair: PairDecided) -> list[str]:
    """Return what ``turnavoid explain`` says was found for the causes."""
    record = Record(number=1, decided_ns=NOW_NS, contradicted_ns=None, decision=pair)
    explained = explain_pair(record, None, Settings())
    return [line for why in explained.why for line in why.found]


# Calls that say they added no turn


def test_a_cut_answer_that_a_continuation_brings_to_its_end_is_a_turn() -> None:
    """Both attempts together are one successful generation, in whichever arm."""
    resumed = [Turn(calls=(CUT, GOES_ON))] * 3

    assert figures(verdict(control(), candidate(resumed))) == (3, 3, 0, 0, [])
    assert figures(verdict(control(resumed), candidate())) == (3, 2, 1, 0, [])


def test_a_continuation_that_failed_at_first_is_still_none() -> None:
    going_on = (Call(disposition="failed", samplings=0), GOES_ON)
    continued = [Turn(tools=()), Turn(calls=going_on)]

    assert figures(verdict(control(), candidate(continued))) == (3, 1, 2, 0, [])


@pytest.mark.parametrize("before", [(), (Call(purpose="side"),)])
def test_nothing_can_be_continued_that_was_never_begun(before: Sequence[Call]) -> None:
    """``samplings`` 0 on every call would avoid every turn."""
    pair = verdict(control(), candidate([Turn(calls=(*before, GOES_ON))] * 3))

    assert figures(pair) == (3, 0, 0, 3, [UNPROVEN])
    assert problems(pair.candidate) == (
        "3 calls say that they only went on with an answer (samplings 0), and no call before them"
        " began one"
    )


def edited(body: bytes, seq: int, **said: Any) -> bytes:
    """Return a run of which the entry with a number says something else; None takes it away."""
    request = ExportTraceServiceRequest.FromString(body)
    _say(request.resource_spans[0].scope_spans[0].spans[seq], **said)
    return request.SerializeToString()


ASKED = 4
"""Number of the tool that the first turn asks for."""


def test_a_tools_result_is_not_handed_to_an_answer_that_merely_goes_on() -> None:
    """One honest turn would found any number of continuations."""
    pair = verdict(control(), candidate([Turn(), Turn(calls=(GOES_ON,)), Turn(calls=(GOES_ON,))]))

    assert figures(pair) == (3, 1, 0, 2, [UNPROVEN])
    assert problems(pair.candidate) == (
        "2 calls say that they only went on with an answer (samplings 0), and came after a tool"
        " that the model itself had asked for: its result is another input"
    )


def test_unless_code_that_the_model_wrote_asked_for_it() -> None:
    coded = candidate([Turn(), Turn(calls=(GOES_ON,))])

    by_code = edited(coded, ASKED, **{Attr.TOOL_CALLER: "code"})

    assert figures(verdict(control(), by_code)) == (3, 1, 2, 0, [])


@pytest.mark.parametrize(
    ("disposition", "causes"), [("discarded", []), ("denied", [UNPROVEN]), ("reused", [UNPROVEN])]
)
def test_or_nobody_read_its_result(disposition: str, causes: list[str]) -> None:
    """That a tool was denied is a result to be read, and a stored result is one."""
    run = candidate([Turn(), Turn(calls=(GOES_ON,))])

    pair = verdict(control(), edited(run, ASKED, **{Attr.TOOL_DISPOSITION: disposition}))

    assert figures(pair) == (3, 1, 0 if causes else 2, 2 if causes else 0, causes)


@pytest.mark.parametrize("entry", ["tool_turn", "user_turn", "system_turn"])
def test_a_model_call_in_the_clothes_of_another_entry_is_refused(entry: str) -> None:
    request = ExportTraceServiceRequest.FromString(candidate())
    spans = request.resource_spans[0].scope_spans[0].spans
    call = next(span for span in spans if span.name.startswith("chat"))
    _say(call, **{Attr.ENTRY: entry})

    assert decided([control(), request.SerializeToString()], seen()) == []


# One input, or several that are called one


SAME = {Attr.CALL_INPUT_DIGEST: input_digest("the task, at every call")}
CACHED = Call(
    usage={
        GenAI.USAGE_INPUT_TOKENS: 200,
        GenAI.USAGE_OUTPUT_TOKENS: 20,
        GenAI.USAGE_CACHE_READ: 100,
    }
)


def spans_of(request: ExportTraceServiceRequest) -> Any:
    return request.resource_spans[0].scope_spans[0].spans


def with_calls_saying(body: bytes, **said: Any) -> bytes:
    request = ExportTraceServiceRequest.FromString(body)
    for span in spans_of(request):
        if span.name.startswith("chat"):
            _say(span, **said)
    return request.SerializeToString()


def flat(body: bytes) -> bytes:
    """Return a run whose calls stand in no AgentTurns."""
    request = ExportTraceServiceRequest.FromString(body)
    invoke, *others = [span for span in spans_of(request) if span.name != "agent_turn"]
    for seq, span in enumerate(others, start=1):
        span.parent_span_id = invoke.span_id
        _say(span, **{Attr.SEQ: seq})
    _say(invoke, **{Attr.INVOKE_AGENT_TURNS: 0, Attr.INVOKE_ENTRIES: 1 + len(others)})
    kept = [Span.FromString(span.SerializeToString()) for span in (invoke, *others)]
    del spans_of(request)[:]
    spans_of(request).extend(kept)
    return request.SerializeToString()


def test_a_loop_does_not_become_one_turn_by_a_digest_that_never_changes() -> None:
    """Cached tokens hide that the input grew; that it read tools' results shows it."""
    loop = with_calls_saying(flat(candidate([Turn(calls=(CACHED,))] * 3)), **SAME)

    pair = verdict(control(), loop)

    assert figures(pair) == (3, 1, 0, 2, [CONFLICT])
    assert problems(pair.candidate) == (
        "2 calls say that they answer the input of the call before, and came after a tool that the"
        " model had asked for: its result is another input"
    )


def test_a_control_is_not_made_longer_by_asking_the_same_again() -> None:
    longer = with_calls_saying(control([Turn(tools=())] * 5), **SAME)

    pair = verdict(longer, candidate())

    assert figures(pair) == (5, 2, 0, 3, [CONFLICT])
    assert problems(pair.control) == (
        "4 AgentTurns state the input of the one before: the same input again is no other turn"
    )


def test_the_same_input_again_after_the_answer_was_thrown_away_is_one_turn() -> None:
    turns = [Turn(disposition="discarded", tools=()), Turn(tools=())]

    pair = verdict(control(), with_calls_saying(candidate(turns), **SAME))

    assert figures(pair) == (3, 1, 2, 0, [])


@pytest.mark.parametrize(("tokens", "turns"), [(200, 1), (260, 2)])
def test_answers_at_one_time_are_of_one_input_only_if_that_has_as_many_tokens(
    tokens: int, turns: int
) -> None:
    """Their inputs are not stated, and a clock that was put back makes any two overlap."""
    other = Call(usage={GenAI.USAGE_INPUT_TOKENS: tokens, GenAI.USAGE_OUTPUT_TOKENS: 20})
    body = with_calls_saying(
        candidate([Turn(calls=(Call(), other))]), **{Attr.CALL_INPUT_DIGEST: None}
    )
    request = ExportTraceServiceRequest.FromString(body)
    first, second = [span for span in spans_of(request) if span.name.startswith("chat")]
    second.start_time_unix_nano = first.start_time_unix_nano + 1

    pair = verdict(control(), request.SerializeToString())

    assert figures(pair) == (3, turns, 3 - turns, 0, [])


# Turns that nothing but a word shows


def test_turns_without_calls_do_not_stand_against_turns_with_calls() -> None:
    """A control without a single call may be made up; so may be the loss of a candidate's."""
    bare = [Turn(calls=(), tools=())]

    pair = verdict(control(bare * 10), candidate())
    assert figures(pair) == (10, 2, 0, 8, [UNPROVEN])
    assert found(pair) == [
        "calls show the turns of the candidate, and only its own word those of the control"
    ]
    assert figures(verdict(control(), candidate(bare))) == (3, 1, 0, 2, [UNPROVEN])


def test_runs_without_any_call_are_believed_alike() -> None:
    bare = [Turn(calls=())]

    assert figures(verdict(control(bare * 3), candidate(bare * 2))) == (3, 2, 1, 0, [])
    assert figures(verdict(control(bare * 3), candidate(0))) == (3, 0, 3, 0, [])


def test_two_controls_of_which_one_shows_no_calls_say_nothing_about_noise() -> None:
    other = run_spans(run_id="c2", turns=[Turn(calls=())] * 9)

    assert decided([control(), other], seen("c", "c2")) == []


@pytest.mark.parametrize("says", ["failed", "discarded"])
def test_turns_without_calls_are_not_thrown_away_by_a_word(says: str) -> None:
    gone = [Turn(calls=(), disposition=says)] * 3
    bare = [Turn(calls=())] * 3

    pair = verdict(control(bare), candidate(gone))

    assert figures(pair) == (3, 0, 0, 3, [UNPROVEN])
    assert problems(pair.candidate) == (
        "3 AgentTurns are said to be failed or discarded, and the run has no call that shows it"
    )


def test_turns_that_only_the_agent_says_were_none_are_told_to_the_reader() -> None:
    """Also where the control has as many, and so could hide them."""
    retried = [Turn(calls=(CUT, Call()))] * 3
    hidden = [Turn(), Turn(disposition="discarded"), Turn(calls=(Call(purpose="side"),))]
    pair = verdict(control(retried), candidate(hidden))
    record = Record(number=1, decided_ns=NOW_NS, contradicted_ns=None, decision=pair)

    assert pair.avoided == 2
    assert explain_pair(record, None, Settings()).for_credit[-1] == (
        "the candidate made 2 model calls that added no turn, the control 3; what such calls were"
        " for is the agent's own word, so look at them below"
    )


# Calls of others inside of one of ours


def hidden(number: int, **said: Any) -> bytes:
    """Return a candidate, and others' calls in its first call's time, below spans of no use."""
    request = ExportTraceServiceRequest.FromString(candidate())
    call = spans_of(request)[3]
    inside = ExportTraceServiceRequest.FromString(others("k", calls(SERVER, number)))
    for place, span in enumerate(spans_of(inside)):
        span.trace_id = call.trace_id
        span.parent_span_id = bytes([1 + place]) * 8
        span.start_time_unix_nano = call.start_time_unix_nano + 1 + 2 * place
        span.end_time_unix_nano = span.start_time_unix_nano + 1
        _say(span, **{key: f"{value}-{place}" for key, value in said.items()})
    request.resource_spans.extend(inside.resource_spans)
    return request.SerializeToString()


@pytest.mark.parametrize(
    "said", [{}, {GenAI.RESPONSE_ID: "answer"}], ids=["bare", "with response ids"]
)
def test_one_call_of_ours_does_not_hide_a_loop_of_others(said: dict[str, str]) -> None:
    """An agent's whole run, wrapped in one LlmCall."""
    pair = verdict(control(), hidden(4, **said))

    assert (pair.avoided, pair.causes[0].value) == (0, INCOMPLETE)
    assert problems(pair.candidate) == (
        "3 calls or tools inside the run were not declared by its Invoke"
    )


def test_the_one_call_that_it_wraps_is_the_same_call() -> None:
    pair = verdict(control(), hidden(1), settings=ANY_SCOPE)

    assert figures(pair) == (3, 2, 1, 0, [])


# Runs that go on


def resumed(state: str) -> bytes:
    """Return a candidate whose first part ended so, and whose last part declares everything."""
    request = ExportTraceServiceRequest.FromString(candidate())
    spans = request.resource_spans[0].scope_spans[0].spans
    first, last = spans[0], spans.add()
    last.CopyFrom(first)
    last.span_id = b"resumed!"
    last.start_time_unix_nano = first.end_time_unix_nano + SECOND
    last.end_time_unix_nano = last.start_time_unix_nano + SECOND
    _say(last, **{Attr.SEQ: len(spans) - 1, Attr.INVOKE_ENTRIES: len(spans)})
    _say(first, **{Attr.INVOKE_STATE: state})
    counts = (
        *(Attr.INVOKE_AGENT_TURNS, Attr.INVOKE_LLM_CALLS),
        *(Attr.INVOKE_TOOL_TURNS, Attr.INVOKE_ENTRIES),
    )
    kept = [each for each in first.attributes if each.key not in counts]
    _replace(first, kept)
    return request.SerializeToString()


def _say(span: Span | Resource, **said: int | str | None) -> None:
    others = [each for each in span.attributes if each.key not in said]
    new = (_key_value(key, value) for key, value in said.items() if value is not None)
    _replace(span, [*others, *new])


def _replace(span: Span | Resource, attributes: Iterable[KeyValue]) -> None:
    kept = [KeyValue.FromString(each.SerializeToString()) for each in attributes]
    del span.attributes[:]
    span.attributes.extend(kept)


def _key_value(key: str, value: int | str) -> KeyValue:
    said = AnyValue(int_value=value) if isinstance(value, int) else AnyValue(string_value=value)
    return KeyValue(key=key, value=said)


@pytest.mark.parametrize(
    ("state", "causes"),
    [("paused", []), ("failed", [NOT_COMPLETED]), ("aborted", [NOT_COMPLETED])],
)
def test_a_run_that_failed_is_not_mended_by_going_on(state: str, causes: list[str]) -> None:
    pair = verdict(control(), resumed(state))

    assert figures(pair) == (3, 2, 0 if causes else 1, 1 if causes else 0, causes)
    assert found(pair) == [
        "the candidate went on after a part of it had failed or was aborted" for _ in causes
    ]


@pytest.mark.parametrize("ended", ["invalidated", "counterfactual_only"])
def test_nothing_is_realized_after_the_lifecycle_has_ended(ended: str) -> None:
    """A pause does not make a change valid again that was found wrong before it."""
    pair = verdict(control(), edited(resumed("paused"), 0, **{Attr.LIFECYCLE: ended}))

    assert figures(pair) == (3, 2, 0, 1, ["lifecycle-not-realized"])
    assert found(pair) == [f"the candidate's lifecycle is {ended}"]


@pytest.mark.parametrize("before", ["opportunity", "attempted"])
def test_a_change_may_take_effect_after_a_pause(before: str) -> None:
    later = edited(resumed("paused"), 0, **{Attr.LIFECYCLE: before})

    assert figures(verdict(control(), later)) == (3, 2, 1, 0, [])


def with_status(body: bytes, seq: int, **said: Any) -> bytes:
    """Return a run of which the entry with a number ended in an error by its status."""
    request = ExportTraceServiceRequest.FromString(body)
    span = spans_of(request)[seq]
    span.status.code = Status.STATUS_CODE_ERROR
    _say(span, **said)
    return request.SerializeToString()


FAILED_AND_COMPLETED = [
    "the candidate says that it completed, and its Invoke's span that it ended in an error"
]


@pytest.mark.parametrize(
    "failed",
    [
        pytest.param(with_status(candidate(), 0), id="status"),
        pytest.param(edited(candidate(), 0, **{"error.type": "TimeoutError"}), id="error.type"),
    ],
)
def test_a_run_did_not_complete_whose_invoke_ended_in_an_error(failed: bytes) -> None:
    """The word stands against what the span itself shows, and the word is cheap."""
    pair = verdict(control(), failed)

    assert figures(pair) == (3, 2, 0, 1, [NOT_COMPLETED])
    assert found(pair) == FAILED_AND_COMPLETED


def test_a_control_that_failed_is_as_little_a_measure() -> None:
    assert figures(verdict(with_status(control(), 0), candidate())) == (3, 2, 0, 1, [NOT_COMPLETED])


@pytest.mark.parametrize("recovered", [ASKED, 3], ids=["tool", "call"])
def test_an_error_that_the_agent_recovered_from_is_not_the_runs(recovered: int) -> None:
    assert figures(verdict(control(), with_status(candidate(), recovered))) == (3, 2, 1, 0, [])


def test_a_sub_agent_that_failed_is_not_the_run() -> None:
    """Its caller saw the error, and completed."""
    request = ExportTraceServiceRequest.FromString(candidate())
    spans = spans_of(request)
    sub = spans.add()
    sub.CopyFrom(spans[ASKED])
    sub.span_id, sub.parent_span_id = b"sub-agnt", spans[ASKED].span_id
    sub.status.code = Status.STATUS_CODE_ERROR
    invoked = {Attr.ENTRY: "invoke", GenAI.OPERATION_NAME: "invoke_agent"}
    _say(sub, **invoked, **{Attr.SEQ: len(spans) - 1, Attr.INVOKE_STATE: "completed"})
    _say(spans[0], **{Attr.INVOKE_ENTRIES: len(spans)})

    assert figures(verdict(control(), request.SerializeToString())) == (3, 2, 1, 0, [])


# What a limit at the sender left out


def cut(body: bytes, *, attributes: int = 0, resource: int = 0, **named: Any) -> bytes:
    """Return an observation whose sender says how many attributes it left out.

    ``named``: attributes of the resource, None for one that is left out.
    """
    request = ExportLogsServiceRequest.FromString(body)
    (logs,) = request.resource_logs
    logs.scope_logs[0].log_records[0].dropped_attributes_count = attributes
    logs.resource.dropped_attributes_count = resource
    _say(logs.resource, **named)
    return request.SerializeToString()


def cut_span(body: bytes, *, attributes: int = 0, resource: int = 0, **named: Any) -> bytes:
    """Return the same of the first span in a request."""
    request = ExportTraceServiceRequest.FromString(body)
    (spans,) = request.resource_spans
    spans.scope_spans[0].spans[0].dropped_attributes_count = attributes
    spans.resource.dropped_attributes_count = resource
    _say(spans.resource, **named)
    return request.SerializeToString()


CUT_LIST = (
    "no observation of the candidate counts: orders-db/v1: 2 attributes were dropped by a limit,"
    " and perhaps effects in them"
)


def test_an_observation_that_lost_attributes_proves_nothing() -> None:
    """An effect that it saw may be among them."""
    pair = verdict(control(), candidate(), logs=[*seen("c"), cut(observation("k"), attributes=2)])

    assert figures(pair) == (3, 2, 0, 1, [UNOBSERVED])
    assert found(pair) == [CUT_LIST]


def test_nor_does_one_that_came_as_a_span() -> None:
    span = cut_span(observation_span("k"), attributes=2)

    pair = verdict(control(), candidate(), span, logs=seen("c"))

    assert figures(pair) == (3, 2, 0, 1, [UNOBSERVED])
    assert found(pair) == [CUT_LIST]


def test_the_same_in_otlp_json_as_the_collectors_file_exporter_writes_it() -> None:
    record = ExportLogsServiceRequest.FromString(observation("k"))
    record.resource_logs[0].scope_logs[0].log_records[0].dropped_attributes_count = 2
    written = MessageToJson(record).encode()

    pair = verdict(control(), candidate(), logs=[*seen("c"), logs_from_json(written)])

    assert figures(pair) == (3, 2, 0, 1, [UNOBSERVED])


def test_one_that_came_again_whole_counts() -> None:
    again = [cut(observation("k"), attributes=2), observation("k", observed_ns=LATER_NS)]

    pair = verdict(control(), candidate(), logs=[*seen("c"), *again])

    assert figures(pair) == (3, 2, 1, 0, [])


def test_but_not_against_what_was_left_of_it() -> None:
    again = [
        cut(observation("k", ["another effect"]), attributes=2),
        observation("k", observed_ns=LATER_NS),
    ]

    pair = verdict(control(), candidate(), logs=[*seen("c"), *again])

    assert figures(pair) == (3, 2, 0, 1, [CONFLICT])


def test_an_identity_that_may_have_been_cut_proves_no_independence() -> None:
    lost = {"resource": 1, "service.instance.id": None}
    logs = [cut(observation(run_id), **lost) for run_id in "ck"]

    pair = verdict(control(), candidate(), logs=logs)

    assert figures(pair) == (3, 2, 0, 1, [DEPENDENT])
    assert found(pair) == [
        *(
            f"orders-db/v1 saw the {side} as orders-observer / (no service.instance.id): its"
            " resource lost 1 attribute, and perhaps an identity"
            for side in ("control", "candidate")
        ),
        "the agents ran as agent / agent-c, agent / agent-k",
    ]


def test_an_identity_that_stands_there_whole_does() -> None:
    logs = [cut(observation(run_id), resource=3) for run_id in "ck"]

    assert figures(verdict(control(), candidate(), logs=logs)) == (3, 2, 1, 0, [])


def test_an_observer_without_an_instance_is_one_where_nothing_was_left_out() -> None:
    logs = [cut(observation(run_id), **{"service.instance.id": None}) for run_id in "ck"]

    assert figures(verdict(control(), candidate(), logs=logs)) == (3, 2, 1, 0, [])


def test_a_run_whose_resource_lost_attributes_is_not_whole() -> None:
    """What it says of itself, its arm or its variant, may stand there."""
    pair = verdict(control(), cut_span(candidate(), resource=2))

    assert figures(pair) == (3, 2, 0, 1, [INCOMPLETE])
    assert problems(pair.candidate) == (
        "2 attributes of the resource were dropped, and perhaps the run's own"
    )


def test_an_agent_whose_identity_may_have_been_cut_is_nobody_to_be_independent_of() -> None:
    k = cut_span(candidate(), resource=2, **{"service.instance.id": None})

    assert figures(verdict(control(), k)) == (3, 2, 0, 1, [INCOMPLETE, DEPENDENT])


# Observers


PROCESS = {"process.pid": 4711, "host.name": "web-1"}
LOST = "{} attributes were dropped by a limit, and perhaps effects in them"
SAME_AS_THE_AGENT = "the observer is not provably another process than the run's"


@pytest.mark.parametrize(
    ("agent", "observer", "causes"),
    [
        (PROCESS, PROCESS, [DEPENDENT]),
        (PROCESS, {**PROCESS, "process.pid": 4712}, []),
        (PROCESS, {**PROCESS, "host.name": "web-2"}, []),
        (PROCESS, {}, []),
        (PROCESS, {"process.pid": 4711}, []),
        ({**PROCESS, "host.id": "m1"}, {"process.pid": 4711, "host.id": "m1"}, [DEPENDENT]),
        ({**PROCESS, "container.id": "a1"}, {**PROCESS, "container.id": "a1"}, [DEPENDENT]),
        ({**PROCESS, "container.id": "a1"}, {**PROCESS, "container.id": "b2"}, []),
        ({**PROCESS, "k8s.pod.uid": "p1"}, {**PROCESS, "k8s.pod.uid": "p2"}, []),
        (
            {**PROCESS, "process.creation.time": "2026-05-28T20:26:40Z"},
            {**PROCESS, "process.creation.time": "2026-05-28T20:27:40Z"},
            [],
        ),
    ],
)
def test_another_service_name_makes_no_other_process(
    agent: dict[str, Any], observer: dict[str, Any], causes: list[str]
) -> None:
    """Whoever looks from inside the agent's process is the agent, whatever it calls itself."""
    logs = [cut(observation(run_id), **observer) for run_id in "ck"]

    pair = verdict(control(), cut_span(candidate(), **agent), logs=logs)

    assert figures(pair) == (3, 2, 0 if causes else 1, 1 if causes else 0, causes)


def test_explain_names_the_process_that_both_are() -> None:
    logs = [*seen("c"), cut(observation("k"), **PROCESS)]

    pair = verdict(control(), cut_span(candidate(), **PROCESS), logs=logs)

    assert found(pair) == [
        (
            "orders-db/v1 saw the candidate as orders-observer / observer-1: the agent's own"
            " process 4711 on web-1"
        ),
        "the agents ran as agent / agent-c, agent / agent-k",
    ]


@pytest.mark.parametrize(
    ("observed", "problem"),
    [
        (cut(observation("k"), attributes=1), LOST.format(1)),
        (cut(observation("k"), attributes=2), LOST.format(2)),
        (
            cut(observation("k"), **PROCESS),
            f"{SAME_AS_THE_AGENT}: the agent's own process 4711 on web-1",
        ),
        (
            cut(observation("k"), resource=3, **{"service.instance.id": None}),
            f"{SAME_AS_THE_AGENT}: its resource lost 3 attributes, and perhaps an identity",
        ),
    ],
)
def test_the_run_itself_is_explained_with_why_an_observation_does_not_count(
    observed: bytes, problem: str
) -> None:
    reader = Reader()
    batches = [read_traces(cut_span(candidate(), **PROCESS), reader), read_logs(observed, reader)]
    with (
        tempfile.TemporaryDirectory() as folder,
        Ledger.open(f"sqlite:///{Path(folder) / 'ledger.db'}") as ledger,
    ):
        for batch in batches:
            ledger.add(batch.facts, batch.observations, arrived_ns=NOW_NS)
        ledger.decide(Settings(), now_ns=NOW_NS, final=True)
        (run,) = explain(ledger, ["k"], Settings()).runs

    assert [(seen.counts, seen.problem) for seen in run.observations] == [(False, problem)]


def test_the_same_span_with_and_without_its_process_is_one() -> None:
    """It came straight, and through a Collector that says on which machine."""
    straight, through = candidate(), cut_span(candidate(), **PROCESS)

    assert figures(verdict(control(), straight, through)) == (3, 2, 1, 0, [])
    logs = [cut(observation(run_id), **PROCESS) for run_id in "ck"]
    for both in ([straight, through], [through, straight]):
        assert figures(verdict(control(), *both, logs=logs)) == (3, 2, 0, 1, [DEPENDENT])


def test_a_copied_observer_id_is_known_by_the_service_that_uses_it() -> None:
    sneaky = observation("k", service="sneaky", instance="s-1")

    pair = verdict(control(), candidate(), logs=[*seen("c"), sneaky])

    assert figures(pair) == (3, 2, 0, 1, [MISMATCH])
    assert found(pair) == [
        "the control was observed by orders-db/v1 as orders-observer / observer-1",
        "the candidate was observed by orders-db/v1 as sneaky / s-1",
    ]


def test_an_observer_that_was_restarted_in_between_is_the_same() -> None:
    again = observation("k", instance="observer-2")

    assert figures(verdict(control(), candidate(), logs=[*seen("c"), again])) == (3, 2, 1, 0, [])


def test_explain_names_the_observation_that_came_without_its_credential() -> None:
    reader = Reader()
    facts = [fact for body in (control(), candidate()) for fact in read_traces(body, reader).facts]
    observed = [
        *read_logs(observation("c"), reader, role="observer").observations,
        *read_logs(observation("k"), reader).observations,
    ]
    with (
        tempfile.TemporaryDirectory() as folder,
        Ledger.open(f"sqlite:///{Path(folder) / 'ledger.db'}") as ledger,
    ):
        ledger.add(facts, observed, arrived_ns=NOW_NS)
        made = ledger.decide(Settings(), now_ns=NOW_NS, final=True)
    (pair,) = [one for one in made if isinstance(one, PairDecided)]

    assert found(pair) == [
        "orders-db/v1 saw the candidate without the credential that it had for the control",
        "the agents ran as agent / agent-c, agent / agent-k",
    ]


# Sub-agents behind a server, whose span is of no use to anybody and never stored

ROOT, SERVER, OTHER_SERVER = b"root-run", b"server-1", b"server-2"
MS = 1_000_000


def others(
    trace: str, spans: Iterable[tuple[bytes, bytes, str, int, int, dict[str, Any]]]
) -> bytes:
    """Return spans of another instrumentation: id, parent, operation, start and end in ms."""
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    resource.resource.attributes.append(_key_value("service.name", "agent"))
    resource.resource.attributes.append(_key_value("service.instance.id", trace))
    scope = resource.scope_spans.add()
    scope.scope.name = "framework"
    for span_id, parent, operation, start_ms, end_ms, said in spans:
        span = scope.spans.add(
            trace_id=trace.encode() * (16 // len(trace)),
            span_id=span_id,
            parent_span_id=parent,
            name=operation,
            start_time_unix_nano=START_NS + start_ms * MS,
            end_time_unix_nano=START_NS + end_ms * MS,
        )
        _say(span, **{"gen_ai.operation.name": operation, "gen_ai.request.model": "m", **said})
    return request.SerializeToString()


def calls(parent: bytes, number: int, start_ms: int = 100) -> list[Any]:
    return [
        (
            parent[:7] + bytes([n]),
            parent,
            "chat",
            start_ms + 1000 * n,
            start_ms + 1000 * n + 900,
            {},
        )
        for n in range(number)
    ]


def agent(arm: str, number: int, parent: bytes = b"", **said: Any) -> list[Any]:
    about = {
        Attr.ARM: arm,
        Attr.INPUT_DIGEST: input_digest("task"),
        Attr.LIFECYCLE: "realized",
        **said,
    }
    return [(ROOT, parent, "invoke_agent", 0, 20_000, about), *calls(ROOT, number)]


def inner(parent: bytes, number: int = 3, **said: Any) -> list[Any]:
    root = b"sub-root"
    return [(root, parent, "invoke_agent", 5_000, 15_000, said), *calls(root, number, 5_100)]


def inferred(*spans: Any) -> PairDecided:
    run_ids = [f"trace:{(trace.encode() * 16).hex()}/{ROOT.hex()}" for trace in "ck"]
    pair = verdict(
        others("c", agent("control", 4)),
        others("k", spans),
        logs=seen(*run_ids),
        settings=INFERRED,
    )
    assert pair.candidate.run_id == run_ids[1]
    return pair


def without_its_kind(dropped: int) -> PairDecided:
    """Return the verdict where the candidate's second call shows only what its SDK set last."""
    counts = {"llm.token_count.prompt": 9000, "llm.token_count.completion": 9}
    request = ExportTraceServiceRequest.FromString(others("k", agent("fused-batch", 2)))
    call = spans_of(request)[-1]
    _replace(call, [_key_value(key, value) for key, value in counts.items()])
    call.dropped_attributes_count = dropped
    run_ids = [f"trace:{(trace.encode() * 16).hex()}/{ROOT.hex()}" for trace in "ck"]
    control = others("c", agent("control", 4))
    return verdict(control, request.SerializeToString(), logs=seen(*run_ids), settings=INFERRED)


def test_a_call_whose_kind_was_pushed_out_by_a_long_conversation_is_no_avoided_turn() -> None:
    """OpenInference sets the kind first, and an SDK at its limit drops what is oldest."""
    pair = without_its_kind(dropped=7)

    assert figures(pair) == (4, 1, 0, 3, [UNPROVEN])
    assert problems(pair.candidate) == (
        "1 spans lost attributes to a span limit, and perhaps what shows that they are model calls"
    )


def test_token_counts_alone_make_no_call_where_nothing_was_dropped() -> None:
    assert figures(without_its_kind(dropped=0)) == (4, 1, 3, 0, [])


def test_turns_moved_to_a_sub_agent_behind_a_server_are_turns_of_the_run() -> None:
    assert figures(inferred(*agent("fused-batch", 1), *inner(SERVER))) == (4, 4, 0, 0, [])


def test_so_they_are_where_the_run_itself_lies_behind_another_server() -> None:
    spans = [*agent("fused-batch", 1, OTHER_SERVER), *inner(SERVER)]

    assert figures(inferred(*spans)) == (4, 4, 0, 0, [])


@pytest.mark.parametrize(
    "beside",
    [
        pytest.param(inner(b""), id="a root of the trace"),
        pytest.param(inner(OTHER_SERVER), id="under the same server"),
        pytest.param(
            inner(OTHER_SERVER, **{Attr.INPUT_DIGEST: input_digest("another task")}),
            id="under the same server, with its own input",
        ),
    ],
)
def test_an_agent_that_ran_beside_it_is_none_of_the_run(beside: list[Any]) -> None:
    spans = [*agent("fused-batch", 1, OTHER_SERVER), *beside]

    assert figures(inferred(*spans)) == (4, 1, 3, 0, [])


def test_an_input_of_its_own_does_not_show_that_an_agent_behind_a_server_was_not_called() -> None:
    beside = inner(SERVER, **{Attr.INPUT_DIGEST: input_digest("another task")})
    pair = inferred(*agent("fused-batch", 1, OTHER_SERVER), *beside)

    assert figures(pair) == (4, 1, 0, 3, [UNPROVEN])


BELOW_THE_SERVER = {"trace_id": b"k" * 16, "start_ns": START_NS + MS}


def with_parent(body: bytes, parent: bytes) -> bytes:
    """Return a run with its root below a span that is nowhere."""
    request = ExportTraceServiceRequest.FromString(body)
    for span in request.resource_spans[0].scope_spans[0].spans:
        span.parent_span_id = span.parent_span_id or parent
    return request.SerializeToString()


def test_a_declared_sub_agent_behind_a_server_leaves_its_caller_unproven() -> None:
    """It has a run id of its own, and the server's spans go elsewhere."""
    sub = with_parent(run_spans(run_id="sub", arm=None, turns=4, **BELOW_THE_SERVER), SERVER)

    pair = verdict(control(), candidate(trace_id=b"k" * 16), sub)

    assert figures(pair) == (3, 2, 0, 1, [UNPROVEN])
    assert found(pair) == [
        (
            "in the candidate: another run began in the trace of this one, below a span that is not"
            " here, and nothing shows that its turns are not this one's: sub"
        )
    ]


def test_so_does_one_that_took_up_its_message_later() -> None:
    """A trace has one root, and all else in it was called from there."""
    later = {"trace_id": b"k" * 16, "start_ns": START_NS + 3_600 * SECOND}
    sub = with_parent(run_spans(run_id="sub", arm=None, turns=4, **later), SERVER)

    assert figures(verdict(control(), candidate(trace_id=b"k" * 16), sub)) == (
        3,
        2,
        0,
        1,
        [UNPROVEN],
    )


def test_a_run_behind_another_server_after_the_first_had_ended_is_no_part_of_it() -> None:
    later = {"trace_id": b"k" * 16, "start_ns": START_NS + 3_600 * SECOND}
    other = with_parent(run_spans(run_id="other", arm=None, turns=4, **later), SERVER)
    k = with_parent(candidate(trace_id=b"k" * 16), OTHER_SERVER)

    assert figures(verdict(control(), k, other)) == (3, 2, 1, 0, [])


def test_a_shadow_run_below_the_same_server_is_a_run_beside_it() -> None:
    shared = {"trace_id": b"k" * 16}
    runs = [control(**shared), candidate(**shared)]

    assert figures(verdict(*(with_parent(run, SERVER) for run in runs))) == (3, 2, 1, 0, [])


def test_a_sub_agent_of_others_behind_a_server_was_not_declared() -> None:
    trace = read_traces(candidate(), Reader()).facts[0].trace_id
    request = ExportTraceServiceRequest.FromString(others("x", inner(SERVER)))
    for span in request.resource_spans[0].scope_spans[0].spans:
        span.trace_id = bytes.fromhex(trace)
        span.start_time_unix_nano = START_NS + MS
        span.end_time_unix_nano = START_NS + 2 * MS

    pair = verdict(control(), candidate(), request.SerializeToString())

    assert (pair.avoided, "incomplete-run" in figures(pair)[-1]) == (0, True)
    assert (
        "3 calls or tools inside the run were not declared by its Invoke" in pair.candidate.problems
    )


# Runs that an operator's key puts together, such as threads

THREADS = Settings(accept=frozenset(Evidence), runs={"framework": "thread.id"})


def thread(name: str, arm: str, *parts: dict[str, Any]) -> list[bytes]:
    """Return agent spans, a minute and a trace each, with their own number of ``turns``."""
    requests = []
    for number, said in enumerate(parts):
        about = {"thread.id": name, **said}
        turns = about.pop("turns")
        start_ms = 60_000 * number
        root = f"{name}{number}".encode() * 4
        about = {Attr.ARM: arm, Attr.LIFECYCLE: "realized", **about}
        spans = [(root, b"", "invoke_agent", start_ms, start_ms + 50_000, about)]
        for span_id, parent, operation, start, end, _ in calls(root, turns, start_ms + 100):
            spans.append((span_id, parent, operation, start, end, {"thread.id": name}))
        requests.append(others(f"{name}{number}", spans))
    return requests


TASK = {Attr.INPUT_DIGEST: input_digest("task")}
OTHER_TASK = {Attr.INPUT_DIGEST: input_digest("another task")}
FAILS = {"error.type": "TimeoutError"}


def test_a_thread_of_two_tasks_is_not_the_run_of_its_first() -> None:
    two = thread("c", "control", {"turns": 4, **TASK}, {"turns": 4, **OTHER_TASK})
    one = thread("k", "fused-batch", {"turns": 1, **TASK})

    assert decided([*two, *one], seen(), THREADS) == []


@pytest.mark.parametrize(
    ("parts", "causes"),
    [
        ([{"turns": 1, **TASK}, {"turns": 1}], []),
        ([{"turns": 1, **TASK}, {"turns": 1, **FAILS}], [NOT_COMPLETED]),
        ([{"turns": 1, **TASK, **FAILS}, {"turns": 1}], [NOT_COMPLETED]),
    ],
)
def test_a_thread_completed_only_if_all_its_parts_did(
    parts: list[dict[str, Any]], causes: list[str]
) -> None:
    whole = thread("c", "control", {"turns": 4, **TASK})

    pair = verdict(*whole, *thread("k", "fused-batch", *parts), settings=THREADS)

    assert figures(pair) == (4, 2, 0 if causes else 2, 2 if causes else 0, causes)
