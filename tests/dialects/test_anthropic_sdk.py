"""The Anthropic SDK's own spans show how often a request was sent again."""

from __future__ import annotations

import pytest

from otel_turnavoid.vocabulary import Entry

CHAT = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "anthropic"}
SCOPE = "com.anthropic.sdk.python"


@pytest.mark.parametrize(("said", "resends"), [(None, 0), (0, 0), (2, 2), ("2", 2), ("two", None)])
def test_resends_are_kept_and_left_out_where_there_were_none(fact_of, said, resends) -> None:
    found = fact_of(CHAT | {"http.request.resend_count": said}, scope=SCOPE)

    assert (found.entry, found.dialect) == (Entry.LLM_CALL, "anthropic_sdk")
    assert found.call.resends == resends


def test_another_clients_resends_are_not_the_models(fact_of) -> None:
    assert fact_of(CHAT | {"http.request.resend_count": 2}).call.resends is None


def test_other_operations_only_link(fact_of) -> None:
    assert fact_of({"gen_ai.operation.name": "count_tokens"}, scope=SCOPE).entry is None
