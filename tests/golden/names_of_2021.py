"""The object behind each name of RLlib, Tune, gym and TensorFlow that a script of 2021 can import."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from public_api import described, object_lines, own_names
from rookery.compat.rllib.imports import EVERYTHING, _target, find, is_known, known, module
from rookery.compat.rllib.not_here import HINTS

ROOT = Path(__file__).parents[2]

TABLE = ROOT / "benchmarks" / "results" / "rllib-examples.md"
"""The scripts that were run, and what came of it."""

IMPORTS = Path(__file__).parent / "texts" / "imports-of-rllib-examples.txt"

NEEDS_KERAS = "tensorflow"
"""The package whose modules are there only where Keras is; what they hold is looked up without it."""


def names_of_2021() -> list[str]:
    """Returns each module and each name in it, with what it is here."""
    lines = []
    first: dict[frozenset[tuple[str, str]], str] = {}
    for path, entries in sorted(known()[0].items()):
        same = first.setdefault(frozenset(entries.items()), path)
        if entries and same != path:
            lines.append(f"{path}: module, with the names of {same}")
            continue
        lines.append(f"{path}: module")
        for name, target in sorted(entries.items()):
            if name == "__needs__":
                continue
            if name == EVERYTHING:
                lines += [f"{path}.{line}" for line in all_of(path, target)]
            else:
                lines.append(f"{path}.{name}: {stands_for(path, name, target)}")
    return lines


def stands_for(path: str, name: str, target: str) -> str:
    """Returns what a name stands for; of objects of other packages, where they are from."""
    place, _, attribute = target.partition(":")
    if place.startswith("="):
        if path.partition(".")[0] != NEEDS_KERAS:
            getattr(module(path), name)
        return f"{place[1:]}.{attribute}"
    if path.partition(".")[0] != NEEDS_KERAS:
        return described(getattr(module(path), name))
    with suppress(ImportError):
        _target(target)
    return f"needs keras, {attribute}"


def all_of(path: str, target: str) -> Iterator[str]:
    """Yields what stands for all names of a module that its table does not list."""
    place, _, attribute = target.partition(":")
    if place.startswith("=") or attribute:
        yield f"*: all of {attribute or place.removeprefix('=')}"
        return
    found = _target(target)
    for name in own_names(found):
        yield f"{name}: {described(getattr(found, name))}"


def api_of_rllib() -> list[str]:
    """Returns the classes and functions of ours behind names of 2021, with their members, as scripts call them."""
    found = [
        getattr(module(path), name)
        for path, entries in known()[0].items()
        for name, target in entries.items()
        if name != EVERYTHING and path.partition(".")[0] != NEEDS_KERAS and not target.startswith("=")
    ]
    return object_lines(found, hints=False)


def names_gone() -> list[str]:
    """Returns what is said of names that are not here, and of those whose use is refused."""
    return [
        *(f"{path}: {text}" for path, text in sorted(known()[1].items())),
        "",
        *(f"{name}: {text}" for name, text in HINTS.items()),
    ]


def tried() -> list[tuple[str, str, str]]:
    """Returns of each run of an example script: its name, its arguments, and whether it ran unedited."""
    rows = re.findall(r"^\| (\w+) \| ([^|]*?) ?\| (yes|no) \|", TABLE.read_text(encoding="utf-8"), re.M)
    return [(script, arguments.replace("`", "") or "no arguments", ran) for script, arguments, ran in rows]


def imports() -> dict[str, list[str]]:
    """Returns the names of 2021 that each example script of Ray 1.4 imports."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in IMPORTS.read_text(encoding="utf-8").splitlines():
        name, scripts = line.split(": ")
        for script in scripts.split():
            found[script].append(name)
    return found


def is_here(name: str) -> bool:
    """Returns whether a name can be imported."""
    if name.partition(".")[0] == NEEDS_KERAS:
        return is_known(name)
    try:
        find(name)
    except ImportError:
        return False
    return True


def example_scripts() -> list[str]:
    """Returns of each example script of RLlib how it ran, and which names it imports that are not here."""
    runs: dict[str, list[str]] = defaultdict(list)
    for script, arguments, ran in tried():
        runs[script].append(f"{'runs' if ran == 'yes' else 'does not run'} ({arguments})")
    lines = []
    for script, names in sorted(imports().items()):
        lines += [f"{script}: {run}" for run in runs.pop(script, ["not tried"])]
        lines += [f"{script}: imports {name}, which is not here" for name in names if not is_here(name)]
    return [*lines, *(f"{script}: no script of Ray 1.4" for script in runs)]
