"""Short ways to write recorded conversations, and to read them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from otel_turnavoid.conversations import Recorded, read_record
from otel_turnavoid.dialects.rules import Rules
from otel_turnavoid.judge.facts import SpanFact
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.vocabulary import Entry


class Read:
    """What one record was read into."""

    def __init__(self, recorded: Recorded) -> None:
        self.facts = recorded.facts
        self.observations = recorded.observations
        self.invoke = next(fact for fact in self.facts if fact.entry is Entry.INVOKE)
        self.calls = self._of(Entry.LLM_CALL)
        self.tools = self._of(Entry.TOOL_TURN)

    def _of(self, entry: Entry) -> list[SpanFact]:
        return [fact for fact in self.facts if fact.entry is entry]


@pytest.fixture
def read() -> Callable[..., Read]:
    """Read a JSON value as the third one of the file ``runs``; keywords are ``Settings``."""

    def make(value: Any, **settings: Any) -> Read:
        recorded = read_record(value, "runs", 3, Rules(Settings(**settings)))
        assert recorded is not None
        return Read(recorded)

    return make
