"""What every cause and outcome means in words, and what would have to be true instead.

The one table that ``turnavoid explain`` and the README speak from.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from otel_turnavoid.vocabulary import Outcome, Rejection, WithheldCause


class Meaning(NamedTuple):
    """One word of a closed vocabulary, for people."""

    what: str
    """What is the case; ends a sentence that begins "the pair earns nothing because"."""
    wanted: str
    """What would have to be true for credit, or what to change."""


WITHHELD: Final = {
    WithheldCause.LIFECYCLE_NOT_REALIZED: Meaning(
        "the change did not take effect: attempted, invalidated, only computed, or not said",
        "the candidate's change takes effect in the run, and its Invoke says lifecycle `realized`",
    ),
    WithheldCause.RUN_NOT_COMPLETED: Meaning(
        "one of the runs failed, was aborted or hit a limit, whatever it says of itself",
        "both Invokes end with the state `completed`, and their spans without an error",
    ),
    WithheldCause.INCOMPLETE_RUN: Meaning(
        "the Invoke never ended, something that it declared never arrived, or a span limit dropped"
        " attributes",
        "the Invoke ends, and every entry it declares arrives, numbered without a gap and with all"
        " its attributes and those of its resource",
    ),
    WithheldCause.COMPLETENESS_UNPROVEN: Meaning(
        "nothing proves that all turns are counted: no declared counts, a kind of evidence that is"
        " not accepted, another run that began inside of this one or may have, committed turns"
        " beside calls that none of them holds, continuations of nothing or past a tool, or turns"
        " that only one of the runs shows by its calls",
        "the Invoke declares its counts when it ends, sub-agents carry its run id, and calls lie in"
        " their AgentTurns (or, for spans of others, the configuration accepts inferred evidence)",
    ),
    WithheldCause.CONFLICTING_EVIDENCE: Meaning(
        "two different contents came under one id, two runs claim one span, or calls state one"
        " input that cannot have had it",
        "span ids, sequence numbers, counts, input digests and observations each come with one"
        " content, and each span belongs to one run",
    ),
    WithheldCause.SAMPLED: Meaning(
        "the trace state shows that other traces were left out",
        "spans of both runs reach the processor before any sampling",
    ),
    WithheldCause.EFFECTS_UNOBSERVED: Meaning(
        "nobody looked at the outside world after one of the runs, or a limit cut what was seen",
        "an observer states the effects of each run, whole, within its time and the allowed skew",
    ),
    WithheldCause.NO_REQUIRED_EFFECTS: Meaning(
        "the observer saw no effect in the control, so equal effects prove nothing",
        "the observer looks at what the task must change, and sees it after the control",
    ),
    WithheldCause.OBSERVER_NOT_INDEPENDENT: Meaning(
        "the observer is one of the agents, or came with an agent's credential, or with none where"
        " the other run's had one",
        "the observer is a process of its own: another service.name, or the same one and another"
        " service.instance.id, stated on both sides; not the agent's process under another name",
    ),
    WithheldCause.OBSERVER_MISMATCH: Meaning(
        "different observers looked at the two runs",
        "one observer, with one id, looks at both runs",
    ),
    WithheldCause.EFFECTS_SUPPRESSED: Meaning(
        "a required effect of the control is missing in the candidate",
        "the candidate causes every effect of the control, as often as the control did",
    ),
    WithheldCause.EFFECTS_ADDED: Meaning(
        "the candidate caused something that the control did not",
        "the candidate causes nothing beyond the effects of the control",
    ),
    WithheldCause.MODEL_MISMATCH: Meaning(
        "the generations that made the committed turns of the two runs came from different models",
        "both runs use the same models (or the configuration says `models: any`)",
    ),
    WithheldCause.INSTRUMENTATION_MISMATCH: Meaning(
        "the two runs were instrumented differently, so their counts cannot be compared",
        "both runs carry spans of the same scopes (or the configuration says"
        " `instrumentation: any`)",
    ),
}
"""Why a pair earns nothing, in the order in which causes are checked."""

REJECTED: Final = {
    Rejection.VOCABULARY: Meaning(
        "an attribute has a value outside its closed vocabulary",
        "write the word exactly as the vocabulary spells it; `unknown` is a word too",
    ),
    Rejection.DIGEST: Meaning(
        "the input digest is missing, malformed, or that of an empty value",
        "give the Invoke the task's whole input (or the attributes that configuration names)",
    ),
    Rejection.LEAKAGE: Meaning(
        "the decision about the run knew the result of its own turn",
        "decide on turns before turn.index only: decision.basis_through_turn is below it",
    ),
    Rejection.ARM_MISSING: Meaning(
        "no span of the run says which arm it belongs to",
        "name the arm on the Invoke or the resource, or let the configuration name it (`arms`)",
    ),
    Rejection.RUN_ID_REUSED: Meaning(
        "one run id stands for two different runs",
        "give every run an id of its own; a UUID is made where none is given",
    ),
}
"""Why a run is kept for inspection and never paired."""

STANDS: Final = {
    Outcome.PAIRED: Meaning("it was compared with another run", ""),
    Outcome.UNPAIRED: Meaning(
        "no verdict compares it with another run",
        "a run of the other side needs the same experiment, input digest, unit and turn index",
    ),
    Outcome.INCOMPLETE: Meaning(
        "its Invoke never ended, so nobody knows whether all of it was seen",
        "end the Invoke, also where the agent fails, and flush the spans before the process exits",
    ),
    Outcome.REJECTED: Meaning("it breaks the contract and is never paired", ""),
    Outcome.UNATTRIBUTED: Meaning(
        "model calls or tools that belong to no run",
        "make the calls inside an `invoke`, or let the configuration say which attribute holds the"
        " run id (`runs`)",
    ),
}
"""Where a run stands."""
