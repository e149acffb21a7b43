"""Tables: with a caption, and headings for both directions.

A table of figures stands in a box that scrolls if it must. One of words becomes a card for each
row where the window is narrow; since browsers take blocks for no table, it states its roles.
"""

from __future__ import annotations

from collections.abc import Sequence

from otel_turnavoid.publish.markup import Child, Html, element


def table(
    caption: str, columns: Sequence[str], rows: Sequence[Sequence[Child]], *, words: int = 1
) -> Html:
    """Return a table of figures; the first cell of a row is its heading.

    Args:
        caption: What it shows; told to screen readers, as a heading tells it to others.
        columns: The headings.
        rows: Cells, as many in each row as there are columns.
        words: The first columns hold words, the others numbers.
    """
    kinds = [None if index < words else "number" for index in range(len(columns))]
    return element(
        "div",
        element(
            "table",
            element("caption", caption, class_="told"),
            element(
                "thead",
                element(
                    "tr",
                    *(
                        element("th", column, scope="col", class_=kind)
                        for column, kind in zip(columns, kinds, strict=True)
                    ),
                ),
            ),
            element(
                "tbody",
                *(
                    element(
                        "tr",
                        element("th", row[0], scope="row"),
                        *(
                            element("td", cell, class_=kind)
                            for cell, kind in zip(row[1:], kinds[1:], strict=True)
                        ),
                    )
                    for row in rows
                ),
            ),
        ),
        class_="scroll",
        role="region",
        aria_label=caption,
        tabindex="0",
    )


def cards(caption: str, columns: Sequence[str], rows: Sequence[Sequence[Child]]) -> Html:
    """Return a table of words, on a phone as cards; the first cell of a row is its heading.

    Args:
        caption: What it shows; told to screen readers.
        columns: The headings.
        rows: Cells, as many in each row as there are columns.
    """
    head = (element("th", column, scope="col", role="columnheader") for column in columns)
    return element(
        "table",
        element("caption", caption, class_="told"),
        element("thead", element("tr", *head, role="row"), role="rowgroup"),
        element("tbody", *(_card(columns, row) for row in rows), role="rowgroup"),
        role="table",
        class_="cards",
    )


def _card(columns: Sequence[str], row: Sequence[Child]) -> Html:
    return element(
        "tr",
        element("th", row[0], scope="row", role="rowheader"),
        *(
            element(
                "td",
                element("span", column, class_="of", aria_hidden="true"),
                element("span", cell),
                role="cell",
            )
            for column, cell in zip(columns[1:], row[1:], strict=True)
        ),
        role="row",
    )
