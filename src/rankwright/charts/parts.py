"""Parts that several charts have: colours of series, tooltips, names, and the choice of a metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rankwright.charts.theme import Style, require
from rankwright.metrics import metric as parse_metric


def chart_of(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Return an Altair chart with these rows as its data."""
    alt = require("altair")
    return alt.Chart(alt.Data(values=list(rows)))


def series_colour(
    field: str,
    names: Sequence[str],
    style: Style,
    *,
    first: int = 0,
    has_legend: bool | None = None,
) -> Any:
    """Return the encoding that gives each name a colour; by default a single name has no legend.

    ``first`` is the number of the first name, if earlier colours belong to names that the chart does not show.
    """
    alt = require("altair")
    colours = [style.colour(first + number) for number in range(len(names))]
    if has_legend is None:
        has_legend = len(names) > 1
    legend = alt.Legend(orient="top", title=None) if has_legend else None
    scale = alt.Scale(domain=list(names), range=colours)
    return alt.Color(f"{field}:N", title=None, sort=None, legend=legend, scale=scale)


def tooltip(
    texts: Sequence[str], numbers: Mapping[str, str], titles: Mapping[str, str] | None = None
) -> list[Any]:
    """Return a tooltip with fields of text and with numbers, which have a format each.

    A field has its own name as its title, unless ``titles`` has another one.
    """
    alt = require("altair")
    lines = [alt.Tooltip(f"{field}:N") for field in texts]
    lines += [alt.Tooltip(f"{field}:Q", format=form) for field, form in numbers.items()]
    # Vega shows the name of a field if it has no title, so titles are only written where they differ.
    for field, line in zip([*texts, *numbers], lines, strict=True):
        if titles is not None and field in titles:
            line.title = titles[field]
    return lines


def label_axis(style: Style) -> Any:
    """Return an axis of names without lines, for horizontal bars."""
    return style.axis(grid=False, ticks=False, domain=False, labelLimit=240)


def dashed_line(rows: Sequence[Mapping[str, float]], style: Style) -> Any:
    """Return a line for orientation, such as the diagonal."""
    return chart_of(rows).mark_line(color=style.faint, strokeDash=[4, 4], strokeWidth=1, clip=True)


def share_bars(
    shares: Sequence[tuple[str, float]], field: str, title: str, style: Style, colour: str
) -> Any:
    """Draw shares as horizontal bars, in the given order."""
    alt = require("altair")
    rows = [{field: name, "share": share} for name, share in shares]
    return (
        chart_of(rows)
        .mark_bar(cornerRadiusEnd=2, color=colour)
        .encode(
            x=alt.X("share:Q", title=title, axis=style.axis(format="%")),
            y=alt.Y(f"{field}:N", title=None, sort=None, axis=label_axis(style)),
            tooltip=tooltip([field], {"share": ".2%"}),
        )
        .properties(height=20 * len(rows), **style.size)
    )


def direction(metric: str) -> int:
    """Return 1 if more is better, -1 if less is better, and 0 if this process does not know the metric's class."""
    try:
        is_higher_better = parse_metric(metric).higher_is_better
    except ValueError:
        return 0
    return 1 if is_higher_better else -1


def check_names(names: Sequence[str] | None, default: list[str]) -> list[str]:
    """Return the names that the user gave, or the default ones; raise ValueError unless each is given once."""
    if not default:
        raise ValueError("there is nothing to draw; give at least one.")
    if names is None:
        return default
    texts = [str(name) for name in names]
    if len(texts) != len(default) or len(set(texts)) < len(texts):
        raise ValueError(
            f"names must be {len(default)} different names, one for each; got {texts}."
        )
    return texts


def check_choice(name: str | None, available: list[str]) -> str:
    """Return the name if there are values of it, by default the first name."""
    if not available:
        raise ValueError(
            "the evaluations have no metric in common; evaluate both by the same metrics."
        )
    if name is None:
        return available[0]
    if name not in available:
        raise ValueError(f"there are no values of {name!r}; choose one of {', '.join(available)}.")
    return name
