"""Hand-made verdicts, so that each test can say only what it is about."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from msgspec.structs import replace

from otel_turnavoid.judge.facts import Observation, Usage
from otel_turnavoid.judge.judging import judge, judge_null
from otel_turnavoid.judge.run import Key, Run, Work
from otel_turnavoid.judge.settings import Settings
from otel_turnavoid.judge.verdict import NullDecided, PairDecided
from otel_turnavoid.vocabulary import Arm, Evidence, InvokeState, Lifecycle, Mechanism, Reason

EFFECT = "order:42=cancelled"


def digest_of(number: int) -> str:
    return f"sha256:{number:064x}"


class Verdicts:
    """Makes runs of given turns, and the verdicts on them by the judge itself."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def run(
        self,
        turns: int | None,
        *,
        task: int = 1,
        effects: tuple[str, ...] = (EFFECT,),
        **changes: Any,
    ) -> Run:
        number = next(self._numbers)
        run_id = changes.pop("run_id", f"run-{number}")
        whole = Run(
            run_id=run_id,
            evidence=Evidence.DECLARED,
            arm=Arm.CONTROL,
            variant=None,
            key=Key("", digest_of(task), "", 0),
            ended=True,
            state=InvokeState.COMPLETED,
            start_ns=number,
            end_ns=number + 1,
            mechanism=Mechanism.CONTROL,
            lifecycle=Lifecycle.REALIZED,
            reason=Reason.BASELINE,
            decision_basis=-1,
            model_turns=turns,
            llm_calls=turns,
            tool_calls=0,
            usage=Usage(),
            rejections=(),
            causes=(),
            problems=(),
            models=("model",),
            scopes=("scope",),
            identities=(("agent", "1"),),
            observations=(
                Observation(
                    run_id=run_id,
                    observer="watcher",
                    labels=effects,
                    service="observer",
                    instance="1",
                    observed_ns=number,
                ),
            ),
            work=Work(),
            retained=None,
            batches=(),
            speculation=(),
            agent=None,
            trace_ids=("trace",),
        )
        return replace(whole, **changes)

    def pair(
        self,
        control: int | None,
        candidate: int | None,
        *,
        settings: Settings | None = None,
        task: int = 1,
        effects: tuple[str, ...] = (EFFECT,),
        **changes: Any,
    ) -> PairDecided:
        """A control with an exact-reuse candidate; changes are the candidate's."""
        key = {"key": changes["key"]} if "key" in changes else {}
        reuse = {"arm": Arm.EXACT_REUSE, "mechanism": Mechanism.EXACT_REUSE, **changes}
        return judge(
            self.run(control, task=task, **key),
            self.run(candidate, task=task, effects=effects, **reuse),
            settings or Settings(),
        )

    def null(self, first: int, second: int, *, task: int = 1, **changes: Any) -> NullDecided:
        return judge_null(
            self.run(first, task=task, **changes), self.run(second, task=task), Settings()
        )


@pytest.fixture
def verdicts() -> Verdicts:
    return Verdicts()


@pytest.fixture
def without_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine where the extra ``statistics`` was not installed."""
    monkeypatch.setitem(__import__("sys").modules, "scipy.special", None)
