"""The rankers of LightGBM, CatBoost and XGBoost as systems, to compare rankwright with them on the same terms.

Each has the defaults of its library and any parameters given by the library's own names. It declares its libraries
(`Library`: installed or not, and how to install them) and the data that it supports (`Capabilities`). Labels are passed
unchanged, except to ``rank:map`` of XGBoost, which needs binary ones.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rankwright.data.dataset import RankingData
from rankwright.metrics import metric as parse_metric
from rankwright.support.ranges import Range
from rankwright_lab.harness import Capabilities, StagedModel, check_installed, check_supported
from rankwright_lab.libraries import CATBOOST, LIGHTGBM, XGBOOST, Library

Floats = NDArray[np.float64]

# What to search, by library: the same kinds of parameters for all, by their own names.
SEARCH_SPACES: dict[str, dict[str, Any]] = {
    "lightgbm": {
        "learning_rate": Range(0.01, 0.3, log=True),
        "num_leaves": Range(4, 64, log=True),
        "min_data_in_leaf": Range(5, 200, log=True),
        "lambda_l2": Range(0.01, 100.0, log=True),
        "bagging_freq": 1,
        "bagging_fraction": Range(0.4, 1.0),
        "feature_fraction": Range(0.2, 1.0),
    },
    "catboost": {
        "learning_rate": Range(0.01, 0.3, log=True),
        "depth": Range(3, 8),
        "l2_leaf_reg": Range(0.01, 100.0, log=True),
        "bootstrap_type": "Bernoulli",
        "subsample": Range(0.4, 1.0),
        "rsm": Range(0.2, 1.0),
    },
    "xgboost": {
        "learning_rate": Range(0.01, 0.3, log=True),
        "max_depth": Range(2, 8),
        "min_child_weight": Range(0.01, 100.0, log=True),
        "reg_lambda": Range(0.01, 100.0, log=True),
        "subsample": Range(0.4, 1.0),
        "colsample_bytree": Range(0.2, 1.0),
    },
}


@dataclass(frozen=True)
class _Peer:
    """A ranker of another library.

    Parameters
    ----------
    objective
        Name of the objective in the library, with its options if it takes any.
    params
        Further parameters of the library's training function.
    """

    objective: str
    params: Mapping[str, Any] = field(default_factory=dict)
    by_metric = False
    libraries: ClassVar[tuple[Library, ...]]
    cheapest: ClassVar[
        tuple[str, Mapping[str, Any]]
    ]  # objective of the library, and parameters that grow stumps

    @property
    def name(self) -> str:
        """Library and objective, such as ``lightgbm lambdarank``."""
        return f"{self.libraries[0].name} {self.objective}"

    @property
    def capabilities(self) -> Capabilities:
        """The data that the system supports."""
        return Capabilities()

    def fit(
        self, train: RankingData, metric: str, *, trees: int, seed: int, threads: int
    ) -> StagedModel:
        """Train; the metric has no influence."""
        check_installed([self])
        check_supported([self], train)
        return self._train(train, trees, seed, threads)

    def _train(self, train: RankingData, trees: int, seed: int, threads: int) -> StagedModel:
        raise TypeError(f"{type(self).__name__} must define _train().")


class LightGBM(_Peer):
    """A ranker of LightGBM: ``lambdarank`` or ``rank_xendcg``; ``params`` are those of ``lightgbm.train``.

    Examples
    --------
    >>> LightGBM("lambdarank").capabilities
    Capabilities(longest_query=10000, largest_label=30, whole_labels=True)
    """

    libraries = (LIGHTGBM,)
    cheapest = ("regression", {"num_leaves": 2, "min_data_in_leaf": 1})

    @property
    def by_seed(self) -> bool:
        """Whether the seed matters: ``lambdarank`` with its defaults draws nothing at random."""
        return self.objective != "lambdarank" or bool(self.params)

    @property
    def capabilities(self) -> Capabilities:
        """Limits of ``lambdarank``; its labels are numbers of a table of gains."""
        if self.objective != "lambdarank":
            return Capabilities()
        return Capabilities(10_000, None if "label_gain" in self.params else 30, whole_labels=True)

    def _train(self, train: RankingData, trees: int, seed: int, threads: int) -> StagedModel:
        lgb = LIGHTGBM.load()
        params = {
            "objective": self.objective,
            "seed": seed,
            "num_threads": threads,
            "verbosity": -1,
            "metric": "None",
        }
        dataset = lgb.Dataset(train.X, train.y, group=train.group, params={"verbosity": -1})
        return _LightGBMModel(lgb.train(params | dict(self.params), dataset, trees), threads)


@dataclass(frozen=True)
class _LightGBMModel:
    booster: Any
    threads: int

    def staged_predict(self, data: RankingData, every: int) -> Iterator[Floats]:
        total = self.booster.current_iteration()
        scores = np.zeros(data.n_rows)
        for start in range(0, total, every):
            count = min(every, total - start)
            scores = scores + self.booster.predict(
                data.X, start_iteration=start, num_iteration=count, num_threads=self.threads
            )
            yield scores


class CatBoost(_Peer):
    """A ranker of CatBoost; ``params`` are those of ``catboost.CatBoost``.

    Objectives have options: ``YetiRank:mode=MAP``, ``StochasticRank:metric=NDCG;top=10``.
    """

    libraries = (CATBOOST,)
    cheapest = (
        "RMSE",
        {"depth": 1, "boosting_type": "Plain", "bootstrap_type": "No", "random_strength": 0},
    )

    def _train(self, train: RankingData, trees: int, seed: int, threads: int) -> StagedModel:
        catboost = CATBOOST.load()
        params = {
            "loss_function": self.objective,
            "iterations": trees,
            "random_seed": seed,
            "thread_count": threads,
            "verbose": False,
            "allow_writing_files": False,
            "metric_period": trees,
        }
        model = catboost.CatBoost(params | dict(self.params))
        return _CatBoostModel(model.fit(_pool(catboost, train)), threads)


@dataclass(frozen=True)
class _CatBoostModel:
    model: Any
    threads: int

    def staged_predict(self, data: RankingData, every: int) -> Iterator[Floats]:
        pool = _pool(CATBOOST.load(), data)
        yield from self.model.staged_predict(pool, eval_period=every, thread_count=self.threads)


_MODES = ("dcg", "ndcg", "map", "mrr", "err")


@dataclass(frozen=True)
class YetiRankByMetric:
    """CatBoost's YetiRank in the mode of the metric and with its cutoff; classic YetiRank for other metrics.

    Parameters
    ----------
    params
        Further parameters of ``catboost.CatBoost``.
    """

    params: Mapping[str, Any] = field(default_factory=dict)
    name = "catboost YetiRank by metric"
    by_metric = True
    libraries = (CATBOOST,)

    def fit(
        self, train: RankingData, metric: str, *, trees: int, seed: int, threads: int
    ) -> StagedModel:
        """Train for the metric."""
        return self.for_metric(metric).fit(train, metric, trees=trees, seed=seed, threads=threads)

    def for_metric(self, metric: str) -> CatBoost:
        """Return the system for a metric.

        Examples
        --------
        >>> YetiRankByMetric().for_metric("ndcg@10").name
        'catboost YetiRank:mode=NDCG;top=10'
        """
        target = parse_metric(metric)
        if target.name not in _MODES:
            return CatBoost("YetiRank", self.params)
        top = "" if target.at is None else f";top={target.at}"
        return CatBoost(f"YetiRank:mode={target.name.upper()}{top}", self.params)


def _pool(catboost: Any, data: RankingData) -> Any:
    return catboost.Pool(data.X, data.y, group_id=np.repeat(np.arange(data.n_queries), data.group))


class XGBoost(_Peer):
    """A ranker of XGBoost: ``rank:ndcg``, ``rank:map`` or ``rank:pairwise``; ``params`` are those of ``xgboost.train``.

    Examples
    --------
    >>> XGBoost("rank:ndcg").capabilities
    Capabilities(longest_query=None, largest_label=31, whole_labels=True)
    """

    libraries = (XGBOOST,)
    cheapest = ("reg:squarederror", {"max_depth": 1})

    @property
    def by_seed(self) -> bool:
        """Whether the seed matters: the defaults draw nothing at random."""
        return bool(self.params)

    @property
    def capabilities(self) -> Capabilities:
        """Limits of exponential gains in ``rank:ndcg``."""
        if self.objective == "rank:ndcg" and self.params.get("ndcg_exp_gain", True):
            return Capabilities(largest_label=31, whole_labels=True)
        return Capabilities()

    def _train(self, train: RankingData, trees: int, seed: int, threads: int) -> StagedModel:
        xgboost = XGBOOST.load()
        params = {
            "objective": self.objective,
            "seed": seed,
            "nthread": threads,
            "disable_default_eval_metric": True,
        }
        labels = train.y >= 1 if self.objective == "rank:map" else train.y
        matrix = xgboost.DMatrix(train.X, labels, group=train.group, nthread=threads)
        return _XGBoostModel(xgboost.train(params | dict(self.params), matrix, trees), threads)


@dataclass(frozen=True)
class _XGBoostModel:
    booster: Any
    threads: int

    def staged_predict(self, data: RankingData, every: int) -> Iterator[Floats]:
        # Each block of trees includes the base score, which is the same for every document.
        matrix = XGBOOST.load().DMatrix(data.X, nthread=self.threads)
        total = self.booster.num_boosted_rounds()
        scores = np.zeros(data.n_rows)
        for start in range(0, total, every):
            stop = min(start + every, total)
            scores = scores + self.booster.predict(
                matrix, iteration_range=(start, stop), output_margin=True
            )
            yield scores


Peer = LightGBM | CatBoost | YetiRankByMetric | XGBoost


def peers(params: Mapping[str, Mapping[str, Any]] | None = None) -> list[Peer]:
    """Return every peer, with the defaults of its library or with ``params`` by library.

    Examples
    --------
    >>> [peer.name for peer in peers()][:3]
    ['lightgbm lambdarank', 'lightgbm rank_xendcg', 'catboost YetiRank']
    """
    by_library: dict[str, Mapping[str, Any]] = {
        "lightgbm": {},
        "catboost": {},
        "xgboost": {},
    } | dict(params or {})
    return [
        *(
            LightGBM(objective, by_library["lightgbm"])
            for objective in ("lambdarank", "rank_xendcg")
        ),
        CatBoost("YetiRank", by_library["catboost"]),
        YetiRankByMetric(by_library["catboost"]),
        CatBoost("QueryRMSE", by_library["catboost"]),
        CatBoost(
            "StochasticRank:metric=NDCG;top=10", {"langevin": True} | dict(by_library["catboost"])
        ),
        *(
            XGBoost(objective, by_library["xgboost"])
            for objective in ("rank:ndcg", "rank:map", "rank:pairwise")
        ),
    ]


def gradient_seconds(
    peer: Peer, train: RankingData, metric: str, *, threads: int, rounds: int = 3
) -> float:
    """Measure the time per tree that a peer's objective adds to the cheapest objective of its library.

    No library reports the time of its gradients. So stumps on at most four columns are trained with both objectives in
    turn, and the result is the difference of the times per tree, the median of ``rounds``. It may be negative if the
    objective costs next to nothing.

    Examples
    --------
    >>> from rankwright import make_web_search
    >>> data = make_web_search(20, n_features=20, mean_length=20)
    >>> isinstance(gradient_seconds(LightGBM("lambdarank"), data, "ndcg@10", threads=1), float)
    True
    """
    own = peer.for_metric(metric) if isinstance(peer, YetiRankByMetric) else peer
    objective, stump = own.cheapest
    own = replace(own, params={**own.params, **stump})
    cheapest = replace(own, objective=objective)
    narrow = RankingData(train.X[:, _columns(train.X)], train.y, group=train.group)

    def per_tree(system: LightGBM | CatBoost | XGBoost, few: int = 2, many: int = 7) -> float:
        """Subtract two training times, so that everything but the trees cancels."""
        times = []
        for trees in (few, many):
            start = time.perf_counter()
            system.fit(narrow, metric, trees=trees, seed=0, threads=threads)
            times.append(time.perf_counter() - start)
        return (times[1] - times[0]) / (many - few)

    return statistics.median(per_tree(own) - per_tree(cheapest) for _ in range(rounds))


def _columns(X: Any) -> list[int]:
    """Return up to four columns whose values differ."""
    sample = X[:10_000].toarray() if hasattr(X, "toarray") else X[:10_000]
    return np.flatnonzero(np.ptp(np.nan_to_num(sample), axis=0) > 0)[:4].tolist() or [0]
