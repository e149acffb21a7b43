"""README.md says what the code says: its tables, its configuration, its programs, its commands.

Run as a program (``make docs``), this file writes the tables of the README anew.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest

from otel_turnavoid import vocabulary
from otel_turnavoid.cli.main import COMMANDS, main
from otel_turnavoid.collector import config
from otel_turnavoid.vocabulary import INSTRUMENTS, Account, Kind, Rejection, WithheldCause, Word

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"


def accounts_table() -> str:
    """Return the accounts and their instruments as a Markdown table."""
    lines = ["| account | instrument | unit | what it counts |", "|---|---|---|---|"]
    for account, instruments in groupby(INSTRUMENTS, key=lambda each: each.account):
        for index, each in enumerate(instruments):
            scope = "" if index else f"`{account.scope}`"
            lines.append(f"| {scope} | `{each.name}` | {each.unit} | {each.description} |")
    return "\n".join(lines)


def words_table() -> str:
    """Return the closed vocabularies as a Markdown table."""
    lines = ["| vocabulary | what it says | words |", "|---|---|---|"]
    for name, words in vars(vocabulary).items():
        if _closed(words) and words not in {Account, Kind, WithheldCause}:
            about = re.sub(r"``", "`", words.__doc__.splitlines()[0]).rstrip(".")
            lines.append(f"| {name} | {about} | {', '.join(f'`{word}`' for word in words)} |")
    return "\n".join(lines)


TABLES = {"accounts": accounts_table, "words": words_table}


def _closed(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Word) and value is not Word


def _block(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- /{name} -->)", re.DOTALL)


@pytest.fixture(scope="module")
def readme() -> str:
    return README.read_text(encoding="utf-8")


def fenced(readme: str, info: str) -> str:
    """Return the only code block with this info string."""
    (body,) = re.findall(rf"^```{re.escape(info)}\n(.*?)^```$", readme, re.DOTALL | re.MULTILINE)
    return body


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_those_of_the_vocabulary(readme: str, name: str) -> None:
    (found,) = _block(name).findall(readme)

    assert found.strip() == TABLES[name](), "run `make docs`"


def test_every_withheld_cause_is_explained_in_the_order_of_the_vocabulary(readme: str) -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| [^|]{20,} \|$", readme, re.MULTILINE)

    assert rows == [cause.value for cause in WithheldCause]


def test_every_rejection_is_named(readme: str) -> None:
    assert [
        word for word in Rejection if f"`{word}`" not in readme.split("## Words", maxsplit=1)[0]
    ] == []


def test_every_command_stands_in_the_table(readme: str) -> None:
    section = readme.split("## Commands")[1].split("## ", maxsplit=1)[0]

    assert re.findall(r"^\| `turnavoid ([a-z]+)` \|", section, re.MULTILINE) == list(COMMANDS)


def test_every_option_that_the_readme_names_exists(readme: str) -> None:
    known = {"--config", "--version", "--help"}
    for name in COMMANDS:
        command = main.get_command(None, name)  # type: ignore[arg-type]
        known |= {spelling for option in command.params for spelling in option.opts}

    assert set(re.findall(r"(?<![\w-])--[a-z]+", readme)) - known == set()


def test_the_configuration_is_one_that_loads(readme: str) -> None:
    loaded = config.parse(fenced(readme, "yaml"))

    assert loaded.ledger_url == "sqlite:///turnavoid.db"
    assert set(loaded.exporters) == {"prometheus"}
    assert loaded.settings.digest == ("ticket.id",)


@pytest.fixture
def processor(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A running ``turnavoid collect``; the environment that leads agents and commands to it."""
    with socket.socket() as first, socket.socket() as second:
        first.bind(("localhost", 0))
        second.bind(("localhost", 0))
        grpc, http = first.getsockname()[1], second.getsockname()[1]
    configuration = tmp_path / "collect.yaml"
    configuration.write_text(
        "receivers: {otlp: {protocols: {"
        f"grpc: {{endpoint: 'localhost:{grpc}'}}, http: {{endpoint: 'localhost:{http}'}}}}}}}}\n"
        "processors: {turnavoid: {settle: 50ms}}\n"
        "exporters: {}\n"
    )
    environment = os.environ | {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://localhost:{grpc}",
        "TURNAVOID_LEDGER": f"sqlite:///{tmp_path}/ledger.db",
    }
    collect = [sys.executable, "-m", "otel_turnavoid", "collect", "--config", str(configuration)]
    with subprocess.Popen(collect, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("ledger "):
                break
        yield environment
        process.send_signal(signal.SIGTERM)
        process.stderr.read()


def test_the_five_minute_path_leads_to_the_verdict_that_it_shows(
    readme: str, processor: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "my_agent.py").write_text(fenced(readme, "python agent"))
    (tmp_path / "my_observer.py").write_text(fenced(readme, "python observer"))
    (line,) = re.findall(r"^    (python my_agent.*)$", readme, re.MULTILINE)

    def run(*command: str) -> str:
        done = subprocess.run(
            [sys.executable, *command],
            cwd=tmp_path,
            env=processor,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stderr == ""
        return done.stdout

    for command in line.split(" && "):
        run(*shlex.split(command)[1:])
    deadline = time.monotonic() + 60
    while not (pairs := run("-m", "otel_turnavoid", "pairs", "--json")):
        assert time.monotonic() < deadline, "no verdict"

    assert "\n" in pairs
    shown = run("-m", "otel_turnavoid", "pairs")
    assert _squeezed(shown) == _squeezed(fenced(readme, "text pairs"))


def _squeezed(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines()]


def test_its_links_lead_somewhere(readme: str) -> None:
    targets = re.findall(r"\]\((?!http)([^)#]+)\)", readme)

    assert targets
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_the_contributing_guide_names_every_room() -> None:
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rooms = {
        file.name for file in (ROOT / "otel_turnavoid").iterdir() if (file / "__init__.py").exists()
    }

    assert [room for room in sorted(rooms) if f"{room}/" not in guide] == []


def test_the_contributing_guide_names_files_that_exist() -> None:
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z_./]+(?:\.py|\.md|\.toml|\.txt|/))`", guide))

    places = (ROOT, ROOT / "otel_turnavoid")
    assert len(named) > 25
    assert [
        name for name in sorted(named) if not any((place / name).exists() for place in places)
    ] == []


def test_the_contributing_guide_names_every_library() -> None:
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").lower()
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (block,) = re.findall(r"^dependencies = \[(.*?)^\]", project, re.DOTALL | re.MULTILINE)
    names = re.findall(r'^  "([a-z0-9-]+)', block, re.MULTILINE)

    def named(library: str) -> bool:
        family, _, rest = library.partition("-")
        return library in guide or (family in guide and f"-{rest}" in guide)

    assert len(names) > 10
    assert [name for name in names if not named(name)] == []


if __name__ == "__main__":
    text = README.read_text(encoding="utf-8")
    for name, table in TABLES.items():
        made = f"{table()}\n"
        text = _block(name).sub(made.replace("\\", r"\\"), text)
    README.write_text(text, encoding="utf-8")
