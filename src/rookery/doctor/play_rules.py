"""Rules about what play shows: observations, effects of actions, ends, rewards, and state that survives a reset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

import numpy as np

from rookery.core.spaces.arrays import MASK, Leaf
from rookery.doctor.effects import FEW_STEPS, Effects
from rookery.doctor.probe import PlayMeasurements
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

HELD = 50
"""Fewest steps for which an action was held, for a finding on an element without an effect."""

SLACK = 1e-3
"""Relative distance outside of a space that does not count, for rounding."""

WIDE, LARGE = 256, 100_000
"""Largest number of elements of a vector, and of an image, whose parts are compared with each other."""

CHANNELS = 32
"""Largest number of frames or channels that are compared."""

OFTEN_AT_LIMIT, MOST_CLIPPED, DISTINCT = 0.3, 0.75, 20
"""Share of observations in which a clipped element is at a limit, share of the continuous elements that are clipped,
and fewest other values of an element that is continuous.
"""

JUMP = 3.0
"""Factor between the steps by which an element reaches a limit and its other steps, from which on these are jumps."""

UNLIMITED = 1e6
"""Size of a limit of a space from which on it is none."""

UNNORMALIZED = ("normalization is switched off",)
"""Cause of vectors far from 1."""

WEAK_STEP, WEAK_HELD = 0.01, 0.2
"""Reach of actions, after a step and while they are held, below which they are weak."""


@dataclass(frozen=True)
class Seen:
    """Observations of a kind of agents.

    Attributes:
        play: The random play.
        number: Number of the kind.
        policy: Policy of its agents; empty if unknown.
        model: Settings of its network; None if unknown.
        normalizes: Whether the policy normalizes its observations.
    """

    play: PlayMeasurements
    number: int
    policy: str = ""
    model: ModelConfig | None = None
    normalizes: bool = True

    @property
    def kind(self) -> Kind:
        """The kind."""
        return self.play.kinds[self.number]

    def leaves(self) -> list[tuple[Leaf, np.ndarray]]:
        """Returns each leaf of the observation but masks, with its values ``[N, ...]``."""
        tree = self.play.observed(self.number)
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
    (repeated, episodes), (moved, moves) = seen.play.repeats, seen.play.moves
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
        if size > FAR or 0.0 < size < 1.0 / FAR**2:
            is_image = values.ndim == 4
            return finding(
                "obs-unnormalized",
                f"{seen.named(leaf)} has values of about {size:.2g}, and the policy does not normalize them",
                policy=seen.policy,
                severity="note" if FAR < size <= FAR**2 else "warning",
                causes=("images are returned as floats from 0 to 255",) if is_image else UNNORMALIZED,
                remedies=("return images as uint8",) if is_image else None,
            )
    return None


def obs_duplicated(seen: Seen) -> Finding | None:
    """Finds blocks of an observation that are always equal, as of a frame stack, and elements of a vector that are."""
    for leaf, values in seen.leaves():
        if leaf.kind != "box" or len(values) < FEW_ROWS or values[0].size > (WIDE if values.ndim == 2 else LARGE):
            continue
        if found := equal_blocks(values):
            parts, what = found
            return finding(
                "obs-duplicated",
                f"{what} of {seen.named(leaf)} are always equal",
                f"in {len(values):,} observations of random play: {parts}",
                policy=seen.policy,
                severity="warning",
                causes=(
                    "a frame stack holds the same array several times: reset and step return one buffer, which is "
                    "changed in place",
                    "the same part is observed twice",
                ),
            )
        pairs = equal_elements(values) if values.ndim == 2 else []
        if pairs:
            line = f"elements {_numbers(pairs[0])} of {seen.named(leaf)} are always equal"
            more = [f"so are elements {_numbers(places)}" for places in pairs[1:4]]
            return finding("obs-duplicated", line, *more, policy=seen.policy)
    return None


def equal_blocks(values: np.ndarray) -> tuple[str, str] | None:
    """Returns the blocks of observations that are always equal, and what they are, in words; None if there are none.

    Blocks of a vector are its two or more parts of equal length, of at least two elements each. Those of an image are
    its channels or frames, along the first or the last axis; three equal channels are a grey picture.

    Args:
        values: ``[N, ...]``.
    """
    size = values.shape[1]
    if values.ndim == 2:
        cuts = [(values.reshape(len(values), -1, width), 1) for width in range(2, size // 2 + 1) if size % width == 0]
    else:
        cuts = [(values, axis) for axis in {1, values.ndim - 1} if 2 <= values.shape[axis] <= CHANNELS]
    for cut, axis in cuts:
        parts = np.moveaxis(cut, axis, 0)
        groups: dict[bytes, list[int]] = {}
        for place, part in enumerate(parts):
            moving = (part != part[:1]).any(axis=0)
            if np.count_nonzero(moving) >= 2:
                groups.setdefault(np.ascontiguousarray(part).tobytes(), []).append(place)
        same = next((places for places in groups.values() if len(places) > 1), None)
        if same is None or (values.ndim > 2 and len(parts) == len(same) == 3):
            continue
        if values.ndim > 2:
            return f"{_numbers(same)} of {len(parts)} along axis {axis - 1}", "frames or channels"
        width = size // len(parts)
        ranges = [f"{width * place} to {width * place + width - 1}" for place in same[:4]]
        return f"elements {' and '.join(ranges)}", f"blocks of {width} elements"
    return None


def equal_elements(values: np.ndarray) -> list[list[int]]:
    """Returns groups of elements of a vector that are always equal, and not constant.

    Args:
        values: ``[N, elements]``.
    """
    groups: dict[bytes, list[int]] = {}
    for place, column in enumerate(values.T):
        if (column != column[0]).any():
            groups.setdefault(np.ascontiguousarray(column).tobytes(), []).append(place)
    return [places for places in groups.values() if len(places) > 1]


def obs_clipped(seen: Seen) -> Finding | None:
    """Finds vectors most of whose continuous elements often lie exactly at a limit of their space."""
    for leaf, values in seen.leaves():
        space = _box(seen.kind, leaf)
        if space is None or values.ndim != 2 or values.dtype.kind != "f" or len(values) < FEW_ROWS:
            continue
        clipped, continuous = [], 0
        for place, column in enumerate(values.T):
            low, high = (np.broadcast_to(end, values.shape[1:])[place] for end in space)
            at_limit = (column == low) | (column == high)
            if len(np.unique(column[~at_limit])) < DISTINCT:
                continue
            continuous += 1
            if at_limit.mean() >= OFTEN_AT_LIMIT and not _jumps(seen, leaf, place, low, high):
                clipped.append((place, float(at_limit.mean())))
        if len(clipped) >= 2 and len(clipped) >= MOST_CLIPPED * continuous:
            shares = ", ".join(f"{place} ({100 * share:.0f} %)" for place, share in clipped[:6])
            return finding(
                "obs-clipped",
                f"{len(clipped)} of {continuous} continuous elements of {seen.named(leaf)} often lie exactly at a "
                "limit of their space, so what is beyond is lost",
                f"share of {len(values):,} observations, by element: {shares}",
                policy=seen.policy,
            )
    return None


def _jumps(seen: Seen, leaf: Leaf, place: int, low: float, high: float) -> bool:
    """Returns whether an element reaches a limit by jumps: 0 stands for what is absent, and is no end of a range.

    What is clipped reaches its limit by steps that are as large as others; what disappears does so from anywhere.
    """
    trees = [tree[leaf.path].reshape(-1, values)[:, place] for tree in seen.play.obs[seen.number]
             if (values := int(np.prod(leaf.shape))) and leaf.path in tree]  # fmt: skip
    pairs = [(one, other) for one, other in pairwise(trees) if len(one) == len(other)]
    if not pairs:
        return False
    before, after = (np.concatenate(part).astype(np.float64) for part in zip(*pairs, strict=True))
    inside, arrives = (before != low) & (before != high), (after == low) | (after == high)
    reached, steps = np.abs(after - before)[inside & arrives], np.abs(after - before)[inside & ~arrives]
    if len(reached) < MANY_EPISODES or len(steps) < MANY_EPISODES:
        return False
    return bool(np.median(reached) > JUMP * np.median(steps))


def obs_rounded(seen: Seen) -> Finding | None:
    """Finds vectors of integers in a continuous space.

    Numbers of objects, places in a grid and one-hot vectors are integers on purpose. Their limits are integers, too,
    or they have none. So it is a warning where limits are fractions that are not half way between integers, and a
    note for spaces without limits where actions are continuous.
    """
    for leaf, values in seen.leaves():
        space = _box(seen.kind, leaf)
        if space is None or values.ndim != 2 or values.dtype.kind != "f" or len(values) < FEW_ROWS:
            continue
        if not np.isfinite(values).all() or (values != np.round(values)).any() or (values == values[:1]).all():
            continue
        ends = np.concatenate([np.ravel(end).astype(np.float64) for end in space])
        limits = ends[np.abs(ends) < UNLIMITED]
        broken = limits[2.0 * limits != np.round(2.0 * limits)]
        if not len(broken) and (len(limits) or seen.kind.action.kind != "box"):
            continue
        numbers = np.unique(values)
        return finding(
            "obs-rounded",
            f"{seen.named(leaf)} holds integers only, in a continuous space",
            f"all elements of {len(values):,} observations: {_numbers([int(one) for one in numbers])}",
            *([f"limits of the space such as {abs(broken).min():.4g} are no integers"] if len(broken) else []),
            policy=seen.policy,
            severity=None if len(broken) else "note",
        )
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
    obs_clipped,
    obs_rounded,
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


def actions_without_effect(effects: Sequence[Effects]) -> list[Finding]:
    """Finds agents whose actions change nothing, and elements of a box that change nothing."""
    found = []
    for one in effects:
        if not one.is_comparable or one.tried < FEW_STEPS:
            continue
        if one.lag is None:
            found.append(
                finding(
                    "actions-without-effect",
                    f"other actions of {one.agent} from the same state and seed led to the same observations, rewards "
                    "and ends",
                    f"in {one.tried:,} steps with another action",
                    subject=one.agent,
                )
            )
        elif one.idle_elements and one.steps >= HELD:
            line = f"elements {_numbers(one.idle_elements)} of the action changed nothing"
            found.append(finding("actions-without-effect", line, subject=one.agent, severity="note"))
    return found


def actions_alike(effects: Sequence[Effects]) -> list[Finding]:
    """Finds discrete actions that have the same effect in all states."""
    found = []
    for one in effects:
        if not one.alike or not one.is_comparable or one.lag is None:
            continue
        pairs = ", ".join(f"{a} and {b}" for a, b in one.alike[:5])
        found.append(
            finding(
                "actions-alike",
                f"actions {pairs} of {one.agent} have the same effect in every state that was tried",
                f"equal observations, rewards and ends from {one.states} states",
                subject=one.agent,
                severity="note" if one.is_image else None,
            )
        )
    return found


def actions_weak(effects: Sequence[Effects]) -> list[Finding]:
    """Finds continuous actions whose whole range makes nearly no difference."""
    found = []
    for one in effects:
        if not one.is_comparable or one.step_reach is None or one.held_reach is None or one.lag is None:
            continue
        if one.step_reach >= WEAK_STEP or one.held_reach >= WEAK_HELD:
            continue
        found.append(
            finding(
                "actions-weak",
                f"the lowest and the highest action of {one.agent} hardly differ from the middle one: by "
                f"{100 * one.step_reach:.2g} % of what observations and rewards usually vary",
                f"{100 * one.held_reach:.2g} % if the action is held for up to {one.steps} steps",
                subject=one.agent,
            )
        )
    return found


def rewards_swapped(effects: Sequence[Effects]) -> list[Finding]:
    """Finds agents whose own actions never change their rewards, but those of others, while others change their own."""
    tried = [one for one in effects if one.is_comparable and one.tried >= FEW_STEPS]
    swapped = [
        one
        for one in tried
        if one.rewarded and one.agent not in one.rewarded and any(one.agent in other.rewarded for other in tried)
    ]
    if len(swapped) < 2:
        return []
    changes = [f"actions of {one.agent} change the reward of {', '.join(sorted(one.rewarded))}" for one in swapped]
    return [
        finding(
            "rewards-swapped",
            f"the reward of {' and '.join(one.agent for one in swapped[:4])} depends on the actions of another agent, "
            "and never on its own",
            "; ".join(changes[:4]),
            f"in {sum(one.tried for one in swapped):,} steps from equal states and seeds in which one agent acted "
            "otherwise",
        )
    ]


def state_survives_reset(parts: Sequence[str] | None) -> list[Finding]:
    """Finds episodes that differ after other episodes.

    Args:
        parts: What differs: ``observations``, ``rewards`` or ``ends``; None if it is unknown.
    """
    if not parts:
        return []
    likely = [SURVIVORS[part] for part in parts]
    return [
        finding(
            "state-survives-reset",
            "an environment that has played before plays other steps than a new one, from the same seed and with the "
            "same actions",
            f"{' and '.join(parts)} differ first",
            causes=[*likely, "reset does not set back an attribute of the environment or of a wrapper"],
        )
    ]


SURVIVORS = {
    "ends": "a counter of steps, or another condition of the end, is not set back in reset",
    "rewards": "a reward is paid late, in the next episode, or a sum of rewards is not set back in reset",
    "observations": "reset returns or keeps part of the episode before: a goal, a buffer, a stack of frames",
}
"""The likely cause by what differs first."""


def agents_idle(play: PlayMeasurements) -> list[Finding]:
    """Finds agents that never act."""
    agents = [agent for kind in play.kinds for agent in kind.agents]
    idle = [agent for agent in agents if agent not in play.acted]
    if not idle or len(idle) == len(agents) or play.steps < FEW_ROWS or len(play.lengths) < EPISODES:
        return []
    line = f"agent {idle[0]} has not acted in {len(play.lengths):,} episodes of random play"
    return [finding("agent-idle", line, f"agents that acted: {', '.join(sorted(play.acted))}", subject=idle[0])]


def endings_mixed_up(play: PlayMeasurements) -> list[Finding]:
    """Finds time limits returned as terminations, and terminations returned as truncations."""
    lengths, count = sorted(play.lengths), len(play.lengths)
    if count < EPISODES:
        return []
    is_task = bool(play.late) and all(play.late)  # of this length: paid at its end alone
    shortest, longest = lengths[0], lengths[-1]
    commonest = max(map(lengths.count, set(lengths)))
    terminated, at_limit = count - sum(play.truncated), lengths.count(longest)
    if terminated == count and at_limit >= max(EPISODES, 0.5 * count) and longest >= SOME_STEPS and not is_task:
        line = f"{at_limit} of {count} episodes were terminated after exactly {longest:,} steps, and none later"
        return [finding("time-limit-as-termination", line, "no episode was truncated")]
    if not terminated and count >= MANY_EPISODES and len(set(lengths)) >= EPISODES and 2 * commonest < count:
        line = f"all {count} episodes were truncated, after {shortest:,} to {longest:,} steps, and none was terminated"
        return [finding("termination-as-truncation", line, f"median length {median(lengths):,.0f} steps")]
    return []


def reward_late(play: PlayMeasurements) -> list[Finding]:
    """Finds long episodes with a reward at their end alone."""
    if len(play.late) < EPISODES or not all(play.late) or median(play.lengths) < LONG:
        return []
    line = f"episodes of about {median(play.lengths):,.0f} steps have a reward in their last step only"
    return [finding("reward-late", line, f"{len(play.late)} episodes of random play")]


def _numbers(values: Sequence[int]) -> str:
    """Returns the first ones of some numbers in words."""
    return ", ".join(map(str, values[:10])) + (", ..." if len(values) > 10 else "")


def softened(findings: list[Finding]) -> list[Finding]:
    """Returns findings as notes, for a run that learns all the same."""
    return [replace(one, severity="note") for one in findings]
