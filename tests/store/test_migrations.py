"""A ledger has one schema version, and is never between two."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, inspect

from otel_turnavoid.errors import LedgerError
from otel_turnavoid.otlp import Batch
from otel_turnavoid.store import Ledger, migrations


def rows(file: Path, query: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(file)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


def test_a_new_ledger_records_every_step(file: Path) -> None:
    Ledger.open(f"sqlite:///{file}").close()

    assert rows(file, "SELECT version, name FROM turnavoid_migrations") == [
        (version, name) for version, (name, _) in enumerate(migrations.STEPS, start=1)
    ]


def test_opening_again_applies_nothing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Ledger.open(f"sqlite:///{file}").close()

    def refuse(_: Connection) -> None:
        pytest.fail("a step was applied twice")

    again = tuple((name, refuse) for name, _ in migrations.STEPS)
    monkeypatch.setattr(migrations, "STEPS", again)

    Ledger.open(f"sqlite:///{file}").close()


def test_opening_again_keeps_the_birth(file: Path) -> None:
    with Ledger.open(f"sqlite:///{file}") as ledger:
        born_ns = ledger.birth_ns

    with Ledger.open(f"sqlite:///{file}") as ledger:
        assert ledger.birth_ns == born_ns


def test_an_older_ledger_gets_only_the_new_steps(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Ledger.open(f"sqlite:///{file}").close()

    def add_notes(connection: Connection) -> None:
        connection.exec_driver_sql("CREATE TABLE notes (text TEXT)")

    monkeypatch.setattr(migrations, "STEPS", (*migrations.STEPS, ("add notes", add_notes)))
    Ledger.open(f"sqlite:///{file}").close()

    assert rows(file, "SELECT name FROM turnavoid_migrations ORDER BY version")[-1:] == [
        ("add notes",)
    ]
    assert rows(file, "SELECT count(*) FROM notes") == [(0,)]


def test_a_step_that_fails_leaves_the_ledger_as_it_was(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Ledger.open(f"sqlite:///{file}").close()
    before = rows(file, "SELECT name FROM sqlite_master ORDER BY name")

    def break_off(connection: Connection) -> None:
        connection.exec_driver_sql("CREATE TABLE notes (text TEXT)")
        connection.exec_driver_sql("INSERT INTO nowhere VALUES (1)")

    monkeypatch.setattr(migrations, "STEPS", (*migrations.STEPS, ("break off", break_off)))
    with pytest.raises(LedgerError, match="no such table: nowhere"):
        Ledger.open(f"sqlite:///{file}")

    assert rows(file, "SELECT name FROM sqlite_master ORDER BY name") == before
    assert len(rows(file, "SELECT * FROM turnavoid_migrations")) == len(migrations.STEPS) - 1


def test_a_ledger_of_a_newer_program_is_refused_and_stays_as_it_is(file: Path) -> None:
    url = f"sqlite:///{file}"
    Ledger.open(url).close()
    connection = sqlite3.connect(file)
    with connection:
        connection.execute("INSERT INTO turnavoid_migrations VALUES (9, 'from the future')")
    connection.close()

    with pytest.raises(LedgerError) as caught:
        Ledger.open(url)

    assert str(caught.value) == (
        f"{url}: the ledger has schema version 9, this program knows {len(migrations.STEPS)}:"
        " it was written by a newer version; upgrade otel-turnavoid"
    )
    assert rows(file, "SELECT max(version) FROM turnavoid_migrations") == [(9,)]


VERSION_1 = """
DROP INDEX turnavoid_decisions_share;
DROP INDEX turnavoid_runs_standing;
CREATE INDEX turnavoid_runs_open ON turnavoid_runs (settled, arrived_ns);
ALTER TABLE turnavoid_decisions DROP COLUMN share;
ALTER TABLE turnavoid_decisions DROP COLUMN contradicted_share;
ALTER TABLE turnavoid_ledger DROP COLUMN pruned_ns;
DROP TABLE turnavoid_shares;
DELETE FROM turnavoid_migrations WHERE version > 1
"""
"""Makes a ledger what the first version made it."""


def test_a_ledger_of_the_first_version_goes_on_with_everything_in_its_first_share(
    bench: Any, run: Callable[..., Batch], seen: Callable[..., Batch]
) -> None:
    bench.add(run("c"), run("k", "exact-reuse", turns=2), seen("c"), seen("k"), at=0)
    bench.decide(10)
    journal = bench.journal()
    with bench.ledger._database.write() as connection:
        for statement in VERSION_1.split(";"):
            connection.exec_driver_sql(statement)

    bench.reopen()

    assert bench.journal() == journal
    assert list(bench.ledger.decisions(share=1)) == list(bench.ledger.decisions())
    bench.add(run("c2", task=2), run("k2", "exact-reuse", task=2), at=20)
    bench.decide(100_000)
    assert len(bench.journal()) > len(journal)


def test_a_ledger_of_the_first_version_ends_up_as_a_new_one(bench: Any) -> None:
    def described() -> dict[str, Any]:
        with bench.ledger._database.read() as connection:
            found = inspect(connection)
            return {
                table: (
                    {(each["name"], str(each["type"])) for each in found.get_columns(table)},
                    {(each["name"], *each["column_names"]) for each in found.get_indexes(table)},
                )
                for table in found.get_table_names()
            }

    new = described()
    with bench.ledger._database.write() as connection:
        for statement in VERSION_1.split(";"):
            connection.exec_driver_sql(statement)

    bench.reopen()

    assert described() == new
