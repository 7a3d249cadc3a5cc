"""Running an experiment into a folder, and one page of what all runs have found.

A folder holds ``settings.json``, ``outcomes.jsonl`` (from which an interrupted run goes on), ``trials.log`` where
something is tuned, and at the end ``table.json`` and ``table.md``.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rankwright.report.page import Page, Section, Table, Text, save_page
from rankwright.research.experiments.base import (
    AGREES,
    CONTRADICTS,
    MIXED,
    OPEN,
    Experiment,
    Job,
    Settings,
    differences,
)
from rankwright.research.harness import Outcome, Results

_PACKAGES = ("rankwright", "lightgbm", "numpy", "numba", "optuna")


@dataclass(frozen=True)
class Record:
    """A finished run: what was done, and what was found.

    Parameters
    ----------
    settings
        The settings, as plain values.
    command
        The command line.
    about
        Title, paper, source and departures of the experiment, and a remark on the run.
    tables, verdicts
        What was found.
    versions
        Versions of Python and of the packages.
    """

    settings: dict[str, Any]
    command: str
    about: dict[str, str]
    tables: list[dict[str, Any]]
    verdicts: list[dict[str, str]]
    versions: dict[str, str]

    def section(self) -> Section:
        """Return the run as a section of a page."""
        about = self.about
        told = [f"Paper: {about['paper']}, {about['source']}. Data: {self.settings['data']}.", f"    {self.command}"]
        told += [about[name] for name in ("departs", "note") if about[name]]
        blocks: list[Text | Table] = [Text("\n\n".join(told))]
        blocks += [Table(**table) for table in self.tables]
        if self.verdicts:
            rows = [[one["outcome"], one["claim"], one["evidence"]] for one in self.verdicts]
            blocks.append(Table("The paper's claims", ["here", "claim", "evidence"], rows, self.conclusion()))
        return Section(f"{self.settings['experiment']}: {about['title']} ({_short(self.settings)})", blocks)

    def conclusion(self) -> str:
        """Say in a sentence how many claims were met."""
        counted = {"agree with what was found": AGREES, "are contradicted": CONTRADICTS, "are left open": OPEN}
        counted["hold for some seeds only"] = MIXED
        parts = [f"{self.count(outcome)} {words}" for words, outcome in counted.items()]
        return f"Of {len(self.verdicts)} claims {', '.join(parts)}."

    def count(self, outcome: str) -> int:
        """Return the number of claims with some outcome."""
        return sum(one["outcome"] == outcome for one in self.verdicts)


def _short(settings: dict[str, Any]) -> str:
    return f"{settings['data']}{', quick' if settings['quick'] else ''}"


def reproduce(
    experiment: Experiment,
    settings: Settings,
    out: str | os.PathLike[str],
    *,
    progress: Callable[[Outcome], object] | None = None,
    note: str = "",
) -> Record:
    """Run an experiment, or go on with it, and write its tables.

    Parameters
    ----------
    experiment, settings
        What to run, and how much of it; see `Experiment.settings`.
    out
        A folder. One that holds a run of other settings is refused; more seeds or folds of the same run are added.
    progress
        Called with each new outcome.
    note
        A remark to keep with the results, such as how the settings were chosen.

    Examples
    --------
    >>> import tempfile
    >>> from rankwright.research.experiments import experiment
    >>> ablation = experiment("stochasticrank-table3")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     record = reproduce(ablation, ablation.settings(quick=True, queries=20, trees=2, seeds=1), folder)
    ...     sorted(path.name for path in Path(folder).iterdir())
    ['outcomes.jsonl', 'settings.json', 'table.json', 'table.md']
    """
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    _claim_folder(folder, settings)
    found = experiment.run(Job(settings, Results(folder / "outcomes.jsonl"), progress))
    told = ("title", "paper", "source", "departs")
    record = Record(
        settings=settings.to_dict(),
        command=settings.command(),
        about={name: getattr(experiment, name) for name in told} | {"note": note},
        tables=[asdict(table) for table in found.tables],
        verdicts=[asdict(verdict) for verdict in found.verdicts],
        versions=_versions(),
    )
    save_page(Page(experiment.name, [record.section()], _under(record.versions)), folder / "table.md", "md")
    _write_json(folder / "table.json", asdict(record))
    return record


def read_records(folder: str | os.PathLike[str]) -> list[Record]:
    """Return the finished runs in the folders below a folder, by the names of the folders."""
    found = sorted(Path(folder).glob("*/table.json"))
    if not found:
        raise ValueError(f"{folder} holds no finished experiment; run `rankwright reproduce NAME` first.")
    return [Record(**json.loads(path.read_text(encoding="utf-8"))) for path in found]


def results_page(records: Sequence[Record], order: Sequence[str]) -> Page:
    """Return one page of finished runs: a table of what agrees with the papers, then each run.

    Parameters
    ----------
    records
        The runs.
    order
        Names of the experiments, in the order of the page.
    """
    ranked = sorted(records, key=lambda one: order.index(one.settings["experiment"]))
    rows = []
    for record in ranked:
        counts = [record.count(outcome) for outcome in (AGREES, OPEN, CONTRADICTS, MIXED)]
        rows.append([record.settings["experiment"], _short(record.settings), *counts])
    columns = ["experiment", "data", "claims that agree", "not significant", "contradicted", "mixed"]
    intro = (
        "Every experiment of the five papers, as rankwright reproduce runs it. Claims of the papers are examined by "
        "paired randomisation tests over the pooled test queries, seeds averaged per query, at the level 0.05, with "
        "Holm's correction over the claims of each metric; intervals are bootstrap intervals at 95 %. \"Not "
        'significant" means that the data do not decide. Two systems are alike if the interval is within a point. The '
        "papers' figures are shown for orientation: they come from other, larger data sets."
    )
    versions = [dict(record.versions) for record in ranked]
    same = all(one == versions[0] for one in versions)
    against = [
        [record.settings["experiment"], _short(record.settings), one["claim"], one["evidence"]]
        for record in ranked
        for one in record.verdicts
        if one["outcome"] == CONTRADICTS
    ]
    blocks: list[Text | Table] = [Text(intro), Table("", columns, rows)]
    blocks += [Table("Contradicted", ["experiment", "data", "claim", "evidence"], against)] if against else []
    overview = Section("What agrees", blocks)
    subtitle = _under(versions[0]) if same else ""
    return Page("Results of the papers' experiments", [overview, *(record.section() for record in ranked)], subtitle)


def _claim_folder(folder: Path, settings: Settings) -> None:
    """Refuse a folder of other settings; otherwise note the settings in it."""
    path, wanted = folder / "settings.json", settings.to_dict()
    if path.exists():
        different = differences(json.loads(path.read_text(encoding="utf-8")), wanted)
        if different:
            raise ValueError(
                f"{folder} holds a run with another {' and '.join(different)}; choose another folder with --out, or "
                "delete that one."
            )
    _write_json(path, wanted)


def _write_json(path: Path, content: Any) -> None:
    part = path.with_name(f".{path.name}.part")
    part.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(part, path)


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _under(versions: dict[str, str]) -> str:
    return "Versions: " + ", ".join(f"{name} {number}" for name, number in versions.items()) + "."
