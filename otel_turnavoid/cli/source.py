"""Which ledger and which configuration a command uses.

A ledger is named, in this order, by ``--ledger``, the environment variable
``TURNAVOID_LEDGER``, the configuration's ``extensions.ledger.url``, and the default.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from otel_turnavoid.vocabulary import Env

if TYPE_CHECKING:
    from otel_turnavoid.store import Ledger

ENVIRONMENT: Final = Env.LEDGER

ledger_option = click.option(
    "--ledger",
    "ledger_url",
    metavar="URL",
    envvar=ENVIRONMENT,
    help=f"Ledger, as a database URL.  [env: {ENVIRONMENT}; default: sqlite:///turnavoid.db]",
)
"""``--ledger URL``; None where neither the option nor the environment names one."""

config_option = click.option(
    "--config",
    "config_path",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Configuration file (YAML), the same as for collect.",
)
"""``--config FILE``."""


def open_ledger(url: str | None, *, create: bool = False) -> Ledger:
    """Open the ledger that a command was given.

    Args:
        url: What the command line, environment or configuration names; None is the default.
        create: Make the ledger where there is none; commands that only read do not.

    Raises:
        LedgerError: There is no such ledger, or it cannot be used.
    """
    from otel_turnavoid.store import DEFAULT_URL, Ledger

    return Ledger.open(url or DEFAULT_URL, create=create)
