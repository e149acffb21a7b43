"""One run: where it stands and why, what was decided about it, and everything that was seen."""

from __future__ import annotations

from otel_turnavoid.pages import links
from otel_turnavoid.pages.frame import frame
from otel_turnavoid.pages.pair_page import why_item
from otel_turnavoid.pages.section import facts, section
from otel_turnavoid.pages.table import table
from otel_turnavoid.publish.explanation import Explanation, RunExplained, Seen
from otel_turnavoid.publish.explanation_text import standing, verdict_words
from otel_turnavoid.publish.figures import counted, of
from otel_turnavoid.publish.layout import clean, duration, moment
from otel_turnavoid.publish.markup import Child, Html, element
from otel_turnavoid.publish.timeline import run_timeline
from otel_turnavoid.vocabulary import Arm

MOST_ENTRIES = 500
"""Entries shown of the run."""

_MOST_VERDICTS = 100


def run_page(found: Explanation, *, jaeger_url: str | None, said: str) -> str:
    """Return the page of the one run in an explanation.

    Args:
        found: What was seen of it, and every decision about it.
        jaeger_url: Where Jaeger shows traces, if it is known.
        said: What the footer says.
    """
    run = found.runs[0]
    side = "control" if run.arm is Arm.CONTROL else run.arm or "no arm"
    variant = f", variant {clean(run.variant)}" if run.variant else ""
    return frame(
        f"Run {clean(run.run_id)}",
        element("p", f"Run ({side}{variant})", class_="over"),
        element("h1", clean(run.run_id)),
        element("p", standing(run), class_="lead"),
        _why(run),
        _verdicts(found),
        section(
            "What happened",
            run_timeline(run, "Entries of", most=MOST_ENTRIES, level=3),
            name="entries",
        ),
        _lines("What the spans cannot tell", "unknown", run.unknown),
        _lines("What speaks against it", "problems", run.problems),
        _observations(run),
        _details(run, jaeger_url),
        asked=run.run_id,
        said=said,
    )


def _why(run: RunExplained) -> Html | None:
    if not run.why:
        return None
    return section(
        "Why it is in no pair",
        element("ul", *map(why_item, run.why), class_="reasons"),
        name="why",
    )


def _verdicts(found: Explanation) -> Html | None:
    lines: list[list[Child]] = [
        [
            element("a", counted(pair.number), href=links.pair_path(pair.number)),
            links.run_link(
                pair.candidate if pair.control == found.runs[0].run_id else pair.control
            ),
            verdict_words(pair.verdict),
        ]
        for pair in found.pairs[:_MOST_VERDICTS]
    ]
    lines += [
        [
            element("a", counted(null.number), href=links.pair_path(null.number)),
            links.run_link(null.second if null.first == found.runs[0].run_id else null.first),
            f"noise: {counted(null.avoided)} avoided, {counted(null.added)} added by chance",
        ]
        for null in found.nulls[:_MOST_VERDICTS]
    ]
    if not lines:
        return None
    return section(
        "What it was compared with",
        table("Verdicts about this run", ("pair", "compared with", "verdict"), lines, words=3),
        name="verdicts",
    )


def _lines(title: str, name: str, lines: tuple[str, ...]) -> Html | None:
    if not lines:
        return None
    return section(title, element("ul", *(element("li", clean(line)) for line in lines)), name=name)


def _observations(run: RunExplained) -> Html:
    if not run.observations:
        return section(
            "Observations", element("p", "No observation names this run."), name="observations"
        )
    return section(
        "Observations",
        table(
            "What observers said of this run",
            ("observer", "ran as", "when", "counts", "effects"),
            [_observation(seen, run) for seen in run.observations],
            words=5,
        ),
        name="observations",
    )


def _observation(seen: Seen, run: RunExplained) -> list[Child]:
    if seen.at_ms < 0:
        when = f"{duration(-seen.at_ms)} before it began"
    elif seen.at_ms > run.took_ms:
        when = f"{duration(seen.at_ms - run.took_ms)} after it ended"
    else:
        when = f"{duration(seen.at_ms)} after it began"
    who = f"{seen.service or '(no service.name)'} / {seen.instance or '(no service.instance.id)'}"
    effects = (element("li", clean(label)) for label in seen.effects)
    return [
        clean(seen.observer),
        clean(who),
        when,
        "yes" if seen.counts else f"no: {clean(seen.problem)}",
        element("ol" if seen.ordered else "ul", *effects, class_="effects")
        if seen.effects
        else "no effect at all",
    ]


def _details(run: RunExplained, jaeger_url: str | None) -> Html:
    declared = run.declared
    return section(
        "Details",
        facts(
            (
                ("began", f"{moment(run.start_ns)}, took {duration(run.took_ms)}"),
                ("ended as", run.state or "not ended, as far as was seen"),
                ("evidence", run.evidence),
                (
                    "declared",
                    "nothing, so nothing proves that all of it arrived"
                    if declared is None
                    else f"{of(declared.agent_turns, 'agent turn')},"
                    f" {of(declared.llm_calls, 'call')}, {of(declared.tool_turns, 'tool turn')},"
                    f" {counted(declared.entries)} entries in all",
                ),
                *(("missing", clean(line)) for line in run.missing),
                ("mechanism", run.mechanism),
                ("lifecycle", run.lifecycle),
                ("reason", run.reason),
                ("experiment", clean(run.experiment)),
                ("unit", clean(run.unit)),
                ("turn index", str(run.turn_index)),
                ("input", run.digest or "no usable digest"),
                ("ran as", "; ".join(map(clean, run.services))),
                *(
                    ("trace", element("span", *links.trace_links(trace_id, jaeger_url)))
                    for trace_id in run.trace_ids
                ),
            )
        ),
        name="details",
    )
