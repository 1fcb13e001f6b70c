"""RLlib's interface of a policy that Rookery trains.

Scripts with their own loops use it for advantages and gradient steps (`batch_steps.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium import Space
from torch import Tensor, nn

from rookery.face import Algorithm, ConfigError, own_modes
from rookery.face import Policy as Actor
from rookery.face import _draw as draw_noise
from rookery_rllib.batch.numpy_functions import as_arrays
from rookery_rllib.batch.sample_batch import SampleBatch
from rookery_rllib.model.catalog import ModelCatalog
from rookery_rllib.model.default_model import DefaultModel, TargetModel, initial_state, joined_state, split_state
from rookery_rllib.model.model_v2 import script_network
from rookery_rllib.model.preprocessors import RowPreprocessor, preprocess_rows
from rookery_rllib.policy.batch_steps import BatchSteps, steps_of, stored_rows, with_advantages, with_windows
from rookery_rllib.policy.policies import LEARNER_STATS_KEY, Policy

ACTOR = "policy."
"""Prefix of an actor's weights in a network with further parts."""

EXPLORATION_KEYS = {"epsilon": "cur_epsilon", "temperature": "cur_temperature", "std": "cur_scale"}
"""Names of 2021 by number of Rookery's own exploration."""


class LearnedPolicy(Policy):
    """RLlib's interface of a policy that Rookery trains. Observations are preprocessed, as in 2021."""

    parts: ClassVar[Mapping[str, Any]] = {}
    """Functions of a script that it learns by (`q_losses.py`)."""

    script_stats: Mapping[str, Any] = {}
    """Latest statistics of such a function."""

    def __init__(self, trainer: Any, name: str, config: dict[str, Any]) -> None:
        self._trainer, self._name = trainer, name
        self.handing_out = partial(hand_out, trainer, name)
        policy: Actor = trainer.policies[name]
        self.raw_observation_space: Space[Any] = policy.obs_spec.space
        self.rows = RowPreprocessor(self.raw_observation_space, config.get("model"))
        super().__init__(self.rows.observation_space, policy.action_spec.space, config)
        self.dist_class, _ = ModelCatalog.get_action_dist(self.action_space, config.get("model"))

    @property
    def exploration(self) -> Any:
        """The script's exploration; None if settings define the exploration."""
        explorer = getattr(self.actor, "explorer", None)
        return None if explorer is None else explorer.exploration

    @property
    def actor(self) -> Actor:
        policy: Actor = self._trainer.policies[self._name]
        return policy

    @property
    def learner(self) -> Algorithm[Any] | None:
        """The algorithm that trains it; None if there is none."""
        found: Algorithm[Any] | None = self._trainer.learners.get(self._name)
        return found

    @property
    def model(self) -> Any:
        """The model: that of the script, or the interface of Rookery's network."""
        network = script_network(self.actor)
        return DefaultModel(self.actor, self.learner, self.rows) if network is None else network.model

    @property
    def target_q_model(self) -> TargetModel:
        """The interface of DQN's target network; raises an AttributeError for other algorithms."""
        if not hasattr(self.learner, "target_net"):
            raise AttributeError(f"{self}: target_q_model: there is no target network of action values")
        return TargetModel(self.actor, self.learner, self.rows)

    def __str__(self) -> str:
        return f"<{type(self).__name__} {self._name} of {type(self.learner).__name__}>"

    # --- acting -------------------------------------------------------------------------------------------------------

    @own_modes()
    def _act(self, columns: Mapping[str, Any], states: Any, explore: bool | None, timestep: int | None) -> Any:
        """Computes actions of N preprocessed observations, in stored form."""
        return self._chosen(stored_rows(self.actor.obs_spec, self.rows, as_arrays(columns["obs"])), states, explore)

    @own_modes()
    def act_on(self, observations: Sequence[Any], state: Any, explore: bool | None) -> tuple[Any, Any, dict[str, Any]]:
        """Computes actions for the environment from its observations.

        Args:
            observations: N of them.
            state: The memory, ``[N, ...]`` in a list; empty at the start of an episode.
            explore: Whether to sample actions; None = as configured.
        """
        read = [self.actor.obs_spec.read(obs)[0] for obs in observations]
        tree = {path: np.concatenate([each[path] for each in read]) for path in read[0]}
        actions, states, extra = self._chosen(tree, state, explore)
        return self.actor.action_spec.to_env(actions), states, extra

    def _chosen(self, tree: Any, state: Any, explore: bool | None) -> tuple[Any, list[Any], dict[str, Any]]:
        """Returns actions in stored form, the memory after them, and log-probabilities."""
        explore = self._explores(explore)
        policy, num = self.actor, len(next(iter(tree.values())))
        noise = torch.from_numpy(draw_noise(policy.noise, num, None)) if explore else None
        memory = None
        if policy.memory_size + (policy.exploration_size if explore else 0):
            memory = torch.zeros(num, policy.memory_size + policy.exploration_size, dtype=torch.float32, device="cpu")
            if state is not None and len(state):
                memory[:, : policy.memory_size] = torch.from_numpy(joined_state(policy, state, num))
        with torch.no_grad():
            given = {path: torch.from_numpy(np.ascontiguousarray(leaf)) for path, leaf in tree.items()}
            action, logp = policy.act(given, noise, not explore, memory)
        after = []
        if memory is not None and policy.memory_size:
            after = [part.numpy() for part in split_state(policy, memory[:, : policy.memory_size])]
        return action.numpy(), after, {"action_logp": logp.numpy(), "action_prob": np.exp(logp.numpy())}

    @own_modes()
    def _log_likelihoods(self, actions: Any, columns: Mapping[str, Any], states: Any) -> Any:
        tree = stored_rows(self.actor.obs_spec, self.rows, as_arrays(columns["obs"]))
        spec = self.actor.action_spec
        stored = torch.from_numpy(np.asarray(as_arrays(actions), spec.dtype)).reshape(-1, *spec.shape)
        with torch.no_grad():
            behavior: Any = self.actor({path: torch.from_numpy(leaf) for path, leaf in tree.items()})
            return behavior.log_prob(stored).numpy()

    def get_initial_state(self) -> list[Any]:
        return initial_state(self.actor)

    def preprocess(self, tree: Mapping[str, Any]) -> Any:
        """Returns stored observations ``[N, ...]`` by leaf path, preprocessed."""
        return preprocess_rows(self.raw_observation_space, tree, self.config.get("model"))

    def get_exploration_info(self) -> dict[str, Any]:
        if self.exploration is not None:
            return super().get_exploration_info()
        row = self._trainer._last_learning.get(self._name, {})
        return {EXPLORATION_KEYS[name]: value for name, value in row.items() if name in EXPLORATION_KEYS}

    # --- weights ------------------------------------------------------------------------------------------------------

    def _module(self) -> nn.Module:
        network = script_network(self.actor)
        if network is not None:
            return network.model if isinstance(network.model, nn.Module) else network
        return DefaultModel(self.actor, self.learner, self.rows).module

    def get_weights(self) -> dict[str, np.ndarray]:
        found = self._module().state_dict()
        return {name: value.detach().cpu().numpy().copy() for name, value in found.items() if not _is_filter(name)}

    @own_modes()
    def set_weights(self, weights: Mapping[str, Any]) -> None:
        """Sets weights by name; raises a ConfigError with the differences for weights of another network."""
        own = self._module().state_dict()
        weights = self._as_mine(weights, own)
        differing = sorted(set(own) ^ set(weights))
        if differing:
            raise ConfigError(f"set_weights: policy {self._name!r}: weights of another network: {', '.join(differing)}")
        with torch.no_grad():
            for name, value in own.items():
                given = torch.from_numpy(np.asarray(as_arrays(weights[name])))
                if given.shape != value.shape:
                    raise ConfigError(
                        f"set_weights: policy {self._name!r}: {name} has shape {tuple(given.shape)}, not "
                        f"{tuple(value.shape)}"
                    )
                value.copy_(given)
        self._hand_out()

    def _as_mine(self, weights: Mapping[str, Any], own: Mapping[str, Tensor]) -> dict[str, Any]:
        """Maps weights to the names of this policy's network, with or without the actor's prefix.

        Observation statistics are not weights, as in RLlib: they stay.
        """
        given = {name: value for name, value in weights.items() if not _is_filter(name)}
        kept = {name: value for name, value in own.items() if _is_filter(name)}
        if self.learner is None and not set(own) & set(given):
            actor = {name.removeprefix(ACTOR): value for name, value in given.items() if name.startswith(ACTOR)}
            return {**kept, **(actor or given)}
        if self.learner is not None and given and not set(own) & set(given):
            rest = {name: value for name, value in own.items() if not name.startswith(ACTOR)}
            return {**kept, **rest, **{f"{ACTOR}{name}": value for name, value in given.items()}}
        return {**kept, **given}

    def export_model(self, export_dir: str, onnx: int | None = None) -> None:
        """Writes the policy: a directory that ``rookery.load_policy`` reads."""
        self._trainer.save(export_dir)

    # --- learning in a script's loop ----------------------------------------------------------------------------------

    @own_modes()
    def with_extras(self, batch: SampleBatch) -> SampleBatch:
        """Adds the outputs of the model to rows: ``action_dist_inputs``, and ``vf_preds`` if the algorithm learns
        values. A policy with a memory adds none, because rows do not hold its state, and one with replay needs none.
        """
        if self.actor.memory_size or (self.learner is not None and self.learner.replay is not None):
            return batch
        model, scale = self.model, getattr(self.learner, "value_scale", None)
        with torch.no_grad():
            given: Any = {"obs": torch.from_numpy(np.asarray(batch["obs"], np.float32))}
            outputs = model(given)[0]
            batch["action_dist_inputs"] = np.asarray(as_arrays(outputs))
            if scale is not None:
                values = np.asarray(as_arrays(model.value_function()), np.float32)
                batch["vf_preds"] = values.reshape(-1) * np.float32(scale.unit)
        return batch

    def _value(self, **input_dict: Any) -> float:
        """Returns the value of one row, given its columns."""
        values = self.with_extras(SampleBatch({"obs": np.asarray(input_dict["obs"])})).get("vf_preds")
        return 0.0 if values is None else float(values[0])

    @own_modes()
    def postprocess_trajectory(self, sample_batch: Any, other_agent_batches: Any = None, episode: Any = None) -> Any:
        """Adds advantages and value targets to a piece of an episode, for PPO, A2C and PG; for algorithms with replay
        its rows become windows of ``n_step`` decisions, with ``weights`` of 1.
        """
        learner = self.learner
        if learner is not None and learner.replay is not None:
            batch = with_windows(learner, sample_batch)
            batch.setdefault("weights", np.ones(len(batch["rewards"]), np.float32))
            return batch
        if "action_dist_inputs" not in sample_batch:
            sample_batch = self.with_extras(sample_batch)
        last = 0.0
        if not sample_batch["dones"][-1] and "vf_preds" in sample_batch:
            last = self._value(obs=np.asarray(sample_batch["new_obs"])[-1:])
        return with_advantages(learner, self.config, sample_batch, last)

    def _steps(self) -> BatchSteps:
        """Returns the steps on batches of the policy's algorithm, at the present values of its schedules."""
        if self.learner is not None:
            self.learner.env_steps, self.learner.horizon = self._trainer.env_steps, self._trainer._horizon
        return steps_of(self.learner, self._name, self.rows)

    @own_modes()
    def learn_on_batch(self, samples: Any) -> dict[str, Any]:
        """Makes one gradient step of the policy's algorithm on a postprocessed batch; returns its statistics, and with
        replay the sizes of the rows' errors, ``td_error`` ``[N]``. Target networks change in `update_target` alone.

        Raises:
            ConfigError: If the policy does not learn from rows, is recurrent, or a column is missing.
        """
        told = self._steps().learn(samples)
        told[LEARNER_STATS_KEY] |= self.script_stats
        self._hand_out()
        return told

    @own_modes()
    def compute_gradients(self, postprocessed_batch: Any) -> Any:
        """Computes the gradient of all weights, one vector for each optimizer in a list, and statistics; the weights
        are unchanged.
        """
        return self._steps().compute(postprocessed_batch)

    @own_modes()
    def apply_gradients(self, gradients: Any) -> None:
        """Applies gradients of `compute_gradients`, clipped by the settings."""
        self._steps().apply(gradients)
        self._hand_out()

    @own_modes()
    def update_target(self) -> None:
        """Copies the weights to the target network of DQN, or moves those of SAC, DDPG and TD3 by ``tau``."""
        if self.learner is not None:
            self.learner.track_targets(self.learner.now())

    def sample_batch(self, columns: Mapping[str, Any]) -> SampleBatch:
        return SampleBatch(columns)


def hand_out(trainer: Any, name: str) -> None:
    """Broadcasts the current weights of a policy to the sampling processes of a trainer."""
    learner = trainer.learners.get(name)
    trainer._pool.set_weights({name: trainer.policies[name] if learner is None else learner.behaviour})


def _is_filter(name: str) -> bool:
    """Whether a name is that of running statistics of observations."""
    return name.removeprefix(ACTOR).startswith("normalizer.")
