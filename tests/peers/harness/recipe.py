"""A placement recipe: its own files, on free ports."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.jaeger import Jaeger
from harness.ledger import Ledger
from harness.peer import ROOT, Peer, Peers, until
from harness.prometheus import Prometheus

PLACEMENT = ROOT / "examples" / "placement"

LISTENED_AT = re.compile(r"\$\{env:(\w+):-localhost:\d+\}")
"""An endpoint in a configuration file of a recipe."""


class Recipe:
    """A folder of ``examples/placement``: its own files, on free ports."""

    def __init__(self, name: str, peers: Peers, folder: str | None = None) -> None:
        self.folder = PLACEMENT / (folder or name)
        self._peers = peers
        self.scratch = peers.folder / name
        self.scratch.mkdir()
        self.endpoints = {
            variable: f"localhost:{peers.port()}"
            for variable in sorted(
                {found for file in self.files for found in LISTENED_AT.findall(file.read_text())}
            )
        }

    @property
    def files(self) -> list[Path]:
        return sorted(file for file in self.folder.glob("*.yaml") if file.name != "compose.yaml")

    def ledger(self, name: str = "turnavoid") -> Ledger:
        return Ledger(f"sqlite:///{self.scratch / name}.db")

    def processor(
        self,
        ledger: Ledger | None = None,
        *,
        name: str = "turnavoid",
        config: str = "turnavoid.yaml",
        endpoints: Mapping[str, str] | None = None,
        replace: Mapping[str, str] | None = None,
    ) -> Peer:
        """Start the processor.

        Args:
            ledger: Default: one of its own.
            name: Of the peer and its ledger.
            config: File of the recipe.
            endpoints: Other values for the variables of the file.
            replace: Texts of the file to replace, for what no variable says.
        """
        command = [sys.executable, "-m", "otel_turnavoid", "collect"]
        url = (ledger or self.ledger(name)).url
        arguments = ["--config", str(self.edited(config, replace or {})), "--ledger", url]
        return self._start(name, [*command, *arguments], config, endpoints or {})

    def one_of(self, number: int, ledger: Ledger | None = None) -> Peer:
        """Start one of several processors: where the collector sends, and scraped anywhere."""
        where = {
            "TURNAVOID_GRPC": self.endpoints[f"TURNAVOID_{number}"],
            "TURNAVOID_PROMETHEUS": f"localhost:{self._peers.port()}",
        }
        return self.processor(ledger, name=f"processor-{number}", endpoints=where)

    def collector(self) -> Peer:
        # Only its own metrics, whose port no recipe sets, are switched off.
        without = ["--config", "yaml:service::telemetry::metrics::level: none"]
        command = [self._peers.program("otelcol"), "--config", str(self.folder / "collector.yaml")]
        listening = "COLLECTOR_"
        return self._start("collector", [*command, *without], "collector.yaml", {}, listening)

    def jaeger(self) -> Jaeger:
        command = [self._peers.program("jaeger"), "--config", str(self.folder / "jaeger.yaml")]
        peer = self._start("jaeger", command, "jaeger.yaml", {}, "JAEGER_")
        return Jaeger(f"http://{self.endpoints['JAEGER_UI']}", peer)

    def prometheus(self, *flags: str, replace: Mapping[str, str] | None = None) -> Prometheus:
        """Start Prometheus with the recipe's file, a scrape a second.

        Args:
            flags: More of its flags.
            replace: Texts of the file to replace.
        """
        at = self.endpoints["PROMETHEUS"]
        edited = self.edited(
            "prometheus.yml",
            {
                "15s": "1s",
                "localhost:9464": self.endpoints["TURNAVOID_PROMETHEUS"],
                **(replace or {}),
            },
        )
        command = [
            self._peers.program("prometheus"),
            f"--config.file={edited}",
            f"--storage.tsdb.path={self.scratch / 'series'}",
            f"--web.listen-address={at}",
            "--web.enable-otlp-receiver",
            *flags,
        ]
        port = int(at.rpartition(":")[2])
        peer = Peer("prometheus", command, self.scratch, {}, [port], f"http://{at}/-/ready")
        return Prometheus(f"http://{at}", self._peers.start(peer))

    def edited(self, name: str, replace: Mapping[str, str]) -> Path:
        """Return a file of the recipe, or a copy where something is replaced."""
        file = self.folder / name
        if not replace:
            return file
        text = file.read_text()
        for old, new in replace.items():
            assert old in text, f"{file} does not say {old}"
            text = text.replace(old, new)
        copy = self.scratch / name
        copy.write_text(text)
        return copy

    def until_decided(
        self, ledgers: Sequence[Ledger], pairs: int, *, peers: Sequence[Peer] = ()
    ) -> None:
        until(
            lambda: sum(len(ledger.lines("pairs")) for ledger in ledgers) >= pairs,
            f"{pairs} decided pairs in {len(ledgers)} ledgers",
            peers=peers,
        )

    def _start(
        self,
        name: str,
        command: list[str],
        config: str,
        endpoints: Mapping[str, str],
        listening: str = "TURNAVOID_",
    ) -> Peer:
        at = {**self.endpoints, **endpoints}
        used = LISTENED_AT.findall((self.folder / config).read_text())
        ports = [int(at[key].rpartition(":")[2]) for key in used if key.startswith(listening)]
        return self._peers.start(Peer(name, command, self.scratch, at, ports))
