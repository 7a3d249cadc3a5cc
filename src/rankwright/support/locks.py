"""Locks on folders and files: if two processes want to write to one, the second is told about the first."""

from __future__ import annotations

import errno
import logging
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout

_LOG = logging.getLogger("rankwright")
# Some network file systems have no locks.
_UNSUPPORTED = (errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL)


@contextmanager
def locked(path: Path, purpose: str) -> Iterator[None]:
    """Hold the lock of a folder or a file, which need not exist.

    Raise ValueError, with the name of the holder, if the lock is taken. The operating system holds
    the lock on a hidden file beside it, so the lock ends with its process, however the
    process ends. Threads of the same process exclude each other too.

    Parameters
    ----------
    path
        Folder or file to lock.
    purpose
        Work of the holder, for the error message that other processes get: ``"a training"``.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place, locked(Path(place, "run"), "a training"):
    ...     sorted(file.name for file in Path(place).iterdir())
    ['.run.lock']
    """
    target = path.resolve()
    beside = target.with_name(f".{target.name}.lock")
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        lock = _acquire(beside, path)
    except PermissionError:
        # The folder may be ours in a place that is not: then the lock goes inside.
        if not target.is_dir():
            raise
        lock = _acquire(target / ".lock", path)
    owner = os.getpid()
    file = Path(lock.lock_file)
    try:
        # If this cannot be written, for example on a full disk, the lock holds without a name.
        with suppress(OSError):
            file.write_text(
                f"{purpose} in process {owner} on {platform.node()}, "
                f"since {datetime.now():%Y-%m-%d %H:%M}",
                encoding="utf-8",
            )
        yield
    finally:
        # A process that was forked meanwhile must leave its parent's lock alone.
        if os.getpid() == owner:
            # We remove the file while we still hold it, so that it cannot be the next holder's.
            with suppress(OSError):
                file.unlink(missing_ok=True)
            lock.release()


def _acquire(file: Path, path: Path) -> FileLock:
    """Lock a file; raise ValueError if another process or thread has it."""
    # We do not wait, because the holder may train for hours.
    lock = FileLock(file, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        # The holder may not have written its name yet.
        holder = "another process"
        with suppress(OSError):
            holder = file.read_text(encoding="utf-8", errors="replace")[:1000] or holder
        raise ValueError(
            f"{path} is in use by {holder}; wait until it has ended, or choose another."
        ) from None
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        # Without locks training is still possible, so this is a warning.
        _LOG.warning(
            "%s cannot be locked (%s): let no two processes write to it at once",
            path,
            error.strerror,
        )
    return lock
