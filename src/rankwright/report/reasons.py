"""A section in which a reader picks a query and two of its documents, and sees why one is above the other.

The page contains contributions of the first documents of some queries: the queries with the worst values, and a sample
of the other queries, up to a number of bytes. For each query the features that differ most between its documents are
named. The other features are one sum, so that the table always adds up to the difference of the scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rankwright.report.page import (
    Block,
    Cell,
    Interactive,
    Section,
    Table,
    Text,
    embedded_json,
    render,
)
from rankwright.report.scored_runs import ScoredRuns
from rankwright.runs import Run

_N_WORST, _N_SAMPLE = 30, 15  # queries
_DEPTH = 12  # documents of a ranking
_FEATURES = 10  # named features
_BYTES = 120_000


@dataclass(frozen=True, eq=False)
class ReasonExplorer(Interactive):
    """Why one document of a query is above another.

    Parameters
    ----------
    systems
        Names of the runs.
    queries
        For each query its id ``query`` and ``text``, and for each run its ranking in ``runs`` and the places of the
        pair to show first in ``pairs``. A ranking has names of ``documents``, ``labels``, ``scores``, names of
        ``features``, and their ``contributions`` and ``values`` by document.
    n_queries
        Number of queries that these were taken from.
    """

    systems: Sequence[str]
    queries: Sequence[dict[str, Any]]
    n_queries: int
    script: ClassVar[str] = "reasons.js"

    def html(self) -> str:
        """Return the controls, an empty table and the data; features are numbers of one list of names."""
        # The names are in a list of their own because they repeat in many queries.
        features = [
            name for query in self.queries for run in query["runs"] for name in run["features"]
        ]
        numbers = {name: number for number, name in enumerate(dict.fromkeys(features))}
        queries = []
        for query in self.queries:
            runs = [
                {**run, "features": [numbers[name] for name in run["features"]]}
                for run in query["runs"]
            ]
            queries.append({**query, "runs": runs})
        note = (
            f"{len(queries):,} of {self.n_queries:,} queries: the queries of the lowest quality "
            f"first, and a sample. Contributions are SHAP values. The {_FEATURES} features that "
            f"differ most between the first {_DEPTH} documents are named. Ranker.explain has "
            "every query, pair and feature."
        )
        data = {"names": list(numbers), "queries": queries}
        return render("reasons.html", systems=self.systems, data=data, note=note)

    def markdown(self, files: Mapping[int, str]) -> str:
        """Return the reasons of the first run for one pair of the first query."""
        query = self.queries[0]
        run, (a, b) = query["runs"][0], query["pairs"][0]
        differences = np.subtract(run["contributions"][a], run["contributions"][b])
        rows: list[list[Cell]] = []
        for place in np.argsort(-np.abs(differences), kind="stable"):
            values = [_shown(run["values"][document][place]) for document in (a, b)]
            rows.append([run["features"][place], *values, f"{differences[place]:+.4f}"])
        # The rest is a difference too, so that the table adds up in spite of rounding.
        rest = run["scores"][a] - run["scores"][b] - differences.sum()
        rows.append(["all others", "", "", f"{rest:+.4f}"])
        first, second = run["documents"][a], run["documents"][b]
        title = f"Query {query['query']}: why {first} is above {second}"
        return Table(title, ["feature", first, second, "difference"], rows).markdown(files)


def reasons_section(scored: ScoredRuns, runs: Mapping[int, Run]) -> list[Section]:
    """Return the section; a text if a model has no contributions, an empty list if no query has two documents.

    ``runs`` are the scored systems with a model, by number.
    """
    queries = _queries(scored)
    if not len(queries) or not runs:
        return []
    block: Block
    try:
        rankings = [
            _rankings(scored, number, run.ranker.model_, queries) for number, run in runs.items()
        ]
    except ValueError as error:
        # The trees are too deep for SHAP values.
        block = Text(f"There are no reasons to show: {error}")
    else:
        shown = _within_limit(scored, queries, rankings)
        names = [scored.names[number] for number in runs]
        block = ReasonExplorer(names, shown, len(scored.counted))
    return [Section("Reasons", [block])]


def _queries(scored: ScoredRuns) -> NDArray[np.int64]:
    """Return the numbers of the queries to show: the worst, then a sample of the other queries."""
    # A query of one document has no order to explain.
    comparable = np.flatnonzero(scored.data.group[scored.counted] > 1)
    quality = scored.better * scored.values.mean(axis=0)[comparable]
    worst, rest = np.split(comparable[np.argsort(quality, kind="stable")], [_N_WORST])
    sample = np.random.default_rng(0).permutation(rest)[:_N_SAMPLE]
    queries: NDArray[np.int64] = scored.counted[np.concatenate([worst, sample])]
    return queries


def _rankings(
    scored: ScoredRuns, number: int, model: Any, queries: NDArray[np.int64]
) -> list[dict[str, Any]]:
    """Return the first documents of each query by one run, with their contributions."""
    data, scores = scored.data, scored.scores[number]
    prepared = model.prepare(data, by_column=True)
    rows_of_queries = [scored.ranking(number, query, _DEPTH) for query in queries]
    every = model.contributions(prepared.take(np.concatenate(rows_of_queries)))[:, :-1]
    ends = np.cumsum([len(rows) for rows in rows_of_queries])
    rankings = []
    for query, rows, contributions in zip(
        queries, rows_of_queries, np.split(every, ends[:-1]), strict=True
    ):
        # A feature that adds the same to all documents cannot be a reason for their order.
        spread = np.ptp(contributions, axis=0)
        features = np.sort(np.argsort(-spread, kind="stable")[:_FEATURES])
        cells = model.values_of_parts(prepared.take(rows))
        names = [str(model.score_parts[feature]) for feature in features]
        levels = [model.columns.categories.get(name) for name in names]
        values = [
            [_value(value, known) for value, known in zip(row, levels, strict=True)]
            for row in cells[:, features]
        ]
        numbers = rows - data.boundaries[query] + 1
        ids = zip(numbers, scored.document_ids(rows), strict=True)
        rankings.append(
            {
                "documents": [name or f"document {place}" for place, name in ids],
                "labels": [_rounded(label, 4) for label in data.y[rows]],
                "scores": [_rounded(score, 6) for score in scores[rows]],
                "features": names,
                "contributions": [
                    [_rounded(value, 4) for value in row] for row in contributions[:, features]
                ],
                "values": values,
            }
        )
    return rankings


def _within_limit(
    scored: ScoredRuns, queries: NDArray[np.int64], rankings: Sequence[Sequence[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """Return the first queries, up to a number of bytes."""
    shown: list[dict[str, Any]] = []
    n_bytes = 0
    for place, query in enumerate(queries.tolist()):
        runs = [ranking[place] for ranking in rankings]
        item = {
            "query": scored.query_id(query),
            "text": scored.query_text(query),
            "runs": runs,
            "pairs": [_pair(run["labels"]) for run in runs],
        }
        n_bytes += len(embedded_json(item))
        if shown and n_bytes > _BYTES:
            break
        shown.append(item)
    return shown


def _pair(labels: Sequence[float]) -> list[int]:
    """Return the places of the first two neighbours in the wrong order of labels, or else of the first two."""
    # A pair in the wrong order is the one that readers want to understand.
    for place in range(1, len(labels)):
        if labels[place] > labels[place - 1]:
            return [place - 1, place]
    return [0, 1]


def _value(value: float, levels: Sequence[Any] | None) -> float | str | None:
    """Return a number with a few digits, the name of a category, or None for a missing value."""
    if np.isnan(value):
        return None
    if levels is not None and 0 <= value < len(levels):
        return str(levels[int(value)])
    return _rounded(value, 4)


def _rounded(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")


def _shown(value: float | str | None) -> str:
    if value is None:
        return "missing"
    return value if isinstance(value, str) else f"{value:g}"
