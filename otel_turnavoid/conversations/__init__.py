"""Pure: recorded conversations (message lists, trajectories, session logs) -> facts."""

from otel_turnavoid.conversations.messages import is_messages
from otel_turnavoid.conversations.reader import Recorded, read_record, recorded
from otel_turnavoid.conversations.yoi import is_session, read_session

__all__ = [
    "Recorded",
    "is_messages",
    "is_session",
    "read_record",
    "read_session",
    "recorded",
]
