"""The command ``warmup``."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from rankwright.cli import options
from rankwright.cli.terminal import echo


def warmup(
    everything: Annotated[
        bool,
        Option("--all", help="Also every objective, metric and tie policy, not only the defaults."),
    ] = False,
    quiet: options.Quiet = False,
) -> None:
    """Compile the kernels into the cache, for images and CI.

    Reads, trains, evaluates, predicts and ranks on a little generated data, so that later processes load what they
    need instead of compiling it at first use. The cache is beside the package, in the user's cache folder where that
    cannot be written to, or in NUMBA_CACHE_DIR.

    Example: rankwright warmup --all
    """
    from rankwright.kernels.jit import compile_seconds

    # Kernels are compiled for the types of their arguments, so they have to be called.
    start = time.perf_counter()
    _use_defaults()
    if everything:
        _use_all()
    if not quiet:
        seconds = time.perf_counter() - start
        echo(f"warm: {compile_seconds():.1f} s of {seconds:.1f} s were spent compiling.")


def _use_defaults() -> None:
    """Do what commands and services do, once."""
    import rankwright as rw

    data = rw.make_web_search(30, random_state=1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        rw.write_letor(data, path / "data.txt")
        train, test = rw.read_letor(path / "data.txt").split(0.3)
        ranker = rw.Ranker(n_estimators=3, n_jobs=1, verbose=0).fit(train, eval_set=[test])
        ranker.save(path / "model")
        model = rw.load(path / "model")
        for n_rows in (1, 8, test.n_rows):  # one row, a few, and many are scored in different ways
            model.predict(test.X[:n_rows])
        rw.evaluate(ranker.predict(test), test.y, group=test.group, metrics="ndcg@10 ndcg map")


def _use_all() -> None:
    """Call every objective for a metric that adds up and for another kind, and every way to read and evaluate."""
    import numpy as np

    import rankwright as rw
    from rankwright.objectives import bind, known_objectives
    from rankwright.objectives.options import NOISES

    data = rw.make_web_search(30, random_state=2)
    # Some options of objectives choose other kernels.
    scores, group, seen = np.linspace(0, 1, data.n_rows), data.group, np.full(data.n_rows, 0.5)
    variants: dict[str, list[dict[str, Any]]] = {
        "lambdamart": [{}, {"extend": "all"}],
        "stochasticrank": [{}, {"estimator": "reinforce"}],
        "yetirank": [{"noise": noise} for noise in NOISES],
        "yetiloss": [{}, {"neighbours": 2}],
    }
    for name, objective in known_objectives().items():
        # Objectives of plug-ins may need other data.
        if not objective.__module__.startswith("rankwright."):
            continue
        for options_ in variants.get(name, [{}]):
            for metric in ("ndcg@10", "err@10"):
                if metric == "err@10" and objective().capabilities.additive_only:
                    continue
                bound = bind(name, data.y, group=group, metric=metric, n_jobs=1, **options_)
                for wide in (1.0, 1e4):  # far scores are paired in another way
                    bound(wide * scores, 0)
                # Propensities, for data from clicks, are used by some objectives only.
                if objective().capabilities.uses_propensity:
                    bind(
                        name,
                        data.y,
                        group=group,
                        metric=metric,
                        n_jobs=1,
                        propensity=seen,
                        **options_,
                    )(scores, 0)
                if objective().capabilities.full_curvature:
                    bound.leaf_system(scores, np.zeros(data.n_rows, dtype=np.int64), 1)
    # Indices that do not ascend are read in another way.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "unsorted.txt"
        path.write_text("1 qid:1 2:1 1:1\n", encoding="utf-8")
        rw.read_letor(path)
    for ties in ("worst", "best", "expected", "input"):
        # Rounded scores have many ties.
        rw.evaluate(
            np.round(scores, 1), data.y, group=group, metrics="ndcg@10 ndcg map err", ties=ties
        )
