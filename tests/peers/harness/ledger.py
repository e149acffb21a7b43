"""A ledger as its owner sees it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from click.testing import CliRunner

from harness.peer import Peer, until
from otel_turnavoid.cli.main import main


@dataclass(frozen=True)
class Ledger:
    """A ledger as its owner sees it: through the command line."""

    url: str

    def ask(self, command: str, *arguments: str) -> str:
        done = CliRunner().invoke(main, [command, *arguments, "--ledger", self.url])
        assert done.exit_code == 0, done.output
        return done.stdout

    def lines(self, command: str) -> list[dict[str, Any]]:
        """The JSON Lines of a command, in an order that does not depend on arrival."""
        return sorted(map(json.loads, self.ask(command, "--json").splitlines()), key=str)

    def accounts(self) -> dict[str, Any]:
        """Everything that must not depend on the way the spans came."""
        return {
            "pairs": self.lines("pairs"),
            "runs": self.lines("runs"),
            "report": json.loads(self.ask("report", "--json")),
        }

    def wait_for(self, pairs: int, *, peers: Sequence[Peer] = ()) -> None:
        until(
            lambda: len(self.lines("pairs")) >= pairs,
            f"{pairs} decided pairs in {self.url}",
            peers=peers,
        )
