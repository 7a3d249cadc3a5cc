"""Checks of hyper-parameters that several objectives share."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from rankwright.kernels import random
from rankwright.kernels.pairs import NO_NOISE, Noise
from rankwright.support.checks import ArgumentError, choice, is_number, is_whole, located

# Numbers in these limits have a finite square, and so have their inverses.
_LEAST, _MOST = 1e-100, 1e100


def check_positive(owner: Any, option: str, *, or_zero: bool = False) -> None:
    """Raise ValueError unless the option is a number above 0 with a finite square, or 0 if ``or_zero``."""
    value = getattr(owner, option)
    number = is_number(value)
    # A number of NumPy would convert the limit to its type, which may have no room for it.
    if hasattr(value, "item"):
        value = value.item()
    if not number or not value <= sys.float_info.max or value < 0 or (value == 0 and not or_zero):
        least = "0 or more" if or_zero else "above 0"
        raise ValueError(f"{owner.name}: {option} must be a number, {least}; got {value!r}.")
    if value != 0 and not _LEAST <= value <= _MOST:
        raise ValueError(
            f"{owner.name}: {option} must be from {_LEAST:g} to {_MOST:g}, so that gradients are finite; got {value!r}."
        )


LARGEST_COUNT = 2**31 - 1


def check_count(owner: Any, option: str, *texts: str) -> None:
    """Raise ValueError unless the option is a whole number from 1 to 2^31 - 1, or one of the texts."""
    value: Any = getattr(owner, option)
    if isinstance(value, str) and value in texts:
        return
    if not is_whole(value) or not 1 <= int(value) <= LARGEST_COUNT:
        more = "".join(f" or {text!r}" for text in texts)
        raise ValueError(
            f"{owner.name}: {option} must be a whole number from 1 to {LARGEST_COUNT}{more}; got {value!r}."
        )


def check_choice(owner: Any, option: str, allowed: Iterable[Any]) -> None:
    """Raise ValueError unless the option has an allowed value."""
    try:
        choice(option, getattr(owner, option), allowed)
    except ArgumentError as error:
        raise located(owner.name, error) from None


NOISES = {
    "none": NO_NOISE,
    "logistic": random.LOGISTIC,
    "gaussian": random.GAUSSIAN,
    "gumbel": random.GUMBEL,
}
NOISELESS = Noise(NO_NOISE, 0.0, 1)


def check_noise(owner: Any, repeats: str) -> None:
    """Check the options noise and strength, and the option ``repeats`` that says how often to draw."""
    check_choice(owner, "noise", NOISES)
    check_positive(owner, "strength", or_zero=True)
    check_count(owner, repeats)


def noise_of(owner: Any, repeats: int) -> Noise:
    """Return the noise of an objective as the kernels read it; without noise a single ranking is enough."""
    if owner.noise == "none":
        return NOISELESS
    return Noise(NOISES[owner.noise], float(owner.strength), repeats)
