"""Pure: spans of each vocabulary -> facts; one file per vocabulary."""

from otel_turnavoid.dialects.reader import Reader
from otel_turnavoid.dialects.view import Refusal, SpanView

__all__ = ["Reader", "Refusal", "SpanView"]
