"""Wrapped signatures survive mypy strict and pyright strict."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from mypy import api

ROOT = Path(__file__).parents[2]


def test_uses_of_the_api_type_check_with_mypy(tmp_path: Path) -> None:
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


def test_uses_of_the_api_type_check_with_pyright() -> None:
    pytest.importorskip("pyright")
    if shutil.which("node") is None and "CI" not in os.environ:
        pytest.skip("pyright needs node")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pyright", "--outputjson"),
            *("--pythonpath", sys.executable),
            "tests/typing/api.py",
        ],
        cwd=ROOT,
        env=os.environ | {"PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )

    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == 1
    assert [each["message"] for each in report["generalDiagnostics"]] == []
