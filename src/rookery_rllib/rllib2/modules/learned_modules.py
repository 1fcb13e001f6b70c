"""`LearnedModule`: a policy that Rookery trains, with the methods of a module of RLlib 2.x."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from rookery_rllib.batch.numpy_functions import as_arrays
from rookery_rllib.rllib2.modules.logit_distributions import OfLogits, distribution_class
from rookery_rllib.rllib2.modules.rl_modules import Columns
from rookery_rllib.rllib2.modules.script_modules import ModuleModel, ModulePolicy

BY_VALUES = ("DQN",)
"""Algorithms whose modules return actions instead of the inputs of a distribution."""


class LearnedModule:
    """A policy that Rookery trains, as a module.

    Args:
        policy: The policy, as of 2021.
        algorithm: Name of the algorithm.
    """

    framework = "torch"

    def __init__(self, policy: Any, algorithm: str) -> None:
        self._policy, self._algorithm = policy, algorithm
        self.observation_space, self.action_space = policy.raw_observation_space, policy.action_space
        self.model_config = dict(policy.config.get("model") or {})

    def forward_inference(self, batch: Mapping[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Returns the inputs of the action distribution, or the actions of the highest value."""
        return self._forward(batch, False)

    def forward_exploration(self, batch: Mapping[str, Any], **kwargs: Any) -> dict[str, Any]:
        return self._forward(batch, True)

    def forward_train(self, batch: Mapping[str, Any], **kwargs: Any) -> dict[str, Any]:
        return self._forward(batch, False)

    def _forward(self, batch: Mapping[str, Any], explore: bool) -> dict[str, Any]:
        rows = self._rows(batch[Columns.OBS])
        state = batch.get(Columns.STATE_IN)
        states = [state] if isinstance(state, Tensor | np.ndarray) else list((state or {}).values())
        if self._algorithm in BY_VALUES:
            actions, _, extra = self._policy.compute_actions(rows, states, explore=explore)
            return {
                Columns.ACTIONS: torch.from_numpy(np.asarray(actions)),
                Columns.ACTION_LOGP: torch.from_numpy(np.asarray(extra["action_logp"])),
            }
        with torch.no_grad():
            outputs, after = self._policy.model({"obs": torch.from_numpy(rows)}, states)
        found = {Columns.ACTION_DIST_INPUTS: outputs}
        return found | {Columns.STATE_OUT: {"memory": after[0]}} if after else found

    def _rows(self, obs: Any) -> np.ndarray:
        """Preprocesses observations ``[N, ...]`` in the form of their space; those that are preprocessed stay."""
        space = self.observation_space
        given = as_arrays(obs)
        if isinstance(space, spaces.Box) or (not isinstance(given, Mapping) and np.ndim(given) > 1):
            return np.asarray(given, np.float32)
        if isinstance(given, Mapping):
            count = len(next(iter(given.values())))
            each: list[Any] = [{key: part[place] for key, part in given.items()} for place in range(count)]
        else:
            each = list(given)
        return np.stack([np.asarray(spaces.flatten(space, one)) for one in each]).astype(np.float32)

    def compute_values(self, batch: Mapping[str, Any], embeddings: Any = None) -> Tensor:
        """Returns the values ``[N]`` of observations; raises a ConfigError if the algorithm learns none."""
        model = self._policy.model
        with torch.no_grad():
            model({"obs": torch.from_numpy(self._rows(batch[Columns.OBS]))})
            found: Tensor = model.value_function()
        return found

    def get_inference_action_dist_cls(self) -> type[OfLogits]:
        return distribution_class(self.action_space, self._algorithm == "SAC")

    get_exploration_action_dist_cls = get_train_action_dist_cls = get_inference_action_dist_cls

    def get_initial_state(self) -> dict[str, Any]:
        found = self._policy.get_initial_state()
        return {"memory": found[0]} if found else {}

    def is_stateful(self) -> bool:
        return bool(self.get_initial_state())

    def get_state(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        found: dict[str, Any] = self._policy.get_weights()
        return found

    def set_state(self, state: Mapping[str, Any]) -> None:
        self._policy.set_weights(state)

    def parameters(self) -> Any:
        return self._policy.model.parameters()

    def state_dict(self) -> Any:
        return self._policy.model.state_dict()

    def unwrapped(self) -> LearnedModule:
        return self

    def eval(self) -> LearnedModule:
        return self


def module_of(policy: Any, algorithm: str) -> Any:
    """Returns the module of a policy: that of the script, or a view of Rookery's networks; None without a policy."""
    if policy is None:
        return None
    if isinstance(policy, ModulePolicy):
        return policy.rl_module
    if hasattr(policy, "raw_observation_space") and hasattr(policy, "actor"):
        model = policy.model
        return model.rl_module if isinstance(model, ModuleModel) else LearnedModule(policy, algorithm)
    return policy


class ModulesView(dict[str, Any]):
    """The modules of an algorithm by name; other attributes are those of the only one."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or len(self) != 1:
            raise AttributeError(name)
        return getattr(next(iter(self.values())), name)
