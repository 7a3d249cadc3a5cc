"""What ``fit`` is told about clicks: where documents were shown, and how likely they were seen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rankwright.data.dataset import RankingData
from rankwright.training.bias_columns import read_columns, warn_without_overlap
from rankwright.training.settings import BiasSettings, Plan


def with_clicks(plan: Plan, data: RankingData, bias_columns: Iterable[str]) -> Plan:
    """Add the columns of a click log to the plan; raise ValueError where they cannot be used.

    Parameters
    ----------
    plan
        From the estimator's parameters.
    data
        Training data, with the columns among its fields.
    bias_columns
        Fields whose values have a bias each.
    """
    settings, parameters = plan.settings, plan.parameters
    if names := tuple(bias_columns):
        bias = BiasSettings(
            names,
            float(parameters["position_ridge"]),
            float(parameters["position_smoothness"]),
            int(parameters["position_limit"]),
        )
        read_columns(bias, data)
        warn_without_overlap(bias, data)
        settings = replace(settings, bias=bias)
    return plan._replace(settings=settings)
