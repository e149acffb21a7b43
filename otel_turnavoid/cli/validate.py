"""``turnavoid validate``: everything that is wrong with a configuration, without starting it."""

from __future__ import annotations

from pathlib import Path

import click

from otel_turnavoid.cli.main import EXIT_BAD_INPUT
from otel_turnavoid.cli.source import config_option, ledger_option


@click.command
@config_option
@ledger_option
def command(config_path: Path | None, ledger_url: str | None) -> int:
    """Check a configuration and say everything that is wrong with it.

    Each problem is a line on standard error that names its key: unknown keys and values,
    components that are not connected, environment variables that are not set, certificates,
    tokens and folders that are not there. What depends on something that is wrong itself is
    checked once that is right. Nothing is started, written, listened on or connected to. Exit
    code 0: collect can start with it, as far as can be told; 2: it cannot.
    """
    from otel_turnavoid.collector.validating import problems

    found = problems(config_path, ledger_url=ledger_url)
    for problem in found:
        click.echo(f"turnavoid validate: {problem}", err=True)
    return EXIT_BAD_INPUT if found else 0
