"""Errors on the command line: sentences in which arguments have the names of options."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperCommand

from rankwright.support.checks import ArgumentError


class Command(TyperCommand):
    """A command whose errors name its options, for example ``--trees`` for ``n_estimators``.

    The parameters of a command have the names of the library's arguments, so that the option of an
    argument is found by its name.
    """

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except ArgumentError as error:
            raise ValueError(self._sentence(error)) from error
        # `usage_errors` wraps the error of an argument, and does not know the options of the command.
        except typer.BadParameter as error:
            if isinstance(error.__cause__, ArgumentError):
                error.message = self._sentence(error.__cause__)
            raise

    def _sentence(self, error: ArgumentError) -> str:
        # Positional arguments have no name that the user types, so the message stays as it is.
        for option in self.params:
            if option.name == error.argument and option.opts[0].startswith("--"):
                return error.sentence(option.opts[0])
        return str(error)


class TrainingCommand(Command):
    """A command with ``--set``, which says so if a parameter of `Ranker` is given as an option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:  # the class of unknown options is not public in typer
            unknown = getattr(error, "option_name", None)
            if not isinstance(unknown, str):
                raise
            remedy = self._remedy(unknown)
            if not remedy:
                raise
            raise typer.BadParameter(f"there is no option {unknown}; {remedy}") from None

    def _remedy(self, unknown: str) -> str:
        """Say how to set the parameter of `Ranker` with this name or meaning; empty if none."""
        from rankwright import Ranker
        from rankwright.training.other_names import meaning

        # A user who knows the library tries --early-stopping-rounds in place of --early-stopping.
        name = unknown.lstrip("-").replace("-", "_")
        for option in self.params:
            if option.name == name:
                return f"the parameter {name} is {option.opts[0]}."
        if name in Ranker().get_params():
            return f"parameters of Ranker are set by --set {name}=VALUE."
        return meaning(name) or ""


@contextmanager
def usage_errors() -> Iterator[None]:
    """Turn a ValueError into a usage error, with exit code 2, because no work has been done yet."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def error_sentence(error: BaseException) -> str:
    """Return an error as a single sentence."""
    if isinstance(error, MemoryError):
        return "not enough memory."
    # The text of an OSError has its number and Python's quotes, which users do not need.
    if isinstance(error, OSError) and error.strerror is not None:
        if error.filename is None:
            return f"{error.strerror}."
        return f"{error.filename}: {error.strerror}."
    return " ".join(str(error).split()) or type(error).__name__
