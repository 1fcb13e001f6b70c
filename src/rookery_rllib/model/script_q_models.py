"""Models of scripts that DQN, SimpleQ and R2D2 learn: what they put out goes to heads for values of actions.

As in 2021 these heads are methods of the model (`networks.py:DQNTorchModel`), which a script's class may override; a
class that does not derive from it is put on it. So the model as a whole puts out values of actions, and nothing comes
after it (``model.output=outputs``).
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
"""Numbers that heads stand on, where ``fcnet_hiddens`` is empty."""


class ScriptQNetwork(ScriptNetwork):
    """A model of a script that puts out values of actions; arguments as of `ScriptNetwork`."""

    num_values = 0

    def call_model(self, rows: Tensor, state: Sequence[Tensor]) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Computes what is learned of each action, ``[N, n]``, or of distributions ``[N, n * atoms]``, and the state
        after; what stands between them has no meaning. Arguments as of `ScriptNetwork`.
        """
        outputs, after, _ = self.called(rows, state)
        return q_values(self.model, outputs), outputs, after


def q_values(model: Any, outputs: Tensor) -> Tensor:
    """Returns what is learned of each action, given what a model puts out: ``[N, n]``, or ``[N, n * atoms]`` logits.

    Args:
        model: With the heads of `DQNTorchModel`; what others put out are the values.
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
    possible = scores > IMPOSSIBLE  # others would drown the mean
    mean = torch.where(possible, scores, 0.0).sum(1, keepdim=True) / possible.sum(1, keepdim=True)
    return torch.where(possible, model.get_state_value(outputs) + scores - mean, scores)


def q_network_factory(algorithm: str, config: Mapping[str, Any], options: Mapping[str, Any]) -> MakeModel:
    """Returns a function that makes a script's model for values of actions.

    Args:
        algorithm: ``DQN``, ``SimpleQ`` or ``R2D2``. SimpleQ has no heads: a model puts out the values.
        config: The configuration, whole.
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
    """Returns what a policy has that a script's model for values of actions plays for: values by setting."""
    return {
        "model.module": ScriptQNetwork,
        "model.module_config": {"make": q_network_factory(algorithm, config, options), "options": options},
        "dueling": False,  # both are the model's own
        "dueling_hidden": (),
    }
