"""Files that were changed, disks that are full, devices, and names that a terminal or a browser would act on."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankwright import Ranker, RankingData, Run, load, read_data, write_data
from rankwright.cli.terminal import printable
from rankwright.report.page import Figure, Page, Section, save_page
from rankwright.runs import read_config, train_run
from rankwright.support import files
from small import QUICK, TRAIN, VALID, quick
from waiting import wait_for


@pytest.fixture(scope="module")
def categorical(tmp_path_factory: pytest.TempPathFactory) -> Path:
    frame = pd.DataFrame(
        {"a": np.arange(6.0), "kind": pd.Categorical(["u", "v", "u", "w", "w", "v"])}
    )
    path = tmp_path_factory.mktemp("data") / "data.parquet"
    write_data(RankingData(frame, [0, 1, 0, 2, 1, 0], qid=[1, 1, 1, 2, 2, 2]), path)
    return path


METADATA = [
    b"",
    b"{",
    b"[]",
    b"null",
    b"3",
    b"[" * 100_000,
    b"\xff\xfe",
    b'{"categories": 3}',
    b'{"categories": {"kind": 3}}',
    b'{"categories": {"kind": [[]]}}',
    b'{"categories": {"none": ["x"]}}',
    b'{"fields": "a"}',
    b'{"fields": ["none"]}',
]


@pytest.mark.parametrize("metadata", METADATA, ids=lambda text: text[:24].decode(errors="replace"))
def test_a_damaged_description_of_a_table_is_one_error(
    categorical: Path, tmp_path: Path, metadata: bytes
) -> None:
    table = pq.read_table(categorical).replace_schema_metadata({"rankwright": metadata})
    pq.write_table(table, tmp_path / "bad.parquet")
    with pytest.raises(
        ValueError, match=r"bad\.parquet: the file's description of its columns .* was damaged"
    ):
        read_data(tmp_path / "bad.parquet")


@pytest.mark.parametrize(
    "metadata", [b"{", b"[]", b'{"index_columns": 3}', b'{"index_columns": ["none"]}']
)
def test_a_damaged_description_by_pandas_is_left_out(
    categorical: Path, tmp_path: Path, metadata: bytes
) -> None:
    pq.write_table(
        pq.read_table(categorical).replace_schema_metadata({"pandas": metadata}),
        tmp_path / "a.parquet",
    )
    assert read_data(tmp_path / "a.parquet").feature_names == ["a", "kind"]


@pytest.mark.parametrize("code", [-1.0, 3.0, 0.5, 1e300])
@pytest.mark.parametrize("with_reference", [False, True])
def test_codes_of_no_category_are_refused(
    categorical: Path, tmp_path: Path, code: float, with_reference: bool
) -> None:
    table = pq.read_table(categorical)
    codes = table["kind"].to_pylist()
    codes[4] = code
    table = table.set_column(table.column_names.index("kind"), "kind", pa.array(codes))
    pq.write_table(table, tmp_path / "bad.parquet")
    reference = read_data(categorical) if with_reference else None
    with pytest.raises(
        ValueError, match=r"'kind' holds codes of 3 categories, from 0 to 2, and has .* in row 4"
    ):
        read_data(tmp_path / "bad.parquet", reference=reference)


def test_categories_that_arrow_cannot_hold_are_refused(categorical: Path, tmp_path: Path) -> None:
    table = pq.read_table(categorical).replace_schema_metadata(
        {"rankwright": json.dumps({"categories": {"kind": ["u", "v", 10**40]}})}
    )
    pq.write_table(table, tmp_path / "bad.parquet")
    with pytest.raises(
        ValueError,
        match=r"bad\.parquet: column 'kind' has categories of several types, or very large",
    ):
        read_data(tmp_path / "bad.parquet", reference=read_data(categorical))


def test_text_of_a_table_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"label,qid,kind\n0,1,u\n1,1,v\xf3\n")
    with pytest.raises(
        ValueError,
        match=r"a\.csv: column 'kind' has text that is not UTF-8; save the file as UTF-8",
    ):
        read_data(tmp_path / "a.csv", categorical=["kind"])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a = " + "[" * 100_000, "nested too deeply"),
        (
            ".".join("a" * 50_000) + " = 1",
            "nested too deeply",
        ),  # time with the square of its length
        ("x = {'a' . " + ' . "b"' * 50_000 + " = 1}", "nested too deeply"),
        ("a = " + "9" * 5000, r"a\.toml is not valid TOML: Exceeds the limit"),
        ("a = \x00", r"a\.toml is not valid TOML"),
    ],
    ids=lambda text: text[:12],
)
def test_a_config_that_is_made_to_harm_is_one_error(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(ValueError, match=reason):
        read_config(tmp_path / "a.toml")


@pytest.mark.parametrize("code", [-1, 2, 1_000_000])
def test_codes_outside_of_an_arrow_dictionary_are_refused(code: int) -> None:
    column = pa.DictionaryArray.from_arrays(
        pa.array([0, 1, code], pa.int32()), pa.array(["x", "y"]), safe=False
    )
    with pytest.raises(ValueError, match="column 'kind' is not a valid Arrow column"):
        RankingData(pa.table({"kind": column}), [0, 1, 0], qid=[1, 1, 1])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    train_run(folder, TRAIN, parameters={**QUICK, "n_estimators": 2}, verbose=0)
    return folder


USED = {
    "status": [None, "x", 3],
    "data": [3, [], {"train": 3}],
    "reading": ["x", {"label": 3}, {"zero_based": "yes"}, {"drop": [3]}],
    "times": [None, 3, [1], {"read": "x"}, {"read": None}],
    "iterations": ["3", 1.5, None],
    "trees": ["3", None],
    "metrics": ["ndcg", [3]],
}


@pytest.mark.parametrize("name", USED)
def test_a_garbled_manifest_of_a_run_is_one_error(run: Path, name: str) -> None:
    file = run / "manifest.json"
    before = file.read_text()
    try:
        for value in USED[name]:
            file.write_text(json.dumps({**json.loads(before), name: value}))
            with pytest.raises(
                ValueError, match=rf"manifest\.json: {name} is .*, which no run has; it was damaged"
            ):
                Run.open(run)
    finally:
        file.write_text(before)


def test_options_that_read_data_does_not_have_are_left_out(run: Path) -> None:
    opened = Run.open(run)
    opened.manifest["reading"] = {"label": "grade", "eval": "x"}
    assert opened.reading == {"label": "grade"}


GARBLED = {
    "feature_names": [3, "abc", [1], [None], {}],
    "categories": [3, [1], {"none": None}, {"count_0": 3}, {"count_0": [[]]}],
    "named": ["yes", 1],
    "first_index": ["1", 2, []],
    "label_column": [3, {"a": 1}, []],
    "qid_column": [3, {}],
    "other_columns": [None, [[]], "abc"],
    "model_file": ["9" * 1000, "", "..", "a/b", "manifest.json", 3, ["model.txt"]],
}


@pytest.mark.parametrize("name", GARBLED)
def test_a_garbled_manifest_of_a_model_is_one_error(tmp_path: Path, name: str) -> None:
    quick(n_estimators=2).fit(TRAIN).save(tmp_path)
    before = json.loads((tmp_path / "manifest.json").read_text())
    for value in GARBLED[name]:
        (tmp_path / "manifest.json").write_text(json.dumps({**before, name: value}))
        with pytest.raises(ValueError, match=r"it was damaged"):
            load(tmp_path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_trees", float("inf")),
        ("n_trees", "3"),
        ("chosen", {"model": 3}),
        ("chosen", {"__dict_": {}}),
    ],
)
def test_a_garbled_manifest_of_a_ranker_is_one_error(tmp_path: Path, name: str, value: Any) -> None:
    quick(n_estimators=2).fit(TRAIN).save(tmp_path)
    before = json.loads((tmp_path / "manifest.json").read_text())
    value = {**before[name], **value} if isinstance(value, dict) else value
    (tmp_path / "manifest.json").write_text(json.dumps({**before, name: value}))
    with pytest.raises(ValueError, match=r"it was damaged"):
        Ranker.load(tmp_path)


def full_disk(*_: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ranker = quick(n_estimators=2).fit(TRAIN)
    monkeypatch.setattr(os, "fsync", full_disk)
    for write, name in (
        (lambda: write_data(TRAIN, tmp_path / "data.txt"), "data.txt"),
        (lambda: write_data(TRAIN, tmp_path / "data.csv"), "data.csv"),
        (lambda: write_data(TRAIN, tmp_path / "data.parquet"), "data.parquet"),
        (lambda: ranker.save(tmp_path / "model"), "manifest.json.new"),
        (lambda: ranker.save(tmp_path / "model.zip"), "model.zip"),
        (lambda: files.write_together({tmp_path / "several": b"x"}), "several"),
    ):
        with pytest.raises(OSError, match=rf"No space left on device: '.*{name}'"):
            write()
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_reported_for_the_file_asked_for(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none/data\.txt'$"):
        write_data(TRAIN, tmp_path / "none" / "data.txt")


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "scores.txt"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with files.replacing(pipe) as file:
        file.write(b"some text")
    assert os.read(reader, 100) == b"some text"
    os.close(reader)
    assert pipe.is_fifo()
    assert [path.name for path in tmp_path.iterdir()] == ["scores.txt"]


def test_a_link_to_a_device_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to(os.devnull)
    with files.replacing(tmp_path / "out") as file:
        file.write(b"text")
    assert (tmp_path / "out").is_symlink()


def test_a_device_without_end_is_not_read() -> None:
    with pytest.raises(ValueError, match="/dev/zero is a device, which may never end"):
        files.read_text("/dev/zero")


def test_what_grows_in_a_run_follows_no_planted_link(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "log.txt").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match=r"log\.txt"), files.appending(tmp_path / "log.txt") as file:
        file.write("line")
    assert (tmp_path / "precious").read_text() == "precious"


ESCAPES = "\x1b]0;title\x07\x1b[31m\x9b2J\u202e"


def test_characters_that_a_terminal_acts_on_are_spelled_out() -> None:
    assert printable(f"a{ESCAPES}b\tc\n") == r"a\x1b]0;title\x07\x1b[31m\x9b2J\u202eb" + "\tc\n"
    assert printable("ndcg@10 für é 日本 ✓") == "ndcg@10 für é 日本 ✓"


CLI = [sys.executable, "-c", "from rankwright.cli import main; main()"]


def test_ids_and_paths_never_reach_the_terminal_as_escapes(run: Path, tmp_path: Path) -> None:
    ids = [f"{ESCAPES}{qid}" for qid in VALID.qid]
    data = RankingData(VALID.X, VALID.y, qid=ids, feature_names=VALID.feature_names)
    write_data(data, tmp_path / "data.parquet")
    shown = subprocess.run(
        [*CLI, "evaluate", str(run), str(tmp_path / "data.parquet"), "--per-query"],
        capture_output=True,
        text=True,
    )
    assert shown.returncode == 0, shown.stderr
    assert r"\x1b]0;title\x07" in shown.stdout
    missing = subprocess.run(
        [*CLI, "evaluate", str(run), f"{ESCAPES}.parquet"], capture_output=True, text=True
    )
    assert missing.returncode == 1
    assert r"\x1b]0;title\x07" in missing.stderr
    assert not set("\x1b\x07\x9b\u202e") & set(
        shown.stdout + shown.stderr + missing.stdout + missing.stderr
    )


def test_no_command_prints_but_through_the_terminal_module() -> None:
    folder = Path(printable.__code__.co_filename).parent
    assert [file.name for file in folder.glob("*.py") if "typer.echo" in file.read_text()] == [
        "terminal.py"
    ]


def test_ctrl_c_in_train_is_not_a_failure(tmp_path: Path) -> None:
    write_data(TRAIN, tmp_path / "train.parquet")
    command = [
        "train",
        str(tmp_path / "train.parquet"),
        "--out",
        str(tmp_path / "run"),
        "--trees",
        "100000",
    ]
    with subprocess.Popen(
        [*CLI, *command, "--threads", "1"], stderr=subprocess.PIPE, text=True
    ) as process:
        metrics = tmp_path / "run" / "metrics.jsonl"
        wait_for(lambda: metrics.exists() and metrics.stat().st_size > 0)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "rankwright: training was interrupted after" in told
    assert load(tmp_path / "run" / "model").n_trees > 0
    assert Run.open(tmp_path / "run").manifest["status"] == "interrupted"


@pytest.mark.parametrize("name", ["__proto__", "constructor", "toString"])
def test_names_that_javascript_knows_are_changed_in_charts(name: str, tmp_path: Path) -> None:
    import altair as alt

    chart = (
        alt.Chart(alt.Data(values=[{"s": name, "v": 1}]))
        .mark_bar()
        .encode(x="v:Q", y=alt.Y("s:N", sort=[name]))
    )
    figure = Figure("Runs", chart, "A bar.")
    text = json.dumps(figure.specification())
    assert f'"{name}"' not in text
    assert text.count(json.dumps(f"{name}\u200b")) == 2
    save_page(Page(name, [Section(name, [figure])]), tmp_path / "page.html")
    assert name in (tmp_path / "page.html").read_text()


def test_a_first_save_that_was_killed_early_leaves_no_checkpoint_to_trip_over(
    tmp_path: Path,
) -> None:
    whole = quick(checkpoint=tmp_path / "whole", n_estimators=2).fit(TRAIN)
    (tmp_path / "early").mkdir()  # as a kill leaves it before the first move
    (tmp_path / "early" / "manifest.json.new").write_bytes(
        (tmp_path / "whole" / "manifest.json").read_bytes()
    )
    (tmp_path / "early" / "model.txt.new").write_bytes(
        (tmp_path / "whole" / "model.txt").read_bytes()
    )
    again = quick(checkpoint=tmp_path / "early", n_estimators=2).fit(TRAIN)
    assert np.array_equal(again.predict(VALID), whole.predict(VALID))


@pytest.mark.parametrize("failing", [1, 2])
def test_a_save_whose_moves_fail_leaves_one_whole_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    old, new = (quick(n_estimators=n).fit(TRAIN) for n in (2, 3))
    old.save(tmp_path / "model")
    move, calls = os.replace, []

    def fail(source: Any, target: Any) -> None:
        calls.append(source)
        if len(calls) == failing:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(source))
        move(source, target)

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="No space left"):
        new.save(tmp_path / "model")
    monkeypatch.undo()
    kept = (
        old if failing == 1 else new
    )  # once the trees are moved, the waiting manifest completes the new model
    assert load(tmp_path / "model").n_trees == kept.forest_.n_trees
    new.save(tmp_path / "model")
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == [
        "manifest.json",
        "model.txt",
    ]


def test_reading_takes_the_memory_of_the_file_alone(tmp_path: Path) -> None:
    (tmp_path / "small").write_bytes(b"text")
    code = f"""
import resource
from rankwright.support.files import read_plain
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
print(read_plain({str(tmp_path / "small")!r}, 1 << 34))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "b'text'\n", done.stderr


def test_what_a_killed_training_left_half_written_is_removed(tmp_path: Path) -> None:
    run = tmp_path / "run"
    train_run(run, TRAIN, parameters=QUICK, verbose=0)
    mine = [run / ".metrics.jsonl.0123abcd.part", tmp_path / ".run.89abcdef.part" / "config.toml"]
    others = [
        run / ".metrics.jsonl.part",
        tmp_path / ".runs.89abcdef.part",
        tmp_path / ".run.notes.part",
    ]
    (tmp_path / "linked").mkdir()
    for path in [*mine, *others, tmp_path / "linked" / "kept"]:
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
    (run / ".link.01234567.part").symlink_to(tmp_path / "linked")
    train_run(run, TRAIN, parameters=QUICK, verbose=0)
    assert not any(path.exists() for path in mine)
    assert not (run / ".link.01234567.part").is_symlink()
    assert all(path.exists() for path in [*others, tmp_path / "linked" / "kept"])
