"""Which setting was meant by one that does not exist: a slip of the finger, another section, another library's name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from itertools import takewhile

from rookery.core.settings.other_names import OTHER_NAMES


def suggestion(path: str, known: Iterable[str]) -> str:
    """Gives a hint such as ``; did you mean 'algorithm.lr'?``, or an empty text where nothing known is close.

    Args:
        path: What was written.
        known: Paths of the settings there are.
    """
    section, _, name = path.rpartition(".")
    paths = dict.fromkeys(".".join(p.split(".")[:n]) for p in known for n in range(1, p.count(".") + 2))
    here = [p.rpartition(".")[2] for p in paths if p.rpartition(".")[0] == section]
    everywhere = {p.rpartition(".")[2] for p in paths}
    ending = _by_ending(paths)
    elsewhere = {other: found for other, ours in OTHER_NAMES.items() if (found := _first(ending, ours))}
    meant: list[str] = []
    if name in everywhere:
        meant = ending[name]
    elif name in elsewhere or name not in OTHER_NAMES:  # else it is known, and there is no such thing here
        similar = get_close_matches(name, [*here, *elsewhere], n=1) or get_close_matches(name, everywhere, n=1)
        own = bool(similar) and similar[0] in everywhere
        meant = ending[similar[0]] if own else [p for other in similar for p in elsewhere[other]]

    def distance(other: str) -> tuple[int, int, int]:
        shared = takewhile(lambda pair: pair[0] == pair[1], zip(section.split("."), other.split("."), strict=False))
        return -len(list(shared)), other.count("."), len(other)

    nearest_first = sorted(meant, key=distance)
    return f"; did you mean {nearest_first[0]!r}?" if nearest_first else ""


def _by_ending(paths: Iterable[str]) -> dict[str, list[str]]:
    """Gives the paths by each of their ends, of one name or more."""
    found: dict[str, list[str]] = {}
    for path in paths:
        names = path.split(".")
        for n in range(len(names)):
            found.setdefault(".".join(names[n:]), []).append(path)
    return found


def _first(ending: Mapping[str, list[str]], ends: Iterable[str]) -> list[str]:
    """Gives the paths that end in the first of `ends` in which any does."""
    return next((ending[end] for end in ends if end in ending), [])
