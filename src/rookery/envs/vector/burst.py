"""Bursts: many consecutive steps in which each share of the lanes also chooses its actions.

In a vector step all shares wait for the slowest, and then for the one process that chooses actions and records. In a
burst each share observes, runs the policy by kernels, steps and writes its rows, step after step, without waiting
before the end. Random numbers, weights and number of steps are set before; the rows equal those of single vector steps.

`Burst` is the memory, and `SharesEnv.play_burst` runs all shares. The class of the loop in a share comes with the plan
(`BurstPlan.player`): helper processes import it by its name, because environments do not depend on policies.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any, Protocol

import numpy as np

from rookery.core.actor_program import ALIGNMENT, ActorProgram
from rookery.core.spaces.arrays import Tree
from rookery.envs.base import Kind
from rookery.envs.vector.channel import SharedMemory
from rookery.envs.vector.serial import SerialEnv


class ShareLoop(Protocol):
    """Loop of a share in a burst.

    Attributes:
        seconds: Time for choosing actions and for recording in the last burst, as ``act`` and ``record``.
    """

    seconds: dict[str, float]

    def play(self, steps: int, beat: Callable[[], None] | None = None) -> int:
        """Makes a number of steps.

        Args:
            steps: Number of steps.
            beat: Called after each step.

        Returns:
            Number of valid steps: fewer if an agent rests in the next one, which has been made too.

        Raises:
            EnvError: If an environment raised or broke the contract.
        """
        ...


@dataclass(frozen=True)
class BurstPlan:
    """Sizes of a burst's memory, and its policy.

    Attributes:
        kind: The one kind of agents, one in each lane.
        lanes: All lanes (L).
        steps: Longest burst (T).
        noise: Random numbers of a decision (W).
        recipe: Program of the policy.
        player: Makes the loop of a share from the share, the memory, and the lanes of the share in it. A class at the
            top of a module that imports no torch.
    """

    kind: Kind
    lanes: int
    steps: int
    noise: int
    recipe: ActorProgram
    player: Callable[[SerialEnv, Burst, range], ShareLoop]


class Burst:
    """Memory of a burst, shared by all shares.

    Attributes:
        plan: Plan that it was made for.
        numbers: ``[recipe.size]`` uint8, weights of the policy.
        noise: ``[T, L, W]`` random numbers for actions.
        obs: ``[T, L, ...]`` observations before each step, by leaf path.
        action: ``[T, L, ...]`` actions, as they are stored; `logp` ``[T, L]`` their log-probabilities.
        reward: ``[T, L]`` float64; `terminated` and `truncated` ``[T, L]`` bool as of `Rows`.
        ended: ``[T, L]`` bool, whether the lane's episode ended; `lost` whether it was given up.
        final: ``[T, L]`` bool, whether there is a final observation; `final_obs` ``[T, L, ...]`` these.
        earned: ``[T, L]`` return of an episode that ended there.
        before: ``[2, L]`` sums to which rewards are added, and that restart with each episode: those of the rollout
            worker and those of the environment; `after` the same after the burst.
    """

    obs: Tree
    final_obs: Tree

    def __init__(self, plan: BurstPlan, file: IO[bytes] | None = None) -> None:
        """Allocates the memory, or maps that of a file."""
        self.plan = plan
        rows = plan.steps, plan.lanes
        leaves = {leaf.path: ((*rows, *leaf.shape), leaf.dtype) for leaf in plan.kind.obs.leaves}
        flags = ("terminated", "truncated", "ended", "lost", "final")
        arrays: dict[str, tuple[tuple[int, ...], Any]] = {
            "numbers": ((plan.recipe.size,), np.uint8),
            "noise": ((*rows, plan.noise), np.float32),
            "action": ((*rows, *plan.kind.action.shape), plan.kind.action.dtype),
            "logp": (rows, np.float32),
            **dict.fromkeys(("reward", "earned"), (rows, np.float64)),
            **dict.fromkeys(flags, (rows, np.bool_)),
            **dict.fromkeys(("before", "after"), ((2, plan.lanes), np.float64)),
        }
        trees = {"obs": leaves, "final_obs": leaves}
        every = [*arrays.values(), *(each for tree in trees.values() for each in tree.values())]
        self.memory = SharedMemory(sum(_bytes(shape, dtype) for shape, dtype in every), file)
        used = 0

        def take(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
            nonlocal used
            start, used = used, used + _bytes(shape, dtype)
            return np.frombuffer(self.memory.map, dtype, math.prod(shape), start).reshape(shape)

        given = {name: take(*array) for name, array in arrays.items()}
        self.numbers, self.noise, self.action, self.logp = (given[n] for n in ("numbers", "noise", "action", "logp"))
        self.reward, self.earned, self.before, self.after = (given[n] for n in ("reward", "earned", "before", "after"))
        self.terminated, self.truncated, self.ended, self.lost, self.final = (given[name] for name in flags)
        self.obs, self.final_obs = ({path: take(*leaf) for path, leaf in tree.items()} for tree in trees.values())


def _bytes(shape: tuple[int, ...], dtype: Any) -> int:
    """Returns the bytes of an array, up to the start of the next one."""
    size: int = math.prod(shape) * np.dtype(dtype).itemsize
    return -(-size // ALIGNMENT) * ALIGNMENT
