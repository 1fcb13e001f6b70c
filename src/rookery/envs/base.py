"""The Env protocol: many copies of an environment, any number of agents each, as rows of arrays.

A *lane* is one copy. Agents with equal spaces form a *kind*. Each kind has one slab of rows, one row for each lane and
agent, in the order ``row = lane * len(kind.agents) + agent``. A step fills the slab in place: rewards and ends belong
to the episode that was running, observations of waiting rows to what the agent must answer next. An episode that ends
is followed at once by the next (same-step autoreset), so a row can hold the last reward of one episode and the first
observation of another. Everything keyed by agent names stops in this package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from rookery.core.spaces.arrays import ActionSpec, ObsSpec, Tree
from rookery.envs.adapters.reported import ReportedNumbers

SeedPlan = Callable[[int, int], int]
"""The seed of an episode, from its lane and its number in that lane: ``plan(lane, episode)``. A plan that also knows
the parameters of episodes is a `parameters.EpisodePlan`; `parameters.parameters_of` asks any plan for them.
"""

KeepInfos = Literal["none", "ended", "all"]
"""Of which lanes an environment keeps the infos of a step: of none, of those whose episode ended in it, or of all."""


@dataclass(frozen=True)
class Kind:
    """Agents with equal spaces: their names, and the layout of what they see and do."""

    agents: tuple[str, ...]
    obs: ObsSpec
    action: ActionSpec


@dataclass
class Rows:
    """The slab of one kind; R = lanes x agents of the kind. The arrays are reused: copy what must outlive the next
    step.

    Attributes:
        obs: Observations ``[R, ...]``; of meaning where `waiting`.
        reward: ``[R]`` float64, what the agent got in this step; 0 for agents that were not there.
        terminated: ``[R]`` the agent's episode ended and has no future.
        truncated: ``[R]`` the agent's episode was cut off; its value is that of its final observation.
        waiting: ``[R]`` the agent must act now.
        resting: ``[R]`` the agent would have to, if its environment did not say that it rests: it is stepped on without
            a decision until that is over.
        final_index: ``[K]`` rows, ascending, that were truncated (and not terminated).
        final_obs: ``[K, ...]`` the last observation of each of them, before the autoreset.
        final_stale: How many of them are the observation of an earlier step, because the agent was not on turn.
        group_reward: ``[R]`` float64, what each agent's group got in this step, beside the agent's own reward, also
            where the agent has ended before its group; None where no group earns anything.
        own_index: ``[A]`` rows, ascending, that wait and have already acted by themselves: the policy may see what they
            did, and its answers to them are not used.
        own_action: ``[A, ...]`` what each of them did, as actions are stored; None where nobody did.
    """

    obs: Tree
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    waiting: np.ndarray
    resting: np.ndarray
    final_index: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    final_obs: Tree = field(default_factory=dict)
    final_stale: int = 0
    group_reward: np.ndarray | None = None
    own_index: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    own_action: np.ndarray | None = None

    @classmethod
    def allocate(cls, kind: Kind, num_lanes: int) -> Rows:
        """A slab in which nothing has happened and nobody waits."""
        size = num_lanes * len(kind.agents)
        ended, cut, waiting, resting = np.zeros((4, size), dtype=bool)
        obs, nothing = kind.obs.allocate(size), kind.obs.allocate(0)
        return cls(obs, np.zeros(size), ended, cut, waiting, resting, final_obs=nothing)


@dataclass
class Step:
    """What a vector step shows.

    Attributes:
        rows: One slab for each kind, in the order of `VectorEnv.kinds`.
        ended: ``[lanes]`` whether the lane's episode ended in this step (its next one has begun).
        lost: ``[lanes]`` whether it was given up in this step, because the environment raised or its process is gone:
            all its agents are truncated with what they saw last, got nothing, and the next one has begun, but the
            episode counts for nothing. None if no lane's was.
        any_end: Whether an episode may have ended in this step, an agent's or a lane's. Where it is False, nobody need
            look for one.
        any_rest: Whether an agent rests. Where it is False, nobody need look for one.
        stepped: ``[lanes]`` bool, which lanes have gone on in this step; None if all have. Lanes with a clock of their
            own may need longer than others, and a step of which nothing came but waiting has none.
        waited: Seconds of the step in which nothing was to be done but wait for lanes.
        unlearned: ``[lanes]`` bool, in which agents wait that nobody is to learn from; None if there are none.
    """

    rows: tuple[Rows, ...]
    ended: np.ndarray
    lost: np.ndarray | None = None
    any_end: bool = True
    any_rest: bool = False
    stepped: np.ndarray | None = None
    waited: float = 0.0
    unlearned: np.ndarray | None = None

    def at_rest(self) -> np.ndarray:
        """``[lanes]`` bool, in which an agent rests and nobody acts."""
        lanes = len(self.ended)
        rests, acts = np.zeros((2, lanes), dtype=bool)
        for rows in self.rows if self.any_rest else ():
            rests |= rows.resting.reshape(lanes, -1).any(axis=1)
            acts |= rows.waiting.reshape(lanes, -1).any(axis=1)
        return rests & ~acts


class VectorBase:
    """The attributes of a `VectorEnv` as they are where nothing has been said, kept or borne.

    Attributes:
        render_fps: Pictures a second at which the environment is meant to be seen; None where it does not say.
        keep_last_pictures: Whether to keep `last_pictures`; only copies that no helpers step do.
        last_pictures: By lane, the picture of the state that an episode ended in, which the next episode replaces in
            the same step; whoever wants one takes it out.
        last_texts: The same of what `text` gives.
        render_modes: Ways in which the environment says that it can show itself, as ``ansi``.
        parameters: Parameters that episodes can be given: by name a default, ``(default, low, high)`` or a `Parameter`.
        groups: Agents that win and lose together, by the name of their group; an agent is in one group at most.
        own_episodes: Whether episodes are those of agents, or of their groups, in lanes that never end: `episode` then
            counts the steps of a lane in which episodes ended.
        reported: Numbers that copies report beside; None where they report none.
        only_one: Whether these copies are all that there can be at a time, as where they are an editor, or programs
            that dial one port: who wants to play beside a training has to borrow them (`RolloutWorker.lent`).
        in_turn: Whether episodes are to be dealt to the lanes in turn, as in an evaluation, where each lane has its
            share; of meaning where there are not always episodes for all lanes.
        throwaway: Whether a few other copies may be made to be played at random for a moment and thrown away.
    """

    render_fps: float | None = None
    render_modes: tuple[str, ...] = ()
    parameters: Mapping[str, Any] = MappingProxyType({})
    groups: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    own_episodes: bool = False
    reported: ReportedNumbers | None = None
    only_one: bool = False
    throwaway: bool = True
    in_turn: bool = False

    def __init__(self, kinds: tuple[Kind, ...], num_lanes: int, name: str, exact: bool) -> None:
        self.kinds, self.num_lanes, self.name, self.exact = kinds, num_lanes, name, exact
        self.layout = 0
        self.episode = np.zeros(num_lanes, dtype=np.int64)
        self.notes: tuple[str, ...] = ()
        self.keep_infos: KeepInfos = "none"
        self.infos: Mapping[int, Mapping[str, Any]] = {}
        self.counters: dict[str, int] = {}
        self.keep_last_pictures = False
        self.last_pictures: dict[int, np.ndarray | None] = {}
        self.last_texts: dict[int, str | None] = {}

    def replan(self, seeds: SeedPlan) -> None:
        """Lets the episodes to come have the seeds and parameters of another plan, or of the same that has changed."""

    def restart(self, seeds: SeedPlan) -> Step:
        """Gives up the running episode of every lane and begins the next; returns what every lane shows then.

        Args:
            seeds: Plan of the episodes to come.
        """
        state, exact = self.state_dict(), self.exact
        state["lanes"] = [{} for _ in range(self.num_lanes)]  # as of episodes that cannot be taken up again
        step, _ = self.load_state_dict(state, seeds)
        self.exact = exact
        return step

    def text(self, lane: int) -> str | None:
        """Shows a lane in letters, for who plays at a terminal; None where the environment has none."""
        return None

    def render(self, lane: int) -> np.ndarray | None:
        """See `VectorEnv.render`."""
        return None

    def state_dict(self) -> dict[str, Any]:
        """See `VectorEnv.state_dict`."""
        raise NotImplementedError

    def load_state_dict(self, state: dict[str, Any], seeds: SeedPlan) -> tuple[Step, np.ndarray]:
        """See `VectorEnv.load_state_dict`."""
        raise NotImplementedError


@runtime_checkable
class VectorEnv(Protocol):
    """Many copies of one environment, stepped together.

    Attributes:
        num_lanes: Copies.
        kinds: The kinds of agents. May grow (a new kind at the end, a new agent at the end of a kind's `agents`) when
            an agent nobody announced appears; `layout` then counts up and row numbers are those of the new kinds.
        layout: Counts changes of `kinds`.
        episode: ``[lanes]`` number of the episode each lane is in, from 0.
        exact: Whether an episode depends only on its seed and the actions, so that runs repeat bit for bit.
        name: What runs, in words a user knows, for messages and logs.
        notes: Lines a user should read once (parts of a space that were dropped, say).
        keep_infos: Of which lanes to keep `infos`; ``none`` unless somebody asks for them.
        infos: What lanes said beside the last step, by lane and then by agent; empty where nothing is said or kept.
        counters: What went wrong so far and was borne, by the name it has in the result row.
    """

    num_lanes: int
    kinds: tuple[Kind, ...]
    layout: int
    episode: np.ndarray
    exact: bool
    name: str
    notes: tuple[str, ...]
    keep_infos: KeepInfos
    infos: Mapping[int, Mapping[str, Any]]
    counters: dict[str, int]

    def reset(self, seeds: SeedPlan) -> Step:
        """Starts episode 0 in every lane; later episodes take their seeds from `seeds` too.

        Raises:
            EnvError: If the environment raises or breaks the contract.
        """

    def step(self, actions: Sequence[np.ndarray]) -> Step:
        """Steps every lane once.

        Args:
            actions: For each kind, the environment's own actions ``[W, ...]`` of its W waiting rows, in row order. They
                may be the caller's only ones: not to be written on, and to be copied for use after this step.

        Raises:
            EnvError: If `reset` was not called, or an array has another length or range; if the environment raises or
                breaks the contract: says lane, seed, episode, step, agent and action.
        """

    def state_dict(self) -> dict[str, Any]:
        """Where every lane is, in arrays and plain values, between two steps."""

    def load_state_dict(self, state: dict[str, Any], seeds: SeedPlan) -> tuple[Step, np.ndarray]:
        """Goes on from a state instead of `reset`.

        Args:
            state: What `state_dict` gave, here or in an environment built alike.
            seeds: Seeds of the episodes to come.

        Returns:
            What every lane shows; and ``[lanes]`` bool, whose episode could not be taken up again: such a lane shows
            the beginning of its next one, and `exact` is False from now on.

        Raises:
            EnvError: If the state is of another environment, or the environment raises.
        """

    def render(self, lane: int) -> np.ndarray | None:
        """A picture ``[height, width, 3]`` uint8 of a lane, or None if the environment draws none."""

    def close(self) -> None:
        """Frees what the environment holds."""


def is_only_one(env: VectorEnv) -> bool:
    """Whether an environment's copies are all that there can be at a time."""
    return isinstance(env, VectorBase) and env.only_one


def has_own_episodes(env: VectorEnv) -> bool:
    """Whether episodes are those of agents, in lanes that never end."""
    return isinstance(env, VectorBase) and env.own_episodes


def has_throwaways(env: VectorEnv) -> bool:
    """Whether other copies of an environment may be made to be played at random and thrown away."""
    return not isinstance(env, VectorBase) or (env.throwaway and not env.only_one)
