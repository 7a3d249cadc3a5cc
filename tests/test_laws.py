"""What holds for every objective with every metric."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import own_metric  # noqa: F401  (defines the metric "own")
from rankwright.data.queries import Queries
from rankwright.metrics import metric as parse_metric
from rankwright.objectives import OBJECTIVES, Capabilities, bind, objective
from rankwright.objectives.gradient import LeafSums, Problem

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
ADDITIVE = ["ndcg", "ndcg@3", "dcg", "rbp", "expdcg"]
# Options that deserve a place in the grid; an objective without any has its defaults there.
VARIANTS = {
    "lambdamart": [
        "lambdamart",
        "lambdamart(truncation=3, sigma=2)",
        "lambdamart(normalize=true)",
        "lambdamart(truncate_delta=true)",
        "lambdamart(truncation=2, extend=static)",
        "lambdamart(truncation=2, extend=random)",
        "lambdamart(truncation=2, extend=all)",
        "lambdamart(truncation=2, extend=all-static, selection=quota)",
        "lambdamart(truncation=2, extend=all-random, selection=quota)",
        "lambdamart(noise=gumbel, strength=0.3, samples=2)",
    ],
    "lambdaloss": [
        "lambdaloss",
        "lambdaloss(variant=ndcg-loss1, truncation=3)",
        "lambdaloss(variant=ndcg-loss2)",
        "lambdaloss(truncation=2, extend=random)",
    ],
    "yetiloss": [
        "yetiloss",
        "yetiloss(noise=none, neighbours=3)",
        "yetiloss(noise=gaussian, neighbours=all, permutations=2)",
    ],
    "stochasticrank": [
        "stochasticrank(estimations=2)",
        "stochasticrank(sigma=0.5, mu=0.5, sfa=false)",
        "stochasticrank(estimator=reinforce, estimations=8, nu=1)",
    ],
    "softrank": ["softrank", "softrank(sigma=0.3)"],
    "xendcg": ["xendcg", "xendcg(gamma=0.5, newton=false)"],
    "logistic": ["logistic", "logistic(threshold=2)"],
}
SINGLE = [text for name in OBJECTIVES for text in VARIANTS.get(name, [name])]
TEXTS = [*SINGLE, "lambdamart + 0.5 n^-0.5 queryrmse", "lambdamart + 0.1 rmse + 0.2 logistic"]
RANDOM = [text for text in TEXTS if objective(text).capabilities.stochastic]


def metrics_for(text):
    """Metrics of the grid that an objective says it can be used with; one if it does not look at them."""
    value = objective(text)
    if not value.capabilities.uses_metric:
        return ["ndcg"]
    return ADDITIVE if value.capabilities.additive_only else METRICS


def learns_alike(text):
    """Whether an objective can learn a metric that weighs all positions alike: its cutoff alone decides."""
    return (
        objective(text).capabilities.uses_metric
        and "extend=" not in text
        and "variant=ndcg-loss2)" not in text
    )


GRID = [(text, metric) for text in TEXTS for metric in metrics_for(text)]
GRID += [(text, "precision@1") for text in TEXTS if learns_alike(text)]
every_case = pytest.mark.parametrize(("name", "metric"), GRID)
# What looks at the level of scores does not balance; neither does a step of Newton's method.
RELATIVE = [case for case in GRID if not objective(case[0]).capabilities.absolute]
every_relative_case = pytest.mark.parametrize(("name", "metric"), RELATIVE)
every_balanced_case = pytest.mark.parametrize(
    ("name", "metric"), [case for case in RELATIVE if case[0] != "xendcg"]
)
every_absolute_case = pytest.mark.parametrize(
    ("name", "metric"), [case for case in GRID if case not in RELATIVE]
)
every_fixed_case = pytest.mark.parametrize(
    ("name", "metric"), [case for case in GRID if case[0] not in RANDOM]
)

SIZES = [2, 5, 12, 8, 6]
ROWS = sum(SIZES)
QID = np.repeat(np.arange(len(SIZES)), SIZES)


def problem():
    """Labels start 0, 2 at the best scores: every metric can tell those two apart wherever its cutoff is."""
    random = np.random.default_rng(0)
    labels = np.concatenate([[0, 2, *random.integers(0, 5, n - 2)] for n in SIZES]).astype(float)
    labels[-4:] = [
        0,
        2,
        2,
        0,
    ]  # one positive label: Lambda-eX's hybrid strategies have to choose here
    scores = np.concatenate([np.sort(0.4 * random.normal(size=n))[::-1] for n in SIZES])
    order = np.concatenate(
        [
            start + random.permutation(n)
            for start, n in zip(np.cumsum([0, *SIZES[:-1]]), SIZES, strict=True)
        ]
    )
    return scores[order], labels[order]


SCORES, LABELS = problem()


def run(name, metric, scores=SCORES, labels=LABELS, iteration=3, **options):
    options = options if "qid" in options or "group" in options else {"qid": QID, **options}
    return bind(name, labels, metric=metric, random_state=5, **options)(scores, iteration)


def calls_of(gradient):
    """Results of a bound objective that are all still held: of calls, and of what training asks for."""
    results = [gradient(SCORES, iteration) for iteration in (0, 1)]
    for leaves in (False, gradient.objective.capabilities.full_curvature):
        point = gradient.at(SCORES, 2, leaves=leaves)
        results.append((point.grad, point.hess))
    return results


@pytest.mark.parametrize("grouped", [True, False])
@pytest.mark.parametrize("name", TEXTS)
def test_gradients_and_curvatures_share_no_memory(name, grouped):
    """Neither with one another, nor with an earlier result that is still held, nor with the scores."""
    qid = QID if grouped else np.random.default_rng(1).permutation(QID)
    metric = metrics_for(name)[0]
    gradient = bind(name, LABELS, metric=metric, random_state=5, qid=qid)
    held = [SCORES, *(array for result in calls_of(gradient) for array in result)]
    before = [array.copy() for array in held]
    gradient(-SCORES, 3)
    for number, array in enumerate(held):
        np.testing.assert_array_equal(array, before[number])
        assert not any(np.shares_memory(array, other) for other in held[:number])


@pytest.mark.parametrize("name", TEXTS)
def test_gradients_are_the_same_in_memory_that_is_given(name):
    """What an earlier iteration left there does not matter, and the two arrays are not mixed up."""
    gradient = bind(name, LABELS, metric=metrics_for(name)[0], random_state=5, qid=QID)
    memory = np.full(ROWS, np.nan), np.full(ROWS, 7.0)
    for iteration in (0, 1):
        point = gradient.at(SCORES, iteration, out=memory)
        assert point.grad is memory[0]
        assert point.hess is memory[1]
        assert_equal((point.grad, point.hess), gradient(SCORES, iteration))


def assert_equal(one, other):
    """Both gradient and curvature, bit by bit."""
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


def assert_close(one, other):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-10)


def differ(results):
    return any(not np.array_equal(results[0], other) for other in results[1:])


def sums_between_leaves(value):
    """Whether every term can add up the curvature between leaves, tried out below the check of what it declares."""
    queries = Queries.of(ROWS, QID, None)
    sums = LeafSums(
        np.ones(len(SIZES)), np.arange(ROWS) % 3, np.zeros(ROWS), np.zeros(ROWS), np.zeros((3, 3))
    )
    for _, _, term in value.terms():
        gradient = term.prepare(Problem(LABELS, queries, parse_metric("ndcg@3")))
        try:
            gradient.add_between_leaves(0, len(SIZES), SCORES, np.uint64(1), sums)
        except TypeError:
            return False
    assert np.abs(sums.between).max() > 0
    return True


def refuses_map(value):
    try:
        bind(value, LABELS, qid=QID, metric="map")
    except ValueError as error:
        return "metrics that add up over positions" in str(error)
    return False


SUMS = [
    "yetiloss + 0.5 queryrmse",
    "ranknet + listnet",
    "queryrmse + softrank",
    "softrank + stochasticrank",
]


@pytest.mark.parametrize("text", [*TEXTS, *SUMS])
def test_what_an_objective_declares_is_true(text):
    value = objective(text)
    can = value.capabilities
    at_iterations = [run(text, "ndcg@3", iteration=iteration)[0] for iteration in range(9)]
    assert can.stochastic is differ(at_iterations)
    assert can.uses_metric is differ([run(text, metric)[0] for metric in ADDITIVE])
    assert can.additive_only is refuses_map(value)
    shifted = run(text, "ndcg@3", SCORES + 3.0)[0] - run(text, "ndcg@3")[0]
    assert can.absolute is bool(np.abs(shifted).max() > 1e-6)
    assert can.full_curvature is sums_between_leaves(value)
    if len(value.terms()) == 1:
        flat = np.all(run(text, "ndcg@3")[1] == 1)
        assert can.first_order is bool(flat and not can.full_curvature)


def test_a_sum_has_what_its_terms_have():
    noisy, flat = objective("yetiloss + 0.5 queryrmse"), objective("queryrmse + softrank")
    assert noisy.capabilities == Capabilities(
        stochastic=True, full_curvature=True, uses_metric=True, uses_propensity=True
    )
    assert flat.capabilities == Capabilities(
        uses_metric=True, additive_only=True, uses_propensity=True
    )
    assert objective("softrank + stochasticrank").capabilities.first_order
    assert not objective("ranknet + listnet").capabilities.uses_metric


@every_case
def test_alive_and_curved(name, metric):
    """Something moves in every query, curvatures are not negative, and positive wherever something moves."""
    grad, hess = run(name, metric)
    for q in range(len(SIZES)):
        assert np.abs(grad[q == QID]).max() > 1e-6
    assert np.isfinite([grad, hess]).all()
    assert (hess >= 0).all()
    assert (hess[grad != 0] > 0).all()


@every_balanced_case
def test_the_gradient_of_a_query_sums_to_zero(name, metric):
    grad, _ = run(name, metric)
    for q in range(len(SIZES)):
        mine = grad[q == QID]
        assert abs(mine.sum()) <= 1e-9 * np.abs(mine).sum()


@every_relative_case
def test_a_shift_of_scores_changes_nothing(name, metric):
    shift = np.array([3.0, -2.0, 0.5, 4000.0, -4000.0])[QID]
    assert_close(run(name, metric, SCORES + shift), run(name, metric))


@every_fixed_case
def test_documents_in_another_order(name, metric):
    """Where nothing is drawn by document, a permutation of a query's rows permutes the result."""
    order = np.concatenate([np.flatnonzero(q == QID)[::-1] for q in range(len(SIZES))])
    grad, hess = run(name, metric)
    assert_close(run(name, metric, SCORES[order], LABELS[order]), (grad[order], hess[order]))


@every_case
def test_rows_of_queries_may_be_mixed(name, metric):
    """Rows sorted by query or not: the same bits, as long as each query's own rows keep their order."""
    order = np.argsort(np.random.default_rng(1).random(ROWS))
    for q in range(len(SIZES)):
        order[QID[order] == q] = np.flatnonzero(q == QID)
    grad, hess = run(name, metric)
    assert_equal(
        run(name, metric, SCORES[order], LABELS[order], qid=QID[order]), (grad[order], hess[order])
    )


@every_case
def test_batches_and_threads_change_no_bit(name, metric):
    """Queries do not see each other, and their draws depend on their id alone."""
    whole = run(name, metric, n_jobs=1)
    for threads in (2, 7):
        assert_equal(run(name, metric, n_jobs=threads), whole)
    for batches in ([[0], [1], [2], [3], [4]], [[4, 0, 2], [3, 1]]):
        for batch in batches:
            rows = np.flatnonzero(np.isin(QID, batch))
            part = run(name, metric, SCORES[rows], LABELS[rows], qid=QID[rows])
            assert_equal(part, (whole[0][rows], whole[1][rows]))


@every_case
def test_weights_multiply(name, metric):
    grad, hess = run(name, metric)
    by_row = np.random.default_rng(2).integers(0, 4, ROWS) / 2
    assert_equal(run(name, metric, sample_weight=by_row), (grad * by_row, hess * by_row))
    by_query = np.array([2.0, 0.0, 1.5, 1.0, 0.5])
    weighted = (grad * by_query[QID], hess * by_query[QID])
    assert_equal(run(name, metric, sample_weight=by_query), weighted)


@every_case
@pytest.mark.parametrize("size", [1e30, 1e300])
def test_scores_of_any_size(name, metric, size):
    """Alternating signs, with and against the labels."""
    for sign in (1, -1):
        for scores in (
            sign * size * np.where(LABELS > 1, 1.0, -1.0),
            sign * size * np.linspace(-1, 1, ROWS),
        ):
            grad, hess = run(name, metric, scores)
            assert np.isfinite([grad, hess]).all()
            assert (hess >= 0).all()
            assert (hess[grad != 0] > 0).all()


@every_absolute_case
def test_equal_labels_teach_the_level(name, metric):
    """Every document pulls towards its label, whatever the others of its query are; higher scores are pulled down."""
    sizes, labels = [1, 3, 2], np.array([2, 0, 0, 0, 2, 2], dtype=float)
    low, high = (
        run(name, metric, np.full(6, level), labels, group=sizes)[0] for level in (-3.0, 3.0)
    )
    assert (low[labels > 0] < 0).all()
    assert (high[labels == 0] > 0).all()
    assert (low < high).all()


@every_relative_case
def test_nothing_to_learn(name, metric):
    """One document, equal labels, nothing relevant, between two queries that teach something."""
    sizes = [2, 1, 3, 3, 2]
    labels = np.array([0, 2, 1, 1, 1, 1, 0, 0, 0, 2, 0], dtype=float)
    scores = np.array([0.5, 0.1, 0.4, 0.3, 0.2, 0.1, 3.0, 2.0, 1.0, 0.0, 0.2])
    grad, hess = run(name, metric, scores, labels, group=sizes)
    np.testing.assert_array_equal(grad[2:9], 0)
    np.testing.assert_array_equal(hess[2:9], 0)
    assert (hess[:2] > 0).all()
    assert (hess[9:] > 0).all()


@pytest.mark.parametrize("name", [text for text in SINGLE if metrics_for(text) is METRICS])
@pytest.mark.parametrize("metric", ["mrr(threshold=3)", "map(threshold=3)", "rbp(threshold=3)"])
def test_metrics_that_no_document_earns_anything_of(name, metric):
    """Labels differ, but the normaliser is 0 or nothing counts."""
    grad, hess = run(name, metric, [0.1, 0.3, 0.2], [0, 2, 1], group=[3])
    np.testing.assert_array_equal(grad, 0)
    np.testing.assert_array_equal(hess, 0)


@pytest.mark.parametrize("name", TEXTS)
def test_seeds_and_iterations_are_reproducible(name):
    """The same call gives the same bits; another seed differs exactly where another iteration does."""
    call = bind(name, LABELS, qid=QID, metric="ndcg@3", random_state=5)
    assert_equal(call(SCORES, 3), run(name, "ndcg@3"))
    others = [
        bind(name, LABELS, qid=QID, metric="ndcg@3", random_state=seed)(SCORES, 3)
        for seed in range(6, 14)
    ]
    assert all(np.array_equal(grad, call(SCORES, 3)[0]) for grad, _ in others) is (
        name not in RANDOM
    )


def test_keys_come_from_ids_or_from_numbers():
    """With ``group`` a query's draws depend on its number: the same as with ids 0, 1, 2..."""
    assert_equal(run("yetiloss", "ndcg", group=SIZES), run("yetiloss", "ndcg"))
    named = run("yetiloss", "ndcg", qid=[f"query {q}" for q in QID])
    assert not np.array_equal(named[0], run("yetiloss", "ndcg")[0])


@pytest.mark.parametrize("name", [name for name in OBJECTIVES if metrics_for(name) is ADDITIVE])
@pytest.mark.parametrize("metric", sorted(set(METRICS) - set(ADDITIVE)))
def test_metrics_that_do_not_add_up_are_refused(name, metric):
    with pytest.raises(ValueError, match=f"{name} is .*metrics that add up over positions"):
        run(name, metric)


def test_inputs_are_left_alone():
    scores, labels = SCORES.copy(), LABELS.copy()
    call = bind("lambdamart(noise=gumbel) + stochasticrank", labels, qid=QID)
    call(scores, 0)
    np.testing.assert_array_equal(scores, SCORES)
    np.testing.assert_array_equal(labels, LABELS)


def test_a_metric_may_be_given_as_a_value():
    assert_equal(run("yetiloss", parse_metric("map@3")), run("yetiloss", "map@3"))


def test_kernels_run_as_plain_python_too():
    """For debuggers and coverage: without compilation the same numbers, and no warning on the way."""
    names = [
        "lambdamart(noise=gumbel)",
        "yetiloss",
        "stochasticrank",
        "softrank",
        "xendcg",
        "queryrmse",
        "rmse",
        "logistic",
    ]
    code = f"""if True:
        import json
        from rankwright.objectives import bind
        scores, labels, group = {SCORES.tolist()}, {LABELS.tolist()}, {SIZES}
        print(json.dumps([bind(name, labels, group=group, random_state=5)(scores, 3)[0].tolist() for name in {names}]))
    """
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(
        command, env={**os.environ, "NUMBA_DISABLE_JIT": "1"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    for name, grad in zip(names, json.loads(done.stdout), strict=True):
        np.testing.assert_allclose(grad, run(name, "ndcg")[0], rtol=1e-11, atol=1e-14, err_msg=name)
