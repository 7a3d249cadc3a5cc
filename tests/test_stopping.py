"""The rule of early stopping: worked examples, an oracle over whole curves, checkpoints, and training that overfits."""

from __future__ import annotations

import json
import statistics
from typing import Any

import numpy as np
import pytest

import rankwright as rw
from rankwright.training.stopping import Watch, describe_stopping

TRAIN, VALID = rw.make_web_search(60, n_features=20, mean_length=15, random_state=2).split(0.4)


def kept_after(curves: Any, rule: str = "within_error", **options: Any) -> list[int]:
    watch, weights = Watch(rule, **options), options.get("weights")
    return [
        watch.see(number, np.array(v), mean(v, weights)).iteration
        for number, v in enumerate(curves, start=1)
    ]


def mean(values: Any, weights: Any = None) -> float:
    known = ~np.isnan(values)
    return float(
        np.average(np.array(values)[known], weights=None if weights is None else weights[known])
    )


def expected_choice(curves: list[list[float]], errors: float) -> int:
    """The definition, with all values at hand."""
    known = [[v for v in values if v == v] for values in curves]
    means = [statistics.fmean(values) for values in known]
    best = means.index(max(means))
    last = best
    for t in range(best, len(curves)):
        d = [a - b for a, b in zip(known[best], known[t], strict=True)]
        if statistics.fmean(d) <= errors * statistics.stdev(d) / len(d) ** 0.5:
            last = t
    return last + 1


def test_worked_by_hand():
    # d of the third tree is (0, 0.1): mean 0.05, standard deviation sqrt(0.005), error sqrt(0.005 / 2) = 0.05.
    curves = [[0.5, 0.5], [0.6, 0.8], [0.6, 0.7], [0.4, 0.6]]
    watch = Watch("within_error")
    errors = [
        watch.see(number, np.array(values), mean(values)).error
        for number, values in enumerate(curves, start=1)
    ]
    np.testing.assert_allclose(errors, [0, 0, 0.05, 0], atol=1e-12)
    assert kept_after(curves) == [1, 2, 3, 3]
    assert kept_after(curves, errors=0.99) == [1, 2, 2, 2]
    assert kept_after(curves, "best") == [1, 2, 2, 2]
    assert kept_after((-np.array(curves)).tolist(), higher_is_better=False) == [1, 2, 3, 3]


def test_weights_of_queries_count():
    # A query of weight 0 has no say. Whole weights need not be those of repeated queries: repeating adds certainty.
    assert kept_after([[0.5, 0.5], [0.9, 0.4], [0.7, 0.9]], weights=np.array([1.0, 0.0])) == [
        1,
        2,
        2,
    ]
    # The second tree loses (0.3, 0.1) with weights (1, 3): mean 0.15, error sqrt(2 (0.15^2 + 9 * 0.05^2)) / 4 = 0.075.
    watch = Watch("within_error", weights=np.array([1.0, 3.0]))
    watch.see(1, np.array([0.5, 0.5]), 0.5)
    assert watch.see(2, np.array([0.2, 0.4]), 0.35).error == pytest.approx(0.075)


def test_the_curve_decides_which_tree_is_best():
    # 0.1 + 0.2 - 0.3 is not 0: the mean of the differences is above 0 in its last digit, where the means are equal.
    values = [np.array([0.1, 0.2, 0.0]), np.array([0.0, 0.0, 0.3])]
    for first, second in (values, values[::-1]):
        watch = Watch("best")
        assert [watch.see(1, first, 0.1).iteration, watch.see(2, second, 0.1).iteration] == [1, 1]


@pytest.mark.parametrize("errors", [1.0, 1.5])
@pytest.mark.parametrize("seed", range(6))
def test_following_the_curve_gives_what_the_whole_curve_gives(seed, errors):
    draw = np.random.default_rng(seed)
    curves = draw.normal(size=(1, 12)) + np.cumsum(0.2 * draw.normal(size=(40, 12)), axis=0)
    curves[:, 3] = np.nan
    assert kept_after(curves, errors=errors)[-1] == expected_choice(curves.tolist(), errors)


def expected_end(curve: list[float], patience: int) -> int:
    """The first iteration with no better mean of 50 trees for so long, or the last."""
    means = [statistics.fmean(curve[max(0, t - 50) : t]) for t in range(1, len(curve) + 1)]
    for t in range(1, len(curve) + 1):
        if t - means.index(max(means[:t])) - 1 >= patience:
            return t
    return len(curve)


@pytest.mark.parametrize("patience", [1, 4, 9])
@pytest.mark.parametrize("seed", range(4))
def test_patience_counts_from_the_best_mean_of_fifty_trees(seed, patience):
    curve = np.cumsum(0.2 * np.random.default_rng(seed).normal(size=200)).tolist()
    for sign in (1, -1):
        watch = Watch("within_error", patience=patience, higher_is_better=sign == 1)
        for number, value in enumerate(curve, start=1):
            watch.see(number, np.array([sign * value, 0.0]), sign * value)
            if watch.finished:
                break
        assert number == expected_end(curve, patience)


def test_a_flat_curve_ends_after_the_patience():
    for rule in ("within_error", "best"):
        watch = Watch(rule, patience=7)
        ends = [watch.see(t, np.array([0.1]), 0.1) and watch.finished for t in range(1, 12)]
        assert ends == [t >= 8 for t in range(1, 12)]


def test_the_other_rule_would_have_stopped_at_its_own_best_tree():
    curve, errors = [0.5, 0.7, 0.6, 0.6, 0.8], [0.0] * 5
    found = describe_stopping(curve, errors, 5, patience=2)
    assert (found["best_iteration"], found["kept_by_best"]) == (5, 2)
    patient = describe_stopping(curve, errors, 5, patience=3)
    assert (patient["best_iteration"], patient["kept_by_best"]) == (5, 5)
    lower = describe_stopping(
        [-value for value in curve], errors, 5, patience=2, higher_is_better=False
    )
    assert (lower["best_iteration"], lower["kept_by_best"]) == (5, 2)


def test_training_ends_long_before_all_trees():
    long = ranker(n_estimators=2000, early_stopping_rounds=20).fit(TRAIN, eval_set=VALID)
    curve = long.evals_result_["valid_0"]["ndcg@10"]
    assert len(curve) == expected_end(curve, 20) < 300
    assert long.manifest_["ending"]["reason"] == "patience"


def ranker(**parameters: Any) -> rw.Ranker:
    options: dict[str, Any] = {
        "objective": "lambdamart",
        "n_estimators": 60,
        "num_leaves": 6,
        "min_child_samples": 3,
    }
    return rw.Ranker(
        **{**options, "early_stopping_rounds": 15, "n_jobs": 1, "verbose": 0, **parameters}
    )


def test_the_model_ends_with_the_chosen_tree_and_says_so(tmp_path):
    flat, best = (
        ranker().fit(TRAIN, eval_set=VALID),
        ranker(stopping_rule="best").fit(TRAIN, eval_set=VALID),
    )
    curve = np.array(flat.evals_result_["valid_0"]["ndcg@10"])
    assert (
        best.n_estimators_ == best.stopping_["best_iteration"] == best.stopping_["kept_iteration"]
    )
    assert best.n_estimators_ == np.argmax(best.evals_result_["valid_0"]["ndcg@10"]) + 1
    assert flat.n_estimators_ == flat.stopping_["kept_iteration"] > flat.stopping_["best_iteration"]
    assert flat.stopping_["difference"] <= flat.stopping_["error"]
    assert flat.stopping_["difference"] == pytest.approx(
        curve.max() - curve[flat.n_estimators_ - 1]
    )
    assert flat.score(VALID) == pytest.approx(curve[flat.n_estimators_ - 1])
    assert len(curve) == expected_end(curve.tolist(), 15)
    assert flat.stopping_["last_within_error"] == flat.n_estimators_
    assert flat.stopping_["kept_by_best"] == best.n_estimators_
    assert flat.best_iteration_ == flat.stopping_["best_iteration"]
    shorter = flat.evals_result_["valid_0"]["ndcg@10"][
        : len(best.evals_result_["valid_0"]["ndcg@10"])
    ]
    assert (
        best.evals_result_["valid_0"]["ndcg@10"] == shorter
    )  # the same curve, but it ends earlier
    assert best.n_estimators_ < best.stopping_["last_within_error"] <= len(shorter)
    flat.save(tmp_path / "model")
    assert rw.Ranker.load(tmp_path / "model").stopping_ == flat.stopping_
    assert "within one standard error" in flat._repr_html_()
    with pytest.raises(ValueError, match="stopping_rule must be one of within_error, best"):
        ranker(stopping_rule="lucky").check_params()


@pytest.mark.parametrize("early_stopping", ["valid", "cv"])
def test_a_steered_rate_is_given_more_room(early_stopping):
    options: dict[str, Any] = {"objective": "auto", "early_stopping": early_stopping}
    watched = {} if early_stopping == "cv" else {"eval_set": VALID}
    steered = ranker(**options).fit(TRAIN, **watched)
    constant = ranker(**options, learning_rate=0.1).fit(TRAIN, **watched)
    assert (steered.stopping_["standard_errors"], constant.stopping_["standard_errors"]) == (
        1.5,
        1.0,
    )
    for one in (steered, constant):
        stopping = one.stopping_
        assert stopping["difference"] <= stopping["standard_errors"] * stopping["error"]
    assert "1.5 standard errors of" in steered._repr_html_()


def test_training_that_overfits_is_stopped():
    train, valid = rw.make_web_search(200, n_features=20, mean_length=12, random_state=2).split(0.6)
    wild = ranker(learning_rate=0.5, n_estimators=200, num_leaves=31).fit(train, eval_set=valid)
    curve = wild.evals_result_["valid_0"]["ndcg@10"]
    assert len(curve) < 100
    assert max(curve) - wild.score(valid) < 0.01


@pytest.mark.parametrize("after", [7, 25])
def test_a_resumed_training_chooses_the_same_tree(after, tmp_path):
    whole = ranker().fit(TRAIN, eval_set=VALID)
    options: dict[str, Any] = {"checkpoint": {"path": tmp_path, "trees": 1}}
    ranker(**options).fit(
        TRAIN, eval_set=VALID, callbacks=[lambda progress: progress.iteration == after]
    )
    again = ranker(**options).fit(TRAIN, eval_set=VALID)
    assert again.stopping_ == whole.stopping_
    assert again.evals_result_ == whole.evals_result_
    np.testing.assert_array_equal(again.predict(VALID), whole.predict(VALID))


def test_a_checkpoint_with_invalid_kept_iterations_is_refused(tmp_path):
    from rankwright.training.checkpoint import hash_of

    options: dict[str, Any] = {"checkpoint": {"path": tmp_path, "trees": 1}}
    ranker(**options).fit(
        TRAIN, eval_set=VALID, callbacks=[lambda progress: progress.iteration == 5]
    )
    file = tmp_path / "manifest.json"
    for field, value in [("kept", [9] * 5), ("kept", [1] * 4), ("errors", [-1.0] * 5)]:
        manifest = json.loads(file.read_text())
        state = {**manifest["state"], field: value}
        changed = {**manifest, "state": state, "state_sha256": hash_of(state)}
        (tmp_path / "manifest.json").write_text(json.dumps(changed))
        with pytest.raises(ValueError, match="damaged checkpoint"):
            ranker(**options).fit(TRAIN, eval_set=VALID)
        file.write_text(json.dumps(manifest))
