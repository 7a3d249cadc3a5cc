"""Data larger than memory: whatever is streamed from files gives the bits that the same rows give in memory."""

from __future__ import annotations

import gzip
from itertools import pairwise
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rankwright as rw
from rankwright.cli import app
from rankwright.data import on_disk, within_query
from rankwright.data.bins import Bins
from rankwright.data.dataset import RankingData
from rankwright.data.files import DataFiles, rows_in_memory
from rankwright.data.formats import contract
from rankwright.data.formats.contract import ReadOptions
from rankwright.data.formats.tables import TableBlocks, data_of_table, resolved
from rankwright.data.on_disk import is_on_disk
from rankwright.support.files import is_path
from rankwright.training.checkpoint import fingerprint

ENGINES = ("lightgbm", "xgboost")
N_COLUMNS = 8


def table(n_queries: int = 60, seed: int = 0, first: int = 0) -> Any:
    """Rows with missing values, zeros, tiny numbers, two values, a constant, categories and equal rows."""
    random = np.random.default_rng(seed)
    qid = first + np.repeat(np.arange(n_queries), random.integers(3, 40, n_queries))
    X = random.normal(size=(len(qid), N_COLUMNS))
    X[:, 1] = np.where(random.random(len(qid)) < 0.7, 0.0, X[:, 1])
    X[:, 2] *= 1e-36
    X[:, 3] = np.where(X[:, 3] > 0, 2.5, -1.5)
    X[:, 4] = 7.0
    X[random.random(len(qid)) < 0.1, 5] = np.nan
    X[:, 6] = np.abs(X[:, 6]) + 1.0
    X[1::9] = X[::9][: len(X[1::9])]
    label = (
        np.clip(np.round(X[:, 0] + X[:, 3] / 3 + random.normal(size=len(qid)) / 2), 0, 4) + 0.0
    )  # no -0
    kind = np.array(list("abcdefg"))[random.integers(0, 7, len(qid))]
    columns = {"grade": label, "query": qid, "w": 1.0 + qid % 3}
    columns |= {f"c{number}": X[:, number] for number in range(N_COLUMNS)}
    return pa.table({**columns, "kind": pa.array(kind).dictionary_encode()})


TRAIN, VALID = table(), table(20, seed=1, first=1000)
NAMES: dict[str, Any] = {"label": "grade", "qid": "query", "weight": "w"}


def from_arrow(rows: Any, **options: Any) -> RankingData:
    return data_of_table(rows, resolved(ReadOptions(**options), "rows", rows.schema))


def in_memory(rows: Any = TRAIN, **options: Any) -> RankingData:
    return from_arrow(rows, **{**NAMES, **options})


def write(folder: Path, rows: Any, n_files: int = 3, order: Any = None, **options: Any) -> Path:
    """Write rows to some files, in the given order or a random one."""
    folder.mkdir(exist_ok=True)
    order = np.random.default_rng(5).permutation(len(rows)) if order is None else order
    for number, chosen in enumerate(np.array_split(order, n_files)):
        pq.write_table(rows.take(chosen), folder / f"{number}.parquet", **options)
    return folder


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many blocks of few rows."""
    monkeypatch.setattr(contract, "BLOCK_BYTES", 1 << 13)
    monkeypatch.setattr(contract, "LEAST_ROWS", 50)
    monkeypatch.setattr(on_disk, "BLOCK_BYTES", 1 << 10)
    monkeypatch.setattr(within_query, "BLOCK_BYTES", 1 << 13)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    return write(tmp_path / "train", TRAIN)


@pytest.fixture
def valid_files(tmp_path: Path) -> Path:
    return write(tmp_path / "valid", VALID, 2)


def ranker(engine: str, **changes: Any) -> rw.Ranker:
    options = {
        "n_estimators": 8,
        "num_leaves": 8,
        "min_child_samples": 5,
        "n_jobs": 1,
        "verbose": 0,
    }
    return rw.Ranker(**{**options, "engine": engine, **changes})


def same(a: rw.Ranker, b: rw.Ranker) -> bool:
    return a.forest_.dump() == b.forest_.dump() and a.columns_ == b.columns_


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"objective": "lambdamart", "subsample": 0.6, "colsample": 0.6},
        {"within_query": {"c0": ["rank", "z"], "c5": "gap"}},
        {"members": 2},
        {"engine_params": {"max_bin": 5}},
        {"early_stopping": "cv", "early_stopping_rounds": 3},
    ],
    ids=["default", "sampled", "within query", "members", "few bins", "cross-validation"],
)
def test_the_model_is_that_of_the_same_rows_in_memory(
    files: Path, engine: str, options: dict[str, Any]
) -> None:
    streamed = ranker(engine, **options).fit(files, "grade", qid="query", sample_weight="w")
    assert same(streamed, ranker(engine, **options).fit(in_memory()))
    assert (streamed.label_column_, streamed.qid_column_) == ("grade", "query")


@pytest.mark.parametrize(
    "params",
    [
        {"bin_construct_sample_cnt": 150},
        {"max_bin_by_feature": [4, 9, 20, 63, 5, 6, 7, 8, 63]},
        {"zero_as_missing": True},
        {"use_missing": False},
        {"min_data_in_bin": 20, "feature_pre_filter": False},
        {"interaction_constraints": [[0, 1, 2], [3, 4, 5, 6, 7, 8]]},
    ],
    ids=lambda params: next(iter(params)),
)
def test_the_bins_are_those_of_lightgbm(files: Path, params: dict[str, Any]) -> None:
    options = {"engine_params": params, "leaf_values": "diagonal", "objective": "lambdamart"}
    streamed = ranker("lightgbm", **options).fit(rw.stream_data(files, **NAMES))
    assert same(streamed, ranker("lightgbm", **options).fit(in_memory()))


def test_lightgbm_has_the_threads_of_the_gate_when_a_set_is_made_by_reference(
    files: Path, valid_files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rankwright.engines.gate.VALUES_TO_SHARE", 0)
    numbers, by_reference, construct = [0], [], lgb.Dataset.construct

    def watched(dataset: lgb.Dataset) -> lgb.Dataset:
        if dataset._handle is None and dataset.reference is None:
            numbers.append(dataset.params["num_threads"])
        elif dataset._handle is None:
            by_reference.append(numbers[-1])
        return construct(dataset)

    monkeypatch.setattr(lgb.Dataset, "construct", watched)
    valid = rw.stream_data(valid_files, **NAMES, reference=in_memory())
    ranker("lightgbm", n_jobs=2, n_estimators=1).fit(
        rw.stream_data(files, **NAMES), eval_set=[valid]
    )
    assert set(numbers) == {0, 2}
    assert by_reference == [2]


@pytest.mark.parametrize("engine", ENGINES)
def test_evaluation_sets_and_early_stopping(files: Path, valid_files: Path, engine: str) -> None:
    options = {"n_estimators": 30, "early_stopping_rounds": 3, "metric": "ndcg@5 map"}
    valid = in_memory(VALID, reference=in_memory())
    known = ranker(engine, **options).fit(in_memory(drop=["w"], weight=None), eval_set=[valid])
    arguments: dict[str, Any] = {"y": "grade", "qid": "query"}
    data = rw.stream_data(files, label="grade", qid="query", drop=["w"])
    for eval_set in (str(valid_files), [valid_files], [valid_files / "*.parquet"], valid):
        if not isinstance(
            eval_set, RankingData
        ):  # a set that is not the estimator's has no weights
            eval_set = rw.stream_data(valid_files, **NAMES, reference=data)
        streamed = ranker(engine, **options).fit(data, eval_set=eval_set)
        assert same(streamed, known)
        assert streamed.evals_result_ == known.evals_result_
        assert streamed.stopping_ == known.stopping_
    by_path = ranker(engine).fit(str(files / "*.parquet"), **arguments, eval_set=[str(valid_files)])
    by_frame = ranker(engine).fit(TRAIN, **arguments, eval_set=VALID)
    assert same(by_path, by_frame)
    assert by_path.evals_result_ == by_frame.evals_result_


@pytest.mark.parametrize("engine", ENGINES)
def test_refit_trains_on_the_files_of_both(files: Path, valid_files: Path, engine: str) -> None:
    options = {"early_stopping_rounds": 3, "refit": True}
    train, valid = (
        rw.stream_data(files, **NAMES),
        rw.stream_data(valid_files, **NAMES, reference=in_memory()),
    )
    known = ranker(engine, **options).fit(
        in_memory(), eval_set=[in_memory(VALID, reference=in_memory())]
    )
    assert same(ranker(engine, **options).fit(train, eval_set=[valid]), known)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_training_resumes_exactly(files: Path, tmp_path: Path, engine: str) -> None:
    checkpoint = {"path": tmp_path / "state", "trees": 2}
    names: dict[str, Any] = {"y": "grade", "qid": "query", "sample_weight": "w"}
    stop = [lambda progress: progress.iteration == 5]
    ranker(engine, checkpoint=checkpoint).fit(files, **names, callbacks=stop)
    seen: list[int] = []
    resumed = ranker(engine, checkpoint=checkpoint).fit(
        files, **names, callbacks=[lambda p: seen.append(p.iteration)]
    )
    assert seen[0] == 6
    assert same(resumed, ranker(engine).fit(in_memory()))
    in_memory_again = ranker(engine, checkpoint=checkpoint).fit(in_memory())
    assert same(in_memory_again, resumed)
    (files / "0.parquet").rename(files / "9.parquet")  # the same rows in another order
    assert same(ranker(engine, checkpoint=checkpoint).fit(files, **names), resumed)
    pq.write_table(TRAIN.slice(0, 30), files / "9.parquet")
    with pytest.raises(ValueError, match="checkpoint of another training"):
        ranker(engine, checkpoint=checkpoint).fit(files, **names)


def test_trees_are_added_to_a_model(files: Path) -> None:
    names: dict[str, Any] = {"y": "grade", "qid": "query", "sample_weight": "w"}
    first = ranker("lightgbm", n_estimators=3).fit(in_memory())
    assert same(
        ranker("lightgbm").fit(files, **names, init_model=first),
        ranker("lightgbm").fit(in_memory(), init_model=first),
    )


def test_features_are_in_a_file_at_every_step(files: Path) -> None:
    data, known = rw.stream_data(files, **NAMES), in_memory()
    recipe = ranker("lightgbm", within_query="rank mean").fit(known).model_.recipe
    bins = Bins.of(known.X, 9, [8])
    for step in (
        lambda one: one,
        lambda one: one.canonical(),
        lambda one: one.canonical().subset([3, 5]),
        lambda one: one.with_features(recipe, canonical=True),
        lambda one: RankingData.concatenate([one.subset([1]), one.subset([0])]).canonical(),
    ):
        streamed, expected = step(data), step(known)
        assert is_on_disk(streamed.X)
        assert not is_on_disk(expected.X)
        assert streamed.feature_names == expected.feature_names
        same_rows = np.array_equal(streamed.canonical().X, expected.canonical().X, equal_nan=True)
        assert same_rows
        assert fingerprint(streamed.canonical()) == fingerprint(expected.canonical())
    codes = [bins.encode(one.canonical().X) for one in (data, known)]
    assert [is_on_disk(one) for one in codes] == [True, False]
    assert np.array_equal(*codes)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("within_query", [None, "rank"])
def test_predictions_are_in_the_order_of_the_files(
    files: Path, valid_files: Path, tmp_path: Path, engine: str, within_query: Any
) -> None:
    fitted = ranker(engine, within_query=within_query).fit(
        files, "grade", qid="query", sample_weight="w"
    )
    stored = pa.concat_tables([pq.read_table(path) for path in sorted(valid_files.iterdir())])
    frame = in_memory(stored, reference=in_memory())
    scores = frame.ungroup(fitted.predict(frame))
    dropped = {"drop": ["w"]}
    fitted.model_.manifest["other_columns"] = dropped["drop"]
    assert np.array_equal(fitted.predict(valid_files), scores)
    assert np.array_equal(fitted.predict(str(valid_files / "*"), qid="query"), scores)
    assert np.array_equal(
        np.concatenate(list(fitted.model_.predict_batches(valid_files, **dropped))), scores
    )
    assert fitted.score(valid_files, sample_weight="w") == fitted.score(frame)


def test_letor_text(tmp_path: Path) -> None:
    data = rw.make_web_search(12, n_features=20, mean_length=20, random_state=3)
    parts = [data.subset(np.arange(start, 12, 2)) for start in range(2)]
    for number, part in enumerate(parts):
        rw.write_letor(part, tmp_path / f"{number}.txt{'.gz' * number}", sparse=True)
    joined = rw.RankingData.concatenate(
        [rw.read_letor(path, n_features=20) for path in sorted(tmp_path.iterdir())]
    )
    for engine in ENGINES:
        streamed, known = ranker(engine).fit(str(tmp_path / "*.txt*")), ranker(engine).fit(joined)
        assert same(streamed, known)
        expected = np.concatenate([known.predict(part) for part in parts])
        assert np.array_equal(streamed.predict(tmp_path), expected)
        assert streamed.score(tmp_path) == known.score(joined)


def test_query_ids_of_letor_text_are_text_if_one_is(tmp_path: Path) -> None:
    lines = [f"{row % 3} qid:0{row // 5} 1:{row} 2:{row % 7}\n" for row in range(400)]
    (tmp_path / "a.txt").write_text("".join(lines) + "1 qid:last 1:5\n")
    known = rw.read_letor(tmp_path / "a.txt")
    assert rw.stream_data(tmp_path / "a.txt").query_ids.tolist() == known.query_ids.tolist()
    assert np.array_equal(rw.stream_data(tmp_path / "a.txt").query_keys, known.query_keys)


def test_codes_that_files_explain(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    kinds = [
        np.array(["x", "z"])[random.integers(0, 2, 90)],
        np.array(["y", "z"])[random.integers(0, 2, 90)],
    ]
    frames = [
        {
            "label": random.integers(0, 2, 90),
            "qid": 100 * part + np.arange(90) // 9,
            "kind": kinds[part],
            "a": random.random(90),
        }
        for part in range(2)
    ]
    for number, frame in enumerate(frames):
        rw.write_data(
            from_arrow(pa.table(frame), categorical=["kind"]), tmp_path / f"{number}.parquet"
        )
    streamed = rw.stream_data(tmp_path)
    assert streamed.categories == {"kind": ("x", "y", "z")}
    whole = pa.concat_tables([pa.table(frame) for frame in frames])
    known = from_arrow(whole, categorical=["kind"])
    assert same(ranker("xgboost").fit(streamed), ranker("xgboost").fit(known))


def test_several_labels_positions_and_pairs(files: Path) -> None:
    whole, names = in_memory(label=["grade", "c6"]), {**NAMES, "label": ["grade", "c6"]}
    options: dict[str, Any] = {"objective": "lambdamart + 0.3 lambdamart(label=c6)"}
    assert same(
        ranker("lightgbm", **options).fit(rw.stream_data(files, **names)),
        ranker("lightgbm", **options).fit(whole),
    )
    starts = np.flatnonzero(np.diff(TRAIN["query"].to_numpy(), prepend=-1))
    sizes = np.diff(starts, append=len(TRAIN))
    places = TRAIN.append_column(
        "place", pa.array(1 + np.arange(len(TRAIN)) - np.repeat(starts, sizes))
    )
    place = {"position": "place"}
    with_field = in_memory(places, fields=["place"])
    shown = write(files.parent / "shown", places)
    streamed = ranker("lightgbm").fit(shown, "grade", qid="query", sample_weight="w", **place)
    known = ranker("lightgbm").fit(with_field, **place)
    assert same(streamed, known)
    assert streamed.position_bias_ == known.position_bias_
    stored = pa.concat_tables([pq.read_table(path) for path in sorted(files.iterdir())])
    rows = np.flatnonzero(stored["query"].to_numpy() == 7)[:2].tolist()
    pairs = {"winner": [rows[0]], "loser": [rows[1]]}
    learned = ranker("lightgbm", objective="lambdamart + ranknet(pairs)")
    frame: dict[str, Any] = {"y": "grade", "qid": "query", "pairs": pairs}
    streamed = learned.fit(files, **frame)
    assert same(
        streamed, ranker("lightgbm", objective="lambdamart + ranknet(pairs)").fit(stored, **frame)
    )


def broken(folder: Path, kind: str) -> None:
    path = folder / "1.parquet"
    rows = pq.read_table(path)
    if kind == "truncated":
        path.write_bytes(path.read_bytes()[:-100])
    elif kind == "damaged":
        content = bytearray(path.read_bytes())
        content[200:4000] = bytes(3800)
        path.write_bytes(content)
    elif kind == "no label":
        pq.write_table(rows.drop_columns(["grade"]), path)
    elif kind == "no column":
        pq.write_table(rows.drop_columns(["c3"]), path)
    elif kind == "another column":
        pq.write_table(rows.append_column("url", rows["c3"]), path)
    elif kind == "another type":
        texts = pa.array([str(value) for value in rows["c3"].to_pylist()])
        pq.write_table(rows.set_column(rows.column_names.index("c3"), "c3", texts), path)
    elif kind == "negative label":
        pq.write_table(rows.set_column(0, "grade", pa.array(np.full(len(rows), -1.0))), path)
    elif kind == "infinite":
        pq.write_table(rows.set_column(3, "c0", pa.array(np.full(len(rows), np.inf))), path)
    elif kind == "no query id":
        pq.write_table(rows.set_column(1, "query", pa.nulls(len(rows), pa.int64())), path)
    else:
        (folder / "1.txt").write_text("1 qid:1 1:2\n")


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("truncated", "1.parquet is not a valid Parquet file"),
        ("damaged", "1.parquet"),
        ("no label", "1.parquet has no column 'grade'"),
        ("no column", "1.parquet does not have the columns of .*0.parquet: it has no 'c3'"),
        ("another column", "1.parquet does not have the columns of .*0.parquet: it has 'url'"),
        ("another type", "1.parquet: column 'c3' holds text, but numbers in .*0.parquet"),
        ("negative label", "1.parquet: labels must be finite and non-negative"),
        ("infinite", "1.parquet: feature 'c0' is infinite"),
        ("no query id", "1.parquet: the query id at row 0 is missing"),
        ("another format", "1.txt is LETOR text and .*0.parquet is not"),
    ],
)
def test_bad_files_are_one_error_that_names_them(files: Path, kind: str, reason: str) -> None:
    broken(files, kind)
    with pytest.raises(ValueError, match=reason):
        ranker("lightgbm").fit(str(files / "*"), "grade", qid="query", sample_weight="w")


def test_bad_letor_text(tmp_path: Path) -> None:
    good = "".join(f"1 qid:{row} 1:{row} 2:3\n" for row in range(3000))
    path = tmp_path / "a.txt"
    path.write_text(good + "1 qid:1 x:2\n")
    with pytest.raises(ValueError, match=r"a.txt, line 3001: expected index:value"):
        rw.stream_data(path)
    path.write_text(good)
    with pytest.raises(
        ValueError, match=r"a\.txt has 2 features, but the training data has 1 column"
    ):
        rw.stream_data(path, reference=RankingData([[1.0]], [1], qid=[1]))
    packed = gzip.compress(good.encode())
    (tmp_path / "b.txt.gz").write_bytes(packed[:-500])
    with pytest.raises(ValueError, match=r"b.txt.gz: the gzip data is damaged"):
        rw.stream_data(tmp_path / "b.txt.gz")
    path.write_text("\n\n")
    with pytest.raises(ValueError, match=r"a\.txt has no rows"):
        rw.stream_data(path)
    with pytest.raises(
        ValueError, match="fields is for named columns, and the columns of LETOR text"
    ):
        rw.stream_data(path, fields=["position"])


def test_arguments_that_cannot_be_used(files: Path, tmp_path: Path) -> None:
    names: dict[str, Any] = {"y": "grade", "qid": "query"}
    for arguments, reason in (
        (
            {"X": str(tmp_path / "none*.parquet")},
            r"no Parquet file and no LETOR text at .*none\*.parquet",
        ),
        ({"X": files, **names, "group": [3]}, "leave out group"),
        ({"X": files, "y": [1.0], "qid": "query"}, "y must be names of their columns"),
        ({"X": files, "y": "relevance", "qid": "query"}, "has no column 'relevance'"),
        (
            {"X": files, **names, "eval_set": str(tmp_path / "none")},
            r"eval_set\[0\]: there is no Parquet file",
        ),
    ):
        with pytest.raises(ValueError, match=reason):
            ranker("lightgbm").fit(**arguments)
    (tmp_path / "a.csv").write_text("label,qid,x\n1,1,1\n")
    with pytest.raises(ValueError, match="cannot be read batch by batch"):
        ranker("lightgbm").fit(tmp_path / "a.csv")
    fitted = ranker("lightgbm").fit(files, **names)
    with pytest.raises(ValueError, match="scores alone can be streamed"):
        fitted.predict(files, contributions=True)


def test_what_cannot_be_used_is_refused_before_rows_are_read(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, names = rw.stream_data(files, **NAMES), {"y": "grade", "qid": "query"}
    monkeypatch.setattr(TableBlocks, "parts", lambda *_: pytest.fail("rows were read"))
    nothing = str(tmp_path / "none")
    for options, arguments, reason in (
        ({"early_stopping_rounds": 3}, {"X": files, **names}, "needs an eval_set to watch"),
        (
            {},
            {"X": files, **names, "eval_set": nothing},
            r"eval_set\[0\]: there is no Parquet file",
        ),
        (
            {"monotone": {"c99": 1}, "objective": "lambdamart"},
            {"X": data},
            "monotone must name columns",
        ),
    ):
        with pytest.raises(ValueError, match=reason):
            ranker("xgboost", leaf_values="diagonal", **options).fit(**arguments)
    columns = ["--label", "grade", "--qid", "query", "--out", str(tmp_path / "run")]
    with pytest.raises(ValueError, match="there is no Parquet file"):
        app(["train", str(files), "--valid", nothing, *columns])


def test_progress_over_bytes(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[tuple[str, int, int]] = []
    data = rw.stream_data(files, **NAMES, show=lambda *state: seen.append(state))
    size = sum(path.stat().st_size for path in files.iterdir())
    assert seen[-1] == ("rows", size, size)
    assert all(a[1] <= b[1] for a, b in pairwise(seen))
    assert {purpose for purpose, _, _ in seen} == {"rows"}
    assert data.n_rows == len(TRAIN)
    ranker("lightgbm").fit(files, "grade", qid="query", sample_weight="w")
    assert capsys.readouterr().err == ""


def test_files_and_their_size(files: Path, tmp_path: Path) -> None:
    assert [Path(name).name for name in DataFiles.of(files).files] == [
        "0.parquet",
        "1.parquet",
        "2.parquet",
    ]
    assert DataFiles.of([files / "2.parquet", files / "0.parquet"]).files[0].endswith("2.parquet")
    assert (
        rows_in_memory(files / "0.parquet")
        == 8 * pq.read_metadata(files / "0.parquet").num_rows * 12
    )
    assert [
        is_path(one) for one in ("a", tmp_path, ["a", tmp_path], [], [1.0], TRAIN, np.zeros(2))
    ] == [True, True, True, False, False, False, False]


def command(*arguments: Any) -> int:
    from typer.testing import CliRunner

    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    return result.exit_code


def test_the_command_line(files: Path, valid_files: Path, tmp_path: Path) -> None:
    rows = pa.concat_tables([pq.read_table(path) for path in sorted(files.iterdir())])
    pq.write_table(rows, tmp_path / "all.parquet")
    pq.write_table(pq.read_table(valid_files), tmp_path / "valid.parquet")
    names = ("--label", "grade", "--qid", "query", "--weight", "w")
    common = (*names, "--trees", "4", "--threads", "1", "-q", "--out")
    assert (
        command(
            "train", files, "--valid", valid_files / "*.parquet", *common, tmp_path / "streamed"
        )
        == 0
    )
    assert (
        command(
            "train",
            tmp_path / "all.parquet",
            "--valid",
            valid_files / "0.parquet",
            "--stream",
            *common,
            tmp_path / "s",
        )
        == 0
    )
    assert (
        command(
            "train",
            tmp_path / "all.parquet",
            "--valid",
            tmp_path / "valid.parquet",
            *common,
            tmp_path / "whole",
        )
        == 0
    )
    streamed, whole = (rw.Run.open(tmp_path / name) for name in ("streamed", "whole"))
    assert same(streamed.ranker, whole.ranker)
    assert [row["valid"] for row in streamed.history] == [row["valid"] for row in whole.history]
    drop = ("--drop", "w", "--out")
    assert command("predict", tmp_path / "streamed", files, *drop, tmp_path / "a") == 0
    assert (
        command("predict", tmp_path / "whole", tmp_path / "all.parquet", *drop, tmp_path / "b") == 0
    )
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert command("predict", tmp_path / "whole", files, *drop, tmp_path / "c.csv") == 2
    assert command("train", files, "--in-memory", *common, tmp_path / "d") == 2
