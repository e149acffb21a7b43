"""Pages for people: what was withheld and why, rendered on the server from the ledger."""
