"""What senders put on the wire, and how they read answers."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import grpc
import msgspec
import pytest
import trustme

from otel_turnavoid.errors import ConfigurationError
from otel_turnavoid.forward import Encoding, Signal, Target
from otel_turnavoid.forward.outcome import Delivered, Failed, Outcome, Retry
from otel_turnavoid.forward.request import Stored
from otel_turnavoid.forward.sender_grpc import GrpcSender
from otel_turnavoid.forward.sender_http import HttpSender, retry_after_s
from otel_turnavoid.testing import other_spans, run_spans

BODY = b"\x0a\x00 not even protobuf: nobody decodes it \xff"
LARGE = bytes(range(256)) * 1000


def stored(
    body: bytes = BODY, signal: Signal = Signal.TRACES, encoding: Encoding = Encoding.PROTOBUF
) -> Stored:
    return Stored(1, signal, encoding, 3, body)


def sent(make: Callable[[], GrpcSender | HttpSender], *requests: Stored) -> list[Outcome]:
    async def main() -> list[Outcome]:
        sender = make()
        try:
            return [await sender.send(request) for request in requests]
        finally:
            await sender.close()

    return asyncio.run(main())


def over_grpc(backend, *requests: Stored, **target) -> list[Outcome]:
    target = {"insecure": True, **target}
    return sent(lambda: GrpcSender(Target(backend.endpoint, **target)), *requests)


def over_http(backend, *requests: Stored, **target) -> list[Outcome]:
    return sent(lambda: HttpSender(Target(backend.endpoint, **target)), *requests)


class TestGrpc:
    @pytest.mark.parametrize("gzip", [True, False])
    @pytest.mark.parametrize("body", [b"", BODY, LARGE])
    def test_the_body_arrives_byte_for_byte(self, grpc_backend, body, gzip):
        requests = [stored(body), stored(body, Signal.LOGS)]

        assert over_grpc(grpc_backend, *requests, gzip=gzip) == [Delivered(), Delivered()]
        assert [each[:2] for each in grpc_backend.received] == [
            (Signal.TRACES, body),
            (Signal.LOGS, body),
        ]

    def test_headers_and_the_user_agent_go_with_it(self, grpc_backend):
        over_grpc(grpc_backend, stored(), headers=(("Api-Key", "s"),), user_agent="turnavoid/1.2")

        headers = grpc_backend.received[0].headers
        assert headers["api-key"] == "s"
        assert headers["user-agent"].startswith("turnavoid/1.2 ")

    @pytest.mark.parametrize(
        ("code", "outcome"),
        [
            *((code, Retry) for code in ("CANCELLED", "DEADLINE_EXCEEDED", "ABORTED")),
            *((code, Retry) for code in ("OUT_OF_RANGE", "UNAVAILABLE", "DATA_LOSS")),
            *((code, Failed) for code in ("UNKNOWN", "INVALID_ARGUMENT", "NOT_FOUND")),
            *((code, Failed) for code in ("ALREADY_EXISTS", "PERMISSION_DENIED")),
            *((code, Failed) for code in ("UNAUTHENTICATED", "FAILED_PRECONDITION")),
            *((code, Failed) for code in ("UNIMPLEMENTED", "INTERNAL", "RESOURCE_EXHAUSTED")),
        ],
    )
    def test_codes_are_retried_by_the_table_of_otlp(self, grpc_backend, answer, code, outcome):
        grpc_backend.script = [answer(grpc.StatusCode[code])]

        assert over_grpc(grpc_backend, stored()) == [outcome(code)]

    @pytest.mark.parametrize("code", ["RESOURCE_EXHAUSTED", "UNAVAILABLE"])
    def test_retry_info_says_when(self, grpc_backend, answer, code):
        grpc_backend.script = [answer(grpc.StatusCode[code], after_s=0.25)]

        assert over_grpc(grpc_backend, stored()) == [Retry(code, 0.25)]

    def test_partial_success_is_delivered(self, grpc_backend, answer):
        grpc_backend.script = [answer(rejected=2), answer(rejected=1)]

        assert over_grpc(grpc_backend, stored(), stored(signal=Signal.LOGS)) == [
            Delivered(2),
            Delivered(1),
        ]

    def test_a_success_that_cannot_be_read_is_one(self, grpc_backend, answer):
        grpc_backend.script = [answer(body=b"\xff\xff")]

        assert over_grpc(grpc_backend, stored()) == [Delivered()]

    def test_a_backend_that_hangs_is_left_after_the_timeout(self, grpc_backend, answer):
        grpc_backend.script = [answer(hang=True)]

        assert over_grpc(grpc_backend, stored(), timeout_s=0.1) == [Retry("DEADLINE_EXCEEDED")]

    def test_a_backend_that_is_not_there_is_retried(self, grpc_backend):
        grpc_backend.stop()

        assert over_grpc(grpc_backend, stored()) == [Retry("UNAVAILABLE")]

    def test_tls_is_the_rule(self, grpc_backend, tmp_path):
        authority = trustme.CA()
        certificate = authority.issue_cert("localhost")
        chain = b"".join(blob.bytes() for blob in certificate.cert_chain_pems)
        credentials = grpc.ssl_server_credentials([(certificate.private_key_pem.bytes(), chain)])
        grpc_backend.stop()
        grpc_backend.port = 0
        grpc_backend.start(credentials)
        ca_file = tmp_path / "ca.pem"
        authority.cert_pem.write_to_path(str(ca_file))

        target = Target(f"localhost:{grpc_backend.port}", ca_file=ca_file)

        assert sent(lambda: GrpcSender(target), stored()) == [Delivered()]
        assert sent(lambda: GrpcSender(target._replace(ca_file=None)), stored()) == [
            Retry("UNAVAILABLE")
        ]

    def test_the_scheme_of_a_url_decides_about_tls(self, grpc_backend):
        url = f"http://{grpc_backend.endpoint}/"

        assert sent(lambda: GrpcSender(Target(url)), stored()) == [Delivered()]

    def test_a_certificate_that_is_not_there_is_named(self, tmp_path):
        with pytest.raises(ConfigurationError) as refused:
            sent(lambda: GrpcSender(Target("x:1", ca_file=tmp_path / "no.pem")))

        assert str(refused.value) == "tls.ca_file: cannot be read: no such file or directory"


class TestHttp:
    @pytest.mark.parametrize("gzip", [True, False])
    @pytest.mark.parametrize("body", [b"", BODY, LARGE])
    def test_the_body_arrives_byte_for_byte(self, http_backend, body, gzip):
        requests = [stored(body), stored(body, Signal.LOGS)]

        assert over_http(http_backend, *requests, gzip=gzip) == [Delivered(), Delivered()]
        assert [each[:2] for each in http_backend.received] == [
            (Signal.TRACES, body),
            (Signal.LOGS, body),
        ]

    def test_path_headers_and_the_user_agent_go_with_it(self, http_backend):
        endpoint = f"{http_backend.endpoint}/otlp/"
        target = Target(endpoint, headers=(("Api-Key", "s"),), user_agent="turnavoid/1.2")

        sent(lambda: HttpSender(target), stored())

        headers = http_backend.received[0].headers
        assert {key: headers[key] for key in (":path", "api-key", "content-type")} == {
            ":path": "/otlp/v1/traces",
            "api-key": "s",
            "content-type": "application/x-protobuf",
        }
        assert headers["user-agent"] == "turnavoid/1.2"

    @pytest.mark.parametrize(
        ("code", "outcome"),
        [
            *((code, Retry) for code in (429, 502, 503, 504)),
            *((code, Failed) for code in (301, 307, 400, 401, 403, 404, 405, 413, 415)),
            *((code, Failed) for code in (408, 500, 501, 505)),
        ],
    )
    def test_statuses_are_retried_by_the_table_of_otlp(self, http_backend, answer, code, outcome):
        http_backend.script = [answer(code)]

        assert over_http(http_backend, stored()) == [outcome(f"HTTP {code}")]
        assert len(http_backend.received) == 1

    @pytest.mark.parametrize("code", [429, 503])
    def test_retry_after_says_when(self, http_backend, answer, code):
        http_backend.script = [answer(code, after_s=7)]

        assert over_http(http_backend, stored()) == [Retry(f"HTTP {code}", 7.0)]

    @pytest.mark.parametrize(
        ("header", "seconds"),
        [
            (None, None),
            ("7", 7.0),
            ("0", 0.0),
            ("Wed, 21 Oct 2015 07:28:00 GMT", 60.0),
            ("Wed, 21 Oct 2015 07:26:00 GMT", 0.0),
            ("soon", None),
            ("-1", None),
            ("9" * 400, 999999999.0),
        ],
    )
    def test_retry_after_is_seconds_or_a_date(self, header, seconds):
        now = datetime(2015, 10, 21, 7, 27, tzinfo=timezone.utc).timestamp()

        assert retry_after_s(header, lambda: now) == seconds

    def test_partial_success_is_delivered(self, http_backend, answer):
        http_backend.script = [answer(rejected=2), answer(rejected=1)]

        assert over_http(http_backend, stored(), stored(signal=Signal.LOGS)) == [
            Delivered(2),
            Delivered(1),
        ]

    @pytest.mark.parametrize(
        ("body", "rejected"),
        [
            (b'{"partialSuccess": {"rejectedSpans": "2"}}', 2),
            (b'{"partialSuccess": {"rejectedSpans": 2}}', 2),
            (b'{"partialSuccess": {}}', 0),
            (b"{}", 0),
            (b"[" * 100_000, 0),
            (b"hello", 0),
        ],
    )
    def test_partial_success_is_read_in_json_too(self, http_backend, answer, body, rejected):
        http_backend.script = [answer(body=body)]
        request = stored(b"{}", encoding=Encoding.JSON)

        outcome = over_http(http_backend, request, encoding=Encoding.JSON)

        assert outcome == [Delivered(rejected)]

    def test_an_answer_without_end_is_a_success_that_is_not_read(self, http_backend, answer):
        http_backend.script = [answer(body=bytes(5 << 20))]

        assert over_http(http_backend, stored()) == [Delivered()]

    def test_a_backend_that_hangs_is_left_after_the_timeout(self, http_backend, answer):
        http_backend.script = [answer(hang=True)]

        assert over_http(http_backend, stored(), timeout_s=0.1) == [Retry("timeout")]

    def test_a_backend_that_is_not_there_is_retried(self, http_backend):
        http_backend.stop()

        assert over_http(http_backend, stored()) == [Retry("ConnectionRefusedError")]

    def test_a_backend_that_dies_and_comes_back_is_reached_again(self, http_backend):
        async def main() -> list[Outcome]:
            sender = HttpSender(Target(http_backend.endpoint))
            outcomes = [await sender.send(stored())]
            http_backend.stop()
            http_backend.start()
            while not isinstance(outcome := await sender.send(stored()), Delivered):
                assert isinstance(outcome, Retry)
            await sender.close()
            return [*outcomes, outcome]

        assert asyncio.run(main()) == [Delivered(), Delivered()]

    def test_json_goes_out_as_it_came_in(self, http_backend):
        body = b'{ "resourceSpans" : [ ] , "unknown": 1 }'
        over_http(http_backend, stored(body, encoding=Encoding.JSON), encoding=Encoding.JSON)

        (received,) = http_backend.received
        assert received.body == body
        assert received.headers["content-type"] == "application/json"

    def test_for_a_backend_that_reads_json_protobuf_is_written_as_json(self, http_backend):
        body = run_spans(run_id="r")

        over_http(http_backend, stored(body), encoding=Encoding.JSON)

        (received,) = http_backend.received
        assert received.headers["content-type"] == "application/json"
        assert list(msgspec.json.decode(received.body)) == ["resourceSpans"]

    def test_what_cannot_be_written_as_json_is_given_up(self, http_backend):
        assert over_http(http_backend, stored(b"\xff"), encoding=Encoding.JSON) == [
            Failed("cannot be written as JSON")
        ]

    @pytest.mark.parametrize("endpoint", ["http://x/a b", "http://x/\u00e9", "http://\u00e9"])
    def test_an_endpoint_that_cannot_be_sent_is_refused(self, endpoint):
        with pytest.raises(ConfigurationError) as refused:
            sent(lambda: HttpSender(Target(endpoint)))

        assert str(refused.value) == "endpoint: holds characters that a URL cannot have"

    def test_a_certificate_that_cannot_be_used_is_named(self, tmp_path: Path):
        wrong = tmp_path / "ca.pem"
        wrong.write_text("no certificate")

        with pytest.raises(ConfigurationError) as refused:
            sent(lambda: HttpSender(Target("https://x", ca_file=wrong)))

        assert str(refused.value) == "tls: a certificate or key cannot be used"

    def test_tls_is_verified(self, http_backend, tmp_path):
        authority = trustme.CA()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("localhost").configure_cert(context)
        http_backend.stop()
        http_backend.port = 0
        http_backend.start(context)
        ca_file = tmp_path / "ca.pem"
        authority.cert_pem.write_to_path(str(ca_file))
        target = Target(f"https://localhost:{http_backend.port}", ca_file=ca_file)

        assert sent(lambda: HttpSender(target), stored(), stored(LARGE)) == [Delivered()] * 2
        assert sent(lambda: HttpSender(target._replace(ca_file=None)), stored()) == [
            Retry("SSLCertVerificationError")
        ]

    def test_connections_are_kept(self, http_backend):
        over_http(http_backend, *[stored()] * 5)

        assert len({each.headers[":from"] for each in http_backend.received}) == 1

    def test_what_is_no_http_is_retried(self):
        async def main() -> Outcome:
            async def answer(_reader, writer) -> None:
                writer.write(b"220 mail.example.org ESMTP\r\n\r\n")
                writer.close()

            server = await asyncio.start_server(answer, "127.0.0.1", 0)
            port = server.sockets[0].getsockname()[1]
            sender = HttpSender(Target(f"http://127.0.0.1:{port}"))
            outcome = await sender.send(stored())
            await sender.close()
            server.close()
            return outcome

        assert asyncio.run(main()) == Retry("RemoteProtocolError")

    def test_tls_is_never_older_than_1_2(self):
        assert Target("https://x").ssl_context().minimum_version >= ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize("sender", [GrpcSender, HttpSender])
@pytest.mark.parametrize(
    ("name", "value"),
    [("a b", "x"), ("a", "se\ncret"), ("a", "secrét"), ("Content-Type", "x"), ("grpc-x", "x")],
)
def test_a_header_that_cannot_be_sent_is_named_without_its_value(sender, name, value):
    target = Target("http://x", headers=((name, value),))

    with pytest.raises(ConfigurationError) as refused:
        sent(lambda: sender(target))

    assert str(refused.value) == f"headers.{name}: cannot be sent as a header"


def test_nothing_in_a_reason_is_in_the_backends_words(grpc_backend, answer):
    grpc_backend.script = [answer(grpc.StatusCode.INVALID_ARGUMENT)]

    assert "secret" not in repr(over_grpc(grpc_backend, stored(other_spans(1))))
