"""Among scikit-learn's estimators: its own checks, clone, pipelines, and searches that route one qid."""

from __future__ import annotations

from typing import Any
from unittest import SkipTest

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from rankwright import Ranker
from rankwright.objectives import YetiLoss
from small import quick, rows

X, Y, QID = rows(120, 4, 12)


class OneQuery(Ranker):
    """Takes all rows for one query where none is named, since scikit-learn's checks name none."""

    def fit(self, X: Any, y: Any = None, *, qid: Any = None, **more: Any) -> OneQuery:
        if qid is None and y is not None:
            rows = X.shape[0] if hasattr(X, "shape") else len(X)
            qid = np.zeros(rows, dtype=int)
        return super().fit(X, y, qid=qid, **more)

    def score(self, X: Any, y: Any = None, qid: Any = None, **more: Any) -> float:
        return super().score(X, y, np.zeros(len(X), dtype=int) if qid is None else qid, **more)


FAILURES = {
    "check_dtype_object": "wants a TypeError for objects that are no numbers; all our refusals are ValueErrors"
}


@parametrize_with_checks(
    [OneQuery(n_estimators=3, min_child_samples=1, verbose=0, n_jobs=1)],
    expected_failed_checks=lambda _: FAILURES,
)
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    try:
        check(estimator)
    except (
        SkipTest
    ) as reason:  # asks for an environment variable that has to be set before SciPy is imported
        assert "SCIPY_ARRAY_API" in str(reason)  # noqa: PT017


def test_without_queries_nothing_is_trained() -> None:
    with pytest.raises(ValueError, match="no query ids"):
        quick().fit(X, Y)


def test_clone_and_parameters() -> None:
    ranker = quick(
        objective=YetiLoss(neighbours=3), metric=["map", "ndcg"], engine_params={"max_bin": 15}
    )
    copy = clone(ranker.fit(X, Y, qid=QID))
    assert copy.get_params() == ranker.get_params()
    assert not hasattr(copy, "forest_")
    assert np.array_equal(copy.fit(X, Y, qid=QID).predict(X), ranker.predict(X))
    ranker.set_params(n_estimators=2, leaf_values="full")
    assert (ranker.n_estimators, ranker.leaf_values) == (2, "full")
    assert ranker.fit(X, Y, qid=QID).n_estimators_ == 2
    with pytest.raises(ValueError, match="Invalid parameter 'depth'"):
        ranker.set_params(depth=3)
    assert repr(Ranker(num_leaves=7)) == "Ranker(num_leaves=7)"


def test_in_a_pipeline() -> None:
    pipeline = make_pipeline(StandardScaler(), quick()).fit(X, Y, ranker__qid=QID)
    direct = quick().fit(StandardScaler().fit_transform(X), Y, qid=QID)
    assert np.array_equal(pipeline.predict(X), direct.predict(StandardScaler().fit_transform(X)))


def scores_by_hand(candidates: list[dict[str, Any]], folds: int) -> list[list[float]]:
    return [
        [
            quick(**changes).fit(X[a], Y[a], qid=QID[a]).score(X[b], Y[b], QID[b])
            for a, b in GroupKFold(folds).split(X, Y, QID)
        ]
        for changes in candidates
    ]


GRID: list[dict[str, Any]] = [{"num_leaves": 3}, {"num_leaves": 15}]


PASSES_ON = pytest.mark.skipif(
    sklearn.__version__ < "1.8",
    reason="scikit-learn passes qid on to the score of a pipeline from 1.8",
)


@pytest.mark.parametrize("pipeline", [False, pytest.param(True, marks=PASSES_ON)])
def test_one_qid_feeds_splitter_fit_and_score_of_a_search(pipeline: bool) -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        ranker: Any = quick().set_fit_request(qid=True).set_score_request(qid=True)
        splitter = GroupKFold(3).set_split_request(groups="qid")
        grid: dict[str, Any] = {"num_leaves": [3, 15]}
        if pipeline:
            ranker, grid = make_pipeline("passthrough", ranker), {"ranker__num_leaves": [3, 15]}
        search = GridSearchCV(ranker, grid, cv=splitter, error_score="raise").fit(X, Y, qid=QID)
    expected = scores_by_hand(GRID, 3)
    found = [
        [search.cv_results_[f"split{fold}_test_score"][i] for fold in range(3)] for i in range(2)
    ]
    assert found == expected
    assert (
        len({value for row in expected for value in row}) >= 5
    )  # so that equal lists say something
    assert search.best_index_ == int(np.argmax(np.mean(expected, axis=1)))
    best = search.best_estimator_[-1] if pipeline else search.best_estimator_
    assert np.array_equal(
        best.predict(X), quick(**GRID[search.best_index_]).fit(X, Y, qid=QID).predict(X)
    )


def test_cross_validation_with_routing() -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        ranker = quick().set_fit_request(qid=True).set_score_request(qid=True)
        splitter = GroupKFold(4).set_split_request(groups="qid")
        result = cross_validate(ranker, X, Y, cv=splitter, params={"qid": QID}, error_score="raise")
    assert result["test_score"].tolist() == scores_by_hand([{}], 4)[0]


def test_a_qid_column_needs_no_routing() -> None:
    frame = pd.DataFrame(X).rename(columns=str).assign(query=QID)
    folds = list(GroupKFold(4).split(X, Y, QID))
    result = cross_validate(
        quick(), frame, Y, cv=folds, params={"qid": "query"}, error_score="raise"
    )
    assert result["test_score"].tolist() == scores_by_hand([{}], 4)[0]


def test_lower_is_better_scores_are_negative() -> None:
    assert quick(metric="arp").fit(X, Y, qid=QID).score(X, Y, QID) < 0


def test_query_ids_are_requested_without_being_asked_for() -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        values = cross_val_score(
            quick(), X, Y, cv=GroupKFold(4), params={"qid": QID, "groups": QID}
        )
        search = GridSearchCV(quick(), {"num_leaves": [3, 15]}, cv=GroupKFold(3)).fit(
            X, Y, qid=QID, groups=QID
        )
        pipeline = make_pipeline(StandardScaler(), quick()).fit(X, Y, qid=QID)
        assert pipeline.score(X, Y, qid=QID) > 0
    assert values.tolist() == scores_by_hand([{}], 4)[0]
    assert search.best_score_ == np.mean(scores_by_hand([GRID[search.best_index_]], 3)[0])


@pytest.mark.parametrize("routing", [False, True])
def test_searches_without_query_ids_fail_loudly(routing: bool) -> None:
    with sklearn.config_context(enable_metadata_routing=routing):
        with pytest.raises(ValueError, match="no query ids"):
            cross_val_score(quick(), X, Y, cv=3, params={})
        with pytest.raises(ValueError, match="no query ids"):
            GridSearchCV(quick(), {"num_leaves": [3, 15]}, cv=3).fit(X, Y)


def test_scores_without_routing_say_what_to_turn_on() -> None:
    folds = list(GroupKFold(3).split(X, Y, QID))
    pipeline = make_pipeline(StandardScaler(), quick())
    shown: dict[str, Any] = {"cv": folds, "error_score": "raise"}
    for fails in (
        lambda: cross_val_score(quick(), X, Y, params={"qid": QID}, **shown),
        lambda: GridSearchCV(quick(), {"num_leaves": [3, 15]}, n_jobs=2, **shown).fit(
            X, Y, qid=QID
        ),
        lambda: cross_val_score(pipeline, X, Y, params={"ranker__qid": QID}, **shown),
        lambda: quick().fit(X, Y, qid=QID).score(X, Y),
    ):
        with pytest.raises(
            ValueError, match=r"no query ids.*set_config\(enable_metadata_routing=True\)"
        ):
            fails()


# The form in which PyTerrier (`pt.ltr.apply_learned_model(ranker, form="ltr")`) and users of LightGBM call fit.


def by_group(rows: Any) -> tuple[Any, Any, Any]:
    """Features, labels and sizes of the queries of rows that are sorted by query."""
    rows = rows[np.argsort(QID[rows], kind="stable")]
    return X[rows], Y[rows], np.unique(QID[rows], return_counts=True)[1]


def test_pairs_of_eval_set_take_their_queries_from_eval_group() -> None:
    train, valid = (np.flatnonzero(QID % 3 == 0), np.flatnonzero(QID % 3 == 1))
    (a, b, sizes), (c, d, valid_sizes) = by_group(train), by_group(valid)
    watched = {"early_stopping_rounds": 3, "n_estimators": 20}
    form = quick(**watched).fit(a, b, group=sizes, eval_set=[(c, d)], eval_group=[valid_sizes])
    triples = quick(**watched).fit(
        a, b, group=sizes, eval_set=[(c, d, np.repeat(np.arange(len(valid_sizes)), valid_sizes))]
    )
    assert form.evals_result_ == triples.evals_result_
    assert np.array_equal(form.predict(X), triples.predict(X))
    two = quick().fit(
        a, b, group=sizes, eval_set=[(c, d), (a, b)], eval_group=[valid_sizes, list(sizes)]
    )
    assert list(two.evals_result_) == ["valid_0", "valid_1"]
    assert two.evals_result_["valid_0"] != two.evals_result_["valid_1"]


@pytest.mark.parametrize(
    ("eval_set", "eval_group", "message"),
    [
        (None, [[3]], r"eval_group needs a list of \(X, y\) as eval_set"),
        ([(X, Y)], 3, r"eval_group needs a list of \(X, y\) as eval_set"),
        ([(X, Y)], [[3], [4]], "eval_group has 2 entries for 1 evaluation sets"),
        (
            [(X, Y, QID)],
            [[3]],
            r"eval_set\[0\]: expected \(X, y\), since eval_group has the queries",
        ),
        ([(X, Y)], [[3]], rf"eval_set\[0\]: .*{len(Y)}"),
        (
            [(X, Y)],
            None,
            r"eval_set\[0\]: expected \(X, y, qid\) or a RankingData; \(X, y\) needs eval_group",
        ),
    ],
)
def test_eval_groups_that_cannot_be_used(eval_set: Any, eval_group: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        quick().fit(X, Y, qid=QID, eval_set=eval_set, eval_group=eval_group)


def test_evaluation_sets_are_routed_like_query_ids() -> None:
    """A search passes the same evaluation set to every candidate, once it is requested."""
    train, valid = np.flatnonzero(QID % 3 > 0), np.flatnonzero(QID % 3 == 0)
    c, d, sizes = by_group(valid)
    with sklearn.config_context(enable_metadata_routing=True):
        ranker = quick(early_stopping_rounds=2).set_fit_request(eval_set=True, eval_group=True)
        search = GridSearchCV(
            ranker, {"num_leaves": [3, 15]}, cv=GroupKFold(2), error_score="raise"
        )
        search.fit(
            X[train],
            Y[train],
            qid=QID[train],
            groups=QID[train],
            eval_set=[(c, d)],
            eval_group=[sizes],
        )
    assert list(search.best_estimator_.evals_result_) == ["valid_0"]
