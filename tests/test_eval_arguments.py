"""The forms of evaluation sets in other libraries, and cutoffs as in ir_measures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import rankwright as rw
from rankwright.metrics import ERR, MRR, NDCG

DATA = rw.make_web_search(50, n_features=20, mean_length=12, random_state=4)
TRAIN, REST = DATA.split(0.4)
FIRST, SECOND = REST.split(0.5)


def curves(**arguments: Any) -> Any:
    ranker = rw.Ranker(n_estimators=3, min_child_samples=5, n_jobs=1, verbose=0)
    return ranker.fit(TRAIN.X, TRAIN.y, qid=TRAIN.qid, **arguments).evals_result_


def test_all_forms_of_one_set_agree() -> None:
    X, y, qid, group = FIRST.X, FIRST.y, FIRST.qid, FIRST.group
    expected = curves(eval_set=[(X, y, qid)])
    forms: list[dict[str, Any]] = [
        {"eval_X": X, "eval_y": y, "eval_qid": qid},
        {"eval_X": X, "eval_y": y, "eval_qid": [qid]},
        {"eval_X": X, "eval_y": y, "eval_qid": qid.tolist()},
        {"eval_X": X, "eval_y": y, "eval_group": group},
        {"eval_X": X, "eval_y": y, "eval_group": group.tolist()},
        {"eval_X": X, "eval_y": y, "eval_group": [group]},
        {"eval_X": (X,), "eval_y": (y,), "eval_group": [group]},
        {"eval_set": [(X, y)], "eval_qid": [qid]},
    ]
    for form in forms:
        assert curves(**form) == expected


def test_several_sets() -> None:
    sets = [FIRST, SECOND]
    expected = curves(eval_set=[(part.X, part.y, part.qid) for part in sets])
    both: dict[str, Any] = {
        "eval_X": tuple(part.X for part in sets),
        "eval_y": tuple(part.y for part in sets),
    }
    assert curves(**both, eval_qid=[part.qid for part in sets]) == expected
    assert curves(**both, eval_group=tuple(part.group for part in sets)) == expected
    pairs = [(part.X, part.y) for part in sets]
    assert curves(eval_set=pairs, eval_qid=[part.qid for part in sets]) == expected


def test_a_name_of_fit_also_names_the_column_of_the_set() -> None:
    def frame(part: rw.RankingData) -> pd.DataFrame:
        return pd.DataFrame(part.X).add_prefix("x").assign(query=part.qid)

    ranker = rw.Ranker(n_estimators=3, min_child_samples=5, n_jobs=1, verbose=0)
    ranker.fit(frame(TRAIN), TRAIN.y, qid="query", eval_X=frame(FIRST), eval_y=FIRST.y)
    assert ranker.evals_result_ == curves(eval_set=[FIRST])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"eval_set": [FIRST], "eval_X": FIRST.X, "eval_y": FIRST.y},
            "eval_X and eval_set are two",
        ),
        ({"eval_X": FIRST.X}, "eval_X and eval_y belong together"),
        ({"eval_y": FIRST.y}, "eval_X and eval_y belong together"),
        ({"eval_X": (FIRST.X,), "eval_y": FIRST.y}, "eval_X and eval_y belong together"),
        ({"eval_X": (FIRST.X,), "eval_y": (FIRST.y,) * 2}, "eval_y has 2 entries for 1 of eval_X"),
        ({"eval_X": FIRST.X, "eval_y": FIRST.y}, "eval_X needs its queries: give eval_qid"),
        ({"eval_set": [FIRST], "eval_qid": [FIRST.qid]}, "eval_qid must be a list with the query"),
        ({"eval_set": [(FIRST.X, FIRST.y)], "eval_qid": FIRST.qid}, "eval_qid must be a list"),
        (
            {"eval_set": [(FIRST.X, FIRST.y)], "eval_qid": [FIRST.qid], "eval_group": [[1]]},
            "eval_qid and eval_group both say the queries",
        ),
        ({"eval_X": FIRST.X, "eval_y": FIRST.y[1:], "eval_qid": FIRST.qid}, r"eval_set\[0\]"),
    ],
)
def test_refusals(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        curves(**arguments)


def test_cutoffs_by_an_operator() -> None:
    assert NDCG @ 10 == NDCG() @ 10 == NDCG(at=10) == rw.metric("ndcg@10")
    assert isinstance(MRR @ 5, MRR)
    assert ERR(gain="linear", label="margin") @ 5 == rw.metric("err(gain=linear)@5[margin]")
    assert rw.Ranker(metric=NDCG @ 3).get_params()["metric"] == NDCG(at=3)
    scores, labels = np.array([3.0, 2.0, 1.0]), np.array([0, 1, 2])
    assert (NDCG @ 2).of(scores=scores, labels=labels) == NDCG(at=2).of(
        scores=scores, labels=labels
    )


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: NDCG @ 0, "cutoff of ndcg must be a whole number from 1; got 0"),
        (lambda: (NDCG @ 5) @ 10, "ndcg@5 already has a cutoff"),
        (lambda: rw.metric("ndcg + mrr") @ 10, "a sum of metrics has no cutoff"),
    ],
)
def test_cutoffs_that_cannot_be(wrong: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        wrong()
