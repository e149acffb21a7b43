"""The house rules that a machine can check: CONTRIBUTING.md says them in words."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

import otel_turnavoid
from otel_turnavoid import vocabulary
from otel_turnavoid.cli.main import COMMANDS, main

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "otel_turnavoid"

GROUND = {"vocabulary", "errors", "digest"}
ROOMS = {
    "vocabulary": set(),
    "errors": set(),
    "_proto": set(),
    "digest": {"errors", "vocabulary"},
    "ledger": GROUND,
    "judge": GROUND,
    "dialects": GROUND | {"judge"},
    "conversations": GROUND | {"judge", "dialects"},
    "otlp": GROUND | {"judge", "dialects", "conversations", "_proto"},
    "store": GROUND | {"judge"},
    "publish": GROUND | {"judge", "ledger", "store", "_proto"},
    "forward": GROUND,
    "pages": GROUND | {"judge", "store", "publish"},
    "collector": GROUND
    | {"judge", "ledger", "dialects", "otlp", "store", "publish", "pages", "forward", "_proto"},
    "exporter": GROUND
    | {"judge", "ledger", "dialects", "otlp", "store", "publish", "collector", "_proto"},
    "instrument": GROUND | {"judge", "dialects"},
    "observers": GROUND | {"instrument"},
    "dashboards": set(),
    "testing": GROUND | {"judge", "instrument", "observers"},
    "loadgen": GROUND | {"forward", "testing"},
    "demo": GROUND | {"judge", "ledger", "store", "publish", "instrument", "observers"},
    "cli": GROUND
    | {"judge", "ledger", "dialects", "otlp", "store", "publish", "collector"}
    | {"instrument", "observers", "dashboards", "loadgen", "demo"},
}
"""Room -> rooms below it, which it may import."""

PURE = ("vocabulary", "errors", "digest", "judge", "dialects", "conversations", "ledger")
"""Rooms that are functions of their arguments: no clock, file, network, database, chance."""

IMPURE_MODULES = {
    *("asyncio", "datetime", "io", "multiprocessing", "os", "pathlib", "random", "secrets"),
    *("shutil", "signal", "socket", "sqlite3", "ssl", "subprocess", "tempfile", "threading"),
    *("time", "urllib", "uuid", "grpc", "sqlalchemy", "starlette", "uvicorn", "yaml"),
}
IMPURE_CALLS = {"open", "print", "input"}


def sources(room: str = "") -> list[Path]:
    base = PACKAGE / room if room else PACKAGE
    files = base.rglob("*.py") if base.is_dir() else [base.with_suffix(".py")]
    return sorted(file for file in files if file.suffix == ".py")


def room_of(file: Path) -> str:
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(file: Path) -> Iterator[tuple[int, str]]:
    """Yield line and absolute dotted name of everything imported, inside functions too."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: write imports absolutely"
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def modules() -> list[str]:
    names = []
    for file in sources():
        parts = file.relative_to(ROOT).with_suffix("").parts
        if "_proto" not in parts and parts[-1] != "__main__":
            names.append(".".join(parts).removesuffix(".__init__"))
    return names


def tracked_texts() -> Iterator[tuple[str, str]]:
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listing.returncode:
        pytest.skip("not a git checkout")
    for name in listing.stdout.splitlines():
        file = ROOT / name
        if file.is_file():
            yield name, file.read_text(encoding="utf-8", errors="replace")


def test_every_room_stands_in_the_plan() -> None:
    rooms = {room_of(file) for file in sources()} - {"__init__", "__main__"}

    assert rooms <= set(ROOMS)


def test_imports_point_downward() -> None:
    wrong = []
    for file in sources():
        room = room_of(file)
        if room in ("__init__", "__main__"):
            continue
        for line, name in imports(file):
            package, _, rest = name.partition(".")
            target = rest.partition(".")[0]
            ours = package == "otel_turnavoid" and target in ROOMS
            if ours and target not in ROOMS[room] | {room}:
                wrong.append(f"{file.relative_to(ROOT)}:{line} imports {target}")

    assert wrong == []


@pytest.mark.parametrize("room", PURE)
def test_pure_rooms_import_nothing_that_touches_the_world(room: str) -> None:
    wrong = [
        f"{file.relative_to(ROOT)}:{line} imports {name}"
        for file in sources(room)
        for line, name in imports(file)
        if name.partition(".")[0] in IMPURE_MODULES
    ]

    assert wrong == []


@pytest.mark.parametrize("room", PURE)
def test_pure_rooms_call_nothing_that_touches_the_world(room: str) -> None:
    wrong = [
        f"{file.relative_to(ROOT)}:{node.lineno} calls {node.func.id}"
        for file in sources(room)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in IMPURE_CALLS
    ]

    assert wrong == []


def test_named_tuples_have_no_other_base() -> None:
    """Python 3.10 refuses them when they are imported; no checker says so."""
    wrong = [
        f"{file.relative_to(ROOT)}:{node.lineno} {node.name}"
        for file in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
        and len(node.bases) > 1
        and any(isinstance(base, ast.Name) and base.id == "NamedTuple" for base in node.bases)
    ]

    assert wrong == []


@pytest.mark.parametrize("name", modules())
def test_everything_public_has_a_docstring(name: str) -> None:
    module = importlib.import_module(name)

    bare = [] if module.__doc__ else [name]
    for label, value in vars(module).items():
        if label.startswith("_") or getattr(value, "__module__", None) != name:
            continue
        if inspect.isclass(value):
            bare += [f"{name}.{label}"] * (not value.__doc__)
            bare += [
                f"{name}.{label}.{method}"
                for method, member in vars(value).items()
                if not method.startswith("_")
                and (inspect.isfunction(member) or isinstance(member, property))
                and not inspect.getdoc(getattr(value, method, member))
            ]
        elif inspect.isfunction(value) and not value.__doc__:
            bare.append(f"{name}.{label}")

    assert bare == []


@pytest.mark.parametrize("name", modules())
def test_all_names_what_the_module_has(name: str) -> None:
    module = importlib.import_module(name)
    listed = getattr(module, "__all__", ())

    assert [entry for entry in listed if not hasattr(module, entry)] == []
    assert len(set(listed)) == len(listed)


def test_room_fronts_list_what_they_import() -> None:
    """A package that re-exports says so in ``__all__``: each public name is a promise."""
    missing = []
    for file in sources():
        if file.name != "__init__.py" or "_proto" in file.parts or file.parent == PACKAGE:
            continue
        name = ".".join(file.parent.relative_to(ROOT).parts)
        module = importlib.import_module(name)
        tree = ast.parse(file.read_text(encoding="utf-8"))
        missing += [
            f"{name}.{alias.asname or alias.name}"
            for node in tree.body
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("otel_turnavoid")
            for alias in node.names
            if not (alias.asname or alias.name).startswith("_")
            and (alias.asname or alias.name) not in getattr(module, "__all__", ())
        ]

    assert missing == []


def test_every_command_has_its_file_and_every_file_is_a_command_or_a_helper() -> None:
    files = {file.stem for file in sources("cli")}
    commands = {
        stem
        for stem in files
        if hasattr(importlib.import_module(f"otel_turnavoid.cli.{stem}"), "command")
    }

    assert commands == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_has_help(name: str) -> None:
    command = main.get_command(None, name)  # type: ignore[arg-type]

    assert command.help
    assert [
        option.name
        for option in command.params
        if option.param_type_name == "option" and not option.help
    ] == []


def test_the_version_is_written_once() -> None:
    texts = [
        name for name, text in tracked_texts() if re.search(r'^version = "', text, re.MULTILINE)
    ]

    assert texts == ["pyproject.toml"]
    assert otel_turnavoid.__version__ == version("otel-turnavoid")


def test_no_machine_paths_and_no_registry_hosts_in_the_repository() -> None:
    forbidden = re.compile(
        r"(?<![\w.])/(?:home/[a-z]|Users/[A-Za-z]|root/|work/)"
        r"|index[-]url|//[a-z0-9.-]+/simple"
    )

    assert [
        f"{name}: {found.group()}"
        for name, text in tracked_texts()
        for found in forbidden.finditer(text)
        if name != "tests/test_housekeeping.py"
    ] == []


def test_help_comes_without_importing_what_it_does_not_need() -> None:
    code = (
        "import sys, click\n"
        "from otel_turnavoid.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = ['grpc', 'msgspec', 'opentelemetry', 'rich', 'sqlalchemy', 'uvicorn', 'yaml']\n"
        "print([name for name in heavy if name in sys.modules], file=sys.stderr)\n"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stderr == "[]\n"


@pytest.mark.parametrize(
    "command", ["dashboards", "explain", "ingest", "observe", "pairs", "replay", "report", "runs"]
)
def test_offline_commands_import_no_server_and_no_sdk(command: str) -> None:
    code = (
        "import sys\n"
        f"import otel_turnavoid.cli.{command}\n"
        "heavy = ['grpc', 'opentelemetry.sdk', 'rich', 'starlette', 'uvicorn']\n"
        "print([name for name in heavy if name in sys.modules])\n"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"


def test_connections_of_sqlite3_are_closed() -> None:
    """``with sqlite3.connect(...)`` ends a transaction, and leaves the connection open."""
    folders = ("otel_turnavoid", "tests", "examples", "docs", "fuzz", "benchmarks")
    left_open = re.compile(r"^\s*with sqlite3\.connect\(", re.MULTILINE)
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.[pm][yd]")]

    assert len(files) > 500
    assert [file for file in files if left_open.search(file.read_text(encoding="utf-8"))] == []


def test_the_vocabulary_is_closed_and_every_word_is_lower_case() -> None:
    words = [word for word in vars(vocabulary).values() if _is_vocabulary(word)]

    assert len(words) > 15
    assert [
        member for word in words for member in word if not re.fullmatch(r"[a-z][a-z_-]*", member)
    ] == []


def _is_vocabulary(value: object) -> bool:
    return (
        isinstance(value, type)
        and issubclass(value, vocabulary.Word)
        and value is not vocabulary.Word
    )
