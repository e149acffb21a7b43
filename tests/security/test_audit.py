"""``make audit``: a vulnerability fails, a database that cannot be reached is said to be so."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "audit.py"

NOT_CHECKED = (
    "NOT CHECKED for known vulnerabilities: no database of advisories can be reached"
    " from this machine\n"
)

CLEAN = {"name": "click", "version": "8.1", "vulns": []}
VULNERABLE = {
    "name": "starlette",
    "version": "0.1",
    "vulns": [{"id": "PYSEC-0-1", "fix_versions": ["0.2", "0.3"], "aliases": []}],
}
UNKNOWN = {"name": "own", "skip_reason": "Dependency not found"}


@pytest.fixture
def audit(tmp_path):
    """Run the script with a pip-audit that says, by service and question, what it is told to."""

    def run(answers):
        (tmp_path / "answers.json").write_text(json.dumps(answers))
        fake = tmp_path / "pip_audit.py"
        fake.write_text(
            "import json, sys\n"
            f"answers = json.load(open({str(tmp_path / 'answers.json')!r}))\n"
            "service = sys.argv[sys.argv.index('--service') + 1]\n"
            "found = answers.get(service + (' probe' if '-r' in sys.argv else ''))\n"
            "if found is None:\n"
            "    sys.exit('connection refused')\n"
            "print(json.dumps({'dependencies': found}))\n"
            "sys.exit(any(each.get('vulns') for each in found))\n"
        )
        done = subprocess.run(
            [sys.executable, SCRIPT, sys.executable, fake],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stderr == ""
        return done.returncode, done.stdout

    return run


def test_nothing_known_passes(audit):
    assert audit({"pypi probe": [CLEAN], "pypi": [CLEAN]}) == (
        0,
        "1 packages checked, no known vulnerabilities\n",
    )


def test_a_vulnerability_fails_and_names_what_mends_it(audit):
    assert audit({"pypi probe": [CLEAN], "pypi": [CLEAN, VULNERABLE]}) == (
        1,
        (
            "starlette 0.1: PYSEC-0-1, fixed in 0.2, 0.3\n"
            "2 packages checked, 1 known vulnerabilities\n"
        ),
    )


def test_a_vulnerable_probe_is_an_answer(audit):
    assert audit({"pypi probe": [VULNERABLE], "pypi": [VULNERABLE]})[0] == 1


@pytest.mark.parametrize("answer", [None, [UNKNOWN], []])
def test_without_an_answer_it_is_said_that_nothing_was_checked(audit, answer):
    assert audit({"pypi probe": answer, "osv probe": answer}) == (0, NOT_CHECKED)


def test_the_next_database_is_asked_where_the_first_knows_nothing(audit):
    assert audit({"pypi probe": [UNKNOWN], "osv probe": [CLEAN], "osv": [VULNERABLE]})[0] == 1


def test_a_database_that_is_lost_on_the_way_is_not_taken_for_good_news(audit):
    assert audit({"pypi probe": [CLEAN]}) == (0, NOT_CHECKED)


def test_what_the_database_does_not_know_is_named(audit):
    assert audit({"pypi probe": [CLEAN], "pypi": [CLEAN, UNKNOWN]}) == (
        0,
        "NOT CHECKED, unknown to the database: own\n1 packages checked, no known vulnerabilities\n",
    )
