"""What the engine takes for granted of LightGBM, and what it adds; tests/test_engine_contract.py has the rest."""

from __future__ import annotations

import re
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest

from rankwright import RankingData
from rankwright.engines.contract import Growth, Needs
from rankwright.engines.lightgbm import ENGINE
from rankwright.engines.lightgbm.forest import LightGBMForest
from rankwright.engines.lightgbm.grower import Grower
from small import TRAIN, VALID, WHOLE
from test_engine_contract import HARD, HARD_PARTS, OPTIONS, gradients, probes


def grower(parts: Any = (TRAIN, VALID), seed: int = 5, threads: int = 1, **changes: Any) -> Grower:
    params = changes.pop("params", {})
    return Grower(Growth(list(parts), OPTIONS | changes, params, seed, threads))


def grown(iterations: int, data: RankingData = TRAIN, **changes: Any) -> Grower:
    one = grower(**changes)
    one.resume(0)
    for iteration in range(iterations):
        assert one.grow(*gradients(iteration, data))
    return one


def text_of(forest: LightGBMForest) -> str:
    return forest.dump().decode()


@pytest.fixture(scope="module")
def forest() -> LightGBMForest:
    return grown(7).forest()


@pytest.mark.parametrize("sampling", [{}, WHOLE])
def test_trained_scores_are_the_sum_of_the_trees_bit_by_bit(sampling: dict[str, Any]) -> None:
    one = grown(12, **sampling)
    one._newest.add_to_scores()
    for part, data in enumerate((TRAIN, VALID)):
        assert np.array_equal(one._scores[part], one.forest().predict(data.X))


def test_scores_are_those_of_lightgbm_bit_by_bit() -> None:
    forest = grown(12, HARD, parts=HARD_PARTS, num_leaves=24, **WHOLE).forest()
    booster = lgb.Booster(model_str=text_of(forest))
    X = np.concatenate([HARD_PARTS[1].X, probes(list(forest.trees()), HARD.X)])
    assert np.array_equal(booster.predict(X, raw_score=True), forest.predict(X))
    assert np.array_equal(
        booster.predict(X, raw_score=True, start_iteration=3, num_iteration=4),
        forest.predict(X, start=3, stop=7),
    )
    for kind in ("gain", "split"):
        assert np.array_equal(booster.feature_importance(kind), forest.importances(kind))


@pytest.mark.parametrize(
    ("params", "kind"),
    [({"use_missing": False}, 0), ({"zero_as_missing": True}, 2), ({"use_missing": True}, 1)],
)
def test_all_kinds_of_missing_values_are_read(params: dict[str, Any], kind: int) -> None:
    forest = grown(12, HARD, parts=HARD_PARTS, num_leaves=24, params=params, **WHOLE).forest()
    assert kind in {int(code) for tree in forest.trees() for code in tree.missing}
    X = np.concatenate([HARD_PARTS[1].X, probes(list(forest.trees()), HARD.X)])
    assert np.array_equal(
        lgb.Booster(model_str=text_of(forest)).predict(X, raw_score=True), forest.predict(X)
    )


def test_leaves_are_found_from_the_change_of_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    one = grower()
    one.resume(0)
    monkeypatch.setattr(lgb.Booster, "predict", None)  # the look-up alone finds them
    for iteration in range(4):
        tree = one.grow(*gradients(iteration))
        assert tree is not None
        assert len(set(tree.leaves(0))) == 8


def test_leaves_of_almost_equal_values_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.repeat(np.arange(4.0), 10)[:, None]
    data = RankingData(X, np.zeros(40), group=[40])
    one = grower((data,), min_child_samples=1, params={"min_data_in_bin": 1}, **WHOLE)
    one.resume(0)
    grad = np.where(X[:, 0] % 2 == 0, 1.0, -1.0) + 1e-14 * X[:, 0]
    tree = one.grow(grad, np.ones(40))  # type: ignore[arg-type]
    assert tree is not None
    leaves = tree.leaves(0)
    assert len(set(leaves)) == 4
    monkeypatch.setattr(lgb.Booster, "predict", None)
    with pytest.raises(TypeError, match="not callable"):
        tree.leaves(0)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({**WHOLE, "params": {"max_bin": 15}}, False),
        ({**WHOLE, "params": {"extra_trees": True}}, True),
        ({**WHOLE, "params": {"extra_trees": False}}, False),
        ({**WHOLE, "params": {"feature_fraction_bynode": 0.5}}, True),
    ],
)
def test_it_says_whether_its_parameters_draw(changes: dict[str, Any], expected: bool) -> None:
    assert grower(**changes).draws is expected


def test_samples_at_nodes_are_repeated_from_the_start_of_a_block() -> None:
    one = grower(params={"extra_trees": True})
    assert [one.resume(iteration) for iteration in (0, 19, 20, 47)] == [0, 0, 20, 40]


@pytest.mark.parametrize("shares", [(0.7, 1.0), (1.0, 0.7), (0.6, 0.3)])
def test_samples_of_earlier_trees_are_skipped(shares: tuple[float, float]) -> None:
    options = {"subsample": shares[0], "colsample": shares[1]}
    whole = list(grown(9, **options).forest().trees())
    late = grower(**options)
    assert late.resume(6) == 6
    for iteration in range(6, 9):
        late.grow(*gradients(iteration))
    assert list(map(str, late.forest().trees())) == list(map(str, whole[6:]))


def test_sampling_starts_afresh_with_each_block() -> None:
    one = grower(num_leaves=2)
    one.resume(499)
    last, first = one.grow(*gradients(0)), one.grow(*gradients(0))
    assert last is not None is not first
    again = grower(num_leaves=2)
    again.resume(500)
    again.grow(*gradients(0))
    whole, fresh = one.forest(), again.forest()
    assert whole.n_trees == 2
    assert np.array_equal(whole.predict(VALID.X, start=1), fresh.predict(VALID.X))
    assert not np.array_equal(whole.predict(VALID.X, stop=1), fresh.predict(VALID.X))


def test_rows_are_sampled_at_all() -> None:
    counts = []
    for share in (0.5, 1.0):
        text = text_of(grown(1, colsample=1.0, subsample=share).forest())
        counts.append(sum(map(int, re.search(r"leaf_count=(.*)", text).group(1).split())))  # type: ignore[union-attr]
    assert counts == [pytest.approx(TRAIN.n_rows / 2, rel=0.1), TRAIN.n_rows]


def test_the_text_is_what_lightgbm_would_write(forest: LightGBMForest) -> None:
    text = text_of(forest.first(4).joined(forest))
    assert re.findall(r"(?m)^objective=.*$", text) == ["objective=lambdarank"]
    assert text == text_of(LightGBMForest.load(text.encode()))
    sizes = [int(size) for size in re.search(r"tree_sizes=(.*)", text).group(1).split()]  # type: ignore[union-attr]
    body = text[text.index("Tree=0") : text.index("end of trees")].encode()
    starts = [match.start() for match in re.finditer(rb"(?m)^Tree=", body)]
    assert sizes == np.diff([*starts, len(body)]).tolist()
    assert re.findall(r"(?m)^Tree=(\d+)$", text) == [str(number) for number in range(11)]
    assert lgb.Booster(model_str=text).num_trees() == 11


def test_the_block_of_importances_counts_the_splits_of_all_trees(forest: LightGBMForest) -> None:
    text = text_of(forest)
    booster = lgb.Booster(model_str=text)
    counted = dict(zip(booster.feature_name(), booster.feature_importance("split"), strict=True))
    listed = re.search(r"\nfeature_importances:\n(.*?)\n\n", text, re.S).group(1).splitlines()  # type: ignore[union-attr]
    pairs = [(line.split("=")[0], int(line.split("=")[1])) for line in listed]
    assert dict(pairs) == {name: n for name, n in counted.items() if n}
    assert [n for _, n in pairs] == sorted((n for _, n in pairs), reverse=True)


def test_names_that_the_text_cannot_hold_are_changed_and_kept_apart() -> None:
    names = ["a b", "a_b", 'a"b', "[c]", "", "prix_é", "a_b_1"]
    X = np.random.default_rng(0).normal(size=(40, 7))
    data = RankingData(X, np.zeros(40), group=[40], feature_names=names)
    one = grower((data,), **WHOLE)
    one.resume(0)
    tree = one.grow(X[:, 0].astype(np.float32), np.ones(40, np.float32))
    assert tree is not None
    forest = one.forest()
    assert forest.n_features == 7
    assert np.array_equal(forest.predict(X), tree.values[tree.leaves(0)])
    written = re.search(r"^feature_names=(.*)$", text_of(forest), re.M).group(1).split(" ")  # type: ignore[union-attr]
    assert len(set(written)) == 7
    assert "a_b" in written[:2]


BROKEN = {
    "children in a circle": (r"(left_child=)\S+", r"\g<1>0", "a child does not exist"),
    "a child twice": (r"left_child=(\S+) (\S+)", r"left_child=\2 \2", "child of two nodes"),
    "a child out of range": (r"(left_child=)\S+", r"\g<1>99", "a child does not exist"),
    "a column out of range": (
        r"(split_feature=)\S+",
        r"\g<1>999",
        "splits column 999 of 25 columns",
    ),
    "a negative column": (r"(split_feature=)\S+", r"\g<1>-3", "splits column -3"),
    "a threshold that is not a number": (
        r"(\nthreshold=)\S+",
        r"\g<1>nan",
        "threshold is not a number",
    ),
    "a value that is not finite": (r"(leaf_value=)\S+", r"\g<1>inf", "leaf value is not finite"),
    "a value missing": (r"(leaf_value=)\S+ ", r"\g<1>", "nodes have 7 leaves"),
    "a threshold missing": (r"(\nthreshold=)\S+ ", r"\g<1>", "a tree has 6 thresholds and 7 rules"),
    "words": (r"(\nthreshold=)\S+", r"\g<1>high", "could not convert"),
    "an unknown rule": (r"(decision_type=)\S+", r"\g<1>12", "cannot be read"),
    "a set that does not exist": (
        r"(decision_type=)\S+",
        r"\g<1>1",
        "set of categories does not exist",
    ),
    "linear leaves": (r"is_linear=0", "is_linear=1", "linear leaves"),
    "several outputs": (r"num_tree_per_iteration=1", "num_tree_per_iteration=3", "several outputs"),
}


@pytest.mark.parametrize("why", BROKEN)
def test_a_broken_tree_is_refused(forest: LightGBMForest, why: str) -> None:
    pattern, replacement, reason = BROKEN[why]
    text, n = re.subn(pattern, replacement, text_of(forest), count=1)
    assert n == 1
    with pytest.raises(ValueError, match=f"cannot be read: .*{reason}|{reason}"):
        LightGBMForest.load(text.encode())


def test_parameters_that_are_the_estimators_or_break_a_promise() -> None:
    assert "use random_state= instead" in ENGINE.check({"bagging_seed": 3}, Needs())[0]
    assert "use num_leaves=" in ENGINE.check({"num_leaves": 3}, Needs())[0]
    assert ENGINE.check({"lambda_l1": 0.5}, Needs()) == []
    assert "breaks shrinking" in ENGINE.check({"lambda_l1": 0.5}, Needs(any_scale=True))[0]
    assert "own leaf values" in ENGINE.check({"lambda_l1": 0.5}, Needs(own_leaves=True))[0]
    assert ENGINE.decided_options({"max_bin": 9, "max_bin_by_feature": [3, 4]}) == {
        "max_bin": [3, 4]
    }
