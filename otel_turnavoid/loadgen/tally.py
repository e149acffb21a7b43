"""What became of the requests of a load."""

from __future__ import annotations

from collections import Counter
from typing import Any

from otel_turnavoid.loadgen.accounts import Accounts
from otel_turnavoid.loadgen.generating import Export, Shipment


class Tally:
    """Counts requests, and the accounts that everything acknowledged comes to."""

    def __init__(self) -> None:
        self.runs = 0
        """Runs of shipments that were acknowledged whole."""
        self.spans = 0
        self.foreign = 0
        self.lost = 0
        self.bytes = 0
        self.acknowledged = 0
        """Requests, the repeated ones included."""
        self.retried = 0
        """Attempts after the first, at the receiver's word or for a broken connection."""
        self.failed: Counter[str] = Counter()
        """Requests refused for good or given up, by the status."""
        self.rejected = 0
        """Spans and log records that the receiver refused singly."""
        self.latencies_s: list[float] = []
        """From the first attempt of a request to its acknowledgement."""
        self.behind_s = 0.0
        """How late a shipment was at worst: the load, not the receiver, was too slow, or waited."""
        self.elapsed_s = 0.0
        self.accounts = Accounts()

    @property
    def exact(self) -> bool:
        """Whether the accounts of the ledger must be those of the load, to the turn.

        What failed may be in the ledger all the same, as an answer can get lost.
        """
        return not self.failed and not self.rejected

    def acknowledge(self, export: Export, latency_s: float, rejected: int) -> None:
        """Count a request that was acknowledged."""
        self.acknowledged += 1
        self.rejected += rejected
        self.bytes += len(export.body)
        self.latencies_s.append(latency_s)

    def arrive(self, shipment: Shipment) -> None:
        """Count a shipment all of which was acknowledged."""
        self.runs += shipment.runs
        self.spans += shipment.spans
        self.foreign += shipment.foreign
        self.lost += shipment.lost
        self.accounts.add(shipment.accounts)

    def as_json(self) -> dict[str, Any]:
        """Return everything under its name, seconds and bytes as they are."""
        per_s = 1 / self.elapsed_s if self.elapsed_s else 0.0
        return {
            "sent": {
                "runs": self.runs,
                "spans": self.spans,
                "foreign_spans": self.foreign,
                "lost_spans": self.lost,
                "bytes": self.bytes,
            },
            "requests": {
                "acknowledged": self.acknowledged,
                "retried": self.retried,
                "failed": dict(sorted(self.failed.items())),
                "rejected_items": self.rejected,
            },
            "rate": {
                "seconds": self.elapsed_s,
                "runs_per_s": self.runs * per_s,
                "spans_per_s": (self.spans + self.foreign) * per_s,
                "requests_per_s": self.acknowledged * per_s,
                "behind_s": self.behind_s,
            },
            "latency_s": {
                "p50": quantile(self.latencies_s, 0.5),
                "p99": quantile(self.latencies_s, 0.99),
                "max": quantile(self.latencies_s, 1.0),
            },
            "expected": self.accounts.as_json(),
            "exact": self.exact,
        }


def quantile(values: list[float], share: float) -> float | None:
    """Return the smallest value that is not below this share of all; None where there is none."""
    ordered = sorted(values)
    return ordered[max(0, -int(-len(ordered) * share // 1) - 1)] if ordered else None
