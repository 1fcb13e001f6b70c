"""Robust policy optimization (Rahman & Xue 2022, arXiv:2212.07536): `rpo_alpha` of PPO.

The update sees Gaussians whose means are moved by uniform noise, so that their entropy stays high; acting does not
change. The density of an action under a moved mean is that of the oppositely moved action under the mean itself, so
moved actions leave losses, their closed forms and kernels as they are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np
import torch

from rookery.core.batch import Minibatch
from rookery.core.errors import ConfigError
from rookery.core.spaces.arrays import ActionSpec

MinibatchT = TypeVar("MinibatchT", bound=Minibatch)


def check_continuous(action: ActionSpec, name: str) -> None:
    """Raises ConfigError if a policy has no continuous actions, whose means could be moved."""
    if not action.num_numbers:
        raise ConfigError(
            f"policies.{name}.rpo_alpha: RPO moves the means of continuous actions, and {action.space} has none; "
            "leave it at 0"
        )


def moved_means(data: MinibatchT, alpha: float, action: ActionSpec, rng: np.random.Generator) -> MinibatchT:
    """Returns the rows of an epoch with the mean of each continuous action element moved by a number uniform in
    [-alpha, alpha): the actions are moved by its negative.

    Args:
        data: The rows of the update.
        alpha: Largest move, in the unit of stored actions: half the range of bounded actions.
        action: Layout of the actions, whose continuous elements are the last ones.
        rng: Generator of the numbers.
    """
    moved = data.action.flatten(1).clone()
    noise = rng.random((len(moved), action.num_numbers), dtype=np.float32)
    moved[:, -action.num_numbers :] -= torch.from_numpy(noise).to(moved.device).sub_(0.5).mul_(2.0 * alpha)
    return replace(data, action=moved.view_as(data.action))
