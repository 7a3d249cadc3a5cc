"""A fit on several machines, led by the client.

The client sends data to workers, lets them choose settings together, and restarts if a
worker is lost.
"""

from __future__ import annotations

import copy
import hashlib
import logging
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import attrgetter, getitem, methodcaller
from typing import Any

import numpy as np

from rankwright.cluster import arguments, dask, pieces, worker
from rankwright.cluster.options import Cluster, check_on_cluster
from rankwright.cluster.pieces import Piece
from rankwright.data.bins import SAMPLE_ROWS, Bins
from rankwright.data.columns import Columns
from rankwright.data.on_disk import to_disk
from rankwright.data.within_query import read_recipe
from rankwright.engines import load_engine
from rankwright.model import Model
from rankwright.objectives import Objective
from rankwright.objectives.function import FunctionObjective
from rankwright.support.locks import locked
from rankwright.training.checkpoint import Checkpoint
from rankwright.training.monotone import constrained
from rankwright.training.plan import Plan
from rankwright.training.progress import Display, say
from rankwright.training.result import model_of
from rankwright.training.state import Progress, State
from rankwright.training.strategies import Callbacks
from rankwright.training.unjudged import judged_counts, report_unjudged

_LOG = logging.getLogger("rankwright")
# Trees and seconds between the states that the client receives.
_INTERVAL = (50, 10.0)


@dataclass(frozen=True, eq=False)
class ClusterFit:
    """A fit on a cluster.

    Parameters
    ----------
    plan
        The plan, before the data decides the rest.
    cluster
        The workers.
    data, valid
        The training set and the evaluation sets, as `rankwright.cluster.dask.loaded_pieces` takes
        them. An evaluation set with data that is None is the training set.
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
    valid: Sequence[arguments.SpreadSet]
    names: Piece
    earlier: Model | None
    described: Mapping[str, Any]
    callbacks: Callbacks


def train_on(
    cluster: Any,
    plan: Plan,
    data: tuple[Any, ...],
    eval_set: Any,
    asked: Mapping[str, Any],
    *,
    start: tuple[str, Any] | None,
    eval_base_score: Any,
    earlier: Model | None,
    callbacks: Callbacks,
) -> tuple[Model, Objective]:
    """Train on the workers of a cluster, and return the model and its objective.

    Parameters
    ----------
    cluster
        The argument of ``Ranker.fit``.
    plan
        The plan as the parameters say.
    data
        The arguments X, y, qid, group and sample_weight of ``Ranker.fit``.
    eval_set
        As for ``Ranker.fit``.
    asked
        Further arguments of ``Ranker.fit``, which a cluster cannot use.
    start
        The field of the base scores, and these scores.
    eval_base_score
        As for ``Ranker.fit``.
    earlier
        A model to add trees to.
    callbacks
        Functions to call after each tree.
    """
    X, y, qid, group, weights = data
    check_on_cluster({**plan.parameters, **asked}, X)
    for _, _, term in plan.objective.terms():
        if isinstance(term, FunctionObjective):
            raise ValueError(
                "a function as objective sees all rows, and no worker has them; train on one machine."
            )
    where = Cluster.of(cluster)
    dask.require()
    if not load_engine(plan.engine).several_machines:
        raise ValueError(
            f"engine={plan.engine!r} trains on one machine; a cluster needs engine='xgboost', "
            "which trains on several."
        )
    field = None if start is None else start[0]
    names = arguments.column_names(X, y, qid, weights)
    fit = ClusterFit(
        replace(plan, base_score=field),
        where,
        arguments.spread_data(X, y, qid, group, weights, start),
        arguments.spread_sets(eval_set, X, y, qid, field, eval_base_score),
        names._replace(base_score=arguments.base_column(start)),
        earlier,
        {"label_column": arguments.column_of(y), "qid_column": arguments.column_of(qid)},
        callbacks,
    )
    return _fit(fit)


@dataclass
class _Spread:
    """Data on the workers: a future for each, with whole queries."""

    futures: list[Any]
    columns: Columns
    rows: list[int]
    fingerprint: str


@dataclass
class _Led:
    """The client's knowledge of a training, over all attempts.

    Parameters
    ----------
    saved
        The last state that the first worker has sent.
    history
        Metrics of each evaluation set so far.
    iteration
        Iterations so far.
    reported
        Iterations that callbacks know of, because a restart repeats some.
    stop, interrupted
        Whether training shall end, and whether Ctrl-C is the reason.
    """

    saved: worker.Saved | None = None
    history: list[dict[str, list[float]]] = field(default_factory=list)
    iteration: int = 0
    reported: int = 0
    stop: bool = False
    interrupted: bool = False


def _fit(fit: ClusterFit) -> tuple[Model, Objective]:
    """Train, and start again from the last state if a worker is lost."""
    retries, place, led = fit.cluster.retries, fit.plan.checkpoint, _Led()
    with dask.connect(fit.cluster.where, fit.plan.threads) as client:
        for attempt in range(1, retries + 2):
            try:
                # The team is made anew, because workers may have been lost or replaced.
                team = dask.Team(client)
                with team.noticing_losses():
                    return _attempt(team, fit, led)
            except dask.LostWorker as lost:
                left = "no retries left"
                if attempt <= retries:
                    left = f"retry {attempt} of {retries}"
                _LOG.warning("%s after %d trees; %s", lost, led.iteration, left)
                last = str(lost)
    remains = "nothing was kept; give the Ranker a checkpoint folder to resume from"
    if place is not None:
        n_saved = 0
        if led.saved is not None:
            n_saved = len(led.saved.values["trees"])
        remains = f"{place.path} has the first {n_saved} trees, and the same fit resumes from there"
    raise RuntimeError(f"{last}, and {retries} retries are used up: {remains}.")


def _attempt(team: dask.Team, fit: ClusterFit, led: _Led) -> tuple[Model, Objective]:
    dask.check_versions(team)
    reference = None if fit.earlier is None else fit.earlier.columns
    train = _spread(team, fit.data, fit.names, reference)
    # Workers without training rows do not train.
    team = dask.Team(team.client, team.workers[: len(train.futures)])
    # An evaluation set that is None is the training set.
    sets: list[_Spread | None] = []
    for number, (data, base_score) in enumerate(fit.valid):
        spread_set = None
        if data is not None:
            names_of_set = fit.names._replace(base_score=base_score)
            spread_set = _spread_set(team, data, number, names_of_set, train)
        sets.append(spread_set)
    recipe = read_recipe(fit.plan.within_query, train.columns)
    if fit.earlier is not None:
        fit.earlier.check_same_recipe(recipe)
    plan = constrained(fit.plan, train.columns, recipe, fit.earlier)
    # The workers compute features within the query themselves, because whole queries are there.
    if recipe:
        with_features = methodcaller("with_features", recipe, threads=1)
        for spread in (train, *sets):
            if spread is not None:
                spread.futures = team.each(with_features, spread.futures)
                names = [*spread.columns.feature_names, *recipe.names]
                spread.columns = replace(spread.columns, feature_names=names)
    # Only the training set: evaluation sets keep documents without a label.
    counts = team.results(team.each(judged_counts, train.futures))
    if report_unjudged(np.sum(counts, axis=0)):
        train.futures = team.each(worker.only_judged, train.futures)
    # All workers get the same plan, so the worker with the fewest threads decides.
    plan = replace(plan, threads=min(member.threads for member in team.workers))
    settled = [(plan, future, len(recipe.names), fit.cluster.exact) for future in train.futures]
    # Settings depend on the rows of all workers, and all workers get the same answer.
    plan = team.together(worker.settle, settled)
    if plan.notice:
        say(plan.notice, plan.verbose)
    bins = _bins(team, train, plan)
    initial = None if fit.earlier is None else fit.earlier.forest
    saved = None
    if plan.checkpoint is not None:
        prints = [train.fingerprint]
        prints += [train.fingerprint if data is None else data.fingerprint for data in sets]
        n_features = len(train.columns.feature_names)
        saved = Checkpoint(plan.checkpoint, plan, prints, n_features, initial)
    # Uneven shares make all workers wait for the largest, so the log has them.
    share = ", ".join(f"{rows / sum(train.rows):.0%}" for rows in train.rows)
    _LOG.info("%d rows on %d workers: %s", sum(train.rows), len(team.workers), share)
    with nullcontext() if saved is None else locked(saved.path, "a training"):
        if saved is not None and led.saved is None and (state := saved.load()) is not None:
            # A checkpoint may have more trees than are wanted now.
            led.saved = worker.save_state(state.first(plan.n_trees))
        state = _train(team, fit, plan, train, sets, bins, saved, led)
    if led.interrupted:
        _LOG.warning(
            "training was interrupted after %d iterations; the model has the trees so far",
            state.iteration,
        )
    columns, print_of_data = train.columns, train.fingerprint
    held_out = bool(fit.valid) and fit.valid[0].data is not None
    ended = {"interrupted": led.interrupted, "held_out": held_out}
    model = model_of(state, plan, columns, print_of_data, recipe, **ended, **fit.described)
    return model, plan.objective


def _run(
    work: worker.Work, data: Any, valid: Sequence[Any], place: tuple[Any, int], mailbox: str
) -> Any:
    return worker.train(work, data, valid, place, dask.Mailbox.at_worker(mailbox))


def _train(
    team: dask.Team,
    fit: ClusterFit,
    plan: Plan,
    train: _Spread,
    sets: Sequence[_Spread | None],
    bins: Bins,
    checkpoint: Checkpoint | None,
    led: _Led,
) -> State:
    """Train from the last state that is known, and follow the reports of the first worker."""
    n_initial, trees_before = 0, b""
    if fit.earlier is not None:
        n_initial, trees_before = fit.earlier.forest.n_trees, fit.earlier.forest.dump()
    interval = _INTERVAL
    if checkpoint is not None:
        interval = checkpoint.place.trees, checkpoint.place.seconds
    # The history starts again at the last state: the workers report later iterations anew.
    led.history = [{name: [] for name in plan.metrics} for _ in sets]
    led.iteration = 0
    if led.saved is not None:
        led.history = copy.deepcopy(led.saved.values["history"])
        led.iteration = len(led.saved.values["trees"])
    work = worker.Work(plan, bins, led.saved, trees_before, interval, fit.cluster.exact)
    arguments = []
    for number, future in enumerate(train.futures):
        valid = [None if data is None else data.futures[number] for data in sets]
        arguments.append((work, future, valid))
    with Display(plan.verbose, plan.n_trees, plan.target) as display:

        def on_message(kind: str, content: Any) -> bool:
            if kind == "interrupted":
                led.interrupted = led.stop = True
            elif kind == "state":
                led.saved = content
                if checkpoint is not None:
                    # A checkpoint of a cluster has the format of a checkpoint of a single machine.
                    checkpoint.save(worker.load_state(content, plan, n_initial, len(sets)))
            else:
                for step in content:
                    led.stop |= _follow(step, plan, led, display, fit.callbacks)
            return led.stop

        led.saved = team.together(_run, arguments, on_message)
    assert led.saved is not None
    state = worker.load_state(led.saved, plan, n_initial, len(sets))
    if checkpoint is not None:
        checkpoint.save(state)
    return state


def _follow(
    step: worker.Step, plan: Plan, led: _Led, display: Display, callbacks: Callbacks
) -> bool:
    """Show an iteration and call the callbacks once; return True if any of them wants training to end."""
    for curves, values in zip(led.history, step.values, strict=True):
        for name, value in values.items():
            curves[name].append(value)
    led.iteration = step.iteration
    # A restart repeats iterations, and callbacks have seen them already.
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
    team: dask.Team,
    data: Any,
    names: Piece,
    reference: Columns | None,
    train_rows: Sequence[int] | None = None,
) -> _Spread:
    """Bring whole queries together on the workers.

    A training set, without ``train_rows``, leaves out workers that would have no rows.
    """
    # The pieces are read wherever they are. Only their descriptions come to the client, and the
    # rows go from worker to worker.
    loaded = dask.loaded_pieces(team, data, names)
    described = team.results(
        [team.anywhere(pieces.describe, piece) for piece in loaded], "partition"
    )
    columns, labels = pieces.common_columns(described, reference), pieces.common_labels(described)
    rows = np.sum([piece.rows for piece in described], axis=0)
    workers = team.workers
    home = pieces.owners(rows, len(workers))
    loads = np.bincount(home, rows, len(workers)).astype(int)
    # If queries are few, some workers get no bucket, and buckets are dealt again to the other
    # workers.
    if train_rows is None:
        workers = [member for member, load in zip(workers, loads, strict=True) if load > 0]
        home = pieces.owners(rows, len(workers))
        loads = np.bincount(home, rows, len(workers)).astype(int)
    cut = [team.anywhere(pieces.portions, piece, columns, home, len(workers)) for piece in loaded]
    fields = [] if names.base_score is None else [names.base_score[0]]
    futures = []
    for number, member in enumerate(workers):
        parts = [team.anywhere(getitem, portion, number) for portion in cut]
        # Portions are computed anywhere, but the data stays on its worker for the whole training.
        futures.append(team.on(member, _assemble, parts, columns, labels, fields))
    hashes = team.results(dask.Team(team.client, workers).each(_hash, futures))
    # The sum of the hashes does not depend on the workers, so a checkpoint fits any number of
    # workers.
    names_or_number: Any = len(columns.feature_names)
    if columns.named:
        names_or_number = columns.feature_names
    content = names_or_number, sum(hashes) % 2**64, int(rows.sum())
    digest = hashlib.sha256(repr(content).encode()).hexdigest()[:32]
    return _Spread(futures, columns, loads.tolist(), digest)


def _spread_set(team: dask.Team, data: Any, number: int, names: Piece, train: _Spread) -> _Spread:
    """Bring the queries of an evaluation set together."""
    try:
        return _spread(team, data, names, train.columns, train.rows)
    except ValueError as error:
        raise ValueError(f"eval_set[{number}]: {error}") from None


def _assemble(
    parts: Sequence[Any], columns: Columns, labels: Sequence[str], fields: Sequence[str]
) -> Any:
    data = pieces.assemble(parts, columns)
    if data is None:
        return pieces.without_rows(columns, labels, fields)
    # Trees grow from bins. The features are read for bins and scores alone, so they need not stay
    # in memory.
    data.X = to_disk(data.X)
    return data


def _hash(data: Any) -> int:
    # The row that stands for an empty set is not part of the data.
    if data.weights is not None and not data.weights.any():
        return 0
    return pieces.content_hash(data)


def _bins(team: dask.Team, train: _Spread, plan: Plan) -> Bins:
    """Choose edges from a sample of the rows of all workers.

    Only the rows that count are sent to the client.
    """
    # Rows with the smallest hashes are a random sample that is the same for any number of workers.
    samples = team.each(worker.sample_rows, train.futures)
    hashes = team.results(team.each(attrgetter("hashes"), samples))
    every = np.sort(np.concatenate(hashes))
    # The hashes alone show which rows belong to the sample.
    largest = every[min(SAMPLE_ROWS, len(every)) - 1]
    first, *later = team.results(team.each(methodcaller("up_to", largest), samples))
    sample = reduce(lambda joined, part: joined.joined(part), later, first)
    names = train.columns.feature_names
    categorical = [names.index(name) for name in train.columns.categories]
    assert plan.tree_options.max_bin is not None
    return Bins.of(sample, plan.tree_options.max_bin, categorical)
