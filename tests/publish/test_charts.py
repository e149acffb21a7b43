"""Charts: every figure is written beside its drawing, and nothing is stacked."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from otel_turnavoid.publish.charts import Bar, Bars, Reach, bar_chart, reach_chart


def bars(*values: float, name: str = "") -> Bars:
    return Bars(name, tuple(Bar(f"b{value}", value, str(value), "avoided") for value in values))


def rectangles(chart: str) -> list[tuple[float, float]]:
    """Return where bars begin and how long they are, in percent."""
    found = re.findall(r'<rect x="([\d.]+)%" width="([\d.]+)%"', chart)
    return [(float(x), float(width)) for x, width in found]


def test_bars_begin_at_zero_and_are_as_long_as_their_value() -> None:
    assert rectangles(bar_chart("c", [bars(10, 5, 0)])) == [(0, 100), (0, 50), (0, 0)]


def test_what_is_negative_goes_left_of_zero() -> None:
    assert rectangles(bar_chart("c", [bars(30, -10)])) == [(25, 75), (0, 25)]


def test_groups_share_a_scale_unless_their_units_differ() -> None:
    groups = [bars(10), bars(5)]

    assert rectangles(bar_chart("c", groups)) == [(0, 100), (0, 50)]
    assert rectangles(bar_chart("c", groups, shared=False)) == [(0, 100), (0, 100)]


def test_label_and_figure_are_text_and_the_drawing_is_hidden_from_readers() -> None:
    chart = bar_chart("Turns <by> arm", [bars(3, name="exact-reuse")])

    assert "<figcaption>Turns &lt;by&gt; arm</figcaption>" in chart
    assert '<span class="label">b3</span><svg class="bar" aria-hidden="true"' in chart
    assert '<span class="value">3</span>' in chart


def test_where_all_is_nothing_there_is_no_chart() -> None:
    assert bar_chart("c", [bars(0, 0)]) is None
    assert reach_chart("c", [Reach("a", None, None, None, "-", "series")]) is None


def test_a_mean_stands_within_its_interval_on_an_axis_with_0() -> None:
    chart = reach_chart("c", [Reach("a", 1.0, 0.5, 1.5, "1.00", "series")])

    (mean,) = re.findall(r'cx="([\d.]+)%"', chart)
    low, high = re.findall(r'x1="([\d.]+)%" x2="([\d.]+)%" y1="50%"', chart)[0]
    zero = re.findall(r'x1="([\d.]+)%" x2="\1%" y2="100%" class="zero"', chart)[0]
    assert float(zero) == 0  # the axis begins there
    assert float(zero) < float(low) < float(mean) < float(high) <= 100
    assert ">0</text>" in chart


def test_a_mean_without_an_interval_is_a_dot_alone() -> None:
    chart = reach_chart("c", [Reach("a", 2.0, None, None, "2.00", "noise")])

    assert chart.count("<circle") == 1
    assert 'class="span' not in chart


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=5))
def test_no_bar_leaves_its_drawing(values: list[float]) -> None:
    for x, width in rectangles(bar_chart("c", [bars(*values)]) or ""):
        assert x >= 0
        assert x + width <= 100.02


@given(st.floats(-1e6, 1e6), st.floats(0, 1e6))
def test_no_interval_leaves_its_drawing(mean: float, half: float) -> None:
    chart = reach_chart("c", [Reach("a", mean, mean - half, mean + half, "", "series")])

    places = re.findall(r'(?:cx|x1|x2)="(-?[\d.]+)%"', chart or "")
    assert all(0 <= float(place) <= 100 for place in places)
