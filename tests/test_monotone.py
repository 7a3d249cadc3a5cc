"""Monotone constraints: a constrained column never moves a score the wrong way, for any model and any document."""

from __future__ import annotations

from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import lsq_linear, nnls

import rankwright as rw
from rankwright import Ranker, RankingData
from rankwright.cli import main
from rankwright.engines import ENGINES
from rankwright.kernels.cholesky import solve_positive
from rankwright.kernels.ordered import solve_ordered
from rankwright.training import monotone
from rankwright.training.linear import signed_solution
from rankwright.training.monotone import leaf_order
from small import quick
from test_engine_contract import score_by_walking

SIGNS = {"a": 1, "b": -1, "c": 1}

# Probes lie far outside of the training data on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:X has no names of columns")


def hard(seed: int = 1, n_queries: int = 30) -> RankingData:
    """Missing values, many zeros, a category, and labels that contradict the constraints of half of the rows."""
    draw = np.random.default_rng(seed)
    n = 12 * n_queries
    X = np.round(draw.normal(size=(n, 5)), 2)
    X[draw.random(n) < 0.3, 0] = np.nan
    X[draw.random(n) < 0.6, 1] = 0.0
    X[:, 3] = draw.integers(0, 6, n)
    signal = 0.5 * np.nan_to_num(X[:, 0]) * draw.choice([-1, 1], n) - X[:, 1] * np.sign(X[:, 2])
    y = np.clip(np.round(signal + (X[:, 3] > 2) + 0.5 * draw.normal(size=n) + 1), 0, 4)
    return RankingData(
        X, y, group=[12] * n_queries, categorical=[3], feature_names=["a", "b", "c", "d", "e"]
    )


DATA = hard()


# Labels that rise with the first column and fall with the second.
TREND = RankingData(
    DATA.X,
    np.clip(np.round(2 + np.nan_to_num(DATA.X[:, 0]) - DATA.X[:, 1]), 0, 4),
    group=DATA.group,
    categorical=[3],
    feature_names=DATA.feature_names,
)


def ranker(**changes: Any) -> Ranker:
    return quick(**{"n_estimators": 15, "num_leaves": 24, "learning_rate": None, **changes})


def wrong_moves(fitted: Any, data: RankingData = DATA, signs: dict[str, int] = SIGNS) -> int:
    """Count pairs of probes that differ in one constrained column alone and are scored in the wrong order."""
    draw = np.random.default_rng(5)
    rows = np.array(data.X.todense() if sp.issparse(data.X) else data.X)
    rows = rows[draw.integers(0, len(rows), 200)]
    rows[draw.random(rows.shape) < 0.1] = np.nan
    wrong = 0
    for name, sign in signs.items():
        column = data.feature_names.index(name)
        special = [-1e300, -1e-36, -0.0, 1e-36, 1e300]
        values = np.unique([*special, *draw.normal(size=15), *np.round(draw.normal(size=10), 2)])
        scores = []
        for value in values:
            rows[:, column] = value
            scores.append(sign * fitted.predict(rows))
        wrong += int(np.sum(np.diff(scores, axis=0) < 0))
    return wrong


def test_coefficients_of_a_linear_start_keep_the_signs() -> None:
    """Signs against the data set coefficients to 0; the others are those of bounded least squares."""
    free = ranker(start="linear").fit(TREND).linear_
    by_name = dict(zip(free.features.names, free.coefficients.tolist(), strict=True))
    wrong = {name: -int(np.sign(by_name[f"{name} [rank]"])) for name in ("a", "b")}
    assert all(wrong.values())
    held = ranker(start="linear", monotone=wrong).fit(TREND).linear_
    names, kinds = np.array(held.features.sources), np.array(held.features.names)
    for name, sign in wrong.items():
        ordered = (names == name) & (kinds != f"{name} [missing]")
        assert (sign * held.coefficients[ordered] >= 0).all()
    system = np.array([[2.0, 1.0], [1.0, 2.0]])
    found = signed_solution(system, np.array([1.0, -1.0]), 0.0, np.array([1.0, 1.0]))
    assert found.tolist() == [0.5, 0.0]


@pytest.mark.parametrize("seed", range(20))
def test_the_signed_system_issigned_solution_as_bounded_least_squares(seed: int) -> None:
    draw = np.random.default_rng(seed)
    n = int(draw.integers(1, 20))
    factor = draw.normal(size=(n + 5, n))
    target, signs = draw.normal(size=n + 5), draw.integers(-1, 2, n).astype(float)
    found = signed_solution(factor.T @ factor, factor.T @ target, 0.0, signs)
    low, high = np.where(signs > 0, 0, -np.inf), np.where(signs < 0, 0, np.inf)
    expected = lsq_linear(factor, target, (low, high), method="bvls").x
    np.testing.assert_allclose(found, expected, atol=1e-9)


# The quadratic program


def random_program(seed: int) -> tuple[Any, ...]:
    """A system and pairs without cycles: each pair goes from an earlier to a later place of a random order."""
    draw = np.random.default_rng(seed)
    n = int(draw.integers(2, 65))
    factor = draw.normal(size=(n, int(draw.integers(1, 2 * n))))
    system = factor @ factor.T + 10.0 ** draw.integers(-2, 2) * np.eye(n)
    places = np.sort(draw.integers(0, n, size=(int(draw.integers(1, 4 * n)), 2)), axis=1)
    places = np.unique(places[places[:, 0] < places[:, 1]], axis=0)
    pairs = draw.permutation(n)[places]
    return system, draw.normal(size=n), pairs[:, 0].copy(), pairs[:, 1].copy()


@pytest.mark.parametrize("seed", range(25))
def test_the_program_issigned_solution_as_least_squares_of_its_dual(seed: int) -> None:
    system, right, below, above = random_program(seed)
    found = solve_ordered(system, right, below, above)
    # With A = L L', the multipliers are the non-negative least squares of L^-1 C' m = -L^-1 b.
    lower = np.linalg.cholesky(system)
    C = np.zeros((len(below), len(right)))
    C[np.arange(len(below)), below] = -1.0
    C[np.arange(len(below)), above] = 1.0
    multipliers, _ = nnls(np.linalg.solve(lower, C.T), -np.linalg.solve(lower, right), maxiter=9999)
    expected = np.linalg.solve(system, right + C.T @ multipliers)
    np.testing.assert_allclose(found, expected, atol=1e-8 * np.abs(expected).max())
    assert np.all(found[below] <= found[above])
    assert np.array_equal(found, solve_ordered(system, right, below, above))


def test_without_a_violated_pair_the_solution_has_the_bits_of_the_free_one() -> None:
    system, right, below, above = random_program(3)
    free = solve_positive(system, right)
    holds = free[below] <= free[above]
    assert holds.any()
    assert np.array_equal(solve_ordered(system, right, below[holds], above[holds]), free)


def test_the_mean_of_values_in_the_wrong_order() -> None:
    # Weights 1, 2 and 3: (3 * 1 + 1 * 2 + 2 * 3) / 6, and the fourth value is free.
    weights = np.array([1.0, 2.0, 3.0, 1.0])
    right = weights * np.array([3.0, 1.0, 2.0, -5.0])
    chain = np.array([0, 1]), np.array([1, 2])
    expected = [5 / 3, 5 / 3, 2.0, -5.0]
    assert solve_ordered(np.diag(weights), right, *chain) == pytest.approx(expected)


# The order of leaves


def closure(pairs: set[tuple[int, int]], n: int) -> Any:
    reached = np.eye(n, dtype=bool)
    for low, high in pairs:
        reached[low, high] = True
    for middle in range(n):
        reached |= np.outer(reached[:, middle], reached[middle])
    return reached


def order_by_points(tree: Any, signs: list[int]) -> Any:
    """The order of leaves, found by moving documents along each constrained column."""
    numbered = tree._replace(value=np.arange(len(tree.value), dtype=float))
    grid: list[list[float]] = []
    for column in range(5):
        nodes = np.flatnonzero(tree.feature == column)
        finite = [bound for bound in tree.threshold[nodes] if np.isfinite(bound)]
        around = {value for bound in finite for value in (bound, np.nextafter(bound, np.inf))}
        values = sorted({-1e9, 1e9} | around)
        if column == 3:
            values = [float(code) for code in range(7)]
        grid.append([*values, np.nan] if len(nodes) else [0.0])
    pairs = set()
    for column in np.flatnonzero(signs).tolist():
        others = [values if number != column else [0.0] for number, values in enumerate(grid)]
        for point in product(*others):
            leaves = []
            for value in [value for value in grid[column] if not np.isnan(value)]:
                row = [*point[:column], value, *point[column + 1 :]]
                leaves.append(int(score_by_walking([numbered], row)))
            for low, high in pairwise(leaves[:: signs[column]]):
                pairs.add((low, high))
    return closure(pairs, len(tree.value))


@pytest.mark.parametrize("engine", list(ENGINES))
def test_the_order_of_leaves_is_that_of_documents_that_move(engine: str) -> None:
    free = ranker(engine=engine, num_leaves=7, n_estimators=6).fit(DATA)
    for signs in ([1, -1, 1, 0, 0], [0, 0, -1, 0, 1]):
        for tree in free.forest_.trees():
            below, above = leaf_order(tree, signs)
            found = closure(set(zip(below.tolist(), above.tolist(), strict=True)), len(tree.value))
            assert np.array_equal(found, order_by_points(tree, signs))


# The law


@pytest.mark.parametrize("engine", list(ENGINES))
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"leaf_values": "diagonal"},
        {"objective": "listnet", "leaf_values": "full", "subsample_queries": 0.7},
        {"langevin": {"temperature": 1e3}},
        {"langevin": {"temperature": 1e3, "leaf_noise": "independent"}},
        {"langevin": {"shrink_rate": 0.5}, "leaf_values": "full"},
        {"members": 2},
        {"early_stopping": "cv", "early_stopping_rounds": 3},
        {"start": "linear-global"},
    ],
    ids=str,
)
def test_no_score_moves_the_wrong_way(engine: str, options: dict[str, Any]) -> None:
    fitted = ranker(engine=engine, monotone=SIGNS, **options).fit(DATA)
    assert fitted.model_.n_trees > 3
    assert wrong_moves(fitted) == 0


@pytest.mark.parametrize("engine", list(ENGINES))
def test_without_constraints_the_same_probes_find_wrong_moves(engine: str) -> None:
    assert wrong_moves(ranker(engine=engine).fit(DATA)) > 1000


def testsigned_solution_leaves_without_their_order_break_the_law(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rankwright.training.monotone.solver", lambda *_: solve_positive)
    assert wrong_moves(ranker(monotone=SIGNS).fit(DATA)) > 0


def test_intermediate_constraints_of_lightgbm() -> None:
    params = {"monotone_constraints_method": "intermediate"}
    for leaf_values in ("full", "diagonal"):
        options = {"leaf_values": leaf_values, "engine_params": params}
        assert wrong_moves(ranker(monotone=SIGNS, **options).fit(DATA)) == 0


@pytest.mark.parametrize("engine", list(ENGINES))
def test_sparse_data(engine: str) -> None:
    dense = np.nan_to_num(DATA.X[:, [0, 1, 2, 4]])
    names = ["a", "b", "c", "e"]
    queries = {"group": DATA.group, "feature_names": names}
    data = RankingData(sp.csr_matrix(dense), DATA.y, **queries)
    fitted = ranker(engine=engine, monotone=SIGNS).fit(data)
    assert wrong_moves(fitted, data) == 0
    same = ranker(engine=engine, monotone=SIGNS).fit(RankingData(dense, DATA.y, **queries))
    assert np.array_equal(fitted.predict(data), same.predict(data))


@pytest.mark.parametrize("engine", list(ENGINES))
def test_streamed_resumed_refitted_and_with_position_bias(engine: str, tmp_path: Path) -> None:
    data = RankingData(
        DATA.X[:, [0, 1, 2, 4]], DATA.y, qid=DATA.qid, feature_names=["a", "b", "c", "e"]
    )
    rw.write_data(data, tmp_path / "data.parquet")
    options = {"engine": engine, "monotone": SIGNS, "n_estimators": 8}
    expected = ranker(**options).fit(data)
    streamed = ranker(**options).fit(str(tmp_path / "data.parquet"), y="label", qid="qid")
    assert streamed.forest_.dump() == expected.forest_.dump()
    place = {"path": tmp_path / "state", "trees": 1}
    ranker(**options, checkpoint=place).fit(data, callbacks=[lambda now: now.iteration == 3])
    resumed = ranker(**options, checkpoint=place).fit(data)
    assert resumed.forest_.dump() == expected.forest_.dump()
    with pytest.raises(ValueError, match="checkpoint of another training"):
        ranker(**{**options, "monotone": {"a": 1}}, checkpoint=place).fit(data)
    more = ranker(**options).fit(data, init_model=expected)
    assert wrong_moves(more, data) == 0
    train, valid = data.split(0.3)
    positions = np.random.default_rng(2).integers(1, 5, train.n_rows)
    both = [part.with_fields({"position": positions[: part.n_rows]}) for part in (train, valid)]
    refitted = ranker(**options, refit=True, early_stopping_rounds=3)
    refitted.fit(both[0], position="position", eval_set=[both[1]])
    assert wrong_moves(refitted, data) == 0


WITHIN_QUERY: list[dict[str, Any]] = [
    {"within_query": {"a": kind, "b": kind}}
    for kind in ("rank", "z", "gap", "share", "mean", "max", "rrf")
]


@pytest.mark.parametrize("options", [*WITHIN_QUERY, {"start": "linear"}], ids=str)
@pytest.mark.parametrize("engine", list(ENGINES))
def test_comparisons_within_the_query_keep_the_law_for_the_document(
    engine: str, options: dict[str, Any]
) -> None:
    fitted = ranker(engine=engine, monotone=SIGNS, **options).fit(DATA)
    draw = np.random.default_rng(7)
    for name, sign in SIGNS.items():
        column = DATA.feature_names.index(name)
        # One document of each query is raised step by step, and the others stay as they are.
        raised = DATA.boundaries[:-1] + draw.integers(0, 12, DATA.n_queries)
        X, scores = DATA.X.copy(), []
        for value in np.sort(np.append(draw.normal(size=25), [-50.0, 0.0, 50.0])):
            X[raised, column] = value
            scores.append(sign * fitted.predict(X, group=DATA.group)[raised])
        assert np.diff(scores, axis=0).min() >= 0
        assert np.ptp(scores) > 0


def test_a_cluster_grows_the_same_trees() -> None:
    pytest.importorskip("distributed")
    data = RankingData(DATA.X[:, :3], DATA.y, qid=DATA.qid, feature_names=["a", "b", "c"])
    options = {"engine": "xgboost", "monotone": SIGNS, "within_query": "rank", "n_estimators": 5}
    expected = ranker(**options).fit(data)
    found = ranker(**options).fit(data, cluster=2)
    assert found.forest_.dump() == expected.forest_.dump()
    with pytest.raises(ValueError, match="'x'"):
        ranker(**{**options, "monotone": {"x": 1}}).fit(data, cluster=2)


# Errors


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ({"x": 1}, "must name columns of the data; got 'x'"),
        ({"d": 1}, "'d' holds categories, which have no order"),
        ({"empty": 1}, "all values of 'empty' are missing"),
        ({"a": 0}, "must be a dict of a sign by column"),
        ({"a": [1, -1]}, "must be a dict of a sign by column"),
        ({"a": True}, "must be a dict of a sign by column"),
        ({0: 1}, "must be a dict of a sign by column"),
        (["a"], "must be a dict of a sign by column"),
    ],
    ids=str,
)
@pytest.mark.parametrize("engine", list(ENGINES))
def test_constraints_that_cannot_be_used(engine: str, option: Any, reason: str) -> None:
    X = np.column_stack([DATA.X, np.full(DATA.n_rows, np.nan)])
    names = [*DATA.feature_names, "empty"]
    data = RankingData(X, DATA.y, qid=DATA.qid, categorical=["d"], feature_names=names)
    with pytest.raises(ValueError, match=f"monotone {reason}|monotone must name .*{reason}"):
        ranker(engine=engine, monotone=option).fit(data)


@pytest.mark.parametrize(
    ("engine", "params", "reason"),
    [
        ("lightgbm", {"zero_as_missing": True}, "can break the constraints of monotone="),
        ("lightgbm", {"monotone_constraints_method": "advanced"}, "'basic' and 'intermediate'"),
        ("lightgbm", {"mc": [1]}, "use monotone= instead"),
        ("xgboost", {"monotone_constraints": [1]}, "use monotone= instead"),
    ],
)
def test_parameters_of_the_engine(engine: str, params: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        ranker(engine=engine, monotone=SIGNS, engine_params=params).check_params()


def test_trees_of_a_model_without_the_constraints_are_refused() -> None:
    free = ranker(n_estimators=2).fit(DATA)
    with pytest.raises(ValueError, match="init_model was trained with monotone=None"):
        ranker(n_estimators=2, monotone=SIGNS).fit(DATA, init_model=free)


def command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["rankwright", *arguments])
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = RankingData(DATA.X[:, :3], DATA.y, qid=DATA.qid, feature_names=["a", "b", "c"])
    rw.write_data(data, tmp_path / "data.csv")
    train = ["train", str(tmp_path / "data.csv"), "--out", str(tmp_path / "run"), "--trees", "3"]
    signs = ["--set", "monotone.a=1", "--set", "monotone.b=-1"]
    assert command(monkeypatch, *train, *signs, "--quiet") == 0
    assert rw.Run.open(tmp_path / "run").ranker.monotone == {"a": 1, "b": -1}
    capsys.readouterr()
    assert command(monkeypatch, *train, *signs, "--set", "monotone.b=1") == 2
    assert "monotone.b is given twice" in capsys.readouterr().err


def test_the_module_knows_every_feature_within_the_query() -> None:
    from rankwright.data.within_query import KINDS

    assert set(monotone._SIGN_WITHIN_QUERY) == set(KINDS)
