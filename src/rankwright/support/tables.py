"""Tables of results: as text, in notebooks, on the pages of reports, and as data frames."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from rankwright.support.frames import Library, data_frame

Cell = str | int | float | None
_MISSING = "–"
# Numbers with signs, units, intervals, stars and counts such as "3 of 4".
_NUMERIC = re.compile(
    r"(?=.*(\d|nan|inf))([\d\s.,/%*<>+\-\u2212±\[\]()]|(?<=\d)e(?=[+-]\d)|nan|inf)+(of [\d,]+)?"
)


@dataclass(frozen=True)
class Table:
    """A table.

    Parameters
    ----------
    title
        Title, above the table; may be empty.
    columns
        Headings; if all are empty, the text has none.
    rows
        Cells: text is unchanged, integers get thousands separators, floats four decimals, None is a
        dash. Columns of numbers are right-aligned.
    note
        Remarks below the table, each on its line.
    strong
        Cells to emphasise: their row and column, from 0.

    Examples
    --------
    >>> table = Table("Means", ["system", "ndcg@10"], [["old", 0.5], ["new", 0.625]])
    >>> print(table)
    Means
    system  ndcg@10
    old      0.5000
    new      0.6250
    >>> print(table.markdown())
    **Means**
    <BLANKLINE>
    | system | ndcg@10 |
    |---|--:|
    | old | 0.5000 |
    | new | 0.6250 |
    >>> table.to_dataframe("polars").rows()
    [('old', 0.5), ('new', 0.625)]
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    strong: Collection[tuple[int, int]] = ()

    def __post_init__(self) -> None:
        for number, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise ValueError(
                    f"table {self.title!r}: row {number} has {len(row)} cells for "
                    f"{len(self.columns)} columns; give one cell per column."
                )

    def texts(self) -> list[list[str]]:
        """Return the cells as text."""
        return [[_text(cell) for cell in row] for row in self.rows]

    def numeric(self) -> list[bool]:
        """Return for each column whether it holds numbers."""
        if not self.rows:
            return [False] * len(self.columns)
        return [_is_numeric(column) for column in zip(*self.texts(), strict=True)]

    def lines(self) -> list[str]:
        """Return the headings and the rows as lines of text."""
        grid = [list(self.columns), *self.texts()]
        # A column is as wide as its widest cell, and the heading is a cell.
        widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
        numeric = self.numeric()
        lines = []
        for row in grid:
            cells = [
                text.rjust(width) if right else text.ljust(width)
                for text, width, right in zip(row, widths, numeric, strict=True)
            ]
            lines.append("  ".join(cells).rstrip())
        return lines

    def __str__(self) -> str:
        lines = self.lines()
        if not any(self.columns):
            lines = lines[1:]
        parts = [self.title, *lines, self.note]
        return "\n".join(part for part in parts if part)

    def _repr_html_(self) -> str:
        """Return the table in HTML for a notebook, with all text escaped."""
        # Notebooks have styles of their own for tables.
        plain = [""] * len(self.columns)
        note = _within("<p>", escape(self.note).replace("\n", "<br>"), "</p>")
        return f"{self._html_table(plain, plain)}{note}"

    def html(self) -> str:
        """Return the table in HTML for a page, in a box that scrolls if the table is too wide."""
        cells = [' class="number"' if right else "" for right in self.numeric()]
        headings = [f' scope="col"{attributes}' for attributes in cells]
        title = _within("<h3>", escape(self.title), "</h3>")
        # The box can be scrolled with the keyboard, so it needs a place in the tab order and a name.
        label = escape(self.title or "Table")
        box = f'<div class="wide" tabindex="0" role="region" aria-label="{label}">'
        note = _within('<p class="note">', escape(self.note), "</p>")
        table = self._html_table(headings, cells)
        return f'<div class="table">{title}{box}{table}</div>{note}</div>'

    def _html_table(self, headings: Sequence[str], cells: Sequence[str]) -> str:
        """Return the table element; each column has attributes of its heading and of its cells."""
        names = [
            f"<th{attributes}>{escape(name)}</th>"
            for name, attributes in zip(self.columns, headings, strict=True)
        ]
        lines = []
        for i, row in enumerate(self.texts()):
            line = ""
            for j, text in enumerate(row):
                content = escape(text)
                if (i, j) in self.strong:
                    content = f"<b>{content}</b>"
                line += f"<td{cells[j]}>{content}</td>"
            lines.append(f"<tr>{line}</tr>")
        head = f"<thead><tr>{''.join(names)}</tr></thead>"
        return f"<table>{head}<tbody>{''.join(lines)}</tbody></table>"

    def markdown(self, files: Mapping[int, str] | None = None) -> str:
        """Return the table as Markdown; ``files`` is of no use to a table."""
        rule = "|".join("--:" if right else "---" for right in self.numeric())
        lines = [f"| {' | '.join(map(plain_markdown, self.columns))} |", f"|{rule}|"]
        for i, row in enumerate(self.texts()):
            cells = [plain_markdown(text) for text in row]
            for j in range(len(cells)):
                if (i, j) in self.strong:
                    cells[j] = f"**{cells[j]}**"
            lines.append(f"| {' | '.join(cells)} |")
        title = _within("**", plain_markdown(self.title), "**")
        parts = [title, "\n".join(lines), plain_markdown(self.note)]
        return "\n\n".join(part for part in parts if part)

    def to_dataframe(self, library: Library = "pandas") -> Any:
        """Return the cells as a data frame."""
        # A table without rows has columns too, so zip(*rows) would not do.
        cells = [[row[number] for row in self.rows] for number in range(len(self.columns))]
        return data_frame(dict(zip(self.columns, cells, strict=True)), library)


class Tabular:
    """A result that prints as a table, shows as a table in a notebook and becomes a data frame.

    A subclass gives the table for people and, in full precision, the columns of the data frame.

    Examples
    --------
    >>> class Means(Tabular):
    ...     def _table(self) -> Table:
    ...         return Table("", ["metric", "mean"], [["map", 0.5]])
    ...     def _columns(self) -> dict[str, list[object]]:
    ...         return {"metric": ["map"], "mean": [0.5], "queries": [3]}
    >>> print(Means())
    metric    mean
    map     0.5000
    >>> Means().to_dataframe("polars").rows()
    [('map', 0.5, 3)]
    """

    def _table(self) -> Table:
        raise NotImplementedError

    def _columns(self) -> Mapping[str, Any]:
        raise NotImplementedError

    def __str__(self) -> str:
        return str(self._table())

    def _repr_html_(self) -> str:
        return self._table()._repr_html_()

    def to_dataframe(self, library: Library = "pandas") -> Any:
        """Return the result as a data frame.

        Parameters
        ----------
        library
            ``"pandas"``, ``"polars"`` or ``"pyarrow"``.
        """
        return data_frame(self._columns(), library)


def columns_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the columns of rows that are given as dictionaries; a key that a row lacks is None.

    Examples
    --------
    >>> columns_of([{"a": 1}, {"a": 2, "b": 3}])
    {'a': [1, 2], 'b': [None, 3]}
    """
    # A dict keeps the order in which the keys appear first.
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def plain_markdown(text: str) -> str:
    """Escape text so that Markdown shows it unchanged."""
    # A new line would end the row of a table.
    return re.sub(r"([\\`*|])", r"\\\1", text).replace("<", "&lt;").replace("\n", " ")


def p_text(p: float) -> str:
    """Return a p-value as text.

    Examples
    --------
    >>> p_text(0.03), p_text(1e-9)
    ('0.0300', '<0.0001')
    """
    if p < 0.0001:
        return "<0.0001"
    return f"{p:.4f}"


def interval_text(low: float, high: float, sign: str = "") -> str:
    """Return an interval as text; ``sign="+"`` writes signs.

    Examples
    --------
    >>> interval_text(0.25, 0.5), interval_text(0.25, 0.5, "+")
    ('[0.2500, 0.5000]', '[+0.2500, +0.5000]')
    """
    return f"[{low:{sign}.4f}, {high:{sign}.4f}]"


def _within(before: str, text: str, after: str) -> str:
    """Put text between two marks, unless it is empty."""
    return f"{before}{text}{after}" if text else ""


def _text(cell: Cell) -> str:
    if cell is None:
        return _MISSING
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int):
        return f"{cell:,}"
    return f"{cell:.4f}"


def _is_numeric(column: Sequence[str]) -> bool:
    # A missing number does not make a column one of text.
    filled = [text for text in column if text != _MISSING]
    return bool(filled) and all(_NUMERIC.fullmatch(text) for text in filled)
