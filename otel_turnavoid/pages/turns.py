"""The account of turns: by series, beside the noise, and what was withheld for which cause."""

from __future__ import annotations

from typing import NamedTuple

from otel_turnavoid.pages.asked import Asked, Result
from otel_turnavoid.pages.by_series import MOST, BySeries, Name, cells, columns
from otel_turnavoid.pages.section import section
from otel_turnavoid.pages.table import cards, table
from otel_turnavoid.publish.charts import Bar, Bars, bar_chart
from otel_turnavoid.publish.figures import counted, share, signed
from otel_turnavoid.publish.markup import Child, Html, element
from otel_turnavoid.publish.series_sections import CAUSES
from otel_turnavoid.vocabulary import CANDIDATE_ARMS, Attr, Metric, WithheldCause


class _Turns(NamedTuple):
    """The turns of one series."""

    name: Name
    pairs: int
    avoided: int
    added: int
    withheld: int

    @property
    def net(self) -> str:
        return signed(self.avoided - self.added)

    @property
    def withheld_share(self) -> float | None:
        gone = self.avoided + self.withheld
        return self.withheld / gone if gone else None


def turns(found: BySeries) -> Html:
    """Return the turns of every series, side by side and never added."""
    every = _every(found)
    if not every:
        return section(
            "Turns",
            element(
                "p",
                "No pair of a control and a candidate run has been decided yet, so there is"
                " nothing to credit and nothing to withhold.",
            ),
            name="turns",
        )
    apart = columns(each.name for each in every)
    rest = len(every) - MOST
    return section(
        "Turns",
        bar_chart(
            "Turns avoided, added and withheld, by series", [_bars(each) for each in every[:MOST]]
        ),
        table(
            "Turns by series",
            (*apart, "pairs", "avoided", "added", "net", "withheld", "share withheld"),
            [[*cells(each.name, apart), *_row(each)] for each in every[:MOST]],
            words=len(apart),
        ),
        element("p", f"… and {counted(rest)} more series: turnavoid report has all.")
        if rest > 0
        else None,
        name="turns",
        note="A turn that a candidate did without is avoided only if the change was realized and an"
        " independent observer saw the control's effects; otherwise it is withheld. Net is avoided"
        " less added. The share is that of the turns that disappeared. Series share their"
        " controls: do not add them.",
    )


def noise(found: BySeries) -> Html:
    """Return what equal controls "avoid" by chance, beside what candidates avoid."""
    floors = [
        _Turns(
            name,
            found.count(Metric.NULL_PAIRS, name),
            found.count(Metric.NULL_AVOIDED, name),
            found.count(Metric.NULL_ADDED, name),
            0,
        )
        for name in found.names(Metric.NULL_PAIRS)
    ]
    if not floors:
        return section(
            "Noise",
            element(
                "p",
                "Unknown: no two control runs of one input were compared. Run some inputs twice as"
                " control, or nothing tells a saving from chance.",
            ),
            name="noise",
        )
    return section(
        "Noise",
        table(
            "Turns per pair: the floor first, then every series",
            ("pairs of", "pairs", "avoided per pair", "added per pair"),
            [_noise_row(each) for each in (*floors, *_every(found)[:MOST])],
        ),
        name="noise",
        note="Equal runs differ by chance, and clipping each pair at zero turns chance into credit."
        ' What equal controls "avoid" per pair is the floor below which a saving means nothing.'
        " How sure a mean is, turnavoid report says.",
    )


def causes(found: BySeries) -> Html | None:
    """Return why turns were withheld, each cause with the way to its pairs."""
    rows: list[list[Child]] = []
    for cause in WithheldCause:
        for name in found.names(Metric.TURNS_WITHHELD):
            withheld = found.count(Metric.TURNS_WITHHELD, name, (Attr.WITHHELD_CAUSE, cause.value))
            if withheld:
                asked = _asked(name)._replace(cause=cause, result=Result.WITHHELD)
                named = f"{cause}: the pairs of {name.words}"
                link = element("a", cause.value, href=asked.path(), aria_label=named)
                rows.append([link, CAUSES[cause], name.words, counted(withheld)])
    if not rows:
        return None
    rest = len(rows) - MOST
    every = element("a", "all withheld pairs", href=Asked(result=Result.WITHHELD).path())
    return section(
        "Why turns were withheld",
        cards(
            "Withheld turns by the first cause of their pair",
            ("cause", "which means", "series", "turns"),
            rows[:MOST],
        ),
        element("p", f"… and {counted(rest)} more: ", every) if rest > 0 else None,
        name="causes",
        note="Follow a cause to the pairs it was found in; each says what was seen, and what would"
        " have to be true for credit.",
    )


def _every(found: BySeries) -> list[_Turns]:
    return [
        _Turns(
            name,
            found.count(Metric.PAIRS_DECIDED, name),
            found.count(Metric.TURNS_AVOIDED, name),
            found.count(Metric.TURNS_ADDED, name),
            found.count(Metric.TURNS_WITHHELD, name),
        )
        for name in found.names(Metric.PAIRS_DECIDED)
    ]


def _bars(each: _Turns) -> Bars:
    figures = (
        ("avoided", each.avoided),
        ("added", each.added),
        ("withheld", each.withheld),
    )
    return Bars(
        f"{each.name.words}: net {each.net}",
        tuple(Bar(kind, value, counted(value), kind) for kind, value in figures),
    )


def _row(each: _Turns) -> list[Child]:
    asked = _asked(each.name)
    return [
        _link(each.pairs, asked, "pairs", each.name),
        _link(each.avoided, asked._replace(result=Result.AVOIDED), "turns avoided", each.name),
        _link(each.added, asked._replace(result=Result.ADDED), "turns added", each.name),
        each.net,
        _link(each.withheld, asked._replace(result=Result.WITHHELD), "turns withheld", each.name),
        share(each.withheld_share),
    ]


def _link(value: int, asked: Asked, what: str, name: Name) -> Child:
    """Return a figure that leads to the pairs behind it, if it is any."""
    if not value:
        return "0"
    said = f"{counted(value)} {what}: the pairs of {name.words}"
    return element("a", counted(value), href=asked.path(), aria_label=said)


def _noise_row(each: _Turns) -> list[Child]:
    name = each.name
    of_what = name.words if name.arm else f"controls ({name._replace(arm='').words.strip(' ()')})"
    return [
        of_what,
        counted(each.pairs),
        f"{each.avoided / max(each.pairs, 1):.2f}",
        f"{each.added / max(each.pairs, 1):.2f}",
    ]


def _asked(name: Name) -> Asked:
    """Return what leads to the pairs of an arm and variant."""
    arms = {arm.value: arm for arm in CANDIDATE_ARMS}
    return Asked(arm=arms.get(name.arm), variant=name.variant or None)
