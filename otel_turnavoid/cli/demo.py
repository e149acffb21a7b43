"""``turnavoid demo``: the whole job once on this machine, proven against its own script."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import click

if TYPE_CHECKING:
    import subprocess

    from otel_turnavoid.demo.figures import Figures
    from otel_turnavoid.demo.stage import Stage

DEFAULT_FOLDER: Final = Path("turnavoid-demo")
EXIT_WRONG_FIGURES: Final = 1
EXIT_TERMINATED: Final = 143


@click.command
@click.pass_context
@click.option("--keep", is_flag=True, help="Leave the processor running until Ctrl-C.")
@click.option(
    "--dir",
    "parent",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    default=DEFAULT_FOLDER,
    show_default=True,
    help="Where to put ledger, shops and logs, in a fresh numbered folder.",
)
def command(ctx: click.Context, parent: Path, *, keep: bool) -> None:
    """Run the whole job once on this machine and show every account.

    Starts the processor on a fresh ledger, lets scripted control and candidate agents serve
    six customers of a small shop over real OTLP, has an independent observer look at the
    shop's database, and prints what was decided. Exit code 1 if the figures are not those
    that the script implies.
    """
    from otel_turnavoid.demo import stage
    from otel_turnavoid.demo.figures import faults

    before = signal.signal(signal.SIGTERM, _terminated)
    ctx.call_on_close(lambda: signal.signal(signal.SIGTERM, before))
    built = stage.Stage.build(parent)
    click.echo(_opening(built))
    started = time.monotonic()
    with stage.processor(built) as running:
        stage.agents(built)
        stage.observer(built)
        figures = stage.verdicts(built)
        wrong = faults(figures) or stage.published_faults(built, figures)
        if not wrong:
            click.echo(_figures(figures))
            click.echo(_closing(built, time.monotonic() - started))
            if keep:
                _wait(built, running)
    if wrong:
        for fault in wrong:
            click.echo(f"turnavoid demo: {fault}", err=True)
        click.echo(f"turnavoid demo: wrong figures; see {built.folder}", err=True)
        sys.exit(EXIT_WRONG_FIGURES)


def _opening(stage: Stage) -> str:
    from otel_turnavoid.demo.scenario import CANDIDATES, CONTROLS, TASKS

    return (
        f"turnavoid demo: {len(TASKS)} customers, {len(CONTROLS)} control runs,"
        f" {len(CANDIDATES)} candidate runs, 1 observer\n"
        f"  processor  {stage.endpoint} (OTLP/gRPC), ledger {_short(stage.folder)}/ledger.db\n"
        "  agents     control, exact-reuse, fused-batch: a process each, every run with a shop"
        " of its own\n"
        "  observer   a process with an identity of its own; reads the shops, never asks agents"
    )


def _figures(figures: Figures) -> str:
    from otel_turnavoid.demo import playbill

    return "\n".join(
        (
            "\nVerdicts (control -> candidate)\n",
            *playbill.pairs(figures),
            "\nAccounts\n",
            playbill.arms(),
            *playbill.turns(figures),
            "\nApart from turns: never added to them, nor to each other\n",
            playbill.arms(),
            *playbill.apart(figures),
        )
    )


def _closing(stage: Stage, seconds: float) -> str:
    program, ledger = _program(), f"--ledger sqlite:///{_short(stage.folder)}/ledger.db"
    return (
        f"\nAll figures are those that the script implies, in the ledger and as Prometheus scrapes"
        f" them ({seconds:.1f} s).\nWhere to look:\n\n"
        f"  {program} pairs {ledger} --null\n"
        f"  {program} runs {ledger}\n"
        f"  {program} report {ledger}\n"
        f"  {program} demo --keep: the same in a browser\n"
        f"  {_short(stage.folder)}: configuration, shops and logs"
    )


def _wait(stage: Stage, running: subprocess.Popen[bytes]) -> None:
    click.echo(
        f"\nThe processor keeps running (Ctrl-C ends it):\n\n"
        f"  {stage.pages_url:<30} every pair, what was withheld, and why\n"
        f"  {stage.metrics_url:<30} what Prometheus would scrape"
    )
    try:
        running.wait()
    except KeyboardInterrupt:
        click.echo()


def _program() -> str:
    """Return how one would call turnavoid here: by name, or where it is installed."""
    installed = Path(sys.executable).with_name("turnavoid")
    found = shutil.which("turnavoid")
    if not installed.exists() or (found and Path(found).samefile(installed)):
        return "turnavoid"
    return _short(installed)


def _short(folder: Path) -> str:
    """Return a folder as one would type it here."""
    relative = os.path.relpath(folder)
    return str(folder) if relative.startswith("..") else relative


def _terminated(*_: object) -> NoReturn:
    """Leave through the context managers that end the child processes."""
    sys.exit(EXIT_TERMINATED)
