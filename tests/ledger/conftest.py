"""A whole input as JSON objects, to break one thing at a time."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from otel_turnavoid.errors import TraceError
from otel_turnavoid.ledger import replay

Object = dict[str, Any]

NOTHING_SPENT = {
    f"{kind}_{unit}": 0
    for unit in ("latency_ms", "cost_usd")
    for kind in ("validation", "speculation", "retry", "recovery")
}
GROSS = {"model_latency_ms": 800, "tool_latency_ms": 40, "model_cost_usd": 0.5, "tool_cost_usd": 0}


def whole_input(unit_id: str = "unit", turn_index: int = 0) -> list[Object]:
    """Three rows: a control of three turns, a reuse of two, and a batch that did nothing."""
    control = {
        "schema_version": "fak.turnavoid.trace/v1",
        "trace_id": "trace",
        "unit_id": unit_id,
        "turn_index": turn_index,
        "decision_basis_through_turn": turn_index - 1,
        "input_digest": "sha256:" + "0123456789abcdef" * 4,
        "arm": "control",
        "mechanism": "control",
        "lifecycle": "realized",
        "reason": "baseline",
        "control_committed_model_turns": 3,
        "candidate_committed_model_turns": 3,
        "required_effect_observation": {
            "independent_observer": "database",
            "control_required": ["mail:sent", "order:42=cancelled"],
            "candidate_required": ["mail:sent", "order:42=cancelled"],
        },
        "control_gross": GROSS,
        "candidate_gross": GROSS,
        "overhead": NOTHING_SPENT,
    }
    reuse = control | {
        "arm": "exact-reuse",
        "mechanism": "exact-reuse",
        "reason": "exact-match",
        "candidate_committed_model_turns": 1,
        "candidate_gross": GROSS | {"model_latency_ms": 300},
        "overhead": NOTHING_SPENT | {"validation_latency_ms": 20},
    }
    batch = control | {
        "arm": "fused-batch",
        "mechanism": "fused-batch",
        "lifecycle": "opportunity",
        "reason": "not-applicable",
    }
    return [json.loads(json.dumps(row)) for row in (control, reuse, batch)]


def to_bytes(rows: Iterable[Object]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


@pytest.fixture
def rows() -> list[Object]:
    return whole_input()


@pytest.fixture
def make_input() -> Callable[..., list[Object]]:
    return whole_input


@pytest.fixture
def file_of() -> Callable[[Iterable[Object]], bytes]:
    return to_bytes


@pytest.fixture
def refusal() -> Callable[[bytes | Iterable[Object]], tuple[Object, str]]:
    """Replay what must be refused; return the place and the whole message."""

    def refuse(file: bytes | Iterable[Object]) -> tuple[Object, str]:
        body = file if isinstance(file, bytes) else to_bytes(file)
        with pytest.raises(TraceError) as raised:
            replay(io.BytesIO(body))
        return raised.value.at, str(raised.value)

    return refuse
