"""How time grows: with documents, with the length of queries, with features, with threads.

Data are drawn at random: features from the normal distribution, labels 0 to 4 by thresholds on a sum of three of them
and noise. One thing grows at a time; an exponent is the slope of log time over log size, by least squares.
"""

from __future__ import annotations

import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from rankwright.data.dataset import RankingData
from rankwright.environment import environment
from rankwright.objectives import bind
from rankwright.research.bench.files import FORMAT_VERSION, SCALING
from rankwright.research.harness import Ours, System
from rankwright.research.peers import LightGBM

OBJECTIVES = (
    ("lambdamart(truncation=13)", "ndcg@10"),
    ("yetirank", "ndcg"),
    ("yetiloss", "map"),
    ("stochasticrank", "ndcg@10"),
    ("xendcg", "ndcg"),
)
_SHARES = (0.515, 0.325, 0.134, 0.018, 0.008)
_SHORTEST = 0.02  # seconds: what takes less is repeated and divided


@dataclass(frozen=True)
class Sizes:
    """What to measure at; the defaults are those of a full run.

    Parameters
    ----------
    documents, lengths, features, threads
        The sizes that are gone through.
    length
        Documents per query where their number is not what grows.
    total, training_total
        Documents in all where the length of queries grows: for gradients, and for training, which also has so many
        where features and threads grow.
    columns
        Features of the training data where their number is not what grows.
    trees, rounds
        Trees per training, and measurements of which the median is taken.
    """

    documents: tuple[int, ...] = (10_000, 31_623, 100_000, 316_228, 1_000_000)
    lengths: tuple[int, ...] = (10, 100, 1_000, 10_000, 100_000, 1_000_000)
    features: tuple[int, ...] = (10, 30, 100, 300)
    threads: tuple[int, ...] = (1, 2)
    length: int = 100
    total: int = 1_000_000
    training_total: int = 100_000
    columns: int = 30
    trees: int = 20
    rounds: int = 3


QUICK = Sizes((1_000, 3_000), (10, 100), (4, 8), (1,), 20, 1_000, 1_000, 4, 2, 1)


@dataclass(frozen=True)
class Curve:
    """Times of one thing at several sizes.

    Parameters
    ----------
    what, case
        ``"gradient"`` (one call) or ``"training"``, of which objective or system.
    over, sizes, threads
        What grows, its values, and the number of threads.
    seconds
        Median time at each size.
    bytes_per_document
        Memory of NumPy's arrays that a gradient takes besides what it keeps; None for training.
    exponent, error
        Slope of log time over log size, and its standard error; None where there are fewer than two sizes, or three.
    """

    what: str
    case: str
    over: str
    sizes: list[int]
    threads: int
    seconds: list[float]
    bytes_per_document: list[float] | None
    exponent: float | None
    error: float | None


def fit_exponent(sizes: Sequence[float], seconds: Sequence[float]) -> tuple[float | None, float | None]:
    """Slope of log seconds over log size by least squares, and its standard error.

    Examples
    --------
    >>> exponent, _ = fit_exponent([10, 100, 1000], [2.0, 200.0, 20_000.0])
    >>> round(exponent, 6)
    2.0
    """
    from scipy.stats import linregress

    if len(sizes) < 2:
        return None, None
    line = linregress(np.log(sizes), np.log(seconds))
    return float(line.slope), float(line.stderr) if len(sizes) > 2 else None


def run_scaling(
    sizes: Sizes | None = None,
    *,
    systems: Sequence[System] | None = None,
    progress: Callable[[str], object] | None = None,
) -> dict[str, Any]:
    """Measure all curves and return them, ready for `write_result`.

    Parameters
    ----------
    sizes
        What to measure at.
    systems
        What to train; by default ours with each of the objectives, and LightGBM's lambdarank to measure them by.
    progress
        Called with a line of text for each curve.

    Examples
    --------
    >>> result = run_scaling(QUICK, systems=[Ours("rankwright")])
    >>> sorted({curve["over"] for curve in result["curves"]})
    ['documents', 'features', 'query length']
    """
    chosen = Sizes() if sizes is None else sizes
    if systems is None:
        systems = [Ours(f"rankwright {text}", {"objective": text, "metric": metric}) for text, metric in OBJECTIVES]
        systems.append(LightGBM("lambdarank"))
    curves = []
    for curve in chain(_gradient_curves(chosen), _training_curves(chosen, systems)):
        curves.append(asdict(curve))
        if progress is not None:
            progress(str_of(curve))
    return {
        "format": SCALING,
        "format_version": FORMAT_VERSION,
        "date": date.today().isoformat(),
        "environment": environment(("rankwright", "lightgbm", "numpy", "numba", "scipy")),
        "settings": asdict(chosen),
        "curves": curves,
    }


def str_of(curve: Curve) -> str:
    """A line about a curve: what it is, its ends, its exponent."""
    ends = f"{curve.sizes[0]} to {curve.sizes[-1]} {curve.over}: {curve.seconds[0]:.3g} to {curve.seconds[-1]:.3g} s"
    slope = "" if curve.exponent is None else f", exponent {curve.exponent:.2f}"
    slope += "" if curve.error is None else f" ± {curve.error:.2f}"
    return f"{curve.what} of {curve.case}, {curve.threads} thread(s), {ends}{slope}"


def _gradient_curves(sizes: Sizes) -> Iterator[Curve]:
    for objective, metric in OBJECTIVES:
        for threads in sizes.threads:
            documents = [(n, n, sizes.length) for n in sizes.documents]
            yield _gradient_curve(objective, metric, "documents", documents, threads, sizes.rounds)
            lengths = [(n, sizes.total, n) for n in sizes.lengths if n <= sizes.total]
            yield _gradient_curve(objective, metric, "query length", lengths, threads, sizes.rounds)


def _gradient_curve(
    objective: str, metric: str, over: str, points: Sequence[tuple[int, int, int]], threads: int, rounds: int
) -> Curve:
    seconds, memory = [], []
    for _, documents, length in points:
        data = _problem(documents, length, 1)
        scores = data.X[:, 0] + np.random.default_rng(1).normal(size=data.n_rows)
        bound = bind(objective, data.y, group=data.group, metric=metric, threads=threads)
        call = partial(bound, scores, 0)
        call()  # compiles, and takes the memory that is kept between calls
        seconds.append(statistics.median(_seconds(call) for _ in range(rounds)))
        tracemalloc.start()
        call()
        memory.append(tracemalloc.get_traced_memory()[1] / data.n_rows)
        tracemalloc.stop()
    grown = [size for size, *_ in points]
    case = f"{objective} for {metric}"
    return Curve("gradient", case, over, grown, threads, seconds, memory, *fit_exponent(grown, seconds))


def _training_curves(sizes: Sizes, systems: Sequence[System]) -> Iterator[Curve]:
    total, columns, length = sizes.training_total, sizes.columns, sizes.length
    series = {
        "documents": [(n, n, length, columns) for n in sizes.documents],
        "query length": [(n, total, n, columns) for n in sizes.lengths if n <= total],
        "features": [(n, total, length, n) for n in sizes.features],
    }
    small = _problem(1_000, 20, 4)
    for system in systems:
        system.fit(small, "ndcg@10", trees=2, seed=0, threads=sizes.threads[0])  # load and compile
        longest = getattr(system, "longest_query", None) or total
        for over, each in series.items():
            points = [point for point in each if point[2] <= longest]
            for threads in sizes.threads:
                seconds = []
                for _, *shape in points:
                    data = _problem(*shape)
                    fit = partial(system.fit, data, "ndcg@10", trees=sizes.trees, seed=0, threads=threads)
                    seconds.append(statistics.median(_seconds(fit) for _ in range(sizes.rounds)))
                grown = [size for size, *_ in points]
                slope = fit_exponent(grown, seconds)
                yield Curve("training", system.name, over, grown, threads, seconds, None, *slope)


def _problem(documents: int, length: int, features: int) -> RankingData:
    """Draw data of about so many documents in queries of one length."""
    rng = np.random.default_rng(0)
    queries = max(documents // length, 1)
    rows = queries * length
    X = rng.standard_normal((rows, features), dtype=np.float32)
    hidden = X[:, :3].sum(axis=1) + rng.standard_normal(rows, dtype=np.float32)
    labels = np.searchsorted(np.quantile(hidden, np.cumsum(_SHARES)[:-1]), hidden)
    return RankingData(X, labels, group=[length] * queries)


def _seconds(call: Callable[[], object]) -> float:
    """Time of a call, of several if one is too short to be timed."""
    times = 1
    while True:
        began = time.perf_counter()
        for _ in range(times):
            call()
        passed = time.perf_counter() - began
        if passed >= _SHORTEST:
            return passed / times
        times *= 10 if passed < _SHORTEST / 10 else 2
