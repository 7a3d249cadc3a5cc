"""The light scorer: the bits of the model for every kind of saved model, NumPy only, and refusals with a reason."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_matrix

import hand_made_trees
import rankwright as rw
import rankwright_scorer as scorer
from export_models import QID, TRAINING, X, Y, categorical, trained
from hand_made_trees import leaf, random_tree, stump
from rankwright.engines.lightgbm.forest import LightGBMForest
from rankwright.engines.xgboost.forest import GrownTree, XGBoostForest
from rankwright.exporting import lightgbm_text
from rankwright.exporting.contract import ExportOptions
from rankwright.exporting.probes import probe_rows
from rankwright.kernels.tree_arrays import AMONG, AT_MOST, NAN_TO_DEFAULT
from rankwright_scorer import trees as scorer_trees
from small import TRAIN, VALID, quick

NAMES = ["plain", "second", "third", "kind"]
KINDS = ["rank", "z", "gap", "share", "mean", "max", "rrf"]


def saved(model: Any, folder: Path) -> scorer.Model:
    model.save(folder / "model")
    return scorer.load(folder / "model")


def same_bits(found: Any, expected: Any) -> None:
    assert found.dtype == expected.dtype
    assert found.tobytes() == expected.tobytes()


def probes_of(model: rw.Model) -> Any:
    columns = model.columns
    levels = {columns.feature_names.index(n): values for n, values in columns.categories.items()}
    every = list(model.forest.trees())
    rows = [part.rows for part in probe_rows(every, X, single=False, levels=levels)]
    return np.concatenate(rows)


@cache
def grown_by_xgboost() -> rw.Model:
    data = rw.RankingData(X, Y, qid=QID, categorical=[4])
    params = {"max_cat_to_onehot": 1}
    ranker = quick(engine="xgboost", n_estimators=20, engine_params=params).fit(data)
    assert any((tree.decision == AMONG).any() for tree in ranker.model_.forest.trees())
    return ranker.model_


EXPORTED: dict[str, Callable[[], rw.Model]] = {
    **{name: (lambda name=name: trained(name)) for name in TRAINING},
    "categories as text": lambda: categorical(True),
    "categories as codes": lambda: categorical(False),
    "xgboost": grown_by_xgboost,
}


@pytest.mark.parametrize("name", EXPORTED)
def test_the_bits_of_exported_models_on_their_probes(name: str, tmp_path: Path) -> None:
    model = EXPORTED[name]()
    rows = probes_of(model)
    same_bits(saved(model, tmp_path).predict(rows), model.predict(rows))


@pytest.mark.parametrize("n_leaves", [2, 12, 64, 65, 200])
@pytest.mark.parametrize("written", ["lightgbm", "xgboost"])
def test_the_bits_of_trees_of_any_shape(n_leaves: int, written: str) -> None:
    kinds: dict[str, Any] = {"decisions": (AT_MOST, AMONG)}
    if written == "xgboost":
        kinds["missing"] = (NAN_TO_DEFAULT,)
    trees = [random_tree(seed, n_leaves, **kinds) for seed in range(4)]
    trees += [leaf(0.1), stump(-0.0), stump(0.0, default_left=True)]
    rows = hand_made_trees.probe_rows(trees)
    if written == "lightgbm":
        content = lightgbm_text.TARGET.write(trees, ExportOptions(NAMES)).content
        found, expected = scorer_trees.read_lightgbm(content), LightGBMForest.load(content)
    else:
        grown = [GrownTree(tree, np.ones(len(tree.value))) for tree in trees]
        content = XGBoostForest(grown, 4).dump()
        found, expected = scorer_trees.read_json(content), XGBoostForest.load(content)
    sums = np.zeros(len(rows))
    found.add(rows, sums)
    same_bits(sums, expected.predict(rows))


def hard_values(seed: int) -> tuple[rw.RankingData, Any]:
    """Ties, zeros of both signs, missing values, large and tiny numbers, sums that depend on their order."""
    draw = np.random.default_rng(seed)
    values = draw.normal(size=(240, 7))
    values[:, 1] = draw.integers(-1, 2, 240) * np.where(draw.random(240) < 0.5, -1.0, 1.0)
    values[:, 2] *= 1e200
    values[:, 3] *= 1e-200
    values[:, 4] = 1e9 + draw.integers(0, 5, 240)
    values[:, 5] = 7.0
    values[:, 6] = draw.choice([-1e16, 1e16, 1.0, 3.0], 240)
    values[draw.random(values.shape) < 0.2] = np.nan
    qid = draw.integers(0, 30, 240)
    y = np.clip(np.nan_to_num(values[:, 0]).round() + 1 + np.nan_to_num(values[:, 1]), 0, 3)
    return rw.RankingData(values, y, qid=qid), qid


COMPARING: dict[str, dict[str, Any]] = {
    "within the query": {"within_query": KINDS},
    "linear start": {"start": "linear"},
    "both": {"start": "linear", "within_query": {"f0": "rank", "f3": ["z", "share"]}},
    "members": {"start": "linear", "members": 3, "subsample": 0.7},
    "single documents": {"start": "linear-global"},
    "members on single documents": {"start": "linear-global", "members": 3},
    "members within the query": {"within_query": "z", "members": 2},
}


@pytest.mark.parametrize("name", COMPARING)
def test_the_bits_of_models_that_compare_the_documents_of_a_query(
    name: str, tmp_path: Path
) -> None:
    data, _ = hard_values(1)
    model = quick(**COMPARING[name]).fit(data).model_
    test, qid = hard_values(2)
    rows = np.asarray(hard_values(2)[0].X)
    light = saved(model, tmp_path)
    expected = model.predict(rows, qid=np.asarray(test.qid))
    same_bits(light.predict(rows, qid=np.asarray(test.qid)), expected)
    order = np.argsort(test.qid, kind="stable")
    sizes = np.unique(test.qid, return_counts=True)[1]
    same_bits(
        light.predict(rows[order], group=sizes), model.predict(rows[order], group=sizes.tolist())
    )
    for first in (0, 50):
        few = rows[first : first + 17]
        ours, theirs = light.rank(few, range(17)), model.rank(few, range(17))
        assert ours.ids == theirs.ids
        same_bits(ours.scores, theirs.scores)
    assert len(qid) == len(rows)


def test_the_bits_of_a_training_set_of_32_bits(tmp_path: Path) -> None:
    data = rw.RankingData(np.asarray(TRAIN.X, np.float32), TRAIN.y, qid=TRAIN.qid)
    model = quick(within_query=["rank", "z"], start="linear").fit(data).model_
    rows = np.asarray(VALID.X, np.float32)
    expected = model.predict(rows, qid=VALID.qid)
    same_bits(saved(model, tmp_path).predict(rows, qid=VALID.qid), expected)


def frame() -> pd.DataFrame:
    draw = np.random.default_rng(0)
    columns: dict[str, Any] = {"bm25": draw.normal(size=200), "age": draw.integers(0, 9, 200)}
    columns["kind"] = draw.choice(["news", "shop", "wiki", "forum"], 200)
    columns["query"] = draw.integers(0, 25, 200)
    columns["before"] = draw.normal(size=200)
    whole = pd.DataFrame(columns)
    whole["grade"] = np.clip(np.round(whole["bm25"] + (whole["kind"] == "news") + 1), 0, 3)
    whole.loc[::7, "bm25"] = np.nan
    whole.loc[::5, "kind"] = None
    return whole.astype({"kind": "category"})


@pytest.mark.parametrize("base_score", [None, "before"])
def test_columns_are_found_by_their_names(base_score: str | None, tmp_path: Path) -> None:
    rows = frame()
    ranker = quick(within_query={"bm25": "z"}, min_child_samples=2)
    data = rows if base_score else rows.drop(columns="before")
    ranker.fit(data, "grade", qid="query", base_score=base_score)
    light = saved(ranker, tmp_path)
    # A category that was not in training counts as missing.
    data = data.assign(kind=data["kind"].cat.rename_categories({"wiki": "blog"}))[
        data.columns[::-1]
    ]
    expected = ranker.predict(data)
    same_bits(light.predict(data), expected)
    same_bits(light.predict(pl.from_pandas(data)), expected)
    arrays = {name: data[name].to_numpy() for name in data.columns}
    same_bits(light.predict(arrays), expected)
    same_bits(light.predict(arrays, qid="query"), expected)
    query = data[data["query"] == 3]
    ids = list(query.index)
    assert light.rank(query, ids).ids == ranker.model_.rank(query, ids).ids


def test_base_scores_as_an_array_or_a_feature(tmp_path: Path) -> None:
    start = np.random.default_rng(0).normal(size=len(TRAIN.y))
    model = quick().fit(TRAIN, base_score=start).model_
    given = np.linspace(0, 1, len(VALID.y))
    light = saved(model, tmp_path)
    expected = model.predict(VALID, base_score=given)
    same_bits(light.predict(VALID.X, base_score=given), expected)
    name = TRAIN.feature_names[2]
    model = quick().fit(TRAIN, base_score=name).model_
    same_bits(saved(model, tmp_path).predict(VALID.X), model.predict(VALID))


@pytest.mark.parametrize("name", ["model", "model.zip"])
def test_the_forms_of_a_saved_model(name: str, tmp_path: Path) -> None:
    ranker = quick().fit(TRAIN)
    ranker.save(tmp_path / "run" / name)
    path = tmp_path / "run" / name
    same_bits(scorer.load(path).predict(VALID.X), ranker.predict(VALID.X))
    if name == "model":  # a run folder
        same_bits(scorer.load(tmp_path / "run").predict(VALID.X), ranker.predict(VALID.X))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"format_version": 2}, "has format 2, and this version reads format 1; upgrade"),
        ({"model_sha256": "0"}, "do not have the hash"),
        ({"engine": {"name": "forest"}}, "trees come from 'forest'"),
        ({"feature_names": ["one"]}, "do not have the same columns"),
        ({"within_query": {"f0": ["best"]}}, "garbles the features within the query"),
        ({"categories": 5}, "garbles"),
        ({"categories": {"count_0": 5}}, "garbles"),
        ({"categories": {"other": None}}, "categories of columns that it does not name"),
        ({"model_file": "../../secret"}, "secret"),
    ],
)
def test_models_that_are_refused(change: dict[str, Any], reason: str, tmp_path: Path) -> None:
    quick().fit(TRAIN).save(tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    (tmp_path / "manifest.json").write_text(json.dumps(manifest | change))
    with pytest.raises((ValueError, FileNotFoundError), match=reason):
        scorer.load(tmp_path)


def test_a_damaged_tree_is_refused() -> None:
    document = json.loads(XGBoostForest([GrownTree(stump(1.0), np.ones(2))], 4).dump())
    tree = document["trees"][0]
    for change in (
        {"left": [0]},
        {"left": [-2]},
        {"left": [1]},
        {"column": [4]},
        {"column": [-1]},
        {"value": [1.0, None]},
        {"value": [1.0]},
        {"missing_left": []},
        {"categories": [[1 << 30]]},
    ):
        damaged = document | {"trees": [tree | change]}
        with pytest.raises((ValueError, TypeError), match=r"damaged|float"):
            scorer_trees.read_json(json.dumps(damaged).encode())


def test_rows_that_are_refused(tmp_path: Path) -> None:
    light = saved(quick(within_query={"count_0": "z"}).fit(TRAIN), tmp_path)
    rows = np.array(VALID.X)
    cases: list[tuple[Any, dict[str, Any], str]] = [
        (csr_matrix(rows), {}, "sparse matrix; give X.toarray"),
        (rows[:, :-1], {}, "has 25 columns"),
        ({"count_0": [1.0]}, {}, "lacks the columns 'count_1'"),
        (np.full_like(rows, np.inf), {}, "infinite value"),
        ([["a"] * 25], {}, "must hold numbers"),
        (rows, {}, "compares the documents of a query: pass qid="),
        (rows, {"group": [3]}, "have 3 rows"),
        (rows, {"group": [0.5]}, "number of rows of each query"),
        (rows, {"qid": "query"}, "not a column"),
        (rows, {"group": [len(rows)], "base_score": rows[:, 0]}, "trained with it"),
    ]
    for given, options, reason in cases:
        with pytest.raises(ValueError, match=reason):
            light.predict(given, **options)
    with pytest.raises(ValueError, match="ids has 2 entries for 3 rows"):
        light.rank(rows[:3], ["a", "b"])
    light = saved(categorical(True), tmp_path / "codes")
    with pytest.raises(ValueError, match="'colour' holds categories"):
        light.predict(X + 0.5)
    light = saved(quick().fit(TRAIN, base_score=np.arange(len(TRAIN.y)) * 1.0), tmp_path / "base")
    with pytest.raises(ValueError, match="give base_score=, one score per row"):
        light.predict(rows)
    with pytest.raises(ValueError, match="a finite score for each row"):
        light.predict(rows, base_score=rows[:, 0] * np.nan)


def test_it_needs_numpy_only() -> None:
    code = """
import sys
before = set(sys.modules)
import rankwright_scorer
names = {name.split(".")[0] for name in set(sys.modules) - before}
print(sorted(names - sys.stdlib_module_names))
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "['numpy', 'rankwright_scorer']"
