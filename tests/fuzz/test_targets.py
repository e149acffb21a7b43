"""Whatever bytes come, each reader says what the plain way says, or refuses in one line.

The checks are those of the coverage-guided fuzzer; here hypothesis makes up the input. What a
check holds true stands in ``fuzz/README.md``.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz.choices import Choices
from fuzz.mutating import damaged, mutated
from fuzz.odd_json import odd_json
from fuzz.targets import TARGETS

EVERY = pytest.mark.parametrize("name", TARGETS)
JSON = ("traces-json", "logs-json", "trace-file", "recorded-file")

decisions = st.binary(max_size=64)
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@EVERY
def test_a_seed_is_fine(name: str) -> None:
    for seed in TARGETS[name].seeds():
        TARGETS[name].check(seed)


@EVERY
@given(body=st.binary(max_size=200))
@unhurried
def test_any_bytes(name: str, body: bytes) -> None:
    TARGETS[name].check(body)


@EVERY
@given(data=decisions)
@unhurried
def test_damaged_bytes(name: str, data: bytes) -> None:
    choices = Choices(data)

    TARGETS[name].check(damaged(choices.one(TARGETS[name].seeds()), choices))


@given(data=decisions)
@unhurried
def test_traces_damaged_in_their_structure(data: bytes) -> None:
    choices = Choices(data)

    TARGETS["traces"].check(mutated(choices.one(TARGETS["traces"].seeds()), choices))


@pytest.mark.parametrize("name", JSON)
@given(data=decisions)
@unhurried
def test_json_with_something_odd_in_it(name: str, data: bytes) -> None:
    choices = Choices(data)

    TARGETS[name].check(odd_json(choices.one(TARGETS[name].seeds()), choices))


@given(text=st.text(max_size=200))
@unhurried
def test_any_text_as_a_configuration(text: str) -> None:
    TARGETS["configuration"].check(text.encode(errors="replace"))
