"""What a list of pairs is asked for, as it stands in the query of its address."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeVar
from urllib.parse import urlencode

from otel_turnavoid.errors import InputError
from otel_turnavoid.judge.verdict import PairDecided
from otel_turnavoid.pages import links
from otel_turnavoid.store.reading import Record
from otel_turnavoid.vocabulary import CANDIDATE_ARMS, Arm, WithheldCause, Word

LONGEST: Final = 512
"""Characters of a name that is looked for."""

_LARGEST_NUMBER_LENGTH: Final = 18


class Result(Word):
    """What came of a pair."""

    AVOIDED = "avoided"
    WITHHELD = "withheld"
    ADDED = "added"
    EQUAL = "equal"
    """No difference in turns, or one that cannot be told."""


class Asked(NamedTuple):
    """Which pairs are wanted; what is None does not matter."""

    arm: Arm | None = None
    variant: str | None = None
    result: Result | None = None
    cause: WithheldCause | None = None
    experiment: str | None = None
    before: int | None = None
    """Pairs decided before the one of this number."""

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> Asked:
        """Return what a query asks for; keys that are not ours are left alone.

        Raises:
            InputError: A value cannot be.
        """
        return cls(
            arm=_word(query, "arm", {arm.value: arm for arm in CANDIDATE_ARMS}),
            variant=_name(query, "variant"),
            result=_word(query, "result", {each.value: each for each in Result}),
            cause=_word(query, "cause", {cause.value: cause for cause in WithheldCause}),
            experiment=_name(query, "experiment"),
            before=_number(query, "before"),
        )

    def path(self, **changes: Word | int | str | None) -> str:
        """Return the address of the list, with ``changes`` to what is asked for."""
        asked = {**self._asdict(), **changes}
        stated = {key: str(value) for key, value in asked.items() if value is not None}
        return f"{links.PAIRS}?{urlencode(stated)}" if stated else links.PAIRS

    def wants(self, record: Record) -> bool:
        """Whether a decision is one of those asked for, wherever it stands in the journal."""
        pair = record.decision
        if not isinstance(pair, PairDecided):
            return False
        run = pair.candidate
        return (
            self.arm in (None, run.arm)
            and self.variant in (None, run.variant)
            and self.result in (None, result(pair))
            and (self.cause is None or self.cause in pair.causes)
            and self.experiment in (None, run.key.experiment if run.key else None)
        )


def result(pair: PairDecided) -> Result:
    """Return what came of a pair."""
    if pair.avoided:
        return Result.AVOIDED
    if pair.withheld:
        return Result.WITHHELD
    return Result.ADDED if pair.added else Result.EQUAL


_WordT = TypeVar("_WordT", bound=Word)


def _word(query: Mapping[str, str], key: str, words: Mapping[str, _WordT]) -> _WordT | None:
    given = query.get(key, "").strip()
    if given and given not in words:
        raise InputError(key, f"wants one of {', '.join(words)}; got {given[:60]!r}")
    return words[given] if given else None


def _name(query: Mapping[str, str], key: str) -> str | None:
    given = query.get(key, "").strip()
    if len(given) > LONGEST:
        raise InputError(key, f"has at most {LONGEST} characters, got {len(given)}")
    return given or None


def _number(query: Mapping[str, str], key: str) -> int | None:
    given = query.get(key, "").strip()
    number = parsed(given)
    if given and number is None:
        raise InputError(key, f"wants the number of a pair, got {given[:60]!r}")
    return number


def parsed(text: str) -> int | None:
    """Return the number of a decision that ``text`` spells; None where it spells none."""
    fits = text.isascii() and text.isdigit() and len(text) <= _LARGEST_NUMBER_LENGTH
    return int(text) if fits else None
