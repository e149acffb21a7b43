"""Pages as the tests of them see them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
FENCE = re.compile(r"^```(.*?)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="session")
def page() -> Callable[[str], str]:
    """Return the text of a page of ``docs`` by its name."""

    def read(name: str) -> str:
        return (DOCS / name).read_text(encoding="utf-8")

    return read


@pytest.fixture(scope="session")
def blocks() -> Callable[[str], list[tuple[str, str]]]:
    """Return the fenced blocks of a text, in order: info string and body."""
    return FENCE.findall
