"""Labels from templates such as ``order:{id}={status}``: names in braces, nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from string import Formatter
from typing import Any

from otel_turnavoid.errors import InputError


class Template:
    """One label with values to fill in; ``{{`` and ``}}`` are braces.

    Raises:
        InputError: It is empty, its braces do not match, or they hold more than a name.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.names: list[str] = []
        try:
            parts = list(Formatter().parse(text))
        except ValueError as error:
            raise InputError("", f"label template {text!r}: {error}") from error
        for _, name, form, conversion in parts:
            if name is None:
                continue
            # No attributes, indexes or formats: a label is made of values as they are.
            if not name or form or conversion or any(sign in name for sign in ".[]"):
                raise InputError(
                    "", f"label template {text!r}: braces hold a name and nothing else"
                )
            self.names.append(name)
        if not text.strip():
            raise InputError("", "a label template must not be empty")
        self._parts = [(literal, name) for literal, name, _, _ in parts]

    def check(self, known: Sequence[str], what: str) -> None:
        """Refuse names that are not known; ``what`` says who knows them.

        Raises:
            InputError: A name is missing; says which ones there are.
        """
        for name in self.names:
            if name not in known:
                raise InputError(
                    "",
                    f"label template {self.text!r} names {name!r}; {what}"
                    f" {', '.join(known) or 'nothing'}",
                )

    def fill(self, values: Mapping[str, Any], text: Callable[[Any], str]) -> str:
        """Return the label, each value written by ``text``."""
        filled = "".join(
            literal + (text(values[name]) if name is not None else "")
            for literal, name in self._parts
        )
        return filled if filled == filled.strip() else quoted(filled)


def plain(value: Any) -> str:
    """Return a value as it stands in a label: the same text for equal values, on one line."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    if isinstance(value, (dict, list)):
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    text = str(value)
    return text if text.isprintable() and text == text.strip() else quoted(text)


def quoted(text: str) -> str:
    """Return text in quotes, so that the space around it and its control characters show."""
    return json.dumps(text, ensure_ascii=False)
