"""Libraries of an extra, asked for before the work begins."""

from __future__ import annotations

from rankwright.support.environment import require


def require_report() -> None:
    """Raise ImportError, with the command that installs them, unless all libraries of a report can be imported."""
    require("a report", "report", "jinja2", "altair", "vl_convert")
