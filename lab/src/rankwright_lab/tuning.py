"""Tuning of any system, such as a peer, on given folds."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rankwright.metrics import Metric
from rankwright.metrics import metric as parse_metric
from rankwright.support import checks
from rankwright.tuning.result import Tuning
from rankwright.tuning.space import Space
from rankwright.tuning.trials import TrialWatch, run_trials, validation_value
from rankwright_lab.folds import Fold
from rankwright_lab.harness import System, check_installed, stages_of


def tune_system(
    make_system: Callable[[Mapping[str, Any]], System],
    space: Space,
    folds: Iterable[Fold],
    *,
    target: str | Metric,
    trials: int = 50,
    startup: int = 20,
    seconds: float | None = None,
    trees: int = 300,
    every: int = 5,
    pruning: bool = True,
    study: str | os.PathLike[str] | None = None,
    seed: int = 0,
    threads: int = 1,
    progress: Callable[[Tuning], object] | None = None,
) -> Tuning:
    """Tune any system, such as a peer, in the same way as `rankwright.tune`, on given folds.

    Only the validation queries are used; the test queries of the folds are not read. If the validation queries of a
    fold are test queries of another, tune on one fold at a time.

    Parameters
    ----------
    make_system
        Creates the system from values of the space.
    space
        By name a `Range`, a `Choice`, or a fixed value; `rankwright_lab.peers.SEARCH_SPACES` has a space for each
        peer.
    folds
        Folds to train and validate on.
    target
        The metric to optimise.
    trials, startup, seconds, study, progress
        As in `rankwright.tune`; ``startup`` is the number of random trials.
    trees, every
        Largest number of trees; their number is chosen among the multiples of ``every``.
    pruning
        Whether a trial is stopped after a fold if its value is worse than the median of the earlier ones.
    seed, threads
        Seed of the search and of each training, and number of threads of the training.

    Examples
    --------
    >>> from rankwright import make_web_search
    >>> from rankwright_lab.folds import folds_by_query
    >>> from rankwright_lab.peers import LightGBM
    >>> from rankwright.support.ranges import Range
    >>> folds = folds_by_query(make_web_search(24, n_features=20, mean_length=20), 3)
    >>> tuning = tune_system(
    ...     lambda values: LightGBM("lambdarank", values),
    ...     {"num_leaves": Range(4, 16), "min_data_in_leaf": 5},
    ...     folds,
    ...     target="ndcg@10",
    ...     trials=2,
    ...     trees=10,
    ... )
    >>> tuning.best["min_data_in_leaf"]
    5
    """
    from rankwright.training.checkpoint import fingerprint

    checks.whole("trees", trees, least=1)
    checks.whole("every", every, least=1)
    default = make_system({})
    check_installed([default])
    metric = parse_metric(target)
    parts = [(fold.train, fold.valid) for fold in folds]

    def measure(values: Mapping[str, Any], watch: TrialWatch) -> None:
        system = make_system(values)
        for train, held_out in parts:
            model = system.fit(train, str(metric), trees=trees, seed=seed, threads=threads)
            stages = stages_of(model, held_out, every)
            watch.fold_done(
                [validation_value(scores, held_out, metric, threads) for scores in stages],
                every=every,
            )

    search = {
        "system": default.name,
        "data": [fingerprint(part) for pair in parts for part in pair],
        "metric": str(metric),
        "space": {name: repr(values) for name, values in space.items()},
        "trees": [trees, every],
        "startup": startup,
        "pruning": pruning,
        "seed": seed,
    }
    return run_trials(
        space,
        measure,
        parts,
        target=metric,
        parameters=lambda values, _: dict(values),
        first=None,
        search=search,
        trials=trials,
        startup=startup,
        pruning=pruning,
        seconds=seconds,
        study=study,
        seed=seed,
        progress=progress,
    )
