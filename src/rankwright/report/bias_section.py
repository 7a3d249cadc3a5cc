"""The section of a report on the position bias that trainings found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rankwright.charts.theme import PAGE
from rankwright.charts.training import position_bias_chart
from rankwright.report.page import Figure, Section, Text
from rankwright.report.scored_runs import distinct_names

if TYPE_CHECKING:
    from rankwright.runs import Run

_TEXT = (
    "How much a document gains or loses, as a score, by its position. The bias was learned "
    "beside the trees, and predictions leave it out. Examination is how likely a position is "
    "looked at, from the click rates of documents that are alike."
)


def bias_sections(runs: Sequence[Run]) -> list[Section]:
    """Return a section with a chart for each bias column; none if no run was trained with ``position``."""
    names = distinct_names(runs)
    biases = {
        name: run.ranker.manifest_.get("position_bias", {})
        for name, run in zip(names, runs, strict=True)
    }
    columns = dict.fromkeys(column for bias in biases.values() for column in bias)
    if not columns:
        return []
    figures = []
    for column in columns:
        for quantity, title in (("values", "Bias"), ("examination", "Examination")):
            stored = [bias[column] for bias in biases.values() if quantity in bias.get(column, {})]
            if not stored:
                continue
            note = "Relative to the most frequent category."
            if all(bias["ordered"] for bias in stored):
                note = "Relative to the first position; the last one stands for all later ones."
            chart = position_bias_chart(biases, column, quantity, PAGE).properties(height=240)
            figures.append(Figure(f"{title} of {column}", chart, note))
    return [Section("Position bias", [Text(_TEXT), *figures])]
