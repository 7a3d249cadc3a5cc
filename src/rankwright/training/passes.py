"""Trainings that consist of several: validation queries given back, folds that choose the number of trees, averages.

Each pass is one `run_training` with a checkpoint of its own inside that of the whole, so that the same ``fit`` resumes
whichever pass was interrupted.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright.data.dataset import RankingData
from rankwright.data.joining import check_joinable
from rankwright.data.labels import choose_label
from rankwright.data.within_query import Recipe
from rankwright.engines.contract import Forest
from rankwright.evaluation.per_query import Evaluator
from rankwright.kernels.compilation import announcing
from rankwright.model import Model
from rankwright.support.interrupts import deferred_interrupts
from rankwright.training.checkpoint import fingerprint
from rankwright.training.defaults import for_data
from rankwright.training.fitting import Callbacks, reducer_alone, run_training
from rankwright.training.outcome import model_of, position_bias_of
from rankwright.training.progress import show_notice
from rankwright.training.settings import Plan
from rankwright.training.state import State, no_times, timed
from rankwright.training.stopping import Watch, describe_stopping

Floats = NDArray[np.float64]

FOLDS = 5  # of early_stopping="cv"


class Fitted(NamedTuple):
    """What a training results in."""

    model: Model
    plan: Plan
    out_of_sample: Floats | None = (
        None  # with members: scores of the training rows by a member that did not see them
    )


@dataclass(frozen=True)
class Task:
    """What to train.

    Parameters
    ----------
    plan
        As the parameters say, before the data decides the rest.
    given, evaluated
        Data to train on and to evaluate, without features within the query.
    recipe
        The features within the query.
    initial
        Trees to add to.
    checkpoint, verbose, callbacks
        As in `run_training`.
    columns
        What the manifest says about columns of labels and queries.
    times
        Seconds spent before, by phase.
    stage
        Name of the pass, for progress; empty for the one that the curves are of.
    """

    plan: Plan
    given: RankingData
    evaluated: Sequence[RankingData]
    recipe: Recipe
    initial: Forest | None
    checkpoint: Any
    verbose: int
    callbacks: Callbacks
    columns: Mapping[str, Any]
    times: Mapping[str, float]
    stage: str = ""

    def part(self, name: str, **changes: Any) -> Task:
        """Return a pass of this training with a checkpoint of its own."""
        stage = ", ".join(text for text in (self.stage, name) if text)
        return replace(
            self,
            **{
                "checkpoint": _inside(self.checkpoint, name),
                "stage": stage,
                "times": no_times(),
                **changes,
            },
        )


class _Pass(NamedTuple):
    """A pass that came to an end."""

    state: State
    plan: Plan
    train: RankingData
    interrupted: bool

    @property
    def complete(self) -> bool:
        """Whether it came to its own end, not to that of Ctrl-C or a callback."""
        ended = self.state.finished or self.state.iteration >= self.plan.settings.n_trees
        return ended and not self.interrupted

    def model(self, task: Task, **more: Any) -> Model:
        bias = position_bias_of(self.state, self.plan, self.train, task.recipe)
        described = {**task.columns, "position_bias": bias, "interrupted": self.interrupted, **more}
        return model_of(
            self.state, self.plan, self.train, fingerprint(self.train), task.recipe, **described
        )


def train(task: Task, finish: Callable[[Fitted], None]) -> None:
    """Train as the parameters say, and call ``finish`` once with the result, while interrupts wait."""
    parameters = task.plan.parameters
    if parameters["members"] > 1:
        _train_members(task, finish)
    elif parameters["early_stopping"] == "cv":
        _train_after_folds(task, finish)
    elif parameters["refit"]:
        _train_twice(task, finish)
    else:
        _run(task, lambda ended: finish(Fitted(ended.model(task), ended.plan)))


def _run(task: Task, finish: Callable[[_Pass], None]) -> None:
    """One pass."""
    threads, names = task.plan.settings.threads, task.given.feature_names
    times = dict(task.times)
    with announcing(show_notice(task.verbose)), timed(times, "preparation"):
        rows = task.given.with_features(task.recipe, canonical=True, threads=threads)
        plan = for_data(task.plan, rows, reducer_alone(task.plan), derived=len(task.recipe.names))
        valid = [
            rows
            if data is task.given
            else data.with_features(task.recipe, names=names, threads=threads)
            for data in task.evaluated
        ]
    run_training(
        plan,
        rows,
        valid,
        task.initial,
        times=times,
        checkpoint=task.checkpoint,
        verbose=task.verbose,
        callbacks=task.callbacks,
        finish=lambda state, interrupted: finish(_Pass(state, plan, rows, interrupted)),
        stage=task.stage,
    )


def _train_twice(task: Task, finish: Callable[[Fitted], None]) -> None:
    """Choose the number of trees on the first evaluation set, then train on its queries too."""
    bias, propensity = task.plan.settings.bias, task.plan.settings.propensity
    needed = [
        *(() if bias is None else bias.columns),
        *(() if propensity is None else (propensity.column,)),
    ]
    if missing := [name for name in needed if name not in task.evaluated[0].fields]:
        raise ValueError(
            f"refit trains on the queries of eval_set[0] too, which has no field {missing[0]!r}; give both as "
            "RankingData with that field or name a column of both, or leave out refit."
        )
    if task.evaluated[0] is task.given:
        raise ValueError(
            "refit trains on the queries of eval_set[0] too, but these are the training queries; give others."
        )
    parts = [
        _with_common_fields(part, (task.given, task.evaluated[0]))
        for part in (task.given, task.evaluated[0])
    ]
    try:
        check_joinable(parts)
    except ValueError as error:
        raise ValueError(f"refit joins the training data and eval_set[0]: {error}") from None
    first: list[Fitted] = []
    complete: list[bool] = []

    def first_done(ended: _Pass) -> None:
        first.append(Fitted(ended.model(task), ended.plan))
        complete.append(ended.complete)
        if not ended.complete:
            finish(first[0])

    _run(task, first_done)
    if not complete[0]:
        return
    chosen = first[0].model.manifest
    joined = RankingData.concatenate(parts)
    trees = _scaled(
        chosen["stopping"]["chosen_iteration"], joined.n_rows / task.given.n_rows, task.plan
    )
    second = task.part(
        "refit", plan=_without_stopping(task.plan, trees), given=joined, evaluated=()
    )

    def second_done(ended: _Pass) -> None:
        if not ended.complete:  # the first model is better than a part of the second
            finish(_interrupted(first[0], ended.interrupted))
            return
        times = _summed([chosen["times"], ended.state.times])
        refit = {"trees": trees, "rows": joined.n_rows, "queries": joined.n_queries}
        history = {name: chosen[name] for name in ("stopping", "evals_result")}
        history["trained_on"] = [chosen["data_fingerprint"], _fingerprint(task, task.evaluated[0])]
        finish(Fitted(ended.model(second, **history, refit=refit, times=times), ended.plan))

    try:
        _run(second, second_done)
    except KeyboardInterrupt:  # before its first tree
        with deferred_interrupts():
            finish(_interrupted(first[0], True))


def _train_after_folds(task: Task, finish: Callable[[Fitted], None]) -> None:
    """Choose the number of trees on held-out folds of the queries, then train on all of them."""
    plan, given = task.plan, task.given
    if given.n_queries < FOLDS:
        raise ValueError(
            f"early_stopping='cv' needs at least {FOLDS} queries, one for each fold; got {given.n_queries}."
        )
    if not given.labels:
        raise ValueError(
            "early_stopping='cv' evaluates held-out queries by labels, and there are pairs alone; give labels too."
        )
    if not _has_value(given, plan):
        raise ValueError(
            f"early_stopping='cv' watches {plan.target}, but no query has a relevant document."
        )
    values: list[Floats] = []
    weights: list[Floats] = []
    rows: list[int] = []
    times: list[Mapping[str, float]] = []
    allowed = 1.0
    for number, (own, held_out) in enumerate(given.kfold(FOLDS, seed=plan.settings.seed), start=1):
        if not _has_value(held_out, plan):
            continue
        # The first checkpoint is in the folder itself, where others look to see whether a training can be resumed.
        place = {"checkpoint": task.checkpoint} if not values else {}
        name = f"fold {number} of {FOLDS}"
        fold = task.part(name, given=own, evaluated=[held_out], callbacks=(), **place)
        ended: list[_Pass] = []
        _run(fold, ended.append)
        if ended[0].interrupted:
            raise KeyboardInterrupt
        scored, weight = _held_out_values(ended[0], held_out, fold)
        values.append(scored)
        weights.append(weight)
        rows.append(own.n_rows)
        times.append(ended[0].state.times)
        allowed = ended[0].plan.settings.stopping_errors
    watch = Watch(
        plan.settings.stopping_rule,
        higher_is_better=plan.target.higher_is_better,
        weights=np.concatenate(weights),
        errors=allowed,
    )
    iterations = min(len(scored) for scored in values)
    pooled = np.concatenate([scored[:iterations] for scored in values], axis=1)
    curve = np.array([_weighted_mean(queries, np.concatenate(weights)) for queries in pooled])
    choices = [
        watch.see(number, queries, curve[number - 1])
        for number, queries in enumerate(pooled, start=1)
    ]
    best = int(np.argmax(curve if plan.target.higher_is_better else -curve)) + 1
    choice = choices[-1].iteration
    errors = [chosen.error for chosen in choices]
    described = describe_stopping(plan.settings.stopping_rule, best, choice, curve, errors, allowed)
    trees = _scaled(choice, given.n_rows / float(np.mean(rows)), plan)
    final = replace(
        task,
        plan=_without_stopping(plan, trees),
        checkpoint=_inside(task.checkpoint, "all queries"),
        stage=task.stage,
    )

    def done(ended: _Pass) -> None:
        seconds = _summed([*times, ended.state.times])
        finish(
            Fitted(
                ended.model(final, stopping={**described, "folds": FOLDS}, times=seconds),
                ended.plan,
            )
        )

    _run(final, done)


def _train_members(task: Task, finish: Callable[[Fitted], None]) -> None:
    """Train several models, each without another part of the queries, and join their trees."""
    plan, given, n_members = task.plan, task.given, int(task.plan.parameters["members"])
    if task.initial is not None:
        raise ValueError(
            "members cannot be added to init_model, whose trees each of them would have; leave one out."
        )
    if n_members > given.n_queries:
        raise ValueError(
            f"members must be at most the number of queries, {given.n_queries}; got {n_members}."
        )
    parts = np.array_split(
        np.random.default_rng(plan.settings.seed).permutation(given.n_queries), n_members
    )
    scores = np.full(given.n_rows, np.nan)
    done: list[Fitted] = []
    for number, left_out in enumerate(parts):
        held_out = np.zeros(given.n_queries, dtype=bool)
        held_out[left_out] = True
        own = given.subset(~held_out)
        seed = int(
            np.random.SeedSequence([plan.settings.seed % 2**63, number]).generate_state(1)[0]
        )
        parameters = {**plan.parameters, "members": 1}
        changes = {
            "plan": plan._replace(
                parameters=parameters, settings=replace(plan.settings, seed=seed)
            ),
            "given": own,
            "evaluated": [own if data is given else data for data in task.evaluated],
        }
        if number == 0:
            changes |= {"checkpoint": task.checkpoint, "stage": ""}
        results: list[Fitted] = []
        try:
            train(task.part(f"member {number + 1} of {n_members}", **changes), results.append)
        except KeyboardInterrupt:
            if not done:
                raise
        if not results or results[0].model.manifest["interrupted"]:
            complete = done or results
            with deferred_interrupts():
                finish(_interrupted(_average(complete, task, None), True))
            return
        done += results
        scores[np.repeat(held_out, given.group)] = results[0].model.predict(
            given.subset(held_out), threads=plan.settings.threads
        )
    with deferred_interrupts():
        finish(_average(done, task, scores))


def _average(members: Sequence[Fitted], task: Task, scores: Floats | None) -> Fitted:
    """Join the trees of several models, scaled so that their sum is the mean of the models."""
    models = [member.model for member in members]
    forest = reduce(
        lambda a, b: a.joined(b), [model.forest.scaled(1 / len(models)) for model in models]
    )
    first, whole = models[0].manifest, _fingerprint(task, task.given)
    manifest = {
        **first,
        "parameters": {**first["parameters"], "members": int(task.plan.parameters["members"])},
        "members": [model.n_trees for model in models],
        "best_iteration": forest.n_trees,
        "seed": task.plan.settings.seed,
        "data_fingerprint": whole,
        "trained_on": [whole, *first.get("trained_on", [])[1:]],
        "times": _summed([model.manifest["times"] for model in models]),
    }
    return Fitted(Model(forest, models[0].columns, manifest), members[0].plan, scores)


def _has_value(data: RankingData, plan: Plan) -> bool:
    """Whether the first metric has a value in a query that counts: most metrics need a relevant document."""
    counts = (
        np.ones(data.n_queries, dtype=bool)
        if data.weights is None
        else data.weights[data.boundaries[:-1]] > 0
    )
    for _, term in plan.target.terms():
        counts &= term.bind(choose_label(data.labels, term.label), data.boundaries).scale != 0
    return bool(counts.any())


def _fingerprint(task: Task, data: RankingData) -> str:
    """Hash data as a training on it alone would, for its manifest."""
    names, threads = task.given.feature_names, task.plan.settings.threads
    return fingerprint(
        data.with_features(task.recipe, names=names, canonical=True, threads=threads)
    )


def _held_out_values(ended: _Pass, held_out: RankingData, task: Task) -> tuple[Floats, Floats]:
    """Value of the first metric of each held-out query after each iteration, and weights of the queries."""
    state, threads, target = ended.state, ended.plan.settings.threads, ended.plan.target
    assert state.forest is not None
    names = task.given.feature_names
    X = held_out.with_features(task.recipe, names=names, threads=threads).X
    evaluator = Evaluator(
        held_out.labels,
        group=held_out.group,
        metrics=[target],
        weights=held_out.weights,
        threads=threads,
    )
    sums, before = np.zeros(held_out.n_rows), 0
    values = np.empty((state.iteration, held_out.n_queries))
    for number, (trees, factor) in enumerate(zip(state.trees, state.factors, strict=True)):
        if trees > before:
            sums += state.forest.predict(X, threads=threads, start=before, stop=trees)
        values[number] = evaluator(factor * sums).per_query[str(target)]
        before = trees
    return values, np.ones(held_out.n_queries) if evaluator.weights is None else evaluator.weights


def _summed(times: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Seconds of several trainings, by phase."""
    return {phase: sum(one[phase] for one in times) for phase in times[0]}


def _weighted_mean(values: Floats, weights: Floats) -> float:
    counted = ~np.isnan(values)
    return float(np.average(values[counted], weights=weights[counted]))


def _scaled(trees: int, rows: float, plan: Plan) -> int:
    """More rows take more trees, in proportion, but no more than the user allows."""
    return max(1, min(plan.settings.n_trees, round(trees * rows)))


def _without_stopping(plan: Plan, trees: int) -> Plan:
    return plan._replace(settings=replace(plan.settings, n_trees=trees, patience=None))


def _with_common_fields(data: RankingData, parts: Sequence[RankingData]) -> RankingData:
    """Return the data with the fields that all parts have."""
    plain = copy.copy(data)
    plain.fields = {
        name: v for name, v in data.fields.items() if all(name in part.fields for part in parts)
    }
    return plain


def _interrupted(fitted: Fitted, interrupted: bool) -> Fitted:
    model = fitted.model
    manifest = {**model.manifest, "interrupted": interrupted}
    return fitted._replace(model=Model(model.forest, model.columns, manifest))


def _inside(checkpoint: Any, name: str) -> Any:
    """Return the option ``checkpoint`` for a folder inside that of a whole training."""
    folder = name.replace(" ", "-")
    if isinstance(checkpoint, dict) and isinstance(checkpoint.get("path"), str | os.PathLike):
        return {**checkpoint, "path": os.path.join(checkpoint["path"], folder)}
    return (
        os.path.join(checkpoint, folder)
        if isinstance(checkpoint, str | os.PathLike)
        else checkpoint
    )
