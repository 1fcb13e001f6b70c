"""`AgentDecisions`: observations, actions and rewards of random play, decision by decision."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from itertools import islice

import numpy as np

from rookery.core.seeding import Role, Streams
from rookery.core.spaces.arrays import MASK, Tree
from rookery.doctor.probe import COPIES, MakeCopies, reward_of
from rookery.envs.base import Kind, Step, VectorEnv
from rookery.envs.random_play import chosen_play, random_actions

STEPS, MOST_ROWS = 1_500, 20_000
"""Most vector steps, and most decisions of a kind of agents."""

LARGEST = 4_096
"""Bytes of an observation up to which decisions are kept."""


@dataclass(frozen=True)
class AgentDecisions:
    """AgentDecisions of a kind of agents, in the order of time.

    Attributes:
        kind: The kind.
        obs: Observations ``[N, ...]`` by leaf path.
        action: Actions ``[N, ...]`` as policies store them.
        reward: ``[N]`` the reward of the step that followed, with that of the agent's group.
        agent: ``[N]`` place of the agent in the kind.
        episode: ``[N]`` number of the episode, over all environments.
    """

    kind: Kind
    obs: Tree
    action: np.ndarray
    reward: np.ndarray
    agent: np.ndarray
    episode: np.ndarray

    def __len__(self) -> int:
        return len(self.reward)

    def of(self, chosen: np.ndarray) -> AgentDecisions:
        """Returns some of the decisions.

        Args:
            chosen: ``[N]`` bool, or row numbers.
        """
        obs = {path: leaf[chosen] for path, leaf in self.obs.items()}
        return AgentDecisions(
            self.kind, obs, self.action[chosen], self.reward[chosen], self.agent[chosen], self.episode[chosen]
        )


def watch_decisions(make: MakeCopies, until: float, streams: Streams) -> list[AgentDecisions]:
    """Plays at random and returns the decisions of each kind of agents with small observations.

    Args:
        make: Makes a number of environments.
        until: Time of `time.monotonic` at which it ends.
        streams: Random streams.

    Raises:
        EnvError: If the environment raises or breaks the contract.
    """
    with closing(make(COPIES)) as env:
        rng, layout = streams.generator(Role.WARMUP, "doctor"), env.layout
        parts = [_Parts(kind) for kind in env.kinds]

        def decide(shown: Step) -> list[np.ndarray]:
            return [part.decide(env, number, shown, rng) for number, part in enumerate(parts)]

        for shown in islice(chosen_play(env, streams.episodes(Role.ENV), decide), 1 + STEPS):
            if env.layout != layout:
                break  # rows have other numbers now
            for part, rows in zip(parts, shown.rows, strict=True):
                part.reward(reward_of(rows, env.num_lanes).ravel())
            if time.monotonic() > until:
                break
    return [part.joined() for part in parts if part.rewards]


class _Parts:
    """AgentDecisions of a kind, step by step."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.rewards: list[np.ndarray] = []
        self._is_small = sum(array.nbytes for array in kind.obs.allocate(1).values()) <= LARGEST
        self._rows = 0
        self._obs: list[Tree] = []
        self._actions: list[np.ndarray] = []
        self._places: list[np.ndarray] = []
        self._episodes: list[np.ndarray] = []

    def decide(self, env: VectorEnv, number: int, shown: Step, rng: np.random.Generator) -> np.ndarray:
        """Returns random actions of the rows that wait, for the environment, and keeps them with the observations."""
        rows, width = shown.rows[number], len(self.kind.agents)
        waiting = np.flatnonzero(rows.waiting)
        mask = rows.obs[MASK][waiting] if self.kind.obs.has_mask else None
        stored = random_actions(self.kind.action, len(waiting), mask, rng)
        if self._is_small and self._rows < MOST_ROWS:
            lanes = waiting // width
            self._rows += len(waiting)
            self._obs.append({path: leaf[waiting] for path, leaf in rows.obs.items()})
            self._actions.append(stored)
            self._places.append(waiting)
            self._episodes.append(env.episode[lanes] * env.num_lanes + lanes)
        return self.kind.action.to_env(stored)

    def reward(self, given: np.ndarray) -> None:
        """Adds the rewards ``[rows]`` of a step to the decisions before it; there are none before the first."""
        if len(self.rewards) < len(self._places):
            self.rewards.append(given[self._places[-1]])

    def joined(self) -> AgentDecisions:
        """Returns all decisions that have a reward."""
        count = len(self.rewards)
        obs = {path: np.concatenate([tree[path] for tree in self._obs[:count]]) for path in self._obs[0]}
        agent = np.concatenate(self._places[:count]) % len(self.kind.agents)
        action, episode = (np.concatenate(one[:count]) for one in (self._actions, self._episodes))
        return AgentDecisions(self.kind, obs, action, np.concatenate(self.rewards), agent, episode)
