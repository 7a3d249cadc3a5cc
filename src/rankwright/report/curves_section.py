"""The section of a report on runs that shows their learning curves and learning rates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwright.report.page import Block, Figure, Text, require
from rankwright.report.scored_runs import direction, distinct_names, run_colours
from rankwright.training.stopping import stopping_sentence

if TYPE_CHECKING:
    from rankwright.runs import Run

_CURVE_POINTS = 4000  # in all learning curves together


def learning_curves(runs: Sequence[Run]) -> list[Block]:
    """Draw each metric by number of trees, with the best tree, and learning rates that change."""
    names = distinct_names(runs)
    curves: dict[str, dict[tuple[str, str], list[tuple[int, float]]]] = {}
    for name, run in zip(names, runs, strict=True):
        for line in run.history:
            for part in ("train", "valid"):
                for metric, value in line.get(part, {}).items():
                    if value is not None and math.isfinite(value):
                        curve = curves.setdefault(metric, {}).setdefault((name, part), [])
                        curve.append((line["iteration"], value))
    if not curves:
        return [Text("The runs recorded no metrics during training.")]
    at_most = max(2, _CURVE_POINTS // sum(map(len, curves.values())))
    texts = [
        Text(
            f"{name}: {stopping_sentence(run.ranker.stopping_, refit='refit' in run.ranker.manifest_)}"
        )
        for name, run in zip(names, runs, strict=True)
        if run.ranker.stopping_ is not None
    ]
    charts = [_curves(metric, parts, names, at_most) for metric, parts in curves.items()]
    return [*texts, *charts, *_learning_rates(runs)]


def _curves(
    metric: str,
    parts: Mapping[tuple[str, str], Sequence[tuple[int, float]]],
    names: Sequence[str],
    at_most: int,
) -> Figure:
    alt = require("altair")
    values = [
        {
            "i": iteration,
            "v": round(value, 6),
            "r": name,
            "s": "training" if part == "train" else "validation",
        }
        for (name, part), curve in parts.items()
        for iteration, value in _thin(curve, at_most)
    ]
    marks = _best_trees(metric, parts)
    values += marks  # in one data set with the curves, which would be on the page twice otherwise
    base = alt.Chart(alt.Data(values=values)).encode(
        x=alt.X("i:Q", title="trees", scale=alt.Scale(nice=False)),
        y=alt.Y("v:Q", title=metric, scale=alt.Scale(zero=False)),
        color=run_colours(names),
    )
    near = alt.selection_point(
        nearest=True, on="pointerover", clear="pointerout", fields=["i"], empty=False
    )
    lines = base.mark_line(strokeWidth=2).encode(
        strokeDash=alt.StrokeDash(
            "s:N",
            title=None,
            scale=alt.Scale(domain=["validation", "training"], range=[[1, 0], [3, 3]]),
        )
    )
    points = (
        base.mark_point(filled=True, size=60)
        .encode(
            opacity=alt.condition(near, alt.value(1), alt.value(0)),
            tooltip=[
                alt.Tooltip("r:N", title="run"),
                alt.Tooltip("s:N", title="data"),
                alt.Tooltip("i:Q", title="trees"),
                alt.Tooltip("v:Q", title=metric, format=".4f"),
            ],
        )
        .add_params(near)
    )
    ends = "; ".join(
        f"{name} {'training' if part == 'train' else 'validation'} {curve[-1][1]:.4f} after {curve[-1][0]}"
        for (name, part), curve in parts.items()
    )
    best = (
        base.transform_filter("isValid(datum.b)")
        .mark_point(shape="diamond", filled=True, size=110, opacity=1)
        .encode(
            tooltip=[
                alt.Tooltip("r:N", title="best tree of"),
                alt.Tooltip("i:Q", title="trees"),
                alt.Tooltip("v:Q", title=metric, format=".4f"),
            ]
        )
    )
    where = "".join(
        f" Best on validation: {mark['r']} {mark['v']:.4f} after {mark['i']} (diamond)."
        for mark in marks
    )
    chart = alt.layer(lines, points, best).properties(height=300)
    return Figure(metric, chart, f"{metric} by number of trees. {ends}.{where}")


def _best_trees(
    metric: str, parts: Mapping[tuple[str, str], Sequence[tuple[int, float]]]
) -> list[dict[str, Any]]:
    """Return the best point of each validation curve."""
    sign = direction(metric)
    marks = []
    for (name, part), curve in parts.items():
        if part == "valid" and sign:
            iteration, value = max(curve, key=lambda point: (sign * point[1], -point[0]))
            marks.append(
                {"i": iteration, "v": round(value, 6), "r": name, "s": "validation", "b": 1}
            )
    return marks


def _learning_rates(runs: Sequence[Run]) -> list[Block]:
    """Draw the learning rate of each tree, where it changes."""
    alt = require("altair")
    names = distinct_names(runs)
    rates = {
        name: list(map(float, run.ranker.learning_rates_))
        for name, run in zip(names, runs, strict=True)
    }
    if all(len(set(values)) < 2 for values in rates.values()):
        return []
    at_most = max(2, _CURVE_POINTS // len(rates))
    values = [
        {"i": tree, "v": round(rate, 8), "r": name}
        for name, curve in rates.items()
        for tree, rate in _thin(list(enumerate(curve, start=1)), at_most)
    ]
    chart = (
        alt.Chart(alt.Data(values=values))
        .mark_line(interpolate="step-after", strokeWidth=2)
        .encode(
            x=alt.X("i:Q", title="trees", scale=alt.Scale(nice=False)),
            y=alt.Y("v:Q", title="learning rate", scale=alt.Scale(zero=True)),
            color=run_colours(names),
        )
        .properties(height=160)
    )
    ends = "; ".join(
        f"{name} from {curve[0]:.4g} to {curve[-1]:.4g}" for name, curve in rates.items() if curve
    )
    return [Figure("Learning rate", chart, f"Learning rate of each tree: {ends}.")]


def _thin(curve: Sequence[tuple[int, float]], at_most: int) -> list[tuple[int, float]]:
    indices = np.unique(
        np.linspace(0, len(curve) - 1, min(len(curve), at_most)).round().astype(int)
    )
    return [curve[index] for index in indices]
