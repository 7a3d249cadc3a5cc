"""Write the golden models of this version: saved models that every later version loads, and their scores.

python tests/golden_models.py   # once for each version that is released; files of earlier versions stay as they are
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import rankwright as rw
from saved_files import log

FOLDER = Path(__file__).parent / "fixtures" / "golden"
SMALL: dict[str, Any] = {
    "n_estimators": 6,
    "num_leaves": 5,
    "min_child_samples": 5,
    "n_jobs": 1,
    "verbose": 0,
}
LINEAR: dict[str, Any] = {"start": "linear"}
MODELS: dict[str, dict[str, Any]] = {
    "lightgbm": {},
    "xgboost": {"engine": "xgboost"},
    "zeros as missing": {"engine_params": {"zero_as_missing": True}},
    "within query": {"within_query": ["rank", "z", "gap", "share", "mean", "max", "rrf"]},
    "linear start": {**LINEAR, "within_query": {"bm25": "z"}},
    "start on single documents": {"start": "linear-global", "members": 2},
    "members": {**LINEAR, "members": 3, "subsample": 0.7},
    "base score": {},
    "calibrated": {},
}
START = "before"  # the column of base scores


def training_rows() -> pd.DataFrame:
    """Rows with missing values, zeros, a category and base scores."""
    frame = log()
    frame.loc[::6, "bm25"] = np.nan
    frame.loc[::4, "length"] = 0.0
    frame.loc[::9, "kind"] = None
    frame["query"] = np.arange(len(frame)) // 4
    return frame.assign(**{START: np.linspace(-1.0, 1.0, len(frame)).round(3)})


def write() -> None:
    """Write the models, the rows to score and the scores."""
    target = FOLDER / ".".join(rw.__version__.split(".")[:2])
    target.mkdir(parents=True, exist_ok=True)
    frame = training_rows()
    rows = frame.drop(columns="label").iloc[:24]
    columns = {name: rows[name].astype(object).where(rows[name].notna(), None) for name in rows}
    columns["kind"].iloc[2] = "a category of later years"
    recorded = {"rows": {name: values.tolist() for name, values in columns.items()}, "scores": {}}
    for name, parameters in MODELS.items():
        data = frame if name == "base score" else frame.drop(columns=START)
        ranker = rw.Ranker(**{**SMALL, **parameters})
        ranker.fit(data, "label", qid="query", base_score=START if name == "base score" else None)
        if name == "calibrated":
            ranker.calibrate(data, "label", qid="query", folds=3)
        ranker.save(target / f"{name}.zip")
        recorded["scores"][name] = [score.hex() for score in scores_of(ranker.model_, recorded)]
    (target / "expected.json").write_text(json.dumps(recorded, indent=1) + "\n")


def rows_of(recorded: dict[str, Any], model: Any) -> pd.DataFrame:
    """Return the recorded rows, with the columns that a model was trained on."""
    frame = pd.DataFrame(recorded["rows"])
    numbers = [name for name in frame if name != "kind"]
    frame = frame.astype(dict.fromkeys(numbers, float)).astype({"kind": "category"})
    if model.manifest.get("base_score") is None:
        return frame.drop(columns=START)
    return frame


def scores_of(model: Any, recorded: dict[str, Any]) -> list[float]:
    """Return the scores of the rows, calibrated if the model is."""
    options: dict[str, Any] = {}
    if getattr(model, "calibration", None) is not None:
        options["calibrated"] = True
    scores: list[float] = model.predict(rows_of(recorded, model), **options).tolist()
    return scores


if __name__ == "__main__":
    write()
