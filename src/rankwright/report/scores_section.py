"""The sections of a report on runs about their scores: distributions, ties and calibration."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rankwright.calibration import targets_of
from rankwright.charts.evaluations import reliability_chart
from rankwright.charts.parts import chart_of, tooltip
from rankwright.charts.theme import PAGE, require
from rankwright.evaluation.reliability import reliability
from rankwright.report.page import Block, Cell, Figure, Section, Table, Text
from rankwright.report.scored_runs import TOP, ScoredRuns, count_ties
from rankwright.runs import Run

_BINS = 24
_LABELS = 6  # with more labels, scores are shown by relevance only
_DASHES = [[1, 0], [6, 2], [2, 2], [8, 3, 2, 3], [1, 3], [10, 4]]
_CALIBRATION = (
    "Calibrated values are meant to be expected labels, or probabilities of relevance. The "
    "charts compare them with the labels of the test data: a perfect value is on the diagonal."
)
_ERRORS = (
    "Expected calibration error: the mean difference between value and target over bins of equal "
    "numbers of documents; then the largest difference."
)


def scores(scored: ScoredRuns) -> list[Block]:
    """Return the distribution of each run's scores, and a table of ties."""
    figures = [_distribution(scored, run) for run in range(len(scored.names))]
    return [*figures, _ties(scored)]


def _ties(scored: ScoredRuns) -> Table:
    policies = ("worst", "expected", "best")
    rows: list[list[Cell]] = []
    for run, name in enumerate(scored.names):
        ties = count_ties(scored.data, scored.scores[run])
        n_pairs = max(1, ties.pairs)
        row: list[Cell] = [
            name,
            f"{ties.tied / n_pairs:.2%}",
            f"{ties.tied_across_labels / n_pairs:.2%}",
            f"{ties.queries_at_top:,} of {scored.data.n_queries:,}",
        ]
        rows.append([*row, *(scored.mean_with_ties(run, policy) for policy in policies)])
    metric = scored.metrics[0]
    columns = ["run", "tied pairs", "of different label", f"queries tied in top {TOP}"]
    columns += [f"{metric}, {policy}" for policy in policies]
    note = (
        "Tied pairs: pairs of documents of a query with equal scores, as a share of all pairs. "
        f"If the last columns differ, {metric} depends on how ties are broken: worst order, "
        "expected value, best order."
    )
    return Table("Ties", columns, rows, note)


def _distribution(scored: ScoredRuns, run: int) -> Figure:
    """Draw the distribution of a run's scores for each label."""
    alt = require("altair")
    name, values, labels = scored.names[run], scored.scores[run], scored.data.y
    distinct = np.unique(labels)
    if len(distinct) <= _LABELS:
        parts = {f"label {label:g}": labels == label for label in distinct}
    else:
        parts = {"not relevant": labels == 0, "relevant": labels > 0}
    low, high = float(values.min()), float(values.max())
    # If all scores are equal, the histogram still needs a width.
    edges = np.linspace(low, high if high > low else low + 1, _BINS + 1)
    middles = [float(f"{middle:.4g}") for middle in (edges[:-1] + edges[1:]) / 2]
    rows = []
    for part, members in parts.items():
        if members.any():
            # Shares within the label, because most documents have label 0.
            shares = np.histogram(values[members], edges)[0] / members.sum()
            for middle, share in zip(middles, shares, strict=True):
                rows.append({"documents": part, "score": middle, "share": round(float(share), 5)})
    colours = alt.Scale(domain=list(parts), range=list(PAGE.series))
    dashes = alt.Scale(domain=list(parts), range=_DASHES)
    chart = (
        chart_of(rows)
        .mark_line(interpolate="monotone", strokeWidth=2)
        .encode(
            x=alt.X("score:Q", title="score"),
            y=alt.Y("share:Q", title="share of documents", axis=alt.Axis(format="%")),
            color=alt.Color("documents:N", title=None, sort=None, scale=colours),
            strokeDash=alt.StrokeDash("documents:N", title=None, sort=None, scale=dashes),
            tooltip=tooltip(["documents"], {"score": ".4f", "share": ".2%"}),
        )
        .properties(height=260)
    )
    text = f"Distribution of the scores of {name} for each label, from {low:.4g} to {high:.4g}."
    return Figure(f"Scores of {name}", chart, text)


def calibration_section(scored: ScoredRuns, runs: Mapping[int, Run]) -> list[Section]:
    """Return the section, or an empty list if no run is calibrated.

    ``runs`` are the scored systems with a model, by number.
    """
    data = scored.data
    rows: list[list[Cell]] = []
    figures: list[Figure] = []
    for number, run in runs.items():
        name = scored.names[number]
        calibration = run.ranker.calibration_
        if calibration is None:
            continue
        values = calibration(scored.scores[number])
        targets = targets_of(data.y, calibration.target, calibration.threshold)
        curve = reliability(values, targets, group=data.group, sample_weight=data.weights)
        rows.append([name, calibration.describe(), curve.error, curve.largest])
        target = "mean label"
        if calibration.target == "relevance":
            target = "share of relevant documents"
        chart = reliability_chart({name: curve}, target, PAGE, first=number)
        description = (
            f"The {target} of documents by their calibrated value, in {len(curve.predicted)} bins "
            f"with 95% intervals; {curve}."
        )
        figures.append(Figure(f"Reliability of {name}", chart.properties(height=320), description))
    if not rows:
        return []
    header = ["run", "values", "expected error", "largest"]
    table = Table("Calibration errors", header, rows, _ERRORS)
    return [Section("Calibration", [Text(_CALIBRATION), *figures, table])]
