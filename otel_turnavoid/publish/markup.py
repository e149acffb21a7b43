"""HTML and SVG that cannot forget to escape: text becomes markup only through ``element``."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Final, Union

_VOID: Final = frozenset({"circle", "input", "line", "link", "meta", "rect"})
_UNCLOSED: Final = frozenset({"input", "link", "meta"})
"""Those of HTML; the others are of SVG."""
_BLOCKS: Final = frozenset(
    {"body", "dd", "dl", "dt", "figcaption", "figure", "footer", "h1", "h2", "h3", "h4", "head"}
    | {"header", "html", "li", "main", "meta", "nav", "ol", "p", "section", "style", "table"}
    | {"tbody", "thead", "title", "tr", "ul"}
)
"""Elements on lines of their own, so that a page can be read as text too."""


class Html(str):
    """Markup that is safe to put on a page as it stands."""

    __slots__ = ()


Child = Union[Html, str, None]
"""Plain text is escaped; None is nothing."""


def element(name: str, /, *children: Child, **attributes: str | float | None) -> Html:
    """Return one element.

    Args:
        name: Of an HTML or SVG element.
        children: What it holds, in order.
        attributes: ``class_`` is ``class``, ``aria_label`` is ``aria-label``; None is left out.
    """
    stated = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_text(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Html(f"<{name}{stated}>" if name in _UNCLOSED else f"<{name}{stated}/>")
    end = "\n" if name in _BLOCKS else ""
    return Html(f"<{name}{stated}>{joined(children)}</{name}>{end}")


def joined(children: Iterable[Child]) -> Html:
    """Return children one after the other, plain text escaped."""
    return Html(
        "".join(
            child if isinstance(child, Html) else escape(child)
            for child in children
            if child is not None
        )
    )


def _text(value: str | float) -> str:
    """Return an attribute's value; numbers short, with the same digits everywhere."""
    return value if isinstance(value, str) else f"{value:.4g}"
