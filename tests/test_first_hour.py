"""What a new user meets first: data that does not fit, names, other processes, and what a terminal shows."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import rankwright as rw
from rankwright import Ranker, RankingData, cli
from rankwright.training import progress as progress_module
from rankwright.training.progress import Display
from rankwright.training.state import Progress
from small import quick, rows

TESTS = Path(__file__).parent
X, Y, QID = rows(120, 4, 12)
FRAME = pd.DataFrame(X, columns=list("abcd")).assign(label=Y, query=QID)

Command = Callable[..., tuple[int, str, str]]


def letor(path: Path, X: Any, *, first: int = 1) -> Path:
    """Write rows as LETOR text, with every feature in every row."""
    features = [" ".join(f"{i}:{v}" for i, v in enumerate(row, start=first)) for row in X.tolist()]
    lines = [f"{y:g} qid:{qid} {words}" for y, qid, words in zip(Y, QID, features, strict=True)]
    path.write_text("\n".join(lines) + "\n")
    return path


# Data that does not fit the model


def test_the_command_line_refuses_letor_text_that_is_narrower_than_a_model_of_named_columns(
    tmp_path: Path, call: Command
) -> None:
    quick().fit(FRAME, "label", qid="query").save(tmp_path / "named")
    narrow, full = letor(tmp_path / "narrow.txt", X[:, :3]), letor(tmp_path / "full.txt", X)
    for command in (
        ["evaluate", tmp_path / "named", narrow],
        ["predict", tmp_path / "named", narrow, "--out", tmp_path / "scores.txt"],
    ):
        code, _, error = call(*command)
        assert code == 1
        assert (
            "narrow.txt has 3 features, but the training data has 4 columns (a, b, c, d)" in error
        )
    code, _, error = call("evaluate", tmp_path / "named", full)
    assert (code, error.count("matched with the columns of the training data by position")) == (
        0,
        1,
    )


def test_letor_text_cannot_replace_categories_that_are_text(tmp_path: Path, call: Command) -> None:
    frame = FRAME.assign(d=pd.Categorical(np.where(X[:, 3] > 0, "high", "low")))
    quick().fit(frame, "label", qid="query").save(tmp_path / "model")
    code, _, error = call(
        "evaluate", tmp_path / "model", letor(tmp_path / "full.txt", np.abs(X).round())
    )
    assert code == 1
    assert "full.txt is LETOR text, which holds numbers only" in error
    assert "'d'" in error


def test_arrays_are_not_padded_either(tmp_path: Path, call: Command) -> None:
    quick().fit(X, Y, qid=QID).save(tmp_path / "arrays")
    code, _, error = call("evaluate", tmp_path / "arrays", letor(tmp_path / "narrow.txt", X[:, :3]))
    assert (code, "narrow.txt has 3 features, but the training data has 4 columns" in error) == (
        1,
        True,
    )
    assert call("evaluate", tmp_path / "arrays", letor(tmp_path / "full.txt", X))[0] == 0


@pytest.mark.parametrize("first", [0, 1])
def test_letor_text_is_padded_for_a_model_of_letor_text_with_a_note_of_the_indices(
    tmp_path: Path, call: Command, first: int
) -> None:
    data = rw.read_letor(letor(tmp_path / "train.txt", X, first=first), zero_based=first == 0)
    ranker = quick().fit(data)
    ranker.save(tmp_path / "model")
    narrow = letor(tmp_path / "narrow.txt", X[:, :2], first=first)
    code, _, error = call("predict", tmp_path / "model", narrow, "--out", tmp_path / "scores.txt")
    assert code == 0, error
    assert (
        f"narrow.txt has no features {2 + first} to {3 + first} of the training data; taken as 0"
        in error
    )
    padded = X.copy()
    padded[:, 2:] = 0
    scores = [float(line) for line in (tmp_path / "scores.txt").read_text().split()]
    assert scores == ranker.predict(padded).tolist()
    code, _, error = call(
        "predict", tmp_path / "model", tmp_path / "train.txt", "--out", tmp_path / "scores.txt"
    )
    assert (code, error) == (0, "")


def test_reading_in_python_too_small_letor_text_says_how_to_read_it(tmp_path: Path) -> None:
    ranker = quick().fit(rw.read_letor(letor(tmp_path / "train.txt", X)))
    narrow = letor(tmp_path / "narrow.txt", X[:, :3])
    with pytest.raises(
        ValueError, match=r"X has 3 features.* expecting 4.*read_letor\(\.\.\., n_features=4\)"
    ):
        ranker.predict(rw.read_letor(narrow))
    assert len(ranker.predict(rw.read_letor(narrow, n_features=4))) == len(Y)


# Names of columns


def test_columns_of_letor_text_have_the_files_own_indices(tmp_path: Path) -> None:
    one, zero = letor(tmp_path / "one.txt", X), letor(tmp_path / "zero.txt", X, first=0)
    assert (
        rw.read_letor(one).feature_names
        == rw.read_data(one).feature_names
        == ["f1", "f2", "f3", "f4"]
    )
    assert rw.read_letor(zero, zero_based=True).feature_names == ["f0", "f1", "f2", "f3"]
    train, _ = rw.read_letor(one).split(0.3)
    assert (train.feature_names, train.named, train.first_index) == (
        ["f1", "f2", "f3", "f4"],
        False,
        1,
    )


def test_without_names_columns_are_matched_by_position(tmp_path: Path) -> None:
    expected = quick().fit(X, Y, qid=QID)
    named = RankingData(X, Y, qid=QID, feature_names=["f1", "f2", "f3", "f4"])
    other = RankingData(X, Y, qid=QID, feature_names=["bm25", "age", "f9", "x"])
    text = rw.read_letor(letor(tmp_path / "a.txt", X))
    for data in (named, other, text):
        assert expected.score(data) == expected.score(X, Y, QID)
        assert np.array_equal(expected.predict(data), expected.predict(data.X))
        assert np.array_equal(quick().fit(data).predict(X), expected.predict(X))
        curves = quick().fit(X, Y, qid=QID, eval_set=[data]).evals_result_["valid_0"]["ndcg@10"]
        assert curves[-1] == expected.score(X, Y, QID)
    assert np.array_equal(expected.predict(FRAME[list("abcd")]), expected.predict(X))
    of_names = quick().fit(other)
    assert np.array_equal(of_names.predict(text), of_names.predict(other))
    with pytest.raises(
        ValueError, match=r"Missing: bm25, age, f9, x\. Not expected: f1, f2, f3, f4"
    ):
        of_names.predict(named)
    with pytest.raises(ValueError, match="column 0 is 'f1', but 'f0' in the training data"):
        expected.predict(RankingData(X, Y, qid=QID, feature_names=["f1", "f0", "f2", "f3"]))


def test_the_old_message_about_equal_numbers_is_gone() -> None:
    with pytest.raises(ValueError, match="are not those of the training data") as caught:
        quick().fit(FRAME, "label", qid="query").predict(pd.DataFrame(X, columns=list("abcz")))
    assert "4 features where the training data has 4" not in str(caught.value)


# Trees of an earlier model


def test_n_estimators_counts_all_trees_as_staged_predict_does() -> None:
    first = quick(n_estimators=4).fit(X, Y, qid=QID)
    second = quick(n_estimators=3).fit(X, Y, qid=QID, init_model=first, eval_set=[(X, Y, QID)])
    stages = list(second.staged_predict(X))
    assert (first.n_estimators_, second.n_estimators_, len(stages)) == (4, 7, 7)
    assert np.array_equal(stages[second.n_estimators_ - 1], second.predict(X))
    assert second.manifest_["n_trees"] == 7
    assert second.manifest_["initial_trees"] == 4
    assert len(second.learning_rates_) == len(second.evals_result_["valid_0"]["ndcg@10"]) == 3


def test_n_estimators_with_early_stopping_after_an_earlier_model(tmp_path: Path) -> None:
    first = quick(n_estimators=4).fit(X, Y, qid=QID)
    second = quick(n_estimators=400, learning_rate=0.9, early_stopping_rounds=3)
    second.fit(X, Y, qid=QID, init_model=first, eval_set=[(X[:, ::-1], Y, QID)])
    curve = second.evals_result_["valid_0"]["ndcg@10"]
    kept = len(second.learning_rates_)
    assert second.n_estimators_ == second.model_.n_trees == 4 + kept
    assert curve.index(max(curve)) + 1 == second.best_iteration_ <= kept <= len(curve) < 400
    second.save(tmp_path / "model")
    assert Ranker.load(tmp_path / "model").n_estimators_ == 4 + kept


# Metrics of the user's own, in another process

OWN = """
import sys, numpy as np
sys.path.insert(0, {tests!r})
from rankwright import Ranker
from small import rows
X, Y, QID = rows(120, 4, 12)
ranker = Ranker.load({model!r})
print(ranker.predict(X).tolist())
for action in (lambda: ranker.score(X, Y, QID), lambda: ranker.fit(X, Y, qid=QID),
               lambda: Ranker(metric="own@5", verbose=0).fit(X, Y, qid=QID, init_model={model!r})):
    try:
        action()
        print("no error")
    except ValueError as error:
        print(error)
assert "own_metric" not in sys.modules and "own_objective" not in sys.modules
import own_metric
print(repr(ranker.score(X, Y, QID)))
"""


def test_a_model_for_an_own_metric_predicts_in_another_process(
    tmp_path: Path, call: Command
) -> None:
    from own_metric import Own

    ranker = quick(metric=[Own(at=5), "map"]).fit(X, Y, qid=QID)
    ranker.save(tmp_path / "model")
    code = OWN.format(tests=str(TESTS), model=str(tmp_path / "model"))
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert printed.returncode == 0, printed.stderr
    scores, *errors, value = printed.stdout.splitlines()
    assert scores == str(ranker.predict(X).tolist())
    expected = (
        "the model was trained with own_metric.Own ('own'), which is not defined in this process; import it to score "
        "or to train on (predict works without)."
    )
    assert errors == [expected] * 3
    assert value == repr(ranker.score(X, Y, QID))


def test_a_model_for_an_own_objective_predicts_in_another_process(tmp_path: Path) -> None:
    from own_objective import OwnLoss

    quick(objective=0.5 * OwnLoss(shift=2) + rw.objective("queryrmse")).fit(X, Y, qid=QID).save(
        tmp_path / "model"
    )
    assert Ranker.load(tmp_path / "model").manifest_["classes"] == {
        OwnLoss.name: "own_objective.OwnLoss"
    }
    code = (
        f"from rankwright import Ranker\nranker = Ranker.load({str(tmp_path / 'model')!r})\n"
        "print(len(ranker.predict([[1.0, 2, 3, 4]])))\n"
        "try:\n    ranker.objective_\nexcept ValueError as error:\n    print(error)"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    ).stdout
    assert printed.startswith("1\nthe model was trained with own_objective.OwnLoss ("), printed


# Text of the user's on a terminal


def test_demo_without_the_extra_says_so_first_and_with_its_brackets(
    tmp_path: Path, call: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    code, out, error = call("demo", "--queries", 20, "--trees", 2, "--out", tmp_path / "[bold]x[/]")
    assert code == 0, error
    assert out.splitlines()[0] == (
        'There will be no report.html: a report needs altair, which is not installed: pip install "rankwright[report]".'
    )
    assert not (tmp_path / "[bold]x[/]" / "report.html").exists()
    assert f"Next: rankwright compare {tmp_path}/[bold]x[/]/lambdamart" in out


def bar(monkeypatch: pytest.MonkeyPatch, name: str, *, verbose: int = 1) -> tuple[str, str]:
    """What a terminal of 80 columns shows after a tree, and its last line without colours."""
    text = io.StringIO()

    def console(**options: Any) -> Console:
        options.pop("stderr")
        return Console(file=text, force_terminal=True, width=80, **options)

    monkeypatch.setattr(progress_module, "Console", console)
    with Display(verbose, 3000, rw.metric("ndcg@10")) as display:
        times = {"gradients": 0.5, "trees": 2.75, "leaves": 0.5, "evaluation": 0.25}
        display.update(Progress(1234, 3000, 1234, [{name: [0.5, 0.25]}], seconds=4.0, times=times))
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text.getvalue())
    return shown, shown.strip().splitlines()[-1]


def test_the_bar_fits_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    _, line = bar(monkeypatch, "ndcg@10")
    assert "━" * 8 in line
    assert "1234/3000 trees, ndcg@10 0.2500" in line
    assert "…" not in line
    assert re.search(r"\d:\d\d|--:--", line)
    _, line = bar(monkeypatch, "err(gain=linear,max_label=2)@10")
    assert "1234/3000 trees, err(gain=linear,m… 0.2500" in line
    assert re.search(r"\d:\d\d|--:--", line)


def test_the_bar_shows_brackets_as_they_are_and_more_on_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert "trees, [bold]x[/] 0.2500" in bar(monkeypatch, "[bold]x[/]")[0]
    assert "(best 0.5000)" in bar(monkeypatch, "[b]x", verbose=2)[0]


def test_lines_without_a_terminal_show_brackets_as_they_are(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress_module, "_SECONDS_BETWEEN_LINES", -1.0)
    display = Display(1, 9, rw.metric("ndcg@10"))
    times = {"gradients": 0.5, "trees": 2.75, "leaves": 0.5, "evaluation": 0.25}
    display.update(Progress(3, 9, 2, [{"[bold]x[/]": [0.5]}], seconds=4.0, times=times))
    assert "3/9 trees, [bold]x[/] 0.5000" in capfd.readouterr().err


def test_brackets_of_the_user_survive_in_errors(call: Command) -> None:
    code, _, error = call("train", "a.txt", "--out", "r", "--objective", "[bold]x[/]")
    assert code == 2
    assert "[bold]x[/]" in error
    code, _, error = call("convert", "[bold]x[/].txt", "a.csv")
    assert error == "rankwright: [bold]x[/].txt: No such file or directory.\n"


# Extras


@pytest.mark.parametrize("module", ["altair", "jinja2", "vl_convert"])
def test_extras_are_asked_for_before_the_work(
    tmp_path: Path, call: Command, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    nothing = tmp_path / "nothing"  # read only after the check
    for command in (
        ["report", nothing, "--data", nothing],
        ["tune", nothing, "--report", tmp_path / "t.html", "--out", tmp_path / "best.toml"],
    ):
        code, _, error = call(*command)
        assert (code, error) == (
            1,
            f'rankwright: a report needs {module}, which is not installed: pip install "rankwright[report]".\n',
        )


def test_tables_ask_for_pyarrow_and_letor_text_does_not(
    tmp_path: Path, call: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    train = letor(tmp_path / "train.txt", X)
    assert call("train", train, "--trees", 2, "--out", tmp_path / "run")[0] == 0
    assert call("predict", tmp_path / "run", train, "--out", tmp_path / "scores.csv")[0] == 0
    for command in (
        ["convert", train, tmp_path / "a.parquet"],
        ["evaluate", tmp_path / "run", tmp_path / "b.csv"],
    ):
        code, _, error = call(*command)
        assert code == 1
        assert error.startswith(
            'rankwright: Parquet and CSV need pyarrow, which is not installed: pip install "rankwright[tables]".'
        )


def test_tune_asks_for_optuna_before_it_reads(
    tmp_path: Path, call: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    _, _, error = call("tune", tmp_path / "nothing.txt", "--out", tmp_path / "best.toml")
    assert (
        error
        == 'rankwright: tuning needs optuna, which is not installed: pip install "rankwright[tune]".\n'
    )


# Small things that everybody tries


def test_version_and_short_help(call: Command) -> None:
    assert call("--version") == (0, f"rankwright {rw.__version__}\n", "")
    assert call("-h") == call("--help")
    assert call("train", "-h") == call("train", "--help")
    assert "Usage: rankwright train" in call("train", "-h")[1]


def test_command_summaries_fit_80_columns(call: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    help_text = call("-h")[1]
    assert "..." not in help_text.split("Commands:")[1]
    assert len(help_text.split("Commands:")[1].strip().splitlines()) == len(
        cli.app.registered_commands
    )


@pytest.mark.parametrize(
    ("line", "proposals"),
    [
        ("train a.txt --objective lambda", ["lambdamart", "lambdaloss"]),
        ("tune a.txt --metric nd", ["ndcg"]),
        ("evaluate run a.txt --metrics", None),
        ("export run --to open", ["opensearch"]),
    ],
)
def test_a_shell_completes_names(
    line: str, proposals: list[str] | None, call: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = f"rankwright {line}".split()
    monkeypatch.setenv("_RANKWRIGHT_COMPLETE", "complete_bash")
    monkeypatch.setenv(
        "COMP_WORDS", " ".join(words) if proposals is not None else f"{' '.join(words)} "
    )
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1 if proposals is not None else len(words)))
    code, out, _ = call()
    assert code == 0
    if proposals is None:
        assert {"ndcg", "map", "err"} <= set(out.split())
    else:
        assert sorted(out.split()) == sorted(proposals)


def test_p_is_precision() -> None:
    assert rw.metric("p@5") == rw.metrics.Precision(at=5)
    assert rw.metric("P(threshold=2)@3") == rw.metrics.Precision(at=3, threshold=2)
    assert rw.evaluate([3, 2, 1], [1, 0, 1], group=[3], metrics="p@2").mean == {"p@2": 0.5}
    with pytest.raises(ValueError, match="unknown metric 'q@5'"):
        rw.metric("q@5")


def test_a_text_may_name_several_metrics() -> None:
    scores, labels = [3.0, 2, 1, 1], [0, 1, 2, 0]
    options: dict[str, Any] = {"group": [4]}
    listed = rw.evaluate(
        scores, labels, metrics=["map", "err(gain=linear, max_label=2)@3"], **options
    )
    assert (
        rw.evaluate(
            scores, labels, metrics=" map  err(gain=linear, max_label=2)@3 ", **options
        ).mean
        == listed.mean
    )
    assert list(rw.evaluate(scores, labels, metrics="ndcg @2", **options).mean) == ["ndcg @2"]
    assert list(rw.evaluate(scores, labels, metrics="map + ndcg mrr", **options).mean) == [
        "map + ndcg",
        "mrr",
    ]
    with pytest.raises(ValueError, match=r"it ends with \+"):
        rw.evaluate(scores, labels, metrics="map +", **options)
    with pytest.raises(ValueError, match="no metric to evaluate"):
        rw.evaluate(scores, labels, metrics=" ", **options)
    ranker = quick(metric="map ndcg@5").fit(X, Y, qid=QID, eval_set=[(X, Y, QID)])
    assert list(ranker.evals_result_["valid_0"]) == ["map", "ndcg@5"]
    assert str(ranker.metrics_[0]) == "map"


def test_a_frame_is_an_evaluation_set_where_its_columns_are_known() -> None:
    for eval_set in ([FRAME], FRAME, [FRAME[FRAME.columns[::-1]]]):
        ranker = quick().fit(FRAME, "label", qid="query", eval_set=eval_set)
        curve = ranker.evals_result_["valid_0"]["ndcg@10"]
        assert curve[-1] == ranker.score(FRAME)
    with pytest.raises(
        ValueError, match=r"eval_set\[0\]: a data frame alone needs y and qid of fit as names"
    ):
        quick().fit(X, Y, qid=QID, eval_set=[FRAME])
    with pytest.raises(ValueError, match=r"eval_set\[1\]: qid='query' is not a column of the data"):
        quick().fit(FRAME, "label", qid="query", eval_set=[FRAME, FRAME.drop(columns="query")])


@pytest.mark.parametrize(("metric", "best"), [("ndcg@10", max), ("arp", min)])
def test_train_says_where_validation_was_best(
    tmp_path: Path, call: Command, metric: str, best: Any
) -> None:
    train, valid = letor(tmp_path / "train.txt", X), letor(tmp_path / "valid.txt", X[:, ::-1])
    arguments = [
        "train",
        train,
        "--valid",
        valid,
        "--metric",
        metric,
        "--trees",
        12,
        "--set",
        "min_child_samples=1",
    ]
    code, _, error = call(*arguments, "--out", tmp_path / "run")
    assert code == 0
    curve = [row["valid"][metric] for row in rw.Run.open(tmp_path / "run").history]
    number = curve.index(best(curve)) + 1
    assert number < 12
    loss = abs(best(curve) - curve[-1])
    assert f"All are kept; tree {number} was {loss:.4f} better in {metric}." in error
    out = call(*arguments, "--set", "members=2", "--out", tmp_path / "average")[1]
    assert re.search(rf": 24 trees in .* valid {metric} [\d.]+ of the first of 2 members\.\n", out)
    code, _, error = call(*arguments, "--refit", "--out", tmp_path / "refit")
    assert code == 2
    assert "--refit needs a number of trees chosen on --valid; give --early-stopping" in " ".join(
        error.split()
    )
    assert (
        "best after"
        not in call(*arguments, "--early-stopping", 30, "--out", tmp_path / "stopped")[1]
    )
    assert "best after" not in call("train", train, "--trees", 2, "--out", tmp_path / "alone")[1]


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_an_evaluation_as_a_data_frame(library: Any) -> None:
    result = rw.evaluate(
        [2, 1, 3], [0, 1, 1], qid=["b", "b", "a"], metrics="mrr p@1", sample_weight=[3, 1]
    )
    frame = result.to_dataframe(library)
    assert type(frame).__module__.split(".")[0] == library
    columns = (
        frame.to_pydict()
        if library == "pyarrow"
        else {name: list(frame[name]) for name in frame.columns}
    )
    assert columns == {
        "qid": ["a", "b"],
        "weight": [1.0, 3.0],
        "mrr": [1.0, 0.5],
        "p@1": [1.0, 0.0],
    }
    numbers = rw.evaluate([1], [1], qid=[7]).to_dataframe()
    assert (list(numbers.columns), numbers["qid"].dtype) == (["qid", "ndcg@10"], np.int64)


def test_a_frame_of_another_library_is_refused() -> None:
    with pytest.raises(
        ValueError, match="library must be one of 'pandas', 'polars', 'pyarrow'; got 'dask'"
    ):
        rw.evaluate([1], [1], qid=[7]).to_dataframe("dask")  # type: ignore[arg-type]


# Charts


def values_of(chart: Any, layer: int | None = None) -> list[dict[str, Any]]:
    spec = chart.to_dict()
    data: list[dict[str, Any]] = (spec if layer is None else spec["layer"][layer])["data"]["values"]
    return data


def test_curves_mark_the_best_tree_and_count_earlier_ones(tmp_path: Path) -> None:
    first = quick(n_estimators=4, metric="ndcg@10 map").fit(
        X, Y, qid=QID, eval_set=[(X[:, ::-1], Y, QID)]
    )
    second = quick(n_estimators=3, metric=["ndcg@10", "map"])
    second.fit(X, Y, qid=QID, init_model=first, eval_set=[(X[:, ::-1], Y, QID)])
    chart = rw.plot_curves(first, second, names=["a", "b"], metric="map")
    curve = second.evals_result_["valid_0"]["map"]
    rows = [row for row in values_of(chart) if row["model"] == "b"]
    best = rows.pop()
    assert [(row["trees"], row["value"]) for row in rows] == list(enumerate(curve, start=5))
    assert (best["trees"], best["value"]) == (5 + int(np.argmax(curve)), max(curve))
    assert best["data"] == "valid_0"
    lower = quick(n_estimators=3, metric="arp").fit(X, Y, qid=QID, eval_set=[(X, Y, QID)])
    assert values_of(rw.plot_curves(lower))[-1]["value"] == min(
        lower.evals_result_["valid_0"]["arp"]
    )
    data = RankingData(X, Y, qid=QID)
    run = rw.train_run(tmp_path / "run", data, data, parameters={"n_estimators": 3}, verbose=0)
    assert {(row["model"], row["data"]) for row in values_of(rw.plot_curves(run))} == {
        ("run", "valid"),
        ("run", "train"),
    }


def test_importance_has_the_largest_columns_first() -> None:
    ranker = quick().fit(FRAME, "label", qid="query")
    rows = values_of(rw.plot_importance(ranker, top=3))
    order = np.argsort(-ranker.feature_importances_)[:3]
    assert [row["column"] for row in rows] == ["abcd"[i] for i in order]
    assert [row["share"] for row in rows] == ranker.feature_importances_[order].tolist()
    assert rows == values_of(rw.plot_importance(ranker.model_, top=3))


def evaluations() -> list[rw.Evaluation]:
    options: dict[str, Any] = {"qid": QID, "metrics": "ndcg@10 map"}
    return [rw.evaluate(X[:, column], Y, **options) for column in (0, 1)]


def test_comparison_has_a_row_for_each_metric_and_system() -> None:
    first, second = evaluations()
    comparison = rw.compare(first, second, names=["a", "b"])
    rows = values_of(rw.plot_comparison(comparison), 1)
    assert [(row["metric"], row["difference"], row["low"], row["high"]) for row in rows] == [
        (row.metric, row.difference, row.low, row.high) for row in comparison.rows
    ]


def test_queries_of_one_evaluation_and_of_two() -> None:
    first, second = evaluations()
    bars = values_of(rw.plot_queries(first, metric="map"))
    assert sum(bar["queries"] for bar in bars) == 12
    assert bars[0]["low"] == first.per_query["map"].min()
    points = values_of(rw.plot_queries(first, second, names=["a", "b"]), 1)
    assert [point["query"] for point in points] == [str(qid) for qid in first.query_ids]
    assert [point["difference"] for point in points] == (
        second.per_query["ndcg@10"] - first.per_query["ndcg@10"]
    ).tolist()


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (
            lambda: rw.plot_curves(quick(n_estimators=1).fit(X, Y, qid=QID)),
            "no curves to draw: train with eval_set=",
        ),
        (lambda: rw.plot_curves(), "nothing to draw"),
        (lambda: rw.plot_curves(5), "draws fitted Rankers and runs; got a int"),  # type: ignore[arg-type]
        (lambda: rw.plot_queries(), "one evaluation or two"),
        (
            lambda: rw.plot_queries(evaluations()[0], metric="err"),
            "no values of 'err'; choose one of ndcg@10, map",
        ),
        (lambda: rw.plot_queries(*evaluations(), names=["a"]), "names must be 2 different names"),
        (
            lambda: rw.plot_queries(evaluations()[0], rw.evaluate([1], [1], qid=[5])),
            "evaluations are of different queries",
        ),
        (
            lambda: rw.plot_importance(quick(n_estimators=1).fit(X, Y, qid=QID), top=0),
            "top must be a whole number",
        ),
    ],
)
def test_what_cannot_be_drawn(draw: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw()


def test_charts_of_a_notebook_have_colours_of_their_own_and_can_be_combined() -> None:
    """Style sheets of pages are not there, and a chart with a configuration could not be a part of another one."""
    ranker = quick(n_estimators=3).fit(X, Y, qid=QID, eval_set=[(X, Y, QID)])
    first, second = evaluations()
    charts = [
        rw.plot_curves(ranker),
        rw.plot_importance(ranker),
        rw.plot_comparison(rw.compare(first, second)),
        rw.plot_queries(first),
        rw.plot_queries(first, second),
    ]
    together = charts[0]
    for chart in charts[1:]:
        together = together | chart
    assert "var(--" not in json.dumps(together.to_dict())


def test_charts_need_altair(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(ImportError, match=r"pip install \"rankwright\[report\]\""):
        rw.plot_queries(evaluations()[0])


# Notebooks


def test_html_of_a_ranker() -> None:
    ranker = quick(metric=["ndcg@10", "map"])
    assert "share of the gain" not in ranker._repr_html_()
    names = ["<b>a</b>", "b", "c", "d"]
    ranker.fit(RankingData(X, Y, qid=QID, feature_names=names), eval_set=[(X, Y, QID)])
    for page in (ranker._repr_html_(), ranker._repr_mimebundle_()["text/html"]):
        assert (
            f"<td>valid_0</td><td>map</td><td>{ranker.evals_result_['valid_0']['map'][-1]:.4f}</td>"
            in page
        )
        assert f"<td>num_leaves</td><td>{ranker.num_leaves_}</td>" in page
        assert f"<td>trees</td><td>{ranker.n_estimators_}</td>" in page
        assert "&lt;b&gt;a&lt;/b&gt;" in page
        assert "<b>a</b>" not in page
        top = int(np.argmax(ranker.feature_importances_))
        assert f"<td>{ranker.feature_importances_[top]:.1%}</td>" in page


def test_html_of_a_ranker_with_early_stopping_shows_the_value_of_the_model() -> None:
    ranker = quick(n_estimators=60, learning_rate=0.9, early_stopping_rounds=3)
    ranker.fit(X, Y, qid=QID, eval_set=[(X[:, ::-1], Y, QID)])
    curve = ranker.evals_result_["valid_0"]["ndcg@10"]
    assert f"<td>{curve[len(ranker.learning_rates_) - 1]:.4f}</td>" in ranker._repr_html_()
    assert f"<td>{curve[-1]:.4f}</td>" not in ranker._repr_html_()


def test_html_of_an_evaluation() -> None:
    result = rw.evaluate([2, 1, 3], [0, 1, 0], qid=["b", "b", "a"], metrics=["mrr"])
    assert result._repr_html_() == (
        "<table><thead><tr><th>metric</th><th>mean</th></tr></thead><tbody><tr><td>mrr</td><td>0.5000</td></tr></tbody>"
        "</table><p>Means over 2 queries; ties: worst, empty queries: skip (1 skipped).</p>"
    )


def test_html_of_a_tuning() -> None:
    tuning = rw.tune(RankingData(X, Y, qid=QID), trials=2, n_estimators=2, folds=2, n_jobs=1)
    page = tuning._repr_html_()
    assert page.count("<tr>") == 1 + len(tuning.ranked())
    assert f"<td>{tuning.best_trial.value:.4f}</td>" in page
    assert "2 trials, " in page
    assert "Best: Ranker(" in page


# LightGBM's other names


def test_every_alias_of_lightgbm_is_known() -> None:
    from lightgbm.basic import _ConfigAliases

    from rankwright.engines.lightgbm import aliases, parameters

    ours = {*parameters._ALLOWED, *parameters._SET_BY_ESTIMATOR, *parameters.NAMES.values()}
    theirs = _ConfigAliases._get_all_param_aliases()
    expected = {alias: name for name in ours for alias in theirs[name] if alias != name}
    assert expected == aliases.MAIN_NAMES
    known = {alias for names in theirs.values() for alias in names} | {
        "class_weight",
        "importance_type",
    }
    assert not set(aliases.REFUSED) - known
    assert not set(aliases.REFUSED) & {*ours, *aliases.MAIN_NAMES}


def test_aliases_train_the_same_model() -> None:
    short = {
        "reg_alpha": 0.2,
        "min_split_gain": 0.01,
        "min_child_weight": 0.5,
        "max_bins": 20,
        "colsample_bynode": 0.5,
    }
    main = {
        "lambda_l1": 0.2,
        "min_gain_to_split": 0.01,
        "min_sum_hessian_in_leaf": 0.5,
        "max_bin": 20,
        "feature_fraction_bynode": 0.5,
    }
    models = [quick(engine_params=params).fit(X, Y, qid=QID) for params in (short, main, None)]
    scores = [model.predict(X).tolist() for model in models]
    assert scores[0] == scores[1] != scores[2]
    assert models[0].max_bin_ == 20


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"colsample_bytree": 0.5}, "has 'colsample_bytree'; use colsample= instead"),
        ({"eta": 0.5}, "has 'eta'; use learning_rate= instead"),
        (
            {"reg_alpha": 1, "lambda_l1": 1},
            "has 'reg_alpha' and 'lambda_l1', two names of one parameter; keep one",
        ),
        (
            {"boosting_type": "dart"},
            "has 'boosting_type', which cannot be used: the boosting is rankwright's own",
        ),
        (
            {"label_gain": [0, 1]},
            "has 'label_gain', which cannot be used: labels and their gains belong to the metric",
        ),
        (
            {"linear_tree": True},
            "has 'linear_tree', which cannot be used: trees have constant leaves",
        ),
        ({"reg_alpa": 1}, r"has 'reg_alpa', which is not a parameter.* did you mean 'reg_alpha'\?"),
    ],
)
def test_parameters_that_are_refused_by_name(params: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        quick(engine_params=params).fit(X, Y, qid=QID)


@pytest.mark.parametrize("option", ["categorical", "drop", "weight"])
def test_options_that_name_columns_are_refused_for_letor(
    option: str, tmp_path: Path, call: Command
) -> None:
    path = tmp_path / "train.txt"
    path.write_text("1 qid:1 1:0.5\n0 qid:1 1:0.1\n")
    code, _, error = call("train", path, f"--{option}", "country", "--out", tmp_path / "run")
    assert code != 0
    assert option in error
    assert "LETOR" in error
    assert not (tmp_path / "run").exists()


# What a newcomer gets wrong


def test_python_m_is_the_command_line() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "rankwright", "--version"], capture_output=True, text=True
    )
    assert (printed.returncode, printed.stdout) == (0, f"rankwright {rw.__version__}\n")


def test_letor_text_that_is_wider_than_the_model_is_refused_by_its_columns(
    tmp_path: Path, call: Command
) -> None:
    wide = letor(tmp_path / "wide.txt", np.hstack([X, X]))
    quick().fit(FRAME, "label", qid="query").save(tmp_path / "named")
    quick().fit(rw.read_letor(letor(tmp_path / "train.txt", X))).save(tmp_path / "letor")
    for model, columns in (
        ("named", "4 columns (a, b, c, d) and was not LETOR text;"),
        ("letor", "4 columns;"),
    ):
        code, _, error = call("evaluate", tmp_path / model, wide)
        assert (code, f"wide.txt has 8 features, but the training data has {columns}" in error) == (
            1,
            True,
        ), error


def test_a_table_for_a_model_of_letor_text_is_refused_in_words_about_tables(
    tmp_path: Path, call: Command
) -> None:
    quick().fit(rw.read_letor(letor(tmp_path / "train.txt", X))).save(tmp_path / "letor")
    FRAME.drop(columns="d").rename(columns={"query": "qid"}).to_csv(
        tmp_path / "test.csv", index=False
    )
    code, _, error = call("evaluate", tmp_path / "letor", tmp_path / "test.csv")
    assert (
        code,
        "The training data was LETOR text, so columns are matched by position" in error,
    ) == (1, True)
    assert "read_letor" not in error


def test_every_column_of_text_is_named_at_once() -> None:
    frame = FRAME.assign(country="de", url="x", kind=pd.Categorical(["a"] * len(Y)))
    with pytest.raises(
        ValueError,
        match=r"2 columns do not hold numbers: 'country' .* String, 'url' .*categorical must name",
    ):
        quick().fit(frame, "label", qid="query")


def test_a_misspelt_column_gets_the_near_one(tmp_path: Path, call: Command) -> None:
    with pytest.raises(
        ValueError, match=r"y='lable' is not a column of the data; did you mean 'label'\?"
    ):
        quick().fit(FRAME, "lable", qid="query")
    FRAME.to_csv(tmp_path / "a.csv", index=False)
    code, _, error = call("train", tmp_path / "a.csv", "--qid", "quary", "--out", tmp_path / "run")
    assert (code, "Did you mean 'query'? --qid must name one of them." in error) == (1, True)


def test_metrics_that_are_not_a_list() -> None:
    with pytest.raises(ValueError, match="metrics are text such as 'map ndcg@5', or a list; got 5"):
        rw.evaluate([1, 2], [0, 1], qid=[1, 1], metrics=5)  # type: ignore[arg-type]


@pytest.mark.parametrize("case", ["one label", "one document a query"])
def test_labels_without_an_order_are_named_as_the_reason(
    case: str, caplog: pytest.LogCaptureFixture
) -> None:
    labels, qid = (np.ones(len(Y)), QID) if case == "one label" else (Y, np.arange(len(Y)))
    quick().fit(X, labels, qid=qid)
    assert "no query has two documents with different labels" in caplog.text


def test_mistakes_of_the_first_commands_are_answered_with_the_remedy(
    tmp_path: Path, call: Command
) -> None:
    quick().fit(X, Y, qid=QID).save(tmp_path / "model")
    data = letor(tmp_path / "data.txt", X)
    for command, answer in (
        (
            ["train", data, "--early-stopping-rounds", "9", "--out", "x"],
            "the parameter early_stopping_rounds is --early-stopping.",
        ),
        (
            ["train", data, "--learning-rate", "1", "--out", "x"],
            "set by --set learning_rate=VALUE.",
        ),
        (["tune", data, "--num-leaves", "9", "--out", "x"], "set by --set num_leaves=VALUE."),
        (["train", data, "--tree", "9", "--out", "x"], "--trees"),
        (
            ["evaluate", data, tmp_path / "model"],
            "is a run or a saved model, not data; give the run first",
        ),
        (
            ["evaluate", tmp_path / "model", data, "--metrics", "map, mrr"],
            "separated by spaces, not by commas",
        ),
    ):
        code, _, error = call(*command)
        assert code in (1, 2)
        assert answer in " ".join(error.split())


def test_a_cutoff_without_its_sign_is_understood_in_the_hint() -> None:
    with pytest.raises(ValueError, match="unknown metric 'ndcg10'; did you mean 'ndcg@10'"):
        rw.metric("ndcg10")
    with pytest.raises(ValueError, match="unknown objective 'ranknet2'; did you mean 'ranknet'"):
        rw.objective("ranknet2")


def test_of_many_columns_the_last_are_named_too(tmp_path: Path) -> None:
    names = [f"c{i}" for i in range(20)] + ["relevance", "qid"]
    (tmp_path / "wide.csv").write_text(",".join(names) + "\n" + ",".join(["1"] * 22) + "\n")
    with pytest.raises(ValueError, match=r"c4, c5, \.\.\., c16, c17, c18, c19, relevance, qid\."):
        rw.read_data(tmp_path / "wide.csv")
