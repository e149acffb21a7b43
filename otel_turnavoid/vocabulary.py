"""Every word the program knows: enumerations, attribute keys, events, metrics, units.

This file imports nothing of ours and decides nothing. A spelling outside a closed
enumeration is rejected where it is read, never coerced; ``unknown`` is a value that
somebody chose. The words are defined in the README section "Words and accounts", which a
test compares with this file.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple, TypeVar


class Word(str, Enum):
    """A closed vocabulary; members are plain strings on the wire."""

    __str__ = str.__str__


WordT = TypeVar("WordT", bound=Word)


def read_word(words: type[WordT], spelling: object) -> WordT | None:
    """Return the member spelled exactly so, or None: case and space are part of a spelling."""
    if not isinstance(spelling, str):
        return None
    return words._value2member_map_.get(spelling)  # type: ignore[return-value]


class Entry(Word):
    """What a span of ours is (``turnavoid.entry``)."""

    INVOKE = "invoke"
    USER_TURN = "user_turn"
    SYSTEM_TURN = "system_turn"
    AGENT_TURN = "agent_turn"
    LLM_CALL = "llm_call"
    TOOL_TURN = "tool_turn"


class InvokeKind(Word):
    """Why the agent went from idle to active (``turnavoid.invoke.kind``)."""

    USER_SEND = "user_send"
    NOTIFY = "notify"
    POD_EVENT = "pod_event"
    SYSTEM_REMINDER = "system_reminder"
    WAKEUP = "wakeup"
    UNKNOWN = "unknown"


class InvokeState(Word):
    """How an Invoke ended (``turnavoid.invoke.state``)."""

    COMPLETED = "completed"
    PAUSED = "paused"
    FAILED = "failed"
    ABORTED = "aborted"


class Disposition(Word):
    """What became of an AgentTurn or an LlmCall."""

    COMMITTED = "committed"
    FAILED = "failed"
    DISCARDED = "discarded"


class Purpose(Word):
    """What an LlmCall was for (``turnavoid.call.purpose``); undeclared means ``agent``."""

    AGENT = "agent"
    VALIDATION = "validation"
    SPECULATION = "speculation"
    COMPACTION = "compaction"
    SIDE = "side"


class ToolDisposition(Word):
    """What became of a ToolTurn (``turnavoid.tool.disposition``)."""

    EXECUTED = "executed"
    REUSED = "reused"
    DENIED = "denied"
    SPECULATED = "speculated"
    DISCARDED = "discarded"


class ToolCaller(Word):
    """Who asked for a tool: the model's answer, or code that the model wrote."""

    MODEL = "model"
    CODE = "code"


class Arm(Word):
    """Which side of the comparison a run stands on (``turnavoid.arm``)."""

    CONTROL = "control"
    EXACT_REUSE = "exact-reuse"
    FUSED_BATCH = "fused-batch"


CANDIDATE_ARMS: Final = (Arm.EXACT_REUSE, Arm.FUSED_BATCH)
"""The arms that can be compared with a control, in the order of the report."""


class Mechanism(Word):
    """What was changed in the candidate (``turnavoid.mechanism``)."""

    CONTROL = "control"
    EXACT_REUSE = "exact-reuse"
    FUSED_BATCH = "fused-batch"
    PROVIDER_CACHE = "provider-cache"
    SEMANTIC_REUSE = "semantic-reuse"
    SPECULATION = "speculation"
    DEPENDENCY_SCHEDULE = "dependency-schedule"
    UNKNOWN = "unknown"


TRACE_V1_MECHANISMS: Final = frozenset(
    {
        Mechanism.CONTROL,
        Mechanism.EXACT_REUSE,
        Mechanism.FUSED_BATCH,
        Mechanism.PROVIDER_CACHE,
        Mechanism.UNKNOWN,
    }
)
"""The mechanisms that ``fak.turnavoid.trace/v1`` can express; the others become ``unknown``."""


class Lifecycle(Word):
    """How far the change got in this run (``turnavoid.lifecycle``); only ``realized`` earns."""

    OPPORTUNITY = "opportunity"
    ATTEMPTED = "attempted"
    REALIZED = "realized"
    INVALIDATED = "invalidated"
    COUNTERFACTUAL_ONLY = "counterfactual_only"
    UNKNOWN = "unknown"


class Reason(Word):
    """Why the candidate differs (``turnavoid.reason``)."""

    BASELINE = "baseline"
    EXACT_MATCH = "exact-match"
    SERIAL_ROUND_TRIP_COLLAPSED = "serial-round-trip-collapsed"
    RETAINED_TURN_CHEAPER = "retained-turn-cheaper"
    REQUIRED_EFFECT_SUPPRESSED = "required-effect-suppressed"
    COUNTERFACTUAL_ONLY = "counterfactual-only"
    VALIDATION_OVERHEAD = "validation-overhead"
    NOT_APPLICABLE = "not-applicable"
    UNKNOWN = "unknown"


class OverheadKind(Word):
    """Work that the change itself costs (``turnavoid.overhead.kind``)."""

    VALIDATION = "validation"
    SPECULATION = "speculation"
    RETRY = "retry"
    RECOVERY = "recovery"


class Evidence(Word):
    """How a run's completeness is known (``turnavoid.evidence``)."""

    DECLARED = "declared"
    INFERRED = "inferred"


class WithheldCause(Word):
    """Why a pair earns nothing, in the order in which causes are listed and shown."""

    LIFECYCLE_NOT_REALIZED = "lifecycle-not-realized"
    RUN_NOT_COMPLETED = "run-not-completed"
    INCOMPLETE_RUN = "incomplete-run"
    COMPLETENESS_UNPROVEN = "completeness-unproven"
    CONFLICTING_EVIDENCE = "conflicting-evidence"
    SAMPLED = "sampled"
    EFFECTS_UNOBSERVED = "effects-unobserved"
    NO_REQUIRED_EFFECTS = "no-required-effects"
    OBSERVER_NOT_INDEPENDENT = "observer-not-independent"
    OBSERVER_MISMATCH = "observer-mismatch"
    EFFECTS_SUPPRESSED = "effects-suppressed"
    EFFECTS_ADDED = "effects-added"
    MODEL_MISMATCH = "model-mismatch"
    INSTRUMENTATION_MISMATCH = "instrumentation-mismatch"


class Rejection(Word):
    """Why a run is kept for inspection and never paired."""

    VOCABULARY = "vocabulary"
    DIGEST = "digest"
    LEAKAGE = "leakage"
    ARM_MISSING = "arm-missing"
    RUN_ID_REUSED = "run-id-reused"


class Comparison(Word):
    """In what two compared runs differ by leave of the configuration (`turnavoid.comparison`)."""

    CROSS_MODEL = "cross-model"
    CROSS_INSTRUMENTATION = "cross-instrumentation"
    CROSS_BOTH = "cross-both"


class Outcome(Word):
    """Where a run stands (``turnavoid runs``)."""

    PAIRED = "paired"
    UNPAIRED = "unpaired"
    INCOMPLETE = "incomplete"
    REJECTED = "rejected"
    UNATTRIBUTED = "unattributed"


class TokenType(Word):
    """Kinds of tokens; the cache figures are parts of ``input``, ``reasoning`` of ``output``."""

    INPUT = "input"
    OUTPUT = "output"
    CACHE_READ = "cache_read"
    CACHE_WRITE = "cache_write"
    REASONING = "reasoning"


class Side(Word):
    """Which side of a comparison some work was done on."""

    CONTROL = "control"
    CANDIDATE = "candidate"


class Component(Word):
    """What did the work."""

    MODEL = "model"
    TOOL = "tool"


class Role(Word):
    """What a credential may do, where the processor asks for one."""

    AGENT = "agent"
    """Send spans and log records, but no effects."""
    OBSERVER = "observer"
    """Send effects, but no spans of agents."""
    READER = "reader"
    """Read LedgerService and metrics."""


class Basis(Word):
    """Whether a saving is stated before or after the overhead."""

    GROSS = "gross"
    NET = "net"


class Account(Word):
    """The accounts; each is an instrumentation scope of its own, so none adds to another."""

    TURNS = "turns"
    RETAINED = "retained"
    TOOLS = "tools"
    SPECULATION = "speculation"
    EFFECTS = "effects"
    WORK = "work"
    NULL = "null"
    TOKENS = "tokens"

    @property
    def scope(self) -> str:
        """The instrumentation scope name, ``otel_turnavoid.turns`` and so on."""
        return f"{SCOPE}.{self.value}"


SCOPE: Final = "otel_turnavoid"
"""Instrumentation scope of the spans that this package emits."""

EVENT_EFFECTS_OBSERVED: Final = "turnavoid.effects.observed"
"""Event (log record) or span in which an observer states the effects of one run."""

VERDICT_SCOPE: Final = "otel_turnavoid.verdicts"
"""Instrumentation scope of the verdicts that a processor shows as spans and log records."""

VERDICT: Final = "turnavoid.verdict"
"""Span in which the processor shows a decided pair, with links to both runs' roots."""

EVENT_VERDICT_DECIDED: Final = "turnavoid.verdict.decided"
"""Event (log record) in which the processor shows the same."""

UNCHANGED: Final = "unchanged"
"""What an effect label says after ``=`` of something that had to stay as it was."""

NAMESPACE: Final = "turnavoid."
"""Prefix of every attribute key of ours."""


class Attr:
    """Attribute keys of ours (design sections 3 and 5)."""

    ENTRY: Final = "turnavoid.entry"
    """What the span is."""
    RUN_ID: Final = "turnavoid.run.id"
    """The run that the entry belongs to; an observation names the run that it looked at."""
    SEQ: Final = "turnavoid.seq"
    """Number of the entry in its run: 0, 1, 2… without a gap, sub-agents included."""
    ARM: Final = "turnavoid.arm"
    """Which side of the comparison the run stands on."""
    VARIANT: Final = "turnavoid.variant"
    """A free name for one of several candidates in one arm."""
    EXPERIMENT_ID: Final = "turnavoid.experiment.id"
    """The experiment; runs of different experiments are never compared."""
    UNIT_ID: Final = "turnavoid.unit.id"
    """Who or what was assigned to an arm, such as a customer; part of the key of a pair."""
    TURN_INDEX: Final = "turnavoid.turn.index"
    """Which input of a conversation this is, from 0; part of the key of a pair."""
    DECISION_BASIS: Final = "turnavoid.decision.basis_through_turn"
    """The last turn index whose result the decision about this run knew; -1 is none."""
    INPUT_DIGEST: Final = "turnavoid.input.digest"
    """Identity of the task input that both arms share: ``sha256:`` and 64 hex digits."""
    MECHANISM: Final = "turnavoid.mechanism"
    """What was changed in the candidate."""
    LIFECYCLE: Final = "turnavoid.lifecycle"
    """How far the change got in this run; only ``realized`` earns."""
    REASON: Final = "turnavoid.reason"
    """Why the candidate differs."""
    INVOKE_KIND: Final = "turnavoid.invoke.kind"
    """Why the agent went from idle to active."""
    INVOKE_STATE: Final = "turnavoid.invoke.state"
    """How the Invoke ended."""
    INVOKE_AGENT_TURNS: Final = "turnavoid.invoke.agent_turns"
    """Declared count: AgentTurns of the run, whatever became of them."""
    INVOKE_LLM_CALLS: Final = "turnavoid.invoke.llm_calls"
    """Declared count: LlmCalls of the run, every attempt of every purpose."""
    INVOKE_TOOL_TURNS: Final = "turnavoid.invoke.tool_turns"
    """Declared count: ToolTurns of the run."""
    INVOKE_ENTRIES: Final = "turnavoid.invoke.entries"
    """Declared count: all entries of the run, the Invoke itself too."""
    INVOKE_IMPAIRED: Final = "turnavoid.invoke.impaired"
    """Declared count: entries that are not wholly recorded; above 0 the run is incomplete."""
    TURN_DISPOSITION: Final = "turnavoid.turn.disposition"
    """What became of the AgentTurn."""
    CALL_ATTEMPT: Final = "turnavoid.call.attempt"
    """Which attempt at its turn the call is, from 1."""
    CALL_INPUT_DIGEST: Final = "turnavoid.call.input_digest"
    """Digest of the call's input messages: the same digest is the same turn."""
    CALL_PURPOSE: Final = "turnavoid.call.purpose"
    """What the call was for; ``agent`` where it is left out."""
    CALL_DISPOSITION: Final = "turnavoid.call.disposition"
    """What became of the call."""
    CALL_SAMPLINGS: Final = "turnavoid.call.samplings"
    """How often the model was sampled in the call; 0 is a continuation, and no turn."""
    TOOL_DISPOSITION: Final = "turnavoid.tool.disposition"
    """What became of the tool execution."""
    TOOL_CALLER: Final = "turnavoid.tool.caller"
    """Who asked for the tool."""
    OVERHEAD_KIND: Final = "turnavoid.overhead.kind"
    """The span is work that the change itself costs."""
    COST_USD: Final = "turnavoid.cost.usd"
    """What the span's work cost, in US dollars."""
    RETAINED_TOKENS_REDUCED: Final = "turnavoid.retained.tokens_reduced"
    """Tokens that a kept turn needed less, as the mechanism attributes them."""
    RETAINED_LATENCY_REDUCED_MS: Final = "turnavoid.retained.latency_reduced_ms"
    """Milliseconds that a kept turn took less, as the mechanism attributes them."""
    OBSERVER_ID: Final = "turnavoid.observer.id"
    """Who looked, and by which rules; the same for both runs of a pair."""
    EFFECTS_LABELS: Final = "turnavoid.effects.labels"
    """What the observer saw, such as ``order:42=cancelled``; an effect seen twice stands twice."""
    EFFECTS_ORDERED: Final = "turnavoid.effects.ordered"
    """Whether the order of the labels counts; false where it is left out."""

    # Only on what this package publishes.
    EVIDENCE: Final = "turnavoid.evidence"
    """How the run's completeness is known."""
    WITHHELD_CAUSE: Final = "turnavoid.withheld.cause"
    """The first cause for which turns were withheld."""
    COMPARISON: Final = "turnavoid.comparison"
    """In what the two runs differ by leave of the configuration; left out where in nothing."""
    OUTCOME: Final = "turnavoid.outcome"
    """Where the run stands, or what became of a speculative call."""
    SIDE: Final = "turnavoid.side"
    """Which side of a comparison the work was done on, or a verdict's link leads to."""
    COMPONENT: Final = "turnavoid.component"
    """What did the work."""
    BASIS: Final = "turnavoid.basis"
    """Whether a saving is stated before or after the overhead."""
    TOKEN_TYPE: Final = "turnavoid.token.type"
    """Kind of tokens."""


class VerdictAttr:
    """Attribute keys of a verdict, beside those in ``Attr`` that a run or series carries too."""

    DECISION: Final = "turnavoid.verdict.decision"
    """Its number in the ledger's journal: what ``turnavoid explain`` takes."""
    POTENTIAL: Final = "turnavoid.verdict.potential"
    """Turns that disappeared: avoided and withheld together."""
    AVOIDED: Final = "turnavoid.verdict.avoided"
    """Turns that the candidate did without, and is credited with."""
    WITHHELD: Final = "turnavoid.verdict.withheld"
    """Turns that disappeared and earn nothing."""
    ADDED: Final = "turnavoid.verdict.added"
    """Turns that the candidate needed beyond its control."""
    CAUSES: Final = "turnavoid.verdict.causes"
    """Every cause to withhold, in the order of the vocabulary; empty where there is none."""
    EFFECTS_PRESERVED: Final = "turnavoid.verdict.effects.preserved"
    """Required effects of the control that the candidate caused too."""
    EFFECTS_SUPPRESSED: Final = "turnavoid.verdict.effects.suppressed"
    """Required effects of the control that the candidate lacks."""
    CONTROL_RUN: Final = "turnavoid.verdict.control.run_id"
    """The control's run id."""
    CONTROL_TRACE: Final = "turnavoid.verdict.control.trace_id"
    """The trace to open first for the control."""
    CONTROL_TURNS: Final = "turnavoid.verdict.control.turns"
    """Committed model turns of the control."""
    CONTROL_EFFECTS: Final = "turnavoid.verdict.control.effects"
    """What the observer saw after the control."""
    CANDIDATE_RUN: Final = "turnavoid.verdict.candidate.run_id"
    """The candidate's run id."""
    CANDIDATE_TRACE: Final = "turnavoid.verdict.candidate.trace_id"
    """The trace to open first for the candidate."""
    CANDIDATE_TURNS: Final = "turnavoid.verdict.candidate.turns"
    """Committed model turns of the candidate."""
    CANDIDATE_EFFECTS: Final = "turnavoid.verdict.candidate.effects"
    """What the observer saw after the candidate."""


class GenAI:
    """Keys of the OpenTelemetry GenAI conventions, newest spelling first (v0.1.0, 2026-10)."""

    OPERATION_NAME: Final = "gen_ai.operation.name"
    PROVIDER_NAME: Final = "gen_ai.provider.name"
    SYSTEM: Final = "gen_ai.system"
    AGENT_NAME: Final = "gen_ai.agent.name"
    CONVERSATION_ID: Final = "gen_ai.conversation.id"
    REQUEST_MODEL: Final = "gen_ai.request.model"
    RESPONSE_MODEL: Final = "gen_ai.response.model"
    RESPONSE_ID: Final = "gen_ai.response.id"
    RESPONSE_FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
    TOOL_NAME: Final = "gen_ai.tool.name"
    TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
    TOOL_CALL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
    TOOL_CALL_RESULT: Final = "gen_ai.tool.call.result"
    INPUT_MESSAGES: Final = "gen_ai.input.messages"
    OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
    USAGE_INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
    USAGE_OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
    USAGE_CACHE_READ: Final = "gen_ai.usage.cache_read.input_tokens"
    USAGE_CACHE_WRITE: Final = "gen_ai.usage.cache_write.input_tokens"
    USAGE_REASONING: Final = "gen_ai.usage.reasoning.output_tokens"


USAGE_SPELLINGS: Final = {
    TokenType.INPUT: (GenAI.USAGE_INPUT_TOKENS, "gen_ai.usage.prompt_tokens"),
    TokenType.OUTPUT: (GenAI.USAGE_OUTPUT_TOKENS, "gen_ai.usage.completion_tokens"),
    TokenType.CACHE_READ: (GenAI.USAGE_CACHE_READ, "gen_ai.usage.cache_read_input_tokens"),
    TokenType.CACHE_WRITE: (
        GenAI.USAGE_CACHE_WRITE,
        "gen_ai.usage.cache_creation.input_tokens",
        "gen_ai.usage.cache_creation_input_tokens",
    ),
    TokenType.REASONING: (GenAI.USAGE_REASONING, "gen_ai.usage.reasoning_tokens"),
}
"""Usage keys in the order in which they are believed: the newest convention first."""

SERVICE_NAME: Final = "service.name"
"""The program that sent something (on the resource)."""
SERVICE_INSTANCE_ID: Final = "service.instance.id"
"""The process that sent something (on the resource)."""
ERROR_TYPE: Final = "error.type"


class Env:
    """Environment variables of ours."""

    LEDGER: Final = "TURNAVOID_LEDGER"
    """Database URL of the ledger, for every command and ``TurnAvoidanceExporter``."""
    ARM: Final = "TURNAVOID_ARM"
    """``turnavoid.arm`` of every run that the process starts."""
    VARIANT: Final = "TURNAVOID_VARIANT"
    """``turnavoid.variant`` of every run that the process starts."""
    EXPERIMENT: Final = "TURNAVOID_EXPERIMENT"
    """``turnavoid.experiment.id`` of every run that the process starts."""
    UNIT: Final = "TURNAVOID_UNIT"
    """``turnavoid.unit.id`` of every run that the process starts."""
    MECHANISM: Final = "TURNAVOID_MECHANISM"
    """``turnavoid.mechanism`` of every run that the process starts."""
    LIFECYCLE: Final = "TURNAVOID_LIFECYCLE"
    """``turnavoid.lifecycle`` of every run that the process starts."""
    REASON: Final = "TURNAVOID_REASON"
    """``turnavoid.reason`` of every run that the process starts."""
    MODE: Final = "TURNAVOID_MODE"
    """``development``: bad use raises; else it is logged once and counted."""
    PRICES: Final = "TURNAVOID_PRICES"
    """``true``: price every call that has usage and no stated cost (extra ``prices``)."""
    CONFIG: Final = "TURNAVOID_CONFIG"
    """Configuration file of ``TurnAvoidanceExporter``; its ``processors.turnavoid`` counts."""
    METRICS: Final = "TURNAVOID_METRICS"
    """``otlp``: ``TurnAvoidanceExporter`` pushes the accounts; ``none``, the default, does not."""
    OBSERVE_URL: Final = "TURNAVOID_OBSERVE_URL"
    """Database URL for ``turnavoid observe sql``, where it holds a password."""
    DEBUG: Final = "TURNAVOID_DEBUG"
    """``1``: a command that ends with a bug (exit code 70) shows where."""
    CONTENT: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
    """OpenTelemetry's: where message content goes; nowhere by default."""


class Kind(Word):
    """How an instrument behaves over time."""

    COUNTER = "counter"
    """Only grows."""
    UP_DOWN = "up_down"
    """Can fall."""
    HISTOGRAM = "histogram"


class Instrument(NamedTuple):
    """One published instrument (design section 5)."""

    name: str
    account: Account
    kind: Kind
    unit: str
    """UCUM, or an annotation in braces."""
    labels: tuple[str, ...]
    """Attribute keys it may carry, all with closed value sets but ``turnavoid.variant``.

    ``CONFIGURED_LABELS`` come on top where they are configured.
    """
    description: str
    bounds: tuple[float, ...] = ()
    """Upper bucket bounds of a histogram."""


CONFIGURED_LABELS: Final = (GenAI.AGENT_NAME, Attr.EXPERIMENT_ID)
"""Labels that every instrument carries where the configuration asks for them: free names."""

_ARMED: Final = (Attr.ARM, Attr.VARIANT, Attr.EVIDENCE)
_PAIRED: Final = (*_ARMED, Attr.COMPARISON)
_BATCH: Final = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0)


class Metric:
    """The published instruments, by account."""

    TURNS_COMMITTED: Final = Instrument(
        "turnavoid.model_turns.committed",
        Account.TURNS,
        Kind.COUNTER,
        "{turn}",
        _ARMED,
        "Committed model turns of runs that stand in a decided pair, each run once.",
    )
    TURNS_AVOIDED: Final = Instrument(
        "turnavoid.model_turns.avoided",
        Account.TURNS,
        Kind.COUNTER,
        "{turn}",
        (*_PAIRED, Attr.MECHANISM),
        "Model turns that a candidate did without, proven and with equal observed effects.",
    )
    TURNS_WITHHELD: Final = Instrument(
        "turnavoid.model_turns.withheld",
        Account.TURNS,
        Kind.COUNTER,
        "{turn}",
        (*_PAIRED, Attr.WITHHELD_CAUSE),
        "Model turns a candidate did without that earn nothing, by the first cause.",
    )
    TURNS_ADDED: Final = Instrument(
        "turnavoid.model_turns.added",
        Account.TURNS,
        Kind.COUNTER,
        "{turn}",
        _PAIRED,
        "Model turns that a candidate needed beyond its control.",
    )
    PAIRS_DECIDED: Final = Instrument(
        "turnavoid.pairs.decided",
        Account.TURNS,
        Kind.COUNTER,
        "{pair}",
        (*_PAIRED, Attr.LIFECYCLE),
        "Pairs of a control and a candidate run with a final verdict.",
    )
    RUNS_OBSERVED: Final = Instrument(
        "turnavoid.runs.observed",
        Account.TURNS,
        Kind.COUNTER,
        "{run}",
        (Attr.OUTCOME, Attr.EVIDENCE),
        "Runs by their final outcome.",
    )
    VERDICTS_CONTRADICTED: Final = Instrument(
        "turnavoid.verdicts.contradicted",
        Account.TURNS,
        Kind.COUNTER,
        "{verdict}",
        _PAIRED,
        "Final verdicts that evidence arriving later speaks against; they stay as they are.",
    )
    RETAINED_CHEAPER: Final = Instrument(
        "turnavoid.retained_turns.cheaper",
        Account.RETAINED,
        Kind.COUNTER,
        "{turn}",
        _PAIRED,
        "Pairs whose candidate kept a turn and made it cheaper; never an avoided turn.",
    )
    RETAINED_TOKENS: Final = Instrument(
        "turnavoid.retained_turns.tokens_reduced",
        Account.RETAINED,
        Kind.COUNTER,
        "{token}",
        _PAIRED,
        "Tokens that kept turns needed less, as the mechanism attributed them.",
    )
    RETAINED_LATENCY: Final = Instrument(
        "turnavoid.retained_turns.latency_reduced",
        Account.RETAINED,
        Kind.COUNTER,
        "s",
        _PAIRED,
        "Time that kept turns took less, as the mechanism attributed it.",
    )
    TOOLS_EXECUTED: Final = Instrument(
        "turnavoid.tool_calls.executed",
        Account.TOOLS,
        Kind.COUNTER,
        "{call}",
        _ARMED,
        "Tool executions of runs that stand in a decided pair, each run once.",
    )
    TOOLS_AVOIDED: Final = Instrument(
        "turnavoid.tool_calls.avoided",
        Account.TOOLS,
        Kind.COUNTER,
        "{call}",
        _PAIRED,
        "Tool executions a candidate did without, where the pair has no withheld cause.",
    )
    TOOL_BATCH_SIZE: Final = Instrument(
        "turnavoid.tool_batch.size",
        Account.TOOLS,
        Kind.HISTOGRAM,
        "{call}",
        _ARMED,
        "Tool executions between one model turn and the next.",
        _BATCH,
    )
    TOOL_BATCH_DEPTH: Final = Instrument(
        "turnavoid.tool_batch.depth",
        Account.TOOLS,
        Kind.HISTOGRAM,
        "{call}",
        _ARMED,
        "Longest chain of executions in a tool batch that ran one after the other.",
        _BATCH,
    )
    SPECULATION_CALLS: Final = Instrument(
        "turnavoid.speculation.calls",
        Account.SPECULATION,
        Kind.COUNTER,
        "{call}",
        (*_ARMED, Attr.OUTCOME),
        "Speculative model calls and tool executions, by what became of them.",
    )
    EFFECTS_PRESERVED: Final = Instrument(
        "turnavoid.effects.preserved",
        Account.EFFECTS,
        Kind.COUNTER,
        "{effect}",
        _PAIRED,
        "Required effects of the control that the observer saw in the candidate too.",
    )
    EFFECTS_SUPPRESSED: Final = Instrument(
        "turnavoid.effects.suppressed",
        Account.EFFECTS,
        Kind.COUNTER,
        "{effect}",
        _PAIRED,
        "Required effects of the control that the observer did not see in the candidate.",
    )
    WORK_DURATION: Final = Instrument(
        "turnavoid.work.duration",
        Account.WORK,
        Kind.COUNTER,
        "s",
        (*_ARMED, Attr.SIDE, Attr.COMPONENT),
        "Time of model calls and tools before overhead, each run once.",
    )
    WORK_COST: Final = Instrument(
        "turnavoid.work.cost",
        Account.WORK,
        Kind.COUNTER,
        "{USD}",
        (*_ARMED, Attr.SIDE, Attr.COMPONENT),
        "Stated cost of model calls and tools before overhead, each run once.",
    )
    OVERHEAD_DURATION: Final = Instrument(
        "turnavoid.overhead.duration",
        Account.WORK,
        Kind.COUNTER,
        "s",
        (*_ARMED, Attr.SIDE, Attr.OVERHEAD_KIND),
        "Time of validation, speculation, retries and recovery, each run once.",
    )
    OVERHEAD_COST: Final = Instrument(
        "turnavoid.overhead.cost",
        Account.WORK,
        Kind.COUNTER,
        "{USD}",
        (*_ARMED, Attr.SIDE, Attr.OVERHEAD_KIND),
        "Stated cost of validation, speculation, retries and recovery, each run once.",
    )
    SAVED_DURATION: Final = Instrument(
        "turnavoid.saved.duration",
        Account.WORK,
        Kind.UP_DOWN,
        "s",
        (*_PAIRED, Attr.BASIS),
        "Control time less candidate time over decided pairs; net also less the overhead.",
    )
    SAVED_COST: Final = Instrument(
        "turnavoid.saved.cost",
        Account.WORK,
        Kind.UP_DOWN,
        "{USD}",
        (*_PAIRED, Attr.BASIS),
        "Control cost less candidate cost over decided pairs; net also less the overhead.",
    )
    NULL_AVOIDED: Final = Instrument(
        "turnavoid.null.avoided",
        Account.NULL,
        Kind.COUNTER,
        "{turn}",
        (Attr.EVIDENCE, Attr.COMPARISON),
        "Turns 'avoided' between two equal control runs: chance, not a saving.",
    )
    NULL_ADDED: Final = Instrument(
        "turnavoid.null.added",
        Account.NULL,
        Kind.COUNTER,
        "{turn}",
        (Attr.EVIDENCE, Attr.COMPARISON),
        "Turns 'added' between two equal control runs: chance, not a loss.",
    )
    NULL_PAIRS: Final = Instrument(
        "turnavoid.null.pairs",
        Account.NULL,
        Kind.COUNTER,
        "{pair}",
        (Attr.EVIDENCE, Attr.COMPARISON),
        "Pairs of control runs of one input, first with second by start.",
    )
    TOKENS_USED: Final = Instrument(
        "turnavoid.tokens.used",
        Account.TOKENS,
        Kind.COUNTER,
        "{token}",
        (*_ARMED, Attr.SIDE, Attr.TOKEN_TYPE),
        "Tokens as the provider counted them, each run once; parts are not added to totals.",
    )


INSTRUMENTS: Final = tuple(
    value for value in vars(Metric).values() if isinstance(value, Instrument)
)
"""All instruments, in the order of the accounts."""
