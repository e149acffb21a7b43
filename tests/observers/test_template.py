"""Labels from templates: names in braces, values on one line."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from otel_turnavoid.errors import InputError
from otel_turnavoid.observers.template import Template, plain


def test_names_are_filled_in_and_doubled_braces_are_braces() -> None:
    template = Template("order:{id}={{{status}}}")

    assert template.names == ["id", "status"]
    assert template.fill({"id": 42, "status": "open"}, plain) == "order:42={open}"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "a label template must not be empty"),
        (" ", "a label template must not be empty"),
        ("order:{", "label template 'order:{': "),
        ("order:{}", "braces hold a name and nothing else"),
        ("{id.real}", "braces hold a name and nothing else"),
        ("{id[0]}", "braces hold a name and nothing else"),
        ("{id!r}", "braces hold a name and nothing else"),
        ("{id:>9}", "braces hold a name and nothing else"),
    ],
)
def test_a_template_is_no_program(text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        Template(text)


def test_a_missing_name_is_refused_with_those_there_are() -> None:
    with pytest.raises(
        InputError, match=r"^label template 'o:\{nr\}' names 'nr'; a row has id, status$"
    ):
        Template("o:{nr}").check(["id", "status"], "a row has")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (42, "42"),
        (Decimal("19.90"), "19.90"),
        (date(2026, 5, 28), "2026-05-28"),
        (b"\x00\xff", "00ff"),
        ("cancelled", "cancelled"),
        ("", ""),
        (" padded", '" padded"'),
        ("two\nlines", '"two\\nlines"'),
        ({"b": 1, "a": [True]}, '{"a":[true],"b":1}'),
    ],
)
def test_a_value_stands_on_one_line_and_equal_values_look_alike(value: Any, text: str) -> None:
    assert plain(value) == text


def test_a_label_never_begins_or_ends_with_space() -> None:
    assert Template("note: {text}").fill({"text": ""}, plain) == '"note: "'
