"""Features within the query: values against loops and hand-worked ones, laws of order, and every way to score."""

from __future__ import annotations

import ctypes
import math
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import rankwright as rw
from rankwright.data.columns import Columns
from rankwright.data.within_query import KINDS, Recipe, read_recipe

ALL = list(KINDS)
NAMED = rw.make_web_search(40, n_features=20, mean_length=15, random_state=3)
DATA = rw.RankingData(NAMED.X, NAMED.y, qid=NAMED.qid)
TRAIN, TEST = DATA.split(0.3)


def expected_features(values: list[float]) -> dict[str, list[float]]:
    """The definitions, as loops over the documents of one query."""
    known = [x for x in values if not math.isnan(x)]
    mean = math.fsum(known) / len(known) if known else math.nan
    spread = (
        math.sqrt(math.fsum((x - mean) ** 2 for x in known) / len(known)) if known else math.nan
    )
    size = math.fsum(abs(x) for x in known)
    rows: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for x in values:
        missing = math.isnan(x)
        above, equal = sum(other > x for other in known), sum(other == x for other in known)
        rows["rank"].append(math.nan if missing else above + (equal + 1) / 2)
        rows["z"].append(math.nan if missing else (x - mean) / spread if spread else 0.0)
        rows["gap"].append(math.nan if missing else max(known) - x)
        rows["share"].append(math.nan if missing else x / size if size else 0.0)
        rows["mean"].append(math.nan if missing else mean)
        rows["max"].append(math.nan if missing else max(known))
        rows["rrf"].append(1 / (60 + rows["rank"][-1]))
    return rows


def features(X: Any, group: list[int], option: Any = ALL) -> Any:
    names = [f"f{number}" for number in range(X.shape[1])]
    recipe = read_recipe(option, Columns(names, {}))
    return recipe.extended(X, names, np.cumsum([0, *group]), threads=1)


def test_values_worked_by_hand():
    # mean (1 + 4 + 4 + 7) / 4 = 4, variance (9 + 0 + 0 + 9) / 4 = 4.5, sum 16
    X = np.array([[1.0], [4.0], [np.nan], [4.0], [7.0]])
    rank, z, gap, share, mean, highest, rrf = features(X, [5])[:, 1:].T
    np.testing.assert_array_equal(rank, [4, 2.5, np.nan, 2.5, 1])
    np.testing.assert_allclose(z, [-3 / 4.5**0.5, 0, np.nan, 0, 3 / 4.5**0.5], rtol=1e-7)
    np.testing.assert_array_equal(gap, [6, 3, np.nan, 3, 0])
    np.testing.assert_array_equal(share, [1 / 16, 4 / 16, np.nan, 4 / 16, 7 / 16])
    np.testing.assert_array_equal(mean, [4, 4, np.nan, 4, 4])
    np.testing.assert_array_equal(highest, [7, 7, np.nan, 7, 7])
    np.testing.assert_allclose(rrf, [1 / 64, 1 / 62.5, np.nan, 1 / 62.5, 1 / 61], rtol=1e-7)


def test_a_query_of_one_document_and_one_without_a_value_are_defined():
    found = features(np.array([[-3.0], [np.nan]]), [1, 1])[:, 1:]
    np.testing.assert_array_equal(found, [[1, 0, 0, -1, -3, -3, np.float32(1 / 61)], [np.nan] * 7])


@pytest.mark.parametrize(
    "n", [2, 7, 64, 65, 300]
)  # the kernel sorts short and long queries in different ways
def test_values_are_those_of_the_definition(n):
    draw = np.random.default_rng(n)
    X = np.column_stack(
        [draw.normal(size=n), draw.integers(0, 4, n), np.zeros(n), 1e200 * draw.normal(size=n)]
    )
    X[draw.random(X.shape) < 0.1] = np.nan
    X[:, 3] = np.where(np.abs(X[:, 3]) > 1e38, X[:, 3] / 1e170, X[:, 3])
    found = features(X, [n])
    for column in range(4):
        expected = expected_features(X[:, column].tolist())
        for number, kind in enumerate(KINDS):
            seen = found[:, 4 + 4 * number + column]
            np.testing.assert_allclose(seen, expected[kind], rtol=1e-6, atol=1e-7, err_msg=kind)
            np.testing.assert_array_equal(seen, seen.astype(np.float32).astype(np.float64))


@pytest.mark.parametrize("first", ALL)
@pytest.mark.parametrize("second", ALL)
def test_what_is_chosen_for_one_column_is_not_written_for_another(first, second):
    X = np.random.default_rng(0).normal(size=(9, 2))
    everything = features(X, [4, 5])
    found = features(X, [4, 5], {"f0": [first], "f1": [second]})
    columns = sorted([(ALL.index(first), 0), (ALL.index(second), 1)])
    np.testing.assert_array_equal(
        found[:, 2:], everything[:, [2 + 2 * kind + column for kind, column in columns]]
    )


def test_huge_and_tiny_values_stay_finite():
    X = np.array([[1e308, 1e-300], [-1e308, 3e-300], [1e308, 2e-300]])
    found = features(X, [3], "z share gap")
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[:, 2], [0.5**0.5, -(2**0.5), 0.5**0.5], rtol=1e-6)
    np.testing.assert_allclose(found[:, 3], [-(1.5**0.5), 1.5**0.5, 0], rtol=1e-6)


@pytest.mark.parametrize("level", [1e15, -1.7e15, 2.0**52])
def test_values_that_are_large_and_close_together_keep_their_distances(level):
    steps = np.array([[3.0], [3], [3], [0], [3], [3], [1], [3]])
    found, expected = (features(X, [8], "z")[:, 1] for X in (level + steps, steps))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_neither_the_order_of_rows_nor_threads_nor_precision_change_a_bit():
    X = np.array(TRAIN.X, dtype=np.float32)
    order = np.random.default_rng(0).permutation(len(X))
    recipe = read_recipe(ALL, TRAIN)
    given = recipe.extended(X, TRAIN.feature_names, TRAIN.boundaries, threads=1)
    transformer = rw.WithinQuery(ALL).fit(X)
    np.testing.assert_array_equal(
        transformer.transform(X[order], qid=TRAIN.qid[order]), given[order]
    )
    wide = recipe.extended(X.astype(np.float64), TRAIN.feature_names, TRAIN.boundaries, threads=3)
    np.testing.assert_array_equal(wide, given.astype(np.float64))


def test_sparse_rows_have_the_values_of_dense_ones():
    X = np.where(
        np.random.default_rng(1).random((30, 3)) < 0.6, 0.0, np.arange(90.0).reshape(30, 3)
    )
    found = features(sp.csr_matrix(X), [10, 20])
    assert sp.issparse(found)
    np.testing.assert_array_equal(found.toarray(), features(X, [10, 20]))
    with pytest.raises(ValueError, match="name the columns that matter"):
        features(sp.csr_matrix((4, 2000)), [4])


def test_columns_are_chosen_by_name_and_categories_are_left_out():
    columns = Columns(["bm25", "language", "length"], {"language": None})
    assert read_recipe("z, rank", columns).names == [
        "bm25 [rank]",
        "length [rank]",
        "bm25 [z]",
        "length [z]",
    ]
    assert read_recipe({"length": "rank", "bm25": ["gap"]}, columns).names == [
        "length [rank]",
        "bm25 [gap]",
    ]
    assert read_recipe(None, columns) == Recipe()
    for option, reason in [
        ("ranks", "not one of rank, z"),
        ([], "names no feature"),
        (3, "must be names of features"),
        ({"rank", "z"}, "must be names of features"),
        (iter(["rank"]), "must be names of features"),
        ({}, "an empty dict"),
        ({"title": "rank"}, "not a column of the data"),
        ({"language": "rank"}, "holds categories"),
        ({0: "rank"}, "by their names"),
    ]:
        with pytest.raises(ValueError, match=reason):
            read_recipe(option, columns)
        if option != {"language": "rank"}:  # numbers alone are in an array
            with pytest.raises(
                ValueError, match=f"^features .*{reason}"
            ):  # the transformer's own parameter
                rw.WithinQuery(option).fit(np.ones((2, 2)))
    with pytest.raises(ValueError, match="second column 'a \\[rank\\]'"):
        read_recipe("rank", Columns(["a", "a [rank]"], {}))


def quick(**parameters: Any) -> rw.Ranker:
    return rw.Ranker(
        n_estimators=8, num_leaves=6, min_child_samples=5, n_jobs=1, verbose=0, **parameters
    )


@pytest.fixture(scope="module")
def ranker() -> rw.Ranker:
    return quick(within_query=ALL).fit(TRAIN, eval_set=[TEST])


def test_training_is_that_on_columns_made_beforehand(ranker):
    def made(data: rw.RankingData) -> rw.RankingData:
        X = rw.WithinQuery(ALL).fit_transform(data.X, group=data.group)
        return rw.RankingData(X, data.y, qid=data.qid)

    assert ranker.model_.feature_names == [*TRAIN.feature_names, *read_recipe(ALL, TRAIN).names]
    assert len(ranker.feature_importances_) == (1 + len(ALL)) * 20
    assert ranker.n_features_in_ == 20
    # Rows are sorted by all their columns, so both see them in another order: an objective that does not mind.
    plain = {"objective": "queryrmse", "subsample": 1.0, "colsample": 1.0}
    beforehand = quick(**plain).fit(made(TRAIN)).predict(made(TEST))
    np.testing.assert_allclose(
        quick(within_query=ALL, **plain).fit(TRAIN).predict(TEST), beforehand, rtol=1e-9
    )


def test_every_way_to_score_gives_the_same(ranker, tmp_path):
    expected = ranker.predict(TEST)
    order = np.random.default_rng(0).permutation(TEST.n_rows)
    X, qid, y = np.asarray(TEST.X)[order], TEST.qid[order], TEST.y[order]
    np.testing.assert_array_equal(ranker.predict(X, qid=qid), expected[order])
    np.testing.assert_array_equal(ranker.predict(TEST.X, group=TEST.group), expected)
    np.testing.assert_array_equal(ranker.ranks(TEST.X, TEST.qid), ranker.ranks(TEST))
    assert ranker.score(X, y, qid) == pytest.approx(ranker.score(TEST), abs=1e-12)
    assert ranker.evals_result_["valid_0"]["ndcg@10"][-1] == pytest.approx(
        ranker.score(TEST), abs=1e-12
    )
    assert list(ranker.staged_predict(X, qid=qid, every=4))[-1] == pytest.approx(expected[order])
    contributions = ranker.predict(X, qid=qid, contributions=True)
    np.testing.assert_allclose(contributions.sum(axis=1), expected[order])
    frame = pd.DataFrame(X, columns=[f"c{number}" for number in range(20)]).assign(
        query=qid, label=y
    )
    named = quick(within_query="rank").fit(frame, "label", qid="query")
    np.testing.assert_array_equal(
        named.predict(frame), named.predict(frame.drop(columns="label"), qid="query")
    )
    ranker.save(tmp_path / "model")
    model = rw.load(tmp_path / "model")
    np.testing.assert_array_equal(model.predict(X, qid=qid), expected[order])
    assert rw.Ranker.load(tmp_path / "model").within_query == ALL
    rows = slice(TEST.boundaries[2], TEST.boundaries[3])
    ids, scores = model.rank(TEST.X[rows], range(rows.start, rows.stop))
    np.testing.assert_array_equal(scores, expected[ids])


def test_without_queries_it_refuses_in_a_sentence(ranker):
    for call in (ranker.predict, ranker.model_.predict, lambda X: list(ranker.staged_predict(X))):
        with pytest.raises(
            ValueError,
            match=r"^the model has features within the query \(f0 \[rank\]\), so .* pass qid=",
        ):
            call(TEST.X)
    np.testing.assert_array_equal(
        ranker.predict(NAMED), ranker.predict(DATA)
    )  # matched by position
    with pytest.raises(ValueError, match="leave out qid"):
        ranker.predict(TEST, qid=TEST.qid)


def test_the_order_of_rows_does_not_change_the_model(ranker):
    order = np.random.default_rng(5).permutation(TRAIN.n_rows)
    shuffled = quick(within_query=ALL).fit(TRAIN.X[order], TRAIN.y[order], qid=TRAIN.qid[order])
    np.testing.assert_array_equal(shuffled.predict(TEST), ranker.predict(TEST))


def test_trees_are_added_to_a_model_with_the_same_features_only(ranker):
    more = quick(within_query=ALL).fit(TRAIN, init_model=ranker)
    assert more.n_estimators_ == 16
    with pytest.raises(ValueError, match="its trees need the same columns"):
        quick().fit(TRAIN, init_model=ranker)


def test_a_checkpoint_resumes(tmp_path):
    whole = quick(within_query="rank").fit(TRAIN)
    options: dict[str, Any] = {"within_query": "rank", "checkpoint": {"path": tmp_path, "trees": 1}}
    quick(**options).fit(TRAIN, callbacks=[lambda progress: progress.iteration == 3])
    np.testing.assert_array_equal(quick(**options).fit(TRAIN).predict(TEST), whole.predict(TEST))
    with pytest.raises(ValueError, match="another training"):
        quick(**options | {"within_query": "z"}).fit(TRAIN)


def test_a_damaged_recipe_is_refused(ranker, tmp_path):
    import json

    ranker.save(tmp_path / "model")
    file = tmp_path / "model" / "manifest.json"
    for table, reason in [
        ({"f99": ["rank"]}, "does not have"),
        ({"f1": ["rank"]}, "do not belong together"),
        ({"f1": ["!"]}, "not one of"),
        ([1], "does not have"),
    ]:
        manifest = json.loads(file.read_text()) | {"within_query": table}
        file.write_text(json.dumps(manifest))
        with pytest.raises(ValueError, match=reason):
            rw.load(tmp_path / "model")


def test_exports_that_score_documents_one_by_one_refuse(ranker, tmp_path):
    from rankwright.exporting import TARGETS

    for target in sorted(set(TARGETS) - {"c"}):
        with pytest.raises(
            ValueError, match=r"scores documents one by one, but .* \(f0 \[rank\]\).* Export to c"
        ):
            rw.export(ranker, target, tmp_path / target)


def test_the_c_export_scores_a_whole_query(ranker, tmp_path):
    source = rw.export(ranker, "c", tmp_path / "model.c")
    flags = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-shared", "-fPIC"]
    subprocess.run(["cc", *flags, str(source), "-o", str(tmp_path / "model.so"), "-lm"], check=True)
    library = ctypes.CDLL(str(tmp_path / "model.so"))
    doubles = np.ctypeslib.ndpointer(dtype=np.float64, flags="C_CONTIGUOUS")
    library.rankwright_score_query.argtypes = [doubles, ctypes.c_size_t, doubles]
    X = np.ascontiguousarray(TEST.X, dtype=np.float64)
    X[::7, 3] = np.nan
    expected = ranker.predict(X, group=TEST.group)
    for start, stop in zip(TEST.boundaries[:-1], TEST.boundaries[1:], strict=True):
        scores = np.zeros(stop - start)
        assert library.rankwright_score_query(X[start:stop].copy(), stop - start, scores) == 0
        np.testing.assert_array_equal(scores, expected[start:stop])


def test_the_exported_file_is_verified(ranker, tmp_path):
    from rankwright.exporting import export_options, load_target
    from rankwright.exporting.verify import verify_content

    content = Path(rw.export(ranker, "c", tmp_path / "model.c")).read_bytes()
    rows = ranker.model_.encode(TEST)
    options = export_options(ranker.model_)
    assert verify_content(content, ranker.model_, load_target("c"), options, rows, TEST.qid).exact


def test_a_request_to_the_service_is_one_query(ranker, tmp_path):
    from rankwright.serve.model_holder import ModelHolder
    from rankwright.serve.requests import Query

    ranker.save(tmp_path / "model")
    holder = ModelHolder(tmp_path / "model")
    holder.warm_up()
    rows = slice(TEST.boundaries[1], TEST.boundaries[2])
    X = np.asarray(TEST.X[rows], dtype=np.float64)
    answer = holder.current.rank(Query(X, range(len(X)), 3, True, False, False, 0))
    expected = ranker.predict(TEST)[rows]
    best = np.argsort(-expected, kind="stable")[:3]
    assert [result["id"] for result in answer["results"]] == best.tolist()
    assert [result["score"] for result in answer["results"]] == expected[best].tolist()
    for result in answer["results"]:
        assert sum(result["contributions"].values()) + answer["expected_score"] == pytest.approx(
            result["score"]
        )
    assert holder.current.describe()["within_query"] == ranker.model_.recipe.names


def test_the_transformer_in_a_pipeline_passes_queries_on():
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(rw.WithinQuery("rank"), quick())
        pipeline.fit(TRAIN.X, TRAIN.y, qid=TRAIN.qid)
        assert pipeline.score(TEST.X, TEST.y, qid=TEST.qid) > 0.3
        alone = quick().fit(
            rw.WithinQuery("rank").fit_transform(TRAIN.X, qid=TRAIN.qid), TRAIN.y, qid=TRAIN.qid
        )
        columns = rw.WithinQuery("rank").fit_transform(TEST.X, qid=TEST.qid)
        np.testing.assert_array_equal(
            pipeline.predict(TEST.X, qid=TEST.qid), alone.predict(columns)
        )
    frame = pd.DataFrame({"bm25": [1.0, 2.0], "kind": pd.Categorical(["a", "b"])})
    transformer = rw.WithinQuery({"bm25": "rank"}).set_output(transform="pandas")
    result = transformer.fit_transform(frame, group=[2])
    assert list(result.columns) == ["bm25", "kind", "bm25 [rank]"]
    assert result["bm25 [rank]"].tolist() == [2.0, 1.0]
    with pytest.raises(ValueError, match="X has 3 features, but WithinQuery is expecting 20"):
        rw.WithinQuery("rank").fit(TRAIN.X).transform(TEST.X[:, :3], qid=TEST.qid)


def test_names_of_an_earlier_step_are_those_of_the_features():
    frame = pd.DataFrame({"bm25": [1.0, 2.0], "length": [3.0, 4.0]})
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(StandardScaler(), rw.WithinQuery({"f1": "rank"})).fit(
            frame, qid=[1, 1]
        )
    assert pipeline.get_feature_names_out().tolist() == ["bm25", "length", "length [rank]"]
    transformer = rw.WithinQuery("rank").fit(frame)
    assert transformer.get_feature_names_out(["bm25", "length"]).tolist()[2:] == [
        "bm25 [rank]",
        "length [rank]",
    ]
    for names, reason in (
        (["length", "bm25"], "not equal to feature_names_in_"),
        (["bm25"], "number of features"),
    ):
        with pytest.raises(ValueError, match=reason):
            transformer.get_feature_names_out(names)


def test_the_command_line_trains_and_scores_with_them(tmp_path):
    from typer.testing import CliRunner

    from rankwright.cli import app

    train, test, run = (str(tmp_path / name) for name in ("train.txt", "test.txt", "run"))
    rw.write_letor(TRAIN, train)
    rw.write_letor(TEST, test)
    arguments = [
        train,
        "--trees",
        "4",
        "--set",
        "within_query.f3=rank",
        "--set",
        "within_query.f1=z",
        "--out",
        run,
        "-q",
    ]
    assert CliRunner().invoke(app, ["train", *arguments]).exit_code == 0
    ranker = rw.Run.open(run).ranker
    assert ranker.model_.recipe.names == ["f3 [rank]", "f1 [z]"]
    assert CliRunner().invoke(app, ["predict", run, test, "--out", f"{run}.scores"]).exit_code == 0
    scores = [float(line) for line in Path(f"{run}.scores").read_text().split()]
    assert scores == ranker.predict(TEST).tolist()
    again = CliRunner().invoke(
        app, ["train", train, "--trees", "4", "--within-query", "rank", "--out", run]
    )
    assert again.exit_code == 1
    assert "within_query" in str(again.exception)


def test_explanations_and_importances_follow_the_features(ranker):
    why = ranker.explain(TEST.X, 3, 7, group=TEST.group)
    assert why.difference == ranker.explain(TEST, 3, 7).difference
    assert len(why.features) == (1 + len(ALL)) * 20
    with pytest.raises(ValueError, match="pass qid="):
        ranker.explain(TEST.X, 3, 7)
    # A model that sees a column by its rank alone: shuffling the column moves the ranks with it.
    label = np.column_stack([TRAIN.y + 0.01 * np.arange(TRAIN.n_rows), np.zeros(TRAIN.n_rows)])
    by_rank = quick(within_query="rank", colsample=1.0).fit(label, TRAIN.y, group=TRAIN.group)
    importance = by_rank.permutation_importance(label, TRAIN.y, group=TRAIN.group, repeats=1)
    assert importance.features == ["f0", "f1"]
    assert importance.losses[0] > 0.1
    assert importance.losses[1] == 0


def test_a_tree_looks_at_a_smaller_share_of_more_columns(ranker):
    assert quick().fit(TRAIN).colsample_ == 0.7
    assert ranker.colsample_ == pytest.approx(0.7 / (1 + len(ALL)) ** 0.6)
    assert quick(within_query="rank").fit(TRAIN).colsample_ == pytest.approx(0.7 / 2**0.6)
    assert quick(within_query="rank", colsample=0.9).fit(TRAIN).colsample_ == 0.9
