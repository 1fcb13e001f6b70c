"""Teams as single agents: several agents of an environment with joint observations, actions and rewards, as defined by
the setting `teams` (docs/how-to/teams.md).

The layouts are those of `core/spaces/team_spaces.py`. A team must act where one of its members must. Its reward is the
sum of its members' rewards; the reward of its members' group is that of its own group, and with several groups those
rewards are part of the team's own. Its episode ends when those of all members have: it is terminated if the last ones
to end were, else truncated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rookery.core.errors import ConfigError, EnvError, SpaceError, nearest
from rookery.core.spaces.arrays import MASK, Tree
from rookery.core.spaces.team_spaces import ALIVE, TeamMember, members_of, team_specs
from rookery.envs.base import Kind, Rows, SeedPlan, Step, VectorBase, VectorEnv


@dataclass
class Team:
    """One team, in every lane.

    Attributes:
        name: Its name.
        places: For each member, the number of its kind in the environment, and its column there.
        members: For each member, its part of the team's arrays.
        central: Paths that only critics see.
        earns: Members whose groups' rewards the team earns: one of each group.
        opened: ``[lanes]`` whether the team has acted since its last end.
        over: ``[lanes, members]`` whether a member's episode has ended.
    """

    name: str
    places: tuple[tuple[int, int], ...]
    members: tuple[TeamMember, ...]
    central: tuple[str, ...]
    earns: tuple[int, ...]
    opened: np.ndarray
    over: np.ndarray

    def forget(self, lanes: np.ndarray) -> None:
        """Resets the flags of some lanes."""
        for flags in (self.opened, self.over):
            flags[lanes] = False


@dataclass
class TeamSlab:
    """The rows of a kind of teams, or of a kind of agents that are in no team.

    Attributes:
        kind: Kind that is shown.
        rows: Rows that are shown.
        teams: The teams, in the order of the kind's agents; none of a kind of agents.
        source: For agents, the number of their kind in the environment.
        columns: For agents, their columns there.
        finals: For teams that ended in this step, their rows and last observations.
    """

    kind: Kind
    rows: Rows
    teams: tuple[Team, ...] = ()
    source: int = -1
    columns: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


class TeamEnv(VectorBase):
    """An environment that presents several agents as one.

    Args:
        env: The environment.
        teams: Agents of each team, by its name. The order of a team's agents is that of its members.

    Raises:
        ConfigError: If a team has no agents, one that the environment does not have or that another team has, or the
            name of another agent; if its members' spaces cannot be combined.
    """

    def __init__(self, env: VectorEnv, teams: Mapping[str, Sequence[str]]) -> None:
        super().__init__((), env.num_lanes, env.name, env.exact)
        self.env: Any = env
        self._agents = {name: tuple(agents) for name, agents in teams.items()}
        self._check()
        self.notes = env.notes
        self.render_fps = getattr(env, "render_fps", None)
        self.parameters = getattr(env, "parameters", {})
        self.reported = getattr(env, "reported", None)
        if isinstance(env, VectorBase):
            self.only_one, self.throwaway = env.only_one, env.throwaway
            if env.own_episodes:
                raise ConfigError(
                    f"teams.{next(iter(teams))}: in {env.name} episodes are those of agents, which begin and end at "
                    "different times, so several cannot be seen as one; leave teams out and let poca or mappo learn "
                    "them as groups"
                )
        self.groups = _groups(getattr(env, "groups", {}), self._agents)
        self._slabs: list[TeamSlab] = []
        self._now: Step | None = None
        self._layout = -1
        self._lay_out()

    # --- layout -------------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        """Raises ConfigError for invalid teams."""
        known = [agent for kind in self.env.kinds for agent in kind.agents]
        taken: dict[str, str] = {}
        for name, agents in self._agents.items():
            if not agents:
                raise ConfigError(f"teams.{name}: it has no agents: name them, as in teams: {{{name}: [a, b]}}")
            for agent in agents:
                if agent not in known:
                    raise ConfigError(
                        f"teams.{name}: {self.name} has no agent {agent!r}{nearest(agent, known)}; it has "
                        f"{', '.join(known)}"
                    )
                other = taken.setdefault(agent, name)
                if other != name or agents.count(agent) > 1:
                    raise ConfigError(
                        f"teams.{name}: agent {agent!r} is in team {other!r} already: an agent is in one team, and once"
                    )
        for name in self._agents:
            if name in known and taken.get(name) != name:
                raise ConfigError(f"teams.{name}: {self.name} has an agent of that name: call the team something else")

    def _lay_out(self) -> None:
        """Creates the kinds: those of teams, then those of agents in no team, in the order in which they appeared."""
        env, lanes = self.env, self.num_lanes
        place = {agent: (k, c) for k, kind in enumerate(env.kinds) for c, agent in enumerate(kind.agents)}
        if not self._slabs:
            alike: list[tuple[Any, list[Team]]] = []
            for name, agents in self._agents.items():
                specs, team = self._team(name, [place[agent] for agent in agents])
                same = next((found for other, found in alike if other == specs), None)
                if same is None:
                    alike.append((specs, [team]))
                else:
                    same.append(team)
            for (obs, action), members in alike:
                kind = Kind(tuple(team.name for team in members), obs, action)
                self._slabs.append(TeamSlab(kind, Rows.allocate(kind, lanes), tuple(members)))
        in_teams = {agent for agents in self._agents.values() for agent in agents}
        for number, kind in enumerate(env.kinds):
            columns = [column for column, agent in enumerate(kind.agents) if agent not in in_teams]
            own = Kind(tuple(kind.agents[column] for column in columns), kind.obs, kind.action)
            there = [at for at, slab in enumerate(self._slabs) if slab.source == number]
            made = TeamSlab(own, Rows.allocate(own, lanes), source=number, columns=np.array(columns, dtype=np.int64))
            if there:
                self._slabs[there[0]] = made
            elif columns:
                self._slabs.append(made)
        self.kinds = tuple(slab.kind for slab in self._slabs)
        self._layout, self.layout = env.layout, self.layout + (self._layout >= 0)

    def _team(self, name: str, places: list[tuple[int, int]]) -> tuple[Any, Team]:
        """Returns the layouts of a team, and the team."""
        kinds = [self.env.kinds[number] for number, _ in places]
        try:
            specs = team_specs([(kind.obs, kind.action) for kind in kinds])
        except SpaceError as error:
            raise ConfigError(f"teams.{name}: {error}") from None
        agents = self._agents[name]
        group_of = {agent: group for group, members in getattr(self.env, "groups", {}).items() for agent in members}
        first = {group_of.get(agent): number for number, agent in reversed(list(enumerate(agents)))}
        earns = tuple(sorted(number for group, number in first.items() if group is not None))
        central = tuple(leaf.path for leaf in specs[0].leaves if leaf.is_central)
        lanes, size = self.num_lanes, len(places)
        flags = np.zeros(lanes, dtype=bool), np.zeros((lanes, size), dtype=bool)
        return specs, Team(name, tuple(places), members_of(*specs), central, earns, *flags)

    @property
    def _teams(self) -> list[Team]:
        return [team for slab in self._slabs for team in slab.teams]

    # --- playing ------------------------------------------------------------------------------------------------------

    def reset(self, seeds: SeedPlan) -> Step:
        """Starts episode 0 in every lane; see `VectorEnv.reset`."""
        self._ask()
        return self._begin(self.env.reset(seeds), np.ones(self.num_lanes, dtype=bool))

    def step(self, actions: Sequence[np.ndarray]) -> Step:
        """Steps every lane once; see `VectorEnv.step`."""
        if self._now is None:
            raise EnvError(f"{self.name}: step() before reset()")
        if len(actions) != len(self.kinds):
            raise EnvError(f"{self.name}: {len(actions)} arrays of actions where there are {len(self.kinds)} kinds")
        self._ask()
        return self._show(self.env.step(self._given(actions, self._now)))

    def replan(self, seeds: SeedPlan) -> None:
        """Takes seeds and parameters of later episodes from another plan."""
        self.env.replan(seeds)

    def restart(self, seeds: SeedPlan) -> Step:
        """Begins the next episode in every lane; see `VectorBase.restart`."""
        return self._begin(self.env.restart(seeds), np.ones(self.num_lanes, dtype=bool))

    def state_dict(self) -> dict[str, Any]:
        """Returns the state of every lane, with the members whose episodes have ended; see `VectorEnv.state_dict`."""
        state = self.env.state_dict()
        teams = {team.name: {name: getattr(team, name).copy() for name in ("opened", "over")} for team in self._teams}
        shown = [{"obs": {path: leaf.copy() for path, leaf in slab.rows.obs.items()}} for slab in self._slabs]
        members = {name: list(agents) for name, agents in self._agents.items()}
        return {"env": state, "members": members, "teams": teams, **({"rows": shown} if "rows" in state else {})}

    def load_state_dict(self, state: dict[str, Any], seeds: SeedPlan) -> tuple[Step, np.ndarray]:
        """Resumes from a state instead of `reset`; see `VectorEnv.load_state_dict`."""
        if state.get("members") != {name: list(agents) for name, agents in self._agents.items()}:
            raise EnvError(f"{self.name}: the saved state is of other teams, or of another environment")
        saved = state["teams"]
        step, lost = self.env.load_state_dict(state["env"], seeds)
        for team in self._teams:
            for name, flags in saved[team.name].items():
                getattr(team, name)[...] = flags
        return self._begin(step, lost), lost

    def render(self, lane: int) -> np.ndarray | None:
        """Returns an image of a lane, if the environment can render."""
        picture: np.ndarray | None = self.env.render(lane)
        return picture

    def close(self) -> None:
        """Releases the resources of the environment."""
        self.env.close()

    # --- actions ------------------------------------------------------------------------------------------------------

    def _ask(self) -> None:
        """Copies the `keep` attributes to the environment before a step."""
        self.env.keep_infos, self.env.keep_last_pictures = self.keep_infos, self.keep_last_pictures

    def _given(self, actions: Sequence[np.ndarray], now: Step) -> list[np.ndarray]:
        """Returns the actions for the environment's kinds; the actions of members are taken from those of their
        teams.
        """
        lanes = self.num_lanes
        found = []
        for kind in self.env.kinds:
            one = kind.action.to_env(np.zeros((1, *kind.action.shape), dtype=kind.action.dtype))
            found.append(np.empty((lanes, len(kind.agents), *one.shape[1:]), dtype=one.dtype))
            if one.dtype != object:
                found[-1][...] = one[0]
        for slab, given in zip(self._slabs, actions, strict=True):
            waiting = slab.rows.waiting.reshape(lanes, -1)
            if len(given) != np.count_nonzero(waiting):
                raise EnvError(
                    f"{self.name}: {len(given)} actions of {', '.join(slab.kind.agents)}, where "
                    f"{np.count_nonzero(waiting)} must act"
                )
            lane, column = waiting.nonzero()
            if slab.source >= 0:
                found[slab.source][lane, slab.columns[column]] = given
                continue
            for number, team in enumerate(slab.teams):
                mine = column == number
                acts, where = given[mine], lane[mine]
                for member, (kind, at) in zip(team.members, team.places, strict=True):
                    whole = found[kind]
                    if whole.dtype == object:
                        for each, act in zip(where.tolist(), acts, strict=True):
                            whole[each, at] = act[member.key]
                    elif len(acts):
                        whole[where, at] = [act[member.key] for act in acts]
        flat = [whole.reshape(lanes * whole.shape[1], *whole.shape[2:]) for whole in found]
        return [whole[rows.waiting] for whole, rows in zip(flat, now.rows, strict=True)]

    # --- steps --------------------------------------------------------------------------------------------------------

    def _begin(self, step: Step, lanes: np.ndarray) -> Step:
        """Returns a step without rewards, in which episodes begin in some lanes."""
        for team in self._teams:
            team.forget(lanes)
        return self._show(step)

    def _show(self, step: Step) -> Step:
        """Returns the environment's step with members combined into teams."""
        env = self.env
        self._now = step
        if env.layout != self._layout:
            self._lay_out()
        self.episode, self.infos, self.counters, self.exact = env.episode, env.infos, env.counters, env.exact
        self.last_pictures = env.last_pictures
        if any(rows.own_action is not None for rows in step.rows):
            raise EnvError(
                f"{env.name}: an agent has acted by itself (log_action), but agents of a team act together: let the "
                "client ask for their actions (get_action), or train each agent on its own"
            )
        for slab in self._slabs:
            if slab.source >= 0:
                _pick(slab, step.rows[slab.source], self.num_lanes)
            else:
                self._gather(slab, step)
        rows = tuple(slab.rows for slab in self._slabs)
        return Step(rows, step.ended, step.lost, step.any_end, step.any_rest, step.stepped, step.waited, step.unlearned)

    def _gather(self, slab: TeamSlab, step: Step) -> None:
        """Writes the rows of teams."""
        lanes, rows = self.num_lanes, slab.rows
        rows.final_index, rows.final_stale = np.zeros(0, dtype=np.int64), 0
        rows.final_obs = slab.kind.obs.allocate(0)
        out = {path: leaf.reshape(lanes, len(slab.teams), *leaf.shape[1:]) for path, leaf in rows.obs.items()}
        finals: list[tuple[np.ndarray, Tree]] = []
        for column, team in enumerate(slab.teams):
            own = [(step.rows[kind], at, len(self.env.kinds[kind].agents)) for kind, at in team.places]
            waiting = np.stack([each.waiting[at::width] for each, at, width in own], 1)
            rests = np.stack([each.resting[at::width] for each, at, width in own], 1).any(1)
            acts = waiting.any(1)
            mine = slice(column, None, len(slab.teams))
            rows.waiting[mine], rows.resting[mine] = acts, rests & ~acts
            rows.reward[mine] = sum(each.reward[at::width] for each, at, width in own)
            for number in team.earns:
                each, at, width = own[number]
                if each.group_reward is None:
                    continue
                if len(team.earns) > 1:
                    rows.reward[mine] += each.group_reward[at::width]
                else:
                    if rows.group_reward is None:
                        rows.group_reward = np.zeros(len(rows.reward))
                    rows.group_reward[mine] = each.group_reward[at::width]
            _see(team, {path: leaf[:, column] for path, leaf in out.items()}, waiting, [
                {path: leaf[at::width] for path, leaf in each.obs.items()} for each, at, width in own
            ])  # fmt: skip
            rows.terminated[mine] = rows.truncated[mine] = False
            if step.any_end:
                truncated = self._end(team, step, own, rows, mine)
                where, tree, stale = self._finals(slab, team, own, truncated)
                finals.append((where * len(slab.teams) + column, tree))
                rows.final_stale += stale
            team.over &= ~waiting  # an agent that acts again has rejoined
            team.opened |= acts
        if any(len(where) for where, _ in finals):
            index = np.concatenate([where for where, _ in finals])
            order = np.argsort(index)
            rows.final_index = index[order]
            rows.final_obs = {path: np.concatenate([tree[path] for _, tree in finals])[order] for path in rows.obs}

    def _end(self, team: Team, step: Step, own: list[tuple[Rows, int, int]], rows: Rows, mine: slice) -> np.ndarray:
        """Writes the ends of a team's episodes; returns the lanes ``[K]`` in which it was truncated."""
        terminated = np.stack([each.terminated[at::width] for each, at, width in own], 1)
        truncated = np.stack([each.truncated[at::width] for each, at, width in own], 1) & ~terminated
        lane_ends = step.ended if step.lost is None else step.ended | step.lost
        team.over |= terminated | truncated
        someone = (terminated | truncated).any(1)
        ends = team.opened & (lane_ends | (someone & team.over.all(1)))
        was_cut = truncated.any(1)  # the last ones to leave decide
        rows.terminated[mine], rows.truncated[mine] = ends & ~was_cut, ends & was_cut
        team.forget(ends | lane_ends)
        lanes: np.ndarray = (ends & was_cut).nonzero()[0]
        return lanes

    def _finals(
        self, slab: TeamSlab, team: Team, own: list[tuple[Rows, int, int]], lanes: np.ndarray
    ) -> tuple[np.ndarray, Tree, int]:
        """Returns the final observations of a team that was truncated: of members truncated in this step; zeros for
        others.

        Returns:
            The lanes ``[K]``, observations ``[K, ...]``, and how many of them may be of an earlier step.
        """
        tree = slab.kind.obs.allocate(len(lanes))
        if not len(lanes):
            return lanes, tree, 0
        seen: list[Tree] = []
        there = np.zeros((len(lanes), len(own)), dtype=bool)
        for number, (each, at, width) in enumerate(own):
            rows = lanes * width + at
            found = np.searchsorted(each.final_index, rows)
            found[found == len(each.final_index)] = 0
            there[:, number] = each.final_index[found] == rows if len(each.final_index) else False
            if not there[:, number].any():
                found = np.zeros(0, dtype=np.int64)
            seen.append({path: leaf[found] for path, leaf in each.final_obs.items()} if len(found) else {})
        _see(team, tree, there, seen)
        stale = sum(each.final_stale for each in {id(each): each for each, _, _ in own}.values())
        return lanes, tree, min(stale, len(lanes))


def _see(team: Team, out: Tree, waiting: np.ndarray, own: Sequence[Tree]) -> None:
    """Writes the observations of a team, ``[N, ...]``.

    Args:
        team: The team.
        out: Target of the observations.
        waiting: ``[N, members]`` which members act.
        own: Observations of each member, ``[N, ...]`` by its own paths; empty where there are none.
    """
    out[ALIVE][...] = waiting
    for number, (member, tree) in enumerate(zip(team.members, own, strict=True)):
        there = waiting[:, number]
        everywhere = bool(there.all())
        for leaf, path in zip(member.obs.leaves, member.paths, strict=True):
            if tree:
                out[path][...] = tree[leaf.path]
            if not everywhere:
                out[path][~there] = 0
        if MASK in out:
            flags = out[MASK][:, member.choices]
            flags[...] = tree.get(MASK, True)
            # where no member acts, and after an end, environments may allow no action
            free = ~there | ~flags.any(1)
            flags[free] = True
        for path in team.central:
            if path in tree:
                out[path][there] = tree[path][there]


def _pick(slab: TeamSlab, rows: Rows, lanes: int) -> None:
    """Writes the rows of agents in no team."""
    width = len(rows.reward) // lanes
    index = (np.arange(lanes)[:, None] * width + slab.columns).ravel()
    mine = slab.rows
    for path, leaf in rows.obs.items():
        mine.obs[path] = leaf[index]
    for name in ("reward", "terminated", "truncated", "waiting", "resting"):
        getattr(mine, name)[...] = getattr(rows, name)[index]
    mine.group_reward = None if rows.group_reward is None else rows.group_reward[index]
    place = np.full(len(rows.reward), -1)
    place[index] = np.arange(len(index))
    kept = place[rows.final_index] >= 0
    mine.final_index = place[rows.final_index][kept]
    mine.final_obs = {path: leaf[kept] for path, leaf in rows.final_obs.items()}
    mine.final_stale = min(rows.final_stale, len(mine.final_index))


def _groups(groups: Mapping[str, Sequence[str]], teams: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """Returns the groups of an environment, with teams in place of their members."""
    team_of = {agent: name for name, agents in teams.items() for agent in agents}
    return {
        group: tuple(dict.fromkeys(team_of.get(agent, agent) for agent in agents)) for group, agents in groups.items()
    }
