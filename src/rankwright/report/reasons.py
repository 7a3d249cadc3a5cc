"""A section in which a reader picks a query and two of its documents, and sees why one is above the other.

The page contains contributions of the first documents of some queries: those of the worst values, and a sample of the
others, up to a number of bytes. For each query the features that differ most between its documents are there by name;
the others are one sum, so that what is shown always adds up to the difference of the scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

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

if TYPE_CHECKING:
    from rankwright.runs import Run

_N_WORST, _N_SAMPLE = 30, 15  # queries
_DEPTH = 12  # documents of a ranking
_FEATURES = 10  # shown by name
_BYTES = 120_000
_ID_LENGTH = 60


@dataclass(frozen=True, eq=False)
class ReasonExplorer(Interactive):
    """Why one document of a query is above another.

    Parameters
    ----------
    systems
        Names of the runs.
    queries
        For each query its id ``q``, the rankings ``runs`` of each run (documents ``d``, labels ``l``, scores ``s``,
        names of features ``f``, their contributions ``c`` and values ``x`` by document), and for each run the places of
        the pair to show first, ``pairs``.
    n_queries
        Number of queries that these were chosen from.
    """

    systems: Sequence[str]
    queries: Sequence[dict[str, Any]]
    n_queries: int
    script: ClassVar[str] = "reasons.js"

    def html(self) -> str:
        """Return the controls, an empty table and the data; features are numbers of one list of names."""
        names = {name: None for query in self.queries for run in query["runs"] for name in run["f"]}
        number = {name: place for place, name in enumerate(names)}
        queries = [
            {
                **query,
                "runs": [
                    {**run, "f": [number[name] for name in run["f"]]} for run in query["runs"]
                ],
            }
            for query in self.queries
        ]
        note = (
            f"{len(queries):,} of {self.n_queries:,} queries: those of the lowest quality first, and a sample. "
            f"Contributions are SHAP values. The {_FEATURES} features that differ most between the first {_DEPTH} "
            "documents are named. Ranker.explain has every query, pair and feature."
        )
        return render(
            "reasons.html",
            systems=self.systems,
            data={"names": list(names), "queries": queries},
            note=note,
        )

    def markdown(self, files: Mapping[int, str]) -> str:
        """Return the reasons of the first run for one pair of the first query."""
        query = self.queries[0]
        run, (a, b) = query["runs"][0], query["pairs"][0]
        differences = np.subtract(run["c"][a], run["c"][b])
        places = np.argsort(-np.abs(differences), kind="stable")
        rows: list[list[Cell]] = [
            [run["f"][i], _shown(run["x"][a][i]), _shown(run["x"][b][i]), f"{differences[i]:+.4f}"]
            for i in places
        ]
        rows.append(["all others", "", "", f"{run['s'][a] - run['s'][b] - differences.sum():+.4f}"])
        first, second = run["d"][a], run["d"][b]
        title = f"Query {query['q']}: why document {first} is above document {second}"
        return Table(
            title, ["feature", f"document {first}", f"document {second}", "difference"], rows
        ).markdown(files)


def reasons_section(scored: ScoredRuns, runs: Sequence[Run]) -> list[Section]:
    """Return the section; a text where a model has no contributions, nothing if no query has two documents."""
    chosen = _chosen(scored)
    if not len(chosen):
        return []
    block: Block
    try:
        rankings = [
            _rankings(scored, number, run.ranker.model_, chosen) for number, run in enumerate(runs)
        ]
    except (
        ImportError,
        OSError,
        ValueError,
    ) as error:  # no library of the engine, or trees too deep for it
        block = Text(f"There are no reasons to show: {error}")
    else:
        block = ReasonExplorer(
            scored.names, _within_limit(scored, chosen, rankings), len(scored.counted)
        )
    return [Section("Reasons", [block])]


def _chosen(scored: ScoredRuns) -> NDArray[np.int64]:
    """Numbers of the queries to show: the worst, then a sample of the others."""
    comparable = np.flatnonzero(scored.data.group[scored.counted] > 1)
    quality = scored.better * scored.values.mean(axis=0)[comparable]
    worst, others = np.split(comparable[np.argsort(quality, kind="stable")], [_N_WORST])
    sample = np.random.default_rng(0).permutation(others)[:_N_SAMPLE]
    queries: NDArray[np.int64] = scored.counted[np.concatenate([worst, sample])]
    return queries


def _rankings(
    scored: ScoredRuns, number: int, model: Any, chosen: NDArray[np.int64]
) -> list[dict[str, Any]]:
    """The first documents of each query by one run, with their contributions."""
    data, scores = scored.data, scored.scores[number]
    starts, stops = data.boundaries[chosen].tolist(), data.boundaries[chosen + 1].tolist()
    # Ties as the metric counts them: the lower label first.
    rows = [
        start + np.lexsort((data.y[start:stop], -scores[start:stop]))[:_DEPTH]
        for start, stop in zip(starts, stops, strict=True)
    ]
    matrix, names = model.encode(data), model.feature_names
    together = model.forest.contributions(matrix[np.concatenate(rows)])[:, :-1]
    contributions = np.split(together, np.cumsum([len(part) for part in rows])[:-1])
    rankings = []
    for start, own, values in zip(starts, rows, contributions, strict=True):
        features = np.sort(np.argsort(-np.ptp(values, axis=0), kind="stable")[:_FEATURES])
        cells = matrix[own]
        dense = np.asarray(
            cells.toarray() if hasattr(cells, "toarray") else cells, dtype=np.float64
        )
        rankings.append(
            {
                "d": (own - start + 1).tolist(),
                "l": _rounded(data.y[own], 4),
                "s": _rounded(scores[own], 6),
                "f": [str(names[feature]) for feature in features],
                "c": [_rounded(row, 4) for row in values[:, features]],
                "x": [_rounded(row, 4) for row in dense[:, features]],
            }
        )
    return rankings


def _within_limit(
    scored: ScoredRuns, chosen: NDArray[np.int64], rankings: Sequence[Sequence[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """The first queries, up to a number of bytes."""
    queries: list[dict[str, Any]] = []
    n_bytes = 0
    for place, query in enumerate(chosen.tolist()):
        text = str(scored.data.query_ids[query])
        own = [ranking[place] for ranking in rankings]
        item = {
            "q": text if len(text) <= _ID_LENGTH else f"{text[: _ID_LENGTH - 1]}…",
            "runs": own,
            "pairs": [_pair(ranking["l"]) for ranking in own],
        }
        n_bytes += len(embedded_json(item))
        if queries and n_bytes > _BYTES:
            break
        queries.append(item)
    return queries


def _pair(labels: Sequence[float]) -> list[int]:
    """Return the first two neighbours in the wrong order of labels, which ask for reasons; else the first two."""
    wrong = [place for place in range(1, len(labels)) if labels[place] > labels[place - 1]]
    return [wrong[0] - 1, wrong[0]] if wrong else [0, 1]


def _rounded(values: Any, digits: int) -> list[Any]:
    """Numbers with a few digits; a missing one is None, as JSON has no NaN."""
    return [None if np.isnan(value) else float(f"{value:.{digits}g}") for value in values]


def _shown(value: float | None) -> str:
    return "missing" if value is None else f"{value:g}"
