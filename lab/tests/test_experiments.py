"""The papers' experiments: complete, well-formed, resumable, with verdicts that follow from the outcomes."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rankwright import RankingData, make_web_search, objective, write_letor
from rankwright.metrics import metric
from rankwright.objectives import bind
from rankwright.ranker import Ranker
from rankwright.report.page import Table
from rankwright_lab.cli import main
from rankwright_lab.experiments import (
    EXPERIMENTS,
    Record,
    experiment,
    read_records,
    reproduce,
    results_page,
)
from rankwright_lab.experiments.base import ExperimentSettings, Job, differences
from rankwright_lab.experiments.claims import Claim, claims, judge
from rankwright_lab.experiments.comparison_study import ComparisonStudy
from rankwright_lab.experiments.directness import _bounded, _falls
from rankwright_lab.experiments.gap import GapStudy, judge_gaps
from rankwright_lab.experiments.lambdaex import _slower, by_query
from rankwright_lab.experiments.published import PublishedValues, parse_published
from rankwright_lab.experiments.stochasticrank import TOY_PAPER, TOY_SYSTEMS, _reached, tied
from rankwright_lab.experiments.tuned import LIGHTGBM_SPACE, TunedSystem, tune_on_fold
from rankwright_lab.folds import Fold
from rankwright_lab.harness import Outcome, OutcomeStore, RankwrightSystem, read_outcomes

# Papers divide their learning rates by the number of trees, which is small here.
pytestmark = pytest.mark.filterwarnings("ignore:learning_rate")

NAMES = [
    *(f"stochasticrank-{part}" for part in ("table1", "table2", "table3")),
    *(
        f"tricks-{part}"
        for part in ("table2", "table3", "table4", "smoothing", "neighbours", "gap")
    ),
    *(f"xendcg-{part}" for part in ("table1", "robustness", "clicks", "figure1")),
    *(f"lambdaex-{part}" for part in ("table5", "table6", "figure3")),
    "softrank-directness",
]
STUDIES = [one for one in EXPERIMENTS.values() if isinstance(one, ComparisonStudy)]
OUTCOMES = ("agrees", "agrees", "not significant", "contradicts", "mixed")
SMALL: dict[str, Any] = {"quick": True, "queries": 20, "trees": 3, "seeds": 1}


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


Command = Callable[..., Done]


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Command:
    """Run ``rankwright-lab reproduce`` in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["rankwright-lab", "reproduce", *words])
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as stopped:
            code = int(stopped.code or 0)
        return Done(code, *capsys.readouterr())

    return run


def test_all_experiments() -> None:
    assert sorted(EXPERIMENTS) == sorted(NAMES)


def test_an_unknown_name_gets_a_suggestion() -> None:
    with pytest.raises(
        ValueError, match=r"unknown experiment 'tricks-table5'.*Did you mean tricks-table"
    ):
        experiment("tricks-table5")


@pytest.mark.parametrize("name", NAMES)
def test_quick_is_smaller_than_full(name: str) -> None:
    one = EXPERIMENTS[name]
    assert one.quick.trees * one.quick.seeds < one.full.trees * one.full.seeds
    assert (one.quick.queries or 0) <= (one.full.queries or 0)
    assert (one.quick.trials is None) == (one.full.trials is None)


@pytest.mark.parametrize("study", STUDIES, ids=lambda one: one.name)
def test_objectives_bind_to_every_target(study: ComparisonStudy) -> None:
    for system in study.systems:
        for target in study.only.get(system.name, study.targets):
            if isinstance(system, RankwrightSystem):
                Ranker(**dict(system.params)).check_params()
                bind(
                    objective(system.params["objective"]),
                    [2, 0, 1],
                    group=[3],
                    metric=metric(target),
                    n_jobs=1,
                )


@pytest.mark.parametrize("study", STUDIES, ids=lambda one: one.name)
def test_systems_declare_whether_they_depend_on_the_metric(study: ComparisonStudy) -> None:
    """A system that does not depend on it is trained once for all targets, so its gradients must be equal."""
    for system in study.systems:
        if isinstance(system, RankwrightSystem) and not system.by_metric:
            grads = [
                bind(system.params["objective"], [2, 0, 1], group=[3], metric=target, n_jobs=1)(
                    [0.1, 0.3, 0.2], 0
                )[0]
                for target in study.targets
            ]
            assert all(np.array_equal(grad, grads[0]) for grad in grads)


@pytest.mark.parametrize("study", STUDIES, ids=lambda one: one.name)
def test_claims_and_figures_are_of_systems_that_are_run(study: ComparisonStudy) -> None:
    run = {
        condition.names(system.name) for condition in study.conditions for system in study.systems
    }
    assert len(run) == len(study.conditions) * len(study.systems)
    assert {name for claim in study.claims for name in claim.systems()} <= run
    assert {claim.target for claim in study.claims} <= set(study.targets)
    for claim in study.claims:
        for name in claim.systems():
            assert claim.target in study.only.get(name, study.targets)
    for rows in study.published.values.values():
        assert rows.keys() <= run
        assert {len(row) for row in rows.values()} == {len(study.published.columns)}
    assert study.only.keys() | study.spaces.keys() <= run


def test_the_papers_tables_have_the_right_shape() -> None:
    def shape(name: str) -> list[tuple[int, int]]:
        published = EXPERIMENTS[name].published  # type: ignore[attr-defined]
        return [(len(rows), len(published.columns)) for rows in published.values.values()]

    assert shape("stochasticrank-table2") == [(7, 4), (5, 4)]
    assert shape("stochasticrank-table3") == [(5, 1)]
    assert shape("tricks-table2") == [(6, 6), (5, 6), (4, 6), (5, 6)]
    assert shape("tricks-table4") == [(5, 6), (4, 6), (4, 6), (4, 6)]
    assert shape("tricks-smoothing") == [(6, 3)] * 5 + [(4, 3)]
    assert shape("tricks-neighbours") == [(3, 3)] * 2 + [(4, 3)] * 4
    assert shape("tricks-gap") == [(5, 6), (4, 6), (3, 6), (4, 6)]
    assert shape("xendcg-table1") == [(3, 2)] * 2
    assert shape("lambdaex-table5") == [(16, 5)] * 3
    assert TOY_PAPER.keys() <= {system.name for system in TOY_SYSTEMS}


def test_a_row_of_published_figures_has_a_figure_per_column() -> None:
    with pytest.raises(ValueError, match="b has 1 figures for 2 columns"):
        parse_published("columns: A, B\n[map]\na: 1 2\nb: 1", "table 1")


def outcomes(target: str = "map", **values: list[float]) -> OutcomeStore:
    store = OutcomeStore()
    for system, own in values.items():
        ids = [str(number) for number in range(len(own))]
        store.add(Outcome("made up", "1", system, target, 0, 5, 0.5, 1.0, 0.1, ids, {target: own}))
    return store


RAISED = [0.5, 0.6, 0.4, 0.7, 0.5, 0.6, 0.4, 0.7]
LOW = [0.4, 0.5, 0.3, 0.6, 0.4, 0.5, 0.3, 0.6]


def test_verdicts_agree_contradict_or_leave_open() -> None:
    """Eight differences of one sign: the exact randomisation test gives p = 2 / 2^8, times three claims at most."""
    store = outcomes(
        high=RAISED, low=LOW, like=[*RAISED[:4], *LOW[4:]], again=[*LOW[:4], *RAISED[4:]]
    )
    found = judge(claims("high > low\nlow > high\nlike > again", ["map"]), store)
    assert [one.outcome for one in found] == ["agrees", "contradicts", "not significant"]
    assert found[0].evidence.startswith("+10.00 points [+10.00, +10.00], p = 0.023, 8 queries")
    assert found[1].evidence.startswith("-10.00 points")


def test_a_claim_of_no_difference_needs_a_narrow_interval() -> None:
    """Mean differences: 0.005 on every query, 0.1 on every query, and 0.1 or -0.1 in equal parts."""
    close = [value + 0.005 for value in LOW]
    store = outcomes(
        high=RAISED, low=LOW, close=close, a=[*RAISED[:4], *LOW[4:]], b=[*LOW[:4], *RAISED[4:]]
    )
    found = judge(claims("close > low\nhigh > low\na > b", ["map"], alike=True), store)
    assert [one.outcome for one in found] == ["agrees", "contradicts", "not significant"]
    assert found[0].claim == "close like low by map"


def test_a_claim_about_changes_compares_changes() -> None:
    """The first system loses 0.1 on every query, the second 0.3: the first loses less by 0.2."""
    steep = [value - 0.3 for value in RAISED]
    store = outcomes(a=RAISED, a_noisy=LOW, b=RAISED, b_noisy=steep)
    (found,) = judge([Claim(("a_noisy", "a"), ("b_noisy", "b"), "map", text="a loses less")], store)
    assert (found.claim, found.outcome) == ("a loses less", "agrees")
    assert found.evidence.startswith("+20.00 points")


def test_verdicts_say_how_often_the_claim_holds_in_the_paper() -> None:
    paper = parse_published("columns: A, B, C\n[map]\nhigh: 2 2 -\nlow: 1 3 1", "table 1")
    (found,) = judge(claims("high > low", ["map"]), outcomes(high=RAISED, low=LOW), paper)
    assert found.evidence.endswith("in the paper above on 1 of 2 data sets")


def test_the_gap_is_train_minus_test(tmp_path: Path) -> None:
    gap = EXPERIMENTS["tricks-gap"]
    assert isinstance(gap, GapStudy)
    record = reproduce(gap, gap.settings(**SMALL, targets=("map",)), tmp_path)
    for row in record.tables[0]["rows"]:
        train, test, difference = (float(cell) for cell in row[1:4])
        assert difference == pytest.approx(train - test, abs=0.011)
    lines = [json.loads(line) for line in (tmp_path / "outcomes.jsonl").read_text().splitlines()]
    fold = next(gap.settings(**SMALL).folds())
    trained, tested = (
        {f"{side} {query}" for query in part.query_ids}
        for side, part in (("train", fold.train), ("test", fold.test))
    )
    first = next(line for line in lines if line["system"] == "YetiRank")
    values = dict(zip(first["query_ids"], first["values"]["map"], strict=True))
    assert float(record.tables[0]["rows"][0][1]) == pytest.approx(
        100 * np.mean([values[q] for q in trained]), abs=0.006
    )
    assert values.keys() == trained | tested


def test_the_gap_of_files_that_number_their_queries_alike(tmp_path: Path) -> None:
    """Query 1 of the training file and query 1 of the test file are different queries."""
    study = EXPERIMENTS["tricks-gap"]
    assert isinstance(study, GapStudy)
    one = replace(study, systems=study.systems[:1], claims=())
    for seed, name in enumerate(("train", "vali", "test")):
        data = make_web_search(12, n_features=20, mean_length=20, random_state=seed)
        write_letor(data, tmp_path / f"{name}.txt")
    settings = one.settings(data=tmp_path, trees=3, targets=("map",))
    record = reproduce(one, settings, tmp_path / "run")
    (stored,) = read_outcomes(tmp_path / "run" / "outcomes.jsonl")
    assert len(stored.query_ids) == len(set(stored.query_ids)) == 24
    halves = [np.nanmean(stored.values["map"][start : start + 12]) for start in (12, 0)]
    assert stored.query_ids[0].startswith("test ")
    assert stored.query_ids[12].startswith("train ")
    assert [float(cell) for cell in record.tables[0]["rows"][0][1:3]] == pytest.approx(
        [100 * half for half in halves], abs=0.006
    )


def test_papers_that_use_fold_1_read_fold_1(tmp_path: Path) -> None:
    for number in (1, 2):
        folder = tmp_path / f"Fold{number}"
        folder.mkdir()
        for seed, name in enumerate(("train", "vali", "test")):
            data = make_web_search(6, n_features=20, mean_length=10, random_state=seed)
            write_letor(data, folder / f"{name}.txt")
    for name, folds in [("tricks-table4", 1), ("stochasticrank-table2", 1), ("xendcg-table1", 2)]:
        assert EXPERIMENTS[name].settings(data=tmp_path).budget.folds == folds
        assert EXPERIMENTS[name].settings(data=tmp_path, folds=2).budget.folds == 2


def test_a_larger_gap_is_a_larger_lead_on_the_training_queries() -> None:
    """The first leads by 0.3 where both were trained and by 0.1 where both are tested: its gap is larger by 0.2."""
    rng = np.random.default_rng(0)
    noise = [rng.normal(scale=0.01, size=20) for _ in range(2)]
    values = {"a": (0.8 + noise[0], 0.6 + noise[1]), "b": (np.full(20, 0.5), np.full(20, 0.5))}
    larger, smaller = judge_gaps(claims("a > b\nb > a", ["map"]), values)
    assert (larger.outcome, smaller.outcome) == ("agrees", "contradicts")
    assert larger.claim == "the gap of a above that of b by map"
    assert larger.evidence.startswith(
        f"{100 * (0.2 + noise[0].mean() - noise[1].mean()):+.2f} points ["
    )


@pytest.mark.parametrize(
    ("reached", "expected"),
    [([0.903, 0.903], "agrees"), ([0.903, 0.917], "mixed"), ([0.917, 0.917], "contradicts")],
)
def test_the_toy_problem_counts_seeds(reached: list[float], expected: str) -> None:
    assert _reached("LambdaMART", 0.903, reached).outcome == expected


@pytest.mark.parametrize(
    ("slow", "expected"),
    [([2.0, 3.0], "agrees"), ([0.5, 3.0], "mixed"), ([0.5, 0.9], "contradicts")],
)
def test_times_are_compared_round_by_round(slow: list[float], expected: str) -> None:
    verdict = _slower("a", "b", slow, [1.0, 1.0])
    assert verdict.outcome == expected
    assert verdict.evidence.startswith(f"{sum(slow) / 2:.2f} times as long")


def test_a_query_that_trains_in_two_folds_counts_once() -> None:
    store = OutcomeStore()
    for fold, ids, values in (("1", ["a", "b"], [1.0, 0.0]), ("2", ["b", "c"], [1.0, 1.0])):
        store.add(
            Outcome("made up", fold, "ours", "share", 0, 5, 0.5, 1.0, 0.1, ids, {"share": values})
        )
    pooled = by_query(store).evaluation("ours", "share")
    assert pooled.per_query["share"].tolist() == [1.0, (0 + 1) / 2, 1.0]
    assert pooled.mean["share"] == pytest.approx((1 + 0.5 + 1) / 3)


def directness(max_ratio: float, bounded: int) -> Outcome:
    values = {"bounded": [float(bounded)], "max_ratio": [max_ratio]}
    return Outcome("made up", "1", "softrank", "σ = 1", 0, 5, 0.5, 1.0, 0.1, ["all"], values)


def test_a_gap_above_the_bound_contradicts_the_theorem() -> None:
    within, beyond, outside = directness(0.9, 4), directness(1.1, 1), directness(float("nan"), 0)
    assert [
        _bounded(points).outcome
        for points in ([[within], [outside]], [[within, beyond]], [[outside]])
    ] == ["agrees", "contradicts", "not significant"]
    assert [
        _falls(gaps).outcome for gaps in ([0.1, 0.01, 1e-9], [0.1, 0.2, 1e-9], [0.1, 0.09])
    ] == ["agrees", "contradicts", "contradicts"]


def test_corruption_leaves_the_test_queries_unchanged() -> None:
    fold = next(EXPERIMENTS["xendcg-robustness"].settings(**SMALL).folds())
    for name in ("xendcg-robustness", "xendcg-clicks"):
        study = EXPERIMENTS[name]
        assert isinstance(study, ComparisonStudy)
        for condition in study.conditions:
            changed, other = (condition.change(fold, seed) for seed in (0, 1))
            assert changed.test is fold.test
            differs = (
                not np.array_equal(changed.train.y, other.train.y)
                or changed.train.n_rows != other.train.n_rows
            )
            assert condition.drawn == bool(condition.name)
            assert (
                differs == condition.drawn or "negatives" in condition.name
            )  # whose labels are equal
            assert (changed.train is fold.train) == (condition.name == "")
            assert (changed.valid is fold.valid) == (name == "xendcg-robustness")


def test_the_learning_rate_keeps_the_papers_distance() -> None:
    study = EXPERIMENTS["xendcg-table1"]
    assert isinstance(study, ComparisonStudy)
    system = study._at_rate(study.systems[0], trees=100)
    assert isinstance(system, RankwrightSystem)
    assert system.params["learning_rate"] == pytest.approx(0.02 * 500 / 100)


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("stochasticrank-table1", {"queries": 20}, "does not use queries"),
        ("stochasticrank-table1", {"data": Path("mq2008")}, "has data of its own"),
        ("stochasticrank-table1", {"length": 20}, "has data of its own"),
        ("tricks-table4", {"trials": 3}, "does not use trials"),
        ("tricks-table4", {"data": Path("mq2008"), "queries": 20}, "apply to generated data"),
        ("tricks-table4", {"kind": "wide"}, "unknown kind 'wide'.*choose one of web"),
        ("tricks-table4", {"targets": ("rbp",)}, "has no metric 'rbp'; it has ndcg@10"),
    ],
)
def test_options_without_effect_are_rejected(
    name: str, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        EXPERIMENTS[name].settings(**changes)


def test_the_printed_command_names_all_settings() -> None:
    settings = EXPERIMENTS["tricks-table2"].settings(
        quick=True, trees=7, trials=3, targets=("map",)
    )
    assert settings.command() == (
        'rankwright-lab reproduce tricks-table2 --kind web --targets "map" --quick '
        "--seeds 1 --trees 7 --queries 120 --length 30 --folds 1 --trials 3"
    )


def test_a_run_can_add_seeds_but_not_change_trees() -> None:
    study = EXPERIMENTS["tricks-table4"]
    old = study.settings(**SMALL).to_dict()
    assert differences(old, study.settings(**{**SMALL, "seeds": 3}).to_dict()) == []
    assert differences(study.settings(**{**SMALL, "seeds": 3}).to_dict(), old) == ["seeds"]
    assert differences(old, study.settings(**{**SMALL, "trees": 4}).to_dict()) == ["trees"]
    assert differences(old, study.settings(**SMALL, targets=("map",)).to_dict()) == []


def test_a_folder_of_another_run_is_rejected(tmp_path: Path) -> None:
    study = EXPERIMENTS["stochasticrank-table3"]
    reproduce(study, study.settings(**SMALL, trials=1), tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.rglob("*.*")}
    with pytest.raises(
        ValueError, match=r"holds a run with other settings \(trees\); choose another folder"
    ):
        reproduce(study, study.settings(**{**SMALL, "trees": 4}, trials=1), tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.rglob("*.*")} == before


def test_an_interrupted_run_resumes(tmp_path: Path) -> None:
    study = EXPERIMENTS["stochasticrank-table3"]
    settings = study.settings(**SMALL, trials=1)
    whole = reproduce(study, settings, tmp_path / "whole")
    fresh: list[str] = []

    def stop_at_third(outcome: Outcome) -> None:
        fresh.append(outcome.system)
        if len(fresh) == 3:
            raise KeyboardInterrupt("third")

    with pytest.raises(KeyboardInterrupt, match="third"):
        reproduce(study, settings, tmp_path / "parts", progress=stop_at_third)
    assert not (tmp_path / "parts" / "table.json").exists()
    with (tmp_path / "parts" / "outcomes.jsonl").open("a") as file:
        file.write('{"data": "gener')  # what a crash leaves behind
    again: list[str] = []
    record = reproduce(
        study, settings, tmp_path / "parts", progress=lambda one: again.append(one.system)
    )
    assert isinstance(study, ComparisonStudy)
    names = [
        condition.names(system.name) for condition in study.conditions for system in study.systems
    ]
    assert fresh + again == names
    assert record.tables == whole.tables
    assert record.verdicts == whole.verdicts


@pytest.mark.parametrize("trials", [None, 2])
def test_ctrl_c_stores_no_training_of_fewer_trees_or_trials(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, trials: int | None
) -> None:
    """`fit` keeps the trees so far, and a search its trials: neither is what the experiment asks for."""
    study = EXPERIMENTS["tricks-table2"]
    settings = study.settings(**SMALL, targets=("map",), **({"trials": trials} if trials else {}))
    whole = reproduce(study, settings, tmp_path / "whole")
    fit, fits = Ranker.fit, []

    def interrupted(ranker: Ranker, *arguments: Any, **options: Any) -> Ranker:
        fits.append(ranker)
        if len(fits) == 4:
            options["callbacks"] = [lambda progress: signal.raise_signal(signal.SIGINT)]
        return fit(ranker, *arguments, **options)

    monkeypatch.setattr(Ranker, "fit", interrupted)
    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        reproduce(study, settings, tmp_path / "parts")
    assert len(fits) == 4
    record = reproduce(study, settings, tmp_path / "parts")
    assert record.tables == whole.tables
    assert record.verdicts == whole.verdicts


def test_other_data_of_the_same_name_are_not_mistaken_for_the_first(tmp_path: Path) -> None:
    study = EXPERIMENTS["tricks-table4"]
    folder, out = tmp_path / "letor", tmp_path / "out"
    options: dict[str, Any] = {
        "quick": True,
        "trees": 3,
        "seeds": 2,
        "folds": 1,
        "targets": ("ndcg@10",),
    }
    folder.mkdir()
    for number, (_, part) in enumerate(
        make_web_search(20, kind="short", n_features=20, random_state=1).kfold(5)
    ):
        write_letor(part, folder / f"S{number + 1}.txt")
    first = reproduce(study, study.settings(data=folder, **options), out)
    for path in folder.iterdir():  # files of the same size: 1 becomes 0, and 0 becomes 1
        lines = path.read_text().splitlines(keepends=True)
        path.write_text(
            "".join({"0": "1", "1": "0"}.get(line[0], line[0]) + line[1:] for line in lines)
        )
    trained: list[str] = []
    settings = study.settings(data=folder, **options)
    again = reproduce(study, settings, out, progress=lambda outcome: trained.append(outcome.system))
    assert {"LightGBM", "YetiRank"} <= set(trained)
    assert again.tables == reproduce(study, settings, tmp_path / "fresh").tables
    assert again.tables != first.tables
    with (folder / "S1.txt").open("a") as file:
        file.write("1 qid:new 1:0.5\n0 qid:new 1:0.25\n")
    with pytest.raises(ValueError, match=r"holds a run with other settings \(data_bytes\)"):
        reproduce(study, study.settings(data=folder, **options), out)


def test_a_wrong_path_claims_no_folder(tmp_path: Path) -> None:
    study = EXPERIMENTS["tricks-table4"]
    with pytest.raises(ValueError, match="neither a file nor a folder"):
        reproduce(study, study.settings(data=tmp_path / "absent"), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="file is a file; the tables go into a folder"):
        reproduce(study, study.settings(**SMALL), tmp_path / "file")


def test_damaged_files_of_a_run_are_named(tmp_path: Path) -> None:
    study = EXPERIMENTS["tricks-table4"]
    for content in ("", "[]", "{"):
        (tmp_path / "settings.json").write_text(content)
        with pytest.raises(
            ValueError, match=r"settings\.json is damaged: expected a JSON object; delete it"
        ):
            reproduce(study, study.settings(**SMALL), tmp_path)
    (tmp_path / "table.json").write_text("{}")
    with pytest.raises(
        ValueError, match="is the folder of one experiment; name the folder that it is in"
    ):
        read_records(tmp_path)


@pytest.mark.parametrize(
    ("shifts", "outcome"), [((2.0, 2.1, 1.9), "agrees"), ((6.0, -0.5, 0.5), "not significant")]
)
def test_claims_about_drawn_data_hold_over_the_draws(
    shifts: tuple[float, ...], outcome: str
) -> None:
    """All queries of a draw move together, which a test over queries takes for certainty."""
    noise = np.random.default_rng(0).normal(size=40)
    store = OutcomeStore()
    for seed, shift in enumerate(shifts):
        for system, values in (("a", 10 + shift + 0.1 * noise), ("b", np.full(40, 10.0))):
            ids = [str(query) for query in range(40)]
            own = {"map": (values / 100).tolist()}
            store.add(Outcome("data", "1", system, "map", seed, 5, 0.1, 1.0, 0.1, ids, own))
    plain, drawn = (
        judge([Claim("a", "b", "map", drawn=drawn)], store)[0] for drawn in (False, True)
    )
    assert plain.outcome == "agrees"
    assert drawn.outcome == outcome
    error = np.std(shifts, ddof=1) / np.sqrt(3)
    assert drawn.evidence == f"{plain.evidence}; standard error over 3 draws {error:.2f}"


@pytest.mark.parametrize("name", ["tricks-table2", "tricks-table4"])
def test_claims_about_queryrmse_and_stochasticrank(name: str) -> None:
    """Section 4.2: QueryRMSE is competitive for NDCG@10, and YetiLoss is better than it and than StochasticRank."""
    study = EXPERIMENTS[name]
    assert isinstance(study, ComparisonStudy)
    tested = {(claim.better, claim.worse, claim.target) for claim in study.claims}
    assert len(tested) == len(study.claims)
    assert ("QueryRMSE", "LambdaMART", "ndcg@10") in tested
    assert ("YetiRank", "LightGBM", "ndcg@10") in tested
    refuted = {
        ("QueryRMSE", "LightGBM", "ndcg@10"),
        ("YetiLoss", "QueryRMSE", "ndcg@10"),
    }  # on 3 of 6 data sets, or 1
    assert not refuted & tested
    assert {
        ("YetiLoss", "QueryRMSE", target) for target in ("mrr", "map", "err(gain=linear)")
    } <= tested
    if name == "tricks-table2":
        targets = ("ndcg@10", "mrr", "err(gain=linear)")
        assert {("YetiLoss", "StochasticRank", target) for target in targets} <= tested
        assert ("QueryRMSE", "StochasticRank", "ndcg@10") in tested


def test_tuned_systems_store_their_trials(tmp_path: Path) -> None:
    study = EXPERIMENTS["tricks-table2"]
    assert isinstance(study, ComparisonStudy)
    few = replace(study, systems=study.systems[:3:2], claims=())
    settings = few.settings(**SMALL, trials=2, targets=("ndcg@10",))
    reproduce(few, settings, tmp_path)
    logs = sorted((tmp_path / "trials").glob("*.log"))
    assert [path.name for path in logs] == [
        "fold-1-lambdamart-ndcg-10.log",
        "fold-1-lightgbm-ndcg-10.log",
    ]
    before = [path.read_text() for path in logs]
    again: list[Outcome] = []
    record = reproduce(few, settings, tmp_path, progress=again.append)
    assert again == []
    assert [path.read_text() for path in logs] == before
    assert [row[0] for row in record.tables[0]["rows"]] == ["LightGBM", "LambdaMART"]
    note = "2 searches with trials: 2 drawn at random, 0 guided by earlier ones."
    assert record.tables[0]["note"] == note
    # The parameters themselves are kept with the outcomes, as in tables 27 to 30 of the paper.
    stored = read_outcomes(tmp_path / "outcomes.jsonl")
    parameters = {outcome.system: outcome.parameters for outcome in stored}
    assert set(LIGHTGBM_SPACE) == set(parameters["LightGBM"])
    assert 1e-3 <= parameters["LightGBM"]["learning_rate"] <= 1
    rows = [
        row for table in record.tables if "trials chose" in table["title"] for row in table["rows"]
    ]
    assert [row[:3] for row in rows] == [["LightGBM", "1", 0], ["LambdaMART", "1", 0]]
    assert f"num_leaves {parameters['LightGBM']['num_leaves']}" in rows[0][3]


def _entry(params: Mapping[str, Any], name: str) -> Any:
    """Return a parameter, or an entry of a parameter that is named after a dot."""
    parameter, dot, entry = name.partition(".")
    return params[parameter][entry] if dot else params[parameter]


@pytest.mark.parametrize(
    ("number", "parameter"), [(0, "lambda_l2"), (2, "reg_lambda"), (3, "langevin.temperature")]
)
def test_tuned_systems_have_the_parameters_of_a_trial(
    number: int, parameter: str, tmp_path: Path
) -> None:
    study = EXPERIMENTS["tricks-table2"]
    assert isinstance(study, ComparisonStudy)
    settings, system = study.settings(**SMALL, trials=1), study.systems[number]
    job = Job(settings, OutcomeStore(tmp_path / "outcomes.jsonl"))
    found = tune_on_fold(
        job, next(settings.folds()), system, "a name", "ndcg@10", study.spaces[system.name]
    )
    assert isinstance(found, TunedSystem)
    assert not (tmp_path / "trials").exists()  # the search waits until the system has to be trained
    found.prepare()
    (file,) = (tmp_path / "trials").glob("*.log")
    events = [json.loads(line) for line in file.read_text().splitlines()]
    (drawn,) = [one["param_value_internal"] for one in events if one.get("param_name") == parameter]
    assert found.name == "a name"
    assert _entry(found.system.params, parameter) == drawn  # type: ignore[attr-defined]


def test_the_space_of_lightgbm_is_the_papers() -> None:
    ranges = {name: (one.low, one.high) for name, one in LIGHTGBM_SPACE.items()}
    assert ranges == {
        "learning_rate": (1e-3, 1.0),
        "lambda_l2": (0.1, 100.0),
        "max_depth": (6, 16),
        "num_leaves": (16, 256),
        "min_data_in_leaf": (1, 1000),
    }


@pytest.mark.parametrize(
    "name", ["lambdaex-table6", "lambdaex-figure3", "softrank-directness", "xendcg-figure1"]
)
def test_measurements_resume_and_reach_a_verdict(name: str, tmp_path: Path) -> None:
    one = EXPERIMENTS[name]
    settings = one.settings(**SMALL, length=15)
    record = reproduce(one, settings, tmp_path)
    assert record.verdicts
    again: list[Outcome] = []
    assert reproduce(one, settings, tmp_path, progress=again.append).tables == record.tables
    assert again == []


@pytest.mark.parametrize("name", ["lambdaex-table6", "lambdaex-figure3"])
def test_measurements_of_other_gradients_or_of_another_reading_are_repeated(
    name: str, tmp_path: Path
) -> None:
    one = EXPERIMENTS[name]
    settings = one.settings(**SMALL, length=15)
    reproduce(one, settings, tmp_path)
    file = tmp_path / "outcomes.jsonl"
    stored = [json.loads(line) for line in file.read_text().splitlines()]
    file.write_text("".join(json.dumps({**outcome, "recipe": ""}) + "\n" for outcome in stored))
    again: list[Outcome] = []
    reproduce(one, settings, tmp_path, progress=again.append)
    assert len(again) == len(stored)


def test_a_variant_is_chosen_on_validation_queries_and_interrupted_runs_resume(
    tmp_path: Path,
) -> None:
    study = EXPERIMENTS["xendcg-table1"]
    settings = study.settings(**{**SMALL, "trees": 5}, length=15, targets=("ndcg@5",))
    new: list[Outcome] = []
    record = reproduce(study, settings, tmp_path, progress=new.append)
    store = OutcomeStore(tmp_path / "outcomes.jsonl")
    assert len(new) == 3 * 3 * settings.budget.seeds  # three systems with three numbers of leaves
    for name in ("XE-NDCG", "LambdaMART", "ListNet"):
        chosen = [outcome for outcome in store.outcomes if outcome.system == name]
        trained = [outcome for outcome in store.outcomes if outcome.system.startswith(f"{name}, ")]
        for outcome in chosen:
            same = [
                other
                for other in trained
                if (other.fold, other.seed) == (outcome.fold, outcome.seed)
            ]
            assert len(same) == 3
            assert outcome.valid == max(other.valid for other in same)
        assert f"Chosen on validation queries for {name}: " in record.tables[0]["note"]
    assert [table["title"] for table in record.tables][1:] == [
        "ndcg@5 on validation queries, by number of trees, per cent"
    ]
    lines = (tmp_path / "outcomes.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "outcomes.jsonl").write_text(
        "".join(lines[:4]) + lines[4][:30]
    )  # killed while it wrote the fifth
    again: list[Outcome] = []
    resumed = reproduce(study, settings, tmp_path, progress=again.append)
    assert len(again) == len(new) - sum(", " in json.loads(line)["system"] for line in lines[:4])
    assert resumed.tables == record.tables


def test_the_choice_of_a_variant_follows_the_validation_queries_only(tmp_path: Path) -> None:
    """Stored outcomes whose test values point elsewhere do not change the choice."""
    study = EXPERIMENTS["xendcg-table1"]
    settings = study.settings(**SMALL, length=15, targets=("ndcg@5",))
    reproduce(study, settings, tmp_path)
    file = tmp_path / "outcomes.jsonl"
    stored = [json.loads(line) for line in file.read_text().splitlines()]
    for outcome in stored:
        if outcome["system"] == "XE-NDCG, 16 leaves":
            outcome["valid"] = 2.0
        if outcome["system"] == "XE-NDCG, 8 leaves":
            outcome["values"] = {name: [1.0] * len(own) for name, own in outcome["values"].items()}
    file.write_text("".join(json.dumps(outcome) + "\n" for outcome in stored))
    record = reproduce(study, settings, tmp_path)
    seeds = settings.budget.seeds
    assert f"for XE-NDCG: 16 leaves {seeds} times." in record.tables[0]["note"]


def test_tied_features_are_six_of_three_values_chosen_on_training_rows() -> None:
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, 300)
    features = random.normal(size=(300, 10))
    features[:, 4:] += labels[:, None]
    data = RankingData(features, labels, qid=np.repeat(np.arange(30), 10))
    fold = Fold("1", data, data, replace_features(data, 100 + features))
    changed = tied(fold)
    known = (
        np.argsort(np.argsort(features[:, 4:], axis=0), axis=0) // 100
    )  # terciles of the last six columns
    np.testing.assert_array_equal(np.sort(changed.train.X, axis=1), np.sort(known, axis=1))
    np.testing.assert_array_equal(changed.test.X, 2)  # above both limits of the training rows
    np.testing.assert_array_equal(changed.test.y, data.y)


def replace_features(data: RankingData, features: Any) -> RankingData:
    return RankingData(features, data.y, qid=data.qid)


def test_generated_folds_are_worlds_of_their_own() -> None:
    folds = list(EXPERIMENTS["xendcg-table1"].settings(**{**SMALL, "folds": 2}, length=15).folds())
    first, second = (
        {*fold.train.query_ids, *fold.valid.query_ids, *fold.test.query_ids} for fold in folds
    )
    assert not first & second
    same_world = make_web_search(15, first_query=40, mean_length=15)
    assert folds[1].train.query_ids.tolist() == same_world.query_ids.tolist()
    assert not np.array_equal(folds[1].train.y, same_world.y)


def test_the_test_queries_of_several_worlds_are_pooled(tmp_path: Path) -> None:
    study = EXPERIMENTS["tricks-table3"]
    settings = study.settings(**{**SMALL, "folds": 2}, length=15, targets=("mrr",))
    evidence = reproduce(study, settings, tmp_path).verdicts[0]["evidence"]
    relevant = [
        np.add.reduceat(fold.test.y, np.cumsum(fold.test.group) - fold.test.group)
        for fold in settings.folds()
    ]
    assert f", {np.count_nonzero(np.concatenate(relevant))} queries" in evidence


def test_the_command_runs_on_a_folder(command: Command, tmp_path: Path) -> None:
    (tmp_path / "letor").mkdir()
    for number, (_, part) in enumerate(
        make_web_search(20, kind="short", n_features=20).kfold(5), start=1
    ):
        write_letor(part, tmp_path / "letor" / f"S{number}.txt")
    words = ("--data", "letor", "--quick", "--trees", "3", "--seeds", "1", "--folds", "2")
    for name in ("xendcg-table1", "tricks-table3"):
        done = command(name, *words, "--quiet")
        assert (done.code, done.err) == (0, "")
        folder = Path("reproduce", f"{name}-letor-quick")
        assert f"Tables: {folder / 'table.md'}" in done.out
        assert (folder / "table.md").read_text().startswith(f"# {name}\n")
    page = command("--summary", "reproduce")
    assert page.out.startswith("# Results of the papers' experiments\n")
    assert page.out.index("## tricks-table3") < page.out.index("## xendcg-table1")


def test_more_folds_than_the_data_has_are_refused(command: Command, tmp_path: Path) -> None:
    for name in ("train", "test"):
        (tmp_path / "letor").mkdir(exist_ok=True)
        write_letor(
            make_web_search(12, kind="short", n_features=20), tmp_path / "letor" / f"{name}.txt"
        )
    words = ("xendcg-table1", "--data", "letor", "--trees", "3", "--seeds", "1")
    refused = command(*words, "--folds", "3")
    assert refused.code == 2
    assert "letor has only 1 of 3 folds; leave folds out, or lower it." in refused.err
    assert not Path("reproduce").exists()
    settings = EXPERIMENTS["xendcg-table1"].settings(
        data=tmp_path / "letor"
    )  # five folds for other data
    assert settings.budget.folds == 1
    assert settings.command().endswith("--folds 1")


def test_progress_goes_to_standard_error(command: Command) -> None:
    words = ("--quick", "--queries", "20", "--trees", "3", "--seeds", "1", "--trials", "1")
    done = command("stochasticrank-table3", *words, "--out", "here", "--note", "Chosen blindly.")
    assert done.code == 0
    assert "\nChosen blindly.\n" in Path("here", "table.md").read_text()
    assert "REINFORCE, ndcg@5, fold 1, seed 0" in done.err
    assert "REINFORCE, ndcg@5, fold 1, seed 0" not in done.out
    assert (
        command("stochasticrank-table3", *words, "--out", "here").err.count("\n") == 1
    )  # nothing left to do


def test_the_command_lists_experiments_and_rejects_wrong_usage(command: Command) -> None:
    assert [line.split()[0] for line in command().out.splitlines()] == list(EXPERIMENTS)
    assert command("no-such-table").code == 2
    assert command("all", "--trees", "3").code == 2
    assert command("tricks-table4", "--summary", ".").code == 2
    assert command("tricks-table4", "--targets", "rbp").code == 2
    assert not Path("reproduce").exists()
    wrong = command("tricks-table4", "--data", "nowhere")
    assert wrong.code == 2
    assert "nowhere is neither a file nor a folder" in wrong.err
    nothing = command("--summary", ".")
    assert (nothing.code, nothing.out) == (1, "")
    assert "holds no finished experiment" in nothing.err


def test_a_page_counts_the_verdicts(tmp_path: Path) -> None:
    study = EXPERIMENTS["stochasticrank-table3"]
    record = reproduce(study, study.settings(**SMALL, trials=1), tmp_path / "one")
    assert read_records(tmp_path) == [record]
    page = results_page([record], NAMES)
    table = next(block for block in page.sections[0].blocks if isinstance(block, Table))
    assert table.rows[0][0] == "stochasticrank-table3"
    assert sum(table.rows[0][2:]) == len(record.verdicts) == 8  # type: ignore[arg-type]


def test_a_page_says_what_is_contradicted() -> None:
    verdicts = [
        {"claim": f"claim {word}", "outcome": word, "evidence": "figures"} for word in OUTCOMES
    ]
    about = {"title": "A title", "paper": "A paper", "source": "table 1", "departs": "", "note": ""}
    settings = {"experiment": NAMES[0], "data": "made up", "quick": False}
    page = results_page(
        [Record(settings, "rankwright-lab reproduce", about, [], verdicts, {})], NAMES
    ).markdown()
    assert "| stochasticrank-table1 | made up | 2 | 1 | 1 | 1 |" in page
    assert f"| {NAMES[0]} | made up | claim contradicts | figures |" in page
    assert page.count("claim contradicts") == page.count("claim mixed") + 1 == 2
    assert (
        "Of 5 claims, 2 agree, 1 are contradicted, 1 are not significant, 1 hold for some seeds only."
        in page
    )


def test_published_figures_of_unknown_systems_are_missing() -> None:
    assert PublishedValues(("A", "B")).of("map", "ours") == (None, None)
    assert isinstance(EXPERIMENTS["xendcg-clicks"].settings(**SMALL), ExperimentSettings)
