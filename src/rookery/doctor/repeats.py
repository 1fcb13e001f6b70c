"""Episodes that are played again, from equal seeds and with equal actions: in new environments, and in one that has
played before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

import numpy as np

from rookery.envs.base import Step, VectorEnv, has_own_episodes
from rookery.envs.random_play import random_answers

LONGEST = 200
"""Steps of an episode that are compared."""

EARLIER_STEPS, FEWEST_EARLIER, MOST_EARLIER = 1_000, 3, 200
"""Steps that an environment has played before its episodes are compared, and fewest and most episodes of them."""

COMPARED = 3
"""Episodes that are compared."""

OWN_SEED = 9_000
"""Seed of the first of them; episodes before have the seeds from 0 on."""

Moment = tuple[bytes, bytes, bytes]
"""Observations, rewards and ends of a step."""

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


def differences_of_new(make: MakeOne) -> tuple[str, ...]:
    """Returns the parts of an episode that differ between two new environments with equal seeds and actions."""
    return _different(_of_new(make, OWN_SEED), _of_new(make, OWN_SEED))


def differences_after_others(make: MakeOne, until: float, usual_length: float | None) -> tuple[str, ...] | None:
    """Returns the parts of an episode that differ in an environment that has played other episodes before.

    Some episodes with equal seeds and actions are played in new environments, and in one after many other episodes.
    Where new environments agree, a difference is state that survives `reset`.

    Args:
        make: Makes a throwaway environment of one lane.
        until: Time of `time.monotonic` at which it ends.
        usual_length: Mean length of its episodes; None if none has ended.

    Returns:
        The parts; None if it is unknown, because the time was too short or episodes do not end.
    """
    if usual_length is None:
        return None
    earlier = int(np.clip(np.ceil(EARLIER_STEPS / max(usual_length, 1.0)), FEWEST_EARLIER, MOST_EARLIER))
    with closing(make()) as env:
        if has_own_episodes(env):
            return None
        shown = env.reset(lambda _, episode: episode if episode < earlier else OWN_SEED + episode - earlier)
        rng, ended = np.random.default_rng(0), 0
        while ended < earlier:
            if time.monotonic() > until:
                return None
            shown = env.step(random_answers(env, shown, rng))
            ended += bool(shown.ended[0])
        for seed in range(OWN_SEED, OWN_SEED + COMPARED):
            moments = list(_episode(env, shown, seed))
            if found := _different([one for one, _ in moments], _of_new(make, seed)):
                return found
            shown = moments[-1][1]
            if not shown.ended[0] or time.monotonic() > until:
                break
    return ()


def _of_new(make: MakeOne, seed: int) -> list[Moment]:
    """Returns the moments of the first episode of a new environment."""
    with closing(make()) as env:
        shown = env.reset(lambda _, episode: seed + episode)
        return [moment for moment, _ in _episode(env, shown, seed)]


def _episode(env: VectorEnv, shown: Step, seed: int) -> Iterator[tuple[Moment, Step]]:
    """Plays an episode that has just begun, up to `LONGEST` steps, and yields its moments and steps.

    Args:
        env: Environment of one lane.
        shown: The step in which the episode began; its reward and end are those of the episode before.
        seed: Seed of the actions.
    """
    rng = np.random.default_rng(seed)
    yield (moment_of(shown, 0, 1)[0], b"", b""), shown
    for _ in range(LONGEST):
        shown = env.step(random_answers(env, shown, rng))
        yield moment_of(shown, 0, 1), shown
        if shown.ended[0]:
            return


def _different(one: Sequence[Moment], other: Sequence[Moment]) -> tuple[str, ...]:
    """Returns the parts of the first moment in which two plays differ; the ends, if one has ended before."""
    for mine, others in zip(one, other, strict=False):
        if mine != others:
            return tuple(part for part, a, b in zip(PARTS, mine, others, strict=True) if a != b)
    return () if len(one) == len(other) else ("ends",)
