"""Locks on folders: if two processes want to write to a folder, the second is told about the first."""

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
def locked_folder(folder: Path, purpose: str) -> Iterator[None]:
    """Hold the lock of a folder, which need not exist.

    Raise ValueError, with the name of the holder, if the lock is taken. The operating system holds
    the lock on a hidden file beside the folder, so the lock ends with its process, however the
    process ends. Threads of the same process exclude each other too.

    Parameters
    ----------
    folder
        Folder to lock.
    purpose
        Work of the holder, for the error message that other processes get: ``"a training"``.

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
        lock = _acquire(beside, folder)
    except PermissionError:
        # The folder may be ours in a place that is not: then the lock goes inside.
        if not target.is_dir():
            raise
        lock = _acquire(target / ".lock", folder)
    owner = os.getpid()
    file = Path(lock.lock_file)
    try:
        # If this cannot be written, for example on a full disk, the lock holds without a name.
        with suppress(OSError):
            file.write_text(
                f"{purpose} in process {owner} on {platform.node()}, "
                f"since {datetime.now():%Y-%m-%d %H:%M}"
            )
        yield
    finally:
        # A process that was forked meanwhile must leave its parent's lock alone.
        if os.getpid() == owner:
            # We remove the file while we still hold it, so that it cannot be the next holder's.
            with suppress(OSError):
                file.unlink(missing_ok=True)
            lock.release()


def _acquire(file: Path, folder: Path) -> FileLock:
    """Lock a file; raise ValueError if another process or thread has it."""
    # We do not wait, because the holder may train for hours.
    lock = FileLock(file, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        # The holder may not have written its name yet.
        holder = "another process"
        with suppress(OSError):
            holder = file.read_text(errors="replace")[:1000] or holder
        raise ValueError(
            f"{folder} is in use by {holder}; wait until it has ended, or choose another folder."
        ) from None
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        # Without locks training is still possible, so this is a warning.
        _LOG.warning(
            "%s cannot be locked (%s): let no two trainings write to it at once",
            folder,
            error.strerror,
        )
    return lock
