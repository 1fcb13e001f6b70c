"""Policies with a loss of the script (`torch_policy.py`) in a trainer: actors, and the learning loop.

The loss is the script's; the step is `core/optim.py:gradient_step`, in `TorchPolicy.learn_on_batch`. It is called
once per batch, or in epochs of minibatches if the configuration has ``num_sgd_iter``.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from torch import Tensor

from rookery.face import ActionSpec, ConfigError, GivenHead, ModelConfig, ObsSpec, Role, Streams, TensorTree
from rookery.face import Policy as Actor
from rookery_rllib.batch.minibatches import averaged, standardized
from rookery_rllib.batch.numpy_functions import as_arrays
from rookery_rllib.batch.sample_batch import SampleBatch
from rookery_rllib.batch.sequences import pad_batch_to_sequences_of_same_size
from rookery_rllib.batch.trajectories import Reading
from rookery_rllib.model.action_distributions import TorchCategorical, TorchDiagGaussian, TorchMultiCategorical
from rookery_rllib.model.model_v2 import ScriptNetwork
from rookery_rllib.policy.explorations import draws_only
from rookery_rllib.policy.policies import LEARNER_STATS_KEY
from rookery_rllib.policy.script_policies import (
    ScriptActor,
    ScriptLearning,
    ScriptPolicyConfig,
    States,
    made_policy,
    reading_of,
)
from rookery_rllib.policy.torch_policy import TorchPolicy, overrides

ADAPTED = ("kl_coeff", "kl_target", "cur_lr", "entropy_coeff")
"""Attributes of a policy that change during learning; checkpoints hold those that exist."""


@dataclass(frozen=True)
class ScriptLossConfig(ScriptPolicyConfig):
    """Settings of a policy with a loss of the script."""

    algorithm: ClassVar[str] = "rookery_rllib.policy.loss_policies:ScriptLoss"

    def build_policy(self, obs: ObsSpec, action: ActionSpec, name: str, generator: torch.Generator) -> Actor:
        if "buffer_size" in self.config or "replay_buffer_config" in self.config:
            raise ConfigError(
                f"policy {name!r}: {self.policy_class.__name__} has its own loss, which learns from the latest "
                "rollout, and this trainer learns from replay: train it by PGTrainer, A2CTrainer or PPOTrainer "
                "(build_trainer without a base does), or write a rookery.extend.Algorithm with replay "
                "(docs/how-to/own-algorithm.md)"
            )
        policy, random_state = made_policy(self, obs, action, generator)
        assert isinstance(policy, TorchPolicy)
        drawn = draws(policy)
        if drawn and acts_by_its_model(policy):
            return LossActor(obs, action, self, name, generator, policy)
        return TorchActor(obs, action, self, name, generator, policy, random_state, as_drawn=drawn)


def draws(policy: TorchPolicy) -> bool:
    """Whether the actions of a policy are plain samples of an ordinary distribution."""
    own = overrides(policy, "compute_actions", "compute_actions_from_input_dict", "_compute_action_helper")
    return not own and policy.action_sampler_fn is None and _is_ordinary(policy)


def acts_by_its_model(policy: TorchPolicy) -> bool:
    """Whether a policy that samples its actions needs only its model for that, which can be copied."""
    if policy.action_distribution_fn is not None or policy.pristine is None:
        return False
    views: dict[str, Any] = {
        name: view for name, view in policy.model.view_requirements.items() if view.used_for_compute_actions
    }
    plain = all(name == "obs" or name.startswith("state_in_") for name in views)
    plain = plain and ("obs" not in views or views["obs"].shifts() == ([0], False))
    return plain and draws_only(policy.exploration)


def _is_ordinary(policy: TorchPolicy) -> bool:
    """Whether the class of the action distribution corresponds to one of Rookery's, with the same parameters."""
    space, kind = policy.action_space, policy.dist_class
    kind = getattr(kind, "func", kind)
    if isinstance(space, Discrete):
        return kind is TorchCategorical and int(space.start) == 0
    if isinstance(space, MultiDiscrete):
        return kind is TorchMultiCategorical and not np.any(space.start)
    floats = isinstance(space, Box) and np.issubdtype(space.dtype, np.floating) and len(space.shape) == 1
    return floats and kind is TorchDiagGaussian


class TorchActor(ScriptActor):
    """Acts by the methods of a policy with its own loss, which draw from torch's global generator.

    Arguments are those of `ScriptActor`.
    """

    _draws: Tensor | None = None
    """State of the global generator for this policy."""

    def act(
        self, obs: TensorTree, noise: Tensor | None = None, deterministic: bool = False, memory: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        with torch.random.fork_rng(devices=[]):
            if self._draws is None:
                with self.random_state:
                    torch.default_generator.manual_seed(int(np.random.randint(2**31)))
            else:
                torch.set_rng_state(self._draws)
            try:
                return super().act(obs, noise, deterministic, memory)
            finally:
                self._draws = torch.get_rng_state()


class Models:
    """Makes the models of the copies of a network: first the policy's own, then copies of its initial one."""

    def __init__(self, policy: TorchPolicy) -> None:
        self._policy = policy
        self._is_first = True

    def __deepcopy__(self, memo: dict[int, Any]) -> Models:
        """Returns itself."""
        return self

    def __call__(self, obs_space: Any, action_space: Any, num_outputs: int) -> Any:
        if self._is_first:
            self._is_first = False
            return self._policy.model
        return copy.deepcopy(self._policy.pristine)


class LossNetwork(ScriptNetwork):
    """The model of a policy with its own loss; values are computed for the loss alone, not for acting.

    Arguments are those of `ScriptNetwork`.
    """

    @staticmethod
    def _placed(model: Any) -> Any:
        """Returns the model unchanged: its policy handles its layers."""
        return model

    def call_model(self, rows: Tensor, state: Sequence[Tensor]) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Computes outputs ``[N, num_outputs]``, zeros ``[N]`` and the state after; arguments as of `ScriptNetwork`."""
        lengths = torch.ones(len(rows), dtype=torch.int32, device="cpu")
        outputs, after = self.model({"obs": rows, "is_training": False}, list(state), lengths)
        return outputs, torch.zeros(len(rows), dtype=torch.float32, device="cpu"), after

    def __deepcopy__(self, memo: dict[int, Any]) -> ScriptNetwork:
        """Returns a copy that only acts."""
        made = super().__deepcopy__(memo)
        made.eval()
        return made


class LossActor(Actor):
    """Acts by the model of a policy with its own loss.

    Copies have a model of their own, and share the rest of `script_policy`.
    """

    def __init__(
        self,
        obs: ObsSpec,
        action: ActionSpec,
        cfg: ScriptPolicyConfig,
        name: str,
        generator: torch.Generator,
        script_policy: TorchPolicy,
    ) -> None:
        given = {"make": Models(script_policy), "options": cfg.config.get("model") or {}}
        model = ModelConfig(hidden=(), module=LossNetwork, output="action_params", module_config=given)
        super().__init__(obs, action, model, name, generator=generator, head=GivenHead())
        self.script_policy = script_policy
        self._states = States(script_policy.get_initial_state())

    def __deepcopy__(self, memo: dict[int, Any]) -> LossActor:
        """Returns a copy with its own model."""
        memo[id(self.script_policy)] = self.script_policy
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        made.__setstate__(copy.deepcopy(self.__getstate__(), memo))  # type: ignore[no-untyped-call]
        return made

    def memory_every(self, fragment_length: int) -> int:
        """Interval at which memory is stored in a fragment: every decision."""
        return 1

    def reading(self) -> Reading:
        return reading_of(self.script_policy, self.stored, self._states)

    def stored(self, actions: Any) -> np.ndarray:
        """Returns actions of the script's policy in stored form: unchanged."""
        return np.asarray(as_arrays(actions))


class ScriptLoss(ScriptLearning):
    """Trains a policy by its own loss."""

    saved: ClassVar[tuple[str, ...]] = ("rng",)

    def __init__(self, policy: Actor, cfg: ScriptPolicyConfig, streams: Streams, name: str) -> None:
        super().__init__(policy, cfg, streams, name)
        self.rng = streams.generator(Role.LEARNER, name)

    @property
    def torch_policy(self) -> TorchPolicy:
        """The script's policy."""
        policy = self.script_policy
        assert isinstance(policy, TorchPolicy)
        return policy

    @property
    def script_state(self) -> dict[str, Any]:
        """State of the policy: weights, optimizer moments, adaptive coefficients."""
        policy = self.torch_policy
        numbers = {name: getattr(policy, name) for name in ADAPTED if hasattr(policy, name)}
        return {"state": as_arrays(policy.get_state()), "numbers": numbers}

    @script_state.setter
    def script_state(self, state: dict[str, Any]) -> None:
        """Restores the state of the policy."""
        policy = self.torch_policy
        policy.set_state(state["state"])
        for name, value in state["numbers"].items():
            setattr(policy, name, value)

    def learned(self, batch: SampleBatch) -> Any:
        """Makes one step on all trajectories, or learns in epochs of minibatches; returns the policy's report."""
        policy = self.torch_policy
        telling, policy.handing_out = policy.handing_out, None  # the trainer broadcasts weights after all have learned
        try:
            result = self._epochs(batch) if "num_sgd_iter" in self.cfg.config else policy.learn_on_batch(batch)
        finally:
            policy.handing_out = telling
        for engine in policy.engines:
            self.check_finite(engine)
        return result

    def _epochs(self, batch: SampleBatch) -> Mapping[str, Any]:
        """Learns in ``num_sgd_iter`` epochs of minibatches; returns the means of the last."""
        policy, config = self.torch_policy, self.cfg.config
        if "advantages" in batch:
            batch["advantages"] = standardized(np.asarray(batch["advantages"])).astype(np.float32)
        pad_batch_to_sequences_of_same_size(
            batch,
            max_seq_len=policy.max_seq_len,
            batch_divisibility_req=policy.batch_divisibility_req,
            view_requirements=policy.view_requirements,
        )
        result: dict[str, Any] = {}
        stats: dict[str, list[Any]] = {}
        for _ in range(int(config["num_sgd_iter"])):
            stats = {}
            for part in self._minibatches(batch, int(config["sgd_minibatch_size"])):
                result = policy.learn_on_batch(part)
                for name, value in result.get(LEARNER_STATS_KEY, {}).items():
                    stats.setdefault(name, []).append(value)
        means = averaged(stats)
        if hasattr(policy, "update_kl") and means.get("kl") is not None:
            policy.update_kl(float(means["kl"]))
        return {**result, LEARNER_STATS_KEY: means}

    def _minibatches(self, batch: SampleBatch, size: int) -> Sequence[SampleBatch]:
        """Yields parts of a batch in random order: shuffled rows, or whole sequences."""
        if "seq_lens" not in batch:
            order = self.rng.permutation(batch.count)
            batch = SampleBatch({name: np.asarray(column)[order] for name, column in dict.items(batch)},
                                _zero_padded=True)  # fmt: skip
        parts = batch.timeslices(size=size) if size else [batch]
        return [parts[number] for number in self.rng.permutation(len(parts))]
