"""Exported files by the engines' own rules: a test for each discrepancy that running their code has shown."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwright as rw
from engine_oracles import (
    Document,
    documents,
    elastic_served,
    plugin_score,
    vespa_evaluator,
    vespa_score,
)
from export_models import QID, X, Y, categorical, model_of, stump, trained
from rankwright.data.columns import Columns
from rankwright.exporting import export_options, load_target
from rankwright.exporting.probes import probe_rows
from rankwright.exporting.verify import Verification, verify_content
from rankwright.kernels.tree_arrays import AMONG, NAN_TO_DEFAULT, TreeArrays


def written(model: rw.Model, target: str, version: str | None = None) -> bytes:
    options = export_options(model, version)
    return load_target(target).write(list(model.forest.trees()), options).content


def verified(
    content: bytes, model: rw.Model, target: str, rows: Any, version: str | None = None
) -> Verification:
    return verify_content(
        content, model, load_target(target), export_options(model, version), rows, None
    )


def plugin_scores(content: bytes, model: rw.Model, rows: Any, missing: str) -> list[float]:
    return [
        plugin_score(content, document, missing)
        for document in documents(rows, model.feature_names)
    ]


def single_scores(model: rw.Model, rows: Any) -> Any:
    """The model's scores of rows in 32 bits."""
    return model.forest.predict(np.asarray(rows).astype(np.float32).astype(np.float64))


# D1: OpenSearch 3.2 already sends a missing feature to `no`.


@pytest.mark.parametrize("version", ["3.2", "3.2.0", "3.3", "3.7.1"])
def test_opensearch_sends_missing_to_no_from_3_2_on(version: str) -> None:
    model = trained("missing values")
    content, rows = written(model, "opensearch", version), X[:100]
    scores = plugin_scores(content, model, rows, "no")
    np.testing.assert_allclose(scores, single_scores(model, rows), atol=1e-6)
    assert verified(content, model, "opensearch", rows, version).exact
    # A file for the newest version sends missing values elsewhere there, and the check says so.
    check = verified(written(model, "opensearch"), model, "opensearch", rows, version)
    assert not check.exact
    assert check.different == check.different_with_missing > 0


def test_opensearch_3_1_reads_missing_as_zero() -> None:
    model = trained("missing values")
    content, rows = written(model, "opensearch", "3.1"), X[:100]
    scores = plugin_scores(content, model, rows, "zero")
    np.testing.assert_allclose(scores, single_scores(model, np.nan_to_num(rows)), atol=1e-6)
    assert not verified(content, model, "opensearch", rows, "3.1").exact


# D2: the Elasticsearch plug-in honours `missing` from 1.5.9 on, for Elasticsearch 8.11.4.


@pytest.mark.parametrize("version", [None, "8.11.4", "8.12", "9.0.8", "1.5.9", "v1.5.9-es8.11.4"])
def test_elasticsearch_honours_missing(version: str | None) -> None:
    model = trained("missing values")
    content, rows = written(model, "elasticsearch-ltr", version), X[:100]
    scores = plugin_scores(content, model, rows, "honoured")
    np.testing.assert_allclose(scores, single_scores(model, rows), atol=1e-6)
    assert verified(content, model, "elasticsearch-ltr", rows, version).exact


@pytest.mark.parametrize("version", ["7.17.9", "8.11.3", "8.11", "1.5.8"])
def test_elasticsearch_read_missing_as_zero_before(version: str) -> None:
    model = model_of([stump(1.0, default_left=False)], 1)
    target, options = load_target("elasticsearch-ltr"), export_options(model, version)
    exported = target.write(list(model.forest.trees()), options)
    assert "as 0: 1 of 1 splits" in exported.notes[0]
    assert plugin_scores(exported.content, model, [[np.nan]], "zero") == [-1.5]
    rows = np.array([[np.nan]])
    assert target.score(exported.content, rows, options).tolist() == [-1.5]


# D3: a column without missing values in training has `missing` where 0 goes, whatever the engine.


@cache
def on_zeros(engine: str) -> rw.Model:
    """A model on data whose absent features are logged as 0."""
    ranker = rw.Ranker(
        engine=engine, n_estimators=20, learning_rate=0.1, n_jobs=1, verbose=0, num_leaves=15
    )
    model: rw.Model = ranker.fit(np.nan_to_num(X), Y, qid=QID).model_
    return model


@pytest.mark.parametrize("engine", ["lightgbm", "xgboost"])
@pytest.mark.parametrize(
    ("target", "version", "missing"),
    [
        ("opensearch", "3.1", "zero"),
        ("opensearch", "3.5", "no"),
        ("opensearch", None, "honoured"),
        ("elasticsearch-ltr", "8.11.3", "zero"),
        ("elasticsearch-ltr", None, "honoured"),
    ],
)
def test_a_model_on_zeros_reads_an_absent_feature_as_zero(
    engine: str, target: str, version: str | None, missing: str
) -> None:
    model = on_zeros(engine)
    options = export_options(model, version)
    exported = load_target(target).write(list(model.forest.trees()), options)
    served = plugin_scores(exported.content, model, X[:200], missing)
    trained_on = single_scores(model, np.nan_to_num(X[:200]))
    np.testing.assert_allclose(served, trained_on, atol=1e-6)
    assert not any("missing value as 0" in note for note in exported.notes)
    assert verified(exported.content, model, target, X[:200], version).exact
    assert np.array_equal(model.predict(X[:200]), model.predict(np.nan_to_num(X[:200])))


def test_columns_with_missing_values_keep_the_side_that_was_learned() -> None:
    ranker = rw.Ranker(engine="xgboost", n_estimators=20, n_jobs=1, verbose=0)
    model = ranker.fit(X, Y, qid=QID).model_
    nodes = [
        (int(tree.feature[node]), bool(tree.default_left[node]) != (tree.threshold[node] >= 0))
        for tree in model.forest.trees()
        for node in range(len(tree.feature))
    ]
    assert {feature for feature, elsewhere in nodes if elsewhere} == {0}


# D4: Vespa computes large forests in 32 bits.


@cache
def large_forest(n_trees: int = 51, n_nodes: int = 99) -> rw.Model:
    """Long trees, whose average paths add up to more than 2500, with thresholds that are no 32-bit numbers."""
    draw = np.random.default_rng(5)
    nodes = np.arange(n_nodes)
    trees = [
        TreeArrays(
            feature=draw.permutation(n_nodes).astype(np.int32),
            threshold=draw.choice([150.0, 0.1, 1608569993.0], n_nodes)
            + 1e-9 * draw.random(n_nodes),
            decision=np.zeros(n_nodes, dtype=np.uint8),
            missing=np.full(n_nodes, NAN_TO_DEFAULT, dtype=np.uint8),
            default_left=draw.random(n_nodes) < 0.2,
            left=np.append(nodes[1:], ~n_nodes).astype(np.int32),
            right=(~nodes).astype(np.int32),
            categories=(np.empty(0, dtype=np.int64),) * n_nodes,
            value=draw.normal(size=n_nodes + 1),
            gain=np.ones(n_nodes),
        )
        for _ in range(n_trees)
    ]
    return model_of(trees, n_nodes)


def float_rows(model: rw.Model, n: int = 60) -> Any:
    """Rows of 32-bit numbers: thresholds rounded, and the numbers next to them."""
    draw = np.random.default_rng(6)
    values = np.concatenate([tree.threshold for tree in model.forest.trees()]).astype(np.float32)
    values = np.concatenate(
        [values, np.nextafter(values, np.float32(0)), np.float32([0, -1, 3.4028235e38])]
    )
    rows = draw.choice(values, size=(n, model.forest.n_features)).astype(np.float64)
    rows[draw.random(rows.shape) < 0.1] = np.nan
    return rows


def vespa_scores(
    content: bytes, rows: Any, names: list[str], evaluator: str, texts: Any = None
) -> list[float]:
    return [
        vespa_score(content, served_texts(document, texts or {}), evaluator)
        for document in documents(rows, names)
    ]


def served_texts(document: Document, texts: dict[str, list[str]]) -> Document:
    """The document with the text of each category instead of its code."""
    return {name: texts[name][int(x)] if name in texts else x for name, x in document.items()}


def test_large_forests_are_exact_for_32_bit_numbers_in_every_evaluator_of_vespa() -> None:
    model = large_forest()
    rows = float_rows(model)
    content = written(model, "vespa")
    assert vespa_evaluator(content) == "vmforest"
    for evaluator in ("vmforest", "fastforest", "llvm"):
        scores = vespa_scores(content, rows, model.feature_names, evaluator)
        np.testing.assert_allclose(scores, model.predict(rows), atol=1e-4)
    check = verified(content, model, "vespa", rows)
    assert check.exact, str(check)
    assert check.left_out > 1000


def test_a_value_between_a_threshold_and_the_next_32_bit_number_is_found_in_the_data() -> None:
    model = large_forest()
    rows = np.zeros((1, 99))
    rows[0] = 150.000002  # between 150.000000001 and 150.00000000000001526
    assert float(np.float32(150.000002)) == 150.0
    content = written(model, "vespa")
    served = vespa_scores(content, rows, model.feature_names, "vmforest")
    check = verified(content, model, "vespa", rows)
    assert check.different == int(abs(served[0] - model.predict(rows)[0]) > 1e-4) == 1
    assert check.rows == 1


def test_small_forests_keep_64_bits_and_the_user_may_say_otherwise() -> None:
    model = trained("missing values")
    content = written(model, "vespa")
    assert vespa_evaluator(content) == "llvm"
    rows = np.vstack([X[:50], np.where(np.isnan(X[:50]), np.nan, 150.00000000000003)])
    scores = vespa_scores(content, rows, model.feature_names, "llvm")
    assert scores == model.predict(rows).tolist()
    # 32-bit thresholds were not written, and the check of such an evaluator says so.
    for evaluator in ("vmforest", "fastforest"):
        options = export_options(model, evaluator=evaluator)
        target = load_target("vespa")
        assert not verify_content(content, model, target, options, X).exact
        exported = target.write(list(model.forest.trees()), options)
        assert "computes a forest of this size in 32 bits" in exported.notes[0]
        check = verify_content(
            exported.content, model, target, options, X.astype(np.float32).astype(float)
        )
        assert check.exact, str(check)


# D5: a string attribute without a value is "" in Vespa.


def with_category(levels: Any, missing_left: bool, members: tuple[int, ...] = (1,)) -> rw.Model:
    """A stump on a category, whose level 1 goes left."""
    tree = stump(0.0, decision=AMONG, default_left=missing_left)
    model = model_of([tree._replace(categories=(np.array(members),))], 1)
    model.columns = Columns(["f0"], {"f0": levels})
    return model


def served(model: rw.Model, text: str | None) -> float:
    document: Document = {} if text is None else {"f0": text}
    return vespa_score(written(model, "vespa"), document, "vmforest")


@pytest.mark.parametrize("missing_left", [False, True])
def test_a_missing_category_goes_where_the_model_sends_it(missing_left: bool) -> None:
    for levels in (("red", "blue", "green"), None):
        model = with_category(levels, missing_left)
        texts = levels or ("0", "1", "2")
        for code, text in [(0, texts[0]), (1, texts[1]), (2, texts[2]), (np.nan, None)]:
            assert served(model, text) == model.forest.predict(np.array([[code]]))[0]
        check = verified(written(model, "vespa"), model, "vespa", np.array([[np.nan], [1.0]]))
        assert check.exact
    # A level that training has not seen is missing to the model.
    model = with_category(("red", "blue"), missing_left)
    assert served(model, "violet") == model.forest.predict(np.array([[np.nan]]))[0]


def test_a_trained_model_with_missing_categories_is_exact_in_vespa() -> None:
    draw = np.random.default_rng(0)
    codes = draw.integers(0, 6, len(X)).astype(float)
    codes[draw.random(len(X)) < 0.3] = np.nan
    labels = np.where(np.isnan(codes), 0, np.where(np.isin(codes, (1, 4)), 1, 3))
    labels += draw.integers(0, 2, len(X))
    rows = np.column_stack([X[:, 1], codes])
    data = rw.RankingData(rows, labels, qid=QID, categorical=[1])
    model = rw.Ranker(engine="xgboost", n_estimators=20, n_jobs=1, verbose=0).fit(data).model_
    trees = list(model.forest.trees())
    assert any((tree.default_left & (tree.decision == AMONG)).any() for tree in trees)
    # Some splits set missing categories apart from all others.
    assert any((np.isinf(tree.threshold) & (tree.feature == 1)).any() for tree in trees)
    content = written(model, "vespa")
    names = model.feature_names
    texts = {names[1]: [str(code) for code in range(6)]}
    scores = vespa_scores(content, rows[:200], names, "llvm", texts)
    assert scores == model.forest.predict(rows[:200]).tolist()
    assert verified(content, model, "vespa", rows).exact


def test_a_level_without_a_text_and_missing_categories_are_one_in_vespa() -> None:
    with pytest.raises(ValueError, match="'f0' has missing values and the level ''"):
        written(with_category(("", "blue"), missing_left=True), "vespa")
    model = with_category(("blue", ""), missing_left=False)
    exported = load_target("vespa").write(list(model.forest.trees()), export_options(model))
    assert "a missing value is scored as this level" in exported.notes[0]
    assert served(model, None) == served(model, "") == -1.5
    check = verified(exported.content, model, "vespa", np.array([[0.0], [1.0]]))
    assert check.different == check.different_with_missing == 1  # the probe with a missing value


@pytest.mark.parametrize("levels", [("red", "blue"), None])
def test_a_split_of_missing_categories_from_all_others(levels: Any) -> None:
    model = model_of([stump(np.inf)], 1)
    model.columns = Columns(["f0"], {"f0": levels})
    texts = levels or ("0", "1")
    for code, text in [(0, texts[0]), (1, texts[1]), (np.nan, None)]:
        assert served(model, text) == model.forest.predict(np.array([[code]]))[0]
    content = written(model, "vespa")
    assert verified(content, model, "vespa", np.array([[0.0]])).exact
    # The same split without categories compares a number, and the check refuses it.
    plain = written(model_of([stump(np.inf)], 1), "vespa")
    with pytest.raises(ValueError, match="compares the text of 'f0' with a number"):
        verified(plain, model, "vespa", np.array([[0.0]]))


# D6: texts of categories are pasted between quotes.


@pytest.mark.parametrize(
    "level", ['quo"te', "back\\slash", "a\\tb", "\\", '"', "it's", "a,b", "a||b", "],b[", ""]
)
def test_odd_levels_are_exact_in_vespa(level: str) -> None:
    model = with_category(("x", level, "y"), missing_left=False)
    for code, text in enumerate(("x", level, "y")):
        assert served(model, text) == model.forest.predict(np.array([[float(code)]]))[0]


@pytest.mark.parametrize("level", ["ü", "a\tb", "line\n", "\x7f", "日本"])
def test_levels_that_vespa_cannot_read_are_refused(level: str) -> None:
    with pytest.raises(ValueError, match=r"refuses the level .* of 'f0'"):
        written(with_category(("x", level), missing_left=False), "vespa")
    written(with_category(("x", "y", level), missing_left=False), "vespa")  # it is in no set


@pytest.mark.parametrize("level", ['quo"te', "back\\slash", "ü"])
def test_the_check_refuses_texts_that_vespa_does_not_read(level: str) -> None:
    model = with_category(("x", "level"), missing_left=False)
    content = written(model, "vespa").replace(b'"level"', json.dumps(level).encode())
    with pytest.raises(ValueError, match="does not read the text"):
        verified(content, model, "vespa", np.array([[1.0]]))


# D7: names of features are pasted into an expression.


@pytest.mark.parametrize(
    "name",
    ["title match", "a,b", "a-b", 'quo"te', "3d", "12", "é", "a(b", "a<b", "f(g h)", "", "bm25()x"],
)
def test_names_that_are_no_rank_features_are_refused(name: str) -> None:
    model = model_of([stump(0.5)], 1)
    model.columns = Columns([name], {})
    with pytest.raises(ValueError, match="puts the name of a feature into an expression"):
        written(model, "vespa")
    fine = model_of([stump(0.5)], 1)
    content = written(fine, "vespa").replace(b'"f0"', json.dumps(name).encode())
    with pytest.raises(ValueError, match="importer refuses"):
        verified(content, model, "vespa", np.array([[1.0]]))


@pytest.mark.parametrize(
    "name",
    [
        *(
            "f0",
            "_x",
            "bm25(title)",
            "attribute(age)",
            "query(user_age)",
            "nativeRank",
            "term(0).weight",
        ),
        *("fieldMatch(title).completeness", "attribute(tags, key)", "if", "log", "a$b", "@x"),
        *("closeness(field,embedding)", "elementSimilarity(tags).max", "f(g(h),2.5).out.1"),
    ],
)
def test_rank_features_are_written(name: str) -> None:
    model = model_of([stump(0.5)], 1)
    model.columns = Columns([name], {})
    content = written(model, "vespa")
    assert json.loads(content)["feature_names"] == [name]
    assert verified(content, model, "vespa", np.array([[1.0]])).exact


def test_names_that_no_split_uses_are_written() -> None:
    model = model_of([stump(0.5)], 2)
    model.columns = Columns(["f0", "title match"], {})
    assert verified(written(model, "vespa"), model, "vespa", np.ones((1, 2))).exact


# D8: Elasticsearch's own serves 32 bits, after a constant was added.


def test_the_served_score_of_elasticsearch() -> None:
    model, rows = trained("missing values"), X[:100]
    content = written(model, "elastic")
    constant, scores = zip(
        *(elastic_served(content, row) for row in documents(rows, model.feature_names)), strict=True
    )
    assert len(set(constant)) == 1
    assert constant[0] > 0
    np.testing.assert_allclose(np.array(scores) - constant, model.predict(rows), atol=1e-6)
    target, options = load_target("elastic"), export_options(model)
    ours = target.score(content, rows, options) + constant[0]
    assert np.array_equal(ours.astype(np.float32), np.float32(scores))
    assert verified(content, model, "elastic", rows).exact


def test_ties_that_rounding_makes_are_no_change_of_order() -> None:
    close = stump(0.5, values=(1.0, 1.0 + 1e-9))
    model = model_of([close, stump(0.5, feature=1, values=(-90.0, 1.0))], 2)
    rows = np.array([[0.0, 1.0], [1.0, 1.0]])
    assert model.predict(rows)[0] < model.predict(rows)[1]
    content = written(model, "elastic")
    scores = [elastic_served(content, row)[1] for row in documents(rows, ["f0", "f1"])]
    assert scores[0] == scores[1]
    ours = load_target("elastic").score(content, rows, export_options(model))
    assert ours[0] == ours[1]
    assert verified(content, model, "elastic", rows).exact


# D9: the largest number.

LARGEST = {"single": 3.4028234663852886e38, "double": 1.7976931348623157e308}


@pytest.mark.parametrize(("version", "missing"), [("3.5", "no"), ("3.8", "honoured")])
def test_the_largest_number_is_no_missing_value_in_opensearch(version: str, missing: str) -> None:
    model = trained("missing values")
    content = written(model, "opensearch", version)
    rows = np.full((4, 5), LARGEST["single"])
    rows[1] = -LARGEST["single"]
    rows[2] = np.nan
    scores = plugin_scores(content, model, rows, missing)
    np.testing.assert_allclose(scores, model.predict(rows), atol=1e-6)
    assert verified(content, model, "opensearch", rows, version).exact


@pytest.mark.parametrize("evaluator", ["llvm", "vmforest"])
def test_the_largest_number_is_no_missing_value_in_vespa(evaluator: str) -> None:
    model = model_of([stump(threshold) for threshold in (np.inf, 1e300, -np.inf, -1e300)], 1)
    rows = np.array([[LARGEST["double"]], [-LARGEST["double"]], [np.nan], [0.0]])
    content = written(model, "vespa")
    assert vespa_scores(content, rows, ["f0"], "llvm") == model.predict(rows).tolist()
    options = export_options(model, evaluator=evaluator)
    target = load_target("vespa")
    exported = target.write(list(model.forest.trees()), options)
    assert verify_content(exported.content, model, target, options, rows[2:]).exact


@pytest.mark.parametrize("target", ["ranklib", "solr", "elastic", "vespa", "opensearch"])
def test_probes_hold_the_largest_numbers(target: str) -> None:
    model = trained("use_missing off")
    kind = "double" if target in ("elastic", "vespa") else "single"
    precision = load_target(target).precision(written(model, target), export_options(model))
    rows = np.concatenate(
        [
            probes.rows
            for probes in probe_rows(
                list(model.forest.trees()), X, single=precision.single_features
            )
        ]
    )
    assert np.nanmax(rows) == LARGEST[kind] == -np.nanmin(rows)


# D10: the page as it is typed on a new cluster, and the feature store of Solr's model.


def test_the_commands_of_the_page_work_on_a_new_cluster(tmp_path: Path) -> None:
    page = (Path(__file__).parents[1] / "docs" / "engines.md").read_text()
    assert page.index("PUT _ltr\n") < page.index("POST _ltr/_featureset/shop")
    assert "script.max_size_in_bytes" not in page
    for setting in ("http.max_content_length", "ltr.caches.max_mem", "`from` + `size`"):
        assert setting in page
    assert "--to solr --name shop --feature-set store.json" in page
    model = model_of([stump(0.5)], 1)
    store = tmp_path / "store.json"
    store.write_text(json.dumps([{"store": "shop", "name": "f0", "class": "ValueFeature"}]))
    document = json.loads(
        rw.export(model, "solr", tmp_path / "model.json", feature_set=store).read_text()
    )
    assert document["store"] == "shop"


# D11: names that runtimes refuse or change.


def test_names_that_xgboost_and_lightgbm_refuse_are_told() -> None:
    model = model_of([stump(0.5), stump(0.5, feature=1), stump(0.5, feature=2)], 3)
    model.columns = Columns(["price[0]", "title match", "plain"], {})

    def note(target: str) -> str:
        options = export_options(model)
        exported = load_target(target).write(list(model.forest.trees()), options)
        return " ".join(exported.notes)

    assert "refuses names with [, ] or <, such as 'price[0]'" in note("xgboost")
    assert "2 names of features, such as 'price[0]'" in note("lightgbm")
    model.columns = Columns(["price", "title", "plain"], {})
    assert note("xgboost") == note("lightgbm") == ""


# D12: codes of categories are texts.


def test_codes_are_written_as_texts_whatever_the_version_of_vespa() -> None:
    model = categorical(texts=False)
    document = json.loads(written(model, "vespa"))
    assert document["pandas_categorical"][0][:3] == ["0", "1", "2"]
    options = export_options(model)
    notes = load_target("vespa").write(list(model.forest.trees()), options).notes
    assert "must be string attributes that hold the codes, such as '3'" in notes[0]
    page = (Path(__file__).parents[1] / "docs" / "engines.md").read_text()
    assert "also for versions of Vespa that know integer categories" in page


# Calibrated models.


@pytest.mark.parametrize("target", ["opensearch", "vespa", "c"])
def test_a_calibrated_model_is_exported_with_a_note(target: str, tmp_path: Path) -> None:
    ranker = rw.Ranker(n_estimators=5, n_jobs=1, verbose=0).fit(X[:400], Y[:400], qid=QID[:400])
    ranker.calibrate(X[400:], Y[400:], qid=QID[400:])
    with pytest.warns(UserWarning, match="is calibrated, and the file gives raw scores"):
        rw.export(ranker, target, tmp_path / "file")


# Evaluators and versions are refused if they decide nothing.


def test_evaluators_are_of_vespa_alone(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match="evaluator changes nothing for opensearch, because it has only one"
    ):
        rw.export(trained("stumps"), "opensearch", tmp_path / "x", evaluator="llvm")
    with pytest.raises(
        ValueError, match="evaluator must be one of llvm, vmforest, fastforest for vespa; got 'gpu'"
    ):
        rw.export(trained("stumps"), "vespa", tmp_path / "x", evaluator="gpu")
    assert not list(tmp_path.iterdir())
