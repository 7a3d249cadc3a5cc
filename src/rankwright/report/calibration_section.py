"""The section of a report on calibrated runs: reliability curves and calibration errors on the test data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rankwright.calibration import targets_of
from rankwright.evaluation.reliability import Reliability, reliability
from rankwright.report.page import Block, Cell, Figure, Section, Table, Text, require
from rankwright.report.scored_runs import ScoredRuns
from rankwright.report.theme import SERIES

if TYPE_CHECKING:
    from rankwright.runs import Run


def calibration_section(scored: ScoredRuns, runs: Sequence[Run]) -> list[Section]:
    """Return the section, or nothing if no run is calibrated."""
    data, rows, figures = scored.data, [], []
    for number, (name, run) in enumerate(zip(scored.names, runs, strict=True)):
        calibration = run.ranker.calibration_
        if calibration is None:
            continue
        targets = targets_of(data.y, calibration.target, calibration.threshold)
        curve = reliability(
            calibration(scored.scores[number]), targets, group=data.group, weights=data.weights
        )
        cells: list[Cell] = [name, calibration.describe(), curve.error, curve.largest]
        rows.append(cells)
        figures.append(_curve(name, curve, calibration.target, SERIES[number % len(SERIES)]))
    if not rows:
        return []
    text = Text(
        "Calibrated values claim to be expected labels, or probabilities of relevance. Here they are compared with the "
        "labels of the test data: on the diagonal they are what they claim to be."
    )
    note = (
        "Expected calibration error: the mean difference between value and target over bins of equal numbers of "
        "documents; then the largest."
    )
    table = Table("Calibration errors", ["run", "values", "expected error", "largest"], rows, note)
    blocks: list[Block] = [text, *figures, table]
    return [Section("Calibration", blocks)]


def _curve(name: str, curve: Reliability, target: str, colour: str) -> Figure:
    alt = require("altair")
    values: list[dict[str, Any]] = [
        {"p": float(p), "o": float(o), "l": float(low), "h": float(high), "n": int(n)}
        for p, o, low, high, n in zip(*curve._columns().values(), strict=True)
    ]
    observed = "mean label" if target == "label" else "share of relevant documents"
    ends = [f(point[key] for point in values for key in ("p", "o")) for f in (min, max)]
    x = alt.X("p:Q", title="mean calibrated value", scale=alt.Scale(zero=False, padding=8))
    base = alt.Chart(alt.Data(values=values)).encode(x=x)
    diagonal = (
        alt.Chart(alt.Data(values=[{"p": end, "o": end} for end in ends]))
        .mark_line(color="var(--faint)", strokeDash=[4, 4], strokeWidth=1)
        .encode(x=x, y="o:Q")
    )
    tooltip = [
        alt.Tooltip("p:Q", title="mean value", format=".4f"),
        alt.Tooltip("o:Q", title=observed, format=".4f"),
        alt.Tooltip("l:Q", title="from", format=".4f"),
        alt.Tooltip("h:Q", title="to", format=".4f"),
        alt.Tooltip("n:Q", title="documents"),
    ]
    y = alt.Y("l:Q", title=observed, scale=alt.Scale(zero=False))
    intervals = base.mark_rule(strokeWidth=3, opacity=0.45, color=colour).encode(y=y, y2="h:Q")
    points = base.mark_point(filled=True, size=60, opacity=1, color=colour).encode(
        y="o:Q", tooltip=tooltip
    )
    return Figure(
        f"Reliability of {name}",
        alt.layer(diagonal, intervals, points).properties(height=320),
        f"The {observed} of documents by their calibrated value, in {len(values)} bins with 95% intervals; {curve}.",
    )
