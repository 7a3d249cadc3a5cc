"""Score and evaluate systems on a data file: run folders, saved models, TREC run files, columns and their fusions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from rankwright.cli.options import Given
from rankwright.cli.reading import DataFile, Trained, load_trained, no_column
from rankwright.support.checks import ArgumentError

if TYPE_CHECKING:
    from rankwright import Evaluation, RankingData

# How a command shows the systems that it takes.
_OTHERS = "TREC run files, column:bm25, rrf:bm25,dense or linear:bm25,dense"
SYSTEMS = f"run folders, saved models, {_OTHERS}"
REPORTED = f"run folders, {_OTHERS}"
# Options of a run by which the rows of other systems are read too. Its features do not matter to them.
_SHARED = ("label", "qid", "weight", "docid", "query_text", "time", "zero_based")


class Systems:
    """The systems of a command, and the data that they are scored on.

    Systems without a model take the names of columns, such as label and qid, from the first run among them.

    Parameters
    ----------
    texts
        The systems as the user wrote them.
    data
        The data.
    train
        Training queries for the weights of ``linear:``.
    metric
        The metric that these weights maximise.
    """

    def __init__(
        self,
        texts: Sequence[str],
        data: DataFile,
        *,
        train: DataFile | None = None,
        metric: str = "ndcg@10",
    ) -> None:
        self.data = data
        self._train = train
        self._metric = metric
        self._models: dict[str, Trained] = {
            text: load_trained(Path(text)) for text in texts if is_model(text)
        }
        self._others = {text: self._open(text) for text in texts if text not in self._models}

    def evaluate(self, text: str, **options: Any) -> Evaluation:
        """Evaluate a system on the data or on TREC qrels; ``options`` are the options of `rankwright.evaluate`."""
        import rankwright as rw

        if text in self._others and _is_qrels(self.data.path):
            # Qrels have no columns, so only a run file can be evaluated with them.
            run = getattr(self._others[text], "run", None)
            if run is None:
                raise ValueError(
                    f"{self.data.path} has judgments and no columns; give data for {text}."
                )
            qrels = rw.read_qrels(self.data.path)
            scores, labels, qid = rw.align(run, qrels, unjudged=float("nan"))
            return rw.evaluate(scores, labels, qid=qid, **options)
        scores, rows = self.score(text)
        return rw.evaluate(scores, rows.labels, qid=rows.qid, sample_weight=rows.weights, **options)

    def evaluate_base_score(self, text: str, **options: Any) -> Evaluation | None:
        """Evaluate the scores that a model starts from, or the column that the user names; None without."""
        name = self.data.base_score
        if name is None and text in self._models:
            name = self._models[text].ranker.model_.base_score
        if name is None:
            return None
        column = f"column:{name}"
        self._others[column] = self._open(column)
        return self.evaluate(column, **options)

    def score(
        self, text: str, *, document: str | None = None, **reading: Any
    ) -> tuple[Any, RankingData]:
        """Return the scores of a system and the rows of the data, with the column ``document`` as a field."""
        fields = [] if document is None else [document]
        if text in self._models:
            model = self._models[text]
            rows = model.rows(self.data, fields=fields, **reading)
            scores = model.ranker.predict(rows)
        else:
            rows = self.rows(self.data, [text], fields, **reading)
            scores = self.fitted(text).predict(rows)
        if document is not None and document not in rows.fields:
            raise no_column(self.data.path, document, "document")
        return scores, rows

    def fitted(self, text: str) -> Any:
        """Return a system without a model; weights of ``linear:`` are chosen on the training queries."""
        system = self._others[text]
        if getattr(system, "weights_", ()) is not None:
            return system
        if self._train is None:
            weights = text.replace(",", "=1,") + "=1"
            raise typer.BadParameter(
                f"{text} needs training queries for its weights; give them with --train, or write "
                f"the weights: {weights}."
            )
        return system.fit(self.rows(self._train, [text]))

    def rows(
        self, file: DataFile, texts: Sequence[str], fields: Sequence[str] = (), **reading: Any
    ) -> RankingData:
        """Read the rows of a file with the columns that systems without a model rank by."""
        from rankwright.data.formats import format_of

        shared = {name: value for name, value in self.reading.items() if name in _SHARED}
        if reading.get("labelled") is False:
            shared.pop("weight", None)
        columns = self.columns(texts)
        # The columns of LETOR text have no names, so all features are read.
        has_names = format_of(file.path).has_columns
        wanted = [*fields, *columns] if has_names else list(fields)
        try:
            return file.read(
                **shared | reading, fields=wanted, features=bool(columns) and not has_names
            )
        except ArgumentError as error:
            # The name of the column is part of a system, not of an option.
            if error.argument != "fields":
                raise
            raise ValueError(error.problem) from None

    def columns(self, texts: Sequence[str]) -> list[str]:
        """Return the columns that systems without a model rank by."""
        names: list[str] = []
        for text in texts:
            names += getattr(self._others.get(text), "columns", ())
        return list(dict.fromkeys(names))

    @property
    def reading(self) -> Given:
        """Options by which the first run among the systems read its training data."""
        for model in self._models.values():
            return model.reading
        return {}

    def _open(self, text: str) -> Any:
        """Read a system without a model."""
        import rankwright as rw
        from rankwright.evaluation.systems import RunFile, read_system

        system = read_system(text, self._metric)
        if system is not None:
            return system
        if ":" in text and not Path(text).exists():
            raise typer.BadParameter(f"{text}: there is no file of this name; give {SYSTEMS}.")
        return RunFile(rw.read_trec_run(text), Path(text).name)


def is_model(text: str) -> bool:
    """Return True if a system is a run folder or a saved model."""
    path = Path(text)
    return path.is_dir() or path.suffix == ".zip"


def _is_qrels(path: Path) -> bool:
    """Return whether the first line of a text file is a line of TREC qrels, and not of LETOR text."""
    from rankwright.data.formats import TABLE_SUFFIXES
    from rankwright.support.files import read_text

    # Qrels are plain text, and the first line of a table cannot always be read as text.
    if set(TABLE_SUFFIXES) & set(path.suffixes):
        return False
    words = read_text(path).split(b"\n", 1)[0].split()
    return len(words) == 4 and not words[1].startswith(b"qid:")
