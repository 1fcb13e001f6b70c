"""Policies of 2021: `Policy`, the base class.

Two subclasses act by a network: `LearnedPolicy` is trained by the algorithm of a trainer, `TorchPolicy` by a loss of
the script.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from rookery.face import ConfigError
from rookery_rllib.base.imports import find
from rookery_rllib.batch.minibatches import LEARNER_STATS_KEY as LEARNER_STATS_KEY
from rookery_rllib.batch.numpy_functions import as_arrays
from rookery_rllib.env.agent_mapping import PolicySpec as PolicySpec
from rookery_rllib.policy.explorations import exploration_of


class Session:
    """Placeholder of a TensorFlow session; everything is computed eagerly."""

    def run(self, fetches: Any, feed_dict: Any = None) -> Any:
        """Returns tensors as arrays; raises a ConfigError for `feed_dict`, because there is no graph."""
        if feed_dict:
            raise ConfigError("session.run: feed_dict needs a graph, and there is none: call the model with the values")
        return as_arrays(fetches)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *raised: object) -> None:
        return None


class Policy:
    algorithm: ClassVar[str | None] = None
    """Name of the trainer whose algorithm trains it; None = its own code."""
    exploration: Any = None
    """Its exploration object; None = it has none."""
    handing_out: Callable[[], None] | None = None
    """Called after weights have changed, to broadcast them to sampling processes."""

    def __init__(self, observation_space: Any, action_space: Any, config: dict[str, Any]) -> None:
        self.observation_space = observation_space
        self.action_space = action_space
        self.action_space_struct = action_space
        self.config = config
        self.framework = config.get("framework", "torch")
        self.global_timestep = 0
        self.dist_class: Any = None
        self.view_requirements: dict[str, Any] = {}
        self.callbacks: Any = None

    def _create_exploration(self) -> Any:
        return exploration_of(self, getattr(self, "model", None))

    def compute_actions(
        self,
        obs_batch: Any,
        state_batches: Any = None,
        prev_action_batch: Any = None,
        prev_reward_batch: Any = None,
        info_batch: Any = None,
        episodes: Any = None,
        explore: bool | None = None,
        timestep: int | None = None,
        **kwargs: Any,
    ) -> Any:
        """Computes actions ``[N, ...]``, the states after them in a list, and further columns by name."""
        return self._act(_columns(obs_batch, prev_action_batch, prev_reward_batch), state_batches, explore, timestep)

    def _act(self, columns: Mapping[str, Any], states: Any, explore: bool | None, timestep: int | None) -> Any:
        """Acts for `compute_actions`, given the columns of a model's input; policies implement one of the two."""
        raise NotImplementedError(f"{type(self).__name__} has no compute_actions")

    def compute_single_action(
        self,
        obs: Any,
        state: Any = None,
        prev_action: Any = None,
        prev_reward: Any = None,
        info: Any = None,
        episode: Any = None,
        clip_actions: bool | None = None,
        explore: bool | None = None,
        timestep: int | None = None,
        unsquash_actions: bool | None = None,
        **kwargs: Any,
    ) -> Any:
        def one(value: Any) -> Any:
            return None if value is None else [value]

        actions, states, extra = self.compute_actions(
            np.asarray(obs)[None],
            [np.asarray(part)[None] for part in state or []],
            one(prev_action),
            one(prev_reward),
            one(info),
            one(episode),
            explore=explore,
            timestep=timestep,
        )
        first = {name: value[0] for name, value in (extra or {}).items()}
        return actions[0], [part[0] for part in states or []], first

    def compute_actions_from_input_dict(
        self, input_dict: Any, explore: bool | None = None, timestep: int | None = None, episodes: Any = None, **kw: Any
    ) -> Any:
        return self.compute_actions(
            input_dict["obs"],
            states_in(input_dict),
            prev_action_batch=input_dict.get("prev_actions"),
            prev_reward_batch=input_dict.get("prev_rewards"),
            info_batch=input_dict.get("infos"),
            episodes=episodes,
            explore=explore,
            timestep=timestep,
        )

    def compute_log_likelihoods(
        self,
        actions: Any,
        obs_batch: Any,
        state_batches: Any = None,
        prev_action_batch: Any = None,
        prev_reward_batch: Any = None,
        actions_normalized: bool = True,
    ) -> Any:
        """Computes log-probabilities ``[N]`` of actions in stored form."""
        return self._log_likelihoods(actions, _columns(obs_batch, prev_action_batch, prev_reward_batch), state_batches)

    def _log_likelihoods(self, actions: Any, columns: Mapping[str, Any], states: Any) -> Any:
        """Computes log-probabilities for `compute_log_likelihoods`; policies implement one of the two."""
        raise NotImplementedError(f"{type(self).__name__} has no compute_log_likelihoods")

    def postprocess_trajectory(self, sample_batch: Any, other_agent_batches: Any = None, episode: Any = None) -> Any:
        return sample_batch

    def learn_on_batch(self, samples: Any) -> dict[str, Any]:
        gradients, info = self.compute_gradients(samples)
        self.apply_gradients(gradients)
        return dict(info)

    def compute_gradients(self, postprocessed_batch: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no compute_gradients")

    def apply_gradients(self, gradients: Any) -> None:
        raise NotImplementedError(f"{type(self).__name__} has no apply_gradients")

    def get_weights(self) -> Any:
        return {}

    def set_weights(self, weights: Any) -> None: ...

    def _hand_out(self) -> None:
        if self.handing_out is not None:
            self.handing_out()

    def _explores(self, explore: bool | None) -> bool:
        return bool(self.config.get("explore", True)) if explore is None else explore

    def get_initial_state(self) -> list[Any]:
        return []

    def is_recurrent(self) -> bool:
        return bool(self.get_initial_state())

    def num_state_tensors(self) -> int:
        return len(self.get_initial_state())

    def get_state(self) -> Any:
        return {"weights": self.get_weights(), "global_timestep": self.global_timestep}

    def set_state(self, state: Any) -> None:
        self.set_weights(state["weights"])
        self.global_timestep = state.get("global_timestep", 0)

    @staticmethod
    def from_checkpoint(checkpoint: Any, policy_ids: Any = None) -> Any:
        """Returns the policies of a checkpoint of RLlib 2.x by name; of ``.../policies/NAME`` the only one."""
        part = str(getattr(checkpoint, "path", checkpoint)).rstrip("/").rpartition("/")[2]
        policies = find("ray.rllib.algorithms.algorithm.Algorithm").from_checkpoint(checkpoint).policy_facades
        return policies[part] if part in policies else dict(policies)

    def get_exploration_info(self) -> dict[str, Any]:
        return {} if self.exploration is None else dict(self.exploration.get_info())

    def get_exploration_state(self) -> dict[str, Any]:
        """Returns the state of the exploration for a checkpoint."""
        return self.get_exploration_info() if self.exploration is None else dict(self.exploration.get_state())

    def on_global_var_update(self, global_vars: Mapping[str, Any]) -> None:
        self.global_timestep = global_vars["timestep"]

    def export_model(self, export_dir: str, onnx: int | None = None) -> None:
        raise NotImplementedError(f"{type(self).__name__} has no export_model")

    def export_checkpoint(self, export_dir: str) -> None:
        raise NotImplementedError(f"{type(self).__name__} has no export_checkpoint")

    def get_session(self) -> Session:
        return Session()


def _columns(obs: Any, prev_actions: Any, prev_rewards: Any) -> dict[str, Any]:
    """Returns the present columns of a model's input."""
    given = {"obs": obs, "prev_actions": prev_actions, "prev_rewards": prev_rewards}
    return {name: column for name, column in given.items() if column is not None}


def states_in(input_dict: Mapping[str, Any]) -> list[Any]:
    """Returns the columns of a model's input that hold its state, in order."""
    return [input_dict[name] for name in sorted(input_dict) if str(name).startswith("state_in")]
