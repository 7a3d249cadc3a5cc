"""A fit on several machines, led from here: data to workers, settings from all of it, a restart where one is lost."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rankwright.cluster import arguments, dask, worker
from rankwright.cluster.options import Cluster, check_on_cluster
from rankwright.cluster.pieces import (
    Piece,
    assemble,
    common_columns,
    common_labels,
    content_hash,
    describe,
    owners,
    portions,
    without_rows,
)
from rankwright.data.bins import SAMPLE_ROWS, Bins, RowSample
from rankwright.data.columns import Columns
from rankwright.data.on_disk import to_disk
from rankwright.data.within_query import read_recipe
from rankwright.engines import load_engine
from rankwright.engines.contract import Forest
from rankwright.model import Model
from rankwright.objectives import Objective
from rankwright.support.locks import locked_folder
from rankwright.training.checkpoint import Checkpoint
from rankwright.training.plan import Plan
from rankwright.training.progress import Display
from rankwright.training.result import model_of
from rankwright.training.state import Progress, State
from rankwright.training.strategies import Callbacks

_LOG = logging.getLogger("rankwright")
_INTERVAL = (50, 10.0)  # trees and seconds between the states that the client receives


@dataclass
class _Spread:
    """Data on the workers: a future for each, with whole queries."""

    futures: list[Any]
    columns: Columns
    rows: list[int]
    fingerprint: str = ""


@dataclass(frozen=True, eq=False)
class ClusterFit:
    """A fit on a cluster.

    Parameters
    ----------
    plan
        What to train; what the data decides is filled in later.
    cluster
        Where.
    data, valid
        The training set and the evaluation sets, as `rankwright.cluster.dask.loaded_pieces` takes them; an evaluation
        set that is None is the training set.
    names
        Names of columns, in the form of a piece without a source.
    earlier
        A model to add trees to.
    described
        Entries of the manifest about columns of labels and queries.
    callbacks
        As for `Ranker`; the client calls them.
    """

    plan: Plan
    cluster: Cluster
    data: Any
    valid: Sequence[Any]
    names: Piece
    earlier: Model | None
    described: Mapping[str, Any]
    callbacks: Callbacks

    @property
    def initial(self) -> Forest | None:
        """Trees to add to."""
        return None if self.earlier is None else self.earlier.forest


@dataclass
class _Led:
    """What the client knows of a training, over all attempts."""

    saved: worker.Saved | None = None
    history: list[dict[str, list[float]]] = field(default_factory=list)
    iteration: int = 0
    reported: int = 0  # iterations that callbacks know of: a restart repeats some
    stop: bool = False
    interrupted: bool = False


def train_on(
    cluster: Any,
    plan: Plan,
    data: tuple[Any, ...],
    eval_set: Any,
    asked: Mapping[str, Any],
    *,
    earlier: Model | None,
    callbacks: Callbacks,
) -> tuple[Model, Objective]:
    """Train on the workers of a cluster, and return the model and its objective.

    Parameters
    ----------
    cluster
        The argument of ``Ranker.fit``.
    plan
        What to train.
    data
        The arguments X, y, qid, group and sample_weight of ``Ranker.fit``.
    eval_set
        As for ``Ranker.fit``.
    asked
        Further arguments of ``Ranker.fit``, which only one machine can do.
    earlier
        A model to add trees to.
    callbacks
        Functions to call after each tree.
    """
    X, y, qid, group, weights = data
    check_on_cluster({**plan.parameters, **asked}, X)
    where = Cluster.of(cluster)
    dask.require()
    if not load_engine(plan.engine).several_machines:
        raise ValueError(
            f"engine={plan.engine!r} trains on one machine; a cluster needs engine='xgboost', "
            "which trains on several."
        )
    request = ClusterFit(
        plan,
        where,
        arguments.spread_data(X, y, qid, group, weights),
        arguments.spread_sets(eval_set, X, y, qid),
        arguments.column_names(X, y, qid, weights),
        earlier,
        {"label_column": arguments.column_of(y), "qid_column": arguments.column_of(qid)},
        callbacks,
    )
    return fit(request)


def fit(request: ClusterFit) -> tuple[Model, Objective]:
    """Train, and start again from the last state if a worker is lost."""
    cluster, plan = request.cluster, request.plan
    led = _Led()
    with dask.connect(cluster.where, plan.threads) as client:
        for attempt in range(cluster.retries + 1):
            try:
                workers = dask.workers_of(client)
                with dask.noticing_losses(client, workers):
                    return _attempt(client, workers, request, led)
            except dask.LostWorker as lost:
                left = (
                    f"retry {attempt + 1} of {cluster.retries}"
                    if attempt < cluster.retries
                    else "no retries left"
                )
                _LOG.warning("%s after %d trees; %s", lost, led.iteration, left)
                last = str(lost)
    n_saved = 0 if led.saved is None else len(led.saved.rest["trees"])
    remains = "nothing was kept; give the Ranker a checkpoint folder to resume from"
    if plan.checkpoint is not None:
        path = plan.checkpoint.path
        remains = f"{path} has the first {n_saved} trees, and the same fit resumes from there"
    raise RuntimeError(f"{last}, and {cluster.retries} retries are used up: {remains}.")


def _attempt(
    client: Any, workers: Sequence[Any], request: ClusterFit, led: _Led
) -> tuple[Model, Objective]:
    dask.check_versions(client, workers)
    names, exact = request.names, request.cluster.exact
    train = _spread(
        client,
        workers,
        request.data,
        names,
        None if request.earlier is None else request.earlier.columns,
    )
    workers = workers[: len(train.futures)]
    sets = [
        None if one is None else _spread_set(client, workers, one, number, names, train)
        for number, one in enumerate(request.valid)
    ]
    recipe = read_recipe(request.plan.within_query, train.columns)
    if request.earlier is not None:
        request.earlier.check_same_recipe(recipe)
    if recipe:
        for part in (train, *sets):
            if part is not None:
                pairs = _pairs(workers, worker.with_features, part.futures)
                part.futures = [dask.on_worker(client, *pair, recipe) for pair in pairs]
                part.columns = replace(
                    part.columns, feature_names=[*part.columns.feature_names, *recipe.names]
                )
    threads = min(one.threads for one in workers)
    plan = replace(request.plan, threads=threads)
    plan = dask.together(
        client, workers, _settle, [(plan, one, len(recipe.names), exact) for one in train.futures]
    )
    bins = _bins(client, workers, train, plan)
    prints = [
        train.fingerprint,
        *(train.fingerprint if one is None else one.fingerprint for one in sets),
    ]
    saved = None
    if plan.checkpoint is not None:
        n_features = len(train.columns.feature_names)
        saved = Checkpoint(plan.checkpoint, plan, prints, n_features, request.initial)
    share = ", ".join(f"{rows / sum(train.rows):.0%}" for rows in train.rows)
    _LOG.info("%d rows on %d workers: %s", sum(train.rows), len(workers), share)
    with nullcontext() if saved is None else locked_folder(saved.path, "a training"):
        if saved is not None and led.saved is None and (state := saved.load()) is not None:
            led.saved = worker.save_state(
                state.first(plan.n_trees)
            )  # it may have more trees than are wanted
        state = _train(client, workers, request, plan, train, sets, bins, saved, led)
    if led.interrupted:
        _LOG.warning(
            "training was interrupted after %d iterations; the model has the trees so far",
            state.iteration,
        )
    model = model_of(
        state,
        plan,
        train.columns,
        train.fingerprint,
        recipe,
        **request.described,
        interrupted=led.interrupted,
    )
    return model, plan.objective


def _pairs(
    workers: Sequence[Any], function: Callable[..., Any], futures: Sequence[Any]
) -> list[tuple[Any, ...]]:
    return [(one, function, future) for one, future in zip(workers, futures, strict=True)]


def _settle(plan: Plan, data: Any, derived: int, exact: bool, place: tuple[Any, int]) -> Plan:
    return worker.settle(plan, data, derived, worker.Place(place[0], place[1], exact))


def _run(
    plan: Plan,
    data: Any,
    valid: Sequence[Any],
    bins: Bins,
    start: worker.Saved | None,
    initial: bytes,
    interval: tuple[int, float],
    exact: bool,
    place: tuple[Any, int],
    mailbox: str,
) -> Any:
    sender = dask.Sender(mailbox)
    at = worker.Place(place[0], place[1], exact)
    return worker.train(
        plan, data, valid, bins, start, initial, interval, at, sender.report, sender.stopped
    )


def _train(
    client: Any,
    workers: Sequence[Any],
    request: ClusterFit,
    plan: Plan,
    train: _Spread,
    sets: Sequence[_Spread | None],
    bins: Bins,
    saved: Checkpoint | None,
    led: _Led,
) -> State:
    """Train from the last state that is known, and follow what the first worker reports."""
    n_initial = 0 if request.initial is None else request.initial.n_trees
    content = b"" if request.initial is None else request.initial.dump()
    interval = _INTERVAL if saved is None else (saved.place.trees, saved.place.seconds)
    led.history = [{name: [] for name in plan.metrics} for _ in sets]
    led.iteration = 0
    if led.saved is not None:
        led.history = [
            {name: list(curve) for name, curve in one.items()} for one in led.saved.rest["history"]
        ]
        led.iteration = len(led.saved.rest["trees"])
    arguments: list[tuple[Any, ...]] = []
    for number, part in enumerate(train.futures):
        valid = [None if one is None else one.futures[number] for one in sets]
        arguments.append(
            (plan, part, valid, bins, led.saved, content, interval, request.cluster.exact)
        )
    with Display(plan.verbose, plan.n_trees, plan.target) as display:

        def on_message(kind: str, content: Any) -> bool:
            if kind == "interrupted":
                led.interrupted = led.stop = True
            elif kind == "state":
                led.saved = content
                if saved is not None:
                    saved.save(worker.load_state(content, plan, n_initial, len(sets)))
            else:
                for step in content:
                    led.stop |= _follow(step, plan, led, display, request.callbacks)
            return led.stop

        led.saved = dask.together(client, workers, _run, arguments, on_message)
    assert led.saved is not None
    state = worker.load_state(led.saved, plan, n_initial, len(sets))
    if saved is not None:
        saved.save(state)
    return state


def _follow(
    step: worker.Step, plan: Plan, led: _Led, display: Display, callbacks: Callbacks
) -> bool:
    """Show an iteration and tell callbacks of it, once; returns whether one wants training to end."""
    for curves, values in zip(led.history, step.values, strict=True):
        for name, value in values.items():
            curves[name].append(value)
    led.iteration = step.iteration
    if step.iteration <= led.reported:
        return False
    led.reported = step.iteration
    progress = Progress(
        iteration=step.iteration,
        n_estimators=plan.n_trees,
        done=step.done,
        history=led.history,
        seconds=step.seconds,
        times=step.times,
    )
    display.update(progress)
    answers = [callback(progress) is True for callback in callbacks]
    return any(answers)


def _spread(
    client: Any,
    workers: Sequence[Any],
    data: Any,
    names: Piece,
    reference: Columns | None,
    train_rows: Sequence[int] | None = None,
) -> _Spread:
    """Bring whole queries together on the workers; a training set leaves out workers that would have no rows."""
    loaded = dask.loaded_pieces(client, workers, data, names)
    described = dask.results(
        client,
        workers,
        [dask.anywhere(client, workers, describe, one) for one in loaded],
        "partition",
    )
    columns, labels = common_columns(described, reference), common_labels(described)
    rows = np.sum([one.rows for one in described], axis=0)
    home = owners(rows, len(workers))
    loads = np.bincount(home, rows, len(workers)).astype(int)
    if train_rows is None:
        workers = [one for one, load in zip(workers, loads, strict=True) if load > 0]
        home = owners(rows, len(workers))
        loads = np.bincount(home, rows, len(workers)).astype(int)
    n = len(workers)
    cut = [dask.anywhere(client, workers, portions, one, columns, home, n) for one in loaded]
    futures = []
    for number, one in enumerate(workers):
        own = [dask.anywhere(client, workers, _pick, portion, number) for portion in cut]
        futures.append(dask.on_worker(client, one, _assemble, own, columns, labels))
    hashes = dask.results(
        client, workers, [dask.on_worker(client, *pair) for pair in _pairs(workers, _hash, futures)]
    )
    total = sum(hashes) % 2**64
    text = repr(
        (
            columns.feature_names if columns.named else len(columns.feature_names),
            total,
            int(rows.sum()),
        )
    )
    return _Spread(futures, columns, loads.tolist(), hashlib.sha256(text.encode()).hexdigest()[:32])


def _spread_set(
    client: Any, workers: Sequence[Any], data: Any, number: int, names: Piece, train: _Spread
) -> _Spread:
    """Bring the queries of an evaluation set together."""
    try:
        return _spread(client, workers, data, names, train.columns, train.rows)
    except ValueError as error:
        raise ValueError(f"eval_set[{number}]: {error}") from None


def _pick(portion: Sequence[Any], number: int) -> Any:
    return portion[number]


def _assemble(parts: Sequence[Any], columns: Columns, labels: Sequence[str]) -> Any:
    data = assemble(parts, columns)
    if data is None:
        return without_rows(columns, labels)
    # Trees grow from bins. The features are read for bins and scores alone, so they need not stay
    # in memory.
    data.X = to_disk(data.X)
    return data


def _hash(data: Any) -> int:
    return 0 if data.weights is not None and not data.weights.any() else content_hash(data)


def _bins(client: Any, workers: Sequence[Any], train: _Spread, plan: Plan) -> Bins:
    """Choose edges from a sample of the rows of all workers, of which only those that count are sent here."""
    samples = [
        dask.on_worker(client, *pair) for pair in _pairs(workers, worker.sample_rows, train.futures)
    ]
    hashes = [
        dask.on_worker(client, *pair) for pair in _pairs(workers, worker.sampled_hashes, samples)
    ]
    every = np.sort(np.concatenate(dask.results(client, workers, hashes)))
    largest = int(every[min(SAMPLE_ROWS, len(every)) - 1])
    chosen = [
        dask.on_worker(client, *pair, largest)
        for pair in _pairs(workers, worker.sampled_up_to, samples)
    ]
    sample: RowSample | None = None
    for own in dask.results(client, workers, chosen):
        sample = own if sample is None else sample.joined(own)
    assert sample is not None
    names = train.columns.feature_names
    categorical = [names.index(name) for name in train.columns.categories]
    assert plan.tree_options.max_bin is not None
    return Bins.of(sample, plan.tree_options.max_bin, categorical)
