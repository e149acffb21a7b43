"""Pure: spans of each vocabulary -> facts; one file per vocabulary."""

from otel_turnavoid.dialects.reader import Reader
from otel_turnavoid.dialects.view import RecordView, Refusal, SpanView

__all__ = ["Reader", "RecordView", "Refusal", "SpanView"]
