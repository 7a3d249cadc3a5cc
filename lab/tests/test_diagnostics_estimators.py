"""Noise, bias and cost of gradient estimates, against closed forms and plain NumPy."""

import math

import numpy as np
import pytest

import rankwright as rw
from rankwright_lab.diagnostics import ESTIMATORS, estimators

SCORES = np.array([0.9, 0.1, 0.4, -0.3, 0.2, 0.0, 0.6, 1.0])
LABELS = np.array([0, 2, 1, 0, 3, 1, 0, 0])
GROUP = [5, 3]


def by_name(result):
    return {row.name: row for row in result.rows}


@pytest.fixture(scope="module")
def measured():
    return estimators(SCORES, LABELS, group=GROUP, metric="ndcg@3", repeats=2000, threads=1)


def test_signal_and_noise_are_those_of_the_draws(measured):
    for name, text in ESTIMATORS.items():
        few = estimators(
            SCORES,
            LABELS,
            group=GROUP,
            metric="ndcg@3",
            repeats=30,
            objectives={name: text},
            seed=4,
            threads=1,
        )
        bound = rw.bind(text, LABELS, group=GROUP, metric="ndcg@3", random_state=4)
        draws = np.array([bound(SCORES, iteration)[0].copy() for iteration in range(30)])
        noise = [draws[:, :5].var(axis=0, ddof=1).sum(), draws[:, 5:].var(axis=0, ddof=1).sum()]
        signal = [(part.mean(axis=0) ** 2).sum() for part in (draws[:, :5], draws[:, 5:])]
        np.testing.assert_allclose(few.noise[name], noise, rtol=1e-9)
        np.testing.assert_allclose(
            few.signal[name], np.subtract(signal, np.array(noise) / 30), rtol=1e-6, atol=1e-12
        )


def test_two_documents_in_closed_form():
    """E MRR = (1 + Phi(d / sqrt(2))) / 2: each of the two slopes is phi(d / sqrt(2)) / (2 sqrt(2))."""
    d = 0.5
    slope = math.exp(-(d**2) / 4) / math.sqrt(2 * math.pi) / (2 * math.sqrt(2))
    result = estimators([d, 0], [1, 0], group=[2], metric="mrr", repeats=4000, threads=1)
    rows = by_name(result)
    np.testing.assert_allclose(result.signal["ccs"], [2 * slope**2], rtol=1e-9)
    np.testing.assert_allclose(rows["ccs"].factor, 1, rtol=0.05)
    # The only noise that matters, the difference of the two, is integrated out.
    assert 0 <= result.noise["ccs"][0] < 1e-20
    assert rows["ccs"].bias < 0.1


def test_ccs_and_reinforce_are_unbiased_and_ccs_has_less_noise(measured):
    rows = by_name(measured)
    for name in ("ccs", "reinforce"):
        assert rows[name].bias < 0.15
        assert abs(rows[name].factor - 1) < 0.15
        assert rows[name].cosine > 0.97
    assert rows["ccs"].signal_to_noise > 5 * rows["reinforce"].signal_to_noise


def test_sfa_takes_a_direction_away_and_yeti_points_elsewhere(measured):
    rows = by_name(measured)
    assert rows["ccs + sfa"].bias > 2 * rows["ccs"].bias
    assert 0.5 < rows["yeti"].cosine < 0.999
    assert rows["yeti"].bias == pytest.approx(math.tan(math.acos(rows["yeti"].cosine)), rel=1e-6)


def test_cost_is_time_over_signal_to_noise(measured):
    for row in measured.rows:
        assert row.cost == row.seconds / row.signal_to_noise
    frame = measured.to_dataframe()
    assert frame.name.tolist() == list(ESTIMATORS)
    assert measured.per_query().columns.tolist() == ["query", *ESTIMATORS]


def test_no_noise_and_no_gradient():
    """RankNet draws nothing; the second query has equal labels and no gradient."""
    result = estimators(
        [0.2, 0.1, 0.3, 0.2], [0, 1, 1, 1], group=[2, 2], objectives={"plain": "ranknet"}, repeats=3
    )
    row = result.rows[0]
    assert (row.signal_to_noise, row.cost) == (math.inf, 0)
    assert np.isnan(result.signal_to_noise("plain")).all()
    assert result.to_dict()["rows"][0]["signal_to_noise"] is None


def test_rows_in_any_order():
    shuffle = np.random.default_rng(0).permutation(8)
    qid = np.repeat([0, 1], GROUP)
    options = {"objectives": {"ccs": "stochasticrank(sfa=False)"}, "repeats": 20, "metric": "ndcg"}
    sorted_, mixed = (
        estimators(SCORES[rows], LABELS[rows], qid=qid[rows], **options)
        for rows in (np.sort(shuffle), shuffle)
    )
    assert mixed.query_ids.tolist() == sorted_.query_ids.tolist() == [0, 1]
    assert 0.2 < mixed.noise["ccs"][0] / sorted_.noise["ccs"][0] < 5, (
        "the rows of a query stay together"
    )


def test_invalid_arguments():
    with pytest.raises(ValueError, match="repeats must be a whole number of at least 2"):
        estimators([1, 0], [1, 0], group=[2], repeats=1)
    with pytest.raises(ValueError, match="objectives is empty"):
        estimators([1, 0], [1, 0], group=[2], objectives={})
