"""Locks on folders: of two processes that want to write to one folder, the second is told about the first."""

from __future__ import annotations

import errno
import logging
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows: a file that is open there cannot be removed, which is lock enough
    fcntl = None

_LOG = logging.getLogger("rankwright")
_UNSUPPORTED = (
    errno.ENOLCK,
    errno.ENOSYS,
    errno.EOPNOTSUPP,
    errno.EINVAL,
)  # some network file systems have no locks
_HELD: set[int] = set()  # descriptors of the locks of this process


@contextmanager
def locked_folder(folder: Path, purpose: str) -> Iterator[None]:
    """Hold the lock of a folder, which need not exist; raise ValueError that names the holder where another has it.

    The lock is one of the operating system on a hidden file beside the folder, so it ends with the process that holds
    it, however that ends. Locks of threads of one process exclude each other too.

    Parameters
    ----------
    folder
        What to lock.
    purpose
        What the holder does, for the error message of others: ``"a training"``.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place, locked_folder(Path(place, "run"), "a training"):
    ...     sorted(file.name for file in Path(place).iterdir())
    ['.run.lock']
    """
    target = folder.resolve()
    beside = target.with_name(f".{target.name}.lock")
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        file, descriptor = beside, _acquire(beside, folder)
    except PermissionError:  # a folder that was handed to us in a place that is not ours
        if not target.is_dir():
            raise
        file = target / ".lock"
        descriptor = _acquire(file, folder)
    _HELD.add(descriptor)
    try:
        holder = f"{purpose} in process {os.getpid()} on {platform.node()}, since {datetime.now():%Y-%m-%d %H:%M}"
        with suppress(OSError):  # on a full disk the lock holds, but does not say who has it
            os.ftruncate(descriptor, 0)
            os.write(descriptor, holder.encode())
        yield
    finally:
        if descriptor in _HELD:  # not in a process that was forked meanwhile
            file.unlink(missing_ok=True)
            _HELD.discard(descriptor)
            os.close(descriptor)


def _acquire(file: Path, folder: Path) -> int:
    """Open and lock a file that is at its place when it is locked: the holder before may have removed it."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    while True:
        try:
            descriptor = os.open(file, flags, 0o666)
        except OSError as error:
            if error.errno == errno.ELOOP:  # a link at the place of the lock: not followed
                raise
            raise type(error)(
                error.errno, error.strerror, os.fspath(folder)
            ) from None  # which the user named
        try:
            _lock(descriptor, folder)
            if os.path.samestat(os.stat(file, follow_symlinks=False), os.fstat(descriptor)):
                return descriptor
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _lock(descriptor: int, folder: Path) -> None:
    if fcntl is None:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 1000, 0).decode(errors="replace") or "another process"
        raise ValueError(
            f"{folder} is in use by {holder}; wait until it has ended, or choose another folder."
        ) from None
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        _LOG.warning(
            "%s cannot be locked (%s): let no two trainings write to it at once",
            folder,
            error.strerror,
        )


def _after_fork() -> None:
    """Let go of the parent's locks, which would otherwise last as long as this process."""
    for descriptor in _HELD:
        os.close(descriptor)
    _HELD.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
