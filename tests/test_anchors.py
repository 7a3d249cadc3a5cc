"""The losses of single documents: against numerical derivatives, by hand, and as anchors across queries."""

import numpy as np
import pytest

import objective_oracles as oracle
import rankwright as rw
from rankwright.objectives import bind, gradients, objective

SCORES, LABELS = [0.3, -1.2, 2.0, 0.0, 5.0], [2, 0, 1, 0, 3]


def cross_entropy(z, relevant):
    return np.sum(np.log1p(np.exp(z)) - relevant * z)


LOSSES = {
    "rmse": lambda z: 0.5 * np.sum((z - np.array(LABELS)) ** 2),
    "logistic": lambda z: cross_entropy(z, np.array(LABELS) >= 1),
    "logistic(threshold=2)": lambda z: cross_entropy(z, np.array(LABELS) >= 2),
}


@pytest.mark.parametrize("text", LOSSES)
def test_gradient_and_curvature_are_derivatives_of_the_loss(text):
    grad, hess = gradients(text, SCORES, LABELS, group=[2, 3])
    np.testing.assert_allclose(grad, oracle.slopes(LOSSES[text], SCORES), atol=1e-7)
    step = 1e-5
    for i in range(len(SCORES)):
        ends = [np.array(SCORES) + sign * step * np.eye(len(SCORES))[i] for sign in (1, -1)]
        slopes = [oracle.slopes(LOSSES[text], list(end))[i] for end in ends]
        assert hess[i] == pytest.approx((slopes[0] - slopes[1]) / (2 * step), abs=1e-4)


def test_worked_examples():
    grad, hess = gradients("rmse", [1, 0, 2], [3, 0, 0], group=[1, 2])
    assert (grad.tolist(), hess.tolist()) == ([-2, 0, 2], [1, 1, 1])
    grad, hess = gradients(
        "logistic", [np.log(3), -np.log(3)], [1, 1], group=[2]
    )  # p = 3/4 and 1/4
    np.testing.assert_allclose(grad, [-1 / 4, -3 / 4], rtol=1e-14)
    np.testing.assert_allclose(hess, [3 / 16, 3 / 16], rtol=1e-14)


def test_small_probabilities_keep_their_digits():
    grad, hess = gradients("logistic", [-600.0, 600.0], [0, 1], group=[2])
    np.testing.assert_allclose(grad[0], np.exp(-600), rtol=1e-12)
    np.testing.assert_allclose(hess, np.exp(-600), rtol=1e-12)


@pytest.mark.parametrize("text", ["rmse", "logistic"])
def test_leaves_of_single_documents_are_not_coupled(text):
    leaf, weight = np.array([0, 1, 1, 2, 0]), np.array([2.0, 0.5])
    bound = bind(text, LABELS, group=[2, 3])
    g, h = bound.leaf_system(SCORES, leaf, 3, query_weight=weight)
    grad, hess = bound(SCORES)
    rows = np.repeat(weight, [2, 3])
    np.testing.assert_allclose(g, np.bincount(leaf, rows * grad))
    np.testing.assert_allclose(h, np.diag(np.bincount(leaf, rows * hess)))


@pytest.mark.parametrize("leaf_values", ["diagonal", "full"])
def test_trees_reach_the_level_of_labels(leaf_values):
    """Queries of equal labels: no ranking loss sees anything, and the mean of the labels of each kind is learnt."""
    kind = np.repeat(np.arange(40) % 2, 5).astype(float)
    data = rw.RankingData(
        kind[:, None], np.where(kind == 1, 3.0, 1.0), qid=np.repeat(np.arange(40), 5)
    )
    options = {
        "n_estimators": 150,
        "learning_rate": 0.1,
        "min_child_samples": 5,
        "subsample": 1.0,
        "reg_lambda": 1e-3,
    }
    ranker = rw.Ranker("rmse", leaf_values=leaf_values, n_jobs=1, verbose=0, **options).fit(data)
    np.testing.assert_allclose(ranker.predict(np.array([[0.0], [1.0]])), [1, 3], atol=1e-2)


def test_an_anchor_makes_scores_comparable_across_queries():
    """Queries differ in how many documents are relevant; their own features say so."""
    random = np.random.default_rng(0)
    level = np.repeat(random.random(150), 12)
    x = random.random(1800)
    y = (random.random(1800) < np.clip(0.9 * level * (0.4 + x), 0, 1)).astype(int)
    data = rw.RankingData(np.column_stack([x, level]), y, qid=np.repeat(np.arange(150), 12))
    train, test = data.split(0.4)

    def concordance(text):
        """Share of pairs of documents of any queries that are in the order of relevance."""
        ranker = rw.Ranker(
            text, metric="ndcg@5", n_estimators=60, min_child_samples=20, n_jobs=1, verbose=0
        ).fit(train)
        scores = ranker.predict(test)
        return np.mean(scores[test.y == 1][:, None] > scores[test.y == 0][None])

    alone = concordance("yetiloss")
    assert concordance("yetiloss + 0.3 logistic") > alone + 0.05
    assert concordance("yetiloss + 0.3 rmse") > alone + 0.05


def test_text_and_refusals():
    assert (
        str(objective("yetiloss + 0.5 logistic(threshold=2)"))
        == "yetiloss + 0.5 logistic(threshold=2)"
    )
    assert objective("rmse") == rw.objectives.RMSE()
    assert objective("ranknet + rmse").capabilities.absolute
    assert not objective("ranknet + queryrmse").capabilities.absolute
    for threshold in (0, -1, float("nan"), "high"):
        with pytest.raises(ValueError, match="logistic: threshold must be a number, above 0"):
            rw.objectives.Logistic(threshold=threshold)
