"""Replay against merely decoding: rows per second, time as a ratio, memory as a ratio.

Run it with ``python benchmarks/replay.py``. Both sides are whole processes that read the same
generated file; the best of ``--repeat`` alternating runs counts. The targets: at most 2.5
times the time of decoding alone, and a peak below three times the file's size.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

DECODE = """
import sys
import msgspec
from otel_turnavoid.ledger.row import Row
decode = msgspec.json.Decoder(Row).decode
with open(sys.argv[1], "rb") as stream:
    for line in stream:
        decode(line)
"""
"""What replay is measured against: the same file into the same typed rows, nothing kept."""

EFFECTS = ("order:42=cancelled", "mail:sent", "refund:17=issued", "stock:9=reserved")
MAX_TIME = 2.5
MAX_MEMORY = 3.0


def generate(path: Path, rows: int, seed: int) -> None:
    """Write about ``rows`` valid rows of about 1 KB, three for each input."""
    dice = random.Random(seed)
    with path.open("w", encoding="utf-8") as stream:
        for index in range(rows // 3):
            for row in _input(dice, index):
                stream.write(json.dumps(row, separators=(",", ":")) + "\n")


def _input(dice: random.Random, index: int) -> list[dict[str, Any]]:
    turn = index % 8
    control = {
        "model_latency_ms": dice.uniform(200, 9000),
        "tool_latency_ms": dice.uniform(0, 900),
        "model_cost_usd": dice.uniform(0, 0.2),
        "tool_cost_usd": 0,
    }
    required = sorted(dice.sample(EFFECTS, dice.randint(1, len(EFFECTS))))
    turns = dice.randint(1, 9)
    rows = []
    for arm in ("control", "exact-reuse", "fused-batch"):
        own = arm == "control"
        changed = {key: value * dice.uniform(0, 1.1) for key, value in control.items()}
        rows.append(
            {
                "schema_version": "fak.turnavoid.trace/v1",
                "trace_id": f"experiment-{index // 8000}",
                "unit_id": f"unit-{index // 8:06d}-of-the-benchmark",
                "turn_index": turn,
                "decision_basis_through_turn": turn - 1,
                "input_digest": "sha256:" + hashlib.sha256(str(index).encode()).hexdigest(),
                "arm": arm,
                "mechanism": arm,
                "lifecycle": "realized" if own else dice.choice(["realized", "attempted"]),
                "reason": "baseline" if own else dice.choice(["exact-match", "unknown"]),
                "control_committed_model_turns": turns,
                "candidate_committed_model_turns": turns if own else dice.randint(0, turns),
                "required_effect_observation": {
                    "independent_observer": "orders-database",
                    "control_required": required,
                    "candidate_required": required if own or dice.randrange(10) else required[1:],
                },
                "control_gross": control,
                "candidate_gross": control if own else changed,
                "overhead": {
                    f"{kind}_{unit}": 0 if own else dice.choice([0, dice.uniform(0, scale)])
                    for unit, scale in (("latency_ms", 80), ("cost_usd", 0.01))
                    for kind in ("validation", "speculation", "retry", "recovery")
                },
            }
        )
    return rows


def measure(arguments: list[str]) -> tuple[float, int]:
    """Run a process to its end; return wall seconds and peak resident bytes."""
    begun = time.perf_counter()
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"a measured process failed: {arguments[:3]}")
    return seconds, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=150_000)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.jsonl"
        generate(path, options.rows, seed=1)
        size = path.stat().st_size
        sides = {
            "decode": ["-c", DECODE, str(path)],
            "replay": ["-m", "otel_turnavoid", "replay", "--in", str(path), "--json"],
        }
        best = dict.fromkeys(sides, (float("inf"), 0))
        for _ in range(options.repeat):
            for name, arguments in sides.items():
                best[name] = min(best[name], measure(arguments))
    rows = options.rows // 3 * 3
    print(f"{rows:,} rows, {size / rows:,.0f} bytes each, best of {options.repeat}")
    print(f"{'':8}{'seconds':>9}{'rows/s':>12}{'peak MB':>10}")
    for name, (seconds, peak) in best.items():
        print(f"{name:8}{seconds:9.3f}{rows / seconds:12,.0f}{peak / 1e6:10.1f}")
    print(f"time    {best['replay'][0] / best['decode'][0]:9.2f} x decoding  (target {MAX_TIME})")
    print(f"memory  {best['replay'][1] / size:9.2f} x the file  (target {MAX_MEMORY})")


if __name__ == "__main__":
    main()
