"""What cannot be a ledger is refused in one clear line."""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from otel_turnavoid.errors import LedgerError
from otel_turnavoid.judge.facts import Observation
from otel_turnavoid.store import Ledger, engine, schema
from otel_turnavoid.store.engine import Database


def refusal(url: str, *, create: bool = True) -> str:
    with pytest.raises(LedgerError) as caught:
        Ledger.open(url, create=create)
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("url", "line"),
    [
        (
            "turnavoid.db",
            "'turnavoid.db' is not a ledger URL; give one such as sqlite:///turnavoid.db",
        ),
        ("", "'' is not a ledger URL; give one such as sqlite:///turnavoid.db"),
        (
            "postgresql://db:port/x",
            "'postgresql://db:port/x' is not a ledger URL; give one such as sqlite:///turnavoid.db",
        ),
        ("mysql://db/ledger", "mysql is not supported; use sqlite or postgresql+psycopg"),
        ("duckdb:///x.db", "duckdb is not supported; use sqlite or postgresql+psycopg"),
        (
            "sqlite+aiosqlite:///x.db",
            "sqlite+aiosqlite is not supported; use sqlite or postgresql+psycopg",
        ),
        ("sqlite://", "sqlite://: a ledger must be a file, such as sqlite:///turnavoid.db"),
        (
            "sqlite:///:memory:",
            "sqlite:///:memory:: a ledger must be a file, such as sqlite:///turnavoid.db",
        ),
        (
            "sqlite:///x.db?mode=ro",
            "sqlite:///x.db?mode=ro: a SQLite ledger takes no options after '?'",
        ),
    ],
)
def test_a_url_that_names_no_ledger_is_refused(url: str, line: str) -> None:
    assert refusal(url) == line


def test_a_sqlite_url_with_a_host_is_refused() -> None:
    assert refusal("sqlite://host/x.db").startswith("sqlite://host/x.db: Invalid SQLite URL")


def test_a_missing_file_is_refused_where_none_may_be_made(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'none.db'}"

    assert refusal(url, create=False) == f"{url}: there is no such ledger"
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'none' / 'ledger.db'}"

    assert refusal(url) == f"{url}: the folder {tmp_path / 'none'} does not exist"


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("not a database, but long enough to be taken for the header of one\n" * 9)

    assert refusal(f"sqlite:///{file}") == f"sqlite:///{file}: file is not a database"


def test_a_folder_is_refused(tmp_path: Path) -> None:
    assert refusal(f"sqlite:///{tmp_path}") == f"sqlite:///{tmp_path}: unable to open database file"


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anything"
)
def test_a_ledger_that_cannot_be_written_can_still_be_read(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    Ledger.open(f"sqlite:///{file}").close()
    file.chmod(0o400)
    seen = Observation(run_id="r", observer="o", labels=(), observed_ns=1)

    with Ledger.open(f"sqlite:///{file}", create=False) as ledger:
        assert list(ledger.runs()) == []
        with pytest.raises(LedgerError) as caught:
            ledger.add([], [seen], arrived_ns=1)

    assert str(caught.value) == f"sqlite:///{file}: attempt to write a readonly database"


def test_what_is_read_while_the_ledger_is_closed_leaves_no_connection_behind(
    tmp_path: Path,
) -> None:
    """SQLite removes its log when the last connection is closed."""
    file = tmp_path / "ledger.db"
    ledger = Ledger.open(f"sqlite:///{file}")
    with ledger._database.read() as connection:
        ledger.close()
        assert Path(f"{file}-wal").exists()
        assert connection.scalar(select(schema.ledger.c.id)) == 1

    assert [each.name for each in tmp_path.iterdir()] == ["ledger.db"]


def test_somebody_elses_database_is_no_ledger_to_read_and_stays_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "shop.db"
    with closing(sqlite3.connect(file)) as shop:
        shop.execute("CREATE TABLE orders (id INTEGER)")

    said = refusal(f"sqlite:///{file}", create=False)

    assert said == f"sqlite:///{file}: there is no ledger in this database"
    with closing(sqlite3.connect(file)) as shop:
        tables = shop.execute("SELECT name FROM sqlite_master").fetchall()
    assert tables == [("orders",)]


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://turnavoid:hunter2@localhost:1/ledger",
        "postgresql://turnavoid:hunter2@db:port/ledger",
        "postgresql:/turnavoid:hunter2@db/ledger",
        "mysql://turnavoid:hunter2@db/ledger",
    ],
)
def test_no_refusal_shows_a_password(url: str) -> None:
    assert "hunter2" not in refusal(url)


def test_the_name_of_a_ledger_shows_no_password() -> None:
    pytest.importorskip("psycopg", reason="PostgreSQL needs psycopg")

    database = Database("postgresql://turnavoid:hunter2@db/ledger", create=False)

    assert database.name == "postgresql+psycopg://turnavoid:***@db/ledger"


def test_a_failure_within_a_transaction_undoes_all_of_it(url: str) -> None:
    Ledger.open(url).close()
    database = Database(url, create=False)

    def half_way() -> None:
        with database.write() as connection:
            connection.exec_driver_sql("DELETE FROM turnavoid_ledger")
            connection.exec_driver_sql("DELETE FROM nowhere")

    with pytest.raises(
        LedgerError, match=r"no such table: nowhere|relation .nowhere. does not exist"
    ):
        half_way()

    with database.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM turnavoid_ledger").scalar() == 1
    database.close()


def test_an_error_that_is_not_the_databases_keeps_its_kind(url: str) -> None:
    database = Database(url, create=True)

    with pytest.raises(ZeroDivisionError), database.write():
        raise ZeroDivisionError

    database.close()


def test_who_finds_a_new_file_being_made_by_another_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite answers at once here, instead of waiting as it does elsewhere."""
    waited: list[float] = []
    with closing(sqlite3.connect(tmp_path / "l.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")

        def sleep(seconds: float) -> None:
            waited.append(seconds)
            other.rollback()

        monkeypatch.setattr(engine.time, "sleep", sleep)
        Ledger.open(f"sqlite:///{tmp_path / 'l.db'}").close()

    assert waited == [0.01]


def test_many_who_open_a_new_ledger_at_once_share_it(url: str) -> None:
    births, errors = [], []
    barrier = threading.Barrier(8)

    def open_it() -> None:
        barrier.wait()
        try:
            with Ledger.open(url) as ledger:
                births.append(ledger.birth_ns)
        except (LedgerError, SQLAlchemyError) as error:
            errors.append(str(error))

    threads = [threading.Thread(target=open_it) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    assert len(births) == 8
    assert len(set(births)) == 1
