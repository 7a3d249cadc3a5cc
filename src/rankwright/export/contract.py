"""What a deployment target is: it writes a model in a search engine's form, and scores by that engine's rules.

A target reads plain arrays (`rankwright.kernels.tree_arrays`), never an engine's text. Its evaluator is written from
the documented rules of the search engine and shares no code with its writer, so that `rankwright verify-export` finds
what the writer gets wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rankwright.kernels.tree_arrays import TreeArrays

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ExportOptions:
    """What a user may choose.

    Parameters
    ----------
    name
        Name of the model inside the target, where it has one.
    target_version
        Version of the search engine, such as ``"3.2"``; None for the newest one known here.
    """

    name: str = "rankwright"
    target_version: str | None = None


@dataclass(frozen=True)
class Exported:
    """A model in a target's form.

    Parameters
    ----------
    content
        The file.
    notes
        Sentences to warn the user with: what means something else in the target, and how many splits it concerns.
    """

    content: bytes
    notes: tuple[str, ...] = ()


class Target(Protocol):
    """A form of model files."""

    @property
    def name(self) -> str:
        """Its name in ``rankwright export --to``."""

    @property
    def file_name(self) -> str:
        """Usual name of the file."""

    @property
    def single_precision(self) -> bool:
        """Whether the target computes with 32-bit numbers: features are rounded, and sums differ in the last digits."""

    def write(self, trees: Sequence[TreeArrays], feature_names: Sequence[str], options: ExportOptions) -> Exported:
        """Write the trees; raise ValueError, naming the feature, where the target cannot express a split."""

    def score(self, content: bytes, X: Any, feature_names: Sequence[str], options: ExportOptions) -> Floats:
        """Score rows [rows, columns] with an exported file, by the target's documented rules; NaN is missing."""
