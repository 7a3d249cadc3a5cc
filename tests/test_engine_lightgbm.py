"""What the boosting loop takes for granted of LightGBM, and what the engine adds to it."""

from __future__ import annotations

import re
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest

from rankwright import RankingData
from rankwright.engines import load_engine
from rankwright.engines.lightgbm import Forest, Grower, join_texts
from small import TRAIN, VALID, WHOLE

OPTIONS: dict[str, Any] = {
    "learning_rate": 0.1,
    "num_leaves": 8,
    "max_bin": 63,
    "max_depth": -1,
    "min_child_samples": 5,
    "reg_lambda": 0.3,
    "subsample": 0.7,
    "colsample": 0.5,
}


def grower(
    train: RankingData = TRAIN, valid: Any = (VALID,), seed: int = 5, threads: int = 1, **changes: Any
) -> Grower:
    params = changes.pop("params", {})
    return Grower(train, valid, OPTIONS | changes, params, seed, threads)


def gradients(iteration: int, n: int = TRAIN.n_rows) -> tuple[Any, Any]:
    draw = np.random.default_rng(iteration)
    return draw.normal(size=n) - TRAIN.y[:n] / 4, draw.uniform(0.1, 1, size=n)


def grow(one: Grower, iterations: range) -> Grower:
    for iteration in iterations:
        assert one.grow(*gradients(iteration))
    return one


def started(**changes: Any) -> Grower:
    one = grower(**changes)
    one.start(0, [np.zeros(TRAIN.n_rows), np.zeros(VALID.n_rows)])
    return one


def without_threads(text: str) -> str:
    return re.sub(r"\[num_threads: \d+\]", "", text)


@pytest.mark.parametrize("sampling", [{}, WHOLE])
def test_trained_scores_are_the_sum_of_the_trees_bit_by_bit(sampling: dict[str, Any]) -> None:
    one = grow(started(**sampling), range(12))
    forest = Forest(join_texts([one.text(12)]))
    for part, data in enumerate((TRAIN, VALID)):
        assert np.array_equal(one.scores(part), forest.predict(data.X, threads=1))


def test_training_goes_on_from_scores_bit_by_bit() -> None:
    at_once = grow(started(**WHOLE), range(15))
    first = grow(started(**WHOLE), range(9))
    text = first.text(9)
    second = grower(**WHOLE)
    second.start(0, [first.scores(0), first.scores(1)])
    grow(second, range(9, 15))
    joined = join_texts([text, second.text(6)])
    assert joined.split("end of trees")[0] == join_texts([at_once.text(15)]).split("end of trees")[0]
    assert np.array_equal(second.scores(1), at_once.scores(1))


def test_the_number_of_threads_changes_nothing() -> None:
    texts = [without_threads(grow(started(threads=threads), range(6)).text(6)) for threads in (1, 2)]
    assert texts[0] == texts[1]


def test_sampling_depends_on_seed_and_block_alone() -> None:
    def tree(seed: int, block: int) -> str:
        one = grower(seed=seed)
        one.start(block, None)
        trees = grow(one, range(1)).text(1)
        return trees[trees.index("Tree=0") : trees.index("end of trees")]

    assert tree(5, 2) == tree(5, 2)
    assert tree(5, 2) != tree(5, 3)
    assert tree(5, 2) != tree(6, 2)


@pytest.mark.parametrize("shares", [(0.7, 1.0), (1.0, 0.7), (0.6, 0.3)])
def test_samples_of_skipped_trees_are_skipped(shares: tuple[float, float]) -> None:
    options = {"subsample": shares[0], "colsample": shares[1]}
    whole = grow(started(**options), range(9)).text(9)
    late = grower(**options)
    late.start(0, None, skip=6)
    assert late.n_trees == 0
    text = grow(late, range(6, 9)).text(3)
    assert late.n_trees == 3
    assert trees_of(text) == trees_of(whole)[6:]


def trees_of(text: str) -> list[str]:
    return [part.split("\n\n")[0] for part in re.split(r"Tree=\d+\n", text)[1:]]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (WHOLE, False),
        ({**WHOLE, "params": {"max_bin": 15}}, False),
        ({**WHOLE, "subsample": 0.9}, True),
        ({**WHOLE, "colsample": 0.9}, True),
        ({**WHOLE, "params": {"extra_trees": True}}, True),
        ({**WHOLE, "params": {"extra_trees": False}}, False),
        ({**WHOLE, "params": {"feature_fraction_bynode": 0.5}}, True),
    ],
)
def test_it_says_whether_it_samples(changes: dict[str, Any], expected: bool) -> None:
    assert grower(**changes).samples is expected


def test_rows_are_sampled_at_all() -> None:
    sampled, whole = (grow(started(colsample=1.0, subsample=share), range(1)).text(1) for share in (0.5, 1.0))
    counts = [sum(map(int, re.search(r"leaf_count=(.*)", text).group(1).split())) for text in (sampled, whole)]
    assert counts == [pytest.approx(TRAIN.n_rows / 2, rel=0.1), TRAIN.n_rows]


@pytest.fixture(scope="module")
def blocks() -> list[str]:
    one = grow(started(), range(4))
    texts = [one.text(4)]
    one.start(1, [one.scores(0), one.scores(1)])
    return [*texts, grow(one, range(4, 7)).text(3)]


def test_joined_blocks_are_one_model_for_plain_lightgbm(blocks: list[str]) -> None:
    whole = lgb.Booster(model_str=join_texts(blocks))
    parts = [lgb.Booster(model_str=text).predict(VALID.X, raw_score=True) for text in blocks]
    assert whole.num_trees() == 7
    np.testing.assert_allclose(whole.predict(VALID.X), parts[0] + parts[1], rtol=1e-13)
    assert np.array_equal(whole.predict(VALID.X, start_iteration=4), parts[1])


def test_joined_text_is_what_lightgbm_would_write(blocks: list[str]) -> None:
    assert not re.search(r"^objective=", blocks[0], re.M), "LightGBM writes an objective: nothing to add"
    text = join_texts(blocks)
    assert re.findall(r"(?m)^objective=.*$", text) == ["objective=lambdarank"]
    assert text == join_texts([text])
    sizes = [int(size) for size in re.search(r"tree_sizes=(.*)", text).group(1).split()]
    body = text[text.index("Tree=0") : text.index("end of trees")].encode()
    starts = [match.start() for match in re.finditer(rb"(?m)^Tree=", body)]
    assert sizes == np.diff([*starts, len(body)]).tolist()
    assert re.findall(r"(?m)^Tree=(\d+)$", text) == [str(i) for i in range(7)]


def test_the_block_of_importances_counts_the_splits_of_all_trees(blocks: list[str]) -> None:
    text = join_texts(blocks)
    booster = lgb.Booster(model_str=text)
    counted = dict(zip(booster.feature_name(), booster.feature_importance("split"), strict=True))
    listed = re.search(r"\nfeature_importances:\n(.*?)\n\n", text, re.S).group(1).splitlines()
    pairs = [(line.split("=")[0], int(line.split("=")[1])) for line in listed]
    assert dict(pairs) == {name: n for name, n in counted.items() if n}
    assert [n for _, n in pairs] == sorted((n for _, n in pairs), reverse=True)


def test_scaled_first_and_blocks_of_a_forest(blocks: list[str]) -> None:
    forest = Forest(join_texts(blocks))
    scores = forest.predict(VALID.X, threads=1)
    np.testing.assert_allclose(forest.scaled(0.25).predict(VALID.X, threads=1), scores / 4, rtol=1e-15)
    np.testing.assert_allclose(forest.scaled(0.3).predict(VALID.X, threads=2), 0.3 * scores, rtol=1e-13)
    assert forest.scaled(1.0).text == forest.text
    third = forest.first(3)
    assert third.n_trees == 3
    assert np.array_equal(third.predict(VALID.X, threads=1), forest.predict(VALID.X, threads=1, trees=3))
    assert not np.array_equal(third.predict(VALID.X, threads=1), scores)
    assert forest.first(7).text == forest.text
    rest = forest.predict_block(VALID.X, 3, 7, threads=1)
    np.testing.assert_allclose(third.predict(VALID.X, threads=1) + rest, scores, rtol=1e-12)
    assert forest.predict(VALID.X, threads=1, trees=0).tolist() == [0] * VALID.n_rows


def test_importances_and_contributions_of_a_forest(blocks: list[str]) -> None:
    forest = Forest(join_texts(blocks))
    gains = np.zeros(forest.n_features)
    for tree in re.findall(r"split_feature=(.*)\nsplit_gain=(.*)\n", forest.text):
        for column, gain in zip(*(one.split() for one in tree), strict=True):
            gains[int(column)] += float(gain)
    np.testing.assert_allclose(forest.importances("gain"), gains, rtol=1e-6)
    sums = forest.contributions(VALID.X, threads=1).sum(axis=1)
    np.testing.assert_allclose(sums, forest.predict(VALID.X, threads=1), atol=1e-12)


def leaves_by_prediction(one: Grower, data: RankingData) -> Any:
    return lgb.Booster(model_str=one.text(one.n_trees)).predict(data.X, pred_leaf=True)[:, -1]


def test_leaves_are_found_from_the_change_of_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    one = grower()
    one.start(0, None)
    for iteration in range(4):
        before = [one.scores(part) for part in (0, 1)]
        grow(one, range(iteration, iteration + 1))
        expected = [leaves_by_prediction(one, data) for data in (TRAIN, VALID)]
        with monkeypatch.context() as patch:
            patch.setattr(lgb.Booster, "predict", None)  # the look-up alone finds them
            for part in (0, 1):
                assert np.array_equal(one.leaves(part, before[part]), expected[part])
        assert len(set(expected[0])) == 8


@pytest.mark.parametrize("apart", [0.0, 1e-14])
def test_leaves_with_almost_equal_values_are_told_apart(apart: float) -> None:
    X = np.repeat(np.arange(4.0), 10)[:, None]
    data = RankingData(X, np.zeros(40), group=[40])
    one = grower(data, (data,), min_child_samples=1, params={"min_data_in_bin": 1}, **WHOLE)
    one.start(0, None)
    before = one.scores(0)
    assert one.grow(np.where(X[:, 0] % 2 == 0, 1.0, -1.0) + apart * X[:, 0], np.ones(40))
    values = one.leaf_values()
    assert len(values) == 4
    assert len(np.unique(values.round(9))) == 2
    leaves = one.leaves(0, before)
    assert np.array_equal(leaves, leaves_by_prediction(one, data))
    assert len(set(leaves)) == 4
    assert np.array_equal(one.leaves(1, before), leaves)


def test_rewritten_leaves_are_predicted() -> None:
    one = grow(started(), range(2))
    before = one.scores(0)
    grow(one, range(2, 3))
    leaves = one.leaves(0, before)
    values = np.arange(8) / 7 + 0.1
    one.rewrite(values)
    assert np.array_equal(one.leaf_values(), values)
    forest = Forest(join_texts([one.text(3)]))
    assert np.array_equal(forest.predict_block(TRAIN.X, 2, 3, threads=1), values[leaves])


def test_a_tree_without_a_split_breaks_nothing() -> None:
    one = started(**WHOLE)
    nothing = np.zeros(TRAIN.n_rows)
    assert one.grow(nothing, nothing) is False
    assert one.grow(nothing, nothing) is False
    assert one.scores(0).tolist() == nothing.tolist()
    grow(one, range(2))
    assert one.grow(nothing, nothing) is False
    forest = Forest(join_texts([one.text(one.n_trees)]))
    assert np.array_equal(forest.predict(TRAIN.X, threads=1), one.scores(0))
    assert one.scores(0).any()


def test_names_that_the_text_cannot_hold_are_changed_and_kept_apart() -> None:
    names = ["a b", "a_b", 'a"b', "[c]", "", "prix_é", "a_b_1"]
    X = np.random.default_rng(0).normal(size=(40, 7))
    data = RankingData(X, np.zeros(40), group=[40], feature_names=names)
    one = grower(data, (), **WHOLE)
    one.start(0, None)
    one.grow(X[:, 0], np.ones(40))
    forest = Forest(join_texts([one.text(1)]))
    assert forest.n_features == 7
    assert np.array_equal(forest.predict(X, threads=1), one.scores(0))
    written = re.search(r"^feature_names=(.*)$", forest.text, re.M).group(1).split(" ")
    assert len(set(written)) == 7
    assert written[1] == "a_b" or written[0] == "a_b"


def test_an_engine_that_does_not_exist() -> None:
    with pytest.raises(ValueError, match="unknown engine 'catboost'; choose one of lightgbm"):
        load_engine("catboost")


def test_a_text_that_is_no_model() -> None:
    with pytest.raises(ValueError, match="cannot be read by LightGBM"):
        Forest("tree\nversion=v4\nnonsense")
