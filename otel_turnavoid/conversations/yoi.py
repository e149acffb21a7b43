"""Session logs of yoi: one entry a line, each range between two ``invoke`` entries one run.

``llm_usage`` is one LlmCall; the same ``history_len`` in a row is the same input and so the
same AgentTurn. ``turn_end`` counts nothing, a seeded history is no work of its segment, and a
log that stops before its run ended shows a crash.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from otel_turnavoid.conversations import record as recorded
from otel_turnavoid.conversations.conversation import Conversation, Response, ToolCall
from otel_turnavoid.digest import input_digest
from otel_turnavoid.judge.facts import Usage
from otel_turnavoid.vocabulary import InvokeState

SCOPE: Final = "conversation.yoi"
_MS: Final = 1_000_000
_KINDS: Final = {"worker_event": "pod_event"}
"""Newer spellings of triggers."""
_RESULTS: Final = {
    "finished": InvokeState.COMPLETED,
    "paused": InvokeState.PAUSED,
    "yielded": InvokeState.PAUSED,
    "limit_reached": InvokeState.ABORTED,
}
_CONTENT: Final = ("user_input", "assistant_item", "tool_result", "system_item")


def is_session(value: Any) -> bool:
    """Tell whether the first value of a file begins such a log."""
    return isinstance(value, dict) and value.get("kind") == "segment_start" and "ts" in value


def read_session(entries: Sequence[dict[str, Any]], file: str) -> list[Conversation]:
    """Return the runs of a log in order; ``file`` names a session that has no id."""
    reader = _Reader(file)
    for entry in entries:
        reader.take(entry)
    return reader.runs


class _Reader:
    def __init__(self, file: str) -> None:
        self.runs: list[Conversation] = []
        self._file = file
        self._session: dict[str, Any] = {}
        self._segments = 0
        self._history: list[Any] = []
        self._calls: dict[str, ToolCall] = {}

    def take(self, entry: dict[str, Any]) -> None:
        kind = recorded.text(entry, "kind")
        now_ns = (recorded.count(entry, "ts") or 0) * _MS
        if kind == "segment_start":
            self._session = entry
            self._segments += 1
            self._history = [entry.get("system_prompt"), entry.get("history")]
            return
        if kind == "invoke":
            self._begin(entry, now_ns)
        elif kind in _CONTENT:
            self._history.append(entry.get("segments") or entry.get("item"))
        if not self.runs:
            return
        run = self.runs[-1]
        run.end_ns = max(run.end_ns, now_ns)
        if kind == "llm_usage":
            self._call(run, entry, now_ns)
        elif kind == "assistant_item":
            self._ask(run, entry.get("item"), now_ns)
        elif kind == "tool_result":
            self._answer(entry.get("item"), now_ns)
        else:
            run.state = _state(entry, kind) or run.state

    def _begin(self, entry: dict[str, Any], now_ns: int) -> None:
        session = recorded.text(self._session, "session_id") or self._file
        trigger = recorded.text(entry, "trigger") or ""
        config = self._session.get("config")
        said = recorded.plain(config if isinstance(config, dict) else {}, self._file)
        self.runs.append(
            Conversation(
                run_id=f"{session}/{len(self.runs)}",
                scope=SCOPE,
                kind=_KINDS.get(trigger, trigger),
                # Until an entry says how it ended.
                state=InvokeState.FAILED,
                said={**said, "session_id": session},
                start_ns=now_ns,
                end_ns=now_ns,
            )
        )

    def _call(self, run: Conversation, entry: dict[str, Any], now_ns: int) -> None:
        if not run.responses:
            run.task = list(self._history)
        length = recorded.count(entry, "history_len")
        run.responses.append(
            Response(
                usage=Usage(
                    input=recorded.count(entry, "input_total_tokens"),
                    output=recorded.count(entry, "output_tokens"),
                    cache_read=recorded.count(entry, "cache_read_tokens"),
                    cache_write=recorded.count(entry, "cache_write_tokens"),
                ),
                model=recorded.text(run.said, "model"),
                start_ns=now_ns,
                end_ns=now_ns,
                same_input=None if length is None else self._input(length),
            )
        )

    def _input(self, length: int) -> str:
        """Return what names an input within the log: where it ended in which segment."""
        return input_digest({"segment": self._segments, "history_len": str(length)})

    def _ask(self, run: Conversation, item: Any, now_ns: int) -> None:
        if not run.responses or recorded.text(item, "kind") != "tool_call":
            return
        call = ToolCall(
            call_id=recorded.text(item, "call_id"),
            name=recorded.text(item, "name"),
            start_ns=now_ns,
            end_ns=now_ns,
        )
        run.responses[-1].tool_calls.append(call)
        if call.call_id is not None:
            self._calls[call.call_id] = call

    def _answer(self, item: Any, now_ns: int) -> None:
        call = self._calls.get(recorded.text(item, "call_id") or "")
        if call is not None:
            call.end_ns = now_ns
            call.failed = isinstance(item, dict) and item.get("is_error") is True


def _state(entry: dict[str, Any], kind: str | None) -> InvokeState | None:
    if kind == "run_completed":
        if entry.get("interrupted") is True:
            return InvokeState.ABORTED
        return _RESULTS.get(recorded.text(entry, "result") or "", InvokeState.FAILED)
    if kind == "run_errored":
        return InvokeState.FAILED
    return InvokeState.ABORTED if kind == "paused_turn_abandoned" else None
