"""The option ``cluster`` of a fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwright.data.on_disk import is_on_disk
from rankwright.support import checks
from rankwright.support.checks import ArgumentError

# Parameters and arguments of a fit that a cluster cannot use so far, with their neutral values.
_ONE_MACHINE: dict[str, Any] = {
    "pairs": None,
    "position": None,
    "time": None,
    "propensity": None,
    "clip": None,
    "self_normalised": False,
    "eval_group": None,
    "categorical": None,
    "refit": False,
    "members": 1,
    "early_stopping": "valid",
}


def check_on_cluster(given: Mapping[str, Any], X: Any) -> None:
    """Raise ValueError if a fit asks for something that a cluster cannot do.

    Examples
    --------
    >>> check_on_cluster({"refit": True}, None)
    Traceback (most recent call last):
    ValueError: refit cannot be used with cluster=; leave out one of the two.
    """
    asked = []
    for name, neutral in _ONE_MACHINE.items():
        if not _is_same(given.get(name, neutral), neutral):
            asked.append(name)
    # Pairs can also be in the data instead of in the arguments.
    if getattr(X, "pairs", None) is not None:
        asked.append("pairs")
    if asked:
        raise ValueError(f"{asked[0]} cannot be used with cluster=; leave out one of the two.")
    if given.get("start") == "linear-global":
        raise ValueError(
            "start='linear-global' takes its quantiles from a single machine; use start='linear' with "
            "cluster=."
        )
    if is_on_disk(getattr(X, "X", None)):
        raise ValueError(
            "X is streamed from files, which workers read themselves; give fit their path instead."
        )


def _is_same(value: Any, neutral: Any) -> bool:
    # Arrays are never neutral, and they have no single answer to ==.
    return value is neutral or (np.isscalar(value) and bool(value == neutral))


@dataclass(frozen=True)
class Cluster:
    """The workers of a fit, for ``Ranker.fit(..., cluster=...)``.

    Parameters
    ----------
    where
        A Dask client, the address of a Dask scheduler (``"tcp://10.0.0.1:8786"``), a number of
        workers to start on this machine, or ``"local"`` for a worker per core. ``cluster=client``
        and ``cluster=4`` mean the same as ``cluster=Cluster(client)`` and ``cluster=Cluster(4)``.
    retries
        How often training restarts after a worker was lost. It restarts from the last state that
        the client received.
    exact
        Whether sums over workers are rounded so that the model has the same bits for any number of
        workers. Without rounding, leaf values may differ in their last bits, and later trees with
        them.

    Examples
    --------
    >>> Cluster(4, retries=0)
    Cluster(where=4, retries=0, exact=True)
    """

    where: Any = "local"
    retries: int = 2
    exact: bool = True

    def __post_init__(self) -> None:
        whole = checks.is_whole(self.where)
        if whole and self.where < 1:
            raise ValueError(f"a cluster needs at least one worker; got {self.where}.")
        if (
            not whole
            and not isinstance(self.where, str)
            and not hasattr(self.where, "scheduler_info")
        ):
            raise ArgumentError(
                "cluster",
                "must be a Dask client, the address of a scheduler, a number of workers or 'local'; "
                f"got {self.where!r}.",
            )
        # Dask would wait a long time for an address that cannot be right.
        if isinstance(self.where, str) and self.where != "local" and ":" not in self.where:
            raise ValueError(
                f"cluster={self.where!r} is not an address such as tcp://10.0.0.1:8786, nor 'local'."
            )
        checks.whole("retries", self.retries, least=0)

    @classmethod
    def of(cls, value: Any) -> Cluster:
        """Read the argument ``cluster`` of a fit."""
        if isinstance(value, Cluster):
            return value
        return cls(value)
