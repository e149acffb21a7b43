"""The key of a run: what another run must share to be compared with it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from otel_turnavoid.digest import input_digest
from otel_turnavoid.errors import DigestError
from otel_turnavoid.judge.facts import InvokeDetail, SpanFact
from otel_turnavoid.judge.findings import Findings
from otel_turnavoid.judge.run import Key
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.judge.spans import SpanTree, by_time
from otel_turnavoid.vocabulary import Rejection


def key_of(
    tree: SpanTree,
    outermost: Sequence[SpanFact],
    said: InvokeDetail,
    settings: Settings,
    findings: Findings,
) -> Key | None:
    """Return the key, None without a digest; a digest that cannot be made is a finding."""
    digest = said.digest
    if digest is None and settings.digest:
        digest = _configured_digest(tree, settings, findings)
    if digest is None:
        return None
    facts = (*outermost, *tree.facts)
    return Key(
        experiment=next((fact.experiment for fact in facts if fact.experiment), ""),
        digest=digest,
        unit=next((fact.unit for fact in facts if fact.unit), ""),
        turn_index=said.turn_index or 0,
    )


def _configured_digest(tree: SpanTree, settings: Settings, findings: Findings) -> str | None:
    """Make the digest from the attributes that the configuration names, each as first seen."""
    named: dict[str, object] = {}
    for attribute in settings.digest:
        bearing = [fact for fact in tree.facts if attribute in fact.digest_parts]
        if not bearing:
            return None
        first = min(bearing, key=by_time)
        named[attribute] = msgspec.json.decode(first.digest_parts[attribute])
    if all(value in ("", None, [], {}) for value in named.values()):
        findings.reject(Rejection.DIGEST, "the attributes that make the digest are empty")
        return None
    try:
        return input_digest(named)
    except DigestError as error:
        findings.reject(Rejection.DIGEST, str(error))
        return None
