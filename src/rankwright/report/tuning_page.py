"""The report page on a hyperparameter search: the best trial, the history, and the importance of parameters."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import Any

from rankwright.charts.parts import chart_of, share_bars, tooltip
from rankwright.charts.theme import PAGE, require
from rankwright.metrics import metric as parse_metric
from rankwright.report.page import Block, Cell, Figure, Page, Section, Table, Text
from rankwright.tuning.result import Tuning

_ROWS = 200


def tuning_report(tuning: Tuning, *, title: str = "Tuning") -> Page:
    """Report on a search.

    Parameters
    ----------
    tuning
        Result of `rankwright.tune`, or of the laboratory's `tune_system`.
    title
        Title of the page.

    Examples
    --------
    >>> from rankwright import make_web_search
    >>> from rankwright.tuning.search import tune
    >>> data = make_web_search(24, n_features=20, mean_length=20)
    >>> page = tuning_report(tune(data, metric="map", trials=2, n_estimators=5, folds=2, n_jobs=1))
    >>> [section.title for section in page.sections]
    ['Best trial', 'Search', 'Trials']
    """
    origins = Text(f"{len(tuning.trials)} trials: {tuning.origins()}.")
    sections = [
        Section("Best trial", _best(tuning)),
        Section("Search", [origins, _history(tuning)]),
    ]
    shares = tuning.importance()
    if shares:
        sections.append(Section("What mattered", _importance(shares)))
    sections.append(Section("Trials", [_trials(tuning)]))
    subtitle = f"{tuning.metric} on validation queries, {len(tuning.trials)} trials"
    return Page(title, sections, subtitle)


def _best(tuning: Tuning) -> list[Block]:
    best = tuning.best_trial
    folds = ", ".join(f"{value:.4f}" for value in best.fold_values)
    trees = ", ".join(str(number) for number in best.fold_trees)
    text = (
        f"Trial {best.number}: {tuning.metric} {best.value:.4f} on the validation queries (by "
        f"fold: {folds}), with {best.trees} trees (by fold: {trees}). It is the best of "
        f"{len(tuning.ranked())} complete trials on these queries, so expect a somewhat lower "
        "value on other queries."
    )
    if tuning.constraints:
        pairs = zip(tuning.constraints, best.constraint_values, strict=True)
        values = ", ".join(f"{value:.4f} for {constraint}" for constraint, value in pairs)
        text += f" {tuning.shortfall() or f'It has {values}'}."
    rows: list[list[Cell]] = [[name, _cell(value)] for name, value in sorted(best.params.items())]
    return [Text(text), Table("Parameters", ["parameter", "value"], rows)]


def _history(tuning: Tuning) -> Figure:
    """Draw the value of each trial, and the best value so far of the trials that meet all constraints."""
    alt = require("altair")
    done = [trial for trial in tuning.trials if trial.value is not None]
    met = [trial for trial in done if trial.excess <= 0]
    better = max if parse_metric(tuning.metric).higher_is_better else min
    values = [float(trial.value) for trial in met if trial.value is not None]
    rows: list[dict[str, Any]] = [
        {"trial": trial.number, "value": trial.value, "best": value}
        for trial, value in zip(met, accumulate(values, better), strict=True)
    ]
    rows += [{"trial": trial.number, "value": trial.value} for trial in done if trial.excess > 0]
    base = chart_of(rows).encode(x=alt.X("trial:Q", title="trial", axis=alt.Axis(tickMinStep=1)))
    numbers = {"trial": ",", "value": ".4f", "best": ".4f"}
    titles = {"value": tuning.metric, "best": "best so far"}
    points = base.mark_point(filled=True, size=50, opacity=0.7, strokeWidth=1).encode(
        y=alt.Y("value:Q", title=tuning.metric, scale=alt.Scale(zero=False)),
        tooltip=tooltip([], numbers, titles),
        fillOpacity=alt.condition("isValid(datum.best)", alt.value(1), alt.value(0)),
    )
    line = base.mark_line(interpolate="step-after", strokeWidth=2, color=PAGE.faint)
    text = (
        f"{tuning.metric} of each complete trial in the order of the search, and the best so far "
        f"as a line, up to {tuning.best_trial.value:.4f}. {len(tuning.trials) - len(done)} trials "
        "were stopped early and are not shown."
    )
    if tuning.constraints:
        text += f" {len(done) - len(met)} trials miss a constraint and are hollow."
    chart = alt.layer(line.encode(y="best:Q"), points).properties(height=280)
    return Figure("Value of each trial, and the best so far", chart, text)


def _importance(shares: Mapping[str, float]) -> list[Block]:
    first = ", ".join(f"{name} {share:.0%}" for name, share in list(shares.items())[:3])
    text = (
        "How much each parameter separates the best tenth of the complete trials from the rest "
        "(PED-ANOVA). With few trials this is only a hint."
    )
    chart = share_bars(list(shares.items()), "parameter", "importance", PAGE, PAGE.colour(0))
    description = f"Importance of each parameter; first {first}."
    return [Text(text), Figure("Importance of parameters", chart, description)]


def _trials(tuning: Tuning) -> Table:
    stopped = [trial for trial in tuning.trials if trial.value is None]
    shown = [*tuning.ranked(), *stopped][:_ROWS]
    bounded = [str(constraint.metric) for constraint in tuning.constraints]
    names = list(dict.fromkeys(name for trial in shown for name in trial.values))
    rows: list[list[Cell]] = []
    for trial in shown:
        row: list[Cell] = [trial.number, trial.value]
        row += trial.constraint_values or [None] * len(bounded)
        row += [trial.trees, f"{trial.seconds:.1f}"]
        row += [_cell(trial.values[name]) if name in trial.values else None for name in names]
        rows.append(row)
    note = "The best first; trials without a value were stopped early."
    omitted = len(tuning.trials) - len(shown)
    if omitted:
        note += f" {omitted} more are omitted."
    header = ["trial", tuning.metric, *bounded, "trees", "seconds", *names]
    return Table("All trials", header, rows, note)


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
