"""WithinQuery: features within the query as a transformer of scikit-learn, for other estimators."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from rankwright.data.columns import Columns, encode, encode_features
from rankwright.data.queries import Queries
from rankwright.data.within_query import Option, Recipe, read_recipe
from rankwright.support.frames import as_frame


class WithinQuery(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Adds features that compare a document with the other documents of its query.

    Whether a score of 12 is high depends on the scores of the other documents. For the values x of
    a column in a query:

    - ``rank``: 1 for the largest; equal values share the mean of their ranks.
    - ``z``: (x - mean) / standard deviation, or 0 if all are equal.
    - ``gap``: max - x.
    - ``share``: x / sum of |x|, or 0 if all are 0.
    - ``mean``, ``max``: the level of the query.
    - ``rrf``: 1 / (60 + rank), the term of reciprocal rank fusion.

    Missing values are left out and stay missing. Values are rounded to 32 bits, and do not depend on
    the order of rows. `Ranker` has the same features as its parameter ``within_query``, and keeps
    the recipe in the model.

    Parameters
    ----------
    features
        One or several of these for all columns that are not categorical, for example ``"rank"`` or
        ``["rank", "z"]``, or a dict of them by column, for example ``{"bm25": ["rank", "gap"]}``.

    Examples
    --------
    >>> X = np.array([[3.0], [9.0], [9.0], [4.0]])
    >>> transformer = WithinQuery("rank gap").fit(X)
    >>> transformer.transform(X, qid=["a", "a", "a", "b"])
    array([[3. , 3. , 6. ],
           [9. , 1.5, 0. ],
           [9. , 1.5, 0. ],
           [4. , 1. , 0. ]])
    >>> transformer.get_feature_names_out().tolist()
    ['f0', 'f0 [rank]', 'f0 [gap]']
    """

    # scikit-learn's metadata routing passes query ids on without a request by the user.
    __metadata_request__fit = {"qid": True}  # noqa: RUF012  # scikit-learn reads it from the class
    __metadata_request__transform = {"qid": True}  # noqa: RUF012

    def __init__(self, features: Option = "rank") -> None:
        self.features = features

    def fit(self, X: Any, y: Any = None, *, qid: Any = None) -> Self:
        """Learn the columns; labels and queries are not needed."""
        _, names, levels = encode(X)
        named = as_frame(X) is not None
        self.columns_ = Columns(names, levels, named)
        if self.features is None:
            raise ValueError("features is None; name at least one, such as 'rank'.")
        self.recipe_ = read_recipe(self.features, self.columns_, "features")
        self.n_features_in_ = len(names)
        # After a second fit on an array, the names of an earlier data frame must be gone.
        if named:
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return self

    def transform(self, X: Any, *, qid: Any = None, group: ArrayLike | None = None) -> Any:
        """Return the columns, with categories as codes, and the features behind them.

        Parameters
        ----------
        X
            Rows: an array, a sparse matrix or a data frame with the columns of ``fit``.
        qid, group
            Which rows belong together: an id per row in any order, or sizes in row order.
        """
        check_is_fitted(self)
        # scikit-learn's checks of estimators expect this message.
        shape: tuple[int, ...] = getattr(X, "shape", ())
        if not self.columns_.named and len(shape) == 2 and shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {shape[1]} features, but WithinQuery is expecting {self.n_features_in_} "
                "features as input."
            )
        matrix = encode_features(X, self.columns_)
        queries = Queries.of(matrix.shape[0], qid, group)
        order = queries.order
        matrix = self.recipe_.extended(
            matrix, self.columns_.feature_names, queries.boundaries, order=order
        )
        if order is None:
            return matrix
        # The features are computed query by query, and the caller's order is restored.
        return matrix[np.argsort(order)]

    def fit_transform(
        self, X: Any, y: Any = None, *, qid: Any = None, group: ArrayLike | None = None
    ) -> Any:
        """Learn the columns, and transform them."""
        return self.fit(X, y).transform(X, qid=qid, group=group)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns of the result, for example ``bm25 [rank]``.

        ``input_features`` names the columns of an array, as an earlier step of a pipeline does.
        They must be the same as the names in ``fit``, if there were names.
        """
        check_is_fitted(self)
        names = self.columns_.feature_names
        if input_features is None:
            return np.array([*names, *self.recipe_.names], dtype=object)
        given = [str(name) for name in input_features]
        # scikit-learn's checks of estimators expect these messages too.
        if len(given) != len(names):
            raise ValueError(
                f"input_features should have length equal to number of features ({len(names)}), got "
                f"{len(given)}"
            )
        if self.columns_.named and given != names:
            raise ValueError("input_features is not equal to feature_names_in_")
        # The names of the features begin with the names that an earlier step gave to the columns.
        renamed = dict(zip(names, given, strict=True))
        sources = tuple((renamed[name], kinds) for name, kinds in self.recipe_.sources)
        return np.array([*given, *Recipe(sources).names], dtype=object)

    def __sklearn_tags__(self) -> Any:
        """Return the data that this transformer takes, for scikit-learn."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags
