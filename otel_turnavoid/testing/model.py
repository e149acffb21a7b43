"""A model that answers from a script, so that agents run without a network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from otel_turnavoid.errors import TurnAvoidError


@dataclass(frozen=True)
class ToolCall:
    """A request of the model to execute a tool."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    id: str = ""


@dataclass(frozen=True)
class Reply:
    """One prepared answer: text, tool calls, or both."""

    text: str = ""
    tool_calls: Sequence[ToolCall] = ()
    input_tokens: int = 200
    output_tokens: int = 20
    cached_tokens: int | None = None
    """Part of ``input_tokens`` that was read from a cache; None: the provider does not say."""
    cache_write_tokens: int | None = None
    """Part of ``input_tokens`` that was written to a cache."""
    reasoning_tokens: int | None = None
    """Part of ``output_tokens`` that was spent on reasoning."""
    id: str | None = None
    """Default: ``reply-`` and the number of the request, from 1."""

    @property
    def finish_reason(self) -> str:
        """``tool_call`` where the model wants tools executed, else ``stop``."""
        return "tool_call" if self.tool_calls else "stop"


class ScriptExhaustedError(TurnAvoidError):
    """The agent asked once more than the script has answers."""


class ScriptedModel:
    """Answers each request with the next item of its script; an exception is raised instead.

    Args:
        script: Replies, texts (a reply with that text) and exceptions, in order.
        name: The model's name.

    Attributes:
        requests: The messages of every request so far, copied as they were.
    """

    def __init__(
        self, script: Iterable[Reply | str | BaseException], *, name: str = "scripted-1"
    ) -> None:
        self.name = name
        self.requests: list[list[Any]] = []
        self._script = iter(script)

    def complete(self, messages: Sequence[Any]) -> Reply:
        """Answer a request, or fail as the script says.

        Raises:
            ScriptExhaustedError: No item is left.
            BaseException: What stands in the script.
        """
        self.requests.append(deepcopy(list(messages)))
        number = len(self.requests)
        item = next(self._script, None)
        if item is None:
            raise ScriptExhaustedError(f"the script of {self.name} has no answer {number}")
        if isinstance(item, BaseException):
            raise item
        reply = Reply(text=item) if isinstance(item, str) else item
        if reply.id is not None:
            return reply
        return Reply(**{**vars(reply), "id": f"reply-{number}"})

    async def acomplete(self, messages: Sequence[Any]) -> Reply:
        """Answer like ``complete``, for asynchronous agents."""
        return self.complete(messages)
