"""Goals in observations, by the interface of Gymnasium-Robotics: ``achieved_goal`` and ``desired_goal`` of a Dict."""

from __future__ import annotations

from rookery.core.spaces.arrays import Leaf, ObsSpec

ACHIEVED, DESIRED = "achieved_goal", "desired_goal"
"""Paths of the goals in an observation."""


def goal_leaves(obs: ObsSpec) -> tuple[Leaf, Leaf] | None:
    """Returns the leaves of the achieved and of the desired goal; None if there are not two of the same shape."""
    found = {leaf.path: leaf for leaf in obs.leaves}
    achieved, desired = found.get(ACHIEVED), found.get(DESIRED)
    if achieved is None or desired is None or (achieved.shape, achieved.dtype) != (desired.shape, desired.dtype):
        return None
    return achieved, desired
