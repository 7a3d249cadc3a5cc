"""Checkpoints: the state of a training saved in a folder at intervals, tied to its data and settings by a key."""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from rankwright.data.dataset import RankingData
from rankwright.engines import load_engine
from rankwright.engines.contract import Engine, Forest
from rankwright.persistence import has_model, read_model, write_model
from rankwright.training.boosting import Boosting
from rankwright.training.parameters import Number
from rankwright.training.settings import Plan
from rankwright.training.state import State

_LOG = logging.getLogger("rankwright")
_TREES, _SECONDS = 100, 60.0


class Checkpoint:
    """A folder in which a training is saved at intervals.

    Parameters
    ----------
    path
        The folder.
    trees, seconds
        It is due after this many trees or seconds, whichever comes first.
    key
        Identifies the training.
    engine
        Reads and writes the trees.
    """

    def __init__(self, path: Path, trees: int, seconds: float, key: str, engine: Engine) -> None:
        self.path = path
        self._trees = trees
        self._seconds = seconds
        self._key = key
        self._engine = engine
        self._saved_iteration = 0
        self._saved_at = time.perf_counter()

    @classmethod
    def of(cls, option: Any, plan: Plan, parts: Sequence[RankingData], initial: Forest | None) -> Checkpoint | None:
        """Read the estimator's option ``checkpoint``: a folder, or a dict of path, trees and seconds."""
        if option is None:
            return None
        chosen: dict[str, Any] = option if isinstance(option, dict) else {"path": option}
        if not isinstance(chosen.get("path"), str | os.PathLike) or chosen.keys() - {"path", "trees", "seconds"}:
            raise ValueError(
                f"checkpoint must be a folder, or a dict of path and, optionally, trees and seconds; got {chosen!r}."
            )
        trees, seconds = chosen.get("trees", _TREES), chosen.get("seconds", _SECONDS)
        Number(1, whole=True).check("trees of checkpoint", trees)
        Number(0).check("seconds of checkpoint", seconds)
        engine = load_engine(plan.settings.engine)
        return cls(Path(chosen["path"]), trees, seconds, _key_of(plan, parts, initial), engine)

    def load(self) -> State | None:
        """Read the state, or None where there is none yet."""
        if not has_model(self.path) and not (self.path / self._engine.file_name).exists():
            return None
        content, manifest = read_model(self.path)
        if manifest.get("checkpoint_of") != self._key:
            raise ValueError(
                f"{self.path} holds a checkpoint of another training (other data, objective or parameters); "
                "choose another folder or delete it."
            )
        state = State(forest=self._engine.load(content), **manifest["state"])
        self._saved_iteration = state.iteration
        _LOG.info("resuming from %s after %d iterations", self.path, state.iteration)
        return state

    def save_if_due(self, state: State, boosting: Boosting) -> None:
        """Save if enough trees were grown or enough time has passed."""
        trees = state.iteration - self._saved_iteration
        if trees >= self._trees or time.perf_counter() - self._saved_at >= self._seconds:
            boosting.snapshot(state)
            self.save(state)

    def save(self, state: State) -> None:
        """Write the state."""
        assert state.forest is not None
        rest = {name: getattr(state, name) for name in State.__dataclass_fields__ if name != "forest"}
        manifest = {"checkpoint_of": self._key, "state": rest}
        write_model(self.path, state.forest.dump(), manifest, self._engine.file_name)
        self._saved_iteration = state.iteration
        self._saved_at = time.perf_counter()


def _key_of(plan: Plan, parts: Sequence[RankingData], initial: Forest | None) -> str:
    """Hash what decides about a training; neither the number of trees nor that of threads does."""
    settings = {k: repr(v) for k, v in asdict(plan.settings).items() if k not in ("n_trees", "threads")}
    data = [fingerprint(part) for part in parts]
    start = None if initial is None else initial.dump().decode("utf-8", "backslashreplace")
    key = repr((str(plan.objective), list(plan.metrics), sorted(settings.items()), data, start))
    return hashlib.sha256(key.encode()).hexdigest()


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
