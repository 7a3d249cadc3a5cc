"""Small tables in HTML, as notebooks show them; all text is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *notes: str) -> str:
    """Return a table with notes below it.

    Examples
    --------
    >>> table(["metric"], [["<map>"]], "3 queries")
    '<table><thead><tr><th>metric</th></tr></thead><tbody><tr><td>&lt;map&gt;</td></tr></tbody></table><p>3 queries</p>'
    """
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>" for cells in rows
    )
    below = f"<p>{'<br>'.join(map(escape, notes))}</p>" if notes else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}"
