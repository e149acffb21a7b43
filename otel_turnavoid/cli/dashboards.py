"""``turnavoid dashboards``: write Grafana dashboards, Prometheus rules and provisioning files."""

from __future__ import annotations

from pathlib import Path, PurePath, PurePosixPath
from urllib.parse import urlsplit

import click

from otel_turnavoid.cli.output import write_file
from otel_turnavoid.dashboards import PROVISIONING, RULES, Places, bundle
from otel_turnavoid.errors import InputError


def _url(_: click.Context, __: click.Parameter, value: str) -> str:
    try:
        parts = urlsplit(value)
        good = parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        good = False
    if not good:
        raise click.BadParameter(f"wants http://HOST:PORT or https://…, got {value!r}.")
    return value


@click.command
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--prometheus",
    metavar="URL",
    default="http://localhost:9090",
    show_default=True,
    callback=_url,
    help="Prometheus, as Grafana reaches it.",
)
@click.option(
    "--jaeger",
    metavar="URL",
    default="http://localhost:16686",
    show_default=True,
    callback=_url,
    help="Jaeger, as Grafana reaches it; exemplars lead there.",
)
@click.option(
    "--mounted-at",
    metavar="PATH",
    type=click.Path(path_type=PurePosixPath),
    help="Where Grafana sees DIR, if elsewhere: in a container.",
)
@click.option("--force", is_flag=True, help="Replace files that are there with other content.")
def command(
    folder: Path, prometheus: str, jaeger: str, mounted_at: PurePosixPath | None, *, force: bool
) -> None:
    """Write Grafana dashboards, Prometheus rules and provisioning files into DIR.

    Two dashboards (the accounts, and operations), the files that tell Grafana of them and of its
    data sources, and alert rules. Nothing is written where a file of other content stands in
    the way.
    """
    seen = folder.resolve() if mounted_at is None else mounted_at
    if not seen.is_absolute():
        raise click.BadParameter(
            f"wants an absolute path, got '{seen}'.", param_hint="'--mounted-at'"
        )
    wanted = {
        folder / path: body for path, body in bundle(Places(seen, prometheus, jaeger)).items()
    }
    if not force:
        for path, body in wanted.items():
            _leave_alone(path, body)
    for path, body in wanted.items():
        _make_folder(path.parent)
        write_file(path, body)
        click.echo(path)
    click.echo(_closing(seen, folder))


def _leave_alone(path: Path, body: bytes) -> None:
    """Raise where a file of other content stands in the way."""
    try:
        there = path.read_bytes()
    except FileNotFoundError:
        return
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}") from error
    if there != body:
        raise InputError(str(path), "is there with other content; --force replaces it")


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(str(folder), f"cannot be made: {error.strerror}") from error


def _closing(seen: PurePath, folder: Path) -> str:
    return (
        "\nGrafana:    start it with GF_PATHS_PROVISIONING="
        f"{seen / PROVISIONING}, or copy these two files into its own provisioning folder\n"
        f"Prometheus: rule_files: [{folder.resolve() / RULES}]\n"
        "docs/grafana.md explains every panel and alert."
    )
