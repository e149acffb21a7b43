"""What is shipped is what the code builds, and what Grafana's own classes can read."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

if sys.version_info < (3, 11):
    pytest.skip("grafana-foundation-sdk needs Python 3.11", allow_module_level=True)

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

ROOT = Path(__file__).parents[2]


def test_files_and_page_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dashboards", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", ["turnavoid-turns", "turnavoid-operations"])
def test_the_sdk_reads_a_dashboard_and_writes_the_same(name: str) -> None:
    """Its classes are Grafana's schema: what they do not know they would leave out."""
    shipped = json.loads(files("otel_turnavoid.dashboards").joinpath(f"{name}.json").read_text())
    register_default_plugins()

    assert json.loads(JSONEncoder().encode(Dashboard.from_json(shipped))) == shipped
