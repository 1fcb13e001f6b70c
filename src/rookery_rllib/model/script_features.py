"""Models of scripts for DDPG and TD3, whose outputs are features for the layers of actor and critics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from gymnasium import Space
from torch import Tensor, nn

from rookery.face import ConfigError
from rookery_rllib.model.catalog import network_factory
from rookery_rllib.model.model_v2 import ScriptNetwork
from rookery_rllib.model.network_layers import SlimFC
from rookery_rllib.model.preprocessors import RowPreprocessor


class FeatureNetwork(ScriptNetwork):
    """A model of a script that outputs features alone; arguments as of `ScriptNetwork`."""

    num_values = 0

    def call_model(self, rows: Tensor, state: Sequence[Tensor]) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Computes features ``[N, num_outputs]`` and the state after; the second result has no meaning."""
        outputs, after, _ = self.called(rows, state)
        return outputs, outputs, after


class ScriptFeatures(nn.Module):
    """A model of a script with fully connected layers on its outputs, which are as many as its inputs, as in RLlib.

    Args:
        obs_space: Space of the environment's observations.
        action_space: Space of its actions.
        widths: Widths of the layers.
        activation: Their activation, in the spelling of 2021.
        make: Makes the model; as of `ScriptNetwork`.
        options: The section ``model``.

    Raises:
        ConfigError: As of `ScriptNetwork`; and for a model with memory.
    """

    sees_mask = True

    def __init__(
        self,
        obs_space: Space[Any],
        *,
        action_space: Any = None,
        widths: Sequence[int] = (),
        activation: str = "relu",
        make: Callable[[Any, Any, int], Any] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        sizes = [RowPreprocessor(obs_space, options).size, *widths]
        self.network = FeatureNetwork(obs_space, action_space, sizes[0], make=make, options=options)
        if self.network.states:
            raise ConfigError(
                "rllib config: model.custom_model: DDPG and TD3 do not train policies with memory; use PPO"
            )
        layers = [SlimFC(*pair, activation_fn=activation) for pair in pairwise(sizes)]
        self.layers = nn.Sequential(*layers)
        self.num_features = sizes[-1]

    @staticmethod
    def saved_config(config: Mapping[str, Any]) -> dict[str, Any]:
        """Returns no settings: they are code of a script."""
        return {}

    def forward(self, obs: Any) -> Tensor:
        """Computes features ``[N, num_features]``."""
        found: Tensor = self.layers(self.network(obs))
        return found


def feature_settings(config: Mapping[str, Any], options: Mapping[str, Any], action_space: Any) -> dict[str, Any]:
    """Returns the settings of a policy of DDPG or TD3 with a script's model.

    Args:
        config: The complete configuration.
        options: The section ``model``.
        action_space: Space of the environment's actions.
    """
    given = {
        "action_space": action_space,
        "widths": tuple(config["actor_hiddens"] or ()),
        "activation": config["actor_hidden_activation"],
    }
    return {
        "model.module": ScriptFeatures,
        "model.module_config": {**given, "make": network_factory(options), "options": options},
    }
