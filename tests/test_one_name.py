"""One name per thing: arguments, options, and columns that are no features."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import rankwright as rw
from commands import Outcome

DATA = rw.make_web_search(40, kind="short", n_features=20, random_state=1)
FRAME = pd.DataFrame(DATA.X, columns=[f"c{column}" for column in range(20)])
QUICK: dict[str, Any] = {"n_estimators": 3, "verbose": 0, "n_jobs": 1}


@pytest.mark.parametrize("name", [name for name in dir(rw) if not name.startswith("_")])
def test_no_public_function_has_a_second_name_for_an_argument(name: str) -> None:
    functions = [getattr(rw, name)]
    if inspect.isclass(functions[0]):
        # Results and settings are not called by users, so their fields are free.
        methods = ("fit", "predict", "score", "split", "kfold", "permutation_importance", "rank")
        functions = [getattr(functions[0], method, None) for method in methods]
    for function in functions:
        if inspect.isfunction(function):
            names = set(inspect.signature(function).parameters)
            assert not names & {"seed", "threads", "trees", "weights"}, function


def test_tune_takes_what_fit_takes() -> None:
    options: dict[str, Any] = {"metric": "map", "trials": 2, "n_estimators": 4, "n_jobs": 1}
    train, valid = DATA.split(0.3)
    expected = rw.tune(train, valid=valid, **options)
    parts = {"qid": train.qid, "valid": (valid.X, valid.y, valid.qid)}
    # The names of generated features do not matter.
    got = rw.tune(train.X, train.y, **parts, **options)
    assert got.best == expected.best
    folds = rw.tune(FRAME.assign(g=DATA.y, q=DATA.qid), "g", qid="q", folds=2, **options)
    assert len(folds.trials) == 2


def test_predict_and_score_ignore_further_columns_by_name() -> None:
    ranker = rw.Ranker(**QUICK).fit(FRAME, DATA.y, qid=DATA.qid)
    more = FRAME.assign(url="x", when=pd.Timestamp("2026-01-01"), other=np.inf)
    shuffled = more[["other", *reversed(FRAME.columns), "url", "when"]]
    assert np.array_equal(ranker.predict(shuffled), ranker.predict(FRAME))
    assert ranker.score(shuffled, DATA.y, DATA.qid) == ranker.score(FRAME, DATA.y, DATA.qid)
    with pytest.raises(ValueError, match=r"Missing: c3\. Not expected: other"):
        ranker.predict(more.drop(columns="c3").drop(columns=["url", "when"]))


@pytest.mark.parametrize("command", ["train", "tune", "evaluate", "compare", "report", "sweep"])
def test_metrics_may_be_written_in_both_ways(command: str, call: Callable[..., Outcome]) -> None:
    shown = " ".join(call(command, "--help").out.split())
    assert re.search(r"--metrics?\W+--metrics?\b", shown)


@pytest.mark.parametrize("command", ["train", "tune", "sweep", "demo", "compare"])
def test_options_have_the_names_of_the_arguments(
    command: str, call: Callable[..., Outcome]
) -> None:
    shown = call(command, "--help").out
    assert "--random-state" in shown
    assert ("--trees" in shown) == ("--n-estimators" in shown)
    assert ("--threads" in shown) == ("--n-jobs" in shown)
