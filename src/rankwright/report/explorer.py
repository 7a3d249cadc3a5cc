"""A block in which a reader picks two systems, a metric and a query, and sees both rankings side by side.

The page contains all the data, so their size is limited: rankings of the queries that changed most and of a sample of
the other queries, up to a number of bytes; points of the scatter plot up to a number of values. The histogram counts
all queries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rankwright.charts.parts import dashed_line, direction, tooltip
from rankwright.charts.theme import PAGE, require
from rankwright.report.page import Cell, Figure, Interactive, Table, embedded_json, render
from rankwright.report.scored_runs import Floats, ScoredRuns

_N_CHANGED, _N_SAMPLE = 200, 100  # queries with rankings
_DEPTH = 20  # documents of a ranking
_RANKING_BYTES = 350_000
_POINTS, _POINT_VALUES = 2000, 12_000
_BINS = 41  # odd: the middle bin holds the queries that hardly changed
_ROUNDING = 1e-12  # differences up to this are rounding errors


@dataclass(frozen=True, eq=False)
class QueryExplorer(Interactive):
    """Two systems query by query: scatter plot, histogram of differences, and the rankings of a picked query.

    Parameters
    ----------
    scored
        At least two runs on test data.
    """

    scored: ScoredRuns
    script: ClassVar[str] = "explorer.js"

    def html(self) -> str:
        """Return the figures, the controls and their data."""
        metrics = [
            {"name": name, "better": direction(name), "ends": list(ends), "widest": widest}
            for name, ends, widest in zip(
                self.scored.metrics, self._ends, self._widest, strict=True
            )
        ]
        data = {
            "systems": self.scored.names,
            "metrics": metrics,
            "rankings": [self._rankings(query) for query in self._ranked],
            "names": [self._names(query) for query in self._ranked],
            "top": max(1.0, float(self.scored.data.y.max())),
        }
        return render(
            "explorer.html",
            scatter=self._scatter,
            histogram=self._histogram,
            systems=self.scored.names,
            metrics=self.scored.metrics,
            data=data,
            note=self._note(),
        )

    def markdown(self, files: Mapping[int, str]) -> str:
        """Return the figures for the first two systems, and the queries that changed most between them."""
        first, second = self.scored.values[:2]
        difference = second - first
        rows: list[list[Cell]] = []
        for place in np.argsort(-np.abs(difference), kind="stable")[:_DEPTH]:
            query = self.scored.query_id(self.scored.counted[place])
            change = f"{difference[place]:+.4f}"
            rows.append([query, float(first[place]), float(second[place]), change])
        header = ["query", *self.scored.names[:2], "difference"]
        table = Table("Queries that changed most", header, rows)
        blocks = (self._scatter, self._histogram, table)
        return "\n\n".join(block.markdown(files) for block in blocks)

    def figures(self) -> Sequence[Figure]:
        """Return the scatter plot and the histogram of the first two systems."""
        return (self._scatter, self._histogram)

    @cached_property
    def _ranked(self) -> NDArray[np.int64]:
        """Places among the counted queries of the queries with rankings on the page, up to a number of bytes.

        These are the queries that changed most, and a sample of the other queries.
        """
        spread = np.ptp(self.scored.values, axis=0)
        changed, rest = np.split(np.argsort(-spread, kind="stable"), [_N_CHANGED])
        sample = np.random.default_rng(0).permutation(rest)[:_N_SAMPLE]
        # Both kinds are interleaved, so that both are on the page if not all fit.
        order = np.concatenate(
            [np.arange(len(changed)) / _N_CHANGED, (np.arange(len(sample)) + 0.5) / _N_SAMPLE]
        )
        queries = np.concatenate([changed, sample])[np.argsort(order, kind="stable")]
        sizes = np.cumsum([self._bytes(query) for query in queries])
        return queries[: max(1, int(np.searchsorted(sizes, _RANKING_BYTES, side="right")))]

    def _bytes(self, place: int) -> int:
        rankings, names = self._rankings(place), self._names(place)
        return len(embedded_json(rankings)) + len(embedded_json(names)) + 2

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
            # Points at the edge of the chart would be cut.
            room = 0.02 * (high - low) or 1.0
            ends.append((low - room, high + room))
        return ends

    @cached_property
    def _widest(self) -> list[float]:
        """The largest difference of two systems, for each metric."""
        return [max(float(np.nanmax(np.ptp(values, axis=0))), 1e-6) for values in self._values]

    @cached_property
    def _points(self) -> list[dict[str, Any]]:
        """Return the queries of the scatter plot.

        ``values`` are by metric and system; ``ranking`` is the number of the query's rankings, or -1 without rankings.
        """
        scored = self.scored
        n_systems, n_queries = scored.values.shape
        at_most = min(_POINTS, _POINT_VALUES // (n_systems * len(self._values)))
        # Queries with rankings come first, because a reader can pick them.
        rest = np.setdiff1d(np.arange(n_queries), self._ranked)
        room = max(0, at_most - len(self._ranked))
        sample = np.sort(np.random.default_rng(1).permutation(rest)[:room])
        points = []
        for number, place in enumerate([*self._ranked, *sample]):
            query = scored.counted[place]
            point = {
                "query": scored.query_id(query),
                "documents": int(scored.data.group[query]),
                "relevant": int(scored.relevant[query]),
                "values": [[_rounded(v) for v in values[:, place]] for values in self._values],
                "ranking": number if number < len(self._ranked) else -1,
            }
            if scored.has_texts:
                point["text"] = scored.query_text(query)
            points.append(point)
        return points

    def _rankings(self, place: int) -> list[list[list[float]]]:
        """Return the first documents (numbered from 1 in the query), their labels and scores, for each system."""
        scored = self.scored
        query = scored.counted[place]
        rankings = []
        for run, scores in enumerate(scored.scores):
            rows = scored.ranking(run, query, _DEPTH)
            numbers = (rows - scored.data.boundaries[query] + 1).tolist()
            labels = [_whole(label) for label in scored.data.y[rows]]
            # Five digits are enough to read, and keep the page small.
            rankings.append([numbers, labels, [float(f"{score:.5g}") for score in scores[rows]]])
        return rankings

    def _names(self, place: int) -> dict[int, str]:
        """Return the ids of the documents in a query's rankings by their numbers, if the data has ids."""
        scored = self.scored
        query = scored.counted[place]
        rankings = [scored.ranking(run, query, _DEPTH) for run in range(len(scored.scores))]
        rows = np.unique(np.concatenate(rankings))
        numbers = (rows - scored.data.boundaries[query] + 1).tolist()
        names = zip(numbers, scored.document_ids(rows), strict=True)
        return {number: name for number, name in names if name}

    def _note(self) -> str:
        n_rankings, n_points = len(self._ranked), len(self._points)
        n_queries = len(self.scored.counted)
        numbering = ""
        if "docid" not in self.scored.data.fields:
            numbering = " Documents are numbered in the order of the data."
        if n_rankings == n_queries:
            return f"Rankings show the first {_DEPTH} documents.{numbering}"
        shown = f"all {n_queries:,} queries"
        if n_points < n_queries:
            shown = f"{n_points:,} of {n_queries:,} queries"
        return (
            f"The scatter plot shows {shown}. Rankings of the first {_DEPTH} documents are "
            f"available for {n_rankings:,} of them, the filled points: the queries that changed "
            "most, and a sample of the other queries. The histogram counts all "
            f"queries.{numbering}"
        )

    @cached_property
    def _scatter(self) -> Figure:
        alt = require("altair")
        metric, names = self.scored.metrics[0], self.scored.names
        scale = alt.Scale(domain=list(self._ends[0]), nice=False, zero=False)
        x = alt.X("x:Q", title=f"{metric}, {names[0]}", scale=scale)
        y = alt.Y("y:Q", title=f"{metric}, {names[1]}", scale=scale)
        corners = min(low for low, _ in self._ends), max(high for _, high in self._ends)
        diagonal = dashed_line([{"x": end, "y": end} for end in corners], PAGE).encode(x=x, y=y)
        texts = ["query", "text"] if self.scored.has_texts else ["query"]
        numbers = {"x": ".4f", "y": ".4f", "documents": ",", "relevant": ","}
        points = (
            alt.Chart(alt.NamedData("points"))
            .transform_calculate(x="datum.values[metric][first]", y="datum.values[metric][second]")
            .transform_filter("isValid(datum.x)")
            .transform_calculate(gain="better * (datum.y - datum.x)")
            .transform_calculate(
                colour=_colour(f"datum.gain > {_ROUNDING}", f"datum.gain < -{_ROUNDING}"),
                fill="datum.ranking < 0 ? 'transparent' : datum.colour",
                picked="datum.ranking >= 0 && datum.ranking == picked",
            )
            .mark_point(opacity=0.75, cursor="pointer", strokeWidth=1.2)
            .encode(
                x=x,
                y=y,
                stroke=alt.Stroke("colour:N", scale=None),
                fill=alt.Fill("fill:N", scale=None),
                size=alt.condition("datum.picked", alt.value(260), alt.value(36)),
                strokeWidth=alt.condition("datum.picked", alt.value(3), alt.value(1.2)),
                tooltip=tooltip(texts, numbers, {"x": "first", "y": "second"}),
            )
        )
        # The data has a name, so that the page's script finds it.
        chart = alt.layer(diagonal, points, datasets={"points": self._points})
        return Figure(
            f"{metric} of each query",
            chart.add_params(*self._params()).properties(height=380),
            f"Scatter plot: {metric} of each query, first system on the x axis, second on the y "
            "axis. Above the diagonal the second is larger. The list below the charts has the "
            "same queries.",
        )

    @cached_property
    def _histogram(self) -> Figure:
        alt = require("altair")
        metric, names = self.scored.metrics[0], self.scored.names
        end = self._widest[0] * (1 + 2 / (_BINS - 1))
        chart = (
            alt.Chart(alt.NamedData("pairs"))
            .transform_filter(
                "datum.metric == metric"
                " && datum.first == min(first, second) && datum.second == max(first, second)"
            )
            # Bins are numbered by their place in the list, and the middle bin is 0.
            .transform_flatten(["queries"])
            .transform_window(place="row_number()")
            .transform_calculate(
                middle=f"(first < second ? 1 : -1) * (datum.place - {_BINS // 2 + 1}) * datum.width"
            )
            .transform_filter("datum.queries > 0")
            .transform_calculate(
                low="datum.middle - datum.width / 2",
                high="datum.middle + datum.width / 2",
                colour=_colour(
                    "better * datum.middle > datum.width / 2",
                    "better * datum.middle < -datum.width / 2",
                ),
            )
            .mark_bar(stroke=PAGE.paper, strokeWidth=0.5)
            .encode(
                x=alt.X(
                    "low:Q",
                    bin="binned",
                    title=f"{metric}, {names[1]} minus {names[0]}",
                    scale=alt.Scale(domain=[-end, end], nice=False),
                ),
                x2="high:Q",
                y=alt.Y("queries:Q", title="queries", axis=alt.Axis(tickMinStep=1)),
                color=alt.Color("colour:N", scale=None),
                tooltip=tooltip([], {"low": "+.4f", "high": "+.4f", "queries": ","}),
            )
            .add_params(*self._params())
            .properties(height=380, datasets={"pairs": self._pairs()})
        )
        return Figure(
            f"Differences in {metric}",
            chart,
            f"Histogram of the difference in {metric}, second system minus first, over all "
            "queries. The bar in the middle holds the queries that hardly changed.",
        )

    def _pairs(self) -> list[dict[str, Any]]:
        """Return the histogram of the differences of each pair of systems, for each metric."""
        pairs = []
        for number, (values, widest) in enumerate(zip(self._values, self._widest, strict=True)):
            width = 2 * widest / (_BINS - 1)
            for first, second in combinations(range(len(values)), 2):
                difference = values[second] - values[first]
                difference = difference[~np.isnan(difference)]
                # A bin reaches half a width to both sides of its middle.
                places = np.rint(difference / width).astype(int) + _BINS // 2
                pairs.append(
                    {
                        "metric": number,
                        "first": first,
                        "second": second,
                        "width": width,
                        "queries": np.bincount(places, minlength=_BINS).tolist(),
                        "larger": int(np.sum(difference > _ROUNDING)),
                        "smaller": int(np.sum(difference < -_ROUNDING)),
                    }
                )
        return pairs

    def _params(self) -> list[Any]:
        """Return the parameters that the page's script changes: systems, metric and picked query."""
        alt = require("altair")
        values = {
            "first": 0,
            "second": 1,
            "metric": 0,
            "picked": -1,
            "better": self.scored.better,
            "colours": [PAGE.colour(number) for number in range(len(self.scored.names))],
        }
        return [alt.param(name=name, value=value) for name, value in values.items()]


def _colour(second_is_better: str, first_is_better: str) -> str:
    """Return the expression for the colour of the better system."""
    return (
        f"{second_is_better} ? colours[second] : {first_is_better} ? colours[first]"
        f" : '{PAGE.faint}'"
    )


def _rounded(value: float) -> float | None:
    # JSON has no NaN.
    return None if np.isnan(value) else round(float(value), 5)


def _whole(label: float) -> float:
    return int(label) if label == int(label) else round(float(label), 4)
