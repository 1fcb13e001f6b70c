"""Coverage: whether data contain the actions that a policy takes. Without coverage, no estimate is reliable.

Discrete actions: the probability of the policy's action under a clone of the behaviour policy. Continuous actions: the
distance from the policy's action to the nearest of the actions at the nearest observations, beside the same distance of
the recorded action.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from rookery.ope.behavior import ClonedBehavior
from rookery.ope.episodes import WholeEpisodes
from rookery.ope.evaluated_policy import EvaluatedPolicy
from rookery.report.offline_evaluation import Coverage

NEAR = 10
"""Number of nearest observations."""

JUDGED, AMONG = 1_000, 5_000
"""Largest number of decisions that are measured, and of decisions searched for neighbours."""

USUAL = 0.95
"""Quantile of the data's own distances below which a distance is usual."""

FEW_NUMBERS = 256
"""Maximum number of values of observations that are compared directly; larger ones are compared by the policy's
features.
"""


def discrete_coverage(
    evaluated: EvaluatedPolicy, episodes: WholeEpisodes, cloned: ClonedBehavior, level: float
) -> Coverage:
    """Returns how often the policy takes discrete actions that are rare under the behaviour policy.

    Args:
        evaluated: The policy.
        episodes: The data.
        cloned: The cloned behaviour policy.
        level: Probability below which an action is rare.
    """
    behaved = cloned.probabilities(episodes)
    with torch.no_grad():
        parts = [evaluated.probabilities(episodes.obs(rows)) for rows in episodes.chunks()]
    chosen = torch.cat(parts).double().cpu().numpy()
    played = np.concatenate([episodes.actions(rows).numpy() for rows in episodes.chunks()])
    rare = float((chosen * (behaved < level)).sum(1).mean())
    rng = np.random.default_rng(0)
    drawn = (chosen.cumsum(1) > rng.random((len(chosen), 1)) * chosen.sum(1, keepdims=True)).argmax(1)
    every = np.arange(len(episodes))
    return Coverage("probability", level, rare, tuple(behaved[every, drawn]), tuple(behaved[every, played]))


def continuous_coverage(
    evaluated: EvaluatedPolicy, episodes: WholeEpisodes, halves: np.ndarray, rng: np.random.Generator
) -> Coverage:
    """Returns the distance of the policy's continuous actions from the data's nearby actions, in units of half their
    range, or of the data's standard deviation if they have no bounds.

    Args:
        evaluated: The policy.
        episodes: The data.
        halves: ``[E]`` which half each episode is in; neighbours of one half are searched in the other.
        rng: Samples the decisions that are measured, and the policy's actions.
    """
    sides = [np.flatnonzero(halves[episodes.episode] == half) for half in (0, 1)]
    mine = np.sort(rng.permutation(sides[0])[:JUDGED])
    others = np.sort(rng.permutation(sides[1])[:AMONG])
    at, among = _places(evaluated, episodes, mine), _places(evaluated, episodes, others)
    center, spread = among.mean(0), among.std(0, correction=0)
    spread = torch.where(spread > 1e-6, spread, torch.ones_like(spread))
    near = torch.cdist((at - center) / spread, (among - center) / spread).topk(min(NEAR, len(others)), 1, False).indices
    around = evaluated.within_bounds(episodes.actions(others))[near]
    unit = torch.ones(around.shape[-1], dtype=torch.float32, device="cpu")
    if not evaluated.policy.action_spec.is_bounded:
        unit = episodes.actions(others).std(0, correction=0).clamp(min=1e-6)
    played = evaluated.within_bounds(episodes.actions(mine))
    planned = evaluated.sample_actions(episodes.obs(mine), 1, rng)[0].cpu()

    def distance(action: Tensor) -> np.ndarray:
        apart = ((around - action.unsqueeze(1)) / unit).square().sum(2).min(1).values.sqrt()
        found: np.ndarray = (apart / math.sqrt(action.shape[1])).double().numpy()
        return found

    own, policy = distance(played), distance(planned)
    level = float(np.quantile(own, USUAL))
    return Coverage("distance", level, float((policy > level).mean()), tuple(policy), tuple(own))


@torch.no_grad()
def _places(evaluated: EvaluatedPolicy, episodes: WholeEpisodes, rows: np.ndarray) -> Tensor:
    """Returns observations as points, ``[n, F]``: their own values, or the policy's features."""
    leaves = evaluated.policy.own_spec.leaves
    plain = all(leaf.kind == "box" and not leaf.is_image for leaf in leaves)
    found = []
    for start in range(0, len(rows), 1024):
        obs = episodes.obs(rows[start : start + 1024])
        if plain and sum(math.prod(leaf.shape) for leaf in leaves) <= FEW_NUMBERS:
            found.append(torch.cat([obs[leaf.path].flatten(1).float() for leaf in leaves], 1))
        else:
            device = next(evaluated.policy.parameters()).device
            found.append(evaluated.policy.features({path: leaf.to(device) for path, leaf in obs.items()}).cpu())
    return torch.cat(found)
