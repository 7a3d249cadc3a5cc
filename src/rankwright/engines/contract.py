"""The contract of an engine: it grows trees from gradients, and keeps forests.

An engine does not know scores, rates, metrics or queries. Everything else about a training happens in
`rankwright.training`, once for all engines. `tests/test_engine_contract.py` states the contract as tests that every
engine passes.

Features are a matrix: an array in memory, an array mapped from a file (`numpy.memmap`) or a CSR matrix.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from rankwright.kernels.tree_arrays import TreeArrays
from rankwright.support.reducer import ALONE, Reducer

if TYPE_CHECKING:
    from rankwright.data.bins import Bins
    from rankwright.data.dataset import RankingData

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Needs:
    """The needs of a training that some parameters of an engine would break.

    Parameters
    ----------
    own_leaves
        The training computes leaf values, so parameters that act on the engine's own values would be ignored.
    any_scale
        Gradients are divided by a factor that changes from tree to tree, so trees must not depend on their scale.
    ordered
        Some columns have monotone constraints, so parameters that may break them cannot be used.
    """

    own_leaves: bool = False
    any_scale: bool = False
    ordered: bool = False


@dataclass(frozen=True)
class Growth:
    """The data and the parameters that trees are grown with.

    Parameters
    ----------
    parts
        The training set, then the sets that are only evaluated.
    options
        The estimator's tree parameters by their own names: ``num_leaves``, ``max_depth``, ``min_child_samples``,
        ``reg_lambda``, ``subsample``, ``colsample``, ``max_bin``.
    params
        Further parameters of the library, checked.
    seed
        Seed of row and column sampling.
    threads
        The most threads to use. Trees do not depend on it if gradients are on a grid on which sums are exact.
    reducer
        Sums over the machines that grow the trees together, for an engine with ``several_machines``.
    bins
        Edges of the bins that all of these machines agreed on; None if the grower chooses them from the training set.
    signs
        Monotone constraints: 1 for a column that may only raise the leaf values, -1 for a column that may only lower
        them, otherwise 0 [columns]. Empty without constraints.
    """

    parts: Sequence[RankingData]
    options: Mapping[str, Any]
    params: Mapping[str, Any]
    seed: int
    threads: int
    reducer: Reducer = ALONE
    bins: Bins | None = None
    signs: Sequence[int] = ()


class Tree(Protocol):
    """The newest tree of a grower, valid until the next one is grown."""

    @property
    def values(self) -> Floats:
        """The engine's own Newton step of each leaf, without a learning rate [leaves]."""

    @property
    def arrays(self) -> TreeArrays:
        """The splits as plain arrays, with the leaves in the order of ``values``."""

    def leaves(self, part: int) -> NDArray[np.int64]:
        """Leaf of each row of a part of the data."""

    def set(self, values: Floats, gain_factor: float = 1.0) -> None:
        """Decide the leaf values that the forest will have, and multiply the gains that it records by a factor."""


class Forest(Protocol):
    """Finished trees. Immutable; a score is the sum of the leaf values in the order of the trees."""

    @property
    def n_trees(self) -> int:
        """Number of trees."""

    @property
    def n_features(self) -> int:
        """Number of columns."""

    def predict(
        self,
        X: Any,
        *,
        threads: int = 1,
        start: int = 0,
        stop: int | None = None,
        initial: Floats | None = None,
    ) -> Floats:
        """Add the trees [start, stop) to an initial score of each row of a matrix, 0 by default."""

    def contributions(self, X: Any, *, threads: int = 1) -> Floats:
        """Exact SHAP values [rows, columns + 1], the last column the expected value."""

    def importances(self, kind: str) -> Floats:
        """Total gain (``"gain"``) or number of splits (``"split"``) of each column."""

    def first(self, n_trees: int) -> Self:
        """Keep the first trees only."""

    def scaled(self, factor: float) -> Self:
        """Multiply all leaf values."""

    def joined(self, other: Self) -> Self:
        """Append the trees of another forest of the same engine and columns."""

    def trees(self) -> Iterator[TreeArrays]:
        """Yield each tree as plain arrays, for exports, scorers and pruning."""

    def dump(self) -> bytes:
        """Return the content of a model file, which `Engine.load` reads."""


class Grower(Protocol):
    """Grows trees on one training set, part 0 of the data; the other parts are only evaluated."""

    @property
    def can_split(self) -> bool:
        """False if no tree can ever have a split, because all columns are constant or leaves would be too small."""

    @property
    def draws(self) -> bool:
        """True if rows or columns are sampled, so that a tree may have a split although the one before had none."""

    def resume(self, iteration: int) -> int:
        """Prepare to grow the tree number ``iteration`` as if all trees before it had just been grown.

        Returns the last iteration up to ``iteration`` from which training can continue exactly. The caller repeats the
        iterations after it.
        """

    def grow(self, grad: NDArray[np.float32], hess: NDArray[np.float32]) -> Tree | None:
        """Grow a tree from the gradient and curvature of each training row; return None if no split was worth it."""

    def forest(self) -> Forest:
        """Return the trees grown since `resume`, the newest tree included."""


class Engine(Protocol):
    """A library that grows trees. Importing its module must not import the library."""

    @property
    def name(self) -> str:
        """Its name in ``Ranker(engine=...)``."""

    @property
    def version(self) -> str:
        """Version of the library."""

    @property
    def file_name(self) -> str:
        """Name of a model file in a saved model."""

    @property
    def several_machines(self) -> bool:
        """Whether growers on several machines, each with some of the queries, can grow the same trees together."""

    def check(self, params: Mapping[str, Any], needs: Needs) -> list[str]:
        """Return one sentence for each reason why ``engine_params`` cannot be used; none if they can."""

    def decided_options(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options of the estimator that ``engine_params`` decide, by the estimator's names."""

    def grower(self, growth: Growth) -> Grower:
        """Prepare to grow trees."""

    def load(self, content: bytes) -> Forest:
        """Read a model file, and raise ValueError with the reason if it is not valid."""

    def booster(self, content: bytes) -> Any:
        """Return a model of the library itself, from the file that `rankwright.export` writes for it."""
