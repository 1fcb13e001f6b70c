"""Gradient steps: `gradient_step` is the only place where weights change, on the flat memory of `core/flat.py`.

A step has two implementations with equal results: torch and its autograd, or, for small networks on the CPU, compiled
kernels (docs/kernels.md), if `forward` has them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from ctypes import byref
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Protocol, TypeVar

import torch
from torch import Tensor

from rookery.core.errors import ConfigError
from rookery.core.flat import Flat, fused_adam
from rookery.core.metrics import Metrics
from rookery.core.native import AdamStep, Build, Counters, RMSpropSettings, best_build, is_plain

BatchT = TypeVar("BatchT")
OutputsT = TypeVar("OutputsT")
ConfigT = TypeVar("ConfigT", bound="StepConfig")
KernelStep = tuple[Any, Counters]
"""Address of an `AdamStep`, and the counters of skipped steps."""
Loss = Callable[[OutputsT, BatchT, ConfigT], tuple[Tensor, Metrics]]
OutputGradients = tuple[list[Tensor], Metrics]
"""Gradients with respect to the networks' outputs, and a loss's metrics."""


class StepConfig(Protocol):
    """Settings of an algorithm that a gradient step reads, schedules resolved."""

    @property
    def lr(self) -> Any:
        """Present learning rate."""
        ...

    @property
    def max_grad_norm(self) -> float | None:
        """Maximum gradient norm (2-norm over all parameters); None = no clipping."""
        ...

    @property
    def model(self) -> Any:
        """Settings of the networks; only `compile` is read."""
        ...


class Kernels(Protocol):
    """Networks on kernels: outputs without an autograd graph, and a backward pass from the gradients of the outputs."""

    @property
    def num_weights(self) -> int:
        """Number of weights whose gradients `write_gradients` writes."""
        ...

    def forward(self, batch: Any) -> list[Tensor]:
        """Computes the networks' outputs for a batch, as a sequence of tensors."""
        ...

    def outputs(self, parts: list[Tensor], batch: Any) -> Any:
        """Converts the outputs to the inputs of a loss."""
        ...

    def write_gradients(self, gradients: Sequence[Tensor]) -> None:
        """Writes the gradients of all weights, given those of the last outputs of `forward`."""
        ...


class Optimizer(ABC):
    """Base of optimizers: updates a flat vector by its gradient; steps with non-finite gradients are skipped.

    The count of skipped steps stays a tensor until `read_skipped`, so that steps need no synchronization.
    """

    state: ClassVar[tuple[str, ...]] = ("skipped", "skipped_in_a_row")
    """Names of the tensors that change during learning."""

    def __init__(self, flat: Flat) -> None:
        self.flat = flat
        self.on_kernels = False
        """Whether kernels have computed the present gradient."""
        self.agree: Callable[[Tensor, Any, Metrics], Metrics] | None = None
        """Averages gradient and metrics of a batch over all ranks; None = a single rank."""
        self.skipped = torch.zeros((), device=flat.data.device, dtype=torch.float32)
        self.skipped_in_a_row = torch.zeros((), device=flat.data.device, dtype=torch.float32)

    @abstractmethod
    def move(self, lr: float, bad: Tensor, scale: Tensor | None) -> None:
        """Makes one step; a non-finite gradient changes nothing, not even the moments.

        Args:
            lr: Learning rate.
            bad: 1 if the gradient is not finite, else 0.
            scale: Divisor of the gradient before it is used; None = 1.
        """

    @abstractmethod
    def move_on(self, build: Build, lr: float, max_grad_norm: float) -> float:
        """Makes one step on kernels, including clipping and counting; returns the gradient's norm before clipping."""

    def kernel_step(self, lr: float, max_grad_norm: float | None) -> KernelStep | None:
        """Zeroes the gradient, and returns the arguments for kernels that make several steps in one call; None if not
        supported.
        """
        return None

    @property
    def counters(self) -> Counters:
        """Returns the counters of steps that kernels skip."""
        return Counters(self.skipped.data_ptr(), self.skipped_in_a_row.data_ptr())

    def state_dict(self) -> dict[str, Tensor]:
        """Returns moments and counters."""
        return {name: getattr(self, name).clone() for name in self.state}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restores `state`; raises KeyError or AttributeError if another kind of optimizer wrote it."""
        for name in {*self.state, *state}:
            getattr(self, name).copy_(state[name])

    def read_skipped(self) -> tuple[int, int]:
        """Reads the steps skipped so far, and how many of them are the latest in a row.

        Synchronizes with the device: call it once per update.
        """
        both = torch.stack((self.skipped, self.skipped_in_a_row)).tolist()
        return int(both[0]), int(both[1])


PLAIN_ADAM: dict[str, Any] = {"amsgrad": False, "weight_decay": 0.0, "maximize": False}
"""Options of torch's fused Adam that are switched off."""


class Adam(Optimizer):
    """Adam (Kingma & Ba 2015), with one fused operation per step."""

    state = ("mean", "square", "steps", "skipped", "skipped_in_a_row")

    def __init__(self, flat: Flat, *, betas: tuple[float, float], eps: float) -> None:
        super().__init__(flat)
        self.betas = betas
        self.eps = eps
        self.mean = torch.zeros_like(flat.data)
        self.square = torch.zeros_like(flat.data)
        self.steps = torch.zeros((), device=flat.data.device, dtype=torch.float32)

    def move(self, lr: float, bad: Tensor, scale: Tensor | None) -> None:
        """Makes one step."""
        self.steps += 1 - bad
        arguments: dict[str, Any] = {} if scale is None else {"grad_scale": scale}
        fused_adam(
            [self.flat.data], [self.flat.grad], [self.mean], [self.square], [], [self.steps],
            lr=lr, beta1=self.betas[0], beta2=self.betas[1], eps=self.eps, found_inf=bad, **PLAIN_ADAM, **arguments,
        )  # fmt: skip

    def move_on(self, build: Build, lr: float, max_grad_norm: float) -> float:
        """Makes one step on kernels."""
        norm: float = build.call["adam_flat"](byref(self._step(lr, max_grad_norm)), self.counters)
        return norm

    def kernel_step(self, lr: float, max_grad_norm: float | None) -> KernelStep | None:
        """Prepares steps in one call, unless the weights are on another device or ranks average each step."""
        if self.agree is not None or not is_plain(self.flat.data):
            return None
        self.flat.grad.zero_()
        return byref(self._step(lr, math.inf if max_grad_norm is None else max_grad_norm)), self.counters

    def _step(self, lr: float, max_grad_norm: float) -> AdamStep:
        flat, settings = self.flat, (lr, *self.betas, self.eps, max_grad_norm, self.steps.data_ptr())
        vectors = flat.data.data_ptr(), flat.grad.data_ptr(), self.mean.data_ptr(), self.square.data_ptr()
        return AdamStep(*settings, *vectors, flat.data.numel())


class RMSprop(Optimizer):
    """RMSprop (Tieleman & Hinton 2012) as in TensorFlow: eps is added to the mean square, which starts at 1.

    Both keep the first steps small. With eps added to the root and a start at 0, A2C diverges with the same eps.
    """

    state = ("square", "skipped", "skipped_in_a_row")

    def __init__(self, flat: Flat, *, alpha: float, eps: float) -> None:
        super().__init__(flat)
        self.alpha = alpha
        self.eps = eps
        self.square = torch.ones_like(flat.data)

    def move(self, lr: float, bad: Tensor, scale: Tensor | None) -> None:
        """Makes one step."""
        gradient = self.flat.grad if scale is None else self.flat.grad / scale
        gradient = torch.where(bad > 0, 0.0, gradient)
        self.square.lerp_(gradient.square(), (1 - self.alpha) * (1 - bad))
        self.flat.data.addcdiv_(gradient, (self.square + self.eps).sqrt_(), value=-lr)

    def move_on(self, build: Build, lr: float, max_grad_norm: float) -> float:
        """Makes one step on kernels."""
        flat, settings = self.flat, RMSpropSettings(lr, self.alpha, self.eps, max_grad_norm)
        norm: float = build.call["rmsprop_flat"](
            flat.data.data_ptr(),
            flat.grad.data_ptr(),
            self.square.data_ptr(),
            flat.data.numel(),
            byref(settings),
            self.counters,
        )
        return norm


@dataclass(frozen=True)
class ClosedForm:
    """Closed-form gradient of one loss, which avoids autograd's graph for networks on kernels.

    It applies to this loss only: a gradient step on another function, such as that of a subclass, ignores it.

    Attributes:
        loss: The function whose gradient it is.
        gradient: Takes the arguments of the loss; returns the gradients with respect to the networks' output tensors,
            and the loss's metrics; None for unsupported arguments. It is called without autograd.
        kernel: Forward, loss and backward in one call: takes the networks' `Kernels`, batch and settings, and writes
            the gradients of the weights; returns the metrics, or None if it is not supported.
        steps: Several gradient steps in one call: takes the networks' `Kernels`, batches, the result of the optimizer's
            `kernel_step`, and settings; returns the metrics of each step, or None if nothing was done.
    """

    loss: Callable[..., tuple[Tensor, Metrics]]
    gradient: Callable[..., OutputGradients | None]
    kernel: Callable[..., Metrics | None] | None = None
    steps: Callable[..., list[Metrics] | None] | None = None


def gradient_step(
    forward: Callable[[BatchT], OutputsT], loss: Loss[OutputsT, BatchT, ConfigT], batch: BatchT,
    optimizer: Optimizer, cfg: ConfigT, closed_form: ClosedForm | None = None,
) -> Metrics:  # fmt: skip
    """Updates the weights once: forward, loss, backward, clip, step. All learning in the library calls it.

    Args:
        forward: Network(s): batch to outputs.
        loss: ``(outputs, batch, cfg)`` to a scalar and metrics.
        batch: The rows.
        optimizer: Holds the flat vector of weights.
        cfg: Settings with `lr` and `max_grad_norm`; passed to the loss.
        closed_form: The loss's closed-form gradient; with None, or that of another loss, autograd runs.

    Returns:
        The loss's metrics and ``grad_norm`` (before clipping).
    """
    metrics = compute_gradients(forward, loss, batch, optimizer, cfg, closed_form)
    metrics = metrics if optimizer.agree is None else optimizer.agree(optimizer.flat.grad, batch, metrics)
    return {**metrics, "grad_norm": apply_gradients(optimizer, lr=cfg.lr, max_grad_norm=cfg.max_grad_norm)}


def gradient_steps(
    forward: Callable[[BatchT], OutputsT], loss: Loss[OutputsT, BatchT, ConfigT], batches: Iterable[BatchT],
    optimizer: Optimizer, cfg: ConfigT, closed_form: ClosedForm | None = None,
) -> Iterable[Metrics]:  # fmt: skip
    """Makes a `gradient_step` for each batch in turn, in one call if kernels support it; yields their metrics."""
    kernels, known = getattr(forward, "kernels", None), closed_form
    if kernels is not None and known is not None and known.loss is loss and known.steps is not None:
        step = optimizer.kernel_step(cfg.lr, cfg.max_grad_norm)
        if step is not None:
            batches = list(batches)
            made = known.steps(kernels, batches, step, cfg)
            if made is not None:
                return made
    return (gradient_step(forward, loss, batch, optimizer, cfg, closed_form) for batch in batches)


def compute_gradients(
    forward: Callable[[BatchT], OutputsT], loss: Loss[OutputsT, BatchT, ConfigT], batch: BatchT,
    optimizer: Optimizer, cfg: ConfigT, closed_form: ClosedForm | None = None,
) -> Metrics:  # fmt: skip
    """Fills the optimizer's gradient vector with the gradient of the loss, without changing weights."""
    kernels: Kernels | None = getattr(forward, "kernels", None)
    optimizer.on_kernels = kernels is not None
    if kernels is not None:
        known = closed_form if closed_form is not None and closed_form.loss is loss else None
        return _through_kernels(kernels, loss, batch, optimizer, cfg, known)
    optimizer.flat.grad.zero_()
    if cfg.model.compile:
        value, metrics = _compiled()(forward, loss, batch, cfg)
    else:
        value, metrics = loss(forward(batch), batch, cfg)
    value.backward()
    return metrics


def _through_kernels(
    kernels: Kernels, loss: Loss[Any, BatchT, ConfigT], batch: BatchT,
    optimizer: Optimizer, cfg: ConfigT, known: ClosedForm | None,
) -> Metrics:  # fmt: skip
    """Runs networks on kernels, and the loss's closed form, or autograd through the loss only."""
    if known is not None and kernels.num_weights != optimizer.flat.grad.numel():  # otherwise all of it is overwritten
        optimizer.flat.grad.zero_()
    if known is not None and known.kernel is not None:
        written = known.kernel(kernels, batch, cfg)
        if written is not None:
            return written
    with torch.no_grad():
        parts = kernels.forward(batch)
        closed = None if known is None else known.gradient(kernels.outputs(parts, batch), batch, cfg)
    if closed is not None:
        gradients, metrics = closed
        _check_gradients(gradients, parts, loss)
        kernels.write_gradients(gradients)
        return metrics
    parts, grad = [part.requires_grad_() for part in parts], optimizer.flat.grad.zero_()
    outputs, before = kernels.outputs([part.clone() for part in parts], batch), grad._version  # may be changed
    value, metrics = loss(outputs, batch, cfg)
    value.backward()
    beside = None if grad._version == before else grad.clone()  # gradients of weights from other paths
    kernels.write_gradients([torch.zeros_like(part) if part.grad is None else part.grad for part in parts])
    if beside is not None:
        grad.add_(beside)
    return metrics


def _check_gradients(gradients: Sequence[Tensor], parts: Sequence[Tensor], loss: Callable[..., Any]) -> None:
    """Raises ConfigError for gradients of wrong shapes, because kernels would read past their end."""
    if [(g.shape, g.dtype) for g in gradients] == [(p.shape, torch.float32) for p in parts]:
        return
    found, wanted = ([f"{t.dtype} {tuple(t.shape)}" for t in tensors] for tensors in (gradients, parts))
    name = getattr(loss, "__name__", repr(loss))
    raise ConfigError(f"the closed form of {name} returns gradients {', '.join(found)}; needed are {', '.join(wanted)}")


@cache
def _compiled() -> Callable[..., tuple[Tensor, Metrics]]:
    # together, because the compiler can merge their small operations
    return torch.compile(lambda forward, loss, batch, cfg: loss(forward(batch), batch, cfg))


def apply_gradients(optimizer: Optimizer, *, lr: float, max_grad_norm: float | None) -> Tensor | float:
    """Makes a step with the optimizer's gradient vector if its 2-norm is finite; returns the norm before clipping. The
    step runs on kernels if they have computed the gradient, so that a network uses one implementation.
    """
    build = best_build() if optimizer.on_kernels and is_plain(optimizer.flat.data) else None
    if build is not None:
        return optimizer.move_on(build, lr, math.inf if max_grad_norm is None else max_grad_norm)
    norm: Tensor = torch.linalg.vector_norm(optimizer.flat.grad)
    bad = (norm - norm).ne(0).float()  # infinity minus infinity is NaN, and NaN is not 0 either
    optimizer.skipped += bad
    optimizer.skipped_in_a_row.add_(bad).mul_(bad)
    scale = None if max_grad_norm is None else ((norm + 1e-6) / max_grad_norm).clamp_(min=1.0).float()
    optimizer.move(lr, bad, scale)
    return norm


def track(target: Tensor, source: Tensor, tau: float) -> None:
    """Moves a target network towards the learning network: ``target += tau * (source - target)``; 1 = a copy.

    Besides `gradient_step`, weights change only here and when values are rescaled (`signals/value_scale.py`).

    Args:
        target: The flat vector of the target network (see `flatten`).
        source: The flat vector of the learning network, in the same order.
        tau: Step size, from 0 to 1.
    """
    if tau == 1.0:
        target.copy_(source)
    else:
        target.lerp_(source, tau)
