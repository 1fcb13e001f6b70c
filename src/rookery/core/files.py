"""Files that are whole or not there: every checkpoint and every small record of a run is written through here.

A directory is written beside its final place, each file is flushed to the disk, a manifest with sizes and SHA-256
hashes comes last, and one rename makes it visible. Whatever happens in between, what was there before stays complete.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rookery.core.errors import RookeryError

MANIFEST = "manifest.json"
TEMPORARY = ".tmp-"
"""What the names of unfinished directories and files begin with; nothing else is ever cleaned away."""


class FileError(RookeryError):
    """A file could not be written, or is not what it was when it was written."""


def write_file(path: Path, content: bytes) -> None:
    """Replaces a file by one with new content, or leaves it as it was.

    Raises:
        FileError: If it cannot be written (disk full, no permission); says which file and why.
    """
    temporary = path.parent / f"{TEMPORARY}{os.getpid()}-{secrets.token_hex(4)}"
    try:
        _write(temporary, content)
        os.replace(temporary, path)
        _sync_directory(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise _failed(path, error) from error


def write_directory(path: Path, files: Mapping[str, bytes], facts: Mapping[str, Any]) -> None:
    """Makes a directory with all of `files` and a manifest, in one step.

    Args:
        path: Where; must not exist.
        files: Content by name.
        facts: What else the manifest says.

    Raises:
        FileError: If it cannot be written; nothing of it is left, and nothing else has changed.
    """
    temporary = path.parent / f"{TEMPORARY}{os.getpid()}-{secrets.token_hex(4)}"
    listed = {
        name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()} for name, content in files.items()
    }
    manifest = json.dumps({**facts, "files": listed}, indent=1, sort_keys=True).encode()
    try:
        temporary.mkdir()
        for name, content in {**files, MANIFEST: manifest}.items():
            _write(temporary / name, content)
        _sync_directory(temporary)
        os.rename(temporary, path)
        _sync_directory(path.parent)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise _failed(path, error) from error


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of a directory.

    Raises:
        FileError: If there is none, or it cannot be understood.
    """
    file = path / MANIFEST
    try:
        manifest = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileError(f"{path}: there is no {MANIFEST}: this is no checkpoint, or not all of one") from None
    except (OSError, ValueError) as error:
        raise FileError(f"{file}: cannot be read: {error}") from None
    if not isinstance(manifest, dict) or not isinstance(manifest.get("files"), dict):
        raise FileError(f"{file}: is not the manifest of a checkpoint")
    return manifest


def read_directory(path: Path) -> tuple[dict[str, bytes], dict[str, Any]]:
    """All files of a directory, each compared with its hash, and the manifest.

    Raises:
        FileError: If anything is missing or not what was written; says which file and how.
    """
    manifest = read_manifest(path)
    files = {}
    for name, facts in manifest["files"].items():
        file = path / name
        try:
            content = file.read_bytes()
        except OSError as error:
            raise FileError(f"{file}: cannot be read: {error.strerror or error}") from None
        if len(content) != facts["bytes"]:
            raise FileError(f"{file}: has {len(content)} bytes where {facts['bytes']} were written")
        if hashlib.sha256(content).hexdigest() != facts["sha256"]:
            raise FileError(f"{file}: its content is not what was written (SHA-256 differs)")
        files[name] = content
    return files, manifest


def remove_directory(path: Path) -> None:
    """Removes a directory so that, if it is interrupted, no half of it looks whole."""
    doomed = path.parent / f"{TEMPORARY}{os.getpid()}-{secrets.token_hex(4)}"
    os.rename(path, doomed)
    shutil.rmtree(doomed, ignore_errors=True)


def clean(parent: Path) -> None:
    """Removes what interrupted writes have left in `parent`; only names of our own temporary pattern."""
    for path in parent.glob(f"{TEMPORARY}*"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _write(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _failed(path: Path, error: OSError) -> FileError:
    try:
        free = f"; {shutil.disk_usage(path.parent).free:,} bytes are free there"
    except OSError:
        free = ""
    return FileError(f"{path}: cannot be written: {error.strerror or error}{free}; what was there before is unchanged")


def find_checkpoint(path: Path) -> Path:
    """The checkpoint a path means: itself, or the last whole one of a run.

    Args:
        path: A checkpoint, or the directory of a run.

    Raises:
        FileError: If there is none; a broken last one names the last good one.
    """
    if (path / MANIFEST).exists():
        return path
    folder = path / "checkpoints"
    found = list_checkpoints(folder)
    if found:
        return found[-1]
    if not path.exists():
        raise FileError(f"{path}: there is no such run or checkpoint")
    raise FileError(f"{path}: holds no checkpoint (none was written yet, or this is not the directory of a run)")


def list_checkpoints(folder: Path) -> list[Path]:
    """The finished checkpoints in a folder, oldest first; they are ordered by name, never by time."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(TEMPORARY))


def last_good(folder: Path) -> Path | None:
    """The newest checkpoint in a folder that is whole, every byte of it."""
    for path in reversed(list_checkpoints(folder)):
        try:
            read_directory(path)
        except FileError:
            continue
        return path
    return None
