"""Boosting that starts from a linear ranker: its features, its fit, and everything that a model does with it."""

from __future__ import annotations

import copy
import ctypes
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import rankwright as rw
from rankwright import Model, RankingData, linear_start, make_web_search
from rankwright.data.on_disk import to_disk
from rankwright.exporting import TARGETS, export_options, load_target
from rankwright.exporting.verify import verify_content
from rankwright.kernels.random import Stream, stream_of, uniform_by_key
from rankwright.linear_start import LinearFeatures, LinearStart
from rankwright.serve.model_holder import ServedModel
from rankwright.serve.requests import Query
from small import TRAIN, VALID, quick

COMPILE = ["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O2", "-shared", "-fPIC"]
LINEAR = quick(start="linear").fit(TRAIN, eval_set=VALID)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many blocks of few queries, some of one."""
    monkeypatch.setattr(linear_start, "_VALUES_AT_ONCE", 1000)


def started(data: RankingData = TRAIN, **changes: Any) -> Any:
    return quick(start="linear", **changes).fit(data)


def with_columns(X: Any, data: RankingData = TRAIN) -> RankingData:
    return RankingData(X, data.y, qid=data.qid)


def features_by_hand(data: RankingData, flagged: list[int]) -> Any:
    """Rank, z and flags, query by query and column by column, without rounding."""
    blocks = []
    for start, stop in zip(data.boundaries[:-1], data.boundaries[1:], strict=True):
        X = np.asarray(data.X[start:stop], dtype=np.float64)
        ranks, levels = np.zeros(X.shape), np.zeros(X.shape)
        for column in range(X.shape[1]):
            there = np.flatnonzero(~np.isnan(X[:, column]))
            values = X[there, column]
            for row, value in zip(there, values, strict=True):
                above = np.sum(values > value)
                below = np.sum(values < value)
                if len(values) > 1:
                    ranks[row, column] = (below - above) / 2 / (len(values) - 1)
                if values.std() > 0:
                    level = (value - values.mean()) / values.std()
                    levels[row, column] = min(max(level, -4), 4) / 4
        flags = np.isnan(X[:, flagged]).astype(float)
        blocks.append(np.hstack([ranks, levels, flags]))
    return np.vstack(blocks)


def centred(data: RankingData, features: Any) -> Any:
    """Differences from the mean of each query, weighted by 1 / root of its size, of features and labels."""
    A, b = [], []
    for start, stop in zip(data.boundaries[:-1], data.boundaries[1:], strict=True):
        root = (stop - start) ** -0.25
        A.append(root * (features[start:stop] - features[start:stop].mean(axis=0)))
        b.append(root * (data.y[start:stop] - data.y[start:stop].mean()))
    return np.vstack(A), np.concatenate(b)


def solved(A: Any, b: Any, ridge: float) -> Any:
    """Least squares with a ridge, as further rows."""
    wide = np.vstack([A, np.sqrt(ridge) * np.eye(A.shape[1])])
    return np.linalg.lstsq(wide, np.concatenate([b, np.zeros(A.shape[1])]), rcond=None)[0]


def test_features_of_a_query_worked_by_hand() -> None:
    X = np.array([[3.0, 1.0], [1.0, np.nan], [2.0, 1.0], [9.0, 5.0]])
    found = LinearFeatures(("a", "b"), (0, 1), ("b",)).fill(X, np.array([0, 3, 4]))
    root = np.rint(2**16 * np.sqrt(1.5) / 4) / 2**16  # (3 - 2) / sqrt(2 / 3) / 4
    assert found.tolist() == [
        [0.5, 0.0, root, 0.0, 0.0],
        [-0.5, 0.0, -root, 0.0, 1.0],
        [0.0, 0.0, 0.0, 0.0, 0.0],
        [0.0, 0.0, 0.0, 0.0, 0.0],
    ]


def test_features_and_coefficients_are_those_of_loops_and_least_squares() -> None:
    start = LINEAR.linear_
    assert start.features.flagged == tuple(
        name
        for name, column in zip(TRAIN.feature_names, TRAIN.X.T, strict=True)
        if np.isnan(column).mean() > 0.05
    )
    assert start.features.flagged
    flagged = [TRAIN.feature_names.index(name) for name in start.features.flagged]
    expected = features_by_hand(TRAIN, flagged)
    for rows, found in start.features.blocks(TRAIN.X, TRAIN.queries.grouped()):
        np.testing.assert_allclose(found, expected[rows], atol=2**-16)
    A, b = centred(TRAIN, expected)
    coefficients = solved(A, b, start.ridge * np.trace(A.T @ A) / A.shape[1])
    np.testing.assert_allclose(start.coefficients, start.kept * coefficients, atol=1e-4)


def test_held_out_folds_choose_the_ridge_and_the_share() -> None:
    data = make_web_search(
        90, kind="short", n_features=20, mean_length=10, random_state=4
    ).canonical()
    start = started(data).linear_
    flagged = [data.feature_names.index(name) for name in start.features.flagged]
    features = features_by_hand(data, flagged)
    draws = np.empty(data.n_queries)
    uniform_by_key(data.query_keys, stream_of(0, 0, Stream.LINEAR_FOLDS), 0, draws)
    A, b = centred(data, features)
    level = np.trace(A.T @ A) / A.shape[1]
    fold_of = np.repeat((5 * draws).astype(int), data.group)
    losses = {}
    for ridge in (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0):
        scores = np.zeros(data.n_rows)
        for fold in range(5):
            rest = fold_of != fold
            found = solved(A[rest], b[rest], ridge * level)
            scores[~rest] = A[~rest] @ found
        for share in (0, 0.25, 0.5, 0.75, 1):
            losses[ridge, share] = np.sum((b - share * scores) ** 2)
    assert (start.ridge, start.kept) == min(losses, key=losses.__getitem__)


def test_few_queries_keep_less() -> None:
    assert LINEAR.linear_.kept <= TRAIN.n_queries / 80


# The model is the linear ranker plus the trees.


@pytest.mark.parametrize("engine", ["lightgbm", "xgboost"])
def test_a_linear_start_is_a_start_from_its_scores(engine: str) -> None:
    found = started(engine=engine)
    scores = found.linear_.scores(TRAIN.X, TRAIN.queries.grouped())
    given = TRAIN.with_fields({"linear": scores})
    expected = quick(engine=engine).fit(given, base_score="linear")
    assert found.forest_.dump() == expected.forest_.dump()
    assert np.array_equal(found.predict(TRAIN), expected.predict(given))


def test_a_linear_start_adds_to_given_scores() -> None:
    draw = np.random.default_rng(1)
    given = TRAIN.with_fields({"old": draw.normal(size=TRAIN.n_rows)})
    model = quick(start="linear").fit(given, base_score="old")
    start = model.linear_.scores(TRAIN.X, TRAIN.queries.grouped())
    total = given.fields["old"] + start
    expected = quick().fit(TRAIN.with_fields({"both": total}), base_score="both")
    assert model.forest_.dump() == expected.forest_.dump()
    # It learns what the given scores lack: with the labels as given scores, there is nothing left.
    known = TRAIN.with_fields({"old": TRAIN.y})
    assert not quick(start="linear").fit(known, base_score="old").linear_.coefficients.any()
    parts = model.predict(given, contributions=True)
    np.testing.assert_allclose(parts.sum(axis=1), model.predict(given), atol=1e-12)
    assert np.array_equal(parts[:, -2], given.fields["old"])


def test_curves_stages_and_metrics_include_the_start() -> None:
    scores = LINEAR.predict(VALID)
    linear_scores = LINEAR.linear_.scores(VALID.X, VALID.queries.grouped())
    np.testing.assert_allclose(scores, linear_scores + LINEAR.forest_.predict(VALID.X), atol=1e-12)
    assert LINEAR.evals_result_["valid_0"]["ndcg@10"][-1] == LINEAR.score(VALID)
    *_, last = LINEAR.staged_predict(VALID, every=5)
    np.testing.assert_allclose(last, scores, atol=1e-12)


def test_contributions_go_to_the_columns_and_add_up() -> None:
    parts = LINEAR.predict(VALID, contributions=True)
    assert parts.shape == (VALID.n_rows, len(VALID.feature_names) + 1)
    np.testing.assert_allclose(parts.sum(axis=1), LINEAR.predict(VALID), atol=1e-12)
    own = LINEAR.linear_.contributions(VALID.X, VALID.queries.grouped(), len(VALID.feature_names))
    assert np.array_equal(own.sum(axis=1), LINEAR.linear_.scores(VALID.X, VALID.queries.grouped()))
    trees = LINEAR.forest_.contributions(VALID.X)
    assert np.array_equal(parts[:, :-1], trees[:, :-1] + own)
    why = LINEAR.explain(VALID, 2, 5)
    scores = LINEAR.predict(VALID)
    assert why.difference == scores[2] - scores[5]
    assert sorted(why.features) == sorted(VALID.feature_names)


# The same bits.


def test_bits_do_not_depend_on_threads_order_or_blocks(tmp_path: Path) -> None:
    shuffled = np.random.default_rng(0).permutation(TRAIN.n_rows)
    other = RankingData(TRAIN.X[shuffled], TRAIN.y[shuffled], qid=TRAIN.qid[shuffled])
    disk = copy.copy(TRAIN)
    disk.X = to_disk(TRAIN.X)
    sparse = with_columns(sp.csr_matrix(TRAIN.X))
    expected = started()
    for data, options in ((other, {}), (TRAIN, {"n_jobs": 2}), (disk, {}), (sparse, {})):
        found = started(data, **options)
        assert np.array_equal(found.linear_.coefficients, expected.linear_.coefficients)
        assert np.array_equal(found.predict(VALID), expected.predict(VALID))
    order = np.random.default_rng(1).permutation(VALID.n_rows)
    scores = expected.predict(VALID.X[order], qid=VALID.qid[order])
    assert np.array_equal(scores, expected.predict(VALID)[order])
    assert np.array_equal(
        expected.predict(to_disk(VALID.X), qid=VALID.qid), expected.predict(VALID)
    )


def test_streamed_rows_train_and_score_the_same_model(tmp_path: Path) -> None:
    for name, data in (("train", TRAIN), ("valid", VALID)):
        rw.write_letor(data, tmp_path / f"{name}.txt")
    train, valid = (rw.read_letor(tmp_path / f"{name}.txt") for name in ("train", "valid"))
    expected = started(train)
    found = started(rw.stream_data(tmp_path / "train.txt"))
    assert np.array_equal(found.linear_.coefficients, expected.linear_.coefficients)
    assert found.forest_.dump() == expected.forest_.dump()
    scores = valid.ungroup(expected.predict(valid))
    assert np.array_equal(expected.predict(tmp_path / "valid.txt"), scores)


# Strategies.


def test_strategies_fit_the_start_on_the_queries_they_train_on() -> None:
    folds = started(early_stopping="cv")
    assert np.array_equal(folds.linear_.coefficients, LINEAR.linear_.coefficients)
    refit = quick(start="linear", refit=True, early_stopping_rounds=3).fit(TRAIN, eval_set=VALID)
    both = started(RankingData.concatenate([TRAIN, VALID]))
    assert np.array_equal(refit.linear_.coefficients, both.linear_.coefficients)


def test_members_have_starts_of_their_own() -> None:
    model = started(members=3)
    starts = model.model_.starts[:-1]
    assert len(starts) == 3
    queries = VALID.queries.grouped()
    each = np.array([start.scores(VALID.X, queries) for start in starts])
    mean = model.linear_.scores(VALID.X, queries)
    np.testing.assert_allclose(mean, each.mean(axis=0), atol=1e-6)
    stops = np.cumsum(model.model_.members).tolist()
    for member, stop in enumerate(stops):
        first = stop - model.model_.members[member]
        each[member] += 3 * model.forest_.predict(VALID.X, start=first, stop=stop)
    each -= np.repeat(
        np.add.reduceat(each, VALID.boundaries[:-1], axis=1) / VALID.group, VALID.group, axis=1
    )
    np.testing.assert_allclose(model.model_.spread(VALID), each.std(axis=0, ddof=1), rtol=1e-9)
    np.testing.assert_allclose(model.predict(VALID), mean + model.forest_.predict(VALID.X))


def test_trees_are_added_to_the_same_start(tmp_path: Path) -> None:
    whole, half = started(), started(n_estimators=6)
    half.save(tmp_path / "half")
    for start in (None, "linear"):
        more = quick(start=start, n_estimators=6).fit(VALID, init_model=tmp_path / "half")
        assert np.array_equal(more.linear_.coefficients, whole.linear_.coefficients)
    plain = quick().fit(TRAIN)
    with pytest.raises(ValueError, match="start is no part of the scores of init_model"):
        quick(start="linear").fit(TRAIN, init_model=plain)


def test_an_interrupted_training_resumes(tmp_path: Path) -> None:
    place = tmp_path / "checkpoint"
    started(n_estimators=5, checkpoint=place)
    resumed, expected = started(checkpoint=place), started()
    assert resumed.forest_.dump() == expected.forest_.dump()
    assert np.array_equal(resumed.predict(VALID), expected.predict(VALID))


# The fitted value.


def test_a_saved_model_has_the_start(tmp_path: Path) -> None:
    LINEAR.save(tmp_path / "model")
    model = rw.load(tmp_path / "model")
    assert np.array_equal(model.predict(VALID), LINEAR.predict(VALID))
    n = int(VALID.group[0])
    ranking = model.rank(VALID.X[:n], range(n))
    assert np.array_equal(ranking.scores, np.sort(LINEAR.predict(VALID)[:n])[::-1])
    assert "kept; ridge" in str(LINEAR.linear_)
    frame = LINEAR.linear_.to_dataframe()
    assert frame.coefficient.tolist() == LINEAR.linear_.coefficients.tolist()


@pytest.mark.parametrize(
    "change", [{"columns": ["nope"]}, {"coefficients": [1.0]}, {"ridge": "x"}, {"flagged": ["x"]}]
)
def test_a_damaged_start_is_refused(change: dict[str, Any]) -> None:
    entry = LINEAR.linear_.to_manifest() | change
    with pytest.raises(ValueError, match="garbles the linear start"):
        LinearStart.of_manifest(entry, TRAIN.feature_names)


def test_chosen_columns_alone_are_compared() -> None:
    names = TRAIN.feature_names[3:5]
    model = quick(start={"columns": names}).fit(TRAIN)
    assert model.linear_.features.columns == tuple(names)
    parts = model.linear_.contributions(VALID.X, VALID.queries.grouped(), len(TRAIN.feature_names))
    assert np.flatnonzero(parts.any(axis=0)).tolist() == [3, 4]


# Exports.


@pytest.mark.parametrize("within_query", [None, {"count_0": ["gap", "rank"]}, "z"])
def test_a_c_file_computes_the_start(within_query: Any, tmp_path: Path) -> None:
    model = started(within_query=within_query)
    source = rw.export(model, "c", tmp_path / "model.c")
    library = tmp_path / "model.so"
    subprocess.run([*COMPILE, "-o", library, source, "-lm"], check=True)
    doubles = np.ctypeslib.ndpointer(dtype=np.float64, flags="C_CONTIGUOUS")
    score = ctypes.CDLL(str(library)).rankwright_score_query
    score.argtypes = [doubles, ctypes.c_size_t, doubles]
    X = np.ascontiguousarray(VALID.X, dtype=np.float64)
    expected = model.predict(X, group=VALID.group)
    assert np.isnan(X).any()
    for start, stop in zip(VALID.boundaries[:-1], VALID.boundaries[1:], strict=True):
        scores = np.empty(stop - start)
        assert score(np.ascontiguousarray(X[start:stop]), len(scores), scores) == 0
        assert np.array_equal(scores, expected[start:stop])
    # The comparison of files with models looks at the trees.
    rows, options = model.model_.encode(VALID), export_options(model.model_)
    found = verify_content(source.read_bytes(), model.model_, load_target("c"), options, rows)
    assert found.exact


def test_the_service_computes_the_start() -> None:
    model = LINEAR.model_
    served = ServedModel(model, ())
    n = int(VALID.group[0])
    X = np.asarray(VALID.X[:n], dtype=np.float64)
    options: dict[str, Any] = {"calibrated": False, "scores": False, "unknown_levels": 0}
    answer = served.rank(Query(X, list(range(n)), n, contributions=True, **options))
    expected = LINEAR.predict(VALID)[:n]
    assert [result["score"] for result in answer["results"]] == sorted(expected, reverse=True)
    for result in answer["results"]:
        total = answer["expected_score"] + sum(result["contributions"].values())
        assert total == pytest.approx(result["score"], abs=1e-12)
    assert served.describe()["linear_start"]
    other = quick(start={"columns": TRAIN.feature_names[:3]}, n_estimators=1).fit(TRAIN).model_
    same_trees = Model(
        model.forest,
        model.columns,
        {**model.manifest, "linear_start": other.manifest["linear_start"]},
    )
    assert not ServedModel(same_trees, ()).answers_as(served)


@pytest.mark.parametrize("target", [name for name in TARGETS if name != "c"])
def test_targets_for_single_documents_refuse_the_start(target: str, tmp_path: Path) -> None:
    with pytest.raises(
        ValueError,
        match=r"linear start .* Export to c, use rankwright serve, .* start='linear-global'",
    ):
        rw.export(LINEAR, target, tmp_path / "file")


# Bad input.


def test_columns_that_are_constant_within_every_query_get_no_weight() -> None:
    X = np.column_stack([TRAIN.X[:, :3], np.repeat(np.arange(TRAIN.n_queries), TRAIN.group)])
    start = started(with_columns(X)).linear_
    of_constant = [
        c for c, n in zip(start.coefficients, start.features.sources, strict=True) if n == "f3"
    ]
    assert of_constant == [0.0, 0.0]
    alone = started(with_columns(X[:, 3:]))
    assert not alone.linear_.coefficients.any()
    assert alone.linear_.kept == 0


def test_with_fewer_queries_than_folds_only_held_out_queries_decide() -> None:
    """A single query cannot be held out, so nothing of it is kept."""
    single = TRAIN.subset([0])
    model = started(single)
    assert model.linear_.kept == 0
    assert model.forest_.dump() == quick().fit(single).forest_.dump()
    assert np.isfinite(started(TRAIN.subset([0, 1, 2])).predict(VALID)).all()


def test_missing_values_have_the_middle_rank() -> None:
    X = np.array(TRAIN.X[:, :4])
    X[:, 1] = np.nan
    model = started(with_columns(X))
    assert np.isfinite(model.predict(X, qid=TRAIN.qid)).all()


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ("quadratic", "start must be None, 'linear', 'linear-global', or a dict"),
        ({"columns": "bm25"}, "start must be None"),
        ({"columns": []}, "start must be None"),
        ({"rows": ["a"]}, "start must be None"),
        ({"columns": ["nope"]}, "start names the column 'nope', which the data does not have"),
    ],
)
def test_bad_options_are_refused(start: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        quick(start=start).fit(TRAIN)


def test_data_without_columns_to_compare_is_refused() -> None:
    categories = RankingData(np.zeros((6, 1)), [0, 1, 2] * 2, group=[3, 3], categorical=[0])
    with pytest.raises(ValueError, match="start needs a column of numbers"):
        started(categories)
    wide = RankingData(np.zeros((6, 1001)), [0, 1, 2] * 2, group=[3, 3])
    with pytest.raises(ValueError, match="would compare 1001 columns, and 1000 are the most"):
        started(wide)
    pairs = RankingData(np.eye(4), None, group=[4], pairs=[[0, 1], [1, 2]])
    with pytest.raises(ValueError, match="start learns from labels"):
        started(pairs)
    with pytest.raises(ValueError, match="start cannot be used with position"):
        quick(start="linear").fit(TRAIN, position=np.ones(TRAIN.n_rows, dtype=int))


def test_single_documents_cannot_be_scored() -> None:
    with pytest.raises(ValueError, match="has a linear start on features within the query"):
        LINEAR.predict(VALID.X)
