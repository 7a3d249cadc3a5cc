"""The section of a report on runs that shows their learning curves and learning rates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from rankwright.charts.parts import chart_of, series_colour
from rankwright.charts.theme import PAGE, require
from rankwright.charts.training import best_points, curves_chart
from rankwright.report.page import Block, Figure, Text
from rankwright.report.scored_runs import distinct_names
from rankwright.training.ending import ending_line

if TYPE_CHECKING:
    from rankwright.runs import Run

Points = Sequence[tuple[int, float]]  # number of trees, value
_CURVE_POINTS = 2500  # in all learning curves together
_DATA = {"valid": "validation", "train": "training"}  # names on the page of the parts of a history


def learning_curves(runs: Sequence[Run]) -> list[Block]:
    """Draw each metric by number of trees, with the best tree, and learning rates that change."""
    names = distinct_names(runs)
    blocks: list[Block] = [
        Text(f"{name}: {ending_line(run.ranker.manifest_)}")
        for name, run in zip(names, runs, strict=True)
    ]
    curves = _curves(names, runs)
    if not curves:
        return [Text("The runs recorded no metrics during training.")]
    # All curves share the limit, because it bounds the size of the page.
    at_most = max(2, _CURVE_POINTS // sum(map(len, curves.values())))
    blocks += [_metric_figure(metric, curves[metric], names, at_most) for metric in curves]
    return [*blocks, *_learning_rates(names, runs)]


def _curves(
    names: Sequence[str], runs: Sequence[Run]
) -> dict[str, dict[tuple[str, str], list[tuple[int, float]]]]:
    """Return the finite values of each metric, by run and data."""
    curves: dict[str, dict[tuple[str, str], list[tuple[int, float]]]] = {}
    for name, run in zip(names, runs, strict=True):
        for line in run.history:
            for part, data in _DATA.items():
                for metric, value in line.get(part, {}).items():
                    if value is not None and math.isfinite(value):
                        curve = curves.setdefault(metric, {}).setdefault((name, data), [])
                        curve.append((line["iteration"], round(value, 6)))
    return curves


def _metric_figure(
    metric: str, curves: Mapping[tuple[str, str], Points], names: Sequence[str], at_most: int
) -> Figure:
    best = best_points(curves, metric)
    thinned = {key: _thinned(points, at_most) for key, points in curves.items()}
    # The best tree must stay although its neighbours may be left out.
    for point in best:
        key = (point["model"], point["data"])
        thinned[key] = sorted({*thinned[key], (point["trees"], point["value"])})
    ends = "; ".join(
        f"{name} on {data} data {points[-1][1]:.4f} after {points[-1][0]}"
        for (name, data), points in curves.items()
    )
    marks = "".join(
        f" Best on validation data: {point['model']} {point['value']:.4f} after {point['trees']} "
        "(diamond)."
        for point in best
    )
    chart = curves_chart(thinned, metric, names, PAGE).properties(height=300)
    return Figure(metric, chart, f"{metric} by number of trees. {ends}.{marks}")


def _learning_rates(names: Sequence[str], runs: Sequence[Run]) -> list[Block]:
    """Draw the learning rate of each tree, if any run changes it."""
    alt = require("altair")
    rates = {
        name: list(map(float, run.ranker.learning_rates_))
        for name, run in zip(names, runs, strict=True)
    }
    if all(len(set(values)) < 2 for values in rates.values()):
        return []
    at_most = max(2, _CURVE_POINTS // len(rates))
    rows = [
        {"run": name, "trees": trees, "rate": round(rate, 8)}
        for name, values in rates.items()
        for trees, rate in _thinned(list(enumerate(values, start=1)), at_most)
    ]
    chart = (
        chart_of(rows)
        .mark_line(interpolate="step-after", strokeWidth=2)
        .encode(
            x=alt.X("trees:Q", title="trees", scale=alt.Scale(nice=False)),
            y=alt.Y("rate:Q", title="learning rate", scale=alt.Scale(zero=True)),
            color=series_colour("run", names, PAGE),
        )
        .properties(height=160)
    )
    ends = "; ".join(
        f"{name} from {values[0]:.4g} to {values[-1]:.4g}"
        for name, values in rates.items()
        if values
    )
    return [Figure("Learning rate", chart, f"Learning rate of each tree: {ends}.")]


def _thinned(points: Points, at_most: int) -> list[tuple[int, float]]:
    """Return evenly spaced points, with the first and the last one."""
    places = np.linspace(0, len(points) - 1, min(len(points), at_most)).round().astype(int)
    return [points[place] for place in np.unique(places)]
