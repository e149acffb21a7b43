"""What a reader chooses at the top of a dashboard."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.cog import builder as cog
from grafana_foundation_sdk.models import dashboard as model

from dashboards import promql
from dashboards.panels import SOURCE
from otel_turnavoid.vocabulary import CANDIDATE_ARMS, Comparison, Evidence, Metric

Builder = cog.Builder[model.VariableModel]

ALL: Final = model.VariableOption(selected=True, text=["All"], value=["$__all"])

_COMPARED: Final = {
    "like with like": "()",  # matches only series without the label
    "across models": Comparison.CROSS_MODEL.value,
    "across instrumentations": Comparison.CROSS_INSTRUMENTATION.value,
    "across both": Comparison.CROSS_BOTH.value,
}


def data_source() -> Builder:
    """Return the choice of a Prometheus."""
    return dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus")


def accounts() -> list[Builder]:
    """Return the variables of accounts: their names, and what is kept apart."""
    decided = promql.every(Metric.PAIRS_DECIDED)
    observed = promql.every(Metric.RUNS_OBSERVED)
    arms = ",".join(arm.value for arm in CANDIDATE_ARMS)
    return [
        data_source(),
        _labels("job", "Job", observed, "job", "Jobs of Prometheus with a processor."),
        _labels(
            "experiment",
            "Experiment",
            observed,
            promql.EXPERIMENT,
            "Empty unless processors.turnavoid.labels names turnavoid.experiment.id.",
        ),
        _labels(
            "agent",
            "Agent",
            observed,
            promql.AGENT,
            "Empty unless processors.turnavoid.labels names gen_ai.agent.name.",
        ),
        dashboard.CustomVariable("arm")
        .label("Arm")
        .description("Candidate arms; control runs are shown beside them.")
        .values(arms)
        .multi(multi=True)
        .include_all(include_all=True)
        .current(ALL),
        _labels("variant", "Variant", decided, promql.VARIANT, "Of several candidates of one arm."),
        _one_of(
            "evidence",
            "Evidence",
            {evidence.value: evidence.value for evidence in Evidence},
            "How runs are known to be whole; never added to each other.",
        ),
        _one_of(
            "comparison",
            "Comparison",
            _COMPARED,
            "In what control and candidate may differ; never added to each other.",
        ),
    ]


def processors() -> list[Builder]:
    """Return the variables of the processors' own telemetry."""
    observed = promql.every(Metric.RUNS_OBSERVED)
    return [
        data_source(),
        _labels("job", "Job", observed, "job", "Jobs of Prometheus with a processor."),
    ]


def _labels(name: str, shown: str, series: str, label: str, description: str) -> Builder:
    return (
        dashboard.QueryVariable(name)
        .label(shown)
        .description(description)
        .datasource(SOURCE)
        .query({"query": f"label_values({series}, {label})", "refId": name})
        .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(model.VariableSort.ALPHABETICAL_ASC)
        .multi(multi=True)
        .include_all(include_all=True)
        .all_value(".*")
        .current(ALL)
    )


def _one_of(name: str, shown: str, values: Mapping[str, str], description: str) -> Builder:
    first = next(iter(values))
    return (
        dashboard.CustomVariable(name)
        .label(shown)
        .description(description)
        .values(", ".join(f"{text} : {value}" for text, value in values.items()))
        .current(model.VariableOption(selected=True, text=first, value=values[first]))
    )
