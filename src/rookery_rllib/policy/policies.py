"""Policies of 2021: `Policy`, which scripts derive theirs from, and `LearnedPolicy`, the face of one of Rookery's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium import Space
from torch import Tensor, nn

from rookery.face import ActionHead, Algorithm, ConfigError, as_tensor, own_modes
from rookery.face import Policy as Actor
from rookery.face import _draw as draw_noise
from rookery_rllib.batch.sample_batch import SampleBatch
from rookery_rllib.model.catalog import ModelCatalog
from rookery_rllib.model.model_v2 import ScriptNetwork
from rookery_rllib.model.preprocessors import RowPreprocessor, preprocess_rows
from rookery_rllib.policy.explorations import exploration_of
from rookery_rllib.policy.learned_steps import (
    gradient_of,
    learns_by_hand,
    minibatch_of,
    step_along,
    step_on,
    with_advantages,
)
from rookery_rllib.policy.learner_stats import learner_stats


class Session:
    """Computes what it is given, as a TensorFlow session did; here everything is computed already."""

    def run(self, fetches: Any, feed_dict: Any = None) -> Any:
        """Returns tensors as arrays; raises a ConfigError if something is to be fed, because there is no graph."""
        if feed_dict:
            raise ConfigError("session.run: feed_dict needs a graph, and there is none: call the model with the values")
        return as_arrays(fetches)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *raised: object) -> None:
        return None


def as_arrays(found: Any) -> Any:
    """Returns tensors as arrays, in dicts, lists and tuples too."""
    if isinstance(found, Tensor):
        return found.detach().cpu().numpy()
    if isinstance(found, Mapping):
        return {name: as_arrays(part) for name, part in found.items()}
    if isinstance(found, list | tuple):
        return type(found)(as_arrays(part) for part in found)
    return found


class Policy:
    algorithm: ClassVar[str | None] = None
    """Name of the trainer whose algorithm learns it; None = its own code."""

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
        states = [input_dict[name] for name in sorted(input_dict) if str(name).startswith("state_in")]
        return self.compute_actions(
            input_dict["obs"],
            states,
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
        raise NotImplementedError(f"{type(self).__name__} has no compute_log_likelihoods")

    def postprocess_trajectory(self, sample_batch: Any, other_agent_batches: Any = None, episode: Any = None) -> Any:
        return sample_batch

    def learn_on_batch(self, samples: Any) -> dict[str, Any]:
        gradients, told = self.compute_gradients(samples)
        self.apply_gradients(gradients)
        return dict(told)

    def compute_gradients(self, postprocessed_batch: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no compute_gradients")

    def apply_gradients(self, gradients: Any) -> None:
        raise NotImplementedError(f"{type(self).__name__} has no apply_gradients")

    def get_weights(self) -> Any:
        return {}

    def set_weights(self, weights: Any) -> None: ...

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

    def get_exploration_info(self) -> dict[str, Any]:
        return {}

    get_exploration_state = get_exploration_info

    def on_global_var_update(self, global_vars: Mapping[str, Any]) -> None:
        self.global_timestep = global_vars["timestep"]

    def export_model(self, export_dir: str, onnx: int | None = None) -> None:
        raise NotImplementedError(f"{type(self).__name__} has no export_model")

    def export_checkpoint(self, export_dir: str) -> None:
        raise NotImplementedError(f"{type(self).__name__} has no export_checkpoint")

    def get_session(self) -> Session:
        return Session()


class DefaultModel:
    """The model of a policy whose network Rookery built: called as a model of 2021, on preprocessed observations."""

    def __init__(self, policy: Actor, learner: Algorithm[Any] | None, rows: RowPreprocessor) -> None:
        self._policy, self._learner, self._rows = policy, learner, rows
        self._value: Tensor | None = None
        self.obs_space = rows.observation_space
        self.action_space = policy.action_spec.space
        self.num_outputs = policy.action_spec.num_parameters
        self.name = "default_model"
        self.framework = "torch"

    @property
    def module(self) -> nn.Module:
        net = getattr(self._learner, "net", None)
        return net if isinstance(net, nn.Module) else self._policy

    def __call__(self, input_dict: Any, state: Any = None, seq_lens: Any = None) -> tuple[Tensor, list[Tensor]]:
        rows = torch.as_tensor(np.asarray(as_arrays(input_dict["obs"])), dtype=torch.float32, device="cpu")
        obs = self._rows.restore(rows)
        tree = {path: as_tensor(leaf) for path, leaf in obs.items()}
        tree = {path: leaf.long() if not leaf.is_floating_point() else leaf for path, leaf in tree.items()}
        memory = None
        if self._policy.memory_size:
            memory = self._policy.initial_memory(len(rows)) if not state else as_tensor(state[0]).clone()
        features, _, learned = self._policy._advance(tree, memory)
        output: Tensor = self._policy.head.linear(features) if hasattr(self._policy.head, "linear") else features
        log_std = self._policy.head.log_std if isinstance(self._policy.head, ActionHead) else None
        if log_std is not None:
            output = torch.cat((output, log_std.expand(len(output), -1)), 1)
        net = self.module
        if hasattr(net, "value") and not self._policy.memory_size:
            self._value = net.value(self._policy.normalize(tree))[:, 0]  # type: ignore[operator]
        return output, [] if learned is None else [learned]

    def value_function(self) -> Tensor:
        if self._value is None:
            raise ConfigError("model.value_function: call the model first; it needs an algorithm that learns values")
        return self._value

    def get_initial_state(self) -> list[np.ndarray]:
        size = self._policy.memory_size
        return [np.zeros(size, np.float32)] if size else []

    def variables(self, as_dict: bool = False) -> Any:
        found = self.module.state_dict()
        return found if as_dict else list(found.values())

    def trainable_variables(self, as_dict: bool = False) -> Any:
        found = dict(self.module.named_parameters())
        return found if as_dict else list(found.values())

    def parameters(self) -> Any:
        return self.module.parameters()

    def state_dict(self) -> dict[str, Tensor]:
        return self.module.state_dict()

    def __str__(self) -> str:
        return str(self.module)


class LearnedPolicy(Policy):
    """The face of a policy that Rookery plays and learns. Observations are preprocessed ones, as of 2021."""

    def __init__(self, trainer: Any, name: str, config: dict[str, Any]) -> None:
        self._trainer, self._name = trainer, name
        policy: Actor = trainer.policies[name]
        self.raw_observation_space: Space[Any] = policy.obs_spec.space
        self.rows = RowPreprocessor(self.raw_observation_space, config.get("model"))
        super().__init__(self.rows.observation_space, policy.action_spec.space, config)
        self.dist_class, _ = ModelCatalog.get_action_dist(self.action_space, config.get("model"))

    @property
    def exploration(self) -> Any:
        """The script's exploration; None where actions are tried out as settings say."""
        explorer = getattr(self.actor, "explorer", None)
        return None if explorer is None else explorer.exploration

    @property
    def actor(self) -> Actor:
        policy: Actor = self._trainer.policies[self._name]
        return policy

    @property
    def learner(self) -> Algorithm[Any] | None:
        """The algorithm that learns it; None where nothing does."""
        found: Algorithm[Any] | None = self._trainer.learners.get(self._name)
        return found

    @property
    def model(self) -> Any:
        """The model: that of the script, or the face of Rookery's network."""
        network = script_network(self.actor)
        return DefaultModel(self.actor, self.learner, self.rows) if network is None else network.model

    @own_modes()
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
        """Computes actions of N preprocessed observations, as the policy stores them."""
        rows = np.asarray(as_arrays(obs_batch), np.float32)
        tree = self.actor.obs_spec.allocate(len(rows))
        for path, leaf in self.rows.restore(rows).items():
            tree[path][...] = leaf.reshape(tree[path].shape)
        actions, logp, states = self._act(tree, state_batches, self._explores(explore))
        return actions, states, {"action_logp": logp, "action_prob": np.exp(logp)}

    def _explores(self, explore: bool | None) -> bool:
        return bool(self.config.get("explore", True)) if explore is None else explore

    def _act(self, tree: Any, state: Any, explore: bool) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
        """Actions as they are stored, their log-probabilities, and what is remembered then."""
        policy, num = self.actor, len(next(iter(tree.values())))
        noise = torch.from_numpy(draw_noise(policy.noise, num, None)) if explore else None
        memory = None
        if policy.memory_size + (policy.exploration_size if explore else 0):
            memory = torch.zeros(num, policy.memory_size + policy.exploration_size, dtype=torch.float32, device="cpu")
            if state is not None and len(state):
                memory[:, : policy.memory_size] = torch.as_tensor(
                    np.asarray(as_arrays(state[0])), dtype=torch.float32, device="cpu"
                )
        with torch.no_grad():
            given = {path: torch.from_numpy(np.ascontiguousarray(leaf)) for path, leaf in tree.items()}
            action, logp = policy.act(given, noise, not explore, memory)
        after = [memory[:, : policy.memory_size].numpy()] if memory is not None and policy.memory_size else []
        return action.numpy(), logp.numpy(), after

    @own_modes()
    def act_on(self, observations: Sequence[Any], state: Any, explore: bool | None) -> tuple[Any, Any, dict[str, Any]]:
        """Computes actions as the environment takes them, of observations as it gives them.

        Args:
            observations: N of them.
            state: What is remembered, ``[N, ...]`` in a list; empty at the start of an episode.
            explore: Whether to draw actions; None = as the configuration says.
        """
        read = [self.actor.obs_spec.read(obs)[0] for obs in observations]
        tree = {path: np.concatenate([each[path] for each in read]) for path in read[0]}
        actions, logp, states = self._act(tree, state, self._explores(explore))
        extra = {"action_logp": logp, "action_prob": np.exp(logp)}
        return self.actor.action_spec.to_env(actions), states, extra

    def get_initial_state(self) -> list[Any]:
        size = self.actor.memory_size
        return [np.zeros(size, np.float32)] if size else []

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
        """Takes over weights by name; raises a ConfigError that names what differs if they are of another network."""
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
        learner = self.learner
        behaviour = self.actor if learner is None else learner.behaviour
        self._trainer.pool.set_weights({self._name: behaviour})

    def _as_mine(self, weights: Mapping[str, Any], own: Mapping[str, Tensor]) -> dict[str, Any]:
        """Weights with the names of this policy's network. One that learns has an actor and more; others are an actor.

        Statistics of observations are no weights, as they were none in RLlib: they stay.
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

    @own_modes()
    def compute_log_likelihoods(
        self,
        actions: Any,
        obs_batch: Any,
        state_batches: Any = None,
        prev_action_batch: Any = None,
        prev_reward_batch: Any = None,
        actions_normalized: bool = True,
    ) -> Any:
        """Computes log-probabilities ``[N]`` of actions as they are stored."""
        rows = np.asarray(as_arrays(obs_batch), np.float32)
        tree = {path: torch.from_numpy(np.ascontiguousarray(leaf)) for path, leaf in self.rows.restore(rows).items()}
        stored = torch.from_numpy(np.asarray(as_arrays(actions), self.actor.action_spec.dtype))
        with torch.no_grad():
            behavior: Any = self.actor(tree)
            return behavior.log_prob(stored.reshape(len(rows), *self.actor.action_spec.shape)).numpy()

    # --- learning by hand ---------------------------------------------------------------------------------------------

    @own_modes()
    def with_extras(self, batch: SampleBatch) -> SampleBatch:
        """Adds to rows that were played what the model says of them: ``action_dist_inputs``, and ``vf_preds`` where
        the algorithm learns values. A policy that remembers has none: rows do not say what.
        """
        if self.actor.memory_size:
            return batch
        model = self.model
        with torch.no_grad():
            given: Any = {"obs": torch.from_numpy(np.asarray(batch["obs"], np.float32))}
            outputs = model(given)[0]
            batch["action_dist_inputs"] = np.asarray(as_arrays(outputs))
            values = self._values(model)
        if values is not None:
            batch["vf_preds"] = values
        return batch

    def _values(self, model: Any) -> np.ndarray | None:
        """The values of what a model was given last; None where there are none."""
        scale = getattr(self.learner, "value_scale", None)
        if scale is None:
            return None
        values = np.asarray(as_arrays(model.value_function()), np.float32)
        return values.reshape(-1) * np.float32(scale.unit)

    def _value(self, **input_dict: Any) -> float:
        """Returns the value of one row, given its columns."""
        values = self.with_extras(SampleBatch({"obs": np.asarray(input_dict["obs"])})).get("vf_preds")
        return 0.0 if values is None else float(values[0])

    @own_modes()
    def postprocess_trajectory(self, sample_batch: Any, other_agent_batches: Any = None, episode: Any = None) -> Any:
        """Adds advantages and value targets to a piece of an episode, where the algorithm is PPO, A2C or PG."""
        if "action_dist_inputs" not in sample_batch:
            sample_batch = self.with_extras(sample_batch)
        last = 0.0
        if not sample_batch["dones"][-1] and "vf_preds" in sample_batch:
            last = self._value(obs=np.asarray(sample_batch["new_obs"])[-1:])
        return with_advantages(self.learner, self.config, sample_batch, last)

    @own_modes()
    def learn_on_batch(self, samples: Any) -> dict[str, Any]:
        """Makes one gradient step of the policy's algorithm on a postprocessed batch; returns what there is to report.

        Raises:
            ConfigError: If the algorithm learns from replay, the policy remembers, or a column is missing.
        """
        learner = learns_by_hand(self.learner, self._name)
        row = step_on(learner, minibatch_of(learner, self.rows, samples))
        self._trainer.pool.set_weights({self._name: learner.behaviour})
        return {LEARNER_STATS_KEY: learner_stats(row, learner.now(), {})}

    @own_modes()
    def compute_gradients(self, postprocessed_batch: Any) -> Any:
        """Computes the gradient of all weights, one vector in a list, and what there is to report; the weights stay."""
        learner = learns_by_hand(self.learner, self._name)
        gradient, row = gradient_of(learner, minibatch_of(learner, self.rows, postprocessed_batch))
        return [as_arrays(gradient)], {LEARNER_STATS_KEY: learner_stats(row, learner.now(), {})}

    @own_modes()
    def apply_gradients(self, gradients: Any) -> None:
        learner = learns_by_hand(self.learner, self._name)
        step_along(learner, gradients[0])
        self._trainer.pool.set_weights({self._name: learner.behaviour})

    def get_exploration_info(self) -> dict[str, Any]:
        if self.exploration is not None:
            return dict(self.exploration.get_info())
        row = self._trainer.last_learning.get(self._name, {})
        known = {"epsilon": "cur_epsilon", "temperature": "cur_temperature", "std": "cur_scale"}
        return {known[name]: value for name, value in row.items() if name in known}

    def get_exploration_state(self) -> dict[str, Any]:
        """Returns what a checkpoint keeps of the script's exploration; else as `get_exploration_info`."""
        return self.get_exploration_info() if self.exploration is None else dict(self.exploration.get_state())

    def export_model(self, export_dir: str, onnx: int | None = None) -> None:
        """Writes the policy: a directory that ``rookery.load_policy`` reads."""
        self._trainer.save(export_dir)

    def preprocess(self, tree: Mapping[str, Any]) -> Any:
        """Returns stored observations ``[N, ...]`` by leaf path, preprocessed."""
        return preprocess_rows(self.raw_observation_space, tree, self.config.get("model"))

    def sample_batch(self, columns: Mapping[str, Any]) -> SampleBatch:
        return SampleBatch(columns)

    def __str__(self) -> str:
        return f"<{type(self).__name__} {self._name} of {type(self.learner).__name__}>"


ACTOR = "policy."
"""What names of an actor's weights begin with, in a network that has more than the actor."""


def _is_filter(name: str) -> bool:
    """Says whether a name is that of running statistics of observations."""
    return name.removeprefix(ACTOR).startswith("normalizer.")


LEARNER_STATS_KEY = "learner_stats"
"""Key of a learner's numbers in results."""


def script_network(policy: Actor) -> ScriptNetwork | None:
    """Returns the network that a script's model was made into; None if Rookery built the policy's network."""
    for module in policy.modules():
        if isinstance(module, ScriptNetwork):
            return module
    return None
