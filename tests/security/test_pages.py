"""Pages are for readers, under names that are ours, and never in the way of exports."""

from __future__ import annotations

import base64
from collections.abc import Mapping

import httpx
import pytest

from otel_turnavoid.collector.page_door import PageDoor

PROTOBUF = {"content-type": "application/x-protobuf"}


def basic(password: str, user: str = "me") -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


class TestWithTokens:
    @pytest.fixture
    def get(self, start, client):
        running = start()

        def ask(headers: Mapping[str, str], path: str = "/", method: str = "GET") -> httpx.Response:
            with client(running).web() as web:
                return web.request(method, f"{running.http_endpoint}{path}", headers=dict(headers))

        return ask

    def test_a_reader_gets_pages_with_a_bearer_token_or_as_a_password(self, get, tokens):
        assert get(bearer(tokens["reader"])).status_code == 200
        assert get(basic(tokens["reader"])).status_code == 200
        assert get(basic(tokens["reader"], user="")).status_code == 200

    def test_a_stranger_gets_401_with_a_challenge_that_browsers_understand(self, get):
        answer = get({})

        assert answer.status_code == 401
        assert answer.headers.get_list("www-authenticate") == [
            'Basic realm="turnavoid", charset="UTF-8"',
            'Bearer realm="turnavoid"',
        ]
        assert "role reader" in answer.text
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")

    def test_how_a_browser_begins_is_no_attempt_to_be_alarmed_by(self, start, client, tokens):
        running = client(start())
        url = running._processor.pages_url
        with running.web() as web:
            web.get(url)
            before = running.metric("turnavoid_receiver_refused_credentials_total")
            web.get(url, headers=basic(tokens["agent"]))
        after = running.metric("turnavoid_receiver_refused_credentials_total")

        assert (before, after) == (0, 1)

    @pytest.mark.parametrize("role", ["agent", "observer"])
    def test_senders_get_no_pages(self, get, tokens, role):
        assert get(bearer(tokens[role])).status_code == 403
        # A browser keeps a password until it is told that it is of no use.
        assert get(basic(tokens[role])).status_code == 401

    @pytest.mark.parametrize(
        "value", ["Basic", "Basic !!!", "Basic eA==", "Basic " + "A" * 4000, "Digest x"]
    )
    def test_what_is_no_password_is_401(self, get, value):
        assert get({"authorization": value}).status_code == 401

    def test_two_credentials_are_none(self, get, tokens):
        both = [*basic(tokens["reader"]).items(), *bearer(tokens["reader"]).items()]

        assert get(httpx.Headers(both)).status_code == 401

    @pytest.mark.parametrize("path", ["/", "/nothing", "/icon.svg", "/runs/x", "/find?id=x"])
    def test_strangers_learn_of_no_page(self, get, path):
        assert get({}, path).status_code == 401

    def test_a_password_sends_nothing(self, get, tokens):
        """Or a web site could let its visitors' browsers send what it likes."""
        answer = get({**basic(tokens["agent"]), **PROTOBUF}, "/v1/traces", "POST")

        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Bearer ")

    def test_an_agent_sends_as_before(self, get, tokens):
        answer = get({**bearer(tokens["agent"]), **PROTOBUF}, "/v1/traces", "POST")

        assert answer.status_code == 200

    def test_any_name_will_do_where_a_token_is_asked_for(self, get, tokens):
        named = {**bearer(tokens["reader"]), "host": "turnavoid.example.com"}

        assert get(named).status_code == 200


class TestInPlainText:
    def test_on_this_machine_a_password_is_taken(self, start_plain, tokens):
        running = start_plain()

        assert (
            httpx.get(running.pages_url, headers=basic(tokens["reader"]), timeout=60).status_code
            == 200
        )

    def test_elsewhere_only_a_bearer_token_is(self, start_plain, tokens, monkeypatch):
        monkeypatch.setattr("otel_turnavoid.collector.protection.local", lambda _host: False)
        running = start_plain()

        answer = httpx.get(running.pages_url, headers=basic(tokens["reader"]), timeout=60)
        assert answer.status_code == 401
        assert answer.headers.get_list("www-authenticate") == [
            'Bearer realm="turnavoid", error="invalid_token"'
        ]
        assert "over TLS or on this machine only" in answer.text
        assert (
            httpx.get(running.pages_url, headers=bearer(tokens["reader"]), timeout=60).status_code
            == 200
        )


OPEN = """
receivers: {otlp: {protocols: {http: {endpoint: "localhost:0"}}}}
exporters: {prometheus: {endpoint: "localhost:0"}}
extensions: {pages: {PAGES}}
"""


class TestWithoutTokens:
    @pytest.fixture
    def get(self, start):
        running = start(OPEN.replace("PAGES", "hosts: [turnavoid.internal]"))

        def ask(host: str) -> httpx.Response:
            return httpx.get(running.pages_url, headers={"host": host}, timeout=60)

        return ask

    @pytest.mark.parametrize(
        "host",
        ["localhost", "LOCALHOST:4318", "127.0.0.1:4318", "[::1]:4318", "turnavoid.internal:1"],
    )
    def test_pages_are_shown_under_our_names(self, get, host):
        assert get(host).status_code == 200

    @pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io"])
    def test_under_a_name_that_a_stranger_points_here_they_are_not(self, get, host):
        answer = get(host)

        assert answer.status_code == 421
        assert f"Pages are not shown under the name &#x27;{host}&#x27;" in answer.text

    def test_exports_come_under_any_name(self, start):
        running = start(OPEN.replace("{PAGES}", ""))
        headers = {**PROTOBUF, "host": "collector.example"}

        answer = httpx.post(f"{running.http_endpoint}/v1/traces", headers=headers, timeout=60)
        assert answer.status_code == 200

    def test_no_page_is_shown_to_scripts_of_other_sites(self, get):
        headers = get("localhost").headers

        assert "access-control-allow-origin" not in headers
        assert headers["cross-origin-resource-policy"] == "same-origin"


def test_where_pages_are_off_a_path_is_an_unknown_one_of_otlp(start):
    running = start(OPEN.replace("PAGES", "enabled: false"))

    answer = httpx.get(f"{running.http_endpoint}/", timeout=60)
    assert (running.pages_url, answer.status_code) == (None, 404)
    assert answer.json()["message"] == "Not Found: /"


@pytest.mark.parametrize(
    "host", ["", ":", "[", "[]", "evil.example:localhost", "1.2.3", "@localhost"]
)
def test_what_is_no_name_is_not_ours(host):
    assert not PageDoor(None, (), ("localhost",)).ours(host)


@pytest.mark.parametrize("host", ["10.0.0.7", "10.0.0.7:80", "[fe80::1]:80", "Desk:4318"])
def test_addresses_and_named_hosts_are_ours(host):
    assert PageDoor(None, (), ("desk",)).ours(host)
