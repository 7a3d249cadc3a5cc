"""`rankwright.export`: models, targets, feature sets, files."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import rankwright as rw
from export_models import QID, X, Y, model_of, stump, trained
from rankwright.exporting import TARGETS, export, load_target
from rankwright.exporting.feature_sets import read_feature_set
from rankwright.exporting.verify import target_of_file
from small import quick

NAMES = [f"f{column}" for column in range(5)]
HERE = ["opensearch", "elasticsearch-ltr", "ranklib", "solr", "vespa", "elastic"]


@pytest.fixture(scope="module")
def ranker() -> rw.Ranker:
    return quick(n_estimators=3).fit(np.nan_to_num(X), Y, qid=QID)


def test_all_targets_are_registered() -> None:
    others = ["json", "lightgbm", "xgboost", "onnx", "treelite", "c"]
    assert list(TARGETS) == [*HERE, *others]
    assert [load_target(name).name for name in HERE] == HERE
    assert len({load_target(name).file_name for name in HERE}) == len(HERE)


@pytest.mark.parametrize("target", HERE)
def test_a_model_a_ranker_and_paths_give_the_same_file(
    target: str, ranker: rw.Ranker, tmp_path: Path
) -> None:
    ranker.save(tmp_path / "saved")
    ranker.save(tmp_path / "saved.zip")
    sources = [ranker, ranker.model_, tmp_path / "saved", str(tmp_path / "saved.zip")]
    files = [
        rw.export(source, target, tmp_path / f"{number}.out")
        for number, source in enumerate(sources)
    ]
    assert len({file.read_bytes() for file in files}) == 1
    assert not list(tmp_path.glob(".*"))


def test_a_folder_gets_the_usual_name(ranker: rw.Ranker, tmp_path: Path) -> None:
    assert rw.export(ranker, "solr", tmp_path) == tmp_path / "solr-model.json"
    assert rw.export(ranker, "solr", tmp_path / "new" / "m.json").is_file()


def test_export_is_a_plain_function() -> None:
    assert isinstance(rw.export, FunctionType)
    assert rw.export is export


def test_notes_are_warnings_at_the_call(tmp_path: Path) -> None:
    with pytest.warns(
        UserWarning, match="RankLib reads a missing value as 0: 1 of 1 splits"
    ) as caught:
        rw.export(model_of([stump(1.0)], 1), "ranklib", tmp_path / "model.txt")
    assert [warning.filename for warning in caught] == [__file__]


def test_nothing_is_written_where_a_model_is_refused(ranker: rw.Ranker, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'alder' is not a target; choose one of opensearch, "):
        rw.export(ranker, "alder", tmp_path / "x")
    with pytest.raises(ValueError, match="all versions agree; leave it out"):
        rw.export(ranker, "vespa", tmp_path / "x", target_version="8")
    versioned = ("opensearch", "elasticsearch-ltr", "solr")
    for target in [name for name in TARGETS if name not in versioned]:
        with pytest.raises(ValueError, match=f"target_version changes nothing for {target}"):
            rw.export(ranker, target, tmp_path / "x", target_version="3")
    with pytest.raises(ValueError, match="model is a Ranker; give a Model, a fitted Ranker"):
        rw.export(rw.Ranker(), "vespa", tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_the_target_is_told_by_the_usual_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "rankwright.exporting.verify.TARGETS", {name: TARGETS[name] for name in HERE}
    )
    for name in HERE:
        assert target_of_file(Path("some") / load_target(name).file_name) == name
    with pytest.raises(ValueError, match="does not tell the target"):
        target_of_file("model.json")


# Feature sets.

FORMS: dict[str, Any] = {
    "names": NAMES,
    "plugin": {
        "featureset": {"name": "set", "features": [{"name": name, "params": []} for name in NAMES]}
    },
    "stored": {
        "_index": ".ltrstore",
        "_source": {"featureset": {"features": [{"name": name} for name in NAMES]}},
    },
    "solr": [{"name": name, "class": "SolrFeature", "store": "s"} for name in NAMES],
    "solr store": {"name": "s", "features": [{"name": name, "store": "s"} for name in NAMES]},
}


def written(folder: Path, content: Any) -> Path:
    file = folder / "features.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_feature_sets(form: str, tmp_path: Path) -> None:
    features = read_feature_set(written(tmp_path, FORMS[form]))
    assert list(features.names) == NAMES
    assert features.store == ("s" if form.startswith("solr") else None)
    file = rw.export(
        trained("stumps"), "solr", tmp_path, feature_set=tmp_path / "features.json", name="m"
    )
    document = json.loads(file.read_text())
    assert document["name"] == "m"
    assert document.get("store") == features.store


def test_other_features_are_listed(tmp_path: Path) -> None:
    file = written(tmp_path, ["f0", "f1", "f2", "colour", "size"])
    expected = "Missing from the set: f3, f4. Unknown to the model: colour, size."
    with pytest.raises(ValueError, match=expected):
        rw.export(trained("stumps"), "opensearch", tmp_path / "x", feature_set=file)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[f0", "is not JSON"),
        ({"names": NAMES}, "there are no features"),
        ([], "there are no features"),
        (["f0", {"class": "x"}], "feature 1 has no name"),
        (["f0", "f1", "f0"], "occur twice: f0"),
        ([{"name": "f0", "store": ["a"]}], "the store of feature 0 must be text"),
        ("[" * 100_000, "is not JSON"),
        ([{"name": "f0", "store": "a"}, {"name": "f1", "store": "b"}], "several stores"),
    ],
)
def test_invalid_feature_sets(content: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        read_feature_set(written(tmp_path, content))


def test_the_table_of_engines_is_the_registry() -> None:
    """docs/deploy.md has the table that tools/export_table.py writes."""
    tool = Path(__file__).parents[1] / "tools" / "export_table.py"
    names = runpy.run_path(str(tool))
    assert names["page"]() == names["PAGE"].read_text(), "run tools/export_table.py"
    engines = [support.engine for name in TARGETS for support in load_target(name).support]
    assert len(engines) == len(set(engines)) >= len(TARGETS)
