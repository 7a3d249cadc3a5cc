"""Outcomes that other runs reuse: read from the folders of runs, and kept in a small file from machine to machine.

A kept outcome has the values of its target only, without the ids of the queries, which the data gives again. Where one
of several variants was chosen on the validation queries, the values of the others on the test queries are left out.
Values are not rounded: paired tests see which differences are equal.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path

from rankwright.support.files import replacing
from rankwright_lab.harness import Outcome, read_outcomes

BEST_OF = (
    "best of "  # how the recipe of a chosen variant begins; the recipes of all variants follow
)


def read_reusable(paths: Iterable[str | os.PathLike[str]]) -> dict[str, Outcome]:
    """Return outcomes by key, those with values on the test queries first.

    Parameters
    ----------
    paths
        Folders, in which every ``outcomes.jsonl`` and every kept file (``*.jsonl.gz``) is read, or such files.
    """
    outcomes: dict[str, Outcome] = {}
    for path in map(Path, paths):
        if not path.exists():
            raise FileNotFoundError(f"{path} does not exist, so there are no outcomes to reuse.")
        files = (
            [path]
            if path.is_file()
            else sorted([*path.rglob("outcomes.jsonl"), *path.rglob("*.jsonl.gz")])
        )
        for file in files:
            outcomes = merged(
                outcomes, read_kept(file) if file.suffix == ".gz" else read_outcomes(file)
            )
    return outcomes


def merged(first: Mapping[str, Outcome], more: Iterable[Outcome]) -> dict[str, Outcome]:
    """Return the outcomes that have keys; of two with the same key, the one with values, else the first."""
    outcomes = dict(first)
    for outcome in more:
        if outcome.key and (
            outcome.key not in outcomes or (outcome.values and not outcomes[outcome.key].values)
        ):
            outcomes[outcome.key] = outcome
    return outcomes


def read_kept(path: str | os.PathLike[str]) -> list[Outcome]:
    """Read a file that `keep` has written."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        lines = list(file)
    outcomes = []
    for number, line in enumerate(lines, start=1):
        try:
            outcomes.append(Outcome(**json.loads(line)))
        except (ValueError, TypeError):
            raise ValueError(
                f"{os.fspath(path)}, line {number}: expected an outcome as a JSON object."
            ) from None
    return outcomes


def keep(outcomes: Iterable[Outcome], path: str | os.PathLike[str]) -> None:
    """Add outcomes to a small file, which is created if it does not exist.

    Parameters
    ----------
    outcomes
        Outcomes of one run or several, with the choices among variants; those without a key are left out.
    path
        The file; its name ends in ``.jsonl.gz``.

    Examples
    --------
    >>> import tempfile
    >>> outcome = Outcome("web", "1", "a", "map", 0, 5, 0.5, 1.0, 0.1, ["1"], {"map": [0.5], "mrr": [1.0]}, key="k")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     keep([outcome], f"{folder}/web.jsonl.gz")
    ...     read_reusable([folder])["k"].values
    {'map': [0.5]}
    """
    own = list(outcomes)
    chosen = [outcome for outcome in own if outcome.recipe.startswith(BEST_OF)]
    variants = {(_run(outcome), name) for outcome in chosen for name in outcome.recipe.split()}
    trained = [outcome for outcome in own if not outcome.recipe.startswith(BEST_OF)]
    passed_over = {
        outcome.key for outcome in trained if (_run(outcome), outcome.recipe) in variants
    }
    passed_over -= {outcome.key for outcome in chosen}
    known = merged({}, [*(read_kept(path) if Path(path).exists() else []), *trained])
    with replacing(path) as file:
        for outcome in sorted(known.values(), key=lambda outcome: (*_run(outcome), outcome.system)):
            small = _small(
                replace(outcome, values={}, curve=[]) if outcome.key in passed_over else outcome
            )
            file.write((json.dumps(small, ensure_ascii=False) + "\n").encode())


def _run(outcome: Outcome) -> tuple[str, str, str, int]:
    """Return what the choice among variants is made for."""
    return outcome.data, outcome.fold, outcome.target, outcome.seed


def _small(outcome: Outcome) -> dict[str, object]:
    values = {name: own for name, own in outcome.values.items() if name == outcome.target}
    return asdict(replace(outcome, query_ids=[], values=values))
