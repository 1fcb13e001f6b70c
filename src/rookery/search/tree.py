"""Search trees of many games at once, as arrays: nodes of all trees have one numbering, and no object of their own.

A node is a state with a player to move. Numbers of an action count for that player: the sum of the returns of its
visits, from the reward of the action on. The value of the next node is multiplied by a factor, which is negative where
the other player moves there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rookery.core.spaces.arrays import MASK, Tree
from rookery.envs.game_rules import GameRules

Evaluate = Callable[[Tree], tuple[np.ndarray, np.ndarray]]
"""Returns prior logits ``[N, A]`` and values ``[N]`` of what the player to move observes, ``[N, ...]`` by leaf path."""


@dataclass
class Descent:
    """Actions on the way down, one in each of some trees.

    Attributes:
        tree: ``[K]`` numbers of the trees.
        node: ``[K]`` their nodes.
        action: ``[K]`` the actions there.
    """

    tree: np.ndarray
    node: np.ndarray
    action: np.ndarray


class Trees:
    """Trees from B states; the nodes 0 to B - 1 are the roots.

    Args:
        game: The rules.
        evaluate: Evaluates new nodes, of all trees in one call.
        state: ``[B, ...]`` the states of the roots, which are not over.
        simulations: Nodes that can be added to each tree.
        discount: Discount from a player's decision to its next one.

    Attributes:
        logp: ``[nodes, A]`` log-probabilities of the prior, -inf where an action is not allowed.
        prior: ``[nodes, A]`` its probabilities.
        value: ``[nodes]`` values of the evaluation; 0 where the game is over.
        visits: ``[nodes, A]`` visits of each action.
        total: ``[nodes, A]`` sum of their returns.
        evaluations: States evaluated so far.
    """

    def __init__(
        self, game: GameRules, evaluate: Evaluate, state: np.ndarray, simulations: int, discount: float
    ) -> None:
        self.game, self.evaluate = game, evaluate
        self.size = len(state)
        self.discount = discount
        nodes = self.size * (simulations + 1)
        self._used = 0
        self._state = np.empty((nodes, *state.shape[1:]), state.dtype)
        self._player = np.zeros(nodes, np.int64)
        self._over = np.zeros(nodes, bool)
        self._reward = np.zeros(nodes)
        self._factor = np.zeros(nodes)
        self.value = np.zeros(nodes)
        self.evaluations = 0
        self.logp = self.prior = self.visits = self.total = np.zeros((nodes, 0))
        self._child = np.zeros((nodes, 0), np.int64)
        self._add(state, np.zeros(self.size, bool))

    def _add(self, state: np.ndarray, over: np.ndarray) -> np.ndarray:
        """Adds nodes with states ``[N, ...]``; returns their numbers ``[N]``."""
        new = np.arange(self._used, self._used + len(state))
        self._used += len(state)
        self._state[new], self._over[new], self._player[new] = state, over, self.game.player(state)
        if over.all():
            return new
        asked = new[~over]
        obs = self.game.observe(state[~over])
        logits, value = self.evaluate(obs)
        self.evaluations += len(asked)
        if not self.logp.shape[1]:
            self._allocate(logits.shape[1])
        if MASK in obs:
            logits = np.where(obs[MASK], logits, -np.inf)
        logits = logits - logits.max(axis=1, keepdims=True)
        odds = np.exp(logits)
        sums = odds.sum(axis=1, keepdims=True)
        self.prior[asked], self.logp[asked] = odds / sums, logits - np.log(sums)
        self.value[asked] = value
        return new

    def _allocate(self, actions: int) -> None:
        shape = (len(self.value), actions)
        self.logp, self.prior, self.visits, self.total = np.zeros((4, *shape))
        self._child = np.full(shape, -1, np.int64)

    def descend(self, action: np.ndarray, choose: Callable[[np.ndarray], np.ndarray]) -> list[Descent]:
        """Returns the way of a simulation from each root to an action without a node, or to the end of the game.

        Args:
            action: ``[B]`` the actions of the roots.
            choose: Returns the actions ``[K]`` of nodes ``[K]`` below a root.
        """
        tree = node = np.arange(self.size)
        way = []
        while True:
            way.append(Descent(tree, node, action))
            node = self._child[node, action]
            goes_on = (node >= 0) & ~self._over[node]
            if not goes_on.any():
                return way
            tree, node = tree[goes_on], node[goes_on]
            action = choose(node)

    def simulate(self, way: list[Descent]) -> None:
        """Adds a node at the end of each tree's way, unless the game is over there, and the return of the simulation to
        the numbers of all actions on it.
        """
        returns = np.zeros(self.size)
        ends = [self._child[step.node, step.action] for step in way]
        new = [end < 0 for end in ends]
        tree, node, action = (
            np.concatenate([getattr(step, name)[which] for step, which in zip(way, new, strict=True)])
            for name in ("tree", "node", "action")
        )
        if len(node):
            state, reward, over = self.game.move(self._state[node], action)
            added = self._add(state, over)
            self._child[node, action] = added
            self._reward[added] = reward
            changes = self._player[added] != self._player[node]
            self._factor[added] = np.where(changes, -np.sqrt(self.discount), self.discount)
            returns[tree] = self.value[added]
        for step in reversed(way):
            child = self._child[step.node, step.action]
            earned = self._reward[child] + self._factor[child] * returns[step.tree]
            returns[step.tree] = earned
            self.visits[step.node, step.action] += 1.0
            self.total[step.node, step.action] += earned
