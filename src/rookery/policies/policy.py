"""The policy, which acts: normalizer, trunk and action head in one module that knows no loss and no environment."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from rookery.core.batch import TensorTree
from rookery.core.device import device_of
from rookery.core.errors import RookeryError, SpaceError
from rookery.core.spaces import MASK, ActionSpec, ObsSpec, Tree
from rookery.models.build import ModelConfig, build_trunk
from rookery.models.distributions import Distribution, NoiseSpec
from rookery.models.heads import ActionHead
from rookery.models.native import kernels_for
from rookery.policies.native_actor import NativeActor
from rookery.policies.normalize import ObsNormalizer


class Policy(nn.Module):
    """A distribution over actions for every observation.

    Args:
        obs: Layout of the observations.
        action: Layout of the actions.
        model: What network to build.
        name: The policy's id, for messages.
        generator: All first weights come from it; equal states give equal weights.

    Attributes:
        obs_spec: Layout of the observations.
        action_spec: Layout of the actions.
        model: Settings of its network.
        normalizer: Normalizes float observations, or None. Its statistics are buffers, part of `state_dict`.
        trunk: From an observation tree to features ``[N, num_features]``.
        num_features: Features the trunk gives.
        head: From features to a distribution.
        noise: Random numbers an action takes.
    """

    def __init__(
        self, obs: ObsSpec, action: ActionSpec, model: ModelConfig, name: str = "main", *, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.name = name
        self.obs_spec = obs
        self.action_spec = action
        self.model = model
        normalizer = ObsNormalizer(obs, model.obs_clip) if model.normalize_obs else None
        self.normalizer = normalizer if normalizer is not None and normalizer.paths else None
        self.trunk = build_trunk(obs, model, generator=generator)
        width = self.trunk.num_features
        assert isinstance(width, int)
        self.num_features = width
        self.head = ActionHead(width, action, log_std_init=model.log_std_init, generator=generator)
        self.noise: NoiseSpec = self.head.noise
        self._actor: NativeActor | None = None

    def __getstate__(self) -> dict[str, Any]:
        """What a copy takes over: not the actor, whose weights are these."""
        return {**self.__dict__, "_actor": None}

    def normalize(self, obs: TensorTree) -> TensorTree:
        """Raw observations ``[N, ...]`` as the trunk takes them; the same ones if nothing is normalized."""
        if self.normalizer is None:
            return obs
        normalized: TensorTree = self.normalizer(obs)
        return normalized

    def features(self, obs: TensorTree) -> Tensor:
        """Features ``[N, F]`` of raw observations ``[N, ...]`` by leaf path: normalizer, then trunk."""
        features: Tensor = self.trunk(self.normalize(obs))
        return features

    def forward(self, obs: TensorTree) -> Distribution:
        """The distribution of each row's action, from raw observations ``[N, ...]``; a mask among them is applied."""
        distribution: Distribution = self.head(self.features(obs), obs[MASK] if self.obs_spec.has_mask else None)
        return distribution

    def act(self, obs: TensorTree, noise: Tensor | None, deterministic: bool = False) -> tuple[Tensor, Tensor]:
        """Actions ``[N, ...]`` as they are stored, and their log-probabilities ``[N]``.

        A worker's copy requires no gradients, so nothing is recorded for a backward pass; elsewhere say
        ``with torch.no_grad()``, which is not said here because it costs 3 us a call.

        Args:
            obs: Raw observations ``[N, ...]`` by leaf path, types as stored.
            noise: ``[N, noise.width]`` float32; may be None if `deterministic`.
            deterministic: Take the most probable action.
        """
        distribution: Distribution = self(obs)
        if deterministic:
            action = distribution.mode()
            return action, distribution.log_prob(action)
        assert noise is not None
        return distribution.sample_logp(noise)

    def predict(
        self,
        obs: Any,
        memory: Any = None,
        deterministic: bool = True,
        *,
        action_mask: Any = None,
        rng: np.random.Generator | None = None,
    ) -> Any:
        """Actions that the environment takes, for observations as the environment gives them.

        Args:
            obs: One observation or a batch of N: arrays in the structure of the space.
            memory: None: this policy remembers nothing between decisions.
            deterministic: Take the most probable action instead of drawing one.
            action_mask: Allowed actions, if the environment gives them in `info` and not in the observation.
            rng: Where randomness comes from if not `deterministic`; None for fresh randomness.

        Returns:
            One action, or a batch ``[N, ...]`` of them if `obs` is a batch.

        Raises:
            SpaceError: If `obs` does not fit the policy's observation space.
            RookeryError: If `memory` is given.
        """
        if memory is not None:
            raise RookeryError(
                f"policy {self.name!r} has no memory: predict takes memory=None, not {type(memory).__name__}"
            )
        space = self.obs_spec.space
        in_info = self.obs_spec.has_mask and not (isinstance(space, spaces.Dict) and MASK in space.spaces)
        if in_info and action_mask is None:
            raise SpaceError(f"policy {self.name!r}: its environment gives action masks in info; pass action_mask=...")
        try:
            tree, is_batch = self.obs_spec.read(obs, action_mask)
        except SpaceError as error:
            raise SpaceError(f"policy {self.name!r}: {error}") from None
        num_rows = len(next(iter(tree.values())))
        problem = self.obs_spec.check(tree, np.arange(num_rows))
        if problem:
            raise SpaceError(f"policy {self.name!r}: {problem}")
        noise = None if deterministic else torch.from_numpy(_draw(self.noise, num_rows, rng))
        actions = self.action_spec.to_env(self._answer(tree, noise))
        return actions if is_batch else actions[0]

    def _answer(self, obs: Tree, noise: Tensor | None) -> np.ndarray:
        """Actions ``[N, ...]`` as they are stored, for raw observations in this process."""
        actor = self._actor
        if actor is None or not actor.is_current(self):
            actor = self._actor = native_actor(self)
        if actor is not None and len(next(iter(obs.values()))):
            return actor.act(obs, noise)[0]
        device = device_of(self)
        rows = {path: torch.from_numpy(array).to(device) for path, array in obs.items()}
        with torch.no_grad():
            action, _ = self.act(rows, None if noise is None else noise.to(device), deterministic=noise is None)
        return action.cpu().numpy()


def native_actor(policy: Policy) -> NativeActor | None:
    """What acts for a policy on kernels, or None where there are none for it and its modules must."""
    if type(policy) is not Policy:
        return None
    build = kernels_for(policy.model, [policy.trunk], [policy.head])
    return None if build is None else NativeActor(policy, build)


def _draw(noise: NoiseSpec, num_rows: int, rng: np.random.Generator | None) -> np.ndarray:
    """Random numbers ``[num_rows, noise.width]``, float32."""
    rng = rng or np.random.default_rng()
    uniform = rng.random((num_rows, noise.uniform), dtype=np.float32)
    normal = rng.standard_normal((num_rows, noise.normal), dtype=np.float32)
    return np.concatenate((uniform, normal), axis=1)
