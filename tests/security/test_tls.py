"""TLS and mutual TLS of every endpoint, and certificates that change while the process runs."""

# ruff: noqa: PLR0913, PLR0917 - fixtures are arguments

from __future__ import annotations

import logging
import ssl

import grpc
import httpx
import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from otel_turnavoid.collector.securing import ServerTls, TlsVersion
from otel_turnavoid.collector.tls import server_tls
from otel_turnavoid.errors import ConfigurationError

PLAIN_TOKENLESS = """
receivers:
  otlp:
    protocols:
      grpc: {endpoint: "localhost:0", tls: {TLS}}
      http: {endpoint: "localhost:0", tls: {TLS}}
exporters: {prometheus: {endpoint: "localhost:0", tls: {TLS}}}
"""

HEALTH = "/grpc.health.v1.Health/Check"
SERVING = b"\x08\x01"
UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"


def reached(client, name=None, ca="ca.pem"):
    """Return which of gRPC, OTLP/HTTP and metrics let a client in."""
    processor = client._processor
    let_in = []
    with client.channel(name, ca) as channel:
        try:
            if channel.unary_unary(HEALTH)(b"", timeout=60) == SERVING:
                let_in.append("grpc")
        except grpc.RpcError as error:
            assert error.code() is grpc.StatusCode.UNAVAILABLE  # noqa: PT017 - see above
    for what, url in (
        ("http", f"{processor.http_endpoint}/v1/traces"),
        ("metrics", processor.metrics_endpoints[0]),
    ):
        with client.web(name, ca) as web:
            try:
                web.get(url)
            except (httpx.ConnectError, httpx.ReadError, httpx.RemoteProtocolError):
                continue
            let_in.append(what)
    return let_in


ALL = ["grpc", "http", "metrics"]


class TestServer:
    def test_every_endpoint_speaks_tls(self, start, client):
        processor = start(PLAIN_TOKENLESS)

        assert reached(client(processor)) == ALL
        assert processor.http_endpoint.startswith("https://localhost:")
        assert processor.metrics_endpoints[0].startswith("https://localhost:")

    def test_plain_text_is_not_understood(self, start):
        processor = start(PLAIN_TOKENLESS)

        with grpc.insecure_channel(processor.grpc_endpoint) as channel:
            with pytest.raises(grpc.RpcError) as caught:
                channel.unary_unary(HEALTH)(b"", timeout=60)
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        for url in (processor.http_endpoint, processor.metrics_endpoints[0]):
            with pytest.raises(httpx.RemoteProtocolError):
                httpx.get(url.replace("https", "http"), timeout=60)

    @pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
    def test_http_takes_both_safe_versions_by_default(self, start, folder, version):
        processor = start(PLAIN_TOKENLESS)

        assert offered(processor.http_endpoint, folder, version) is None

    def test_min_version_refuses_what_is_below(self, start, folder):
        processor = start(
            PLAIN_TOKENLESS.replace("grpc: ", "# "),
            'cert_file: FOLDER/server.pem, key_file: FOLDER/server.key, min_version: "1.3"',
        )

        assert offered(processor.http_endpoint, folder, ssl.TLSVersion.TLSv1_3) is None
        assert offered(processor.http_endpoint, folder, ssl.TLSVersion.TLSv1_2) is not None

    def test_a_failed_handshake_says_nothing_in_the_log(self, start, client, caplog, folder):
        processor = start(PLAIN_TOKENLESS)
        offered(processor.http_endpoint, folder, ssl.TLSVersion.TLSv1_2, ca=None)

        assert reached(client(processor)) == ALL
        assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def offered(url, folder, version, ca="ca.pem"):
    """Return why a handshake with one version failed, or None when it did not."""
    context = ssl.create_default_context(cafile=ca and str(folder / ca))
    context.minimum_version = context.maximum_version = version
    with httpx.Client(verify=context, timeout=60) as web:
        try:
            web.get(url)
        except httpx.ConnectError as error:
            cause = error
            while not isinstance(cause, ssl.SSLError):
                cause = cause.__cause__ or cause.__context__
            return cause.reason
    return None


class TestMutual:
    def test_clients_show_a_certificate_of_the_authority(self, start, client, mutual):
        assert reached(client(start(PLAIN_TOKENLESS, mutual)), "client") == ALL

    def test_without_one_nobody_is_let_in(self, start, client, mutual):
        assert reached(client(start(PLAIN_TOKENLESS, mutual))) == []

    def test_one_of_another_authority_lets_nobody_in(
        self, start, client, mutual, folder, other_authority, put_certificate
    ):
        put_certificate(folder, "strange", other_authority.issue_cert("someone@example.com"))

        assert reached(client(start(PLAIN_TOKENLESS, mutual)), "strange") == []

    def test_it_asks_for_tokens_too(self, start, client, mutual, runs, tokens, services):
        secured = client(start(tls=mutual))

        refused = secured.rpc(services["traces"], runs[0], None, "client")
        taken = secured.rpc(services["traces"], runs[0], tokens["agent"], "client")

        assert refused.code() is grpc.StatusCode.UNAUTHENTICATED
        assert taken == b""


class TestReload:
    def test_new_connections_get_the_new_certificate(
        self, start, client, folder, other_authority, put_certificate, until
    ):
        user = client(start(PLAIN_TOKENLESS))
        other_authority.cert_pem.write_to_path(folder / "other-ca.pem")
        assert (reached(user), reached(user, ca="other-ca.pem")) == (ALL, [])

        put_certificate(folder, "server", other_authority.issue_cert("localhost"))

        until(lambda: reached(user, ca="other-ca.pem") == ALL)
        assert reached(user) == []

    def test_open_connections_go_on(
        self, start, client, folder, other_authority, put_certificate, until
    ):
        user = client(start(PLAIN_TOKENLESS))
        other_authority.cert_pem.write_to_path(folder / "other-ca.pem")
        with user.channel() as channel, user.web() as web:
            url = f"{user._processor.http_endpoint}/v1/traces"
            call = channel.unary_unary(HEALTH)
            before = (call(b""), web.get(url).status_code)
            put_certificate(folder, "server", other_authority.issue_cert("localhost"))
            until(lambda: reached(user, ca="other-ca.pem") == ALL)

            assert (call(b""), web.get(url).status_code) == before == (SERVING, 405)

    def test_clients_of_an_authority_that_was_taken_out_are_not_let_in(
        self, start, client, folder, mutual, other_authority, put_certificate, until
    ):
        user = client(start(PLAIN_TOKENLESS, mutual))
        put_certificate(folder, "strange", other_authority.issue_cert("someone@example.com"))
        assert (reached(user, "client"), reached(user, "strange")) == (ALL, [])
        (folder / "server-ca.pem").write_bytes((folder / "ca.pem").read_bytes())

        other_authority.cert_pem.write_to_path(folder / "ca.pem")

        until(lambda: reached(user, "strange", "server-ca.pem") == ALL)
        assert reached(user, "client", "server-ca.pem") == []

    def test_a_broken_certificate_leaves_the_one_before(self, folder, caplog):
        config = ServerTls(
            cert_file=str(folder / "server.pem"), key_file=str(folder / "server.key")
        )
        kept = server_tls(config, "tls")
        before = kept.value
        (folder / "server.pem").write_text("half a certificate")

        kept.refresh()

        assert kept.value is before
        assert [record.getMessage() for record in caplog.records] == [
            (
                f"tls.cert_file: {folder / 'server.pem'} holds no certificate in PEM;"
                " what was read before stays in use"
            )
        ]


class TestFiles:
    def read(self, folder, **files):
        names = {"cert_file": "server.pem", "key_file": "server.key", **files}
        paths = {key: str(folder / name) for key, name in names.items()}
        with pytest.raises(ConfigurationError) as caught:
            server_tls(ServerTls(**paths), "receivers.otlp.protocols.http.tls")
        return str(caught.value).replace(str(folder), "")

    @pytest.mark.parametrize("key", ["cert_file", "key_file", "client_ca_file"])
    def test_a_missing_file_is_named(self, folder, key):
        assert self.read(folder, **{key: "none.pem"}) == (
            f"receivers.otlp.protocols.http.tls.{key}:"
            " /none.pem cannot be read: no such file or directory"
        )

    def test_a_key_of_another_certificate_is_named(self, folder):
        assert self.read(folder, key_file="client.key") == (
            "receivers.otlp.protocols.http.tls.key_file:"
            " /client.key is not the key of the certificate in /server.pem"
        )

    @pytest.mark.parametrize(
        ("key", "said"),
        [
            ("cert_file", "holds no certificate in PEM"),
            ("key_file", "holds no private key in PEM that can be used"),
            ("client_ca_file", "holds no certificates in PEM"),
        ],
    )
    def test_what_is_no_pem_is_named(self, folder, key, said):
        (folder / "none.pem").write_text("nothing")

        assert self.read(folder, **{key: "none.pem"}) == (
            f"receivers.otlp.protocols.http.tls.{key}: /none.pem {said}"
        )

    def test_an_encrypted_key_is_refused_instead_of_asking_for_its_password(self, folder):
        key = load_pem_private_key((folder / "server.key").read_bytes(), None)
        (folder / "locked.key").write_bytes(
            key.private_bytes(
                Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"password")
            )
        )

        assert self.read(folder, key_file="locked.key") == (
            "receivers.otlp.protocols.http.tls.key_file:"
            " /locked.key is encrypted; a key without a password is wanted"
        )

    def test_keys_are_not_shown(self, folder):
        config = ServerTls(
            cert_file=str(folder / "server.pem"), key_file=str(folder / "server.key")
        )

        assert "PRIVATE KEY" not in repr(server_tls(config, "tls").value)

    def test_the_least_version_is_1_2_unless_told_otherwise(self):
        assert ServerTls(cert_file="c", key_file="k").min_version is TlsVersion.TLS_1_2
