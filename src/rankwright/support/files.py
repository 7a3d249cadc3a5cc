"""Write files complete or not at all, and read text files, also gzip.

A new file is written under a hidden name, flushed to disk and then renamed.
"""

from __future__ import annotations

import errno
import gzip
import os
import re
import secrets
import shutil
import stat
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

PathLike = str | os.PathLike[str]

_GZIP_MAGIC = b"\x1f\x8b"
_READ_BYTES = 1 << 20
_PART = re.compile(r"\.[0-9a-f]{8}\.part$")
# Compression shrinks text of numbers to a tenth, or to a fiftieth if most numbers are equal. A file
# that unpacks to far more was made to harm.
UNPACKED_FREELY = 1 << 28  # bytes that any file may unpack to
UNPACKED_RATIO = 200  # larger files may unpack to this many times their size
UNPACKED_MOST = 1 << 36  # bytes that no file may exceed


def is_path(X: Any) -> bool:
    """Return True if data is given as files: a path, a pattern, or a list of them."""
    if isinstance(X, list | tuple):
        # A list of rows is data, and so is an empty list.
        return len(X) > 0 and all(isinstance(item, str | os.PathLike) for item in X)
    return isinstance(X, str | os.PathLike)


def require_arrow() -> None:
    """Raise ImportError, with the command that installs it, unless Parquet and CSV can be read and written."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise ImportError(
            "Parquet and CSV need pyarrow, which is not installed: pip install "
            '"rankwright[tables]". LETOR text, arrays and data frames need no extra.'
        ) from None


def part_of(path: PathLike) -> Path:
    """Return a new hidden name in the folder of ``path``, for a file that will replace it."""
    target = Path(path)
    # A random name keeps two processes that write the same file apart.
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")


def remove_parts(folder: Path) -> None:
    """Remove incomplete files of a process that was killed while it replaced a folder or its files.

    The caller holds the lock of the folder (`rankwright.support.locks`), so no other process writes
    there.
    """
    target = folder.resolve()
    # The name of the folder may hold signs of a pattern, so we compare it as text.
    beside = [
        path for path in target.parent.glob(".*.part") if path.name.startswith(f".{target.name}.")
    ]
    for part in [*beside, *target.glob(".*.part")]:
        # Users may have hidden files with this ending; ours have eight digits before it.
        if not _PART.search(part.name):
            continue
        if part.is_dir() and not part.is_symlink():
            shutil.rmtree(part)
        else:
            part.unlink(missing_ok=True)


@contextmanager
def replacing(path: PathLike) -> Iterator[IO[bytes]]:
    """Open a file that replaces ``path`` when it is complete; with gzip if the name ends in ``.gz``.

    A link is replaced, and the file that it points to stays. Pipes and devices, for example
    ``/dev/stdout``, are written to directly because a file in their place would be of no use.
    """
    target = Path(path)
    special = target.exists() and not target.is_file() and not target.is_dir()
    # Mode "x" never follows a link that was put there.
    part, mode = part_of(target), "xb"
    if special:
        part, mode = target, "wb"
    with naming(path, part):
        try:
            with open(part, mode) as file:
                if target.suffix == ".gz":
                    # We leave out time and name, so that equal content gives equal bytes.
                    with gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0) as packed:
                        yield packed  # type: ignore[misc]
                else:
                    yield file
                if not special:
                    sync(file)
            if not special:
                os.replace(part, target)
        finally:
            # After an error the incomplete file goes, and the old file stays.
            if not special:
                part.unlink(missing_ok=True)


@contextmanager
def naming(path: PathLike, part: Path | None = None) -> Iterator[None]:
    """Add the name of this file to errors of the operating system that have no name.

    A full disk is an example. Errors that name ``part``, the incomplete file, get the name of this
    file too.

    Examples
    --------
    >>> with naming("scores.csv"):
    ...     raise OSError(28, "No space left on device")
    Traceback (most recent call last):
    OSError: [Errno 28] No space left on device: 'scores.csv'
    """
    try:
        yield
    except OSError as error:
        names_part = part is not None and error.filename == str(part)
        # An error about another file keeps its own name.
        if error.errno is None or not (error.filename is None or names_part):
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None


def write_together(contents: Mapping[Path, bytes]) -> None:
    """Write several files, creating their folders, and move them in order when all are complete."""
    new_folders: list[Path] = []
    parts: dict[Path, Path] = {}
    try:
        for target, content in contents.items():
            new_folders += [
                folder for folder in (target.parent, *target.parent.parents) if not folder.exists()
            ]
            target.parent.mkdir(parents=True, exist_ok=True)
            part = parts[target] = part_of(target)
            with naming(target), open(part, "xb") as file:
                file.write(content)
                sync(file)
        # Every file is complete on disk now, so a full disk cannot leave half of them.
        for target, part in parts.items():
            os.replace(part, target)
    except BaseException:
        for part in parts.values():
            part.unlink(missing_ok=True)
        # Another process may use a folder that we made, so we remove only the empty ones.
        for folder in new_folders:
            if folder.exists() and not any(folder.iterdir()):
                folder.rmdir()
        raise


@contextmanager
def appending(path: PathLike) -> Iterator[IO[str]]:
    """Open a file to append text; raise OSError if it is a link, because a link could lead anywhere."""
    # Windows cannot refuse a link as it opens a file.
    if not hasattr(os, "O_NOFOLLOW") and Path(path).is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path))
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
    with naming(path), open(os.open(path, flags, 0o666), "a", encoding="utf-8") as file:
        yield file


def sync(file: IO[bytes]) -> None:
    """Make the operating system write its buffers to the disk."""
    file.flush()
    os.fsync(file.fileno())


def unpacked_limit(packed: int) -> int:
    """Return the number of bytes that a compressed file of this size may unpack to."""
    return min(max(UNPACKED_FREELY, UNPACKED_RATIO * packed), UNPACKED_MOST)


def check_unpacked(path: PathLike, length: int, remedy: str) -> None:
    """Raise ValueError if a file would take far more memory than its size."""
    if length > unpacked_limit(os.path.getsize(path)):
        raise ValueError(
            f"{path} would take {length / 2**30:.1f} GB of memory, which is more than "
            f"{UNPACKED_RATIO} times its size or too much in all. If that is meant, {remedy}."
        )


def read_plain(path: PathLike, most: int) -> bytes:
    """Read a file of at most this many bytes.

    Raise ValueError for a pipe, a device or a larger file, without waiting.
    """
    # Opening a pipe would wait for its writer, so we ask the system not to block.
    descriptor = os.open(
        path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    )
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise ValueError(
            f"{path} is not a plain file but a pipe, a device or a folder; it is not read."
        )
    with open(descriptor, "rb") as file:
        if status.st_size > most:
            raise ValueError(
                f"{path} has {status.st_size} bytes, more than the {most} that are read; it was "
                "damaged."
            )
        # Python allocates as many bytes as we ask for, so we ask for one more than the file has.
        content = file.read(status.st_size + 1)
    if len(content) > status.st_size:
        raise ValueError(f"{path} grew while it was read; wait until it is complete.")
    return content


def read_text(path: PathLike) -> bytearray:
    """Read a whole file, decompressed if it is gzip; a final newline is added if missing."""
    content = bytearray()
    for block, _ in unpacked_blocks(path):
        # A growing bytearray holds the content once; gzip.decompress would hold it twice.
        content += block
    if not content.endswith(b"\n"):
        content += b"\n"
    return content


def unpacked_blocks(path: PathLike, size: int = _READ_BYTES) -> Iterator[tuple[bytes, int]]:
    """Yield the content of a file in blocks, decompressed if it is gzip.

    Each block comes with the bytes of the file read so far. Raise ValueError, with the name of the
    file, if it is damaged or if gzip unpacks to far more than its size.
    """
    with open(path, "rb") as file:
        if stat.S_ISCHR(os.fstat(file.fileno()).st_mode) and not file.isatty():
            raise ValueError(f"{path} is a device, which may never end; give a file or a pipe.")
        packed = os.fstat(file.fileno()).st_size
        # The content decides, because names do not always end in .gz.
        is_gzip = file.peek(len(_GZIP_MAGIC)).startswith(_GZIP_MAGIC)
        stream = gzip.GzipFile(fileobj=file) if is_gzip else file
        length = 0
        try:
            while block := stream.read(size):
                length += len(block)
                # We check each block, because the size that a gzip file states may be a lie.
                if is_gzip and length > unpacked_limit(packed):
                    raise ValueError(
                        f"{path} unpacks to more than {length >> 20} MB, which is more than "
                        f"{UNPACKED_RATIO} times its size or too much in all. If that is meant, "
                        "unpack it and read the plain file."
                    )
                yield block, file.tell() if is_gzip else length
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(
                f"{path}: the gzip data is damaged or cut off ({error}). Copy or download the "
                "file again."
            ) from error
