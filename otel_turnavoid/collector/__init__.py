"""The running processor: configuration, receivers, lifecycle, LedgerService."""
