"""The experiments of the five papers, each by its name; `rankwright reproduce` runs them.

>>> from rankwright.research.experiments import EXPERIMENTS
>>> EXPERIMENTS["xendcg-table1"].title
'XE-NDCG, LambdaMART and ListNet'
"""

from __future__ import annotations

import difflib

from rankwright.research.experiments import lambdaex, softrank, stochasticrank, tricks, xendcg
from rankwright.research.experiments.base import Budget, Experiment, Findings, Settings, Verdict
from rankwright.research.experiments.running import Record, read_records, reproduce, results_page

EXPERIMENTS: dict[str, Experiment] = {
    one.name: one for module in (stochasticrank, tricks, xendcg, lambdaex, softrank) for one in module.EXPERIMENTS
}

__all__ = [
    "EXPERIMENTS",
    "Budget",
    "Experiment",
    "Findings",
    "Record",
    "Settings",
    "Verdict",
    "experiment",
    "read_records",
    "reproduce",
    "results_page",
]


def experiment(name: str) -> Experiment:
    """Return the experiment of a name.

    Examples
    --------
    >>> experiment("tricks-table4").source
    'table 4'
    """
    if name in EXPERIMENTS:
        return EXPERIMENTS[name]
    near = difflib.get_close_matches(name, EXPERIMENTS, n=1)
    meant = f" Did you mean {near[0]}?" if near else ""
    raise ValueError(f"no experiment is called {name!r}.{meant} There are {', '.join(EXPERIMENTS)}.")
