"""The `VectorEnv` protocol: many environments with any number of agents each, as rows of arrays.

A *lane* is one environment. Agents with equal spaces form a *kind*. Each kind has one slab of rows, one row for each
lane and agent, in the order ``row = lane * len(kind.agents) + agent``. A step fills the slab in place: rewards and ends
belong to the episode that was running, observations of waiting rows to the agent's next decision. An episode that ends
is followed at once by the next (same-step autoreset), so a row can hold the last reward of one episode and the first
observation of another. Dicts keyed by agent names do not leave this package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from rookery.core.spaces.arrays import ActionSpec, ObsSpec, Tree
from rookery.envs.adapters.reported import ReportedNumbers
from rookery.envs.game_rules import GameRules

SeedPlan = Callable[[int, int], int]
"""Seed of an episode, from its lane and its number in that lane: ``plan(lane, episode)``. A plan that also has the
parameters of episodes is a `parameters.EpisodePlan`; `parameters.parameters_of` reads them from any plan.
"""

KeepInfos = Literal["none", "ended", "all"]
"""Lanes for which an environment keeps step infos: none, those whose episode ended in the step, or all."""


@dataclass(frozen=True)
class Kind:
    """Agents with equal spaces: their names, and the layouts of their observations and actions."""

    agents: tuple[str, ...]
    obs: ObsSpec
    action: ActionSpec


@dataclass
class Rows:
    """Arrays of one kind; R = lanes x agents of the kind. The arrays are reused: copy them to keep values beyond the
    next step.

    Attributes:
        obs: Observations ``[R, ...]``; valid only where `waiting`.
        reward: ``[R]`` float64, the agent's reward of this step; 0 for absent agents.
        terminated: ``[R]`` the agent's episode ended and has no future.
        truncated: ``[R]`` the agent's episode was cut off; its value is that of its final observation.
        waiting: ``[R]`` the agent must act now.
        resting: ``[R]`` the agent would have to act, but its environment reports that it rests: it is stepped without a
            decision until the rest is over.
        final_index: ``[K]`` rows, ascending, that were truncated (and not terminated).
        final_obs: ``[K, ...]`` the last observation of each of them, before the autoreset.
        final_stale: Number of those that are from an earlier step, because it was not the agent's turn.
        group_reward: ``[R]`` float64, the reward of each agent's group in this step, beside the agent's own reward,
            also where the agent has ended before its group; None without group rewards.
        own_index: ``[A]`` rows, ascending, that wait and have already acted by themselves: the policy sees these
            actions, and its own actions for these rows are not used.
        own_action: ``[A, ...]`` the action of each of them, as actions are stored; None if there are none.
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
        """Returns empty arrays in which no agent waits."""
        size = num_lanes * len(kind.agents)
        ended, cut, waiting, resting = np.zeros((4, size), dtype=bool)
        obs, nothing = kind.obs.allocate(size), kind.obs.allocate(0)
        return cls(obs, np.zeros(size), ended, cut, waiting, resting, final_obs=nothing)


@dataclass
class Step:
    """Result of one vector step.

    Attributes:
        rows: One slab for each kind, in the order of `VectorEnv.kinds`.
        ended: ``[lanes]`` whether the lane's episode ended in this step (its next one has begun).
        lost: ``[lanes]`` whether the lane's episode was lost in this step, because the environment raised or its
            process is gone: all its agents are truncated with their last observation and reward 0, the next episode has
            begun, and the lost one is not counted. None if none was lost.
        any_end: Whether an episode may have ended in this step, an agent's or a lane's. If False, no flag needs to be
            read.
        any_rest: Whether an agent rests. If False, `resting` need not be read.
        stepped: ``[lanes]`` bool, which lanes made a step; None if all did. Lanes with clocks of their own may need
            longer than others; no lane is set where the vector step only waited.
        waited: Seconds of the step that were spent waiting for lanes, with nothing else to do.
        unlearned: ``[lanes]`` bool, in which agents wait whose experience is not learned from; None if there are none.
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
        """``[lanes]`` bool: lanes in which an agent rests and none acts."""
        lanes = len(self.ended)
        rests, acts = np.zeros((2, lanes), dtype=bool)
        for rows in self.rows if self.any_rest else ():
            rests |= rows.resting.reshape(lanes, -1).any(axis=1)
            acts |= rows.waiting.reshape(lanes, -1).any(axis=1)
        return rests & ~acts


class VectorBase:
    """Default attributes and methods of a `VectorEnv`.

    Attributes:
        render_fps: Frames per second for rendering; None if the environment does not define it.
        keep_last_pictures: Whether to keep `last_pictures`; only environments without helpers do.
        last_pictures: By lane, the image of an episode's final state, which the next episode replaces in the same step;
            the reader removes it.
        last_texts: The same for the result of `text`.
        render_modes: Render modes that the environment lists, such as ``ansi``.
        parameters: Parameters that episodes can be given: by name a default, ``(default, low, high)`` or a `Parameter`.
        groups: Agents that win and lose together, by the name of their group; an agent is in one group at most.
        own_episodes: Whether episodes are those of agents, or of their groups, in lanes that never end: `episode` then
            counts the steps of a lane in which episodes ended.
        reported: Numbers that environments report beside rewards; None where they report none.
        only_one: Whether no further environments can exist at the same time, as with an editor, or programs that
            connect to one port: evaluation during a training must borrow them (`RolloutWorker.lent`).
        in_turn: Whether episodes are assigned to lanes in turn, as in an evaluation with a fixed share for each lane;
            used only where episodes may be fewer than lanes.
        throwaway: Whether a few further environments may be created, played at random for a moment and closed.
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
        """Sets another plan, or the same plan after a change, for the seeds and parameters of later episodes."""

    def restart(self, seeds: SeedPlan) -> Step:
        """Gives up the running episode of every lane and begins the next; returns the first step of these episodes.

        Args:
            seeds: Plan of the episodes to come.
        """
        state, exact = self.state_dict(), self.exact
        state["lanes"] = [{} for _ in range(self.num_lanes)]  # as for episodes that cannot be resumed
        step, _ = self.load_state_dict(state, seeds)
        self.exact = exact
        return step

    def text(self, lane: int) -> str | None:
        """Renders a lane as text, for a terminal; None if the environment has no text."""
        return None

    def rules(self) -> GameRules | None:
        """Returns the rules by which a search plays on from the states of the lanes; None if that is not possible."""
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
    """Many instances of one environment, stepped together.

    Attributes:
        num_lanes: Number of environments.
        kinds: The kinds of agents. May grow (a new kind at the end, a new agent at the end of a kind's `agents`) when
            an agent appears that was not announced; `layout` then counts up and row numbers are those of the new kinds.
        layout: Counts changes of `kinds`.
        episode: ``[lanes]`` number of the episode each lane is in, from 0.
        exact: Whether an episode depends only on its seed and the actions, so that runs repeat bit for bit.
        name: Name of the environment for messages and logs.
        notes: Lines a user should read once (parts of a space that were dropped, say).
        keep_infos: Of which lanes to keep `infos`; ``none`` by default.
        infos: Infos of the last step, by lane and then by agent; empty where there are none or none are kept.
        counters: Number of tolerated failures so far, by name in the result row.
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
        """Starts episode 0 in every lane; later episodes take their seeds from `seeds`, too.

        Raises:
            EnvError: If the environment raises or breaks the contract.
        """

    def step(self, actions: Sequence[np.ndarray]) -> Step:
        """Steps every lane once.

        Args:
            actions: For each kind, the environment's own actions ``[W, ...]`` of its W waiting rows, in row order. The
                arrays belong to the caller: do not write to them, and copy them for use after this step.

        Raises:
            EnvError: If `reset` was not called, or an array has another length or range; if the environment raises or
                breaks the contract: the message names lane, seed, episode, step, agent and action.
        """

    def state_dict(self) -> dict[str, Any]:
        """Returns the state of every lane between two steps, in arrays and plain values."""

    def load_state_dict(self, state: dict[str, Any], seeds: SeedPlan) -> tuple[Step, np.ndarray]:
        """Resumes from a state instead of `reset`.

        Args:
            state: State from `state_dict`, of this environment or one built alike.
            seeds: Seeds of the episodes to come.

        Returns:
            The step that every lane shows; and ``[lanes]`` bool, whose episode could not be resumed: such a lane is at
            the beginning of its next one, and `exact` is False from now on.

        Raises:
            EnvError: If the state is of another environment, or the environment raises.
        """

    def render(self, lane: int) -> np.ndarray | None:
        """Returns an image ``[height, width, 3]`` uint8 of a lane, or None if the environment cannot render."""

    def close(self) -> None:
        """Releases the resources of the environment."""


def is_only_one(env: VectorEnv) -> bool:
    """Whether no further instances of an environment can exist at the same time."""
    return isinstance(env, VectorBase) and env.only_one


def has_own_episodes(env: VectorEnv) -> bool:
    """Whether episodes are those of agents, in lanes that never end."""
    return isinstance(env, VectorBase) and env.own_episodes


def has_throwaways(env: VectorEnv) -> bool:
    """Whether further instances of an environment may be created, played at random and closed."""
    return not isinstance(env, VectorBase) or (env.throwaway and not env.only_one)
