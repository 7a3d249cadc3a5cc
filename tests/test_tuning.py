"""Searches find what an oracle finds, end when they should, and resume after a crash with the same trials."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from statistics import mean, median
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import optuna
import pytest
from typer.testing import CliRunner

import rankwright as rw
from rankwright import Ranker, RankingData, bind, evaluate, write_letor
from rankwright.cli import app
from rankwright.metrics import metric as parse_metric
from rankwright.objectives import OBJECTIVES, Objective, load_objective
from rankwright.objectives import objective as parse_objective
from rankwright.report.page import Text
from rankwright.report.tuning_page import tuning_report
from rankwright.training.checkpoint import fingerprint
from rankwright.tuning.result import Tuning, is_config
from rankwright.tuning.search import tune
from rankwright.tuning.space import (
    PRESETS,
    Choice,
    Range,
    default_values,
    ranker_parameters,
    sample,
    search_space,
)
from rankwright.tuning.trials import TrialWatch, run_trials, validation_value
from small import TRAIN, VALID
from waiting import wait_for

SMALL: dict[str, Any] = {"metric": "map", "n_estimators": 6, "folds": 2, "n_jobs": 1}
TREES = {"min_child_samples": Range(2, 20), "num_leaves": Range(2, 8)}


def drawn(tuning: Tuning) -> list[tuple[dict[str, Any], float | None]]:
    return [(trial.values, trial.value) for trial in tuning.trials]


# Spaces


@pytest.fixture
def draws() -> Callable[[Mapping[str, Any], int], list[dict[str, Any]]]:
    """Random values of a space."""

    def draw(space: Mapping[str, Any], n: int) -> list[dict[str, Any]]:
        study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
        return [sample(space, study.ask()) for _ in range(n)]

    return draw


@pytest.mark.parametrize("kind", map(load_objective, OBJECTIVES))
def test_what_an_objective_searches_are_its_options(kind: type[Objective]) -> None:
    assert kind.search.keys() <= {one.name for one in fields(kind)}
    parameters = {name.partition(".")[0] for name in kind.search_training}
    assert parameters <= Ranker().get_params().keys()


PAIRS = [
    (name, metric)
    for name in (*OBJECTIVES, "yetiloss + queryrmse", "stochasticrank + queryrmse")
    for metric in (
        "ndcg@10",
        "ndcg",
        *(() if parse_objective(name).capabilities.additive_only else ("map",)),
    )
]


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize(("name", "metric"), PAIRS)
def test_whatever_is_drawn_can_be_trained(name: str, metric: str, preset: str, draws: Any) -> None:
    objective = parse_objective(name)
    leaf_values = set()
    for values in draws(search_space(name, metric, preset=preset), 25):
        parameters = ranker_parameters(objective, values)
        Ranker(**parameters, metric=metric).check_params()
        bound = bind(parameters["objective"], [2, 0, 1, 0], group=[4], metric=metric, n_jobs=1)
        leaf_values.add(parameters["leaf_values"])
        if parameters["leaf_values"] == "full":
            bound.leaf_system(np.zeros(4), [0, 0, 1, 1], 2)
    full = objective.capabilities.full_curvature and preset != "paper"
    assert leaf_values == ({"diagonal", "full"} if full else {"diagonal"})


@pytest.mark.parametrize("name", [*OBJECTIVES, "auto"])
def test_the_first_trial_can_have_all_defaults(name: str) -> None:
    space = search_space(name)
    ranker = Ranker(name, n_estimators=1, n_jobs=1, verbose=0).fit(TRAIN)
    searched = {
        one
        for one, tried in space.items()
        if isinstance(tried, Range | Choice) and tried.unless is None
    }
    assert searched <= default_values(space, ranker.objective_, ranker).keys()


def test_what_an_objective_is_given_with_is_kept_and_rules_out_what_belongs_to_something_else(
    draws: Any,
) -> None:
    text = "yetiloss(noise=none) + 0.25 queryrmse + ranknet"
    space = search_space(text, "map")
    assert (space["yetiloss.noise"], space["queryrmse.factor"]) == ("none", 0.25)
    space["yetiloss.neighbours"] = 3
    for values in draws(space, 3):
        assert {"yetiloss.strength", "yetiloss.permutations"}.isdisjoint(values)
        factor, sigma = values["ranknet.factor"], values["ranknet.sigma"]
        assert ranker_parameters(parse_objective(text), values)["objective"] == (
            f"yetiloss(noise=none, neighbours=3) + 0.25 queryrmse + {factor} ranknet(sigma={sigma})"
        )


def test_of_auto_everything_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "yetiloss(neighbours=3) + 0.5 queryrmse"
    assert (search_space(text)["yetiloss.neighbours"], search_space(text)["queryrmse.factor"]) == (
        3,
        0.5,
    )
    monkeypatch.setattr(
        "rankwright.training.defaults.resolve_objective", lambda *_: parse_objective(text)
    )
    space = search_space("auto")
    assert (space["yetiloss.neighbours"], space["queryrmse.factor"]) == (
        Range(1, 5),
        Range(0.05, 5.0, log=True),
    )


def test_a_metric_without_a_cutoff_has_no_truncation_by_it() -> None:
    assert search_space("lambdamart", "ndcg@10")["lambdamart.truncation"].values == (
        None,
        "k",
        "k+3",
        10,
        30,
    )
    assert search_space("lambdamart", "ndcg")["lambdamart.truncation"].values == (None, 10, 30)


def test_the_papers_ranges() -> None:
    space = search_space("stochasticrank", "mrr", preset="paper")
    assert space["learning_rate"] == Range(0.001, 1.0, log=True)
    assert space["stochasticrank.mu"] == Range(0.01, 10.0, log=True)
    assert (space["reg_lambda"], space["langevin"]) == (0.0, True)
    assert search_space("yetirank", preset="paper")["reg_lambda"] == Range(
        0.001, 100.0, log=True, or_zero=True
    )
    for name in ("lambdamart", "yetirank", "yetiloss", "queryrmse"):
        assert search_space(name, preset="paper")["max_depth"] == Range(6, 8)
    assert (space["max_depth"], search_space("xendcg", preset="paper")["max_depth"]) == (
        Range(6, 10),
        Range(6, 16),
    )
    assert space["num_leaves"] == Range(16, 256, log=True)
    for name in (
        "xendcg",
        "listnet",
        "lambdaloss",
    ):  # 200 and 400 in XE-NDCG, 64 to 400 in Lambda-eX
        assert search_space(name, preset="paper")["num_leaves"] == Range(16, 400, log=True)
    assert (PRESETS["paper"].startup, PRESETS["paper"].trials, PRESETS["paper"].trees) == (
        20,
        20 + 80,
        1000,
    )


@pytest.mark.parametrize(
    ("text", "option", "searched"),
    [
        ("stochasticrank(mu=0.1)", "stochasticrank.mu", Range(0.01, 10.0, log=True)),
        ("stochasticrank(mu=0.1, sigma=2)", "stochasticrank.sigma", 2),
        (
            "lambdamart(noise=gumbel)",
            "lambdamart.strength",
            Range(0.0, 1.0, unless=("noise", "none")),
        ),
        (
            "lambdaloss(noise=gumbel, strength=0.3)",
            "lambdaloss.strength",
            Range(0.0, 1.0, unless=("noise", "none")),
        ),
        ("lambdamart", "lambdamart.strength", None),
    ],
)
def test_the_papers_options_are_searched_also_where_they_are_written(
    text: str, option: str, searched: Any, draws: Any
) -> None:
    space = search_space(text, preset="paper")
    assert space.get(option) == searched
    for values in draws(space, 3):
        Ranker(**ranker_parameters(parse_objective(text), values)).check_params()


def test_a_logarithmic_range_may_hold_zero(draws: Any) -> None:
    domain = Range(0.1, 10.0, log=True, or_zero=True)
    drawn = [values["reg_lambda"] for values in draws({"reg_lambda": domain}, 200)]
    assert 30 < sum(value == 0 for value in drawn) < 110, "a third"
    assert all(value in domain for value in drawn)
    assert 0.05 not in domain
    assert (domain.as_drawn(0.0), domain.as_drawn(3.0)) == (0.01, 3.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Range(0.0, 1.0, or_zero=True), "or_zero is for a range of log=True"),
        (lambda: Range(1, 8, log=True, or_zero=True), "or_zero is for a range of log=True"),
        (lambda: Range(3, 3), "from a number to a larger one"),
        (lambda: Range("a", 3), "from a number to a larger one"),
        (lambda: Range(0.0, 3.0, log=True), "begins above 0"),
        (lambda: Choice(()), "a choice is a tuple"),
        (lambda: Choice(["a"]), "a choice is a tuple"),
        (lambda: search_space("lambdamart + lambdamart(truncation=5)"), "an objective twice"),
        (
            lambda: search_space(preset="best"),
            "preset must be one of 'default', 'paper'; got 'best'",
        ),
    ],
)
def test_wrong_spaces_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"space": {"num_leafs": 8}}, "unknown parameter 'num_leafs'; did you mean 'num_leaves'"),
        (
            {"space": {"lambdamart.sigma": 1.0}},
            "unknown parameter 'lambdamart.sigma'. .* for .*yetiloss",
        ),
        (
            {"space": {"n_estimators": 8}},
            "n_estimators cannot be searched or set here; use n_estimators",
        ),
        ({"space": {"num_leaves": (8, 64)}}, "num_leaves must be a Range"),
        ({"space": {"num_leaves": 1}}, "num_leaves must be a whole number from 2"),
        ({"valid": VALID}, "valid and folds exclude each other"),
        ({"objective": "yetilos"}, "did you mean 'yetiloss'"),
        ({"metric": "mapp"}, "unknown metric 'mapp'"),
        ({"preset": "papers"}, "preset must be one of"),
        ({"trials": 0}, "trials must be a whole number from 1; got 0"),
        ({"n_estimators": 2.5}, "n_estimators must be a whole number from 1; got 2.5"),
        ({"seconds": 0}, "seconds must be a number above 0; got 0"),
        ({"folds": 1}, "folds must be a whole number from 2"),
    ],
)
def test_wrong_searches_are_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        tune(TRAIN, **{**SMALL, "trials": 1, **options})


def test_validation_without_relevant_documents_is_rejected() -> None:
    nothing = RankingData(VALID.X, np.zeros(VALID.n_rows), qid=VALID.qid, reference=TRAIN)
    error = pytest.raises(
        ValueError, match="no validation query has a relevant document, so map has no value"
    )
    with pytest.warns(UserWarning, match="no query has a relevant document"), error:
        tune(TRAIN, valid=nothing, metric="map", trials=1, n_estimators=2, n_jobs=1)


def test_without_optuna_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ImportError, match=r'pip install "rankwright\[tune\]"'):
        tune(TRAIN, **SMALL, trials=1)


# Searches of a Ranker


def test_values_and_trees_are_those_of_training_by_hand() -> None:
    tuning = tune(TRAIN, **SMALL, trials=3, space=TREES, random_state=4)
    for trial in tuning.trials:
        best, trees = [], []
        for train, held_out in TRAIN.kfold(2, random_state=4):
            ranker = Ranker(**{**trial.params, "n_estimators": 6}, n_jobs=1, verbose=0).fit(train)
            curve = [
                evaluate(scores, held_out.y, group=held_out.group, metrics=["map"]).mean["map"]
                for scores in ranker.staged_predict(held_out)
            ]
            best.append(max(curve))
            trees.append(int(np.argmax(curve)) + 1)
        assert trial.fold_values == pytest.approx(best, abs=1e-12)
        assert trial.value == pytest.approx(mean(best), abs=1e-12)
        assert (trial.fold_trees, trial.trees) == (tuple(trees), round(mean(trees)))
        assert trial.params["n_estimators"] == trial.trees
    assert tuning.best_trial.value == max(trial.value or 0 for trial in tuning.trials)


@pytest.mark.parametrize("objective", ["auto", "stochasticrank", "lambdamart(truncation=5)"])
def test_the_first_trial_is_the_ranker_without_tuning(objective: str) -> None:
    tuning = tune(
        TRAIN, valid=VALID, metric="map", objective=objective, trials=1, n_estimators=8, n_jobs=1
    )
    untuned = Ranker(objective, "map", n_estimators=8, n_jobs=1, verbose=0).fit(
        TRAIN, eval_set=[VALID]
    )
    assert tuning.best_trial.value == max(untuned.evals_result_["valid_0"]["map"])


def test_validation_data_takes_the_place_of_folds() -> None:
    tuning = tune(TRAIN, valid=VALID, metric="map", trials=1, n_estimators=6, n_jobs=1)
    ranker = Ranker(**tuning.best, n_jobs=1, verbose=0).fit(TRAIN)
    assert ranker.score(VALID) == pytest.approx(tuning.best_trial.value, abs=1e-12)


def test_the_same_seed_gives_the_same_trials_and_another_one_others() -> None:
    first, again, other = (tune(TRAIN, **SMALL, trials=3, random_state=seed) for seed in (1, 1, 2))
    assert drawn(first) == drawn(again)
    assert all(
        one.values != two.values
        for one, two in zip(first.trials[1:], other.trials[1:], strict=True)
    )
    assert first.trials[1].values != first.trials[2].values


def test_the_result_is_a_config(tmp_path: Path) -> None:
    space = {"num_leaves": 4, "leaf_values": "full", "engine_params": {"max_bin": 63}}
    tuning = tune(TRAIN, **SMALL, trials=2, space=space, objective="yetiloss + queryrmse")
    file = tmp_path / "new" / "best.toml"
    tuning.save_config(file)
    config = tomllib.loads(file.read_text())
    assert config == tuning.best
    assert (config["num_leaves"], config["engine_params"], config["metric"]) == (
        4,
        {"max_bin": 63},
        "map",
    )
    assert "num_leaves" not in tuning.trials[0].values
    ranker = Ranker(**config, n_jobs=1, verbose=0).fit(TRAIN)
    assert str(ranker.objective_) == config["objective"]
    assert ranker.n_estimators_ == tuning.best_trial.trees
    assert is_config(file)
    assert not is_config(tmp_path / "absent")


def test_weights_that_differ_within_a_query_rule_out_full_leaves() -> None:
    search: dict[str, Any] = {
        "valid": VALID,
        "metric": "map",
        "n_estimators": 2,
        "trials": 1,
        "n_jobs": 1,
    }
    for per, searched in (("row", False), ("query", True)):
        n = TRAIN.n_rows if per == "row" else TRAIN.n_queries
        weights = np.linspace(1, 2, n)
        weighted = RankingData(
            TRAIN.X, TRAIN.y, qid=TRAIN.qid, sample_weight=weights, reference=TRAIN
        )
        assert ("leaf_values" in tune(weighted, **search).trials[0].values) == searched


def test_the_papers_protocol_begins_at_random_and_stops_nothing() -> None:
    tuning = tune(
        TRAIN, **SMALL, trials=8, preset="paper", space={"min_child_samples": Range(2, 20)}
    )
    ranker = Ranker(metric="map", n_estimators=1, n_jobs=1, verbose=0).fit(next(TRAIN.kfold(2))[0])
    assert tuning.trials[0].values["learning_rate"] != ranker.learning_rate_
    assert all(trial.value is not None for trial in tuning.trials)


def test_trials_say_where_their_values_come_from() -> None:
    tuning = tune(
        TRAIN, **SMALL, trials=22, space={"num_leaves": Range(3, 5), "leaf_values": "diagonal"}
    )
    assert [trial.origin for trial in tuning.trials] == ["defaults"] + 19 * ["random"] + 2 * [
        "guided"
    ]
    counts = "1 with the defaults, 19 drawn at random, 2 guided by earlier ones"
    assert tuning.origins() == counts
    assert f"22 trials: {counts}." in tuning_report(tuning).markdown()
    few = tune(TRAIN, **SMALL, trials=2, preset="paper")
    assert few.origins() == "2 drawn at random, 0 guided by earlier ones"


# Searches of any system: what it is worth is a function of its parameter, so that an oracle is simple


@dataclass(frozen=True)
class Known:
    """Ranks a share ``x`` of the documents by their labels and the others by a hash, better after the first trees."""

    params: Mapping[str, Any]
    before: Callable[[], object] = field(default=lambda: None)
    name = "known"
    by_metric = True

    def fit(self, train: RankingData, metric: str, *, trees: int, seed: int, threads: int) -> Any:
        self.before()
        return self

    def staged_predict(self, data: RankingData, every: int) -> Iterator[np.ndarray]:
        order = np.random.default_rng(0).random(data.n_rows)
        known = np.random.default_rng(1).random(data.n_rows) < self.params["x"]
        yield order
        yield order + 2.0 * known * data.y


@dataclass(frozen=True)
class Uneven(Known):
    """Goes by ``x`` on the first fold and by ``y`` on the others."""

    def staged_predict(self, data: RankingData, every: int) -> Iterator[np.ndarray]:
        share = self.params["x" if data is FOLDS[0].valid else "y"]
        return Known({"x": share}).staged_predict(data, every)


class Fold(NamedTuple):
    """Queries to train and to validate on."""

    train: RankingData
    valid: RankingData


SPACE = {"x": Range(0.0, 1.0), "y": Range(0.0, 1.0)}
QUARTERS = [quarter for _, quarter in TRAIN.kfold(4)]
FOLDS = [
    Fold(RankingData.concatenate([QUARTERS[first], QUARTERS[(first + 1) % 4]]), QUARTERS[first - 1])
    for first in (2, 3, 0, 1)
]
QUICK: dict[str, Any] = {"target": "map", "trees": 20, "every": 10, "startup": 4}


def search(
    make: Callable[[Mapping[str, Any]], Known],
    space: Mapping[str, Any],
    folds: list[Fold],
    *,
    target: str,
    trees: int,
    every: int,
    pruning: bool = True,
    seed: int = 0,
    **limits: Any,
) -> Tuning:
    """Search the space by the values of the systems on the folds."""
    metric = parse_metric(target)

    def measure(values: Mapping[str, Any], watch: TrialWatch) -> None:
        for fold in folds:
            system = make(values).fit(fold.train, target, trees=trees, seed=seed, threads=1)
            stages = system.staged_predict(fold.valid, every)
            curve = [validation_value(scores, fold.valid, metric, 1) for scores in stages]
            watch.fold_done(curve, every=every)

    return run_trials(
        space,
        measure,
        [(fold.train, fold.valid) for fold in folds],
        target=metric,
        parameters=lambda values, _: dict(values),
        first=None,
        search={
            "data": [fingerprint(fold.valid) for fold in folds],
            "metric": target,
            "space": {name: repr(tried) for name, tried in space.items()},
            "pruning": pruning,
            "seed": seed,
        },
        pruning=pruning,
        seed=seed,
        **{"seconds": None, "study": None, "progress": None, **limits},
    )


def worth(system: Known, metric: str = "map") -> list[float]:
    best = max if metric == "map" else min
    return [
        best(
            evaluate(scores, fold.valid.y, group=fold.valid.group, metrics=[metric]).mean[metric]
            for scores in system.staged_predict(fold.valid, 10)
        )
        for fold in FOLDS
    ]


@pytest.mark.parametrize(
    ("system", "metric", "trials"), [(Known, "map", 16), (Uneven, "map", 24), (Uneven, "arp", 24)]
)
def test_trials_behind_the_median_are_stopped(
    system: type[Known], metric: str, trials: int
) -> None:
    tuning = search(system, SPACE, FOLDS, **{**QUICK, "target": metric}, trials=trials)
    sign = 1 if metric == "map" else -1
    complete: list[list[float]] = []
    stopped = []
    for trial in tuning.trials:
        values = worth(system(trial.params), metric)
        sums = sign * np.cumsum(values)
        behind = len(complete) >= 5 and any(
            sums[fold] < median(one[fold] for one in complete) for fold in range(4)
        )
        assert (trial.value is None) == behind
        stopped.append(behind)
        if not behind:
            assert trial.fold_values == pytest.approx(values)
            complete.append(list(sums))
    assert 0 < sum(stopped) < trials - 5
    assert tuning.best == tuning.best_trial.params == tuning.best_trial.values
    assert f"{trials} trials, {sum(stopped)} of them stopped early." in str(tuning)


def test_without_pruning_none_is_stopped() -> None:
    tuning = search(Known, SPACE, FOLDS, **QUICK, trials=12, pruning=False)
    assert [trial.value for trial in tuning.trials] == pytest.approx(
        [mean(worth(Known(t.params))) for t in tuning.trials]
    )


def test_after_the_random_trials_the_search_learns() -> None:
    tuning = search(Known, SPACE, FOLDS, **QUICK, trials=24, pruning=False)
    xs = [trial.values["x"] for trial in tuning.trials]
    assert mean(xs[-10:]) > 0.75 > mean(xs[:4])


def test_a_metric_of_which_less_is_better_is_minimised() -> None:
    tuning = search(Known, SPACE, FOLDS, **{**QUICK, "target": "arp"}, trials=12)
    values = [trial.value for trial in tuning.trials if trial.value is not None]
    assert len(values) < 12
    assert tuning.best_trial.value == min(values)
    assert tuning.best_trial.fold_values == pytest.approx(worth(Known(tuning.best), "arp"))
    assert tuning.ranked()[-1].value == max(values)
    longer = search(Known, SPACE, FOLDS, **{**QUICK, "target": "arp"}, trials=24, pruning=False)
    assert mean(trial.values["x"] for trial in longer.trials[-10:]) > 0.75


def test_importance_tells_what_matters_from_what_does_not() -> None:
    tuning = search(Known, SPACE, FOLDS, **QUICK, trials=24, pruning=False)
    shares = tuning.importance()
    assert list(shares) == ["x", "y"]
    assert shares["x"] > 0.8
    assert sum(shares.values()) == pytest.approx(1)
    assert search(Known, SPACE, FOLDS, **QUICK, trials=3).importance() == {}


def test_a_search_ends_when_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]

    def tick() -> None:
        clock[0] += 1.0

    monkeypatch.setattr(
        "rankwright.tuning.trials.time",
        SimpleNamespace(monotonic=lambda: clock[0], perf_counter=lambda: 0.0),
    )
    tuning = search(
        lambda p: Known(p, tick), SPACE, FOLDS, **QUICK, trials=500, seconds=21, pruning=False
    )
    assert clock[0] == 22  # five trials of four folds, and two folds of a sixth that is dropped
    assert (len(tuning.trials), tuning.interrupted) == (5, False)


def test_the_first_trial_is_completed_however_little_time_there_is() -> None:
    tuning = search(Known, SPACE, FOLDS, **QUICK, trials=5, seconds=1e-9)
    assert [trial.value for trial in tuning.trials] == pytest.approx(
        [mean(worth(Known(tuning.best)))]
    )


def test_progress_is_reported_after_each_trial() -> None:
    reports: list[tuple[int, float | None]] = []
    search(
        Known,
        SPACE,
        FOLDS,
        **QUICK,
        trials=4,
        progress=lambda now: reports.append((len(now.trials), now.best_trial.value)),
    )
    assert [number for number, _ in reports] == [1, 2, 3, 4]
    assert [value for _, value in reports] == sorted(value or 0 for _, value in reports)


def interrupting(at: int) -> Callable[[Mapping[str, Any]], Known]:
    calls = iter(range(1000))

    def before() -> None:
        if next(calls) == at:
            raise KeyboardInterrupt("now")

    return lambda params: Known(params, before)


def test_ctrl_c_returns_the_result_so_far(tmp_path: Path) -> None:
    study = tmp_path / "study.log"
    tuning = search(interrupting(10), SPACE, FOLDS, **QUICK, trials=5, study=study)
    assert (len(tuning.trials), tuning.interrupted) == (2, True)
    whole = search(Known, SPACE, FOLDS, **QUICK, trials=5)
    assert drawn(search(Known, SPACE, FOLDS, **QUICK, trials=5, study=study)) == drawn(whole)
    with pytest.raises(KeyboardInterrupt, match="now"):
        search(interrupting(3), SPACE, FOLDS, **QUICK, trials=5)


def test_an_error_ends_the_search_and_the_study_resumes(tmp_path: Path) -> None:
    def broken() -> None:
        raise RuntimeError("out of luck")

    with pytest.raises(RuntimeError, match="out of luck"):
        search(
            lambda p: Known(p, broken),
            SPACE,
            FOLDS,
            **QUICK,
            trials=2,
            study=tmp_path / "study.log",
        )
    again = search(Known, SPACE, FOLDS, **QUICK, trials=2, study=tmp_path / "study.log")
    assert drawn(again) == drawn(search(Known, SPACE, FOLDS, **QUICK, trials=2))


# Study files


def test_a_study_resumes(tmp_path: Path) -> None:
    study = tmp_path / "folder" / "study.log"
    for trials in (2, 7, 12):
        tuning = search(Known, SPACE, FOLDS, **QUICK, trials=trials, study=study)
        assert len(tuning.trials) == trials
    whole = search(Known, SPACE, FOLDS, **QUICK, trials=12)
    assert drawn(tuning) == drawn(whole)
    assert any(trial.value is None for trial in whole.trials)
    size = study.stat().st_size
    assert drawn(search(Known, SPACE, FOLDS, **QUICK, trials=12, study=study)) == drawn(whole)
    assert study.stat().st_size == size


def test_a_ranker_is_tuned_in_parts_as_in_one_go(tmp_path: Path) -> None:
    for trials in (1, 2, 4):
        tuning = tune(TRAIN, **SMALL, trials=trials, study=tmp_path / "study.log")
    assert drawn(tuning) == drawn(tune(TRAIN, **SMALL, trials=4))


@pytest.mark.parametrize("cut", [1, 20, 400, 2000])
def test_a_truncated_file_is_repaired(
    tmp_path: Path, cut: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = tmp_path / "study.log"
    whole = drawn(search(Known, SPACE, FOLDS, **QUICK, trials=5, study=study))
    os.truncate(study, study.stat().st_size - cut)
    Path(f"{study}.lock").touch()  # as a process leaves it that dies while it writes

    def sleep(seconds: float) -> None:
        raise AssertionError("waits for a lock that nobody holds")

    monkeypatch.setattr(time, "sleep", sleep)
    assert drawn(search(Known, SPACE, FOLDS, **QUICK, trials=5, study=study)) == whole


@pytest.mark.parametrize("keep", [0, 5, 12])
def test_a_file_truncated_at_the_start_starts_again(tmp_path: Path, keep: int) -> None:
    study = tmp_path / "study.log"
    whole = drawn(search(Known, SPACE, FOLDS, **QUICK, trials=2, study=study))
    os.truncate(study, keep)
    assert drawn(search(Known, SPACE, FOLDS, **QUICK, trials=2, study=study)) == whole


KILLED = """
import sys, time
sys.path.insert(0, sys.argv[1])
from test_tuning import FOLDS, QUICK, SPACE, Known, search
search(lambda p: Known(p, lambda: time.sleep(0.05)), SPACE, FOLDS, **QUICK, trials=100, study=sys.argv[2])
"""


def count(file: Path, text: str) -> int:
    return file.read_text().count(text) if file.exists() else 0


def running(process: subprocess.Popen[Any]) -> bool:
    assert process.poll() is None, "the process ended too early"
    return True


@pytest.mark.slow
def test_a_killed_search_resumes_with_the_same_trials(tmp_path: Path) -> None:
    study = tmp_path / "study.log"
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(Path(__file__).parent), str(study)]
    )
    wait_for(lambda: running(process) and count(study, '"fold_values"') >= 3, timeout=180)
    with pytest.raises(ValueError, match=r"study\.log is in use by a search"):
        search(Known, SPACE, FOLDS, **QUICK, trials=8, study=study)
    process.send_signal(signal.SIGKILL)
    process.wait()
    again = search(Known, SPACE, FOLDS, **QUICK, trials=8, study=study)
    assert drawn(again) == drawn(search(Known, SPACE, FOLDS, **QUICK, trials=8))


@pytest.mark.parametrize(
    ("options", "differing"),
    [
        ({"seed": 1}, "seed"),
        ({"space": {**SPACE, "y": 0.5}}, "space"),
        ({"folds": FOLDS[:2]}, "data"),
        ({"target": "mrr"}, "metric"),
        ({"pruning": False}, "pruning"),
    ],
)
def test_another_search_does_not_mix_with_a_study(
    tmp_path: Path, options: dict[str, Any], differing: str
) -> None:
    study = tmp_path / "study.log"
    given = {"space": SPACE, "folds": FOLDS, **QUICK, "trials": 1, "study": study}
    search(Known, **given)
    before = study.read_bytes()
    with pytest.raises(
        ValueError, match=rf"holds another search \({differing}\). Choose another file"
    ):
        search(Known, **{**given, **options})
    assert study.read_bytes() == before


@pytest.mark.parametrize("content", [b"1 qid:1 1:0.5\n0 qid:1 1:0.25", b"{}\n", b"\x00\x01"])
def test_a_file_that_is_not_a_study_is_left_unchanged(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "data.txt"
    file.write_bytes(content)
    with pytest.raises(ValueError, match=r"data\.txt is not a study; choose another file"):
        search(Known, SPACE, FOLDS, **QUICK, trials=1, study=file)
    assert file.read_bytes() == content
    with pytest.raises(ValueError, match="is a folder; a study is a file"):
        search(Known, SPACE, FOLDS, **QUICK, trials=1, study=tmp_path)


def test_a_damaged_study_is_rejected(tmp_path: Path) -> None:
    study = tmp_path / "study.log"
    search(Known, SPACE, FOLDS, **QUICK, trials=2, study=study)
    lines = study.read_text().splitlines(keepends=True)
    study.write_text("".join([*lines[:5], "garbage\n", *lines[5:]]))
    with pytest.raises(ValueError, match=r"study\.log is damaged and cannot be read as a study"):
        search(Known, SPACE, FOLDS, **QUICK, trials=3, study=study)


def test_a_file_is_unlocked_at_the_end(tmp_path: Path) -> None:
    study = tmp_path / "study.log"
    search(Known, SPACE, FOLDS, **QUICK, trials=1, study=study)
    with open(study, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert [one.name for one in tmp_path.iterdir()] == ["study.log"]


def test_optuna_is_quiet_and_keeps_its_settings(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    level = optuna.logging.get_verbosity()
    search(Known, SPACE, FOLDS, **QUICK, trials=8, study=tmp_path / "study.log").importance()
    assert capfd.readouterr() == ("", "")
    assert optuna.logging.get_verbosity() == level


# Peers, tables, the report and the command


def test_the_table_has_all_trials() -> None:
    tuning = search(Known, {**SPACE, "z": 1}, FOLDS, **QUICK, trials=12)
    frame = tuning.to_dataframe()
    assert list(frame.columns) == ["trial", "map", "trees", "seconds", "x", "y"]
    assert frame["trial"].tolist() == list(range(1, 13))
    assert frame["map"].isna().sum() == sum(trial.value is None for trial in tuning.trials) > 0
    assert frame["trees"].dropna().isin([10, 20]).all()
    assert str(tuning).splitlines()[1].split()[:3] == [
        str(tuning.best_trial.number),
        f"{tuning.best_trial.value:.4f}",
        str(tuning.best_trial.trees),
    ]


def test_the_report_shows_the_search() -> None:
    tuning = search(Known, SPACE, FOLDS, **QUICK, trials=16)
    page = tuning_report(tuning)
    assert [section.title for section in page.sections] == [
        "Best trial",
        "Search",
        "What mattered",
        "Trials",
    ]
    best = page.sections[0].blocks[0]
    assert isinstance(best, Text)
    assert best.text.startswith(
        f"Trial {tuning.best_trial.number}: map {tuning.best_trial.value:.4f}"
    )
    values = page.figures()[0].specification()["data"]["values"]
    complete = [trial.value for trial in tuning.trials if trial.value is not None]
    assert [row["value"] for row in values] == complete
    assert [row["best"] for row in values] == np.maximum.accumulate(complete).tolist()
    assert page.markdown().count("\n| ") > 16


def command(*arguments: str, cwd: Path, **options: Any) -> subprocess.Popen[str]:
    line = [sys.executable, "-c", "from rankwright.cli import main; main()", *arguments]
    return subprocess.Popen(
        line, cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options
    )


TUNE = [
    "tune",
    "train.txt",
    "--metric",
    "map",
    "--folds",
    "2",
    "--threads",
    "1",
    "--set",
    "num_leaves=4",
]


@pytest.mark.slow
def test_tune_then_train_on_the_command_line(tmp_path: Path) -> None:
    write_letor(TRAIN, tmp_path / "train.txt")
    out, err = (
        tuned := command(*TUNE, "--trials=5", "--trees=5", "--report=t.html", cwd=tmp_path)
    ).communicate()
    assert (tuned.returncode, err.count("\n")) == (0, 5)
    assert "trial 5/5: " in err
    assert "What mattered: " in out
    assert "Next: rankwright train DATA --config best.toml --out RUN" in out
    assert (tmp_path / "t.html").stat().st_size > 0
    config = tomllib.loads((tmp_path / "best.toml").read_text())
    trained = command(
        "train",
        "train.txt",
        "--config=best.toml",
        "--out=run",
        "--set=n_jobs=1",
        "--quiet",
        cwd=tmp_path,
    )
    assert trained.communicate() == ("", "")
    assert tomllib.loads((tmp_path / "run" / "config.toml").read_text()).items() >= config.items()


def in_a_later_trial(study: Path) -> bool:
    """Whether a trial after the first is being trained: its values are stored, and the file is not in use."""
    return count(study, '"user_attr":{"values"') >= 3 and not Path(f"{study}.lock").exists()


def test_ctrl_c_writes_the_best_so_far(tmp_path: Path) -> None:
    write_letor(TRAIN, tmp_path / "train.txt")
    search = command(*TUNE, "--trials=1000", "--trees=60", "--out=b.toml", cwd=tmp_path)
    try:
        wait_for(
            lambda: running(search) and in_a_later_trial(tmp_path / "b.study.log"), timeout=180
        )
        search.send_signal(signal.SIGINT)
        _, err = search.communicate(timeout=120)
    finally:
        search.kill()
    assert search.returncode == 1
    assert "rankwright: the search was interrupted after " in err
    assert tomllib.loads((tmp_path / "b.toml").read_text())["num_leaves"] == 4
    assert (tmp_path / "b.study.log").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--objective=yetilos"], "did you mean 'yetiloss'"),
        (["--metric=foo"], "unknown metric 'foo'"),
        (["--metric=map mrr"], "one metric can be optimised; got 2"),
        (["--set=num_leafs=4"], "did you mean 'num_leaves'"),
        (["--set=num_leaves"], "not of the form KEY=VALUE"),
        (["--time=3x"], "'3x' is not a time such as 90s, 10m or 2h"),
        (["--valid=train.txt", "--folds=2"], "keep one of the two"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["tune", "train.txt", *arguments])
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("option", "message"),
    [("--out", "exists and was not written by tune"), ("--study", "is not a study")],
)
def test_the_command_overwrites_nothing_that_is_not_its_own(
    tmp_path: Path, option: str, message: str
) -> None:
    write_letor(TRAIN.subset(range(4)), data := tmp_path / "train.txt")
    (notes := tmp_path / "notes.toml").write_text("mine = 1\n")
    others = {"--out": str(tmp_path / "best.toml"), option: str(notes)}
    line = [
        "tune",
        str(data),
        "--trials=1",
        "--trees=1",
        *(word for pair in others.items() for word in pair),
    ]
    result = CliRunner().invoke(app, line)
    assert re.search(f"notes.toml {message}", str(result.exception))
    assert notes.read_text() == "mine = 1\n"


def test_spaces_of_stochasticrank_hold_no_combination_that_it_refuses() -> None:
    for preset in ("default", "paper"):
        assert "stochasticrank.mu" not in search_space("stochasticrank", "dcg-rr", preset=preset)
        assert "stochasticrank.mu" in search_space("stochasticrank", "ndcg", preset=preset)
    assert "stochasticrank.sfa" not in search_space("stochasticrank(nu=0.1)")
    assert "stochasticrank.sfa" in search_space("stochasticrank")
    data = rw.make_web_search(12, n_features=20, mean_length=12, random_state=1)
    small: dict[str, Any] = {"trials": 2, "n_estimators": 2, "folds": 2, "n_jobs": 1}
    tune(data, objective="stochasticrank", metric="dcg-rr", **small)
    tuning = tune(
        data, objective="stochasticrank", preset="paper", space={"langevin": False}, **small
    )
    assert tuning.best["langevin"] is False


def test_defaults_outside_the_space_are_moved_to_its_ends() -> None:
    data = rw.make_web_search(12, n_features=20, mean_length=12, random_state=1)
    space = {"num_leaves": Range(40, 64), "subsample": Range(0.1, 0.2)}
    trial = tune(
        data, metric="map", trials=1, n_estimators=2, folds=2, n_jobs=1, space=space
    ).trials[0]
    assert (trial.origin, trial.params["num_leaves"], trial.params["subsample"]) == (
        "defaults",
        40,
        0.2,
    )
