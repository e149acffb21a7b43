"""Every link of a page leads somewhere, down to the heading; every page is found from the index."""

from __future__ import annotations

import re
import string
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    file
    for folder in (ROOT, ROOT / "docs", ROOT / "examples", ROOT / "benchmarks", ROOT / "peers")
    for file in (folder.glob("*.md") if folder == ROOT else folder.rglob("*.md"))
)
LINK = re.compile(r"\[[^\]]*\]\((?!https?:|mailto:)([^)\s]+)\)")
KEPT = {"-", "_", " "}
DROPPED = {*string.punctuation, *"…→—“”"}


def prose(text: str) -> str:
    """Return a page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(file: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a page."""
    made: list[str] = []
    seen: Counter[str] = Counter()
    text = prose(file.read_text(encoding="utf-8"))
    for heading in re.findall(r"^#{1,6} (.+?)\s*$", text, re.MULTILINE):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        plain = "".join(
            letter for letter in shown.lower() if letter in KEPT or letter not in DROPPED
        )
        slug = plain.replace(" ", "-")
        made.append(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return set(made)


@pytest.mark.parametrize("file", PAGES, ids=lambda file: file.relative_to(ROOT).as_posix())
def test_its_links_lead_somewhere(file: Path) -> None:
    broken = []
    for link in LINK.findall(prose(file.read_text(encoding="utf-8"))):
        path, _, anchor = link.partition("#")
        target = (file.parent / path).resolve() if path else file
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)

    assert broken == []


def test_the_index_leads_to_every_page() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    pages = {file.name for file in (ROOT / "docs").glob("*.md")} - {"index.md"}

    assert pages - {link.partition("#")[0] for link in LINK.findall(index)} == set()


def test_the_readme_leads_to_the_index() -> None:
    assert "(docs/index.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
