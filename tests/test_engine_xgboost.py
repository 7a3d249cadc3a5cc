"""Facts of XGBoost that the engine rests on, and what it adds: columns with missing values twice, a file of trees."""

from __future__ import annotations

import itertools
import json
import math
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import rankwright as rw
from rankwright import Ranker, RankingData
from rankwright.data.bins import Bins
from rankwright.engines import load_engine
from rankwright.engines.contract import Growth, Needs
from rankwright.engines.xgboost.binned import Layout
from rankwright.engines.xgboost.forest import GrownTree, XGBoostForest
from rankwright.engines.xgboost.grower import _matrix_of
from rankwright.exporting import TARGETS, export_options, load_target
from rankwright.exporting.verify import verify_content
from rankwright.kernels.tree_arrays import AMONG, TreeArrays
from small import TRAIN, VALID, WHOLE, quick
from test_engine_contract import HARD, HARD_PARTS, OPTIONS, gradients, on_grid

ENGINE = load_engine("xgboost")


def grower(
    parts: Any = (TRAIN, VALID),
    params: Any = None,
    threads: int = 1,
    bins: Bins | None = None,
    **changes: Any,
) -> Any:
    growth = Growth(list(parts), OPTIONS | changes, params or {}, 5, threads, bins=bins)
    return ENGINE.grower(growth)


def grown(parts: Any, iterations: int = 6, params: Any = None, **changes: Any) -> XGBoostForest:
    one = grower(parts, params, **changes)
    one.resume(0)
    for iteration in range(iterations):
        one.grow(*gradients(iteration, HARD if parts[0].n_rows == HARD.n_rows else TRAIN))
    return one.forest()  # type: ignore[no-any-return]


def test_xgboost_makes_no_bins_of_its_own_from_bin_numbers() -> None:
    draw = np.random.default_rng(0)
    X = np.column_stack(
        [draw.normal(size=5000), draw.integers(0, 3, 5000), draw.choice([0.0, np.nan, 2.0], 5000)]
    )
    bins = Bins.of(X, 200)
    layout = Layout(bins)
    assert layout.column_of.tolist() == [0, 1, 2, 2]
    starts, cuts = _matrix_of(bins.encode(X), layout, 1).get_quantile_cut()
    for number, expected in enumerate(([*range(200)], [0, 1, 2], [0, 1, 255], [0, 1, 2])):
        own = cuts[
            starts[number] : starts[number + 1]
        ]  # from just below the first value to beyond the last
        assert own[1:-1].tolist() == expected[1:]
        assert own[0] <= expected[0]
        assert own[-1] > expected[-1]


def test_bins_may_be_given() -> None:
    own = grower(HARD_PARTS, **WHOLE)._layout.bins
    few = Bins.of(HARD_PARTS[0].X, 4)
    expected = grown(HARD_PARTS, **WHOLE)
    assert grown(HARD_PARTS, bins=own, **WHOLE).dump() == expected.dump()
    thresholds = [
        {
            float(edge)
            for tree in grown(HARD_PARTS, bins=bins, **WHOLE).trees()
            for edge in tree.threshold
        }
        for bins in (own, few)
    ]
    assert thresholds[1] <= {np.inf, *np.concatenate(few.edges).tolist()}
    assert not thresholds[0] <= thresholds[1]


def test_only_sampled_columns_are_split() -> None:
    seen = []
    one = grower(subsample=1.0, colsample=0.2, num_leaves=31, min_child_samples=1)
    one.resume(0)
    for iteration in range(10):
        one.grow(*gradients(iteration))
    for tree in one.forest().trees():
        assert len(set(tree.feature)) <= round(0.2 * TRAIN.X.shape[1])
        seen.append(frozenset(tree.feature.tolist()))
    assert len(set(seen)) > 5
    assert len(set().union(*seen)) > 15


def test_rows_that_are_not_sampled_do_not_count() -> None:
    one = grower(subsample=0.3, colsample=1.0)
    drawn = one._drawn_rows(4)
    assert 0.2 < drawn.mean() < 0.4
    grad, hess = gradients(4)
    one.resume(4)
    tree = one.grow(grad, hess)
    leaves = tree.leaves(0)
    g, h = (np.bincount(leaves[drawn], values[drawn].astype(float)) for values in (grad, hess))
    np.testing.assert_allclose(tree.values, -g / (h + OPTIONS["reg_lambda"]), rtol=1e-6)
    assert len(tree.leaves(0)) == TRAIN.n_rows


@pytest.mark.parametrize("below", [False, True])
def test_missing_values_go_to_the_better_side(below: bool) -> None:
    x = np.repeat([1.0, 2.0, 3.0, np.nan], 100)
    with_them = 1.0 if below else 3.0  # missing values behave like this one
    data = RankingData(x[:, None], np.zeros(400), group=[400])
    one = grower([data], num_leaves=2, min_child_samples=1, **WHOLE)
    one.resume(0)
    one.grow(on_grid(np.where(np.isnan(x) | (x == with_them), 1.0, -1.0)), on_grid(np.ones(400)))
    (tree,) = one.forest().trees()
    assert tree.default_left.tolist() == [below]
    assert tree.threshold.tolist() == [1.5 if below else 2.5]


def test_a_split_of_missing_values_alone() -> None:
    x = np.repeat([1.0, 2.0, np.nan], 100)
    data = RankingData(x[:, None], np.zeros(300), group=[300])
    one = grower([data], num_leaves=2, min_child_samples=1, **WHOLE)
    one.resume(0)
    tree = one.grow(on_grid(np.where(np.isnan(x), 1.0, -1.0)), on_grid(np.ones(300)))
    (arrays,) = one.forest().trees()
    assert arrays.threshold.tolist() == [math.inf]
    assert not arrays.default_left[0]
    assert len(set(zip(tree.leaves(0), np.isnan(x), strict=True))) == 2
    assert np.array_equal(
        ENGINE.load(one.forest().dump()).predict(data.X), one.forest().predict(data.X)
    )


@pytest.mark.parametrize("params", [{}, {"max_cat_to_onehot": 1}])
@pytest.mark.parametrize("side", [0, 1])
def test_a_missing_category_is_one_more(params: dict[str, int], side: int) -> None:
    draw = np.random.default_rng(3)
    x = draw.integers(0, 8, 2000).astype(float)
    x[draw.random(2000) < 0.2] = np.nan
    chosen = np.isin(x, (1, 4, 6)) ^ bool(side) ^ np.isnan(x)
    data = RankingData(x[:, None], np.zeros(2000), group=[2000], categorical=[0])
    one = grower([data], params, num_leaves=8, min_child_samples=1, **WHOLE)
    one.resume(0)
    tree = one.grow(on_grid(np.where(chosen, 1.0, -1.0)), on_grid(np.ones(2000)))
    assert {
        bool(part.any()) and bool(part.all())
        for part in (chosen[tree.leaves(0) == leaf] for leaf in range(2))
    }
    values = one.forest().predict(data.X)
    assert np.array_equal(values < 0, chosen)
    assert any((arrays.decision == AMONG).any() for arrays in one.forest().trees())
    unknown = one.forest().predict(np.array([[77.0]]))
    assert np.isfinite(unknown).all()


def test_leaves_have_the_curvature_of_the_least_number_of_mean_rows() -> None:
    grad, _ = gradients(0)
    hess = on_grid(np.where(np.arange(TRAIN.n_rows) % 2, 0.25, 0.75))
    one = grower(num_leaves=500, min_child_samples=30, **WHOLE)
    one.resume(0)
    tree = one.grow(grad, hess)
    assert np.bincount(tree.leaves(0), hess).min() >= 30 * hess.mean()
    with_more = grower(
        params={"min_child_weight": 40.0}, num_leaves=500, min_child_samples=30, **WHOLE
    )
    with_more.resume(0)
    assert np.bincount(with_more.grow(grad, hess).leaves(0), hess).min() >= 40


def test_interaction_constraints_hold_where_columns_are_doubled() -> None:
    groups = [[0, 1], [2, 3]]
    forest = grown(HARD_PARTS, 10, {"interaction_constraints": groups}, num_leaves=24, **WHOLE)
    for tree in forest.trees():
        parents = {
            int(child): node
            for node in range(len(tree.left))
            for child in (tree.left[node], tree.right[node])
        }
        for leaf in range(len(tree.value)):
            used, node = set(), parents.get(~leaf)
            while node is not None:
                used.add(int(tree.feature[node]))
                node = parents.get(node)
            assert any(used <= set(group) for group in [*groups, [4]]), used


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"eta": 0.1}, "use learning_rate= instead"),
        ({"max_leaves": 4}, "use num_leaves= instead"),
        ({"tree_method": "exact"}, "from bins"),
        ({"colsample_bynode": 0.5}, "a resumed training would differ"),
        ({"gamma": 1.0, "min_split_loss": 2.0}, "two names of one parameter"),
        ({"min_child_wight": 1.0}, "did you mean 'min_child_weight'"),
        ({"max_bin": 1}, "give a whole number from 2 to 65534"),
    ],
)
def test_parameters_that_cannot_be_used(params: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        quick(engine="xgboost", engine_params=params).check_params()


def test_constraints_of_columns_that_do_not_exist() -> None:
    params = {"interaction_constraints": [[99]]}
    with pytest.raises(ValueError, match="engine_params has interaction_constraints="):
        quick(engine="xgboost", objective="lambdamart", engine_params=params).fit(TRAIN)


def test_parameters_that_depend_on_the_scale() -> None:
    assert ENGINE.check({"gamma": 0.1}, Needs()) == []
    assert "breaks shrinking" in ENGINE.check({"gamma": 0.1}, Needs(any_scale=True))[0]


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(ValueError, match=r'pip install "rankwright\[xgboost\]"'):
        Ranker(engine="xgboost").check_params()


def test_too_many_categories() -> None:
    data = RankingData(
        np.array([[0.0], [70_000.0]]), [0, 1], group=[2], categorical=[0], feature_names=["shop"]
    )
    with pytest.raises(ValueError, match="the column 'shop' has 70001 categories"):
        quick(engine="xgboost").fit(data)


OBJECTIVES = [
    "auto",
    "lambdamart",
    "yetirank",
    "stochasticrank",
    "xendcg",
    "listnet",
    "queryrmse",
    "lambdaloss",
]


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("extra", [{}, {"langevin": True}])
def test_training_predicts_what_it_recorded(objective: str, extra: dict[str, Any]) -> None:
    ranker = quick(engine="xgboost", objective=objective, n_estimators=5, **extra).fit(
        TRAIN, eval_set=[VALID, TRAIN]
    )
    for number, data in enumerate((VALID, TRAIN)):
        assert ranker.score(data) == pytest.approx(
            ranker.evals_result_[f"valid_{number}"]["ndcg@10"][-1], rel=1e-12
        )


def test_it_learns_as_well_as_the_other_engine() -> None:
    scores = [
        quick(engine=engine, n_estimators=30).fit(TRAIN).score(VALID)
        for engine in ("lightgbm", "xgboost")
    ]
    assert scores[1] > scores[0] - 0.05
    assert scores[1] > quick(engine="xgboost", n_estimators=1).fit(TRAIN).score(VALID)


@pytest.mark.parametrize(
    "options", [{}, {"langevin": True, "subsample_queries": 0.6, "objective": "yetirank"}]
)
def test_a_training_resumes_exactly(tmp_path: Path, options: dict[str, Any]) -> None:
    common = {"engine": "xgboost", "random_state": 3, **options}
    whole = quick(n_estimators=9, **common).fit(TRAIN, eval_set=VALID)
    checkpoint = {"path": tmp_path / "c", "trees": 1}
    quick(n_estimators=9, checkpoint=checkpoint, **common).fit(
        TRAIN, eval_set=VALID, callbacks=[lambda p: p.iteration == 4]
    )
    rest = quick(n_estimators=9, checkpoint=checkpoint, **common).fit(TRAIN, eval_set=VALID)
    assert rest.forest_.dump() == whole.forest_.dump()
    assert rest.evals_result_ == whole.evals_result_
    later = quick(n_estimators=4, **common).fit(TRAIN, init_model=whole)
    assert later.n_estimators_ == 13


def test_threads_and_the_order_of_rows_change_nothing() -> None:
    data = rw.make_web_search(30, random_state=2)  # large enough for two threads
    order = np.random.default_rng(0).permutation(data.n_rows)
    shuffled = RankingData(data.X[order], data.y[order], qid=data.qid[order])
    dumps = {
        quick(engine="xgboost", n_estimators=2, n_jobs=threads).fit(rows).forest_.dump()
        for threads, rows in ((1, data), (2, shuffled))
    }
    assert len(dumps) == 1


def test_sparse_rows_give_the_same_model() -> None:
    X = np.where(np.abs(TRAIN.X) < 0.5, 0.0, TRAIN.X)
    models = [
        quick(engine="xgboost").fit(rows, TRAIN.y, qid=TRAIN.qid) for rows in (X, sp.csr_matrix(X))
    ]
    assert models[0].forest_.dump() == models[1].forest_.dump()
    assert np.array_equal(models[0].predict(X), models[1].predict(sp.csr_matrix(X)))


def test_a_saved_model_needs_no_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ranker = quick(engine="xgboost").fit(HARD.X, np.arange(600) % 3, group=[60] * 10)
    ranker.save(tmp_path / "model")
    monkeypatch.setitem(__import__("sys").modules, "xgboost", None)
    model = rw.load(tmp_path / "model")
    assert np.array_equal(model.predict(HARD.X), ranker.predict(HARD.X))
    assert np.array_equal(
        model.predict(HARD.X[:9], contributions=True),
        ranker.predict(HARD.X[:9], contributions=True),
    )
    assert np.array_equal(
        pickle.loads(pickle.dumps(ranker)).predict(HARD.X), ranker.predict(HARD.X)
    )


HARD_FOREST = grown(HARD_PARTS, 3, num_leaves=6, **WHOLE)


def garbled() -> list[tuple[str, Any]]:
    """Changes of a dump, each of which makes it invalid."""

    def tree(name: str, value: Any) -> Any:
        def change(document: Any) -> None:
            document["trees"][1][name] = value(document["trees"][1][name])

        return change

    return [
        ("format", lambda d: d.update(format="other")),
        ("version", lambda d: d.update(version=2)),
        ("columns", lambda d: d.update(columns=True)),
        ("fewer columns", lambda d: d.update(columns=2)),
        ("no trees", lambda d: d.update(trees=None)),
        ("a tree that is a number", lambda d: d["trees"].append(7)),
        ("a field too few", lambda d: d["trees"][0].pop("gain")),
        ("a child twice", tree("left", lambda v: [v[0], *v[:-1]])),
        ("a cycle", tree("left", lambda v: [0, *v[1:]])),
        ("a child beyond", tree("right", lambda v: [999, *v[1:]])),
        ("a fraction", tree("left", lambda v: [0.5, *v[1:]])),
        ("a column beyond", tree("column", lambda v: [99, *v[1:]])),
        ("a long integer", tree("column", lambda v: [10**30, *v[1:]])),
        ("text", tree("value", lambda v: ["1.0", *v[1:]])),
        ("infinity", tree("value", lambda v: [math.inf, *v[1:]])),
        ("null", tree("value", lambda v: [None, *v[1:]])),
        ("one value too many", tree("value", lambda v: [*v, 1.0])),
        ("one cover too few", tree("leaf_cover", lambda v: v[:-1])),
        ("a huge cover", tree("leaf_cover", lambda v: [1e300, *v[1:]])),
        ("a negative cover", tree("leaf_cover", lambda v: [-1.0, *v[1:]])),
        ("two", tree("missing_left", lambda v: [2, *v[1:]])),
        ("categories that are text", tree("categories", lambda v: ["1", *v[1:]])),
        ("categories in no order", tree("categories", lambda v: [[3, 1], *v[1:]])),
        ("a huge category", tree("categories", lambda v: [[2**30], *v[1:]])),
    ]


@pytest.mark.parametrize(("what", "change"), garbled(), ids=[what for what, _ in garbled()])
def test_a_garbled_file_is_one_error(what: str, change: Any) -> None:
    document = json.loads(HARD_FOREST.dump())
    change(document)
    with pytest.raises(ValueError, match="the model file of trees cannot be read"):
        ENGINE.load(json.dumps(document).encode())


def test_a_file_that_is_nested_deeply_is_one_error() -> None:
    with pytest.raises(ValueError, match="the model file of trees cannot be read"):
        ENGINE.load(b"[" * 100_000)


def shapley(tree: GrownTree, row: Any, n_columns: int) -> Any:
    """SHAP values by their definition: all subsets of columns, unknown ones weighed by the cover of the children."""
    arrays = tree.arrays

    def cover(child: int) -> float:
        if child < 0:
            return float(tree.leaf_cover[~child])
        return cover(int(arrays.left[child])) + cover(int(arrays.right[child]))

    def value(node: int, known: frozenset[int]) -> float:
        if node < 0:
            return float(arrays.value[~node])
        left, right = int(arrays.left[node]), int(arrays.right[node])
        if arrays.feature[node] in known:
            return value(left if goes_left(arrays, node, row) else right, known)
        total = cover(left) + cover(right)
        return (cover(left) * value(left, known) + cover(right) * value(right, known)) / total

    out = np.zeros(n_columns + 1)
    out[-1] = value(0, frozenset())
    for column in range(n_columns):
        others = [other for other in range(n_columns) if other != column]
        for size in range(n_columns):
            weight = (
                math.factorial(size)
                * math.factorial(n_columns - size - 1)
                / math.factorial(n_columns)
            )
            for chosen in itertools.combinations(others, size):
                known = frozenset(chosen)
                out[column] += weight * (value(0, known | {column}) - value(0, known))
    return out


def goes_left(tree: TreeArrays, node: int, row: Any) -> bool:
    x = row[tree.feature[node]]
    if np.isnan(x):
        return bool(tree.default_left[node])
    if tree.decision[node] == AMONG:
        return int(x) in tree.categories[node]
    return bool(x <= tree.threshold[node])


def test_shap_values_are_those_of_the_definition() -> None:
    rows = HARD.X[:12]
    expected = [sum(shapley(tree, row, 5) for tree in HARD_FOREST._trees) for row in rows]
    np.testing.assert_allclose(HARD_FOREST.contributions(rows), expected, rtol=1e-9, atol=1e-12)
    assert np.array_equal(
        HARD_FOREST.contributions(rows, threads=2), HARD_FOREST.contributions(rows)
    )
    assert np.abs(HARD_FOREST.contributions(rows)[:, :5]).min(axis=0).max() > 0


@pytest.mark.parametrize("target", sorted(set(TARGETS) - {"c", "onnx", "treelite"}))
def test_exports_take_its_trees(target: str) -> None:
    y = np.nan_to_num(HARD.X[:, 0] + HARD.X[:, 1] > 0).astype(float)
    model = quick(engine="xgboost").fit(HARD.X[:, :3], y, group=[60] * 10).model_
    options, writer = export_options(model), load_target(target)
    exported = writer.write(list(model.forest.trees()), options)
    found = verify_content(exported.content, model, writer, options, HARD.X[:, :3])
    assert found.different == found.different_with_missing
    assert found.probes > 100
