"""Pairs as a table, each a link to why; with a form that says which are wanted."""

from __future__ import annotations

from collections.abc import Iterable

from otel_turnavoid.judge.verdict import PairDecided
from otel_turnavoid.pages import links
from otel_turnavoid.pages.asked import LONGEST, Asked, Result, result
from otel_turnavoid.pages.frame import frame
from otel_turnavoid.pages.latest import Latest
from otel_turnavoid.pages.section import section
from otel_turnavoid.pages.table import cards
from otel_turnavoid.publish.figures import counted, of
from otel_turnavoid.publish.layout import clean, moment
from otel_turnavoid.publish.markup import Child, Html, element
from otel_turnavoid.store.reading import Record
from otel_turnavoid.vocabulary import CANDIDATE_ARMS, WithheldCause, Word

_COLUMNS = ("pair", "result", "turns", "first cause", "arm", "experiment", "decided")


def pair_list(asked: Asked, found: Latest, *, said: str) -> str:
    """Return the page of pairs.

    Args:
        asked: Which pairs are wanted.
        found: Those that were found.
        said: What the footer says.
    """
    return frame(
        "Pairs",
        element("h1", "Pairs"),
        section("Which pairs", form(asked), name="which"),
        section("Latest first", rows(found.records), _pager(asked, found), name="pairs"),
        here=links.PAIRS,
        said=said,
    )


def form(asked: Asked) -> Html:
    """Return the form that asks for pairs."""
    return element(
        "form",
        _choice("arm", "Arm", CANDIDATE_ARMS, asked.arm),
        _text("variant", "Variant", asked.variant),
        _choice("result", "Result", Result, asked.result),
        _choice("cause", "Cause", WithheldCause, asked.cause),
        _text("experiment", "Experiment", asked.experiment),
        element("div", element("button", "Show"), element("a", "All", href=links.PAIRS)),
        action=links.PAIRS,
        method="get",
        class_="filter",
        aria_label="Which pairs",
    )


def rows(records: Iterable[Record]) -> Html:
    """Return pairs as a table, on a phone as cards."""
    lines = [
        _row(record, record.decision)
        for record in records
        if isinstance(record.decision, PairDecided)
    ]
    if not lines:
        return element("p", "No pair fits.")
    return cards("Decided pairs, the latest first", _COLUMNS, lines)


def _row(record: Record, pair: PairDecided) -> list[Child]:
    run, came, causes = pair.candidate, result(pair), pair.causes
    variant = f", {clean(run.variant)}" if run.variant else ""
    more = f" and {len(causes) - 1} more" if len(causes) > 1 else ""
    contradicted = " (contradicted)" if record.contradicted_ns is not None else ""
    return [
        element(
            "a",
            f"{counted(record.number)}: {clean(run.run_id)}",
            href=links.pair_path(record.number),
        ),
        element("span", _amount(pair, came), contradicted, class_=f"mark {came}"),
        element(
            "span",
            f"{_known(pair.control.model_turns)} → {_known(run.model_turns)}",
            class_="whole",
        ),
        f"{causes[0]}{more}" if causes else "-",
        f"{run.arm}{variant}",
        clean(run.key.experiment) if run.key and run.key.experiment else "-",
        moment(record.decided_ns),
    ]


def _amount(pair: PairDecided, came: Result) -> str:
    if came is Result.EQUAL:
        return "no difference"
    return f"{counted(getattr(pair, came.value))} {came}"


def _known(turns: int | None) -> str:
    return "?" if turns is None else counted(turns)


def _pager(asked: Asked, found: Latest) -> Html:
    newest = element("a", "Newest", href=asked.path(before=None)) if asked.before else None
    older = (
        element("a", "Older", href=asked.path(before=found.before), rel="next")
        if found.before is not None
        else None
    )
    looked = f"{of(len(found.records), 'pair')} of {counted(found.looked_at)} looked at"
    end = "" if found.before is not None else "; there are no older ones"
    return element(
        "nav",
        element("p", f"{looked}{end}."),
        element("ul", *(element("li", link) for link in (newest, older) if link is not None)),
        aria_label="More pairs",
    )


def _choice(name: str, label: str, words: Iterable[Word], chosen: Word | None) -> Html:
    options = (
        element("option", word.value, value=word.value, selected="" if word is chosen else None)
        for word in words
    )
    return _labelled(
        name,
        label,
        element(
            "select", element("option", "any", value=""), *options, name=name, id=f"pairs-{name}"
        ),
    )


def _text(name: str, label: str, value: str | None) -> Html:
    box = element(
        "input",
        type="text",
        name=name,
        id=f"pairs-{name}",
        value=value or "",
        maxlength=str(LONGEST),
        placeholder="any",
        autocomplete="off",
        autocapitalize="off",
        spellcheck="false",
    )
    return _labelled(name, label, box)


def _labelled(name: str, label: str, box: Html) -> Html:
    return element("div", element("label", label, for_=f"pairs-{name}"), box)
