"""Which RLlib a script was written for: that of 2021, or 2.x; some names mean other things in each."""

from __future__ import annotations

from collections.abc import Iterable

OF_2021 = ("ray.rllib.agents", "ray.rllib.contrib")
"""Packages that only RLlib of 2021 has."""

OF_2_X = (
    "ray.air", "ray.train", "ray.tune.Tuner", "ray.tune.TuneConfig", "ray.tune.RunConfig", "ray.tune.tuner",
    "ray.rllib.algorithms", "ray.rllib.callbacks", "ray.rllib.connectors", "ray.rllib.core", "ray.rllib.utils.metrics",
    "ray.rllib.examples.envs", "ray.rllib.examples.rl_modules", "ray.rllib.examples.utils",
)  # fmt: skip
"""Packages that only RLlib 2.x has."""

NAMES = {False: "RLlib of 2021", True: "RLlib 2.x"}


class _Script:
    """The script that runs in this process."""

    is_2_x: bool | None = None
    imported = ""


def begin() -> None:
    """Forgets the script that ran in this process before."""
    _Script.is_2_x, _Script.imported = None, ""


def is_decided() -> bool:
    """Returns whether the script has imported a name that only one RLlib has."""
    return _Script.is_2_x is not None


def is_2_x() -> bool:
    """Returns whether the script was written for RLlib 2.x."""
    return bool(_Script.is_2_x)


def note_import(paths: Iterable[str], later: Iterable[str] = ()) -> None:
    """Records what a script imports.

    Args:
        paths: Dotted paths of modules and names.
        later: Those of them that only RLlib 2.x has, wherever they are.

    Raises:
        ImportError: If one of them belongs to another RLlib than an earlier import.
    """
    for path in paths:
        for packages, is_later in ((OF_2021, False), ((*OF_2_X, *later), True)):
            if not any(path == package or path.startswith(f"{package}.") for package in packages):
                continue
            if _Script.is_2_x not in (None, is_later):
                raise ImportError(
                    f"{path} is a name of {NAMES[is_later]}, and {_Script.imported}, imported before, one of "
                    f"{NAMES[not is_later]}: defaults, result keys and environments differ, so a process runs scripts "
                    "of one of them; run the other in a process of its own"
                )
            if _Script.is_2_x is None:
                _Script.is_2_x, _Script.imported = is_later, path
