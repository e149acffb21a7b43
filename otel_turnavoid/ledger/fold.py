"""Rows to report.

Credit is given where the lifecycle is ``realized`` and the candidate's observed effects are
the control's; everything else a candidate did without is withheld. No row is kept: an input
is remembered until its three arms were seen, a unit by its last turn index, and numbers by
their exact sums, so that memory does not grow with the length of the file.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from otel_turnavoid.errors import TraceError
from otel_turnavoid.ledger.decode import decode, decode_lines
from otel_turnavoid.ledger.group import Group
from otel_turnavoid.ledger.inputs import ARMS, Inputs
from otel_turnavoid.ledger.report import (
    HONEST,
    HONEST_WITHHELD_CREDIT,
    REPORT_SCHEMA,
    ArmReport,
    Attribution,
    LifecycleCounts,
    Report,
)
from otel_turnavoid.ledger.row import TRACE_SCHEMA
from otel_turnavoid.ledger.rules import candidate_problem, control_problem, words_problem
from otel_turnavoid.ledger.sums import expansion, rounded
from otel_turnavoid.ledger.work import accounting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from otel_turnavoid.ledger.row import Row

Groups = dict[tuple[str, str, str, str], Group]
"""By arm, mechanism, lifecycle and reason."""


def replay(
    stream: BinaryIO,
    *,
    strict: bool = False,
    through: Callable[[Iterator[Row]], Iterator[Row]] | None = None,
) -> Report:
    """Fold a trace/v1 file read from ``stream``; see ``fold``.

    ``through`` lets somebody watch the rows pass; it must yield every one of them.
    """
    rows = decode(stream)
    return _fold(through(rows) if through is not None else rows, strict=strict)


def fold(rows: Iterable[Row], *, strict: bool = False) -> Report:
    """Fold rows into a report.

    The rows are held to exactly the rules of a file, by passing them through their JSON form.

    Args:
        rows: In file order; turn indexes increase within each trace, unit and arm.
        strict: Give no credit where no effect was required, as live verdicts do. The turns
            move from avoided to withheld; no other figure changes.

    Raises:
        TraceError: at the first row that breaks a rule by itself or against an earlier one,
            else at the first input (by key) whose arms are not three or disagree.
    """
    return _fold(decode_lines(map(msgspec.json.encode, rows)), strict=strict)


def empty_report() -> Report:
    """Return the report of no rows at all; a file of no rows is refused instead."""
    return _report(0, 0, {})


def _fold(rows: Iterator[Row], *, strict: bool) -> Report:
    inputs = Inputs()
    groups: Groups = {}
    number = 0
    for row in rows:
        number += 1
        key = (row.arm, row.mechanism, row.lifecycle, row.reason)
        group = groups.get(key)
        problem = None
        if group is None:
            problem = words_problem(*key)
            group = groups[key] = Group()
        if row.arm == "control":
            problem = problem or inputs.add(row) or control_problem(row)
            group.add_control(row)
        else:
            problem = problem or inputs.add(row) or candidate_problem(row)
            group.add(row, strict=strict)
        if problem:
            _check_lines(rows)
            raise TraceError({"row": number}, problem)
    if not number:
        raise TraceError({}, "the trace is empty; at least one input with its three arms is wanted")
    inputs.check()
    return _report(number, inputs.complete, groups)


def _check_lines(rows: Iterator[Row]) -> None:
    """Read on after a bad row: a bad line anywhere comes first, another bad row does not."""
    try:
        for _ in rows:
            pass
    except TraceError as fault:
        if "line" in fault.at:
            raise


def _report(rows: int, inputs: int, groups: Groups) -> Report:
    arms = tuple(_arm(arm, groups) for arm in ARMS)
    honest = all(arm.honesty_verdict == HONEST for arm in arms)
    return Report(
        schema_version=REPORT_SCHEMA,
        trace_schema_version=TRACE_SCHEMA,
        rows=rows,
        immutable_inputs=inputs,
        arms=arms,
        honesty_verdict=HONEST if honest else HONEST_WITHHELD_CREDIT,
    )


def _arm(arm: str, groups: Groups) -> ArmReport:
    total = Group()
    lifecycle = dict.fromkeys(LifecycleCounts.__struct_fields__, 0)
    attribution = []
    for key in sorted(key for key in groups if key[0] == arm):
        group = groups[key]
        group.work.settle()
        lifecycle[key[2]] += group.decisions
        total.merge(group)
        attribution.append(_attribution(key, group))
    retained_ms = expansion(total.retained_ms)
    if inf in retained_ms:
        raise TraceError({}, "the sum of retained latency is beyond the largest double")
    return ArmReport(
        arm=arm,
        decisions=total.decisions,
        control_committed_model_turns=total.control_turns,
        candidate_committed_model_turns=total.candidate_turns,
        realized_turns_avoided=total.avoided,
        withheld_turns=total.withheld,
        lifecycle=LifecycleCounts(**lifecycle),
        retained_turns_made_cheaper=total.retained,
        retained_turn_tokens_reduced=total.retained_tokens,
        retained_turn_latency_reduced_ms=rounded(retained_ms),
        required_effects_preserved=total.preserved,
        needed_effects_suppressed=total.suppressed,
        accounting=accounting(total.work, mirrored=arm == "control"),
        attribution=tuple(attribution),
        honesty_verdict=HONEST_WITHHELD_CREDIT if total.withheld or total.suppressed else HONEST,
    )


def _attribution(key: tuple[str, str, str, str], group: Group) -> Attribution:
    arm, mechanism, lifecycle, reason = key
    return Attribution(
        mechanism=mechanism,
        lifecycle=lifecycle,
        reason=reason,
        decisions=group.decisions,
        realized_turns_avoided=group.avoided,
        withheld_turns=group.withheld,
        required_effects_preserved=group.preserved,
        needed_effects_suppressed=group.suppressed,
        accounting=accounting(group.work, mirrored=arm == "control"),
    )
