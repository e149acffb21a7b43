"""Which observations count, and what two of them say about two runs (design sections 3 and 4)."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from otel_turnavoid.judge.facts import Observation, encode
from otel_turnavoid.judge.run import Run
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.vocabulary import UNCHANGED

OBSERVER_ROLE = "observer"
"""Role of a credential that may send effects."""


def usable_observations(
    observations: Iterable[Observation], start_ns: int, end_ns: int, settings: Settings
) -> tuple[tuple[Observation, ...], tuple[str, ...]]:
    """Return the observations within a run's time and skew, one per observer, and the liars.

    The second part names the observers that said different things about the run.
    """
    skew = settings.observation_skew_ns
    by_observer: dict[str, list[Observation]] = defaultdict(list)
    for observation in observations:
        if start_ns - skew <= observation.observed_ns <= end_ns + skew:
            by_observer[observation.observer].append(observation)
    usable, contradictory = [], []
    for observer, said in sorted(by_observer.items()):
        if len({encode(_content(observation)) for observation in said}) > 1:
            contradictory.append(observer)
        usable.append(min(said, key=lambda one: (one.observed_ns, encode(one))))
    return tuple(usable), tuple(contradictory)


def _content(observation: Observation) -> Observation:
    """Return what an observation says apart from when; mostly, order of labels means nothing."""
    labels = observation.labels if observation.ordered else tuple(sorted(observation.labels))
    return msgspec.structs.replace(observation, observed_ns=0, labels=labels)


def effects(observation: Observation | None) -> tuple[str, ...]:
    """Return the effect labels as a sorted list; repetitions carry ``#2`` and so on.

    >>> effects(Observation(run_id="r", observer="o", labels=("b", "a", "b"), observed_ns=0))
    ('a', 'b', 'b#2')
    """
    return () if observation is None else tuple(sorted(told_apart(observation.labels)))


def told_apart(labels: Sequence[str]) -> list[str]:
    """Return the labels in their order, repetitions marked so that no two are the same."""
    given = set(labels)
    marked: set[str] = set(labels)
    names: dict[str, list[str]] = {}
    for label, times in sorted(Counter(labels).items()):
        names[label] = [label]
        number = 1
        for _ in range(times - 1):
            number += 1
            while f"{label}#{number}" in marked:
                number += 1
            marked.add(f"{label}#{number}")
            names[label].append(f"{label}#{number}")
    following = {label: iter(names[label]) for label in given}
    return [next(following[label]) for label in labels]


def asked_nothing(run: Run) -> bool:
    """Whether an observer of a run says that all it required was to leave things as they were.

    Doing nothing passes there, so what is avoided on such an input is shown apart.
    """
    return any(
        bool(seen.labels) and all(label.endswith(f"={UNCHANGED}") for label in seen.labels)
        for seen in run.observations
    )


def independent(observation: Observation, runs: Sequence[Run]) -> bool:
    """Whether the observer is provably another process than every run's.

    An identity that is not stated proves nothing: where either side has no service name, or
    both have the same one and not two different instance ids, observer and agent may be one.
    An instance id that is a UUID was made for one process, under whatever name it speaks.
    """
    if observation.role not in (None, OBSERVER_ROLE) or not observation.service:
        return False
    for service, instance in (identity for run in runs for identity in run.identities):
        same_instance = bool(instance) and instance == observation.instance
        if same_instance and _UUID.fullmatch(instance):
            return False
        other_service = service and service != observation.service
        other_instance = instance and observation.instance and not same_instance
        if not other_service and not (service and other_instance):
            return False
    return True


_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
