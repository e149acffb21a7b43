"""``turnavoid observe``: looks, compares, sends; a processor takes what it sends."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner, Result

from otel_turnavoid.cli.main import main
from otel_turnavoid.cli.observe import command
from otel_turnavoid.collector.config import parse
from otel_turnavoid.collector.processor import Processor
from otel_turnavoid.store import Ledger

CONFIGURATION = """
receivers:
  otlp: {protocols: {grpc: {endpoint: "localhost:0"}, http: {endpoint: "localhost:0"}}}
processors: {turnavoid: {settle: 50ms}}
exporters: {}
"""
ORDERS = ("--query", "SELECT id, status FROM orders", "--label", "order:{id}={status}")


class Shop(NamedTuple):
    url: str
    change: Callable[[str], None]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.chdir(tmp_path)

    def change(statements: str) -> None:
        with closing(sqlite3.connect("shop.db")) as database, database:
            database.executescript(statements)

    change(
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, status TEXT);"
        "INSERT INTO orders VALUES (41, 'open'), (42, 'open');"
    )
    return Shop("sqlite:///shop.db", change)


def observe(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["observe", *arguments])


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_what_changed_between_two_looks_arrives_as_an_observation(
    shop: Shop, tmp_path: Path, protocol: str
) -> None:
    ledger_url = f"sqlite:///{tmp_path / 'ledger.db'}"
    kept = observe("sql", "--url", shop.url, *ORDERS, "--snapshot", "before.json")
    shop.change("UPDATE orders SET status = 'cancelled' WHERE id = 42")

    with Processor(parse(CONFIGURATION, env={}), ledger_url=ledger_url) as processor:
        endpoint = processor.grpc_endpoint if protocol == "grpc" else processor.http_endpoint
        sent = observe(
            *("sql", "--url", shop.url, *ORDERS, "--before", "before.json"),
            *("--run-id", "r1", "--observer-id", "shop-db/v1"),
            *("--endpoint", str(endpoint), "--protocol", protocol),
        )

    assert (kept.exit_code, kept.stdout) == (0, "sqlite:///shop.db: 2 things kept in before.json\n")
    assert (sent.exit_code, sent.stdout) == (0, "order:42=cancelled\n")
    assert sent.stderr == "1 effect sent as shop-db/v1 for run r1\n"
    with Ledger.open(ledger_url, create=False) as ledger:
        (arrived,) = ledger.material("r1").observations
    assert (arrived.observer, arrived.labels) == ("shop-db/v1", ("order:42=cancelled",))
    assert arrived.service == "shop-db/v1"
    assert arrived.instance


def test_nobody_there_is_one_line_and_exit_code_2(shop: Shop) -> None:
    done = observe(
        *("sql", "--url", shop.url, *ORDERS, "--run-id", "r1", "--observer-id", "o"),
        *("--endpoint", "localhost:1", "--timeout", "0.5"),
    )

    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(
        "turnavoid observe: http://localhost:1: did not accept the observation: "
    )
    assert done.stderr.count("\n") == 1


def test_one_look_takes_everything_for_an_effect(shop: Shop) -> None:
    done = observe("sql", "--url", shop.url, *ORDERS, "--dry-run")

    assert (done.exit_code, done.stdout) == (0, "order:41=open\norder:42=open\n")
    assert done.stderr == "2 effects not sent (dry run)\n"


def test_rows_that_are_gone_have_a_label_of_their_own(shop: Shop) -> None:
    gone = ("--gone", "order:{id}=deleted")
    observe("sql", "--url", shop.url, *ORDERS, *gone, "--snapshot", "before.json")
    shop.change("DELETE FROM orders WHERE id = 41")

    done = observe("sql", "--url", shop.url, *ORDERS, *gone, "--before", "before.json", "--dry-run")

    assert done.stdout == "order:41=deleted\n"


def test_the_url_may_come_from_the_environment(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNAVOID_OBSERVE_URL", shop.url)

    assert observe("sql", *ORDERS, "--dry-run").exit_code == 0


def test_files_are_observed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("site").mkdir()
    Path("site/old.txt").write_text("old")
    observe("files", "site", "--snapshot", "before.json")
    Path("site/old.txt").unlink()
    Path("site/new.txt").write_text("new")

    done = observe(
        *("files", "site", "--label", "wrote {path}", "--before", "before.json", "--dry-run")
    )

    assert done.exit_code == 2
    assert "the snapshot is of files" in done.stderr
    done = observe("files", "site", "--before", "before.json", "--dry-run")
    assert done.stdout.splitlines()[1:] == ["file:old.txt=deleted"]
    assert done.stdout.startswith("file:new.txt=")


def test_a_bearer_token_comes_from_the_environment() -> None:
    done = observe(
        *("http", "--url", "http://localhost:1", "--pointer", "/a", "--dry-run"),
        *("--bearer-env", "SHOP_TOKEN"),
    )

    assert (done.exit_code, done.stderr) == (
        2,
        "turnavoid observe: --bearer-env: the environment has no SHOP_TOKEN\n",
    )


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--observer-id", "o"], "--run-id is missing; or keep a look with --snapshot FILE."),
        (["--run-id", "r"], "--observer-id is missing; or keep a look with --snapshot FILE."),
        (
            ["--snapshot", "b.json", "--run-id", "r"],
            "--snapshot keeps a look and sends nothing: leave out --run-id.",
        ),
    ],
)
def test_what_belongs_together_is_asked_for(shop: Shop, arguments: list[str], problem: str) -> None:
    done = observe("sql", "--url", shop.url, *ORDERS, *arguments)

    assert done.exit_code == 2
    assert problem in done.stderr


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            ["--query", "SELECT id FROM orders", "--label", "order:{nr}"],
            "label template 'order:{nr}' names 'nr'; the query returns id",
        ),
        (["--query", "SELECT nr FROM orders"], "sqlite:///shop.db: no such column: nr"),
        (
            [*ORDERS, "--before", "none.json"],
            "none.json: cannot be read: No such file or directory",
        ),
    ],
)
def test_a_look_that_fails_is_one_line(shop: Shop, arguments: list[str], problem: str) -> None:
    done = observe("sql", "--url", shop.url, *arguments, "--dry-run")

    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == f"turnavoid observe: {problem}\n"


@pytest.mark.parametrize("name", command.commands)
def test_every_observer_and_option_has_help(name: str) -> None:
    observer: Any = command.commands[name]

    assert observer.help
    assert [
        option.name
        for option in observer.params
        if option.param_type_name == "option" and not option.help
    ] == []


def test_a_snapshot_holds_no_url(shop: Shop) -> None:
    observe("sql", "--url", shop.url, *ORDERS, "--snapshot", "before.json")

    assert "shop.db" not in json.dumps(json.loads(Path("before.json").read_text()))
