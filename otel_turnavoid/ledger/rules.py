"""The rules of one row that its types do not tell, each with the words of its refusal.

``decode`` has already held every field to its type. What is common to many rows is checked
once, where it is first seen: the ids of a unit, the words of a group, what the arms of an
input state alike. Each function returns the first problem, or None.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from otel_turnavoid.ledger.row import NO_OVERHEAD

if TYPE_CHECKING:
    from otel_turnavoid.ledger.row import Row

_is_digest: Final = re.compile(r"sha256:[0-9a-f]{64}").fullmatch


_SHOWN: Final = 80
"""Characters of a value that a message repeats."""


def shown(value: str) -> str:
    """Return a text as a message shows it: quoted, on one line, not endless."""
    return repr(value) if len(value) <= _SHOWN else repr(value[:_SHOWN]) + "…"


def words_problem(arm: str, mechanism: str, lifecycle: str, reason: str) -> str | None:
    """Check which words may stand beside an arm."""
    if arm != "control":
        if mechanism == "control":
            return f"mechanism is control in arm {arm}; only the control arm may use it"
    elif (mechanism, lifecycle, reason) != ("control", "realized", "baseline"):
        return (
            f"the control arm is {mechanism}, {lifecycle}, {reason}; "
            "control, realized, baseline is wanted"
        )
    return None


def id_problem(name: str, value: str) -> str | None:
    """Check that an id has no space around it."""
    if value != value.strip():
        return f"{name} is {shown(value)}; a text without surrounding space is wanted"
    return None


def shared_problem(row: Row) -> str | None:
    """Check what all arms of one input state alike."""
    if row.decision_basis_through_turn >= row.turn_index:
        return (
            f"decision_basis_through_turn is {row.decision_basis_through_turn}; less than "
            f"turn_index {row.turn_index} is wanted, for a decision must not know its own turn"
        )
    if not _is_digest(row.input_digest):
        return (
            f"input_digest is {shown(row.input_digest)}; "
            '"sha256:" and 64 lowercase hex digits are wanted'
        )
    observation = row.required_effect_observation
    return id_problem("independent_observer", observation.independent_observer) or labels_problem(
        "control_required", observation.control_required
    )


def control_problem(row: Row) -> str | None:
    """Check a row of the control arm, which is its own candidate."""
    observation = row.required_effect_observation
    field = None
    if row.candidate_committed_model_turns != row.control_committed_model_turns:
        field = "candidate_committed_model_turns"
    elif observation.candidate_required != observation.control_required:
        field = "candidate_required"
    elif row.candidate_gross != row.control_gross:
        field = "candidate_gross"
    if field:
        return f"{field} differs from the control's; the control arm is its own candidate"
    if row.overhead != NO_OVERHEAD:
        return "the control arm has overhead; none is wanted"
    if row.retained_turn_reduction is not None:
        return "the control arm has retained_turn_reduction; none is wanted"
    return None


def candidate_problem(row: Row) -> str | None:
    """Check what a row of a candidate arm states about its candidate."""
    retained = row.retained_turn_reduction
    if retained is not None:
        if retained.tokens == 0 and retained.latency_ms == 0:
            return "retained_turn_reduction is zero in both fields; a reduction is wanted"
        if row.candidate_committed_model_turns == 0:
            return "retained_turn_reduction stands beside no candidate turn; one is wanted at least"
    observation = row.required_effect_observation
    if observation.candidate_required != observation.control_required:
        return labels_problem("candidate_required", observation.candidate_required)
    return None


def labels_problem(name: str, labels: tuple[str, ...]) -> str | None:
    """Check that effect labels are sorted, unique and without surrounding space."""
    previous = ""
    for label in labels:
        if label <= previous:
            how = "twice" if label == previous else f"after {shown(previous)}"
            return f"{name} holds {shown(label)} {how}; sorted and unique labels are wanted"
        if label != label.strip():
            return f"{name} holds {shown(label)}; labels without surrounding space are wanted"
        previous = label
    return None
