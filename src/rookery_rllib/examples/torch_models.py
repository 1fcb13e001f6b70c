"""Models of RLlib's examples of 2021, on torch; scripts that request TensorFlow get the same classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete, Tuple
from torch import Tensor, nn

from rookery.face import ConfigError, as_tensor
from rookery_rllib.batch.offline import JsonReader
from rookery_rllib.batch.torch_functions import FLOAT_MAX, FLOAT_MIN
from rookery_rllib.batch.view_requirement import ViewRequirement
from rookery_rllib.model.action_distributions import TorchCategorical, TorchDistributionWrapper
from rookery_rllib.model.model_v2 import TorchModelV2
from rookery_rllib.model.network_layers import SlimFC, normc_initializer
from rookery_rllib.model.networks import DQNTorchModel, FullyConnectedNetwork, column, computed
from rookery_rllib.model.preprocessors import get_preprocessor, restore_original_dimensions
from rookery_rllib.model.recurrent_networks import RecurrentNetwork, previous_actions


class ExampleModel(TorchModelV2, nn.Module):
    """Base of the models of this file: their constructor."""

    _values: Tensor | None = None

    def __init__(self, obs_space: Any, action_space: Any, num_outputs: int, model_config: Any, name: str) -> None:
        nn.Module.__init__(self)
        TorchModelV2.__init__(self, obs_space, action_space, num_outputs, model_config, name)

    def value_function(self) -> Tensor:
        return computed(self, self._values)


def _size(space: Any) -> int:
    return int(np.prod(space.shape))


# --- custom losses ----------------------------------------------------------------------------------------------------


class TorchCustomLossModel(ExampleModel):
    """Fully connected network with an imitation loss: -log p of recorded actions is added to its loss.

    `input_files` are files of JSON lines, or a folder of them.
    """

    WEIGHT = 10.0

    def __init__(
        self, obs_space: Any, action_space: Any, num_outputs: int, model_config: Any, name: str, input_files: Any
    ) -> None:
        super().__init__(obs_space, action_space, num_outputs, model_config, name)
        self.input_files = input_files
        self.reader = JsonReader(input_files)
        self.fcnet = FullyConnectedNetwork(obs_space, action_space, num_outputs, model_config, "fcnet")
        self._metrics: dict[str, float] = {}

    def forward(self, input_dict: Any, state: list[Any], seq_lens: Any) -> Any:
        return self.fcnet(input_dict, state, seq_lens)

    def value_function(self) -> Tensor:
        return self.fcnet.value_function()

    def custom_loss(self, policy_loss: Any, loss_inputs: Any) -> Any:
        """Returns the losses with 10 times the mean -log p of a batch of recorded actions added to each."""
        batch = self.reader.next()
        device = policy_loss[0].device
        rows = torch.from_numpy(np.asarray(batch["obs"])).float().to(device)
        logits, _ = self.forward({"obs": restore_original_dimensions(rows, self.obs_space, "torch")}, [], None)
        actions = torch.from_numpy(np.asarray(batch["actions"])).to(device)
        imitation = -TorchCategorical(logits, self).logp(actions).mean()
        self._metrics = {
            "policy_loss": float(np.mean([loss.item() for loss in policy_loss])),
            "imitation_loss": imitation.item(),
        }
        return [loss + self.WEIGHT * imitation for loss in policy_loss]

    def metrics(self) -> dict[str, Any]:
        return dict(self._metrics)


# --- several parts of an action ---------------------------------------------------------------------------------------


class TorchBinaryAutoregressiveDistribution(TorchDistributionWrapper):
    """Autoregressive distribution of two choices, by the model's `action_module`: P(a1) P(a2 | a1)."""

    def _first(self) -> TorchCategorical:
        first, _ = self.model.action_module(self.inputs, self.inputs.new_zeros(len(self.inputs), 1))
        return TorchCategorical(first, self.model)

    def _second(self, a1: Tensor) -> TorchCategorical:
        _, second = self.model.action_module(self.inputs, a1.float().unsqueeze(1))
        return TorchCategorical(second, self.model)

    def _build_sample_op(self) -> tuple[Tensor, Tensor]:
        a1 = self._first().sample()
        return a1, self._second(a1).sample()

    def deterministic_sample(self) -> tuple[Tensor, Tensor]:
        a1 = self._first().deterministic_sample()
        return self._kept((a1, self._second(a1).deterministic_sample()))

    def logp(self, actions: Any) -> Tensor:
        """Returns the log-probabilities ``[B]`` of pairs of choices: ``[B, 2]``, or two tensors ``[B]``."""
        a1, a2 = actions if isinstance(actions, tuple | list) else as_tensor(actions).unbind(1)
        both: Tensor = self._first().logp(a1) + self._second(a1).logp(a2)
        return both

    def entropy(self) -> Tensor:
        """Returns the entropies ``[B]`` of the first choices and, of one draw of these, of the second ones."""
        first = self._first()
        both: Tensor = first.entropy() + self._second(first.sample()).entropy()
        return both

    def kl(self, other: Any) -> Tensor:
        """Returns the divergences ``[B]`` of the first choices and, of one draw of these, of the second ones."""
        first = self._first()
        a1 = first.sample()
        both: Tensor = first.kl(other._first()) + self._second(a1).kl(other._second(a1))
        return both

    @staticmethod
    def required_model_output_shape(action_space: Any, model_config: Any) -> int:
        return 16


class _ActionModule(nn.Module):
    """Computes logits of both choices: the first from the features, the second from the first."""

    def __init__(self, num_features: int) -> None:
        super().__init__()
        self.a1_logits = SlimFC(num_features, 2, normc_initializer(0.01))
        self.a2_hidden = SlimFC(1, 16, normc_initializer(1.0), nn.Tanh)
        self.a2_logits = SlimFC(16, 2, normc_initializer(0.01))

    def forward(self, features: Tensor, a1: Tensor) -> tuple[Tensor, Tensor]:
        return self.a1_logits(features), self.a2_logits(self.a2_hidden(a1))


class TorchAutoregressiveActionModel(ExampleModel):
    """A model for `TorchBinaryAutoregressiveDistribution`: features, and an `action_module` of them.

    Raises:
        ConfigError: If the action is no pair of choices out of two.
    """

    def __init__(self, obs_space: Any, action_space: Any, num_outputs: int, model_config: Any, name: str) -> None:
        super().__init__(obs_space, action_space, num_outputs, model_config, name)
        if action_space != Tuple([Discrete(2), Discrete(2)]):
            raise ConfigError(f"TorchAutoregressiveActionModel: actions are {action_space}, must be two of two choices")
        self.context_layer = SlimFC(_size(obs_space), num_outputs, normc_initializer(1.0), nn.Tanh)
        self.value_branch = SlimFC(num_outputs, 1, normc_initializer(0.01))
        self.action_module = _ActionModule(num_outputs)

    def forward(self, input_dict: Any, state: list[Any], seq_lens: Any) -> tuple[Tensor, list[Any]]:
        context = self.context_layer(input_dict["obs_flat"].float())
        self._values = self.value_branch(context).reshape(-1)
        return context, state


class TorchParametricActionsModel(DQNTorchModel):
    """A model for actions whose number and meaning change: logits are products of an intent and embeddings.

    Observations are a dict: ``cart``, ``avail_actions`` ``[B, n, action_embed_size]`` what actions are, ``action_mask``
    ``[B, n]`` whether they can be taken.
    """

    def __init__(
        self,
        obs_space: Any,
        action_space: Any,
        num_outputs: int,
        model_config: Any,
        name: str,
        true_obs_shape: Sequence[int] = (4,),
        action_embed_size: int = 2,
        **kw: Any,
    ) -> None:
        super().__init__(obs_space, action_space, num_outputs, model_config, name, **{"q_hiddens": (), **kw})
        self.action_embed_model = FullyConnectedNetwork(
            Box(-1, 1, tuple(true_obs_shape)), action_space, action_embed_size, model_config, f"{name}_action_embed"
        )

    def forward(self, input_dict: Any, state: list[Any], seq_lens: Any) -> tuple[Tensor, list[Any]]:
        """Computes logits ``[B, n]``; those of unavailable actions have the lowest value."""
        obs = input_dict["obs"]
        wanted, _ = self.action_embed_model({"obs": obs["cart"]})
        logits = (obs["avail_actions"] * wanted.unsqueeze(1)).sum(2)
        return logits + torch.log(obs["action_mask"]).clamp(FLOAT_MIN, FLOAT_MAX), state

    def value_function(self) -> Tensor:
        return self.action_embed_model.value_function()


# --- memory -----------------------------------------------------------------------------------------------------------


class TorchRNNModel(RecurrentNetwork, nn.Module):
    """A linear layer, an LSTM, outputs and values."""

    def __init__(
        self,
        obs_space: Any,
        action_space: Any,
        num_outputs: int,
        model_config: Any,
        name: str,
        fc_size: int = 64,
        lstm_state_size: int = 256,
    ) -> None:
        nn.Module.__init__(self)
        super().__init__(obs_space, action_space, num_outputs, model_config, name)
        self.obs_size = get_preprocessor(obs_space)(obs_space).size
        self.fc_size, self.lstm_state_size = fc_size, lstm_state_size
        self.fc1 = nn.Linear(self.obs_size, fc_size, dtype=torch.float32, device="cpu")
        self.lstm = nn.LSTM(fc_size, lstm_state_size, batch_first=True, dtype=torch.float32, device="cpu")
        self.action_branch = nn.Linear(lstm_state_size, num_outputs, dtype=torch.float32, device="cpu")
        self.value_branch = nn.Linear(lstm_state_size, 1, dtype=torch.float32, device="cpu")
        self._features: Tensor | None = None

    def get_initial_state(self) -> list[Any]:
        """Returns zeros, twice ``[lstm_state_size]``."""
        return [self.fc1.weight.new_zeros(self.lstm_state_size) for _ in range(2)]

    def forward_rnn(self, inputs: Tensor, state: list[Any], seq_lens: Tensor) -> tuple[Tensor, list[Any]]:
        """Computes outputs ``[B, T, num_outputs]`` and the state after."""
        hidden, cell = (part.unsqueeze(0) for part in state)
        self._features, (hidden, cell) = self.lstm(torch.relu(self.fc1(inputs)), (hidden, cell))
        return self.action_branch(self._features), [hidden.squeeze(0), cell.squeeze(0)]

    def value_function(self) -> Tensor:
        values: Tensor = self.value_branch(computed(self, self._features))
        return values.reshape(-1)


class RNNModel(TorchRNNModel):
    """`TorchRNNModel` with the arguments of the one for TensorFlow: ``hiddens_size`` and ``cell_size``."""

    def __init__(
        self,
        obs_space: Any,
        action_space: Any,
        num_outputs: int,
        model_config: Any,
        name: str,
        hiddens_size: int = 256,
        cell_size: int = 64,
    ) -> None:
        super().__init__(obs_space, action_space, num_outputs, model_config, name, hiddens_size, cell_size)
        self.cell_size = cell_size


class NativeRNNModel(nn.Module):
    """A recurrent model that is not a `ModelV2`, in the form that Keras models had: one call with all columns."""

    def __init__(
        self,
        input_space: Any,
        action_space: Any,
        num_outputs: int,
        *,
        name: str = "",
        hiddens_size: int = 256,
        cell_size: int = 64,
    ) -> None:
        super().__init__()
        self.name, self.cell_size = name, cell_size
        self.dense = nn.Linear(_size(input_space), hiddens_size, dtype=torch.float32, device="cpu")
        self.lstm = nn.LSTM(hiddens_size, cell_size, batch_first=True, dtype=torch.float32, device="cpu")
        self.logits = nn.Linear(cell_size, num_outputs, dtype=torch.float32, device="cpu")
        self.values = nn.Linear(cell_size, 1, dtype=torch.float32, device="cpu")

    def forward(self, sample_batch: Mapping[str, Any]) -> tuple[Tensor, list[Tensor], dict[str, Tensor]]:
        """Computes outputs ``[B * T, num_outputs]``, the state after, and ``vf_preds`` ``[B * T]``.

        Args:
            sample_batch: ``obs`` ``[B * T, size]``, ``seq_lens`` ``[B]``, ``state_in_0``, ``state_in_1`` ``[B, ...]``.
        """
        dense = torch.relu(self.dense(sample_batch["obs"].flatten(1)))
        state = tuple(sample_batch[f"state_in_{number}"].unsqueeze(0).contiguous() for number in (0, 1))
        seen, (hidden, cell) = self.lstm(dense.reshape(len(sample_batch["seq_lens"]), -1, dense.shape[1]), state)
        rows = seen.reshape(-1, self.cell_size)
        return self.logits(rows), [hidden.squeeze(0), cell.squeeze(0)], {"vf_preds": self.values(rows).reshape(-1)}

    def get_initial_state(self) -> list[np.ndarray]:
        return [np.zeros(self.cell_size, np.float32) for _ in range(2)]


class TorchFrameStackingCartPoleModel(ExampleModel):
    """A fully connected network on the last observations, actions and rewards."""

    def __init__(
        self, obs_space: Any, action_space: Any, num_outputs: int, model_config: Any, name: str, num_frames: int = 3
    ) -> None:
        super().__init__(obs_space, action_space, num_outputs, model_config, name)
        self.num_frames = num_frames
        self.layer1 = SlimFC(num_frames * (_size(obs_space) + int(action_space.n) + 1), 256, activation_fn="relu")
        self.layer2 = SlimFC(256, 256, activation_fn="relu")
        self.out = SlimFC(256, num_outputs)
        self.values = SlimFC(256, 1)
        past = f"-{num_frames}:-1"
        self.view_requirements |= {
            "prev_n_obs": ViewRequirement("obs", space=obs_space, shift=f"-{num_frames - 1}:0"),
            "prev_n_rewards": ViewRequirement("rewards", shift=past),
            "prev_n_actions": ViewRequirement("actions", space=action_space, shift=past),
        }

    def forward(self, input_dict: Any, state: list[Any], seq_lens: Any) -> tuple[Tensor, list[Any]]:
        obs = column(self, input_dict, "prev_n_obs").float().flatten(1)
        rewards = column(self, input_dict, "prev_n_rewards").float().reshape(len(obs), -1)
        actions = column(self, input_dict, "prev_n_actions").reshape(-1)
        chosen = previous_actions(actions, self.action_space).reshape(len(obs), -1)
        features = self.layer2(self.layer1(torch.cat((obs, chosen, rewards), 1)))
        self._values = self.values(features).reshape(-1)
        return self.out(features), state


# --- several policies -------------------------------------------------------------------------------------------------

SHARED_WIDTH = 64

TORCH_GLOBAL_SHARED_LAYER = SlimFC(SHARED_WIDTH, SHARED_WIDTH, activation_fn="relu")
"""The layer in the middle of every `TorchSharedWeightsModel`."""


class TorchSharedWeightsModel(ExampleModel):
    """A network with a middle layer that all policies share."""

    def __init__(
        self, observation_space: Any, action_space: Any, num_outputs: int, model_config: Any, name: str
    ) -> None:
        super().__init__(observation_space, action_space, num_outputs, model_config, name)
        self.first_layer = SlimFC(_size(observation_space), SHARED_WIDTH, activation_fn="relu")
        self._global_shared_layer = TORCH_GLOBAL_SHARED_LAYER
        self.last_layer = SlimFC(SHARED_WIDTH, num_outputs)
        self.vf = SlimFC(SHARED_WIDTH, 1)

    def forward(self, input_dict: Any, state: list[Any], seq_lens: Any) -> tuple[Tensor, list[Any]]:
        features = self._global_shared_layer(self.first_layer(input_dict["obs_flat"].float()))
        self._values = self.vf(features).reshape(-1)
        return self.last_layer(features), state


class TorchCentralizedCriticModel(ExampleModel):
    """Fully connected network with a critic that also gets another agent's observation and action."""

    def __init__(self, obs_space: Any, action_space: Any, num_outputs: int, model_config: Any, name: str) -> None:
        super().__init__(obs_space, action_space, num_outputs, model_config, name)
        self.model = FullyConnectedNetwork(obs_space, action_space, num_outputs, model_config, name)
        self.num_actions = int(action_space.n)
        inputs = 2 * _size(obs_space) + self.num_actions
        self.central_vf = nn.Sequential(SlimFC(inputs, 16, activation_fn=nn.Tanh), SlimFC(16, 1))

    def forward(self, input_dict: Any, state: list[Any], seq_lens: Any) -> tuple[Tensor, list[Any]]:
        outputs, _ = self.model(input_dict, state, seq_lens)
        return outputs, []

    def central_value_function(self, obs: Tensor, opponent_obs: Tensor, opponent_actions: Tensor) -> Tensor:
        """Returns values ``[B]``.

        Args:
            obs: ``[B, size]`` flat observations of the agent.
            opponent_obs: ``[B, size]`` those of the other one.
            opponent_actions: ``[B]`` its choices.
        """
        chosen = nn.functional.one_hot(as_tensor(opponent_actions).long(), self.num_actions).float()
        parts = (as_tensor(obs).float(), as_tensor(opponent_obs).float(), chosen)
        values: Tensor = self.central_vf(torch.cat(parts, 1))
        return values.reshape(-1)

    def value_function(self) -> Tensor:
        return self.model.value_function()


class YetAnotherTorchCentralizedCriticModel(ExampleModel):
    """Network that acts only on ``own_obs`` of a dict; its critic observes the whole dict."""

    def __init__(self, obs_space: Any, action_space: Any, num_outputs: int, model_config: Any, name: str) -> None:
        super().__init__(obs_space, action_space, num_outputs, model_config, name)
        own = getattr(obs_space, "original_space", obs_space)["own_obs"]
        size = get_preprocessor(own)(own).size
        self.action_model = FullyConnectedNetwork(
            Box(0, 1, (size,)), action_space, num_outputs, model_config, f"{name}_action"
        )
        self.value_model = FullyConnectedNetwork(obs_space, action_space, 1, model_config, f"{name}_vf")

    def forward(self, input_dict: Any, state: list[Any], seq_lens: Any) -> Any:
        values, _ = self.value_model({"obs": input_dict["obs_flat"]}, state, seq_lens)
        self._values = values.reshape(-1)
        return self.action_model({"obs": input_dict["obs"]["own_obs"]}, state, seq_lens)


# --- others -----------------------------------------------------------------------------------------------------------


class TorchBatchNormModel(ExampleModel):
    """Two layers of 256, each followed by a batch normalization that updates its statistics while the model learns."""

    def __init__(
        self, obs_space: Any, action_space: Any, num_outputs: int, model_config: Any, name: str, **kwargs: Any
    ) -> None:
        super().__init__(obs_space, action_space, num_outputs, model_config, name)
        made: list[nn.Module] = []
        width = _size(obs_space)
        for size in (256, 256):
            made += [
                SlimFC(width, size, normc_initializer(1.0), nn.ReLU),
                nn.BatchNorm1d(size, dtype=torch.float32, device="cpu"),
            ]
            width = size
        self._hidden_layers = nn.Sequential(*made)
        self._logits = SlimFC(width, num_outputs, normc_initializer(0.01))
        self._value_branch = SlimFC(width, 1, normc_initializer(1.0))

    def forward(self, input_dict: Any, state: list[Any], seq_lens: Any) -> tuple[Tensor, list[Any]]:
        self._hidden_layers.train(bool(input_dict.get("is_training", False)))
        features = self._hidden_layers(input_dict["obs_flat"].float())
        self._values = self._value_branch(features).reshape(-1)
        return self._logits(features), state


class TorchFastModel(ExampleModel):
    """Model with a single weight for all outputs, for measuring all other costs."""

    def __init__(self, obs_space: Any, action_space: Any, num_outputs: int, model_config: Any, name: str) -> None:
        super().__init__(obs_space, action_space, num_outputs, model_config, name)
        self.bias = nn.Parameter(torch.zeros(1, dtype=torch.float32, device="cpu"))

    def forward(self, input_dict: Any, state: list[Any], seq_lens: Any) -> tuple[Tensor, list[Any]]:
        outputs = self.bias.expand(len(input_dict["obs_flat"]), self.num_outputs)
        self._values = outputs.mean(1)
        return outputs, state


class CustomTorchRPGModel(ExampleModel):
    """Fully connected network on lists of objects, which are passed as `RepeatedValues` and stored in `last_obs`."""

    def __init__(self, obs_space: Any, action_space: Any, num_outputs: int, model_config: Any, name: str) -> None:
        super().__init__(obs_space, action_space, num_outputs, model_config, name)
        self.model = FullyConnectedNetwork(obs_space, action_space, num_outputs, model_config, name)
        self.last_obs: Any = None

    def forward(self, input_dict: Any, state: list[Any], seq_lens: Any) -> Any:
        self.last_obs = input_dict["obs"]
        return self.model.forward(input_dict, state, seq_lens)

    def value_function(self) -> Tensor:
        return self.model.value_function()


class EagerModel(ExampleModel):
    """Fully connected network whose outputs go through a Python function, `forward_eager`."""

    def __init__(self, obs_space: Any, action_space: Any, num_outputs: int, model_config: Any, name: str) -> None:
        super().__init__(obs_space, action_space, num_outputs, model_config, name)
        self.fcnet = FullyConnectedNetwork(obs_space, action_space, num_outputs, model_config, "fcnet")

    def forward(self, input_dict: Any, state: list[Any], seq_lens: Any) -> tuple[Tensor, list[Any]]:
        outputs, _ = self.fcnet.forward(input_dict, state, seq_lens)
        self._values = self.fcnet.value_function()
        assert isinstance(outputs, Tensor)
        return self.forward_eager(outputs), state

    def forward_eager(self, feature_layer: Tensor) -> Tensor:
        return feature_layer


class TorchDuelingQModel(TorchModelV2):
    """An interface for models: values of actions as a value of the observation and advantages of the actions."""

    def __init__(self, obs_space: Any, action_space: Any, num_outputs: int, model_config: Any, name: str) -> None:
        nn.Module.__init__(self)  # type: ignore[arg-type]
        super().__init__(obs_space, action_space, None, model_config, name)  # type: ignore[arg-type]  # of the model below
        self.A = SlimFC(self.num_outputs, num_outputs)
        self.V = SlimFC(self.num_outputs, 1)

    def get_q_values(self, underlying_output: Tensor) -> Tensor:
        """Returns values of actions ``[B, n]`` of features ``[B, F]``."""
        advantages = self.A(underlying_output)
        values: Tensor = self.V(underlying_output) + advantages - advantages.mean(1, keepdim=True)
        return values


class TorchContActionQModel(TorchModelV2):
    """An interface for models: the value of a given action, which is a vector."""

    def __init__(self, obs_space: Any, action_space: Any, num_outputs: int, model_config: Any, name: str) -> None:
        nn.Module.__init__(self)  # type: ignore[arg-type]
        super().__init__(obs_space, action_space, None, model_config, name)  # type: ignore[arg-type]  # of the model below
        both = Box(-1.0, 1.0, (self.num_outputs + _size(action_space),))
        self.q_head = FullyConnectedNetwork(both, action_space, 1, model_config, "q_head")

    def get_single_q_value(self, underlying_output: Tensor, action: Tensor) -> Tensor:
        """Returns values ``[B, 1]`` of features ``[B, F]`` and actions ``[B, k]``."""
        values, _ = self.q_head({"obs": torch.cat((underlying_output, as_tensor(action)), -1)})
        assert isinstance(values, Tensor)
        return values
