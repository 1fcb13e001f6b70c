"""Models of 2021: the base classes ModelV2 and TorchModelV2, and the network that wraps them.

`ScriptNetwork` wraps such a model, or a plain torch or Keras model with the same call, as a network: it
outputs the parameters of the action distribution and the values itself (``model.output=action_params``).
"""

from __future__ import annotations

import copy
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from gymnasium import Space
from gymnasium.spaces import Dict, Tuple
from torch import Tensor, nn

from rookery.face import ConfigError, install_line
from rookery_rllib.batch.sample_batch import SampleBatch
from rookery_rllib.batch.view_requirement import ViewRequirement
from rookery_rllib.model.preprocessors import RowPreprocessor, restore_original_dimensions
from rookery_rllib.model.shared_weights import separate

INITIAL_LENGTH = 1
"""Sequence length for models with memory: they are called decision by decision."""


class ModelV2:
    def __init__(
        self, obs_space: Any, action_space: Any, num_outputs: int, model_config: Any, name: str, framework: str
    ) -> None:
        self.obs_space = obs_space
        self.action_space = action_space
        self.num_outputs = num_outputs
        self.model_config = model_config
        self.name = name or "default_model"
        self.framework = framework
        self._last_output: Any = None
        self.time_major = (model_config or {}).get("_time_major")
        self.view_requirements: dict[str, Any] = {"obs": ViewRequirement(space=obs_space)}

    def get_initial_state(self) -> list[Any]:
        return []

    def forward(self, input_dict: dict[str, Any], state: list[Any], seq_lens: Any) -> tuple[Any, list[Any]]:
        raise NotImplementedError(f"{type(self).__name__} has no forward(input_dict, state, seq_lens)")

    def value_function(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no value_function()")

    def custom_loss(self, policy_loss: Any, loss_inputs: Any) -> Any:
        return policy_loss

    def metrics(self) -> dict[str, Any]:
        return {}

    def __call__(self, input_dict: Any, state: Any = None, seq_lens: Any = None) -> tuple[Any, list[Any]]:
        given = {key: input_dict[key] for key in input_dict}
        if isinstance(input_dict, SampleBatch):
            given["is_training"] = bool(input_dict.is_training)
            seq_lens = given.get("seq_lens") if seq_lens is None else seq_lens
            state = state or [given[key] for key in sorted(given) if key.startswith("state_in_")]
        given["obs_flat"] = given["obs"]
        given["obs"] = restore_original_dimensions(given["obs"], self.obs_space, self.framework)
        if isinstance(given["obs_flat"], Tensor) and given["obs_flat"].dim() > 2:
            given["obs_flat"] = given["obs_flat"].flatten(1)
        result = self.forward(given, list(state or []), seq_lens)
        if not isinstance(result, list | tuple) or len(result) != 2:
            raise ConfigError(
                f"{type(self).__name__}.forward returned {type(result).__name__}: must return (outputs, state)"
            )
        outputs, after = result
        if not isinstance(after, list):
            raise ConfigError(f"{type(self).__name__}.forward: the state must be a list, not {type(after).__name__}")
        self._last_output = outputs
        return outputs, after

    def from_batch(self, train_batch: Any, is_training: bool = True) -> Any:
        given = {name: train_batch[name] for name in train_batch}
        state = [given[name] for name in sorted(given) if name.startswith("state_in_")]
        return self({**given, "is_training": is_training}, state, given.get("seq_lens"))

    def import_from_h5(self, h5_file: str) -> None:
        raise NotImplementedError(f"{type(self).__name__} has no import_from_h5")

    def last_output(self) -> Any:
        return self._last_output

    def context(self) -> Any:
        return nullcontext()

    def variables(self, as_dict: bool = False) -> Any:
        raise NotImplementedError

    def trainable_variables(self, as_dict: bool = False) -> Any:
        raise NotImplementedError

    def is_time_major(self) -> bool:
        return self.time_major is True


class TorchModelV2(ModelV2):
    def __init__(self, obs_space: Any, action_space: Any, num_outputs: int, model_config: Any, name: str) -> None:
        modules = vars(self).get("_modules")  # its constructor may be called before or after this one
        ModelV2.__init__(self, obs_space, action_space, num_outputs, model_config, name, framework="torch")
        del modules

    def variables(self, as_dict: bool = False) -> Any:
        assert isinstance(self, nn.Module)
        found = self.state_dict()
        return found if as_dict else list(found.values())

    def trainable_variables(self, as_dict: bool = False) -> Any:
        assert isinstance(self, nn.Module)
        found = {name: weight for name, weight in self.named_parameters() if weight.requires_grad}
        return found if as_dict else list(found.values())


class TFModelV2(TorchModelV2, nn.Module):
    """A model of TensorFlow's names; its layers and models of ``tf.keras``, kept as attributes, run on torch.

    Raises:
        ConfigError: If keras is not installed.
    """

    def __init__(self, obs_space: Any, action_space: Any, num_outputs: int, model_config: Any, name: str) -> None:
        if importlib.util.find_spec("keras") is None:
            raise ConfigError(
                f"model {type(self).__name__}: derives from TFModelV2, whose layers are those of Keras, and keras is "
                f"not installed: {install_line('keras')}; or derive it from TorchModelV2 and torch.nn.Module"
            )
        nn.Module.__init__(self)
        TorchModelV2.__init__(self, obs_space, action_space, num_outputs, model_config, name)

    def register_variables(self, variables: Any) -> None:
        """Does nothing: the variables of attributes are known."""

    def update_ops(self) -> list[Any]:
        return []


# --- training such a model --------------------------------------------------------------------------------------------


class ScriptNetwork(nn.Module):
    """A model of a script as a network: raw observations in, outputs and values out.

    Args:
        obs_space: Space of the environment's observations.
        action_space: Space of its actions.
        num_outputs: Parameters of the action distribution.
        make: Makes the model: ``(obs_space, action_space, num_outputs)``, of preprocessed observations.
        options: The section ``model``.

    Attributes:
        model: The script's model.
        latest_rows: ``[N, size]`` preprocessed observations of the latest call, for a loss of the model's own.

    Raises:
        ConfigError: If two layers of a Keras model have the same name, so that weights would be lost; if `make` is
            missing, as in the file of a policy.
    """

    num_values = 1
    sees_mask = True
    columns: Mapping[str, Any] = {}
    """Further columns of the model's input."""

    def __init__(
        self,
        obs_space: Space[Any],
        action_space: Space[Any],
        num_outputs: int,
        *,
        make: Callable[[Any, Any, int], Any] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if make is None or options is None:
            raise ConfigError(
                "this policy's model was written in a script for RLlib, and is not in its file: make the trainer there "
                "and restore the checkpoint (trainer.restore(path))"
            )
        self._make = make
        self._given = obs_space, action_space, num_outputs, options
        self.rows = RowPreprocessor(obs_space, options)
        self.preprocessed = self.rows.observation_space
        self.model = make(self.preprocessed, action_space, num_outputs)
        self.of_torch = isinstance(self.model, nn.Module) and not hasattr(self.model, "trainable_weights")  # Keras
        if self.of_torch:
            self.model = self._placed(self.model)
        self.native = isinstance(self.model, ModelV2)
        if self.native and not self.of_torch:
            raise ConfigError(f"model {type(self.model).__name__}: derive it from TorchModelV2 and torch.nn.Module")
        self.latest_rows: Tensor | None = None
        self._build()
        self.states = [np.asarray(part, np.float32) for part in self._initial_state()]
        if self.states:
            self.initial_memory = self._initial_memory

    @staticmethod
    def _placed(model: Any) -> Any:
        """Returns the model with its own layers, if a script shares layers between models."""
        return separate(model)

    @staticmethod
    def saved_config(config: Mapping[str, Any]) -> dict[str, Any]:
        """Returns no settings: they are code of a script."""
        return {}

    def _build(self) -> None:
        """Calls the model once to build Keras weights."""
        of_keras = [self.model] if not self.of_torch and not self.native else []
        if isinstance(self.model, TFModelV2):
            of_keras = list(self.model.children())
        of_keras = [each for each in of_keras if hasattr(each, "variables") and hasattr(each, "trainable_variables")]
        if not of_keras:
            return
        with torch.no_grad():
            self.call_model(torch.zeros(1, *self.rows.shape, dtype=torch.float32, device="cpu"), self._zeros(1))
        for each in of_keras:
            found, wanted = len(list(each.parameters())), len(each.variables)
            if found < wanted:
                names = [layer.name for layer in getattr(each, "_layers", [])]
                double = sorted({name for name in names if names.count(name) > 1})
                where = f" ({', '.join(double)})" if double else ""
                raise ConfigError(
                    f"model {type(self.model).__name__}: two layers have one name{where}, by which {wanted - found} of "
                    f"{wanted} weights would not learn: give each layer a name of its own"
                )

    def _initial_state(self) -> Sequence[Any]:
        given = self.model.get_initial_state() if hasattr(self.model, "get_initial_state") else []
        return [part.detach().cpu().numpy() if isinstance(part, Tensor) else part for part in given]

    def _zeros(self, n: int) -> list[Tensor]:
        return [torch.zeros(n, *np.shape(part), dtype=torch.float32, device="cpu") for part in self._initial_state()]

    def _initial_memory(self, n: int) -> tuple[Tensor, ...]:
        """Returns the initial memory of n slots."""
        return tuple(torch.from_numpy(part).expand(n, *part.shape) for part in self.states)

    def call_model(self, rows: Tensor, state: Sequence[Tensor]) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Computes outputs ``[N, num_outputs]``, values ``[N]`` and the state after.

        Args:
            rows: ``[N, size]`` preprocessed observations.
            state: The memory of each row.
        """
        outputs, after, extras = self.called(rows, state)
        values = extras.get("vf_preds")
        if values is None:
            if not hasattr(self.model, "value_function"):
                raise ConfigError(f"model {type(self.model).__name__}: its third output has no 'vf_preds', the values")
            values = self.model.value_function()
        return outputs, values, after

    def called(self, rows: Tensor, state: Sequence[Tensor]) -> tuple[Tensor, list[Tensor], Mapping[str, Any]]:
        """Calls the script's model; returns outputs, the state after, and further results if it is not a ModelV2.

        Arguments are those of `call_model`.
        """
        lengths = torch.ones(len(rows), dtype=torch.int32, device="cpu")
        # Acting and targets need no gradients: only a loss is computed in training mode.
        learns = self.training and torch.is_grad_enabled() and any(each.requires_grad for each in self.parameters())
        if self.of_torch and self.model.training != learns:
            self.model.train(learns)
        given = SampleBatch({"obs": rows})
        given.is_training = learns
        if self.native:
            outputs, after = self.model({**self.columns, "obs": rows, "is_training": learns}, list(state), lengths)
            return outputs, after, {}
        if state:  # models other than ModelV2 find their memory among the columns
            given |= {f"state_in_{number}": part for number, part in enumerate(state)}
            given["seq_lens"] = lengths
        called: Any = self.model(dict(given))
        if not isinstance(called, list | tuple) or len(called) not in (2, 3):
            raise ConfigError(
                f"model {type(self.model).__name__}: returned {type(called).__name__}: must return (outputs, state, "
                "{'vf_preds': values})"
            )
        outputs, after, extras = (*called, {})[:3]
        return outputs, list(after), extras

    def forward(self, obs: Any, memory: Any = None) -> Any:
        """Computes outputs ``[N, num_outputs]`` and values ``[N]`` of observations; outputs alone without a value
        function.
        """
        tree: dict[str, Any] = {}
        _leaves(self._given[0], obs, "", tree)
        rows = self.latest_rows = self.rows.rows(tree)
        if memory is None:
            outputs, values, _ = self.call_model(rows.float(), ())
            return (outputs, values.reshape(-1)) if self.num_values else outputs
        parts = [memory] if isinstance(memory, Tensor) else list(memory)
        outputs, values, after = self.call_model(rows.float(), parts)
        shaped = (part.reshape(len(rows), *initial.shape) for part, initial in zip(after, self.states, strict=True))
        return ((outputs, values.reshape(-1)) if self.num_values else outputs), tuple(shaped)

    def __deepcopy__(self, memo: dict[int, Any]) -> ScriptNetwork:
        """Returns a copy with a new model and the same weights: models of scripts cannot always be copied."""
        obs_space, action_space, num_outputs, options = self._given
        try:
            other = type(self)(obs_space, action_space, num_outputs, make=self._make, options=options)
        except ConfigError:
            raise
        with torch.no_grad():
            for own_value, other_value in zip(self.parameters(), other.parameters(), strict=True):
                other_value.copy_(own_value)
                other_value.requires_grad_(own_value.requires_grad)
            for own, copied in zip(self.buffers(), other.buffers(), strict=True):
                copied.copy_(own)
        other.train(self.training)
        for name in ("num_features",):
            if hasattr(self, name):
                setattr(other, name, copy.deepcopy(getattr(self, name)))
        memo[id(self)] = other
        return other


def script_network(policy: nn.Module) -> ScriptNetwork | None:
    """Returns the network that wraps a script's model; None if Rookery built the policy's network."""
    for module in policy.modules():
        if isinstance(module, ScriptNetwork):
            return module
    return None


def _leaves(space: Any, obs: Any, path: str, tree: dict[str, Any]) -> None:
    """Splits observations in the form of their space, ``[N, ...]``, into leaves by path."""
    if isinstance(space, Dict | Tuple):
        items = space.spaces.items() if isinstance(space, Dict) else enumerate(space.spaces)
        for key, part in items:
            if not isinstance(obs, dict) or key in obs:
                _leaves(part, obs[key], f"{path}/{key}" if path else str(key), tree)
        return
    if space.dtype == np.uint8 and obs.dtype != torch.bool:
        obs = obs * float(np.max(space.high, initial=1))  # scale of our networks' inputs
    tree[path or "obs"] = obs
