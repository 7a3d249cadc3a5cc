"""A preset chooses parameters that are left at their defaults, and the model says what it chose."""

from __future__ import annotations

from typing import Any

import pytest

import rankwright as rw
from rankwright.training.presets import with_preset
from small import TRAIN, VALID, quick

DEFAULTS = rw.Ranker().get_params()
CHOSEN: dict[str, Any] = {"start": "linear", "within_query": "rank", "members": 4}
WATCHED: dict[str, Any] = {"early_stopping_rounds": 100, "refit": True}


def changes(*, alone: bool = True, watched: bool = False, **given: Any) -> dict[str, Any]:
    """The parameters that a preset changes."""
    parameters = {**DEFAULTS, "preset": "best", **given}
    found = with_preset(parameters, DEFAULTS, alone=alone, watched=watched)
    return {name: found[name] for name in found if found[name] != parameters[name]}


def test_a_preset_depends_on_what_can_be_used() -> None:
    assert changes() == CHOSEN
    assert changes(watched=True) == CHOSEN | WATCHED
    assert changes(watched=True, early_stopping="cv") == CHOSEN
    assert changes(watched=True, alone=False) == {"start": "linear", "within_query": "rank"}
    assert changes(preset=None, watched=True) == {}


def test_given_parameters_win() -> None:
    assert changes(members=2, within_query="z") == {"start": "linear"}
    assert changes(watched=True, early_stopping_rounds=5, refit=True) == CHOSEN


@pytest.mark.parametrize("watched", [False, True])
def test_a_preset_is_its_parameters(watched: bool) -> None:
    sets = {"eval_set": VALID} if watched else {}
    parameters = CHOSEN | (WATCHED if watched else {})
    options: dict[str, Any] = {"n_estimators": 4}
    found = quick(preset="best", **options).fit(TRAIN, **sets)
    expected = quick(**parameters, **options).fit(TRAIN, **sets)
    assert found.forest_.dump() == expected.forest_.dump()
    assert found.manifest_["parameters"] == expected.manifest_["parameters"] | {"preset": "best"}
    assert found.get_params()["members"] == 1  # the estimator keeps what the user gave


def test_an_unknown_preset_is_refused() -> None:
    with pytest.raises(ValueError, match="preset must be None or 'best'; got 'good'"):
        quick(preset="good").fit(TRAIN)
