"""Lines: what is one row of JSON, and that a bad line anywhere comes before a bad row."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import pytest

from otel_turnavoid.ledger import MAX_LINE, decode, replay

Refusal = Callable[[Any], tuple[dict[str, Any], str]]
FileOf = Callable[[Any], bytes]
Rows = list[dict[str, Any]]


def test_crlf_and_a_missing_last_newline_are_fine(rows: Rows, file_of: FileOf) -> None:
    plain = file_of(rows)

    other = plain.replace(b"\n", b"\r\n").removesuffix(b"\r\n")

    assert list(decode(io.BytesIO(other))) == list(decode(io.BytesIO(plain)))


def test_fields_may_stand_in_any_order(rows: Rows, file_of: FileOf) -> None:
    turned = [dict(reversed(row.items())) for row in rows]

    assert replay(io.BytesIO(file_of(turned))) == replay(io.BytesIO(file_of(rows)))


def test_a_null_reduction_is_no_reduction(rows: Rows, file_of: FileOf) -> None:
    nulls = [row | {"retained_turn_reduction": None} for row in rows]

    assert replay(io.BytesIO(file_of(nulls))) == replay(io.BytesIO(file_of(rows)))


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"", "is blank; one row of JSON is wanted on each line"),
        (b" \t\r", "is blank; one row of JSON is wanted on each line"),
        (b"schema_version: 1", "is not one row of JSON: JSON is malformed"),
        (b"[]", "expected `object`, got `array`"),
        (b"{}", "object missing required field `schema_version`"),
        (b"\xff\xfe{}", "is not one row of JSON"),
    ],
)
def test_a_line_that_is_no_row_is_refused(
    rows: Rows, file_of: FileOf, refusal: Refusal, line: bytes, problem: str
) -> None:
    first = file_of(rows[:1])

    at, message = refusal(first + line + b"\n")

    assert at == {"line": 2}
    assert message.lower().startswith(f"line 2: {problem}".lower())


def test_two_values_on_a_line_are_refused(rows: Rows, file_of: FileOf, refusal: Refusal) -> None:
    line = file_of(rows[:1]).strip()

    at, message = refusal(line + b" " + line + b"\n")

    assert at == {"line": 1}
    assert message.startswith("line 1: is not one row of JSON: ")


def test_a_carriage_return_alone_ends_no_line(
    rows: Rows, file_of: FileOf, refusal: Refusal
) -> None:
    assert refusal(file_of(rows).replace(b"\n", b"\r"))[0] == {"line": 1}


def test_a_byte_order_mark_is_refused(rows: Rows, file_of: FileOf, refusal: Refusal) -> None:
    assert refusal(b"\xef\xbb\xbf" + file_of(rows)) == (
        {"line": 1},
        "line 1: begins with a byte-order mark; plain UTF-8 is wanted",
    )


def test_a_line_of_4_mib_is_read_and_a_longer_one_refused(
    rows: Rows, file_of: FileOf, refusal: Refusal
) -> None:
    line = json.dumps(rows[0]).encode()
    full = line + b" " * (MAX_LINE - len(line))
    rest = file_of(rows[1:])

    for ending in (b"\n", b"\r\n"):
        assert replay(io.BytesIO(full + ending + rest)).rows == 3
        assert refusal(full + b" " + ending + rest) == (
            {"line": 1},
            "line 1: is longer than 4 MiB; one row is wanted",
        )


def test_a_line_without_end_is_refused_without_reading_it_all(refusal: Refusal) -> None:
    assert refusal(b"[" * (3 * MAX_LINE))[0] == {"line": 1}


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        (["surprise"], 1, "object contains unknown field `surprise`"),
        (["overhead", "surprise_ms"], 0, "overhead: object contains unknown field `surprise_ms`"),
        (["turn_index"], 1.5, "turn_index: expected `int`, got `float`"),
        (["turn_index"], 1.0, "turn_index: expected `int`, got `float`"),
        (["turn_index"], "1", "turn_index: expected `int`, got `str`"),
        (["turn_index"], True, "turn_index: expected `int`, got `bool`"),
        (["turn_index"], None, "turn_index: expected `int`, got `null`"),
        (["turn_index"], 2**63, "turn_index: expected `int` <= 9223372036854775807"),
        (["turn_index"], -(2**63) - 1, "turn_index: expected `int` >= -9223372036854775808"),
        (["turn_index"], 2**70, "turn_index: expected `int` <= 9223372036854775807"),
        (["arm"], 1, "arm: expected `str`, got `int`"),
        (["overhead"], None, "overhead: expected `object`, got `null`"),
        (["overhead", "retry_cost_usd"], "1", "overhead.retry_cost_usd: expected `float`, got"),
        (["overhead", "retry_cost_usd"], float("nan"), "is not one row of JSON"),
        (["overhead", "retry_cost_usd"], float("inf"), "is not one row of JSON"),
        (
            ["required_effect_observation", "control_required"],
            "mail:sent",
            "required_effect_observation.control_required: expected `array`, got `str`",
        ),
        (["retained_turn_reduction"], {"tokens": 1}, "retained_turn_reduction: object missing"),
    ],
)
def test_a_field_of_the_wrong_kind_is_a_bad_line(
    rows: Rows, refusal: Refusal, path: list[str], value: Any, problem: str
) -> None:
    holder = rows[1]
    for name in path[:-1]:
        holder = holder[name]
    holder[path[-1]] = value

    at, message = refusal(rows)

    assert at == {"line": 2}
    assert message.startswith(f"line 2: {problem}")


@pytest.mark.parametrize(
    "path", [["unit_id"], ["control_gross", "tool_cost_usd"], ["overhead", "retry_cost_usd"]]
)
def test_a_missing_field_is_a_bad_line(rows: Rows, refusal: Refusal, path: list[str]) -> None:
    holder = rows[2]
    for name in path[:-1]:
        holder = holder[name]
    del holder[path[-1]]

    at, message = refusal(rows)

    assert at == {"line": 3}
    assert f"object missing required field `{path[-1]}`" in message


def test_a_number_beyond_the_largest_double_is_a_bad_line(
    rows: Rows, file_of: FileOf, refusal: Refusal
) -> None:
    body = file_of(rows).replace(b'"validation_latency_ms": 20', b'"validation_latency_ms": 1e400')

    assert refusal(body) == (
        {"line": 2},
        "line 2: overhead.validation_latency_ms: number out of range",
    )


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param({"arm": "other"}, id="of-a-field"),
        pytest.param({"decision_basis_through_turn": 0}, id="between-fields"),
    ],
)
def test_a_bad_line_comes_before_a_bad_row_that_stands_earlier(
    rows: Rows, file_of: FileOf, refusal: Refusal, fault: dict[str, Any]
) -> None:
    rows[0] |= fault

    assert refusal(file_of(rows) + b"\n")[0] == {"line": 4}


def test_the_first_bad_row_is_named_whatever_breaks_it(rows: Rows, refusal: Refusal) -> None:
    rows[1]["decision_basis_through_turn"] = 0
    rows[2]["arm"] = "other"

    assert refusal(rows)[0] == {"row": 2}


def test_a_bad_row_comes_before_an_input_that_is_not_whole(
    rows: Rows, make_input: Callable[..., Rows], refusal: Refusal
) -> None:
    late = make_input("zzz")
    late[2]["lifecycle"] = "Realized"

    assert refusal([rows[0], *late])[0] == {"row": 4}


def test_an_empty_file_is_refused_without_a_place(refusal: Refusal) -> None:
    assert refusal(b"") == (
        {},
        "the trace is empty; at least one input with its three arms is wanted",
    )
