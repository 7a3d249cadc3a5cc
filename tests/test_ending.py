"""The line about how a training ended, for each way to end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwright as rw
from rankwright.training.ending import ending_line

TRAIN, REST = rw.make_web_search(60, n_features=20, mean_length=15, random_state=2).split(0.4)
VALID, TEST = REST.split(0.5)


def ranker(**parameters: Any) -> rw.Ranker:
    options: dict[str, Any] = {"n_estimators": 12, "num_leaves": 6, "min_child_samples": 3}
    return rw.Ranker(**{**options, "n_jobs": 1, "verbose": 0, **parameters})


def line(fitted: rw.Ranker) -> str:
    return ending_line(fitted.manifest_)


def test_it_is_printed_once_unless_silent(capfd: pytest.CaptureFixture[str]) -> None:
    fitted = ranker(verbose=1).fit(TRAIN)
    assert capfd.readouterr().err.splitlines()[-1] == line(fitted)
    assert line(fitted) == "Training ended after 12 trees, as many as n_estimators allows."
    ranker().fit(TRAIN)
    assert "Training ended" not in "".join(capfd.readouterr())


def test_the_best_tree_is_named_if_all_are_kept() -> None:
    fitted = ranker(learning_rate=0.5).fit(TRAIN, eval_set=VALID)
    curve = fitted.evals_result_["valid_0"]["ndcg@10"]
    best = curve.index(max(curve)) + 1
    assert fitted.best_iteration_ == best < 12
    loss = max(curve) - curve[-1]
    assert f"All are kept; tree {best} was {loss:.4f} better in ndcg@10." in line(fitted)
    shorter = ranker(learning_rate=0.5, n_estimators=best).fit(TRAIN, eval_set=VALID)
    assert line(shorter).endswith("n_estimators allows. The last has the best ndcg@10.")


def test_training_data_has_no_best_tree() -> None:
    fitted = ranker(metric="err", learning_rate=0.9).fit(TRAIN, eval_set=[TRAIN, VALID])
    assert fitted.best_iteration_ is None
    assert line(fitted) == "Training ended after 12 trees, as many as n_estimators allows."


def test_early_stopping_names_the_kept_tree_the_best_and_the_choice_of_the_other_rule() -> None:
    options: dict[str, Any] = {
        "n_estimators": 300,
        "early_stopping_rounds": 15,
        "learning_rate": 0.1,
    }
    fitted = ranker(**options).fit(TRAIN, eval_set=VALID)
    other = ranker(**options, stopping_rule="best").fit(TRAIN, eval_set=VALID)
    grown = len(fitted.evals_result_["valid_0"]["ndcg@10"])
    found = fitted.stopping_
    assert line(fitted) == (
        f"Training ended after {grown} trees, the last 15 without an improvement. Kept: "
        f"{fitted.n_estimators_}, the last within one standard error of the best, tree {found['best_iteration']} "
        f"({found['difference']:.4f} ± {found['error']:.4f} in ndcg@10); stopping_rule='best' would keep "
        f"{other.n_estimators_}."
    )
    assert f"Kept: {other.n_estimators_}, the best in ndcg@10; " in line(other)
    assert "stopping_rule" not in line(other)
    assert line(other) in other._repr_html_()


@pytest.mark.parametrize("by", ["callback", "Ctrl-C"])
def test_a_training_that_is_broken_off(by: str) -> None:
    def stop(progress: Any) -> bool:
        if progress.iteration == 5 and by == "Ctrl-C":
            raise KeyboardInterrupt
        return bool(progress.iteration == 5)

    reason = {"callback": ", because a callback ended it", "Ctrl-C": " by Ctrl-C"}[by]
    fitted = ranker().fit(TRAIN, callbacks=[stop])
    assert line(fitted) == f"Training ended after 5 trees{reason}."
    whole = ranker(early_stopping_rounds=50, refit=True)
    whole.fit(TRAIN, eval_set=VALID, callbacks=[lambda progress: progress.stage == "refit"])
    assert line(whole).endswith("The refit did not come to its end.")


def test_no_further_split() -> None:
    X, y = np.repeat([[0.0], [1.0]], 40, axis=0), np.repeat([0, 1], 40)
    y[0], qid = 1, np.tile(np.arange(20), 4)
    parameters: dict[str, Any] = {"objective": "lambdamart", "learning_rate": 1.0, "subsample": 1.0}
    parameters["colsample"] = 1.0
    parameters |= {"num_leaves": 2, "reg_lambda": 0, "n_estimators": 4000}
    parameters["engine_params"] = {"min_gain_to_split": 1.0}
    fitted = ranker(**parameters).fit(X, y, qid=qid)
    assert fitted.n_estimators_ < 4000
    assert line(fitted) == (
        f"Training ended after {fitted.n_estimators_} trees, because no further split helps."
    )


def test_further_passes_are_named(tmp_path: Path) -> None:
    first = ranker().fit(TRAIN)
    more = ranker(n_estimators=3).fit(TRAIN, init_model=first)
    assert line(more).startswith("Training ended after 3 trees on top of 12, as many as")
    refit = ranker(early_stopping_rounds=50, refit=True).fit(TRAIN, eval_set=VALID)
    assert line(refit).endswith(f" The refit on all queries has {refit.n_estimators_}.")
    average = ranker(members=2).fit(TRAIN)
    assert line(average).endswith(" This was the first of 2 members, with 24 trees in all.")
    average.save(tmp_path / "model")
    assert line(rw.Ranker.load(tmp_path / "model")) == line(average)


def test_a_damaged_entry_is_refused() -> None:
    from rankwright.training.ending import read_ending

    ending = ranker().fit(TRAIN).manifest_["ending"]
    assert read_ending(ending) == ending
    for name, value in [("reason", "bored"), ("trees", "3"), ("loss", None), ("patience", 1.5)]:
        with pytest.raises(ValueError, match="damaged"):
            read_ending({**ending, name: value})
