"""The sweep over weights of goals, searches with a constraint, and the commands for goals and pairs."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rankwright import GoalSweep, Run, cli, evaluate, sweep_goals, tune, write_data
from rankwright.objectives import objective
from rankwright.report.goals_page import goals_report
from rankwright.report.tuning_page import tuning_report
from rankwright.tuning.constraint import Constraint, read_constraints
from rankwright.tuning.goals import GoalPoint
from rankwright.tuning.space import check_names, ranker_parameters, search_space
from small import QUICK
from test_goals import TWO, TWO_VALID

BENCHMARK = Path(__file__).parents[1] / "lab" / "benchmarks" / "goals.py"
GOALS, METRICS = ["lambdamart", "lambdamart(label=margin)"], ["ndcg@10", "ndcg@10[margin]"]
PARAMETERS = {name: value for name, value in QUICK.items() if name not in ("n_jobs", "verbose")}


def benchmark() -> Any:
    spec = importlib.util.spec_from_file_location("goals_benchmark", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_front_of_planted_goals_is_monotone_and_dominates_either_label_and_their_sum() -> None:
    module = benchmark()
    shares = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
    runs = [module.measure(seed, queries=40, trees=40, shares=shares) for seed in (1, 2)]
    sweep, summed = (
        np.mean([run[name] for run in runs], axis=0) for name in ("sweep", "sum as one label")
    )
    found = module.summary(sweep, summed, shares)
    assert found["monotone from 0.1 to 0.9"]
    assert 0.1 in found["first label alone is dominated by shares"]
    assert 0.9 in found["second label alone is dominated by shares"]
    assert 0.5 in found["sum as one label is dominated by shares"]


def test_points_are_trainings_for_the_weighted_sum() -> None:
    sweep = sweep_goals(
        TWO, GOALS, METRICS, valid=TWO_VALID, steps=2, parameters=PARAMETERS, n_jobs=1
    )
    texts = [
        "lambdamart",
        "0.5 lambdamart + 0.5 lambdamart(label=margin)",
        "lambdamart(label=margin)",
    ]
    assert [point.objective for point in sweep.points] == texts
    from rankwright import Ranker

    for point in sweep.points:
        ranker = Ranker(point.objective, METRICS, **QUICK).fit(TWO)
        means = evaluate(
            ranker.predict(TWO_VALID), TWO_VALID.labels, group=TWO_VALID.group, metrics=METRICS
        ).mean
        assert point.values == pytest.approx(tuple(means.values()), abs=1e-12)
    assert sweep.points[0].values[0] > sweep.points[-1].values[0]
    assert sweep.points[0].values[1] < sweep.points[-1].values[1]


def test_defaults_are_a_goal_per_label() -> None:
    seen: list[int] = []
    sweep = sweep_goals(
        TWO,
        folds=2,
        shares=[(1, 1)],
        parameters=PARAMETERS,
        progress=lambda so_far: seen.append(len(so_far.points)),
    )
    assert sweep.goals == ("yetiloss(label=relevance)", "yetiloss(label=margin)")
    assert sweep.metrics == ("ndcg@10[relevance]", "ndcg@10[margin]")
    assert sweep.points[0].shares == (0.5, 0.5)
    assert seen == [1]


POINTS = [
    ((1, 0, 0), (0.9, 5.0)),
    ((0.5, 0.5, 0), (0.8, 4.0)),
    ((0, 1, 0), (0.7, 4.5)),
    ((0, 0, 1), (0.8, 4.0)),
]
SWEEP = GoalSweep(
    ("a", "b", "c"),
    ("ndcg", "arp"),
    tuple(GoalPoint(s, f"o{i}", v) for i, (s, v) in enumerate(POINTS)),
)


def test_the_front_worked_by_hand() -> None:
    """Less is better in the second metric: the third point is beaten by the second in both; two points are equal."""
    assert [point.values for point in SWEEP.front()] == [(0.9, 5.0), (0.8, 4.0), (0.8, 4.0)]
    assert [point.objective for point in SWEEP.dominating((0.8, 5.0))] == ["o0", "o1", "o3"]
    assert SWEEP.dominating((0.9, 4.0)) == []
    assert str(SWEEP).splitlines()[3].split() == ["0", ":", "1", ":", "0", "0.7000", "4.5000", "o2"]
    assert SWEEP.to_dataframe()["front"].tolist() == [True, True, False, True]
    assert "3 of 4 trainings" in SWEEP._repr_html_()


def test_three_goals_are_swept_over_even_shares() -> None:
    from rankwright.tuning.goals import _even_shares

    shares = _even_shares(3, 2)
    assert len(shares) == 6
    assert shares[0] == (1.0, 0.0, 0.0)
    assert shares[-1] == (0.0, 0.0, 1.0)
    assert all(sum(one) == 1 for one in shares)


def test_the_page_shows_the_front() -> None:
    page = goals_report(SWEEP)
    layers = page.figures()[0].specification()
    values = layers.get("data", layers)["values"]
    assert [value["front"] for value in values] == [
        "on the front",
        "on the front",
        "dominated",
        "on the front",
    ]
    assert "3 of 4 trainings are on the Pareto front" in page.markdown()
    assert "arp, lower is better" in json.dumps(layers)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"goals": ["ranknet"]},
            "a sweep needs two goals or more and a metric for each; got 1 goals and 2 metrics.",
        ),
        ({"metrics": ["ndcg"]}, "got 2 goals and 1 metrics"),
        ({"steps": 0}, "steps must be a whole number from 1; got 0."),
        ({"shares": [(1, -1)]}, "shares must hold 2 non-negative numbers for each training"),
        ({"shares": [(1,)]}, "shares must hold 2 non-negative numbers"),
        (
            {"parameters": {"objective": "ranknet"}},
            "objective cannot be set in parameters; use goals instead.",
        ),
        ({"parameters": {"early_stopping_rounds": 5}}, "early_stopping_rounds cannot be used"),
        ({"valid": TWO_VALID, "folds": 2}, "valid and folds exclude each other"),
    ],
)
def test_refusals_of_a_sweep(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        sweep_goals(TWO, **{"goals": GOALS, "metrics": METRICS, **options})


def test_a_constraint_is_text_and_a_value() -> None:
    limit = Constraint.read(" ndcg@10[margin]>=0.4 ")
    assert str(limit) == "ndcg@10[margin] >= 0.4"
    assert (limit.excess(0.3) > 0, limit.excess(0.4)) == (True, 0)
    assert Constraint.read("arp <= 7").excess(8.0) == 1.0
    assert read_constraints(["mrr >= 0", limit]) == (Constraint.read("mrr >= 0"), limit)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ndcg@10", "is not a constraint: expected a metric, >= or <=, and a number"),
        ("ndcg@10 >= high", "is not a constraint"),
        ("ndcg@10 >= inf", "is not a constraint"),
        ("nddcg >= 1", "unknown metric 'nddcg'"),
        (["map >= 0.1", "map <= 0.9"], "two constraints bound the same metric"),
    ],
)
def test_refusals_of_constraints(text: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        read_constraints(text)


SEARCH: dict[str, Any] = {
    "objective": "ranknet + ranknet(label=margin)",
    "valid": TWO_VALID,
    "n_estimators": 8,
    "n_jobs": 1,
    "space": {
        "leaf_values": "diagonal",
        "num_leaves": 8,
        "min_child_samples": 5,
        "learning_rate": 0.1,
    },
}


def test_the_best_trial_meets_the_constraint(tmp_path: Path) -> None:
    free = tune(TWO, trials=5, study=tmp_path / "free.log", **SEARCH)
    best = free.best_trial
    options: dict[str, Any] = {
        **SEARCH,
        "constraint": "ndcg@10[margin] >= 0.5",
        "study": tmp_path / "bound.log",
    }
    bound = tune(TWO, trials=5, **options)
    met = [trial for trial in bound.trials if trial.constraint_values[0] >= 0.5]
    assert 0 < len(met) < 5
    assert bound.best_trial.value == max(trial.value or 0.0 for trial in met)
    assert (bound.best_trial.excess, bound.shortfall()) == (0.0, "")
    assert bound.best_trial.number != best.number
    assert bound.best["metric"] == ["ndcg@10", "ndcg@10[margin]"]
    assert f"{len(met)} meet ndcg@10[margin] >= 0.5." in str(bound)
    assert "hollow" in tuning_report(bound).markdown()
    assert tune(TWO, trials=5, **options).trials == bound.trials  # from the file
    with pytest.raises(ValueError, match=r"holds another search \(constraints\)"):
        tune(TWO, trials=5, **{**options, "constraint": "ndcg@10[margin] >= 0.6"})


def test_values_of_a_constraint_are_those_of_the_trees_with_the_best_metric() -> None:
    from rankwright import Ranker

    tuning = tune(TWO, trials=1, constraint="ndcg@10[margin] >= 2", **SEARCH)
    trial = tuning.best_trial
    ranker = Ranker(**tuning.best, n_jobs=1, verbose=0).fit(TWO, eval_set=[TWO_VALID])
    curves = ranker.evals_result_["valid_0"]
    assert trial.value == pytest.approx(curves["ndcg@10"][-1], abs=1e-12)
    assert trial.constraint_values == pytest.approx((curves["ndcg@10[margin]"][-1],), abs=1e-12)
    assert trial.excess == pytest.approx(2 - trial.constraint_values[0])
    assert tuning.shortfall().startswith(
        "No trial meets the constraints; the nearest has ndcg@10[margin] 0."
    )


def test_terms_of_a_space_are_named_by_their_label() -> None:
    source = objective("ranknet + ranknet(label=net margin) + ranknet(pairs)")
    space = search_space(source)
    assert [name for name in space if "." in name] == [
        "ranknet.sigma",
        "ranknet[net margin].sigma",
        "ranknet[net margin].factor",
        "ranknet[pairs].sigma",
        "ranknet[pairs].factor",
    ]
    check_names({"ranknet[pairs].factor": 2.0}, source)
    with pytest.raises(ValueError, match=r"unknown parameter 'ranknet\.label'"):
        check_names({"ranknet.label": "x"}, source)
    values = {"ranknet[net margin].sigma": 2.0, "ranknet[pairs].factor": 0.5}
    text = "ranknet + ranknet(sigma=2.0, label=net margin) + 0.5 ranknet(pairs=True)"
    assert ranker_parameters(source, values) == {"objective": text}
    with pytest.raises(ValueError, match="has an objective twice for one label"):
        search_space("ranknet(label=a) + 2 ranknet(label=a)")


@pytest.fixture
def call(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Any:
    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["rankwright", *arguments])
        capsys.readouterr()
        try:
            cli.main()
        except SystemExit as ended:
            printed = capsys.readouterr()
            return int(ended.code or 0), printed.out + printed.err
        raise AssertionError("the program did not end")

    return run


TRAIN = ["--threads", "1", "--trees", "5", "--set", "min_child_samples=5", "--quiet"]
LABELS = ["--label", "relevance", "--label", "margin"]


def test_the_commands_for_several_labels(call: Any, tmp_path: Path) -> None:
    write_data(TWO, tmp_path / "train.csv")
    write_data(TWO_VALID, tmp_path / "valid.parquet")
    files = ["train.csv", *LABELS, "--valid", "valid.parquet"]
    text = [
        "--objective",
        "ranknet + 0.3 ranknet(label=margin)",
        "--metric",
        "ndcg@10 ndcg@10[margin]",
    ]
    assert call("train", *files, *text, *TRAIN, "--out", "run") == (0, "")
    assert sorted(Run.open(tmp_path / "run").history[-1]["valid"]) == ["ndcg@10", "ndcg@10[margin]"]
    code, printed = call(
        "evaluate", "run", "valid.parquet", "--metrics", "mrr[margin] mrr+mrr[margin]", "--json"
    )
    assert (code, list(json.loads(printed)["mean"])) == (0, ["mrr[margin]", "mrr+mrr[margin]"])
    goals = [
        "--goal",
        "ranknet",
        "--goal",
        "ranknet(label=margin)",
        "--metrics",
        " ".join(METRICS),
        "--steps",
        "1",
    ]
    code, printed = call(
        "sweep", *files, *goals, "--trees", "3", "--report", "goals.html", "--threads", "1"
    )
    assert code == 0, printed
    assert "2 of 2 trainings are on the front." in printed
    assert "Pareto front" in (tmp_path / "goals.html").read_text()
    assert call("train", "train.csv", "--label", "relevance", "--label", "x", "--out", "no")[
        1
    ].startswith("rankwright: train.csv has no column 'x'")
    assert call("tune", *files, "--such-that", "margin")[0] == 2


def test_the_command_tune_takes_a_constraint(call: Any, tmp_path: Path) -> None:
    write_data(TWO, tmp_path / "train.parquet")
    such = ["--such-that", "ndcg@10[margin] >= 5", "--objective", "ranknet + ranknet(label=margin)"]
    code, printed = call(
        "tune", "train.parquet", *such, "--trials", "1", "--trees", "3", "--threads", "1"
    )
    assert code == 0, printed
    assert "warning: No trial meets the constraints; the nearest has ndcg@10[margin]" in printed


def test_the_commands_for_pairs(call: Any, tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    frame = pd.DataFrame(TWO.X[:, :5], columns=list("abcde")).assign(
        qid=TWO.qid, url=np.arange(TWO.n_rows) * 7
    )
    frame = frame.assign(unlike=draw.random(len(frame))).sample(frac=1, random_state=1)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    drawn = draw.integers(0, TWO.n_rows, (9000, 2))
    chosen = [(i, j) for i, j in drawn if TWO.y[i] > TWO.y[j] and TWO.qid[i] == TWO.qid[j]]
    by_id = pd.DataFrame(np.array(chosen) * 7, columns=["winner", "loser"])
    by_id.to_csv(tmp_path / "ids.csv", index=False)
    place = np.argsort(frame.index.to_numpy())
    pd.DataFrame(place[np.array(chosen)], columns=["winner", "loser"]).to_parquet(
        tmp_path / "rows.parquet"
    )
    assert call(
        "train", "rows.csv", "--pairs", "ids.csv", "--document", "url", *TRAIN, "--out", "by-id"
    ) == (0, "")
    assert call(
        "train", "rows.csv", "--pairs", "rows.parquet", "--drop", "url", *TRAIN, "--out", "by-row"
    ) == (0, "")
    runs = [Run.open(tmp_path / name) for name in ("by-id", "by-row")]
    assert runs[0].ranker.forest_.dump() == runs[1].ranker.forest_.dump()
    assert runs[0].manifest["data"]["train"]["pairs"] == len(chosen)
    assert runs[0].ranker.n_estimators_ == 5
    assert call("predict", "by-id", "rows.csv", "--out", "scores.txt")[0] == 0
    code, printed = call("train", "rows.csv", "--document", "url", "--out", "x")
    assert code == 2
    assert "--document says how --pairs names documents" in " ".join(printed.split())
