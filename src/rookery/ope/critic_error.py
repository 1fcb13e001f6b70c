"""Temporal-difference errors of a run's critics on recorded data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms.off_policy.critics import CriticLearner, StateAction
from rookery.algorithms.offline.data_learner import values_of_stored
from rookery.core.batch import TensorTree
from rookery.core.device import device_of
from rookery.models.q_head import Boltzmann, EpsilonGreedy
from rookery.ope.episodes import WholeEpisodes
from rookery.ope.evaluated_policy import EvaluatedPolicy

ValueFunction = Callable[[TensorTree, Tensor], Tensor]
"""Computes action values ``[n]`` on raw observations; for discrete actions ``[n, A]``, whatever the given actions."""


def critics_of(learner: Any, evaluated: EvaluatedPolicy) -> ValueFunction | None:
    """Returns the value function of a learner's critics, the minimum of several; None if it has none.

    Args:
        learner: The learner; None if the policy does not learn.
        evaluated: Its policy.
    """
    policy = evaluated.policy
    critics = getattr(learner, "critics", None)
    if isinstance(critics, CriticLearner) and (evaluated.is_discrete or evaluated.is_continuous):

        def by_critics(obs: TensorTree, action: Tensor) -> Tensor:
            found: Tensor = critics.detached(StateAction(policy.normalize(obs), action))
            if evaluated.is_discrete:
                return found.amin(0)
            return found.flatten(2).mean(2).amin(0) if found.dim() == 3 else found.amin(0)

        return by_critics
    values = getattr(getattr(learner, "cfg", None), "values", None)
    if evaluated.is_discrete and values is not None and not getattr(values, "rescale", False):

        def by_policy(obs: TensorTree, action: Tensor) -> Tensor:
            behavior = evaluated.behavior(obs)
            assert isinstance(behavior, EpsilonGreedy | Boltzmann)
            return behavior.q

        return by_policy
    return None


@torch.no_grad()
def td_errors(
    valued: ValueFunction, evaluated: EvaluatedPolicy, episodes: WholeEpisodes, gamma: float, rng: np.random.Generator
) -> np.ndarray:
    """Returns ``r + gamma Q(s', a') - Q(s, a)`` of each decision, ``[N]``, with a' of the policy. Truncated episodes
    are bootstrapped with the value of their final observation, as critics learn it.

    Args:
        value_function: Critics.
        evaluated: The policy.
        episodes: The data.
        gamma: Discount.
        rng: Samples the policy's continuous actions.
    """
    found, device = np.empty(len(episodes)), device_of(evaluated.policy)
    ended = episodes.is_last & episodes.terminated[episodes.episode]
    for rows in episodes.chunks():
        obs, after = (
            {path: leaf.to(device) for path, leaf in tree.items()}
            for tree in (episodes.obs(rows), episodes.next_obs(rows))
        )
        played = evaluated.within_bounds(episodes.actions(rows).to(device))
        if evaluated.is_discrete:
            q = values_of_stored(valued(obs, played).unsqueeze(0), played)[0]
            ahead = torch.where(evaluated.probabilities(after) > 0, valued(after, played), 0.0)
            ahead = (ahead * evaluated.probabilities(after)).sum(1)
        else:
            q, ahead = valued(obs, played), valued(after, evaluated.sample_actions(after, 1, rng)[0])
        reward = episodes.reward[rows]
        continues = gamma * ~ended[rows]
        found[rows] = reward + continues * ahead.double().cpu().numpy() - q.double().cpu().numpy()
    return found
