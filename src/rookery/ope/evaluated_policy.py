"""The policy under evaluation, on recorded observations: sampled actions, or the most likely ones."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from rookery.core.batch import TensorTree
from rookery.core.device import device_of
from rookery.models.distributions import Behavior
from rookery.models.squashed import Hybrid, HybridHead, NoisyAction, SquashedGaussian, SquashedHead
from rookery.ope.episodes import WholeEpisodes
from rookery.policies.policy import Policy


class EvaluatedPolicy:
    """Distribution and actions of a policy on recorded observations.

    Args:
        policy: The policy.
        deterministic: Whether it takes its most likely actions; else they are sampled.

    Attributes:
        is_discrete: Whether actions are discrete (one category).
        is_continuous: Whether actions are continuous (a vector).
        squashes: Whether its continuous actions are squashed by tanh.
    """

    def __init__(self, policy: Policy, deterministic: bool) -> None:
        self.policy = policy
        self.deterministic = deterministic
        self.is_discrete = policy.action_spec.kind == "discrete"
        self.is_continuous = policy.action_spec.kind == "box"
        self.squashes = isinstance(policy.head, SquashedHead | HybridHead)

    @torch.no_grad()
    def behavior(self, obs: TensorTree) -> Behavior:
        """Returns the action distribution on raw observations."""
        device = device_of(self.policy)
        found: Behavior = self.policy({path: leaf.to(device) for path, leaf in obs.items()})
        return found

    def obstacle(self, episodes: WholeEpisodes) -> str:
        """Returns the reason why the policy's actions have no probability for importance weights, or ``""``."""
        behavior = self.behavior(episodes.obs(np.arange(1)))
        if isinstance(behavior, NoisyAction):
            return "the policy is deterministic: its continuous actions have no probability density; fqe needs none"
        if self.deterministic and self.policy.action_spec.num_numbers:
            return (
                "the most likely actions have no probability density; evaluate sampled ones (--stochastic), or use fqe"
            )
        return ""

    @torch.no_grad()
    def log_probs(self, episodes: WholeEpisodes) -> np.ndarray:
        """Returns the log-probability of each of the data's actions under the policy, ``[N]`` float64; if
        deterministic, 0 for the most likely action and minus infinity for all others.
        """
        found = np.empty(len(episodes))
        for rows in episodes.chunks():
            behavior = self.behavior(episodes.obs(rows))
            action = episodes.actions(rows).to(device_of(self.policy))
            if self.deterministic:
                same = (behavior.mode() == action).view(len(rows), -1).all(1)
                found[rows] = np.where(same.cpu().numpy(), 0.0, -np.inf)
            elif isinstance(behavior, SquashedGaussian | Hybrid):
                raw = episodes.raw_actions(rows)
                logp = behavior.log_prob(action, None if raw is None else raw.to(action.device))
                found[rows] = logp.double().cpu().numpy()
            else:
                found[rows] = behavior.log_prob(action).double().cpu().numpy()
        return found

    def probabilities(self, obs: TensorTree) -> Tensor:
        """Returns the probability of each discrete action, ``[n, A]``."""
        behavior, count = self.behavior(obs), self.policy.action_spec.sizes[0]
        if self.deterministic:
            return torch.nn.functional.one_hot(behavior.mode(), count).float()
        rows = len(next(iter(obs.values())))
        every = torch.arange(count, device=device_of(self.policy), dtype=torch.int64)
        return torch.stack([behavior.log_prob(one.expand(rows)) for one in every], -1).exp()

    @torch.no_grad()
    def sample_actions(self, obs: TensorTree, samples: int, rng: np.random.Generator) -> Tensor:
        """Returns actions of the policy as the environment takes them, ``[S, n, k]``; S = 1 if deterministic."""
        behavior = self.behavior(obs)
        if self.deterministic:
            return self.within_bounds(behavior.mode()).unsqueeze(0)
        rows, noise = len(next(iter(obs.values()))), behavior.noise
        found = []
        for _ in range(samples):
            uniform = rng.random((rows, noise.uniform), dtype=np.float32)
            normal = rng.standard_normal((rows, noise.normal), dtype=np.float32)
            drawn = torch.from_numpy(np.concatenate((uniform, normal), 1)).to(device_of(self.policy))
            found.append(self.within_bounds(behavior.sample(drawn)))
        return torch.stack(found)

    def within_bounds(self, action: Tensor) -> Tensor:
        """Returns continuous actions clipped to their bounds, as the environment takes them; others unchanged."""
        return action.clamp(-1.0, 1.0) if self.is_continuous and self.policy.action_spec.is_bounded else action
