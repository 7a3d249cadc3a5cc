"""Charts of trainings: learning curves and position bias."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rankwright.charts.parts import (
    chart_of,
    check_choice,
    check_names,
    direction,
    series_colour,
    tooltip,
)
from rankwright.charts.theme import NOTEBOOK, Style, require

if TYPE_CHECKING:
    from rankwright.ranker import Ranker
    from rankwright.runs import Run

# Points (number of trees, value) by the name of the model and the name of the data.
Curves = Mapping[tuple[str, str], Sequence[tuple[int, float]]]
TRAINING_DATA = ("train", "training")  # names of data on which later trees are always better


def plot_curves(
    *models: Ranker | Run, names: Sequence[str] | None = None, metric: str | None = None
) -> Any:
    """Draw learning curves, with a diamond at the best tree on validation data.

    Parameters
    ----------
    models
        Rankers that were trained with an ``eval_set``, or runs.
    names
        Names for the legend; by default the names of the runs, or numbers.
    metric
        Which of the metrics; by default the first.

    Returns
    -------
    altair.Chart
        Trees on the x axis, the metric on the y axis.

    Examples
    --------
    >>> import rankwright as rw
    >>> train, valid = rw.make_web_search(30, random_state=1).split(0.3)
    >>> ranker = rw.Ranker(n_estimators=5, verbose=0).fit(train, eval_set=[valid])
    >>> type(plot_curves(ranker)).__name__
    'LayerChart'
    """
    labels = _labels(models, names)
    values = {label: _values(model) for label, model in zip(labels, models, strict=True)}
    metrics = [name for sets in values.values() for curves in sets.values() for name in curves]
    if not metrics:
        raise ValueError(
            "there are no curves to draw: train with eval_set=, or give a run with validation data."
        )
    metric = check_choice(metric, list(dict.fromkeys(metrics)))
    points: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for label, model in zip(labels, models, strict=True):
        # The curve of a continued model begins after the trees that it started with.
        first = 1 + _initial_trees(model)
        for data, curves in values[label].items():
            points[label, data] = [
                (trees, value)
                for trees, value in enumerate(curves.get(metric, []), start=first)
                if math.isfinite(value)
            ]
    return curves_chart(points, metric, labels, NOTEBOOK).properties(height=300)


def curves_chart(curves: Curves, metric: str, names: Sequence[str], style: Style) -> Any:
    """Draw curves of one metric: colours for models, dashes for data. Values appear under the pointer."""
    alt = require("altair")
    rows = [
        {"model": model, "data": data, "trees": trees, "value": value}
        for (model, data), points in curves.items()
        for trees, value in points
    ]
    # The best points are rows of the same data, because a page would have the rows twice otherwise.
    rows += best_points(curves, metric)
    base = chart_of(rows).encode(
        x=alt.X("trees:Q", title="trees", axis=style.axis(), scale=alt.Scale(nice=False)),
        y=alt.Y("value:Q", title=metric, axis=style.axis(), scale=alt.Scale(zero=False)),
        color=series_colour("model", names, style),
    )
    near = alt.selection_point(
        nearest=True, on="pointerover", clear="pointerout", fields=["trees"], empty=False
    )
    numbers, titles = {"trees": ",", "value": ".4f"}, {"value": metric}
    is_near = alt.condition(near, alt.value(1), alt.value(0))
    # A legend of one kind of data would say nothing new.
    legend = None
    if len({data for _, data in curves}) > 1:
        legend = alt.Legend(orient="top", title=None)
    dashes = alt.StrokeDash("data:N", title=None, sort=None, legend=legend)
    lines = base.mark_line(strokeWidth=2).encode(strokeDash=dashes)
    points = base.mark_point(filled=True, size=60).encode(
        opacity=is_near, tooltip=tooltip(["model", "data"], numbers, titles)
    )
    best = (
        base.transform_filter("datum.best")
        .mark_point(shape="diamond", filled=True, size=110, opacity=1)
        .encode(tooltip=tooltip(["model"], numbers, {**titles, "model": "best tree of"}))
    )
    return alt.layer(lines, points.add_params(near), best).properties(**style.size)


def best_points(curves: Curves, metric: str) -> list[dict[str, Any]]:
    """Return the best point of each curve of validation data, the first of equal ones."""
    sign = direction(metric)
    best: list[dict[str, Any]] = []
    for (model, data), points in curves.items():
        if sign == 0 or data in TRAINING_DATA or not points:
            continue
        # Of equal values the smaller model is better.
        trees, value = max(points, key=lambda point: (sign * point[1], -point[0]))
        best.append({"model": model, "data": data, "trees": trees, "value": value, "best": True})
    return best


def _values(model: Any) -> dict[str, dict[str, list[float]]]:
    """Return the values after each tree, by the name of the data and the metric."""
    if hasattr(model, "evals_result_"):
        return dict(model.evals_result_)
    if not hasattr(model, "history"):
        raise ValueError(
            f"plot_curves draws fitted Rankers and runs; got a {type(model).__name__}."
        )
    values: dict[str, dict[str, list[float]]] = {}
    for line in model.history:
        for data in ("valid", "train"):
            for metric, value in line.get(data, {}).items():
                curve = values.setdefault(data, {}).setdefault(metric, [])
                curve.append(math.nan if value is None else value)
    return values


def _initial_trees(model: Any) -> int:
    if not hasattr(model, "manifest_"):
        return 0
    return int(model.manifest_.get("initial_trees", 0))


def plot_position_bias(
    *models: Ranker | Run,
    names: Sequence[str] | None = None,
    column: str | None = None,
    examination: bool = False,
) -> Any:
    """Draw the position bias that trainings found: scores that a document gains or loses by its position.

    Parameters
    ----------
    models
        Rankers that were trained with ``fit(position=...)``, or runs.
    names
        Names for the legend; by default the names of the runs, or numbers.
    column
        Which of the bias columns; by default the first.
    examination
        Draw how likely positions are examined, ``examination_``, instead.

    Returns
    -------
    altair.Chart
        Positions on the x axis and the bias relative to the first position on the y axis; categories as bars.

    Examples
    --------
    >>> import rankwright as rw
    >>> data = rw.make_web_search(30, kind="short", random_state=1)
    >>> log = rw.simulate_clicks(data, impressions=5).to_data(by="session", examined_only=False)
    >>> ranker = rw.Ranker(n_estimators=5, verbose=0).fit(log, position="position")
    >>> len(plot_position_bias(ranker).data.values)
    10
    """
    labels = _labels(models, names)
    rankers: list[Any] = [getattr(model, "ranker", model) for model in models]
    biases = {
        label: ranker.manifest_.get("position_bias", {})
        for label, ranker in zip(labels, rankers, strict=True)
    }
    columns = list(dict.fromkeys(name for bias in biases.values() for name in bias))
    if not columns:
        raise ValueError("there is no position bias to draw: train with fit(position=...).")
    quantity = "examination" if examination else "values"
    chart = position_bias_chart(biases, check_choice(column, columns), quantity, NOTEBOOK)
    return chart.properties(height=300)


def position_bias_chart(
    biases: Mapping[str, Mapping[str, Any]], column: str, quantity: str, style: Style
) -> Any:
    """Draw one bias column of several models: ``values`` or ``examination``, as the manifests have them."""
    alt = require("altair")
    title = "examination"
    if quantity == "values":
        title = "bias, as a score"
    rows = []
    is_ordered = True
    for model, columns in biases.items():
        bias = columns.get(column, {})
        if quantity not in bias:
            continue
        is_ordered = is_ordered and bias["ordered"]
        parts = (bias["levels"], bias[quantity], bias["documents"])
        for level, value, documents in zip(*parts, strict=True):
            if value is not None:
                rows.append({"model": model, "level": level, "bias": value, "documents": documents})
    titles = {"level": column, "bias": title}
    base = chart_of(rows).encode(
        y=alt.Y("bias:Q", title=title, axis=style.axis()),
        color=series_colour("model", list(biases), style),
        tooltip=tooltip(["model", "level"], {"bias": ".3f", "documents": ","}, titles),
    )
    if is_ordered:
        positions = alt.X(
            "level:Q",
            title=column,
            axis=style.axis(tickMinStep=1),
            scale=alt.Scale(nice=False, zero=False),
        )
        chart = base.mark_line(point=True, strokeWidth=2).encode(x=positions)
    else:
        categories = alt.X("level:N", title=column, sort=None, axis=style.axis(grid=False))
        chart = base.mark_bar(cornerRadiusEnd=2).encode(x=categories, xOffset="model:N")
    return chart.properties(**style.size)


def _labels(models: Sequence[Any], names: Sequence[str] | None) -> list[str]:
    """Return a name for each model: as given, the name of the run, or a number."""
    default = [
        getattr(model, "name", f"model {number}") for number, model in enumerate(models, start=1)
    ]
    return check_names(names, default)
