"""What a credential's role lets pass of a request that it may send."""

from __future__ import annotations

import msgspec

from otel_turnavoid.collector.auth import Credential
from otel_turnavoid.otlp import Batch
from otel_turnavoid.vocabulary import Role


def permitted(batch: Batch, credential: Credential | None) -> tuple[Batch, int]:
    """Return the batch without what its sender may not say, and how much that was.

    What is left out counts as refused, and the batch's problem says so.
    """
    if credential is None:
        return batch, 0
    if credential.role is Role.AGENT:
        left, what = len(batch.observations), "effects"
        kept = msgspec.structs.replace(batch, observations=[])
    else:
        left, what = len(batch.facts), "spans of agents"
        kept = msgspec.structs.replace(batch, facts=[])
    if not left:
        return batch, 0
    problem = f"a credential of role {credential.role} sends no {what} ({left} refused)"
    return (
        msgspec.structs.replace(
            kept,
            rejected=batch.rejected + left,
            problem=f"{batch.problem}; {problem}" if batch.problem else problem,
        ),
        left,
    )
