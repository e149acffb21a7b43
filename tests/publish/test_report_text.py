"""The report as text: one table per account, the verdict in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from otel_turnavoid.ledger import Report, empty_report, replay
from otel_turnavoid.publish.report_text import report_text
from otel_turnavoid.publish.series_sections import CAUSES
from otel_turnavoid.vocabulary import WithheldCause

WITNESS = Path(__file__).parents[2] / "examples" / "witness.jsonl"

TEXT = """\
6 inputs in 18 rows: each with the control, exact-reuse and fused-batch. Where
an arm was not applied the control stands in for it: exact-reuse in 1 input,
fused-batch in 5 inputs.

Verdict: HONEST_WITHHELD_CREDIT
  Some turns that disappeared earn nothing, or a required effect is missing.
  They are shown and not counted as avoided: an honest report, not a failure.
  exact-reuse: 2 turns withheld, 1 required effect suppressed.

Model turns
  A turn that a candidate did without is avoided only if the change was realized
  and an independent observer saw the control's effects; otherwise it is
  withheld. Net is avoided less added. Arms share their controls: do not add
  them.

  arm          inputs  control  candidate  avoided  added  net  withheld
  exact-reuse       6        7          3        2      0   +2         2
  fused-batch       6        7          6        1      0   +1         0

Withheld turns by lifecycle and reason
  A change that was not realized earns nothing; where it was, the effects
  differ, or none was required.

  arm          lifecycle            reason                      turns
  exact-reuse  counterfactual_only  counterfactual-only             1
  exact-reuse  realized             required-effect-suppressed      1

Required effects
  What the observer saw of the control's effects in the candidate's runs.

  arm          preserved  suppressed
  exact-reuse          6           1
  fused-batch          7           0

Kept turns made cheaper
  Attribution by the mechanism, already inside the candidate's work; never an
  avoided turn.

  arm          turns  tokens less  ms less
  exact-reuse      1          128     50.0
  fused-batch      0            0      0.0

Time (ms)
  Work of models and tools. Gross is before the overhead of the change, net
  after it.

  arm          control  candidate  saved gross  overhead  saved net
  exact-reuse    850.0      430.0        420.0   1,010.0     -590.0
  fused-batch    850.0      740.0        110.0       5.0      105.0

Cost (USD)
  The same for stated cost.

  arm           control  candidate  saved gross  overhead  saved net
  exact-reuse  0.014600   0.008100     0.006500  0.002600   0.003900
  fused-batch  0.014600   0.012700     0.001900  0.000000   0.001900

Inputs by lifecycle
  How far the change got; only realized can earn.

  arm          opportunity  realized  counterfactual_only
  exact-reuse            1         4                    1
  fused-batch            5         1                    0
"""


@pytest.fixture(scope="module")
def witness() -> Report:
    with WITNESS.open("rb") as stream:
        return replay(stream)


def test_the_witness_as_text(witness: Report) -> None:
    assert report_text(witness) == TEXT


def test_no_line_is_wider_than_a_terminal(witness: Report) -> None:
    assert max(map(len, report_text(witness).splitlines())) <= 80


def test_strict_is_said(witness: Report) -> None:
    heading, _, _ = report_text(witness, strict=True).partition("\n\n")
    assert heading.splitlines()[-1] == "Strict: where no effect was required, nothing is credited."


def test_a_report_of_nothing_says_so() -> None:
    assert report_text(empty_report()) == (
        "Verdict: HONEST\n"
        "  No pair of a control and a candidate run has been decided yet, so there is\n"
        "  nothing to credit and nothing to withhold.\n"
    )


def test_every_withheld_cause_has_a_meaning_in_the_order_of_the_vocabulary() -> None:
    assert list(CAUSES) == list(WithheldCause)
