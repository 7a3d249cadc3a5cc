"""The rankers of LightGBM, CatBoost and XGBoost as systems, to be compared with ours on the same terms.

Each has its library's defaults and any parameters given by the library's own names. Labels are handed over as they
are, except to ``rank:map`` of XGBoost, which takes relevant or not.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.data.dataset import RankingData
from rankwright.metrics import metric as parse_metric
from rankwright.research.harness import Model

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LightGBM:
    """A ranker of LightGBM: ``lambdarank`` or ``rank_xendcg``.

    Parameters
    ----------
    objective
        By the library's name.
    params
        Further parameters of ``lightgbm.train``.
    """

    objective: str
    params: Mapping[str, Any] = field(default_factory=dict)
    by_metric = False
    libraries = ("lightgbm",)
    floor = ("regression", {"num_leaves": 2, "min_data_in_leaf": 1})

    @property
    def name(self) -> str:
        """``lightgbm lambdarank``."""
        return f"lightgbm {self.objective}"

    @property
    def by_seed(self) -> bool:
        """Whether the seed matters: ``lambdarank`` with its defaults draws nothing."""
        return self.objective != "lambdarank" or bool(self.params)

    @property
    def longest_query(self) -> int | None:
        """Documents that a query may have; None for any number."""
        return 10_000 if self.objective == "lambdarank" else None

    def fit(self, train: RankingData, metric: str, *, trees: int, seed: int, threads: int) -> Model:
        """Train; the metric plays no part."""
        lgb = _library("lightgbm")
        if self.longest_query is not None and train.group.max() > self.longest_query:
            raise ValueError(
                f"{self.name} takes queries of up to {self.longest_query} documents, and one has {train.group.max()}; "
                "leave this system out, or shorten the queries."
            )
        params = {"objective": self.objective, "seed": seed, "num_threads": threads, "verbosity": -1, "metric": "None"}
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


@dataclass(frozen=True)
class CatBoost:
    """A ranker of CatBoost.

    Parameters
    ----------
    objective
        By the library's name, with its options: ``YetiRank:mode=MAP``, ``StochasticRank:metric=NDCG;top=10``.
    params
        Further parameters of ``catboost.CatBoost``.
    """

    objective: str
    params: Mapping[str, Any] = field(default_factory=dict)
    by_metric = False
    libraries = ("catboost",)
    floor = ("RMSE", {"depth": 1, "boosting_type": "Plain", "bootstrap_type": "No", "random_strength": 0})

    @property
    def name(self) -> str:
        """``catboost YetiRank``."""
        return f"catboost {self.objective}"

    def fit(self, train: RankingData, metric: str, *, trees: int, seed: int, threads: int) -> Model:
        """Train; the metric plays no part."""
        catboost = _library("catboost")
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
        pool = _pool(_library("catboost"), data)
        yield from self.model.staged_predict(pool, eval_period=every, thread_count=self.threads)


_MODES = ("dcg", "ndcg", "map", "mrr", "err")


@dataclass(frozen=True)
class YetiRankByMetric:
    """CatBoost's YetiRank in the mode of the metric and with its cutoff; the classic one where there is no such mode.

    Parameters
    ----------
    params
        Further parameters of ``catboost.CatBoost``.
    """

    params: Mapping[str, Any] = field(default_factory=dict)
    name = "catboost YetiRank by metric"
    by_metric = True
    libraries = ("catboost",)

    def fit(self, train: RankingData, metric: str, *, trees: int, seed: int, threads: int) -> Model:
        """Train for the metric."""
        return self.system(metric).fit(train, metric, trees=trees, seed=seed, threads=threads)

    def system(self, metric: str) -> CatBoost:
        """Return the system for a metric.

        Examples
        --------
        >>> YetiRankByMetric().system("ndcg@10").name
        'catboost YetiRank:mode=NDCG;top=10'
        """
        target = parse_metric(metric)
        if target.name not in _MODES:
            return CatBoost("YetiRank", self.params)
        top = "" if target.at is None else f";top={target.at}"
        return CatBoost(f"YetiRank:mode={target.name.upper()}{top}", self.params)


def _pool(catboost: Any, data: RankingData) -> Any:
    return catboost.Pool(data.X, data.y, group_id=np.repeat(np.arange(data.n_queries), data.group))


@dataclass(frozen=True)
class XGBoost:
    """A ranker of XGBoost: ``rank:ndcg``, ``rank:map`` or ``rank:pairwise``.

    Parameters
    ----------
    objective
        By the library's name.
    params
        Further parameters of ``xgboost.train``.
    """

    objective: str
    params: Mapping[str, Any] = field(default_factory=dict)
    by_metric = False
    libraries = ("xgboost",)
    floor = ("reg:squarederror", {"max_depth": 1})

    @property
    def name(self) -> str:
        """``xgboost rank:ndcg``."""
        return f"xgboost {self.objective}"

    @property
    def by_seed(self) -> bool:
        """Whether the seed matters: with the defaults nothing is drawn."""
        return bool(self.params)

    def fit(self, train: RankingData, metric: str, *, trees: int, seed: int, threads: int) -> Model:
        """Train; the metric plays no part."""
        xgboost = _library("xgboost")
        params = {"objective": self.objective, "seed": seed, "nthread": threads, "disable_default_eval_metric": True}
        labels = train.y >= 1 if self.objective == "rank:map" else train.y
        matrix = xgboost.DMatrix(train.X, labels, group=train.group, nthread=threads)
        return _XGBoostModel(xgboost.train(params | dict(self.params), matrix, trees), threads)


@dataclass(frozen=True)
class _XGBoostModel:
    booster: Any
    threads: int

    def staged_predict(self, data: RankingData, every: int) -> Iterator[Floats]:
        # Each block of trees brings the constant base score along, the same for every document.
        matrix = _library("xgboost").DMatrix(data.X, nthread=self.threads)
        total = self.booster.num_boosted_rounds()
        scores = np.zeros(data.n_rows)
        for start in range(0, total, every):
            stop = min(start + every, total)
            scores = scores + self.booster.predict(matrix, iteration_range=(start, stop), output_margin=True)
            yield scores


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise ImportError(f'comparing with {name} needs it installed: pip install "rankwright[peers]".') from None


Peer = LightGBM | CatBoost | YetiRankByMetric | XGBoost


def peers(params: Mapping[str, Mapping[str, Any]] | None = None) -> list[Peer]:
    """Every peer, with its library's defaults or with ``params`` by library.

    Examples
    --------
    >>> [peer.name for peer in peers()][:3]
    ['lightgbm lambdarank', 'lightgbm rank_xendcg', 'catboost YetiRank']
    """
    given: dict[str, Mapping[str, Any]] = {"lightgbm": {}, "catboost": {}, "xgboost": {}} | dict(params or {})
    return [
        *(LightGBM(objective, given["lightgbm"]) for objective in ("lambdarank", "rank_xendcg")),
        CatBoost("YetiRank", given["catboost"]),
        YetiRankByMetric(given["catboost"]),
        CatBoost("QueryRMSE", given["catboost"]),
        CatBoost("StochasticRank:metric=NDCG;top=10", {"langevin": True} | dict(given["catboost"])),
        *(XGBoost(objective, given["xgboost"]) for objective in ("rank:ndcg", "rank:map", "rank:pairwise")),
    ]


def gradient_seconds(peer: Peer, train: RankingData, metric: str, *, threads: int, rounds: int = 3) -> float:
    """Time per tree that a peer's objective adds to the cheapest objective of its library.

    No library tells the time of its gradients. So stumps on at most four columns are grown with both objectives in
    turn, and the difference of the times per tree is taken, the median of ``rounds``. It may come out below 0 where
    the objective costs next to nothing.

    Examples
    --------
    >>> from rankwright import make_web_search
    >>> data = make_web_search(20, n_features=20, mean_length=20)
    >>> gradient_seconds(LightGBM("lambdarank"), data, "ndcg@10", threads=1) < 1
    True
    """
    own = peer.system(metric) if isinstance(peer, YetiRankByMetric) else peer
    objective, stump = own.floor
    own = replace(own, params={**own.params, **stump})
    floor = replace(own, objective=objective)
    narrow = RankingData(train.X[:, _columns(train.X)], train.y, group=train.group)

    def per_tree(system: LightGBM | CatBoost | XGBoost, few: int = 2, many: int = 7) -> float:
        """Training longer costs only more trees, so what else is in the times cancels."""
        times = []
        for trees in (few, many):
            began = time.perf_counter()
            system.fit(narrow, metric, trees=trees, seed=0, threads=threads)
            times.append(time.perf_counter() - began)
        return (times[1] - times[0]) / (many - few)

    return statistics.median(per_tree(own) - per_tree(floor) for _ in range(rounds))


def _columns(X: Any) -> list[int]:
    """Up to four columns that tell rows apart."""
    sample = X[:10_000].toarray() if hasattr(X, "toarray") else X[:10_000]
    return np.flatnonzero(np.ptp(np.nan_to_num(sample), axis=0) > 0)[:4].tolist() or [0]
