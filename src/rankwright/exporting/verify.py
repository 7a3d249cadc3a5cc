"""Compare the scores of an exported file, by the rules of its target's code, with the scores of its model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from rankwright.data.matrices import as_dense
from rankwright.exporting import TARGETS, load_target
from rankwright.exporting.contract import ExportOptions, Floats, Target
from rankwright.exporting.probes import probe_rows
from rankwright.exporting.walk import single
from rankwright.kernels.tree_arrays import PackedTrees, pack
from rankwright.model import Model
from rankwright.support.files import PathLike

Result = TypeVar("Result")

_ROWS_AT_ONCE = 20_000


@dataclass
class Verification:
    """How an exported file compares with its model.

    Parameters
    ----------
    target
        Name of the target.
    rows
        Rows of the data that were compared.
    probes
        Rows around thresholds that were compared.
    left_out
        Further rows with a value so close to a threshold that the target is known not to tell them apart.
    largest_difference
        Largest difference of a score.
    largest_rounding
        Largest difference that rounding of the sums explains.
    different
        Rows and probes whose difference is larger than rounding explains.
    different_with_missing
        How many of these have a missing value.
    order_changes
        Neighbours in the order of the model, within a query or among probes of a block, that change places although
        their scores differ by more than rounding.
    """

    target: str
    rows: int = 0
    probes: int = 0
    left_out: int = 0
    largest_difference: float = 0.0
    largest_rounding: float = 0.0
    different: int = 0
    different_with_missing: int = 0
    order_changes: int = 0

    @property
    def exact(self) -> bool:
        """Whether every score is the model's score, up to the rounding of its sum, and the order is the same."""
        return self.different == 0 and self.order_changes == 0

    def to_dict(self) -> dict[str, Any]:
        """Return all values, for JSON."""
        return {**asdict(self), "exact": self.exact}

    def __str__(self) -> str:
        verdict = "exact" if self.exact else "NOT exact"
        lines = [
            f"{self.target}: {verdict}",
            f"rows                {self.rows}",
            f"probes              {self.probes}",
            f"left out            {self.left_out} (too close to a threshold for the target)",
            f"largest difference  {self.largest_difference:.3g} (rounding explains up to {self.largest_rounding:.3g})",
            f"different scores    {self.different}, of these with missing values {self.different_with_missing}",
            f"order changes       {self.order_changes}",
        ]
        return "\n".join(lines)


def verify_content(
    content: bytes, model: Model, target: Target, options: ExportOptions, X: Any, qid: Any = None
) -> Verification:
    """Compare an exported file with its model on rows of data and on probes around every threshold.

    Parameters
    ----------
    content
        The file.
    model
        The model it was exported from.
    target
        Its target.
    options
        The options it was exported with.
    X
        Rows as the model sees them [rows, columns], dense or sparse; at least one.
    qid
        Query of each row; rows of a query are adjacent. All rows are a single query by default.
    """
    if X.shape[0] == 0:
        raise ValueError("the data has no rows; give at least one.")
    target.check(options)
    comparison = _Comparison(content, model, target, options)
    n_rows = X.shape[0]
    # The order is compared within queries, because only the documents of a query are ranked together.
    queries = np.zeros(n_rows, dtype=np.int64)
    if qid is not None:
        queries = np.unique(np.asarray(qid), return_inverse=True)[1]
    # Sparse rows are made dense in blocks, so that large data does not fill the memory.
    for low in range(0, n_rows, _ROWS_AT_ONCE):
        rows = X[low : low + _ROWS_AT_ONCE]
        comparison.add(_dense(rows), queries[low : low + _ROWS_AT_ONCE])
    comparison.result.rows = n_rows
    comparison.add_probes(_dense(X[: _ROWS_AT_ONCE // 10]))
    return comparison.result


def _dense(rows: Any) -> Floats:
    return np.asarray(as_dense(rows), dtype=np.float64)


def target_of_file(path: PathLike) -> str:
    """Tell the target by the usual name of its file."""
    for name in TARGETS:
        if load_target(name).file_name == Path(path).name:
            return name
    raise ValueError(
        f"{path}: the name does not tell the target; say which of {', '.join(TARGETS)} it is with --to."
    )


class _Comparison:
    """Adds up the differences on blocks of rows."""

    def __init__(
        self, content: bytes, model: Model, target: Target, options: ExportOptions
    ) -> None:
        self._content, self._model, self._target, self._options = content, model, target, options
        self._precision = self._read(lambda: target.precision(content, options))
        self._trees = model.scoring_trees()
        # A forest of the absolute leaf values gives a bound of the rounding of each row's sum.
        sizes = [tree._replace(value=np.abs(tree.value)) for tree in self._trees]
        self._sizes = pack(sizes, model.forest.n_features)
        self.result = Verification(target.name)

    def add_probes(self, rows: Floats) -> None:
        # Probes of a column with categories have to be codes that the engine can serve.
        levels = {
            column: self._options.categories[name]
            for column, name in enumerate(self._model.feature_names)
            if name in self._options.categories
        }
        for probes in probe_rows(
            self._trees,
            rows,
            single=self._precision.single_features,
            blur=self._precision.blur,
            levels=levels,
        ):
            # A difference at a blurred value is known and documented, so it is only counted.
            compared = probes.rows[~probes.blurred]
            self.result.probes += len(compared)
            self.result.left_out += int(probes.blurred.sum())
            if len(compared):
                self.add(compared, np.zeros(len(compared), dtype=np.int64))

    def add(self, values: Floats, queries: NDArray[np.int64]) -> None:
        if self._precision.single_features:
            values = single(values).astype(np.float64)
        # The model sees the rounded features too: only the file is compared, not the rounding.
        expected = self._model.sum_of_trees(values)
        scores = self._read(lambda: self._target.score(self._content, values, self._options))
        rounding = self._rounding(values)
        difference = np.abs(scores - expected)
        wrong = ~(difference <= rounding)  # a score that is NaN too
        result = self.result
        result.largest_difference = max(result.largest_difference, float(np.max(difference)))
        result.largest_rounding = max(result.largest_rounding, float(np.max(rounding)))
        result.different += int(wrong.sum())
        result.different_with_missing += int(np.isnan(values[wrong]).any(axis=1).sum())
        result.order_changes += _order_changes(expected, scores, rounding, queries)

    def _read(self, reading: Callable[[], Result]) -> Result:
        """Return the result of reading the file; raise ValueError if the file is damaged."""
        try:
            return reading()
        # These errors have a message for the user already.
        except (ValueError, ImportError, MemoryError):
            raise
        except Exception as error:  # whatever a damaged file leads to
            raise ValueError(
                f"not a file for {self._target.name}: {type(error).__name__}, {error}."
            ) from None

    def _rounding(self, values: Floats) -> Floats:
        """By how much the sum of the leaves of each row may differ, whatever the order they are added in."""
        # The unit of an operation, relative to its result.
        unit = 2.0**-24 if self._precision.single_scores else 2.0**-53
        # Each leaf is rounded and takes part in an addition, so there is a unit for each tree.
        sizes = _sums(self._sizes, values, len(self._trees))
        return unit * ((len(self._trees) + 1) * sizes + self._precision.offset)


def _sums(trees: PackedTrees, rows: Floats, n_trees: int) -> Floats:
    from rankwright.kernels.trees import score_rows

    out = np.zeros(len(rows))
    score_rows(0, len(rows), np.ascontiguousarray(rows), trees, 0, n_trees, out)
    return out


def _order_changes(
    expected: Floats, scores: Floats, rounding: Floats, queries: NDArray[np.int64]
) -> int:
    """Count neighbours in the expected order of a query that the scores put the other way round."""
    # It is enough to look at neighbours: if two documents change places, so do two neighbours between.
    order = np.lexsort((-expected, queries))
    first, second = order[:-1], order[1:]
    # Documents with scores that differ only by rounding may stand in any order.
    same = queries[first] == queries[second]
    apart = expected[first] - expected[second] > rounding[first] + rounding[second]
    return int(np.sum(same & apart & ~(scores[first] > scores[second])))
