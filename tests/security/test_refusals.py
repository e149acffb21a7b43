"""How those are answered who may not: in the protocol's words, before their body is read."""

from __future__ import annotations

import json
import socket
import ssl
from urllib.parse import urlsplit

import grpc
import pytest
from google.rpc.status_pb2 import Status

WANTED = "a known token is wanted: Authorization: Bearer <token>"
MAY_NOT = "a credential of role reader may not do that; role agent or observer may"
UNAUTHENTICATED, PERMISSION_DENIED = 16, 7


@pytest.fixture
def secured(start, client):
    return client(start())


class TestHttp:
    def test_without_a_credential_the_answer_is_401_with_a_challenge(self, secured, runs):
        answer = secured.post("/v1/traces", runs[0], None)

        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == 'Bearer realm="turnavoid"'
        assert answer.headers["content-type"] == "application/x-protobuf"
        assert "retry-after" not in answer.headers
        assert Status.FromString(answer.content) == Status(code=UNAUTHENTICATED, message=WANTED)

    def test_an_unknown_token_is_said_to_be_invalid(self, secured, runs):
        answer = secured.post("/v1/traces", runs[0], "another-token-0123456789")

        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == (
            'Bearer realm="turnavoid", error="invalid_token"'
        )

    def test_a_role_that_may_not_is_answered_403(self, secured, runs, tokens):
        answer = secured.post("/v1/traces", runs[0], tokens["reader"])

        assert answer.status_code == 403
        assert answer.headers["www-authenticate"] == (
            'Bearer realm="turnavoid", error="insufficient_scope"'
        )
        assert Status.FromString(answer.content) == Status(code=PERMISSION_DENIED, message=MAY_NOT)

    @pytest.mark.parametrize("content_type", ["application/json", "application/json; charset=x"])
    def test_json_is_answered_in_json(self, secured, content_type):
        answer = secured.post("/v1/logs", b"{}", None, content_type)

        assert answer.status_code == 401
        assert answer.headers["content-type"] == "application/json"
        assert json.loads(answer.content) == {"code": UNAUTHENTICATED, "message": WANTED}

    def test_an_unreadable_body_of_a_stranger_is_not_looked_at(self, secured):
        answer = secured.post("/v1/traces", b"\xff" * 100, None, **{"content-encoding": "gzip"})

        assert answer.status_code == 401

    def test_the_answer_comes_before_the_body(self, secured, folder):
        """Of a body that is announced and does not come."""
        at = urlsplit(secured._processor.http_endpoint)
        context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
        with (
            socket.create_connection((at.hostname, at.port), timeout=60) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as connection,
        ):
            connection.sendall(
                b"POST /v1/traces HTTP/1.1\r\nhost: localhost\r\n"
                b"content-type: application/json\r\ncontent-length: 1000000\r\n\r\n"
            )
            answer = connection.recv(10_000)
            while b"}" not in answer:
                answer += connection.recv(10_000)

        assert answer.startswith(b"HTTP/1.1 401 ")
        assert b"\r\nconnection: close\r\n" in answer.lower()

    def test_who_sends_a_large_body_first_still_sees_the_answer(self, secured):
        assert secured.post("/v1/traces", b"x" * (8 << 20), None).status_code == 401

    def test_whoever_asks_with_expect_is_answered_instead_of_told_to_continue(
        self, secured, folder
    ):
        at = urlsplit(secured._processor.http_endpoint)
        context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
        with (
            socket.create_connection((at.hostname, at.port), timeout=60) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as connection,
        ):
            connection.sendall(
                b"POST /v1/traces HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\n"
                b"content-type: application/json\r\ncontent-length: 5\r\n\r\n"
            )
            answer = connection.recv(10_000)

        assert answer.startswith(b"HTTP/1.1 401 ")

    @pytest.mark.parametrize(
        "authorization",
        [
            "Basic {token}",
            "{token}",
            "Bearer",
            "Bearer {token}x",
            "Bearer {token} {token}",
            "Bearer\u00e9 {token}",
        ],
    )
    def test_only_the_scheme_with_one_whole_token_is_a_credential(
        self, secured, tokens, authorization
    ):
        header = authorization.format(token=tokens["agent"]).encode("latin-1")
        with secured.web() as web:
            url = f"{secured._processor.http_endpoint}/v1/traces"
            answer = web.post(url, headers={b"authorization": header})

        assert answer.status_code == 401

    @pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
    def test_the_scheme_is_read_in_any_case(self, secured, tokens, scheme):
        with secured.web() as web:
            answer = web.post(
                f"{secured._processor.http_endpoint}/v1/traces",
                headers={
                    "authorization": f"{scheme} {tokens['agent']}",
                    "content-type": "application/x-protobuf",
                },
            )

        assert answer.status_code == 200

    def test_two_credentials_in_one_request_are_none(self, secured, tokens):
        headers = [("authorization", f"Bearer {tokens[role]}") for role in ("agent", "observer")]
        with secured.web() as web:
            url = f"{secured._processor.http_endpoint}/v1/traces"
            answer = web.post(url, headers=headers)

        assert answer.status_code == 401


class TestMetrics:
    def test_strangers_are_answered_401_in_plain_text(self, secured):
        answer = secured.scrape(None)

        assert (answer.status_code, answer.text) == (401, f"{WANTED}\n")
        assert answer.headers["www-authenticate"] == 'Bearer realm="turnavoid"'

    def test_senders_are_answered_403(self, secured, tokens):
        answer = secured.scrape(tokens["agent"])

        assert (answer.status_code, answer.text) == (
            403,
            "a credential of role agent may not do that; role reader may\n",
        )

    def test_refused_requests_are_counted_by_transport_and_reason(
        self, secured, runs, tokens, services
    ):
        secured.post("/v1/traces", runs[0], None)
        secured.post("/v1/traces", runs[0], tokens["reader"])
        secured.rpc(services["traces"], runs[0], None)
        secured.rpc(services["logs"], b"", "another-token-0123456789")

        name = "turnavoid_receiver_refused_credentials_total"
        assert {
            (transport, reason): secured.metric(name, transport=transport, reason=reason)
            for transport in ("grpc", "http")
            for reason in ("unauthenticated", "forbidden")
        } == {
            ("http", "unauthenticated"): 1,
            ("http", "forbidden"): 1,
            ("grpc", "unauthenticated"): 2,
            ("grpc", "forbidden"): 0,
        }

    def test_what_was_refused_at_the_gate_is_in_no_account(self, secured, runs):
        secured.post("/v1/traces", runs[0], None)

        assert secured.metric("turnavoid_receiver_accepted_spans_total") == 0
        assert secured.metric("turnavoid_processor_stored_items_total") == 0


class TestGrpc:
    def test_without_a_credential_the_code_is_unauthenticated(self, secured, runs, services):
        error = secured.rpc(services["traces"], runs[0], None)

        assert isinstance(error, grpc.RpcError)
        assert (error.code(), error.details()) == (grpc.StatusCode.UNAUTHENTICATED, WANTED)
        trailing = dict(error.trailing_metadata())
        assert trailing["www-authenticate"] == 'Bearer realm="turnavoid"'
        assert Status.FromString(trailing["grpc-status-details-bin"]) == Status(
            code=UNAUTHENTICATED, message=WANTED
        )

    def test_a_role_that_may_not_is_told_permission_denied(self, secured, runs, services, tokens):
        error = secured.rpc(services["logs"], runs[0], tokens["reader"])

        assert (error.code(), error.details()) == (grpc.StatusCode.PERMISSION_DENIED, MAY_NOT)

    def test_nobody_is_told_to_come_back(self, secured, services, tokens):
        for token in (None, tokens["reader"]):
            trailing = dict(secured.rpc(services["logs"], b"", token).trailing_metadata())
            assert "google.rpc.retryinfo-bin" not in trailing

    def test_a_strangers_message_is_not_read(self, secured, services):
        """One that is too large to be read would be answered RESOURCE_EXHAUSTED."""
        error = secured.rpc(services["traces"], b"x" * (65 << 20), None)

        assert error.code() is grpc.StatusCode.UNAUTHENTICATED
