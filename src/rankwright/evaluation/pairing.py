"""Evaluations of the same queries by several systems: checks that they match, and their alignment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rankwright.evaluation.significance import Floats


class PerQueryValues(Protocol):
    """The part of an `Evaluation` that `compare` uses."""

    @property
    def per_query(self) -> Mapping[str, Floats]:
        """Values by metric, in the order of `query_ids`; NaN for skipped queries."""

    @property
    def query_ids(self) -> NDArray[Any]:
        """Identifier of each query."""

    @property
    def ties(self) -> object:
        """How ties were broken."""

    @property
    def empty(self) -> object:
        """How queries without a relevant document were treated."""

    @property
    def weights(self) -> Floats | None:
        """Weight of each query, or None."""


def check_policies(systems: Sequence[PerQueryValues], names: Sequence[str]) -> None:
    """Raise ValueError unless all systems were evaluated with the same policies."""
    # Values of another program may have no policy for unjudged documents; they are relevant nowhere then.
    usual = {"ties": None, "empty": None, "unjudged": "not-relevant"}
    for policy, default in usual.items():
        values = [getattr(system, policy, default) for system in systems]
        for value, name in zip(values, names, strict=True):
            if value != values[0]:
                raise ValueError(
                    f"{name!r} was evaluated with {policy}={value!r} but "
                    f"{names[0]!r} with {policy}={values[0]!r}. Evaluate both the same way."
                )


def query_positions(
    baseline: PerQueryValues, system: PerQueryValues, name: str
) -> NDArray[np.int64]:
    """Return the position of each of the baseline's queries in the system's evaluation."""
    expected = np.asarray(baseline.query_ids).tolist()
    ids = np.asarray(system.query_ids).tolist()
    position = {query: i for i, query in enumerate(ids)}
    # Repeated ids would silently keep only the last query.
    if len(position) < len(ids):
        raise ValueError(f"{name!r} has repeated query ids. Evaluate it with one id per query.")
    if position.keys() != set(expected):
        unshared = next(iter(position.keys() ^ set(expected)))
        raise ValueError(
            f"{name!r} and the baseline were evaluated on different queries: only one of them has "
            f"query {unshared!r}. Evaluate both on the same queries."
        )
    return np.fromiter((position[query] for query in expected), dtype=np.int64, count=len(expected))


def shared_weights(
    systems: Sequence[PerQueryValues], positions: Sequence[NDArray[np.int64]], names: Sequence[str]
) -> Floats | None:
    """Return the query weights, in the baseline's order; they must be the same for all systems."""
    aligned = [
        np.asarray([] if system.weights is None else system.weights[position], dtype=np.float64)
        for system, position in zip(systems, positions, strict=True)
    ]
    for weights, name in zip(aligned, names, strict=True):
        if not np.array_equal(weights, aligned[0]):
            raise ValueError(
                f"{name!r} and {names[0]!r} have different query weights. Evaluate both with the "
                "same weights, or both without."
            )
    if not (aligned[0] >= 0).all():
        raise ValueError("query weights must not be negative or NaN. Evaluate with other weights.")
    return None if systems[0].weights is None else aligned[0]


def shared_metrics(
    systems: Sequence[PerQueryValues], names: Sequence[str], metrics: str | Iterable[object] | None
) -> list[str]:
    """Return the names of the metrics to compare, which all systems must have."""
    if metrics is None:
        names_of_metrics = [
            name
            for name in systems[0].per_query
            if all(name in system.per_query for system in systems)
        ]
    elif isinstance(metrics, str):
        names_of_metrics = [metrics]
    else:
        names_of_metrics = [str(metric) for metric in metrics]
    if not names_of_metrics:
        raise ValueError(
            "no metric to compare by: the evaluations share none, or metrics is empty. "
            "Evaluate all systems by the same metric."
        )
    for system, name in zip(systems, names, strict=True):
        for metric in names_of_metrics:
            if metric not in system.per_query:
                raise ValueError(
                    f"{name!r} was not evaluated by {metric!r}; choose from "
                    f"{', '.join(system.per_query)}."
                )
    return names_of_metrics


def compared_queries(
    values: Sequence[Floats],
    weights: Floats | None,
    names: Sequence[str],
    metric: str,
    query_ids: NDArray[Any],
) -> NDArray[np.bool_]:
    """Return a mask of the queries with a value, and with a positive weight if there are weights."""
    # A query without a value for one system only would bias the comparison.
    missing = np.isnan(values[0])
    for system_values, name in zip(values, names, strict=True):
        unshared = np.flatnonzero(np.isnan(system_values) != missing)
        if len(unshared):
            raise ValueError(
                f"only one of {names[0]!r} and {name!r} has a value of {metric!r} for query "
                f"{query_ids[unshared[0]]} (and {len(unshared) - 1} more). Evaluate both on the "
                "same labels."
            )
    compared = ~missing
    if weights is not None:
        compared &= weights > 0
    if np.count_nonzero(compared) < 2:
        raise ValueError(
            f"only {np.count_nonzero(compared)} queries have a value of {metric!r}, but a "
            "comparison needs at least 2. Evaluate on more queries."
        )
    return compared
