"""`PlayMeasurements`: what short plays of throwaway environments show: observations, rewards, ends and speed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from time import perf_counter
from typing import NamedTuple

import numpy as np

from rookery.core.seeding import Role, Streams
from rookery.core.spaces.arrays import MASK, ActionSpec, Tree
from rookery.envs.base import Kind, Rows, Step, VectorEnv
from rookery.envs.random_play import chosen_play, random_actions, random_answers, random_play

MOST_ROWS, MOST_BYTES = 2_000, 64_000_000
"""Number and size of the observations of each kind of agents that are kept."""

MOST_ACTIONS = 6
"""Number of constant actions that are tried."""

COPIES = 4
"""Environments of random play."""

STEPS = 2_000
"""Vector steps of random play in the examination of a run."""

MakeCopies = Callable[[int], VectorEnv]
"""Makes a number of environments."""


@dataclass
class PlayMeasurements:
    """Measurements of a play.

    Attributes:
        kinds: The kinds of agents.
        steps: Environment steps, over all environments.
        seconds: Time that they took.
        obs: Observations ``[N, ...]`` by leaf path, for each kind of agents.
        acted: Names of the agents that have acted.
        rewards: Reward of all agents together, of each environment step; group rewards count once for each member.
        sizes: Largest absolute reward of an agent in each environment step.
        returns: Return of each ended episode, of all agents together.
        lengths: Length of each ended episode.
        paid: Number of steps with a reward other than 0, of each ended episode.
        last_rewards: Largest absolute reward of an agent in the last step of each ended episode.
        truncated: Whether each ended episode was cut off.
        by_agent: Return of each agent in each ended episode; in a game their sum may be 0 whatever happens.
        repeats: Number of episodes whose second observation equals the first, and number of episodes.
        moves: Number of later steps in which the observation changed, and number of them.
    """

    kinds: tuple[Kind, ...] = ()
    steps: int = 0
    seconds: float = 0.0
    obs: list[list[Tree]] = field(default_factory=list)
    acted: set[str] = field(default_factory=set)
    rewards: list[float] = field(default_factory=list)
    sizes: list[float] = field(default_factory=list)
    returns: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    paid: list[int] = field(default_factory=list)
    last_rewards: list[float] = field(default_factory=list)
    truncated: list[bool] = field(default_factory=list)
    by_agent: list[tuple[float, ...]] = field(default_factory=list)
    repeats: tuple[int, int] = (0, 0)
    moves: tuple[int, int] = (0, 0)

    def observed(self, kind: int) -> Tree:
        """Returns all kept observations of a kind of agents, ``[N, ...]`` by leaf path."""
        trees = self.obs[kind] if kind < len(self.obs) else []
        none = self.kinds[kind].obs.allocate(0) if kind < len(self.kinds) else {}
        return {path: np.concatenate([none[path], *(tree[path] for tree in trees)]) for path in none}

    @property
    def late(self) -> list[bool]:
        """Whether the only reward of each episode with any reward was that of its last step."""
        return [count == 1 and last != 0.0 for count, last in zip(self.paid, self.last_rewards, strict=True) if count]


class ConstantAction(NamedTuple):
    """An action that is played in every step.

    Attributes:
        text: Its name: ``action 1``.
        stored: The action, as policies store it.
        element: The only element that differs from the middle of a box; None for all others.
    """

    text: str
    stored: np.ndarray
    element: int | None = None


def watch(
    env: VectorEnv, play: Iterator[Step], seconds: float, episodes: int | None = None, steps: int | None = None
) -> PlayMeasurements:
    """Returns the measurements of a play.

    Args:
        env: The environment that is played.
        play: Its steps.
        seconds: Time limit.
        episodes: Number of ended episodes after which the play ends; None = no limit.
        steps: Number of vector steps after which it ends; None = no limit.

    Raises:
        EnvError: If the environment raises or breaks the contract.
    """
    seen, lanes, vector_steps = PlayMeasurements(), env.num_lanes, 0
    sums, lengths, paid, kept = np.zeros((lanes, 0)), np.zeros(lanes, int), np.zeros(lanes, int), _Kept(seen)
    changes = _Changes(env)
    shown = next(play)  # the time of the first reset is not that of steps
    until = time.monotonic() + seconds
    while True:
        kept.add(env, shown)
        changes.add(shown, lengths)
        if (
            time.monotonic() >= until
            or (episodes is not None and len(seen.returns) >= episodes)
            or vector_steps == steps
        ):
            break
        began = perf_counter()
        shown = next(play)
        seen.seconds += perf_counter() - began
        vector_steps += 1
        reward = np.concatenate([reward_of(rows, lanes) for rows in shown.rows], axis=1)
        sums = np.pad(sums, ((0, 0), (0, reward.shape[1] - sums.shape[1]))) + reward
        moved = np.ones(lanes, bool) if shown.stepped is None else shown.stepped
        size = np.abs(reward).max(axis=1, initial=0.0)
        seen.steps += int(moved.sum())
        lengths += moved
        paid += size > 0.0
        seen.rewards += reward.sum(axis=1)[moved].tolist()
        seen.sizes += size[moved].tolist()
        for lane in np.flatnonzero(shown.ended):
            seen.returns.append(float(sums[lane].sum()))
            seen.by_agent.append(tuple(sums[lane].tolist()))
            seen.lengths.append(int(lengths[lane]))
            seen.paid.append(int(paid[lane]))
            seen.last_rewards.append(float(size[lane]))
            seen.truncated.append(not any(rows.terminated.reshape(lanes, -1)[lane].any() for rows in shown.rows))
            sums[lane], lengths[lane], paid[lane] = 0.0, 0, 0
    seen.repeats, seen.moves, seen.kinds = changes.repeats, changes.moves, env.kinds
    return seen


def reward_of(rows: Rows, lanes: int) -> np.ndarray:
    """Returns the rewards ``[lanes, agents]`` of a step, with those of groups."""
    reward = rows.reward if rows.group_reward is None else rows.reward + rows.group_reward
    return reward.reshape(lanes, -1)


class _Kept:
    """The observations that are kept of a play, and the agents that have acted."""

    def __init__(self, seen: PlayMeasurements) -> None:
        self._seen = seen
        self._rows: list[int] = []
        self._bytes: list[int] = []

    def add(self, env: VectorEnv, shown: Step) -> None:
        """Keeps the observations of a step, as long as there are few."""
        for number, (kind, rows) in enumerate(zip(env.kinds, shown.rows, strict=True)):
            if number == len(self._rows):
                self._seen.obs.append([])
                self._rows.append(0)
                self._bytes.append(0)
            waiting = np.flatnonzero(rows.waiting)
            agents = len(kind.agents)
            self._seen.acted |= {kind.agents[column] for column in set((waiting % agents).tolist())}
            if len(waiting) and self._rows[number] < MOST_ROWS and self._bytes[number] < MOST_BYTES:
                tree = {path: array[waiting] for path, array in rows.obs.items()}
                self._seen.obs[number].append(tree)
                self._rows[number] += len(waiting)
                self._bytes[number] += sum(array.nbytes for array in tree.values())


class _Changes:
    """Counts how often observations change: in the first step of an episode, and in later ones."""

    def __init__(self, env: VectorEnv) -> None:
        self._env = env
        self._before: list[Tree] = []
        self.repeats = self.moves = (0, 0)

    def add(self, shown: Step, lengths: np.ndarray) -> None:
        """Compares a step with the one before; `lengths` has the steps of each lane's episode, 0 after a reset."""
        if self.moves[1] >= STEPS:
            return
        now = [{path: leaf.copy() for path, leaf in rows.obs.items()} for rows in shown.rows]
        before, self._before = self._before, now
        if len(before) != len(now) or before[0].keys() != now[0].keys():
            return
        for lane in np.flatnonzero(lengths > 0).tolist():
            changed = self._has_changed(before, now, lane)
            if lengths[lane] == 1:
                self.repeats = self.repeats[0] + (not changed), self.repeats[1] + 1
            else:
                self.moves = self.moves[0] + changed, self.moves[1] + 1

    def _has_changed(self, before: list[Tree], now: list[Tree], lane: int) -> bool:
        """Returns whether any observation of a lane differs between two steps."""
        for kind, one, other in zip(self._env.kinds, before, now, strict=True):
            width = len(kind.agents)
            mine = slice(lane * width, (lane + 1) * width)
            if any(not np.array_equal(one[path][mine], other[path][mine]) for path in one):
                return True
        return False


def watch_random(make: MakeCopies, seconds: float, streams: Streams, steps: int | None = None) -> PlayMeasurements:
    """Returns the measurements of random play in several environments.

    Args:
        make: Makes a number of environments.
        seconds: Time limit.
        streams: Random streams.
        steps: Number of vector steps after which it ends; None = no limit.

    Raises:
        EnvError: If the environment raises or breaks the contract.
    """
    with closing(make(COPIES)) as env:
        play = random_play(env, streams.episodes(Role.ENV), streams.generator(Role.WARMUP, "doctor"))
        return watch(env, play, seconds, steps=steps)


def constant_actions(
    spec: ActionSpec, rng: np.random.Generator, elements: bool, most: int = MOST_ACTIONS
) -> list[ConstantAction]:
    """Returns actions to play in every step: each discrete one, the middle and two corners of a box, or drawn ones.

    Args:
        spec: Layout of the actions.
        rng: Generator of the drawn ones.
        elements: Whether to add, for a box, each element alone at its upper end.
        most: Largest number of discrete actions, and of single elements.
    """
    if spec.kind == "discrete":
        (size,) = spec.sizes
        return [ConstantAction(f"action {one}", np.asarray(one, spec.dtype)) for one in range(min(size, most))]
    if spec.kind == "box":
        middle = np.zeros(spec.shape, spec.dtype)
        ends = [ConstantAction(text, middle + end) for text, end in (("middle", 0), ("lowest", -1), ("highest", 1))]
        alone = [middle.copy() for _ in range(min(middle.size, most) if elements and middle.size > 1 else 0)]
        for element, action in enumerate(alone):
            action.flat[element] = 1
        return [*ends, *(ConstantAction(f"element {n}", action, n) for n, action in enumerate(alone))]
    drawn = random_actions(spec, 4, None, rng)
    return [ConstantAction(f"drawn action {number}", action) for number, action in enumerate(drawn)]


def watch_constant(
    make: MakeCopies,
    kind: int,
    action: ConstantAction,
    seconds: float,
    episodes: int,
    streams: Streams,
    steps: int | None = None,
) -> PlayMeasurements:
    """Returns the measurements of a play in which agents of one kind always act alike, the others at random.

    Args:
        make: Makes a number of environments.
        kind: Number of the kind.
        action: The action; where it is not allowed, a random one is played.
        seconds: Time limit.
        episodes: Number of ended episodes after which the play ends.
        streams: Random streams.
        steps: Number of vector steps after which it ends; None = no limit.
    """
    with closing(make(1)) as env:
        rng = streams.generator(Role.ACTION, "doctor", kind)

        def answers(shown: Step) -> list[np.ndarray]:
            given = random_answers(env, shown, rng)
            given[kind] = _same_action(env.kinds[kind], shown, kind, action, rng)
            return given

        return watch(env, chosen_play(env, streams.episodes(Role.ENV), answers), seconds, episodes, steps)


def _same_action(kind: Kind, shown: Step, number: int, action: ConstantAction, rng: np.random.Generator) -> np.ndarray:
    """Returns the action for all rows of a kind that wait, a random one where it is not allowed."""
    rows = shown.rows[number]
    stored = np.broadcast_to(action.stored, (int(rows.waiting.sum()), *kind.action.shape)).copy()
    if kind.obs.has_mask:
        mask = rows.obs[MASK][rows.waiting]
        drawn = random_actions(kind.action, len(stored), mask, rng)
        barred = ~mask[:, int(action.stored)] if kind.action.kind == "discrete" else np.ones(len(stored), bool)
        stored[barred] = drawn[barred]
    return kind.action.to_env(stored)
