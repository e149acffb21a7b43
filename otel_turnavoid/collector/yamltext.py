"""YAML text -> plain values, with the surprises of YAML 1.1 left out.

Only ``true`` and ``false`` are booleans, nothing is a date or a base-60 number, and the keys of
mappings are the text that stands there, so that ``on: control`` means what it looks like. A key
that stands twice in one mapping is an error.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar, Final

import yaml

from otel_turnavoid.errors import ConfigurationError

_TAG: Final = "tag:yaml.org,2002:"
_SPELLINGS: Final = {
    "bool": ("true|True|TRUE|false|False|FALSE", "tTfF"),
    "int": ("[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    "float": (r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
    "null": ("~|null|Null|NULL|", "~nN"),
    "merge": ("<<", "<"),
}
"""What is more than text, and the characters it starts with."""
_SHOWN: Final = 40
_LONGEST: Final = 100
"""Digits of a number; more take long to read and mean nothing."""
_VALUES: Final = 100_000
"""Values of a document. With aliases of aliases a few lines can mean more than memory holds."""
_DEPTH: Final = 100
"""Values within values; more if an alias stands within itself."""


class _Loader(yaml.SafeLoader):
    """A loader of the core schema of YAML 1.2, and of no other tags."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012
    yaml_constructors: ClassVar[dict[str | None, Any]] = {
        None: yaml.SafeLoader.construct_undefined,
        f"{_TAG}seq": yaml.SafeLoader.construct_yaml_seq,
        f"{_TAG}map": yaml.SafeLoader.construct_yaml_map,
    }

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Refuse a key that stands twice, before merge keys bring in others on purpose."""
        seen: dict[str, yaml.Node] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _fault("a key must be plain text", key)
            if key.value in seen:
                first = seen[key.value].start_mark.line + 1
                raise _fault(f"the key {key.value!r} stands twice, first in line {first}", key)
            seen[key.value] = key
        super().flatten_mapping(node)
        # Once each: merges of merges would double at every step, and a mapping that was
        # flattened comes here again where it is merged into another.
        node.value = list({key.value: (key, value) for key, value in node.value}.values())
        for key, _ in node.value:
            key.tag = f"{_TAG}str"


def _fault(problem: str, node: yaml.Node) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


def _text(loader: _Loader, node: yaml.ScalarNode) -> str:
    text: str = loader.construct_scalar(node)
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise _fault("half of a surrogate pair is no text", node)
    return text


def _special(loader: _Loader, node: yaml.ScalarNode) -> bool | int | float | None:
    """Return what a scalar means that is more than text, also where its tag only says so."""
    text, kind = _text(loader, node), node.tag.removeprefix(_TAG)
    if not re.fullmatch(_SPELLINGS[kind][0], text):
        raise _fault(f"{text[:_SHOWN]!r} does not spell the {kind} that its tag says", node)
    if len(text) > _LONGEST:
        raise _fault(f"a number of more than {_LONGEST} digits", node)
    if kind == "int":
        return int(text, 0 if text[:2] in ("0o", "0x") else 10)
    if kind == "float":
        return float(text)
    return text.lower() == "true" if kind == "bool" else None


for _kind, (_pattern, _first) in _SPELLINGS.items():
    _Loader.add_implicit_resolver(_TAG + _kind, re.compile(f"^(?:{_pattern})$"), list(_first))
for _kind in ("bool", "int", "float", "null"):
    _Loader.add_constructor(_TAG + _kind, _special)
_Loader.add_constructor(f"{_TAG}str", _text)
_Loader.yaml_implicit_resolvers.setdefault("", []).append((f"{_TAG}null", re.compile("^$")))


def read(text: str) -> Any:
    """Return the one document in ``text``; None where it is empty.

    Raises:
        ConfigurationError: It is not YAML, or more than a configuration can be; says in which
            line and column where there is one, in one line of text.
    """
    try:
        value = yaml.load(text, Loader=_Loader)  # noqa: S506 - derived from SafeLoader
    except yaml.MarkedYAMLError as error:
        raise ConfigurationError("", _said(error)) from None
    except yaml.reader.ReaderError as error:
        raise ConfigurationError(
            "", f"character {error.character!r} at position {error.position} is not allowed in YAML"
        ) from None
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        raise ConfigurationError("", f"not readable as YAML: {error}") from None
    _check_size(value)
    return value


def _check_size(value: Any) -> None:
    """Raise ConfigurationError for more values than can be walked, with aliases spelled out."""
    waiting = [(value, 0)]
    passed = 0
    while waiting:
        value, depth = waiting.pop()
        passed += 1
        if depth > _DEPTH:
            raise _too_deep()
        if isinstance(value, (dict, list)):
            inner = value.values() if isinstance(value, dict) else value
            if passed + len(waiting) + len(inner) > _VALUES:
                raise ConfigurationError("", f"more than {_VALUES} values, aliases spelled out")
            waiting.extend((each, depth + 1) for each in inner)


def _too_deep() -> ConfigurationError:
    return ConfigurationError("", f"values nested deeper than {_DEPTH}, or within themselves")


def _said(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    problem = error.problem or error.context or "not readable as YAML"
    if "'\\t'" in problem:
        problem = "a tab; YAML is indented with spaces"
    return place + " ".join(problem.split())
