"""Facts: what one span or observation says, reduced to what accounting needs.

A fact is a frozen value, made by a dialect (``otel_turnavoid.dialects``) or by the log reader,
stored once, and never changed. Times are nanoseconds since the Unix epoch as the sender's
clock gave them; ids are lowercase hex. ``None`` always means that the span does not say.
"""

from __future__ import annotations

import msgspec

from otel_turnavoid.vocabulary import (
    Arm,
    Disposition,
    Entry,
    InvokeKind,
    InvokeState,
    Lifecycle,
    Mechanism,
    OverheadKind,
    Purpose,
    Reason,
    Rejection,
    ToolCaller,
    ToolDisposition,
)


class Fault(msgspec.Struct, frozen=True, array_like=True):
    """Something a span says that the contract refuses; the run is kept but never paired."""

    cause: Rejection
    attribute: str
    problem: str
    """For people: what was given and what is wanted."""


class Counts(msgspec.Struct, frozen=True, array_like=True):
    """What an outermost Invoke declares at its end about its whole run."""

    agent_turns: int
    llm_calls: int
    tool_turns: int
    entries: int


class Usage(msgspec.Struct, frozen=True, array_like=True):
    """Tokens of one call or run, with the provider's own meaning; None is unknown, not 0."""

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None


class InvokeDetail(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """An Invoke, or the agent invocation of another instrumentation."""

    kind: InvokeKind | None = None
    state: InvokeState | None = None
    counts: Counts | None = None
    impaired: int | None = None
    """Entries that the instrumentation itself says were not, or not wholly, recorded."""
    digest: str | None = None
    turn_index: int | None = None
    decision_basis: int | None = None
    mechanism: Mechanism | None = None
    lifecycle: Lifecycle | None = None
    reason: Reason | None = None


class CallDetail(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One LlmCall."""

    purpose: Purpose | None = None
    disposition: Disposition | None = None
    attempt: int | None = None
    samplings: int | None = None
    """How often the model was sampled; 0 is a continuation, which adds no turn."""
    input_digest: str | None = None
    model: str | None = None
    """The model that answered, else the one that was asked."""
    response_id: str | None = None
    asks: str | None = None
    """Id of the first tool call that the answer asks for."""
    usage: Usage = Usage()
    resends: int | None = None
    """How often the client sent the request again within this span; None: it does not say."""
    chain: tuple[str, ...] | None = None
    """A hash for each beginning of the input messages; empty: unknown, None: nobody asked."""
    overwritten: bool = False
    """The span shows the last of an unknown number of calls, which all wrote onto it."""


class ToolDetail(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One ToolTurn."""

    name: str | None = None
    call_id: str | None = None
    disposition: ToolDisposition | None = None
    caller: ToolCaller | None = None


class Retained(msgspec.Struct, frozen=True, array_like=True):
    """What the mechanism says a kept turn needed less: attribution, never an avoided turn."""

    tokens: int = 0
    latency_ms: float = 0.0


class Configured(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What the operator's configuration adds to a span that does not say it itself.

    It is kept apart: the same span read under another configuration is the same evidence.
    """

    run_id: str | None = None
    arm: Arm | None = None
    variant: str | None = None
    experiment: str | None = None
    unit: str | None = None
    mechanism: Mechanism | None = None
    lifecycle: Lifecycle | None = None
    reason: Reason | None = None
    purpose: Purpose | None = None
    chain: tuple[str, ...] | None = None
    digest_parts: dict[str, str] = {}
    flags: dict[str, str] = {}
    """Configured feature flags that were evaluated here, and the variant that each gave."""
    faults: tuple[Fault, ...] = ()


class Process(msgspec.Struct, frozen=True, array_like=True):
    """An operating system's process, as far as a resource names one."""

    pid: int
    host_id: str | None = None
    host_name: str | None = None
    container_id: str | None = None
    pod_uid: str | None = None
    created: str | None = None
    """``process.creation.time``: tells processes apart that had one number in turn."""


class SpanFact(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One span that bears on a run."""

    trace_id: str
    span_id: str
    parent_id: str | None = None
    entry: Entry | None = None
    """None: the span only links others to their ancestors, or carries overhead."""
    own: bool = False
    """Emitted by our instrumentation (carries ``turnavoid.entry``); else by somebody else's."""
    dialect: str
    scope: str
    """Instrumentation scope name."""
    service: str | None = None
    instance: str | None = None
    """``service.name`` and ``service.instance.id`` of the resource."""
    start_ns: int
    end_ns: int
    failed: bool = False
    """Status ERROR, or an ``error.type``."""
    sampled: bool = False
    """The trace state shows that other traces of this kind were left out."""
    dropped: int = 0
    """Attributes that the sender's span limits left out."""
    resource_dropped: int = 0
    """Attributes that the sender left out of the resource."""
    process: Process | None = None
    run_id: str | None = None
    seq: int | None = None
    arm: Arm | None = None
    variant: str | None = None
    experiment: str | None = None
    unit: str | None = None
    agent: str | None = None
    """``gen_ai.agent.name``."""
    overhead: OverheadKind | None = None
    cost_usd: float | None = None
    retained: Retained | None = None
    invoke: InvokeDetail | None = None
    turn: Disposition | None = None
    """What became of an AgentTurn."""
    call: CallDetail | None = None
    tool: ToolDetail | None = None
    digest_parts: dict[str, str] = {}
    """Values of the attributes that the configuration names for a digest, as canonical JSON."""
    flags: dict[str, str] = {}
    """Feature flags that name the arm, and the variant that each gave here."""
    faults: tuple[Fault, ...] = ()
    configured: Configured | None = None
    """Not yet part of what stands above; ``resolved`` puts it there."""


class Observation(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What an observer saw of one run in the outside world."""

    run_id: str
    observer: str
    labels: tuple[str, ...]
    """Effect labels as sent, repetitions and order kept."""
    ordered: bool = False
    """The observer states that the effects happened in the order of the labels."""
    observed_ns: int
    service: str | None = None
    instance: str | None = None
    process: Process | None = None
    dropped: int = 0
    """Attributes that the sender's limits left out: the labels may be among them."""
    resource_dropped: int = 0
    """Attributes that the sender left out of the resource."""
    role: str | None = None
    """Role of the credential it came with; None without authentication."""


def resolved(fact: SpanFact) -> SpanFact:
    """Return the fact with what the configuration adds, where the span itself is silent."""
    added = fact.configured
    if added is None:
        return fact
    invoke, call = fact.invoke, fact.call
    if added.mechanism or added.lifecycle or added.reason:
        # Also on a call: a run of others may have no span for its Invoke.
        said = invoke or InvokeDetail()
        invoke = msgspec.structs.replace(
            said,
            mechanism=said.mechanism or added.mechanism,
            lifecycle=said.lifecycle or added.lifecycle,
            reason=said.reason or added.reason,
        )
    if call is not None and call.purpose is None and added.purpose is not None:
        call = msgspec.structs.replace(call, purpose=added.purpose)
    if call is not None and added.chain is not None:
        call = msgspec.structs.replace(call, chain=added.chain)
    return msgspec.structs.replace(
        fact,
        run_id=fact.run_id if fact.run_id is not None else added.run_id,
        arm=fact.arm or added.arm,
        variant=fact.variant or added.variant,
        experiment=fact.experiment or added.experiment,
        unit=fact.unit or added.unit,
        invoke=invoke,
        call=call,
        digest_parts=added.digest_parts,
        flags=added.flags,
        faults=fact.faults + added.faults,
        configured=None,
    )


_encoder = msgspec.json.Encoder(order="deterministic")


def encode(fact: SpanFact | Observation) -> bytes:
    """Return the canonical bytes of a fact: equal facts, and only they, have equal bytes."""
    return _encoder.encode(fact)


def encode_evidence(fact: SpanFact) -> bytes:
    """Return the canonical bytes of what the span itself says, the configuration left out."""
    if fact.configured is None:
        return encode(fact)
    return encode(msgspec.structs.replace(fact, configured=None))


_span_decoder = msgspec.json.Decoder(SpanFact)
_observation_decoder = msgspec.json.Decoder(Observation)


def decode_span(body: bytes | str) -> SpanFact:
    """Read back a span fact that ``encode`` wrote."""
    return _span_decoder.decode(body)


def decode_observation(body: bytes | str) -> Observation:
    """Read back an observation that ``encode`` wrote."""
    return _observation_decoder.decode(body)
