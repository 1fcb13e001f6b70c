"""Policy module: normalizer, trunk and action head, independent of losses and environments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from rookery.core.batch import Rollout, TensorTree
from rookery.core.device import device_of
from rookery.core.errors import ConfigError, RookeryError, SpaceError
from rookery.core.process.torch_modes import own_modes
from rookery.core.settings.hints import with_argument_hints
from rookery.core.spaces.arrays import MASK, ActionSpec, ObsSpec, Tree
from rookery.models.build import ModelConfig
from rookery.models.distributions import Behavior, NoiseSpec
from rookery.models.heads import ActionHead, DistributionHead, HeadSpec, distribution_for
from rookery.models.recall import Normalize, build_recall, uint8_images
from rookery.models.structure import Inputs, Structure, Tower
from rookery.policies.normalize import ObsNormalizer


class Actor(Protocol):
    """Computes a policy's actions in place of its modules, on the same weights."""

    def is_current(self, policy: Policy) -> bool:
        """Returns whether the policy's weights and statistics are still those that it uses."""
        ...

    def act(self, obs: Tree, noise: Tensor | None, memory: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Returns actions ``[N, ...]`` in stored form, and their log-probabilities ``[N]``."""
        ...


class Policy(nn.Module):
    """Maps observations to distributions over actions.

    Args:
        obs: Layout of the observations.
        action: Layout of the actions.
        model: Settings of the network.
        name: Name of the policy, for messages.
        generator: Draws all initial weights; equal states make equal weights.
        head: Spec of its head, chosen by the algorithm; None = a distribution for any action space.

    Raises:
        SpaceError: If the head does not support the action space.

    Attributes:
        obs_spec: Layout of the observations.
        action_spec: Layout of the actions.
        model: Settings of its network.
        normalizer: Normalizes boxes other than uint8 images, or None. Its statistics are part of `state_dict`.
        recall: Adds earlier observations, the last action and reward to the trunk's input; None without them.
        input_spec: Layout of the trunk's input.
        own_spec: Layout of the observations without the critics' part: the input for acting.
        has_central: Whether observations have parts for critics only.
        critic_spec: Layout of a critic's input: the trunk's input and the critics' part.
        trunk: Maps its input to features.
        memory: Makes features depend on earlier decisions; None without a memory.
        num_features: Width of the heads' input.
        head_spec: Spec of its head.
        head: Maps features ``[N, num_features]`` to action distributions.
        memory_size: Numbers of memory per slot, those of recall first; 0 = decisions are independent.
        reward_column: Column of the memory to which the acting side adds rewards, if the policy observes its last
            reward.
        exploration_size: Numbers that exploration carries from one decision of a slot to the next. They follow the
            memory and are not part of it: learners never receive them.
        noise: Random numbers per action.
        make_actor: Makes the actor that `predict` uses in place of the modules, or None; set when kernels are attached.
    """

    head: Any
    """A `Head`; its class depends on `head_spec`."""
    head_spec: HeadSpec = DistributionHead()

    def __init__(
        self,
        obs: ObsSpec,
        action: ActionSpec,
        model: ModelConfig,
        name: str = "main",
        *,
        generator: torch.Generator,
        head: HeadSpec | None = None,
    ) -> None:
        super().__init__()
        self.name = name
        self.obs_spec = obs
        self.own_spec = obs.own
        self.has_central = self.own_spec is not obs
        self._masked = obs.has_mask
        self.action_spec = action
        self.model = model
        images = [leaf.path for leaf in uint8_images(obs, model.memory.frame_stack)]
        normalizer = ObsNormalizer(obs, model.obs_clip, (*model.entities, *images))
        self.normalizer = normalizer if model.normalize_obs and normalizer.paths else None
        whole = obs if self.normalizer is None else self.normalizer.spec
        seen = whole.own
        self.head_spec = DistributionHead() if head is None else head
        self.recall = build_recall(seen, action, self.head_spec.recalled(model.memory), model.entities)
        self.input_spec = seen if self.recall is None else self.recall.spec
        self.critic_spec = with_central(self.input_spec, whole)
        given = self.head_spec.given(action)
        if (model.output == "action_params") != (given is not None):
            raise ConfigError(
                f"policy {name!r}: model.output = {model.output!r}, but its algorithm ends networks in "
                f"{self.head_spec}: outputs are for algorithms that learn a distribution and values of "
                "states (ppo, a2c), or values of actions (dqn)"
            )
        body = self.head_spec.body(self.input_spec, action, model, generator=generator)
        self.trunk, self.memory, self.num_features = body
        try:
            self.head = self.head_spec.build(
                self.num_features, action, log_std_init=model.log_std_init, generator=generator
            )
        except SpaceError as error:
            raise SpaceError(f"policy {name!r}: {error}") from None
        self._recalled = 0 if self.recall is None else self.recall.size
        self.memory_size = self._recalled + (0 if self.memory is None else self.memory.size)
        self.reward_column = None if self.recall is None else self.recall.reward_column
        self.exploration_size = self.head.exploration_size
        self.noise: NoiseSpec = self.head.noise
        self._actor: Actor | None = None
        self.make_actor: Callable[[Policy], Actor | None] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Returns the state of a copy: without the actor, which is bound to these weights."""
        return {**self.__dict__, "_actor": None}

    def structure(self) -> Structure:
        """Declares the policy's computation, from the trunk's input to action distributions. A subclass that overrides
        `act` or `forward` without its own declaration acts by its modules.
        """
        tower = Tower(self.trunk, (self.head,), self.memory)
        return Structure(
            (tower,),
            self.model,
            lambda batch: Inputs(batch.obs),
            lambda parts, batch: self.behavior(parts, batch.obs.get(MASK)),
        )

    def behavior(self, parts: list[Tensor], mask: Tensor | None) -> Behavior:
        """Returns the action distribution.

        Args:
            parts: Output of the head's last layer, ``[N, W]``, and the `log_std` of heads with one.
            mask: ``[N, choices]`` bool, allowed actions; None = all.
        """
        head = self.head
        if isinstance(head, ActionHead):
            return distribution_for(self.action_spec, parts[0], None if head.log_std is None else parts[1], mask)
        behavior: Behavior = head.behavior(parts[0])
        return behavior

    def normalize(self, obs: TensorTree) -> TensorTree:
        """Converts raw observations ``[N, ...]`` to the trunk's form; the same tree if nothing is normalized."""
        if self.normalizer is None:
            return obs
        normalized: TensorTree = self.normalizer(obs)
        return normalized

    def sights(self, rollout: Rollout, normalize: Normalize | None = None) -> tuple[TensorTree, TensorTree, TensorTree]:
        """Returns the trunk's input for all decisions ``[T * F, ...]`` of a rollout, its last observations ``[F,
        ...]``, and its final ones ``[K, ...]``; stacked images are `Stacked` leaves.

        Args:
            rollout: The experience.
            normalize: Replaces `normalize` of the policy; None = that of the policy.
        """
        if self.recall is not None:
            return self.recall.unroll(rollout, normalize or self.normalize)
        normalize = self.normalizer if normalize is None else normalize
        obs = {path: leaf.flatten(0, 1) for path, leaf in rollout.obs.items()}
        if normalize is None:
            return obs, rollout.last_obs, rollout.final_obs
        return normalize(obs), normalize(rollout.last_obs), normalize(rollout.final_obs)

    def initial_memory(self, num_rows: int) -> Tensor:
        """Returns the memory before the first decision of an episode: zeros ``[N, memory_size]``."""
        return torch.zeros(num_rows, self.memory_size, device=device_of(self), dtype=torch.float32)

    def memory_every(self, fragment_length: int) -> int:
        """Returns the number of decisions between two stored memories of a fragment, from which learning starts."""
        return fragment_length if self.memory is None else min(self.model.memory.sequence_length, fragment_length)

    def learned(self, memory: Tensor) -> Tensor:
        """Returns the part of the memory ``[..., memory_size]`` that belongs to the cell, ``[..., memory.size]``."""
        return memory[..., self._recalled :]

    def forward(self, obs: TensorTree, memory: Tensor | None = None) -> Behavior:
        """Returns the distribution of each row's action for raw observations ``[N, ...]``; applies their mask.

        Args:
            obs: By leaf path.
            memory: ``[N, memory_size]``; None = that of an episode's start.
        """
        behavior: Behavior = self.head(self.features(obs, memory), obs[MASK] if self._masked else None)
        return behavior

    def features(self, obs: TensorTree, memory: Tensor | None = None) -> Tensor:
        """Returns the head's input, ``[N, num_features]``; arguments as of `forward`."""
        if memory is None and self.memory_size:
            memory = self.initial_memory(len(next(iter(obs.values()))))
        return self._advance(obs, memory)[0]

    def _advance(self, obs: TensorTree, memory: Tensor | None) -> tuple[Tensor, TensorTree, Tensor | None]:
        """Returns features, stacked observations for recall, and the cell's new memory."""
        stacks: TensorTree = {}
        if self.recall is None or memory is None:
            seen = obs if self.normalizer is None else self.normalize(obs)
        else:
            seen, stacks = self.recall.look(obs, memory, self.normalize)
        features, learned = self.trunk(seen), None
        if self.memory is not None and memory is not None:
            features, learned = self.memory.advance(features, self.learned(memory))
        return features, stacks, learned

    def act(
        self, obs: TensorTree, noise: Tensor | None = None, deterministic: bool = False, memory: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Returns actions ``[N, ...]`` in stored form, and their log-probabilities ``[N]``.

        A worker's copy requires no gradients, so nothing is recorded for a backward pass; elsewhere use ``with
        torch.no_grad()``, which is not used here because it costs 3 us a call.

        Args:
            obs: Raw observations ``[N, ...]`` by leaf path, types as stored.
            noise: ``[N, noise.width]`` float32; may be None if `deterministic`.
            deterministic: Take the most probable action.
            memory: ``[N, memory_size + exploration_size]`` the memory, then the state of exploration (not needed if
                `deterministic`); zeros where an episode starts; changes in place. None for a policy without both.
        """
        carried = None
        if memory is not None and self.exploration_size:
            memory, carried = memory[:, : self.memory_size], memory[:, self.memory_size :]
        features, stacks, learned = self._advance(obs, memory)
        mask = obs[MASK] if self._masked else None
        if deterministic:
            behavior = self.head(features, mask)
            action = behavior.mode()
            logp = behavior.log_prob(action)
        else:
            if noise is None:
                raise ConfigError("act samples with noise=...; policy.predict(obs) takes raw observations")
            action, logp = self.head.draw(features, mask, noise, carried)
        if memory is not None:
            if self.recall is not None:
                self.recall.remember(memory, stacks, action)
            if learned is not None:
                memory[:, self._recalled :] = learned
        return action, logp

    @with_argument_hints
    @own_modes()
    def predict(
        self,
        obs: Any,
        memory: Tensor | None = None,
        deterministic: bool = True,
        *,
        action_mask: Any = None,
        rng: np.random.Generator | None = None,
        reward: Any = None,
        first: Any = None,
    ) -> Any:
        """Returns actions in the environment's form, for observations in the environment's form.

        A policy with memory returns a pair of actions and memory, which must be passed to the next call::

            action, memory = policy.predict(obs)  # at the start of an episode
            action, memory = policy.predict(obs, memory)

        Args:
            obs: One observation or a batch of N: arrays in the structure of the space; of a PettingZoo agent the whole
                dict, with ``observation`` and ``action_mask``. The critics' part may be missing.
            memory: Memory returned by the last call, ``[N, memory_size]``; None at the start of an episode, and for
                policies without memory.
            deterministic: Take the most probable action instead of drawing one. For exploration with state, each call
                draws as at the start of an episode.
            action_mask: Allowed actions, if the environment has them in `info` and not in the observation.
            rng: Random generator if not `deterministic`; None for a fresh one.
            reward: Reward of the last action, or ``[N]``; only for policies that observe it (memory.previous_reward).
            first: ``[N]`` bool, rows of a batch that start an episode and reset their memory.

        Returns:
            One action, or a batch ``[N, ...]`` if `obs` is a batch; and the memory, if the policy has one.

        Raises:
            SpaceError: If `obs` does not fit the policy's observation space.
            RookeryError: If `memory`, `reward` or `first` do not fit the policy.
        """
        space = self.own_spec.space
        in_info = self.own_spec.has_mask and not (isinstance(space, spaces.Dict) and MASK in space.spaces)
        if in_info and action_mask is None:
            raise SpaceError(f"policy {self.name!r}: its environment has action masks in info; pass action_mask=...")
        try:
            tree, is_batch = self.own_spec.read(obs, action_mask)
        except SpaceError as error:
            raise SpaceError(f"policy {self.name!r}: {error}") from None
        num_rows = len(next(iter(tree.values())))
        problem = self.own_spec.check(tree, np.arange(num_rows))
        if problem:
            raise SpaceError(f"policy {self.name!r}: {problem}")
        memory = self._remembered(num_rows, memory, reward, first)
        kept = memory
        if self.exploration_size and not deterministic:
            carried = torch.zeros(num_rows, self.exploration_size, device=device_of(self), dtype=torch.float32)
            kept = carried if memory is None else torch.cat((memory, carried), 1)
        actions = self._stored_actions(tree, kept, deterministic, rng)
        answer = actions if is_batch else actions[0]
        if memory is None:
            return answer
        assert kept is not None
        return answer, kept[:, : self.memory_size]

    @own_modes()
    def env_actions(
        self, obs: Tree, memory: Tensor | None, deterministic: bool, rng: np.random.Generator | None = None
    ) -> np.ndarray:
        """Returns actions ``[N, ...]`` in the environment's form, for stored observations.

        Args:
            obs: Raw observations ``[N, ...]`` by leaf path, types as stored, checked by the caller.
            memory: As of `act`; changes in place.
            deterministic: Take the most probable action instead of drawing one.
            rng: Random generator if not `deterministic`; None for a fresh one.
        """
        return self._stored_actions(obs, memory, deterministic, rng)

    def _stored_actions(
        self, obs: Tree, memory: Tensor | None, deterministic: bool, rng: np.random.Generator | None
    ) -> np.ndarray:
        num_rows = len(next(iter(obs.values())))
        noise = None if deterministic else torch.from_numpy(_draw(self.noise, num_rows, rng))
        return self.action_spec.to_env(self._answer(obs, noise, memory))

    def _remembered(self, num_rows: int, memory: Any, reward: Any, first: Any) -> Tensor | None:
        """Returns the memory before a call of `predict`, as a new tensor."""
        column = self.reward_column
        if not self.memory_size:
            for name, value in (("memory", memory), ("first", first), ("reward", reward)):
                if value is not None:
                    message = f"policy {self.name!r} has no memory: predict takes {name}=None"
                    raise RookeryError(f"{message}, not {type(value).__name__}")
            return None
        if reward is not None and column is None:
            raise RookeryError(f"policy {self.name!r} observes no rewards (memory.previous_reward): leave reward out")
        rewards = self._for_rows("reward", reward, num_rows)
        starts = self._for_rows("first", first, num_rows)
        if memory is None:
            return self.initial_memory(num_rows)
        if not isinstance(memory, Tensor) or memory.shape != (num_rows, self.memory_size):
            found = tuple(memory.shape) if isinstance(memory, Tensor) else type(memory).__name__
            raise RookeryError(
                f"policy {self.name!r}: memory must be the memory that the last call of predict returned, "
                f"{(num_rows, self.memory_size)} numbers for {num_rows} rows, not {found}"
            )
        if column is not None and reward is None:
            raise RookeryError(
                f"policy {self.name!r} observes the reward of its last action (memory.previous_reward): "
                "predict(obs, memory, reward=...)"
            )
        remembered = self.initial_memory(num_rows).copy_(memory)
        if column is not None and rewards is not None:
            remembered[:, column] = rewards
        if starts is not None:
            remembered[starts > 0] = 0.0
        return remembered

    def _for_rows(self, name: str, value: Any, num_rows: int) -> Tensor | None:
        """Returns a named argument of `predict` as ``[N]`` float32; None if it is None."""
        if value is None:
            return None
        given = torch.as_tensor(value, dtype=torch.float32, device=device_of(self))
        if given.shape not in ((), (num_rows,)):
            raise RookeryError(
                f"policy {self.name!r}: {name} must be one value, or one for each of {num_rows} rows, not an array of "
                f"shape {tuple(given.shape)}"
            )
        return given.expand(num_rows)

    def _answer(self, obs: Tree, noise: Tensor | None, memory: Tensor | None) -> np.ndarray:
        """Returns actions ``[N, ...]`` in stored form for raw observations; `memory` changes in place."""
        actor = self._actor
        if self.make_actor is not None and (actor is None or not actor.is_current(self)):
            actor = self._actor = self.make_actor(self)
        if actor is not None and len(next(iter(obs.values()))):
            return actor.act(obs, noise, None if memory is None else memory.numpy())[0]
        device = device_of(self)
        rows = {path: torch.from_numpy(array).to(device) for path, array in obs.items()}
        with torch.no_grad():
            action, _ = self.act(rows, None if noise is None else noise.to(device), noise is None, memory)
        return action.cpu().numpy()


def with_central(seen: ObsSpec, whole: ObsSpec) -> ObsSpec:
    """Returns the layout of a trunk's input with the critics' part of `whole`; the same layout if there is none."""
    central = tuple(leaf for leaf in whole.leaves if leaf.is_central)
    if not central:
        return seen
    mask = tuple(leaf for leaf in seen.leaves if leaf.kind == "mask")
    return ObsSpec(whole.space, (*seen.leaves[: len(seen.leaves) - len(mask)], *central, *mask), whole.dropped)


def _draw(noise: NoiseSpec, num_rows: int, rng: np.random.Generator | None) -> np.ndarray:
    """Draws random numbers ``[num_rows, noise.width]``, float32."""
    rng = rng or np.random.default_rng()
    uniform = rng.random((num_rows, noise.uniform), dtype=np.float32)
    normal = rng.standard_normal((num_rows, noise.normal), dtype=np.float32)
    return np.concatenate((uniform, normal), axis=1)
