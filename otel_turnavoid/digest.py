"""The identity of a task input: what two runs must share to be compared (design section 3).

``sha256:`` and 64 lowercase hex digits over the RFC 8785 canonical JSON of
``{"v": 1, "input": …, "state": …}``. Compute it where the whole input is at hand: an attribute
that was received may have been cut on the way. Pure: no clock, file or network.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from itertools import product
from typing import Any, Final

import rfc8785

from otel_turnavoid.errors import DigestError

FORM: Final = 1
"""Version of the hashed form; stands in the form, so that versions never meet by accident."""

_SHAPE: Final = re.compile(r"sha256:[0-9a-f]{64}")
_EACH: Final = "*"


def canonical(value: Any) -> bytes:
    """Return the RFC 8785 canonical JSON of a value made of JSON types.

    Keys are sorted, whitespace is none, ``1.0`` and ``1`` are the same number; text is taken
    as it is, without Unicode normalisation.

    Raises:
        DigestError: for NaN, infinities, integers beyond ±(2**53 - 1), text with lone
            surrogates, keys that are no strings, types that JSON lacks, and values nested too
            deep or in themselves.
    """
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeEncodeError) as error:
        raise DigestError(f"not expressible as canonical JSON: {error}") from error
    except RecursionError as error:
        raise DigestError("not expressible as canonical JSON: nested too deep") from error


def input_digest(input: Any, state: Any = None, *, volatile: Iterable[str] = ()) -> str:  # noqa: A002 - the form's own word
    """Return the input digest of a task.

    Args:
        input: What the task asks, the same in every arm: JSON types only. Not an arm's own
            prompt or tool list.
        state: What of the world's state belongs to the identity of the task, if anything.
        volatile: Fields left out, such as clocks and request ids: dotted paths that start with
            ``input`` or ``state``; ``*`` stands for every element of a list or value of an
            object (``input.messages.*.sent_at``). A path that is absent is fine.

    Returns:
        ``sha256:`` and 64 lowercase hex digits.

    Raises:
        DigestError: The input is empty, also after the volatile fields are left out, or cannot
            be written as canonical JSON, or a path is malformed.
    """
    if _is_empty(input):
        raise DigestError(f"an empty input ({input!r}) has no digest; give the task's input")
    form = {"v": FORM, "input": input, "state": state}
    paths = [_path(path) for path in ([volatile] if isinstance(volatile, str) else volatile)]
    for path in paths:
        form = _without(form, path)
    form.setdefault("state", None)
    body = canonical(form)
    if paths and _is_hollow(form.get("input")):
        raise DigestError("nothing of the input is left beside its volatile fields")
    return _hash(body)


def is_digest(text: object) -> bool:
    """Tell whether ``text`` has the shape of a digest; says nothing about what was hashed."""
    return isinstance(text, str) and _SHAPE.fullmatch(text) is not None


def check_digest(text: object) -> str | None:
    """Return what is wrong with a received digest in one line, or None when it is good."""
    if not is_digest(text):
        return f"want sha256: and 64 lowercase hex digits, got {_shown(text)}"
    if text in EMPTY_DIGESTS:
        return f"{text} is the digest of an empty value"
    return None


def _hash(body: bytes) -> str:
    return f"sha256:{sha256(body).hexdigest()}"


def _empty_digests() -> frozenset[str]:
    empties: tuple[Any, ...] = ("", None, [], {})
    absent = object()
    bodies = [b"", *map(canonical, empties)]
    for pair in product((absent, *empties), repeat=2):
        form = {"v": FORM, "input": pair[0], "state": pair[1]}
        bodies.append(canonical({key: value for key, value in form.items() if value is not absent}))
    return frozenset(map(_hash, bodies))


EMPTY_DIGESTS: Final = _empty_digests()
"""Digests that identify nothing: of empty values, bare and as input and state of the form."""


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, (str, bytes, list, tuple, dict)) and not value)


def _is_hollow(value: Any) -> bool:
    """Tell whether no leaf of a value says anything."""
    if isinstance(value, dict):
        return all(map(_is_hollow, value.values()))
    if isinstance(value, (list, tuple)):
        return all(map(_is_hollow, value))
    return _is_empty(value)


def _path(path: str) -> list[str]:
    keys = path.split(".")
    if keys[0] not in {"input", "state"} or not all(keys):
        raise DigestError(
            f"a volatile path starts with input or state and has no empty part, got {path!r}"
        )
    return keys


def _without(value: Any, path: list[str]) -> Any:
    """Return a value without what stands at ``path``; the given value is left as it is."""
    key, rest = path[0], path[1:]
    if isinstance(value, Mapping):
        chosen = value.keys() if key == _EACH else {key}
        return {
            name: _without(part, rest) if name in chosen else part
            for name, part in value.items()
            if rest or name not in chosen
        }
    if isinstance(value, (list, tuple)) and key == _EACH:
        return [_without(part, rest) for part in value] if rest else []
    return value


def _shown(text: object, limit: int = 80) -> str:
    shown = repr(text)
    return shown if len(shown) <= limit else f"{shown[:limit]}…"
