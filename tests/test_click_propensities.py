"""Propensities from click logs: exact recovery where clicks are exact, and what cannot be identified."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize

import rankwright as rw
from rankwright.clicks.cells import by_document, limited
from rankwright.clicks.multiplicative import fit_curve, informative
from rankwright.clicks.relevance import fit_relevance

CURVE = np.array([1.0, 0.5, 0.25])


def log_of(lists, **fields):
    """A log of (query, documents, clicked positions, times shown)."""
    rows = [
        (query, document, k, k in clicked, f"{number}-{time}", number)
        for number, (query, documents, clicked, times) in enumerate(lists)
        for time in range(times)
        for k, document in enumerate(documents, start=1)
    ]
    query, document, position, click, session, number = zip(*rows, strict=True)
    columns = {
        "query": query,
        "document": document,
        "position": position,
        "click": click,
        "session": session,
    }
    more = {
        name: [values[n][k - 1] for n, k in zip(number, position, strict=True)]
        for name, values in fields.items()
    }
    return rw.read_clicks(columns | more)


def exact(rates, orders, times=40):
    """Lists in which each document is clicked exactly as often as rate times propensity says."""
    lists = []
    for query, order in orders:
        for k, document in enumerate(order, start=1):
            clicks = round(times * rates[query, document] * CURVE[k - 1])
            assert clicks == times * rates[query, document] * CURVE[k - 1]
            lists += [(query, order, (k,), clicks)]
        lists += [(query, order, (), times - sum(n for *_, n in lists[-len(order) :]))]
    return [entry for entry in lists if entry[-1]]


def test_documents_at_several_positions_give_the_curve():
    rates = {("a", "x"): 0.4, ("a", "y"): 0.2, ("a", "z"): 0.1, ("b", "x"): 0.2, ("b", "w"): 0.4}
    orders = [("a", "xyz"), ("a", "yzx"), ("b", "xw"), ("b", "wx")]
    curve = rw.estimate_propensities(log_of(exact(rates, orders)), "harvest", resamples=0)
    np.testing.assert_allclose(curve.values, CURVE, rtol=1e-4)
    assert np.isnan(curve.low).all()


def test_the_same_document_in_two_queries_is_two():
    # x is relevant in b only, where it stands at position 2; taken for one document it would look like no bias.
    rates = {("a", "x"): 0.2, ("a", "y"): 0.1, ("b", "x"): 0.4, ("b", "y"): 0.4}
    log = log_of(exact(rates, [("a", "xy"), ("a", "yx"), ("b", "yx")]))
    np.testing.assert_allclose(
        rw.estimate_propensities(log, resamples=0).values, CURVE[:2], rtol=1e-4
    )


def test_exchanged_places_give_the_curve_and_other_rows_do_not_count():
    # Documents of an exchange are as relevant on average at either place; unmarked rows have other rates.
    lists = [
        ("a", "xyz", (1,), 8),
        ("a", "yxz", (2,), 4),
        ("a", "zyx", (3,), 2),
        ("a", "xyz", (1,), 8),
        ("a", "xzy", (3,), 9),
    ]
    marks = [(1, 1, 0), (1, 1, 0), (1, 0, 1), (1, 0, 1), (0, 0, 0)]
    curve = rw.estimate_propensities(log_of(lists, randomised=marks), "swaps", resamples=0)
    np.testing.assert_allclose(curve.values, [1, 4 / 8, 2 / 8], rtol=1e-3)
    assert curve.shows.tolist() == [22, 12, 10]


def test_the_curve_maximises_the_likelihood():
    rng = np.random.default_rng(0)
    shows = rng.integers(0, 9, (30, 5)) * 1.0
    clicks = rng.binomial(shows.astype(int), 0.4) * 1.0
    used = clicks.sum(axis=1) > 0
    shows, clicks = shows[used], clicks[used]

    def loss(free):
        theta = np.exp(np.concatenate(([0.0], free)))
        terms = [
            np.log(shows[g, k] * theta[k] / sum(shows[g, j] * theta[j] for j in range(5)))
            * clicks[g, k]
            for g in range(len(shows))
            for k in range(5)
            if clicks[g, k]
        ]
        return -sum(terms)

    expected = minimize(loss, np.zeros(4), tol=1e-10).x
    np.testing.assert_allclose(fit_curve(shows, clicks)[1:], expected, atol=2e-4)


@pytest.mark.parametrize(
    ("method", "options"), [("swaps", {"randomise": "swap"}), ("harvest", {"temperature": 1.0})]
)
def test_simulated_curves_are_found_within_their_intervals(method, options):
    data = rw.make_web_search(150, kind="short", n_features=20, random_state=2)
    log = rw.simulate_clicks(data, data.y, impressions=100, shown=4, random_state=1, **options)
    curve = rw.estimate_propensities(log, method, resamples=40, confidence=0.999)
    true = 1 / np.arange(1, 5)
    assert np.all(curve.low <= true + 1e-9)
    assert np.all(true <= curve.high + 1e-9)
    assert np.all(curve.high[1:] / curve.low[1:] < 2)
    again = rw.estimate_propensities(log, method, resamples=40, confidence=0.999)
    np.testing.assert_array_equal(curve.low, again.low)
    wider = rw.estimate_propensities(log, method, resamples=40, confidence=0.9999)
    assert np.all(wider.low[1:] < curve.low[1:])


def test_intervals_have_the_spread_of_estimates_over_logs():
    values, widths = [], []
    for number in range(30):
        data = rw.make_web_search(
            10, kind="short", n_features=20, random_state=2, first_query=10 * number
        )
        log = rw.simulate_clicks(data, None, impressions=30, shown=3, random_state=number)
        curve = rw.estimate_propensities(log, "swaps", resamples=20)
        values.append(np.log(curve.values[1:]))
        widths.append(np.log(curve.high[1:] / curve.low[1:]) / 2 / 1.96)
    spread = np.std(values, axis=0, ddof=1)
    # The standard deviation of 30 values has itself a deviation of 13 %.
    np.testing.assert_allclose(np.mean(widths, axis=0), spread, rtol=0.4)


def test_regression_em_tells_relevance_by_features_from_bias():
    rng = np.random.default_rng(0)
    x = rng.integers(-2, 3, 600)
    data = rw.RankingData(x[:, None] * 1.0, (x > 0) * 1.0, qid=np.repeat(np.arange(120), 5))
    log = rw.simulate_clicks(data, x + rng.normal(size=600), impressions=100, shown=None, noise=0.2)
    with pytest.warns(UserWarning, match="told apart by the features alone"):
        curve = rw.estimate_propensities(log, "em", resamples=0)
    shows, clicks = np.zeros((2, 5, 5))
    np.add.at(shows, (log.position - 1, x[log.document] + 2), 1)
    np.add.at(clicks, (log.position - 1, x[log.document] + 2), log.click)

    def loss(free):
        """Minus the likelihood of one relevance for each value of x, and of a propensity for each position."""
        theta, gamma = np.exp(np.concatenate(([0.0], free[:4]))), 1 / (1 + np.exp(-free[4:]))
        p = np.outer(theta, gamma)
        return -(clicks * np.log(p) + (shows - clicks) * np.log(1 - p)).sum() / shows.sum()

    best = minimize(loss, np.concatenate((np.full(4, -1.0), np.zeros(5))), tol=1e-12).x
    np.testing.assert_allclose(curve.values[1:], np.exp(best[:4]), rtol=0.05)
    np.testing.assert_allclose(curve.values, 1 / np.arange(1, 6), rtol=0.2)
    model = fit_relevance(
        data, by_document(log, limited(log, 50)), np.exp(np.concatenate(([0.0], best[:4])))
    )
    np.testing.assert_allclose(
        model.relevance(np.arange(-2.0, 3)[:, None]), 1 / (1 + np.exp(-best[4:])), atol=0.03
    )


def test_em_has_intervals_too():
    data = rw.make_web_search(40, kind="short", n_features=20, random_state=2)
    log = rw.simulate_clicks(data, data.X[:, 0], impressions=20, shown=4, temperature=5.0)
    curve = rw.estimate_propensities(log, "em", resamples=4)
    assert np.all(curve.low[1:] < curve.values[1:])
    assert np.all(curve.values[1:] < curve.high[1:])
    assert curve.values[0] == curve.low[0] == curve.high[0] == 1


def test_positions_past_the_limit_share_a_propensity():
    data = rw.make_web_search(80, kind="short", n_features=20, random_state=2)
    log = rw.simulate_clicks(data, None, impressions=100, shown=6)
    curve = rw.estimate_propensities(log, "swaps", limit=3, resamples=0)
    assert len(curve.values) == 3
    assert curve([1, 3, 6]).tolist() == [1.0, curve.values[2], curve.values[2]]
    assert curve.values[2] == pytest.approx(np.mean(1 / np.arange(3, 7)), rel=0.15)
    assert str(curve).splitlines()[0].split() == [
        "position",
        "propensity",
        "95%",
        "interval",
        "shows",
        "clicks",
    ]
    assert curve.to_dict()["values"] == curve.values.tolist()
    assert "Relative to position 1" in curve._repr_html_()


def test_only_groups_with_clicks_and_several_positions_count():
    log = log_of([("a", "xy", (1,), 2), ("a", "yx", (2,), 1), ("b", "vw", (1,), 5)])
    cells = informative(by_document(log, limited(log, 9)))
    shows, clicks = cells.tables()
    assert (shows.tolist(), clicks.tolist()) == (
        [[2, 1]],
        [[2, 1]],
    )  # x: y has no click, v and w one position
    weighted, _ = cells.tables(np.array([3.0, 1.0]))
    assert weighted.tolist() == [[6, 3]]


OVERLAP = log_of([("a", "xy", (1,), 2), ("a", "yx", (2,), 1)])


@pytest.mark.parametrize(
    ("log", "arguments", "message"),
    [
        (
            OVERLAP,
            {"method": "magic"},
            "method must be one of 'swaps', 'harvest', 'em'; got 'magic'",
        ),
        (OVERLAP, {"confidence": 1.0}, "confidence must be between 0 and 1"),
        (OVERLAP, {"method": "swaps"}, "no field 'randomised' that marks documents"),
        (OVERLAP, {"method": "em"}, "method='em' needs the features of the documents"),
        (OVERLAP, {"limit": 1}, "limit must be a whole number from 2; got 1"),
        (OVERLAP, {"limit": 2.5}, "limit must be a whole number from 2; got 2.5"),
        (OVERLAP, {"resamples": -1}, "resamples must be a whole number from 0; got -1"),
        (OVERLAP, {"resamples": 1}, "one resample has no spread"),
        (
            log_of([("a", "x", (1,), 2)]),
            {},
            "one position only, so position bias and relevance cannot be told apart",
        ),
        (
            log_of([("a", "xy", (1, 2), 2)]),
            {},
            "position 2 is not connected with position 1.*no overlap. Use the method 'em'",
        ),
        (
            log_of([("a", "xyz", (1, 2, 3), 2), ("a", "yxz", (1, 2), 2)]),
            {},
            "position 3 is not connected.*Lower limit, or use the method 'em'",
        ),
        (
            log_of([("a", "xy", (1,), 2), ("a", "yx", (1,), 1)]),
            {},
            "no click at position 2 to learn from; lower limit",
        ),
        (
            log_of([("a", "xy", (1,), 2)], randomised=[(0, 0)]),
            {"method": "swaps"},
            "no row of the log is marked",
        ),
    ],
)
def test_what_cannot_be_estimated_is_said(log, arguments, message):
    with pytest.raises(ValueError, match=message):
        rw.estimate_propensities(log, **arguments)


def test_em_needs_clicks_at_every_position_and_other_queries():
    data = rw.RankingData(np.arange(3.0)[:, None], [2, 1, 0], qid=[1, 1, 1])
    log = rw.simulate_clicks(data, None, impressions=30, noise=0.5)
    with pytest.raises(ValueError, match="relevance from other queries, so it needs at least two"):
        rw.estimate_propensities(log, "em")
    with pytest.raises(ValueError, match="no click at position 2 to learn from"):
        rw.estimate_propensities(
            rw.simulate_clicks(data, [3.0, 2.0, 1.0], noise=0.0, exponent=20.0), "em"
        )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            [1.0, 0.0],
            "the propensity of position 2 is 0; it is the probability that users look there, above 0",
        ),
        ([1.5, 0.5], "the propensity of position 1 is 1.5"),
        ([np.nan], "the propensity of position 1 is nan"),
        ([], "as a list; got shape"),
    ],
)
def test_impossible_propensities_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        rw.Propensities.known(values)


def test_positions_of_known_propensities_start_at_one():
    with pytest.raises(ValueError, match="positions start at 1; got 0"):
        rw.Propensities.known([1.0])([0, 1])
    assert rw.Propensities.known([1.0, 0.5])([1.0, 2.0]).tolist() == [1.0, 0.5]
    for bad in ([1.5], [np.nan], ["1"]):
        with pytest.raises(ValueError, match="positions are whole numbers from 1"):
            rw.Propensities.known([1.0])(bad)


def test_estimated_propensities_above_1_become_probabilities():
    """The second of two positions is clicked more, and only their ratio is known."""
    curve = rw.estimate_propensities(
        log_of([("a", "xy", (2,), 2), ("a", "yx", (1, 2), 1)]), resamples=0
    )
    assert curve.values[1] > 2
    assert curve([1, 2]).tolist() == pytest.approx([1 / curve.values[1], 1.0])


def test_overlap_is_used_without_a_warning():
    data = rw.make_web_search(30, kind="short", n_features=20, random_state=2)
    log = rw.simulate_clicks(data, data.X[:, 0], impressions=20, shown=3, temperature=5.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimate = rw.estimate_propensities(log, "em", resamples=0)
    assert estimate([1]).tolist() == [1.0]


def test_a_step_beyond_the_largest_numbers_is_shortened() -> None:
    """Newton's first steps overflow on this table, where few groups decide about many positions."""
    shows = np.array(
        [
            [0, 74, 27, 0, 0, 0, 9],
            [14, 0, 24, 122, 34, 0, 0],
            [5, 0, 3, 0, 29, 111, 4],
            [0, 0, 18, 29, 9, 0, 0],
            [0, 0, 8, 0, 39, 16, 91],
            [0, 9, 0, 39, 0, 28, 43],
            [0, 0, 0, 4, 6, 0, 0],
        ],
        dtype=float,
    )
    clicks = np.zeros(shows.shape)
    clicks[[0, 1, 1, 1, 2, 3], [2, 0, 2, 4, 0, 4]] = 27, 9, 4, 2, 5, 9
    clicks[[4, 4, 4, 4, 5, 5, 5, 6], [2, 4, 5, 6, 1, 3, 5, 3]] = 8, 32, 16, 34, 9, 39, 5, 4
    curve = fit_curve(shows, clicks)
    share = shows * np.exp(curve)
    share /= share.sum(axis=1, keepdims=True)
    # At the maximum a position has as many clicks as the model expects.
    np.testing.assert_allclose(clicks.sum(axis=1) @ share, clicks.sum(axis=0), atol=1e-4)
