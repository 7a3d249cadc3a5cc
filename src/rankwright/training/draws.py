"""What is drawn for each query in an iteration, by (seed, iteration, query key) alone."""

from __future__ import annotations

import math
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from rankwright.data.queries import Queries
from rankwright.kernels.random import GAUSSIAN, noise_by_query, stream_of, uniform_by_key
from rankwright.training.settings import Settings

Floats = NDArray[np.float64]


class DrawPurpose(IntEnum):
    """What a draw is for: each has a stream of its own. Those of the terms of an objective are numbered from 0."""

    SPLIT_NOISE = 101
    LEAF_NOISE = 102
    SUBSAMPLE = 103
    HALVES = 104
    BOOTSTRAP = 105


class QueryDraws:
    """Draws for the queries of a training set."""

    def __init__(self, queries: Queries, settings: Settings) -> None:
        self._queries = queries
        self._settings = settings

    def subsample(self, iteration: int) -> Floats | None:
        """1 for queries that take part and 0 for others [queries], or None if all take part."""
        share = self._settings.subsample_queries
        return (
            None
            if share >= 1
            else (self._uniform(iteration, DrawPurpose.SUBSAMPLE) < share).astype(np.float64)
        )

    def bootstrap(self, iteration: int) -> Floats | None:
        """Weight of each row's query when a tree is grown [rows], or None if all weigh the same.

        The Bayesian bootstrap at temperature 1.
        """
        temperature = self._settings.bagging_temperature
        if temperature == 0:
            return None
        weights = (-np.log(self._uniform(iteration, DrawPurpose.BOOTSTRAP))) ** temperature
        return np.repeat(weights, self._queries.sizes)

    def halves(self, iteration: int) -> NDArray[np.int64]:
        """Half of each query, 0 or 1 [queries]."""
        return (self._uniform(iteration, DrawPurpose.HALVES) < 0.5).astype(np.int64)

    def noise(self, iteration: int, purpose: DrawPurpose) -> Floats:
        """Langevin noise of each row [rows], of standard deviation sqrt(2 / (learning rate * temperature)).

        It is that of a row of curvature 1: the caller multiplies it by the square root of the curvature.
        """
        langevin = self._settings.langevin
        assert langevin is not None
        queries = self._queries
        noise = np.empty(queries.n_rows)
        stream = stream_of(self._settings.seed, iteration, purpose)
        noise_by_query(
            0, queries.n_queries, queries.boundaries, queries.keys, GAUSSIAN, stream, 0, noise
        )
        noise *= math.sqrt(
            2.0 / (self._settings.tree_options["learning_rate"] * langevin.temperature)
        )
        return noise

    def _uniform(self, iteration: int, purpose: DrawPurpose) -> Floats:
        draws = np.empty(self._queries.n_queries)
        uniform_by_key(
            self._queries.keys, stream_of(self._settings.seed, iteration, purpose), 0, draws
        )
        return draws
