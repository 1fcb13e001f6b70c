"""Values that a shell completes: algorithms, environments and settings. PyTorch is not imported for them."""

from __future__ import annotations

from collections.abc import Iterator


def algorithms(incomplete: str) -> Iterator[str]:
    """Yields the names of algorithms that begin with a text."""
    from rookery.algorithms.names import ALGORITHMS

    return (name for name in ALGORITHMS if name.startswith(incomplete))


def environments(incomplete: str) -> Iterator[str]:
    """Yields environments that begin with a text: bundled ones, and the newest version of each of Gymnasium's."""
    from rookery.envs.adapters.bundled import OURS
    from rookery.envs.adapters.gym_ids import newest_ids

    return (name for name in (*OURS, *newest_ids()) if name.startswith(incomplete))


def paths(incomplete: str) -> Iterator[str]:
    """Yields the paths and short names of settings and sections that begin with a text."""
    from rookery.core.settings.short_paths import known_paths, paths_by_end

    full = (path.removesuffix(".") for path in known_paths())
    short = (name for name, found in paths_by_end().items() if len(found) == 1)
    return (path for path in (*full, *short) if path.startswith(incomplete))


def overrides(incomplete: str) -> Iterator[str]:
    """Yields the beginnings of overrides that begin with a text, as ``algorithm.lr=`` and ``lr=``."""
    from rookery.core.settings.short_paths import full_path, known_paths

    known = {path for path in known_paths() if not path.endswith(".") and ".NAME." not in path}
    return (f"{path}=" for path in paths(incomplete) if (path in known or full_path(path) in known))


def words(incomplete: str) -> Iterator[str]:
    """Yields words of the command line of a training that begin with a text: environments, and overrides."""
    yield from environments(incomplete)
    if incomplete:  # else they would hide the environments
        yield from overrides(incomplete)
