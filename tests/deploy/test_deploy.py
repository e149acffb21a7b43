"""The files under ``deploy/``: checked by systemd itself, and carried out without an engine."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from otel_turnavoid.collector.config import load

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
EXPOSURE = 15
"""Most that ``systemd-analyze security`` may find, in tenths: 10 is nothing, 100 is everything."""
DEADLINE_S = 60

analyze = shutil.which("systemd-analyze")
needs_systemd = pytest.mark.skipif(analyze is None, reason="needs systemd-analyze")


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Containerfile in order, each on one line."""
    text = re.sub(r"\\\n\s*", " ", (DEPLOY / "Containerfile").read_text())
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]


def only(word: str) -> str:
    """Return what the last instruction of a kind says."""
    return [rest for name, rest in instructions() if name == word][-1]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit, with a program that is there."""
    program = Path(sys.executable).with_name("turnavoid")
    text = (DEPLOY / "turnavoid.service").read_text()
    file = tmp_path / "turnavoid.service"
    file.write_text(text.replace("/opt/turnavoid/bin/turnavoid", str(program)))
    return file


@needs_systemd
def test_systemd_finds_nothing_wrong_with_the_unit(unit):
    done = subprocess.run([analyze, "verify", unit], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")


@needs_systemd
def test_the_unit_is_hardened(unit):
    done = subprocess.run(
        [analyze, "security", "--offline=true", f"--threshold={EXPOSURE}", unit],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout


def test_systemd_waits_longer_for_the_end_than_it_takes():
    unit = (DEPLOY / "turnavoid.service").read_text()
    waits_s = int(re.search(r"^TimeoutStopSec=(\d+)s$", unit, re.MULTILINE)[1])

    assert waits_s > load(DEPLOY / "turnavoid.yaml").shutdown_timeout.seconds + 5


@pytest.mark.parametrize("name", ["turnavoid.yaml", "container.yaml"])
def test_configurations_are_read(name):
    loaded = load(DEPLOY / name)

    assert loaded.health is not None
    assert loaded.memory is not None
    assert loaded.traces
    assert loaded.logs


def test_the_service_is_for_this_machine_only():
    loaded = load(DEPLOY / "turnavoid.yaml")
    protocols = loaded.receiver.protocols

    assert {
        section.endpoint.host
        for section in (protocols.grpc, protocols.http, loaded.health, *loaded.exporters.values())
    } == {"localhost"}


def test_the_container_names_no_registry_and_runs_as_nobody_special():
    images = {rest.split()[0] for word, rest in instructions() if word == "FROM"}

    assert images == {"python:3.13-slim"}
    assert only("USER") == "10001"


def test_the_container_copies_what_is_there():
    copied = [
        source
        for word, rest in instructions()
        if word == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
    ]

    assert copied
    assert [source for source in copied if not (ROOT / source).exists()] == []


def test_the_container_exposes_what_its_configuration_listens_on():
    loaded = load(DEPLOY / "container.yaml")
    protocols = loaded.receiver.protocols
    sections = (protocols.grpc, protocols.http, *loaded.exporters.values(), loaded.health)

    assert only("EXPOSE").split() == [str(section.endpoint.port) for section in sections]


def test_the_containers_build_steps_make_a_processor_that_runs(tmp_path):
    """What an engine would do, in folders instead of images."""
    context, installed = tmp_path / "src", tmp_path / "opt"
    context.mkdir()
    stage = instructions()[: [word for word, _ in instructions()].index("FROM", 1)]
    for word, rest in stage:
        if word == "COPY":
            *sources, _ = rest.split()
            for source in sources:
                copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
                copy(ROOT / source, context / Path(source).name)
        if word == "RUN":
            command = rest.replace("/opt/turnavoid", str(installed))
            command = re.sub(r"^python ", f"{shlex.quote(sys.executable)} ", command)
            done = subprocess.run(
                command, shell=True, cwd=context, capture_output=True, text=True, check=False
            )
            if done.returncode and "CI" not in os.environ:
                pytest.skip(f"packages cannot be installed here: {done.stderr[-200:]}")
            assert done.returncode == 0, done.stderr
    shutil.rmtree(context)

    check = json.loads(only("HEALTHCHECK").partition("CMD ")[2])
    state = tmp_path / "state"
    state.mkdir()
    health = free_port()
    config = tmp_path / "turnavoid.yaml"
    text = re.sub(
        r":-0\.0\.0\.0\}:(?!13133)\d+", ":-127.0.0.1}:0", (DEPLOY / "container.yaml").read_text()
    )
    text = text.replace(":-0.0.0.0}:13133", f":-127.0.0.1}}:{health}")
    config.write_text(text)
    environment = {
        "PATH": os.environ["PATH"],
        "TURNAVOID_LEDGER": f"sqlite:///{state}/turnavoid.db",
    }
    command = [*json.loads(only("ENTRYPOINT")), *json.loads(only("CMD"))]
    program = str(installed / "bin" / command[0])
    arguments = [
        str(config) if part == "/etc/turnavoid/turnavoid.yaml" else part for part in command[1:]
    ]
    process = subprocess.Popen(
        [program, *arguments], cwd=state, env=environment, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        assert any('"msg":"listening"' in line for line in process.stderr)
        probe = [str(installed / "bin" / check[0]), *check[1:]]
        probe[-1] = probe[-1].replace("13133", str(health))
        assert subprocess.run(probe, check=False).returncode == 0
    finally:
        process.send_signal(getattr(signal, only("STOPSIGNAL")))
        process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0
    assert (state / "turnavoid.db").exists()
    assert subprocess.run(probe, stderr=subprocess.DEVNULL, check=False).returncode != 0
