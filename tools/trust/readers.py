"""What reads files and text from outside: an example of each, and how it is used after it was read."""

from __future__ import annotations

import hashlib
import json
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
from rankwright.runs import read_config, train_run

ROWS = 120


@dataclass
class Reader:
    """An example, and a function that reads a changed one from a scratch folder."""

    example: bytes
    use: Callable[[bytes], object]
    structured: bool = False  # JSON


def data() -> rw.RankingData:
    draw = np.random.default_rng(0)
    frame = pd.DataFrame(draw.normal(size=(ROWS, 3)).round(3), columns=["a", "b", "c"])
    frame["kind"] = pd.Categorical([f"k{code}" for code in draw.integers(0, 5, ROWS)])
    frame.loc[::7, "b"] = np.nan
    return rw.RankingData(frame, draw.integers(0, 3, ROWS), qid=np.arange(ROWS) // 8, weights=np.ones(ROWS))


def readers(folder: Path) -> dict[str, Reader]:
    """Write the examples into a folder and return the readers."""
    table = data()
    plain = rw.RankingData(np.nan_to_num(table.X), table.y, qid=table.qid)
    found: dict[str, Reader] = {}

    def file(name: str, use: Callable[[Path], object], content: bytes | None = None) -> None:
        path = folder / name
        example = path.read_bytes() if content is None else content

        def read(changed: bytes) -> object:
            path.write_bytes(changed)
            return use(path)

        found[name] = Reader(example, read, name.endswith((".json", ".jsonl")))

    rw.write_letor(plain, folder / "letor.txt")
    file("letor.txt", rw.read_data)
    rw.write_data(table, folder / "table.csv")
    file("table.csv", lambda path: rw.read_data(path, categorical=["kind"]))
    rw.write_data(table, folder / "table.parquet")
    file("table.parquet", lambda path: rw.read_data(path, reference=table))
    found["table metadata.json"] = metadata_reader(folder / "described.parquet", folder / "table.parquet", table)
    file("qrels", rw.read_qrels, b"301 0 FT911-3 1\n301 0 FT911-4 0\n302 0 FT911-3 2\n")
    file("bm25.run", rw.read_trec_run, b"301 Q0 FT911-3 1 12.5 bm25\n301 Q0 FT911-4 2 -1e3 bm25\n302 Q0 d 1 0 bm25\n")
    parameters = {"n_estimators": 4, "num_leaves": 4, "min_child_samples": 3, "n_jobs": 1}
    ranker = rw.Ranker(**parameters, verbose=0).fit(table)
    found |= model_readers(folder, ranker, table)
    found |= checkpoint_reader(folder, parameters, table)
    found |= run_readers(folder, parameters, table)
    config = b'objective = "lambdamart(sigma=2)"\nmetric = ["map"]\n[engine_params]\nlambda_l1 = 0.1\n'
    file("config.toml", lambda path: rw.Ranker(**named(read_config(path))).check_params(), config)
    file("study.log", use_study, study(folder, table))
    found["metric"] = Reader(
        b"ndcg(gain=linear)@10", lambda text: rw.evaluate([1, 2], [0, 1], group=[2], metrics=text.decode())
    )
    found["objective"] = Reader(
        b"yetiloss(neighbours=3, noise='gumbel') + 0.5 n^-0.5 queryrmse",
        lambda text: rw.gradients(text.decode(), [1, 2, 3], [0, 1, 1], group=[3]),
    )
    return found


def metadata_reader(path: Path, source: Path, table: rw.RankingData) -> Reader:
    """The description of the columns in a Parquet file."""
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


def model_readers(folder: Path, ranker: rw.Ranker, table: rw.RankingData) -> dict[str, Reader]:
    """The manifest, and the trees with a hash that matches."""
    model = folder / "model"
    ranker.save(model)
    manifest, trees = (model / "manifest.json").read_bytes(), (model / "model.txt").read_bytes()
    rows = table.X[:5]

    def use() -> None:
        read = rw.load(model)
        read.predict(rows if len(read.columns.feature_names) == rows.shape[1] else table, threads=1)
        read.importances()
        read.predict(rows, contributions=True, threads=1)
        rw.Ranker.load(model).predict(rows)

    def use_manifest(content: bytes) -> None:
        (model / "model.txt").write_bytes(trees)
        (model / "manifest.json").write_bytes(content)
        use()

    def use_trees(content: bytes) -> None:
        changed = json.loads(manifest) | {"model_sha256": hashlib.sha256(content).hexdigest()}
        (model / "model.txt").write_bytes(content)
        (model / "manifest.json").write_text(json.dumps(changed))
        use()

    return {"manifest.json": Reader(manifest, use_manifest, True), "model.txt": Reader(trees, use_trees)}


def checkpoint_reader(folder: Path, parameters: dict[str, Any], table: rw.RankingData) -> dict[str, Reader]:
    """The manifest of a checkpoint, with a hash of the state that matches where there is one."""
    whole = folder / "checkpoint"
    options = {**parameters, "checkpoint": whole, "verbose": 0}
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
            same = all(json.loads(content)["state"].get(k) == json.loads(example)["state"][k] for k in known)
            if same and not np.array_equal(resumed.predict(table), expected):
                raise AssertionError("another model in silence")

    return {"checkpoint.json": Reader(example, use, True)}


def run_readers(folder: Path, parameters: dict[str, Any], table: rw.RankingData) -> dict[str, Reader]:
    """The files of a run folder."""
    run = folder / "run"
    train_run(run, table, table, parameters=parameters, verbose=0)
    examples = {name: (run / name).read_bytes() for name in ("manifest.json", "config.toml", "metrics.jsonl")}

    def reader(name: str) -> Reader:
        def use(content: bytes) -> None:
            for other, example in examples.items():
                (run / other).write_bytes(content if other == name else example)
            opened = rw.Run.open(run)
            _ = opened.history, opened.config, opened.times, opened.reading, opened.ranker, repr(opened)
            try:
                train_run(run, table, table, parameters=parameters, verbose=0)
            finally:
                if not (run / "model").exists() or not (run / "environment.json").exists():
                    shutil.rmtree(run, ignore_errors=True)
                    train_run(run, table, table, parameters=parameters, verbose=0)

        return Reader(examples[name], use, name == "manifest.json")

    return {f"run/{name}": reader(name) for name in examples}


SEARCH = {"folds": 2, "trees": 2}


def study(folder: Path, table: rw.RankingData) -> bytes:
    with quiet():
        rw.tune(table, trials=2, trees=2, folds=2, threads=1, study=folder / "study.log")
    return (folder / "study.log").read_bytes()


def use_study(path: Path) -> None:
    from rankwright.tuning.study import load_optuna, open_study

    with quiet(), open_study(path, json.loads(_description(path)), load_optuna().pruners.NopPruner()) as opened:
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
