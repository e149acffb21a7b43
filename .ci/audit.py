# ruff: noqa: INP001 - a script
"""Check the installed dependencies for known vulnerabilities: ``make audit``.

pip-audit asks a database of advisories about each package. A machine that reaches package
indexes only may reach none of these databases: that is said, and fails nothing, because it is
no news about the dependencies. Exit code 0: nothing known, or not checked; 1: a vulnerability.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SERVICES = ("pypi", "osv")
"""Databases that pip-audit knows, the first one that answers is asked about everything."""

PROBE = "click"
"""Asked about first: a database without an answer on it has none on the others."""

CONSTRAINTS = Path(__file__).parents[1] / "constraints.txt"


def audited(tool: list[str], *arguments: str) -> list[dict[str, Any]] | None:
    """Return what pip-audit found out about each package; None where it got no answer."""
    command = [*tool, "--format", "json", "--progress-spinner", "off", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    try:
        found: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return None
    return found


def reachable(tool: list[str]) -> str | None:
    """Return the first database that knows anything about the probe."""
    pin = next(
        line for line in CONSTRAINTS.read_text().splitlines() if line.startswith(f"{PROBE}==")
    )
    with tempfile.TemporaryDirectory() as folder:
        asked = Path(folder) / "requirements.txt"
        asked.write_text(f"{pin}\n")
        for service in SERVICES:
            arguments = ("--service", service, "--no-deps", "--disable-pip", "-r", str(asked))
            found = audited(tool, *arguments)
            if found and "vulns" in found[0]:
                return service
    return None


def report(found: list[dict[str, Any]]) -> tuple[list[str], bool]:
    """Return what to say about the packages, and whether one is vulnerable."""
    vulnerable = [(each, vuln) for each in found for vuln in each.get("vulns", ())]
    lines = [
        f"{each['name']} {each['version']}: {vuln['id']},"
        f" fixed in {', '.join(vuln['fix_versions']) or 'no version yet'}"
        for each, vuln in vulnerable
    ]
    skipped = [each["name"] for each in found if "vulns" not in each]
    if skipped:
        lines.append(f"NOT CHECKED, unknown to the database: {', '.join(skipped)}")
    lines.append(
        f"{len(found) - len(skipped)} packages checked,"
        f" {len(vulnerable) or 'no'} known vulnerabilities"
    )
    return lines, bool(vulnerable)


def main(tool: list[str]) -> int:
    """Audit the environment that ``tool`` runs in."""
    service = reachable(tool)
    found = None if service is None else audited(tool, "--service", service, "--skip-editable")
    if found is None:
        sys.stdout.write(
            "NOT CHECKED for known vulnerabilities: no database of advisories can be reached"
            " from this machine\n"
        )
        return 0
    lines, vulnerable = report(found)
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return int(vulnerable)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or [sys.executable, "-m", "pip_audit"]))
