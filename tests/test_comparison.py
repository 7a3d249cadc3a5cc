import itertools
import json
import math
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, dataclass

import numpy as np
import pytest
import scipy.stats

from rankwright.evaluation.comparison import compare

METRIC = "ndcg@10"
FAST = {"permutations": 2000, "resamples": 200}


@dataclass
class Values:
    """The attributes of an evaluation that a comparison reads."""

    per_query: dict
    query_ids: np.ndarray
    ties: str = "mean"
    empty: str = "skip"
    weights: np.ndarray | None = None


def evaluation(values, ids=None, **other):
    values = np.asarray(values, dtype=float)
    ids = np.arange(len(values)) if ids is None else np.asarray(ids)
    return Values({METRIC: values}, ids, **other)


def from_differences(differences):
    """Return two evaluations whose differences are the given ones."""
    differences = np.asarray(differences, dtype=float)
    return evaluation(np.zeros(len(differences))), evaluation(differences)


def only_row(*evaluations, **options):
    (row,) = compare(*evaluations, **options).rows
    return row


def fisher_by_enumeration(differences, weights=None):
    terms = [d * w for d, w in zip(differences, weights or [1] * len(differences), strict=True)]
    observed = abs(math.fsum(terms))
    flips = list(itertools.product((1, -1), repeat=len(terms)))
    sums = [abs(math.fsum(s * t for s, t in zip(f, terms, strict=True))) for f in flips]
    return sum(total >= observed - 1e-10 for total in sums) / len(flips)


@pytest.mark.parametrize(
    "differences",
    [
        [0.1, 0.2, 0.3, 0.4, 0.5],
        [0.1, -0.2, 0.3, 0.0, 0.25, -0.05],
        # Tenths are not exact in binary: many sums tie with the observed one but for rounding.
        [0.1, 0.2, 0.3, -0.1, -0.2, 0.7, 0.1, 0.4, -0.3, 0.6],
        [-0.3, 0.3],
    ],
)
def test_fisher_is_exact_for_few_queries(differences):
    row = only_row(*from_differences(differences), **FAST)
    assert row.p_fisher == fisher_by_enumeration(differences)


def test_fisher_of_one_direction_by_arithmetic():
    # Only the observed signs and their opposites reach the sum.
    assert only_row(*from_differences([0.25] * 7 + [0.0] * 30), **FAST).p_fisher == 2 / 2**7


def test_fisher_with_weights_is_that_of_the_weighted_mean():
    differences, weights = [0.1, -0.2, 0.3, 0.25, -0.05], [1.0, 5.0, 2.0, 1.0, 0.5]
    a, b = from_differences(differences)
    a.weights = b.weights = np.array(weights)
    row = only_row(a, b, **FAST)
    assert row.p_fisher == fisher_by_enumeration(differences, weights)
    assert row.p_fisher != fisher_by_enumeration(differences)


def test_sampled_fisher_is_near_the_exact_distribution():
    # 21 equal differences, 15 of them positive: the sum is at least as extreme when at least
    # 15 or at most 6 of 21 fair coins show heads.
    heads = [math.comb(21, k) for k in range(22)]
    exact = (sum(heads[15:]) + sum(heads[:7])) / 2**21
    row = only_row(*from_differences([0.1] * 15 + [-0.1] * 6), permutations=100_000, resamples=1)
    standard_error = math.sqrt(exact * (1 - exact) / 100_000)
    assert 0 < abs(row.p_fisher - exact) < 4 * standard_error


def test_sampled_fisher_agrees_with_the_normal_limit_over_several_chunks_and_blocks():
    # 10 000 queries need more than one table block, 40 000 permutations more than one chunk.
    differences = np.random.default_rng(3).normal(0.012, 1.0, 10_000)
    z = differences.sum() / math.sqrt((differences**2).sum())
    exact = math.erfc(abs(z) / math.sqrt(2))
    row = only_row(*from_differences(differences), permutations=40_000, resamples=1)
    assert 0.05 < exact < 0.95
    assert abs(row.p_fisher - exact) < 4 * math.sqrt(exact * (1 - exact) / 40_000)


def test_sampled_p_value_is_never_zero():
    row = only_row(*from_differences(np.full(200, 0.1)), permutations=999, resamples=1)
    assert row.p_fisher == 1 / 1000


def test_twenty_differing_queries_are_enumerated_and_twenty_one_sampled():
    def p_values(n):
        pair = from_differences(np.linspace(-1, 1.3, n))
        return {only_row(*pair, random_state=seed, **FAST).p_fisher for seed in range(3)}

    assert len(p_values(20)) == 1
    assert len(p_values(21)) > 1


def test_sampled_fisher_ignores_the_order_of_queries_and_the_direction():
    rng = np.random.default_rng(5)
    a, b = rng.random(100), rng.random(100)
    order = rng.permutation(100)
    p = only_row(evaluation(a), evaluation(b), **FAST).p_fisher
    assert only_row(evaluation(a[order]), evaluation(b[order]), **FAST).p_fisher == p
    assert only_row(evaluation(b), evaluation(a), **FAST).p_fisher == p
    assert only_row(evaluation(a), evaluation(b), random_state=1, **FAST).p_fisher != p


def test_sampled_p_value_follows_from_the_raw_bits_of_the_generator():
    # 50 sizes in ascending order, eight to a byte, bit 1 for minus: exact sums, any platform.
    differences = np.arange(-20, 31) / 64
    sizes = np.sort(np.abs(differences[differences != 0]))
    bits = np.random.PCG64(np.random.SeedSequence(7, spawn_key=(1, 0)))
    columns = []
    for _ in range(7):
        raw = bits.random_raw(1250).astype("<u8").tobytes()[:9999]
        columns += [[1 - 2 * (byte >> bit & 1) for byte in raw] for bit in range(8)]
    sums = np.array(columns[:50]).T @ sizes
    hits = int((abs(sums) >= abs(differences.sum())).sum())

    row = only_row(*from_differences(differences), permutations=9999, resamples=1, random_state=7)
    assert row.p_fisher == (1 + hits) / (1 + 9999)
    assert 1 < hits < 9999


def test_p_value_is_the_same_in_two_threads():
    rng = np.random.default_rng(6)
    a, b = evaluation(rng.random(500)), evaluation(rng.random(500))
    alone = compare(a, b, **FAST)
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(lambda _: compare(a, b, **FAST), range(4)))
    assert all(result == alone for result in together)


def test_t_test_is_the_textbook_formula():
    differences = [1.0, 2.0, 4.0, -1.0]
    row = only_row(*from_differences(differences), **FAST)
    mean = (1 + 2 + 4 - 1) / 4
    sd = math.sqrt(((1 - mean) ** 2 + (2 - mean) ** 2 + (4 - mean) ** 2 + (-1 - mean) ** 2) / 3)
    t = mean / (sd / math.sqrt(4))
    # With 3 degrees of freedom the distribution function has a closed form.
    u = t / math.sqrt(3)
    upper = 1 / 2 - (u / (1 + u**2) + math.atan(u)) / math.pi
    assert row.p_t == pytest.approx(2 * upper, rel=1e-12)
    assert row.effect_size == pytest.approx(mean / sd, rel=1e-12)


def test_t_and_wilcoxon_agree_with_scipy():
    rng = np.random.default_rng(1)
    a = rng.random(80)
    b = a + rng.normal(0.02, 0.1, 80)
    row = only_row(evaluation(a), evaluation(b), **FAST)
    assert row.p_t == pytest.approx(scipy.stats.ttest_rel(a, b).pvalue, rel=1e-9)
    assert row.p_wilcoxon == pytest.approx(scipy.stats.wilcoxon(b, a).pvalue, rel=1e-9)


def test_wilcoxon_by_enumeration():
    # Ranks 1..5, negative at rank 2: the rank sums of the two signs are 13 and 2, and of the 32
    # sign choices those with a sum of at most 2 on one side are {}, {1}, {2}: three, twice.
    row = only_row(*from_differences([0.1, -0.2, 0.3, 0.4, 0.5, 0.0]), **FAST)
    assert row.p_wilcoxon == pytest.approx(2 * 3 / 2**5, rel=1e-12)


def test_wilcoxon_gives_differences_equal_but_for_rounding_the_same_rank():
    a = evaluation([0.1, 0.2, 0.7, 0.3, 0.9, 0.4])
    b = evaluation([0.2, 0.3, 0.6, 0.4, 1.0, 0.7])  # 0.1, 0.1, -0.1, 0.1, 0.1, 0.3
    # Ranks 3, 3, 3, 3, 3, 6. Of 64 choices, those with a sum of at most 3 on one side are
    # {} and the five of one tied rank: six, twice.
    assert only_row(a, b, **FAST).p_wilcoxon == pytest.approx(2 * 6 / 2**6, rel=1e-12)


def test_false_positive_rate_is_the_level():
    rng = np.random.default_rng(0)
    trials = 400
    rows = [
        only_row(
            *from_differences(rng.normal(0, 1, 40)),
            permutations=499,
            resamples=1,
            random_state=trial,
        )
        for trial in range(trials)
    ]
    tolerance = 3.5 * math.sqrt(0.05 * 0.95 / trials)
    for p_name in ("p_fisher", "p_t", "p_wilcoxon"):
        rate = np.mean([getattr(row, p_name) <= 0.05 for row in rows])
        assert abs(rate - 0.05) < tolerance, p_name


def test_a_clear_improvement_is_found_by_every_test():
    rng = np.random.default_rng(2)
    pair = from_differences(rng.normal(0.1, 0.1, 60))
    for test in ("fisher", "t", "wilcoxon"):
        row = only_row(*pair, test=test, **FAST)
        assert row.p == getattr(row, f"p_{test}")
        assert row.p <= 0.001
        assert row.significant


def test_holm_by_hand():
    baseline = evaluation(np.zeros(8))
    # n differences of one sign: p = 2 / 2^n.
    systems = [evaluation([0.5] * n + [0.0] * (8 - n)) for n in (6, 4, 8, 7)]
    rows = compare(baseline, *systems, **FAST).rows
    assert [row.p for row in rows] == [2 / 64, 2 / 16, 2 / 256, 2 / 128]
    assert [row.p_adjusted for row in rows] == [2 * 2 / 64, 1 * 2 / 16, 4 * 2 / 256, 3 * 2 / 128]
    assert [row.significant for row in rows] == [False, False, True, True]
    alone = only_row(baseline, systems[0], **FAST)
    assert (alone.p_adjusted, alone.significant) == (2 / 64, True)


def test_holm_is_monotone_and_at_most_one():
    baseline = evaluation(np.zeros(6))
    systems = [evaluation(values) for values in ([0.5] * 3 + [0] * 3, [0.5, -0.5] * 3)]
    systems.append(evaluation([0.5] * 3 + [0] * 3))
    rows = compare(baseline, *systems, **FAST).rows
    # p = 1/4, 1, 1/4: 3/4, then max(3/4, 2/4), then max(3/4, 1).
    assert [row.p_adjusted for row in rows] == [3 / 4, 1.0, 3 / 4]
    rows = compare(baseline, systems[1], systems[1], **FAST).rows
    assert [row.p_adjusted for row in rows] == [1.0, 1.0]  # not 2 * 1


def test_the_level_is_inclusive():
    baseline, system = from_differences([0.5] * 4)  # p = 2/16
    assert only_row(baseline, system, confidence=1 - 2 / 16, **FAST).significant
    assert not only_row(baseline, system, confidence=0.88, **FAST).significant
    # p = 1/10, and 1 - 0.9 is less than that in floating point.
    pair = from_differences(np.full(200, 0.5))
    assert only_row(*pair, confidence=0.9, permutations=9, resamples=1).significant


def test_further_systems_and_metrics_change_no_raw_p_value():
    rng = np.random.default_rng(8)
    a, b, c = (evaluation(rng.random(60)) for _ in range(3))
    for system in (a, b, c):
        system.per_query["err"] = system.per_query[METRIC] * 2
    pair = compare(a, b, **FAST).rows
    rows = compare(a, b, c, **FAST).rows
    assert [(row.metric, row.system) for row in rows] == [
        (METRIC, "system 1"),
        (METRIC, "system 2"),
        ("err", "system 1"),
        ("err", "system 2"),
    ]
    assert [row.p for row in pair] == [rows[0].p, rows[2].p]
    assert compare(a, b, metrics="err", **FAST).rows[0].p == pair[1].p


def test_pairs_use_streams_of_their_own():
    rng = np.random.default_rng(9)
    a, b = evaluation(rng.random(60)), evaluation(rng.random(60))
    first, second = compare(a, b, b, **FAST).rows
    assert first.p != second.p
    assert (first.low, first.high) != (second.low, second.high)


def test_means_difference_wins_ties_and_losses():
    a = evaluation([0.1, 0.2, 0.3, 0.5, 0.4])
    b = evaluation(
        [0.3, 0.1 + 0.1, 0.1 + 0.2, 0.1, 0.6]
    )  # 0.1 + 0.2 is not 0.3: a tie all the same
    row = only_row(a, b, **FAST)
    assert (row.wins, row.ties, row.losses, row.n_queries) == (2, 2, 1, 5)
    assert row.baseline_mean == pytest.approx((0.1 + 0.2 + 0.3 + 0.5 + 0.4) / 5)
    assert row.system_mean == pytest.approx((0.3 + 0.2 + 0.3 + 0.1 + 0.6) / 5)
    assert row.difference == pytest.approx((0.2 - 0.4 + 0.2) / 5)


def test_weighted_means_and_effect_size_by_hand():
    weights = np.array([3.0, 1.0, 0.0])
    a = evaluation([0.0, 1.0, 9.0], weights=weights)
    b = evaluation([1.0, 0.0, 5.0], weights=weights)
    row = only_row(a, b, **FAST)
    mean = (3 * 1 + 1 * -1) / 4
    variance = (3 * (1 - mean) ** 2 + 1 * (-1 - mean) ** 2) / 4 * 2 / (2 - 1)
    assert (row.baseline_mean, row.system_mean, row.difference) == (1 / 4, 3 / 4, mean)
    assert row.effect_size == pytest.approx(mean / math.sqrt(variance))
    assert (row.wins, row.losses, row.n_queries) == (1, 1, 2)  # without the query of weight 0
    assert math.isnan(row.p_t)
    assert math.isnan(row.p_wilcoxon)


@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_bootstrap_interval_is_near_the_normal_one(confidence):
    differences = np.random.default_rng(4).normal(0.1, 0.5, 400)
    row = only_row(*from_differences(differences), confidence=confidence, permutations=1)
    half = scipy.stats.norm.ppf((1 + confidence) / 2) * differences.std() / math.sqrt(400)
    assert row.low == pytest.approx(differences.mean() - half, abs=0.05 * half)
    assert row.high == pytest.approx(differences.mean() + half, abs=0.05 * half)


def test_weighted_bootstrap_interval_is_near_the_normal_one():
    rng = np.random.default_rng(4)
    differences, weights = rng.normal(0.1, 0.5, 400), rng.integers(1, 9, 400).astype(float)
    a, b = from_differences(differences)
    a.weights = b.weights = weights
    row = only_row(a, b, permutations=1)
    mean = (weights * differences).sum() / weights.sum()
    error = math.sqrt((weights**2 * (differences - mean) ** 2).sum()) / weights.sum()
    assert row.low == pytest.approx(mean - 1.96 * error, abs=0.1 * error)
    assert row.high == pytest.approx(mean + 1.96 * error, abs=0.1 * error)


def test_bootstrap_of_two_queries_by_arithmetic():
    # The mean of two draws from {0, 1} is 0, 1/2, 1 with chances 1/4, 1/2, 1/4.
    row = only_row(*from_differences([0.0, 1.0]), confidence=0.4, permutations=1)
    assert (row.low, row.high) == (0.5, 0.5)  # its 30 % and 70 % quantiles
    row = only_row(*from_differences([0.0, 1.0]), confidence=0.6, permutations=1)
    assert (row.low, row.high) == (0.0, 1.0)  # its 20 % and 80 % quantiles


@pytest.mark.filterwarnings("error")
def test_identical_systems():
    values = np.random.default_rng(0).random(50)
    row = only_row(evaluation(values), evaluation(values), **FAST)
    assert (row.p_fisher, row.p_t, row.p_wilcoxon, row.p_adjusted) == (1, 1, 1, 1)
    assert (row.difference, row.effect_size, row.low, row.high) == (0, 0, 0, 0)
    assert (row.wins, row.ties, row.losses) == (0, 50, 0)
    assert not row.significant


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("sign", [1, -1])
def test_equal_differences(sign):
    a = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.7])
    row = only_row(evaluation(a), evaluation(a + sign * 0.1), **FAST)
    assert row.effect_size == sign * math.inf
    assert row.p_t == 0.0
    assert row.p_fisher == row.p_wilcoxon == 2 / 2**6


def test_queries_are_aligned_by_id():
    a = evaluation([0.1, 0.2, 0.3, 0.4], ids=["q1", "q2", "q3", "q4"])
    b = evaluation([0.5, 0.2, 0.4, 0.1], ids=["q4", "q2", "q3", "q1"])
    row = only_row(a, b, **FAST)
    assert (row.wins, row.ties, row.losses) == (2, 2, 0)
    assert row.difference == pytest.approx((0.1 + 0.1) / 4)


def test_weights_are_aligned_by_id():
    a = evaluation([0.0, 0.0, 0.0], ids=[1, 2, 3], weights=np.array([1.0, 2.0, 5.0]))
    b = evaluation([0.5, 0.0, 1.0], ids=[3, 1, 2], weights=np.array([5.0, 1.0, 2.0]))
    assert only_row(a, b, **FAST).difference == pytest.approx((5 * 0.5 + 2 * 1.0) / 8)


def test_queries_skipped_by_both_are_left_out():
    a = evaluation([0.1, np.nan, 0.3, 0.4])
    b = evaluation([0.2, np.nan, 0.3, 0.5])
    row = only_row(a, b, **FAST)
    assert (row.n_queries, row.wins, row.ties) == (3, 2, 1)
    assert row.difference == pytest.approx((0.1 + 0.1) / 3)


def test_metrics_default_to_the_shared_ones():
    a = Values({"ap": np.arange(3.0), "rr": np.arange(3.0)}, np.arange(3))
    b = Values({"rr": np.ones(3), "dcg": np.ones(3)}, np.arange(3))
    assert [row.metric for row in compare(a, b, **FAST).rows] == ["rr"]


def test_metrics_may_be_objects_with_the_metric_as_text():
    class Metric:
        def __str__(self):
            return METRIC

    a, b = from_differences([0.1, 0.2])
    assert only_row(a, b, metrics=[Metric()], **FAST).metric == METRIC


PAIR = from_differences([0.1, 0.2, 0.3])


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (evaluation([0, 0, 0], ids=[0, 1, 7]), "evaluated on different queries: .* query [27]"),
        (evaluation([0, 0], ids=[0, 1]), "evaluated on different queries: .* query 2"),
        (evaluation([0, 0, 0], ids=[0, 1, 1]), "'system' has repeated query ids"),
        (evaluation([0, 0, 0], ties="worst"), "'system' .* ties='worst' .* ties='mean'"),
        (evaluation([0, 0, 0], empty="zero"), "'system' .* empty='zero' .* empty='skip'"),
        (evaluation([0, np.nan, 0]), "only one of 'baseline' and 'system' .* for query 1"),
        (evaluation([0, 0, 0], weights=np.ones(3)), "different query weights"),
        (Values({"ap": np.zeros(3)}, np.arange(3)), "no metric to compare by"),
    ],
)
def test_evaluations_that_do_not_match(other, message):
    with pytest.raises(ValueError, match=message):
        compare(PAIR[0], other)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"test": "sign"}, "test must be one of 'fisher', 't', 'wilcoxon'; got 'sign'"),
        ({"confidence": 95}, "confidence must be between 0 and 1; got 95"),
        ({"permutations": 0}, "permutations must be a whole number from 1; got 0"),
        ({"resamples": 1.5}, "resamples must be a whole number from 1; got 1.5"),
        ({"random_state": -1}, "random_state must be a whole number from 0; got -1"),
        ({"names": ["a"]}, "names must be 2 different names"),
        ({"names": ["a", "a"]}, "names must be 2 different names"),
        ({"names": "ab"}, "names must be 2 different names"),
        ({"metrics": "ap"}, "'baseline' was not evaluated by 'ap'; choose from ndcg@10"),
        ({"metrics": []}, "no metric to compare by"),
    ],
)
def test_arguments_that_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        compare(*PAIR, **options)


@pytest.mark.parametrize("test", ["t", "wilcoxon"])
def test_weights_need_the_randomisation_test(test):
    a, b = evaluation([0, 0], weights=np.ones(2)), evaluation([0, 1], weights=np.ones(2))
    with pytest.raises(ValueError, match=f"test='{test}' has no weighted form"):
        compare(a, b, test=test)


def test_negative_weights_are_refused():
    a, b = from_differences([0.1, 0.2])
    a.weights = b.weights = np.array([1.0, -1.0])
    with pytest.raises(ValueError, match="weights must not be negative or NaN"):
        compare(a, b)


def test_one_query_is_too_few():
    a, b = evaluation([0.1, np.nan]), evaluation([0.2, np.nan])
    with pytest.raises(ValueError, match=r"1 queries have a value of 'ndcg@10'.* at least 2"):
        compare(a, b)


@pytest.fixture(scope="module")
def table():
    """Three systems of eight queries: one better, one not."""
    baseline = evaluation(np.full(8, 0.5))
    better, same = evaluation(np.full(8, 0.75)), evaluation([0.25, 0.75] * 4)
    return compare(baseline, better, same, names=["bm25", "tree_1", "<b> & co"], **FAST)


def test_printed_table(table):
    lines = str(table).splitlines()
    assert " ".join(lines[0].split()) == (
        "metric system baseline mean difference 95% interval effect win/tie/loss p p (Holm)"
    )
    assert " ".join(lines[1].split()) == (
        "ndcg@10 tree_1 0.5000 0.7500 +0.2500 [+0.2500, +0.2500] +inf 8/0/0 0.0078 0.0156*"
    )
    assert lines[2].startswith("ndcg@10  <b> & co    0.5000  0.5000     +0.0000")
    assert lines[2].endswith("4/0/4  1.0000   1.0000")
    # Columns line up: the marks are to the right of the digits.
    assert lines[1].index("0.0156") == lines[2].rindex("1.0000")
    assert lines[3].startswith("Baseline: bm25; n = 8 queries;")
    assert lines[4] == (
        "* p <= 0.05: Fisher's randomisation test, two-sided, Holm's correction over the systems."
    )


def test_printed_table_of_two_systems_has_no_correction():
    text = str(compare(*PAIR, test="t", **FAST))
    assert "Holm" not in text
    assert "Student's t test" in text


def test_small_p_values_and_differing_sizes_are_printed():
    a, b = from_differences(np.full(20, 0.5))
    a.per_query["ap"] = b.per_query["ap"] = np.append(np.full(19, 0.5), np.nan)
    text = str(compare(a, b, **FAST))
    assert "<0.0001*" in text
    assert "n = 19 to 20 queries" in text


def test_latex(table):
    lines = table.to_latex().splitlines()
    assert lines[0] == r"\begin{tabular}{ll" + "r" * 8 + "}"
    assert lines[2].startswith("metric & system & baseline & mean & difference & 95\\% interval")
    assert lines[4] == (
        r"ndcg@10 & tree\_1 & 0.5000 & 0.7500 & $+$0.2500 & [$+$0.2500, $+$0.2500] & $+$inf & "
        r"8/0/0 & 0.0078 & 0.0156$^{*}$ \\"
    )
    assert lines[5].startswith(r"ndcg@10 & <b> \& co & ")
    assert lines[7] == r"\end{tabular}"
    assert all(line.startswith("% ") for line in lines[8:])


def test_html(table):
    page = table._repr_html_()
    assert page.count("<tr>") == 3
    assert "<td>&lt;b&gt; &amp; co</td>" in page
    assert "<td>0.0156*</td>" in page


def test_dataframe(table):
    frame = table.to_dataframe()
    assert list(frame["system"]) == ["tree_1", "<b> & co"]
    assert list(frame["p_adjusted"]) == [2 * 2 / 2**8, 1.0]
    assert list(frame["significant"]) == [True, False]


def test_dataframe_without_pandas(table, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        table.to_dataframe()


def test_dict_survives_json(table):
    copy = json.loads(json.dumps(table.to_dict()))
    assert copy["baseline"] == "bm25"
    assert copy["rows"][0]["p"] == 2 / 2**8
    assert copy["rows"][1]["significant"] is False


def test_results_are_frozen(table):
    with pytest.raises(FrozenInstanceError, match="cannot assign"):
        table.rows[0].p = 0.0
