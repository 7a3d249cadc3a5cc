"""RankNet, LambdaMART, LambdaLoss, Lambda-eX, noisy lambdas and Yeti against double loops over documents."""

import itertools

import numpy as np
import pytest

import objective_oracles as oracle
import own_metric  # noqa: F401  (defines the metric "own")
from rankwright import gradients
from rankwright.data.queries import Queries
from rankwright.kernels.random import stream_of
from rankwright.objectives import bind

METRICS = [
    "ndcg",
    "ndcg@3",
    "dcg",
    "err",
    "err@3",
    "mrr",
    "map",
    "map@3",
    "rbp",
    "pfound",
    "expdcg",
    "own",
]
ALIKE = [
    "precision@2",
    "recall@3",
    "success@2",
]  # all positions have the same weight: the cutoff alone decides
SIZES = [2, 3, 5, 8, 8]


def problem(seed=0, sizes=SIZES):
    """Scores and labels of several queries, each with a 0 and a 1 among its labels; some scores are tied."""
    random = np.random.default_rng(seed)
    labels = [random.permutation([0, 1, *random.integers(0, 5, n - 2)]) for n in sizes]
    scores = [np.round(random.normal(size=n), 1) for n in sizes]
    return scores, labels


def check(objective, expected, scores, labels, metric="ndcg", iteration=0, **options):
    """Compare with ``expected(scores, labels, q)``, which gives (grad, hess, ...) of one query."""
    grad, hess = gradients(
        objective,
        np.concatenate(scores),
        np.concatenate(labels),
        group=[len(z) for z in scores],
        metric=metric,
        iteration=iteration,
        **options,
    )
    wanted = [
        expected(z.tolist(), r.tolist(), q)
        for q, (z, r) in enumerate(zip(scores, labels, strict=True))
    ]
    np.testing.assert_allclose(grad, np.concatenate([w[0] for w in wanted]), rtol=1e-10, atol=1e-13)
    wanted_hess = np.maximum(np.concatenate([w[1] for w in wanted]), 1e-12 * np.abs(grad))
    np.testing.assert_allclose(hess, wanted_hess, rtol=1e-9, atol=1e-13)


def drawn(kind, n, q, iteration, draw, seed=0):
    """Draw the noise of query number q from the independent generator."""
    key = Queries.from_group([1] * (q + 1), q + 1).keys[q]
    return oracle.noise(kind, n, int(stream_of(seed, iteration)), int(key), draw)


def test_tables_of_the_lambda_ex_paper():
    """Tables 1 and 2; the paper cuts digits off."""
    grad, _ = gradients(
        "lambdamart",
        [0.04, 0.03, 0.02, 0.01, 0],
        [1, 2, 0, 0, 0],
        group=[5],
        metric="ndcg@1",
        truncation=1,
    )
    np.testing.assert_allclose(-grad, [0.152, 0.124, -0.083, -0.093, -0.100], atol=1e-3)
    grad, _ = gradients("lambdamart", [0.02, 0.01, 0], [4, 0, 1], group=[3])
    np.testing.assert_allclose(-grad, [0.397, -0.180, -0.217], atol=1e-3)


def test_worked_examples():
    """Two documents at equal scores: half of the weight, and a quarter of it as curvature."""
    two = {"scores": [0, 0], "labels": [0, 2], "group": [2]}
    swap = 1 - 1 / np.log2(3)  # NDCG; DCG has 3 times that
    apart = 1 - 1 / np.log2(3)
    cases = [
        ("ranknet", "ndcg", {}, 1),
        ("lambdamart", "ndcg", {}, swap),
        ("lambdamart", "dcg", {}, 3 * swap),
        ("lambdamart", "err", {}, 3 / 16 * (1 - 1 / 2)),
        ("lambdamart", "mrr", {}, 1 / 2),
        ("lambdamart", "map", {}, 1 / 2),
        ("lambdamart", "rbp", {}, (1 - 0.8) * (1 - 0.8)),
        ("lambdamart", "pfound", {}, 2 / 4 * (1 - 0.85)),
        ("lambdamart", "expdcg", {}, 2 * (1 - 0.85)),
        ("lambdaloss", "ndcg", {"variant": "ndcg-loss1"}, 1 / np.log2(3)),
        ("lambdaloss", "ndcg", {"variant": "ndcg-loss2"}, apart),
        (
            "lambdaloss",
            "ndcg",
            {"variant": "ndcg-loss2", "loss2_offset": "lambda-ex"},
            1 / np.log2(3) - 1 / 2,
        ),
        ("lambdaloss", "ndcg", {}, swap + 5 * apart),
        ("lambdaloss", "ndcg", {"mu": 2}, swap + 2 * apart),
        ("yetirank", "ndcg", {"noise": "none"}, (1 - 0.85) * 2),
        ("yetirank", "ndcg", {"noise": "none", "decay": 0.5}, (1 - 0.5) * 2),
        ("yetiloss", "ndcg", {"noise": "none"}, swap),
    ]
    for name, metric, options, weight in cases:
        grad, hess = gradients(name, **two, metric=metric, **options)
        np.testing.assert_allclose(
            grad, [weight / 2, -weight / 2], err_msg=f"{name} {metric} {options}"
        )
        np.testing.assert_allclose(
            hess, [weight / 4, weight / 4], err_msg=f"{name} {metric} {options}"
        )


@pytest.mark.parametrize("sigma", [1.0, 0.5, 3.0])
def test_ranknet(sigma):
    def expected(z, r, _q):
        return oracle.pair_losses(z, r, np.ones((len(z), len(z))), sigma)

    check("ranknet", expected, *problem(), sigma=sigma)
    scores, labels = problem(3, [6])

    def loss(z):
        pairs = [
            (a, b) for a, b in itertools.permutations(range(6), 2) if labels[0][a] > labels[0][b]
        ]
        return sum(np.log1p(np.exp(-sigma * (z[a] - z[b]))) for a, b in pairs)

    grad, _ = gradients("ranknet", scores[0], labels[0], group=[6], sigma=sigma)
    np.testing.assert_allclose(grad, oracle.slopes(loss, scores[0]), atol=1e-8)


@pytest.mark.parametrize(
    "options", [{}, {"sigma": 2.5}, {"normalize": True}, {"normalize": True, "sigma": 0.5}]
)
@pytest.mark.parametrize("metric", [*METRICS, *ALIKE])
def test_lambdamart(metric, options):
    check(
        "lambdamart",
        lambda z, r, _q: oracle.lambdas(z, r, metric, **options),
        *problem([*METRICS, *ALIKE].index(metric)),
        metric,
        **options,
    )


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("truncation", [1, 2, 4, 8, 100])
@pytest.mark.parametrize("metric", ["ndcg", "err@3", "map", "own"])
def test_truncation(metric, truncation, normalize):
    def expected(z, r, _q):
        top = set(oracle.ranking(z)[:truncation])
        return oracle.lambdas(z, r, metric, full=top, normalize=normalize)

    check("lambdamart", expected, *problem(7), metric, truncation=truncation, normalize=normalize)


@pytest.mark.parametrize(
    ("truncation", "level"), [("k", 2), ("k+1", 3), ("k + 3", 5), (2, 2), (3.0, 3)]
)
def test_truncation_by_name(truncation, level):
    def expected(z, r, _q):
        return oracle.lambdas(z, r, "ndcg@2", full=set(oracle.ranking(z)[:level]))

    check("lambdamart", expected, *problem(8), "ndcg@2", truncation=truncation)


@pytest.mark.parametrize("metric", ["ndcg@3", "dcg@2", "err@3", "mrr@2", "map@3", "own@2"])
def test_truncated_delta(metric):
    def expected(z, r, _q):
        return oracle.lambdas(z, r, metric, truncate_delta=True)

    check("lambdamart", expected, *problem(9), metric, truncate_delta=True)


def test_equal_scores_are_not_spread():
    """LightGBM divides by score differences only where the best and the worst score differ."""
    scores, labels = [np.zeros(4), np.array([0, 0, 0, 1.0])], [np.array([0, 3, 1, 0])] * 2
    check(
        "lambdamart",
        lambda z, r, _q: oracle.lambdas(z, r, "ndcg", normalize=True),
        scores,
        labels,
        normalize=True,
    )


@pytest.mark.parametrize("far", [400.0, 690.0, -800.0, 3000.0])
@pytest.mark.parametrize(
    ("objective", "options"), [("lambdamart", {"sigma": 1.5}), ("yetiloss", {"noise": "none"})]
)
def test_wide_scores(objective, options, far):
    """One document far from the others, on both sides of the 700 where exp overflows; the others are close."""
    scores, labels = problem(10)
    for z in scores:
        z[0] += far

    def expected(z, r, _q):
        if objective == "yetiloss":
            return oracle.yeti(z, r, "ndcg", [z], 1)
        return oracle.lambdas(z, r, "ndcg", **options)

    check(objective, expected, scores, labels, **options)


@pytest.mark.parametrize("extra", [{}, {"truncation": 2}, {"normalize": True}])
@pytest.mark.parametrize("metric", ["ndcg@3", "dcg@3"])
@pytest.mark.parametrize(
    ("variant", "options", "known"),
    [
        ("ndcg-loss1", {"truncate_delta": True}, {"truncate_delta": True}),
        ("ndcg-loss2++", {"truncate_delta": True}, {"truncate_delta": True}),
        ("ndcg-loss1", {}, {}),
        ("ndcg-loss2", {}, {}),
        ("ndcg-loss2", {"loss2_offset": "lambda-ex"}, {"offset": 1}),
        ("ndcg-loss2++", {}, {}),
        ("ndcg-loss2++", {"mu": 0.5, "sigma": 2.0}, {"mu": 0.5, "sigma": 2.0}),
        ("ndcg-loss2++", {"loss2_offset": "lambda-ex"}, {"offset": 1}),
    ],
)
def test_lambdaloss(metric, variant, options, known, extra):
    def expected(z, r, _q):
        full = set(oracle.ranking(z)[:2]) if "truncation" in extra else None
        others = {key: on for key, on in extra.items() if key != "truncation"}
        return oracle.lambdas(z, r, metric, variant=variant, full=full, **known, **others)

    check("lambdaloss", expected, *problem(11), metric, variant=variant, **options, **extra)


EXTENSIONS = ["static", "random", "all", "all-static", "all-random"]


def chosen_sets(metric, labels, scores, extend, selection, iteration=0, objective="lambdamart"):
    """For each query, which of the allowed extensions explain the gradient."""
    grad, hess = gradients(
        objective,
        np.concatenate(scores),
        np.concatenate(labels),
        group=[len(z) for z in scores],
        metric=metric,
        extend=extend,
        selection=selection,
        iteration=iteration,
    )
    k = int(metric.partition("@")[2])
    variant = "lambdamart" if objective == "lambdamart" else "ndcg-loss2++"
    explained = []
    start = 0
    for z, r in zip(scores, labels, strict=True):
        rows = slice(start, start + len(z))
        start += len(z)
        matching = []
        for extra in oracle.extensions(z, r.tolist(), k, extend, selection):
            full = set(oracle.ranking(z)[:k]) | extra
            wanted = oracle.lambdas(z.tolist(), r.tolist(), metric, full=full, variant=variant)
            if np.allclose(grad[rows], wanted[0], rtol=1e-9) and np.allclose(
                hess[rows], wanted[1], rtol=1e-9
            ):
                matching.append(frozenset(extra))
        assert matching, (
            f"no extension explains the gradient of labels {r} in the order of scores {z}"
        )
        explained.append(matching[0])
    return explained


@pytest.mark.parametrize("selection", ["paper", "literal", "quota"])
@pytest.mark.parametrize("extend", EXTENSIONS)
@pytest.mark.parametrize("metric", ["ndcg@2", "ndcg@3", "err@2", "map@2", "mrr@3"])
def test_extension(metric, extend, selection):
    random = np.random.default_rng(5)
    labels = [
        random.integers(0, high, n) for n, high in [(5, 2), (7, 3), (8, 3), (8, 5), (8, 2), (6, 3)]
    ]
    labels += [
        np.array(r)
        for r in ([0, 1, 0, 2, 2, 3, 1], [1, 2, 2, 0, 3, 2, 0, 0], [0, 1, 1, 1, 1], [0, 0, 0, 1])
    ]
    scores = [random.normal(size=len(r)) for r in labels]
    chosen_sets(metric, labels, scores, extend, selection)


def test_extension_of_the_figure():
    """Figure 2: k = 2, ideal labels 3, 2; the list starts 1, 3, and two documents of label 2 are missed."""
    scores, labels = [-np.arange(6.0)], [np.array([1, 3, 0, 2, 2, 1])]
    for extend, wanted in [
        ("static", {3}),
        ("all", {3, 4}),
        ("all-static", {3, 4}),
        ("all-random", {3, 4}),
    ]:
        assert chosen_sets("ndcg@2", labels, scores, extend, "paper") == [wanted]
    assert chosen_sets("ndcg@2", labels, scores, "static", "quota") == [{3}]


@pytest.mark.parametrize("extend", ["static", "random", "all-static", "all-random"])
def test_documents_without_relevance_are_false_ones_of_the_top(extend):
    """Two relevant documents below an ideal top of three, which therefore holds a label 0."""
    scores, labels = np.array([5.0, 4, 3, 2, 1, 0]), np.array([0, 0, 0, 0, 2, 1])
    truncated = gradients("lambdamart", scores, labels, group=[6], metric="ndcg@3", truncation=3)
    extended = gradients("lambdamart", scores, labels, group=[6], metric="ndcg@3", extend=extend)
    assert np.abs(extended[0] - truncated[0]).max() > 0.01
    assert chosen_sets("ndcg@3", [labels], [scores], extend, "paper") == [{4, 5}]
    assert chosen_sets("ndcg@3", [labels], [scores], extend, "quota") == [{4, 5}]
    literal = gradients(
        "lambdamart", scores, labels, group=[6], metric="ndcg@3", extend=extend, selection="literal"
    )
    np.testing.assert_array_equal(literal[0], truncated[0])


@pytest.mark.parametrize("metric", ALIKE)
def test_metrics_that_weigh_all_positions_alike_have_an_order_to_learn(metric):
    """Without its cutoff such a metric is the same for every order, and no exchange would change it."""
    scores, labels = np.array([3.0, 2, 1, 0]), np.array([0, 0, 0, 1])
    grad, _ = gradients("lambdamart", scores, labels, group=[4], metric=metric)
    assert grad[3] < -0.1
    if metric != "success@2":
        np.testing.assert_array_equal(
            gradients("lambdaloss", scores, labels, group=[4], metric=metric)[0], grad
        )
        with pytest.raises(
            ValueError, match=f"variant='ndcg-loss2' has no weight for {metric}, which weighs all"
        ):
            gradients("lambdaloss", scores, labels, group=[4], metric=metric, variant="ndcg-loss2")


@pytest.mark.parametrize("extend", EXTENSIONS)
def test_extensions_past_the_cutoff_of_the_weights_change_nothing(extend):
    query = {"scores": [3, 2, 1, 0], "labels": [0, 1, 0, 1], "group": [4]}
    cut = {**query, "truncate_delta": True}
    cases = [
        ("lambdamart", {**cut, "metric": metric})
        for metric in ("ndcg@2", "map@2", "mrr@2", "precision@2")
    ]
    cases += [(name, {**query, "metric": "precision@2"}) for name in ("lambdamart", "lambdaloss")]
    for name, options in cases:
        truncated = gradients(name, **options, truncation=2)
        np.testing.assert_array_equal(gradients(name, **options, extend=extend), truncated)
    options = {**cut, "metric": "ndcg@2"}
    extended = gradients("lambdaloss", **options, extend=extend)[
        0
    ]  # weights of distances do not end at the cutoff
    assert np.abs(extended - gradients("lambdaloss", **options, truncation=2)[0]).max() > 0
    small = gradients("lambdamart", **options, truncation=1, extend=extend)[
        0
    ]  # the top is smaller than the cutoff
    assert np.abs(small - gradients("lambdamart", **options, truncation=1)[0]).max() > 0


def test_a_missed_document_is_relevant_in_every_reading():
    """The ideal top holds the labels 2 and 1; 1 is below the threshold, so that the one place goes to the 2."""
    query = {
        "scores": [5, 4, 3, 2, 1],
        "labels": [0, 1, 1, 2, 0],
        "group": [5],
        "metric": "map(threshold=2)@2",
    }
    extended = gradients("lambdamart", **query, truncation=2, extend="static")[0]
    for selection in ("literal", "quota"):
        other = gradients(
            "lambdamart", **query, truncation=2, extend="static", selection=selection
        )[0]
        np.testing.assert_array_equal(other, extended)


@pytest.mark.parametrize("extend", ["static", "random", "all-static", "all-random"])
@pytest.mark.parametrize("name", ["map", "mrr"])
def test_documents_below_the_threshold_of_a_metric_are_not_relevant(name, extend):
    """Two grades of which only the higher counts, against the labels 0 and 1 for them."""
    scores, labels = -np.arange(6.0), np.array([1, 1, 0, 0, 3, 0])
    grades = gradients(
        "lambdamart", scores, labels, group=[6], metric=f"{name}(threshold=2)@2", extend=extend
    )[0]
    binary = gradients(
        "lambdamart", scores, labels >= 2, group=[6], metric=f"{name}@2", extend=extend
    )[0]
    truncated = gradients(
        "lambdamart", scores, labels >= 2, group=[6], metric=f"{name}@2", truncation=2
    )[0]
    np.testing.assert_allclose(grades, binary, rtol=1e-12)
    assert np.abs(binary - truncated).max() > 0.1


@pytest.mark.parametrize("objective", ["lambdamart", "lambdaloss"])
@pytest.mark.parametrize("selection", ["paper", "literal", "quota"])
def test_random_extension_varies(selection, objective):
    """The same query many times: one of its four missed documents is chosen, each as often, anew each iteration."""
    copies = 400
    scores, labels = -np.arange(8.0), np.array([0, 3, 0, 2, 2, 2, 2, 1])
    variant = "lambdamart" if objective == "lambdamart" else "ndcg-loss2++"
    candidates = [
        oracle.lambdas(
            scores.tolist(), labels.tolist(), "ndcg@2", full={0, 1, extra}, variant=variant
        )[0]
        for extra in (3, 4, 5, 6)
    ]

    def choices(iteration):
        rows = np.tile(scores, copies), np.tile(labels, copies)
        options = {
            "metric": "ndcg@2",
            "extend": "random",
            "selection": selection,
            "iteration": iteration,
        }
        grad = gradients(objective, *rows, group=[8] * copies, **options)[0].reshape(copies, 1, 8)
        same = np.isclose(grad, candidates, rtol=1e-9, atol=1e-12).all(axis=2)
        np.testing.assert_array_equal(same.sum(axis=1), 1)
        return same.argmax(axis=1)

    first, second = choices(0), choices(1)
    spread = 4 * np.sqrt(copies * 0.25 * 0.75)
    assert np.all(np.abs(np.bincount(first, minlength=4) - copies / 4) < spread)
    assert abs(np.sum(first == second) - copies / 4) < spread
    np.testing.assert_array_equal(choices(0), first)


@pytest.mark.parametrize("kind", ["logistic", "gaussian", "gumbel"])
@pytest.mark.parametrize("options", [{}, {"normalize": True}, {"sigma": 2.0}])
def test_noisy_lambdas(kind, options):
    """Noise in the ranking and in the loss; the mean over samples."""

    def expected(z, r, q):
        noisy = [np.asarray(z) + 0.7 * drawn(kind, len(z), q, 4, sample) for sample in range(3)]
        return oracle.mean_of(
            [oracle.lambdas(one.tolist(), r, "ndcg@3", **options) for one in noisy]
        )

    check(
        "lambdamart",
        expected,
        *problem(12),
        "ndcg@3",
        4,
        noise=kind,
        strength=0.7,
        samples=3,
        **options,
    )


def test_noisy_samples_choose_extensions_of_their_own():
    """With next to no noise all samples rank alike, and only the choice of one of four missed documents differs."""
    copies = 40
    scores, labels = -np.arange(8.0), np.array([0, 3, 0, 2, 2, 2, 2, 1])
    candidates = [
        oracle.lambdas(scores.tolist(), labels.tolist(), "ndcg@2", full={0, 1, extra})[0]
        for extra in (3, 4, 5, 6)
    ]
    options = {
        "metric": "ndcg@2",
        "extend": "random",
        "noise": "gaussian",
        "strength": 1e-12,
        "samples": 2,
    }
    grad, _ = gradients(
        "lambdamart",
        np.tile(scores, copies),
        np.tile(labels, copies),
        group=[8] * copies,
        **options,
    )
    chosen = []
    for mine in grad.reshape(copies, 8):
        pairs = itertools.combinations_with_replacement(range(4), 2)
        (pair,) = [
            (a, b)
            for a, b in pairs
            if np.allclose(mine, (candidates[a] + candidates[b]) / 2, rtol=1e-7, atol=1e-9)
        ]
        chosen.append(pair)
    same = sum(a == b for a, b in chosen)
    assert 0 < same < copies / 2


@pytest.mark.parametrize("neighbours", [1, 2, 3, "all"])
@pytest.mark.parametrize("metric", METRICS)
def test_yetiloss_without_noise(metric, neighbours):
    def expected(z, r, _q):
        return oracle.yeti(z, r, metric, [z], 99 if neighbours == "all" else neighbours)

    check("yetiloss", expected, *problem(13), metric, noise="none", neighbours=neighbours)


@pytest.mark.parametrize("kind", ["logistic", "gaussian", "gumbel"])
@pytest.mark.parametrize(
    ("metric", "neighbours"), [("ndcg", 1), ("map@3", 2), ("err", 3), ("own", "all")]
)
def test_yetiloss(metric, kind, neighbours):
    """Noise in the ranking alone; the mean over permutations."""

    def expected(z, r, q):
        noisy = [np.asarray(z) + 1.5 * drawn(kind, len(z), q, 6, sample) for sample in range(4)]
        return oracle.yeti(z, r, metric, noisy, 99 if neighbours == "all" else neighbours)

    options = {"noise": kind, "strength": 1.5, "permutations": 4, "neighbours": neighbours}
    check("yetiloss", expected, *problem(14), metric, 6, **options)


@pytest.mark.parametrize("neighbours", [1, 3])
def test_yetiloss_with_the_change_of_the_paper(neighbours):
    """Eq. (9): positions past the cutoff keep their weight, and only the normaliser is that of the cutoff."""

    def expected(z, r, _q):
        return oracle.yeti_untruncated(z, r, 2, [z], neighbours)

    check(
        "yetiloss",
        expected,
        *problem(13),
        "ndcg@2",
        noise="none",
        neighbours=neighbours,
        truncate_delta=False,
    )


@pytest.mark.parametrize(("metric", "at"), [("map", 99), ("map@2", 2), ("map(threshold=1)@4", 4)])
@pytest.mark.parametrize("neighbours", [1, 3, "all"])
def test_yetiloss_with_the_weights_of_catboost_for_map(metric, at, neighbours):
    def expected(z, r, q):
        noisy = [
            np.asarray(z) + 1.5 * drawn("gaussian", len(z), q, 6, sample) for sample in range(4)
        ]
        return oracle.yeti_catboost_map(z, r, at, noisy, 99 if neighbours == "all" else neighbours)

    options = {"noise": "gaussian", "strength": 1.5, "permutations": 4, "neighbours": neighbours}
    check("yetiloss", expected, *problem(14), metric, 6, map_delta="catboost", **options)


def test_the_weights_of_catboost_are_not_the_change_of_average_precision():
    """Labels 0, 1: 1 / 1 as CatBoost weighs it, against 1 / 1 - 1 / 2; labels 0, 1, 1: 1 + 1/2 for the outer two."""
    push = 1 / (1 + np.exp(-1.0))
    two = {
        delta: gradients(
            "yetiloss", [1, 0], [0, 1], group=[2], metric="map", noise="none", map_delta=delta
        )[0][0]
        for delta in ("exact", "catboost")
    }
    assert two == pytest.approx({"exact": push / 2, "catboost": push})
    scores, options = (
        [2, 1, 0],
        {"metric": "map", "noise": "none", "map_delta": "catboost", "neighbours": 2},
    )
    grad, _ = gradients("yetiloss", scores, [0, 1, 1], group=[3], **options)
    assert grad[0] == pytest.approx(push + 1.5 / (1 + np.exp(-2.0)))


def test_the_weights_of_catboost_where_no_document_is_relevant():
    grad, _ = gradients(
        "yetiloss", [1, 0], [0, 1], group=[2], metric="map(threshold=2)", map_delta="catboost"
    )
    assert grad.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("metric", ["ndcg", "err", "mrr"])
def test_the_weights_of_catboost_belong_to_metrics_that_count(metric):
    with pytest.raises(
        ValueError, match=f"count relevant documents, such as map, and {metric} does not"
    ):
        gradients("yetiloss", [1, 0], [0, 1], group=[2], metric=metric, map_delta="catboost")
    with pytest.raises(ValueError, match="yetirank: map_delta has no meaning"):
        gradients("yetirank", [1, 0], [0, 1], group=[2], metric="map", map_delta="catboost")


@pytest.mark.parametrize("neighbours", [1, 2])
def test_changes_of_mrr_against_those_the_paper_prints(neighbours):
    """The paper's change is exact for adjacent documents, and not where a relevant one lies between the two."""
    scores, labels = np.array([3.0, 2, 1]), [0, 1, 1]
    grad, _ = gradients(
        "yetiloss", scores, labels, group=[3], metric="mrr", noise="none", neighbours=neighbours
    )
    printed = {(0, 1): 1 - 1 / 2, (0, 2): 1 - 1 / 3}
    exact = {(0, 1): 1 - 1 / 2, (0, 2): 1 - 1 / 2}
    pushes = [
        -sum(
            weight / (1 + np.exp(scores[j] - scores[0]))
            for (_, j), weight in one.items()
            if j <= neighbours
        )
        for one in (printed, exact)
    ]
    assert grad[0] == pytest.approx(-pushes[1])
    assert (pushes[0] == pytest.approx(pushes[1])) == (neighbours == 1)


def test_yetirank_weighs_by_the_upper_position():
    """Eq. (11) has b^(p_i - 1) of the better document; eq. (13) and the text after it have the upper one of the two."""
    grad, _ = gradients("yetirank", [1.0, 0.0], [0, 1], group=[2], noise="none")
    push = 1 / (1 + np.exp(-1.0))
    assert grad[0] == pytest.approx(0.15 * push)
    assert grad[0] != pytest.approx(0.85 * 0.15 * push), "position 2 of the better document"


def test_ndcg_loss1_leaves_out_pairs_of_equal_labels():
    """The framework's sum has every pair of i and j, with the weight of i; here only pairs of different labels push."""
    grad, _ = gradients("lambdaloss", [2.0, 1.0, 0.0], [1, 1, 0], group=[3], variant="ndcg-loss1")
    ideal = 1 + 1 / np.log2(3)
    push = [1 / ideal / (1 + np.exp(2.0)), 1 / np.log2(3) / ideal / (1 + np.exp(1.0))]
    np.testing.assert_allclose(grad, [-push[0], -push[1], sum(push)])


def test_yetirank_is_yetiloss_for_expdcg():
    scores, labels = problem(15)

    def expected(z, r, q):
        noisy = [np.asarray(z) + drawn("logistic", len(z), q, 0, sample) for sample in range(10)]
        return oracle.yeti(z, r, "expdcg", noisy, 1)

    check("yetirank", expected, scores, labels, "map")


@pytest.mark.parametrize("normalize", [False, True])
def test_long_queries(normalize):
    """Rows are cut into stretches of 1024 pairs and scores sorted by counting: both need longer queries."""
    random = np.random.default_rng(16)
    n, tau = 2100, 3
    scores, labels = random.normal(size=n), random.integers(0, 3, n).astype(float)
    order = np.argsort(-scores)
    z, y = scores[order], labels[order]
    gain, weight = 2**y - 1, 1 / np.log2(np.arange(n) + 2)
    i, j = np.triu_indices(n, 1)
    counts = (i < tau) & (y[i] != y[j])
    i, j = i[counts], j[counts]
    delta = np.abs((weight[i] - weight[j]) * (gain[i] - gain[j]))
    if normalize:
        delta /= 0.01 + z[i] - z[j]
    p = 1 / (1 + np.exp((z[i] - z[j]) * np.sign(y[i] - y[j])))
    push = delta * p * np.sign(y[i] - y[j])
    curv = delta * p * (1 - p)
    if normalize:
        size = 2 * np.abs(push).sum()
        push, curv = push * np.log2(1 + size) / size, curv * np.log2(1 + size) / size
    bound = bind("lambdamart", labels, group=[n], metric="dcg", truncation=tau, normalize=normalize)
    grad, hess = bound(scores)
    np.testing.assert_allclose(
        grad[order], np.bincount(j, push, n) - np.bincount(i, push, n), rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(
        hess[order], np.bincount(i, curv, n) + np.bincount(j, curv, n), rtol=1e-9
    )
    leaf = random.integers(0, 3, n)
    between = np.zeros((3, 3))
    a, b = leaf[order][i], leaf[order][j]
    for rows, columns, sign in ((a, a, 1), (b, b, 1), (a, b, -1), (b, a, -1)):
        np.add.at(between, (rows, columns), sign * curv)
    np.testing.assert_allclose(bound.leaf_system(scores, leaf, 3)[1], between, rtol=1e-9)


@pytest.mark.parametrize("metric", ["ndcg", "ndcg@1500", "err", "map"])
def test_neighbours_in_a_list_of_several_stretches(metric):
    """2600 documents are worked on in three stretches; pairs across their edges count like the others."""
    rng = np.random.default_rng(4)
    n, reach = 2600, 3
    labels = rng.permutation(
        np.where(np.arange(n) % 40 == 0, rng.integers(1, 5, n), 0)
    )  # few, so states last
    scores = rng.normal(size=n)
    order = np.argsort(-scores, kind="stable")
    r = labels[order]
    at = int(metric.split("@")[1]) if "@" in metric else n
    discount = np.where(np.arange(n) < at, 1 / np.log2(np.arange(n) + 2.0), 0.0)

    def worth(i, window):
        """What positions i, i + 1, ... contribute with these labels, given those above."""
        if metric.startswith("ndcg"):
            best = np.sort(labels)[::-1]
            return np.dot(2.0**window - 1, discount[i : i + len(window)]) / np.dot(
                2.0**best - 1, discount
            )
        total, state = 0.0, before[i]
        for k, label in enumerate(window):
            if metric == "err":
                gain = (2.0**label - 1) / 16
                total += state * gain / (i + k + 1)
                state *= 1 - gain
            else:
                state += label > 0
                total += (label > 0) * state / (i + k + 1) / np.sum(labels > 0)
        return total

    if metric == "err":
        before = np.concatenate(([1.0], np.cumprod(1 - (2.0**r - 1) / 16)))
    else:
        before = np.concatenate(([0.0], np.cumsum(r > 0)))
    expected = np.zeros(n)
    for i in range(n):
        for j in range(i + 1, min(i + reach + 1, n)):
            if r[i] == r[j]:
                continue
            swapped = r[i : j + 1].copy()
            swapped[[0, -1]] = swapped[[-1, 0]]
            weight = abs(worth(i, swapped) - worth(i, r[i : j + 1]))
            up, down = (i, j) if r[i] > r[j] else (j, i)
            push = weight / (1 + np.exp(scores[order[up]] - scores[order[down]]))
            expected[order[up]] -= push
            expected[order[down]] += push
    grad, _ = gradients(
        "yetiloss", scores, labels, group=[n], metric=metric, noise="none", neighbours=reach
    )
    assert grad == pytest.approx(expected, abs=1e-13)
