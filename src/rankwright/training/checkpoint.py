"""Checkpoints: training saved now and then in a folder, tied by a key to its data and settings."""

from __future__ import annotations

import hashlib
import logging
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np

from rankwright.data.dataset import RankingData
from rankwright.persistence import read_model, write_model
from rankwright.training.boosting import Boosting, State

_LOG = logging.getLogger("rankwright")


class Checkpoint:
    """A folder in which training is saved now and then, tied to one training by a key."""

    def __init__(self, path: Path, trees: int, seconds: float, key: str) -> None:
        self.path = path
        self._trees = trees
        self._seconds = seconds
        self._key = key
        self._saved = 0
        self._saved_at = time.perf_counter()

    def load(self) -> State | None:
        """Read the state, or None where there is none yet."""
        if not (self.path / "model.txt").exists():
            return None
        text, manifest = read_model(self.path)
        if manifest.get("checkpoint_of") != self._key:
            raise ValueError(
                f"{self.path} holds a checkpoint of another training (other data, objective or parameters); "
                "choose another folder or delete it."
            )
        state = State(text=text, **manifest["state"])
        self._saved = state.iteration
        _LOG.info("going on from %s after %d iterations", self.path, state.iteration)
        return state

    def offer(self, state: State, boosting: Boosting) -> None:
        """Save if it is time to."""
        if state.iteration - self._saved >= self._trees or time.perf_counter() - self._saved_at >= self._seconds:
            boosting.snapshot(state)
            self.save(state)

    def save(self, state: State) -> None:
        """Write the state."""
        assert state.text is not None
        kept = {k: v for k, v in asdict(state).items() if k != "text"}
        write_model(self.path, state.text, {"checkpoint_of": self._key, "state": kept})
        self._saved = state.iteration
        self._saved_at = time.perf_counter()


def fingerprint(data: RankingData) -> str:
    """Hash of the features, labels, queries, weights and columns."""
    digest = hashlib.blake2b(repr((data.feature_names, sorted(data.categories.items()))).encode(), digest_size=16)
    arrays = (data.X.data, data.X.indices, data.X.indptr) if hasattr(data.X, "indptr") else (data.X,)
    for array in (
        *arrays,
        data.y,
        data.queries.keys,
        data.group,
        np.zeros(0) if data.weights is None else data.weights,
    ):
        digest.update(repr((array.shape, array.dtype.str)).encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
