"""YAML text -> plain values, with the surprises of YAML 1.1 left out.

Only ``true`` and ``false`` are booleans, nothing is a date or a base-60 number, and the keys of
mappings are the text that stands there, so that ``on: control`` means what it looks like. A key
that stands twice in one mapping is an error.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from otel_turnavoid.errors import ConfigurationError


class _Loader(yaml.SafeLoader):
    """The safe loader with the core schema of YAML 1.2."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Refuse a key that stands twice, before merge keys bring in others on purpose."""
        seen: dict[str, yaml.Node] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(
                    None, None, "a key must be plain text", key.start_mark
                )
            if key.value in seen:
                first = seen[key.value].start_mark.line + 1
                raise yaml.constructor.ConstructorError(
                    None,
                    None,
                    f"the key {key.value!r} stands twice, first in line {first}",
                    key.start_mark,
                )
            seen[key.value] = key
        super().flatten_mapping(node)
        for key, _ in node.value:
            key.tag = "tag:yaml.org,2002:str"


def _resolve(tag: str, pattern: str, first: str) -> None:
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{tag}", re.compile(rf"^(?:{pattern})$"), list(first)
    )


_resolve("bool", "true|True|TRUE|false|False|FALSE", "tTfF")
_resolve("int", "[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789")
_resolve("float", r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)(?:[eE][-+]?[0-9]+)?", "-+.0123456789")
_resolve("null", "~|null|Null|NULL|", "~nN")
_Loader.yaml_implicit_resolvers.setdefault("", []).append(
    ("tag:yaml.org,2002:null", re.compile("^$"))
)
_resolve("merge", "<<", "<")


def read(text: str) -> Any:
    """Return the one document in ``text``; None where it is empty.

    Raises:
        ConfigurationError: It is not YAML; says in which line and column, in one line of text.
    """
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - derived from SafeLoader
    except yaml.MarkedYAMLError as error:
        raise ConfigurationError("", _said(error)) from None
    except yaml.reader.ReaderError as error:
        raise ConfigurationError(
            "", f"character {error.character!r} at position {error.position} is not allowed in YAML"
        ) from None
    except (ValueError, RecursionError) as error:
        raise ConfigurationError("", f"not readable as YAML: {error}") from None


def _said(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
    problem = error.problem or error.context or "not readable as YAML"
    if "'\\t'" in problem:
        problem = "a tab; YAML is indented with spaces"
    return place + " ".join(problem.split())
