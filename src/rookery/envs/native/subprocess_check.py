"""Plays an environment in C in a subprocess: `main` reads a `Play` and writes a `Played`.

A crash ends only the subprocess; and a state that is resumed here comes from another process.
"""

from __future__ import annotations

import ctypes
import hashlib
import pickle
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rookery.core.errors import EnvError
from rookery.core.seeding import Role, Streams
from rookery.envs.base import Step
from rookery.envs.native.c_env import CEnv
from rookery.envs.random_play import random_answers


@dataclass(frozen=True)
class Play:
    """Request of a run in a subprocess.

    Attributes:
        env: Result of `CEnv.subprocess_arguments`.
        seed: Seed of the episodes.
        actions: Seed of the actions.
        steps: Vector steps to play.
        state: Result of `CEnv.state_dict` to resume from; None = begin.
        poison: Whether a sanitizer reports accesses to memory around the fields of the state.
    """

    env: dict[str, Any]
    seed: int
    actions: int
    steps: int
    state: dict[str, Any] | None = None
    poison: bool = False


@dataclass(frozen=True)
class Played:
    """Result of a run in a subprocess.

    Attributes:
        digests: A digest for the content of each step.
        breaches: Contract breaches of the environment, each kind once.
    """

    digests: list[str]
    breaches: list[str]


def digests_of(env: CEnv, shown: Step, steps: int, actions: int) -> Iterator[str]:
    """Plays random actions and yields a digest of each step.

    Args:
        env: The environment.
        shown: Its current step.
        steps: Vector steps to play.
        actions: Seed of the actions.
    """
    rng = np.random.default_rng(actions)
    for _ in range(steps):
        shown = env.step(random_answers(env, shown, rng))
        (rows,) = shown.rows
        digest = hashlib.blake2b(digest_size=8)
        parts = [array[rows.waiting] for array in rows.obs.values()]
        parts += [rows.reward, rows.terminated, rows.truncated, rows.waiting, shown.ended, rows.final_index]
        for part in (*parts, *rows.final_obs.values()):
            digest.update(np.ascontiguousarray(part).tobytes())
        yield digest.hexdigest()


def play(request: Play) -> Played:
    """Runs a request; an episode that breaks the contract is given up, and the next one begins."""
    about = {
        "library": request.env["library"],
        "symbol": request.env["symbol"],
        "is_noted": False,
    }  # sanitizers report more
    env: CEnv = type("Elsewhere", (CEnv,), about)(request.env["lanes"], **request.env["settings"])
    if request.poison:
        _poison(env)
    seeds = Streams(request.seed).episodes(Role.ENV)
    found: list[str] = []
    breaches: dict[str, str] = {}
    state, left, begun = request.state, request.steps, False
    while left > 0:
        try:
            if begun:
                shown = env.restart(seeds)
            else:
                begun = True
                shown = env.reset(seeds) if state is None else env.load_state_dict(state, seeds)[0]
            for digest in digests_of(env, shown, left, request.actions):
                found.append(digest)
                left -= 1
        except EnvError as error:
            breaches.setdefault(re.sub(r"environment \d.*?step \d+: |[\d.]+", "", str(error)), str(error))
            left -= 1
    return Played(found, list(breaches.values()))


def _poison(env: CEnv) -> None:
    """Makes the sanitizer report accesses to the memory around the fields."""
    poison = ctypes.CDLL(None).__asan_poison_memory_region
    for begin, size in env.guards():
        poison(ctypes.c_void_p(begin), ctypes.c_size_t(size))


def main() -> None:
    """Reads the request from standard input, writes the result to standard output."""
    pickle.dump(play(pickle.load(sys.stdin.buffer)), sys.stdout.buffer)
