"""Gumbel AlphaZero (Danihelka et al. 2022, "Policy improvement by planning with Gumbel", ICLR): a search that improves
the policy with few simulations.

At the root, actions are sampled without replacement by Gumbel noise, and sequential halving divides the simulations
among them. Below, actions are chosen such that visits follow the improved policy.
"""

from __future__ import annotations

import math
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from rookery.envs.game_rules import GameRules
from rookery.models.search_head import SearchSpec
from rookery.search.tree import Evaluate, Trees


class Searched(NamedTuple):
    """Results of searches from B states.

    Attributes:
        action: ``[B]`` the chosen actions.
        policy: ``[B, A]`` the improved policies: softmax of the prior's logits plus the scaled completed values.
        value: ``[B]`` values of the improved policies.
        visits: ``[B, A]`` visits of the roots' actions.
        evaluations: States that were evaluated.
    """

    action: np.ndarray
    policy: np.ndarray
    value: np.ndarray
    visits: np.ndarray
    evaluations: int


def search(
    game: GameRules, evaluate: Evaluate, state: np.ndarray, noise: np.ndarray | None, spec: SearchSpec
) -> Searched:
    """Searches from states.

    Args:
        game: The rules.
        evaluate: Evaluates states.
        state: ``[B, ...]`` states, not over.
        noise: ``[B, A]`` Gumbel noise of the roots' actions; None = none, so that equal states have equal results.
        spec: Numbers of the search.
    """
    trees = Trees(game, evaluate, state, spec.simulations, spec.discount)
    roots = np.arange(len(state))
    drawn = trees.logp[roots] + (0.0 if noise is None else noise)
    considered = np.minimum(np.isfinite(drawn).sum(axis=1), spec.considered_actions)
    plan = halving_plans(spec.considered_actions, spec.simulations)[considered]
    below = partial(choose, trees, spec)
    for simulation in range(spec.simulations):
        score = drawn + completed(trees, spec, roots)[0]
        due = trees.visits[roots] == plan[:, simulation, None]
        action = np.where(due, score, -np.inf).argmax(axis=1)
        trees.simulate(trees.descend(action, below))
    visits = trees.visits[roots]
    scaled, value = completed(trees, spec, roots)
    most = visits == visits.max(axis=1, keepdims=True)
    action = np.where(most, drawn + scaled, -np.inf).argmax(axis=1)
    policy = softmax(trees.logp[roots] + scaled)
    return Searched(action, policy, (policy * value).sum(axis=1), visits, trees.evaluations)


def completed(trees: Trees, spec: SearchSpec, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the completed values of actions, scaled to logits by sigma (eq. 8 of the paper), and as returns, ``[K,
    A]`` each.

    An action without visits has the mixed value of appendix D: the mean of the node's value and that of the visited
    actions, weighted by the prior.

    Args:
        trees: The trees.
        spec: Numbers of the search.
        nodes: ``[K]`` nodes.
    """
    visits, prior = trees.visits[nodes], trees.prior[nodes]
    visited = visits > 0
    mean = trees.total[nodes] / np.maximum(visits, 1.0)
    count = visits.sum(axis=1)
    weight = prior * visited
    known = (weight * mean).sum(axis=1) / np.maximum(weight.sum(axis=1), 1e-12)
    mixed = (trees.value[nodes] + count * known) / (1.0 + count)
    value = np.where(visited, mean, mixed[:, None])
    scale = (spec.c_visit + visits.max(axis=1)) * (spec.c_scale / (spec.high - spec.low))
    return scale[:, None] * (value - spec.low), value


def choose(trees: Trees, spec: SearchSpec, nodes: np.ndarray) -> np.ndarray:
    """Returns actions ``[K]`` of nodes ``[K]`` below a root: those whose share of visits is furthest below their
    probability in the improved policy (eq. 14).
    """
    improved = softmax(trees.logp[nodes] + completed(trees, spec, nodes)[0])
    visits = trees.visits[nodes]
    return np.asarray((improved - visits / (1.0 + visits.sum(axis=1, keepdims=True))).argmax(axis=1))


def softmax(logits: np.ndarray) -> np.ndarray:
    """Returns probabilities ``[K, A]`` for logits ``[K, A]``."""
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))


@cache
def halving_plans(most: int, simulations: int) -> np.ndarray:
    """Returns the plans of sequential halving, ``[most + 1, simulations]``: for each number of considered actions, the
    number of earlier visits of the action that a simulation visits.
    """
    plans = [halving_plan(max(1, considered), simulations) for considered in range(most + 1)]
    return np.array(plans, dtype=np.float64).reshape(most + 1, simulations)


def halving_plan(considered: int, simulations: int) -> list[int]:
    """Returns the plan for a number of considered actions (section 3.3 of the paper).

    In each of log2(considered) phases, all remaining actions are visited equally often; then the worse half is left
    out. Simulations that remain go to the last two.
    """
    phases, remaining = max(1, math.ceil(math.log2(considered))), considered
    plan: list[int] = []
    visits = 0
    while len(plan) < simulations:
        rounds = max(1, simulations // (phases * remaining))
        for _ in range(rounds):
            plan += [visits] * remaining
            visits += 1
        remaining = max(2, remaining // 2) if considered > 1 else 1
    return plan[:simulations]


def gumbel_noise(uniform: np.ndarray) -> np.ndarray:
    """Returns standard Gumbel noise for uniform numbers in [0, 1), any shape, float64."""
    return np.asarray(-np.log(-np.log(uniform.astype(np.float64).clip(2.0**-25, 1.0 - 2.0**-25))))
