"""Default networks of 2021 as models that scripts use inside their own, or derive from.

Trainers without a custom model use our networks (`default_networks.py` and the settings); these are for code that
names one. Attributes have the names of 2021, because scripts read them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box
from torch import Tensor, nn

from rookery.face import ConfigError, as_tensor
from rookery_rllib.base import nested
from rookery_rllib.batch.torch_functions import one_hot
from rookery_rllib.batch.view_requirement import ViewRequirement
from rookery_rllib.gym.rllib_spaces import get_base_struct_from_space
from rookery_rllib.model.model_v2 import TorchModelV2
from rookery_rllib.model.network_layers import (
    AppendBiasLayer,
    NoisyLayer,
    SlimConv2d,
    SlimFC,
    get_filter_config,
    normc_initializer,
    same_padding,
)
from rookery_rllib.model.preprocessors import get_preprocessor

HIDDEN, LAST = 1.0, 0.01
"""Norms of initial weights, of hidden layers and of output layers."""


def column(model: Any, input_dict: Mapping[str, Any], name: str) -> Any:
    """Returns a column of a model's input; raises a ConfigError if there is none of this name."""
    if name in input_dict:
        return input_dict[name]
    raise ConfigError(
        f"model {type(model).__name__}: its input has no column {name!r}, only {', '.join(sorted(input_dict))}; such "
        "models get observations and their state: keep the rest in the state"
    )


def layers(sizes: Sequence[int], activation: Any) -> list[nn.Module]:
    """Returns a chain of linear layers of the given sizes, each with its activation."""
    return [SlimFC(inputs, outputs, normc_initializer(HIDDEN), activation) for inputs, outputs in pairwise(sizes)]


def head(inputs: int, outputs: int) -> SlimFC:
    """Returns a linear layer for outputs or values, with small initial weights."""
    return SlimFC(inputs, outputs, normc_initializer(LAST))


class FullyConnectedNetwork(TorchModelV2, nn.Module):
    def __init__(
        self, obs_space: Any, action_space: Any, num_outputs: int | None, model_config: Mapping[str, Any], name: str
    ) -> None:
        nn.Module.__init__(self)
        TorchModelV2.__init__(self, obs_space, action_space, num_outputs, model_config, name)  # type: ignore[arg-type]
        hiddens = [*model_config.get("fcnet_hiddens", []), *model_config.get("post_fcnet_hiddens", [])]
        which = "fcnet_activation" if model_config.get("fcnet_hiddens") else "post_fcnet_activation"
        activation = model_config.get(which)
        self.vf_share_layers = bool(model_config.get("vf_share_layers"))
        self.free_log_std = bool(model_config.get("free_log_std"))
        outputs = num_outputs or 0
        if self.free_log_std:
            if outputs % 2:
                raise ConfigError(f"model.free_log_std: {outputs} outputs, must be even: means and as many deviations")
            outputs //= 2
        size = int(np.prod(obs_space.shape))
        shared = list(hiddens)
        final = bool(outputs) and not model_config.get("no_final_linear")
        if outputs and not final:  # the last layer is the output
            shared = [*hiddens[:-1], outputs]
        self._hidden_layers = nn.Sequential(*layers([size, *shared], activation))
        width = [size, *shared][-1]
        self._logits = head(width, outputs) if final else None
        self._append_free_log_std = AppendBiasLayer(outputs) if self.free_log_std and outputs else None
        if not num_outputs:
            self.num_outputs = width
        self._value_branch_separate: nn.Sequential | None = None
        if not self.vf_share_layers:
            self._value_branch_separate = nn.Sequential(*layers([size, *hiddens], activation))
        self._value_branch = head(width if self.vf_share_layers else [size, *hiddens][-1], 1)
        self._features: Tensor | None = None
        self._last_flat_in: Tensor | None = None

    def forward(self, input_dict: Any, state: list[Any], seq_lens: Any) -> tuple[Tensor, list[Any]]:
        obs = as_tensor(column(self, input_dict, "obs_flat")).float()
        self._last_flat_in = obs.reshape(len(obs), -1)
        self._features = self._hidden_layers(self._last_flat_in)
        outputs = self._features if self._logits is None else self._logits(self._features)
        if self._append_free_log_std is not None:
            outputs = self._append_free_log_std(outputs)
        assert isinstance(outputs, Tensor)
        return outputs, state

    def value_function(self) -> Tensor:
        if self._value_branch_separate is not None:
            features = self._value_branch_separate(computed(self, self._last_flat_in))
        else:
            features = computed(self, self._features)
        values: Tensor = self._value_branch(features).squeeze(1)
        return values


class VisionNetwork(TorchModelV2, nn.Module):
    """Convolutions of ``conv_filters`` over images, with layers on top.

    All convolutions but the last one keep the size but for their stride; the last has no padding.
    """

    def __init__(
        self, obs_space: Any, action_space: Any, num_outputs: int | None, model_config: dict[str, Any], name: str
    ) -> None:
        nn.Module.__init__(self)
        TorchModelV2.__init__(self, obs_space, action_space, num_outputs, model_config, name)  # type: ignore[arg-type]
        filters = model_config.get("conv_filters") or get_filter_config(obs_space.shape)
        frames = model_config.get("num_framestacks", 0)
        self.traj_view_framestacking = frames != "auto" and frames > 1
        if self.traj_view_framestacking:
            self.view_requirements["obs"] = ViewRequirement(shift=f"-{frames - 1}:0", space=obs_space)
            self.view_requirements["new_obs"] = ViewRequirement("obs", shift=f"-{frames - 2}:1", space=obs_space)
        channels = frames if self.traj_view_framestacking else obs_space.shape[2]
        activation = model_config.get("conv_activation", "relu")
        hiddens = list(model_config.get("post_fcnet_hiddens", []))
        outputs = num_outputs or 0
        final = bool(outputs) and not model_config.get("no_final_linear")

        def convolved() -> tuple[list[nn.Module], int]:
            return _convolutions(obs_space.shape[:2], channels, filters, activation)

        made, width = convolved()
        sizes = [width, *hiddens]
        if outputs and not final:
            sizes = [*sizes[: max(len(hiddens), 1)], outputs]
        post = model_config.get("post_fcnet_activation", "relu")
        self._convs = nn.Sequential(*made, nn.Flatten(), *layers(sizes, post))
        self._logits = head(sizes[-1], outputs) if final else None
        if not num_outputs:
            self.num_outputs = sizes[-1]
        self._value_branch_separate: nn.Sequential | None = None
        self._value_branch: SlimFC | None = None
        if model_config.get("vf_share_layers", True):
            self._value_branch = head(sizes[-1], 1)
        else:
            made, width = convolved()
            self._value_branch_separate = nn.Sequential(*made, nn.Flatten(), head(width, 1))
        self._features: Tensor | None = None
        self._images: Tensor | None = None

    def forward(self, input_dict: Any, state: list[Any], seq_lens: Any) -> tuple[Tensor, list[Any]]:
        images = as_tensor(column(self, input_dict, "obs")).float()
        self._images = images if self.traj_view_framestacking else images.permute(0, 3, 1, 2)
        self._features = self._convs(self._images)
        outputs = self._features if self._logits is None else self._logits(self._features)
        assert isinstance(outputs, Tensor)
        return outputs, state

    def value_function(self) -> Tensor:
        if self._value_branch is not None:
            values: Tensor = self._value_branch(computed(self, self._features)).squeeze(1)
            return values
        assert self._value_branch_separate is not None
        separate: Tensor = self._value_branch_separate(computed(self, self._images)).squeeze(1)
        return separate


def _convolutions(
    size: Sequence[int], channels: int, filters: Sequence[Sequence[Any]], activation: Any
) -> tuple[list[nn.Module], int]:
    """Returns the convolutions, and the number of features after them."""
    made: list[nn.Module] = []
    for number, (out, kernel, stride) in enumerate(filters, 1):
        padding: tuple[int, ...] | None = None
        after = [
            (side - window) // step + 1
            for side, window, step in zip(
                size, *(np.broadcast_to(one, 2).tolist() for one in (kernel, stride)), strict=True
            )
        ]
        if number < len(filters):
            padding, after = same_padding(size, kernel, stride)  # type: ignore[assignment]
        if min(after) < 1:
            raise ConfigError(
                f"model.conv_filters: the kernel {kernel} of filter {number} is larger than its input, an "
                f"image of {list(size)}; give a smaller one"
            )
        made.append(SlimConv2d(channels, out, kernel, stride, padding, activation_fn=activation))
        channels, size = out, after
    return made, channels * size[0] * size[1]


class ComplexInputNetwork(TorchModelV2, nn.Module):
    """Convolutions over each image of a Tuple or Dict, other parts flattened; then ``post_fcnet_hiddens``."""

    def __init__(
        self, obs_space: Any, action_space: Any, num_outputs: int | None, model_config: Mapping[str, Any], name: str
    ) -> None:
        self.original_space = getattr(obs_space, "original_space", obs_space)
        self._parts = nested.flatten(get_base_struct_from_space(self.original_space))
        if not hasattr(self.original_space, "spaces"):
            raise ConfigError(f"ComplexInputNetwork: observations are {self.original_space}, must be a Tuple or a Dict")
        nn.Module.__init__(self)
        TorchModelV2.__init__(self, obs_space, action_space, num_outputs, model_config, name)  # type: ignore[arg-type]
        options = {key: model_config[key] for key in ("conv_filters", "conv_activation") if key in model_config}
        self.cnns: dict[int, VisionNetwork] = {}
        width = 0
        for number, part in enumerate(self._parts):
            if isinstance(part, Box) and len(part.shape) == 3:
                network = VisionNetwork(part, action_space, None, dict(options), f"cnn_{number}")
                self.cnns[number] = network
                self.add_module(f"cnn_{number}", network)
                width += network.num_outputs
            else:
                width += get_preprocessor(part)(part).size
        post = {
            "fcnet_hiddens": model_config.get("post_fcnet_hiddens", []),
            "fcnet_activation": model_config.get("post_fcnet_activation", "relu"),
            "vf_share_layers": True,
        }
        flat = Box(-np.inf, np.inf, (width,), np.float32)
        self.post_fc_stack = FullyConnectedNetwork(flat, action_space, None, post, "post_fc_stack")
        self.logits_layer: SlimFC | None = None
        self.value_layer: SlimFC | None = None
        if num_outputs:
            self.logits_layer = SlimFC(self.post_fc_stack.num_outputs, num_outputs)
            self.value_layer = head(self.post_fc_stack.num_outputs, 1)
        else:
            self.num_outputs = self.post_fc_stack.num_outputs
        self._value_out: Tensor | None = None

    def forward(self, input_dict: Any, state: list[Any], seq_lens: Any) -> tuple[Tensor, list[Any]]:
        outs = []
        for number, (space, part) in enumerate(zip(self._parts, nested.flatten(input_dict["obs"]), strict=True)):
            if number in self.cnns:
                outs.append(self.cnns[number]({"obs": part})[0])
            elif part.dtype.is_floating_point:
                outs.append(part.reshape(len(part), -1))
            else:
                outs.append(_one_hots(part, space))
        features, _ = self.post_fc_stack({"obs": torch.cat(outs, 1)})
        if self.logits_layer is None or self.value_layer is None:
            return features, state
        self._value_out = self.value_layer(features).reshape(-1)
        return self.logits_layer(features), state

    def value_function(self) -> Tensor:
        return computed(self, self._value_out)


def _one_hots(values: Tensor, space: Any) -> Tensor:
    """Converts whole numbers to floats and categories to one-hots, ``[B, W]``."""
    if hasattr(space, "n") or hasattr(space, "nvec"):
        return one_hot(values, space).float()
    return values.reshape(len(values), -1).float()


class TorchNoopModel(TorchModelV2, nn.Module):
    def __init__(self, obs_space: Any, action_space: Any, num_outputs: Any, model_config: Any, name: str) -> None:
        nn.Module.__init__(self)
        TorchModelV2.__init__(self, obs_space, action_space, num_outputs, model_config, name)
        self._rows: Tensor | None = None

    def forward(self, input_dict: Any, state: list[Any], seq_lens: Any) -> tuple[Tensor, list[Any]]:
        self._rows = input_dict["obs_flat"].float()
        return self._rows, state

    def value_function(self) -> Tensor:
        rows = computed(self, self._rows)
        return rows.new_zeros(len(rows))


def computed(model: Any, kept: Tensor | None) -> Tensor:
    """Returns an attribute that a model set in its latest call; raises a RuntimeError if there was none."""
    if kept is None:
        raise RuntimeError(f"{type(model).__name__}: call forward() before value_function()")
    return kept


class DQNTorchModel(TorchModelV2, nn.Module):
    def __init__(
        self,
        obs_space: Any,
        action_space: Any,
        num_outputs: int,
        model_config: Any,
        name: str,
        *,
        q_hiddens: Sequence[int] = (256,),
        dueling: bool = False,
        dueling_activation: str = "relu",
        num_atoms: int = 1,
        use_noisy: bool = False,
        v_min: float = -10.0,
        v_max: float = 10.0,
        sigma0: float = 0.5,
        add_layer_norm: bool = False,
        **custom: Any,
    ) -> None:
        nn.Module.__init__(self)
        super().__init__(obs_space, action_space, num_outputs, model_config, name, **custom)  # of the layers on top
        self.dueling, self.num_atoms = dueling, num_atoms
        self.v_min, self.v_max, self.sigma0 = v_min, v_max, sigma0

        def branch(outputs: int) -> nn.Sequential:
            made: list[nn.Module] = []
            sizes = [num_outputs, *q_hiddens]
            for inputs, width in pairwise(sizes):
                if use_noisy:
                    made.append(NoisyLayer(inputs, width, sigma0, dueling_activation))
                else:
                    made.append(SlimFC(inputs, width, activation_fn=dueling_activation))
                if add_layer_norm and not use_noisy:
                    made.append(nn.LayerNorm(width, dtype=torch.float32, device="cpu"))
            if use_noisy:
                made.append(NoisyLayer(sizes[-1], outputs, sigma0, None))
            elif q_hiddens or outputs == 1:
                made.append(SlimFC(sizes[-1], outputs))
            return nn.Sequential(*made)

        self.advantage_module = branch(int(action_space.n) * num_atoms)
        self.value_module = branch(1) if dueling else None

    def get_q_value_distributions(self, model_out: Tensor) -> tuple[Tensor, ...]:
        """Returns values of actions from the outputs of `forward`, ``[B, n]``, or advantages with two heads.

        With one atom: values, ones ``[B, n, 1]`` and the same ones. With several: values, the atoms, logits
        ``[B, n, atoms]``, the logits again, probabilities.
        """
        scores = self.advantage_module(model_out)
        if self.num_atoms == 1:
            ones = torch.ones_like(scores).unsqueeze(-1)
            return scores, ones, ones
        atoms = torch.linspace(self.v_min, self.v_max, self.num_atoms, device=scores.device, dtype=torch.float32)
        logits = scores.reshape(len(scores), -1, self.num_atoms)
        shares = logits.softmax(-1)
        return (shares * atoms).sum(-1), atoms, logits, logits, shares

    def get_state_value(self, model_out: Tensor) -> Tensor:
        """Returns the state values ``[B, 1]`` from the outputs of `forward`."""
        if self.value_module is None:
            raise ConfigError("DQNTorchModel: values of observations need dueling=True")
        values: Tensor = self.value_module(model_out)
        return values
