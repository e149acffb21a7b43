"""Run targets under a coverage-guided fuzzer: ``python -m fuzz [--seconds N] [TARGET…]``.

Each target has a process of its own. What it learns is kept in ``.fuzz/TARGET/corpus`` for the
next time, and input that it fails on as ``.fuzz/TARGET/crash-…``, ``timeout-…`` or ``oom-…``;
``python -m fuzz --again FILE TARGET`` runs such a file alone.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Final

KEPT: Final = Path(__file__).parents[1] / ".fuzz"
_SLOW_S: Final = 10
"""Time for one input, on a machine with other work."""
_MEMORY_MB: Final = 1024
_LONGEST: Final = 16_384
"""Bytes of an input."""


def main() -> int:
    """Run what the command line names; return 1 if a target failed."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description="fuzz with coverage")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="all where left out")
    parser.add_argument("--seconds", type=int, default=60, help="time for each target (60)")
    parser.add_argument("--again", type=Path, metavar="FILE", help="run this input alone")
    parser.add_argument("--inside", metavar="TARGET", help=argparse.SUPPRESS)
    given, options = parser.parse_known_args()
    if given.inside:
        return _fuzz(given.inside, [*options, *given.targets])
    from fuzz.targets import TARGETS  # noqa: PLC0415 - inside, it is imported with coverage

    unknown = [name for name in given.targets if name not in TARGETS]
    if options or unknown:
        parser.error(f"unknown: {' '.join([*options, *unknown])}; targets: {', '.join(TARGETS)}")
    names = given.targets or list(TARGETS)
    if given.again is not None:
        for name in names:
            TARGETS[name].check(given.again.read_bytes())
        return 0
    failed = [name for name in names if _started(name, given.seconds, TARGETS[name].seeds())]
    for name in failed:
        sys.stderr.write(f"{name} failed; see {KEPT / name}\n")
    return 1 if failed else 0


def _started(name: str, seconds: int, seeds: list[bytes]) -> int:
    folder = KEPT / name
    corpus = folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        (corpus / sha256(seed).hexdigest()[:16]).write_bytes(seed)
    options = (
        f"-max_total_time={seconds}",
        f"-timeout={_SLOW_S}",
        f"-rss_limit_mb={_MEMORY_MB}",
        f"-max_len={_LONGEST}",
        "-len_control=0",
        f"-artifact_prefix={folder}/",
        "-print_final_stats=1",
        "-verbosity=1",
        str(corpus),
    )
    command = [sys.executable, "-m", "fuzz", "--inside", name, *options]
    return subprocess.run(command, cwd=KEPT.parent, check=False).returncode  # noqa: S603 - ours


def _fuzz(name: str, options: list[str]) -> int:
    import atheris  # noqa: PLC0415 - the extra `fuzz`

    with atheris.instrument_imports(include=["otel_turnavoid", "fuzz"]):
        from fuzz.targets import TARGETS  # noqa: PLC0415 - instrumented

    atheris.Setup([f"fuzz {name}", *options], TARGETS[name].check)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
