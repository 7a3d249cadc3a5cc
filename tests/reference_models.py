"""Trainings whose models must stay the same bit by bit, and what is recorded of each of them.

python tests/reference_models.py            # compare with tests/reference_models.json
python tests/reference_models.py --record   # after a change that is meant to change models

The training rows are in canonical order. Versions that had none take them as they are, so they give the same models.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from rankwright import Ranker, RankingData, make_web_search, read_letor

RECORD = Path(__file__).with_suffix(".json")
MQ2008 = Path(__file__).resolve().parents[2] / "shared" / "data" / "mq2008"
# What a tree decides by; the rest of its text (inner values, weights, counts) has no part in a score.
_DECIDES = re.compile(
    r"^(?:split_feature|threshold|decision_type|left_child|right_child|leaf_value|cat_boundaries|cat_threshold)=.*$",
    re.M,
)


def generated() -> tuple[RankingData, RankingData]:
    train, valid = make_web_search(60, random_state=5).split(0.3)
    return train, valid


def mq2008() -> tuple[RankingData, RankingData]:
    return read_letor(MQ2008 / "S1.txt"), read_letor(MQ2008 / "S2.txt")


def with_categories() -> tuple[RankingData, RankingData]:
    """Generated data with a category that matters, and with missing values."""

    def change(data: RankingData, seed: int) -> RankingData:
        draw = np.random.default_rng(seed)
        X = np.array(data.X, dtype=np.float64)
        X[draw.random(X.shape) < 0.1] = np.nan
        X[:, 3] = draw.integers(0, 12, len(X))
        y = np.minimum(data.y + (np.isin(X[:, 3], (2, 3, 7))), 4)
        return RankingData(X, y, qid=np.asarray(data.qid), categorical=[3])

    train, valid = generated()
    return change(train, 1), change(valid, 2)


def plain(**parameters: Any) -> Callable[[RankingData, RankingData], Ranker]:
    def run(train: RankingData, valid: RankingData) -> Ranker:
        return Ranker(**{"n_estimators": 25, "verbose": 0, **parameters}).fit(
            train, eval_set=[valid]
        )

    return run


def resumed(after: int, **parameters: Any) -> Callable[[RankingData, RankingData], Ranker]:
    def run(train: RankingData, valid: RankingData) -> Ranker:
        with tempfile.TemporaryDirectory() as folder:
            options = {"n_estimators": 25, "verbose": 0, "checkpoint": folder, **parameters}
            stop: Any = lambda progress: progress.iteration == after  # noqa: E731
            Ranker(**options).fit(train, eval_set=[valid], callbacks=[stop])
            return Ranker(**options).fit(train, eval_set=[valid])

    return run


def continued(train: RankingData, valid: RankingData) -> Ranker:
    """Trees added to an earlier model."""
    first = Ranker("lambdamart", n_estimators=8, verbose=0).fit(train)
    return Ranker("xendcg", n_estimators=8, verbose=0).fit(
        train, eval_set=[valid], init_model=first
    )


_LANGEVIN = {"objective": "stochasticrank", "langevin": {"temperature": 500.0, "shrink_rate": 0.05}}
_INDEPENDENT = {
    "objective": "stochasticrank",
    "langevin": {"temperature": 500.0, "shrink_rate": 0.05, "leaf_noise": "independent"},
}
TRAININGS: dict[
    str, tuple[Callable[[], tuple[RankingData, RankingData]], Callable[..., Ranker]]
] = {
    f"{data.__name__}: {name}": (data, run)
    for data in (generated, mq2008)
    for name, run in {
        "default": plain(),
        "default for map": plain(metric="map"),
        "lambdamart": plain(objective="lambdamart"),
        "stochasticrank with langevin": plain(**_LANGEVIN),
        "langevin with independent leaf noise": plain(**_INDEPENDENT),
        "yetirank with full leaves": plain(objective="yetirank", leaf_values="full"),
        "yetirank with diagonal leaves": plain(objective="yetirank", leaf_values="diagonal"),
        "resumed": resumed(11),
        "resumed, diagonal": resumed(13, objective="yetiloss", subsample=0.6),
    }.items()
} | {
    "categories and missing values": (with_categories, plain()),
    "categories, diagonal": (with_categories, plain(objective="xendcg", min_child_samples=5)),
    "several blocks of samples": (
        generated,
        plain(
            objective="queryrmse", n_estimators=530, num_leaves=3, learning_rate=0.02, subsample=0.5
        ),
    ),
    "samples at each node, resumed": (
        generated,
        resumed(23, objective="lambdamart", n_estimators=30, engine_params={"extra_trees": True}),
    ),
    "early stopping": (
        generated,
        plain(objective="lambdamart", n_estimators=200, early_stopping_rounds=10),
    ),
    "early stopping with the best tree": (
        generated,
        plain(
            objective="lambdamart", n_estimators=200, early_stopping_rounds=10, stopping_rule="best"
        ),
    ),
    "queries sampled": (
        generated,
        plain(objective="yetirank", subsample_queries=0.5, leaf_values="full"),
    ),
    "trees added to a model": (generated, continued),
}


def describe(name: str) -> dict[str, Any]:
    """Train, and hash what the trees decide by, scores, curves and importances; a few scores are kept in full."""
    data, run = TRAININGS[name]
    train, valid = data()
    train = train.canonical()
    ranker = run(train, valid)
    with tempfile.TemporaryDirectory() as folder:
        ranker.save(Path(folder) / "model")
        text = (Path(folder) / "model" / "model.txt").read_text()
    scores = ranker.predict(valid)
    return {
        "trees": _hash("\n".join(map(_exact, _DECIDES.findall(text))).encode()),
        "scores": _hash(ranker.predict(train).tobytes() + scores.tobytes()),
        "curves": _hash(
            json.dumps([ranker.evals_result_, ranker.learning_rates_], sort_keys=True).encode()
        ),
        "importances": _hash(ranker.feature_importances_.tobytes()),
        "contributions": _hash(ranker.predict(valid, contributions=True).tobytes()),
        "first scores": scores[:5].tolist(),
    }


def _exact(line: str) -> str:
    """Name the numbers of a line, however many digits they are written with."""
    name, numbers = line.split("=", 1)
    return " ".join([name, *(float(number).hex() for number in numbers.split())])


def machine() -> str:
    """What bits may depend on besides the package: the processor and the versions of the numeric libraries."""
    from importlib.metadata import version

    from threadpoolctl import threadpool_info

    blas = sorted(
        {
            f"{one['internal_api']} {one.get('architecture')}"
            for one in threadpool_info()
            if "architecture" in one
        }
    )
    return ", ".join(
        [*(f"{name} {version(name)}" for name in ("numpy", "numba", "lightgbm")), *blas]
    )


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


if __name__ == "__main__":
    described = {name: describe(name) for name in TRAININGS}
    if "--record" in sys.argv:
        RECORD.write_text(json.dumps({"machine": machine(), "models": described}, indent=1) + "\n")
    else:
        recorded = json.loads(RECORD.read_text())["models"]
        for name, seen in described.items():
            changed = [key for key in seen if seen[key] != recorded[name][key]]
            print(f"{name}: {'same' if not changed else 'differs in ' + ', '.join(changed)}")  # noqa: T201
