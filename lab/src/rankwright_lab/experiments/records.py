"""Run an experiment in a folder, and collect all finished runs on one page.

A folder holds ``settings.json``, ``outcomes.jsonl`` (from which an interrupted run resumes), ``trials/`` if systems are
tuned, and at the end ``table.json`` and ``table.md``.
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
from rankwright.support.files import replacing
from rankwright_lab.experiments.base import (
    AGREES,
    CONTRADICTS,
    MIXED,
    OPEN,
    Experiment,
    ExperimentSettings,
    Job,
    differences,
)
from rankwright_lab.harness import Outcome, OutcomeStore
from rankwright_lab.kept_outcomes import read_reusable

_PACKAGES = ("rankwright", "lightgbm", "numpy", "numba", "optuna")


@dataclass(frozen=True)
class Record:
    """A finished run: its settings and its findings.

    Parameters
    ----------
    settings
        The settings, as plain values.
    command
        The command line.
    about
        Title, paper, source and departures of the experiment, and a remark on the run.
    tables, verdicts
        The findings.
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
        paragraphs = [
            f"Paper: {about['paper']}, {about['source']}. Data: {self.settings['data']}.",
            f"    {self.command}",
        ]
        paragraphs += [about[name] for name in ("departs", "note") if about[name]]
        blocks: list[Text | Table] = [Text("\n\n".join(paragraphs))]
        blocks += [Table(**table) for table in self.tables]
        if self.verdicts:
            rows = [
                [verdict["outcome"], verdict["claim"], verdict["evidence"]]
                for verdict in self.verdicts
            ]
            blocks.append(
                Table("The paper's claims", ["here", "claim", "evidence"], rows, self.conclusion())
            )
        return Section(
            f"{self.settings['experiment']}: {about['title']} ({_data_text(self.settings)})", blocks
        )

    def conclusion(self) -> str:
        """Say in a sentence how many claims hold."""
        phrases = {AGREES: "agree", CONTRADICTS: "are contradicted", OPEN: "are not significant"}
        phrases[MIXED] = "hold for some seeds only"
        parts = [f"{self.count(outcome)} {phrase}" for outcome, phrase in phrases.items()]
        return f"Of {len(self.verdicts)} claims, {', '.join(parts)}."

    def count(self, outcome: str) -> int:
        """Return the number of claims with this outcome."""
        return sum(verdict["outcome"] == outcome for verdict in self.verdicts)


def _data_text(settings: dict[str, Any]) -> str:
    return f"{settings['data']}{', quick' if settings['quick'] else ''}"


def reproduce(
    experiment: Experiment,
    settings: ExperimentSettings,
    out: str | os.PathLike[str],
    *,
    progress: Callable[[Outcome], object] | None = None,
    note: str = "",
    reuse: Sequence[str | os.PathLike[str]] = (),
) -> Record:
    """Run an experiment, or resume it, and write its tables.

    Parameters
    ----------
    experiment, settings
        What to run; see `Experiment.settings`.
    out
        A folder. If it holds a run of other settings, a ValueError is raised; more seeds or folds of the same run are
        added.
    progress
        Called with each new outcome.
    note
        A remark to store with the results, such as how the settings were chosen.
    reuse
        Folders or files of outcomes that are taken over where the same training on the same data is asked for; see
        `rankwright_lab.kept_outcomes.read_reusable`.

    Examples
    --------
    >>> import tempfile
    >>> from rankwright_lab.experiments import experiment
    >>> ablation = experiment("stochasticrank-table3")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     record = reproduce(ablation, ablation.settings(quick=True, queries=20, trees=2, trials=1), folder)
    ...     sorted(path.name for path in Path(folder).iterdir())
    ['outcomes.jsonl', 'settings.json', 'table.json', 'table.md', 'trials']
    """
    folder, reusable, content = Path(out), read_reusable(reuse), settings.to_dict()
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; the tables go into a folder.")
    folder.mkdir(parents=True, exist_ok=True)
    _claim_folder(folder, content)
    findings = experiment.run(
        Job(settings, OutcomeStore(folder / "outcomes.jsonl"), progress, reusable)
    )
    record = Record(
        settings=content,
        command=settings.command(),
        about={name: getattr(experiment, name) for name in ("title", "paper", "source", "departs")}
        | {"note": note},
        tables=[asdict(table) for table in findings.tables],
        verdicts=[asdict(verdict) for verdict in findings.verdicts],
        versions=package_versions(),
    )
    save_page(
        Page(experiment.name, [record.section()], _versions_text(record.versions)),
        folder / "table.md",
        "md",
    )
    _write_json(folder / "table.json", asdict(record))
    # We return the record as a later reader gets it: JSON turns the tuples of tables into lists.
    return Record(**_read_json(folder / "table.json"))


def read_records(folder: str | os.PathLike[str]) -> list[Record]:
    """Return the finished runs in the folders below a folder, by the names of the folders."""
    paths = sorted(Path(folder).glob("*/table.json"))
    if not paths and Path(folder, "table.json").exists():
        raise ValueError(
            f"{folder} is the folder of one experiment; name the folder that it is in."
        )
    if not paths:
        raise ValueError(
            f"{folder} holds no finished experiment; run `rankwright-lab reproduce NAME` first."
        )
    return [Record(**_read_json(path)) for path in paths]


def results_page(records: Sequence[Record], order: Sequence[str]) -> Page:
    """Return one page of finished runs: a table of verdicts, then each run.

    Parameters
    ----------
    records
        The runs.
    order
        Names of the experiments, in the order of the page.
    """
    ranked = sorted(records, key=lambda record: order.index(record.settings["experiment"]))
    rows = []
    for record in ranked:
        counts = [record.count(outcome) for outcome in (AGREES, OPEN, CONTRADICTS, MIXED)]
        rows.append([record.settings["experiment"], _data_text(record.settings), *counts])
    columns = [
        "experiment",
        "data",
        "claims that agree",
        "not significant",
        "contradicted",
        "mixed",
    ]
    intro = (
        "Every experiment of the five papers, as rankwright-lab reproduce runs it. Claims of the papers are tested by "
        "paired randomisation tests over the pooled test queries, seeds averaged per query, at the level 0.05, with "
        "Holm's correction over the claims of each metric; intervals are bootstrap intervals at 95 %. \"Not "
        'significant" means that the data do not decide. Two systems are alike if the interval is within a point. The '
        "papers' figures are shown for orientation: they come from other, larger data sets."
    )
    versions = [dict(record.versions) for record in ranked]
    same = versions.count(versions[0]) == len(versions)
    contradicted = [
        [
            record.settings["experiment"],
            _data_text(record.settings),
            verdict["claim"],
            verdict["evidence"],
        ]
        for record in ranked
        for verdict in record.verdicts
        if verdict["outcome"] == CONTRADICTS
    ]
    blocks: list[Text | Table] = [Text(intro), Table("", columns, rows)]
    blocks += (
        [Table("Contradicted", ["experiment", "data", "claim", "evidence"], contradicted)]
        if contradicted
        else []
    )
    overview = Section("Verdicts", blocks)
    subtitle = _versions_text(versions[0]) if same else ""
    return Page(
        "Results of the papers' experiments",
        [overview, *(record.section() for record in ranked)],
        subtitle,
    )


def _claim_folder(folder: Path, content: dict[str, Any]) -> None:
    """Reject a folder of other settings; otherwise write the settings into it."""
    path = folder / "settings.json"
    if path.exists():
        different = differences(_read_json(path), content)
        if different:
            raise ValueError(
                f"{folder} holds a run with other settings ({', '.join(different)}); choose another folder with --out, "
                "or delete it."
            )
    _write_json(path, content)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise ValueError(
            f"{path} is damaged: expected a JSON object; delete it to run the experiment anew."
        )
    return content


def _write_json(path: Path, content: Any) -> None:
    with replacing(path) as file:
        file.write((json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())


def package_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that results depend on."""
    versions = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def _versions_text(versions: dict[str, str]) -> str:
    return "Versions: " + ", ".join(f"{name} {number}" for name, number in versions.items()) + "."
