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

# Seconds to wait for the slowest machine in a sum. The loss of a machine is noticed at once.
SECONDS_TO_WAIT = 600


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
        """Take the values of the machine of rank 0: the other machines add zeros."""
        # Adding zeros does not change the values of the first machine.
        if self.rank != 0:
            values = np.zeros_like(values)
        return self.sum(values)

    def _combined(self, values: Floats, operation: collective.Op) -> Floats:
        # The network takes contiguous arrays and may lose their shape.
        local = np.ascontiguousarray(values, dtype=np.float64)
        try:
            return np.asarray(collective.allreduce(local, operation)).reshape(local.shape)
        except xgb.core.XGBoostError as error:
            raise _lost(error) from None


@contextmanager
def connected(tracker: Mapping[str, Any], number: int) -> Iterator[None]:
    """Join the machines of a tracker, as the machine with this number."""
    # The tracker sorts the machines by their number as text, so all numbers have the same length.
    arguments = {
        **tracker,
        "dmlc_task_id": f"{number:06d}",
        "dmlc_timeout": SECONDS_TO_WAIT,
        "dmlc_retry": 3,
    }
    try:
        # Otherwise it would print each machine's rank.
        with xgb.config_context(verbosity=0):
            collective.init(**arguments)
    except xgb.core.XGBoostError as error:
        raise _lost(error) from None
    try:
        yield
    except BaseException:
        # The first error says more than an error of leaving.
        with suppress(xgb.core.XGBoostError):
            collective.finalize()
        raise
    try:
        collective.finalize()
    except xgb.core.XGBoostError as error:
        raise _lost(error) from None


def _lost(error: Exception) -> ConnectionError:
    return ConnectionError(f"another machine of the training is gone: {str(error).splitlines()[0]}")


def start_tracker(n_workers: int, host: str) -> Any:
    """Start a tracker, the meeting point of the machines; ``worker_args()`` has its address."""
    from xgboost.tracker import RabitTracker

    tracker = RabitTracker(n_workers=n_workers, host_ip=host, sortby="task")
    tracker.start()
    return tracker
