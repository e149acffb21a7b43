"""Wrapped signatures survive mypy strict."""

from __future__ import annotations

from pathlib import Path

from mypy import api

ROOT = Path(__file__).parents[2]


def test_uses_of_the_api_type_check(tmp_path: Path) -> None:
    """``tests/typing/api.py`` holds right uses, and wrong ones that mypy must refuse."""
    output, errors, status = api.run(
        [
            "--strict",
            "--follow-imports=silent",
            f"--cache-dir={tmp_path}",
            f"--config-file={ROOT / 'pyproject.toml'}",
            str(ROOT / "tests/typing/api.py"),
        ]
    )

    assert (output, errors, status) == ("Success: no issues found in 1 source file\n", "", 0)
