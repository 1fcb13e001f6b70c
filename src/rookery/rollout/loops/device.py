"""The loop on a device, for tensor environments: a vector step is a fixed number of operations without waiting.

Observe, decide, step, write a row of the storage: all on one device. Returns of episodes are summed there and read
once per call, which makes up to a whole fragment.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import numpy as np
import torch
from torch import Tensor

from rookery.core.batch import TensorTree
from rookery.core.device import device_of
from rookery.core.process.activity import STEP, note_activity
from rookery.core.process.interrupt import Interrupt
from rookery.core.process.torch_modes import user_modes_differ, users_modes
from rookery.rollout.device_store import DeviceStore, TensorRow
from rookery.rollout.slots import WorkerPolicy
from rookery.rollout.worker_state import EndedEpisodes, WorkerState, episodes_of
from rookery.tensor_envs.contract import Parts
from rookery.tensor_envs.rows import TensorRows


class DeviceLoop:
    """Loop for one policy in a tensor environment.

    Args:
        env: The environment.
        interrupt: Playing ends early, between two vector steps, after a signal; None = never.
    """

    def __init__(self, env: TensorRows, interrupt: Interrupt | None) -> None:
        self._env = env
        self._interrupt = interrupt
        self._room: _Room | None = None

    def obstacle(self, mine: WorkerPolicy) -> str:
        """Returns the reason why a policy cannot act on tensors alone, in a few words; empty if it can."""
        if mine.memory is not None:
            return (
                f"policy {mine.name!r} has a memory" if mine.policy.memory_size else f"{mine.name!r} has noise in time"
            )
        if type(mine) is not WorkerPolicy:
            return f"policy {mine.name!r} acts differently in each environment"
        if not isinstance(mine.store, DeviceStore):
            return f"policy {mine.name!r} is not recorded"
        if mine.group is not None:
            return f"sampling.inference_batch_envs = {mine.group} makes environments decide in groups"
        there = device_of(mine.policy)
        if there != self._env.device:
            return f"policy {mine.name!r} is on {there} and the environment on {self._env.device}"
        return ""

    def play(self, state: WorkerState, most: float) -> bool:
        """Makes up to a fragment of vector steps; see `Loop.play`. Gradients are off, for the environment too."""
        mine = state.sole_policy()
        steps = 0 if mine is None else int(min(self._steps_ahead(mine), most))
        if mine is None or steps < 1:
            return False
        if state.is_watched:
            note_activity(STEP)
        step = self._step_in_users_modes if user_modes_differ() else self._env.step_tensors
        with state.timers["fragments"] as timer, torch.no_grad():
            made, ended, seconds = self._play(step, mine, steps, state)
        state.count_steps(mine, made, ended, seconds, timer)
        return True

    def _steps_ahead(self, mine: WorkerPolicy) -> int:
        """Returns the number of steps of a policy that can be written as whole rows; 0 if none."""
        store = mine.store
        if self.obstacle(mine) or not isinstance(store, DeviceStore) or len(mine.taken) != self._env.num_lanes:
            ahead = 0
        else:
            ahead = store.free_rows(self._env.obs)
        if ahead == 0 or store is None:
            self._env.show()  # for the loop in Python, which steps by rows
            return 0
        missing = store.wanted - store.complete
        return min(ahead, -(-missing // store.num_slots)) if store.wanted > 0 else ahead

    def _step_in_users_modes(self, actions: Tensor) -> Parts:
        with users_modes(), torch.no_grad():
            return self._env.step_tensors(actions)

    def _play(
        self, step: Callable[[Tensor], Parts], mine: WorkerPolicy, steps: int, state: WorkerState
    ) -> tuple[int, EndedEpisodes, dict[str, float]]:
        """Makes up to `steps` vector steps; returns their number, the ended episodes, and seconds by part."""
        store, env, returns = mine.store, self._env, state.tables[0].returns
        assert isinstance(store, DeviceStore)
        rows, first = store.rows(), store.next_row
        room, interrupt = self._room_for(store), self._interrupt
        room.returns.copy_(torch.from_numpy(returns))
        act = env_step = record = 0.0
        made, now = 0, perf_counter()
        while made < steps and (interrupt is None or interrupt.number is None):
            row, before = rows[first + made], now
            for path, leaf in env.obs.items():
                row.obs[path].copy_(leaf)
            self._decide(mine, row, state.vector_steps + made)
            acted = perf_counter()
            _, reward, terminated, truncated, final_obs = step(env.to_env(row.action))
            stepped = perf_counter()
            row.reward.copy_(reward)
            row.terminated.copy_(terminated)
            row.truncated.copy_(truncated)
            room.note(made, row, final_obs)
            made, now = made + 1, perf_counter()
            act, env_step, record = act + acted - before, env_step + stepped - acted, record + now - stepped
        mine.acted += made * env.num_lanes
        ended = self._hand_over(store, room, first, made, returns, state.lengths)
        return made, ended, {"act": act, "env.step": env_step, "record": record + perf_counter() - now}

    def _decide(self, mine: WorkerPolicy, row: TensorRow, vector_step: int) -> None:
        """Writes actions and their log-probabilities into the row."""
        noise = mine.noise.at(None, self._env.num_lanes, vector_step)
        if mine.actor is not None and row.slab is not None:
            if row.slab.call is None:
                row.slab.call = mine.actor.prepare(row.slab.obs, row.slab.action, row.slab.logp)
            row.slab.call(noise, None)
            return
        action, logp = mine.policy.act(row.obs, noise)
        row.action.copy_(action)
        row.logp.copy_(logp)

    def _hand_over(
        self, store: DeviceStore, room: _Room, first: int, made: int, returns: np.ndarray, lengths: np.ndarray
    ) -> EndedEpisodes:
        """Counts the new rows in the storage, and copies the results of episodes to the CPU, nothing else."""
        env, ended, block = self._env, room.ended[:made], store.block(first, made)
        at = ended.nonzero()
        earned = room.earned[:made][at[:, 0], at[:, 1]].cpu().numpy()
        returns[:] = room.returns.cpu().numpy()
        step, lane = at.cpu().numpy().T
        found = episodes_of(step, lane, earned[:, None], made, lengths, env.episode)
        env.passed(np.bincount(lane, minlength=env.num_lanes))
        if made:
            cut = (block["truncated"] & ~block["terminated"]).nonzero()
            finals = {path: leaf[:made][cut[:, 0], cut[:, 1]] for path, leaf in room.final_obs.items()}
            env.check(block["obs"], block["reward"], cut, finals)
            store.written(made, cut, finals, ended[-1].cpu().numpy().copy(), env.obs)
        return found

    def _room_for(self, store: DeviceStore) -> _Room:
        steps = store.demand.fragment_length
        if self._room is None or len(self._room.ended) < steps:
            self._room = _Room(self._env, steps)
        return self._room


class _Room:
    """Episode data of up to T steps of N lanes, on the device, in addition to the storage.

    Attributes:
        returns: ``[N]`` float64, returns of the running episodes.
        earned: ``[T, N]`` returns after each step, including episodes that ended in it.
        ended: ``[T, N]`` bool, whether the lane's episode ended.
        final_obs: ``[T, N, ...]`` final observations from the environment.
    """

    def __init__(self, env: TensorRows, steps: int) -> None:
        size = (steps, env.num_lanes)
        self.returns = torch.zeros(env.num_lanes, dtype=torch.float64, device=env.device)
        self.earned = torch.zeros(size, dtype=torch.float64, device=env.device)
        self.ended = torch.zeros(size, dtype=torch.bool, device=env.device)
        self.final_obs = {path: leaf.new_zeros((steps, *leaf.shape)) for path, leaf in env.obs.items()}
        finals = [{path: leaf[step] for path, leaf in self.final_obs.items()} for step in range(steps)]
        self._rows = list(zip(self.ended.unbind(), self.earned.unbind(), finals, strict=True))

    def note(self, step: int, row: TensorRow, final_obs: TensorTree) -> None:
        """Stores returns, ends and final observations of a step."""
        ended, earned, finals = self._rows[step]
        torch.logical_or(row.terminated, row.truncated, out=ended)
        self.returns.add_(row.reward)
        earned.copy_(self.returns)
        self.returns.masked_fill_(ended, 0.0)
        for path, leaf in final_obs.items():
            finals[path].copy_(leaf)
