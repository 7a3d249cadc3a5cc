"""The commands ``export`` and ``verify-export``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwright as rw
from export_models import QID, X, Y
from small import quick


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on data with missing values, a saved model on data without, and the data of both."""
    import pandas as pd

    place = tmp_path_factory.mktemp("export")
    for name, values in (("missing", X), ("full", np.nan_to_num(X))):
        frame = pd.DataFrame(values, columns=[f"f{column}" for column in range(5)])
        frame.assign(label=Y, qid=QID).to_csv(place / f"{name}.csv", index=False)
    data = rw.read_data(place / "missing.csv")
    rw.train_run(
        place / "run",
        data,
        parameters={"n_estimators": 8, "n_jobs": 1, "learning_rate": 0.1},
        verbose=0,
    )
    quick(n_estimators=4).fit(np.nan_to_num(X), Y, qid=QID).save(place / "saved")
    return place


def test_export_and_verify(
    call: Callable[..., Any], folder: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("export", folder / "run", "--to", "opensearch") == (
        0,
        f"wrote opensearch-ltr.json (8 trees, {size()} bytes)\n",
        "",
    )
    code, out, err = call(
        "verify-export",
        "opensearch-ltr.json",
        "--model",
        folder / "run",
        "--data",
        folder / "missing.csv",
    )
    assert (code, err) == (0, "")
    assert out.startswith("opensearch: exact\nrows                800\nprobes              ")
    assert "order changes       0" in out


def size() -> str:
    return f"{Path('opensearch-ltr.json').stat().st_size:,}"


def test_json_and_exit_code(call: Callable[..., Any], folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "model.txt"
    code, out, err = call("export", folder / "run", "--to", "ranklib", "--out", file)
    assert code == 0
    assert "rankwright: warning: RankLib reads a missing value as 0: " in err
    verify = (
        "verify-export",
        file,
        "--to",
        "ranklib",
        "--model",
        folder / "run",
        "--data",
        folder / "missing.csv",
    )
    code, out, err = call(*verify, "--json")
    result = json.loads(out)
    assert (code, result["exact"], result["rows"]) == (1, False, 800)
    assert 0 < result["different"] == result["different_with_missing"]
    assert result["probes"] > 500
    code, out, _ = call(*verify)
    assert (code, out.splitlines()[0]) == (1, "ranklib: NOT exact")


def test_versions_and_feature_sets(call: Callable[..., Any], folder: Path, tmp_path: Path) -> None:
    features, file = tmp_path / "set.json", tmp_path / "model"
    features.write_text(json.dumps(["f4", "f3", "f2", "f1", "f0"]))
    saved, data = folder / "saved", folder / "full.csv"
    common = ("--target-version", "3.4")
    assert call("export", saved, "--to", "opensearch", "--out", file, *common)[0] == 0
    verify = ("verify-export", file, "--model", saved, "--data", data, "--to")
    assert call(*verify, "opensearch", *common)[0] == 0
    assert (
        call("export", saved, "--to", "ranklib", "--out", file, "--feature-set", features)[0] == 0
    )
    assert call(*verify, "ranklib", "--feature-set", features)[0] == 0
    assert call(*verify, "ranklib")[0] == 1  # features have other numbers
    features.write_text(json.dumps(["f4", "other"]))
    code, _, err = call("export", saved, "--to", "solr", "--out", file, "--feature-set", features)
    assert code == 1
    assert "Missing from the set: f0, f1, f2, f3. Unknown to the model: other." in err


def test_name(call: Callable[..., Any], folder: Path, tmp_path: Path) -> None:
    assert (
        call("export", folder / "saved", "--to", "solr", "--out", tmp_path / "m", "--name", "shop")[
            0
        ]
        == 0
    )
    assert json.loads((tmp_path / "m").read_text())["name"] == "shop"


@pytest.mark.parametrize(
    ("target", "content"),
    [
        ("opensearch", b"[]"),
        ("opensearch", b"{"),
        ("solr", b'{"class": "Linear"}'),
        ("vespa", b"[1]"),
        ("elastic", b"{}"),
        ("ranklib", b"\xff"),
        ("ranklib", b"## LambdaMART\n<ensemble>"),
    ],
)
def test_other_files_are_refused(
    target: str, content: bytes, call: Callable[..., Any], folder: Path, tmp_path: Path
) -> None:
    file = tmp_path / "model"
    file.write_bytes(content)
    code, out, err = call(
        "verify-export",
        file,
        "--to",
        target,
        "--model",
        folder / "saved",
        "--data",
        folder / "full.csv",
    )
    assert (code, out) == (1, "")
    assert err.startswith(f"rankwright: {file}: ")
    assert err.count("\n") == 1


def test_unknown_target(call: Callable[..., Any], folder: Path) -> None:
    code, _, err = call("export", folder / "saved", "--to", "lucene")
    assert (code, "'lucene' is not a target; choose one of opensearch, " in err) == (1, True)


def test_evaluators_and_versions(call: Callable[..., Any], folder: Path, tmp_path: Path) -> None:
    file, run, data = tmp_path / "model", folder / "run", folder / "missing.csv"
    chosen = ("--to", "vespa", "--evaluator", "vmforest")
    code, _, err = call("export", run, "--out", file, *chosen)
    assert (code, "thresholds are written as 32-bit numbers" in err) == (0, True)
    verify = ("verify-export", file, "--model", run, "--data", data)
    code, out, _ = call(*verify, *chosen)
    assert (code, "left out            0 " in out) == (0, False)
    assert call(*verify, "--to", "vespa", "--evaluator", "llvm")[0] == 1
    plugin = ("--to", "elasticsearch-ltr")
    assert call("export", run, "--out", file, *plugin)[0] == 0
    assert call(*verify, *plugin)[0] == 0
    assert call(*verify, *plugin, "--target-version", "8.11.3")[0] == 1
    code, _, err = call(*verify, "--to", "solr", "--evaluator", "llvm")
    assert (code, "--evaluator changes nothing for solr" in err) == (1, True)
