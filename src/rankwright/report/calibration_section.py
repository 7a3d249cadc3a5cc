"""The section of a report on calibrated runs: reliability curves and calibration errors on the test data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rankwright.calibration import targets_of
from rankwright.charts.evaluations import reliability_chart
from rankwright.charts.theme import PAGE
from rankwright.evaluation.reliability import reliability
from rankwright.report.page import Cell, Figure, Section, Table, Text
from rankwright.report.scored_runs import ScoredRuns

if TYPE_CHECKING:
    from rankwright.runs import Run

_TEXT = (
    "Calibrated values are meant to be expected labels, or probabilities of relevance. The "
    "charts compare them with the labels of the test data: a perfect value is on the diagonal."
)
_NOTE = (
    "Expected calibration error: the mean difference between value and target over bins of equal "
    "numbers of documents; then the largest difference."
)


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
        curve = reliability(values, targets, group=data.group, weights=data.weights)
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
    table = Table("Calibration errors", header, rows, _NOTE)
    return [Section("Calibration", [Text(_TEXT), *figures, table])]
