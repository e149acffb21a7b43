"""What the spans of a run cannot tell, and why: nothing of it is ever shown as 0."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from otel_turnavoid.judge.calls import Call
from otel_turnavoid.judge.run import Run
from otel_turnavoid.vocabulary import Disposition, Evidence


def unknown_lines(run: Run, calls: Sequence[Call]) -> Iterator[str]:
    """Yield a line for each figure of a run that is unknown, or known only as far as seen."""
    yield from _turns(run, calls)
    if run.tool_calls is None:
        yield "tool calls: no span shows one, and nothing says that none was made"
    yield from _tokens(run, calls)
    if run.evidence is Evidence.INFERRED and run.llm_calls is not None:
        yield from _retries(run.llm_calls, calls)


def _turns(run: Run, calls: Sequence[Call]) -> Iterator[str]:
    if run.model_turns is not None and run.llm_calls is not None:
        return
    if any(call.overwritten for call in calls):
        yield "model turns and LlmCalls: calls wrote onto one span, each over the one before"
    elif calls:
        yield "model turns and LlmCalls: the span of a call lasts over a tool and the next answer"
    else:
        yield "model turns and LlmCalls: no span shows a model call"


def _tokens(run: Run, calls: Sequence[Call]) -> Iterator[str]:
    answered = [call for call in calls if call.disposition is not Disposition.FAILED]
    for kind in ("input", "output"):
        if getattr(run.usage, kind) is not None or not calls:
            continue
        silent = sum(getattr(call.usage, kind) is None for call in answered)
        yield f"{kind} tokens: {silent} of {len(answered)} answered calls do not say how many"


def _retries(shown: int, calls: Sequence[Call]) -> Iterator[str]:
    """Yield what is unknown of requests that a client sent again by itself."""
    silent = sum(call.resends is None for call in calls)
    if silent:
        yield (
            f"retries inside a client: {silent} of {len(calls)} calls do not say whether their"
            f" request was sent again, so there were at least {shown} LlmCalls; retries are"
            " attempts at the same turn, and no turn or credit depends on them"
        )
