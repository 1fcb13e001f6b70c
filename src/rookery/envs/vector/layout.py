"""`Layout`: the agents, their spaces, and their rows. It grows when new agents appear."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rookery.core.errors import SpaceError
from rookery.core.spaces.arrays import ActionSpec, ObsSpec, action_spec, check_maskable, mask_width, obs_spec
from rookery.core.spaces.entity_set import bounded
from rookery.envs.adapters.gym_env import GymLane
from rookery.envs.adapters.lane import Agent, Breach, Lane, LaneStep, declared_groups, info_masks
from rookery.envs.base import Kind
from rookery.envs.groups import checked_groups


class Layout:
    """The kinds of agents of an environment and the place of each agent in them.

    Attributes:
        name: Name of the environment for notes.
        kinds: The kinds, with the agents' names for users.
        ids: For each kind the environment's own agent ids, in the order of the kind's names.
        place: Kind and column of an agent, in the order in which agents were announced.
        masks_in_info: Whether action masks come in `info`.
        masked: The agents with such masks, each with the mask that allows every action.
        notes: Lines a user should read once.
        groups: Names of the agents that win and lose together, by the name of their group.
        version: Counts changes.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.kinds: tuple[Kind, ...] = ()
        self.ids: list[list[Agent]] = []
        self.place: dict[Agent, tuple[int, int]] = {}
        self.masks_in_info = False
        self.masked: dict[Agent, np.ndarray] = {}
        self.notes: tuple[str, ...] = ()
        self.groups: dict[str, tuple[str, ...]] = {}
        self.version = 0

    def read_groups(self, lane: Lane) -> None:
        """Takes over the groups that an environment declares; raises an EnvError if they are not of its agents."""
        groups, agents = declared_groups(lane.env), [str(agent) for agent in self.place]
        if isinstance(lane, GymLane) or {str(group) for group in groups} <= {*agents}:
            return  # groups may name teams
        self.groups = checked_groups(groups, agents, self.name)

    def survey(self, lane: Lane) -> None:
        """Determines the agents and their observations from one environment.

        Unless all spaces and masks are defined from the start, the environment is reset once to find agents that appear
        and action masks in `info`.

        Raises:
            Breach: If the spaces of an agent cannot be used, or its mask does not fit its actions.
        """
        shown = LaneStep({})
        agents = list(lane.agents)
        specs = [self._specs(lane, agent) for agent in agents]
        if not agents or any(mask_width(action.space) and not obs.has_mask for obs, action in specs):
            shown = lane.reset(0)
            self.masks_in_info = bool(shown.masks)
            agents += [agent for agent in shown.obs if agent not in agents]
        for agent in agents:
            self.announce(lane, agent)
        self.check_masks(shown)
        self.version = 0

    def announce(self, lane: Lane, agent: Agent) -> None:
        """Adds a new agent: at the end of the kind with its spaces, or in a new kind at the end.

        Raises:
            Breach: If its spaces are unknown, or cannot be used.
        """
        obs, action = self._specs(lane, agent)
        for dropped in obs.dropped:
            note = f"{self.name}: {dropped}; that part is left out"
            if note not in self.notes:
                self.notes = (*self.notes, note)
        self._add(agent, obs, action)

    def check_masks(self, shown: LaneStep) -> None:
        """Refuses a mask in `info` that cannot be used; only the first reset of an environment is checked.

        Raises:
            Breach: If the actions of an agent with a mask are not discrete.
        """
        for agent, mask in info_masks(shown.infos).items():
            if agent in self.place and mask is not None:
                try:
                    check_maskable(self.kinds[self.place[agent][0]].action.space, "info")
                except SpaceError as error:
                    raise Breach(str(error), agent) from error

    def merge(self, other: Layout) -> None:
        """Adds the agents that only `other` has, in the order in which they were announced there."""
        for agent, (k, _) in other.place.items():
            if agent not in self.place:
                kind = other.kinds[k]
                if agent in other.masked:
                    self.masked[agent] = other.masked[agent]
                self._add(agent, kind.obs, kind.action)
        self.notes = (*self.notes, *(note for note in other.notes if note not in self.notes))

    def _add(self, agent: Agent, obs: ObsSpec, action: ActionSpec) -> None:
        fitting = [k for k, kind in enumerate(self.kinds) if kind.obs == obs and kind.action == action]
        if not fitting:
            fitting = [len(self.kinds)]
            self.kinds = (*self.kinds, Kind((), obs, action))
            self.ids.append([])
        k = fitting[0]
        kind = replace(self.kinds[k], agents=(*self.kinds[k].agents, str(agent)))
        self.kinds = (*self.kinds[:k], kind, *self.kinds[k + 1 :])
        self.place[agent] = (k, len(self.ids[k]))
        self.ids[k].append(agent)
        self.version += 1

    def _specs(self, lane: Lane, agent: Agent) -> tuple[ObsSpec, ActionSpec]:
        obs, action = lane.spaces(agent)
        obs = bounded(obs, lane.max_entities)
        try:
            spec = obs_spec(obs, action)
            if self.masks_in_info and mask_width(action) and not spec.has_mask:
                spec = obs_spec(obs, action, info_mask=True)
                self.masked[agent] = np.ones(mask_width(action), dtype=bool)
            return spec, action_spec(action)
        except SpaceError as error:
            raise Breach(str(error), agent) from error
