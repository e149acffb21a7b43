"""The durable ledger: facts in, final decisions out."""
