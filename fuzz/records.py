"""Recorded conversations, and files of every kind that can be ingested."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from fuzz.chain import accounts
from fuzz.finding import check_refusal, hold
from fuzz.wire import PLAIN
from otel_turnavoid.dialects.view import LATEST_NS
from otel_turnavoid.errors import InputError
from otel_turnavoid.judge.facts import Observation, SpanFact, encode
from otel_turnavoid.otlp import read_files

_NAMES: Final = ("runs.jsonl", "effects-runs.jsonl", "body.logs.pb")


def recorded_file(body: bytes) -> None:
    """Check a file: read, or refused with its name, as a whole and broken part by part."""
    facts: list[SpanFact] = []
    observations: list[Observation] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / _NAMES[len(body) % len(_NAMES)]
        path.write_bytes(body)
        broken: list[InputError] = []
        for batch in read_files([path], PLAIN, broken=broken.append):
            facts += batch.facts
            observations += batch.observations
        for error in broken:
            check_refusal(error)
            hold(error.place.startswith(str(path)), f"a place outside of the file: {error.place}")
        try:
            whole = list(read_files([path], PLAIN))
        except InputError as error:
            check_refusal(error)
            hold(broken, "refused as a whole, and nothing of it is broken")
        else:
            hold(not broken, "readable, and something of it is broken")
            hold([fact for each in whole for fact in each.facts] == facts, "read twice, it differs")
    for fact in facts:
        encode(fact)
        hold(0 <= fact.start_ns <= LATEST_NS, "a time that no ledger holds")
        hold(0 <= fact.end_ns <= LATEST_NS, "a time that no ledger holds")
    for observation in observations:
        encode(observation)
        hold(0 <= observation.observed_ns <= LATEST_NS, "a time that no ledger holds")
    accounts(facts, observations)
