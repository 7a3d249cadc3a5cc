"""Names, objects and files of other libraries are answered with what to use here."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from sklearn.base import clone

import rankwright as rw
from commands import Outcome
from rankwright.training import other_names
from rankwright.training.other_names import meaning

PAGE = (Path(__file__).parents[1] / "docs/migrating.md").read_text()
X = np.random.default_rng(0).random((40, 2))
LABELS = np.tile([0, 1, 2, 0], 10)
QID = np.repeat(np.arange(10), 4)


def rows_of_the_page() -> list[tuple[list[str], str]]:
    """The names of arguments in the first cell of each row of the tables, and the second cell."""
    rows = []
    for line in PAGE.splitlines():
        cells = line.strip("|").split(" | ")
        if line.startswith("| ") and len(cells) == 2:
            names = re.findall(r"`([a-z_]\w*)(?:=[^`]*)?`", cells[0])
            rows.append((names, cells[1]))
    return rows


def own_names() -> set[str]:
    functions = (rw.Ranker, rw.Ranker.fit, rw.Ranker.predict)
    names = {name for function in functions for name in inspect.signature(function).parameters}
    return names | {"noise", "sigma", "mu", "nu", "decay", "permutations"}  # options of objectives


@pytest.mark.parametrize(("names", "here"), rows_of_the_page())
def test_every_name_of_the_page_is_answered_as_the_page_says(names: list[str], here: str) -> None:
    for name in set(names) - own_names():
        answer = meaning(name)
        assert answer is not None, name
        found = re.search(
            rf"^{name} is (?:an option of an objective: objective='\w+\()?(\w+)", answer
        )
        if found is not None and found[1] != "position_bias":
            assert found[1] in here, (name, answer, here)
        elif found is None:
            assert re.search("none|engine_params|metric|sigma", here), (name, answer, here)


def test_every_name_of_the_table_is_on_the_page() -> None:
    on_page = {name for names, _ in rows_of_the_page() for name in names}
    known = {*other_names._HERE, *other_names._MISSING}
    assert known - on_page == set()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: rw.Ranker(colsample_bytree=0.5),
            "no argument 'colsample_bytree'; .* is colsample here",
        ),
        (lambda: rw.Ranker(num_leafs=3), "no argument 'num_leafs'; did you mean 'num_leaves'"),
        (lambda: rw.Ranker(eval_set=[]), "it is eval_set of fit"),
        (lambda: rw.Ranker(device="gpu"), "trees are grown on the processor"),
        (lambda: rw.Ranker(reg_alpha=1), "parameter of LightGBM: engine_params={'reg_alpha'"),
        (lambda: rw.Ranker(sigmoid=1), r"objective='\w+\(sigma=...\)'"),
        (lambda: rw.Ranker(qqqq=1), r"no argument 'qqqq'\. It has objective, metric"),
        (
            lambda: rw.Ranker().fit(X, LABELS, eval_metric="map"),
            "eval_metric is metric of Ranker here",
        ),
        (lambda: rw.Ranker().fit(X, LABELS, group_id=QID), "group_id is qid here"),
        (lambda: rw.Ranker().fit(X, LABELS, QID), "fit takes X, y by position; .* such as qid="),
        (lambda: rw.Ranker().predict(X, raw_score=True), "predict returns raw scores always"),
        (lambda: rw.Ranker().predict(X, pred_contrib=True), "pred_contrib is contributions here"),
    ],
)
def test_unknown_arguments_name_the_argument_that_was_meant(
    call: Callable[[], Any], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        call()


def test_signatures_stay_as_they_are_written() -> None:
    ranker = rw.Ranker(num_leaves=5)
    assert clone(ranker).get_params() == ranker.get_params()
    assert "**" not in str(inspect.signature(rw.Ranker))
    assert "kwargs" not in inspect.signature(rw.Ranker.fit).parameters


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("recip_rank", "mrr"),
        ("RR@10", "mrr@10"),
        ("map_cut_10", "map@10"),
        ("AP", "map"),
        ("P_10", "precision@10"),
        ("R@100", "recall@100"),
        ("recall_100", "recall@100"),
        ("hit_rate@10", "success@10"),
        ("success_5", "success@5"),
        ("ndcg_cut_10", "ndcg(gain=linear)@10"),
        ("0.5 recip_rank + P_5[margin]", "0.5 mrr + precision@5[margin]"),
    ],
)
def test_metrics_have_their_names_of_other_tools(theirs: str, ours: str) -> None:
    assert rw.metric(theirs) == rw.metric(ours)


@pytest.mark.parametrize("text", ["ngcd_10", "bpref_5", "cut_10", "_10"])
def test_unknown_names_with_numbers_stay_unknown(text: str) -> None:
    with pytest.raises(ValueError, match="metric"):
        rw.metric(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rank:ndcg", "here it is objective='lambdamart.*metric='ndcg@32'"),
        ("lambdarank", r"truncation=30, normalize=True\)', metric='ndcg@30'"),
        ("YetiRank:mode=NDCG;top=10", "objective='yetiloss'"),
        ("PairLogit", "objective='ranknet'"),
    ],
)
def test_objectives_of_other_libraries_are_named(text: str, message: str) -> None:
    for read in (rw.objective, rw.metric):
        with pytest.raises(ValueError, match=message):
            read(text)


def test_xgboosts_metrics_with_a_minus_are_named() -> None:
    with pytest.raises(ValueError, match="write 'ndcg@10', and empty='zero'"):
        rw.metric("ndcg@10-")


def test_the_replacements_of_objectives_can_be_trained_with() -> None:
    for replacement in other_names_of_objectives():
        rw.Ranker(**eval(f"dict({replacement})")).check_params()


def other_names_of_objectives() -> list[str]:
    from rankwright.support import other_libraries

    return list(other_libraries._OBJECTIVES.values())


@pytest.fixture(scope="module")
def peers() -> dict[str, Any]:
    light = lgb.LGBMRanker(n_estimators=1, verbosity=-1, n_jobs=1).fit(X, LABELS, group=[4] * 10)
    extreme = xgb.XGBRanker(n_estimators=1, n_jobs=1).fit(X, LABELS, qid=QID)
    return {"LightGBM": light, "XGBoost": extreme}


def test_models_of_other_libraries_are_named(peers: dict[str, Any]) -> None:
    for library, model in peers.items():
        with pytest.raises(ValueError, match=f"object of {library}"):
            rw.load(model)
        with pytest.raises(ValueError, match=f"of {library}. Give its scores as base_score"):
            rw.Ranker().fit(X, LABELS, qid=QID, init_model=model)


def test_tables_of_other_libraries_are_named() -> None:
    with pytest.raises(ValueError, match="Dataset of LightGBM; give the array"):
        rw.Ranker().fit(lgb.Dataset(X, LABELS), qid=QID)
    spark = type("DataFrame", (), {"__module__": "pyspark.sql.dataframe"})()
    with pytest.raises(ValueError, match=r"DataFrame of Spark; give X\.toPandas\(\)"):
        rw.Ranker().fit(spark, "grade", qid="query")
    with pytest.raises(ValueError, match=r"list of dicts; give a data frame"):
        rw.Ranker().fit([{"a": 1.0}] * len(X), LABELS, qid=QID)


def test_files_of_other_libraries_are_named(peers: dict[str, Any], tmp_path: Path) -> None:
    import catboost
    import joblib

    peers["LightGBM"].booster_.save_model(tmp_path / "l.txt")
    peers["XGBoost"].save_model(tmp_path / "x.json")
    peers["XGBoost"].save_model(tmp_path / "x.ubj")
    options = {"iterations": 1, "verbose": False, "allow_writing_files": False, "thread_count": 1}
    cat = catboost.CatBoostRanker(**options).fit(catboost.Pool(X, LABELS, group_id=QID))
    cat.save_model(str(tmp_path / "c.cbm"))
    joblib.dump(peers["LightGBM"], tmp_path / "p.joblib")
    kinds = {"l.txt": "LightGBM", "x.json": "XGBoost", "x.ubj": "XGBoost", "c.cbm": "CatBoost"}
    for name, kind in (kinds | {"p.joblib": "a pickle"}).items():
        with pytest.raises(ValueError, match=f"{name} is .*{kind}, not a model of rankwright"):
            rw.load(tmp_path / name)
        with pytest.raises(ValueError, match=kind):
            rw.Ranker().fit(X, LABELS, qid=QID, init_model=tmp_path / name)


def test_a_file_inside_a_saved_model_leads_to_its_folder(tmp_path: Path) -> None:
    ranker = rw.Ranker(n_estimators=2, min_child_samples=1, verbose=0, n_jobs=1)
    ranker.fit(X, LABELS, qid=QID).save(tmp_path / "m")
    with pytest.raises(ValueError, match="is a part of a saved model; give the folder"):
        rw.load(tmp_path / "m/model.txt")


@pytest.mark.parametrize(
    ("callback", "message"),
    [
        (lgb.early_stopping(5), r"of LightGBM; use Ranker\(early_stopping_rounds="),
        (lgb.log_evaluation(), r"use Ranker\(verbose=1\)"),
        (xgb.callback.EarlyStopping(rounds=5), r"EarlyStopping of XGBoost; use Ranker\(early_stop"),
        (lgb.reset_parameter(learning_rate=[0.1]), "use a function of a Progress"),
    ],
)
def test_callbacks_of_other_libraries_are_refused(callback: Any, message: str) -> None:
    for callbacks in ([callback], callback):
        with pytest.raises(ValueError, match=message):
            rw.Ranker().fit(X, LABELS, qid=QID, callbacks=callbacks)


def test_the_command_line_answers_with_the_same_table(call: Callable[..., Outcome]) -> None:
    for arguments, message in (
        (["--set", "rsm=0.5"], "rsm is colsample here"),
        (["--colsample-bytree", "0.5"], "colsample_bytree is colsample here"),
        (["--set", "num_leafs=5"], "did you mean 'num_leaves'"),
    ):
        result = call("train", "a.txt", "--out", "r", *arguments)
        assert result.code == 2
        assert message in " ".join(result.err.split()), result.err
