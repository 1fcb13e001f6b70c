"""Rules about a policy's network and actions: units that no longer change, and actions at their limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from rookery.core.spaces.arrays import Tree
from rookery.policies.policy import Policy
from rookery.report.finding import Finding
from rookery.run.findings.catalog import finding

ROWS = 256
"""Observations that are passed through the network."""

FEWEST = 64

DEAD = 0.8
"""Share of the units of a layer that are dead."""

STILL = 1e-6
"""Standard deviation of a unit over observations, in units of its largest value, below which it is dead."""

AT_LIMIT, OFTEN = 0.999, 0.95
"""Size of an action at its limit, in units of half the range, and share of such actions."""

ACTIVATIONS = (functional.relu, torch.relu, torch.tanh, functional.elu, functional.silu, functional.gelu, torch.sigmoid)


class LayerOutputs(TorchFunctionMode):
    """Context in which the outputs of activation functions are kept, ``[N, units]`` each."""

    def __init__(self) -> None:
        super().__init__()
        self.outputs: list[Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Calls a function of torch, and keeps its output if it is an activation."""
        result = func(*args, **(kwargs or {}))
        if func in ACTIVATIONS and isinstance(result, Tensor) and result.dim() == 2:
            self.outputs.append(result.detach())
        return result


def network_findings(name: str, policy: Policy, seen: Tree) -> list[Finding]:
    """Returns the findings of a policy's network.

    Args:
        name: Name of the policy.
        policy: The policy; it is not changed.
        seen: Observations ``[N, ...]`` by path.
    """
    rows = len(next(iter(seen.values()), ()))
    varied = any((leaf != leaf[:1]).any() for leaf in seen.values())
    if rows < FEWEST or not varied or not list(policy.parameters()):
        return []
    picked = np.linspace(0, rows - 1, min(ROWS, rows)).astype(int)
    device = next(policy.parameters()).device
    obs = {path: torch.from_numpy(leaf[picked]).to(device) for path, leaf in seen.items()}
    size = policy.memory_size + policy.exploration_size
    memory = torch.zeros((len(picked), size), dtype=torch.float32, device=device) if size else None
    with torch.no_grad(), LayerOutputs() as layers:
        action, _ = policy.act(obs, deterministic=True, memory=memory)
    return [*dead_units(name, layers.outputs), *actions_saturated(name, policy, action.cpu().numpy())]


def dead_units(name: str, outputs: list[Tensor]) -> list[Finding]:
    """Finds layers whose units have the same output for all observations."""
    for number, output in enumerate(outputs, 1):
        if len(output) < FEWEST or output.shape[1] < 8:
            continue
        scale = output.abs().max().clamp_min(1e-12)
        share = float((output.std(dim=0) <= STILL * scale).float().mean())
        if share > DEAD:
            units = f"{100 * share:.0f} % of the {output.shape[1]} units of layer {number}"
            line = f"{units} give the same output for all observations"
            return [finding("dead-units", line, f"{len(output)} observations of random play", policy=name)]
    return []


def actions_saturated(name: str, policy: Policy, actions: np.ndarray) -> list[Finding]:
    """Finds bounded continuous actions that are nearly always at their limits."""
    space = policy.action_spec.space
    if not isinstance(space, spaces.Box) or not len(actions):
        return []
    bounded = (np.isfinite(space.low) & np.isfinite(space.high)).ravel()
    flat = np.abs(actions.reshape(len(actions), -1)[:, bounded])
    if not flat.size or float((flat >= AT_LIMIT).mean()) < OFTEN:
        return []
    share = 100 * float((flat >= AT_LIMIT).mean())
    line = f"{share:.0f} % of the actions are at the limits of their space"
    return [finding("actions-saturated", line, f"{len(actions)} observations of random play", policy=name)]
