"""Charts of trainings, models and evaluations, for notebooks: Altair charts, which the extra ``report`` installs.

A chart can be shown, changed, combined with others and saved by Altair's own methods.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwright.metrics import metric as parse_metric
from rankwright.report.page import require
from rankwright.report.theme import COLOURS

if TYPE_CHECKING:
    from rankwright.evaluation.comparison import Comparison
    from rankwright.evaluation.per_query import Evaluation
    from rankwright.evaluation.permutation import PermutationImportance
    from rankwright.model import Model
    from rankwright.ranker import Ranker
    from rankwright.runs import Run

_SERIES = [light for name, (light, _) in COLOURS.items() if name.startswith("series-")]
FAINT = COLOURS["faint"][0]
WIDTH = 480
_Curves = dict[str, list[float]]  # by metric


def plot_curves(
    *models: Ranker | Run, names: Sequence[str] | None = None, metric: str | None = None
) -> Any:
    """Draw learning curves, with a point at the best tree of each.

    Parameters
    ----------
    models
        Rankers that were trained with an ``eval_set``, or runs.
    names
        Names for the legend; by default those of the runs, or numbers.
    metric
        Which of the metrics; by default the first.

    Returns
    -------
    altair.Chart
        Trees across, the metric upwards.

    Examples
    --------
    >>> import rankwright as rw
    >>> train, valid = rw.make_web_search(30, seed=1).split(0.3)
    >>> ranker = rw.Ranker(n_estimators=5, verbose=0).fit(train, eval_set=[valid])
    >>> type(plot_curves(ranker)).__name__
    'LayerChart'
    """
    alt = require("altair")
    labels = distinct_names(
        names, [getattr(model, "name", f"model {i}") for i, model in enumerate(models, start=1)]
    )
    parts = [_curves_of(model) for model in models]
    available = list(
        dict.fromkeys(name for sets in parts for curves in sets.values() for name in curves)
    )
    if not available:
        raise ValueError(
            "there are no curves to draw: train with eval_set=, or give a run with validation data."
        )
    chosen = _one_of(metric, available)
    better = 1 if parse_metric(chosen).higher_is_better else -1
    rows: list[dict[str, Any]] = []
    tops: list[dict[str, Any]] = []
    for label, model, sets in zip(labels, models, parts, strict=True):
        first = _initial_trees(model)
        for part, curves in sets.items():
            points: list[dict[str, Any]] = [
                {"tree": first + number, "value": value, "model": label, "data": part}
                for number, value in enumerate(curves.get(chosen, []), start=1)
                if math.isfinite(value)
            ]
            rows += points
            tops += sorted(points, key=lambda point: -better * point["value"])[:1]
    x = alt.X("tree:Q", title="trees", scale=alt.Scale(nice=False))
    y = alt.Y("value:Q", title=chosen, scale=alt.Scale(zero=False))
    colour = colour_of(alt, "model", labels)
    lines = (
        alt.Chart(alt.Data(values=rows))
        .mark_line(strokeWidth=2)
        .encode(x=x, y=y, color=colour, strokeDash=alt.StrokeDash("data:N", title=None, sort=None))
    )
    tooltip = [
        "model:N",
        "data:N",
        alt.Tooltip("tree:Q", title="best tree"),
        alt.Tooltip("value:Q", format=".4f"),
    ]
    marks = (
        alt.Chart(alt.Data(values=tops))
        .mark_point(filled=True, size=70)
        .encode(x=x, y=y, color=colour, tooltip=tooltip)
    )
    return alt.layer(lines, marks).properties(width=WIDTH, height=300)


def plot_importance(model: Ranker | Model | PermutationImportance, *, top: int = 20) -> Any:
    """Draw how much each column contributes to the gain of the splits, the largest first.

    Parameters
    ----------
    model
        A fitted Ranker, or a Model; or what `Ranker.permutation_importance` returns, drawn with its intervals.
    top
        Number of columns to show.

    Examples
    --------
    >>> import rankwright as rw
    >>> ranker = rw.Ranker(n_estimators=5, verbose=0).fit(rw.make_web_search(30, seed=1))
    >>> len(plot_importance(ranker, top=7).data.values)
    7
    """
    alt = require("altair")
    if isinstance(top, bool) or not isinstance(top, int | np.integer) or top < 1:
        raise ValueError(f"top must be a whole number from 1; got {top!r}.")
    if hasattr(model, "losses"):
        return _losses(alt, model, top)
    light: Any = getattr(model, "model_", model)
    shares = light.importances()
    order = np.argsort(-shares, kind="stable")[:top]
    rows = [{"column": light.feature_names[i], "share": float(shares[i])} for i in order]
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_bar(cornerRadiusEnd=2, color=_SERIES[0])
        .encode(
            x=alt.X("share:Q", title="share of the gain", axis=alt.Axis(format="%")),
            y=alt.Y("column:N", title=None, sort=None, axis=alt.Axis(grid=False, labelLimit=240)),
            tooltip=["column:N", alt.Tooltip("share:Q", format=".2%")],
        )
        .properties(width=WIDTH, height=alt.Step(20))
    )


def _losses(alt: Any, importance: Any, top: int) -> Any:
    """Bars of the loss of a metric, with intervals."""
    names = ("features", "losses", "low", "high")
    rows = [
        {"column": name, "loss": float(loss), "low": float(low), "high": float(high)}
        for name, loss, low, high in zip(
            *(getattr(importance, name)[:top] for name in names), strict=True
        )
    ]
    base = alt.Chart(alt.Data(values=rows)).encode(
        y=alt.Y("column:N", title=None, sort=None, axis=alt.Axis(grid=False, labelLimit=240)),
        tooltip=[
            "column:N",
            *(alt.Tooltip(f"{name}:Q", format="+.4f") for name in ("loss", "low", "high")),
        ],
    )
    title = f"loss of {importance.metric} when the column is shuffled"
    bars = base.mark_bar(cornerRadiusEnd=2, color=_SERIES[0]).encode(x=alt.X("loss:Q", title=title))
    intervals = base.mark_rule(strokeWidth=2, color=_SERIES[1]).encode(x="low:Q", x2="high:Q")
    return alt.layer(bars, intervals).properties(width=WIDTH, height=alt.Step(20))


def plot_position_bias(
    *models: Ranker | Run,
    names: Sequence[str] | None = None,
    column: str | None = None,
    examination: bool = False,
) -> Any:
    """Draw the position bias that trainings found: scores that a document gains or loses by where it was shown.

    Parameters
    ----------
    models
        Rankers that were trained with ``fit(position=...)``, or runs.
    names
        Names for the legend; by default those of the runs, or numbers.
    column
        Which of the bias columns; by default the first.
    examination
        Draw how likely positions are examined, ``examination_``, instead.

    Returns
    -------
    altair.Chart
        Positions across and the bias relative to the first upwards; categories as bars.

    Examples
    --------
    >>> import rankwright as rw
    >>> data = rw.make_web_search(30, kind="short", seed=1)
    >>> log = rw.simulate_clicks(data, impressions=5).to_data(by="session", examined_only=False)
    >>> ranker = rw.Ranker(n_estimators=5, verbose=0).fit(log, position="position")
    >>> len(plot_position_bias(ranker).data.values)
    10
    """
    alt = require("altair")
    labels = distinct_names(
        names, [getattr(model, "name", f"model {i}") for i, model in enumerate(models, start=1)]
    )
    rankers: list[Any] = [getattr(model, "ranker", model) for model in models]
    stored = [ranker.manifest_.get("position_bias", {}) for ranker in rankers]
    available = list(dict.fromkeys(name for biases in stored for name in biases))
    if not available:
        raise ValueError("there is no position bias to draw: train with fit(position=...).")
    chosen = _one_of(column, available)
    quantity, title = (
        ("examination", "examination") if examination else ("values", "bias, as a score")
    )
    rows = [
        {"level": level, "bias": bias, "documents": documents, "model": label}
        for label, biases in zip(labels, stored, strict=True)
        if quantity in biases.get(chosen, {})
        for level, bias, documents in zip(
            *(biases[chosen][k] for k in ("levels", quantity, "documents")), strict=True
        )
        if bias is not None
    ]
    ordered = all(biases[chosen]["ordered"] for biases in stored if chosen in biases)
    base = alt.Chart(alt.Data(values=rows)).encode(
        y=alt.Y("bias:Q", title=title),
        color=colour_of(alt, "model", labels),
        tooltip=[
            "model:N",
            "level:N",
            alt.Tooltip("bias:Q", title=title, format=".3f"),
            "documents:Q",
        ],
    )
    if ordered:
        axis = alt.X(
            "level:Q", title=chosen, axis=alt.Axis(tickMinStep=1), scale=alt.Scale(nice=False)
        )
        return (
            base.mark_line(point=True, strokeWidth=2)
            .encode(x=axis)
            .properties(width=WIDTH, height=300)
        )
    bars = base.mark_bar(cornerRadiusEnd=2).encode(
        x=alt.X("level:N", title=chosen, sort=None), xOffset="model:N"
    )
    return bars.properties(width=WIDTH, height=300)


def plot_comparison(comparison: Comparison) -> Any:
    """Draw the differences to the baseline with their intervals; those that are significant are filled.

    Parameters
    ----------
    comparison
        What `compare` returns.

    Examples
    --------
    >>> import rankwright as rw
    >>> labels, qid = [2, 1, 0] * 4, np.repeat(range(4), 3)
    >>> good, bad = (rw.evaluate(scores, labels, qid=qid) for scores in ([3, 2, 1] * 4, [1, 2, 3] * 4))
    >>> type(plot_comparison(rw.compare(bad, good, names=["old", "new"]))).__name__
    'LayerChart'
    """
    alt = require("altair")
    rows: list[dict[str, Any]] = [
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
    systems = list(dict.fromkeys(row["system"] for row in rows))
    base = alt.Chart(alt.Data(values=rows)).encode(
        y=alt.Y(
            "metric:N", title=None, sort=None, axis=alt.Axis(grid=False, ticks=False, domain=False)
        ),
        yOffset=alt.YOffset("system:N", sort=None),
        color=colour_of(alt, "system", systems),
        tooltip=[
            "system:N",
            "metric:N",
            *(alt.Tooltip(f"{name}:Q", format="+.4f") for name in ("difference", "low", "high")),
            alt.Tooltip("p:Q", format=".4f"),
        ],
    )
    x = alt.X("low:Q", title=f"difference to {comparison.baseline}", scale=alt.Scale(zero=True))
    zero = (
        alt.Chart(alt.Data(values=[{"x": 0}]))
        .mark_rule(color=FAINT, strokeDash=[4, 4])
        .encode(x="x:Q")
    )
    intervals = base.mark_rule(strokeWidth=3, opacity=0.45).encode(x=x, x2="high:Q")
    scale = alt.Scale(domain=systems, range=_palette(systems))
    fill = alt.condition(
        "datum.significant", alt.Fill("system:N", scale=scale, legend=None), alt.value("white")
    )
    means = base.mark_point(size=90, opacity=1, strokeWidth=2).encode(x="difference:Q", fill=fill)
    n_metrics = len({row["metric"] for row in rows})
    return alt.layer(zero, intervals, means).properties(
        width=WIDTH, height=max(80, 26 * n_metrics * max(2, len(systems)))
    )


def plot_queries(
    *results: Evaluation, names: Sequence[str] | None = None, metric: str | None = None
) -> Any:
    """Draw the values of the queries: a histogram of one evaluation, or two against each other, query by query.

    Parameters
    ----------
    results
        One evaluation, or two of the same queries; the first is drawn across.
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
    alt = require("altair")
    if len(results) not in (1, 2):
        raise ValueError(
            f"plot_queries draws one evaluation or two against each other; got {len(results)}."
        )
    labels = distinct_names(names, [f"system {i}" for i in range(1, len(results) + 1)])
    chosen = _one_of(
        metric, [name for name in results[0].per_query if name in results[-1].per_query]
    )
    columns = [result.per_query[chosen] for result in results]
    ids = [str(qid) for qid in results[0].query_ids.tolist()]
    if len(results) == 1:
        values = columns[0][np.isfinite(columns[0])]
        counts, edges = np.histogram(values, bins=25)
        bars = [
            {"low": float(low), "high": float(high), "queries": int(count)}
            for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True)
        ]
        return (
            alt.Chart(alt.Data(values=bars))
            .mark_bar(color=_SERIES[0])
            .encode(
                x=alt.X(
                    "low:Q",
                    title=chosen if names is None else f"{chosen} of {labels[0]}",
                    bin="binned",
                ),
                x2="high:Q",
                y=alt.Y("queries:Q", axis=alt.Axis(tickMinStep=1)),
                tooltip=[
                    alt.Tooltip("low:Q", format=".4f"),
                    alt.Tooltip("high:Q", format=".4f"),
                    "queries:Q",
                ],
            )
            .properties(width=WIDTH, height=300)
        )
    if ids != [str(qid) for qid in results[1].query_ids.tolist()]:
        raise ValueError(
            "the two evaluations are of different queries; evaluate both on the same data."
        )
    rows = [
        {
            "qid": qid,
            "first": float(first),
            "second": float(second),
            "difference": float(second - first),
        }
        for qid, first, second in zip(ids, *columns, strict=True)
        if math.isfinite(first) and math.isfinite(second)
    ]
    if not rows:
        raise ValueError(
            f"no query has a value of {chosen} in both evaluations; there is nothing to draw."
        )
    extent = [f(row[name] for row in rows for name in ("first", "second")) for f in (min, max)]
    scale = alt.Scale(domain=extent, nice=False, zero=False, padding=8)
    points = (
        alt.Chart(alt.Data(values=rows))
        .mark_point(filled=True, opacity=0.6, size=45, color=_SERIES[0])
        .encode(
            x=alt.X("first:Q", title=f"{chosen} of {labels[0]}", scale=scale),
            y=alt.Y("second:Q", title=f"{chosen} of {labels[1]}", scale=scale),
            tooltip=[
                alt.Tooltip("qid:N", title="query"),
                alt.Tooltip("first:Q", title=labels[0], format=".4f"),
                alt.Tooltip("second:Q", title=labels[1], format=".4f"),
                alt.Tooltip("difference:Q", format="+.4f"),
            ],
        )
    )
    ends = [{"first": value, "second": value} for value in extent]
    diagonal = (
        alt.Chart(alt.Data(values=ends))
        .mark_line(color=FAINT, strokeDash=[4, 4])
        .encode(x=alt.X("first:Q", scale=scale), y=alt.Y("second:Q", scale=scale))
    )
    return alt.layer(diagonal, points).properties(width=360, height=360)


def _curves_of(model: Any) -> dict[str, _Curves]:
    """Curves by the name of the data, those of a run or those of a fitted Ranker."""
    if hasattr(model, "evals_result_"):
        sets: Mapping[str, _Curves] = model.evals_result_
        return dict(sets)
    if not hasattr(model, "history"):
        raise ValueError(
            f"plot_curves draws fitted Rankers and runs; got a {type(model).__name__}."
        )
    curves: dict[str, _Curves] = {}
    for row in model.history:
        for part in ("valid", "train"):
            for name, value in row.get(part, {}).items():
                curves.setdefault(part, {}).setdefault(name, []).append(
                    math.nan if value is None else value
                )
    return curves


def _initial_trees(model: Any) -> int:
    return int(model.manifest_.get("initial_trees", 0)) if hasattr(model, "manifest_") else 0


def distinct_names(names: Sequence[str] | None, default: list[str]) -> list[str]:
    """Return the names that the user gave, or the default ones; raise ValueError unless each is given once."""
    chosen = default if names is None else [str(name) for name in names]
    if not default:
        raise ValueError("there is nothing to draw; give at least one.")
    if len(chosen) != len(default) or len(set(chosen)) < len(chosen):
        raise ValueError(
            f"names must be {len(default)} different names, one for each; got {chosen}."
        )
    return chosen


def _one_of(metric: str | None, available: list[str]) -> str:
    if not available:
        raise ValueError(
            "the evaluations have no metric in common; evaluate both by the same metrics."
        )
    chosen = available[0] if metric is None else metric
    if chosen not in available:
        raise ValueError(
            f"there are no values of {chosen!r}; choose one of {', '.join(available)}."
        )
    return chosen


def colour_of(alt: Any, field: str, names: list[str]) -> Any:
    """Give each name a colour of the series; a single one needs no legend."""
    legend = alt.Legend(orient="top", title=None) if len(names) > 1 else None
    return alt.Color(
        f"{field}:N", legend=legend, scale=alt.Scale(domain=names, range=_palette(names))
    )


def _palette(names: Sequence[str]) -> list[str]:
    return [_SERIES[i % len(_SERIES)] for i in range(len(names))]
