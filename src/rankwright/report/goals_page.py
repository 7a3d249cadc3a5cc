"""The report page on a sweep over the weights of goals: the Pareto front, and every training."""

from __future__ import annotations

from typing import Any

from rankwright.metrics import metric as parse_metric
from rankwright.report.page import Cell, Figure, Page, Section, Table, Text, require
from rankwright.tuning.goals import GoalSweep


def goals_report(sweep: GoalSweep, *, title: str = "Goals") -> Page:
    """Report on a sweep.

    Parameters
    ----------
    sweep
        Result of `rankwright.sweep_goals`.
    title
        Title of the page.

    Examples
    --------
    >>> from rankwright.tuning.goals import GoalPoint
    >>> points = (GoalPoint((1.0, 0.0), "ranknet", (0.5, 0.2)), GoalPoint((0.0, 1.0), "ranknet(label=b)", (0.3, 0.4)))
    >>> page = goals_report(GoalSweep(("ranknet", "ranknet(label=b)"), ("ndcg", "ndcg[b]"), points))
    >>> [section.title for section in page.sections]
    ['Front', 'Trainings']
    """
    front = sweep.front()
    text = (
        f"{len(front)} of {len(sweep.points)} trainings are on the Pareto front: no other is at least as good in every "
        "metric and better in one. All have the same number of trees. Choose a point, and train with its objective."
    )
    return Page(
        title,
        [Section("Front", [Text(text), _chart(sweep)]), Section("Trainings", [_table(sweep)])],
        f"{' and '.join(sweep.metrics)} on validation queries",
    )


def _chart(sweep: GoalSweep) -> Figure:
    alt = require("altair")
    x, y = sweep.metrics[:2]
    front = sweep.front()
    values: list[dict[str, Any]] = [
        {
            "x": point.values[0],
            "y": point.values[1],
            "s": " : ".join(f"{share:g}" for share in point.shares),
            "f": "on the front" if point in front else "dominated",
            "o": point.objective,
        }
        for point in sweep.points
    ]
    base = alt.Chart(alt.Data(values=values)).encode(
        x=alt.X("x:Q", title=_axis(x), scale=alt.Scale(zero=False)),
        y=alt.Y("y:Q", title=_axis(y), scale=alt.Scale(zero=False)),
    )
    tooltip = [
        alt.Tooltip("s:N", title="shares"),
        alt.Tooltip("x:Q", title=x, format=".4f"),
        alt.Tooltip("y:Q", title=y, format=".4f"),
        alt.Tooltip("f:N", title="front"),
        alt.Tooltip("o:N", title="objective"),
    ]
    filled = alt.condition("datum.f == 'on the front'", alt.value(1), alt.value(0))
    points = base.mark_point(filled=True, size=60, strokeWidth=1).encode(
        tooltip=tooltip, fillOpacity=filled
    )
    line = base.transform_filter("datum.f == 'on the front'").mark_line(
        strokeWidth=1.5, color="var(--faint)"
    )
    labels = base.mark_text(align="left", dx=8, dy=-6, fontSize=11).encode(text="s:N")
    layers = [line, points, labels] if len(sweep.goals) == 2 else [points]
    ends = ", ".join(
        f"{name} from {_least(sweep, n):.4f} to {_most(sweep, n):.4f}"
        for n, name in enumerate((x, y))
    )
    return Figure(
        f"{x} and {y}, by the shares of the goals",
        alt.layer(*layers).properties(height=340),
        f"Each training as a point, filled where it is on the front; {ends}.",
    )


def _axis(name: str) -> str:
    return name if parse_metric(name).higher_is_better else f"{name}, lower is better"


def _least(sweep: GoalSweep, number: int) -> float:
    return min(point.values[number] for point in sweep.points)


def _most(sweep: GoalSweep, number: int) -> float:
    return max(point.values[number] for point in sweep.points)


def _table(sweep: GoalSweep) -> Table:
    front = sweep.front()
    rows: list[list[Cell]] = [
        [
            *(f"{share:g}" for share in point.shares),
            *point.values,
            "yes" if point in front else "",
            point.objective,
        ]
        for point in sweep.points
    ]
    header = [*(f"share of {goal}" for goal in sweep.goals), *sweep.metrics, "front", "objective"]
    return Table("All trainings", header, rows, "In the order of the sweep.")
