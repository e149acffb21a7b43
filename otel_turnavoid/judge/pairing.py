"""Which runs are compared: one control with one candidate of the same key, one to one.

Deterministic by run start, then run id; never by name or closeness in time. Every candidate
arm and variant may use the same control. Control runs of one key are paired with each other,
first with second, into the series of noise (design section 4).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from otel_turnavoid.vocabulary import Arm

Decided = Collection[tuple[str, str]]


class Entrant(Protocol):
    """What pairing looks at: a run, or the little that a store keeps at hand of it."""

    @property
    def run_id(self) -> str:
        """Its identity."""

    @property
    def start_ns(self) -> int:
        """When it began."""

    @property
    def arm(self) -> Arm | None:
        """On which side it stands."""

    @property
    def variant(self) -> str | None:
        """Which of several candidates of one arm."""

    @property
    def pairable(self) -> bool:
        """Whether it can stand in a pair."""


EntrantT = TypeVar("EntrantT", bound=Entrant)


@dataclass(frozen=True)
class Pairs(Generic[EntrantT]):
    """What can be compared among the runs of one key."""

    candidates: list[tuple[EntrantT, EntrantT]]
    """Control and candidate."""
    null: list[tuple[EntrantT, EntrantT]]
    """Control and control."""


def pair(
    runs: Iterable[EntrantT], decided: Decided = (), null_decided: Decided = ()
) -> Pairs[EntrantT]:
    """Return the pairs among the runs of one key that are not decided yet.

    ``decided`` and ``null_decided`` hold the run ids of final pairs: they stay together.
    """
    controls: list[EntrantT] = []
    candidates: dict[tuple[Arm, str], list[EntrantT]] = defaultdict(list)
    for run in sorted(runs, key=lambda run: (run.start_ns, run.run_id)):
        if run.arm is None or not run.pairable:
            continue
        if run.arm is Arm.CONTROL:
            controls.append(run)
        else:
            candidates[run.arm, run.variant or ""].append(run)
    candidate_of = {candidate: control for control, candidate in decided}
    grouped = {run.run_id for group in candidates.values() for run in group}
    # A candidate that was refused after its verdict keeps its control, whatever its arm was.
    kept = {control for control, candidate in decided if candidate not in grouped}
    found: list[tuple[EntrantT, EntrantT]] = []
    for _, group in sorted(candidates.items()):
        taken = kept | {candidate_of[run.run_id] for run in group if run.run_id in candidate_of}
        free = [run for run in controls if run.run_id not in taken]
        waiting = [run for run in group if run.run_id not in candidate_of]
        found.extend(zip(free, waiting, strict=False))
    settled = {run_id for ids in null_decided for run_id in ids}
    open_controls = [run for run in controls if run.run_id not in settled]
    null = list(zip(open_controls[::2], open_controls[1::2], strict=False))
    return Pairs(found, null)
