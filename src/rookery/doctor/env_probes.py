"""Short plays of an environment that `examine_env` measures: random actions, constant actions, and different actions
from equal states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from time import perf_counter
from typing import NamedTuple

import numpy as np

from rookery.core.seeding import Role, Streams
from rookery.core.spaces.arrays import MASK, ActionSpec, Tree
from rookery.envs.base import Kind, Rows, SeedPlan, Step, VectorEnv
from rookery.envs.random_play import chosen_play, random_actions, random_answers, random_play

MOST_ROWS = 4_000
"""Number of observations of each kind of agents that are kept."""

MOST_ACTIONS = 6
"""Number of constant actions that are tried."""

COMMON_STEPS = 5
"""Steps with the same actions before the actions of a pair differ."""

MOST_PAIRED_STEPS = 300
"""Steps after which a pair of actions without any difference is given up."""

COPIES = 4
"""Environments of random play."""

MakeCopies = Callable[[int], VectorEnv]
"""Makes a number of environments."""


@dataclass
class PlayMeasurements:
    """Measurements of a play.

    Attributes:
        steps: Environment steps, over all environments.
        seconds: Time that they took.
        obs: Observations ``[N, ...]`` by leaf path, for each kind of agents.
        rewards: Reward of all agents together, of each environment step; group rewards count once for each member.
        sizes: Largest absolute reward of an agent in each environment step.
        returns: Return of each ended episode, of all agents together.
        lengths: Length of each ended episode.
        last_rewards: Largest absolute reward of an agent in the last step of each ended episode.
        truncated: Whether each ended episode was cut off.
        by_agent: Return of each agent in each ended episode; in a game their sum may be 0 whatever happens.
    """

    steps: int = 0
    seconds: float = 0.0
    obs: list[list[Tree]] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    sizes: list[float] = field(default_factory=list)
    returns: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    last_rewards: list[float] = field(default_factory=list)
    truncated: list[bool] = field(default_factory=list)
    by_agent: list[tuple[float, ...]] = field(default_factory=list)

    def observed(self, kind: int) -> Tree:
        """Returns all kept observations of a kind of agents, ``[N, ...]`` by leaf path."""
        trees = self.obs[kind] if kind < len(self.obs) else []
        return {path: np.concatenate([tree[path] for tree in trees]) for path in (trees[0] if trees else ())}


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


class Effects(NamedTuple):
    """Differences that the actions of one kind of agents make, from equal states and seeds.

    Attributes:
        agents: The agents.
        comparable: Whether equal actions gave equal steps; otherwise nothing can be said.
        steps: Number of compared steps.
        lag: Steps until the first difference; None without one.
        changed: Elements that differed, and their number, by leaf path.
        reward: Whether rewards differed.
        ends: Whether ends of episodes differed.
        idle_elements: Elements of a box that made no difference.
    """

    agents: tuple[str, ...]
    comparable: bool
    steps: int
    lag: int | None
    changed: dict[str, tuple[int, int]]
    reward: bool
    ends: bool
    idle_elements: tuple[int, ...]


def watch(env: VectorEnv, play: Iterator[Step], seconds: float, episodes: int | None = None) -> PlayMeasurements:
    """Returns the measurements of a play.

    Args:
        env: The environment that is played.
        play: Its steps.
        seconds: Time limit.
        episodes: Number of ended episodes after which the play ends; None = no limit.
    """
    seen, lanes = PlayMeasurements(), env.num_lanes
    sums, lengths, kept = np.zeros((lanes, 0)), np.zeros(lanes, int), [0] * len(env.kinds)
    shown = next(play)  # the time of the first reset is not that of steps
    began = perf_counter()
    while True:
        _keep(seen, kept, shown)
        if perf_counter() - began >= seconds or (episodes is not None and len(seen.returns) >= episodes):
            break
        shown = next(play)
        reward = np.concatenate([_reward_of(rows, lanes) for rows in shown.rows], axis=1)
        sums = np.pad(sums, ((0, 0), (0, reward.shape[1] - sums.shape[1]))) + reward
        moved = np.ones(lanes, bool) if shown.stepped is None else shown.stepped
        seen.steps += int(moved.sum())
        lengths += moved
        seen.rewards += reward.sum(axis=1)[moved].tolist()
        seen.sizes += np.abs(reward).max(axis=1, initial=0.0)[moved].tolist()
        for lane in np.flatnonzero(shown.ended):
            seen.returns.append(float(sums[lane].sum()))
            seen.by_agent.append(tuple(sums[lane].tolist()))
            seen.lengths.append(int(lengths[lane]))
            seen.last_rewards.append(float(np.abs(reward[lane]).max(initial=0.0)))
            seen.truncated.append(not any(rows.terminated.reshape(lanes, -1)[lane].any() for rows in shown.rows))
            sums[lane], lengths[lane] = 0.0, 0
    seen.seconds = perf_counter() - began
    return seen


def _reward_of(rows: Rows, lanes: int) -> np.ndarray:
    """Returns the rewards ``[lanes, agents]`` of a step, with those of groups."""
    reward = rows.reward if rows.group_reward is None else rows.reward + rows.group_reward
    return reward.reshape(lanes, -1)


def _keep(seen: PlayMeasurements, kept: list[int], shown: Step) -> None:
    """Keeps the observations of a step, up to `MOST_ROWS` of each kind; `kept` has their numbers."""
    for number, rows in enumerate(shown.rows):
        if number == len(seen.obs):
            seen.obs.append([])
            kept.append(0)
        if kept[number] < MOST_ROWS and rows.waiting.any():
            seen.obs[number].append({path: array[rows.waiting] for path, array in rows.obs.items()})
            kept[number] += int(rows.waiting.sum())


def watch_random(make: MakeCopies, seconds: float, streams: Streams) -> PlayMeasurements:
    """Returns the measurements of random play in several environments.

    Args:
        make: Makes a number of environments.
        seconds: Time limit.
        streams: Random streams.
    """
    with closing(make(COPIES)) as env:
        play = random_play(env, streams.episodes(Role.ENV), streams.generator(Role.WARMUP, "doctor"))
        return watch(env, play, seconds)


def constant_actions(spec: ActionSpec, rng: np.random.Generator, elements: bool) -> list[ConstantAction]:
    """Returns actions to play in every step: each discrete one, the middle and two corners of a box, or drawn ones.

    Args:
        spec: Layout of the actions.
        rng: Generator of the drawn ones.
        elements: Whether to add, for a box, each element alone at its upper end.
    """
    if spec.kind == "discrete":
        (size,) = spec.sizes
        return [ConstantAction(f"action {one}", np.asarray(one, spec.dtype)) for one in range(min(size, MOST_ACTIONS))]
    if spec.kind == "box":
        middle = np.zeros(spec.shape, spec.dtype)
        ends = [ConstantAction(text, middle + end) for text, end in (("middle", 0), ("lowest", -1), ("highest", 1))]
        alone = [middle.copy() for _ in range(min(middle.size, MOST_ACTIONS) if elements and middle.size > 1 else 0)]
        for element, action in enumerate(alone):
            action[element] = 1
        return [*ends, *(ConstantAction(f"element {n}", action, n) for n, action in enumerate(alone))]
    drawn = random_actions(spec, 4, None, rng)
    return [ConstantAction(f"drawn action {number}", action) for number, action in enumerate(drawn)]


def watch_constant(
    make: MakeCopies, kind: int, action: ConstantAction, seconds: float, episodes: int, streams: Streams
) -> PlayMeasurements:
    """Returns the measurements of a play in which agents of one kind always act alike, the others at random.

    Args:
        make: Makes a number of environments.
        kind: Number of the kind.
        action: The action; where it is not allowed, a random one is played.
        seconds: Time limit.
        episodes: Number of ended episodes after which the play ends.
        streams: Random streams.
    """
    with closing(make(1)) as env:
        rng = streams.generator(Role.ACTION, "doctor", kind)

        def answers(shown: Step) -> list[np.ndarray]:
            given = random_answers(env, shown, rng)
            given[kind] = _same_action(env.kinds[kind], shown, kind, action, rng)
            return given

        return watch(env, chosen_play(env, streams.episodes(Role.ENV), answers), seconds, episodes)


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


def effects_of(make: MakeCopies, kind: int, actions: Sequence[ConstantAction], seconds: float, seed: int) -> Effects:
    """Compares environments with equal seeds in which the agents of one kind act differently after some equal steps.

    Args:
        make: Makes a number of environments.
        kind: Number of the kind.
        actions: One action for each environment; a further one repeats the first, as a control.
        seconds: Time limit.
        seed: Seed of the episodes and of the equal actions.
    """
    pairs = [*actions, actions[0]]
    with closing(make(len(pairs))) as env:
        agents, clock = env.kinds[kind].agents, [0]

        def answers(shown: Step) -> list[np.ndarray]:
            clock[0] += 1
            return [
                _paired(
                    one, shown, number, pairs if number == kind and clock[0] > COMMON_STEPS else None, seed + clock[0]
                )
                for number, one in enumerate(env.kinds)
            ]

        plan: SeedPlan = lambda lane, episode: seed + episode  # noqa: E731
        found = _Differences(len(pairs))
        began = perf_counter()
        for shown in islice(chosen_play(env, plan, answers), COMMON_STEPS + MOST_PAIRED_STEPS):
            found.add(env, shown, clock[0] - COMMON_STEPS)
            if perf_counter() - began > seconds or found.is_complete:
                break
    idle = tuple(one.element for one, differs in zip(actions, found.differs, strict=False)
                 if one.element is not None and not differs)  # fmt: skip
    steps = clock[0] - COMMON_STEPS
    return Effects(agents, not found.differs[-1], steps, found.lag, found.elements(), found.reward, found.ends, idle)


def _paired(kind: Kind, shown: Step, number: int, pairs: Sequence[ConstantAction] | None, seed: int) -> np.ndarray:
    """Returns equal random actions for the agents of all environments, or the action of each environment's pair."""
    rows, agents = shown.rows[number], len(kind.agents)
    parts = []
    for lane, waiting in enumerate(rows.waiting.reshape(-1, agents)):
        mask = rows.obs[MASK].reshape(-1, agents, sum(kind.action.sizes))[lane] if kind.obs.has_mask else None
        drawn = random_actions(kind.action, agents, mask, np.random.default_rng((seed, number)))
        if pairs is not None:
            wanted = pairs[lane].stored
            allowed = waiting.copy() if mask is None else np.zeros(agents, bool)
            if mask is not None and kind.action.kind == "discrete":
                allowed = mask[:, int(wanted)]
            drawn[allowed] = wanted
        parts.append(drawn[waiting])
    return kind.action.to_env(np.concatenate(parts))


class _Differences:
    """Differences of environments from the first one."""

    def __init__(self, lanes: int) -> None:
        self.differs = np.zeros(lanes, bool)
        self.lag: int | None = None
        self.reward = self.ends = False
        self._changed: dict[str, np.ndarray] = {}
        self._since = 0

    @property
    def is_complete(self) -> bool:
        """Whether all environments but the control differ, and ten further steps were compared."""
        return bool(self.differs[:-1][1:].all()) and self._since >= 10

    def elements(self) -> dict[str, tuple[int, int]]:
        """Returns the number of elements that differed, and of all, by leaf path."""
        return {path: (int(found.sum()), found.size) for path, found in self._changed.items()}

    def add(self, env: VectorEnv, shown: Step, lag: int) -> None:
        """Compares a step."""
        lanes = env.num_lanes
        different = np.zeros(lanes, bool)
        for rows in shown.rows:
            for name in ("reward", "terminated", "truncated", "waiting"):
                values = getattr(rows, name).reshape(lanes, -1)
                apart = (values != values[0]).any(axis=1)
                different |= apart
                if apart[:-1].any():
                    self.reward |= name == "reward"
                    self.ends |= name in ("terminated", "truncated")
            both = rows.waiting.reshape(lanes, -1)
            both = both & both[0]
            for path, array in rows.obs.items():
                values = array.reshape(lanes, both.shape[1], -1)
                apart_elements = (values != values[0]) & both[:, :, None]
                different |= apart_elements.any(axis=(1, 2))
                changed = self._changed.setdefault(path, np.zeros(values.shape[2], bool))
                if len(changed) == values.shape[2]:
                    changed |= apart_elements[:-1].any(axis=(0, 1))
        different |= shown.ended != shown.ended[0]
        self.differs |= different
        if self.lag is None and different[:-1].any():
            self.lag = max(1, lag)
        self._since += self.lag is not None
