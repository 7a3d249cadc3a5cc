"""Interleaving: lists against a loop with the same coins, credits worked by hand, the test and its sample size."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

import rankwright as rw
from rankwright.clicks.interleaving import _balanced, _team_draft, click_credit


def draft_by_loop(a, b, coins, length):
    """Radlinski, Kurup and Joachims, CIKM 2008, algorithm 2."""
    shown, teams = [], {"a": [], "b": []}
    while len(shown) < length:
        b_is_behind = len(teams["b"]) < len(teams["a"])
        level = len(teams["a"]) == len(teams["b"])
        team = "b" if b_is_behind or (level and coins[len(shown)] < 0.5) else "a"
        best = next(d for d in (a if team == "a" else b) if d not in shown)
        shown.append(best)
        teams[team].append(best)
    return shown, ["a" if d in teams["a"] else "b" for d in shown]


def balanced_by_loop(a, b, b_first, length):
    """Radlinski, Kurup and Joachims, CIKM 2008, algorithm 1."""
    shown, k_a, k_b = [], 0, 0
    while len(shown) < length:
        if k_a < k_b or (k_a == k_b and not b_first):
            if a[k_a] not in shown:
                shown.append(a[k_a])
            k_a += 1
        else:
            if b[k_b] not in shown:
                shown.append(b[k_b])
            k_b += 1
    return shown


@pytest.mark.parametrize("length", [1, 4, 7])
def test_lists_are_those_of_the_loops(length):
    rng = np.random.default_rng(0)
    a, b = rng.permutation(7), rng.permutation(7)
    coins = rng.random((50, 7))
    lists, by_b = _team_draft(a, b, coins, length)
    for number in range(50):
        shown, team = draft_by_loop(a.tolist(), b.tolist(), coins[number], length)
        assert lists[number].tolist() == shown
        assert ["b" if flag else "a" for flag in by_b[number]] == team
    lists, _ = _balanced(a, b, coins, length)
    for number in range(50):
        assert lists[number].tolist() == balanced_by_loop(
            a.tolist(), b.tolist(), coins[number, 0] < 0.5, length
        )


@pytest.mark.parametrize("method", ["team-draft", "balanced"])
def test_either_ranker_starts_half_of_the_time(method):
    a, b = list("xyz"), list("zyx")
    lists = [rw.interleave(a, b, method=method, key=("q", i)) for i in range(1000)]
    assert np.mean([shown.documents[0] == "z" for shown in lists]) == pytest.approx(
        0.5, abs=4 * 0.5 / np.sqrt(1000)
    )
    again = [rw.interleave(a, b, method=method, key=("q", i)) for i in range(1000)]
    assert lists == again
    other = [rw.interleave(a, b, method=method, key=("q", i), random_state=1) for i in range(1000)]
    assert lists != other


def test_lists_know_the_ranks_and_rankings_may_have_other_documents():
    shown = rw.interleave(["x", "y"], ["w", "x", "v"], length=2)
    assert set(shown.documents) == {"x", "w"}
    ranks = {"x": (1, 2), "w": (0, 1)}
    assert [ranks[d] for d in shown.documents] == list(zip(shown.rank_a, shown.rank_b, strict=True))
    assert len(rw.interleave(range(50), range(50)).documents) == 10


@pytest.mark.parametrize(
    ("a", "b", "options", "message"),
    [
        (["x"], ["x"], {"method": "magic"}, "method must be one of 'team-draft', 'balanced'"),
        (["x", "x"], ["x", "y"], {}, "ranking a has a document twice"),
        (
            ["x"],
            ["x", "y"],
            {"length": 2},
            "a list of 2 documents needs rankings of at least as many.*have 1 and 2",
        ),
        ([], ["x"], {}, "a list of 0 documents"),
        (["x", "y"], ["y", "x"], {"length": 1.5}, "length must be a whole number; got 1.5"),
    ],
)
def test_impossible_lists_are_refused(a, b, options, message):
    with pytest.raises(ValueError, match=message):
        rw.interleave(a, b, **options)


def shown_log(clicks, **fields):
    n = len(clicks[0])
    columns = {
        "query": np.repeat([f"q{i}" for i in range(len(clicks))], n),
        "document": np.tile([f"d{k}" for k in range(n)], len(clicks)),
        "position": np.tile(np.arange(1, n + 1), len(clicks)),
        "click": np.ravel(clicks),
    }
    return rw.read_clicks(
        columns | {name: np.tile(values, len(clicks)) for name, values in fields.items()}
    )


def test_team_draft_credits_the_ranker_that_picked():
    log = shown_log([[1, 0, 1, 1], [0, 0, 0, 0], [0, 1, 1, 0]], team=["a", "b", "b", "b"])
    for_a, for_b = click_credit(log, "team-draft")
    assert for_a.tolist() == [1, 0, 0]
    assert for_b.tolist() == [2, 0, 2]
    result = rw.compare_interleaved(log)
    assert (result.wins_a, result.ties, result.wins_b) == (0, 1, 2)
    assert result.preference == pytest.approx(2 / 3)
    assert result.p == 0.5  # of the four ways to assign two wins, two are as clear


def test_balanced_credits_the_best_documents_down_to_the_lowest_click():
    # List d0 d1 d2 d3 with ranks 1 3 2 4 in a and 2 1 4 3 in b.
    ranks = {"rank_a": [1, 3, 2, 4], "rank_b": [2, 1, 4, 3]}
    log = shown_log([[0, 0, 1, 0], [1, 1, 0, 0], [0, 1, 0, 1], [0, 0, 0, 0]], **ranks)
    for_a, for_b = click_credit(log, "balanced")
    # d2: k = min(2, 4) = 2, which a has in its first 2. d0 and d1: k = min(3, 1) = 1; a has d0, b has d1.
    # d1 and d3: k = min(4, 3) = 3; a has d1 in its first 3, b has both.
    assert for_a.tolist() == [1, 1, 1, 0]
    assert for_b.tolist() == [0, 1, 2, 0]


def test_a_document_that_a_ranking_lacks_does_not_count_for_it():
    log = shown_log([[1, 1]], rank_a=[1, 0], rank_b=[0, 1])
    assert [credit.tolist() for credit in click_credit(log, "balanced")] == [[1], [1]]


def test_simulated_lists_carry_what_credits_them():
    data = rw.make_web_search(10, kind="short", n_features=20, random_state=1)
    a, b = data.X[:, 0].astype(float), data.y + 0.01 * np.arange(data.n_rows)
    for method in ("team-draft", "balanced"):
        log = rw.simulate_interleaving(data, a, b, method=method, impressions=3, shown=4)
        for q in range(data.n_queries):
            rows = np.flatnonzero(log.query == data.query_ids[q])
            own = slice(data.boundaries[q], data.boundaries[q + 1])
            rank_b = 1 + (b[own][None] > b[log.document[rows]][:, None]).sum(axis=1)
            np.testing.assert_array_equal(log.fields["rank_b"][rows], rank_b)
        teams = log.fields["team"].reshape(-1, 4)
        assert (teams[:, 0] != teams[:, 1]).all() or method == "balanced"
    with pytest.raises(ValueError, match="interleaving compares two rankers; got 3"):
        rw.simulate_interleaving(data, [a, b], b)


@pytest.mark.parametrize("method", ["team-draft", "balanced"])
def test_the_better_ranker_is_preferred_and_sides_are_symmetric(method):
    data = rw.make_web_search(60, kind="short", n_features=20, random_state=1)
    noise = np.random.default_rng(0).normal(size=data.n_rows)
    better = rw.compare_interleaved(
        rw.simulate_interleaving(data, noise, data.y, method=method), method=method
    )
    assert better.preference > 0
    assert better.p < 0.01
    assert better.low > 0
    worse = rw.compare_interleaved(
        rw.simulate_interleaving(data, data.y, noise, method=method), method=method
    )
    assert worse.preference < 0
    assert worse.p < 0.01


def test_a_ranker_against_itself_gives_false_alarms_at_the_level():
    data = rw.make_web_search(12, kind="short", n_features=20, random_state=1)
    scores, tests = data.X[:, 0], 150
    p = [
        rw.compare_interleaved(
            rw.simulate_interleaving(
                data, scores, scores, impressions=5, shown=5, noise=0.5, random_state=seed
            ),
            permutations=400,
            resamples=1,
        ).p
        for seed in range(tests)
    ]
    assert np.mean(np.array(p) <= 0.2) == pytest.approx(0.2, abs=4 * np.sqrt(0.16 / tests))


def test_impressions_of_a_query_are_not_independent():
    # Every query prefers one ranker always; there are few queries, so many impressions prove little.
    team = np.array(["a", "b"])
    columns = {
        "query": np.repeat(np.arange(6), 2 * 50),
        "document": np.tile([0, 1], 300),
        "position": np.tile([1, 2], 300),
        "session": np.repeat(np.arange(300), 2),
        "click": np.concatenate([np.tile([0, 1] if q < 5 else [1, 0], 50) for q in range(6)]),
        "team": np.tile(team, 300),
    }
    result = rw.compare_interleaved(rw.read_clicks(columns))
    assert (result.wins_a, result.wins_b) == (50, 250)
    assert result.p == pytest.approx(14 / 64)  # 2 (1 + 6) of the 64 signs
    assert result.design_effect == pytest.approx(50)


def test_one_query_does_not_tell_how_much_impressions_agree():
    columns = {
        "query": ["q"] * 4,
        "document": list("xyxy"),
        "position": [1, 2] * 2,
        "click": [1, 0, 0, 1],
    }
    result = rw.compare_interleaved(rw.read_clicks(columns | {"team": ["a", "b"] * 2}))
    assert np.isnan([result.low, result.high, result.design_effect]).all()
    with pytest.raises(ValueError, match="one query does not tell how much its impressions agree"):
        result.sample_size(0.1)


def test_a_design_effect_below_1_counts_as_1():
    columns = {"document": list("xyxy") * 2, "position": [1, 2] * 4, "click": [1, 0, 0, 1] * 2}
    log = rw.read_clicks(columns | {"query": ["p"] * 4 + ["q"] * 4, "team": ["a", "b"] * 4})
    result = rw.compare_interleaved(log)
    assert result.design_effect == 0
    assert result.sample_size(0.1) == rw.interleaving_sample_size(0.1, ties=0.0)


def test_sample_size_by_the_formula_and_by_power():
    assert rw.interleaving_sample_size(0.1, ties=0.5) == int(
        np.ceil((norm.ppf(0.975) + norm.ppf(0.8)) ** 2 * 0.49 / 0.01)
    )
    n = rw.interleaving_sample_size(0.15, ties=0.4, power=0.9)
    rng = np.random.default_rng(0)
    outcomes = rng.choice([-1, 0, 1], p=[0.225, 0.4, 0.375], size=(2000, n))
    t = outcomes.mean(axis=1) / (outcomes.std(axis=1) / np.sqrt(n))
    assert np.mean(np.abs(t) > norm.ppf(0.975)) == pytest.approx(0.9, abs=4 * 0.3 / np.sqrt(2000))
    assert rw.interleaving_sample_size(0.1, design_effect=3.0) == pytest.approx(
        3 * rw.interleaving_sample_size(0.1), abs=3
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"effect": 0.0}, "effect must not be 0"),
        ({"effect": 0.6}, "at most the share of impressions with a winner"),
        ({"effect": 0.1, "power": 1.0}, "power must be between 0 and 1; got 1.0"),
    ],
)
def test_impossible_sample_sizes_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        rw.interleaving_sample_size(**options)


@pytest.mark.parametrize(
    ("fields", "method", "message"),
    [
        ({}, "team-draft", "no field 'team', which team-draft interleaving needs"),
        ({"team": ["a", "c"]}, "team-draft", "'team' must be 'a' or 'b' in every row"),
        ({"rank_a": [1, 2]}, "balanced", "no field 'rank_b', which balanced interleaving needs"),
        ({"team": ["a", "b"]}, "magic", "method must be"),
        (
            {"rank_a": ["x", "y"], "rank_b": [1, 2]},
            "balanced",
            "the field 'rank_a' must hold ranks",
        ),
    ],
)
def test_logs_that_do_not_say_who_made_the_list_are_refused(fields, method, message):
    with pytest.raises(ValueError, match=message):
        rw.compare_interleaved(shown_log([[1, 0]], **fields), method=method)
