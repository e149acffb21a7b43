"""From the names that people ask by to an explanation: finds in a ledger what is meant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Final, NamedTuple

from msgspec.structs import replace

from otel_turnavoid.errors import InputError
from otel_turnavoid.judge.assembly import assemble
from otel_turnavoid.judge.run import Run
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.judge.verdict import NullDecided, PairDecided
from otel_turnavoid.publish.explained_pair import explain_null, explain_pair
from otel_turnavoid.publish.explained_run import explain_run
from otel_turnavoid.publish.explanation import Explanation, RunExplained
from otel_turnavoid.store import Ledger
from otel_turnavoid.store.reading import Record
from otel_turnavoid.vocabulary import Outcome

_NEAR: Final = 5
_LONGEST: Final = 512
"""Characters of one id; looking for what is near would take long for longer ones."""
_SIDES: Final = 2
_MOST_SLASHES: Final = 32
_TRACE_ID_LENGTH: Final = 32
_LARGEST_NUMBER_LENGTH: Final = 18


class _Known(NamedTuple):
    """One run as it is today, and what is said of it."""

    run: Run
    explained: RunExplained
    records: list[Record]


def explain(ledger: Ledger, asked: Sequence[str], settings: Settings) -> Explanation:
    """Return what the ledger knows about a run, a trace, a pair or a verdict.

    Args:
        ledger: Where to look.
        asked: A run id, a trace id, the id of a verdict, ``control/candidate``, or the two run
            ids of a pair in either order. A run of that id comes before anything else.
        settings: By which observations count, and what would be decided today.

    Raises:
        InputError: There is no such thing; names what is near.
        LedgerError: The ledger cannot be read.
    """
    shown = " ".join(asked)
    longest = max(map(len, asked))
    if longest > _LONGEST:
        raise InputError("", f"an id has at most {_LONGEST} characters, got {longest}")
    if len(asked) == _SIDES:
        return _pair(ledger, asked[0], asked[1], shown, settings)
    (name,) = asked
    if (known := _known(ledger, name, settings)) is not None:
        return _of_runs(ledger, shown, [known], settings)
    if name.isascii() and name.isdigit() and len(name) <= _LARGEST_NUMBER_LENGTH:
        record = ledger.record(int(name))
        if record is not None:
            return _of_record(ledger, shown, record, settings)
    if len(name) == _TRACE_ID_LENGTH:
        run_ids = ledger.run_ids_of_trace(name.lower())
        found = [known for each in run_ids if (known := _known(ledger, each, settings))]
        if found:
            return _of_runs(ledger, shown, found, settings)
    for control, candidate in _splits(name):
        if ledger.material(control).facts and ledger.material(candidate).facts:
            return _pair(ledger, control, candidate, shown, settings)
    raise InputError("", _unknown(ledger, name))


def explain_known_run(ledger: Ledger, run_id: str, settings: Settings) -> Explanation | None:
    """Return what the ledger knows about one run; None if no span of it has arrived.

    Raises:
        LedgerError: The ledger cannot be read.
    """
    known = _known(ledger, run_id, settings)
    return None if known is None else _of_runs(ledger, run_id, [known], settings)


def explain_decision(ledger: Ledger, number: int, settings: Settings) -> Explanation | None:
    """Return what the ledger knows about one decision of its journal; None if there is none.

    Raises:
        LedgerError: The ledger cannot be read.
    """
    record = ledger.record(number)
    return None if record is None else _of_record(ledger, str(number), record, settings)


def _pair(
    ledger: Ledger, control: str, candidate: str, shown: str, settings: Settings
) -> Explanation:
    both = [_need(ledger, name, settings) for name in (control, candidate)]
    for record in both[0].records:
        if _about(record) in ((control, candidate), (candidate, control)):
            return _of_record(ledger, shown, record, settings)
    note = f"{control} and {candidate} have not been compared with each other; this is about each."
    return replace(_of_runs(ledger, shown, both, settings), note=note)


def _need(ledger: Ledger, name: str, settings: Settings) -> _Known:
    known = _known(ledger, name, settings)
    if known is None:
        raise InputError("", _unknown(ledger, name))
    return known


def _known(ledger: Ledger, run_id: str, settings: Settings) -> _Known | None:
    """Return a run as it is today; None if no span of it has arrived."""
    material = ledger.material(run_id)
    if not material.facts:
        return None
    line = ledger.run(run_id)
    # A run that has just arrived was not assembled by the processor yet.
    run = (
        line.run
        if line is not None
        else assemble(run_id, material.facts, material.observations, settings, material.across)
    )
    records = ledger.records_about(run_id)
    # Peers say why a run was compared with none; looking for them reads every run's key.
    alone = line is None or line.outcome is Outcome.UNPAIRED
    explained = explain_run(
        run,
        material,
        outcome=line.outcome if line is not None else None,
        records=records,
        peers=ledger.runs_with_digest(run.key.digest) if run.key is not None and alone else (),
        settings=settings,
    )
    return _Known(run, explained, records)


def _of_runs(ledger: Ledger, shown: str, runs: Sequence[_Known], settings: Settings) -> Explanation:
    """Explain runs, with every decision about them."""
    records = {record.number: record for known in runs for record in known.records}
    ordered = [records[number] for number in sorted(records)]
    return Explanation(
        asked=shown,
        pairs=tuple(
            explain_pair(record, _today(ledger, record), settings)
            for record in ordered
            if isinstance(record.decision, PairDecided)
        ),
        runs=tuple(known.explained for known in runs),
        nulls=tuple(
            explain_null(record) for record in ordered if isinstance(record.decision, NullDecided)
        ),
    )


def _of_record(ledger: Ledger, shown: str, record: Record, settings: Settings) -> Explanation:
    """Explain one decision, with the runs that it is about."""
    runs = [known for name in _about(record) if (known := _known(ledger, name, settings))]
    explained = tuple(known.explained for known in runs)
    if isinstance(record.decision, PairDecided):
        pair = explain_pair(record, _today(ledger, record), settings)
        return Explanation(asked=shown, pairs=(pair,), runs=explained)
    if isinstance(record.decision, NullDecided):
        return Explanation(asked=shown, nulls=(explain_null(record),), runs=explained)
    return _of_runs(ledger, shown, runs, settings)


def _today(ledger: Ledger, record: Record) -> tuple[Run, Run] | None:
    """Return a contradicted pair's runs as they are now; None if they would not be compared."""
    pair = record.decision
    if record.contradicted_ns is None or not isinstance(pair, PairDecided):
        return None
    control, candidate = ledger.run(pair.control.run_id), ledger.run(pair.candidate.run_id)
    if control is None or candidate is None:
        return None
    if not (control.run.pairable and candidate.run.pairable):
        return None
    return control.run, candidate.run


def _about(record: Record) -> tuple[str, ...]:
    decision = record.decision
    if isinstance(decision, PairDecided):
        return decision.control.run_id, decision.candidate.run_id
    if isinstance(decision, NullDecided):
        return decision.first.run_id, decision.second.run_id
    return (decision.run.run_id,)


def _splits(name: str) -> Iterator[tuple[str, str]]:
    """Yield the ways to read ``a/b`` as two run ids, which may hold slashes themselves."""
    parts = name.split("/")
    for cut in range(1, min(len(parts), _MOST_SLASHES)):
        control, candidate = "/".join(parts[:cut]), "/".join(parts[cut:])
        if control and candidate:
            yield control, candidate


def near_run_ids(ledger: Ledger, name: str) -> list[str]:
    """Return the ids of some runs that may be meant by a name that none has."""
    run_ids = ledger.some_run_ids()
    wanted = name.lower()
    holding = [each for each in run_ids if len(wanted) > 1 and wanted in each.lower()]
    return list(dict.fromkeys((*holding, *get_close_matches(name, run_ids, n=_NEAR))))[:_NEAR]


def _unknown(ledger: Ledger, name: str) -> str:
    observed = len(ledger.material(name).observations)
    if observed:
        times = "an observation names" if observed == 1 else f"{observed} observations name"
        return f"no span of a run {name!r} has arrived yet, but {times} it"
    near = near_run_ids(ledger, name)
    hint = f"; near: {', '.join(map(repr, near))}" if near else ""
    return f"no run, trace, pair or verdict {name!r} in {ledger.name}{hint}"
