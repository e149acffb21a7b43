"""Markup: text is escaped wherever it comes from, and only markup is not."""

from __future__ import annotations

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from otel_turnavoid.publish.markup import Html, element, joined


class Reader(HTMLParser):
    """What a browser would make of a fragment."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[dict[str, str | None]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.append(dict(attrs))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_an_element_holds_text_and_elements_in_order() -> None:
    made = element("p", "a ", element("b", "c"), None, " d", class_="x", aria_label="y", id=None)

    assert made == '<p class="x" aria-label="y">a <b>c</b> d</p>\n'


def test_numbers_in_attributes_are_short() -> None:
    assert element("circle", r=5, cx=1 / 3) == '<circle r="5" cx="0.3333"/>'


def test_joined_escapes_plain_text_only() -> None:
    assert joined(["<", Html("<b>"), None]) == "&lt;<b>"


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"])))
def test_any_text_comes_back_as_text(text: str) -> None:
    found = Reader(element("span", text, title=text))

    assert (found.tags, found.text, found.attributes) == (["span"], text, [{"title": text}])
