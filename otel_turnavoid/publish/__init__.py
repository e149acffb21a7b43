"""Decisions as metrics, trace/v1 rows and reports."""
