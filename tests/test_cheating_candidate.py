"""The example of a candidate that cheats, as a user runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[1] / "examples" / "cheating_candidate.py"


def test_the_honest_candidate_earns_and_the_cheating_one_is_explained() -> None:
    environment = {key: value for key, value in os.environ.items() if "OTEL_" not in key}

    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLE)],
        env=environment | {"TURNAVOID_MODE": "development"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    verdicts, explained = done.stdout.split("\n\n", maxsplit=1)
    assert verdicts.splitlines() == [
        "cheat: 0 avoided, 3 withheld",
        "honest: 2 avoided, 0 withheld",
    ]
    lines = [" ".join(line.split()) for line in explained.splitlines()]
    assert lines[:2] == [
        "control with cheat (exact-reuse)",
        "3 model turns withheld: effects-suppressed",
    ]
    assert "seen MISSING order:42=cancelled" in lines
    assert "seen MISSING refund:42=19.90" in lines
