"""Ranker: from rows to a model that optimises the metric you name."""

from __future__ import annotations

import hashlib
import logging
import math
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from rankwright.data.dataset import RankingData
from rankwright.data.encoding import Columns, drop_columns, encode_features, frame_columns
from rankwright.data.queries import Queries
from rankwright.engines import load_engine
from rankwright.evaluation.per_query import evaluate
from rankwright.kernels.evaluate import INPUT, order_queries
from rankwright.kernels.threads import available_threads
from rankwright.metrics import Metric
from rankwright.metrics import metric as parse_metric
from rankwright.objectives import Objective
from rankwright.objectives import objective as parse_objective
from rankwright.persistence import read_model, write_model
from rankwright.training.boosting import Boosting, Langevin, Progress, Settings, State
from rankwright.training.checkpoint import Checkpoint, fingerprint
from rankwright.training.defaults import choose_settings, is_auto, resolve_objective
from rankwright.training.progress import Display

Floats = NDArray[np.float64]

_LOG = logging.getLogger("rankwright")
_CHECKPOINT_TREES, _CHECKPOINT_SECONDS = 100, 60.0
_CHOSEN = (  # what the data may decide
    "learning_rate",
    "learning_rates",
    "num_leaves",
    "max_bin",
    "subsample",
    "bagging_temperature",
    "leaf_values",
)
_WHOLE: tuple[type, ...] = (int, np.integer)
_NUMBER: tuple[type, ...] = (int, float, np.integer, np.floating)


class Ranker(BaseEstimator):  # type: ignore[misc]
    """Gradient-boosted trees that rank, trained for the metric itself.

    Parameters
    ----------
    objective
        A name (``"yetiloss"``), a name with options (``"lambdamart(truncation=k+3)"``), a sum
        (``"yetiloss + 0.5 queryrmse"``), an objective of `rankwright.objectives`, or ``"auto"``: yetiloss for the
        metric with some queryrmse, less of it where under 10 % of the documents are relevant, which measured best
        (docs/defaults.md); or stochasticrank for a metric that selects.
    metric
        What to optimise and evaluate, or several: the first is optimised and decides about early stopping.
    engine
        Which library grows the trees: ``"lightgbm"``.
    n_estimators
        Number of trees.
    learning_rate
        Factor of each tree. None leaves it to the data. With full leaf values it begins at 0.03 and is steered from
        tree to tree, up while the two halves of the queries agree about the leaves and down where they do not, between
        0.005 and 0.12. With diagonal ones, with Langevin boosting or with fewer than 20 queries it depends on the rows
        of the training data, 0.06 for ten thousand and 0.1 for eighty thousand. For an objective without curvature,
        which takes steps as long as its gradient, it is 0.03 times that divided by the gradient's root mean square at
        the start, so that it does not depend on the metric's scale.
    num_leaves
        Leaves of a tree. None chooses by the rows of the training data: 16 for ten thousand, twice as many for four
        times as many rows, 64 at most.
    max_depth, min_child_samples
        Depth of a tree (-1 for no limit), and rows in a leaf.
    reg_lambda
        L2 regularisation of leaf values; the ridge of ``leaf_values="full"``.
    subsample_queries, subsample, colsample
        Share of the queries, of the rows and of the columns that a tree is grown from. ``subsample=None`` is 1 where
        queries have random weights (see the next), and 0.7 otherwise.
    bagging_temperature
        Queries count with random weights when a tree is grown, drawn anew for each: (-log u)^bagging_temperature with u
        between 0 and 1. 1 is the Bayesian bootstrap, 0 weighs all alike. Full leaf values are solved with equal weights
        all the same. None is 0.7 with full leaf values if ``subsample`` is left open too and 10 % of the documents are
        relevant, otherwise 0.
    leaf_values
        ``"diagonal"``: each leaf by its own gradient and curvature, as the engine does it. ``"full"``: all leaves
        of a tree solved together with the objective's full curvature between them. ``"auto"``: full with the
        objective ``"auto"``, where it has curvature, weights are the same within each query and ``engine_params`` do
        not need the engine's own values; otherwise diagonal.
    early_stopping_rounds
        Stop when the first metric on the first evaluation set has not improved for so many trees, and keep the best.
    langevin
        Langevin boosting (SGLB): noise in the gradients and shrinking of earlier trees, for global optima.
    diffusion_temperature, shrink_rate
        β and γ of SGLB; by default 10000 and 0.001 with ``langevin``. The noise has the standard deviation
        sqrt(2 / (learning_rate β)).
    leaf_noise
        ``"shared"``: splits and leaf values see the same noise. ``"independent"``: leaf values get a draw of
        their own, as the SGLB algorithm says, at the price of computing them here.
    random_state
        Seed. The same seed gives the same model, for any number of threads: gradients are rounded to 2^-28 of the
        largest, so that the engine's sums are exact. None draws one.
    n_jobs
        Number of threads; None or -1 for all cores. Small data, up to 300 000 values, are trained in one.
    checkpoint
        A folder: training is saved there every 100 trees or 60 seconds, and the same ``fit`` goes on from there
        after an interruption. A dict ``{"path": ..., "trees": ..., "seconds": ...}`` chooses other intervals. Where
        ``engine_params`` sample at each node of a tree, it goes back to the last multiple of twenty trees.
    verbose
        1 shows progress, 0 nothing.
    engine_params
        Further parameters of the engine, by its own names. ``max_bin``, the number of values that a column is reduced
        to, is chosen by the rows of the training data unless given here: 63 for ten thousand, twice as many for four
        times as many rows, 255 at most.

    Attributes
    ----------
    best_iteration_ : int
        Iterations in the model.
    learning_rate_, num_leaves_, max_bin_, subsample_, bagging_temperature_, leaf_values_
        What was used where the parameter left the choice; the learning rate is that of the first tree.
    learning_rates_ : list
        Learning rate of each iteration in the model.
    evals_result_ : dict
        Metrics of each evaluation set after each tree: ``evals_result_["valid_0"]["ndcg@10"]``.
    feature_importances_ : ndarray
        Total gain of the splits on each column, as shares of 1.
    n_features_in_, feature_names_in_
        Columns of the training data.
    interrupted_ : bool
        True if Ctrl-C ended the training; the model has the trees up to then.
    times_ : dict
        Seconds of training in each phase, over all parts of a resumed training: ``"gradients"``, ``"trees"``,
        ``"leaves"`` (values computed here, not by the engine) and ``"evaluation"``.

    Examples
    --------
    >>> from rankwright import Ranker, make_web_search
    >>> train, test = make_web_search(60, seed=1).split(0.3)
    >>> ranker = Ranker(metric="ndcg@10", n_estimators=20, verbose=0).fit(train)
    >>> ranker.score(test) > 0.3
    True
    """

    def __init__(
        self,
        objective: str | Objective = "auto",
        metric: str | Metric | Sequence[str | Metric] = "ndcg@10",
        engine: str = "lightgbm",
        *,
        n_estimators: int = 300,
        learning_rate: float | None = None,
        num_leaves: int | None = None,
        max_depth: int = -1,
        min_child_samples: int = 50,
        reg_lambda: float = 0.3,
        subsample_queries: float = 1.0,
        subsample: float | None = None,
        colsample: float = 0.7,
        bagging_temperature: float | None = None,
        leaf_values: str = "auto",
        early_stopping_rounds: int | None = None,
        langevin: bool = False,
        diffusion_temperature: float | None = None,
        shrink_rate: float | None = None,
        leaf_noise: str = "shared",
        random_state: int | None = 0,
        n_jobs: int | None = None,
        checkpoint: str | os.PathLike[str] | dict[str, Any] | None = None,
        verbose: int = 1,
        engine_params: dict[str, Any] | None = None,
    ) -> None:
        self.objective = objective
        self.metric = metric
        self.engine = engine
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
        self.langevin = langevin
        self.diffusion_temperature = diffusion_temperature
        self.shrink_rate = shrink_rate
        self.leaf_noise = leaf_noise
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.checkpoint = checkpoint
        self.verbose = verbose
        self.engine_params = engine_params

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        qid: Any = None,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        eval_set: Any = None,
        init_model: Ranker | str | os.PathLike[str] | None = None,
        callbacks: Sequence[Callable[[Progress], object]] | None = None,
    ) -> Self:
        """Train.

        Parameters
        ----------
        X, y, qid, group, sample_weight
            As in `RankingData` (whose ``weights`` are ``sample_weight`` here); or a `RankingData` as ``X`` alone.
            Rows may come in any order; ``qid`` and ``y`` may name columns of a data frame.
        eval_set
            Evaluation sets: a list of ``(X, y, qid)`` or of `RankingData`, or one of them. The `RankingData` that is
            trained on may be among them, for curves of the training, and costs no second copy.
        init_model
            A fitted Ranker, or the path of a saved one, to add trees to.
        callbacks
            Functions called with a `Progress` after each tree; training stops when one returns True.
        """
        objective, metrics, settings = self._settings()
        watchers = _callbacks(callbacks)
        earlier = _fitted(init_model)
        train = _data(X, y, qid, group, sample_weight, None if earlier is None else earlier.columns_)
        target = next(iter(metrics.values()))
        objective = resolve_objective(self.objective, target, train.y)
        settings = choose_settings(
            settings,
            train,
            objective,
            target,
            temperature=self.bagging_temperature,
            always_full=self.leaf_values == "full",
        )
        valid = [_evaluation_set(one, number, train) for number, one in enumerate(_listed(eval_set))]
        if settings.patience is not None and not valid:
            raise ValueError("early_stopping_rounds needs an eval_set to watch; pass eval_set=[(X, y, qid)].")
        state = State()
        if earlier is not None:
            state = State(text=earlier.forest_.text, initial_trees=earlier.forest_.n_trees)
        checkpoint = self._checkpoint(objective, metrics, settings, [train, *valid], state.text)
        if checkpoint is not None:
            state = checkpoint.load() or state
        boosting = Boosting(objective, metrics, train, valid, settings)
        interrupted = False
        try:
            with Display(self.verbose, settings.n_trees, boosting.target) as display:

                def after(current: State, progress: Progress) -> bool:
                    display.update(progress)
                    answers = [callback(progress) is True for callback in watchers]
                    if checkpoint is not None:
                        checkpoint.offer(current, boosting)  # last: what callbacks recorded covers it
                    return any(answers)

                boosting.run(state, after)
        except KeyboardInterrupt:
            if state.iteration == 0:
                raise  # there is no tree to keep
            interrupted = True
            _LOG.warning(
                "training was interrupted after %d iterations; the model has the trees so far", state.iteration
            )
        if checkpoint is not None:
            checkpoint.save(state)
        self.label_column_ = y if isinstance(y, str) else None
        self.qid_column_ = qid if isinstance(qid, str) else None
        self.interrupted_ = interrupted
        self._keep(state, boosting, objective, metrics, settings, train)
        return self

    def predict(self, X: Any, *, contributions: bool = False) -> Floats:
        """Scores of rows, in their order; with ``contributions`` the SHAP values [rows, columns + 1] they sum.

        The rows of a `RankingData` are in its own order, that of its ``y`` and ``qid``.
        """
        forest, matrix = self._ready(X)
        if contributions:
            values: Floats = forest.contributions(matrix, threads=self._threads())
            return values
        scores: Floats = forest.predict(matrix, threads=self._threads())
        return scores

    def staged_predict(self, X: Any, *, every: int = 1) -> Iterator[Floats]:
        """Yield scores after ``every`` trees, twice as many, and so on: for learning curves."""
        _check("every", every, _WHOLE, 1)
        forest, matrix = self._ready(X)
        scores = np.zeros(matrix.shape[0])
        for start in range(0, forest.n_trees, every):
            stop = min(start + every, forest.n_trees)
            scores = scores + forest.predict_block(matrix, start, stop, threads=self._threads())
            yield scores

    def rank(self, X: Any, qid: Any = None, *, group: ArrayLike | None = None) -> NDArray[np.int64]:
        """Rank of each row within its query, 1 for the best; equal scores in row order.

        ``qid`` may name a column of a data frame, and may be left out where ``fit`` was given its name.
        """
        check_is_fitted(self)
        if isinstance(X, RankingData):
            if qid is not None or group is not None:
                raise ValueError("X is a RankingData, which has its queries; leave out qid and group.")
            scores, queries = self.predict(X), X.queries.grouped()
        else:
            if qid is None and group is None and self.qid_column_ in frame_columns(X):
                qid = self.qid_column_
            forest, matrix = self._ready(X, leave_out=[qid] if isinstance(qid, str) else [])
            scores = forest.predict(matrix, threads=self._threads())
            queries = Queries.of(len(scores), _column(X, qid, "qid"), group)
        grouped = np.ascontiguousarray(queries.group(scores))
        order = np.empty(len(scores), dtype=np.int64)
        order_queries(0, queries.n_queries, queries.boundaries, grouped, grouped, INPUT, len(order), order)
        starts = np.repeat(queries.boundaries[:-1], queries.sizes)
        ranks = np.empty(len(scores), dtype=np.int64)
        ranks[starts + order] = np.arange(len(scores)) - starts + 1
        return queries.ungroup(ranks)

    def score(
        self,
        X: Any,
        y: Any = None,
        qid: Any = None,
        *,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Mean of the first metric (ties count as the worst order); its negative where lower is better.

        ``y`` and ``qid`` may name columns of a data frame, and may be left out where ``fit`` was given their names.
        Weights are weights of queries: one per query, or one per row and the same within a query.
        """
        check_is_fitted(self)
        named = frame_columns(X)
        if y is None and self.label_column_ in named:
            y = self.label_column_
        if qid is None and group is None and self.qid_column_ in named:
            qid = self.qid_column_
        forest, matrix = self._ready(X, leave_out=[name for name in (y, qid) if isinstance(name, str)])
        if not isinstance(X, RankingData):
            X, y, qid = matrix, _column(X, y, "y"), _column(X, qid, "qid")
        data = _data(X, y, qid, group, sample_weight)
        scores = forest.predict(data.X, threads=self._threads())
        target = self.metrics_[0]
        result = evaluate(
            scores, data.y, group=data.group, metrics=[target], weights=data.weights, threads=self._threads()
        )
        mean = result.mean[str(target)]
        return mean if target.higher_is_better else -mean

    @property
    def feature_importances_(self) -> Floats:
        """Total gain of the splits on each column, as shares of 1."""
        check_is_fitted(self)
        gains: Floats = self.forest_.importances("gain")
        return gains / gains.sum() if gains.sum() > 0 else gains

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a folder, or to a file that ends in ``.zip``; see `rankwright.persistence`."""
        check_is_fitted(self)
        write_model(path, self.forest_.text, self.manifest_)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Ranker:
        """Read a saved model. Nothing in it is executed; a damaged or newer file is refused with the reason."""
        text, manifest = read_model(path)
        try:
            params = dict(manifest["parameters"])
            columns = Columns(
                list(manifest["feature_names"]),
                {name: None if v is None else tuple(v) for name, v in manifest["categories"].items()},
            )
            ranker = cls(**params)
            ranker.metrics_ = [parse_metric(one) for one in manifest["metrics"]]
            ranker.objective_ = parse_objective(manifest["objective"])
            ranker.label_column_, ranker.qid_column_ = manifest["label_column"], manifest["qid_column"]
            ranker.evals_result_ = manifest["evals_result"]
            ranker.best_iteration_ = int(manifest["best_iteration"])
            ranker.interrupted_ = bool(manifest["interrupted"])
            before = {"learning_rates": [], "max_bin": 255, "subsample": ranker.subsample, "bagging_temperature": 0.0}
            chosen = {**before, **manifest["chosen"]}  # the first models did not keep all
            for name in _CHOSEN:
                setattr(ranker, f"{name}_", chosen[name])
            ranker.times_ = dict(manifest.get("times", {}))
            ranker.forest_ = load_engine(manifest["engine"]["name"]).Forest(text)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path}: the manifest lacks or garbles {error}; it was damaged.") from None
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        if ranker.forest_.n_features != len(columns.feature_names):
            raise ValueError(
                f"{path}: the model has {ranker.forest_.n_features} features and the manifest names "
                f"{len(columns.feature_names)}; the files do not belong together."
            )
        ranker.columns_ = columns
        ranker.n_features_in_ = len(columns.feature_names)
        if manifest.get("named"):
            ranker.feature_names_in_ = np.array(columns.feature_names, dtype=object)
        ranker.manifest_ = {k: v for k, v in manifest.items() if k not in ("format_version", "model_sha256")}
        return ranker

    def check_params(self) -> None:
        """Raise ValueError where a parameter cannot be used, as ``fit`` does before any work."""
        self._settings()

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn what this estimator takes."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags

    # The rest is private.

    def _threads(self) -> int:
        if self.n_jobs is None or self.n_jobs == -1:
            return available_threads(None)
        _check("n_jobs", self.n_jobs, _WHOLE, 1, otherwise="None or -1 for all cores")
        return int(self.n_jobs)

    def _metrics(self) -> dict[str, Metric]:
        wanted: list[Any] = list(self.metric) if isinstance(self.metric, list | tuple) else [self.metric]
        if not wanted:
            raise ValueError("metric is empty: name at least one, such as 'ndcg@10'.")
        for one in wanted:
            if not isinstance(one, str | Metric):
                raise ValueError(f"metric must be a name such as 'ndcg@10', a Metric, or a list of them; got {one!r}.")
        return {one.strip() if isinstance(one, str) else str(one): parse_metric(one) for one in wanted}

    def _settings(self) -> tuple[Objective, dict[str, Metric], Settings]:
        """Check every parameter before any work is done; what the data decides is for `choose_settings`."""
        metrics = self._metrics()
        target = next(iter(metrics.values()))
        objective = resolve_objective(self.objective, target)
        _check("n_estimators", self.n_estimators, _WHOLE, 1)
        if self.learning_rate is not None:
            _check("learning_rate", self.learning_rate, _NUMBER, 0, above=True, otherwise="None to choose by the data")
        if self.num_leaves is not None:
            _check("num_leaves", self.num_leaves, _WHOLE, 2, 131072, otherwise="None to choose by the data")
        _check("min_child_samples", self.min_child_samples, _WHOLE, 1)
        _check("reg_lambda", self.reg_lambda, _NUMBER, 0)
        for share in ("subsample_queries", "colsample"):
            _check(share, getattr(self, share), _NUMBER, 0, 1, above=True)
        if self.subsample is not None:
            _check("subsample", self.subsample, _NUMBER, 0, 1, above=True, otherwise="None to choose")
        if self.bagging_temperature is not None:
            _check("bagging_temperature", self.bagging_temperature, _NUMBER, 0, 10, otherwise="None to choose")
        if self.max_depth is not None and self.max_depth != -1:
            _check("max_depth", self.max_depth, _WHOLE, 1, otherwise="-1 for no limit")
        if self.early_stopping_rounds is not None:
            _check("early_stopping_rounds", self.early_stopping_rounds, _WHOLE, 1, otherwise="None for no stopping")
        for name, allowed in (("leaf_values", ("auto", "diagonal", "full")), ("leaf_noise", ("shared", "independent"))):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}; got {getattr(self, name)!r}.")
        if self.leaf_values == "full" and self.reg_lambda == 0:
            raise ValueError("leaf_values='full' needs reg_lambda above 0: the full system has no unique solution.")
        full = self.leaf_values == "full"
        langevin = self._langevin()
        engine = load_engine(self.engine)
        if self.engine_params is not None and not isinstance(self.engine_params, dict):
            raise ValueError(f"engine_params must be a dict of the engine's parameters; got {self.engine_params!r}.")
        check = partial(
            engine.check_params,
            self.engine_params or {},
            shrinks=langevin is not None and langevin.shrink_rate > 0,
        )
        if self.leaf_values == "auto" and is_auto(self.objective) and not objective.first_order and self.reg_lambda > 0:
            with suppress(ValueError):  # parameters that only the engine's own leaf values can follow
                check(own_leaves=True)
                full = True
        params = check(own_leaves=full or self.leaf_noise == "independent")
        seed = self.random_state
        if seed is None:
            if self.checkpoint is not None:
                raise ValueError("checkpoint needs a random_state, or no later fit could go on from there; set one.")
            seed = int(np.random.SeedSequence().generate_state(1)[0])
        elif isinstance(seed, np.random.RandomState):
            seed = int(seed.randint(2**31))
        _check("random_state", seed, _WHOLE, 0, otherwise="None for any seed")
        options = {
            "learning_rate": None if self.learning_rate is None else float(self.learning_rate),
            "num_leaves": None if self.num_leaves is None else int(self.num_leaves),
            "max_depth": -1 if self.max_depth is None else int(self.max_depth),
            "min_child_samples": int(self.min_child_samples),
            "reg_lambda": float(self.reg_lambda),
            "subsample": None if self.subsample is None else float(self.subsample),
            "colsample": float(self.colsample),
            "max_bin": params.get("max_bin_by_feature", params.get("max_bin")),
        }
        return (
            objective,
            metrics,
            Settings(
                engine=self.engine,
                n_trees=int(self.n_estimators),
                tree_options=options,
                engine_params=params,
                full_leaves=full,
                steering=None,
                subsample_queries=float(self.subsample_queries),
                bagging_temperature=0.0,
                langevin=langevin,
                patience=self.early_stopping_rounds,
                seed=int(seed),
                threads=self._threads(),
            ),
        )

    def _langevin(self) -> Langevin | None:
        if not isinstance(self.langevin, bool | np.bool_):
            raise ValueError(f"langevin must be True or False; got {self.langevin!r}.")
        if not self.langevin:
            for name in ("diffusion_temperature", "shrink_rate"):
                if getattr(self, name) is not None:
                    raise ValueError(f"{name} belongs to Langevin boosting; set langevin=True or leave it out.")
            if self.leaf_noise != "shared":
                raise ValueError("leaf_noise belongs to Langevin boosting; set langevin=True or leave it out.")
            return None
        temperature = 1e4 if self.diffusion_temperature is None else self.diffusion_temperature
        rate = 1e-3 if self.shrink_rate is None else self.shrink_rate
        _check("diffusion_temperature", temperature, _NUMBER, 0, above=True)
        _check("shrink_rate", rate, _NUMBER, 0)
        return Langevin(float(temperature), float(rate), self.leaf_noise == "independent")

    def _checkpoint(
        self,
        objective: Objective,
        metrics: dict[str, Metric],
        settings: Settings,
        parts: Sequence[RankingData],
        initial: str | None,
    ) -> Checkpoint | None:
        if self.checkpoint is None:
            return None
        chosen: dict[str, Any] = self.checkpoint if isinstance(self.checkpoint, dict) else {"path": self.checkpoint}
        if not isinstance(chosen.get("path"), str | os.PathLike) or chosen.keys() - {"path", "trees", "seconds"}:
            raise ValueError(
                f"checkpoint is a folder, or a dict of path and, if you like, trees and seconds; got {chosen!r}."
            )
        trees, seconds = chosen.get("trees", _CHECKPOINT_TREES), chosen.get("seconds", _CHECKPOINT_SECONDS)
        _check("trees of checkpoint", trees, _WHOLE, 1)
        _check("seconds of checkpoint", seconds, _NUMBER, 0)
        same = {k: repr(v) for k, v in asdict(settings).items() if k not in ("n_trees", "threads")}
        data = [fingerprint(part) for part in parts]
        key = repr((str(objective), list(metrics), sorted(same.items()), data, initial))
        return Checkpoint(Path(chosen["path"]), trees, seconds, hashlib.sha256(key.encode()).hexdigest())

    def _keep(
        self,
        state: State,
        boosting: Boosting,
        objective: Objective,
        metrics: dict[str, Metric],
        settings: Settings,
        train: RankingData,
    ) -> None:
        """Turn the state into fitted attributes."""
        engine = load_engine(settings.engine)
        best = state.best(boosting.target) if settings.patience is not None else None
        self.best_iteration_ = state.iteration if best is None else best
        self.learning_rate_ = settings.tree_options["learning_rate"]
        later = [self.learning_rate_] * state.iteration if settings.steering is None else state.rates
        self.learning_rates_ = [self.learning_rate_, *later][: self.best_iteration_]
        self.num_leaves_ = settings.tree_options["num_leaves"]
        self.max_bin_ = settings.tree_options["max_bin"]
        self.subsample_ = settings.tree_options["subsample"]
        self.bagging_temperature_ = settings.bagging_temperature
        self.leaf_values_ = "full" if settings.full_leaves else "diagonal"
        forest = engine.Forest(state.text).first(state.trees[self.best_iteration_ - 1])
        self.forest_ = forest.scaled(state.factors[self.best_iteration_ - 1])
        self.times_ = dict(state.times)
        self.evals_result_ = {f"valid_{number}": curves for number, curves in enumerate(state.history)}
        self.metrics_ = list(metrics.values())
        self.objective_ = objective
        self.columns_ = Columns(train.feature_names, train.categories)
        self.n_features_in_ = len(train.feature_names)
        if train.named:
            self.feature_names_in_ = np.array(train.feature_names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        parameters = {k: v for k, v in self.get_params(deep=False).items() if k != "checkpoint"}
        parameters["objective"] = str(self.objective)
        if isinstance(self.random_state, np.random.RandomState):
            parameters["random_state"] = settings.seed
        names = [str(one) for one in self.metrics_]
        parameters["metric"] = names[0] if len(names) == 1 else names
        self.manifest_ = {
            "rankwright": version("rankwright"),
            "engine": {"name": engine.NAME, "version": engine.VERSION},
            "versions": {name: version(name) for name in ("numpy", "numba", "scikit-learn")},
            "python": platform.python_version(),
            "parameters": parameters,
            "chosen": {name: getattr(self, f"{name}_") for name in _CHOSEN},
            "objective": str(objective),
            "metrics": names,
            "ties": "worst",
            "feature_names": train.feature_names,
            "named": train.named,
            "label_column": self.label_column_,
            "qid_column": self.qid_column_,
            "categories": {k: None if v is None else list(v) for k, v in train.categories.items()},
            "seed": settings.seed,
            "data_fingerprint": fingerprint(train),
            "best_iteration": self.best_iteration_,
            "interrupted": self.interrupted_,
            "times": self.times_,
            "evals_result": self.evals_result_,
        }

    def _other_columns(self) -> list[str]:
        """Columns of the training frame that are no features."""
        return [name for name in (self.label_column_, self.qid_column_) if name is not None]

    def _ready(self, X: Any, leave_out: Sequence[str] = ()) -> tuple[Any, Any]:
        check_is_fitted(self)
        if isinstance(X, RankingData):
            X.check_columns(self.columns_)
            return self.forest_, X.X
        return self.forest_, encode_features(drop_columns(X, [*self._other_columns(), *leave_out]), self.columns_)


def _check(
    name: str,
    value: Any,
    kinds: tuple[type, ...],
    low: float,
    high: float = math.inf,
    *,
    above: bool = False,
    otherwise: str = "",
) -> None:
    number: Any = value
    valid = isinstance(value, kinds) and not isinstance(value, bool) and math.isfinite(number)
    if not valid or number < low or number > high or (above and number == low):
        kind = "a whole number" if float not in kinds else "a number"
        least = f"above {low:g}" if above else f"from {low:g}"
        most = f" up to {high:g}" if math.isfinite(high) else ""
        else_ = f", or {otherwise}" if otherwise else ""
        raise ValueError(f"{name} must be {kind} {least}{most}{else_}; got {value!r}.")


def _data(
    X: Any, y: Any, qid: Any, group: Any, weights: Any, reference: Columns | RankingData | None = None
) -> RankingData:
    if isinstance(X, RankingData):
        if any(one is not None for one in (y, qid, group, weights)):
            raise ValueError(
                "X is a RankingData, which has labels, queries and weights; leave out the other arguments."
            )
        if reference is not None:
            X.check_columns(reference)
        return X
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None: labels, one per row.")
    return RankingData(X, y, qid=qid, group=group, weights=weights, reference=reference)


def _listed(eval_set: Any) -> list[Any]:
    if eval_set is None:
        return []
    if isinstance(eval_set, RankingData) or (isinstance(eval_set, tuple) and len(eval_set) == 3):
        return [eval_set]
    if not isinstance(eval_set, list | tuple):
        raise ValueError(f"eval_set must be a list of (X, y, qid) or of RankingData; got a {type(eval_set).__name__}.")
    return list(eval_set)


def _callbacks(callbacks: Any) -> list[Callable[[Progress], object]]:
    wanted = [] if callbacks is None else callbacks
    if not isinstance(wanted, list | tuple) or not all(callable(one) for one in wanted):
        raise ValueError(f"callbacks must be a list of functions that take a Progress; got {callbacks!r}.")
    return list(wanted)


def _fitted(init_model: Any) -> Ranker | None:
    """Return the model to add trees to."""
    if init_model is None:
        return None
    if not isinstance(init_model, Ranker | str | os.PathLike):
        raise ValueError(f"init_model must be a fitted Ranker or the path of a saved one; got {init_model!r}.")
    earlier = init_model if isinstance(init_model, Ranker) else Ranker.load(init_model)
    check_is_fitted(earlier)
    return earlier


def _evaluation_set(one: Any, number: int, train: RankingData) -> RankingData:
    try:
        if isinstance(one, RankingData):
            return _data(one, None, None, None, None, train)
        if not isinstance(one, tuple | list) or len(one) != 3:
            raise ValueError("expected (X, y, qid) or a RankingData")
        X, y, qid = one
        return _data(X, y, qid, None, None, train)
    except ValueError as error:
        raise ValueError(f"eval_set[{number}]: {error}") from None


def _column(X: Any, given: Any, argument: str) -> Any:
    """Return the column that a text names, or what was given instead of a name."""
    if not isinstance(given, str):
        return given
    if given not in frame_columns(X):
        raise ValueError(f"{argument}={given!r} is not a column of X; name one of a data frame, or give an array.")
    return X[given]
