"""Work that the change itself costs: spans of overhead, which are no entries.

Whatever lies inside is that overhead in the account of work (``turnavoid.overhead.kind``). They
take no number and stand in no count, so nothing about turns depends on them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, TypeVar, overload

from otel_turnavoid.instrument.scope import Handle, Scope
from otel_turnavoid.vocabulary import Attr, OverheadKind, Purpose

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

F = TypeVar("F", bound="Callable[..., Any]")

_PURPOSES = {
    OverheadKind.VALIDATION.value: Purpose.VALIDATION.value,
    OverheadKind.SPECULATION.value: Purpose.SPECULATION.value,
}


class OverheadHandle(Handle):
    """Open work of overhead."""

    entry: ClassVar[str] = "overhead"
    counted: ClassVar[bool] = False

    def _opening(self, attributes: dict[str, Any]) -> None:
        self.purpose = _PURPOSES.get(attributes.get(Attr.OVERHEAD_KIND, ""), self.purpose)


@overload
def validation(function: F, /) -> F: ...
@overload
def validation() -> Scope[OverheadHandle]: ...
def validation(function: F | None = None, /) -> F | Scope[OverheadHandle]:
    """Checking whether a reuse or batch is right; model calls inside are for validation."""
    return _overhead(OverheadKind.VALIDATION, function)


@overload
def speculation(function: F, /) -> F: ...
@overload
def speculation() -> Scope[OverheadHandle]: ...
def speculation(function: F | None = None, /) -> F | Scope[OverheadHandle]:
    """Work ahead of its need; model calls inside are speculative.

    Say what became of each: one that nobody needed is ``discarded``.
    """
    return _overhead(OverheadKind.SPECULATION, function)


@overload
def retry(function: F, /) -> F: ...
@overload
def retry() -> Scope[OverheadHandle]: ...
def retry(function: F | None = None, /) -> F | Scope[OverheadHandle]:
    """Waiting and working again because of a failure; failed calls are retry work by themselves."""
    return _overhead(OverheadKind.RETRY, function)


@overload
def recovery(function: F, /) -> F: ...
@overload
def recovery() -> Scope[OverheadHandle]: ...
def recovery(function: F | None = None, /) -> F | Scope[OverheadHandle]:
    """Making good what the change spoilt: undoing, falling back, doing it the long way."""
    return _overhead(OverheadKind.RECOVERY, function)


def _overhead(kind: OverheadKind, function: F | None) -> F | Scope[OverheadHandle]:
    scope = Scope(OverheadHandle, kind.value, attributes={Attr.OVERHEAD_KIND: kind.value})
    return scope if function is None else scope(function)
