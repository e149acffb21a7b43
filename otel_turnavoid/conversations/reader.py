"""One table of formats: which reader takes a recorded JSON value."""

from __future__ import annotations

from typing import Any, NamedTuple

from otel_turnavoid.conversations import effects, messages, trajectories
from otel_turnavoid.conversations.conversation import Conversation
from otel_turnavoid.conversations.facts import facts_of, observation_of
from otel_turnavoid.dialects.rules import Rules
from otel_turnavoid.judge.facts import Observation, SpanFact


class Recorded(NamedTuple):
    """What one recorded value says."""

    facts: list[SpanFact]
    observations: list[Observation]


def read_record(value: Any, file: str, number: int, rules: Rules) -> Recorded | None:
    """Read a JSON value that holds one conversation or one outcome; None if it holds neither.

    Args:
        value: The decoded JSON value.
        file: Name of the file without its endings, which names runs that have no other name.
        number: The value's place in the file, from 1.
        rules: What the configuration says about runs that do not say it themselves.
    """
    if messages.is_messages(value):
        value = {"messages": value}
    if not isinstance(value, dict):
        return None
    if messages.is_messages(value.get("messages")):
        return recorded(messages.read_messages(value, file, number), rules)
    if trajectories.is_trajectory(value):
        return recorded(trajectories.read_trajectory(value, file, number), rules)
    if effects.is_effects(value):
        return Recorded([], [effects.read_effects(value, file, number)])
    return None


def recorded(conversation: Conversation, rules: Rules) -> Recorded:
    """Return the facts of a conversation and what was seen of its outcome."""
    outcome = observation_of(conversation)
    return Recorded(facts_of(conversation, rules), [outcome] if outcome is not None else [])
