"""The conformance files: accepted or refused, the place of the fault, every figure."""

from __future__ import annotations

import json
from math import isclose
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from otel_turnavoid.errors import TraceError
from otel_turnavoid.ledger import replay

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.corpus


@pytest.fixture(scope="module")
def cases(shared: Path) -> Path:
    return shared / "conformance" / "replay"


def outcome(path: Path) -> dict[str, Any]:
    with path.open("rb") as stream:
        try:
            return {"accepted": True, "report": msgspec.to_builtins(replay(stream))}
        except TraceError as error:
            return {"accepted": False, "at": error.at}


def same(got: Any, want: Any) -> bool:
    """Integers exactly, floats to 1e-9 relative (1e-9 absolute at zero), the rest equal."""
    if isinstance(got, float) and isinstance(want, int | float):
        return isclose(got, want, rel_tol=1e-9, abs_tol=1e-9 if want == 0 else 0.0)
    if isinstance(got, dict) and isinstance(want, dict):
        return list(got) == list(want) and all(same(got[key], want[key]) for key in got)
    if isinstance(got, list | tuple) and isinstance(want, list):
        return len(got) == len(want) and all(map(same, got, want))
    return type(got) is type(want) and got == want


def test_every_conformance_file_has_its_stated_outcome(cases: Path) -> None:
    expected = json.loads((cases / "expected.json").read_text())

    wrong = [name for name, want in expected.items() if not same(outcome(cases / name), want)]

    assert wrong == []
    assert len(expected) > 100
