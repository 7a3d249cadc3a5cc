"""The model that is served, and its replacement while requests are under way.

A request takes `ModelHolder.current` once and uses it to its end. A new model is read, checked and
warmed up in a thread; then one assignment puts it in place. So no request is dropped, and no
request sees two models.
"""

from __future__ import annotations

import hashlib
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwright.model import Model, Prepared, load
from rankwright.serve.refusals import Refusal
from rankwright.serve.requests import ColumnTable, Query

_DIGITS = 12  # of the hash of the trees, by which clients recognise a model
_TIMINGS = 5
# Entries of the manifest on which answers depend, beside the trees.
_ANSWERS = (
    *("feature_names", "categories", "named", "first_index"),
    *("within_query", "base_score", "linear_start", "calibration"),
)
_ROWS_TO_WARM_UP = (1, 1000, *[100] * (1 + _TIMINGS))  # the last ones are timed

Fingerprint = tuple[tuple[str, int, int, int], ...]


class ServedModel:
    """A model that is ready to score."""

    def __init__(self, model: Model, fingerprint: Fingerprint) -> None:
        self.model = model
        self.fingerprint = fingerprint
        # Requests have the base score of a document as a further column, unless it is a feature.
        self.columns = model.columns
        features, start = model.columns.feature_names, model.base_score
        if start is not None and start not in features:
            self.columns = replace(model.columns, feature_names=[*features, start])
        self.table = ColumnTable(self.columns)
        self.version = hashlib.sha256(model.forest.dump()).hexdigest()[:_DIGITS]
        self.loaded_at = time.time()
        self.seconds_per_row = 0.0

    def warm_up(self) -> None:
        """Compile the kernels, or read them from their cache, and measure how long a row takes."""
        seconds = []
        for n_rows in _ROWS_TO_WARM_UP:
            rows = np.zeros((n_rows, len(self.table.names)))
            start = time.perf_counter()
            self.model.scores(self._prepare(rows))
            seconds.append((time.perf_counter() - start) / n_rows)
        self.seconds_per_row = min(seconds[-_TIMINGS:])

    def rank(self, query: Query) -> dict[str, Any]:
        """Return the documents by descending score; equal scores keep the order of the request."""
        calibration = self.model.calibration
        if query.calibrated and calibration is None:
            raise Refusal(
                422,
                "the model is not calibrated; leave out calibrated, or calibrate the model first.",
            )
        answer: dict[str, Any] = {"model": self.version, "results": []}
        if not len(query.matrix):
            return answer
        try:
            rows = self._prepare(query.matrix, by_column=query.contributions)
            scores = self.model.scores(rows)
        except ValueError as error:
            # The values have the form of the model's columns, and the model refuses them.
            raise Refusal(422, str(error)) from None
        if query.scores:
            answer["scores"] = scores.tolist()
        best = np.argsort(-scores, kind="stable")[: query.top]
        answer["results"] = results = [
            {"id": query.ids[number], "score": score}
            for number, score in zip(best.tolist(), scores[best].tolist(), strict=True)
        ]
        if query.calibrated and calibration is not None:
            for result, value in zip(results, calibration(scores[best]).tolist(), strict=True):
                result["calibrated"] = value
        if query.contributions:
            contributions = self.model.contributions(rows.take(best))
            answer["expected_score"] = float(contributions[0, -1])
            for result, values in zip(results, contributions[:, :-1].tolist(), strict=True):
                names = self.model.score_parts
                result["contributions"] = dict(zip(names, values, strict=True))
        return answer

    def _prepare(self, matrix: NDArray[np.float64], by_column: bool = False) -> Prepared:
        """Return rows as the trees see them, and their base scores. A request is one query."""
        group = [len(matrix)] if self.model.needs_queries else None
        n_features, base = len(self.model.columns.feature_names), None
        if matrix.shape[1] > n_features:
            matrix, base = matrix[:, :n_features], matrix[:, n_features]
        return self.model.prepare(
            matrix, group=group, base_score=base, by_column=by_column, threads=1
        )

    def answers_as(self, reference: ServedModel) -> bool:
        """Return True if the reference gives the same answers."""
        mine, other = self.model.manifest, reference.model.manifest
        same = all(mine.get(entry) == other.get(entry) for entry in _ANSWERS)
        return same and self.version == reference.version

    def describe(self) -> dict[str, Any]:
        """Return the answer of ``/model``: the columns that clients send, and the version."""
        calibration = self.model.calibration
        return {
            "model": self.version,
            "trees": self.model.n_trees,
            "engine": self.model.manifest["engine"]["name"],
            "loaded_at": self.loaded_at,
            "features": self.table.names,
            "within_query": self.model.recipe.names,
            "base_score": self.model.base_score,
            "linear_start": self.model.linear is not None,
            "categories": self.model.columns.categories,
            "calibration": None if calibration is None else calibration.describe(),
        }


class ModelHolder:
    """The current model of a folder. Only one thread at a time reloads it.

    Parameters
    ----------
    path
        Run folder or saved model, or a link to it, which may be changed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._turn = threading.Lock()
        self._refused: Fingerprint | None = None
        self.current = self._read()
        self.ready = False

    def warm_up(self) -> None:
        """Prepare the first model, and allow its use."""
        self.current.warm_up()
        self.ready = True

    def has_news(self) -> bool:
        """Return True if the files have changed since they were read last, with or without success."""
        seen = fingerprint(self.path)
        return bool(seen) and seen not in (self.current.fingerprint, self._refused)

    def reload(self) -> bool:
        """Read the files again, and return True if they hold another model, which is served from now on.

        Raise ValueError or OSError, and keep the current model, if the new model cannot be read or
        has other columns: clients that send rows would get scores of mixed-up columns.
        """
        with self._turn:
            seen = fingerprint(self.path)
            try:
                model = self._read()
                if model.table.names != self.current.table.names:
                    raise ValueError(
                        f"{self.path}: the new model has other columns than the one that is "
                        "served. Start another service for it, because clients must change what "
                        "they send."
                    )
                # Files may be written again with the same model, for example by a backup.
                if model.answers_as(self.current):
                    self.current.fingerprint = seen
                    return False
                model.warm_up()
            except (ValueError, OSError):
                self._refused = seen
                raise
            self.current = model
            self._refused = None
            return True

    def _read(self) -> ServedModel:
        # Before reading, so that files that change meanwhile are read again.
        seen = fingerprint(self.path)
        return ServedModel(load(self.path), seen)


def fingerprint(path: Path) -> Fingerprint:
    """Return name, place, size and time of the files of a model. Without files it is empty."""
    folder = path / "model" if (path / "model").is_dir() else path
    try:
        files = sorted(folder.iterdir()) if folder.is_dir() else [folder]
        states = [(file.name, file.stat()) for file in files if file.is_file()]
    except OSError:  # replaced at this moment
        return ()
    return tuple((name, state.st_ino, state.st_size, state.st_mtime_ns) for name, state in states)
