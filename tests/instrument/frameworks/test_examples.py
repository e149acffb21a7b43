"""The framework examples run offline, and end with an honest credit and a withheld lie."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"

NEEDS = {
    "pydantic_ai_agent": ["pydantic_ai", "openai"],
    "openai_agents_agent": ["agents", "opentelemetry.instrumentation.openai_agents"],
    "langgraph_agent": [
        "langchain.agents",
        "langchain_openai",
        "opentelemetry.instrumentation.langchain",
    ],
}
SAID = """\
control: the model answered 4 times
fused: the model answered 3 times
hasty: the model answered 2 times
control: declared, 4 turns, 4 calls, 4 tools
fused: declared, 3 turns, 3 calls, 4 tools
hasty: declared, 2 turns, 2 calls, 2 tools
control -> fused: 1 avoided, 0 withheld, 0 added
control -> hasty: 0 avoided, 2 withheld (effects-suppressed), 0 added
"""


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


@pytest.mark.skipif("CI" not in os.environ, reason="elsewhere, what is missing is skipped")
def test_ci_has_everything_that_tests_of_frameworks_and_sdks_need() -> None:
    needed = {module for modules in NEEDS.values() for module in modules}
    needed |= {"anthropic", "openinference.instrumentation.openai_agents"}

    assert [module for module in sorted(needed) if not _is_there(module)] == []


@pytest.mark.parametrize("name", NEEDS)
def test_a_framework_example_ends_with_its_verdicts(name: str) -> None:
    missing = [module for module in NEEDS[name] if not _is_there(module)]
    if missing:
        pytest.skip(f"needs the extra 'frameworks': {', '.join(missing)}")
    environment = {key: value for key, value in os.environ.items() if "OTEL_" not in key}

    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py")],
        env=environment | {"TURNAVOID_MODE": "development"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout) == (0, SAID), done.stderr
