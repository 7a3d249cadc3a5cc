"""How simulated users look at a list and click.

Every user model has two parts: which positions are examined, and which examined documents are clicked. A document of
relevance r is clicked, if examined, with probability

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

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


class Lists(NamedTuple):
    """Lists shown for one query, and the draws that decide on clicks, all [impressions, positions]."""

    relevance: Floats  # r of the document at each position
    look: Floats  # uniform draws: is the position examined, does the user continue
    like: Floats  # is the document clicked if examined
    satisfy: Floats  # does a click satisfy the user


class UserModel(ABC):
    """A user who clicks in lists; subclasses say which positions are examined."""

    name: ClassVar[str]

    @abstractmethod
    def clicks(self, lists: Lists, noise: float) -> Flags:
        """Return which documents are clicked."""


@dataclass(frozen=True)
class PositionBased(UserModel):
    """Position k is examined with probability k^-exponent, independently of everything else."""

    name: ClassVar[str] = "position"
    exponent: float = 1.0

    def __post_init__(self) -> None:
        if not (np.isfinite(self.exponent) and self.exponent >= 0):
            raise ValueError(
                f"exponent must be finite and non-negative; got {self.exponent}. Use 0 for no bias."
            )

    def clicks(self, lists: Lists, noise: float) -> Flags:
        """Examined and liked."""
        position = _positions(lists)
        examined: Flags = lists.look < position**-self.exponent
        return examined & (lists.like < self._attraction(lists.relevance, noise, position))

    def _attraction(self, relevance: Floats, noise: float, position: Floats) -> Floats:
        return noise + (1 - noise) * relevance


@dataclass(frozen=True)
class Trusting(PositionBased):
    """Position-based, and what stands high is trusted: at position k the noise is ε + (1 - ε) trust / k."""

    name: ClassVar[str] = "trust"
    trust: float = 0.65

    def __post_init__(self) -> None:
        super().__post_init__()
        require_probability("trust", self.trust)

    def _attraction(self, relevance: Floats, noise: float, position: Floats) -> Floats:
        noise_at = noise + (1 - noise) * self.trust / position
        return noise_at + (1 - noise_at) * relevance


@dataclass(frozen=True)
class Cascade(UserModel):
    """The user reads from the top and leaves after the first click."""

    name: ClassVar[str] = "cascade"

    def clicks(self, lists: Lists, noise: float) -> Flags:
        """Clicks before which the user did not leave."""
        liked = lists.like < noise + (1 - noise) * lists.relevance
        left = self._leaves(liked, lists)
        examined = np.ones_like(left)
        examined[:, 1:] = ~np.logical_or.accumulate(left[:, :-1], axis=1)
        return examined & liked

    def _leaves(self, liked: Flags, lists: Lists) -> Flags:
        """Return whether the user, having examined a position, leaves there."""
        return liked


@dataclass(frozen=True)
class DynamicBayesian(Cascade):
    """The user leaves if satisfied by a click, with probability r, and otherwise continues with `persistence`."""

    name: ClassVar[str] = "dbn"
    persistence: float = 0.9

    def __post_init__(self) -> None:
        require_probability("persistence", self.persistence)

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
    if name not in USERS:
        raise ValueError(f"unknown examination {name!r}; choose one of {', '.join(USERS)}.")
    given = {option: value for option, value in options.items() if value is not None}
    known = [field.name for field in fields(USERS[name])]
    for option in given:
        if option not in known:
            has = f"its options are {', '.join(known)}" if known else "it has no options"
            raise ValueError(f"examination={name!r} has no {option}; {has}.")
    return USERS[name](**given)


def require_probability(name: str, value: float) -> None:
    """Raise ValueError unless a value is a probability."""
    if not 0 <= value <= 1:
        raise ValueError(f"{name} is a probability and must be from 0 to 1; got {value}.")


def _positions(lists: Lists) -> Floats:
    return np.arange(1.0, lists.relevance.shape[1] + 1)
