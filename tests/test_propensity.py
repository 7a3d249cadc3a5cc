"""Known propensities: inverse weights of clicked documents, in every objective."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import objective_oracles as oracle
import own_objective  # noqa: F401  (defines the objective "own-loss")
from rankwright import Ranker, RankingData, gradients
from rankwright.data.queries import Queries
from rankwright.kernels.random import stream_of
from rankwright.objectives import OBJECTIVES, bind, load_objective, objective
from test_laws import LABELS, QID, ROWS, SCORES, TEXTS, assert_close, assert_equal, metrics_for, run

PROPENSITY = np.random.default_rng(7).integers(1, 9, ROWS) / 8
every_text = pytest.mark.parametrize("name", TEXTS)
EXCHANGE = 1 - 1 / math.log2(3)
E = math.e / (1 + math.e)

# Two documents at equal scores, the first clicked and seen with probability 1/2: what its weight of 2 does.
WORKED = {
    "ranknet": ("ndcg", -2 * 0.5, 2 * 0.25),
    "lambdamart": ("ndcg", -2 * 0.5 * EXCHANGE, 2 * 0.25 * EXCHANGE),
    "lambdaloss(variant=ndcg-loss1)": ("ndcg", -2 * 0.5, 2 * 0.25),
    "yetiloss(noise=none)": ("ndcg", -2 * 0.5 * EXCHANGE, 2 * 0.25 * EXCHANGE),
    "yetirank(noise=none)": ("ndcg", -2 * 0.5 * 0.15, 2 * 0.25 * 0.15),
    # u phi = 2 * 2/3 and 1/3, which sum to 5/3
    "xendcg(gamma=0, newton=false)": ("ndcg", 5 / 3 * 0.5 - 4 / 3, 5 / 3 * 0.25),
    "listnet": ("ndcg", (1 + E) * 0.5 - 2 * E, (1 + E) * 0.25),
    "queryrmse": ("ndcg", -(2 - 1), 1),  # the label counts as 2, and the mean is 1
    "softrank": ("precision@1", -2 * 0.5 / math.sqrt(math.pi), 1),
    "stochasticrank(sfa=false, estimations=2000)": ("dcg", None, 1),
}


def test_every_objective_has_a_worked_example() -> None:
    assert {objective(text).name for text in WORKED} | ANCHORS.keys() == set(OBJECTIVES) - {
        "own-loss"
    }


# Losses of single documents: the label counts as 2, and the other document's as 0.
ANCHORS = {"rmse": ([-2, 0], 1), "logistic": ([0.5 - 2, 0.5], 0.25)}


@pytest.mark.parametrize("text", ANCHORS)
def test_worked_examples_of_single_documents(text: str) -> None:
    grad, hess = gradients(text, [0, 0], [1, 0], group=[2], propensity=[0.5, 0.25])
    assert grad.tolist() == ANCHORS[text][0]
    assert hess.tolist() == [ANCHORS[text][1]] * 2


@pytest.mark.parametrize("text", WORKED)
def test_worked_examples(text: str) -> None:
    metric, expected_grad, expected_hess = WORKED[text]
    grad, hess = gradients(text, [0, 0], [1, 0], group=[2], metric=metric, propensity=[0.5, 0.25])
    if (
        expected_grad is None
    ):  # E DCG = gain (1/log2(3) + exchange Phi(d / sqrt(2))), whose slope is 1 / sqrt(4 pi)
        expected_grad = -2 * EXCHANGE / math.sqrt(4 * math.pi)
        np.testing.assert_allclose(grad, [expected_grad, -expected_grad], rtol=0.05)
    else:
        np.testing.assert_allclose(
            grad, [expected_grad, -expected_grad], rtol=1e-9
        )  # xendcg has an epsilon
    np.testing.assert_allclose(hess, [expected_hess] * 2, rtol=1e-9)


# Oracles.


def noisy(z: list[float], key: int, n: int) -> list[list[float]]:
    stream = int(stream_of(5, 3, 0))
    return [
        (np.array(z) + oracle.noise("logistic", len(z), stream, int(key), i)).tolist()
        for i in range(n)
    ]


ORACLES: dict[str, tuple[str, Any]] = {
    "ranknet(sigma=2)": ("ndcg", None),
    "lambdamart": ("err@3", lambda z, r, u, key: oracle.lambdas(z, r, "err", inverse=u)),
    "lambdamart(normalize=true)": (
        "map",
        lambda z, r, u, key: oracle.lambdas(z, r, "map", normalize=True, inverse=u),
    ),
    "lambdaloss": (
        "ndcg",
        lambda z, r, u, key: oracle.lambdas(z, r, "ndcg", variant="ndcg-loss2++", inverse=u),
    ),
    "yetiloss(neighbours=3, permutations=4)": (
        "err",
        lambda z, r, u, key: oracle.yeti(z, r, "err", noisy(z, key, 4), 3, u),
    ),
}


@pytest.mark.parametrize("text", ORACLES)
def test_pairs_weigh_by_their_better_document(text: str) -> None:
    metric, expected = ORACLES[text]
    if text.startswith("ranknet"):

        def expected(z: Any, r: Any, u: Any, key: object) -> Any:
            return oracle.pair_losses(z, r, np.reshape(u, (-1, 1)) * np.ones(len(z)), 2.0)

    bound = bind(text, LABELS, qid=QID, metric=metric, random_state=5, propensity=PROPENSITY)
    grad, hess = bound(SCORES, 3)
    inverse = np.where(LABELS > 0, 1 / PROPENSITY, 1.0)
    keys = Queries.of(ROWS, QID, None).keys
    g, h = np.zeros(ROWS), np.zeros((ROWS, ROWS))
    for q in range(QID.max() + 1):
        rows = np.flatnonzero(q == QID)
        part = expected(
            SCORES[rows].tolist(), LABELS[rows].tolist(), inverse[rows].tolist(), keys[q]
        )
        np.testing.assert_allclose(grad[rows], part[0], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(hess[rows], part[1], rtol=1e-9, atol=1e-12)
        g[rows], h[np.ix_(rows, rows)] = part[0], part[2]
    leaf = np.arange(ROWS) % 4
    member = np.eye(4)[leaf]
    for system in (
        bound.leaf_system(SCORES, leaf, 4, 3),
        bound.at(SCORES, 3, leaves=True).leaf_system(leaf, 4),
    ):
        np.testing.assert_allclose(system[0], member.T @ g, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(system[1], member.T @ h @ member, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "text", ["xendcg(gamma=0.5, newton=false, epsilon=0.1)", "listnet", "queryrmse"]
)
def test_losses_of_a_list(text: str) -> None:
    """Gradients are the slopes of the weighted losses, and the leaf system has their curvature."""
    inverse = np.where(LABELS > 0, 1 / PROPENSITY, 1.0)

    def loss(z: np.ndarray) -> float:
        total = 0.0
        for q in range(QID.max() + 1):
            rows = np.flatnonzero(q == QID)
            r, u, epsilon = LABELS[rows], inverse[rows], 0.1 if text.startswith("xendcg") else 0.0
            if text == "queryrmse":
                x = z[rows] - u * r
                total += 0.5 * float(np.square(x - x.mean()).sum())
                continue
            phi = (
                np.exp(r) / np.exp(r).sum()
                if text == "listnet"
                else (2**r - 0.5) / (2**r - 0.5).sum()
            )
            weight = np.exp(z[rows] - z[rows].max())
            total -= float(np.sum(u * phi * np.log(weight / (weight.sum() + epsilon))))
        return total

    bound = bind(text, LABELS, qid=QID, propensity=PROPENSITY)
    if text.startswith(
        "xendcg"
    ):  # rho with epsilon has more curvature than the softmax that stands in for it
        scores, tolerance = SCORES, 0.1
    else:
        scores, tolerance = SCORES, 1e-5
    grad, _ = bound(scores)
    if not text.startswith("xendcg"):
        np.testing.assert_allclose(grad, oracle.slopes(loss, scores), rtol=1e-5, atol=1e-7)
    _, between = bound.leaf_system(scores, np.arange(ROWS), ROWS)
    step = 1e-5
    for row in range(0, ROWS, 5):
        nudge = step * np.eye(ROWS)[row]
        column = (bound(scores + nudge)[0] - bound(scores - nudge)[0]) / (2 * step)
        np.testing.assert_allclose(
            between[row], column, rtol=tolerance, atol=tolerance * np.abs(column).max()
        )


# Laws.


def weighed(name: str, metric: str = "ndcg@3", **options: Any) -> Any:
    return run(name, metric, **{"propensity": PROPENSITY, **options})


@every_text
def test_propensities_of_1_change_no_bit(name: str) -> None:
    assert_equal(weighed(name, propensity=np.ones(ROWS)), run(name, "ndcg@3"))


@every_text
def test_declared_and_true(name: str) -> None:
    assert objective(name).capabilities.uses_propensity
    assert not np.array_equal(weighed(name)[0], run(name, "ndcg@3")[0])
    grad, hess = weighed(name)
    assert np.isfinite([grad, hess]).all()
    assert (hess[grad != 0] > 0).all()


@every_text
def test_documents_that_were_not_clicked_weigh_the_same(name: str) -> None:
    other = np.where(LABELS > 0, PROPENSITY, 0.01)
    assert_equal(weighed(name, propensity=other), weighed(name))


@every_text
def test_half_the_propensity_is_twice_the_weight(name: str) -> None:
    """Where every term of the loss belongs to one clicked document, and no normalisation follows."""
    value = objective(name)
    linear = {
        "ranknet",
        "lambdamart",
        "lambdaloss",
        "yetiloss",
        "yetirank",
        "softrank",
        "stochasticrank",
    }
    if value.name in linear and "normalize" not in name:
        grad, _ = run(name, "ndcg@3")
        assert_equal((weighed(name, propensity=np.full(ROWS, 0.5))[0],), (2 * grad,))


@every_text
def test_rows_threads_and_shifts(name: str) -> None:
    whole = weighed(name, n_jobs=1)
    assert_equal(weighed(name, n_jobs=3), whole)
    order = np.argsort(np.random.default_rng(1).random(ROWS))
    for q in range(QID.max() + 1):
        order[QID[order] == q] = np.flatnonzero(q == QID)
    mixed = run(
        name, "ndcg@3", SCORES[order], LABELS[order], qid=QID[order], propensity=PROPENSITY[order]
    )
    assert_equal(mixed, (whole[0][order], whole[1][order]))
    if not objective(name).capabilities.absolute:
        assert_close(weighed(name, scores=SCORES + np.array([3.0, -2, 0.5, 40, -40])[QID]), whole)


@pytest.mark.parametrize(
    "name",
    [text for text in TEXTS if text != "xendcg" and not objective(text).capabilities.absolute],
)
def test_the_gradient_of_a_query_sums_to_zero(name: str) -> None:
    grad, _ = weighed(name)
    for q in range(QID.max() + 1):
        assert abs(grad[q == QID].sum()) <= 1e-9 * np.abs(grad[q == QID]).sum()


def test_clipped_and_self_normalised() -> None:
    clipped = weighed("ranknet", clip=0.5)
    assert_equal(clipped, weighed("ranknet", propensity=np.maximum(PROPENSITY, 0.5)))
    inverse = 1 / PROPENSITY[LABELS > 0]
    normalised = weighed("ranknet", self_normalised=True)
    assert_close(normalised, tuple(part / inverse.mean() for part in weighed("ranknet")))


# The expectation over what users see: every outcome with its probability.

SEEN = [0.9, 0.5, 0.4, 0.25]
AT = [0.3, -0.2, 0.1, 0.6]


def expected(text: str, relevance: list[int], metric: str) -> np.ndarray:
    """Mean gradient over all subsets of documents that users may see, from clicks and propensities."""
    mean = np.zeros(len(relevance))
    for seen in itertools.product([0, 1], repeat=len(relevance)):
        chance = math.prod(p if s else 1 - p for p, s in zip(SEEN, seen, strict=True))
        clicks = [r * s for r, s in zip(relevance, seen, strict=True)]
        mean += (
            chance
            * gradients(
                text, AT, clicks, group=[4], metric=metric, propensity=SEEN, random_state=2
            )[0]
        )
    return mean


def with_labels(text: str, relevance: list[int], metric: str) -> np.ndarray:
    return gradients(text, AT, relevance, group=[4], metric=metric, random_state=2)[0]


PAIRS = ["ranknet", "lambdamart", "lambdaloss", "lambdamart(noise=gumbel)", "yetiloss", "yetirank"]


@pytest.mark.parametrize("text", PAIRS)
@pytest.mark.parametrize("metric", ["ndcg", "dcg", "ndcg@2"])
def test_pairs_are_unbiased_with_one_relevant_document(text: str, metric: str) -> None:
    for best in range(4):
        relevance = [int(a == best) for a in range(4)]
        wanted = with_labels(text, relevance, metric)
        np.testing.assert_allclose(expected(text, relevance, metric), wanted, rtol=1e-9, atol=1e-12)


def test_pairs_of_two_relevant_documents_are_not() -> None:
    """A relevant document that nobody saw counts as worse: (1 - p_b) of the pair a > b remains."""
    relevance = [1, 1, 0, 0]
    remainder = np.zeros(4)
    for a, b in ((0, 1), (1, 0)):
        weight = np.zeros((4, 4))
        weight[a, b] = 1 - SEEN[b]
        labels = [0.0] * 4
        labels[a] = 1.0
        remainder += oracle.pair_losses(AT, labels, weight)[0]
    wanted = with_labels("ranknet", relevance, "ndcg") + remainder
    np.testing.assert_allclose(expected("ranknet", relevance, "ndcg"), wanted, rtol=1e-9)


@pytest.mark.parametrize(
    "text", ["softrank", "stochasticrank", "stochasticrank(sfa=false, estimator=reinforce)"]
)
@pytest.mark.parametrize("metric", ["dcg", "dcg@2", "rbp", "precision@2"])
def test_smoothed_metrics_are_unbiased_where_they_add_up(text: str, metric: str) -> None:
    for relevance in ([1, 0, 0, 0], [0, 1, 1, 0], [1, 1, 1, 0]):
        wanted = with_labels(text, relevance, metric)
        np.testing.assert_allclose(expected(text, relevance, metric), wanted, rtol=1e-9, atol=1e-12)


def test_a_normaliser_that_clicks_decide_about_is_not_unbiased() -> None:
    relevance = [0, 1, 1, 0]
    assert (
        np.abs(
            expected("softrank", relevance, "ndcg") - with_labels("softrank", relevance, "ndcg")
        ).max()
        > 0.01
    )


def test_squared_error_is_unbiased_up_to_lists_without_a_click() -> None:
    """These give zeros; a mean over all lists would pull the scores together."""
    relevance = [0, 1, 1, 0]
    none = (1 - SEEN[1]) * (1 - SEEN[2])
    wanted = with_labels("queryrmse", relevance, "ndcg") - none * (np.array(AT) - np.mean(AT))
    np.testing.assert_allclose(expected("queryrmse", relevance, "ndcg"), wanted, rtol=1e-9)


@pytest.mark.parametrize("text", ["xendcg(gamma=0.5, newton=false)", "listnet"])
def test_softmax_is_not_unbiased(text: str) -> None:
    """Documents without a click have a share of the target, and shares are relative to those of the others."""
    difference = expected(text, [0, 1, 0, 0], "ndcg") - with_labels(text, [0, 1, 0, 0], "ndcg")
    assert np.abs(difference).max() > 0.01


# Training.


def log() -> RankingData:
    random = np.random.default_rng(0)
    X = random.normal(size=(600, 3))
    position = np.tile(np.arange(1, 7), 100)
    clicks = (random.random(600) < 1 / position) & (X[:, 0] + 0.3 * random.normal(size=600) > 0)
    fields = {"position": position, "seen": 1 / position}
    return RankingData(X, clicks.astype(float), qid=np.repeat(np.arange(100), 6), fields=fields)


def quick(**options: Any) -> Ranker:
    return Ranker(
        **{"objective": "lambdamart", "n_estimators": 4, "verbose": 0, "n_jobs": 1, **options}
    )


@pytest.mark.parametrize("name", ["auto", "lambdamart", "stochasticrank"])
def test_training_uses_them(name: str, tmp_path: Path) -> None:
    data = log()
    one = quick(objective=name).fit(data, propensity="seen")
    assert one.forest_.dump() != quick(objective=name).fit(data).forest_.dump()
    frame_like = quick(objective=name).fit(data, propensity=data.fields["seen"])
    assert frame_like.forest_.dump() == one.forest_.dump()
    ones = quick(objective=name).fit(data, propensity=np.ones(data.n_rows))
    assert ones.forest_.dump() == quick(objective=name).fit(data).forest_.dump()
    clipped = quick(objective=name).fit(data, propensity=np.maximum(data.fields["seen"], 0.3))
    assert (
        quick(objective=name).fit(data, propensity="seen", clip=0.3).forest_.dump()
        == clipped.forest_.dump()
    )


def test_a_checkpoint_belongs_to_its_propensities(tmp_path: Path) -> None:
    data = log()
    quick(checkpoint=tmp_path / "save").fit(data, propensity="seen")
    for options in (
        {},
        {"propensity": "seen", "clip": 0.3},
        {"propensity": 0.5 * data.fields["seen"]},
    ):
        with pytest.raises(ValueError, match="holds a checkpoint of another training"):
            quick(checkpoint=tmp_path / "save").fit(data, **options)


def test_position_and_propensity_together() -> None:
    ranker = quick().fit(log(), position="position", propensity="seen", self_normalised=True)
    assert list(ranker.position_bias_) == ["position"]


def changed(value: float) -> np.ndarray:
    values = log().fields["seen"].copy()
    values[8] = value
    return values


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"propensity": changed(0.0)},
            "the propensity is 0.0 at row 8, query 1; it is the probability .* above 0",
        ),
        ({"propensity": changed(1.5)}, "the propensity is 1.5 at row 8, query 1; .* up to 1"),
        ({"propensity": changed(1 + 1e-7)}, "the propensity is 1.0000001 at row 8"),
        (
            {"propensity": np.full(600, 1e-320)},
            "the propensity is 1e-320 at row .*too small to divide by; limit it with",
        ),
        ({"propensity": np.full(600, "often")}, "propensity must hold numbers"),
        ({"propensity": changed(np.nan)}, "the propensity is missing at row 8"),
        ({"propensity": "sen"}, "'sen' is not a field of the RankingData"),
        ({"propensity": [0.5]}, r"the field 'propensity' has shape \(1,\) for 600 rows"),
        ({"propensity": ["seen", "position"]}, "propensity is one column"),
        (
            {"propensity": "seen", "clip": 0},
            "clip is the least propensity to divide by, above 0 and up to 1",
        ),
        ({"clip": 0.1}, "clip is for propensities, and there are none"),
        ({"self_normalised": True}, "self_normalised is for propensities"),
    ],
)
def test_refusals(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        quick().fit(log(), **options)


def test_objectives_that_cannot_are_named() -> None:
    for text in ("own-loss", "lambdamart + own-loss"):
        with pytest.raises(ValueError, match="propensity cannot be used with"):
            bind(text, [1, 0], group=[2], propensity=[0.5, 1])
    with pytest.raises(ValueError, match=r"propensity has shape \(3,\) for 2 rows"):
        bind("ranknet", [1, 0], group=[2], propensity=[0.5, 1, 1])
    assert {name for name in OBJECTIVES if name != "own-loss"} == {
        name for name in OBJECTIVES if load_objective(name).declared.uses_propensity
    }
    assert metrics_for("ranknet")  # the grid of the laws is the one used above
