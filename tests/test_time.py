"""Splits and folds in the order of time: nothing is trained on that is not before the test queries."""

from __future__ import annotations

import warnings
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwright as rw
from rankwright import Ranker, RankingData
from rankwright.data.folds import Folds
from rankwright.data.time import forward_folds, latest
from small import quick

WORLD = rw.make_web_search(48, kind="short", n_features=20, random_state=3)
DAYS = np.random.default_rng(4).permutation(np.repeat(np.arange(16), 3))  # three queries a day
DATA = WORLD.with_fields({"time": np.repeat(DAYS, WORLD.group)})


def days(data: RankingData) -> Any:
    return data.fields["time"][data.boundaries[:-1]]


def with_times(times: Any, sizes: Any = None) -> RankingData:
    sizes = np.ones(len(times), dtype=int) if sizes is None else sizes
    X = np.arange(len(times), dtype=float)[:, None]
    return RankingData(X, np.ones(len(times)), group=sizes, fields={"time": times})


@pytest.mark.parametrize("gap", [0, 1, 2.5])
def test_a_split_keeps_the_latest_queries_apart(gap: float) -> None:
    train, test = DATA.split(0.3, by="time", gap=gap)
    cut = days(test).min()
    # 0.3 of 48 queries are 14, and the fifth day from the end has three of them.
    assert test.n_queries == 15
    assert cut == 11
    assert set(test.query_ids) == set(DATA.query_ids[days(DATA) >= cut])
    assert set(train.query_ids) == set(DATA.query_ids[days(DATA) < cut - gap])


@pytest.mark.parametrize("gap", [0, 2])
def test_folds_train_on_the_past_and_test_every_later_query_once(gap: int) -> None:
    tested: list[Any] = []
    before = 0
    for train, test in DATA.kfold(4, by="time", gap=gap):
        cut = days(test).min()
        assert days(train).max() < cut - gap
        assert set(train.query_ids) == set(DATA.query_ids[days(DATA) < cut - gap])
        assert train.n_queries > before
        before = train.n_queries
        tested += test.query_ids.tolist()
    assert sorted(tested) == sorted(DATA.query_ids[days(DATA) >= 3])  # the first of five blocks


def test_masks_agree_with_loops_over_random_times() -> None:
    for seed in range(30):
        draw = np.random.default_rng(seed)
        times = draw.integers(0, 12, 30).astype(float)
        data = with_times(times)
        gap = float(draw.integers(0, 3))
        try:
            masks = [*forward_folds(data, 3, gap), latest(data, 7, gap)]
        except ValueError:
            assert gap > 0 or len(set(times)) < 12
            continue
        for past, future in masks:
            start = min(times[future])
            assert past.tolist() == [time < start - gap for time in times]
        assert sum(int(future.sum()) for _, future in masks[:3]) == np.sum(
            times >= times[masks[0][1]].min()
        )
        assert masks[3][1].sum() >= 7


FORMS: dict[str, Any] = {
    "numbers": np.arange(6.0),
    "datetime64": np.datetime64("2026-01-01") + np.arange(6),
    "dates": np.array([date(2026, 1, 1) + timedelta(days=day) for day in range(6)]),
    "datetimes": np.array([datetime(2026, 1, 1 + day, 12) for day in range(6)]),
    "zones": np.array(
        [
            datetime(2026, 1, 1 + day, tzinfo=timezone(timedelta(hours=day))).astimezone(UTC)
            for day in range(6)
        ]
    ),
    "text": np.array([f"2026-01-0{day + 1}" for day in range(6)]),
    "text with times": np.array([f"2026-01-0{day + 1}T10:00:00Z" for day in range(6)]),
}


@pytest.mark.parametrize("form", FORMS)
def test_times_of_every_form(form: str) -> None:
    order = np.array([3, 0, 5, 1, 4, 2])
    data = with_times(FORMS[form][order])
    train, test = data.split(1 / 3, by="time", gap=1.5)
    assert sorted(test.X[:, 0]) == [2, 4]  # the rows of days 5 and 4
    # A gap of a day and a half before day 4 leaves out day 3.
    assert sorted(train.X[:, 0]) == [1, 3, 5]


@pytest.mark.parametrize(
    ("times", "reason"),
    [
        ([1.0, np.nan, 2.0], "time is missing .* row"),
        (np.array(["2026-01-01", "NaT", "2026-01-02"], dtype="datetime64[D]"), "time is missing"),
        (np.array([1.0, None, 2.0], dtype=object), "time is missing"),
        (["2026-01-01", "yesterday", "2026-01-03"], "must be numbers or dates .* 'yesterday'"),
        (np.array([1, "2026-01-01", 3], dtype=object), "numbers or dates, and not both"),
        ([True, False, True], "must be numbers or dates"),
        (np.array([(1,), 2, 3], dtype=object), "must be numbers or dates"),
        ([1.0, np.inf, 2.0], "time is missing"),
    ],
    ids=str,
)
def test_times_that_cannot_be_ordered(times: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        with_times(times).split(0.4, by="time")


def test_a_query_on_both_sides_of_a_cut_is_named() -> None:
    data = with_times([1, 2, 3, 4, 5, 6], sizes=[2, 2, 2])
    train, test = data.split(0.4, by="time")
    assert (train.n_queries, test.n_queries) == (2, 1)
    spanning = with_times([1, 5, 3, 4, 5, 6], sizes=[2, 2, 2])
    with pytest.raises(ValueError, match=r"query 0 has rows from 1 to 5, on both sides of a cut"):
        spanning.split(0.4, by="time")
    with pytest.raises(ValueError, match="on both sides of a cut"):
        list(spanning.kfold(2, by="time"))


def test_arguments_that_cannot_be_used() -> None:
    for call, reason in (
        (lambda: WORLD.split(by="time"), "splits and folds by time need the time of each row"),
        (lambda: DATA.split(by="day"), "by must be 'time' or None"),
        (lambda: DATA.split(gap=3), "gap is a time, so it needs by='time'"),
        (lambda: DATA.split(by="time", gap=-1), "gap must be"),
        (lambda: DATA.split(by="time", gap=99), "with 99 no query is early enough"),
        (lambda: list(DATA.kfold(30, by="time")), "16 different times do not make 31 blocks"),
        (lambda: Folds.of("weeks", 5), "folds must be a whole number, 'time'"),
        (lambda: Folds.of(1, 5), "folds must be"),
        (lambda: quick(folds=3).check_params(), "folds belongs to early_stopping='cv'"),
        (lambda: quick(folds="time(x)", early_stopping="cv").check_params(), "folds must be"),
    ):
        with pytest.raises(ValueError, match=reason):
            call()


def test_how_folds_are_written() -> None:
    assert Folds.of("4", 5) == Folds.of(4, 5) == Folds(4)
    assert Folds.of("time( gap=2.5 )", 5) == Folds(5, "time", 2.5)
    assert Folds.of(str(Folds(3, "time", 7.0)), 5) == Folds(3, "time", 7.0)


def test_random_parts_of_one_query_text_on_several_days_are_warned_about() -> None:
    texts = np.repeat([f"query {number % 12}" for number in range(48)], WORLD.group)
    mixed = DATA.with_fields({"query_text": texts})
    for parts in (lambda data: data.split(0.3), lambda data: list(data.kfold(3))):
        with pytest.warns(UserWarning, match="query texts have queries at several times"):
            parts(mixed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mixed.split(0.3, by="time")
        DATA.split(0.3)
        DATA.with_fields({"query_text": np.repeat(DATA.query_ids.astype(str), DATA.group)}).split()


# Training and tuning


def cv(**changes: Any) -> Ranker:
    options = {"early_stopping": "cv", "early_stopping_rounds": 3, "folds": "time(3, gap=1)"}
    return quick(**{**options, **changes})


def test_early_stopping_watches_later_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    from rankwright.training import strategies

    seen = []
    run_fold = strategies._run_fold

    def spy(fold: Any) -> Any:
        seen.append((days(fold.data).max(), days(fold.valid[0]).min()))
        return run_fold(fold)

    monkeypatch.setattr(strategies, "_run_fold", spy)
    fitted = cv().fit(DATA)
    assert len(seen) == fitted.stopping_["folds"] == 3
    assert all(last + 1 < first for last, first in seen)
    assert fitted.manifest_["parameters"]["folds"] == "time(3, gap=1)"


def test_times_from_arrays_frames_fields_and_files(tmp_path: Path) -> None:
    import pandas as pd

    expected = cv().fit(DATA).forest_.dump()
    X, y, qid = DATA.X, DATA.y, DATA.qid
    names = DATA.feature_names
    named = RankingData(X, y, qid=qid, feature_names=names)
    assert cv().fit(named, time=DATA.fields["time"]).forest_.dump() == expected
    frame = pd.DataFrame(X.astype(float), columns=names)
    frame["label"], frame["qid"] = y, qid
    frame["day"] = pd.Timestamp("2026-01-01") + pd.to_timedelta(DATA.fields["time"], "D")
    fitted = cv().fit(frame, "label", qid="qid", time="day", eval_set=[frame])
    assert fitted.forest_.dump() == expected
    assert "day" not in fitted.feature_names_in_
    assert np.array_equal(fitted.predict(frame), cv().fit(DATA).predict(DATA))
    frame.to_parquet(tmp_path / "data.parquet")
    streamed = cv().fit(str(tmp_path / "data.parquet"), "label", qid="qid", time="day")
    assert streamed.forest_.dump() == expected
    in_field = rw.stream_data(tmp_path / "data.parquet", fields=["day"])
    assert cv().fit(in_field, time="day").forest_.dump() == expected
    frame["day"] = frame["day"].dt.strftime("%Y-%m-%d")
    frame.to_csv(tmp_path / "data.csv", index=False)
    for file in ("data.parquet", "data.csv"):
        read = rw.read_data(tmp_path / file, time="day")
        assert cv().fit(read).forest_.dump() == expected
    with pytest.raises(ValueError, match="need the time of each row"):
        cv().fit(named)


def test_time_cannot_be_used_on_a_cluster() -> None:
    with pytest.raises(ValueError, match="time cannot be used with cluster="):
        quick(engine="xgboost").fit(DATA, time="time", cluster=2)


def test_calibration_scores_each_block_by_a_model_of_the_past() -> None:
    ranker = quick().fit(DATA)
    ranker.calibrate(DATA, folds="time(4)")
    by_hand: list[Any] = []
    for train, test in DATA.kfold(4, by="time"):
        by_hand.append(quick(learning_rate=0.1).fit(train).predict(test))
    from rankwright.training.cross_fitting import cross_fitted

    found = cross_fitted(ranker, DATA, Folds(4, "time"))
    assert np.array_equal(found.scores, np.concatenate(by_hand))
    assert ranker.calibration_.folds == 4


def test_tuning_validates_on_later_queries(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    from rankwright.tuning.search import validation_parts

    parts = validation_parts(DATA, None, "time(2, gap=1)", 0)
    assert [days(train).max() + 1 < days(test).min() for train, test in parts] == [True, True]
    options = {"metric": "map", "trials": 1, "n_estimators": 3, "study": tmp_path / "study.log"}
    tuning = rw.tune(DATA, folds="time(2)", n_jobs=1, **options)
    assert len(tuning.best_trial.fold_values) == 2
    with pytest.raises(ValueError, match="another search"):
        rw.tune(DATA, folds="time(2, gap=1)", n_jobs=1, **options)


def test_learning_curves_test_on_the_latest_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    class Spy(Ranker):
        def fit(self, X: Any, *args: Any, **options: Any) -> Any:
            seen.append(days(X))
            return super().fit(X, *args, **options)

    spy = Spy(**{**quick().get_params(), "n_estimators": 2})
    curve = rw.learning_curve(spy, DATA, [6, 12], repeats=3, test_queries=10, by="time", gap=2)
    assert curve.test_queries == 12  # four days of three queries
    assert [len(drawn) for drawn in seen] == [6, 12] * 3
    assert max(drawn.max() for drawn in seen) < 12 - 2
    assert len({tuple(drawn) for drawn in seen[::2]}) == 3
    with pytest.raises(ValueError, match="queries must be numbers below 31"):
        rw.learning_curve(spy, DATA, [40], test_queries=10, by="time", gap=2)


def test_the_command_line(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from rankwright.cli import app

    fields = {"day": DATA.fields["time"]}
    data = RankingData(
        DATA.X, DATA.y, qid=DATA.qid, feature_names=DATA.feature_names, fields=fields
    )
    rw.write_data(data, tmp_path / "data.parquet")
    rows = [str(tmp_path / "data.parquet"), "--time-column", "day"]
    cross_validated = ["--set", "early_stopping=cv", "--early-stopping", "3", "--trees", "8"]
    forms = {"memory": "--in-memory", "stream": "--stream"}
    scores = []
    for name, how in forms.items():
        out = ["--out", str(tmp_path / name), "--folds", "time(3, gap=1)", "-q", how]
        done = CliRunner().invoke(app, ["train", *rows, *cross_validated, *out])
        assert done.exit_code == 0, done.output
        ranker = rw.Run.open(tmp_path / name).ranker
        assert ranker.folds == "time(3, gap=1)"
        assert "day" not in ranker.feature_names_in_
        scores.append(ranker.predict(DATA.X))
    assert np.array_equal(*scores)
    for command in (
        ["calibrate", str(tmp_path / "memory"), rows[0], "--folds", "time(4)"],
        ["evaluate", str(tmp_path / "memory"), rows[0]],
    ):
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, done.output
    best = ["--trials", "1", "--trees", "3", "--out", str(tmp_path / "best.toml"), "-q"]
    assert CliRunner().invoke(app, ["tune", *rows, "--folds", "time(2)", *best]).exit_code == 0
    done = CliRunner().invoke(app, ["tune", *rows, "--folds", "weeks", *best])
    assert done.exit_code == 2
