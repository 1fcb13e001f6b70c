"""`DevicePool`: one worker that plays an environment of tensors where these are, and hands rollouts over there.

It is a `LocalPool` whose worker has another way to make many steps (`loops/device.py`) and another storage
(`device_store.py`); everything else is the same, the state in checkpoints included, so that a run goes on with either.
What cannot be played by tensors alone is played by rows of arrays, step by step, and a line says why.
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
from rookery.rollout.loops.device import DevicePlayer
from rookery.rollout.pool import LocalPool
from rookery.rollout.worker import RolloutWorker
from rookery.tensor_envs.rows import TensorRows


class DevicePool(LocalPool):
    """One worker in this process that plays an environment of tensors on its device, for one policy that learns.

    Args:
        worker: Plays copies that are tensors.
        env: These copies.
        lane_group: Lanes whose agents decide together where torch computes a policy; None = all of them.
        note: Function that is given a line which a user should read once.

    Attributes:
        player: Plays on the device, as long as `obstacle` is empty.
        obstacle: Why that cannot be, in a few words.
    """

    fixed: ClassVar[tuple[str, ...]] = ("player", "obstacle", "note")

    def __init__(
        self, worker: RolloutWorker, env: TensorRows, lane_group: int | None, note: Callable[[str], None]
    ) -> None:
        super().__init__(worker, 0, lane_group)
        self.player = DevicePlayer(env, worker.interrupt)
        self.obstacle = ""
        self.note = note
        worker.make_store = partial(DeviceStore, device=env.device)
        worker.fragments = self.player

    def add_policy(self, name: str, policy: Policy, demand: Demand | None) -> None:
        """Adds a policy to the worker; `demand` None = frozen."""
        super().add_policy(name, policy, demand)
        if self.obstacle:
            return
        several = "several policies play" if len(self.worker.policies) > 1 else ""
        self.obstacle = several or self.player.obstacle(self.worker.policies[name])
        if self.obstacle:
            self.worker.fragments = None
            self.note(by_rows(self.worker.env.name, self.obstacle))


def by_rows(name: str, why: str) -> str:
    """Says that an environment of tensors is played by rows of arrays, and why."""
    return f"{name}: each step is copied from its tensors to arrays of this process and back, because {why}"


def tensors_in(env: VectorEnv) -> TensorRows | None:
    """Finds the environment of tensors that copies are, or that they show in groups or teams; None if there is none."""
    while isinstance(env, GroupEnv | TeamEnv):
        env = env.env
    return env if isinstance(env, TensorRows) else None


def pool_here(worker: RolloutWorker, staleness: int, lane_group: int | None, note: Callable[[str], None]) -> LocalPool:
    """Makes the pool of one worker in this process: on its environment's device if that has tensors to play.

    Args:
        worker: Plays.
        staleness: 1 if `play_ahead` will be called.
        lane_group: Lanes whose agents decide together where torch computes a policy; None = all of them.
        note: Function that is given a line which a user should read once.
    """
    env = tensors_in(worker.env)
    if env is None:
        return LocalPool(worker, staleness, lane_group)
    why = ""
    if worker.env is not env:
        why = "its agents are shown in groups or teams"
    elif staleness:
        why = "sampling.staleness = 1 plays ahead in a thread"
    elif worker.listeners is not None:
        why = "callbacks are told of its episodes"
    elif not worker.mapping.is_static:
        why = "who plays changes from episode to episode"
    if not why:
        return DevicePool(worker, env, lane_group, note)
    note(by_rows(env.name, why))
    return LocalPool(worker, staleness, lane_group)
