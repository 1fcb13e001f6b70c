"""`RowWriter`: checks the values of environments and writes them into the rows of a slab."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from rookery.core.errors import SpaceError
from rookery.core.spaces.arrays import ObsSpec, Tree
from rookery.envs.adapters.gym_env import AGENT
from rookery.envs.adapters.lane import GROUP_REWARD, Agent, Breach, LaneStep
from rookery.envs.base import Rows
from rookery.envs.vector.layout import Layout
from rookery.envs.vector.slab import FRESH, GIVEN_UP, STALE, Slab


class LaneBreach(Exception):
    """Raised for a broken contract that was found when many lanes were checked together."""

    def __init__(self, lane: int, breach: Breach) -> None:
        super().__init__(breach.problem)
        self.lane = lane
        self.breach = breach


def finite(reward: Any, name: str, agent: Agent) -> float:
    """Returns a reward as a number; raises a Breach if it is not finite."""
    value = np.asarray(reward)
    if value.size != 1 or value.dtype.kind not in "fiub":
        raise Breach(f"{name} is {reward!r}, expected a finite number", agent)
    if not np.isfinite(value).all():
        raise Breach(f"non-finite {name} {value.item()}, expected a finite number", agent)
    return float(value.item())


class RowWriter:
    """Writes rows. Rewards and waiting flags are delayed until `flush` and then written for all lanes together.

    Attributes:
        any_end: Whether an episode of a lane or an agent ended in this step.
        any_rest: Whether an agent may rest.
        targets: For each kind a view of each row of its first leaf, and the shape of one observation there.
        known: For each kind whose observations are one array of numbers, the type of the last one: an observation of
            that type and shape is copied without further checks. None for other kinds.
        views: For each kind with `exact` its `targets` as memory that takes only data of their type and shape.
        exact: For each kind whether all observations so far were such arrays of floats.
    """

    def __init__(self, announce: Callable[[int, Agent], None]) -> None:
        """Begins without rows.

        Args:
            announce: Called with a lane and an agent without a row; must cause a call of `attach` with a layout that
                has one.
        """
        self._announce = announce
        self.any_end = False
        self.any_rest = False

    def attach(self, slab: Slab, agents: Layout) -> None:
        """Writes to these rows from now on."""
        self._slab, self._agents = slab, agents
        self._widths = [len(kind.agents) for kind in agents.kinds]
        self._spots = [
            {agent: (k, lane * self._widths[k] + column) for agent, (k, column) in agents.place.items()}
            for lane in range(slab.num_lanes)
        ]  # kind and row of each agent of each lane
        self._specs = [kind.obs for kind in agents.kinds]
        self._paid: list[tuple[list[int], list[Any]]] = [([], []) for _ in agents.kinds]  # rows and their rewards
        self._acting: list[list[int]] = [[] for _ in agents.kinds]  # rows that will wait
        names = {str(agent): agent for agent in agents.place}
        self._groups = [(group, [names[name] for name in members]) for group, members in agents.groups.items()]
        self._group_of = {agent: number for number, (_, members) in enumerate(self._groups) for agent in members}
        first = [(spec.leaves[0], len(spec.leaves) == 1) for spec in self._specs]
        self.known = [leaf.dtype if alone and leaf.kind == "box" else None for leaf, alone in first]
        arrays = [block.rows.obs[leaf.path] for (leaf, _), block in zip(first, slab.blocks, strict=True)]
        self.targets = [([array[row, ...] for row in range(len(array))], array.shape[1:]) for array in arrays]
        self.exact = [
            known is not None and known.kind == "f" and array.ndim == 2
            for known, array in zip(self.known, arrays, strict=True)
        ]
        self.views: list[list[Any]] = [
            [row.data for row in rows] if exact else rows
            for (rows, _), exact in zip(self.targets, self.exact, strict=True)
        ]
        # leaves of a kind whose leaves are all floats, which only need to be finite
        self._floats = [
            list(block.rows.obs.values())
            if all(leaf.kind in ("box", "entities") and leaf.dtype.kind == "f" for leaf in spec.leaves)
            else None
            for spec, block in zip(self._specs, slab.blocks, strict=True)
        ]

    def place_of(self, lane: int, agent: Agent) -> tuple[int, int]:
        """Returns kind and row of an agent of a lane; a new agent gets a row."""
        if agent not in self._spots[lane]:
            self._announce(lane, agent)
        return self._spots[lane][agent]

    def record(self, lane: int, shown: LaneStep) -> None:
        """Records the content of a multi-agent lane's step; raises a Breach if something in it does not fit."""
        for agent, reward in shown.reward.items():
            k, row = self._spots[lane].get(agent) or self.place_of(lane, agent)
            rows, rewards = self._paid[k]
            rows.append(row)
            rewards.append(reward)
        for agent in shown.terminated:
            k, row = self.place_of(lane, agent)
            self._slab.blocks[k].rows.terminated[row] = self.any_end = True
        for agent in shown.truncated:
            k, row = self.place_of(lane, agent)
            block = self._slab.blocks[k]
            block.rows.truncated[row] = self.any_end = True
            if block.rows.terminated[row]:
                continue
            if agent in shown.final:
                self.write(self._specs[k], block.final_obs, row, agent, shown.final[agent], shown.masks.get(agent))
                self._close(k, row, FRESH)
            else:  # the row still holds the agent's last observation
                self.keep_final(k, row, STALE)
        if shown.group_reward:
            self._pay_groups(lane, shown.group_reward)
        self.observe(lane, shown)

    def _pay_groups(self, lane: int, rewards: Mapping[Agent, Any]) -> None:
        """Writes the rewards of groups, which one or several members report, for all members.

        Raises:
            Breach: If an agent is in no group, reports no finite number, or another one than a mate.
        """
        by: dict[int, Agent] = {}
        for agent, reward in rewards.items():
            if (number := self._group_of.get(agent)) is None:
                raise Breach(f"info has {GROUP_REWARD}, but none of the environment's groups has this agent", agent)
            earned = finite(reward, GROUP_REWARD, agent)
            group, members = self._groups[number]
            (k, row) = self.place_of(lane, members[0])
            shown = self._slab.blocks[k].rows.group_reward
            if number in by and shown is not None and shown[row] != earned:
                raise Breach(
                    f"{GROUP_REWARD} is {earned:g}, and {str(by[number])!r} reports {shown[row]:g} in the same step; "
                    f"both are of group {group!r}, whose members must report the same, or only one of them",
                    agent,
                )
            by[number] = agent
            for member in members:
                k, row = self.place_of(lane, member)
                if (shown := self._slab.blocks[k].rows.group_reward) is not None:
                    shown[row] = earned

    def observe(self, lane: int, shown: LaneStep) -> None:
        """Writes the observations of the agents that must act, and marks them as waiting or resting.

        Raises:
            Breach: If one does not fit the agent's space.
        """
        resting = shown.resting()
        for agent, obs in shown.obs.items():
            k, row = self._spots[lane].get(agent) or self.place_of(lane, agent)
            target, shape = self.targets[k]
            if type(obs) is np.ndarray and obs.dtype is self.known[k] and obs.shape == shape:
                target[row][...] = obs
            else:
                self.write(self._specs[k], self._slab.blocks[k].rows.obs, row, agent, obs, shown.masks.get(agent))
                if self.known[k] is not None and isinstance(obs, np.ndarray):
                    self.known[k] = obs.dtype
            if resting or self.any_rest:
                self.let_rest(k, row, agent in resting)
            else:
                self._acting[k].append(row)

    def let_rest(self, k: int, row: int, resting: bool) -> None:
        """Marks a row as resting, or as waiting for an action again."""
        rows = self._slab.blocks[k].rows
        rows.resting[row], rows.waiting[row] = resting, not resting
        self.any_rest |= resting

    def write(self, spec: ObsSpec, tree: Tree, row: int, agent: Agent, obs: Any, info_mask: Any) -> None:
        """Writes one observation; an agent without a mask in its info this time may take any action.

        Raises:
            Breach: If it does not fit the space.
        """
        mask = None
        if agent in self._agents.masked:
            mask = self._agents.masked[agent] if info_mask is None else info_mask
        try:
            spec.write(obs, tree, row, mask)
        except SpaceError as error:
            raise Breach(str(error), agent) from None

    def flush(self) -> None:
        """Writes the rewards of the step and the waiting flags; raises a LaneBreach if a reward is not finite."""
        for k, block in enumerate(self._slab.blocks):
            rows, rewards = self._paid[k]
            if rows:
                self.pay_all(k, rows, rewards)
                rows.clear()
                rewards.clear()
            if self._acting[k]:
                block.rows.waiting[self._acting[k]] = True
                self._acting[k].clear()
        if self.any_rest:
            self.any_rest = any(True in block.rows.resting.tobytes() for block in self._slab.blocks)

    def pay_all(self, k: int, rows: list[int] | range, rewards: list[Any]) -> None:
        """Writes rewards, checked together, and one by one if there is an error.

        Raises:
            LaneBreach: If one is not finite.
        """
        reward = self._slab.blocks[k].rows.reward
        try:
            if isinstance(rows, range) and type(total := sum(rewards)) is float and math.isfinite(total):
                reward[:] = rewards  # the usual type of rewards, without a search for errors
                return
            given = np.array(rewards)  # in its own type: a text such as "1" would be taken for a number
            if isinstance(rows, range):
                reward[:] = given
            else:
                reward[rows] = given
            sound = given.dtype.kind in "fiub" and False not in np.isfinite(reward).tobytes()
        except (TypeError, ValueError):
            sound = False
        if not sound:
            for row, one in zip(rows, rewards, strict=True):
                lane, column = divmod(row, self._widths[k])
                try:
                    self.pay(self._slab.blocks[k].rows, row, one, self._agents.ids[k][column])
                except Breach as breach:
                    raise LaneBreach(lane, breach) from None

    def pay(self, rows: Rows, row: int, reward: Any, agent: Agent = AGENT) -> None:
        """Writes one reward, checked; raises a Breach if it is not finite."""
        if not (isinstance(reward, float) and math.isfinite(reward)):  # the usual types of rewards need no array
            reward = finite(reward, "reward", agent)
        rows.reward[row] = reward

    def keep_final(self, k: int, row: int, which: int) -> None:
        """Keeps the content of a row of kind `k` as the last observation of a truncated agent.

        Raises:
            Breach: If it is outside the agent's space.
        """
        block = self._slab.blocks[k]
        for path, array in block.rows.obs.items():
            block.final_obs[path][row] = array[row]
        self._close(k, row, which)

    def _close(self, k: int, row: int, which: int) -> None:
        spec, block = self._specs[k], self._slab.blocks[k]
        if spec.has_mask:
            block.final_obs[spec.leaves[-1].path][row] = (
                True  # no policy acts on it, and many allow no action at the end
            )
        if problem := spec.check(block.final_obs, slice(row, row + 1)):
            agent = self._agents.ids[k][row % self._widths[k]]
            raise Breach(f"{problem}, in the last observation before a truncation", agent)
        block.finals[row] = which

    def give_up(self, lane: int) -> None:
        """Truncates all agents of a lane with their last observations."""
        self.any_end = True
        for block, width in zip(self._slab.blocks, self._widths, strict=True):
            mine = slice(lane * width, (lane + 1) * width)
            for path, array in block.rows.obs.items():
                block.final_obs[path][mine] = array[mine]
            block.rows.reward[mine], block.rows.waiting[mine], block.rows.resting[mine] = 0.0, False, False
            block.rows.terminated[mine], block.rows.truncated[mine] = False, True
            if block.rows.group_reward is not None:
                block.rows.group_reward[mine] = 0.0
            block.finals[mine] = GIVEN_UP

    def wipe(self) -> None:
        """Clears the rewards and ends of the last step."""
        for block in self._slab.blocks:
            block.rows.reward.fill(0.0)
            if block.rows.group_reward is not None:
                block.rows.group_reward.fill(0.0)
        if self.any_end:
            self._slab.wipe_ends()
            self.any_end = False

    def clear_waiting(self) -> None:
        """Clears all waiting flags."""
        for block, acting in zip(self._slab.blocks, self._acting, strict=True):
            block.rows.waiting[:] = False
            acting.clear()
            if self.any_rest:
                block.rows.resting[:] = False
        self.any_rest = False

    def check(self) -> None:
        """Checks all observations, in one test per leaf; raises a LaneBreach if one is outside its space."""
        for k, (spec, block) in enumerate(zip(self._specs, self._slab.blocks, strict=True)):
            floats = self._floats[k]
            if floats is not None and not any(False in np.isfinite(leaf).tobytes() for leaf in floats):
                continue
            if spec.check(block.rows.obs, slice(None)):
                for row in range(len(block.rows.reward)):
                    if problem := spec.check(block.rows.obs, slice(row, row + 1)):
                        lane, column = divmod(row, self._widths[k])
                        raise LaneBreach(lane, Breach(problem, self._agents.ids[k][column]))
