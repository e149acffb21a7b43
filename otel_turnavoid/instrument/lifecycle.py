"""How far a change got in a run: forward only.

opportunity -> attempted -> realized        each also directly
any of them -> invalidated                  the end: nothing is realized after it
nothing, opportunity -> counterfactual_only the end: it was only computed
"""

from __future__ import annotations

from typing import Final

from otel_turnavoid.vocabulary import Lifecycle

_STEPS: Final = (
    Lifecycle.UNKNOWN,
    Lifecycle.OPPORTUNITY,
    Lifecycle.ATTEMPTED,
    Lifecycle.REALIZED,
)
_ENDS: Final = (Lifecycle.INVALIDATED, Lifecycle.COUNTERFACTUAL_ONLY)


def advanced(before: Lifecycle | None, after: Lifecycle) -> Lifecycle | None:
    """Return where a run stands when it hears of a step, None where that contradicts itself.

    A step that lies behind says nothing new: an opportunity in a run that has realized another
    one leaves it realized.
    """
    if before is None or before is after:
        return after
    if before in _ENDS:
        return None
    if after is Lifecycle.INVALIDATED:
        return after
    if after is Lifecycle.COUNTERFACTUAL_ONLY:
        return after if before in (Lifecycle.UNKNOWN, Lifecycle.OPPORTUNITY) else None
    return max(before, after, key=_STEPS.index)
