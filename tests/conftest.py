"""Fixtures shared by all rooms."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("thorough", max_examples=2000)
"""Twenty times the usual cases: ``pytest --hypothesis-profile thorough``."""

SHARED = Path(__file__).parents[2] / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of recorded spans and conformance data beside the checkout.

    It exists on developers' machines and on CI, where its absence is a failure; elsewhere
    the tests that need it are skipped.
    """
    if SHARED.is_dir():
        return SHARED
    if os.environ.get("CI"):
        pytest.fail(f"the shared data folder is missing: {SHARED}")
    pytest.skip("needs ../shared, which only developers and CI have")
