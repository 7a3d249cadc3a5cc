"""Outcomes that other runs reuse: the same training on the same data, and nothing else, is not computed again."""

from __future__ import annotations

import gzip
import importlib.util
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from rankwright import RankingData, make_web_search
from rankwright_lab.experiments import EXPERIMENTS, Record, reproduce
from rankwright_lab.experiments.comparison_study import ComparisonStudy, NamedSystem
from rankwright_lab.folds import folds_by_query
from rankwright_lab.harness import Outcome, OutcomeStore, RankwrightSystem, run_systems
from rankwright_lab.kept_outcomes import keep, read_kept, read_reusable

ROOT = Path(__file__).parents[1]
FOLDS = list(
    folds_by_query(
        make_web_search(12, kind="short", n_features=20, mean_length=12, random_state=4), 3
    )
)
SMALL: dict[str, Any] = {"quick": True, "queries": 20, "length": 15, "trees": 5, "seeds": 1}
WORK: dict[str, Any] = {"targets": ["map", "mrr"], "seeds": 2, "trees": 2}


class LabelModel:
    """Ranks by the labels."""

    def staged_predict(self, data: RankingData, every: int) -> list[Any]:
        return [data.y]


@dataclass(frozen=True)
class Counted:
    """A system that counts its trainings."""

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)
    by_metric: bool = True

    def fit(
        self, train: RankingData, metric: str, *, trees: int, seed: int, threads: int
    ) -> LabelModel:
        TRAININGS.append((self.name, metric, seed))
        return LabelModel()


TRAININGS: list[tuple[str, str, int]] = []


def by_key(store: OutcomeStore) -> dict[str, Outcome]:
    return {outcome.key: outcome for outcome in store.outcomes}


def trainings(*arguments: Any, **options: Any) -> int:
    """Number of trainings that a run needs."""
    TRAININGS.clear()
    run_systems(*arguments, **options)
    return len(TRAININGS)


def test_a_training_is_reused_whatever_it_is_called() -> None:
    first = run_systems([Counted("a", {"leaves": 8})], FOLDS[:1], data="d", **WORK)
    assert len(by_key(first)) == 2 * 2
    store = OutcomeStore()
    system = NamedSystem("b", Counted("c", {"leaves": 8}))
    assert (
        trainings([system], FOLDS[:1], data="other", store=store, reuse=by_key(first), **WORK) == 0
    )
    assert [outcome.values for outcome in store.outcomes] == [
        outcome.values for outcome in first.outcomes
    ]
    assert {(outcome.data, outcome.system) for outcome in store.outcomes} == {("other", "b")}
    assert (
        trainings([system], FOLDS[:1], data="other", store=store, **WORK) == 0
    )  # stored like any other


@pytest.mark.parametrize(
    ("system", "fold", "changes", "expected"),
    [
        (Counted("a", {"leaves": 9}), 0, {}, 4),
        (Counted("a", {"leaves": 8}), 1, {}, 4),
        (Counted("a", {"leaves": 8}), 0, {"trees": 3}, 4),
        (Counted("a", {"leaves": 8}), 0, {"every": 1}, 4),
        (Counted("a", {"leaves": 8}), 0, {"threads": 2}, 4),
        (Counted("a", {"leaves": 8}), 0, {"seeds": 3}, 2),
        (Counted("a", {"leaves": 8}), 0, {"targets": ["map", "err"]}, 2),
        (Counted("a", {"leaves": 8}), 0, {"metrics": ["err"]}, 4),
    ],
)
def test_another_training_is_computed(
    system: Counted, fold: int, changes: dict[str, Any], expected: int
) -> None:
    reuse = by_key(run_systems([Counted("a", {"leaves": 8})], FOLDS[:1], data="d", **WORK))
    assert (
        trainings([system], [FOLDS[fold]], data="d", reuse=reuse, **{**WORK, **changes}) == expected
    )


@pytest.mark.parametrize("part", ["train", "valid", "test"])
def test_other_rows_under_the_same_names_are_computed(part: str) -> None:
    fold, system = FOLDS[0], Counted("a")
    reuse = by_key(run_systems([system], [fold], data="d", **WORK))
    old: RankingData = getattr(fold, part)
    features = np.array(old.X)
    features[0, 0] += 1
    changed = replace(fold, **{part: RankingData(features, old.y, qid=old.qid)})
    assert trainings([system], [changed], data="d", reuse=reuse, **WORK) == 4


def test_the_version_of_the_defaults_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    system = RankwrightSystem(
        "a", {"objective": "queryrmse", "min_child_samples": 1}, by_metric=False
    )
    reuse = by_key(run_systems([system], FOLDS[:1], data="d", **WORK))
    new: list[Outcome] = []
    run_systems([system], FOLDS[:1], data="d", reuse=reuse, progress=new.append, **WORK)
    assert new == []
    monkeypatch.setattr("rankwright.training.defaults.DEFAULTS_VERSION", -1)
    run_systems([system], FOLDS[:1], data="d", reuse=reuse, progress=new.append, **WORK)
    assert len(new) == 4


def test_values_on_the_test_queries_are_needed_unless_said_otherwise() -> None:
    stored = by_key(run_systems([Counted("a")], FOLDS[:1], data="d", **WORK))
    without = {key: replace(outcome, values={}, query_ids=[]) for key, outcome in stored.items()}
    assert trainings([Counted("a")], FOLDS[:1], data="d", reuse=without, **WORK) == 4
    assert trainings([Counted("a")], FOLDS[:1], data="d", reuse=without, tested=False, **WORK) == 0


def run(
    name: str, out: Path, *, reuse: list[Path] | None = None, **changes: Any
) -> tuple[Record, list[Outcome]]:
    """Run an experiment; return what it found and what it computed."""
    study, new = EXPERIMENTS[name], []
    settings = study.settings(**{**SMALL, **changes})
    record = reproduce(study, settings, out, progress=new.append, reuse=reuse or [])
    return record, new


def test_tables_2_and_3_share_trainings_and_find_the_same(tmp_path: Path) -> None:
    alone, all_trained = run("tricks-table3", tmp_path / "alone", targets=("mrr",))
    run("tricks-table2", tmp_path / "runs" / "table2", targets=("mrr",))
    shared, trained = run(
        "tricks-table3", tmp_path / "runs" / "table3", reuse=[tmp_path / "runs"], targets=("mrr",)
    )
    assert {outcome.system.split(", ")[1] for outcome in all_trained} == {
        "logistic",
        "Gaussian",
        "no smoothing",
    }
    assert {outcome.system.split(", ")[1] for outcome in trained} == {"Gaussian", "no smoothing"}
    assert (shared.tables, shared.verdicts) == (alone.tables, alone.verdicts)


def test_every_system_of_table_2_has_as_many_variants(tmp_path: Path) -> None:
    record, trained = run("tricks-table2", tmp_path, targets=("ndcg@10",))
    study = EXPERIMENTS["tricks-table2"]
    assert isinstance(study, ComparisonStudy)
    counts = {
        system.name: sum(one.system.startswith(f"{system.name}, ") for one in trained)
        for system in study.systems
    }
    assert set(counts.values()) == {6}
    assert len(trained) == 6 * len(study.systems)
    note = record.tables[0]["note"]
    assert note.count("Chosen on validation queries for ") == len(study.systems)
    assert re.search(
        r"Chosen on validation queries for LightGBM: \d+ leaves, ridge \d+ 1 times[;.]", note
    )
    assert "8, 16, 31" in record.about["departs"]
    assert "20 random and 80 guided trials" in record.about["departs"]


def test_a_system_without_a_metric_trains_each_variant_once_for_all_metrics(tmp_path: Path) -> None:
    study = EXPERIMENTS["tricks-table2"]
    assert isinstance(study, ComparisonStudy)
    few = replace(
        study,
        systems=tuple(one for one in study.systems if one.name in ("YetiRank", "YetiLoss")),
        claims=(),
    )
    new: list[Outcome] = []
    reproduce(few, few.settings(**SMALL), tmp_path, progress=new.append)
    times = {
        name: {one.fit_seconds for one in new if one.system.startswith(name)}
        for name in ("YetiRank", "YetiLoss")
    }
    assert {name: len(own) for name, own in times.items()} == {"YetiRank": 6, "YetiLoss": 6 * 4}


def test_the_chosen_variant_gets_more_trees(tmp_path: Path) -> None:
    """Variants are compared with few trees, and the best of each metric and seed is trained with all of them."""
    study = EXPERIMENTS["tricks-table2"]
    assert isinstance(study, ComparisonStudy)
    systems = tuple(one for one in study.systems if one.name in ("LambdaMART", "YetiRank"))
    few = replace(study, systems=systems, claims=(), variant_trees=5)
    settings = few.settings(**{**SMALL, "trees": 20, "seeds": 2, "targets": ("ndcg@10", "mrr")})
    new: list[Outcome] = []
    record = reproduce(few, settings, tmp_path / "runs" / "first", progress=new.append)
    compared = [one for one in new if not one.system.endswith("20 trees")]
    longer = {
        (one.system, one.target, one.seed): one for one in new if one.system.endswith("20 trees")
    }
    assert {len(one.curve) for one in compared} == {1}
    assert {len(one.curve) for one in longer.values()} == {4}
    best: dict[tuple[str, str, int], Outcome] = {}
    for one in compared:
        place = one.system.partition(",")[0], one.target, one.seed
        best[place] = max(best.get(place, one), one, key=lambda outcome: outcome.valid)
    assert len(best) == 2 * 2 * 2
    assert set(longer) == {
        (f"{one.system}, 20 trees", one.target, one.seed) for one in best.values()
    }
    stored = OutcomeStore(tmp_path / "runs" / "first" / "outcomes.jsonl")
    for (name, target, seed), one in best.items():
        final = stored.find(settings.data_name, "1", name, target, seed)
        assert final is not None
        assert final.key == longer[f"{one.system}, 20 trees", target, seed].key != one.key
    benchmark().keep_outcomes(tmp_path / "runs", tmp_path / "kept")
    with_values = {
        one.key for path in (tmp_path / "kept").iterdir() for one in read_kept(path) if one.values
    }
    assert with_values == {one.key for one in longer.values()}
    new.clear()
    again = reproduce(
        few, settings, tmp_path / "again", progress=new.append, reuse=[tmp_path / "kept"]
    )
    assert new == []
    assert (again.tables, again.verdicts) == (record.tables, record.verdicts)


def test_a_second_world_is_added_to_a_kept_first_one(tmp_path: Path) -> None:
    papers = benchmark()
    run("tricks-table3", tmp_path / "first" / "table3")
    papers.keep_outcomes(tmp_path / "first", tmp_path / "kept")
    whole, _ = run("tricks-table3", tmp_path / "whole", folds=2)
    record, new = run(
        "tricks-table3", tmp_path / "second" / "table3", reuse=[tmp_path / "kept"], folds=2
    )
    assert {outcome.fold for outcome in new} == {"2"}
    assert (record.tables, record.verdicts) == (whole.tables, whole.verdicts)
    papers.keep_outcomes(tmp_path / "second", tmp_path / "kept")
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == [
        f"generated-web-20-queries-of-15-documents-on-average-{world}.jsonl.gz" for world in (1, 2)
    ]
    again, new = run("tricks-table3", tmp_path / "third", reuse=[tmp_path / "kept"], folds=2)
    assert new == []
    assert (again.tables, again.verdicts) == (whole.tables, whole.verdicts)


def benchmark() -> ModuleType:
    """Import lab/benchmarks/papers.py."""
    spec = importlib.util.spec_from_file_location(
        "papers_benchmark", ROOT / "benchmarks" / "papers.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_section_on_generated_data_of_another_size_is_superseded() -> None:
    superseded = benchmark().superseded
    new = ("tricks-table2", "generated, web, 3000 queries of 40 documents on average")
    assert superseded(
        ("tricks-table2", "generated, web, 1000 queries of 20 documents on average"), new
    )
    assert not superseded(new, new)
    assert not superseded(("tricks-table3", "generated, web, 1000 queries"), new)
    assert not superseded(("tricks-table2", "generated, sparse, 1000 queries"), new)
    assert not superseded(("tricks-table2", "mq2008"), new)


def test_real_data_are_not_kept(tmp_path: Path) -> None:
    OutcomeStore(tmp_path / "run" / "outcomes.jsonl").add(outcome("a", key="k", data="mq2008"))
    benchmark().keep_outcomes(tmp_path, tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


def outcome(system: str, **changes: Any) -> Outcome:
    values = {"map": [0.123456789, float("nan")], "mrr": [1.0, 1.0]}
    default = Outcome(
        "generated", "1", system, "map", 0, 5, 0.123456789, 1.0, 0.1, ["x", "y"], values
    )
    return replace(default, **{"curve": [0.1, 0.123456789], "recipe": system, **changes})


def test_kept_outcomes_are_small(tmp_path: Path) -> None:
    """Values of the target only, and none of a variant that another was preferred to."""
    file = tmp_path / "kept.jsonl.gz"
    chosen = outcome("s", key="k8", recipe="best of 8 16")
    keep(
        [
            outcome("8", key="k8"),
            outcome("16", key="k16"),
            chosen,
            outcome("t", key="kt"),
            outcome("old"),
        ],
        file,
    )
    kept = {one.key: one for one in read_kept(file)}
    assert {key: one.system for key, one in kept.items()} == {"k8": "8", "k16": "16", "kt": "t"}
    assert {key: list(one.values) for key, one in kept.items()} == {
        "k8": ["map"],
        "k16": [],
        "kt": ["map"],
    }
    assert (kept["k8"].values["map"][0], kept["k16"].valid) == (0.123456789, 0.123456789)
    assert all(one.query_ids == [] for one in kept.values())
    before = file.read_bytes()
    keep([], file)
    assert file.read_bytes() == before


def test_variants_keep_their_values_until_one_is_chosen(tmp_path: Path) -> None:
    """The choice of the first fold says nothing about the second."""
    file, chosen = tmp_path / "kept.jsonl.gz", outcome("s", key="k8", recipe="best of 8 16")
    unfinished = [outcome(name, key=f"second {name}", fold="2") for name in ("8", "16")]
    keep([outcome("8", key="k8"), outcome("16", key="k16"), chosen, *unfinished], file)
    assert {one.key for one in read_kept(file) if one.values} == {"k8", "second 8", "second 16"}
    keep([*unfinished, outcome("s", key="second 16", recipe="best of 8 16", fold="2")], file)
    assert {one.key for one in read_kept(file) if one.values} == {"k8", "second 16"}


def test_a_chosen_variant_whose_values_are_missing_is_trained(tmp_path: Path) -> None:
    whole, _ = run("tricks-table3", tmp_path / "whole", targets=("mrr",))
    stored = read_reusable([tmp_path / "whole"])
    keep((replace(one, values={}) for one in stored.values()), tmp_path / "kept.jsonl.gz")
    record, new = run(
        "tricks-table3", tmp_path / "again", reuse=[tmp_path / "kept.jsonl.gz"], targets=("mrr",)
    )
    assert [one.system.split(", ")[1] for one in new] == ["logistic", "Gaussian", "no smoothing"]
    assert (record.tables, record.verdicts) == (whole.tables, whole.verdicts)


def test_a_search_is_reused_without_its_trials(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"trials": 2, "targets": ("ndcg@5",)}
    whole, _ = run("stochasticrank-table3", tmp_path / "whole", **changes)
    record, new = run(
        "stochasticrank-table3", tmp_path / "again", reuse=[tmp_path / "whole"], **changes
    )
    assert new == []
    assert not (tmp_path / "again" / "trials").exists()
    assert "searches with trials: 2 drawn at random" in record.tables[0]["note"]
    assert record.tables == whole.tables
    _, more = run(
        "stochasticrank-table3",
        tmp_path / "more",
        reuse=[tmp_path / "whole"],
        **{**changes, "trials": 3},
    )
    assert (
        len(more) == 5 * 2
    )  # other trials: another search, for five systems and two kinds of features


def test_an_incomplete_line_of_another_run_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "run" / "outcomes.jsonl"
    OutcomeStore(file).add(outcome("a", key="k"))
    with file.open("a") as writer:
        writer.write('{"data": "gener')  # another process may be writing it
    before = file.read_bytes()
    assert list(read_reusable([tmp_path])) == ["k"]
    assert file.read_bytes() == before


def test_missing_and_invalid_files_are_reported(tmp_path: Path) -> None:
    with pytest.raises(
        FileNotFoundError, match="nowhere does not exist, so there are no outcomes to reuse"
    ):
        read_reusable([tmp_path / "nowhere"])
    file = tmp_path / "kept.jsonl.gz"
    keep([outcome("a", key="k")], file)
    file.write_bytes(
        gzip.compress(gzip.decompress(file.read_bytes()) + json.dumps({"a": 1}).encode())
    )
    with pytest.raises(
        ValueError, match=r"kept\.jsonl\.gz, line 2: expected an outcome as a JSON object"
    ):
        read_reusable([file])
