"""Charts as lists: each line is a label, a drawing of its own, and the figure in words.

The drawings are small SVG images with positions in percent, so that a chart is as wide as its
page and its text as large as the text around it, on a phone as on paper. They are hidden from
screen readers, which hear label and figure instead. Nothing is stacked: a bar is one figure of
one account, never a sum of two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import ceil, floor, log10
from typing import Final, NamedTuple

from otel_turnavoid.publish.figures import per_pair
from otel_turnavoid.publish.markup import Html, element


class Bar(NamedTuple):
    """One figure."""

    label: str
    value: float
    text: str
    """The value as it is written."""
    kind: str
    """What it is, as the style sheet colours it: ``avoided``, ``added``, ``withheld``…"""


class Bars(NamedTuple):
    """The figures of one arm or series in one account, on one scale."""

    name: str
    bars: tuple[Bar, ...]


class Reach(NamedTuple):
    """One mean with its interval."""

    label: str
    mean: float | None
    low: float | None
    high: float | None
    text: str
    kind: str


_Place = Callable[[float], str]
"""Where a value stands, in percent of the width."""

_TICKS: Final = 5
_FLAT: Final = 1e-6
"""Turns per pair that nobody could tell from none; an axis needs some width."""
_STEPS: Final = (1, 2, 5, 10)


def bar_chart(
    caption: str, groups: Sequence[Bars], *, shared: bool = True, long: bool = False
) -> Html | None:
    """Return a chart of bars; None where there is nothing to draw.

    Args:
        caption: What the chart shows, with the unit.
        groups: Beside each other, never added.
        shared: All groups have one scale; otherwise each has its own.
        long: The labels are long, so that each group takes the whole width.
    """
    if not any(bar.value for group in groups for bar in group.bars):
        return None
    everything = [bar.value for group in groups for bar in group.bars]
    return _figure(
        caption,
        (
            element(
                "div",
                element("p", group.name, class_="of") if group.name else None,
                _bars(group, everything if shared else [bar.value for bar in group.bars]),
                class_="group",
            )
            for group in groups
        ),
        long=long,
    )


def _bars(group: Bars, values: Sequence[float]) -> Html:
    low, high = min(0.0, *values), max(0.0, *values)
    width = (high - low) or 1.0
    zero = -low / width
    return element(
        "ul",
        *(
            _line(
                bar.label,
                bar.text,
                element(
                    "rect",
                    x=_percent(min(zero, zero + bar.value / width)),
                    width=_percent(abs(bar.value) / width),
                    height="100%",
                    class_=bar.kind,
                ),
                element("line", x1=_percent(zero), x2=_percent(zero), y2="100%", class_="zero"),
            )
            for bar in group.bars
        ),
        class_="bars",
        role="list",
    )


def reach_chart(caption: str, rows: Sequence[Reach]) -> Html | None:
    """Return means with their intervals on one axis around 0; None where there is no mean."""
    known = [value for row in rows for value in (row.mean, row.low, row.high) if value is not None]
    if not known:
        return None
    ticks = _ticks(min(0.0, *known), max(0.0, *known))
    low, width = ticks[0], ticks[-1] - ticks[0]

    def at(value: float) -> str:
        return _percent((value - low) / width)

    zero = element("line", x1=at(0), x2=at(0), y2="100%", class_="zero")
    lines = [
        _line(row.label, row.text, zero, *_reach(row, at(row.mean), at), kind="reach")
        if row.mean is not None
        else _line(row.label, row.text, zero, kind="reach")
        for row in rows
    ]
    axis = element(
        "li",
        element("span", "", class_="label"),
        element(
            "svg",
            *(
                element(
                    "text",
                    per_pair(tick).replace(".00", ""),
                    x=at(tick),
                    y="14",
                    text_anchor=_anchor(place, len(ticks)),
                )
                for place, tick in enumerate(ticks)
            ),
            class_="ticks",
        ),
        element("span", "", class_="value"),
        aria_hidden="true",
    )
    return _figure(caption, [element("ul", *lines, axis, class_="bars", role="list")], long=True)


def _reach(row: Reach, mean: str, at: _Place) -> Iterable[Html]:
    if row.low is not None and row.high is not None:
        yield element(
            "line", x1=at(row.low), x2=at(row.high), y1="50%", y2="50%", class_=f"span {row.kind}"
        )
        for end in (row.low, row.high):
            yield element(
                "line", x1=at(end), x2=at(end), y1="30%", y2="70%", class_=f"span {row.kind}"
            )
    yield element("circle", cx=mean, cy="50%", r=5, class_=row.kind)


def _figure(caption: str, parts: Iterable[Html], *, long: bool) -> Html:
    return element(
        "figure",
        element("figcaption", caption),
        element("div", *parts, class_="groups one" if long else "groups"),
        class_="chart",
    )


def _line(label: str, text: str, *drawing: Html, kind: str = "bar") -> Html:
    return element(
        "li",
        element("span", label, class_="label"),
        element("svg", *drawing, class_=kind, aria_hidden="true", focusable="false"),
        element("span", text, class_="value"),
    )


def _percent(part: float) -> str:
    return f"{part * 100 + 0.0:.2f}%"


def _anchor(place: int, ticks: int) -> str:
    return "start" if place == 0 else "end" if place == ticks - 1 else "middle"


def _ticks(low: float, high: float) -> list[float]:
    """Return round numbers that reach from below ``low`` to above ``high``."""
    width = high - low
    rough = (width if width > _FLAT else 1.0) / _TICKS
    scale = 10.0 ** floor(log10(rough))
    step = next(scale * each for each in _STEPS if scale * each >= rough)
    first, last = floor(low / step), ceil(high / step)
    return [number * step for number in range(first, max(last, first + 1) + 1)]
