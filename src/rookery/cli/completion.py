"""Values that a shell completes: algorithms and environments. PyTorch is not imported for them."""

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
