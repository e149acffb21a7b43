"""What a load was and came to, for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from otel_turnavoid.loadgen.plan import Plan
from otel_turnavoid.loadgen.tally import Tally

_DEFAULTS = Plan(seed=0)


def summary_json(plan: Plan, tally: Tally) -> dict[str, Any]:
    """Return the plan and what became of it, for JSON."""
    settings = {
        name: str(value) if isinstance(value, tuple) else value
        for name, value in plan._asdict().items()
    }
    return {"plan": settings, **tally.as_json()}


def summary_text(plan: Plan, tally: Tally) -> str:
    """Return the same in lines for a terminal."""
    return "\n".join(_lines(plan, tally.as_json()))


def _lines(plan: Plan, said: Mapping[str, Any]) -> Iterator[str]:
    sent, requests, rate = said["sent"], said["requests"], said["rate"]
    latency, expected = said["latency_s"], said["expected"]
    yield f"seed {plan.seed}{_differing(plan)}"
    yield (
        f"sent          {sent['runs']:,} runs, {sent['spans']:,} of their spans"
        f" ({sent['lost_spans']:,} lost), {sent['foreign_spans']:,} foreign spans,"
        f" {sent['bytes'] / 1e6:,.1f} MB"
    )
    yield (
        f"requests      {requests['acknowledged']:,} acknowledged, {requests['retried']:,} retried,"
        f" {sum(requests['failed'].values()):,} failed"
        + "".join(f" ({count:,} {reason})" for reason, count in requests["failed"].items())
    )
    if requests["rejected_items"]:
        yield f"              {requests['rejected_items']:,} spans or records refused singly"
    yield (
        f"rate          {rate['runs_per_s']:,.1f} runs/s, {rate['spans_per_s']:,.0f} spans/s,"
        f" {rate['requests_per_s']:,.1f} requests/s in {rate['seconds']:.1f} s,"
        f" at most {rate['behind_s']:.2f} s behind"
    )
    if latency["p50"] is not None:
        yield (
            f"answered in   p50 {latency['p50'] * 1000:.1f} ms, p99 {latency['p99'] * 1000:.1f} ms,"
            f" at most {latency['max'] * 1000:.1f} ms"
        )
    yield "expected in the accounts" + (
        "" if said["exact"] else ", unless some of the rest came in"
    )
    yield f"  pairs       {expected['pairs']:,} decided{_waiting(expected)}"
    yield f"  committed   {_by(expected['committed'])}"
    yield f"  avoided     {expected['avoided']:,}"
    yield f"  withheld    {_by(expected['withheld'])}"
    yield f"  added       {expected['added']:,}"
    yield f"  runs        {_by(expected['runs'])}"
    yield f"  duplicates  {expected['duplicates']:,} entries and observations"


def _differing(plan: Plan) -> str:
    """Return the settings that are not the defaults, as options."""
    return "".join(
        f" {name.replace('_', '-')} {value}"
        for name, value in plan._asdict().items()
        if name != "seed" and value != getattr(_DEFAULTS, name) and value is not None
    )


def _waiting(expected: Mapping[str, Any]) -> str:
    waiting = expected["waiting"]
    return f", {waiting:,} of them when decision_wait is over" if waiting else ""


def _by(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items()) or "0"
