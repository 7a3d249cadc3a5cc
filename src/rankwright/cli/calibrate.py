"""The command ``calibrate``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from rankwright.cli import options, scoring
from rankwright.cli.terminal import echo

if TYPE_CHECKING:
    from rankwright import Ranker

Method = Literal["isotonic", "logistic"]
CalibrationTarget = Literal["label", "relevance"]


@options.with_data_options()
def calibrate(
    system: Annotated[
        Path, typer.Argument(metavar="RUN", help="Run folder or saved model.", show_default=False)
    ],
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="Held-out queries; with --folds the training data.",
            show_default=False,
        ),
    ],
    method: Annotated[
        Method, typer.Option(help="Any increasing map, or a line through log odds.")
    ] = "isotonic",
    target: Annotated[
        CalibrationTarget, typer.Option(help="Expected label, or probability of relevance.")
    ] = "label",
    threshold: Annotated[
        float | None,
        typer.Option(help="With --target relevance: least relevant label [1].", show_default=False),
    ] = None,
    folds: Annotated[
        int | None,
        typer.Option(help="Cross-fit on DATA: train a model for each fold.", show_default=False),
    ] = None,
    *,
    reading: options.Reading,
    quiet: options.Quiet = False,
) -> None:
    """Learn what the scores of a model mean.

    It is saved with the model: `predict --calibrated` then writes expected labels or probabilities of relevance.
    Rankings do not change.

    Example: rankwright calibrate run vali.txt --target relevance
    """
    ranker, training_options = scoring.load_system(system)
    rows = scoring.DataFile(data, reading).read(**training_options, reference=ranker.columns_)
    ranker.set_params(verbose=0 if quiet else 1)
    ranker.calibrate(rows, method=method, target=target, threshold=threshold, folds=folds)
    save_calibrated(ranker, system)
    if not quiet:
        echo(
            f"{system}: {describe(ranker)}.\nNext: rankwright predict {system} DATA --calibrated --out values.txt"
        )


def save_calibrated(ranker: Ranker, system: Path) -> None:
    """Write a calibrated model back to the run folder or the saved model that it came from."""
    from rankwright.runs import is_run
    from rankwright.support.locks import locked_folder

    if not is_run(system):
        ranker.save(system)
        return
    with locked_folder(system, "a calibration"):
        ranker.save(system / "model")


def describe(ranker: Ranker) -> str:
    """Say what calibrated values are."""
    assert ranker.calibration_ is not None
    return f"calibrated to the {ranker.calibration_.describe()}"
