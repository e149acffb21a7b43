"""The largest pairs on a report's page, with their runs beside each other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from otel_turnavoid.publish.explanation import EffectsCompared, Explanation
from otel_turnavoid.publish.figures import counted
from otel_turnavoid.publish.largest import Comparison, Kind, LargestRows
from otel_turnavoid.publish.layout import clean
from otel_turnavoid.publish.markup import Child, Html, element
from otel_turnavoid.publish.timeline import (
    causes_list,
    effects_table,
    pair_timelines,
    turns_strip,
)

_ENTRIES: Final = 40
"""Entries shown of each run."""


class Shown(NamedTuple):
    """The largest pairs of one kind, as ``explain`` found them."""

    kind: Kind
    pairs: tuple[Explanation, ...]


def pairs_section(shown: Iterable[Shown]) -> list[Html]:
    """Return the largest pairs of each kind, with timelines."""
    return [
        part
        for kind, pairs in shown
        for part in (element("h3", kind.title), *(_pair(each) for each in pairs))
    ]


def rows_section(largest: Iterable[LargestRows]) -> list[Html]:
    """Return the largest rows of each kind; of their runs only the counts are known."""
    return [
        part
        for kind, rows in largest
        for part in (element("h3", kind.title), *(_row(each) for each in rows))
    ]


def _pair(explained: Explanation) -> Html:
    pair = explained.pairs[0]
    runs = {run.run_id: run for run in explained.runs}
    control, candidate = runs.get(pair.control), runs.get(pair.candidate)
    variant = f", {clean(pair.variant)}" if pair.variant else ""
    found = pair.verdict
    heading = element(
        "p",
        element("b", f"{_known(found.control_turns)} → {_known(found.candidate_turns)} turns"),
        f": {_amounts(found.avoided, found.withheld, found.added)} ({pair.arm}{variant}). ",
        element("code", f"{clean(pair.control)} / {clean(pair.candidate)}"),
    )
    if control is None or candidate is None:
        return _framed(heading, effects_table(pair.effects), causes_list(pair))
    return _framed(heading, pair_timelines(pair, control, candidate, most=_ENTRIES))


def _row(each: Comparison) -> Html:
    row = each.row
    seen = row.required_effect_observation
    control, candidate = set(seen.control_required), set(seen.candidate_required)
    effects = EffectsCompared(
        observer=seen.independent_observer,
        compared=True,
        control=seen.control_required,
        candidate=seen.candidate_required,
        missing=tuple(sorted(control - candidate)),
        added=tuple(sorted(candidate - control)),
    )
    return _framed(
        element(
            "p",
            element("b", _amounts(each.avoided, each.withheld, each.added)),
            f" ({row.arm}; {row.mechanism}, {row.lifecycle}, {row.reason}). ",
            element("code", f"{clean(row.trace_id)} / {clean(row.unit_id)} / {row.turn_index}"),
        ),
        element(
            "div",
            _side("Control", row.control_committed_model_turns, "control"),
            _side("Candidate", row.candidate_committed_model_turns, "candidate"),
            class_="beside",
        ),
        effects_table(effects),
    )


def _side(title: str, turns: int, kind: str) -> Html:
    return element(
        "section", element("h4", title), turns_strip(turns, kind), class_="run", aria_label=title
    )


def _framed(*content: Child) -> Html:
    return element("div", *content, class_="pair")


def _amounts(avoided: int, withheld: int, added: int) -> str:
    named = (("avoided", avoided), ("withheld", withheld), ("added", added))
    return ", ".join(f"{counted(turns)} {name}" for name, turns in named if turns)


def _known(turns: int | None) -> str:
    return "unknown" if turns is None else counted(turns)
