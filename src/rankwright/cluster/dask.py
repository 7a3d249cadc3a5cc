"""Workers by Dask. Nothing else knows it: another scheduler needs these functions and no more."""

from __future__ import annotations

import pickle
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from rankwright.cluster.collective import start_tracker
from rankwright.cluster.pieces import Loaded, Piece, load
from rankwright.data.dataset import RankingData
from rankwright.data.files import DataFiles

_SECONDS_TO_STOP = 60.0  # for the workers that are left, once one is lost
_SECONDS_BETWEEN_LOOKS = 1.0  # at the list of workers
_SECONDS_TO_NOTICE = 10.0  # that a worker is gone, once another has lost its connection
_PIECES_PER_WORKER = 4  # of data that is spread from here


class LostWorker(Exception):
    """A worker of a training is gone."""


class Worker(NamedTuple):
    """A worker's address, what errors call it, and its threads."""

    address: str
    name: str
    threads: int


def require() -> None:
    """Raise ImportError, with the extra to install, unless Dask and XGBoost can be imported."""
    for module in ("distributed", "dask", "xgboost"):
        if find_spec(module) is None:
            raise ImportError(
                f'a cluster needs {module}, which is not installed: pip install "rankwright[cluster]".'
            )


@contextmanager
def connect(where: Any, threads: int) -> Iterator[Any]:
    """Return a client: the given one, one of the scheduler at an address, or one of new workers on this machine."""
    from distributed import Client, LocalCluster

    if isinstance(where, Client):
        yield where
        return
    if isinstance(where, str) and where != "local":
        with Client(where) as client:
            yield client
        return
    n_workers = threads if where == "local" else int(where)
    options: dict[str, Any] = {
        "threads_per_worker": max(1, threads // n_workers),
        "dashboard_address": ":0",
    }
    with (
        LocalCluster(
            n_workers=n_workers, processes=True, host="127.0.0.1", silence_logs=50, **options
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def workers_of(client: Any) -> list[Worker]:
    """Return the workers, in the order of their names."""
    described = client.run_on_scheduler(_describe_workers)
    if not described:
        raise ValueError(
            "the cluster has no workers; start some, or wait for them with client.wait_for_workers(1)."
        )
    return [
        Worker(*one) for one in sorted(described, key=lambda one: (len(one[1]), one[1], one[0]))
    ]


def _describe_workers(dask_scheduler: Any) -> list[tuple[str, str, int]]:
    return [
        (address, str(one.name), one.nthreads) for address, one in dask_scheduler.workers.items()
    ]


def check_versions(client: Any, workers: Sequence[Worker]) -> None:
    """Raise ValueError, naming the worker, unless all have the libraries of this process."""
    expected = _versions()
    found = client.run(_versions, workers=[worker.address for worker in workers], on_error="return")
    for worker in workers:
        if worker.address not in found:
            raise LostWorker(f"worker {worker.name} ({worker.address}) is gone")
        if isinstance(found[worker.address], ImportError):
            raise ValueError(
                f"worker {worker.name} ({worker.address}) cannot import {found[worker.address].name}; install "
                '"rankwright[cluster]" there, in the version of this process.'
            )
        if isinstance(found[worker.address], Exception):
            raise found[worker.address]
        for library, version in expected.items():
            other = found[worker.address][library]
            if other != version:
                raise ValueError(
                    f"worker {worker.name} ({worker.address}) has {library} {other or 'not installed'}, this process "
                    f"{version}; install the same version on both."
                )


def _versions() -> dict[str, str]:
    import platform
    from importlib.metadata import PackageNotFoundError, version

    versions = {"python": ".".join(platform.python_version_tuple()[:2])}
    for name in ("rankwright", "xgboost", "numpy", "numba"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = ""
    return versions


def is_collection(X: Any) -> bool:
    """Tell whether data is a Dask DataFrame or Array, without importing Dask."""
    return hasattr(X, "__dask_graph__")


def names_of(value: Any) -> tuple[str, ...]:
    """Return the columns that an argument of a fit names, one or several; none where it is anything else.

    Examples
    --------
    >>> names_of("label"), names_of(["relevance", "margin"]), names_of([0, 1])
    (('label',), ('relevance', 'margin'), ())
    """
    several = list(value) if isinstance(value, list | tuple) else [value]
    return tuple(several) if all(isinstance(name, str) for name in several) else ()


def loaded_pieces(client: Any, workers: Sequence[Worker], data: Any, columns: Piece) -> list[Any]:
    """Have the workers read data; returns futures of `Loaded`.

    Parameters
    ----------
    client, workers
        Who reads.
    data
        Parquet files, which the workers must be able to open; (X, y, qid, weights) of Dask collections with the same
        partitions, y, qid and weights perhaps names of columns; or a `RankingData`.
    columns
        Names of columns, in the form of a piece without a source.
    """
    addresses = [worker.address for worker in workers]
    if isinstance(data, DataFiles):
        pieces = [columns._replace(name=path, source=path) for path in data.files]
        return [client.submit(_load, piece, workers=addresses, pure=False) for piece in pieces]
    if isinstance(data, RankingData):
        n_pieces = min(_PIECES_PER_WORKER * len(workers), data.n_queries)
        futures = []
        for number, queries in enumerate(np.array_split(np.arange(data.n_queries), n_pieces)):
            piece = columns._replace(name=f"part {number}", source=data.subset(queries))
            place = addresses[number % len(addresses)]
            held = client.scatter(piece, workers=[place], hash=False)
            futures.append(client.submit(_load, held, workers=addresses, pure=False))
        return futures
    return _collection_pieces(client, addresses, data, columns)


def _collection_pieces(client: Any, addresses: list[str], data: Any, columns: Piece) -> list[Any]:
    """Turn the partitions of Dask collections into pieces."""
    X, y, qid, weights = data
    columns = columns._replace(
        labels=names_of(y) or columns.labels, qid=qid if isinstance(qid, str) else columns.qid
    )
    parts: list[Any] = []
    for name, value in (("X", X), ("y", y), ("qid", qid), ("sample_weight", weights)):
        if value is None or names_of(value):
            parts.append(None)
        elif is_collection(value):
            parts.append(np.ravel(value.to_delayed()).tolist())
        else:
            raise ValueError(
                f"X is a Dask collection, so {name} must be one with the same partitions, or name columns; several "
                "labels are a list of names."
            )
    sizes = {len(part) for part in parts if part is not None}
    if len(sizes) > 1:
        raise ValueError(
            f"X, y, qid and sample_weight have {', '.join(map(str, sorted(sizes)))} partitions; give all the same. "
            "(An Array must be cut by rows only: X.rechunk({1: -1}).)"
        )
    futures = []
    for number in range(sizes.pop()):
        own = [
            None if part is None else client.compute(part[number], workers=addresses)
            for part in parts
        ]
        piece = columns._replace(name=f"partition {number}")
        futures.append(client.submit(_load_partition, piece, *own, workers=addresses, pure=False))
    return futures


def _load_partition(piece: Piece, X: Any, y: Any, qid: Any, weights: Any) -> Loaded:
    if not hasattr(X, "columns"):
        return _load(piece._replace(source=(X, y, qid, weights)))
    added = {piece.labels[0]: y, piece.qid: qid, "__weight__": weights}
    arrays = {name: np.asarray(values) for name, values in added.items() if values is not None}
    piece = piece._replace(weight=piece.weight if weights is None else "__weight__")
    if wrong := [name for name, values in arrays.items() if values.shape != (len(X),)]:
        raise ValueError(
            f"{_here(piece)}: {wrong[0]} has shape {arrays[wrong[0]].shape} for {len(X)} rows; give collections with "
            "the same partitions."
        )
    return _load(piece._replace(source=X.assign(**arrays)))


def _load(piece: Piece) -> Loaded:
    return load(piece._replace(name=_here(piece)))


def _here(piece: Piece) -> str:
    """What errors call a piece: the worker that reads it, and its file or partition."""
    from distributed import get_worker

    return f"worker {get_worker().name}, {piece.name}"


def on_worker(client: Any, worker: Worker, function: Callable[..., Any], *arguments: Any) -> Any:
    """Run a function on one worker; returns the future of its result."""
    return client.submit(
        function,
        *arguments,
        workers=[worker.address],
        allow_other_workers=False,
        pure=False,
        retries=0,
    )


def anywhere(
    client: Any, workers: Sequence[Worker], function: Callable[..., Any], *arguments: Any
) -> Any:
    """Run a function on the worker that has most of its arguments."""
    return client.submit(
        function, *arguments, workers=[worker.address for worker in workers], pure=False
    )


def results(
    client: Any, workers: Sequence[Worker], futures: Sequence[Any], what: str = ""
) -> list[Any]:
    """Wait for results; raise the error of one, or `LostWorker`.

    With ``what``, an error that is not of this package's own, as that of a partition which Dask cannot compute, is one
    that names it and its number.
    """
    try:
        _wait(client, workers, futures, None)
    except LostWorker:
        raise
    except Exception as error:
        failed = [number for number, future in enumerate(futures) if future.status == "error"]
        if not what or not failed or str(error).startswith("worker "):
            raise
        raise ValueError(
            f"{what} {failed[0]} cannot be computed: {type(error).__name__}: {error}"
        ) from None
    return list(client.gather(list(futures)))


class Mailbox:
    """Messages from a worker to the client, and the wish to stop to the worker."""

    def __init__(self, client: Any) -> None:
        from distributed import Event, Queue

        name = f"rankwright-{uuid.uuid4().hex}"
        self.name = name
        self._queue, self._event = Queue(name, client=client), Event(f"{name}-stop", client=client)

    def messages(self, seconds: float) -> Iterator[tuple[str, Any]]:
        """Yield what has arrived, or wait for a while if nothing has: a wait in Dask would be logged as an error."""
        if not self._queue.qsize():
            time.sleep(seconds)
        while self._queue.qsize():
            yield pickle.loads(self._queue.get())

    def stop(self) -> None:
        """Ask the worker to end training."""
        self._event.set()


class Sender:
    """The worker's end of a `Mailbox`."""

    def __init__(self, name: str) -> None:
        from distributed import Event, Queue, get_client

        client = get_client()
        self._queue, self._event = Queue(name, client=client), Event(f"{name}-stop", client=client)

    def report(self, kind: str, content: Any) -> None:
        """Send a message."""
        self._queue.put(pickle.dumps((kind, content)))

    def stopped(self) -> bool:
        """Whether the client wants training to end."""
        return bool(self._event.is_set())


def together(
    client: Any,
    workers: Sequence[Worker],
    function: Callable[..., Any],
    arguments: Sequence[tuple[Any, ...]],
    on_message: Callable[[str, Any], bool] | None = None,
) -> Any:
    """Run a function on all workers at once, as machines that can add up; returns the result of the first.

    It is called with its arguments, then (tracker, number) and, with ``on_message``, the name of a mailbox.
    ``on_message`` takes messages, and returns whether training shall end. A first Ctrl-C ends it in the same way, with
    the message ``"interrupted"``.
    """
    tracker = start_tracker(len(workers), _own_address(client))
    mailbox = None if on_message is None else Mailbox(client)
    futures = []
    try:
        for number, (worker, own) in enumerate(zip(workers, arguments, strict=True)):
            place = (tracker.worker_args(), number)
            more = () if mailbox is None else (mailbox.name,)
            futures.append(on_worker(client, worker, function, *own, place, *more))

        def look(seconds: float) -> None:
            assert mailbox is not None
            assert on_message is not None
            for kind, content in mailbox.messages(seconds):
                if on_message(kind, content):
                    mailbox.stop()

        try:
            _wait(client, workers, futures, None if mailbox is None else look)
        except KeyboardInterrupt:
            if mailbox is None or on_message is None:
                raise
            mailbox.stop()
            on_message("interrupted", None)
            _wait(client, workers, futures, look)
        if mailbox is not None:
            look(0.01)
        return futures[0].result()
    except BaseException:
        if mailbox is not None:
            with suppress(Exception):
                mailbox.stop()
        _stop(client, workers, futures)
        raise
    finally:
        with suppress(Exception):
            tracker.free()


def _own_address(client: Any) -> str:
    from distributed.comm import get_address_host
    from distributed.utils import get_ip

    host = get_address_host(client.scheduler.address)
    return "127.0.0.1" if host in ("127.0.0.1", "localhost") else str(get_ip(host))


def _wait(
    client: Any,
    workers: Sequence[Worker],
    futures: Sequence[Any],
    look: Callable[[float], None] | None,
) -> None:
    """Wait until all futures are done; raise the error of one, or `LostWorker`."""
    looked = time.perf_counter()
    while not all(future.status == "finished" for future in futures):
        if look is None:
            time.sleep(0.02)
        else:
            look(0.2)
        if any(future.status in ("error", "lost", "cancelled") for future in futures):
            _raise_for(client, workers, futures)
        if time.perf_counter() - looked >= _SECONDS_BETWEEN_LOOKS:
            looked = time.perf_counter()
            if gone := _missing(client, workers):
                raise LostWorker(f"worker {gone[0].name} ({gone[0].address}) is gone")


@contextmanager
def noticing_losses(client: Any, workers: Sequence[Worker]) -> Iterator[None]:
    """Turn whatever goes wrong while a worker is lost into `LostWorker`."""
    try:
        yield
    except (LostWorker, ValueError):
        raise
    except Exception as error:
        time.sleep(_SECONDS_BETWEEN_LOOKS)  # the scheduler may not know yet
        if gone := _missing(client, workers):
            raise LostWorker(f"worker {gone[0].name} ({gone[0].address}) is gone") from error
        raise


def _missing(client: Any, workers: Sequence[Worker]) -> list[Worker]:
    present = set(client.nthreads())
    return [worker for worker in workers if worker.address not in present]


def _raise_for(client: Any, workers: Sequence[Worker], futures: Sequence[Any]) -> None:
    """Raise what explains the failure: an error of a worker's own, or the loss of one."""
    deadline = time.perf_counter() + _SECONDS_TO_NOTICE
    while time.perf_counter() < deadline:
        for future in futures:
            error = future.exception() if future.status == "error" else None
            if error is None or isinstance(error, ConnectionError | TimeoutError):
                continue
            if type(error).__name__ in ("KilledWorker", "CommClosedError", "CancelledError"):
                raise LostWorker(str(error))
            raise error
        if gone := _missing(client, workers):
            raise LostWorker(f"worker {gone[0].name} ({gone[0].address}) is gone")
        time.sleep(0.1)
    raise LostWorker("the workers lost their connection to each other")


def _stop(client: Any, workers: Sequence[Worker], futures: Sequence[Any]) -> None:
    """Wait for workers that are left to notice; those that do not are restarted."""
    if not futures:
        return
    present = {worker.address for worker in workers} - {
        worker.address for worker in _missing(client, workers)
    }
    deadline = time.perf_counter() + _SECONDS_TO_STOP
    while time.perf_counter() < deadline:
        busy = {
            worker.address
            for worker, future in zip(workers, futures, strict=False)
            if future.status == "pending" and worker.address in present
        }
        if not busy:
            break
        time.sleep(0.1)
    with suppress(Exception):
        client.cancel(list(futures), force=True)
    if busy:
        with suppress(Exception):
            client.restart_workers(sorted(busy), timeout=_SECONDS_TO_STOP)
