"""The section of a report on position bias that trainings found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rankwright.report.page import Block, Figure, Section, Text, require
from rankwright.report.scored_runs import distinct_names
from rankwright.report.theme import SERIES

if TYPE_CHECKING:
    from rankwright.runs import Run


def bias_sections(runs: Sequence[Run]) -> list[Section]:
    """One section with a chart for each bias column; none where no run was trained with ``position``."""
    names = distinct_names(runs)
    stored = {
        name: run.ranker.manifest_.get("position_bias", {})
        for name, run in zip(names, runs, strict=True)
    }
    columns = dict.fromkeys(column for biases in stored.values() for column in biases)
    if not columns:
        return []
    text = Text(
        "What a document gains or loses, as a score, by where it was shown. It was learned beside the trees, and "
        "predictions leave it out. Examination is how likely a place is looked at: click rates of documents that are "
        "alike."
    )
    charts = [
        chart
        for column in columns
        for quantity in ("values", "examination")
        if (chart := _chart(column, stored, quantity)) is not None
    ]
    return [Section("Position bias", [text, *charts])]


def _chart(column: str, found: dict[str, dict[str, Any]], quantity: str) -> Block | None:
    alt = require("altair")
    title = "bias" if quantity == "values" else "examination"
    having = {
        name: biases[column] for name, biases in found.items() if quantity in biases.get(column, {})
    }
    if not having:
        return None
    values = [
        {"r": name, "p": level, "b": round(value, 5), "n": documents}
        for name, bias_of in having.items()
        for level, value, documents in zip(
            bias_of["levels"], bias_of[quantity], bias_of["documents"], strict=True
        )
        if value is not None
    ]
    colours = [SERIES[number % len(SERIES)] for number, name in enumerate(found) if name in having]
    base = alt.Chart(alt.Data(values=values)).encode(
        y=alt.Y("b:Q", title=title),
        color=alt.Color(
            "r:N", title=None, sort=None, scale=alt.Scale(domain=list(having), range=colours)
        ),
        tooltip=[
            alt.Tooltip("r:N", title="run"),
            alt.Tooltip("p:N", title=column),
            alt.Tooltip("b:Q", title=title, format=".3f"),
            alt.Tooltip("n:Q", title="documents", format=","),
        ],
    )
    if all(bias_of["ordered"] for bias_of in having.values()):
        chart = base.mark_line(point=True).encode(
            x=alt.X("p:Q", title=column, axis=alt.Axis(tickMinStep=1))
        )
        note = "Relative to the first position; the last stands for all from there on."
    else:
        chart = base.mark_bar(cornerRadiusEnd=2).encode(
            x=alt.X("p:N", title=column, sort=None), xOffset="r:N"
        )
        note = "Relative to the most frequent category."
    return Figure(f"{title.capitalize()} of {column}", chart.properties(height=240), note)
