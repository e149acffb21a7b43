"""``docs/metrics.md`` says what the vocabulary says."""

from __future__ import annotations

from pathlib import Path

from otel_turnavoid.publish.reference import LABEL_VALUES, labels_table, metrics_table
from otel_turnavoid.vocabulary import INSTRUMENTS, Attr

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
HINT = "run `make docs`"


def test_the_page_ends_with_the_tables_of_the_vocabulary() -> None:
    assert PAGE.read_text(encoding="utf-8").endswith(f"{labels_table()}\n\n{metrics_table()}"), HINT


def test_every_instrument_has_one_row() -> None:
    table = metrics_table()

    assert [table.count(f"| `{each.name}` |") for each in INSTRUMENTS] == [1] * len(INSTRUMENTS)


def test_every_label_is_listed_and_only_variants_are_free_names() -> None:
    assert set(LABEL_VALUES) == {key for each in INSTRUMENTS for key in each.labels}
    assert [key for key, values in LABEL_VALUES.items() if not values] == [Attr.VARIANT]


def test_no_label_is_an_id_a_digest_or_a_tool() -> None:
    words = {word for key in LABEL_VALUES for word in key.split(".")}

    assert words.isdisjoint({"id", "digest", "tool", "trace", "span", "unit", "experiment"})
