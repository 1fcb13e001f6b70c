"""Rules about what random play shows: observations, actions, ends and rewards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from rookery.core.spaces.arrays import MASK, Leaf
from rookery.doctor.probe import RandomPlay
from rookery.envs.base import Kind
from rookery.models.build import ModelConfig
from rookery.models.image_encoders import NUM_CODES, image_layout
from rookery.report.finding import Finding
from rookery.run.checks.obs_scale import FAR
from rookery.run.findings.catalog import finding

FEW_ROWS = 200
"""Fewest observations that are judged."""

EPISODES = 5
"""Fewest episodes that are judged."""

MANY_EPISODES = 15

SOME_STEPS = 10
"""Fewest steps of an episode with a time limit."""

LONG = 100
"""Steps of an episode after which a reward at its end alone comes late."""

SLACK = 1e-3
"""Relative distance outside of a space that does not count, for rounding."""

WIDE = 256
"""Largest number of elements of a vector whose elements are compared with each other."""


@dataclass(frozen=True)
class Seen:
    """Observations of a kind of agents.

    Attributes:
        probe: The random play.
        number: Number of the kind.
        policy: Policy of its agents; empty if unknown.
        model: Settings of its network; None if unknown.
        normalizes: Whether the policy normalizes its observations.
    """

    probe: RandomPlay
    number: int
    policy: str = ""
    model: ModelConfig | None = None
    normalizes: bool = True

    @property
    def kind(self) -> Kind:
        """The kind."""
        return self.probe.kinds[self.number]

    def leaves(self) -> list[tuple[Leaf, np.ndarray]]:
        """Returns each leaf of the observation but masks, with its values ``[N, ...]``."""
        tree = self.probe.seen[self.number]
        return [(leaf, tree[leaf.path]) for leaf in self.kind.obs.leaves if leaf.path != MASK and leaf.path in tree]

    def named(self, leaf: Leaf) -> str:
        """Returns a leaf in words."""
        return f"observation {leaf.path}" if len(self.kind.obs.leaves) > 1 else "the observation"


def obs_constant(seen: Seen) -> Finding | None:
    """Finds observations that are all the same."""
    leaves = seen.leaves()
    rows = len(leaves[0][1]) if leaves else 0
    if rows < FEW_ROWS or any((values != values[:1]).any() for _, values in leaves):
        return None
    if all(leaf.kind in ("discrete", "multi_discrete") and max(leaf.sizes, default=1) == 1 for leaf, _ in leaves):
        return None  # there is only one by its space
    line = f"all {rows:,} observations of random play were the same"
    return finding("obs-constant", line, policy=seen.policy)


def obs_late(seen: Seen) -> Finding | None:
    """Finds observations that are late by a step: the second one of each episode repeats the first."""
    (repeated, episodes), (moved, moves) = seen.probe.repeats, seen.probe.moves
    if episodes < MANY_EPISODES or repeated < episodes or moves < FEW_ROWS or moved < 0.5 * moves:
        return None
    return finding(
        "obs-late",
        f"in all of {episodes} episodes the second observation repeats the first one: observations seem late by a step",
        f"later observations changed in {100 * moved / moves:.0f} % of the steps",
        policy=seen.policy,
    )


def obs_out_of_space(seen: Seen) -> Finding | None:
    """Finds observations outside the limits of their space."""
    for leaf, values in seen.leaves():
        space = _box(seen.kind, leaf)
        if space is None or values.dtype == np.uint8 or not len(values):
            continue
        room = SLACK * np.maximum(1.0, np.abs(np.where(np.isfinite(space[1]), space[1], 1.0)))
        outside = (values < space[0] - room) | (values > space[1] + room)
        if share := float(outside.reshape(len(values), -1).any(axis=1).mean()):
            place = int(np.argmax(outside.reshape(len(values), -1).any(axis=0)))
            low, high = (float(np.broadcast_to(end, values.shape[1:]).ravel()[place]) for end in space)
            column = values.reshape(len(values), -1)[:, place]
            return finding(
                "obs-out-of-space",
                f"{seen.named(leaf)} leaves its space in {100 * share:.1f} % of the steps",
                f"element {place} is {column.min():.4g} to {column.max():.4g}, and its space {low:.4g} to {high:.4g}",
                policy=seen.policy,
            )
    return None


def obs_unnormalized(seen: Seen) -> Finding | None:
    """Finds observations far from 1 that are not normalized."""
    if seen.normalizes or (seen.model is not None and seen.model.module is not None):
        return None
    entities = () if seen.model is None else seen.model.entities
    for leaf, values in seen.leaves():
        if leaf.kind != "box" or values.dtype != np.float32 or leaf.path in entities or len(values) < FEW_ROWS:
            continue
        size = float(np.sqrt(np.square(values.astype(np.float64)).mean(0)).max(initial=0.0))
        if size > FAR or 0.0 < size < 1.0 / FAR:
            return finding(
                "obs-unnormalized",
                f"{seen.named(leaf)} has values of about {size:.2g}, and the policy does not normalize them",
                policy=seen.policy,
                severity="warning" if size > FAR**2 or size < 1.0 / FAR**2 else "note",
            )
    return None


def obs_duplicated(seen: Seen) -> Finding | None:
    """Finds elements of a vector that are always equal."""
    for leaf, values in seen.leaves():
        flat = values.reshape(len(values), -1)
        if leaf.kind != "box" or values.ndim != 2 or len(values) < FEW_ROWS or flat.shape[1] > WIDE:
            continue
        moving = [place for place in range(flat.shape[1]) if (flat[:, place] != flat[0, place]).any()]
        by_values: dict[bytes, list[int]] = {}
        for place in moving:
            by_values.setdefault(np.ascontiguousarray(flat[:, place]).tobytes(), []).append(place)
        for places in by_values.values():
            if len(places) > 1:
                names = ", ".join(map(str, places[:5]))
                line = f"elements {names} of {seen.named(leaf)} are always equal"
                return finding("obs-duplicated", line, policy=seen.policy)
    return None


def images_are_categories(seen: Seen) -> Finding | None:
    """Finds images of small whole numbers that are read as brightness."""
    if seen.model is None or seen.model.module is not None:
        return None
    for leaf, values in seen.leaves():
        if image_layout(leaf) is None or values.dtype != np.uint8 or leaf.scale <= 1 or len(values) < FEW_ROWS:
            continue
        top = int(values.max(initial=0))
        if 0 < top < NUM_CODES and leaf.path not in (seen.model.categorical_images or ()):
            line = f"{seen.named(leaf)} is an image with numbers up to {top} only, which are read as brightness"
            return finding("images-are-categories", line, policy=seen.policy)
    return None


OBS_RULES: tuple[Callable[[Seen], Finding | None], ...] = (
    obs_constant,
    obs_late,
    obs_out_of_space,
    obs_unnormalized,
    images_are_categories,
    obs_duplicated,
)


def _box(kind: Kind, leaf: Leaf) -> tuple[np.ndarray, np.ndarray] | None:
    """Returns the limits of a box; None for another leaf."""
    space = kind.obs.space
    for key in leaf.path.split("/"):
        if hasattr(space, "spaces") and isinstance(space.spaces, dict) and key in space.spaces:
            space = space.spaces[key]
    low, high = getattr(space, "low", None), getattr(space, "high", None)
    if leaf.kind != "box" or low is None or high is None or low.shape != leaf.shape:
        return None
    return low, high


def actions_without_effect(probe: RandomPlay) -> list[Finding]:
    """Finds agents whose actions change nothing."""
    return [
        finding(
            "actions-without-effect",
            f"other actions of {name} from the same state and seed led to the same observations, rewards and ends",
            f"in {probe.tried[name]:,} steps with another action",
            subject=name,
        )
        for name in probe.without_effect
    ]


def agents_idle(probe: RandomPlay) -> list[Finding]:
    """Finds agents that never act."""
    agents = [agent for kind in probe.kinds for agent in kind.agents]
    idle = [agent for agent in agents if agent not in probe.acted]
    if not idle or len(idle) == len(agents) or probe.steps < FEW_ROWS or len(probe.endings) < EPISODES:
        return []
    line = f"agent {idle[0]} has not acted in {len(probe.endings):,} episodes of random play"
    return [finding("agent-idle", line, f"agents that acted: {', '.join(sorted(probe.acted))}", subject=idle[0])]


def endings_mixed_up(probe: RandomPlay) -> list[Finding]:
    """Finds time limits returned as terminations, and terminations returned as truncations."""
    endings = probe.endings
    if len(endings) < EPISODES:
        return []
    is_task = bool(probe.late) and all(probe.late)  # of this length: paid at its end alone
    lengths = sorted(one.length for one in endings)
    shortest, longest, count = lengths[0], lengths[-1], len(endings)
    commonest = max(map(lengths.count, set(lengths)))
    terminated, at_limit = sum(one.terminated for one in endings), lengths.count(longest)
    if terminated == count and at_limit >= max(EPISODES, 0.5 * count) and longest >= SOME_STEPS and not is_task:
        line = f"{at_limit} of {count} episodes were terminated after exactly {longest:,} steps, and none later"
        return [finding("time-limit-as-termination", line, "no episode was truncated")]
    if not terminated and count >= MANY_EPISODES and len(set(lengths)) >= EPISODES and 2 * commonest < count:
        line = f"all {count} episodes were truncated, after {shortest:,} to {longest:,} steps, and none was terminated"
        return [finding("termination-as-truncation", line, f"median length {median(lengths):,.0f} steps")]
    return []


def reward_late(probe: RandomPlay) -> list[Finding]:
    """Finds long episodes with a reward at their end alone."""
    lengths = [one.length for one in probe.endings]
    if len(probe.late) < EPISODES or not all(probe.late) or median(lengths) < LONG:
        return []
    line = f"episodes of about {median(lengths):,.0f} steps have a reward in their last step only"
    return [finding("reward-late", line, f"{len(probe.late)} episodes of random play")]


def softened(findings: list[Finding]) -> list[Finding]:
    """Returns findings as notes, for a run that learns all the same."""
    return [replace(one, severity="note") for one in findings]
