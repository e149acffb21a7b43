"""The page of a report as a browser has it: styled under its own policy, and fit for a phone."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner

from otel_turnavoid.cli.main import main
from otel_turnavoid.testing import START_NS, observation, run_spans

pytestmark = pytest.mark.browser

WITNESS: Final = Path(__file__).parents[2] / "examples" / "witness.jsonl"
LONG: Final = "x" * 300
SECOND: Final = 1_000_000_000

QUIET: Final = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
    *("--allow-file-access-from-files", "--enable-logging=stderr"),
)
"""A browser that looks at files and talks to nobody."""

FRAME: Final = """\
<!doctype html><body><iframe src="PAGE" style="border:0;width:360px;height:800px"></iframe>
<pre id="found"></pre>
<script>
addEventListener("load", () => {
  const page = document.querySelector("iframe").contentDocument;
  const wide = [...page.querySelectorAll("main *")].filter(
    one => !one.closest(".scroll") && one.getBoundingClientRect().right > 361);
  document.getElementById("found").textContent = JSON.stringify({
    scrolls: page.documentElement.scrollWidth > page.documentElement.clientWidth,
    wide: wide.map(one => one.tagName + " " + one.className),
    card: getComputedStyle(page.querySelector("main > section")).borderRadius,
    bars: [...page.querySelectorAll(".bars rect")].map(one => one.getBoundingClientRect().width),
  });
});
</script>
"""
"""The page in a frame as wide as a phone, and a script, which the page has not, to measure it."""


@pytest.fixture(scope="session")
def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is not None:
        return found
    if os.environ.get("CI"):
        pytest.fail("Chromium is missing")
    pytest.skip("needs Chromium")


@pytest.fixture
def browse(chromium: str, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the browser on a file."""

    def run(path: Path, *options: str) -> subprocess.CompletedProcess[str]:
        profile = f"--user-data-dir={tmp_path / 'profile'}"
        return subprocess.run(
            [chromium, *QUIET, profile, *options, path.as_uri()],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )

    return run


@pytest.fixture
def measure(browse: Any, tmp_path: Path) -> Callable[[Path], dict[str, Any]]:
    """Return what a page measures on a phone."""

    def measured(page: Path) -> dict[str, Any]:
        frame = tmp_path / "frame.html"
        frame.write_text(FRAME.replace("PAGE", page.name), encoding="utf-8")
        done = browse(frame, "--dump-dom")
        assert "Content Security Policy" not in done.stderr
        (found,) = re.findall('<pre id="found">(.*?)</pre>', done.stdout)
        return json.loads(found)

    return measured


@pytest.fixture
def pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """The page of a ledger whose names are as long as senders like, and that of a file."""
    monkeypatch.chdir(tmp_path)
    requests = []
    for number in range(3):
        task = {"task": number, "start_ns": START_NS + number * SECOND}
        requests += [
            run_spans(run_id=f"c{number}{LONG}", arm="control", turns=9, **task),
            run_spans(
                run_id=f"k{number}{LONG}",
                arm="exact-reuse",
                turns=3 + number,
                variant=LONG,
                agent=LONG,
                **task,
            ),
            observation(f"c{number}{LONG}", [LONG]),
            observation(f"k{number}{LONG}", [] if number == 2 else [LONG]),
        ]
    for number, body in enumerate(requests):
        Path(f"{number}.pb").write_bytes(body)
    run("ingest", *(f"{number}.pb" for number in range(len(requests))))
    run("report", "--html", "report.html")
    run("replay", "--in", str(WITNESS), "--html", "replay.html")
    return {"report": tmp_path / "report.html", "replay": tmp_path / "replay.html"}


def run(*arguments: str) -> None:
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("name", ["report", "replay"])
def test_on_a_phone_nothing_scrolls_sideways_but_tables_in_their_boxes(
    pages: dict[str, Path], measure: Callable[[Path], dict[str, Any]], name: str
) -> None:
    found = measure(pages[name])

    assert (found["scrolls"], found["wide"]) == (False, [])


@pytest.mark.parametrize("name", ["report", "replay"])
def test_the_page_s_own_policy_lets_its_style_and_charts_be_seen(
    pages: dict[str, Path], measure: Callable[[Path], dict[str, Any]], name: str
) -> None:
    found = measure(pages[name])

    assert found["card"] == "10px"
    assert max(found["bars"]) > 100


def test_the_page_prints(pages: dict[str, Path], browse: Any, tmp_path: Path) -> None:
    browse(pages["report"], f"--print-to-pdf={tmp_path / 'report.pdf'}")

    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF-")
