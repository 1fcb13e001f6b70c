"""Checks that an actor on a node of Ray runs the same code of Rookery as this process: version and sources.

A function sent by value reads the actor's code, so that the node's copy of this library needs no support for it.
"""

from __future__ import annotations

import hashlib
import os
import socket
import sys
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import ray

import rookery
from rookery.core.errors import ConfigError
from rookery.core.packages import OWN

ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Code(NamedTuple):
    """The code of Rookery in a process.

    Attributes:
        node: Ray's id of the node, where the process is an actor.
        machine: Name of the machine.
        process: Number of the process.
        folder: Folder of the package.
        version: Version of the package.
        sources: Hash of its files in Python.
        compiled: Hash of its files in C and C++, which lie beside the kernels in a checkout; empty where they do not.
    """

    node: str
    machine: str
    process: int
    folder: str
    version: str
    sources: str
    compiled: str

    def __str__(self) -> str:
        return f"rookery {self.version} (sources {self.sources}{self.compiled and f', kernels {self.compiled}'})"


def code_here(actor: object = None) -> tuple[str, str, int, str, str, str, str]:
    """Returns the attributes of a `Code` of this process.

    Args:
        actor: The actor that is asked, where Ray calls this.
    """
    root = Path(rookery.__file__).parent
    folders = [root.with_name(name) for name in OWN]

    def found_by(*patterns: str) -> dict[str, Path]:
        paths = [path for folder in folders for pattern in patterns for path in folder.rglob(pattern)]
        return {path.relative_to(root.parent).as_posix(): path for path in paths}

    def hash_of(*patterns: str) -> str:
        paths = found_by(*patterns)
        found = hashlib.sha256()
        for name in sorted(paths):
            found.update(b"%s\0%s\0" % (name.encode(), paths[name].read_bytes()))
        return found.hexdigest()[:8]

    compiled = hash_of("*.cpp", "*.[ch]") if found_by("*.cpp") else ""
    node = "" if actor is None else str(ray.get_runtime_context().get_node_id())
    return node, socket.gethostname(), os.getpid(), str(root), rookery.__version__, hash_of("*.py"), compiled


@cache
def own_code() -> Code:
    """Returns the code of this process, as of the first call."""
    return Code(*code_here())


def ask_code(actor: Any) -> Any:
    """Requests an actor's code; returns Ray's reference, which is the argument of `checked`."""
    own_code()  # before files can change while this process runs
    return actor.__ray_call__.remote(code_here)


def checked(answer: tuple[str, str, int, str, str, str, str]) -> Code:
    """Returns the code that an actor runs.

    Raises:
        ConfigError: If it is not that of this process.
    """
    there, own = Code(*answer), own_code()
    compiled = len({there.compiled, own.compiled} - {""}) > 1
    if (there.version, there.sources) != (own.version, own.sources) or compiled:
        changed = (there.machine, there.folder, there.version) == (own.machine, own.folder, own.version)
        remedy = (
            "start again, since files were changed" if changed else "install the same version, from the same sources"
        )
        raise ConfigError(
            f"cluster: machine {there.machine} has {there} in {there.folder}, and this machine, {own.machine}, has "
            f"{own} in {own.folder}: {remedy}"
        )
    return there
