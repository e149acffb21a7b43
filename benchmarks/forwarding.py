"""What forwarding costs the processor: with a backend, without one, and with a dead one.

Run it with ``python benchmarks/forwarding.py``; ``--requests 500`` is a short run. The same
requests (one agent run and one of foreign spans, in turn) go over OTLP/HTTP, eight senders at
once, to a ``turnavoid collect`` that does not forward, to one that forwards over gRPC, to one
that forwards over HTTP, and to one whose backend is away. Backends are processes that answer at
once. Compared are the processor's own processor time for a request (which other work on the
machine hardly changes) and the requests it answered in a second; rounds alternate, and the best
of each counts. With the backend away its memory is compared before and after.

The target: a request costs at most two and a half times the processor time. Half of the requests
are of no concern to the ledger: without forwarding they touch no disk at all. Linux only (/proc).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

from otel_turnavoid.testing import other_spans, run_spans

REQUESTS = 3000
ROUNDS = 3
SENDERS = 8
TARGET = 2.5
MIB = 1 << 20
TICKS = os.sysconf("SC_CLK_TCK")
SETUPS = ("none", "grpc", "http", "dead")

CONFIG = """
receivers: {{otlp: {{protocols: {{http: {{endpoint: "127.0.0.1:0"}}}}}}}}
exporters:
  otlp: {{endpoint: "{grpc}", tls: {{insecure: true}}, sending_queue: {{queue_size: 1000000}}}}
  otlphttp: {{endpoint: "http://{http}"}}
service:
  telemetry: {{logs: {{level: error}}}}
  pipelines:
    traces: {{receivers: [otlp], processors: [turnavoid], exporters: [{exporters}]}}
"""


class Figures(NamedTuple):
    """One round of one setup."""

    cpu_ms: float
    """Processor time of one request."""
    rate: float
    """Requests answered in a second."""
    grown_mib: float
    """Resident memory at the end, less that after the first quarter."""


def backend(kind: str) -> None:
    """Serve until standard input ends; says its address."""
    if kind == "grpc":
        import grpc  # noqa: PLC0415

        name = "opentelemetry.proto.collector.trace.v1.TraceService"
        handler = grpc.unary_unary_rpc_method_handler(lambda _body, _context: b"")
        server = grpc.server(ThreadPoolExecutor(4))
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(name, {"Export": handler}),)
        )
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
    else:

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        web = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        port = web.server_address[1]
        threading.Thread(target=web.serve_forever, daemon=True).start()
    print(f"127.0.0.1:{port}", flush=True)
    sys.stdin.read()


@contextmanager
def backend_process(kind: str) -> Iterator[str]:
    command = [sys.executable, __file__, "--backend", kind]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.kill()


def send(address: str, bodies: Iterator[bytes], lock: threading.Lock) -> None:
    connection = HTTPConnection(address, timeout=60)
    while True:
        with lock:
            body = next(bodies, None)
        if body is None:
            break
        headers = {"content-type": "application/x-protobuf"}
        connection.request("POST", "/v1/traces", body, headers)
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:  # noqa: PLR2004 - HTTP's own number
            sys.exit(f"refused with {answer.status}")
    connection.close()


def load(address: str, bodies: list[bytes]) -> None:
    waiting, lock = iter(bodies), threading.Lock()
    senders = [threading.Thread(target=send, args=(address, waiting, lock)) for _ in range(SENDERS)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def measure(config: str, bodies: list[bytes], folder: Path) -> Figures:
    path = folder / "turnavoid.yaml"
    path.write_text(config)
    command = [sys.executable, "-m", "otel_turnavoid", "collect", "--config", str(path)]
    command += ["--ledger", f"sqlite:///{folder / 'ledger.db'}"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            line = next(line for line in process.stderr or () if "OTLP/HTTP at" in line)
            address = line.strip().rpartition("/")[2]
            quarter = len(bodies) // 4
            load(address, bodies[:quarter])
            cpu, start, resident = (
                cpu_s(process.pid),
                time.perf_counter(),
                resident_bytes(process.pid),
            )
            load(address, bodies[quarter:])
            seconds = time.perf_counter() - start
            grown = resident_bytes(process.pid) - resident
            count = len(bodies) - quarter
            # What was forwarded late is part of the cost: the last of it within a second.
            time.sleep(1)
            spent = cpu_s(process.pid) - cpu
        finally:
            process.terminate()
    return Figures(1000 * spent / count, count / seconds, grown / MIB)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=REQUESTS)
    parser.add_argument("--backend", choices=("grpc", "http"))
    given = parser.parse_args()
    if given.backend:
        backend(given.backend)
        return
    bodies = []
    for number in range(given.requests // 2):
        bodies.append(run_spans(run_id=f"r{number}", task=number, turns=3))
        bodies.append(other_spans(20, service=f"shop-{number}"))
    rounds: dict[str, list[Figures]] = {setup: [] for setup in SETUPS}
    with backend_process("grpc") as grpc_at, backend_process("http") as http_at:
        exporters = {"none": "", "grpc": "otlp", "http": "otlphttp", "dead": "otlp"}
        for _ in range(ROUNDS):
            for setup in SETUPS:
                config = CONFIG.format(
                    grpc="127.0.0.1:9" if setup == "dead" else grpc_at,
                    http=http_at,
                    exporters=exporters[setup],
                )
                with tempfile.TemporaryDirectory() as folder:
                    rounds[setup].append(measure(config, bodies, Path(folder)))
    print("forwarding   CPU ms/request   of none   requests/s   of none   memory grown")
    base_cpu = min(each.cpu_ms for each in rounds["none"])
    base_rate = max(each.rate for each in rounds["none"])
    worst = 0.0
    for setup in SETUPS:
        cpu = min(each.cpu_ms for each in rounds[setup])
        rate = max(each.rate for each in rounds[setup])
        grown = min(each.grown_mib for each in rounds[setup])
        worst = max(worst, cpu / base_cpu)
        print(
            f"{setup:10} {cpu:16.2f} {cpu / base_cpu:9.2f} {rate:12.0f} {rate / base_rate:9.2f}"
            f" {grown:10.1f} MiB"
        )
    print(f"worst CPU against none: {worst:.2f} (target: at most {TARGET})")
    sys.exit(worst > TARGET)


if __name__ == "__main__":
    main()
