"""Spans of one run as a tree: copies put together, ancestors found.

The same span may arrive often, an entry may be exported again under fresh ids, and two
different spans may claim one id. ``SpanTree`` answers who is whose ancestor after that is
sorted out, and says what contradicted what.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from otel_turnavoid.judge.facts import SpanFact, encode
from otel_turnavoid.vocabulary import Entry

SpanKey = tuple[str, str]


def by_time(fact: SpanFact) -> tuple[int, int, str, str]:
    """Order facts by start, then end, then ids: the same for any order of arrival."""
    return (fact.start_ns, fact.end_ns, fact.trace_id, fact.span_id)


def within(fact: SpanFact, other: SpanFact) -> bool:
    """Whether a span lies in the time of another one."""
    return other.start_ns <= fact.start_ns and fact.end_ns <= other.end_ns


class SpanTree:
    """The distinct spans of a run (or of a trace), and their ancestry.

    ``facts`` holds each span and each sequence number once, by time; ``conflicts`` a line for
    each contradiction.
    """

    def __init__(self, facts: Iterable[SpanFact]) -> None:
        self.conflicts: list[str] = []
        self._spans: dict[SpanKey, SpanFact] = {}
        self._take(facts)
        self._put_copies_together()
        canonical = {(fact.trace_id, fact.span_id): fact for fact in self._spans.values()}
        self.facts = sorted(canonical.values(), key=by_time)

    def _take(self, facts: Iterable[SpanFact]) -> None:
        """Keep one content for each span id, whatever came first or often."""
        others: dict[SpanKey, list[SpanFact]] = {}
        for fact in facts:
            key = (fact.trace_id, fact.span_id)
            known = self._spans.setdefault(key, fact)
            if known is not fact and known != fact:
                others.setdefault(key, [known]).append(fact)
        for key, contents in sorted(others.items()):
            self._spans[key] = min(contents, key=_named_process_first)
            if any(_evidence(fact) != _evidence(contents[0]) for fact in contents):
                self.conflicts.append(f"different contents under span id {key[1]}")

    def _put_copies_together(self) -> None:
        """Make every span id of an entry exported more than once mean its first export."""
        entries: dict[tuple[str | None, int], SpanFact] = {}
        for key, fact in sorted(self._spans.items(), key=lambda item: by_time(item[1])):
            if not fact.own or fact.seq is None:
                continue
            first = entries.setdefault((fact.run_id, fact.seq), fact)
            if first is fact:
                continue
            if fact.entry is Entry.INVOKE and fact.start_ns >= first.end_ns > first.start_ns:
                # An export again, or a replay, begins before the Invoke has ended.
                self.conflicts.append(f"the run id was used again after entry {fact.seq} had ended")
            elif _content(first) == _content(fact):
                self._spans[key] = first
            else:
                self.conflicts.append(f"two different entries with sequence number {fact.seq}")

    def parent(self, fact: SpanFact) -> SpanFact | None:
        """Return the parent if it is known here."""
        if fact.parent_id is None:
            return None
        return self._spans.get((fact.trace_id, fact.parent_id))

    def ancestors(self, fact: SpanFact) -> Iterator[SpanFact]:
        """Yield the known ancestors from the nearest on; a cycle of parents ends the walk."""
        seen = {id(fact)}
        current = self.parent(fact)
        while current is not None and id(current) not in seen:
            yield current
            seen.add(id(current))
            current = self.parent(current)

    def nearest(self, fact: SpanFact, entry: Entry) -> SpanFact | None:
        """Return the nearest ancestor of that kind."""
        return next((each for each in self.ancestors(fact) if each.entry is entry), None)


def _named_process_first(fact: SpanFact) -> tuple[bool, bytes]:
    return (fact.process is None, encode(fact))


def _evidence(fact: SpanFact) -> SpanFact:
    """Return what a span says, but not in which process: Collectors add that on one way only."""
    return msgspec.structs.replace(fact, process=None)


def _content(fact: SpanFact) -> SpanFact:
    """Return what an entry says apart from where and when it was exported.

    A durable workflow that replays its code emits an entry again, later and under fresh ids.
    """
    return msgspec.structs.replace(
        _evidence(fact), trace_id="", span_id="", parent_id=None, start_ns=0, end_ns=0
    )
