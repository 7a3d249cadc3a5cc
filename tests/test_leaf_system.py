"""The leaf system is L'g and L'HL, with H from double loops over documents."""

import numpy as np
import pytest

import objective_oracles as oracle
from rankwright.data.queries import Queries
from rankwright.kernels.random import stream_of
from rankwright.metrics import metric as metric_of
from rankwright.objectives import XENDCG, QueryRMSE, RankNet, YetiLoss, bind, yeti
from rankwright.objectives import bound as bound_module
from rankwright.objectives.gradient import Problem

SIZES = [
    5,
    1,
    8,
    3,
    6,
    2,
] * 6  # more queries than the sixteen parts in which the curvature is summed
LEAVES = 4


def problem(seed=0):
    random = np.random.default_rng(seed)
    labels = [np.arange(n) % 4 for n in SIZES]
    labels[-1][:] = 1  # nothing to learn here
    scores = [np.round(random.normal(size=n), 2) for n in SIZES]
    return scores, labels, random.integers(0, LEAVES, sum(SIZES))


def residuals(z, r):
    x = np.asarray(z) - r
    return x - x.mean(), np.ones(len(z)), np.eye(len(z)) - 1 / len(z)


def entropy(z, phi, epsilon):
    powers = np.exp(np.asarray(z) - max(z))
    rho = powers / (powers.sum() + epsilon)
    return rho - phi, rho * (1 - rho), np.diag(rho) - np.outer(rho, rho)


def drawn(kind, n, key, draw, term=0):
    return oracle.noise(kind, n, int(stream_of(1, 2, term)), int(key), draw)


def fresh(z, r, key, term=0):
    return oracle.xendcg_target(r, drawn("uniform", len(z), key, 0, term))


def noisy(z, kind, key, samples, term=0):
    return [
        (np.asarray(z) + drawn(kind, len(z), key, sample, term)).tolist()
        for sample in range(samples)
    ]


def top(z, k, r=None, strategy=None):
    extra = oracle.extensions(z, r, k, strategy, "paper")[0] if strategy else set()
    return set(oracle.ranking(z)[:k]) | extra


# Objective, metric, and (grad, hess, H) of one query from its scores, labels and key.
CASES = {
    "queryrmse": ("ndcg", lambda z, r, key: residuals(z, r)),
    "ranknet(sigma=2)": (
        "ndcg",
        lambda z, r, key: oracle.pair_losses(z, r, np.ones((len(z), len(z))), 2),
    ),
    "lambdamart": ("ndcg@3", lambda z, r, key: oracle.lambdas(z, r, "ndcg@3")),
    "lambdamart()": ("err", lambda z, r, key: oracle.lambdas(z, r, "err")),
    "lambdamart(normalize=true)": (
        "map",
        lambda z, r, key: oracle.lambdas(z, r, "map", normalize=True),
    ),
    "lambdamart(truncation=2, sigma=3)": (
        "ndcg",
        lambda z, r, key: oracle.lambdas(z, r, "ndcg", sigma=3, full=top(z, 2)),
    ),
    "lambdamart(extend=static)": (
        "ndcg@2",
        lambda z, r, key: oracle.lambdas(z, r, "ndcg@2", full=top(z, 2, r, "static")),
    ),
    "lambdamart(extend=all, normalize=true)": (
        "ndcg@2",
        lambda z, r, key: oracle.lambdas(z, r, "ndcg@2", full=top(z, 2, r, "all"), normalize=True),
    ),
    "lambdamart(noise=gumbel, samples=3)": (
        "ndcg",
        lambda z, r, key: oracle.mean_of(
            [oracle.lambdas(x, r, "ndcg") for x in noisy(z, "gumbel", key, 3)]
        ),
    ),
    "lambdaloss": ("ndcg", lambda z, r, key: oracle.lambdas(z, r, "ndcg", variant="ndcg-loss2++")),
    "lambdaloss(variant=ndcg-loss1)": (
        "dcg",
        lambda z, r, key: oracle.lambdas(z, r, "dcg", variant="ndcg-loss1"),
    ),
    "yetirank": (
        "map",
        lambda z, r, key: oracle.yeti(z, r, "expdcg", noisy(z, "logistic", key, 10), 1),
    ),
    "yetiloss(neighbours=3, noise=gaussian, permutations=4)": (
        "err",
        lambda z, r, key: oracle.yeti(z, r, "err", noisy(z, "gaussian", key, 4), 3),
    ),
    "xendcg": ("ndcg", lambda z, r, key: entropy(z, fresh(z, r, key), 1e-10)),
    "xendcg(gamma=0.5, newton=false, epsilon=0.1)": (
        "ndcg",
        lambda z, r, key: entropy(z, oracle.xendcg_target(r, 0.5), 0.1),
    ),
    "listnet": ("ndcg", lambda z, r, key: entropy(z, oracle.softmax(r), 0.0)),
}


def brute_force(expected, scores, labels, leaf, query_weight=None):
    """Sum L'g and L'HL over the queries that can teach something."""
    g, h = np.zeros(LEAVES), np.zeros((LEAVES, LEAVES))
    keys = Queries.from_group([len(z) for z in scores], sum(map(len, scores))).keys
    start = 0
    for q, (z, r) in enumerate(zip(scores, labels, strict=True)):
        member = np.eye(LEAVES)[leaf[start : start + len(z)]]
        start += len(z)
        if len(set(r.tolist())) > 1:
            grad, _, curvature = expected(z.tolist(), r.tolist(), keys[q])
            weight = 1.0 if query_weight is None else query_weight[q]
            g += weight * member.T @ grad
            h += weight * member.T @ curvature @ member
    return g, h


def bound(objective, metric, labels, **options):
    return bind(
        objective,
        np.concatenate(labels),
        group=[len(r) for r in labels],
        metric=metric,
        random_state=1,
        **options,
    )


@pytest.mark.parametrize("weights", [None, [2.0, 1.0, 0.5, 0.0, 3.0, 1.0] * 6])
@pytest.mark.parametrize("objective", CASES)
def test_leaf_system(objective, weights):
    metric, expected = CASES[objective]
    scores, labels, leaf = problem()
    g, h = bound(objective, metric, labels, sample_weight=weights).leaf_system(
        np.concatenate(scores), leaf, LEAVES, 2
    )
    wanted = brute_force(expected, scores, labels, leaf, weights)
    np.testing.assert_allclose(g, wanted[0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(h, wanted[1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("objective", [name for name in CASES if name != "queryrmse"])
def test_one_leaf_per_document_has_the_diagonal_on_its_diagonal(objective):
    """Also the gradient, unless it is XE-NDCG's approximate Newton step. QueryRMSE's diagonal is 1, not 1 - 1 / n."""
    scores, labels, _ = problem(1)
    rows = np.concatenate(scores)
    call = bound(objective, CASES[objective][0], labels)
    grad, hess = call(rows, 2)
    g, h = call.leaf_system(rows, np.arange(len(rows)), len(rows), 2)
    np.testing.assert_allclose(np.diag(h), np.maximum(hess, 0), rtol=1e-9, atol=1e-11)
    if objective != "xendcg":
        np.testing.assert_allclose(g, grad, rtol=1e-12, atol=1e-14)


def test_sums_with_factors_and_lengths():
    """Each summand draws noise of its own."""
    scores, labels, leaf = problem(2)
    weights = np.array([2.0, 1.0, 0.5, 0.25, 3.0, 1.0] * 6)
    total = (
        YetiLoss(permutations=3)
        + 0.5 * XENDCG().per_length()
        + 2 * (QueryRMSE() + RankNet()).per_length(-1)
    )
    g, h = bound(total, "map", labels, sample_weight=weights).leaf_system(
        np.concatenate(scores), leaf, LEAVES, 2
    )
    n = np.array([len(z) for z in scores])
    parts = [
        (1.0, 0.0, lambda z, r, key: oracle.yeti(z, r, "map", noisy(z, "logistic", key, 3), 1)),
        (0.5, -0.5, lambda z, r, key: entropy(z, fresh(z, r, key, 1), 1e-10)),
        (2.0, -1.0, lambda z, r, key: residuals(z, r)),
        (2.0, -1.0, lambda z, r, key: oracle.pair_losses(z, r, np.ones((len(z), len(z))))),
    ]
    wanted = [
        brute_force(one, scores, labels, leaf, weights * factor * n**power)
        for factor, power, one in parts
    ]
    np.testing.assert_allclose(g, sum(w[0] for w in wanted), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(h, sum(w[1] for w in wanted), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("objective", [*CASES, "yetiloss + 0.5 queryrmse"])
def test_same_bits_for_any_number_of_threads(objective):
    scores, labels, leaf = problem(3)
    metric = CASES.get(objective, ("ndcg",))[0]
    systems = [
        bound(objective, metric, labels, n_jobs=threads).leaf_system(
            np.concatenate(scores), leaf, LEAVES
        )
        for threads in (1, 2, 7)
    ]
    for g, h in systems[1:]:
        np.testing.assert_array_equal(g, systems[0][0])
        np.testing.assert_array_equal(h, systems[0][1])
    assert np.abs(systems[0][1]).max() > 0


ANNOUNCED = [(objective, metric) for objective, (metric, _) in CASES.items()]
ANNOUNCED += [
    ("yetiloss(neighbours=all) + 0.5 n^-0.5 queryrmse", metric)
    for metric in ("ndcg@2", "map", "err@3")
]
ANNOUNCED += [("yetiloss(noise=none, neighbours=2)", metric) for metric in ("ndcg@2", "map", "rbp")]


@pytest.mark.parametrize("kept", [2**23, 0])
@pytest.mark.parametrize(("objective", "metric"), ANNOUNCED)
def test_a_leaf_system_that_was_announced_is_the_same(objective, metric, kept, monkeypatch):
    """Bit by bit, whether pairs are kept for it or found again, and however many systems follow."""
    monkeypatch.setattr(yeti, "_MOST_PAIRS", kept)
    scores, labels, leaf = problem(5)
    rows = np.concatenate(scores)
    call = bound(objective, metric, labels, sample_weight=[2.0, 1.0, 0.5, 0.0, 3.0, 1.0] * 6)
    point = call.at(rows, 3, leaves=True)
    call.at(-rows, 4, leaves=True)  # another point does not disturb it
    for one, other in zip((point.grad, point.hess), call(rows, 3), strict=True):
        np.testing.assert_array_equal(one, other)
    for leaves, weight in ((leaf, None), (leaf[::-1].copy(), np.arange(len(labels)) % 2.0)):
        wanted = call.leaf_system(rows, leaves, LEAVES, 3, query_weight=weight)
        for one, other in zip(
            point.leaf_system(leaves, LEAVES, query_weight=weight), wanted, strict=True
        ):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("kept", [2**23, 0])
@pytest.mark.parametrize(("objective", "metric"), ANNOUNCED)
def test_a_part_that_was_announced_is_the_same(objective, metric, kept, monkeypatch):
    """Bit by bit, and so are the other parts, for which nothing is kept, and the gradient."""
    monkeypatch.setattr(yeti, "_MOST_PAIRS", kept)
    monkeypatch.setattr(bound_module, "_LEAF_PART_ROWS", 40)
    scores, labels, leaf = problem(5)
    rows = np.concatenate(scores)
    call = bound(objective, metric, labels)
    assert len(call.leaf_parts) > 2
    point = call.at(rows, 3, leaves=True, part=1)
    for one, other in zip((point.grad, point.hess), call(rows, 3), strict=True):
        np.testing.assert_array_equal(one, other)
    by_part = []
    for part in (1, 0, 2):
        wanted = call.leaf_system(rows, leaf, LEAVES, 3, part=part)
        for one, other in zip(point.leaf_system(leaf, LEAVES, part=part), wanted, strict=True):
            np.testing.assert_array_equal(one, other)
        by_part.append(wanted)
    others = [
        call.leaf_system(rows, leaf, LEAVES, 3, part=part)
        for part in range(3, len(call.leaf_parts))
    ]
    whole = call.leaf_system(rows, leaf, LEAVES, 3)
    for number in range(2):
        total = sum(system[number] for system in [*by_part, *others])
        np.testing.assert_allclose(total, whole[number], rtol=1e-9, atol=1e-12)


def test_pairs_are_kept_only_if_they_are_few(monkeypatch):
    """3 queries of 4 documents, 2 rankings, 2 neighbours: room for 3 * 2 * 3 * 2 pairs."""
    labels, queries = np.tile([0.0, 1, 2, 0], 3), Queries.from_group([4, 4, 4], 12)
    found = YetiLoss(permutations=2, neighbours=2).prepare(
        Problem(labels, queries, metric_of("ndcg"))
    )
    for most, kept in ((36, True), (35, False)):
        monkeypatch.setattr(yeti, "_MOST_PAIRS", most)
        assert (found.cached_for_step(0, 3) is not found) == kept


@pytest.mark.parametrize("objective", ["lambdamart", "xendcg(gamma=0.5)", "queryrmse"])
def test_rows_in_any_order(objective):
    _, labels, leaf = problem(4)
    random = np.random.default_rng(4)
    labels, scores = np.concatenate(labels), random.normal(size=len(leaf))
    qid = np.repeat(np.arange(len(SIZES)), SIZES)
    order = random.permutation(len(qid))
    first = bind(objective, labels, qid=qid).leaf_system(scores, leaf, LEAVES)
    second = bind(objective, labels[order], qid=qid[order]).leaf_system(
        scores[order], leaf[order], LEAVES
    )
    np.testing.assert_allclose(first[0], second[0], rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(first[1], second[1], rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("objective", ["stochasticrank", "softrank", "yetiloss + stochasticrank"])
def test_first_order_objectives_refuse(objective):
    call = bind(objective, [1, 0], group=[2])
    with pytest.raises(ValueError, match=r"no full curvature.*diagonal"):
        call.leaf_system([0.0, 1.0], [0, 1], 2)


@pytest.mark.parametrize("leaf", [[0, 2], [-1, 0], [0], [0, 0, 1]])
def test_leaves_are_checked(leaf):
    call = bind("ranknet", [1, 0], group=[2])
    with pytest.raises(ValueError, match="one leaf from 0 to 1 for each of 2 rows"):
        call.leaf_system([0.0, 1.0], leaf, 2)


def test_weights_must_be_constant_within_a_query():
    call = bind("ranknet", [1, 0, 2], group=[3], sample_weight=[1, 2, 1])
    with pytest.raises(ValueError, match="same weight for all rows of a query"):
        call.leaf_system([0.0, 1.0, 2.0], [0, 1, 1], 2)


def test_arrays_that_cannot_be_written_to():
    scores, labels, leaves = (
        np.concatenate(values) if isinstance(values, list) else values for values in problem()
    )
    expected = bind("yetirank", labels, group=SIZES).leaf_system(scores, leaves, LEAVES, 0)
    for array in (scores, labels, leaves):
        array.flags.writeable = False
    found = bind("yetirank", labels, group=SIZES).leaf_system(scores, leaves, LEAVES, 0)
    assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
