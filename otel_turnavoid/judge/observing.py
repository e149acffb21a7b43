"""Which observations count, and what two of them say about two runs (design sections 3 and 4)."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from otel_turnavoid.judge.facts import Observation, Process, encode
from otel_turnavoid.judge.run import Run
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.vocabulary import UNCHANGED

OBSERVER_ROLE = "observer"
"""Role of a credential that may send effects."""


class Heard(NamedTuple):
    """What observers said of one run within its time and skew."""

    usable: tuple[Observation, ...]
    """One per observer."""
    contradictory: tuple[str, ...]
    """Observers that said different things."""
    cut: tuple[str, ...]
    """Observations that prove nothing, as a part of them was left out; a line each."""


def hear(
    observations: Iterable[Observation], start_ns: int, end_ns: int, settings: Settings
) -> Heard:
    """Return which of the observations that name a run count."""
    skew = settings.observation_skew_ns
    by_observer: dict[str, list[Observation]] = defaultdict(list)
    for observation in observations:
        if start_ns - skew <= observation.observed_ns <= end_ns + skew:
            by_observer[observation.observer].append(observation)
    usable, contradictory, cut = [], [], []
    for observer, said in sorted(by_observer.items()):
        if len({encode(_content(observation)) for observation in said}) > 1:
            contradictory.append(observer)
        first = min(said, key=lambda one: (bool(one.dropped), one.observed_ns, encode(one)))
        if first.dropped:
            cut.append(f"{observer}: {lost_attributes(first)}")
        else:
            usable.append(first)
    return Heard(tuple(usable), tuple(contradictory), tuple(cut))


def lost_attributes(observation: Observation) -> str:
    """Return why an observation proves nothing of which attributes were left out."""
    return f"{observation.dropped} attributes were dropped by a limit, and perhaps effects in them"


def _content(observation: Observation) -> Observation:
    """Return what an observation says apart from when, and in which process of a service.

    Mostly, the order of labels means nothing.
    """
    labels = observation.labels if observation.ordered else tuple(sorted(observation.labels))
    return msgspec.structs.replace(
        observation, observed_ns=0, labels=labels, dropped=0, process=None
    )


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
    An instance id that is a UUID was made for one process, under whatever name it speaks; so
    was a process id of one machine. Nor does an identity that may have been cut prove anything.
    """
    if observation.role not in (None, OBSERVER_ROLE) or not observation.service:
        return False
    if identity_cut(observation) or shared_process(observation, runs):
        return False
    for service, instance in (identity for run in runs for identity in run.identities):
        same_instance = bool(instance) and instance == observation.instance
        one_uuid = instance.lower() == (observation.instance or "").lower()
        if one_uuid and _UUID.fullmatch(instance):
            return False
        other_service = service and service != observation.service
        other_instance = instance and observation.instance and not same_instance
        if not other_service and not (service and other_instance):
            return False
    return True


def identity_cut(observation: Observation) -> bool:
    """Whether attributes of the observer's resource were left out, of its identity perhaps."""
    return bool(observation.resource_dropped) and not observation.instance


def shared_process(observation: Observation, runs: Sequence[Run]) -> Process | None:
    """Return the process that an observer shares with a run, if their resources say so."""
    return next(
        (each for run in runs for each in run.processes if _one(observation.process, each)), None
    )


def _one(mine: Process | None, theirs: Process) -> bool:
    """Whether two processes have one number in a place that both name, and nothing differs."""
    if mine is None or mine.pid != theirs.pid:
        return False
    named = {
        field: getattr(mine, field) == getattr(theirs, field)
        for field in Process.__struct_fields__
        if None not in (getattr(mine, field), getattr(theirs, field))
    }
    return all(named.values()) and bool(named.keys() & _PLACES)


_PLACES = {"host_id", "host_name", "container_id", "pod_uid"}
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
