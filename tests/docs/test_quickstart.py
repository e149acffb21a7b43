"""``docs/quickstart.md`` does what it shows: its files and commands run as they stand.

Only what a machine cannot share is replaced: ports by free ones, waiting for some seconds by
waiting until it is so, and the Collector, where it is not at hand, by a stand-in that does what
its configuration says.
"""

from __future__ import annotations

import importlib.util
import os
import re
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from otel_turnavoid.collector import config

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
COLLECTOR = ROOT / ".peers" / "bin" / "otelcol"
PATIENCE_S = 120
INSTALL = "Install"
SITUATIONS = {
    "A loop of your own": 2,
    "A framework": 2,
    "Only logs": 0,
    "Only a Collector": 20,
}
"""Heading -> runs that a processor has to decide about."""

PRELUDE = """
set -euo pipefail
kill() { builtin kill "$@"; wait; }
sleep() { python "$WAIT" "$1"; }
"""
"""``kill`` waits for the end of what it ends, so that its ports are free again."""

WAIT = """
import json, os, socket, subprocess, sys, time
deadline = time.monotonic() + 60
def listening():
    for port in os.environ["PORTS"].split():
        with socket.socket() as client:
            client.settimeout(1)
            if client.connect_ex(("localhost", int(port))):
                return False
    return True
def decided():
    done = subprocess.run(["turnavoid", "runs", "--json"], capture_output=True, text=True)
    runs = [json.loads(line) for line in done.stdout.splitlines()]
    wanted = int(os.environ["RUNS"])
    return len(runs) >= wanted and all(run["outcome"] == "paired" for run in runs)
so = {"3": listening, "2": decided}[sys.argv[1]]
while not so():
    assert time.monotonic() < deadline, f"waited in vain until {so.__name__}"
    time.sleep(0.05)
"""
"""``sleep 3`` stands after a start, ``sleep 2`` before verdicts are looked at."""


def sections(text: str) -> dict[str, str]:
    """Return the sections of a page by heading."""
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def free_ports(count: int) -> list[int]:
    with_ports = [socket.create_server(("localhost", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in with_ports]
    for each in with_ports:
        each.close()
    return ports


class Terminal:
    """A shell in a folder of its own, with the programs that the page takes for granted."""

    def __init__(self, folder: Path, collector: str, runs: int) -> None:
        self.folder = folder / "here"
        self.folder.mkdir()
        self.otlp, self.behind = free_ports(2)
        programs = folder / "programs"
        programs.mkdir()
        default = folder / "default.yaml"
        default.write_text(
            "receivers:\n  otlp:\n    protocols:\n"
            f"      grpc: {{endpoint: 'localhost:{self.otlp}'}}\n"
            "      http: {endpoint: 'localhost:0'}\n"
            "exporters: {prometheus: {endpoint: 'localhost:0'}}\n"
        )
        python = f'exec "{sys.executable}"'
        scripts = {
            "python": f'{python} "$@"',
            "turnavoid": (
                f'if [ "$*" = collect ]; then set -- collect --config "{default}"; fi\n'
                f'{python} -m otel_turnavoid "$@"'
            ),
            "otelcol-contrib": f'exec {collector} "$@"',
        }
        for name, script in scripts.items():
            program = programs / name
            program.write_text(f"#!/bin/sh\n{script}\n")
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
        wait = folder / "wait.py"
        wait.write_text(WAIT)
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("OTEL_", "TURNAVOID_"))
        }
        self.environment = kept | {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://localhost:{self.otlp}",
            "WAIT": str(wait),
            "PORTS": str(self.otlp),
            "RUNS": str(runs),
        }

    def save(self, name: str, text: str) -> None:
        """Write a file of the page, with ports that are free here."""
        for port, free in ((14317, self.behind), (4317, self.otlp)):
            text = text.replace(f'"localhost:{port}"', f'"localhost:{free}"')
            text = text.replace(f"localhost:{port}\n", f"localhost:{free}\n")
        if name == "turnavoid.yaml":
            text += "exporters: {prometheus: {endpoint: 'localhost:0'}}\n"
        (self.folder / name).write_text(text)

    def run(self, commands: list[str]) -> list[str]:
        """Run blocks of commands one after the other; return what each wrote."""
        script = [PRELUDE]
        for number, block in enumerate(commands):
            listens = self.behind if "--config turnavoid.yaml &" in block else self.otlp
            script.append(f"export PORTS={listens}\n{{\n{block}}} > ../out.{number}\n")
        script.append("wait\n")
        process = subprocess.Popen(
            ["bash", "-c", "\n".join(script)],
            cwd=self.folder,
            env=self.environment,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            _, said = process.communicate(timeout=PATIENCE_S)
        finally:
            if process.poll() is None or process.returncode:
                self._end(process.pid)
        assert process.returncode == 0, said
        assert "Traceback" not in said, said
        outputs = (self.folder.parent / f"out.{number}" for number in range(len(commands)))
        return [output.read_text() for output in outputs]

    def _end(self, group: int) -> None:
        """End what the shell started, which shares its process group."""
        try:
            os.killpg(group, 9)
        except ProcessLookupError:
            return


def squeezed(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]


STAND_IN = f'"{sys.executable}" "{HERE / "collector_stand_in.py"}"'
REAL = pytest.param(
    "Only a Collector",
    f'"{COLLECTOR}"',
    id="Only a Collector, the real one",
    marks=pytest.mark.skipif(not COLLECTOR.exists(), reason="needs `make peers`"),
)


@pytest.mark.parametrize(
    ("situation", "collector"),
    [*(pytest.param(name, STAND_IN, id=name) for name in SITUATIONS), REAL],
)
def test_what_is_shown_is_what_happens(
    page: Callable[[str], str],
    blocks: Callable[[str], list[tuple[str, str]]],
    tmp_path: Path,
    situation: str,
    collector: str,
) -> None:
    if situation == "A framework" and importlib.util.find_spec("pydantic_ai") is None:
        pytest.skip("needs the extra frameworks")
    terminal = Terminal(tmp_path, collector, SITUATIONS[situation])
    commands, shown = [], {}
    for info, body in blocks(sections(page("quickstart.md"))[situation]):
        if info == "sh" and "pip install" not in body:
            commands.append(body)
        elif info == "text":
            shown[len(commands) - 1] = body
        elif info != "sh":
            terminal.save(info.split()[1], body)

    written = terminal.run(commands)

    assert shown
    for number, text in shown.items():
        expected = squeezed(text)
        assert squeezed(written[number])[-len(expected) :] == expected


def test_every_situation_is_tried(page: Callable[[str], str]) -> None:
    assert list(sections(page("quickstart.md"))) == [INSTALL, *SITUATIONS]


def test_what_is_installed_exists(page: Callable[[str], str]) -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    extras = re.findall(r"pip install '\.\[(\w+)\]'", page("quickstart.md"))

    assert extras == ["statistics", "frameworks"]
    assert [extra for extra in extras if f"\n{extra} = [" not in project] == []


def test_its_configurations_of_ours_load(
    page: Callable[[str], str], blocks: Callable[[str], list[tuple[str, str]]]
) -> None:
    files = dict(blocks(page("quickstart.md")))

    assert config.parse(files["yaml logs.yaml"], env={}).settings.arms
    assert config.parse(files["yaml turnavoid.yaml"], env={}).ledger_url == (
        "sqlite:///forwarded.db"
    )
