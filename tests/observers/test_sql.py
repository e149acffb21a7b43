"""Rows as things: real SQLite databases, read and never changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Connection

from otel_turnavoid.errors import InputError
from otel_turnavoid.observers import Thing, labels
from otel_turnavoid.observers import sql as sql_module
from otel_turnavoid.observers.sql import SqlSource

ORDERS = "SELECT id, status FROM orders"


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "shop.db", isolation_level=None)) as database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, status TEXT)")
        database.execute("INSERT INTO orders VALUES (41, 'open'), (42, 'open'), (43, 'open')")
        database.execute("CREATE TABLE mails (recipient TEXT)")
        yield database


@pytest.fixture
def url(tmp_path: Path, shop: sqlite3.Connection) -> str:
    return f"sqlite:///{tmp_path / 'shop.db'}"


def test_changes_of_rows_become_labels(url: str, shop: sqlite3.Connection) -> None:
    source = SqlSource(
        url,
        [ORDERS, "SELECT recipient FROM mails"],
        ["order:{id}={status}", "mail:{recipient}"],
        ["order:{id}=deleted", "mail:{recipient}=deleted"],
    )
    before = source.look()

    shop.execute("UPDATE orders SET status = 'cancelled' WHERE id = 42")
    shop.execute("DELETE FROM orders WHERE id = 43")
    shop.execute("INSERT INTO mails VALUES ('a@b.example'), ('a@b.example')")

    assert sorted(labels(before, source.look()).elements()) == [
        "mail:a@b.example",
        "mail:a@b.example",
        "order:42=cancelled",
        "order:43=deleted",
    ]


def test_without_a_template_a_label_holds_the_table_and_every_column(url: str) -> None:
    look = SqlSource(url, [f"{ORDERS} WHERE id = 41"]).look()

    assert look.things == (Thing("orders:id=41,status=open"),)


def test_without_one_table_a_label_holds_the_columns(url: str) -> None:
    joined = "SELECT o.id AS id, recipient FROM orders o LEFT JOIN mails WHERE o.id = 41"

    assert SqlSource(url, [joined]).look().things == (Thing("row:id=41,recipient=null"),)


def test_runs_with_databases_of_their_own_are_compared(url: str, tmp_path: Path) -> None:
    (tmp_path / "copy.db").write_bytes((tmp_path / "shop.db").read_bytes())
    copy = SqlSource(f"sqlite:///{tmp_path / 'copy.db'}", [ORDERS])

    assert not labels(SqlSource(url, [ORDERS]).look(), copy.look())


def test_a_colon_in_a_query_is_no_parameter(url: str) -> None:
    look = SqlSource(url, ["SELECT 'a:b' AS a"], ["{a}"]).look()

    assert look.things == (Thing("a:b"),)


@pytest.mark.parametrize(
    ("queries", "templates", "problem"),
    [
        ([ORDERS], ["order:{nr}"], "names 'nr'; the query returns id, status"),
        (["SELECT nr FROM orders"], [], "no such column: nr"),
        (["DELETE FROM orders"], [], "attempt to write a readonly database"),
        (["SELECT 1 AS a, 2 AS a"], [], "two columns are named 'a'; name them apart with AS"),
        (["SELECT count(*) FROM orders"], [], r"column 'count\(\*\)' needs a plain name"),
        ([ORDERS], ["a", "b"], "one label template for each query: got 2 for 1"),
    ],
)
def test_a_look_that_cannot_be_taken_says_why_in_one_line(
    url: str, queries: list[str], templates: list[str], problem: str
) -> None:
    with pytest.raises(InputError, match=problem) as refusal:
        SqlSource(url, queries, templates).look()

    assert "\n" not in str(refusal.value)


def test_looking_changes_nothing(url: str, shop: sqlite3.Connection) -> None:
    with pytest.raises(InputError):
        SqlSource(url, ["UPDATE orders SET status = 'x' RETURNING id"]).look()

    assert shop.execute("SELECT DISTINCT status FROM orders").fetchall() == [("open",)]


def test_all_queries_see_one_moment(
    url: str, shop: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.execute("PRAGMA journal_mode=WAL")
    ask = SqlSource._ask

    def meanwhile(source: SqlSource, connection: Connection, index: int) -> list[Thing]:
        rows = ask(source, connection, index)
        shop.execute("INSERT INTO orders VALUES (NULL, 'late')")
        return rows

    monkeypatch.setattr(SqlSource, "_ask", meanwhile)

    first, second = SqlSource(url, ["SELECT count(*) AS n FROM orders"] * 2).look().things

    assert first == second == Thing("orders:n=3")


def test_a_misspelled_database_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unable to open database file"):
        SqlSource(f"sqlite:///{tmp_path / 'none.db'}", [ORDERS]).look()

    assert not (tmp_path / "none.db").exists()


def test_too_many_rows_are_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_module, "MOST_ROWS", 2)

    with pytest.raises(InputError, match="more than 2 rows; ask for what the task can change"):
        SqlSource(url, [ORDERS]).look()


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://shop:geheim@localhost:1/shop",
        "mysql+nodriver://shop:geheim@localhost:1/shop",
        "nodialect://shop:geheim@localhost/shop",
        "shop:geheim@localhost",
    ],
)
def test_a_password_is_never_shown(url: str) -> None:
    with pytest.raises(InputError) as refusal:
        SqlSource(url, [ORDERS]).look()

    assert "geheim" not in str(refusal.value)
    assert "\n" not in str(refusal.value)
