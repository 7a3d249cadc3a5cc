"""Charts of what scores mean: reliability of calibrated values, reasons for an order, columns that were shuffled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rankwright.plots import FAINT, WIDTH, colour_of, distinct_names
from rankwright.report.page import require
from rankwright.report.theme import COLOURS

if TYPE_CHECKING:
    from rankwright.evaluation.reliability import Reliability
    from rankwright.explanation import Explanation

_SERIES = [COLOURS[f"series-{number}"][0] for number in (1, 2)]


def plot_reliability(*curves: Reliability, names: Sequence[str] | None = None) -> Any:
    """Draw reliability curves: the mean target of each bin by its mean value, with intervals; the diagonal is perfect.

    Parameters
    ----------
    curves
        What `reliability` or `Ranker.reliability` returns.
    names
        Names for the legend; by default numbers.

    Examples
    --------
    >>> import rankwright as rw
    >>> curve = rw.reliability([0.1, 0.2, 0.7, 0.8], [0, 1, 1, 1], group=[2, 2], bins=2)
    >>> type(plot_reliability(curve)).__name__
    'LayerChart'
    """
    alt = require("altair")
    labels = distinct_names(names, [f"curve {number}" for number in range(1, len(curves) + 1)])
    rows = [
        {"curve": label, "predicted": p, "observed": o, "low": low, "high": high, "documents": n}
        for label, curve in zip(labels, curves, strict=True)
        for p, o, low, high, n in zip(
            *(column.tolist() for column in curve._columns().values()), strict=True
        )
    ]
    extent = [
        f(row[name] for row in rows for name in ("predicted", "observed")) for f in (min, max)
    ]
    x = alt.X("predicted:Q", title="mean value", scale=alt.Scale(nice=False, zero=False, padding=8))
    base = alt.Chart(alt.Data(values=rows)).encode(x=x, color=colour_of(alt, "curve", labels))
    tooltip = [
        "curve:N",
        alt.Tooltip("predicted:Q", title="mean value", format=".4f"),
        alt.Tooltip("observed:Q", title="mean target", format=".4f"),
        alt.Tooltip("low:Q", format=".4f"),
        alt.Tooltip("high:Q", format=".4f"),
        "documents:Q",
    ]
    diagonal = (
        alt.Chart(alt.Data(values=[{"predicted": end, "observed": end} for end in extent]))
        .mark_line(color=FAINT, strokeDash=[4, 4])
        .encode(x=x, y="observed:Q")
    )
    y = alt.Y("low:Q", title="mean target", scale=alt.Scale(zero=False))
    intervals = base.mark_rule(strokeWidth=3, opacity=0.45).encode(y=y, y2="high:Q")
    lines = base.mark_line(strokeWidth=1.5).encode(y="observed:Q")
    points = base.mark_point(filled=True, size=60, opacity=1).encode(
        y="observed:Q", tooltip=tooltip
    )
    return alt.layer(diagonal, intervals, lines, points).properties(width=360, height=360)


def plot_explanation(explanation: Explanation, *, top: int = 15) -> Any:
    """Draw what each feature adds to the difference of two scores; bars to the right put the first document above.

    Parameters
    ----------
    explanation
        What `Ranker.explain` returns.
    top
        Number of features to show; the others are one bar.

    Examples
    --------
    >>> import rankwright as rw
    >>> data = rw.make_web_search(30, seed=1)
    >>> why = rw.Ranker(n_estimators=5, verbose=0).fit(data).explain(data, 0, 1)
    >>> len(plot_explanation(why, top=4).data.values)
    5
    """
    alt = require("altair")
    names, differences = explanation.largest(top)
    rows = [
        {
            "feature": name,
            "difference": float(value),
            "above": f"row {explanation.a if value >= 0 else explanation.b}",
        }
        for name, value in zip(names, differences, strict=True)
    ]
    title = f"score of row {explanation.a} minus row {explanation.b}: {explanation.difference:+.4f}"
    above = [f"row {row}" for row in (explanation.a, explanation.b)]
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_bar(cornerRadiusEnd=2)
        .encode(
            x=alt.X("difference:Q", title=title),
            y=alt.Y("feature:N", title=None, sort=None, axis=alt.Axis(grid=False, labelLimit=240)),
            color=alt.Color(
                "above:N",
                title="puts above",
                scale=alt.Scale(domain=above, range=_SERIES),
                legend=alt.Legend(orient="top"),
            ),
            tooltip=["feature:N", alt.Tooltip("difference:Q", format="+.6f"), "above:N"],
        )
        .properties(width=WIDTH, height=alt.Step(20))
    )
