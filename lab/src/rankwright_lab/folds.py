"""Split data into folds: queries for training, for validation and for testing.

Known layouts of LETOR folders, by their file names:

- ``S1.txt ... S5.txt`` (LETOR 4.0: MQ2007, MQ2008): fold f trains on parts f, f+1 and f+2, validates on
  part f+3 and tests on part f+4.
- ``Fold1/train.txt, vali.txt, test.txt`` ... (MSLR-WEB10K and 30K, LETOR 3.0).
- ``train.txt, vali.txt, test.txt`` (Istella-S) or ``train.txt, test.txt`` (Istella; a fifth of the
  training queries becomes the validation part).
- ``set1.train.txt, set1.valid.txt, set1.test.txt`` (Yahoo). The path ``FOLDER/set2`` names
  ``set2.train.txt`` and so on, and a folder without a set stands for its first set.

All may end in ``.gz``. Files of a folder are streamed: features go to temporary files of eight bytes a value, in the
folder that ``TMPDIR`` names, and a model has the same bits as with features in memory. So Istella fits in 24 GB. A
single file, in any format of `rankwright.read_data`, is read into memory and split by query.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rankwright import RankingData, read_data, stream_data

_VALIDATION = ("vali", "valid", "validation")
_PREFIXES = ("", "set1.", "set2.")


@dataclass(frozen=True, eq=False)
class Fold:
    """Training, validation and test queries of one fold.

    Parameters
    ----------
    name
        Number of the fold.
    train, valid, test
        The three parts. They share no query.
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
        raise ValueError(
            f"k={k} folds of {data.n_queries} queries; k must be from 3 to the number of queries."
        )
    shuffled = np.random.default_rng(seed).permutation(data.n_queries)
    part = np.empty(data.n_queries, dtype=np.int64)
    for number, queries in enumerate(np.array_split(shuffled, k)):
        part[queries] = number
    for f in range(k):
        test, valid = part == f, part == (f + 1) % k
        yield Fold(str(f + 1), data.subset(~test & ~valid), data.subset(valid), data.subset(test))


def read_folds(path: str | os.PathLike[str], *, k: int = 5, seed: int = 0) -> Iterator[Fold]:
    """Yield the folds of a LETOR folder of a known layout, or of one file split by query into ``k``.

    Folds are read lazily, one at a time, but a path of no known layout is an error at once. ``k`` and
    ``seed`` are for a single file.

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
    return _layout(Path(path), k, seed).folds()


def fold_files(path: str | os.PathLike[str]) -> list[Path]:
    """Return the files that `read_folds` reads."""
    return _layout(Path(path)).files


def count_folds(path: str | os.PathLike[str]) -> int:
    """Return how many folds `read_folds` yields by default, without reading a file."""
    return _layout(Path(path)).n_folds


class _Layout(NamedTuple):
    """Files of a data set, the number of its folds, and a function that reads them."""

    files: list[Path]
    n_folds: int
    folds: Callable[[], Iterator[Fold]]


def _layout(path: Path, k: int = 5, seed: int = 0) -> _Layout:
    if path.is_file():
        return _Layout([path], k, lambda: _split(path, k, seed))
    # A path such as FOLDER/set2 is the prefix of file names, not a folder.
    one_set = _single_fold(path.parent, (f"{path.name}.",))
    for layout in (_five_parts(path), _numbered_folders(path), _single_fold(path), one_set):
        if layout is not None:
            return layout
    if not path.is_dir():
        raise ValueError(
            f"{path} is neither a file nor a folder; give a data file or a LETOR folder of a known layout."
        )
    raise ValueError(
        f"{path} has no known layout of folds; expected S1.txt to S5.txt, Fold1/train.txt and so on, or train.txt, "
        "vali.txt and test.txt (also as set1.train.txt and so on, and with a suffix .gz)."
    )


def _split(path: Path, k: int, seed: int) -> Iterator[Fold]:
    data = read_data(path)
    if data.n_queries < k:
        raise ValueError(f"{path} has {data.n_queries} queries; {k} folds need at least {k}.")
    return folds_by_query(data, k, seed=seed)


def _find(folder: Path, *names: str) -> Path | None:
    """Return the first existing file of ``name.txt``, ``name.txt.gz``."""
    for name in names:
        for ending in (".txt", ".txt.gz"):
            path = folder / f"{name}{ending}"
            if path.is_file():
                return path
    return None


def _five_parts(folder: Path) -> _Layout | None:
    found = [_find(folder, f"S{number}") for number in range(1, 6)]
    files = [path for path in found if path is not None]
    if len(files) < 5:
        return None

    def folds() -> Iterator[Fold]:
        parts = _stream(files)
        for f in range(5):
            a, b, c, valid, test = (parts[(f + i) % 5] for i in range(5))
            yield Fold(str(f + 1), RankingData.concatenate([a, b, c]), valid, test)

    return _Layout(files, len(files), folds)


def _numbered_folders(folder: Path) -> _Layout | None:
    numbers = sorted(int(path.name[4:]) for path in folder.glob("Fold*") if path.name[4:].isdigit())
    found = [_single_fold(folder / f"Fold{number}", name=str(number)) for number in numbers]
    layouts = [layout for layout in found if layout is not None]
    if not layouts:
        return None
    files = [file for layout in layouts for file in layout.files]

    def folds() -> Iterator[Fold]:
        for layout in layouts:
            yield from layout.folds()

    return _Layout(files, len(layouts), folds)


def _single_fold(
    folder: Path, prefixes: Sequence[str] = _PREFIXES, name: str = "1"
) -> _Layout | None:
    """Return the layout of a training and a test file, and optionally a validation file, of the same prefix."""
    for prefix in prefixes:
        train = _find(folder, f"{prefix}train")
        test = _find(folder, f"{prefix}test")
        if train is None or test is None:
            continue
        valid = _find(folder, *(f"{prefix}{part}" for part in _VALIDATION))
        files = [train, test] if valid is None else [train, valid, test]
        return _Layout(files, 1, partial(_read_fold, files, name))
    return None


def _read_fold(files: list[Path], name: str) -> Iterator[Fold]:
    """Read a fold. Without a validation file a fifth of the training queries takes its place."""
    train, *valid, test = _stream(files)
    if valid:
        yield Fold(name, train, valid[0], test)
    else:
        yield Fold(name, *train.split(0.2), test)


def _stream(files: Sequence[Path]) -> list[RankingData]:
    """Stream files, and give all of them the columns of the widest one: a file may lack its last features."""
    parts = [stream_data(file) for file in files]
    widest = max(parts, key=lambda part: len(part.feature_names))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r".*taken as 0 in all rows")
        return [
            part if part.X.shape[1] == widest.X.shape[1] else stream_data(file, reference=widest)
            for file, part in zip(files, parts, strict=True)
        ]
