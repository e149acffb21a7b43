"""``fak.turnavoid.trace/v1`` files: refused at a place, or folded to sums that add up."""

from __future__ import annotations

import io
import json
import math
from typing import Any

from fuzz.finding import check_refusal, hold
from otel_turnavoid.errors import TraceError
from otel_turnavoid.ledger import Report, replay, report_json
from otel_turnavoid.publish.report_html import report_html
from otel_turnavoid.publish.report_text import report_text


def trace_file(body: bytes) -> None:
    """Check a file."""
    report = _replayed(body)
    strict = _replayed(body, strict=True)
    hold((report is None) == (strict is None), "strictness decides what is readable")
    if report is None or strict is None:
        return
    hold(report == _replayed(body + b"\n" * (not body.endswith(b"\n"))), "a last newline counts")
    rows = [json.loads(line) for line in body.splitlines()] if b"\r" not in body else []
    for arm, held in zip(report.arms, strict.arms, strict=True):
        given = [_potential(row) for row in rows if row["arm"] == arm.arm]
        whole = arm.realized_turns_avoided + arm.withheld_turns
        hold(not rows or whole == sum(given), "turns are lost or made")
        hold(held.realized_turns_avoided <= arm.realized_turns_avoided, "strictness gives credit")
        hold(held.realized_turns_avoided + held.withheld_turns == whole, "strictness changes a sum")
    _check_finite(json.loads(report_json(report)))
    report_text(report)
    report_html(report)


def _potential(row: dict[str, Any]) -> int:
    control: int = row["control_committed_model_turns"]
    candidate: int = row["candidate_committed_model_turns"]
    return max(control - candidate, 0)


def _replayed(body: bytes, *, strict: bool = False) -> Report | None:
    try:
        return replay(io.BytesIO(body), strict=strict)
    except TraceError as error:
        check_refusal(error)
        hold(error.at or not error.place, "a place that is none")
        return None


def _check_finite(value: Any) -> None:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            _check_finite(each)
    elif isinstance(value, float):
        hold(math.isfinite(value), "a report holds what is no number")
