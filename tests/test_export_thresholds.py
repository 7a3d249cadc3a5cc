"""Thresholds for engines of single and double precision, against the rules of the model."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from export_models import THRESHOLDS
from rankwright.exporting.thresholds import (
    LARGEST_SINGLE,
    at_most,
    below,
    single_floor,
    zero_goes_left,
)
from rankwright.kernels.tree_arrays import AT_MOST, BELOW, ZERO

FINITE = (
    st.floats(-1e38, 1e38)
    | st.floats(-1e-30, 1e-30)
    | st.floats(-2, 2)
    | st.sampled_from(THRESHOLDS)
)


def goes_left(x: float, threshold: float, decision: int) -> bool:
    """The rule that `rankwright.kernels.tree_arrays` states."""
    if decision == AT_MOST:
        return (0.0 if abs(x) <= ZERO else x) <= threshold
    with np.errstate(over="ignore"):
        return bool(np.float32(x) < np.float32(threshold))


def near(threshold: float) -> list[float]:
    """Numbers around a threshold, in both precisions, and zeros."""
    limited = float(np.clip(threshold, -3.4e38, 3.4e38))
    single = np.float32(limited)
    values = [
        limited,
        np.nextafter(limited, -np.inf),
        np.nextafter(limited, np.inf),
        0.0,
        ZERO,
        -ZERO,
        1e-36,
        -1e-36,
    ]
    for _ in range(3):
        values += [float(single), (float(single) + limited) / 2]
        single = np.nextafter(single, np.float32(np.inf))
    single = np.float32(limited)
    for _ in range(3):
        single = np.nextafter(single, np.float32(-np.inf))
        values += [
            float(single),
            (float(single) + float(np.nextafter(single, np.float32(np.inf)))) / 2,
        ]
    return [float(value) for value in values if abs(value) < 3.4e38]


@given(FINITE, st.sampled_from([AT_MOST, BELOW]), FINITE)
def test_at_most_is_the_rule_of_the_model(threshold: float, decision: int, other: float) -> None:
    for x in [*near(threshold), *([other] if abs(other) < 3.4e38 else [])]:
        bound = at_most(threshold, decision, single=False)
        assert (x <= bound) == goes_left(x, threshold, decision), x
        assert (x < below(bound, single=False)) == (x <= bound)
        rounded = float(np.float32(x))
        bound = at_most(threshold, decision, single=True)
        assert float(np.float32(bound)) == bound
        assert (rounded <= bound) == goes_left(rounded, threshold, decision), rounded
        assert (rounded < below(bound, single=True)) == (rounded <= bound)


@pytest.mark.parametrize("decision", [AT_MOST, BELOW])
@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_zero_goes_by_the_threshold(threshold: float, decision: int) -> None:
    assert zero_goes_left(threshold, decision) == goes_left(0.0, threshold, decision)


def test_floor_by_hand() -> None:
    one_third = np.float32(1 / 3)  # 0.33333334, above 1/3
    assert float(one_third) > 1 / 3
    assert single_floor(1 / 3) == float(one_third) - 2**-25
    assert single_floor(2.0**24 + 1) == 2**24
    assert single_floor(-(2.0**24) - 1) == -(2**24) - 2
    assert single_floor(1e300) == single_floor(np.inf) == LARGEST_SINGLE
