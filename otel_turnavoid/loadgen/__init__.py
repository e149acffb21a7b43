"""Synthetic control and candidate runs over OTLP, with the accounts that they must come to.

What is sent is a function of a ``Plan`` and nothing else (``generating``): equal plans, equal
bytes. How it is sent, and what became of it, stands apart (``sending``).
"""

from __future__ import annotations

from otel_turnavoid.loadgen.accounts import Accounts
from otel_turnavoid.loadgen.generating import Export, Shipment, shipments
from otel_turnavoid.loadgen.plan import Plan, Spread
from otel_turnavoid.loadgen.sending import Load, Pace
from otel_turnavoid.loadgen.tally import Tally

__all__ = [
    "Accounts",
    "Export",
    "Load",
    "Pace",
    "Plan",
    "Shipment",
    "Spread",
    "Tally",
    "shipments",
]
