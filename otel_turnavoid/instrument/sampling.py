"""Whether a sampler lets every span through, so that a count of spans can be complete."""

from __future__ import annotations

from typing import Any, Final

from opentelemetry.sdk.trace.sampling import (
    ALWAYS_ON,
    Decision,
    ParentBased,
    Sampler,
    StaticSampler,
    TraceIdRatioBased,
)

_EVERYTHING: Final = 1.0


def keeps_everything(tracer: Any) -> bool:
    """Tell whether every span that starts below a span of ``tracer`` is recorded and exported.

    False where it cannot be told: another sampler than the SDK's own, or no SDK.
    """
    real = getattr(tracer, "_tracer", tracer)  # the API's proxy, made before a provider was set
    sampler = getattr(real, "sampler", None)
    return isinstance(sampler, Sampler) and keeps(sampler)


def keeps(sampler: Sampler) -> bool:
    """Tell the same of a sampler."""
    if isinstance(sampler, ParentBased):
        below = getattr(sampler, "_local_parent_sampled", None)
        root = getattr(sampler, "_root", None)  # frameworks start traces of their own in a run
        return all(isinstance(each, Sampler) and keeps(each) for each in (below, root))
    if isinstance(sampler, TraceIdRatioBased):
        return sampler.rate >= _EVERYTHING
    if isinstance(sampler, StaticSampler):
        return getattr(sampler, "_decision", None) is Decision.RECORD_AND_SAMPLE
    return sampler is ALWAYS_ON
