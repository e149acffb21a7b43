"""Resident memory of the processor against the number of requests it took.

Run it with ``python benchmarks/memory.py``; ``--requests 2000`` is a short run. A
``turnavoid collect`` process gets whole runs over OTLP/HTTP, four senders at once: control,
candidate and an observation of each, so that every input is paired, decided and published.
Its memory is read after every twentieth part. The target: once it is warm (after the first
fifth), it grows by less than a tenth, however many requests come. Linux only (/proc).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

from otel_turnavoid.testing import START_NS, observation, run_spans

REQUESTS = 20_000
SENDERS = 4
SAMPLES = 20
WARM = SAMPLES // 5
TARGET = 1.1
MIB = 1 << 20

CONFIG = """
receivers: {otlp: {protocols: {http: {endpoint: "127.0.0.1:0"}}}}
processors: {turnavoid: {settle: 100ms}}
exporters: {prometheus: {endpoint: "127.0.0.1:0"}}
service:
  telemetry: {logs: {level: warn}}
  pipelines:
    traces: {receivers: [otlp], processors: [turnavoid], exporters: []}
    logs: {receivers: [otlp], processors: [turnavoid], exporters: []}
    metrics: {receivers: [turnavoid], exporters: [prometheus]}
"""

Request = tuple[str, bytes]


def requests(count: int) -> Iterator[Request]:
    """Yield path and body of ``count`` requests, four for an input."""
    for number in range(-(-count // 4)):
        at = START_NS + number * 1_000_000_000
        control, candidate = f"c{number}", f"k{number}"
        yield "/v1/traces", run_spans(run_id=control, task=number, turns=3, start_ns=at)
        yield (
            "/v1/traces",
            run_spans(run_id=candidate, arm="fused-batch", task=number, turns=2, start_ns=at),
        )
        yield "/v1/logs", observation(control, observed_ns=at)
        yield "/v1/logs", observation(candidate, observed_ns=at)


def send(address: str, waiting: Iterator[Request], lock: threading.Lock) -> None:
    connection = HTTPConnection(address, timeout=60)
    while True:
        with lock:
            request = next(waiting, None)
        if request is None:
            break
        path, body = request
        connection.request("POST", path, body, {"content-type": "application/x-protobuf"})
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:  # noqa: PLR2004 - HTTP's own number
            sys.exit(f"refused with {answer.status}")
    connection.close()


def resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096


def measure(count: int, folder: Path) -> list[tuple[int, float, int]]:
    """Return requests so far, seconds and resident bytes, sample by sample."""
    config = folder / "turnavoid.yaml"
    config.write_text(CONFIG)
    command = [sys.executable, "-m", "otel_turnavoid", "collect", "--config", str(config)]
    command += ["--ledger", f"sqlite:///{folder / 'ledger.db'}"]
    samples = []
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            line = next(line for line in process.stderr or () if "OTLP/HTTP at" in line)
            address = line.strip().rpartition("/")[2]
            waiting, lock = requests(count), threading.Lock()
            part, start = count // SAMPLES, time.perf_counter()
            for number in range(1, SAMPLES + 1):
                batch = iter([next(waiting) for _ in range(part)])
                senders = [
                    threading.Thread(target=send, args=(address, batch, lock))
                    for _ in range(SENDERS)
                ]
                for sender in senders:
                    sender.start()
                for sender in senders:
                    sender.join()
                seconds = time.perf_counter() - start
                samples.append((number * part, seconds, resident_bytes(process.pid)))
        finally:
            process.terminate()
    return samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=REQUESTS)
    count = max(parser.parse_args().requests, SAMPLES * SENDERS)
    with tempfile.TemporaryDirectory() as folder:
        samples = measure(count, Path(folder))
    print("requests   seconds   resident")
    for sent, seconds, resident in samples:
        print(f"{sent:8,} {seconds:9.1f} {resident / MIB:6.1f} MiB")
    warm, most = samples[WARM - 1][2], max(resident for _, _, resident in samples[WARM:])
    ratio = most / warm
    print(f"most after warming up / warm: {ratio:.2f} (target: at most {TARGET})")
    sys.exit(ratio > TARGET)


if __name__ == "__main__":
    main()
