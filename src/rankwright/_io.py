"""Files that are written complete or not at all (a hidden file, flushed to disk, then renamed), and text, also gzip."""

from __future__ import annotations

import gzip
import os
import secrets
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

PathLike = str | os.PathLike[str]

_GZIP_MAGIC = b"\x1f\x8b"
_READ_BYTES = 1 << 20


def part_of(path: PathLike) -> Path:
    """Return a new hidden name in the folder of ``path``, for what will take its place."""
    target = Path(path)
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")


@contextmanager
def replacing(path: PathLike) -> Iterator[IO[bytes]]:
    """Open a file to write that takes the place of ``path`` once complete; gzip if so named."""
    target, part = Path(path), part_of(path)
    try:
        with open(part, "xb") as file:
            if target.suffix == ".gz":
                # Neither time nor name goes in, so that equal content is equal bytes.
                with gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0) as packed:
                    yield packed  # type: ignore[misc]
            else:
                yield file
            sync(file)
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


def write_together(contents: Mapping[Path, bytes]) -> None:
    """Write several files, creating their folders, and move them in order when all are complete."""
    new_folders: list[Path] = []
    parts: dict[Path, Path] = {}
    try:
        for target, content in contents.items():
            new_folders += [folder for folder in (target.parent, *target.parent.parents) if not folder.exists()]
            target.parent.mkdir(parents=True, exist_ok=True)
            part = parts[target] = part_of(target)
            with open(part, "xb") as file:
                file.write(content)
                sync(file)
        for target, part in parts.items():
            os.replace(part, target)
    except BaseException:
        for part in parts.values():
            part.unlink(missing_ok=True)
        for folder in new_folders:
            if folder.exists() and not any(folder.iterdir()):
                folder.rmdir()
        raise


def sync(file: IO[bytes]) -> None:
    """Make the operating system write what it still holds."""
    file.flush()
    os.fsync(file.fileno())


def read_text(path: PathLike) -> bytearray:
    """Read a whole file, decompressed if it is gzip; a final newline is added if missing."""
    content = bytearray()
    with open(path, "rb") as file:
        is_gzip = file.peek(len(_GZIP_MAGIC)).startswith(_GZIP_MAGIC)
        stream = gzip.GzipFile(fileobj=file) if is_gzip else file
        try:
            # A growing bytearray holds the content once, gzip.decompress twice.
            while block := stream.read(_READ_BYTES):
                content += block
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(
                f"{path}: the gzip data is damaged or cut off ({error}). Copy or download the file again."
            ) from error
    if not content.endswith(b"\n"):
        content += b"\n"
    return content
