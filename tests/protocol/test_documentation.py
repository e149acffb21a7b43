"""``docs/protocol.md`` states the defaults, and configurations that can be used."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from otel_turnavoid.collector.components import GrpcProtocol, HttpProtocol, OtlpReceiver, Protocols
from otel_turnavoid.collector.config import parse
from otel_turnavoid.otlp import Limits
from otel_turnavoid.otlp.limits import PARTS, VALUES

TEXT = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text(encoding="utf-8")


@pytest.fixture
def blocks() -> list[str]:
    return re.findall(r"^```yaml\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


def test_the_limits_that_are_shown_are_the_defaults(blocks):
    defaults = OtlpReceiver(protocols=Protocols(grpc=GrpcProtocol(), http=HttpProtocol()))

    assert parse(blocks[0], env={}).receiver == defaults


@pytest.mark.parametrize("section", [GrpcProtocol, HttpProtocol, OtlpReceiver])
def test_every_key_is_named(section):
    elsewhere = {"protocols", "tls", "auth"}
    missing = [
        name for name in section.__struct_fields__ if name not in TEXT and name not in elsewhere
    ]

    assert missing == []


def test_the_memory_limiter_that_is_shown_can_be_used(blocks):
    memory = parse(blocks[1], env={}).memory

    assert memory is not None
    assert memory.limits("key") == (1200 << 20, 1500 << 20)


def test_fixed_limits_and_defaults_agree_with_the_code():
    assert f"{PARTS:,} values" in TEXT
    assert f"{VALUES:,} values" in TEXT
    assert Limits() == Limits(
        items=OtlpReceiver(protocols=Protocols()).max_request_items,
        attributes=OtlpReceiver(protocols=Protocols()).max_item_attributes,
    )
