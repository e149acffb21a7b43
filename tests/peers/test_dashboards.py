"""Every panel's query, asked of a Prometheus that the demo has filled."""

from __future__ import annotations

import json
import re
from math import isnan
from pathlib import Path

import httpx
import pytest
import yaml
from harness.peer import Peer
from harness.prometheus import Prometheus

from otel_turnavoid.dashboards import Places, bundle
from otel_turnavoid.demo import stage
from otel_turnavoid.demo.scenario import CANDIDATES, EXPECTED, EXPERIMENT
from otel_turnavoid.vocabulary import CANDIDATE_ARMS

pytestmark = pytest.mark.peers

AGENT = "customer-desk"
"""Name of the demo's agent."""

SCRAPED = {"job_name": "otel_turnavoid", "scrape_interval": "1s"}

CHOSEN = {
    "arm": "(exact-reuse|fused-batch)",
    "variant": ".*",
    "evidence": "declared",
    "comparison": "()",
    "job": ".*",
    "experiment": EXPERIMENT,
    "agent": AGENT,
    "__rate_interval": "1m",
    "__range": "10m",
}
"""What Grafana puts for the variables: All, and the first of each choice."""


def dashboard(name):
    files = bundle(Places(Path("/"), "http://p", "http://j"))
    return json.loads(next(body for path, body in files.items() if path.name == f"{name}.json"))


def panels(built):
    for panel in built["panels"]:
        yield from (each for each in (panel, *panel.get("panels", ())) if each["type"] != "row")


def put(expression, **chosen):
    """The expression as Grafana sends it."""
    values = {**CHOSEN, **chosen}
    return re.sub(r"\$(\w+)", lambda found: values[found[1]], expression)


def started(peers, config, at):
    """A Prometheus on ``host:port`` that takes pushes too."""
    command = [
        peers.program("prometheus"),
        f"--config.file={config}",
        f"--storage.tsdb.path={peers.folder / 'series'}",
        f"--web.listen-address={at}",
        "--web.enable-otlp-receiver",
    ]
    port = int(at.rpartition(":")[2])
    peer = Peer("prometheus", command, peers.folder, {}, [port], f"http://{at}/-/ready")
    return Prometheus(f"http://{at}", peers.start(peer))


@pytest.fixture(params=["with suffixes", "without suffixes"])
def filled(request, peers, tmp_path):
    """A Prometheus with the accounts of the demo, and the processor's own telemetry."""
    built = stage.Stage.build(tmp_path / "demo")
    at = f"localhost:{peers.port()}"
    pushed = request.param == "without suffixes"
    configuration = yaml.safe_load(built.config.read_text())
    configuration["processors"]["turnavoid"]["labels"] = [
        "gen_ai.agent.name",
        "turnavoid.experiment.id",
    ]
    configuration["processors"]["turnavoid"]["known_names"] = {
        "gen_ai.agent.name": [AGENT],
        "turnavoid.experiment.id": [EXPERIMENT],
    }
    configuration["exporters"] |= {
        "otlp_http/prometheus": {"endpoint": f"http://{at}/api/v1/otlp", "interval": "1s"},
        "otlp/nobody": {"endpoint": f"localhost:{peers.port()}", "tls": {"insecure": True}},
    }
    through = {"receivers": ["otlp"], "processors": ["turnavoid"], "exporters": ["otlp/nobody"]}
    published = ["prometheus", "otlp_http/prometheus" if pushed else "otlp/nobody"]
    configuration["service"] = {
        "extensions": ["ledger"],
        "pipelines": {
            "traces": through,
            "logs": through,
            "metrics": {"receivers": ["turnavoid"], "exporters": published},
        },
    }
    if not pushed:
        del configuration["exporters"]["otlp_http/prometheus"]
    built.config.write_text(yaml.safe_dump(configuration))

    scrape = {**SCRAPED, "static_configs": [{"targets": [f"localhost:{built.ports.prometheus}"]}]}
    config = tmp_path / "prometheus.yml"
    config.write_text(
        yaml.safe_dump(
            {
                "scrape_configs": [] if pushed else [scrape],
                "otlp": {"translation_strategy": "UnderscoreEscapingWithoutSuffixes"},
            }
        )
    )
    prometheus = started(peers, config, at)
    with stage.processor(built):
        decided = '{__name__=~"turnavoid_pairs_decided(_total)?"}'
        prometheus.until(f"count(count_over_time({decided}[1m]) >= 2) > bool 0", 1)
        stage.agents(built)
        stage.observer(built)
        assert stage.verdicts(built).complete
        prometheus.until(f"sum({decided})", len(EXPECTED))
        since = f"min(count_over_time(({decided} > 0)[1m:1s]))"
        prometheus.until(f"{since} >= bool 3", 1)
        suffixed = prometheus.value('count({__name__=~"turnavoid_.+_total"})')
        assert (suffixed is None) == pushed
        yield prometheus


def ask(prometheus, panel, target, **chosen):
    """What the panel would draw: number of series with a value."""
    expression = put(target["expr"], **chosen)
    if target.get("instant"):
        return len([each for each in prometheus.query(expression).values() if not isnan(each)])
    now = prometheus.value("vector(time())")
    answer = httpx.get(
        f"{prometheus.url}/api/v1/query_range",
        params={"query": expression, "start": now - 60, "end": now, "step": 15},
        timeout=60,
    )
    assert answer.status_code == httpx.codes.OK, (panel["title"], answer.text)
    series = answer.json()["data"]["result"]
    return len([each for each in series if not all(isnan(float(y)) for _, y in each["values"])])


def test_every_query_of_every_panel_returns_data(filled):
    empty = [
        f"{panel['title']} {target['refId']}: {put(target['expr'])}"
        for name in ("turnavoid-turns", "turnavoid-operations")
        for panel in panels(dashboard(name))
        for target in panel["targets"]
        if not ask(filled, panel, target)
    ]
    assert empty == []

    _the_table_says_what_the_script_implies(filled)
    _first_events_count(filled)
    _variables_offer_what_there_is(filled)
    _variables_select(filled)


def _the_table_says_what_the_script_implies(prometheus):
    arms = {play.run_id: play.arm for play in CANDIDATES}
    (table,) = (each for each in panels(dashboard("turnavoid-turns")) if each["type"] == "table")
    (organized,) = (each for each in table["transformations"] if each["id"] == "organize")
    shown = {}
    for target in table["targets"]:
        column = organized["options"]["renameByName"][f"Value #{target['refId']}"]
        for arm in CANDIDATE_ARMS:
            found = prometheus.query(put(target["expr"], arm=arm.value))
            shown[column, arm] = sum(found.values())
    assert shown == {
        (column, arm): sum(
            figure(verdict) for (_, run_id), verdict in EXPECTED.items() if arms[run_id] is arm
        )
        for column, figure in {
            "Pairs": lambda _: 1,
            "Avoided": lambda verdict: verdict.avoided,
            "Added": lambda verdict: verdict.added,
            "Net": lambda verdict: verdict.avoided - verdict.added,
            "Withheld": lambda verdict: verdict.withheld,
        }.items()
        for arm in CANDIDATE_ARMS
    }


def _first_events_count(prometheus):
    (avoided,) = (
        each for each in panels(dashboard("turnavoid-turns")) if each["title"] == "Avoided"
    )
    grown = prometheus.query(put(avoided["targets"][0]["expr"]))
    assert sum(grown.values()) >= sum(verdict.avoided for verdict in EXPECTED.values())


def _variables_offer_what_there_is(prometheus):
    offered = {}
    for variable in dashboard("turnavoid-turns")["templating"]["list"]:
        if variable["type"] != "query":
            continue
        query = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
        answer = httpx.get(
            f"{prometheus.url}/api/v1/label/{query[2]}/values",
            params={"match[]": query[1]},
            timeout=60,
        )
        offered[variable["name"]] = answer.json()["data"]
    assert offered["experiment"] == [EXPERIMENT]
    assert offered["job"] == ["otel_turnavoid"]
    assert offered["agent"] == [AGENT]


def _variables_select(prometheus):
    (committed,) = (
        each
        for each in panels(dashboard("turnavoid-turns"))
        if each["title"] == "Committed over time"
    )
    candidates, control = committed["targets"]
    for nothing in ({"experiment": "another"}, {"agent": "another"}, {"evidence": "inferred"}):
        grown = prometheus.query(f"({put(candidates['expr'], **nothing)}) > 0")
        assert grown == {}, nothing
    one = prometheus.query(put(candidates["expr"], arm="exact-reuse"))
    assert len(one) == 1
    assert len(prometheus.query(put(control["expr"], arm="exact-reuse"))) == 1
