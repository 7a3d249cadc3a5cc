"""Charts of evaluations: differences between systems, values of queries, and reliability curves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankwright.charts.parts import (
    chart_of,
    check_choice,
    check_names,
    dashed_line,
    label_axis,
    series_colour,
    tooltip,
)
from rankwright.charts.theme import NOTEBOOK, Style, require

if TYPE_CHECKING:
    from rankwright.evaluation.comparison import Comparison
    from rankwright.evaluation.learning_curve import LearningCurve
    from rankwright.evaluation.per_query import Evaluation
    from rankwright.evaluation.reliability import Reliability

_BINS = 25


def plot_comparison(comparison: Comparison) -> Any:
    """Draw the differences to the baseline with their intervals; significant differences are filled.

    Parameters
    ----------
    comparison
        The result of `compare`.

    Examples
    --------
    >>> import rankwright as rw
    >>> labels, qid = [2, 1, 0] * 4, np.repeat(range(4), 3)
    >>> good, bad = (rw.evaluate(scores, labels, qid=qid) for scores in ([3, 2, 1] * 4, [1, 2, 3] * 4))
    >>> type(plot_comparison(rw.compare(bad, good, names=["old", "new"]))).__name__
    'LayerChart'
    """
    return comparison_chart(comparison, NOTEBOOK)


def comparison_chart(comparison: Comparison, style: Style, *, first: int = 0) -> Any:
    """Draw a comparison; ``first`` is the number of the first system's colour."""
    alt = require("altair")
    rows = [
        {
            "metric": row.metric,
            "system": row.system,
            "difference": row.difference,
            "low": row.low,
            "high": row.high,
            "p": row.p_adjusted,
            "significant": bool(row.significant),
        }
        for row in comparison.rows
    ]
    systems = list(dict.fromkeys(row.system for row in comparison.rows))
    numbers = {"difference": "+.4f", "low": "+.4f", "high": "+.4f", "p": ".4f"}
    # If the baseline has a colour elsewhere, the legend says which system is compared with it.
    has_legend = first + len(systems) > 1
    colour = series_colour("system", systems, style, first=first, has_legend=has_legend)
    base = chart_of(rows).encode(
        y=alt.Y("metric:N", title=None, sort=None, axis=label_axis(style)),
        yOffset=alt.YOffset("system:N", sort=None),
        color=colour,
        tooltip=tooltip(["system", "metric"], numbers),
    )
    title = f"difference to {comparison.baseline}"
    x = alt.X("low:Q", title=title, axis=style.axis(), scale=alt.Scale(zero=True))
    zero = (
        chart_of([{"zero": 0}]).mark_rule(color=style.faint, strokeDash=[4, 4]).encode(x="zero:Q")
    )
    intervals = base.mark_rule(strokeWidth=3, opacity=0.45, strokeCap="round").encode(
        x=x, x2="high:Q"
    )
    # Significant means are drawn a second time, filled, on top of the hollow points.
    means = base.mark_point(size=90, opacity=1, strokeWidth=2, fill=style.paper)
    significant = base.mark_point(size=90, opacity=1, filled=True).transform_filter(
        "datum.significant"
    )
    points = [marks.encode(x="difference:Q") for marks in (means, significant)]
    n_metrics = len({row.metric for row in comparison.rows})
    height = max(80, 26 * n_metrics * max(2, len(systems)))
    return alt.layer(zero, intervals, *points).properties(height=height, **style.size)


def plot_queries(
    *results: Evaluation, names: Sequence[str] | None = None, metric: str | None = None
) -> Any:
    """Draw the values of the queries: a histogram of one evaluation, or two against each other, query by query.

    Parameters
    ----------
    results
        One evaluation, or two of the same queries; the first is on the x axis.
    names
        Names of the evaluations.
    metric
        Which of the metrics; by default the first.

    Examples
    --------
    >>> import rankwright as rw
    >>> labels, qid = [2, 1, 0] * 4, np.repeat(range(4), 3)
    >>> good, bad = (rw.evaluate(scores, labels, qid=qid) for scores in ([3, 2, 1] * 4, [1, 2, 3] * 4))
    >>> type(plot_queries(good)).__name__, type(plot_queries(bad, good, names=["old", "new"])).__name__
    ('Chart', 'LayerChart')
    """
    require("altair")
    if len(results) not in (1, 2):
        raise ValueError(
            f"plot_queries draws one evaluation or two against each other; got {len(results)}."
        )
    labels = check_names(names, [f"system {number}" for number in range(1, len(results) + 1)])
    shared = [name for name in results[0].per_query if name in results[-1].per_query]
    metric = check_choice(metric, shared)
    if len(results) == 2:
        return _queries_of_two(results[0], results[1], labels, metric)
    values = results[0].per_query[metric]
    title = metric if names is None else f"{metric} of {labels[0]}"
    return histogram(values[np.isfinite(values)], title, NOTEBOOK).properties(height=300)


def histogram(values: NDArray[np.float64], title: str, style: Style) -> Any:
    """Draw how many queries have which values."""
    alt = require("altair")
    counts, edges = np.histogram(values, bins=_BINS)
    rows = [
        {"low": float(low), "high": float(high), "queries": int(count)}
        for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True)
    ]
    return (
        chart_of(rows)
        .mark_bar(color=style.colour(0), stroke=style.paper, strokeWidth=0.5)
        .encode(
            x=alt.X("low:Q", title=title, bin="binned", axis=style.axis()),
            x2="high:Q",
            y=alt.Y("queries:Q", title="queries", axis=style.axis(tickMinStep=1)),
            tooltip=tooltip([], {"low": ".4f", "high": ".4f", "queries": ","}),
        )
        .properties(**style.size)
    )


def _queries_of_two(first: Evaluation, second: Evaluation, names: list[str], metric: str) -> Any:
    """Draw a point for each query, with its two values, and the diagonal."""
    alt = require("altair")
    ids = [str(qid) for qid in first.query_ids.tolist()]
    if ids != [str(qid) for qid in second.query_ids.tolist()]:
        raise ValueError(
            "the two evaluations are of different queries; evaluate both on the same data."
        )
    rows: list[dict[str, Any]] = []
    for qid, x, y in zip(ids, first.per_query[metric], second.per_query[metric], strict=True):
        if math.isfinite(x) and math.isfinite(y):
            values = {"first": float(x), "second": float(y), "difference": float(y - x)}
            rows.append({"query": qid, **values})
    if not rows:
        raise ValueError(
            f"no query has a value of {metric} in both evaluations; there is nothing to draw."
        )
    # Both axes have the same ends, so that the diagonal separates gains from losses.
    both = [row[name] for row in rows for name in ("first", "second")]
    ends = [min(both), max(both)]
    scale = alt.Scale(domain=ends, nice=False, zero=False, padding=8)
    axis = NOTEBOOK.axis()
    x = alt.X("first:Q", title=f"{metric} of {names[0]}", scale=scale, axis=axis)
    y = alt.Y("second:Q", title=f"{metric} of {names[1]}", scale=scale, axis=axis)
    numbers = {"first": ".4f", "second": ".4f", "difference": "+.4f"}
    titles = {"first": names[0], "second": names[1]}
    points = chart_of(rows).mark_point(filled=True, opacity=0.6, size=45, color=NOTEBOOK.colour(0))
    diagonal = dashed_line([{"first": end, "second": end} for end in ends], NOTEBOOK)
    return alt.layer(
        diagonal.encode(x=x, y=y),
        points.encode(x=x, y=y, tooltip=tooltip(["query"], numbers, titles)),
    ).properties(width=360, height=360)


def plot_learning_curve(curve: LearningCurve, metric: str | None = None) -> Any:
    """Draw quality by number of judged queries, with intervals, for each system.

    Parameters
    ----------
    curve
        The result of `learning_curve`.
    metric
        Which of the metrics; by default the first.

    Examples
    --------
    >>> import rankwright as rw
    >>> data = rw.make_web_search(20, kind="short", n_features=20, random_state=1)
    >>> curve = rw.learning_curve(rw.column(data.feature_names[4]), data, [5, 10], repeats=2)
    >>> type(plot_learning_curve(curve)).__name__
    'LayerChart'
    """
    alt = require("altair")
    metric = check_choice(metric, list(dict.fromkeys(point.metric for point in curve.points)))
    rows = [
        {
            "system": point.system,
            "queries": point.n_queries,
            "mean": point.mean,
            "low": point.low,
            "high": point.high,
        }
        for point in curve.points
        if point.metric == metric
    ]
    systems = list(dict.fromkeys(point.system for point in curve.points))
    x = alt.X(
        "queries:Q",
        title="judged queries",
        axis=NOTEBOOK.axis(tickMinStep=1),
        scale=alt.Scale(zero=False, padding=12),
    )
    y = alt.Y("low:Q", title=metric, axis=NOTEBOOK.axis(), scale=alt.Scale(zero=False))
    colour = series_colour("system", systems, NOTEBOOK)
    base = chart_of(rows).encode(x=x, color=colour)
    intervals = base.mark_rule(strokeWidth=3, opacity=0.35, strokeCap="round")
    lines = base.mark_line(strokeWidth=2).encode(y="mean:Q")
    numbers = {"mean": ".4f", "low": ".4f", "high": ".4f"}
    points = base.mark_point(filled=True, size=60, opacity=1).encode(
        y="mean:Q", tooltip=tooltip(["system", "queries"], numbers)
    )
    layers = (intervals.encode(y=y, y2="high:Q"), lines, points)
    return alt.layer(*layers).properties(height=300, **NOTEBOOK.size)


def plot_reliability(*curves: Reliability, names: Sequence[str] | None = None) -> Any:
    """Draw reliability curves: the mean target of each bin by its mean value, with intervals. The diagonal is perfect.

    Parameters
    ----------
    curves
        Results of `reliability` or `Ranker.reliability`.
    names
        Names for the legend; by default numbers.

    Examples
    --------
    >>> import rankwright as rw
    >>> curve = rw.reliability([0.1, 0.2, 0.7, 0.8], [0, 1, 1, 1], group=[2, 2], bins=2)
    >>> type(plot_reliability(curve)).__name__
    'LayerChart'
    """
    labels = check_names(names, [f"curve {number}" for number in range(1, len(curves) + 1)])
    chart = reliability_chart(dict(zip(labels, curves, strict=True)), "mean target", NOTEBOOK)
    return chart.properties(width=360, height=360)


def reliability_chart(
    curves: Mapping[str, Reliability], target: str, style: Style, *, first: int = 0
) -> Any:
    """Draw reliability curves by name; ``first`` is the number of the first curve's colour."""
    alt = require("altair")
    rows: list[dict[str, Any]] = []
    for name, curve in curves.items():
        rows += [{"curve": name, **point} for point in curve.points()]
    both = [row[name] for row in rows for name in ("predicted", "observed")]
    x = alt.X(
        "predicted:Q",
        title="mean value",
        axis=style.axis(),
        scale=alt.Scale(nice=False, zero=False, padding=8),
    )
    y = alt.Y("low:Q", title=target, axis=style.axis(), scale=alt.Scale(zero=False))
    base = chart_of(rows).encode(
        x=x, color=series_colour("curve", list(curves), style, first=first)
    )
    numbers = {"predicted": ".4f", "observed": ".4f", "low": ".4f", "high": ".4f", "documents": ","}
    titles = {"predicted": "mean value", "observed": target}
    # The diagonal is as long as the points need, not as long as all probabilities.
    ends = [{"predicted": end, "observed": end} for end in (min(both), max(both))]
    diagonal = dashed_line(ends, style).encode(x=x, y="observed:Q")
    intervals = base.mark_rule(strokeWidth=3, opacity=0.45).encode(y=y, y2="high:Q")
    lines = base.mark_line(strokeWidth=1.5).encode(y="observed:Q")
    points = base.mark_point(filled=True, size=60, opacity=1).encode(
        y="observed:Q", tooltip=tooltip(["curve"], numbers, titles)
    )
    return alt.layer(diagonal, intervals, lines, points)
