"""Training with our gradients on LightGBM's trees, against LightGBM's own lambdarank."""

from pathlib import Path

import lightgbm as lgb
import numpy as np
import pytest

from rankwright import RankingData, evaluate, make_web_search, read_letor
from rankwright.objectives import bind

MQ2008 = Path(__file__).parents[2] / "shared" / "data" / "mq2008"
needs_mq2008 = pytest.mark.skipif(not MQ2008.is_dir(), reason="needs MQ2008 in ../shared/data")
TREES = {
    "learning_rate": 0.05,
    "num_leaves": 31,
    "verbosity": -1,
    "num_threads": 2,
    "metric": "None",
}


def both(train: RankingData, truncation: int, trees: int) -> tuple[lgb.Booster, lgb.Booster]:
    def dataset() -> lgb.Dataset:
        return lgb.Dataset(train.X, train.y, group=train.group, params={"verbosity": -1})

    theirs = {"objective": "lambdarank", "lambdarank_truncation_level": truncation}
    bound = bind(
        "lambdamart",
        train.y,
        qid=train.qid,
        metric=f"ndcg@{truncation}",
        truncation=truncation,
        normalize=True,
    )
    ours = {"objective": lambda scores, _: bound(scores)}
    return lgb.train({**TREES, **ours}, dataset(), trees), lgb.train(
        {**TREES, **theirs}, dataset(), trees
    )


def splits(booster: lgb.Booster, tree: int) -> list[tuple[object, ...]]:
    nodes = booster.trees_to_dataframe()
    nodes = nodes[nodes["tree_index"] == tree]
    return list(
        nodes[["node_index", "split_feature", "threshold"]].itertuples(index=False, name=None)
    )


def mq2008_fold(first: int) -> tuple[RankingData, RankingData]:
    parts = read_letor([MQ2008 / f"S{number}.txt" for number in range(1, 6)])
    train = RankingData.concatenate([parts[(first + i) % 5] for i in range(3)])
    return train, parts[(first + 4) % 5]


def same(a: list[tuple[object, ...]], b: list[tuple[object, ...]]) -> bool:
    return len(a) == len(b) and all(
        x[:2] == y[:2] and (x[2] == y[2] or (x[2] != x[2] and y[2] != y[2]))
        for x, y in zip(a, b, strict=True)
    )


@needs_mq2008
@pytest.mark.parametrize("fold", [0, 2])
def test_first_tree_on_mq2008_has_the_same_splits(fold):
    train, _ = mq2008_fold(fold)
    ours, theirs = both(train, 30, 3)
    for tree in range(3):
        assert same(splits(ours, tree), splits(theirs, tree))


@needs_mq2008
def test_quality_on_mq2008_after_100_trees():
    means = []
    for fold in range(5):
        train, test = mq2008_fold(fold)
        means.append(
            [
                evaluate(model.predict(test.X), test.y, group=test.group, metrics="ndcg@10").mean[
                    "ndcg@10"
                ]
                for model in both(train, 30, 100)
            ]
        )
    ours, theirs = np.mean(means, axis=0)
    assert ours == pytest.approx(theirs, abs=0.002)


@pytest.mark.parametrize("truncation", [3, 13, 30])
def test_first_tree_on_synthetic_data_has_the_same_splits(truncation):
    train = make_web_search(60, random_state=5)
    ours, theirs = both(train, truncation, 1)
    assert same(splits(ours, 0), splits(theirs, 0))
