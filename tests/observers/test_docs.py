"""docs/observers.md: its program runs, its commands and options exist."""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2_grpc
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse

from otel_turnavoid.cli.observe import command

GUIDE = Path(__file__).parents[2] / "docs" / "observers.md"


@pytest.fixture(scope="module")
def guide() -> str:
    return GUIDE.read_text(encoding="utf-8")


def test_the_observer_of_ones_own_states_what_changed(guide: str, tmp_path: Path) -> None:
    (program,) = re.findall(r"^```python\n(.*?)^```$", guide, re.DOTALL | re.MULTILINE)
    (tmp_path / "mails.py").write_text(program)
    mailbox = tmp_path / "mailbox"
    mailbox.mkdir()
    (mailbox / "1.eml").write_text("welcome")
    got: list[Any] = []

    class Logs(logs_service_pb2_grpc.LogsServiceServicer):
        def Export(self, request: Any, *_: Any) -> Any:  # noqa: N802 - gRPC's name
            got.append(request)
            return ExportLogsServiceResponse()

    server = grpc.server(ThreadPoolExecutor(1))
    logs_service_pb2_grpc.add_LogsServiceServicer_to_server(Logs(), server)
    port = server.add_insecure_port("localhost:0")
    server.start()

    def observe(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-W", "error", "mails.py", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    observe("before", "mailbox", "before.json")
    (mailbox / "1.eml").unlink()
    (mailbox / "2.eml").write_text("refunded")
    seen = observe("after", "mailbox", "before.json", "r1", f"localhost:{port}")
    server.stop(None).wait()

    assert seen == "mail:refunded\nmail:welcome=gone\n"
    assert len(got) == 1


def test_every_observer_stands_in_the_table(guide: str) -> None:
    assert re.findall(r"^\| `turnavoid observe (\w+)", guide, re.MULTILINE) == list(
        command.commands
    )


def test_every_option_that_the_guide_names_exists(guide: str) -> None:
    known = {
        spelling
        for observer in command.commands.values()
        for option in observer.params
        for spelling in option.opts
    }

    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", guide)) - known == set()
