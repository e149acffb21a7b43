"""Statements that are compiled once for each database and go to its driver as they are.

SQLAlchemy makes their SQL. What it does anew for every execution and every row would cost more
than the database itself where ten thousand rows a second go in, so here it is not asked again.
Values are those that drivers take and give: str, int, bytes, None; truth may come back as 0 or 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    CursorResult,
    String,
    Table,
    Text,
    any_,
    bindparam,
    func,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite

from otel_turnavoid.store.paging import PAGE, chunks

Among = Callable[[ColumnElement[Any]], ColumnElement[bool]]
"""Makes the condition that a column has one of the values that a ``Lookup`` is called with."""

_LISTED: Final = "listed"
_SIZES: Final = (1, 4, 16, 64, PAGE)
"""How many values a condition of SQLite may list: few statements are kept ready, not hundreds."""
_ROWS: Final = (64, 32, 16, 8, 4, 2, 1)
"""How many rows go into SQLite together: no more than it takes values in one statement."""


class _Ready(NamedTuple):
    """The SQL of a statement, and what it is executed with."""

    sql: str
    places: tuple[str, ...]
    """Names of values in the order of the SQL, where the driver counts places."""
    values: dict[str, Any]
    """Those that never change."""


class Lookup:
    """A statement about the rows in which a column has one of some values, however many."""

    def __init__(self, make: Callable[[Among], Any]) -> None:
        """Prepare; the statement may also have ``bindparam``s, which are given by name.

        Args:
            make: Returns the statement; called once for each database and size of list.
        """
        self._make = make
        self._ready: dict[tuple[str, int], _Ready] = {}

    def rows(self, connection: Connection, values: Iterable[str], **given: object) -> list[Any]:
        """Return everything that is found."""
        found: list[Any] = []
        for result in self._results(connection, values, given):
            found.extend(result.all())
        return found

    def scalars(self, connection: Connection, values: Iterable[str], **given: object) -> list[Any]:
        """Return the first column of everything that is found."""
        return [row[0] for row in self.rows(connection, values, **given)]

    def execute(self, connection: Connection, values: Iterable[str], **given: object) -> int:
        """Change what is found; return how many rows that were."""
        return sum(result.rowcount for result in self._results(connection, values, given))

    def _results(
        self, connection: Connection, values: Iterable[str], given: Mapping[str, object]
    ) -> Iterator[CursorResult[Any]]:
        if connection.dialect.name != "sqlite":
            for page in chunks(values):
                ready = self._prepared(connection, 0)
                known = {**ready.values, **given, _LISTED: page}
                yield connection.exec_driver_sql(ready.sql, known)
            return
        for page in chunks(values):
            size = next(size for size in _SIZES if size >= len(page))
            listed = [*page, *page[-1:] * (size - len(page))]
            ready = self._prepared(connection, size)
            known = {**ready.values, **given}
            placed: list[object] = []
            for name in ready.places:
                if name == _LISTED:
                    placed += listed
                else:
                    placed.append(known[name])
            yield connection.exec_driver_sql(ready.sql, tuple(placed))

    def _prepared(self, connection: Connection, size: int) -> _Ready:
        key = connection.dialect.name, size
        ready = self._ready.get(key)
        if ready is None:
            ready = self._ready[key] = self._compiled(connection, size)
        return ready

    def _compiled(self, connection: Connection, size: int) -> _Ready:
        marks = [f"{_LISTED}_{number}" for number in range(size)]

        def among(column: ColumnElement[Any]) -> ColumnElement[bool]:
            if size:
                return column.in_([bindparam(mark, type_=column.type) for mark in marks])
            return column == any_(bindparam(_LISTED, type_=_array(column)))

        made = self._make(among).compile(dialect=connection.dialect)
        left_out = {_LISTED, *marks}
        values = {name: value for name, value in made.params.items() if name not in left_out}
        # Of the list, which is whole and in order wherever it stands, the first place is enough.
        places = [_LISTED if name in marks[:1] else name for name in made.positiontup or ()]
        return _Ready(str(made), tuple(name for name in places if name not in marks), values)


class Insert:
    """Rows into one table, any number at once."""

    def __init__(
        self, table: Table, conflict: Callable[[Any], Any], *, without: Iterable[str] = ()
    ) -> None:
        """Prepare.

        Args:
            table: Where rows go.
            conflict: Adds an ON CONFLICT to the statement; called once for each database.
            without: Columns that get their default.
        """
        self._table = table
        self._conflict = conflict
        left_out = set(without)
        self._columns = [column for column in table.columns if column.name not in left_out]
        self._values = itemgetter(*(column.name for column in self._columns))
        self._sql: dict[tuple[str, int], str] = {}

    def __call__(self, connection: Connection, rows: Iterable[Mapping[str, Any]]) -> int:
        """Insert rows, given by names of columns; return how many were inserted or changed.

        Where the conflict changes rows, no two of these may be in conflict with each other.
        """
        placed = [self._values(row) for row in rows]
        if not placed:
            return 0
        if connection.dialect.name == "sqlite":
            return self._in_groups(connection, placed)
        arrays = {
            column.name: [values[place] for values in placed]
            for place, column in enumerate(self._columns)
        }
        return connection.exec_driver_sql(self._prepared(connection, 0), arrays).rowcount

    def _in_groups(self, connection: Connection, placed: Sequence[tuple[Any, ...]]) -> int:
        """Insert some rows with each statement, and not one.

        For every step of a statement the driver lets other threads run, and may have to wait
        for one that has much to compute before it can go on.
        """
        changed = start = 0
        for size in _ROWS:
            while len(placed) - start >= size:
                group = tuple(chain.from_iterable(placed[start : start + size]))
                sql = self._prepared(connection, size)
                changed += connection.exec_driver_sql(sql, group).rowcount
                start += size
        return changed

    def _prepared(self, connection: Connection, size: int) -> str:
        key = connection.dialect.name, size
        sql = self._sql.get(key)
        if sql is None:
            sql = self._sql[key] = self._compiled(connection, size)
        return sql

    def _compiled(self, connection: Connection, size: int) -> str:
        names = [column.name for column in self._columns]
        statement: Any
        if size:
            rows = [dict.fromkeys(names)] * size
            statement = sqlite.insert(self._table).values(rows)
        else:
            # One statement for all rows: one by one, each would wait for the server.
            arrays = (bindparam(column.name, type_=_array(column)) for column in self._columns)
            every_row = select(*(func.unnest(array) for array in arrays))
            statement = postgresql.insert(self._table).from_select(names, every_row)
        sql = str(self._conflict(statement).compile(dialect=connection.dialect))
        # In the binary format, in which the driver need not escape what it sends.
        return sql.replace(")s::", ")b::")


def _array(column: ColumnElement[Any]) -> postgresql.ARRAY[Any]:
    """Return the type of many values of a column; text of any length, as a cast would cut it."""
    return postgresql.ARRAY(Text() if isinstance(column.type, String) else column.type)
