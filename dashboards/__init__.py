"""Grafana dashboards and Prometheus rules as code; `make dashboards` writes the package's files.

Needed at development time only: what is shipped is what this writes, ``otel_turnavoid/dashboards``.
"""
