"""Training on several workers: one model for any number of them, errors that name worker and file, workers that die."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwright as rw
from rankwright import Cluster, Ranker, RankingData, make_web_search, stream_data
from rankwright.cli import main
from rankwright.cluster import dask as dask_room
from rankwright.cluster import pieces
from rankwright.cluster.options import check_on_cluster
from rankwright.data.columns import Columns

pytest.importorskip("distributed")

DATA, VALID = make_web_search(40, kind="short", n_features=20, random_state=3).split(0.3)
COMMON: dict[str, Any] = {
    "engine": "xgboost",
    "n_estimators": 6,
    "min_child_samples": 5,
    "verbose": 0,
    "n_jobs": 1,
}


def ranker(**changes: Any) -> Ranker:
    return Ranker(**COMMON | changes)


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with dask_room.connect(2, 2) as one:
        yield one


def table(rows: Any = slice(None), data: RankingData = DATA) -> Any:
    import pyarrow as pa

    columns = {name: data.X[rows, number] for number, name in enumerate(data.feature_names)}
    return pa.table(columns | {"label": data.y[rows], "qid": data.qid[rows]})


def write(folder: Path, name: str, content: Any) -> None:
    import pyarrow.parquet as pq

    folder.mkdir(exist_ok=True)
    pq.write_table(content, folder / name)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Unsorted rows in files of very different sizes, one of them empty."""
    order = np.random.default_rng(1).permutation(DATA.n_rows)
    for number, (low, high) in enumerate(((0, 7), (7, 300), (300, 300), (300, DATA.n_rows))):
        write(tmp_path / "data", f"part{number}.parquet", table(order[low:high]))
    return tmp_path / "data"


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"objective": "lambdamart", "subsample_queries": 0.7},
        {"objective": "stochasticrank", "langevin": True, "learning_rate": None},
    ],
    ids=["default", "lambdamart, sampled", "stochasticrank, langevin"],
)
def test_the_model_is_that_of_one_machine(client: Any, options: dict[str, Any]) -> None:
    expected = ranker(**options).fit(DATA, eval_set=[VALID, DATA])
    found = ranker(**options).fit(DATA, eval_set=[VALID, DATA], cluster=client)
    assert found.forest_.dump() == expected.forest_.dump()
    assert found.evals_result_ == expected.evals_result_
    assert found.learning_rates_ == expected.learning_rates_
    assert np.array_equal(found.predict(VALID), expected.predict(VALID))


def test_files_with_rows_in_any_order_give_the_same_model(
    client: Any, files: Path, tmp_path: Path
) -> None:
    expected = ranker(early_stopping_rounds=2).fit(DATA, eval_set=VALID)
    write(tmp_path / "valid", "v.parquet", table(data=VALID))
    found = ranker(early_stopping_rounds=2).fit(
        files / "*.parquet", eval_set=str(tmp_path / "valid"), cluster=client
    )
    assert found.forest_.dump() == expected.forest_.dump()
    assert found.n_estimators_ == expected.n_estimators_
    assert found.feature_names_in_.tolist() == DATA.feature_names
    found.save(tmp_path / "model")
    assert np.array_equal(rw.load(tmp_path / "model").predict(VALID.X), expected.predict(VALID.X))


def test_columns_without_names_are_matched_by_position(client: Any) -> None:
    found = ranker().fit(DATA, eval_set=(VALID.X, VALID.y, VALID.qid), cluster=client)
    expected = ranker().fit(DATA, eval_set=VALID)
    assert found.evals_result_ == expected.evals_result_
    assert found.forest_.dump() == expected.forest_.dump()
    with pytest.raises(
        ValueError,
        match=r"eval_set\[0\]: worker \d, part 0 does not have the columns of the training data",
    ):
        ranker().fit(DATA, eval_set=(VALID.X[:, :3], VALID.y, VALID.qid), cluster=client)


def test_dask_collections(client: Any) -> None:
    import dask.array as da
    import dask.dataframe as dd
    import pandas as pd

    weights = 1.0 + (DATA.qid % 3)
    expected = ranker().fit(DATA.X, DATA.y, qid=DATA.qid, sample_weight=weights)
    X, y, qid, weight = (
        da.from_array(np.asarray(one), chunks=(200, -1) if one.ndim == 2 else 200)
        for one in (DATA.X, DATA.y, DATA.qid, weights)
    )
    found = ranker().fit(X, y, qid=qid, sample_weight=weight, cluster=client)
    assert found.forest_.dump() == expected.forest_.dump()
    frame = pd.DataFrame(DATA.X, columns=DATA.feature_names).assign(label=DATA.y, q=DATA.qid)
    found = ranker().fit(dd.from_pandas(frame, npartitions=3), "label", qid="q", cluster=client)
    assert found.forest_.dump() == ranker().fit(DATA).forest_.dump()
    assert found.label_column_ == "label"


def unreadable(part: Any) -> Any:
    raise OSError("the file is truncated")


def test_partitions_that_cannot_be_used_are_named(client: Any) -> None:
    import dask.dataframe as dd
    import pandas as pd

    frame = pd.DataFrame(DATA.X, columns=DATA.feature_names).assign(label=DATA.y, q=DATA.qid)
    parts = dd.from_pandas(frame, npartitions=3)
    with pytest.raises(
        ValueError, match=r"partition \d cannot be computed: OSError: the file is truncated"
    ):
        ranker().fit(parts.map_partitions(unreadable, meta=parts), "label", qid="q", cluster=client)
    others = dd.from_pandas(frame.q, npartitions=3).map_partitions(
        lambda part: part[1:], meta=frame.q
    )
    with pytest.raises(
        ValueError,
        match=r"worker \d, partition \d: qid has shape .* give collections with the same",
    ):
        ranker().fit(parts.drop(columns="q"), "label", qid=others, cluster=client)


def test_categories_of_all_parts(client: Any, tmp_path: Path) -> None:
    import pyarrow as pa

    colours = np.array(["red", "blue", "green", "grey"])[np.arange(DATA.n_rows) % 4]
    whole = table().append_column("colour", pa.array(colours).dictionary_encode())
    order = np.argsort(colours, kind="stable")  # no part has all of them
    for number, rows in enumerate(np.array_split(order, 3)):
        part = table(rows).append_column("colour", pa.array(colours[rows]).dictionary_encode())
        write(tmp_path / "data", f"{number}.parquet", part)
    expected = ranker().fit(RankingData(whole, "label", qid="qid"))
    found = ranker().fit(tmp_path / "data", cluster=client)
    assert found.manifest_["categories"] == {"colour": ["blue", "green", "grey", "red"]}
    assert found.forest_.dump() == expected.forest_.dump()


def test_features_within_the_query(client: Any, files: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"within_query": ["rank", "gap"], "subsample": 0.7}
    expected = ranker(**options).fit(DATA, eval_set=[VALID, DATA])
    found = ranker(**options).fit(DATA, eval_set=[VALID, DATA], cluster=client)
    assert found.forest_.dump() == expected.forest_.dump()
    assert found.evals_result_ == expected.evals_result_
    assert found.manifest_["within_query"] == expected.manifest_["within_query"]
    from_files = ranker(**options).fit(files, cluster=client)
    from_files.save(tmp_path / "model")
    assert np.array_equal(rw.load(tmp_path / "model").predict(VALID), expected.predict(VALID))
    more = ranker(**options).fit(DATA, init_model=expected, cluster=client)
    assert more.forest_.dump() == ranker(**options).fit(DATA, init_model=expected).forest_.dump()
    with pytest.raises(
        ValueError,
        match=r"trained with 40 features within the query .* within_query= gives no feat",
    ):
        ranker().fit(DATA, init_model=expected, cluster=client)


def test_a_linear_start(client: Any, files: Path) -> None:
    expected = ranker(start="linear").fit(DATA, eval_set=[VALID, DATA])
    found = ranker(start="linear").fit(DATA, eval_set=[VALID, DATA], cluster=client)
    assert np.array_equal(found.linear_.coefficients, expected.linear_.coefficients)
    assert found.forest_.dump() == expected.forest_.dump()
    assert found.evals_result_ == expected.evals_result_
    from_files = ranker(start="linear").fit(files, cluster=client)
    assert np.array_equal(from_files.predict(VALID), expected.predict(VALID))
    more = ranker().fit(DATA, init_model=expected, cluster=client)
    assert more.forest_.dump() == ranker().fit(DATA, init_model=expected).forest_.dump()


GOALS = {"relevance": DATA.y, "margin": np.round(np.abs(DATA.X[:, 0]) % 3)}
WITH_GOALS = RankingData(DATA.X, GOALS, qid=DATA.qid, feature_names=DATA.feature_names)
TWO_GOALS: dict[str, Any] = {
    "objective": "lambdamart + 0.5 lambdamart(label=margin)",
    "metric": ["ndcg@10", "ndcg@10[margin]"],
}


def test_several_labels(client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import dask.dataframe as dd
    import pandas as pd

    few = WITH_GOALS.subset([0])  # on one worker only
    expected = ranker(**TWO_GOALS).fit(WITH_GOALS, eval_set=[WITH_GOALS, few])
    found = ranker(**TWO_GOALS).fit(WITH_GOALS, eval_set=[WITH_GOALS, few], cluster=client)
    assert found.forest_.dump() == expected.forest_.dump()
    assert found.evals_result_ == expected.evals_result_
    frame = pd.DataFrame(DATA.X, columns=DATA.feature_names).assign(**GOALS, q=DATA.qid)
    found = ranker(**TWO_GOALS).fit(
        dd.from_pandas(frame, npartitions=3), list(GOALS), qid="q", cluster=client
    )
    assert found.forest_.dump() == expected.forest_.dump()
    assert found.label_column_ == list(GOALS)
    for number, rows in enumerate(
        np.array_split(np.random.default_rng(0).permutation(len(frame)), 3)
    ):
        (tmp_path / "data").mkdir(exist_ok=True)
        frame.iloc[rows].to_parquet(tmp_path / "data" / f"{number}.parquet")
    found = ranker(**TWO_GOALS).fit(tmp_path / "data", list(GOALS), qid="q", cluster=client)
    assert found.forest_.dump() == expected.forest_.dump()
    labels = [
        "--label",
        "relevance",
        "--label",
        "margin",
        "--qid",
        "q",
        "--scheduler",
        client.scheduler.address,
    ]
    chosen = [
        "--objective",
        TWO_GOALS["objective"],
        "--metric",
        " ".join(TWO_GOALS["metric"]),
        "--trees",
        6,
    ]
    options = ["--set", "min_child_samples=5", "--quiet", "--out", tmp_path / "run"]
    assert command(monkeypatch, "train", tmp_path / "data", *labels, *chosen, *options) == 0
    assert rw.Run.open(tmp_path / "run").ranker.forest_.dump() == expected.forest_.dump()


def test_parts_with_other_labels_are_named() -> None:
    counts, columns = np.zeros(pieces.BUCKETS, dtype=np.int64), Columns(["c"], {})
    parts = [
        pieces.Description(name, columns, labels, counts)
        for name, labels in (("a", ("x",)), ("b", ("x", "y")))
    ]
    with pytest.raises(
        ValueError, match="b has the labels x, y, and a has x; give all parts the same"
    ):
        pieces.common_labels(parts)


def test_more_workers_than_queries_and_a_query_of_half_the_data(client: Any) -> None:
    one = RankingData(DATA.X[:60], DATA.y[:60], qid=[1] * 60)
    assert ranker().fit(one, cluster=client).forest_.dump() == ranker().fit(one).forest_.dump()
    half = RankingData(DATA.X[:300], DATA.y[:300], qid=[1] * 150 + list(range(10, 160)))
    few = RankingData(VALID.X[:20], VALID.y[:20], qid=[7] * 20)  # on one worker only
    found = ranker().fit(half, eval_set=few, cluster=client)
    expected = ranker().fit(half, eval_set=few)
    assert found.forest_.dump() == expected.forest_.dump()
    assert found.evals_result_ == expected.evals_result_


def test_buckets_are_dealt_evenly() -> None:
    rows = np.random.default_rng(0).integers(0, 50, pieces.BUCKETS)
    loads = np.bincount(pieces.owners(rows, 7), rows)
    assert loads.max() - loads.min() <= 50
    huge = rows.copy()
    huge[9] = rows.sum()
    loads = np.bincount(pieces.owners(huge, 3), huge)
    assert sorted(loads)[2] == rows.sum()


def test_training_resumes_from_a_checkpoint_and_stops_when_a_callback_says_so(
    client: Any, tmp_path: Path
) -> None:
    checkpoint = {"path": tmp_path / "c", "trees": 1}
    seen: list[int] = []

    def stop(progress: Any) -> bool:
        seen.append(progress.iteration)
        assert len(progress.history[0]["ndcg@10"]) == progress.iteration
        return progress.iteration >= 3

    common = {"n_estimators": 400, "checkpoint": checkpoint}
    first = ranker(**common).fit(DATA, eval_set=VALID, callbacks=[stop], cluster=client)
    n_first = len(first.learning_rates_)
    assert 3 <= n_first < 400
    assert seen == list(range(1, n_first + 1))
    n = n_first + 3
    rest = ranker(n_estimators=n, checkpoint=checkpoint).fit(DATA, eval_set=VALID, cluster=client)
    assert rest.forest_.dump() == ranker(n_estimators=n).fit(DATA).forest_.dump()


def test_an_interrupt_keeps_the_trees_so_far(client: Any) -> None:
    def interrupt(progress: Any) -> None:
        if progress.iteration == 2:
            raise KeyboardInterrupt

    found = ranker(n_estimators=4000).fit(DATA, callbacks=[interrupt], cluster=client)
    assert found.interrupted_
    n = len(found.learning_rates_)
    assert 2 <= n < 4000
    assert found.forest_.dump() == ranker(n_estimators=n).fit(DATA).forest_.dump()


def test_sums_need_not_be_exact(client: Any) -> None:
    found = ranker().fit(DATA, cluster=Cluster(client, exact=False))
    np.testing.assert_allclose(found.predict(VALID), ranker().fit(DATA).predict(VALID), atol=0.05)


def test_trees_are_added_to_a_model(client: Any) -> None:
    for first in (
        ranker().fit(DATA),
        ranker().fit(VALID),
    ):  # of other data: its splits are elsewhere
        found = ranker().fit(DATA, init_model=first, cluster=client)
        assert found.forest_.dump() == ranker().fit(DATA, init_model=first).forest_.dump()


def break_file(folder: Path, kind: str) -> None:
    if kind == "truncated":
        whole = (folder / "part3.parquet").read_bytes()
        (folder / "part3.parquet").write_bytes(whole[: len(whole) // 2])
    elif kind == "no label":
        write(folder, "part3.parquet", table().drop_columns(["label"]))
    elif kind == "another schema":
        write(folder, "part3.parquet", table().rename_columns(["other", *table().column_names[1:]]))
    elif kind == "text":
        import pyarrow as pa

        write(folder, "part3.parquet", table().set_column(0, "f1", pa.array(["x"] * DATA.n_rows)))
    elif kind == "a missing query id":
        import pyarrow as pa

        ids = pa.array([None, *DATA.qid[1:].tolist()])
        write(folder, "part3.parquet", table().drop_columns(["qid"]).append_column("qid", ids))


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("truncated", r"worker \d, .*part3.parquet"),
        ("no label", r"worker \d, .*part3.parquet has no column 'label'"),
        (
            "another schema",
            r"worker \d, .*3.parquet does not have the columns of worker \d, .*0.parquet: .*Missing: ",
        ),
        ("text", r"worker \d, .*part3.parquet: column"),
        ("a missing query id", r"worker \d, .*part3.parquet: the query id at row 0 is missing"),
    ],
)
def test_bad_files_are_one_error_that_names_them(
    client: Any, files: Path, kind: str, reason: str
) -> None:
    break_file(files, kind)
    with pytest.raises(ValueError, match=reason):
        ranker().fit(files, cluster=client)


@pytest.mark.parametrize(
    "given", [{"members": np.int64(1)}, {"members": 1, "refit": False}, {"position": None}]
)
def test_what_asks_for_nothing_is_no_reason_to_refuse_a_cluster(given: dict[str, Any]) -> None:
    check_on_cluster(given, None)
    for name, value in (("members", 2), ("position", np.arange(3)), ("early_stopping", "cv")):
        with pytest.raises(ValueError, match=f"{name} cannot be used with cluster="):
            check_on_cluster({**given, name: value}, None)


def test_arguments_that_cannot_be_used(client: Any, files: Path, tmp_path: Path) -> None:
    with pytest.raises(
        ValueError,
        match="engine='lightgbm' trains on one machine; a cluster needs engine='xgboost'",
    ):
        ranker(engine="lightgbm").fit(DATA, cluster=client)
    with pytest.raises(ValueError, match="there is no Parquet file and no LETOR text at"):
        ranker().fit(tmp_path / "nothing", cluster=client)
    with pytest.raises(ValueError, match="X names files, so y must be names of their columns"):
        ranker().fit(files, DATA.y, cluster=client)
    with pytest.raises(ValueError, match="at least one worker; got 0"):
        ranker().fit(DATA, cluster=0)
    with pytest.raises(ValueError, match="cluster must be a Dask client"):
        ranker().fit(DATA, cluster=[1])
    with pytest.raises(ValueError, match="not an address"):
        ranker().fit(DATA, cluster="here")
    with pytest.raises(ValueError, match="retries must be a whole number"):
        Cluster(2, retries=-1)
    for options, arguments in (
        ({"refit": True, "early_stopping_rounds": 5}, {"eval_set": [DATA]}),
        ({"members": 2}, {}),
        ({"early_stopping": "cv"}, {}),
        ({}, {"pairs": {"winner": [0], "loser": [1]}}),
        ({}, {"position": np.ones(DATA.n_rows)}),
        ({}, {"propensity": np.ones(DATA.n_rows)}),
    ):
        name = next(iter({**options, **arguments}))
        with pytest.raises(ValueError, match=f"{name} cannot be used with cluster="):
            ranker(**options).fit(DATA, **arguments, cluster=client)
    with pytest.raises(ValueError, match="give fit their path"):
        ranker().fit(stream_data(files), cluster=client)
    write(tmp_path / "empty", "e.parquet", table(slice(0, 0)))
    with pytest.raises(ValueError, match="the data is empty"):
        ranker().fit(tmp_path / "empty", cluster=client)


def test_workers_with_other_versions_are_named(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[Any] = [
        {**dask_room._versions(), "numpy": "1.0"},
        ModuleNotFoundError("no", name="rankwright"),
    ]
    for one, reason in zip(
        found, ("has numpy 1.0, this process", "cannot import rankwright; install"), strict=True
    ):
        answers = lambda _, workers, on_error, one=one: dict.fromkeys(workers, one)  # noqa: E731
        monkeypatch.setattr(client, "run", answers)
        with pytest.raises(ValueError, match=rf"worker 0 \(tcp.*\) {reason}"):
            ranker().fit(DATA, cluster=client)


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r'pip install "rankwright\[cluster\]"'):
        ranker().fit(DATA, cluster=2)


def test_levels_of_two_parts_become_one_list() -> None:
    counts = np.zeros(pieces.BUCKETS, dtype=np.int64)
    parts = [
        pieces.Description(name, Columns(["c"], {"c": (name,)}), ("label",), counts)
        for name in ("b", "a")
    ]
    assert pieces.common_columns(parts, None).categories == {"c": ("a", "b")}
    assert pieces.common_columns(parts, Columns(["c"], {"c": ("b",)})).categories == {"c": ("b",)}


@pytest.mark.slow
def test_a_killed_worker_costs_a_restart_but_changes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    expected = ranker(n_estimators=60).fit(DATA)
    killed = threading.Event()
    with dask_room.connect(2, 2) as client:
        victim = sorted(client.run(os.getpid).values())[0]

        def kill(progress: Any) -> None:
            if progress.iteration >= 5 and not killed.is_set():
                killed.set()
                os.kill(victim, signal.SIGKILL)

        with caplog.at_level(logging.WARNING, "rankwright"):
            found = ranker(n_estimators=60).fit(DATA, callbacks=[kill], cluster=client)
        assert killed.is_set()
        assert found.forest_.dump() == expected.forest_.dump()
        if "retry 1 of 2" in caplog.text:  # it was hit before its last tree
            assert "is gone after" in caplog.text


def test_when_retries_are_used_up_the_error_says_what_is_left(
    client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: Any) -> Any:
        raise dask_room.LostWorker("worker 7 is gone")

    monkeypatch.setattr(dask_room, "check_versions", lost)
    with pytest.raises(
        RuntimeError, match="worker 7 is gone, and 1 retries are used up: nothing was kept"
    ):
        ranker().fit(DATA, cluster=Cluster(client, retries=1))
    with pytest.raises(
        RuntimeError, match="has the first 0 trees, and the same fit resumes from there"
    ):
        ranker(checkpoint=tmp_path / "c").fit(DATA, cluster=Cluster(client, retries=0))


def command(monkeypatch: pytest.MonkeyPatch, *arguments: Any) -> int:
    monkeypatch.setattr("sys.argv", ["rankwright", *map(str, arguments)])
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_the_command_line(
    client: Any, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = ["--scheduler", client.scheduler.address]
    options = ["--trees", 6, "--set", "min_child_samples=5", "--quiet", "--out", tmp_path / "run"]
    for _ in range(2):  # the second time it is finished already
        assert command(monkeypatch, "train", files / "*.parquet", *where, *options) == 0
    run = rw.Run.open(tmp_path / "run")
    assert run.finished
    assert run.manifest["data"]["train"]["rows"] == DATA.n_rows
    assert run.config["engine"] == "xgboost"
    expected = ranker().fit(DATA, eval_set=DATA)
    assert run.ranker.forest_.dump() == expected.forest_.dump()
    assert [row["train"]["ndcg@10"] for row in run.history] == expected.evals_result_["valid_0"][
        "ndcg@10"
    ]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--workers", 2, "--scheduler", "tcp://x:1"], "not both"),
        (["--workers", 2, "--zero-based"], "are for LETOR text"),
        (["--scheduler", "nowhere"], "not an address"),
        (["--workers", 2, "--set", "engine=lightgbm"], "trains on one machine"),
    ],
)
def test_commands_that_cannot_be_run(
    files: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[Any],
    reason: str,
) -> None:
    assert command(monkeypatch, "train", files, *arguments, "--out", tmp_path / "run") != 0
    assert reason in " ".join(capsys.readouterr().err.replace("│", "").split())
