"""One pair: what came of it, why, the effects, and both runs beside each other."""

from __future__ import annotations

from collections.abc import Sequence

from otel_turnavoid.pages import links
from otel_turnavoid.pages.frame import frame
from otel_turnavoid.pages.section import facts, section
from otel_turnavoid.publish.explanation import (
    Explanation,
    Figures,
    NullExplained,
    PairExplained,
    RunExplained,
    Why,
)
from otel_turnavoid.publish.explanation_text import verdict_sentence, verdict_words
from otel_turnavoid.publish.figures import counted, of
from otel_turnavoid.publish.layout import clean, moment
from otel_turnavoid.publish.markup import Child, Html, element
from otel_turnavoid.publish.timeline import effects_table, run_timeline

MOST_ENTRIES = 100
"""Entries shown of each run."""


def pair_page(found: Explanation, *, jaeger_url: str | None, said: str) -> str:
    """Return the page of the one pair, or of the two controls, in an explanation.

    Args:
        found: What was decided about it, and its runs as far as they are kept.
        jaeger_url: Where Jaeger shows traces, if it is known.
        said: What the footer says.
    """
    runs = {run.run_id: run for run in found.runs}
    if found.nulls:
        return _null_page(found.nulls[0], runs, jaeger_url, said)
    pair = found.pairs[0]
    sides = (("Control", pair.control), (f"Candidate ({pair.arm})", pair.candidate))
    return frame(
        f"Pair {pair.number}: {verdict_words(pair.verdict)}",
        element("p", "Pair ", counted(pair.number), class_="over"),
        element("h1", _capital(verdict_words(pair.verdict))),
        element("p", verdict_sentence(pair), class_="lead"),
        _contradicted(pair),
        _why(pair),
        section("Required effects", effects_table(pair.effects), name="effects"),
        _beside(sides, runs, jaeger_url),
        _details(pair, runs),
        _neighbours(pair.number),
        asked=str(pair.number),
        said=said,
    )


def _null_page(
    null: NullExplained, runs: dict[str, RunExplained], jaeger_url: str | None, said: str
) -> str:
    sides = (("First control", null.first), ("Second control", null.second))
    return frame(
        f"Decision {null.number}: two controls",
        element("p", "Decision ", counted(null.number), class_="over"),
        element("h1", "Two controls: noise"),
        element(
            "p",
            f"Of the same input the first run took {_turns(null.first_turns)} and the second"
            f" {_turns(null.second_turns)}: {counted(null.avoided)} avoided and"
            f" {counted(null.added)} added by chance.",
            class_="lead",
        ),
        _beside(sides, runs, jaeger_url),
        said=said,
    )


def _why(pair: PairExplained) -> Html:
    if not pair.why:
        return section(
            "What was found to be in order",
            element("ul", *(element("li", clean(line)) for line in pair.for_credit)),
            name="why",
            kind="verdict honest" if pair.verdict.avoided else None,
        )
    said = pair.verdict
    title = "Why this was withheld" if said.potential else "What would withhold a credit"
    return section(
        title,
        element("ol" if len(pair.why) > 1 else "ul", *map(why_item, pair.why), class_="reasons"),
        name="why",
        kind="verdict",
    )


def why_item(why: Why) -> Html:
    """Return one cause as an item of a list: in words, as found, and what is wanted."""
    return element(
        "li",
        element("h3", element("code", why.cause)),
        element("p", f"{_capital(why.what)}."),
        facts(
            (
                *(("Found", clean(line)) for line in why.found),
                ("Wanted", why.wanted),
            )
        ),
    )


def _contradicted(pair: PairExplained) -> Html | None:
    if pair.contradicted_ns is None:
        return None
    today = (
        "Today one of its runs would not be compared at all."
        if pair.today is None
        else f"Today it would be: {verdict_words(pair.today)}{_causes(pair.today)}."
    )
    return element(
        "p",
        f"Contradicted since {moment(pair.contradicted_ns)}: later evidence speaks against this"
        f" verdict, which stays as it is. {today}",
        class_="warning",
    )


def _causes(said: Figures) -> str:
    return f" ({', '.join(said.causes)})" if len(said.causes) > 1 else ""


def _beside(
    sides: Sequence[tuple[str, str]], runs: dict[str, RunExplained], jaeger_url: str | None
) -> Html:
    known = [runs[run_id].took_ms for _, run_id in sides if run_id in runs]
    scale_ms = max(known, default=0.0)
    return section(
        "The two runs",
        element(
            "div",
            *(
                _side(title, run_id, runs.get(run_id), scale_ms, jaeger_url)
                for title, run_id in sides
            ),
            class_="beside",
        ),
        name="the-runs",
        note="On one scale of time. Figures of the verdict are final; entries are as the ledger has"
        " them now.",
    )


def _side(
    title: str, run_id: str, run: RunExplained | None, scale_ms: float, jaeger_url: str | None
) -> Html:
    if run is None:
        return element(
            "div",
            element("h3", title, " ", element("code", clean(run_id))),
            element("p", "Its evidence is no longer kept."),
        )
    return element(
        "div",
        run_timeline(run, title, scale_ms=scale_ms, most=MOST_ENTRIES, level=3),
        element(
            "p", element("a", "All about this run", href=links.run_path(run.run_id)), class_="facts"
        ),
        _traces(run, jaeger_url),
    )


def _traces(run: RunExplained, jaeger_url: str | None) -> Html:
    return element(
        "ul",
        *(
            element("li", "trace ", *links.trace_links(trace_id, jaeger_url))
            for trace_id in run.trace_ids
        ),
        class_="facts traces",
    )


def _details(pair: PairExplained, runs: dict[str, RunExplained]) -> Html:
    said = pair.verdict
    run = runs.get(pair.candidate) or runs.get(pair.control)
    named: list[tuple[str, Child]] = [
        ("decided", f"{moment(pair.decided_ns)}; verdicts are final"),
        (
            "turns",
            (
                f"control {_turns(said.control_turns)}, candidate {_turns(said.candidate_turns)}:"
                f" potential {said.potential} = avoided {said.avoided} + withheld {said.withheld};"
                f" added {said.added}"
            ),
        ),
        ("control", links.run_link(pair.control)),
        ("candidate", links.run_link(pair.candidate)),
        ("arm", pair.arm),
        ("variant", clean(pair.variant or "")),
        ("mechanism", pair.mechanism),
        ("lifecycle", pair.lifecycle),
        ("reason", pair.reason),
        ("comparison", pair.comparison),
    ]
    if run is not None:
        named += [
            ("experiment", clean(run.experiment)),
            ("unit", clean(run.unit)),
            ("turn index", str(run.turn_index)),
            ("input", run.digest),
        ]
    return section("Details", facts(named), name="details")


def _neighbours(number: int) -> Html:
    return element(
        "p",
        element("a", "Pairs decided before this one", href=f"{links.PAIRS}?before={number}"),
    )


def _turns(turns: int | None) -> str:
    return "an unknown number of turns" if turns is None else of(turns, "turn")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
