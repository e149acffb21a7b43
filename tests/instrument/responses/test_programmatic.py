"""Code that the model wrote calls tools: tool calls never become turns (pitfall A49)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from otel_turnavoid import agent_turn, invoke, llm_call, tool_turn
from otel_turnavoid.instrument.responses import record_response, record_stream
from otel_turnavoid.judge.run import Run
from otel_turnavoid.testing import Telemetry
from otel_turnavoid.testing import model_wire as wire
from otel_turnavoid.testing.model_server import ModelServer

ANTHROPIC_USAGE = {"input_tokens": 100, "output_tokens": 10}
OPENAI_USAGE = {"input_tokens": 100, "output_tokens": 10}
SAID = {"type": "text", "text": "…"}
CODE = {"type": "server_tool_use", "id": "s1", "name": "code_execution", "input": {}}
CODE_RESULT = {"type": "code_execution_tool_result", "tool_use_id": "s1", "content": {}}
PROGRAM = {"type": "program", "id": "p", "call_id": "p", "code": "…", "fingerprint": "…"}
PROGRAM_OUTPUT = {"type": "program_output", "id": "p", "call_id": "p", "result": "…"}
TEXT = {"type": "message", "id": "i", "role": "assistant", "content": []}


def by_code(number: int) -> dict[str, Any]:
    return {
        "type": "tool_use",
        "id": f"t{number}",
        "name": "look_up",
        "input": {},
        "caller": {"type": "code_execution_20260120", "tool_id": "s1"},
    }


def by_program(number: int) -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": f"f{number}",
        "call_id": f"t{number}",
        "name": "look_up",
        "arguments": "{}",
        "caller": {"type": "program", "caller_id": "p"},
    }


def anthropic(number: int, *blocks: dict[str, Any]) -> dict[str, Any]:
    return wire.whole_message(blocks, ANTHROPIC_USAGE, message_id=f"msg_{number}")


def openai(number: int, *items: dict[str, Any]) -> dict[str, Any]:
    return wire.whole_response(items, OPENAI_USAGE, response_id=f"resp_{number}")


BY_ANTHROPIC = [
    anthropic(0, SAID, CODE, by_code(0)),
    *(anthropic(number, by_code(number)) for number in range(1, 10)),
    anthropic(10, CODE_RESULT, SAID),
]
BY_OPENAI = [
    openai(0, PROGRAM, by_program(0)),
    *(openai(number, by_program(number)) for number in range(1, 10)),
    openai(10, PROGRAM_OUTPUT, TEXT),
]


@pytest.mark.parametrize("bodies", [BY_ANTHROPIC, BY_OPENAI], ids=["anthropic", "openai"])
def test_ten_tools_called_by_code_are_two_turns(
    telemetry: Telemetry, arrived: Callable[[], Run], bodies: list[dict[str, Any]]
) -> None:
    """One inference, ten tools, ten requests that hand results back; the last one is sampled."""
    with invoke(run_id="r", arm="control", input="…", tracer_provider=telemetry.tracer_provider):
        for number, body in enumerate(bodies):
            with agent_turn(), llm_call("m", input=[number]):
                record_response(body)
            if number < 10:
                with tool_turn("look_up", caller="code"):
                    pass

    run = arrived()

    assert run.causes == ()
    assert (run.model_turns, run.llm_calls, run.tool_calls) == (2, 11, 10)


def by_sdk(server: ModelServer, api: str, *, stream: bool) -> Any:
    """Ask a provider's SDK, and record what it returns."""
    if api == "openai":
        openai = pytest.importorskip("openai", reason="needs the extra 'frameworks'")
        client = openai.OpenAI(base_url=server.openai_url, api_key="none")
        answer = client.responses.create(model="m", input="…", stream=stream)
    else:
        sdk = pytest.importorskip("anthropic", reason="needs the extra 'frameworks'")
        client = sdk.Anthropic(
            base_url=server.anthropic_url, api_key="none", open_telemetry={"traces": False}
        )
        answer = client.messages.create(
            model="m", messages=[{"role": "user", "content": "…"}], max_tokens=9, stream=stream
        )
    if stream:
        for _event in record_stream(answer):
            pass
    else:
        record_response(answer)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("api", "bodies"),
    [("anthropic", BY_ANTHROPIC), ("openai", BY_OPENAI)],
    ids=["anthropic", "openai"],
)
def test_the_same_as_objects_of_the_sdks(
    telemetry: Telemetry,
    arrived: Callable[[], Run],
    api: str,
    bodies: list[dict[str, Any]],
    stream: Any,
) -> None:
    with (
        ModelServer(bodies) as server,
        invoke(run_id="r", arm="control", input="…", tracer_provider=telemetry.tracer_provider),
    ):
        for number in range(len(bodies)):
            with agent_turn(), llm_call("m", input=[number]):
                by_sdk(server, api, stream=stream)

    run = arrived()
    assert (run.causes, run.model_turns, run.llm_calls) == ((), 2, 11)


def test_a_paused_turn_goes_on_without_a_turn_of_its_own(
    telemetry: Telemetry, arrived: Callable[[], Run]
) -> None:
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
    messages: list[dict[str, Any]] = [{"role": "user", "content": "…"}]
    with invoke(run_id="r", arm="control", input="…", tracer_provider=telemetry.tracer_provider):
        for blocks in ([SAID, search], [found, search], [found, SAID]):
            with agent_turn(), llm_call("m", input=messages):
                record_response(anthropic(len(messages), *blocks), messages=messages)
            messages = [*messages, {"role": "assistant", "content": blocks}]

    run = arrived()

    assert run.causes == ()
    assert (run.model_turns, run.llm_calls) == (1, 3)
