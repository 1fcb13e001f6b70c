"""Groups: agents that win and lose together. How environments declare them, and groups as rows for algorithms.

An environment declares its groups by an attribute ``groups = {"blue": ["a", "b"]}`` (docs/how-to/groups.md). `GroupEnv`
presents such an environment to algorithms with a critic for the whole group: an agent that ended while a mate is alive
stays, as a row that does not act, until the group ends; and each row contains, for critics only, the observations of
all members.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from rookery.core.errors import EnvError
from rookery.core.spaces.arrays import CENTRAL, CENTRAL_ACTED, MASK, Leaf, ObsSpec, Tree, obs_spec
from rookery.envs.base import KeepInfos, Kind, Rows, SeedPlan, Step, VectorBase, VectorEnv

MEMBERS = "members"
"""Under ``central``: the observations of all members of a row's group, ``[G, ...]`` for each leaf; zeros for absent
members.
"""

ALIVE = "alive"
"""Under ``central``: ``[G]`` flags, which members are present."""

ME = "me"
"""Under ``central``: index of the row's member in its group, from 0, counted over members of all kinds."""

ACTED = "acted"
"""Under ``central``: one flag, 0 for an agent that has ended before its group, whose action is ignored."""

MOMENT = "moment"
"""Under ``central``, for algorithms that request it: a number shared by all rows of a group at one time step."""

MEMBER_ID = "member_id"
"""Index of a row's member in its group, as ``central/me``, but also visible to policies; for algorithms that request
it.
"""

GROUP_PATHS = f"{CENTRAL}/{ME}", CENTRAL_ACTED
"""Paths that all observations with groups have."""


def groups_of(env: VectorEnv) -> Mapping[str, tuple[str, ...]]:
    """Returns the agents of each group that an environment declares; empty if it declares none."""
    return env.groups if isinstance(env, VectorBase) else {}


def paths_of_groups(obs: ObsSpec) -> tuple[str, ...]:
    """Returns the paths that `GroupEnv` has added to observations, except `GROUP_PATHS`; empty without a `GroupEnv`."""
    paths = {leaf.path for leaf in obs.leaves if leaf.is_central}
    if not {*GROUP_PATHS} <= paths:
        return ()
    names = (MEMBERS, ALIVE, MOMENT)
    kinds = [part for part in {path.split("/")[1] for path in paths} if part.isdecimal()]
    return tuple(f"{CENTRAL}/{name}" for name in (*names, *kinds))


def checked_groups(declared: Any, agents: Sequence[str], name: str) -> dict[str, tuple[str, ...]]:
    """Returns the groups that an environment declares, as texts.

    Args:
        declared: Its attribute `groups`.
        agents: Names of the agents of one environment.
        name: Name of the environment for messages.

    Raises:
        EnvError: If `groups` is not a dict of lists, names an agent twice or one that does not exist, or a group is
            empty.
    """
    form = f"{name}: groups must be a dict from the name of a group to its agents in one environment, as "
    form += "{'blue': ['blue_0', 'blue_1']}"
    if not isinstance(declared, Mapping):
        raise EnvError(f"{form}; it is {declared!r}")
    groups: dict[str, tuple[str, ...]] = {}
    owner: dict[str, str] = {}
    for group, listed in declared.items():
        if isinstance(listed, str) or not isinstance(listed, Sequence | set | frozenset) or not len(listed):
            raise EnvError(f"{form}; {group!r} has {listed!r}")
        members = tuple(sorted(map(str, listed)) if isinstance(listed, set | frozenset) else map(str, listed))
        for agent in members:
            if agent not in agents:
                known = ", ".join(agents) or "none"
                raise EnvError(
                    f"{name}: groups: {agent!r} of group {group!r} is not one of the agents of an environment "
                    f"({known}); agents that come later must be announced, in possible_agents, and a group is within "
                    "one environment"
                )
            if agent in owner:
                twice = f"twice in group {group!r}" if owner[agent] == group else f"in {owner[agent]!r} and {group!r}"
                raise EnvError(f"{name}: groups: agent {agent!r} is {twice}; an agent is in one group at most")
            owner[agent] = str(group)
        groups[str(group)] = members
    return groups


class _Sight:
    """Rows of the members observed by rows of one kind; the members are of one kind, the same or another.

    Attributes:
        kind: Number of the members' kind.
        rows: ``[R, G]`` the members' rows in it; 0 where a group has fewer.
        there: ``[R, G]`` bool, whether the group has such a member.
        prefix: First part of the paths of its leaves.
        leaves: The leaves of the members' own observations.
    """

    def __init__(self, kind: int, columns: np.ndarray, num_lanes: int, width: int, prefix: str, obs: ObsSpec) -> None:
        self.kind, self.prefix = kind, prefix
        lanes = np.arange(num_lanes)[:, None, None] * width
        self.rows = (lanes + np.maximum(columns, 0)).reshape(-1, columns.shape[1])
        self.there = np.tile(columns >= 0, (num_lanes, 1))
        self.leaves = [leaf for leaf in obs.leaves if leaf.kind != "mask" and not leaf.is_central]

    @property
    def spaces(self) -> dict[str, spaces.Space[Any]]:
        """Returns the spaces of the members' observations, by the part of their path after the prefix."""
        size = self.rows.shape[1]
        members = OrderedDict((leaf.path, _stacked(leaf, size)) for leaf in self.leaves)
        return {MEMBERS: spaces.Dict(members), ALIVE: spaces.MultiBinary(size)}


class GroupEnv(VectorBase):
    """A `VectorEnv` that presents the agents of another as members of groups; row numbers stay the same.

    An agent that ended while its group lives stays as a row: it waits whenever a mate does, sees zeros (and its mask
    allows every action), its action is left out, and ``central/acted`` is 0. A group ends when none of its members is
    left, or the lane's episode ends: then all its agents are truncated if one of the last to leave was truncated, and
    terminated otherwise. An agent that is truncated alone counts as gone until then. An agent that comes back continues
    in its row.

    Observations get, for critics only, ``central/members/<leaf>``, ``central/alive``, ``central/me`` and
    ``central/acted``. Where a group has members of several kinds there is a set of the first two for each,
    ``central/<number of the kind>/members/<leaf>``. For a mate whose turn it is not they hold its last observation.

    Where no groups are declared, all agents of a lane are one group, or are rivals, each with a group of its own; an
    agent in no declared group has one of its own, too. Where episodes are those of agents, a group's begins when the
    first of its members must act, and ends when no present member is left, without waiting for others; agents without a
    declared group are alone. Agents and groups may come later, if no group is larger than those before.
    """

    def __init__(self, env: VectorEnv, moments: bool = False, ids: bool = False, rivals: bool = False) -> None:
        """Wraps an environment.

        Args:
            env: The environment; closed with this one.
            moments: Whether observations get ``central/moment``.
            ids: Whether policies see their member number, as ``member_id``.
            rivals: Whether agents play against each other where no groups are declared.

        Raises:
            EnvError: If its observations already use one of the names that are needed here.
        """
        self.env = env
        self._moments, self._ids, self._rivals = moments, ids, rivals
        if isinstance(env, VectorBase):
            self.own_episodes, self.only_one, self.throwaway = env.own_episodes, env.only_one, env.throwaway
            self.reported = env.reported
        super().__init__(self._find_groups(), env.num_lanes, env.name, env.exact)
        if isinstance(env, VectorBase):
            self.render_fps, self.parameters, self.last_pictures = env.render_fps, env.parameters, env.last_pictures
            self.reported = env.reported
        alone = f"{self.name} names no groups, so all {len(self._group_of)} agents of an environment are one"
        self.notes = (
            (*env.notes, alone) if len(self._members) == 1 < len(self._group_of) and not self.groups else env.notes
        )
        self._rows = tuple(Rows.allocate(kind, env.num_lanes) for kind in self.kinds)
        self._step = Step(self._rows, np.zeros(env.num_lanes, dtype=bool))
        self._living, self._fallen, self._met = (self._flags() for _ in range(3))
        self._given: list[np.ndarray | None] = [None] * len(
            self.kinds
        )  # which of the waiting rows act in the environment
        self._clock = 0
        self._mirror()

    def _flags(self) -> list[np.ndarray]:
        """Returns a flag for each row of each kind."""
        return [np.zeros(self.env.num_lanes * len(kind.agents), dtype=bool) for kind in self.env.kinds]

    def _find_groups(self) -> tuple[Kind, ...]:
        """Finds the group of each agent; returns the kinds with the observations of their groups."""
        env = self.env
        agents = [agent for kind in env.kinds for agent in kind.agents]
        self._kind_of = np.repeat(np.arange(len(env.kinds)), [len(kind.agents) for kind in env.kinds])
        self._column_of = np.concatenate([np.arange(len(kind.agents)) for kind in env.kinds])
        self.groups = named = groups_of(env)
        members = [[agents.index(agent) for agent in group] for group in named.values()]
        if not members and not self._rivals and not self.own_episodes:
            members = [list(range(len(agents)))]
        members += [[agent] for agent in range(len(agents)) if not any(agent in group for group in members)]
        self._members = members
        self._group_of = np.zeros(len(agents), dtype=np.int64)
        for number, group in enumerate(members):
            self._group_of[group] = number
        self._by_group = np.concatenate([np.array(group) for group in members])
        self._starts = np.cumsum([0, *(len(group) for group in members[:-1])])
        self._sights: list[list[_Sight]] = []
        self._mine: list[np.ndarray] = []  # for each kind, which member each row is
        return tuple(self._member_kind(number, kind) for number, kind in enumerate(env.kinds))

    def _grow(self) -> None:
        """Adds agents or kinds that have appeared; existing rows keep their content.

        Raises:
            EnvError: If a group has become larger, which would change the critics' observations.
        """
        before, lanes = self.kinds, self.num_lanes
        known = {agent for kind in before for agent in kind.agents}
        late = [agent for kind in self.env.kinds for agent in kind.agents if agent not in known]
        if late and not self.own_episodes:
            raise EnvError(
                f"{self.name}: agent {late[0]!r} appeared without being announced; for algorithms that see groups "
                "the environment must name all agents that it can have, in possible_agents"
            )
        kinds = self._find_groups()
        for old, new in zip(before, kinds, strict=False):
            if old.obs != new.obs:
                raise EnvError(
                    f"{self.name}: {', '.join(late)} appeared, and a group is larger than any was at the beginning; "
                    "critics see all members of a group, so that the largest one must be there when training begins"
                )
        rows = [Rows.allocate(kind, lanes) for kind in kinds]
        living, fallen, met = (self._flags() for _ in range(3))
        for number, old in enumerate(before):
            lane, column = np.divmod(np.arange(lanes * len(old.agents)), len(old.agents))
            place = lane * len(kinds[number].agents) + column
            for path, array in self._rows[number].obs.items():
                rows[number].obs[path][place] = array
            for there, flags in ((living, self._living), (fallen, self._fallen), (met, self._met)):
                there[number][place] = flags[number]
        self._rows = self._step.rows = tuple(rows)
        self._living, self._fallen, self._met = living, fallen, met
        self._given, self.kinds = [None] * len(kinds), kinds

    def _member_kind(self, number: int, kind: Kind) -> Kind:
        """Returns a kind with the observations of its rows' groups."""
        mine = np.flatnonzero(self._kind_of == number)
        groups = sorted({int(self._group_of[agent]) for agent in mine})
        seen = sorted({int(self._kind_of[member]) for group in groups for member in self._members[group]})
        sights, me, first = [], np.zeros(len(mine), dtype=np.int64), 0
        for other in seen:
            of_kind = {group: [a for a in self._members[group] if self._kind_of[a] == other] for group in groups}
            size = max(len(members) for members in of_kind.values())
            columns = np.full((len(mine), size), -1, dtype=np.int64)
            for column, agent in enumerate(mine):
                members = of_kind[int(self._group_of[agent])]
                columns[column, : len(members)] = self._column_of[members]
                if other == number:
                    me[column] = first + members.index(int(agent))
            prefix = CENTRAL if seen == [number] else f"{CENTRAL}/{other}"
            inner = self.env.kinds[other]
            sights.append(_Sight(other, columns, self.env.num_lanes, len(inner.agents), prefix, inner.obs))
            first += size
        self._sights.append(sights)
        self._mine.append(np.tile(me, self.env.num_lanes))
        central: dict[str, Any] = {}
        for sight in sights:
            if sight.prefix == CENTRAL:
                central |= sight.spaces
            else:
                central[str(sight.kind)] = spaces.Dict(OrderedDict(sight.spaces))
        central |= {ME: spaces.Discrete(first), ACTED: spaces.MultiBinary(1)}
        if self._moments:
            central[MOMENT] = spaces.Discrete(2**62)
        own = {MEMBER_ID: spaces.Discrete(first)} if self._ids else {}
        space = _with_central(kind.obs, central, own, self.env.name)
        lifted = isinstance(kind.obs.space, spaces.Dict) and MASK in kind.obs.space.spaces
        obs = obs_spec(space, kind.action.space, info_mask=kind.obs.has_mask and not lifted)
        return Kind(kind.agents, obs, kind.action)

    # -- playing -----------------------------------------------------------------------------------

    def reset(self, seeds: SeedPlan) -> Step:
        """Starts episode 0 in every lane; see `VectorEnv.reset`."""
        return self._begin(self.env.reset(seeds))

    def step(self, actions: Sequence[np.ndarray]) -> Step:
        """Steps every lane once, with an action for every waiting row of this environment; see `VectorEnv.step`."""
        given = []
        for number, (action, acts) in enumerate(zip(actions, self._given, strict=True)):
            if acts is not None and len(action) != len(acts):
                agents = ", ".join(self.kinds[number].agents)
                raise EnvError(f"{self.name}: {len(action)} actions for {len(acts)} waiting agents of kind {agents}")
            given.append(action if acts is None else action[acts])
        shown = self.env.step(given)
        self._clock += 1
        return self._show(shown)

    def replan(self, seeds: SeedPlan) -> None:
        """Takes seeds and parameters of later episodes from another plan."""
        if isinstance(self.env, VectorBase):
            self.env.replan(seeds)

    def restart(self, seeds: SeedPlan) -> Step:
        """Begins the next episode in every lane; see `VectorBase.restart`."""
        assert isinstance(self.env, VectorBase), "only such environments are restarted"
        return self._begin(self.env.restart(seeds))

    def _begin(self, shown: Step) -> Step:
        """Shows the first step of every lane's episode."""
        for flags in (*self._living, *self._fallen, *self._met):
            flags.fill(False)
        return self._show(shown, new=True)

    def _show(self, shown: Step, new: bool = False) -> Step:
        """Writes the rows of groups from those of agents.

        Args:
            shown: Step of the environment.
            new: Whether the first step of episodes is shown, before which no ends count.
        """
        if self.layout != self.env.layout:
            self._grow()
            self._mirror()
        step = self._step
        if step.any_end:
            for rows, kind in zip(self._rows, self.kinds, strict=True):
                rows.terminated.fill(False)
                rows.truncated.fill(False)
                if len(rows.final_index):
                    rows.final_index, rows.final_obs, rows.final_stale = NO_ROWS, kind.obs.allocate(0), 0
        if shown.any_end and not new:
            self._end(shown)
        self._observe(shown)
        step.ended, step.lost, step.any_end, step.any_rest = shown.ended, shown.lost, shown.any_end, shown.any_rest
        step.stepped, step.waited, step.unlearned = shown.stepped, shown.waited, shown.unlearned
        self._mirror()
        return step

    def _end(self, shown: Step) -> None:
        """Finds the agents that left and the groups that ended, and writes the ends of groups."""
        terminated = self._wide([rows.terminated for rows in shown.rows])
        truncated = self._wide([rows.truncated for rows in shown.rows])
        over = shown.ended if shown.lost is None else shown.ended | shown.lost
        gone = terminated | truncated
        if not gone.any() and not over.any():
            return
        living, fallen = self._wide(self._living), self._wide(self._fallen)
        part = living | fallen | gone
        living &= ~gone & ~over[:, None]
        met = self._wide(self._met) | gone  # an agent without a turn so far may still come
        lives = self._any_of_group(living if self.own_episodes else living | ~(met | over[:, None]))
        met &= ~over[:, None]
        ending = part & ~lives
        cut = ending & self._any_of_group(truncated & ~terminated)
        stays = part & ~living & lives
        for number, rows in enumerate(self._rows):
            of_kind = self._kind_of == number
            rows.terminated[:] = (ending & ~cut)[:, of_kind].ravel()
            rows.truncated[:] = cut[:, of_kind].ravel()
            self._living[number], self._met[number] = living[:, of_kind].ravel(), met[:, of_kind].ravel()
            now = stays[:, of_kind].ravel()
            fresh = np.flatnonzero(now & ~self._fallen[number])
            for leaf in self.env.kinds[number].obs.leaves:
                rows.obs[leaf.path][fresh] = leaf.kind == "mask"
            self._fallen[number] = now
        if cut.any():
            for number, rows in enumerate(self._rows):
                self._keep_finals(number, rows, shown.rows)

    def _keep_finals(self, number: int, rows: Rows, inner: Sequence[Rows]) -> None:
        """Writes the last observations of the truncated rows of a kind, and of their groups; zeros for members that had
        left.
        """
        which = np.flatnonzero(rows.truncated)
        rows.final_index, rows.final_obs = which, self.kinds[number].obs.allocate(len(which))
        rows.final_stale = inner[number].final_stale
        own, here = inner[number], np.zeros(len(which), dtype=bool)
        if len(own.final_index):
            found = np.minimum(np.searchsorted(own.final_index, which), len(own.final_index) - 1)
            here = own.final_index[found] == which
            for leaf in self.env.kinds[number].obs.leaves:
                rows.final_obs[leaf.path][here] = own.final_obs[leaf.path][found[here]]
        for sight in self._sights[number]:
            others, wanted = inner[sight.kind], sight.rows[which]
            alive = np.zeros(wanted.shape, dtype=bool)
            if len(others.final_index):
                at = np.minimum(np.searchsorted(others.final_index, wanted), len(others.final_index) - 1)
                alive = sight.there[which] & (others.final_index[at] == wanted)
                for leaf in sight.leaves:
                    target = rows.final_obs[f"{sight.prefix}/{MEMBERS}/{leaf.path}"]
                    target[alive] = others.final_obs[leaf.path][at[alive]]
            rows.final_obs[f"{sight.prefix}/{ALIVE}"][:] = alive
        for path in (f"{CENTRAL}/{ME}", MEMBER_ID)[: 1 + self._ids]:
            rows.final_obs[path][:] = self._mine[number][which]
        rows.final_obs[f"{CENTRAL}/{ACTED}"][:, 0] = here
        if self._moments:
            rows.final_obs[f"{CENTRAL}/{MOMENT}"][:] = self._moment(number)[which]

    def _observe(self, shown: Step) -> None:
        """Writes the current observations and which rows wait."""
        for number, (rows, inner) in enumerate(zip(self._rows, shown.rows, strict=True)):
            rows.reward, rows.group_reward = inner.reward, inner.group_reward
            rows.own_index, rows.own_action = inner.own_index, inner.own_action
            rows.resting[:] = inner.resting
            seen = inner.waiting | inner.resting if shown.any_rest else inner.waiting
            if False not in seen.tobytes():
                for path, array in inner.obs.items():
                    rows.obs[path][...] = array
                self._living[number].fill(True)
                self._met[number].fill(True)
                self._fallen[number].fill(False)
            else:
                which = np.flatnonzero(seen)
                for path, array in inner.obs.items():
                    rows.obs[path][which] = array[which]
                self._living[number][which] = self._met[number][which] = True
                self._fallen[number][which] = False
        if any(True in fallen.tobytes() for fallen in self._fallen):
            waits = self._any_of_group(self._wide([inner.waiting for inner in shown.rows]))
            for number, (rows, inner) in enumerate(zip(self._rows, shown.rows, strict=True)):
                stay = self._fallen[number] & waits[:, self._kind_of == number].ravel()
                np.logical_or(inner.waiting, stay, out=rows.waiting)
                self._given[number] = inner.waiting[rows.waiting] if stay.any() else None
        else:
            for number, (rows, inner) in enumerate(zip(self._rows, shown.rows, strict=True)):
                rows.waiting[:], self._given[number] = inner.waiting, None
        for number, rows in enumerate(self._rows):
            self._see_members(number, rows.obs)

    def _see_members(self, number: int, obs: Tree) -> None:
        """Writes the observations that rows of a kind have of their groups."""
        for sight in self._sights[number]:
            alive = obs[f"{sight.prefix}/{ALIVE}"]
            np.logical_and(self._living[sight.kind][sight.rows], sight.there, out=alive, casting="unsafe")
            gone = None if b"\0" not in alive.tobytes() else alive == 0
            for leaf in sight.leaves:
                target = obs[f"{sight.prefix}/{MEMBERS}/{leaf.path}"]
                np.take(self._rows[sight.kind].obs[leaf.path], sight.rows, axis=0, out=target)
                if gone is not None:
                    target[gone] = 0
        for path in (f"{CENTRAL}/{ME}", MEMBER_ID)[: 1 + self._ids]:
            obs[path][:] = self._mine[number]
        np.logical_not(self._fallen[number], out=obs[f"{CENTRAL}/{ACTED}"][:, 0], casting="unsafe")
        if self._moments:
            obs[f"{CENTRAL}/{MOMENT}"][:] = self._moment(number)

    def _moment(self, number: int) -> np.ndarray:
        """Returns ``[R]`` for the rows of a kind: a number for this timestep and their group."""
        lanes = np.arange(self.num_lanes)[:, None] + self._clock * self.num_lanes
        return np.ravel(lanes * len(self._members) + self._group_of[self._kind_of == number])

    def _wide(self, rows: Sequence[np.ndarray]) -> np.ndarray:
        """Returns flags of the rows of each kind as ``[lanes, agents]``, agents of all kinds."""
        return np.concatenate([flags.reshape(self.num_lanes, -1) for flags in rows], axis=1)

    def _any_of_group(self, flags: np.ndarray) -> np.ndarray:
        """Returns ``[lanes, agents]`` whether a flag ``[lanes, agents]`` is set for a member of the agent's group."""
        found = np.logical_or.reduceat(flags[:, self._by_group], self._starts, axis=1)
        return np.asarray(found[:, self._group_of])

    # -- state -------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Returns the state of the environment, and which agents have left which group."""
        inner = self.env.state_dict()
        shown = [{"obs": {path: array.copy() for path, array in rows.obs.items()}} for rows in self._rows]
        return {
            "env": inner,
            "seen": [{path: rows.obs[path].copy() for path in inner.obs.allocate(0)}
                     for rows, inner in zip(self._rows, self.env.kinds, strict=True)],
            "living": [flags.copy() for flags in self._living],
            "fallen": [flags.copy() for flags in self._fallen],
            "met": [flags.copy() for flags in self._met],
            "clock": self._clock,
            **({"rows": shown} if "rows" in inner else {}),
        }  # fmt: skip

    def load_state_dict(self, state: dict[str, Any], seeds: SeedPlan) -> tuple[Step, np.ndarray]:
        """Resumes from a state instead of `reset`; see `VectorEnv.load_state_dict`."""
        if "env" not in state:
            raise EnvError(f"{self.name}: the saved state is of another environment, or of one without groups")
        shown, lost = self.env.load_state_dict(state["env"], seeds)
        if self.layout != self.env.layout:
            self._grow()
            self._mirror()
        shapes = [{path: array.shape for path, array in tree.items()} for tree in state["seen"]]
        mine = [{path: rows.obs[path].shape for path in inner.obs.allocate(0)}
                for rows, inner in zip(self._rows, self.env.kinds, strict=True)]  # fmt: skip
        if shapes != mine:
            raise EnvError(f"{self.name}: the saved state is of another environment")
        self._clock = state["clock"]
        for number, (rows, kind) in enumerate(zip(self._rows, self.kinds, strict=True)):
            for path, array in state["seen"][number].items():
                rows.obs[path][...] = array
            going_on = np.repeat(~lost, len(kind.agents))
            self._living[number] = state["living"][number] & going_on
            self._fallen[number] = state["fallen"][number] & going_on
            self._met[number] = state["met"][number] & going_on
        return self._show(shown, new=True), lost

    # -- forwarding --------------------------------------------------------------------------------

    def _mirror(self) -> None:
        """Copies the public attributes of the environment."""
        self.episode, self.exact, self.layout = self.env.episode, self.env.exact, self.env.layout
        self.infos, self.counters = self.env.infos, self.env.counters
        if isinstance(self.env, VectorBase):
            self.last_pictures = self.env.last_pictures

    @property
    def keep_infos(self) -> KeepInfos:
        """Lanes of which to keep `infos`."""
        return self.env.keep_infos

    @keep_infos.setter
    def keep_infos(self, keep: KeepInfos) -> None:
        """Sets the attribute on the environment."""
        self.env.keep_infos = keep

    @property
    def keep_last_pictures(self) -> bool:
        """Whether to keep `last_pictures`."""
        return isinstance(self.env, VectorBase) and self.env.keep_last_pictures

    @keep_last_pictures.setter
    def keep_last_pictures(self, keep: bool) -> None:
        """Sets the attribute on the environment."""
        if isinstance(self.env, VectorBase):
            self.env.keep_last_pictures = keep

    def render(self, lane: int) -> np.ndarray | None:
        """Returns an image ``[height, width, 3]`` uint8 of a lane, or None if the environment cannot render."""
        return self.env.render(lane)

    def close(self) -> None:
        """Closes the environment."""
        self.env.close()


NO_ROWS = np.zeros(0, dtype=np.int64)


def _stacked(leaf: Leaf, size: int) -> spaces.Space[Any]:
    """Returns the space of a leaf for `size` members, in stored form."""
    shape = (size, *leaf.shape)
    if leaf.kind in ("discrete", "multi_discrete"):
        return spaces.MultiDiscrete(np.tile(np.reshape(leaf.sizes, leaf.shape), (size, *[1] * len(leaf.shape))))
    if leaf.kind == "multi_binary":
        return spaces.MultiBinary(shape)
    if leaf.dtype == np.uint8:
        return spaces.Box(0, int(leaf.scale), shape, np.uint8)
    return spaces.Box(-np.inf, np.inf, shape, np.float32)


def _with_central(obs: ObsSpec, central: dict[str, Any], own: dict[str, Any], name: str) -> spaces.Dict:
    """Returns the observation space with added parts: `central` for critics only, `own` for policies too."""
    if isinstance(obs.space, spaces.Dict):
        parts: dict[str, Any] = dict(obs.space.spaces)
    elif isinstance(obs.space, spaces.Tuple):
        parts = {str(number): part for number, part in enumerate(obs.space.spaces)}
    else:
        parts = {"obs": obs.space}
    if own.keys() & parts.keys():
        raise EnvError(f"{name}: observations hold {MEMBER_ID!r} already, so policies know; set member_id=false")
    before = parts.get(CENTRAL, spaces.Dict({}))
    taken = sorted(before.spaces.keys() & central.keys()) if isinstance(before, spaces.Dict) else [CENTRAL]
    if not isinstance(before, spaces.Dict) or taken:
        raise EnvError(
            f"{name}: observations hold {taken[0]!r} already, where the observations of group members are added; "
            f"{CENTRAL!r} must be a Dict without {', '.join(central)}"
        )
    return spaces.Dict(OrderedDict({**parts, **own, CENTRAL: spaces.Dict(OrderedDict({**before.spaces, **central}))}))
