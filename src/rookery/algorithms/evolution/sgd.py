"""Plain gradient descent, for evolution strategies."""

from __future__ import annotations

import torch
from torch import Tensor

from rookery.core.native import Build
from rookery.core.optim import Optimizer


class SGD(Optimizer):
    """Gradient descent without moments."""

    def move(self, lr: float, bad: Tensor, scale: Tensor | None) -> None:
        """Makes one step."""
        gradient = self.flat.read_gradient()
        gradient = torch.where(bad > 0, 0.0, gradient if scale is None else gradient / scale)
        self.flat.data.add_(gradient, alpha=-lr)

    def move_on(self, build: Build, lr: float, max_grad_norm: float) -> float:
        """Raises NotImplementedError: kernels do not compute gradients of these algorithms."""
        raise NotImplementedError("SGD makes no steps on kernels")
