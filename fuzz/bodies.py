"""Compressed bodies of HTTP requests, against the standard library."""

from __future__ import annotations

import gzip
import zlib
from typing import Final

from fuzz.finding import Finding, hold
from otel_turnavoid.collector.http_receiver import Refusal, gunzip

LIMIT: Final = 1 << 16
"""Bytes that a body may expand to."""


def gzipped(body: bytes) -> None:
    """Check a body: as the standard library decompresses it, or refused."""
    try:
        found = gunzip(body, LIMIT)
    except Refusal as refusal:
        hold(len(refusal.refused.message.splitlines()) == 1, "not one line")
        found = None
    hold(found is None or len(found) <= LIMIT, "more than the limit")
    try:
        wanted = gzip.decompress(body)
    except (OSError, EOFError, zlib.error):
        wanted = None
    if found is not None:
        if found != wanted:
            raise Finding("the standard library decompresses it to something else")
    elif wanted is not None and len(wanted) <= LIMIT:
        # Padding with zeros is for tapes.
        hold(body.endswith(b"\0") or not body, "the standard library decompresses it")
