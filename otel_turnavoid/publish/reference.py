"""Tables of all instruments and labels, made from the vocabulary for ``docs/metrics.md``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Final

from otel_turnavoid.publish.prometheus import label_name, sample_names
from otel_turnavoid.vocabulary import (
    INSTRUMENTS,
    Account,
    Arm,
    Attr,
    Basis,
    Comparison,
    Component,
    Disposition,
    Evidence,
    Instrument,
    Kind,
    Lifecycle,
    Mechanism,
    Outcome,
    OverheadKind,
    Side,
    TokenType,
    ToolDisposition,
    WithheldCause,
)

LABEL_VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    Attr.ARM: tuple(Arm),
    Attr.BASIS: tuple(Basis),
    Attr.COMPARISON: tuple(Comparison),
    Attr.COMPONENT: tuple(Component),
    Attr.EVIDENCE: tuple(Evidence),
    Attr.LIFECYCLE: tuple(Lifecycle),
    Attr.MECHANISM: tuple(Mechanism),
    # Of a run, a speculative model call, a speculative tool execution.
    Attr.OUTCOME: tuple(dict.fromkeys((*Outcome, *Disposition, *ToolDisposition))),
    Attr.OVERHEAD_KIND: tuple(OverheadKind),
    Attr.SIDE: tuple(Side),
    Attr.TOKEN_TYPE: tuple(TokenType),
    Attr.VARIANT: (),
    Attr.WITHHELD_CAUSE: tuple(WithheldCause),
}
"""Label key -> all its values; none for the one label whose values are free names."""

_KINDS = {
    Kind.COUNTER: "counter",
    Kind.UP_DOWN: "up-down counter",
    Kind.HISTOGRAM: "histogram",
}


def metrics_table() -> str:
    """Return Markdown: a section for each account, a row for each of its instruments."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    for account, instruments in groupby(INSTRUMENTS, lambda each: each.account):
        yield from _section(account, instruments)


def _section(account: Account, instruments: Iterator[Instrument]) -> Iterator[str]:
    yield f"### `{account.scope}`"
    yield ""
    yield "| Instrument | Kind | Unit | Labels | In Prometheus | Meaning |"
    yield "|---|---|---|---|---|---|"
    for each in instruments:
        labels = ", ".join(f"`{key}`" for key in each.labels)
        names = ", ".join(f"`{name}`" for name in sample_names(each))
        bounds = f" Buckets up to {', '.join(f'{bound:g}' for bound in each.bounds)}."
        meaning = each.description + (bounds if each.bounds else "")
        yield (
            f"| `{each.name}` | {_KINDS[each.kind]} | `{each.unit}` | {labels} | {names}"
            f" | {meaning} |"
        )
    yield ""


def labels_table() -> str:
    """Return Markdown: a row for each label, with all its values."""
    rows = ["| Label | In Prometheus | Values |", "|---|---|---|"]
    for key, values in LABEL_VALUES.items():
        listed = ", ".join(f"`{value}`" for value in values) or "free"
        rows.append(f"| `{key}` | `{label_name(key)}` | {listed} |")
    return "\n".join(rows)


if __name__ == "__main__":
    import sys

    sys.stdout.write(f"{labels_table()}\n\n{metrics_table()}")
