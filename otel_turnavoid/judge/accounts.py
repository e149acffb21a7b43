"""Accounts: what each final decision posts to which instrument.

Every published figure is a fold of postings, and every posting names its account through its
instrument, so that nothing of one account can reach another (design section 5). Work of a run
is posted once, with the run's own outcome; comparisons are posted with the pair.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import chain, product
from typing import NamedTuple

from otel_turnavoid.judge.run import Run
from otel_turnavoid.judge.settings import RunLabel, Settings
from otel_turnavoid.judge.verdict import Decision, NullDecided, PairDecided, RunDecided
from otel_turnavoid.vocabulary import (
    CANDIDATE_ARMS,
    Arm,
    Attr,
    Basis,
    Comparison,
    Component,
    Disposition,
    Evidence,
    Instrument,
    Lifecycle,
    Mechanism,
    Metric,
    Outcome,
    OverheadKind,
    Side,
    TokenType,
    WithheldCause,
    Word,
)

Labels = tuple[tuple[str, str], ...]

MS = 1e-3
"""Seconds in a millisecond; facts count milliseconds, metrics seconds."""


class Posting(NamedTuple):
    """One amount for one series; for a histogram, one observation."""

    instrument: Instrument
    labels: Labels
    """Attribute keys and values, sorted by key."""
    value: float


def postings(decision: Decision, named: Collection[RunLabel] = ()) -> Iterator[Posting]:
    """Yield what a decision posts, zero amounts left out.

    Args:
        decision: What was decided.
        named: Labels to add: of a pair its candidate's names, of controls the first one's.
    """
    if isinstance(decision, PairDecided):
        found, run = _pair(decision), decision.candidate
    elif isinstance(decision, NullDecided):
        found, run = _null(decision), decision.first
    else:
        found, run = _run(decision), decision.run
    names = _names(run, named)
    return (_named(posting, names) for posting in found if posting.value)


def contradiction(decision: PairDecided, named: Collection[RunLabel] = ()) -> Posting:
    """Return the posting of a verdict that later evidence speaks against."""
    posting = _posting(Metric.VERDICTS_CONTRADICTED, _pair_labels(decision), 1)
    return _named(posting, _names(decision.candidate, named))


def known(settings: Settings) -> Iterator[Posting]:
    """Yield a zero posting for every series whose labels are known beforehand.

    A series that first appears with its first event hides that event from ``increase()``.
    Variants and configured labels are free names: their series appear with their first
    posting, unless the configuration knows the name. A histogram's posting is no observation:
    it only says that the series exists. Evidence that the configuration does not accept is
    withheld, so its runs and pairs are known, not its credit.
    """
    for posting in _known(settings):
        for names in _known_names(posting, settings):
            yield _named(posting, names)


def _known_names(posting: Posting, settings: Settings) -> Iterator[Labels]:
    """Yield every combination of known names that a series can carry, the one without any first."""
    varies = Attr.VARIANT in posting.instrument.labels
    varies = varies and (Attr.ARM, Arm.CONTROL.value) not in posting.labels
    choices = [
        ((), *(((key, name),) for name in dict.fromkeys(names)))
        for key, names in settings.known_names.items()
        if varies or key != Attr.VARIANT
    ]
    return (tuple(chain.from_iterable(chosen)) for chosen in product(*choices))


def _known(settings: Settings) -> Iterator[Posting]:
    for evidence in Evidence:
        accepted = evidence in settings.accept
        for arm in Arm:
            yield from _known_of_run(arm, evidence)
        for arm, crossing in product(CANDIDATE_ARMS, _known_crossings(settings)):
            labels = {**_armed(arm, None, evidence), **crossing}
            yield from _known_of_pair(labels)
            if accepted:
                yield from _known_credit(labels)
        for outcome in Outcome:
            labels = {Attr.EVIDENCE: evidence, Attr.OUTCOME: outcome}
            yield _posting(Metric.RUNS_OBSERVED, labels, 0)
        for crossing in _known_crossings(settings) if accepted else ():
            for instrument in (Metric.NULL_AVOIDED, Metric.NULL_ADDED, Metric.NULL_PAIRS):
                yield _posting(instrument, {Attr.EVIDENCE: evidence, **crossing}, 0)


def _known_crossings(settings: Settings) -> list[dict[str, str]]:
    """Return the labels that tell series of pairs apart by what the configuration lets differ."""
    found: list[dict[str, str]] = [{}]
    if settings.any_model:
        found.append({Attr.COMPARISON: Comparison.CROSS_MODEL})
    if settings.any_instrumentation:
        found.append({Attr.COMPARISON: Comparison.CROSS_INSTRUMENTATION})
    if settings.any_model and settings.any_instrumentation:
        found.append({Attr.COMPARISON: Comparison.CROSS_BOTH})
    return found


def _known_of_run(arm: Arm, evidence: Evidence) -> Iterator[Posting]:
    labels = _armed(arm, None, evidence)
    sided = {**labels, Attr.SIDE: _side(arm)}
    for instrument in (
        Metric.TURNS_COMMITTED,
        Metric.TOOLS_EXECUTED,
        Metric.TOOL_BATCH_SIZE,
        Metric.TOOL_BATCH_DEPTH,
    ):
        yield _posting(instrument, labels, 0)
    for disposition in Disposition:
        yield _posting(Metric.SPECULATION_CALLS, {**labels, Attr.OUTCOME: disposition}, 0)
    for component in Component:
        for instrument in (Metric.WORK_DURATION, Metric.WORK_COST):
            yield _posting(instrument, {**sided, Attr.COMPONENT: component}, 0)
    for kind in OverheadKind:
        for instrument in (Metric.OVERHEAD_DURATION, Metric.OVERHEAD_COST):
            yield _posting(instrument, {**sided, Attr.OVERHEAD_KIND: kind}, 0)
    for token_type in TokenType:
        yield _posting(Metric.TOKENS_USED, {**sided, Attr.TOKEN_TYPE: token_type}, 0)


def _known_of_pair(labels: Mapping[str, str]) -> Iterator[Posting]:
    for instrument in (
        Metric.TURNS_ADDED,
        Metric.VERDICTS_CONTRADICTED,
        Metric.RETAINED_CHEAPER,
        Metric.RETAINED_TOKENS,
        Metric.RETAINED_LATENCY,
        Metric.EFFECTS_PRESERVED,
        Metric.EFFECTS_SUPPRESSED,
    ):
        yield _posting(instrument, labels, 0)
    for cause in WithheldCause:
        yield _posting(Metric.TURNS_WITHHELD, {**labels, Attr.WITHHELD_CAUSE: cause}, 0)
    for lifecycle in Lifecycle:
        yield _posting(Metric.PAIRS_DECIDED, {**labels, Attr.LIFECYCLE: lifecycle}, 0)
    for basis in Basis:
        for instrument in (Metric.SAVED_DURATION, Metric.SAVED_COST):
            yield _posting(instrument, {**labels, Attr.BASIS: basis}, 0)


def _known_credit(labels: Mapping[str, str]) -> Iterator[Posting]:
    yield _posting(Metric.TOOLS_AVOIDED, labels, 0)
    for mechanism in Mechanism:
        yield _posting(Metric.TURNS_AVOIDED, {**labels, Attr.MECHANISM: mechanism}, 0)


def _pair(pair: PairDecided) -> Iterator[Posting]:
    labels = _pair_labels(pair)
    control, candidate = pair.control, pair.candidate
    yield _posting(
        Metric.TURNS_AVOIDED, {**labels, Attr.MECHANISM: candidate.mechanism}, pair.avoided
    )
    if pair.withheld:
        cause = {Attr.WITHHELD_CAUSE: pair.causes[0]}
        yield _posting(Metric.TURNS_WITHHELD, {**labels, **cause}, pair.withheld)
    yield _posting(Metric.TURNS_ADDED, labels, pair.added)
    yield _posting(Metric.PAIRS_DECIDED, {**labels, Attr.LIFECYCLE: candidate.lifecycle}, 1)
    if (retained := candidate.retained) and candidate.model_turns:
        yield _posting(Metric.RETAINED_CHEAPER, labels, 1)
        yield _posting(Metric.RETAINED_TOKENS, labels, retained.tokens)
        yield _posting(Metric.RETAINED_LATENCY, labels, retained.latency_ms * MS)
    if not pair.causes and control.tool_calls is not None and candidate.tool_calls is not None:
        fewer = max(control.tool_calls - candidate.tool_calls, 0)
        yield _posting(Metric.TOOLS_AVOIDED, labels, fewer)
    yield _posting(Metric.EFFECTS_PRESERVED, labels, pair.preserved)
    yield _posting(Metric.EFFECTS_SUPPRESSED, labels, pair.suppressed)
    before, after = control.work, candidate.work
    saved_ms = before.gross_ms - after.gross_ms
    gross, net = {**labels, Attr.BASIS: Basis.GROSS}, {**labels, Attr.BASIS: Basis.NET}
    yield _posting(Metric.SAVED_DURATION, gross, saved_ms * MS)
    yield _posting(Metric.SAVED_DURATION, net, (saved_ms - after.overhead_ms) * MS)
    if not before.priced_like(after):
        return
    saved_usd = before.gross_usd - after.gross_usd
    yield _posting(Metric.SAVED_COST, gross, saved_usd)
    yield _posting(Metric.SAVED_COST, net, saved_usd - after.overhead_usd)


def _null(pair: NullDecided) -> Iterator[Posting]:
    labels: dict[str, str] = {Attr.EVIDENCE: pair.evidence}
    if pair.comparison is not None:
        labels[Attr.COMPARISON] = pair.comparison
    yield _posting(Metric.NULL_AVOIDED, labels, pair.avoided)
    yield _posting(Metric.NULL_ADDED, labels, pair.added)
    yield _posting(Metric.NULL_PAIRS, labels, 1)


def _run(decision: RunDecided) -> Iterator[Posting]:
    run, outcome = decision.run, decision.outcome
    yield _posting(Metric.RUNS_OBSERVED, {Attr.OUTCOME: outcome, Attr.EVIDENCE: run.evidence}, 1)
    if outcome is not Outcome.PAIRED or run.arm is None:
        return
    labels = _armed(run.arm, run.variant, run.evidence)
    sided = {**labels, Attr.SIDE: _side(run.arm)}
    yield _posting(Metric.TURNS_COMMITTED, labels, run.model_turns or 0)
    yield _posting(Metric.TOOLS_EXECUTED, labels, run.tool_calls or 0)
    for batch in run.batches:
        yield _posting(Metric.TOOL_BATCH_SIZE, labels, batch.size)
        yield _posting(Metric.TOOL_BATCH_DEPTH, labels, batch.depth)
    for became, calls in run.speculation:
        yield _posting(Metric.SPECULATION_CALLS, {**labels, Attr.OUTCOME: became}, calls)
    yield from _work(run, sided)
    for token_type in TokenType:
        used = getattr(run.usage, token_type.value)
        yield _posting(Metric.TOKENS_USED, {**sided, Attr.TOKEN_TYPE: token_type}, used or 0)


def _work(run: Run, sided: Mapping[str, str]) -> Iterator[Posting]:
    for component in Component:
        labels = {**sided, Attr.COMPONENT: component}
        spent_ms = getattr(run.work, f"{component.value}_ms")
        yield _posting(Metric.WORK_DURATION, labels, spent_ms * MS)
        yield _posting(Metric.WORK_COST, labels, getattr(run.work, f"{component.value}_usd"))
    for kind in OverheadKind:
        labels = {**sided, Attr.OVERHEAD_KIND: kind}
        spent_ms = getattr(run.work, f"{kind.value}_ms")
        yield _posting(Metric.OVERHEAD_DURATION, labels, spent_ms * MS)
        yield _posting(Metric.OVERHEAD_COST, labels, getattr(run.work, f"{kind.value}_usd"))


def _pair_labels(pair: PairDecided) -> dict[str, str]:
    candidate = pair.candidate
    if candidate.arm is None:
        raise AssertionError("a run without an arm cannot stand in a pair")
    labels = _armed(candidate.arm, candidate.variant, pair.evidence)
    if pair.comparison is not None:
        labels[Attr.COMPARISON] = pair.comparison
    return labels


def _armed(arm: Arm, variant: str | None, evidence: Evidence) -> dict[str, str]:
    labels: dict[str, str] = {Attr.ARM: arm, Attr.EVIDENCE: evidence}
    if variant is not None:
        labels[Attr.VARIANT] = variant
    return labels


def _names(run: Run, named: Collection[RunLabel]) -> Labels:
    """Return the labels that name a run; what it does not say has none."""
    said = {
        RunLabel.AGENT: run.agent,
        RunLabel.EXPERIMENT: None if run.key is None else run.key.experiment,
    }
    return tuple((label.value, name) for label, name in said.items() if label in named and name)


def _named(posting: Posting, names: Labels) -> Posting:
    if not names:
        return posting
    return posting._replace(labels=tuple(sorted((*posting.labels, *names))))


def _side(arm: Arm) -> Side:
    return Side.CONTROL if arm is Arm.CONTROL else Side.CANDIDATE


def _posting(instrument: Instrument, labels: Mapping[str, str], value: float) -> Posting:
    plain = ((key, word.value if isinstance(word, Word) else word) for key, word in labels.items())
    return Posting(instrument, tuple(sorted(plain)), value)
