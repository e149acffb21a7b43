"""Parsed YAML -> msgspec structs, with errors that name the key as users spell it.

msgspec checks each value; the walk through the sections is ours, because an error has to name
the whole dotted key, also through mappings with free keys, and what was given and is wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import NoneType, UnionType
from typing import Any, ClassVar, TypeVar, Union, get_args, get_origin

import msgspec

from otel_turnavoid.collector import duration
from otel_turnavoid.collector.duration import Duration
from otel_turnavoid.collector.endpoint import WANTED as ENDPOINT_WANTED
from otel_turnavoid.collector.endpoint import Endpoint
from otel_turnavoid.collector.environment import Expanded
from otel_turnavoid.collector.problems import NotedError, part, usable
from otel_turnavoid.errors import ConfigurationError
from otel_turnavoid.vocabulary import Word


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the sections of a configuration; field names are the keys."""

    shorthand: ClassVar[str | None] = None
    """The key that is meant where a section is written as a single value."""
    confidential: ClassVar[bool] = False
    """Whether what stands wrongly in place of the section may be a secret."""


class Secret(str):
    """Text that is never shown."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'****'"


SectionT = TypeVar("SectionT", bound=Section)


def mapping(value: Any, key: str) -> dict[str, Any]:
    """Return ``value`` as a mapping; nothing at all is an empty one.

    Raises:
        ConfigurationError: It is something else.
    """
    if usable(value) is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigurationError(key, f"wants a mapping, got {shown(value)}")
    return value


def read(kind: type[SectionT], value: Any, key: str) -> SectionT:
    """Return the section ``value`` as a struct; a key without a value keeps its default.

    Raises:
        ConfigurationError: A key is unknown, missing or has a value it cannot have.
    """
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    if kind.shorthand and isinstance(value, str):
        return kind(**{kind.shorthand: _value(fields[kind.shorthand].type, value, key)})
    if kind.confidential:
        value = _unshown(value)
    elif any(_given(field.type) is Secret for field in fields.values()):
        value = value if isinstance(value, dict) else _unshown(value)
    given = mapping(value, key)
    refuse_unknown(given, fields, key)
    values, unusable = {}, False
    for name, field in fields.items():
        inner = f"{key}.{name}" if key else name
        section = _section_in(field.type)
        with part():
            if given.get(name) is not None or (name in given and section):
                values[field.name] = _value(field.type, given[name], inner)
            elif field.required:
                raise ConfigurationError(inner, "is required")
        if field.required and field.name not in values:
            unusable = True
    if unusable:
        raise NotedError
    return kind(**values)


def refuse_unknown(given: Mapping[str, Any], known: Mapping[str, Any], key: str) -> None:
    """Raise ConfigurationError for keys that are not of ``known``."""
    for name in given:
        with part():
            if name not in known:
                problem = f"unknown key; known: {', '.join(known)}"
                raise ConfigurationError(f"{key}.{name}" if key else name, problem)


def shown(value: Any) -> str:
    """Return a given value for an error message: short, and no secrets."""
    if isinstance(value, Expanded):
        return "the value of an environment variable"
    if isinstance(value, Secret):
        return "something that is not shown, as it may be a secret"
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"  # noqa: PLR2004 - what fits a line


def _unshown(value: Any) -> Any:
    """Return a given value in a form that no error shows."""
    if isinstance(value, dict):
        return {name: _unshown(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_unshown(inner) for inner in value]
    return value if value is None or isinstance(value, bool) else Secret(value)


def _section_in(wanted: Any) -> type[Section] | None:
    """Return the section that a field of this type holds, if it holds one."""
    option = _given(wanted)
    return option if isinstance(option, type) and issubclass(option, Section) else None


def _given(wanted: Any) -> Any:
    """Return the type of a field where it has a value: ``T`` of ``T | None``."""
    if get_origin(wanted) in (Union, UnionType):
        return next(option for option in get_args(wanted) if option is not NoneType)
    return wanted


def _value(field_type: Any, value: Any, key: str) -> Any:
    usable(value)
    wanted = _given(field_type)
    origin, arguments = get_origin(wanted), get_args(wanted)
    if origin is dict:
        if arguments[1] is Secret and not isinstance(value, dict):
            value = _unshown(value)
        pairs = ((name, inner, f"{key}.{name}") for name, inner in mapping(value, key).items())
        return dict(_parts(arguments[1], pairs))
    if origin in (tuple, frozenset):
        if not isinstance(value, list):
            raise ConfigurationError(key, f"wants a list, got {shown(value)}")
        items = ((index, inner, f"{key}[{index}]") for index, inner in enumerate(value))
        return origin(read for _, read in _parts(arguments[0], items))
    section = _section_in(wanted)
    if section is not None:
        return read(section, value, key)
    if wanted is Duration:
        return _parsed(duration.parse(value), duration.WANTED, value, key)
    if wanted is Endpoint:
        return _parsed(Endpoint.parse(value), ENDPOINT_WANTED, value, key)
    if wanted is Secret:
        if not isinstance(value, str):
            raise ConfigurationError(key, "wants text; put it in quotes")
        return Secret(value)
    return _leaf(wanted, value, key)


def _parts(wanted: Any, items: Iterable[tuple[Any, Any, str]]) -> Iterator[tuple[Any, Any]]:
    """Yield the values of a mapping or list, each under its name or index.

    Args:
        wanted: Type of each.
        items: Name or index, value and key.
    """
    for name, value, key in items:
        read: list[Any] = []
        with part():
            read.append(_value(wanted, value, key))
        yield from ((name, each) for each in read)


def _parsed(parsed: Any, wanted: str, value: Any, key: str) -> Any:
    if parsed is None:
        raise ConfigurationError(key, f"wants {wanted}, got {shown(value)}")
    return parsed


def _leaf(wanted: Any, value: Any, key: str) -> Any:
    if isinstance(wanted, type) and issubclass(wanted, Word):
        words = ", ".join(wanted)
        if isinstance(value, float):
            value = str(value)  # a version, such as 1.2, without its quotes
        if not isinstance(value, str) or value not in wanted._value2member_map_:
            raise ConfigurationError(key, f"wants one of {words}, got {shown(value)}")
        return wanted(value)
    plain = str(value) if isinstance(value, (Expanded, Secret)) else value
    try:
        return msgspec.convert(plain, wanted, strict=not isinstance(value, Expanded))
    except msgspec.ValidationError as error:
        raise ConfigurationError(key, f"{_wanted(error)}, got {shown(value)}") from None


def _wanted(error: msgspec.ValidationError) -> str:
    """Return what msgspec says was expected, in our words."""
    said = str(error).split(" - at")[0].split(", got")[0].replace("`", "")
    for name, plain in (("str", "text"), ("int", "a whole number"), ("bool", "true or false")):
        said = said.replace(f"Expected {name}", f"wants {plain}")
    return said.replace("Invalid enum value", "cannot be")
