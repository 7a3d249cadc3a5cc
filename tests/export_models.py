"""Models that are hard to export, shared by the tests of exports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

import rankwright as rw
from rankwright.data.columns import Columns
from rankwright.engines.scoring import score
from rankwright.kernels.tree_arrays import (
    AMONG,
    AS_ZERO,
    AT_MOST,
    BELOW,
    NAN_TO_DEFAULT,
    ZERO,
    ZERO_TO_DEFAULT,
    TreeArrays,
    pack,
)


def hard_rows(n: int = 800, seed: int = 0) -> tuple[Any, Any, Any]:
    """Missing values in a column, zeros in another, few values in a third, a category in the last."""
    draw = np.random.default_rng(seed)
    X = np.column_stack(
        [draw.normal(size=(n, 3)), draw.integers(0, 6, n) - 2, draw.integers(0, 9, n)]
    ).astype(float)
    y = np.clip(
        np.round(X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * X[:, 3] + np.isin(X[:, 4], (1, 4, 7)) + 1),
        0,
        4,
    )
    X[draw.random(n) < 0.3, 0] = np.nan
    X[draw.random(n) < 0.5, 1] = 0.0
    return X, y, np.arange(n) // 20


X, Y, QID = hard_rows()
TRAINING: dict[str, dict[str, Any]] = {
    "missing values": {},
    "zeros as missing": {"engine_params": {"zero_as_missing": True}},
    "use_missing off": {"engine_params": {"use_missing": False}},
    "one tree": {"n_estimators": 1},
    "500 trees": {"n_estimators": 500, "num_leaves": 4},
    "stumps": {"n_estimators": 20, "num_leaves": 2},
}


@cache
def trained(name: str) -> rw.Model:
    options = {
        "n_estimators": 30,
        "num_leaves": 15,
        "learning_rate": 0.1,
        "n_jobs": 1,
        "verbose": 0,
    }
    model: rw.Model = rw.Ranker(**(options | TRAINING[name])).fit(X, Y, qid=QID).model_
    return model


@cache
def categorical(texts: bool) -> rw.Model:
    """A model that splits a category, given as text or as codes."""
    import pandas as pd

    frame = pd.DataFrame(X, columns=["a", "b", "c", "d", "colour"])
    frame["colour"] = frame["colour"].astype(int)
    if texts:
        frame["colour"] = [f"colour {code}" for code in frame["colour"]]
    data = rw.RankingData(frame, Y, qid=QID, categorical=["colour"])
    # One category against the rest is tried for few categories only; sets need more.
    params = {"max_cat_to_onehot": 1, "min_data_per_group": 1, "cat_smooth": 1.0, "cat_l2": 0.0}
    ranker = rw.Ranker(
        n_estimators=20, learning_rate=0.1, n_jobs=1, verbose=0, engine_params=params
    )
    model: rw.Model = ranker.fit(data).model_
    assert any((tree.decision == AMONG).any() for tree in model.forest.trees())
    return model


class HandMade:
    """A forest of given trees; as much of the contract as exports use."""

    def __init__(self, trees: Sequence[TreeArrays], n_features: int) -> None:
        self._trees = list(trees)
        self.n_features = n_features
        self.n_trees = len(self._trees)

    def trees(self) -> Iterator[TreeArrays]:
        return iter(self._trees)

    def predict(self, X: Any, **_: Any) -> Any:
        return score(pack(self._trees, self.n_features), X, 0, self.n_trees, 1)


def model_of(trees: Sequence[TreeArrays], n_features: int) -> rw.Model:
    columns = Columns([f"f{column}" for column in range(n_features)], {})
    return rw.Model(HandMade(trees, n_features), columns, {})  # type: ignore[arg-type]


def stump(
    threshold: float,
    *,
    feature: int = 0,
    decision: int = AT_MOST,
    missing: int = NAN_TO_DEFAULT,
    default_left: bool = False,
    values: tuple[float, float] = (-1.5, 2.25),
) -> TreeArrays:
    return TreeArrays(
        feature=np.array([feature], dtype=np.int32),
        threshold=np.array([threshold]),
        decision=np.array([decision], dtype=np.uint8),
        missing=np.array([missing], dtype=np.uint8),
        default_left=np.array([default_left]),
        left=np.array([~0], dtype=np.int32),
        right=np.array([~1], dtype=np.int32),
        categories=(np.empty(0, dtype=np.int64),),
        value=np.array(values),
        gain=np.ones(1),
    )


def single_leaf(value: float) -> TreeArrays:
    return stump(0.0)._replace(
        **{
            name: getattr(stump(0.0), name)[:0]
            for name in TreeArrays._fields
            if name not in ("value", "categories")
        },
        categories=(),
        value=np.array([value]),
    )


BOUNDARY = float(np.float32(0.1))
THRESHOLDS = [
    *(
        0.0,
        -0.0,
        1e-35,
        -1e-35,
        ZERO,
        -ZERO,
        1e-36,
        -1e-40,
        2 * ZERO,
        -2 * ZERO,
        1e300,
        -1e300,
        np.inf,
        -np.inf,
    ),
    *(
        BOUNDARY,
        np.nextafter(BOUNDARY, 0),
        np.nextafter(BOUNDARY, 1),
        0.1,
        -0.1,
        1e-7,
        -3e-8,
        17.3,
        -1 / 3,
        1e9 + 0.5,
    ),
    *(
        float(np.nextafter(np.float32(-1), np.float32(0))),
        -1.0,
        16777217.0,
        3.4028234663852886e38,
        5e-324,
    ),
]


def special_trees(thresholds: Sequence[float] = THRESHOLDS) -> list[TreeArrays]:
    """A stump for every threshold, decision and treatment of missing values; the values tell all of them apart."""
    draw = np.random.default_rng(4)
    return [
        stump(
            threshold,
            feature=number % 3,
            decision=decision,
            missing=missing,
            default_left=default_left,
            values=tuple(draw.normal(size=2)),  # type: ignore[arg-type]
        )
        for number, threshold in enumerate(thresholds)
        for decision in (AT_MOST, BELOW)
        for missing in (AS_ZERO, NAN_TO_DEFAULT, ZERO_TO_DEFAULT)
        for default_left in (False, True)
    ]


def random_tree(n_leaves: int, draw: np.random.Generator, n_features: int = 3) -> TreeArrays:
    """A tree of random shape with thresholds of all kinds; features repeat on its paths."""
    left, right = [~0], [~1]
    while len(left) < n_leaves - 1:
        parent = draw.integers(len(left))
        side = left if draw.random() < 0.5 else right
        if side[parent] >= 0:
            continue
        node, leaf = len(left), side[parent]
        side[parent] = node
        left.append(leaf)
        right.append(~(len(right) + 1))
    n = len(left)
    pool = [0.0, ZERO, -ZERO, 0.5, -0.5, 0.1, 1.7, -2.3, 1e300, 1e-8]
    return TreeArrays(
        feature=draw.integers(n_features, size=n).astype(np.int32),
        threshold=draw.choice(pool, size=n),
        decision=draw.choice([AT_MOST, AT_MOST, BELOW], size=n).astype(np.uint8),
        missing=draw.integers(3, size=n).astype(np.uint8),
        default_left=draw.random(n) < 0.5,
        left=np.array(left, dtype=np.int32),
        right=np.array(right, dtype=np.int32),
        categories=(np.empty(0, dtype=np.int64),) * n,
        value=draw.normal(size=n + 1),
        gain=np.ones(n),
    )
