"""Checkpoints: the state of a training saved in a folder at intervals, tied to its data and settings by a key."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from rankwright.data.dataset import RankingData
from rankwright.data.matrices import is_sparse
from rankwright.engines import load_engine
from rankwright.engines.contract import Engine, Forest
from rankwright.persistence import has_model, read_model, write_model
from rankwright.training.boosting import Boosting
from rankwright.training.parameters import Number
from rankwright.training.settings import Plan
from rankwright.training.state import State
from rankwright.training.state_file import describe_state, read_state

_LOG = logging.getLogger("rankwright")
_TREES, _SECONDS = 100, 60.0
_ROWS_AT_ONCE = 16_384
_REMEDY = "delete the folder to start again"


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
    n_features
        Columns of the data.
    initial_trees
        Trees of an earlier model that the training starts from.
    curves
        Names of the metrics on each evaluation set.
    """

    def __init__(
        self,
        path: Path,
        trees: int,
        seconds: float,
        key: str,
        engine: Engine,
        n_features: int,
        initial_trees: int,
        curves: Sequence[Sequence[str]],
    ) -> None:
        self.path = path
        self._trees = trees
        self._seconds = seconds
        self._key = key
        self._engine = engine
        self._n_features = n_features
        self._initial_trees = initial_trees
        self._curves = curves
        self._saved_iteration = 0
        self._saved_at = time.perf_counter()

    @classmethod
    def of(
        cls, option: Any, plan: Plan, parts: Sequence[RankingData], initial: Forest | None
    ) -> Checkpoint | None:
        """Read the estimator's option ``checkpoint``: a folder, or a dict of path, trees and seconds."""
        if option is None:
            return None
        prints = [
            fingerprint(parts[0], _click_fields(plan)),
            *(fingerprint(part) for part in parts[1:]),
        ]
        return cls.of_prints(option, plan, prints, len(parts[0].feature_names), initial)

    @classmethod
    def of_prints(
        cls, option: Any, plan: Plan, prints: Sequence[str], n_features: int, initial: Forest | None
    ) -> Checkpoint | None:
        """Do the same for data that is known by the fingerprints of its parts."""
        if option is None:
            return None
        chosen: dict[str, Any] = option if isinstance(option, dict) else {"path": option}
        if not isinstance(chosen.get("path"), str | os.PathLike) or chosen.keys() - {
            "path",
            "trees",
            "seconds",
        }:
            raise ValueError(
                f"checkpoint must be a folder, or a dict of path and, optionally, trees and seconds; got {chosen!r}."
            )
        trees, seconds = chosen.get("trees", _TREES), chosen.get("seconds", _SECONDS)
        Number(1, whole=True).check("trees of checkpoint", trees)
        Number(0).check("seconds of checkpoint", seconds)
        engine = load_engine(plan.settings.engine)
        return cls(
            Path(chosen["path"]),
            trees,
            seconds,
            _key_of(plan, prints, initial),
            engine,
            n_features,
            0 if initial is None else initial.n_trees,
            [list(plan.metrics)] * (len(prints) - 1),
        )

    @property
    def interval(self) -> tuple[int, float]:
        """Trees and seconds after which it is due."""
        return self._trees, self._seconds

    def load(self) -> State | None:
        """Read the state, or None where there is none yet."""
        if not has_model(self.path) and not (self.path / self._engine.file_name).exists():
            return None
        content, manifest = read_model(self.path)
        state = manifest.get("state")
        if manifest.get("state_sha256", _hash(state)) != _hash(
            state
        ):  # the first checkpoints had none
            raise ValueError(
                f"{self.path}: the state does not have the hash that the manifest states; {_REMEDY}."
            )
        if manifest.get("checkpoint_of") != self._key:
            raise ValueError(
                f"{self.path} holds a checkpoint of another training (other data, objective or parameters); "
                "choose another folder or delete it."
            )
        try:
            forest = self._engine.load(content)
            if forest.n_features != self._n_features:
                raise ValueError(
                    f"its trees are over {forest.n_features} columns, not {self._n_features}"
                )
            read = read_state(state, forest, self._initial_trees, self._curves)
        except ValueError as error:
            raise ValueError(
                f"{self.path} holds a damaged checkpoint: {str(error).rstrip('.')}; {_REMEDY}."
            ) from None
        self._saved_iteration = read.iteration
        _LOG.info("resuming from %s after %d iterations", self.path, read.iteration)
        return read

    def save_if_due(self, boosting: Boosting) -> None:
        """Save if enough trees were grown or enough time has passed."""
        trees = boosting.iteration - self._saved_iteration
        if trees >= self._trees or time.perf_counter() - self._saved_at >= self._seconds:
            self.save(boosting.snapshot())

    def save(self, state: State) -> None:
        """Write the state, unless the folder has one of more iterations already."""
        assert state.forest is not None
        if state.iteration >= self._saved_iteration:
            rest = describe_state(state)
            manifest = {"checkpoint_of": self._key, "state": rest, "state_sha256": _hash(rest)}
            write_model(self.path, state.forest.dump(), manifest, self._engine.file_name)
            self._saved_iteration = state.iteration
        self._saved_at = time.perf_counter()


def _hash(state: Any) -> str:
    """Hash of a state as JSON writes it, where NaN and the digits of a number have one spelling."""
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()


def _key_of(plan: Plan, data: Sequence[str], initial: Forest | None) -> str:
    """Hash what decides about a training; neither the number of trees nor that of threads does."""
    unused = (
        "n_trees",
        "threads",
        *(["stopping_rule", "stopping_errors"] if plan.settings.patience is None else []),
    )
    settings = {k: repr(v) for k, v in asdict(plan.settings).items() if k not in unused}
    if not _click_fields(plan):
        del settings["bias"], settings["propensity"]  # the first checkpoints had none
    data = list(data)
    start = None if initial is None else initial.dump().decode("utf-8", "backslashreplace")
    key = repr((str(plan.objective), list(plan.metrics), sorted(settings.items()), data, start))
    return hashlib.sha256(key.encode()).hexdigest()


def _click_fields(plan: Plan) -> list[str]:
    """Fields of the training data that decide about a training."""
    bias, propensity = plan.settings.bias, plan.settings.propensity
    return [
        *(() if bias is None else bias.columns),
        *(() if propensity is None else (propensity.column,)),
    ]


def fingerprint(data: RankingData, fields: Sequence[str] = ()) -> str:
    """Hash of the features, labels, queries, weights, pairs and columns, and of the fields that are named."""
    # Columns without names of their own are told apart by position, whatever a reader calls them.
    names: list[Any] = (
        data.feature_names
        if data.named
        else [f"f{number}" for number in range(len(data.feature_names))]
    )
    if len(data.label_names) > 1:
        names = [*names, data.label_names]
    digest = hashlib.blake2b(
        repr((names, sorted(data.categories.items()))).encode(), digest_size=16
    )
    arrays = (data.X.data, data.X.indices, data.X.indptr) if is_sparse(data.X) else (data.X,)
    for array in (
        *arrays,
        data.y,
        data.queries.keys,
        data.group,
        np.zeros(0) if data.weights is None else data.weights,
        *(data.labels[name] for name in data.label_names[1:]),
        *(() if data.pairs is None else data.pairs.arrays),
    ):
        digest.update(repr((array.shape, array.dtype.str)).encode())
        for start in range(0, len(array), _ROWS_AT_ONCE):
            rows = array[start : start + _ROWS_AT_ONCE]
            rows = (
                rows + 0.0 if rows.dtype.kind == "f" else rows
            )  # -0.0 is 0.0 for every part of a training
            digest.update(np.ascontiguousarray(rows).data)
    for name in fields:
        values = data.fields[name]
        digest.update(repr((name, values.dtype.str)).encode())
        digest.update(
            repr(values.tolist()).encode()
            if values.dtype == object
            else np.ascontiguousarray(values).data
        )
    return digest.hexdigest()
