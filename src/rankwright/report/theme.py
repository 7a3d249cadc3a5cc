"""Colours of pages and charts: a palette for colour-blind readers, in light and dark.

Charts refer to colours as the page's style sheet does, ``var(--accent)``; pictures get the light value instead.
"""

from __future__ import annotations

import re
from typing import Any

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
SERIES = [f"var(--{name})" for name in COLOURS if name.startswith("series-")]
_FONT = "-apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'Noto Sans', Arial, sans-serif"


def chart_config() -> dict[str, Any]:
    """Return Vega-Lite's configuration of every chart."""
    text = {
        "labelColor": "var(--faint)",
        "titleColor": "var(--faint)",
        "labelFontSize": 12,
        "titleFontSize": 12,
    }
    return {
        "background": "transparent",
        "font": _FONT,
        "aria": False,  # the figure around the chart has a description; labels of thousands of marks would not help
        "view": {"stroke": None},
        "mark": {"color": "var(--accent)"},
        "text": {"color": "var(--ink)"},
        "rule": {"color": "var(--faint)"},
        "range": {"category": SERIES},
        "title": {"color": "var(--ink)", "anchor": "start", "fontSize": 14},
        "header": text,
        "axis": {
            **text,
            "titleFontWeight": "normal",
            "titlePadding": 10,
            "labelPadding": 5,
            "labelLimit": 150,
            "labelOverlap": "parity",
            "labelSeparation": 8,
            "gridColor": "var(--line)",
            "domainColor": "var(--line)",
            "tickColor": "var(--line)",
        },
        "legend": {
            **text,
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
    """Return a specification with light values for the named colours, for pictures without a style sheet."""
    if isinstance(spec, dict):
        return {key: on_paper(value) for key, value in spec.items()}
    if isinstance(spec, list):
        return [on_paper(value) for value in spec]
    return (
        re.sub(r"var\(--([a-z0-9-]+)\)", lambda m: COLOURS[m[1]][0], spec)
        if isinstance(spec, str)
        else spec
    )
