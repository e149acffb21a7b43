"""One run in words: its entries, how its turns were counted, what was missing, where it stands."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final

from otel_turnavoid.judge.calls import calls_of, tools_of
from otel_turnavoid.judge.chains import with_purposes
from otel_turnavoid.judge.completeness import last_invoke, missing, outermost_invokes
from otel_turnavoid.judge.facts import Observation, SpanFact
from otel_turnavoid.judge.observing import effects, independent, lost_attributes
from otel_turnavoid.judge.run import Run
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.judge.spans import SpanTree
from otel_turnavoid.judge.turns import turns_of
from otel_turnavoid.judge.verdict import RunDecided
from otel_turnavoid.publish.causes import REJECTED, STANDS
from otel_turnavoid.publish.explained_pair import not_independent_because, process_name
from otel_turnavoid.publish.explained_turns import merged_spans, turn_lines
from otel_turnavoid.publish.explained_unknown import unknown_lines
from otel_turnavoid.publish.explanation import (
    EntryLine,
    RunExplained,
    Seen,
    Why,
)
from otel_turnavoid.store.reading import Material, Record, RunLine
from otel_turnavoid.vocabulary import (
    Arm,
    Disposition,
    Entry,
    Outcome,
    Purpose,
    Rejection,
)

_MS: Final = 1_000_000
_PEERS_SHOWN: Final = 3


def explain_run(  # noqa: PLR0913 - knobs, each with a name
    run: Run,
    material: Material,
    *,
    outcome: Outcome | None,
    records: Sequence[Record] = (),
    peers: Sequence[RunLine] = (),
    settings: Settings,
) -> RunExplained:
    """Return what is known of one run.

    Args:
        run: The run as assembled from ``material``.
        material: Its facts, and every observation that names it.
        outcome: Where the ledger has it; None before it was assembled there.
        records: Every decision about it.
        peers: Runs of the same input, to say why none was compared with it.
        settings: By which the observations count.
    """
    tree = SpanTree(with_purposes(material.facts)[0])
    calls, tools = calls_of(tree), tools_of(tree)
    turns = turns_of(tree, calls)
    last = last_invoke(outermost_invokes(tree))
    counts = last.invoke.counts if last is not None and last.invoke is not None else None
    key = run.key
    return RunExplained(
        run_id=run.run_id,
        arm=run.arm,
        variant=run.variant,
        mechanism=run.mechanism,
        lifecycle=run.lifecycle,
        reason=run.reason,
        evidence=run.evidence,
        outcome=outcome,
        final=any(isinstance(record.decision, RunDecided) for record in records),
        state=run.state,
        start_ns=run.start_ns,
        took_ms=(run.end_ns - run.start_ns) / _MS,
        experiment=key.experiment if key else "",
        digest=key.digest if key else None,
        unit=key.unit if key else "",
        turn_index=key.turn_index if key else 0,
        trace_ids=run.trace_ids,
        services=tuple(process_name(*identity) for identity in run.identities),
        model_turns=run.model_turns,
        llm_calls=run.llm_calls,
        tool_calls=run.tool_calls,
        entries=tuple(
            _entry_line(fact, fact.entry, run.start_ns)
            for fact in _in_order(tree.facts)
            if fact.entry is not None
        ),
        turns=turn_lines(turns, tree),
        merged=(
            *(merged_spans(call) for call in calls if call.copies),
            *(merged_spans(tool) for tool in tools if tool.copies),
        ),
        repeated=len({(fact.trace_id, fact.span_id) for fact in material.facts}) - len(tree.facts),
        unknown=tuple(unknown_lines(run, calls)),
        declared=counts,
        missing=tuple(missing(tree, counts, calls, tools)) if counts else (),
        problems=run.problems,
        observations=_seen(material.observations, run, settings),
        why=_why_run(run, outcome, peers),
    )


def _in_order(facts: Iterable[SpanFact]) -> list[SpanFact]:
    """Return the entries by sequence number; spans of others stand where their time puts them."""
    entries = [fact for fact in facts if fact.entry is not None]
    numbered = sorted((fact.start_ns, fact.seq) for fact in entries if fact.seq is not None)
    starts = [start_ns for start_ns, _ in numbered]
    # The highest number that began by then: clocks may differ, numbers do not.
    latest = list(accumulate((seq for _, seq in numbered), max))

    def place(fact: SpanFact) -> tuple[int, int, int]:
        if fact.seq is not None:
            return (fact.seq, 0, fact.start_ns)
        before = bisect_right(starts, fact.start_ns)
        return (latest[before - 1] if before else -1, 1, fact.start_ns)

    return sorted(entries, key=place)


def _entry_line(fact: SpanFact, entry: Entry, start_ns: int) -> EntryLine:
    name, became = "", ""
    if fact.invoke is not None:
        name, became = fact.agent or "", fact.invoke.state or ""
    if fact.call is not None:
        name, became = fact.call.model or "", _call_became(fact)
    if fact.tool is not None:
        name, became = fact.tool.name or "", fact.tool.disposition or ""
        if fact.tool.caller is not None and fact.tool.caller != "model":
            became = f"{became}, asked for by {fact.tool.caller}"
    if fact.turn is not None:
        became = fact.turn
    if fact.overhead is not None:
        became = f"{became}, overhead: {fact.overhead}".lstrip(", ")
    if not became and fact.failed:
        became = "failed"
    return EntryLine(
        seq=fact.seq,
        entry=entry,
        name=name,
        became=became,
        at_ms=(fact.start_ns - start_ns) / _MS,
        took_ms=(fact.end_ns - fact.start_ns) / _MS,
        trace_id=fact.trace_id,
        span_id=fact.span_id,
        scope=fact.scope,
    )


def _call_became(fact: SpanFact) -> str:
    detail = fact.call
    if detail is None:
        return ""
    said: list[str] = [detail.disposition or (Disposition.FAILED if fact.failed else "")]
    if detail.purpose not in (None, Purpose.AGENT):
        said.append(f"purpose {detail.purpose}")
    if detail.attempt is not None and detail.attempt > 1:
        said.append(f"attempt {detail.attempt}")
    if detail.samplings == 0:
        said.append("continuation")
    return ", ".join(filter(None, said))


def _seen(observations: Iterable[Observation], run: Run, settings: Settings) -> tuple[Seen, ...]:
    lines = []
    for one in sorted(observations, key=lambda each: (each.observed_ns, each.observer)):
        problem = ""
        early_ns, late_ns = run.start_ns - one.observed_ns, one.observed_ns - run.end_ns
        skew_ns = settings.observation_skew_ns
        if max(early_ns, late_ns) > skew_ns:
            when = "before the run" if early_ns > skew_ns else "after the run"
            problem = (
                f"{max(early_ns, late_ns) / _MS / 1000:.0f} s {when}; at most"
                f" {skew_ns / _MS / 1000:.0f} s counts (observation_skew)"
            )
        elif not independent(one, (run,)):
            because = not_independent_because(one, (run,))
            problem = "the observer is not provably another process than the run's"
            problem += f": {because}" if because else ""
        elif one.dropped:
            problem = lost_attributes(one)
        elif one not in run.observations:
            problem = "not the first of this observer within the time of the run's Invoke"
        lines.append(
            Seen(
                observer=one.observer,
                service=one.service,
                instance=one.instance,
                at_ms=(one.observed_ns - run.start_ns) / _MS,
                effects=one.labels if one.ordered else effects(one),
                ordered=one.ordered,
                counts=not problem,
                problem=problem,
            )
        )
    return tuple(lines)


def _why_run(run: Run, outcome: Outcome | None, peers: Sequence[RunLine]) -> tuple[Why, ...]:
    if run.rejections:
        # The judge's own lines say what was found; they are not sorted by cause.
        return tuple(
            Why(
                cause=cause,
                what=REJECTED[cause].what,
                found=run.problems if len(run.rejections) == 1 else (),
                wanted=REJECTED[cause].wanted,
            )
            for cause in Rejection
            if cause in run.rejections
        )
    if outcome is None or outcome is Outcome.PAIRED:
        return ()
    meaning = STANDS[outcome]
    found: Sequence[str] = run.problems
    if outcome is Outcome.UNPAIRED:
        found = _why_unpaired(run, peers)
    return (Why(cause=outcome, what=meaning.what, found=tuple(found), wanted=meaning.wanted),)


def _why_unpaired(run: Run, peers: Sequence[RunLine]) -> list[str]:
    """Return what stands between an unpaired run and the other runs of its input."""
    is_control = run.arm is Arm.CONTROL
    wanted = "candidate" if is_control else "control"
    others = [
        line
        for line in peers
        if line.run.run_id != run.run_id and (line.run.arm is Arm.CONTROL) is not is_control
    ]
    if not others:
        return [f"no {wanted} run of this input (the same digest) has arrived"]
    found = []
    for line in others[:_PEERS_SHOWN]:
        name = f"{wanted} {line.run.run_id}"
        differing = _differing(run, line.run)
        if line.run.rejections:
            found.append(f"{name} has the same input but is rejected")
        elif differing:
            found.append(f"{name} has the same input but {differing}")
        elif line.outcome is Outcome.INCOMPLETE:
            found.append(f"{name} has the same key but has not ended")
        elif line.outcome is Outcome.PAIRED:
            found.append(f"{name} has the same key and is compared with another run already")
        else:
            unseen = [one.run_id for one in (run, line.run) if not one.observations]
            awaited = f"an observation of {' and of '.join(unseen)}" if unseen else "late evidence"
            found.append(f"{name} has the same key: their verdict still waits for {awaited}")
    if len(others) > _PEERS_SHOWN:
        found.append(f"and {len(others) - _PEERS_SHOWN} more")
    return found


def _differing(run: Run, other: Run) -> str:
    if run.key is None or other.key is None:
        return "no key"
    return ", ".join(
        f"another {name} ({there!r}, here {here!r})"
        for name, here, there in (
            ("experiment", run.key.experiment, other.key.experiment),
            ("unit", run.key.unit, other.key.unit),
            ("turn index", run.key.turn_index, other.key.turn_index),
        )
        if here != there
    )
