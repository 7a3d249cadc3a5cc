"""Ranking data: features, labels and queries, checked once when the object is created."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwright.data.columns import HasColumns, coded_columns, encode, matched_names
from rankwright.data.labels import (
    as_not_relevant,
    check_any_judged,
    grouped_field,
    grouped_labels,
    is_judged,
    take_named,
)
from rankwright.data.matrices import first_infinite
from rankwright.data.on_disk import take_rows
from rankwright.data.pairs import Pairs, read_pairs
from rankwright.data.queries import Queries
from rankwright.data.row_order import canonical_order
from rankwright.data.time import forward_folds, is_by_time, latest, warn_of_mixed_times
from rankwright.data.within_query import Recipe
from rankwright.support.checks import ArgumentError
from rankwright.support.frames import as_frame


class RankingData:
    """Rows of features with labels, grouped by query.

    Rows may come in any order. They are stored sorted by query (stably), and `ungroup` returns results
    to the caller's order. Every attribute below is in grouped order.

    Parameters
    ----------
    X
        Features: NumPy 2-D, SciPy sparse, pandas, polars or Arrow. NaN means missing.
    y
        Labels, finite and non-negative, 0 for not relevant, NaN for a document that was not judged; or the
        name of a column of ``X``. Several labels are given as a dict or a data frame by name, or as a list
        of names of columns of ``X``; the first is the main label. None if there are ``pairs`` alone.
    qid
        Query id per row, of any hashable type; or the name of a column of ``X``.
    group
        Instead of ``qid``: the number of rows of each query, in row order.
    sample_weight
        A weight per row, or per query in the order in which the queries first appear.
    feature_names
        Names of the columns; by default the names in the frame.
    categorical
        Columns (names or numbers) that hold categories. Columns of a frame with a categorical type need
        not be named. In arrays the values must be whole numbers from 0.
    reference
        Data with the columns and category codes to use, for example the training data if this is
        validation or test data.
    fields
        Values per row that are not features, by name, for example document ids; or names of columns of
        ``X``, which are then not features. They travel with the rows.
    pairs
        Preferences to learn from: a table with the columns ``winner``, ``loser`` and, optionally,
        ``weight`` and ``qid`` (a data frame, a dict of columns, or the path of a CSV or Parquet file), or
        an array of row numbers with two columns, or three with weights.
    document
        How ``pairs`` name the rows: an id per row, or the name of a field, or of a column of ``X`` that
        holds the id and becomes a field. Without it they name rows by number from 0, in the given order.

    Attributes
    ----------
    X : ndarray, numpy.memmap or csr_matrix
        Features [rows, columns]; categories as codes. Data from `rankwright.stream_data` has a memmap.
    y : ndarray
        Labels [rows]; the main label if there are several, 0 if there are none, NaN in unjudged rows.
    judged : ndarray
        Whether a row has all of its labels [rows].
    labels : dict
        Labels by name, the main label first [rows]. A label without a name is called ``"label"``.
    pairs : Pairs or None
        Preferences, which travel with the rows.
    qid : ndarray
        Query id [rows].
    group : ndarray
        Rows per query [queries].
    weights : ndarray or None
        Weights [rows].
    fields : dict
        Further values per row, by name [rows].
    feature_names : list of str
        Names of the columns.
    categories : dict
        For each categorical column the levels in the order of their codes, or None if the values were
        given as codes.
    named : bool
        Whether the names were given. Otherwise they are generated, f0, f1, ... for arrays, and by the
        indices in the file for LETOR text (feature 39 is f39), and matched with other data by position.
    first_index : int or None
        For LETOR text the index of the first feature, 1 or 0; None for other data.
    n_derived : int
        Number of columns at the end that are features within the query, which `with_features` added.
    n_queries, n_rows : int
        Sizes.
    queries : Queries
        Boundaries, ids and keys of the queries.

    Examples
    --------
    >>> data = RankingData([[0.1], [0.7], [0.4]], [0, 2, 1], qid=["b", "a", "b"])
    >>> data.qid.tolist(), data.y.tolist(), data.group.tolist()
    (['a', 'b', 'b'], [2.0, 0.0, 1.0], [1, 2])
    >>> data.ungroup(data.y).tolist()
    [0.0, 2.0, 1.0]
    >>> data = RankingData([[0.1], [0.7]], {"relevance": [0, 2], "margin": [3, 1]}, qid=["a", "a"])
    >>> data.labels["margin"].tolist(), data.y.tolist()
    ([3.0, 1.0], [0.0, 2.0])
    """

    def __init__(
        self,
        X: Any,
        y: Any,
        *,
        qid: Any = None,
        group: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        feature_names: Sequence[str] | None = None,
        categorical: Sequence[str | int] | None = None,
        reference: HasColumns | None = None,
        fields: Mapping[str, ArrayLike] | Sequence[str] | None = None,
        pairs: Any = None,
        document: Any = None,
    ) -> None:
        given = take_named(X, y, qid, fields, document)
        matrix, names, levels = encode(given.features, feature_names, categorical, reference)
        _check_not_empty(matrix)
        self.feature_names: list[str] = names
        self.categories = levels
        # The names of a data frame are given, but the names of an array are generated.
        self.named: bool = feature_names is not None or as_frame(given.features) is not None
        self.first_index: int | None = None
        if reference is not None:
            self.named = reference.named
            self.first_index = reference.first_index
        self.n_derived = 0

        # Rows are sorted by query once, so that all later code can work on slices.
        self.queries = Queries.of(matrix.shape[0], given.qid, group)
        self.X = matrix
        if self.queries.order is not None:
            self.X = take_rows(matrix, self.queries.order)
        # Rows are checked once they are grouped, because the error names the row and its query.
        _check_finite(self.X, names, self.queries)
        self.weights: NDArray[np.float64] | None = None
        if sample_weight is not None:
            self.weights = self.queries.per_row(sample_weight)

        self._set_labels(given.y, has_pairs=pairs is not None)
        self._set_fields(given.fields, document)
        self.pairs: Pairs | None = None
        # Pairs name documents by a field, so the fields are set before them.
        if pairs is not None:
            name = document
            if not isinstance(document, str | None):
                name = "document"  # the field that holds the given ids
            self.pairs = self._read_pairs(pairs, name, self.queries)
        elif document is not None:
            raise ValueError(
                "document says how pairs name the rows, and there are no pairs; leave it out."
            )

    def _set_labels(self, y: Any, has_pairs: bool) -> None:
        """Check the labels: the main label becomes ``y``, the others become fields."""
        self.fields: dict[str, NDArray[Any]] = {}
        if y is None:
            if not has_pairs:
                raise ValueError("there are no labels; give y, one per row, or pairs.")
            self.label_names: tuple[str, ...] = ()
            self.y: NDArray[np.float64] = np.zeros(self.n_rows)
            return
        labels = grouped_labels(y, self.queries)
        self.label_names = tuple(labels)
        self.y = labels.pop(self.label_names[0])
        self.fields |= labels

    def _set_fields(self, fields: Mapping[str, Any], document: Any) -> None:
        """Check the fields, among them ids of documents that were given as an array."""
        # Ids of documents travel with the rows as a field, like all other values per row.
        fields = dict(fields)
        if not isinstance(document, str | None):
            fields["document"] = document
        clash = sorted(fields.keys() & set(self.label_names))
        if clash and len(self.label_names) > 1:
            raise ValueError(f"{clash[0]!r} is both a label and a field; rename one of them.")
        checked = {
            name: grouped_field(name, values, self.queries) for name, values in fields.items()
        }
        self.fields = checked | self.fields

    @property
    def labels(self) -> dict[str, NDArray[np.float64]]:
        """Labels by name, the main label first [rows]; empty if there are pairs alone."""
        if not self.label_names:
            return {}
        main, *more = self.label_names
        return {main: self.y} | {name: self.fields[name] for name in more}

    @property
    def judged(self) -> NDArray[np.bool_]:
        """Whether a row has all of its labels [rows]."""
        return is_judged(self.labels, self.n_rows)

    @property
    def n_judged(self) -> int:
        """Number of rows that have all of their labels."""
        return int(np.count_nonzero(self.judged))

    @property
    def qid(self) -> NDArray[Any]:
        """Query id of each row [rows]."""
        return np.repeat(self.queries.ids, self.queries.sizes)

    @property
    def group(self) -> NDArray[np.int64]:
        """Rows of each query [queries]."""
        return self.queries.sizes

    @property
    def query_ids(self) -> NDArray[Any]:
        """Id of each query [queries]."""
        return self.queries.ids

    @property
    def query_keys(self) -> NDArray[np.uint64]:
        """Stable 64-bit key of each query, a function of its id alone [queries]."""
        return self.queries.keys

    @property
    def boundaries(self) -> NDArray[np.int64]:
        """Query q owns rows ``boundaries[q]:boundaries[q + 1]`` [queries + 1]."""
        return self.queries.boundaries

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return self.queries.n_queries

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.queries.n_rows

    @property
    def one_weight_per_query(self) -> bool:
        """Whether weights, if given, are constant within each query."""
        if self.weights is None:
            return True
        return bool(
            np.array_equal(self.weights, np.repeat(self.weights[self.boundaries[:-1]], self.group))
        )

    def ungroup(self, grouped: NDArray[Any]) -> NDArray[Any]:
        """Reorder values per row, such as scores, to the order in which the caller gave the rows."""
        return self.queries.ungroup(grouped)

    def canonical(self, *, n_jobs: int | None = None) -> RankingData:
        """Return the rows of each query in an order that depends on their content alone, as training uses them.

        `ungroup` still returns results to the caller's order. The features are copied unless they are in
        this order already.

        Examples
        --------
        >>> a = RankingData([[1.0], [2.0], [3.0]], [0, 1, 2], qid=[5, 5, 5])
        >>> b = RankingData([[3.0], [1.0], [2.0]], [2, 0, 1], qid=[5, 5, 5])
        >>> bool((a.canonical().X == b.canonical().X).all())
        True
        """
        return self._arranged(canonical_order(self, n_jobs), Recipe(), n_jobs)

    def with_features(
        self,
        recipe: Recipe,
        *,
        names: Sequence[str] | None = None,
        canonical: bool = False,
        threads: int | None = None,
    ) -> RankingData:
        """Return the rows with features within the query as last columns, optionally in canonical order.

        ``names`` are the names by which the recipe knows the columns, if they differ from the names in
        the data.

        Examples
        --------
        >>> from rankwright.data.within_query import read_recipe
        >>> data = RankingData([[1.0], [2.0], [5.0]], [0, 1, 2], qid=[5, 5, 5])
        >>> data = data.with_features(read_recipe("rank", data))
        >>> data.feature_names, data.X.tolist()
        (['f0', 'f0 [rank]'], [[1.0, 3.0], [2.0, 2.0], [5.0, 1.0]])
        """
        if names is None:
            names = self.feature_names
        order = None
        if canonical:
            order = canonical_order(self, threads)
        return self._arranged(order, recipe, threads, names)

    def _arranged(
        self,
        order: NDArray[np.int64] | None,
        recipe: Recipe,
        threads: int | None,
        names: Sequence[str] = (),
    ) -> RankingData:
        """Return the rows in another order within their queries, with the features of a recipe."""
        if order is None and not recipe:
            return self
        data = copy.copy(self)
        # A recipe puts rows in order itself, so that no second matrix is held.
        if recipe:
            data.X = recipe.extended(self.X, names, self.boundaries, order=order, threads=threads)
            data.feature_names = [*names, *recipe.names]
            data.n_derived = len(recipe.names)
        elif order is not None:
            data.X = take_rows(self.X, order)
        if order is None:
            return data
        # `ungroup` has to find the way back to the caller's rows through both orders.
        queries = self.queries
        data.queries = replace(queries, order=queries.group(np.arange(self.n_rows))[order])
        data.y = self.y[order]
        if self.weights is not None:
            data.weights = self.weights[order]
        data.fields = {name: values[order] for name, values in self.fields.items()}
        if self.pairs is not None:
            # Pairs name rows, so they need the new place of each row.
            place = np.empty_like(order)
            place[order] = np.arange(len(order))
            data.pairs = self.pairs.moved(place, queries)
        return data

    def with_pairs(
        self, pairs: Any, document: str | None = None, *, as_given: bool = False
    ) -> RankingData:
        """Return the same rows with preferences to learn from; ``pairs`` as in the constructor.

        Rows are numbered in the order of ``y`` and ``qid`` of this data, or with ``as_given`` in the order
        of the rows that it was created from, for example in a file. ``document`` names a field.

        Examples
        --------
        >>> data = RankingData([[1.0], [2.0]], [0, 1], qid=[5, 5], fields={"url": ["x", "y"]})
        >>> len(data.with_pairs({"winner": ["y"], "loser": ["x"]}, document="url").pairs)
        1
        """
        if self.pairs is not None:
            raise ValueError("the data has pairs already; give them once.")
        # Data that was read from files has an order of its own, but the caller counts
        # rows as in the file.
        queries = self.queries if as_given else self.queries.grouped()
        data = copy.copy(self)
        data.pairs = self._read_pairs(pairs, document, queries)
        return data

    def _read_pairs(self, pairs: Any, document: str | None, queries: Queries) -> Pairs:
        if document is None:
            return read_pairs(pairs, queries)
        if document not in self.fields:
            fields = ", ".join(self.fields) or "none"
            raise ArgumentError(
                "document", f"must name a field of the data; got {document!r}. It has {fields}."
            )
        return read_pairs(pairs, queries, self.fields[document])

    def with_fields(self, fields: Mapping[str, ArrayLike]) -> RankingData:
        """Return the same rows with further fields, whose values are in the order of this data.

        Examples
        --------
        >>> data = RankingData([[1.0], [2.0]], [0, 1], qid=[5, 5]).with_fields({"position": [2, 1]})
        >>> data.fields["position"].tolist()
        [2, 1]
        """
        grouped = self.queries.grouped()  # values are in the order of this data already
        data = copy.copy(self)
        data.fields = self.fields | {
            name: grouped_field(name, values, grouped) for name, values in fields.items()
        }
        return data

    def with_categorical(self, columns: Sequence[str | int]) -> RankingData:
        """Return the same rows with further columns, by name or number, as codes of categories.

        Examples
        --------
        >>> data = RankingData([[1.0, 0.5], [0.0, 0.7]], [0, 1], qid=[5, 5])
        >>> data.with_categorical(["f0"]).categories
        {'f0': None}
        """
        data = copy.copy(self)
        data.categories = coded_columns(self.X, self.feature_names, columns, self.categories)
        return data

    def check_columns(self, reference: HasColumns) -> None:
        """Raise ValueError unless this data has the columns and categories of ``reference``, in the same order.

        Columns are matched by name if both have names, otherwise by position.
        """
        names = matched_names(self.feature_names, self.named, reference)
        new_name = dict(zip(self.feature_names, names, strict=True))
        # Columns of codes, without levels, match numbers.
        levels, expected = {}, {}
        for name, values in self.categories.items():
            if values is not None:
                levels[new_name[name]] = values
        for name, values in reference.categories.items():
            if values is not None:
                expected[name] = values
        if levels != expected:
            raise ValueError(
                "the categories differ from those of the training data, so the codes would not "
                "match; create this data with reference= the training data."
            )

    def subset(self, queries: ArrayLike) -> RankingData:
        """Select queries by number or by a mask over the queries; they keep their order.

        Examples
        --------
        >>> data = RankingData([[1], [2], [3]], [0, 1, 1], qid=[7, 7, 9])
        >>> data.subset([1]).qid.tolist()
        [9]
        """
        return self._of_rows(np.repeat(self._mask_of(queries), self.group))

    def to_learn(
        self, recipe: Recipe, *, names: Sequence[str] | None = None, threads: int | None = None
    ) -> RankingData:
        """Return the judged rows as training uses them: with features within the query, in canonical order.

        Unjudged documents count in the features within the query, as they will in predictions.

        Examples
        --------
        >>> from rankwright.data.within_query import read_recipe
        >>> data = RankingData([[1.0], [2.0], [5.0]], [0, None, 2], qid=[5, 5, 5])
        >>> sorted(data.to_learn(read_recipe("rank", data)).X.tolist())
        [[1.0, 3.0], [5.0, 1.0]]
        """
        every = self.with_features(recipe, names=names, canonical=True, threads=threads)
        judged = every.only_judged()
        if judged is every:
            return every
        return judged.canonical(n_jobs=threads)

    def only_judged(self) -> RankingData:
        """Return the rows that have all of their labels; queries without such rows are left out.

        Features within the query that were added before stay as they are.

        Examples
        --------
        >>> data = RankingData([[1], [2], [3]], [0, float("nan"), 1], qid=[7, 7, 9])
        >>> data.only_judged().X.tolist()
        [[1.0], [3.0]]
        """
        judged = self.judged
        if judged.all():
            return self
        check_any_judged(None, judged)
        if self.pairs is not None:
            self._check_pairs_judged(self.pairs, judged)
        return self._of_rows(judged)

    def with_unjudged_as_not_relevant(self) -> RankingData:
        """Return the same rows with the label 0 in place of missing labels.

        Examples
        --------
        >>> data = RankingData([[1], [2]], [1, float("nan")], qid=[7, 7])
        >>> data.with_unjudged_as_not_relevant().y.tolist()
        [1.0, 0.0]
        """
        data = copy.copy(self)
        data.y = as_not_relevant(self.y)
        more = {name: as_not_relevant(self.fields[name]) for name in self.label_names[1:]}
        data.fields = self.fields | more
        return data

    def _check_pairs_judged(self, pairs: Pairs, judged: NDArray[np.bool_]) -> None:
        """Raise ValueError if a pair names a document without a label."""
        rows = np.concatenate([pairs.arrays.winner, pairs.arrays.loser])
        unjudged = rows[~judged[rows]]
        if len(unjudged):
            raise ValueError(
                f"a pair names a document without a label ({self.queries.where(int(unjudged[0]))}); "
                "give every document of a pair a label, or leave out y and learn from the pairs "
                "alone."
            )

    def _of_rows(self, rows: NDArray[np.bool_]) -> RankingData:
        """Return the rows of a mask, in the same order."""
        weights = None
        if self.weights is not None:
            weights = self.weights[rows]
        fields = {name: values[rows] for name, values in self.fields.items()}
        X = take_rows(self.X, rows)
        data = self.with_rows(X, self.y[rows], self.qid[rows], weights, fields)
        data.queries = replace(data.queries, numbered=self.queries.numbered)
        data.n_derived = self.n_derived
        if self.pairs is not None:
            place = np.where(rows, np.cumsum(rows) - 1, -1)  # -1 for a row that is left out
            data.pairs = self.pairs.moved(place, data.queries)
        return data

    def _mask_of(self, queries: ArrayLike) -> NDArray[np.bool_]:
        """Return a mask over the queries for queries that are given by number or by a mask."""
        given = np.atleast_1d(np.asarray(queries))
        # A mask is turned into numbers, so that both forms are checked in the same way.
        if given.dtype == bool:
            if given.shape != (self.n_queries,):
                raise ValueError(
                    f"the mask has shape {given.shape} for {self.n_queries} queries; give one "
                    "value per query."
                )
            given = np.flatnonzero(given)
        if given.size == 0:
            raise ValueError("no query was selected; a subset needs at least one.")
        if given.ndim != 1 or given.dtype.kind not in "iu":
            raise ValueError(
                "queries must be a list of query numbers, or a mask with one value per query."
            )
        # A query that is named twice would have its rows twice in one list.
        are_numbers = given.min() >= 0 and given.max() < self.n_queries
        if not are_numbers or len(np.unique(given)) < len(given):
            raise ValueError(
                f"queries must be distinct numbers from 0 to {self.n_queries - 1}; got "
                f"{given[:5].tolist()}..."
            )
        mask = np.zeros(self.n_queries, dtype=bool)
        mask[given] = True
        return mask

    def split(
        self, share: float = 0.2, *, random_state: int = 0, by: str | None = None, gap: float = 0.0
    ) -> tuple[RankingData, RankingData]:
        """Split by query into (the rest, a random ``share`` of the queries).

        With ``by="time"`` it is the latest ``share`` by the field ``time``, and queries of the same time
        stay together. Queries in the ``gap`` before the cut, in days or in the unit of the times, are left
        out.

        Examples
        --------
        >>> data = RankingData(np.eye(10), np.ones(10), qid=range(10))
        >>> train, test = data.split(0.3)
        >>> train.n_queries, test.n_queries
        (7, 3)
        """
        n_test = round(share * self.n_queries)
        if not 0 < n_test < self.n_queries:
            raise ValueError(
                f"a share of {share} of {self.n_queries} queries leaves one side empty; "
                "choose a share between 0 and 1 that gives each side at least one query."
            )
        if is_by_time(by, gap):
            past, future = latest(self, n_test, gap)
            return self.subset(past), self.subset(future)
        shuffled = np.random.default_rng(random_state).permutation(self.n_queries)
        warn_of_mixed_times(self, (np.argsort(shuffled) < n_test).astype(np.int64))
        return self.subset(shuffled[n_test:]), self.subset(shuffled[:n_test])

    def kfold(
        self, k: int = 5, *, random_state: int = 0, by: str | None = None, gap: float = 0.0
    ) -> Iterator[tuple[RankingData, RankingData]]:
        """Yield ``k`` pairs (train, test); each query is in exactly a single test part.

        With ``by="time"`` each test part is the next block of queries by the field ``time``, and the
        training part has all queries before it, except for those in the ``gap`` before the block.

        Examples
        --------
        >>> data = RankingData(np.eye(10), np.ones(10), qid=range(10))
        >>> [test.n_queries for _, test in data.kfold(4)]
        [3, 3, 2, 2]
        """
        least = 2
        if by is not None:
            least = 1  # the queries before the block are enough to train on
        if not least <= k <= self.n_queries:
            raise ValueError(
                f"k={k} folds of {self.n_queries} queries; k must be from {least} to the number of "
                "queries."
            )
        if is_by_time(by, gap):
            for past, future in forward_folds(self, k, gap):
                yield self.subset(past), self.subset(future)
            return
        parts = np.array_split(np.random.default_rng(random_state).permutation(self.n_queries), k)
        part_of_query = np.empty(self.n_queries, dtype=np.int64)
        for fold, part in enumerate(parts):
            part_of_query[part] = fold
        warn_of_mixed_times(self, part_of_query)
        for fold in range(k):
            test = part_of_query == fold
            yield self.subset(~test), self.subset(test)

    @staticmethod
    def concatenate(parts: Sequence[RankingData]) -> RankingData:
        """Join data sets with the same columns and different queries.

        If the sizes of the queries were given for all parts, the ids are only numbers, and the numbers of
        a part continue the numbers of the part before.

        Examples
        --------
        >>> a = RankingData([[1.0]], [1], qid=[2])
        >>> b = RankingData([[3.0]], [0], qid=[1])
        >>> RankingData.concatenate([a, b]).qid.tolist()
        [1, 2]
        """
        from rankwright.data.joining import joined

        return joined(parts)

    def with_rows(
        self, X: Any, y: Any, qid: Any, weights: Any, fields: Mapping[str, Any]
    ) -> RankingData:
        """Create data from other rows that have the columns and categories of this data.

        ``X`` holds categories as codes, and ``fields`` the labels other than the main label.

        Examples
        --------
        >>> data = RankingData([[1.0], [2.0]], [0, 1], qid=[5, 5], feature_names=["bm25"])
        >>> data.with_rows(data.X[[1]], [2], [7], None, {}).feature_names
        ['bm25']
        """
        names = self.feature_names
        data = RankingData(X, y, qid=qid, sample_weight=weights, feature_names=names, fields=fields)
        data.label_names = tuple(
            name for name in self.label_names if name in fields or name == self.label_names[0]
        )
        data.categories = self.categories
        data.named = self.named
        data.first_index = self.first_index
        return data

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        return f"RankingData({self.n_rows} rows, {self.n_queries} queries, {len(self.feature_names)} features)"


def _check_not_empty(matrix: Any) -> None:
    n_rows, n_columns = matrix.shape
    if n_rows == 0 or n_columns == 0:
        raise ValueError(
            f"the data is empty: it has {n_rows} row(s) and {n_columns} feature(s) "
            f"(shape={matrix.shape}) while a minimum of 1 is required."
        )


def _check_finite(X: Any, names: Sequence[str], queries: Queries) -> None:
    """Raise ValueError if a feature of grouped rows is infinite; NaN is a missing value."""
    place = first_infinite(X)
    if place is not None:
        row, column = place
        raise ValueError(
            f"feature {names[column]!r} is infinite at {queries.where(row)}. "
            "Use NaN for a missing value, or a large finite number."
        )
