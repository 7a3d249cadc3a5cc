"""Models as files: the engine's trees and a manifest.

Loading executes no code of a model, and writing is atomic. A model is a folder with a file of trees
(``model.txt`` for LightGBM) and ``manifest.json``, or a ``.zip`` of the two. In a folder both files
are written beside their places first and then moved, the trees before the manifest. If the process
dies between the two moves, the new manifest is still there to complete the pair, and the next save
does so before it writes. So a crash leaves the old model or the new one.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from rankwright.support.files import PathLike, naming, read_plain, replacing, sync, unpacked_limit
from rankwright.support.other_libraries import kind_of_file

FORMAT_VERSION = 1
MANIFEST = "manifest.json"
# The name of a manifest that waits until its trees are in place.
_WAITING = f"{MANIFEST}.new"
# Larger files are damaged or made to harm, because no training writes as much.
_MOST_MANIFEST_BYTES = 1 << 28
_MOST_MODEL_BYTES = 1 << 32
# Characters of a file name, with at most four bytes each.
_LONGEST_NAME = 60


def write_model(path: PathLike, content: bytes, manifest: dict[str, Any], file_name: str) -> None:
    """Write a model, and add format version, file name and hash of the trees to the manifest."""
    target = Path(path)
    complete = {
        "format_version": FORMAT_VERSION,
        "model_file": file_name,
        "model_sha256": hashlib.sha256(content).hexdigest(),
        **manifest,
    }
    # We serialise before any file changes, because a value may be of a type that JSON lacks.
    description = (json.dumps(complete, indent=1, sort_keys=True, default=_plain) + "\n").encode()
    if target.suffix == ".zip":
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_dir():
            raise ValueError(
                f"{target} is a folder; choose another name for the file, or one without .zip."
            )
        with replacing(target) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in ((file_name, content), (MANIFEST, description)):
                # A ZipInfo without a time makes the file the same for the same model.
                archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
        return
    if target.exists() and not target.is_dir():
        raise ValueError(
            f"{target} is a file; a model is saved as a folder, or as a file that ends in .zip."
        )
    is_new = not target.exists()
    target.mkdir(parents=True, exist_ok=True)
    # Our new files would overwrite the manifest that an interrupted save has left.
    _complete_interrupted_save(target)
    new_files = {_WAITING: description, f"{file_name}.new": content}
    try:
        for name, data in new_files.items():
            (target / name).unlink(missing_ok=True)
            # Mode "x" never follows a link that was put there.
            with naming(target / name), open(target / name, "xb") as file:
                file.write(data)
                sync(file)
        # From here on the new manifest can complete the model, whatever happens.
        os.replace(target / f"{file_name}.new", target / file_name)
    except BaseException:
        # The disk may be full, for example. Leave the old model, unless the trees were moved.
        if _interrupted_save(target) is None:
            for name in new_files:
                (target / name).unlink(missing_ok=True)
            if is_new:
                target.rmdir()
        raise
    os.replace(target / _WAITING, target / MANIFEST)


def read_model(path: PathLike) -> tuple[bytes, dict[str, Any]]:
    """Read the trees and the manifest of a model, and check that they belong together."""
    source = Path(path)
    if not source.exists():
        raise FileNotFoundError(f"there is no model at {source}.")
    if source.is_dir():
        # A reader may not be allowed to write, so it reads the new manifest where it waits.
        manifest = _interrupted_save(source)
        if manifest is None:
            if not (source / MANIFEST).exists():
                raise ValueError(f"{source} is not a saved model: it has no {MANIFEST}.")
            manifest = _parse(source / MANIFEST)
        file_name = _model_file(manifest, source)
        if not (source / file_name).exists():
            raise ValueError(f"{source} is not a saved model: it has no {file_name!r}.")
        content = read_plain(source / file_name, _MOST_MODEL_BYTES)
    else:
        if not source.is_file():
            raise ValueError(
                f"{source} is not a saved model but a pipe or a device; it is not read."
            )
        _check_own(source)
        try:
            with zipfile.ZipFile(source) as archive:
                # A small archive must not fill the memory.
                limit = unpacked_limit(source.stat().st_size)
                manifest = _parse(
                    source, _unpack(archive, MANIFEST, min(limit, _MOST_MANIFEST_BYTES), source)
                )
                file_name = _model_file(manifest, source)
                content = _unpack(archive, file_name, min(limit, _MOST_MODEL_BYTES), source)
        except (zipfile.BadZipFile, zlib.error, KeyError, EOFError, OSError, RuntimeError) as error:
            raise ValueError(f"{source} is not a saved model, or it is damaged: {error}.") from None
    # The version comes before the hash: a newer format may have other fields.
    version = manifest.get("format_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ValueError(
            f"{source}: the manifest has no valid format_version; the file is damaged."
        )
    if version > FORMAT_VERSION:
        raise ValueError(
            f"{source} was written in format {version} by rankwright "
            f"{manifest.get('rankwright', '?')}; this version reads up to {FORMAT_VERSION}. Upgrade "
            "rankwright to load it."
        )
    if not _belongs(content, manifest):
        raise ValueError(
            f"{source}: {file_name} does not have the hash that the manifest states; it was changed "
            "or damaged. Restore the file or save the model again."
        )
    return content, manifest


def has_model(folder: PathLike) -> bool:
    """Return True if a folder holds a saved model.

    If the first save to a folder ended before it moved the trees, the folder holds no model.
    """
    return (Path(folder) / MANIFEST).exists() or _interrupted_save(Path(folder)) is not None


def _check_own(source: Path) -> None:
    """Raise ValueError if a file is known to be a model of another library."""
    if (source.parent / MANIFEST).exists():
        raise ValueError(f"{source} is a part of a saved model; give the folder {source.parent}.")
    kind = kind_of_file(source)
    if kind is not None:
        raise ValueError(
            f"{source} is {kind}, not a model of rankwright, which is a folder or a .zip. Load it "
            "with the library that wrote it; its scores can be a base_score or a system to compare."
        )


def _model_file(manifest: dict[str, Any], source: Path) -> str:
    name = manifest.get("model_file")
    # A name with folders in it could lead to any file of the machine.
    is_name = isinstance(name, str) and len(name) <= _LONGEST_NAME and Path(name).name == name
    if not is_name or name in ("", ".", "..", MANIFEST):
        raise ValueError(
            f"{source}: the manifest names {str(name)[:80]!r} as its model file; it was damaged."
        )
    return str(name)


def _unpack(archive: zipfile.ZipFile, name: str, most: int, source: Path) -> bytes:
    # The size that the archive states may be wrong, so we ask for a byte more than we allow.
    with archive.open(name) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(
            f"{source}: {name} unpacks to more than {most >> 20} MB; it was damaged, or made to "
            "harm."
        )
    return content


def _interrupted_save(folder: Path) -> dict[str, Any] | None:
    """Return the manifest of a save that moved its trees and then died."""
    try:
        manifest = _parse(folder / _WAITING)
        content = read_plain(folder / _model_file(manifest, folder), _MOST_MODEL_BYTES)
    except (OSError, ValueError):
        return None
    # Without the right hash the trees have not been moved yet, and the old manifest holds.
    if not _belongs(content, manifest):
        return None
    return manifest


def _complete_interrupted_save(folder: Path) -> None:
    if _interrupted_save(folder) is not None:
        os.replace(folder / _WAITING, folder / MANIFEST)


def _belongs(content: bytes, manifest: dict[str, Any]) -> bool:
    return bool(manifest.get("model_sha256") == hashlib.sha256(content).hexdigest())


def _parse(file: Path, content: bytes | None = None) -> dict[str, Any]:
    if content is None:
        content = read_plain(file, _MOST_MANIFEST_BYTES)
    return json_object(content, f"{file}: the manifest")


def json_object(content: bytes, called: object) -> dict[str, Any]:
    """Parse JSON; raise ValueError if it is not an object, because it was damaged."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        raise ValueError(f"{called} is not valid JSON; it was truncated or damaged.") from None
    if not isinstance(value, dict):
        raise ValueError(f"{called} is not a JSON object; it was damaged.")
    return value


def is_texts(values: Any) -> bool:
    """Return whether a value of a manifest is a list of texts."""
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def _plain(value: Any) -> Any:
    """Turn values of other types into types that JSON has."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise ValueError(
        f"a {type(value).__name__} ({value!r}) cannot be saved in {MANIFEST}; use text or numbers "
        "for parameters and categories."
    )
