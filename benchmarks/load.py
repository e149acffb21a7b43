"""The highest rate of agent runs that a processor holds, against a receiver that does nothing.

Run it with ``python benchmarks/load.py``; ``--seconds``, ``--start`` and ``--steps`` make it
smaller or larger. Both sides get the same load over OTLP/gRPC from the same client, that of
``turnavoid loadgen``:

- the processor is ``turnavoid collect`` with its defaults, its ledger on disk, its log at ``warn``;
  the ledger is a SQLite file, or with ``--ledger postgresql://…`` a schema of that database, made
  for each rate and removed after it (what the server's own processes take is not in ms/run);
- the baseline is a gRPC server that decodes each request fully and drops it: what any receiver in
  Python has to do. Its figure is how many runs a second it takes as fast as it can.

A rate is held if everything is acknowledged, the metrics come to exactly what the load says they
must, and 99 of 100 pairs are visible to a scrape within a second of their last span, besides the
time between scrapes. Each rate gets a processor and a ledger of its own, and two tries: a machine
has other things to do, too. The rate is raised by half until one is not held, then looked for in
between. A verdict waits for ``settle`` (500 ms) and the next round, so 0.8 s is as good as it gets.
"""

from __future__ import annotations

import argparse
import asyncio
import bisect
import contextlib
import http.client
import os
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families

from otel_turnavoid.loadgen import Load, Pace, Plan, Shipment, Spread, Tally, shipments
from otel_turnavoid.loadgen.environment import senders
from otel_turnavoid.loadgen.tally import quantile

SCRAPE_S = 0.1
"""Between two looks at the metrics."""
VISIBLE_S = 1.0
"""Limit of the 99th percentile, besides the time between two looks."""
BEHIND_S = 1.0
"""A request that goes out later than this after its time shows that senders are held back."""
PATIENCE_S = 30.0
DECIDED = "turnavoid_pairs_decided_total"
CONFIG = """
receivers: {otlp: {protocols: {grpc: {endpoint: "127.0.0.1:0"}}}}
exporters: {prometheus: {endpoint: "127.0.0.1:0"}}
service:
  pipelines:
    traces: {receivers: [otlp], processors: [turnavoid]}
    logs: {receivers: [otlp], processors: [turnavoid]}
    metrics: {receivers: [turnavoid], exporters: [prometheus]}
  telemetry: {logs: {level: warn}}
"""
BARE = """
import asyncio, sys, grpc
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

def dropping(kind):
    async def export(body, context):
        kind.FromString(body)
        return b""
    return grpc.unary_unary_rpc_method_handler(export)

async def main():
    server = grpc.aio.server()
    for name, kind in (("trace.v1.Trace", ExportTraceServiceRequest),
                       ("logs.v1.Logs", ExportLogsServiceRequest)):
        service = f"opentelemetry.proto.collector.{name}Service"
        handlers = {"Export": dropping(kind)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"bare at 127.0.0.1:{port}", file=sys.stderr, flush=True)
    await server.wait_for_termination()

asyncio.run(main())
"""


class Receiver(NamedTuple):
    """A process that takes the load."""

    process: subprocess.Popen[str]
    endpoint: str
    metrics: str | None

    def cpu_s(self) -> float:
        """Return the processor time that it took so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Step(NamedTuple):
    """One rate, offered for some seconds."""

    offered: float
    tally: Tally
    visible_s: float | None
    """99th percentile from a pair's last span to its first sight, one look included."""
    wrong: dict[str, tuple[Any, Any]]
    """Figures that are not what the load must come to: wanted and found."""
    cpu_per_run_s: float

    @property
    def held(self) -> bool:
        """Whether the processor holds this rate."""
        return not self.why

    @property
    def why(self) -> str:
        """Return what is wrong, or nothing."""
        if not self.tally.exact:
            return f"not everything was acknowledged: {dict(self.tally.failed)}"
        if self.wrong:
            return f"acknowledged is not accounted: {self.wrong}"
        if self.tally.behind_s > BEHIND_S:
            return f"senders were held back, up to {self.tally.behind_s:.1f} s"
        if self.visible_s is None or self.visible_s > VISIBLE_S + SCRAPE_S:
            return "decisions came too late"
        return ""


@contextlib.contextmanager
def receiver(*command: str, folder: str) -> Iterator[Receiver]:
    """Start a process, and read from standard error where it listens."""
    process = subprocess.Popen(
        [sys.executable, *command], stderr=subprocess.PIPE, text=True, cwd=folder
    )
    said: dict[str, str] = {}
    try:
        for line in process.stderr or ():
            what, _, place = line.strip().rpartition(" at ")
            said[what or line.split(" ", maxsplit=1)[0]] = place
            if "bare" in said or "ledger" in said:
                break
        threading.Thread(target=_pass_on, args=(process,), daemon=True).start()
        endpoint = said.get("bare") or said["OTLP/gRPC and LedgerService"]
        yield Receiver(process, endpoint, said.get("metrics"))
    finally:
        process.terminate()
        process.wait(60)


def _pass_on(process: subprocess.Popen[str]) -> None:
    for line in process.stderr or ():
        sys.stderr.write(f"    {line}")


async def send(endpoint: str, plan: Plan, pace: Pace) -> tuple[Tally, list[float]]:
    """Send a load; return what became of it, and when each pair's last request went out."""
    speaking = senders({}, endpoint=endpoint, protocol="grpc", timeout_s=20)
    sent: list[float] = []

    def arrived(shipment: Shipment) -> None:
        last_s = time.perf_counter() - load.tally.latencies_s[-1]
        sent.extend([last_s] * (shipment.runs // 2))

    load = Load(shipments(plan), speaking, pace, arrived=arrived)
    try:
        return await load.run(), sorted(sent)
    finally:
        for sender in speaking.values():
            await sender.close()


class Watch:
    """Looks at the metrics again and again, in a thread."""

    def __init__(self, url: str) -> None:
        self.seen: list[tuple[float, int]] = []
        """When how many pairs were decided."""
        self._place = urlsplit(url)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Watch:  # noqa: PYI034 - Self is of 3.11
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def wait_for(self, pairs: int) -> None:
        """Wait until so many pairs are seen, as long as patience lasts."""
        deadline = time.perf_counter() + PATIENCE_S
        while time.perf_counter() < deadline and not (self.seen and self.seen[-1][1] >= pairs):
            time.sleep(SCRAPE_S / 2)

    def _run(self) -> None:
        connection = http.client.HTTPConnection(self._place.netloc, timeout=PATIENCE_S)
        while not self._ended.wait(SCRAPE_S):
            text = _get(connection, f"/metrics?name[]={DECIDED}")
            lines = (line for line in text.splitlines() if line.startswith(DECIDED))
            decided = sum(float(line.rpartition(" ")[2]) for line in lines)
            self.seen.append((time.perf_counter(), int(decided)))


def _get(connection: http.client.HTTPConnection, path: str) -> str:
    connection.request("GET", path)
    return connection.getresponse().read().decode()


def wrong(url: str, tally: Tally) -> dict[str, tuple[Any, Any]]:
    """Return the figures of the metrics that are not those of the load."""
    text = _get(http.client.HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE_S), "/metrics")
    found: dict[str, Counter[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = sample.labels
            label = labels.get("turnavoid_withheld_cause") or labels.get("turnavoid_outcome")
            label = label or labels.get("turnavoid_arm", "")
            found.setdefault(sample.name, Counter())[label] += int(sample.value)
    wanted = tally.accounts
    facts = wanted.facts + wanted.duplicates
    stored = found["turnavoid_processor_stored_items_total"].total()
    compared = {
        "pairs": (wanted.pairs, found[DECIDED].total()),
        "avoided": (wanted.avoided, found["turnavoid_model_turns_avoided_total"].total()),
        "added": (wanted.added, found["turnavoid_model_turns_added_total"].total()),
        "withheld": (wanted.withheld, +found["turnavoid_model_turns_withheld_total"]),
        "committed": (wanted.committed, +found["turnavoid_model_turns_committed_total"]),
        "runs": (wanted.runs, +found["turnavoid_runs_observed_total"]),
        "facts": (wanted.facts, stored),
        "duplicates": (
            facts - wanted.facts,
            found["turnavoid_processor_duplicates_total"].total(),
        ),
    }
    return {name: pair for name, pair in compared.items() if pair[0] != pair[1]}


def offered(plan: Plan, rate: float, options: argparse.Namespace) -> Step:
    """Offer a rate to a new processor."""
    with tempfile.TemporaryDirectory() as folder, ledger(options.ledger) as url:
        (Path(folder) / "c.yaml").write_text(CONFIG)
        command = ("-m", "otel_turnavoid", "collect", "--config", "c.yaml", "--ledger", url)
        with receiver(*command, folder=folder) as processor:
            assert processor.metrics is not None
            cpu_s = processor.cpu_s()
            with Watch(processor.metrics) as watch:
                plan = plan._replace(runs=int(rate * options.seconds))
                tally, sent = asyncio.run(
                    send(processor.endpoint, plan, Pace(rate, options.workers))
                )
                watch.wait_for(tally.accounts.pairs)
            cpu_s = (processor.cpu_s() - cpu_s) / max(tally.runs, 1)
            visible_s = quantile(_waits(sent, watch.seen), 0.99)
            return Step(rate, tally, visible_s, wrong(processor.metrics, tally), cpu_s)


@contextlib.contextmanager
def ledger(url: str | None) -> Iterator[str]:
    """Yield the URL of a ledger that does not exist yet, and remove from a server what it held."""
    if url is None:
        yield "sqlite:///turnavoid.db"
        return
    import psycopg  # noqa: PLC0415 - an extra

    name = f"load_{uuid.uuid4().hex}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
        try:
            yield f"{url}{'&' if '?' in url else '?'}options=-csearch_path%3D{name}"
        finally:
            connection.execute(f"DROP SCHEMA {name} CASCADE")


def _waits(sent: list[float], seen: list[tuple[float, int]]) -> list[float]:
    """Return how long each pair took: the n-th that was sent, to the n-th that was seen."""
    counts = [count for _, count in seen]
    found = []
    for number, sent_s in enumerate(sent, 1):
        at = bisect.bisect_left(counts, number)
        found.append(seen[at][0] - sent_s if at < len(seen) else float("inf"))
    return found


def bare(plan: Plan, options: argparse.Namespace) -> tuple[float, float]:
    """Return runs a second of a receiver that does nothing, and its processor time for one."""
    folder = tempfile.gettempdir()
    with receiver("-c", BARE, folder=folder) as nothing:
        cpu_s = nothing.cpu_s()
        pace = Pace(workers=options.workers, duration_s=options.seconds)
        tally, _ = asyncio.run(send(nothing.endpoint, plan, pace))
        return tally.runs / tally.elapsed_s, (nothing.cpu_s() - cpu_s) / tally.runs


def highest(plan: Plan, options: argparse.Namespace) -> Step | None:
    """Return the highest rate that was held."""
    low: Step | None = None
    high = None
    rate = options.start
    for number in range(options.steps):
        for attempt in range(options.tries):
            seed = plan.seed + number * options.tries + attempt
            step = offered(plan._replace(seed=seed), rate, options)
            if step.held:
                break
        shown_s = float("nan") if step.visible_s is None else step.visible_s
        latency_s = quantile(step.tally.latencies_s, 0.99) or float("nan")
        print(
            f"  {rate:>8.0f} runs/s: answered p99 {latency_s * 1000:>6.0f} ms,"
            f" visible p99 {shown_s:>5.2f} s, {step.cpu_per_run_s * 1000:.2f} ms/run"
            f"  {step.why or 'held'}",
            flush=True,
        )
        if step.held:
            low = step
        else:
            high = rate
        if high is None:
            rate *= 1.5
        elif low is None:
            rate /= 2
        else:
            rate = (low.offered + high) / 2
    return low


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=8.0, help="how long each rate is offered")
    parser.add_argument("--start", type=float, default=100.0, help="the first rate, in runs/s")
    parser.add_argument("--steps", type=int, default=6, help="how many rates are tried")
    parser.add_argument("--tries", type=int, default=2, help="how often until a rate is not held")
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--batch", type=int, default=4, help="runs in one request")
    parser.add_argument("--duplicates", type=float, default=0.02)
    parser.add_argument("--foreign", type=float, nargs="*", default=[0.0, 0.9])
    parser.add_argument("--ledger", help="URL of a PostgreSQL database to keep ledgers in")
    parser.add_argument("--check", action="store_true", help="fail where no rate is held")
    options = parser.parse_args()
    missed = False
    for foreign in options.foreign:
        plan = Plan(
            seed=1,
            turns=Spread(options.turns, options.turns),
            candidate_turns=Spread(options.turns - 1, options.turns - 1),
            batch=options.batch,
            foreign=foreign,
            duplicates=options.duplicates,
            suppressed=0.05,
        )
        print(f"{foreign:.0%} of the spans foreign, {options.turns} turns a run")
        best = highest(plan, options)
        rate, cpu_s = bare(plan, options)
        print(f"  baseline, decodes and drops: {rate:,.0f} runs/s, {cpu_s * 1000:.2f} ms/run")
        if best is None:
            missed = True
            print("  no rate was held")
            continue
        print(
            f"  highest rate held: {best.offered:,.0f} runs/s, {best.offered / rate:.2f} of the"
            f" baseline; {best.cpu_per_run_s / cpu_s:.1f} times its processor time for a run"
        )
    return int(missed and options.check)


if __name__ == "__main__":
    sys.exit(main())
