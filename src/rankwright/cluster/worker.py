"""The work of each worker: choose settings with the others, sample rows, and train with them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from rankwright.cluster.collective import Collective, connected
from rankwright.data.bins import Bins, RowSample
from rankwright.data.dataset import RankingData
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
    values: dict[str, Any]


class Step(NamedTuple):
    """The progress after an iteration, with the newest values in place of the history."""

    iteration: int
    done: int
    values: list[dict[str, float]]
    seconds: float
    times: dict[str, float]


class Work(NamedTuple):
    """A training, as all workers get it.

    Parameters
    ----------
    plan
        The plan with all settings.
    bins
        Edges of the bins.
    start
        The state to resume from.
    initial
        Trees to add to, none if empty.
    interval
        Trees and seconds after which the state is reported.
    exact
        Whether sums have the same bits for any number of workers.
    """

    plan: Plan
    bins: Bins
    start: Saved | None
    initial: bytes
    interval: tuple[int, float]
    exact: bool


class Mailbox(Protocol):
    """The connection to the client."""

    def report(self, kind: str, content: Any) -> None:
        """Send a message."""

    def stopped(self) -> bool:
        """Return True if the client wants training to end."""


def settle(
    plan: Plan, train: RankingData, derived: int, exact: bool, place: tuple[Mapping[str, Any], int]
) -> Plan:
    """Fill in the settings that the data of all workers decides.

    ``derived`` is the number of columns that are features within the query.
    """
    with connected(*place):
        return for_data(plan, train, Collective(exact), derived=derived)


def only_judged(data: RankingData) -> RankingData:
    """Return the rows that have a label, in canonical order."""
    if not data.judged.any():
        raise ValueError(
            "all queries of a worker are without labels; leave out queries without labels, or use "
            "fewer workers."
        )
    return data.only_judged().canonical(n_jobs=1)


def sample_rows(train: RankingData) -> RowSample:
    """Sample the rows of a worker."""
    return RowSample.of(train.X, np.repeat(train.query_keys, train.group), threads=1)


def save_state(state: State) -> Saved:
    """Turn a state into plain values."""
    assert state.forest is not None
    return Saved(state.forest.dump(), describe_state(state))


def load_state(saved: Saved, plan: Plan, initial_trees: int, n_sets: int) -> State:
    """Read a state back."""
    forest = load_engine(plan.engine).load(saved.trees)
    return read_state(saved.values, forest, initial_trees, plan, n_sets)


def train(
    work: Work,
    data: RankingData,
    valid: Sequence[RankingData | None],
    place: tuple[Mapping[str, Any], int],
    mailbox: Mailbox,
) -> Saved | None:
    """Train with the other workers.

    The first worker reports ``("steps", list of Step)`` and ``("state", Saved)`` to the mailbox, and
    returns the result.

    Parameters
    ----------
    work
        The training, the same for all workers.
    data, valid
        This worker's queries of the training and evaluation sets; None is the training set.
    place
        The tracker and this worker's number.
    mailbox
        The connection to the client.
    """
    plan = work.plan
    state = State.initial(None)
    if work.initial:
        state = State.initial(load_engine(plan.engine).load(work.initial))
    if work.start is not None:
        state = load_state(work.start, plan, state.initial_trees, len(valid))
    with connected(*place):
        reducer = Collective(work.exact)
        sets = [data if part is None else part for part in valid]
        boosting = Boosting(plan, data, sets, reducer, work.bins)
        reporter = _Reporter(boosting, mailbox, work.interval, state.iteration)

        def after(progress: Progress) -> bool:
            # Only the first worker talks to the client. All workers must end after the same
            # iteration, so it passes the answer on.
            end = reducer.rank == 0 and reporter.report(progress)
            return bool(reducer.max(np.array([float(end)]))[0])

        boosting.run(state, after)
        # All workers have the same trees, so the first is enough.
        if reducer.rank != 0:
            return None
        # The last steps may be younger than the last message.
        reporter.send_steps()
        return save_state(boosting.snapshot())


class _Reporter:
    """Sends the steps and states of a training to the client."""

    def __init__(
        self, boosting: Boosting, mailbox: Mailbox, interval: tuple[int, float], iteration: int
    ) -> None:
        self._boosting = boosting
        self._mailbox = mailbox
        self._trees, self._seconds = interval
        self._steps: list[Step] = []
        self._saved_iteration = iteration
        self._sent_at = self._saved_at = time.perf_counter()

    def report(self, progress: Progress) -> bool:
        """Send messages that are due, and return True if the client wants training to end."""
        # The whole history would grow with each message, so only the newest values are sent.
        values = [
            {name: curve[-1] for name, curve in curves.items()} for curves in progress.history
        ]
        step = Step(progress.iteration, progress.done, values, progress.seconds, progress.times)
        self._steps.append(step)
        now = time.perf_counter()
        stopped = False
        # Steps are collected, because a message for each tree would slow down fast trainings.
        if now - self._sent_at >= _SECONDS_BETWEEN_MESSAGES:
            self.send_steps()
            self._sent_at = now
            stopped = self._mailbox.stopped()
        # Copies of the state let training restart from here if a worker is lost.
        trees = progress.iteration - self._saved_iteration
        if trees >= self._trees or now - self._saved_at >= self._seconds:
            self._mailbox.report("state", save_state(self._boosting.snapshot()))
            self._saved_iteration, self._saved_at = progress.iteration, now
        return stopped

    def send_steps(self) -> None:
        """Send the steps that have not been sent yet."""
        if self._steps:
            self._mailbox.report("steps", list(self._steps))
            self._steps.clear()
