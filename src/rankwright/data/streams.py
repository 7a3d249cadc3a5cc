"""Random streams of generated data: each seed, purpose and query has its own, independent of all others."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from rankwright.support import checks


class Purpose(IntEnum):
    """Purpose of a random stream. Streams of different purposes never overlap."""

    WORLD = 0
    QUERY = 1
    LABEL_NOISE = 2
    NEGATIVES = 3
    CLICKS = 4
    SHOWN_CLICKS = 5
    INTERLEAVING = 6


def random_stream(seed: int, purpose: Purpose, key: int) -> np.random.Generator:
    """Return the random stream of a purpose and a query."""
    checks.whole("random_state", seed, least=0, most=2**64 - 1)
    # The counter's low words count the draws; its top word separates the purposes.
    return np.random.Generator(
        np.random.Philox(
            key=np.array([seed, key], dtype=np.uint64),
            counter=np.array([0, 0, 0, purpose], dtype=np.uint64),
        )
    )
