"""Saved models: read, checked, and used to score and to rank."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright_scorer.trees import Trees, read_json, read_lightgbm
from rankwright_scorer.within_query import Recipe, read_start

Floats = NDArray[np.float64]

_FORMAT_VERSION = 1
_MANIFEST = "manifest.json"
_READERS: dict[str, Callable[[bytes], Trees]] = {"lightgbm": read_lightgbm, "xgboost": read_json}


class Ranking(NamedTuple):
    """The documents of a query, best first."""

    ids: list[Any]
    scores: Floats


class Model:
    """A model to score documents with; `load` reads it.

    Parameters
    ----------
    trees
        The trees.
    manifest
        The content of ``manifest.json``.
    """

    def __init__(self, trees: Trees, manifest: dict[str, Any]) -> None:
        self.trees = trees
        self.manifest = manifest
        self.feature_names: list[str] = list(manifest["feature_names"])
        self._levels: dict[str, list[Any] | None] = {
            name: None if levels is None else list(levels)
            for name, levels in manifest["categories"].items()
        }
        if not self._levels.keys() <= set(self.feature_names):
            raise ValueError("the manifest has categories of columns that it does not name.")
        self._base_score: str | None = manifest.get("base_score")
        self._recipe = Recipe.read(manifest.get("within_query", {}), self.feature_names)
        self._linear = read_start(manifest.get("linear_start", []), self.feature_names)
        if trees.n_features != len(self.feature_names) + self._recipe.n_features:
            raise ValueError("the trees and the manifest do not have the same columns.")

    def predict(
        self, X: Any, *, qid: Any = None, group: Any = None, base_score: Any = None
    ) -> Floats:
        """Return the score of each row, in the order of the rows.

        Parameters
        ----------
        X
            An array [rows, columns], with the codes of categories; or columns by name, such as a dict
            of arrays or a data frame, with the categories themselves. NaN is a missing value.
        qid, group
            Which rows belong together: an id per row in any order, or the number of rows of each
            query. Models that compare the documents of a query need them; other models ignore them.
        base_score
            The scores that a model with base scores starts from; by default the column of the name
            in the training data.

        Examples
        --------
        >>> import rankwright, rankwright_scorer, tempfile
        >>> train, test = rankwright.make_web_search(40, random_state=1).split(0.3)
        >>> ranker = rankwright.Ranker(n_estimators=5, verbose=0).fit(train)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ranker.save(folder + "/model")
        ...     model = rankwright_scorer.load(folder + "/model")
        >>> bool(np.all(model.predict(test.X) == ranker.predict(test.X)))
        True
        """
        matrix = self._matrix(X)
        queries: list[NDArray[np.int64]] = []
        if self._recipe.columns or (self._linear is not None and self._linear.within_query):
            queries = _queries(len(matrix), self._qid(X, qid, group), group)
        return self._scores(matrix, queries, self._start(X, matrix, base_score))

    def rank(self, features: Any, ids: Sequence[Any], *, base_score: Any = None) -> Ranking:
        """Rank the documents of a query; equal scores keep the given order.

        Parameters
        ----------
        features
            A row per document, as for `predict`; all documents of the query.
        ids
            A name for each document, in the order of the rows.
        base_score
            As for `predict`.
        """
        matrix = self._matrix(features)
        if len(ids) != len(matrix):
            raise ValueError(
                f"ids has {len(ids)} entries for {len(matrix)} rows; give one per row."
            )
        start = self._start(features, matrix, base_score)
        scores = self._scores(matrix, [np.arange(len(matrix))], start)
        order = np.argsort(-scores, kind="stable")
        return Ranking([ids[row] for row in order.tolist()], scores[order])

    def _scores(
        self, matrix: Floats, queries: list[NDArray[np.int64]], start: Floats | None
    ) -> Floats:
        sums = np.zeros(len(matrix))
        if self._linear is not None:
            linear = self._linear.scores(matrix, queries)
            # Exports write a start on single documents as trees, so it is a term of their sum.
            if not self._linear.within_query:
                sums = linear
            else:
                start = linear if start is None else start + linear
        if self._recipe.columns:
            matrix = self._recipe.fill(matrix, queries)
        self.trees.add(matrix, sums)
        return sums if start is None else start + sums

    def _matrix(self, X: Any) -> Floats:
        """Turn rows into numbers, categories into their codes."""
        if hasattr(X, "tocsr"):
            raise ValueError("X is a sparse matrix; give X.toarray().")
        names = self.feature_names
        if _is_named(X):
            absent = [name for name in names if name not in _names(X)]
            if absent:
                raise ValueError(f"X lacks the columns {', '.join(map(repr, absent[:8]))}.")
            columns = [self._column(name, X[name]) for name in names]
            matrix = np.stack(columns, axis=1)
        else:
            matrix = _numbers(X, "X")
            if matrix.ndim != 2 or matrix.shape[1] != len(names):
                raise ValueError(f"X has shape {matrix.shape}; the model has {len(names)} columns.")
            for name in self._levels:
                self._check_codes(name, matrix[:, names.index(name)])
        if np.isinf(matrix).any():
            raise ValueError("X has an infinite value; use NaN for a missing value.")
        return matrix

    def _column(self, name: str, values: Any) -> Floats:
        levels = self._levels.get(name)
        if levels is None:
            numbers = _numbers(values, f"column {name!r}")
            if name in self._levels:
                self._check_codes(name, numbers)
            return numbers
        # A category that the training data did not have counts as missing.
        codes = {level: float(code) for code, level in enumerate(levels)}
        return np.array([codes.get(value, np.nan) for value in values], dtype=np.float64)

    def _check_codes(self, name: str, codes: Floats) -> None:
        levels = self._levels[name]
        present = codes[~np.isnan(codes)]
        valid = (present >= 0) & (present == np.trunc(present))
        if levels is not None:
            valid &= present < len(levels)
        if not valid.all():
            raise ValueError(
                f"column {name!r} holds categories; give their codes, or columns by name."
            )

    def _qid(self, X: Any, qid: Any, group: Any) -> Any:
        """Return the query ids: the given ids, or the query column of the training data."""
        name = self.manifest.get("qid_column")
        if qid is None and group is None and _is_named(X) and name in _names(X):
            qid = name
        if not isinstance(qid, str):
            return qid
        if not _is_named(X) or qid not in _names(X):
            raise ValueError(f"qid={qid!r} is not a column of X.")
        return X[qid]

    def _start(self, X: Any, matrix: Floats, base_score: Any) -> Floats | None:
        """Return the base score of each row; None if the model has no base scores."""
        name = self._base_score
        if name is None:
            if base_score is not None:
                raise ValueError("base_score is for models that were trained with it.")
            return None
        if base_score is None and _is_named(X) and name in _names(X):
            base_score = X[name]
        elif base_score is None and name in self.feature_names:
            base_score = matrix[:, self.feature_names.index(name)]
        if base_score is None:
            raise ValueError(f"scores start from {name!r}; give base_score=, one score per row.")
        start = _numbers(base_score, "base_score")
        if start.shape != (len(matrix),) or not np.isfinite(start).all():
            raise ValueError("base_score must hold a finite score for each row.")
        return start


def load(path: str | os.PathLike[str]) -> Model:
    """Read the model that ``Ranker.save`` wrote: a folder, or a file that ends in ``.zip``.

    A run folder of ``rankwright train`` has a model too. Loading executes no code of the model.
    """
    source = Path(path)
    if (source / "model" / _MANIFEST).exists():
        source = source / "model"
    try:
        content, manifest = _read(source)
        engine = manifest["engine"]["name"]
        if engine not in _READERS:
            raise ValueError(f"its trees come from {engine!r}, which this version does not read.")
        return Model(_READERS[engine](content), manifest)
    except (KeyError, TypeError, AttributeError, IndexError, OverflowError) as error:
        raise ValueError(f"{source}: the model lacks or garbles {error}; it was damaged.") from None
    except (ValueError, zipfile.BadZipFile) as error:
        raise ValueError(f"{source} is no model to load: {error}") from None


def _read(source: Path) -> tuple[bytes, dict[str, Any]]:
    """Return the trees and the manifest, and check that they belong together."""
    if source.is_file():
        with zipfile.ZipFile(source) as archive:
            manifest = json.loads(archive.read(_MANIFEST))
            content = archive.read(manifest["model_file"])
    else:
        manifest = json.loads((source / _MANIFEST).read_bytes())
        # A name with folders in it could lead to any file of the machine.
        content = (source / Path(manifest["model_file"]).name).read_bytes()
    if manifest["format_version"] != _FORMAT_VERSION:
        raise ValueError(
            f"it has format {manifest['format_version']}, and this version reads format "
            f"{_FORMAT_VERSION}; upgrade rankwright-scorer."
        )
    if hashlib.sha256(content).hexdigest() != manifest["model_sha256"]:
        raise ValueError("its trees do not have the hash of the manifest; save the model again.")
    return content, manifest


def _is_named(X: Any) -> bool:
    return isinstance(X, Mapping) or hasattr(X, "columns")


def _names(X: Any) -> list[str]:
    return list(X if isinstance(X, Mapping) else X.columns)


def _numbers(values: Any, what: str) -> Floats:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{what} must hold numbers, NaN for a missing value.") from None


def _queries(n_rows: int, qid: Any, group: Any) -> list[NDArray[np.int64]]:
    """Return the rows of each query."""
    if qid is None and group is None:
        raise ValueError(
            "the model compares the documents of a query: pass qid= (an id per row) or group= (rows "
            "per query)."
        )
    if qid is None:
        sizes = np.asarray(group)
        if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or (sizes < 1).any():
            raise ValueError("group must hold the number of rows of each query.")
        qid = np.repeat(np.arange(len(sizes)), sizes)
    ids = np.asarray(qid)
    if ids.shape != (n_rows,):
        raise ValueError(
            f"the queries have {ids.size} rows, and X has {n_rows}; give an id per row."
        )
    _, numbers = np.unique(ids, return_inverse=True)
    order = np.argsort(numbers, kind="stable")
    return np.split(order, np.cumsum(np.bincount(numbers))[:-1])
