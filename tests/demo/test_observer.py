"""The observer believes the database, not the agent."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from otel_turnavoid.demo.observer import effects
from otel_turnavoid.demo.shop import Shop, build


@pytest.fixture
def shops(tmp_path: Path) -> tuple[Path, Path]:
    before, after = tmp_path / "before.db", tmp_path / "after.db"
    build(before)
    shutil.copy(before, after)
    return before, after


def test_an_untouched_shop_has_no_effects(shops: tuple[Path, Path]) -> None:
    assert effects(*shops) == []


def test_every_changed_column_and_every_new_row_is_an_effect(shops: tuple[Path, Path]) -> None:
    before, after = shops
    with Shop.open(after) as shop:
        shop.exchange(1006, "L")
        shop.refund(1001, 40)
        shop.mail(1001, "refund")

    assert effects(before, after) == [
        "mail:1001=refund",
        "order:1006.size=L",
        "order:1006.status=exchanged",
        "refund:1001=40",
    ]


def test_what_happened_twice_is_said_twice(shops: tuple[Path, Path]) -> None:
    before, after = shops
    with Shop.open(after) as shop:
        shop.refund(1001, 40)
        shop.refund(1001, 40)

    assert effects(before, after) == ["refund:1001=40", "refund:1001=40"]


def test_looking_up_changes_nothing(shops: tuple[Path, Path]) -> None:
    before, after = shops
    with Shop.open(after) as shop:
        found = shop.look_up(1002)

    assert found["status"] == "open"
    assert effects(before, after) == []
