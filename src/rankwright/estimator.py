"""The methods of a trained ranker, in scikit-learn's conventions."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from rankwright.data.arguments import named_labels_of, ranking_data
from rankwright.data.columns import (
    Columns,
    drop_columns,
    frame_columns,
    further_columns,
    named_column,
    names_columns,
)
from rankwright.data.dataset import RankingData
from rankwright.data.folds import Folds
from rankwright.data.guards import TrainedOn
from rankwright.data.queries import Queries
from rankwright.engines.contract import Forest
from rankwright.evaluation.per_query import evaluate_data, ranks_within_queries
from rankwright.metrics import Metric
from rankwright.metrics import metric as parse_metric
from rankwright.model import Model, load
from rankwright.objectives import Objective
from rankwright.objectives import objective as parse_objective
from rankwright.support import checks
from rankwright.support.files import is_path
from rankwright.support.notation import UnknownName
from rankwright.training.ending import read_ending
from rankwright.training.other_names import explaining_names
from rankwright.training.plan import read_threads
from rankwright.training.result import naming_classes
from rankwright.training.stopping import read_stopping

if TYPE_CHECKING:
    from rankwright.calibration import Calibration
    from rankwright.evaluation.permutation import PermutationImportance
    from rankwright.evaluation.reliability import Reliability
    from rankwright.explanation import Explanation
    from rankwright.linear_start import LinearStart

Floats = NDArray[np.float64]

# Settings in a manifest that become fitted attributes.
_CHOSEN = {
    "learning_rate",
    "learning_rates",
    "num_leaves",
    "max_bin",
    "subsample",
    "colsample",
    "bagging_temperature",
    "leaf_values",
}


class FittedRanker(BaseEstimator):  # type: ignore[misc]
    """The methods of `rankwright.Ranker` that need a model."""

    n_jobs: int | None
    model_: Model
    label_column_: str | list[str] | None
    qid_column_: str | None
    # None in a loaded model.
    _trained_on: TrainedOn | None = None
    # None until they are read from the manifest.
    _metrics: list[Metric] | None
    _objective: Objective | None

    @explaining_names("predict")
    def predict(
        self,
        X: Any,
        *,
        qid: Any = None,
        group: ArrayLike | None = None,
        base_score: Any = None,
        contributions: bool = False,
        calibrated: bool = False,
    ) -> Floats:
        """Return the score of each row, in the order of the rows.

        With ``contributions``, return the SHAP values [rows, columns + 1] that add up to the
        scores. With ``calibrated``, return expected labels or probabilities of relevance; see
        `calibrate`.

        The rows of a `RankingData` are in the order of its ``y`` and ``qid``. Files (a folder, a
        pattern, a path, or a list of them) are streamed: their rows are in the order of the files,
        and ``qid`` names a column. A model with features within the query needs ``qid`` or
        ``group``, and a model with base scores needs their column or ``base_score``; see
        `Model.predict`.
        """
        check_is_fitted(self)
        if self._trained_on is not None:
            self._trained_on.check_order(X)
        threads = read_threads(self.n_jobs)
        return self.model_.predict(
            X,
            qid=qid,
            group=group,
            base_score=base_score,
            contributions=contributions,
            calibrated=calibrated,
            n_jobs=threads,
        )

    def staged_predict(
        self,
        X: Any,
        *,
        qid: Any = None,
        group: ArrayLike | None = None,
        base_score: Any = None,
        every: int = 1,
    ) -> Iterator[Floats]:
        """Yield scores after ``every`` trees, twice as many, and so on, for learning curves.

        With Langevin boosting the trees have been shrunk as often as in the final model. Without
        base scores, that is a positive factor, which does not change the ranking.
        """
        checks.whole("every", every, least=1)
        check_is_fitted(self)
        threads = read_threads(self.n_jobs)
        yield from self.model_.staged_predict(
            X, qid=qid, group=group, base_score=base_score, every=every, n_jobs=threads
        )

    def spread(self, X: Any, qid: Any = None, *, group: ArrayLike | None = None) -> Floats:
        """Return how far the members of an average differ about each document; see `Model.spread`."""
        check_is_fitted(self)
        return self.model_.spread(X, qid=qid, group=group, n_jobs=read_threads(self.n_jobs))

    def ranks(
        self, X: Any, qid: Any = None, *, group: ArrayLike | None = None, base_score: Any = None
    ) -> NDArray[np.int64]:
        """Return the rank of each row within its query, 1 for the best; ties keep the row order.

        ``qid`` may name a column of a data frame, and may be left out if ``fit`` was given a name.
        """
        check_is_fitted(self)
        if isinstance(X, RankingData):
            if qid is not None or group is not None:
                raise ValueError(
                    "X is a RankingData, which has its queries; leave out qid and group."
                )
            scores, queries = self.predict(X, base_score=base_score), X.queries.grouped()
        else:
            # A data frame like the one in fit has the query ids with it.
            if qid is None and group is None and self.qid_column_ in frame_columns(X):
                qid = self.qid_column_
            scores = self.predict(X, qid=qid, group=group, base_score=base_score)
            queries = Queries.of(len(scores), named_column(X, qid, "qid"), group)
        return ranks_within_queries(scores, queries)

    def score(
        self,
        X: Any,
        y: Any = None,
        qid: Any = None,
        *,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        base_score: Any = None,
    ) -> float:
        """Return the mean of the first metric, or its negative if lower is better.

        Ties count as the worst order. ``y`` and ``qid`` may name columns of a data frame, and may
        be left out if ``fit`` was given names. Weights are weights of queries: a weight per query,
        or a weight per row that is the same within a query. ``base_score`` is as in `predict`.
        """
        data = self._labelled(X, y, qid, group, sample_weight, base_score)
        if self._trained_on is not None:
            self._trained_on.check_new_queries(data.queries, "score")
        target, threads = self.metrics_[0], read_threads(self.n_jobs)
        result = evaluate_data(self.predict(data), data, [target], n_jobs=threads)
        mean = result.mean[str(target)]
        # scikit-learn's searches take the highest score for the best.
        if target.higher_is_better:
            return mean
        return -mean

    def calibrate(
        self,
        X: Any,
        y: Any = None,
        qid: Any = None,
        *,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        base_score: Any = None,
        method: str = "isotonic",
        target: str = "label",
        threshold: float | None = None,
        folds: int | str | None = None,
    ) -> Self:
        """Learn the meaning of scores, for ``predict(..., calibrated=True)``.

        The calibration is saved with the model. The map from scores to values increases strictly,
        so it does not change the ranking. ``y`` and ``qid`` may name columns of a data frame, as in
        `score`.

        Parameters
        ----------
        X, y, qid, group, sample_weight, base_score
            Queries that the model was not trained on, at least 20; with ``folds`` the training data.
        method
            ``"isotonic"``: any increasing map. It needs more queries than ``"logistic"``, a line
            through log odds.
        target
            ``"label"``: the expected label. ``"relevance"``: the probability that the label is at
            least ``threshold``.
        threshold
            Least relevant label, with ``target="relevance"``; by default 1.
        folds
            Fit on scores of the training data instead. Each fold of its queries is scored by a
            model of the other folds; with ``"time"`` by a model of the queries before it.

        Examples
        --------
        >>> import rankwright as rw
        >>> train, rest = rw.make_web_search(80, random_state=1).split(0.5)
        >>> ranker = rw.Ranker(n_estimators=10, verbose=0).fit(train).calibrate(rest, target="relevance")
        >>> values = ranker.predict(rest, calibrated=True)
        >>> bool(0 < values.min() < values.max() < 1)
        True
        """
        check_is_fitted(self)
        from rankwright.calibration import check_options, fit_calibration
        from rankwright.training.cross_fitting import cross_fitted, held_out

        check_options(method, target, threshold)
        data = self._labelled(X, y, qid, group, sample_weight, base_score)
        # Cross-fitting is the way to learn from training data, and needs no warning.
        if folds is None and self._was_trained_on(data):
            raise checks.ArgumentError(
                "folds",
                "must be given, for example 5: it cross-fits on these data.",
                problem="these are the data that the model was trained on, so its scores are too good "
                "to learn from. Give held-out queries; otherwise",
            )
        number = None
        if folds is None:
            scored = held_out(self, data)
        else:
            read_folds = Folds.of(folds, 5)
            number = read_folds.number
            scored = cross_fitted(self, data, read_folds)
        calibration = fit_calibration(
            scored.scores,
            scored.labels,
            n_queries=scored.n_queries,
            weights=scored.weights,
            method=method,
            target=target,
            threshold=threshold,
            folds=number,
        )
        self.model_ = self.model_.with_calibration(calibration)
        return self

    def reliability(
        self,
        X: Any,
        y: Any = None,
        qid: Any = None,
        *,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        base_score: Any = None,
        bins: int = 15,
    ) -> Reliability:
        """Compare calibrated values with labels of other queries.

        The result has the reliability curve and the calibration error.
        """
        from rankwright.calibration import targets_of
        from rankwright.evaluation.reliability import reliability

        check_is_fitted(self)
        calibration = self.model_.require_calibration()
        data = self._labelled(X, y, qid, group, sample_weight, base_score)
        # Documents without a label have a value, but there is no label to compare it with.
        values = self.predict(data, calibrated=True)[data.judged]
        data = data.only_judged()
        targets = targets_of(data.y, calibration.target, calibration.threshold)
        return reliability(values, targets, group=data.group, sample_weight=data.weights, bins=bins)

    def explain(
        self,
        X: Any,
        a: int,
        b: int,
        *,
        qid: Any = None,
        group: ArrayLike | None = None,
        base_score: Any = None,
    ) -> Explanation:
        """Explain why row ``a`` of X is above or below row ``b``; see `Model.explain`."""
        check_is_fitted(self)
        threads = read_threads(self.n_jobs)
        return self.model_.explain(
            X, a, b, qid=qid, group=group, base_score=base_score, n_jobs=threads
        )

    def shap_values(
        self, X: Any, *, qid: Any = None, group: ArrayLike | None = None, base_score: Any = None
    ) -> Any:
        """Return SHAP values as a ``shap.Explanation``, for the plots of the library shap.

        The values are computed here, as for ``predict(contributions=True)``. The library is only
        needed for its class; the extra ``shap`` installs it.

        Examples
        --------
        >>> import rankwright as rw
        >>> data = rw.make_web_search(30, random_state=1)
        >>> ranker = rw.Ranker(n_estimators=5, verbose=0).fit(data)
        >>> values = ranker.shap_values(data)             # then shap.plots.beeswarm(values)
        >>> values.shape == data.X.shape
        True
        """
        check_is_fitted(self)
        try:
            from shap import Explanation as ShapExplanation
        except ImportError as error:
            raise ImportError(
                "shap_values returns an object of the library shap, which is not installed: "
                'pip install "rankwright[shap]". predict(contributions=True) needs no library.'
            ) from error
        model, threads = self.model_, read_threads(self.n_jobs)
        rows = model.prepare(X, qid, group, base_score, by_column=True, threads=threads)
        values = model.contributions(rows, threads=threads)
        return ShapExplanation(
            values[:, :-1],
            base_values=values[:, -1],
            data=model.values_of_parts(rows),
            feature_names=model.score_parts,
        )

    def permutation_importance(
        self,
        X: Any,
        y: Any = None,
        qid: Any = None,
        *,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        base_score: Any = None,
        metric: str | Metric | None = None,
        columns: Sequence[str] | None = None,
        repeats: int = 5,
        random_state: int = 0,
        confidence: float = 0.95,
    ) -> PermutationImportance:
        """Measure how much worse a metric gets when a column is shuffled within each query.

        Parameters
        ----------
        X, y, qid, group, sample_weight, base_score
            Queries, as in `score`, preferably queries that the model was not trained on.
        metric
            By default the first metric of the training.
        columns
            Names of the columns to shuffle, one at a time; by default all.
        repeats
            Shuffles of each column, whose mean is taken.
        random_state
            The same seed gives the same shuffles, for any order of the rows.
        confidence
            Confidence level of the intervals, which are bootstrapped over queries.
        """
        from rankwright.evaluation.permutation import permutation_importance

        checks.whole("repeats", repeats, least=1)
        checks.whole("random_state", random_state, least=0)
        checks.number("confidence", confidence, least=0.5, most=0.9999)
        data = self._labelled(X, y, qid, group, sample_weight, base_score)
        names = self.columns_.feature_names
        wanted = names if columns is None else list(columns)
        # A text is a sequence of letters, which may even be names of columns.
        if isinstance(columns, str) or not wanted or not set(wanted) <= set(names):
            unknown = next((name for name in wanted if name not in names), columns)
            raise ValueError(
                f"columns must be a list of names of the model's columns; got {unknown!r}."
            )
        target = self.metrics_[0] if metric is None else parse_metric(metric)
        return permutation_importance(
            self.predict,
            data,
            target,
            columns=[names.index(name) for name in wanted],
            used=self.model_.used_columns(),
            repeats=int(repeats),
            random_state=int(random_state),
            confidence=float(confidence),
            threads=read_threads(self.n_jobs),
            verbose=getattr(self, "verbose", 0),
        )

    @property
    def calibration_(self) -> Calibration | None:
        """The calibration that `calibrate` learned; None before."""
        check_is_fitted(self)
        return self.model_.calibration

    @property
    def linear_(self) -> LinearStart | None:
        """The linear ranker that boosting started from; None if it started from 0."""
        check_is_fitted(self)
        return self.model_.linear

    @property
    def feature_importances_(self) -> Floats:
        """Total gain of the splits on each column, as shares of 1."""
        check_is_fitted(self)
        return self.model_.importances()

    @property
    def forest_(self) -> Forest:
        """The trees."""
        return self.model_.forest

    @property
    def booster_(self) -> Any:
        """The trees as a ``Booster`` of the engine's own library, for its tools.

        It predicts the scores of encoded rows, without base scores: categories are codes, and
        features within the query are columns.
        """
        check_is_fitted(self)
        from rankwright.exporting import to_booster

        return to_booster(self.model_)

    @property
    def best_score_(self) -> dict[str, dict[str, float]]:
        """The model's value of each metric on each evaluation set, as in ``evals_result_``."""
        check_is_fitted(self)
        place = self._evaluated_iteration - 1
        return {
            name: {metric: curve[place] for metric, curve in curves.items()}
            for name, curves in self.evals_result_.items()
        }

    @property
    def columns_(self) -> Columns:
        """Names of the columns, and levels of the categorical columns."""
        return self.model_.columns

    @property
    def manifest_(self) -> dict[str, Any]:
        """The content of ``manifest.json`` in a saved model."""
        return self.model_.manifest

    @property
    def metrics_(self) -> list[Metric]:
        """Metrics of the training, the optimised metric first."""
        check_is_fitted(self)
        # A loaded model may name a class that is not defined yet, so we read the names when needed.
        if self._metrics is None:
            with naming_classes(self.model_):
                self._metrics = [parse_metric(text) for text in self.manifest_["metrics"]]
        return self._metrics

    @property
    def objective_(self) -> Objective:
        """The objective of the training."""
        check_is_fitted(self)
        if self._objective is None:
            with naming_classes(self.model_):
                self._objective = parse_objective(self.manifest_["objective"])
        return self._objective

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a folder, or to a file that ends in ``.zip``.

        `rankwright.persistence` describes the files.
        """
        check_is_fitted(self)
        self.model_.save(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a saved model, to train on or to evaluate; `rankwright.load` is enough to predict.

        Loading executes no code of the model. A damaged model, or a model of a newer version, is
        refused with the reason. A model for a metric or objective of your own loads and predicts
        anywhere; to ``score`` and to train on, import the class first.
        """
        model = load(path)
        manifest = model.manifest
        if not isinstance(manifest.get("parameters"), dict):
            raise ValueError(f"{path}: the manifest lacks or garbles 'parameters'; it was damaged.")
        try:
            # The file does not decide where a later fit would write.
            ranker = cls(**{k: v for k, v in manifest["parameters"].items() if k != "checkpoint"})
            ranker._set_model(model)
            # We read metrics and objective now, so that a damaged file fails here.
            try:
                _ = ranker.metrics_, ranker.objective_
            except UnknownName:
                # The user's own class is needed to score and to train, not to predict.
                if not manifest["classes"]:
                    raise
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"{path}: the manifest lacks or garbles {error}; it was damaged."
            ) from None
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        return ranker

    def __sklearn_tags__(self) -> Any:
        """Return the data that this estimator takes, for scikit-learn."""
        tags = super().__sklearn_tags__()
        # Missing values and sparse matrices go to the engine as they are.
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags

    # The rest is private.

    def _html_repr(self) -> str:
        """Return scikit-learn's diagram and, for a fitted ranker, tables of the training."""
        diagram: str = super()._html_repr()
        if not hasattr(self, "model_"):
            return diagram
        from rankwright.training.summary import fitted_html

        return diagram + fitted_html(self)

    @property
    def _evaluated_iteration(self) -> int:
        """The iteration, from 1, with the model's value in the curves.

        With a refit it is the value of the first model.
        """
        # The curves after folds are curves of the final training, and end with the model.
        if self.stopping_ is None or "folds" in self.stopping_:
            return len(self.learning_rates_)
        return int(self.stopping_["kept_iteration"])

    def _was_trained_on(self, data: RankingData) -> bool:
        """Return True for the training data and, with a refit, the validation data."""
        from rankwright.training.checkpoint import fingerprint

        parts = self.manifest_.get("trained_on", [])
        if not isinstance(parts, list):
            parts = []
        # The training arranged its data in the same way before it took the fingerprint.
        arranged = data.to_learn(
            self.model_.recipe, names=self.columns_.feature_names, threads=read_threads(self.n_jobs)
        )
        return fingerprint(arranged) in [self.manifest_["data_fingerprint"], *parts]

    def _labelled(
        self, X: Any, y: Any, qid: Any, group: Any, sample_weight: Any, base_score: Any
    ) -> RankingData:
        """Return rows with their labels, queries and base scores.

        ``y`` and ``qid`` may be left out if ``fit`` was given names.
        """
        check_is_fitted(self)
        if is_path(X):
            if y is None:
                y = self.label_column_
            if qid is None:
                qid = self.qid_column_
        start = self.model_.base_source(base_score)
        if isinstance(X, RankingData) or is_path(X):
            return ranking_data(X, y, qid, group, sample_weight, self.columns_, base_score=start)
        if self._trained_on is not None:
            self._trained_on.check_order(X)
        # A data frame may have the columns of the training data; an array has no names.
        columns = frame_columns(X)
        labels = self.label_column_ or []
        if isinstance(labels, str):
            labels = [labels]
        if y is None and labels and set(labels) <= set(columns):
            y = self.label_column_
        if qid is None and group is None and self.qid_column_ in columns:
            qid = self.qid_column_
        if qid is None and group is None and y is not None:
            raise ValueError(
                "no query ids: pass qid= (one id per row) or group= to score. In a search or "
                "cross-validation of scikit-learn metadata routing passes qid on: "
                "sklearn.set_config(enable_metadata_routing=True)."
            )
        named = [y]
        if names_columns(y, columns) and not isinstance(y, str):
            named = list(y)
        # The columns of labels and queries in the training data are not features here either.
        not_features = [*named, qid, *labels, self.qid_column_]
        base = None if start is None else start[1]
        not_features += [name for name in further_columns(X, self.columns_) if name != base]
        features = drop_columns(X, [name for name in not_features if isinstance(name, str)])
        y, qid = named_labels_of(X, y), named_column(X, qid, "qid")
        return ranking_data(features, y, qid, group, sample_weight, self.columns_, base_score=start)

    def _set_model(
        self,
        model: Model,
        metrics: list[Metric] | None = None,
        objective: Objective | None = None,
        out_of_sample: Floats | None = None,
    ) -> None:
        """Set the fitted attributes.

        Metrics and objective that are None are read from the manifest on first use.
        """
        manifest = model.manifest
        self.label_column_, self.qid_column_ = manifest["label_column"], manifest["qid_column"]
        self._metrics, self._objective = metrics, objective
        settings = manifest["chosen"]
        # Any other name would set an attribute of the file's choice.
        if set(settings) != _CHOSEN:
            name = min(set(settings) ^ _CHOSEN)
            raise ValueError(
                f"the manifest lacks or garbles {name!r} among the chosen settings; it was damaged."
            )
        for name, value in settings.items():
            setattr(self, f"{name}_", value)
        if manifest["n_trees"] != model.n_trees:
            raise ValueError("the manifest lacks or garbles 'n_trees'; it was damaged.")
        self.n_estimators_ = model.n_trees
        self.stopping_ = read_stopping(manifest["stopping"])
        self.best_iteration_ = read_ending(manifest["ending"])["best_iteration"]
        if self.stopping_ is not None:
            self.best_iteration_ = self.stopping_["best_iteration"]
        self.evals_result_ = manifest["evals_result"]
        self.interrupted_ = bool(manifest["interrupted"])
        self.times_ = dict(manifest["times"])
        self.position_bias_ = {}
        self.examination_ = {}
        for name, found in manifest["position_bias"].items():
            self.position_bias_[name] = dict(zip(found["levels"], found["values"], strict=True))
            # Without enough clicks there is no estimate for a column, or for some of its levels.
            if "examination" in found:
                levels = zip(found["levels"], found["examination"], strict=True)
                self.examination_[name] = {k: value for k, value in levels if value is not None}
        self.n_features_in_ = len(model.columns.feature_names)
        if manifest["named"]:
            self.feature_names_in_ = np.array(model.columns.feature_names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.out_of_sample_ = out_of_sample
        self.model_ = model
