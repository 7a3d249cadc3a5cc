"""Systems: what is trained in a comparison, which libraries it needs and which data it supports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rankwright.data.dataset import RankingData
from rankwright_lab.libraries import LIGHTGBM, RANKWRIGHT, Library

if TYPE_CHECKING:
    from rankwright.ranker import Ranker

Floats = NDArray[np.float64]


class StagedModel(Protocol):
    """A trained model that scores documents with a part of its trees."""

    def staged_predict(self, data: RankingData, every: int) -> Iterable[Floats]:
        """Scores after ``every`` trees, twice as many, and so on up to all trees."""


@dataclass(frozen=True)
class Capabilities:
    """Which data a system can train on.

    Parameters
    ----------
    longest_query
        Largest number of documents of a query; None for no limit.
    largest_label
        Largest label; None for no limit.
    whole_labels
        Whether labels must be whole numbers.

    Examples
    --------
    >>> data = RankingData([[1.0], [2.0]], [0.5, 1], group=[2])
    >>> Capabilities(longest_query=1, whole_labels=True).problems(data)
    ['queries have at most 1 documents, but one has 2', 'labels are whole numbers, but one is 0.5']
    """

    longest_query: int | None = None
    largest_label: float | None = None
    whole_labels: bool = False

    def problems(self, data: RankingData) -> list[str]:
        """Return what the data has that the system does not support."""
        problems = []
        if self.longest_query is not None and data.group.max() > self.longest_query:
            problems.append(
                f"queries have at most {self.longest_query} documents, but one has {data.group.max()}"
            )
        if self.largest_label is not None and data.y.max() > self.largest_label:
            problems.append(
                f"labels are at most {self.largest_label:g}, but one is {data.y.max():g}"
            )
        fractions = data.y[data.y != np.floor(data.y)]
        if self.whole_labels and len(fractions):
            problems.append(f"labels are whole numbers, but one is {fractions[0]:g}")
        return problems


class System(Protocol):
    """A way of training: a library, an objective, and its parameters.

    A system that is not a dataclass is identified by its name alone. Optional attributes:

    - ``by_seed``: False if the model is the same for every seed, so that one training serves all seeds.
    - ``libraries``: a tuple of `Library`, the libraries that the system trains with.
    - ``capabilities``: `Capabilities`, the data that the system supports.
    - ``identity``: plain values that say what is trained, without the name; see `outcome_key`.
    - ``prepare``: called before the training and not timed, such as a search of parameters.
    - ``selection``: how the parameters were chosen, in words, once the system is prepared.
    - ``chosen``: these parameters by name, as values that JSON can hold.
    """

    @property
    def name(self) -> str:
        """Name in tables, unique within a comparison."""

    @property
    def by_metric(self) -> bool:
        """Whether training depends on the target metric; if not, one training serves all targets."""

    def fit(
        self, train: RankingData, metric: str, *, trees: int, seed: int, threads: int
    ) -> StagedModel:
        """Train for a metric."""


@dataclass(frozen=True)
class RankwrightSystem:
    """rankwright's Ranker as a system.

    Parameters
    ----------
    name
        Name in tables.
    params
        Parameters of `Ranker` besides metric, trees, seed and threads.
    by_metric
        False if the objective does not depend on the metric.

    Examples
    --------
    >>> RankwrightSystem("yetirank, few leaves", {"objective": "yetirank", "num_leaves": 8}, by_metric=False).name
    'yetirank, few leaves'
    """

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)
    by_metric: bool = True
    libraries = (RANKWRIGHT, LIGHTGBM)

    @property
    def identity(self) -> dict[str, Any]:
        """All parameters of `Ranker`, the objective with its options written out."""
        from rankwright.objectives import objective
        from rankwright.ranker import Ranker

        parameters = Ranker(**dict(self.params)).get_params()
        source = parameters["objective"]
        return (
            parameters if source == "auto" else {**parameters, "objective": repr(objective(source))}
        )

    @property
    def by_seed(self) -> bool:
        """False if nothing is drawn: no sampling of rows or columns, no Langevin noise, no random gradient."""
        from rankwright.objectives import objective

        source = self.params.get("objective", "auto")
        sampled = any(self.params.get(share) != 1.0 for share in ("subsample", "colsample"))
        drawn = sampled or bool(self.params.get("langevin")) or "engine_params" in self.params
        return drawn or source == "auto" or objective(source).varies

    def fit(
        self, train: RankingData, metric: str, *, trees: int, seed: int, threads: int
    ) -> StagedModel:
        """Train a Ranker."""
        from rankwright.ranker import Ranker

        common: dict[str, Any] = {
            "n_estimators": trees,
            "random_state": seed,
            "n_jobs": threads,
            "verbose": 0,
        }
        ranker = Ranker(**{"metric": metric} | common | dict(self.params))
        return _RankerModel(fit_whole(ranker, train))


def fit_whole(ranker: Ranker, train: RankingData) -> Ranker:
    """Train a ranker; Ctrl-C raises KeyboardInterrupt, where `fit` would keep the trees so far.

    An outcome of fewer trees than asked for must not be stored as if it were complete.
    """
    ranker.fit(train)
    if ranker.interrupted_:
        raise KeyboardInterrupt
    return ranker


@dataclass(frozen=True)
class _RankerModel:
    ranker: Any

    @property
    def gradient_seconds(self) -> float:
        """Time of the whole training in the objective: gradients, and leaf values if it computes them."""
        times: dict[str, float] = self.ranker.times_
        return times["gradients"] + times["leaves"]

    def staged_predict(self, data: RankingData, every: int) -> Iterator[Floats]:
        yield from self.ranker.staged_predict(data, every=every)


def check_installed(systems: Iterable[System]) -> None:
    """Raise an ImportError that names the missing libraries of the systems and how to install them."""
    missing: dict[Library, str] = {}
    for system in systems:
        for library in libraries_of(system):
            if not library.installed:
                missing.setdefault(library, system.name)
    if missing:
        needs = [
            f"{name} needs {library.name}, which is not installed: {library.install_command}"
            for library, name in missing.items()
        ]
        raise ImportError(f"{'; '.join(needs)}.")


def check_supported(systems: Iterable[System], data: RankingData) -> None:
    """Raise a ValueError if a system does not support the data."""
    for system in systems:
        problems = capabilities_of(system).problems(data)
        if problems:
            raise ValueError(
                f"{system.name} cannot train on these data: {'; '.join(problems)}. Leave this system out."
            )


def capabilities_of(system: System) -> Capabilities:
    """Return the capabilities that a system declares; without any, it supports all data."""
    capabilities: Capabilities = getattr(system, "capabilities", Capabilities())
    return capabilities


def libraries_of(system: System) -> tuple[Library, ...]:
    """Return the libraries that a system declares."""
    libraries: tuple[Library, ...] = getattr(system, "libraries", ())
    return libraries
