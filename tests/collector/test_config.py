"""Configuration files: what they mean, and what a bad one is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_turnavoid.collector.components import (
    Compression,
    LogLevel,
    OtlpExporter,
    OtlpHttpExporter,
    PagesExtension,
    PrometheusExporter,
)
from otel_turnavoid.collector.config import load, parse
from otel_turnavoid.collector.endpoint import Endpoint
from otel_turnavoid.errors import ConfigurationError
from otel_turnavoid.judge.settings import ArmRule, PurposeRule, RunLabel, Settings
from otel_turnavoid.vocabulary import Arm, Evidence, Lifecycle, Mechanism, Purpose, Reason

SECOND = 1_000_000_000


def problem(text: str, **env: str) -> str:
    """Return what a bad configuration is told."""
    with pytest.raises(ConfigurationError) as caught:
        parse(text, env=env)
    said = str(caught.value)
    assert "\n" not in said
    return said


class TestDefaults:
    def test_without_a_file_both_protocols_listen_on_localhost(self):
        protocols = load(None).receiver.protocols

        assert protocols.grpc is not None
        assert protocols.http is not None
        assert protocols.grpc.endpoint == Endpoint("localhost", 4317)
        assert protocols.http.endpoint == Endpoint("localhost", 4318)

    def test_without_a_file_metrics_are_scraped_at_localhost_9464(self):
        assert load(None).exporters == {"prometheus": PrometheusExporter()}
        assert PrometheusExporter().endpoint == Endpoint("localhost", 9464)

    def test_without_a_file_judging_is_by_its_own_defaults(self):
        assert load(None).settings == Settings()

    def test_without_a_file_both_signals_are_taken(self):
        config = load(None)

        assert (config.traces, config.logs) == (True, True)

    def test_limits_are_those_that_otlp_recommends(self):
        protocols = load(None).receiver.protocols

        assert protocols.grpc is not None
        assert protocols.http is not None
        assert protocols.grpc.max_recv_msg_size_mib == 64
        assert protocols.http.max_request_body_size == 64 * 1024 * 1024

    def test_the_default_ledger_is_left_to_the_command(self):
        assert load(None).ledger_url is None

    @pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "~"])
    def test_an_empty_file_has_the_defaults(self, text):
        assert parse(text, env={}) == load(None)

    def test_the_file_in_the_module_docstring_spells_the_defaults(self):
        from otel_turnavoid.collector import config  # noqa: PLC0415 - its docstring is the input

        lines = (config.__doc__ or "").splitlines()
        text = "\n".join(line[4:] for line in lines if line.startswith("    "))
        spelled = parse(text, env={})

        assert (spelled.receiver, spelled.settings, spelled.exporters, spelled.ledger_url) == (
            load(None).receiver,
            Settings(),
            load(None).exporters,
            "sqlite:///turnavoid.db",
        )


class TestReceivers:
    def test_a_protocol_that_is_not_named_is_off(self):
        protocols = parse("receivers: {otlp: {protocols: {grpc: }}}", env={}).receiver.protocols

        assert protocols.grpc is not None
        assert protocols.http is None

    def test_a_protocol_without_a_value_has_its_defaults(self):
        spelled = parse("receivers: {otlp: {protocols: {grpc: , http: }}}", env={})

        assert spelled.receiver == load(None).receiver

    def test_every_key_is_read(self):
        receiver = parse(
            """
            receivers:
              otlp/agents:
                max_pending_requests: 7
                max_pending_mib: 8
                protocols:
                  grpc:
                    endpoint: 0.0.0.0:1
                    max_recv_msg_size_mib: 2
                    max_concurrent_streams: 3
                    keepalive: {server_parameters: {max_connection_age: 5m, time: 2h}}
                  http:
                    endpoint: "[::1]:4"
                    max_request_body_size: 5
                    read_timeout: 6s
                    traces_url_path: /t
                    logs_url_path: /l
            """,
            env={},
        ).receiver

        grpc, http = receiver.protocols.grpc, receiver.protocols.http
        assert grpc is not None
        assert http is not None
        assert (receiver.max_pending_requests, receiver.max_pending_mib) == (7, 8)
        assert (grpc.endpoint, grpc.max_recv_msg_size_mib, grpc.max_concurrent_streams) == (
            ("0.0.0.0", 1),
            2,
            3,
        )
        assert grpc.keepalive.server_parameters.max_connection_age == 300 * SECOND
        assert grpc.keepalive.server_parameters.time == 7200 * SECOND
        assert (http.endpoint, http.max_request_body_size, http.read_timeout) == (
            ("::1", 4),
            5,
            6 * SECOND,
        )
        assert (http.traces_url_path, http.logs_url_path) == ("/t", "/l")

    @pytest.mark.parametrize(
        ("protocols", "said"),
        [
            (
                "{}",
                "receivers.otlp.protocols: wants at least one of grpc, http",
            ),
            (
                "{thrift: }",
                "receivers.otlp.protocols.thrift: unknown key; known: grpc, http",
            ),
            (
                "{grpc: {endpoint: 4317}}",
                (
                    "receivers.otlp.protocols.grpc.endpoint: "
                    "wants host:port, such as localhost:4317 or 0.0.0.0:4317, got 4317"
                ),
            ),
            (
                "{grpc: {endpoint: 'localhost:70000'}}",
                (
                    "receivers.otlp.protocols.grpc.endpoint: "
                    "wants host:port, such as localhost:4317 or 0.0.0.0:4317, got 'localhost:70000'"
                ),
            ),
            (
                "{grpc: {max_recv_msg_size_mib: many}}",
                (
                    "receivers.otlp.protocols.grpc.max_recv_msg_size_mib: "
                    "wants a whole number, got 'many'"
                ),
            ),
            (
                "{grpc: {max_recv_msg_size_mib: 0}}",
                (
                    "receivers.otlp.protocols.grpc.max_recv_msg_size_mib: "
                    "wants a whole number >= 1, got 0"
                ),
            ),
            (
                "{http: [1]}",
                "receivers.otlp.protocols.http: wants a mapping, got a list",
            ),
            (
                "{http: {read_timeout: 10}}",
                (
                    "receivers.otlp.protocols.http.read_timeout: "
                    "wants a duration such as 10m, 500ms or 1h30m, got 10"
                ),
            ),
        ],
    )
    def test_what_a_protocol_cannot_be(self, protocols, said):
        assert problem(f"receivers: {{otlp: {{protocols: {protocols}}}}}") == said

    def test_a_receiver_of_another_kind_is_unknown(self):
        assert (
            problem("receivers: {jaeger: {}}") == "receivers.jaeger: unknown receiver; known: otlp"
        )

    def test_protocols_are_required(self):
        assert problem("receivers: {otlp: }") == "receivers.otlp.protocols: is required"


class TestJudging:
    def test_every_key_is_read(self):
        settings = parse(
            """
            processors:
              turnavoid:
                accept: [declared, inferred]
                models: any
                instrumentation: any
                decision_wait: 1h30m
                settle: 250ms
                run_expiry: 48h
                observation_skew: 0
                arms:
                  flag:
                    on: fused-batch
                    "1": {arm: exact-reuse, variant: v, experiment: e, mechanism: semantic-reuse,
                          lifecycle: realized, reason: exact-match}
                digest: [task.input]
                purposes: [{attribute: kind, equals: judge, purpose: validation}]
                prefix_chain: true
                runs: {some.scope: session.id}
                experiments: [experiment.name]
                units: [user.id, feature_flag.context.id]
                labels: [gen_ai.agent.name, turnavoid.experiment.id]
                known_names: {turnavoid.variant: [v1, v2], gen_ai.agent.name: [desk]}
            """,
            env={},
        ).settings

        assert settings == Settings(
            accept=frozenset(Evidence),
            any_model=True,
            any_instrumentation=True,
            decision_wait_ns=5400 * SECOND,
            settle_ns=SECOND // 4,
            run_expiry_ns=48 * 3600 * SECOND,
            observation_skew_ns=0,
            arms={
                "flag": {
                    "on": ArmRule(arm=Arm.FUSED_BATCH),
                    "1": ArmRule(
                        arm=Arm.EXACT_REUSE,
                        variant="v",
                        experiment="e",
                        mechanism=Mechanism.SEMANTIC_REUSE,
                        lifecycle=Lifecycle.REALIZED,
                        reason=Reason.EXACT_MATCH,
                    ),
                }
            },
            digest=("task.input",),
            purposes=(PurposeRule(attribute="kind", equals="judge", purpose=Purpose.VALIDATION),),
            prefix_chain=True,
            runs={"some.scope": "session.id"},
            experiments=("experiment.name",),
            units=("user.id", "feature_flag.context.id"),
            labels=(RunLabel.AGENT, RunLabel.EXPERIMENT),
            known_names={"turnavoid.variant": ("v1", "v2"), "gen_ai.agent.name": ("desk",)},
        )

    @pytest.mark.parametrize(
        ("keys", "said"),
        [
            (
                "decision_wait: soon",
                "decision_wait: wants a duration such as 10m, 500ms or 1h30m, got 'soon'",
            ),
            ("accept: inferred", "accept: wants a list, got 'inferred'"),
            ("accept: [guessed]", "accept[0]: wants one of declared, inferred, got 'guessed'"),
            ("models: equal", "models: wants one of same, any, got 'equal'"),
            (
                "arms: {flag: {on: Exact-Reuse}}",
                "arms.flag.on: wants one of control, exact-reuse, fused-batch, got 'Exact-Reuse'",
            ),
            (
                "arms: {flag: {on: {variant: v}}}",
                "arms.flag.on.arm: is required",
            ),
            (
                "arms: {feature_flag.: {on: control}}",
                "arms.feature_flag.: names no feature flag; write feature_flag.KEY",
            ),
            (
                "known_names: {turnavoid.experiment.id: [e]}",
                "known_names.turnavoid.experiment.id: is no label; name it in labels too",
            ),
            (
                "known_names: {turnavoid.arm: [control]}",
                "known_names.turnavoid.arm: unknown key; known: turnavoid.variant",
            ),
            (
                "labels: [turnavoid.run.id]",
                (
                    "labels[0]: wants one of gen_ai.agent.name, turnavoid.experiment.id,"
                    " got 'turnavoid.run.id'"
                ),
            ),
            ("arms: {flag: control}", "arms.flag: wants a mapping, got 'control'"),
            (
                "purposes: [{attribute: a, equals: true, purpose: side}]",
                "purposes[0].equals: wants text, got true",
            ),
            (
                "wait: 5m",
                (
                    "wait: unknown key; known: accept, models, instrumentation, decision_wait, "
                    "settle, run_expiry, observation_skew, arms, digest, purposes, "
                    "prefix_chain, runs, experiments, units, labels, known_names"
                ),
            ),
        ],
    )
    def test_what_a_key_cannot_be(self, keys, said):
        text = f"processors: {{turnavoid: {{{keys}}}}}"

        assert problem(text) == f"processors.turnavoid.{said}"

    def test_there_is_one_processor(self):
        assert (
            problem("processors: {turnavoid: , turnavoid/2: }")
            == "processors.turnavoid/2: only one turnavoid can be defined"
        )


class TestExporters:
    def test_every_key_is_read(self):
        exporters = parse(
            """
            exporters:
              otlp:
                endpoint: backend:4317
                headers: {api-key: secret}
                tls: {insecure: true}
                timeout: 2s
                compression: none
                interval: 10s
              otlphttp/eu: {endpoint: "https://eu", tls: {ca_file: ca.pem}}
            """,
            env={},
        ).exporters

        otlp, http = exporters["otlp"], exporters["otlphttp/eu"]
        assert isinstance(otlp, OtlpExporter)
        assert isinstance(http, OtlpHttpExporter)
        assert (otlp.endpoint, otlp.headers, otlp.tls.insecure, otlp.compression) == (
            "backend:4317",
            {"api-key": "secret"},
            True,
            Compression.NONE,
        )
        assert (otlp.timeout, otlp.interval) == (2 * SECOND, 10 * SECOND)
        assert (http.endpoint, http.tls.ca_file, http.compression) == (
            "https://eu",
            "ca.pem",
            Compression.GZIP,
        )

    @pytest.mark.parametrize("name", ["otlp_grpc", "otlp_http", "otlphttp", "otlp"])
    def test_old_and_new_names_are_known(self, name):
        assert name in parse(f"exporters: {{{name}: {{endpoint: 'http://x'}}}}", env={}).exporters

    def test_an_endpoint_is_required(self):
        assert problem("exporters: {otlp: }") == "exporters.otlp.endpoint: is required"

    def test_over_http_the_endpoint_is_a_url(self):
        assert problem("exporters: {otlphttp: {endpoint: backend}}").startswith(
            "exporters.otlphttp.endpoint: "
        )

    def test_headers_are_not_shown(self):
        text = "exporters: {otlp: {endpoint: x, headers: {authorization: Bearer hunter2}}}"

        assert "hunter2" not in repr(parse(text, env={}))
        assert "12345" not in problem(text.replace("Bearer hunter2", "12345"))


class TestService:
    def test_a_service_that_is_left_out_connects_what_is_defined(self):
        text = "exporters: {prometheus: , otlp: {endpoint: x}}"

        assert list(parse(text, env={}).exporters) == ["prometheus", "otlp"]

    def test_a_signal_without_a_pipeline_is_not_taken(self):
        text = "service: {pipelines: {traces: {receivers: [otlp], processors: [turnavoid]}}}"
        config = parse(text, env={})

        assert (config.traces, config.logs, config.exporters) == (True, False, {})

    def test_the_ledger_is_an_extension(self):
        text = "extensions: {ledger: {url: 'sqlite:///x.db'}}"

        assert parse(text, env={}).ledger_url == "sqlite:///x.db"

    def test_pages_are_on_and_know_no_jaeger_by_default(self):
        assert parse("", env={}).pages == PagesExtension(enabled=True, jaeger_url=None, hosts=())

    def test_every_key_of_pages_is_read(self):
        text = (
            "extensions: {pages: {enabled: false, jaeger_url: 'https://tracing.example/jaeger',"
            " hosts: [desk, turnavoid.example.com]}}"
        )

        assert parse(text, env={}).pages == PagesExtension(
            enabled=False,
            jaeger_url="https://tracing.example/jaeger",
            hosts=("desk", "turnavoid.example.com"),
        )

    @pytest.mark.parametrize(
        "url",
        [
            "javascript:alert(1)",
            "http://me:secret@tracing.example",
            "http://tracing.example/?a=b",
            "http://a b",
            "tracing.example",
        ],
    )
    def test_what_jaeger_s_url_cannot_be(self, url):
        assert problem(f"extensions: {{pages: {{jaeger_url: '{url}'}}}}") == (
            "extensions.pages.jaeger_url: wants a URL such as http://localhost:16686,"
            " without user, query or fragment"
        )

    @pytest.mark.parametrize("host", ["desk:4318", "*", "", "http://desk", "[::1]"])
    def test_what_a_host_of_pages_cannot_be(self, host):
        assert problem(f"extensions: {{pages: {{hosts: ['{host}']}}}}") == (
            f"extensions.pages.hosts[0]: wants a host name without a port, got '{host}'"
        )

    def test_a_ledger_has_limits(self):
        text = "extensions: {ledger: {lease: 10s, retention: 30d, max_open_runs: 5000}}"
        ledger = parse(text, env={}).ledger

        assert (ledger.url, ledger.lease.seconds) == (None, 10)
        assert (ledger.retention.seconds, ledger.max_open_runs) == (30 * 86_400, 5000)

    def test_a_ledger_keeps_everything_and_a_million_open_runs_by_default(self):
        ledger = parse("", env={}).ledger

        assert (ledger.lease.seconds, ledger.retention) == (30, None)
        assert ledger.max_open_runs == 1_000_000

    @pytest.mark.parametrize(
        ("ledger", "line"),
        [
            ("{lease: 500ms}", "extensions.ledger.lease: must be at least 1s"),
            (
                "{retention: 24h}",
                (
                    "extensions.ledger.retention: must be at least 1h, and run_expiry with"
                    " decision_wait"
                ),
            ),
            (
                "{max_open_runs: 0}",
                "extensions.ledger.max_open_runs: wants a whole number >= 1, got 0",
            ),
        ],
    )
    def test_what_limits_of_a_ledger_cannot_be(self, ledger, line):
        assert problem(f"extensions: {{ledger: {ledger}}}") == line

    def test_a_ledger_that_the_service_does_not_name_is_an_error(self):
        text = """
            extensions: {ledger: {url: "sqlite:///x.db"}}
            service: {pipelines: {traces: {receivers: [otlp], processors: [turnavoid]}}}
        """

        assert problem(text) == "service.extensions: does not name ledger, which extensions defines"

    def test_the_password_of_a_ledger_is_not_shown(self):
        text = "extensions: {ledger: {url: 5}}"

        assert problem(text) == "extensions.ledger.url: wants text; put it in quotes"

    def test_the_log_level_is_read(self):
        text = """
            service:
              telemetry: {logs: {level: debug}}
              pipelines: {traces: {receivers: [otlp], processors: [turnavoid]}}
        """

        assert parse(text, env={}).log_level is LogLevel.DEBUG

    @pytest.mark.parametrize(
        ("service", "said"),
        [
            (
                "{pipelines: {traces: {receivers: [otlp/2], processors: [turnavoid]}}}",
                (
                    "service.pipelines.traces.receivers[0]: otlp/2 is not defined; "
                    "receivers defines otlp"
                ),
            ),
            (
                "{pipelines: {traces: {receivers: [otlp], processors: [batch]}}}",
                (
                    "service.pipelines.traces.processors[0]: batch is not defined; "
                    "processors defines turnavoid"
                ),
            ),
            (
                "{pipelines: {traces: {receivers: [otlp]}}}",
                (
                    "service.pipelines.traces.processors: must name one of processors; "
                    "processors defines turnavoid"
                ),
            ),
            (
                (
                    "{pipelines: {logs: {receivers: [otlp], processors: [turnavoid], "
                    "exporters: [prometheus]}}}"
                ),
                "service.pipelines.logs.exporters[0]: prometheus takes metrics only",
            ),
            (
                "{pipelines: {metrics: {receivers: [turnavoid], exporters: [debug]}}}",
                (
                    "service.pipelines.metrics.exporters[0]: debug is not defined; "
                    "exporters defines prometheus"
                ),
            ),
            (
                "{pipelines: {profiles: {}}}",
                "service.pipelines.profiles: unknown signal; known: traces, logs, metrics",
            ),
            (
                "{extensions: [health_check]}",
                "service.extensions[0]: health_check is not defined; extensions defines nothing",
            ),
            (
                "{pipelines: {metrics: {receivers: [turnavoid], exporters: [prometheus]}}}",
                "service.pipelines: wants a traces or logs pipeline",
            ),
        ],
    )
    def test_what_a_service_cannot_be(self, service, said):
        assert problem(f"service: {service}") == said

    def test_pipelines_may_be_named(self):
        text = """
            service: {pipelines: {traces/agents: {receivers: [otlp], processors: [turnavoid]}}}
        """

        assert parse(text, env={}).traces


class TestText:
    @pytest.mark.parametrize(
        ("text", "said"),
        [
            (
                "receiver: {}",
                (
                    "receiver: unknown key; known: "
                    "receivers, processors, exporters, extensions, service"
                ),
            ),
            (
                "processors: {}\nprocessors: {}",
                "line 2, column 1: the key 'processors' stands twice, first in line 1",
            ),
            (
                "processors:\n\tturnavoid:",
                "line 2, column 1: a tab; YAML is indented with spaces",
            ),
            ("- otlp", "a configuration is a mapping of sections, this is a list"),
            ("otlp", "a configuration is a mapping of sections, this is 'otlp'"),
            ("receivers: *a", "line 1, column 12: found undefined alias 'a'"),
            ("{? [a] : b}", "line 1, column 4: a key must be plain text"),
            ("a\x00b", "character 0 at position 1 is not allowed in YAML"),
            ("a: !!bool on", "line 1, column 4: 'on' does not spell the bool that its tag says"),
            ("a: !!int ''", "line 1, column 4: '' does not spell the int that its tag says"),
            ("a: !!float ''", "line 1, column 4: '' does not spell the float that its tag says"),
            (
                "a: !!timestamp now",
                (
                    "line 1, column 4: could not determine a constructor for the tag "
                    "'tag:yaml.org,2002:timestamp'"
                ),
            ),
            (f"a: {'9' * 5000}", "line 1, column 4: a number of more than 100 digits"),
            (r'a: "\ud800"', "line 1, column 4: half of a surrogate pair is no text"),
            ("&a [*a]", "values nested deeper than 100, or within themselves"),
            ("[" * 150 + "]" * 150, "values nested deeper than 100, or within themselves"),
            ("[" * 5000, "values nested deeper than 100, or within themselves"),
        ],
    )
    def test_text_that_is_no_configuration(self, text, said):
        assert problem(text) == said

    def test_a_name_that_breaks_the_line_is_shown_on_one(self):
        known = "known: receivers, processors, exporters, extensions, service"

        assert problem(r'"a\nb\e[31m": 1') == rf"a\nb\x1b[31m: unknown key; {known}"

    def test_aliases_of_aliases_are_refused_before_they_fill_the_memory(self):
        """Seven lines mean half a million values, thirty more than there are atoms."""
        lines = ["a0: &a0 [x]"]
        lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]

        assert problem("\n".join(lines)) == "more than 100000 values, aliases spelled out"

    def test_merges_of_merges_are_merged_once(self):
        lines = ["a0: &a0 {x: y}"]
        lines += [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 4)}]}}" for n in range(1, 30)]

        assert problem("\n".join(lines)).startswith("a0: unknown key")

    def test_what_was_merged_into_one_mapping_can_be_merged_into_another(self):
        rules = "{a: &a {arm: control}, b: &b {<<: *a, arm: exact-reuse}, c: {<<: *b, variant: v}}"
        settings = parse(f"processors: {{turnavoid: {{arms: {{x: {rules}}}}}}}", env={}).settings

        assert settings.arms["x"] == {
            "a": ArmRule(arm=Arm.CONTROL),
            "b": ArmRule(arm=Arm.EXACT_REUSE),
            "c": ArmRule(arm=Arm.EXACT_REUSE, variant="v"),
        }

    def test_a_number_with_a_leading_zero_is_decimal(self):
        """In YAML 1.1 it was octal, and 08 no number at all."""
        text = "receivers: {{otlp: {{protocols: {{http: {{max_request_body_size: {}}}}}}}}}"

        for written, size in (("010", 10), ("08", 8), ("0o10", 8), ("0x10", 16)):
            http = parse(text.format(written), env={}).receiver.protocols.http
            assert http is not None
            assert http.max_request_body_size == size

    def test_words_that_yaml_1_1_made_booleans_are_words(self):
        text = "processors: {turnavoid: {runs: {on: off, yes: no}}}"

        assert parse(text, env={}).settings.runs == {"on": "off", "yes": "no"}

    def test_merge_keys_work(self):
        text = """
            exporters:
              otlp/a: &a {endpoint: a, timeout: 1s}
              otlp/b: {<<: *a, endpoint: b}
        """
        exporter = parse(text, env={}).exporters["otlp/b"]

        assert isinstance(exporter, OtlpExporter)
        assert (exporter.endpoint, exporter.timeout) == ("b", SECOND)

    @given(st.text())
    def test_any_text_is_a_configuration_or_one_line(self, text):
        said = ""
        try:
            parse(text, env={})
        except ConfigurationError as error:
            said = str(error)

        assert "\n" not in said


class TestFile:
    def test_a_file_that_is_not_there_is_named(self, tmp_path: Path):
        with pytest.raises(ConfigurationError) as caught:
            load(tmp_path / "no.yaml")

        assert str(caught.value) == (
            f"{tmp_path / 'no.yaml'}: cannot be read: no such file or directory"
        )

    def test_a_folder_is_named(self, tmp_path: Path):
        with pytest.raises(ConfigurationError, match="cannot be read: is a directory"):
            load(tmp_path)

    def test_a_file_that_is_not_utf_8_is_named(self, tmp_path: Path):
        path = tmp_path / "c.yaml"
        path.write_bytes(b"\xff\xfe")

        with pytest.raises(ConfigurationError, match=r"c\.yaml: cannot be read: not UTF-8 text"):
            load(path)

    def test_an_error_in_the_text_as_a_whole_names_the_file(self, tmp_path: Path):
        path = tmp_path / "c.yaml"
        path.write_text("[")

        with pytest.raises(ConfigurationError) as caught:
            load(str(path))

        assert str(caught.value).startswith(f"{path}: line 1, column ")

    def test_an_error_at_a_key_names_the_key(self, tmp_path: Path):
        path = tmp_path / "c.yaml"
        path.write_text("x: 1")

        with pytest.raises(ConfigurationError) as caught:
            load(path)

        assert caught.value.key == "x"


class TestEnvironment:
    def test_a_variable_is_expanded(self):
        text = "extensions: {ledger: {url: 'sqlite:///${env:NAME}.db'}}"

        assert parse(text, env={"NAME": "x"}).ledger_url == "sqlite:///x.db"

    def test_a_default_stands_in_for_a_variable_that_is_not_set(self):
        text = "extensions: {ledger: {url: '${env:URL:-sqlite:///d.db}'}}"

        assert parse(text, env={}).ledger_url == "sqlite:///d.db"
        assert parse(text, env={"URL": "sqlite:///e.db"}).ledger_url == "sqlite:///e.db"

    def test_a_number_may_come_from_the_environment(self):
        text = "receivers: {otlp: {protocols: {http: {max_request_body_size: '${env:SIZE}'}}}}"
        http = parse(text, env={"SIZE": "9"}).receiver.protocols.http

        assert http is not None
        assert http.max_request_body_size == 9

    def test_two_dollars_are_one(self):
        text = "processors: {turnavoid: {runs: {a: '$${env:X}', b: c$d}}}"

        assert parse(text, env={}).settings.runs == {"a": "${env:X}", "b": "c$d"}

    def test_a_variable_that_is_not_set_is_named_with_its_key(self):
        text = "exporters: {otlp: {endpoint: x, headers: {authorization: 'Bearer ${env:TOKEN}'}}}"

        assert problem(text) == (
            "exporters.otlp.headers.authorization: the environment variable TOKEN is not set; "
            "set it or give a default, ${env:TOKEN:-default}"
        )

    @pytest.mark.parametrize("reference", ["${TOKEN}", "${file:x}", "${}", "${env:1}"])
    def test_other_references_are_refused(self, reference):
        assert problem(f"processors: {{turnavoid: {{runs: {{a: '{reference}'}}}}}}") == (
            f"processors.turnavoid.runs.a: {reference} is no reference; write ${{env:NAME}}"
        )

    def test_what_came_from_the_environment_is_not_shown(self):
        text = "processors: {turnavoid: {settle: '${env:SECRET}'}}"

        assert problem(text, SECRET="hunter2") == (
            "processors.turnavoid.settle: wants a duration such as 10m, 500ms or 1h30m, "
            "got the value of an environment variable"
        )
