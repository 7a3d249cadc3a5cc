"""Rankers in MLflow: log them, and load them as rankers or as its generic Python functions.

Examples
--------
>>> import tempfile
>>> import rankwright as rw
>>> train, test = rw.make_web_search(40, n_features=20, random_state=1).split(0.3)
>>> ranker = rw.Ranker(n_estimators=5, verbose=0).fit(train)
>>> with tempfile.TemporaryDirectory() as folder:
...     rw.mlflow.save_model(ranker, folder + "/saved")
...     again = rw.mlflow.load_model(folder + "/saved")
>>> bool((again.predict(test) == ranker.predict(test)).all())
True
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankwright import __version__
from rankwright.model import Model, load
from rankwright.support.files import PathLike

if TYPE_CHECKING:
    from rankwright.ranker import Ranker
    from rankwright.training.state import Progress

__all__ = ["load_model", "log_model", "log_progress", "save_model"]


class Scorer:
    """The Python function of MLflow: ``predict`` takes a data frame and returns its scores.

    A model that compares the documents of a query finds them by the query column of its training
    data. Other columns that are not features are ignored, as in `Model.predict`.
    """

    def __init__(self, model: Model) -> None:
        self._model = model

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> Any:
        """Return the score of each row; there are no ``params``."""
        return self._model.predict(model_input)


def log_model(ranker: Ranker | Model, name: str = "model", **options: Any) -> Any:
    """Log a ranker to the active run, and return MLflow's description of the logged model.

    Parameters
    ----------
    ranker
        A fitted `Ranker`, or a `Model`.
    name
        Name of the logged model.
    options
        Further arguments of ``mlflow.pyfunc.log_model``, for example ``input_example`` or
        ``registered_model_name``.
    """
    with _saved(ranker, options) as arguments:
        return _library("mlflow.pyfunc").log_model(name=name, **arguments)


def save_model(ranker: Ranker | Model, path: PathLike, **options: Any) -> None:
    """Write a ranker to a new folder in MLflow's format; `log_model` describes the arguments."""
    with _saved(ranker, options) as arguments:
        _library("mlflow.pyfunc").save_model(path=str(path), **arguments)


def load_model(model_uri: PathLike) -> Ranker:
    """Return a logged or saved ranker, by its address or folder.

    ``mlflow.pyfunc.load_model`` gives the Python function instead.
    """
    from rankwright.ranker import Ranker

    local = _library("mlflow.artifacts").download_artifacts(artifact_uri=str(model_uri))
    flavours = _library("mlflow.models").Model.load(local).flavors
    return Ranker.load(Path(local) / flavours["python_function"]["data"])


def log_progress(progress: Progress) -> None:
    """Log the metrics after each tree to the active run: a function for ``fit(callbacks=[...])``."""
    for number, curves in enumerate(progress.history):
        # MLflow allows no @ in the name of a metric.
        latest = {
            f"valid_{number}.{name.replace('@', '_at_')}": curve[-1]
            for name, curve in curves.items()
        }
        _library("mlflow").log_metrics(latest, step=progress.iteration)


def _load_pyfunc(path: str) -> Scorer:
    """Return the Python function. MLflow calls this by its name, with the folder of the model."""
    return Scorer(load(path))


@contextmanager
def _saved(ranker: Ranker | Model, options: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Save a ranker to a folder that MLflow copies, and yield MLflow's arguments."""
    _library("mlflow")
    defaults = {"pip_requirements": [f"rankwright=={__version__}"]}
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "ranker"
        ranker.save(model)
        yield {**defaults, **options, "loader_module": __name__, "data_path": str(model)}


def _library(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        raise ImportError(
            'rankwright.mlflow needs MLflow, which is not installed: pip install "rankwright[mlflow]".'
        ) from None
