"""A call's input messages as a chain of hashes, from which nothing of them can be read."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Final

from otel_turnavoid.digest import canonical

MESSAGES: Final = "gen_ai.input.messages"
INSTRUCTIONS: Final = "gen_ai.system_instructions"
LONGEST: Final = 512
"""Messages in an input; a longer one is not looked at."""
_SIZE: Final = 8


def chain_of(messages: Any, instructions: Any) -> tuple[str, ...]:
    """Return a hash for each beginning of the messages; empty where there is no such list.

    Two inputs begin alike, instructions included, as far as their chains do.

    Raises:
        DigestError: A message cannot be written as canonical JSON.
    """
    if not isinstance(messages, list) or not 0 < len(messages) <= LONGEST:
        return ()
    chain: list[str] = []
    before = blake2b(canonical(instructions), digest_size=_SIZE).digest()
    for message in messages:
        before = blake2b(before + canonical(message), digest_size=_SIZE).digest()
        chain.append(before.hex())
    return tuple(chain)
