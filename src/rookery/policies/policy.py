"""The policy, which acts: normalizer, trunk and action head in one module that knows no loss and no environment."""

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
from rookery.core.spaces.arrays import MASK, ActionSpec, ObsSpec, Tree
from rookery.models.build import ModelConfig
from rookery.models.distributions import Behavior, NoiseSpec
from rookery.models.heads import ActionHead, DistributionHead, HeadSpec, distribution_for
from rookery.models.recall import Normalize, build_recall, byte_pictures
from rookery.models.structure import Inputs, Structure, Tower
from rookery.policies.normalize import ObsNormalizer


class Actor(Protocol):
    """What acts for a policy in the place of its modules, on the same weights."""

    def is_current(self, policy: Policy) -> bool:
        """Tells whether the policy's weights and statistics still are those that it acts by."""
        ...

    def act(self, obs: Tree, noise: Tensor | None, memory: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Gives actions ``[N, ...]`` as they are stored, and their log-probabilities ``[N]``."""
        ...


class Policy(nn.Module):
    """A distribution over actions for every observation.

    Args:
        obs: Layout of the observations.
        action: Layout of the actions.
        model: What network to build.
        name: The policy's id, for messages.
        generator: All first weights come from it; equal states give equal weights.
        head: What it ends in, which its algorithm decides; None = a distribution for any action space.

    Raises:
        SpaceError: If such a head cannot put out such actions.

    Attributes:
        obs_spec: Layout of the observations.
        action_spec: Layout of the actions.
        model: Settings of its network.
        normalizer: Normalizes boxes that are no pictures of bytes, or None. Its statistics are part of `state_dict`.
        recall: Widens what the trunk sees by earlier observations, the last action and reward; None if it need not.
        input_spec: Layout of what the trunk sees.
        own_spec: Layout of the observations without what is for critics alone: what it acts on.
        has_central: Whether observations have such parts.
        critic_spec: Layout of what a critic may see: the same as the trunk, and what is for critics alone.
        trunk: From that to features.
        memory: Makes features depend on what came before; None if they do not.
        num_features: Features that heads stand on.
        head_spec: Which head it has.
        head: From features ``[N, num_features]`` to what actions are drawn from.
        memory_size: Numbers remembered of one slot, those of recall first; 0 = each decision stands for itself.
        reward_column: Which of them whoever plays adds rewards to, if the policy sees what its last action earned.
        exploration_size: Numbers that exploration carries from one decision of a slot to the next. They lie behind
            what is remembered, and are no part of it: learners never see them.
        noise: Random numbers an action takes.
        make_actor: Makes what `predict` acts by in the place of the modules, or None; set by who attaches kernels.
    """

    head: Any
    """What it is depends on `head_spec`; every one is a `Head`."""

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
        pictures = [leaf.path for leaf in byte_pictures(obs, model.memory.frame_stack)]
        normalizer = ObsNormalizer(obs, model.obs_clip, (*model.entities, *pictures))
        self.normalizer = normalizer if model.normalize_obs and normalizer.paths else None
        whole = obs if self.normalizer is None else self.normalizer.spec
        seen = whole.own
        self.head_spec = DistributionHead() if head is None else head
        self.recall = build_recall(seen, action, self.head_spec.recalled(model.memory), model.entities)
        self.input_spec = seen if self.recall is None else self.recall.spec
        self.critic_spec = with_central(self.input_spec, whole)
        given = self.head_spec.given(action)
        if (model.output == "outputs") != (given is not None):
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
        """What a copy takes over: not the actor, whose weights are these."""
        return {**self.__dict__, "_actor": None}

    def structure(self) -> Structure:
        """Declares what the policy computes, from observations as the trunk takes them to what actions are drawn from;
        a subclass that overrides `act` or `forward` and declares nothing acts by its modules.
        """
        tower = Tower(self.trunk, (self.head,), self.memory)
        return Structure(
            (tower,),
            self.model,
            lambda batch: Inputs(batch.obs),
            lambda parts, batch: self.behavior(parts, batch.obs.get(MASK)),
        )

    def behavior(self, parts: list[Tensor], mask: Tensor | None) -> Behavior:
        """Gives what actions are drawn from.

        Args:
            parts: What the head's last layer puts out, ``[N, W]``, and the `log_std` of heads that have one.
            mask: ``[N, choices]`` bool, what is allowed; None = everything.
        """
        head = self.head
        if isinstance(head, ActionHead):
            return distribution_for(self.action_spec, parts[0], None if head.log_std is None else parts[1], mask)
        behavior: Behavior = head.behavior(parts[0])
        return behavior

    def normalize(self, obs: TensorTree) -> TensorTree:
        """Raw observations ``[N, ...]`` as the trunk takes them; the same ones if nothing is normalized."""
        if self.normalizer is None:
            return obs
        normalized: TensorTree = self.normalizer(obs)
        return normalized

    def sights(self, rollout: Rollout, normalize: Normalize | None = None) -> tuple[TensorTree, TensorTree, TensorTree]:
        """What the trunk sees in all decisions ``[T * F, ...]`` of a rollout, in its last observations ``[F, ...]``,
        and in its final ones ``[K, ...]``; stacked pictures are `Stacked` leaves.

        Args:
            rollout: The experience.
            normalize: Takes the place of `normalize` of the policy; None = that.
        """
        if self.recall is not None:
            return self.recall.unroll(rollout, normalize or self.normalize)
        normalize = self.normalizer if normalize is None else normalize
        obs = {path: leaf.flatten(0, 1) for path, leaf in rollout.obs.items()}
        if normalize is None:
            return obs, rollout.last_obs, rollout.final_obs
        return normalize(obs), normalize(rollout.last_obs), normalize(rollout.final_obs)

    def initial_memory(self, num_rows: int) -> Tensor:
        """What is remembered before the first decision of an episode: zeros ``[N, memory_size]``."""
        return torch.zeros(num_rows, self.memory_size, device=device_of(self), dtype=torch.float32)

    def memory_every(self, fragment_length: int) -> int:
        """Decisions from one place of a fragment where learning starts from what was remembered to the next."""
        return fragment_length if self.memory is None else min(self.model.memory.sequence_length, fragment_length)

    def learned(self, memory: Tensor) -> Tensor:
        """The part ``[..., memory.size]`` that `memory` keeps of what is remembered, ``[..., memory_size]``."""
        return memory[..., self._recalled :]

    def forward(self, obs: TensorTree, memory: Tensor | None = None) -> Behavior:
        """What each row's action is drawn from, given raw observations ``[N, ...]``; a mask among them is applied.

        Args:
            obs: By leaf path.
            memory: ``[N, memory_size]``; None = that of an episode's start.
        """
        behavior: Behavior = self.head(self.features(obs, memory), obs[MASK] if self._masked else None)
        return behavior

    def features(self, obs: TensorTree, memory: Tensor | None = None) -> Tensor:
        """What the head stands on, ``[N, num_features]``; arguments as of `forward`."""
        if memory is None and self.memory_size:
            memory = self.initial_memory(len(next(iter(obs.values()))))
        return self._advance(obs, memory)[0]

    def _advance(self, obs: TensorTree, memory: Tensor | None) -> tuple[Tensor, TensorTree, Tensor | None]:
        """Features, and of what is to be remembered: stacked observations, and what `memory` keeps."""
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
        """Actions ``[N, ...]`` as they are stored, and their log-probabilities ``[N]``.

        A worker's copy requires no gradients, so nothing is recorded for a backward pass; elsewhere say
        ``with torch.no_grad()``, which is not said here because it costs 3 us a call.

        Args:
            obs: Raw observations ``[N, ...]`` by leaf path, types as stored.
            noise: ``[N, noise.width]`` float32; may be None if `deterministic`.
            deterministic: Take the most probable action.
            memory: ``[N, memory_size + exploration_size]`` what is remembered, and behind it what exploration carries
                (not needed if `deterministic`); zeros where an episode starts; changes in place. None for a policy that
                has neither.
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
                raise ConfigError("act samples with noise=...; policy.predict(obs) takes what an environment returns")
            action, logp = self.head.draw(features, mask, noise, carried)
        if memory is not None:
            if self.recall is not None:
                self.recall.remember(memory, stacks, action)
            if learned is not None:
                memory[:, self._recalled :] = learned
        return action, logp

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
        """Actions that the environment takes, for observations as the environment gives them.

        A policy that remembers gives a pair: what it did, and what it remembers, which the next call must be given::

            action, memory = policy.predict(obs)  # at the start of an episode
            action, memory = policy.predict(obs, memory)

        Args:
            obs: One observation or a batch of N: arrays in the structure of the space; of a PettingZoo agent the whole
                dict, with ``observation`` and ``action_mask``. What is for critics alone may be missing.
            memory: What the last call remembered, ``[N, memory_size]``; None at the start of an episode, and for
                policies that remember nothing.
            deterministic: Take the most probable action instead of drawing one. What is drawn is as if each call began
                an episode, where exploration carries something from one decision to the next.
            action_mask: Allowed actions, if the environment gives them in `info` and not in the observation.
            rng: Where randomness comes from if not `deterministic`; None for fresh randomness.
            reward: What the last action earned, or ``[N]``; only for policies that see it (memory.previous_reward).
            first: ``[N]`` bool, rows of a batch that start an episode, whose memory is forgotten.

        Returns:
            One action, or a batch ``[N, ...]`` of them if `obs` is a batch; and the memory, if there is any.

        Raises:
            SpaceError: If `obs` does not fit the policy's observation space.
            RookeryError: If `memory`, `reward` or `first` do not fit the policy.
        """
        space = self.own_spec.space
        in_info = self.own_spec.has_mask and not (isinstance(space, spaces.Dict) and MASK in space.spaces)
        if in_info and action_mask is None:
            raise SpaceError(f"policy {self.name!r}: its environment gives action masks in info; pass action_mask=...")
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
        actions = self._decided(tree, kept, deterministic, rng)
        answer = actions if is_batch else actions[0]
        if memory is None:
            return answer
        assert kept is not None
        return answer, kept[:, : self.memory_size]

    @own_modes()
    def env_actions(
        self, obs: Tree, memory: Tensor | None, deterministic: bool, rng: np.random.Generator | None = None
    ) -> np.ndarray:
        """Actions ``[N, ...]`` that the environment takes, for observations as they are stored.

        Args:
            obs: Raw observations ``[N, ...]`` by leaf path, types as stored, checked by the caller.
            memory: As of `act`; changes in place.
            deterministic: Take the most probable action instead of drawing one.
            rng: Where randomness comes from if not `deterministic`; None for fresh randomness.
        """
        return self._decided(obs, memory, deterministic, rng)

    def _decided(
        self, obs: Tree, memory: Tensor | None, deterministic: bool, rng: np.random.Generator | None
    ) -> np.ndarray:
        num_rows = len(next(iter(obs.values())))
        noise = None if deterministic else torch.from_numpy(_draw(self.noise, num_rows, rng))
        return self.action_spec.to_env(self._answer(obs, noise, memory))

    def _remembered(self, num_rows: int, memory: Any, reward: Any, first: Any) -> Tensor | None:
        """What is remembered before a call of `predict`, as a tensor of its own."""
        column = self.reward_column
        if not self.memory_size:
            for name, value in (("memory", memory), ("first", first), ("reward", reward)):
                if value is not None:
                    told = f"policy {self.name!r} remembers nothing: predict takes {name}=None"
                    raise RookeryError(f"{told}, not {type(value).__name__}")
            return None
        if reward is not None and column is None:
            raise RookeryError(f"policy {self.name!r} does not see rewards (memory.previous_reward): leave reward out")
        rewards = self._for_rows("reward", reward, num_rows)
        starts = self._for_rows("first", first, num_rows)
        if memory is None:
            return self.initial_memory(num_rows)
        if not isinstance(memory, Tensor) or memory.shape != (num_rows, self.memory_size):
            found = tuple(memory.shape) if isinstance(memory, Tensor) else type(memory).__name__
            raise RookeryError(
                f"policy {self.name!r}: memory must be what the last call of predict gave, "
                f"{(num_rows, self.memory_size)} numbers for {num_rows} rows, not {found}"
            )
        if column is not None and reward is None:
            raise RookeryError(
                f"policy {self.name!r} sees what its last action earned (memory.previous_reward): "
                "predict(obs, memory, reward=...)"
            )
        remembered = self.initial_memory(num_rows).copy_(memory)
        if column is not None and rewards is not None:
            remembered[:, column] = rewards
        if starts is not None:
            remembered[starts > 0] = 0.0
        return remembered

    def _for_rows(self, name: str, value: Any, num_rows: int) -> Tensor | None:
        """What `predict` was given under a name, ``[N]`` float32; None if nothing was."""
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
        """Actions ``[N, ...]`` as they are stored, for raw observations in this process; `memory` changes in place."""
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
    """Gives what a trunk sees, with what `whole` has for critics alone beside it; the same if it has nothing."""
    central = tuple(leaf for leaf in whole.leaves if leaf.is_central)
    if not central:
        return seen
    mask = tuple(leaf for leaf in seen.leaves if leaf.kind == "mask")
    return ObsSpec(whole.space, (*seen.leaves[: len(seen.leaves) - len(mask)], *central, *mask), whole.dropped)


def _draw(noise: NoiseSpec, num_rows: int, rng: np.random.Generator | None) -> np.ndarray:
    """Random numbers ``[num_rows, noise.width]``, float32."""
    rng = rng or np.random.default_rng()
    uniform = rng.random((num_rows, noise.uniform), dtype=np.float32)
    normal = rng.standard_normal((num_rows, noise.normal), dtype=np.float32)
    return np.concatenate((uniform, normal), axis=1)
