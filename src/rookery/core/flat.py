"""Flat memory: the parameters of a learner as views of one vector, and their gradients as views of another.

A norm, a clip and an optimizer's step are then few operations for any number of layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch import Tensor, nn

from rookery.core.errors import RookeryError

_LIVE: WeakValueDictionary[int, Tensor] = WeakValueDictionary()
"""Vectors in use, by the address of their storage; entries do not keep a vector alive."""


@dataclass(frozen=True)
class Flat:
    """Vectors of the parameters and gradients of a learner.

    Attributes:
        data: ``[W]`` the parameters.
        grad: ``[W]`` their gradients.
        whole: The vectors that these are a part of, or None.
    """

    data: Tensor
    grad: Tensor
    whole: Flat | None = None

    def read_gradient(self) -> Tensor:
        """Returns a copy ``[W]`` of the gradient."""
        return self.grad.clone()

    def write_gradient(self, gradient: Tensor) -> None:
        """Replaces the gradient by a vector ``[W]``."""
        self.grad.copy_(gradient)

    def part(self, modules: Iterable[nn.Module]) -> Flat:
        """Returns the part of both vectors with the parameters of some modules, for a separate optimizer.

        Args:
            modules: Modules whose trainable parameters fill a contiguous part of the vector.

        Raises:
            RookeryError: If a parameter is not in the vector, or there is a gap between them.
        """
        start, size, end, count = self.data.data_ptr(), self.data.element_size(), 0, 0
        first = len(self.data)
        for name, parameter in _trainable(modules):
            offset = (parameter.data_ptr() - start) // size
            if not (_storage(parameter) == _storage(self.data) and 0 <= offset < len(self.data)):
                raise RookeryError(f"Flat.part: {name} is not in this vector: flatten made it of other modules")
            first, end, count = min(first, offset), max(end, offset + parameter.numel()), count + parameter.numel()
        if count == 0 or end - first != count:
            raise RookeryError(
                f"Flat.part: {count:,} parameters of these modules are spread over {max(end - first, 0):,} places of "
                "the vector; take modules that were passed to flatten one after the other"
            )
        return Flat(self.data[first:end], self.grad[first:end], self)


def flatten(modules: Iterable[nn.Module]) -> Flat:
    """Moves the trainable parameters of modules, in order, into one vector, and their gradients into another.

    The modules work as before, on views. Call it again after a copy or a move to another device, which break the views.
    Gradients are zeroed in place, never None. Parameters without `requires_grad` stay outside.

    Args:
        modules: Modules whose parameters learn together.

    Raises:
        RookeryError: If parameters are in a vector that another optimizer still updates.
    """
    named = _trainable(modules)
    taken = [name for name, parameter in named if _storage(parameter) in _LIVE]
    if taken:
        shown = ", ".join(taken[:3]) + " and others" * (len(taken) > 3)
        raise RookeryError(
            f"flatten: {shown} are in a flat vector in use, and its optimizer would no longer update them; a "
            "second optimizer takes a part of that vector: Adam(optimizer.flat.part([module]), ...)"
        )
    parameters = [parameter for _, parameter in named]
    data = torch.cat([parameter.detach().reshape(-1) for parameter in parameters])
    grad = torch.zeros_like(data)
    offset = 0
    for parameter in parameters:
        end = offset + parameter.numel()
        parameter.data = data[offset:end].view_as(parameter)
        parameter.grad = grad[offset:end].view_as(parameter)
        offset = end
    if len(data):
        _LIVE[_storage(data)] = data
    return Flat(data, grad)


def _trainable(modules: Iterable[nn.Module]) -> list[tuple[str, nn.Parameter]]:
    """Returns the trainable parameters, each once, with a name for messages."""
    found: dict[int, tuple[str, nn.Parameter]] = {}
    for module in modules:
        for name, parameter in module.named_parameters():
            if parameter.requires_grad:
                found.setdefault(id(parameter), (f"{type(module).__name__}.{name}", parameter))
    return list(found.values())


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def adam_by_parts(
    data: Sequence[Tensor],
    gradients: Sequence[Tensor],
    means: Sequence[Tensor],
    squares: Sequence[Tensor],
    max_squares: Sequence[Tensor],
    steps: Sequence[Tensor],
    *,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    found_inf: Tensor,
    grad_scale: Tensor | float = 1.0,
    **off: Any,
) -> None:
    """Makes a step of Adam in operations that every torch has; the arguments are those of `torch._fused_adam_`.

    Args:
        data: Weights, like the next three with one tensor for each vector.
        gradients: Of a loss times `grad_scale`.
        means: First moments.
        squares: Second moments.
        max_squares: Not used.
        steps: Number of the step, from 1, for each vector.
        lr: Learning rate.
        beta1: Decay of the first moments.
        beta2: Decay of the second moments.
        eps: Added to the root of the second moments.
        found_inf: 1 where nothing may change, else 0.
        grad_scale: Divisor of the gradients.
        off: Options that are off.
    """
    for vector, gradient, mean, square, step in zip(data, gradients, means, squares, steps, strict=True):
        gradient, skip = gradient / grad_scale, found_inf > 0
        new_mean, new_square = mean.lerp(gradient, 1 - beta1), square.lerp(gradient.square(), 1 - beta2)
        root = (new_square / (1 - beta2**step)).sqrt() + eps
        new = vector - lr / (1 - beta1**step) * new_mean / root
        for old, value in (vector, new), (mean, new_mean), (square, new_square):
            old.copy_(torch.where(skip, old, value))


fused_adam: Callable[..., Any] = getattr(torch, "_fused_adam_", adam_by_parts)
"""A step of Adam in one operation; the name in torch is private."""


def _copy_each(to: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    for there, value in zip(to, values, strict=True):
        there.copy_(value)


copy_all: Callable[[Sequence[Tensor], Sequence[Tensor]], Any] = getattr(torch, "_foreach_copy_", _copy_each)
"""Copies tensors to others, in one operation if torch has it; the name in torch is private."""
