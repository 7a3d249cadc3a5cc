"""Strategies of a training: once, after folds chose the number of trees, with a refit, as members.

A training consists of passes. Each pass runs the loop once, with a checkpoint of its own inside the
checkpoint of the whole training, so that the same ``fit`` resumes whichever pass was interrupted.

`train` returns a model, and its caller defers Ctrl-C until it has taken the model over. Work that
may take long allows Ctrl-C meanwhile: preparing and hashing data, reading a checkpoint, the loop,
and scoring held-out queries. The rest is short: the snapshot, its last save and its description.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright.data.dataset import RankingData
from rankwright.data.folds import Folds
from rankwright.data.labels import as_not_relevant, choose_label
from rankwright.data.within_query import Recipe
from rankwright.engines import load_engine
from rankwright.engines.contract import Forest
from rankwright.evaluation.per_query import Evaluator
from rankwright.model import Model
from rankwright.objectives import Objective
from rankwright.support.interrupts import Interrupts
from rankwright.support.locks import locked
from rankwright.support.other_libraries import library_of
from rankwright.support.reducer import ALONE, EXACT_ALONE, Reducer
from rankwright.training.checkpoint import Checkpoint, fingerprint
from rankwright.training.defaults import for_data
from rankwright.training.loop import Boosting
from rankwright.training.other_names import refuse_callback
from rankwright.training.plan import AfterFolds, Members, Plan, Refit
from rankwright.training.progress import Display, announcing_compilation, say
from rankwright.training.result import describe_position_bias, model_of
from rankwright.training.state import Progress, State, no_times, timed, total_scores
from rankwright.training.stopping import Watch, describe_stopping

if TYPE_CHECKING:
    from rankwright.linear_start import LinearStart

Floats = NDArray[np.float64]
Callbacks = Sequence[Callable[[Progress], object]]

_LOG = logging.getLogger("rankwright")


class Fitted(NamedTuple):
    """The result of a training.

    With several members, ``out_of_sample`` has the scores of the training rows by a member that was
    not trained on them.
    """

    model: Model
    objective: Objective
    out_of_sample: Floats | None = None

    def interrupted(self, by_ctrl_c: bool = True) -> Fitted:
        """Return the same model, marked as the result of a training that did not come to its end."""
        model = self.model
        manifest = {**model.manifest, "interrupted": by_ctrl_c}
        return self._replace(model=Model(model.forest, model.columns, manifest))


@dataclass(frozen=True, eq=False)
class Training:
    """A training, or a pass of it.

    Parameters
    ----------
    plan
        The plan as the parameters say, before the data decides the rest.
    data, valid
        Data to train on and to evaluate, without features within the query.
    recipe
        The features within the query.
    initial
        Trees of an earlier model to add to.
    callbacks
        Functions to call after each tree.
    columns
        Entries of the manifest about columns of labels and queries.
    times
        Seconds spent before, by phase.
    interrupts
        The Ctrl-Cs that wait for the result.
    stage
        Name of the pass, for progress; empty for the pass with the curves that are kept.
    """

    plan: Plan
    data: RankingData
    valid: Sequence[RankingData]
    recipe: Recipe
    initial: Forest | None
    callbacks: Callbacks
    columns: Mapping[str, Any]
    times: Mapping[str, float]
    interrupts: Interrupts
    stage: str = ""

    def part(self, name: str, **changes: Any) -> Training:
        """Return a pass of this training, with a checkpoint of its own."""
        plan = self.plan
        if plan.checkpoint is not None:
            plan = replace(plan, checkpoint=plan.checkpoint.inside(name))
        stage = f"{self.stage}, {name}" if self.stage else name
        entries = {"plan": plan, "stage": stage, "times": no_times()}
        return replace(self, **{**entries, **changes})

    def with_plan(self, **changes: Any) -> Training:
        """Return this training with changes of its plan."""
        return replace(self, plan=replace(self.plan, **changes))

    def fingerprint(self, data: RankingData) -> str:
        """Hash data as a training on it alone would, for its manifest."""
        return fingerprint(self.rows_to_learn(data))

    def rows_to_learn(self, data: RankingData) -> RankingData:
        """Return the rows as the loop trains on them."""
        names, threads = self.data.feature_names, self.plan.threads
        return data.to_learn(self.recipe, names=names, threads=threads)

    def with_features(self, data: RankingData) -> RankingData:
        """Return rows to evaluate."""
        names, threads = self.data.feature_names, self.plan.threads
        return data.with_features(self.recipe, names=names, threads=threads)


class Pass(NamedTuple):
    """A pass that came to an end, with the settings that its data decided."""

    state: State
    plan: Plan
    rows: RankingData
    interrupted: bool

    @property
    def complete(self) -> bool:
        """Whether the pass came to its own end, and was not ended by Ctrl-C or a callback."""
        ended = self.state.finished or self.state.iteration >= self.plan.n_trees
        return ended and not self.interrupted

    def fitted(self, training: Training, **entries: Any) -> Fitted:
        """Describe the result, with further entries of the manifest."""
        recipe = training.recipe
        model = model_of(
            self.state,
            self.plan,
            self.rows,
            fingerprint(self.rows),
            recipe,
            **training.columns,
            position_bias=describe_position_bias(self.state, self.plan, self.rows, recipe),
            interrupted=self.interrupted,
            held_out=bool(training.valid) and training.valid[0] is not training.data,
            **entries,
        )
        return Fitted(model, self.plan.objective)


def check_callbacks(callbacks: Any) -> None:
    """Raise ValueError unless callbacks are None or a list of functions."""
    functions = [] if callbacks is None else callbacks
    for function in functions if isinstance(functions, list | tuple) else [functions]:
        library = library_of(function)
        if library is not None:
            refuse_callback(function, library)
    if not isinstance(functions, list | tuple) or not all(map(callable, functions)):
        raise ValueError(
            f"callbacks must be a list of functions that take a Progress; got {callbacks!r}."
        )


def train(training: Training) -> Fitted:
    """Train by the strategy of the plan."""
    strategy = training.plan.strategy
    if isinstance(strategy, Members):
        return _train_members(training, strategy)
    if isinstance(strategy, AfterFolds):
        return _train_after_folds(training, strategy.folds)
    if isinstance(strategy, Refit):
        return _train_and_refit(training)
    return run_pass(training).fitted(training)


def run_pass(training: Training) -> Pass:
    """Run the loop once."""
    plan, times = training.plan, dict(training.times)
    with _preparing(training, times):
        rows = training.rows_to_learn(training.data)
        plan = for_data(plan, rows, _reducer_alone(plan), derived=len(training.recipe.names))
        # Training data that is evaluated too is prepared only once.
        valid = []
        for data in training.valid:
            valid.append(rows if data is training.data else training.with_features(data))
        saved = Checkpoint.of(plan, [rows, *valid], training.initial)
    with nullcontext() if saved is None else locked(saved.path, "a training"):
        with _preparing(training, times):
            state = State.initial(training.initial)
            if saved is not None:
                state = saved.load() or state
            # A checkpoint may have more trees than are wanted now.
            state = state.first(plan.n_trees)
            boosting = Boosting(plan, rows, valid, _reducer_alone(plan))
        # A single pass of a training has no stage, so the line is printed once.
        if plan.notice and not training.stage:
            say(plan.notice, plan.verbose)
        # A checkpoint has the times of earlier runs, and this run adds to them.
        for phase, seconds in times.items():
            state.times[phase] += seconds
        interrupted = _run_loop(boosting, state, training, saved)
        state = boosting.snapshot()
        if saved is not None:
            saved.save(state)
    if interrupted:
        _LOG.warning(
            "training was interrupted after %d iterations; the model has the trees so far",
            state.iteration,
        )
    elif state.n_trees == state.initial_trees:
        _LOG.warning("no tree found a split, so the model is constant: %s", _why_constant(rows))
    return Pass(state, plan, rows, interrupted)


@contextmanager
def _preparing(training: Training, times: dict[str, float]) -> Iterator[None]:
    """Allow Ctrl-C, show a notice if kernels are compiled, and count the time."""
    notice = announcing_compilation(training.plan.verbose)
    with training.interrupts.allowed(), notice, timed(times, "preparation"):
        yield


def _run_loop(
    boosting: Boosting, start: State, training: Training, checkpoint: Checkpoint | None
) -> bool:
    """Train, and return True if Ctrl-C ended the loop."""
    plan = boosting.plan
    with Display(plan.verbose, plan.n_trees, plan.target) as display:

        def after(progress: Progress) -> bool:
            progress = replace(progress, stage=training.stage)
            display.update(progress)
            # All callbacks are called, even if the first of them ends the training.
            answers = [callback(progress) is True for callback in training.callbacks]
            # The checkpoint comes last, so that it covers everything that callbacks recorded.
            if checkpoint is not None:
                checkpoint.save_if_due(boosting)
            return any(answers)

        try:
            with training.interrupts.allowed():
                boosting.run(start, after)
        except KeyboardInterrupt:
            if boosting.iteration == 0:
                # There is no tree to keep.
                raise
            return True
    return False


def _reducer_alone(plan: Plan) -> Reducer:
    """Return the reducer of a single machine.

    It adds as several machines would if the engine could use them, so that they give the same
    model.
    """
    if load_engine(plan.engine).several_machines:
        return EXACT_ALONE
    return ALONE


def _why_constant(train: RankingData) -> str:
    """Give the reason why no tree grew, or possible reasons if the labels do not show it."""
    # A label is of no use if its lowest and highest value are the same in each query.
    starts = train.queries.boundaries[:-1]
    flat = all(
        np.array_equal(np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts))
        for values in train.labels.values()
    )
    if train.pairs is None and flat:
        return "no query has two documents with different labels, so there is no order to learn"
    return (
        f"features may be constant, min_child_samples too large for {train.n_rows} rows, what "
        "engine_params asks of a split too much, weights so small that no leaf has curvature, or "
        "the metric the same for every order, as precision is without a cutoff"
    )


def _train_and_refit(training: Training) -> Fitted:
    """Choose the number of trees on the first evaluation set, then train on its queries too."""
    given, watched = training.data, training.valid[0]
    # Data that cannot be joined is refused before the first pass, not after it.
    both = _joinable(training)
    first = run_pass(training)
    fitted = first.fitted(training)
    if not first.complete:
        return fitted
    manifest = fitted.model.manifest
    joined = RankingData.concatenate(both)
    # More queries bear more trees, in proportion.
    iteration = manifest["stopping"]["kept_iteration"]
    trees = _scaled(iteration, joined.n_judged / given.n_judged, training.plan)
    again = training.part("refit", data=joined, valid=())
    again = replace(again, plan=again.plan.without_stopping(trees))
    try:
        second = run_pass(again)
    except KeyboardInterrupt:
        # It came before the first tree of the refit.
        return fitted.interrupted()
    if not second.complete:
        # The first model is better than a part of the second.
        return fitted.interrupted(second.interrupted)
    # The curves and the end are from the first pass, because the second evaluates no queries.
    return second.fitted(
        again,
        stopping=manifest["stopping"],
        ending=manifest["ending"],
        evals_result=manifest["evals_result"],
        trained_on=[manifest["data_fingerprint"], training.fingerprint(watched)],
        refit={"trees": trees, "rows": joined.n_rows, "queries": joined.n_queries},
        times=_summed([manifest["times"], second.state.times]),
    )


def _joinable(training: Training) -> list[RankingData]:
    """Return the two parts that a refit joins, with common fields, if they can be joined."""
    from rankwright.data.joining import check_joinable

    given, watched = training.data, training.valid[0]
    missing = [name for name in training.plan.click_fields if name not in watched.fields]
    if missing:
        raise ValueError(
            "refit trains on the queries of eval_set[0] too, which has no field "
            f"{missing[0]!r}; give both as RankingData with that field or name a column of both, "
            "or leave out refit."
        )
    if watched is given:
        raise ValueError(
            "refit trains on the queries of eval_set[0] too, but these are the training queries; "
            "give others."
        )
    # Training needs the fields of clicks only, and fields of a single part cannot be joined.
    common = given.fields.keys() & watched.fields.keys()
    parts = []
    for data in (given, watched):
        part = copy.copy(data)
        part.fields = {name: values for name, values in data.fields.items() if name in common}
        parts.append(part)
    try:
        check_joinable(parts)
    except ValueError as error:
        raise ValueError(f"refit joins the training data and eval_set[0]: {error}") from None
    return parts


class _Fold(NamedTuple):
    """The held-out queries of a fold: their values [iterations, queries] and weights."""

    values: Floats
    weights: Floats
    ended: Pass


def _train_after_folds(training: Training, division: Folds) -> Fitted:
    """Choose the number of trees on held-out folds of the queries, then train on all of them."""
    plan, given, n_folds = training.plan, training.data, division.number
    if given.n_queries < n_folds:
        raise ValueError(
            f"early_stopping='cv' needs at least {n_folds} queries, one for each fold; got "
            f"{given.n_queries}."
        )
    if not given.labels:
        raise ValueError(
            "early_stopping='cv' evaluates held-out queries by labels, and there are pairs alone; "
            "give labels too."
        )
    if not _has_value(given, plan):
        raise ValueError(
            f"early_stopping='cv' watches {plan.target}, but no query has a relevant document."
        )
    folds: list[_Fold] = []
    parts = division.parts(given, plan.seed)
    for number, (rest, held_out) in enumerate(parts, start=1):
        # Such a fold, for example without a relevant document, could not choose a tree.
        if not _has_value(held_out, plan):
            continue
        fold = training.part(
            f"fold {number} of {n_folds}", data=rest, valid=[held_out], callbacks=()
        )
        if not folds:
            # The first checkpoint is in the folder itself, because a training is resumed from there.
            fold = fold.with_plan(checkpoint=plan.checkpoint)
        folds.append(_run_fold(fold))
    stopping = _choose_over(folds, plan)
    # A fold has fewer queries than the final pass, which gets more trees in proportion.
    rows = float(np.mean([fold.ended.rows.n_rows for fold in folds]))
    trees = _scaled(stopping["kept_iteration"], given.n_judged / rows, plan)
    final = training.part("all queries", stage=training.stage, times=training.times)
    final = replace(final, plan=final.plan.without_stopping(trees))
    ended = run_pass(final)
    times = [*(fold.ended.state.times for fold in folds), ended.state.times]
    return ended.fitted(final, stopping={**stopping, "folds": n_folds}, times=_summed(times))


def _run_fold(fold: Training) -> _Fold:
    """Train on the rest of the queries, and evaluate the held-out queries after each iteration."""
    ended = run_pass(fold)
    if ended.interrupted:
        raise KeyboardInterrupt
    with fold.interrupts.allowed():
        return _evaluated(ended, fold)


def _evaluated(ended: Pass, fold: Training) -> _Fold:
    state, threads, target = ended.state, ended.plan.threads, ended.plan.target
    held_out = fold.valid[0]
    assert state.forest is not None
    X = held_out.with_features(fold.recipe, names=fold.data.feature_names, threads=threads).X
    evaluator = Evaluator(
        held_out.labels,
        group=held_out.group,
        metrics=[target],
        weights=held_out.weights,
        threads=threads,
    )
    weights = evaluator.weights
    if weights is None:
        weights = np.ones(held_out.n_queries)
    base = ended.plan.base_scores(held_out)
    # Scores grow from iteration to iteration, as in the loop, so each tree is scored once.
    sums, before = np.zeros(held_out.n_rows), 0
    values = np.empty((state.iteration, held_out.n_queries))
    for number, (trees, factor) in enumerate(zip(state.trees, state.factors, strict=True)):
        if trees > before:
            sums += state.forest.predict(X, threads=threads, start=before, stop=trees)
        scores = total_scores(base, factor, sums)
        values[number] = evaluator(scores).per_query[str(target)]
        before = trees
    return _Fold(values, weights, ended)


def _choose_over(folds: Sequence[_Fold], plan: Plan) -> dict[str, Any]:
    """Describe the number of iterations that the stopping rule chooses on all held-out queries."""
    weights = np.concatenate([fold.weights for fold in folds])
    # Folds may end at different iterations, and only iterations of all folds can be pooled.
    iterations = min(len(fold.values) for fold in folds)
    pooled = np.concatenate([fold.values[:iterations] for fold in folds], axis=1)
    curve = np.array([_weighted_mean(values, weights) for values in pooled])
    higher = plan.target.higher_is_better
    allowed = folds[-1].ended.plan.stopping_errors
    watch = Watch(plan.stopping_rule, higher_is_better=higher, weights=weights, errors=allowed)
    kept = [
        watch.see(number, values, curve[number - 1])
        for number, values in enumerate(pooled, start=1)
    ]
    return describe_stopping(
        curve,
        [each.error for each in kept],
        kept[-1].iteration,
        rule=plan.stopping_rule,
        allowed=allowed,
        higher_is_better=higher,
    )


def _train_members(training: Training, strategy: Members) -> Fitted:
    """Train several models, each without another part of the queries, and average them."""
    plan, given, n_members = training.plan, training.data, strategy.number
    if training.initial is not None:
        raise ValueError(
            "members cannot be added to init_model, whose trees each of them would have; leave one "
            "out."
        )
    if n_members > given.n_queries:
        raise ValueError(
            f"members must be at most the number of queries, {given.n_queries}; got {n_members}."
        )
    order = np.random.default_rng(plan.seed).permutation(given.n_queries)
    scores = np.full(given.n_rows, np.nan)
    members: list[Fitted] = []
    for number, left_out in enumerate(np.array_split(order, n_members)):
        held_out = np.zeros(given.n_queries, dtype=bool)
        held_out[left_out] = True
        member = _member(training, strategy, number, ~held_out)
        try:
            fitted = train(member)
            # An unfinished member would count as much as the others, so it is kept only if it is
            # the first.
            if fitted.model.manifest["interrupted"]:
                return _average(members or [fitted], training, None).interrupted()
            members.append(fitted)
            with training.interrupts.allowed():
                # Each query is left out by a single member, so all rows get an honest score.
                scores[np.repeat(held_out, given.group)] = fitted.model.predict(
                    given.subset(held_out), n_jobs=plan.threads
                )
        except KeyboardInterrupt:
            if not members:
                raise
            return _average(members, training, None).interrupted()
    return _average(members, training, scores)


def _member(
    training: Training, strategy: Members, number: int, queries: NDArray[np.bool_]
) -> Training:
    """Return the training of a member on some of the queries."""
    plan = training.plan
    rest = training.data.subset(queries)
    # Members differ in their random draws too, not only in their queries.
    seed = np.random.SeedSequence([plan.seed % 2**63, number]).generate_state(1)[0]
    member = training.part(
        f"member {number + 1} of {strategy.number}",
        data=rest,
        valid=[rest if data is training.data else data for data in training.valid],
    )
    if number == 0:
        # The curves of the first member are kept, and its checkpoint is in the folder itself.
        member = replace(member.with_plan(checkpoint=plan.checkpoint), stage="")
    return member.with_plan(
        parameters={**plan.parameters, "members": 1}, strategy=strategy.each, seed=int(seed)
    )


def _average(members: Sequence[Fitted], training: Training, scores: Floats | None) -> Fitted:
    """Join the trees of several models, scaled so that their sum is the mean of the models."""
    models = [member.model for member in members]
    # The leaf values are divided by the number of members, so the joined trees add up to the mean.
    scaled = [model.forest.scaled(1 / len(models)) for model in models]
    forest = reduce(lambda first, second: first.joined(second), scaled)
    # The first member's manifest stands for all members, except for these entries.
    first, whole = models[0].manifest, training.fingerprint(training.data)
    manifest = {
        **first,
        "parameters": {**first["parameters"], "members": training.plan.parameters["members"]},
        "members": [model.n_trees for model in models],
        "linear_start": _starts_and_mean([model.linear for model in models]),
        "n_trees": forest.n_trees,
        "seed": training.plan.seed,
        "data_fingerprint": whole,
        "trained_on": [whole, *first.get("trained_on", [])[1:]],
        "times": _summed([model.manifest["times"] for model in models]),
    }
    return Fitted(Model(forest, models[0].columns, manifest), members[0].objective, scores)


def _starts_and_mean(starts: Sequence[LinearStart | None]) -> list[dict[str, Any]]:
    """Return the linear starts of members and, last, their mean; none without."""
    given = [start for start in starts if start is not None]
    if not given:
        return []
    return [start.to_manifest() for start in [*given, type(given[0]).mean(given)]]


def _has_value(data: RankingData, plan: Plan) -> bool:
    """Return True if the first metric has a value in a query that counts.

    Most metrics need a relevant document.
    """
    counts = np.ones(data.n_queries, dtype=bool)
    if data.weights is not None:
        counts = data.weights[data.boundaries[:-1]] > 0
    for _, term in plan.target.terms():
        label = as_not_relevant(choose_label(data.labels, term.label))
        counts &= term.bind(label, data.boundaries).scale != 0
    return bool(counts.any())


def _summed(times: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the seconds of several trainings, by phase."""
    return {phase: sum(seconds[phase] for seconds in times) for phase in times[0]}


def _weighted_mean(values: Floats, weights: Floats) -> float:
    counted = ~np.isnan(values)
    return float(np.average(values[counted], weights=weights[counted]))


def _scaled(trees: int, rows: float, plan: Plan) -> int:
    """Scale a number of trees to more rows, in proportion, up to the number that the user allows."""
    return max(1, min(plan.n_trees, round(trees * rows)))
