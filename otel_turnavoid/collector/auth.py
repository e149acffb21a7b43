"""Who a request comes from: bearer tokens from files, and what their roles may do.

| role | may |
|---|---|
| ``agent`` | send spans and log records, but no effects |
| ``observer`` | send effects, and whatever is not about agents |
| ``reader`` | read: LedgerService and the Prometheus endpoint |

No role may do what another may. An agent's effects would be its own word, an observer's spans
of agents would make it one of them, and the verdicts are nobody's business who is judged.
Tokens are kept as hashes, and compared in a time that says nothing about them.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Sequence
from functools import partial
from hashlib import sha256
from typing import Final, NamedTuple, final

from otel_turnavoid.collector.answer import Refused, Trouble
from otel_turnavoid.collector.complaints import Complaints
from otel_turnavoid.collector.kept import Kept, read_file
from otel_turnavoid.collector.securing import BearerTokenAuth, TokenFile
from otel_turnavoid.errors import ConfigurationError
from otel_turnavoid.vocabulary import Role

SENDERS: Final = frozenset({Role.AGENT, Role.OBSERVER})
"""Roles that may send telemetry."""
READERS: Final = frozenset({Role.READER})
"""Roles that may read accounts."""
ANYONE: Final = frozenset(Role)
"""Whoever has a credential."""

SHORTEST: Final = 16
"""Characters that a token must have at least; what is shorter can be guessed."""

_TOKEN: Final = re.compile(rb"[A-Za-z0-9\-._~+/]+=*")
"""``b64token`` of RFC 6750."""


class Credential(NamedTuple):
    """What a token stands for."""

    role: Role
    subject: str
    """A name for the log."""


class _Entry(NamedTuple):
    digest: bytes
    credential: Credential


@final
class Authenticator:
    """Knows the tokens of one ``bearertokenauth`` extension; safe to use from any thread."""

    def __init__(self, config: BearerTokenAuth, key: str) -> None:
        """Read the tokens.

        Args:
            config: The section.
            key: Where it stands in the configuration, for errors and the log.

        Raises:
            ConfigurationError: A file cannot be read, or holds no usable tokens.
        """
        self.tokens = Kept(partial(_read, config.tokens, key), key)
        """The known tokens."""
        self.refresh_s = config.reload_interval.seconds
        """Seconds between two readings of the files."""
        self.scheme = config.scheme
        """Word before the token in the header."""
        self._complaints = Complaints()

    def admit(self, headers: Sequence[bytes], roles: frozenset[Role]) -> Credential | Refused:
        """Return who sends the ``authorization`` headers, or why nobody with leave does."""
        found = self._known(headers)
        if found is None:
            refused = Refused(
                Trouble.UNAUTHENTICATED,
                "a known token is wanted: Authorization: " + f"{self.scheme} <token>",
            )
            self._complaints.add("requests are refused: they show no known bearer token")
            return refused
        if found.role in roles:
            return found
        self._complaints.add(
            f"requests of {found.subject} are refused: a credential of role {found.role}"
            " may not do that"
        )
        return Refused(
            Trouble.FORBIDDEN,
            f"a credential of role {found.role} may not do that; role {_either(roles)} may",
        )

    def _known(self, headers: Sequence[bytes]) -> Credential | None:
        if len(headers) != 1:
            return None
        scheme, _, token = headers[0].strip().partition(b" ")
        if scheme.lower() != self.scheme.lower().encode():
            return None
        given = sha256(token.strip()).digest()
        found = None
        for entry in self.tokens.value:
            # To the end of the list, so that the time does not tell where a token stands.
            if hmac.compare_digest(entry.digest, given):
                found = entry.credential
        return found


def _either(roles: frozenset[Role]) -> str:
    return " or ".join(sorted(roles))


def _read(files: Sequence[TokenFile], key: str) -> tuple[_Entry, ...]:
    entries: dict[bytes, _Entry] = {}
    if not files:
        raise ConfigurationError(f"{key}.tokens", "wants at least one file of tokens")
    for index, file in enumerate(files):
        place = f"{key}.tokens[{index}]"
        credential = Credential(file.role, file.subject or f"tokens[{index}]")
        for token in _tokens(file.filename, f"{place}.filename"):
            digest = sha256(token).digest()
            if digest in entries:
                raise ConfigurationError(
                    f"{place}.filename", f"{file.filename} holds a token that stands twice"
                )
            entries[digest] = _Entry(digest, credential)
    return tuple(entries.values())


def _tokens(path: str, key: str) -> list[bytes]:
    lines = read_file(path, key).splitlines()
    tokens = []
    for number, line in enumerate(lines, 1):
        token = line.strip()
        if not token:
            continue
        if not _TOKEN.fullmatch(token):
            raise ConfigurationError(
                key, f"{path}, line {number}: a token has letters, digits and -._~+/ only"
            )
        if len(token) < SHORTEST:
            raise ConfigurationError(
                key, f"{path}, line {number}: a token has at least {SHORTEST} characters"
            )
        tokens.append(token)
    if not tokens:
        raise ConfigurationError(key, f"{path} holds no token")
    return tokens
