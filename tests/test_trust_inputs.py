"""Bad input is one clear ValueError: no crash, no gigabyte, nothing written where it should not be."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from rankwright import Ranker, RankingData, Run, align, load, read_data, read_letor, read_trec_run
from rankwright.data.queries import Queries
from rankwright.data.trec import Qrels
from rankwright.runs import read_config, train_run
from rankwright.support import files
from small import QUICK, TRAIN, quick, rows


@pytest.mark.parametrize(
    "groups",
    [[[0, 99999]], [[-1]], [[0.5]], [["f0"]], [0, 1], "[0,99999]", "abc", "[0,1", [[True]], 7],
)
def test_constraints_on_columns_that_do_not_exist_are_refused(groups: Any) -> None:
    with pytest.raises(
        ValueError,
        match=r"interaction_constraints=.*; give a list of lists of column numbers from 0",
    ):
        quick(engine_params={"interaction_constraints": groups}).fit(TRAIN)


@pytest.mark.parametrize("groups", [[[0, 1], [2]], "[0,1],[2]", [], [(0, np.int64(1))]])
def test_constraints_that_lightgbm_understands_are_used(groups: Any) -> None:
    ranker = quick(n_estimators=2, engine_params={"interaction_constraints": groups}).fit(TRAIN)
    if groups:
        assert {int(column) for tree in ranker.forest_.trees() for column in tree.feature} <= {
            0,
            1,
            2,
        }


def test_a_file_of_forced_splits_that_is_missing_is_not_ignored(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not a file"):
        quick(engine_params={"forcedsplits_filename": str(tmp_path / "none.json")}).fit(TRAIN)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("forcedsplits_filename", '{"feature": -1, "threshold": 0.5}'),
        ("forcedsplits_filename", '{"feature": 1099511627776, "threshold": 0.5}'),
        (
            "forcedsplits_filename",
            '{"feature": 0, "threshold": 0.5, "left": {"feature": 99, "threshold": 1}}',
        ),
        ("forcedsplits_filename", '{"feature": 0, "threshold": 1e999}'),
        ("forced_splits", '{"feature": 0}'),
        ("forcedsplits_filename", '{"feature": 0, "threshold": 0.5, "right": 5}'),
        ("forcedsplits_filename", "root:x:0:0"),
        (
            "forcedsplits_filename",
            '{"feature": 0, "threshold": 0, "left": ' * 150 + "{}" + "}" * 150,
        ),
        ("forcedbins_filename", '[{"feature": -1, "bin_upper_bound": [0.5]}]'),
        ("forcedbins_filename", '[{"feature": 0, "bin_upper_bound": "x"}]'),
        ("forcedbins_filename", '{"feature": 0, "bin_upper_bound": [0.5]}'),
    ],
)
def test_a_forced_file_that_lightgbm_would_misread_or_not_survive_is_refused(
    tmp_path: Path, name: str, content: str
) -> None:
    (tmp_path / "forced.json").write_text(content)
    with pytest.raises(ValueError, match="whose content LightGBM would misread; give JSON such as"):
        quick(engine_params={name: str(tmp_path / "forced.json")}).fit(TRAIN)


def test_forced_splits_and_bins_are_used_or_refused_by_name(tmp_path: Path) -> None:
    splits, bins = tmp_path / "splits.json", tmp_path / "bins.json"
    splits.write_text(
        '{"feature": 2, "threshold": 0.1, "right": {"feature": 3, "threshold": -0.1}}'
    )
    bins.write_text('[{"feature": 2, "bin_upper_bound": [0.1]}]')
    parameters = {"forcedsplits_filename": str(splits), "forcedbins_filename": str(bins)}
    for tree in quick(n_estimators=2, engine_params=parameters).fit(TRAIN).forest_.trees():
        assert tree.feature[0] == 2
    with pytest.raises(
        ValueError, match="with 2 splits, and a tree has room for 1; take splits out"
    ):
        quick(engine_params=parameters, max_depth=1).fit(TRAIN)
    with pytest.raises(ValueError, match="with 2 splits, and a tree has room for 1"):
        quick(engine_params=parameters, num_leaves=2).fit(TRAIN)
    splits.write_text('{"feature": 2, "threshold": 1e300}')
    with pytest.raises(ValueError, match="LightGBM refuses the data or engine_params"):
        quick(engine_params=parameters).fit(TRAIN)


@pytest.mark.parametrize("threads", ["4", 1.5, float("nan"), True])
def test_threads_that_are_no_whole_number_are_refused(threads: Any) -> None:
    with pytest.raises(ValueError, match="n_jobs must be a whole number from 1 to 1024; got"):
        quick(n_estimators=1).fit(TRAIN).model_.predict(TRAIN.X, n_jobs=threads)


def test_too_many_threads_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="n_jobs must be a whole number from 1 to 1024"):
        quick(n_jobs=100_000).fit(TRAIN)
    quick(n_estimators=2).fit(TRAIN).save(tmp_path / "model")
    manifest = json.loads((tmp_path / "model" / "manifest.json").read_text())
    manifest["parameters"]["n_jobs"] = 100_000
    (tmp_path / "model" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match="n_jobs must be a whole number from 1 to 1024"):
        Ranker.load(tmp_path / "model").predict(TRAIN)
    with pytest.raises(ValueError, match="n_jobs must be a whole number from 1 to 1024; got"):
        load(tmp_path / "model").predict(TRAIN, n_jobs=100_000)


def broken(kind: str, n: int = 60, columns: int = 4) -> Any:
    """A sparse matrix whose arrays were changed after SciPy had checked them."""
    X = sp.random(n, columns, 0.5, random_state=0)
    X = X.tocoo() if kind.startswith("coo") else X.tocsc() if kind.startswith("csc") else X.tocsr()
    if kind == "indices too large":
        X.indices[3] = 10**6
    elif kind == "indices negative":
        X.indices[3] = -5
    elif kind == "indptr descends":
        X.indptr[2] = 10**8
    elif kind == "indptr starts late":
        X.indptr[0] = 2
    elif kind == "indptr too long":
        X.indptr[-1] = 10**8
    elif kind == "indptr short":
        X.indptr = X.indptr[:-3]
    elif kind == "data short":
        X.data = X.data[:-3]
    elif kind == "csc indices too large":
        X.indices[3] = 10**8
    elif kind == "coo row too large":
        X.row[3] = 10**8
    return X


KINDS = [
    "indices too large",
    "indices negative",
    "indptr descends",
    "indptr starts late",
    "indptr too long",
    "indptr short",
    "data short",
    "csc indices too large",
    "coo row too large",
]


@pytest.mark.parametrize("kind", KINDS)
def test_an_invalid_sparse_matrix_is_refused(kind: str) -> None:
    X, y, qid = rows()
    ranker = quick(n_estimators=2).fit(X, y, qid=qid)
    with pytest.raises(ValueError, match=r"X is not a valid (csr|csc|coo) matrix"):
        RankingData(broken(kind), y, qid=qid)
    with pytest.raises(ValueError, match=r"X is not a valid (csr|csc|coo) matrix"):
        ranker.predict(broken(kind))


def test_entries_that_occur_twice_are_added_up() -> None:
    twice = sp.csr_matrix(
        (np.array([1.0, 2.0, 4.0]), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 2)
    )
    data = RankingData(twice, [0, 1], qid=[1, 1])
    assert data.X.toarray().tolist() == [[0, 3], [4, 0]]
    assert data.X.nnz == 2
    assert twice.nnz == 3  # the caller's matrix is unchanged


def test_valid_sparse_matrices_are_unchanged() -> None:
    X = sp.random(60, 4, 0.5, random_state=0, format="csr")
    X = sp.csr_matrix(X.toarray() * (np.arange(60) % 7 > 2)[:, None])
    X.eliminate_zeros()
    for other in (X, X.tocsc(), X.tocoo(), X.tolil(), X.tobsr((2, 2)), sp.csr_array(X)):
        assert np.array_equal(RankingData(other, np.zeros(60), group=[60]).X.toarray(), X.toarray())
    assert RankingData(sp.csr_matrix((3, 2)), np.zeros(3), group=[3]).X.shape == (3, 2)


MEMORY = """
import resource, sys
import rankwright, pandas
from rankwright import read_letor, RankingData, load
limit = 3 << 30  # of addresses, of which the libraries take one
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    exec(sys.argv[1])
    print("read")
except ValueError as error:
    print("refused:", error)
"""


def in_little_memory(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, code], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.parametrize("sparse", [False, True])
def test_a_large_index_in_a_small_file_takes_no_gigabyte(tmp_path: Path, sparse: bool) -> None:
    (tmp_path / "a.txt").write_text("1 qid:1 1:2 50000000:1\n0 qid:1 3:1\n" * 4)
    told = in_little_memory(f"read_letor({str(tmp_path / 'a.txt')!r}, sparse={sparse})")
    assert "refused:" in told
    assert "the largest index makes 50000000 features, but there are only 12 entries" in told


def test_names_of_many_features_in_a_small_file_take_no_gigabyte(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(
        "1 qid:1 16777216:1\n"
    )  # one row, whose cells alone would be few enough
    with pytest.raises(
        ValueError, match="the largest index makes 16777216 features, but there are only 1 entries"
    ):
        read_letor(tmp_path / "a.txt")


def test_the_time_of_a_wide_table_does_not_grow_with_the_square_of_its_columns(
    tmp_path: Path,
) -> None:
    names = [f"f{number}" for number in range(6000)]
    (tmp_path / "wide.csv").write_text(f"label,qid,{','.join(names)}\n1,1{',1' * len(names)}\n")
    start = time.process_time()
    assert read_data(tmp_path / "wide.csv").feature_names == names
    assert (
        time.process_time() - start < 6
    )  # 13 seconds, had each name been compared with all others


def test_ids_of_trec_files_keep_their_bytes_and_take_the_memory_they_need(tmp_path: Path) -> None:
    path = tmp_path / "a.run"
    path.write_text("a\0 Q0 d 1 2 bm25\na Q0 d 1 1 bm25\n")
    assert list(read_trec_run(path).qid) == ["a\0", "a"]
    path.write_text(
        f"{'x' * 300_000} Q0 d 1 2 bm25\n" + "".join(f"{n} Q0 d 1 1 bm25\n" for n in range(20_000))
    )
    run = read_trec_run(path)  # 24 GB, were all ids as wide as the first
    _, _, ids = align(run, Qrels(run.qid, run.docno, [1] * len(run.qid)))
    assert len(ids[0]) == 300_000
    path.write_text(f"q Q0 d 1 {'9' * 100_000} bm25\n")
    with pytest.raises(
        ValueError, match=r"expected a finite number as the score, got '9{60}\.\.\.'"
    ):
        read_trec_run(path)


def test_a_large_index_in_one_of_several_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1 qid:1 1:2\n" * 20_000)
    (tmp_path / "b.txt").write_text("1 qid:1 1:2 30000:1\n")
    told = in_little_memory(
        f"read_letor([{str(tmp_path / 'a.txt')!r}, {str(tmp_path / 'b.txt')!r}])"
    )
    assert "the largest index makes 30000 features" in told


def test_one_long_query_id_does_not_make_all_long(tmp_path: Path) -> None:
    lines = [f"1 qid:q{number // 4} 1:2\n" for number in range(20_000)]
    lines[7] = f"1 qid:{'x' * 300_000} 1:3\n"
    (tmp_path / "a.txt").write_text("".join(lines))
    path = str(tmp_path / "a.txt")
    assert (
        in_little_memory(f"data = read_letor({path!r}); assert data.n_queries == 5001; data.qid")
        == "read\n"
    )
    ids = "['q'] * 10000 + ['x' * 300_000] * 1000 + ['p'] * 9001"
    assert (
        in_little_memory(f"data = RankingData([[1.0]] * 20001, [1] * 20001, qid={ids}); data.qid")
        == "read\n"
    )


def test_ids_that_differ_by_a_zero_byte_are_two(tmp_path: Path) -> None:
    assert Queries.from_qid(["a", "a\0", "a"]).ids.tolist() == ["a", "a\0"]
    (tmp_path / "a.txt").write_bytes(b"1 qid:a 1:2\n0 qid:a\0 1:3\n")
    assert read_letor(tmp_path / "a.txt").query_ids.tolist() == ["a", "a\0"]
    both = RankingData([[1.0], [2.0]], [0, 1], qid=np.array(["a", "a\0"], dtype=object))
    assert both.n_queries == 2


def test_long_and_short_ids_group_alike() -> None:
    long = ["b", "x" * 5000, "a", *["b"] * 9000]
    assert Queries.from_qid(long).ids.dtype == object
    assert Queries.from_qid(long).ids.tolist() == ["a", "b", "x" * 5000]
    assert Queries.from_qid(long).keys[1] == Queries.from_qid(["b"]).keys[0]


def test_what_unpacks_to_far_more_than_its_size_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "UNPACKED_FREELY", 1 << 20)
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(b"0 qid:1 1:0\n" * 400_000))
    with pytest.raises(
        ValueError, match=r"bomb\.gz unpacks to more than .* unpack it and read the plain file"
    ):
        read_letor(tmp_path / "bomb.gz")
    (tmp_path / "fine.gz").write_bytes(gzip.compress(b"0 qid:1 1:0\n" * 80_000))
    assert read_letor(tmp_path / "fine.gz").n_rows == 80_000
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", b" " * (4 << 20))
    with pytest.raises(ValueError, match=r"manifest\.json unpacks to more than 1 MB"):
        load(tmp_path / "bomb.zip")
    with zipfile.ZipFile(tmp_path / "other.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", b'{"format_version": 1, "model_file": "model.txt"}')
        archive.writestr("model.txt", b"\0" * (4 << 20))
    with pytest.raises(ValueError, match=r"model\.txt unpacks to more than 1 MB"):
        load(tmp_path / "other.zip")


@pytest.mark.parametrize("name", ["model.txt.new", "manifest.json.new"])
def test_save_follows_no_planted_link(tmp_path: Path, name: str) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / name).symlink_to(tmp_path / "precious")
    ranker = quick(n_estimators=2).fit(TRAIN)
    ranker.save(tmp_path / "model")
    assert (tmp_path / "precious").read_text() == "precious"
    assert np.array_equal(load(tmp_path / "model").predict(TRAIN), ranker.predict(TRAIN))


@pytest.mark.parametrize("name", ["manifest.json", "model.txt", "manifest.json.new"])
@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_pipes_and_devices_in_a_model_are_refused_at_once(
    tmp_path: Path, name: str, kind: str
) -> None:
    quick(n_estimators=2).fit(TRAIN).save(tmp_path / "model")
    file = tmp_path / "model" / name
    file.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    else:
        file.symlink_to("/dev/zero")
    outcome: list[Any] = []

    def read() -> None:
        try:
            outcome.append(load(tmp_path / "model").n_trees)
        except ValueError as error:
            outcome.append(str(error))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(20)
    assert outcome, "it waits for the pipe"
    if name == "manifest.json.new":  # belongs to a save that did not end
        assert outcome == [2]
    else:
        assert "is not a plain file but a pipe, a device or a folder" in outcome[0]


def test_a_pipe_as_a_model_or_in_a_run_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.zip")
    with pytest.raises(ValueError, match="is not a saved model but a pipe or a device"):
        load(tmp_path / "model.zip")
    train_run(tmp_path / "run", TRAIN, parameters={**QUICK, "n_estimators": 2}, verbose=0)
    for name in ("metrics.jsonl", "config.toml"):
        (tmp_path / "run" / name).unlink()
        os.mkfifo(tmp_path / "run" / name)
    run = Run.open(tmp_path / "run")
    for name in ("history", "config"):
        with pytest.raises(ValueError, match="is not a plain file but a pipe"):
            getattr(run, name)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 100_000, '{"format_version": ' + "9" * 5000 + "}"]
)
def test_a_manifest_that_python_cannot_parse_is_damaged(tmp_path: Path, text: str) -> None:
    quick(n_estimators=2).fit(TRAIN).save(tmp_path)
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(ValueError, match="the manifest is not valid JSON"):
        load(tmp_path)


def test_deep_toml_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("a = " + "[" * 100_000)
    with pytest.raises(ValueError, match=r"nested too deeply|not valid TOML"):
        read_config(tmp_path / "config.toml")


SMUGGLED = [
    *(
        "10 interaction_constraints=[0,99999]",
        "10\tnum_leaves=9",
        "10\nnum_threads=9",
        "10=2",
        "10\x00",
    ),
    *({"f0": 1}, b"10", object(), ["1 num_leaves=9"], [None], [[object()]], np.array(["1 2"])),
]


@pytest.mark.parametrize("value", SMUGGLED, ids=lambda value: repr(value)[:20])
def test_a_parameter_of_lightgbm_brings_no_other_one_along(value: Any) -> None:
    """LightGBM gets its parameters as one text; constraints on columns that do not exist would crash it."""
    for name in ("cat_l2", "feature_contri", "forcedsplits_filename"):
        with pytest.raises(
            ValueError,
            match=f"engine_params has {name}=.*LightGBM takes numbers, text without spaces",
        ):
            quick(engine_params={name: value}).fit(TRAIN)


@pytest.mark.parametrize("value", [True, 1, 2**31, 0.5, [1]])
def test_the_name_of_a_file_is_text(value: Any) -> None:
    for name in ("forcedsplits_filename", "forcedbins_filename"):
        with pytest.raises(ValueError, match=f"engine_params has {name}=.*or the name of a file"):
            quick(engine_params={name: value}).fit(TRAIN)


@pytest.mark.parametrize(
    "value", [None, [], [1], {}, "x", np.array([1, 0]), float("nan"), -1, 10**400, object()]
)
def test_the_least_weight_of_xgboost_is_a_number(value: Any) -> None:
    with pytest.raises(
        ValueError, match=r"engine_params has min_child_weight=.*; give a number from 0"
    ):
        quick(engine="xgboost", engine_params={"min_child_weight": value}).fit(TRAIN)


@pytest.mark.parametrize(
    "value", [pd.NA, 0, "", [], np.array(3), object()], ids=lambda value: type(value).__name__
)
def test_engine_params_are_a_dict(value: Any) -> None:
    with pytest.raises(ValueError, match="engine_params must be a dict of the engine's parameters"):
        quick(engine_params=value).fit(TRAIN)


@pytest.mark.parametrize("value", [np.array(3), np.ma.masked, np.ones((2, 2)), [["rank"]], [None]])
def test_features_within_the_query_are_names(value: Any) -> None:
    with pytest.raises(
        ValueError, match=r"within_query (must be names of features|has .* which is not one of)"
    ):
        quick(within_query=value).fit(TRAIN)
