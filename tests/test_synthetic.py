"""Generated search data has the stated properties."""

import lightgbm as lgb
import numpy as np
import pytest

from rankwright.data.dataset import RankingData
from rankwright.data.streams import Purpose, random_stream
from rankwright.data.synthetic import make_web_search


@pytest.fixture(scope="module")
def web() -> RankingData:
    return make_web_search(600, random_state=3)


def family(data, name):
    return data.X[:, [i for i, f in enumerate(data.feature_names) if f.startswith(name + "_")]]


def by_query(data):
    return zip(data.query_ids.tolist(), data.boundaries[:-1], data.boundaries[1:], strict=True)


def assert_same(left, right):
    np.testing.assert_array_equal(left.X, right.X)
    np.testing.assert_array_equal(left.y, right.y)
    np.testing.assert_array_equal(left.qid, right.qid)
    assert left.feature_names == right.feature_names


def mean_ndcg(data, scores, at=10):
    values = []
    for _, start, end in by_query(data):
        gain = 2.0 ** data.y[start:end] - 1
        discount = 1 / np.log2(np.arange(2, min(at, end - start) + 2))
        found = gain[np.argsort(-scores[start:end], kind="stable")][:at] @ discount
        best = np.sort(gain)[::-1][:at] @ discount
        if best > 0:
            values.append(found / best)
    return np.mean(values)


def centred_logs(data):
    """Features as a linear model likes them: logarithms, centred within each query."""
    Z = np.nan_to_num(np.sign(data.X) * np.log1p(np.abs(data.X))).astype(float)
    for _, start, end in by_query(data):
        Z[start:end] -= Z[start:end].mean(axis=0)
    return Z


@pytest.mark.parametrize("kind", ["web", "sparse", "short"])
def test_equal_arguments_give_equal_data_and_another_seed_other_data(kind):
    data = make_web_search(8, kind=kind, random_state=5)
    assert_same(data, make_web_search(8, kind=kind, random_state=5))
    other = make_web_search(8, kind=kind, random_state=6)
    assert other.group.tolist() != data.group.tolist()
    assert not np.array_equal(other.X[:5], data.X[:5], equal_nan=True)


def test_a_query_depends_on_its_number_alone():
    whole = make_web_search(20, random_state=1)
    assert whole.query_ids.tolist() == list(range(1, 21))
    assert_same(whole.subset(range(12)), make_web_search(12, random_state=1))
    assert_same(whole.subset(range(12, 20)), make_web_search(8, first_query=12, random_state=1))


def test_other_queries_are_not_repetitions():
    data = make_web_search(50, n_features=20)
    first_rows = data.X[data.boundaries[:-1]]
    assert len(np.unique(first_rows, axis=0)) == 50


def test_seeds_purposes_and_keys_have_streams_of_their_own():
    drawn = [
        random_stream(seed, purpose, key).random()
        for seed in (0, 1, 2**64 - 1)
        for purpose in Purpose
        for key in (0, 1, 2**64 - 1)
    ]
    assert len(set(drawn)) == 3 * len(Purpose) * 3


def test_number_of_features_changes_neither_labels_nor_lengths():
    narrow, wide = make_web_search(6, n_features=20), make_web_search(6, n_features=300)
    assert narrow.X.shape[1] == 20
    assert wide.X.shape[1] == 300
    np.testing.assert_array_equal(narrow.y, wide.y)
    np.testing.assert_array_equal(narrow.group, wide.group)


@pytest.mark.parametrize(
    ("kind", "shares"),
    [
        ("web", (0.515, 0.325, 0.134, 0.018, 0.008)),
        ("sparse", (0.980, 0.007, 0.006, 0.004, 0.003)),
        ("short", (0.261, 0.358, 0.285, 0.077, 0.019)),
    ],
)
def test_shares_of_labels(kind, shares):
    y = make_web_search(1200, kind=kind, n_features=20, mean_length=60, random_state=2).y
    counted = np.bincount(y.astype(int), minlength=5) / len(y)
    assert len(counted) == 5
    np.testing.assert_allclose(counted, shares, rtol=0.2, atol=0.001)
    assert counted[0] == pytest.approx(shares[0], abs=0.02)


@pytest.mark.parametrize(
    ("kind", "mean"), [("web", 120), ("sparse", 300), ("short", 24)], ids=["web", "sparse", "short"]
)
def test_lengths_are_log_normal_around_the_mean_of_the_kind(kind, mean):
    lengths = make_web_search(900, kind=kind, n_features=20, random_state=4).group
    assert lengths.min() >= 5
    assert lengths.mean() == pytest.approx(mean, rel=0.06)
    median = mean * np.exp(-(0.55**2) / 2)
    expected = median * np.exp(0.55 * np.array([-1.2816, 0, 1.2816]))  # normal deciles
    np.testing.assert_allclose(np.quantile(lengths, [0.1, 0.5, 0.9]), expected, rtol=0.1)
    assert lengths.max() > 3 * mean


def test_lists_have_at_least_five_documents():
    lengths = make_web_search(300, n_features=20, mean_length=10).group
    assert lengths.min() == 5


def skewness(columns):
    deviations = columns - columns.mean(axis=0)
    return (deviations**3).mean(axis=0) / (deviations**2).mean(axis=0) ** 1.5


def test_counts_and_sizes_have_heavy_tails_on_raw_scales(web):
    counts, sizes = family(web, "count").astype(float), family(web, "size").astype(float)
    assert skewness(counts).min() > 2
    assert skewness(sizes).min() > 2
    assert sizes.max() > 10_000
    # A log-normal's largest value among many is far beyond its 99th percentile, a normal's is not.
    assert np.median(sizes.max(axis=0) / np.quantile(sizes, 0.99, axis=0)) > 5


def test_zeros_ties_and_whole_numbers(web):
    counts, ratios, flags = family(web, "count"), family(web, "ratio"), family(web, "flag")
    assert 0.25 < (web.X == 0).mean() < 0.45
    assert (family(web, "score") == 0).mean() > 0.2
    np.testing.assert_array_equal(counts, np.round(counts))
    assert (counts == 0).mean() > 0.4
    assert set(np.unique(flags)) == {0, 1}
    assert ratios.min() == 0
    assert ratios.max() == 1
    n_terms = family(web, "query")[:, :1]
    np.testing.assert_allclose(ratios * n_terms, np.round(ratios * n_terms), atol=1e-5)
    assert (family(web, "likelihood") < 0).all()


def test_missing_values_are_in_the_click_columns_only(web):
    missing = np.isnan(web.X)
    has_missing = {web.feature_names[i] for i in np.flatnonzero(missing.any(axis=0))}
    assert has_missing == {"click_0", "click_1", "click_2", "click_3"}
    # A document is logged if a normal of variance 2 exceeds -0.7: P(z < -0.7 / sqrt 2) = 0.310.
    assert np.isnan(family(web, "click")).mean() == pytest.approx(0.310, abs=0.01)


def test_constant_and_query_constant_columns(web):
    varies = np.nanmax(web.X, axis=0) > np.nanmin(web.X, axis=0)
    constant = [web.feature_names[i] for i in np.flatnonzero(~varies)]
    assert constant == ["constant_0", "constant_1", "constant_2", "constant_3"]
    varies_within = np.zeros(web.X.shape[1], dtype=bool)
    for _, start, end in by_query(web):
        rows = web.X[start:end]
        varies_within |= np.nanmax(rows, axis=0) > np.nanmin(rows, axis=0)
    query_columns = [web.feature_names[i] for i in np.flatnonzero(varies & ~varies_within)]
    assert query_columns == [f"query_{i}" for i in range(7)]


def test_trees_beat_every_feature_and_a_linear_model_and_fall_short_of_perfect():
    train = make_web_search(300, random_state=0)
    test = make_web_search(150, first_query=300, random_state=0)
    booster = lgb.train(
        {"objective": "lambdarank", "num_threads": 1, "verbose": -1, "min_data_in_leaf": 50},
        lgb.Dataset(train.X, train.y, group=train.group),
        num_boost_round=80,
    )
    trees = mean_ndcg(test, booster.predict(test.X))

    features = np.nan_to_num(test.X).T
    single = max(mean_ndcg(test, sign * x) for x in features for sign in (1, -1))

    Z = centred_logs(train)
    scale = Z.std(axis=0) + 1e-9
    Z /= scale
    slope = np.linalg.solve(Z.T @ Z + 10 * np.eye(Z.shape[1]), Z.T @ (2**train.y - 1))
    linear = mean_ndcg(test, centred_logs(test) / scale @ slope)

    assert trees > single + 0.15
    assert trees > linear + 0.05
    assert trees < 0.8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_queries": 0}, "n_queries must be a whole number from 1; got 0"),
        ({"kind": "images"}, "unknown kind 'images'.*choose from web, sparse, short"),
        ({"n_features": 19}, "n_features must be a whole number from 20; got 19"),
        ({"mean_length": 3}, "mean_length must be a number from 10; got 3"),
        ({"mean_length": np.nan}, "mean_length must be a number from 10; got nan"),
        ({"first_query": -1}, "first_query must be a whole number from 0; got -1"),
        ({"random_state": -1}, "random_state must be a whole number.*got -1"),
        ({"random_state": 0.5}, "random_state must be a whole number.*got 0.5"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_web_search(**{"n_queries": 2, **arguments})
