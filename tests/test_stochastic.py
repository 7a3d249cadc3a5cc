"""StochasticRank: both estimators against closed forms, brute-force jumps and Monte Carlo; SFA; LSO."""

import itertools
import time
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

import objective_oracles as oracle
import own_metric  # noqa: F401  (defines the metric "own")
from rankwright import gradients
from rankwright.data.queries import Queries
from rankwright.kernels.random import stream_of
from rankwright.metrics import Metric
from rankwright.metrics import metric as parse_metric
from rankwright.objectives import bind

METRICS = ["ndcg@2", "ndcg", "err", "mrr", "map", "rbp"]
SMOOTHINGS = list(itertools.product([0.3, 1.0, 3.0], [0.0, 0.5]))


def samples(scores, labels, metric, copies, **options):
    """Draw single estimates: each copy of the query has noise of its own [copies, documents]."""
    options = {"sfa": False, **options}
    grad, hess = gradients(
        "stochasticrank",
        np.tile(scores, copies),
        np.tile(labels, copies),
        group=[len(scores)] * copies,
        metric=metric,
        **options,
    )
    np.testing.assert_array_equal(hess, 1)
    return grad.reshape(copies, -1)


def assert_mean(drawn, expected, error=0.0):
    """The mean lies within four standard errors."""
    spread = np.hypot(drawn.std(axis=0) / np.sqrt(len(drawn)), error)
    assert np.all(np.abs(drawn.mean(axis=0) - expected) <= 4 * spread + 1e-9)


def test_the_closed_form_is_the_slope_of_a_numerical_integral():
    labels, sigma = [0, 2, 1], 0.7

    def loss(z):
        total = 0.0
        for order in itertools.permutations(range(3)):
            gaps = [z[order[0]] - z[order[1]], z[order[1]] - z[order[2]]]
            chance = multivariate_normal([0, 0], sigma**2 * np.array([[2, -1], [-1, 2]])).cdf(gaps)
            total -= chance * oracle.value("err", [labels[a] for a in order])
        return total

    exact = oracle.smoothed_gradient([0.3, 0.1, -0.2], labels, "err", sigma, 0.0)
    np.testing.assert_allclose(exact, oracle.slopes(loss, [0.3, 0.1, -0.2], 1e-2), atol=1e-4)
    # Two documents, MRR: E M = (1 + Phi(d / (sqrt(2) sigma))) / 2.
    slope = 1 / (2 * np.sqrt(2 * np.pi) * np.sqrt(2) * sigma)
    np.testing.assert_allclose(
        oracle.smoothed_gradient([1, 1], [1, 0], "mrr", sigma, 0.0), [-slope, slope]
    )


def test_mu_lowers_relevant_documents_alike_where_the_metric_is_binary():
    """Three tied documents, two of them relevant: MRR cannot tell a grade of 4 from one of 1 (section 7.2)."""
    options = {"metric": "mrr", "mu": 1.0, "sfa": False, "estimations": 50}
    grades = gradients("stochasticrank", [0, 0, 0], [4, 1, 0], group=[3], **options)[0]
    binary = gradients("stochasticrank", [0, 0, 0], [1, 1, 0], group=[3], **options)[0]
    np.testing.assert_array_equal(grades, binary)
    graded = {**options, "metric": "ndcg"}
    first, second, _ = gradients("stochasticrank", [0, 0, 0], [4, 1, 0], group=[3], **graded)[0]
    assert first != second


def paper_err(relevance):
    """Eq. (3): the relevance in [0, 1] of each document, from the first position to the last."""
    total = 0.0
    for i, r in enumerate(relevance):
        total += r / (i + 1) * np.prod([1 - above for above in relevance[:i]])
    return total


@pytest.mark.parametrize("grades", [(4, 0), (4, 3), (1, 0)])
@pytest.mark.parametrize("mu", [0.3, 1.0, 4.0])
def test_mu_lowers_the_documents_of_a_cascade_by_their_relevance(grades, mu):
    """Section 4.1 of "Which Tricks": grades y of a cascade are read as the relevance y / 4.

    Two tied documents and eq. (3): the worse one is first with the chance Phi(mu (r - r') / sqrt(2)), and the loss
    -E ERR falls as a score rises by the density of the difference times the difference of both orders.
    """
    sigma = 0.8
    better, worse = (grade / 4 for grade in grades)
    change = paper_err([better, worse]) - paper_err([worse, better])
    unit = np.sqrt(2) * sigma
    slope = change * norm.pdf(mu * (better - worse) * sigma / unit) / unit
    drawn = samples([0, 0], grades, "err(gain=linear)", 4000, sigma=sigma, mu=mu)
    assert_mean(drawn, [-slope, slope])


@pytest.mark.parametrize("metric", ["err(gain=linear, max_label={})", "pfound(max_label={})@3"])
def test_mu_of_a_cascade_depends_on_no_unit_of_the_grades(metric):
    grades, scores = np.array([0, 3, 1, 4, 0, 2]), [0.2, 0.2, -0.5, 0.1, 0.0, 0.2]
    by_grade = samples(scores, grades, metric.format(4), 20, mu=0.7)
    by_relevance = samples(scores, grades / 4, metric.format(1), 20, mu=0.7)
    np.testing.assert_array_equal(by_grade, by_relevance)


def smoothed_loss(scores, labels, metric, sigma, mu):
    """-E M(z - sigma mu r + sigma eps) of three documents, from the chance of each order."""
    clean = np.asarray(scores) - sigma * mu * np.array(oracle.relevance(metric, labels))
    differences = np.array([[2, -1], [-1, 2]])  # covariance of two neighbouring differences of eps
    total = 0.0
    for order in itertools.permutations(range(3)):
        gaps = [clean[order[0]] - clean[order[1]], clean[order[1]] - clean[order[2]]]
        chance = multivariate_normal([0, 0], sigma**2 * differences).cdf(gaps)
        total -= chance * oracle.value(metric, [labels[a] for a in order])
    return total


@pytest.mark.parametrize("sigma", [0.3, 1.0, 3.0])
@pytest.mark.parametrize(("metric", "mu"), [("ndcg", 0.0), ("err", 0.5), ("map", 0.5), ("mrr", 2)])
def test_the_loss_changes_with_sigma_as_with_the_length_of_the_scores(metric, mu, sigma):
    """Lemma 3: d L / d sigma = -<gradient, z> / sigma, with L by the chances of all orders."""
    scores, labels, step = np.array([0.5, 0.2, -0.3]), [1, 0, 3], 1e-3 * sigma
    up, down = (
        smoothed_loss(scores, labels, metric, sigma + change, mu) for change in (step, -step)
    )
    by_sigma = (up - down) / (2 * step)
    exact = oracle.smoothed_gradient(scores, labels, metric, sigma, mu)
    assert by_sigma == pytest.approx(-exact @ scores / sigma, abs=3e-6 / sigma)
    assert abs(by_sigma) > 1e-4
    drawn = samples(scores, labels, metric, 4000, sigma=sigma, mu=mu)
    assert_mean(-drawn @ scores / sigma, by_sigma)


def test_little_noise_exchanges_neighbours_only():
    """Section 3.3 of "Which Tricks": as sigma falls, only neighbours by score have a share in the gradient."""
    scores, labels = [1.7, 1.65, 0.8, 0.75, -0.2, -0.25], [0, 2, 1, 0, 3, 1]
    stream, key = int(stream_of(0, 0)), int(Queries.from_group([6], 6).keys[0])
    noise = [oracle.noise("gaussian", 6, stream, key, draw) for draw in range(200)]
    shares = []
    for sigma in (1.0, 0.3, 0.1, 0.03):
        neighbours = np.mean(
            [
                oracle.expected_jumps(scores, labels, "err", e, sigma, 0.0, neighbours_only=True)
                for e in noise
            ],
            axis=0,
        )
        options = {"sigma": sigma, "estimations": len(noise)}
        found = samples(scores, labels, "err", 1, **options)[0]
        neighbours -= neighbours.mean()
        shares.append(np.abs(found - neighbours).sum() / np.abs(found).sum())
    assert shares[0] > 0.3 > 0.1 > shares[1] > 0.01
    assert 1e-9 > shares[2] > 1e-13
    assert shares[3] < 1e-14


@pytest.mark.parametrize(("sigma", "mu"), SMOOTHINGS)
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(("estimator", "copies"), [("ccs", 4000), ("reinforce", 4000)])
def test_unbiased_for_two_and_three_documents(metric, sigma, mu, estimator, copies):
    for scores, labels in [
        ([0.2, -0.1], [0, 2]),
        ([0.5, 0.2, -0.3], [1, 0, 2]),
        ([0.1, 0.0, 0.3], [0, 1, 0]),
    ]:
        drawn = samples(scores, labels, metric, copies, sigma=sigma, mu=mu, estimator=estimator)
        assert_mean(drawn, oracle.smoothed_gradient(scores, labels, metric, sigma, mu))


@pytest.mark.parametrize(("sigma", "mu"), SMOOTHINGS)
@pytest.mark.parametrize("metric", METRICS)
def test_unbiased_for_five_documents(metric, sigma, mu):
    scores, labels = [0.9, 0.4, 0.1, -0.2, -0.6], [0, 2, 1, 0, 3]
    noise = np.random.default_rng(0).normal(size=(20_000, 5))
    monte_carlo = oracle.score_function_gradients(scores, labels, metric, sigma, mu, noise)
    monte_carlo -= monte_carlo.mean(axis=1, keepdims=True)
    drawn = samples(scores, labels, metric, 3000, sigma=sigma, mu=mu)
    error = monte_carlo.std(axis=0) / np.sqrt(len(noise))
    assert_mean(drawn, monte_carlo.mean(axis=0), error)


@pytest.mark.parametrize(("sigma", "mu"), [(0.3, 0.5), (2.0, 0.0)])
@pytest.mark.parametrize(
    "metric", [*METRICS, "err@3", "map@3", "mrr@2", "pfound@4", "dcg", "success@2", "own", "own@3"]
)
@pytest.mark.parametrize("n", [2, 5, 9])
def test_each_estimate_is_the_sum_of_its_jumps(metric, sigma, mu, n):
    random = np.random.default_rng(n)
    labels = random.permutation([0, 1, *random.integers(0, 5, n - 2)])
    scores = random.normal(size=n)
    stream, key = int(stream_of(3, 8)), int(Queries.from_group([n], n).keys[0])
    noise = [oracle.noise("gaussian", n, stream, key, draw) for draw in range(2)]
    parts = [oracle.expected_jumps(scores, labels.tolist(), metric, e, sigma, mu) for e in noise]
    expected = np.mean(parts, axis=0)
    options = {"sigma": sigma, "mu": mu, "estimations": 2, "random_state": 3, "iteration": 8}
    drawn = samples(scores, labels, metric, 1, **options)[0]
    np.testing.assert_allclose(drawn, expected - expected.mean(), rtol=1e-9, atol=1e-13)
    reinforced = oracle.score_function_gradients(
        scores, labels.tolist(), metric, sigma, mu, np.array(noise)
    )
    expected = reinforced.mean(axis=0)
    drawn = samples(scores, labels, metric, 1, estimator="reinforce", **options)[0]
    np.testing.assert_allclose(drawn, expected - expected.mean(), rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("spread", [0.5, 30.0])
@pytest.mark.parametrize("metric", ["dcg", "dcg@5", "err@5", "map"])
def test_long_lists_skip_nothing_that_counts(metric, spread):
    """Far breakpoints are left out, in additive lists of more than 64 by search: the sum must not notice."""
    n = 40 if metric == "map" else 80
    random = np.random.default_rng(1)
    labels, scores = random.integers(0, 3, n), spread * random.normal(size=n)
    stream, key = int(stream_of(0, 0)), int(Queries.from_group([n], n).keys[0])
    noise = oracle.noise("gaussian", n, stream, key, 0)
    expected = oracle.expected_jumps(scores, labels.tolist(), metric, noise, 1.0, 0.0)
    drawn = samples(scores, labels, metric, 1)[0]
    np.testing.assert_allclose(drawn, expected - expected.mean(), rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("spread", [0.0, 1e-6, 3.0])
@pytest.mark.parametrize("relevant", [1, 30])
@pytest.mark.parametrize("metric", ["mrr", "err", "pfound", "map", "own"])
def test_sums_that_stop_early_lack_nothing(metric, relevant, spread):
    """Most documents are alike and skip each other; the sums of a cascade stop where its state is spent."""
    n = 40
    random = np.random.default_rng(relevant)
    labels, scores = np.zeros(n, dtype=int), spread * random.normal(size=n)
    labels[random.permutation(n)[:relevant]] = random.integers(1, 5, relevant)
    stream, key = int(stream_of(0, 0)), int(Queries.from_group([n], n).keys[0])
    noise = oracle.noise("gaussian", n, stream, key, 0)
    expected = oracle.expected_jumps(scores, labels.tolist(), metric, noise, 1.0, 0.0)
    drawn = samples(scores, labels, metric, 1)[0]
    np.testing.assert_allclose(drawn, expected - expected.mean(), rtol=1e-9, atol=1e-14)


@dataclass(frozen=True)
class Tiring(Metric):
    """A user who loses patience at every document; with a floor, no document has a gain of exactly 0."""

    name: ClassVar[str] = "tiring"
    floor: float = 0.0

    def weights(self, n):
        return 1 / np.arange(1, n + 1)

    def gains(self, labels):
        return np.maximum(labels, self.floor)

    def continuations(self, labels):
        return 0.9 / (1 + labels)


@dataclass(frozen=True)
class Faint(Metric):
    """A cascade that hardly anybody leaves, and not in proportion to the gains."""

    name: ClassVar[str] = "faint"

    def weights(self, n):
        return 1 / np.arange(1, n + 1)

    def gains(self, labels):
        return 1 + labels

    def continuations(self, labels):
        return 1 - (2 + labels**2) / 5000


@pytest.mark.parametrize("spread", [0.0, 3.0])
@pytest.mark.parametrize("share", [0.005, 0.1])
def test_documents_alike_skip_each_other_where_they_change_the_state(share, spread):
    random = np.random.default_rng(2)
    labels, scores = (random.random(400) < share) * 2.0, spread * random.normal(size=400)
    skipped, visited = (
        samples(scores, labels, Tiring(floor=floor), 1)[0] for floor in (0.0, 1e-200)
    )
    np.testing.assert_allclose(skipped, visited, rtol=1e-12, atol=1e-150)


@pytest.mark.parametrize("metric", ["err", "pfound", "map"])
def test_documents_of_the_common_grade_skip_each_other(metric):
    """Most documents have a gain and change the state: the estimate is still the sum of all jumps."""
    n = 40
    random = np.random.default_rng(3)
    labels, scores = np.ones(n, dtype=int), 2.0 * random.normal(size=n)
    labels[random.permutation(n)[:8]] = [0, 0, 0, 2, 3, 4, 0, 2]
    stream, key = int(stream_of(0, 0)), int(Queries.from_group([n], n).keys[0])
    noise = oracle.noise("gaussian", n, stream, key, 0)
    expected = oracle.expected_jumps(scores, labels.tolist(), metric, noise, 1.0, 0.0)
    drawn = samples(scores, labels, metric, 1)[0]
    np.testing.assert_allclose(drawn, expected - expected.mean(), rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("spread", [0.0, 1e-3])
@pytest.mark.parametrize("share", ["one", 0.02, 0.5, "all but one"])
@pytest.mark.parametrize("metric", ["mrr", "err", "pfound"])
def test_the_time_of_a_cascade_grows_like_n_log_n(metric, share, spread):
    """Without a cutoff, from 2000 to 64 000 documents, also where scores are tied or nearly so (statement 3).

    It needs users who stop: in lists that most users get through, such as many of one label 1 for ERR, use a cutoff.

    32 queries of 2000 documents against one of 64 000: equal work if it were linear, 32^(p - 1) times as much if it
    grows like n^p. Both take about the same time and memory, in turns, so that other work on the machine hits both.
    """
    short, long = 2000, 64_000
    calls = []
    for n in (short, long):
        random = np.random.default_rng(0)
        labels = np.zeros(n)
        relevant = random.permutation(n)[: round(share * n) if isinstance(share, float) else 1]
        labels[relevant] = random.integers(1, 5, len(relevant))
        if (
            share == "all but one"
        ):  # documents of one grade have no jumps among them, so no sum ends by its last bit
            labels = np.append(np.ones(n - 1), 0)
        copies = long // n
        gradient = bind(
            "stochasticrank", np.tile(labels, copies), group=[n] * copies, metric=metric, n_jobs=1
        )
        calls.append(partial(gradient, np.tile(spread * random.normal(size=n), copies), 0))
    best = [np.inf, np.inf]
    for _ in range(12):
        for i, call in enumerate(calls):
            start = time.process_time()
            call()
            best[i] = min(best[i], time.process_time() - start)
    assert 1 + np.log(best[1] / best[0]) / np.log(long / short) <= 1.2, best


GRADES = {
    "1 % of label 1": lambda random, n: (random.random(n) < 0.01) * 1.0,
    "10 % of label 1": lambda random, n: (random.random(n) < 0.1) * 1.0,
    "grades": lambda random, n: random.integers(0, 5, n) * 1.0,
    "mostly 1": lambda random, n: np.where(random.random(n) < 0.99, 1.0, random.integers(0, 5, n)),
    "of many kinds": lambda random, n: 4 * random.random(n),
}


@pytest.mark.parametrize("spread", [0.0, 1e-9, 1.0, 20.0])
@pytest.mark.parametrize("grades", GRADES)
@pytest.mark.parametrize("metric", ["err", "err@900", "pfound(decay=0.99)", "mrr", "faint"])
def test_long_cascades_are_the_sums_of_their_jumps(metric, grades, spread):
    """Jumps of each document from the states of the list without it."""
    n, sigma, mu = 1300, 0.7, 0.2
    random = np.random.default_rng(5)
    labels = GRADES[grades](random, n)
    scores = spread * random.normal(size=n)
    name, _, at = metric.partition("@")
    bound = parse_metric(name)
    g, d = bound.gains(labels), bound.continuations(labels)
    w = np.append(bound.weights(n), 0)
    w[int(at) if at else n :] = 0
    stream, key = int(stream_of(0, 0)), int(Queries.from_group([n], n).keys[0])
    clean = scores - sigma * mu * bound.relevance(labels)
    noise = oracle.noise("gaussian", n, stream, key, 0)
    noisy = clean + sigma * noise
    width = sigma * np.sqrt(n / (n - 1))
    order = np.argsort(-noisy)
    expected = np.empty(n)
    for j in range(n):
        u = order[order != j]
        state = np.append(1, np.cumprod(d[u])[:-1])
        jump = state * (
            (w[:-2] - w[1:-1]) * (g[j] - g[u]) + w[1:-1] * ((1 - d[u]) * g[j] - (1 - d[j]) * g[u])
        )
        expected[j] = -np.sum(jump * norm.pdf(noisy[u] - sigma * noise[u].mean(), clean[j], width))
    drawn = samples(scores, labels, metric, 1, sigma=sigma, mu=mu)[0]
    largest = np.abs(expected).max()
    np.testing.assert_allclose(drawn, expected - expected.mean(), rtol=0, atol=1e-13 * largest)


@pytest.mark.parametrize("at", [None, 4])
def test_very_long_lists(at):
    """Documents below the cutoff are summed in stretches of a thousand or so."""
    n = 2500
    random = np.random.default_rng(3)
    labels, scores = random.integers(0, 3, n).astype(float), random.normal(size=n)
    stream, key = int(stream_of(0, 0)), int(Queries.from_group([n], n).keys[0])
    noise = oracle.noise("gaussian", n, stream, key, 0)
    noisy = scores + noise
    order = np.argsort(-noisy)
    weight = 1 / np.log2(np.arange(n) + 2)
    weight[at:] = weight[at:] if at is None else 0
    drop = weight - np.append(weight[1:], 0)
    place = np.empty(n, dtype=int)
    place[order] = np.arange(n)
    # Among the others, u stands where it stands in the whole list, or one place higher if j was above it.
    among_others = place[None, :] - (place[:, None] < place[None, :])
    jumps = drop[among_others] * (2 ** labels[:, None] - 2 ** labels[None, :])
    np.fill_diagonal(jumps, 0)
    others_mean = (noise.sum() - noise) / (n - 1)
    density = norm.pdf(noisy[None, :], (scores + others_mean)[:, None], np.sqrt(n / (n - 1)))
    expected = -np.sum(jumps * density, axis=1)
    drawn = samples(scores, labels, "dcg" if at is None else f"dcg@{at}", 1)[0]
    np.testing.assert_allclose(drawn, expected - expected.mean(), rtol=1e-9, atol=1e-12)


def test_less_is_better_for_the_average_position():
    grad = samples([0.0, 0.0], [0, 1], "arp", 500).mean(axis=0)
    slope = 1 / (
        np.sqrt(2 * np.pi) * np.sqrt(2)
    )  # one place, with the density of the difference at 0
    np.testing.assert_allclose(grad, [slope, -slope], rtol=0.1)


@pytest.mark.parametrize("metric", ["ndcg", "err", "map"])
def test_far_less_variance_than_reinforce(metric):
    random = np.random.default_rng(2)
    scores, labels = random.normal(size=20), random.integers(0, 5, 20)
    ccs = samples(scores, labels, metric, 400).var(axis=0).sum()
    reinforce = samples(scores, labels, metric, 400, estimator="reinforce").var(axis=0).sum()
    assert 0 < 10 * ccs <= reinforce


@pytest.mark.parametrize("sigma", [0.3, 1.0, 3.0])
@pytest.mark.parametrize(("metric", "n"), [("ndcg", 3), ("err", 6), ("map", 9)])
def test_the_common_noise_of_the_other_documents_adds_no_variance(metric, n, sigma):
    """Theorem 3 as printed holds all other noise; here only its differences vary."""
    random = np.random.default_rng(n)
    scores, labels = (
        random.normal(size=n),
        random.permutation([0, 1, *random.integers(0, 5, n - 2)]),
    )
    printed = [
        oracle.expected_jumps(scores, labels.tolist(), metric, noise, sigma, 0.0, shift=False)
        for noise in random.normal(size=(200, n))
    ]
    centred = np.array(printed) - np.mean(printed, axis=1, keepdims=True)
    drawn = samples(scores, labels, metric, 2000, sigma=sigma)
    assert 0 < drawn.var(axis=0).sum() < 0.95 * centred.var(axis=0).sum()


def test_two_documents_have_an_exact_gradient():
    """The only noise that matters is the difference of the two, which is integrated out."""
    drawn = samples([0.2, -0.1], [0, 2], "err", 50, sigma=0.7, mu=0.5)
    exact = oracle.smoothed_gradient([0.2, -0.1], [0, 2], "err", 0.7, 0.5)
    np.testing.assert_allclose(drawn, np.tile(exact, (50, 1)), rtol=1e-12)


@pytest.mark.parametrize("estimations", [4, 16])
def test_variance_falls_with_the_number_of_estimations(estimations):
    scores, labels = [0.3, 0.1, 0.0, -0.5], [0, 2, 1, 0]
    one = samples(scores, labels, "ndcg", 2000).var(axis=0).sum()
    many = samples(scores, labels, "ndcg", 2000, estimations=estimations).var(axis=0).sum()
    assert many == pytest.approx(one / estimations, rel=0.15)


@pytest.mark.parametrize("estimator", ["ccs", "reinforce"])
@pytest.mark.parametrize("nu", [0, 0.01, 2.0])
@pytest.mark.parametrize("metric", ["ndcg", "err", "map@3"])
def test_scale_free_acceleration(metric, nu, estimator):
    scores, labels = np.array([5.0, 4.2, 4.9, 3.5, 4.4]), [0, 2, 1, 0, 3]
    raw = samples(scores, labels, metric, 20, estimator=estimator)
    free = samples(scores, labels, metric, 20, estimator=estimator, sfa=True, nu=nu)
    expected = [oracle.scale_free(g, scores, nu) for g in raw]
    np.testing.assert_allclose(free, expected, rtol=1e-9, atol=1e-13)
    assert np.abs(raw @ (scores - scores.mean())).max() > 0.01
    if nu == 0:
        np.testing.assert_allclose(free @ (scores - scores.mean()), 0, atol=1e-13)


def test_equal_scores_have_no_direction_to_take_out():
    labels = [0, 2, 1]
    np.testing.assert_array_equal(
        samples([1.0, 1.0, 1.0], labels, "ndcg", 5, sfa=True),
        samples([1.0, 1.0, 1.0], labels, "ndcg", 5),
    )


@pytest.mark.parametrize("sigma", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("metric", ["dcg-rr", "dcg-rr@2"])
@pytest.mark.parametrize("estimator", ["ccs", "reinforce"])
def test_selection_is_unbiased(sigma, metric, estimator):
    at = 2 if "@" in metric else None
    for scores, labels in [
        ([0.3, -0.5], [1, 2]),
        ([0.2, -0.1, 0.6], [0, 3, 1]),
        ([0.3, 0.1, -0.8, 0.5], [1, 0, 2, 4]),
    ]:
        drawn = samples(
            scores, labels, metric, 4000, sigma=sigma, estimator=estimator, estimations=2
        )
        assert_mean(drawn, oracle.selection_gradient(scores, labels, sigma, at))


def test_selection_of_one_document_is_exact():
    """E M = r Phi(z / sigma), and other documents that are never selected change nothing."""
    density = np.exp(-0.5 * 0.3**2) / np.sqrt(2 * np.pi)
    np.testing.assert_allclose(samples([0.3], [2], "dcg-rr", 3), np.full((3, 1), -2 * density))
    drawn = samples([-90.0, 0.3, -90.0], [1, 2, 4], "dcg-rr", 3)
    np.testing.assert_allclose(drawn, np.outer(np.ones(3), [0, -2 * density, 0]), atol=1e-12)


def test_selection_scale_free():
    scores, labels = np.array([0.4, -0.3, 0.2]), [1, 3, 0]
    raw = samples(scores, labels, "dcg-rr", 6)
    free = samples(scores, labels, "dcg-rr", 6, sfa=True, nu=0.5)
    np.testing.assert_allclose(
        free, [oracle.scale_free(g, scores, 0.5, centred=False) for g in raw], rtol=1e-10
    )


@pytest.mark.parametrize("nu", [1e-3, 0.01, 1.0, 100.0])
@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
def test_the_bias_of_sfa_by_nu_is_bounded(nu, scale):
    """Against exact SFA at most 2 nu / (|z| + nu) of the gradient; against no SFA, lemma 2, it vanishes as nu grows."""
    random = np.random.default_rng(7)
    scores, labels = scale * random.normal(size=12), random.integers(0, 3, 12)
    centred = scores - scores.mean()
    exact, plain, biased = (
        samples(scores, labels, "ndcg", 20, sfa=sfa, **options)
        for sfa, options in [(True, {"nu": 0}), (False, {}), (True, {"nu": nu})]
    )
    bias = np.linalg.norm(biased - exact, axis=1)
    along = np.abs(plain @ centred) / np.linalg.norm(centred)
    length = np.linalg.norm(centred)
    assert np.all(bias <= 2 * nu / (length + nu) * np.linalg.norm(plain, axis=1) * (1 + 1e-9))
    np.testing.assert_allclose(
        bias, (1 - (length / (length + nu)) ** 2) * along, rtol=1e-6, atol=1e-15
    )
    removed = np.linalg.norm(biased - plain, axis=1)
    np.testing.assert_allclose(
        removed, (length / (length + nu)) ** 2 * along, rtol=1e-6, atol=1e-15
    )
    assert np.all(
        removed <= length * along / (length + nu) * (1 + 1e-9)
    )  # lemma 2: O(1 / (|z| + nu))
    nearly_plain = samples(scores, labels, "ndcg", 20, sfa=True, nu=1e4 * length)
    np.testing.assert_allclose(nearly_plain, plain, atol=1e-7 * np.abs(plain).max())


@pytest.mark.parametrize("metric", ["ndcg", "ndcg@3", "mrr", "err", "map", "rbp"])
@pytest.mark.parametrize("sigma", [0.1, 1.0, 10.0])
def test_the_estimate_is_bounded_and_free_of_scale(metric, sigma):
    """Statement 2, which theorem 5 needs: |CCS| is at most (n - 1) phi(0) / sigma times the largest jump.

    Section 4.1: the smoothed loss at (z, sigma) is that at (z / sigma, 1).
    """
    random = np.random.default_rng(3)
    n = 8
    labels = np.array([2, 0, 1, 0, 0, 1, 0, 0])
    for spread in (1e-3, 1.0, 1e3):
        scores = spread * random.normal(size=n)
        found = samples(scores, labels, metric, 20, sigma=sigma, sfa=False)
        assert (
            np.abs(found).max() <= (n - 1) / np.sqrt(2 * np.pi) / sigma
        )  # metrics are at most 1, and so are jumps
        unit = samples(scores / sigma, labels, metric, 20, sigma=1.0, sfa=False)
        np.testing.assert_allclose(found, unit / sigma, rtol=1e-6, atol=1e-9 / sigma)


def _stationary_gap(n_queries: int, beta: float, draws: int = 400) -> float:
    """Mean distance of training and expected loss under p ~ exp(-beta (loss + 0.05 theta^2)), by quadrature.

    One weight theta and queries of two documents whose feature differs by x, the first one relevant: smoothed MRR is
    (1 + Phi(theta x / sqrt(2))) / 2. All of x, from which queries are drawn, is known, and so is the expected loss.
    """
    random = np.random.default_rng(0)
    theta = np.linspace(-30, 30, 1201)
    x = np.concatenate((random.normal(1, 2, 500), random.normal(-1, 1, 200)))
    losses = -0.5 * (1 + norm.cdf(np.outer(x, theta) / np.sqrt(2)))
    expected = losses.mean(axis=0)
    gaps = []
    for _ in range(draws):
        empirical = losses[random.integers(0, len(x), n_queries)].mean(axis=0)
        energy = -beta * (empirical + 0.05 * theta**2)
        density = np.exp(energy - energy.max())
        gaps.append(np.sum(density * (expected - empirical)) / density.sum())
    return float(np.mean(gaps))


def test_the_generalisation_gap_falls_with_the_number_of_queries():
    """Theorem 6: at most of the order (beta + 2 d + d^2 / beta) / N, here with d = 1, for the limit of SGLB.

    Its constant, exp(O(beta / (gamma sigma^2))) / gamma, is not tested.
    """
    gaps = {n: _stationary_gap(n, beta=20.0) for n in (20, 80, 320)}
    assert gaps[20] > gaps[80] > gaps[320] > 0
    scaled = [n * gap for n, gap in gaps.items()]
    assert max(scaled) < 2.0 * min(scaled)  # 1 / N: a gap of 1 / sqrt(N) would differ by 4
    assert _stationary_gap(80, beta=1.0) < _stationary_gap(80, beta=5.0) < gaps[80]
    slope, _ = gradients(
        "stochasticrank", [0.7, 0], [1, 0], group=[2], metric="mrr", sfa=False, estimations=40_000
    )
    assert slope[0] == pytest.approx(
        -0.5 * norm.pdf(0.7 / np.sqrt(2)) / np.sqrt(2), rel=0.02
    )  # the loss above
