"""Two looks at the world, and what is an effect between them."""

from __future__ import annotations

import stat
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_turnavoid.errors import InputError
from otel_turnavoid.observers import Snapshot, Thing, labels, load, save


def look(*things: Thing | str, source: str = "shop") -> Snapshot:
    made = (Thing(each) if isinstance(each, str) else each for each in things)
    return Snapshot(source=source, things=tuple(made))


def order(number: int, status: str) -> Thing:
    return Thing(f"order:{number}={status}", f"order:{number}=deleted")


def test_what_is_new_is_an_effect_and_what_stayed_is_none() -> None:
    assert labels(look("a", "b"), look("a", "c")) == Counter({"c": 1})


def test_without_a_look_before_everything_is_an_effect() -> None:
    assert labels(None, look("a", "b", "a")) == Counter({"a": 2, "b": 1})


def test_what_happened_twice_is_not_what_happened_once() -> None:
    assert labels(look("mail"), look("mail", "mail", "mail")) == Counter({"mail": 2})


def test_what_is_gone_is_an_effect_if_it_has_a_label_for_that() -> None:
    before = look(order(1, "open"), order(2, "open"), Thing("note"))

    assert labels(before, look(order(1, "sent"))) == Counter(
        {"order:1=sent": 1, "order:2=deleted": 1}
    )


def test_a_changed_thing_is_not_gone() -> None:
    assert labels(look(order(1, "open")), look(order(1, "open"))) == Counter()


def test_looks_for_different_things_are_not_compared() -> None:
    with pytest.raises(InputError, match="the snapshot is of shop, and this look is for mails"):
        labels(look("a"), look("a", source="mails"))


texts = st.text(alphabet="abc", min_size=1, max_size=2)
looks = st.lists(st.builds(Thing, texts, st.just("") | texts), max_size=6).map(lambda x: look(*x))


@given(looks)
def test_nothing_changes_between_a_look_and_itself(one: Snapshot) -> None:
    assert labels(one, one) == Counter()


@given(looks, st.permutations(range(6)), looks)
def test_the_order_of_things_means_nothing(
    one: Snapshot, order: list[int], other: Snapshot
) -> None:
    mixed = look(*(one.things[index] for index in order if index < len(one.things)))

    assert labels(one, other) == labels(mixed, other)
    assert labels(other, one) == labels(other, mixed)


def test_a_snapshot_survives_its_file_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    kept = look(order(1, "öffen"), "note")

    save(kept, tmp_path / "before.json")

    assert load(tmp_path / "before.json") == kept
    assert stat.S_IMODE((tmp_path / "before.json").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"{", "is not a snapshot: "),
        (b'{"things": []}', "is not a snapshot: Object missing required field `source`"),
        (b'{"source": "s", "things": [], "version": 2}', "is a snapshot of version 2, not 1"),
    ],
)
def test_a_file_that_is_no_snapshot_is_refused(
    tmp_path: Path, body: bytes | None, problem: str
) -> None:
    path = tmp_path / "before.json"
    if body is not None:
        path.write_bytes(body)

    with pytest.raises(InputError, match=problem):
        load(path)


def test_a_snapshot_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written: No such file or directory"):
        save(look("a"), tmp_path / "none" / "before.json")
