"""The command line: a file per command. Each calls the library, which it imports when it runs."""

from __future__ import annotations

import sys
import warnings
from contextlib import AbstractContextManager, nullcontext
from typing import Annotated, Any

import typer

from rankwright.cli import (
    calibrate,
    combine,
    compare,
    convert,
    demo,
    evaluate,
    export,
    interleave,
    predict,
    report,
    serve,
    sweep,
    train,
    tune,
    verify_export,
    warmup,
)
from rankwright.cli.errors import Command, TrainingCommand, error_sentence
from rankwright.cli.terminal import echo

# With one of these flags the announcement would be unwanted, or out of place.
_WITHOUT_KERNELS = {"-q", "--quiet", "-h", "--help", "--version"}

app = typer.Typer(
    help="Train and evaluate rankers that optimise the ranking metric itself.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(cls=Command)(demo.demo)
app.command(cls=TrainingCommand)(train.train)
app.command(cls=Command)(evaluate.evaluate)
app.command(cls=Command)(compare.compare)
app.command(cls=Command)(interleave.interleave)
app.command(cls=Command)(predict.predict)
app.command(cls=Command)(calibrate.calibrate)
app.command(cls=Command)(convert.convert)
app.command(cls=Command)(combine.combine)
app.command(cls=Command)(export.export)
app.command(cls=Command)(verify_export.verify_export)
app.command(cls=Command)(report.report)
app.command(cls=TrainingCommand)(tune.tune)
app.command(cls=Command)(sweep.sweep)
app.command(cls=Command)(serve.serve)
app.command(cls=Command)(warmup.warmup)


def _show_version(wanted: bool) -> None:
    if wanted:
        from rankwright import __version__

        echo(f"rankwright {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    debug: Annotated[
        bool,
        typer.Option(
            "--debug", help="Show the traceback of an error; may be anywhere on the line."
        ),
    ] = False,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass  # `run` removes --debug before the commands are called


def main() -> None:
    """Run a command of rankwright."""
    run(app, "rankwright")


def run(app: typer.Typer, program: str) -> None:
    """Run a command of a program.

    Exit code 0: done, 1: failed, with a sentence on stderr, 2: wrong usage, 130: Ctrl-C.
    """
    # typer would take --debug only before the name of the command.
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    debug = len(arguments) < len(sys.argv) - 1
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            with _announcing_compilation(arguments):
                app(arguments, prog_name=program)
        # These are errors of the input or of the machine. Any other class is a mistake of ours,
        # and its traceback helps to report it.
        except (ValueError, OSError, ImportError, MemoryError) as error:
            if debug:
                raise
            echo(f"{program}: {error_sentence(error)}", err=True)
            sys.exit(1)


def _announcing_compilation(arguments: list[str]) -> AbstractContextManager[None]:
    """Announce on a terminal when kernels are compiled, unless no kernel runs or the user wants quiet."""
    if not arguments or _WITHOUT_KERNELS & {*arguments} or not sys.stderr.isatty():
        return nullcontext()
    from rankwright.kernels.jit import announcing

    # Compiling may take many seconds, in which a silent command would seem to hang.
    return announcing(lambda message: echo(f"rankwright: {message}", err=True))


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    echo(f"rankwright: warning: {message}", err=True)
