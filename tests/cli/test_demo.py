"""``turnavoid demo``: the whole job, proven against its script, leaving nothing running."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest
import yaml
from click.testing import CliRunner

from otel_turnavoid.cli.main import main
from otel_turnavoid.demo import figures
from otel_turnavoid.demo.stage import Ports

DEMO = [sys.executable, "-m", "otel_turnavoid", "demo"]
README = Path(__file__).parents[2] / "README.md"


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """The folder and the outputs of two demos, one after the other."""
    folder = tmp_path_factory.mktemp("demo")
    outputs = []
    for _ in range(2):
        done = subprocess.run(DEMO, cwd=folder, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        outputs.append(done.stdout)
    return folder, outputs


def answers(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("localhost", port)) == 0


def ports(stage: Path) -> list[int]:
    """Return where the processor of a demo listened."""
    text = (stage / "config.yaml").read_text()
    assert yaml.safe_load(text)
    return [int(port) for port in re.findall(r"localhost:(\d+)", text)]


def test_it_runs_twice_in_a_row_each_time_in_a_fresh_folder(
    played: tuple[Path, list[str]],
) -> None:
    folder, _ = played

    stages = sorted((folder / "turnavoid-demo").iterdir())

    assert [stage.name for stage in stages] == ["1", "2"]
    assert all((stage / "ledger.db").is_file() for stage in stages)


def test_it_leaves_nothing_running(played: tuple[Path, list[str]]) -> None:
    folder, _ = played

    listening = [
        port
        for stage in (folder / "turnavoid-demo").iterdir()
        for port in ports(stage)
        if answers(port)
    ]

    assert listening == []


def test_it_shows_what_the_readme_shows(played: tuple[Path, list[str]]) -> None:
    _, (output, again) = played
    (excerpt,) = re.findall(
        r"^```text demo\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL
    )
    shown = set(filter(str.strip, excerpt.splitlines()))

    assert len(shown) > 30
    assert shown - set(output.splitlines()) == set()
    assert shown - set(again.splitlines()) == set()


def test_every_account_has_something_to_show(played: tuple[Path, list[str]]) -> None:
    _, (output, _) = played

    headings = re.findall(r"^  ([A-Z][a-z ]+)$", output, re.MULTILINE)

    assert headings == [
        *("Turns", "Retained turns", "Tools", "Speculation", "Effects"),
        *("Work before overhead", "Overhead", "Saved", "Tokens"),
    ]


def test_where_to_look_leads_to_the_same_verdicts(played: tuple[Path, list[str]]) -> None:
    folder, (output, _) = played
    (line,) = re.findall(r"^  \S*turnavoid (pairs .*)$", output, re.MULTILINE)

    done = subprocess.run(
        [sys.executable, "-m", "otel_turnavoid", *line.split()],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )

    assert len(re.findall(r"^\S+-control", done.stdout, re.MULTILINE)) == 8


def test_its_report_is_what_a_replay_of_its_trace_gives(played: tuple[Path, list[str]]) -> None:
    folder, _ = played
    ledger = ("--ledger", "sqlite:///turnavoid-demo/1/ledger.db")

    def run(*arguments: str) -> str:
        command = [sys.executable, "-m", "otel_turnavoid", *arguments]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
        assert done.stderr == ""
        return done.stdout

    run("report", *ledger, "--trace", "trace.jsonl")

    assert run("replay", "--in", "trace.jsonl", "--json") == run("report", *ledger, "--json")


def test_figures_that_the_script_does_not_imply_fail_the_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = ("refund-control", "refund-reuse")
    wrong = figures.EXPECTED | {ids: figures.EXPECTED[ids]._replace(avoided=1, withheld=1)}
    monkeypatch.setattr(figures, "EXPECTED", wrong)

    done = CliRunner().invoke(main, ["demo", "--dir", str(tmp_path)])

    assert done.exit_code == 1
    assert done.stderr == (
        "turnavoid demo: refund-control with refund-reuse: decided 4 -> 2 turns, 2 avoided,"
        " 0 withheld (no cause), 0 added; must be 4 -> 2 turns, 1 avoided,"
        " 1 withheld (no cause), 0 added\n"
        f"turnavoid demo: wrong figures; see {tmp_path.resolve() / '1'}\n"
    )


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")

    done = CliRunner().invoke(main, ["demo", "--dir", str(tmp_path / "taken" / "demo")])

    assert done.exit_code == 2
    assert done.stderr == (
        f"turnavoid demo: cannot write into {tmp_path / 'taken' / 'demo'}: not a directory\n"
    )


def test_a_part_that_fails_is_named_with_its_last_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The processor is told to listen where somebody else does."""
    with socket.socket() as taken:
        taken.bind(("localhost", 0))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setattr("otel_turnavoid.demo.stage.Ports.free", lambda: Ports(port, 0, 0))

        done = CliRunner().invoke(main, ["demo", "--dir", str(tmp_path)])

    assert done.exit_code == 2
    assert done.stderr.startswith("turnavoid demo: the processor did not start: ")
    assert "receivers.otlp.protocols.grpc" in done.stderr
    assert done.stderr.endswith(f" (log: {tmp_path.resolve() / '1' / 'processor.log'})\n")
    assert done.stderr.count("\n") == 1


@contextmanager
def demo(*options: str) -> Iterator[subprocess.Popen[str]]:
    """Run a demo that ends with the block at the latest, also where a test fails in it."""
    with subprocess.Popen(
        [*DEMO, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_demo_that_is_ended_early_ends_its_processes(
    tmp_path: Path, number: signal.Signals
) -> None:
    with demo("--dir", str(tmp_path)) as process:
        ledger = tmp_path / "1" / "ledger.db"
        deadline = time.monotonic() + 60
        while not ledger.exists():
            assert time.monotonic() < deadline, "it made no ledger"
            time.sleep(0.02)
        process.send_signal(number)
        _, error = process.communicate(timeout=60)

    assert process.returncode == {signal.SIGTERM: 143, signal.SIGINT: 130}[number]
    assert error.strip() == ""
    assert [port for port in ports(tmp_path / "1") if answers(port)] == []


def test_keep_leaves_the_processor_running_until_it_is_interrupted(tmp_path: Path) -> None:
    with demo("--keep", "--dir", str(tmp_path)) as process:
        assert process.stdout is not None
        urls: list[str] = []
        for line in process.stdout:
            urls += re.findall(r"^  (http\S+)", line)
            if len(urls) == len(("pages", "metrics")):
                break
        shown = []
        for url in urls:
            with urlopen(url, timeout=60) as answer:
                shown.append(answer.read().decode())
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)

    page, exposition = shown
    assert "Why turns were withheld" in page
    assert "turnavoid_model_turns_avoided_total{" in exposition
    assert (process.returncode, error) == (0, "")
    assert [port for port in ports(tmp_path / "1") if answers(port)] == []
