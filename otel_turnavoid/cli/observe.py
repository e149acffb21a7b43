"""``turnavoid observe``: ready observers of databases, files and HTTP, each its own process."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import click

from otel_turnavoid.errors import InputError
from otel_turnavoid.vocabulary import Env

if TYPE_CHECKING:
    from otel_turnavoid.observers import Snapshot

URL_ENVIRONMENT: Final = Env.OBSERVE_URL
PROTOCOLS: Final = ("grpc", "http")
TIMEOUT_S: Final = 10.0


class Source(Protocol):
    """Something that looks once and says what it saw."""

    @property
    def name(self) -> str:
        """What is looked at, for people; nothing secret."""

    def look(self) -> Snapshot:
        """Look once."""


def _common(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add what every observer takes: what to do with the look, and where to send."""
    options = (
        click.option(
            "--snapshot",
            "snapshot_file",
            metavar="FILE",
            type=click.Path(path_type=Path),
            help="Before the run: keep what is there now in FILE, and send nothing.",
        ),
        click.option(
            "--before",
            "before_file",
            metavar="FILE",
            type=click.Path(path_type=Path),
            help="After the run: state what changed since FILE. Without it, all that is there.",
        ),
        click.option("--run-id", metavar="ID", help="The run that is observed."),
        click.option(
            "--observer-id",
            metavar="ID",
            help="Who looks, by which rules; the same for both runs. Also the service.name.",
        ),
        click.option(
            "--endpoint",
            metavar="URL",
            help="Where to send.  [default: OTEL_EXPORTER_OTLP_ENDPOINT, else this machine]",
        ),
        click.option(
            "--protocol",
            type=click.Choice(PROTOCOLS),
            default="grpc",
            show_default=True,
            help="OTLP over gRPC, or over HTTP.",
        ),
        click.option(
            "--timeout",
            "timeout_s",
            type=click.FloatRange(min=0.1, max=600),
            default=TIMEOUT_S,
            show_default=True,
            help="Seconds until sending is given up.",
        ),
        click.option("--dry-run", is_flag=True, help="Print the effects and send nothing."),
    )
    for option in reversed(options):
        function = option(function)
    return function


@click.group
def command() -> None:
    """Look at the outside world and send the effects of a run.

    Take a look before the run with --snapshot FILE; after it, the same command with --before
    FILE, --run-id and --observer-id states what changed. Without --before, everything that is
    there now is an effect. Each observer is a process of its own and sends under an identity of
    its own. Nothing that it looks at is changed.
    """


@command.command("sql")
@click.option(
    "--url",
    required=True,
    metavar="URL",
    envvar=URL_ENVIRONMENT,
    help=f"Database, as SQLAlchemy spells it.  [env: {URL_ENVIRONMENT}, for passwords]",
)
@click.option("--query", "queries", required=True, multiple=True, help="What to ask; repeatable.")
@click.option(
    "--label",
    "templates",
    multiple=True,
    metavar="TEMPLATE",
    help="Label of a row, such as order:{id}={status}; one for each query.  [default: all columns]",
)
@click.option(
    "--gone",
    multiple=True,
    metavar="TEMPLATE",
    help="Label of a row that is gone, such as order:{id}=deleted; one for each query.",
)
@_common
def sql(
    url: str,
    queries: tuple[str, ...],
    templates: tuple[str, ...],
    gone: tuple[str, ...],
    **said: Any,
) -> None:
    """Rows of queries in a database, before and after a run."""
    from otel_turnavoid.observers.sql import SqlSource

    _observe(SqlSource(url, queries, templates, gone), **said)


@command.command("files")
@click.argument("root", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--include", multiple=True, metavar="GLOB", help="Paths below DIR; repeatable.")
@click.option("--exclude", multiple=True, metavar="GLOB", help="Paths to leave out; repeatable.")
@click.option(
    "--label",
    "template",
    metavar="TEMPLATE",
    help="Label of a created or changed file: path, name, size, sha256."
    "  [default: file:{path}={sha256}]",
)
@click.option(
    "--gone", metavar="TEMPLATE", help="Label of a deleted file.  [default: file:{path}=deleted]"
)
@_common
def files(
    root: Path,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    template: str | None,
    gone: str | None,
    **said: Any,
) -> None:
    """A tree of files, by path and content: what was created, changed and deleted."""
    from otel_turnavoid.observers.files import GONE, TEMPLATE, FilesSource

    source = FilesSource(root, include, exclude, template or TEMPLATE, gone or GONE)
    _observe(source, **said)


@command.command("http")
@click.option("--url", required=True, metavar="URL", help="An http or https URL of a document.")
@click.option(
    "--pointer",
    "pointers",
    required=True,
    multiple=True,
    help="JSON pointer (RFC 6901); of a list, each element is looked at; repeatable.",
)
@click.option(
    "--label",
    "templates",
    multiple=True,
    metavar="TEMPLATE",
    help="Label of a value: pointer, value, an object's members; one for each pointer."
    "  [default: {pointer}={value}]",
)
@click.option(
    "--gone",
    multiple=True,
    metavar="TEMPLATE",
    help="Label of a value that is gone; one for each pointer.",
)
@click.option(
    "--bearer-env", metavar="NAME", help="Environment variable that holds a bearer token to send."
)
@_common
def http(
    url: str,
    pointers: tuple[str, ...],
    templates: tuple[str, ...],
    gone: tuple[str, ...],
    bearer_env: str | None,
    **said: Any,
) -> None:
    """Values of a JSON document at a URL."""
    from otel_turnavoid.observers.http import HttpSource

    headers = {}
    if bearer_env is not None:
        token = os.environ.get(bearer_env)
        if not token:
            raise InputError("", f"--bearer-env: the environment has no {bearer_env}")
        headers["Authorization"] = f"Bearer {token}"
    _observe(HttpSource(url, pointers, templates, gone, headers=headers), **said)


def _observe(  # noqa: PLR0913 - the options
    source: Source,
    *,
    snapshot_file: Path | None,
    before_file: Path | None,
    run_id: str | None,
    observer_id: str | None,
    endpoint: str | None,
    protocol: str,
    timeout_s: float,
    dry_run: bool,
) -> None:
    """Look, and keep the look or send what it shows.

    Raises:
        InputError: The look, the snapshot or the sending failed.
    """
    from otel_turnavoid.observers import labels, load, save
    from otel_turnavoid.observers.sending import send

    sending = {"--before": before_file, "--run-id": run_id, "--observer-id": observer_id}
    if snapshot_file is not None:
        given = [name for name, value in sending.items() if value is not None]
        if given:
            raise click.UsageError(
                f"--snapshot keeps a look and sends nothing: leave out {given[0]}."
            )
        snapshot = source.look()
        save(snapshot, snapshot_file)
        click.echo(f"{source.name}: {_count(len(snapshot.things))} kept in {snapshot_file}")
        return
    needed = [name for name in ("--run-id", "--observer-id") if not sending[name]]
    if needed and not dry_run:
        raise click.UsageError(f"{needed[0]} is missing; or keep a look with --snapshot FILE.")
    before = load(before_file) if before_file is not None else None
    effects = labels(before, source.look())
    if not dry_run:
        send(
            run_id or "",
            effects,
            observer_id=observer_id or "",
            endpoint=endpoint,
            protocol=protocol,
            timeout_s=timeout_s,
            environment=os.environ,
        )
    for label in sorted(effects.elements()):
        click.echo(label)
    done = "not sent (dry run)" if dry_run else f"sent as {observer_id} for run {run_id}"
    click.echo(f"{_count(effects.total(), 'effect')} {done}", err=True)


def _count(number: int, noun: str = "thing") -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
