"""``turnavoid loadgen``: synthetic control and candidate runs over OTLP, for sizing."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import time
from typing import TYPE_CHECKING, Any, Final

import click

from otel_turnavoid.vocabulary import CANDIDATE_ARMS, Arm

if TYPE_CHECKING:
    from otel_turnavoid.loadgen import Pace, Plan, Spread, Tally

EXIT_NOT_EXACT: Final = 1
"""Something was refused or given up, so what the ledger must hold is not known to the turn."""

_SHARE: Final = click.FloatRange(0, 1)


class SpreadType(click.ParamType):  # type: ignore[type-arg] # click 8.1 has no arguments
    """``4``, or ``2-6`` for any of these, drawn evenly."""

    name = "spread"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Spread:
        """Return the spread."""
        from otel_turnavoid.loadgen import Spread

        spread = value if isinstance(value, Spread) else Spread.parse(value)
        if spread is None:
            self.fail(
                f"wants a number such as 4, or a range such as 2-6, got {value!r}", param, ctx
            )
        return spread


class DurationType(click.ParamType):  # type: ignore[type-arg] # click 8.1 has no arguments
    """``30s``, ``1h30m`` and so on, in seconds."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the seconds."""
        from otel_turnavoid.collector import duration

        if isinstance(value, float):
            return value
        parsed = duration.parse(value)
        if parsed is None or not parsed:
            self.fail(f"wants {duration.WANTED}, got {value!r}", param, ctx)
        return parsed.seconds


@click.command
@click.option(
    "--rate",
    default=10.0,
    show_default=True,
    metavar="N",
    type=click.FloatRange(0),
    help="Runs to start a second; 0 is as fast as the receiver answers.",
)
@click.option(
    "--runs",
    metavar="N",
    type=click.IntRange(1),
    help="Runs, two for each pair.  [default: 100, or what --duration takes]",
)
@click.option(
    "--duration",
    "duration_s",
    metavar="TIME",
    type=DurationType(),
    help="How long to send, such as 30s.",
)
@click.option(
    "--workers",
    default=8,
    show_default=True,
    metavar="N",
    type=click.IntRange(1, 1024),
    help="Shipments under way at once.",
)
@click.option(
    "--batch",
    default=4,
    show_default=True,
    metavar="N",
    type=click.IntRange(1, 1000),
    help="Runs in one request.",
)
@click.option(
    "--turns",
    default="4",
    show_default=True,
    metavar="N|N-M",
    type=SpreadType(),
    help="Turns of a control run.",
)
@click.option(
    "--candidate-turns",
    default="3",
    show_default=True,
    metavar="N|N-M",
    type=SpreadType(),
    help="Turns of a candidate run.",
)
@click.option(
    "--arm",
    default=Arm.FUSED_BATCH.value,
    show_default=True,
    type=click.Choice([arm.value for arm in CANDIDATE_ARMS]),
    help="Arm of the candidates.",
)
@click.option("--variant", metavar="NAME", help="Variant of the candidates.")
@click.option("--experiment", metavar="NAME", help="Experiment of all runs.")
@click.option(
    "--units",
    default=0,
    metavar="N",
    type=click.IntRange(0),
    help="Units that the pairs stand for, in turn.  [default: none are named]",
)
@click.option(
    "--effects",
    default=2,
    show_default=True,
    metavar="N",
    type=click.IntRange(1, 1000),
    help="Required effects that the observer sees of a run.",
)
@click.option(
    "--foreign",
    default=0.0,
    metavar="SHARE",
    type=_SHARE,
    help="Share of spans that are not about agents, from 0 to 1.",
)
@click.option(
    "--duplicates",
    default=0.0,
    metavar="SHARE",
    type=_SHARE,
    help="Share of requests that are sent twice.",
)
@click.option(
    "--lost",
    default=0.0,
    metavar="SHARE",
    type=_SHARE,
    help="Share of the runs' spans that are never sent.",
)
@click.option(
    "--failed",
    default=0.0,
    metavar="SHARE",
    type=_SHARE,
    help="Share of candidate runs that failed.",
)
@click.option(
    "--suppressed",
    default=0.0,
    metavar="SHARE",
    type=_SHARE,
    help="Share of candidate runs that lack a required effect.",
)
@click.option(
    "--unobserved",
    default=0.0,
    metavar="SHARE",
    type=_SHARE,
    help="Share of candidate runs that no observer saw.",
)
@click.option(
    "--seed",
    metavar="N",
    type=int,
    help="The same seed and settings: the same bytes.  [default: a new one]",
)
@click.option(
    "--now",
    "from_now",
    is_flag=True,
    help="Let runs start now, not at a time that is always the same.",
)
@click.option(
    "--endpoint",
    metavar="URL",
    help="Where to send.  [default: OTEL_EXPORTER_OTLP_ENDPOINT, else this machine]",
)
@click.option(
    "--protocol",
    type=click.Choice(["grpc", "http/protobuf", "http/json"]),
    help="How to speak.  [default: OTEL_EXPORTER_OTLP_PROTOCOL, else grpc]",
)
@click.option(
    "--timeout",
    "timeout_s",
    default="10s",
    show_default=True,
    metavar="TIME",
    type=DurationType(),
    help="Limit of one attempt.",
)
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
def command(  # noqa: PLR0913 - an option each
    *,
    rate: float,
    runs: int | None,
    duration_s: float | None,
    workers: int,
    seed: int | None,
    from_now: bool,
    endpoint: str | None,
    protocol: str | None,
    timeout_s: float,
    as_json: bool,
    **settings: Any,
) -> int:
    """Send synthetic control and candidate runs over OTLP, for sizing.

    Agents' runs and what an observer saw of them go to a running processor, which judges them as
    any others: give it a ledger of its own. At the end stands what was sent, how the receiver
    answered, and what its accounts must show: avoided, withheld and added turns follow from the
    settings and the seed.

    TLS, tokens and compression come from the OTEL_EXPORTER_OTLP_… variables, those of one signal
    first: OTEL_EXPORTER_OTLP_LOGS_HEADERS can carry the observer's token. What the receiver asks
    for is done: requests are sent again when it says so. Exit code 1: some were refused for good,
    or given up after 30 seconds, or refused in part.
    """
    from otel_turnavoid.loadgen import Pace, Plan
    from otel_turnavoid.loadgen.summary import summary_json, summary_text

    if runs is None and duration_s is None:
        runs = 100
    plan = Plan(
        seed=secrets.randbelow(1 << 32) if seed is None else seed,
        runs=runs,
        **{**settings, "arm": Arm(settings["arm"])},
    )
    if from_now:
        plan = plan._replace(start_ns=time.time_ns())
    pace = Pace(runs_per_s=rate, workers=workers, duration_s=duration_s)
    tally = asyncio.run(_send(plan.checked(), pace, endpoint, protocol, timeout_s))
    if as_json:
        import msgspec

        click.echo(msgspec.json.encode(summary_json(plan, tally)))
    else:
        click.echo(summary_text(plan, tally))
    return 0 if tally.exact else EXIT_NOT_EXACT


async def _send(
    plan: Plan, pace: Pace, endpoint: str | None, protocol: str | None, timeout_s: float
) -> Tally:
    from otel_turnavoid.loadgen import Load, shipments
    from otel_turnavoid.loadgen.environment import senders

    speaking = senders(os.environ, endpoint=endpoint, protocol=protocol, timeout_s=timeout_s)
    load = Load(shipments(plan), speaking, pace)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, load.end)
    try:
        return await load.run()
    finally:
        for sender in speaking.values():
            await sender.close()
