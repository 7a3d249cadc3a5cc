"""Checks of hyper-parameters that several objectives share."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

from rankwright.kernels import random
from rankwright.kernels.pairs import NO_NOISE, Noise

_LEAST, _MOST = 1e-100, 1e100  # what lies between has a finite square, and so has its inverse


def check_positive(owner: Any, option: str, *, or_zero: bool = False) -> None:
    """Raise unless the option is a number above 0 (or 0, where that is allowed) whose square is one too."""
    value = getattr(owner, option)
    number = isinstance(value, Real) and not isinstance(value, bool)
    if hasattr(
        value, "item"
    ):  # NumPy would turn the limit into its own type, which may have no room for it
        value = value.item()
    if not number or not value <= sys.float_info.max or value < 0 or (value == 0 and not or_zero):
        least = "0 or more" if or_zero else "above 0"
        raise ValueError(f"{owner.name}: {option} must be a number, {least}; got {value!r}.")
    if value != 0 and not _LEAST <= value <= _MOST:
        raise ValueError(
            f"{owner.name}: {option} must be from {_LEAST:g} to {_MOST:g}, so that gradients are finite; got {value!r}."
        )


LARGEST_COUNT = 2**31 - 1


def check_count(owner: Any, option: str, *others: str) -> None:
    """Raise unless the option is a whole number from 1 to 2^31 - 1, or one of the other texts."""
    value: Any = getattr(owner, option)
    if isinstance(value, str) and value in others:
        return
    if (
        isinstance(value, bool)
        or not isinstance(value, Integral)
        or not 1 <= int(value) <= LARGEST_COUNT
    ):
        more = "".join(f" or {text!r}" for text in others)
        raise ValueError(
            f"{owner.name}: {option} must be a whole number from 1 to {LARGEST_COUNT}{more}; got {value!r}."
        )


def check_choice(owner: Any, option: str, allowed: Iterable[Any]) -> None:
    """Raise unless the option is one of those allowed."""
    value = getattr(owner, option)
    choices = list(allowed)
    if value not in choices:
        shown = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"{owner.name}: {option} must be one of {shown}; got {value!r}.")


NOISES = {
    "none": NO_NOISE,
    "logistic": random.LOGISTIC,
    "gaussian": random.GAUSSIAN,
    "gumbel": random.GUMBEL,
}
NOISELESS = Noise(NO_NOISE, 0.0, 1)


def check_noise(owner: Any, repeats: str) -> None:
    """Check the options noise, strength and the one that says how often to draw."""
    check_choice(owner, "noise", NOISES)
    check_positive(owner, "strength", or_zero=True)
    check_count(owner, repeats)


def noise_of(owner: Any, repeats: int) -> Noise:
    """Read the noise of an objective; without noise one ranking is enough."""
    if owner.noise == "none":
        return NOISELESS
    return Noise(NOISES[owner.noise], float(owner.strength), repeats)
