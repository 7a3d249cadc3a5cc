"""The model: it loads and predicts without scikit-learn, an engine's library or training code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright.data.columns import (
    Columns,
    drop_columns,
    encode_features,
    frame_columns,
    further_columns,
    named_column,
)
from rankwright.data.matrices import as_dense
from rankwright.data.queries import Queries
from rankwright.data.within_query import Recipe, stored_recipe
from rankwright.engines import load_engine
from rankwright.engines.contract import Forest
from rankwright.kernels.threads import available_threads
from rankwright.kernels.tree_arrays import TreeArrays
from rankwright.persistence import has_model, is_texts, read_model, write_model
from rankwright.support.checks import ArgumentError
from rankwright.support.files import PathLike, is_path
from rankwright.support.other_libraries import library_of

if TYPE_CHECKING:
    from rankwright.calibration import Calibration
    from rankwright.explanation import Explanation
    from rankwright.linear_start import LinearStart

Floats = NDArray[np.float64]


class Ranking(NamedTuple):
    """The documents of a query, best first."""

    ids: list[Any]
    scores: Floats


class Prepared(NamedTuple):
    """Rows of the matrix for the trees, and the scores that they start from.

    These are the base scores and the scores of the linear start, each None without. The linear start
    may be given by column [rows, columns]. If exports write it as trees, ``as_trees``, it is the first
    term of the sum of the trees.
    """

    matrix: Any
    base: Floats | None
    linear: Floats | None = None
    as_trees: bool = False

    def take(self, rows: Any) -> Prepared:
        """Return some of the rows."""
        base, linear = (None if s is None else s[rows] for s in (self.base, self.linear))
        return Prepared(self.matrix[rows], base, linear, self.as_trees)

    def start(self) -> Floats | None:
        """Return the score of each row without the sum of the trees; None for 0."""
        if self.linear is None or self.as_trees:
            return self.base
        return self._linear_scores() if self.base is None else self.base + self._linear_scores()

    def first_trees(self) -> Floats | None:
        """Return the sum that the trees are added to; None for 0."""
        if self.linear is None or not self.as_trees:
            return None
        return self._linear_scores()

    def _linear_scores(self) -> Floats:
        # The parts of the columns add up exactly, so the order of the sum does not matter.
        linear: Any = self.linear
        return np.asarray(linear.sum(axis=1) if linear.ndim == 2 else linear)


class Model:
    """Trees, the columns they were trained on, and the manifest with their provenance.

    `rankwright.load` reads a model; a fitted `Ranker` has its model as ``model_``.

    Parameters
    ----------
    forest
        The trees.
    columns
        Names of the columns of the data, and levels of the categorical columns.
    manifest
        The content of ``manifest.json``: parameters, objective, metrics, versions, curves, and the
        recipe of features within the query.

    Examples
    --------
    >>> import tempfile
    >>> import rankwright as rw
    >>> train, test = rw.make_web_search(40, random_state=1).split(0.3)
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
        self.calibration = _calibration(manifest)
        # Name of the column or field with the scores that the trees add to; None if they start at 0.
        self.base_score: str | None = manifest.get("base_score")
        self.recipe = stored_recipe(manifest.get("within_query", {}), columns.feature_names)
        # The linear ranker that boosting started from; with members, those of the members and their
        # mean.
        self.starts = _starts(manifest.get("linear_start", []), columns.feature_names)
        # Number of trees of each member of an average.
        self.members: list[int] = manifest.get("members", [])
        # The manifest may come from anywhere, and the numbers become slices of the trees.
        whole = isinstance(self.members, list) and all(
            type(count) is int and count >= 0 for count in self.members
        )
        if not whole or (self.members and sum(self.members) != forest.n_trees):
            raise ValueError(
                "the trees of the members of an average, in the manifest, do not add up to the "
                "model's."
            )

    @property
    def linear(self) -> LinearStart | None:
        """The linear ranker that boosting started from, the mean of all members; None without."""
        return self.starts[-1] if self.starts else None

    @property
    def needs_queries(self) -> bool:
        """Whether the score of a document depends on the other documents of its query."""
        return bool(self.recipe) or any(start.features.within_query for start in self.starts)

    @property
    def comparison(self) -> str:
        """The part of the model that compares the documents of a query, for errors."""
        if self.recipe:
            return f"features within the query ({self.recipe.names[0]})"
        return "a linear start on features within the query"

    @property
    def feature_names(self) -> list[str]:
        """Names of the trees' columns: the columns of the data, then the features within the query."""
        return [*self.columns.feature_names, *self.recipe.names]

    @property
    def score_parts(self) -> list[str]:
        """Names of the parts of a score in contributions: the trees' columns, and the base score."""
        if self.base_score is None:
            return self.feature_names
        return [*self.feature_names, "base score"]

    def check_same_recipe(self, recipe: Recipe) -> None:
        """Raise ValueError if trees to be added would have other features within the query."""
        if self.recipe != recipe:
            raise ValueError(
                f"init_model was trained with {self.recipe.describe()}, and within_query= gives "
                f"{recipe.describe()}; its trees need the same columns."
            )

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return self.forest.n_trees

    def scoring_trees(self) -> list[TreeArrays]:
        """Return all trees that a score is the sum of, also those of a start on single documents."""
        first = [] if self.linear is None else self.linear.trees()
        return [*first, *self.forest.trees()]

    def sum_of_trees(self, matrix: Any) -> Floats:
        """Return the sum of the `scoring_trees` for each row."""
        first = None
        if self.linear is not None and not self.linear.features.within_query:
            first = self.linear.scores(matrix, None)
        return self.forest.predict(matrix, initial=first)

    def predict(
        self,
        X: Any,
        *,
        qid: Any = None,
        group: ArrayLike | None = None,
        base_score: Any = None,
        contributions: bool = False,
        calibrated: bool = False,
        n_jobs: int | None = None,
    ) -> Floats:
        """Return the score of each row, in the order of the rows.

        Parameters
        ----------
        X
            Rows: an array, a sparse matrix, a data frame or a `RankingData`. Columns of a data frame
            are matched by name, and columns of labels and query ids are ignored. Paths of Parquet
            files or LETOR text (a folder, file or pattern, or a list of them) are streamed.
        qid, group
            Which rows belong together: an id per row, the name of a column of a data frame, or
            sizes in row order. A model with features within the query needs them, unless X is a
            `RankingData` or has the query column of the training data.
        base_score
            The scores that a model with base scores starts from: an array, or the name of a column
            or field. By default the name in the training data.
        contributions
            Return the amount that each column adds to the score, the base score if the model has
            base scores, and the expected sum of the trees as the last column.
        calibrated
            Return expected labels, or probabilities of relevance, instead of scores; see
            `Ranker.calibrate`. They have the same order as the scores.
        n_jobs
            Number of threads; all cores by default. The scores do not depend on it.
        """
        # Errors come before the scores, because files may take long to read.
        calibration = self.require_calibration() if calibrated else None
        if calibrated and contributions:
            raise ValueError(
                "contributions add up to scores, not to calibrated values; ask for one of the two."
            )
        n_threads = available_threads(n_jobs)
        if is_path(X):
            if contributions or group is not None:
                raise ValueError(
                    "X names files: scores alone can be streamed, and their queries are a column of "
                    "them."
                )
            scores = self._scores_of_files(X, qid, base_score, n_threads)
        else:
            rows = self.prepare(
                *(X, qid, group, base_score), by_column=contributions, threads=n_threads
            )
            if contributions:
                return self.contributions(rows, threads=n_threads)
            scores = self.scores(rows, threads=n_threads)
        if calibration is None:
            return scores
        return calibration(scores)

    def scores(self, rows: Prepared, *, threads: int = 1) -> Floats:
        """Add the trees to the score that each row starts from."""
        sums = self.forest.predict(rows.matrix, threads=threads, initial=rows.first_trees())
        start = rows.start()
        return sums if start is None else start + sums

    def contributions(self, rows: Prepared, *, threads: int = 1) -> Floats:
        """Return the parts of the score of each row [rows, score_parts + 1].

        The rows were prepared by column. The last column is the expected sum of the trees. The columns
        add up to the score.
        """
        parts = self.forest.contributions(rows.matrix, threads=threads)
        if rows.linear is not None:
            parts[:, : rows.linear.shape[1]] += rows.linear
        if rows.base is None:
            return parts
        return np.column_stack([parts[:, :-1], rows.base, parts[:, -1]])

    def values_of_parts(self, rows: Prepared) -> Floats:
        """Return the value of each of the ``score_parts`` [rows, score_parts]."""
        values = np.asarray(as_dense(rows.matrix), dtype=np.float64)
        return values if rows.base is None else np.column_stack([values, rows.base])

    def predict_batches(
        self,
        path: Any,
        *,
        base_score: str | None = None,
        n_jobs: int | None = None,
        show: Any = None,
        **options: Any,
    ) -> Iterator[Floats]:
        """Yield scores of rows in files, block by block and in the order of the files.

        The rows are not held in memory.

        Parameters
        ----------
        path
            A folder, file or pattern of Parquet files or LETOR text, or a list of them.
        base_score
            Name of the column with the base scores; by default the name in the training data.
        n_jobs
            Number of threads; all cores by default.
        show
            A function to call with the name of the step, the bytes read so far, and the bytes in
            all.
        options
            Names of columns, as for `rankwright.stream_data`.
        """
        from rankwright.data.formats import blocks_of
        from rankwright.data.formats.contract import silent
        from rankwright.data.streaming import stream_data

        n_threads = available_threads(n_jobs)
        files = self._files(path, options, base_score)
        # Such models need all documents of a query, so the rows are grouped first.
        if self.needs_queries:
            data = stream_data(files, labelled=False, reference=self.columns, show=show or silent)
            yield data.ungroup(self.predict(data, base_score=base_score, n_jobs=n_threads))
            return
        column = base_score or self.base_score
        for block in blocks_of(files, self.columns, False, show or silent).blocks("scores"):
            start = column if column is None else block.fields.get(column, column)
            base = self.base_of(None, block.X, start, block.rows)
            rows = self._prepared(block.X, base, None, threads=n_threads)
            scores = self.scores(rows, threads=n_threads)
            yield scores[np.argsort(block.rows)]

    def _scores_of_files(self, path: Any, qid: Any, base_score: Any, threads: int) -> Floats:
        for name, value in (("qid", qid), ("base_score", base_score)):
            if value is not None and not isinstance(value, str):
                raise ValueError(
                    f"X names files, so {name} must be the name of one of their columns, not an "
                    "array."
                )
        blocks = self.predict_batches(path, base_score=base_score, qid=qid, n_jobs=threads)
        return np.concatenate(list(blocks))

    def _files(self, path: Any, options: Mapping[str, Any], base_score: str | None) -> Any:
        """Return the files to score. Names of columns default to the names in the training data."""
        from rankwright.data.files import DataFiles

        named = {name: self.manifest.get(f"{name}_column") for name in ("label", "qid")}
        named["drop"] = self.manifest.get("other_columns")
        # The command line passes None for options that the user left out.
        given = {name: value for name, value in options.items() if value is not None}
        column = base_score or self.base_score
        if column is not None and column not in self.columns.feature_names:
            given["fields"] = [column]
            dropped = given.get("drop", named["drop"]) or []
            given["drop"] = [name for name in dropped if name != column]
        return DataFiles.of(path, **{"zero_based": self.columns.first_index == 0, **named, **given})

    def require_calibration(self) -> Calibration:
        """Return the calibration, and raise ValueError if there is none."""
        if self.calibration is None:
            raise ValueError(
                "the model is not calibrated; call calibrate(...) of its Ranker with held-out "
                "queries."
            )
        return self.calibration

    def with_calibration(self, calibration: Calibration) -> Model:
        """Return the same trees with a calibration in the manifest."""
        return Model(
            self.forest, self.columns, {**self.manifest, "calibration": calibration.to_manifest()}
        )

    def explain(
        self,
        X: Any,
        a: int,
        b: int,
        *,
        qid: Any = None,
        group: ArrayLike | None = None,
        base_score: Any = None,
        n_jobs: int | None = None,
    ) -> Explanation:
        """Explain why row ``a`` of X is above or below row ``b``, by the share of each feature.

        Parameters
        ----------
        X
            Rows in memory, as for `predict`.
        a, b
            Numbers of two rows, from 0.
        qid, group, base_score, n_jobs
            As for `predict`.

        Examples
        --------
        >>> import rankwright as rw
        >>> data = rw.make_web_search(30, random_state=1)
        >>> why = rw.Ranker(n_estimators=5, verbose=0).fit(data).model_.explain(data, 3, 7)
        >>> len(why.features), why.difference == why.score_a - why.score_b
        (136, True)
        """
        from rankwright.explanation import check_rows, explain_pair

        # All rows are encoded, because features within the query depend on the other documents.
        rows = self.prepare(X, qid, group, base_score, by_column=True, threads=n_jobs)
        check_rows(a, b, rows.matrix.shape[0])
        pair = rows.take([a, b])
        values_a, values_b = map(self._shown, self.values_of_parts(pair))
        return explain_pair(
            self.score_parts,
            (values_a, values_b),
            self.contributions(pair),
            self.scores(pair),
            (a, b),
        )

    def _shown(self, row: Floats) -> list[Any]:
        """Return the values of a row, categories as their levels; a missing value is NaN."""
        shown = []
        for name, value in zip(self.score_parts, row.tolist(), strict=True):
            levels = self.columns.categories.get(name)
            # A category that the training data did not have is missing, and stays NaN.
            if levels is not None and 0 <= value < len(levels):
                value = levels[int(value)]
            shown.append(value)
        return shown

    def rank(
        self, features: Any, ids: Sequence[Any], *, base_score: Any = None, n_jobs: int | None = 1
    ) -> Ranking:
        """Rank the documents of a query.

        Parameters
        ----------
        features
            A row per document, as for `predict`; all documents of the query.
        ids
            A name for each document, in the order of the rows: any values.
        base_score
            As for `predict`.
        n_jobs
            Number of threads; None for all cores. 1 is fastest for a few hundred documents.

        Returns
        -------
        Ranking
            ``ids``, best first, and their ``scores``. Documents with equal scores keep the given
            order, as in `Ranker.ranks`.

        Examples
        --------
        >>> import rankwright as rw
        >>> data = rw.make_web_search(30, random_state=1)
        >>> model = rw.Ranker(n_estimators=5, verbose=0).fit(data).model_
        >>> ids, scores = model.rank(data.X[:4], ["a", "b", "c", "d"])
        >>> sorted(ids), bool(np.all(scores[:-1] >= scores[1:]))
        (['a', 'b', 'c', 'd'], True)
        >>> model.rank(data.X[[2, 2, 2]], [30, 10, 20]).ids
        [30, 10, 20]
        """
        matrix = self._given(features, [base_score] if isinstance(base_score, str) else [])
        base, query = self.base_of(features, matrix, base_score), None
        if self.linear is not None:
            query = Queries.of(matrix.shape[0], None, [matrix.shape[0]])
        rows = self._prepared(matrix, base, query, threads=n_jobs)
        if self.recipe:
            matrix = self.recipe.extended(
                matrix, self.columns.feature_names, np.array([0, matrix.shape[0]]), threads=n_jobs
            )
            rows = rows._replace(matrix=matrix)
        scores = self.scores(rows, threads=available_threads(n_jobs))
        if len(ids) != len(scores):
            raise ValueError(
                f"ids has {len(ids)} entries for {len(scores)} rows of features; give one per row."
            )
        # A stable order keeps ties in the order that the caller gave.
        order = np.argsort(-scores, kind="stable")
        return Ranking([ids[row] for row in order.tolist()], scores[order])

    def spread(
        self, X: Any, *, qid: Any = None, group: ArrayLike | None = None, n_jobs: int | None = None
    ) -> Floats:
        """Return the standard deviation of the members' scores of each document.

        Only differences within a query matter, so each member's mean score in the query is
        subtracted first. A value is on the scale of `predict`: if it exceeds the difference of two
        scores, their order is uncertain.

        Parameters
        ----------
        X, qid, group, n_jobs
            As for `predict`; the queries are needed.

        Examples
        --------
        >>> import rankwright as rw
        >>> train, test = rw.make_web_search(40, n_features=20, mean_length=15, random_state=1).split(0.3)
        >>> ranker = rw.Ranker(n_estimators=5, members=3, verbose=0).fit(train)
        >>> bool((ranker.model_.spread(test) >= 0).all()), ranker.out_of_sample_.shape == train.y.shape
        (True, True)
        """
        counts = self.members
        if len(counts) < 2:
            raise ValueError(
                "the model is not an average, so there is no spread; train it with "
                "Ranker(members=8)."
            )
        n_threads = available_threads(n_jobs)
        if qid is None and group is None:
            qid = self._trained_qid(X)
        matrix, queries = self._encode(X, qid, group, threads=n_threads)
        if queries is None:
            queries = Queries.of(matrix.shape[0], None, None)
        # The trees of the members follow each other, each scaled for the average.
        stops = np.cumsum(counts).tolist()
        scores = np.array(
            [
                len(counts)
                * self.forest.predict(matrix, threads=n_threads, start=stop - count, stop=stop)
                for count, stop in zip(counts, stops, strict=True)
            ]
        )
        for member, linear in enumerate(self.starts[: len(counts)]):
            scores[member] += linear.scores(matrix, queries, n_threads)
        if queries.order is not None:
            scores = scores[:, queries.order]
        means = np.add.reduceat(scores, queries.boundaries[:-1], axis=1) / queries.sizes
        spread: Floats = np.std(scores - np.repeat(means, queries.sizes, axis=1), axis=0, ddof=1)
        return np.asarray(queries.ungroup(spread))

    def staged_predict(
        self,
        X: Any,
        *,
        qid: Any = None,
        group: ArrayLike | None = None,
        base_score: Any = None,
        every: int = 1,
        n_jobs: int | None = None,
    ) -> Iterator[Floats]:
        """Yield scores after ``every`` trees, twice as many, and so on, for learning curves.

        With Langevin boosting the trees have been shrunk as often as in the final model.
        """
        n_threads = available_threads(n_jobs)
        rows = self.prepare(X, qid, group, base_score, threads=n_threads)
        start, sums = rows.start(), rows.first_trees()
        # Each stage adds its own trees only, so all stages together cost a single prediction.
        for tree in range(0, self.n_trees, every):
            stop = min(tree + every, self.n_trees)
            sums = self.forest.predict(
                rows.matrix, threads=n_threads, start=tree, stop=stop, initial=sums
            )
            yield sums if start is None else start + sums

    def importances(self) -> Floats:
        """Total gain of the splits on each column, as shares of 1."""
        gains = self.forest.importances("gain")
        # Trees without a split have no gain to share.
        if gains.sum() <= 0:
            return gains
        shares: Floats = gains / gains.sum()
        return shares

    def used_columns(self) -> NDArray[np.bool_]:
        """Return for each column of the data whether a tree uses it.

        A column counts as used if a feature within the query made from it is used, if the linear
        start has it, or if it holds the base scores.
        """
        is_split = self.forest.importances("split") > 0
        used = is_split[: len(self.columns.feature_names)].copy()
        columns, targets = self.recipe.steps(self.columns.feature_names)
        for column, features in zip(columns.tolist(), targets, strict=True):
            # A negative number stands for a kind of feature that the recipe does not have.
            used[column] |= is_split[features[features >= 0]].any()
        for start in self.starts:
            used[list(start.features.places)] = True
        if self.base_score in self.columns.feature_names:
            used[self.columns.feature_names.index(self.base_score)] = True
        return np.asarray(used, dtype=np.bool_)

    def prepare(
        self,
        X: Any,
        qid: Any = None,
        group: ArrayLike | None = None,
        base_score: Any = None,
        *,
        by_column: bool = False,
        threads: int | None = None,
    ) -> Prepared:
        """Return rows as the trees see them; the arguments are as for `predict`.

        ``by_column`` keeps the parts of the columns in a linear start apart, for contributions.
        """
        leave_out = [base_score] if isinstance(base_score, str) else []
        matrix, queries = self._encode(X, qid, group, leave_out, threads)
        base = self.base_of(X, matrix, base_score)
        return self._prepared(matrix, base, queries, by_column=by_column, threads=threads)

    def _prepared(
        self,
        matrix: Any,
        base: Floats | None,
        queries: Queries | None,
        *,
        by_column: bool = False,
        threads: int | None = None,
    ) -> Prepared:
        """Add the scores of the linear start to rows as the trees see them."""
        if self.linear is None:
            return Prepared(matrix, base)
        n_threads = available_threads(threads)
        if by_column:
            n_columns = len(self.columns.feature_names)
            linear = self.linear.contributions(matrix, queries, n_columns, n_threads)
        else:
            linear = self.linear.scores(matrix, queries, n_threads)
        return Prepared(matrix, base, linear, not self.linear.features.within_query)

    def base_of(
        self, X: Any, matrix: Any, base_score: Any = None, numbers: Any = None
    ) -> Floats | None:
        """Return the base score of each row of X, or None if the model has no base scores.

        ``matrix`` are the rows as `encode` returns them, ``base_score`` is as for `predict`, and
        ``numbers`` are the rows' numbers in errors, by default their places.
        """
        start = self.base_source(base_score)
        if start is None:
            return None
        # Most models have no base scores, and load faster without the import.
        from rankwright.data.base_score import base_scores

        return base_scores(X, matrix, start[1], self.columns.feature_names, numbers)

    def base_source(self, base_score: Any = None) -> tuple[str, Any] | None:
        """Return the field of the base scores, and ``base_score`` or its default: the field's name.

        Return None if the model has no base scores.
        """
        if self.base_score is not None:
            return self.base_score, self.base_score if base_score is None else base_score
        if base_score is not None:
            raise ArgumentError(
                "base_score", "is for models that were trained with it; leave it out."
            )
        return None

    def encode(
        self,
        X: Any,
        *,
        qid: Any = None,
        group: ArrayLike | None = None,
        leave_out: Sequence[str] = (),
        threads: int | None = None,
    ) -> Any:
        """Turn rows into the matrix for the trees, with features within the query.

        Parameters
        ----------
        X, qid, group
            As for `predict`.
        leave_out
            Columns of a data frame to ignore, besides the training data's labels and query ids.
        threads
            Number of threads; all cores by default.
        """
        return self._encode(X, qid, group, leave_out, threads)[0]

    def _encode(
        self,
        X: Any,
        qid: Any,
        group: ArrayLike | None,
        leave_out: Sequence[str] = (),
        threads: int | None = None,
    ) -> tuple[Any, Queries | None]:
        """Return the matrix for the trees, and the queries of its rows if they are known."""
        # This is a RankingData. Its module need not be imported to know.
        if hasattr(X, "check_columns"):
            if qid is not None or group is not None:
                raise ValueError(
                    "X is a RankingData, which has its queries; leave out qid and group."
                )
            X.check_columns(self.columns)
            data = X.with_features(self.recipe, names=self.columns.feature_names, threads=threads)
            return data.X, data.queries.grouped()
        if is_path(X):
            raise ValueError(
                "X names files, of which predict alone takes the names; give stream_data(path) "
                "here."
            )
        if self.needs_queries and qid is None and group is None:
            qid = self._trained_qid(X)
        ignored = list(leave_out)
        if isinstance(qid, str):
            ignored.append(qid)
        matrix = self._given(X, ignored)
        if qid is None and group is None:
            if self.needs_queries:
                raise ValueError(
                    f"the model has {self.comparison}, so it scores all documents of a query "
                    "together: pass qid= (one id per row) or group= (rows per query)."
                )
            return matrix, None
        # We check the queries even if the model does not need them.
        queries = Queries.of(matrix.shape[0], named_column(X, qid, "qid"), group)
        if not self.recipe:
            return matrix, queries
        names, order = self.columns.feature_names, queries.order
        matrix = self.recipe.extended(
            matrix, names, queries.boundaries, order=order, threads=threads
        )
        if order is None:
            return matrix, queries
        return matrix[np.argsort(order)], queries

    def _trained_qid(self, X: Any) -> str | None:
        """Return the query column of the training data if X is a data frame that has it."""
        name: str | None = self.manifest.get("qid_column")
        if name is None or name not in frame_columns(X):
            return None
        return name

    def _given(self, X: Any, leave_out: Sequence[str] = ()) -> Any:
        """Turn rows into the matrix of the columns of the data."""
        # A data frame like the training data may have columns that are not features.
        label, qid = self.manifest.get("label_column"), self.manifest.get("qid_column")
        labels = label if isinstance(label, list) else [label]
        ignored = [*labels, qid, *leave_out, *self.manifest.get("other_columns", [])]
        ignored += [self.base_score, *further_columns(X, self.columns)]
        features = self.columns.feature_names
        X = drop_columns(X, [name for name in ignored if name not in (None, *features)])
        return encode_features(X, self.columns)

    def save(self, path: PathLike) -> None:
        """Write the model to a folder, or to a file that ends in ``.zip``.

        `rankwright.persistence` describes the files.
        """
        engine = load_engine(self.manifest["engine"]["name"])
        write_model(path, self.forest.dump(), self.manifest, engine.file_name)

    def __repr__(self) -> str:
        return f"Model({self.n_trees} trees, {len(self.feature_names)} columns)"


def load(path: PathLike) -> Model:
    """Read a saved model, or the model of a run folder, to predict with.

    Loading executes no code of the model. A damaged model, or a model of a newer version, is
    refused with the reason.

    Parameters
    ----------
    path
        A folder or ``.zip`` that `Ranker.save` wrote, or a run folder of ``rankwright train``.

    Examples
    --------
    >>> import tempfile
    >>> import rankwright as rw
    >>> data = rw.make_web_search(20, random_state=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rw.Ranker(n_estimators=3, verbose=0).fit(data).save(folder + "/model")
    ...     rw.load(folder + "/model")
    Model(3 trees, 136 columns)
    """
    library = library_of(path)
    if library is not None:
        raise ValueError(
            f"path is an object of {library}; rankwright.load reads files of Ranker.save. To use "
            "the model of another library, compare its scores, or train on them as base_score."
        )
    source = Path(path)
    in_run = source / "model"
    if source.is_dir() and has_model(in_run):
        source = in_run
    content, manifest = read_model(source)
    # The hash holds for the trees, and the manifest may still be anything.
    try:
        columns = _columns(manifest)
        forest = load_engine(manifest["engine"]["name"]).load(content)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{source}: the manifest lacks or garbles {error}; it was damaged."
        ) from None
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from None
    # These entries describe the files, and the next save writes its own.
    stored = ("format_version", "model_file", "model_sha256")
    try:
        model = Model(forest, columns, {k: v for k, v in manifest.items() if k not in stored})
    except (TypeError, ValueError) as error:
        raise ValueError(f"{source}: {error}") from None
    if forest.n_features != len(model.feature_names):
        raise ValueError(
            f"{source}: the model has {forest.n_features} features and the manifest names "
            f"{len(model.feature_names)}; the files do not belong together."
        )
    return model


def _starts(entries: Any, names: Sequence[str]) -> list[LinearStart]:
    if not entries:
        return []
    # Few models have a linear start, and the others load faster without the import.
    from rankwright.linear_start import LinearStart

    if not isinstance(entries, list):
        raise ValueError("the manifest garbles the linear start; it was damaged.")
    return [LinearStart.of_manifest(entry, names) for entry in entries]


def _calibration(manifest: dict[str, Any]) -> Calibration | None:
    if manifest.get("calibration") is None:
        return None
    # Few models are calibrated, and the others load faster without the import.
    from rankwright.calibration import Calibration

    return Calibration.of_manifest(manifest["calibration"])


def _columns(manifest: dict[str, Any]) -> Columns:
    """Read the columns and check every entry.

    Without the checks, values of other types would fail later, and less clearly.
    """
    names, categories = manifest["feature_names"], manifest["categories"]
    label, engine = manifest["label_column"], manifest["engine"]
    checks = {
        "engine": isinstance(engine, dict) and isinstance(engine.get("name"), str),
        "feature_names": is_texts(names),
        "categories": isinstance(categories, dict) and all(map(_is_levels, categories.values())),
        "named": isinstance(manifest["named"], bool),
        "first_index": manifest["first_index"] in (None, 0, 1),
        "label_column": isinstance(label, str | None) or (is_texts(label) and len(label) > 0),
        "qid_column": isinstance(manifest["qid_column"], str | None),
        "other_columns": is_texts(manifest["other_columns"]),
        "base_score": isinstance(manifest.get("base_score"), str | None),
    }
    for name, valid in checks.items():
        if not valid:
            raise ValueError(f"the manifest lacks or garbles {name!r}; it was damaged.")
    if not categories.keys() <= set(names) or len(set(names)) < len(names):
        raise ValueError(
            "the manifest names a column twice, or categories of none; it was damaged."
        )
    levels = {}
    for name, values in categories.items():
        levels[name] = None if values is None else tuple(values)
    return Columns(list(names), levels, manifest["named"], manifest["first_index"])


def _is_levels(values: Any) -> bool:
    return values is None or (
        isinstance(values, list) and all(isinstance(level, str | int | float) for level in values)
    )
