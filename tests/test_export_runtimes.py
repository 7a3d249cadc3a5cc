"""Exports to runtimes, each in the real runtime and in its evaluator, against the model's own scores.

Targets with doubles give the same bits. Targets of single precision give the sum of the same leaves, rounded to single
precision: leaf values that are powers of two, one bit for each leaf, make that sum exact and tell all leaves apart.
"""

from __future__ import annotations

import ctypes
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import onnxruntime
import pytest
import treelite
import xgboost as xgb

from hand_made_trees import SPECIAL_THRESHOLDS, leaf, probe_rows, random_tree, stump
from rankwright import RankingData
from rankwright.engines.contract import Growth
from rankwright.engines.lightgbm import ENGINE
from rankwright.engines.scoring import score
from rankwright.exporting import (
    c_source,
    json_form,
    lightgbm_text,
    onnx_graph,
    treelite_model,
    xgboost_json,
)
from rankwright.exporting.contract import Exported, ExportOptions, Target
from rankwright.exporting.float32 import largest_float32_at_most, smallest_float32_above
from rankwright.exporting.nodes import Form, PlainTree, plain_trees
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
from small import WHOLE
from test_engine_contract import OPTIONS, gradients, hard

MODULES = (json_form, lightgbm_text, xgboost_json, onnx_graph, treelite_model, c_source)
TARGETS: dict[str, Target] = {module.TARGET.name: module.TARGET for module in MODULES}
NAMES = ["plain", "with space", 'pr"ix é*/', "kind"]
COMPILE = ["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O2", "-shared", "-fPIC"]


# The targets that compute with 32-bit numbers.
SINGLE = {"xgboost", "onnx"}


def own_scores(trees: Sequence[TreeArrays], X: Any) -> Any:
    """Scores of the trees as the model computes them."""
    return score(pack(trees, X.shape[1]), X, 0, len(trees), 1)


def runtime_scores(target: str, content: bytes, X: Any, folder: Path) -> Any:
    """Scores of an exported file in the real runtime."""
    X = np.ascontiguousarray(X)
    if target == "json":
        json.loads(content, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
        return None  # our own form has no other runtime
    if target == "lightgbm":
        return lgb.Booster(model_str=content.decode()).predict(X, raw_score=True)
    if target == "xgboost":
        booster = xgb.Booster()
        booster.load_model(bytearray(content))
        learner = json.loads(content)["learner"]
        names, types = learner["feature_names"], learner["feature_types"]
        data = xgb.DMatrix(
            X.astype(np.float32), feature_names=names, feature_types=types, enable_categorical=True
        )
        return booster.predict(data).astype(np.float64)
    if target == "onnx":
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(
            content, settings, providers=["CPUExecutionProvider"]
        )
        return (
            session.run(["score"], {"features": X.astype(np.float32)})[0].ravel().astype(np.float64)
        )
    if target == "treelite":
        (folder / "checkpoint.tl").write_bytes(content)
        model = treelite.Model.deserialize(str(folder / "checkpoint.tl"))
        return treelite.gtil.predict(model, X, nthread=1).ravel()
    source = (
        folder / f"model{len(list(folder.iterdir()))}.c"
    )  # a library is loaded once by its name
    source.write_bytes(content)
    subprocess.run([*COMPILE, str(source), "-o", str(source.with_suffix(".so"))], check=True)
    library = ctypes.CDLL(str(source.with_suffix(".so")))
    doubles = np.ctypeslib.ndpointer(dtype=np.float64, flags="C_CONTIGUOUS")
    library.rankwright_score_rows.argtypes = [doubles, ctypes.c_size_t, doubles]
    library.rankwright_score_rows.restype = None
    library.rankwright_score.argtypes = [doubles]
    library.rankwright_score.restype = ctypes.c_double
    scores = np.zeros(len(X))
    library.rankwright_score_rows(X, len(X), scores)
    assert library.rankwright_score(X[len(X) // 2].copy()) == scores[len(X) // 2]
    return scores


def check(
    target: str, trees: Sequence[TreeArrays], X: Any, folder: Path, names: Sequence[str] = NAMES
) -> Exported:
    """Export, and compare the runtime and the evaluator with the model's own scores."""
    single = target in SINGLE
    exported = TARGETS[target].write(trees, ExportOptions(names))
    expected = own_scores(trees, X)
    evaluated = TARGETS[target].score(exported.content, X, ExportOptions(names))
    ran = runtime_scores(target, exported.content, X, folder)
    if single:
        # Each tree rounds its value and the sum once.
        largest = sum(np.abs(tree.value).max() for tree in trees)
        np.testing.assert_allclose(
            evaluated, expected, rtol=0, atol=2.0**-24 * len(trees) * largest
        )
        order = np.argsort(expected)
        gap = np.diff(expected[order]) > 2.0**-22 * len(trees) * largest
        assert np.all(np.diff(evaluated[order])[gap] > 0)
    else:
        assert np.array_equal(evaluated, expected)
    assert ran is None or np.array_equal(ran, evaluated)
    return exported


def with_bits(trees: Sequence[TreeArrays]) -> list[TreeArrays]:
    """The same trees, one at a time, with a value for each leaf that no rounding touches."""
    return [tree._replace(value=np.arange(1.0, len(tree.value) + 1)) for tree in trees]


def check_each_leaf(target: str, trees: Sequence[TreeArrays], X: Any, folder: Path) -> None:
    """Every tree by itself sends every row to the same leaf."""
    for tree in with_bits(trees):
        exported = TARGETS[target].write([tree], ExportOptions(NAMES))
        expected = own_scores([tree], X)
        assert np.array_equal(
            TARGETS[target].score(exported.content, X, ExportOptions(NAMES)), expected
        )
        ran = runtime_scores(target, exported.content, X, folder)
        assert ran is None or np.array_equal(ran, expected)


# Trained models.


def trained(n_trees: int, **params: Any) -> tuple[list[TreeArrays], RankingData]:
    """Trees of LightGBM on data with missing values, many zeros and a category."""
    data = hard(1)
    options = OPTIONS | WHOLE | {"num_leaves": 24}
    grower = ENGINE.grower(Growth([data], options, params, 5, 1))
    grower.resume(0)
    for iteration in range(n_trees):
        tree = grower.grow(*gradients(iteration, data))
        assert tree is not None
        tree.set(0.1 * tree.values)
    return list(grower.forest().trees()), data


MISSING = {"missing": {}, "zeros": {"zero_as_missing": True}, "no missing": {"use_missing": False}}


@pytest.fixture(scope="module", params=MISSING)
def forest(request: pytest.FixtureRequest) -> tuple[list[TreeArrays], RankingData]:
    trees, data = trained(30, **MISSING[request.param])
    kinds = {"missing": NAN_TO_DEFAULT, "zeros": ZERO_TO_DEFAULT, "no missing": AS_ZERO}
    numeric = [tree.missing[tree.decision == AT_MOST] for tree in trees]
    assert kinds[request.param] in np.concatenate(numeric)
    assert any((tree.decision == AMONG).any() for tree in trees)
    return trees, data


@pytest.mark.parametrize("target", TARGETS)
def test_trained_models(
    target: str, forest: tuple[list[TreeArrays], RankingData], tmp_path: Path
) -> None:
    trees, data = forest
    single = target in SINGLE
    probes = probe_rows(trees, 5, single=single)
    rows = data.X.astype(np.float32) if single else data.X
    X = np.concatenate([rows, probes]).astype(np.float64)
    exported = check(target, trees, X, tmp_path, data.feature_names)
    assert exported.notes == ()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("n_trees", [1, 2, 500])
def test_numbers_of_trees(target: str, n_trees: int, tmp_path: Path) -> None:
    few = [random_tree(seed, 8, [AT_MOST], [NAN_TO_DEFAULT]) for seed in range(min(n_trees, 50))]
    trees = (few * n_trees)[:n_trees]
    check(target, trees, probe_rows(few, single=(target in SINGLE)), tmp_path)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    "trees", [[], [leaf(0.5)], [leaf(0.5), random_tree(1, 3, [AT_MOST]), leaf(-2.0)]]
)
def test_trees_of_one_leaf_and_none(target: str, trees: list[TreeArrays], tmp_path: Path) -> None:
    check(target, trees, probe_rows(trees, single=(target in SINGLE)), tmp_path)


# Trees made by hand: every rule, at every place.


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("decisions", [(AT_MOST,), (AT_MOST, AMONG), (AMONG,)], ids=str)
def test_every_rule_of_random_trees(
    target: str, decisions: tuple[int, ...], tmp_path: Path
) -> None:
    trees = [random_tree(seed, 14, decisions) for seed in range(15)]
    X = probe_rows(trees, single=(target in SINGLE))
    check(target, trees, X, tmp_path)
    check_each_leaf(target, trees[:6], X, tmp_path)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("missing", [AS_ZERO, NAN_TO_DEFAULT, ZERO_TO_DEFAULT])
@pytest.mark.parametrize("default_left", [False, True])
def test_special_thresholds(target: str, missing: int, default_left: bool, tmp_path: Path) -> None:
    boundaries = [
        0.1,
        float(np.float32(0.1)),
        float(np.nextafter(np.float32(0.1), np.float32(1))),
        16777217.0,
    ]
    thresholds = [*SPECIAL_THRESHOLDS, *boundaries, 0.5, -0.5]
    trees = [
        stump(threshold, AT_MOST, missing, default_left)._replace(
            value=2.0 ** np.array([number, -number])
        )
        for number, threshold in enumerate(thresholds)
    ]
    X = probe_rows(trees, single=(target in SINGLE))
    check(target, trees, X, tmp_path)
    check_each_leaf(target, trees[:: 4 if target in ("c", "xgboost") else 1], X, tmp_path)


@pytest.mark.parametrize("target", TARGETS)
def test_decisions_of_single_precision(target: str, tmp_path: Path) -> None:
    """Nodes as XGBoost has them, whose thresholds and features are rounded."""
    trees = [
        random_tree(seed, 12, [BELOW], [AS_ZERO, NAN_TO_DEFAULT, ZERO_TO_DEFAULT])
        for seed in range(12)
    ]
    if target == "lightgbm":  # it reads tiny numbers as zero; the next test has those
        trees = [
            tree._replace(threshold=np.where(np.abs(tree.threshold) < 1e-30, 0.25, tree.threshold))
            for tree in trees
        ]
    trees += [
        random_tree(seed, 12, [AT_MOST, BELOW, AMONG])
        for seed in range(20, 26)
        if target != "lightgbm"
    ]
    single = target in SINGLE
    X = probe_rows(trees, single=single)
    check_each_leaf(target, trees[:8], X, tmp_path)
    assert check(target, trees, X, tmp_path, ["a", "b", "c", "d"]).notes == ()


def test_what_lightgbm_reads_as_zero_is_counted(tmp_path: Path) -> None:
    trees = [stump(0.0, BELOW), stump(0.5, BELOW), stump(1e-36, BELOW, missing=AS_ZERO)]
    X = np.array([[0.0], [-0.0], [np.nan], [1e-30], [-1e-30], [0.5], [np.nextafter(0.5, 0)]])
    exported = check("lightgbm", trees, X, tmp_path, ["a"])
    assert len(exported.notes) == 1
    assert exported.notes[0].startswith("2 splits have a threshold closer to zero")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("missing", [AS_ZERO, NAN_TO_DEFAULT])
@pytest.mark.parametrize("default_left", [False, True])
def test_sets_of_categories(target: str, missing: int, default_left: bool, tmp_path: Path) -> None:
    sets = ([0], [1, 31, 32, 33, 63, 64], [0, 40], list(range(0, 200, 3)))
    trees = [stump(0.0, AMONG, missing, default_left, one, column=3) for one in sets]
    X = np.zeros((210, 4))
    X[:, 3] = [*range(205), np.nan, 1e5, 0, 1, 2]
    check_each_leaf(target, trees, X, tmp_path)


@pytest.mark.parametrize("target", ["xgboost", "onnx"])
def test_a_category_that_single_precision_cannot_hold_is_refused(target: str) -> None:
    tree = stump(0.0, AMONG, categories=[3, 1 << 24], column=3)
    with pytest.raises(ValueError, match="feature 'kind' has the category 16777216"):
        TARGETS[target].write([tree], ExportOptions(NAMES))


def test_zeros_apart_from_their_neighbours_become_several_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tree = stump(0.5, AT_MOST, ZERO_TO_DEFAULT, default_left=False)
    plain = plain_tree(tree)
    assert plain.bound == [0.5, ZERO, np.nextafter(-ZERO, -1)]
    assert plain.value.count(1.0) == plain.value.count(2.0) == 2
    for threshold, default_left in ((0.5, True), (1e-35, False)):
        simple = stump(threshold, AT_MOST, ZERO_TO_DEFAULT, default_left=default_left)
        assert len(plain_tree(simple).bound) == 1
    monkeypatch.setattr("rankwright.exporting.nodes.MOST_SPLITS", 1)
    with pytest.raises(ValueError, match="more than 2 splits; tree 0 is at 'plain'"):
        plain_tree(tree)


def plain_tree(tree: TreeArrays) -> PlainTree:
    (plain,) = plain_trees([tree], NAMES, Form())
    return plain


def test_a_path_that_knows_a_value_leaves_nodes_out() -> None:
    """The same feature is asked again below: copies do not grow with each question."""
    chain = 6
    tree = TreeArrays(
        np.zeros(chain, dtype=np.int32),
        np.linspace(3, 0.5, chain),
        np.full(chain, AT_MOST, dtype=np.uint8),
        np.full(chain, ZERO_TO_DEFAULT, dtype=np.uint8),
        np.zeros(chain, dtype=bool),
        np.array([*range(1, chain), ~0], dtype=np.int32),
        np.array([~leaf for leaf in range(1, chain + 1)], dtype=np.int32),
        tuple(np.empty(0, dtype=np.int64) for _ in range(chain)),
        np.arange(chain + 1.0),
        np.ones(chain),
    )
    assert len(plain_tree(tree).feature) == 3 + (chain - 1)


# Forms and names.


def test_the_json_form_is_documented() -> None:
    trees = [random_tree(1), leaf(1.0)]
    model = json.loads(json_form.TARGET.write(trees, ExportOptions(NAMES)).content)
    documented = set(re.findall(r'"(\w+)":', json_form.__doc__ or ""))
    assert documented == set(model) | set(model["trees"][0])
    assert model["features"] == NAMES
    assert model["trees"][1]["value"] == [1.0]
    with pytest.raises(ValueError, match="not of the form 'rankwright-trees'"):
        json_form.TARGET.score(b'{"format": "other"}', np.zeros((1, 4)), ExportOptions(NAMES))


@pytest.mark.parametrize("target", ["json", "xgboost"])
def test_columns_are_found_by_name(target: str) -> None:
    trees = [random_tree(seed, 9, [AT_MOST]) for seed in range(5)]
    content = TARGETS[target].write(trees, ExportOptions(NAMES)).content
    X = probe_rows(trees, single=True)
    straight = TARGETS[target].score(content, X, ExportOptions(NAMES))
    order = [2, 0, 3, 1]
    mixed = TARGETS[target].score(
        content, X[:, order], ExportOptions([NAMES[column] for column in order])
    )
    assert np.array_equal(straight, mixed)
    with pytest.raises(ValueError, match="feature 'kind' of the exported model is not a column"):
        TARGETS[target].score(content, X[:, :3], ExportOptions(NAMES[:3]))


@pytest.mark.parametrize("target", ["lightgbm", "onnx", "treelite", "c"])
def test_rows_of_another_width_are_refused(target: str) -> None:
    content = TARGETS[target].write([random_tree(1)], ExportOptions(NAMES)).content
    with pytest.raises(
        ValueError, match=r"shape \(2, 3\); the exported model takes 4 columns|onnx"
    ):
        TARGETS[target].score(content, np.zeros((2, 3)), ExportOptions(NAMES))


def test_the_text_of_lightgbm_keeps_names_apart_and_says_the_objective() -> None:
    names = ["a b", "a_b", 'a"b', "é"]
    content = lightgbm_text.TARGET.write([random_tree(1)], ExportOptions(names)).content
    booster = lgb.Booster(model_str=content.decode())
    assert len(set(booster.feature_name())) == 4
    assert {"a_b", "é"} < set(booster.feature_name())
    assert booster.dump_model()["objective"] == "lambdarank"


def test_the_text_of_lightgbm_has_the_gains() -> None:
    """Also if a split becomes several: its gain is counted once."""
    trees = [
        stump(0.5, missing=ZERO_TO_DEFAULT, column=0)._replace(gain=np.array([3.0])),
        stump(0.5, column=1)._replace(gain=np.array([0.25])),
        stump(0.0, AMONG, default_left=True, categories=[1, 3], column=3),
    ]
    content = lightgbm_text.TARGET.write(trees, ExportOptions(NAMES)).content
    booster = lgb.Booster(model_str=content.decode())
    assert booster.feature_importance("gain").tolist() == [3.0, 0.25, 0.0, 1.0]


def test_xgboost_writes_the_same_model_again() -> None:
    trees = [random_tree(seed, 14, [AT_MOST, AMONG]) for seed in range(10)]
    content = xgboost_json.TARGET.write(trees, ExportOptions(NAMES)).content
    booster = xgb.Booster()
    booster.load_model(bytearray(content))
    ours, again = json.loads(content)["learner"], json.loads(booster.save_raw("json"))["learner"]
    assert ours["gradient_booster"] == again["gradient_booster"]
    assert ours["feature_types"] == again["feature_types"] == ["float", "float", "float", "c"]
    assert set(ours) == set(again)


def test_the_graph_names_its_features_and_shares_no_branch_but_those_of_sets() -> None:
    import onnx

    content = onnx_graph.TARGET.write(
        [random_tree(1, 9, [AT_MOST])], ExportOptions(NAMES, name="web")
    ).content
    model = onnx.load_from_string(content)
    onnx.checker.check_model(model, full_check=True)
    assert model.graph.name == "web"
    assert json.loads(model.metadata_props[0].value) == NAMES
    lists = {
        one.name: onnx.helper.get_attribute_value(one) for one in model.graph.node[0].attribute
    }
    branches = [
        child
        for mode, *pair in zip(
            lists["nodes_modes"],
            lists["nodes_truenodeids"],
            lists["nodes_falsenodeids"],
            strict=True,
        )
        if mode != b"LEAF"
        for child in pair
    ]
    assert len(branches) == len(set(branches))


@pytest.mark.parametrize("name", ["web-search 2", "2nd", "é"])
def test_names_of_c_functions_compile(name: str, tmp_path: Path) -> None:
    content = c_source.TARGET.write([random_tree(1)], ExportOptions(NAMES, name=name)).content
    (tmp_path / "model.c").write_bytes(content)
    caller = "int main(void) { return !(NAMES[2][0] == 'p' && SCORE((const double[4]){1, 2, 3, 4}) == WANTED); }\n"
    plain = c_source.identifier(name)
    wanted = own_scores([random_tree(1)], np.array([[1.0, 2.0, 3.0, 4.0]]))[0]
    text = caller.replace("NAMES", f"{plain}_feature_names").replace("SCORE", f"{plain}_score")
    (tmp_path / "main.c").write_text(
        '#include "model.c"\n' + text.replace("WANTED", repr(float(wanted)))
    )
    flags = [flag for flag in COMPILE if flag not in ("-shared", "-fPIC")]
    subprocess.run([*flags, str(tmp_path / "main.c"), "-o", str(tmp_path / "main")], check=True)
    subprocess.run([str(tmp_path / "main")], check=True)


@pytest.mark.parametrize(("target", "library"), [("onnx", "onnx"), ("treelite", "treelite")])
def test_a_missing_library_is_named_with_its_extra(
    target: str, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf"needs {library}, .*rankwright\[{target}\]"):
        TARGETS[target].write([leaf(1.0)], ExportOptions(NAMES))
    with pytest.raises(ImportError, match=rf"needs {library}, "):
        TARGETS[target].score(b"", np.zeros((1, 4)), ExportOptions(NAMES))


def test_thresholds_of_single_precision_let_the_same_numbers_pass() -> None:
    draw = np.random.default_rng(0)
    thresholds = np.concatenate([draw.normal(size=300), SPECIAL_THRESHOLDS, [1e-46, -1e-46]])
    near = thresholds.clip(-3e38, 3e38).astype(np.float32)
    zero = np.zeros(1, dtype=np.float32)
    numbers = np.unique(
        np.concatenate([near, np.nextafter(near, near - 1), np.nextafter(near, near + 1), zero])
    )
    expected = numbers[:, None].astype(np.float64) <= thresholds
    assert np.array_equal(numbers[:, None] <= largest_float32_at_most(thresholds), expected)
    assert np.array_equal(numbers[:, None] < smallest_float32_above(thresholds), expected)
