"""The durable ledger: facts in, final decisions out."""

from otel_turnavoid.store.ledger import DEFAULT_URL, Added, Ledger
from otel_turnavoid.store.reading import RunLine

__all__ = ["DEFAULT_URL", "Added", "Ledger", "RunLine"]
