"""The outside world of the demo: a small shop in a SQLite database, and the agents' tools.

Every run works on a copy of its own. What a tool says it did is not evidence: only what stands
in the database afterwards is.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, Final

SCHEMA: Final = """
CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT, size TEXT, address TEXT, status TEXT);
CREATE TABLE refunds (order_id INTEGER, amount INTEGER);
CREATE TABLE mails (order_id INTEGER, subject TEXT);
"""

ORDERS: Final = (
    (1001, "kettle", "-", "Elm Street 1", "delivered"),
    (1002, "chair", "-", "Oak Road 7", "open"),
    (1003, "chair", "-", "Oak Road 7", "open"),
    (1004, "table", "-", "Oak Road 7", "open"),
    (1005, "lamp", "-", "Birch Lane 3", "open"),
    (1006, "jacket", "M", "Ash Court 9", "delivered"),
    (1007, "radio", "-", "Fir Close 2", "open"),
    (1008, "mirror", "-", "Yew Walk 5", "delivered"),
)


def build(path: Path) -> None:
    """Make the shop as it is before anybody does anything."""
    with closing(sqlite3.connect(path)) as shop, shop:
        shop.executescript(SCHEMA)
        shop.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?)", ORDERS)


class Shop:
    """The tools of an agent: each one reads or changes the database."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._database = connection
        self._lock = Lock()
        self.tools: dict[str, Callable[..., Any]] = {
            "look_up": self.look_up,
            "cancel": self.cancel,
            "refund": self.refund,
            "readdress": self.readdress,
            "exchange": self.exchange,
            "mail": self.mail,
        }

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[Shop]:
        """Open a shop for the time of one run."""
        # Tools that one turn asked for together are executed in threads.
        with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
            yield cls(connection)

    def look_up(self, order: int) -> dict[str, Any]:
        """Return what the shop knows of an order."""
        columns = ("id", "item", "size", "address", "status")
        with self._lock:
            row = self._database.execute("SELECT * FROM orders WHERE id = ?", (order,)).fetchone()
        return dict(zip(columns, row, strict=True))

    def cancel(self, order: int) -> str:
        """Cancel an order."""
        return self._change("UPDATE orders SET status = 'cancelled' WHERE id = ?", order)

    def refund(self, order: int, amount: int) -> str:
        """Pay money back."""
        return self._change("INSERT INTO refunds VALUES (?, ?)", order, amount)

    def readdress(self, order: int, address: str) -> str:
        """Send an order elsewhere."""
        return self._change("UPDATE orders SET address = ? WHERE id = ?", address, order)

    def exchange(self, order: int, size: str) -> str:
        """Exchange an item for another size."""
        return self._change(
            "UPDATE orders SET size = ?, status = 'exchanged' WHERE id = ?", size, order
        )

    def mail(self, order: int, subject: str) -> str:
        """Write to the customer."""
        return self._change("INSERT INTO mails VALUES (?, ?)", order, subject)

    def _change(self, statement: str, *values: object) -> str:
        with self._lock, self._database:
            self._database.execute(statement, values)
        return "done"
