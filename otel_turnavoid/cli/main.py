"""The ``turnavoid`` program: its commands by name, and what a failure looks like.

Commands are imported when they are called, so that ``turnavoid --help`` and the small
commands stay fast. Exit codes: 0 done; 1 a command's own negative answer; 2 wrong use or
input that cannot be used, with one line on standard error; 70 a bug of ours; 130 interrupted;
141 nobody reads the output any more.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, Final, NoReturn

import click

from otel_turnavoid.errors import TurnAvoidError
from otel_turnavoid.vocabulary import Env

COMMANDS: Final = {
    "demo": "Run the whole job once on this machine and show every account.",
    "collect": "Run the processor: OTLP in, verdicts and metrics out.",
    "validate": "Check a configuration and say everything that is wrong with it.",
    "ingest": "Read recorded OTLP files into a ledger and decide.",
    "runs": "List every run in the ledger, paired or not.",
    "pairs": "List every decided pair with its verdict.",
    "explain": "Say what was seen of a run or pair, what was decided, and why.",
    "report": "Show the report, or write the ledger as trace/v1 rows.",
    "replay": "Fold a trace/v1 file into the report.",
    "dashboards": "Write Grafana dashboards, Prometheus rules and provisioning files.",
    "observe": "Look at the outside world and send the effects of a run.",
    "loadgen": "Send synthetic control and candidate runs over OTLP, for sizing.",
}
"""Name -> short help; ``otel_turnavoid.cli.<name>`` holds the click command ``command``."""

DEBUG: Final = Env.DEBUG
"""Environment variable; ``1`` shows the traceback of a bug."""

EXIT_BAD_INPUT: Final = 2
EXIT_BUG: Final = 70
EXIT_INTERRUPTED: Final = 130
EXIT_NO_READER: Final = 141


class Failure(click.ClickException):
    """A known error on its way out: one line, ``turnavoid <command>: <message>``."""

    exit_code = EXIT_BAD_INPUT


class Program(click.Group):
    """A group that imports a command only when it is called, and turns errors into one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the command names in the order of the table."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command of this name."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"otel_turnavoid.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of commands without importing any of them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; say known errors with the command's name."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except TurnAvoidError as error:
            raise Failure(f"{_spelled(ctx)}: {_line(error)}") from error
        except BrokenPipeError:
            _give_up_output()
            ctx.exit(EXIT_NO_READER)
        else:
            return result

    def main(  # type: ignore[override]
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        *,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the program and exit; with ``standalone_mode=False`` errors are raised instead."""
        name = prog_name or "turnavoid"
        if not standalone_mode:
            return super().main(args, name, standalone_mode=False, **extra)
        try:
            code = super().main(args, name, standalone_mode=False, **extra)
        except Failure as failure:
            _fail(failure.message, failure.exit_code)
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message(), err=True)
            sys.exit(error.exit_code)
        except click.UsageError as error:
            path = error.ctx.command_path if error.ctx else name
            _fail(f"{path}: {_line(error.format_message())} See: {path} --help", error.exit_code)
        except click.ClickException as error:
            _fail(f"{name}: {_line(error.format_message())}", error.exit_code)
        except click.Abort:
            sys.exit(EXIT_INTERRUPTED)
        except Exception as error:
            if os.environ.get(DEBUG) == "1":
                raise
            _fail(
                f"{name}: this is a bug: {type(error).__name__}: {_line(error)}"
                f" ({DEBUG}=1 shows where)",
                EXIT_BUG,
            )
        sys.exit(code if isinstance(code, int) else 0)


def _spelled(ctx: click.Context) -> str:
    return " ".join(filter(None, (ctx.command_path, ctx.invoked_subcommand)))


def _line(message: object) -> str:
    return " ".join(str(message).split())


def _fail(message: str, code: int) -> NoReturn:
    click.echo(message, err=True)
    sys.exit(code)


def _give_up_output() -> None:
    """Point standard output at nothing, so that the flush at exit has nobody to complain to."""
    try:
        target = sys.stdout.fileno()
    except (OSError, ValueError):  # a test's buffer, which nobody flushes at exit
        return
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, target)
    os.close(nothing)


@click.command("turnavoid", cls=Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="otel-turnavoid", prog_name="turnavoid")
def main() -> None:
    """Whole model turns that disappeared, counted only where proven.

    Compares candidate runs of a tool-using agent with control runs of the same input, and
    credits a turn as avoided only if an independent observer saw the same required effects.
    """
