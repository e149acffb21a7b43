"""What the demo plays, and what must come out of it.

A customer desk gets six requests. The agent as it was (``control``) serves each one; changed
agents serve the same requests again, each run on its own copy of the shop. ``EXPECTED`` is
written by hand from the scripts below, so that the demo can prove itself: ``turnavoid demo``
fails if the ledger says anything else.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from otel_turnavoid.vocabulary import (
    Arm,
    Instrument,
    Lifecycle,
    Mechanism,
    Metric,
    OverheadKind,
    Reason,
    WithheldCause,
)

EXPERIMENT: Final = "customer-desk"
MODEL: Final = "scripted-large"
VALIDATOR: Final = "scripted-small"


class Task(NamedTuple):
    """One input: what the customer wants; its digest pairs the runs."""

    name: str
    request: str
    orders: tuple[int, ...]


class Use(NamedTuple):
    """One ToolTurn."""

    tool: str
    arguments: dict[str, Any]
    reused: bool = False
    """The stored result of an earlier run is taken; the tool is not executed."""


class Step(NamedTuple):
    """One AgentTurn, and the tools that its answer asks for (together: at the same time)."""

    says: str
    uses: tuple[Use, ...] = ()
    tokens: tuple[int, int] = (900, 60)
    """Input and output."""
    cache_read: int = 0
    failed_attempts: int = 0
    """LlmCalls that a 503 ended before one was answered: the same turn."""
    discarded: bool = False
    """Generated ahead of time and thrown away: not a committed turn."""
    subagent: tuple[Step, ...] = ()
    """Turns of another agent that this turn hands over to."""


class Play(NamedTuple):
    """One run."""

    run_id: str
    task: Task
    arm: Arm
    steps: tuple[Step, ...]
    mechanism: Mechanism = Mechanism.CONTROL
    lifecycle: Lifecycle = Lifecycle.REALIZED
    reason: Reason = Reason.BASELINE
    validated: bool = False
    """A smaller model first checks that the stored plan still fits."""
    retained: tuple[int, float] | None = None
    """Tokens and milliseconds that kept turns needed less, as the mechanism knows."""


class Verdict(NamedTuple):
    """What must be decided about a candidate and the control of its input."""

    control_turns: int
    candidate_turns: int
    avoided: int
    withheld: int
    added: int
    cause: WithheldCause | None
    because: str
    """The same in words, for people."""


class Figure(NamedTuple):
    """What an account must hold for an arm, all series together."""

    instrument: Instrument
    arm: Arm
    value: int


REFUND: Final = Task("refund", "My kettle arrived broken, I want my money back.", (1001,))
CANCEL: Final = Task("cancel", "Please cancel my three open orders.", (1002, 1003, 1004))
READDRESS: Final = Task("readdress", "I have moved, send the lamp to Pine Row 4.", (1005,))
EXCHANGE: Final = Task("exchange", "The jacket is too small, I need an L.", (1006,))
DELAY: Final = Task("delay", "Where is my radio? Please write to me.", (1007,))
COMPLAINT: Final = Task("complaint", "The mirror is scratched. What can you do?", (1008,))
TASKS: Final = (REFUND, CANCEL, READDRESS, EXCHANGE, DELAY, COMPLAINT)


def _look_up(order: int, *, reused: bool = False) -> Use:
    return Use("look_up", {"order": order}, reused)


def _mail(order: int, subject: str) -> Use:
    return Use("mail", {"order": order, "subject": subject})


_REFUND = Use("refund", {"order": 1001, "amount": 40})
_CANCELS = tuple(Use("cancel", {"order": order}) for order in CANCEL.orders)
_READDRESS = Use("readdress", {"order": 1005, "address": "Pine Row 4"})
_EXCHANGE = Use("exchange", {"order": 1006, "size": "L"})
_PART_REFUND = Use("refund", {"order": 1008, "amount": 15})

CONTROLS: Final = (
    Play(
        "refund-control",
        REFUND,
        Arm.CONTROL,
        (
            Step("I look up the order.", (_look_up(1001),)),
            Step("It was delivered; a refund is due.", (_REFUND,)),
            Step("I tell the customer.", (_mail(1001, "refund"),)),
            Step("Your money is on its way."),
        ),
    ),
    Play(  # the same agent again: how far apart are equal runs by chance?
        "refund-control-again",
        REFUND,
        Arm.CONTROL,
        (
            Step("I look up the order.", (_look_up(1001),)),
            Step("I look again to be sure.", (_look_up(1001),)),
            Step("It was delivered; a refund is due.", (_REFUND,)),
            Step("I tell the customer.", (_mail(1001, "refund"),)),
            Step("Your money is on its way."),
        ),
    ),
    Play(
        "cancel-control",
        CANCEL,
        Arm.CONTROL,
        (
            *(Step("I cancel the next order.", (use,)) for use in _CANCELS),
            Step("I confirm.", (_mail(1002, "cancelled"),)),
            Step("All three are cancelled."),
        ),
    ),
    Play(
        "readdress-control",
        READDRESS,
        Arm.CONTROL,
        (
            Step("I look up the order.", (_look_up(1005),)),
            Step("It is still here; I change the address.", (_READDRESS,)),
            Step("I confirm.", (_mail(1005, "new address"),)),
            Step("It goes to Pine Row 4."),
        ),
    ),
    Play(
        "exchange-control",
        EXCHANGE,
        Arm.CONTROL,
        (
            Step("I look up the order.", (_look_up(1006),)),
            Step("I exchange it.", (_EXCHANGE,)),
            Step("An L is on its way."),
        ),
    ),
    Play(
        "delay-control",
        DELAY,
        Arm.CONTROL,
        (
            Step("I look up the order.", (_look_up(1007),)),
            Step("I write to the customer.", (_mail(1007, "delay"),)),
            Step("You have mail."),
        ),
    ),
    Play(
        "complaint-control",
        COMPLAINT,
        Arm.CONTROL,
        (
            Step("I look up the order.", (_look_up(1008),)),
            Step("I offer part of the price.", (_PART_REFUND,)),
            Step("I confirm.", (_mail(1008, "part refund"),)),
            Step("You get 15 back."),
        ),
    ),
)

CANDIDATES: Final = (
    Play(
        "refund-reuse",
        REFUND,
        Arm.EXACT_REUSE,
        (
            Step(
                "The stored plan: refund and mail.",
                (_look_up(1001, reused=True), _REFUND, _mail(1001, "refund")),
                cache_read=600,
            ),
            Step("Your money is on its way."),
        ),
        Mechanism.EXACT_REUSE,
        reason=Reason.EXACT_MATCH,
        validated=True,
    ),
    Play(
        "cancel-batch",
        CANCEL,
        Arm.FUSED_BATCH,
        (
            Step("I cancel all three at once.", _CANCELS, failed_attempts=1),
            Step("I confirm.", (_mail(1002, "cancelled"),)),
            Step("All three are cancelled."),
        ),
        Mechanism.FUSED_BATCH,
        reason=Reason.SERIAL_ROUND_TRIP_COLLAPSED,
    ),
    Play(  # it cheats: the customer is told of a mail that nobody sent
        "readdress-reuse",
        READDRESS,
        Arm.EXACT_REUSE,
        (
            Step("The stored plan: change the address.", (_READDRESS,)),
            Step("It goes to Pine Row 4, and I have mailed you."),
        ),
        Mechanism.EXACT_REUSE,
        reason=Reason.EXACT_MATCH,
    ),
    Play(  # it hands over to a sub-agent, whose turns count like all others
        "exchange-batch",
        EXCHANGE,
        Arm.FUSED_BATCH,
        (
            Step(
                "I let the warehouse agent do this.",
                subagent=(
                    Step("I look up the order.", (_look_up(1006),)),
                    Step("I exchange it.", (_EXCHANGE,)),
                    Step("Done."),
                ),
            ),
            Step("An L is on its way."),
        ),
        Mechanism.FUSED_BATCH,
        reason=Reason.SERIAL_ROUND_TRIP_COLLAPSED,
    ),
    Play(
        "delay-reuse",
        DELAY,
        Arm.EXACT_REUSE,
        (
            Step("I know the order.", (_look_up(1007, reused=True),), (400, 20), 300),
            Step("I write to the customer.", (_mail(1007, "delay"),), (600, 60)),
            Step("You have mail."),
        ),
        Mechanism.EXACT_REUSE,
        reason=Reason.RETAINED_TURN_CHEAPER,
        retained=(840, 12.0),
    ),
    Play(
        "complaint-batch",
        COMPLAINT,
        Arm.FUSED_BATCH,
        (
            Step("If it is scratched, a refund will do.", discarded=True, tokens=(900, 30)),
            Step("I look up the order.", (_look_up(1008),)),
            Step("I refund and confirm.", (_PART_REFUND, _mail(1008, "part refund"))),
            Step("You get 15 back."),
        ),
        Mechanism.FUSED_BATCH,
        reason=Reason.SERIAL_ROUND_TRIP_COLLAPSED,
    ),
    Play(  # the change was tried and given up; that the run was short is not its merit
        "complaint-reuse",
        COMPLAINT,
        Arm.EXACT_REUSE,
        (
            Step("No stored plan fits. I look up the order.", (_look_up(1008),)),
            Step("I refund and confirm.", (_PART_REFUND, _mail(1008, "part refund"))),
            Step("You get 15 back."),
        ),
        Mechanism.EXACT_REUSE,
        Lifecycle.ATTEMPTED,
        Reason.NOT_APPLICABLE,
    ),
)

PLAYS: Final = {play.run_id: play for play in (*CONTROLS, *CANDIDATES)}

EXPECTED: Final = {
    ("refund-control", "refund-reuse"): Verdict(
        4, 2, 2, 0, 0, None, "a stored plan replaced two turns; the shop changed the same way"
    ),
    ("cancel-control", "cancel-batch"): Verdict(
        5, 3, 2, 0, 0, None, "three cancellations in one turn; a retry is not a turn"
    ),
    ("readdress-control", "readdress-reuse"): Verdict(
        *(4, 2, 0, 2, 0, WithheldCause.EFFECTS_SUPPRESSED),
        "the observer never saw the mail that the agent says it sent",
    ),
    ("exchange-control", "exchange-batch"): Verdict(
        3, 5, 0, 0, 2, None, "turns moved into a sub-agent are still turns"
    ),
    ("delay-control", "delay-reuse"): Verdict(
        3, 3, 0, 0, 0, None, "cheaper turns are not fewer turns"
    ),
    ("complaint-control", "complaint-batch"): Verdict(
        4, 3, 1, 0, 0, None, "fewer turns; the speculative turn was thrown away, its work is not"
    ),
    ("complaint-control", "complaint-reuse"): Verdict(
        *(4, 3, 0, 1, 0, WithheldCause.LIFECYCLE_NOT_REALIZED),
        "the change was attempted and given up, so it earned nothing",
    ),
}
"""(control run, candidate run) -> verdict."""

EXPECTED_NULL: Final = {("refund-control", "refund-control-again"): (0, 1)}
"""(first control, second control) -> turns avoided and added between equal runs."""

EXPECTED_FIGURES: Final = (
    Figure(Metric.TURNS_COMMITTED, Arm.CONTROL, 23),
    Figure(Metric.TURNS_COMMITTED, Arm.EXACT_REUSE, 10),
    Figure(Metric.TURNS_COMMITTED, Arm.FUSED_BATCH, 11),
    Figure(Metric.RETAINED_CHEAPER, Arm.EXACT_REUSE, 1),
    Figure(Metric.RETAINED_TOKENS, Arm.EXACT_REUSE, 840),
    Figure(Metric.TOOLS_EXECUTED, Arm.CONTROL, 17),
    Figure(Metric.TOOLS_EXECUTED, Arm.EXACT_REUSE, 7),
    Figure(Metric.TOOLS_EXECUTED, Arm.FUSED_BATCH, 9),
    Figure(Metric.TOOLS_AVOIDED, Arm.EXACT_REUSE, 2),
    Figure(Metric.TOOLS_AVOIDED, Arm.FUSED_BATCH, 0),
    Figure(Metric.SPECULATION_CALLS, Arm.FUSED_BATCH, 1),
    Figure(Metric.EFFECTS_PRESERVED, Arm.EXACT_REUSE, 6),
    Figure(Metric.EFFECTS_PRESERVED, Arm.FUSED_BATCH, 8),
    Figure(Metric.EFFECTS_SUPPRESSED, Arm.EXACT_REUSE, 1),
    Figure(Metric.EFFECTS_SUPPRESSED, Arm.FUSED_BATCH, 0),
)
"""What the accounts must hold; times differ from run to run and are not among them."""

EXPECTED_OVERHEAD: Final = (
    (Arm.EXACT_REUSE, OverheadKind.VALIDATION),
    (Arm.FUSED_BATCH, OverheadKind.SPECULATION),
    (Arm.FUSED_BATCH, OverheadKind.RETRY),
)
"""Where there must be some overhead; everywhere else there must be none."""
