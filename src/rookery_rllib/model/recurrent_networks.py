"""Recurrent models of 2021: the base class `RecurrentNetwork`, and an LSTM on top of another model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Discrete, MultiDiscrete
from torch import Tensor, nn

from rookery.face import as_tensor
from rookery_rllib.batch.sequences import add_time_dimension
from rookery_rllib.batch.torch_functions import one_hot
from rookery_rllib.batch.view_requirement import ViewRequirement
from rookery_rllib.model.model_v2 import TFModelV2, TorchModelV2
from rookery_rllib.model.network_layers import SlimFC
from rookery_rllib.model.networks import FullyConnectedNetwork, column, computed


class RecurrentNetwork(TorchModelV2):
    def forward(self, input_dict: Any, state: list[Any], seq_lens: Any) -> tuple[Tensor, list[Any]]:
        """Adds a time axis to flat observations and calls `forward_rnn`; returns outputs ``[B * T, num_outputs]``."""
        flat = column(self, input_dict, "obs_flat").float()
        lengths = as_tensor(seq_lens).to(torch.int32)
        self.time_major = (self.model_config or {}).get("_time_major", False)
        steps = len(flat) // len(lengths)
        inputs = add_time_dimension(flat, max_seq_len=steps, framework="torch", time_major=bool(self.time_major))
        output, after = self.forward_rnn(inputs, state, lengths)
        return output.reshape(-1, self.num_outputs), after

    def forward_rnn(self, inputs: Tensor, state: list[Any], seq_lens: Tensor) -> tuple[Tensor, list[Any]]:
        raise NotImplementedError(f"{type(self).__name__} has no forward_rnn(inputs, state, seq_lens)")


class TFRecurrentNetwork(RecurrentNetwork, TFModelV2):
    """A recurrent model of TensorFlow's names, whose Keras layers run on torch."""


def action_size(space: Any) -> int:
    """Returns the length of an action as numbers, with categories as one-hots."""
    if isinstance(space, Discrete):
        return int(space.n)
    if isinstance(space, MultiDiscrete):
        return int(space.nvec.sum())
    return int(np.prod(space.shape)) if space.shape is not None else len(space.spaces)


def previous_actions(actions: Tensor, space: Any) -> Tensor:
    """Returns actions ``[B, ...]`` as numbers ``[B, W]``, categories as one-hots."""
    if isinstance(space, Discrete | MultiDiscrete):
        return one_hot(actions, space).float().reshape(-1, action_size(space))
    return actions.float().reshape(-1, action_size(space))


class ModelOnModel(TorchModelV2, nn.Module):
    """A model on top of another one; missing attributes are looked up in that one."""

    lower: Callable[..., Any] = FullyConnectedNetwork
    """Makes the other model, a class or function; it gets no number of outputs, and outputs features."""

    def __init__(
        self,
        obs_space: Any,
        action_space: Any,
        num_outputs: int,
        model_config: Any,
        name: str,
        **kwargs: Any,
    ) -> None:
        nn.Module.__init__(self)
        TorchModelV2.__init__(self, obs_space, action_space, num_outputs, model_config, name)
        self.wrapped = self.lower(obs_space, action_space, None, model_config, f"{name}_wrapped", **kwargs)
        width = self.wrapped.num_outputs
        self.num_features = int(np.prod(obs_space.shape)) if width is None else int(width)
        self._features: Tensor | None = None

    def __getattr__(self, name: str) -> Any:
        try:
            return nn.Module.__getattr__(self, name)
        except AttributeError:
            if name == "wrapped" or name.startswith("__"):
                raise
            return getattr(self.wrapped, name)

    def _heads(self, width: int) -> None:
        self._logits_branch = SlimFC(width, self.num_outputs)
        self._value_branch = SlimFC(width, 1)

    def _inputs(self, input_dict: Any) -> Tensor:
        """Computes features of the other model, ``[B * T, F]``."""
        features, _ = self.wrapped.forward(input_dict, [], None)
        assert isinstance(features, Tensor)
        return features

    def value_function(self) -> Tensor:
        values: Tensor = self._value_branch(computed(self, self._features))
        return values.reshape(-1)


class LSTMWrapper(ModelOnModel, RecurrentNetwork):
    def __init__(
        self, obs_space: Any, action_space: Any, num_outputs: int, model_config: Any, name: str, **kwargs: Any
    ) -> None:
        super().__init__(obs_space, action_space, num_outputs, model_config, name, **kwargs)
        self.cell_size = int(model_config["lstm_cell_size"])
        self.time_major = bool(model_config.get("_time_major", False))
        self.use_prev_action = bool(model_config.get("lstm_use_prev_action"))
        self.use_prev_reward = bool(model_config.get("lstm_use_prev_reward"))
        width = self.num_features
        if self.use_prev_action:
            width += action_size(action_space)
            self.view_requirements["prev_actions"] = ViewRequirement("actions", space=action_space, shift=-1)
        if self.use_prev_reward:
            width += 1
            self.view_requirements["prev_rewards"] = ViewRequirement("rewards", shift=-1)
        self.lstm = nn.LSTM(width, self.cell_size, batch_first=not self.time_major, dtype=torch.float32, device="cpu")
        self._heads(self.cell_size)

    def forward(self, input_dict: Any, state: list[Any], seq_lens: Any) -> tuple[Tensor, list[Any]]:
        inputs = [self._inputs(input_dict)]
        if self.use_prev_action:
            inputs.append(previous_actions(column(self, input_dict, "prev_actions"), self.action_space))
        if self.use_prev_reward:
            inputs.append(column(self, input_dict, "prev_rewards").float().reshape(-1, 1))
        return RecurrentNetwork.forward(self, {**input_dict, "obs_flat": torch.cat(inputs, 1)}, state, seq_lens)

    def forward_rnn(self, inputs: Tensor, state: list[Any], seq_lens: Tensor) -> tuple[Tensor, list[Any]]:
        hidden, cell = (part.reshape(1, -1, self.cell_size) for part in state)
        self._features, (hidden, cell) = self.lstm(inputs, (hidden, cell))
        outputs: Tensor = self._logits_branch(self._features)
        return outputs, [hidden.squeeze(0), cell.squeeze(0)]

    def get_initial_state(self) -> list[Any]:
        """Returns zeros, twice ``[lstm_cell_size]``: the output and the cell."""
        return [next(self.lstm.parameters()).new_zeros(self.cell_size) for _ in range(2)]
