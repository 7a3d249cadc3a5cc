"""XE-NDCG, ListNet and QueryRMSE: finite differences of their losses, and the paper's matrices."""

from decimal import Decimal, localcontext

import numpy as np
import pytest

import objective_oracles as oracle
from rankwright import evaluate, gradients, make_web_search
from rankwright.data.queries import Queries
from rankwright.kernels.random import stream_of

QUERIES = [
    ([0.3, -0.2], [1, 0]),
    ([0.0, 0.5, 1.0, -2.0], [2, 0, 1, 4]),
    ([1.0, 1.0, 3.0, 0.2, 5.0, -1.0], [0, 0, 3, 1, 1, 2]),
]


def softmax_of(scores, epsilon):
    powers = np.exp(np.asarray(scores) - max(scores))
    return powers / (powers.sum() + epsilon)


@pytest.mark.parametrize(("scores", "labels"), QUERIES)
@pytest.mark.parametrize("gamma", [0, 0.3, 1])
@pytest.mark.parametrize("epsilon", [1e-10, 0.1])
def test_xendcg_is_the_slope_of_its_loss(scores, labels, gamma, epsilon):
    phi = oracle.xendcg_target(labels, gamma)
    grad, hess = gradients(
        "xendcg", scores, labels, group=[len(scores)], gamma=gamma, newton=False, epsilon=epsilon
    )
    if epsilon == 1e-10:  # epsilon moves with the largest score, whose slope is not worth having
        slopes = oracle.slopes(lambda z: oracle.cross_entropy(z, phi, epsilon), scores)
        np.testing.assert_allclose(grad, slopes, atol=1e-9)
    rho = softmax_of(scores, epsilon)
    np.testing.assert_allclose(grad, rho - phi, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(hess, rho * (1 - rho), rtol=1e-12)


@pytest.mark.parametrize(("scores", "labels"), QUERIES)
@pytest.mark.parametrize("epsilon", [1e-10, 0.1])
def test_xendcg_newton_is_the_matrix_formula(scores, labels, epsilon):
    phi = oracle.xendcg_target(labels, 0.4)
    grad, hess = gradients(
        "xendcg", scores, labels, group=[len(scores)], gamma=0.4, epsilon=epsilon
    )
    np.testing.assert_allclose(
        grad, oracle.xendcg_newton(scores, phi, epsilon), rtol=1e-11, atol=1e-14
    )
    rho = softmax_of(scores, epsilon)
    np.testing.assert_allclose(hess, rho * (1 - rho), rtol=1e-12)


def precise_newton(scores, labels, gamma, epsilon):
    """Gradient with newton and curvature, in decimals of 80 digits; (S' x)_i = rho_i sum_(j != i) x_j / (1 - rho_j)."""
    with localcontext() as context:
        context.prec = 80
        z, own = [Decimal(float(x)) for x in scores], range(len(scores))
        powers = [(x - max(z)).exp() for x in z]
        rho = [power / (sum(powers) + Decimal(epsilon)) for power in powers]
        target = [2 ** Decimal(int(r)) - Decimal(gamma) for r in labels]
        term = [rho[a] - target[a] / sum(target) for a in own]
        grad = list(term)
        for _ in range(2):
            term = [rho[a] * sum(term[b] / (1 - rho[b]) for b in own if b != a) for a in own]
            grad = [grad[a] + term[a] for a in own]
        return np.array(grad, dtype=float), np.array([x * (1 - x) for x in rho], dtype=float)


@pytest.mark.parametrize("epsilon", [1e-15, 1e-14, 1e-12, 1e-10, 1e-5, 0.1])
def test_xendcg_keeps_its_digits_for_any_epsilon(epsilon):
    """1 - rho of the highest document may be as small as epsilon, and all other terms far below its own."""
    random = np.random.default_rng(0)
    for n in (2, 3, 5, 30):
        for spread in (0.1, 1.0, 10.0, 40.0):
            scores, labels = (
                spread * random.normal(size=n),
                random.permutation([0, 1, *random.integers(0, 5, n - 2)]),
            )
            for lead in (0.0, 25.0, 40.0, 100.0):
                scores[random.integers(n)] = scores.max() + lead
                grad, hess = gradients(
                    "xendcg", scores, labels, group=[n], gamma=0.4, epsilon=epsilon
                )
                expected, curvature = precise_newton(scores, labels, 0.4, epsilon)
                np.testing.assert_allclose(grad, expected, rtol=0, atol=2e-15)
                floor = 1e-12 * np.abs(grad)  # of every objective (`objectives/bound.py`)
                np.testing.assert_allclose(hess, np.maximum(curvature, floor), rtol=1e-14)


def rho_of(scores, labels, epsilon):
    """The library's rho, from its gradient, and its curvature."""
    options = {"gamma": 0, "newton": False, "epsilon": epsilon}
    grad, hess = gradients("xendcg", scores, labels, group=[len(scores)], **options)
    return grad + oracle.xendcg_target(labels, 0), hess


@pytest.mark.parametrize(("scores", "labels"), QUERIES)
@pytest.mark.parametrize("epsilon", [1e-6, 0.1])
def test_the_hessian_is_positive_definite(scores, labels, epsilon):
    """Claim 1; it is singular for epsilon = 0."""
    rho, hess = rho_of(scores, labels, epsilon)
    hessian = np.diag(rho) - np.outer(rho, rho)
    np.testing.assert_allclose(np.diag(hessian), hess, rtol=1e-12)
    assert np.linalg.eigvalsh(hessian).min() > 0
    z = np.array(scores) - max(
        scores
    )  # so that epsilon relative to the largest power is the paper's

    def paper_rho(z):
        return np.exp(z) / (np.exp(z).sum() + epsilon)

    for a in range(len(z)):
        np.testing.assert_allclose(
            oracle.slopes(lambda z, a=a: paper_rho(z)[a], z), hessian[a], atol=1e-9
        )
    plain = oracle.softmax(scores)
    np.testing.assert_allclose(
        np.linalg.eigvalsh(np.diag(plain) - np.outer(plain, plain)).min(), 0, atol=1e-15
    )


@pytest.mark.parametrize(("scores", "labels"), QUERIES)
def test_the_series_converges(scores, labels):
    """Claim 2: the spectral radius of S is below 1, so that the series of its powers is the inverse of I - S."""
    rho, hess = rho_of(scores, labels, 0.1)
    s = rho / (1 - rho)[:, None] * (1 - np.eye(len(rho)))
    np.testing.assert_allclose(
        hess[:, None] * (np.eye(len(rho)) - s), np.diag(rho) - np.outer(rho, rho), atol=1e-15
    )
    assert np.abs(np.linalg.eigvals(s)).max() < 1
    assert s.sum(axis=1).max() < 1


@pytest.mark.parametrize("difference", [0.0, 0.5, -3.0, 8.0])
def test_newton_changes_nothing_for_two_documents(difference):
    """S exchanges the two, and the gradient is (g, -g): g - g + g. Epsilon is 1e-12 of the smaller power at most."""
    options = {"group": [2], "gamma": 0.3, "epsilon": 1e-15}
    grad, hess = gradients("xendcg", [difference, 0], [2, 1], newton=True, **options)
    plain, curvature = gradients("xendcg", [difference, 0], [2, 1], newton=False, **options)
    np.testing.assert_allclose(grad, plain, rtol=1e-11)
    np.testing.assert_array_equal(hess, curvature)


@pytest.mark.parametrize("newton", [False, True])
def test_xendcg_draws_gamma_per_document_and_iteration(newton):
    for iteration in (0, 5):
        rows = [np.concatenate([q[part] for q in QUERIES]) for part in (0, 1)]
        sizes = [len(scores) for scores, _ in QUERIES]
        grad, _ = gradients(
            "xendcg", *rows, group=sizes, random_state=2, iteration=iteration, newton=newton
        )
        keys = Queries.from_group(sizes, sum(sizes)).keys
        expected = []
        for (scores, labels), key in zip(QUERIES, keys, strict=True):
            gamma = oracle.noise("uniform", len(scores), int(stream_of(2, iteration)), int(key), 0)
            phi = oracle.xendcg_target(labels, gamma)
            plain = softmax_of(scores, 1e-10) - phi
            expected.append(oracle.xendcg_newton(scores, phi, 1e-10) if newton else plain)
        np.testing.assert_allclose(grad, np.concatenate(expected), rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("high", [40.0, 1000.0])
@pytest.mark.parametrize("newton", [False, True])
@pytest.mark.parametrize("labels", [[0, 1, 2], [2, 0, 1]])
def test_xendcg_survives_a_score_far_above_the_rest(high, newton, labels):
    grad, hess = gradients("xendcg", [high, 0, 0.5], labels, group=[3], newton=newton)
    assert np.isfinite([grad, hess]).all()
    assert np.abs(grad).max() > 0.1
    assert (hess > 0).all()
    assert np.abs(grad / hess).max() < 1e16


@pytest.mark.parametrize(("scores", "labels"), QUERIES)
def test_listnet(scores, labels):
    phi = oracle.softmax(labels)
    grad, hess = gradients("listnet", scores, labels, group=[len(scores)])
    slopes = oracle.slopes(lambda z: oracle.cross_entropy(z, phi, 0.0), scores)
    np.testing.assert_allclose(grad, slopes, atol=1e-9)
    rho = oracle.softmax(scores)
    np.testing.assert_allclose(hess, rho * (1 - rho), rtol=1e-12)


def test_listnet_with_large_labels():
    """exp(800) overflows; relative to the largest label it does not."""
    grad, _ = gradients("listnet", [0, 0], [800, 0], group=[2])
    np.testing.assert_allclose(grad, [-0.5, 0.5])


@pytest.mark.parametrize(("scores", "labels"), QUERIES)
def test_queryrmse(scores, labels):
    def loss(z):
        x = z - np.array(labels)
        return 0.5 * np.sum((x - x.mean()) ** 2)

    grad, hess = gradients("queryrmse", scores, labels, group=[len(scores)])
    np.testing.assert_allclose(grad, oracle.slopes(loss, scores), atol=1e-8)
    np.testing.assert_array_equal(hess, 1)


def test_worked_examples():
    grad, _ = gradients(
        "queryrmse", [1, 0, 2], [3, 0, 0], group=[3]
    )  # residuals -2, 0, 2 have mean 0
    np.testing.assert_allclose(grad, [-2, 0, 2])
    grad, _ = gradients("xendcg", [0, 0, 0], [2, 1, 0], group=[3], gamma=0, newton=False)
    np.testing.assert_allclose(grad, [1 / 3 - 4 / 7, 1 / 3 - 2 / 7, 1 / 3 - 1 / 7], rtol=1e-8)
    grad, _ = gradients("xendcg", [0, 0], [1, 0], group=[2], gamma=1, newton=True)
    # rho = 1/2 and S exchanges the two: L = -1/2, 1/2, and I + S + S^2 on it is L - L + L.
    np.testing.assert_allclose(grad, [-1 / 2, 1 / 2], rtol=1e-8)
    grad, _ = gradients("listnet", [0, 0], [1, 0], group=[2])
    np.testing.assert_allclose(grad, [0.5 - np.e / (np.e + 1), 0.5 - 1 / (np.e + 1)])


def test_xendcg_refuses_labels_too_large_for_a_power_of_two():
    with pytest.raises(ValueError, match=r"takes 2\^label, and 2000"):
        gradients("xendcg", [0, 0], [2000, 0], group=[2])


def _cross_entropies(scores, labels, group, gamma):
    """XE-NDCG of each query, with the target distribution read off the library's gradient (softmax minus target)."""
    grad, _ = gradients("xendcg", scores, labels, group=group, gamma=gamma, newton=False)
    losses, start = [], 0
    for n in group:
        rows = slice(start, start + n)
        start += n
        rho = np.exp(scores[rows]) / np.exp(scores[rows]).sum()
        losses.append(-np.sum((rho - grad[rows]) * np.log(rho)))
    return np.array(losses)


@pytest.mark.parametrize("gamma", ["uniform", 0.0, 1.0])
@pytest.mark.parametrize("spread", [0.1, 1.0, 4.0])
def test_the_loss_bounds_ndcg(gamma, spread):
    """Theorem 1: -log(mean NDCG + mean 1 / ideal DCG) is at most the mean loss, on data, at any scores."""
    data = make_web_search(60, kind="short", n_features=20, random_state=3)
    queries = [own for own in np.split(data.y, np.cumsum(data.group)[:-1]) if own.min() < own.max()]
    labels, mixed = np.concatenate(queries), [len(own) for own in queries]
    random = np.random.default_rng(0)
    for scores in (spread * random.normal(size=len(labels)), spread * labels, -spread * labels):
        values = evaluate(scores, labels, group=mixed, metrics=["ndcg"]).per_query
        ideal = evaluate(labels, labels, group=mixed, metrics=["dcg"]).per_query["dcg"]
        bounded = -np.log(values["ndcg"].mean() + np.mean(1 / ideal))
        assert bounded <= _cross_entropies(scores, labels, mixed, gamma).mean()


def test_the_loss_does_not_bound_ndcg_at_a_cutoff():
    """Labels 4 and 0, all but tied in the wrong order: -log(0 + 1/15) is above log 2."""
    scores, labels = np.array([0, 1e-6]), np.array([4, 0])
    at_one = evaluate(scores, labels, group=[2], metrics=["ndcg@1"]).mean["ndcg@1"]
    assert at_one == 0
    assert -np.log(at_one + 1 / 15) > _cross_entropies(scores, labels, [2], 0.0)[0]


@pytest.mark.parametrize("objective", ["xendcg", "listnet"])
def test_queries_of_equal_labels_give_zeros(objective):
    grad, hess = gradients(objective, [1.0, 0.0, 2.0, 0.0], [2, 2, 1, 0], group=[2, 2])
    assert grad[:2].tolist() == hess[:2].tolist() == [0, 0]
    assert np.all(grad[2:] != 0)


@pytest.mark.parametrize("n", [2, 10, 200])
def test_the_gradients_are_as_steep_as_the_propositions_say(n):
    """Propositions 1 and 2: the sum of |gradient| is at most 2 for XE-NDCG, and sigma m^2 for LambdaMART."""
    random = np.random.default_rng(n)
    for spread in (0.0, 1.0, 100.0):
        scores, labels = (
            spread * random.normal(size=n),
            np.append([0, 1], random.integers(0, 5, n - 2)),
        )
        for gamma in ("uniform", 0.0, 1.0):
            grad, _ = gradients("xendcg", scores, labels, group=[n], gamma=gamma, newton=False)
            assert np.abs(grad).sum() <= 2
        for sigma in (0.5, 2.0):
            grad, _ = gradients("lambdamart", scores, labels, group=[n], sigma=sigma)
            assert np.abs(grad).sum() <= sigma * n**2
