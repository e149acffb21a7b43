"""What can be said about each kind of entry while it runs."""

from __future__ import annotations

from typing import Any, ClassVar

from otel_turnavoid.instrument import checks
from otel_turnavoid.instrument.call_handle import CallHandle
from otel_turnavoid.instrument.content import as_text
from otel_turnavoid.instrument.invoke_handle import InvokeHandle
from otel_turnavoid.instrument.scope import Handle
from otel_turnavoid.instrument.turn_handle import TurnHandle
from otel_turnavoid.vocabulary import Attr, Entry, GenAI, ToolCaller, ToolDisposition

__all__ = [
    "CallHandle",
    "InvokeHandle",
    "SystemTurnHandle",
    "ToolHandle",
    "TurnHandle",
    "UserTurnHandle",
]


class UserTurnHandle(Handle):
    """An open UserTurn."""

    entry: ClassVar[str] = Entry.USER_TURN.value


class SystemTurnHandle(Handle):
    """An open SystemTurn."""

    entry: ClassVar[str] = Entry.SYSTEM_TURN.value


class ToolHandle(Handle):
    """An open ToolTurn."""

    entry: ClassVar[str] = Entry.TOOL_TURN.value

    def set(
        self,
        *,
        disposition: str | None = None,
        caller: str | None = None,
        call_id: str | None = None,
    ) -> None:
        """State more about the tool's execution.

        Args:
            disposition: ``executed`` (also one that failed), ``reused``, ``denied``,
                ``speculated`` or ``discarded``; by itself executed.
            caller: ``model`` or ``code`` that the model wrote; by itself model.
            call_id: The model's id of the tool call (``gen_ai.tool.call.id``).
        """
        if disposition is not None:
            key = Attr.TOOL_DISPOSITION
            self.record(key, checks.word(ToolDisposition, key, disposition))
        if caller is not None:
            self.record(Attr.TOOL_CALLER, checks.word(ToolCaller, Attr.TOOL_CALLER, caller))
        if call_id is not None:
            self.record(GenAI.TOOL_CALL_ID, checks.text(GenAI.TOOL_CALL_ID, call_id))

    def content(self, *, arguments: Any = None, result: Any = None) -> None:
        """Give the tool's arguments and result: recorded only where content capture is on.

        On the span alone: the conventions know no event for tools.

        Args:
            arguments: ``gen_ai.tool.call.arguments``.
            result: ``gen_ai.tool.call.result``.
        """
        if self.run.content.on_spans:
            said = {GenAI.TOOL_CALL_ARGUMENTS: arguments, GenAI.TOOL_CALL_RESULT: result}
            for key, value in said.items():
                if value is not None:
                    self.record(key, as_text(value))
