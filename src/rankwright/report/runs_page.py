"""The report page on runs: its sections, tables and charts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rankwright.data.dataset import RankingData
from rankwright.evaluation.comparison import Comparison, compare
from rankwright.metrics import Metric
from rankwright.report.bias_section import bias_sections
from rankwright.report.calibration_section import calibration_section
from rankwright.report.curves_section import learning_curves
from rankwright.report.explorer import QueryExplorer
from rankwright.report.manifest_section import manifest_tables
from rankwright.report.page import (
    Block,
    Cell,
    Figure,
    Page,
    Section,
    Table,
    Text,
    require,
    shortened,
)
from rankwright.report.reasons import reasons_section
from rankwright.report.scored_runs import (
    TOP,
    ScoredRuns,
    count_ties,
    direction,
    distinct_names,
    groups_of,
    mean_interval,
    run_colours,
)
from rankwright.report.theme import SERIES

if TYPE_CHECKING:
    from rankwright.runs import Run

_FEATURES = 20
_SCORE_BINS = 24
_LABELS = 6  # with more labels, scores are shown by relevance only


def run_report(
    runs: Sequence[Run],
    data: RankingData,
    *,
    metrics: str | Metric | Iterable[str | Metric] | None = None,
    title: str | None = None,
    data_name: str = "test data",
) -> Page:
    """Report on one or more runs on test data; the first run is the baseline of the others.

    Parameters
    ----------
    runs
        Runs, as `Run.open` returns them.
    data
        Test data with the columns of the runs' training data.
    metrics
        Metrics; queries are compared by the first. By default those of the runs' training.
    title
        Title of the page; by default the names of the runs.
    data_name
        Name of the data on the page.

    Examples
    --------
    >>> import tempfile
    >>> from rankwright import make_web_search
    >>> from rankwright.runs import train_run
    >>> train, test = make_web_search(30, seed=1).split(0.3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = train_run(f"{folder}/first", train, parameters={"n_estimators": 3, "n_jobs": 1}, verbose=0)
    ...     page = run_report([run], test)
    >>> page.title, [section.title for section in page.sections][:2]
    ('first', ['Overview', 'Learning curves'])
    """
    if not runs:
        raise ValueError("a report needs at least one run.")
    scored = ScoredRuns.of(runs, data, metrics)
    if not len(scored.counted):
        raise ValueError(
            f"no query of {data_name} has a relevant document, so {scored.metrics[0]} has no value; check the labels."
        )
    sections = [
        Section("Overview", _overview(scored, data_name)),
        Section("Learning curves", learning_curves(runs)),
        Section("Query by query", _queries(scored)),
        *reasons_section(scored, runs),
        Section("Kinds of queries", _kinds(scored)),
        Section("Scores and ties", _scores(scored)),
        *calibration_section(scored, runs),
        Section("Features", _importances(runs)),
        *bias_sections(runs),
        Section("Time", _times(runs)),
        Section("Manifest", manifest_tables(runs, data)),
    ]
    names = scored.names
    shown = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    return Page(
        title or (shown if len(names) < 4 else f"{len(names)} runs"), sections, f"on {data_name}"
    )


def _overview(scored: ScoredRuns, data_name: str) -> list[Block]:
    data, names = scored.data, scored.names
    text = f"Evaluated on {data_name}: {data.n_rows:,} documents in {data.n_queries:,} queries."
    if len(scored.counted) < data.n_queries:
        text += f" {len(scored.counted):,} queries have a relevant document and count for {scored.metrics[0]}."
    text += " Documents of equal score are ranked in the worst order."
    if len(names) == 1:
        return [Text(text), _means(scored, None)]
    comparison = compare(*scored.evaluations, names=names)
    return [
        Text(_headline(scored, comparison)),
        Text(text),
        _means(scored, comparison),
        _differences(scored, comparison),
        _tests(scored, comparison),
    ]


def _headline(scored: ScoredRuns, comparison: Comparison) -> str:
    """Say who is best, by how much, and whether that may be chance."""
    metric, names = scored.metrics[0], scored.names
    means = [evaluation.mean[metric] for evaluation in scored.evaluations]
    order = sorted(range(len(names)), key=lambda number: -scored.better * means[number])
    best = order[0]
    head = f"{names[best]} is best: {metric} {means[best]:.4f}"
    if best == 0:
        second = order[1]
        row = next(
            row for row in comparison.rows if (row.metric, row.system) == (metric, names[second])
        )
        head += f", {abs(row.difference):.4f} {'above' if scored.better > 0 else 'below'} {names[second]}, the next"
    else:
        row = next(
            row for row in comparison.rows if (row.metric, row.system) == (metric, names[best])
        )
        head += f", {row.difference:+.4f} against {comparison.baseline}"
    p = "p < 0.0001" if row.p_adjusted < 0.0001 else f"p = {row.p_adjusted:.4f}"
    return f"{head} ({p}{'' if row.significant else ', which may be chance'})."


def _best_cells(scored: ScoredRuns) -> list[tuple[int, int]]:
    """Cells of the table of means that hold the best value of a metric."""
    cells = []
    for column, metric in enumerate(scored.metrics, start=1):
        means = [direction(metric) * evaluation.mean[metric] for evaluation in scored.evaluations]
        cells += [
            (row, column) for row, mean in enumerate(means) if mean == max(means) > min(means)
        ]
    return cells


def _means(scored: ScoredRuns, comparison: Comparison | None) -> Table:
    significant = (
        {(row.metric, row.system) for row in comparison.rows if row.significant}
        if comparison
        else set()
    )
    rows: list[list[Cell]] = []
    for name, evaluation in zip(scored.names, scored.evaluations, strict=True):
        cells: list[Cell] = [name]
        for metric in scored.metrics:
            values = evaluation.per_query[metric]
            cell = f"{evaluation.mean[metric]:.4f}"
            if evaluation.weights is None:
                _, low, high = mean_interval(values[~np.isnan(values)])
                cell += f" [{low:.4f}, {high:.4f}]"
            cells.append(cell + ("*" if (metric, name) in significant else ""))
        rows.append(cells)
    note = "Mean over queries" + (
        ", weighted." if scored.data.weights is not None else " and 95% interval."
    )
    if comparison is not None:
        note += f" * differs significantly from the baseline, {comparison.baseline}; see the tests below."
    return Table("Means", ["run", *scored.metrics], rows, note, _best_cells(scored))


def _tests(scored: ScoredRuns, comparison: Comparison) -> Table:
    rows: list[list[Cell]] = [
        [
            row.metric,
            row.system,
            f"{row.difference:+.4f}",
            f"[{row.low:+.4f}, {row.high:+.4f}]",
            f"{row.effect_size:+.3f}",
            f"{row.wins}/{row.ties}/{row.losses}",
            ("<0.0001" if row.p_adjusted < 0.0001 else f"{row.p_adjusted:.4f}")
            + ("*" if row.significant else ""),
        ]
        for row in comparison.rows
    ]
    correction = ", Holm's correction over the runs" if len(scored.names) > 2 else ""
    return Table(
        f"Against {comparison.baseline}",
        ["metric", "run", "difference", "95% interval", "effect", "larger/same/smaller", "p"],
        rows,
        f"* p ≤ 0.05: Fisher's randomisation test over {comparison.rows[0].n_queries:,} queries, two-sided"
        f"{correction}. Intervals are bootstrapped. Effect: Cohen's d of the differences.",
    )


def _differences(scored: ScoredRuns, comparison: Comparison) -> Figure:
    alt = require("altair")
    values = [
        {
            "m": row.metric,
            "s": row.system,
            "d": row.difference,
            "l": row.low,
            "h": row.high,
            "p": row.p_adjusted,
        }
        for row in comparison.rows
    ]
    base = alt.Chart(alt.Data(values=values)).encode(
        y=alt.Y("m:N", title=None, sort=None, axis=alt.Axis(grid=False, ticks=False, domain=False)),
        yOffset=alt.YOffset("s:N", sort=None),
        color=run_colours(scored.names, without_first=True),
        tooltip=[
            alt.Tooltip("s:N", title="run"),
            alt.Tooltip("m:N", title="metric"),
            alt.Tooltip("d:Q", title="difference", format="+.4f"),
            alt.Tooltip("l:Q", title="from", format="+.4f"),
            alt.Tooltip("h:Q", title="to", format="+.4f"),
            alt.Tooltip("p:Q", title="p", format=".4f"),
        ],
    )
    x = alt.X("l:Q", title=f"difference to {comparison.baseline}", scale=alt.Scale(zero=True))
    zero = (
        alt.Chart(alt.Data(values=[{"x": 0}]))
        .mark_rule(color="var(--faint)", strokeDash=[4, 4])
        .encode(x="x:Q")
    )
    intervals = base.mark_rule(strokeWidth=3, opacity=0.45, strokeCap="round").encode(x=x, x2="h:Q")
    means = base.mark_point(filled=True, opacity=1, size=90).encode(x="d:Q")
    lines = len(scored.metrics) * max(2, len(scored.names) - 1)
    return Figure(
        f"Differences to {comparison.baseline}",
        alt.layer(zero, intervals, means).properties(height=max(110, 24 * lines)),
        f"Mean difference to {comparison.baseline} with its 95% interval, for each metric and run; the table below "
        "has the numbers.",
    )


def _queries(scored: ScoredRuns) -> list[Block]:
    if len(scored.names) > 1:
        return [QueryExplorer(scored)]
    alt = require("altair")
    metric, values = scored.metrics[0], scored.values[0]
    counts, edges = np.histogram(values, bins=25)
    bars = [
        {"l": float(low), "h": float(high), "c": int(count)}
        for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True)
    ]
    chart = (
        alt.Chart(alt.Data(values=bars))
        .mark_bar(stroke="var(--paper)", strokeWidth=0.5)
        .encode(
            x=alt.X("l:Q", title=metric, bin="binned"),
            x2="h:Q",
            y=alt.Y("c:Q", title="queries", axis=alt.Axis(tickMinStep=1)),
            tooltip=[
                alt.Tooltip("l:Q", title="from", format=".4f"),
                alt.Tooltip("h:Q", title="to", format=".4f"),
                alt.Tooltip("c:Q", title="queries"),
            ],
        )
        .properties(height=300)
    )
    numbers = scored.counted[np.argsort(scored.better * values, kind="stable")[:_FEATURES]]
    per_query, relevant = scored.evaluations[0].per_query[metric], scored.relevant
    rows: list[list[Cell]] = [
        [
            str(scored.data.query_ids[q]),
            float(per_query[q]),
            int(scored.data.group[q]),
            int(relevant[q]),
        ]
        for q in numbers
    ]
    return [
        Figure(
            f"{metric} of the queries",
            chart,
            f"Histogram of {metric} over {len(values):,} queries.",
        ),
        Table("Worst queries", ["query", metric, "documents", "relevant"], rows),
    ]


def _kinds(scored: ScoredRuns) -> list[Block]:
    sizes, relevant = scored.data.group[scored.counted], scored.relevant[scored.counted]
    return [
        _by_group(scored, sizes, "documents in the query"),
        _by_group(scored, relevant, "relevant documents"),
    ]


def _by_group(scored: ScoredRuns, counts: NDArray[np.int64], what: str) -> Block:
    alt = require("altair")
    metric, groups = scored.metrics[0], groups_of(counts)
    if len(groups) == 1 and counts.min() == counts.max():
        return Text(
            f"All queries have the same number of {what.removesuffix(' in the query')}: {counts[0]:,}."
        )
    values = []
    for text, members in groups:
        for run, name in enumerate(scored.names):
            mean, low, high = mean_interval(scored.values[run, members])
            values.append({"g": text, "r": name, "v": mean, "l": low, "h": high, "n": len(members)})
    base = alt.Chart(alt.Data(values=values)).encode(
        x=alt.X(
            "g:N", title=what, sort=None, axis=alt.Axis(labelAngle=0, grid=False, labelOverlap=True)
        ),
        xOffset=alt.XOffset("r:N", sort=None),
        color=run_colours(scored.names),
        tooltip=[
            alt.Tooltip("r:N", title="run"),
            alt.Tooltip("g:N", title=what),
            alt.Tooltip("n:Q", title="queries"),
            alt.Tooltip("v:Q", title=metric, format=".4f"),
            alt.Tooltip("l:Q", title="from", format=".4f"),
            alt.Tooltip("h:Q", title="to", format=".4f"),
        ],
    )
    y = alt.Y("l:Q", title=metric, scale=alt.Scale(zero=False))
    intervals = base.mark_rule(strokeWidth=3, opacity=0.45, strokeCap="round").encode(y=y, y2="h:Q")
    means = base.mark_point(filled=True, opacity=1, size=70).encode(y="v:Q")
    return Figure(
        f"{metric} by number of {what}",
        alt.layer(intervals, means).properties(height=280),
        f"Mean of {metric} with its 95% interval for queries with {', '.join(text for text, _ in groups)} {what}.",
    )


def _scores(scored: ScoredRuns) -> list[Block]:
    policies = ("worst", "expected", "best")
    rows: list[list[Cell]] = []
    for run, name in enumerate(scored.names):
        ties = count_ties(scored.data, scored.scores[run])
        rows.append(
            [
                name,
                f"{ties.tied / max(1, ties.pairs):.2%}",
                f"{ties.tied_across_labels / max(1, ties.pairs):.2%}",
                f"{ties.queries_at_top:,} of {scored.data.n_queries:,}",
                *(scored.mean_with_ties(run, policy) for policy in policies),
            ]
        )
    metric = scored.metrics[0]
    columns = ["run", "tied pairs", "of different label", f"queries tied in top {TOP}"]
    columns += [f"{metric}, {policy}" for policy in policies]
    note = (
        "Tied pairs: pairs of documents of a query with equal scores, as a share of all pairs. If the last columns "
        f"differ, {metric} depends on how ties are broken: worst order, expected value, best order."
    )
    figures = [_score_distribution(scored, run) for run in range(len(scored.names))]
    return [*figures, Table("Ties", columns, rows, note)]


def _score_distribution(scored: ScoredRuns, run: int) -> Figure:
    alt = require("altair")
    scores, labels = scored.scores[run], scored.data.y
    distinct = np.unique(labels)
    if len(distinct) <= _LABELS:
        parts = {f"label {label:g}": labels == label for label in distinct}
    else:
        parts = {"not relevant": labels == 0, "relevant": labels > 0}
    low, high = float(scores.min()), float(scores.max())
    edges = np.linspace(low, high if high > low else low + 1, _SCORE_BINS + 1)
    values = []
    for part, members in parts.items():
        if members.any():
            shares = np.histogram(scores[members], edges)[0] / members.sum()
            values += [
                {"x": float(f"{left:.4g}"), "s": round(float(share), 5), "p": part}
                for left, share in zip((edges[:-1] + edges[1:]) / 2, shares, strict=True)
            ]
    chart = (
        alt.Chart(alt.Data(values=values))
        .mark_line(interpolate="monotone", strokeWidth=2)
        .encode(
            x=alt.X("x:Q", title="score"),
            y=alt.Y("s:Q", title="share of documents", axis=alt.Axis(format="%")),
            color=alt.Color(
                "p:N", title=None, sort=None, scale=alt.Scale(domain=list(parts), range=SERIES)
            ),
            strokeDash=alt.StrokeDash(
                "p:N",
                title=None,
                sort=None,
                scale=alt.Scale(
                    domain=list(parts),
                    range=[[1, 0], [6, 2], [2, 2], [8, 3, 2, 3], [1, 3], [10, 4]],
                ),
            ),
            tooltip=[
                alt.Tooltip("p:N", title="documents"),
                alt.Tooltip("x:Q", title="score", format=".4f"),
                alt.Tooltip("s:Q", title="share", format=".2%"),
            ],
        )
        .properties(height=260)
    )
    return Figure(
        f"Scores of {scored.names[run]}",
        chart,
        f"Distribution of the scores of {scored.names[run]} for each label, from {low:.4g} to {high:.4g}.",
    )


def _importances(runs: Sequence[Run]) -> list[Block]:
    return [
        _importance(name, run, SERIES[number % len(SERIES)])
        for number, (name, run) in enumerate(zip(distinct_names(runs), runs, strict=True))
    ]


def _importance(name: str, run: Run, colour: str) -> Figure:
    alt = require("altair")
    features, shares = run.ranker.model_.feature_names, run.ranker.feature_importances_
    top = np.argsort(-shares, kind="stable")[:_FEATURES]
    values = [
        {"f": shortened(features[place], 60), "s": round(float(shares[place]), 5)} for place in top
    ]
    chart = (
        alt.Chart(alt.Data(values=values))
        .mark_bar(cornerRadiusEnd=2, color=colour)
        .encode(
            x=alt.X("s:Q", title="share of the split gain", axis=alt.Axis(format="%")),
            y=alt.Y(
                "f:N", title=None, sort=None, axis=alt.Axis(grid=False, ticks=False, domain=False)
            ),
            tooltip=[
                alt.Tooltip("f:N", title="feature"),
                alt.Tooltip("s:Q", title="share", format=".2%"),
            ],
        )
        .properties(height=20 * len(values))
    )
    first = ", ".join(f"{value['f']} {value['s']:.1%}" for value in values[:3])
    return Figure(
        f"Features of {name}",
        chart,
        f"The {len(values)} features with the largest share of the gain of all splits; the first are {first}.",
    )


def _times(runs: Sequence[Run]) -> list[Block]:
    alt = require("altair")
    names = distinct_names(runs)
    phases = list(dict.fromkeys(phase for run in runs for phase in run.times))
    if not phases:
        return [Text("The runs recorded no times.")]
    values = [
        {"r": name, "p": phase, "s": round(seconds, 4), "o": phases.index(phase)}
        for name, run in zip(names, runs, strict=True)
        for phase, seconds in run.times.items()
    ]
    chart = (
        alt.Chart(alt.Data(values=values))
        .mark_bar(stroke="var(--paper)", strokeWidth=0.5)
        .encode(
            x=alt.X("s:Q", title="seconds"),
            y=alt.Y(
                "r:N", title=None, sort=None, axis=alt.Axis(grid=False, ticks=False, domain=False)
            ),
            color=alt.Color("p:N", title=None, scale=alt.Scale(domain=phases, range=SERIES)),
            order="o:Q",
            tooltip=[
                alt.Tooltip("r:N", title="run"),
                alt.Tooltip("p:N", title="phase"),
                alt.Tooltip("s:Q", title="seconds", format=".2f"),
            ],
        )
        .properties(height=36 * len(names))
    )
    rows: list[list[Cell]] = [
        [
            name,
            *(f"{run.times[p]:.2f}" if p in run.times else None for p in phases),
            f"{sum(run.times.values()):.2f}",
        ]
        for name, run in zip(names, runs, strict=True)
    ]
    totals = "; ".join(
        f"{name} {sum(run.times.values()):.1f} s" for name, run in zip(names, runs, strict=True)
    )
    return [
        Figure("Time per phase", chart, f"Seconds of each phase of training. Total: {totals}."),
        Table("", ["seconds", *phases, "total"], rows),
    ]
