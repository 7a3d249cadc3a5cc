"""What every engine must do. A new engine passes these tests once its name is in `ENGINES`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from rankwright import RankingData
from rankwright.engines import ENGINES, load_engine
from rankwright.engines.contract import Engine, Forest, Grower, Growth, Needs
from rankwright.kernels.tree_arrays import (
    AMONG,
    AS_ZERO,
    AT_MOST,
    ZERO,
    ZERO_TO_DEFAULT,
    TreeArrays,
)
from small import TRAIN, VALID, WHOLE

OPTIONS: dict[str, Any] = {
    "num_leaves": 8,
    "max_bin": 63,
    "max_depth": -1,
    "min_child_samples": 5,
    "reg_lambda": 0.3,
    "subsample": 0.7,
    "colsample": 0.5,
}


def hard(seed: int, n: int = 600, reference: RankingData | None = None) -> RankingData:
    """Missing values in one column, many zeros in another, a category, and few different values."""
    draw = np.random.default_rng(seed)
    X = np.column_stack(
        [draw.normal(size=(n, 3)), draw.integers(0, 40, n), draw.integers(0, 5, n)]
    ).astype(float)
    X[draw.random(n) < 0.3, 0] = np.nan
    X[draw.random(n) < 0.6, 1] = 0.0
    return RankingData(X, np.zeros(n), group=[n], categorical=[3], reference=reference)


HARD = hard(1)
HARD_PARTS = [HARD, hard(2, reference=HARD)]


def on_grid(values: Any) -> Any:
    """Gradients whose sums are exact in double precision."""
    return (np.round(np.asarray(values) * 2**16) / 2**16).astype(np.float32)


def gradients(iteration: int, data: RankingData = TRAIN) -> tuple[Any, Any]:
    draw = np.random.default_rng(iteration)
    signal = (
        np.nan_to_num(data.X[:, 0]) + np.isin(data.X[:, 3], (3, 7, 11)) + 0.5 * (data.X[:, 1] == 0)
    )
    return on_grid(draw.normal(size=data.n_rows) - signal), on_grid(
        draw.uniform(0.1, 1, size=data.n_rows)
    )


@np.errstate(over="ignore")
def score_by_walking(trees: list[TreeArrays], row: Any) -> float:
    """The score of a row, by the rules that `rankwright.kernels.tree_arrays` states."""
    score = 0.0
    for tree in trees:
        node = 0 if len(tree.feature) else ~0
        while node >= 0:
            x = float(row[tree.feature[node]])
            x = 0.0 if np.isnan(x) and tree.missing[node] == AS_ZERO else x
            is_zero = tree.decision[node] == AT_MOST and abs(x) <= ZERO
            x = 0.0 if is_zero else x
            if np.isnan(x) or (tree.missing[node] == ZERO_TO_DEFAULT and is_zero):
                left = tree.default_left[node]
            elif tree.decision[node] == AMONG:
                left = int(x) in tree.categories[node]
            elif tree.decision[node] == AT_MOST:
                left = x <= tree.threshold[node]
            else:
                left = np.float32(x) < np.float32(tree.threshold[node])
            node = tree.left[node] if left else tree.right[node]
        score += tree.value[~node]
    return score


def probes(trees: list[TreeArrays], X: Any) -> Any:
    """Rows with values at, just below and just above every threshold, with zeros and with missing values."""
    rows = [X[0] * 0, X[0] * np.nan, X[0] * 0 + 1e-36, X[0] * 0 - 1e-36]
    for tree in trees:
        for feature, threshold, decision in zip(
            tree.feature, tree.threshold, tree.decision, strict=True
        ):
            for value in (
                threshold,
                np.nextafter(threshold, -np.inf),
                np.nextafter(threshold, np.inf),
            ):
                row = X[len(rows) % len(X)].copy()
                row[feature] = len(rows) % 45 if decision == AMONG else value
                rows.append(row)
    return np.array(rows)


@pytest.mark.parametrize("name", ENGINES)
class TestContract:
    @pytest.fixture
    def engine(self, name: str) -> Engine:
        return load_engine(name)

    @pytest.fixture
    def grower(self, engine: Engine) -> Callable[..., Grower]:
        def make(
            parts: Any = (TRAIN, VALID), seed: int = 5, threads: int = 1, **changes: Any
        ) -> Grower:
            return engine.grower(
                Growth(list(parts), OPTIONS | changes, changes.pop("params", {}), seed, threads)
            )

        return make

    @staticmethod
    def grow(grower: Grower, iterations: range, data: RankingData = TRAIN) -> Forest:
        for iteration in iterations:
            assert grower.grow(*gradients(iteration, data)) is not None
        return grower.forest()

    @pytest.fixture
    def hard_forest(self, grower: Callable[..., Grower]) -> Forest:
        one = grower(HARD_PARTS, num_leaves=24, **WHOLE)
        one.resume(0)
        return self.grow(one, range(12), HARD)

    @pytest.fixture
    def forest(self, grower: Callable[..., Grower]) -> Forest:
        one = grower()
        one.resume(0)
        return self.grow(one, range(7))

    def test_it_says_what_it_is(self, engine: Engine, name: str) -> None:
        assert engine.name == name
        assert engine.version[0].isdigit()
        assert "/" not in engine.file_name

    def test_a_walk_through_the_arrays_gives_the_score_exactly(self, hard_forest: Forest) -> None:
        trees = list(hard_forest.trees())
        assert len(trees) == hard_forest.n_trees == 12
        assert {AMONG} < set(np.concatenate([tree.decision for tree in trees]))
        rows = np.concatenate([HARD_PARTS[1].X[:100], probes(trees, HARD.X)])
        expected = [score_by_walking(trees, row) for row in rows]
        assert hard_forest.predict(rows).tolist() == expected
        assert len(set(expected)) > 100

    @pytest.mark.parametrize("part", [0, 1])
    def test_leaves_of_rows_are_those_of_the_tree(
        self, grower: Callable[..., Grower], part: int
    ) -> None:
        one = grower(HARD_PARTS, num_leaves=24, **WHOLE)
        one.resume(0)
        for iteration in range(4):
            tree = one.grow(*gradients(iteration, HARD))
            assert tree is not None
            leaves = tree.leaves(part)
            assert np.array_equal(leaves, tree.leaves(part))
            numbers = np.arange(len(tree.values), dtype=float)
            tree.set(numbers)
            newest = one.forest().predict(HARD_PARTS[part].X, start=iteration)
            assert np.array_equal(newest, numbers[leaves])

    def test_leaves_with_equal_values_are_told_apart(self, grower: Callable[..., Grower]) -> None:
        X = np.repeat(np.arange(4.0), 50)[:, None]
        data = RankingData(X, np.zeros(200), group=[200])
        one = grower([data, data], min_child_samples=1, **WHOLE)
        one.resume(0)
        tree = one.grow(on_grid(np.where(X[:, 0] % 2 == 0, 1.0, -1.0)), on_grid(np.ones(200)))
        assert tree is not None
        assert len(tree.values) == 4
        assert len(np.unique(tree.values.round(9))) == 2
        for part in (0, 1):
            assert len(set(zip(tree.leaves(part), X[:, 0], strict=True))) == 4

    def test_values_are_newton_steps_without_a_rate(self, grower: Callable[..., Grower]) -> None:
        one = grower(**WHOLE)
        one.resume(0)
        grad, hess = gradients(0)
        tree = one.grow(grad, hess)
        assert tree is not None
        leaves = tree.leaves(0)
        g, h = (np.bincount(leaves, values.astype(np.float64)) for values in (grad, hess))
        np.testing.assert_allclose(tree.values, -g / (h + OPTIONS["reg_lambda"]), rtol=1e-6)

    def test_set_values_are_those_of_the_forest_bit_by_bit(
        self, grower: Callable[..., Grower]
    ) -> None:
        one = grower()
        one.resume(0)
        scores = [np.zeros(TRAIN.n_rows), np.zeros(VALID.n_rows)]
        for iteration in range(9):
            tree = one.grow(*gradients(iteration))
            assert tree is not None
            values = tree.values * 0.07 + 1e-3 * np.sin(np.arange(len(tree.values)))
            tree.set(values)
            for part in (0, 1):
                scores[part] += values[tree.leaves(part)]
        for part, data in enumerate((TRAIN, VALID)):
            assert np.array_equal(one.forest().predict(data.X), scores[part])

    def test_gains_are_recorded_as_the_engine_found_them_or_multiplied(
        self, engine: Engine, grower: Callable[..., Grower]
    ) -> None:
        one = grower()
        one.resume(0)
        for iteration in range(3):
            tree = one.grow(*gradients(iteration))
            assert tree is not None
            before = list(one.forest().trees())[-1].gain
            assert before.min() > 0
            tree.set(tree.values)
            assert np.array_equal(list(one.forest().trees())[-1].gain, before)
            for _ in range(2):
                tree.set(tree.values, gain_factor=1e-9)
                np.testing.assert_allclose(
                    list(one.forest().trees())[-1].gain, 1e-9 * before, rtol=1e-5
                )
        forest = one.forest()
        assert forest.importances("gain").max() < 1e-3
        assert np.array_equal(
            engine.load(forest.dump()).importances("gain"), forest.importances("gain")
        )

    def test_leaves_of_one_tree_need_not_be_asked_for(self, grower: Callable[..., Grower]) -> None:
        one = grower()
        one.resume(0)
        for iteration in range(3):
            tree = one.grow(*gradients(iteration))
        assert tree is not None
        newest = one.forest().predict(VALID.X, start=2)
        assert np.array_equal(newest, tree.values[tree.leaves(1)])

    @pytest.mark.parametrize("sampling", [{}, WHOLE])
    @pytest.mark.parametrize("stop", [1, 6, 9])
    def test_training_resumes_exactly(
        self, grower: Callable[..., Grower], sampling: dict[str, Any], stop: int
    ) -> None:
        at_once, later = grower(**sampling), grower(**sampling)
        assert at_once.resume(0) == 0
        whole = self.grow(at_once, range(12))
        from_here = later.resume(stop)
        assert 0 <= from_here <= stop
        rest = self.grow(later, range(from_here, 12))
        joined = whole.first(from_here).joined(rest)
        assert [str(tree) for tree in joined.trees()] == [str(tree) for tree in whole.trees()]
        assert np.array_equal(joined.predict(VALID.X), whole.predict(VALID.X))

    def test_many_trees_are_sampled_and_kept(self, grower: Callable[..., Grower]) -> None:
        one = grower(num_leaves=2, colsample=1.0)
        one.resume(497)
        forest = self.grow(one, range(6))
        assert forest.n_trees == 6
        assert len({tuple(tree.value) for tree in forest.trees()}) == 6

    def test_the_number_of_threads_changes_nothing(self, grower: Callable[..., Grower]) -> None:
        scores = []
        for threads in (1, 2):
            one = grower(threads=threads)
            one.resume(0)
            scores.append(self.grow(one, range(6)).predict(VALID.X, threads=threads))
        assert np.array_equal(*scores)

    def test_sampling_depends_on_the_seed(self, grower: Callable[..., Grower]) -> None:
        scores = []
        for seed in (5, 5, 6):
            one = grower(seed=seed)
            one.resume(0)
            scores.append(self.grow(one, range(3)).predict(VALID.X))
        assert np.array_equal(scores[0], scores[1])
        assert not np.array_equal(scores[0], scores[2])

    def test_it_says_whether_it_draws(self, grower: Callable[..., Grower]) -> None:
        assert not grower(**WHOLE).draws
        assert grower(subsample=1.0, colsample=0.9).draws
        assert grower(subsample=0.9, colsample=1.0).draws

    def test_a_tree_without_a_split_is_none_and_leaves_no_trace(
        self, grower: Callable[..., Grower]
    ) -> None:
        one, other = grower(**WHOLE), grower(**WHOLE)
        nothing = np.zeros(TRAIN.n_rows, dtype=np.float32)
        one.resume(0)
        other.resume(0)
        assert one.can_split
        assert one.grow(nothing, nothing) is None
        assert one.forest().n_trees == 0
        self.grow(one, range(2))
        assert one.grow(nothing, nothing) is None
        forest = self.grow(one, range(2, 4))
        assert forest.n_trees == 4
        assert np.array_equal(forest.predict(VALID.X), self.grow(other, range(4)).predict(VALID.X))

    def test_data_that_cannot_be_split(self, grower: Callable[..., Grower]) -> None:
        data = RankingData(np.ones((50, 3)), np.zeros(50), group=[50])
        one = grower([data])
        one.resume(0)
        assert not one.can_split
        assert one.grow(on_grid(np.linspace(-1, 1, 50)), on_grid(np.ones(50))) is None
        forest = one.forest()
        assert (forest.n_trees, forest.n_features) == (0, 3)
        assert forest.predict(data.X).tolist() == [0.0] * 50
        assert forest.contributions(data.X).shape == (50, 4)
        assert forest.importances("gain").tolist() == [0.0] * 3

    def test_parts_of_a_forest(self, forest: Forest) -> None:
        scores = forest.predict(VALID.X)
        assert forest.n_features == TRAIN.X.shape[1]
        assert np.array_equal(forest.first(3).predict(VALID.X), forest.predict(VALID.X, stop=3))
        assert forest.first(3).n_trees == 3
        assert forest.first(9).n_trees == 7
        assert forest.first(0).predict(VALID.X).tolist() == [0.0] * VALID.n_rows
        rest = forest.predict(VALID.X, start=3)
        np.testing.assert_allclose(forest.predict(VALID.X, stop=3) + rest, scores, rtol=1e-12)
        both = forest.first(3).joined(forest)
        assert both.n_trees == 10
        assert np.array_equal(both.predict(VALID.X, start=3), scores)
        assert np.array_equal(forest.scaled(0.25).predict(VALID.X), scores / 4)
        np.testing.assert_allclose(forest.scaled(0.3).predict(VALID.X), 0.3 * scores, rtol=1e-13)
        assert forest.n_trees == 7

    @pytest.mark.parametrize("threads", [1, 2, 3])
    def test_the_kind_of_matrix_makes_no_difference(self, forest: Forest, threads: int) -> None:
        X = np.tile(VALID.X, (60, 1)).astype(np.float32)
        expected = forest.predict(X.astype(np.float64))
        for same in (X, np.asfortranarray(X), sp.csr_matrix(X), X.astype(np.float64)[:, :]):
            assert np.array_equal(forest.predict(same, threads=threads), expected)
        assert forest.predict(X[:0]).shape == (0,)

    def test_contributions_add_up_and_importances_count(self, hard_forest: Forest) -> None:
        X = HARD_PARTS[1].X[:50]
        contributions = hard_forest.contributions(X, threads=1)
        assert contributions.shape == (50, 6)
        np.testing.assert_allclose(
            contributions.sum(axis=1), hard_forest.predict(X), rtol=1e-6, atol=1e-9
        )
        counts, gains = np.zeros(5), np.zeros(5)
        for tree in hard_forest.trees():
            np.add.at(counts, tree.feature, 1)
            np.add.at(gains, tree.feature, tree.gain)
        assert hard_forest.importances("split").tolist() == counts.tolist()
        np.testing.assert_allclose(hard_forest.importances("gain"), gains, rtol=1e-6)
        assert gains.min() > 0

    def test_a_dump_is_read_back(self, engine: Engine, hard_forest: Forest) -> None:
        for forest in (hard_forest, hard_forest.scaled(1 / 3), hard_forest.first(0)):
            back = engine.load(forest.dump())
            assert np.array_equal(back.predict(HARD.X), forest.predict(HARD.X))
            assert back.dump() == forest.dump()
            assert back.n_features == 5

    @pytest.mark.parametrize(
        "content", [b"", b"nonsense", b"\xff\xfe\x00", b'{"learner": 1}', b"tree\nversion=v4\n"]
    )
    def test_what_is_not_a_model_is_refused(self, engine: Engine, content: bytes) -> None:
        with pytest.raises(ValueError, match="model"):
            engine.load(content)

    def test_a_cut_dump_is_refused_or_means_the_same(self, engine: Engine, forest: Forest) -> None:
        whole = forest.dump()
        for length in range(0, len(whole), len(whole) // 40):
            try:
                back = engine.load(whole[:length])
            except ValueError:
                continue
            assert np.array_equal(back.predict(VALID.X), forest.predict(VALID.X))

    def test_parameters_are_checked_with_reasons(self, engine: Engine) -> None:
        assert engine.check({}, Needs(own_leaves=True, any_scale=True)) == []
        reasons = engine.check({"no_such_parameter": 1, "nor_this": 2}, Needs())
        assert len(reasons) == 2
        assert "no_such_parameter" in reasons[0]
        assert engine.decided_options({}) == {}
        assert engine.decided_options({"max_bin": 20}) == {"max_bin": 20}


def test_an_engine_that_does_not_exist() -> None:
    with pytest.raises(
        ValueError, match="unknown engine 'catboost'; choose one of lightgbm, xgboost"
    ):
        load_engine("catboost")
