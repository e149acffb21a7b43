"""The offline ledger: ``fak.turnavoid.trace/v1`` rows in, ``fak.turnavoid.report/v1`` out.

Pure: no clock, no database; ``replay`` reads the stream it is given. Start with ``row`` for
what a row is, ``rules`` and ``inputs`` for what is refused, ``group`` for what earns credit,
``report`` for the outcome.
"""

from otel_turnavoid.ledger.decode import MAX_LINE, decode
from otel_turnavoid.ledger.fold import empty_report, fold, replay
from otel_turnavoid.ledger.report import (
    HONEST,
    HONEST_WITHHELD_CREDIT,
    REPORT_SCHEMA,
    Accounting,
    ArmReport,
    Attribution,
    LifecycleCounts,
    Report,
    report_json,
)
from otel_turnavoid.ledger.row import (
    NO_OVERHEAD,
    TRACE_SCHEMA,
    EffectObservation,
    Gross,
    Overhead,
    RetainedTurnReduction,
    Row,
)

__all__ = [
    "HONEST",
    "HONEST_WITHHELD_CREDIT",
    "MAX_LINE",
    "NO_OVERHEAD",
    "REPORT_SCHEMA",
    "TRACE_SCHEMA",
    "Accounting",
    "ArmReport",
    "Attribution",
    "EffectObservation",
    "Gross",
    "LifecycleCounts",
    "Overhead",
    "Report",
    "RetainedTurnReduction",
    "Row",
    "decode",
    "empty_report",
    "fold",
    "replay",
    "report_json",
]
