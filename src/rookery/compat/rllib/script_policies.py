"""Policies that scripts write by hand, as policies of ours: they act by their own code, and learn by it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms.algorithm import Algorithm, AlgorithmConfig, Row
from rookery.compat.rllib.batches import columns_of, pieces_of
from rookery.compat.rllib.chance import Chance
from rookery.compat.rllib.policies import Policy, as_arrays
from rookery.compat.rllib.preprocessors import RowPreprocessor
from rookery.compat.rllib.sample_batch import SampleBatch
from rookery.core.batch import Demand, Rollout, TensorTree
from rookery.core.seeding import Streams
from rookery.core.settings import PositiveInt, Structural
from rookery.core.spaces import ActionSpec, ObsSpec
from rookery.models.build import ModelConfig
from rookery.policies.policy import Policy as Actor


@dataclass(frozen=True)
class ScriptPolicyConfig(AlgorithmConfig):
    """Settings of a policy that a script has written by hand."""

    algorithm: ClassVar[str] = "rookery.compat.rllib.script_policies:ScriptLearning"

    policy_class: Any = None
    """The script's class."""
    config: dict[str, Any] = field(default_factory=dict)
    """What its objects are made with."""
    fragment_length: Structural[PositiveInt] = 200
    """Decisions in a row of one slot."""
    lr: float = 0.0
    """Has no meaning: the policy learns as it likes."""
    model: ModelConfig = field(default_factory=lambda: ModelConfig(hidden=()))
    """Has no meaning: the policy has a model of its own, or none."""

    def build_policy(self, obs: ObsSpec, action: ActionSpec, name: str, generator: torch.Generator) -> Actor:
        """Builds the script's policy, and the actor that plays by it."""
        return ScriptActor(obs, action, self, name, generator)


class ScriptActor(Actor):
    """Acts by a policy of a script.

    Args:
        obs: Layout of the observations.
        action: Layout of the actions.
        cfg: The settings.
        name: The policy's name.
        generator: Decides where the global generators of random numbers begin for this policy.

    Attributes:
        script_policy: The script's object; copies share it.
    """

    def __init__(
        self, obs: ObsSpec, action: ActionSpec, cfg: ScriptPolicyConfig, name: str, generator: torch.Generator
    ) -> None:
        super().__init__(obs, action, cfg.model, name, generator=generator)
        self.rows = RowPreprocessor(obs.space, cfg.config.get("model"))
        self.chance = Chance(int(torch.randint(2**31, (), generator=generator)))
        with self.chance:
            self.script_policy: Policy = cfg.policy_class(self.rows.observation_space, action.space, cfg.config)
            self.script_policy.raw_observation_space = obs.space
            self.script_policy.preprocess = self.rows.rows
            self._shapes = [np.shape(part) for part in self.script_policy.get_initial_state()]
        self._widths = [int(np.prod(shape)) for shape in self._shapes]
        self.memory_size = sum(self._widths) + (1 if self._widths else 0)

    def __deepcopy__(self, memo: dict[int, Any]) -> ScriptActor:
        """Returns itself: the script's object is one, and whoever plays asks it."""
        return self

    def act(
        self, obs: TensorTree, noise: Tensor | None, deterministic: bool = False, memory: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Asks the script's policy; log-probabilities that it does not tell are 0."""
        rows = as_arrays(self.rows.rows(obs))
        with self.chance:
            states = [] if memory is None else self._states(memory)
            given = self.script_policy.compute_actions(
                rows, states, prev_action_batch=None, prev_reward_batch=None, info_batch=None, episodes=None,
                explore=not deterministic, timestep=None,
            )  # fmt: skip
        actions, after, extra = (*given, [], {})[:3] if isinstance(given, tuple) else (given, [], {})
        stored = stored_actions(actions, len(rows), self.action_spec)
        logp = np.asarray(as_arrays((extra or {}).get("action_logp", np.zeros(len(rows)))), np.float32)
        if memory is not None and after:
            memory[:, 0] = 1.0
            memory[:, 1:] = torch.cat([torch.as_tensor(_matrix(part, len(rows))) for part in after], 1)
        return torch.from_numpy(stored), torch.from_numpy(logp)

    def _states(self, memory: Tensor) -> list[np.ndarray]:
        """What is remembered, as the script has it; where an episode starts, what the script says it starts with."""
        flat = memory[:, 1:].numpy().copy()
        for row in np.flatnonzero(memory[:, 0].numpy() == 0.0):
            initial = self.script_policy.get_initial_state()
            flat[row] = np.concatenate([_matrix(part, 1)[0] for part in initial])
        parts = np.split(flat, np.cumsum(self._widths)[:-1], axis=1)
        return [part.reshape(len(part), *shape) for part, shape in zip(parts, self._shapes, strict=True)]


def _matrix(part: Any, num: int) -> np.ndarray:
    return np.asarray(as_arrays(part), np.float32).reshape(num, -1)


def stored_actions(actions: Any, num: int, spec: ActionSpec) -> np.ndarray:
    """Returns actions as the environment takes them, ``[N, ...]``, as Rookery stores them.

    Args:
        actions: Array, or a list of one action for each row; of a Dict or Tuple space a dict or tuple of arrays.
        num: N.
        spec: Layout of the actions.
    """
    if spec.kind == "composite":
        stored = np.zeros((num, *spec.shape), spec.dtype)
        parts = list(actions.values()) if isinstance(actions, dict) else list(actions)
        for part, (inner, columns) in zip(parts, spec.parts, strict=True):
            stored[:, columns] = stored_actions(part, num, inner).reshape(num, -1)
        return stored
    array = np.asarray(as_arrays(actions))
    if spec.kind == "discrete":
        return (array.reshape(num) - int(getattr(spec.space, "start", 0))).astype(spec.dtype)
    return array.reshape(num, *spec.shape).astype(spec.dtype)


class ScriptLearning(Algorithm[ScriptPolicyConfig]):
    """Gives a script's policy what it has played, and lets it learn."""

    saved = ("script_state",)

    def __init__(self, policy: Actor, cfg: ScriptPolicyConfig, streams: Streams, name: str) -> None:
        super().__init__(policy, cfg, streams, name)
        assert isinstance(policy, ScriptActor)
        self.script_policy = policy.script_policy

    fixed = ("script_policy",)

    @property
    def script_state(self) -> dict[str, Any]:
        """What the script's policy has learned: its weights as arrays."""
        weights = as_arrays(self.script_policy.get_weights())
        return {"weights": weights if isinstance(weights, dict) else {"": weights}}

    @script_state.setter
    def script_state(self, state: dict[str, Any]) -> None:
        """Gives the script's policy the weights it had."""
        weights = state["weights"]
        self.script_policy.set_weights(weights[""] if set(weights) == {""} else weights)

    @property
    def demand(self) -> Demand:
        """Fragments of `fragment_length`."""
        return Demand(self.cfg.fragment_length, None)

    def training_step(self, rollout: Rollout) -> Row:
        """Postprocesses the pieces of episodes, and lets the policy learn from all of them."""
        batches = []
        for piece in pieces_of(rollout):
            batch = columns_of(rollout, piece.rows, self.script_policy)
            batches.append(self.script_policy.postprocess_trajectory(batch, {}, None))
        self.updates += 1
        told = self.script_policy.learn_on_batch(SampleBatch.concat_samples(batches)) or {}
        stats = told.get("learner_stats", told)
        return {name: float(value) for name, value in stats.items() if np.ndim(value) == 0 and value is not None}
