"""Run folders: a model with its provenance.

A run folder holds

    model/            the model, as `Ranker.save` writes it
    manifest.json     status, data (path, sizes, fingerprint) and how it was read, times, versions
    config.toml       the parameters of the Ranker
    metrics.jsonl     metrics after each iteration, in a line each
    log.txt           events with their times
    environment.json  Python, packages and machine
    checkpoint/       during training: the state to resume from

The folder is created atomically, and each file is replaced atomically, except the metrics and the log, which grow.
Training that was killed resumes from its checkpoint with the same result, and so do the metrics.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwright.data.base_score import base_field
from rankwright.data.dataset import RankingData
from rankwright.persistence import has_model, is_texts, json_object
from rankwright.run_history import LOG, METRICS, Recorder, now, read_history
from rankwright.support.checks import ArgumentError
from rankwright.support.environment import environment
from rankwright.support.files import PathLike, part_of, read_plain, remove_parts, replacing
from rankwright.support.locks import locked

if TYPE_CHECKING:
    from rankwright.data.files import DataFiles
    from rankwright.ranker import Ranker

RUN_VERSION = 1
_MANIFEST, _CONFIG, _ENVIRONMENT = "manifest.json", "config.toml", "environment.json"
_MODEL, _CHECKPOINT = "model", "checkpoint"
# The manifest goes last.
_OURS = (_MODEL, _CHECKPOINT, METRICS, LOG, _CONFIG, _ENVIRONMENT, _MANIFEST)
# Parameters that do not change the model.
_FREE = ("n_jobs", "verbose", "checkpoint")
# Options of `read_data`.
_READING = (
    *("label", "qid", "weight", "drop", "categorical"),
    *("fields", "docid", "query_text", "time", "zero_based"),
)
# Packages with versions that a run records.
_PACKAGES = (
    *("rankwright", "numpy", "scipy", "numba"),
    *("lightgbm", "scikit-learn", "pyarrow", "narwhals"),
)
_MOST_BYTES = 1 << 26
# The time to read a long dotted key grows with the square of its length.
_LONG_KEY = re.compile(r"""(?<![\w"'-])(?:[\w"'-]++\s*+\.\s*+){100}""")


class Run:
    """A run folder that was opened to read; `Run.open` checks it first.

    Attributes
    ----------
    path : Path
        The folder.
    name : str
        Its name.
    manifest : dict
        Status, data, times and versions; ``manifest["status"]`` is ``"training"``,
        ``"interrupted"`` or ``"finished"``.
    config : dict
        Parameters of the Ranker, under ``"clicks"`` the arguments of ``fit`` about them, and under
        ``"base_score"`` the column of scores to start from.
    history : list of dict
        An entry per iteration, for example ``{"iteration": 1, "seconds": 0.1, "train":
        {"ndcg@10": 0.4}, "valid": {"ndcg@10": 0.3}}``. ``"valid"`` is there if there was validation
        data, and ``"train"`` unless weights differ within a query. Seconds count from the start of
        training; they are None if a crash lost them.
    environment : dict
        Python, packages and machine.
    times : dict
        Seconds of each phase: ``"read"``, ``"gradients"``, ``"trees"``, ``"leaves"``,
        ``"evaluation"``, ``"write"``.
    ranker : Ranker
        The model, read on first use.

    Examples
    --------
    >>> import tempfile
    >>> from rankwright import make_web_search
    >>> train, valid = make_web_search(30, random_state=1).split(0.3)
    >>> parameters = {"n_estimators": 3, "n_jobs": 1}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = train_run(folder + "/first", train, valid, parameters=parameters, verbose=0)
    ...     run = Run.open(folder + "/first")
    ...     print(run.name, run.manifest["status"], len(run.history), sorted(run.history[0]))
    first finished 3 ['iteration', 'seconds', 'train', 'valid']
    """

    def __init__(self, path: PathLike, manifest: dict[str, Any]) -> None:
        self.path = Path(path)
        self.manifest = manifest

    @classmethod
    def open(cls, path: PathLike) -> Run:
        """Open a run folder; other folders, and runs of a newer version, are refused."""
        folder = Path(path)
        if not folder.exists():
            raise FileNotFoundError(f"there is no run folder at {folder}.")
        if not is_run(folder):
            raise ValueError(
                f"{folder} is not a run folder: it has no {_MANIFEST} of one. Make one with "
                "train_run."
            )
        manifest = _json(folder / _MANIFEST)
        # A damaged number is not a newer version, so the two have different errors.
        written = manifest.get("run_version")
        if not isinstance(written, int) or written < 1:
            raise ValueError(
                f"{folder / _MANIFEST}: run_version is {written!r}, not a number from 1; it was "
                "damaged."
            )
        if written > RUN_VERSION:
            raise ValueError(
                f"{folder} was written by a newer version, rankwright "
                f"{manifest.get('rankwright', '?')} (run format {written}; this one reads up to "
                f"{RUN_VERSION}). Upgrade rankwright to use it."
            )
        _check_manifest(folder / _MANIFEST, manifest)
        return cls(folder, manifest)

    @classmethod
    def find(cls, path: PathLike) -> Run | None:
        """Open the run folder at a path, or return None if a run can be created there."""
        folder = Path(path)
        # Files of the user are never mixed with files of a run.
        if folder.is_dir() and not is_run(folder) and any(folder.iterdir()):
            raise ValueError(
                f"{folder} holds files that are not a run's; choose another folder for the run."
            )
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"{folder} is a file; a run is a folder. Choose another name.")
        if not is_run(folder):
            return None
        return cls.open(folder)

    @property
    def name(self) -> str:
        """Name of the folder."""
        return self.path.resolve().name

    @property
    def finished(self) -> bool:
        """Whether training came to its end."""
        return self.manifest.get("status") == "finished"

    @cached_property
    def config(self) -> dict[str, Any]:
        """Parameters of the Ranker."""
        return read_config(self.path / _CONFIG)

    @cached_property
    def environment(self) -> dict[str, Any]:
        """Python, packages and machine."""
        return _json(self.path / _ENVIRONMENT)

    @property
    def reading(self) -> dict[str, Any]:
        """Options of `read_data` that the training data was read with."""
        options = self.manifest.get("reading", {})
        return {name: options[name] for name in _READING if name in options}

    @property
    def times(self) -> dict[str, float]:
        """Seconds of each phase."""
        return dict(self.manifest.get("times", {}))

    @cached_property
    def history(self) -> list[dict[str, Any]]:
        """Metrics after each iteration."""
        return read_history(self.path / METRICS)

    @cached_property
    def ranker(self) -> Ranker:
        """The model."""
        from rankwright.ranker import Ranker

        if not (self.path / _MODEL).exists():
            raise ValueError(
                f"{self.path} has no model yet: its training did not finish. Repeat the training to resume it."
            )
        return Ranker.load(self.path / _MODEL)

    def __repr__(self) -> str:
        return f"Run({os.fspath(self.path)!r}, {self.manifest.get('status')})"


def _check_manifest(path: Path, manifest: Mapping[str, Any]) -> None:
    """Raise ValueError if an entry that is used has another type; other entries are only shown."""
    # Other programs may have edited the file, so types are checked before use.
    described, times = manifest.get("data", {}), manifest.get("times", {})
    checks = {
        "status": manifest.get("status", "training") in ("training", "interrupted", "finished"),
        "data": isinstance(described, dict)
        and all(isinstance(part, dict) for part in described.values()),
        "reading": _is_reading(manifest.get("reading", {})),
        "times": isinstance(times, dict)
        and all(type(value) in (int, float) for value in times.values()),
        "iterations": type(manifest.get("iterations", 0)) is int,
        "trees": type(manifest.get("trees", 0)) is int,
        "metrics": is_texts(manifest.get("metrics", [])),
    }
    for name, valid in checks.items():
        if not valid:
            raise ValueError(
                f"{path}: {name} is {str(manifest.get(name))[:60]!r}, which no run has; it was "
                "damaged."
            )


def _is_reading(options: Any) -> bool:
    """Return True if these can be keyword arguments of `read_data`."""

    def fits(name: str, value: Any) -> bool:
        if name == "zero_based":
            return isinstance(value, bool)
        return isinstance(value, str) or is_texts(value)

    return isinstance(options, dict) and all(fits(*option) for option in options.items())


def is_run(path: PathLike) -> bool:
    """Return True if a folder is a run folder, of any version and even if it is damaged."""
    folder = Path(path)
    try:
        return "run_version" in _json(folder / _MANIFEST)
    # Without a manifest it is not a run. With a damaged manifest it still is, so that the error
    # says so.
    except OSError:
        return False
    except ValueError:
        return (folder / _CONFIG).exists()


def load_ranker(path: PathLike) -> Ranker:
    """Read the model of a run folder, or a model that `Ranker.save` wrote."""
    from rankwright.ranker import Ranker

    if is_run(path):
        return Run.open(path).ranker
    return Ranker.load(path)


def train_run(
    path: PathLike,
    train: RankingData | DataFiles,
    valid: RankingData | DataFiles | None = None,
    *,
    parameters: Mapping[str, Any],
    clicks: Mapping[str, Any] | None = None,
    base_score: str | None = None,
    sources: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    verbose: int = 1,
    cluster: Any = None,
) -> Run:
    """Train a Ranker in a run folder, or resume a training that was interrupted.

    A folder with a finished run of the same parameters and data is returned as it is. Ctrl-C keeps
    the trees so far as a model, and the same call resumes from there. A folder serves a single
    training at a time: a second training is refused with the process that has the folder.

    Parameters
    ----------
    path
        The folder: new, empty, or the folder of the same training.
    train, valid
        Data. Metrics of both are recorded (of ``train`` only if its weights are the same within
        each query), and early stopping watches ``valid``.
    parameters
        Parameters of `Ranker`. ``checkpoint`` may choose ``trees`` and ``seconds`` between
        checkpoints, but no path.
    clicks
        If the labels are clicks: arguments of ``Ranker.fit`` about them, for example ``position``,
        that name fields of ``train``.
    base_score
        Name of the field or feature of ``train`` and ``valid`` with the scores to start from.
    sources
        Entries of the manifest about the source of the data: ``paths``, ``reading``, ``seconds`` of
        reading.
    overwrite
        Whether to replace the run that is there. Files that do not belong to a run are never
        touched.
    verbose
        1 shows progress, 0 is silent.
    cluster
        As for `Ranker.fit`; ``train`` and ``valid`` may then be `rankwright.data.files.DataFiles`.

    Examples
    --------
    >>> import tempfile
    >>> from rankwright import make_web_search
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     data = make_web_search(20, random_state=1)
    ...     parameters = {"n_estimators": 2, "n_jobs": 1}
    ...     run = train_run(folder + "/run", data, parameters=parameters, verbose=0)
    ...     same = train_run(folder + "/run", data, parameters=parameters, verbose=0)
    ...     same.manifest["started"] == run.manifest["started"], run.ranker.n_estimators_
    (True, 2)
    """
    folder, clicks, sources = Path(path), dict(clicks or {}), dict(sources or {})
    # Parameters are checked first, so that errors leave no folder behind.
    config = run_config(parameters, clicks, base_score)
    described = {"train": _describe(train, base_score)}
    if valid is not None:
        described["valid"] = _describe(valid, base_score)
    with locked(folder, "a training"):
        # A process that was killed may have left a folder that was being created.
        remove_parts(folder)
        earlier = Run.find(folder)
        if earlier is not None and overwrite:
            _remove(folder)
            earlier = None
        if earlier is None:
            _create(folder, config, described, sources)
        else:
            check_same(earlier, config, described)
            # Repeating a command is harmless: it does not train again.
            if earlier.finished:
                return earlier
        ranker = _ranker_in(folder, parameters, verbose)
        watched = {} if valid is None else {"valid": valid}
        if train.one_weight_per_query and train.labels:
            # A mean over queries needs a weight of each query, and a metric needs labels.
            watched["train"] = train
        recorder = Recorder(folder, list(watched))
        with _remove_on_failure(folder):
            recorder.log("training starts" if earlier is None else "training resumes")
            ranker.fit(
                train,
                eval_set=list(watched.values()),
                callbacks=[recorder],
                base_score=base_score,
                cluster=cluster,
                **clicks,
            )
            recorder.complete(ranker)
            run = _save(folder, ranker, recorder, float(sources.get("seconds", 0.0)))
        if run.finished:
            # The model is complete now, and an interrupted run keeps its checkpoint.
            shutil.rmtree(folder / _CHECKPOINT, ignore_errors=True)
    return run


def _ranker_in(folder: Path, parameters: Mapping[str, Any], verbose: int) -> Ranker:
    """Return a ranker with its checkpoint in the folder."""
    from rankwright.ranker import Ranker

    intervals = parameters.get("checkpoint") or {}
    checkpoint = {**intervals, "path": folder / _CHECKPOINT}
    return Ranker(**{**parameters, "checkpoint": checkpoint, "verbose": verbose})


def _save(folder: Path, ranker: Ranker, recorder: Recorder, read_seconds: float) -> Run:
    """Save the model, and complete the manifest of the run."""
    began = time.perf_counter()
    # The model comes before the manifest, so a finished run always has a model.
    ranker.save(folder / _MODEL)
    status = "interrupted" if ranker.interrupted_ else "finished"
    recorder.log(
        f"{status} after {recorder.lines} iterations; the model has {ranker.n_estimators_} trees"
    )
    manifest = _json(folder / _MANIFEST)
    manifest |= {
        "status": status,
        "ended": now(),
        "iterations": recorder.lines,
        "trees": ranker.n_estimators_,
        "objective": str(ranker.objective_),
        "metrics": [str(metric) for metric in ranker.metrics_],
        "seed": ranker.manifest_["seed"],
        "times": {"read": read_seconds, **ranker.times_, "write": time.perf_counter() - began},
    }
    _write_json(folder / _MANIFEST, manifest)
    run = Run(folder, manifest)
    # The property is filled in, so that the model is not read back.
    run.__dict__["ranker"] = ranker
    return run


def run_config(
    parameters: Mapping[str, Any],
    clicks: Mapping[str, Any] | None = None,
    base_score: str | None = None,
) -> dict[str, Any]:
    """Return all parameters of the Ranker that are not None, as plain values.

    The arguments of ``fit`` about clicks are in a table of their own, and ``base_score`` is beside
    the parameters. Raise ValueError if a
    parameter cannot be used.
    """
    from rankwright.ranker import Ranker
    from rankwright.training.groups import plain_groups

    intervals = parameters.get("checkpoint")
    if intervals is not None and (not isinstance(intervals, Mapping) or "path" in intervals):
        raise ValueError(
            "a run keeps its checkpoint in its own folder; choose only trees and seconds of "
            "checkpoint."
        )
    # The ranker checks the parameters and adds the defaults, so that the file has all of them.
    ranker = Ranker(**{**parameters, "checkpoint": None})
    ranker.check_params()
    if ranker.random_state is None:
        raise ValueError(
            "a run needs a random_state, or it could not be resumed after an interruption; set one."
        )
    config: dict[str, Any] = _plain(plain_groups(ranker.get_params(deep=False)))
    # This option belongs to the call, not to the model.
    del config["verbose"]
    if intervals is not None:
        config["checkpoint"] = dict(intervals)
    given = {name: value for name, value in (clicks or {}).items() if value is not None}
    for name in given.keys() & {"position", "propensity"}:
        names = given[name]
        if not isinstance(names, list | tuple):
            names = [names]
        if not is_texts(list(names)):
            raise ValueError(
                f"{name} of a run names fields of the training data, so that it can be resumed."
            )
    if given:
        config["clicks"] = _plain(given)
    if not isinstance(base_score, str | None):
        raise ArgumentError(
            "base_score",
            "of a run names a field or feature of the data, so that the run can be resumed.",
        )
    if base_score is not None:
        config["base_score"] = base_score
    return config


def read_config(path: PathLike) -> dict[str, Any]:
    """Read a TOML file of parameters, such as the ``config.toml`` of a run."""
    content = read_plain(path, _MOST_BYTES)
    try:
        text = content.decode()
        if _LONG_KEY.search(text):
            raise RecursionError
        return tomllib.loads(text)
    except ValueError as error:
        # Bytes that are not text, and numbers of thousands of digits, raise it too.
        raise ValueError(f"{path} is not valid TOML: {str(error).rstrip('.')}.") from None
    except RecursionError:
        raise ValueError(f"{path} is nested too deeply to be read; it was damaged.") from None


def check_same(
    run: Run, config: Mapping[str, Any], described: Mapping[str, Any] | None = None
) -> None:
    """Raise ValueError unless a run has these parameters and, if data is described, this data."""
    # Options that do not change the model may differ between the calls.
    for name in sorted((run.config.keys() | config.keys()) - set(_FREE)):
        if run.config.get(name) != config.get(name):
            there, here = _setting(run.config, name), _setting(config, name)
            raise ValueError(
                f"{run.path} is a run with other parameters ({name} is {there} there and {here} "
                "here); choose another folder, or overwrite it (--force)."
            )
    if described is None:
        return
    # Fingerprints are compared, because the same data may be at another path now.
    recorded = run.manifest.get("data", {})
    for name in ("train", "valid"):
        there, here = (values.get(name, {}).get("fingerprint") for values in (recorded, described))
        if there != here:
            raise ValueError(
                f"{run.path} is a run with other {name} data; choose another folder, or overwrite "
                "it (--force)."
            )


def _setting(config: Mapping[str, Any], name: str) -> str:
    if name not in config:
        return "not set"
    return repr(config[name])


def _create(
    folder: Path, config: dict[str, Any], described: dict[str, Any], sources: dict[str, Any]
) -> None:
    """Create a run folder beside its place, and move it there at once."""
    import tomli_w

    # The path comes first in the entry, because people read it.
    for name, where in sources.get("paths", {}).items():
        described[name] = {"path": os.fspath(where), **described[name]}
    manifest = {
        "run_version": RUN_VERSION,
        "rankwright": version("rankwright"),
        "status": "training",
        "started": now(),
        "data": described,
        "reading": sources.get("reading", {}),
    }
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = part_of(folder.resolve())
    try:
        part.mkdir()
        _write_json(part / _MANIFEST, manifest)
        _write_json(part / _ENVIRONMENT, environment(_PACKAGES))
        with replacing(part / _CONFIG) as file:
            file.write(tomli_w.dumps(config).encode())
        (part / METRICS).touch()
        (part / LOG).touch()
        if not folder.exists():
            # A single move makes the run visible, so other processes never see half a run.
            os.replace(part, folder)
        else:
            # It is empty, or has files of the user beside a run that was removed.
            for name in _OURS:
                if (part / name).exists():
                    os.replace(part / name, folder / name)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _remove(folder: Path) -> None:
    """Remove the files of a run, and the folder itself if it is empty then."""
    for name in _OURS:
        if (folder / name).is_dir():
            shutil.rmtree(folder / name)
        else:
            (folder / name).unlink(missing_ok=True)
    if not any(folder.iterdir()):
        folder.rmdir()


@contextmanager
def _remove_on_failure(folder: Path) -> Iterator[None]:
    """Remove a run that failed before it could be resumed."""
    try:
        yield
    except BaseException:
        # Without a tree there is no reason to keep the folder, and the name is free again.
        if not has_model(folder / _CHECKPOINT) and not has_model(folder / _MODEL):
            _remove(folder)
        raise


def _describe(data: Any, base_score: str | None) -> dict[str, Any]:
    described: dict[str, Any]
    if not hasattr(data, "queries"):
        # These are files that only workers read.
        described = data.description()
        return described
    from rankwright.training.checkpoint import fingerprint

    described = {
        "rows": data.n_rows,
        "queries": data.n_queries,
        "features": len(data.feature_names),
        "fingerprint": fingerprint(data, base_field(data, base_score)),
    }
    # Usual data has a single label and no pairs, and its entry stays short.
    if len(data.label_names) != 1:
        described["labels"] = list(data.label_names)
    if data.pairs is not None:
        described["pairs"] = len(data.pairs)
    return described


def _plain(value: Any) -> Any:
    """Turn a parameter into values that TOML can hold; entries that are None are left out."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items() if v is not None}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value if isinstance(value, bool | int | float | str) else str(value)


def _json(path: Path) -> dict[str, Any]:
    return json_object(read_plain(path, _MOST_BYTES), path)


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    with replacing(path) as file:
        file.write((json.dumps(value, indent=1) + "\n").encode())
