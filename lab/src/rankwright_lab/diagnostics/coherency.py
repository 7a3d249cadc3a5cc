"""Gradient incoherency: misranked pairs whose better document is pushed up less than the worse one.

A pair of documents i, j with label y_i > y_j and position p_i > p_j is coherent if the push of i is at least that of
j. The push is minus the gradient of the loss. An incoherent pair is harmful at cutoff k if j is a false document of the
top k (not relevant, or its label is not in the ideal top k) and i a missed one (relevant, ranked below k, its label in
the ideal top k).

Reference: "Lambda-eX" paper, definition 3.1, section 4.1 and figure 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright.charts.theme import require
from rankwright.data.labels import choose_label
from rankwright.data.queries import Queries, check_labels
from rankwright.evaluation.changes import ranker_of, stages, threads_of
from rankwright.kernels import evaluate as kernel
from rankwright.kernels.threads import available_threads, even_ranges, run_ranges
from rankwright.metrics import Metric
from rankwright.metrics import metric as parse_metric
from rankwright.objectives import BoundObjective, Objective
from rankwright.objectives import objective as parse_objective
from rankwright_lab.diagnostics.common import Floats, frame, grouped_rows, plain
from rankwright_lab.diagnostics.counting import count_incoherent

if TYPE_CHECKING:
    import pandas as pd

    from rankwright.data.dataset import RankingData

Counts = NDArray[np.int64]

_READINGS = ("paper", "literal")
_LARGEST_CUTOFF = 2**62  # longer than any query
_TIES = {"input": kernel.INPUT, "worst": kernel.WORST, "best": kernel.BEST}


@dataclass(frozen=True, eq=False)
class Incoherency:
    """Incoherent pairs of each query, as counted by `incoherency`.

    Parameters
    ----------
    query_ids
        Ids of the queries, ascending [queries].
    misranked
        Pairs in which the better document is ranked below the worse one [queries].
    incoherent
        Misranked pairs that are incoherent [queries].
    harmful
        Incoherent pairs of a false and a missed document of the top k [queries]; 0 without a cutoff.
    k
        The cutoff, or None.

    Examples
    --------
    >>> result = incoherency([3, 2, 1], [0, 1, 1], [0.1, -0.2, 0.3], group=[3], k=1)
    >>> result.misranked.tolist(), result.incoherent.tolist(), result.harmful.tolist()
    ([2], [1], [1])
    """

    query_ids: NDArray[Any]
    misranked: Counts
    incoherent: Counts
    harmful: Counts
    k: int | None

    @property
    def share(self) -> float:
        """Share of the queries with at least one incoherent pair."""
        return float(np.mean(self.incoherent > 0))

    @property
    def harmful_share(self) -> float:
        """Share of the queries with at least one harmful pair; NaN without a cutoff."""
        return float(np.mean(self.harmful > 0)) if self.k is not None else float("nan")

    @property
    def pair_share(self) -> float:
        """Share of the misranked pairs that are incoherent; NaN if none is misranked."""
        pairs = int(self.misranked.sum())
        return int(self.incoherent.sum()) / pairs if pairs else float("nan")

    def worst(self, n: int = 10) -> list[dict[str, Any]]:
        """Return the queries with the most harmful, then the most incoherent pairs; only queries that have any."""
        rows = np.lexsort((-self.incoherent, -self.harmful))[:n]
        return [self._row(int(q)) for q in rows if self.incoherent[q] > 0]

    def to_dataframe(self) -> pd.DataFrame:
        """Return a pandas frame with a row per query."""
        return frame(self._row(q) for q in range(len(self.query_ids)))

    def to_dict(self) -> dict[str, Any]:
        """Return the shares and the sums of the counts."""
        return _numbers(self) | {"k": self.k, "queries": len(self.query_ids)}

    def _row(self, q: int) -> dict[str, Any]:
        counts = {
            name: int(getattr(self, name)[q]) for name in ("misranked", "incoherent", "harmful")
        }
        return {"query": plain(self.query_ids[q]), **counts}

    def __str__(self) -> str:
        text = f"{100 * self.share:.1f} % of {len(self.query_ids)} queries have incoherent pairs"
        if self.k is not None:
            text += f", {100 * self.harmful_share:.1f} % harmful ones at {self.k}"
        return text


def incoherency(
    scores: ArrayLike,
    labels: ArrayLike,
    grad: ArrayLike,
    *,
    qid: Any = None,
    group: ArrayLike | None = None,
    k: int | None = None,
    ties: str = "input",
    reading: str = "paper",
    threads: int | None = None,
) -> Incoherency:
    """Count the incoherent pairs of a gradient, in O(n log n) for a query of n documents.

    Every query counts once in the shares, even if it cannot have an incoherent pair: a query of one document, of equal
    labels, or with a zero gradient because the objective skips it. Query weights do not change counts; row weights do,
    through the gradient.

    Parameters
    ----------
    scores, labels
        One per row; larger scores rank higher.
    grad
        Gradient of the loss, as `rankwright.gradients` returns it: a document is pushed up by ``-grad``.
    qid, group
        Queries: an id per row in any order, or sizes in row order.
    k
        Cutoff for harmful pairs; None to count none.
    ties
        Positions of equal scores: ``"input"`` in row order, as the objectives rank them; ``"worst"`` the lower label
        first, so that a tie is misranked; ``"best"`` the higher one first, so that it is not. Documents of equal label
        form no pair, and equal pushes are coherent.
    reading
        Which documents of the top are false: with ``"paper"`` those that are not relevant or whose label is not in the
        ideal top, with ``"literal"`` only the latter, so that no pair is harmful where the ideal top holds a label 0.
    threads
        Number of threads; all cores by default. The result does not depend on it.

    Examples
    --------
    Figure 1 (a) of the "Lambda-eX" paper: the second document is the best, and the first is pushed up more.

    >>> from rankwright import gradients
    >>> scores, labels = [0.04, 0.03, 0.02, 0.01, 0], [1, 2, 0, 0, 0]
    >>> grad, _ = gradients("lambdamart", scores, labels, group=[5], metric="ndcg@1", truncation=1)
    >>> result = incoherency(scores, labels, grad, group=[5], k=1)
    >>> result.share, result.harmful_share
    (1.0, 1.0)
    """
    if ties not in _TIES:
        raise ValueError(f"unknown tie policy {ties!r}; choose one of {', '.join(_TIES)}.")
    cutoff = _check_cutoff(k)
    _check_reading(reading)
    queries = Queries.of(np.size(labels), qid, group)
    y = check_labels(labels, queries)
    z = grouped_rows(scores, queries, "scores")
    push = -grouped_rows(grad, queries, "grad")
    return _count(queries, z, y, y > 0, push, cutoff, _TIES[ties], reading, threads)


def _check_reading(reading: str) -> None:
    if reading not in _READINGS:
        raise ValueError(f"reading must be {' or '.join(map(repr, _READINGS))}; got {reading!r}.")


def _check_cutoff(k: int | None) -> int | None:
    if k is not None and (isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1):
        raise ValueError(f"k must be a positive whole number, or None for no cutoff; got {k!r}.")
    return None if k is None else min(int(k), _LARGEST_CUTOFF)


def _count(
    queries: Queries,
    z: Floats,
    y: Floats,
    relevant: NDArray[np.bool_],
    push: Floats,
    k: int | None,
    ties: int,
    reading: str,
    threads: int | None,
) -> Incoherency:
    """Count pairs; rows are in grouped order."""
    misranked, incoherent, harmful = (np.zeros(queries.n_queries, dtype=np.int64) for _ in range(3))
    bounds = queries.boundaries
    longest = int(queries.sizes.max())

    def fill(q0: int, q1: int) -> None:
        order = np.empty(bounds[q1] - bounds[q0], dtype=np.int64)
        kernel.order_queries(q0, q1, bounds, z, y, ties, longest, order)
        literal = reading == "literal"
        count_incoherent(
            q0,
            q1,
            bounds,
            y,
            relevant,
            push,
            order,
            k or 0,
            literal,
            misranked,
            incoherent,
            harmful,
        )

    run_ranges(fill, even_ranges(queries.sizes.astype(np.float64), available_threads(threads)))
    return Incoherency(queries.ids, misranked, incoherent, harmful, k)


class IncoherentPair(NamedTuple):
    """Two documents of a query: ``better`` has the higher label, the lower position and the smaller push."""

    better: int
    worse: int
    push_better: float
    push_worse: float


def incoherent_pairs(
    scores: ArrayLike, labels: ArrayLike, grad: ArrayLike, *, ties: str = "input", limit: int = 20
) -> list[IncoherentPair]:
    """List the incoherent pairs of one query, the largest difference of pushes first.

    Parameters
    ----------
    scores, labels, grad, ties
        As in `incoherency`, for the rows of one query; documents are numbered in row order.
    limit
        Largest number of pairs.

    Examples
    --------
    >>> incoherent_pairs([3, 2, 1], [0, 1, 1], [0.1, -0.2, 0.3])
    [IncoherentPair(better=2, worse=0, push_better=-0.3, push_worse=-0.1)]
    """
    if ties not in _TIES:
        raise ValueError(f"unknown tie policy {ties!r}; choose one of {', '.join(_TIES)}.")
    if isinstance(limit, bool) or not isinstance(limit, int | np.integer) or limit < 1:
        raise ValueError(f"limit must be a positive whole number; got {limit!r}.")
    queries = Queries.of(np.size(labels), None, [np.size(labels)])
    y = check_labels(labels, queries)
    z = grouped_rows(scores, queries, "scores")
    push = -grouped_rows(grad, queries, "grad")
    order = np.empty(len(y), dtype=np.int64)
    kernel.order_queries(0, 1, queries.boundaries, z, y, _TIES[ties], len(y), order)
    pairs: list[IncoherentPair] = []
    for position, better in enumerate(order):
        above = order[:position]
        worse = above[(y[above] < y[better]) & (push[above] > push[better])]
        pairs += [
            IncoherentPair(int(better), int(j), float(push[better]), float(push[j])) for j in worse
        ]
        pairs.sort(key=lambda pair: pair.push_better - pair.push_worse)
        del pairs[limit:]
    return pairs


@dataclass(frozen=True, eq=False)
class IncoherencyCurve:
    """Incoherency along the trees of a model, as measured by `incoherency_curve`.

    Parameters
    ----------
    trees
        Number of trees before each gradient [stages].
    stages
        Incoherency at each of them.
    objective, metric
        Text of the objective whose gradient it is, and of its metric.

    Examples
    --------
    >>> from rankwright import Ranker, make_web_search
    >>> data = make_web_search(20, kind="short", random_state=1)
    >>> ranker = Ranker("lambdamart(truncation=k)", "ndcg@5", n_estimators=6, verbose=0, n_jobs=1).fit(data)
    >>> curve = incoherency_curve(ranker, data, every=2)
    >>> curve.trees.tolist(), len(curve.to_dataframe())
    ([2, 4, 6], 3)
    """

    trees: Counts
    stages: tuple[Incoherency, ...]
    objective: str
    metric: str

    @property
    def share(self) -> Floats:
        """Share of the queries with at least one incoherent pair [stages]."""
        return np.array([stage.share for stage in self.stages])

    @property
    def harmful_share(self) -> Floats:
        """Share of the queries with at least one harmful pair [stages]."""
        return np.array([stage.harmful_share for stage in self.stages])

    def worst(self, n: int = 10) -> list[dict[str, Any]]:
        """Return the queries with harmful, or else incoherent, pairs at the most stages, and means over the stages."""
        harmful = np.stack([stage.harmful for stage in self.stages])
        incoherent = np.stack([stage.incoherent for stage in self.stages])
        stages_of = ((harmful > 0).sum(axis=0), (incoherent > 0).sum(axis=0))
        rows = np.lexsort((-incoherent.sum(axis=0), -stages_of[1], -stages_of[0]))[:n]
        return [
            {
                "query": plain(self.stages[0].query_ids[q]),
                "harmful_stages": int(stages_of[0][q]),
                "incoherent_stages": int(stages_of[1][q]),
                "stages": len(self.stages),
                "harmful": float(harmful[:, q].mean()),
                "incoherent": float(incoherent[:, q].mean()),
            }
            for q in rows
            if stages_of[1][q] > 0
        ]

    def to_dataframe(self) -> pd.DataFrame:
        """Return a pandas frame with a row per stage."""
        return frame(self._rows())

    def to_dict(self) -> dict[str, Any]:
        """Return objective, metric, the stages and the worst queries."""
        return {
            "objective": self.objective,
            "metric": self.metric,
            "stages": self._rows(),
            "worst": self.worst(),
        }

    def plot(self, *others: IncoherencyCurve) -> Any:
        """Draw the curve as in figure 3 of the paper, with others to compare; an Altair chart."""
        return _chart([self, *others])

    def _rows(self) -> list[dict[str, Any]]:
        return [
            {"trees": int(t), **_numbers(stage)}
            for t, stage in zip(self.trees, self.stages, strict=True)
        ]


def incoherency_curve(
    model: Any,
    data: RankingData,
    *,
    every: int = 1,
    objective: str | Objective | None = None,
    metric: str | Metric | None = None,
    k: int | None = None,
    reading: str = "paper",
    threads: int | None = None,
) -> IncoherencyCurve:
    """Measure the incoherency of an objective's gradient after each of a model's trees.

    On the training data these are the gradients of the training, except for the order of rows within a query, which
    decides between equal scores, the sampling of rows, and the shrinking of earlier trees (Langevin boosting), which
    scales the scores; propensities and position bias have no part in them. The scores before the first tree are all
    equal and are left out. Documents to which the metric gives no gain, such as those below its threshold, are not
    relevant.

    Parameters
    ----------
    model
        A fitted `Ranker`, or a run that holds one.
    data
        Data to compute the gradient on.
    every
        Number of trees between two stages.
    objective, metric
        Objective and metric of the gradient; by default those of the model's training.
    k
        Cutoff of harmful pairs; the metric's by default.
    reading
        As in `incoherency`.
    threads
        Number of threads; the model's ``n_jobs`` by default.

    Examples
    --------
    >>> from rankwright import Ranker, make_web_search
    >>> data = make_web_search(20, kind="sparse", mean_length=60, random_state=1)
    >>> ranker = Ranker("lambdamart(truncation=k)", "ndcg@5", n_estimators=4, verbose=0, n_jobs=1).fit(data)
    >>> plain, extended = (
    ...     incoherency_curve(ranker, data, objective=f"lambdamart(truncation=k{more})")
    ...     for more in ("", ", extend=static")
    ... )
    >>> bool((plain.harmful_share >= extended.harmful_share).all())
    True
    """
    ranker = ranker_of(model)
    _check_reading(reading)
    threads = threads_of(ranker, threads)
    target = parse_metric(ranker.metrics_[0] if metric is None else metric)
    source = parse_objective(ranker.objective_ if objective is None else objective)
    seed = int(ranker.manifest_["seed"])
    queries = data.queries.grouped()
    gradient = BoundObjective(
        source,
        data.labels,
        queries,
        target,
        seed=seed,
        threads=threads,
        weights=data.weights,
        pairs=data.pairs,
    )
    labels = choose_label(data.labels, target.first.label)
    relevant = (labels > 0) & (target.first.gains(labels) > 0)
    cutoff = target.first.at if k is None else _check_cutoff(k)
    trees, measured = [], []
    for n_trees, scores in stages(ranker, data, every):
        grad, _ = gradient(scores, n_trees)
        trees.append(n_trees)
        measured.append(
            _count(queries, scores, labels, relevant, -grad, cutoff, kernel.INPUT, reading, threads)
        )
    return IncoherencyCurve(np.array(trees), tuple(measured), str(source), str(target))


def _numbers(stage: Incoherency) -> dict[str, Any]:
    return plain(  # type: ignore[no-any-return]
        {
            "share": stage.share,
            "harmful_share": stage.harmful_share,
            "pair_share": stage.pair_share,
            "misranked": int(stage.misranked.sum()),
            "incoherent": int(stage.incoherent.sum()),
            "harmful": int(stage.harmful.sum()),
        }
    )


def _chart(curves: list[IncoherencyCurve]) -> Any:
    alt = require("altair")
    cut = all(stage.k is not None for curve in curves for stage in curve.stages)
    kinds = {"any": "share"} | ({"harmful": "harmful_share"} if cut else {})
    rows = [
        {"trees": int(t), "queries": float(value), "pairs": kind, "gradient": curve.objective}
        for curve in curves
        for kind, name in kinds.items()
        for t, value in zip(curve.trees, getattr(curve, name), strict=True)
    ]
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_line(point=len(curves[0].trees) < 40)
        .encode(
            x=alt.X("trees:Q", scale=alt.Scale(type="log"), title="trees"),
            y=alt.Y("queries:Q", axis=alt.Axis(format="%"), title="queries with incoherent pairs"),
            color=alt.Color("gradient:N", legend=alt.Legend(orient="bottom", labelLimit=400)),
            strokeDash=alt.StrokeDash("pairs:N", legend=alt.Legend(orient="bottom")),
            tooltip=["gradient:N", "pairs:N", "trees:Q", alt.Tooltip("queries:Q", format=".2%")],
        )
    )
