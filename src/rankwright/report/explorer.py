"""A block in which a reader picks two systems, a metric and a query, and sees both rankings side by side.

The page contains all the data, so their size is limited: rankings of the queries that changed most and of a sample of
the others, up to a number of bytes; points of the scatter plot up to a number of values. The histogram counts all
queries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rankwright.report.page import (
    Cell,
    Figure,
    Interactive,
    Table,
    embedded_json,
    render,
    require,
    shortened,
)
from rankwright.report.scored_runs import Floats, ScoredRuns, direction
from rankwright.report.theme import SERIES

_N_CHANGED, _N_SAMPLE = 200, 100  # queries whose rankings are shown
_DEPTH = 20  # documents of a ranking
_RANKING_BYTES = 350_000
_POINTS, _POINT_VALUES = 2000, 12_000
_BINS = 41  # odd: the middle bin holds the queries that hardly changed
_ROUNDING = 1e-12  # differences up to this are rounding errors
_ID_LENGTH = 60


@dataclass(frozen=True, eq=False)
class QueryExplorer(Interactive):
    """Two systems query by query: scatter plot, histogram of differences, and the rankings of a chosen query.

    Parameters
    ----------
    scored
        At least two runs on test data.
    """

    scored: ScoredRuns
    script: ClassVar[str] = "explorer.js"

    def html(self) -> str:
        """Return the figures, the controls and their data."""
        return render(
            "explorer.html",
            scatter=self._scatter,
            histogram=self._histogram,
            systems=self.scored.names,
            metrics=self.scored.metrics,
            data={
                "systems": self.scored.names,
                "metrics": [
                    {"name": name, "better": direction(name), "ends": list(ends), "widest": widest}
                    for name, ends, widest in zip(
                        self.scored.metrics, self._ends, self._widest, strict=True
                    )
                ],
                "rankings": [self._ranking(query) for query in self._chosen],
                "names": [self._names(query) for query in self._chosen],
                "top": max(1.0, float(self.scored.data.y.max())),
            },
            note=self._note(),
        )

    def markdown(self, files: Mapping[int, str]) -> str:
        """Return the figures for the first two systems, and the queries that changed most between them."""
        first, second = self.scored.values[:2]
        difference = second - first
        rows: list[list[Cell]] = [
            [
                self._id(query),
                float(first[query]),
                float(second[query]),
                f"{difference[query]:+.4f}",
            ]
            for query in np.argsort(-np.abs(difference), kind="stable")[:_DEPTH]
        ]
        table = Table(
            "Queries that changed most", ["query", *self.scored.names[:2], "difference"], rows
        )
        return "\n\n".join(
            block.markdown(files) for block in (self._scatter, self._histogram, table)
        )

    def figures(self) -> Sequence[Figure]:
        """Return the scatter plot and the histogram of the first two systems."""
        return (self._scatter, self._histogram)

    @cached_property
    def _chosen(self) -> NDArray[np.int64]:
        """Queries whose rankings are on the page, up to a number of bytes: those that changed most, and a sample."""
        spread = np.ptp(self.scored.values, axis=0)
        changed, others = np.split(np.argsort(-spread, kind="stable"), [_N_CHANGED])
        sample = np.random.default_rng(0).permutation(others)[:_N_SAMPLE]
        # Interleaved, so that both kinds are included if not all fit.
        order = np.concatenate(
            [np.arange(len(changed)) / _N_CHANGED, (np.arange(len(sample)) + 0.5) / _N_SAMPLE]
        )
        queries = np.concatenate([changed, sample])[np.argsort(order, kind="stable")]
        sizes = np.cumsum([self._bytes(query) for query in queries])
        return queries[: max(1, int(np.searchsorted(sizes, _RANKING_BYTES, side="right")))]

    def _bytes(self, query: int) -> int:
        return len(embedded_json(self._ranking(query))) + len(embedded_json(self._names(query))) + 2

    @cached_property
    def _values(self) -> list[Floats]:
        """Values of each metric [systems, queries]."""
        return [self.scored.values_of(metric) for metric in self.scored.metrics]

    @cached_property
    def _ends(self) -> list[tuple[float, float]]:
        """Ends of the axes of the scatter plot, for each metric."""
        ends = []
        for values in self._values:
            low, high = float(np.nanmin(values)), float(np.nanmax(values))
            room = 0.02 * (high - low) or 1.0
            ends.append((low - room, high + room))
        return ends

    @cached_property
    def _widest(self) -> list[float]:
        """The largest difference of two systems, for each metric."""
        return [max(float(np.nanmax(np.ptp(values, axis=0))), 1e-6) for values in self._values]

    @cached_property
    def _points(self) -> list[dict[str, Any]]:
        """Queries of the scatter plot: ``v`` by metric and system; ``k`` the number of the ranking, -1 without one."""
        n_systems, n_queries = self.scored.values.shape
        others = np.setdiff1d(np.arange(n_queries), self._chosen)
        room = max(
            0, min(_POINTS, _POINT_VALUES // (n_systems * len(self._values))) - len(self._chosen)
        )
        sample = np.sort(np.random.default_rng(1).permutation(others)[:room])
        relevant = self.scored.relevant
        return [
            {
                "q": self._id(query),
                **({"t": self._text(query)} if "query_text" in self.scored.data.fields else {}),
                "n": int(self.scored.data.group[self.scored.counted[query]]),
                "r": int(relevant[self.scored.counted[query]]),
                "v": [[_rounded(value) for value in values[:, query]] for values in self._values],
                "k": place if place < len(self._chosen) else -1,
            }
            for place, query in enumerate([*self._chosen, *sample])
        ]

    def _ranking(self, query: int) -> list[list[list[float]]]:
        """Return the first documents (numbered from 1 in the query), their labels and scores, for each system."""
        data = self.scored.data
        start, stop = data.boundaries[self.scored.counted[query] :][:2]
        labels = data.y[start:stop]
        rankings = []
        for scores in self.scored.scores:
            # Ties as the metric counts them: the lower label first.
            order = np.lexsort((labels, -scores[start:stop]))[:_DEPTH]
            rounded = [float(f"{score:.5g}") for score in scores[start:stop][order]]
            rankings.append(
                [(order + 1).tolist(), [_whole(label) for label in labels[order]], rounded]
            )
        return rankings

    def _names(self, query: int) -> dict[int, str]:
        """Return the ids of the documents in a query's rankings, by their numbers, where the data has ids."""
        data = self.scored.data
        if "docid" not in data.fields:
            return {}
        start = data.boundaries[self.scored.counted[query]]
        numbers = sorted(
            {number for documents, _, _ in self._ranking(query) for number in map(int, documents)}
        )
        names = {
            number: shortened(str(data.fields["docid"][start + number - 1]), _ID_LENGTH)
            for number in numbers
        }
        return {number: name for number, name in names.items() if name}

    def _text(self, query: int) -> str:
        """Return the text of a query, "" where the data has none."""
        data = self.scored.data
        if "query_text" not in data.fields:
            return ""
        return shortened(
            str(data.fields["query_text"][data.boundaries[self.scored.counted[query]]]), _ID_LENGTH
        )

    def _id(self, query: int) -> str:
        return shortened(str(self.scored.data.query_ids[self.scored.counted[query]]), _ID_LENGTH)

    def _note(self) -> str:
        rankings, points, total = len(self._chosen), len(self._points), len(self.scored.counted)
        if rankings == total:
            return f"Rankings show the first {_DEPTH} documents, numbered in the order of the data."
        which = f"{points:,} of {total:,} queries" if points < total else f"all {total:,} queries"
        return (
            f"The scatter plot shows {which}. Rankings of the first {_DEPTH} documents are available for {rankings:,} "
            "of them, the filled points: those that changed most, and a sample of the others. The histogram counts all."
        )

    @cached_property
    def _scatter(self) -> Figure:
        alt = require("altair")
        metric, names = self.scored.metrics[0], self.scored.names
        scale = alt.Scale(domain=list(self._ends[0]), nice=False, zero=False)
        corners = min(low for low, _ in self._ends), max(high for _, high in self._ends)
        x = alt.X("x:Q", title=f"{metric}, {names[0]}", scale=scale)
        y = alt.Y("y:Q", title=f"{metric}, {names[1]}", scale=scale)
        diagonal = (
            alt.Chart(alt.Data(values=[{"x": end, "y": end} for end in corners]))
            .mark_line(color="var(--faint)", strokeDash=[4, 4], strokeWidth=1, clip=True)
            .encode(x=x, y=y)
        )
        points = (
            alt.Chart(alt.NamedData("points"))
            .transform_calculate(x="datum.v[m][a]", y="datum.v[m][b]")
            .transform_filter("isValid(datum.x)")
            .transform_calculate(d="better * (datum.y - datum.x)")
            .transform_calculate(
                colour=f"datum.d > {_ROUNDING} ? colours[b] : datum.d < -{_ROUNDING} ? colours[a] : 'var(--faint)'",
                fill="datum.k < 0 ? 'transparent' : datum.colour",
                picked="datum.k >= 0 && datum.k == picked",
            )
            .mark_point(opacity=0.75, cursor="pointer", strokeWidth=1.2)
            .encode(
                x=x,
                y=y,
                stroke=alt.Stroke("colour:N", scale=None),
                fill=alt.Fill("fill:N", scale=None),
                size=alt.condition("datum.picked", alt.value(260), alt.value(36)),
                strokeWidth=alt.condition("datum.picked", alt.value(3), alt.value(1.2)),
                tooltip=[
                    alt.Tooltip("q:N", title="query"),
                    *(
                        [alt.Tooltip("t:N", title="text")]
                        if "query_text" in self.scored.data.fields
                        else []
                    ),
                    alt.Tooltip("x:Q", title="first", format=".4f"),
                    alt.Tooltip("y:Q", title="second", format=".4f"),
                    alt.Tooltip("n:Q", title="documents"),
                    alt.Tooltip("r:Q", title="relevant"),
                ],
            )
        )
        chart = alt.layer(diagonal, points, datasets={"points": self._points}).add_params(
            *self._params()
        )
        return Figure(
            f"{metric} of each query",
            chart.properties(height=380),
            f"Scatter plot: {metric} of each query, first system on the x axis, second on the y axis. Above the "
            "diagonal the second is larger. The list below the charts has the same queries.",
        )

    @cached_property
    def _histogram(self) -> Figure:
        alt = require("altair")
        metric, names = self.scored.metrics[0], self.scored.names
        rows = []
        for number, (values, widest) in enumerate(zip(self._values, self._widest, strict=True)):
            width = 2 * widest / (_BINS - 1)
            for a, b in combinations(range(len(values)), 2):
                difference = values[b] - values[a]
                difference = difference[~np.isnan(difference)]
                places = np.rint(difference / width).astype(int) + _BINS // 2
                counts = np.bincount(places, minlength=_BINS).tolist()
                larger, smaller = (
                    int(np.sum(difference > _ROUNDING)),
                    int(np.sum(difference < -_ROUNDING)),
                )
                pair = {"m": number, "a": a, "b": b, "w": width}
                rows.append({**pair, "c": counts, "larger": larger, "smaller": smaller})
        end = self._widest[0] * (1 + 2 / (_BINS - 1))
        chart = (
            alt.Chart(alt.NamedData("pairs"))
            .transform_filter("datum.m == m && datum.a == min(a, b) && datum.b == max(a, b)")
            .transform_flatten(["c"])
            .transform_window(place="row_number()")
            .transform_calculate(d=f"(a < b ? 1 : -1) * (datum.place - {_BINS // 2 + 1}) * datum.w")
            .transform_filter("datum.c > 0")
            .transform_calculate(
                low="datum.d - datum.w / 2",
                high="datum.d + datum.w / 2",
                colour="better * datum.d > datum.w / 2 ? colours[b] : better * datum.d < -datum.w / 2 ? colours[a] "
                ": 'var(--faint)'",
            )
            .mark_bar(stroke="var(--paper)", strokeWidth=0.5)
            .encode(
                x=alt.X(
                    "low:Q",
                    bin="binned",
                    title=f"{metric}, {names[1]} minus {names[0]}",
                    scale=alt.Scale(domain=[-end, end], nice=False),
                ),
                x2="high:Q",
                y=alt.Y("c:Q", title="queries", axis=alt.Axis(tickMinStep=1)),
                color=alt.Color("colour:N", scale=None),
                tooltip=[
                    alt.Tooltip("low:Q", title="from", format="+.4f"),
                    alt.Tooltip("high:Q", title="to", format="+.4f"),
                    alt.Tooltip("c:Q", title="queries"),
                ],
            )
            .add_params(*self._params())
            .properties(height=380, datasets={"pairs": rows})
        )
        return Figure(
            f"Differences in {metric}",
            chart,
            f"Histogram of the difference in {metric}, second system minus first, over all queries. The bar in the "
            "middle holds the queries that hardly changed.",
        )

    def _params(self) -> list[Any]:
        """Parameters that the page's script changes: the two systems, the metric, and the picked query."""
        alt = require("altair")
        colours = [SERIES[number % len(SERIES)] for number in range(len(self.scored.names))]
        values = {
            "a": 0,
            "b": 1,
            "m": 0,
            "picked": -1,
            "better": self.scored.better,
            "colours": colours,
        }
        return [alt.param(name=name, value=value) for name, value in values.items()]


def _rounded(value: float) -> float | None:
    return None if np.isnan(value) else round(float(value), 5)


def _whole(label: float) -> float:
    return int(label) if label == int(label) else round(float(label), 4)
