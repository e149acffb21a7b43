"""From a recorded conversation to the facts of its run.

The evidence is inferred: a record declares no counts, so nothing proves that it is whole.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final

import msgspec

from otel_turnavoid.conversations.conversation import Conversation, Response, ToolCall
from otel_turnavoid.dialects import SpanView, parts
from otel_turnavoid.dialects.attributes import Attributes
from otel_turnavoid.dialects.rules import Rules
from otel_turnavoid.dialects.view import LATEST_NS
from otel_turnavoid.digest import input_digest
from otel_turnavoid.errors import DigestError
from otel_turnavoid.judge.facts import CallDetail, Observation, SpanFact, ToolDetail
from otel_turnavoid.vocabulary import (
    SERVICE_INSTANCE_ID,
    SERVICE_NAME,
    UNCHANGED,
    Attr,
    Entry,
    Rejection,
)

DIALECT: Final = "conversation"
_SPAN_ID: Final = 16
_TRACE_ID: Final = 32


def facts_of(conversation: Conversation, rules: Rules) -> list[SpanFact]:
    """Return an Invoke, and a call for each response and a tool execution for each it asks for."""
    writer = _Writer(conversation, rules)
    return [
        writer.invoke(),
        *(fact for each in conversation.responses for fact in writer.both(each)),
    ]


def observation_of(conversation: Conversation) -> Observation | None:
    """Return what the record says that somebody else saw of the outcome, if it does."""
    if conversation.success is None:
        return None
    return seen(
        conversation.run_id,
        conversation.judged_by,
        done=conversation.success,
        asked=conversation.asked,
        task=conversation.unit,
        observed_ns=_time(conversation.end_ns),
    )


def seen(  # noqa: PLR0913 - what an observation says, each with a name
    run_id: str,
    observer: str,
    *,
    done: bool,
    asked: bool | None,
    task: str | None,
    observed_ns: int,
) -> Observation:
    """Return an observation that the task is done, or that nothing of it is: never half.

    A task that was to change nothing is done where all stayed as it was; the label says so.
    """
    label = f"task:{task}" if task else "task"
    label += f"={UNCHANGED if asked is False else 'done'}"
    return Observation(
        run_id=run_id,
        observer=observer,
        labels=(label,) if done else (),
        observed_ns=observed_ns,
        service=observer,
    )


class _Writer:
    def __init__(self, conversation: Conversation, rules: Rules) -> None:
        self._conversation = conversation
        self._rules = rules
        self._trace_id = sha256(f"conversation {conversation.run_id}".encode()).hexdigest()[
            :_TRACE_ID
        ]
        self._written = 0

    def invoke(self) -> SpanFact:
        run = self._conversation
        said = dict(run.said)
        said.setdefault(Attr.RUN_ID, run.run_id)
        if run.kind is not None:
            said.setdefault(Attr.INVOKE_KIND, run.kind)
        if run.unit is not None:
            said.setdefault(Attr.UNIT_ID, run.unit)
        attributes = Attributes(said, {})
        detail = parts.invoke_detail(attributes)
        configured = any(key in said for key in self._rules.digest)
        digest = detail.digest
        if digest is None and not configured:
            digest = _digest(run.task, attributes)
        detail = msgspec.structs.replace(detail, digest=digest, state=run.state)
        return self._fact(attributes, Entry.INVOKE, run.start_ns, run.end_ns, invoke=detail)

    def both(self, response: Response) -> list[SpanFact]:
        return [self._call(response), *map(self._tool, response.tool_calls)]

    def _call(self, response: Response) -> SpanFact:
        detail = CallDetail(
            model=response.model,
            response_id=response.response_id,
            input_digest=response.same_input,
            usage=response.usage,
        )
        fact = self._fact(
            self._attributes(response.said),
            Entry.LLM_CALL,
            response.start_ns,
            response.end_ns,
            call=detail,
        )
        return msgspec.structs.replace(fact, cost_usd=response.cost_usd)

    def _tool(self, call: ToolCall) -> SpanFact:
        detail = ToolDetail(name=call.name, call_id=call.call_id)
        fact = self._fact(
            self._attributes({}), Entry.TOOL_TURN, call.start_ns, call.end_ns, tool=detail
        )
        return msgspec.structs.replace(fact, failed=call.failed)

    def _attributes(self, said: dict[str, Any]) -> Attributes:
        run_id = self._conversation.said.get(Attr.RUN_ID, self._conversation.run_id)
        return Attributes({**said, Attr.RUN_ID: run_id}, {})

    def _fact(
        self, attributes: Attributes, entry: Entry, start_ns: int, end_ns: int, **detail: Any
    ) -> SpanFact:
        number = self._written
        self._written += 1
        view = SpanView(
            trace_id=self._trace_id,
            span_id=self._span_id(number),
            parent_id=self._span_id(0) if number else None,
            start_ns=_time(start_ns),
            end_ns=_time(end_ns),
            scope=self._conversation.scope,
            resource={SERVICE_NAME: DIALECT, SERVICE_INSTANCE_ID: self._conversation.run_id},
        )
        return parts.fact(view, attributes, self._rules, dialect=DIALECT, entry=entry, **detail)

    def _span_id(self, number: int) -> str:
        return sha256(f"{self._trace_id} {number}".encode()).hexdigest()[:_SPAN_ID]


def _time(ns: int) -> int:
    """Return a time as a ledger can hold it; a calendar goes further."""
    return max(0, min(ns, LATEST_NS))


def _digest(task: Any, attributes: Attributes) -> str | None:
    """Return what identifies the task; none where nothing does, a fault where it cannot."""
    if task in (None, "", [], {}):
        return None
    try:
        return input_digest(task)
    except DigestError as error:
        attributes.fault(Attr.INPUT_DIGEST, str(error), Rejection.DIGEST)
        return None
