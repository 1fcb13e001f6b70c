"""`trainer.local_replay_buffer`: the replay buffers of a trainer in RLlib's form.

They are views of Rookery's (`replay/buffer.py:ReplayBuffer`), which hold decisions; windows of ``n_step`` decisions are
made when rows are drawn. A pickled one is a copy, which works without its trainer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from rookery.face import Algorithm, ConfigError, ReplayBuffer
from rookery_rllib.batch.numpy_functions import as_arrays
from rookery_rllib.batch.sample_batch import MultiAgentBatch, SampleBatch
from rookery_rllib.execution.replay_buffers import LocalReplayBuffer
from rookery_rllib.model.preprocessors import RowPreprocessor
from rookery_rllib.policy.batch_steps import DISCOUNT, action_rows, stored_rows

PLACE = ("eps_id", "agent_index", "t")
"""Columns that tell which rows follow each other."""


@dataclass
class DrawSettings:
    """Settings by which rows are drawn.

    Attributes:
        n_step: Decisions in a window.
        gamma: Discount of a step.
        beta: Exponent of importance weights.
        batch_size: Rows in a batch.
        learning_starts: Decisions before the first batch.
    """

    n_step: int
    gamma: float
    beta: float
    batch_size: int
    learning_starts: int

    @classmethod
    def of(cls, learner: Algorithm[Any]) -> DrawSettings:
        """Reads the present settings of an algorithm with replay."""
        assert learner.replay is not None
        cfg: Any = learner.replay.cfg.at(learner.env_steps, learner.horizon, learner.decisions)
        window = getattr(cfg, "n_step", 1), getattr(cfg, "gamma", 1.0)  # algorithms that only clone have none
        beta = cfg.replay.beta if hasattr(cfg, "replay") else 0.0
        return cls(*window, beta, cfg.batch_size, getattr(cfg, "learning_starts", 0))


class StoredDecisions:
    """The decisions of one policy, in RLlib's form.

    Args:
        name: The policy.
        buffer: The decisions.
        rows: Preprocessor of observations.
        drawing: Settings by which rows are drawn.
    """

    def __init__(self, name: str, buffer: ReplayBuffer, rows: RowPreprocessor, drawing: DrawSettings) -> None:
        self.name, self.buffer, self.rows, self.drawing = name, buffer, rows, drawing
        self._sampled = 0

    def __len__(self) -> int:
        return len(self.buffer)

    def add(self, item: Any, weight: float | None = None) -> None:
        """Adds rows.

        Args:
            item: Columns ``obs, actions, rewards, new_obs, dones``; with ``eps_id, agent_index, t`` rows of an episode
                are linked, else where ``new_obs`` is the next ``obs``.
            weight: Their priority; None = the largest so far.

        Raises:
            ConfigError: If a column is missing, rows are windows of several decisions, or the policy is recurrent.
        """
        self._check_single()
        batch = SampleBatch({name: as_arrays(column) for name, column in item.items()})
        missing = [name for name in ("obs", "actions", "rewards", "new_obs", "dones") if name not in batch]
        if missing:
            raise ConfigError(
                f"local_replay_buffer: policy {self.name!r}: the batch has no column {', '.join(missing)}"
            )
        if self.drawing.n_step > 1 and DISCOUNT in batch:
            raise ConfigError(
                f"local_replay_buffer: policy {self.name!r}: the rows are windows of n_step = {self.drawing.n_step} "
                "decisions (postprocess_trajectory), and the buffer makes windows itself: set n_step to 1, or store "
                "them in a LocalReplayBuffer of the script"
            )
        before = self.buffer.total
        self.buffer.append(self._segment(batch), continues=False)
        if weight is not None:
            self.update_priorities(np.arange(before, self.buffer.total), np.full(batch.count, weight))

    def _segment(self, batch: SampleBatch) -> dict[str, np.ndarray]:
        """Returns rows in the form in which buffers exchange them (`ReplayBuffer.rows_between`)."""
        count, spec = batch.count, self.buffer.action_spec
        done = np.asarray(batch["dones"], bool)
        linked = follows(batch)
        chain = np.cumsum(~linked) - 1
        clock = np.arange(count) - np.flatnonzero(~linked)[chain]
        last = np.append(~linked[1:], True) & ~done
        begins = ~linked if "t" not in batch else np.asarray(batch["t"]) == 0
        seen = stored_rows(self.buffer.obs_spec, self.rows, batch["obs"])
        after = stored_rows(self.buffer.obs_spec, self.rows, np.asarray(batch["new_obs"])[last])
        logp = batch.get("action_logp")
        segment = {
            "serial": np.array([0]),
            "action": action_rows(spec, batch["actions"]),
            "logp": np.full(count, np.nan, np.float32) if logp is None else np.asarray(logp, np.float32),
            "reward": np.asarray(batch["rewards"], np.float32),
            "terminated": done,
            "truncated": np.zeros(count, bool),
            "begins": begins,
            "slot": chain.astype(np.int64),
            "clock": clock.astype(np.int64),
            "before": linked.astype(np.int64),
            "next_row": np.flatnonzero(last),
        }
        segment |= {f"obs/{path}": leaf for path, leaf in seen.items()}
        return segment | {f"next_obs/{path}": leaf for path, leaf in after.items()}

    def sample(self, num_items: int, beta: float | None = None) -> SampleBatch:
        """Draws rows: windows of ``n_step`` decisions.

        Args:
            num_items: N, number of rows.
            beta: Exponent of importance weights, in prioritized buffers; None = as configured.

        Returns:
            Columns ``obs, actions, rewards, new_obs, dones, weights, batch_indexes``, and ``discount`` ``[N]`` of
            `new_obs`, which is 0 where the episode has ended.

        Raises:
            ConfigError: If the policy is recurrent.
        """
        self._check_single()
        how = self.drawing
        drawn = self.buffer.sample(
            num_items, n_step=how.n_step, gamma=how.gamma, beta=how.beta if beta is None else beta
        )
        self._sampled += num_items
        weight = np.ones(num_items, np.float32) if drawn.weight is None else drawn.weight.numpy()
        return SampleBatch(
            {
                "obs": self.rows.rows({path: leaf.numpy() for path, leaf in drawn.obs.items()}),
                "actions": drawn.action.numpy(),
                "rewards": drawn.reward.numpy(),
                "new_obs": self.rows.rows({path: leaf.numpy() for path, leaf in drawn.next_obs.items()}),
                "dones": drawn.discount.numpy() == 0.0,
                DISCOUNT: drawn.discount.numpy(),
                "weights": weight,
                "batch_indexes": drawn.row.numpy(),
            }
        )

    def _check_single(self) -> None:
        if self.buffer.memory_size:
            raise ConfigError(
                f"local_replay_buffer: policy {self.name!r} is recurrent, and draws sequences with their state: use "
                "trainer.rookery.learn(gradient_steps), or get_state and set_state"
            )

    def update_priorities(self, idxes: Any, priorities: Any) -> None:
        """Sets the priorities of rows by their ``batch_indexes``; rows that were overwritten are ignored."""
        rows = torch.from_numpy(np.asarray(as_arrays(idxes), np.int64))
        self.buffer.update_priorities(rows, torch.from_numpy(np.asarray(as_arrays(priorities), np.float64)))

    def stats(self, debug: bool = False) -> dict[str, Any]:
        used = self.buffer.full_bytes * len(self) // self.buffer.capacity
        return {"added_count": self.buffer.total, "sampled_count": self._sampled, "est_size_bytes": used,
                "num_entries": len(self)}  # fmt: skip

    def get_state(self) -> dict[str, Any]:
        """Returns everything that the buffer holds, as arrays and numbers."""
        buffer = self.buffer
        return {"buffer": buffer.state_dict(), "rows": buffer.rows_between(buffer.first, buffer.total)}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Replaces everything by a state of `get_state`; of a larger buffer the newest rows are kept.

        Raises:
            RookeryError: If the rows are of other spaces.
        """
        self.buffer.load_state_dict(state["buffer"])
        self.buffer.restore([state["rows"]])

    def __getstate__(self) -> dict[str, Any]:
        buffer = self.buffer
        made_of = (buffer.obs_spec, buffer.action_spec, buffer.cfg, buffer.memory_size, buffer.memory_every)
        return {**vars(self), "buffer": made_of, "_held": self.get_state()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        obs, action, cfg, size, every = state.pop("buffer")
        held = state.pop("_held")
        vars(self).update(state)
        rng = np.random.default_rng(0)  # its state is restored
        self.buffer = ReplayBuffer(obs, action, cfg, rng, memory_size=size, memory_every=every)
        self.set_state(held)


def follows(batch: SampleBatch) -> np.ndarray:
    """Returns ``[N]`` bool, whether a row continues the episode of the row before it."""
    obs, after = np.asarray(batch["obs"]), np.asarray(batch["new_obs"])
    found = np.zeros(batch.count, bool)
    if batch.count < 2:
        return found
    found[1:] = (obs[1:] == after[:-1]).reshape(batch.count - 1, -1).all(axis=1) & ~np.asarray(batch["dones"], bool)[
        :-1
    ]
    if all(name in batch for name in PLACE):
        episode, agent, time = (np.asarray(batch[name]) for name in PLACE)
        found[1:] &= (np.diff(episode) == 0) & (np.diff(agent) == 0) & (np.diff(time) == 1)
    return found


class TrainerReplayBuffer(LocalReplayBuffer):
    """The replay buffers of a trainer, by policy in `replay_buffers`."""

    def __init__(self) -> None:
        super().__init__()
        self.replay_buffers = {}

    def show(self, name: str, learner: Algorithm[Any], rows: RowPreprocessor) -> None:
        """Adds the buffer of a policy, or takes over its present settings.

        Args:
            name: The policy.
            learner: Its algorithm, with replay.
            rows: Preprocessor of its observations.
        """
        assert learner.replay is not None
        known = self.replay_buffers.get(name)
        if known is None:
            self.replay_buffers[name] = StoredDecisions(name, learner.replay.own, rows, DrawSettings.of(learner))
        else:
            known.drawing = DrawSettings.of(learner)

    def _buffer_of(self, name: str) -> Any:
        """Returns the buffer of a policy; raises a ConfigError for one without replay."""
        if name not in self.replay_buffers:
            raise ConfigError(
                f"local_replay_buffer: there is no policy {name!r} with replay; there are "
                f"{', '.join(self.replay_buffers)}"
            )
        return self.replay_buffers[name]

    def _add(self, name: str, part: SampleBatch) -> None:
        """Adds the rows of one policy."""
        self._buffer_of(name).add(part)

    def replay(self) -> Any:
        """Draws a batch of each policy that has enough decisions; None before ``learning_starts``."""
        ready = {name: each for name, each in self.replay_buffers.items() if _is_ready(each)}
        if not ready:
            return None
        with self.replay_timer:
            drawn = {name: each.sample(each.drawing.batch_size) for name, each in ready.items()}
            return MultiAgentBatch(drawn, max(each.drawing.batch_size for each in ready.values()))

    def update_priorities(self, prio_dict: Mapping[str, Any]) -> None:
        """Sets priorities by policy: pairs of ``batch_indexes`` and errors, whose sizes count."""
        with self.update_priorities_timer:
            for name, (places, errors) in prio_dict.items():
                self._buffer_of(name).update_priorities(places, np.abs(as_arrays(errors)))


def _is_ready(each: StoredDecisions) -> bool:
    return len(each) > 0 and each.buffer.total >= each.drawing.learning_starts
