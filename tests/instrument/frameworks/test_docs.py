"""docs/frameworks.md says what is so."""

from __future__ import annotations

import ast
import importlib
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "frameworks.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("program", PROGRAMS)
def test_its_programs_import_what_there_is(program: str) -> None:
    for node in ast.walk(ast.parse(program)):
        if isinstance(node, ast.ImportFrom):
            module = importlib.import_module(node.module or "")
            assert [each.name for each in node.names if not hasattr(module, each.name)] == []


def test_the_files_that_it_names_exist() -> None:
    named = re.findall(r"`((?:examples|tests)/[^`]+\.py)`", PAGE)

    assert named
    assert [name for name in named if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize(
    ("package", "shown"),
    [
        ("pydantic-ai-slim", "pydantic-ai {}"),
        ("openai-agents", "openai-agents {}"),
        ("opentelemetry-instrumentation-openai-agents-v2", "openai-agents-v2` {}"),
        ("langchain", "langchain {}"),
        ("langgraph", "langgraph {}"),
        ("opentelemetry-instrumentation-langchain", "instrumentation-langchain` {}"),
        ("anthropic", "Anthropic's SDK {}"),
    ],
)
def test_the_versions_in_it_are_those_that_are_tested(package: str, shown: str) -> None:
    """On the newest Python; older ones get older versions."""
    try:
        installed = version(package)
    except PackageNotFoundError:
        pytest.skip("needs the extra 'frameworks'")
    pinned = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    if f'{package}=={installed}; python_version < "3.11"' in pinned:
        pytest.skip("an older version for this Python")

    assert shown.format(".".join(installed.split(".")[:2])) in PAGE
