"""Run folders: a model with its provenance.

A run folder holds

    model/            the model, as `Ranker.save` writes it
    manifest.json     status, data (path, sizes, fingerprint) and how it was read, times, versions
    config.toml       the parameters of the Ranker
    metrics.jsonl     metrics after each iteration, one line each
    log.txt           what happened when
    environment.json  Python, packages and machine
    checkpoint/       during training: the state to resume from

The folder is created in one step, and each file is replaced in one step, except the metrics and the log, which grow.
Training that was killed resumes from its checkpoint as if nothing had happened, and so do the metrics.
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

from rankwright.data.dataset import RankingData
from rankwright.persistence import has_model
from rankwright.run_history import LOG, METRICS, Recorder, now, read_history
from rankwright.support.environment import environment
from rankwright.support.files import PathLike, part_of, read_plain, remove_parts, replacing
from rankwright.support.locks import locked_folder

if TYPE_CHECKING:
    from rankwright.data.files import DataFiles
    from rankwright.ranker import Ranker

RUN_VERSION = 1
_MANIFEST, _CONFIG, _ENVIRONMENT = "manifest.json", "config.toml", "environment.json"
_MODEL, _CHECKPOINT = "model", "checkpoint"
_OURS = (
    _MODEL,
    _CHECKPOINT,
    METRICS,
    LOG,
    _CONFIG,
    _ENVIRONMENT,
    _MANIFEST,
)  # the manifest goes last
_FREE = ("n_jobs", "verbose", "checkpoint")  # parameters that do not change the model
_READING = (
    "label",
    "qid",
    "weight",
    "drop",
    "categorical",
    "fields",
    "docid",
    "query_text",
    "zero_based",
)
_MOST_BYTES = 1 << 26
_LONG_KEY = re.compile(
    r"""(?<![\w"'-])(?:[\w"'-]++\s*+\.\s*+){100}"""
)  # reading one takes time with its square
_PACKAGES = (
    "rankwright",
    "numpy",
    "scipy",
    "numba",
    "lightgbm",
    "scikit-learn",
    "pyarrow",
    "narwhals",
)


class Run:
    """A run folder that was opened to read; `Run.open` checks it first.

    Attributes
    ----------
    path : Path
        The folder.
    name : str
        Its name.
    manifest : dict
        Status, data, times and versions; ``manifest["status"]`` is ``"training"``, ``"interrupted"`` or ``"finished"``.
    config : dict
        Parameters of the Ranker, and under ``"clicks"`` the arguments of ``fit`` about them.
    history : list of dict
        One per iteration: ``{"iteration": 1, "seconds": 0.1, "train": {"ndcg@10": 0.4}, "valid": {"ndcg@10": 0.3}}``;
        ``"valid"`` only where there was validation data, ``"train"`` unless weights differ within a query. Seconds
        count from the start of training; None where a crash lost them.
    environment : dict
        Python, packages and machine.
    times : dict
        Seconds of each phase: ``"read"``, ``"gradients"``, ``"trees"``, ``"leaves"``, ``"evaluation"``, ``"write"``.
    ranker : Ranker
        The model, read on first use.

    Examples
    --------
    >>> import tempfile
    >>> from rankwright import make_web_search
    >>> train, valid = make_web_search(30, seed=1).split(0.3)
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
        """Open a run folder; anything else, and one of a newer version, is refused with the reason."""
        folder = Path(path)
        if not folder.exists():
            raise FileNotFoundError(f"there is no run folder at {folder}.")
        if not is_run(folder):
            raise ValueError(
                f"{folder} is not a run folder: it has no {_MANIFEST} of one. Make one with train_run."
            )
        manifest = _json(folder / _MANIFEST)
        written = manifest.get("run_version")
        if not isinstance(written, int) or written < 1:
            raise ValueError(
                f"{folder / _MANIFEST}: run_version is {written!r}, not a number from 1; it was damaged."
            )
        if written > RUN_VERSION:
            raise ValueError(
                f"{folder} was written by a newer version, rankwright {manifest.get('rankwright', '?')} (run format "
                f"{written}; this one reads up to {RUN_VERSION}). Upgrade rankwright to use it."
            )
        _check_manifest(folder / _MANIFEST, manifest)
        return cls(folder, manifest)

    @classmethod
    def find(cls, path: PathLike) -> Run | None:
        """Open the run folder at a path where one may be created; None if there is nothing yet."""
        folder = Path(path)
        if folder.is_dir() and not is_run(folder) and any(folder.iterdir()):
            raise ValueError(
                f"{folder} holds files that are not a run's; choose another folder for the run."
            )
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"{folder} is a file; a run is a folder. Choose another name.")
        return cls.open(folder) if is_run(folder) else None

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
    """Raise ValueError where an entry that is used is not of its type; other entries are only shown."""
    described = manifest.get("data", {})
    times = manifest.get("times", {})
    checks = {
        "status": manifest.get("status", "training") in ("training", "interrupted", "finished"),
        "data": isinstance(described, dict)
        and all(isinstance(part, dict) for part in described.values()),
        "reading": _is_reading(manifest.get("reading", {})),
        "times": isinstance(times, dict)
        and all(type(value) in (int, float) for value in times.values()),
        "iterations": type(manifest.get("iterations", 0)) is int,
        "best_iteration": type(manifest.get("best_iteration", 0)) is int,
        "metrics": _is_texts(manifest.get("metrics", [])),
    }
    for name, valid in checks.items():
        if not valid:
            raise ValueError(
                f"{path}: {name} is {str(manifest.get(name))[:60]!r}, which no run has; it was damaged."
            )


def _is_texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def _is_reading(options: Any) -> bool:
    """Tell whether these can be keyword arguments of `read_data`."""
    return isinstance(options, dict) and all(
        isinstance(value, bool)
        if name == "zero_based"
        else isinstance(value, str) or _is_texts(value)
        for name, value in options.items()
    )


def is_run(path: PathLike) -> bool:
    """Tell whether a folder is a run folder, of whichever version, even a damaged one."""
    folder = Path(path)
    try:
        return "run_version" in _json(folder / _MANIFEST)
    except OSError:
        return False
    except ValueError:
        return (folder / _CONFIG).exists()


def load_ranker(path: PathLike) -> Ranker:
    """Read the model of a run folder, or a model that `Ranker.save` wrote."""
    from rankwright.ranker import Ranker

    return Run.open(path).ranker if is_run(path) else Ranker.load(path)


def train_run(
    path: PathLike,
    train: RankingData | DataFiles,
    valid: RankingData | DataFiles | None = None,
    *,
    parameters: Mapping[str, Any],
    clicks: Mapping[str, Any] | None = None,
    sources: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    verbose: int = 1,
    cluster: Any = None,
) -> Run:
    """Train a Ranker in a run folder, or resume a training that was interrupted.

    A folder with a finished run of the same parameters and data is returned as it is. Ctrl-C keeps the trees so far
    as a model, and the same call resumes from there. One training at a time uses a folder: another is refused, and
    told which process has it.

    Parameters
    ----------
    path
        The folder: a new one, an empty one, or that of the same training.
    train, valid
        Data; metrics of both are recorded (of ``train`` only if its weights are the same within each query), and early
        stopping watches ``valid``.
    parameters
        Those of `Ranker`. ``checkpoint`` may choose ``trees`` and ``seconds`` between checkpoints, not a path.
    clicks
        Where the labels are clicks: arguments of ``Ranker.fit`` about them, ``position`` for example, which name fields
        of ``train``.
    sources
        What the manifest shall say about where the data came from: ``paths``, ``reading``, ``seconds`` of reading.
    overwrite
        Whether to replace the run that is there; files that are not a run's are never touched.
    verbose
        1 shows progress, 0 nothing.
    cluster
        As for `Ranker.fit`; ``train`` and ``valid`` may then be `rankwright.data.files.DataFiles`.

    Examples
    --------
    >>> import tempfile
    >>> from rankwright import make_web_search
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     data = make_web_search(20, seed=1)
    ...     run = train_run(folder + "/run", data, parameters={"n_estimators": 2, "n_jobs": 1}, verbose=0)
    ...     same = train_run(folder + "/run", data, parameters={"n_estimators": 2, "n_jobs": 1}, verbose=0)
    ...     same.manifest["started"] == run.manifest["started"], run.ranker.best_iteration_
    (True, 2)
    """
    config = run_config(parameters, clicks)
    described = {
        name: _describe(data)
        for name, data in (("train", train), ("valid", valid))
        if data is not None
    }
    with locked_folder(Path(path), "a training"):
        return _train_locked(
            Path(path),
            train,
            valid,
            parameters,
            clicks or {},
            sources,
            overwrite,
            verbose,
            config,
            described,
            cluster,
        )


def _train_locked(
    folder: Path,
    train: RankingData | DataFiles,
    valid: RankingData | DataFiles | None,
    parameters: Mapping[str, Any],
    clicks: Mapping[str, Any],
    sources: Mapping[str, Any] | None,
    overwrite: bool,
    verbose: int,
    config: dict[str, Any],
    described: dict[str, Any],
    cluster: Any,
) -> Run:
    """Train in a folder that no other training uses meanwhile."""
    from rankwright.ranker import Ranker

    remove_parts(folder)
    earlier = Run.find(folder)
    if earlier is not None and overwrite:
        _remove(folder)
        earlier = None
    if earlier is None:
        _create(folder, config, described, dict(sources or {}))
    else:
        check_same(earlier, config, described)
        if earlier.finished:
            return earlier
    chosen = {k: v for k, v in (parameters.get("checkpoint") or {}).items() if k != "path"}
    ranker = Ranker(
        **{**parameters, "checkpoint": {"path": folder / _CHECKPOINT, **chosen}, "verbose": verbose}
    )
    watched = {} if valid is None else {"valid": valid}
    if (
        train.one_weight_per_query and train.labels
    ):  # a mean over queries needs one weight each, and a metric labels
        watched["train"] = train
    recorder = Recorder(folder, list(watched))
    with _remove_on_failure(folder):
        recorder.log("training starts" if earlier is None else "training resumes")
        ranker.fit(
            train, eval_set=list(watched.values()), callbacks=[recorder], cluster=cluster, **clicks
        )
        recorder.complete(ranker)
        began = time.perf_counter()
        ranker.save(folder / _MODEL)
        status = "interrupted" if ranker.interrupted_ else "finished"
        recorder.log(
            f"{status} after {recorder.lines} iterations; the model has {ranker.best_iteration_} trees"
        )
        manifest = _json(folder / _MANIFEST)
        manifest |= {
            "status": status,
            "ended": now(),
            "iterations": recorder.lines,
            "best_iteration": ranker.best_iteration_,
            "objective": str(ranker.objective_),
            "metrics": [str(metric) for metric in ranker.metrics_],
            "seed": ranker.manifest_["seed"],
            "times": {
                "read": float((sources or {}).get("seconds", 0.0)),
                **ranker.times_,
                "write": time.perf_counter() - began,
            },
        }
        _write_json(folder / _MANIFEST, manifest)
    if status == "finished":
        shutil.rmtree(folder / _CHECKPOINT, ignore_errors=True)
    run = Run(folder, manifest)
    run.__dict__["ranker"] = ranker
    return run


def run_config(
    parameters: Mapping[str, Any], clicks: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """All parameters of the Ranker as plain values, those that are None left out; raise where one cannot be used.

    The arguments of ``fit`` about clicks are in a table of their own.
    """
    from rankwright.ranker import Ranker

    chosen = parameters.get("checkpoint")
    if chosen is not None and (not isinstance(chosen, Mapping) or "path" in chosen):
        raise ValueError(
            "a run keeps its checkpoint in its own folder; choose only trees and seconds of checkpoint."
        )
    ranker = Ranker(**{**parameters, "checkpoint": None})
    ranker.check_params()
    if ranker.random_state is None:
        raise ValueError(
            "a run needs a random_state, or it could not be resumed after an interruption; set one."
        )
    config = {
        k: _plain(v)
        for k, v in ranker.get_params(deep=False).items()
        if v is not None and k != "verbose"
    }
    return (
        config
        | ({} if chosen is None else {"checkpoint": dict(chosen)})
        | _click_columns(clicks or {})
    )


def _click_columns(clicks: Mapping[str, Any]) -> dict[str, Any]:
    given = {name: value for name, value in clicks.items() if value is not None}
    for name, value in given.items():
        names = value if isinstance(value, list | tuple) else [value]
        if name in ("position", "propensity") and not all(isinstance(one, str) for one in names):
            raise ValueError(
                f"{name} of a run names fields of the training data, so that it can be resumed."
            )
    return {"clicks": _plain(given)} if given else {}


def read_config(path: PathLike) -> dict[str, Any]:
    """Read a TOML file of parameters, such as the ``config.toml`` of a run."""
    content = read_plain(path, _MOST_BYTES)
    try:
        text = content.decode()
        if _LONG_KEY.search(text):
            raise RecursionError
        return tomllib.loads(text)
    except (
        ValueError
    ) as error:  # also of bytes that are not text, and of numbers of thousands of digits
        raise ValueError(f"{path} is not valid TOML: {str(error).rstrip('.')}.") from None
    except RecursionError:
        raise ValueError(f"{path} is nested too deeply to be read; it was damaged.") from None


def check_same(
    run: Run, config: Mapping[str, Any], described: Mapping[str, Any] | None = None
) -> None:
    """Raise ValueError unless a run has these parameters and, where they are described, these data."""
    ours, theirs = (
        {k: v for k, v in one.items() if k not in _FREE} for one in (run.config, config)
    )
    differing = sorted(k for k in ours.keys() | theirs.keys() if ours.get(k) != theirs.get(k))
    if differing:
        name = differing[0]
        there, here = (repr(one[name]) if name in one else "not set" for one in (ours, theirs))
        raise ValueError(
            f"{run.path} is a run with other parameters ({name} is {there} there and {here} here); choose another "
            "folder, or overwrite it (--force)."
        )
    if described is None:
        return
    recorded = run.manifest.get("data", {})
    for name in ("train", "valid"):
        prints = [one.get(name, {}).get("fingerprint") for one in (recorded, described)]
        if prints[0] != prints[1]:
            raise ValueError(
                f"{run.path} is a run with other {name} data; choose another folder, or overwrite it (--force)."
            )


def _create(
    folder: Path, config: dict[str, Any], described: dict[str, Any], sources: dict[str, Any]
) -> None:
    """Create a run folder beside its place, and move it there in one step."""
    import tomli_w

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
            os.replace(part, folder)
        else:  # empty, or with files of the user's beside a run that was removed
            for name in (one for one in _OURS if (part / one).exists()):
                os.replace(part / name, folder / name)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _remove(folder: Path) -> None:
    """Remove what makes a folder a run folder, and the folder itself if nothing else is in it."""
    for name in _OURS:
        if (folder / name).is_dir():
            shutil.rmtree(folder / name)
        else:
            (folder / name).unlink(missing_ok=True)
    if not any(folder.iterdir()):
        folder.rmdir()


@contextmanager
def _remove_on_failure(folder: Path) -> Iterator[None]:
    """Remove a run that failed before there was anything to resume from."""
    try:
        yield
    except BaseException:
        if not has_model(folder / _CHECKPOINT) and not has_model(folder / _MODEL):
            _remove(folder)
        raise


def _describe(data: Any) -> dict[str, Any]:
    if not hasattr(data, "queries"):  # files, which only workers read
        described: dict[str, Any] = data.description()
        return described
    from rankwright.training.checkpoint import fingerprint

    return {
        "rows": data.n_rows,
        "queries": data.n_queries,
        "features": len(data.feature_names),
        "fingerprint": fingerprint(data),
        **({"labels": list(data.label_names)} if len(data.label_names) != 1 else {}),
        **({} if data.pairs is None else {"pairs": len(data.pairs)}),
    }


def _plain(value: Any) -> Any:
    """Turn a parameter into what TOML can hold."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items() if v is not None}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value if isinstance(value, bool | int | float | str) else str(value)


def _json(path: Path) -> dict[str, Any]:
    content = read_plain(path, _MOST_BYTES)
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        raise ValueError(f"{path} is not valid JSON; it was truncated or damaged.") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path} is not a JSON object; it was damaged.")
    return value


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    with replacing(path) as file:
        file.write((json.dumps(value, indent=1) + "\n").encode())
