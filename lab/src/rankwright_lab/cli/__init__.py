"""The command line of the laboratory: one file per command."""

from __future__ import annotations

from typing import Annotated

import typer

from rankwright import cli
from rankwright.cli.errors import Command
from rankwright_lab.cli import bench, diagnose, report, reproduce

app = typer.Typer(
    help="Compare rankers, reproduce experiments of papers, and diagnose models.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for function in (reproduce.reproduce, bench.bench, report.report, diagnose.diagnose):
    app.command(cls=Command)(function)


@app.callback()
def _options(
    debug: Annotated[
        bool,
        typer.Option(
            "--debug", help="Show the traceback of an error; may be anywhere on the line."
        ),
    ] = False,
) -> None:
    pass  # `cli.run` removes --debug before the commands see it


def main() -> None:
    """Run a command of the laboratory."""
    cli.run(app, "rankwright-lab")
