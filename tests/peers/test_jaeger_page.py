"""The links that docs/metrics.md gives to Jaeger's page: taken by Jaeger, and each leads somewhere.

The page itself is not in the program that `make peers` builds. What it does is done here: the
values of tags are filled in, and what the link names is asked for at the API behind the page.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple
from urllib.parse import parse_qs, quote, urlsplit

import httpx
import pytest
from harness import verdict
from harness.jaeger import Jaeger
from harness.peer import ROOT, Peer
from harness.recipe import Recipe
from harness.workload import Workload

pytestmark = pytest.mark.peers


def documented():
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```json\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return block


class Linked(NamedTuple):
    """Jaeger with the documented links, before anything is sent."""

    jaeger: Jaeger
    chain: Recipe


@pytest.fixture
def linked(recipe, peers):
    chain = recipe("collector-chain")
    (chain.scratch / "page.json").write_text(documented(), encoding="utf-8")
    command = [
        peers.program("jaeger"),
        "--config",
        str(chain.folder / "jaeger.yaml"),
        "--config",
        "yaml:extensions::jaeger_query::ui::config_file: page.json",
    ]
    at = chain.endpoints["JAEGER_UI"]
    ports = [int(at.rpartition(":")[2])]
    peer = peers.start(Peer("jaeger", command, chain.scratch, chain.endpoints, ports))
    return Linked(Jaeger(f"http://{at}", peer), chain)


def followed(jaeger, pattern, tags):
    """The ids of the traces that a link shows, with the values of a span's tags filled in."""
    url = re.sub(r"#\{(.+?)\}", lambda name: quote(tags[name[1]], safe=""), pattern["url"])
    asked = urlsplit(url)
    if asked.path.startswith("/trace/"):
        answer = httpx.get(
            f"{jaeger.url}/api/traces/{asked.path.removeprefix('/trace/')}", timeout=60
        )
    else:
        assert asked.path == "/search"
        query = {key: values[0] for key, values in parse_qs(asked.query).items()}
        answer = httpx.get(f"{jaeger.url}/api/traces", params=query, timeout=60)
    assert answer.status_code == httpx.codes.OK, answer.text
    return [trace["traceID"] for trace in answer.json()["data"]]


def test_jaeger_hands_the_links_to_its_page(linked):
    page = httpx.get(linked.jaeger.url, timeout=60).text
    (handed,) = re.findall(r"JAEGER_CONFIG = (\{.*\});", page)

    assert json.loads(handed) == json.loads(documented())


def test_links_lead_from_a_verdict_to_both_runs_and_from_a_run_to_its_verdict(linked):
    jaeger, chain = linked
    chain.processor()
    chain.collector()
    sent = Workload(4)
    sent.send(chain.endpoints["COLLECTOR_HTTP"])
    found = verdict.wait_for(jaeger, 4)[1]
    jaeger.wait_for(sent.traces())

    control, candidate = (trace_id for trace_id, _ in found.references)
    to_control, to_candidate, as_candidate, as_control = json.loads(documented())["linkPatterns"]
    assert followed(jaeger, to_control, found.tags) == [control]
    assert followed(jaeger, to_candidate, found.tags) == [candidate]
    of_candidate, of_control = (
        jaeger.trace(trace_id)[0]["attributes"] for trace_id in (candidate, control)
    )
    assert followed(jaeger, as_candidate, of_candidate) == [found.trace_id]
    assert followed(jaeger, as_control, of_control) == [found.trace_id]
    assert followed(jaeger, as_control, of_candidate) == []
