"""Text for the terminal: control characters in data, files and arguments are shown, never obeyed."""

from __future__ import annotations

import re
import shlex
import sys

import typer

# Control characters but for tabs and line ends, and characters that reverse the direction of text. A terminal acts on
# them: an id in a data file could change the window's title or hide the text after it.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    r"""Spell out the characters that a terminal would act on.

    Examples
    --------
    >>> print(printable("query \x1b[31m7"))
    query \x1b[31m7
    """
    return _CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)


def typed_command(program: str = "rankwright") -> str:
    """Return the command as the user typed it, for pages that say how they were made."""
    return f"{program} {shlex.join(sys.argv[1:])}"


def echo(text: str, *, err: bool = False, nl: bool = True) -> None:
    """Print text, on standard error with ``err=True``."""
    typer.echo(printable(text), err=err, nl=nl)
