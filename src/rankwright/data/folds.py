"""Folds: queries for training, for validation and for testing.

Known layouts of LETOR folders, by their file names:

- ``S1.txt ... S5.txt`` (LETOR 4.0: MQ2007, MQ2008): fold f trains on parts f, f+1, f+2, validates on f+3, tests on f+4.
- ``Fold1/train.txt, vali.txt, test.txt`` ... (MSLR-WEB10K and 30K, LETOR 3.0).
- ``train.txt, vali.txt, test.txt`` (Istella-S) or ``train.txt, test.txt`` (Istella; a fifth of the training queries
  becomes the validation part).
- ``set1.train.txt, set1.valid.txt, set1.test.txt`` (Yahoo).

All may end in ``.gz``. A single file, in any format of `read_data`, is split by query.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rankwright.data.dataset import RankingData
from rankwright.data.letor import read_letor
from rankwright.data.tables import read_data

_VALIDATION = ("vali", "valid", "validation")


@dataclass(frozen=True, eq=False)
class Fold:
    """Training, validation and test queries of one fold.

    Parameters
    ----------
    name
        Number of the fold.
    train, valid, test
        The three parts; they share no query.
    """

    name: str
    train: RankingData
    valid: RankingData
    test: RankingData


def folds_by_query(data: RankingData, k: int = 5, *, seed: int = 0) -> Iterator[Fold]:
    """Yield ``k`` folds: each query is in the test part once, in the validation part once, else in training.

    Examples
    --------
    >>> from rankwright import make_web_search
    >>> [(fold.train.n_queries, fold.test.n_queries) for fold in folds_by_query(make_web_search(20), 5)]
    [(12, 4), (12, 4), (12, 4), (12, 4), (12, 4)]
    """
    if not 3 <= k <= data.n_queries:
        raise ValueError(f"k={k} folds of {data.n_queries} queries; k must be from 3 to the number of queries.")
    part = np.empty(data.n_queries, dtype=np.int64)
    for number, queries in enumerate(np.array_split(np.random.default_rng(seed).permutation(data.n_queries), k)):
        part[queries] = number
    for f in range(k):
        test, valid = part == f, part == (f + 1) % k
        yield Fold(str(f + 1), data.subset(~test & ~valid), data.subset(valid), data.subset(test))


def read_folds(path: str | os.PathLike[str], *, k: int = 5, seed: int = 0) -> Iterator[Fold]:
    """Yield the folds of a LETOR folder of a known layout, or of one file split by query into ``k``.

    Folds are read lazily, one at a time. ``k`` and ``seed`` are for a single file.

    Examples
    --------
    >>> import tempfile
    >>> from rankwright import make_web_search, write_letor
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for part, data in enumerate(make_web_search(10, n_features=20).kfold(5)):
    ...         write_letor(data[1], f"{folder}/S{part + 1}.txt")
    ...     [(fold.name, fold.train.n_queries) for fold in read_folds(folder)]
    [('1', 6), ('2', 6), ('3', 6), ('4', 6), ('5', 6)]
    """
    folder = Path(path)
    if folder.is_file():
        return folds_by_query(read_data(folder), k, seed=seed)
    if not folder.is_dir():
        raise ValueError(
            f"{folder} is neither a file nor a folder; give a data file or a LETOR folder of a known layout."
        )
    layouts: tuple[Callable[[Path], Iterator[Fold] | None], ...] = (_five_parts, _numbered_folders, _single_fold)
    for layout in layouts:
        folds = layout(folder)
        if folds is not None:
            return folds
    raise ValueError(
        f"{folder} has no known layout of folds; expected S1.txt to S5.txt, Fold1/train.txt and so on, or train.txt, "
        "vali.txt and test.txt (also with a prefix such as set1. and a suffix .gz)."
    )


def _find(folder: Path, *names: str) -> Path | None:
    """Return the first existing file of ``name.txt``, ``name.txt.gz``."""
    paths = (folder / f"{prefix}{name}.txt{gz}" for name in names for prefix in ("", "set1.") for gz in ("", ".gz"))
    return next((path for path in paths if path.is_file()), None)


def _five_parts(folder: Path) -> Iterator[Fold] | None:
    files = [path for path in (_find(folder, f"S{number}") for number in range(1, 6)) if path is not None]
    if len(files) < 5:
        return None

    def folds() -> Iterator[Fold]:
        parts = read_letor(files)
        for f in range(5):
            a, b, c, valid, test = (parts[(f + i) % 5] for i in range(5))
            yield Fold(str(f + 1), RankingData.concatenate([a, b, c]), valid, test)

    return folds()


def _numbered_folders(folder: Path) -> Iterator[Fold] | None:
    numbered = [path for path in folder.glob("Fold*") if path.name[4:].isdigit() and _single_fold(path) is not None]
    if not numbered:
        return None
    numbered.sort(key=lambda path: int(path.name[4:]))
    return (fold for path in numbered for fold in _single_fold(path, path.name[4:]) or ())


def _single_fold(folder: Path, name: str = "1") -> Iterator[Fold] | None:
    train, valid, test = _find(folder, "train"), _find(folder, *_VALIDATION), _find(folder, "test")
    if train is None or test is None:
        return None

    def folds() -> Iterator[Fold]:
        if valid is not None:
            parts = read_letor([train, valid, test])
            yield Fold(name, *parts)
        else:
            train_data, test_data = read_letor([train, test])
            yield Fold(name, *train_data.split(0.2), test_data)

    return folds()
