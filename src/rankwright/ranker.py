"""Ranker: from rows to a model that optimises the metric you name."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from rankwright.data import guards
from rankwright.data.arguments import check_paths, evaluation_sets, ranking_data, sets_and_groups
from rankwright.data.base_score import field_of, warn_if_constant
from rankwright.data.columns import frame_columns, names_columns
from rankwright.data.dataset import RankingData
from rankwright.data.labels import choose_label
from rankwright.data.time import TIME
from rankwright.data.within_query import Option, read_recipe
from rankwright.estimator import FittedRanker
from rankwright.metrics import Metric
from rankwright.objectives import Objective
from rankwright.support import checks
from rankwright.support.files import is_path
from rankwright.support.interrupts import deferred_interrupts
from rankwright.support.other_libraries import library_of
from rankwright.training.ending import ending_line
from rankwright.training.groups import Langevin, PositionBias
from rankwright.training.other_names import explaining_names
from rankwright.training.plan import AfterFolds, ClickColumns, Members, Plan, read_plan
from rankwright.training.progress import ReadingBar, announcing_compilation, say
from rankwright.training.result import naming_classes
from rankwright.training.state import Progress, no_times, timed
from rankwright.training.strategies import Training, check_callbacks, train
from rankwright.training.unjudged import judged_counts, report_unjudged

if TYPE_CHECKING:
    from rankwright.linear_start import LinearStart


class Ranker(FittedRanker):
    """Gradient-boosted trees that rank, trained for the metric itself.

    Parameters
    ----------
    objective
        A name (``"yetiloss"``), a name with options (``"lambdamart(truncation=k+3)"``), a sum
        (``"yetiloss + 0.5 queryrmse"``), an objective of `rankwright.objectives`, a function ``(labels, scores,
        boundaries) -> (grad, hess)`` of your own (docs/custom.md), or ``"auto"``. This is yetiloss for
        the metric with some queryrmse, or less of it if fewer than 10 % of the documents are relevant, because these
        measured best (docs/defaults.md). For a metric that selects documents it is stochasticrank.
    metric
        The metric to optimise and evaluate, for example ``"ndcg@10"``, or several, as a list or separated by spaces:
        the first is optimised and decides about early stopping. ``"ndcg@10[margin]"`` reads the label ``margin``.
        ``"ndcg@10 + 0.3 ndcg@10[margin]"`` is a weighted sum; the objective optimises its first term.
    engine
        The library that grows the trees: ``"lightgbm"``, or ``"xgboost"`` (the extra ``xgboost``), which also trains on
        several machines. XGBoost bounds leaves by curvature: ``min_child_samples`` counts rows of mean curvature.
    within_query
        Features within the query, added to the columns: any of ``"rank"``, ``"z"``, ``"gap"``, ``"share"``, ``"mean"``,
        ``"max"`` and ``"rrf"`` for all columns, or a dict of them by column; see `rankwright.WithinQuery`. The model
        then scores all documents of a query together, so ``predict`` needs ``qid``.
    monotone
        Columns that may only raise (1) or only lower (-1) the score of a document, for example
        ``{"price": -1, "ctr": 1}``, by name, ``"f0"`` for the first column of an array. It holds exactly, for every
        model and every document, and also for the column's features within the query (docs/monotone.md).
    start
        The scores that boosting starts from: None for 0, or ``"linear"`` for a linear ranker on rank and z of every
        column of numbers within the query (docs/linear-start.md). ``{"columns": ["bm25", "age"]}`` chooses columns. The
        model then scores all documents of a query together, so ``predict`` needs ``qid``. ``"linear-global"`` is a
        linear ranker on quantiles of the columns, which scores documents one by one and can be exported.
    preset
        ``"best"``: what helped on real data when whole queries are scored and time is not short: ``start="linear"``,
        ``within_query="rank"``, ``members=4`` and, with an ``eval_set``, ``early_stopping_rounds=100`` and
        ``refit=True``. Parameters that differ from their defaults win. ``manifest_["parameters"]`` has its choices.
    categorical
        Columns that hold categories, by name or number; see ``fit(categorical=...)``, which wins.
    n_estimators
        Number of trees.
    learning_rate
        Factor of each tree. None chooses it by the data. With full leaf values it starts at 0.03 and is steered from
        tree to tree between 0.005 and 0.12: up while the two halves of the queries agree about the leaves, and down
        while they do not. With diagonal leaf values, with Langevin boosting or with fewer than 20 queries it depends on
        the rows of the training data, for example 0.06 for ten thousand and 0.1 for eighty thousand. An objective
        without curvature takes steps as long as its gradient. For it, the value is 0.03 times the value by rows,
        divided by the gradient's root mean square at the start, so that it does not depend on the metric's scale.
    num_leaves
        Leaves of a tree. None chooses by the rows of the training data: 16 for ten thousand, twice as many for four
        times as many rows, 64 at most.
    max_depth, min_child_samples
        Depth of a tree (-1 for no limit), and rows in a leaf.
    reg_lambda
        L2 regularisation of leaf values; the ridge of ``leaf_values="full"``.
    subsample_queries, subsample, colsample
        Share of the queries, of the rows and of the columns that a tree is grown from. ``subsample=None`` is 1 if
        queries have random weights (see ``bagging_temperature``), and 0.7 otherwise. ``colsample=None`` is 0.7. With
        features within the query it is smaller, so that a tree gets as many columns as without them.
    bagging_temperature
        Queries count with random weights when a tree is grown. Each tree draws new weights
        (-log u)^bagging_temperature with u between 0 and 1. 1 is the Bayesian bootstrap, and 0 gives all queries the
        same weight. Full leaf values are still solved with equal weights. None is 0.7 with full leaf values if
        ``subsample`` is None too and 10 % of the documents are relevant, otherwise 0.
    leaf_values
        ``"diagonal"``: each leaf by its own gradient and curvature, as the engine does it. ``"full"``: all leaves
        of a tree solved together with the objective's full curvature between them. ``"auto"``: full with the
        objective ``"auto"``, if it has curvature, weights are the same within each query and ``engine_params`` do
        not need the engine's own values; otherwise diagonal.
    early_stopping_rounds
        Stop after this many trees without an improvement of the first metric on the first evaluation set: of its mean
        over 50 trees or, with ``stopping_rule="best"``, of its best value.
    early_stopping
        ``"valid"``: the first evaluation set is watched. ``"cv"``: five folds of the queries choose the number of trees
        by ``stopping_rule``, trees scaled to the rows, and then all queries train; ``early_stopping_rounds`` may be
        left out.
    folds
        The folds of ``early_stopping="cv"``: their number, 5 by default, or ``"time"``. Each fold then trains on the
        queries before its held-out queries, by ``fit(time=...)``. ``"time(5, gap=7)"`` also leaves out the queries of
        the seven days (or units of time) before them.
    stopping_rule
        The tree that the model ends with under early stopping. ``"within_error"``: the last tree with a difference from
        the best within a standard error, query by query, or within 1.5 standard errors with a steered learning rate.
        ``"best"``: the best tree, which is the luckiest of many.
    refit
        Use the validation queries for training too: after early stopping has chosen the number of trees, train once
        more on the queries of training and of the first evaluation set together, with as many more trees as there are
        more rows (at most ``n_estimators``). ``evals_result_`` and ``stopping_`` come from the first training.
    members
        Average this many models: each has another seed and leaves out another part of the queries, and its scores of
        that part are in ``out_of_sample_``. The model has the trees of all of them, and `spread` returns how far they
        differ. Curves are the curves of the first member.
    langevin
        Langevin boosting: noise in the gradients and shrinking of earlier trees, for global optima. True, or a
        `Langevin` or dict with ``temperature``, ``shrink_rate`` and ``leaf_noise``.
    position_bias
        How the position bias of ``fit(position=...)`` is regularised: a `PositionBias` or dict with ``ridge``,
        ``smoothness`` and ``limit``.
    random_state
        Seed. The same seed gives the same model, for any number of threads, because gradients are rounded to 2^-28 of
        the largest, so that the engine's sums are exact. None draws a seed.
    n_jobs
        Number of threads; None or -1 for all cores. Small data, up to 300 000 values, are trained in 1 thread.
    checkpoint
        A folder: training is saved there every 100 trees or 60 seconds, and the same ``fit`` resumes from there
        after an interruption. A dict ``{"path": ..., "trees": ..., "seconds": ...}`` chooses other intervals. If
        ``engine_params`` sample at each node of a tree, it resumes from the last multiple of twenty trees.
    verbose
        0 is silent, 1 shows progress and how training ended, and 2 also the best value, the speed and the share of
        the objective in the time.
    engine_params
        Further parameters of the engine, by its own names or their aliases (``reg_alpha``, ``min_child_weight``).
        ``max_bin``, the number of values that a column is reduced to, is chosen by the rows of the training data unless
        given here: 63 for ten thousand, twice as many for four times as many rows, 255 at most.

    Attributes
    ----------
    n_estimators_ : int
        Trees in the model, including the trees of ``init_model``: the last stage of ``staged_predict``. With early
        stopping the model keeps the trees up to an iteration that ``stopping_rule`` decides.
    best_iteration_ : int or None
        The iteration with the best value of the first metric on the first evaluation set, or over the folds of
        ``early_stopping="cv"``. None without an evaluation set, or if it is the training data.
    stopping_ : dict or None
        With early stopping the ``rule``, the ``best_iteration``, the ``kept_iteration``, which the model ends with, the
        iteration ``kept_by_best``, which the rule ``"best"`` would have kept, and how flat the curve is: from the best
        to the kept iteration the ``difference`` of the metric and its standard ``error`` over queries, and the
        iteration ``last_within_error``, the last within so many ``standard_errors`` of the best, whatever the rule.
    learning_rate_, num_leaves_, max_bin_, subsample_, colsample_, bagging_temperature_, leaf_values_
        The values in use, also for parameters that left the choice; ``learning_rate_`` is the rate of the first tree.
    out_of_sample_ : ndarray or None
        With several members, the score of each training row by the member that did not train on its query, in the order
        of the rows given (of a `RankingData`: its own). None otherwise, and in a loaded model.
    learning_rates_ : list
        Learning rate of each iteration of this training in the model, without the iterations of ``init_model``.
    evals_result_ : dict
        Metrics of each evaluation set after each iteration of this training, also after the best iteration: for example
        ``evals_result_["valid_0"]["ndcg@10"]``. The model's own value is at ``len(learning_rates_) - 1``, with early
        stopping at ``stopping_["kept_iteration"] - 1``.
    feature_importances_ : ndarray
        Total gain of the splits on each column, as shares of 1; ``model_.feature_names`` names them, features within
        the query last.
    linear_ : LinearStart or None
        The linear ranker that boosting started from, with its coefficients by name.
    n_features_in_, feature_names_in_
        Columns of the training data, without the features within the query.
    position_bias_ : dict
        The bias found for each column of ``position``: a dict of its values (positions, relative to the first, or
        categories, relative to the most frequent category), as an amount of score. Empty without ``position``.
    examination_ : dict
        How likely documents are looked at, for the same columns and values: click rates relative to the rates of the
        first position, or of the most frequent category, for documents that are alike. Columns and values are left out
        if the clicks do not determine them. `docs/bias.md` says how it differs from ``position_bias_``.
    interrupted_ : bool
        True if Ctrl-C ended the training; the model has the trees up to then.
    times_ : dict
        Seconds of training in each phase, over all parts of a resumed training: ``"preparation"`` of the data,
        ``"compilation"`` of kernels (first run only), ``"gradients"``, ``"trees"``, ``"leaves"`` (values computed here,
        not by the engine) and ``"evaluation"``.

    Examples
    --------
    >>> from rankwright import Ranker, make_web_search
    >>> train, test = make_web_search(60, random_state=1).split(0.3)
    >>> ranker = Ranker(metric="ndcg@10", n_estimators=20, verbose=0).fit(train)
    >>> ranker.score(test) > 0.3
    True
    """

    # scikit-learn's metadata routing passes query ids on without a request by the user, because
    # documents cannot be ranked without them.
    __metadata_request__fit = {"qid": True}  # noqa: RUF012  # scikit-learn reads it from the class
    __metadata_request__score = {"qid": True}  # noqa: RUF012
    __metadata_request__predict = {"qid": True}  # noqa: RUF012

    @explaining_names("Ranker")
    def __init__(
        self,
        objective: str | Objective | Callable[..., Any] = "auto",
        metric: str | Metric | Sequence[str | Metric] = "ndcg@10",
        engine: str = "lightgbm",
        *,
        within_query: Option = None,
        monotone: dict[str, int] | None = None,
        start: str | dict[str, list[str]] | None = None,
        preset: str | None = None,
        categorical: Sequence[str | int] | None = None,
        n_estimators: int = 300,
        learning_rate: float | None = None,
        num_leaves: int | None = None,
        max_depth: int = -1,
        min_child_samples: int = 50,
        reg_lambda: float = 0.3,
        subsample_queries: float = 1.0,
        subsample: float | None = None,
        colsample: float | None = None,
        bagging_temperature: float | None = None,
        leaf_values: str = "auto",
        early_stopping_rounds: int | None = None,
        early_stopping: str = "valid",
        folds: int | str | None = None,
        stopping_rule: str = "within_error",
        refit: bool = False,
        members: int = 1,
        langevin: bool | Langevin | dict[str, Any] = False,
        position_bias: PositionBias | dict[str, Any] | None = None,
        random_state: int | None = 0,
        n_jobs: int | None = None,
        checkpoint: str | os.PathLike[str] | dict[str, Any] | None = None,
        verbose: int = 1,
        engine_params: dict[str, Any] | None = None,
    ) -> None:
        self.objective = objective
        self.metric = metric
        self.engine = engine
        self.within_query = within_query
        self.monotone = monotone
        self.start = start
        self.preset = preset
        self.categorical = categorical
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.num_leaves = num_leaves
        self.max_depth = max_depth
        self.min_child_samples = min_child_samples
        self.reg_lambda = reg_lambda
        self.subsample_queries = subsample_queries
        self.subsample = subsample
        self.colsample = colsample
        self.bagging_temperature = bagging_temperature
        self.leaf_values = leaf_values
        self.early_stopping_rounds = early_stopping_rounds
        self.early_stopping = early_stopping
        self.folds = folds
        self.stopping_rule = stopping_rule
        self.refit = refit
        self.members = members
        self.langevin = langevin
        self.position_bias = position_bias
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.checkpoint = checkpoint
        self.verbose = verbose
        self.engine_params = engine_params

    @explaining_names("fit")
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        qid: Any = None,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        pairs: Any = None,
        document: Any = None,
        position: Any = None,
        propensity: Any = None,
        clip: float | None = None,
        self_normalised: bool = False,
        time: Any = None,
        base_score: Any = None,
        categorical: Sequence[str | int] | None = None,
        eval_set: Any = None,
        eval_X: Any = None,
        eval_y: Any = None,
        eval_qid: Any = None,
        eval_group: Any = None,
        eval_base_score: Any = None,
        init_model: Ranker | str | os.PathLike[str] | None = None,
        callbacks: Sequence[Callable[[Progress], object]] | None = None,
        cluster: Any = None,
    ) -> Self:
        """Train.

        Parameters
        ----------
        X, y, qid, group, sample_weight
            As in `RankingData` (there ``sample_weight`` is called ``weights``), or a `RankingData`
            as ``X`` alone. Rows may come in any order; ``qid`` and ``y`` may name columns of a data
            frame. Several labels are a dict or a data frame ``y``, or a list of names of columns.
            The first is the main label (docs/goals.md). A folder, file or pattern of Parquet files
            or LETOR text, or a list of them, is streamed: features are in a temporary file, and the
            model is the same, bit by bit (docs/scale.md). ``y``, ``qid`` and ``sample_weight`` then
            name columns, by default ``label`` and ``qid``; see `stream_data` for more.
        pairs, document
            Preferences to learn from, as in `RankingData`, alone or beside labels. They need an
            objective for pairs, for example ``"ranknet(pairs)"``; ``"auto"`` becomes this objective
            if there are no labels.
        position
            The position of each document when its label, a click, was observed: an array of
            positions from 1, or the name of a column or field. Scores plus a bias of each position
            are trained; `predict` returns the scores without it (docs/bias.md). Several columns (a
            list of names, or a dict of arrays by name) add up, and columns of text are categories,
            for example the device.
        propensity
            The probability that users saw each document, if it is known and labels are clicks: an
            array, or the name of a column or field. Clicked documents weigh 1 / propensity, in a
            way that each objective's page describes.
        clip
            The least propensity: smaller ones are raised to it. None for no limit.
        self_normalised
            Divide the weights of clicked documents by their mean.
        time
            The time of each row, numbers or dates: an array, or the name of a column or field. Folds
            in the order of time need it; it is not a feature.
        base_score
            Scores to start from, for example of the ranking in production: an array, or the name of
            a column or field. Scores of the model are the base scores plus the trees, everywhere:
            in `predict`, early stopping, folds, members and ``init_model`` (docs/start.md). The
            model finds a column by its name in new data. A column of a data frame or of files is
            then no feature; a feature of a `RankingData` or of LETOR text stays a feature.
        categorical
            Columns that hold categories, beside columns of a categorical type: names, or numbers of
            the columns of an array, for example ``["brand"]``, ``["f0"]`` or ``[0]``. Frames and files
            may hold text, and arrays hold whole numbers from 0.
        eval_set
            Evaluation sets: a list of ``(X, y, qid)``, of `RankingData` or of paths to stream, or a
            single set; a data frame alone if ``y`` and ``qid`` name columns. For curves of the
            training, the `RankingData` that is trained on may be among them, at no cost of memory.
        eval_X, eval_y
            Evaluation sets in the form of LightGBM 4.7, in place of ``eval_set``: a set, or tuples of
            several, with their queries in ``eval_qid`` or ``eval_group``.
        eval_qid, eval_group
            Query ids, or sizes of the queries, of each evaluation set, if the sets are ``eval_X`` or
            pairs ``(X, y)``: the forms of XGBoost, and of LightGBM and PyTerrier.
        eval_base_score
            Base scores of the evaluation sets, an entry per set: arrays or names of columns. By
            default each set has the column that ``base_score`` names.
        init_model
            A fitted Ranker, or the path of a saved model, to add trees to.
        callbacks
            Functions to call with a `Progress` after each tree; training stops when a function
            returns True. If a training has several passes, ``progress.stage`` names them. The folds
            of ``early_stopping="cv"`` do not call them.
        cluster
            Train on several machines with ``engine="xgboost"``: a Dask client, the address of a
            scheduler, a number of workers to start on this machine, ``"local"`` for a worker per
            core, or a `Cluster`. ``X`` may then also be a folder or pattern of Parquet files that
            the workers can open (``y`` and ``qid`` name columns, by default ``label`` and ``qid``),
            or Dask collections. The model is the same for any number of workers.
        """
        # Mistakes in arguments are found first, because reading the data may take long.
        eval_set, eval_group = sets_and_groups(eval_set, eval_X, eval_y, eval_qid, eval_group, qid)
        earlier = _fitted(init_model)
        with naming_classes(getattr(earlier or self, "model_", None)):
            plan = self._read_plan(alone=cluster is None, watched=eval_set is not None)
        plan = replace(plan, linear=_linear_start(plan.start, earlier))
        check_callbacks(callbacks)
        if categorical is None:
            categorical = self.categorical
        _check_watched(plan, eval_set)
        start = _start(base_score, earlier)
        # On a cluster the workers read the data, and this process only directs them.
        if cluster is not None:
            return self._fit_on(
                cluster,
                plan,
                (X, y, qid, group, sample_weight),
                eval_set,
                earlier,
                callbacks,
                pairs=pairs,
                position=position,
                propensity=propensity,
                clip=clip,
                self_normalised=self_normalised,
                time=time,
                categorical=categorical,
                start=start,
                eval_base_score=eval_base_score,
                eval_group=eval_group,
            )
        if eval_group is None:
            check_paths(eval_set)
        clicks = ClickColumns.of(position, propensity, clip, self_normalised)
        # A refit trains on the first evaluation set too, so it needs the columns about clicks.
        fields = clicks.named if plan.parameters["refit"] else {}
        # New data often have these columns too, so the model has to know that it ignores them.
        not_features = list(clicks.named.values())
        not_features += [name for name in (document, time) if isinstance(name, str)]
        columns = dict(clicks.fields)
        if time is not None:
            columns[TIME] = time
        times, show = no_times(), ReadingBar(self.verbose)
        with announcing_compilation(self.verbose), timed(times, "preparation"):
            # Further trees need the columns and the category codes of the earlier trees.
            reference = None if earlier is None else earlier.columns_
            data = ranking_data(
                *(X, y, qid, group, sample_weight, reference, pairs, document, columns),
                *(show, start, categorical),
            )
            report_unjudged(judged_counts(data))
            _guard(plan, data)
            plan = clicks.add_to(plan, data)
            if start is not None:
                name, scores = start
                plan = replace(plan, base_score=name)
                if not plan.objective.capabilities.absolute:
                    warn_if_constant(data, name)
                # A base score among the features stays a feature.
                if isinstance(scores, str) and scores not in data.feature_names:
                    not_features.append(scores)
            recipe = read_recipe(plan.within_query, data)
            if earlier is not None:
                earlier.model_.check_same_recipe(recipe)
            if plan.parameters["monotone"]:
                from rankwright.training.monotone import constrained

                plan = constrained(plan, data, recipe, None if earlier is None else earlier.model_)
            sets = evaluation_sets(
                *(eval_set, data, y, qid, eval_group, not_features, fields, show),
                base_score=plan.base_score,
                eval_base_score=eval_base_score,
                given=X,
            )
            self._trained_on = guards.TrainedOn.of(data)
            for number, valid in enumerate(sets):
                # Folds are watched in place of the evaluation sets.
                watched = number == 0 and plan.patience is not None
                watched = watched and not isinstance(plan.strategy, AfterFolds)
                if time is None:  # with times, the same users may come back later
                    self._trained_on.check_new_queries(
                        valid.queries, f"eval_set[{number}]", watched=watched
                    )
        # A Ctrl-C waits until the model is taken over; the training allows it while work is long.
        with deferred_interrupts() as interrupts:
            training = Training(
                plan=plan,
                data=data,
                valid=sets,
                recipe=recipe,
                initial=None if earlier is None else earlier.forest_,
                callbacks=tuple(callbacks or ()),
                columns=_columns(X, y, qid, data, not_features),
                times=times,
                interrupts=interrupts,
            )
            fitted = train(training)
            # The data are grouped by query, and users want the scores in the order of their rows.
            scores = fitted.out_of_sample
            if scores is not None and not isinstance(X, RankingData):
                scores = data.ungroup(scores)
            self._set_model(fitted.model, list(plan.metrics.values()), fitted.objective, scores)
        say(ending_line(self.manifest_), self.verbose)
        return self

    def check_params(self) -> None:
        """Raise ValueError if a parameter cannot be used, as ``fit`` does before any work."""
        self._read_plan(alone=True, watched=False)

    def _read_plan(self, *, alone: bool, watched: bool) -> Plan:
        """Plan the training by the parameters and the preset."""
        given = self.get_params(deep=False)
        if self.preset is not None:
            from rankwright.training.presets import with_preset

            defaults = type(self)().get_params(deep=False)
            given = with_preset(given, defaults, alone=alone, watched=watched)
        return read_plan(given)

    def _fit_on(
        self,
        cluster: Any,
        plan: Plan,
        data: tuple[Any, ...],
        eval_set: Any,
        earlier: Ranker | None,
        callbacks: Sequence[Callable[[Progress], object]] | None,
        start: tuple[str, Any] | None,
        eval_base_score: Any,
        **arguments: Any,
    ) -> Self:
        """Train on several machines.

        Further arguments are passed on to be refused, because they need a single machine.
        """
        # The extra for clusters may not be installed.
        from rankwright.cluster.training import train_on

        model, objective = train_on(
            cluster,
            plan,
            data,
            eval_set,
            arguments,
            start=start,
            eval_base_score=eval_base_score,
            earlier=None if earlier is None else earlier.model_,
            callbacks=tuple(callbacks or ()),
        )
        self._set_model(model, list(plan.metrics.values()), objective)
        say(ending_line(self.manifest_), self.verbose)
        return self


def _guard(plan: Plan, data: RankingData) -> None:
    """Warn of mistakes in the data and the parameters that would train nonsense."""
    # Steps by the gradient alone have the scale of the gradient.
    if not plan.objective.capabilities.first_order:
        guards.check_rate(plan.learning_rate)
    guards.check_data(data)
    if not data.label_names:
        return
    for metric in plan.metrics.values():
        for _, term in metric.terms():
            # Another objective learns, whatever the metric is worth.
            optimised = metric is plan.target and plan.objective.capabilities.uses_metric
            label = choose_label(data.labels, term.label)
            guards.check_gains(term, str(term), label, optimised=optimised)


def _columns(
    X: Any, y: Any, qid: Any, data: RankingData, not_features: list[str]
) -> dict[str, Any]:
    """Return the names of the columns of labels and queries, for the manifest."""
    columns = {
        "label_column": _names(X, y),
        "qid_column": _names(X, qid),
        "other_columns": not_features,
    }
    # Files have names even if the arguments leave them to their defaults.
    if is_path(X) and data.named:
        labels = list(data.label_names)
        columns["label_column"] = labels[0] if len(labels) == 1 else labels
        columns["qid_column"] = qid or "qid"
    return columns


def _names(X: Any, value: Any) -> Any:
    """Return the value if it is the name of a column or a list of names, otherwise None."""
    if isinstance(value, str):
        return value
    if not names_columns(value, frame_columns(X)):
        return None
    return list(value)


def _check_watched(plan: Plan, eval_set: Any) -> None:
    """Raise ValueError if early stopping has no evaluation set to watch."""
    strategy = plan.strategy
    if isinstance(strategy, Members):
        strategy = strategy.each
    # Folds are watched on the queries that they leave out.
    if plan.patience is None or isinstance(strategy, AfterFolds):
        return
    if eval_set is None or (isinstance(eval_set, list | tuple) and len(eval_set) == 0):
        raise ValueError(
            "early_stopping_rounds needs an eval_set to watch; pass eval_set=[(X, y, qid)]."
        )


def _start(base_score: Any, earlier: Ranker | None) -> tuple[str, Any] | None:
    """Return the field of the base scores, and an array or the name of a column; None without."""
    name = field_of(base_score)
    if earlier is not None:
        known = earlier.model_.base_score
        # The earlier trees add to base scores, or they do not: more trees cannot change that.
        if name is not None and known is None:
            raise checks.ArgumentError(
                "base_score", "is no part of the scores of init_model; leave out one of the two."
            )
        if name is None:
            name = base_score = known
    if name is None:
        return None
    return name, base_score


def _linear_start(start: Any, earlier: Ranker | None) -> LinearStart | None:
    """Return the linear start of the trees to add to, because more trees cannot change it."""
    if earlier is None:
        return None
    linear = earlier.model_.linear
    if start is not None and linear is None:
        raise checks.ArgumentError(
            "start", "is no part of the scores of init_model; leave out one of the two."
        )
    return linear


def _fitted(init_model: Any) -> Ranker | None:
    """Return the model to add trees to."""
    if init_model is None:
        return None
    if not isinstance(init_model, Ranker | str | os.PathLike):
        found, library = repr(init_model), library_of(init_model)
        if library is not None:
            found = f"a {type(init_model).__name__} of {library}. Give its scores as base_score"
        raise ValueError(
            f"init_model must be a fitted Ranker or the path of a saved one; got {found}."
        )
    if not isinstance(init_model, Ranker):
        return Ranker.load(init_model)
    check_is_fitted(init_model)
    return init_model
