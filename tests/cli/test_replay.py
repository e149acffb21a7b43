"""``turnavoid replay``: a report, or one line that says where the file is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from otel_turnavoid.cli.main import main
from otel_turnavoid.ledger import replay, report_json
from otel_turnavoid.publish.largest import Watch
from otel_turnavoid.publish.report_html import report_html
from otel_turnavoid.publish.report_text import report_text

WITNESS = Path(__file__).parents[2] / "examples" / "witness.jsonl"


def run(*options: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(main, ["replay", *options], input=stdin)


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """The witness with a blank third line."""
    lines = WITNESS.read_bytes().splitlines(keepends=True)
    path = tmp_path / "broken.jsonl"
    path.write_bytes(b"".join([*lines[:2], b"\n", *lines[2:]]))
    return path


def test_json_is_the_report_and_nothing_else() -> None:
    done = run("--in", str(WITNESS), "--json")

    with WITNESS.open("rb") as stream:
        assert done.stdout_bytes == report_json(replay(stream))
    assert (done.exit_code, done.stderr) == (0, "")


def test_text_is_the_default() -> None:
    done = run("--in", str(WITNESS))

    with WITNESS.open("rb") as stream:
        assert done.stdout == report_text(replay(stream))
    assert (done.exit_code, done.stderr) == (0, "")


def test_a_dash_reads_standard_input() -> None:
    done = run("--in", "-", "--json", stdin=WITNESS.read_bytes())

    assert json.loads(done.stdout)["rows"] == 18


def test_html_writes_a_page_instead_of_text(tmp_path: Path) -> None:
    page = tmp_path / "report.html"

    done = run("--in", str(WITNESS), "--html", str(page))

    watch = Watch()
    with WITNESS.open("rb") as stream:
        report = replay(stream, through=watch.through)
    assert page.read_text(encoding="utf-8") == report_html(report, rows=watch.largest())
    assert (done.exit_code, done.output) == (0, "")


def test_html_and_json_go_together(tmp_path: Path) -> None:
    done = run("--in", str(WITNESS), "--json", "--html", str(tmp_path / "report.html"))

    assert json.loads(done.stdout)["rows"] == 18
    assert (tmp_path / "report.html").exists()


def test_strict_withholds_where_no_effect_was_required(tmp_path: Path) -> None:
    effect = b'["answer:return-window"]'
    body = WITNESS.read_bytes()
    assert body.count(effect) == 6
    path = tmp_path / "no-effect.jsonl"
    path.write_bytes(body.replace(effect, b"[]"))

    loose = json.loads(run("--in", str(path), "--json").stdout)["arms"][1]
    strict = json.loads(run("--in", str(path), "--json", "--strict").stdout)["arms"][1]

    assert (loose["realized_turns_avoided"], loose["withheld_turns"]) == (2, 2)
    assert (strict["realized_turns_avoided"], strict["withheld_turns"]) == (1, 3)
    assert "Strict: where no effect was required" in run("--in", str(path), "--strict").stdout


@pytest.mark.parametrize("options", [(), ("--json",), ("--strict",)])
def test_a_bad_file_is_one_line_and_nothing_on_standard_output(
    broken: Path, options: tuple[str, ...]
) -> None:
    done = run("--in", str(broken), *options)

    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == (
        f"turnavoid replay: {broken}: line 3: is blank; one row of JSON is wanted on each line\n"
    )


def test_a_bad_file_leaves_no_page(broken: Path, tmp_path: Path) -> None:
    run("--in", str(broken), "--html", str(tmp_path / "report.html"))

    assert not (tmp_path / "report.html").exists()


def test_bad_standard_input_is_called_as_it_was_given() -> None:
    done = run("--in", "-", stdin=b"")

    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == (
        "turnavoid replay: -: the trace is empty; at least one input with its three arms is"
        " wanted\n"
    )


@pytest.mark.parametrize(
    ("name", "problem"),
    [("absent.jsonl", "No such file or directory"), (".", "Is a directory")],
)
def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path, name: str, problem: str) -> None:
    path = tmp_path / name

    done = run("--in", str(path), "--json")

    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == f"turnavoid replay: {path}: cannot be read: {problem}\n"


def test_a_page_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    page = tmp_path / "absent" / "report.html"

    done = run("--in", str(WITNESS), "--json", "--html", str(page))

    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == (
        f"turnavoid replay: {page}: cannot be written: No such file or directory\n"
    )


def test_without_a_file_the_use_is_wrong() -> None:
    done = run()

    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("turnavoid replay: Missing option '--in'.")


def test_replay_loads_neither_database_nor_telemetry_nor_rich() -> None:
    heavy = ("sqlalchemy", "rich", "grpc", "google.protobuf", "opentelemetry", "yaml", "starlette")
    script = (
        "import sys; from otel_turnavoid.cli.main import main\n"
        "main(sys.argv[1:], standalone_mode=False)\n"
        f"print([name for name in {heavy} if name in sys.modules], file=sys.stderr)"
    )

    done = subprocess.run(
        [sys.executable, "-c", script, "replay", "--in", str(WITNESS)],
        capture_output=True,
        check=True,
        text=True,
        env=os.environ | {"PYTHONWARNINGS": "error"},
    )

    assert done.stderr == "[]\n"
