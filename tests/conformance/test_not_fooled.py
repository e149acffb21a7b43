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
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from otel_turnavoid.dialects import Reader
from otel_turnavoid.digest import input_digest
from otel_turnavoid.judge.run import Run
from otel_turnavoid.judge.settings import SECOND, Settings
from otel_turnavoid.judge.verdict import NullDecided, PairDecided
from otel_turnavoid.otlp import read_logs, read_traces
from otel_turnavoid.publish.explained_pair import explain_pair
from otel_turnavoid.store import Ledger
from otel_turnavoid.store.reading import Record
from otel_turnavoid.testing import START_NS, Call, Turn, observation, run_spans
from otel_turnavoid.vocabulary import Attr, Evidence

NOW_NS = 1_790_000_000 * SECOND
UNPROVEN, NOT_COMPLETED, MISMATCH = (
    "completeness-unproven",
    "run-not-completed",
    "observer-mismatch",
)
CUT = Call(disposition="failed")
"""A stream that broke off: the model had been sampled."""
GOES_ON = Call(samplings=0)
INFERRED = Settings(accept=frozenset(Evidence))


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
    facts = [fact for body in traces for fact in read_traces(body, reader).facts]
    observed = [each for body in logs for each in read_logs(body, reader).observations]
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
    continued = [Turn(), Turn(calls=(Call(disposition="failed", samplings=0), GOES_ON))]

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


@pytest.mark.parametrize("entry", ["tool_turn", "user_turn", "system_turn"])
def test_a_model_call_in_the_clothes_of_another_entry_is_refused(entry: str) -> None:
    request = ExportTraceServiceRequest.FromString(candidate())
    spans = request.resource_spans[0].scope_spans[0].spans
    call = next(span for span in spans if span.name.startswith("chat"))
    _say(call, **{Attr.ENTRY: entry})

    assert decided([control(), request.SerializeToString()], seen()) == []


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


def _say(span: Span, **said: int | str) -> None:
    others = [each for each in span.attributes if each.key not in said]
    _replace(span, [*others, *(_key_value(key, value) for key, value in said.items())])


def _replace(span: Span, attributes: Iterable[KeyValue]) -> None:
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


# Observers


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
