"""Models of users who look at a list and click.

A user model has two parts: the positions that are examined, and the examined documents that are clicked. An examined
document of relevance r is clicked with probability

    a = ε + (1 - ε) r,        r = (2^label - 1) / (2^max_label - 1),        ε the noise.

References: Joachims, Swaminathan and Schnabel, WSDM 2017 (position-based, with noise); Craswell et al., WSDM 2008
(cascade); Chapelle and Zhang, WWW 2009 (dynamic Bayesian network); Agarwal et al., WWW 2019 (trust bias).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright.support import checks

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


class Lists(NamedTuple):
    """Lists shown for one query, and the draws that decide on clicks, all [impressions, positions]."""

    relevance: Floats  # r of the document at each position
    look: Floats  # uniform draws: is the position examined, does the user continue
    like: Floats  # is the document clicked if examined
    satisfy: Floats  # does a click satisfy the user


class UserModel(ABC):
    """A user who clicks in lists. Subclasses decide which positions are examined."""

    name: ClassVar[str]

    @abstractmethod
    def clicks(self, lists: Lists, noise: float) -> Flags:
        """Return True for the documents that are clicked [impressions, positions]."""


@dataclass(frozen=True)
class PositionBased(UserModel):
    """Position k is examined with probability k^-exponent, independently of everything else."""

    name: ClassVar[str] = "position"
    exponent: float = 1.0

    def __post_init__(self) -> None:
        checks.number("exponent", self.exponent, least=0)

    def clicks(self, lists: Lists, noise: float) -> Flags:
        """Return the documents that are examined and liked."""
        position = np.arange(1.0, lists.relevance.shape[1] + 1)
        examined: Flags = lists.look < position**-self.exponent
        return examined & (lists.like < self._attraction(lists.relevance, noise, position))

    def _attraction(self, relevance: Floats, noise: float, position: Floats) -> Floats:
        return noise + (1 - noise) * relevance


@dataclass(frozen=True)
class Trusting(PositionBased):
    """Position-based, with trust in the top positions: at position k the noise is ε + (1 - ε) trust / k."""

    name: ClassVar[str] = "trust"
    trust: float = 0.65

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.number("trust", self.trust, least=0, most=1)

    def _attraction(self, relevance: Floats, noise: float, position: Floats) -> Floats:
        noise_at = noise + (1 - noise) * self.trust / position
        return noise_at + (1 - noise_at) * relevance


@dataclass(frozen=True)
class Cascade(UserModel):
    """The user reads from the top and leaves after the first click."""

    name: ClassVar[str] = "cascade"

    def clicks(self, lists: Lists, noise: float) -> Flags:
        """Return the liked documents above the place where the user left."""
        liked = lists.like < noise + (1 - noise) * lists.relevance
        left = self._leaves(liked, lists)
        # A position is examined if the user has not left above it.
        examined = np.ones_like(left)
        examined[:, 1:] = ~np.logical_or.accumulate(left[:, :-1], axis=1)
        return examined & liked

    def _leaves(self, liked: Flags, lists: Lists) -> Flags:
        """Return True where the user leaves if the position is examined."""
        return liked


@dataclass(frozen=True)
class DynamicBayesian(Cascade):
    """The user leaves if satisfied by a click, with probability r, and otherwise continues with `persistence`."""

    name: ClassVar[str] = "dbn"
    persistence: float = 0.9

    def __post_init__(self) -> None:
        checks.number("persistence", self.persistence, least=0, most=1)

    def _leaves(self, liked: Flags, lists: Lists) -> Flags:
        satisfied = liked & (lists.satisfy < lists.relevance)
        return satisfied | (lists.look >= self.persistence)


_User = PositionBased | Cascade  # and their subclasses
USERS: dict[str, type[_User]] = {
    kind.name: kind for kind in (PositionBased, Cascade, DynamicBayesian, Trusting)
}


def user_model(name: str, **options: Any) -> UserModel:
    """Return a user model by name; options that are None take their defaults.

    Examples
    --------
    >>> user_model("position", exponent=2.0, trust=None)
    PositionBased(exponent=2.0)
    """
    checks.choice("examination", name, USERS)
    given = {option: value for option, value in options.items() if value is not None}
    model_options = [field.name for field in fields(USERS[name])]
    for option in given:
        if option not in model_options:
            has = "it has no options"
            if model_options:
                has = f"its options are {', '.join(model_options)}"
            raise ValueError(f"examination={name!r} has no {option}; {has}.")
    return USERS[name](**given)
