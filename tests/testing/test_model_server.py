"""The scripted model server: three APIs, whole and streamed, and an honest count."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from otel_turnavoid.testing import Reply, ToolCall
from otel_turnavoid.testing.model_server import Cut, Failure, ModelServer

REPLY = Reply("Hello", tool_calls=[ToolCall("look_up", {"order": 42})], cached_tokens=120)
PATHS = ("/v1/chat/completions", "/v1/responses", "/v1/messages")


def post(server: ModelServer, path: str, **body: Any) -> httpx.Response:
    return httpx.post(f"{server.anthropic_url}{path}", json={"model": "m", **body}, timeout=60)


def events(response: httpx.Response) -> list[dict[str, Any]]:
    lines = [line[6:] for line in response.text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


@pytest.mark.parametrize("path", PATHS)
def test_each_request_takes_the_next_item_of_the_script(path: str) -> None:
    with ModelServer([REPLY, "Done."]) as server:
        ids = [post(server, path).json()["id"] for _ in range(2)]

    prefix = {PATHS[0]: "chatcmpl-", PATHS[1]: "resp_", PATHS[2]: "msg_"}[path]
    assert ids == [f"{prefix}1", f"{prefix}2"]
    assert (len(server.requests), server.answers, server.tool_calls) == (2, 2, 1)


@pytest.mark.parametrize("status", [429, 500])
def test_a_failure_is_a_request_and_no_answer(status: int) -> None:
    with ModelServer([Failure(status), REPLY]) as server:
        said = [post(server, PATHS[0]).status_code for _ in range(2)]

    assert said == [status, 200]
    assert [request.status for request in server.requests] == [status, 200]
    assert (server.answers, server.tool_calls) == (1, 1)


def test_a_request_beyond_the_script_is_refused() -> None:
    with ModelServer([]) as server:
        response = post(server, PATHS[0])

    assert response.status_code == 400
    assert response.json()["error"]["message"] == "the script has no answer 1"
    assert server.answers == 0


def test_an_unknown_path_is_refused() -> None:
    with ModelServer(["Hello"]) as server:
        assert post(server, "/v1/embeddings").status_code == 404
    assert server.answers == 0


def test_a_body_of_ones_own_is_sent_as_it_is() -> None:
    with ModelServer([{"id": "mine", "choices": []}]) as server:
        assert post(server, PATHS[0]).json() == {"id": "mine", "choices": []}


def test_usage_is_streamed_only_where_it_is_asked_for() -> None:
    """As OpenAI does; ``stream_options`` of a request says so."""
    asked = {"include_usage": True}
    with ModelServer([REPLY, REPLY]) as server:
        without = events(post(server, PATHS[0], stream=True))
        with_usage = events(post(server, PATHS[0], stream=True, stream_options=asked))

    assert [chunk for chunk in without if "usage" in chunk] == []
    assert with_usage[-1]["usage"]["prompt_tokens_details"] == {"cached_tokens": 120}


@pytest.mark.parametrize("path", PATHS[1:])
def test_a_stream_ends_with_what_the_whole_answer_says(path: str) -> None:
    with ModelServer([REPLY, REPLY]) as server:
        whole = post(server, path).json()
        last = events(post(server, path, stream=True))[-1]

    if path == PATHS[1]:
        assert last["response"]["usage"] == whole["usage"]
    else:
        assert last == {"type": "message_stop"}


@pytest.mark.parametrize("path", PATHS)
def test_a_cut_stream_breaks_the_connection_and_is_no_answer(path: str) -> None:
    with (
        ModelServer([Cut(REPLY)]) as server,
        pytest.raises(httpx.RemoteProtocolError, match="incomplete chunked read"),
    ):
        post(server, path, stream=True)

    assert (len(server.requests), server.answers, server.tool_calls) == (1, 0, 0)


def test_anthropic_gets_cached_tokens_apart() -> None:
    with ModelServer([REPLY]) as server:
        usage = post(server, PATHS[2]).json()["usage"]

    assert usage == {
        "input_tokens": 80,
        "cache_read_input_tokens": 120,
        "cache_creation_input_tokens": 0,
        "output_tokens": 20,
    }
