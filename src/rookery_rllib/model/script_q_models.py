"""Models of scripts for DQN, SimpleQ and R2D2: heads compute action values from their outputs.

As in 2021 these heads are methods of the model (`networks.py:DQNTorchModel`), which a script's class may override;
other classes are combined with it. So the model as a whole outputs action values, without a head after it
(``model.output=action_params``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from rookery.face import IMPOSSIBLE
from rookery_rllib.config.defaults import MODEL_DEFAULTS
from rookery_rllib.model.catalog import MakeModel, ModelCatalog, custom_model
from rookery_rllib.model.model_v2 import ScriptNetwork
from rookery_rllib.model.networks import DQNTorchModel

DEFAULT_WIDTH = 256
"""Width of the heads' input if ``fcnet_hiddens`` is empty."""


class ScriptQNetwork(ScriptNetwork):
    """A model of a script that outputs action values; arguments as of `ScriptNetwork`."""

    num_values = 0

    def call_model(self, rows: Tensor, state: Sequence[Tensor]) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Computes action values ``[N, n]``, or logits of distributions ``[N, n * atoms]``, and the state after; the
        second result has no meaning. Arguments as of `ScriptNetwork`.
        """
        outputs, after, _ = self.called(rows, state)
        return q_values(self.model, outputs), outputs, after


def q_values(model: Any, outputs: Tensor) -> Tensor:
    """Returns action values from a model's outputs: ``[N, n]``, or logits ``[N, n * atoms]``.

    Args:
        model: With the heads of `DQNTorchModel`; the outputs of other models are the values.
        outputs: ``[N, num_outputs]``.
    """
    if not isinstance(model, DQNTorchModel):
        return outputs
    found = model.get_q_value_distributions(outputs)
    if model.num_atoms > 1:
        logits = found[2]
        if model.dueling:
            logits = model.get_state_value(outputs).unsqueeze(1) + logits - logits.mean(1, keepdim=True)
        return logits.flatten(1)
    scores = found[0]
    if not model.dueling:
        return scores
    possible = scores > IMPOSSIBLE  # the lowest values would dominate the mean
    mean = torch.where(possible, scores, 0.0).sum(1, keepdim=True) / possible.sum(1, keepdim=True)
    return torch.where(possible, model.get_state_value(outputs) + scores - mean, scores)


def q_network_factory(algorithm: str, config: Mapping[str, Any], options: Mapping[str, Any]) -> MakeModel:
    """Returns a function that makes a script's model for action values.

    Args:
        algorithm: ``DQN``, ``SimpleQ`` or ``R2D2``. SimpleQ has no heads: a model outputs the values.
        config: The complete configuration.
        options: The section ``model``.

    Returns:
        ``(obs_space, action_space, number of values) -> model``, with the space of preprocessed observations.

    Raises:
        ConfigError: As of `catalog.network_factory`.
    """
    custom_model(options)
    section = {**MODEL_DEFAULTS, **options}

    def make(obs_space: Any, action_space: Any, num_values: int) -> Any:
        if algorithm == "SimpleQ":
            return ModelCatalog.get_model_v2(obs_space, action_space, int(action_space.n), section)
        hiddens = tuple(config["hiddens"] or ())
        width = [DEFAULT_WIDTH, *section["fcnet_hiddens"]][-1] if hiddens else int(action_space.n)
        return ModelCatalog.get_model_v2(
            obs_space,
            action_space,
            width,
            {**section, "no_final_linear": True} if hiddens else section,
            model_interface=DQNTorchModel,
            q_hiddens=hiddens,
            dueling=bool(config["dueling"]),
            num_atoms=int(config["num_atoms"]),
            v_min=float(config["v_min"]),
            v_max=float(config["v_max"]),
        )

    return make


def q_settings(algorithm: str, config: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of a policy with a script's model for action values."""
    return {
        "model.module": ScriptQNetwork,
        "model.module_config": {"make": q_network_factory(algorithm, config, options), "options": options},
        "dueling": False,  # both are the model's own
        "dueling_hidden": (),
    }
