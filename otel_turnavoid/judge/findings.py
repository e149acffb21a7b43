"""What speaks against a run, for the judge and for people."""

from __future__ import annotations

from otel_turnavoid.vocabulary import Rejection, WithheldCause


class Findings:
    """Gathered while a run is assembled: causes for the judge, a line each for people."""

    def __init__(self) -> None:
        self._rejections: set[Rejection] = set()
        self._causes: set[WithheldCause] = set()
        self._problems: list[str] = []

    def reject(self, cause: Rejection, problem: str) -> None:
        """Keep the run from ever being paired."""
        self._rejections.add(cause)
        self._problems.append(problem)

    def withhold(self, cause: WithheldCause, problem: str) -> None:
        """Give cause to withhold what the run would earn."""
        self._causes.add(cause)
        self._problems.append(problem)

    @property
    def rejections(self) -> tuple[Rejection, ...]:
        """In the order of the vocabulary."""
        return tuple(cause for cause in Rejection if cause in self._rejections)

    @property
    def causes(self) -> tuple[WithheldCause, ...]:
        """In the order of the vocabulary."""
        return tuple(cause for cause in WithheldCause if cause in self._causes)

    @property
    def problems(self) -> tuple[str, ...]:
        """In the order in which they were found."""
        return tuple(self._problems)
