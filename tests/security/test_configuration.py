"""What a configuration may say about TLS and credentials, and what a bad one is told."""

from __future__ import annotations

import pytest

from otel_turnavoid.collector.config import parse
from otel_turnavoid.collector.duration import Duration
from otel_turnavoid.collector.securing import (
    Auth,
    BearerTokenAuth,
    ServerTls,
    TlsVersion,
    TokenFile,
)
from otel_turnavoid.errors import ConfigurationError
from otel_turnavoid.vocabulary import Role

TOKENS = "{tokens: [{filename: t, role: agent}]}"


def problem(text: str, **env: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        parse(text, env=env)
    return str(caught.value)


def http(extra: str, extensions: str = "{}") -> str:
    return f"receivers: {{otlp: {{protocols: {{http: {{{extra}}}}}}}}}\nextensions: {extensions}\n"


def test_every_key_of_tls_is_read():
    protocol = parse(
        http(
            "tls: {cert_file: c, key_file: k, client_ca_file: a, min_version: 1.3,"
            " reload_interval: 24h}"
        ),
        env={},
    ).receiver.protocols.http

    assert protocol.tls == ServerTls(
        cert_file="c",
        key_file="k",
        client_ca_file="a",
        min_version=TlsVersion.TLS_1_3,
        reload_interval=Duration(24 * 3600 * 1_000_000_000),
    )


def test_every_key_of_bearertokenauth_is_read():
    config = parse(
        http(
            "auth: {authenticator: bearertokenauth/all}",
            "{bearertokenauth/all: {scheme: Token, reload_interval: 5s, tokens:"
            " [{filename: a, role: agent, subject: shop}, {filename: o, role: observer}]}}",
        ),
        env={},
    )

    assert config.receiver.protocols.http.auth == Auth(authenticator="bearertokenauth/all")
    assert config.authenticators == {
        "bearertokenauth/all": BearerTokenAuth(
            scheme="Token",
            reload_interval=Duration(5_000_000_000),
            tokens=(
                TokenFile(filename="a", role=Role.AGENT, subject="shop"),
                TokenFile(filename="o", role=Role.OBSERVER),
            ),
        )
    }


def test_without_these_keys_there_is_neither_tls_nor_authentication():
    config = parse("", env={})

    for section in (
        config.receiver.protocols.grpc,
        config.receiver.protocols.http,
        config.exporters["prometheus"],
    ):
        assert (section.tls, section.auth) == (None, None)


@pytest.mark.parametrize(
    ("tls", "said"),
    [
        ("", "cert_file: is required"),
        ("{cert_file: c}", "key_file: is required"),
        ("{cert_file: '', key_file: k}", "cert_file: wants text of length >= 1, got ''"),
        (
            "{cert_file: c, key_file: k, min_version: '1.1'}",
            "min_version: wants one of 1.2, 1.3, got '1.1'",
        ),
        (
            "{cert_file: c, key_file: k, ca_file: a}",
            (
                "ca_file: unknown key; known: cert_file, key_file, client_ca_file, min_version,"
                " reload_interval"
            ),
        ),
    ],
)
def test_a_bad_tls_section_is_told_which_key(tls, said):
    assert problem(http(f"tls: {tls}")) == f"receivers.otlp.protocols.http.tls.{said}"


def test_grpc_refuses_a_version_that_it_cannot_set():
    text = (
        "receivers: {otlp: {protocols: {grpc: {tls: {cert_file: c, key_file: k, min_version: 1.3}}"
    )

    assert problem(text + "}}}") == (
        "receivers.otlp.protocols.grpc.tls.min_version: gRPC's library can set 1.2 only"
    )


def test_an_authenticator_has_to_be_defined():
    assert problem(http("auth: {authenticator: bearertokenauth}")) == (
        "receivers.otlp.protocols.http.auth.authenticator: bearertokenauth is not defined;"
        " extensions defines no bearertokenauth"
    )
    assert problem(
        http(
            "auth: {authenticator: bearertokenauth}",
            f"{{bearertokenauth/1: {TOKENS}}}",
        )
    ) == (
        "receivers.otlp.protocols.http.auth.authenticator: bearertokenauth is not defined;"
        " extensions defines bearertokenauth/1"
    )


def test_one_protocol_cannot_ask_for_credentials_and_the_other_not():
    """Agents would send their effects over the other."""
    text = f"""
        receivers:
          otlp: {{protocols: {{grpc: {{auth: {{authenticator: bearertokenauth}}}}, http: }}}}
        extensions: {{bearertokenauth: {TOKENS}}}
    """

    assert problem(text) == (
        "receivers.otlp.protocols.http.auth: is missing:"
        " receivers.otlp.protocols.grpc has one, so each protocol needs it"
    )


def test_tokens_that_no_endpoint_asks_for_are_a_mistake():
    assert problem(f"extensions: {{bearertokenauth: {TOKENS}}}") == (
        "extensions.bearertokenauth: is used by no endpoint;"
        " set auth: {authenticator: bearertokenauth}"
    )


def test_metrics_alone_can_ask_for_tokens():
    config = parse(
        "exporters: {prometheus: {auth: {authenticator: bearertokenauth}}}\n"
        "extensions: {bearertokenauth: {tokens: [{filename: t, role: reader}]}}",
        env={},
    )

    assert config.exporters["prometheus"].auth == Auth(authenticator="bearertokenauth")


def test_an_unknown_role_is_refused():
    text = "extensions: {bearertokenauth: {tokens: [{filename: t, role: admin}]}}"

    assert problem(text) == (
        "extensions.bearertokenauth.tokens[0].role: wants one of agent, observer, reader,"
        " got something that is not shown, as it may be a secret"
    )


class TestSecrets:
    """A secret in the wrong place is not shown in the error that says so."""

    SECRET = "hunter2-hunter2-hunter2"

    @pytest.mark.parametrize(
        "text",
        [
            "extensions: {bearertokenauth: {tokens: [SECRET]}}",
            "extensions: {bearertokenauth: {tokens: SECRET}}",
            "extensions: {bearertokenauth: {token: SECRET}}",
            "extensions: {bearertokenauth: SECRET}",
            "extensions: {bearertokenauth: {tokens: [{filename: t, role: SECRET}]}}",
            "extensions: {bearertokenauth: {tokens: [{filename: t, role: agent, subject: 'S: SECRET'}]}}",  # noqa: E501
            "extensions: {bearertokenauth: {tokens: [[SECRET]]}}",
            "extensions: {bearertokenauth: {scheme: 'Bearer SECRET', tokens: []}}",
            "extensions: {ledger: 'postgresql://u:SECRET@h/db'}",
            "extensions: {ledger: {url: ['postgresql://u:SECRET@h/db']}}",
            "extensions: {ledger: ['postgresql://u:SECRET@h/db']}",
            "exporters: {otlp: {endpoint: 'e:1', headers: 'authorization: Bearer SECRET'}}",
            "exporters: {otlp: {endpoint: 'e:1', headers: [SECRET]}}",
            "exporters: {otlphttp: {endpoint: 'http://e', headers: {authorization: [SECRET]}}}",
            "exporters: {otlphttp: {endpoint: 'http://e', headers: {authorization: {a: SECRET}}}}",
            "exporters: {otlp: {endpoint: 'e:1', timeout: '${env:SECRET_NAME}'}}",
        ],
    )
    def test_it_is_not_shown(self, text):
        said = problem(text.replace("SECRET_NAME", "N").replace("SECRET", self.SECRET), N="hunter2")

        assert "hunter2" not in said

    def test_a_configuration_shows_no_secret_when_it_is_printed(self):
        config = parse(
            "extensions: {ledger: {url: 'postgresql://u:hunter2@h/db'}}\n"
            "exporters: {otlp: {endpoint: 'e:1', headers: {authorization: hunter2}}}",
            env={},
        )

        assert "hunter2" not in repr(config)
        assert "hunter2" not in f"{config}"
