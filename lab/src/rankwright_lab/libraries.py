"""Libraries that systems train with: whether they are installed, and how to install them."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any


@dataclass(frozen=True)
class Library:
    """A library that a system needs.

    Parameters
    ----------
    name
        Name of the package, and of the module to import.

    Examples
    --------
    >>> Library("xgboost").install_command
    'pip install xgboost'
    """

    name: str

    @property
    def installed(self) -> bool:
        """Whether the library can be imported."""
        return find_spec(self.name) is not None

    @property
    def version(self) -> str:
        """Version of the installed library."""
        return version(self.name)

    @property
    def install_command(self) -> str:
        """Command that installs the library."""
        return f"pip install {self.name}"

    def load(self) -> Any:
        """Import the library."""
        return import_module(self.name)


RANKWRIGHT = Library("rankwright")
LIGHTGBM = Library("lightgbm")
CATBOOST = Library("catboost")
XGBOOST = Library("xgboost")
