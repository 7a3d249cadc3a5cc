"""Folds of the queries, at random or in the order of time, as users write them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rankwright.support import checks

if TYPE_CHECKING:
    from rankwright.data.dataset import RankingData

_TEXT = re.compile(
    r"(?P<random>\d+)|time(\( *(?P<number>\d+)?[ ,]*(gap *= *(?P<gap>[\d.]+))? *\))?"
)


@dataclass(frozen=True)
class Folds:
    """How queries are divided into folds.

    Parameters
    ----------
    number
        Number of folds.
    by
        ``"time"`` for folds that test on later queries than they train on; None for random folds.
    gap
        Time before each test part of which no query is trained on: days, or the unit of the numbers.
    """

    number: int
    by: str | None = None
    gap: float = 0.0

    @classmethod
    def of(cls, option: Any, number: int) -> Folds:
        """Read an option ``folds``; ``number`` is the number of folds if it names none.

        Examples
        --------
        >>> Folds.of(None, 5), Folds.of("time", 5)
        (Folds(number=5, by=None, gap=0.0), Folds(number=5, by='time', gap=0.0))
        >>> Folds.of("time(3, gap=7)", 5)
        Folds(number=3, by='time', gap=7.0)
        """
        if option is None:
            return cls(number)
        if not isinstance(option, str):
            return cls(checks.whole("folds", option, least=2))
        found = _TEXT.fullmatch(option.strip())
        if found is None:
            raise checks.ArgumentError(
                "folds",
                "must be a whole number, 'time', or with a number and a gap 'time(5, gap=7)'; got "
                f"{option!r}.",
            )
        # The command line passes a number as text.
        if found["random"]:
            return cls.of(int(found["random"]), number)
        # A single fold by time still has earlier queries to train on.
        number = checks.whole("folds", int(found["number"] or number), least=1)
        return cls(number, "time", float(found["gap"] or 0))

    def parts(self, data: RankingData, seed: int) -> Iterator[tuple[RankingData, RankingData]]:
        """Yield the queries to train on and to test on for each fold."""
        return data.kfold(self.number, random_state=seed, by=self.by, gap=self.gap)

    def __str__(self) -> str:
        if self.by is None:
            return str(self.number)
        return f"time({self.number}, gap={self.gap:g})"
