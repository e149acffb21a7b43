"""``turnavoid validate``: all problems at once, each with its key, and nothing touched."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import trustme
import yaml
from click.testing import CliRunner

from otel_turnavoid.cli.main import main

WHOLE = """
receivers:
  otlp:
    protocols:
      grpc: {endpoint: "localhost:4317"}
      http: {endpoint: "${env:HOST:-localhost}:4318"}
processors: {turnavoid: {decision_wait: 5m}, memory_limiter: {limit_mib: 512}}
exporters:
  prometheus: {endpoint: "localhost:9464"}
  otlp/backend: {endpoint: "http://backend.example:4317"}
extensions: {ledger: {url: "sqlite:///turnavoid.db"}, health_check: }
service:
  extensions: [ledger, health_check]
  pipelines:
    traces:
      receivers: [otlp]
      processors: [memory_limiter, turnavoid]
      exporters: [otlp/backend]
    metrics: {receivers: [turnavoid], exporters: [prometheus]}
"""


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Relative paths are in a folder of their own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TURNAVOID_LEDGER", raising=False)


def validate(text, *arguments):
    Path("c.yaml").write_text(text)
    return CliRunner().invoke(main, ["validate", "--config", "c.yaml", *arguments])


def problems(text, *arguments):
    done = validate(text, *arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    lines = done.stderr.splitlines()
    assert all(line.startswith("turnavoid validate: ") for line in lines)
    return [line.removeprefix("turnavoid validate: ") for line in lines]


def changed(text, **sections):
    """Return a configuration with other keys in its sections."""
    document = yaml.safe_load(text)
    for section, values in sections.items():
        document[section].update(values)
    return yaml.safe_dump(document)


def test_a_configuration_without_problems_says_nothing_and_is_0():
    done = validate(WHOLE)

    assert (done.exit_code, done.output) == (0, "")


def test_nothing_is_touched():
    validate(WHOLE)

    assert list(Path().iterdir()) == [Path("c.yaml")]


def test_without_a_file_the_defaults_are_checked():
    assert CliRunner().invoke(main, ["validate"]).exit_code == 0


def test_every_problem_is_said_with_its_key():
    text = """
receivers:
  otlp:
    protocols:
      grpc: {endpoint: "localhost", max_connections: 0, colour: red}
      http: {endpoint: "${env:TURNAVOID_NOT_SET}:4318"}
processors: {turnavoid: {decision_wait: soon, models: similar, arms: {tier: {a: controll}}}}
exporters:
  otlp/backend: {}
  promethius: {}
  prometheus: {endpoint: "localhost:9464", auth: }
extensions: {ledger: {lease: 1ms}, health_check: {path: status}}
"""

    assert problems(text) == [
        (
            "receivers.otlp.protocols.http.endpoint: the environment variable TURNAVOID_NOT_SET"
            " is not set; set it or give a default, ${env:TURNAVOID_NOT_SET:-default}"
        ),
        *problems_of_grpc(),
        ("processors.turnavoid.models: wants one of same, any, got 'similar'"),
        (
            "processors.turnavoid.decision_wait: "
            "wants a duration such as 10m, 500ms or 1h30m, got 'soon'"
        ),
        (
            "processors.turnavoid.arms.tier.a: "
            "wants one of control, exact-reuse, fused-batch, got 'controll'"
        ),
        "exporters.otlp/backend.endpoint: is required",
        (
            "exporters.promethius: unknown exporter; "
            "known: prometheus, otlp, otlp_grpc, otlphttp, otlp_http"
        ),
        "exporters.prometheus.auth.authenticator: is required",
        "extensions.health_check.path: wants text matching regex '^/[^\\\\s?#{}]*$', got 'status'",
        "extensions.ledger.lease: must be at least 1s",
    ]


def problems_of_grpc():
    """What is wrong with one section, whatever else is."""
    return problems("""
receivers:
  otlp: {protocols: {grpc: {endpoint: "localhost", max_connections: 0, colour: red}}}
""")


def test_of_one_section_each_key_is_said():
    said = problems_of_grpc()

    assert [line.partition(":")[0] for line in said] == [
        "receivers.otlp.protocols.grpc.colour",
        "receivers.otlp.protocols.grpc.endpoint",
        "receivers.otlp.protocols.grpc.max_connections",
    ]


def test_who_names_a_broken_component_is_not_blamed():
    text = WHOLE.replace('"http://backend.example:4317"', "[]").replace("5m", "soon")

    assert [line.partition(":")[0] for line in problems(text)] == [
        "processors.turnavoid.decision_wait",
        "exporters.otlp/backend.endpoint",
    ]


def test_what_is_wrongly_connected_is_said_place_by_place():
    text = WHOLE.replace("exporters: [otlp/backend]", "exporters: [jaeger, otlp/backend, tempo]")
    text = text.replace("extensions: [ledger, health_check]", "extensions: [ledger, zpages]")

    assert [line.partition(":")[0] for line in problems(text)] == [
        "service.extensions[1]",
        "service.extensions",
        "service.pipelines.traces.exporters[0]",
        "service.pipelines.traces.exporters[2]",
    ]


def test_every_variable_that_is_not_set_is_said():
    text = """
extensions: {ledger: {url: "${env:TA_A}"}}
exporters: {prometheus: {endpoint: "${env:TA_B}:1"}}
"""

    assert problems(text) == [
        f"{key}: the environment variable {name} is not set; "
        f"set it or give a default, ${{env:{name}:-default}}"
        for key, name in (
            ("extensions.ledger.url", "TA_A"),
            ("exporters.prometheus.endpoint", "TA_B"),
        )
    ]


def test_files_that_cannot_be_used_are_said():
    Path("broken.pem").write_text("no certificate")
    text = changed(
        WHOLE,
        receivers={
            "otlp": {
                "protocols": {
                    "http": {
                        "tls": {"cert_file": "no.pem", "key_file": "no.key"},
                        "auth": {"authenticator": "bearertokenauth"},
                    }
                }
            }
        },
        extensions={
            "ledger": {"url": "sqlite:///no/such/ledger.db"},
            "health_check": {"tls": {"cert_file": "broken.pem", "key_file": "broken.pem"}},
            "bearertokenauth": {"tokens": [{"filename": "tokens.txt", "role": "agent"}]},
        },
        exporters={
            "otlp/backend": {
                "endpoint": "https://backend.example:4317",
                "tls": {"ca_file": "ca.pem"},
                "sending_queue": {"storage": "queues/backend"},
            }
        },
        service={
            "extensions": ["ledger", "health_check", "bearertokenauth"],
            "telemetry": {"logs": {"output_paths": ["stderr", "logs/turnavoid.log"]}},
        },
    )

    assert [line.split(": ")[0] for line in problems(text)] == [
        "receivers.otlp.protocols.http.tls.cert_file",
        "extensions.health_check.tls.cert_file",
        "extensions.bearertokenauth.tokens[0].filename",
        "extensions.ledger.url",
        "exporters.otlp/backend.tls.ca_file",
        "exporters.otlp/backend.sending_queue.storage",
        "service.telemetry.logs.output_paths[1]",
    ]


def test_files_that_can_be_used_are_no_problem():
    certificate = trustme.CA().issue_cert("localhost")
    certificate.private_key_pem.write_to_path("key.pem")
    certificate.cert_chain_pems[0].write_to_path("cert.pem")
    tls = {"cert_file": "cert.pem", "key_file": "key.pem"}

    assert validate(changed(WHOLE, extensions={"health_check": {"tls": tls}})).exit_code == 0


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ledger.db", "is no database URL; write sqlite:///turnavoid.db"),
        ("mysql://h/d", "wants one of sqlite, postgresql before the colon, got 'mysql'"),
        ("sqlite:///no/l.db", "the folder no does not exist"),
    ],
)
def test_a_ledger_that_cannot_be_is_said(url, said):
    assert problems(WHOLE, "--ledger", url) == [f"extensions.ledger.url: {said}"]


def test_what_is_no_yaml_is_one_problem():
    assert problems("receivers: [") == [
        "c.yaml: line 1, column 13: expected the node content, but found '<stream end>'"
    ]


def test_a_file_that_is_not_there_is_one_problem():
    done = CliRunner().invoke(main, ["validate", "--config", "no.yaml"])

    assert done.exit_code == 2
    assert done.stderr == (
        "turnavoid validate: no.yaml: cannot be read: no such file or directory\n"
    )


def test_no_secret_is_shown():
    text = changed(WHOLE, extensions={"ledger": {"url": "postgresq://u:geheim@h/d"}})

    assert "geheim" not in "".join(problems(text))


def test_the_configurations_of_the_operators_page_are_valid():
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
    blocks = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    configurations = [block for block in blocks if "metric_relabel_configs" not in block]

    assert len(configurations) == 2
    for block in configurations:
        document = yaml.safe_load(WHOLE)
        for section, values in yaml.safe_load(block).items():
            added = {key: value for key, value in values.items() if key != "extensions"}
            document[section].update(added)
        assert validate(yaml.safe_dump(document)).output == ""
