"""Whatever a PostgreSQL server's defaults are, a ledger on it keeps its promises."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from otel_turnavoid.dialects import Reader
from otel_turnavoid.errors import LedgerError
from otel_turnavoid.judge.settings import SECOND, Settings
from otel_turnavoid.otlp import read_logs, read_traces
from otel_turnavoid.store import Ledger
from otel_turnavoid.testing import observation, run_spans

pytestmark = pytest.mark.postgresql

TASKS = 20
LATER_NS = 2**62


@pytest.fixture
def default(cluster: Any, postgresql_url: str) -> Iterator[Callable[[str, str], None]]:
    """Change a default of the database for one test."""
    changed: list[str] = []

    def change(name: str, value: str) -> None:
        cluster.execute(f"ALTER DATABASE postgres SET {name} = '{value}'")
        changed.append(name)

    yield change
    for name in changed:
        cluster.execute(f"ALTER DATABASE postgres RESET {name}")


def setting(ledger: Ledger, name: str) -> str:
    with ledger._database.write() as connection:
        return str(connection.exec_driver_sql(f"SHOW {name}").scalar())


@pytest.mark.parametrize(
    ("given", "used"), [("off", "on"), ("on", "on"), ("local", "local"), ("remote_apply",) * 2]
)
def test_a_commit_is_durable_where_the_server_would_rather_be_fast(
    default: Callable[[str, str], None], postgresql_url: str, given: str, used: str
) -> None:
    default("synchronous_commit", given)

    with Ledger.open(postgresql_url) as ledger:
        assert setting(ledger, "synchronous_commit") == used


@pytest.mark.parametrize("isolation", ["read committed", "repeatable read", "serializable"])
def test_many_write_and_decide_at_once_under_any_default_isolation(
    default: Callable[[str, str], None], postgresql_url: str, isolation: str
) -> None:
    default("default_transaction_isolation", isolation)
    ledgers = [Ledger.open(postgresql_url) for _ in range(4)]
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for task in range(TASKS):
                for batch in evidence(task)[number::4]:
                    ledgers[number].add(batch.facts, batch.observations, arrived_ns=task + 1)
                ledgers[number].decide(Settings(), now_ns=1)
        except BaseException as error:  # noqa: BLE001 - shown below
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ledgers[0].decide(Settings(), now_ns=LATER_NS)

    assert errors == []
    kinds = [type(made).__name__ for _, made in ledgers[1].decisions()]
    assert (kinds.count("PairDecided"), kinds.count("RunDecided")) == (TASKS, 2 * TASKS)
    for ledger in ledgers:
        ledger.close()


def evidence(task: int) -> list[Any]:
    """What a pair consists of, in four parts."""
    control, candidate = f"c{task}", f"k{task}"
    return [
        read_traces(run_spans(run_id=control, task=task), Reader()),
        read_traces(run_spans(run_id=candidate, task=task, arm="exact-reuse"), Reader()),
        read_logs(observation(control), Reader()),
        read_logs(observation(candidate), Reader()),
    ]


def test_a_reader_sees_one_moment(postgresql_url: str) -> None:
    spans = "SELECT count(*) FROM turnavoid_spans"
    with Ledger.open(postgresql_url) as ledger, ledger._database.read() as connection:
        before = connection.exec_driver_sql(spans).scalar()
        batch = evidence(1)[0]
        ledger.add(batch.facts, arrived_ns=1)

        assert connection.exec_driver_sql(spans).scalar() == before == 0


def test_a_reader_cannot_write(postgresql_url: str) -> None:
    with (
        Ledger.open(postgresql_url) as ledger,
        pytest.raises(LedgerError, match="read-only transaction"),
        ledger._database.read() as connection,
    ):
        connection.exec_driver_sql("DELETE FROM turnavoid_ledger")


def test_the_journal_is_numbered_in_the_order_of_commits(postgresql_url: str) -> None:
    """So that who reads on after a number misses nothing that is committed later."""
    seen: list[int] = []
    with Ledger.open(postgresql_url) as ledger:
        stop = threading.Event()

        def follow() -> None:
            while not stop.is_set():
                after = seen[-1] if seen else 0
                seen.extend(number for number, _ in ledger.decisions(after=after))

        follower = threading.Thread(target=follow)
        follower.start()
        writers = [threading.Thread(target=decide_some, args=(ledger, n)) for n in range(3)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        stop.set()
        follower.join()
        seen.extend(number for number, _ in ledger.decisions(after=seen[-1] if seen else 0))

        assert seen == [number for number, _ in ledger.decisions()]
        assert len(seen) == 3 * 3 * TASKS


def decide_some(ledger: Ledger, part: int) -> None:
    for task in range(part * 1000, part * 1000 + TASKS):
        for batch in evidence(task):
            ledger.add(batch.facts, batch.observations, arrived_ns=1)
        # Settled, but long before anything that the others have begun is given up.
        ledger.decide(Settings(), now_ns=SECOND)


def test_an_option_of_the_connection_may_stand_in_the_url(postgresql_url: str) -> None:
    with Ledger.open(f"{postgresql_url}?application_name=mine") as ledger:
        assert setting(ledger, "application_name") == "mine"


def test_runs_come_in_one_order_whatever_the_locale_of_the_database_is(
    cluster: Any, tmp_path: Path
) -> None:
    """A report of the same evidence has the same bytes on every database."""
    ids = ["a", "B", "_", "é", "Z", "b-1", "b1", "A"]
    cluster.execute(
        "CREATE DATABASE elsewhere TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en'"
        " LOCALE 'C'"
    )
    try:
        orders = []
        for url in (
            f"sqlite:///{tmp_path / 'ledger.db'}",
            cluster.url.replace("/postgres", "/elsewhere"),
        ):
            with Ledger.open(url) as ledger:
                for run_id in ids:
                    batch = read_traces(run_spans(run_id=run_id), Reader())
                    ledger.add(batch.facts, arrived_ns=1)
                ledger.decide(Settings(), now_ns=1)
                orders.append([line.run.run_id for line in ledger.runs()])
    finally:
        cluster.execute("DROP DATABASE elsewhere WITH (FORCE)")

    assert orders[1] == orders[0] == sorted(ids)
