"""Coverage: whether data show what a policy would do. Where they do not, no estimate of its return is worth much.

Choices are looked up in a clone of the behaviour: how likely what the policy does was to whoever made the data.
Numbers are compared with those that were done near by: the distance from the policy's action to the nearest of the
actions of the nearest observations, beside the same distance of what was done itself.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from rookery.ope.behavior import ClonedBehavior
from rookery.ope.episodes import WholeEpisodes
from rookery.ope.judged_policy import JudgedPolicy
from rookery.report.judgement import Coverage

NEAR = 10
"""Observations that count as near."""

JUDGED, AMONG = 1_000, 5_000
"""Decisions that are looked at, and that they are looked for among, at most."""

USUAL = 0.95
"""Part of the data's own distances below which one is usual."""

FEW_NUMBERS = 256
"""Numbers in an observation up to which it is compared as it is; else what the policy makes of it."""


def of_choices(judged: JudgedPolicy, episodes: WholeEpisodes, cloned: ClonedBehavior, level: float) -> Coverage:
    """Says how often the policy chooses what the data's behaviour hardly ever chose.

    Args:
        judged: The policy.
        episodes: The data.
        cloned: The behaviour.
        level: Probability below which a choice counts as hardly ever made.
    """
    behaved = cloned.probabilities(episodes)
    with torch.no_grad():
        parts = [judged.probabilities(episodes.obs(rows)) for rows in episodes.parts()]
    chosen = torch.cat(parts).double().cpu().numpy()
    played = np.concatenate([episodes.actions(rows).numpy() for rows in episodes.parts()])
    rare = float((chosen * (behaved < level)).sum(1).mean())
    rng = np.random.default_rng(0)
    drawn = (chosen.cumsum(1) > rng.random((len(chosen), 1)) * chosen.sum(1, keepdims=True)).argmax(1)
    every = np.arange(len(episodes))
    return Coverage("probability", level, rare, tuple(behaved[every, drawn]), tuple(behaved[every, played]))


def of_numbers(judged: JudgedPolicy, episodes: WholeEpisodes, halves: np.ndarray, rng: np.random.Generator) -> Coverage:
    """Says how far the policy's numbers lie from those of the data near by, in units of half their range, or of the
    data's standard deviation where they have no bounds.

    Args:
        judged: The policy.
        episodes: The data.
        halves: ``[E]`` which half each episode is in; those of one are looked for among those of the other.
        rng: Draws which decisions are looked at, and the policy's actions.
    """
    sides = [np.flatnonzero(halves[episodes.episode] == half) for half in (0, 1)]
    mine = np.sort(rng.permutation(sides[0])[:JUDGED])
    others = np.sort(rng.permutation(sides[1])[:AMONG])
    at, among = _places(judged, episodes, mine), _places(judged, episodes, others)
    center, spread = among.mean(0), among.std(0, correction=0)
    spread = torch.where(spread > 1e-6, spread, torch.ones_like(spread))
    near = torch.cdist((at - center) / spread, (among - center) / spread).topk(min(NEAR, len(others)), 1, False).indices
    around = judged.within_bounds(episodes.actions(others))[near]
    unit = torch.ones(around.shape[-1], dtype=torch.float32, device="cpu")
    if not judged.policy.action_spec.is_bounded:
        unit = episodes.actions(others).std(0, correction=0).clamp(min=1e-6)
    played = judged.within_bounds(episodes.actions(mine))
    planned = judged.numbers(episodes.obs(mine), 1, rng)[0].cpu()

    def distance(action: Tensor) -> np.ndarray:
        apart = ((around - action.unsqueeze(1)) / unit).square().sum(2).min(1).values.sqrt()
        found: np.ndarray = (apart / math.sqrt(action.shape[1])).double().numpy()
        return found

    own, policy = distance(played), distance(planned)
    level = float(np.quantile(own, USUAL))
    return Coverage("distance", level, float((policy > level).mean()), tuple(policy), tuple(own))


@torch.no_grad()
def _places(judged: JudgedPolicy, episodes: WholeEpisodes, rows: np.ndarray) -> Tensor:
    """Where the observations of some decisions lie, ``[n, F]``: their numbers, or what the policy makes of them."""
    leaves = judged.policy.own_spec.leaves
    plain = all(leaf.kind == "box" and not leaf.is_image for leaf in leaves)
    found = []
    for start in range(0, len(rows), 1024):
        obs = episodes.obs(rows[start : start + 1024])
        if plain and sum(math.prod(leaf.shape) for leaf in leaves) <= FEW_NUMBERS:
            found.append(torch.cat([obs[leaf.path].flatten(1).float() for leaf in leaves], 1))
        else:
            device = next(judged.policy.parameters()).device
            found.append(judged.policy.features({path: leaf.to(device) for path, leaf in obs.items()}).cpu())
    return torch.cat(found)
