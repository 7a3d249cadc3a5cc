"""Label noise, added negatives and clicks change generated data as the paper says."""

import numpy as np
import pytest
import scipy.sparse as sp

from rankwright.data.dataset import RankingData
from rankwright.data.synthetic import make_web_search
from rankwright_lab.corruption import with_added_negatives, with_clicks, with_label_noise

REDRAW = (0.5, 0.2, 0.15, 0.1, 0.05)


@pytest.fixture(scope="module")
def web() -> RankingData:
    return make_web_search(600, random_state=3)


def by_query(data):
    return zip(data.query_ids.tolist(), data.boundaries[:-1], data.boundaries[1:], strict=True)


def assert_same(left, right):
    np.testing.assert_array_equal(left.X, right.X)
    np.testing.assert_array_equal(left.y, right.y)
    np.testing.assert_array_equal(left.qid, right.qid)
    assert left.feature_names == right.feature_names


def numbered(labels, qid, **kwargs):
    """Make data whose only feature is the number of the row."""
    return RankingData(np.arange(float(len(labels)))[:, None], labels, qid=qid, **kwargs)


def test_label_noise_of_a_query_depends_on_its_number_alone():
    whole, part = (
        make_web_search(20, random_state=1),
        make_web_search(8, first_query=12, random_state=1),
    )
    noisy = with_label_noise(whole, 0.3, seed=1)
    assert_same(noisy.subset(range(12, 20)), with_label_noise(part, 0.3, seed=1))


def test_clicks_of_a_query_depend_on_its_number_alone():
    whole = with_clicks(make_web_search(12, random_state=1), 0.1, seed=1)
    suffix = with_clicks(make_web_search(2, first_query=10, random_state=1), 0.1, seed=1)
    is_suffix = [name.split("/")[0] in ("11", "12") for name in whole.query_ids.tolist()]
    assert_same(whole.subset(np.array(is_suffix)), suffix)


@pytest.mark.parametrize("share", [0.2, 0.6])
def test_label_noise_changes_the_expected_share_of_labels(web, share):
    noisy = with_label_noise(web, share, seed=1)
    held = np.bincount(web.y.astype(int), minlength=5) / web.n_rows
    expected = share * sum(h * (1 - p) for h, p in zip(held, REDRAW, strict=True))
    # One binomial deviation at 70,000 rows is below 0.002.
    assert (noisy.y != web.y).mean() == pytest.approx(expected, abs=0.008)
    np.testing.assert_array_equal(noisy.X, web.X)
    np.testing.assert_array_equal(noisy.qid, web.qid)


def test_label_noise_redraws_with_the_probabilities_of_the_paper(web):
    redrawn = with_label_noise(web, 1.0).y
    for label in range(5):
        drawn = redrawn[web.y == label]
        counted = np.bincount(drawn.astype(int), minlength=5) / len(drawn)
        np.testing.assert_allclose(counted, REDRAW, atol=4 * np.sqrt(0.25 / len(drawn)))


def test_no_label_noise_changes_nothing(web):
    assert_same(with_label_noise(web, 0.0), web)


def test_label_noise_of_a_query_does_not_see_the_others_and_differs_by_seed(web):
    part = web.subset([3, 50, 51])
    noisy = with_label_noise(web, 0.5, seed=4)
    assert_same(with_label_noise(part, 0.5, seed=4), noisy.subset([3, 50, 51]))
    assert not np.array_equal(with_label_noise(web, 0.5, seed=5).y, noisy.y)


@pytest.mark.parametrize("share", [0.0, 0.4, 2.0])
def test_added_negatives_come_from_other_queries_with_label_zero(share):
    rng = np.random.default_rng(0)
    qid = np.repeat(np.arange(30), rng.integers(1, 20, 30))
    labels = rng.integers(1, 5, len(qid))
    data = numbered(labels, qid)
    longer = with_added_negatives(data, share, seed=3)
    assert longer.n_queries == 30
    for q, start, end in by_query(longer):
        own = np.flatnonzero(qid == q)
        taken = longer.X[start:end, 0].astype(int)
        added = taken[len(own) :]
        np.testing.assert_array_equal(taken[: len(own)], own)
        np.testing.assert_array_equal(longer.y[start : start + len(own)], labels[own])
        assert len(added) == round(share * len(own))
        assert len(set(added)) == len(added)
        assert q not in qid[added]
        assert (longer.y[start + len(own) : end] == 0).all()


def test_every_document_of_other_queries_can_be_added():
    data = numbered([1, 2, 3, 4, 1, 2], qid=[0, 0, 1, 1, 2, 2])
    added = [with_added_negatives(data, 0.5, seed=s).X[5, 0] for s in range(60)]
    assert set(added) == {0, 1, 4, 5}  # the last place of query 1, which owns rows 2 and 3


def test_added_negatives_take_the_mean_weight_of_the_query_and_keep_sparse_data_sparse():
    rows = np.arange(1.0, 7.0)[:, None]
    data = RankingData(
        sp.csr_matrix(rows),
        [1, 2, 3, 4, 1, 2],
        qid=list("aabbbb"),
        sample_weight=[1, 2, 3, 4, 5, 6],
    )
    longer = with_added_negatives(data, 0.5)
    assert sp.issparse(longer.X)
    assert longer.group.tolist() == [3, 6]
    assert longer.weights is not None
    # Query "a" gains one document at (1 + 2) / 2, query "b" two at (3 + 4 + 5 + 6) / 4.
    assert longer.weights.tolist() == [1, 2, 1.5, 3, 4, 5, 6, 4.5, 4.5]


@pytest.mark.parametrize("noise", [0.05, 0.3])
def test_click_rates_match_the_probabilities(noise):
    # With 5 documents of each label, an impression without any click is practically impossible.
    labels = np.tile(np.arange(5), 5 * 4)
    qid = np.repeat(np.arange(4), 25)
    clicked = with_clicks(numbered(labels, qid), noise, impressions=3000, seed=2)
    assert clicked.n_queries == 4 * 3000
    label = labels[clicked.X[:, 0].astype(int)]
    for grade, probability in enumerate((noise, 0.3, 0.5, 0.7, 0.95)):
        clicks = clicked.y[label == grade]
        deviation = np.sqrt(probability * (1 - probability) / len(clicks))
        assert len(clicks) > 4000
        assert clicks.mean() == pytest.approx(probability, abs=4 * deviation)


def test_an_impression_has_one_click_and_it_is_last():
    rng = np.random.default_rng(1)
    qid = np.repeat(np.arange(20), rng.integers(2, 15, 20))
    weights = rng.random(len(qid))
    data = numbered(rng.integers(0, 5, len(qid)), qid, sample_weight=weights)
    clicked = with_clicks(data, impressions=7)
    assert 100 < clicked.n_queries <= 20 * 7
    for name, start, end in by_query(clicked):
        q, impression = map(int, name.split("/"))
        assert impression in range(7)
        assert clicked.y[start:end].tolist() == [0] * (end - start - 1) + [1]
        taken = clicked.X[start:end, 0].astype(int)
        assert len(set(taken)) == len(taken)
        assert (qid[taken] == q).all()
        np.testing.assert_array_equal(clicked.weights[start:end], weights[taken])


def test_documents_are_shown_in_random_order():
    data = numbered([4, 4, 4, 4], qid=[0, 0, 0, 0])
    clicked = with_clicks(data, impressions=4000)
    first = clicked.X[clicked.boundaries[:-1], 0].astype(int)
    shares = np.bincount(first, minlength=4) / clicked.n_queries
    np.testing.assert_allclose(shares, 0.25, atol=4 * np.sqrt(0.25 * 0.75 / 4000))


def test_impressions_without_a_click_are_dropped():
    data = numbered([2, 0], qid=["lone", "never"])
    clicked = with_clicks(data, noise=0.0, impressions=1000)
    assert clicked.n_queries == pytest.approx(1000 * 0.5, abs=4 * np.sqrt(1000 * 0.25))
    assert {name.split("/")[0] for name in clicked.query_ids.tolist()} == {"lone"}
    assert set(clicked.X[:, 0]) == {0}


@pytest.mark.parametrize(
    ("corrupt", "message"),
    [
        (lambda data: with_label_noise(data, 1.5), "share must be a number from 0 to 1; got 1.5"),
        (lambda data: with_label_noise(data, "a"), "share must be a number from 0 to 1; got 'a'"),
        (lambda data: with_added_negatives(data, -0.1), "share must be a number from 0; got -0.1"),
        (lambda data: with_added_negatives(data, "x"), "share must be a number from 0; got 'x'"),
        (lambda data: with_clicks(data, 2.0), "noise must be a number from 0 to 1; got 2.0"),
        (
            lambda data: with_clicks(data, impressions=0),
            "impressions must be a whole number from 1; got 0",
        ),
    ],
)
def test_bad_arguments_are_refused(corrupt, message):
    with pytest.raises(ValueError, match=message):
        corrupt(numbered([1, 2], qid=[1, 2]))


def test_too_few_other_documents_are_refused():
    data = numbered([0, 1, 2, 3], qid=["a", "a", "a", "b"])
    with pytest.raises(ValueError, match=r"query a needs 2 documents of other queries.*only 1"):
        with_added_negatives(data, 0.5)


@pytest.mark.parametrize("corrupt", [with_label_noise, with_clicks])
@pytest.mark.parametrize("label", [5, 0.5])
def test_other_labels_are_refused(corrupt, label):
    data = numbered([0, 1, label], qid=["a", "a", "b"])
    with pytest.raises(ValueError, match=rf"got {label} at row 2, query b\. Map the labels"):
        corrupt(data, 0.1)


def test_clicks_that_cannot_happen_are_refused():
    data = numbered([0, 0], qid=[1, 2])
    with pytest.raises(ValueError, match="no impression has a click: 10 for each of 2 queries"):
        with_clicks(data, noise=0.0)


def test_query_ids_that_look_the_same_as_text_are_refused_for_clicks():
    data = numbered([1, 1], qid=[1, "1"])
    with pytest.raises(ValueError, match="are the same as text"):
        with_clicks(data)
