"""Panels in one hand: units, legends, colours that colour-blind people tell apart, descriptions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeVar

from grafana_foundation_sdk.builders import (
    bargauge,
    common,
    dashboard,
    prometheus,
    stat,
    table,
    timeseries,
)
from grafana_foundation_sdk.models import common as drawn
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models import prometheus as asked

from dashboards.queries import Query
from otel_turnavoid.vocabulary import Arm

WIDTH: Final = 24
"""Columns of Grafana's grid."""
HEIGHT: Final = 8

GREY: Final = "#7F7F7F"
BLUE: Final = "#0072B2"
ORANGE: Final = "#E69F00"
COLOURS: Final = (BLUE, ORANGE, "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")
"""Okabe and Ito's palette: told apart with every common colour vision."""

ARM_COLOURS: Final = {Arm.CONTROL: GREY, Arm.EXACT_REUSE: BLUE, Arm.FUSED_BATCH: ORANGE}

SOURCE: Final = model.DataSourceRef(type_val="prometheus", uid="${datasource}")

TURNS: Final = "suffix: turns"
PAIRS: Final = "suffix: pairs"
RUNS: Final = "suffix: runs"
CALLS: Final = "suffix: calls"
EFFECTS: Final = "suffix: effects"
VERDICTS: Final = "suffix: verdicts"
SECONDS: Final = "s"
DOLLARS: Final = "currencyUSD"
SHARE: Final = "percentunit"
COUNT: Final = "short"
BYTES: Final = "bytes"


class Said(NamedTuple):
    """What stands above a panel, and behind its "i"."""

    title: str
    means: str
    not_: str
    """What a reader must not take it for; goes on after "It does not"."""

    @property
    def description(self) -> str:
        """The text of the panel's description."""
        return f"{self.means}\n\nIt does not {self.not_}"


Drawn = timeseries.Panel | stat.Panel | bargauge.Panel | table.Panel
DrawnT = TypeVar("DrawnT", timeseries.Panel, stat.Panel, bargauge.Panel, table.Panel)


def lines(said: Said, unit: str, *queries: Query, width: int = 8) -> timeseries.Panel:
    """Return a graph of what is as it is at each moment."""
    panel = _graph(said, unit, queries, width)
    return panel.draw_style(drawn.GraphDrawStyle.LINE).line_width(2).fill_opacity(0)


def bars(said: Said, unit: str, *queries: Query, width: int = 8) -> timeseries.Panel:
    """Return a graph of what happened between two points; a minute at least."""
    panel = _graph(said, unit, queries, width).interval("1m")
    return panel.draw_style(drawn.GraphDrawStyle.BARS).line_width(1).fill_opacity(60)


def figures(said: Said, unit: str, *queries: Query, width: int = 4) -> stat.Panel:
    """Return one figure a series, as of the end of the chosen time."""
    return (
        _opened(stat.Panel(), said, unit, queries, instant=True)
        .span(width)
        .height(5)
        .color_scheme(_fixed(GREY))
        .color_mode(drawn.BigValueColorMode.VALUE)
        .graph_mode(drawn.BigValueGraphMode.NONE)
        .text_mode(drawn.BigValueTextMode.VALUE_AND_NAME)
        .orientation(drawn.VizOrientation.HORIZONTAL)
    )


def ranking(said: Said, unit: str, *queries: Query, width: int = 8) -> bargauge.Panel:
    """Return a bar a series, of one colour, each with its name."""
    return (
        _opened(bargauge.Panel(), said, unit, queries, instant=True)
        .span(width)
        .color_scheme(_fixed(BLUE))
        .min(0)
        .display_mode(drawn.BarGaugeDisplayMode.BASIC)
        .orientation(drawn.VizOrientation.HORIZONTAL)
        .no_value("none")
    )


def columns(said: Said, queries: Sequence[tuple[str, str]], labels: dict[str, str]) -> table.Panel:
    """Return a table: a row for each set of labels, a column for each query.

    Args:
        said: What stands above it.
        queries: Column name and expression.
        labels: Label -> its column's name, in order.
    """
    asked_for = [Query(expression) for _, expression in queries]
    panel = _opened(table.Panel(), said, COUNT, asked_for, instant=True).span(WIDTH)
    values = {f"Value #{_letter(at)}": name for at, (name, _) in enumerate(queries)}
    order = {name: at for at, name in enumerate((*labels, *values))}
    panel.with_transformation(model.DataTransformerConfig(id_val="merge", options={}))
    panel.with_transformation(
        model.DataTransformerConfig(
            id_val="organize",
            options={
                "excludeByName": {"Time": True},
                "indexByName": order,
                "renameByName": {**labels, **values},
            },
        )
    )
    return panel.height(6).decimals(0).show_header(show_header=True)


def coloured(panel: timeseries.Panel, names: Sequence[str]) -> timeseries.Panel:
    """Give each name a colour, and those beyond the palette the same colours dashed."""
    for at, name in enumerate(names):
        properties = [_as_value("color", {"mode": "fixed", "fixedColor": COLOURS[at % 7]})]
        if at >= len(COLOURS):
            dashed = {"fill": "dash", "dash": [8, 6]}
            properties.append(_as_value("custom.lineStyle", dashed))
        panel.override_by_regexp(f"/{name}$/", properties)
    return panel


def dashed(panel: timeseries.Panel, pattern: str) -> timeseries.Panel:
    """Draw the series of a name dashed and grey: a yardstick, not a result."""
    return panel.override_by_regexp(
        pattern,
        [
            _as_value("color", {"mode": "shades", "fixedColor": GREY}),
            _as_value("custom.lineStyle", {"fill": "dash", "dash": [8, 6]}),
        ],
    )


def _graph(said: Said, unit: str, queries: Sequence[Query], width: int) -> timeseries.Panel:
    legend = (
        common.VizLegendOptions()
        .show_legend(show_legend=True)
        .display_mode(drawn.LegendDisplayMode.LIST)
        .placement(drawn.LegendPlacement.BOTTOM)
    )
    tooltip = common.VizTooltipOptions().mode(drawn.TooltipDisplayMode.MULTI)
    return (
        _opened(timeseries.Panel(), said, unit, queries)
        .span(width)
        .legend(legend)
        .tooltip(tooltip.sort(drawn.SortOrder.DESCENDING))
        .show_points(drawn.VisibilityMode.AUTO)
        .color_scheme(
            dashboard.FieldColor().mode(model.FieldColorModeId.SHADES).fixed_color(COLOURS[2])
        )
    )


def _opened(
    panel: DrawnT,
    said: Said,
    unit: str,
    queries: Sequence[Query],
    *,
    instant: bool = False,
) -> DrawnT:
    panel.title(said.title).description(said.description).datasource(SOURCE).unit(unit)
    panel.height(HEIGHT)
    for at, query in enumerate(queries):
        target = prometheus.Dataquery().ref_id(_letter(at)).expr(query.expression)
        target.datasource(SOURCE).editor_mode(asked.QueryEditorMode.CODE)
        target.legend_format(query.legend).exemplar(query.exemplars)
        if instant:
            target.instant()
        else:
            target.range()
        if isinstance(panel, table.Panel):
            target.format(asked.PromQueryFormat.TABLE)
        panel.with_target(target)
    for arm, colour in ARM_COLOURS.items():
        mode = {"mode": "shades", "fixedColor": colour}
        panel.override_by_regexp(f"/^{arm.value}/", [_as_value("color", mode)])
    return panel


def _fixed(colour: str) -> dashboard.FieldColor:
    return dashboard.FieldColor().mode(model.FieldColorModeId.FIXED).fixed_color(colour)


def _as_value(property_: str, value: object) -> model.DynamicConfigValue:
    return model.DynamicConfigValue(id_val=property_, value=value)


def _letter(at: int) -> str:
    return "ABCDEFGHIJ"[at]
