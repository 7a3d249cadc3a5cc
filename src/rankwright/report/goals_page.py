"""The report page on a sweep over the weights of goals: the Pareto front, and every training."""

from __future__ import annotations

from rankwright.charts.parts import chart_of, tooltip
from rankwright.charts.theme import PAGE, require
from rankwright.metrics import metric as parse_metric
from rankwright.report.page import Cell, Figure, Page, Section, Table, Text
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
    text = (
        f"{len(sweep.front())} of {len(sweep.points)} trainings are on the Pareto front: no other "
        "training is at least as good in every metric and better in at least one metric. All "
        "have the same number of trees. Choose a point, and train with its objective."
    )
    sections = [
        Section("Front", [Text(text), _chart(sweep)]),
        Section("Trainings", [_table(sweep)]),
    ]
    return Page(title, sections, f"{' and '.join(sweep.metrics)} on validation queries")


def _chart(sweep: GoalSweep) -> Figure:
    """Draw each training by its first two metrics, and the front as a line."""
    alt = require("altair")
    front = sweep.front()
    rows = [
        {
            "shares": " : ".join(f"{share:g}" for share in point.shares),
            "x": point.values[0],
            "y": point.values[1],
            "front": "on the front" if point in front else "dominated",
            "objective": point.objective,
        }
        for point in sweep.points
    ]
    x, y = sweep.metrics[:2]
    base = chart_of(rows).encode(
        x=alt.X("x:Q", title=_axis(x), scale=alt.Scale(zero=False)),
        y=alt.Y("y:Q", title=_axis(y), scale=alt.Scale(zero=False)),
    )
    is_on_front = "datum.front == 'on the front'"
    texts = ["shares", "front", "objective"]
    points = base.mark_point(filled=True, size=60, strokeWidth=1).encode(
        tooltip=tooltip(texts, {"x": ".4f", "y": ".4f"}, {"x": x, "y": y}),
        fillOpacity=alt.condition(is_on_front, alt.value(1), alt.value(0)),
    )
    layers = [points]
    if len(sweep.goals) == 2:
        # With more goals, the front of all metrics is no line in the plane of the first two.
        line = base.transform_filter(is_on_front).mark_line(strokeWidth=1.5, color=PAGE.faint)
        labels = base.mark_text(align="left", dx=8, dy=-6, fontSize=11).encode(text="shares:N")
        layers = [line, points, labels]
    ends = []
    for number, name in enumerate((x, y)):
        values = [point.values[number] for point in sweep.points]
        ends.append(f"{name} from {min(values):.4f} to {max(values):.4f}")
    return Figure(
        f"{x} and {y}, by the shares of the goals",
        alt.layer(*layers).properties(height=340),
        f"Each training as a point, filled if it is on the front; {', '.join(ends)}.",
    )


def _axis(name: str) -> str:
    return name if parse_metric(name).higher_is_better else f"{name}, lower is better"


def _table(sweep: GoalSweep) -> Table:
    front = sweep.front()
    rows: list[list[Cell]] = []
    for point in sweep.points:
        shares = [f"{share:g}" for share in point.shares]
        is_on_front = "yes" if point in front else ""
        rows.append([*shares, *point.values, is_on_front, point.objective])
    # The order of the sweep keeps neighbouring shares together.
    header = [*(f"share of {goal}" for goal in sweep.goals), *sweep.metrics, "front", "objective"]
    return Table("All trainings", header, rows, "In the order of the sweep.")
