"""What reads files and text from outside: an example of each, and how it is used after it was read."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

import rankwright as rw
from engine_examples import engine_files
from folders import Folder, changed_folder
from rankwright.data.reading import write_table
from rankwright.exporting import export_options, load_target
from rankwright.exporting.feature_sets import read_feature_set
from rankwright.exporting.verify import verify_content
from rankwright.metrics import metric_texts
from rankwright.runs import read_config, train_run

ROWS = 120
PARAMETERS = {"n_estimators": 4, "num_leaves": 4, "min_child_samples": 3, "n_jobs": 1}
RUN_FILES = ("manifest.json", "config.toml", "metrics.jsonl")
EXPORTS = ("opensearch", "solr", "vespa", "elastic", "ranklib", "json", "lightgbm", "xgboost")
PAIRS = {"winner": [0, 2, 9], "loser": [1, 3, 8], "weight": [1.0, 0.5, 2.0], "qid": [0, 0, 1]}
CLICKS = {
    "query": ["a", "a", "a", "a", "b", "b"],
    "document": ["x", "y", "y", "x", "x", "z"],
    "position": [1, 2, 1, 2, 1, 2],
    "click": [1, 1, 1, 1, 1, 0],
    "session": [0, 0, 1, 1, 2, 2],
}
QRELS = b"301 0 FT911-3 1\n301 0 FT911-4 0\n302 0 FT911-3 2\n"
TREC_RUN = b"301 Q0 FT911-3 1 12.5 bm25\n301 Q0 FT911-4 2 -1e3 bm25\n302 Q0 d 1 0 bm25\n"


@dataclass
class Reader:
    """An example, and a function that reads a changed one from a scratch folder."""

    example: bytes
    use: Callable[[bytes], object]
    structured: bool = False  # JSON
    change: Callable[[bytes, random.Random], bytes] | None = None  # in place of `mutations.changed`


def data() -> rw.RankingData:
    draw = np.random.default_rng(0)
    frame = pd.DataFrame(draw.normal(size=(ROWS, 3)).round(3), columns=["a", "b", "c"])
    frame["kind"] = pd.Categorical([f"k{code}" for code in draw.integers(0, 5, ROWS)])
    frame.loc[::7, "b"] = np.nan
    return rw.RankingData(
        frame, draw.integers(0, 3, ROWS), qid=np.arange(ROWS) // 8, sample_weight=np.ones(ROWS)
    )


def readers() -> dict[str, Callable[[Path], Reader]]:
    """How each reader is made, with its example in a folder."""
    return {
        "letor.txt": lambda folder: file_reader(folder / "letor.txt", plain(), rw.read_data),
        "table.csv": lambda folder: file_reader(
            folder / "table.csv", data(), lambda path: rw.read_data(path, categorical=["kind"])
        ),
        "table.parquet": lambda folder: file_reader(
            folder / "table.parquet", data(), lambda path: rw.read_data(path, reference=data())
        ),
        "table.arrow": lambda folder: file_reader(
            folder / "table.arrow", data(), lambda path: rw.read_data(path, reference=data())
        ),
        "table metadata.json": metadata_reader,
        "streamed.txt": lambda folder: stream_reader(folder / "streamed.txt", plain()),
        "streamed.parquet": lambda folder: stream_reader(folder / "streamed.parquet", data()),
        "streamed.arrow": lambda folder: stream_reader(folder / "streamed.arrow", data()),
        "pairs.csv": lambda folder: table_reader(folder / "pairs.csv", PAIRS, use_pairs),
        "pairs.parquet": lambda folder: table_reader(folder / "pairs.parquet", PAIRS, use_pairs),
        "clicks.csv": lambda folder: table_reader(folder / "clicks.csv", CLICKS, use_clicks),
        "clicks.parquet": lambda folder: table_reader(
            folder / "clicks.parquet", CLICKS, use_clicks
        ),
        "features.json": features_reader,
        **{
            name: lambda folder, make=make: Reader(*make(folder))
            for name, make in engine_files().items()
        },
        **{
            f"export/{name}": lambda folder, name=name: export_reader(folder, name)
            for name in EXPORTS
        },
        "qrels": lambda folder: trec_reader(folder, QRELS, rw.read_qrels, rw.write_qrels),
        "bm25.run": lambda folder: trec_reader(
            folder, TREC_RUN, rw.read_trec_run, rw.write_trec_run
        ),
        "manifest.json": lambda folder: model_reader(folder, "manifest.json"),
        "model.txt": lambda folder: model_reader(folder, "model.txt"),
        "trees.json": lambda folder: model_reader(folder, "trees.json"),
        "folder/lightgbm": lambda folder: folder_reader(folder, "lightgbm"),
        "folder/xgboost": lambda folder: folder_reader(folder, "xgboost"),
        "checkpoint.json": checkpoint_reader,
        **{f"run/{name}": lambda folder, name=name: run_reader(folder, name) for name in RUN_FILES},
        "config.toml": config_reader,
        "study.log": study_reader,
        "metric": lambda folder: Reader(b"ndcg(gain=linear)@10", use_metric),
        "objective": lambda folder: Reader(
            b"yetiloss(neighbours=3, noise='gumbel') + 0.5 n^-0.5 queryrmse", use_objective
        ),
    }


def plain() -> rw.RankingData:
    table = data()
    return rw.RankingData(np.nan_to_num(table.X), table.y, qid=table.qid)


def file_reader(
    path: Path, example: rw.RankingData, read: Callable[[Path], rw.RankingData]
) -> Reader:
    """A file of labelled data; what was read is written again, and has to come back as it was."""
    rw.write_data(example, path)
    again = path.with_name(f"again{path.suffix}")

    def use(content: bytes) -> None:
        path.write_bytes(content)
        first = read(path)
        try:
            rw.write_data(first, again)
        except ValueError:  # ids or names that the format cannot hold
            return
        second = read(again)
        matrices = [
            table.X.toarray() if hasattr(table.X, "toarray") else table.X
            for table in (first, second)
        ]
        width = min(
            matrix.shape[1] for matrix in matrices
        )  # LETOR text does not say how many columns are empty
        same = all(not np.any(np.nan_to_num(matrix[:, width:])) for matrix in matrices)
        same &= np.array_equal(matrices[0][:, :width], matrices[1][:, :width], equal_nan=True)
        same &= np.array_equal(first.y, second.y) and list(map(str, first.qid)) == list(
            map(str, second.qid)
        )
        if not same:
            raise AssertionError("what was written comes back as something else")

    return Reader(path.read_bytes(), use)


def stream_reader(path: Path, example: rw.RankingData) -> Reader:
    """A file of labelled data that is read in pieces: what is read is what `read_data` reads, or both refuse it."""
    rw.write_data(example, path)

    def use(content: bytes) -> None:
        path.write_bytes(content)
        try:
            whole = rw.read_data(path)
        except ValueError:
            whole = None
        try:
            streamed = rw.stream_data(path)
        except ValueError as error:
            if whole is not None:
                raise AssertionError(f"read at once but not in pieces: {error}") from error
            raise
        if whole is None:
            raise AssertionError("read in pieces but not at once")
        same = np.array_equal(streamed.X, whole.X, equal_nan=True) and np.array_equal(
            streamed.y, whole.y
        )
        same &= list(streamed.qid) == list(whole.qid) and streamed.categories == whole.categories
        same &= (streamed.weights is None) == (whole.weights is None)
        if not (
            same and (whole.weights is None or np.array_equal(streamed.weights, whole.weights))
        ):
            raise AssertionError("something else in pieces than at once")

    return Reader(path.read_bytes(), use)


def table_reader(
    path: Path, example: dict[str, list[Any]], read: Callable[[Path], object]
) -> Reader:
    """A table that is not ranking data."""
    write_table(example, path)

    def use(content: bytes) -> None:
        path.write_bytes(content)
        read(path)

    return Reader(path.read_bytes(), use)


def use_pairs(path: Path) -> None:
    weight = plain().with_pairs(path).pairs.arrays.weight
    if not (np.isfinite(weight).all() and (weight >= 0).all()):
        raise AssertionError("weights that are not weights")


def use_clicks(path: Path) -> None:
    log = rw.read_clicks(path)
    if not np.isfinite(rw.estimate_propensities(log, resamples=0)([1])).all():
        raise AssertionError("propensities that are not finite")


def features_reader(folder: Path) -> Reader:
    path = folder / "features.json"

    def use(content: bytes) -> None:
        path.write_bytes(content)
        read_feature_set(path)

    example = {
        "featureset": {
            "name": "s",
            "features": [{"name": "a", "store": "x"}, {"name": "b", "store": "x"}],
        }
    }
    return Reader(json.dumps(example).encode(), use, structured=True)


def export_reader(folder: Path, target: str) -> Reader:
    """A file for a search engine, as ``verify-export`` reads it."""
    table = plain()
    model = rw.Ranker(**PARAMETERS, verbose=0).fit(table).model_
    options, path = export_options(model), folder / "exported"
    rw.export(model, target, path)
    example = path.read_bytes()

    def use(content: bytes) -> None:
        verify_content(content, model, load_target(target), options, table.X, table.qid)

    return Reader(example, use, example[:1] in b"{[")


def trec_reader(
    folder: Path, example: bytes, read: Callable[[Path], Any], write: Callable[[Any, Path], None]
) -> Reader:
    path, again = folder / "first", folder / "again"

    def use(content: bytes) -> None:
        path.write_bytes(content)
        first = read(path)
        write(first, again)
        second = read(again)
        for name, values in vars(first).items():
            other = getattr(second, name)
            if np.ndim(values) and sorted(map(str, values)) != sorted(map(str, other)):
                raise AssertionError(f"{name} comes back as something else")

    return Reader(example, use)


def use_metric(content: bytes) -> None:
    text = content.decode()
    rw.evaluate([1, 2], [0, 1], group=[2], metrics=text)
    for term in metric_texts(text):
        check_text(rw.metric, term)


def use_objective(content: bytes) -> None:
    text = content.decode()
    grad, hess = rw.gradients(text, [1, 2, 3], [0, 1, 1], group=[3])[:2]
    if not (np.isfinite(grad).all() and np.isfinite(hess).all()):
        raise AssertionError("gradients that are not finite")
    check_text(rw.objective, text)


def check_text(parse: Callable[[str], Any], text: str) -> None:
    value = parse(text)
    if parse(str(value)) != value:
        raise AssertionError(f"{value} is read as something else")


def config_reader(folder: Path) -> Reader:
    path = folder / "config.toml"

    def use(content: bytes) -> None:
        path.write_bytes(content)
        rw.Ranker(**named(read_config(path))).check_params()

    return Reader(
        b'objective = "lambdamart(sigma=2)"\nmetric = ["map"]\n[engine_params]\nlambda_l1 = 0.1\n',
        use,
    )


def metadata_reader(folder: Path) -> Reader:
    """The description of the columns in a Parquet file."""
    path, source, table = folder / "described.parquet", folder / "table.parquet", data()
    rw.write_data(table, source)
    arrow = pq.read_table(source)
    example = arrow.schema.metadata[b"rankwright"]

    def use(content: bytes) -> None:
        pq.write_table(arrow.replace_schema_metadata({"rankwright": content}), path)
        for reference in (None, table):
            rw.read_data(path, reference=reference)

    return Reader(example, use, structured=True)


def named(config: dict[str, Any]) -> dict[str, Any]:
    """Refuse what is not a parameter, as the command line does."""
    if unknown := set(config) - set(rw.Ranker().get_params()):
        raise ValueError(f"{unknown} are not parameters")
    return config


def model_reader(folder: Path, name: str) -> Reader:
    """The manifest of a model, or its trees with a hash that matches."""
    table, model = data(), folder / "model"
    engine = "xgboost" if name == "trees.json" else "lightgbm"
    rw.Ranker(**PARAMETERS, engine=engine, verbose=0).fit(table).save(model)
    manifest = json.loads((model / "manifest.json").read_text())
    trees = model / manifest["model_file"]
    rows = table.X[:5]

    def use(content: bytes) -> None:
        if name == "manifest.json":
            (model / name).write_bytes(content)
        else:
            trees.write_bytes(content)
            changed = manifest | {"model_sha256": hashlib.sha256(content).hexdigest()}
            (model / "manifest.json").write_text(json.dumps(changed))
        read = rw.load(model)
        scores = read.predict(
            rows if len(read.columns.feature_names) == rows.shape[1] else table, n_jobs=1
        )
        if not np.isfinite(scores).all():
            raise AssertionError("scores that are not finite")
        read.importances()
        read.predict(rows, contributions=True, n_jobs=1)
        rw.Ranker.load(model).predict(rows)

    example = (model / "manifest.json" if name == "manifest.json" else trees).read_bytes()
    return Reader(example, use, name.endswith(".json"))


def folder_reader(folder: Path, engine: str) -> Reader:
    """A whole model, with hashes that match."""
    whole = Folder(folder, engine, data(), PARAMETERS)
    return Reader(whole.example, whole.use, change=changed_folder)


def checkpoint_reader(folder: Path) -> Reader:
    """The manifest of a checkpoint, with a hash of the state that matches where there is one."""
    table, whole = data(), folder / "checkpoint"
    options = {**PARAMETERS, "checkpoint": whole, "verbose": 0}
    rw.Ranker(**options).fit(table, eval_set=[table])
    example = (whole / "manifest.json").read_bytes()
    trees = (whole / "model.txt").read_bytes()
    longer = rw.Ranker(**{**options, "checkpoint": None, "n_estimators": 6})
    expected = longer.fit(table, eval_set=[table]).predict(table)

    def use(content: bytes) -> None:
        (whole / "model.txt").write_bytes(trees)
        try:
            document = json.loads(content)
            state = json.dumps(document["state"], sort_keys=True).encode()
            document["state_sha256"] = hashlib.sha256(state).hexdigest()
            content = json.dumps(document).encode()
        except (ValueError, KeyError, TypeError, RecursionError):
            pass
        (whole / "manifest.json").write_bytes(content)
        resumed = rw.Ranker(**{**options, "n_estimators": 6}).fit(table, eval_set=[table])
        # Times, curves, rates and the end may be changed within what is valid; the trees may not.
        if json.loads(content)["state"].get("trees") == json.loads(example)["state"]["trees"]:
            known = ("factors", "rates", "finished")
            same = all(
                json.loads(content)["state"].get(k) == json.loads(example)["state"][k]
                for k in known
            )
            if same and not np.array_equal(resumed.predict(table), expected):
                raise AssertionError("another model in silence")

    return Reader(example, use, True)


def run_reader(folder: Path, name: str) -> Reader:
    """A file of a run folder."""
    table, run = data(), folder / "run"
    train_run(run, table, table, parameters=PARAMETERS, verbose=0)
    examples = {file: (run / file).read_bytes() for file in RUN_FILES}

    def use(content: bytes) -> None:
        for other, example in examples.items():
            (run / other).write_bytes(content if other == name else example)
        opened = rw.Run.open(run)
        _ = opened.history, opened.config, opened.times, opened.reading, opened.ranker, repr(opened)
        try:
            train_run(run, table, table, parameters=PARAMETERS, verbose=0)
        finally:
            if not (run / "model").exists() or not (run / "environment.json").exists():
                shutil.rmtree(run, ignore_errors=True)
                train_run(run, table, table, parameters=PARAMETERS, verbose=0)

    return Reader(examples[name], use, name == "manifest.json")


def study_reader(folder: Path) -> Reader:
    path = folder / "study.log"
    with quiet():
        rw.tune(data(), trials=2, n_estimators=2, folds=2, n_jobs=1, study=path)

    def use(content: bytes) -> None:
        path.write_bytes(content)
        use_study(path)

    return Reader(path.read_bytes(), use)


def use_study(path: Path) -> None:
    from rankwright.tuning.study import load_optuna, open_study

    with (
        quiet(),
        open_study(
            path, json.loads(_description(path)), load_optuna().pruners.NopPruner()
        ) as opened,
    ):
        for trial in opened.trials:
            _ = trial.params, trial.value, trial.state


def _description(path: Path) -> str:
    """The search that the file says it holds, as far as it can be read: what follows is checked then."""
    for line in path.read_bytes().splitlines():
        try:
            found = json.loads(line).get("user_attr", {})
            if "search" in found:
                return json.dumps(found["search"])
        except (ValueError, AttributeError, TypeError, RecursionError):
            continue
    return "{}"


@contextmanager
def quiet() -> Iterator[None]:
    import logging

    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
