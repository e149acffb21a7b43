"""The durable ledger: facts in, final decisions out."""

from otel_turnavoid.store.ledger import DEFAULT_URL, Added, Ledger, RunLine

__all__ = ["DEFAULT_URL", "Added", "Ledger", "RunLine"]
