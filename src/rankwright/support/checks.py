"""Check arguments that users pass, and say in a single sentence which values are expected."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any


class ArgumentError(ValueError):
    """An argument with a value that is not allowed.

    The name is kept apart from the text, so that the command line can write the name of its
    option, for example ``--bins``, in place of ``bins``.

    Parameters
    ----------
    argument
        Name of the argument.
    reason
        The text after the name: the mistake, or how the argument removes the problem.
    problem
        The text before the name: a mistake elsewhere, for example in a file.

    Examples
    --------
    >>> raise ArgumentError("bins", "must be a whole number from 1; got 0.")
    Traceback (most recent call last):
    rankwright.support.checks.ArgumentError: bins must be a whole number from 1; got 0.
    >>> error = ArgumentError("label", "must name one.", problem="a.csv has several labels;")
    >>> error.sentence("--label")
    'a.csv has several labels; --label must name one.'
    """

    def __init__(self, argument: str, reason: str, *, problem: str = "") -> None:
        # Exceptions are pickled with these arguments when they cross processes.
        super().__init__(argument, reason)
        self.argument = argument
        self.reason = reason
        self.problem = problem

    def __str__(self) -> str:
        return self.sentence(self.argument)

    def sentence(self, name: str) -> str:
        """Return the message with a front end's name for the argument."""
        return f"{self.problem} {name} {self.reason}".lstrip()


def located(place: object, error: ValueError) -> ValueError:
    """Return the error with the place of the problem, for example a file, before its message.

    Examples
    --------
    >>> str(located("a.csv", ValueError("row 3 is empty.")))
    'a.csv: row 3 is empty.'
    """
    if isinstance(error, ArgumentError):
        # The name of the argument stays apart, so that a front end can still write its option.
        problem = f"{place}: {error.problem}".rstrip()
        return ArgumentError(error.argument, error.reason, problem=problem)
    return ValueError(f"{place}: {error}")


def is_whole(value: Any) -> bool:
    """Return True for a whole number of Python or NumPy. True and False are none, although Python counts them.

    Examples
    --------
    >>> is_whole(3), is_whole(3.0), is_whole(True)
    (True, False, False)
    """
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Return True for a real number of Python or NumPy, also for NaN, but not for True and False."""
    return isinstance(value, Real) and not isinstance(value, bool)


def whole(name: str, value: Any, *, least: int | None = None, most: int | None = None) -> int:
    """Return the value as an int, or raise ArgumentError if it is not a whole number in the limits.

    NumPy's integers are allowed. Booleans are not, because ``True`` is rarely meant as 1.

    Examples
    --------
    >>> whole("bins", 10, least=1)
    10
    """
    if not is_whole(value) or not _within(value, least, most):
        expected = f"a whole number{_limits(least, most)}"
        raise ArgumentError(name, f"must be {expected}; got {reprlib.repr(value)}.")
    return int(value)


def number(
    name: str, value: Any, *, least: float | None = None, most: float | None = None
) -> float:
    """Return the value as a float, or raise ArgumentError if it is not a finite number in the limits.

    Examples
    --------
    >>> number("share", 0.25, least=0, most=1)
    0.25
    """
    if not is_number(value) or not _is_finite(value) or not _within(value, least, most):
        expected = f"a number{_limits(least, most)}"
        raise ArgumentError(name, f"must be {expected}; got {reprlib.repr(value)}.")
    return float(value)


def positive(name: str, value: Any, *, most: float | None = None) -> float:
    """Return the value as a float, or raise ArgumentError if it is not a finite number above 0.

    With ``most`` larger numbers are refused too.

    Examples
    --------
    >>> positive("seconds", 1.5)
    1.5
    """
    is_positive = is_number(value) and _is_finite(value) and value > 0
    if not is_positive or not _within(value, None, most):
        expected = f"a number above 0{_limits(None, most)}"
        raise ArgumentError(name, f"must be {expected}; got {reprlib.repr(value)}.")
    return float(value)


def fraction(name: str, value: Any) -> float:
    """Return the value as a float, or raise ArgumentError if it is not between 0 and 1.

    Examples
    --------
    >>> fraction("confidence", 0.95)
    0.95
    """
    if not is_number(value) or not 0 < value < 1:
        raise ArgumentError(name, f"must be between 0 and 1; got {reprlib.repr(value)}.")
    return float(value)


def choice(name: str, value: Any, allowed: Iterable[Any]) -> None:
    """Raise ArgumentError if the value is not allowed.

    Examples
    --------
    >>> choice("ties", "mean", ["mean", "worst"])
    """
    # We read an iterator only once, because the error lists the values again.
    choices = list(allowed)
    if value not in choices:
        expected = ", ".join(map(repr, choices))
        raise ArgumentError(name, f"must be one of {expected}; got {reprlib.repr(value)}.")


def _is_finite(value: Real) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number that no float can hold
        return False


def _within(value: Any, least: float | None, most: float | None) -> bool:
    return (least is None or value >= least) and (most is None or value <= most)


def _limits(least: float | None, most: float | None) -> str:
    """Return for example `` from 1 to 10``, for the sentence of the error."""
    text, upper = "", "up to"
    if least is not None:
        text, upper = f" from {least}", "to"
    if most is not None:
        text += f" {upper} {most}"
    return text
