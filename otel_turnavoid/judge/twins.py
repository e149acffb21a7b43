"""Copies of one call in different traces: where an unattributed span belongs after all.

Provider instrumentations often start traces of their own, beside the one in which a framework
shows the same calls.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from otel_turnavoid.judge.calls import Rule, shared_rule
from otel_turnavoid.judge.facts import SpanFact
from otel_turnavoid.judge.spans import by_time
from otel_turnavoid.vocabulary import Entry

_STRENGTH = {rule: number for number, rule in enumerate(Rule)}


def identities(fact: SpanFact) -> Iterator[str]:
    """Yield by what a copy in another trace can find this call or tool execution."""
    yield from _ids(fact)
    if fact.call is not None and (usage := _usage(fact)) is not None:
        yield f"{'named' if fact.call.response_id else 'unnamed'} {usage}"


def sought(fact: SpanFact) -> Iterator[str]:
    """Yield the identities of what this call or tool execution may be a copy of.

    Only what has one of them, and overlaps in time, can show the same thing. Two calls that
    both have response ids are told apart by those, whatever they used.
    """
    yield from _ids(fact)
    if fact.call is not None and (usage := _usage(fact)) is not None:
        yield f"unnamed {usage}"
        if not fact.call.response_id:
            yield f"named {usage}"


def _ids(fact: SpanFact) -> Iterator[str]:
    if fact.entry is Entry.TOOL_TURN and fact.tool is not None and fact.tool.call_id:
        yield f"tool {fact.tool.call_id}"
    if fact.entry is Entry.LLM_CALL and fact.call is not None:
        if fact.call.response_id:
            yield f"response {fact.call.response_id}"
        if fact.call.asks:
            yield f"asks {fact.call.asks}"


def _usage(fact: SpanFact) -> str | None:
    """Return the process and the tokens of a call, by which its copies may be known."""
    usage = fact.call.usage if fact.call is not None else None
    if fact.entry is not Entry.LLM_CALL or usage is None or None in (usage.input, usage.output):
        return None
    return f"{usage.input}/{usage.output} {fact.service or ''}/{fact.instance or ''}"


def bring_together(runs: dict[str, list[SpanFact]], strays: dict[str, list[SpanFact]]) -> None:
    """Move unattributed copies to the run that shows their call, or else to one trace.

    A copy that several runs may claim stays where it is; of several traces it is the one with
    the least id. ``strays``, by trace, keeps no empty lists.
    """
    if not strays:
        return
    lost = sorted((fact for facts in strays.values() for fact in facts), key=by_time)
    homes = _homes(lost, runs)
    for fact in lost:
        if id(fact) in homes:
            runs[homes[id(fact)]].append(fact)
    lost = [fact for fact in lost if id(fact) not in homes]
    traces = _traces(lost)
    strays.clear()
    for fact in lost:
        strays.setdefault(traces[id(fact)], []).append(fact)


def _homes(lost: Iterable[SpanFact], runs: Mapping[str, Sequence[SpanFact]]) -> dict[int, str]:
    """Return the run of each fact that exactly one run shows, by the strongest rule that finds."""
    owners: dict[int, str] = {}
    alike: dict[str, list[SpanFact]] = defaultdict(list)
    for run_id, members in runs.items():
        for fact in members:
            owners[id(fact)] = run_id
            _note(fact, alike)
    homes: dict[int, str] = {}
    for fact in lost:
        twins = _twins(fact, alike)
        strongest = min((_STRENGTH[rule] for rule, _ in twins), default=None)
        found = {owners[id(twin)] for rule, twin in twins if _STRENGTH[rule] == strongest}
        if len(found) == 1:
            homes[id(fact)] = found.pop()
    return homes


def _traces(lost: Iterable[SpanFact]) -> dict[int, str]:
    """Return the trace under which each fact is listed: one for all that show one call."""
    traces: dict[int, str] = {}
    alike: dict[str, list[SpanFact]] = defaultdict(list)
    for fact in lost:
        twins = [twin for _, twin in _twins(fact, alike)]
        least = min([fact.trace_id, *(traces[id(twin)] for twin in twins)])
        for member in (fact, *twins):
            traces[id(member)] = least
        _note(fact, alike)
    return traces


def _note(fact: SpanFact, alike: dict[str, list[SpanFact]]) -> None:
    for identity in identities(fact):
        alike[identity].append(fact)


def _twins(fact: SpanFact, alike: Mapping[str, list[SpanFact]]) -> list[tuple[Rule, SpanFact]]:
    """Return the spans of other traces that show the same, and by which rule."""
    found: dict[int, tuple[Rule, SpanFact]] = {}
    for identity in sought(fact):
        for twin in alike.get(identity, ()):
            rule = shared_rule(fact, twin) if twin.trace_id != fact.trace_id else None
            if rule is not None:
                found[id(twin)] = (rule, twin)
    return list(found.values())
