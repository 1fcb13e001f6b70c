"""Costs of decisions, beside rewards: the number ``cost`` in the info of an environment's step, for algorithms with a
limit on them.

A decision's cost is the sum from its action to the slot's next decision, like its reward. It is recorded only for a
learner whose `Demand` has `costs`; for any other policy no info is kept or read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from torch import Tensor

from rookery.core.batch import COST
from rookery.core.errors import EnvError
from rookery.envs.base import VectorEnv
from rookery.policies.policy import Policy
from rookery.rollout.noise import ActionNoise
from rookery.rollout.slots import SlotStore, WorkerPolicy
from rookery.rollout.storage import DecisionSlab, Outcome


class CostPolicy(WorkerPolicy):
    """A policy whose decisions are recorded with their costs, in the further column `COST`.

    Args:
        env: The environments.
        name: Name in the policy mapping.
        number: Its place among the worker's policies.
        policy: Its own copy of weights and normalizer.
        store: Storage of its decisions.
        noise: Random numbers of its actions.
    """

    fixed: ClassVar[tuple[str, ...]] = ("env", "_is_known")
    reads_infos: ClassVar[bool] = True

    def __init__(
        self, env: VectorEnv, name: str, number: int, policy: Policy, store: SlotStore, noise: ActionNoise
    ) -> None:
        super().__init__(name, number, policy, store, noise)
        self.env = env
        self._is_known = False  # whether the environment has reported a cost

    def act(self, decisions: DecisionSlab, noise: Tensor | None, memory: np.ndarray | None) -> None:
        """Writes actions as `WorkerPolicy.act` does; the costs of their decisions begin at 0."""
        if self.env.keep_infos != "all":
            self.env.keep_infos = "all"
        super().act(decisions, noise, memory)
        for cost in decisions.extras.values():
            cost.fill(0.0)

    def record(self, slots: np.ndarray | None, outcome: Outcome) -> None:
        """Stores the outcome of a step, with its costs; see `WorkerPolicy.record`.

        Raises:
            EnvError: If the environment reports no cost, or one that is not a finite number.
        """
        if self.store is not None:
            self.store.add_to_extra(COST, slots, self.costs_of(slots, outcome))
        super().record(slots, outcome)

    def costs_of(self, slots: np.ndarray | None, outcome: Outcome) -> np.ndarray:
        """Returns the costs ``[N]`` of the last step of slots (None = all), 0 where it reported none."""
        rows = self.row_of_slot if slots is None else self.row_of_slot[slots]
        agents, infos = self.env.kinds[self.kind].agents, self.env.infos
        costs, found = np.zeros(len(rows), dtype=np.float32), False
        for place, row in enumerate(rows.tolist()):
            lane, column = divmod(row, len(agents))
            info = infos.get(lane, {}).get(agents[column])
            if isinstance(info, Mapping) and COST in info:
                costs[place], found = self._number(info[COST], agents[column]), True
        if not found and not self._is_known and (outcome.waiting is None or outcome.waiting.any()):
            raise EnvError(
                f"{self.env.name}: no info of the first step has {COST!r}, which policy {self.name!r} needs "
                f"(cost_limit): return it in every step, info = {{{COST!r}: 0.0}} without a cost; an environment that "
                "returns costs beside its rewards, as Safety-Gymnasium does, needs a wrapper that moves them there"
            )
        self._is_known = True
        return costs

    def _number(self, value: object, agent: str) -> float:
        """Returns a cost as a number."""
        try:
            cost = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            cost = float("nan")
        if not np.isfinite(cost):
            raise EnvError(f"{self.env.name}: info[{COST!r}] of {agent!r} is {value!r}, it must be a finite number")
        return cost
