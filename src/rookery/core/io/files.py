"""Atomic writes of files and directories, for all checkpoints and records of a run.

A directory is written under a temporary name, each file is flushed to the disk, a manifest with sizes and SHA-256
hashes comes last, and one rename makes it visible. A directory that it replaces is moved aside first and removed last.
If this is interrupted, the former content stays complete (`core/io/leftovers.py`).

Large files are written in chunks (`Stream`), are hard links of the same file in later directories (`Linked`), and are
read as a memory map (`map_file`).
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import mmap
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, BinaryIO

from rookery.core.errors import RookeryError
from rookery.core.io.file_names import splits
from rookery.core.io.json_text import parse_json
from rookery.core.io.leftovers import aside_of, discard, locked, restore, restore_all, sweep, take_lock, temporary_in
from rookery.core.io.open_files import BINARY, NO_WAIT, replace_file, sync_folder
from rookery.core.io.signing import is_signed, signed
from rookery.core.settings.starting_folder import shown

MANIFEST = "manifest.json"
DIGEST = "sha256"
"""Key of a manifest for the hash of its other entries."""
FOLDER = "checkpoints"
"""Folder of checkpoints in the directory of a run."""

BEST = "best.json"
"""File in that folder with the name of the best checkpoint."""

NUMBERED = re.compile(r"(\d{6,})(?:-(\d+))?")
"""Names of a run's checkpoints: the iteration, and a number if there are several."""


UNLINKABLE = {errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS}
"""Error codes for which a file is copied instead of linked: another disk, a file system without links."""

MAPPED = "mapped"
"""Key of a manifest for files that are memory-mapped instead of being read with the others."""

PIECE = 1 << 24
"""Number of bytes copied at a time."""


LONGEST_NAME = 255
"""Maximum length of a file name in bytes; no common file system allows more."""

FEW = 5
"""Maximum number of directories listed in a message."""


class FileError(RookeryError):
    """A given file is missing, broken or changed since it was written."""

    exit_code = 2


class WriteError(FileError):
    """A file or folder could not be written."""

    exit_code = 1


@dataclass(frozen=True)
class Stream:
    """Content of a file in chunks, which are produced while writing.

    Attributes:
        size: Bytes, for the message that there is no room for them.
        chunks: Makes them anew at each call.
    """

    size: int
    chunks: Callable[[], Iterable[bytes | memoryview]]


@dataclass(frozen=True)
class Linked:
    """Existing file that never changes; it is hard-linked and needs no more space.

    Attributes:
        path: Where it lies.
        size: Its bytes.
        sha256: Its hash.
    """

    path: Path
    size: int
    sha256: str


Content = bytes | Stream | Linked


def write_file(path: Path, content: bytes) -> None:
    """Replaces a file atomically: if writing fails, the old content remains.

    Raises:
        FileError: If it cannot be written (disk full, no permission); names the file and the reason.
    """
    temporary, placed = temporary_in(path.parent), False
    try:
        _write(temporary, [content])
        replace_file(temporary, path)
        placed = True
        sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise _failed(path, error, len(content), placed) from error


def is_own(manifest: Mapping[str, Any]) -> bool:
    """Returns whether this user has written a directory, according to its manifest."""
    return is_signed(MANIFEST, {key: value for key, value in manifest.items() if key != DIGEST})


def make_folder(path: Path) -> None:
    """Creates a folder and its missing parents.

    Raises:
        FileError: If it cannot be made; the message has the reason.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WriteError(f"{path}: this folder cannot be made: {error.strerror or error}") from None


def write_directory(
    path: Path, files: Mapping[str, Content], facts: Mapping[str, Any], *, replace: bool = False
) -> None:
    """Writes a directory with all of `files` and a manifest atomically.

    Args:
        path: Path of the directory.
        files: Content of each file by name.
        facts: Further entries of the manifest.
        replace: Whether an existing directory is replaced as soon as the new one is whole; else there must be none.

    Raises:
        FileError: If it cannot be written; nothing of it is left unless the message says so.
    """
    if replace:
        restore(path)
        sweep(path.parent)
    temporary, placed = temporary_in(path.parent), False
    size = sum(
        len(one) if isinstance(one, bytes) else one.size for one in files.values() if not isinstance(one, Linked)
    )
    try:
        os.mkdir(temporary)
        with locked(temporary):
            listed = {name: _put(temporary / name, content) for name, content in files.items()}
            manifest = signed(MANIFEST, {**facts, "files": listed})
            _write(temporary / MANIFEST, [_with_digest(manifest)])
            sync_folder(temporary)
            with _moved_aside(path) if replace else contextlib.nullcontext():
                os.rename(temporary, path)
            placed = True
            sync_folder(path.parent)
        if replace:
            _remove_replaced(path)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)  # first, so that the message reports the free space afterwards
        raise _failed(path, error, size, placed) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def _moved_aside(path: Path) -> Iterator[None]:
    """Moves a directory aside for a new one, and back if the new one cannot be written."""
    if not path.exists():
        yield
        return
    _remove_replaced(path)
    with locked(path):
        os.rename(path, aside_of(path))
        try:
            yield
        except BaseException:
            os.rename(aside_of(path), path)
            raise


def _remove_replaced(path: Path) -> None:
    """Removes the directory that was replaced; if this fails, the next writer of the path does it."""
    if aside_of(path).exists():
        with contextlib.suppress(OSError):
            discard(aside_of(path))


def _put(path: Path, content: Content) -> dict[str, Any]:
    """Writes a file; returns its entry in the manifest."""
    if isinstance(content, bytes):
        size, sha256 = _write(path, [content])
        return {"bytes": size, "sha256": sha256}
    size, sha256 = _link(content, path) if isinstance(content, Linked) else _write(path, content.chunks())
    return {"bytes": size, "sha256": sha256, MAPPED: True}


def _link(content: Linked, path: Path) -> tuple[int, str]:
    """Creates a hard link to a file, or copies it if links are not possible; returns size in bytes and hash."""
    try:
        os.link(content.path, path)
        found = path.stat().st_size, content.sha256
    except OSError as error:
        if error.errno not in UNLINKABLE:
            raise
        found = _write(path, pieces_of(content.path))
    _compare(content.path, found, (content.size, content.sha256))
    return found


def pieces_of(path: Path) -> Iterator[bytes]:
    """Yields the content of a file."""
    with path.open("rb") as file:
        while chunk := file.read(PIECE):
            yield chunk


def open_file(path: Path) -> BinaryIO:
    """Opens a regular file for reading; refuses devices and pipes, since reading them may never end.

    Raises:
        OSError: If it cannot be opened, or is not a regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | BINARY | NO_WAIT)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        code = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
        raise OSError(code, os.strerror(code) if code == errno.EISDIR else "it is a device or a pipe")
    return os.fdopen(descriptor, "rb")


def read_content(path: Path) -> bytes:
    """Reads a file, as `open_file` opens it."""
    with open_file(path) as file:
        return file.read()


def read_manifest(path: Path) -> dict[str, Any]:
    """Reads the manifest of a directory; raises a FileError if it is missing or invalid."""
    file = path / MANIFEST
    try:
        content = read_content(file)
        manifest = parse_json(content)
    except FileNotFoundError:
        raise FileError(f"{path}: there is no {MANIFEST}: this is no checkpoint, or not all of one") from None
    except OSError as error:
        raise FileError(f"{file}: cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise FileError(f"{file}: cannot be understood: {error}") from None
    if not isinstance(manifest, dict) or not _lists_files(manifest.get("files")):
        raise FileError(f"{file}: is not the manifest of a checkpoint")
    if _with_digest({key: value for key, value in manifest.items() if key != DIGEST}) != content:
        raise FileError(f"{file}: its content is not what was written (SHA-256 differs)")
    return manifest


def _with_digest(manifest: Mapping[str, Any]) -> bytes:
    """Returns a manifest as text, with a hash of itself, which protects the hashes of the files."""
    digest = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
    return json.dumps({**manifest, DIGEST: digest}, indent=1, sort_keys=True).encode()


def _lists_files(files: Any) -> bool:
    return isinstance(files, dict) and all(
        Path(name).name == name and isinstance(facts, dict) and {"bytes", "sha256"} <= facts.keys()
        for name, facts in files.items()
    )


def _compare(path: Path, found: tuple[int, str], written: tuple[int, str]) -> None:
    """Raises a FileError if a file's size or hash differs from the manifest."""
    if found[0] != written[0]:
        raise FileError(f"{path}: has {found[0]} bytes where {written[0]} were written")
    if found != written:
        raise FileError(f"{path}: its content is not what was written (SHA-256 differs)")


def read_directory(path: Path) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Reads all files of a directory except those to be mapped, checks each hash, and returns them with the manifest.

    Raises:
        FileError: If anything is missing or changed; names the file and the difference.
    """
    manifest = read_manifest(path)
    files = {}
    for name, facts in manifest["files"].items():
        if facts.get(MAPPED):
            continue
        file = path / name
        try:
            content = read_content(file)
        except OSError as error:
            raise FileError(f"{file}: cannot be read: {error.strerror or error}") from None
        _compare(file, (len(content), hashlib.sha256(content).hexdigest()), (facts["bytes"], facts["sha256"]))
        files[name] = content
    return files, manifest


def map_file(file: Linked) -> memoryview:
    """Memory-maps a file after checking its hash.

    Raises:
        FileError: If it is missing or changed; names the difference.
    """
    try:
        with open_file(file.path) as opened:
            is_empty = not os.fstat(opened.fileno()).st_size
            content = memoryview(b"" if is_empty else mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise FileError(f"{file.path}: cannot be read: {error.strerror or error}") from None
    digest = hashlib.sha256()
    for start in range(0, len(content), PIECE):
        digest.update(content[start : start + PIECE])
        release(content.obj)
    _compare(file.path, (len(content), digest.hexdigest()), (file.size, file.sha256))
    return content


def release(mapped: object) -> None:
    """Releases the pages of a memory map, which take RAM again only when they are read."""
    if isinstance(mapped, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        with contextlib.suppress(OSError):
            mapped.madvise(mmap.MADV_DONTNEED)


def mapped_files(path: Path, manifest: Mapping[str, Any]) -> dict[str, Linked]:
    """Returns the files of a directory for `map_file`, by name; `read_directory` leaves them out."""
    mapped = {name: facts for name, facts in manifest["files"].items() if facts.get(MAPPED)}
    return {name: Linked(path / name, facts["bytes"], facts["sha256"]) for name, facts in mapped.items()}


def remove_directory(path: Path) -> None:
    """Removes a directory such that an interrupted removal leaves no directory that looks complete.

    Raises:
        FileError: If it cannot be removed; it is whole then.
    """
    try:
        discard(path)
    except OSError as error:
        raise WriteError(f"{path}: cannot be removed: {error.strerror or error}") from error


def _write(path: Path, chunks: Iterable[bytes | memoryview]) -> tuple[int, str]:
    """Writes a file and flushes it to the disk; returns its size in bytes and its hash."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY, 0o644)
    size, digest = 0, hashlib.sha256()
    try:
        take_lock(descriptor, 0.0)  # so that `sweep` leaves the file alone
        for chunk in chunks:
            digest.update(chunk)
            view = memoryview(chunk)
            size += len(view)
            while view:
                view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return size, digest.hexdigest()


def _failed(path: Path, error: OSError, size: int, placed: bool) -> WriteError:
    """Returns the error of a failed write; `placed` = it failed after the rename, so the new content exists."""
    reason = error.strerror or str(error)
    if placed:
        return WriteError(f"{path}: is written, but the disk did not confirm it ({reason}): a power cut may undo it")
    try:
        free = f" ({shutil.disk_usage(path.parent).free:,} are free there)"
    except OSError:
        free = ""
    before = "what was there before is unchanged"
    if not os.path.lexists(path) and aside_of(path).exists():
        before = f"what was there before is {aside_of(path)} now, and is put back when {path} is next read or written"
    failed = f"{size:,} bytes cannot be written: {reason}{free}" if size else f"cannot be written: {reason}"
    return WriteError(f"{path}: {failed}; {before}")


def beside(path: Path) -> str:
    """Returns a hint such as ``; did you mean data/walk?`` to a similar path where the given one does not exist; or an
    empty string.
    """
    missing = path
    while not missing.parent.is_dir():
        missing = missing.parent
    near = get_close_matches(missing.name, [one.name for one in missing.parent.iterdir()], n=1)
    meant = missing.parent.joinpath(*near) / path.relative_to(missing)
    return f"; did you mean {shown(meant)}?" if near and meant.exists() else ""


def find_checkpoint(path: Path) -> Path:
    """Returns the checkpoint at a path, or the last one of a run's directory; for ``RUN/checkpoints/best`` the best
    one, for ``RUN/checkpoints/last`` the last one.

    Raises:
        FileError: If there is none.
    """
    restore(path)
    if (path / MANIFEST).exists():
        return path
    if path.name == "best" and path.parent.name == FOLDER and (name := best_name(path.parent)):
        return path.parent / name
    if path.name == "last" and path.parent.name == FOLDER and (found := list_checkpoints(path.parent)):
        return found[-1]
    if path.is_dir() and path.parent.name == FOLDER and checkpoint_number(path.name):
        return path  # its manifest is lost, which readers will report
    found = list_checkpoints(path / FOLDER)
    if found:
        return found[-1]
    if not path.exists():
        raise FileError(f"{shown(path)}: there is no such run or checkpoint{beside(path)}")
    if path.is_file() and path.suffix == ".zip":
        raise FileError(
            f"{shown(path)}: is a file, and no run or checkpoint; models of Stable-Baselines3 are not read, because "
            "they contain pickles"
        )
    if path.is_file():
        raise FileError(
            f"{shown(path)}: is a file, and no run or checkpoint; recorded data become replay by rookery replay import "
            f"{shown(path)} -o DIRECTORY"
        )
    inside = sorted(str(shown(one.parent)) for one in path.glob(f"*/{MANIFEST}"))
    if inside:
        raise FileError(f"{shown(path)}: is no run and no replay directory; there are {', '.join(inside[:FEW])} in it")
    raise FileError(
        f"{shown(path)}: holds no checkpoint (none was written yet, or this is not the directory of a run); a loop of "
        "your own over iterations() writes them by trainer.save()"
    )


def best_name(folder: Path) -> str | None:
    """Returns the name of the best checkpoint; None if there is none."""
    try:
        name: str = parse_json(read_content(folder / BEST))["name"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    named = isinstance(name, str) and checkpoint_number(name) is not None
    return name if named and (folder / name).is_dir() else None


def checkpoint_number(name: str) -> tuple[int, int] | None:
    """Returns the sort key of a checkpoint's name: ``000012-1`` is (12, 1); None for other names."""
    match = NUMBERED.fullmatch(name)
    return (int(match[1]), int(match[2] or 0)) if match else None


def list_checkpoints(folder: Path) -> list[Path]:
    """Lists the finished checkpoints in a folder, oldest first, ordered by name and not by time."""
    if not folder.is_dir():
        return []
    restore_all(folder)
    numbered = {path: checkpoint_number(path.name) for path in folder.iterdir() if path.is_dir()}
    return [path for path, _ in sorted(((p, n) for p, n in numbered.items() if n), key=lambda pair: pair[1])]


def read_checkpoint_files(path: Path) -> tuple[Path, dict[str, bytes], dict[str, Any]]:
    """Returns the path of the checkpoint of `find_checkpoint`, its checked files except mapped ones, and its manifest.

    Raises:
        FileError: If there is none, or it is broken; names the last good one.
    """
    place = find_checkpoint(path)
    try:
        return place, *read_directory(place)
    except FileError as error:
        raise with_last_good(error, place) from None


def with_last_good(error: Exception, place: Path) -> FileError:
    """Returns the error with the name of the newest intact checkpoint beside `place`."""
    good = last_good(place.parent, besides=place)
    other = f"the last good checkpoint is {shown(good)}" if good else "there is no other checkpoint beside it"
    return FileError(f"{error}; {other}")


def last_good(folder: Path, besides: Path | None = None) -> Path | None:
    """Returns the newest intact checkpoint in a folder, after checking all bytes; `besides` is left out."""
    for path in reversed(list_checkpoints(folder)):
        if path == besides:
            continue
        try:
            _, manifest = read_directory(path)
            for file in mapped_files(path, manifest).values():
                map_file(file)
        except FileError:
            continue
        return path
    return None


def split_name(path: str | Path) -> tuple[Path, str | None]:
    """Splits a path and the policy named after a colon; an existing path is not split.

    The name may have colons and slashes itself where the part before it is an existing path.
    """
    text = str(path)
    if Path(text).exists():
        return Path(text), None
    found = splits(text)
    for before, name in found:
        if Path(before).exists():
            return Path(before), name
    before, name = found[0] if found else ("", "/")
    return (Path(text), None) if "/" in name or os.sep in name else (Path(before), name)
