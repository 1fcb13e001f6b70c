"""Slots of a policy that plans: each decision is a search from the state of its lane."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from rookery.core.device import device_of
from rookery.core.errors import ConfigError
from rookery.core.spaces.arrays import Tree
from rookery.envs.base import VectorBase, VectorEnv
from rookery.envs.game_rules import GameRules
from rookery.models.search_head import POLICY, VALUE, ObservationRows, PriorNetwork, SearchHead, SearchSpec
from rookery.native.forward import attach
from rookery.policies.policy import Policy
from rookery.rollout.noise import ActionNoise
from rookery.rollout.slots import SlotStore, WorkerPolicy
from rookery.rollout.storage import DecisionSlab
from rookery.search.gumbel import gumbel_noise, search


def rules_of(env: VectorEnv) -> GameRules | None:
    """Returns the rules of an environment for search; None if it cannot be searched."""
    return env.rules() if isinstance(env, VectorBase) else None


class SearchingPolicy(WorkerPolicy):
    """A policy that searches before it acts, from the states of the lanes. Where it is recorded, it writes the improved
    policy and the value of the search beside its actions; `logp` is that of the improved policy.

    Args:
        env: The environments.
        name: Name in the policy mapping.
        number: Its place among the worker's policies.
        policy: Its own copy of weights and normalizer.
        store: Storage of its decisions; None if they are not recorded.
        noise: Random numbers of its actions.
        of: The policy whose weights it uses; None = the policy of its own name.

    Attributes:
        spec: Numbers of its searches.
        evaluations: States evaluated since this object was created.
    """

    fixed: ClassVar[tuple[str, ...]] = ("env", "evaluations", "spec", "_forward", "_device")

    def __init__(
        self,
        env: VectorEnv,
        name: str,
        number: int,
        policy: Policy,
        store: SlotStore | None,
        noise: ActionNoise,
        of: str | None = None,
    ) -> None:
        super().__init__(name, number, policy, store, noise, of)
        head = policy.head_spec
        assert isinstance(head, SearchHead)
        self.env = env
        self.evaluations = 0
        self.spec: SearchSpec = head
        self._forward = attach(PriorNetwork(policy.trunk, policy.head, policy.model), learns=False)
        self._device = device_of(policy)

    def act(self, decisions: DecisionSlab, noise: Tensor | None, memory: np.ndarray | None) -> None:
        """Writes the actions that searches chose; see `WorkerPolicy.act`. Without noise they are deterministic."""
        slots = np.arange(len(self.taken)) if self.deciding is None else self.deciding
        self.act_in(self.row_of_slot[slots], decisions, noise)

    def act_in(self, rows: np.ndarray, decisions: DecisionSlab, noise: Tensor | None) -> None:
        """Writes the actions for rows ``[N]`` of the slab; other arguments as of `act`."""
        game = rules_of(self.env)
        if game is None:
            raise ConfigError(f"policy {self.name!r}: {self.env.name} has no rules that a search can use")
        state = game.get_state(rows // len(self.env.kinds[self.kind].agents))
        drawn = None if noise is None else gumbel_noise(noise.cpu().numpy())
        found = search(game, self.evaluate, state, drawn, self.spec)
        self.evaluations += found.evaluations
        every = np.arange(len(rows))
        decisions.action[...] = found.action
        decisions.logp[...] = np.log(np.maximum(found.policy[every, found.action], 1e-30))
        if decisions.extras:
            decisions.extras[POLICY][...], decisions.extras[VALUE][:, 0] = found.policy, found.value

    def evaluate(self, obs: Tree) -> tuple[np.ndarray, np.ndarray]:
        """Returns logits ``[N, A]`` and values ``[N]``, within the range of returns, of raw observations."""
        seen = {path: torch.from_numpy(leaf).to(self._device) for path, leaf in obs.items()}
        with torch.no_grad():
            prior = self._forward.outputs(ObservationRows(self.policy.normalize(seen)))
        value = prior.value.clamp(self.spec.low, self.spec.high)
        return prior.logits.cpu().numpy(), value.cpu().numpy()
