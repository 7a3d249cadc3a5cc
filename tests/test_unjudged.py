"""Documents without a label: in gradients, in training, in features within the query, and in evaluation."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytrec_eval

import rankwright as rw
from rankwright.data.within_query import read_recipe
from rankwright.metrics import known_metrics
from rankwright.objectives import bind, gradients
from small import TRAIN, VALID, quick
from test_laws import GRID

NAN = float("nan")


def with_gaps(data: rw.RankingData, seed: int = 5) -> rw.RankingData:
    """The same rows, a third of them without a label, and one query without any."""
    draw = np.random.default_rng(seed)
    labels = np.where(draw.random(data.n_rows) < 1 / 3, NAN, data.y)
    labels[data.boundaries[2] : data.boundaries[3]] = NAN
    return rw.RankingData(data.X, labels, qid=data.qid, sample_weight=data.weights)


TRAIN_GAPS, VALID_GAPS = with_gaps(TRAIN), with_gaps(VALID)


def judged_by_hand(data: rw.RankingData, X: Any = None) -> rw.RankingData:
    """The rows with a label, as a user would take them."""
    rows = ~np.isnan(data.y)
    return rw.RankingData((data.X if X is None else X)[rows], data.y[rows], qid=data.qid[rows])


@pytest.mark.parametrize(("name", "metric"), GRID)
def test_gradients_are_those_of_the_judged_documents(name: str, metric: str) -> None:
    draw = np.random.default_rng(3)
    qid = draw.permutation(np.repeat(["a", "b", "c", "d"], [9, 6, 7, 3]))
    labels = draw.choice([0.0, 1.0, 2.0, 3.0, NAN], len(qid))
    labels[qid == "d"] = NAN
    scores, weights = draw.normal(size=len(qid)), {"a": 1.0, "b": 2.0, "c": 0.5, "d": 3.0}
    weight = np.array([weights[query] for query in qid])
    options: dict[str, Any] = {"metric": metric, "random_state": 4, "iteration": 2, "n_jobs": 1}
    found = gradients(name, scores, labels, qid=qid, sample_weight=weight, **options)
    rows = ~np.isnan(labels)
    expected = gradients(
        name, scores[rows], labels[rows], qid=qid[rows], sample_weight=weight[rows], **options
    )
    for values, of_judged in zip(found, expected, strict=True):
        assert np.array_equal(values[rows], of_judged)
        assert not values[~rows].any()


def test_weights_and_propensities_belong_to_their_rows() -> None:
    labels, qid = [1.0, NAN, 0.0, 1.0, 0.0, NAN], [0, 0, 0, 1, 1, 1]
    shared: dict[str, Any] = {"metric": "ndcg", "n_jobs": 1}
    propensity = np.array([0.5, 0.1, 0.3, 0.9, 0.2, 0.7])
    rows = ~np.isnan(labels)
    found = bind("listnet", labels, qid=qid, sample_weight=[2, 3], propensity=propensity, **shared)
    expected = bind(
        "listnet",
        np.array(labels)[rows],
        qid=np.array(qid)[rows],
        sample_weight=[2, 3],
        propensity=propensity[rows],
        **shared,
    )
    assert np.array_equal(found(np.arange(6.0))[0][rows], expected(np.arange(6.0)[rows])[0])
    with pytest.raises(ValueError, match="scores have shape"):
        found([1.0])
    with pytest.raises(ValueError, match="labels are missing, and pairs"):
        bind("ranknet(pairs)", labels, qid=qid, pairs=[(0, 2)])
    with pytest.raises(ValueError, match="no document has a label"):
        bind("listnet", [NAN, NAN], group=[2])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"engine": "xgboost"},
        {"objective": "lambdamart", "leaf_values": "diagonal"},
        {"objective": "stochasticrank", "langevin": True, "learning_rate": None},
        {"early_stopping": "cv"},
        {"early_stopping_rounds": 3, "refit": True},
        {"members": 3},
    ],
    ids=str,
)
def test_a_training_is_that_of_the_judged_rows(options: dict[str, Any]) -> None:
    expected = judged_by_hand(TRAIN_GAPS)
    watched = VALID_GAPS
    if options.get("refit"):
        # The second pass trains on the evaluation set too, and it has to have the same rows there.
        watched = judged_by_hand(VALID_GAPS)
    if "members" in options or options.get("early_stopping") == "cv":
        # These draw queries by their number, so a query without any label must be there or not in both.
        rows = TRAIN_GAPS.subset([q for q in range(TRAIN_GAPS.n_queries) if q != 2])
        found = quick(**options).fit(rows)
        assert found.forest_.dump() == quick(**options).fit(expected).forest_.dump()
        return
    found = quick(**options).fit(TRAIN_GAPS, eval_set=watched)
    alone = quick(**options).fit(expected, eval_set=watched)
    assert found.forest_.dump() == alone.forest_.dump()
    assert found.evals_result_ == alone.evals_result_


def test_features_within_the_query_count_unjudged_documents() -> None:
    recipe = read_recipe(["rank", "z"], TRAIN_GAPS)
    extended = TRAIN_GAPS.with_features(recipe)
    found = quick(within_query=["rank", "z"]).fit(TRAIN_GAPS)
    by_hand = judged_by_hand(TRAIN_GAPS, extended.X)
    learned = found.manifest_["data_fingerprint"]
    assert learned == quick().fit(by_hand).manifest_["data_fingerprint"]
    # Ranks among the judged documents alone are others.
    assert (
        learned
        != quick(within_query=["rank", "z"])
        .fit(judged_by_hand(TRAIN_GAPS))
        .manifest_["data_fingerprint"]
    )
    assert np.isfinite(found.predict(TRAIN_GAPS)).all()


def test_members_score_unjudged_rows_too() -> None:
    found = quick(members=3).fit(TRAIN_GAPS)
    assert found.out_of_sample_ is not None
    assert np.isfinite(found.out_of_sample_).all()
    assert len(found.out_of_sample_) == TRAIN_GAPS.n_rows


def test_streamed_files_and_text_hold_missing_labels(tmp_path: Path) -> None:
    expected = quick().fit(TRAIN_GAPS).forest_.dump()
    for name in ("rows.parquet", "rows.arrow", "rows.csv"):
        rw.write_data(TRAIN_GAPS, tmp_path / name)
        again = rw.read_data(tmp_path / name)
        np.testing.assert_array_equal(again.y, TRAIN_GAPS.y)
    assert quick().fit(tmp_path / "rows.parquet").forest_.dump() == expected
    with pytest.raises(ValueError, match="LETOR text cannot hold missing labels"):
        rw.write_data(TRAIN_GAPS, tmp_path / "rows.txt")


@pytest.mark.parametrize("library", ["numpy", "pandas", "pandas Int64", "polars", "arrow"])
def test_missing_labels_of_every_kind_of_column(library: str) -> None:
    values: Any = [1, None, 0]
    if library.startswith("pandas"):
        pandas = pytest.importorskip("pandas")
        values = pandas.Series(values, dtype="Int64" if library.endswith("Int64") else None)
    elif library == "polars":
        values = pytest.importorskip("polars").Series(values)
    elif library == "arrow":
        values = pytest.importorskip("pyarrow").array(values)
    data = rw.RankingData([[1.0], [2.0], [3.0]], values, qid=[1, 1, 1])
    assert data.judged.tolist() == [True, False, True]


def test_with_several_labels_a_row_needs_all_of_them() -> None:
    labels = {"grade": TRAIN.y.copy(), "margin": np.sqrt(TRAIN.y)}
    labels["grade"][::4] = NAN
    labels["margin"][1::4] = NAN
    data = rw.RankingData(TRAIN.X, labels, qid=TRAIN.qid)
    rows = ~np.isnan(labels["grade"]) & ~np.isnan(labels["margin"])
    both = {name: values[rows] for name, values in labels.items()}
    objective = "yetiloss + 0.5 yetiloss(label=margin)"
    found = quick(objective=objective).fit(data)
    alone = quick(objective=objective).fit(TRAIN.X[rows], both, qid=TRAIN.qid[rows])
    assert found.forest_.dump() == alone.forest_.dump()
    # Evaluation reads each label by itself.
    scores = TRAIN.X[:, 0]
    values = rw.evaluate(scores, data.labels, qid=data.qid, metrics="judged[grade] judged[margin]")
    grade, margin = (
        rw.evaluate(scores, labels[name], qid=data.qid, metrics="judged").mean["judged"]
        for name in labels
    )
    assert values.mean == {"judged[grade]": grade, "judged[margin]": margin}


def test_positions_and_weights_stay_with_their_rows() -> None:
    position = np.concatenate([np.arange(n) + 1 for n in TRAIN.group])
    weights = np.repeat(np.linspace(0.5, 2, TRAIN.n_queries), TRAIN.group)
    y, rows = TRAIN_GAPS.y, ~np.isnan(TRAIN_GAPS.y)
    found = quick().fit(TRAIN.X, y, qid=TRAIN.qid, position=position, sample_weight=weights)
    alone = quick().fit(
        TRAIN.X[rows],
        y[rows],
        qid=TRAIN.qid[rows],
        position=position[rows],
        sample_weight=weights[rows],
    )
    assert found.forest_.dump() == alone.forest_.dump()
    assert found.position_bias_ == alone.position_bias_


def test_calibration_and_reliability_use_the_judged_rows() -> None:
    data = rw.make_web_search(60, kind="short", n_features=25, random_state=8)
    gaps = with_gaps(data)
    ranker = quick().fit(TRAIN)
    found = ranker.calibrate(gaps).calibration_
    curve = ranker.reliability(gaps)
    alone = ranker.calibrate(judged_by_hand(gaps)).calibration_
    assert found is not None
    assert alone is not None
    assert found.to_manifest() == alone.to_manifest()
    assert curve.error == ranker.reliability(judged_by_hand(gaps)).error
    with pytest.raises(ValueError, match="must be given, for example 5"):
        quick().fit(gaps).calibrate(gaps)
    folds = quick().fit(gaps).calibrate(gaps, folds=3).calibration_
    assert folds is not None
    assert folds.n_rows == gaps.n_judged


def test_a_training_says_once_how_many_rows_are_unjudged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="rankwright"):
        quick(members=2, n_estimators=2).fit(TRAIN_GAPS)
        quick(n_estimators=2).fit(TRAIN)
    n = TRAIN_GAPS.n_rows
    assert caplog.messages == [
        f"{n - TRAIN_GAPS.n_judged:,} of {n:,} rows have no label: they count in features within the "
        "query, and trees do not learn from them; 1 of 28 queries have no label at all."
    ]


def test_refusals() -> None:
    nothing = np.full(TRAIN.n_rows, NAN)
    with pytest.raises(ValueError, match="no document has a label: it is missing"):
        quick().fit(TRAIN.X, nothing, qid=TRAIN.qid)
    with pytest.raises(ValueError, match="no document has a label"):
        rw.evaluate([1, 2], [NAN, NAN], group=[2])
    with pytest.raises(
        ValueError, match="unjudged must be one of 'not-relevant', 'condensed'; got 'drop'"
    ):
        rw.evaluate([1, 2], [NAN, 1], group=[2], unjudged="drop")
    with pytest.raises(ValueError, match="judged@10 is about the labels"):
        quick(metric="judged@10").fit(TRAIN)
    y = TRAIN.y.copy()
    y[3] = NAN
    with pytest.raises(ValueError, match="a pair names a document without a label"):
        quick(objective="yetiloss + ranknet(pairs)").fit(TRAIN.X, y, qid=TRAIN.qid, pairs=[(2, 3)])
    scores, labels = [3, 2, 1], [1, NAN, 0]
    condensed = rw.evaluate(scores, labels, group=[3], unjudged="condensed")
    with pytest.raises(ValueError, match="evaluated with unjudged='condensed'"):
        rw.compare(rw.evaluate(scores, labels, group=[3]), condensed)


MEASURES = {
    "ndcg": "ndcg(gain=linear)",
    "ndcg_cut_5": "ndcg(gain=linear)@5",
    "map": "map",
    "map_cut_5": "map@5",
    "recip_rank": "mrr",
    "P_5": "precision@5",
    "recall_5": "recall@5",
    "success_5": "success@5",
}


def random_lists(seed: int) -> tuple[Any, Any, Any]:
    """Scores without ties, labels of which many are missing, and query ids; some queries are unjudged."""
    draw = np.random.default_rng(seed)
    sizes = draw.integers(1, 25, 6)
    qid = np.repeat(np.arange(6), sizes)
    labels = draw.choice([0.0, 1.0, 2.0, NAN], len(qid), p=[0.3, 0.15, 0.1, 0.45])
    labels[qid == 5] = NAN
    labels[0] = 1.0
    return draw.permutation(len(qid)).astype(float), labels, qid


@pytest.mark.parametrize("policy", ["not-relevant", "condensed"])
def test_metrics_are_those_of_trec_eval_on_random_lists(policy: str) -> None:
    for seed in range(100):
        scores, labels, qid = random_lists(seed)
        run: dict[str, dict[str, float]] = {}
        judgements: dict[str, dict[str, int]] = {}
        for row, query in enumerate(map(str, qid)):
            run.setdefault(query, {})[f"d{row}"] = scores[row]
            if not np.isnan(labels[row]):
                judgements.setdefault(query, {})[f"d{row}"] = int(labels[row])
        theirs = pytrec_eval.RelevanceEvaluator(
            judgements, set(MEASURES), judged_docs_only_flag=policy == "condensed"
        ).evaluate(run)
        ours = rw.evaluate(
            scores, labels, qid=qid, metrics=list(MEASURES.values()), unjudged=policy, empty="zero"
        )
        for measure, text in MEASURES.items():
            expected = [theirs.get(str(query), {measure: 0.0})[measure] for query in ours.query_ids]
            np.testing.assert_allclose(ours.per_query[text], expected, rtol=1e-12, err_msg=text)


@pytest.mark.parametrize("ties", ["worst", "best", "expected", "input"])
def test_condensed_lists_are_lists_without_unjudged_documents(ties: str) -> None:
    metrics = [f"{name}{cut}" for name in known_metrics() if name != "judged" for cut in ("", "@3")]
    metrics = [text for text in metrics if rw.metric(text).__module__.startswith("rankwright")]
    for seed in range(8):
        scores, labels, qid = random_lists(seed)
        scores = np.round(scores / 5) - 2
        rows = ~np.isnan(labels)
        options: dict[str, Any] = {"metrics": metrics, "ties": ties}
        found = rw.evaluate(scores, labels, qid=qid, unjudged="condensed", **options)
        alone = rw.evaluate(scores[rows], labels[rows], qid=qid[rows], **options)
        known = np.isin(found.query_ids, alone.query_ids)
        for text in metrics:
            np.testing.assert_allclose(
                found.per_query[text][known], alone.per_query[text], rtol=1e-12, err_msg=text
            )
            # Without any judged document a query has no value.
            assert np.isnan(found.per_query[text][~known]).all()


def test_the_share_judged_is_counted_in_the_order_of_the_scores() -> None:
    scores = [5, 4, 3, 2, 1, 9, 8]
    labels = [NAN, 0, 1, NAN, 2, 1, NAN]
    result = rw.evaluate(scores, labels, group=[5, 2], metrics="judged@1 judged@3 judged@10 judged")
    shares = {"judged@1": [0, 1], "judged@3": [2 / 3, 1 / 2]}
    shares |= {"judged@10": [3 / 5, 1 / 2], "judged": [3 / 5, 1 / 2]}
    for text, expected in shares.items():
        assert result.per_query[text].tolist() == pytest.approx(expected)
    tied = {"scores": [1, 1], "labels": [NAN, 0], "group": [2], "metrics": "judged@1"}
    for ties, expected_share in (("worst", 0.0), ("best", 1.0), ("expected", 0.5), ("input", 0.0)):
        value = rw.evaluate(**tied, ties=ties, empty="zero").mean["judged@1"]
        assert value == pytest.approx(expected_share)


def test_command_line(tmp_path: Path, call: Any) -> None:
    run, qrels = tmp_path / "a.run", tmp_path / "qrels"
    lists = [
        f"{q} Q0 {doc} 0 {score} a" for q in "qr" for doc, score in (("x", 3), ("y", 2), ("z", 1))
    ]
    run.write_text("\n".join(lists))
    qrels.write_text("q 0 y 1\nq 0 z 0\nr 0 y 1\n")
    for options, expected in (([], 0.5), (["--unjudged", "condensed"], 1.0)):
        metrics = ["--metrics", "mrr judged@2"]
        result = call("evaluate", run, qrels, *metrics, *options)
        assert f"{expected:.4f}" in result.out
        assert "0.5000" in result.out.splitlines()[-1]
    other = tmp_path / "b.run"
    other.write_text(run.read_text().replace(" a", " b"))
    result = call("compare", run, other, qrels, "--unjudged", "condensed", "--json")
    assert '"unjudged": "condensed"' in result.out


def test_several_machines_give_the_same_model() -> None:
    pytest.importorskip("distributed")
    from rankwright.cluster import dask

    shared: dict[str, Any] = {"engine": "xgboost", "n_estimators": 4, "within_query": "rank"}
    expected = quick(**shared).fit(TRAIN_GAPS, eval_set=VALID_GAPS)
    with dask.connect(2, 2) as client:
        found = quick(**shared).fit(TRAIN_GAPS, eval_set=VALID_GAPS, cluster=client)
    assert found.forest_.dump() == expected.forest_.dump()
    assert found.evals_result_ == expected.evals_result_
