"""Temporal-difference errors on data that critics need not have learned from: those of a run, or fitted ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rookery.algorithms.off_policy.critics import CriticLearner, StateAction
from rookery.algorithms.offline.data_learner import of_those_made
from rookery.core.batch import TensorTree
from rookery.core.device import device_of
from rookery.models.q_head import Boltzmann, EpsilonGreedy
from rookery.ope.episodes import WholeEpisodes
from rookery.ope.judged_policy import JudgedPolicy

Valued = Callable[[TensorTree, Tensor], Tensor]
"""Values ``[n]`` of actions on raw observations; or ``[n, A]`` of all choices, whatever the actions are."""


def critics_of(learner: Any, judged: JudgedPolicy) -> Valued | None:
    """Gives what the critics of a run's learner say of actions, the lowest of several; None if it has none.

    Args:
        learner: The learner; None of a policy that does not learn.
        judged: Its policy.
    """
    policy = judged.policy
    critics = getattr(learner, "critics", None)
    if isinstance(critics, CriticLearner) and (judged.takes_choices or judged.takes_numbers):

        def by_critics(obs: TensorTree, action: Tensor) -> Tensor:
            found: Tensor = critics.detached(StateAction(policy.normalize(obs), action))
            if judged.takes_choices:
                return found.amin(0)
            return found.flatten(2).mean(2).amin(0) if found.dim() == 3 else found.amin(0)

        return by_critics
    values = getattr(getattr(learner, "cfg", None), "values", None)
    if judged.takes_choices and values is not None and not getattr(values, "rescale", False):

        def by_policy(obs: TensorTree, action: Tensor) -> Tensor:
            behavior = judged.behavior(obs)
            assert isinstance(behavior, EpsilonGreedy | Boltzmann)
            return behavior.q

        return by_policy
    return None


@torch.no_grad()
def td_errors(
    valued: Valued, judged: JudgedPolicy, episodes: WholeEpisodes, gamma: float, rng: np.random.Generator
) -> np.ndarray:
    """Gives ``r + gamma Q(s', a') - Q(s, a)`` of each decision, ``[N]``, where the policy does a'. Where an episode was
    cut off, the value of what was seen last stands for the rest, as critics learn it.

    Args:
        valued: Critics.
        judged: The policy.
        episodes: The data.
        gamma: Discount.
        rng: Draws the policy's numbers.
    """
    found, device = np.empty(len(episodes)), device_of(judged.policy)
    ended = episodes.is_last & episodes.terminated[episodes.episode]
    for rows in episodes.parts():
        obs, after = (
            {path: leaf.to(device) for path, leaf in tree.items()}
            for tree in (episodes.obs(rows), episodes.next_obs(rows))
        )
        played = judged.within_bounds(episodes.actions(rows).to(device))
        if judged.takes_choices:
            q = of_those_made(valued(obs, played).unsqueeze(0), played)[0]
            ahead = torch.where(judged.probabilities(after) > 0, valued(after, played), 0.0)
            ahead = (ahead * judged.probabilities(after)).sum(1)
        else:
            q, ahead = valued(obs, played), valued(after, judged.numbers(after, 1, rng)[0])
        reward = episodes.reward[rows]
        goes_on = gamma * ~ended[rows]
        found[rows] = reward + goes_on * ahead.double().cpu().numpy() - q.double().cpu().numpy()
    return found
