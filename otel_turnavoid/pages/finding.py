"""From what somebody types to the page that is meant."""

from __future__ import annotations

from otel_turnavoid.errors import InputError
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.judge.verdict import RunDecided
from otel_turnavoid.pages import links
from otel_turnavoid.pages.asked import parsed
from otel_turnavoid.publish.inquiry import explain
from otel_turnavoid.store import Ledger

_TRACE_ID_LENGTH = 32


def find(ledger: Ledger, text: str, settings: Settings) -> str:
    """Return the path of the page about a run, a pair or a trace.

    Args:
        ledger: Where to look.
        text: A run id, the number of a pair, a trace id, or the two runs of a pair, as
            ``control/candidate`` or with a space between them.
        settings: By which observations count.

    Raises:
        InputError: There is no such thing; names what is near.
        LedgerError: The ledger cannot be read.
    """
    name = text.strip()
    if not name:
        raise InputError("", "type the id of a run, pair or trace")
    if ledger.material(name).facts:
        return links.run_path(name)
    number = parsed(name)
    if number is not None and (record := ledger.record(number)) is not None:
        if isinstance(record.decision, RunDecided):
            return links.run_path(record.decision.run.run_id)
        return links.pair_path(number)
    if len(name) == _TRACE_ID_LENGTH and ledger.run_ids_of_trace(name.lower()):
        return links.trace_path(name.lower())
    both = name.split()
    found = explain(
        ledger, both if len(both) == len(("control", "candidate")) else [name], settings
    )
    if found.pairs:
        return links.pair_path(found.pairs[0].number)
    if found.nulls:
        return links.pair_path(found.nulls[0].number)
    return links.run_path(found.runs[0].run_id)
