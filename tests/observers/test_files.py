"""A tree of files: created, changed, deleted, by path and content."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from otel_turnavoid.errors import InputError
from otel_turnavoid.observers import files as files_module
from otel_turnavoid.observers import labels
from otel_turnavoid.observers.files import FilesSource


def hashed(content: bytes) -> str:
    return sha256(content).hexdigest()[:32]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "site"
    (root / "posts").mkdir(parents=True)
    (root / "index.html").write_bytes(b"old")
    (root / "posts" / "one.md").write_bytes(b"one")
    (root / "same.txt").write_bytes(b"same")
    return root


def changed(source: FilesSource, root: Path) -> list[str]:
    before = source.look()
    (root / "index.html").write_bytes(b"new")
    (root / "posts" / "one.md").unlink()
    (root / "posts" / "two.md").write_bytes(b"two")
    (root / "same.txt").write_bytes(b"same")
    return sorted(labels(before, source.look()))


def test_created_changed_and_deleted_files_are_effects(tree: Path) -> None:
    assert changed(FilesSource(tree), tree) == [
        f"file:index.html={hashed(b'new')}",
        "file:posts/one.md=deleted",
        f"file:posts/two.md={hashed(b'two')}",
    ]


def test_patterns_choose_files(tree: Path) -> None:
    source = FilesSource(tree, include=["*.md"], exclude=["posts/o*"])

    assert changed(source, tree) == [f"file:posts/two.md={hashed(b'two')}"]


def test_labels_follow_the_templates(tree: Path) -> None:
    source = FilesSource(tree, template="wrote {name}, {size} bytes", gone="removed {path}")

    # "wrote index.html, 3 bytes" is true of it before and after.
    assert changed(source, tree) == ["removed posts/one.md", "wrote two.md, 3 bytes"]


def test_links_are_looked_at_and_not_followed(tree: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_bytes(b"secret")
    before = FilesSource(tree).look()

    (tree / "link").symlink_to(outside)

    assert list(labels(before, FilesSource(tree).look())) == [
        f"file:link=link:{hashed(str(outside).encode())}"
    ]


@pytest.mark.parametrize(
    ("template", "gone", "problem"),
    [
        ("{mode}", "{path}", "names 'mode'; a file has path, name, size, sha256"),
        ("{path}", "{sha256}", "names 'sha256'; a file that is gone has path, name"),
    ],
)
def test_a_template_names_what_a_file_has(
    tree: Path, template: str, gone: str, problem: str
) -> None:
    with pytest.raises(InputError, match=problem):
        FilesSource(tree, template=template, gone=gone)


def test_a_folder_that_is_none_is_refused(tree: Path) -> None:
    with pytest.raises(InputError, match=r"index\.html: is no folder"):
        FilesSource(tree / "index.html").look()


def test_too_many_files_are_refused(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_module, "MOST_FILES", 2)

    with pytest.raises(InputError, match="holds more than 2 files; include fewer"):
        FilesSource(tree).look()
