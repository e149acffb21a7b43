"""TLS of the servers: certificates from files, renewed without a restart.

Every new connection uses what the files held when they were last read; connections that are
open go on with what they began with.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import grpc

from otel_turnavoid.collector.kept import Kept, read_file
from otel_turnavoid.collector.securing import ServerTls, TlsVersion
from otel_turnavoid.errors import ConfigurationError

_VERSIONS: Final = {
    TlsVersion.TLS_1_2: ssl.TLSVersion.TLSv1_2,
    TlsVersion.TLS_1_3: ssl.TLSVersion.TLSv1_3,
}


@dataclass(frozen=True)
class Material:
    """What the files held at one moment; they belong together."""

    certificates: bytes
    """PEM."""
    key: bytes = field(repr=False)
    """PEM."""
    client_ca: bytes | None
    """PEM; None where clients need no certificate."""
    context: ssl.SSLContext = field(compare=False, repr=False)


def server_tls(config: ServerTls, key: str) -> Kept[Material]:
    """Read the files of a server.

    Args:
        config: Which files.
        key: Where ``config`` stands in the configuration, for errors.

    Raises:
        ConfigurationError: A file cannot be used.
    """
    return Kept(partial(_read, config, key), key)


def web_context(kept: Kept[Material]) -> ssl.SSLContext:
    """Return a context for asyncio's servers that follows the files."""
    return _Following(kept)


def grpc_credentials(kept: Kept[Material]) -> grpc.ServerCredentials:
    """Return credentials for a gRPC server that follow the files."""
    return grpc.dynamic_ssl_server_credentials(
        _grpc_configuration(kept.value),
        _changed(kept),
        require_client_authentication=kept.value.client_ca is not None,
    )


class _Following(ssl.SSLContext):
    """Hands each new connection to the context of the files' last reading.

    A context whose files are loaded a second time would trust the authorities of both.
    """

    def __new__(cls, _kept: Kept[Material]) -> _Following:  # noqa: PYI034 - Self is of 3.11
        return super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)

    def __init__(self, kept: Kept[Material]) -> None:
        self._kept = kept

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        return self._kept.value.context.wrap_bio(*args, **options)


def _changed(kept: Kept[Material]) -> Callable[[], Any]:
    """Return what gRPC asks before each handshake, from threads of its own."""
    used = kept.value

    def fetch() -> Any:
        nonlocal used
        current = kept.value
        if current is used:
            return None
        used = current
        return _grpc_configuration(current)

    return fetch


def _grpc_configuration(material: Material) -> Any:
    pair = (material.key, material.certificates)
    return grpc.ssl_server_certificate_configuration([pair], material.client_ca)


def _read(config: ServerTls, key: str) -> Material:
    def contents() -> tuple[bytes, bytes, bytes | None]:
        return (
            read_file(config.cert_file, f"{key}.cert_file"),
            read_file(config.key_file, f"{key}.key_file"),
            None
            if config.client_ca_file is None
            else read_file(config.client_ca_file, f"{key}.client_ca_file"),
        )

    before = contents()
    context = _context(config, key)
    if contents() != before:
        # The context reads the files by itself, so all could be of two minds.
        raise ConfigurationError(key, "the files changed while they were read")
    return Material(*before, context=context)


def _context(config: ServerTls, key: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[config.min_version]
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(config.cert_file, config.key_file, _no_password)
    except _EncryptedError:
        problem = f"{config.key_file} is encrypted; a key without a password is wanted"
        raise ConfigurationError(f"{key}.key_file", problem) from None
    except (ssl.SSLError, OSError) as error:
        raise _unusable(error, config, key) from None
    if config.client_ca_file is not None:
        try:
            context.load_verify_locations(config.client_ca_file)
        except (ssl.SSLError, OSError):
            problem = f"{config.client_ca_file} holds no certificates in PEM"
            raise ConfigurationError(f"{key}.client_ca_file", problem) from None
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _unusable(error: OSError, config: ServerTls, key: str) -> ConfigurationError:
    """Say which file is to blame; OpenSSL's own words name none."""
    if isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
        problem = f"{config.key_file} is not the key of the certificate in {config.cert_file}"
        return ConfigurationError(f"{key}.key_file", problem)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(config.cert_file)
    except (ssl.SSLError, OSError):
        problem = f"{config.cert_file} holds no certificate in PEM"
        return ConfigurationError(f"{key}.cert_file", problem)
    problem = f"{config.key_file} holds no private key in PEM that can be used"
    return ConfigurationError(f"{key}.key_file", problem)


class _EncryptedError(Exception):
    """The key has a password."""


def _no_password() -> str:
    # Without this OpenSSL asks for it on the terminal, and waits.
    raise _EncryptedError
