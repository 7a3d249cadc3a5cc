"""Where and how a training on several machines runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwright.data.on_disk import is_on_disk

# What only one machine does so far: parameters and arguments of a fit, each with the value that asks for nothing.
_ONE_MACHINE: dict[str, Any] = {
    "pairs": None,
    "position": None,
    "propensity": None,
    "clip": None,
    "self_normalised": False,
    "eval_group": None,
    "refit": False,
    "members": 1,
    "early_stopping": "valid",
}


def check_on_cluster(given: Mapping[str, Any], X: Any) -> None:
    """Raise ValueError where parameters and arguments of a fit, or its data, ask for what only one machine does.

    Examples
    --------
    >>> check_on_cluster({"refit": True}, None)
    Traceback (most recent call last):
    ValueError: refit cannot be used with cluster=; leave out one of the two.
    """
    asked = [
        name for name, nothing in _ONE_MACHINE.items() if _asks(given.get(name, nothing), nothing)
    ]
    if getattr(X, "pairs", None) is not None:
        asked.append("pairs")
    if asked:
        raise ValueError(f"{asked[0]} cannot be used with cluster=; leave out one of the two.")
    if is_on_disk(getattr(X, "X", None)):
        raise ValueError(
            "X is streamed from files, which workers read themselves; give fit their path instead."
        )


def _asks(value: Any, nothing: Any) -> bool:
    """Whether a value asks for more than nothing; arrays, which have no one answer to ==, do."""
    return value is not nothing and not (np.isscalar(value) and bool(value == nothing))


@dataclass(frozen=True)
class Cluster:
    """The workers of a fit, for ``Ranker.fit(..., cluster=...)``.

    Parameters
    ----------
    where
        A Dask client, the address of a Dask scheduler (``"tcp://10.0.0.1:8786"``), a number of workers to start on
        this machine, or ``"local"`` for one worker per core. ``cluster=client`` and ``cluster=4`` mean the same
        as ``cluster=Cluster(client)`` and ``cluster=Cluster(4)``.
    retries
        How often training restarts, from the last state that the client received, after a worker was lost.
    exact
        Whether sums over workers are rounded so that the model has the same bits for any number of workers. Without,
        leaf values may differ in their last bits, and later trees with them.

    Examples
    --------
    >>> Cluster(4, retries=0)
    Cluster(where=4, retries=0, exact=True)
    """

    where: Any = "local"
    retries: int = 2
    exact: bool = True

    def __post_init__(self) -> None:
        whole = isinstance(self.where, int) and not isinstance(self.where, bool)
        if whole and self.where < 1:
            raise ValueError(f"a cluster needs at least one worker; got {self.where}.")
        if (
            not whole
            and not isinstance(self.where, str)
            and not hasattr(self.where, "scheduler_info")
        ):
            raise ValueError(
                "cluster must be a Dask client, the address of a scheduler, a number of workers or 'local'; got "
                f"{self.where!r}."
            )
        if isinstance(self.where, str) and self.where != "local" and ":" not in self.where:
            raise ValueError(
                f"cluster={self.where!r} is not an address such as tcp://10.0.0.1:8786, nor 'local'."
            )
        if not isinstance(self.retries, int) or isinstance(self.retries, bool) or self.retries < 0:
            raise ValueError(f"retries must be a whole number from 0; got {self.retries!r}.")

    @classmethod
    def of(cls, value: Any) -> Cluster:
        """Read the argument ``cluster`` of a fit."""
        return value if isinstance(value, Cluster) else cls(value)
