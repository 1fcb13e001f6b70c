"""Training batches in the form of 2021, which callbacks see and may change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rookery.face import Algorithm, BatchHook, Minibatch, Rollout
from rookery_rllib.batch.numpy_functions import as_arrays
from rookery_rllib.batch.sample_batch import SampleBatch
from rookery_rllib.batch.trajectories import (
    UNCUT,
    Reading,
    Slots,
    Trajectory,
    columns_of,
    pieces_of,
    trajectories,
    with_rewards,
)
from rookery_rllib.policy.callbacks import overrides
from rookery_rllib.policy.custom_loss import tensors_of
from rookery_rllib.policy.episodes import SINGLE

CHANGEABLE = {"advantages": "advantage", "value_targets": "value_target", "action_logp": "logp", "vf_preds": "value"}
"""Columns with targets that callbacks may change, and their fields in our batches."""

TRAIN_COLUMNS = {"action": "actions", "reward": "rewards", "weight": "weights", **{v: k for k, v in CHANGEABLE.items()}}
"""Columns of 2021 by field of our batches."""


class ClippedRewards(BatchHook):
    """Clips rewards before learning; results report the original ones.

    Args:
        bound: Largest absolute reward; None = rewards become their sign.
    """

    def __init__(self, bound: float | None) -> None:
        self.bound = bound

    def before_targets(self, learner: Algorithm[Any], rollout: Rollout, rollouts: Mapping[str, Rollout]) -> Rollout:
        reward = rollout.reward.sign() if self.bound is None else rollout.reward.clamp(-self.bound, self.bound)
        return replace(rollout, reward=reward)


class LearnHook(BatchHook):
    """Passes a policy's training data to callbacks of 2021, and the trajectories of others to policies of scripts.

    Args:
        trainer: The trainer, as of 2021.
        name: The policy.
        cut_after: Decisions in a row after which a trajectory is cut; None = trajectories are not needed.
    """

    MOMENTS = ("on_postprocess_trajectory", "on_sample_end", "on_learn_on_batch")

    def __init__(self, trainer: Any, name: str, cut_after: int | None = None) -> None:
        self._wanted = {moment: overrides(trainer.callbacks, moment) for moment in self.MOMENTS}
        if cut_after is None and trainer.is_multi_agent and self._wanted["on_postprocess_trajectory"]:
            cut_after = UNCUT  # callbacks see the others' trajectories
        self.trainer, self.name, self.cut_after = trainer, name, cut_after
        self._rollout: Rollout | None = None
        self.rollouts: Mapping[str, Rollout] = {}
        """The rollouts of all policies that learn now."""
        self.pieces: list[Trajectory] = []
        """The trajectories of this policy in them."""
        self.at: dict[tuple[int, tuple[int, int]], list[Trajectory]] = {}
        """The same by environment and place."""
        self._beginning: dict[int, Trajectory] = {}
        self._slots: Slots = {}
        self.reported: dict[str, Any] = {}
        """Values that callbacks put into `result` of the last batch."""

    @property
    def _policy(self) -> Any:
        return self.trainer.policy_facades[self.name]

    def take_down(self, learner: Algorithm[Any], rollouts: Mapping[str, Rollout]) -> None:
        """Stores the trajectories of a rollout; a policy of a script cuts its own."""
        self.rollouts = rollouts
        rollout = rollouts[self.name]
        if hasattr(learner, "look_at"):
            self.pieces = learner.look_at(rollout, self)
        elif self.cut_after is not None:
            reading = Reading(self._policy.preprocess)
            self.pieces = trajectories(rollout, reading, self.cut_after, self._slots, self.lane_of)
        self.at, self._beginning = {}, {int(piece.rows[0]): piece for piece in self.pieces}
        for piece in self.pieces:
            self.at.setdefault((self.lane_of(piece.slot), piece.place), []).append(piece)

    def lane_of(self, slot: int) -> int:
        """Returns the environment index of a slot."""
        return self.seat(slot)[0]

    def beside(self, piece: Trajectory) -> dict[Any, Any]:
        """Returns simultaneous trajectories of other agents in the same environment, by agent: policy and batch.

        They are those of policies that learn in the same update, and of agents that take part in every episode.
        """
        found: dict[Any, Any] = {}
        key = (self.lane_of(piece.slot), piece.place)
        for name in self.rollouts:
            for hook in self.trainer.rookery.learners[name].hooks:
                for other in hook.at.get(key, ()) if isinstance(hook, LearnHook) else ():
                    if not (name == self.name and other.slot == piece.slot):
                        found[hook.seat(other.slot)[1]] = (hook._policy, other.batch)
        return found

    def before_targets(self, learner: Algorithm[Any], rollout: Rollout, rollouts: Mapping[str, Rollout]) -> Rollout:
        """Reports trajectories whose targets come later, and complete rollouts. The first policy's hook makes all hooks
        store their trajectories.
        """
        if self.rollouts is not rollouts:
            learners = self.trainer.rookery.learners
            for name in rollouts:
                for hook in learners[name].hooks:
                    if isinstance(hook, LearnHook):
                        hook.take_down(learners[name], rollouts)
        self._rollout = rollout
        with_targets = hasattr(learner, "look_at") or (hasattr(learner, "targets") and learner.replay is None)
        if self._wanted["on_postprocess_trajectory"] and not with_targets:
            rollout = with_rewards(rollout, self._policy, self._notify_piece)  # it goes into replay
        if self._wanted["on_sample_end"]:
            samples = columns_of(rollout, _every_row(rollout), self._policy)
            self.trainer.callbacks.on_sample_end(worker=self.trainer.workers.local_worker(), samples=samples)
        return rollout

    def before_update(self, learner: Algorithm[Any], batch: Any) -> Any:
        """Reports trajectories with their targets, and the training batch."""
        if self._wanted["on_postprocess_trajectory"] and isinstance(batch, Minibatch) and self._rollout is not None:
            batch = self._with_changed_targets(batch, self._rollout)
        if self._wanted["on_learn_on_batch"]:
            reported: dict[str, Any] = {}
            train_batch = self._train_batch(batch)
            self.trainer.callbacks.on_learn_on_batch(policy=self._policy, train_batch=train_batch, result=reported)
            self.reported = reported
            if isinstance(batch, Minibatch):
                changed: dict[str, Any] = dict(_fields(train_batch, batch))
                batch = replace(batch, **changed)
        return batch

    def _train_batch(self, batch: Any) -> SampleBatch:
        columns: dict[str, Any] = {}
        if isinstance(getattr(batch, "obs", None), Mapping):
            columns["obs"] = self._policy.preprocess({path: leaf.cpu().numpy() for path, leaf in batch.obs.items()})
        columns |= as_arrays(tensors_of(batch, TRAIN_COLUMNS))
        return SampleBatch(columns)

    def _with_changed_targets(self, data: Minibatch, rollout: Rollout) -> Minibatch:
        """Reports each piece with its targets, and takes over changed ones."""
        every, place = _every_row(rollout), np.full(rollout.reward.numel(), -1)
        place[every] = np.arange(len(every))
        fields: dict[str, Any] = {name: getattr(data, name).clone() for name in CHANGEABLE.values()}
        obs = {path: leaf.clone() for path, leaf in data.obs.items()}
        for piece in pieces_of(rollout):
            batch = columns_of(rollout, piece.rows, self._policy)
            seen = batch["obs"].copy()
            at = torch.from_numpy(place[piece.rows])
            for column, name in CHANGEABLE.items():
                batch[column] = fields[name][at].cpu().numpy().reshape(len(piece.rows), -1)[:, 0]
            self._notify_piece(piece, batch)
            for column, name in CHANGEABLE.items():
                given = torch.as_tensor(np.asarray(batch[column]), dtype=fields[name].dtype, device="cpu")
                fields[name][at] = given.reshape(fields[name][at].shape)
            if not np.array_equal(seen, batch["obs"]):
                for path, leaf in self._policy.rows.restore(np.asarray(batch["obs"], np.float32)).items():
                    obs[path][at] = torch.as_tensor(leaf, dtype=obs[path].dtype, device="cpu").reshape(
                        obs[path][at].shape
                    )
                fields["obs"] = obs
        return replace(data, **fields)

    def _notify_piece(self, piece: Trajectory, batch: SampleBatch) -> None:
        """Calls `on_postprocess_trajectory` for a piece, whose columns callbacks may change."""
        agent, episode = self.who(piece.slot, piece.ended)
        played = self._beginning.get(int(piece.rows[0]))
        others = {} if played is None else self.beside(played)
        self.notify(agent, episode, batch, {agent: (self._policy, batch.copy()), **others})

    def notify(self, agent: Any, episode: Any, batch: SampleBatch, originals: Mapping[Any, Any]) -> None:
        """Calls `on_postprocess_trajectory`, if callbacks have it."""
        if not self._wanted["on_postprocess_trajectory"]:
            return
        trainer = self.trainer
        trainer.callbacks.on_postprocess_trajectory(
            worker=trainer.workers.local_worker(),
            episode=episode,
            agent_id=agent,
            policy_id=self.name,
            policies=trainer.policy_facades,
            postprocessed_batch=batch,
            original_batches=originals,
        )

    def seat(self, slot: int) -> tuple[int, Any]:
        """Returns the environment index of a slot, and its agent."""
        run = self.trainer.rookery
        playing = run._pool.worker.policies[self.name]
        kind = run.env.kinds[playing.kind]
        lane, column = divmod(int(playing.row_of_slot[slot]), len(kind.agents))
        return lane, self.trainer.agent_ids(kind.agents[column]) if self.trainer.is_multi_agent else SINGLE

    def who(self, slot: int, ended: bool) -> tuple[Any, Any]:
        """Returns the agent of a slot, and the episode of its next piece in the order of time."""
        lane, agent = self.seat(slot)
        return agent, self.trainer.book.of_piece(lane, agent, ended)


def _every_row(rollout: Rollout) -> np.ndarray:
    """Returns the indices of the valid rows of a rollout."""
    rows = rollout.valid_rows()
    return np.arange(rollout.reward.numel()) if rows is None else rows.cpu().numpy()


def _fields(train_batch: SampleBatch, batch: Minibatch) -> dict[str, Tensor]:
    """Converts targets that a callback may have changed to our fields."""
    found = {}
    for column, name in CHANGEABLE.items():
        field = getattr(batch, name)
        if column in train_batch:
            given = torch.as_tensor(np.asarray(train_batch[column]), dtype=field.dtype, device=field.device)
            found[name] = given.reshape(field.shape)
    return found
