"""Rollouts as trajectories of 2021: a batch for each piece of one agent's episode.

A rollout is cut at the ends of episodes and fragments. Each piece becomes a batch with the columns that policies of
scripts postprocess and learn from, and with the real observation after its last row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rookery.face import Rollout
from rookery_rllib.batch.numpy_functions import as_arrays
from rookery_rllib.batch.sample_batch import SampleBatch

Slots = dict[int, dict[str, Any]]
"""State of each slot: the number of its ``episode``, the ``step`` in it, its last ``action`` and ``reward``."""


UNCUT = 2**31
"""Length limit of trajectories that are not cut."""


def _as_stored(actions: np.ndarray) -> np.ndarray:
    return actions


def _itself(slot: int) -> int:
    return slot


EPISODES_APART = 1_000_000
"""Upper limit of the number of environments; episode ids of one environment differ by it."""


def _no_states(memory: Tensor) -> list[np.ndarray]:
    return []


@dataclass(frozen=True)
class Reading:
    """Functions that convert stored rollout data to the columns of a policy of a script.

    Attributes:
        preprocess: Converts stored observations by leaf path to rows ``[N, ...]``.
        actions: Converts stored actions ``[N, ...]`` to the policy's own.
        states: Converts stored memory ``[N, M]`` to the model's states, a list of ``[N, ...]``.
        extras: Adds the columns that the policy itself computes for each row.
    """

    preprocess: Callable[[Mapping[str, Any]], Any]
    actions: Callable[[np.ndarray], np.ndarray] = _as_stored
    states: Callable[[Tensor], list[np.ndarray]] = _no_states
    extras: Callable[[SampleBatch], SampleBatch] | None = None


@dataclass
class Trajectory:
    """Consecutive decisions in one episode of one agent.

    Attributes:
        rows: ``[N]`` indices in the flat rollout, in the order of time.
        slot: The slot that made them.
        place: Index of the fragment in the slot's rollout, and of the piece in it; pieces of other agents of the same
            environment with the same place are of the same time.
        episode: Index of the episode of the slot, from 0.
        step: Decisions of that episode before them.
        ended: Whether the episode ends with them.
        before: The slot's last action and reward before them, or None if they are the first of their episode.
        batch: The columns, as recorded.
        own: A copy that callbacks and policies may change.
    """

    rows: np.ndarray
    slot: int
    place: tuple[int, int]
    episode: int
    step: int
    ended: bool
    before: tuple[np.ndarray, float] | None = None
    batch: SampleBatch = field(default_factory=SampleBatch)
    own: SampleBatch = field(default_factory=SampleBatch)


def trajectories(
    rollout: Rollout, reading: Reading, every: int, slots: Slots, lane_of: Callable[[int], int] = _itself
) -> list[Trajectory]:
    """Cuts a rollout into trajectories.

    Args:
        rollout: The rollout.
        reading: Converts its data to the policy's columns.
        every: Decisions of a slot after which it is cut, whether its episode is over or not.
        slots: State of each slot before the rollout; updated in place.
        lane_of: Environment index of a slot, from which ``eps_id`` is made.
    """
    found = _cut(rollout, every, slots)
    if not found:
        return []
    whole = _columns(rollout, reading, found, lane_of)
    if reading.extras is not None:
        whole = reading.extras(whole)
    ends = np.cumsum([len(piece.rows) for piece in found]).tolist()
    kept, copied = dict(whole.items()), dict(whole.copy().items())
    for piece, (first, last) in zip(found, pairwise([0, *ends]), strict=True):
        piece.batch = SampleBatch({name: column[first:last] for name, column in kept.items()})
        piece.own = SampleBatch({name: column[first:last] for name, column in copied.items()})
    return found


def pieces_of(rollout: Rollout) -> list[Trajectory]:
    """Returns the pieces of episodes in a rollout without their columns, slot by slot in the order of time."""
    return _cut(rollout, UNCUT, {})


def _cut(rollout: Rollout, every: int, slots: Slots) -> list[Trajectory]:
    """Returns the pieces without their columns, slot by slot in the order of time."""
    fragments = rollout.reward.shape[1]
    over = (rollout.terminated | rollout.truncated).cpu().numpy()
    action, reward = rollout.action.flatten(0, 1).cpu().numpy(), rollout.reward.flatten().cpu().numpy()
    found: list[Trajectory] = []
    parts: Counter[int] = Counter()
    pieces: Counter[tuple[int, int]] = Counter()
    for fragment in range(fragments):
        length, slot = int(rollout.length[fragment]), int(rollout.slot[fragment])
        if not length:
            continue
        stands = slots.setdefault(slot, {"episode": 0, "step": 0, "action": None, "reward": 0.0})
        if bool(rollout.first[fragment]) and stands["step"]:  # the previous episode was lost with its environment
            stands |= {"episode": stands["episode"] + 1, "step": 0}
        ends = (np.flatnonzero(over[:length, fragment]) + 1).tolist()
        for first, last in pairwise(sorted({0, length, *ends, *range(0, length, every)})):
            ended = bool(over[last - 1, fragment])
            before = (stands["action"], stands["reward"]) if stands["step"] and stands["action"] is not None else None
            rows = np.arange(first, last) * fragments + fragment
            part = parts[slot] + first // every
            place = part, pieces[slot, part]
            pieces[slot, part] += 1
            found.append(Trajectory(rows, slot, place, stands["episode"], stands["step"], ended, before))
            stands |= {"step": stands["step"] + last - first, "action": action[rows[-1]].copy()}
            stands["reward"] = float(reward[rows[-1]])
            if ended:
                stands |= {"episode": stands["episode"] + 1, "step": 0}
        parts[slot] += -(-length // every)
    return found


def _columns(
    rollout: Rollout, reading: Reading, pieces: list[Trajectory], lane_of: Callable[[int], int]
) -> SampleBatch:
    """Returns the columns of all pieces, concatenated."""
    order = np.concatenate([piece.rows for piece in pieces])
    index = torch.from_numpy(order)

    def taken(column: Tensor) -> np.ndarray:
        return column.flatten(0, 1).index_select(0, index.to(column.device)).cpu().numpy()

    raw = {
        path: np.concatenate((taken(leaf), rollout.last_obs[path].cpu().numpy(), rollout.final_obs[path].cpu().numpy()))
        for path, leaf in rollout.obs.items()
    }
    seen = np.asarray(reading.preprocess(raw))
    action, reward, logp = reading.actions(taken(rollout.action)), taken(rollout.reward), taken(rollout.logp)
    columns: dict[str, Any] = {
        "obs": seen[: len(order)],
        "new_obs": seen[_following(rollout, pieces, order)],
        "actions": action,
        "prev_actions": _previous(action, pieces, [None if p.before is None else p.before[0] for p in pieces], reading),
        "rewards": reward,
        "prev_rewards": _previous(reward, pieces, [None if p.before is None else p.before[1] for p in pieces], None),
        "dones": taken(rollout.terminated) | taken(rollout.truncated),
        "infos": np.array([{} for _ in order], dtype=object),
        "t": np.concatenate([np.arange(piece.step, piece.step + len(piece.rows)) for piece in pieces]),
        "eps_id": _each(pieces, [piece.episode * EPISODES_APART + lane_of(piece.slot) for piece in pieces]),
        "agent_index": _each(pieces, [piece.slot for piece in pieces]),
        "unroll_id": _each(pieces, range(len(pieces))),
        "action_logp": logp,
        "action_prob": np.exp(logp),
    }
    if rollout.memory is not None and rollout.memory_every == 1:
        for number, part in enumerate(reading.states(rollout.memory.flatten(0, 1).index_select(0, index).cpu())):
            columns[f"state_in_{number}"] = part
    return SampleBatch(columns)


def columns_of(rollout: Rollout, rows: np.ndarray, policy: Any) -> SampleBatch:
    """Returns rows of a rollout as a batch."""
    index = torch.from_numpy(rows)

    def taken(column: Tensor) -> np.ndarray:
        return column.flatten(0, 1).index_select(0, index).cpu().numpy()

    obs = policy.preprocess({path: taken(leaf) for path, leaf in rollout.obs.items()})
    over = taken(rollout.terminated) | taken(rollout.truncated)
    logp, action, reward = taken(rollout.logp), taken(rollout.action), taken(rollout.reward)
    return SampleBatch(
        {
            "obs": obs,
            "new_obs": np.concatenate((obs[1:], obs[-1:])),
            "actions": action,
            "prev_actions": np.concatenate((np.zeros_like(action[:1]), action[:-1])),
            "rewards": reward,
            "prev_rewards": np.concatenate((np.zeros_like(reward[:1]), reward[:-1])),
            "dones": over,
            "infos": np.array([{} for _ in rows], dtype=object),
            "t": np.arange(len(rows)),
            "eps_id": np.zeros(len(rows), np.int64),
            "agent_index": np.zeros(len(rows), np.int64),
            "unroll_id": np.zeros(len(rows), np.int64),
            "action_logp": logp,
            "action_prob": np.exp(logp),
        }
    )


def with_rewards(rollout: Rollout, policy: Any, change: Callable[[Trajectory, SampleBatch], Any]) -> Rollout:
    """Returns a rollout with other rewards.

    `change` is called with each piece of an episode and its columns; it changes them in place or returns others.
    """
    reward = rollout.reward.clone()
    for piece in pieces_of(rollout):
        batch = columns_of(rollout, piece.rows, policy)
        changed = change(piece, batch)
        rewards = np.asarray(as_arrays((batch if changed is None else changed)["rewards"]))
        reward.view(-1)[torch.from_numpy(piece.rows)] = torch.as_tensor(rewards, dtype=reward.dtype, device="cpu")
    return replace(rollout, reward=reward)


def _each(pieces: list[Trajectory], values: Any) -> np.ndarray:
    """Repeats one number of each piece for all its rows."""
    return np.repeat(np.asarray(list(values), np.int64), [len(piece.rows) for piece in pieces])


def _following(rollout: Rollout, pieces: list[Trajectory], order: np.ndarray) -> np.ndarray:
    """Returns the index of each row's next observation: among the rows, then the last and the final observations."""
    fragments = rollout.reward.shape[1]
    place = np.full(rollout.reward.numel(), -1)
    place[order] = np.arange(len(order))
    final = {(int(t), int(f)): k for k, (t, f) in enumerate(rollout.boot_index.tolist())}
    following = np.arange(1, len(order) + 1)
    at = -1
    for piece in pieces:
        at += len(piece.rows)
        t, fragment = divmod(int(piece.rows[-1]), fragments)
        if piece.ended:  # terminal observations are not stored
            number = final.get((t, fragment))
            following[at] = at if number is None else len(order) + fragments + number
        elif t + 1 < int(rollout.length[fragment]):
            following[at] = place[piece.rows[-1] + fragments]
        else:
            following[at] = len(order) + fragment
    return following


def _previous(column: np.ndarray, pieces: list[Trajectory], before: list[Any], reading: Reading | None) -> np.ndarray:
    """Returns a column shifted by one row; zeros where an episode begins."""
    shifted = np.concatenate((np.zeros_like(column[:1]), column[:-1]))
    at = 0
    for piece, value in zip(pieces, before, strict=True):
        if value is None:
            shifted[at] = 0
        elif reading is None:
            shifted[at] = value
        else:
            shifted[at] = reading.actions(np.asarray(value)[None])[0]
        at += len(piece.rows)
    return shifted
