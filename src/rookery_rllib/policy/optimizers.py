"""Optimizers of policies with a loss of the script: Adam, for scripts and for `core/optim.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rookery.face import Adam, Build, ConfigError, Flat, Optimizer, apply_gradients, as_tensor, flatten

PLAIN = {"amsgrad": False, "weight_decay": 0, "maximize": False}
"""Options of torch's Adam with the only supported values."""


class AdamGroups(Optimizer):
    """Adam on groups of parameters in one vector, each with its own learning rate.

    Args:
        flat: The vector of all of them.
        groups: As of torch: ``params``, ``lr``, ``betas`` and ``eps``; rates may change.
        modules: The parameters of each group.

    Attributes:
        parameters: All parameters in the order of the vector.
        before: If set, called after the gradient is computed and before the weights change.
    """

    def __init__(self, flat: Flat, groups: Sequence[dict[str, Any]], modules: Sequence[nn.Module]) -> None:
        super().__init__(flat)
        self.groups = groups
        self.parameters = [parameter for module in modules for parameter in module.parameters()]
        whole = len(modules) == 1
        parts = [flat if whole else flat.part([module]) for module in modules]
        self.adams = [
            Adam(part, betas=tuple(group["betas"]), eps=float(group["eps"]))
            for part, group in zip(parts, groups, strict=True)
        ]
        self.before: Callable[[], None] | None = None

    def move(self, lr: float, bad: Tensor, scale: Tensor | None) -> None:
        """Makes one step; each group uses its own rate, not `lr`."""
        if self.before is not None:
            self.before()
        for adam, group in zip(self.adams, self.groups, strict=True):
            adam.move(float(group["lr"]), bad, scale)

    def move_on(self, build: Build, lr: float, max_grad_norm: float) -> float:
        """Raises an error: models of scripts do not run on kernels."""
        raise NotImplementedError("AdamGroups: models of scripts do not run on kernels")

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), **{f"group{i}": adam.state_dict() for i, adam in enumerate(self.adams)}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict({name: as_tensor(state[name]) for name in self.state})
        for number, adam in enumerate(self.adams):
            moments = state[f"group{number}"]
            adam.load_state_dict({name: as_tensor(moments[name]) for name in adam.state})


class PolicyAdam:
    """Adam (Kingma & Ba 2015) in torch's form: groups of parameters, whose rates may be changed."""

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8
    ) -> None:
        given = list(params)
        groups = given if given and isinstance(given[0], dict) else [{"params": given}]
        self.param_groups: list[dict[str, Any]] = [
            {"lr": lr, "betas": betas, "eps": eps, **group, "params": list(group["params"])} for group in groups
        ]
        self.engine: AdamGroups | None = None

    @property
    def stepped(self) -> AdamGroups:
        """The optimizer of `core/optim.py` that steps it."""
        if self.engine is None:
            attach([self])
        assert self.engine is not None
        return self.engine

    def zero_grad(self, set_to_none: bool = False) -> None:
        self.stepped.flat.write_gradient(torch.zeros_like(self.stepped.flat.data))

    def step(self, closure: Any = None) -> None:
        """Steps along the present gradients, if they are finite."""
        apply_gradients(self.stepped, lr=0.0, max_grad_norm=None)

    def state_dict(self) -> dict[str, Any]:
        return {**self.stepped.state_dict(), "lr": [float(group["lr"]) for group in self.param_groups]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Raises a ConfigError for the state of another number of groups."""
        if len(state["lr"]) != len(self.param_groups):
            raise ConfigError(
                f"optimizer: the state is that of {len(state['lr'])} groups of parameters, and there are "
                f"{len(self.param_groups)}: make the same groups as before"
            )
        self.stepped.load_state_dict(state)
        for group, rate in zip(self.param_groups, state["lr"], strict=True):
            group["lr"] = rate


def attach(optimizers: Sequence[PolicyAdam]) -> None:
    """Moves the parameters of optimizers into one vector; each optimizer steps its part.

    Raises a ConfigError if two groups share a parameter, or no parameter is trainable.
    """
    learn = [
        [[parameter for parameter in group["params"] if parameter.requires_grad] for group in one.param_groups]
        for one in optimizers
    ]
    every = [parameter for groups in learn for group in groups for parameter in group]
    if not every:
        raise ConfigError("optimizer_fn: none of its parameters is trainable (requires_grad)")
    if len({id(parameter) for parameter in every}) != len(every):
        raise ConfigError("optimizer_fn: a parameter is in two groups or optimizers; put each into one")
    modules = [[nn.ParameterList(group) for group in groups if group] for groups in learn]
    flat = flatten([module for groups in modules for module in groups])
    for one, groups in zip(optimizers, modules, strict=True):
        own = flat if len(optimizers) == 1 else flat.part(groups)
        filled = [group for group in one.param_groups if any(part.requires_grad for part in group["params"])]
        one.engine = AdamGroups(own, filled, groups)


def as_adam(given: Any) -> PolicyAdam:
    """Converts a `PolicyAdam` or torch's Adam for `core/optim.py`; raises a ConfigError for others."""
    if isinstance(given, PolicyAdam):
        return given
    kind = type(given)
    use = (
        "weights change in core/optim.py:gradient_step alone, by Adam: return torch's Adam, with other lr, betas "
        "and eps if you like, or write a rookery.extend.Algorithm with an optimizer of rookery.extend"
    )
    if kind.__name__ != "Adam" or kind.__module__.split(".")[:2] != ["torch", "optim"]:
        raise ConfigError(f"optimizer_fn: returned {kind.__name__}; {use}")
    for group in given.param_groups:
        for name, plain in PLAIN.items():
            if group.get(name, plain) not in (plain, float(plain)):
                raise ConfigError(f"optimizer_fn: Adam with {name} = {group[name]}; {use}")
    return PolicyAdam(
        [{name: group[name] for name in ("params", "lr", "betas", "eps")} for group in given.param_groups]
    )
