"""Calibrated scores: the maps against other implementations, the order they keep, and what is refused."""

import json
import math

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.isotonic import IsotonicRegression

import rankwright as rw
from rankwright.calibration import LEAST_QUERIES, SLANT, Calibration, fit_calibration


def noisy(n=3000, seed=0):
    """Scores, labels from 0 to 3 that rise with them but not along a logistic curve, and weights."""
    random = np.random.default_rng(seed)
    scores = random.normal(size=n).round(2)  # many equal scores
    chance = 0.05 + 0.5 * (scores > -0.3) + 0.3 * (scores > 1)
    return (
        scores,
        (random.random(n) < chance) * random.integers(1, 4, n).astype(float),
        random.integers(1, 4, n) / 2,
    )


def fitted(method="isotonic", **options):
    scores, labels, _ = noisy()
    return fit_calibration(scores, labels, n_queries=100, method=method, **options)


@pytest.fixture(scope="module")
def trained():
    data = rw.make_web_search(240, kind="short", n_features=25, random_state=4)
    train, rest = data.split(0.6, random_state=1)
    held_out, test = rest.split(0.5, random_state=2)
    ranker = rw.Ranker(metric="ndcg@10", n_estimators=15, n_jobs=1, verbose=0).fit(train)
    return ranker, train, held_out, test


def share(calibration, scores):
    """The map without its slant, from its definition."""
    t = (scores - calibration.centre) / calibration.width
    ramp = np.where(t >= 0, 1 - 1 / (2 + 2 * np.abs(t)), 1 / (2 + 2 * np.abs(t)))
    return (calibration(scores) / calibration.top - SLANT * ramp) / (1 - SLANT)


@pytest.mark.parametrize("target", ["label", "relevance"])
def test_an_isotonic_map_is_the_isotonic_regression(target):
    scores, labels, weights = noisy()
    calibration = fit_calibration(scores, labels, n_queries=100, weights=weights, target=target)
    y, top = (labels, 3) if target == "label" else (labels >= 1, 1)
    expected = IsotonicRegression().fit_transform(scores, y, sample_weight=weights)
    drawn = (len(y) * expected + np.average(y, weights=weights)) / (
        len(y) + 1
    )  # one document of the mean more
    assert calibration.top == top
    np.testing.assert_allclose(share(calibration, scores), drawn / top, atol=1e-12)


def test_a_logistic_map_has_the_greatest_likelihood():
    scores, labels, weights = noisy()
    calibration = fit_calibration(scores, labels, n_queries=100, weights=weights, method="logistic")
    drawn = (len(labels) * labels + np.average(labels, weights=weights)) / (3 * (len(labels) + 1))

    def loss(line):
        z = line[0] * scores + line[1]
        return weights @ (np.logaddexp(0, z) - drawn * z) / weights.sum()

    best = minimize(loss, [1, 0], method="BFGS", options={"gtol": 1e-9}).x
    assert (calibration.slope, calibration.intercept) == pytest.approx(tuple(best), abs=1e-6)
    np.testing.assert_allclose(
        share(calibration, scores), 1 / (1 + np.exp(-best[0] * scores - best[1])), atol=1e-6
    )


def test_a_map_by_hand():
    """Means 0, 1/2, 1/2, 1 by score; 80 documents and one more of the mean 1/2."""
    labels, scores = np.tile([0, 1, 0, 1], 20), np.tile([1.0, 2.0, 3.0, 4.0], 20)
    calibration = fit_calibration(scores, labels, n_queries=20)
    assert calibration.scores.tolist() == [1, 2, 3, 4]
    np.testing.assert_allclose(calibration.values, [0.5 / 81, 0.5, 0.5, 80.5 / 81], atol=1e-15)
    halfway = (1 - SLANT) * (0.5 / 81 + 0.5) / 2 + SLANT / (
        2 + 2 * 1 / 3
    )  # 1.5 is a third of 3 below the middle 2.5
    assert calibration(1.5) == pytest.approx(halfway, abs=1e-15)


@pytest.mark.parametrize("method", ["isotonic", "logistic"])
def test_different_scores_get_different_values_in_their_order(method):
    calibration = fitted(method)
    scores = np.sort(
        np.random.default_rng(1).normal(size=200_000) * 3
    )  # most beyond the range of the fit
    values = calibration(scores)
    assert (np.diff(values)[np.diff(scores) > 1e-10] > 0).all()
    assert values.min() > 0
    assert values.max() < calibration.top
    extreme = calibration(np.array([-1e6, -1e5, -1e4, 1e4, 1e5, 1e6]))
    assert (np.diff(extreme) > 0).all()


@pytest.mark.parametrize("method", ["isotonic", "logistic"])
def test_neighbouring_numbers_are_never_reversed(method):
    calibration = fitted(method)
    starts = [
        *calibration.scores,
        -0.3,
        1.0,
        calibration.centre,
        calibration.scores[-1] if method == "isotonic" else 4,
    ]
    for start in starts:
        below, above = [start], [start]
        for _ in range(40):
            below.append(np.nextafter(below[-1], -np.inf))
            above.append(np.nextafter(above[-1], np.inf))
        assert (np.diff(calibration(np.array([*below[::-1], *above[1:]]))) >= 0).all()


@pytest.mark.parametrize("method", ["isotonic", "logistic"])
def test_rows_in_another_order_give_the_same_bits(method):
    scores, labels, weights = noisy()
    order = np.random.default_rng(2).permutation(len(scores))
    one = fit_calibration(scores, labels, n_queries=100, weights=weights, method=method)
    other = fit_calibration(
        scores[order], labels[order], n_queries=100, weights=weights[order], method=method
    )
    assert one.to_manifest() == other.to_manifest()


def test_weights_are_repetitions_up_to_the_one_document_of_the_mean():
    scores, labels, weights = noisy()
    times = (2 * weights).astype(int)
    weighted = fit_calibration(scores, labels, n_queries=100, weights=times)
    repeated = fit_calibration(np.repeat(scores, times), np.repeat(labels, times), n_queries=100)
    np.testing.assert_allclose(weighted(scores), repeated(scores), atol=2e-3)


@pytest.mark.parametrize("method", ["isotonic", "logistic"])
@pytest.mark.parametrize("target", ["label", "relevance"])
def test_a_ranking_is_the_same_by_calibrated_values(trained, method, target):
    ranker, _, held_out, test = trained
    ranker.calibrate(held_out, method=method, target=target)
    scores, values = ranker.predict(test), ranker.predict(test, calibrated=True)
    for start, stop in zip(test.boundaries[:-1], test.boundaries[1:], strict=True):
        places = np.argsort(-scores[start:stop], kind="stable")
        np.testing.assert_array_equal(places, np.argsort(-values[start:stop], kind="stable"))
        assert len(np.unique(scores[start:stop])) == len(np.unique(values[start:stop]))


def test_calibrated_values_agree_with_labels_of_other_queries(trained):
    ranker, _, held_out, test = trained
    for target, top in (("label", 4), ("relevance", 1)):
        targets = test.y if target == "label" else test.y >= 1
        error = ranker.calibrate(held_out, target=target).reliability(test).error
        naive = rw.reliability(
            top / (1 + np.exp(-ranker.predict(test))), targets, group=test.group
        ).error
        assert error < naive / 3


def test_cross_fitting_uses_scores_of_models_that_have_not_seen_the_query(trained):
    ranker, train, _, _ = trained
    parts = []
    for others, part in train.kfold(4, random_state=ranker.manifest_["seed"]):
        model = rw.Ranker(metric="ndcg@10", n_estimators=15, n_jobs=1, verbose=0).fit(others)
        parts.append((model.predict(part), part.y))
    scores, labels = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    expected = fit_calibration(scores, labels, n_queries=train.n_queries, folds=4)
    assert ranker.calibrate(train, folds=4).calibration_.to_manifest() == expected.to_manifest()
    assert (
        ranker.calibration_.describe() == "expected label, isotonic, from 96 cross-fitted queries"
    )


def test_cross_fitting_takes_the_trees_of_early_stopping():
    train, valid = rw.make_web_search(120, kind="short", n_features=25, random_state=1).split(0.3)
    ranker = rw.Ranker(
        n_estimators=60, early_stopping_rounds=2, learning_rate=0.3, n_jobs=1, verbose=0
    )
    ranker.fit(train, eval_set=[valid])
    assert ranker.n_estimators_ < 60
    fixed = rw.Ranker(
        n_estimators=ranker.n_estimators_, learning_rate=0.3, n_jobs=1, verbose=0
    ).fit(train)
    found, expected = (
        one.calibrate(train, folds=2).calibration_.to_manifest() for one in (ranker, fixed)
    )
    assert found == expected


def test_features_within_the_query(trained):
    """A calibration, an explanation and shuffled columns of a model whose features need the whole query."""
    _, train, held_out, test = trained
    ranker = rw.Ranker(
        metric="ndcg@10", within_query="rank", n_estimators=8, n_jobs=1, verbose=0
    ).fit(train)
    values = ranker.calibrate(held_out).predict(test, calibrated=True)
    np.testing.assert_array_equal(values, ranker.calibration_(ranker.predict(test)))
    with pytest.raises(ValueError, match="these are the data that the model was trained on"):
        ranker.calibrate(train)
    assert ranker.calibrate(train, folds=2).calibration_.folds == 2
    why = ranker.explain(test, 0, 1)
    assert len(why.features) > 25
    assert (
        math.fsum(why.differences)
        == why.difference
        == ranker.predict(test)[0] - ranker.predict(test)[1]
    )


def test_frames_name_their_columns(trained):
    pd = pytest.importorskip("pandas")
    _, train, held_out, _ = trained

    def frame(data):
        return pd.DataFrame(data.X, columns=[f"c{i}" for i in range(25)]).assign(
            grade=data.y, query=data.qid
        )

    ranker = rw.Ranker(n_estimators=3, n_jobs=1, verbose=0).fit(frame(train), "grade", qid="query")
    by_name = ranker.calibrate(frame(held_out)).calibration_
    names = [f"c{i}" for i in range(25)]
    by_array = ranker.calibrate(frame(held_out)[names], held_out.y, qid=held_out.qid).calibration_
    assert by_name.to_manifest() == by_array.to_manifest()


def test_a_saved_model_keeps_its_calibration(trained, tmp_path):
    ranker, train, held_out, test = trained
    ranker.calibrate(held_out, target="relevance")
    expected = ranker.predict(test, calibrated=True)
    for name in ("model", "model.zip"):
        ranker.save(tmp_path / name)
        np.testing.assert_array_equal(
            rw.load(tmp_path / name).predict(test, calibrated=True), expected
        )
        np.testing.assert_array_equal(
            rw.Ranker.load(tmp_path / name).predict(test, calibrated=True), expected
        )
    more = rw.Ranker(n_estimators=2, n_jobs=1, verbose=0).fit(train, init_model=ranker)
    assert more.calibration_ is None  # other trees have other scores
    with pytest.raises(ValueError, match="the trees of init_model may have seen every query"):
        more.calibrate(train, folds=3)


DAMAGES = {
    "not finite": ("isotonic", lambda c: c["values"].__setitem__(0, math.nan), "a finite number"),
    "infinite": ("logistic", lambda c: c.__setitem__("intercept", math.inf), "a finite number"),
    "text": ("isotonic", lambda c: c["scores"].__setitem__(0, "1"), "a finite number"),
    "falling values": ("isotonic", lambda c: c["values"].reverse(), "not an increasing map"),
    "falling scores": ("isotonic", lambda c: c["scores"].reverse(), "not an increasing map"),
    "lengths": ("isotonic", lambda c: c["scores"].pop(), "not an increasing map"),
    "too large": ("isotonic", lambda c: c["values"].__setitem__(-1, 1.5), "not an increasing map"),
    "no points": ("isotonic", lambda c: c.update(scores=[], values=[]), "not an increasing map"),
    "falling line": ("logistic", lambda c: c.__setitem__("slope", -1.0), "not an increasing map"),
    "no width": ("logistic", lambda c: c.__setitem__("width", 0), "not an increasing map"),
    "method": ("logistic", lambda c: c.__setitem__("method", "magic"), "one of isotonic, logistic"),
    "missing": ("logistic", lambda c: c.pop("slope"), "'slope'"),
    "list": ("isotonic", lambda c: c.__setitem__("scores", 3), "a list of numbers"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_calibration_is_refused_with_the_file(trained, tmp_path, damage):
    ranker, _, held_out, _ = trained
    method, change, reason = DAMAGES[damage]
    ranker.calibrate(held_out, method=method).save(tmp_path / "model")
    file = tmp_path / "model" / "manifest.json"
    manifest = json.loads(file.read_text())
    change(manifest["calibration"])
    file.write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match=f"model: the calibration in the manifest .*{reason}"):
        rw.load(tmp_path / "model")
    file.write_text(json.dumps(manifest | {"calibration": [1]}))
    with pytest.raises(ValueError, match="the calibration in the manifest lacks or garbles"):
        rw.load(tmp_path / "model")


def test_refusals(trained):
    ranker, train, held_out, test = trained
    scores, labels, _ = noisy()
    few = {"n_queries": LEAST_QUERIES - 1}
    with pytest.raises(
        ValueError, match="there are 19 queries, and a calibration needs at least 20"
    ):
        fit_calibration(scores, labels, **few)
    with pytest.raises(ValueError, match="all labels are alike"):
        fit_calibration(scores, np.ones(len(scores)), n_queries=100)
    with pytest.raises(ValueError, match="all labels are on one side of the threshold 9"):
        fit_calibration(scores, labels, n_queries=100, target="relevance", threshold=9)
    with pytest.raises(ValueError, match="all scores are equal"):
        fit_calibration(np.ones(len(scores)), labels, n_queries=100)
    for method in ("isotonic", "logistic"):
        with pytest.raises(ValueError, match="labels do not rise with the scores"):
            fit_calibration([1.0, 2.0] * 50, [1, 0] * 50, n_queries=50, method=method)
    with pytest.raises(ValueError, match="method must be one of isotonic, logistic; got 'spline'"):
        ranker.calibrate(held_out, method="spline")
    with pytest.raises(ValueError, match="target must be one of label, relevance; got 'clicks'"):
        ranker.calibrate(held_out, target="clicks")
    with pytest.raises(ValueError, match="threshold must be a number above 0"):
        ranker.calibrate(held_out, target="relevance", threshold=0)
    with pytest.raises(ValueError, match="these are the data that the model was trained on"):
        ranker.calibrate(train.X[::-1], train.y[::-1], qid=train.qid[::-1])
    with pytest.raises(ValueError, match="folds must be a whole number from 2"):
        ranker.calibrate(held_out, folds=1)
    with pytest.raises(ValueError, match="48 queries for 100 folds"):
        ranker.calibrate(held_out.subset(np.arange(48)), folds=100)
    fresh = rw.Ranker(n_estimators=2, n_jobs=1, verbose=0).fit(held_out)
    with pytest.raises(ValueError, match="the model is not calibrated; call calibrate"):
        fresh.predict(test, calibrated=True)
    with pytest.raises(ValueError, match="the model is not calibrated"):
        fresh.reliability(test)
    fresh.calibrate(test)
    with pytest.raises(ValueError, match="contributions add up to scores"):
        fresh.predict(test, calibrated=True, contributions=True)


def test_separated_labels_stay_inside_the_limits():
    """The greatest likelihood would be infinite, and the shares 0 and 1."""
    scores, labels = np.arange(100.0), (np.arange(100) >= 50).astype(float)
    for method in ("isotonic", "logistic"):
        values = fit_calibration(scores, labels, n_queries=50, method=method)(scores)
        assert 0 < values[0] < 0.02
        assert 0.98 < values[-1] < 1


def test_a_manifest_is_read_as_it_was_written():
    for method in ("isotonic", "logistic"):
        calibration = fitted(method, target="relevance", threshold=2)
        again = Calibration.of_manifest(json.loads(json.dumps(calibration.to_manifest())))
        assert again.to_manifest() == calibration.to_manifest()
        assert (
            again.describe()
            == f"probability of a label of at least 2, {method}, from 100 held-out queries"
        )


# The reliability curve.


def test_reliability_by_hand():
    """Bins {0.1, 0.2} and {0.6, 0.8}: |0.15 - 0.5| and |0.7 - 1|; the second query has twice the weight."""
    curve = rw.reliability(
        [0.1, 0.6, 0.2, 0.8], [0, 1, 1, 1], group=[2, 2], sample_weight=[1, 2], bins=2
    )
    np.testing.assert_allclose(curve.predicted, [(0.1 + 2 * 0.2) / 3, (0.6 + 2 * 0.8) / 3])
    np.testing.assert_allclose(curve.observed, [2 / 3, 1])
    gaps = [2 / 3 - 0.5 / 3, 1 - 2.2 / 3]
    assert curve.error == pytest.approx((3 * gaps[0] + 3 * gaps[1]) / 6)
    assert curve.largest == pytest.approx(gaps[0])
    # Deviations of the two queries from 2/3, weighted: -2/3 and 2/3, over the weight 3.
    half = 1.959964 * math.sqrt((2 / 3) ** 2 + (2 / 3) ** 2) / 3
    assert curve.high[0] - curve.observed[0] == pytest.approx(half, rel=1e-6)
    assert curve.documents.tolist() == [2, 2]


def test_reliability_against_a_loop():
    random = np.random.default_rng(3)
    values, targets = random.random(1000), random.integers(0, 2, 1000)
    bins = np.array_split(np.argsort(values), 8)
    expected = (
        sum(len(rows) * abs(values[rows].mean() - targets[rows].mean()) for rows in bins) / 1000
    )
    assert rw.reliability(values, targets, group=[10] * 100, bins=8).error == pytest.approx(
        expected
    )


def test_equal_values_share_a_bin_and_rows_may_be_mixed():
    random = np.random.default_rng(4)
    values, targets, qid = (
        random.integers(0, 5, 300) / 5,
        random.integers(0, 3, 300),
        random.integers(0, 30, 300),
    )
    curve = rw.reliability(values, targets, qid=qid, bins=100)
    assert len(curve.predicted) == 5
    order = np.argsort(qid, kind="stable")
    again = rw.reliability(values[order], targets[order], qid=qid[order], bins=100)
    np.testing.assert_array_equal(curve.observed, again.observed)
    assert list(curve.to_dataframe().columns) == [
        "predicted",
        "observed",
        "low",
        "high",
        "documents",
    ]
    assert "expected calibration error" in curve._repr_html_()


def test_intervals_cover_when_documents_of_a_query_agree():
    """All ten documents of a query have the same target: ten times fewer observations than documents."""
    random = np.random.default_rng(5)
    covered = []
    for _ in range(200):
        targets = np.repeat(random.random(60) < 0.3, 10)
        curve = rw.reliability(np.full(600, 0.3), targets, group=[10] * 60)
        covered.append(curve.low[0] <= 0.3 <= curve.high[0])
    assert 0.88 <= np.mean(covered) <= 0.99


def test_reliability_refuses_what_it_cannot_use():
    with pytest.raises(ValueError, match="bins must be a whole number from 1; got 0"):
        rw.reliability([0.5], [1], group=[1], bins=0)
    with pytest.raises(ValueError, match=r"targets have shape \(2,\) for 1 rows"):
        rw.reliability([0.5], [1, 0], group=[1])
    with pytest.raises(ValueError, match=r"values\[1\] is nan"):
        rw.reliability([0.5, math.nan], [1, 0], group=[2])
    with pytest.raises(ValueError, match="all weights are 0"):
        rw.reliability([0.5], [1], group=[1], sample_weight=[0])
    with pytest.raises(ValueError, match="library must be"):
        rw.reliability([0.5], [1], group=[1]).to_dataframe("excel")
