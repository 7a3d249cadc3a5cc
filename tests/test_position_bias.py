"""Position bias that is learned while boosting."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import objective_oracles as oracle
from rankwright import Ranker, RankingData
from rankwright.objectives import bind, bound
from rankwright.training.bias import BiasSolver
from rankwright.training.checkpoint import hash_of
from rankwright.training.plan import BiasSettings
from rankwright.training.state import Progress

QUERIES, SHOWN = 120, 8
CURVE = -0.6 * np.log(np.arange(1, SHOWN + 1))


def log(seed: int = 0) -> RankingData:
    """Squared-error clicks: label = relevance of the features + bias of a random position, all above 0."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(QUERIES * SHOWN, 3))
    position = np.concatenate([random.permutation(SHOWN) for _ in range(QUERIES)]) + 1
    labels = 3.0 + np.tanh(X[:, 0]) + CURVE[position - 1]
    device = random.choice(["phone", "desk"], len(labels))
    fields = {"position": position, "device": device}
    return RankingData(X, labels, qid=np.repeat(np.arange(QUERIES), SHOWN), fields=fields)


def quick(**options: Any) -> Ranker:
    return Ranker(
        **{
            "objective": "queryrmse",
            "n_estimators": 40,
            "learning_rate": 0.2,
            "verbose": 0,
            "n_jobs": 1,
            **options,
        }
    )


def bias_of(ranker: Ranker, name: str = "position") -> np.ndarray:
    return np.array(list(ranker.position_bias_[name].values()))


def same_model(one: Ranker, other: Ranker) -> bool:
    return one.forest_.dump() == other.forest_.dump() and one.position_bias_ == other.position_bias_


# One step.


def test_worked_example() -> None:
    """Clicked at 1, not at 2: grad -1/2, 1/2, curvature 1 along (1, -1) and 1 a document, so b = 1/2 / (1 + ridge)."""
    data = RankingData([[0.0], [0.0]], [1, 0], qid=[1, 1], fields={"position": [1, 2]})
    gradient = bind("queryrmse", data.y, group=data.group)
    for ridge in (1.0, 3.0):
        bias = BiasSolver(BiasSettings(("position",), ridge=ridge), data, gradient)
        values = bias.step(np.zeros(2), gradient.at(np.zeros(2)), 0)
        np.testing.assert_allclose(values, np.array([0.5, -0.5]) / (1 + ridge), rtol=1e-12)


@pytest.mark.parametrize("objective", ["ranknet", "lambdamart"])
@pytest.mark.parametrize("columns", [("position",), ("position", "device")])
def test_a_step_solves_the_system_of_double_loops(objective: str, columns: tuple[str, ...]) -> None:
    data = log()
    labels = np.round(data.y)
    gradient = bind(objective, labels, group=data.group, metric="ndcg")
    bias = BiasSolver(BiasSettings(columns, ridge=2.0, smoothness=5.0), data, gradient)
    assert bias.full
    values = np.linspace(-0.5, 0.5, bias.size)
    scores = 0.3 * data.X[:, 1] + bias.of_rows(values)
    levels = [
        np.eye(SHOWN)[data.fields["position"] - 1],
        np.eye(2)[(data.fields["device"] == "phone").astype(int)],
    ]
    member = np.concatenate(levels[: len(columns)], axis=1)
    np.testing.assert_allclose(bias.of_rows(values), member @ values, rtol=1e-14)
    g, h = np.zeros(bias.size), np.zeros((bias.size, bias.size))
    unit = 0.0
    for q in range(QUERIES):
        rows = slice(q * SHOWN, (q + 1) * SHOWN)
        z, r = scores[rows].tolist(), labels[rows].tolist()
        if len(set(r)) > 1:
            grad, own, curvature = (
                oracle.lambdas(z, r, "ndcg")
                if objective == "lambdamart"
                else oracle.pair_losses(z, r, np.ones((SHOWN, SHOWN)))
            )
            g += member[rows].T @ grad
            h += member[rows].T @ curvature @ member[rows]
            unit += own.sum() / data.n_rows
    difference = np.zeros((SHOWN - 1, bias.size))
    difference[np.arange(SHOWN - 1), np.arange(SHOWN - 1)] = -1
    difference[np.arange(SHOWN - 1), np.arange(1, SHOWN)] = 1
    penalty = unit * (2.0 * np.eye(bias.size) + 5.0 * difference.T @ difference)
    wanted = values - np.linalg.solve(h + penalty, g + penalty @ values)
    np.testing.assert_allclose(bias.step(values, gradient.at(scores), 0), wanted, rtol=1e-9)


@pytest.mark.parametrize("columns", [("position",), ("position", "device")])
def test_parts_of_the_queries_lead_to_the_same_values(
    monkeypatch: pytest.MonkeyPatch, columns: tuple[str, ...]
) -> None:
    """With the curvature of a part at a time the steps end where the whole gradient and the penalty balance."""
    data = log()
    labels = np.round(data.y)
    settings = BiasSettings(columns, ridge=1e-6)  # a shift of all values is almost free
    ends = []
    for rows in (8192, 64):
        monkeypatch.setattr(bound, "_LEAF_PART_ROWS", rows)
        gradient = bind("ranknet", labels, group=data.group)
        assert len(gradient.leaf_parts) == (1 if rows == 8192 else 16)
        bias = BiasSolver(settings, data, gradient)
        values = np.zeros(bias.size)
        for iteration in range(60):
            values = bias.step(values, gradient.at(bias.of_rows(values)), iteration)
        ends.append(values[:SHOWN] - values[0])
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-6)


def test_without_full_curvature_each_value_has_its_own() -> None:
    data = log()
    weights = np.random.default_rng(1).uniform(0.5, 2, data.n_rows)
    for objective, weight in (("softrank", None), ("queryrmse", weights)):
        weighted = RankingData(
            data.X, data.y, qid=data.qid, sample_weight=weight, fields=data.fields
        )
        gradient = bind(objective, data.y, group=data.group, sample_weight=weight)
        bias = BiasSolver(BiasSettings(("position",), ridge=2.0), weighted, gradient)
        assert not bias.full
        point = gradient.at(0.1 * data.X[:, 0])
        at = [data.fields["position"] == k for k in range(1, SHOWN + 1)]
        g, h = (
            np.array([values[rows].sum() for rows in at]) for values in (point.grad, point.hess)
        )
        wanted = -g / (h + 2.0 * h.sum() / data.n_rows)
        np.testing.assert_allclose(bias.step(np.zeros(SHOWN), point, 0), wanted, rtol=1e-12)


# A training.


def test_it_finds_the_bias_and_leaves_it_out_of_the_scores() -> None:
    data = log()
    corrected, naive = quick().fit(data, position="position"), quick().fit(data)
    np.testing.assert_allclose(bias_of(corrected), CURVE, atol=0.04)
    signal = np.tanh(data.X[:, 0])
    assert np.corrcoef(corrected.predict(data), signal)[0, 1] > 0.99
    assert (
        np.corrcoef(corrected.predict(data), signal)[0, 1]
        > np.corrcoef(naive.predict(data), signal)[0, 1]
    )


def test_columns_add_up() -> None:
    data = log()
    y = data.y + 0.5 * (data.fields["device"] == "phone")
    two = RankingData(data.X, y, qid=data.qid, fields=data.fields)
    ranker = quick().fit(two, position=["position", "device"])
    np.testing.assert_allclose(bias_of(ranker), CURVE, atol=0.05)
    found = ranker.position_bias_["device"]
    assert abs(found["phone"] - found["desk"] - 0.5) < 0.05
    assert min(map(abs, found.values())) == 0  # relative to the more frequent


def test_positions_beyond_the_limit_share_a_value() -> None:
    ranker = quick(position_bias={"limit": 4}).fit(log(), position="position")
    assert list(ranker.position_bias_["position"]) == [1, 2, 3, 4]
    assert abs(bias_of(ranker)[3] - CURVE[3:].mean()) < 0.06


def test_regularisation_pulls_to_zero_and_to_a_smooth_curve() -> None:
    free, tied, smooth = (
        bias_of(quick(n_estimators=10, **options).fit(log(), position="position"))
        for options in (
            {},
            {"position_bias": {"ridge": 1e5}},
            {"position_bias": {"smoothness": 1e6}},
        )
    )
    assert np.abs(tied).max() < 0.01 * np.abs(free).max()
    assert np.abs(smooth).max() < 0.01 * np.abs(free).max()
    partly = bias_of(
        quick(n_estimators=10, position_bias={"smoothness": 100.0}).fit(log(), position="position")
    )
    assert np.square(np.diff(partly)).sum() < np.square(np.diff(free)).sum()


def test_positions_in_every_form() -> None:
    data = log()
    frame = pd.DataFrame(data.X, columns=["a", "b", "c"]).assign(
        y=data.y, qid=data.qid, rank=data.fields["position"], propensity=1.0
    )
    features = frame[["a", "b", "c"]]
    models = [
        quick().fit(features, frame["y"], qid=frame["qid"], position=data.fields["position"]),
        quick().fit(features, frame["y"], qid=frame["qid"], position={"position": frame["rank"]}),
        quick().fit(
            features, frame["y"], qid=frame["qid"], position=data.fields["position"].astype(object)
        ),
        quick().fit(
            frame.drop(columns="propensity"), "y", qid="qid", position={"position": "rank"}
        ),
        quick().fit(
            RankingData(features, data.y, qid=data.qid),
            position={"position": data.fields["position"]},
        ),
        quick().fit(
            RankingData(features, data.y, qid=data.qid, fields=data.fields),
            position={"position": "position"},
        ),
    ]
    assert all(same_model(models[0], model) for model in models[1:])
    scores = models[3].predict(features)
    np.testing.assert_array_equal(models[3].predict(frame.drop(columns="propensity")), scores)
    np.testing.assert_array_equal(
        models[3].predict(frame.drop(columns="propensity").assign(rank=1)), scores
    )


def test_evaluation_frames_may_have_the_column() -> None:
    data = log()
    frame = pd.DataFrame(data.X, columns=["a", "b", "c"]).assign(
        y=data.y, qid=data.qid, rank=data.fields["position"]
    )
    valid = frame.assign(qid=frame["qid"] + 1000)
    one = quick(n_estimators=3).fit(
        frame, "y", qid="qid", position="rank", eval_set=[valid, valid.drop(columns="rank")]
    )
    curves = one.evals_result_
    assert curves["valid_0"] == curves["valid_1"]
    two = quick(n_estimators=3).fit(data, position="position", eval_set=[data])
    assert len(two.evals_result_["valid_0"]["ndcg@10"]) == 3


def test_a_second_training_has_the_positions_of_the_evaluation_frame() -> None:
    data = log()
    frame = pd.DataFrame(data.X, columns=["a", "b", "c"]).assign(
        y=data.y, qid=data.qid, rank=data.fields["position"]
    )
    valid = frame.assign(qid=frame["qid"] + 1000)
    options: dict[str, Any] = {"n_estimators": 3, "early_stopping_rounds": 3, "refit": True}
    fitted = quick(**options).fit(frame, "y", qid="qid", position="rank", eval_set=valid)
    parts = [
        RankingData(part[["a", "b", "c", "rank"]], part["y"], qid=part["qid"], fields=["rank"])
        for part in (frame, valid)
    ]
    assert same_model(fitted, quick(**options).fit(parts[0], position="rank", eval_set=parts[1]))
    with pytest.raises(ValueError, match=r"eval_set\[0\]: 'rank' is not a column of X"):
        quick(**options).fit(
            frame, "y", qid="qid", position="rank", eval_set=valid.drop(columns="rank")
        )


def test_the_order_of_rows_and_threads_change_no_bit() -> None:
    data = log()
    doubled = np.concatenate(
        [np.arange(data.n_rows)] * 2
    )  # rows alike but for where they were shown
    fields = {
        "position": np.concatenate([data.fields["position"], data.fields["position"][::-1]]),
        "device": np.concatenate([data.fields["device"], data.fields["device"][::-1]]),
    }
    models = []
    for seed in (None, 1, 2):
        order = (
            np.arange(len(doubled))
            if seed is None
            else np.random.default_rng(seed).permutation(len(doubled))
        )
        rows = doubled[order]
        shuffled = RankingData(
            data.X[rows],
            data.y[rows],
            qid=data.qid[rows],
            fields={name: v[order] for name, v in fields.items()},
        )
        ranker = quick(objective="lambdamart", n_estimators=5, n_jobs=1 + (seed or 0))
        models.append(ranker.fit(shuffled, position=["position", "device"]))
    assert all(same_model(models[0], model) for model in models[1:])


def test_a_resumed_training_is_the_same(tmp_path: Path) -> None:
    data = log()
    whole = quick(n_estimators=12, objective="yetiloss").fit(data, position="position")
    options = {"n_estimators": 12, "objective": "yetiloss", "checkpoint": tmp_path / "save"}

    def stop(progress: Progress) -> bool:
        return progress.iteration == 7

    part = quick(**options).fit(data, position="position", callbacks=[stop])
    assert len(part.learning_rates_) == 7
    state = json.loads((tmp_path / "save" / "manifest.json").read_text())["state"]
    assert len(state["biases"]) == 7
    with pytest.raises(ValueError, match="holds a checkpoint of another training"):
        quick(**options).fit(data, position={"position": 1 + data.fields["position"] % SHOWN})
    with pytest.raises(ValueError, match="holds a checkpoint of another training"):
        quick(**options).fit(data)
    assert same_model(quick(**options).fit(data, position="position"), whole)


@pytest.mark.parametrize(
    "biases", [1, [], [[0.0] * SHOWN] * 3, [[0.0], [0.0, 1.0], [0.0], [0.0]], [["x"]] * 4]
)
def test_a_damaged_bias_in_a_checkpoint_is_refused(tmp_path: Path, biases: Any) -> None:
    ranker = quick(n_estimators=4, checkpoint=tmp_path / "save").fit(log(), position="position")
    path = tmp_path / "save" / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["state"]["biases"] = biases
    manifest["state_sha256"] = hash_of(manifest["state"])
    path.write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match=r"holds a damaged checkpoint: .*bias"):
        ranker.set_params(n_estimators=6).fit(log(), position="position")


def test_early_stopping_has_the_bias_of_the_best_tree() -> None:
    data, valid = log(), log(1)
    stopped = quick(early_stopping_rounds=3, n_estimators=60, learning_rate=0.5).fit(
        data, position="position", eval_set=valid
    )
    assert stopped.n_estimators_ < 60
    ended = quick(n_estimators=stopped.n_estimators_, learning_rate=0.5).fit(
        data, position="position"
    )
    assert same_model(stopped, ended)


def test_a_saved_model_has_it_and_a_model_without_has_none(tmp_path: Path) -> None:
    ranker = quick(n_estimators=2).fit(log(), position=["position", "device"])
    ranker.save(tmp_path / "model")
    assert Ranker.load(tmp_path / "model").position_bias_ == ranker.position_bias_
    assert quick(n_estimators=2).fit(log()).position_bias_ == {}


def test_trees_may_be_added() -> None:
    first = quick(n_estimators=20).fit(log(), position="position")
    more = quick(n_estimators=20).fit(log(), position="position", init_model=first)
    np.testing.assert_allclose(bias_of(more), CURVE, atol=0.04)


# Bad input.

SHOWN_AT = log().fields["position"]


def changed(value: Any, dtype: Any = float) -> np.ndarray:
    positions = SHOWN_AT.astype(dtype)
    positions[3] = value
    return positions


@pytest.mark.parametrize(
    ("position", "message"),
    [
        (
            changed(np.nan),
            r"position is missing \(nan\) at row 3, query 0; a document without a position",
        ),
        (
            changed(None, object),
            r"position is missing \(nan\) at row 3, query 0; a document without a position",
        ),
        (
            {
                "device": np.array(
                    ["phone", "desk", "phone", pd.NA] * (len(SHOWN_AT) // 4), dtype=object
                )
            },
            "device is missing at row 3, query 0; give a category",
        ),
        (changed(2.5), "position is 2.5 at row 3, query 0, and positions are whole numbers"),
        (changed(-1), "position is -1 at row 3, query 0; positions count from 1"),
        (SHOWN_AT - 1, "position counts from 0, and positions count from 1; add 1"),
        (
            np.where(np.arange(len(SHOWN_AT)) < 40 * SHOWN, SHOWN_AT - 1, SHOWN_AT),
            "position counts from 0 in 40 queries and from 1 in 80, so the two are mixed",
        ),
        (
            np.full(len(SHOWN_AT), 3),
            "position is the same for all documents of each query, so its bias is not identif",
        ),
        (
            np.repeat(np.arange(QUERIES), SHOWN) + 1,
            "position is the same for all documents of each query",
        ),
        (SHOWN_AT[:-1], r"the field 'position' has shape \(959,\) for 960 rows"),
        ("rank", r"'rank' is not a field of the RankingData \(it has 'position', 'device'\)"),
        ({"device": np.where(SHOWN_AT == 1, None, "phone")}, "device is missing at row"),
        (
            {"page": np.arange(len(SHOWN_AT)).astype(str)},
            "page has 960 categories, and a bias is learned for at most",
        ),
    ],
)
def test_positions_that_are_refused(position: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        quick().fit(log(), position=position)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"position_bias": {"ridge": 0}}, "ridge of position_bias must be a number above 0"),
        (
            {"position_bias": {"smoothness": -1}},
            "smoothness of position_bias must be a number from 0",
        ),
        ({"position_bias": {"limit": 1}}, "limit of position_bias must be a whole number from 2"),
    ],
)
def test_options_that_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        quick(**options).fit(log(), position="position")


def test_tables_and_positions_past_the_limit_are_refused() -> None:
    data = log()
    position, device = data.fields["position"], data.fields["device"]
    table = np.column_stack((position, position))
    for several, number in (([position, device], 2), (table, 2), (pd.DataFrame(table), 2)):
        with pytest.raises(
            ValueError, match=f"position has {number} columns; give several as arrays by name"
        ):
            quick().fit(data, position=several)
    with pytest.raises(
        ValueError,
        match="starts at 51, and positions from limit=50 of position_bias on share one value",
    ):
        quick().fit(data, position=position + 50)
    quick(n_estimators=1, position_bias={"limit": 60}).fit(data, position=position + 50)


def test_a_log_without_overlap_is_named() -> None:
    data = log()
    sorted_by = np.concatenate(
        [np.argsort(np.argsort(-data.X[data.qid == q, 2])) + 1 for q in range(QUERIES)]
    )
    with pytest.warns(
        UserWarning, match="the feature 'f2' has the order of position in every query"
    ):
        quick(n_estimators=1).fit(data, position=sorted_by)
    some_missing = data.X.copy()
    some_missing[::7, 2] = np.nan  # which a ranker put somewhere: the others still have its order
    with pytest.warns(
        UserWarning, match="the feature 'f2' has the order of position in every query"
    ):
        quick(n_estimators=1).fit(some_missing, data.y, qid=data.qid, position=sorted_by)
    rows = np.tile(np.arange(data.n_rows), 3)
    again = RankingData(data.X[rows], data.y[rows], qid=np.repeat(np.arange(3 * QUERIES), SHOWN))
    with pytest.warns(UserWarning, match="no document was seen at two values of position"):
        quick(n_estimators=1).fit(again, position=np.tile(data.fields["position"], 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quick(n_estimators=1).fit(
            again, position=np.random.default_rng(0).integers(1, 9, again.n_rows)
        )
        quick(n_estimators=1).fit(data, position="position")
