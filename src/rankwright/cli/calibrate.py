"""The command ``calibrate``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Option

from rankwright.cli import options
from rankwright.cli.reading import DataFile, load_trained
from rankwright.cli.terminal import echo

if TYPE_CHECKING:
    from rankwright import Ranker

Method = Literal["isotonic", "logistic"]
CalibrationTarget = Literal["label", "relevance"]


@options.with_groups
def calibrate(
    system: options.Model,
    data: Annotated[
        Path, Argument(metavar="DATA", help="Held-out queries; with --folds the training data.")
    ],
    method: Annotated[
        Method, Option(help="Any increasing map, or a line through log odds.")
    ] = "isotonic",
    target: Annotated[
        CalibrationTarget, Option(help="Expected label, or probability of relevance.")
    ] = "label",
    threshold: Annotated[
        float | None, Option(help="With --target relevance: least relevant label [1].")
    ] = None,
    folds: Annotated[
        str | None,
        Option(
            metavar="FOLDS",
            help="Cross-fit on DATA: train a model for each fold. A number, or time for folds in the order of time.",
        ),
    ] = None,
    *,
    reading: options.Reading,
    quiet: options.Quiet = False,
) -> None:
    """Learn what the scores of a model mean.

    The result is saved with the model. `predict --calibrated` then writes expected labels or probabilities of
    relevance. Rankings do not change.

    Example: rankwright calibrate run vali.txt --target relevance
    """
    model = load_trained(system)
    rows = model.rows(DataFile(data, reading))
    ranker = model.ranker
    ranker.set_params(verbose=0 if quiet else 1)
    ranker.calibrate(rows, method=method, target=target, threshold=threshold, folds=folds)
    save_calibrated(ranker, system)
    if quiet:
        return
    echo(f"{system}: {describe(ranker)}.")
    echo(f"Next: rankwright predict {system} DATA --calibrated --out values.txt")


def save_calibrated(ranker: Ranker, system: Path) -> None:
    """Write a calibrated model back to its run folder or its file."""
    from rankwright.runs import is_run
    from rankwright.support.locks import locked

    if not is_run(system):
        ranker.save(system)
        return
    # A training may resume in the run folder at the same time, and would overwrite the model.
    with locked(system, "a calibration"):
        ranker.save(system / "model")


def describe(ranker: Ranker) -> str:
    """Return the meaning of calibrated values, for a message."""
    assert ranker.calibration_ is not None
    return f"calibrated to the {ranker.calibration_.describe()}"
