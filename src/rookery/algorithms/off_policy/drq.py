"""DrQ-v2 (Yarats et al. 2021, arXiv:2107.09645): learning from images that are shifted at random, by convolutions that
only the critics' loss trains.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms.off_policy.critics import CriticLearner, CriticSettings, detached_view
from rookery.core.batch import TensorTree, Transitions
from rookery.core.errors import ConfigError
from rookery.core.settings.fields import Structural
from rookery.core.settings.reach import CountFromZero
from rookery.models.build import Encoder
from rookery.models.image_encoders import image_layout
from rookery.policies.policy import Policy


@dataclass(frozen=True)
class DrQSettings(CriticSettings):
    """Settings of algorithms that learn from images as DrQ-v2 does."""

    image_shift: CountFromZero = 0
    """Largest number of pixels by which images are shifted at random, along both axes, in gradient steps; pixels of the
    border fill the gap (DrQ-v2: 4 of 84). 0 = not shifted.
    """
    shared_encoder: Structural[bool] = False
    """Whether actor and critics share the convolutions on images, which then only the critics' loss trains (DrQ-v2)."""


def shifted(images: Tensor, offset: Tensor, channels_last: bool) -> Tensor:
    """Shifts each image by its own offset: padding by the pixels of the border, and a crop of the former size.

    Args:
        images: ``[N, height, width, channels]``, or channels first. All channels, or stacked frames, move together.
        offset: ``[N, 2]`` int64, row and column of the image that come to the upper left corner; may be negative.
        channels_last: Order of the axes.
    """
    axis = 1 if channels_last else 2  # of the rows
    height, width = images.shape[axis : axis + 2]
    row, column = (
        (torch.arange(size, device=images.device, dtype=torch.int64) + start.unsqueeze(1)).clamp_(0, size - 1)
        for size, start in zip((height, width), offset.unbind(1), strict=True)
    )
    pixel = (row.unsqueeze(2) * width + column.unsqueeze(1)).flatten(1)  # [N, height * width]
    flat = images.flatten(axis, axis + 1)
    return flat.gather(axis, pixel.unsqueeze(3 - axis).expand_as(flat)).view_as(images)


class DrQ:
    """The changes of DrQ-v2 to an actor-critic with replay: shifted images, and shared convolutions.

    Args:
        policy: The policy that learns; with `shared_encoder` its convolutions become those of the critics.
        critics: Its critics.
        cfg: The algorithm's settings.

    Raises:
        ConfigError: If there are no images, or the networks cannot share convolutions.
    """

    def __init__(self, policy: Policy, critics: CriticLearner, cfg: DrQSettings) -> None:
        layouts = {leaf.path: image_layout(leaf) for leaf in policy.critic_spec.leaves}
        self.channels_last = {path: layout[3] for path, layout in layouts.items() if layout is not None}
        """Whether channels come last, by path of each image."""
        self.shift = cfg.image_shift
        self.encoder = critics.net.encoder
        """Encoder whose convolutions are shared; None = each network has its own."""
        side = min((min(layout[1:3]) for layout in layouts.values() if layout is not None), default=0)
        if self.shift and self.shift >= side:
            why = f"is for images, and {policy.obs_spec.space} has none: leave it out"
            why = f"moves images of {side} pixels out of sight: take fewer (DrQ-v2: 4 of 84)" if side else why
            raise ConfigError(f"policies.{policy.name}.image_shift = {self.shift} {why}")
        if self.encoder is not None:
            assert isinstance(policy.trunk, Encoder)
            policy.trunk.take_convolutions(detached_view(self.encoder.images))

    def augmented(self, rows: Transitions, rng: np.random.Generator) -> Transitions:
        """Shifts the images of observations and next observations, each by an offset of its own."""
        if not self.shift:
            return rows
        return replace(rows, obs=self._shifted(rows.obs, rng), next_obs=self._shifted(rows.next_obs, rng))

    def _shifted(self, obs: TensorTree, rng: np.random.Generator) -> TensorTree:
        seen = dict(obs)
        for path, channels_last in self.channels_last.items():
            offset = rng.integers(-self.shift, self.shift + 1, (len(obs[path]), 2))
            seen[path] = shifted(obs[path], torch.from_numpy(offset).to(obs[path].device), channels_last)
        return seen

    @torch.no_grad()
    def with_maps(self, rows: Transitions) -> Transitions:
        """Computes the shared convolutions of observations without a graph, for the actor's loss."""
        return rows if self.encoder is None else replace(rows, obs=self.encoder.with_maps(rows.obs))

    @torch.no_grad()
    def with_next_maps(self, rows: Transitions) -> Transitions:
        """Computes the shared convolutions of next observations without a graph, for targets."""
        return rows if self.encoder is None else replace(rows, next_obs=self.encoder.with_maps(rows.next_obs))
