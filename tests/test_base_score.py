"""Training from given scores: the first gradient is taken at them, and scores are their sum with the forest."""

from __future__ import annotations

import copy
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import rankwright as rw
from rankwright import Ranker, RankingData, evaluate
from rankwright.engines import ENGINES
from rankwright.objectives.bound import BoundObjective
from rankwright.ranker import Progress
from rankwright.serve.model_holder import ModelHolder
from rankwright.serve.refusals import Refusal
from rankwright.serve.requests import parse_query
from small import TRAIN, VALID, quick
from test_laws import TEXTS, metrics_for

both_engines = pytest.mark.parametrize("engine", ENGINES)


def scores_of(data: RankingData) -> Any:
    """A ranking in production: better than chance, and a function of the rows alone."""
    return np.round(np.nan_to_num(data.X[:, :3]).sum(axis=1) / 8, 3) + 0.2 * data.y


BASE, VALID_BASE = scores_of(TRAIN), scores_of(VALID)
START, VALID_START = (data.with_fields({"production": scores_of(data)}) for data in (TRAIN, VALID))


def trained(**changes: Any) -> Ranker:
    return quick(**changes).fit(START, base_score="production")


def same(one: Ranker, other: Ranker) -> bool:
    return one.forest_.dump() == other.forest_.dump()


def shift_scores(monkeypatch: pytest.MonkeyPatch, shift: Any) -> None:
    """Let every objective take its gradients at shifted scores, whatever the training passes."""
    at = BoundObjective.at
    monkeypatch.setattr(
        BoundObjective,
        "at",
        lambda self, scores, *given, **options: at(self, scores + shift, *given, **options),
    )


# Laws.


@both_engines
@pytest.mark.parametrize("text", TEXTS)
def test_a_start_is_training_on_shifted_scores(
    text: str, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"objective": text, "metric": metrics_for(text)[0], "engine": engine}
    options |= {"n_estimators": 3, "random_state": 1}
    started = trained(**options)
    plain = quick(**options).fit(TRAIN)
    assert not same(started, plain)
    shift_scores(monkeypatch, BASE)
    shifted = quick(**options).fit(START)
    assert same(started, shifted)
    np.testing.assert_array_equal(started.predict(START), BASE + shifted.predict(START))


@both_engines
@pytest.mark.parametrize(
    "options",
    [
        {"leaf_values": "full", "learning_rate": None},
        {"subsample_queries": 0.5, "bagging_temperature": 1.0},
        {"within_query": "rank"},
    ],
)
def test_settings_of_a_training_do_not_matter(
    options: dict[str, Any], engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"random_state": 1, "engine": engine} | options
    started = trained(**options)
    shift_scores(monkeypatch, BASE)
    assert same(started, quick(**options).fit(START))


def test_a_start_is_not_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"langevin": {"shrink_rate": 2.0}, "random_state": 1, "metric": "ndcg@10"}
    started = trained(**options)
    shift_scores(monkeypatch, BASE)
    shifted = quick(**options).fit(START)
    assert same(started, shifted)
    np.testing.assert_array_equal(started.predict(START), BASE + shifted.predict(START))


@both_engines
def test_an_earlier_models_scores_give_the_trees_of_init_model(engine: str) -> None:
    earlier = quick(n_estimators=4, engine=engine, random_state=1).fit(TRAIN)
    further = quick(engine=engine, random_state=2).fit(TRAIN, init_model=earlier)
    started = quick(engine=engine, random_state=2).fit(TRAIN, base_score=earlier.predict(TRAIN))
    later = list(further.forest_.trees())[4:]
    assert len(later) == started.forest_.n_trees == 12
    # The sums of leaf values are rounded in another order, so their last bits may differ.
    for tree, other in zip(later, started.forest_.trees(), strict=True):
        np.testing.assert_array_equal(tree.feature, other.feature)
        np.testing.assert_array_equal(tree.threshold, other.threshold)
        np.testing.assert_allclose(tree.value, other.value, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(
        started.predict(VALID, base_score=earlier.predict(VALID)), further.predict(VALID), rtol=1e-6
    )


def test_a_start_that_is_the_same_within_queries_changes_nothing() -> None:
    levels = np.repeat(np.arange(TRAIN.n_queries, dtype=float), TRAIN.group)
    with pytest.warns(UserWarning, match="change no ranking"):
        started = quick(objective="queryrmse").fit(TRAIN, base_score=levels)
    plain = quick(objective="queryrmse").fit(TRAIN)
    np.testing.assert_allclose(
        started.predict(TRAIN, base_score=levels) - levels, plain.predict(TRAIN), atol=1e-6
    )
    # Losses of single documents look at the level.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quick(objective="rmse", n_estimators=1).fit(TRAIN, base_score=levels)


# The same bits.


@both_engines
def test_the_same_bits_for_threads_and_rows_in_any_order(engine: str) -> None:
    expected = trained(engine=engine, random_state=1)
    threads = trained(engine=engine, random_state=1, n_jobs=2)
    assert same(threads, expected)
    np.testing.assert_array_equal(threads.predict(VALID_START), expected.predict(VALID_START))
    order = np.random.default_rng(0).permutation(TRAIN.n_rows)
    rows = RankingData(
        *(TRAIN.X[order], TRAIN.y[order]),
        qid=TRAIN.qid[order],
        feature_names=TRAIN.feature_names,
        fields={"production": BASE[order]},
    )
    shuffled = quick(engine=engine, random_state=1).fit(rows, base_score="production")
    assert same(shuffled, expected)
    np.testing.assert_array_equal(
        rows.ungroup(shuffled.predict(rows)), expected.predict(START)[order]
    )


def test_the_same_bits_for_frames_files_and_sparse_matrices(tmp_path: Path) -> None:
    expected = trained(random_state=1)
    frame = frame_of(START)
    by_name = quick(random_state=1).fit(frame, "y", qid="q", base_score="production")
    assert same(by_name, expected)
    assert "production" not in by_name.columns_.feature_names
    np.testing.assert_array_equal(by_name.predict(frame), expected.predict(START))
    frame.to_parquet(tmp_path / "train.parquet")
    path = tmp_path / "train.parquet"
    streamed = quick(random_state=1).fit(path, "y", qid="q", base_score="production")
    assert same(streamed, expected)
    np.testing.assert_array_equal(streamed.predict(path), expected.predict(START))
    with pytest.raises(ValueError, match="base_score must be the name of one of their columns"):
        streamed.predict(path, base_score=BASE)
    zero = np.nan_to_num(TRAIN.X)
    options = {"qid": TRAIN.qid, "base_score": BASE}
    dense = quick(random_state=1).fit(zero, TRAIN.y, **options)
    sparse = quick(random_state=1).fit(sp.csr_matrix(zero), TRAIN.y, **options)
    assert same(dense, sparse)


def frame_of(data: RankingData) -> pd.DataFrame:
    frame = pd.DataFrame(data.X, columns=data.feature_names)
    return frame.assign(production=data.fields["production"], y=data.y, q=data.qid)


# A feature, a column, an array.


def test_a_feature_may_also_be_the_start(tmp_path: Path) -> None:
    name = TRAIN.feature_names[3]
    column = TRAIN.X[:, 3]
    ranker = quick(random_state=1).fit(TRAIN, base_score=name)
    assert name in ranker.columns_.feature_names
    assert same(ranker, quick(random_state=1).fit(TRAIN, base_score=column))
    np.testing.assert_array_equal(ranker.predict(TRAIN.X), column + ranker.forest_.predict(TRAIN.X))
    assert ranker.model_.used_columns()[3]
    rw.write_letor(TRAIN, tmp_path / "train.txt")
    text = rw.read_letor(tmp_path / "train.txt", n_features=len(TRAIN.feature_names))
    streamed = quick(random_state=1).fit(tmp_path / "train.txt", base_score=text.feature_names[3])
    np.testing.assert_array_equal(streamed.predict(text), streamed.predict(tmp_path / "train.txt"))
    sparse = sp.csr_matrix(np.nan_to_num(TRAIN.X))
    ranker = quick().fit(sparse, TRAIN.y, qid=TRAIN.qid, base_score="f3")
    np.testing.assert_array_equal(
        ranker.predict(sparse), sparse[:, [3]].toarray()[:, 0] + ranker.forest_.predict(sparse)
    )


def test_a_model_finds_its_column_and_an_array_is_given_again(tmp_path: Path) -> None:
    ranker = trained()
    expected = ranker.predict(START)
    np.testing.assert_array_equal(ranker.predict(TRAIN, base_score=BASE), expected)
    np.testing.assert_array_equal(ranker.predict(TRAIN.X, base_score=BASE), expected)
    ranker.save(tmp_path / "model")
    loaded = rw.load(tmp_path / "model")
    assert loaded.base_score == "production"
    np.testing.assert_array_equal(loaded.predict(START), expected)
    np.testing.assert_array_equal(loaded.predict(START, base_score="production"), expected)
    for model in (ranker, loaded):
        with pytest.raises(ValueError, match="base_score must be given: scores start from 'prod"):
            model.predict(TRAIN)
    array = quick().fit(TRAIN, base_score=BASE)
    assert same(array, ranker)
    with pytest.raises(ValueError, match="base_score must be given"):
        array.predict(TRAIN)
    with pytest.raises(ValueError, match="base_score must be given"):
        array.score(TRAIN)
    assert array.score(TRAIN, base_score=BASE) == ranker.score(START)


def test_every_method_starts_from_the_scores() -> None:
    ranker = trained(metric="ndcg@5")
    scores = ranker.predict(START)
    np.testing.assert_array_equal(scores, BASE + ranker.forest_.predict(TRAIN.X))
    *_, last = ranker.staged_predict(START, every=5)
    np.testing.assert_allclose(last, scores, rtol=1e-12)
    np.testing.assert_array_equal(ranker.ranks(START), ranker.ranks(TRAIN, base_score=BASE))
    rows = slice(0, int(TRAIN.group[0]))
    best = ranker.model_.rank(TRAIN.X[rows], range(rows.stop), base_score=BASE[rows])
    np.testing.assert_array_equal(np.argsort(-scores[rows], kind="stable"), best.ids)
    expected = evaluate(scores, TRAIN.y, qid=TRAIN.qid, metrics="ndcg@5").mean["ndcg@5"]
    assert ranker.score(START) == expected
    importance = ranker.permutation_importance(START, columns=[TRAIN.feature_names[0]], repeats=1)
    assert importance.value == expected


def test_contributions_add_up_with_a_part_for_the_start() -> None:
    ranker = trained()
    parts = ranker.predict(START, contributions=True)
    assert parts.shape == (TRAIN.n_rows, len(TRAIN.feature_names) + 2)
    np.testing.assert_array_equal(parts[:, -2], BASE)
    np.testing.assert_allclose(parts.sum(axis=1), ranker.predict(START), atol=1e-12)
    why = ranker.explain(START, 0, 1)
    assert why.difference == ranker.predict(START)[0] - ranker.predict(START)[1]
    place = why.features.index("base score")
    assert why.values_a[place] == why.contributions_a[place] == BASE[0]


def test_calibration_sees_the_scores_of_base_and_trees() -> None:
    data = rw.make_web_search(60, kind="short", n_features=20, random_state=5)
    data = data.with_fields({"production": scores_of(data)})
    train, rest = data.split(0.5)
    ranker = quick().fit(train, base_score="production").calibrate(rest)
    values = ranker.predict(rest, calibrated=True)
    assert np.array_equal(np.argsort(values), np.argsort(ranker.predict(rest)))
    assert ranker.reliability(rest).error < 1
    folded = quick().fit(train, base_score="production").calibrate(train, folds=2)
    assert np.isfinite(folded.predict(rest, calibrated=True)).all()


# Passes of a training.


def test_evaluation_sets_and_early_stopping_see_the_sum() -> None:
    curve: list[float] = []

    def check(progress: Progress) -> None:
        curve.append(progress.history[1]["ndcg@10"][-1])

    ranker = quick(metric="ndcg@10", early_stopping_rounds=50)
    ranker.fit(START, base_score="production", eval_set=[VALID_START, START], callbacks=[check])
    assert ranker.evals_result_["valid_1"]["ndcg@10"] == curve
    scores = BASE + next(iter(trained(n_estimators=1).staged_predict(START))) - BASE
    assert curve[0] == pytest.approx(
        evaluate(scores, TRAIN.y, qid=TRAIN.qid, metrics="ndcg@10").mean["ndcg@10"], abs=1e-9
    )
    best = ranker.evals_result_["valid_0"]["ndcg@10"][ranker.n_estimators_ - 1]
    assert ranker.score(VALID_START) == pytest.approx(best, abs=1e-9)


def test_each_evaluation_set_may_have_scores_of_its_own() -> None:
    by_field = quick().fit(START, base_score="production", eval_set=[VALID_START])
    triple = (VALID.X, VALID.y, VALID.qid)
    for eval_set, given in (([VALID], [VALID_BASE]), (triple, VALID_BASE), (VALID, VALID_BASE)):
        by_array = quick().fit(TRAIN, base_score=BASE, eval_set=eval_set, eval_base_score=given)
        assert by_array.evals_result_ == by_field.evals_result_
    frame = frame_of(VALID_START).rename(columns={"production": "other"})
    by_name = quick().fit(
        *(frame_of(START), "y"),
        qid="q",
        base_score="production",
        eval_set=[frame],
        eval_base_score=["other"],
    )
    assert by_name.evals_result_ == by_field.evals_result_
    by_group = quick().fit(
        *(TRAIN.X, TRAIN.y),
        group=TRAIN.group,
        base_score=BASE,
        eval_set=[(VALID.X, VALID.y)],
        eval_group=[VALID.group],
        eval_base_score=[VALID_BASE],
    )
    assert by_group.evals_result_.keys() == by_field.evals_result_.keys()


def test_a_refit_folds_and_members_start_from_the_scores() -> None:
    options = {"metric": "ndcg@10", "random_state": 1}
    refit = quick(**options, refit=True, early_stopping_rounds=5)
    refit.fit(START, base_score="production", eval_set=[VALID_START])
    both = RankingData.concatenate([START, VALID_START])
    trees = refit.manifest_["refit"]["trees"]
    assert same(
        refit, quick(**options | {"n_estimators": trees}).fit(both, base_score="production")
    )
    folds = trained(**options, early_stopping="cv", early_stopping_rounds=5)
    chosen = folds.n_estimators_
    assert same(folds, trained(**options | {"n_estimators": chosen}))
    average = trained(**options, members=3)
    scores = average.predict(START) - BASE
    np.testing.assert_allclose(scores, average.forest_.predict(TRAIN.X), atol=1e-12)
    assert np.isfinite(average.out_of_sample_).all()
    assert np.corrcoef(average.out_of_sample_, BASE)[0, 1] > 0.5
    np.testing.assert_array_equal(average.spread(START), average.spread(START.X, START.qid))


def test_more_trees_start_from_the_same_scores(tmp_path: Path) -> None:
    first = trained(n_estimators=5, random_state=1)
    more = quick(random_state=2).fit(START, init_model=first)
    assert more.model_.base_score == "production"
    again = quick(random_state=2).fit(START, init_model=first, base_score="production")
    assert same(more, again)
    assert more.n_estimators_ == 17
    array = quick(n_estimators=5, random_state=1).fit(TRAIN, base_score=BASE)
    with pytest.raises(ValueError, match="base_score must be given"):
        quick().fit(TRAIN, init_model=array)
    assert same(quick(random_state=2).fit(TRAIN, init_model=array, base_score=BASE), more)
    plain = quick(n_estimators=5).fit(TRAIN)
    with pytest.raises(ValueError, match="base_score is no part of the scores of init_model"):
        quick().fit(TRAIN, init_model=plain, base_score=BASE)


def test_a_checkpoint_resumes_from_the_same_scores(tmp_path: Path) -> None:
    options = {"random_state": 1, "early_stopping_rounds": 50, "metric": "ndcg@10"}
    options["checkpoint"] = {"path": tmp_path / "saved", "trees": 3}

    def stop(progress: Progress) -> bool:
        return progress.iteration == 5

    quick(**options).fit(START, base_score="production", eval_set=[VALID_START], callbacks=[stop])
    resumed = quick(**options).fit(START, base_score="production", eval_set=[VALID_START])
    whole = quick(**options | {"checkpoint": None})
    whole.fit(START, base_score="production", eval_set=[VALID_START])
    assert same(resumed, whole)
    assert resumed.evals_result_ == whole.evals_result_
    # Other scores are another training.
    for train, valid in ((-1.0, 1.0), (1.0, -1.0)):
        with pytest.raises(ValueError, match="a checkpoint of another training"):
            quick(**options).fit(
                TRAIN.with_fields({"production": train * BASE}),
                base_score="production",
                eval_set=[VALID.with_fields({"production": valid * VALID_BASE})],
            )


def test_position_bias_several_labels_and_pairs_start_from_the_scores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at = BoundObjective.at
    positions = np.concatenate([np.arange(1, size + 1) for size in TRAIN.group])
    labels = {"grade": TRAIN.y, "clicks": (TRAIN.y > 1).astype(float)}
    several = RankingData(TRAIN.X, labels, qid=TRAIN.qid, fields={"production": BASE})
    pairs = START.with_pairs([(1, 0), (3, 2)])
    cases = [
        ({}, START, {"position": positions}),
        ({"metric": "ndcg@10[clicks] + ndcg@10"}, several, {}),
        ({"objective": "yetiloss + 0.1 ranknet(pairs)"}, pairs, {}),
        ({"objective": "lambdamart"}, START, {"propensity": 1 / positions}),
    ]
    started = [
        quick(random_state=1, **options).fit(data, base_score="production", **given)
        for options, data, given in cases
    ]
    for ranker, (options, data, given) in zip(started, cases, strict=True):
        # Equal documents are in an order that depends on all their fields.
        rows = data.with_fields(given).canonical()
        monkeypatch.setattr(BoundObjective, "at", at)
        shift_scores(monkeypatch, rows.fields["production"])
        shifted = quick(random_state=1, **options).fit(data, **given)
        # Scores, positions and the shift are added in another order, which changes the last bits.
        assert "position" in given or same(ranker, shifted)
        np.testing.assert_allclose(
            ranker.forest_.predict(data.X), shifted.forest_.predict(data.X), atol=1e-9
        )


# Elsewhere.


@pytest.mark.parametrize("given", ["production", TRAIN.feature_names[3]])
@pytest.mark.parametrize("recipe", [None, "rank"])
def test_the_service_adds_the_trees_to_the_start(given: str, recipe: Any, tmp_path: Path) -> None:
    ranker = quick(within_query=recipe).fit(START, base_score=given)
    ranker.save(tmp_path / "model")
    holder = ModelHolder(tmp_path / "model")
    holder.warm_up()
    served = holder.current
    assert served.describe()["base_score"] == given
    names = TRAIN.feature_names + ["production"] * (given == "production")
    assert served.describe()["features"] == names
    first = VALID_START.subset([0])
    X = np.nan_to_num(np.column_stack([first.X, VALID_START.subset([0]).fields["production"]]))
    documents = [dict(zip(names, row, strict=False)) for row in X.tolist()]
    body = json.dumps({"documents": documents, "contributions": True}).encode()
    answer = served.rank(parse_query(body, served.table, 1000))
    expected = ranker.predict(X[:, :-1], group=[len(X)], base_score=X[:, names.index(given)])
    results = sorted(answer["results"], key=lambda result: result["id"])
    assert [result["score"] for result in results] == expected.tolist()
    for result in results:
        parts = result["contributions"]
        assert parts["base score"] == X[result["id"], names.index(given)]
        total = answer["expected_score"] + sum(parts.values())
        assert total == pytest.approx(result["score"])
    del documents[2][given]
    body = json.dumps({"documents": documents, "allow_missing": True}).encode()
    with pytest.raises(Refusal, match="base_score is nan at row 2"):
        served.rank(parse_query(body, served.table, 1000))


# Errors.


def broken(value: float) -> Any:
    scores = BASE.copy()
    scores[TRAIN.ungroup(np.arange(TRAIN.n_rows))[7]] = value
    return scores


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (broken(np.nan), "base_score is nan at row 7, query .*; every row needs a finite score"),
        (broken(np.inf), "base_score is inf at row 7"),
        (BASE[:-1], "shape"),
        (BASE[:, None], "shape"),
        (["a"] * TRAIN.n_rows, "base_score must hold numbers"),
        ("nowhere", "base_score must be given: scores start from 'nowhere'"),
    ],
)
def test_bad_scores_are_refused(scores: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        quick().fit(TRAIN, base_score=scores)
    ranker = quick(n_estimators=1).fit(TRAIN, base_score=BASE)
    with pytest.raises(ValueError, match=message.split(" at row")[0]):
        ranker.predict(TRAIN.X, base_score=scores)


def test_bad_scores_of_evaluation_sets_are_refused() -> None:
    with pytest.raises(ValueError, match=r"eval_set\[0\]: base_score must be given: .*eval_base_s"):
        quick().fit(TRAIN, base_score=BASE, eval_set=[VALID])
    with pytest.raises(ValueError, match="eval_base_score is for a training with base_score="):
        quick().fit(TRAIN, eval_set=[VALID], eval_base_score=[VALID_BASE])
    with pytest.raises(ValueError, match="an entry per evaluation set; got 2 for 1"):
        quick().fit(
            TRAIN, base_score=BASE, eval_set=[VALID], eval_base_score=[VALID_BASE, VALID_BASE]
        )
    with pytest.raises(ValueError, match=r"eval_set\[0\]: base_score has shape"):
        quick().fit(TRAIN, base_score=BASE, eval_set=[VALID], eval_base_score=[BASE])


def test_scores_for_a_model_without_a_start_are_refused() -> None:
    ranker = quick(n_estimators=1).fit(TRAIN)
    with pytest.raises(ValueError, match="base_score is for models that were trained with it"):
        ranker.predict(TRAIN, base_score=BASE)
    with pytest.raises(ValueError, match="base_score is for models that were trained with it"):
        ranker.score(TRAIN, base_score=BASE)


def test_a_feature_of_the_same_name_with_other_values_is_refused() -> None:
    frame = frame_of(START).rename(columns={"production": "base_score"})
    with pytest.raises(ValueError, match="differs from the feature 'base_score'"):
        quick().fit(frame, "y", qid="q", base_score=-BASE)


def test_a_manifest_with_a_garbled_start_is_refused(tmp_path: Path) -> None:
    ranker = trained(n_estimators=1)
    ranker.model_.manifest = copy.deepcopy(ranker.manifest_) | {"base_score": 3}
    ranker.save(tmp_path / "model")
    with pytest.raises(ValueError, match="lacks or garbles 'base_score'"):
        rw.load(tmp_path / "model")
