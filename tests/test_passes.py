"""Validation queries given back, folds that choose the number of trees, averages; each resumed and interrupted."""

from __future__ import annotations

import itertools
import json
import logging
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import rankwright as rw
from rankwright.training.ending import ending_line

DATA = rw.make_web_search(60, n_features=20, mean_length=15, random_state=2)
TRAIN, REST = DATA.split(0.5, random_state=1)
VALID, TEST = REST.split(0.5)
OPTIONS: dict[str, Any] = {
    "objective": "lambdamart",
    "n_estimators": 25,
    "num_leaves": 6,
    "min_child_samples": 5,
}
OPTIONS |= {"n_jobs": 1, "verbose": 0}


def ranker(**parameters: Any) -> rw.Ranker:
    return rw.Ranker(**{**OPTIONS, **parameters})


def stop_at(stage: str, iteration: int) -> Any:
    return lambda progress: progress.stage == stage and progress.iteration == iteration


STOPPED = {
    "rule": "best",
    "best_iteration": 1,
    "kept_iteration": 1,
    "kept_by_best": 1,
    "last_within_error": 1,
    "difference": 0.0,
    "error": 0.0,
    "standard_errors": 1.0,
}
STOPPING: dict[str, Any] = {
    "early_stopping_rounds": 4,
    "stopping_rule": "best",
    "learning_rate": 0.3,
}


def test_a_refit_is_the_training_on_all_queries_with_the_chosen_trees():
    first = ranker(**STOPPING).fit(TRAIN, eval_set=VALID)
    refit = ranker(**STOPPING, refit=True).fit(TRAIN, eval_set=VALID)
    both = rw.RankingData.concatenate([TRAIN, VALID])
    trees = min(25, round(first.n_estimators_ * both.n_rows / TRAIN.n_rows))
    assert first.n_estimators_ < trees
    alone = ranker(n_estimators=trees, learning_rate=0.3).fit(both)
    np.testing.assert_array_equal(refit.predict(TEST), alone.predict(TEST))
    assert refit.n_estimators_ == len(refit.learning_rates_) == trees
    assert refit.manifest_["refit"] == {
        "trees": trees,
        "rows": both.n_rows,
        "queries": both.n_queries,
    }
    assert refit.evals_result_ == first.evals_result_
    assert refit.stopping_ == first.stopping_
    assert sum(refit.times_.values()) > 0


@pytest.mark.filterwarnings("ignore:.*were trained on")
def test_what_a_refit_needs_is_said_at_once():
    with pytest.raises(ValueError, match="set early_stopping_rounds"):
        ranker(refit=True).check_params()
    with pytest.raises(ValueError, match="trains on all queries already"):
        ranker(refit=True, early_stopping="cv", **STOPPING).check_params()
    with pytest.raises(ValueError, match="needs an eval_set"):
        ranker(refit=True, **STOPPING).fit(TRAIN)
    trees: list[Any] = []
    refit = ranker(refit=True, **STOPPING)
    with pytest.raises(ValueError, match="these are the training queries"):
        refit.fit(TRAIN, eval_set=TRAIN, callbacks=[trees.append])
    with pytest.raises(
        ValueError, match=r"refit joins the training data and eval_set\[0\]: query 2 is in two"
    ):
        refit.fit(TRAIN, eval_set=DATA.subset([0, 1]), callbacks=[trees.append])
    assert not trees


@pytest.mark.parametrize("members", [1, 2])
def test_a_refit_of_queries_given_by_their_sizes_counts_them_on(members):
    options = {**STOPPING, "refit": True, "n_estimators": 5, "members": members}
    sets = {"eval_set": [(VALID.X, VALID.y)], "eval_group": [VALID.group]}
    by_size = ranker(**options).fit(TRAIN.X, TRAIN.y, group=TRAIN.group, **sets)
    numbers = np.arange(TRAIN.n_queries + VALID.n_queries)
    own, others = (
        np.repeat(numbers[: TRAIN.n_queries], TRAIN.group),
        np.repeat(numbers[TRAIN.n_queries :], VALID.group),
    )
    by_id = ranker(**options).fit(TRAIN.X, TRAIN.y, qid=own, eval_set=[(VALID.X, VALID.y, others)])
    np.testing.assert_array_equal(by_size.predict(TEST), by_id.predict(TEST))


@pytest.mark.parametrize("place", [("", 3), ("refit", 5)])
def test_a_refit_resumes_in_either_pass(place, tmp_path):
    whole = ranker(**STOPPING, refit=True).fit(TRAIN, eval_set=VALID)
    options = {**STOPPING, "refit": True, "checkpoint": {"path": tmp_path, "trees": 1}}
    part = ranker(**options).fit(TRAIN, eval_set=VALID, callbacks=[stop_at(*place)])
    assert "refit" not in part.manifest_  # the first model is kept until the second is complete
    seen: list[Any] = []
    again = ranker(**options).fit(TRAIN, eval_set=VALID, callbacks=[seen.append])
    assert (seen[0].stage, seen[0].iteration) == (place[0], place[1] + 1)
    np.testing.assert_array_equal(again.predict(TEST), whole.predict(TEST))
    assert again.stopping_ == whole.stopping_


def test_ctrl_c_in_the_refit_keeps_the_first_model(caplog):
    first = ranker(**STOPPING).fit(TRAIN, eval_set=VALID)

    def interrupt(progress: Any) -> None:
        if progress.stage == "refit" and progress.iteration == 2:
            raise KeyboardInterrupt

    with caplog.at_level(logging.WARNING, "rankwright"):
        kept = ranker(**STOPPING, refit=True).fit(TRAIN, eval_set=VALID, callbacks=[interrupt])
    assert kept.interrupted_
    np.testing.assert_array_equal(kept.predict(TEST), first.predict(TEST))


def expected_cv_trees(parameters: dict[str, Any]) -> int:
    """Folds, the pooled curve and its best value, without the package's loop over passes."""
    curves, rows = [], []
    for train, held_out in TRAIN.kfold(5, random_state=0):
        model = ranker(**parameters).fit(train)
        stages = model.staged_predict(held_out)
        curves.append(
            [rw.evaluate(s, held_out.y, group=held_out.group).per_query["ndcg@10"] for s in stages]
        )
        rows.append(train.n_rows)
    pooled = np.concatenate(curves, axis=1)
    chosen = int(np.argmax(np.nanmean(pooled, axis=1))) + 1
    return min(25, round(chosen * (TRAIN.n_rows / np.mean(rows))))


def test_folds_choose_the_number_of_trees_and_all_queries_train(tmp_path):
    parameters = {"learning_rate": 0.3, "subsample": 1.0, "colsample": 1.0}
    cv = ranker(**parameters, early_stopping="cv", stopping_rule="best").fit(TRAIN)
    trees = expected_cv_trees(parameters)
    assert trees < 25
    assert cv.n_estimators_ == trees
    np.testing.assert_array_equal(
        cv.predict(TEST), ranker(**parameters, n_estimators=trees).fit(TRAIN).predict(TEST)
    )
    assert cv.stopping_["folds"] == 5
    assert ending_line(cv.manifest_).startswith(
        f"Kept over 5 folds: {cv.best_iteration_}, the best in ndcg@10"
    )
    assert ending_line(cv.manifest_).endswith(f"Training on all queries ended after {trees} trees.")
    options = {**parameters, "early_stopping": "cv", "stopping_rule": "best"}
    options |= {"checkpoint": {"path": tmp_path, "trees": 1}}
    ranker(**options).fit(TRAIN, callbacks=[stop_at("", 2)])
    again = ranker(**options).fit(TRAIN)
    np.testing.assert_array_equal(again.predict(TEST), cv.predict(TEST))
    with pytest.raises(ValueError, match="at least 5 queries"):
        ranker(early_stopping="cv").fit(TRAIN.subset([0, 1, 2]))


def test_another_rule_chooses_from_the_same_folds_and_ends_where_it_says(tmp_path):
    options: dict[str, Any] = {"early_stopping": "cv", "learning_rate": 0.3, "checkpoint": tmp_path}
    longer = ranker(**options, stopping_rule="within_error").fit(TRAIN)
    shorter = ranker(**options, stopping_rule="best").fit(TRAIN)
    assert shorter.n_estimators_ < longer.n_estimators_
    alone = ranker(early_stopping="cv", learning_rate=0.3, stopping_rule="best").fit(TRAIN)
    np.testing.assert_array_equal(shorter.predict(TEST), alone.predict(TEST))


def test_times_are_those_of_all_passes(monkeypatch):
    monkeypatch.setattr(
        "rankwright.training.state.time", SimpleNamespace(perf_counter=itertools.count().__next__)
    )
    cv = ranker(early_stopping="cv", n_estimators=4).fit(TRAIN)
    one = ranker(n_estimators=1).fit(TRAIN).times_["trees"]
    assert cv.times_["trees"] == (5 * 4 + cv.n_estimators_) * one > 0


def test_a_fold_without_a_relevant_document_has_no_say():
    few = np.where(np.isin(TRAIN.qid, TRAIN.query_ids[:3]), TRAIN.y, 0)
    options: dict[str, Any] = {
        "early_stopping": "cv",
        "early_stopping_rounds": 25,
        "n_estimators": 6,
    }
    model = ranker(**options).fit(TRAIN.X, few, qid=TRAIN.qid)
    without = ranker(**{**options, "early_stopping_rounds": None}).fit(TRAIN.X, few, qid=TRAIN.qid)
    assert model.stopping_ == without.stopping_
    weights = np.isin(TRAIN.qid, TRAIN.query_ids[:3]).astype(
        float
    )  # likewise one whose queries do not count
    ranker(**options).fit(TRAIN.X, TRAIN.y, qid=TRAIN.qid, sample_weight=weights)
    with pytest.raises(
        ValueError,
        match="early_stopping='cv' watches ndcg@10, but no query has a relevant document",
    ):
        ranker(**options).fit(TRAIN.X, 0 * few, qid=TRAIN.qid)


def test_folds_need_labels_to_evaluate_by():
    pairs = {"winner": [0, 20], "loser": [1, 21]}
    with pytest.raises(ValueError, match="there are pairs alone; give labels too"):
        ranker(objective="auto", early_stopping="cv").fit(TRAIN.X, qid=TRAIN.qid, pairs=pairs)


def test_an_interrupted_fold_is_resumed(tmp_path, monkeypatch):
    from rankwright.training.loop import Boosting

    whole = ranker(early_stopping="cv", n_estimators=8).fit(TRAIN)
    iterate, count = Boosting._iterate, [0]

    def interrupted(self: Any, *arguments: Any) -> None:
        count[0] += 1
        if count[0] == 12:  # in the second fold
            raise KeyboardInterrupt
        iterate(self, *arguments)

    options = {
        "early_stopping": "cv",
        "n_estimators": 8,
        "checkpoint": {"path": tmp_path, "trees": 1},
    }
    monkeypatch.setattr(Boosting, "_iterate", interrupted)
    with pytest.raises(KeyboardInterrupt):  # noqa: PT011  # it has no message
        ranker(**options).fit(TRAIN)
    again = ranker(**options).fit(TRAIN)
    assert count[0] == 12 + 8 * 5 - 11 + again.n_estimators_
    np.testing.assert_array_equal(again.predict(TEST), whole.predict(TEST))


def members_of(average: rw.Ranker, X: Any) -> list[Any]:
    """Scores of each member, whose trees follow each other."""
    counts = average.manifest_["members"]
    stops = np.cumsum(counts).tolist()
    predict = average.forest_.predict
    return [
        len(counts) * predict(X, start=stop - n, stop=stop)
        for n, stop in zip(counts, stops, strict=True)
    ]


def test_an_average_is_the_mean_of_its_members(tmp_path):
    average = ranker(members=3).fit(TRAIN)
    counts = average.manifest_["members"]
    assert len(counts) == 3
    assert average.n_estimators_ == sum(counts)
    X = average.model_.encode(TEST)
    members = members_of(average, X)
    np.testing.assert_allclose(np.mean(members, axis=0), average.predict(TEST), atol=1e-12)
    assert not np.allclose(members[0], members[1])
    centred = np.array(
        [
            np.concatenate([part - part.mean() for part in np.split(m, TEST.boundaries[1:-1])])
            for m in members
        ]
    )
    np.testing.assert_allclose(average.spread(TEST), centred.std(axis=0, ddof=1), atol=1e-12)
    order = np.random.default_rng(0).permutation(TEST.n_rows)
    shuffled = average.spread(TEST.X[order], TEST.qid[order])
    np.testing.assert_allclose(shuffled, average.spread(TEST)[order], atol=1e-12)
    average.save(tmp_path / "model")
    np.testing.assert_array_equal(rw.load(tmp_path / "model").spread(TEST), average.spread(TEST))
    with pytest.raises(ValueError, match="not an average"):
        ranker(n_estimators=2).fit(TRAIN).spread(TEST)


def test_a_loaded_average_knows_the_query_column_of_a_frame(tmp_path):
    train, test = (
        pd.DataFrame(np.asarray(data.X), columns=data.feature_names).assign(
            label=data.y, query=data.qid
        )
        for data in (TRAIN, TEST)
    )
    for option in (None, "rank"):
        average = ranker(members=2, n_estimators=3, within_query=option).fit(
            train, "label", qid="query"
        )
        average.save(tmp_path / f"model {option}")
        model = rw.load(tmp_path / f"model {option}")
        np.testing.assert_array_equal(model.spread(test), average.spread(test, "query"))
    rw.write_data(TEST, tmp_path / "test.parquet")
    with pytest.raises(ValueError, match=r"give stream_data\(path\)"):
        average.spread(tmp_path / "test.parquet")


@pytest.mark.parametrize("option", [None, "rank"])
@pytest.mark.parametrize("members", [1, 2])
def test_what_was_trained_on_is_not_calibrated_on(members, option, tmp_path):
    options: dict[str, Any] = {"n_estimators": 4, "members": members, "within_query": option}
    plain = ranker(**options).fit(TRAIN)
    refit = ranker(**options, early_stopping_rounds=3, refit=True).fit(TRAIN, eval_set=VALID)
    for model, data in ((plain, TRAIN), (refit, TRAIN), (refit, VALID)):
        model.save(tmp_path / "model")
        with pytest.raises(ValueError, match="data that the model was trained on"):
            rw.Ranker.load(tmp_path / "model").calibrate(data)


def test_damaged_entries_of_a_manifest_are_refused(tmp_path):
    ranker(members=2, n_estimators=2).fit(TRAIN).save(tmp_path / "model")
    file = tmp_path / "model" / "manifest.json"
    manifest = json.loads(file.read_text())
    changes: list[tuple[str, Any, str]] = [
        ("members", [1, 9], "do not add up"),
        ("members", "2", "do not add up"),
        ("stopping", {"rule": "within_error"}, "early stopping"),
        ("stopping", [1], "early stopping"),
        ("stopping", {**STOPPED, "last_within_error": "3"}, "early stopping"),
        ("stopping", {**STOPPED, "standard_errors": "1.5"}, "early stopping"),
    ]
    for name, value, reason in changes:
        file.write_text(json.dumps({**manifest, name: value}))
        with pytest.raises(ValueError, match=reason):
            rw.Ranker.load(tmp_path / "model")


def test_out_of_sample_scores_are_of_a_member_that_did_not_see_the_query():
    average = ranker(members=3).fit(TRAIN)
    X = average.model_.encode(TRAIN)
    members = members_of(average, X)
    parts = np.array_split(np.random.default_rng(0).permutation(TRAIN.n_queries), 3)
    for member, part in zip(members, parts, strict=True):
        rows = np.repeat(np.isin(np.arange(TRAIN.n_queries), part), TRAIN.group)
        np.testing.assert_allclose(average.out_of_sample_[rows], member[rows], atol=1e-12)
    honest, fitted = (
        rw.evaluate(scores, TRAIN.y, group=TRAIN.group).mean["ndcg@10"]
        for scores in (average.out_of_sample_, average.predict(TRAIN))
    )
    assert honest < fitted
    order = np.random.default_rng(1).permutation(TRAIN.n_rows)
    again = ranker(members=3).fit(TRAIN.X[order], TRAIN.y[order], qid=TRAIN.qid[order])
    np.testing.assert_array_equal(again.out_of_sample_, average.out_of_sample_[order])


def test_members_resume_and_combine_with_early_stopping(tmp_path):
    options: dict[str, Any] = {**STOPPING, "refit": True, "members": 2}
    whole = ranker(**options).fit(TRAIN, eval_set=VALID)
    saved = {**options, "checkpoint": {"path": tmp_path, "trees": 1}}
    part = ranker(**saved).fit(TRAIN, eval_set=VALID, callbacks=[stop_at("member 2 of 2", 2)])
    assert len(part.manifest_["members"]) == 2
    again = ranker(**saved).fit(TRAIN, eval_set=VALID)
    np.testing.assert_array_equal(again.predict(TEST), whole.predict(TEST))
    with pytest.raises(ValueError, match="leave one out"):
        ranker(members=2).fit(TRAIN, init_model=whole)
    with pytest.raises(ValueError, match="at most the number of queries"):
        ranker(members=900).fit(TRAIN)


def test_a_run_folder_records_the_first_pass_and_the_second_in_its_log(tmp_path):
    parameters = {**OPTIONS, **STOPPING, "refit": True}
    del parameters["verbose"]
    run = rw.train_run(tmp_path / "run", TRAIN, VALID, parameters=parameters, verbose=0)
    assert run.finished
    assert len(run.history) == len(run.ranker.evals_result_["valid_0"]["ndcg@10"])
    assert run.manifest["trees"] == run.ranker.manifest_["refit"]["trees"]
    from rankwright.report import run_report

    curves = next(
        section
        for section in run_report([run], TEST).sections
        if section.title == "Learning curves"
    )
    assert curves.blocks[0].text == f"run: {ending_line(run.ranker.manifest_)}"
    assert curves.blocks[0].text.endswith(f" The refit on all queries has {run.manifest['trees']}.")
    from rankwright.cli.training_summary import training_summary

    assert "ndcg@10 0." in (line := training_summary(run, run.path).splitlines()[0])
    assert line.endswith(" before the refit.")
