"""A tree of files as effect labels: created, changed and deleted, by path and content."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path
from typing import Final

from otel_turnavoid.errors import InputError
from otel_turnavoid.observers.snapshot import Snapshot, Thing
from otel_turnavoid.observers.template import Template, plain

TEMPLATE: Final = "file:{path}={sha256}"
GONE: Final = "file:{path}=deleted"
FIELDS: Final = ("path", "name", "size", "sha256")

MOST_FILES: Final = 100_000

_CHUNK: Final = 1 << 20
_DIGITS: Final = 32
"""Hexadecimal digits of a content's hash that stand in a label: 128 bits."""


class FilesSource:
    """Looks at every regular file and symbolic link below a folder; links are not followed.

    Args:
        root: The folder.
        include: Glob patterns of paths below it, ``*`` crossing folders; none means all.
        exclude: Patterns of paths to leave out.
        template: The label of a file that was created or changed.
        gone: The label of a file that is not there any more; names ``path`` or ``name`` only.

    Raises:
        InputError: A template cannot be used.
    """

    def __init__(
        self,
        root: Path,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        template: str = TEMPLATE,
        gone: str = GONE,
    ) -> None:
        self._root = root
        self._include = include or ("*",)
        self._exclude = exclude
        self._template = Template(template)
        self._template.check(FIELDS, "a file has")
        self._gone = Template(gone)
        self._gone.check(FIELDS[:2], "a file that is gone has")

    @property
    def name(self) -> str:
        """The folder."""
        return str(self._root)

    def look(self) -> Snapshot:
        """Read every file once.

        Raises:
            InputError: The folder or a file cannot be read, or there are too many files.
        """
        if not self._root.is_dir():
            raise InputError(self.name, "is no folder")
        things = []
        for path in self._files():
            below = path.relative_to(self._root).as_posix()
            values = {"path": below, "name": path.name}
            try:
                values |= _content(path)
            except OSError as error:
                raise InputError(str(path), f"cannot be read: {error.strerror}") from error
            things.append(Thing(self._template.fill(values, plain), self._gone.fill(values, plain)))
            if len(things) > MOST_FILES:
                raise InputError(self.name, f"holds more than {MOST_FILES} files; include fewer")
        source = f"files {list(self._include)} without {list(self._exclude)}"
        return Snapshot(
            source=f"{source} {[self._template.text, self._gone.text]}", things=tuple(things)
        )

    def _files(self) -> Iterator[Path]:
        def refuse(error: OSError) -> None:
            raise InputError(str(error.filename), f"cannot be read: {error.strerror}") from error

        for folder, folders, names in os.walk(self._root, onerror=refuse):
            folders.sort()
            # A link to a folder stands among the folders, and is not walked into.
            links = [name for name in folders if (Path(folder) / name).is_symlink()]
            for name in sorted([*names, *links]):
                path = Path(folder) / name
                below = path.relative_to(self._root).as_posix()
                wanted = any(fnmatchcase(below, pattern) for pattern in self._include)
                if not wanted or any(fnmatchcase(below, pattern) for pattern in self._exclude):
                    continue
                if path.is_symlink() or path.is_file():
                    yield path


def _content(path: Path) -> dict[str, str]:
    """Return the size and hash of a file; those of a link's target path for a link."""
    if path.is_symlink():
        target = os.fsencode(path.readlink())
        return {"size": "link", "sha256": f"link:{sha256(target).hexdigest()[:_DIGITS]}"}
    content, size = sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            content.update(chunk)
            size += len(chunk)
    return {"size": str(size), "sha256": content.hexdigest()[:_DIGITS]}
