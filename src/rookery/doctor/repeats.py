"""Episodes that are played again, from equal seeds and with equal actions: in new environments, and in one that has
played before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import islice
from typing import NamedTuple

import numpy as np

from rookery.core.spaces.arrays import MASK
from rookery.doctor.probe import reward_of
from rookery.envs.base import Step, VectorEnv, has_own_episodes
from rookery.envs.random_play import chosen_play, random_actions, random_play

LONGEST = 200
"""Steps of an episode that are compared."""

EARLIER_STEPS, MOST_EARLIER = 1_000, 2_000
"""Steps that an environment has played before its episodes are compared, up to the next end, and most of them."""

COMPARED = 4
"""Episodes that are compared."""

OWN_SEED = 9_000
"""Seed of the first of them; episodes before have the seeds from 0 on."""

Moment = tuple[bytes, bytes, bytes]
"""Observations, rewards and ends of a step."""

ROUNDING = 0.01
"""Relative and absolute difference that counts as rounding, where it is the first one of an episode."""

MakeOne = Callable[[], VectorEnv]
"""Makes an environment of one lane."""

PARTS = ("observations", "rewards", "ends")


def moment_of(shown: Step, lane: int, lanes: int) -> Moment:
    """Returns a lane's part of a step as bytes that can be compared; where no agent waits, observations are left out.

    Args:
        shown: The step.
        lane: Number of the lane.
        lanes: Number of lanes.
    """
    obs, rewards, ends = [], [], [bytes([bool(shown.ended[lane])])]
    for rows in shown.rows:
        width = len(rows.reward) // lanes
        mine = slice(lane * width, (lane + 1) * width)
        waits = rows.waiting[mine]
        obs += [waits.tobytes(), *(np.ascontiguousarray(leaf[mine][waits]).tobytes() for leaf in rows.obs.values())]
        rewards.append(rows.reward[mine].tobytes())
        if rows.group_reward is not None:
            rewards.append(rows.group_reward[mine].tobytes())
        ends += [rows.terminated[mine].tobytes(), rows.truncated[mine].tobytes()]
    return b"".join(obs), b"".join(rewards), b"".join(ends)


class EpisodeMoment(NamedTuple):
    """A moment of an episode.

    Attributes:
        moment: What is compared.
        obs: Its observations, of the agents that wait.
        rewards: Its rewards.
    """

    moment: Moment
    obs: tuple[np.ndarray, ...]
    rewards: tuple[np.ndarray, ...]

    def is_close(self, other: EpisodeMoment) -> bool:
        """Returns whether the other moment differs by rounding alone."""
        if self.moment[2] != other.moment[2] or len(self.obs) != len(other.obs):
            return False
        pairs = zip((*self.obs, *self.rewards), (*other.obs, *other.rewards), strict=True)
        return all(one.shape == two.shape and np.allclose(one, two, rtol=ROUNDING, atol=ROUNDING) for one, two in pairs)


def differences_of_new(make: MakeOne) -> tuple[str, ...]:
    """Returns the parts of an episode that differ between two new environments with equal seeds and actions."""
    return _different(_of_new(make, OWN_SEED), _of_new(make, OWN_SEED))


def differences_after_others(make: MakeOne, until: float) -> tuple[str, ...] | None:
    """Returns the parts of an episode that differ in an environment that has played other episodes before.

    Some episodes with equal seeds and actions are played in new environments, and in one after many other steps. Where
    new environments agree, a difference in all of them is state that survives `reset`; in a few it can be rounding, as
    in simulations whose order of contacts depends on earlier ones.

    Args:
        make: Makes a throwaway environment of one lane.
        until: Time of `time.monotonic` at which it ends.

    Returns:
        The parts; None if it is unknown, because the time was too short.
    """
    with closing(make()) as env:
        if has_own_episodes(env):
            return None
        earlier = random_play(env, lambda _, episode: episode, np.random.default_rng(0))
        for steps, shown in enumerate(islice(earlier, MOST_EARLIER)):
            if time.monotonic() > until:
                return None
            if steps >= EARLIER_STEPS and shown.ended[0]:
                break
        found: tuple[str, ...] = ()
        for seed in range(OWN_SEED, OWN_SEED + COMPARED):
            found = _different(_played(env, seed), _of_new(make, seed))
            if not found or time.monotonic() > until:
                break
    return found


def differences_beside_another(make: Callable[[int], VectorEnv], until: float) -> tuple[str, ...]:
    """Returns the parts of an episode that differ while another environment of the process plays, too.

    Args:
        make: Makes a number of throwaway environments.
        until: Time of `time.monotonic` at which it ends.
    """
    found: tuple[str, ...] = ()
    for seed in range(OWN_SEED, OWN_SEED + COMPARED):
        with closing(make(2)) as env:
            found = _different(_played(env, seed), _of_new(lambda: make(1), seed))
        if not found or time.monotonic() > until:
            break
    return found


def _of_new(make: MakeOne, seed: int) -> list[EpisodeMoment]:
    """Returns the moments of the first episode of a new environment."""
    with closing(make()) as env:
        return _played(env, seed)


def _played(env: VectorEnv, seed: int) -> list[EpisodeMoment]:
    """Returns the moments of an episode of the first lane, from its reset on, of up to `LONGEST` steps.

    Args:
        env: The environment.
        seed: Seed of the episode and of the actions; other lanes have others.
    """
    lanes = env.num_lanes
    rngs = [np.random.default_rng((seed, lane)) for lane in range(lanes)]
    play = chosen_play(
        env, lambda lane, episode: seed + episode + OWN_SEED * lane, lambda shown: _answers(env, shown, rngs)
    )
    first = _moment(next(play), lanes)
    found = [first._replace(moment=(first.moment[0], b"", b""), rewards=())]
    for shown in islice(play, LONGEST):
        found.append(_moment(shown, lanes))
        if shown.ended[0]:
            break
    return found


def _answers(env: VectorEnv, shown: Step, rngs: Sequence[np.random.Generator]) -> list[np.ndarray]:
    """Returns random actions, those of each lane from its own generator."""
    answers = []
    for kind, rows in zip(env.kinds, shown.rows, strict=True):
        masks, parts = rows.obs[MASK] if kind.obs.has_mask else None, []
        waiting = rows.waiting.reshape(len(rngs), -1)
        for lane, rng in enumerate(rngs):
            mine = lane * waiting.shape[1] + np.flatnonzero(waiting[lane])
            parts.append(random_actions(kind.action, len(mine), None if masks is None else masks[mine], rng))
        answers.append(kind.action.to_env(np.concatenate(parts)))
    return answers


def _moment(shown: Step, lanes: int) -> EpisodeMoment:
    """Returns the first lane's part of a step."""
    obs, rewards = [], []
    for rows in shown.rows:
        width = len(rows.reward) // lanes
        waits = np.flatnonzero(rows.waiting[:width])
        obs += [leaf[waits] for leaf in rows.obs.values()]
        rewards.append(reward_of(rows, lanes)[0].copy())
    return EpisodeMoment(moment_of(shown, 0, lanes), tuple(obs), tuple(rewards))


def _different(one: Sequence[EpisodeMoment], other: Sequence[EpisodeMoment]) -> tuple[str, ...]:
    """Returns the parts of the first moment in which two plays differ; none if it is by rounding alone."""
    for mine, others in zip(one, other, strict=False):
        if mine.moment != others.moment:
            if mine.is_close(others):
                return ()
            return tuple(part for part, a, b in zip(PARTS, mine.moment, others.moment, strict=True) if a != b)
    return () if len(one) == len(other) else ("ends",)
