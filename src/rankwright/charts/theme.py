"""Fonts and colours of pages and charts: a palette for colour-blind readers, in light and dark.

Charts of a page refer to colours as its style sheet does, for example ``var(--accent)``, so that they follow light and
dark. Pictures and notebooks have no such style sheet and get the light colours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rankwright.support import environment

# Name: (light, dark). The series follow Okabe and Ito, darker on white and lighter on black.
COLOURS = {
    "paper": ("#ffffff", "#14171c"),
    "raised": ("#f5f7f9", "#1c2128"),
    "line": ("#dde2e7", "#343b45"),
    "ink": ("#1b2027", "#e8eaed"),
    "faint": ("#57616c", "#a5aeb9"),
    "accent": ("#0067a3", "#5cb8f0"),
    "series-1": ("#0072b2", "#56b4e9"),
    "series-2": ("#c24e00", "#ff9f5a"),
    "series-3": ("#008a66", "#3fd0a4"),
    "series-4": ("#b5508c", "#e79ac4"),
    "series-5": ("#9a6a00", "#f0c14b"),
    "series-6": ("#4b4fb8", "#a5a8f5"),
    "series-7": ("#5f6b77", "#b9c2cc"),
    "series-8": ("#8a2f2f", "#f08a8a"),
}
FONT = "-apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'Noto Sans', Arial, sans-serif"
_SERIES = tuple(name for name in COLOURS if name.startswith("series-"))
_AXIS = {
    "titleFontWeight": "normal",
    "titlePadding": 10,
    "labelPadding": 5,
    "labelOverlap": "parity",
    "labelSeparation": 8,
    "gridColor": "var(--line)",
    "domainColor": "var(--line)",
    "tickColor": "var(--line)",
}
_TEXT = {
    "labelColor": "var(--faint)",
    "titleColor": "var(--faint)",
    "labelFontSize": 12,
    "titleFontSize": 12,
}


def require(module: str) -> Any:
    """Import a library that only charts and reports need, or raise ImportError with the command that installs it."""
    return environment.require("a report", "report", module)


@dataclass(frozen=True)
class Style:
    """Colours of a chart, and its axes.

    Parameters
    ----------
    series
        Colours of models or systems, in their order.
    faint, paper
        Colours of lines for orientation, and of the background.
    axis_options
        Options of each axis, if the page does not set them.
    size
        Width and height of the chart, if the page does not set the width.
    """

    series: tuple[str, ...]
    faint: str
    paper: str
    axis_options: Mapping[str, Any]
    size: Mapping[str, int]

    def axis(self, **options: Any) -> Any:
        """Return an axis in this style."""
        return require("altair").Axis(**{**self.axis_options, **options})

    def colour(self, number: int) -> str:
        """Return the colour of a model or system, by its number from 0."""
        return self.series[number % len(self.series)]


def chart_config() -> dict[str, Any]:
    """Return Vega-Lite's configuration of every chart of a page."""
    return {
        "background": "transparent",
        "font": FONT,
        # The figure around a chart has a description; labels of thousands of marks would not help.
        "aria": False,
        "view": {"stroke": None},
        "mark": {"color": "var(--accent)"},
        "text": {"color": "var(--ink)"},
        "rule": {"color": "var(--faint)"},
        "range": {"category": [f"var(--{name})" for name in _SERIES]},
        "title": {"color": "var(--ink)", "anchor": "start", "fontSize": 14},
        "header": _TEXT,
        "axis": {**_TEXT, **_AXIS, "labelLimit": 150},
        # With more ticks, labels such as -0.011 would overlap and some would be left out.
        "axisXQuantitative": {"tickCount": {"expr": "max(2, ceil(width / 90))"}},
        "legend": {
            **_TEXT,
            "orient": "top",
            "title": None,
            "symbolOpacity": 1,
            "symbolStrokeWidth": 2,
            "labelLimit": 260,
        },
    }


def merged(base: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return ``base`` updated with ``other``, nested dictionaries included."""
    both = {**base, **other}
    for key in base.keys() & other.keys():
        if isinstance(base[key], dict) and isinstance(other[key], dict):
            both[key] = merged(base[key], other[key])
    return both


def on_paper(spec: Any) -> Any:
    """Return a specification with light colours, for pictures without a style sheet.

    Examples
    --------
    >>> on_paper({"color": "var(--ink)", "width": 2})
    {'color': '#1b2027', 'width': 2}
    """
    if isinstance(spec, dict):
        return {key: on_paper(value) for key, value in spec.items()}
    if isinstance(spec, list):
        return [on_paper(value) for value in spec]
    if isinstance(spec, str):
        return re.sub(r"var\(--([a-z0-9-]+)\)", lambda match: COLOURS[match[1]][0], spec)
    return spec


PAGE = Style(
    series=tuple(f"var(--{name})" for name in _SERIES),
    faint="var(--faint)",
    paper="var(--paper)",
    axis_options={},
    size={},
)
NOTEBOOK = Style(
    series=tuple(COLOURS[name][0] for name in _SERIES),
    faint=COLOURS["faint"][0],
    paper=COLOURS["paper"][0],
    axis_options=on_paper({**_TEXT, **_AXIS, "labelFont": FONT, "titleFont": FONT}),
    size={"width": 480},
)
