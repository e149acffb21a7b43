"""Named, ordered steps that bring a ledger to the present schema.

Each step is recorded in the transaction that makes it, so a ledger is never half migrated.
Append steps; never change one that was released.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sqlalchemy import Connection, Table, insert, inspect, select
from sqlalchemy.schema import CreateColumn

from otel_turnavoid.errors import LedgerError
from otel_turnavoid.store import schema

Step = tuple[str, Callable[[Connection], None]]


def _create(connection: Connection) -> None:
    """Make what is missing of the present schema: in a new ledger, later steps find all done."""
    schema.metadata.create_all(connection)


def _share_and_prune(connection: Connection) -> None:
    _create(connection)
    for table, name in (
        (schema.ledger, "pruned_ns"),
        (schema.decisions, "share"),
        (schema.decisions, "contradicted_share"),
    ):
        _add_column(connection, table, name)
    connection.exec_driver_sql("DROP INDEX IF EXISTS turnavoid_runs_open")
    for table in (schema.runs, schema.decisions):
        for index in table.indexes:
            index.create(connection, checkfirst=True)


def _add_column(connection: Connection, table: Table, name: str) -> None:
    known = {column["name"] for column in inspect(connection).get_columns(table.name)}
    if name not in known:
        column = CreateColumn(table.c[name]).compile(dialect=connection.dialect)
        connection.exec_driver_sql(f"ALTER TABLE {table.name} ADD COLUMN {column}")


STEPS: Final[tuple[Step, ...]] = (
    ("create the tables", _create),
    ("share the journal between processors, and prune", _share_and_prune),
    ("keep totals", _create),
    ("remember what was announced", _create),
)
"""Version 1 is the first step, and so on."""


def migrate(connection: Connection, name: str, *, create: bool) -> None:
    """Apply the steps that this ledger has not seen; the caller commits.

    Args:
        connection: In a writing transaction.
        name: What errors call the ledger.
        create: Make a ledger of a database that is none yet.

    Raises:
        LedgerError: The database is no ledger, or one of a newer program.
    """
    applied: set[int] = set()
    if inspect(connection).has_table(schema.migrations.name):
        applied = set(connection.scalars(select(schema.migrations.c.version)))
    if not applied and not create:
        raise LedgerError(f"{name}: there is no ledger in this database")
    newest = max(applied, default=0)
    if newest > len(STEPS):
        raise LedgerError(
            f"{name}: the ledger has schema version {newest}, this program knows {len(STEPS)}: "
            "it was written by a newer version; upgrade otel-turnavoid"
        )
    for version, (title, step) in enumerate(STEPS, start=1):
        if version not in applied:
            step(connection)
            connection.execute(insert(schema.migrations).values(version=version, name=title))
