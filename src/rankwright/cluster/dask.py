"""Workers by Dask. Only this module knows Dask: another scheduler needs the same functions."""

from __future__ import annotations

import pickle
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import numpy as np

from rankwright.cluster.collective import start_tracker
from rankwright.cluster.pieces import Loaded, Piece, load
from rankwright.data.base_score import FIELD
from rankwright.data.dataset import RankingData
from rankwright.data.files import DataFiles
from rankwright.support import environment

# Seconds that workers have to stop after another worker was lost.
_SECONDS_TO_STOP = 60.0
# Seconds between two looks at the list of workers.
_SECONDS_BETWEEN_LOOKS = 1.0
# Seconds to notice that a worker is gone, after another worker has lost its connection.
_SECONDS_TO_NOTICE = 10.0
# Pieces of data that is spread from the client.
_PIECES_PER_WORKER = 4


class LostWorker(Exception):
    """A worker of a training is gone."""


class Worker(NamedTuple):
    """A worker's address, its name in errors, and its threads."""

    address: str
    name: str
    threads: int


def require() -> None:
    """Raise ImportError with the extra to install if Dask or XGBoost is missing."""
    environment.require("a cluster", "cluster", "distributed", "dask", "xgboost")


@contextmanager
def connect(where: Any, threads: int) -> Iterator[Any]:
    """Return a client: the given client, or a new client for an address or for workers started here."""
    from distributed import Client, LocalCluster

    # A client of the user stays open, and a client that is made here is closed.
    if isinstance(where, Client):
        yield where
        return
    if isinstance(where, str) and where != "local":
        with Client(where) as client:
            yield client
        return
    n_workers = threads
    if where != "local":
        n_workers = int(where)
    # The workers share the threads of this machine. Only this machine can reach them.
    cluster = LocalCluster(
        n_workers=n_workers,
        threads_per_worker=max(1, threads // n_workers),
        processes=True,
        host="127.0.0.1",
        dashboard_address=":0",
        silence_logs=50,
    )
    with cluster, Client(cluster) as client:
        yield client


class Mailbox:
    """Messages from a worker to the client, and the client's wish to stop for the worker."""

    def __init__(self, client: Any, name: str) -> None:
        from distributed import Event, Queue

        self.name = name
        self._queue = Queue(name, client=client)
        self._stop = Event(f"{name}-stop", client=client)

    @classmethod
    def at_worker(cls, name: str) -> Mailbox:
        """Return the worker's end of a mailbox."""
        from distributed import get_client

        return cls(get_client(), name)

    def report(self, kind: str, content: Any) -> None:
        """Send a message to the client."""
        self._queue.put(pickle.dumps((kind, content)))

    def messages(self, seconds: float) -> Iterator[tuple[str, Any]]:
        """Yield the messages that have arrived, or wait for a while if there are none."""
        # Dask would log a wait of its own as an error.
        if not self._queue.qsize():
            time.sleep(seconds)
        while self._queue.qsize():
            yield pickle.loads(self._queue.get())

    def stop(self) -> None:
        """Ask the worker to end training."""
        self._stop.set()

    def stopped(self) -> bool:
        """Return True if the client wants training to end."""
        return bool(self._stop.is_set())


class Team:
    """The workers of a training, in the order of their names.

    Parameters
    ----------
    client
        A Dask client.
    workers
        The workers; by default all workers of the client.
    """

    def __init__(self, client: Any, workers: Sequence[Worker] | None = None) -> None:
        self.client = client
        self.workers = _workers_of(client) if workers is None else workers

    @property
    def addresses(self) -> list[str]:
        """Addresses of the workers."""
        return [worker.address for worker in self.workers]

    def on(self, worker: Worker, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a function on a worker, and return the future of its result."""
        return self.client.submit(
            function,
            *arguments,
            workers=[worker.address],
            allow_other_workers=False,
            pure=False,
            retries=0,
        )

    def each(self, function: Callable[..., Any], futures: Sequence[Any], *more: Any) -> list[Any]:
        """Run a function on each worker with the worker's future, and return futures."""
        # Each future stays on the worker that holds its data, so no data moves.
        pairs = zip(self.workers, futures, strict=True)
        return [self.on(worker, function, future, *more) for worker, future in pairs]

    def anywhere(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a function on the worker that has most of its arguments."""
        return self.client.submit(function, *arguments, workers=self.addresses, pure=False)

    def results(self, futures: Sequence[Any], name: str = "") -> list[Any]:
        """Wait for results; raise the error of a future, or `LostWorker`.

        With a name, an error from outside of this package is raised with the name and the number of
        the future, for example for a partition that Dask cannot compute.
        """
        try:
            self._wait(futures, lambda: time.sleep(0.02))
        except LostWorker:
            raise
        except Exception as error:
            # Without the name, the error of a partition does not say which partition failed.
            failed = [number for number, future in enumerate(futures) if future.status == "error"]
            if not name or not failed or str(error).startswith("worker "):
                raise
            raise ValueError(
                f"{name} {failed[0]} cannot be computed: {type(error).__name__}: {error}"
            ) from None
        return list(self.client.gather(list(futures)))

    def together(
        self,
        function: Callable[..., Any],
        arguments: Sequence[tuple[Any, ...]],
        on_message: Callable[[str, Any], bool] | None = None,
    ) -> Any:
        """Run a function on all workers at once, and return the result of the first.

        The workers can add up meanwhile. The function is called with its arguments, then (tracker,
        number) and, with ``on_message``, the name of a mailbox. ``on_message`` takes messages, and
        returns True if training shall end. A first Ctrl-C ends it in the same way, with the message
        ``"interrupted"``.
        """
        # The workers find each other through the tracker, which runs in the client.
        tracker = start_tracker(len(self.workers), _own_address(self.client))
        mailbox = Mailbox(self.client, f"rankwright-{uuid.uuid4().hex}")
        futures = []

        def look(seconds: float = 0.2) -> None:
            if on_message is None:
                time.sleep(min(seconds, 0.02))
                return
            # Messages are read while the client waits, so progress is shown at once.
            for kind, content in mailbox.messages(seconds):
                if on_message(kind, content):
                    mailbox.stop()

        try:
            for number, (worker, given) in enumerate(zip(self.workers, arguments, strict=True)):
                place = (tracker.worker_args(), number)
                more = () if on_message is None else (mailbox.name,)
                futures.append(self.on(worker, function, *given, place, *more))
            try:
                self._wait(futures, look)
            # Training ends after a complete tree, so that the trees so far can be sent. A second
            # Ctrl-C ends it at once.
            except KeyboardInterrupt:
                if on_message is None:
                    raise
                mailbox.stop()
                on_message("interrupted", None)
                self._wait(futures, look)
            # The last messages may arrive after the results.
            look(0.01)
            return futures[0].result()
        except BaseException:
            with suppress(Exception):
                mailbox.stop()
            self._stop(futures)
            raise
        finally:
            with suppress(Exception):
                tracker.free()

    @contextmanager
    def noticing_losses(self) -> Iterator[None]:
        """Raise `LostWorker` for any error that comes from the loss of a worker."""
        try:
            yield
        except (LostWorker, ValueError):
            raise
        except Exception as error:
            # The scheduler may not know yet.
            time.sleep(_SECONDS_BETWEEN_LOOKS)
            self._raise_if_lost(error)
            raise

    def _missing(self) -> list[Worker]:
        # A worker that is lost disappears from the list of the scheduler.
        present = set(self.client.nthreads())
        return [worker for worker in self.workers if worker.address not in present]

    def _raise_if_lost(self, cause: Exception | None = None) -> None:
        for worker in self._missing():
            raise LostWorker(f"worker {worker.name} ({worker.address}) is gone") from cause

    def _wait(self, futures: Sequence[Any], look: Callable[[], None]) -> None:
        """Wait until all futures are done; raise the error of any of them, or `LostWorker`."""
        looked = time.perf_counter()
        while not all(future.status == "finished" for future in futures):
            look()
            if any(future.status in ("error", "lost", "cancelled") for future in futures):
                self._raise_for(futures)
            # A lost worker may leave its future pending, so the list of workers is read too.
            if time.perf_counter() - looked >= _SECONDS_BETWEEN_LOOKS:
                looked = time.perf_counter()
                self._raise_if_lost()

    def _raise_for(self, futures: Sequence[Any]) -> None:
        """Raise the error that explains the failure: a worker's own error, or its loss."""
        # If a worker is lost, the other workers fail too, because their connection to it breaks. So
        # errors of a connection are not the reason, and the reason may take a while to arrive.
        deadline = time.perf_counter() + _SECONDS_TO_NOTICE
        while time.perf_counter() < deadline:
            for future in futures:
                error = None
                if future.status == "error":
                    error = future.exception()
                if error is None or isinstance(error, ConnectionError | TimeoutError):
                    continue
                if type(error).__name__ in ("KilledWorker", "CommClosedError", "CancelledError"):
                    raise LostWorker(str(error))
                raise error
            self._raise_if_lost()
            time.sleep(0.1)
        raise LostWorker("the workers lost their connection to each other")

    def _stop(self, futures: Sequence[Any]) -> None:
        """Wait for the remaining workers to notice, and restart workers that do not."""
        if not futures:
            return
        # Workers that still train would keep their threads and memory from the next attempt.
        present = {*self.addresses} - {worker.address for worker in self._missing()}
        deadline = time.perf_counter() + _SECONDS_TO_STOP
        busy = present
        while busy and time.perf_counter() < deadline:
            pairs = zip(self.addresses, futures, strict=False)
            pending = {address for address, future in pairs if future.status == "pending"}
            busy = pending & present
            if busy:
                time.sleep(0.1)
        with suppress(Exception):
            self.client.cancel(list(futures), force=True)
        if busy:
            with suppress(Exception):
                self.client.restart_workers(sorted(busy), timeout=_SECONDS_TO_STOP)


def _workers_of(client: Any) -> list[Worker]:
    described = client.run_on_scheduler(_describe_workers)
    if not described:
        raise ValueError(
            "the cluster has no workers; start some, or wait for them with "
            "client.wait_for_workers(1)."
        )
    workers = [Worker(*worker) for worker in described]
    # Worker 10 comes after worker 9.
    return sorted(workers, key=lambda worker: (len(worker.name), worker.name, worker.address))


def _describe_workers(dask_scheduler: Any) -> list[tuple[str, str, int]]:
    workers = dask_scheduler.workers
    return [(address, str(state.name), state.nthreads) for address, state in workers.items()]


def _own_address(client: Any) -> str:
    from distributed.comm import get_address_host
    from distributed.utils import get_ip

    # Workers must reach the client, and on this machine no other address is needed.
    host = get_address_host(client.scheduler.address)
    return "127.0.0.1" if host in ("127.0.0.1", "localhost") else str(get_ip(host))


def check_versions(team: Team) -> None:
    """Raise ValueError, naming the worker, unless all have the libraries of this process."""
    # Other versions may compute other bits, and then the machines would grow different trees.
    expected = _versions()
    found = team.client.run(_versions, workers=team.addresses, on_error="return")
    for worker in team.workers:
        name = f"worker {worker.name} ({worker.address})"
        versions = found.get(worker.address)
        if versions is None:
            raise LostWorker(f"{name} is gone")
        if isinstance(versions, ImportError):
            raise ValueError(
                f"{name} cannot import {versions.name}; install "
                '"rankwright[cluster]" there, in the version of this process.'
            )
        if isinstance(versions, Exception):
            raise versions
        for library, version in expected.items():
            if versions[library] != version:
                raise ValueError(
                    f"{name} has {library} {versions[library] or 'not installed'}, this process "
                    f"{version}; install the same version on both."
                )


def _versions() -> dict[str, str | None]:
    """Return the versions of Python and of the libraries that a training depends on."""
    described = environment.environment(("rankwright", "xgboost", "numpy", "numba"))
    # Pickled functions need the same minor version of Python, for example 3.12.
    return {"python": described["python"].rpartition(".")[0], **described["packages"]}


def is_collection(X: Any) -> bool:
    """Return True for a Dask DataFrame or Array, without importing Dask."""
    return hasattr(X, "__dask_graph__")


def names_of(value: Any) -> tuple[str, ...]:
    """Return the columns that an argument of a fit names, or no columns for any other value.

    Examples
    --------
    >>> names_of("label"), names_of(["relevance", "margin"]), names_of([0, 1])
    (('label',), ('relevance', 'margin'), ())
    """
    names = list(value) if isinstance(value, list | tuple) else [value]
    if not all(isinstance(name, str) for name in names):
        return ()
    return tuple(names)


def loaded_pieces(team: Team, data: Any, columns: Piece) -> list[Any]:
    """Let the workers read data, and return futures of `Loaded`.

    Parameters
    ----------
    team
        The workers.
    data
        Parquet files that the workers can open, a `RankingData`, or (X, y, qid, weights, base
        scores) of Dask collections with the same partitions. All but X may be names of columns.
    columns
        Names of columns, in the form of a piece without a source.
    """
    addresses, submit = team.addresses, team.client.submit
    if isinstance(data, DataFiles):
        pieces = [columns._replace(name=path, source=path) for path in data.files]
        return [submit(_load, piece, workers=addresses, pure=False) for piece in pieces]
    if not isinstance(data, RankingData):
        return _collection_pieces(team, data, columns)
    if columns.base_score is not None:
        # The client has given the field its name.
        columns = columns._replace(base_score=(columns.base_score[0], columns.base_score[0]))
    # Several pieces per worker keep each piece small while it is on its way.
    n_pieces = min(_PIECES_PER_WORKER * len(addresses), data.n_queries)
    futures = []
    for number, queries in enumerate(np.array_split(np.arange(data.n_queries), n_pieces)):
        piece = columns._replace(name=f"part {number}", source=data.subset(queries))
        place = addresses[number % len(addresses)]
        held = team.client.scatter(piece, workers=[place], hash=False)
        futures.append(submit(_load, held, workers=addresses, pure=False))
    return futures


def _collection_pieces(team: Team, data: Any, columns: Piece) -> list[Any]:
    """Turn the partitions of Dask collections into pieces."""
    X, y, qid, weights, base = data
    columns = columns._replace(labels=names_of(y) or columns.labels)
    if isinstance(qid, str):
        columns = columns._replace(qid=qid)
    parts: list[Any] = []
    given = {"X": X, "y": y, "qid": qid, "sample_weight": weights, "base_score": base}
    for name, value in given.items():
        if value is None or names_of(value):
            parts.append(None)
        elif is_collection(value):
            parts.append(np.ravel(value.to_delayed()).tolist())
        else:
            raise ValueError(
                f"X is a Dask collection, so {name} must be one with the same partitions, or name "
                "columns; several labels are a list of names."
            )
    # Row i of a partition of X belongs to row i of the same partition of y.
    sizes = {len(part) for part in parts if part is not None}
    if len(sizes) > 1:
        raise ValueError(
            "X, y, qid, sample_weight and base_score have "
            f"{', '.join(map(str, sorted(sizes)))} partitions; give "
            "all the same. (An Array must be cut by rows only: X.rechunk({1: -1}).)"
        )
    futures = []
    for number in range(sizes.pop()):
        values = []
        for part in parts:
            value = None
            if part is not None:
                value = team.client.compute(part[number], workers=team.addresses)
            values.append(value)
        piece = columns._replace(name=f"partition {number}")
        futures.append(team.anywhere(_load_partition, piece, *values))
    return futures


def _load_partition(piece: Piece, X: Any, y: Any, qid: Any, weights: Any, base: Any) -> Loaded:
    # Partitions of a Dask Array have no columns, so labels and queries come beside them.
    if not hasattr(X, "columns"):
        return _load(piece._replace(source=(X, y, qid, weights, base)))
    # Labels, queries, weights and base scores that are collections become columns of the frame.
    added = {piece.labels[0]: y, piece.qid: qid, "__weight__": weights, FIELD: base}
    arrays = {name: np.asarray(values) for name, values in added.items() if values is not None}
    if weights is not None:
        piece = piece._replace(weight="__weight__")
    if wrong := [name for name, values in arrays.items() if values.shape != (len(X),)]:
        raise ValueError(
            f"{_here(piece)}: {wrong[0]} has shape {arrays[wrong[0]].shape} for {len(X)} rows; give "
            "collections with the same partitions."
        )
    return _load(piece._replace(source=X.assign(**arrays)))


def _load(piece: Piece) -> Loaded:
    return load(piece._replace(name=_here(piece)))


def _here(piece: Piece) -> str:
    """Return the name of a piece for errors: the worker that reads it, and its file or partition."""
    from distributed import get_worker

    return f"worker {get_worker().name}, {piece.name}"
