"""The package's public face: every name documented, nothing imported before it is used."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import pytest

import otel_turnavoid
from otel_turnavoid import instrument, observers, testing


@pytest.mark.parametrize("module", [otel_turnavoid, instrument, observers, testing])
def test_every_public_name_is_there_and_documented(module: object) -> None:
    names = [name for name in module.__all__ if name != "__version__"]  # type: ignore[attr-defined]
    things = [getattr(module, name) for name in names]
    assert [
        name
        for name, thing in zip(names, things, strict=True)
        if callable(thing) and not (thing.__doc__ or "").strip()
    ] == []


def test_the_version_is_the_distributions() -> None:
    assert otel_turnavoid.__version__ == version("otel-turnavoid")


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'otel_turnavoid' has no attribute 'invok'"):
        otel_turnavoid.invok  # noqa: B018


def test_dir_lists_the_public_names() -> None:
    assert set(otel_turnavoid.__all__) <= set(dir(otel_turnavoid))


@pytest.mark.parametrize(
    ("code", "unwanted"),
    [
        ("import otel_turnavoid", "opentelemetry"),
        ("from otel_turnavoid import input_digest", "opentelemetry"),
        ("from otel_turnavoid import invoke", "opentelemetry.sdk"),
        ("from otel_turnavoid import Observer", "opentelemetry"),
    ],
)
def test_importing_brings_in_no_more_than_needed(code: str, unwanted: str) -> None:
    check = f"{code}\nimport sys\nsys.exit({unwanted!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
