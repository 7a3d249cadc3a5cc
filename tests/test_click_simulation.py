"""Simulated clicks: rates against closed forms, and laws of the draws."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import rankwright as rw

LABELS = np.array([4, 0, 2, 1])
NOISE = 0.2
ATTRACTION = NOISE + (1 - NOISE) * (2.0**LABELS - 1) / 15
IMPRESSIONS = 6000


def one_list(**options):
    """Clicks in a list of four documents that is always shown in the same order."""
    data = rw.RankingData(np.arange(4.0)[:, None], LABELS, qid=[1] * 4)
    return rw.simulate_clicks(
        data, [4.0, 3.0, 2.0, 1.0], impressions=IMPRESSIONS, noise=NOISE, **options
    )


def rates(log):
    return np.array([log.click[log.position == k].mean() for k in range(1, 5)])


def assert_rates(log, expected):
    deviation = np.sqrt(np.asarray(expected) * (1 - np.asarray(expected)) / IMPRESSIONS)
    assert np.all(np.abs(rates(log) - expected) <= 4 * deviation)


def walk(leave_after_click, persistence):
    """Click probabilities of a user who reads from the top, by enumeration of what is liked."""
    total = np.zeros(4)
    for liked in product((0, 1), repeat=4):
        chance = np.prod([a if x else 1 - a for a, x in zip(ATTRACTION, liked, strict=True)])
        arrives = 1.0
        for k in range(4):
            total[k] += chance * arrives * liked[k]
            arrives *= (1 - liked[k] * leave_after_click[k]) * persistence
    return total


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0])
def test_position_based_users_examine_by_a_power_of_the_position(exponent):
    position = np.arange(1.0, 5)
    assert_rates(one_list(exponent=exponent), position**-exponent * ATTRACTION)


def test_trusting_users_click_more_near_the_top():
    position = np.arange(1.0, 5)
    noise = NOISE + (1 - NOISE) * 0.5 / position
    expected = position**-1.0 * (noise + (1 - noise) * (2.0**LABELS - 1) / 15)
    assert_rates(one_list(examination="trust", trust=0.5), expected)


def test_cascade_users_leave_after_the_first_click():
    log = one_list(examination="cascade")
    assert_rates(log, walk(np.ones(4), 1.0))
    assert np.bincount(log.impression, weights=log.click).max() == 1


def test_dynamic_bayesian_users_leave_when_satisfied_or_tired():
    assert_rates(one_list(examination="dbn", persistence=0.8), walk((2.0**LABELS - 1) / 15, 0.8))


def test_no_trust_and_full_persistence_are_the_simpler_models():
    a, b = one_list(examination="trust", trust=0.0, exponent=2.0), one_list(exponent=2.0)
    np.testing.assert_array_equal(a.click, b.click)


@pytest.fixture(scope="module")
def data():
    return rw.make_web_search(12, kind="short", n_features=20, random_state=5)


def rows_of(log):
    return list(
        zip(
            log.query.tolist(),
            log.session.tolist(),
            log.position.tolist(),
            log.document.tolist(),
            log.click.tolist(),
            strict=True,
        )
    )


OPTIONS = [
    {},
    {"temperature": 1.0},
    {"randomise": "swap"},
    {"randomise": "shuffle", "shown": None},
    {"examination": "dbn", "shown": 3},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_impressions_and_queries_do_not_change_each_other(data, options):
    scores = data.X[:, 0]
    log = rw.simulate_clicks(data, scores, impressions=9, random_state=3, **options)
    fewer = rw.simulate_clicks(data, scores, impressions=4, random_state=3, **options)
    assert rows_of(fewer) == [row for row in rows_of(log) if row[1] < 4]
    last = data.subset([11])
    of_last = rw.simulate_clicks(
        last,
        scores[-last.n_rows :],
        impressions=9,
        random_state=3,
        max_label=data.y.max(),
        **options,
    )
    first_row = data.boundaries[11]
    assert [(*row[:3], row[3] + first_row, row[4]) for row in rows_of(of_last)] == [
        row for row in rows_of(log) if row[0] == 12
    ]
    assert rows_of(
        rw.simulate_clicks(data, scores, impressions=9, random_state=4, **options)
    ) != rows_of(log)


@pytest.mark.parametrize("options", OPTIONS)
def test_the_order_of_rows_changes_nothing(data, options):
    number = np.arange(data.n_rows)
    shuffled = np.random.default_rng(0).permutation(data.n_rows)
    other = rw.RankingData(
        data.X[shuffled],
        data.y[shuffled],
        qid=data.qid[shuffled],
        fields={"number": number[shuffled]},
    )
    log = rw.simulate_clicks(data, data.X[:, 0], **options)
    same = rw.simulate_clicks(other, other.X[:, 0], **options)
    np.testing.assert_array_equal(other.fields["number"][same.document], log.document)
    np.testing.assert_array_equal(same.click, log.click)


def test_batches_of_draws_change_nothing(data, monkeypatch):
    log = rw.simulate_clicks(data, data.X[:, 0], temperature=1.0)
    monkeypatch.setattr("rankwright.clicks.simulation._DRAWS_AT_ONCE", 500)
    assert rows_of(rw.simulate_clicks(data, data.X[:, 0], temperature=1.0)) == rows_of(log)


def test_lists_are_those_of_the_ranker_and_cut_off(data):
    class Model:
        def predict(self, rows):
            return rows.X[:, 1].astype(float)

    log = rw.simulate_clicks(data, Model(), shown=7, impressions=2)
    for q in range(data.n_queries):
        own = np.arange(data.boundaries[q], data.boundaries[q + 1])
        shown = log.document[(log.query == data.query_ids[q]) & (log.session == 1)]
        assert len(shown) == min(7, len(own))
        scores = data.X[:, 1]
        assert scores[shown].tolist() == sorted(scores[own], reverse=True)[: len(shown)]


def test_several_rankers_share_the_impressions(data):
    scores = data.X[:, 0].astype(float), -data.X[:, 0].astype(float)
    log = rw.simulate_clicks(data, list(scores), impressions=400, shown=1)
    assert log.fields["ranker"].mean() == pytest.approx(0.5, abs=4 * 0.5 / np.sqrt(log.n_rows))
    best = [
        max(scores[0][data.boundaries[q] : data.boundaries[q + 1]]) for q in range(data.n_queries)
    ]
    by_first = log.fields["ranker"] == 0
    np.testing.assert_array_equal(
        scores[0][log.document[by_first]], np.array(best)[log.queries.query_of_row[by_first]]
    )


def test_swaps_exchange_the_first_document_with_another_half_of_the_time(data):
    scores = data.X[:, 0].astype(float) + np.arange(data.n_rows) * 1e-6
    plain = rw.simulate_clicks(data, scores, impressions=500, shown=4)
    log = rw.simulate_clicks(data, scores, impressions=500, shown=4, randomise="swap")
    marked = log.fields["randomised"].reshape(-1, 4)
    assert marked[:, 0].all()
    assert (marked.sum(axis=1) == 2).all()
    np.testing.assert_allclose(
        marked[:, 1:].mean(axis=0), 1 / 3, atol=4 * np.sqrt(2 / 9 / len(marked))
    )
    before, after = plain.document.reshape(-1, 4), log.document.reshape(-1, 4)
    swapped = before[:, 0] != after[:, 0]
    assert swapped.mean() == pytest.approx(0.5, abs=4 * 0.5 / np.sqrt(len(swapped)))
    np.testing.assert_array_equal(after[~swapped], before[~swapped])
    np.testing.assert_array_equal((after != before)[swapped], marked[swapped])


def test_lists_without_scores_and_shuffled_lists_are_in_random_order():
    data = rw.RankingData(np.arange(3.0)[:, None], [1, 1, 1], qid=[1] * 3)
    for options in ({}, {"scores": [3.0, 2.0, 1.0], "randomise": "shuffle"}):
        log = rw.simulate_clicks(data, impressions=3000, **options)
        orders = np.unique(log.document.reshape(-1, 3), axis=0, return_counts=True)[1]
        np.testing.assert_allclose(orders / 3000, 1 / 6, atol=4 * np.sqrt(5 / 36 / 3000))
        assert log.fields["randomised"].all()


def test_temperature_draws_lists_from_plackett_and_luce():
    data = rw.RankingData(np.arange(3.0)[:, None], [1, 1, 1], qid=[1] * 3)
    log = rw.simulate_clicks(data, [2.0, 0.0, 1.0], temperature=2.0, impressions=4000)
    strength = np.exp(np.array([2.0, 0.0, 1.0]) / 2)
    tops = np.bincount(log.document[log.position == 1]) / 4000
    np.testing.assert_allclose(tops, strength / strength.sum(), atol=4 * 0.5 / np.sqrt(4000))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"examination": "magic"},
            "examination must be one of 'position', 'cascade', 'dbn', 'trust'; got 'magic'",
        ),
        (
            {"examination": "cascade", "exponent": 1.0},
            "examination='cascade' has no exponent; it has no options",
        ),
        ({"examination": "dbn", "trust": 0.5}, "'dbn' has no trust; its options are persistence"),
        ({"exponent": -1.0}, "exponent must be a number from 0; got -1"),
        ({"noise": 1.5}, "noise must be a number from 0 to 1; got 1.5"),
        ({"impressions": 0}, "impressions must be a whole number from 1; got 0"),
        ({"shown": 0}, "shown must be a whole number from 1; got 0"),
        ({"randomise": "all"}, "randomise must be one of 'swap', 'shuffle', None; got 'all'"),
        ({"temperature": -1}, "temperature must be a number from 0"),
        ({"max_label": 1}, "a label 4 above max_label=1"),
        ({"scores": None, "temperature": 1.0}, "random order already"),
        ({"scores": [1.0]}, r"scores have shape \(1,\)"),
        ({"scores": np.nan}, r"scores have shape \(\)"),
    ],
)
def test_bad_arguments_are_refused(data, options, message):
    with pytest.raises(ValueError, match=message):
        rw.simulate_clicks(data, **{"scores": data.X[:, 0], **options})


def test_data_without_relevance_is_refused():
    with pytest.raises(ValueError, match="no document has a positive label"):
        rw.simulate_clicks(rw.RankingData([[1.0], [2.0]], [0, 0], qid=[1, 1]))
