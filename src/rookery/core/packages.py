"""Packages of this distribution: the engine, and two packages with the names of other systems.

The distribution is ``rookery-rl``. Another program is called ``rookery`` on the package index, and has a package and a
command of that name too, so both cannot be installed in one environment.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rookery.core.errors import ConfigError

OWN = ("rookery", "rookery_rllib", "rookery_mlagents")


def is_own(module: str) -> bool:
    """Returns whether a dotted module name is one of `OWN` or inside one."""
    return module.partition(".")[0] in OWN


DISTRIBUTION = "rookery-rl"
"""Name of the distribution on the package index; ``rookery`` there is an unrelated program."""


def extra(name: str) -> str:
    """Returns the requirement of an extra, such as ``rookery-rl[plot]``."""
    return f"{DISTRIBUTION}[{name}]"


def install_line(name: str) -> str:
    """Returns the command that installs an extra: ``pip install 'rookery-rl[plot]'``."""
    return f"pip install '{extra(name)}'"


@contextmanager
def needed(what: str, extra_name: str) -> Iterator[None]:
    """Context in which a package of an extra is imported.

    Args:
        what: What needs which package: ``HDF5 files need h5py``.
        extra_name: Name of the extra that has it.

    Raises:
        ConfigError: If it is not installed.
    """
    try:
        yield
    except ImportError:
        raise ConfigError(f"{what}: {install_line(extra_name)}") from None


REPAIR = f"pip uninstall -y rookery {DISTRIBUTION}, then pip install {DISTRIBUTION}"
"""Commands that leave only this distribution in an environment, regardless of the order of installation."""


def check_alone(folder: str) -> None:
    """Raises an error if an unrelated distribution ``rookery`` is installed in the folder of these packages.

    Args:
        folder: The folder of the packages; in an installation, ``site-packages``.

    Raises:
        ImportError: If there is one. The command ``rookery`` ends with that line instead.
    """
    try:
        entries = os.listdir(folder)
    except OSError:  # no folder: an archive
        return
    for entry in entries:
        if entry.startswith("rookery-") and entry.endswith(".dist-info") and not _is_ours(os.path.join(folder, entry)):
            problem = (
                f"another program, {entry.removesuffix('.dist-info')}, is installed over {DISTRIBUTION} in {folder} "
                f"and shares its package and command. Keep one of them: {REPAIR}"
            )
            if os.path.basename(sys.argv[0]).partition(".")[0] == "rookery":
                raise SystemExit(f"error: {problem}")
            raise ImportError(problem)


def _is_ours(metadata: str) -> bool:
    """Returns whether a metadata folder belongs to an older version of this distribution, installed or editable."""
    try:
        with open(os.path.join(metadata, "METADATA"), encoding="utf-8") as text:
            return "reinforcement learning" in text.read().lower()
    except OSError:
        return True  # an installation that is just removed
