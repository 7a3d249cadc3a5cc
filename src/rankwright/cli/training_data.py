"""The files that ``train`` reads: in memory, in blocks, or by the workers of a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from rankwright.cli.options import Given
from rankwright.cli.reading import base_fields

if TYPE_CHECKING:
    from rankwright import RankingData
    from rankwright.data.files import DataFiles


@dataclass(frozen=True)
class TrainingFiles:
    """Training and validation data in files.

    Parameters
    ----------
    data, valid
        The files.
    given
        Options of `read_data`.
    pairs, document
        File with preferences, and the column of ids that it names documents by.
    click_columns
        Columns about clicks, to be fields of the data.
    base_score
        Column of the scores to start from; a field of the data if it is not LETOR text.
    """

    data: Path
    valid: Path | None
    given: Given
    pairs: Path | None
    document: str | None
    click_columns: list[str]
    base_score: str | None = None

    @cached_property
    def paths(self) -> dict[str, Path]:
        """The files by their part in the training."""
        if self.valid is None:
            return {"train": self.data}
        return {"train": self.data, "valid": self.valid}

    @property
    def reading(self) -> Given:
        """Options of `read_data`, with the columns about clicks and the base scores as fields."""
        reading = dict(self.given)
        fields = [*self.click_columns, *self._base_fields]
        if fields:
            reading["fields"] = fields
        return reading

    @property
    def _base_fields(self) -> list[str]:
        return base_fields(self.data, self.base_score)

    @property
    def recorded_reading(self) -> Given:
        """The options that a run records, to read other data in the same way."""
        if self.document is None:
            return self.reading
        # The column of ids is no feature, so other data has to keep it apart too.
        return self.reading | {"fields": [self.document, *self._base_fields]}

    def read(self) -> list[RankingData]:
        """Read all files into memory."""
        from rankwright.data.reading import read_parts

        return read_parts(
            list(self.paths.values()), pairs=self.pairs, document=self.document, **self.reading
        )

    def stream(self, *, with_clicks_of_valid: bool, verbose: int) -> list[RankingData]:
        """Read all files but the features, which training reads in blocks."""
        from rankwright import stream_data
        from rankwright.data.files import DataFiles
        from rankwright.training.progress import ReadingBar

        names = dict(self.given)
        # Ids and texts of queries are not used in training, and they are no features.
        dropped = list(names.pop("drop", ()))
        dropped += [names.pop(option) for option in ("docid", "query_text") if option in names]
        fields = [*self.click_columns, *self._base_fields]
        time = names.pop("time", None)
        fields += [name for name in (self.document, time) if name is not None]
        bar = ReadingBar(verbose)
        # A wrong path is an error before the first file is read, because that may take long.
        for path in self.paths.values():
            _ = DataFiles.of(path).files
        train = stream_data(self.data, **names, drop=dropped, fields=fields, show=bar)
        if time is not None:
            train = train.with_fields({"time": train.fields[time]})
        parts = [train]
        if self.pairs is not None:
            parts = [train.with_pairs(self.pairs, self.document, as_given=True)]
        if self.valid is not None:
            # Validation by labels needs no clicks, and such data often has no columns about them.
            of_valid = list(self._base_fields)
            if with_clicks_of_valid:
                of_valid += self.click_columns
            dropped += [name for name in fields if name not in of_valid]
            parts.append(
                stream_data(
                    self.valid, **names, drop=dropped, fields=of_valid, reference=train, show=bar
                )
            )
        return parts

    def for_workers(self) -> list[DataFiles]:
        """Return the Parquet files, which only the workers read."""
        from rankwright.data.files import DataFiles

        if "zero_based" in self.reading:
            raise typer.BadParameter(
                "--zero-based and --one-based are for LETOR text, and workers read Parquet files."
            )
        # `DataFiles` cannot be changed after its creation, so it takes tuples instead of lists.
        columns: Given = {}
        for name, value in self.reading.items():
            columns[name] = tuple(value) if isinstance(value, list) else value
        return [DataFiles(str(path), **columns) for path in self.paths.values()]
