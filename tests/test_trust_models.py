"""Model files from strangers: trees that are none are refused before a kernel or LightGBM follows them."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from pathlib import Path

import lightgbm as lgb
import numpy as np
import pytest

import rankwright as rw
from rankwright.engines.lightgbm import ENGINE
from rankwright.engines.scoring import DEEPEST_EXPLAINED
from rankwright.exporting import export_options, load_target
from rankwright.exporting.verify import verify_content
from rankwright.kernels.tree_arrays import AS_ZERO, AT_MOST, TreeArrays, pack
from test_engine_contract import HARD, HARD_PARTS
from test_engine_lightgbm import grown


def test_garbled_models_whose_hash_matches_end_no_process(tmp_path: Path) -> None:
    fuzz = Path(__file__).parents[1] / "tools" / "trust" / "fuzz.py"
    command = [
        sys.executable,
        str(fuzz),
        "--readers",
        "folder/lightgbm",
        "folder/xgboost",
        "--cases",
        "150",
    ]
    done = subprocess.run(
        [*command, "--findings", str(tmp_path)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert done.stdout.count(" 150 cases ") == 2
    assert done.stdout.endswith("\n0 findings\n")


def tree(left: list[int], right: list[int]) -> TreeArrays:
    n = len(left)
    return TreeArrays(
        feature=np.zeros(n, dtype=np.int32),
        threshold=np.zeros(n),
        decision=np.full(n, AT_MOST, dtype=np.uint8),
        missing=np.full(n, AS_ZERO, dtype=np.uint8),
        default_left=np.zeros(n, dtype=bool),
        left=np.array(left, dtype=np.int32),
        right=np.array(right, dtype=np.int32),
        categories=(np.empty(0, dtype=np.int64),) * n,
        value=np.ones(n + 1),
        gain=np.zeros(n),
    )


def test_a_cycle_that_the_root_does_not_reach_is_refused() -> None:
    assert pack([tree([1, ~0, ~1], [2, ~2, ~3])], 1).left.tolist() == [1, ~0, ~1]
    with pytest.raises(ValueError, match="a node cannot be reached from the root"):
        pack([tree([~0, 2, 1], [~1, ~2, ~3])], 1)


def chain(nodes: int) -> str:
    """The text of a tree in which each right child is the next node."""
    one = " ".join(["0"] * nodes)
    fields = {
        "num_leaves": nodes + 1,
        "num_cat": 0,
        "split_feature": one,
        "split_gain": one,
        "threshold": one,
        "decision_type": one,
        "left_child": " ".join(str(~node) for node in range(nodes)),
        "right_child": " ".join(str(node) for node in [*range(1, nodes), ~nodes]),
        "leaf_value": " ".join(["0.5"] * (nodes + 1)),
        "leaf_count": " ".join(["1"] * (nodes + 1)),
        "internal_count": " ".join(str(nodes + 1 - node) for node in range(nodes)),
        "is_linear": 0,
    }
    head = (
        "tree\nversion=v4\nnum_class=1\nnum_tree_per_iteration=1\nmax_feature_idx=0\n"
        "feature_names=a\ntree_sizes=1\n\n"
    )
    return (
        head
        + "Tree=0\n"
        + "".join(f"{name}={value}\n" for name, value in fields.items())
        + "\n\nend of trees\n"
    )


def test_a_deep_tree_is_scored_but_has_no_shap_values() -> None:
    X = np.array([[0.0], [1.0]])
    deep = ENGINE.load(chain(20_000).encode())
    assert deep.predict(X).tolist() == [0.5, 0.5]
    with pytest.raises(
        ValueError,
        match=f"SHAP values need trees of at most {DEEPEST_EXPLAINED} levels; the model has one of 20000",
    ):
        deep.contributions(X)
    assert ENGINE.load(chain(DEEPEST_EXPLAINED).encode()).contributions(X)[
        :, 1
    ].tolist() == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize(
    "counts", ["", "leaf_count=1", "leaf_count=0 0 0", "leaf_count=1 1 99999999999", "leaf_count=x"]
)
def test_shap_values_need_the_numbers_of_rows(counts: str) -> None:
    forest = ENGINE.load(chain(2).replace("leaf_count=1 1 1", counts).encode())
    with pytest.raises(ValueError, match="number"):
        forest.contributions(np.array([[0.0]]))


@pytest.mark.parametrize("gain", ["nan", "inf", "1e39"])
def test_gains_that_add_up_to_no_importance_are_refused(gain: str) -> None:
    with pytest.raises(ValueError, match="the gain of a node is not a number of 32 bits"):
        ENGINE.load(chain(2).replace("split_gain=0 0", f"split_gain=0 {gain}").encode())


def test_shap_values_add_up_whatever_a_file_says_about_the_rows_in_nodes() -> None:
    X = np.array([[-1.0], [1.0]])
    text = chain(3).replace("leaf_value=0.5 0.5 0.5 0.5", "leaf_value=0.5 1 -2 4")
    assert "internal_count=4 3 2\n" in text
    whole = ENGINE.load(text.encode())
    changed = ENGINE.load(
        text.replace("internal_count=4 3 2", "internal_count=2147483647 1 900").encode()
    )
    assert whole.contributions(X).tolist() == [
        [-0.375, 0.875],
        [3.125, 0.875],
    ]  # (0.5 + 1 - 2 + 4) / 4 is expected
    assert np.array_equal(changed.contributions(X), whole.contributions(X))
    with pytest.raises(ValueError, match="a number of rows for each leaf"):
        ENGINE.load(
            text.replace("leaf_count=1 1 1 1", "leaf_count=1 2147483647 1 1").encode()
        ).contributions(X)


def test_many_nodes_do_not_share_a_set_of_categories() -> None:
    text = (
        chain(3)
        .replace("decision_type=0 0 0", "decision_type=1 1 0")
        .replace("num_cat=0", "num_cat=1")
    )
    text = text.replace("is_linear=0", "cat_boundaries=0 1\ncat_threshold=7\nis_linear=0")
    with pytest.raises(ValueError, match="two nodes share a set of categories"):
        ENGINE.load(text.encode())


def test_shap_values_are_lightgbms() -> None:
    forest = grown(12, HARD, parts=HARD_PARTS, num_leaves=24).forest()
    X = HARD_PARTS[1].X
    expected = lgb.Booster(model_str=forest.dump().decode()).predict(X, pred_contrib=True)
    # Other processors may fuse a product and a sum in LightGBM's code.
    tolerance = 0 if platform.machine() in ("x86_64", "AMD64") else 1e-9
    np.testing.assert_allclose(forest.contributions(X), expected, rtol=tolerance, atol=tolerance)


CYCLES = {
    "json": (rb'"left":\[\d+', b'"left":[0'),
    "lightgbm": (rb"left_child=\S+", b"left_child=0"),
    "xgboost": (rb'"left_children": ?\[\d+', b'"left_children": [0'),
    "elastic": (rb'"left_child": ?\d+', b'"left_child": 0'),
}


@pytest.mark.parametrize("target", CYCLES)
def test_an_exported_file_whose_nodes_lead_back_is_one_error(tmp_path: Path, target: str) -> None:
    rows = rw.make_web_search(10, kind="short", n_features=20, random_state=1)
    model = rw.Ranker(n_estimators=2, num_leaves=4, min_child_samples=3, verbose=0).fit(rows).model_
    rw.export(model, target, tmp_path / "file")
    content = (tmp_path / "file").read_bytes()
    changed, times = re.subn(*CYCLES[target], content, count=1)
    assert times == 1
    with pytest.raises(ValueError, match="not a tree"):
        verify_content(changed, model, load_target(target), export_options(model), rows.X)
    for damaged in (b"[]", b"{}", b"[" * 100_000, b"3"):
        with pytest.raises(
            ValueError, match=r"not a file for|not of the form|Expecting|empty|no trees|invalid"
        ):
            verify_content(damaged, model, load_target(target), export_options(model), rows.X)
