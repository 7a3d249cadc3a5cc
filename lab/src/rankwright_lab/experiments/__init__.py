"""The experiments of the five papers by name; `rankwright-lab reproduce` runs them.

>>> from rankwright_lab.experiments import EXPERIMENTS
>>> EXPERIMENTS["xendcg-table1"].title
'XE-NDCG, LambdaMART and ListNet'
"""

from __future__ import annotations

import difflib

from rankwright_lab.experiments import (
    directness,
    lambdaex,
    stochasticrank,
    tricks,
    xendcg,
    xendcg_bound,
)
from rankwright_lab.experiments.base import (
    Budget,
    Experiment,
    ExperimentSettings,
    Findings,
    Verdict,
)
from rankwright_lab.experiments.records import Record, read_records, reproduce, results_page

EXPERIMENTS: dict[str, Experiment] = {
    entry.name: entry
    for module in (stochasticrank, tricks, xendcg, xendcg_bound, lambdaex, directness)
    for entry in module.EXPERIMENTS
}

__all__ = [
    "EXPERIMENTS",
    "Budget",
    "Experiment",
    "ExperimentSettings",
    "Findings",
    "Record",
    "Verdict",
    "experiment",
    "read_records",
    "reproduce",
    "results_page",
]


def experiment(name: str) -> Experiment:
    """Return an experiment by its name.

    Examples
    --------
    >>> experiment("tricks-table4").source
    'table 4'
    """
    if name in EXPERIMENTS:
        return EXPERIMENTS[name]
    near = difflib.get_close_matches(name, EXPERIMENTS, n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    raise ValueError(f"unknown experiment {name!r}.{hint} Choose one of {', '.join(EXPERIMENTS)}.")
