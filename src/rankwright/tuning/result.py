"""The result of a search: its trials, the best trial, and how they are printed and saved."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rankwright.metrics import Metric
from rankwright.metrics import metric as parse_metric
from rankwright.support.files import replacing
from rankwright.support.tables import Cell, Table, Tabular, columns_of
from rankwright.tuning.constraint import Constraint

_HEADING = "# Found by rankwright tune"
_TABLE_ROWS = 10  # trials in the printed table


@dataclass(frozen=True)
class Trial:
    """One trial of a search.

    Parameters
    ----------
    number
        Number from 1, in the order of the search.
    values
        Drawn values, by the names of the space.
    params
        Parameters to train with: of `Ranker`, or of the system that was tuned.
    value
        Mean over the folds of the best validation value; None if the trial was stopped early.
    trees
        Mean over the folds of the number of trees with the best value, rounded; None if the trial was stopped early.
    fold_values, fold_trees
        Best value of each fold, and its number of trees.
    seconds
        Duration.
    origin
        Origin of its values: ``"defaults"``, ``"random"`` or, if the search learned from earlier trials, ``"guided"``.
    constraint_values
        Values of the metrics of the constraints, each the mean over the folds, with the trees of the best value.
    excess
        Sum of the distances by which it misses the constraints; 0 if it meets them.
    """

    number: int
    values: dict[str, Any]
    params: dict[str, Any]
    value: float | None
    trees: int | None
    fold_values: tuple[float, ...]
    fold_trees: tuple[int, ...]
    seconds: float
    origin: str
    constraint_values: tuple[float, ...] = ()
    excess: float = 0.0


@dataclass(frozen=True, eq=False)
class Tuning(Tabular):
    """Result of a search; prints as a table of the best trials.

    Attributes
    ----------
    metric : str
        The optimised metric.
    trials : tuple of Trial
        All trials, in the order of the search.
    interrupted : bool
        True if Ctrl-C ended the search.
    constraints : tuple of Constraint
        Conditions that the result has to meet.

    Examples
    --------
    >>> from rankwright import make_web_search, tune
    >>> tuning = tune(make_web_search(24, n_features=20), trials=1, n_estimators=3, folds=2, n_jobs=1)
    >>> print(tuning)
    trial  ndcg@10  trees  parameters
        1  0...      ...
    1 trials, 0 of them stopped early.
    """

    metric: str
    trials: tuple[Trial, ...]
    interrupted: bool
    _importance: Callable[[], dict[str, float]]
    constraints: tuple[Constraint, ...] = ()

    @property
    def best_trial(self) -> Trial:
        """The trial with the best value of the trials that meet the constraints, or else the nearest to them."""
        return self.ranked()[0]

    @property
    def best(self) -> dict[str, Any]:
        """Parameters of the best trial: ``Ranker(**tuning.best)`` is the tuned ranker."""
        return dict(self.best_trial.params)

    def ranked(self) -> list[Trial]:
        """Return the complete trials, the best first; those that miss a constraint come last, the nearest first."""
        sign = improvement_sign(self.metric)

        def rank(trial: Trial) -> tuple[float, float]:
            assert trial.value is not None
            return trial.excess, -sign * trial.value

        return sorted((trial for trial in self.trials if trial.value is not None), key=rank)

    def shortfall(self) -> str:
        """Say by how much the best trial misses the constraints; empty if it meets them."""
        best = self.best_trial
        if best.excess <= 0:
            return ""
        missed = [
            f"{constraint.metric} {value:.4f} for {constraint}"
            for constraint, value in zip(self.constraints, best.constraint_values, strict=True)
            if constraint.excess(value) > 0
        ]
        return f"No trial meets the constraints; the nearest has {', '.join(missed)}"

    def origins(self) -> str:
        """Say how many trials had the defaults, were drawn at random and were guided by earlier ones."""
        counts = Counter(trial.origin for trial in self.trials)
        first = f"{counts['defaults']} with the defaults, " if counts["defaults"] else ""
        return (
            f"{first}{counts['random']} drawn at random, {counts['guided']} guided by earlier ones"
        )

    def importance(self) -> dict[str, float]:
        """Return how much each parameter separates the best tenth of the trials from the rest, the largest share first.

        By PED-ANOVA over the complete trials; shares sum to 1. Empty for fewer than four complete trials.
        """
        return self._importance()

    def table(self) -> list[dict[str, Any]]:
        """Return a row per trial in the order of the search: number, value, trees, seconds and the drawn values."""
        rows = []
        for trial in self.trials:
            row = {"trial": trial.number, self.metric: trial.value}
            # A trial that was stopped early has no values of the constraints.
            row |= zip(self._constrained_metrics(), trial.constraint_values, strict=False)
            rows.append(row | {"trees": trial.trees, "seconds": trial.seconds} | trial.values)
        return rows

    def _columns(self) -> dict[str, Any]:
        return columns_of(self.table())

    def save_config(self, path: str | os.PathLike[str]) -> None:
        """Write the best parameters to a TOML file for ``rankwright train --config``."""
        import tomli_w

        best = self.best_trial
        value = f"{self.metric} {best.value:.4f} on validation queries"
        parameters = {name: value for name, value in best.params.items() if value is not None}
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(f"{_HEADING}: {value}, {len(self.trials)} trials.\n".encode())
            tomli_w.dump(parameters, file)

    def _repr_html_(self) -> str:
        table = self._table()
        if table.rows:
            best = f"Best: Ranker({', '.join(_value_texts(self.best))})"
            table = replace(table, note=f"{table.note}\n{best}")
        return table._repr_html_()

    def _table(self) -> Table:
        """Return the table of the best trials."""
        header = ["trial", self.metric, *self._constrained_metrics(), "trees", "parameters"]
        rows: list[list[Cell]] = [
            [
                str(trial.number),
                trial.value,
                *trial.constraint_values,
                str(trial.trees),
                ", ".join(_value_texts(trial.values)),
            ]
            for trial in self.ranked()[:_TABLE_ROWS]
        ]
        stopped = sum(trial.value is None for trial in self.trials)
        note = f"{len(self.trials)} trials, {stopped} of them stopped early."
        if self.constraints:
            met = sum(trial.value is not None and trial.excess <= 0 for trial in self.trials)
            note += f" {met} meet {' and '.join(map(str, self.constraints))}."
        return Table("", header, rows, note)

    def _constrained_metrics(self) -> list[str]:
        return [str(constraint.metric) for constraint in self.constraints]


def is_config(path: str | os.PathLike[str]) -> bool:
    """Return whether a file was written by `Tuning.save_config`."""
    file = Path(path)
    return file.is_file() and file.read_bytes().startswith(_HEADING.encode())


def improvement_sign(metric: str | Metric) -> float:
    """Return 1 if more of the metric is better, otherwise -1."""
    return 1.0 if parse_metric(metric).higher_is_better else -1.0


def _value_texts(values: Mapping[str, Any]) -> list[str]:
    return [
        f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in values.items()
    ]
