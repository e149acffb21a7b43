"""Grafana dashboards, Prometheus rules, and the provisioning files that tell Grafana of them.

The JSON and rule files beside this module are written by ``make dashboards`` from the folder
``dashboards`` of the repository; they are not edited.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import PurePath, PurePosixPath
from typing import Final, NamedTuple

import yaml

DASHBOARDS: Final = PurePosixPath("grafana", "dashboards")
PROVISIONING: Final = PurePosixPath("grafana", "provisioning")
"""What ``paths.provisioning`` of Grafana may point to."""
RULES: Final = PurePosixPath("prometheus", "turnavoid.rules.yml")
"""What ``rule_files`` of Prometheus may name."""

PROMETHEUS_UID: Final = "turnavoid-prometheus"
JAEGER_UID: Final = "turnavoid-jaeger"

EXEMPLAR_LABEL: Final = "trace_id"
"""Label of an exemplar in which Prometheus keeps the trace."""

_SHIPPED: Final = ("turnavoid-turns.json", "turnavoid-operations.json")


class Places(NamedTuple):
    """Where Grafana finds what it shows."""

    folder: PurePath
    """The written folder as Grafana sees it; absolute."""
    prometheus: str
    """URL."""
    jaeger: str
    """URL."""


def bundle(places: Places) -> dict[PurePosixPath, bytes]:
    """Return everything there is to write: path below the folder -> content."""
    shipped = files(__name__)
    return {
        **{DASHBOARDS / name: shipped.joinpath(name).read_bytes() for name in _SHIPPED},
        PROVISIONING / "dashboards" / "turnavoid.yaml": _yaml(_provider(places)),
        PROVISIONING / "datasources" / "turnavoid.yaml": _yaml(_data_sources(places)),
        RULES: shipped.joinpath(RULES.name).read_bytes(),
    }


def _provider(places: Places) -> Mapping[str, object]:
    return {
        "apiVersion": 1,
        "providers": [
            {
                "name": "turnavoid",
                "type": "file",
                "folder": "Turn avoidance",
                "folderUid": "turnavoid",
                "disableDeletion": False,
                "updateIntervalSeconds": 30,
                "allowUiUpdates": False,
                "options": {"path": _literal(str(places.folder / DASHBOARDS))},
            }
        ],
    }


def _data_sources(places: Places) -> Mapping[str, object]:
    return {
        "apiVersion": 1,
        "datasources": [
            {
                "name": "Prometheus (turn avoidance)",
                "uid": PROMETHEUS_UID,
                "type": "prometheus",
                "access": "proxy",
                "url": _literal(places.prometheus),
                "jsonData": {
                    "httpMethod": "POST",
                    "timeInterval": "15s",
                    "exemplarTraceIdDestinations": [
                        {"name": EXEMPLAR_LABEL, "datasourceUid": JAEGER_UID}
                    ],
                },
            },
            {
                "name": "Jaeger (turn avoidance)",
                "uid": JAEGER_UID,
                "type": "jaeger",
                "access": "proxy",
                "url": _literal(places.jaeger),
            },
        ],
    }


def _literal(text: str) -> str:
    """Keep Grafana from reading a variable of the environment into a dollar sign."""
    return text.replace("$", "$$")


def _yaml(value: Mapping[str, object]) -> bytes:
    header = "# Written by `turnavoid dashboards`.\n"
    return (header + yaml.safe_dump(value, sort_keys=False, allow_unicode=True)).encode()
