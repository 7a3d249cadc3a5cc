"""Models as files: the engine's text and a manifest. Nothing in them is executed, and writing is atomic.

A model is a folder with ``model.txt`` and ``manifest.json``, or a ``.zip`` of the two. In a folder both files
are written beside their places first and then moved, the model before the manifest; should the process die
between the two moves, the new manifest is still there to complete the pair. So a crash leaves the old model or
the new one.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

FORMAT_VERSION = 1
MODEL, MANIFEST = "model.txt", "manifest.json"


def write_model(path: str | os.PathLike[str], text: str, manifest: dict[str, Any]) -> None:
    """Write a model; ``manifest`` gets the format version and the hash of the text."""
    target = Path(path)
    complete = {"format_version": FORMAT_VERSION, "model_sha256": _sha256(text), **manifest}
    described = json.dumps(complete, indent=1, sort_keys=True) + "\n"
    if target.suffix == ".zip":
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, part = tempfile.mkstemp(dir=target.parent, prefix=target.name, suffix=".part")
        os.close(handle)
        try:
            with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
                for name, content in ((MODEL, text), (MANIFEST, described)):
                    archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
            os.replace(part, target)
        except BaseException:
            os.unlink(part)
            raise
        return
    if target.exists() and not target.is_dir():
        raise ValueError(f"{target} is a file; a model is saved as a folder, or as a file that ends in .zip.")
    target.mkdir(parents=True, exist_ok=True)
    for name, content in ((MANIFEST, described), (MODEL, text)):
        with open(target / f"{name}.new", "w", encoding="utf-8", newline="\n") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
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
        candidates = [source / MANIFEST, source / f"{MANIFEST}.new"]
        manifests = [_parse(file.read_bytes(), file) for file in candidates if file.is_file()]
    else:
        try:
            with zipfile.ZipFile(source) as archive:
                text = _decode(archive.read(MODEL), source)
                manifests = [_parse(archive.read(MANIFEST), source)]
        except (zipfile.BadZipFile, KeyError, EOFError, OSError) as error:
            raise ValueError(f"{source} is not a saved model, or it is damaged: {error}.") from None
    if not manifests:
        raise ValueError(f"{source} is not a complete model: it has no {MANIFEST}. Save the model again.")
    for manifest in manifests:
        version = manifest.get("format_version")
        if not isinstance(version, int) or version < 1:
            raise ValueError(f"{source}: the manifest has no valid format_version; the file is damaged.")
        if version > FORMAT_VERSION:
            raise ValueError(
                f"{source} was written in format {version} by rankwright {manifest.get('rankwright', '?')}; this "
                f"version reads up to {FORMAT_VERSION}. Upgrade rankwright to load it."
            )
        if manifest.get("model_sha256") == _sha256(text):
            return text, manifest
    raise ValueError(
        f"{source}: {MODEL} does not have the hash that the manifest states; it was changed or damaged. "
        "Restore the file or save the model again."
    )


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _decode(content: bytes, file: Path) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise ValueError(f"{file} is not a text file; it was damaged.") from None


def _parse(content: bytes, file: Path) -> dict[str, Any]:
    try:
        manifest = json.loads(content)
    except ValueError:
        raise ValueError(f"{file}: the manifest is not valid JSON; it was cut off or damaged.") from None
    if not isinstance(manifest, dict):
        raise ValueError(f"{file}: the manifest is not a JSON object; it was damaged.")
    return manifest
