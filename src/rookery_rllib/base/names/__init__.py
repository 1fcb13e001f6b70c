"""Objects behind the names of RLlib, Tune, gym and TensorFlow: two texts for each area.

`NAMES` is read by `names_in`. An entry starts without indentation with modules of 2021. Modules of this package follow,
each with a colon and the names that it provides::

    ray.rllib.env.vector_env  env.envs: VectorEnv _VectorizedGymEnv=VectorOfOldEnvs

- ``Name=OtherName``: the object has another name here.
- ``module.Name``: a name in a module below that of 2021.
- ``=gymnasium.spaces: Box``: a name in an installed package.
- ``.module: Name``: a name from a submodule of 2021 with an earlier entry; ``.module: *`` takes all of its names,
  ``.*: *`` those of all submodules.
- ``gym.logger: *``: names that are not listed are looked up in this module.

`GONE` is read by `gone_in`: a package of 2021 without indentation, below it unsupported names, and after a colon their
purpose and replacement, or only the reason.
"""

from __future__ import annotations

EVERYTHING = "*"
"""All names of a module."""


def names_in(text: str) -> dict[str, dict[str, str]]:
    """Returns the targets of names, ``module:Name``, by module of 2021."""
    names: dict[str, dict[str, str]] = {}
    paths: list[str] = []
    source = ""
    for line in text.splitlines():
        if line and not line.startswith(" "):
            paths, source = [], ""
        for word in line.split():
            if word.endswith(":"):
                source = word[:-1]
            elif source:
                for path in paths:
                    _add(names, path, source, word)
            else:
                paths.append(word)
    return names


def _add(names: dict[str, dict[str, str]], path: str, source: str, word: str) -> None:
    """Adds the target of one word of an entry to the names of a module of 2021."""
    place, _, here = word.partition("=")
    home, _, name = f"{path}.{place}".rpartition(".")
    entries = names.setdefault(home, {})
    if not source.startswith("."):
        entries[name] = f"{source}:{here or ('' if name == EVERYTHING else name)}"
    elif name != EVERYTHING:
        entries[name] = names[path + source][name]
    elif source == ".*":
        for other in [other for other in names if other.startswith(f"{path}.")]:
            entries.update(names[other])
    else:
        entries.update(names[path + source])


def gone_in(text: str) -> dict[str, str]:
    """Returns the texts of unsupported names, by their paths of 2021."""
    entries: list[tuple[str, str]] = []
    package = ""
    for line in text.splitlines():
        if line.startswith(" " * 8):
            entries[-1] = (package, f"{entries[-1][1]} {line.strip()}")
        elif line.startswith(" "):
            entries.append((package, line.strip()))
        elif line:
            package = line
    gone: dict[str, str] = {}
    for package, entry in entries:
        paths, _, reason = entry.partition(": ")
        gone.update((f"{package}.{path}", reason) for path in paths.split())
    return gone
