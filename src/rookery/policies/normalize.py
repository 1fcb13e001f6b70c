"""Running observation statistics, and the observation normalizer of a policy.

Statistics are kept in float64 (a float32 count stops growing at 16.8 million) and change only in `update`; acting and
learning read float32 copies.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from rookery.core.batch import TensorTree
from rookery.core.spaces.arrays import CENTRAL_ACTED, ObsSpec
from rookery.core.spaces.goals import ACHIEVED, DESIRED, goal_leaves

VARIANCE_FLOOR = 1e-8  # added to the variance, against division by zero for constant elements


class RunningMeanStd(nn.Module):
    """Running mean and variance of each element over all rows; initially mean 0 and variance 1.

    Args:
        shape: Shape of one row.
    """

    mean: Tensor
    var: Tensor
    count: Tensor
    mean32: Tensor
    inverse_std32: Tensor

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(shape, dtype=torch.float64, device="cpu"))
        self.register_buffer("var", torch.ones(shape, dtype=torch.float64, device="cpu"))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64, device="cpu"))
        self.register_buffer("mean32", torch.zeros(shape, dtype=torch.float32, device="cpu"))
        self.register_buffer("inverse_std32", torch.ones(shape, dtype=torch.float32, device="cpu"))
        self.merge: Callable[[int, Tensor, Tensor], tuple[int, Tensor, Tensor]] | None = None
        """Merges count, mean and variance of rows with those of other ranks; None = there is only one."""

    @torch.no_grad()
    def update(self, rows: Tensor) -> None:
        """Adds `rows`, ``[N, *shape]``, with the exact result of computing all rows at once (Chan et al. 1979).

        The variance is divided by the count, not by the count minus one.
        """
        if len(rows) == 0 and self.merge is None:
            return
        count, rows = len(rows), rows.to(torch.float64)
        batch_mean = rows.mean(0)
        batch_var = (rows - batch_mean).square().mean(0)
        if self.merge is not None:
            count, batch_mean, batch_var = self.merge(count, batch_mean, batch_var)
            if count == 0:
                return
        total = self.count + count
        share = count / total
        delta = batch_mean - self.mean
        if float(self.count) == 0.0:
            self.var.zero_()
        self.var.mul_(1 - share).add_(batch_var * share).add_(delta.square() * (share * (1 - share)))
        self.mean.add_(delta * share)
        self.count.copy_(total)
        self.mean32.copy_(self.mean)
        self.inverse_std32.copy_((self.var + VARIANCE_FLOOR).rsqrt())

    def forward(self, value: Tensor) -> Tensor:
        """Returns `value` ``[N, *shape]`` minus the mean, in standard deviations."""
        return (value - self.mean32) * self.inverse_std32


class ObsNormalizer(nn.Module):
    """Normalizes float and uint8 boxes of an observation tree; all other leaves are unchanged.

    Args:
        obs: Layout of the observations.
        clip: Normalized values are clipped to this many standard deviations.
        raw: Paths of further leaves that stay unchanged: uint8 images.

    Attributes:
        paths: Paths of the normalized leaves.
        goals: Paths of the achieved and the desired goal, which have the statistics of both together and so stay
            comparable; empty if there are none.
        spec: Layout of the normalized observations: normalized leaves are float32.
    """

    def __init__(self, obs: ObsSpec, clip: float, raw: Collection[str] = ()) -> None:
        super().__init__()
        leaves = [leaf for leaf in obs.leaves if leaf.kind == "box" and leaf.path not in raw]
        self.clip = clip
        self.paths = tuple(leaf.path for leaf in leaves)
        pair = (ACHIEVED, DESIRED) if goal_leaves(obs) else ()
        self.goals = pair if {*pair} <= {*self.paths} else ()
        after = [
            replace(leaf, dtype=np.dtype(np.float32), scale=1.0) if leaf.path in self.paths else leaf
            for leaf in obs.leaves
        ]
        self.spec = replace(obs, leaves=tuple(after))
        # A list: users choose the paths, and the name of a module cannot be "keys" or contain a dot.
        self.statistics = nn.ModuleList(RunningMeanStd(leaf.shape) for leaf in leaves)

    def forward(self, obs: TensorTree) -> TensorTree:
        """Returns a tree with normalized boxes; `obs` is unchanged, and may lack some leaves."""
        tree = dict(obs)
        for path, statistics in zip(self.paths, self.statistics, strict=True):
            if path in obs:
                tree[path] = statistics(obs[path]).clamp(-self.clip, self.clip)
        return tree

    @property
    def count(self) -> float:
        """Number of rows so far."""
        first = self.statistics[0]
        assert isinstance(first, RunningMeanStd)
        return float(first.count)

    def update(self, obs: TensorTree) -> None:
        """Adds valid rows ``[N, ...]`` of raw observations, by leaf path, except those of agents that have left their
        group and observe nothing.
        """
        acted = obs.get(CENTRAL_ACTED)
        if acted is not None and not bool(acted.all()):
            rows = acted.squeeze(1).nonzero().squeeze(1)
            obs = {path: obs[path].index_select(0, rows) for path in self.paths}
        for path, statistics in zip(self.paths, self.statistics, strict=True):
            assert isinstance(statistics, RunningMeanStd)
            statistics.update(torch.cat([obs[goal] for goal in self.goals]) if path in self.goals else obs[path])
