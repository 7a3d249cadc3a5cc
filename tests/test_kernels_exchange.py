"""Values, and what changes when documents trade places, against two values of the definition."""

import itertools

import numpy as np
import pytest

import objective_oracles as oracle
import own_metric  # noqa: F401  (defines the metric "own")
from rankwright.kernels import exchange
from rankwright.kernels.jit import jit
from rankwright.metrics import metric


@jit
def swap_row(i, low, high, additive, w, g, d, e, state, delta):
    exchange.swap_row(i, low, high, additive, w, g, d, e, state, delta)


METRICS = [
    "ndcg",
    "ndcg@3",
    "dcg",
    "dcg@2",
    "err",
    "err@3",
    "mrr",
    "mrr@2",
    "map",
    "map@3",
    "rbp",
    "pfound",
    "pfound@3",
    "expdcg",
    "recall@2",
    "success@2",
    "own",
    "own@3",
]


def cases():
    """Labels in their order; with 4 as the largest, pfound and mrr have documents behind which nobody goes on."""
    random = np.random.default_rng(1)
    yield [4, 0, 4, 1, 0]
    yield [0, 0, 1]
    yield [2, 1]
    for n in (2, 3, 4, 5, 6, 7, 7, 7):
        yield random.permutation([0, 1, *random.integers(0, 5, n - 2)]).tolist()


def bound(name, labels, truncate=True):
    chain = metric(name).bind(
        np.array(labels, dtype=float), np.array([0, len(labels)]), truncate=truncate
    )
    if chain.additive:  # whose d and e are left out
        chain = chain._replace(cont=np.ones(len(labels)), carry=np.zeros(len(labels)))
    state = np.empty(len(labels))
    exchange.walk(len(labels), chain.cont, chain.carry, chain.start, state)
    return chain, state


@pytest.mark.parametrize("name", METRICS)
def test_value(name):
    for labels in cases():
        chain, _ = bound(name, labels)
        n = len(labels)
        for order in itertools.islice(
            itertools.permutations(range(n)), 0, None, 1 if n < 5 else 97
        ):
            expected = oracle.value(name, [labels[a] for a in order])
            for additive in {chain.additive, False}:
                arrays = (chain.weight, chain.gain, chain.cont, chain.carry)
                worth = exchange.value(np.array(order), n, additive, *arrays, chain.start)
                assert worth * chain.scale[0] == pytest.approx(expected, abs=1e-13)


@pytest.mark.parametrize("truncate", [True, False])
@pytest.mark.parametrize("name", METRICS)
def test_swap_row_is_the_difference_of_two_values(name, truncate):
    measure = oracle.value if truncate else oracle.whole_value
    if not truncate and name.split("@")[0] in ("recall", "success"):
        name = name.split("@")[0]  # without a cutoff these are constant
    for labels in cases():
        chain, state = bound(name, labels, truncate)
        n = len(labels)
        expected = np.array(
            [
                [oracle.swap_change(lambda r: measure(name, r), labels, i, j) for j in range(n)]
                for i in range(n)
            ]
        )
        ranges = [(0, n), (1, n), (0, n - 1), (n // 2, n), (0, n // 2), (1, 1)]
        for i, (low, high) in itertools.product(range(n), ranges):
            delta = np.full(n, 7.0)
            swap_row(
                i,
                low,
                high,
                chain.additive,
                chain.weight,
                chain.gain,
                chain.cont,
                chain.carry,
                state,
                delta,
            )
            wanted = np.full(n, 7.0)
            wanted[low:high] = expected[i, low:high] / chain.scale[0]
            np.testing.assert_allclose(delta, wanted, atol=1e-12)


@pytest.mark.parametrize("name", METRICS)
def test_the_general_formula_covers_the_additive_one(name):
    for labels in cases():
        chain, state = bound(name, labels)
        rows = np.zeros((2, len(labels)))
        for additive, row in zip((chain.additive, False), rows, strict=True):
            swap_row(
                1,
                0,
                len(labels),
                additive,
                chain.weight,
                chain.gain,
                chain.cont,
                chain.carry,
                state,
                row,
            )
        np.testing.assert_allclose(*rows, atol=1e-12)


@pytest.mark.parametrize("name", METRICS)
def test_neighbours(name):
    for labels in cases():
        c, state = bound(name, labels)
        for i in range(len(labels) - 1):
            change = exchange.exchange_neighbours(
                c.weight[i],
                c.weight[i + 1],
                state[i],
                *(
                    array[position]
                    for position in (i, i + 1)
                    for array in (c.gain, c.cont, c.carry)
                ),
            )
            expected = oracle.swap_change(lambda r: oracle.value(name, r), labels, i, i + 1)
            assert change * c.scale[0] == pytest.approx(expected, abs=1e-13)


def test_worked_examples():
    """ERR with d = 1 - g: labels 4, 0, 1 have g = 15/16, 0, 1/16."""
    g = [15 / 16, 0, 1 / 16]
    before = g[0] + (1 - g[0]) * g[2] / 3
    after = g[2] + (1 - g[2]) * g[0] / 3
    chain, state = bound("err", [4, 0, 1])
    delta = np.zeros(3)
    swap_row(0, 0, 3, False, chain.weight, chain.gain, chain.cont, chain.carry, state, delta)
    assert delta[2] == pytest.approx(after - before)
    # AP of 1, 0, 1 is (1 + 2/3) / 2; with the first two exchanged (1/2 + 2/3) / 2.
    chain, state = bound("map", [1, 0, 1])
    swap_row(0, 0, 3, False, chain.weight, chain.gain, chain.cont, chain.carry, state, delta)
    assert chain.scale[0] * delta[1] == pytest.approx(-1 / 4)
    # NDCG of 1, 0: the ideal is 1 / log2(2), the exchange leaves 1 / log2(3).
    chain, state = bound("ndcg", [1, 0])
    swap_row(0, 0, 2, True, chain.weight, chain.gain, chain.cont, chain.carry, state, delta)
    assert chain.scale[0] * delta[1] == pytest.approx(1 / np.log2(3) - 1)
