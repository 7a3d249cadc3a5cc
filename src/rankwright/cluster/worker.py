"""What each worker of a training does: settle what the data decides, sample rows, and train with the others."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwright.cluster.collective import Collective, connected
from rankwright.data.bins import Bins, RowSample
from rankwright.data.dataset import RankingData
from rankwright.data.within_query import Recipe
from rankwright.engines import load_engine
from rankwright.training.checkpoint import describe_state, read_state
from rankwright.training.defaults import for_data
from rankwright.training.loop import Boosting
from rankwright.training.plan import Plan
from rankwright.training.state import Progress, State

_SECONDS_BETWEEN_MESSAGES = 0.2


class Saved(NamedTuple):
    """A state as plain values and bytes."""

    trees: bytes
    rest: dict[str, Any]


class Step(NamedTuple):
    """What a callback learns after an iteration, but for the history: its newest values."""

    iteration: int
    done: int
    values: list[dict[str, float]]
    seconds: float
    times: dict[str, float]


class Place(NamedTuple):
    """Where a worker stands among the others."""

    tracker: Mapping[str, Any]
    number: int
    exact: bool


def settle(plan: Plan, train: RankingData, derived: int, place: Place) -> Plan:
    """Fill in what the data of all workers decides; ``derived`` columns are features within the query."""
    with connected(place.tracker, place.number):
        return for_data(plan, train, Collective(place.exact), derived=derived)


def with_features(data: RankingData, recipe: Recipe) -> RankingData:
    """Return data with features within the query."""
    return data.with_features(recipe, threads=1)


def sample_rows(train: RankingData) -> RowSample:
    """Sample the rows of a worker."""
    return RowSample.of(train.X, np.repeat(train.query_keys, train.group), threads=1)


def sampled_hashes(sample: RowSample) -> NDArray[np.uint64]:
    """Return the hashes alone, by which the client finds out which rows it needs."""
    return sample.hashes


def sampled_up_to(sample: RowSample, largest: int) -> RowSample:
    """Return the rows with hashes up to the largest that is needed."""
    return sample.up_to(np.uint64(largest))


def save_state(state: State) -> Saved:
    """Turn a state into plain values."""
    assert state.forest is not None
    return Saved(state.forest.dump(), describe_state(state))


def load_state(saved: Saved, plan: Plan, initial_trees: int, n_sets: int) -> State:
    """Read a state back."""
    forest = load_engine(plan.engine).load(saved.trees)
    return read_state(saved.rest, forest, initial_trees, plan, n_sets)


def train(
    plan: Plan,
    data: RankingData,
    valid: Sequence[RankingData | None],
    bins: Bins,
    start: Saved | None,
    initial: bytes,
    interval: tuple[int, float],
    place: Place,
    report: Callable[[str, Any], None],
    stopped: Callable[[], bool],
) -> Saved | None:
    """Train with the other workers; the first one reports progress and states, and returns the result.

    Parameters
    ----------
    plan, data, valid
        What to train, and this worker's queries of the training and evaluation sets; None is the training set.
    bins
        Edges of the bins, the same for all workers.
    start
        Where to resume.
    initial
        Trees to add to, none if empty.
    interval
        Trees and seconds after which the state is reported.
    place
        Where this worker stands among the others.
    report
        Takes ``("steps", list of Step)`` and ``("state", Saved)``.
    stopped
        Whether the user wants training to end.
    """
    state = State.initial(load_engine(plan.engine).load(initial) if initial else None)
    if start is not None:
        state = load_state(start, plan, state.initial_trees, len(valid))
    with connected(place.tracker, place.number):
        reducer = Collective(place.exact)
        is_first = reducer.rank == 0
        sets = [data if part is None else part for part in valid]
        boosting = Boosting(plan, data, sets, reducer, bins)
        steps: list[Step] = []
        last_message = last_state = time.perf_counter()
        saved_iteration = state.iteration

        def after(progress: Progress) -> bool:
            nonlocal last_message, last_state, saved_iteration
            end = 0.0
            if is_first:
                values = [
                    {name: curve[-1] for name, curve in curves.items()}
                    for curves in progress.history
                ]
                steps.append(
                    Step(
                        progress.iteration, progress.done, values, progress.seconds, progress.times
                    )
                )
                now = time.perf_counter()
                if now - last_message >= _SECONDS_BETWEEN_MESSAGES:
                    report("steps", list(steps))
                    steps.clear()
                    last_message = now
                    end = float(stopped())
                if (
                    progress.iteration - saved_iteration >= interval[0]
                    or now - last_state >= interval[1]
                ):
                    report("state", save_state(boosting.snapshot()))
                    saved_iteration, last_state = progress.iteration, now
            return bool(reducer.max(np.array([end]))[0])

        boosting.run(state, after)
        if not is_first:
            return None
        if steps:
            report("steps", steps)
        return save_state(boosting.snapshot())
