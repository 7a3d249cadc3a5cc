"""Guards: each fires on its mistake, and none fires on innocent data."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import set_config
from sklearn.model_selection import GroupKFold, KFold, cross_val_score

import rankwright as rw
from commands import Outcome
from rankwright.data import guards


def quick(**parameters: Any) -> rw.Ranker:
    return rw.Ranker(**{"n_estimators": 2, "verbose": 0, "n_jobs": 1} | parameters)


@pytest.fixture(scope="module")
def data() -> rw.RankingData:
    return rw.make_web_search(80, kind="short", n_features=20, random_state=3)


@contextmanager
def silent() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def changed(data: rw.RankingData, X: Any = None, y: Any = None, **entries: Any) -> rw.RankingData:
    X = data.X if X is None else X
    return rw.RankingData(X, data.y if y is None else y, **{"qid": data.qid} | entries)


def test_innocent_data_train_without_a_warning(data: rw.RankingData) -> None:
    train, valid = data.split(0.3)
    frame = pd.DataFrame(train.X, columns=[f"c{column}" for column in range(20)])
    with silent():
        ranker = quick(early_stopping_rounds=5).fit(train, eval_set=[valid])
        ranker.score(valid)
        quick(metric="map").fit(train.X, train.y, group=train.group).predict(valid.X)
        quick(learning_rate=1.0).fit(frame, train.y, qid=train.qid).predict(frame)
        rw.evaluate(ranker.predict(valid), valid.y, qid=valid.qid, metrics="map ndcg mrr")
        # Two sets that number their queries in the same way.
        quick().fit(
            data, eval_set=[rw.make_web_search(60, kind="short", n_features=20, random_state=9)]
        )
        # Curves of the training data.
        last = quick().fit(train, eval_set=[valid, train])
    assert last.n_estimators_ > 0


def test_one_query_with_most_rows() -> None:
    rng = np.random.default_rng(0)
    X, y, qid = rng.random((2000, 2)), rng.integers(0, 3, 2000), np.zeros(2000, int)
    with pytest.warns(UserWarning, match="query 0 has 1,9.. of the 2,000 rows.*as qid"):
        quick().fit(X, y, qid=np.where(np.arange(2000) < 50, np.arange(2000) // 10 + 1, qid))


def test_sizes_of_queries_with_shuffled_rows(data: rw.RankingData) -> None:
    order = np.random.default_rng(0).permutation(data.n_rows)
    with pytest.warns(UserWarning, match="neither labels nor any column .* as qid"):
        quick().fit(data.X[order], data.y[order], group=data.group)
    with silent():
        quick().fit(data.X, data.y, group=data.group)
        # Features that were scaled within each query differ less between queries than random ones.
        scaled = np.concatenate(
            [part - part.mean(0) for part in np.split(data.X, data.boundaries[1:-1])]
        )
        quick().fit(scaled, data.y, group=data.group)


@pytest.mark.parametrize("sparse", [False, True])
def test_features_that_give_the_label_or_the_query_away(data: rw.RankingData, sparse: bool) -> None:
    from scipy.sparse import csr_matrix

    wrap: Callable[[Any], Any] = csr_matrix if sparse else np.asarray
    with pytest.warns(UserWarning, match="feature 'f20' equals the label in every row"):
        quick().fit(changed(data, wrap(np.column_stack([data.X, data.y]))))
    ids = 1000.0 + 7 * data.queries.query_of_row
    with pytest.warns(UserWarning, match="feature 'f20' equals the query id"):
        quick().fit(changed(data, wrap(np.column_stack([data.X, ids])), qid=ids.astype(int)))
    almost = np.where(np.arange(data.n_rows) == 5, 1 - data.y, data.y)
    with silent():
        quick().fit(changed(data, wrap(np.column_stack([data.X, almost]))))


def test_exponential_gains_of_large_labels(data: rw.RankingData) -> None:
    large = changed(data, y=data.y * 25)
    match = r"ndcg@10 has the gain 2\^r - 1 and labels up to 100.*ndcg\(gain=linear\)"
    with pytest.warns(UserWarning, match=match):
        quick().fit(large)
    with pytest.warns(UserWarning, match=match):
        rw.evaluate(large.X[:, 0], large.y, qid=large.qid)
    with silent():
        quick(metric="ndcg(gain=linear)@10").fit(large)
        quick(metric="map").fit(large)
        rw.evaluate(large.X[:, 0], np.minimum(large.y, 30), qid=large.qid)


def test_metrics_that_are_the_same_for_every_ranking(data: rw.RankingData) -> None:
    from_one = changed(data, y=data.y + 1)
    match = r"every one of the [\d,]+ documents is relevant to map: labels are from 1 to 5.*map\(threshold="
    with pytest.raises(ValueError, match=match):
        quick(metric="map").fit(from_one)
    with pytest.warns(UserWarning, match=match):
        quick(objective="queryrmse", metric="ndcg@10 map").fit(from_one)
    with pytest.warns(UserWarning, match=match):
        rw.evaluate(from_one.X[:, 0], from_one.y, qid=from_one.qid, metrics="map")
    with pytest.raises(ValueError, match=r"none of the [\d,]+ documents is relevant to map"):
        quick(metric="map").fit(changed(data, y=data.y / 10))
    with silent():
        quick(metric="map(threshold=3)").fit(from_one)


def test_the_threshold_that_is_proposed_trains(data: rw.RankingData) -> None:
    for labels in (data.y + 1, data.y / 10):
        with pytest.raises(ValueError, match="relevant") as refused:
            quick(metric="map").fit(changed(data, y=labels))
        proposed = re.search(r"map\(threshold=[\d.]+\)", str(refused.value))
        assert proposed is not None
        quick(metric=proposed[0]).fit(changed(data, y=labels))


def test_a_learning_rate_above_one(data: rw.RankingData) -> None:
    with pytest.warns(UserWarning, match="learning_rate=50 goes past"):
        quick(learning_rate=50).fit(data)
    with silent():  # the scale of the gradient is the user's
        quick(objective="stochasticrank", learning_rate=50).fit(data)


def test_labels_and_scores_that_are_swapped(data: rw.RankingData) -> None:
    scores = np.random.default_rng(0).random(data.n_rows)
    with pytest.warns(UserWarning, match="look swapped: scores come first"):
        rw.evaluate(data.y, scores, qid=data.qid)
    with silent():
        rw.evaluate(scores, data.y, qid=data.qid)
        rw.evaluate(data.y, data.y, qid=data.qid)  # a perfect ranking
        rw.evaluate(np.round(scores), data.y / 4, qid=data.qid)  # fractions among few grades


def test_evaluation_queries_that_were_trained_on(data: rw.RankingData) -> None:
    ids = np.array([f"query {qid}" for qid in data.qid])
    named = changed(data, qid=ids)
    ranker = quick().fit(named)
    other = named.subset(range(30))
    with pytest.warns(UserWarning, match="30 of the 30 queries of score"):
        ranker.score(other)
    with pytest.warns(UserWarning, match=r"30 of the 30 queries of eval_set\[0\] were trained on"):
        quick().fit(named, eval_set=[other])
    # Also if queries are numbers that count, by their sizes.
    with pytest.warns(UserWarning, match="30 of the 30 queries of eval"):
        quick().fit(data, eval_set=[data.subset(range(30))])
    for watched in (data, (data.X, data.y, data.qid)):
        with pytest.warns(UserWarning, match="80 of the 80 queries of eval"):
            quick(early_stopping_rounds=3).fit(data, eval_set=[watched])
    with silent():
        # Curves and scores of the whole training set.
        quick().fit(named, eval_set=[(named.X, named.y, named.qid)]).score(named)
        # Users whose later events are held out.
        times = np.arange(data.n_rows)
        quick().fit(named, eval_set=[named.subset(range(30))], time=times)


def test_cross_validation_that_cuts_queries_apart(data: rw.RankingData) -> None:
    set_config(enable_metadata_routing=True)
    try:
        parts = KFold(3, shuffle=True, random_state=0)
        with pytest.warns(UserWarning, match="queries of score were trained on.*GroupKFold"):
            cross_val_score(quick(), data.X, data.y, params={"qid": data.qid}, cv=parts)
        whole = list(GroupKFold(3).split(data.X, data.y, groups=data.qid))
        with silent():
            cross_val_score(quick(), data.X, data.y, params={"qid": data.qid}, cv=whole)
    finally:
        set_config(enable_metadata_routing=False)


def test_ids_and_texts_as_categories(data: rw.RankingData) -> None:
    n = 3000
    frame = pd.DataFrame({"a": np.arange(n) % 7, "b": [f"text {row}" for row in range(n)]})
    y, qid = np.arange(n) % 3, np.arange(n) // 10
    with pytest.warns(UserWarning, match="column 'b' has 3,000 categories in 3,000 rows"):
        rw.RankingData(frame, y, qid=qid, categorical=["b"])
    frame["b"] = [f"brand {row % 900}" for row in range(n)]
    with silent():
        rw.RankingData(frame, y, qid=qid, categorical=["b"])


def test_an_array_in_another_order_than_the_frame(data: rw.RankingData) -> None:
    X = data.X * np.arange(1, 21) ** 3
    frame = pd.DataFrame(X, columns=[*"abcdefghijklmnopqrst"])
    ranker = quick().fit(frame, data.y, qid=data.qid)
    for use in (ranker.predict, lambda X: ranker.calibrate(X, data.y, data.qid)):
        with pytest.warns(UserWarning, match="no names of columns.*the order .* 'a', 'b', 'c' and"):
            use(X[:, ::-1])
    with silent():
        ranker.predict(X)
        ranker.predict(frame[[*"tsrqponmlkjihgfedcba"]])
        quick().fit(X, data.y, qid=data.qid).predict(X[:, ::-1])


@pytest.mark.filterwarnings("default")
def test_the_command_line_warns_too(
    data: rw.RankingData, tmp_path: Path, call: Callable[..., Outcome]
) -> None:
    rw.write_letor(data, tmp_path / "a.txt")
    arguments = ["--out", tmp_path / "run", "--trees", "2", "--set", "learning_rate=3"]
    rw.write_letor(data.subset(range(25)), tmp_path / "b.txt")
    result = call("train", tmp_path / "a.txt", "--valid", tmp_path / "b.txt", *arguments)
    assert result.code == 0
    assert "25 of the 25 queries of eval_set[0] were trained on" in result.err
    assert "warning: learning_rate=3 goes past" in result.err


def test_guards_cope_with_ids_of_any_type() -> None:
    letters = rw.RankingData([[1.0], [2.0]], [0, 1], qid=["a", "b"])
    for qid in ([1, 2], [1, "a"]):
        trained = guards.TrainedOn.of(rw.RankingData([[1.0], [2.0]], [0, 1], qid=qid))
        with silent():
            trained.check_new_queries(letters.queries, "a set")
