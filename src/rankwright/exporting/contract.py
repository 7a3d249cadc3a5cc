"""What a deployment target is: it writes a model in a search engine's form, and scores by that engine's rules.

A target reads plain arrays (`rankwright.kernels.tree_arrays`), never an engine's text. Its evaluator is written from
the documented rules of the search engine and shares no code with its writer, so that `rankwright verify-export` finds
what the writer gets wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rankwright.data.within_query import Recipe
from rankwright.kernels.tree_arrays import TreeArrays

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class FeatureSet:
    """The features that a search engine computes.

    Parameters
    ----------
    names
        Their names, in the order of the set: RankLib knows features by it.
    store
        Name of the store that holds them, where there is one (Solr).
    """

    names: tuple[str, ...]
    store: str | None = None


@dataclass(frozen=True)
class ExportOptions:
    """What a user may choose, and what a target may need to know of the model besides its trees.

    Parameters
    ----------
    name
        Name of the model inside the target, where it has one.
    target_version
        Version of the search engine, such as ``"3.2"``; None for the newest one known here.
    feature_set
        The search engine's features; None if the user did not give them.
    categories
        Levels of the categorical columns by name, in the order of their codes; None for a column of codes.
    recipe
        Features within the query, the last columns of the trees.
    """

    name: str = "rankwright"
    target_version: str | None = None
    feature_set: FeatureSet | None = None
    categories: Mapping[str, tuple[Any, ...] | None] = field(default_factory=dict)
    recipe: Recipe = field(default_factory=Recipe)


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
    """A form of model files.

    A target that computes features within the query says so by ``whole_queries = True``; others, which score documents
    one by one, cannot take a model that has them. One whose versions differ has ``has_versions = True``.
    """

    @property
    def name(self) -> str:
        """Its name in ``rankwright export --to``."""

    @property
    def file_name(self) -> str:
        """Usual name of the file."""

    @property
    def single_precision(self) -> bool:
        """Whether the target computes with 32-bit numbers: features are rounded, and sums differ in the last digits."""

    def write(
        self, trees: Sequence[TreeArrays], feature_names: Sequence[str], options: ExportOptions
    ) -> Exported:
        """Write the trees; raise ValueError, naming the feature, where the target cannot express a split."""

    def score(
        self, content: bytes, X: Any, feature_names: Sequence[str], options: ExportOptions
    ) -> Floats:
        """Score rows [rows, columns] with an exported file, by the target's documented rules; NaN is missing."""


def check_version(target: Target, options: ExportOptions) -> None:
    """Raise ValueError if a version was given for a target whose versions behave alike."""
    if options.target_version is not None and not getattr(target, "has_versions", False):
        raise ValueError(f"{target.name} is the same for all versions; leave out target_version=.")
