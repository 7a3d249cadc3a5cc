"""Checks of arguments: every kind of wrong value is one error that names the argument."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from rankwright.support import checks


def test_numbers_within_the_limits_are_returned():
    assert checks.whole("n", np.int64(3), least=1, most=3) == 3
    assert isinstance(checks.whole("n", np.int64(3)), int)
    assert checks.number("x", np.float32(0.5), least=0) == 0.5
    assert checks.positive("x", 2) == 2.0


@pytest.mark.parametrize("value", [0, 4, 1.0, True, "2", None, np.nan])
def test_what_is_not_a_whole_number_in_the_limits_is_refused(value):
    with pytest.raises(checks.ArgumentError, match=r"^n must be a whole number from 1 to 3; got"):
        checks.whole("n", value, least=1, most=3)


@pytest.mark.parametrize("value", [-0.1, 1.1, True, "0.5", None, np.nan, np.inf, 10**400])
def test_what_is_not_a_number_in_the_limits_is_refused(value):
    with pytest.raises(checks.ArgumentError, match=r"^x must be a number from 0 to 1; got"):
        checks.number("x", value, least=0, most=1)


@pytest.mark.parametrize("value", [0, -1.0, True, "1", None, np.nan, np.inf, 10**400])
def test_what_is_not_a_positive_number_is_refused(value):
    with pytest.raises(checks.ArgumentError, match=r"^x must be a number above 0; got"):
        checks.positive("x", value)


def test_an_error_keeps_the_name_apart_also_between_processes():
    error = pickle.loads(pickle.dumps(checks.ArgumentError("bins", "must be positive.")))
    assert (error.argument, error.reason) == ("bins", "must be positive.")
    assert str(error) == "bins must be positive."


def test_fractions_and_choices() -> None:
    assert checks.fraction("level", 0.05) == 0.05
    for value in (0, 1, -0.1, float("nan"), "0.5", True):
        with pytest.raises(checks.ArgumentError, match="level must be between 0 and 1; got "):
            checks.fraction("level", value)
    checks.choice("by", None, ("query", None))
    with pytest.raises(checks.ArgumentError, match="by must be one of 'query', None; got 'row'"):
        checks.choice("by", "row", ("query", None))
