"""One run as a timeline, and the two runs of a pair beside each other.

Pure: from what ``explain`` found to a fragment of a page, for reports and live pages alike. A
timeline is a list in the order of the run, so that it reads without its drawing; where the
spans have times, a drawing shows when turns, calls and tools took place. Give both runs of a
pair one ``scale_ms``, or the shorter one looks as long as the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from otel_turnavoid.publish.explanation import (
    EffectsCompared,
    EntryLine,
    PairExplained,
    RunExplained,
    TurnLine,
)
from otel_turnavoid.publish.figures import counted, of
from otel_turnavoid.publish.layout import clean, duration
from otel_turnavoid.publish.markup import Html, element
from otel_turnavoid.vocabulary import Entry

MOST_ENTRIES: Final = 60
"""Entries shown of one run, where nothing else is said."""

_LANES: Final = {Entry.AGENT_TURN: "turn", Entry.LLM_CALL: "call", Entry.TOOL_TURN: "tool"}
_NAMES: Final = {
    Entry.INVOKE: "Invoke",
    Entry.USER_TURN: "user turn",
    Entry.SYSTEM_TURN: "system turn",
    Entry.AGENT_TURN: "agent turn",
    Entry.LLM_CALL: "call",
    Entry.TOOL_TURN: "tool",
}
_LANE: Final = 14
"""Height of a lane, in pixels; a bar takes ten of them."""
_THIN: Final = 0.4
"""Percent of the width below which a bar would not be seen."""
_TIMED_MS: Final = 1.0
"""Runs that took less have no times: a record without any stands at its order only."""
_AS_USUAL: Final = frozenset({"", "committed", "executed", "completed"})
"""What needs no mention of an entry, because it is what one expects."""


class Step(NamedTuple):
    """One line of a timeline."""

    kind: str
    """``turn``, ``call``, ``tool`` or ``other``."""
    title: str
    """``Turn 3``, or what the entry is."""
    name: str
    """Of the agent, model or tool."""
    note: str
    """What is not as usual."""
    entry: EntryLine


def steps(run: RunExplained) -> Iterator[Step]:
    """Yield the entries of a run in order; a call or tool that several spans show comes once."""
    copies = {copy.span_id for each in run.merged for copy in each.copies}
    turns = {turn.of: turn for turn in run.turns}
    for entry in run.entries:
        if entry.span_id in copies:
            continue
        where = f"entry {entry.seq}" if entry.seq is not None else f"span {entry.span_id}"
        yield _step(entry, turns.get(where))


def _step(entry: EntryLine, turn: TurnLine | None) -> Step:
    title, kind = _NAMES[entry.entry], _LANES.get(entry.entry, "other")
    notes = [word for word in entry.became.split(", ") if word not in _AS_USUAL]
    if turn is not None and turn.number is not None:
        title, kind = f"Turn {turn.number}", "turn"
    elif turn is not None:
        notes.append(f"no turn: {turn.because}")
        kind = "other" if entry.entry is Entry.AGENT_TURN else kind
    return Step(kind, title, clean(entry.name), clean(", ".join(notes)), entry)


def run_timeline(
    run: RunExplained,
    title: str,
    *,
    scale_ms: float | None = None,
    most: int = MOST_ENTRIES,
    level: int = 4,
) -> Html:
    """Return one run as a ``section`` with its counts, its drawing and its entries.

    Args:
        run: As ``explain`` found it.
        title: What it is called, such as ``Control``.
        scale_ms: How long the drawing lasts; the run's own time where nothing is said.
        most: Entries to show.
        level: Of its heading.
    """
    found = list(steps(run))
    heading = f"{title} run {clean(run.run_id)}"
    rest = len(found) - most
    return element(
        "section",
        element(f"h{level}", title, " ", element("code", clean(run.run_id))),
        element("p", _summary(run), class_="facts"),
        _drawing(found, scale_ms if scale_ms is not None else run.took_ms),
        element("ol", *(_line(step, run) for step in found[:most]), class_="steps", role="list"),
        element("p", f"… and {counted(rest)} more: turnavoid explain {clean(run.run_id)}")
        if rest > 0
        else None,
        class_="run",
        aria_label=heading,
    )


def pair_timelines(
    pair: PairExplained, control: RunExplained, candidate: RunExplained, *, most: int = MOST_ENTRIES
) -> Html:
    """Return the two runs of a pair beside each other, on one scale, with effects and causes."""
    scale_ms = max(control.took_ms, candidate.took_ms)
    return element(
        "div",
        element(
            "div",
            run_timeline(control, "Control", scale_ms=scale_ms, most=most),
            run_timeline(candidate, f"Candidate ({pair.arm})", scale_ms=scale_ms, most=most),
            class_="beside",
        ),
        effects_table(pair.effects),
        causes_list(pair),
        class_="timelines",
    )


def causes_list(pair: PairExplained) -> Html | None:
    """Return every cause of a pair, with what was found; None where there is none."""
    if not pair.why:
        return None
    return element(
        "div",
        element(
            "p",
            "What was withheld, and why:"
            if pair.verdict.withheld
            else "What stands against a credit:",
        ),
        element(
            "ul",
            *(
                element(
                    "li",
                    element("code", why.cause),
                    f": {why.what}. ",
                    "; ".join(map(clean, why.found)),
                )
                for why in pair.why
            ),
        ),
        class_="causes",
    )


def effects_table(effects: EffectsCompared) -> Html:
    """Return both effect lists as a table, the difference in words."""
    control, candidate = set(effects.control), set(effects.candidate)
    labels = sorted(control | candidate)
    if not labels:
        return element("p", "No effect was observed in either run.")
    seen = f"Effects as {clean(effects.observer)} saw them" if effects.observer else "Effects"
    lines = (
        element(
            "tr",
            element("th", clean(label), scope="row"),
            element("td", "seen" if label in control else "-"),
            _cell(_side(label in control, label in candidate)),
        )
        for label in labels
    )
    head = ("effect", "control", "candidate")
    return element(
        "div",
        element(
            "table",
            element("caption", seen if effects.compared else f"{seen}, not compared"),
            element("thead", element("tr", *(element("th", one, scope="col") for one in head))),
            element("tbody", *lines),
        ),
        class_="scroll",
        role="region",
        aria_label=seen,
        tabindex="0",
    )


def turns_strip(turns: int, kind: str) -> Html:
    """Return turns as a row of squares, for runs of which nothing but the count is known."""
    shown = min(turns, MOST_ENTRIES)
    return element(
        "p",
        element(
            "span",
            *(element("i", "", class_=kind) for _ in range(shown)),
            class_="squares",
            aria_hidden="true",
        ),
        f" {of(turns, 'turn')}",
        class_="strip",
    )


def _cell(side: str) -> Html:
    return element("td", side, class_=side if side in ("missing", "added") else None)


def _side(in_control: bool, in_candidate: bool) -> str:  # noqa: FBT001 - two of a kind, in order
    if in_control:
        return "seen" if in_candidate else "missing"
    return "added"


def _summary(run: RunExplained) -> str:
    said = [_known(run.model_turns, "committed turn")]
    said += [_known(run.llm_calls, "call"), _known(run.tool_calls, "tool")]
    if run.took_ms >= _TIMED_MS:
        said.append(f"took {duration(run.took_ms)}")
    if run.state is not None and run.state not in _AS_USUAL:
        said.append(f"ended as {run.state}")
    return " · ".join(said)


def _known(count: int | None, noun: str) -> str:
    return f"{noun}s unknown" if count is None else of(count, noun)


def _line(step: Step, run: RunExplained) -> Html:
    entry = step.entry
    return element(
        "li",
        element("b" if step.kind == "turn" else "span", step.title, class_="what"),
        element("span", " ", step.name) if step.name else None,
        element("span", f" ({step.note})", class_="note") if step.note else None,
        element("span", f" {duration(entry.took_ms)}", class_="time")
        if run.took_ms >= _TIMED_MS
        else None,
        class_=step.kind,
    )


def _drawing(found: list[Step], scale_ms: float) -> Html | None:
    """Return when turns, calls and tools took place; None where the spans have no times."""
    timed = [step for step in found if step.entry.entry in _LANES]
    if scale_ms < _TIMED_MS or not any(step.entry.took_ms for step in timed):
        return None
    lanes = list(_LANES.values())
    bars = (
        element(
            "rect",
            x=f"{_place(step.entry.at_ms, scale_ms):.2f}%",
            y=lanes.index(_LANES[step.entry.entry]) * _LANE + 2,
            width=f"{max(_place(step.entry.took_ms, scale_ms), _THIN):.2f}%",
            height=_LANE - 4,
            class_=_LANES[step.entry.entry] + _lost(step.entry),
        )
        for step in timed
    )
    return element(
        "figure",
        element(
            "svg",
            *bars,
            class_="lanes",
            role="img",
            aria_label="Agent turns, calls and tools over time; listed below",
        ),
        element(
            "figcaption",
            element("span", "agent turns", class_="turn"),
            element("span", "calls", class_="call"),
            element("span", "tools", class_="tool"),
            f"over {duration(scale_ms)}",
        ),
        class_="drawing",
    )


def _lost(entry: EntryLine) -> str:
    return " lost" if entry.became.startswith(("failed", "discarded")) else ""


def _place(value_ms: float, scale_ms: float) -> float:
    return min(max(value_ms / scale_ms, 0.0), 1.0) * 100
