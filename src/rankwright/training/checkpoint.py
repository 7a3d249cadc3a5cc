"""Checkpoints: the state of a training saved in a folder at intervals.

A key made of the data and the plan ties a checkpoint to its training.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from rankwright.data.dataset import RankingData
from rankwright.data.matrices import is_sparse
from rankwright.engines import load_engine
from rankwright.engines.contract import Forest
from rankwright.persistence import has_model, read_model, write_model
from rankwright.support.checks import is_number, is_whole
from rankwright.training.loop import Boosting
from rankwright.training.plan import CheckpointPlace, Plan
from rankwright.training.state import PHASES, State

_LOG = logging.getLogger("rankwright")
_ROWS_AT_ONCE = 16_384
_REMEDY = "delete the folder to start again"

# Entries of a plan that do not decide which trees are grown, or that the key has in another form.
_NOT_IN_KEY = {
    "parameters",
    "strategy",
    "auto_objective",
    "within_query",
    "objective",
    "metrics",
    "full_leaves_required",
    "n_trees",
    "threads",
    "verbose",
    "checkpoint",
    "base_score",
    "notice",
}
_STOPPING = {"stopping_rule", "stopping_errors"}


class Checkpoint:
    """A folder in which a training is saved at intervals.

    Parameters
    ----------
    place
        The folder and the intervals.
    plan
        The training, with the settings that the data decides filled in.
    fingerprints
        `fingerprint` of the training data and of each evaluation set.
    n_features
        Number of columns of the data.
    initial
        Trees of an earlier model that the training starts from.
    """

    def __init__(
        self,
        place: CheckpointPlace,
        plan: Plan,
        fingerprints: Sequence[str],
        n_features: int,
        initial: Forest | None,
    ) -> None:
        self.place = place
        self.path = place.path
        self._key = _key_of(plan, fingerprints, initial)
        self._engine = load_engine(plan.engine)
        self._n_features = n_features
        self._initial_trees = 0 if initial is None else initial.n_trees
        self._plan = plan
        self._n_sets = len(fingerprints) - 1
        self._saved_iteration = 0
        self._saved_at = time.perf_counter()

    @classmethod
    def of(
        cls, plan: Plan, parts: Sequence[RankingData], initial: Forest | None
    ) -> Checkpoint | None:
        """Return the checkpoint of a training on data in memory, or None if none is wanted."""
        if plan.checkpoint is None:
            return None
        train, *valid = parts
        prints = [fingerprint(train, [*plan.click_fields, *plan.start_fields])]
        prints += [fingerprint(data, plan.start_fields) for data in valid]
        return cls(plan.checkpoint, plan, prints, len(train.feature_names), initial)

    def load(self) -> State | None:
        """Read the state, or return None if there is none yet."""
        # Trees without a manifest are damage, not a fresh start, so reading them raises an error.
        if not has_model(self.path) and not (self.path / self._engine.file_name).exists():
            return None
        content, manifest = read_model(self.path)
        # Resuming the checkpoint of another training would mix the trees of both.
        if manifest.get("checkpoint_of") != self._key:
            raise ValueError(
                f"{self.path} holds a checkpoint of another training (other data, objective or "
                "parameters); choose another folder or delete it."
            )
        values = manifest.get("state")
        # A damaged state may still be valid JSON with plausible numbers, so it has a hash.
        if manifest.get("state_sha256") != hash_of(values):
            raise ValueError(
                f"{self.path}: the state does not have the hash that the manifest states; "
                f"{_REMEDY}."
            )
        try:
            forest = self._engine.load(content)
            if forest.n_features != self._n_features:
                raise ValueError(
                    f"its trees are over {forest.n_features} columns, not {self._n_features}"
                )
            state = read_state(values, forest, self._initial_trees, self._plan, self._n_sets)
        except ValueError as error:
            reason = str(error).rstrip(".")
            raise ValueError(
                f"{self.path} holds a damaged checkpoint: {reason}; {_REMEDY}."
            ) from None
        self._saved_iteration = state.iteration
        _LOG.info("resuming from %s after %d iterations", self.path, state.iteration)
        return state

    def save_if_due(self, boosting: Boosting) -> None:
        """Save if enough trees were grown or enough time has passed."""
        trees = boosting.iteration - self._saved_iteration
        seconds = time.perf_counter() - self._saved_at
        if trees >= self.place.trees or seconds >= self.place.seconds:
            self.save(boosting.snapshot())

    def save(self, state: State) -> None:
        """Write the state, unless the folder already has a state of more iterations."""
        assert state.forest is not None
        # A shorter training in the same folder does not overwrite the trees of a longer training.
        if state.iteration >= self._saved_iteration:
            values = describe_state(state)
            manifest = {
                "checkpoint_of": self._key,
                "state": values,
                "state_sha256": hash_of(values),
            }
            write_model(self.path, state.forest.dump(), manifest, self._engine.file_name)
            self._saved_iteration = state.iteration
        self._saved_at = time.perf_counter()


def hash_of(values: Any) -> str:
    """Hash a state as JSON writes it: NaN and the digits of a number have a unique spelling there."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _key_of(plan: Plan, fingerprints: Sequence[str], initial: Forest | None) -> str:
    """Hash everything that decides which trees are grown."""
    unused = set(_NOT_IN_KEY)
    # The stopping rule has no effect without early stopping, so changing it does not forbid to
    # resume.
    if plan.patience is None:
        unused |= _STOPPING
    settings = [
        (entry.name, repr(getattr(plan, entry.name)))
        for entry in fields(plan)
        if entry.name not in unused
    ]
    # The gradients, and so all trees, depend on the model that a training starts from.
    start = None
    if initial is not None:
        start = hashlib.sha256(initial.dump()).hexdigest()
    key = repr((str(plan.objective), list(plan.metrics), settings, list(fingerprints), start))
    return hashlib.sha256(key.encode()).hexdigest()


def fingerprint(data: RankingData, field_names: Sequence[str] = ()) -> str:
    """Hash the features, labels, queries, weights, pairs and columns, and the named fields."""
    digest = hashlib.blake2b(digest_size=16)
    names: list[Any] = data.feature_names
    if not data.named:
        # Columns without names are told apart by position, whatever a reader calls them.
        names = [f"f{number}" for number in range(len(names))]
    if len(data.label_names) > 1:
        names = [*names, data.label_names]
    digest.update(repr((names, sorted(data.categories.items()))).encode())
    # Shapes and types are hashed too, because arrays of different shapes can have the same bytes.
    # Blocks of rows keep the memory small for features on disk.
    for array in _arrays_of(data):
        digest.update(repr((array.shape, array.dtype.str)).encode())
        for start in range(0, len(array), _ROWS_AT_ONCE):
            rows = array[start : start + _ROWS_AT_ONCE]
            if rows.dtype.kind == "f":
                # Adding 0.0 turns -0.0 into 0.0, because training treats them alike.
                rows = rows + 0.0
            digest.update(np.ascontiguousarray(rows).data)
    for name in field_names:
        values = data.fields[name]
        digest.update(repr((name, values.dtype.str)).encode())
        # The bytes of an object column are addresses, so its values are hashed as text.
        if values.dtype == object:
            digest.update(repr(values.tolist()).encode())
        else:
            digest.update(np.ascontiguousarray(values).data)
    return digest.hexdigest()


def _arrays_of(data: RankingData) -> Iterator[Any]:
    X = data.X
    if is_sparse(X):
        yield from (X.data, X.indices, X.indptr)
    else:
        yield X
    yield from (data.y, data.queries.keys, data.group)
    yield np.zeros(0) if data.weights is None else data.weights
    for name in data.label_names[1:]:
        yield data.labels[name]
    if data.pairs is not None:
        yield from data.pairs.arrays


_LISTS = ("trees", "factors", "rates", "biases", "history", "kept", "errors")
_ENTRIES = {"initial_trees", *_LISTS, "finished", "times"}


def describe_state(state: State) -> dict[str, Any]:
    """Return everything but the forest as values that JSON can hold."""
    lists = {name: getattr(state, name) for name in _LISTS}
    return {
        "initial_trees": state.initial_trees,
        **lists,
        "finished": state.finished,
        "times": state.times,
    }


def read_state(values: Any, forest: Forest, initial_trees: int, plan: Plan, n_sets: int) -> State:
    """Check every value of a state and its agreement with the forest.

    Raise ValueError with the reason if a value is wrong.

    Parameters
    ----------
    values
        A result of `describe_state`.
    forest
        The trees that belong to it.
    initial_trees
        How many of them belong to an earlier model.
    plan
        The training.
    n_sets
        Number of evaluation sets.
    """
    if not isinstance(values, dict) or values.keys() != _ENTRIES:
        raise ValueError(f"a state consists of {', '.join(sorted(_ENTRIES))}")
    if not _is_whole(values["initial_trees"]) or values["initial_trees"] != initial_trees:
        raise ValueError(
            f"it starts from {values['initial_trees']!r} trees of an earlier model, not "
            f"{initial_trees}"
        )
    # The number of iterations comes from the trees, and all other lists must agree with it.
    trees = _read_trees(values["trees"], initial_trees, forest)
    n = len(trees)
    factors = _finite("factors", values["factors"], n)
    rates = _finite_or_empty("rates", values["rates"], n)
    if not all(rate > 0 for rate in rates):
        raise ValueError("a learning rate is not a positive number")
    # Rates are empty without steering, and errors are empty without an evaluation set to watch.
    errors = _finite_or_empty("errors", values["errors"], n)
    if not all(error >= 0 for error in errors):
        raise ValueError("an error is not a number from 0")
    if not isinstance(values["finished"], bool):
        raise ValueError("finished is neither true nor false")
    # All phases have to be there, because the loop adds to each of them.
    times = values["times"]
    if not isinstance(times, dict) or set(times) != set(PHASES):
        raise ValueError(f"times are not those of {', '.join(PHASES)}")
    seconds = _finite("times", [times[phase] for phase in PHASES], len(PHASES))
    if any(number < 0 for number in seconds):
        raise ValueError("a time is not a number from 0")
    return State(
        forest=forest,
        initial_trees=initial_trees,
        trees=trees,
        factors=factors,
        rates=rates,
        biases=_read_biases(values["biases"], n if plan.bias.columns else 0),
        history=_read_history(values["history"], list(plan.metrics), n_sets, n),
        kept=_read_kept(values["kept"], len(errors)),
        errors=errors,
        finished_after=n if values["finished"] else None,
        times=dict(zip(PHASES, seconds, strict=True)),
    )


def _read_trees(trees: Any, initial_trees: int, forest: Forest) -> list[int]:
    if not isinstance(trees, list) or not all(map(_is_whole, trees)):
        raise ValueError("its numbers of trees are not whole numbers from 0")
    # An iteration adds a tree, or finds no split and adds none.
    counts = [initial_trees, *trees]
    if any(later - earlier not in (0, 1) for earlier, later in zip(counts, trees, strict=False)):
        raise ValueError("its numbers of trees do not grow by one tree or none")
    if forest.n_trees != counts[-1]:
        raise ValueError(f"it counts {counts[-1]} trees and has {forest.n_trees}")
    return list(trees)


def _read_kept(kept: Any, n: int) -> list[int]:
    # After each iteration, the model keeps the trees up to it or up to an earlier iteration.
    is_list = isinstance(kept, list) and len(kept) == n and all(map(_is_whole, kept))
    if not is_list or any(not 1 <= last <= number for number, last in enumerate(kept, start=1)):
        raise ValueError("a kept iteration is not one of the iterations so far")
    return list(kept)


def _read_biases(biases: Any, n: int) -> list[list[float]]:
    is_list = isinstance(biases, list) and all(isinstance(values, list) for values in biases)
    if not is_list or len(biases) != n:
        raise ValueError(f"biases has not one list for each of {n} iterations")
    return [_finite("biases", values, len(biases[0])) for values in biases]


def _read_history(
    history: Any, metrics: Sequence[str], n_sets: int, n: int
) -> list[dict[str, list[float]]]:
    if not isinstance(history, list) or not all(isinstance(item, dict) for item in history):
        raise ValueError("its history is not a list of curves")
    if [set(curves) for curves in history] != [set(metrics)] * n_sets:
        raise ValueError("its history has other metrics or evaluation sets")
    # The file has the metrics in alphabetical order, but the first metric of the plan is special.
    read = [{name: _numbers(name, curves[name], n) for name in metrics} for curves in history]
    if any(math.isinf(number) for item in read for curve in item.values() for number in curve):
        raise ValueError("a metric is infinite")
    return read


def _finite_or_empty(name: str, values: Any, n: int) -> list[float]:
    return _finite(name, values, n if values else 0)


def _finite(name: str, values: Any, n: int) -> list[float]:
    numbers = _numbers(name, values, n)
    if not all(map(math.isfinite, numbers)):
        raise ValueError(f"{name} has a number that is not finite")
    return numbers


def _numbers(name: str, values: Any, n: int) -> list[float]:
    if not isinstance(values, list) or len(values) != n:
        raise ValueError(f"{name} has not one number for each of {n} iterations")
    # Python counts True and False as numbers, but the loop never writes them.
    if not all(map(is_number, values)):
        raise ValueError(f"{name} has an entry that is not a number")
    try:
        return [float(value) for value in values]
    except OverflowError:
        raise ValueError(f"{name} has a number that is too large") from None


def _is_whole(value: Any) -> bool:
    return is_whole(value) and bool(value >= 0)
