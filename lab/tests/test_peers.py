"""The peers: what each library is given, and that stages add up to its own prediction."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import xgboost

from rankwright import RankingData, make_web_search
from rankwright_lab.bench import choose_systems, preset_systems, run_bench
from rankwright_lab.peers import (
    CatBoost,
    LightGBM,
    Peer,
    XGBoost,
    YetiRankByMetric,
    gradient_seconds,
    peers,
)
from rankwright_lab.tuning import tune_system

TRAIN, TEST = make_web_search(
    30, kind="short", n_features=20, mean_length=15, random_state=5
).split(0.3)
TREES = 7


def fit(system: Any, data: RankingData = TRAIN, seed: int = 0) -> Any:
    return system.fit(data, "ndcg@10", trees=TREES, seed=seed, threads=1)


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    return {peer.name: fit(peer) for peer in peers()}


def test_all_peers_of_the_three_libraries() -> None:
    assert [peer.name for peer in peers()] == [
        "lightgbm lambdarank",
        "lightgbm rank_xendcg",
        "catboost YetiRank",
        "catboost YetiRank by metric",
        "catboost QueryRMSE",
        "catboost StochasticRank:metric=NDCG;top=10",
        "xgboost rank:ndcg",
        "xgboost rank:map",
        "xgboost rank:pairwise",
    ]


@pytest.mark.parametrize("name", [peer.name for peer in peers()])
@pytest.mark.parametrize("every", [1, 3, TREES, 100])
def test_stages_end_at_the_library_s_own_prediction(
    models: dict[str, Any], name: str, every: int
) -> None:
    model = models[name]
    stages = list(model.staged_predict(TEST, every))
    assert len(stages) == -(-TREES // every)
    assert np.ptp(stages[-1]) > 0
    if name.startswith("xgboost"):
        own = model.booster.predict(xgboost.DMatrix(TEST.X), output_margin=True)
    else:
        own = (model.booster if name.startswith("lightgbm") else model.model).predict(TEST.X)
    difference = stages[-1] - own
    # Each block of XGBoost's trees includes the base score, which is the same for all documents.
    assert np.ptp(difference) < 1e-5 * np.ptp(own) + 1e-7
    halves = list(model.staged_predict(TEST, 1))[every - 1 : TREES : every]
    for stage, same in zip(stages, halves, strict=False):
        assert np.ptp(stage - same) < 1e-5


@pytest.mark.parametrize("peer", peers(), ids=lambda peer: peer.name)
def test_whether_the_seed_matters(models: dict[str, Any], peer: Peer) -> None:
    *_, zero = models[peer.name].staged_predict(TEST, TREES)
    *_, one = fit(peer, seed=1).staged_predict(TEST, TREES)
    assert np.array_equal(zero, one) == (not getattr(peer, "by_seed", True))


@pytest.mark.parametrize("name", [peer.name for peer in peers()])
def test_peers_learn(models: dict[str, Any], name: str) -> None:
    *_, scores = models[name].staged_predict(TRAIN, TREES)
    assert np.corrcoef(scores, TRAIN.y)[0, 1] > 0.1


@pytest.mark.parametrize(
    ("metric", "mode"),
    [
        ("ndcg@10", "YetiRank:mode=NDCG;top=10"),
        ("map", "YetiRank:mode=MAP"),
        ("mrr", "YetiRank:mode=MRR"),
        ("err@5", "YetiRank:mode=ERR;top=5"),
        ("rbp", "YetiRank"),
    ],
)
def test_the_mode_follows_the_metric(metric: str, mode: str) -> None:
    system = YetiRankByMetric({"depth": 2}).for_metric(metric)
    assert (system.objective, system.params) == (mode, {"depth": 2})
    by_metric = YetiRankByMetric({"depth": 2}).fit(TRAIN, metric, trees=2, seed=1, threads=1)
    direct = system.fit(TRAIN, metric, trees=2, seed=1, threads=1)
    assert np.array_equal(
        *(list(model.staged_predict(TEST, 2))[-1] for model in (by_metric, direct))
    )


def test_parameters_reach_the_libraries() -> None:
    given = {"lightgbm": {"num_leaves": 3}, "catboost": {"depth": 2}, "xgboost": {"max_depth": 2}}
    small = {peer.name: peer for peer in peers(given)}
    assert fit(small["lightgbm lambdarank"]).booster.dump_model()["tree_info"][0]["num_leaves"] == 3
    stochastic = fit(small["catboost StochasticRank:metric=NDCG;top=10"]).model
    assert stochastic.get_all_params()["depth"] == 2
    assert stochastic.get_all_params()["langevin"] is True
    trees = fit(small["xgboost rank:ndcg"]).booster.get_dump()
    assert max(line.count("\t") for tree in trees for line in tree.splitlines()) == 2


@pytest.mark.parametrize(
    "peer",
    [LightGBM("rank_xendcg"), CatBoost("YetiRank"), XGBoost("rank:ndcg", {"subsample": 0.5})],
)
def test_the_seed_is_the_library_s(peer: Peer) -> None:
    first, same, other = (
        list(fit(peer, seed=seed).staged_predict(TEST, TREES))[-1] for seed in (1, 1, 2)
    )
    assert np.array_equal(first, same)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize(
    "peer", [LightGBM("lambdarank"), CatBoost("QueryRMSE"), XGBoost("rank:pairwise")]
)
def test_sparse_rows_are_supported(peer: Peer) -> None:
    filled = np.nan_to_num(TRAIN.X)
    sparse = RankingData(sp.csr_matrix(filled), TRAIN.y, group=TRAIN.group)
    assert np.isfinite(list(fit(peer, sparse).staged_predict(sparse, TREES))[-1]).all()


def labelled(label: float, longest: int = 10) -> RankingData:
    """Return data of labels 0 and another one, with queries of ten documents and one of another length."""
    group = [longest, *[10] * 20]
    labels = np.where(np.arange(sum(group)) % 5, 0, label)
    return RankingData(np.random.default_rng(0).normal(size=(len(labels), 2)), labels, group=group)


@pytest.mark.parametrize(
    ("peer", "supported", "unsupported", "problem"),
    [
        (
            LightGBM("lambdarank"),
            labelled(1, 10_000),
            labelled(1, 10_001),
            "at most 10000 documents, but one has 10001",
        ),
        (
            LightGBM("lambdarank"),
            labelled(30),
            labelled(31),
            "labels are at most 30, but one is 31",
        ),
        (
            LightGBM("lambdarank"),
            labelled(1),
            labelled(0.5),
            "labels are whole numbers, but one is 0.5",
        ),
        (XGBoost("rank:ndcg"), labelled(31), labelled(32), "labels are at most 31, but one is 32"),
        (
            XGBoost("rank:ndcg"),
            labelled(1),
            labelled(0.5),
            "labels are whole numbers, but one is 0.5",
        ),
    ],
    ids=[
        "long query",
        "large label",
        "fractional label",
        "large label of XGBoost",
        "fractional label of XGBoost",
    ],
)
def test_declared_limits_are_those_of_the_library(
    peer: Any, supported: RankingData, unsupported: RankingData, problem: str
) -> None:
    fit(peer, supported)
    with pytest.raises(ValueError, match=f"{peer.name} cannot train on these data: .*{problem}"):
        fit(peer, unsupported)
    with pytest.raises(Exception, match=r"(?i)label|relevance|query"):
        peer._train(unsupported, TREES, 0, 1)


@pytest.mark.parametrize(
    "peer",
    [peer for peer in peers() if peer.name not in ("lightgbm lambdarank", "xgboost rank:ndcg")]
    + [
        XGBoost("rank:ndcg", {"ndcg_exp_gain": False}),
        LightGBM("lambdarank", {"label_gain": list(range(41))}),
    ],
    ids=lambda peer: str(peer.name),
)
def test_peers_without_limits(peer: Any) -> None:
    fit(peer, labelled(40))
    if not peer.name.endswith("lambdarank"):
        fit(peer, labelled(0.5))
    if peer.name in ("lightgbm rank_xendcg", "xgboost rank:map"):
        fit(peer, labelled(1, 10_001))


@pytest.mark.parametrize("peer", peers(), ids=lambda peer: str(peer.name))
def test_gradient_time_is_measured_for_every_peer(peer: Peer) -> None:
    assert np.isfinite(gradient_seconds(peer, TRAIN, "ndcg@10", threads=1, rounds=1))


def test_an_expensive_objective_has_a_longer_gradient_time_than_a_cheap_one() -> None:
    rng = np.random.default_rng(0)
    n = 3000
    data = RankingData(rng.normal(size=(n, 3)), rng.integers(0, 5, n), group=[n])
    # All pairs of 3000 documents, 1500 times as many as those of the first one.
    full, cut = (LightGBM("lambdarank", {"lambdarank_truncation_level": level}) for level in (n, 1))
    assert gradient_seconds(full, data, "ndcg", threads=1) > max(
        gradient_seconds(cut, data, "ndcg", threads=1), 0
    )


def test_a_missing_library_is_named_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xgboost", None)
    message = "xgboost rank:ndcg needs xgboost, which is not installed: pip install xgboost"
    with pytest.raises(ImportError, match=message):
        fit(XGBoost("rank:ndcg"))
    with pytest.raises(ImportError, match=message):
        run_bench(choose_systems(preset_systems(), ["rankwright", "xgboost"]), {})
    with pytest.raises(ImportError, match=message):
        tune_system(
            lambda params: XGBoost("rank:ndcg", params), {"eta": 0.1}, [], target="map", trials=1
        )


def test_peers_declare_their_libraries() -> None:
    for peer in peers():
        (library,) = peer.libraries
        assert peer.name.startswith(library.name)
        assert library.installed
        assert library.version == version(library.name)
