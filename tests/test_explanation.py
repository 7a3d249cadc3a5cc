"""Why one document is above another, and what a column is worth when it is shuffled."""

import math
import sys

import numpy as np
import pytest
import scipy.sparse as sp

import rankwright as rw
from rankwright.explanation import explain_pair, settle


@pytest.fixture(scope="module")
def trained():
    data = rw.make_web_search(60, kind="short", n_features=25, random_state=3)
    return rw.Ranker(
        metric="ndcg@5", n_estimators=12, min_child_samples=5, n_jobs=1, verbose=0
    ).fit(data), data


def test_differences_add_up_to_the_difference_of_scores_exactly(trained):
    ranker, data = trained
    scores = ranker.predict(data)
    shap = ranker.predict(data, contributions=True)
    rows = np.random.default_rng(0).integers(0, data.n_rows, (100, 2))
    for a, b in rows[rows[:, 0] != rows[:, 1]]:
        why = ranker.explain(data, a, b)
        assert math.fsum(why.differences) == scores[a] - scores[b] == why.difference
        places = [data.feature_names.index(name) for name in why.features]
        np.testing.assert_allclose(why.differences, (shap[a] - shap[b])[places], atol=1e-12)
        np.testing.assert_array_equal(why.contributions_a, shap[a][places])
        np.testing.assert_array_equal(why.values_b, data.X[b][places])
        assert (np.diff(np.abs(why.differences)) <= 0).all()
        names, differences = why.largest(4)
        assert names[-1] == "21 others"
        assert math.fsum(differences) == why.difference


def test_rounding_is_settled_even_where_terms_cancel():
    random = np.random.default_rng(1)
    for _ in range(200):
        terms = random.normal(size=30) * 10.0 ** random.integers(-12, 3, 30)
        total = float(np.sum(terms)) + 1e-15 * random.normal()
        assert math.fsum(settle(terms, total)) == total


def test_contributions_that_are_not_of_the_scores_are_found_out():
    values = ([1.0], [2.0])
    with pytest.raises(RuntimeError, match=r"add up to 0.5, but their scores differ by 0.7"):
        explain_pair(
            ["f"], values, np.array([[1.0, 0.0], [0.5, 0.0]]), np.array([0.9, 0.2]), (0, 1)
        )


def test_one_split_explains_itself():
    """A stump of leaf values v and -v on a balanced column: the column makes all of the difference."""
    X = np.column_stack([np.tile([0.0, 1.0], 100), np.zeros(200)])
    ranker = rw.Ranker(
        "queryrmse", n_estimators=1, num_leaves=2, min_child_samples=1, colsample=1.0, subsample=1.0
    )
    ranker.set_params(verbose=0, n_jobs=1).fit(X, np.tile([0, 2], 100), group=[2] * 100)
    why = ranker.explain(X, 1, 0)
    assert why.features[0] == "f0"
    assert why.differences.tolist() == [why.difference, 0.0]
    assert (why.values_a[0], why.values_b[0]) == (1.0, 0.0)
    assert why.difference > 0


def test_tables_of_numbers_and_of_categories(trained):
    ranker, data = trained
    why = ranker.explain(data, 0, 5)
    frame = why.to_dataframe()
    assert list(frame.columns) == [
        "feature",
        "value_a",
        "value_b",
        "contribution_a",
        "contribution_b",
        "difference",
    ]
    assert math.fsum(frame["difference"]) == why.difference
    assert "<th>row 0</th><th>row 5</th>" in why._repr_html_()
    assert "10 others" in why._repr_html_()
    assert f"{why.difference:+.4f}" in str(why)
    pl = pytest.importorskip("polars")
    random = np.random.default_rng(0)
    brand = random.integers(0, 2, 400)
    frame = pl.DataFrame(
        {
            "brand": np.array(["acme", "<b>"])[brand],
            "x": random.random(400),
            "query": np.arange(400) // 8,
        }
    )
    coded = rw.Ranker(n_estimators=3, min_child_samples=5, n_jobs=1, verbose=0)
    coded.fit(frame.with_columns(pl.col("brand").cast(pl.Categorical)), brand, qid="query")
    a, b = int(np.flatnonzero(brand == 0)[0]), int(np.flatnonzero(brand == 1)[0])
    why = coded.explain(frame, a, b)
    assert (why.features[0], why.values_a[0], why.values_b[0]) == ("brand", "acme", "<b>")
    assert why.difference < 0
    assert "&lt;b&gt;" in why._repr_html_()
    assert why.to_dataframe("polars")["value_a"].to_list()[0] == "acme"


def test_sparse_rows_are_explained_as_dense_ones(trained):
    ranker, data = trained
    dense, sparse = ranker.explain(data.X, 3, 9), ranker.explain(sp.csr_matrix(data.X), 3, 9)
    assert dense.features == sparse.features
    np.testing.assert_array_equal(dense.differences, sparse.differences)


def test_pairs_that_cannot_be_explained(trained):
    ranker, data = trained
    n = data.n_rows
    with pytest.raises(ValueError, match=f"b must be a whole number from 0 to {n - 1}; got {n}"):
        ranker.explain(data, 0, n)
    with pytest.raises(ValueError, match="a must be a whole number from 0"):
        ranker.explain(data, -1, 0)
    with pytest.raises(ValueError, match="a and b are the same row, 4"):
        ranker.explain(data, 4, 4)
    with pytest.raises(ValueError, match=r"a must be a whole number from 0 to \d+; got 1\.0"):
        ranker.explain(data, 1.0, 2)
    with pytest.raises(ValueError, match="top must be a whole number from 1; got 0"):
        ranker.explain(data, 0, 1).largest(0)


# Shuffled columns.


def loss_by_hand(ranker, data, column, seed, repeats):
    """Shuffle with the documented draws and evaluate, query by query."""
    from rankwright.kernels.random import fill_uniform, stream_of

    data = data.canonical()
    before = rw.evaluate(
        ranker.predict(data.X), data.y, group=data.group, metrics="ndcg@5"
    ).per_query["ndcg@5"]
    losses = []
    for repeat in range(repeats):
        X = data.X.copy()
        for q, (start, stop) in enumerate(
            zip(data.boundaries[:-1], data.boundaries[1:], strict=True)
        ):
            draws = np.empty(stop - start + 1)
            fill_uniform(
                draws, stop - start, stream_of(seed, column, repeat), data.query_keys[q], 0
            )
            X[start:stop, column] = X[start:stop, column][np.argsort(draws[: stop - start])]
        after = rw.evaluate(
            ranker.predict(X), data.y, group=data.group, metrics="ndcg@5"
        ).per_query["ndcg@5"]
        losses.append(before - after)
    return np.nanmean(losses)


def test_a_loss_is_that_of_shuffling_within_queries(trained):
    ranker, data = trained
    result = ranker.permutation_importance(data, repeats=2, random_state=7)
    assert (result.metric, result.repeats) == ("ndcg@5", 2)
    assert result.value == pytest.approx(ranker.score(data))
    used = ranker.forest_.importances("split") > 0
    for name in (result.features[0], result.features[5]):
        place = result.features.index(name)
        column = data.feature_names.index(name)
        assert result.losses[place] == pytest.approx(
            loss_by_hand(ranker, data, column, 7, 2), abs=1e-12
        )
        assert result.low[place] <= result.losses[place] <= result.high[place]
    unused = [
        place
        for place, name in enumerate(result.features)
        if not used[data.feature_names.index(name)]
    ]
    assert all(
        (result.losses[place], result.low[place], result.high[place]) == (0, 0, 0)
        for place in unused
    )
    assert result.losses[0] > 0.01


def test_shuffles_do_not_depend_on_rows_threads_or_other_columns(trained):
    ranker, data = trained
    order = np.random.default_rng(0).permutation(data.n_rows)
    whole = ranker.permutation_importance(data, repeats=1)
    mixed = ranker.permutation_importance(
        data.X[order], data.y[order], qid=data.qid[order], repeats=1
    )
    assert whole.features == mixed.features
    np.testing.assert_array_equal(whole.losses, mixed.losses)
    np.testing.assert_array_equal(whole.low, mixed.low)
    chosen = whole.features[:2]
    alone = ranker.permutation_importance(data, repeats=1, columns=chosen[::-1])
    assert alone.features == chosen
    np.testing.assert_array_equal(alone.losses, whole.losses[:2])
    sparse = ranker.permutation_importance(
        sp.csr_matrix(data.X), data.y, qid=data.qid, repeats=1, columns=chosen
    )
    np.testing.assert_array_equal(sparse.losses, whole.losses[:2])
    assert (
        ranker.permutation_importance(data, repeats=1, random_state=1, columns=chosen).losses[0]
        != whole.losses[0]
    )


def test_a_column_that_is_constant_within_queries_costs_nothing():
    """Over all rows it would cost something: it tells queries apart, and the trees use it."""
    random = np.random.default_rng(0)
    x, q = random.random(600), np.repeat(random.random(60), 10)
    y = np.where(q > 0.5, x > 0.5, x < 0.5).astype(int)
    data = rw.RankingData(np.column_stack([x, q]), y, qid=np.repeat(np.arange(60), 10))
    ranker = rw.Ranker("queryrmse", n_estimators=10, min_child_samples=5, n_jobs=1, verbose=0).fit(
        data
    )
    assert (ranker.forest_.importances("split") > 0).all()
    result = ranker.permutation_importance(data, repeats=3)
    assert result.features == ["f0", "f1"]
    assert result.losses[0] > 0.05
    assert result.losses[1] == 0


def test_a_metric_of_which_less_is_better(trained):
    ranker, data = trained
    result = ranker.permutation_importance(data, metric="arp", repeats=1)
    assert result.metric == "arp"
    assert result.losses[0] > 0
    assert list(result.to_dataframe().columns) == ["feature", "loss", "low", "high"]
    assert "5 more columns" in result._repr_html_()
    assert str(result).splitlines()[0].split() == [
        "feature",
        "loss",
        "of",
        "arp",
        "95%",
        "interval",
    ]
    assert str(result).count("\n") == 21


def test_importances_that_cannot_be_measured(trained):
    ranker, data = trained
    name = data.feature_names[0]
    for columns, shown in (([name, "nope"], "'nope'"), (name[0], f"'{name[0]}'"), ([], r"\[\]")):
        with pytest.raises(
            ValueError, match=f"columns must be a list of names of the model's columns; got {shown}"
        ):
            ranker.permutation_importance(data, columns=columns)
    with pytest.raises(ValueError, match="repeats must be a whole number from 1"):
        ranker.permutation_importance(data, repeats=0)
    with pytest.raises(ValueError, match=r"confidence must be a number from 0\.5 to 0\.9999"):
        ranker.permutation_importance(data, confidence=1)
    with pytest.raises(ValueError, match="no query ids"):
        ranker.permutation_importance(data.X, data.y)


# Charts.


def test_charts_have_the_numbers(trained):
    ranker, data = trained
    why = ranker.explain(data, 0, 5)
    bars = rw.plot_explanation(why, top=6).to_dict()["data"]["values"]
    assert [bar["feature"] for bar in bars] == [*why.features[:6], "19 others"]
    assert math.fsum(bar["difference"] for bar in bars) == why.difference
    result = ranker.permutation_importance(data, repeats=1)
    layers = rw.plot_importance(result, top=3).to_dict()
    assert (
        len(layers["datasets"].popitem()[1] if "datasets" in layers else layers["data"]["values"])
        == 3
    )
    curve = ranker.calibrate(data, folds=2).reliability(data, bins=5)
    chart = rw.plot_reliability(curve, curve, names=["a", "b"]).to_dict()
    points = [layer["data"]["values"] for layer in chart["layer"] if "data" in layer]
    assert max(map(len, points)) == 10 or len(chart["data"]["values"]) == 10
    with pytest.raises(ValueError, match="nothing to draw"):
        rw.plot_reliability()


@pytest.mark.parametrize("engine", ["lightgbm", "xgboost"])
def test_shap_values_and_the_engines_own_model(engine):
    data = rw.make_web_search(30, kind="short", n_features=20, random_state=2)
    train, valid = data.split(0.4)
    ranker = rw.Ranker(
        engine=engine, metric=["ndcg@5", "map"], n_estimators=6, early_stopping_rounds=3, verbose=0
    ).fit(train, eval_set=[valid])
    values = ranker.shap_values(valid)
    scores = ranker.predict(valid)
    np.testing.assert_allclose(values.values.sum(axis=1) + values.base_values, scores, atol=1e-9)
    assert values.feature_names == data.feature_names
    assert np.array_equal(values.data, valid.X, equal_nan=True)

    booster = ranker.booster_
    assert type(booster).__module__.startswith(engine)
    rows = valid.X.astype(np.float32).astype(np.float64)
    if engine == "xgboost":
        import xgboost

        rows = xgboost.DMatrix(rows, feature_names=booster.feature_names)
    np.testing.assert_allclose(booster.predict(rows), scores, atol=1e-5)

    # The model ends with the tree that early stopping chose.
    place = ranker.stopping_["kept_iteration"] - 1
    curves = ranker.evals_result_["valid_0"]
    assert ranker.best_score_ == {"valid_0": {name: curves[name][place] for name in curves}}
    result = rw.evaluate(scores, valid.y, qid=valid.qid, metrics=["ndcg@5"])
    assert ranker.best_score_["valid_0"]["ndcg@5"] == pytest.approx(result.mean["ndcg@5"])


def test_shap_values_name_the_extra(trained, monkeypatch):
    monkeypatch.setitem(sys.modules, "shap", None)
    ranker, *_ = trained
    with pytest.raises(ImportError, match=r'pip install "rankwright\[shap\]"'):
        ranker.shap_values(np.zeros((1, 1)))


def test_charts_become_pictures_without_a_network(trained):
    altair = pytest.importorskip("altair")
    ranker, *_ = trained
    chart = rw.plot_importance(ranker)
    with altair.renderers.enable("svg"):
        bundle = chart._repr_mimebundle_()
    assert "<svg" in str(bundle)
