from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_turnavoid.digest import (
    EMPTY_DIGESTS,
    canonical,
    check_digest,
    input_digest,
    is_digest,
)
from otel_turnavoid.errors import DigestError


def of(text: str) -> str:
    """The digest of a canonical form written out by hand."""
    return "sha256:" + sha256(text.encode()).hexdigest()


GOLDEN = [
    pytest.param(
        {"input": "Cancel order 42"},
        '{"input":"Cancel order 42","state":null,"v":1}',
        id="text-without-state",
    ),
    pytest.param(
        {"input": {"b": [1, True, None], "a": "ü"}, "state": {"open": 3}},
        '{"input":{"a":"ü","b":[1,true,null]},"state":{"open":3},"v":1}',
        id="keys-sorted",
    ),
    pytest.param(
        {"input": [0.1, 1e21, 1e-7, 100.0, -0.0, 9007199254740991]},
        '{"input":[0.1,1e+21,1e-7,100,0,9007199254740991],"state":null,"v":1}',
        id="numbers-as-ecmascript",
    ),
    pytest.param(
        {"input": 'tab\t quote" back\\ bell\x07 euro€'},
        '{"input":"tab\\t quote\\" back\\\\ bell\\u0007 euro€","state":null,"v":1}',
        id="escapes",
    ),
    pytest.param(
        {"input": {"\ufb33": 1, "\U0001f600": 2}},
        '{"input":{"\U0001f600":2,"\ufb33":1},"state":null,"v":1}',
        id="keys-in-utf-16-order",
    ),
    pytest.param(
        {"input": 0, "state": {}}, '{"input":0,"state":{},"v":1}', id="zero-is-no-empty-input"
    ),
    pytest.param(
        {"input": False}, '{"input":false,"state":null,"v":1}', id="false-is-no-empty-input"
    ),
]


@pytest.mark.parametrize(("given_", "form"), GOLDEN)
def test_the_digest_is_the_sha256_of_the_canonical_form(given_: dict[str, Any], form: str) -> None:
    assert input_digest(**given_) == of(form)


def test_a_digest_that_another_program_computed() -> None:
    """``printf '%s' '{"input":"x","state":null,"v":1}' | sha256sum``."""
    assert (
        input_digest("x")
        == "sha256:070cf7d7e65f8d2dbff0b8c26a92826e08f4699244c1bde2c2d348effb29e45e"
    )


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def shuffled(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: shuffled(part) for key, part in reversed(value.items())}
    return [shuffled(part) for part in value] if isinstance(value, list) else value


@given(st.dictionaries(st.text(), json_values, min_size=1, max_size=4))
def test_key_order_and_whitespace_do_not_matter(task: dict[str, Any]) -> None:
    written = json.loads(json.dumps(shuffled(task), indent=3))

    assert input_digest(written) == input_digest(task)


@given(json_values)
def test_the_canonical_form_reads_back_as_the_same_value(value: Any) -> None:
    assert json.loads(canonical(value)) == value


def test_inputs_that_differ_late_have_different_digests() -> None:
    assert input_digest("a" * 2000 + "b") != input_digest("a" * 2000 + "c")


def test_state_belongs_to_the_identity() -> None:
    assert input_digest("x", {"stock": 1}) != input_digest("x", {"stock": 2})


VOLATILE = [
    pytest.param(
        {"q": "x", "at": 1}, {"q": "x", "at": 2}, ["input.at"], '{"q":"x"}', id="top-level"
    ),
    pytest.param(
        {"q": {"at": 1, "x": 0}},
        {"q": {"x": 0}},
        ["input.q.at", "input.never.there", "state.at"],
        '{"q":{"x":0}}',
        id="nested-and-absent",
    ),
    pytest.param(
        {"m": [{"t": "a", "at": 1}, {"t": "b", "at": 2}]},
        {"m": [{"t": "a"}, {"at": 9, "t": "b"}]},
        ["input.m.*.at"],
        '{"m":[{"t":"a"},{"t":"b"}]}',
        id="in-each-element",
    ),
    pytest.param({"q": 1, "at": 1}, {"q": 1}, "input.at", '{"q":1}', id="one-path-as-text"),
]


@pytest.mark.parametrize(("one", "other", "paths", "kept"), VOLATILE)
def test_volatile_fields_are_left_out(one: Any, other: Any, paths: Any, kept: str) -> None:
    expected = of(f'{{"input":{kept},"state":null,"v":1}}')

    assert [input_digest(task, volatile=paths) for task in (one, other)] == [expected, expected]


def test_leaving_fields_out_does_not_change_the_given_input() -> None:
    task = {"q": {"at": 1, "x": 0}}

    input_digest(task, volatile=["input.q.at"])

    assert task == {"q": {"at": 1, "x": 0}}


@pytest.mark.parametrize("empty", ["", b"", None, [], (), {}], ids=repr)
def test_an_empty_input_has_no_digest(empty: object) -> None:
    with pytest.raises(DigestError, match=r"an empty input \(.*\) has no digest"):
        input_digest(empty, {"state": "does not help"})


@pytest.mark.parametrize(
    ("task", "path"),
    [({"at": 1}, "input.at"), ({"q": {"at": 1}}, "input.q.at"), ({"at": 1}, "input")],
)
def test_an_input_of_volatile_fields_only_has_no_digest(task: object, path: str) -> None:
    with pytest.raises(DigestError, match="nothing of the input is left"):
        input_digest(task, volatile=[path])


@pytest.mark.parametrize("path", ["at", "", "input.", "input..at"])
def test_a_malformed_volatile_path_is_refused(path: str) -> None:
    with pytest.raises(DigestError, match="a volatile path starts with input or state"):
        input_digest("x", volatile=[path])


def in_itself() -> list[Any]:
    ring: list[Any] = []
    ring.append(ring)
    return ring


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (2**53, "9007199254740992 exceeds safe integer domain"),
        (-(2**53), "-9007199254740992 exceeds safe integer domain"),
        (float("nan"), "nan is not representable"),
        (float("inf"), "inf is not representable"),
        ("\ud800", "non-UTF-8"),
        ({"\ud800": 1}, "surrogates not allowed"),
        ({1: "x"}, "object keys must be strings"),
        (b"bytes", "unsupported type"),
        ({"a": {1, 2}}, "unsupported type"),
        (in_itself(), "nested too deep"),
    ],
    ids=lambda value: None if isinstance(value, list) else repr(value),
)
def test_what_json_cannot_say_is_refused(value: object, problem: str) -> None:
    with pytest.raises(DigestError, match=f"not expressible as canonical JSON: .*{problem}"):
        input_digest(value)


EMPTY_FORMS = [
    "",
    '""',
    "null",
    "[]",
    "{}",
    '{"input":null,"state":null,"v":1}',
    '{"input":"","state":null,"v":1}',
    '{"input":[],"state":null,"v":1}',
    '{"input":{},"state":null,"v":1}',
    '{"input":{},"state":{},"v":1}',
    '{"input":"","state":[],"v":1}',
    '{"input":"","v":1}',
    '{"v":1}',
]


@pytest.mark.parametrize("form", EMPTY_FORMS)
def test_digests_of_nothing_are_known(form: str) -> None:
    assert check_digest(of(form)) == f"{of(form)} is the digest of an empty value"


def test_a_state_makes_no_empty_digest_of_a_real_input() -> None:
    assert input_digest("x", {}) not in EMPTY_DIGESTS


@pytest.mark.parametrize(
    "text",
    [
        "sha256:" + "A" * 64,
        "sha256:" + "a" * 63,
        "sha256:" + "a" * 64 + "\n",
        "a" * 64,
        "md5:" + "a" * 64,
        "",
        None,
        7,
    ],
    ids=repr,
)
def test_a_malformed_digest_is_told_what_is_wanted(text: object) -> None:
    problem = check_digest(text)

    assert not is_digest(text)
    assert problem is not None
    assert problem.startswith("want sha256: and 64 lowercase hex digits, got ")


def test_a_good_digest_has_no_problem() -> None:
    assert is_digest("sha256:" + "0a" * 32)
    assert check_digest("sha256:" + "0a" * 32) is None


def test_an_input_that_is_nested_too_deep_is_refused_with_volatile_paths_too() -> None:
    with pytest.raises(DigestError, match="nested too deep"):
        input_digest(in_itself(), volatile=["input.at"])


def test_leaving_the_state_out_is_having_none() -> None:
    assert input_digest("x", {"at": 1}, volatile=["state"]) == input_digest("x")
