"""The command line: one file per command. Each calls the library, which it imports when it runs."""

from __future__ import annotations

import re
import sys
import warnings
from contextlib import AbstractContextManager, nullcontext
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from rankwright.cli import (
    calibrate,
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
from rankwright.cli.terminal import echo

app = typer.Typer(
    help="Train and evaluate rankers that optimise the ranking metric itself.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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
    pass  # `main` removes --debug before the commands see it


class _TrainingCommand(TyperCommand):
    """A command that knows where parameters of `Ranker` are set that have no flag of their name."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            flag = getattr(error, "option_name", None)
            if isinstance(flag, str) and (remedy := _parameter_remedy(flag)):
                raise typer.BadParameter(f"there is no option {flag}; {remedy}") from None
            raise


def _parameter_remedy(flag: str) -> str:
    """Say how a parameter of `Ranker` is set that was given as a flag; empty for any other flag."""
    from rankwright import Ranker

    name = flag.lstrip("-").replace("-", "_")
    if name in _OTHER_NAMES:
        return f"the parameter {name} is --{_OTHER_NAMES[name].replace('_', '-')}."
    return (
        f"parameters of Ranker are set by --set {name}=VALUE."
        if name in Ranker().get_params()
        else ""
    )


app.command()(demo.demo)
app.command(cls=_TrainingCommand)(train.train)
app.command()(evaluate.evaluate)
app.command()(compare.compare)
app.command()(interleave.interleave)
app.command()(predict.predict)
app.command()(calibrate.calibrate)
app.command()(convert.convert)
app.command()(export.export)
app.command()(verify_export.verify_export)
app.command()(report.report)
app.command(cls=_TrainingCommand)(tune.tune)
app.command()(sweep.sweep)
app.command()(serve.serve)
app.command()(warmup.warmup)


def main() -> None:
    """Run a command of rankwright."""
    run(app, "rankwright")


def run(app: typer.Typer, program: str) -> None:
    """Run a command of a program.

    Exit code 0: done, 1: failed, with one sentence on stderr, 2: wrong usage, 130: Ctrl-C.
    """
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    debug = len(arguments) < len(sys.argv) - 1
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            with _announcing_compilation(arguments):
                app(arguments, prog_name=program)
        except (ValueError, OSError, ImportError, MemoryError) as error:
            if debug:
                raise
            echo(f"{program}: {_sentence(app, error, arguments)}", err=True)
            sys.exit(1)


# Arguments of `Ranker` and its methods that have a flag of another name, by the parameter of a command.
_OTHER_NAMES = {
    "early_stopping_rounds": "early_stopping",
    "eval_set": "valid",
    "n_estimators": "trees",
    "n_jobs": "threads",
    "random_state": "seed",
    "sample_weight": "weight",
}


def _announcing_compilation(arguments: list[str]) -> AbstractContextManager[None]:
    """Say on a terminal when kernels are compiled, unless the user wants quiet, or help, which needs no kernels."""
    if (
        not arguments
        or {"-q", "--quiet", "-h", "--help", "--version"} & {*arguments}
        or not sys.stderr.isatty()
    ):
        return nullcontext()
    from rankwright.kernels.jit import announcing

    return announcing(lambda message: echo(f"rankwright: {message}", err=True))


def _sentence(app: typer.Typer, error: BaseException, arguments: list[str]) -> str:
    if isinstance(error, MemoryError):
        return "not enough memory."
    if isinstance(error, OSError) and error.strerror is not None:
        path = "" if error.filename is None else f"{error.filename}: "
        return f"{path}{error.strerror}."
    return _with_flags(app, " ".join(str(error).split()), arguments) or type(error).__name__


def _with_flags(app: typer.Typer, message: str, arguments: list[str]) -> str:
    """Name flags of the command where the library names keyword arguments: ``drop=`` is --drop."""
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    command = next((commands[word] for word in arguments if word in commands), None)
    flags = (
        {
            option.name: option.opts[0]
            for option in command.params
            if option.opts[0].startswith("--")
        }
        if command
        else {}
    )
    flags |= {keyword: flags[name] for keyword, name in _OTHER_NAMES.items() if name in flags}
    if not flags:
        return message
    if "drop" in flags:
        message = message.replace("or drop it.", f"or drop it ({flags['drop']}).")
    return re.sub(
        rf"\b({'|'.join(flags)})=(?:True|(\d+(?:\.\d+)?))?(?![^\s,.;])",
        lambda match: flags[match[1]] + ("" if match[2] is None else f" {match[2]}"),
        message,
    )


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    echo(f"rankwright: warning: {message}", err=True)
