"""Values of a JSON document on a real server in this process."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from otel_turnavoid.errors import InputError
from otel_turnavoid.observers import http as http_module
from otel_turnavoid.observers import labels
from otel_turnavoid.observers.http import HttpSource


class Site:
    """What the server answers; ``asked`` holds the headers of every request."""

    def __init__(self) -> None:
        self.url = ""
        self.status = 200
        self.body = b"{}"
        self.headers: dict[str, str] = {}
        self.asked: list[dict[str, str]] = []


@pytest.fixture
def site() -> Iterator[Site]:
    said = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            said.asked.append(dict(self.headers))
            self.send_response(said.status)
            for name, value in said.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(said.body)))
            self.end_headers()
            self.wfile.write(said.body)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        said.url = f"http://127.0.0.1:{server.server_port}/shop"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield said
        server.shutdown()
        thread.join()


def test_values_become_labels_and_elements_of_a_list_count_each(site: Site) -> None:
    source = HttpSource(
        site.url,
        ["/orders", "/mails", "/refund/amount"],
        ["order:{id}={status}", "mail:{value}", "refund={value}"],
        ["order:{id}=deleted", "{value}=unsent", "refund=none"],
    )
    site.body = json.dumps(
        {"orders": [{"id": 1, "status": "open"}, {"id": 2, "status": "open"}], "mails": []}
    ).encode()
    before = source.look()
    site.body = (
        b'{"orders": [{"id": 1, "status": "sent"}], "mails": ["a", "a"],'
        b' "refund": {"amount": 19.90}}'
    )

    assert sorted(labels(before, source.look()).elements()) == [
        "mail:a",
        "mail:a",
        "order:1=sent",
        "order:2=deleted",
        "refund=19.90",
    ]


@pytest.mark.parametrize(
    ("pointer", "label"),
    [
        ("/a~1b", "/a~1b=1"),
        ("/m~0n", "/m~0n=2"),
        ("/list/1", "/list/1=y"),
        ("/object", '/object={"k":null}'),
    ],
)
def test_pointers_are_those_of_rfc_6901(site: Site, pointer: str, label: str) -> None:
    site.body = b'{"a/b": 1, "m~n": 2, "list": ["x", "y"], "object": {"k": null}}'

    assert [thing.label for thing in HttpSource(site.url, [pointer]).look().things] == [label]


@pytest.mark.parametrize("pointer", ["/none", "/list/9", "/list/-", "/list/x", "/number/deep"])
def test_what_a_pointer_does_not_find_is_not_there(site: Site, pointer: str) -> None:
    site.body = b'{"list": [1], "number": 1}'

    assert HttpSource(site.url, [pointer]).look().things == ()


def test_headers_are_sent(site: Site) -> None:
    HttpSource(site.url, ["/a"], headers={"Authorization": "Bearer geheim"}).look()

    assert site.asked[0]["Authorization"] == "Bearer geheim"


def test_credentials_do_not_follow_to_another_place(site: Site) -> None:
    site.status, site.headers = 302, {"Location": "http://elsewhere.invalid/shop?token=geheim"}
    source = HttpSource(site.url, ["/a"], headers={"Authorization": "Bearer geheim"})

    with pytest.raises(
        InputError, match=r"it redirects to another place, http://elsewhere\.invalid/shop$"
    ):
        source.look()


@pytest.mark.parametrize(
    ("status", "body", "problem"),
    [
        (404, b"", "answered 404 Not Found"),
        (503, b"later", "answered 503 Service Unavailable"),
        (200, b"<html>", "is not JSON: "),
        (200, b"[" * 100_000, "is not JSON: "),
        (200, b"\xff", "is not JSON: "),
    ],
)
def test_a_document_that_cannot_be_used_says_why(
    site: Site, status: int, body: bytes, problem: str
) -> None:
    site.status, site.body = status, body

    with pytest.raises(InputError, match=f"/shop: {problem}"):
        HttpSource(site.url, ["/a"]).look()


def test_a_large_document_is_refused(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_module, "MOST_BYTES", 1 << 20)
    site.body = b" " * (2 << 20)

    with pytest.raises(InputError, match="is larger than 1 MiB"):
        HttpSource(site.url, ["/a"]).look()


def test_a_server_that_is_not_there_is_named_without_what_is_secret() -> None:
    with pytest.raises(
        InputError, match=r"^http://localhost:1/shop: cannot be reached: Connection refused$"
    ):
        HttpSource("http://localhost:1/shop?token=geheim", ["/a"]).look()


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("file:///etc/passwd", "give an http or https URL"),
        ("shop.example", "give an http or https URL"),
        ("http://", "give an http or https URL"),
        ("http://me:geheim@shop.example", "a URL with a user or password is not taken"),
    ],
)
def test_only_plain_web_addresses_are_taken(url: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem) as refusal:
        HttpSource(url, ["/a"])
    assert "geheim" not in str(refusal.value)


def test_a_template_names_what_a_value_has(site: Site) -> None:
    site.body = b'{"orders": [{"id": 1}]}'

    with pytest.raises(
        InputError, match="names 'status'; the value at /orders has id, pointer, value"
    ):
        HttpSource(site.url, ["/orders"], ["order:{id}={status}"]).look()


def test_a_pointer_begins_with_a_slash() -> None:
    with pytest.raises(InputError, match="a JSON pointer begins with /, got 'orders'"):
        HttpSource("http://shop.example", ["orders"])
