"""Sums and maxima over the machines of a training, by XGBoost's network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import xgboost as xgb
from numpy.typing import NDArray
from xgboost import collective

Floats = NDArray[np.float64]

SECONDS_TO_WAIT = (
    600  # for the slowest machine, in one sum; a machine that is gone is noticed at once
)


class Collective:
    """A `rankwright.support.reducer.Reducer` over all machines that are `connected`."""

    def __init__(self, exact: bool) -> None:
        self.exact = exact
        self.rank = int(collective.get_rank())

    def sum(self, values: Floats) -> Floats:
        """Add, element by element."""
        return self._combined(values, collective.Op.SUM)

    def max(self, values: Floats) -> Floats:
        """Take the largest of each element."""
        return self._combined(values, collective.Op.MAX)

    def first(self, values: Floats) -> Floats:
        """Take those of the machine of rank 0: all others add zeros."""
        return self.sum(values if self.rank == 0 else np.zeros_like(values))

    def _combined(self, values: Floats, operation: collective.Op) -> Floats:
        local = np.ascontiguousarray(values, dtype=np.float64)
        try:
            return np.asarray(collective.allreduce(local, operation)).reshape(local.shape)
        except xgb.core.XGBoostError as error:
            raise _lost(error) from None


@contextmanager
def connected(tracker: Mapping[str, Any], number: int) -> Iterator[None]:
    """Join the machines that a tracker brings together, as the one of this number."""
    arguments = {
        **tracker,
        "dmlc_task_id": f"{number:06d}",
        "dmlc_timeout": SECONDS_TO_WAIT,
        "dmlc_retry": 3,
    }
    try:
        with xgb.config_context(verbosity=0):  # it would print each machine's rank
            collective.init(**arguments)
    except xgb.core.XGBoostError as error:
        raise _lost(error) from None
    try:
        yield
    except BaseException:
        with suppress(xgb.core.XGBoostError):  # what went wrong first says more
            collective.finalize()
        raise
    try:
        collective.finalize()
    except xgb.core.XGBoostError as error:
        raise _lost(error) from None


def _lost(error: Exception) -> ConnectionError:
    return ConnectionError(f"another machine of the training is gone: {str(error).splitlines()[0]}")


def start_tracker(n_workers: int, host: str) -> Any:
    """Start what brings the machines together; ``worker_args()`` tells them where it is."""
    from xgboost.tracker import RabitTracker

    tracker = RabitTracker(n_workers=n_workers, host_ip=host, sortby="task")
    tracker.start()
    return tracker
