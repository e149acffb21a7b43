"""Rows of queries as effect labels, through SQLAlchemy: any database that it has a driver for."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from otel_turnavoid.errors import InputError
from otel_turnavoid.observers.snapshot import Snapshot, Thing
from otel_turnavoid.observers.template import Template, plain

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine

MOST_ROWS: Final = 100_000
"""Rows of one query."""

_SECRET_OPTIONS: Final = ("password", "sslpassword")
"""Options of a URL that nobody else should read."""

_FROM: Final = re.compile(r"\bfrom\s+([\w.\"`]+)", re.IGNORECASE)


class SqlSource:
    """Looks at the rows of some queries; reads only.

    Args:
        url: A database URL as SQLAlchemy spells it.
        queries: What to ask, one label template's worth of rows each.
        templates: One for each query; none at all means ``table:column=value,…`` with every
            column.
        gone: One for each query: the label where no row with that text is there any more, such
            as ``order:{id}=deleted``. None at all: rows that vanish are no effects.

    Raises:
        InputError: The URL or a template cannot be used.
    """

    def __init__(
        self,
        url: str,
        queries: Sequence[str],
        templates: Sequence[str] = (),
        gone: Sequence[str] = (),
    ) -> None:
        for what, given in (("label template", templates), ("template for gone rows", gone)):
            if given and len(given) != len(queries):
                raise InputError(
                    "", f"one {what} for each query: got {len(given)} for {len(queries)}"
                )
        self._url = _parse(url)
        self._queries = queries
        self._templates = [Template(text) for text in templates]
        self._gone = [Template(text) for text in gone]

    @property
    def name(self) -> str:
        """The database, without a password."""
        url = self._url.difference_update_query(_SECRET_OPTIONS)
        return url.render_as_string(hide_password=True)

    def look(self) -> Snapshot:
        """Ask every query once, in one transaction that sees one moment and is given up.

        Raises:
            InputError: The database cannot be reached, a query fails or returns too many rows,
                or a template names a column that its query does not return.
        """
        from sqlalchemy.exc import SQLAlchemyError  # noqa: PLC0415 - on use

        try:
            engine = _engine(self._url)
        except ImportError as error:
            driver = self._url.drivername
            raise InputError(self.name, f"the driver of {driver} is missing: {error}") from error
        except SQLAlchemyError as error:
            raise InputError(self.name, self._said(error)) from error
        things: list[Thing] = []
        try:
            with engine.connect() as connection:
                if connection.dialect.name == "sqlite":
                    # Its driver begins no transaction to read; two queries must see one moment.
                    connection.exec_driver_sql("BEGIN")
                for index in range(len(self._queries)):
                    things += self._ask(connection, index)
                connection.rollback()
        except SQLAlchemyError as error:
            raise InputError(self.name, self._said(error)) from error
        finally:
            engine.dispose()
        return Snapshot(source=self._asked(), things=tuple(things))

    def _asked(self) -> str:
        """Return what is asked, wherever: runs may have databases of their own."""
        labels = [template.text for template in (*self._templates, *self._gone)]
        return f"sql {'; '.join(' '.join(query.split()) for query in self._queries)} {labels}"

    def _ask(self, connection: Connection, index: int) -> list[Thing]:
        from sqlalchemy import text  # noqa: PLC0415 - on use

        query = self._queries[index]
        # Colons are parameters to SQLAlchemy; a query here has none.
        result = connection.execute(text(query.replace(":", r"\:")))
        if not result.returns_rows:
            raise InputError(self.name, f"the query returns no rows at all: {_short(query)}")
        columns = list(result.keys())
        twice = sorted({column for column in columns if columns.count(column) > 1})
        if twice:
            raise InputError(
                self.name, f"two columns are named {twice[0]!r}; name them apart with AS"
            )
        template = self._templates[index] if self._templates else _default(query, columns)
        gone = self._gone[index] if self._gone else None
        for each in (template, gone):
            if each is not None:
                each.check(columns, "the query returns")
        rows = result.mappings().fetchmany(MOST_ROWS + 1)
        if len(rows) > MOST_ROWS:
            raise InputError(
                self.name, f"more than {MOST_ROWS} rows; ask for what the task can change"
            )
        return [
            Thing(
                template.fill(dict(row), plain),
                gone.fill(dict(row), plain) if gone is not None else "",
            )
            for row in rows
        ]

    def _said(self, error: Exception) -> str:
        """Return the driver's own words in one line, without the statement or a password."""
        cause = getattr(error, "orig", None) or error
        said = " ".join(str(cause).split()) or type(cause).__name__
        password = self._url.password
        return said.replace(password, "***") if password else said


def _parse(url: str) -> URL:
    from sqlalchemy import make_url  # noqa: PLC0415 - on use
    from sqlalchemy.exc import ArgumentError  # noqa: PLC0415

    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        # What cannot be parsed may hold a password anywhere before the host.
        shown = url if "@" not in url else f"…@{url.rpartition('@')[2]}"
        raise InputError(
            "", f"{shown!r} is not a database URL; give one such as sqlite:///shop.db"
        ) from error
    if parsed.drivername in {"postgres", "postgresql"}:
        return parsed.set(drivername="postgresql+psycopg")
    return parsed


def _engine(url: URL) -> Engine:
    from sqlalchemy import create_engine  # noqa: PLC0415 - on use

    if url.get_backend_name() == "sqlite" and url.database:
        # Opened to read: an observer changes nothing, and makes no database by misspelling one.
        uri = f"{Path(url.database).absolute().as_uri()}?mode=ro"
        return create_engine(url, creator=lambda: sqlite3.connect(uri, uri=True, timeout=10))
    engine = create_engine(url)
    if url.get_backend_name() == "postgresql":
        return engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
    return engine


def _default(query: str, columns: Sequence[str]) -> Template:
    """Return the template with every column, after the table if there is only one."""
    tables = {table.strip('"`') for table in _FROM.findall(query)}
    joined = re.search(r"\bjoin\b", query, re.IGNORECASE) is not None
    table = tables.pop() if len(tables) == 1 and not joined else "row"
    for column in columns:
        if not column.replace("_", "").isalnum():
            raise InputError(
                "", f"column {column!r} needs a plain name for a label; name it with AS"
            )
    return Template(f"{table}:{','.join(f'{column}={{{column}}}' for column in columns)}")


def _short(query: str) -> str:
    line = " ".join(query.split())
    return line if len(line) <= 80 else f"{line[:79]}…"  # noqa: PLR2004 - a line's width
