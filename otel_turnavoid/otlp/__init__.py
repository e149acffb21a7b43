"""The wire: OTLP requests and files -> batches of facts."""
