"""The comparison of systems: what is trained on what, how trees are chosen, and what a file of outcomes stores."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rankwright import RankingData, evaluate, make_web_search
from rankwright_lab.experiments.comparison_study import NamedSystem
from rankwright_lab.experiments.tuned import TunedSystem
from rankwright_lab.folds import folds_by_query
from rankwright_lab.harness import (
    Capabilities,
    Outcome,
    OutcomeStore,
    RankwrightSystem,
    describe,
    recipe,
    run_systems,
)
from rankwright_lab.libraries import Library
from rankwright_lab.peers import LightGBM

DATA = make_web_search(12, kind="short", n_features=20, mean_length=12, random_state=4)
FOLDS = list(folds_by_query(DATA, 3))


@dataclass(frozen=True)
class Scripted:
    """A system with given stages that records its calls."""

    name: str
    stages: tuple[float, ...] = (1.0,)
    by_metric: bool = False
    by_seed: bool = True
    calls: list[tuple[Any, ...]] = field(default_factory=list, compare=False)

    def fit(
        self, train: RankingData, metric: str, *, trees: int, seed: int, threads: int
    ) -> ScriptedModel:
        self.calls.append((self.name, train.n_queries, metric, trees, seed, threads))
        return ScriptedModel(self.stages)

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class ScriptedModel:
    """Scores that follow the labels by a factor per tree: 1 is the ideal order, -1 the reverse."""

    factors: tuple[float, ...]

    def staged_predict(self, data: RankingData, every: int) -> Iterator[Any]:
        for last in range(every, len(self.factors) + every, every):
            yield self.factors[min(last, len(self.factors)) - 1] * data.y


def mean(factor: float, data: RankingData, metric: str) -> float:
    return evaluate(factor * data.y, data.y, group=data.group, metrics=[metric]).mean[metric]


def outcome(system: str = "a", seed: int = 0, fold: str = "1", **changes: Any) -> Outcome:
    default = Outcome(
        data="web",
        fold=fold,
        system=system,
        target="map",
        seed=seed,
        trees=5,
        valid=0.5,
        fit_seconds=1.0,
        predict_seconds=0.1,
        query_ids=[f"{fold}-1", f"{fold}-2"],
        values={"map": [0.25, 0.75]},
    )
    return replace(default, **changes)


def test_trees_are_chosen_on_validation_and_tested_there() -> None:
    system = Scripted("a", (-1.0, -1.0, 0.0, 1.0, -1.0))
    (fold,) = FOLDS[:1]
    store = run_systems([system], [fold], data="d", targets=["ndcg@3"], seeds=1, trees=5, every=2)
    (one,) = store.outcomes
    assert one.curve == [mean(factor, fold.valid, "ndcg@3") for factor in (-1.0, 1.0, -1.0)]
    assert (one.trees, one.valid) == (4, mean(1.0, fold.valid, "ndcg@3"))
    assert np.nanmean(one.values["ndcg@3"]) == pytest.approx(
        mean(1.0, fold.test, "ndcg@3"), abs=1e-12
    )
    assert one.query_ids == [str(query) for query in fold.test.query_ids]


def test_the_first_of_equals_is_chosen_and_the_last_block_may_be_short() -> None:
    for stages, chosen in (((1.0, 1.0, 1.0), 2), ((-1.0, -1.0, 1.0), 3)):
        store = run_systems(
            [Scripted("a", stages)], FOLDS[:1], data="d", targets=["map"], seeds=1, trees=3, every=2
        )
        assert store.outcomes[0].trees == chosen


def test_a_lower_is_better_metric_chooses_the_lowest() -> None:
    store = run_systems(
        [Scripted("a", (1.0, -1.0))],
        FOLDS[:1],
        data="d",
        targets=["arp"],
        seeds=1,
        trees=2,
        every=1,
    )
    assert store.outcomes[0].trees == 1


def test_systems_are_interleaved_and_one_training_serves_all_targets_unless_it_depends_on_them() -> (
    None
):
    calls: list[tuple[Any, ...]] = []
    systems = [Scripted("both", calls=calls), Scripted("each", by_metric=True, calls=calls)]
    run_systems(systems, FOLDS[:2], data="d", targets=["map", "mrr"], seeds=2, trees=7, threads=3)
    each_time = [("both", 4, "map"), ("each", 4, "map"), ("each", 4, "mrr")]
    expected = [(*call, 7, seed, 3) for _ in range(2) for seed in range(2) for call in each_time]
    assert calls == expected


def test_one_training_serves_all_seeds_where_they_do_not_matter() -> None:
    system = Scripted("fixed", by_seed=False)
    for _ in range(2):
        store = run_systems([system], FOLDS[:2], data="d", targets=["map", "mrr"], seeds=3, trees=1)
    assert [call[-2] for call in system.calls] == [0, 0] * 2
    assert len(store.outcomes) == 2 * 2 * 3
    first, *others = [store.find("d", "2", "fixed", "mrr", seed) for seed in range(3)]
    assert first is not None
    assert others == [replace(first, seed=1), replace(first, seed=2)]


def test_metrics_besides_the_targets_are_evaluated() -> None:
    store = run_systems(
        [Scripted("a")],
        FOLDS[:1],
        data="d",
        targets=["map"],
        metrics=["mrr", "map"],
        seeds=1,
        trees=1,
    )
    assert list(store.outcomes[0].values) == ["map", "mrr"]


def test_a_model_without_trees_ranks_all_documents_equal() -> None:
    (fold,) = FOLDS[:1]
    store = run_systems([Scripted("a", ())], [fold], data="d", targets=["map"], seeds=1, trees=4)
    expected = evaluate(
        np.zeros(fold.test.n_rows), fold.test.y, group=fold.test.group, metrics=["map"]
    )
    assert store.outcomes[0].values["map"] == expected.per_query["map"].tolist()


@pytest.mark.filterwarnings("ignore:map. no query has a relevant document")
def test_validation_queries_without_relevant_documents_are_rejected() -> None:
    (fold,) = FOLDS[:1]
    empty = RankingData(fold.valid.X, np.zeros(fold.valid.n_rows), group=fold.valid.group)
    with pytest.raises(ValueError, match=r"d, fold 1: map has no value on any validation query"):
        run_systems(
            [Scripted("a")],
            [replace(fold, valid=empty)],
            data="d",
            targets=["map"],
            seeds=1,
            trees=1,
        )


def test_rankwright_reports_the_time_of_its_gradients() -> None:
    system = RankwrightSystem("small", {"min_child_samples": 2})
    (one,) = run_systems([system], FOLDS[:1], data="d", targets=["map"], seeds=1, trees=3).outcomes
    times = system.fit(FOLDS[0].train, "map", trees=3, seed=0, threads=1).ranker.times_  # type: ignore[attr-defined]
    assert times.keys() >= {"gradients", "leaves"}
    assert one.gradient_seconds is not None
    assert 0 < one.gradient_seconds < one.fit_seconds


def test_stored_outcomes_are_not_computed_again(tmp_path: Path) -> None:
    options: dict[str, Any] = {"data": "d", "targets": ["map"], "trees": 3}
    run_systems(
        [Scripted("a")], FOLDS[:2], seeds=1, store=OutcomeStore(tmp_path / "o.jsonl"), **options
    )
    again = Scripted("a")
    store = run_systems(
        [again], FOLDS, seeds=2, store=OutcomeStore(tmp_path / "o.jsonl"), **options
    )
    assert [(queries, seed) for _, queries, _, _, seed, _ in again.calls] == [
        (4, 1),
        (4, 1),
        (4, 0),
        (4, 1),
    ]
    assert len(store.outcomes) == 6
    assert len(OutcomeStore(tmp_path / "o.jsonl").outcomes) == 6


@pytest.mark.parametrize(
    "changed", ["trees", "every", "threads", "parameters", "queries", "metrics"]
)
def test_outcomes_of_another_recipe_are_computed_again_and_replaced(
    tmp_path: Path, changed: str
) -> None:
    options: dict[str, Any] = {
        "data": "d",
        "targets": ["map"],
        "seeds": 2,
        "trees": 4,
        "every": 2,
        "threads": 1,
    }
    fold = FOLDS[0]
    run_systems([Scripted("a")], [fold], store=OutcomeStore(tmp_path / "o.jsonl"), **options)
    if changed in ("trees", "every", "threads"):
        options[changed] = 3
    elif changed == "metrics":
        options["metrics"] = ["mrr"]
    elif changed == "queries":
        fold = replace(FOLDS[1], name="1")
    again = Scripted("a", (-1.0, 1.0) if changed == "parameters" else (1.0,))
    options["seeds"] = 1
    store = run_systems([again], [fold], store=OutcomeStore(tmp_path / "o.jsonl"), **options)
    assert len(again.calls) == 1
    newest = store.find("d", "1", "a", "map", 0)
    assert newest is not None
    assert newest.query_ids == [str(query) for query in fold.test.query_ids]
    # The seed that was not computed again has another recipe, unless only the queries or the metrics changed.
    left = {"queries": 2, "metrics": 2}.get(changed, 1)
    assert len(store.outcomes) == len(OutcomeStore(tmp_path / "o.jsonl").outcomes) == left


def test_parameters_and_defaults_of_rankwright_are_in_the_recipe() -> None:
    base = recipe(RankwrightSystem("a"), trees=5, every=1, threads=1)
    assert base == recipe(RankwrightSystem("a", {}), trees=5, every=1, threads=1)
    assert base != recipe(RankwrightSystem("a", {"num_leaves": 3}), trees=5, every=1, threads=1)
    assert describe(RankwrightSystem("a"))["parameters"]["reg_lambda"] > 0
    assert set(describe(RankwrightSystem("a"))["versions"]) == {"rankwright", "lightgbm"}


def test_the_version_of_the_defaults_is_in_the_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    systems = [
        RankwrightSystem("a"),
        NamedSystem("b", RankwrightSystem("a")),
        TunedSystem(
            "c", RankwrightSystem("a"), "a search", lambda: (RankwrightSystem("a"), "one trial")
        ),
    ]
    other = LightGBM("lambdarank")

    def recipes(*systems: Any) -> list[str]:
        return [recipe(system, trees=5, every=1, threads=1) for system in systems]

    before = recipes(*systems, other)
    monkeypatch.setattr("rankwright.training.defaults.DEFAULTS_VERSION", 99)
    *after, unchanged = recipes(*systems, other)
    assert all(one != two for one, two in zip(before, after, strict=False))
    assert unchanged == before[-1]


@pytest.mark.parametrize("old", ["", "0123456789abcdef"])
def test_outcomes_without_a_versioned_recipe_are_computed_again(tmp_path: Path, old: str) -> None:
    """A recipe without a prefix hashed the source text of the defaults; the oldest outcomes have none."""
    options: dict[str, Any] = {"data": "d", "targets": ["map"], "seeds": 1, "trees": 3}
    (one,) = run_systems([Scripted("a")], FOLDS[:1], **options).outcomes
    assert one.recipe.startswith("v2-")
    store = OutcomeStore(tmp_path / "o.jsonl")
    for seed in range(2):
        store.add(replace(one, seed=seed, recipe=old))
    again = Scripted("a")
    store = run_systems([again], FOLDS[:1], store=OutcomeStore(tmp_path / "o.jsonl"), **options)
    assert len(again.calls) == 1
    assert [(outcome.seed, outcome.recipe) for outcome in store.outcomes] == [(0, one.recipe)]
    assert OutcomeStore(tmp_path / "o.jsonl").outcomes == store.outcomes


@dataclass(frozen=True)
class Demanding(Scripted):
    """A system with requirements."""

    capabilities: Capabilities = field(default_factory=Capabilities)
    libraries: tuple[Library, ...] = ()


def test_a_missing_library_is_reported_before_any_training() -> None:
    trained = Scripted("a")
    missing = Demanding("b", libraries=(Library("no_such_library"),))
    message = r"b needs no_such_library, which is not installed: pip install no_such_library\."
    with pytest.raises(ImportError, match=message):
        run_systems([trained, missing], FOLDS, data="d", targets=["map"], seeds=1, trees=1)
    assert trained.calls == []


@pytest.mark.parametrize(
    ("capabilities", "problem"),
    [
        (Capabilities(longest_query=2), r"queries have at most 2 documents, but one has \d+"),
        (Capabilities(largest_label=0), r"labels are at most 0, but one is \d"),
    ],
)
def test_unsupported_data_are_reported_before_any_training(
    capabilities: Capabilities, problem: str
) -> None:
    trained = Scripted("a")
    with pytest.raises(
        ValueError, match=f"b cannot train on these data: {problem}. Leave this system out"
    ):
        run_systems(
            [trained, Demanding("b", capabilities=capabilities)],
            FOLDS,
            data="d",
            targets=["map"],
            seeds=1,
            trees=1,
        )
    assert trained.calls == []


def test_seeds_are_averaged_and_folds_pooled() -> None:
    store = OutcomeStore()
    store.add(outcome(seed=0))
    store.add(outcome(seed=1, values={"map": [0.75, 0.25]}))
    store.add(outcome(fold="2", values={"map": [1.0, float("nan")]}))
    pooled = store.evaluation("a", "map")
    assert pooled.per_query["map"][:3].tolist() == [(0.25 + 0.75) / 2, (0.75 + 0.25) / 2, 1.0]
    assert np.isnan(pooled.per_query["map"][3])
    assert pooled.mean["map"] == pytest.approx((0.5 + 0.5 + 1.0) / 3)
    assert pooled.query_ids.tolist() == ["web 1-1", "web 1-2", "web 2-1", "web 2-2"]


def test_systems_are_compared_with_the_baseline_on_the_same_queries() -> None:
    store = OutcomeStore()
    for system, values in (("a", [0.25, 0.5]), ("b", [0.5, 1.0])):
        store.add(outcome(system, values={"map": values}))
    (row,) = store.comparison("map").rows
    assert (row.system, row.difference, row.wins) == ("b", (0.25 + 0.5) / 2, 2)
    (row,) = store.comparison("map", baseline="b").rows
    assert (row.system, row.difference, row.losses) == ("a", -(0.25 + 0.5) / 2, 2)


def test_impossible_comparisons() -> None:
    store = OutcomeStore()
    store.add(outcome("a"))
    with pytest.raises(ValueError, match=r"needs two systems trained for 'map'; got \['a'\]"):
        store.comparison("map")
    store.add(outcome("b"))
    with pytest.raises(ValueError, match=r"unknown system 'c'; choose one of a, b"):
        store.comparison("map", baseline="c")
    with pytest.raises(ValueError, match="no outcome of 'c' for 'map'"):
        store.evaluation("c", "map")


def test_a_file_of_outcomes_reads_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "below" / "o.jsonl"
    written = outcome(
        values={"map": [0.1 + 0.2, 1 / 3]}, curve=[0.1, 0.2], gradient_seconds=0.5, recipe="r"
    )
    OutcomeStore(path).add(written)
    assert OutcomeStore(path).outcomes == [written]


def test_an_incomplete_line_is_removed_and_written_again(tmp_path: Path) -> None:
    path = tmp_path / "o.jsonl"
    lines = [json.dumps(asdict(outcome(seed=seed))) + "\n" for seed in range(2)]
    for cut in (1, 20, len(lines[1]) - 1):
        path.write_text(lines[0] + lines[1][:cut])
        store = OutcomeStore(path)
        assert [one.seed for one in store.outcomes] == [0]
        store.add(outcome(seed=1))
        assert path.read_text() == "".join(lines)


@pytest.mark.parametrize("content", ["notes of mine", "{}\n", '{"data": 1}\nmore', "[1]\n"])
def test_another_file_is_rejected_and_left_unchanged(tmp_path: Path, content: str) -> None:
    path = tmp_path / "o.jsonl"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"o\.jsonl, line 1: expected an outcome"):
        OutcomeStore(path)
    assert path.read_text() == content


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"objective": "lambdamart", "subsample": 1.0, "colsample": 1.0}, False),
        ({"objective": "lambdamart", "subsample": 0.5, "colsample": 1.0}, True),
        ({"objective": "lambdamart", "subsample": 1.0}, True),
        ({"objective": "xendcg", "subsample": 1.0, "colsample": 1.0}, True),
        ({"objective": "queryrmse", "subsample": 1.0, "colsample": 1.0, "langevin": True}, True),
        ({"subsample": 1.0, "colsample": 1.0}, True),
    ],
)
def test_a_system_without_draws_is_the_same_for_every_seed(
    params: dict[str, object], expected: bool
) -> None:
    system = RankwrightSystem("a", params)
    assert system.by_seed == expected
    if not expected:
        data = make_web_search(20, kind="short", n_features=20)
        models = [system.fit(data, "ndcg@5", trees=5, seed=seed, threads=1) for seed in (0, 1)]
        first, second = (list(model.staged_predict(data, 5))[-1] for model in models)
        np.testing.assert_array_equal(first, second)
