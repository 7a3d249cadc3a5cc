"""Charts of features: their importance, and the reasons for the order of two documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rankwright.charts.parts import chart_of, label_axis, share_bars, tooltip
from rankwright.charts.theme import NOTEBOOK, require
from rankwright.support import checks

if TYPE_CHECKING:
    from rankwright.evaluation.permutation import PermutationImportance
    from rankwright.explanation import Explanation
    from rankwright.linear_start import LinearStart
    from rankwright.model import Model
    from rankwright.ranker import Ranker


def plot_importance(model: Ranker | Model | PermutationImportance, *, top: int = 20) -> Any:
    """Draw how much each column contributes to the gain of the splits, the largest first.

    Parameters
    ----------
    model
        A fitted Ranker or a Model; or a result of `Ranker.permutation_importance`, drawn with its intervals.
    top
        Number of columns to show.

    Examples
    --------
    >>> import rankwright as rw
    >>> ranker = rw.Ranker(n_estimators=5, verbose=0).fit(rw.make_web_search(30, random_state=1))
    >>> len(plot_importance(ranker, top=7).data.values)
    7
    """
    top = checks.whole("top", top, least=1)
    if hasattr(model, "losses"):
        return _losses(model, top)
    light: Any = getattr(model, "model_", model)
    shares = largest_shares(light.feature_names, light.importances(), top)
    return share_bars(shares, "column", "share of the gain", NOTEBOOK, NOTEBOOK.colour(0))


def largest_shares(names: Any, shares: Any, top: int) -> list[tuple[str, float]]:
    """Return the names and values of the largest shares.

    Examples
    --------
    >>> largest_shares(["a", "b", "c"], np.array([0.2, 0.5, 0.3]), 2)
    [('b', 0.5), ('c', 0.3)]
    """
    order = np.argsort(-shares, kind="stable")[:top]
    return [(names[place], float(shares[place])) for place in order]


def plot_linear_start(start: LinearStart, *, top: int = 20) -> Any:
    """Draw the largest coefficients of a linear start; bars to the right put a document above others.

    Parameters
    ----------
    start
        ``linear_`` of a fitted Ranker.
    top
        Number of features to show.

    Examples
    --------
    >>> import rankwright as rw
    >>> data = rw.make_web_search(40, n_features=20, random_state=1)
    >>> ranker = rw.Ranker(start="linear", n_estimators=2, verbose=0).fit(data)
    >>> len(plot_linear_start(ranker.linear_, top=7).data.values)
    7
    """
    alt = require("altair")
    top = checks.whole("top", top, least=1)
    rows = [{"feature": name, "coefficient": value} for name, value in start.largest(top)]
    return (
        chart_of(rows)
        .mark_bar(cornerRadiusEnd=2, color=NOTEBOOK.colour(0))
        .encode(
            x=alt.X("coefficient:Q", title="coefficient", axis=NOTEBOOK.axis()),
            y=alt.Y("feature:N", title=None, sort=None, axis=label_axis(NOTEBOOK)),
            tooltip=tooltip(["feature"], {"coefficient": "+.4f"}),
        )
        .properties(height=20 * len(rows), **NOTEBOOK.size)
    )


def _losses(importance: Any, top: int) -> Any:
    """Draw the loss of a metric when a column is shuffled, with intervals."""
    alt = require("altair")
    columns = (importance.features, importance.losses, importance.low, importance.high)
    rows = [
        {"column": name, "loss": float(loss), "low": float(low), "high": float(high)}
        for name, loss, low, high in list(zip(*columns, strict=True))[:top]
    ]
    base = chart_of(rows).encode(
        y=alt.Y("column:N", title=None, sort=None, axis=label_axis(NOTEBOOK)),
        tooltip=tooltip(["column"], {"loss": "+.4f", "low": "+.4f", "high": "+.4f"}),
    )
    title = f"loss of {importance.metric} when the column is shuffled"
    loss = alt.X("loss:Q", title=title, axis=NOTEBOOK.axis())
    bars = base.mark_bar(cornerRadiusEnd=2, color=NOTEBOOK.colour(0)).encode(x=loss)
    intervals = base.mark_rule(strokeWidth=2, color=NOTEBOOK.colour(1)).encode(
        x="low:Q", x2="high:Q"
    )
    return alt.layer(bars, intervals).properties(height=20 * len(rows), **NOTEBOOK.size)


def plot_explanation(explanation: Explanation, *, top: int = 15) -> Any:
    """Draw how much each feature adds to the difference of two scores; bars to the right put the first document above.

    Parameters
    ----------
    explanation
        The result of `Ranker.explain`.
    top
        Number of features to show; the other features are one bar.

    Examples
    --------
    >>> import rankwright as rw
    >>> data = rw.make_web_search(30, random_state=1)
    >>> why = rw.Ranker(n_estimators=5, verbose=0).fit(data).explain(data, 0, 1)
    >>> len(plot_explanation(why, top=4).data.values)
    5
    """
    alt = require("altair")
    first, second = f"row {explanation.a}", f"row {explanation.b}"
    rows = [
        {"feature": name, "difference": float(value), "above": first if value >= 0 else second}
        for name, value in zip(*explanation.largest(top), strict=True)
    ]
    title = f"score of {first} minus {second}: {explanation.difference:+.4f}"
    colours = alt.Scale(domain=[first, second], range=list(NOTEBOOK.series[:2]))
    legend = alt.Legend(orient="top")
    return (
        chart_of(rows)
        .mark_bar(cornerRadiusEnd=2)
        .encode(
            x=alt.X("difference:Q", title=title, axis=NOTEBOOK.axis()),
            y=alt.Y("feature:N", title=None, sort=None, axis=label_axis(NOTEBOOK)),
            color=alt.Color("above:N", title="puts above", scale=colours, legend=legend),
            tooltip=tooltip(["feature", "above"], {"difference": "+.6f"}),
        )
        .properties(height=20 * len(rows), **NOTEBOOK.size)
    )
