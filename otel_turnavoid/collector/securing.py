"""``tls`` and ``auth`` of an endpoint, and ``extensions.bearertokenauth``: keys and defaults.

What the keys do stands in ``tls`` and ``auth``, the modules that run them; for operators in
``docs/security.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import msgspec

from otel_turnavoid.collector.duration import Duration
from otel_turnavoid.collector.section import Section
from otel_turnavoid.errors import ConfigurationError
from otel_turnavoid.judge.settings import SECOND
from otel_turnavoid.vocabulary import Role, Word

_Filename = Annotated[str, msgspec.Meta(min_length=1)]
_Subject = Annotated[str, msgspec.Meta(pattern=r"^[\w.@:/-]{1,80}$")]
_Scheme = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z][A-Za-z0-9-]*$")]


class TlsVersion(Word):
    """Versions of TLS that are safe to offer."""

    TLS_1_2 = "1.2"
    TLS_1_3 = "1.3"


class ServerTls(Section, frozen=True):
    """``tls`` of a server; without the section it speaks in plain text."""

    cert_file: _Filename
    """PEM: the certificate, then those that it was issued by."""
    key_file: _Filename
    """PEM: the private key, not encrypted."""
    client_ca_file: _Filename | None = None
    """PEM: clients must show a certificate that one of these issued."""
    min_version: TlsVersion = TlsVersion.TLS_1_2
    """The oldest version of TLS that is spoken."""
    reload_interval: Duration = Duration(60 * SECOND)
    """How often the files are read again; new connections then use what they hold."""


class Auth(Section, frozen=True):
    """``auth`` of a server."""

    authenticator: str
    """Id of an extension."""


class TokenFile(Section, frozen=True):
    """One of ``extensions.bearertokenauth.tokens``: whoever shows a token in the file."""

    confidential: ClassVar[bool] = True

    filename: _Filename
    """One token a line; several while they are being changed."""
    role: Role
    """What the token allows."""
    subject: _Subject | None = None
    """A name for the log; the place in the configuration where left out."""


class BearerTokenAuth(Section, frozen=True):
    """``extensions.bearertokenauth``: who a bearer token stands for."""

    confidential: ClassVar[bool] = True

    tokens: tuple[TokenFile, ...]
    """Who may come."""
    scheme: _Scheme = "Bearer"
    """The word before the token."""
    reload_interval: Duration = Duration(10 * SECOND)
    """How often the files are read again."""


def check_security(
    protocols: Mapping[str, Any],
    exporters: Mapping[str, Any],
    authenticators: Mapping[str, BearerTokenAuth],
) -> None:
    """Check that what stands in ``auth`` and ``tls`` of all endpoints fits together.

    Args:
        protocols: The receiver's protocols by their configuration key.
        exporters: The exporters by their configuration key.
        authenticators: Authenticator extensions by id.

    Raises:
        ConfigurationError: It does not.
    """
    guarded = {key: auth for key, each in protocols.items() if (auth := each.auth) is not None}
    for key in protocols:
        if guarded and key not in guarded:
            # An agent would send its effects where nobody asks who it is.
            raise ConfigurationError(
                f"{key}.auth",
                f"is missing: {next(iter(guarded))} has one, so each protocol needs it",
            )
    for key, each in exporters.items():
        if isinstance(auth := getattr(each, "auth", None), Auth):
            guarded[key] = auth
    for key, auth in guarded.items():
        if auth.authenticator not in authenticators:
            known = ", ".join(authenticators) or "no bearertokenauth"
            raise ConfigurationError(
                f"{key}.auth.authenticator",
                f"{auth.authenticator} is not defined; extensions defines {known}",
            )
    used = {auth.authenticator for auth in guarded.values()}
    for name in authenticators:
        if name not in used:
            raise ConfigurationError(
                f"extensions.{name}", f"is used by no endpoint; set auth: {{authenticator: {name}}}"
            )


def check_grpc(tls: ServerTls | None, key: str) -> None:
    """Check that gRPC can do what ``tls`` asks for.

    Raises:
        ConfigurationError: It cannot.
    """
    if tls is not None and tls.min_version is not TlsVersion.TLS_1_2:
        raise ConfigurationError(f"{key}.tls.min_version", "gRPC's library can set 1.2 only")
