"""Pure: trace/v1 rows, their fold, and report/v1 (design section 6)."""
