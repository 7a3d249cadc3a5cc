"""Write the files in tests/fixtures/saved, which hold the file format.

python tests/saved_files.py   # after a change that is meant to change the format
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rankwright import Ranker, RankingData, make_web_search, train_run

FOLDER = Path(__file__).parent / "fixtures" / "saved"
TRAIN, VALID = make_web_search(16, n_features=20, mean_length=12, random_state=1).split(0.3)
PROBE = {
    "bm25": [0.1, np.nan, -1.0, 2.0],
    "length": [3.0, 20.0, np.nan, 1.0],
    "kind": ["wiki", "shop", None, "news"],
}


def probe() -> pd.DataFrame:
    """Rows with missing values, to score."""
    return pd.DataFrame(PROBE | {"kind": pd.Categorical(PROBE["kind"])})


def log() -> pd.DataFrame:
    """Rows with a categorical column, to train on."""
    draw = np.random.default_rng(0)
    frame = pd.DataFrame({"bm25": draw.normal(size=90), "length": draw.integers(1, 30, 90) * 1.0})
    frame["kind"] = pd.Categorical(draw.choice(["news", "shop", "wiki"], 90))
    relevance = frame["bm25"] + (frame["kind"] == "news") + draw.normal(scale=0.5, size=90)
    frame["label"] = np.clip(np.round(relevance + 1), 0, 3)
    frame["query"] = np.repeat(np.arange(15), 6)
    return frame


def half_trained(checkpoint: Path, data: RankingData = TRAIN, **arguments: Any) -> Ranker:
    """Train, or go on with, the training of the checkpoint."""
    place = {"path": checkpoint, "trees": 1}
    options: dict[str, Any] = {"n_estimators": 12, "num_leaves": 4, "n_jobs": 1, "verbose": 0}
    options["min_child_samples"] = 5
    ranker = Ranker("lambdamart", checkpoint=place, **options)
    return ranker.fit(data, eval_set=[VALID], **arguments)


def write() -> None:
    """Write all files anew."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    options: dict[str, Any] = {"n_estimators": 6, "num_leaves": 5, "min_child_samples": 5}
    ranker = Ranker(metric=["ndcg@5", "map"], n_jobs=1, verbose=0, **options)
    ranker.fit(log(), "label", qid="query")
    ranker.save(FOLDER / "model")
    ranker.save(FOLDER / "model.zip")
    parameters = {**options, "n_jobs": 1}
    run = train_run(FOLDER / "run", TRAIN, VALID, parameters=parameters, verbose=0)
    half_trained(FOLDER / "checkpoint", callbacks=[lambda progress: progress.iteration == 7])
    whole = half_trained(FOLDER / "whole")
    shutil.rmtree(FOLDER / "whole")
    expected = {
        "scores": ranker.predict(probe()).tolist(),
        "contributions": ranker.predict(probe(), contributions=True).tolist(),
        "learning_rates": ranker.learning_rates_,
        "run_scores": run.ranker.predict(VALID)[:8].tolist(),
        "resumed_scores": whole.predict(VALID)[:8].tolist(),
    }
    (FOLDER / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    write()
