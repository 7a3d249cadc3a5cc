"""Libraries of an extra, asked for before the work begins."""

from __future__ import annotations


def require_report() -> None:
    """Raise ImportError, with the command that installs them, unless all libraries of a report can be imported."""
    from rankwright.charts.theme import require

    for module in ("jinja2", "altair", "vl_convert"):
        require(module)
