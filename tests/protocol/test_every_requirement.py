"""Every numbered requirement is tested, or stands in the table of those that are not ours."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SECTIONS = "12345"


def named_after() -> dict[str, list[str]]:
    """Return the names of the tests of each requirement."""
    found: dict[str, list[str]] = {}
    for path in sorted(HERE.glob("test_*.py")):
        names = re.findall(r"^def (test_(\d+)_(\d+)_\w+)", path.read_text(), re.MULTILINE)
        for name, section, number in names:
            found.setdefault(f"{section}.{number}", []).append(name)
    return found


def excused() -> dict[str, str]:
    """Return why a requirement has no test, by its number."""
    table = (HERE / "not_applicable.md").read_text()
    return dict(re.findall(r"^\| (\d+\.\d+) \| (.+) \|$", table, re.MULTILINE))


@pytest.fixture
def required(shared: Path) -> list[str]:
    text = (shared / "otlp-requirements.md").read_text()
    return re.findall(rf"^([{SECTIONS}]\.\d+) ", text, re.MULTILINE)


@pytest.mark.corpus
def test_every_requirement_is_tested_or_in_the_table(required):
    assert len(required) == len(set(required)) > 0

    assert set(named_after()) | set(excused()) == set(required)


@pytest.mark.corpus
def test_nothing_is_both_tested_and_in_the_table(required):
    assert not set(named_after()) & set(excused())


def test_an_entry_of_the_table_gives_a_reason():
    assert all(len(reason) > 40 for reason in excused().values())
