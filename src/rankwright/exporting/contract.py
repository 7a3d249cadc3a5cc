"""The contract of a deployment target: it writes a model in an engine's form, and scores by that engine's rules.

A target reads plain arrays (`rankwright.kernels.tree_arrays`), never an engine's text. Its evaluator follows the code
of the search engine and shares no code with its writer, so that `rankwright verify-export` finds the writer's mistakes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright.data.within_query import Recipe
from rankwright.kernels.tree_arrays import TreeArrays
from rankwright.linear_start import LinearStart
from rankwright.support.checks import ArgumentError

# Short names for the types in the signatures of all targets. A blur is described at `Precision`.
Floats = NDArray[np.float64]
Trees = Sequence[TreeArrays]
Blur = Callable[[float], tuple[float, float] | None]


@dataclass(frozen=True)
class FeatureSet:
    """The features that a search engine computes.

    Parameters
    ----------
    names
        Their names, in the order of the set: RankLib knows features by this order.
    store
        Name of the store that holds them, in Solr.
    """

    names: tuple[str, ...]
    store: str | None = None


@dataclass(frozen=True)
class ExportOptions:
    """The choices of a user, and facts of the model that a target may need besides its trees.

    Parameters
    ----------
    features
        Sequence[str] of the columns of the trees.
    name
        Name of the model inside the target, if models have names there.
    target_version
        Version of the search engine, for example ``"3.2"``; None for the newest version known here.
    evaluator
        The target's evaluator, for example ``"vmforest"`` of Vespa; None for the target's own choice.
    feature_set
        The search engine's features; None if the user did not give them.
    categories
        Levels of the categorical columns by name, in the order of their codes; None for a column of codes.
    recipe
        Features within the query, the last columns of the trees.
    base_score
        Name of the base score; None if scores start from 0.
    linear
        The linear ranker that scores start from; None without.
    """

    features: Sequence[str]
    name: str = "rankwright"
    target_version: str | None = None
    evaluator: str | None = None
    feature_set: FeatureSet | None = None
    categories: Mapping[str, tuple[Any, ...] | None] = field(default_factory=dict)
    recipe: Recipe = field(default_factory=Recipe)
    base_score: str | None = None
    linear: LinearStart | None = None


@dataclass(frozen=True)
class Exported:
    """A model in a target's form.

    Parameters
    ----------
    content
        The file.
    notes
        Sentences to warn the user with, for example how many splits mean something else in the target.
    """

    content: bytes
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Precision:
    """How exactly a target computes with a file.

    Parameters
    ----------
    single_features
        Features are rounded to 32 bits before they are compared.
    single_scores
        Leaves, sums or scores are rounded to 32 bits.
    offset
        Size of a constant that is added to the score before it is rounded.
    blur
        For a bound, the range low < x <= high of values that may go to the wrong side, or None if there are none.
    """

    single_features: bool = False
    single_scores: bool = False
    offset: float = 0.0
    blur: Blur | None = None


class Support(NamedTuple):
    """How the scores of an engine agree with the model's: a row of the table in docs/deploy.md."""

    engine: str  # with its versions
    missing: str  # how the engine reads a missing value
    scores: str = "exact"  # or "exact, but for" and the exceptions
    refused: str = ""  # models that the export refuses


class Target:
    """A form of model files; each target is a subclass with a single instance in the registry."""

    name: str
    """Its name in ``rankwright export --to``."""

    file_name: str
    """Usual name of the file."""

    support: tuple[Support, ...]
    """Its engines and versions."""

    has_versions = False
    """Whether the versions of the engine differ."""

    evaluators: tuple[str, ...] = ()
    """Sequence[str] of the engine's evaluators, if they differ."""

    whole_queries = False
    """Whether it scores all documents of a query together, and computes features within the query."""

    adds_base_score = False
    """Whether a file adds the trees to the base score of a document. Other files have the trees alone."""

    in_32_bits = False
    """Whether features, leaves and sums are rounded to 32 bits."""

    def write(self, trees: Trees, options: ExportOptions) -> Exported:
        """Write the trees; raise ValueError, naming the feature, if the target cannot express a split."""
        raise NotImplementedError

    def score(self, content: bytes, X: Any, options: ExportOptions) -> Floats:
        """Sum the trees of an exported file for rows [rows, columns], by the rules of the engine's code.

        NaN is missing, and the base score is left out.
        """
        raise NotImplementedError

    def precision(self, content: bytes, options: ExportOptions) -> Precision:
        """Return how exactly the target computes with a file."""
        return Precision(self.in_32_bits, self.in_32_bits)

    def check(self, options: ExportOptions) -> None:
        """Raise ValueError if a given version or evaluator makes no difference or is not known."""
        # An option without effect is an error, because the user expects it to change the file.
        if options.target_version is not None and not self.has_versions:
            raise ArgumentError(
                "target_version",
                f"changes nothing for {self.name}, because all versions agree; leave it out.",
            )
        evaluator = options.evaluator
        if evaluator is not None and not self.evaluators:
            raise ArgumentError(
                "evaluator",
                f"changes nothing for {self.name}, because it has only one; leave it out.",
            )
        if evaluator is not None and evaluator not in self.evaluators:
            names = ", ".join(self.evaluators)
            raise ArgumentError(
                "evaluator", f"must be one of {names} for {self.name}; got {evaluator!r}."
            )
