"""The placement recipes are whole: files, variables, containers. ``tests/peers`` runs them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from otel_turnavoid.collector import config

ROOT = Path(__file__).parents[1]
PLACEMENT = ROOT / "examples" / "placement"
RECIPES = sorted(folder.name for folder in PLACEMENT.iterdir() if folder.is_dir())
VARIABLE = re.compile(r"\$\{env:(\w+)")

OF_PROGRAMS = {"TURNAVOID_LEDGER", "POSTGRES_USER", "POSTGRES_PASSWORD"}
"""Variables that programs read by themselves."""

INSIDE = {"COLLECTOR_ROUTE_1", "COLLECTOR_ROUTE_2", "PROMETHEUS"}
"""Variables whose defaults are right in a container: what is on localhost there, too."""


def services(recipe: str) -> dict[str, dict[str, Any]]:
    text = (PLACEMENT / recipe / "compose.yaml").read_text(encoding="utf-8")
    found: dict[str, dict[str, Any]] = yaml.safe_load(text)["services"]
    return found


def files(recipe: str) -> list[Path]:
    return [file for file in (PLACEMENT / recipe).glob("*.yaml") if file.name != "compose.yaml"]


def mounted(recipe: str, service: dict[str, Any]) -> list[Path]:
    """Files and folders of the recipe that a service sees."""
    sources = [volume.split(":")[0] for volume in service.get("volumes", [])]
    return [PLACEMENT / recipe / source for source in sources if source.startswith(".")]


def pinned(folder: str, module: str) -> str:
    """The release of a module in one of ``peers``."""
    text = (ROOT / "peers" / folder / "go.mod").read_text(encoding="utf-8")
    (found,) = re.findall(rf"^\s*{re.escape(module)} v(\S+)", text, re.MULTILINE)
    return str(found)


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_readme_names_every_file_and_lists_name_every_recipe(recipe: str) -> None:
    readme = (PLACEMENT / recipe / "README.md").read_text(encoding="utf-8")

    assert [file.name for file in [*files(recipe)] if f"{file.name}" not in readme] == []
    for overview in (PLACEMENT / "README.md", ROOT / "docs" / "placement.md"):
        assert f"{recipe}/" in overview.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "file",
    [
        pytest.param(file, id=f"{recipe}/{file.name}")
        for recipe in RECIPES
        for file in files(recipe)
        if "turnavoid: {}" in file.read_text(encoding="utf-8")
    ],
)
def test_the_processors_configuration_loads_as_it_is(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in VARIABLE.findall(file.read_text(encoding="utf-8")):
        monkeypatch.delenv(variable, raising=False)

    assert config.load(file).exporters


@pytest.mark.parametrize("recipe", RECIPES)
def test_containers_mount_files_that_exist(recipe: str) -> None:
    sources = [path for service in services(recipe).values() for path in mounted(recipe, service)]

    assert [path for path in sources if not path.exists()] == []


@pytest.mark.parametrize("recipe", RECIPES)
def test_containers_set_every_variable_of_their_files_and_no_other(recipe: str) -> None:
    for name, service in services(recipe).items():
        texts = [path.read_text() for path in mounted(recipe, service) if path.is_file()]
        used = {variable for text in texts for variable in VARIABLE.findall(text)}
        said = set(service.get("environment", {})) - OF_PROGRAMS

        assert said - INSIDE == used - INSIDE, name


def test_containers_run_the_releases_that_the_tests_run_beside() -> None:
    prometheus = pinned("prometheus", "github.com/prometheus/prometheus").split(".")
    collector = pinned(
        "otelcol", "github.com/open-telemetry/opentelemetry-collector-contrib/exporter/fileexporter"
    )
    # Jaeger's modules are still versioned as 1.x; each release has both numbers.
    jaeger = {"1.76.0": "2.13.0"}[pinned("jaeger", "github.com/jaegertracing/jaeger")]

    assert {
        service["image"]
        for recipe in RECIPES
        for service in services(recipe).values()
        if "image" in service
    } == {
        f"otel/opentelemetry-collector-contrib:{collector}",
        f"jaegertracing/jaeger:{jaeger}",
        f"prom/prometheus:v{int(prometheus[1]) // 100}.{int(prometheus[1]) % 100}.{prometheus[2]}",
        "postgres:16",
    }


def test_the_collectors_modules_are_of_one_release() -> None:
    text = (ROOT / "peers" / "otelcol" / "go.mod").read_text(encoding="utf-8")
    modules = (
        "go.opentelemetry.io/collector/",
        "github.com/open-telemetry/opentelemetry-collector-contrib/",
    )
    ours = {
        release
        for module, release in re.findall(r"^\s*(\S+) (v\S+)", text, re.MULTILINE)
        if module.startswith(modules)
    }

    assert ours == {"v0.161.0", "v1.67.0"}
