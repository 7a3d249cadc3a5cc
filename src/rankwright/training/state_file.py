"""The state of a training as plain values, and the checks that values from a file pass before they are used."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rankwright.engines.contract import Forest
from rankwright.training.state import PHASES, State

_FIELDS = {
    "initial_trees",
    "trees",
    "factors",
    "rates",
    "history",
    "choices",
    "errors",
    "finished",
    "times",
}
_FIRST: dict[str, Any] = {"choices": [], "errors": []}  # fields that the first states lack
_OPTIONAL = {"biases"}  # where position bias is learned


def describe_state(state: State) -> dict[str, Any]:
    """All but the forest as values that JSON can hold."""
    values = {
        "initial_trees": state.initial_trees,
        "trees": state.trees,
        "factors": state.factors,
        "rates": state.rates,
        "history": state.history,
        "choices": state.choices,
        "errors": state.errors,
        "finished": state.finished,
        "times": state.times,
    }
    return values | ({"biases": state.biases} if state.biases else {})


def read_state(
    values: Any, forest: Forest, initial_trees: int, curves: Sequence[Sequence[str]]
) -> State:
    """Check every value of a state and its agreement with the forest; raise ValueError with what is wrong.

    Parameters
    ----------
    values
        What `describe_state` returned.
    forest
        The trees that belong to it.
    initial_trees
        How many of them belong to an earlier model.
    curves
        Names of the metrics on each evaluation set.
    """
    values = {**_FIRST, **values} if isinstance(values, dict) else values
    if not isinstance(values, dict) or values.keys() - _OPTIONAL != _FIELDS:
        raise ValueError(f"a state consists of {', '.join(sorted(_FIELDS))}")
    initial, trees = values["initial_trees"], values["trees"]
    if initial != initial_trees or not _is_whole(initial):
        raise ValueError(
            f"it starts from {initial!r} trees of an earlier model, not {initial_trees}"
        )
    if not isinstance(trees, list) or not all(map(_is_whole, trees)):
        raise ValueError("its numbers of trees are not whole numbers from 0")
    if any(
        later - earlier not in (0, 1)
        for earlier, later in zip([initial, *trees], trees, strict=False)
    ):
        raise ValueError("its numbers of trees do not grow by one tree or none")
    if forest.n_trees != (trees[-1] if trees else initial):
        raise ValueError(
            f"it counts {trees[-1] if trees else initial} trees and has {forest.n_trees}"
        )
    n = len(trees)
    factors = _numbers(values["factors"], "factors", n)
    rates = _numbers(values["rates"], "rates", n if values["rates"] else 0)
    if not all(map(math.isfinite, factors)) or not all(0 < rate < math.inf for rate in rates):
        raise ValueError("a factor is not finite, or a learning rate is not a positive number")
    choices, errors = values["choices"], values["errors"]
    errors = _numbers(errors, "errors", n if errors else 0)
    whole = (
        isinstance(choices, list) and len(choices) == len(errors) and all(map(_is_whole, choices))
    )
    if not whole or any(
        not 1 <= choice <= number for number, choice in enumerate(choices, start=1)
    ):
        raise ValueError("a choice is not one of the iterations so far")
    if not all(0 <= error < math.inf for error in errors):
        raise ValueError("an error is not a number from 0")
    if not isinstance(values["finished"], bool):
        raise ValueError("finished is neither true nor false")
    times = values["times"]
    if isinstance(times, dict) and set(times) == {"gradients", "trees", "leaves", "evaluation"}:
        times = {
            "preparation": 0.0,
            "compilation": 0.0,
            **times,
        }  # of version 0.1.0, which did not count these
    if not isinstance(times, dict) or set(times) != set(PHASES):
        raise ValueError(f"times are not those of {', '.join(PHASES)}")
    seconds = _numbers([times[phase] for phase in PHASES], "times", len(PHASES))
    if any(not 0 <= number < math.inf for number in seconds):
        raise ValueError("a time is not a number from 0")
    return State(
        forest=forest,
        initial_trees=initial,
        trees=list(trees),
        factors=factors,
        rates=rates,
        biases=_biases(values.get("biases"), n),
        history=_history(values["history"], curves, n),
        choices=list(choices),
        errors=errors,
        finished_after=n if values["finished"] else None,
        times=dict(zip(PHASES, seconds, strict=True)),
    )


def _biases(values: Any, n: int) -> list[list[float]]:
    if values is None:
        return []
    if (
        not isinstance(values, list)
        or len(values) != n
        or not all(isinstance(one, list) for one in values)
    ):
        raise ValueError(f"biases has not one list for each of {n} iterations")
    biases = [_numbers(one, "biases", len(values[0])) for one in values]
    if not all(math.isfinite(number) for one in biases for number in one):
        raise ValueError("a bias is not finite")
    return biases


def _history(values: Any, curves: Sequence[Sequence[str]], n: int) -> list[dict[str, list[float]]]:
    if not isinstance(values, list) or not all(isinstance(item, dict) for item in values):
        raise ValueError("its history is not a list of curves")
    if [set(item) for item in values] != [set(names) for names in curves]:
        raise ValueError("its history has other metrics or evaluation sets")
    history = [
        {name: _numbers(item[name], name, n) for name in names}
        for item, names in zip(values, curves, strict=True)
    ]
    if any(math.isinf(number) for item in history for curve in item.values() for number in curve):
        raise ValueError("a metric is infinite")
    return history


def _numbers(values: Any, name: str, n: int) -> list[float]:
    if not isinstance(values, list) or len(values) != n:
        raise ValueError(f"{name} has not one number for each of {n} iterations")
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        raise ValueError(f"{name} has an entry that is not a number")
    try:
        return [float(value) for value in values]
    except OverflowError:
        raise ValueError(f"{name} has a number that is too large") from None


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
