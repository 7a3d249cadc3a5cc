"""Several labels per document: objectives and metrics that read one each, sums of them, and labels that are drawn."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from rankwright import (
    Ranker,
    RankingData,
    bind,
    evaluate,
    gradients,
    metric,
    objective,
    read_data,
    write_data,
)
from rankwright.objectives import OBJECTIVES, LambdaMART, Objective
from small import TRAIN, VALID, quick

SIZES = [2, 5, 12, 8, 6]
ROWS = sum(SIZES)
DRAW = np.random.default_rng(4)
SCORES = DRAW.normal(size=ROWS)
BOTH = {
    "relevance": DRAW.integers(0, 4, ROWS).astype(float),
    "margin": DRAW.integers(0, 3, ROWS).astype(float),
}


def margin_of(data: RankingData) -> Any:
    """Labels that go against the first feature."""
    noise = np.random.default_rng(1).normal(size=data.n_rows)
    return np.clip(np.round(2 - data.X[:, 0] + noise), 0, 4)


def with_margin(data: RankingData) -> RankingData:
    return RankingData(data.X, {"relevance": data.y, "margin": margin_of(data)}, qid=data.qid)


TWO, TWO_VALID = with_margin(TRAIN), with_margin(VALID)


def test_the_gradient_of_a_sum_worked_by_hand() -> None:
    """Two documents at equal scores: the first is the more relevant one, the second has the higher margin."""
    labels = {"relevance": [2, 0], "margin": [0, 1]}
    grad, hess = gradients("ranknet + 0.3 ranknet(label=margin)", [0, 0], labels, group=[2])
    assert grad.tolist() == pytest.approx([-0.5 + 0.3 * 0.5, 0.5 - 0.3 * 0.5])
    assert hess.tolist() == pytest.approx([0.25 + 0.3 * 0.25] * 2)
    # NDCG changes by 1 - 1 / log2(3) when the two trade places, by either label; the pair is pushed with p = 1/2.
    grad, _ = gradients(
        "yetiloss(noise=none) + 0.3 yetiloss(noise=none, label=margin)", [0, 0], labels, group=[2]
    )
    assert grad.tolist() == pytest.approx(
        [-(1 - 0.3) * (1 - 1 / math.log2(3)) / 2, 0.7 * (1 - 1 / math.log2(3)) / 2]
    )


@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_objective_takes_a_label(name: str) -> None:
    alone = bind(name, BOTH["margin"], group=SIZES)(SCORES, 3)
    named = bind(f"{name}(label=margin)", BOTH, group=SIZES)(SCORES, 3)
    by_metric = bind(name, BOTH, group=SIZES, metric="ndcg[margin]")(SCORES, 3)
    main = bind(name, BOTH, group=SIZES)(SCORES, 3)
    for part in (0, 1):
        assert named[part].tobytes() == by_metric[part].tobytes() == alone[part].tobytes()
    assert main[0].tobytes() == bind(name, BOTH["relevance"], group=SIZES)(SCORES, 3)[0].tobytes()
    assert main[0].tobytes() != alone[0].tobytes()


def test_leaf_systems_of_labels_add_up() -> None:
    leaf = np.arange(ROWS) % 3
    both = bind("lambdamart + 0.3 lambdamart(label=margin)", BOTH, group=SIZES).leaf_system(
        SCORES, leaf, 3
    )
    parts = [
        bind("lambdamart", BOTH[name], group=SIZES).leaf_system(SCORES, leaf, 3) for name in BOTH
    ]
    for one, (a, b) in zip(both, zip(*parts, strict=True), strict=True):
        np.testing.assert_allclose(one, a + 0.3 * b, rtol=1e-12)


def test_text_and_value_of_a_label() -> None:
    value = objective("lambdamart(sigma=2, label=margin)")
    assert value == LambdaMART(sigma=2, label="margin")
    assert str(value) == "lambdamart(sigma=2, label=margin)"
    assert objective(str(value)) == value
    assert "label='margin'" in repr(value)
    assert "label" not in repr(LambdaMART())
    drawn = objective("yetirank(noise=none, label=0.7 relevance | 0.3 margin)")
    assert drawn.label_shares() == {"relevance": pytest.approx(0.7), "margin": pytest.approx(0.3)}
    assert objective(str(drawn)) == drawn
    assert drawn.varies
    assert not drawn.capabilities.stochastic
    assert (drawn + objective("queryrmse")).capabilities.stochastic


@pytest.mark.parametrize("text", ["queryrmse", "lambdamart", "yetirank(noise=none, neighbours=3)"])
def test_a_drawn_label_is_one_of_them_in_each_query(text: str) -> None:
    options = "" if "(" not in text else text[text.index("(") + 1 : -1] + ", "
    name = text.partition("(")[0]
    drawn = bind(f"{name}({options}label=relevance | margin)", BOTH, group=SIZES, random_state=2)
    each = [bind(text, BOTH[label], group=SIZES)(SCORES) for label in BOTH]
    queries = np.repeat(np.arange(len(SIZES)), SIZES)
    chosen = []
    for iteration in range(12):
        grad, _ = drawn(SCORES, iteration)
        matches = [
            [np.array_equal(grad[queries == q], one[0][queries == q]) for one in each]
            for q in range(len(SIZES))
        ]
        assert all(any(match) for match in matches)
        chosen += [match[1] for match in matches if match[0] != match[1]]
    assert 0 < sum(chosen) < len(chosen)


def test_a_drawn_label_depends_on_seed_iteration_and_query_id_alone() -> None:
    text, qid = "queryrmse(label=relevance | margin)", np.repeat([7, 3, 11, 5, 2], SIZES)
    order = np.random.default_rng(0).permutation(ROWS)
    first = bind(text, BOTH, qid=qid, n_jobs=1)(SCORES, 4)[0]
    moved = {name: values[order] for name, values in BOTH.items()}
    np.testing.assert_allclose(
        bind(text, moved, qid=qid[order], n_jobs=2)(SCORES[order], 4)[0], first[order]
    )
    part = np.isin(qid, [3, 5])
    some = {name: values[part] for name, values in BOTH.items()}
    np.testing.assert_allclose(bind(text, some, qid=qid[part])(SCORES[part], 4)[0], first[part])
    assert any(
        (bind(text, BOTH, qid=qid, random_state=seed)(SCORES, 4)[0] != first).any()
        for seed in range(1, 6)
    )


def test_labels_are_drawn_with_their_probabilities() -> None:
    n = 4000
    labels = {"relevance": np.tile([1.0, 0.0], n), "margin": np.tile([0.0, 1.0], n)}
    grad, _ = gradients(
        "queryrmse(label=7 relevance | 3 margin)", np.zeros(2 * n), labels, group=np.full(n, 2)
    )
    share = np.mean(grad[::2] < 0)
    assert abs(share - 0.7) < 4 * math.sqrt(0.7 * 0.3 / n)


@pytest.mark.parametrize("ties", ["worst", "best", "expected", "input"])
def test_a_metric_reads_its_label_and_breaks_ties_by_it(ties: str) -> None:
    scores = np.round(SCORES)
    both = evaluate(
        scores, BOTH, group=SIZES, metrics="ndcg@5 ndcg@5[margin] map[relevance]", ties=ties
    )
    for name, text, label in (
        ("ndcg@5", "ndcg@5", "relevance"),
        ("ndcg@5[margin]", "ndcg@5", "margin"),
        ("map[relevance]", "map", "relevance"),
    ):
        alone = evaluate(scores, BOTH[label], group=SIZES, metrics=text, ties=ties)
        assert both.per_query[name].tolist() == alone.per_query[text].tolist()


def test_a_sum_of_metrics_worked_by_hand() -> None:
    """Reciprocal ranks 1/2 and 1, of two queries; the second has no document with a margin."""
    labels = {"relevance": [0, 1, 1, 0], "margin": [1, 0, 0, 0]}
    result = evaluate([2, 1, 2, 1], labels, group=[2, 2], metrics=["mrr", "mrr + 0.5 mrr[margin]"])
    assert result.per_query["mrr"].tolist() == [0.5, 1.0]
    assert result.mean["mrr + 0.5 mrr[margin]"] == 0.5 + 0.5 * 1.0
    assert np.isnan(result.per_query["mrr + 0.5 mrr[margin]"]).tolist() == [False, True]
    zero = evaluate([2, 1, 2, 1], labels, group=[2, 2], metrics="mrr+0.5 mrr[margin]", empty="zero")
    assert zero.per_query["mrr+0.5 mrr[margin]"].tolist() == [1.0, 1.0]


def test_a_sum_of_metrics_is_a_value() -> None:
    value = metric(" ndcg@10 + 0.3 ndcg@10[margin]")
    assert str(value) == "ndcg@10 + 0.3 ndcg@10[margin]"
    assert metric(str(value)) == value
    assert value.first == metric("ndcg@10")
    assert value.higher_is_better
    assert str(metric("ndcg(gain=linear)@3[net margin]")) == "ndcg(gain=linear)@3[net margin]"
    assert not metric("arp + arp[margin]").higher_is_better


def test_one_label_by_name_and_labels_that_nothing_reads_change_no_bit() -> None:
    alone = quick().fit(TRAIN.X, TRAIN.y, qid=TRAIN.qid)
    assert (
        quick().fit(TRAIN.X, {"grade": TRAIN.y}, qid=TRAIN.qid).forest_.dump()
        == alone.forest_.dump()
    )
    assert quick().fit(TWO).forest_.dump() == alone.forest_.dump()
    assert (
        quick(metric="ndcg@10[margin]").fit(TWO).forest_.dump()
        == quick().fit(TRAIN.X, margin_of(TRAIN), qid=TRAIN.qid).forest_.dump()
    )


@pytest.mark.parametrize("leaves", ["diagonal", "full"])
def test_training_for_two_labels_takes_both_into_account(leaves: str) -> None:
    values = {}
    for text in ("yetiloss", "yetiloss + 0.7 yetiloss(label=margin)", "yetiloss(label=margin)"):
        ranker = quick(objective=text, leaf_values=leaves, metric="ndcg@10 ndcg@10[margin]").fit(
            TWO, eval_set=[TWO]
        )
        values[text] = [curve[-1] for curve in ranker.evals_result_["valid_0"].values()]
    relevance, both, margin = np.array(list(values.values()))
    assert relevance[0] > both[0] > margin[0]
    assert relevance[1] < both[1] < margin[1]


def test_early_stopping_watches_a_sum() -> None:
    text = "ndcg@10 + 2 ndcg@10[margin]"
    ranker = quick(
        n_estimators=40,
        early_stopping_rounds=5,
        stopping_rule="best",
        metric=[text, "ndcg@10", "ndcg@10[margin]"],
    )
    ranker.fit(TWO, eval_set=[TWO_VALID])
    curves = ranker.evals_result_["valid_0"]
    total = np.array(curves[text])
    assert ranker.n_estimators_ == int(np.argmax(total)) + 1
    assert ranker.score(TWO_VALID) == total.max()
    np.testing.assert_allclose(
        total, np.array(curves["ndcg@10"]) + 2 * np.array(curves["ndcg@10[margin]"])
    )
    assert len(total) in (40, ranker.n_estimators_ + 5)


def test_a_model_for_several_labels_is_saved_and_scores_a_frame(tmp_path: Path) -> None:
    frame = pd.DataFrame(TWO.X, columns=[f"c{i}" for i in range(TWO.X.shape[1])])
    frame = frame.assign(relevance=TWO.y, margin=TWO.labels["margin"], qid=TWO.qid)
    ranker = quick(
        objective="lambdamart + lambdamart(label=margin)", metric="ndcg@5 ndcg@5[margin]"
    )
    ranker.fit(frame, ["relevance", "margin"], qid="qid", eval_set=[frame])
    ranker.save(tmp_path / "model")
    loaded = Ranker.load(tmp_path / "model")
    assert (
        loaded.score(frame)
        == ranker.score(frame)
        == ranker.score(frame, ["relevance", "margin"], "qid")
    )
    assert str(loaded.objective_) == "lambdamart + lambdamart(label=margin)"
    labels = pl.DataFrame({"relevance": TWO.y, "margin": TWO.labels["margin"]})
    again = quick(objective=str(loaded.objective_), metric="ndcg@5").fit(
        frame.drop(columns=[*list(labels.columns), "qid"]), labels, qid=TWO.qid
    )
    assert again.forest_.dump() == ranker.forest_.dump()


@pytest.mark.parametrize("name", ["data.parquet", "data.csv"])
def test_files_hold_several_labels(name: str, tmp_path: Path) -> None:
    write_data(TWO, tmp_path / name)
    data = read_data(
        tmp_path / name, **({} if name.endswith("parquet") else {"label": ["relevance", "margin"]})
    )
    assert data.label_names == ("relevance", "margin")
    assert data.feature_names == TWO.feature_names
    assert data.y.tolist() == TWO.y.tolist()
    assert data.labels["margin"].tolist() == TWO.labels["margin"].tolist()
    other = read_data(tmp_path / name, label=["margin", "relevance"])
    assert other.y.tolist() == TWO.labels["margin"].tolist()


def test_labels_travel_with_the_rows() -> None:
    parts = next(iter(TWO.kfold(2)))
    joined = RankingData.concatenate(list(parts))
    assert joined.label_names == TWO.label_names
    assert joined.labels["margin"].tolist() == TWO.labels["margin"].tolist()
    order = np.random.default_rng(0).permutation(TWO.n_rows)
    text = "yetiloss + 0.3 yetiloss(label=margin) + queryrmse(label=relevance|margin)"
    shuffled = RankingData(
        TWO.X[order], {n: v[order] for n, v in TWO.labels.items()}, qid=TWO.qid[order]
    )
    assert (
        quick(objective=text).fit(shuffled).forest_.dump()
        == quick(objective=text).fit(TWO).forest_.dump()
    )


def test_a_checkpoint_of_other_labels_is_refused(tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "objective": "queryrmse(label=margin)",
        "checkpoint": tmp_path / "here",
    }
    quick(**options).fit(TWO)
    other = RankingData(TWO.X, {"relevance": TWO.y, "margin": TWO.y}, qid=TWO.qid)
    with pytest.raises(ValueError, match="a checkpoint of another training"):
        quick(**options).fit(other)


def fit(text: str = "auto", metric: str = "ndcg@10", y: Any = None) -> Any:
    return quick(objective=text, metric=metric).fit(
        TWO.X, TWO.labels if y is None else y, qid=TWO.qid
    )


REFUSALS: dict[str, tuple[Any, str]] = {
    "unknown in the objective": (
        lambda: fit("yetiloss(label=margn)"),
        "unknown label 'margn'; did you mean 'margin'? The data has 'relevance', 'margin': give y as a dict or frame "
        "of labels by name.",
    ),
    "unknown in the metric": (
        lambda: fit(metric="ndcg@10[fresh]"),
        "unknown label 'fresh'. The data has 'relevance'",
    ),
    "unknown in a draw": (lambda: fit("queryrmse(label=relevance | x)"), "unknown label 'x'"),
    "unknown to evaluate": (
        lambda: evaluate([1, 0], [1, 0], group=[2], metrics="mrr[margin]"),
        "unknown label 'margin'. The data has 'label': give y as a dict or frame of labels by name.",
    ),
    "no name": (lambda: metric("ndcg@10[ ]"), "its square brackets name no label"),
    "label twice": (
        lambda: objective("queryrmse(label=a|a)"),
        "queryrmse: label='a|a' has 'a' twice",
    ),
    "factor 0": (lambda: objective("queryrmse(label=0 a|b)"), "with a factor that is not above 0"),
    "empty name": (lambda: objective("queryrmse(label=a|)"), "a label's name must be text"),
    "objective in brackets": (
        lambda: objective("queryrmse[margin]"),
        "a label is an option of an objective, label=margin",
    ),
    "no labels": (lambda: fit(y={}), "y holds no labels"),
    "name of a label": (
        lambda: fit(y={"a|b": TWO.y}),
        "a label's name must be text without brackets, quotes and |",
    ),
    "bad value": (
        lambda: fit(y={"relevance": TWO.y, "margin": -TWO.y - 1}),
        "label 'margin': labels must be finite and non-negative",
    ),
    "label and field": (
        lambda: RankingData(TWO.X, dict(TWO.labels), qid=TWO.qid, fields={"margin": TWO.y}),
        "'margin' is both a label and a field; rename one of them.",
    ),
    "unknown column": (
        lambda: RankingData(pd.DataFrame({"a": [1.0], "qid": [1]}), ["a", "b"], qid="qid"),
        "y='b' is not a column of the data",
    ),
    "directions": (lambda: metric("ndcg + arp"), "adds a metric of which less is better to others"),
    "parts": (
        lambda: RankingData.concatenate([TWO.subset([0]), TRAIN.subset([1])]),
        "the parts have different",
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name: str) -> None:
    call, message = REFUSALS[name]
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


def test_letor_text_holds_one_label(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError,
        match="LETOR text holds one label per row, but this data has the labels relevance",
    ):
        write_data(TWO, tmp_path / "data.txt")


def test_an_option_named_label_is_taken() -> None:
    with pytest.raises(ValueError, match="has an option label, which every objective has"):
        type("Mine", (Objective,), {"__annotations__": {"label": "str"}})


def test_a_label_alone_needs_no_name_to_be_joined() -> None:
    parts = [RankingData(TRAIN.X, {"grade": TRAIN.y}, qid=TRAIN.qid).subset([0]), TRAIN.subset([1])]
    assert RankingData.concatenate(parts).label_names == ("grade",)
