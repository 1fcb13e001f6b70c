"""`DevicePool`: one worker that plays a tensor environment on its device, and returns rollouts on that device.

It is a `LocalPool` whose worker has another loop for many steps (`loops/device.py`) and another storage
(`device_store.py`); everything else is the same, the state in checkpoints included, so that a run can be resumed with
either. Where the device loop cannot be used, the environment is stepped through arrays, and a line gives the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

from rookery.core.batch import Demand
from rookery.envs.base import VectorEnv
from rookery.envs.groups import GroupEnv
from rookery.envs.teams import TeamEnv
from rookery.policies.policy import Policy
from rookery.rollout.device_store import DeviceStore
from rookery.rollout.loops.device import DeviceLoop
from rookery.rollout.pool import LocalPool
from rookery.rollout.worker import RolloutWorker
from rookery.tensor_envs.rows import TensorRows


class DevicePool(LocalPool):
    """One worker in this process that plays a tensor environment on its device, for one policy that learns.

    Args:
        worker: Worker whose environment is made of tensors.
        env: This environment.
        inference_batch_envs: Lanes whose agents decide together where torch computes a policy; None = all of them.
        note: Function that receives a line which a user should read once.

    Attributes:
        player: Loop on the device, used as long as `obstacle` is empty.
        obstacle: Reason why the device loop cannot be used; empty if it can.
    """

    fixed: ClassVar[tuple[str, ...]] = ("player", "obstacle", "note")

    def __init__(
        self, worker: RolloutWorker, env: TensorRows, inference_batch_envs: int | None, note: Callable[[str], None]
    ) -> None:
        super().__init__(worker, 0, inference_batch_envs)
        self.player = DeviceLoop(env, worker.interrupt)
        self.obstacle = ""
        self.note = note
        worker.make_store = partial(DeviceStore, device=env.device)
        worker.fast_loop = self.player

    def add_policy(self, name: str, policy: Policy, demand: Demand | None) -> None:
        """Adds a policy to the worker; `demand` None = frozen."""
        super().add_policy(name, policy, demand)
        if self.obstacle:
            return
        several = "several policies play" if len(self.worker.policies) > 1 else ""
        self.obstacle = several or self.player.obstacle(self.worker.policies[name])
        if self.obstacle:
            self.worker.fast_loop = None
            self.note(row_stepping_note(self.worker.env.name, self.obstacle))


def row_stepping_note(name: str, why: str) -> str:
    """Returns the line that a tensor environment is stepped through arrays, with the reason."""
    return f"{name}: each step is copied from its tensors to arrays of this process and back, because {why}"


def find_tensor_env(env: VectorEnv) -> TensorRows | None:
    """Returns the tensor environment below groups and teams; None if there is none."""
    while isinstance(env, GroupEnv | TeamEnv):
        env = env.env
    return env if isinstance(env, TensorRows) else None


def make_local_pool(
    worker: RolloutWorker, staleness: int, inference_batch_envs: int | None, note: Callable[[str], None]
) -> LocalPool:
    """Creates the pool of one worker in this process: on the environment's device if it is made of tensors.

    Args:
        worker: The worker.
        staleness: 1 if `play_ahead` will be called.
        inference_batch_envs: Lanes whose agents decide together where torch computes a policy; None = all of them.
        note: Function that receives a line which a user should read once.
    """
    env = find_tensor_env(worker.env)
    if env is None:
        return LocalPool(worker, staleness, inference_batch_envs)
    why = ""
    if worker.env is not env:
        why = "its agents are shown in groups or teams"
    elif staleness:
        why = "sampling.staleness = 1 plays ahead in a thread"
    elif worker.listeners is not None:
        why = "callbacks follow its episodes"
    elif not worker.mapping.is_static:
        why = "the mapping of policies to agents changes from episode to episode"
    if not why:
        return DevicePool(worker, env, inference_batch_envs, note)
    note(row_stepping_note(env.name, why))
    return LocalPool(worker, staleness, inference_batch_envs)
