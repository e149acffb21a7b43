"""Whoever runs these tests wants the real programs."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.peers


def test_a_missing_program_is_a_failure_and_not_a_skip(peers):
    with pytest.raises(pytest.fail.Exception, match=r"bin/nothing is missing; `make peers` builds"):
        peers.program("nothing")
