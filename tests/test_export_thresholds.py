"""Bounds of plain splits in single and double precision, against the rules of the model."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from export_models import THRESHOLDS, stump
from rankwright.exporting.float32 import largest_float32_at_most, smallest_float32_above
from rankwright.exporting.nodes import Form, PlainTree, missing_left, plain_trees
from rankwright.kernels.tree_arrays import (
    AS_ZERO,
    AT_MOST,
    BELOW,
    NAN_TO_DEFAULT,
    ZERO,
    ZERO_TO_DEFAULT,
)

LARGEST = {True: float(np.finfo(np.float32).max), False: float(np.finfo(np.float64).max)}
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


@np.errstate(over="ignore")
def near(threshold: float, single: bool) -> list[float]:
    """Numbers around a threshold, in both precisions, zeros and the largest numbers."""
    largest = LARGEST[single]
    limited = float(np.clip(threshold, -largest, largest))
    above, below = np.float32(limited), np.float32(limited)
    values = [limited, np.nextafter(limited, -np.inf), np.nextafter(limited, np.inf)]
    values += [0.0, ZERO, -ZERO, 1e-36, -1e-36, largest, -largest, LARGEST[True], -LARGEST[True]]
    for _ in range(3):
        values += [float(above), (float(above) + limited) / 2]
        values += [float(below), (float(below) + limited) / 2]
        above = np.nextafter(above, np.float32(np.inf))
        below = np.nextafter(below, np.float32(-np.inf))
    if single:
        values = [float(np.float32(value)) for value in values]
    return [float(value) for value in values if abs(value) <= largest]


def reached(tree: PlainTree, x: float) -> float:
    """The leaf of a number by plain splits."""
    node = tree.root
    while node >= 0:
        node = tree.left[node] if x <= tree.bound[node] else tree.right[node]
    return tree.value[~node]


@given(FINITE, st.sampled_from([AT_MOST, BELOW]), FINITE, st.booleans())
def test_a_bound_is_the_rule_of_the_model(
    threshold: float, decision: int, other: float, single: bool
) -> None:
    tree = stump(threshold, decision=decision, missing=AS_ZERO, values=(1.0, 2.0))
    (plain,) = plain_trees([tree], ["f0"], Form(single=single))
    for x in [*near(threshold, single), *near(other, single)]:
        assert (reached(plain, x) == 1.0) == goes_left(x, threshold, decision), x
    for bound in plain.bound:
        assert not single or float(np.float32(bound)) == bound
        assert abs(bound) < LARGEST[single] or bound == np.inf


@pytest.mark.parametrize("decision", [AT_MOST, BELOW])
@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_missing_values_go_by_the_rule(threshold: float, decision: int) -> None:
    for default_left in (False, True):
        for missing in (NAN_TO_DEFAULT, ZERO_TO_DEFAULT):
            tree = stump(threshold, decision=decision, missing=missing, default_left=default_left)
            assert missing_left(tree).tolist() == [default_left]
    tree = stump(threshold, decision=decision, missing=AS_ZERO)
    assert missing_left(tree).tolist() == [goes_left(0.0, threshold, decision)]


def test_floor_by_hand() -> None:
    one_third = np.float32(1 / 3)  # 0.33333334, above 1/3
    assert float(one_third) > 1 / 3
    assert largest_float32_at_most(1 / 3) == float(one_third) - 2**-25
    assert smallest_float32_above(1 / 3) == one_third
    assert largest_float32_at_most(2.0**24 + 1) == 2**24
    assert largest_float32_at_most(-(2.0**24) - 1) == -(2**24) - 2
    assert largest_float32_at_most([1e300, np.inf]).tolist() == [LARGEST[True], np.inf]
