"""Objectives as values: text and back, sums, options, and errors that say what to do."""

import pickle

import numpy as np
import pytest

from own_objective import OwnLoss
from rankwright import Ranker, gradients, search_space
from rankwright.metrics import Metric
from rankwright.objectives import (
    OBJECTIVES,
    XENDCG,
    LambdaLoss,
    LambdaMART,
    ListNet,
    Objective,
    QueryRMSE,
    RankNet,
    SoftRank,
    StochasticRank,
    Sum,
    YetiLoss,
    YetiRank,
    bind,
    known_objectives,
    load_objective,
    objective,
)
from small import TRAIN, VALID

ONE = {"scores": [0.5, 0.2, 0.1], "labels": [0, 2, 1], "group": [3]}

VALUES = [
    QueryRMSE(),
    RankNet(sigma=2.0),
    LambdaMART(),
    LambdaMART(truncation="k+3", extend="all-static", selection="quota"),
    LambdaMART(noise="gumbel", strength=0.5, samples=3, normalize=True),
    LambdaLoss(variant="ndcg-loss2", loss2_offset="lambda-ex", truncation=5),
    LambdaLoss(mu=2.5, truncate_delta=True),
    YetiRank(decay=0.9),
    YetiLoss(neighbours="all", noise="none"),
    YetiLoss(permutations=3, strength=0.1),
    StochasticRank(sigma=0.1, mu=0.5, nu=0.0, estimations=3),
    StochasticRank(sfa=False, estimator="reinforce"),
    SoftRank(sigma=0.2),
    XENDCG(gamma=0.25, newton=False, epsilon=1e-6),
    ListNet(),
    YetiLoss(neighbours=3) + 0.5 * QueryRMSE(),
    QueryRMSE() * (1 / 3) + 1e20 * RankNet() + 1e-7 * ListNet(),
    LambdaMART(truncation="k+1").per_length() + 2 * SoftRank().per_length(-1),
]


@pytest.mark.parametrize("value", VALUES, ids=str)
def test_text_and_back(value):
    assert objective(str(value)) == value
    assert hash(objective(str(value))) == hash(value)
    assert pickle.loads(pickle.dumps(value)) == value
    assert objective(value) is value
    assert "metric" not in repr(value)


def test_every_name_is_known():
    for name in OBJECTIVES:
        kind = load_objective(name)
        assert objective(name) == kind()
        assert str(kind()) == name
        assert objective(name.upper()) == kind()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yetiloss + 0.5 queryrmse", YetiLoss() + 0.5 * QueryRMSE()),
        ("yetiloss+0.5*queryrmse", YetiLoss() + 0.5 * QueryRMSE()),
        (" 2 * n^-0.5 * yetiloss( neighbours = 3 ) ", 2 * YetiLoss(neighbours=3).per_length()),
        ("n^-0.5 queryrmse", QueryRMSE().per_length()),
        ("0.5 n^-1 queryrmse", 0.5 * QueryRMSE().per_length(-1)),
        ("1e-3 ranknet", 0.001 * RankNet()),
        (
            "lambdamart(truncation=k+3, extend=None) + listnet",
            LambdaMART(truncation="k+3") + ListNet(),
        ),
        ("lambdamart(normalize=true, truncation='k')", LambdaMART(normalize=True, truncation="k")),
        ("xendcg(newton=False, gamma=uniform)", XENDCG(newton=False)),
    ],
)
def test_reading(text, value):
    assert objective(text) == value


def test_values_compare_by_their_options():
    assert LambdaMART() != LambdaMART(sigma=2)
    assert YetiLoss() != YetiRank()
    assert QueryRMSE() + RankNet() != RankNet() + QueryRMSE()
    assert str(QueryRMSE() + 1 * RankNet()) == "queryrmse + ranknet"


def test_sums_add_gradients_and_curvatures():
    sizes, rows = [3, 2], ([0.5, 0.2, 0.1, 0.0, 0.3], [0, 2, 1, 1, 0])
    parts = [gradients(name, *rows, group=sizes) for name in ("ranknet", "queryrmse", "listnet")]
    total = gradients("2 ranknet + 0.5 n^-0.5 queryrmse + n^-1 listnet", *rows, group=sizes)
    n = np.repeat(sizes, sizes)
    for kind in (0, 1):
        wanted = 2 * parts[0][kind] + 0.5 * n**-0.5 * parts[1][kind] + parts[2][kind] / n
        np.testing.assert_allclose(total[kind], wanted, rtol=1e-12)


def test_a_factor_alone_is_a_sum():
    assert isinstance(objective("2 ranknet"), Sum)
    grad, hess = gradients("2 ranknet", **ONE)
    plain = gradients("ranknet", **ONE)
    np.testing.assert_array_equal(grad, 2 * plain[0])
    np.testing.assert_array_equal(hess, 2 * plain[1])
    np.testing.assert_array_equal((3 * (2 * RankNet())).terms()[0][0], 6)


def test_summands_draw_noise_of_their_own():
    one = gradients("yetiloss", **ONE)[0]
    two = gradients("yetiloss + yetiloss", **ONE)[0]
    assert not np.allclose(two, 2 * one)
    three = gradients(YetiLoss(noise="none") + YetiLoss(noise="none"), **ONE)[0]
    np.testing.assert_array_equal(three, 2 * gradients("yetiloss", noise="none", **ONE)[0])


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("lambdamrt", {}, "unknown objective 'lambdamrt'; did you mean 'lambdamart'"),
        ("zzz", {}, "unknown objective 'zzz'. Known: .*lambdaloss, lambdamart"),
        ("", {}, "is not an objective"),
        ("yetiloss +", {}, "is not an objective"),
        ("-1 queryrmse", {}, "is not an objective"),
        ("0 queryrmse", {}, "factor of queryrmse must be above 0"),
        ("yetiloss(neighbours)", {}, "option 'neighbours' of yetiloss has no value"),
        (
            "yetiloss(neighbours=1, neighbours=2)",
            {},
            "yetiloss has the option neighbours twice; give it once",
        ),
        (
            "yetiloss(neighbours=1)",
            {"neighbours": 2},
            "has the option neighbours twice, in the text and as a keyword",
        ),
        ("lambdamart", {"truncaton": 3}, "has no option 'truncaton'; did you mean 'truncation'"),
        ("queryrmse", {"sigma": 3}, "queryrmse has no option 'sigma'.*Its options: label"),
        ("ranknet", {"noise": "gumbel"}, "ranknet has no option 'noise'.*Its options: sigma"),
        ("yetiloss + queryrmse", {"neighbours": 3}, "a sum takes its options in the text"),
        (
            YetiLoss(),
            {"neighbours": 3},
            "options neighbours cannot be added to an Objective; give them",
        ),
        ("ranknet", {"sigma": 0}, "ranknet: sigma must be a number, above 0; got 0"),
        ("ranknet", {"sigma": "steep"}, "ranknet: sigma must be a number"),
        ("ranknet", {"sigma": True}, "ranknet: sigma must be a number"),
        ("lambdamart", {"sigma": float("nan")}, "sigma must be a number"),
        (
            "lambdamart",
            {"truncation": 0},
            "truncation must be a whole number from 1, 'k', 'k.3' or None; got 0",
        ),
        ("lambdamart", {"truncation": 2.5}, "truncation must be a whole number"),
        ("lambdamart", {"truncation": [3]}, "truncation must be a whole number"),
        ("lambdamart", {"truncation": True}, "truncation must be a whole number"),
        ("lambdamart", {"truncation": "k-1"}, "truncation must be a whole number"),
        ("lambdamart", {"truncation": "k"}, "truncation='k' needs a metric with a cutoff"),
        ("lambdamart", {"extend": "some"}, "extend must be one of 'static', 'random', 'all'"),
        ("lambdamart", {"extend": "static"}, "extend='static' needs to know the top it extends"),
        ("lambdamart", {"selection": "quota"}, "needs extend="),
        (
            "lambdamart",
            {"selection": "both", "extend": "all"},
            "selection must be one of 'paper', 'literal', 'quota'",
        ),
        ("lambdamart", {"normalize": "yes"}, "normalize must be one of True, False"),
        ("lambdamart", {"truncate_delta": 3}, "truncate_delta must be one of True, False"),
        (
            "lambdamart",
            {"noise": "cauchy"},
            "noise must be one of 'none', 'logistic', 'gaussian', 'gumbel'",
        ),
        (
            "yetirank",
            {"truncate_delta": False},
            "truncate_delta has no meaning for a metric without a cutoff",
        ),
        ("lambdamart", {"strength": 2.0}, "belong to noise, which is 'none'"),
        ("lambdamart", {"noise": "gumbel", "strength": -0.1}, "strength must be a number, "),
        ("lambdamart", {"noise": "gumbel", "samples": 0}, "samples must be a whole number from 1"),
        ("lambdaloss", {"variant": "ndcg-loss3"}, "variant must be one of 'ndcg-loss1'"),
        ("lambdaloss", {"mu": -1}, "mu must be a number, above 0"),
        ("lambdaloss", {"variant": "ndcg-loss2", "mu": 3}, "mu belongs to variant='ndcg-loss2..'"),
        (
            "lambdaloss",
            {"variant": "ndcg-loss1", "loss2_offset": "lambda-ex"},
            "loss2_offset has no meaning",
        ),
        (
            "lambdaloss",
            {"variant": "ndcg-loss2", "truncate_delta": True},
            "truncate_delta has no meaning",
        ),
        ("lambdaloss", {"loss2_offset": "none"}, "loss2_offset must be one of"),
        ("yetiloss", {"neighbours": 0}, "neighbours must be a whole number from 1"),
        ("yetiloss", {"neighbours": "some"}, "neighbours must be a whole number from 1"),
        ("yetiloss", {"permutations": 1.5}, "permutations must be a whole number from 1"),
        ("yetiloss", {"noise": "none", "strength": 2}, "belong to noise, which is 'none'"),
        ("yetirank", {"decay": 1.0}, "needs decay strictly between 0 and 1"),
        ("stochasticrank", {"sigma": -1}, "stochasticrank: sigma must be a number, above 0"),
        ("stochasticrank", {"mu": -0.5}, "mu must be a number, 0 or more"),
        ("stochasticrank", {"nu": float("inf")}, "nu must be a number, 0 or more"),
        ("stochasticrank", {"nu": 1.0, "sfa": False}, "nu belongs to sfa, which is off"),
        ("stochasticrank", {"estimations": 0}, "estimations must be a whole number from 1"),
        ("stochasticrank", {"sfa": "yes"}, "sfa must be one of True, False"),
        ("stochasticrank", {"estimator": "exact"}, "estimator must be one of 'ccs', 'reinforce'"),
        ("softrank", {"sigma": 0}, "softrank: sigma must be a number, above 0"),
        ("xendcg", {"gamma": 2}, "gamma must be 'uniform' or a number from 0 to 1"),
        ("xendcg", {"gamma": "normal"}, "gamma must be 'uniform' or a number from 0 to 1"),
        ("xendcg", {"epsilon": 0}, "epsilon must be"),
        ("xendcg", {"epsilon": 1e-30}, "epsilon must be from 1e-15"),
        ("xendcg", {"newton": "maybe"}, "newton must be True or False"),
    ],
)
def test_errors(name, options, message):
    with pytest.raises(ValueError, match=message):
        gradients(name, **ONE, **options)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_options_may_be_numbers_of_numpy():
    """A search over np.arange gives such."""
    plain = gradients("yetiloss", **ONE, neighbours=2, strength=0.5)
    given = gradients("yetiloss", **ONE, neighbours=np.int64(2), strength=np.float32(0.5))
    np.testing.assert_array_equal(plain, given)
    given = gradients("lambdamart", **ONE, truncation=np.int64(1), sigma=np.float32(2))
    np.testing.assert_array_equal(given, gradients("lambdamart", **ONE, truncation=1, sigma=2))


def test_a_users_own_objective_is_used_by_name():
    assert (
        objective("own-loss(shift=2)")
        == OwnLoss(shift=2)
        == pickle.loads(pickle.dumps(OwnLoss(shift=2)))
    )
    assert objective(str(OwnLoss(note="3, 'x'"))) == OwnLoss(note="3, 'x'")
    assert known_objectives()["own-loss"] is OwnLoss
    assert "own-loss" not in OBJECTIVES
    assert gradients("own-loss(shift=2)", [0, 1], [1, 0], group=[2])[0].tolist() == [-3.0, -1.0]
    total = gradients("2 own-loss + ranknet", **ONE)[0]
    np.testing.assert_allclose(
        total, 2 * gradients(OwnLoss(), **ONE)[0] + gradients("ranknet", **ONE)[0]
    )
    with pytest.raises(ValueError, match=r"did you mean 'own-loss\(shift=2\)'"):
        objective("own-los(shift=2)")
    with pytest.raises(ValueError, match="own-loss has no full curvature"):
        bind("own-loss", [1, 0], group=[2]).leaf_system([0.0, 1.0], [0, 1], 2)


def test_a_ranker_is_trained_and_tuned_with_a_users_own_objective():
    space = search_space("own-loss")
    assert (space["own-loss.shift"], space["leaf_values"]) == (OwnLoss.search["shift"], "diagonal")
    options = {"n_estimators": 3, "n_jobs": 1, "verbose": 0}
    named, valued = (
        Ranker(given, **options).fit(TRAIN) for given in ("own-loss(shift=2)", OwnLoss(shift=2))
    )
    assert named.objective_ == OwnLoss(shift=2)
    np.testing.assert_array_equal(named.predict(VALID), valued.predict(VALID))
    assert np.ptp(named.predict(VALID)) > 0


def test_a_name_that_is_taken_is_refused():
    for name in ("RankNet", "Theirs"):
        with pytest.raises(
            ValueError, match=f"{name} cannot be named 'ranknet', the name of rankwright.*RankNet"
        ):
            type(name, (Objective,), {"name": "ranknet"})
    with pytest.raises(
        ValueError, match=r"Theirs cannot be named 'ndcg', the name of rankwright.metrics.*NDCG"
    ):
        type("Theirs", (Metric,), {"name": "ndcg"})
    with pytest.raises(ValueError, match="'auto' cannot be the name of an objective"):
        type("Theirs", (Objective,), {"name": "auto"})
    assert objective("ranknet") == RankNet()


@pytest.mark.parametrize("metric", ["err", "mrr", "map", "pfound", "success@2"])
def test_lambdaloss_refuses_cascades(metric):
    with pytest.raises(ValueError, match=r"metrics that add up over positions.*Use lambdamart"):
        gradients("lambdaloss", **ONE, metric=metric)


@pytest.mark.parametrize("name", ["lambdamart", "lambdaloss", "yetiloss", "softrank"])
def test_selections_are_for_stochasticrank(name):
    with pytest.raises(
        ValueError, match=r"selects documents instead of ordering them.*use stochasticrank"
    ):
        gradients(name, **ONE, metric="dcg-rr")
    with pytest.raises(ValueError, match="mu is for ties"):
        gradients("stochasticrank", **ONE, metric="dcg-rr", mu=1)


@pytest.mark.parametrize("factor", [0, -1, float("inf"), "2"])
def test_factors_are_positive_numbers(factor):
    with pytest.raises(ValueError, match="multiplied by a positive number"):
        factor * QueryRMSE()


def test_only_objectives_are_added():
    with pytest.raises(TypeError, match="unsupported operand"):
        QueryRMSE() + 1


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([1, 2], r"scores have shape \(2,\) for 3 rows"),
        ([[1, 2, 3]], r"scores have shape \(1, 3\)"),
        ([1, np.nan, 2], "a score is nan.*row 1, query 0"),
        ([1.7e308, 2, 3], "a score is 1.7e.308.*between -1e300 and 1e300"),
        ([1, 2, -np.inf], "a score is -inf.*row 2.*Lower the learning rate"),
    ],
)
def test_scores_are_checked(scores, message):
    call = bind("ranknet", [0, 1, 2], group=[3])
    with pytest.raises(ValueError, match=message):
        call(scores)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"labels": [0, -1, 1]}, "labels must be finite and non-negative"),
        ({"group": None}, "no query ids"),
        ({"group": [2]}, "group adds up to 2 rows but there are 3"),
        ({"sample_weight": [1, 2]}, "weights have shape"),
        ({"n_jobs": 0}, "n_jobs must be a whole number from 1 to 1024; got 0"),
        ({"metric": "ngcd"}, "unknown metric 'ngcd'"),
    ],
)
def test_other_arguments_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        gradients("lambdamart", **{**ONE, **arguments})
