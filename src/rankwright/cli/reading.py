"""Read data, runs and models in the same way for all commands."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from rankwright.cli.options import Given
from rankwright.support.checks import ArgumentError

if TYPE_CHECKING:
    from rankwright import Ranker, RankingData


class DataFile:
    """A data file that is read only once for each set of options.

    Parameters
    ----------
    path
        The file.
    reading
        Options of `read_data` that the user gave. They override the options of a run.
    base_score
        The column of base scores, if the user named it.
    """

    def __init__(self, path: Path, reading: Given, base_score: str | None = None) -> None:
        # Arguments in the wrong order are a common mistake, and the formats' errors do not explain it.
        if (path / "manifest.json").exists():
            raise ValueError(
                f"{path} is a run or a saved model, not data; give the run first, then the data."
            )
        self.path = path
        self.base_score = base_score
        self._given = reading
        self._cache: dict[str, RankingData] = {}

    def read(self, **options: Any) -> RankingData:
        """Read the file with these options, unless the user gave others."""
        from rankwright.data.formats import check_column_options
        from rankwright.data.reading import read_data

        check_column_options(self.path, self._given)
        options |= self._given
        if options.get("drop"):
            # A field that the command needs is kept even if the training dropped its column.
            fields = options.get("fields", ())
            options["drop"] = [name for name in options["drop"] if name not in fields]
        # Models with the same columns and options share the rows, for example in `compare`.
        key = repr(sorted(options.items()))
        if key not in self._cache:
            with warnings.catch_warnings():
                # Python shows a warning once. We show for every file how its columns are matched.
                warnings.simplefilter("always")
                self._cache[key] = read_data(self.path, **options)
        data = self._cache[key]
        self._check_fields(data)
        return data

    def _check_fields(self, data: RankingData) -> None:
        """Raise ArgumentError if a table lacks a column that the user named for a field."""
        from rankwright.data.formats.contract import NAMED_FIELDS

        # LETOR text has no columns; its document ids come from comments.
        is_letor = data.first_index is not None or not data.named
        for option in NAMED_FIELDS:
            name = self._given.get(option)
            if name is not None and option not in data.fields and not is_letor:
                raise no_column(self.path, name, option)


def training_queries(path: Path | None, reading: Given) -> DataFile | None:
    """Return the file of --train, which is read like the data."""
    return None if path is None else DataFile(path, reading)


def no_column(path: Path, name: str, argument: str) -> ArgumentError:
    """Return an error about a column that a file does not have."""
    problem = f"{path} has no column {name!r};"
    return ArgumentError(argument, "must name one of its columns.", problem=problem)


@dataclass(frozen=True)
class Trained:
    """A model, and how its training data was read as far as that is known.

    Parameters
    ----------
    ranker
        The model.
    reading
        Options of `read_data`.
    """

    ranker: Ranker
    reading: Given

    def rows(self, file: DataFile, *, fields: Sequence[str] = (), **options: Any) -> RankingData:
        """Read data like the training data, with further fields, and match it to the model's columns.

        The base scores are read too, if the model starts from them or the user names their column.
        """
        reading = self.reading | options
        if options.get("labelled") is False:
            # Weights belong to labels: new data for predictions need not have either.
            reading.pop("weight", None)
        name = self.ranker.model_.base_score or file.base_score
        column = file.base_score or name
        fields = [*fields, *base_fields(file.path, column, self.ranker.columns_.feature_names)]
        if fields:
            reading["fields"] = [*reading.get("fields", ()), *fields]
        data = file.read(**reading, reference=self.ranker.columns_)
        if name is None:
            return data
        from rankwright.data.base_score import with_base_score

        return with_base_score(data, name, column)


def base_fields(path: Path, column: str | None, features: Sequence[str] = ()) -> list[str]:
    """Return the column of base scores as a field to read; none if it is a feature."""
    from rankwright.data.files import DataFiles
    from rankwright.data.formats import format_of

    if column is None or column in features:
        return []
    # A folder or a pattern has the format of its files.
    file_format = format_of(path) if path.is_file() else DataFiles.of(path).format
    return [column] if file_format.has_columns else []


def load_trained(path: Path) -> Trained:
    """Load a run folder or a saved model."""
    from rankwright.runs import Run, is_run, load_ranker

    if is_run(path):
        run = Run.open(path)
        return Trained(run.ranker, run.reading)
    # A saved model knows some of the options by which its training data was read.
    ranker = load_ranker(path)
    reading: Given = {"label": ranker.label_column_, "qid": ranker.qid_column_}
    if ranker.columns_.first_index == 0:
        reading["zero_based"] = True
    reading["fields"] = ranker.manifest_.get("other_columns") or None
    return Trained(ranker, {name: value for name, value in reading.items() if value is not None})


def is_streamed(choice: bool | None, paths: Sequence[Path]) -> bool:
    """Return whether files are read in blocks: if the user says so, or if they are many or large."""
    from rankwright.data.files import rows_in_memory
    from rankwright.data.formats import format_of
    from rankwright.support.environment import memory_bytes

    # Several files are a sign of much data, and only the reader of blocks takes them.
    if any(_names_several_files(path) for path in paths):
        if choice is False:
            raise typer.BadParameter(
                "a folder or pattern is read in blocks; leave out --in-memory, or give one file."
            )
        return True
    if choice is not None:
        return choice
    if not all(format_of(path).in_blocks for path in paths):
        return False
    # Training needs more memory than the rows alone, so a quarter is the limit. If the size of the
    # memory is not known, it is 0 here, and files are read at once.
    return 4 * sum(rows_in_memory(path) for path in paths) > memory_bytes() > 0


def _names_several_files(path: Path) -> bool:
    is_pattern = any(sign in str(path) for sign in "*?[")
    return not path.is_file() and (path.is_dir() or is_pattern)
