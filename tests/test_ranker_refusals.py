"""Wrong input, case by case: a clear error before any training, never a crash or a silently wrong model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from rankwright import Ranker, RankingData
from rankwright.engines.lightgbm import grower
from small import TRAIN, VALID, quick, rows

X, Y, QID = rows()
FRAME = pd.DataFrame(X, columns=list("abcd"))


def changed(array: Any, value: Any) -> Any:
    other = array.copy()
    other.flat[7] = value
    return other


PARAMETERS: list[tuple[dict[str, Any], str]] = [
    ({"objective": "lambdamrt"}, "unknown objective 'lambdamrt'; did you mean 'lambdamart'"),
    ({"objective": "lambdamart(depth=3)"}, "lambdamart has no option 'depth'"),
    ({"objective": ""}, "is not an objective"),
    ({"objective": 5}, "or an Objective, or a function of labels, scores and boundaries; got 5"),
    ({"metric": "ngcd@10"}, "unknown metric 'ngcd@10'.*did you mean"),
    ({"metric": "ndcg@0"}, "ndcg"),
    ({"metric": []}, "metric is empty"),
    ({"metric": 10}, "metric must be a name such as 'ndcg@10'"),
    ({"metric": ["ndcg", None]}, "metric must be a name"),
    ({"engine": "xgb"}, "unknown engine 'xgb'; choose one of lightgbm"),
    ({"engine": None}, "unknown engine None"),
    ({"engine": {"name": "lightgbm"}}, "unknown engine {.name.: .lightgbm.}"),
    ({"n_estimators": 0}, "n_estimators must be a whole number from 1; got 0"),
    ({"n_estimators": 2.5}, "n_estimators must be a whole number"),
    ({"n_estimators": True}, "n_estimators must be a whole number"),
    ({"n_estimators": "many"}, "n_estimators must be a whole number"),
    ({"n_estimators": None}, "n_estimators must be a whole number"),
    (
        {"learning_rate": 0},
        "learning_rate must be a number above 0; got 0. None lets the data choose.",
    ),
    ({"learning_rate": -0.1}, "learning_rate must be a number above 0"),
    (
        {"learning_rate": np.nan},
        "learning_rate must be a number above 0; got nan. None lets the data choose.",
    ),
    (
        {"learning_rate": np.inf},
        "learning_rate must be a number above 0; got inf. None lets the data choose.",
    ),
    (
        {"num_leaves": 1},
        "num_leaves must be a whole number from 2 to 131072; got 1. None lets the data choose.",
    ),
    ({"num_leaves": 200_000}, "num_leaves must be a whole number from 2 to 131072"),
    ({"max_depth": 0}, "max_depth must be a whole number from 1; got 0. -1 means no limit."),
    ({"max_depth": 2.0}, "max_depth must be a whole number"),
    ({"min_child_samples": 0}, "min_child_samples must be a whole number from 1"),
    ({"reg_lambda": -1}, "reg_lambda must be a number from 0; got -1"),
    (
        {"subsample": 0},
        "subsample must be a number above 0 up to 1; got 0. None lets the data choose.",
    ),
    (
        {"bagging_temperature": -1},
        "bagging_temperature must be a number from 0 to 10; got -1. None lets the data choose.",
    ),
    ({"subsample": 1.1}, "subsample must be a number above 0 up to 1"),
    ({"subsample_queries": 0.0}, "subsample_queries must be a number above 0 up to 1"),
    ({"subsample_queries": 2}, "subsample_queries must be a number above 0 up to 1"),
    ({"colsample": -0.5}, "colsample must be a number above 0 up to 1"),
    ({"colsample": "half"}, "colsample must be a number above 0 up to 1"),
    ({"leaf_values": "newton"}, "leaf_values must be one of auto, diagonal, full; got 'newton'"),
    ({"leaf_values": "full", "reg_lambda": 0}, "leaf_values='full' needs reg_lambda above 0"),
    (
        {"leaf_values": "full", "objective": "stochasticrank"},
        "no full curvature.*diagonal leaf values",
    ),
    ({"leaf_values": "full", "objective": "softrank"}, "no full curvature"),
    ({"leaf_values": "full", "objective": "queryrmse + 0.1 softrank"}, "no full curvature"),
    (
        {"early_stopping_rounds": 0},
        "early_stopping_rounds must be a whole number from 1; got 0. None means",
    ),
    (
        {"early_stopping_rounds": 5},
        r"early_stopping_rounds needs an eval_set to watch; pass eval_set=",
    ),
    (
        {"langevin": "yes"},
        "langevin must be True, False, a Langevin or a dict of temperature, shrink_rate, leaf_noise; got 'yes'",
    ),
    ({"langevin": {"shrink": 0.1}}, "langevin has no entry 'shrink'; did you mean 'shrink_rate'"),
    ({"langevin": {1: 0.1}}, "langevin has no entry 1. It has temperature, shrink_rate"),
    ({"position_bias": 3}, "position_bias must be None, a PositionBias or a dict of ridge, smo"),
    (
        {"langevin": {"leaf_noise": "own"}},
        "leaf_noise of langevin must be one of 'shared', 'independent'",
    ),
    ({"langevin": {"temperature": 0}}, "temperature of langevin must be a number above 0"),
    ({"langevin": {"shrink_rate": -1}}, "shrink_rate of langevin must be a number from 0"),
    ({"langevin": {"shrink_rate": 10.0}}, r"shrink_rate \* learning_rate must be below 1; got 1"),
    ({"random_state": -1}, "random_state must be a whole number from 0 to"),
    (
        {"random_state": 1 << 64},
        "random_state must be a whole number from 0 to 18446744073709551615; got",
    ),
    (
        {"verbose": "much"},
        "verbose must be a whole number from 0; got 'much'. False means silence.",
    ),
    (
        {"objective": None},
        "or an Objective, or a function of labels, scores and boundaries; got None",
    ),
    ({"random_state": 1.5}, "random_state must be a whole number"),
    ({"random_state": "zero"}, "random_state must be a whole number"),
    (
        {"n_jobs": 0},
        "n_jobs must be a whole number from 1 to 1024; got 0. None and -1 mean all cores.",
    ),
    ({"n_jobs": -2}, "n_jobs must be a whole number from 1"),
    ({"n_jobs": "all"}, "n_jobs must be a whole number from 1"),
    ({"checkpoint": 5}, "checkpoint must be a folder, or a dict of path"),
    ({"checkpoint": {"trees": 5}}, "checkpoint must be a folder, or a dict of path"),
    ({"checkpoint": {"path": "x", "every": 5}}, "checkpoint must be a folder, or a dict of path"),
    (
        {"checkpoint": {"path": "x", "trees": 0}},
        "trees of checkpoint must be a whole number from 1",
    ),
    (
        {"checkpoint": {"path": "x", "seconds": "ten"}},
        "seconds of checkpoint must be a number from 0",
    ),
    ({"checkpoint": "x", "random_state": None}, "checkpoint needs a random_state"),
    ({"engine_params": [("max_bin", 5)]}, "engine_params must be a dict"),
    (
        {"engine_params": {"max_binz": 15}},
        "'max_binz', which is not a parameter .*did you mean 'max_bin'",
    ),
    (
        {"engine_params": {"min_weight": 1}},
        "not a parameter of LightGBM that can be used here.*main names",
    ),
    ({"engine_params": {"lambdarank_truncation_level": 5}}, "cannot be used: gradients come from"),
    ({"engine_params": {"boosting": "dart"}}, "cannot be used: the boosting is"),
    ({"engine_params": {"linear_tree": True}}, "cannot be used: trees have constant"),
    ({"engine_params": {"deterministic": False}}, "cannot be used: the same seed"),
    ({"engine_params": {3: 4}}, "engine_params has 3, which is not a parameter"),
    (
        {"engine_params": {"objective": "lambdarank"}},
        "engine_params has 'objective'; use objective= instead",
    ),
    ({"engine_params": {"num_iterations": 5}}, "use n_estimators= instead"),
    ({"engine_params": {"num_threads": 5}}, "use n_jobs= instead"),
    ({"engine_params": {"bagging_seed": 5}}, "use random_state= instead"),
    ({"engine_params": {"bagging_by_query": True}}, "use subsample_queries= instead"),
    ({"engine_params": {"verbosity": 2}}, "use verbose= instead"),
    ({"engine_params": {"lambda_l2": 5}}, "use reg_lambda="),
    ({"engine_params": {"num_leaves": 5}}, "use num_leaves="),
    ({"engine_params": {"feature_fraction": 0.5}}, "use colsample="),
    ({"engine_params": {"max_bin": "many"}}, "LightGBM refuses the data or engine_params.*max_bin"),
    ({"engine_params": {"monotone_constraints": [1]}}, "use monotone= instead"),
    ({"monotone": {"f9": 1}}, "monotone must name columns of the data; got 'f9'"),
    (
        {"engine_params": {"lambda_l1": 1}, "langevin": True},
        "depends on the scale of the gradient and breaks shrinking",
    ),
    ({"engine_params": {"min_gain_to_split": 1}, "langevin": True}, "breaks shrinking"),
    ({"engine_params": {"max_delta_step": 1}, "langevin": True}, "breaks shrinking"),
    (
        {"engine_params": {"lambda_l1": 1}, "leaf_values": "full"},
        "acts on LightGBM's own leaf values",
    ),
    (
        {"engine_params": {"path_smooth": 1.0}, "langevin": {"leaf_noise": "independent"}},
        "acts on LightGBM's own leaf values",
    ),
]


@pytest.mark.parametrize(("parameters", "message"), PARAMETERS, ids=lambda one: str(one)[:60])
def test_parameters_are_checked_before_training(
    monkeypatch: pytest.MonkeyPatch, parameters: dict[str, Any], message: str
) -> None:
    monkeypatch.setattr(grower.Grower, "grow", lambda *_: pytest.fail("training began"))
    ranker = quick(**parameters)  # scikit-learn wants the check in fit, not here
    with pytest.raises(ValueError, match=message):
        ranker.fit(X, Y, qid=QID)
    with pytest.raises(NotFittedError, match="not fitted"):
        ranker.predict(X)


@pytest.mark.parametrize(
    "parameters",
    [
        {"engine_params": {"lambda_l1": 0.1}},
        {"engine_params": {"lambda_l1": 0.0, "min_gain_to_split": 0.0}, "langevin": True},
        {"engine_params": {"lambda_l1": 0.1}, "langevin": {"shrink_rate": 0}},
        {"monotone": {"f0": 1}, "engine_params": {"monotone_penalty": 1.0, "max_bin": 31}},
        {"engine_params": {}},
        {"leaf_values": "full", "objective": "listnet"},
        {"max_depth": 1, "num_leaves": 2, "n_jobs": np.int64(1), "random_state": np.int32(3)},
    ],
    ids=str,
)
def test_what_is_near_a_refusal_works(parameters: dict[str, Any]) -> None:
    assert quick(**parameters).fit(X, Y, qid=QID).predict(X).any()


DATA: list[tuple[Callable[[], Any], str]] = [
    (lambda: quick().fit(X, Y), "no query ids"),
    (lambda: quick().fit(X), "requires y to be passed"),
    (lambda: quick().fit(X, qid=QID), "requires y to be passed"),
    (lambda: quick().fit(X, Y[:-1], qid=QID), "labels have shape .* for 60 rows"),
    (lambda: quick().fit(X, Y, qid=QID[:-1]), "qid has 59 entries for 60 rows"),
    (lambda: quick().fit(X[:-1], Y, qid=QID), "59 rows"),
    (lambda: quick().fit(X, Y, group=QID), r"group\[\d+\] is 0.*pass it as qid= instead"),
    (lambda: quick().fit(X, Y, group=[30, 31]), "group adds up to 61 rows but there are 60"),
    (lambda: quick().fit(X, Y, qid=QID, group=[30, 30]), "group"),
    (
        lambda: quick().fit(X, Y, qid=changed(QID.astype(float), np.nan)),
        "query id at row 7 is missing",
    ),
    (lambda: quick().fit(X, changed(Y, -1), qid=QID), "labels must be finite and non-negative"),
    (lambda: quick().fit(X, changed(Y, np.inf), qid=QID), "labels must be finite and non-negative"),
    (lambda: quick().fit(X, ["good"] * 60, qid=QID), "labels must be numbers"),
    (lambda: quick().fit(changed(X, np.inf), Y, qid=QID), "'f3' is infinite at row 1"),
    (lambda: quick().fit(changed(X, -np.inf), Y, qid=QID), "'f3' is infinite"),
    (lambda: quick().fit(sp.csr_matrix(changed(X, np.inf)), Y, qid=QID), "'f3' is infinite"),
    (lambda: quick().fit(X[:, 0], Y, qid=QID), "X must be a table"),
    (lambda: quick().fit(X[:0], Y[:0], qid=QID[:0]), "empty"),
    (lambda: quick().fit(X[:, :0], Y, qid=QID), "the data is empty"),
    (lambda: quick().fit(X.astype(str), Y, qid=QID), "X holds values that are not numbers"),
    (lambda: quick().fit(FRAME.assign(a="text"), Y, qid=QID), "column 'a' has the type"),
    (
        lambda: quick().fit(FRAME, "label", qid=QID),
        "y='label' is not a column of the data; it has a, b",
    ),
    (lambda: quick().fit(FRAME, Y, qid="query"), "qid='query' is not a column of the data"),
    (lambda: quick().fit(X, Y, qid="query"), "qid='query' names a column, but X is a ndarray"),
    (lambda: quick().fit(X, Y, qid=QID, sample_weight=np.ones(7)), r"weights have shape \(7,\)"),
    (lambda: quick().fit(X, Y, qid=QID, sample_weight=-np.ones(60)), r"weights\[0\] is -1"),
    (
        lambda: quick(leaf_values="full").fit(X, Y, qid=QID, sample_weight=np.arange(60.0)),
        "full curvature needs the same weight for all rows of a query",
    ),
    (
        lambda: quick().fit(TRAIN, TRAIN.y),
        "X is a RankingData, which has labels.*leave out the other arguments",
    ),
    (lambda: quick().fit(TRAIN, qid=TRAIN.qid), "X is a RankingData"),
    (lambda: quick().fit(X, Y, qid=QID, eval_set=5), "eval_set must be a list"),
    (lambda: quick().fit(X, Y, qid=QID, eval_set=X), "eval_set must be a list"),
    (lambda: quick().fit(X, Y, qid=QID, eval_set=(X, Y)), r"eval_set\[0\]: expected \(X, y, qid\)"),
    (
        lambda: quick().fit(X, Y, qid=QID, eval_set=[X, Y, QID]),
        r"eval_set\[0\]: expected \(X, y, qid\)",
    ),
    (
        lambda: quick().fit(X, Y, qid=QID, eval_set=[(X, Y, QID), (X, Y)]),
        r"eval_set\[1\]: expected",
    ),
    (lambda: quick().fit(X, Y, qid=QID, eval_set=[(X, Y, None)]), r"eval_set\[0\]: no query ids"),
    (
        lambda: quick().fit(X, Y, qid=QID, eval_set=[(X[:, :3], Y, QID)]),
        r"eval_set\[0\]: X has 3 features, .* expecting 4",
    ),
    (lambda: quick().fit(X, Y, qid=QID, eval_set=[VALID]), r"eval_set\[0\]: X has 25 features, "),
    (
        lambda: quick().fit(
            FRAME, Y, qid=QID, eval_set=[(FRAME.rename(columns={"a": "z"}), Y, QID)]
        ),
        "Missing: a",
    ),
    (
        lambda: quick().fit(X, Y, qid=QID, eval_set=[(X, -Y, QID)]),
        r"eval_set\[0\]: labels must be finite",
    ),
    (
        lambda: quick().fit(
            X, Y, qid=QID, eval_set=RankingData(X, Y, qid=QID, sample_weight=np.arange(60.0))
        ),
        "weights differ within a query",
    ),
    (lambda: quick().fit(X, Y, qid=QID, callbacks=print), "callbacks must be a list of functions"),
    (
        lambda: quick().fit(X, Y, qid=QID, callbacks=["stop"]),
        "callbacks must be a list of functions",
    ),
    (lambda: quick().fit(X, Y, qid=QID, init_model=quick()), "not fitted"),
    (
        lambda: quick().fit(X, Y, qid=QID, init_model=5),
        "init_model must be a fitted Ranker or the path",
    ),
    (
        lambda: quick().fit(X, Y, qid=QID, init_model=quick(n_estimators=1).fit(TRAIN)),
        "X has 4 features, .* expecting 25",
    ),
    (
        lambda: quick(metric="dcg-rr", objective="lambdamart").fit(X, Y, qid=QID),
        "use stochasticrank",
    ),
    (lambda: Ranker().predict(X), "not fitted"),
    (lambda: Ranker().score(X, Y, QID), "not fitted"),
    (lambda: Ranker().ranks(X, QID), "not fitted"),
    (lambda: Ranker().save("model"), "not fitted"),
    (lambda: list(Ranker().staged_predict(X)), "not fitted"),
    (lambda: Ranker().feature_importances_, "not fitted"),
    (lambda: FITTED.predict(X[:, :3]), "X has 3 features, but Ranker is expecting 4 features"),
    (lambda: FITTED.predict(X[0]), "X must be a table"),
    (
        lambda: FITTED.predict(FRAME[["a", "b"]]),
        "X has 2 features, but Ranker is expecting 4 features",
    ),
    (lambda: FITTED.predict(changed(X, np.inf)), "infinite value"),
    (lambda: FITTED.predict(VALID), "X has 25 features, but Ranker is expecting 4 features"),
    (lambda: list(FITTED.staged_predict(X, every=0)), "every must be a whole number from 1; got 0"),
    (lambda: list(FITTED.staged_predict(X, every=1.5)), "every must be a whole number from 1"),
    (lambda: FITTED.score(X, Y), "no query ids"),
    (lambda: FITTED.score(X), "requires y to be passed"),
    (lambda: FITTED.score(X, Y, QID, sample_weight=np.arange(60)), "weights differ within a query"),
    (lambda: FITTED.ranks(X), "no query ids"),
    (lambda: FITTED.ranks(X, QID[:5]), "qid has 5 entries for 60 rows"),
    (lambda: FITTED.ranks(X, "query"), "qid='query' is not a column of X"),
    (
        lambda: FITTED.ranks(RankingData(X, Y, qid=QID), QID),
        "X is a RankingData, which has its queries",
    ),
]
FITTED = quick(n_estimators=2).fit(X, Y, qid=QID)


@pytest.mark.parametrize(("call", "message"), DATA, ids=[message[:50] for _, message in DATA])
def test_data_is_checked(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_a_failed_fit_leaves_an_earlier_one_alone() -> None:
    ranker = quick(n_estimators=2).fit(X, Y, qid=QID)
    expected = ranker.predict(X)
    with pytest.raises(ValueError, match="no query ids"):
        ranker.fit(TRAIN.X, TRAIN.y)
    assert np.array_equal(ranker.predict(X), expected)


def test_a_missing_saved_model(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no model at"):
        quick().fit(X, Y, qid=QID, init_model=tmp_path / "nothing")
