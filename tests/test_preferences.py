"""Given pairs of documents: the loss by a brute-force oracle, all forms of pairs, and rows that move."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankwright import Ranker, RankingData, bind, gradients, write_data
from small import TRAIN, VALID, quick

QID = np.array(["b", "a", "b", "a", "a", "b", "b"])
NAMES = np.array(["d0", "d1", "d2", "d3", "d4", "d5", "d6"])
SCORES = np.array([0.3, -0.2, 1.0, 0.5, 0.1, -0.7, 0.4])
WINNER, LOSER = [0, 3, 5, 1, 0], [2, 1, 0, 4, 2]  # the first is given twice
WEIGHT = [1.0, 2.0, 0.5, 0.0, 3.0]
X = np.arange(14.0).reshape(7, 2) % 5


def oracle(sigma: float = 1.0) -> tuple[Any, Any]:
    """Gradient, and full Hessian, of the sum of w log(1 + exp(-sigma (z_a - z_b))), by loops."""
    grad, hessian = np.zeros(7), np.zeros((7, 7))
    for a, b, w in zip(WINNER, LOSER, WEIGHT, strict=True):
        p = 1 / (1 + np.exp(sigma * (SCORES[a] - SCORES[b])))
        grad[a] -= sigma * w * p
        grad[b] += sigma * w * p
        for i, j, sign in ((a, a, 1), (b, b, 1), (a, b, -1), (b, a, -1)):
            hessian[i, j] += sign * sigma**2 * w * p * (1 - p)
    return grad, hessian


@pytest.mark.parametrize("sigma", [1.0, 0.4])
def test_gradient_and_leaf_system_against_loops(sigma: float) -> None:
    pairs = np.c_[WINNER, LOSER, WEIGHT]
    bound = bind("ranknet(pairs)", np.zeros(7), qid=QID, pairs=pairs, sigma=sigma)
    grad, hessian = oracle(sigma)
    np.testing.assert_allclose(bound(SCORES)[0], grad, rtol=1e-12)
    np.testing.assert_allclose(
        bound(SCORES)[1], np.maximum(np.diag(hessian), 1e-12 * np.abs(grad)), rtol=1e-12
    )
    leaf = np.array([0, 1, 1, 2, 0, 2, 1])
    member = np.eye(3)[leaf]
    g, between = bound.leaf_system(SCORES, leaf, 3)
    np.testing.assert_allclose(g, member.T @ grad, rtol=1e-12)
    np.testing.assert_allclose(between, member.T @ hessian @ member, rtol=1e-12, atol=1e-15)


def test_a_pair_worked_by_hand() -> None:
    """At equal scores p = 1/2: a pair of weight 3 pushes 1.5; the other one, at distance log 3, has p = 1/4."""
    grad, hess = gradients(
        "ranknet(pairs)", [0, 0, np.log(3)], [0, 0, 0], group=[3], pairs=[(1, 0, 3), (2, 1, 1)]
    )
    assert grad.tolist() == pytest.approx([1.5, -1.5 + 0.25, -0.25])
    assert hess.tolist() == pytest.approx([0.75, 0.75 + 3 / 16, 3 / 16])


def test_all_pairs_of_a_label_are_ranknet() -> None:
    sizes = [4, 7, 2]
    draw = np.random.default_rng(0)
    labels, scores = draw.integers(0, 3, 13).astype(float), draw.normal(size=13)
    query = np.repeat(np.arange(3), sizes)
    pairs = [
        (i, j)
        for i in range(13)
        for j in range(13)
        if query[i] == query[j] and labels[i] > labels[j]
    ]
    for ours, theirs in zip(
        gradients("ranknet(pairs)", scores, labels, group=sizes, pairs=pairs),
        gradients("ranknet", scores, labels, group=sizes),
        strict=True,
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10)


COLUMNS: dict[str, Any] = {
    "winner": NAMES[WINNER],
    "loser": NAMES[LOSER],
    "weight": WEIGHT,
    "qid": QID[WINNER],
}


def arrays(data: RankingData) -> list[Any]:
    assert data.pairs is not None
    return [part.tolist() for part in data.pairs.arrays]


@pytest.mark.parametrize(
    "form", ["array", "dict", "pandas", "polars", "arrow", "csv", "tsv", "parquet", "no qid"]
)
def test_every_form_of_pairs(form: str, tmp_path: Path) -> None:
    frame = pd.DataFrame(COLUMNS)
    by_row = RankingData(X, QID == "a", qid=QID, pairs=np.c_[WINNER, LOSER, WEIGHT])
    forms: dict[str, Any] = {
        "array": lambda: by_row,
        "dict": lambda: COLUMNS,
        "pandas": lambda: frame,
        "polars": lambda: pl.DataFrame(COLUMNS),
        "arrow": lambda: pa.table(COLUMNS),
        "no qid": lambda: frame.drop(columns="qid"),
    }
    if form in ("csv", "tsv"):
        path = tmp_path / f"pairs.{form}"
        frame.to_csv(path, index=False, sep="," if form == "csv" else "\t")
        pairs: Any = path
    elif form == "parquet":
        pq.write_table(pa.table(COLUMNS), tmp_path / "pairs.parquet")
        pairs = str(tmp_path / "pairs.parquet")
    else:
        pairs = forms[form]()
    data = (
        by_row
        if form == "array"
        else RankingData(X, QID == "a", qid=QID, pairs=pairs, document=NAMES)
    )
    assert arrays(data) == arrays(by_row)


def test_ids_of_a_csv_file_may_be_numbers(tmp_path: Path) -> None:
    (tmp_path / "pairs.csv").write_text("qid,winner,loser\n1,10,7\n2,7,8\n")
    data = RankingData(
        np.eye(4),
        [0, 1, 0, 1],
        qid=[1, 1, 2, 2],
        fields={"id": [7, 10, 7, 8]},
        pairs=tmp_path / "pairs.csv",
        document="id",
    )
    assert data.pairs is not None
    assert (data.pairs.arrays.winner.tolist(), data.pairs.arrays.loser.tolist()) == ([1, 2], [0, 3])


def test_pairs_travel_with_the_rows() -> None:
    data = RankingData(X, None, qid=QID, pairs=np.c_[WINNER, LOSER, WEIGHT])
    wanted = sorted(zip(X[WINNER].tolist(), X[LOSER].tolist(), WEIGHT, strict=True))

    def content(part: RankingData) -> list[Any]:
        assert part.pairs is not None
        _, winner, loser, weight = part.pairs.arrays
        starts = part.pairs.arrays.start
        for q in range(part.n_queries):
            rows = slice(starts[q], starts[q + 1])
            assert (np.r_[winner[rows], loser[rows]] // 1 >= part.boundaries[q]).all()
            assert (np.r_[winner[rows], loser[rows]] < part.boundaries[q + 1]).all()
        return sorted(
            zip(part.X[winner].tolist(), part.X[loser].tolist(), weight.tolist(), strict=True)
        )

    assert content(data) == content(data.canonical()) == wanted
    parts = [data.subset([1]), data.subset([0])]
    assert sorted(content(parts[0]) + content(parts[1])) == wanted
    assert content(RankingData.concatenate(parts)) == wanted
    assert data.labels == {}


def preferences(data: RankingData, n: int = 15, seed: int = 0) -> Any:
    """Pairs of documents by their labels, with weights, as rows of the data."""
    draw = np.random.default_rng(seed)
    pairs = [
        (i, j, 1.0 + draw.integers(3))
        for start, end in zip(data.boundaries[:-1], data.boundaries[1:], strict=True)
        for i, j in draw.integers(start, end, (n, 2))
        if data.y[i] > data.y[j]
    ]
    return np.array(pairs)


PAIRS = preferences(TRAIN)


@pytest.mark.parametrize(
    "objective", ["auto", "ranknet(pairs)", "yetiloss + 0.1 ranknet(pairs, sigma=0.5)"]
)
def test_any_order_of_rows_and_pairs_gives_the_same_model(objective: str) -> None:
    copies = np.r_[
        : TRAIN.n_rows, : TRAIN.n_rows // 2
    ]  # half of the rows twice; only the first ones have pairs
    rows, qid, labels = TRAIN.X[copies], TRAIN.qid[copies], TRAIN.y[copies]
    order = np.random.default_rng(3).permutation(len(copies))
    place = np.argsort(order)
    moved = np.c_[place[PAIRS[:, 0].astype(int)], place[PAIRS[:, 1].astype(int)], PAIRS[:, 2]][::-1]
    y = [None, None] if objective == "auto" else [labels, labels[order]]
    models = [
        quick(objective=objective, subsample=0.7).fit(a, b, qid=c, pairs=p).forest_.dump()
        for a, b, c, p in ((rows, y[0], qid, PAIRS), (rows[order], y[1], qid[order], moved))
    ]
    assert models[0] == models[1]


@pytest.mark.parametrize("leaves", ["diagonal", "full"])
def test_training_on_pairs_alone_learns_their_order(leaves: str) -> None:
    data = RankingData(TRAIN.X, None, qid=TRAIN.qid, pairs=PAIRS)
    ranker = quick(n_estimators=40, leaf_values=leaves).fit(data, eval_set=[VALID])
    assert str(ranker.objective_) == "ranknet(pairs=True)"
    assert data.pairs is not None
    assert (
        data.pairs.agreement(ranker.predict(data))
        > 0.85
        > data.pairs.agreement(np.zeros(data.n_rows))
        == 0.5
    )
    held_out = VALID.with_pairs(preferences(VALID))
    assert held_out.pairs is not None
    assert held_out.pairs.agreement(ranker.predict(VALID)) > 0.6


def test_pairs_beside_labels_count_by_their_weight() -> None:
    def agreement(text: str) -> float:
        data = TRAIN.with_pairs(against)
        assert data.pairs is not None
        return data.pairs.agreement(quick(objective=text).fit(data).predict(data))

    against = PAIRS[:, [1, 0, 2]]  # the labels' order turned round
    values = [agreement(f"ranknet + {weight} ranknet(pairs)") for weight in (0.01, 5, 500)]
    assert values[0] < 0.3 < values[-1]
    assert values == sorted(values)


def test_a_frame_with_a_column_of_ids(tmp_path: Path) -> None:
    frame = pd.DataFrame(X, columns=["bm25", "age"]).assign(qid=QID, url=NAMES)
    ranker = quick(min_child_samples=1).fit(frame, qid="qid", pairs=COLUMNS, document="url")
    assert ranker.n_features_in_ == 2
    ranker.save(tmp_path / "model")
    assert Ranker.load(tmp_path / "model").predict(frame).tolist() == ranker.predict(X).tolist()


def test_a_checkpoint_of_other_pairs_is_refused(tmp_path: Path) -> None:
    options: dict[str, Any] = {"objective": "ranknet(pairs)", "checkpoint": tmp_path / "here"}
    quick(**options).fit(TRAIN.with_pairs(PAIRS))
    with pytest.raises(ValueError, match="a checkpoint of another training"):
        quick(**options).fit(TRAIN.with_pairs(PAIRS[1:]))


def data(pairs: Any, **options: Any) -> RankingData:
    return RankingData(X, QID == "a", qid=QID, pairs=pairs, **options)


def by_name(**columns: Any) -> RankingData:
    return data(columns, document=NAMES)


REFUSALS: dict[str, tuple[Any, str]] = {
    "alike": (
        lambda: data([(0, 2), (5, 5)]),
        "pair 1 has 5 as winner and as loser; a pair needs two documents.",
    ),
    "alike by name": (
        lambda: by_name(winner=["d1"], loser=["d1"]),
        "pair 0 has 'd1' as winner and as loser",
    ),
    "two queries": (
        lambda: data([(0, 1)]),
        "pair 0 is between two queries (row 0, query b, and row 1, query a); the documents of a pair must belong to "
        "one query.",
    ),
    "unknown document": (
        lambda: by_name(winner=["d0"], loser=["d9"]),
        "pair 0 names 'd9', which is not a document of the data; name documents that have rows.",
    ),
    "not in the query": (
        lambda: by_name(winner=["d0"], loser=["d1"], qid=["b"]),
        "pair 0 names 'd1', which is not a document of query b; name documents that have rows.",
    ),
    "row of another query": (
        lambda: data({"winner": [0], "loser": [2], "qid": ["a"]}),
        "pair 0 names 0, which is not a document of query a",
    ),
    "unknown query": (
        lambda: by_name(winner=["d0"], loser=["d2"], qid=["z"]),
        "pair 0 is of query 'z', which has no",
    ),
    "several rows": (
        lambda: data(
            {"winner": ["x"], "loser": ["y"]}, document=["x", "x", "y", "y", "z", "u", "v"]
        ),
        "pair 0 names the document 'x', which is in several rows; add a column qid to the pairs.",
    ),
    "row too large": (
        lambda: data([(0, 7)]),
        "pair 0 names 7, which is not a row from 0 to 6. Give row numbers; otherwise document must name the column",
    ),
    "negative row": (lambda: data([(-1, 0)]), "pair 0 names -1, which is not a row from 0 to 6"),
    "ids without document": (
        lambda: data(COLUMNS),
        "pair 0 names 'd0', which is not a row from 0 to 6",
    ),
    "negative weight": (
        lambda: data([(0, 2, 1.0), (2, 0, -1.0)]),
        "pair 1 has the weight -1; weights must be finite and non-negative.",
    ),
    "infinite weight": (lambda: data([(0, 2, np.inf)]), "pair 0 has the weight inf"),
    "no weight": (lambda: data([(0, 2, 0.0)]), "every pair has weight 0"),
    "no pairs": (lambda: data({"winner": [], "loser": []}), "there are no pairs; give a frame"),
    "shape": (lambda: data([0, 1]), "pairs have shape (2,)"),
    "no loser": (lambda: data({"winner": [0]}), "pairs have no column 'loser' but 'winner'"),
    "other column": (
        lambda: data({"winner": [0], "loser": [2], "w": [1]}),
        "pairs have a column 'w'",
    ),
    "lengths": (
        lambda: data({"winner": [0, 1], "loser": [2]}),
        "the columns of pairs differ in length",
    ),
    "unknown field": (
        lambda: TRAIN.with_pairs(PAIRS, "url"),
        "document must name a field of the data; got 'url'. It has none.",
    ),
    "twice": (lambda: TRAIN.with_pairs(PAIRS).with_pairs(PAIRS), "the data has pairs already"),
    "document alone": (
        lambda: RankingData(X, QID == "a", qid=QID, document=NAMES),
        "document says how pairs name the rows, and there are no pairs",
    ),
    "nothing": (
        lambda: RankingData(X, None, qid=QID),
        "there are no labels; give y, one per row, or pairs.",
    ),
    "extension": (lambda: data("pairs.json"), "'pairs.json' has no known file extension"),
    "not learned": (
        lambda: quick().fit(TRAIN.with_pairs(PAIRS)),
        "there are pairs, and the objective auto does not learn from them; add a term",
    ),
    "no pairs to learn": (
        lambda: quick(objective="ranknet(pairs)").fit(TRAIN),
        "pairs must be given, because ranknet(pairs=True) learns from them.",
    ),
    "no labels to learn": (
        lambda: quick(objective="yetiloss + ranknet(pairs)").fit(X, qid=QID, pairs=[(0, 2)]),
        "there are no labels, only pairs; give labels as y, or use an objective that learns from pairs",
    ),
    "no pairs in it": (
        lambda: bind("yetirank(pairs)", [0, 1], group=[2]),
        "option 'pairs' of yetirank has no value",
    ),
    "label of pairs": (
        lambda: gradients(
            "ranknet(pairs, label=a)", [0, 0], {"a": [0, 1]}, group=[2], pairs=[(0, 1)]
        ),
        "learns from pairs, which have no label; leave out label=.",
    ),
    "labels to evaluate": (
        lambda: quick().fit(
            X, qid=QID, pairs=[(0, 2)], eval_set=[data([(0, 2)]).subset([0]), unlabelled()]
        ),
        "eval_set[1] has no labels to evaluate with",
    ),
    "file": (
        lambda: write_data(data([(0, 2)]), "x.parquet"),
        "the data has pairs, which a file of rows cannot hold",
    ),
}


def unlabelled() -> RankingData:
    return RankingData(X, None, qid=QID, pairs=[(0, 2)])


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name: str) -> None:
    call, message = REFUSALS[name]
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


def test_lists_are_neither_documents_nor_queries() -> None:
    data = RankingData([[1.0], [2.0]], [0, 1], qid=[1, 1])
    for name, values in (("winner", [[0]]), ("loser", [{}]), ("qid", [[]])):
        pairs = {"winner": [0], "loser": [1], "qid": [1]} | {name: values}
        with pytest.raises(ValueError, match=f"column '{name}' of the pairs has a (list|dict)"):
            data.with_pairs(pairs)


def test_a_quote_that_is_not_closed_leaves_out_no_pair(tmp_path: Path) -> None:
    (tmp_path / "pairs.csv").write_text('winner,loser\na,"b\nc,d\n')
    with pytest.raises(ValueError, match=r"pairs.csv: row 1 has a quote \(\"\) that is not closed"):
        RankingData(np.ones((2, 1)), [0, 1], qid=["q", "q"], pairs=tmp_path / "pairs.csv")
