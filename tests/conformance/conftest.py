"""Cases of ../shared/conformance/verdicts, in every form in which they may arrive."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from click.testing import CliRunner

from otel_turnavoid.cli.main import main
from otel_turnavoid.otlp import logs_from_json, traces_from_json

FOLDER = Path(__file__).parents[3] / "shared" / "conformance" / "verdicts"


class Request(NamedTuple):
    """One export request as the case states it."""

    signal: str
    """``traces`` or ``logs``."""
    body: dict[str, Any]
    """OTLP/JSON."""

    @property
    def json(self) -> bytes:
        return json.dumps(self.body).encode()

    @property
    def protobuf(self) -> bytes:
        return (traces_from_json if self.signal == "traces" else logs_from_json)(self.json)


class Case(NamedTuple):
    """What arrives, and what must come of it."""

    name: str
    config: dict[str, Any]
    requests: list[Request]
    expected: dict[str, Any]

    def in_form(self, form: str) -> list[Request]:
        """The same requests, otherwise delivered; each form is the same every time."""
        return FORMS[form](self.requests, random.Random(f"{self.name} {form}"))


def plain(requests: Sequence[Request], _: random.Random) -> list[Request]:
    return list(requests)


def backwards(requests: Sequence[Request], _: random.Random) -> list[Request]:
    return list(requests[::-1])


def again(requests: Sequence[Request], rng: random.Random) -> list[Request]:
    """Everything two or three times, in any order."""
    repeated = [request for request in requests for _ in range(rng.randint(2, 3))]
    rng.shuffle(repeated)
    return repeated


def split(requests: Sequence[Request], rng: random.Random) -> list[Request]:
    """One span or record a request, in any order."""
    parts = [part for request in requests for part in _shattered(request)]
    rng.shuffle(parts)
    return parts


def split_again(requests: Sequence[Request], rng: random.Random) -> list[Request]:
    """One span or record a request, and whole requests among them."""
    return again([*requests, *split(requests, rng)], rng)


FORMS: Mapping[str, Callable[[Sequence[Request], random.Random], list[Request]]] = {
    form.__name__: form for form in (plain, backwards, again, split, split_again)
}


def _shattered(request: Request) -> Iterator[Request]:
    outer, inner, items = (
        ("resourceSpans", "scopeSpans", "spans")
        if request.signal == "traces"
        else ("resourceLogs", "scopeLogs", "logRecords")
    )
    for resource in request.body[outer]:
        for scope in resource[inner]:
            for item in scope[items]:
                one = {**resource, inner: [{**scope, items: [item]}]}
                yield Request(request.signal, {outer: [one]})


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes ``case_name`` once for each case; skipped where there are none."""
    if "case_name" not in metafunc.fixturenames:
        return
    chosen = [marker.args[0] for marker in metafunc.definition.iter_markers("parametrize")]
    if "case_name" not in chosen:
        names = sorted(file.stem for file in FOLDER.glob("*.json"))
        metafunc.parametrize("case_name", names or ["absent"])


@pytest.fixture
def case(case_name: str, shared: Path) -> Case:
    stated = json.loads((FOLDER / f"{case_name}.json").read_bytes())
    requests = [Request(each["signal"], each["body"]) for each in stated["requests"]]
    return Case(case_name, stated["config"], requests, stated["expected"])


class Bench:
    """A fresh ledger, the command line, and the comparison with what a case states."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ledger = f"sqlite:///{folder / 'ledger.db'}"

    def run(self, command: str, *arguments: str | Path) -> str:
        """Run a command on the ledger as a user would and return its standard output."""
        given = [command, *map(str, arguments), "--ledger", self.ledger]
        result = CliRunner().invoke(main, given)
        assert result.exit_code == 0, result.output
        return result.stdout

    def configured(self, case: Case, sections: Mapping[str, Any]) -> Path:
        """Write the case's configuration, with these other sections, and return the file."""
        file = self.folder / "turnavoid.yaml"
        file.write_text(yaml.safe_dump({**sections, "processors": {"turnavoid": case.config}}))
        return file

    def found(self, case: Case) -> dict[str, Any]:
        """Return what the ledger says about the things that the case states."""
        rows = _lines(self.run("pairs", "--json", "--null"))
        runs = {row["run_id"]: row for row in _lines(self.run("runs", "--json"))}
        found: dict[str, Any] = {
            "pairs": sorted((_pair(row) for row in rows if "control" in row), key=_pair_ids),
            "runs": {
                name: {key: runs[name].get(key) for key in wanted}
                for name, wanted in case.expected["runs"].items()
            },
        }
        if "null" in case.expected:
            found["null"] = [row for row in rows if "first" in row]
        return found

    def check(self, case: Case) -> None:
        """Assert that the ledger says what the case states; null stands for any number."""
        found = self.found(case)
        withheld = {_pair_ids(pair): pair["withheld"] for pair in found["pairs"]}
        pairs = [
            {**pair, "withheld": withheld.get(_pair_ids(pair))}
            if pair["withheld"] is None
            else pair
            for pair in case.expected["pairs"]
        ]
        stated = {key: case.expected[key] for key in ("runs", "null") if key in case.expected}
        assert found == {"pairs": sorted(pairs, key=_pair_ids), **stated}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def _pair(row: Mapping[str, Any]) -> dict[str, Any]:
    figures = {key: row[key] for key in ("control", "candidate", "avoided", "withheld", "added")}
    return {**figures, "cause": row["causes"][0] if row["causes"] else None}


def _pair_ids(pair: Mapping[str, Any]) -> tuple[str, str]:
    return pair["control"], pair["candidate"]


def _lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]
