"""Checkpoints in the layout of 2021: ``checkpoint_000031/checkpoint-31`` with its marker files, without any pickle.

    checkpoint_000031/.is_checkpoint                    marks the directory
    checkpoint_000031/checkpoint-31                     files of the trainable
    checkpoint_000031/checkpoint-31.tune_metadata       counters, as JSON

A dict that a trainable returns is written to one file: as JSON if that restores it exactly, else with tensors and
arrays in the format of ``torch.save`` that loads without running code.
"""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from rookery.face import ConfigError, FileError

MARKER = ".is_checkpoint"
"""File that makes a directory a checkpoint."""

METADATA = ".tune_metadata"
"""Suffix of the file with the counters."""

PICKLE = b"\x80"
"""First byte of every pickle since protocol 2."""

ZIP = b"PK"
"""First bytes of files of ``torch.save``."""


def make_checkpoint_dir(parent: str | os.PathLike[str], index: int | str) -> str:
    """Makes the directory of a checkpoint, ``checkpoint_000031``, with its marker; returns its path."""
    name = f"checkpoint_{index:06d}" if isinstance(index, int) else f"checkpoint_{index}"
    folder = Path(parent).expanduser() / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARKER).touch()
    return str(folder)


def finish_checkpoint(saved: Any, folder: str, facts: Mapping[str, Any]) -> str:
    """Writes the counters beside the files of a trainable, and returns the path for `restore`.

    Raises a ConfigError if `saved` is neither a path inside of `folder` nor a dict to be written there.
    """
    as_dict = isinstance(saved, Mapping)
    if as_dict:
        path = os.path.join(folder, "checkpoint")
        Path(path).write_bytes(packed_object(saved))
    elif isinstance(saved, str | os.PathLike):
        path = os.fspath(saved)
        if not Path(path).absolute().is_relative_to(Path(folder).absolute()):
            raise ConfigError(
                f"save_checkpoint returned {path!r}: must lie in the directory that it was given, {folder}"
            )
        if os.path.isdir(path):
            path = os.path.join(path, "")  # the counters go inside the directory, not beside it
    else:
        raise ConfigError(
            f"save_checkpoint returned {type(saved).__name__}: must return a path inside of its directory, or a dict"
        )
    Path(path + METADATA).write_text(json.dumps({**facts, "saved_as_dict": as_dict}, indent=1) + "\n", encoding="utf-8")
    return path


def located(path: str | os.PathLike[str]) -> str:
    """Returns the path before ``.tune_metadata``, of a file or its directory; raises a FileError if there is none."""
    given = Path(path).expanduser()
    text = os.path.join(str(given), "") if given.is_dir() else str(given)
    if Path(text + METADATA).is_file():
        return text
    beside = sorted(given.glob(f"*{METADATA}")) if given.is_dir() else []
    if len(beside) == 1:
        return str(beside[0]).removesuffix(METADATA)
    if beside:
        names = ", ".join(found.name.removesuffix(METADATA) for found in beside)
        raise FileError(f"{path}: holds several checkpoints; name one of {names}")
    inside = sorted(given.glob(f"checkpoint_*/*{METADATA}")) if given.is_dir() else []
    if inside:
        raise FileError(f"{path}: is the folder of a trial; name one of its checkpoints, such as {inside[-1].parent}")
    what = "has no counters beside it" if given.exists() else "is not there"
    raise FileError(f"{path}: {what} ({given.name}{METADATA}); give what save() returned, or the directory it lies in")


def read_metadata(path: str) -> dict[str, Any]:
    """Returns the counters of a checkpoint; raises a FileError if it was written by Ray itself, or is damaged."""
    content = Path(path + METADATA).read_bytes()
    if content.startswith(PICKLE):
        raise FileError(
            f"{path}: was written by Ray: a pickle, which runs code when it is read and holds objects of its own "
            "classes; it cannot be loaded here. Export the weights where that Ray is installed "
            "(numpy.savez of trainer.get_weights()), and set them here with trainer.set_weights"
        )
    try:
        facts = json.loads(content)
    except ValueError as error:
        raise FileError(f"{path}{METADATA}: is damaged: {error}") from None
    if not isinstance(facts, dict) or "iteration" not in facts:
        raise FileError(f"{path}{METADATA}: is not a file of counters")
    return facts


def checkpoint_directory(path: str | os.PathLike[str]) -> str:
    """Returns the directory with the marker above a path; raises a FileError if there is none."""
    given = Path(path).expanduser()
    start = given if given.is_dir() else given.parent
    for folder in (start, *start.parents):
        if (folder / MARKER).exists():
            return str(folder)
    raise FileError(f"{path}: is not in a checkpoint: no directory above it has a file {MARKER}")


def checkpoints_in(folder: str | os.PathLike[str]) -> list[tuple[int, str]]:
    """Returns (iteration, path to restore) of all complete checkpoints of a trial, oldest first."""
    found = []
    for marker in Path(folder).expanduser().glob(f"checkpoint_*/{MARKER}"):
        number = re.fullmatch(r"checkpoint_(\d+)", marker.parent.name)
        metadata = [path for path in marker.parent.rglob(f"*{METADATA}") if path.is_file()]
        if number and len(metadata) == 1:
            found.append((int(number[1]), str(metadata[0]).removesuffix(METADATA)))
    return sorted(found)


# --- dicts ------------------------------------------------------------------------------------------------------------


def packed_object(data: Any) -> bytes:
    """Writes numbers, texts, lists, dicts, arrays and tensors so that reading them runs no code.

    Raises:
        ConfigError: If it has an object of another type; the message names it.
    """
    try:
        text = json.dumps(data)
        if json.loads(text) == data:
            return text.encode()
    except (TypeError, ValueError):
        pass
    import torch

    buffer = io.BytesIO()
    try:
        torch.save(data, buffer)
        content = buffer.getvalue()
        unpacked_object(content)
    except Exception as error:  # pickling may raise anything
        why = " ".join(str(error).split())[:300]
        raise ConfigError(
            "save_checkpoint returned a dict with an object in it that cannot be read back without running code "
            f"({why}); write the object into a file of the directory that save_checkpoint is given, and return its path"
        ) from error
    return content


def unpacked_object(content: bytes) -> Any:
    """Reads what `packed_object` wrote; raises a FileError if it is a pickle or anything else."""
    if content.startswith(PICKLE):
        raise FileError("a pickle, which runs code when it is read; it was not written here, and is not read")
    if not content.startswith(ZIP):
        return json.loads(content)
    import numpy as np
    import torch

    numbers = [np.dtype, np.ndarray, *{type(np.dtype(code)) for code in "?bBhHiIlLqQefd"}]
    multiarray = import_module("numpy._core.multiarray")  # needed to load arrays and their numbers
    known: list[Any] = [*numbers, multiarray._reconstruct, multiarray.scalar]
    with torch.serialization.safe_globals(known):
        return torch.load(io.BytesIO(content), weights_only=True, map_location="cpu")
