"""Every run and verdict of the verdict cases is explained, and the explanation agrees with it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from otel_turnavoid.publish.causes import WITHHELD
from otel_turnavoid.vocabulary import WithheldCause

pytestmark = pytest.mark.corpus


@pytest.fixture
def ledger(case: Any, bench: Any) -> Any:
    """The case's requests, recorded and ingested."""
    files = []
    for number, request in enumerate(case.requests):
        files.append(bench.folder / f"{number}.pb")
        files[-1].write_bytes(request.protobuf)
    bench.run("ingest", *files, "--config", bench.configured(case, {}))
    return bench


def rows(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_verdict_is_explained_with_all_its_causes(ledger: Any) -> None:
    config = ("--config", ledger.folder / "turnavoid.yaml")
    for pair in rows(ledger.run("pairs", "--json")):
        ids = (pair["control"], pair["candidate"])

        (explained,) = json.loads(ledger.run("explain", *ids, "--json", *config))["pairs"]
        text = " ".join(ledger.run("explain", *ids, *config).split())

        figures = {key: pair[key] for key in ("potential", "avoided", "withheld", "added")}
        assert {key: explained["verdict"][key] for key in figures} == figures
        assert [why["cause"] for why in explained["why"]] == pair["causes"]
        assert bool(explained["for_credit"]) is not bool(pair["causes"])
        for cause in pair["causes"]:
            meaning = WITHHELD[WithheldCause(cause)]
            assert f"{cause}: {meaning.what}" in text
            assert f"wanted {meaning.wanted}" in text
        if "effects-suppressed" in pair["causes"]:
            assert explained["effects"]["missing"]
        if "effects-added" in pair["causes"]:
            assert explained["effects"]["added"]


def test_the_turns_that_are_shown_are_those_that_were_counted(ledger: Any) -> None:
    for run in rows(ledger.run("runs", "--json")):
        found = json.loads(ledger.run("explain", run["run_id"], "--json"))["runs"]

        (explained,) = [each for each in found if each["run_id"] == run["run_id"]]
        numbers = [turn["number"] for turn in explained["turns"] if turn["number"] is not None]
        assert numbers == list(range(1, (run.get("model_turns") or 0) + 1))
        assert explained["outcome"] == run["outcome"]
        assert run["outcome"] == "paired" or explained["why"]
