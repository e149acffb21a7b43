"""Statements that are made once: any number of values and rows, alike in every database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, bindparam, delete, select, update

from otel_turnavoid.store import Ledger, schema
from otel_turnavoid.store.paging import PAGE
from otel_turnavoid.store.statements import Insert, Lookup

keys = schema.keys.c
pending = schema.pending.c

SAY = Insert(
    schema.keys,
    lambda insert: insert.on_conflict_do_update(
        index_elements=["pair_key"], set_={"due_ns": insert.excluded.due_ns}
    ),
)
KEEP = Insert(schema.keys, lambda insert: insert.on_conflict_do_nothing())
PEND = Insert(schema.pending, lambda insert: insert.on_conflict_do_nothing())
WRITE = Insert(
    schema.decisions,
    lambda insert: insert.on_conflict_do_nothing(index_elements=["reference"]),
    without=("id", "contradicted_ns", "contradiction", "contradicted_share"),
)
DUE = Lookup(lambda among: select(keys.pair_key, keys.due_ns).where(among(keys.pair_key)))

MANY = (0, 1, 2, 3, 63, 64, 65, 127, PAGE, PAGE + 1, 2 * PAGE + 1)


@pytest.fixture
def connection(url: str) -> Iterator[Connection]:
    with Ledger.open(url) as ledger, ledger._database.write() as connection:
        yield connection


def rows(count: int) -> list[dict[str, object]]:
    return [{"pair_key": f"key-{number:04}", "due_ns": number} for number in range(count)]


def stored(connection: Connection) -> list[tuple[object, ...]]:
    found = connection.execute(select(keys.pair_key, keys.due_ns).order_by(keys.pair_key))
    return [tuple(row) for row in found]


@pytest.mark.parametrize("count", MANY)
def test_any_number_of_rows_is_inserted(connection: Connection, count: int) -> None:
    assert SAY(connection, rows(count)) == count

    assert stored(connection) == [(row["pair_key"], row["due_ns"]) for row in rows(count)]


@pytest.mark.parametrize("count", MANY)
def test_rows_of_any_number_of_values_are_found(connection: Connection, count: int) -> None:
    SAY(connection, rows(count + 5))
    wanted = [str(row["pair_key"]) for row in rows(count)]

    found = DUE.rows(connection, [*wanted, "key-unknown"])

    assert sorted(tuple(row) for row in found) == stored(connection)[:count]


def test_a_row_that_is_wanted_twice_is_found_once(connection: Connection) -> None:
    SAY(connection, rows(3))

    assert DUE.scalars(connection, ["key-0001", "key-0001"]) == ["key-0001"]


def test_where_nothing_is_wanted_nothing_is_asked(connection: Connection) -> None:
    SAY(connection, rows(3))

    assert DUE.rows(connection, []) == []


@pytest.mark.parametrize("known", [1, 64, 65, 200])
def test_only_rows_that_are_new_are_counted(connection: Connection, known: int) -> None:
    KEEP(connection, rows(known))

    assert KEEP(connection, rows(200)) == 200 - known


def test_of_rows_in_conflict_the_last_one_written_is_kept_where_the_statement_says_so(
    connection: Connection,
) -> None:
    SAY(connection, rows(70))

    SAY(connection, [{**row, "due_ns": -1} for row in rows(70)])

    assert {due_ns for _, due_ns in stored(connection)} == {-1}


@pytest.mark.parametrize("due", [(None, None), (1, None), (1, 2**62), (0, -(2**62))])
def test_values_come_back_as_they_went_in(
    connection: Connection, due: tuple[int | None, int | None]
) -> None:
    first, second = due

    SAY(connection, [{"pair_key": "a", "due_ns": first}, {"pair_key": "b", "due_ns": second}])

    assert stored(connection) == [("a", first), ("b", second)]


@pytest.mark.parametrize(
    "name", ["", "%(listed)s", ")s::", "é\U0001f600", "a\"b\\c'd{e},NULL", "NULL", "x" * 4000]
)
def test_text_is_found_whatever_it_holds(connection: Connection, name: str) -> None:
    SAY(connection, [{"pair_key": name, "due_ns": 1}, {"pair_key": "other", "due_ns": 2}])

    assert DUE.rows(connection, [name]) == [(name, 1)]


def test_text_that_is_longer_than_its_column_is_not_cut_to_something_else(
    connection: Connection,
) -> None:
    PEND(connection, [{"kind": "trace", "id": "a", "arrived_ns": 1}])
    of_kind = Lookup(lambda among: select(pending.id).where(among(pending.kind)))

    assert of_kind.scalars(connection, ["trace-or-other"]) == []


def test_other_values_are_given_by_name(connection: Connection) -> None:
    PEND(connection, [{"kind": kind, "id": "a", "arrived_ns": 1} for kind in ("run", "trace")])
    of_kind = Lookup(
        lambda among: select(pending.kind).where(
            pending.kind == bindparam("kind"), among(pending.id), pending.arrived_ns < 2
        )
    )

    assert of_kind.scalars(connection, ["a", "b"], kind="trace") == ["trace"]


@pytest.mark.parametrize("count", MANY)
def test_what_is_found_is_changed_and_counted(connection: Connection, count: int) -> None:
    SAY(connection, rows(count + 1))
    change = Lookup(
        lambda among: (
            update(schema.keys).where(among(keys.pair_key)).values(due_ns=bindparam("at_ns"))
        )
    )

    changed = change.execute(connection, (str(row["pair_key"]) for row in rows(count)), at_ns=-1)

    assert changed == count
    assert [due_ns for _, due_ns in stored(connection)] == [-1] * count + [count]


def test_what_is_found_is_removed(connection: Connection) -> None:
    SAY(connection, rows(PAGE + 2))
    remove = Lookup(lambda among: delete(schema.keys).where(among(keys.pair_key)))

    remove.execute(connection, [str(row["pair_key"]) for row in rows(PAGE + 1)])

    assert stored(connection) == [(f"key-{PAGE + 1:04}", PAGE + 1)]


def test_rows_are_numbered_in_the_order_in_which_they_are_given(connection: Connection) -> None:
    references = [f"{number * 7919 % 1000:03}" for number in range(1000)]

    WRITE(
        connection,
        [
            {
                "reference": reference,
                "kind": "run",
                "pair_key": None,
                "first_run": "a",
                "second_run": None,
                "decided_ns": 1,
                "body": b"\x00\xff",
                "share": 1,
            }
            for reference in references
        ],
    )

    journal = select(schema.decisions.c.reference).order_by(schema.decisions.c.id)
    assert list(connection.scalars(journal)) == references
