"""Replay made by hand: episodes of any spaces, as directories that runs learn from."""

from __future__ import annotations

import gymnasium
import numpy as np

from rookery.core.io.files import write_directory
from rookery.core.spaces.arrays import MASK, action_spec, obs_spec
from rookery.replay.buffer import ReplayBuffer, ReplayConfig
from rookery.replay.segments import FACTS, facts_of, new_segments


def buffer_of(obs_space, action_space, episodes):
    """A replay buffer with episodes: dicts of ``obs`` (an array or a dict of arrays, one longer than the rest),
    ``action``, ``reward`` and ``terminated``; ``open`` ones are neither terminated nor truncated.
    """
    spec, actions = obs_spec(obs_space, action_space), action_spec(action_space)
    size = max(sum(len(one["reward"]) for one in episodes), 1)
    rng = np.random.default_rng(0)
    buffer = ReplayBuffer(spec, actions, ReplayConfig(capacity=size), rng, memory_size=0, memory_every=1)
    for slot, one in enumerate(episodes):
        length, ended = len(one["reward"]), bool(one.get("terminated", False))
        every = np.arange(length)
        is_last = every == length - 1
        tail = every[is_last & (not ended)]
        seen = one["obs"] if isinstance(one["obs"], dict) else {"obs": one["obs"]}
        piece = {
            "serial": np.array([0]),
            "action": np.asarray(one["action"]).astype(actions.dtype),
            "logp": np.zeros(length, np.float32),
            "reward": np.asarray(one["reward"], np.float32),
            "terminated": is_last & ended,
            "truncated": is_last & (not ended) & (not one.get("open", False)),
            "begins": every == 0,
            "slot": np.full(length, slot),
            "clock": every,
            "before": (every > 0).astype(np.int64),
            "next_row": tail,
        }
        for leaf in spec.leaves:
            array = np.asarray(seen[leaf.path]).astype(bool if leaf.path == MASK else leaf.dtype)
            piece |= {f"obs/{leaf.path}": array[:-1], f"next_obs/{leaf.path}": array[1:][tail]}
        buffer.append(piece, continues=False)
    return buffer


def keep(path, obs_space, action_space, episodes):
    """Writes episodes as a replay directory; gives its path as text."""
    buffer = buffer_of(obs_space, action_space, episodes)
    files = new_segments(buffer, "main", 0, buffer.total)
    write_directory(path, files, {FACTS: {"main": facts_of(buffer)}}, replace=True)
    return str(path)


def poles(path, episodes=6, seed=0):
    """Episodes of CartPole in which the pole is pushed back whichever way it falls, which lasts for 500 steps or so."""
    env, found = gymnasium.make("CartPole-v1"), []
    for number in range(episodes):
        obs = [env.reset(seed=seed + number)[0]]
        action, reward, over = [], [], False
        while not over:
            choice = int(obs[-1][2] + 0.5 * obs[-1][3] + 0.02 * obs[-1][0] + 0.05 * obs[-1][1] > 0)
            seen, earned, terminated, truncated, _ = env.step(choice)
            obs.append(seen)
            action.append(choice)
            reward.append(earned)
            over = terminated or truncated
        found.append({"obs": np.stack(obs), "action": action, "reward": reward, "terminated": terminated})
    return keep(path, env.observation_space, env.action_space, found)
