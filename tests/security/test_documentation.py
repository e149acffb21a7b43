"""The examples in docs/security.md work as they stand."""

# ruff: noqa: PLR0913, PLR0917 - fixtures are arguments

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from otel_turnavoid.collector.auth import SHORTEST
from otel_turnavoid.collector.config import parse
from otel_turnavoid.collector.securing import BearerTokenAuth, ServerTls, TokenFile
from otel_turnavoid.vocabulary import Role

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
ENVIRONMENT = {"BACKEND_TOKEN": "secret"}


def fenced(info: str) -> str:
    (found,) = re.findall(rf"^```{info}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    return found


@pytest.fixture
def secured(start, client, folder, tokens):
    """The example, with its files in a folder, its hosts this machine, and nowhere to push."""
    (folder / "clients-ca.pem").write_bytes((folder / "ca.pem").read_bytes())
    (folder / "agents.token").write_text(tokens["agent"])
    text = fenced("yaml security").replace("/etc/turnavoid", str(folder))
    text = re.sub(r"0\.0\.0\.0:\d+", "localhost:0", text)
    text = re.sub(r"  otlphttp:.*?(?=extensions:)", "", text, flags=re.DOTALL)
    text = text.replace(", otlphttp]", "]").replace("${env:LEDGER_URL:-sqlite", "sqlite")
    return client(start(text.replace('turnavoid.db}"', 'turnavoid.db"')))


def test_the_example_is_a_configuration():
    config = parse(fenced("yaml security"), env=ENVIRONMENT)

    assert set(config.exporters) == {"prometheus", "otlphttp"}
    assert [file.role for file in config.authenticators["bearertokenauth"].tokens] == [*Role]
    assert config.ledger_url == "sqlite:///turnavoid.db"


def test_the_example_runs_with_tls_client_certificates_and_roles(
    secured, tokens, runs, effects, services, until
):
    channel = secured.channel
    assert secured.rpc(services["traces"], runs[0], tokens["agent"]).code().name == "UNAVAILABLE"
    for body in runs:
        assert secured.rpc(services["traces"], body, tokens["agent"], "client") == b""
    for body in effects:
        assert secured.rpc(services["logs"], body, tokens["observer"], "client") == b""
    with secured.web("client") as web:
        url = f"{secured._processor.http_endpoint}/v1/traces"
        refused = web.post(url, content=b"", headers={"content-type": "application/x-protobuf"})
    assert refused.status_code == 401
    assert secured.scrape(tokens["reader"]).status_code == 200

    secured.channel = lambda *_: channel("client")
    (pair,) = until(secured.pairs)
    assert (pair.avoided, list(pair.causes)) == (1, [])


@pytest.mark.parametrize(
    ("section", "prefix"),
    [(ServerTls, ""), (TokenFile, r"tokens\[\]\."), (BearerTokenAuth, "")],
)
def test_every_key_is_described(section, prefix):
    described = set(re.findall(rf"^\| `{prefix}(\w+)` \|", PAGE, re.MULTILINE))

    assert {*section.__struct_fields__} - {"tokens"} <= described


def test_the_roles_of_the_table_are_those_of_the_vocabulary():
    (head,) = re.findall(r"^\| may \| (.*) \|$", PAGE, re.MULTILINE)

    assert head == " | ".join(f"`{role}`" for role in Role)


def test_the_shortest_token_is_as_long_as_it_says():
    assert f"{SHORTEST} characters or more" in PAGE


def test_the_scrape_configuration_is_yaml():
    (job,) = yaml.safe_load(fenced("yaml prometheus"))["scrape_configs"]

    assert (job["scheme"], job["authorization"]) == ("https", {"credentials_file": "reader.token"})


@pytest.mark.parametrize("name", sorted(set(re.findall(r"turnavoid\.receiver\.[a-z_.]+", PAGE))))
def test_every_metric_that_it_names_exists(name):
    from otel_turnavoid.collector import telemetry  # noqa: PLC0415 - of one test

    assert name in {each.name for each in telemetry._INSTRUMENTS}
