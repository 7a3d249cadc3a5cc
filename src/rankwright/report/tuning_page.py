"""The report page on a hyper-parameter search: the best trial, the history, and the importance of parameters."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import Any

from rankwright.metrics import metric as parse_metric
from rankwright.report.page import Block, Cell, Figure, Page, Section, Table, Text, require
from rankwright.tuning.result import Trial, Tuning

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
    >>> page = tuning_report(tune(data, metric="map", trials=2, trees=5, folds=2, threads=1))
    >>> [section.title for section in page.sections]
    ['Best trial', 'Search', 'Trials']
    """
    sections = [Section("Best trial", _best(tuning)), Section("Search", _search(tuning))]
    shares = tuning.importance()
    if shares:
        sections.append(Section("What mattered", _importance(tuning, shares)))
    sections.append(Section("Trials", [_trials(tuning)]))
    return Page(
        title, sections, f"{tuning.metric} on validation queries, {len(tuning.trials)} trials"
    )


def _best(tuning: Tuning) -> list[Block]:
    best = tuning.best_trial
    folds = ", ".join(f"{value:.4f}" for value in best.fold_values)
    trees = ", ".join(str(number) for number in best.fold_trees)
    text = (
        f"Trial {best.number}: {tuning.metric} {best.value:.4f} on the validation queries (by fold: {folds}), with "
        f"{best.trees} trees (by fold: {trees}). It is the best of {len(tuning.ranked())} complete trials on these "
        "queries, so expect a somewhat lower value on others."
    )
    if tuning.constraints:
        values = zip(tuning.constraints, best.constraint_values, strict=True)
        text += (
            " "
            + (tuning.shortfall() or "It has " + ", ".join(f"{v:.4f} for {c}" for c, v in values))
            + "."
        )
    rows: list[list[Cell]] = [[name, _cell(value)] for name, value in sorted(best.params.items())]
    return [Text(text), Table("Parameters", ["parameter", "value"], rows)]


def _search(tuning: Tuning) -> list[Block]:
    return [Text(f"{len(tuning.trials)} trials: {tuning.origins()}."), _history(tuning)]


def _history(tuning: Tuning) -> Figure:
    alt = require("altair")
    better = max if parse_metric(tuning.metric).higher_is_better else min
    done = [
        (trial.number, trial.value, trial.excess <= 0)
        for trial in tuning.trials
        if trial.value is not None
    ]
    complete = [(number, value) for number, value, met in done if met]
    best = accumulate((value for _, value in complete), better)
    values: list[dict[str, Any]] = [
        {"t": number, "v": value, "b": top}
        for (number, value), top in zip(complete, best, strict=True)
    ]
    values += [{"t": number, "v": value} for number, value, met in done if not met]
    base = alt.Chart(alt.Data(values=values)).encode(
        x=alt.X("t:Q", title="trial", axis=alt.Axis(tickMinStep=1))
    )
    y = alt.Y("v:Q", title=tuning.metric, scale=alt.Scale(zero=False))
    tooltip = [
        alt.Tooltip("t:Q", title="trial"),
        alt.Tooltip("v:Q", title=tuning.metric, format=".4f"),
        alt.Tooltip("b:Q", title="best so far", format=".4f"),
    ]
    filled = alt.condition("isValid(datum.b)", alt.value(1), alt.value(0))
    points = base.mark_point(filled=True, size=50, opacity=0.7, strokeWidth=1).encode(
        y=y, tooltip=tooltip, fillOpacity=filled
    )
    line = base.mark_line(interpolate="step-after", strokeWidth=2, color="var(--faint)").encode(
        y="b:Q"
    )
    stopped = len(tuning.trials) - len(done)
    missed = (
        f" {len(done) - len(complete)} trials miss a constraint and are hollow."
        if tuning.constraints
        else ""
    )
    return Figure(
        "Value of each trial, and the best so far",
        alt.layer(line, points).properties(height=280),
        f"{tuning.metric} of each complete trial in the order of the search, and the best so far as a line, up to "
        f"{tuning.best_trial.value:.4f}. {stopped} trials were stopped early and are not shown.{missed}",
    )


def _importance(tuning: Tuning, shares: Mapping[str, float]) -> list[Block]:
    alt = require("altair")
    values = [{"p": name, "s": share} for name, share in shares.items()]
    chart = (
        alt.Chart(alt.Data(values=values))
        .mark_bar(cornerRadiusEnd=2)
        .encode(
            x=alt.X("s:Q", title="importance", axis=alt.Axis(format="%")),
            y=alt.Y(
                "p:N", title=None, sort=None, axis=alt.Axis(grid=False, ticks=False, domain=False)
            ),
            tooltip=[
                alt.Tooltip("p:N", title="parameter"),
                alt.Tooltip("s:Q", title="importance", format=".1%"),
            ],
        )
        .properties(height=alt.Step(20))
    )
    first = ", ".join(f"{value['p']} {value['s']:.0%}" for value in values[:3])
    text = (
        "How much each parameter separates the best tenth of the complete trials from the rest (PED-ANOVA). With few "
        "trials this is only a hint."
    )
    return [
        Text(text),
        Figure("Importance of parameters", chart, f"Importance of each parameter; first {first}."),
    ]


def _trials(tuning: Tuning) -> Table:
    ranked = tuning.ranked()
    shown: list[Trial] = [*ranked, *(trial for trial in tuning.trials if trial.value is None)][
        :_ROWS
    ]
    bounded = [str(constraint.metric) for constraint in tuning.constraints]
    names = list(dict.fromkeys(name for trial in shown for name in trial.values))
    rows: list[list[Cell]] = [
        [
            trial.number,
            trial.value,
            *(trial.constraint_values or [None] * len(bounded)),
            trial.trees,
            f"{trial.seconds:.1f}",
            *(_cell(trial.values[name]) if name in trial.values else None for name in names),
        ]
        for trial in shown
    ]
    omitted = len(tuning.trials) - len(shown)
    note = "The best first; trials without a value were stopped early." + (
        f" {omitted} more are omitted." if omitted else ""
    )
    return Table(
        "All trials", ["trial", tuning.metric, *bounded, "trees", "seconds", *names], rows, note
    )


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
