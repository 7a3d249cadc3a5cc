"""The commands, most of them through the installed program as a user runs it."""

from __future__ import annotations

import gzip
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

import rankwright as rw
from commands import Outcome
from rankwright.cli.options import CLICK_OPTIONS, DATA_OPTIONS, RANKER_OPTIONS
from rankwright.data.documents import document_names
from rankwright.data.reading import read_data
from waiting import wait_for

COMMANDS = ["demo", "train", "evaluate", "compare", "predict", "convert"]
QUICK = [
    "--threads",
    "1",
    "--trees",
    "25",
    "--set",
    "min_child_samples=5",
    "--set",
    "learning_rate=0.1",
]
METRICS = ["ndcg@10", "map", "err(gain=linear)@5"]


def installed(*arguments: Any, cwd: Path | None = None, limit: int | None = None) -> Outcome:
    """Run the installed program; ``limit`` bounds the size of the files that it may write, as a small disk does."""

    def small_disk() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit or 0, limit or 0))

    result = subprocess.run(
        [Path(sys.executable).with_name("rankwright"), *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        check=False,
        preexec_fn=None if limit is None else small_disk,
    )
    return Outcome(result.returncode, result.stdout, result.stderr)


@dataclass(frozen=True)
class Workspace:
    """Files, with rows and queries in no order, and a run that the installed program trained on them."""

    folder: Path
    test: rw.RankingData

    def path(self, name: str) -> Path:
        return self.folder / name


def shuffled(data: rw.RankingData, seed: int) -> tuple[Any, Any, Any]:
    order = np.random.default_rng(seed).permutation(data.n_rows)
    return data.X[order], data.y[order], data.qid[order]


def write_letor(path: Path, X: Any, y: Any, qid: Any) -> None:
    lines = [
        f"{label:g} qid:{query} "
        + " ".join(f"{column}:{value!r}" for column, value in enumerate(row, start=1))
        for label, query, row in zip(y, qid, X.tolist(), strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="session")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    folder = tmp_path_factory.mktemp("cli")
    rest, test = rw.make_web_search(40, kind="short", n_features=25, random_state=3).split(0.3)
    for name, data in (("train", rest), ("test", test)):
        write_letor(folder / f"{name}.txt", *shuffled(data, 1))
    X, y, qid = shuffled(test, 1)
    result = installed(
        "train",
        "train.txt",
        "--valid",
        "test.txt",
        "--metric",
        "ndcg@10 map",
        *QUICK,
        "--out",
        "run",
        cwd=folder,
    )
    assert result.code == 0, result.err
    assert "25 trees" in result.out
    parameters = {"n_estimators": 25, "min_child_samples": 5, "learning_rate": 0.1, "n_jobs": 1}
    train = rw.read_letor(folder / "train.txt")
    rw.train_run(
        folder / "other", train, parameters={**parameters, "objective": "lambdamart"}, verbose=0
    )
    return Workspace(folder, rw.RankingData(X, y, qid=qid))


# Start-up, help and errors of the program as such.


def seconds_of_children() -> float:
    """Processor time, which other work on the machine does not add to."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_help_is_quick_and_loads_no_engine() -> None:
    best = np.inf
    for _ in range(5):
        began = seconds_of_children()
        result = installed("--help")
        best = min(best, seconds_of_children() - began)
    assert result.code == 0
    assert all(f"\n  {name} " in result.out for name in COMMANDS)
    assert best < 0.4
    code = (
        "import sys; from rankwright.cli import app; app(['--help'], standalone_mode=False); "
        "print(sorted(sys.modules))"
    )
    modules = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert "'rankwright.cli'" in modules
    assert not [
        name
        for name in ("numpy", "numba", "lightgbm", "sklearn", "pyarrow")
        if f"'{name}'" in modules
    ]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_an_example(call: Callable[..., Outcome], name: str) -> None:
    shown = call(name, "--help")
    assert shown.code == 0
    assert f"Example: rankwright {name} " in " ".join(shown.out.split())


@pytest.mark.parametrize(
    "name", ["demo", "train", "evaluate", "compare", "predict", "convert", "report", "tune"]
)
def test_every_command_that_reads_data_has_all_data_options(
    call: Callable[..., Outcome], name: str
) -> None:
    flags = {f"--{option.replace('_', '-')}" for option in DATA_OPTIONS} | {"--one-based"}
    # tune has a limit of time.
    flags = flags - {"--time"} | {"--time-column"}
    if name in ("demo", "predict"):
        flags.remove("--weight")
    assert flags == set(re.findall(r"--[a-z-]+", call(name, "--help").out)) & (flags | {"--weight"})


@pytest.mark.parametrize(
    ("options", "function"),
    [(DATA_OPTIONS, read_data), (RANKER_OPTIONS, rw.Ranker), (CLICK_OPTIONS, rw.Ranker.fit)],
)
def test_options_have_the_names_and_defaults_of_the_library(
    options: dict[str, Any], function: Callable[..., Any]
) -> None:
    parameters = signature(function).parameters
    for name, annotation in options.items():
        default = parameters[name].default
        shown = re.search(r"\[([^]]+)\]", get_args(annotation)[1].help)
        if name == "n_jobs":
            assert (default, shown and shown[1]) == (None, "all cores")
        elif default is None or default is False or default == ():
            assert shown is None, name
        else:
            assert shown is not None, name
            assert shown[1] == str(default)


def test_shell_completion_is_offered() -> None:
    shown = subprocess.run(
        [Path(sys.executable).with_name("rankwright"), "--show-completion", "bash"],
        env={**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "_RANKWRIGHT_COMPLETE" in shown.stdout


def test_debug_shows_the_traceback_wherever_it_stands(call: Callable[..., Outcome]) -> None:
    plain = call("convert", "nothing.txt", "x.csv")
    assert plain == Outcome(1, "", "rankwright: nothing.txt: No such file or directory.\n")
    for arguments in (
        ("--debug", "convert", "nothing.txt", "x.csv"),
        ("convert", "nothing.txt", "x.csv", "--debug"),
    ):
        with pytest.raises(FileNotFoundError, match=r"nothing\.txt"):
            call(*arguments)
    shown = installed(*arguments)
    assert shown.code == 1
    assert shown.err.startswith("Traceback")


WRONG = {
    "no command": ["fly"],
    "no option": ["train", "a.txt", "--out", "r", "--colour", "red"],
    "no folder": ["train", "a.txt"],
    "objective": ["train", "a.txt", "--out", "r", "--objective", "lambdamat"],
    "metric": ["train", "a.txt", "--out", "r", "--metric", "ndcgg"],
    "key": ["train", "a.txt", "--out", "r", "--set", "num_leave=3"],
    "form": ["train", "a.txt", "--out", "r", "--set", "num_leaves"],
    "value": ["train", "a.txt", "--out", "r", "--set", "num_leaves=many"],
    "inner": ["train", "a.txt", "--out", "r", "--set", "num_leaves.x=3"],
    "twice": ["train", "a.txt", "--out", "r", "--trees", "3", "--set", "n_estimators=4"],
    "engine": ["train", "a.txt", "--out", "r", "--set", "engine_params.max_bim=4"],
    "stopping": ["train", "a.txt", "--out", "r", "--early-stopping", "4"],
    "checkpoint": ["train", "a.txt", "--out", "r", "--set", "checkpoint.path=x"],
    "metrics": ["evaluate", "r", "a.txt", "--metrics", "nothing"],
    "no metrics": ["evaluate", "r", "a.txt", "--metrics", " "],
    "ties": ["evaluate", "r", "a.txt", "--ties", "good"],
    "test": ["compare", "r", "s", "a.txt", "--test", "good"],
    "one system": ["compare", "r", "a.txt"],
    "format": ["predict", "r", "a.txt", "--out", "x", "--format", "good"],
    "tag": ["predict", "r", "a.txt", "--out", "x.txt", "--tag", "t"],
    "columns": ["demo", "--label", "x"],
    "no tree": ["train", "a.txt", "--out", "r", "--trees", "0"],
    "no thread": ["train", "a.txt", "--out", "r", "--threads", "0"],
    "negative seed": ["train", "a.txt", "--out", "r", "--seed", "-1"],
    "refit": ["train", "a.txt", "--out", "r", "--valid", "b.txt", "--refit"],
    "target of no calibration": ["train", "a.txt", "--out", "r", "--calibrate-target", "label"],
    "scores as Parquet": ["predict", "r", "a.txt", "--out", "x.parquet"],
    "trees of a sweep twice": ["sweep", "a.txt", "--trees", "3", "--set", "n_estimators=4"],
    "queries of a file": ["demo", "--data", "a.txt", "--queries", "30"],
    "Markdown as HTML": ["report", "r", "--data", "a.txt", "--out", "x.html", "--format", "md"],
}
HINTS = {
    "objective": "did you mean 'lambdamart'?",
    "metric": "did you mean 'ndcg'?",
    "key": "did you mean 'num_leaves'?",
    "form": "KEY=VALUE",
    "value": "num_leaves must be",
    "engine": "did you mean 'max_bin'?",
    "stopping": "--valid",
    "twice": "n_estimators is given twice",
    "checkpoint": "in its own folder",
    "tag": "--format trec",
    "columns": "--data",
    "no tree": "'--trees'",
    "no thread": "'--threads'",
    "negative seed": "'--seed'",
    "refit": "--refit needs a number of trees chosen on --valid",
    "target of no calibration": "give --calibrate too",
    "scores as Parquet": "x.parquet is not a name for scores",
    "trees of a sweep twice": "n_estimators is given twice",
    "queries of a file": "--queries is for synthetic data",
    "Markdown as HTML": "--format md does not fit the name x.html",
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_usage_is_exit_code_2(call: Callable[..., Outcome], case: str) -> None:
    result = call(*WRONG[case])
    assert (result.code, result.out) == (2, "")
    assert HINTS.get(case, "Error") in " ".join(result.err.split())


def newer_run(workspace: Workspace, folder: Path) -> Path:
    shutil.copytree(workspace.path("run"), folder / "newer")
    manifest = json.loads((folder / "newer/manifest.json").read_text())
    (folder / "newer/manifest.json").write_text(
        json.dumps(manifest | {"run_version": 7, "rankwright": "8.1"})
    )
    return folder / "newer"


def damaged_run(workspace: Workspace, folder: Path) -> Path:
    shutil.copytree(workspace.path("run"), folder / "damaged")
    text = (folder / "damaged/model/model.txt").read_text()
    (folder / "damaged/model/model.txt").write_text(text.replace("leaf_value=", "leaf_value=9", 1))
    return folder / "damaged"


def bad_input(workspace: Workspace, folder: Path) -> dict[str, tuple[list[Any], str]]:
    """For each case the arguments and what the sentence must say."""
    (folder / "cut.txt.gz").write_bytes(
        gzip.compress(workspace.path("train.txt").read_bytes())[:-100]
    )
    (folder / "bare.csv").write_text("grade,qid,bm25\n1,1,2\n0,1,3\n")
    (folder / "wide.txt").write_text("1 qid:1 1:2 99:3\n0 qid:1 1:3\n")
    return {
        "wrong path": (
            ["train", folder / "no.txt", "--out", folder / "r"],
            "no.txt: No such file or directory.",
        ),
        "no model": (
            ["evaluate", folder / "no", workspace.path("test.txt")],
            "no: No such file or directory.",
        ),
        "truncated gz": (
            ["train", folder / "cut.txt.gz", "--out", folder / "r"],
            "gzip data is damaged or cut off",
        ),
        "no label": (
            ["train", folder / "bare.csv", "--out", folder / "r"],
            "no column 'label'; it has grade, qid, bm25.",
        ),
        "newer run": (
            ["evaluate", newer_run(workspace, folder), workspace.path("test.txt")],
            "by a newer version, rankwright 8.1",
        ),
        "newer, train": (
            ["train", workspace.path("train.txt"), "--out", folder / "newer"],
            "Upgrade rankwright",
        ),
        "damaged": (
            [
                "predict",
                damaged_run(workspace, folder),
                workspace.path("test.txt"),
                "--out",
                folder / "s",
            ],
            "the hash",
        ),
        "foreign": (
            ["train", workspace.path("train.txt"), "--out", folder],
            "files that are not a run's",
        ),
        "ending": (
            ["convert", workspace.path("test.txt"), folder / "test.doc"],
            "has no known file extension",
        ),
        "width": (
            ["evaluate", workspace.path("run"), folder / "wide.txt"],
            "wide.txt has 99 features, but the",
        ),
        "config": (
            [
                "train",
                workspace.path("train.txt"),
                "--out",
                folder / "r",
                "--config",
                folder / "no",
            ],
            "No such file",
        ),
    }


def test_bad_paths_and_bad_data_are_one_sentence_and_exit_code_1(
    workspace: Workspace, tmp_path: Path, call: Callable[..., Outcome]
) -> None:
    cases = bad_input(workspace, tmp_path)
    before = sorted(tmp_path.rglob("*"))
    for case, (arguments, reason) in cases.items():
        run = (
            installed
            if case in ("wrong path", "truncated gz", "no label", "newer run", "damaged")
            else call
        )
        result = run(*arguments)
        assert (result.code, result.out) == (1, ""), (case, result)
        assert result.err.startswith("rankwright: "), case
        assert reason in result.err, (case, result.err)
        assert result.err.count("\n") == 1, (case, result.err)
    assert sorted(tmp_path.rglob("*")) == before


def test_errors_name_the_flag_and_not_the_argument(
    tmp_path: Path, call: Callable[..., Outcome]
) -> None:
    (tmp_path / "a.csv").write_text("grade,qid,url\n1,1,x\n0,1,y\n")
    (tmp_path / "zero.txt").write_text("1 qid:1 0:2\n")
    for arguments, remedy in (
        (["a.csv"], "it has grade, qid, url. --label must name one of them."),
        (
            ["a.csv", "--label", "grade"],
            "if it holds categories, --categorical must name it, or it needs a categorical type.",
        ),
        (
            ["a.csv", "--label", "grade", "--zero-based"],
            "--zero-based is about the indices of LETOR text",
        ),
        (
            ["zero.txt", "--label", "grade"],
            "--label is for named columns, and the columns of LETOR text",
        ),
        (["zero.txt", "--qid", "query"], "--qid is for named columns"),
        (["zero.txt", "--docid", "url"], "--docid is for named columns"),
        (["zero.txt"], "If the indices start at 0, --zero-based must be set."),
    ):
        result = call("convert", tmp_path / arguments[0], tmp_path / "b.csv", *arguments[1:])
        assert result.code == 1
        assert remedy in result.err
        assert "=" not in result.err


def test_errors_name_the_flags_of_the_command(
    workspace: Workspace, call: Callable[..., Outcome]
) -> None:
    run, data = workspace.path("run"), workspace.path("train.txt")
    result = call("calibrate", run, data)
    assert "otherwise --folds must be given, for example 5" in result.err
    result = call("calibrate", run, data, "--threshold", "2")
    assert (
        "--threshold is for probabilities of relevance, and the target is the label; leave it out."
        in result.err
    )
    result = call("evaluate", run, data, "--label", "grade")
    assert "--label is for named columns" in result.err


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[tuple[Path, int | None]]:
    """A disk of 128 kB: a folder on a file system of its own or, without the right to mount, a limit on files."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(disk)]
    try:
        mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    try:
        yield disk, None if mounted else 60_000
    finally:
        if mounted:
            subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk(workspace: Workspace, full_disk: tuple[Path, int | None]) -> None:
    disk, limit = full_disk
    (disk / "test.parquet").write_text("precious")
    (disk / "scores.txt").write_text("precious")
    (disk / "ballast").write_bytes(bytes(60_000))
    run = workspace.path("run")
    many = ["--set", "checkpoint.trees=70", "--trees", "150", *QUICK[:2], *QUICK[4:]]
    long = disk.parent / "long.txt"
    long.write_text(workspace.path("test.txt").read_text() * 20)
    for arguments in (
        ["convert", workspace.path("train.txt"), disk / "test.parquet"],
        ["predict", run, long, "--out", disk / "scores.txt"],
        ["train", workspace.path("train.txt"), *many, "--out", disk / "run", "--quiet"],
    ):
        result = installed(*arguments, limit=limit)
        assert (result.code, result.out) == (1, ""), result
        assert "No space left on device" in result.err or "File too large" in result.err
        assert result.err.startswith("rankwright: ")
        assert result.err.count("\n") == 1
        assert sorted(os.listdir(disk)) == ["ballast", "scores.txt", "test.parquet"]
    assert {(disk / name).read_text() for name in ("test.parquet", "scores.txt")} == {"precious"}


# Training.


def test_train_is_the_ranker_with_these_parameters(workspace: Workspace) -> None:
    train, valid = rw.read_letor([workspace.path("train.txt"), workspace.path("test.txt")])
    plain = rw.Ranker(
        metric=["ndcg@10", "map"],
        n_estimators=25,
        min_child_samples=5,
        learning_rate=0.1,
        n_jobs=1,
        verbose=0,
    ).fit(train, eval_set=[valid, train])
    run = rw.Run.open(workspace.path("run"))
    assert np.array_equal(run.ranker.predict(valid), plain.predict(valid))
    assert [row["valid"]["map"] for row in run.history] == plain.evals_result_["valid_0"]["map"]
    assert [row["train"]["ndcg@10"] for row in run.history] == plain.evals_result_["valid_1"][
        "ndcg@10"
    ]
    assert run.manifest["data"]["train"]["path"] == "train.txt"
    assert run.times["read"] > 0


def test_a_finished_run_says_so(workspace: Workspace, call: Callable[..., Outcome]) -> None:
    arguments = [
        "train",
        workspace.path("train.txt"),
        "--objective",
        "lambdamart",
        *QUICK,
        "--out",
        workspace.path("other"),
    ]
    result = call(*arguments)
    assert result.code == 0
    assert "already finished" in result.out
    assert call(*arguments, "--quiet") == Outcome(0, "", "")
    result = call(*arguments, "--set", "num_leaves=3")
    assert result.code == 1
    assert "num_leaves is not set there and 3 here" in result.err
    result = call(*arguments, "--valid", workspace.path("test.txt"))
    assert result.code == 1
    assert "other valid data" in result.err


def test_force_trains_anew(
    workspace: Workspace, tmp_path: Path, call: Callable[..., Outcome]
) -> None:
    start = ["train", workspace.path("train.txt"), "--threads", 1, "--out", tmp_path / "run"]
    assert call(*start, "--trees", 2).code == 0
    assert call(*start, "--trees", 3).code == 1
    assert call(*start, "--trees", 3, "--force").code == 0
    assert len(rw.Run.open(tmp_path / "run").history) == 3


def test_a_repeated_metric_is_one_more(
    workspace: Workspace, tmp_path: Path, call: Callable[..., Outcome]
) -> None:
    train, test = workspace.path("train.txt"), workspace.path("test.txt")
    start = ["train", train, "--threads", 1, "--trees", 2, "--out", tmp_path / "run"]
    assert call(*start, "--metric", "map", "--metric", "ndcg@5 mrr").code == 0
    assert rw.Run.open(tmp_path / "run").config["metric"] == ["map", "ndcg@5", "mrr"]
    shown = call(
        "evaluate", tmp_path / "run", test, "--metrics", "ndcg@3", "--metrics", "err", "--json"
    )
    assert list(json.loads(shown.out)["mean"]) == ["ndcg@3", "err"]


def test_parameters_from_a_file_and_the_command_line(
    workspace: Workspace, tmp_path: Path, call: Callable[..., Outcome]
) -> None:
    (tmp_path / "c.toml").write_text(
        'n_estimators = 4\nnum_leaves = 5\nmetric = "map"\nn_jobs = 1\n'
        "[engine_params]\nmax_bin = 31\nmin_data_in_bin = 2\n"
    )
    result = call(
        *[
            "train",
            workspace.path("train.txt"),
            "--config",
            tmp_path / "c.toml",
            "--out",
            tmp_path / "run",
        ],
        *[
            "--set",
            "num_leaves=6",
            "--set",
            "engine_params.max_bin=63",
            "--set",
            "leaf_values=full",
        ],
        *[
            "--set",
            'objective="yetiloss + 0.5 queryrmse"',
            "--set",
            "langevin=true",
            "--seed",
            7,
            "--trees",
            3,
        ],
    )
    assert result.code == 0, result.err
    config = rw.Run.open(tmp_path / "run").config
    expected = {
        "n_estimators": 3,
        "num_leaves": 6,
        "metric": "map",
        "random_state": 7,
        "leaf_values": "full",
    }
    expected |= {"langevin": True, "objective": "yetiloss + 0.5 queryrmse"}
    assert {name: config[name] for name in expected} == expected
    assert config["engine_params"] == {"max_bin": 63, "min_data_in_bin": 2}
    again = call(
        "train",
        workspace.path("train.txt"),
        "--config",
        tmp_path / "run/config.toml",
        "--out",
        tmp_path / "again",
    )
    assert again.code == 0, again.err
    models = [(tmp_path / name / "model/model.txt").read_text() for name in ("run", "again")]
    assert models[0] == models[1]
    (tmp_path / "c.toml").write_text("num_leafs = 5\n")
    result = call(
        "train",
        workspace.path("train.txt"),
        "--config",
        tmp_path / "c.toml",
        "--out",
        tmp_path / "r",
    )
    assert result.code == 2
    assert "did you mean 'num_leaves'?" in " ".join(result.err.split())


def test_tables_are_read_later_as_they_were_in_training(
    workspace: Workspace, tmp_path: Path, call: Callable[..., Outcome]
) -> None:
    for name in ("train", "test"):
        data = rw.read_letor(workspace.path(f"{name}.txt"))
        header = ["grade", "query", "url", *(f"f{column}" for column in range(25))]
        rows = [
            [f"{label:g}", str(qid), f"http://{number}", *map(repr, row)]
            for number, (label, qid, row) in enumerate(
                zip(data.y, data.qid, data.X.tolist(), strict=True)
            )
        ]
        (tmp_path / f"{name}.csv").write_text(
            "\n".join(",".join(row) for row in [header, *rows]) + "\n"
        )
    columns = ["--label", "grade", "--qid", "query", "--drop", "url"]
    run = tmp_path / "run"
    assert call("train", tmp_path / "train.csv", *columns, *QUICK, "--out", run, "-q").code == 0
    assert (
        call("train", workspace.path("train.txt"), *QUICK, "--out", tmp_path / "letor", "-q").code
        == 0
    )
    tables = call("evaluate", run, tmp_path / "test.csv")
    assert tables.code == 0, tables.err
    assert tables == call("evaluate", tmp_path / "letor", workspace.path("test.txt"))
    by_position = call("evaluate", run, workspace.path("test.txt"))
    assert (by_position.code, by_position.out) == (0, tables.out)
    assert "test.txt has no column names; its 25 features are matched" in by_position.err
    (tmp_path / "bare.csv").write_text(
        "\n".join(
            ",".join(line.split(",")[1:2] + line.split(",")[3:])
            for line in (tmp_path / "test.csv").open()
        )
    )
    assert call("predict", run, tmp_path / "bare.csv", "--out", tmp_path / "bare.txt").code == 0
    assert call("predict", run, tmp_path / "test.csv", "--out", tmp_path / "full.txt").code == 0
    assert (tmp_path / "bare.txt").read_bytes() == (tmp_path / "full.txt").read_bytes()


def checkpointed(run: Path) -> int:
    try:
        return len(json.loads((run / "checkpoint/manifest.json").read_text())["state"]["trees"])
    except (FileNotFoundError, ValueError):
        return 0


def running(process: subprocess.Popen[Any]) -> bool:
    assert process.poll() is None, "training ended too early"
    return True


def test_a_killed_training_resumes_to_the_same_run(workspace: Workspace, tmp_path: Path) -> None:
    arguments = [
        "train",
        workspace.path("train.txt"),
        "--valid",
        workspace.path("test.txt"),
        *QUICK[:2],
        *QUICK[4:],
        "--quiet",
    ]
    arguments += ["--trees", "150", "--set", "checkpoint.trees=1"]
    program = Path(sys.executable).with_name("rankwright")
    process = subprocess.Popen([program, *map(str, arguments), "--out", tmp_path / "killed"])
    wait_for(lambda: running(process) and checkpointed(tmp_path / "killed") >= 24, pause=0.002)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert rw.Run.open(tmp_path / "killed").manifest["status"] == "training"
    written = len(rw.Run.open(tmp_path / "killed").history)
    assert 24 <= written < 150
    for name in ("killed", "whole"):
        result = installed(*arguments, "--out", tmp_path / name)
        assert result.code == 0, result.err
    runs = [rw.Run.open(tmp_path / name) for name in ("killed", "whole")]
    for part in ("train", "valid"):
        curves = [[(row["iteration"], row[part]) for row in run.history] for run in runs]
        assert curves[0] == curves[1]
    assert [row["iteration"] for row in runs[0].history] == list(range(1, 151))
    predictions = [run.ranker.predict(workspace.test.X) for run in runs]
    assert np.array_equal(*predictions)
    assert "resuming after" in (tmp_path / "killed/log.txt").read_text()


def test_ctrl_c_keeps_a_model_and_says_how_to_resume(workspace: Workspace, tmp_path: Path) -> None:
    run = tmp_path / "run"
    program = Path(sys.executable).with_name("rankwright")
    arguments = [
        "train",
        workspace.path("train.txt"),
        "--threads",
        "1",
        "--trees",
        "100000",
        "--out",
        run,
        "--quiet",
    ]
    process = subprocess.Popen([program, *map(str, arguments)], stderr=subprocess.PIPE, text=True)
    metrics = run / "metrics.jsonl"
    wait_for(lambda: running(process) and metrics.exists() and metrics.stat().st_size > 0)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the same command resumes it" in err
    half = rw.Run.open(run)
    assert half.manifest["status"] == "interrupted"
    assert half.ranker.n_estimators_ == len(half.history) >= 1


# Using a run.


def test_evaluate_agrees_with_python(workspace: Workspace, call: Callable[..., Outcome]) -> None:
    scores = rw.Run.open(workspace.path("run")).ranker.predict(workspace.test)
    for run, ties, empty in ((installed, "worst", "skip"), (call, "expected", "zero")):
        expected = rw.evaluate(
            scores,
            workspace.test.y,
            qid=workspace.test.qid,
            metrics=METRICS,
            ties=ties,
            empty=empty,
        )
        options = [
            "--metrics",
            " ".join(METRICS),
            "--ties",
            ties,
            "--empty",
            empty,
            "--json",
            "--per-query",
        ]
        result = run("evaluate", workspace.path("run"), workspace.path("test.txt"), *options)
        assert result.code == 0, result.err
        printed = json.loads(result.out)
        assert printed["mean"] == expected.mean
        assert (printed["queries"], printed["ties"], printed["empty"]) == (
            workspace.test.n_queries,
            ties,
            empty,
        )
        for number, query in enumerate(expected.query_ids.tolist()):
            assert printed["per_query"][str(query)] == {
                m: expected.per_query[m][number] for m in METRICS
            }


def test_evaluate_in_words(workspace: Workspace, call: Callable[..., Outcome]) -> None:
    scores = rw.Run.open(workspace.path("run")).ranker.predict(workspace.test)
    expected = rw.evaluate(scores, workspace.test.y, qid=workspace.test.qid, metrics=["map"])
    result = call(
        "evaluate",
        workspace.path("run"),
        workspace.path("test.txt"),
        "--metrics",
        "map",
        "--per-query",
    )
    lines = result.out.splitlines()
    assert lines[:3] == [f"map  {expected.mean['map']:.4f}", "", "query\tmap"]
    assert lines[3:] == [
        f"{query}\t{value:.4f}"
        for query, value in zip(expected.query_ids, expected.per_query["map"], strict=True)
    ]


def test_a_saved_model_is_evaluated_like_its_run(
    workspace: Workspace, tmp_path: Path, call: Callable[..., Outcome]
) -> None:
    rw.Run.open(workspace.path("run")).ranker.save(tmp_path / "model.zip")
    expected = call("evaluate", workspace.path("run"), workspace.path("test.txt"), "--json")
    assert (
        call("evaluate", tmp_path / "model.zip", workspace.path("test.txt"), "--json") == expected
    )
    assert (
        call("evaluate", workspace.path("run/model"), workspace.path("test.txt"), "--json")
        == expected
    )


@pytest.mark.parametrize("ties", ["worst", "best", "expected", "input"])
def test_a_predicted_run_file_is_worth_what_the_run_is(
    workspace: Workspace, tmp_path: Path, call: Callable[..., Outcome], ties: str
) -> None:
    coarse = tmp_path / "coarse"  # a single stump leaves many ties
    train = [
        "train",
        workspace.path("train.txt"),
        "--trees",
        1,
        "--threads",
        1,
        "--set",
        "num_leaves=3",
        "--out",
        coarse,
    ]
    assert call(*train, "-q").code == 0
    for run in (workspace.path("run"), coarse):
        assert (
            call(
                "predict",
                run,
                workspace.path("test.txt"),
                "--out",
                tmp_path / "run.txt",
                "--format",
                "trec",
            ).code
            == 0
        )
        options = ["--metrics", "ndcg@10 map mrr err", "--ties", ties, "--json", "--per-query"]
        expected = call("evaluate", run, workspace.path("test.txt"), *options)
        assert expected.code == 0
        assert (
            call("evaluate", tmp_path / "run.txt", workspace.path("test.txt"), *options) == expected
        )


def test_predictions_are_in_the_order_of_the_file(workspace: Workspace, tmp_path: Path) -> None:
    result = installed(
        "predict", workspace.path("run"), workspace.path("test.txt"), "--out", tmp_path / "s.txt"
    )
    assert (result.code, result.out, result.err) == (0, "", "")
    rows = [line.split() for line in workspace.path("test.txt").read_text().splitlines()]
    X = np.array([[float(word.split(":")[1]) for word in row[2:]] for row in rows])
    assert sorted(row[1] for row in rows) != [row[1] for row in rows]  # the queries are in no order
    expected = rw.Run.open(workspace.path("run")).ranker.predict(X)
    assert [
        float(line) for line in (tmp_path / "s.txt").read_text().splitlines()
    ] == expected.tolist()


def test_a_run_file_of_predictions(
    workspace: Workspace, tmp_path: Path, call: Callable[..., Outcome]
) -> None:
    assert (
        call(
            "predict",
            workspace.path("run"),
            workspace.path("test.txt"),
            "--out",
            tmp_path / "a.trec.gz",
        ).code
        == 0
    )
    run = rw.read_trec_run(tmp_path / "a.trec.gz")
    assert run.tag == "run"
    scores = rw.Run.open(workspace.path("run")).ranker.predict(workspace.test)
    expected = dict(zip(document_names(workspace.test), scores.tolist(), strict=True))
    assert dict(zip(run.docno.tolist(), run.score.tolist(), strict=True)) == expected
    assert (
        call(
            "predict",
            workspace.path("run"),
            workspace.path("test.txt"),
            "--out",
            tmp_path / "b.run",
            "--tag",
            "x",
        ).code
        == 0
    )
    assert rw.read_trec_run(tmp_path / "b.run").tag == "x"


def test_run_files_and_judgements(tmp_path: Path, call: Callable[..., Outcome]) -> None:
    (tmp_path / "run.txt").write_text("q1 Q0 d1 1 3.0 bm25\nq1 Q0 d2 2 2.0 bm25\n")
    (tmp_path / "qrels.txt").write_text("q1 0 d2 1\n")
    (tmp_path / "data.txt").write_text("0 qid:q1 1:1\n1 qid:q1 1:2\n1 qid:q2 1:1\n")
    result = call(
        "evaluate", tmp_path / "run.txt", tmp_path / "qrels.txt", "--metrics", "mrr", "--json"
    )
    assert json.loads(result.out)["mean"] == {"mrr": 1 / 2}
    result = call("evaluate", tmp_path / "run.txt", tmp_path / "data.txt")
    assert result.code == 1
    assert "has no document 'd1' of query 'q1'" in result.err
    (tmp_path / "run.txt").write_text("q1 Q0 q1-1 1 3.0 bm25\n")
    result = call(
        "evaluate",
        tmp_path / "run.txt",
        tmp_path / "data.txt",
        "--metrics",
        "mrr",
        "--json",
        "--per-query",
    )
    assert json.loads(result.out)["per_query"] == {"q1": {"mrr": 1 / 2}, "q2": {"mrr": 1.0}}


def test_compare_agrees_with_python(
    workspace: Workspace, tmp_path: Path, call: Callable[..., Outcome]
) -> None:
    assert (
        call(
            "predict",
            workspace.path("run"),
            workspace.path("test.txt"),
            "--out",
            tmp_path / "a.trec",
        ).code
        == 0
    )
    systems = [workspace.path("other"), workspace.path("run"), tmp_path / "a.trec"]
    result = installed(
        "compare",
        *systems,
        workspace.path("test.txt"),
        "--metrics",
        "map ndcg@10",
        "--json",
        "--queries",
        3,
    )
    assert result.code == 0, result.err
    printed = json.loads(result.out)
    results = [
        rw.evaluate(
            rw.Run.open(path).ranker.predict(workspace.test),
            workspace.test.y,
            qid=workspace.test.qid,
            metrics=["map", "ndcg@10"],
        )
        for path in systems[:2]
    ]
    names = ["other", "run", "a.trec"]
    expected = rw.compare(*results, results[1], names=names).to_dict()
    assert {name: printed[name] for name in expected} == json.loads(json.dumps(expected))
    assert printed["means"] == dict(
        zip(names, [results[0].mean, results[1].mean, results[1].mean], strict=True)
    )
    assert printed["changes"]["metric"] == "map"
    assert printed["changes"]["systems"]["run"] == printed["changes"]["systems"]["a.trec"]
    before, after = (result.per_query["map"].tolist() for result in results)
    rows = [
        (a - b, query, b, a)
        for query, b, a in zip(results[0].query_ids.tolist(), before, after, strict=True)
    ]
    listed = printed["changes"]["systems"]["run"]
    for name, most in (("gains", sorted(rows)[::-1][:3]), ("losses", sorted(rows)[:3])):
        changed = [row for row in most if (row[0] > 0) == (name == "gains") and row[0] != 0]
        assert changed
        assert [
            (r["difference"], r["query"], r["baseline"], r["system"]) for r in listed[name]
        ] == changed


def test_compare_in_words(workspace: Workspace, call: Callable[..., Outcome]) -> None:
    result = call(
        "compare",
        workspace.path("other"),
        workspace.path("run"),
        workspace.path("test.txt"),
        "--test",
        "wilcoxon",
    )
    assert result.code == 0
    assert "Wilcoxon's signed-rank test" in result.out
    assert "run against other by ndcg@10, the queries that changed most:" in result.out
    assert " -> " in result.out
    same = call(
        "compare", workspace.path("run"), workspace.path("run/model"), workspace.path("test.txt")
    )
    assert "none changed" in same.out
    twice = call(
        "compare", workspace.path("run"), workspace.path("run"), workspace.path("test.txt")
    )
    assert twice.code == 2


def test_convert_there_and_back(
    workspace: Workspace, tmp_path: Path, call: Callable[..., Outcome]
) -> None:
    for source, target in (
        ("test.txt", "a.parquet"),
        ("a.parquet", "b.csv.gz"),
        ("b.csv.gz", "c.txt"),
    ):
        where = workspace.folder if source == "test.txt" else tmp_path
        run = installed if target == "a.parquet" else call
        assert run("convert", where / source, tmp_path / target) == Outcome(0, "", "")
    back = rw.read_letor(tmp_path / "c.txt")
    assert np.array_equal(
        back.X.view(np.uint64), workspace.test.X.astype(np.float64).view(np.uint64)
    )
    assert np.array_equal(back.y, workspace.test.y)
    assert back.qid.tolist() == workspace.test.qid.tolist()


def test_warnings_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "run.txt").write_text("q1 Q0 d1 1 3.0 bm25\n")
    (tmp_path / "qrels.txt").write_text("q1 0 d1 0\n")
    result = installed(
        "evaluate", tmp_path / "run.txt", tmp_path / "qrels.txt", "--metrics", "mrr", "--json"
    )
    assert (result.code, json.loads(result.out)["mean"]) == (0, {"mrr": None})
    assert result.err.startswith("rankwright: warning: mrr: no query has a relevant document")


@pytest.mark.parametrize("own_data", [False, True])
def test_demo(
    workspace: Workspace, tmp_path: Path, call: Callable[..., Outcome], own_data: bool
) -> None:
    data = ["--data", workspace.path("train.txt")] if own_data else ["--queries", "20"]
    result = call("demo", *data, "--trees", 3, "--threads", 1, "--out", tmp_path / "demo")
    assert result.code == 0, result.err
    names = ["lambdamart", "stochasticrank", "yetiloss", "yetirank"]
    files = ["report.html"] if own_data else ["report.html", "test.txt"]
    assert sorted(os.listdir(tmp_path / "demo")) == sorted([*names, *files])
    for name in names:
        run = rw.Run.open(tmp_path / "demo" / name)
        assert run.finished
        assert len(run.history) == 3
        assert f"\n{name} " in result.out
    assert "±" in result.out
    hint = next(line for line in result.out.splitlines() if line.startswith("Next: rankwright "))
    if not own_data:
        # The hint works as it is printed.
        pasted = call(*hint.removeprefix("Next: rankwright ").split())
        assert (pasted.code, "Baseline: lambdamart" in pasted.out) == (0, True)
    assert (
        (tmp_path / "demo/report.html").read_text().lstrip().lower().startswith("<!doctype html>")
    )
