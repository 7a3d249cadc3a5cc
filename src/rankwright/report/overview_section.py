"""The section of a report on runs with their means, and their differences to the first run."""

from __future__ import annotations

import numpy as np

from rankwright.charts.evaluations import comparison_chart
from rankwright.charts.parts import direction
from rankwright.charts.theme import PAGE
from rankwright.evaluation.comparison import Comparison, PairedResult, compare
from rankwright.report.page import Block, Cell, Figure, Table, Text
from rankwright.report.scored_runs import ScoredRuns, mean_interval
from rankwright.support.tables import interval_text, p_text


def overview(scored: ScoredRuns, data_name: str) -> list[Block]:
    """Return the means of the runs; with several runs, also the comparison with the first one."""
    data, names = scored.data, scored.names
    text = f"Evaluated on {data_name}: {data.n_rows:,} documents in {data.n_queries:,} queries."
    if len(scored.counted) < data.n_queries:
        text += (
            f" {len(scored.counted):,} queries have a relevant document "
            f"and count for {scored.metrics[0]}."
        )
    text += " Documents of equal score are ranked in the worst order."
    if len(names) == 1:
        return [Text(text), _means(scored, None)]
    comparison = compare(*scored.evaluations, names=names)
    figure = Figure(
        f"Differences to {comparison.baseline}",
        comparison_chart(comparison, PAGE, first=1),
        f"Mean difference to {comparison.baseline} with its 95% interval, for each metric and "
        "run; filled if it is significant. The table below has the numbers.",
    )
    return [
        Text(_headline(scored, comparison)),
        Text(text),
        _means(scored, comparison),
        figure,
        _tests(scored, comparison),
    ]


def _headline(scored: ScoredRuns, comparison: Comparison) -> str:
    """Say which run is best, by how much, and whether the difference may be chance."""
    metric, names = scored.metrics[0], scored.names
    means = [evaluation.mean[metric] for evaluation in scored.evaluations]
    order = sorted(range(len(names)), key=lambda number: -scored.better * means[number])
    best, second = order[:2]
    head = f"{names[best]} is best: {metric} {means[best]:.4f}"
    if best == 0:
        # The baseline itself is best, so we compare it with the next run.
        row = _row(comparison, metric, names[second])
        side = "above" if scored.better > 0 else "below"
        head += f", {abs(row.difference):.4f} {side} {names[second]}, the next"
    else:
        row = _row(comparison, metric, names[best])
        head += f", {row.difference:+.4f} against {comparison.baseline}"
    p = f"p = {p_text(row.p_adjusted)}".replace("= <", "< ")
    if not row.significant:
        p += ", which may be chance"
    return f"{head} ({p})."


def _row(comparison: Comparison, metric: str, system: str) -> PairedResult:
    return next(row for row in comparison.rows if (row.metric, row.system) == (metric, system))


def _means(scored: ScoredRuns, comparison: Comparison | None) -> Table:
    """Tabulate the means; the best mean of each metric is strong."""
    note = "Mean over queries and 95% interval."
    if scored.data.weights is not None:
        note = "Mean over queries, weighted."
    significant = set()
    if comparison is not None:
        significant = {(row.metric, row.system) for row in comparison.rows if row.significant}
        note += (
            f" * differs significantly from the baseline, {comparison.baseline}; "
            "see the tests below."
        )
    rows: list[list[Cell]] = []
    for name, evaluation in zip(scored.names, scored.evaluations, strict=True):
        cells: list[Cell] = [name]
        for metric in scored.metrics:
            cell = f"{evaluation.mean[metric]:.4f}"
            # Student's interval assumes equal weights.
            if evaluation.weights is None:
                values = evaluation.per_query[metric]
                _, low, high = mean_interval(values[~np.isnan(values)])
                cell += f" {interval_text(low, high)}"
            cells.append(f"{cell}*" if (metric, name) in significant else cell)
        rows.append(cells)
    return Table("Means", ["run", *scored.metrics], rows, note, _best_cells(scored))


def _best_cells(scored: ScoredRuns) -> list[tuple[int, int]]:
    """Return the cells of the table of means that hold the best value of a metric."""
    cells = []
    for column, metric in enumerate(scored.metrics, start=1):
        means = [direction(metric) * evaluation.mean[metric] for evaluation in scored.evaluations]
        if max(means) > min(means):
            cells += [(row, column) for row, mean in enumerate(means) if mean == max(means)]
    return cells


def _tests(scored: ScoredRuns, comparison: Comparison) -> Table:
    rows: list[list[Cell]] = []
    for row in comparison.rows:
        p = p_text(row.p_adjusted)
        if row.significant:
            p += "*"
        rows.append(
            [
                row.metric,
                row.system,
                f"{row.difference:+.4f}",
                interval_text(row.low, row.high, "+"),
                f"{row.effect_size:+.3f}",
                f"{row.wins}/{row.ties}/{row.losses}",
                p,
            ]
        )
    correction = ""
    if len(scored.names) > 2:
        correction = ", Holm's correction over the runs"
    header = ["metric", "run", "difference", "95% interval", "effect", "larger/same/smaller", "p"]
    note = (
        f"* p ≤ 0.05: Fisher's randomisation test over {comparison.rows[0].n_queries:,} queries, "
        f"two-sided{correction}. Intervals are bootstrapped. Effect: Cohen's d of the differences."
    )
    return Table(f"Against {comparison.baseline}", header, rows, note)
