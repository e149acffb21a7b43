"""The shipped dashboards and rules: what every panel must say, and what none may do."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml

from otel_turnavoid.collector import telemetry
from otel_turnavoid.collector.telemetry import Own
from otel_turnavoid.dashboards import JAEGER_UID, PROMETHEUS_UID, RULES, Places, bundle
from otel_turnavoid.publish.prometheus import label_name
from otel_turnavoid.vocabulary import INSTRUMENTS, Account

ROOT = Path(__file__).parents[2]
PLACES = Places(PurePosixPath("/etc/turn$avoid"), "http://prometheus:9090/$x", "http://jaeger")
FILES = bundle(PLACES)

COLOURS = {"#7F7F7F", "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442"}
"""Okabe and Ito's, and a grey."""


def dashboard(name: str) -> Any:
    return json.loads(FILES[PurePosixPath("grafana/dashboards", f"{name}.json")])


def panels(*names: str) -> Iterator[Any]:
    for name in names or ("turnavoid-turns", "turnavoid-operations"):
        for panel in dashboard(name)["panels"]:
            yield from (each for each in (panel, *panel.get("panels", ())) if each.get("targets"))


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(FILES[RULES])["groups"]
    return [rule for group in groups for rule in group["rules"]]


def accounts(expression: str) -> set[Account]:
    """Return the accounts that an expression asks for."""
    asked = re.findall(r'__name__=~"([^"]+)"', expression)
    plain = {re.sub(r"\(.*?\)\?|_(sum|count|bucket)$", "", name) for name in asked}
    return {each.account for each in INSTRUMENTS if label_name(each.name) in plain}


def matchers(expression: str) -> list[str]:
    return re.findall(r"\{([^{}]*)\}", expression)


def test_no_query_asks_for_two_accounts() -> None:
    mixed = {
        panel["title"]: found
        for panel in panels("turnavoid-turns")
        for target in panel["targets"]
        if len(found := accounts(target["expr"])) != 1
    }

    assert mixed == {}


def test_only_the_noise_floor_shows_two_accounts_beside_each_other() -> None:
    shown = {
        panel["title"]: set().union(*(accounts(target["expr"]) for target in panel["targets"]))
        for panel in panels("turnavoid-turns")
    }
    several = {title: found for title, found in shown.items() if len(found) > 1}

    assert several == {"Net per pair, beside the noise floor": {Account.TURNS, Account.NULL}}


def test_a_row_holds_one_account_and_every_account_has_one() -> None:
    rows: dict[str, set[Account]] = {}
    row = ""
    for panel in dashboard("turnavoid-turns")["panels"]:
        row = panel["title"] if panel["type"] == "row" else row
        for each in (panel, *panel.get("panels", ())):
            for target in each.get("targets", ()):
                rows.setdefault(row, set()).update(accounts(target["expr"]))

    assert rows == {
        "Turns": {Account.TURNS},
        "Noise floor: equal controls against each other": {Account.TURNS, Account.NULL},
        "Runs and verdicts": {Account.TURNS},
        "Retained turns (never avoided ones)": {Account.RETAINED},
        "Tools": {Account.TOOLS},
        "Speculation": {Account.SPECULATION},
        "Effects": {Account.EFFECTS},
        "Work and overhead": {Account.WORK},
        "Tokens": {Account.TOKENS},
    }


def test_every_instrument_is_shown() -> None:
    asked = " ".join(
        target["expr"].replace("(", " ").replace("_sum", " ")
        for panel in panels()
        for target in panel["targets"]
    )
    own = [value for value in vars(telemetry).values() if isinstance(value, Own)]

    assert [
        each.name
        for each in (*INSTRUMENTS, *own)
        if not re.search(rf'"{label_name(each.name)}[ _"]', asked)
    ] == []


@pytest.mark.parametrize("panel", [*panels()], ids=lambda panel: str(panel["title"]))
def test_every_panel_says_what_it_means_and_what_not_with_a_unit(panel: Any) -> None:
    means, _, not_ = panel["description"].partition("\n\nIt does not ")

    assert len(means) > 30
    assert len(not_) > 10
    assert (means + not_).endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"]


def test_titles_of_panels_are_unique() -> None:
    titles = [panel["title"] for panel in panels()]

    assert len(set(titles)) == len(titles)


def test_every_series_of_pairs_is_chosen_by_evidence_and_comparison() -> None:
    """So that what must be kept apart never stands in one figure."""
    apart = {"turnavoid.evidence": 'turnavoid_evidence="$evidence"'}
    apart["turnavoid.comparison"] = 'turnavoid_comparison=~"$comparison"'
    names = {label_name(each.name): each for each in INSTRUMENTS}
    missing = []
    for panel in panels("turnavoid-turns"):
        for target in panel["targets"]:
            for found in matchers(target["expr"]):
                (asked,) = re.findall(r'__name__=~"([^"]+)"', found)
                plain = re.sub(r"\(.*?\)\?|_(sum|count|bucket)$", "", asked)
                labels = names[plain].labels
                missing += [
                    (panel["title"], matcher)
                    for key, matcher in apart.items()
                    if key in labels and matcher not in found
                ]

    assert missing == []


def test_variables_are_data_source_job_experiment_agent_arm_and_what_is_kept_apart() -> None:
    def names(name: str) -> list[str]:
        return [each["name"] for each in dashboard(name)["templating"]["list"]]

    assert names("turnavoid-turns") == [
        *("datasource", "job", "experiment", "agent", "arm", "variant", "evidence", "comparison")
    ]
    assert names("turnavoid-operations") == ["datasource", "job"]
    assert {json.dumps(panel["datasource"], sort_keys=True) for panel in panels()} == {
        '{"type": "prometheus", "uid": "${datasource}"}'
    }


def test_evidence_and_comparison_are_one_choice_which_begins_with_the_strictest() -> None:
    chosen = {
        each["name"]: (each["multi"], each["includeAll"], each["current"]["value"])
        for each in dashboard("turnavoid-turns")["templating"]["list"]
        if each["name"] in {"evidence", "comparison"}
    }

    assert chosen == {"evidence": (False, False, "declared"), "comparison": (False, False, "()")}


def test_colours_are_those_that_colour_blind_people_tell_apart() -> None:
    used = set(re.findall(r'"fixedColor": "([^"]+)"', json.dumps([*panels()])))
    modes = set(re.findall(r'"mode": "(palette[^"]*|continuous[^"]*)"', json.dumps([*panels()])))

    assert used <= COLOURS
    assert modes == set()


def test_exemplars_are_asked_for_where_they_lead_to_a_trace() -> None:
    assert [
        panel["title"]
        for panel in panels()
        if any(target.get("exemplar") for target in panel["targets"])
    ] == ["Avoided over time", "Withheld by cause over time"]


def test_panels_of_a_row_neither_overlap_nor_leave_the_grid() -> None:
    for name in ("turnavoid-turns", "turnavoid-operations"):
        taken: set[tuple[int, int]] = set()
        for panel in panels(name):
            at = panel["gridPos"]
            cells = {
                (x, y)
                for x in range(at["x"], at["x"] + at["w"])
                for y in range(at["y"], at["y"] + at["h"])
            }
            assert not cells & taken, panel["title"]
            assert at["x"] + at["w"] <= 24, panel["title"]
            taken |= cells


def test_every_alert_says_what_happened_how_bad_it_is_and_where_to_read_on() -> None:
    for rule in rules():
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert set(rule["annotations"]) == {"summary", "description", "runbook"}
        assert rule["annotations"]["runbook"] == f"docs/grafana.md#{rule['alert'].lower()}"


def test_the_page_has_a_chapter_for_every_alert_and_a_line_for_every_panel() -> None:
    page = (ROOT / "docs" / "grafana.md").read_text(encoding="utf-8")

    assert re.findall(r"^### (TurnAvoid\w+)$", page, re.MULTILINE) == [
        rule["alert"] for rule in rules()
    ]
    for panel in panels():
        assert f"| {panel['title']} |" in page


def test_provisioning_files_have_stable_ids_and_lead_exemplars_to_jaeger() -> None:
    folder = PurePosixPath("grafana/provisioning")
    provider = yaml.safe_load(FILES[folder / "dashboards" / "turnavoid.yaml"])
    sources = yaml.safe_load(FILES[folder / "datasources" / "turnavoid.yaml"])

    assert provider["apiVersion"] == sources["apiVersion"] == 1
    assert provider["providers"] == [
        {
            "name": "turnavoid",
            "type": "file",
            "folder": "Turn avoidance",
            "folderUid": "turnavoid",
            "disableDeletion": False,
            "updateIntervalSeconds": 30,
            "allowUiUpdates": False,
            "options": {"path": "/etc/turn$$avoid/grafana/dashboards"},
        }
    ]
    prometheus, jaeger = sources["datasources"]
    assert (prometheus["uid"], prometheus["type"]) == (PROMETHEUS_UID, "prometheus")
    assert prometheus["url"] == "http://prometheus:9090/$$x"
    assert prometheus["jsonData"]["exemplarTraceIdDestinations"] == [
        {"name": "trace_id", "datasourceUid": JAEGER_UID}
    ]
    assert (jaeger["uid"], jaeger["type"], jaeger["url"]) == (JAEGER_UID, "jaeger", "http://jaeger")
    assert [dashboard(name)["uid"] for name in ("turnavoid-turns", "turnavoid-operations")] == [
        "turnavoid-turns",
        "turnavoid-operations",
    ]
