from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ExplainRequest(_message.Message):
    __slots__ = ("ids",)
    IDS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, ids: _Optional[_Iterable[str]] = ...) -> None: ...

class Explanation(_message.Message):
    __slots__ = ("text", "json")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    JSON_FIELD_NUMBER: _ClassVar[int]
    text: str
    json: str
    def __init__(self, text: _Optional[str] = ..., json: _Optional[str] = ...) -> None: ...

class GetReportRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListRunsRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListRunsResponse(_message.Message):
    __slots__ = ("runs", "next_page_token")
    RUNS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    runs: _containers.RepeatedCompositeFieldContainer[Run]
    next_page_token: str
    def __init__(self, runs: _Optional[_Iterable[_Union[Run, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ListPairsRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListPairsResponse(_message.Message):
    __slots__ = ("pairs", "next_page_token")
    PAIRS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    pairs: _containers.RepeatedCompositeFieldContainer[Pair]
    next_page_token: str
    def __init__(self, pairs: _Optional[_Iterable[_Union[Pair, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class StreamVerdictsRequest(_message.Message):
    __slots__ = ("after_id",)
    AFTER_ID_FIELD_NUMBER: _ClassVar[int]
    after_id: int
    def __init__(self, after_id: _Optional[int] = ...) -> None: ...

class Verdict(_message.Message):
    __slots__ = ("id", "pair")
    ID_FIELD_NUMBER: _ClassVar[int]
    PAIR_FIELD_NUMBER: _ClassVar[int]
    id: int
    pair: Pair
    def __init__(self, id: _Optional[int] = ..., pair: _Optional[_Union[Pair, _Mapping]] = ...) -> None: ...

class Run(_message.Message):
    __slots__ = ("run_id", "arm", "variant", "evidence", "outcome", "model_turns", "llm_calls", "tool_calls", "tokens", "causes")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    ARM_FIELD_NUMBER: _ClassVar[int]
    VARIANT_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    MODEL_TURNS_FIELD_NUMBER: _ClassVar[int]
    LLM_CALLS_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALLS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    CAUSES_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    arm: str
    variant: str
    evidence: str
    outcome: str
    model_turns: int
    llm_calls: int
    tool_calls: int
    tokens: Tokens
    causes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, run_id: _Optional[str] = ..., arm: _Optional[str] = ..., variant: _Optional[str] = ..., evidence: _Optional[str] = ..., outcome: _Optional[str] = ..., model_turns: _Optional[int] = ..., llm_calls: _Optional[int] = ..., tool_calls: _Optional[int] = ..., tokens: _Optional[_Union[Tokens, _Mapping]] = ..., causes: _Optional[_Iterable[str]] = ...) -> None: ...

class Tokens(_message.Message):
    __slots__ = ("input", "output", "cache_read", "cache_write", "reasoning")
    INPUT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    CACHE_READ_FIELD_NUMBER: _ClassVar[int]
    CACHE_WRITE_FIELD_NUMBER: _ClassVar[int]
    REASONING_FIELD_NUMBER: _ClassVar[int]
    input: int
    output: int
    cache_read: int
    cache_write: int
    reasoning: int
    def __init__(self, input: _Optional[int] = ..., output: _Optional[int] = ..., cache_read: _Optional[int] = ..., cache_write: _Optional[int] = ..., reasoning: _Optional[int] = ...) -> None: ...

class Pair(_message.Message):
    __slots__ = ("control", "candidate", "arm", "variant", "mechanism", "lifecycle", "reason", "evidence", "control_turns", "candidate_turns", "potential", "avoided", "withheld", "added", "causes")
    CONTROL_FIELD_NUMBER: _ClassVar[int]
    CANDIDATE_FIELD_NUMBER: _ClassVar[int]
    ARM_FIELD_NUMBER: _ClassVar[int]
    VARIANT_FIELD_NUMBER: _ClassVar[int]
    MECHANISM_FIELD_NUMBER: _ClassVar[int]
    LIFECYCLE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    CONTROL_TURNS_FIELD_NUMBER: _ClassVar[int]
    CANDIDATE_TURNS_FIELD_NUMBER: _ClassVar[int]
    POTENTIAL_FIELD_NUMBER: _ClassVar[int]
    AVOIDED_FIELD_NUMBER: _ClassVar[int]
    WITHHELD_FIELD_NUMBER: _ClassVar[int]
    ADDED_FIELD_NUMBER: _ClassVar[int]
    CAUSES_FIELD_NUMBER: _ClassVar[int]
    control: str
    candidate: str
    arm: str
    variant: str
    mechanism: str
    lifecycle: str
    reason: str
    evidence: str
    control_turns: int
    candidate_turns: int
    potential: int
    avoided: int
    withheld: int
    added: int
    causes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, control: _Optional[str] = ..., candidate: _Optional[str] = ..., arm: _Optional[str] = ..., variant: _Optional[str] = ..., mechanism: _Optional[str] = ..., lifecycle: _Optional[str] = ..., reason: _Optional[str] = ..., evidence: _Optional[str] = ..., control_turns: _Optional[int] = ..., candidate_turns: _Optional[int] = ..., potential: _Optional[int] = ..., avoided: _Optional[int] = ..., withheld: _Optional[int] = ..., added: _Optional[int] = ..., causes: _Optional[_Iterable[str]] = ...) -> None: ...

class Row(_message.Message):
    __slots__ = ("schema_version", "trace_id", "unit_id", "turn_index", "decision_basis_through_turn", "input_digest", "arm", "mechanism", "lifecycle", "reason", "control_committed_model_turns", "candidate_committed_model_turns", "required_effect_observation", "control_gross", "candidate_gross", "overhead", "retained_turn_reduction")
    SCHEMA_VERSION_FIELD_NUMBER: _ClassVar[int]
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    UNIT_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_INDEX_FIELD_NUMBER: _ClassVar[int]
    DECISION_BASIS_THROUGH_TURN_FIELD_NUMBER: _ClassVar[int]
    INPUT_DIGEST_FIELD_NUMBER: _ClassVar[int]
    ARM_FIELD_NUMBER: _ClassVar[int]
    MECHANISM_FIELD_NUMBER: _ClassVar[int]
    LIFECYCLE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CONTROL_COMMITTED_MODEL_TURNS_FIELD_NUMBER: _ClassVar[int]
    CANDIDATE_COMMITTED_MODEL_TURNS_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_EFFECT_OBSERVATION_FIELD_NUMBER: _ClassVar[int]
    CONTROL_GROSS_FIELD_NUMBER: _ClassVar[int]
    CANDIDATE_GROSS_FIELD_NUMBER: _ClassVar[int]
    OVERHEAD_FIELD_NUMBER: _ClassVar[int]
    RETAINED_TURN_REDUCTION_FIELD_NUMBER: _ClassVar[int]
    schema_version: str
    trace_id: str
    unit_id: str
    turn_index: int
    decision_basis_through_turn: int
    input_digest: str
    arm: str
    mechanism: str
    lifecycle: str
    reason: str
    control_committed_model_turns: int
    candidate_committed_model_turns: int
    required_effect_observation: RequiredEffectObservation
    control_gross: Gross
    candidate_gross: Gross
    overhead: Overhead
    retained_turn_reduction: RetainedTurnReduction
    def __init__(self, schema_version: _Optional[str] = ..., trace_id: _Optional[str] = ..., unit_id: _Optional[str] = ..., turn_index: _Optional[int] = ..., decision_basis_through_turn: _Optional[int] = ..., input_digest: _Optional[str] = ..., arm: _Optional[str] = ..., mechanism: _Optional[str] = ..., lifecycle: _Optional[str] = ..., reason: _Optional[str] = ..., control_committed_model_turns: _Optional[int] = ..., candidate_committed_model_turns: _Optional[int] = ..., required_effect_observation: _Optional[_Union[RequiredEffectObservation, _Mapping]] = ..., control_gross: _Optional[_Union[Gross, _Mapping]] = ..., candidate_gross: _Optional[_Union[Gross, _Mapping]] = ..., overhead: _Optional[_Union[Overhead, _Mapping]] = ..., retained_turn_reduction: _Optional[_Union[RetainedTurnReduction, _Mapping]] = ...) -> None: ...

class RequiredEffectObservation(_message.Message):
    __slots__ = ("independent_observer", "control_required", "candidate_required")
    INDEPENDENT_OBSERVER_FIELD_NUMBER: _ClassVar[int]
    CONTROL_REQUIRED_FIELD_NUMBER: _ClassVar[int]
    CANDIDATE_REQUIRED_FIELD_NUMBER: _ClassVar[int]
    independent_observer: str
    control_required: _containers.RepeatedScalarFieldContainer[str]
    candidate_required: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, independent_observer: _Optional[str] = ..., control_required: _Optional[_Iterable[str]] = ..., candidate_required: _Optional[_Iterable[str]] = ...) -> None: ...

class Gross(_message.Message):
    __slots__ = ("model_latency_ms", "tool_latency_ms", "model_cost_usd", "tool_cost_usd")
    MODEL_LATENCY_MS_FIELD_NUMBER: _ClassVar[int]
    TOOL_LATENCY_MS_FIELD_NUMBER: _ClassVar[int]
    MODEL_COST_USD_FIELD_NUMBER: _ClassVar[int]
    TOOL_COST_USD_FIELD_NUMBER: _ClassVar[int]
    model_latency_ms: float
    tool_latency_ms: float
    model_cost_usd: float
    tool_cost_usd: float
    def __init__(self, model_latency_ms: _Optional[float] = ..., tool_latency_ms: _Optional[float] = ..., model_cost_usd: _Optional[float] = ..., tool_cost_usd: _Optional[float] = ...) -> None: ...

class Overhead(_message.Message):
    __slots__ = ("validation_latency_ms", "speculation_latency_ms", "retry_latency_ms", "recovery_latency_ms", "validation_cost_usd", "speculation_cost_usd", "retry_cost_usd", "recovery_cost_usd")
    VALIDATION_LATENCY_MS_FIELD_NUMBER: _ClassVar[int]
    SPECULATION_LATENCY_MS_FIELD_NUMBER: _ClassVar[int]
    RETRY_LATENCY_MS_FIELD_NUMBER: _ClassVar[int]
    RECOVERY_LATENCY_MS_FIELD_NUMBER: _ClassVar[int]
    VALIDATION_COST_USD_FIELD_NUMBER: _ClassVar[int]
    SPECULATION_COST_USD_FIELD_NUMBER: _ClassVar[int]
    RETRY_COST_USD_FIELD_NUMBER: _ClassVar[int]
    RECOVERY_COST_USD_FIELD_NUMBER: _ClassVar[int]
    validation_latency_ms: float
    speculation_latency_ms: float
    retry_latency_ms: float
    recovery_latency_ms: float
    validation_cost_usd: float
    speculation_cost_usd: float
    retry_cost_usd: float
    recovery_cost_usd: float
    def __init__(self, validation_latency_ms: _Optional[float] = ..., speculation_latency_ms: _Optional[float] = ..., retry_latency_ms: _Optional[float] = ..., recovery_latency_ms: _Optional[float] = ..., validation_cost_usd: _Optional[float] = ..., speculation_cost_usd: _Optional[float] = ..., retry_cost_usd: _Optional[float] = ..., recovery_cost_usd: _Optional[float] = ...) -> None: ...

class RetainedTurnReduction(_message.Message):
    __slots__ = ("tokens", "latency_ms")
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    LATENCY_MS_FIELD_NUMBER: _ClassVar[int]
    tokens: int
    latency_ms: float
    def __init__(self, tokens: _Optional[int] = ..., latency_ms: _Optional[float] = ...) -> None: ...

class Report(_message.Message):
    __slots__ = ("schema_version", "trace_schema_version", "rows", "immutable_inputs", "arms", "honesty_verdict")
    SCHEMA_VERSION_FIELD_NUMBER: _ClassVar[int]
    TRACE_SCHEMA_VERSION_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    IMMUTABLE_INPUTS_FIELD_NUMBER: _ClassVar[int]
    ARMS_FIELD_NUMBER: _ClassVar[int]
    HONESTY_VERDICT_FIELD_NUMBER: _ClassVar[int]
    schema_version: str
    trace_schema_version: str
    rows: int
    immutable_inputs: int
    arms: _containers.RepeatedCompositeFieldContainer[ArmReport]
    honesty_verdict: str
    def __init__(self, schema_version: _Optional[str] = ..., trace_schema_version: _Optional[str] = ..., rows: _Optional[int] = ..., immutable_inputs: _Optional[int] = ..., arms: _Optional[_Iterable[_Union[ArmReport, _Mapping]]] = ..., honesty_verdict: _Optional[str] = ...) -> None: ...

class ArmReport(_message.Message):
    __slots__ = ("arm", "decisions", "control_committed_model_turns", "candidate_committed_model_turns", "realized_turns_avoided", "withheld_turns", "lifecycle", "retained_turns_made_cheaper", "retained_turn_tokens_reduced", "retained_turn_latency_reduced_ms", "required_effects_preserved", "needed_effects_suppressed", "accounting", "attribution", "honesty_verdict")
    ARM_FIELD_NUMBER: _ClassVar[int]
    DECISIONS_FIELD_NUMBER: _ClassVar[int]
    CONTROL_COMMITTED_MODEL_TURNS_FIELD_NUMBER: _ClassVar[int]
    CANDIDATE_COMMITTED_MODEL_TURNS_FIELD_NUMBER: _ClassVar[int]
    REALIZED_TURNS_AVOIDED_FIELD_NUMBER: _ClassVar[int]
    WITHHELD_TURNS_FIELD_NUMBER: _ClassVar[int]
    LIFECYCLE_FIELD_NUMBER: _ClassVar[int]
    RETAINED_TURNS_MADE_CHEAPER_FIELD_NUMBER: _ClassVar[int]
    RETAINED_TURN_TOKENS_REDUCED_FIELD_NUMBER: _ClassVar[int]
    RETAINED_TURN_LATENCY_REDUCED_MS_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_EFFECTS_PRESERVED_FIELD_NUMBER: _ClassVar[int]
    NEEDED_EFFECTS_SUPPRESSED_FIELD_NUMBER: _ClassVar[int]
    ACCOUNTING_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTION_FIELD_NUMBER: _ClassVar[int]
    HONESTY_VERDICT_FIELD_NUMBER: _ClassVar[int]
    arm: str
    decisions: int
    control_committed_model_turns: int
    candidate_committed_model_turns: int
    realized_turns_avoided: int
    withheld_turns: int
    lifecycle: LifecycleCounts
    retained_turns_made_cheaper: int
    retained_turn_tokens_reduced: int
    retained_turn_latency_reduced_ms: float
    required_effects_preserved: int
    needed_effects_suppressed: int
    accounting: Accounting
    attribution: _containers.RepeatedCompositeFieldContainer[Attribution]
    honesty_verdict: str
    def __init__(self, arm: _Optional[str] = ..., decisions: _Optional[int] = ..., control_committed_model_turns: _Optional[int] = ..., candidate_committed_model_turns: _Optional[int] = ..., realized_turns_avoided: _Optional[int] = ..., withheld_turns: _Optional[int] = ..., lifecycle: _Optional[_Union[LifecycleCounts, _Mapping]] = ..., retained_turns_made_cheaper: _Optional[int] = ..., retained_turn_tokens_reduced: _Optional[int] = ..., retained_turn_latency_reduced_ms: _Optional[float] = ..., required_effects_preserved: _Optional[int] = ..., needed_effects_suppressed: _Optional[int] = ..., accounting: _Optional[_Union[Accounting, _Mapping]] = ..., attribution: _Optional[_Iterable[_Union[Attribution, _Mapping]]] = ..., honesty_verdict: _Optional[str] = ...) -> None: ...

class LifecycleCounts(_message.Message):
    __slots__ = ("opportunity", "attempted", "realized", "invalidated", "counterfactual_only", "unknown")
    OPPORTUNITY_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTED_FIELD_NUMBER: _ClassVar[int]
    REALIZED_FIELD_NUMBER: _ClassVar[int]
    INVALIDATED_FIELD_NUMBER: _ClassVar[int]
    COUNTERFACTUAL_ONLY_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    opportunity: int
    attempted: int
    realized: int
    invalidated: int
    counterfactual_only: int
    unknown: int
    def __init__(self, opportunity: _Optional[int] = ..., attempted: _Optional[int] = ..., realized: _Optional[int] = ..., invalidated: _Optional[int] = ..., counterfactual_only: _Optional[int] = ..., unknown: _Optional[int] = ...) -> None: ...

class Accounting(_message.Message):
    __slots__ = ("gross_control_latency_ms", "gross_candidate_latency_ms", "gross_latency_saved_ms", "overhead_latency_ms", "net_candidate_latency_ms", "net_latency_saved_ms", "gross_control_cost_usd", "gross_candidate_cost_usd", "gross_cost_saved_usd", "overhead_cost_usd", "net_candidate_cost_usd", "net_cost_saved_usd")
    GROSS_CONTROL_LATENCY_MS_FIELD_NUMBER: _ClassVar[int]
    GROSS_CANDIDATE_LATENCY_MS_FIELD_NUMBER: _ClassVar[int]
    GROSS_LATENCY_SAVED_MS_FIELD_NUMBER: _ClassVar[int]
    OVERHEAD_LATENCY_MS_FIELD_NUMBER: _ClassVar[int]
    NET_CANDIDATE_LATENCY_MS_FIELD_NUMBER: _ClassVar[int]
    NET_LATENCY_SAVED_MS_FIELD_NUMBER: _ClassVar[int]
    GROSS_CONTROL_COST_USD_FIELD_NUMBER: _ClassVar[int]
    GROSS_CANDIDATE_COST_USD_FIELD_NUMBER: _ClassVar[int]
    GROSS_COST_SAVED_USD_FIELD_NUMBER: _ClassVar[int]
    OVERHEAD_COST_USD_FIELD_NUMBER: _ClassVar[int]
    NET_CANDIDATE_COST_USD_FIELD_NUMBER: _ClassVar[int]
    NET_COST_SAVED_USD_FIELD_NUMBER: _ClassVar[int]
    gross_control_latency_ms: float
    gross_candidate_latency_ms: float
    gross_latency_saved_ms: float
    overhead_latency_ms: float
    net_candidate_latency_ms: float
    net_latency_saved_ms: float
    gross_control_cost_usd: float
    gross_candidate_cost_usd: float
    gross_cost_saved_usd: float
    overhead_cost_usd: float
    net_candidate_cost_usd: float
    net_cost_saved_usd: float
    def __init__(self, gross_control_latency_ms: _Optional[float] = ..., gross_candidate_latency_ms: _Optional[float] = ..., gross_latency_saved_ms: _Optional[float] = ..., overhead_latency_ms: _Optional[float] = ..., net_candidate_latency_ms: _Optional[float] = ..., net_latency_saved_ms: _Optional[float] = ..., gross_control_cost_usd: _Optional[float] = ..., gross_candidate_cost_usd: _Optional[float] = ..., gross_cost_saved_usd: _Optional[float] = ..., overhead_cost_usd: _Optional[float] = ..., net_candidate_cost_usd: _Optional[float] = ..., net_cost_saved_usd: _Optional[float] = ...) -> None: ...

class Attribution(_message.Message):
    __slots__ = ("mechanism", "lifecycle", "reason", "decisions", "realized_turns_avoided", "withheld_turns", "required_effects_preserved", "needed_effects_suppressed", "accounting")
    MECHANISM_FIELD_NUMBER: _ClassVar[int]
    LIFECYCLE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DECISIONS_FIELD_NUMBER: _ClassVar[int]
    REALIZED_TURNS_AVOIDED_FIELD_NUMBER: _ClassVar[int]
    WITHHELD_TURNS_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_EFFECTS_PRESERVED_FIELD_NUMBER: _ClassVar[int]
    NEEDED_EFFECTS_SUPPRESSED_FIELD_NUMBER: _ClassVar[int]
    ACCOUNTING_FIELD_NUMBER: _ClassVar[int]
    mechanism: str
    lifecycle: str
    reason: str
    decisions: int
    realized_turns_avoided: int
    withheld_turns: int
    required_effects_preserved: int
    needed_effects_suppressed: int
    accounting: Accounting
    def __init__(self, mechanism: _Optional[str] = ..., lifecycle: _Optional[str] = ..., reason: _Optional[str] = ..., decisions: _Optional[int] = ..., realized_turns_avoided: _Optional[int] = ..., withheld_turns: _Optional[int] = ..., required_effects_preserved: _Optional[int] = ..., needed_effects_suppressed: _Optional[int] = ..., accounting: _Optional[_Union[Accounting, _Mapping]] = ...) -> None: ...
