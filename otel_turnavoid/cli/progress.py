"""How far a long reading is: a bar on a terminal, and nothing anywhere else."""

from __future__ import annotations

import stat
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO, final

import click

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

DELAY_S: Final = 1.0
"""What takes less than this needs no bar."""


@final
class Progress:
    """The files of one command as they are read; a context manager.

    Shows bytes and files once the reading has taken a second, if the stream is a terminal. The
    bar is gone at the end.
    """

    def __init__(
        self,
        files: Sequence[Path],
        stream: TextIO,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._files = files
        self._stream = stream
        self._clock = clock
        self._wanted = stream.isatty()
        self._begun_s = clock()
        self._doing = "Reading"
        self._files_read = 0
        self._bytes_read = 0
        self._total = _size(files) if self._wanted else None
        self._bar: Bar | None = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def files(self) -> Iterator[Path]:
        """Yield the files; one is read when the next is asked for."""
        for file in self._files:
            yield file
            self._files_read += 1
            self._show()

    def read(self, count: int) -> None:
        """Count some more bytes."""
        self._bytes_read += count
        self._show()

    def deciding(self) -> None:
        """Say that all is read."""
        self._doing = "Deciding"
        self._show()

    def say(self, line: str) -> None:
        """Write one line that stays, to the terminal or to standard error."""
        if self._bar is None:
            click.echo(line, err=True)
        else:
            self._bar.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def _show(self) -> None:
        if not self._wanted:
            return
        files = f"{self._files_read}/{len(self._files)} files"
        if self._bar is not None:
            (task,) = self._bar.task_ids
            self._bar.update(task, description=self._doing, completed=self._bytes_read, files=files)
        elif self._clock() - self._begun_s >= DELAY_S:
            self._bar = _bar(self._stream)
            self._bar.add_task(
                self._doing, completed=self._bytes_read, total=self._total, files=files
            )
            self._bar.start()


def _bar(stream: TextIO) -> Bar:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    return Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TextColumn("{task.fields[files]}"),
        TimeRemainingColumn(),
        console=Console(file=stream),
        transient=True,
        # Standard output may be a file or a pipe: what is written there stays there.
        redirect_stdout=False,
    )


def _size(files: Sequence[Path]) -> int | None:
    """Return how many bytes there are to read; None where that cannot be known."""
    total = 0
    for file in files:
        if str(file) == "-":
            return None
        try:
            status = file.stat()
        except OSError:
            continue  # whoever reads it says so
        if stat.S_ISREG(status.st_mode):
            total += status.st_size
        elif not stat.S_ISDIR(status.st_mode):
            return None
    return total
