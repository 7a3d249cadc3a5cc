"""A light model: it loads and predicts without scikit-learn, an engine's library or any training code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright._io import PathLike
from rankwright.data.encoding import Columns, drop_columns, encode_features, generated_names
from rankwright.engines import load_engine
from rankwright.engines.contract import Forest
from rankwright.kernels.threads import available_threads
from rankwright.persistence import has_model, read_model, write_model

Floats = NDArray[np.float64]


class Ranking(NamedTuple):
    """The documents of one query, best first."""

    ids: list[Any]
    scores: Floats


class Model:
    """Trees, the columns they were trained on, and the manifest with their provenance.

    `rankwright.load` reads one; a fitted `Ranker` has one as ``model_``.

    Parameters
    ----------
    forest
        The trees.
    columns
        Names of the columns, and levels of the categorical ones.
    manifest
        What ``manifest.json`` holds: parameters, objective, metrics, versions, curves.

    Examples
    --------
    >>> import tempfile
    >>> import rankwright as rw
    >>> train, test = rw.make_web_search(40, seed=1).split(0.3)
    >>> ranker = rw.Ranker(n_estimators=5, verbose=0).fit(train)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ranker.save(folder + "/model")
    ...     model = rw.load(folder + "/model")
    >>> bool(np.all(model.predict(test) == ranker.predict(test)))
    True
    """

    def __init__(self, forest: Forest, columns: Columns, manifest: dict[str, Any]) -> None:
        self.forest = forest
        self.columns = columns
        self.manifest = manifest

    @property
    def feature_names(self) -> list[str]:
        """Names of the columns."""
        return self.columns.feature_names

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return self.forest.n_trees

    def predict(self, X: Any, *, contributions: bool = False, threads: int | None = None) -> Floats:
        """Scores of rows, in their order; with ``contributions`` the SHAP values [rows, columns + 1] they sum.

        Parameters
        ----------
        X
            Rows: an array, a sparse matrix, a data frame (columns are matched by name; those of the labels and query
            ids are ignored) or a `RankingData`, whose rows are in its own order.
        contributions
            Return what each column adds to the score, and the expected score as the last column. This needs the
            engine's library.
        threads
            Number of threads; all cores by default. The scores do not depend on it.
        """
        matrix, n_threads = self.encode(X), available_threads(threads)
        if contributions:
            return self.forest.contributions(matrix, threads=n_threads)
        return self.forest.predict(matrix, threads=n_threads)

    def rank(self, features: Any, ids: Sequence[Any], *, threads: int | None = 1) -> Ranking:
        """Rank the documents of one query.

        Parameters
        ----------
        features
            One row per document, as for `predict`.
        ids
            What to call each document, in the order of the rows: any values.
        threads
            Number of threads; None for all cores. One is fastest for a few hundred documents.

        Returns
        -------
        Ranking
            ``ids``, best first, and their ``scores``. Documents with equal scores keep the given order, as in
            `Ranker.rank`.

        Examples
        --------
        >>> import rankwright as rw
        >>> data = rw.make_web_search(30, seed=1)
        >>> model = rw.Ranker(n_estimators=5, verbose=0).fit(data).model_
        >>> ids, scores = model.rank(data.X[:4], ["a", "b", "c", "d"])
        >>> sorted(ids), bool(np.all(scores[:-1] >= scores[1:]))
        (['a', 'b', 'c', 'd'], True)
        >>> model.rank(data.X[[2, 2, 2]], [30, 10, 20]).ids
        [30, 10, 20]
        """
        scores = self.predict(features, threads=threads)
        if len(ids) != len(scores):
            raise ValueError(f"ids has {len(ids)} entries for {len(scores)} rows of features; give one per row.")
        order = np.argsort(-scores, kind="stable")
        return Ranking([ids[row] for row in order.tolist()], scores[order])

    def staged_predict(self, X: Any, *, every: int = 1, threads: int | None = None) -> Iterator[Floats]:
        """Yield scores after ``every`` trees, twice as many, and so on: for learning curves."""
        matrix, n_threads = self.encode(X), available_threads(threads)
        scores = np.zeros(matrix.shape[0])
        for start in range(0, self.n_trees, every):
            stop = min(start + every, self.n_trees)
            scores = scores + self.forest.predict(matrix, threads=n_threads, start=start, stop=stop)
            yield scores

    def importances(self) -> Floats:
        """Total gain of the splits on each column, as shares of 1."""
        gains = self.forest.importances("gain")
        return gains / gains.sum() if gains.sum() > 0 else gains

    def encode(self, X: Any, leave_out: Sequence[str] = ()) -> Any:
        """Turn rows into the matrix that the trees see; ``leave_out`` names columns of a frame to ignore."""
        if hasattr(X, "check_columns"):  # a RankingData, whose module need not be imported to tell
            X.check_columns(self.columns)
            return X.X
        others = [self.manifest.get("label_column"), self.manifest.get("qid_column"), *leave_out]
        return encode_features(drop_columns(X, [name for name in others if name is not None]), self.columns)

    def save(self, path: PathLike) -> None:
        """Write the model to a folder, or to a file that ends in ``.zip``; see `rankwright.persistence`."""
        engine = load_engine(self.manifest["engine"]["name"])
        write_model(path, self.forest.dump(), self.manifest, engine.file_name)

    def __repr__(self) -> str:
        return f"Model({self.n_trees} trees, {len(self.feature_names)} columns)"


def load(path: PathLike) -> Model:
    """Read a saved model, or the model of a run folder, to predict with.

    Nothing in it is executed. A damaged model, or one of a newer version, is refused with the reason.

    Parameters
    ----------
    path
        A folder or ``.zip`` that `Ranker.save` wrote, or a run folder of ``rankwright train``.

    Examples
    --------
    >>> import tempfile
    >>> import rankwright as rw
    >>> data = rw.make_web_search(20, seed=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rw.Ranker(n_estimators=3, verbose=0).fit(data).save(folder + "/model")
    ...     rw.load(folder + "/model")
    Model(3 trees, 136 columns)
    """
    source = Path(path)
    in_run = source / "model"
    if source.is_dir() and has_model(in_run):
        source = in_run
    content, manifest = read_model(source)
    try:
        columns = _columns(manifest)
        forest = load_engine(manifest["engine"]["name"]).load(content)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{source}: the manifest lacks or garbles {error}; it was damaged.") from None
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from None
    if forest.n_features != len(columns.feature_names):
        raise ValueError(
            f"{source}: the model has {forest.n_features} features and the manifest names "
            f"{len(columns.feature_names)}; the files do not belong together."
        )
    stored = ("format_version", "model_file", "model_sha256")
    return Model(forest, columns, {k: v for k, v in manifest.items() if k not in stored})


def _columns(manifest: dict[str, Any]) -> Columns:
    """Read the columns, after a look at every entry: values of other types would fail later, and less clearly."""
    names, categories = manifest["feature_names"], manifest["categories"]
    checks = {
        "feature_names": isinstance(names, list) and all(isinstance(name, str) for name in names),
        "categories": isinstance(categories, dict) and all(map(_is_levels, categories.values())),
        "named": isinstance(manifest.get("named", True), bool),
        "first_index": manifest.get("first_index") in (None, 0, 1),
        "label_column": isinstance(manifest.get("label_column"), str | None),
        "qid_column": isinstance(manifest.get("qid_column"), str | None),
    }
    for name, valid in checks.items():
        if not valid:
            raise ValueError(f"the manifest lacks or garbles {name!r}; it was damaged.")
    if not categories.keys() <= set(names) or len(set(names)) < len(names):
        raise ValueError("the manifest names a column twice, or categories of none; it was damaged.")
    levels = {name: None if known is None else tuple(known) for name, known in categories.items()}
    # The first models called the columns of arrays and of LETOR text f0, f1, ... alike, some as if they were given.
    named = bool(manifest.get("named", True)) and ("first_index" in manifest or names != generated_names(len(names)))
    return Columns(list(names), levels, named, manifest.get("first_index", None if named else 1))


def _is_levels(known: Any) -> bool:
    return known is None or (isinstance(known, list) and all(isinstance(level, str | int | float) for level in known))
