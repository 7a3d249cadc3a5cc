"""Hybrid search on the Cranfield collection: a learned combination against the systems that a team has.

    python lab/benchmarks/hybrid.py FOLDER

The folder has the files of the collection, and `examples/hybrid_search.py` says what must be installed. Each of 20
random splits has 75 test queries and 50, 100 or 150 training queries. The learned system chooses its settings by three
folds of its training queries, so that no test query decides anything. Relevant documents that no retriever returned
count as ranked last, as in trec_eval.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any, Self

import numpy as np

import rankwright as rw

ROOT = Path(__file__).resolve().parents[2]
SCORES = ("bm25", "dense", "bm25_title", "dense_title")
WITHIN: dict[str, Any] = {"within_query": {name: ["z", "rrf"] for name in SCORES}}
SMALL = {"num_leaves": 4, "n_estimators": 100}
METRIC = "ndcg@10"


class Learned:
    """A ranker, optionally with fusions of the scores among its columns."""

    def __init__(self, *, fused: bool = False, **parameters: Any) -> None:
        self.fused, self.parameters = fused, parameters

    def fit(self, X: rw.RankingData) -> Self:
        self.fusions = [rw.rrf("bm25", "dense"), rw.linear(*SCORES).fit(X)]
        self.ranker = rw.Ranker(verbose=0, n_jobs=1, **self.parameters).fit(self.columns(X))
        return self

    def predict(self, X: rw.RankingData) -> Any:
        return self.ranker.predict(self.columns(X))

    def columns(self, data: rw.RankingData) -> rw.RankingData:
        if not self.fused:
            return data
        more = [fusion.predict(data) for fusion in self.fusions]
        X = np.column_stack([data.X, *more])
        names = [*data.feature_names, "rrf", "linear"]
        return rw.RankingData(X, data.y, qid=data.qid, feature_names=names)


CANDIDATES: dict[str, dict[str, Any]] = {
    "defaults": WITHIN,
    "small trees": WITHIN | SMALL,
    "small trees and fusions": WITHIN | SMALL | {"fused": True},
}


class Chosen:
    """The candidate that is best in folds of the training queries."""

    counts: dict[tuple[int, str], int] = {}  # noqa: RUF012  # how often each is chosen

    def fit(self, X: rw.RankingData) -> Self:
        means = {}
        for name, settings in CANDIDATES.items():
            values = [
                mean_of(Learned(**settings).fit(train), test)
                for train, test in X.kfold(3, random_state=0)
            ]
            means[name] = float(np.mean(values))
        best = max(means, key=means.__getitem__)
        self.counts[X.n_queries, best] = self.counts.get((X.n_queries, best), 0) + 1
        print(X.n_queries, best, {name: round(mean, 4) for name, mean in means.items()}, flush=True)
        self.system = Learned(**CANDIDATES[best]).fit(X)
        return self

    def predict(self, X: rw.RankingData) -> Any:
        return self.system.predict(X)


class OfRetrieved:
    """A system that sees retrieved documents only; all other rows are ranked below them.

    Scores are kept by training queries, so that a second curve with another baseline trains nothing.
    """

    def __init__(self, system: Any) -> None:
        self.system = system
        self.kept: dict[bytes, Any] = {}

    def fit(self, X: rw.RankingData) -> Self:
        self.key = "\n".join(X.query_ids).encode()
        if self.key not in self.kept:
            self.fitted = self.system.fit(retrieved(X)[0])
        return self

    def predict(self, X: rw.RankingData) -> Any:
        if self.key not in self.kept:
            data, mask = retrieved(X)
            scores = np.full(X.n_rows, -np.inf)
            scores[mask] = self.fitted.predict(data)
            self.kept[self.key] = scores
        return self.kept[self.key]


def mean_of(system: Any, data: rw.RankingData) -> float:
    return rw.evaluate(system.predict(data), data.y, group=data.group, metrics=METRIC).mean[METRIC]


def retrieved(data: rw.RankingData) -> tuple[rw.RankingData, Any]:
    """Return the rows that a retriever returned, and their mask."""
    mask = data.fields["retrieved"] > 0
    names = data.feature_names
    return rw.RankingData(data.X[mask], data.y[mask], qid=data.qid[mask], feature_names=names), mask


def with_missed(data: rw.RankingData, judgments: dict[str, dict[str, int]]) -> rw.RankingData:
    """Add the relevant documents that no retriever returned, as rows without features."""
    found = set(zip(data.qid.tolist(), data.fields["docid"].tolist(), strict=True))
    missed = [
        (qid, label)
        for qid in data.query_ids.tolist()
        for docid, label in judgments[qid].items()
        if label > 0 and (qid, docid) not in found
    ]
    X = np.vstack([data.X, np.full((len(missed), data.X.shape[1]), np.nan)])
    y = np.concatenate([data.y, [label for _, label in missed]])
    qid = np.concatenate([data.qid, [qid for qid, _ in missed]])
    flags = np.concatenate([np.ones(data.n_rows), np.zeros(len(missed))])
    names = data.feature_names
    return rw.RankingData(X, y, qid=qid, feature_names=names, fields={"retrieved": flags})


def measured(
    data: rw.RankingData, judgments: dict[str, dict[str, int]], repeats: int
) -> list[rw.LearningCurve]:
    """Compare the systems, with differences to reciprocal rank fusion and to tuned weights."""
    systems = {
        "rrf": rw.rrf("bm25", "dense"),
        "bm25": rw.column("bm25"),
        "dense": rw.column("dense"),
        "weights": rw.linear("bm25", "dense"),
        "weights of 4 scores": rw.linear(*SCORES),
        "learned": Chosen(),
    }
    everything = with_missed(data, judgments)
    wrapped = {name: OfRetrieved(system) for name, system in systems.items()}
    curves = []
    for first in ("rrf", "weights"):
        ordered = {first: wrapped[first]} | wrapped
        options: dict[str, Any] = {"repeats": repeats, "metrics": f"{METRIC} map"}
        curves.append(rw.learning_curve(ordered, everything, [50, 100, 150], **options))
    return curves


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--repeats", type=int, default=20)
    given = parser.parse_args()
    sys.path.insert(0, str(ROOT / "examples"))
    import hybrid_search

    collection = hybrid_search.read_collection(given.folder)
    retrievers = hybrid_search.Retrievers(collection)
    data = hybrid_search.combined(retrievers, collection.queries, collection.judgments)
    for curve in measured(data, collection.judgments, given.repeats):
        print(curve)
    print(Chosen.counts)


if __name__ == "__main__":
    main()
