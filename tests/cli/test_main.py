"""What a person at the terminal sees when something goes right, wrong or badly wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version

import click
import pytest
from click.testing import CliRunner

from otel_turnavoid.cli.main import COMMANDS, main
from otel_turnavoid.errors import LedgerError


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Make ``turnavoid runs`` raise the given error."""

    def install(error: BaseException) -> None:
        @click.command
        def command() -> None:
            raise error

        monkeypatch.setattr("otel_turnavoid.cli.runs.command", command)

    return install


def test_help_lists_every_command_with_its_short_help() -> None:
    done = CliRunner().invoke(main, ["--help"])

    assert done.exit_code == 0
    listed = [line.split(maxsplit=1) for line in done.output.split("Commands:\n")[1].splitlines()]
    assert dict(listed) == COMMANDS


def test_version_is_printed() -> None:
    done = CliRunner().invoke(main, ["--version"])

    assert (done.exit_code, done.output) == (0, f"turnavoid, version {version('otel-turnavoid')}\n")


def test_no_command_shows_help_and_is_wrong_use() -> None:
    done = CliRunner().invoke(main, [])

    assert done.exit_code == 2
    assert done.stderr.startswith("Usage: turnavoid [OPTIONS] COMMAND")


def test_an_unknown_command_is_one_line() -> None:
    done = CliRunner().invoke(main, ["avoid"])

    assert done.exit_code == 2
    assert done.stderr == "turnavoid: No such command 'avoid'. See: turnavoid --help\n"


def test_an_unknown_option_is_one_line_with_the_command() -> None:
    done = CliRunner().invoke(main, ["runs", "--jsonl"])

    assert done.exit_code == 2
    assert done.stderr.startswith("turnavoid runs: No such option '--jsonl'.")
    assert done.stderr.endswith(" See: turnavoid runs --help\n")
    assert done.stderr.count("\n") == 1


def test_a_missing_argument_is_one_line() -> None:
    done = CliRunner().invoke(main, ["ingest"])

    assert done.exit_code == 2
    assert done.stderr == (
        "turnavoid ingest: Missing argument 'FILE...'. See: turnavoid ingest --help\n"
    )


def test_a_known_error_is_one_line_with_the_command(failing: Callable[..., None]) -> None:
    failing(LedgerError("no ledger at sqlite:///x.db\n(make one with ingest)"))

    done = CliRunner().invoke(main, ["runs"])

    assert done.exit_code == 2
    assert done.stdout == ""
    assert done.stderr == ("turnavoid runs: no ledger at sqlite:///x.db\\n(make one with ingest)\n")


def test_a_bug_is_one_line_without_traceback(
    failing: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TURNAVOID_DEBUG", raising=False)
    failing(ZeroDivisionError("division by zero"))

    done = CliRunner().invoke(main, ["runs"])

    assert done.exit_code == 70
    assert done.stderr == (
        "turnavoid: this is a bug: ZeroDivisionError: division by zero"
        " (TURNAVOID_DEBUG=1 shows where)\n"
    )


def test_a_bug_shows_where_when_asked(
    failing: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNAVOID_DEBUG", "1")
    failing(ZeroDivisionError("division by zero"))

    done = CliRunner().invoke(main, ["runs"])

    assert isinstance(done.exception, ZeroDivisionError)


def test_an_interruption_exits_130(failing: Callable[..., None]) -> None:
    failing(KeyboardInterrupt())

    done = CliRunner().invoke(main, ["runs"])

    assert done.exit_code == 130
    assert done.stderr.strip() == ""


def test_a_reader_that_goes_away_is_no_error() -> None:
    code = (
        "import click, otel_turnavoid.cli.runs as runs\n"
        "from otel_turnavoid.cli.main import main\n"
        "runs.command = click.Command('runs', callback=lambda: [click.echo('x' * 99) for _ in "
        "range(9999)])\n"
        "main(['runs'])\n"
    )
    reader, writer = os.pipe()
    os.close(reader)

    done = subprocess.run(
        [sys.executable, "-c", code], stdout=writer, stderr=subprocess.PIPE, check=False
    )

    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def test_the_module_runs_as_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "otel_turnavoid", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout == f"turnavoid, version {version('otel-turnavoid')}\n"
