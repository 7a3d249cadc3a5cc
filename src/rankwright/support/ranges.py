"""Values that a search may try: a `Range` of numbers or a `Choice` between values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rankwright.support.checks import is_number

_PLAIN = (str, int, float)


@dataclass(frozen=True)
class Range:
    """Numbers from ``low`` to ``high``, both included: whole numbers if both ends are.

    Parameters
    ----------
    low, high
        The ends.
    log
        Whether the search is even in the logarithm, as for a learning rate.
    unless
        Another name and a value of it at which this range has no meaning and is left out.
    or_zero
        Whether 0 belongs to it too, as likely as the values from ``low`` to ten times it; with
        ``log=True`` only.

    Examples
    --------
    >>> Range(4, 64, log=True).whole, 64 in Range(4, 64), 0.5 in Range(0.6, 1.0)
    (True, True, False)
    >>> 0.0 in Range(0.001, 100.0, log=True, or_zero=True)
    True
    """

    low: float
    high: float
    log: bool = False
    unless: tuple[str, Any] | None = None
    or_zero: bool = False

    def __post_init__(self) -> None:
        if not (is_number(self.low) and is_number(self.high) and self.low < self.high):
            raise ValueError(
                f"a range goes from a number to a larger one; got {self.low!r} and {self.high!r}."
            )
        if self.log and self.low <= 0:
            raise ValueError(f"a range with log=True begins above 0; got {self.low!r}.")
        # 0 is drawn as a tenfold step below the range, and only a logarithmic range has steps.
        if self.or_zero and (not self.log or self.whole):
            raise ValueError(
                "or_zero is for a range of log=True whose ends are not both whole numbers."
            )

    @property
    def whole(self) -> bool:
        """Return True if it holds whole numbers only."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    def __contains__(self, value: Any) -> bool:
        if self.or_zero and is_number(value) and value == 0:
            return True
        return (
            is_number(value)
            and self.low <= value <= self.high
            and (not self.whole or value == int(value))
        )

    def suggest(self, trial: Any, name: str) -> float:
        """Draw from a trial of Optuna, in which a tenfold step below ``low`` stands for 0."""
        draw = trial.suggest_int if self.whole else trial.suggest_float
        low = self.low
        if self.or_zero:
            low = self.low / 10
        value: float = draw(name, low, self.high, log=self.log)
        return value if value >= self.low else 0.0

    def as_drawn(self, value: float) -> float:
        """Return the number that `suggest` would have drawn from a trial to give this value."""
        if self.or_zero and value == 0:
            return self.low / 10
        return value


@dataclass(frozen=True)
class Choice:
    """A choice between values.

    Parameters
    ----------
    values
        The values to choose from: text, numbers, True, False or None.
    unless
        As in `Range`.

    Examples
    --------
    >>> "full" in Choice(("diagonal", "full"))
    True
    """

    values: tuple[Any, ...]
    unless: tuple[str, Any] | None = None

    def __post_init__(self) -> None:
        # Optuna stores choices as JSON, so other types are not possible.
        are_plain = isinstance(self.values, tuple) and all(
            value is None or isinstance(value, _PLAIN) for value in self.values
        )
        if not are_plain or not self.values:
            raise ValueError(
                f"a choice is a tuple of text, numbers, True, False or None; got {self.values!r}."
            )

    def __contains__(self, value: Any) -> bool:
        # True equals 1 in Python, but they are different choices.
        return any(type(value) is type(other) and value == other for other in self.values)

    def suggest(self, trial: Any, name: str) -> Any:
        """Draw from a trial of Optuna."""
        return trial.suggest_categorical(name, self.values)
