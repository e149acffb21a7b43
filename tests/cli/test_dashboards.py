"""``turnavoid dashboards``: writes a folder that Grafana and Prometheus can be pointed to."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest
import yaml
from click.testing import CliRunner, Result

from otel_turnavoid.cli.main import main
from otel_turnavoid.dashboards import Places, bundle

WRITTEN = [
    "grafana/dashboards/turnavoid-operations.json",
    "grafana/dashboards/turnavoid-turns.json",
    "grafana/provisioning/dashboards/turnavoid.yaml",
    "grafana/provisioning/datasources/turnavoid.yaml",
    "prometheus/turnavoid.rules.yml",
]


def dashboards(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["dashboards", *arguments])


def tree(folder: Path) -> list[str]:
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())


def test_everything_is_written_and_named_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    done = dashboards(str(folder))

    assert done.exit_code == 0
    assert tree(folder) == WRITTEN
    assert sorted(done.stdout.splitlines()[:5]) == [str(folder / name) for name in WRITTEN]
    found = {PurePosixPath(name): (folder / name).read_bytes() for name in WRITTEN}
    assert found == bundle(Places(folder, "http://localhost:9090", "http://localhost:16686"))


def test_it_says_what_to_point_grafana_and_prometheus_to(tmp_path: Path) -> None:
    said = dashboards(str(tmp_path)).stdout

    assert f"GF_PATHS_PROVISIONING={tmp_path}/grafana/provisioning" in said
    assert f"rule_files: [{tmp_path}/prometheus/turnavoid.rules.yml]" in said


def test_a_relative_folder_is_provisioned_by_its_absolute_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert dashboards("out").exit_code == 0

    provider = yaml.safe_load(
        Path("out/grafana/provisioning/dashboards/turnavoid.yaml").read_text()
    )
    assert provider["providers"][0]["options"]["path"] == f"{tmp_path}/out/grafana/dashboards"


def test_addresses_and_the_folder_are_those_that_grafana_sees(tmp_path: Path) -> None:
    places = ("--prometheus", "http://p:9090", "--jaeger", "https://j", "--mounted-at", "/etc/ta")
    assert dashboards(str(tmp_path), *places).exit_code == 0

    folder = tmp_path / "grafana" / "provisioning"
    provider = yaml.safe_load((folder / "dashboards" / "turnavoid.yaml").read_text())
    sources = yaml.safe_load((folder / "datasources" / "turnavoid.yaml").read_text())
    assert provider["providers"][0]["options"]["path"] == "/etc/ta/grafana/dashboards"
    assert [each["url"] for each in sources["datasources"]] == ["http://p:9090", "https://j"]


def test_writing_the_same_again_is_fine(tmp_path: Path) -> None:
    assert [dashboards(str(tmp_path)).exit_code for _ in range(2)] == [0, 0]


def test_a_file_of_other_content_is_replaced_only_by_force(tmp_path: Path) -> None:
    edited = tmp_path / WRITTEN[-1]
    edited.parent.mkdir()
    edited.write_text("groups: []\n")

    refused = dashboards(str(tmp_path))
    assert refused.exit_code == 2
    assert refused.stderr == (
        f"turnavoid dashboards: {edited}: is there with other content; --force replaces it\n"
    )
    assert tree(tmp_path) == [WRITTEN[-1]]

    assert dashboards(str(tmp_path), "--force").exit_code == 0
    assert edited.read_text() != "groups: []\n"


def test_a_file_in_place_of_the_folder_or_below_it_is_an_error_of_one_line(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    below = tmp_path / "folder" / "grafana"
    below.parent.mkdir()
    below.write_text("")

    for folder, said in ((file, f"Directory '{file}' is a file."), (below.parent, "grafana")):
        done = dashboards(str(folder))
        assert done.exit_code == 2
        assert said in done.stderr
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("--prometheus", "localhost:9090"),
            "'--prometheus': wants http://HOST:PORT or https://…, got 'localhost:9090'.",
        ),
        (
            ("--jaeger", "http://[::1"),
            "'--jaeger': wants http://HOST:PORT or https://…, got 'http://[::1'.",
        ),
        (
            ("--mounted-at", "etc"),
            "'--mounted-at': wants an absolute path, got 'etc'.",
        ),
    ],
)
def test_what_an_option_cannot_be(tmp_path: Path, arguments: tuple[str, str], said: str) -> None:
    done = dashboards(str(tmp_path / "out"), *arguments)

    assert done.exit_code == 2
    assert done.stderr == (
        f"turnavoid dashboards: Invalid value for {said} See: turnavoid dashboards --help\n"
    )
    assert not (tmp_path / "out").exists()
