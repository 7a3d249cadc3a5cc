"""The sections of a report on runs that show values of queries: query by query, and by kinds of queries."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rankwright.charts.evaluations import histogram
from rankwright.charts.parts import chart_of, series_colour, tooltip
from rankwright.charts.theme import PAGE, require
from rankwright.report.explorer import QueryExplorer
from rankwright.report.page import Block, Cell, Figure, Table, Text
from rankwright.report.scored_runs import ScoredRuns, groups_of, mean_interval

_WORST = 20  # queries of a table


def queries(scored: ScoredRuns) -> list[Block]:
    """Return the query explorer of several runs; for a single run a histogram and its worst queries."""
    if len(scored.names) > 1:
        return [QueryExplorer(scored)]
    metric, values = scored.metrics[0], scored.values[0]
    description = f"Histogram of {metric} over {len(values):,} queries."
    chart = histogram(values, metric, PAGE).properties(height=300)
    return [Figure(f"{metric} of the queries", chart, description), _worst_queries(scored)]


def _worst_queries(scored: ScoredRuns) -> Table:
    metric, values = scored.metrics[0], scored.values[0]
    rows: list[list[Cell]] = []
    for place in np.argsort(scored.better * values, kind="stable")[:_WORST]:
        query = scored.counted[place]
        sizes = [int(scored.data.group[query]), int(scored.relevant[query])]
        row: list[Cell] = [scored.query_id(query), float(values[place]), *sizes]
        if scored.has_texts:
            row.insert(1, scored.query_text(query))
        rows.append(row)
    header = ["query", metric, "documents", "relevant"]
    if scored.has_texts:
        header.insert(1, "text")
    return Table("Worst queries", header, rows)


def kinds(scored: ScoredRuns) -> list[Block]:
    """Return the values of queries by their number of documents and of relevant documents."""
    sizes, relevant = scored.data.group[scored.counted], scored.relevant[scored.counted]
    return [
        _by_group(scored, sizes, "documents in the query"),
        _by_group(scored, relevant, "relevant documents"),
    ]


def _by_group(scored: ScoredRuns, counts: NDArray[np.int64], what: str) -> Block:
    """Draw the mean of the first metric by groups of queries with similar counts."""
    alt = require("altair")
    metric, groups = scored.metrics[0], groups_of(counts)
    if counts.min() == counts.max():
        # A chart of one group would show the overall mean again.
        things = what.removesuffix(" in the query")
        return Text(f"All queries have the same number of {things}: {counts[0]:,}.")
    rows = []
    for text, members in groups:
        for run, name in enumerate(scored.names):
            mean, low, high = mean_interval(scored.values[run, members])
            interval = {"mean": mean, "low": low, "high": high, "queries": len(members)}
            rows.append({"run": name, "group": text, **interval})
    numbers = {"queries": ",", "mean": ".4f", "low": ".4f", "high": ".4f"}
    base = chart_of(rows).encode(
        x=alt.X(
            "group:N",
            title=what,
            sort=None,
            axis=alt.Axis(labelAngle=0, grid=False, labelOverlap=True),
        ),
        xOffset=alt.XOffset("run:N", sort=None),
        color=series_colour("run", scored.names, PAGE),
        tooltip=tooltip(["run", "group"], numbers, {"group": what, "mean": metric}),
    )
    y = alt.Y("low:Q", title=metric, scale=alt.Scale(zero=False))
    intervals = base.mark_rule(strokeWidth=3, opacity=0.45, strokeCap="round")
    means = base.mark_point(filled=True, opacity=1, size=70)
    chart = alt.layer(intervals.encode(y=y, y2="high:Q"), means.encode(y="mean:Q"))
    ranges = ", ".join(text for text, _ in groups)
    return Figure(
        f"{metric} by number of {what}",
        chart.properties(height=280),
        f"Mean of {metric} with its 95% interval for queries with {ranges} {what}.",
    )
