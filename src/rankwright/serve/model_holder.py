"""The model that is served, and its replacement while requests are under way.

A request takes `ModelHolder.current` once and uses it to its end. A new model is read, checked and warmed up in a
thread; then one assignment puts it in place. So no request is dropped, and none sees two models.
"""

from __future__ import annotations

import hashlib
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.model import Model, load
from rankwright.serve.refusals import Refusal
from rankwright.serve.requests import ColumnTable, Query

_DIGITS = 12  # of the hash of the trees, which tells models apart
_ROWS_TO_WARM_UP = (1, 1000, 100)
_TIMINGS = 5

Fingerprint = tuple[tuple[str, int, int, int], ...]


class ServedModel:
    """A model that is ready to score."""

    def __init__(self, model: Model, fingerprint: Fingerprint) -> None:
        self.model = model
        self.fingerprint = fingerprint
        self.table = ColumnTable(model.columns)
        self.version = hashlib.sha256(model.forest.dump()).hexdigest()[:_DIGITS]
        self.loaded_at = time.time()
        self.seconds_per_row = 0.0

    def warm_up(self) -> None:
        """Compile the kernels, or read them from their cache, and measure how long a row takes."""
        seconds = []
        for n_rows in (*_ROWS_TO_WARM_UP, *_ROWS_TO_WARM_UP[-1:] * _TIMINGS):
            rows = np.zeros((n_rows, len(self.table.names)))
            start = time.perf_counter()
            self.model.predict(rows, group=self._one_query(rows), threads=1)
            seconds.append((time.perf_counter() - start) / n_rows)
        self.seconds_per_row = min(seconds[-_TIMINGS:])

    def rank(self, query: Query) -> dict[str, Any]:
        """Score a query and return the answer: documents by descending score, ties in the order of the request."""
        calibration = self.model.calibration
        if query.calibrated and calibration is None:
            raise Refusal(
                422,
                "the model is not calibrated; leave out calibrated, or calibrate the model first.",
            )
        scores = self._scores(query.matrix)
        order = np.argsort(-scores, kind="stable")[: query.top]
        numbers = order.tolist()
        results: list[dict[str, Any]] = [
            {"id": query.ids[number], "score": score}
            for number, score in zip(numbers, scores[order].tolist(), strict=True)
        ]
        answer: dict[str, Any] = {"model": self.version, "results": results}
        if query.calibrated and calibration is not None:
            for result, value in zip(results, calibration(scores[order]).tolist(), strict=True):
                result["calibrated"] = value
        if query.contributions and results:
            values = self._contributions(query.matrix, order)
            answer["expected_score"] = float(values[0, -1])
            for result, row in zip(results, values[:, :-1].tolist(), strict=True):
                result["contributions"] = dict(zip(self.model.feature_names, row, strict=True))
        return answer

    def _scores(self, matrix: NDArray[np.float64]) -> NDArray[np.float64]:
        if not len(matrix):
            return np.empty(0)
        try:
            return self.model.predict(matrix, group=self._one_query(matrix), threads=1)
        except (
            ValueError
        ) as error:  # the model's own refusals; those of a request's form come first
            raise Refusal(422, str(error)) from None

    def _contributions(
        self, matrix: NDArray[np.float64], chosen: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        rows = self.model.encode(matrix, group=self._one_query(matrix), threads=1)[chosen]
        return self.model.forest.contributions(rows, threads=1)

    def _one_query(self, matrix: NDArray[np.float64]) -> list[int] | None:
        """The rows of a request are one query, which matters to models with features within the query."""
        return [len(matrix)] if self.model.recipe else None

    def describe(self) -> dict[str, Any]:
        """Return what clients need to know of the model."""
        categories, calibration = self.model.columns.categories, self.model.calibration
        return {
            "model": self.version,
            "trees": self.model.n_trees,
            "engine": self.model.manifest["engine"]["name"],
            "loaded_at": self.loaded_at,
            "features": self.table.names,
            "within_query": self.model.recipe.names,
            "categories": {
                name: None if levels is None else list(levels)
                for name, levels in categories.items()
            },
            "calibration": None if calibration is None else calibration.describe(),
        }


class ModelHolder:
    """The current model of a folder; `reload` is for one thread at a time and waits for its turn.

    Parameters
    ----------
    path
        Run folder or saved model. It may be a link that is changed to point to another.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._turn = threading.Lock()
        self._refused: Fingerprint | None = None
        self.current = self._read()
        self.ready = False

    def warm_up(self) -> None:
        """Prepare the first model; it may be used from then on."""
        self.current.warm_up()
        self.ready = True

    def has_news(self) -> bool:
        """Tell whether the files have changed since the current model, or one that was refused, was read."""
        seen = fingerprint(self.path)
        return bool(seen) and seen not in (self.current.fingerprint, self._refused)

    def reload(self) -> bool:
        """Read the files again; True if they hold another model, which has then taken its place.

        Raises ValueError or OSError, and keeps the current model, if the new one cannot be read or has other columns:
        clients that send rows would get scores of mixed-up columns.
        """
        with self._turn:
            seen = fingerprint(self.path)
            try:
                new = self._read()
                old = self.current
                if new.table.names != old.table.names:
                    raise ValueError(
                        f"{self.path}: the new model has other columns than the one that is served. Start another "
                        "service for it, because clients must change what they send."
                    )
                same = (
                    new.model.columns == old.model.columns and new.model.recipe == old.model.recipe
                )
                same &= new.model.manifest.get("calibration") == old.model.manifest.get(
                    "calibration"
                )
                if new.version == old.version and same:
                    old.fingerprint = seen
                    return False
                new.warm_up()
            except (ValueError, OSError):
                self._refused = seen
                raise
            self.current = new
            self._refused = None
            return True

    def _read(self) -> ServedModel:
        seen = fingerprint(self.path)  # before reading: files that change meanwhile are read again
        return ServedModel(load(self.path), seen)


def fingerprint(path: Path) -> Fingerprint:
    """Return name, place, size and time of the files of a model; empty while there is none."""
    folder = path / "model" if (path / "model").is_dir() else path
    try:
        files = sorted(folder.iterdir()) if folder.is_dir() else [folder]
        states = [(file.name, file.stat()) for file in files if file.is_file()]
    except OSError:  # replaced at this moment
        return ()
    return tuple((name, state.st_ino, state.st_size, state.st_mtime_ns) for name, state in states)
