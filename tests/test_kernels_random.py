"""Draws are a known function of (seed, iteration, query, draw), and distributed as they say."""

import itertools

import numpy as np
import pytest
from scipy import stats

import objective_oracles as oracle
from rankwright.kernels.arithmetic import exp_negative, log_positive, turn
from rankwright.kernels.random import (
    GAUSSIAN,
    GUMBEL,
    LOGISTIC,
    UNIFORM,
    Stream,
    fill_noise,
    fill_uniform,
    noise_by_query,
    philox,
    stream_of,
    uniform_by_key,
)

KINDS = {
    "logistic": (LOGISTIC, stats.logistic),
    "gaussian": (GAUSSIAN, stats.norm),
    "gumbel": (GUMBEL, stats.gumbel_r),
    "uniform": (UNIFORM, stats.uniform),
}


def drawn(n, kind=UNIFORM, stream=1, key=2, draw=3):
    out = np.full(n + 1, np.nan)
    fill_noise(out, n, kind, np.uint64(stream), np.uint64(key), draw)
    return out[:n]


def words(text):
    return [int(word, 16) for word in text.split()]


@pytest.mark.parametrize("cipher", [oracle.philox, lambda c, k: philox(*map(np.uint64, [*c, *k]))])
@pytest.mark.parametrize(
    ("counter", "key", "answer"),
    [
        ("0 0 0 0", "0 0", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        (
            "ffffffff ffffffff ffffffff ffffffff",
            "ffffffff ffffffff",
            "408f276d 41c83b0e a20bc7c6 6d5451fd",
        ),
        (
            "243f6a88 85a308d3 13198a2e 03707344",
            "a4093822 299f31d0",
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_philox_known_answers(cipher, counter, key, answer):
    assert [int(word) for word in cipher(words(counter), words(key))] == words(answer)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 2, 7])
def test_draws_equal_an_independent_generator(kind, n):
    stream, key = 0xFEDCBA9876543210, 0x0123456789ABCDEF
    expected = oracle.noise(kind, n, stream, key, 5)
    rtol = 0 if kind == "uniform" else 1e-14  # uniforms have no rounding
    np.testing.assert_allclose(drawn(n, KINDS[kind][0], stream, key, 5), expected, rtol=rtol)


def test_uniforms_are_strictly_inside():
    u = drawn(200_000)
    assert 0 < u.min() < 1e-4
    assert 1 - 1e-4 < u.max() < 1


@pytest.mark.parametrize("kind", KINDS)
def test_distribution(kind):
    number, law = KINDS[kind]
    vectors = np.concatenate(
        [drawn(7, number, key=key) for key in range(3000)]
    )  # odd vectors lose half a pair
    assert stats.kstest(vectors, law.cdf).pvalue > 1e-3
    assert stats.kstest(drawn(20_000, number), law.cdf).pvalue > 1e-3


def test_no_correlation_between_any_two_vectors():
    n = 4000
    streams = [
        int(stream_of(seed, iteration, term))
        for seed, iteration, term in itertools.product((0, 1), repeat=3)
    ]
    vectors = [
        drawn(n, stream=s, key=key, draw=draw) for s in streams for key in (0, 1) for draw in (0, 1)
    ]
    vectors += [
        drawn(n, stream=streams[0], key=key, draw=draw)
        for key, draw in ((1 << 32, 0), (0, 1 << 24))
    ]
    vectors.append(np.roll(vectors[0], 1))  # neighbours within a vector
    correlation = np.corrcoef(vectors)
    np.fill_diagonal(correlation, 0)
    assert np.abs(correlation).max() < 5 / np.sqrt(n)


def test_streams_differ():
    triples = list(itertools.product(range(-3, 12), range(12), range(12)))
    assert len({int(stream_of(*triple)) for triple in triples}) == len(triples)
    assert stream_of(2**70, 0).dtype == np.uint64


@pytest.mark.parametrize("triple", [(0, 0, 0), (1, 2, 3), (-5, 1000, 1), (2**70 + 9, 7, 0)])
def test_streams_are_those_of_the_definition(triple):
    """SplitMix64's steps, in whole numbers modulo 2^64: models trained with a seed depend on every bit."""
    seed, *parts = triple
    x = seed % 2**64
    for part in parts:
        x = (x ^ x // 2**31) + part * 0xD1B54A32D192ED03 + 0x9E3779B97F4A7C15
        for bits, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            x %= 2**64
            x = (x ^ x // 2**bits) * factor
        x %= 2**64
    assert int(stream_of(*triple)) == x ^ x // 2**31


def test_uniforms_do_not_depend_on_how_many_are_drawn():
    out = np.empty(11)
    fill_uniform(out, 10, np.uint64(1), np.uint64(2), 3)
    np.testing.assert_array_equal(out[:10], drawn(100)[:10])


def test_noise_of_several_queries():
    """Each query as if alone, and nothing outside the range of queries."""
    bounds, keys = np.array([0, 2, 5, 12, 13]), np.array([7, 8, 9, 10], dtype=np.uint64)
    out = np.full(13, 7.0)
    noise_by_query(1, 3, bounds, keys, GAUSSIAN, np.uint64(1), 3, out)
    np.testing.assert_array_equal(out[2:5], drawn(3, GAUSSIAN, key=8))
    np.testing.assert_array_equal(out[5:12], drawn(7, GAUSSIAN, key=9))
    np.testing.assert_array_equal(out[[0, 1, 12]], 7)
    noise_by_query(0, 4, bounds, keys, GAUSSIAN, np.uint64(1), 3, out)
    parts = [drawn(n, GAUSSIAN, key=key) for n, key in ((2, 7), (3, 8), (7, 9), (1, 10))]
    np.testing.assert_array_equal(out, np.concatenate(parts))
    one_each = np.empty(4)
    uniform_by_key(keys, np.uint64(1), 3, one_each)
    np.testing.assert_array_equal(one_each, [drawn(1, key=key)[0] for key in (7, 8, 9, 10)])


def test_exponential_is_exact_to_two_units_in_the_last_place():
    x = -np.concatenate(
        (
            np.linspace(0, 708, 20_001),
            np.geomspace(1e-300, 1, 500),
            np.log(2) * np.arange(0.5, 1000),
        )
    )
    computed = np.array([exp_negative(v) for v in x])
    expected = np.exp(np.maximum(x, -708.0))
    assert np.all(np.abs(computed - expected) <= 2 * np.spacing(expected))
    assert exp_negative(0.0) == 1
    assert exp_negative(-np.inf) == pytest.approx(np.exp(-708.0))


def test_logarithm_is_exact_to_two_units_in_the_last_place():
    """Over all sizes, over uniforms, and at the two uniforms next to 0 and 1, where Gumbel's noise needs it most."""
    extremes = [
        0.5 * 2.0**-52,
        1 - 0.5 * 2.0**-52,
        np.sqrt(0.5),
        np.nextafter(np.sqrt(0.5), 0),
        2.0,
        0.5,
    ]
    x = np.concatenate(
        (np.geomspace(1e-300, 1e300, 10_001), np.linspace(1e-4, 2, 10_001), extremes)
    )
    x = x[x != 1]
    computed = np.array([log_positive(v) for v in x])
    expected = np.log(x)
    assert np.all(np.abs(computed - expected) <= 2 * np.spacing(np.abs(expected)))
    assert log_positive(1.0) == 0


def test_cosine_and_sine_of_a_turn():
    share = np.concatenate((np.linspace(0, 1, 4001), np.arange(9) / 8 + 1e-9))
    computed = np.array([turn(u) for u in share])
    angle = 2 * np.pi * share
    np.testing.assert_allclose(
        computed, np.column_stack((np.cos(angle), np.sin(angle))), atol=2e-15
    )
    np.testing.assert_allclose(computed[:, 0] ** 2 + computed[:, 1] ** 2, 1, rtol=4e-15)


def test_streams_are_distinct_and_above_those_of_terms():
    """The numbers are part of models. Terms count from 0, and the streams of their labels from LABELS."""
    numbers = {
        "SPLIT_NOISE": 101,
        "LEAF_NOISE": 102,
        "SUBSAMPLE": 103,
        "HALVES": 104,
        "BOOTSTRAP": 105,
        "LINEAR_FOLDS": 106,
        "XGBOOST_ROWS": 201,
        "XGBOOST_COLUMNS": 202,
        "LABELS": 1 << 20,
    }
    assert {name: stream.value for name, stream in Stream.__members__.items()} == numbers
    terms = [*range(100), *(Stream.LABELS + term for term in range(1, 100))]
    keys = [int(stream_of(5, 3, number)) for number in [*terms, *Stream]]
    assert len(set(keys)) == len(keys)
