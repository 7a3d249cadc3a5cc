"""Presets: several parameters of `rankwright.Ranker` under one name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rankwright.support.checks import ArgumentError

# What helped on real data when whole queries are scored and time is not short.
_BEST: dict[str, Any] = {"start": "linear", "within_query": "rank"}
# A cluster cannot do these so far.
_ON_ONE_MACHINE: dict[str, Any] = {"members": 4}
# Queries to watch choose the number of trees, and are then trained on too.
_WATCHED: dict[str, Any] = {"early_stopping_rounds": 100, "refit": True}


def with_preset(
    parameters: Mapping[str, Any], defaults: Mapping[str, Any], *, alone: bool, watched: bool
) -> dict[str, Any]:
    """Return parameters with those that the preset chooses, unless they differ from their defaults.

    Parameters
    ----------
    parameters, defaults
        The parameters of a `Ranker`, and of a `Ranker` without arguments.
    alone
        Whether a single machine trains.
    watched
        Whether there are evaluation sets.

    Examples
    --------
    >>> defaults = {"preset": None, "start": None, "within_query": None, "members": 1}
    >>> given = {**defaults, "preset": "best", "members": 2}
    >>> with_preset(given, defaults, alone=True, watched=False)["members"]
    2
    >>> with_preset(given, defaults, alone=True, watched=False)["start"]
    'linear'
    """
    preset = parameters["preset"]
    if preset is None:
        return dict(parameters)
    if preset != "best":
        raise ArgumentError("preset", f"must be None or 'best'; got {preset!r}.")
    chosen = dict(_BEST)
    if alone:
        chosen |= _ON_ONE_MACHINE
        # Folds train on all queries already.
        if watched and parameters["early_stopping"] == defaults["early_stopping"]:
            chosen |= _WATCHED
    free = {name for name in chosen if parameters[name] == defaults[name]}
    return {**parameters, **{name: chosen[name] for name in free}}
