"""Model interface of 2021 for a network that Rookery built."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from rookery.face import ActionHead, Algorithm, ConfigError, as_tensor
from rookery.face import Policy as Actor
from rookery_rllib.batch.numpy_functions import as_arrays
from rookery_rllib.model.model_v2 import script_network
from rookery_rllib.model.preprocessors import RowPreprocessor


@dataclass(frozen=True)
class ArmModel:
    """Posterior of the weights of an arm: mean ``[d]`` and covariance ``[d, d]``."""

    theta: Tensor
    covariance: Tensor


class DefaultModel:
    """Model interface of 2021 for a network that Rookery built, on preprocessed observations."""

    def __init__(self, policy: Actor, learner: Algorithm[Any] | None, rows: RowPreprocessor) -> None:
        self._policy, self._learner, self._rows = policy, learner, rows
        self._value: Tensor | None = None
        self.obs_space = rows.observation_space
        self.action_space = policy.action_spec.space
        self.num_outputs = policy.action_spec.num_parameters
        self.name = "default_model"
        self.framework = "torch"

    @property
    def module(self) -> nn.Module:
        net = getattr(self._learner, "net", None)
        return net if isinstance(net, nn.Module) else self._policy

    def tree_of(self, input_dict: Any) -> dict[str, Tensor]:
        """Returns the stored observations of a model's input, by leaf path."""
        rows = torch.as_tensor(np.asarray(as_arrays(input_dict["obs"])), dtype=torch.float32, device="cpu")
        tree = {path: as_tensor(leaf) for path, leaf in self._rows.restore(rows).items()}
        return {path: leaf.long() if not leaf.is_floating_point() else leaf for path, leaf in tree.items()}

    def __call__(self, input_dict: Any, state: Any = None, seq_lens: Any = None) -> tuple[Tensor, list[Tensor]]:
        tree = self.tree_of(input_dict)
        memory = None
        if self._policy.memory_size:
            count = len(next(iter(tree.values())))
            memory = self._policy.initial_memory(count)
            if state:
                memory.copy_(torch.from_numpy(joined_state(self._policy, state, count)))
        features, _, learned = self._policy._advance(tree, memory)
        output = head_outputs(self._policy.head, features)
        net = self.module
        if hasattr(net, "value") and not self._policy.memory_size:
            self._value = net.value(self._policy.normalize(tree))[:, 0]  # type: ignore[operator]
        return output, [] if learned is None else split_state(self._policy, learned)

    def value_function(self) -> Tensor:
        if self._value is None:
            raise ConfigError("model.value_function: call the model first; it needs an algorithm that learns values")
        return self._value

    def get_initial_state(self) -> list[np.ndarray]:
        return initial_state(self._policy)

    def variables(self, as_dict: bool = False) -> Any:
        found = self.module.state_dict()
        return found if as_dict else list(found.values())

    def trainable_variables(self, as_dict: bool = False) -> Any:
        found = dict(self.module.named_parameters())
        return found if as_dict else list(found.values())

    def parameters(self) -> Any:
        return self.module.parameters()

    def state_dict(self) -> dict[str, Tensor]:
        return self.module.state_dict()

    @property
    def arms(self) -> list[ArmModel]:
        """The linear models of a bandit, one for each action; raises an AttributeError for other policies."""
        posterior = getattr(self._policy.head, "posterior", None)
        if posterior is None:
            raise AttributeError(f"{self.name}: arms: only policies of LinUCB and LinTS have models of arms")
        return [ArmModel(mean.float(), (root.T @ root).float()) for mean, root in zip(posterior.mean, posterior.root,
                                                                                     strict=True)]  # fmt: skip

    @property
    def arm(self) -> ArmModel:
        """The linear model that all actions of a bandit share."""
        (arm,) = self.arms
        return arm

    def __str__(self) -> str:
        return str(self.module)


class TargetModel(DefaultModel):
    """Model interface of a target network of action values; arguments as of `DefaultModel`."""

    @property
    def module(self) -> nn.Module:
        target: nn.Module = self._learner.target_net  # type: ignore[union-attr]
        return target

    def __call__(self, input_dict: Any, state: Any = None, seq_lens: Any = None) -> tuple[Tensor, list[Tensor]]:
        """Returns features ``[N, F]`` of preprocessed observations, and an empty list."""
        features: Tensor = self.module.trunk(self.tree_of(input_dict))  # type: ignore[operator]
        return features, []


def state_shapes(actor: Actor) -> list[tuple[int, ...]]:
    """Returns the shapes of the parts of a policy's memory as lists of 2021 have them: those of a script's model, h and
    c of an LSTM, one vector of other cells; the previous action and reward, if it recalls them, come last.
    """
    cell: Any = actor.memory
    own = 0 if cell is None else int(cell.size)
    parts = len(cell.layers) * cell.num_states if cell is not None and hasattr(cell, "num_states") else 1
    shapes = [part.shape for part in _script_states(actor)] or [(own // parts,)] * parts
    return [shape for shape in [*shapes, (actor.memory_size - own,)] if shape != (0,)]


def _script_states(actor: Actor) -> list[np.ndarray]:
    """Returns the state of a script's model at the start of an episode; empty for other models."""
    network = script_network(actor)
    return [] if network is None else network.states


def _num_marks(actor: Actor) -> int:
    """Returns how many numbers before the state of a script's model mark that an episode has begun."""
    states = _script_states(actor)
    return int(cast(Any, actor.memory).size) - sum(part.size for part in states) if states else 0


def initial_state(actor: Actor) -> list[np.ndarray]:
    """Returns the memory at the start of an episode by part: that of a script's model, or else zeros."""
    zeros = [np.zeros(shape, np.float32) for shape in state_shapes(actor)]
    own = [part.copy() for part in _script_states(actor)]
    return [*own, *zeros[len(own) :]]


def split_state(actor: Actor, memory: Tensor) -> list[Tensor]:
    """Returns a memory ``[N, memory_size]`` as a list of its parts ``[N, ...]``; see `state_shapes`."""
    shapes = state_shapes(actor)
    recalled = actor.memory_size - (0 if actor.memory is None else int(actor.memory.size))
    stored = torch.cat((memory[:, recalled + _num_marks(actor) :], memory[:, :recalled]), 1)
    parts = stored.split([math.prod(shape) for shape in shapes], 1)
    return [part.reshape(-1, *shape) for part, shape in zip(parts, shapes, strict=True)]


def joined_state(actor: Actor, state: Any, rows: int) -> np.ndarray:
    """Returns the memory ``[rows, memory_size]`` of a list of its parts, of which the recalled one may be missing.

    Raises:
        ConfigError: If the parts have another width.
    """
    own = 0 if actor.memory is None else int(actor.memory.size)
    marks = _num_marks(actor)
    parts = [np.asarray(as_arrays(part), np.float32).reshape(rows, -1) for part in state]
    given = np.concatenate([np.ones((rows, marks), np.float32), *parts], 1)
    recalled = np.zeros((rows, actor.memory_size - own), np.float32)
    if given.shape[1] == actor.memory_size:
        recalled = given[:, own:]
    elif given.shape[1] != own:
        raise ConfigError(
            f"state: parts of {[part.shape[1] for part in parts]} numbers; this policy has "
            f"{[math.prod(shape) for shape in state_shapes(actor)]}, as policy.get_initial_state() returns them"
        )
    return np.concatenate((recalled, given[:, :own]), 1)


def head_outputs(head: Any, features: Tensor) -> Tensor:
    """Returns the parameters of the action distribution ``[N, P]`` for features ``[N, F]``."""
    outputs: Tensor = head.linear(features) if hasattr(head, "linear") else features
    if isinstance(head, ActionHead) and head.log_std is not None:
        outputs = torch.cat((outputs, head.log_std.expand(len(outputs), -1)), 1)
    return outputs
