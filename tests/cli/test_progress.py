"""The progress bar of long readings: on a terminal, after a second, and nowhere else."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from otel_turnavoid.cli import progress
from otel_turnavoid.cli.main import main
from otel_turnavoid.cli.progress import DELAY_S, Progress
from otel_turnavoid.testing import run_spans


class Terminal(io.StringIO):
    """Somebody looks at what is written here."""

    def isatty(self) -> bool:
        return True


class Clock:
    """Stands still unless told."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    return Terminal()


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Two files of 2,000 bytes each."""
    made = [tmp_path / name for name in ("one", "two")]
    for file in made:
        file.write_bytes(bytes(2_000))
    return made


def read_one(shown: Progress, clock: Clock) -> Iterator[Path]:
    """Read the first file and half of the second, in more than a second."""
    listed = shown.files()
    next(listed)
    shown.read(2_000)
    clock.now_s += DELAY_S
    next(listed)
    shown.read(1_000)
    return listed


def test_a_long_reading_shows_files_and_bytes(terminal: Terminal, files: list[Path]) -> None:
    clock = Clock()

    with Progress(files, terminal, clock=clock) as shown:
        read_one(shown, clock)

    written = terminal.getvalue()
    assert "Reading" in written
    assert "3.0/4.0 kB" in written
    assert "1/2 files" in written


def test_what_follows_the_reading_is_named(terminal: Terminal, files: list[Path]) -> None:
    clock = Clock()

    with Progress(files, terminal, clock=clock) as shown:
        list(read_one(shown, clock))
        shown.deciding()

    assert "Deciding" in terminal.getvalue()


def test_a_short_reading_shows_nothing(terminal: Terminal, files: list[Path]) -> None:
    clock = Clock()

    with Progress(files, terminal, clock=clock) as shown:
        for _ in shown.files():
            shown.read(2_000)
        clock.now_s += DELAY_S / 2
        shown.deciding()

    assert terminal.getvalue() == ""


def test_a_pipe_shows_nothing(files: list[Path]) -> None:
    clock, pipe = Clock(), io.StringIO()

    with Progress(files, pipe, clock=clock) as shown:
        read_one(shown, clock)

    assert pipe.getvalue() == ""


@pytest.mark.parametrize("name", ["-", "/dev/null"])
def test_where_the_size_is_unknown_the_bytes_are_counted(terminal: Terminal, name: str) -> None:
    clock = Clock()

    with Progress([Path(name)], terminal, clock=clock) as shown:
        clock.now_s += DELAY_S
        shown.read(1_500)

    assert "1.5/? kB" in terminal.getvalue()


def test_a_missing_file_has_no_size(terminal: Terminal, files: list[Path], tmp_path: Path) -> None:
    clock = Clock()

    with Progress([*files, tmp_path / "nowhere", tmp_path], terminal, clock=clock) as shown:
        read_one(shown, clock)

    assert "3.0/4.0 kB" in terminal.getvalue()


def test_a_line_stays_beside_the_bar_and_is_not_wrapped_or_coloured(
    terminal: Terminal, files: list[Path]
) -> None:
    clock = Clock()
    line = "file, line 3: [bold]not[/bold] readable: " + "x" * 200

    with Progress(files, terminal, clock=clock) as shown:
        read_one(shown, clock)
        shown.say(line)

    assert f"{line}\n" in terminal.getvalue()


def test_a_line_goes_to_standard_error_where_no_bar_is(
    files: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    with Progress(files, io.StringIO()) as shown:
        shown.say("file: broken")

    assert capsys.readouterr() == ("", "file: broken\n")


def test_ingest_into_pipes_shows_no_bar_however_long_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "DELAY_S", 0.0)
    monkeypatch.chdir(tmp_path)
    Path("control").write_bytes(run_spans(run_id="c"))

    done = CliRunner().invoke(main, ["ingest", "control"])

    assert (done.exit_code, done.stderr) == (0, "")


def test_ingest_on_a_terminal_shows_how_far_it_is(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "DELAY_S", 0.0)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stderr", terminal)
    Path("control").write_bytes(run_spans(run_id="c"))

    main(["ingest", "control"], standalone_mode=False)

    assert "1/1 files" in terminal.getvalue()
