"""Diagnostics as sections of a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rankwright.charts.parts import chart_of, tooltip
from rankwright.charts.theme import require
from rankwright.evaluation.changes import GapCurve, QueryChanges
from rankwright.report.page import Block, Cell, Figure, Section, Table, Text
from rankwright_lab.diagnostics.coherency import IncoherencyCurve
from rankwright_lab.diagnostics.directness_by_sigma import DirectnessCurve
from rankwright_lab.diagnostics.directness_gap import DirectnessPair
from rankwright_lab.diagnostics.noise import Estimators


def incoherency_section(curves: Sequence[IncoherencyCurve]) -> Section:
    """Show incoherency along the trees, and the worst queries of the first curve.

    Examples
    --------
    >>> from rankwright import Ranker, make_web_search
    >>> from rankwright_lab.diagnostics import incoherency_curve
    >>> data = make_web_search(20, kind="short", random_state=1)
    >>> ranker = Ranker("lambdamart", "ndcg@5", n_estimators=3, verbose=0, n_jobs=1).fit(data)
    >>> incoherency_section([incoherency_curve(ranker, data)]).title
    'Gradient incoherency'
    """
    cutoff = curves[0].stages[-1].k
    text = (
        "A pair of documents is incoherent if the better one is ranked below the other and is pushed up less: the "
        "gradient then moves the two further apart in the wrong order."
    )
    if cutoff is not None:
        text += (
            f" It is harmful if a document that does not belong in the first {cutoff} is pushed up more than one "
            "that belongs there but is ranked lower."
        )
    rows = [[c.objective, int(c.trees[-1]), *_shares(c)] for c in curves]
    columns = [
        "gradient",
        "trees",
        "queries with incoherent pairs",
        "with harmful pairs",
        "misranked pairs incoherent",
    ]
    blocks: list[Block] = [
        Text(text),
        Figure(
            "Queries with incoherent pairs",
            curves[0].plot(*curves[1:]),
            "Share of the queries with at least one incoherent pair after each number of trees.",
        ),
        Table("After the last tree", columns, rows),
    ]
    worst = curves[0].worst()
    if worst:
        blocks.append(
            Table(
                f"Worst queries of {curves[0].objective}",
                [
                    "query",
                    "stages with harmful pairs",
                    "with incoherent pairs",
                    "mean harmful pairs",
                    "mean incoherent",
                ],
                [
                    [
                        str(row["query"]),
                        f"{row['harmful_stages']} of {row['stages']}",
                        f"{row['incoherent_stages']} of {row['stages']}",
                        f"{row['harmful']:.1f}",
                        f"{row['incoherent']:.1f}",
                    ]
                    for row in worst
                ],
            )
        )
    return Section("Gradient incoherency", blocks)


def directness_section(
    curves: Sequence[DirectnessCurve], pair: DirectnessPair | None = None
) -> Section:
    """Show gaps between metric and surrogate against σ, with theorem 2, and theorem 1 for a pair of models.

    Examples
    --------
    >>> from rankwright_lab.diagnostics import directness_curve
    >>> directness_section([directness_curve([1.0, 0.0], [0, 1], group=[2], sigmas=[0.1])]).title
    'Directness'
    """
    blocks: list[Block] = [
        Text(
            "Objectives that smooth the metric optimise a surrogate. The gap is how far it is from the metric at the "
            "model's scores; σ is the strength of the smoothing. Equal scores keep a gap however small σ is, since the "
            "metric ranks them in the worst order; for StochasticRank a large μ removes it."
        )
    ]
    for curve in curves:
        bounded = any(point.bounded for point in curve.points)
        columns = ["σ", "μ", "mean gap", "largest gap", "bias", "standard error of the bias"]
        columns += ["queries under theorem 2", "largest gap there", "mean bound"] if bounded else []
        rows = [
            [
                f"{point.sigma:g}",
                f"{point.mu:g}",
                *map(_small, (point.mean_gap, point.max_gap, point.bias, point.bias_error)),
                *(
                    [point.bounded, _small(point.max_gap_bounded), _small(point.mean_bound)]
                    if bounded
                    else []
                ),
            ]
            for point in curve.points
        ]
        note = f"{curve.queries} queries."
        if curve.objective == "softrank" and not bounded:
            note += (
                " No query meets the condition of theorem 2: its scores are too close for these σ."
            )
        blocks += [
            Figure(
                f"{curve.objective} for {curve.metric}",
                curve.plot(),
                f"Gap between {curve.metric} and its surrogate against the strength of the smoothing.",
            ),
            Table(f"Gaps of {curve.objective} for {curve.metric}", columns, rows, note),
        ]
    if pair is not None:
        holds = "hold" if pair.premises else "do not hold"
        blocks.append(
            Table(
                "Theorem 1 for the two models",
                ["ε1", "ε2", "bound 2 ε1 + ε2", "difference of the metric"],
                [
                    [
                        _small(value)
                        for value in (pair.eps_1, pair.eps_2, pair.bound, pair.difference)
                    ]
                ],
                "The surrogate is that of StochasticRank with its default σ. The premises, that the first model is at "
                f"least as good by the surrogate and the second by the metric, {holds}.",
            )
        )
    return Section("Directness", blocks)


def estimators_section(result: Estimators) -> Section:
    """Show noise, bias and cost of gradient estimates.

    Examples
    --------
    >>> from rankwright_lab.diagnostics import estimators
    >>> estimators_section(estimators([0.2, 0.1], [0, 1], group=[2], repeats=5)).title
    'Gradient estimates'
    """
    rows = [
        [
            row.name,
            row.objective,
            f"{row.signal_to_noise:.3g}",
            f"{row.median_signal_to_noise:.3g}",
            f"{row.bias:.3f}",
            f"{row.cosine:.3f}",
            f"{1e3 * row.seconds:.3g}",
            f"{1e3 * row.cost:.3g}",
        ]
        for row in result.rows
    ]
    columns = [
        "estimate",
        "objective",
        "signal-to-noise",
        "median of queries",
        "bias",
        "cosine",
        "ms per draw",
        "cost, ms",
    ]
    text = (
        f"Gradients for {result.metric} over {result.repeats} draws at the model's scores. Signal-to-noise is the "
        "squared length of the mean over the variance. Bias and cosine compare the mean with the gradient of the "
        f"smoothed metric ({result.reference}), up to a common factor. Cost is the time to average until signal and "
        "noise are equal."
    )
    figure = Figure(
        "Signal-to-noise of queries",
        result.plot(),
        "Spread over queries of the signal-to-noise of each estimate.",
    )
    return Section("Gradient estimates", [Text(text), figure, Table("Estimates", columns, rows)])


def gap_section(curve: GapCurve) -> Section:
    """Show the generalisation gap along the trees.

    Examples
    --------
    >>> from rankwright import Ranker, make_web_search
    >>> from rankwright.evaluation.changes import generalisation_gap
    >>> train, test = make_web_search(20, kind="short", random_state=1).split(0.5)
    >>> ranker = Ranker(n_estimators=3, verbose=0, n_jobs=1).fit(train)
    >>> gap_section(generalisation_gap(ranker, train, test)).title
    'Generalisation gap'
    """
    last = [point for point in curve.points if point.trees == curve.points[-1].trees]
    rows: list[list[Cell]] = [
        [p.metric, p.trees, p.train, p.test, f"{p.gap:+.4f} [{p.low:+.4f}, {p.high:+.4f}]"]
        for p in last
    ]
    interval = f"{100 * curve.confidence:g}% interval, as if the queries of both sets were drawn at random."
    figure = Figure(
        "Training minus test",
        _gap_chart(curve),
        "Metric on training data minus test data, by number of trees.",
    )
    table = Table(
        "After the last tree", ["metric", "trees", "training", "test", "gap"], rows, interval
    )
    return Section("Generalisation gap", [figure, table])


def _gap_chart(curve: GapCurve) -> Any:
    """Draw train - test over trees, with its interval."""
    alt = require("altair")
    base = chart_of([asdict(point) for point in curve.points]).encode(
        x=alt.X("trees:Q", title="trees"),
        color=alt.Color("metric:N", legend=alt.Legend(orient="bottom")),
    )
    band = base.mark_area(opacity=0.2).encode(y=alt.Y("low:Q", title="train - test"), y2="high:Q")
    numbers = dict.fromkeys(("train", "test", "gap", "low", "high"), ".4f")
    line = base.mark_line().encode(
        y="gap:Q", tooltip=tooltip(["metric"], {"trees": ",", **numbers})
    )
    return band + line


def _changes_chart(changes: QueryChanges) -> Any:
    """Draw how many queries change by how much."""
    alt = require("altair")
    bins = alt.Bin(maxbins=41)
    title = f"{changes.metric}: {changes.names[1]} - {changes.names[0]}"
    return (
        chart_of([{"change": float(value)} for value in changes.change if value != 0])
        .mark_bar()
        .encode(
            x=alt.X("change:Q", bin=bins, title=title),
            y=alt.Y("count():Q", title="queries that change"),
            tooltip=[alt.Tooltip("change:Q", bin=bins), "count():Q"],
        )
    )


def changes_section(changes: QueryChanges) -> Section:
    """Show which queries change between two models.

    Examples
    --------
    >>> from rankwright import evaluate
    >>> from rankwright.evaluation.changes import query_changes
    >>> labels, qid = [1, 0, 1, 0], [1, 1, 2, 2]
    >>> a, b = (evaluate(z, labels, qid=qid, metrics=["mrr"]) for z in ([1, 0, 0, 1], [1, 0, 1, 0]))
    >>> changes_section(query_changes(a, b)).title
    'Changed queries'
    """
    before, after = changes.names
    row = changes.overall
    rows: list[list[Cell]] = [
        [what, share.count, f"{share.share:.1%} [{share.low:.1%}, {share.high:.1%}]"]
        for what, share in (
            ("larger", changes.up),
            ("the same", changes.same),
            ("smaller", changes.down),
        )
    ]
    text = (
        f"From {before} to {after} the mean of {changes.metric} changes by {row.difference:+.4f} "
        f"[{row.low:+.4f}, {row.high:+.4f}] (p = {row.p:.4f}, {row.n_queries} queries)."
    )
    blocks: list[Block] = [Text(text), Table("Queries", [changes.metric, "queries", "share"], rows)]
    most = changes.most()
    if most:
        values: list[list[Cell]] = [
            [str(row["query"]), row["before"], row["after"], f"{row['change']:+.4f}"]
            for row in most
        ]
        blocks += [
            Figure(
                "Size of the changes",
                _changes_chart(changes),
                "Number of queries by the change of their value.",
            ),
            Table("Queries that change most", ["query", before, after, "change"], values),
        ]
    return Section("Changed queries", blocks)


def _shares(curve: IncoherencyCurve) -> list[Any]:
    last = curve.stages[-1]
    harmful = None if last.k is None else f"{last.harmful_share:.2%}"
    return [
        f"{last.share:.2%}",
        harmful,
        f"{last.pair_share:.2%}" if last.misranked.any() else None,
    ]


def _small(number: float) -> str | None:
    """Format a number that may be tiny or zero; None for NaN."""
    return None if number != number else f"{number:.3g}"
