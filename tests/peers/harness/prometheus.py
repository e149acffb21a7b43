"""Prometheus, asked over its HTTP API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import httpx

from harness.peer import Peer, until

ACCOUNTS = '__name__=~"turnavoid_.+", otel_scope_name!="otel_turnavoid.collector"'
"""Every series of the accounts; not the processor's own telemetry."""


@dataclass(frozen=True)
class Prometheus:
    """Prometheus, asked over its HTTP API."""

    url: str
    peer: Peer

    def query(self, expression: str, *, at: float | None = None) -> dict[str, float]:
        """The value of every series at an instant, by its name and labels as text.

        Args:
            expression: PromQL.
            at: Seconds since the epoch; default: now.
        """
        answer = httpx.get(
            f"{self.url}/api/v1/query",
            params={"query": expression} | ({} if at is None else {"time": str(at)}),
            timeout=60,
        )
        assert answer.status_code == httpx.codes.OK, answer.text
        return {
            _series(found["metric"]): float(found["value"][1])
            for found in answer.json()["data"]["result"]
        }

    def value(self, expression: str) -> float | None:
        """The value of an expression that gives one series; None without one."""
        found = list(self.query(expression).values())
        assert len(found) <= 1, found
        return found[0] if found else None

    def until(self, expression: str, value: float) -> None:
        """Wait until an expression has a value."""
        found: list[float | None] = []

        def reached() -> bool:
            found[:] = [self.value(expression)]
            return found == [value]

        until(reached, lambda: f"{expression} to be {value}; is {found}", peers=[self.peer])

    def increases(
        self, names: Iterable[str], over: str = "[1h] anchored"
    ) -> dict[str, float | None]:
        """The increase of each counter over all its series; ``anchored`` is exact."""
        return {name: self.value(f"sum(increase({name}{over}))") for name in names}

    def resets(self) -> float:
        """How often any counter of the accounts fell."""
        selector = f'{{{ACCOUNTS}, __name__=~".+_(total|count)"}}'
        names = [each.partition("{")[0] for each in self.query(f"count by (__name__) ({selector})")]
        assert names
        return sum(self.value(f"sum(resets({name}[1h]))") or 0 for name in names)

    def wait_for_pairs(self, count: int) -> None:
        """Wait until the processors together have published as many decided pairs.

        A scrape that failed on a busy machine hides no series that was there before.
        """
        self.until("sum(last_over_time(turnavoid_pairs_decided_total[5m]))", count)

    def wait_for_samples(self, count: int) -> None:
        """Wait until there are as many samples, which come for all series at once."""
        counted = "min(count_over_time(turnavoid_pairs_decided_total[1h]))"
        self.until(f"{counted} >= bool {count}", 1)

    def wait_for_sample_after(self, seconds: float) -> None:
        """Wait for a sample that is newer than a time since the epoch."""
        self.until(f"min(timestamp(turnavoid_pairs_decided_total)) > bool {seconds}", 1)


def _series(labels: Mapping[str, str]) -> str:
    inner = ", ".join(f"{key}={value!r}" for key, value in sorted(labels.items()) if key[0] != "_")
    return f"{labels.get('__name__', '')}{{{inner}}}"
