"""Rules for ``engine_params``: which parameters of a library may be set, and why others may not."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwright.engines.contract import Needs
from rankwright.support.checks import is_whole
from rankwright.support.notation import nearest


@dataclass(frozen=True)
class ParameterRules:
    """Rules for the parameters of one library.

    Parameters
    ----------
    library
        Its name.
    aliases
        Main names of parameters that have several.
    set_by_estimator
        The estimator's parameter that decides a parameter of the library.
    refused
        Why a well-known parameter cannot be used.
    allowed
        The parameters that can be set.
    depend_on_scale, act_on_leaf_values, break_order
        Parameters that are refused if the training has the needs ``any_scale``, ``own_leaves`` and ``ordered``.
    wrong_value
        Returns why a value cannot be used, or None. Its arguments are the main name and the value.
    """

    library: str
    aliases: Mapping[str, str]
    set_by_estimator: Mapping[str, str]
    refused: Mapping[str, str]
    allowed: Collection[str]
    depend_on_scale: Collection[str]
    act_on_leaf_values: Collection[str]
    break_order: Collection[str]
    wrong_value: Callable[[str, Any], str | None]

    def main_name(self, name: str) -> str:
        """Return the main name of a parameter."""
        return self.aliases.get(name, name)

    def main_names(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return parameters by their main names."""
        return {self.main_name(name): value for name, value in params.items()}

    def check(self, params: Mapping[str, Any], needs: Needs) -> list[str]:
        """Return one sentence for each reason why parameters cannot be used."""
        reasons = []
        given_names: dict[str, str] = {}
        for given, value in params.items():
            name = self.main_name(given)
            if name in given_names:
                reasons.append(
                    f"engine_params has {given_names[name]!r} and {given!r}, "
                    "two names of one parameter; keep one."
                )
            given_names[name] = given
            reason = self._reason(given, name, value, needs)
            if reason is not None:
                reasons.append(f"engine_params has {reason}")
        return reasons

    def _reason(self, given: str, name: str, value: Any, needs: Needs) -> str | None:
        """Return why one parameter cannot be used, or None."""
        if name in self.set_by_estimator:
            return f"{given!r}; use {self.set_by_estimator[name]} instead."
        if name in self.refused:
            return f"{given!r}, which cannot be used: {self.refused[name]}. Leave it out."
        if name not in self.allowed:
            hint = nearest(str(name), [*self.allowed, *self.aliases], cutoff=0.6)
            return (
                f"{given!r}, which is not a parameter of {self.library} that can be used here{hint} "
                f"By their main names, these can: {', '.join(sorted(self.allowed))}."
            )
        wrong = self.wrong_value(name, value)
        if wrong is not None:
            return f"{given}={value!r}; {wrong}"
        if needs.any_scale and name in self.depend_on_scale and _is_set(value):
            return (
                f"{given!r}, which depends on the scale of the gradient and breaks shrinking "
                "(Langevin boosting with shrink_rate > 0); leave it out or set shrink_rate=0."
            )
        if needs.ordered and name in self.break_order and _is_set(value):
            return (
                f"{given!r}, which can break the constraints of monotone=; leave one of them out."
            )
        if needs.own_leaves and name in self.act_on_leaf_values and _is_set(value):
            return (
                f"{given!r}, which acts on {self.library}'s own leaf values, and leaf_values='full' and "
                "leaf_noise='independent' replace them; leave it out, or use diagonal leaf values with shared noise."
            )
        return None


def _is_set(value: Any) -> bool:
    """Return True if a value, or any value of a list or dict, is not zero or empty."""
    return bool(np.any([*value.values()] if isinstance(value, Mapping) else value))


def column_groups(constraints: Any, n_columns: int) -> list[list[int]]:
    """Return ``interaction_constraints`` as lists of column numbers, or raise ValueError.

    Examples
    --------
    >>> column_groups([(0, 2), [1]], 3)
    [[0, 2], [1]]
    """
    is_list = isinstance(constraints, list | tuple) and all(
        isinstance(group, list | tuple) for group in constraints
    )
    if not is_list or not all(
        is_whole(column) and 0 <= column < n_columns for group in constraints for column in group
    ):
        raise ValueError(
            f"engine_params has interaction_constraints={constraints!r}; give a list of lists of column numbers from "
            f"0 to {n_columns - 1}, such as [[0, 1], [2]]."
        )
    return [[int(column) for column in group] for group in constraints]
