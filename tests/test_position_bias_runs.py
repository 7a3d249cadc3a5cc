"""Position bias in run folders, on the command line, in charts and in reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import rankwright as rw
from rankwright.cli import app
from rankwright.report import Figure, run_report
from rankwright.runs import Run, train_run
from test_position_bias import log

QUICK = {"objective": "queryrmse", "n_estimators": 5, "learning_rate": 0.2, "n_jobs": 1}


def invoke(*arguments: Any) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with positions, devices and propensities, in Parquet, and a run that was trained on it."""
    path = tmp_path_factory.mktemp("bias")
    data = log()
    rw.write_data(data.with_fields({"seen": 1 / data.fields["position"]}), path / "log.parquet")
    flags = [
        "--objective",
        "queryrmse",
        "--trees",
        5,
        "--set",
        "learning_rate=0.2",
        "--threads",
        1,
        "--quiet",
    ]
    done = invoke(
        "train", path / "log.parquet", "--out", path / "run", "--position", "position", *flags
    )
    assert done.exit_code == 0, done.output
    return path


def test_the_command_trains_as_fit_does(folder: Path) -> None:
    run = Run.open(folder / "run")
    expected = rw.Ranker(**QUICK, verbose=0).fit(log(), position="position")
    assert run.ranker.position_bias_ == expected.position_bias_
    assert run.ranker.forest_.dump() == expected.forest_.dump()
    assert run.config["clicks"] == {"position": ["position"]}
    assert run.ranker.columns_.feature_names == expected.columns_.feature_names


def test_the_columns_are_left_out_when_it_is_used(folder: Path) -> None:
    for system in ("run", "run/model"):
        done = invoke("evaluate", folder / system, folder / "log.parquet", "--metrics", "ndcg@5")
        assert done.exit_code == 0, done.output
    ranker = rw.Ranker.load(folder / "run/model")
    assert ranker.manifest_["other_columns"] == ["position"]


def test_another_column_is_another_run(folder: Path) -> None:
    flags = ["--objective", "queryrmse", "--trees", 5, "--set", "learning_rate=0.2", "--threads", 1]
    train = ["train", folder / "log.parquet", "--out", folder / "run", *flags]
    same = invoke(*train, "--position", "position")
    assert "already finished" in same.output
    for other in ([], ["--position", "position", "--position", "device"]):
        refused = invoke(*train, *other)
        assert refused.exit_code != 0
        assert "is a run with other parameters (clicks is" in str(refused.exception)
    again = invoke(
        "train",
        folder / "log.parquet",
        "--out",
        folder / "again",
        "--config",
        folder / "run/config.toml",
    )
    assert again.exit_code == 0, again.output
    assert (
        Run.open(folder / "again").ranker.position_bias_
        == Run.open(folder / "run").ranker.position_bias_
    )


def test_propensities_on_the_command_line(folder: Path) -> None:
    train = [
        "train",
        folder / "log.parquet",
        "--out",
        folder / "weighed",
        "--objective",
        "queryrmse",
        "--trees",
        2,
    ]
    done = invoke(*train, "--propensity", "seen", "--clip", 0.2, "--self-normalised", "--quiet")
    assert done.exit_code == 0, done.output
    assert Run.open(folder / "weighed").config["clicks"] == {
        "clip": 0.2,
        "propensity": "seen",
        "self_normalised": True,
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["log.parquet", "--position", "rank"], "has no column 'rank'"),
        (["log.txt", "--position", "position"], "the columns of LETOR text such as"),
        (["log.parquet", "--clip", "0.1"], "--clip is for propensities"),
        (
            ["log.parquet", "--clip", "0.1", "--workers", "1"],
            "--clip cannot be used on several workers",
        ),
    ],
)
def test_refusals(folder: Path, arguments: list[str], message: str) -> None:
    (folder / "log.txt").write_text("1 qid:1 1:0.5\n0 qid:1 1:0.2\n")
    done = invoke("train", folder / arguments[0], "--out", folder / "refused", *arguments[1:])
    assert done.exit_code != 0
    assert message in f"{done.exception} {done.output}"


def test_a_second_training_needs_the_column_in_the_validation_data(folder: Path) -> None:
    data = log(1)
    valid = rw.RankingData(data.X, data.y, qid=data.qid + 1000, feature_names=data.feature_names)
    shown = {
        "position": data.fields["position"],
        "device": data.fields["device"],
        "seen": 1 / data.fields["position"],
    }
    rw.write_data(valid.with_fields(shown), folder / "valid.parquet")
    rw.write_data(valid, folder / "judged.parquet")
    flags = ["--objective", "queryrmse", "--trees", 2, "--early-stopping", 2, "--refit", "--quiet"]
    train = ["train", folder / "log.parquet", "--position", "position", *flags]
    models = []
    for form in ("--in-memory", "--stream"):
        done = invoke(
            *train, "--valid", folder / "valid.parquet", form, "--out", folder / f"refit{form}"
        )
        assert done.exit_code == 0, str(done.exception)
        models.append(Run.open(folder / f"refit{form}").ranker)
    assert models[0].forest_.dump() == models[1].forest_.dump()
    assert models[0].position_bias_ == models[1].position_bias_
    refused = invoke(*train, "--valid", folder / "judged.parquet", "--out", folder / "refused")
    assert refused.exit_code == 2
    assert "--refit trains on --valid too" in refused.output


def test_a_run_names_its_columns(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="position of a run names fields of the training data"):
        train_run(tmp_path / "run", log(), parameters=QUICK, clicks={"position": np.ones(3)})


def values_of(chart: Any) -> list[dict[str, Any]]:
    return list(chart.data.values)


def test_the_plot_and_the_report_show_it(folder: Path, tmp_path: Path) -> None:
    run = Run.open(folder / "run")
    drawn = {row["level"]: row["bias"] for row in values_of(rw.plot_position_bias(run))}
    assert drawn == run.ranker.position_bias_["position"]
    two = rw.Ranker(**QUICK, verbose=0).fit(log(), position=["position", "device"])
    both = values_of(rw.plot_position_bias(run, two, names=["one", "two"]))
    assert [row["model"] for row in both] == ["one"] * 8 + ["two"] * 8
    assert {row["level"] for row in values_of(rw.plot_position_bias(two, column="device"))} == {
        "desk",
        "phone",
    }
    none = rw.Ranker(**QUICK, verbose=0).fit(log())
    with pytest.raises(ValueError, match="there is no position bias to draw"):
        rw.plot_position_bias(none)
    with pytest.raises(
        ValueError, match="there are no values of 'page'; choose one of position, device"
    ):
        rw.plot_position_bias(two, column="page")
    section = next(one for one in run_report([run], log()).sections if one.title == "Position bias")
    figures = [block for block in section.blocks if isinstance(block, Figure)]
    looks = {
        row["level"]: row["bias"] for row in values_of(rw.plot_position_bias(run, examination=True))
    }
    assert looks == run.ranker.examination_["position"]
    assert [figure.title for figure in figures] == ["Bias of position", "Examination of position"]
    for figure, expected in zip(figures, (drawn, looks), strict=True):
        assert {row["level"]: row["bias"] for row in values_of(figure.chart)} == expected
    plain = train_run(tmp_path / "plain", log(), parameters=QUICK, verbose=0)
    assert "Position bias" not in [one.title for one in run_report([plain], log()).sections]
