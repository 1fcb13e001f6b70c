"""`RandomPlay`: random play of throwaway environments, to learn what observations and actions are.

Environments that play the same episode are compared: the first two always act alike, in each further one a single agent
acts otherwise. Where the first two differ, the environment is not deterministic, and nothing is concluded.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from rookery.core.spaces.arrays import MASK, Tree
from rookery.envs.base import Kind, Rows, Step, VectorEnv
from rookery.envs.random_play import chosen_play, random_actions, random_play

AGENTS = 6
"""Largest number of agents whose actions are tried."""

ROUNDS, PAIRED_STEPS = 4, 100
"""Episodes in which environments are compared, and steps of each."""

FEW_STEPS = 20
"""Fewest steps with another action before something is concluded."""

STEPS = 2_000
"""Vector steps of random play."""

KEPT = 1_000
"""Rows of observations that are kept of each kind of agents."""

KEPT_BYTES = 64_000_000


@dataclass
class Ending:
    """End of an episode: its length in steps, and whether it was terminated."""

    length: int
    terminated: bool


@dataclass
class RandomPlay:
    """Observations from random play.

    Attributes:
        kinds: The kinds of agents.
        seen: Observations of each kind, ``[N, ...]`` by path.
        acted: Names of agents that have acted.
        endings: Ends of episodes.
        late: Whether the only reward of each finished episode was that of its last step.
        rewarded: Number of finished episodes with any reward.
        is_exact: Whether equal actions led to equal steps; None if it is unknown.
        without_effect: Agents whose actions changed nothing.
        tried: Steps in which each agent acted otherwise.
        repeats: Number of episodes whose second observation equals the first, and number of episodes.
        moves: Number of later steps in which the observation changed, and number of them.
        steps: Vector steps.
    """

    kinds: tuple[Kind, ...]
    seen: list[Tree] = field(default_factory=list)
    acted: set[str] = field(default_factory=set)
    endings: list[Ending] = field(default_factory=list)
    late: list[bool] = field(default_factory=list)
    rewarded: int = 0
    is_exact: bool | None = None
    without_effect: list[str] = field(default_factory=list)
    tried: dict[str, int] = field(default_factory=dict)
    repeats: tuple[int, int] = (0, 0)
    moves: tuple[int, int] = (0, 0)
    steps: int = 0


def lanes_for(env: VectorEnv) -> int:
    """Returns the number of environments that a probe of environments like this one needs."""
    return 2 + min(sum(len(kind.agents) for kind in env.kinds), AGENTS)


def probe(env: VectorEnv, until: float) -> RandomPlay:
    """Plays at random, first in pairs, then to see observations and ends.

    Args:
        env: Throwaway environments, `lanes_for` of them.
        until: Time of `time.monotonic` at which it ends.

    Raises:
        EnvError: If the environment raises or breaks the contract.
    """
    found = RandomPlay(env.kinds)
    began = time.monotonic()
    _compare(env, found, began + 0.5 * (until - began))
    _watch(env, found, until)
    found.kinds = env.kinds
    return found


def _compare(env: VectorEnv, found: RandomPlay, until: float) -> None:
    """Compares environments that play the same episode."""
    places = enumerate(env.kinds)
    agents = [(number, column, name) for number, kind in places for column, name in enumerate(kind.agents)]
    agents, layout = agents[: env.num_lanes - 2], env.layout
    effect: set[str] = set()
    rng = np.random.default_rng(0)
    for turn in range(ROUNDS):
        same, other = np.ones(env.num_lanes, dtype=bool), list[tuple[int, str]]()

        def choose(shown: Step, same: np.ndarray = same, other: list[tuple[int, str]] = other) -> list[np.ndarray]:
            answers, other[:] = _paired_answers(env, shown, same, agents, rng)
            return answers

        play = chosen_play(env, lambda _, episode, turn=turn: 1_000 * turn + episode, choose)  # type: ignore[misc]
        for number, shown in enumerate(islice(play, 1 + PAIRED_STEPS)):
            for lane in range(1, env.num_lanes):
                if same[lane] and not _is_equal(shown, env, lane):
                    same[lane] = False
                    if lane > 1:
                        effect.add(agents[lane - 2][2])
            if not same[1] or (not number and not same.all()):
                found.is_exact = False
                return
            for lane, name in other:
                if same[lane]:
                    found.tried[name] = found.tried.get(name, 0) + 1
            if env.layout != layout or time.monotonic() > until or (shown.any_end and shown.ended.any()):
                break
    found.is_exact = True
    found.without_effect = [
        name for _, _, name in agents if name not in effect and found.tried.get(name, 0) >= FEW_STEPS
    ]


def repeats_alone(make: Callable[[], VectorEnv], *, reused: bool = False) -> bool:
    """Returns whether an environment alone repeats its steps, given equal seeds and actions.

    Args:
        make: Makes a throwaway environment of one lane.
        reused: Whether the same environment plays both times, so that what an episode leaves behind shows.
    """
    seen: list[list[bytes]] = []
    with ExitStack() as made:
        env = made.enter_context(closing(make()))
        for number in range(2):
            if number and not reused:
                env = made.enter_context(closing(make()))
            play = random_play(env, lambda lane, episode: episode, np.random.default_rng(0))
            seen.append([_as_bytes(shown) for shown in islice(play, PAIRED_STEPS)])
    return seen[0] == seen[1]


def _as_bytes(shown: Step) -> bytes:
    """Returns observations, rewards and ends of a step as bytes."""
    parts = [array for rows in shown.rows for array in (rows.waiting, rows.reward, rows.terminated, *rows.obs.values())]
    return b"".join(np.ascontiguousarray(array).tobytes() for array in parts)


def _paired_answers(
    env: VectorEnv, shown: Step, same: np.ndarray, agents: list[tuple[int, int, str]], rng: np.random.Generator
) -> tuple[list[np.ndarray], list[tuple[int, str]]]:
    """Returns the actions of all lanes, and the lanes in which an agent acts otherwise, with its name.

    Args:
        env: The environments.
        shown: The last step.
        same: ``[lanes]`` whether a lane has been like the first one so far.
        agents: Number of the kind, column and name of the agent that acts otherwise in lane 2, 3 and so on.
        rng: Generator of the actions.
    """
    answers, other = [], []
    for number, (kind, rows) in enumerate(zip(env.kinds, shown.rows, strict=True)):
        waiting = np.flatnonzero(rows.waiting)
        mask = rows.obs[MASK][waiting] if kind.obs.has_mask else None
        drawn = random_actions(kind.action, len(waiting), mask, rng)
        width = len(kind.agents)
        place = {int(row): position for position, row in enumerate(waiting)}
        for row, position in place.items():
            lane, column = divmod(row, width)
            if not lane or not same[lane] or column not in place:
                continue
            if lane > 1 and agents[lane - 2][:2] == (number, column):
                if (drawn[position] != drawn[place[column]]).any():
                    other.append((lane, agents[lane - 2][2]))
            else:
                drawn[position] = drawn[place[column]]
        answers.append(kind.action.to_env(drawn))
    return answers, other


def _is_equal(shown: Step, env: VectorEnv, lane: int) -> bool:
    """Returns whether a lane shows the same as the first one."""
    if shown.ended[lane] != shown.ended[0]:
        return False
    for kind, rows in zip(env.kinds, shown.rows, strict=True):
        width = len(kind.agents)
        mine, first = slice(lane * width, (lane + 1) * width), slice(0, width)
        for array in (rows.waiting, rows.reward, rows.terminated, rows.truncated):
            if not np.array_equal(array[mine], array[first]):
                return False
        waits = rows.waiting[first]
        for leaf in rows.obs.values():
            if not np.array_equal(leaf[mine][waits], leaf[first][waits]):
                return False
    return True


def _watch(env: VectorEnv, found: RandomPlay, until: float) -> None:
    """Plays at random and keeps observations, ends and rewards."""
    rng, lanes = np.random.default_rng(1), env.num_lanes
    lengths, early, any_reward = np.zeros(lanes, dtype=int), np.zeros(lanes, dtype=bool), np.zeros(lanes, dtype=bool)
    before: list[Tree] = []
    kept: list[list[Tree]] = []
    repeated = repeats = moved = moves = 0
    play = random_play(env, lambda lane, episode: 1_000_000 + 1_000 * lane + episode, rng)
    for shown in islice(play, STEPS):
        if found.steps:
            lengths += 1
            rewarded, terminated = _rewards(env, shown)
            any_reward |= rewarded
            for lane in np.flatnonzero(shown.ended).tolist():
                found.endings.append(Ending(int(lengths[lane]), bool(terminated[lane])))
                found.rewarded += bool(any_reward[lane])
                if any_reward[lane]:
                    found.late.append(bool(rewarded[lane] and not early[lane]))
                lengths[lane], early[lane], any_reward[lane] = 0, False, False
            early |= rewarded & ~shown.ended
        kept += [[] for _ in env.kinds[len(kept) :]]
        now = [{path: leaf.copy() for path, leaf in rows.obs.items()} for rows in shown.rows]
        for kind, rows, trees in zip(env.kinds, shown.rows, kept, strict=True):
            waiting = np.flatnonzero(rows.waiting)
            found.acted |= {kind.agents[column] for column in set((waiting % len(kind.agents)).tolist())}
            _keep(trees, rows, waiting)
        if len(before) == len(now) and before[0].keys() == now[0].keys():
            for lane in np.flatnonzero(lengths > 0).tolist():
                changed = _has_changed(env, before, now, lane)
                if lengths[lane] == 1:
                    repeats, repeated = repeats + 1, repeated + (not changed)
                else:
                    moves, moved = moves + 1, moved + changed
        before = now
        found.steps += 1
        if time.monotonic() > until:
            break
    found.repeats, found.moves = (repeated, repeats), (moved, moves)
    for kind, trees in zip(env.kinds, kept, strict=True):
        none = kind.obs.allocate(0)
        found.seen.append({path: np.concatenate([none[path], *(tree[path] for tree in trees)]) for path in none})


def _keep(trees: list[Tree], rows: Rows, waiting: np.ndarray) -> None:
    """Keeps copies of observations, up to `KEPT` rows and `KEPT_BYTES`."""
    count = sum(len(next(iter(tree.values()))) for tree in trees)
    size = sum(leaf.nbytes for tree in trees for leaf in tree.values())
    if count < KEPT and size < KEPT_BYTES and len(waiting):
        trees.append({path: leaf[waiting] for path, leaf in rows.obs.items()})


def _has_changed(env: VectorEnv, before: list[Tree], now: list[Tree], lane: int) -> bool:
    """Returns whether any observation of a lane differs between two steps."""
    for kind, one, other in zip(env.kinds, before, now, strict=True):
        width = len(kind.agents)
        mine = slice(lane * width, (lane + 1) * width)
        if any(not np.array_equal(one[path][mine], other[path][mine]) for path in one):
            return True
    return False


def _rewards(env: VectorEnv, shown: Step) -> tuple[np.ndarray, np.ndarray]:
    """Returns for each lane whether an agent was rewarded, and whether one was terminated, ``[lanes]`` each."""
    rewarded, terminated = np.zeros((2, env.num_lanes), dtype=bool)
    for rows in shown.rows:
        paid = rows.reward != 0.0
        if rows.group_reward is not None:
            paid = paid | (rows.group_reward != 0.0)
        rewarded |= paid.reshape(env.num_lanes, -1).any(axis=1)
        terminated |= rows.terminated.reshape(env.num_lanes, -1).any(axis=1)
    return rewarded, terminated
