"""The sections of a report on runs that show their models and trainings: features, position bias and time."""

from __future__ import annotations

from collections.abc import Sequence

from rankwright.charts.features import largest_shares
from rankwright.charts.parts import chart_of, label_axis, share_bars, tooltip
from rankwright.charts.theme import PAGE, require
from rankwright.charts.training import position_bias_chart
from rankwright.report.page import Block, Cell, Figure, Section, Table, Text, shortened
from rankwright.report.scored_runs import distinct_names
from rankwright.runs import Run

_FEATURES = 20
_BIAS = (
    "How much a document gains or loses, as a score, by its position. The bias was learned "
    "beside the trees, and predictions leave it out. Examination is how likely a position is "
    "looked at, from the click rates of documents that are alike."
)


def features(runs: Sequence[Run]) -> list[Block]:
    """Return the features with the largest share of the gain, for each run."""
    figures: list[Block] = []
    for number, (name, run) in enumerate(zip(distinct_names(runs), runs, strict=True)):
        ranker = run.ranker
        shares = [
            (shortened(feature, 60), round(share, 5))
            for feature, share in largest_shares(
                ranker.model_.feature_names, ranker.feature_importances_, _FEATURES
            )
        ]
        first = ", ".join(f"{feature} {share:.1%}" for feature, share in shares[:3])
        figures.append(
            Figure(
                f"Features of {name}",
                share_bars(shares, "feature", "share of the gain", PAGE, PAGE.colour(number)),
                f"The {len(shares)} features with the largest share of the gain of all splits; "
                f"the first are {first}.",
            )
        )
    return figures


def times(runs: Sequence[Run]) -> list[Block]:
    """Return the seconds of each phase of training, for each run."""
    alt = require("altair")
    names = distinct_names(runs)
    phases = list(dict.fromkeys(phase for run in runs for phase in run.times))
    if not phases:
        return [Text("The runs recorded no times.")]
    bars = []
    rows: list[list[Cell]] = []
    totals = []
    for name, run in zip(names, runs, strict=True):
        for phase, seconds in run.times.items():
            # Vega would stack the phases by name instead of by time.
            order = phases.index(phase)
            bars.append({"run": name, "phase": phase, "seconds": round(seconds, 4), "order": order})
        cells = [f"{run.times[phase]:.2f}" if phase in run.times else None for phase in phases]
        total = sum(run.times.values())
        rows.append([name, *cells, f"{total:.2f}"])
        totals.append(f"{name} {total:.1f} s")
    colours = alt.Scale(domain=phases, range=list(PAGE.series))
    chart = (
        chart_of(bars)
        .mark_bar(stroke=PAGE.paper, strokeWidth=0.5)
        .encode(
            x=alt.X("seconds:Q", title="seconds"),
            y=alt.Y("run:N", title=None, sort=None, axis=label_axis(PAGE)),
            color=alt.Color("phase:N", title=None, scale=colours),
            order="order:Q",
            tooltip=tooltip(["run", "phase"], {"seconds": ".2f"}),
        )
        .properties(height=36 * len(names))
    )
    text = f"Seconds of each phase of training. Total: {'; '.join(totals)}."
    table = Table("", ["seconds", *phases, "total"], rows)
    return [Figure("Time per phase", chart, text), table]


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
    return [Section("Position bias", [Text(_BIAS), *figures])]
