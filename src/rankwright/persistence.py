"""Models as files: the engine's text and a manifest. Nothing in them is executed, and writing is atomic.

A model is a folder with ``model.txt`` and ``manifest.json``, or a ``.zip`` of the two. In a folder both files
are written beside their places first and then moved, the model before the manifest; should the process die
between the two moves, the new manifest is still there to complete the pair, and the next save does so before
it writes. So a crash leaves the old model or the new one.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

FORMAT_VERSION = 1
MODEL, MANIFEST = "model.txt", "manifest.json"


def write_model(path: str | os.PathLike[str], text: str, manifest: dict[str, Any]) -> None:
    """Write a model; ``manifest`` gets the format version and the hash of the text."""
    target = Path(path)
    complete = {"format_version": FORMAT_VERSION, "model_sha256": _sha256(text), **manifest}
    described = json.dumps(complete, indent=1, sort_keys=True, default=_plain) + "\n"
    if target.suffix == ".zip":
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_dir():
            raise ValueError(f"{target} is a folder; choose another name for the file, or one without .zip.")
        part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
        try:
            with open(part, "wb") as file:
                with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
                    for name, content in ((MODEL, text), (MANIFEST, described)):
                        archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, target)
        finally:
            part.unlink(missing_ok=True)
        return
    if target.exists() and not target.is_dir():
        raise ValueError(f"{target} is a file; a model is saved as a folder, or as a file that ends in .zip.")
    is_new = not target.exists()
    target.mkdir(parents=True, exist_ok=True)
    _complete_an_interrupted_save(target)
    try:
        for name, content in ((MANIFEST, described), (MODEL, text)):
            with open(target / f"{name}.new", "w", encoding="utf-8", newline="\n") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
    except BaseException:  # a full disk, say: leave what was there before
        for name in (MANIFEST, MODEL):
            (target / f"{name}.new").unlink(missing_ok=True)
        if is_new:
            target.rmdir()
        raise
    os.replace(target / f"{MODEL}.new", target / MODEL)
    os.replace(target / f"{MANIFEST}.new", target / MANIFEST)


def read_model(path: str | os.PathLike[str]) -> tuple[str, dict[str, Any]]:
    """Read a model's text and manifest, and check that they belong together."""
    source = Path(path)
    if not source.exists():
        raise FileNotFoundError(f"there is no model at {source}.")
    if source.is_dir():
        if not (source / MODEL).is_file():
            raise ValueError(f"{source} is not a saved model: it has no {MODEL}.")
        text = _decode((source / MODEL).read_bytes(), source / MODEL)
        waiting = _waiting_manifest(source, text)
        manifest = waiting or (_parse(source / MANIFEST) if (source / MANIFEST).is_file() else None)
    else:
        try:
            with zipfile.ZipFile(source) as archive:
                text = _decode(archive.read(MODEL), source)
                manifest = _parse(source, archive.read(MANIFEST))
        except (zipfile.BadZipFile, zlib.error, KeyError, EOFError, OSError, RuntimeError) as error:
            raise ValueError(f"{source} is not a saved model, or it is damaged: {error}.") from None
    if manifest is None:
        raise ValueError(f"{source} is not a complete model: it has no {MANIFEST}. Save the model again.")
    version = manifest.get("format_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ValueError(f"{source}: the manifest has no valid format_version; the file is damaged.")
    if version > FORMAT_VERSION:
        raise ValueError(
            f"{source} was written in format {version} by rankwright {manifest.get('rankwright', '?')}; this "
            f"version reads up to {FORMAT_VERSION}. Upgrade rankwright to load it."
        )
    if manifest.get("model_sha256") != _sha256(text):
        raise ValueError(
            f"{source}: {MODEL} does not have the hash that the manifest states; it was changed or damaged. "
            "Restore the file or save the model again."
        )
    return text, manifest


def _waiting_manifest(folder: Path, text: str) -> dict[str, Any] | None:
    """Return the manifest of a save that moved its model and then died; anything else that waits is unfinished."""
    file = folder / f"{MANIFEST}.new"
    try:
        manifest = _parse(file)
    except (FileNotFoundError, ValueError):
        return None
    return manifest if manifest.get("model_sha256") == _sha256(text) else None


def _complete_an_interrupted_save(folder: Path) -> None:
    if (folder / MODEL).is_file() and _waiting_manifest(folder, (folder / MODEL).read_text("utf-8", "replace")):
        os.replace(folder / f"{MANIFEST}.new", folder / MANIFEST)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _decode(content: bytes, file: Path) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise ValueError(f"{file} is not a text file; it was damaged.") from None


def _parse(file: Path, content: bytes | None = None) -> dict[str, Any]:
    try:
        manifest = json.loads(file.read_bytes() if content is None else content)
    except ValueError:
        raise ValueError(f"{file}: the manifest is not valid JSON; it was cut off or damaged.") from None
    if not isinstance(manifest, dict):
        raise ValueError(f"{file}: the manifest is not a JSON object; it was damaged.")
    return manifest


def _plain(value: Any) -> Any:
    """Turn what JSON does not know into what it knows."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise ValueError(
        f"a {type(value).__name__} ({value!r}) cannot be saved in {MANIFEST}; use text or numbers for parameters and "
        "categories."
    )
