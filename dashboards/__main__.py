"""``python -m dashboards``: write ``otel_turnavoid/dashboards`` and a page's tables, or check.

With ``--check`` nothing is written; exit code 1 and the names of the files that are out of date.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from dashboards import operations, reference, rules, turn_avoidance

ROOT: Final = Path(__file__).parents[1]
TARGET: Final = ROOT / "otel_turnavoid" / "dashboards"
PAGE: Final = ROOT / "docs" / "grafana.md"


def files() -> dict[Path, str]:
    """Return the text of every file that is built."""
    built = {
        f"{dashboard.UID}.json": _plain(dashboard.build().build())
        for dashboard in (turn_avoidance, operations)
    }
    written = {
        TARGET / name: json.dumps(each, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
        for name, each in built.items()
    }
    page = PAGE.read_text(encoding="utf-8")
    return {
        **written,
        TARGET / "turnavoid.rules.yml": rules.text(),
        PAGE: reference.put_into(page, built),
    }


def main() -> int:
    """Write what differs."""
    stale = {
        file: text
        for file, text in files().items()
        if not file.is_file() or file.read_text(encoding="utf-8") != text
    }
    if "--check" in sys.argv[1:]:
        for file in stale:
            sys.stderr.write(f"{file.relative_to(ROOT)} is out of date; run `make dashboards`\n")
        return 1 if stale else 0
    for file, text in stale.items():
        file.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{file.relative_to(ROOT)} written\n")
    return 0


def _plain(dashboard: object) -> Any:
    """Return a dashboard as plain values, an id for each panel, which links to a panel need."""
    plain = json.loads(JSONEncoder().encode(dashboard))
    number = 0
    for panel in plain["panels"]:
        for each in (panel, *panel.get("panels", ())):
            number += 1
            each["id"] = number
    return plain


if __name__ == "__main__":
    sys.exit(main())
