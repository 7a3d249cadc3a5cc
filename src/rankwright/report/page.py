"""Pages of text, tables and charts: one self-contained HTML file, or Markdown with the figures beside it.

A page is independent of runs and rankings: other modules build sections from the blocks below. Another kind of block is
a class with the methods of `Block`.

The HTML uses no network, and its content policy forbids it. The file contains the Vega libraries once. They draw the
charts from their Vega-Lite specifications. Colours are CSS variables of the page, so that light, dark and print show
the same drawing.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from rankwright.charts.theme import COLOURS, chart_config, merged, on_paper, require
from rankwright.support import checks
from rankwright.support.files import write_together
from rankwright.support.tables import Cell as Cell
from rankwright.support.tables import Table as Table
from rankwright.support.tables import plain_markdown

if TYPE_CHECKING:
    import altair as alt
    from jinja2 import Environment

_FOLDER = Path(__file__).parent / "templates"
# Every object of JavaScript has these properties, and a run or a feature may have the same name.
_ACCESSORS = {"__defineGetter__", "__defineSetter__", "__lookupGetter__", "__lookupSetter__"}
_METHODS = {"hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable", "toLocaleString", "toString"}
_PROPERTIES = {"__proto__", "constructor", "valueOf"} | _ACCESSORS | _METHODS
_PNG_WIDTH, _PNG_SCALE = 560, 3.0  # a column of a paper at about 400 dots per inch


class Block(Protocol):
    """A part of a section: a `Text`, a `Table`, a `Figure` or an `Interactive`."""

    def html(self) -> str:
        """Return the block as HTML, escaped."""

    def markdown(self, files: Mapping[int, str]) -> str:
        """Return the block as Markdown; ``files`` has the path of each figure, by its ``id()``."""


class Interactive:
    """Base of blocks that a reader can change, by a script of the templates folder."""

    script: ClassVar[str]

    def html(self) -> str:
        """Return the block as HTML, escaped."""
        raise NotImplementedError

    def markdown(self, files: Mapping[int, str]) -> str:
        """Return the first view of the block as Markdown."""
        raise NotImplementedError

    def figures(self) -> Sequence[Figure]:
        """Return the figures of the block."""
        return ()


@dataclass(frozen=True, eq=False)
class Figure:
    r"""A chart with a title and a description for readers who cannot see it.

    Parameters
    ----------
    title
        Title, above the chart.
    chart
        An Altair chart. By default it is as wide as the page. Default colours follow light and dark.
    alt
        Content of the chart, in a sentence or two.

    Examples
    --------
    >>> import altair as alt
    >>> chart = alt.Chart(alt.Data(values=[{"x": 1, "y": 2}])).mark_point().encode(x="x:Q", y="y:Q")
    >>> Figure("A point", chart, "One point at (1, 2).").markdown({})
    '**A point**\n\nOne point at (1, 2).'
    """

    title: str
    chart: alt.TopLevelMixin
    alt: str

    def html(self) -> str:
        """Return a placeholder for the chart, and its specification."""
        return render("figure.html", figure=self, spec=self.specification())

    def markdown(self, files: Mapping[int, str]) -> str:
        """Return the title and a link to the picture, or the description if there is no picture."""
        described = plain_markdown(self.alt).replace("[", "(").replace("]", ")")
        picture = f"![{described}]({files[id(self)]})" if id(self) in files else described
        return f"**{plain_markdown(self.title)}**\n\n{picture}"

    def specification(self) -> dict[str, Any]:
        """Return the Vega-Lite specification with the page's colours and width."""
        spec: dict[str, Any] = _harmless(self.chart.to_dict())
        spec["config"] = merged(chart_config(), spec.get("config", {}))
        # Charts that consist of several charts cannot take the width of the page.
        if not {"hconcat", "vconcat", "concat", "facet", "repeat"} & spec.keys():
            spec.setdefault("width", "container")
            spec.setdefault("autosize", {"type": "fit-x", "contains": "padding"})
        return spec

    def png(self) -> bytes:
        """Return the chart as a PNG picture on a white background, for papers."""
        spec = on_paper(self.specification())
        if spec.get("width") == "container":
            spec["width"] = _PNG_WIDTH
        spec["config"]["background"] = "white"
        vl_convert = require("vl_convert")
        picture: bytes = vl_convert.vegalite_to_png(spec, vl_version=_vega_lite(), scale=_PNG_SCALE)
        return picture


@dataclass(frozen=True)
class Text:
    """Paragraphs of plain text, separated by empty lines.

    Examples
    --------
    >>> Text("Values < 1.").html()
    '<p>Values &lt; 1.</p>'
    """

    text: str

    def html(self) -> str:
        """Return a paragraph for each part of the text."""
        return render("text.html", paragraphs=[part.strip() for part in self.text.split("\n\n")])

    def markdown(self, files: Mapping[int, str]) -> str:
        """Return the paragraphs."""
        return "\n\n".join(map(plain_markdown, self.text.split("\n\n")))


@dataclass(frozen=True)
class Section:
    """A titled part of a page; consecutive figures share a row if there is room.

    Examples
    --------
    >>> Section("Data", [Text("Ten queries.")]).title
    'Data'
    """

    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Page:
    """A page of sections.

    Parameters
    ----------
    title
        Title of the page.
    sections
        Its parts; their titles make the table of contents.
    subtitle
        A line below the title.
    command
        The command that wrote the page, shown at its end.

    Examples
    --------
    >>> page = Page("Results", [Section("Data", [Text("Ten queries.")])])
    >>> print(page.markdown())
    # Results
    <BLANKLINE>
    ## Data
    <BLANKLINE>
    Ten queries.
    <BLANKLINE>
    """

    title: str
    sections: Sequence[Section]
    subtitle: str = ""
    command: str = ""

    def figures(self) -> list[Figure]:
        """Return all figures, from the top."""
        figures: list[Figure] = []
        for block in self._blocks():
            if isinstance(block, Figure):
                figures.append(block)
            elif isinstance(block, Interactive):
                figures += block.figures()
        return figures

    def _blocks(self) -> Iterator[Block]:
        for section in self.sections:
            yield from section.blocks

    def html(self) -> str:
        """Return the page as one self-contained HTML file."""
        scripts = [_source("page.js")]
        # Vega is most of a page's size, so a page without charts does without.
        if self.figures():
            scripts.insert(0, _vega())
        interactive = [block for block in self._blocks() if isinstance(block, Interactive)]
        scripts += [_source(name) for name in dict.fromkeys(block.script for block in interactive)]
        # Only these scripts run, and the browser loads no other file for any text on the page.
        policy = (
            "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
            f"script-src {_hashes(scripts)}"
        )
        return render(
            "page.html",
            page=self,
            sections=[
                # The number keeps anchors unique if two sections have the same title.
                (f"{number}-{_slug(section.title)}", section, _rows(section.blocks))
                for number, section in enumerate(self.sections, start=1)
            ],
            style=_source("page.css"),
            colours=COLOURS,
            scripts=scripts,
            policy=policy,
        )

    def markdown(self, files: Mapping[int, str] | None = None) -> str:
        """Return the page as Markdown; ``files`` has the path of each figure's picture, by its ``id()``."""
        parts = [f"# {plain_markdown(self.title)}", plain_markdown(self.subtitle)]
        for section in self.sections:
            parts.append(f"## {plain_markdown(section.title)}")
            parts += [block.markdown(files or {}) for block in section.blocks]
        if self.command:
            parts.append(f"Written by `{self.command.replace('`', '')}`.")
        return "\n\n".join(part for part in parts if part) + "\n"


def save_page(
    page: Page, path: str | os.PathLike[str], format: str = "html", png: bool = False
) -> None:
    r"""Write a page and its figures, completely or not at all.

    Parameters
    ----------
    page
        The page.
    path
        The file; its folder is created if necessary.
    format
        ``"html"`` for one self-contained file, ``"md"`` for Markdown with the figures as PNG in a folder beside it,
        ``report-figures`` for ``report.md``.
    png
        Whether to write the figures as PNG for ``"html"`` as well.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_page(Page("Results", []), f"{folder}/report.md", "md")
    ...     Path(folder, "report.md").read_text()
    '# Results\n'
    """
    checks.choice("format", format, ("html", "md"))
    target = Path(path)
    if target.is_dir():
        raise ValueError(
            f"{target} is a folder; name a file in it, such as {target / f'report.{format}'}."
        )
    contents: dict[Path, bytes] = {}
    links: dict[int, str] = {}
    if png or format == "md":
        folder = target.with_name(f"{target.stem}-figures")
        for number, figure in enumerate(page.figures(), start=1):
            name = f"{number:02d}-{_slug(figure.title)}.png"
            contents[folder / name] = figure.png()
            links[id(figure)] = f"{folder.name}/{name}"
    text = page.html() if format == "html" else page.markdown(links)
    # The page comes last, so that its figures exist if it exists.
    contents[target] = text.encode()
    write_together(contents)


def shortened(text: str, at_most: int) -> str:
    """Cut a text that is longer than ``at_most`` characters.

    Examples
    --------
    >>> shortened("a long name", 7), shortened("short", 7)
    ('a long…', 'short')
    """
    return text if len(text) <= at_most else f"{text[: at_most - 1]}…"


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:60] or "figure"


def _rows(blocks: Sequence[Block]) -> list[list[Block]]:
    """Group consecutive figures into rows; every other block has a row of its own."""
    rows: list[list[Block]] = []
    for block in blocks:
        if rows and isinstance(block, Figure) and isinstance(rows[-1][-1], Figure):
            rows[-1].append(block)
        else:
            rows.append([block])
    return rows


def _harmless(value: Any) -> Any:
    """Append an invisible space to names of JavaScript's properties, because Vega keeps groups in plain objects."""
    if isinstance(value, dict):
        return {key: _harmless(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_harmless(inner) for inner in value]
    return f"{value}\u200b" if isinstance(value, str) and value in _PROPERTIES else value


def render(template: str, **values: Any) -> str:
    """Render a template of the templates folder; values are escaped."""
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    jinja2 = require("jinja2")
    environment: Environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["json"] = lambda value: require("markupsafe").Markup(embedded_json(value))
    return environment


def embedded_json(value: Any) -> str:
    """Return JSON that is safe in a script element, because no text in it can end the element."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


@cache
def _source(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


@cache
def _vega() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script, from the copy in vl-convert."""
    bundle: str = require("vl_convert").javascript_bundle(vl_version=_vega_lite())
    return bundle


def _vega_lite() -> str:
    """Return the version of Vega-Lite that the installed Altair writes, in the form that vl-convert expects."""
    version: str = require("altair").SCHEMA_VERSION
    return ".".join(version.removeprefix("v").split(".")[:2])


def _hashes(scripts: Sequence[str]) -> str:
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
    return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
