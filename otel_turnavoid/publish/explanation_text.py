"""An explanation as plain text: what was decided first, then why, then everything behind it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from otel_turnavoid.judge.calls import Rule
from otel_turnavoid.publish.causes import STANDS
from otel_turnavoid.publish.explanation import (
    EffectsCompared,
    EntryLine,
    Explanation,
    Figures,
    NullExplained,
    PairExplained,
    RunExplained,
    TurnLine,
    Why,
)
from otel_turnavoid.publish.layout import clean, count, duration, fields, moment, paragraph, table
from otel_turnavoid.vocabulary import UNCHANGED, Arm, Outcome

_SHOWN: Final = 200
"""Entries and turns of one run that are written; JSON has all of them."""

_GAP_SHOWN: Final = 8
"""Numbers of one gap that are written."""

RULES: Final = {
    Rule.NESTED: "one lies in the other, with no other entry between them",
    Rule.INSIDE_OURS: "it lies inside that call in time and trace, with no parent that is known",
    Rule.RESPONSE_ID: "two instrumentations at the same time saw one response id",
    Rule.TOOL_CALL_ID: "two instrumentations at the same time saw one tool call id",
    Rule.TIME_AND_USAGE: "one lies in the other's time, from another instrumentation, and both"
    " state the same usage",
    Rule.TIME_AND_NAME: "one lies in the other's time, from another instrumentation, and both"
    " name the same tool",
}
"""How spans are known to show one call, in words."""


_WORDS: Final = (
    ("run", "everything that one start of the agent (an Invoke) caused, sub-agents included"),
    (
        "committed turn",
        (
            "an AgentTurn with a successful model answer that was not thrown away;"
            " retries of one input and calls for other purposes are no turns"
        ),
    ),
    ("control, candidate", "the run without and the run with the change, on the same input"),
    ("required effect", "what an independent observer saw of the control in the outside world"),
    ("withheld", "turns that disappeared and earn nothing, because something is not proven"),
)


def explanation_text(explanation: Explanation) -> str:
    """Return an explanation as text that ends with a newline."""
    parts = [
        *([paragraph(clean(explanation.note), "", "")] if explanation.note else []),
        *map(_pair, explanation.pairs),
        *map(_null, explanation.nulls),
        *map(_run, explanation.runs),
    ]
    return "\n\n".join("\n".join(part) for part in (*parts, _glossary())) + "\n"


def _glossary() -> Iterator[str]:
    yield "Words"
    yield from fields(*_WORDS)


def _pair(pair: PairExplained) -> Iterator[str]:
    said = pair.verdict
    variant = f", variant {clean(pair.variant)}" if pair.variant else ""
    yield f"{clean(pair.control)} with {clean(pair.candidate)} ({pair.arm}{variant})"
    yield f"  {verdict_words(said)}"
    yield ""
    yield from paragraph(verdict_sentence(pair), "  ", "  ")
    yield ""
    yield from fields(
        ("verdict", f"{pair.number}, decided {moment(pair.decided_ns)}; verdicts are final"),
        ("turns", _turns(said)),
        (
            "the change",
            f"mechanism {pair.mechanism}, lifecycle {pair.lifecycle}, reason {pair.reason}",
        ),
    )
    if pair.comparison is not None:
        yield "  The configuration lets these two be compared although they differ"
        yield f"  ({pair.comparison}); they count in series of their own."
    yield ""
    if pair.why:
        yield "  Why it earns nothing" if said.potential else "  What would withhold a credit"
        yield from _why(pair.why)
    else:
        yield "  What was found to be in order"
        yield from (f"    {clean(line)}" for line in pair.for_credit)
    yield ""
    yield from _effects(pair.effects)
    if pair.contradicted_ns is not None:
        yield ""
        yield from _contradicted(pair, pair.contradicted_ns)


def verdict_words(said: Figures) -> str:
    """Return what came of a pair, in a few words."""
    if said.control_turns is None or said.candidate_turns is None:
        return "nothing to credit: the spans of one run cannot tell its turns"
    if said.avoided:
        return f"{count(said.avoided, 'model turn')} avoided"
    if said.withheld:
        others = f" (and {len(said.causes) - 1} more)" if len(said.causes) > 1 else ""
        return f"{count(said.withheld, 'model turn')} withheld: {said.causes[0]}{others}"
    if said.added:
        return f"{count(said.added, 'model turn')} added"
    return "no difference in model turns"


def verdict_sentence(pair: PairExplained) -> str:
    """Return the verdict for somebody who has never seen the program."""
    said = pair.verdict
    if said.control_turns is None or said.candidate_turns is None:
        return "How many model turns the candidate did without cannot be told."
    if said.added:
        return (
            "On the same input the candidate needed more committed model turns than the control:"
            " turns added, which is published and never set off against turns avoided."
        )
    if not said.potential:
        return "On the same input both runs needed equally many committed model turns."
    fewer = (
        "On the same input the candidate needed"
        f" {count(said.potential, 'committed model turn')} fewer than the control"
    )
    if said.withheld:
        return f"{fewer}. That earns nothing, because {pair.why[0].what}."
    return f"{fewer}, and an independent observer saw the same required effects of both runs."


def _turns(said: Figures) -> str:
    return (
        f"control {_known(said.control_turns)}, candidate {_known(said.candidate_turns)}:"
        f" potential {said.potential} = avoided {said.avoided} + withheld {said.withheld};"
        f" added {said.added}"
    )


def _contradicted(pair: PairExplained, since_ns: int) -> Iterator[str]:
    yield f"  Contradicted since {moment(since_ns)}: later evidence speaks against this verdict."
    yield "    The verdict stays as it is and is counted in turnavoid.verdicts.contradicted."
    if pair.today is None or pair.today_effects is None:
        yield "    Today one of its runs would not be compared at all."
        return
    yield f"    Today it would be: {verdict_words(pair.today)}."
    if len(pair.today.causes) > 1:
        yield f"    Its causes: {', '.join(pair.today.causes)}."
    yield f"    {_turns(pair.today)}"
    if pair.today_effects != pair.effects:
        yield from ("  " + line for line in _effects(pair.today_effects))


def _why(reasons: Sequence[Why]) -> Iterator[str]:
    for why in reasons:
        yield from paragraph(f"{why.cause}: {why.what}", "    ", "      ")
        for line in why.found:
            yield from paragraph(f"found   {clean(line)}", "      ", " " * 14)
        if why.wanted:
            yield from paragraph(f"wanted  {why.wanted}", "      ", " " * 14)


def _effects(compared: EffectsCompared) -> Iterator[str]:
    if compared.observer is None:
        yield "  Required effects: nobody's observation of the control counts"
        if compared.candidate:
            yield f"    after the candidate: {', '.join(map(clean, compared.candidate))}"
        return
    yield f"  Required effects, as {clean(compared.observer)} saw them"
    if not compared.compared:
        yield f"    after the control: {', '.join(map(clean, compared.control)) or 'none'}"
        yield "    not compared: nobody whose observation counts looked at both runs"
        return
    labels = sorted({*compared.control, *compared.candidate})
    if not labels:
        yield "    none, after either run"
        return
    rows = [("control", "candidate", "effect")]
    rows += [
        (
            "seen" if label in compared.control else "-",
            "seen" if label in compared.candidate else "MISSING",
            clean(label),
        )
        if label in compared.control
        else ("-", "ADDED", clean(label))
        for label in labels
    ]
    yield from table(rows, "    ")
    unchanged = [label.endswith(f"={UNCHANGED}") for label in compared.control]
    if unchanged and all(unchanged):
        yield "    Nothing else was asked for: an agent that does nothing passes here."


def _null(null: NullExplained) -> Iterator[str]:
    yield f"{clean(null.first)} with {clean(null.second)} (two controls: noise)"
    yield (
        f"  {_known(null.first_turns)} and {_known(null.second_turns)} turns:"
        f" {null.avoided} avoided, {null.added} added by chance; decision {null.number}"
    )


def _run(run: RunExplained) -> Iterator[str]:
    side = "control" if run.arm is Arm.CONTROL else run.arm or "no arm"
    variant = f", variant {clean(run.variant)}" if run.variant else ""
    yield f"Run {clean(run.run_id)} ({side}{variant})"
    yield f"  {standing(run)}"
    yield ""
    key = [f"experiment {clean(run.experiment)}"] if run.experiment else []
    key += [f"unit {clean(run.unit)}"] if run.unit else []
    yield from fields(
        ("began", f"{moment(run.start_ns)}, took {duration(run.took_ms)}"),
        ("ended as", run.state or "not ended, as far as was seen"),
        ("input", run.digest or "no usable digest"),
        ("compared in", ", ".join((*key, f"turn index {run.turn_index}")) if run.digest else "-"),
        ("says", f"mechanism {run.mechanism}, lifecycle {run.lifecycle}, reason {run.reason}"),
        ("evidence", run.evidence),
        ("ran as", "; ".join(map(clean, run.services))),
        ("traces", ", ".join(run.trace_ids)),
    )
    if run.why:
        yield ""
        yield "  Why it is in no pair"
        yield from _why(run.why)
    yield ""
    yield from _entries(run)
    yield ""
    yield from _counting(run)
    if run.unknown:
        yield ""
        yield "  What the spans cannot tell"
        for line in run.unknown:
            yield from paragraph(clean(line), "    ", "      ")
    yield ""
    yield from _declared(run)
    yield ""
    yield from _observed(run)


def standing(run: RunExplained) -> str:
    """Return where a run stands, in one line."""
    if run.outcome is None:
        return "just arrived: the processor has not looked at it yet"
    settled = " (final)" if run.final and run.outcome is not Outcome.PAIRED else ""
    return f"{run.outcome}{settled}: {STANDS[run.outcome].what}"


def _entries(run: RunExplained) -> Iterator[str]:
    yield "  Entries, in order"
    several = len(run.trace_ids) > 1
    foreign = len({entry.scope for entry in run.entries}) > 1
    heading = ["seq", "entry", "name", "became", "at", "took", "span"]
    rows = [(*heading, *(["trace"] * several), *(["scope"] * foreign))]
    expected = 0
    for entry in run.entries[:_SHOWN]:
        if entry.seq is not None:
            gap = "never arrived"
            lost = [(str(seq), gap) for seq in range(expected, entry.seq)]
            rows += [(*each, *[""] * (len(rows[0]) - 2)) for each in lost[:_GAP_SHOWN]]
            expected = entry.seq + 1
        rows.append(_entry(entry, several=several, foreign=foreign))
    yield from table(rows, "    ", numbers=(0, 4, 5))
    if len(run.entries) > _SHOWN:
        yield f"    … and {len(run.entries) - _SHOWN} more; --json has all"


def _entry(entry: EntryLine, *, several: bool, foreign: bool) -> tuple[str, ...]:
    cells = [
        "-" if entry.seq is None else str(entry.seq),
        entry.entry,
        clean(entry.name) or "-",
        clean(entry.became) or "-",
        duration(entry.at_ms),
        duration(entry.took_ms),
        entry.span_id,
    ]
    return (*cells, *([entry.trace_id] if several else []), *([clean(entry.scope)] * foreign))


def _counting(run: RunExplained) -> Iterator[str]:
    counted = "cannot be told from the spans" if run.model_turns is None else str(run.model_turns)
    yield f"  How turns were counted: {counted}{' committed' * (run.model_turns is not None)}"
    for turn in run.turns[:_SHOWN] if run.model_turns is not None else ():
        yield from _turn(turn)
    if len(run.turns) > _SHOWN:
        yield f"    … and {len(run.turns) - _SHOWN} more; --json has all"
    if run.merged:
        yield ""
        yield "  Spans that show one and the same call: counted once"
    for (of, scope), merges in groupby(run.merged, lambda each: (each.of, each.scope)):
        for copy in (copy for merged in merges for copy in merged.copies):
            yield from paragraph(
                f"{of} ({clean(scope)}) = span {copy.span_id} ({clean(copy.scope)})"
                f": {RULES[copy.rule]}",
                "    ",
                "      ",
            )
    if run.repeated:
        yield ""
        entries = "1 entry" if run.repeated == 1 else f"{run.repeated} entries"
        yield f"  {entries} came again under another span id, and counted once"


def _turn(turn: TurnLine) -> Iterator[str]:
    number = "no turn" if turn.number is None else f"turn {turn.number}"
    yield from paragraph(f"{number:<9}{turn.of}: {turn.because}", "    ", " " * 15)
    if len(turn.calls) > 1 or turn.number is None:
        for call in turn.calls:
            attempt = f", attempt {call.attempt}" if call.attempt is not None else ""
            model = f" {clean(call.model)}" if call.model else ""
            yield f"{'':15}{call.of}{model}{attempt}: {call.became}"


def _declared(run: RunExplained) -> Iterator[str]:
    counts = run.declared
    if counts is None:
        yield "  Declared at its end: nothing, so nothing proves that all of it arrived"
    else:
        yield (
            f"  Declared at its end: {count(counts.agent_turns, 'AgentTurn')},"
            f" {count(counts.llm_calls, 'LlmCall')}, {count(counts.tool_turns, 'ToolTurn')},"
            f" {counts.entries} {'entry' if counts.entries == 1 else 'entries'}"
        )
        if not run.missing:
            yield "    all of them arrived"
    yield from (f"    missing: {clean(line)}" for line in run.missing)
    told = {*run.missing, *(line for why in run.why for line in why.found)}
    others = [line for line in run.problems if line not in told]
    if others:
        yield ""
        yield "  What speaks against it"
        for line in others:
            yield from paragraph(clean(line), "    ", "      ")


def _observed(run: RunExplained) -> Iterator[str]:
    if not run.observations:
        yield "  Observations: none names this run"
        return
    yield "  Observations"
    for seen in run.observations:
        who = (
            f"{seen.service or '(no service.name)'} / {seen.instance or '(no service.instance.id)'}"
        )
        when = f"{duration(seen.at_ms)} after it began"
        if seen.at_ms < 0:
            when = f"{duration(-seen.at_ms)} before it began"
        elif seen.at_ms > run.took_ms:
            when = f"{duration(seen.at_ms - run.took_ms)} after it ended"
        counts = "counts" if seen.counts else f"does not count: {clean(seen.problem)}"
        yield from paragraph(
            f"{clean(seen.observer)} as {clean(who)}, {when}: {counts}",
            "    ",
            "      ",
        )
        if seen.ordered:
            yield "      in this order:"
        for label in seen.effects or ("no effect at all",):
            yield f"      {clean(label)}"


def _known(turns: int | None) -> str:
    return "unknown" if turns is None else str(turns)
