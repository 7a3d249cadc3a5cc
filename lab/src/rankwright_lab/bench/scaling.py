"""How time grows with documents, the length of queries, features and threads.

Data are random: features have a normal distribution, labels 0 to 4 are thresholds on a sum of three features and
noise. One size grows at a time; an exponent is the slope of log time over log size, by least squares.
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
from rankwright.objectives import bind
from rankwright.support.environment import environment
from rankwright_lab.bench.result_files import FORMAT_VERSION, SCALING
from rankwright_lab.harness import RankwrightSystem, System, capabilities_of, check_installed
from rankwright_lab.peers import LightGBM

TIMED_OBJECTIVES = (
    ("lambdamart(truncation=13)", "ndcg@10"),
    ("yetirank", "ndcg"),
    ("yetiloss", "map"),
    ("stochasticrank", "ndcg@10"),
    ("xendcg", "ndcg"),
)
_SHARES = (0.515, 0.325, 0.134, 0.018, 0.008)
_SHORTEST = 0.02  # seconds: shorter calls are repeated, and the time is divided


@dataclass(frozen=True)
class ScalingSizes:
    """Sizes to measure; the defaults are those of a full run.

    Parameters
    ----------
    documents, lengths, features, threads
        Sizes that grow, one at a time.
    length
        Documents per query while another size grows.
    total, training_total
        Total number of documents while the length of queries grows, for gradients and for training. Training has the
        same number while features and threads grow.
    columns
        Features of the training data while another size grows.
    trees, rounds
        Trees per training, and number of measurements, of which the median counts.
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


QUICK = ScalingSizes((1_000, 3_000), (10, 100), (4, 8), (1,), 20, 1_000, 1_000, 4, 2, 1)


@dataclass(frozen=True)
class ScalingCurve:
    """Times of a gradient or a training at several sizes.

    Parameters
    ----------
    what, case
        ``"gradient"`` (one call) or ``"training"``, and the objective or the system.
    over, sizes, threads
        Name of the size that grows, its values, and the number of threads.
    seconds
        Median time at each size.
    bytes_per_document
        Memory of NumPy arrays that a gradient allocates in each call; None for training.
    exponent, error
        Slope of log time over log size, and its standard error; None for fewer than two or three sizes.
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


def fit_exponent(
    sizes: Sequence[float], seconds: Sequence[float]
) -> tuple[float | None, float | None]:
    """Return the slope of log seconds over log size by least squares, and its standard error.

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
    sizes: ScalingSizes | None = None,
    *,
    systems: Sequence[System] | None = None,
    progress: Callable[[str], object] | None = None,
) -> dict[str, Any]:
    """Measure all curves and return them, ready for `write_result`.

    Parameters
    ----------
    sizes
        Sizes to measure.
    systems
        Systems to train; by default rankwright with each of the objectives, and LightGBM's lambdarank for comparison.
    progress
        Called with a line of text for each curve.

    Examples
    --------
    >>> result = run_scaling(QUICK, systems=[RankwrightSystem("rankwright")])
    >>> sorted({curve["over"] for curve in result["curves"]})
    ['documents', 'features', 'query length']
    """
    sizes = ScalingSizes() if sizes is None else sizes
    if systems is None:
        systems = [
            RankwrightSystem(f"rankwright {text}", {"objective": text, "metric": metric})
            for text, metric in TIMED_OBJECTIVES
        ]
        systems.append(LightGBM("lambdarank"))
    check_installed(systems)
    curves = []
    for curve in chain(_gradient_curves(sizes), _training_curves(sizes, systems)):
        curves.append(asdict(curve))
        if progress is not None:
            progress(_line(curve))
    return {
        "format": SCALING,
        "format_version": FORMAT_VERSION,
        "date": date.today().isoformat(),
        "environment": environment(("rankwright", "lightgbm", "numpy", "numba", "scipy")),
        "settings": asdict(sizes),
        "curves": curves,
    }


def _line(curve: ScalingCurve) -> str:
    """Describe a curve in a line: its subject, its ends and its exponent."""
    ends = f"{curve.sizes[0]} to {curve.sizes[-1]} {curve.over}: {curve.seconds[0]:.3g} to {curve.seconds[-1]:.3g} s"
    slope = "" if curve.exponent is None else f", exponent {curve.exponent:.2f}"
    slope += "" if curve.error is None else f" ± {curve.error:.2f}"
    return f"{curve.what} of {curve.case}, {curve.threads} thread(s), {ends}{slope}"


def _gradient_curves(sizes: ScalingSizes) -> Iterator[ScalingCurve]:
    for objective, metric in TIMED_OBJECTIVES:
        for threads in sizes.threads:
            documents = [(n, n, sizes.length) for n in sizes.documents]
            yield _gradient_curve(objective, metric, "documents", documents, threads, sizes.rounds)
            lengths = [(n, sizes.total, n) for n in sizes.lengths if n <= sizes.total]
            yield _gradient_curve(objective, metric, "query length", lengths, threads, sizes.rounds)


def _gradient_curve(
    objective: str,
    metric: str,
    over: str,
    points: Sequence[tuple[int, int, int]],
    threads: int,
    rounds: int,
) -> ScalingCurve:
    seconds, memory = [], []
    for _, documents, length in points:
        data = _problem(documents, length, 1)
        scores = data.X[:, 0] + np.random.default_rng(1).normal(size=data.n_rows)
        bound = bind(objective, data.y, group=data.group, metric=metric, n_jobs=threads)
        call = partial(bound, scores, 0)
        call()  # compiles, and allocates the memory that is reused by later calls
        seconds.append(statistics.median(_seconds(call) for _ in range(rounds)))
        tracemalloc.start()
        call()
        memory.append(tracemalloc.get_traced_memory()[1] / data.n_rows)
        tracemalloc.stop()
    axis = [size for size, *_ in points]
    case = f"{objective} for {metric}"
    return ScalingCurve(
        "gradient", case, over, axis, threads, seconds, memory, *fit_exponent(axis, seconds)
    )


def _training_curves(sizes: ScalingSizes, systems: Sequence[System]) -> Iterator[ScalingCurve]:
    total, columns, length = sizes.training_total, sizes.columns, sizes.length
    series = {
        "documents": [(n, n, length, columns) for n in sizes.documents],
        "query length": [(n, total, n, columns) for n in sizes.lengths if n <= total],
        "features": [(n, total, length, n) for n in sizes.features],
    }
    small = _problem(1_000, 20, 4)
    for system in systems:
        system.fit(small, "ndcg@10", trees=2, seed=0, threads=sizes.threads[0])  # load and compile
        longest = capabilities_of(system).longest_query or total
        for over, all_points in series.items():
            points = [point for point in all_points if point[2] <= longest]
            for threads in sizes.threads:
                seconds = []
                for _, *shape in points:
                    data = _problem(*shape)
                    fit = partial(
                        system.fit, data, "ndcg@10", trees=sizes.trees, seed=0, threads=threads
                    )
                    seconds.append(statistics.median(_seconds(fit) for _ in range(sizes.rounds)))
                axis = [size for size, *_ in points]
                slope = fit_exponent(axis, seconds)
                yield ScalingCurve(
                    "training", system.name, over, axis, threads, seconds, None, *slope
                )


def _problem(documents: int, length: int, features: int) -> RankingData:
    """Generate data of about this many documents in queries of one length."""
    rng = np.random.default_rng(0)
    queries = max(documents // length, 1)
    rows = queries * length
    X = rng.standard_normal((rows, features), dtype=np.float32)
    hidden = X[:, :3].sum(axis=1) + rng.standard_normal(rows, dtype=np.float32)
    labels = np.searchsorted(np.quantile(hidden, np.cumsum(_SHARES)[:-1]), hidden)
    return RankingData(X, labels, qid=np.repeat(np.arange(queries), length))


def _seconds(call: Callable[[], object]) -> float:
    """Return the time of a call; a short call is repeated."""
    times = 1
    while True:
        start = time.perf_counter()
        for _ in range(times):
            call()
        elapsed = time.perf_counter() - start
        if elapsed >= _SHORTEST:
            return elapsed / times
        times *= 10 if elapsed < _SHORTEST / 10 else 2
