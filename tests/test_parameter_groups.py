"""Parameters of Ranker that are groups: the same training whatever form they are given in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sklearn.base import clone

import rankwright as rw
from rankwright.training.groups import GROUPS, read_langevin, read_position_bias
from small import TRAIN, quick

SGLB = {"temperature": 500.0, "shrink_rate": 0.5}


def dump(langevin: Any, objective: str = "stochasticrank") -> Any:
    ranker = quick(objective=objective, n_estimators=4, langevin=langevin)
    return ranker.fit(TRAIN).forest_.dump()


def test_a_group_may_be_an_object_or_a_dict() -> None:
    assert dump(SGLB) == dump(rw.Langevin(**SGLB)) != dump(True)
    assert dump(True) == dump({}) == dump(rw.Langevin()) != dump(False)
    assert read_langevin(None) is None
    assert read_position_bias({"limit": 7}) == rw.PositionBias(limit=7)
    assert read_position_bias(None) == rw.PositionBias()


def test_groups_are_parameters_for_scikit_learn() -> None:
    ranker = rw.Ranker(langevin=rw.Langevin(temperature=3.0), position_bias={"ridge": 2.0})
    copy = clone(ranker)
    assert copy.get_params() == ranker.get_params()
    assert copy.set_params(langevin={"temperature": 4.0}).langevin == {"temperature": 4.0}
    assert "temperature=3.0" in repr(ranker)


def test_a_saved_model_has_the_group_as_a_dict(tmp_path: Path) -> None:
    ranker = quick(n_estimators=2, langevin=rw.Langevin(**SGLB)).fit(TRAIN)
    ranker.save(tmp_path / "model")
    loaded = rw.Ranker.load(tmp_path / "model")
    assert loaded.langevin == {**SGLB, "leaf_noise": "shared"}
    again = loaded.set_params(verbose=0).fit(TRAIN)
    assert again.forest_.dump() == ranker.forest_.dump()


def test_a_run_and_the_command_line_have_the_entries(tmp_path: Path) -> None:
    run = rw.train_run(
        tmp_path / "run",
        TRAIN,
        parameters={"n_estimators": 2, "langevin": rw.Langevin(temperature=500.0)},
        verbose=0,
    )
    assert run.config["langevin"] == {
        "temperature": 500.0,
        "shrink_rate": 0.001,
        "leaf_noise": "shared",
    }
    from rankwright.cli.train import _parameters

    settings = ["langevin=true", "langevin.temperature=500", "position_bias.limit=9"]
    assert _parameters(None, {}, settings) == {
        "langevin": {"temperature": 500},
        "position_bias": {"limit": 9},
    }


@pytest.mark.parametrize("name", GROUPS)
def test_each_entry_is_documented(name: str) -> None:
    kind = GROUPS[name]
    for entry in kind.__dataclass_fields__:
        assert entry in str(kind.__doc__)
        assert f"``{entry}``" in str(rw.Ranker.__doc__)


def test_a_search_draws_entries_and_keeps_the_fixed_ones() -> None:
    from rankwright.tuning.space import ranker_parameters

    values = {"langevin": {"leaf_noise": "independent"}, "langevin.temperature": 5.0}
    parameters = ranker_parameters(rw.objective("stochasticrank"), values)
    assert parameters["langevin"] == {"leaf_noise": "independent", "temperature": 5.0}
