"""Model interface of 2021 for a network that Rookery built."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rookery.face import ActionHead, Algorithm, ConfigError, as_tensor
from rookery.face import Policy as Actor
from rookery_rllib.batch.numpy_functions import as_arrays
from rookery_rllib.model.preprocessors import RowPreprocessor


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

    def __call__(self, input_dict: Any, state: Any = None, seq_lens: Any = None) -> tuple[Tensor, list[Tensor]]:
        rows = torch.as_tensor(np.asarray(as_arrays(input_dict["obs"])), dtype=torch.float32, device="cpu")
        obs = self._rows.restore(rows)
        tree = {path: as_tensor(leaf) for path, leaf in obs.items()}
        tree = {path: leaf.long() if not leaf.is_floating_point() else leaf for path, leaf in tree.items()}
        memory = None
        if self._policy.memory_size:
            memory = self._policy.initial_memory(len(rows)) if not state else as_tensor(state[0]).clone()
        features, _, learned = self._policy._advance(tree, memory)
        output = head_outputs(self._policy.head, features)
        net = self.module
        if hasattr(net, "value") and not self._policy.memory_size:
            self._value = net.value(self._policy.normalize(tree))[:, 0]  # type: ignore[operator]
        return output, [] if learned is None else [learned]

    def value_function(self) -> Tensor:
        if self._value is None:
            raise ConfigError("model.value_function: call the model first; it needs an algorithm that learns values")
        return self._value

    def get_initial_state(self) -> list[np.ndarray]:
        size = self._policy.memory_size
        return [np.zeros(size, np.float32)] if size else []

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

    def __str__(self) -> str:
        return str(self.module)


def head_outputs(head: Any, features: Tensor) -> Tensor:
    """Returns the parameters of the action distribution ``[N, P]`` for features ``[N, F]``."""
    outputs: Tensor = head.linear(features) if hasattr(head, "linear") else features
    if isinstance(head, ActionHead) and head.log_std is not None:
        outputs = torch.cat((outputs, head.log_std.expand(len(outputs), -1)), 1)
    return outputs
