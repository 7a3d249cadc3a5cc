"""Systems are tuned like rankwright's own ranker."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from rankwright import evaluate
from rankwright.support.ranges import Range
from rankwright_lab.folds import Fold, folds_by_query
from rankwright_lab.harness import RankwrightSystem
from rankwright_lab.peers import SEARCH_SPACES, CatBoost, LightGBM, XGBoost
from rankwright_lab.tuning import tune_system
from small import TRAIN, VALID

FOLDS: list[Fold] = list(folds_by_query(TRAIN, 4))
QUICK: dict[str, Any] = {"target": "map", "trees": 20, "every": 10, "startup": 4}


def test_a_trial_whose_model_is_constant_has_the_value_of_tied_documents() -> None:
    fold = Fold("1", TRAIN, VALID, VALID)
    space = {"min_child_samples": 1000, "num_leaves": Range(4, 8)}
    system = partial(RankwrightSystem, "constant")
    tuning = tune_system(
        lambda values: system({"objective": "queryrmse", **values}),
        space,
        [fold],
        **QUICK,
        trials=2,
    )
    tied = evaluate(np.zeros(VALID.n_rows), VALID.y, qid=VALID.qid, metrics=[QUICK["target"]]).mean[
        QUICK["target"]
    ]
    assert tuning.best_trial.value == pytest.approx(tied)


@pytest.mark.parametrize(
    "peer",
    [
        LightGBM("lambdarank"),
        *(
            CatBoost(objective)
            for objective in ("YetiRank", "QueryRMSE", "StochasticRank:metric=NDCG;top=10")
        ),
        XGBoost("rank:ndcg"),
    ],
    ids=lambda peer: peer.name,
)
def test_peers_are_tuned_over_their_spaces(peer: Any) -> None:
    space = SEARCH_SPACES[type(peer).__name__.lower()]
    tuning = tune_system(
        lambda params: type(peer)(peer.objective, params),
        space,
        FOLDS[:1],
        target="ndcg@10",
        trials=2,
        trees=4,
        every=2,
    )
    assert tuning.best.keys() == space.keys()
    assert tuning.best_trial.trees in (2, 4)
