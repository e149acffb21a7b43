"""``turnavoid collect`` as a process of its own: what an operator sees of it."""

from __future__ import annotations

import re
import signal
import ssl
import subprocess
import sys

import grpc
import pytest

from otel_turnavoid.testing import observation


@pytest.fixture
def process(folder):
    """Start the command with a configuration, and end it with whatever it said."""
    started = []

    def start(text):
        path = folder / "config.yaml"
        path.write_text(text.replace("FOLDER", str(folder)))
        begun = subprocess.Popen(
            [
                *(sys.executable, "-m", "otel_turnavoid", "collect", "--config", path),
                *("--ledger", f"sqlite:///{folder / 'ledger.db'}"),
            ],
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
        )
        started.append(begun)
        return begun

    yield start
    for begun in started:
        begun.kill()
        begun.communicate()


CONFIGURATION = """
receivers:
  otlp:
    protocols:
      grpc:
        endpoint: "localhost:0"
        tls: {cert_file: FOLDER/server.pem, key_file: FOLDER/server.key}
        auth: {authenticator: bearertokenauth}
exporters: {prometheus: {endpoint: "localhost:0"}}
extensions:
  bearertokenauth: {tokens: [{filename: FOLDER/agent.token, role: agent, subject: shop-agents}]}
"""


def test_strangers_do_not_fill_the_log_and_refusals_stand_in_it_once(
    process, folder, tokens, services
):
    running = process(CONFIGURATION)
    (endpoint,) = re.findall(r"LedgerService at (\S+)", until_line(running, "LedgerService"))
    until_line(running, "metrics at")
    for _ in range(3):  # none of them trusts the certificate
        with pytest.raises(ssl.SSLError):
            ssl.get_server_certificate(
                ("localhost", int(endpoint.rpartition(":")[2])), ca_certs=ssl_defaults()
            )
    credentials = grpc.ssl_channel_credentials((folder / "ca.pem").read_bytes())
    with grpc.secure_channel(endpoint, credentials) as channel:
        call = channel.unary_unary(services["logs"])
        for metadata in (None, (("authorization", f"Bearer {tokens['agent']}"),)) * 2:
            sent = observation("secret-run", ["secret-effect"])
            code = call.future(sent, metadata=metadata, timeout=60).code()
            assert code is (grpc.StatusCode.OK if metadata else grpc.StatusCode.UNAUTHENTICATED)

    running.send_signal(signal.SIGTERM)
    _, said = running.communicate(timeout=60)

    assert running.returncode == 0
    warnings = re.findall(r"WARNING \S+: (.*)", said)
    assert warnings.count("requests are refused: they show no known bearer token") == 1
    assert warnings.count("some logs of shop-agents are refused: its role is agent") == 1
    assert "andshake" not in said
    assert not [secret for secret in (*tokens.values(), "secret") if secret in said]


def until_line(running, text):
    """Return the first line that holds a text; there is one, or the process ends."""
    return next(line for line in running.stderr if text in line)


def ssl_defaults():
    import certifi  # noqa: PLC0415 - authorities that did not issue the certificate

    return certifi.where()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (
            ("agent.token", "short"),
            (
                "extensions.bearertokenauth.tokens[0].filename:"
                " FOLDER/agent.token, line 1: a token has at least 16 characters"
            ),
        ),
        (
            ("server.key", "nothing"),
            (
                "receivers.otlp.protocols.grpc.tls.key_file:"
                " FOLDER/server.key holds no private key in PEM that can be used"
            ),
        ),
    ],
)
def test_it_does_not_start_with_files_that_cannot_be_used(process, folder, spoil, said):
    name, text = spoil
    (folder / name).write_text(text)

    refused = process(CONFIGURATION)
    _, error = refused.communicate(timeout=60)

    assert refused.returncode == 2
    last = error.splitlines()[-1]
    assert last == f"turnavoid collect: {said.replace('FOLDER', str(folder))}"
