"""Scene of a simulated player: an environment of Rookery that runs like a Unity game.

Agents request a decision at a fixed interval of steps and repeat their last action until the next one; rewards since
then come with the request. The end of an episode is reported at once, with its last observation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from rookery.face import (
    MASK,
    TEAM_MARK,
    ConstantSampler,
    Draws,
    EnvError,
    EpisodePlan,
    Rows,
    Sampler,
    Step,
    Tree,
    Value,
    VectorBase,
    VectorEnv,
    env_name,
    make_env,
    nearest,
)
from rookery_mlagents.testing.player_options import PlayerOptions
from rookery_mlagents.testing.sensors import ActionReader, SensorWriter, sensor_writers


@dataclass
class SceneAgents:
    """Some agents of a behaviour at one moment.

    Attributes:
        rows: ``[N]`` numbers of their rows.
        ids: ``[N]`` who they are.
        obs: ``[N, ...]`` their observations.
        reward: ``[N]`` their rewards since the last request.
        group_reward: ``[N]`` what their groups have.
        truncated: ``[N]`` bool, whose episode was cut off; False where it continues.
    """

    rows: np.ndarray
    ids: np.ndarray
    obs: Tree
    reward: np.ndarray
    group_reward: np.ndarray
    truncated: np.ndarray


@dataclass
class SceneMoment:
    """Result of a step for one behaviour.

    Attributes:
        behavior: Which.
        ended: Those whose episode has ended.
        asking: Agents that request a decision.
    """

    behavior: SceneBehavior
    ended: SceneAgents
    asking: SceneAgents


class SceneBehavior:
    """The agents of one behaviour in all areas.

    Args:
        name: Its name.
        kind: Number of their kind.
        rows: ``[N]`` their rows in it, ascending.
        groups: ``[N]`` numbers of their groups, from 1; 0 for agents without one.
        first_step: Environment step at which they appear.
        sensors: Their sensors.
        actions: Their actions.
        model: Which of two behaviours of the same agents it is: 0 their own, 1 that of the player's `set_model`.
    """

    def __init__(
        self,
        name: str,
        kind: int,
        rows: np.ndarray,
        groups: np.ndarray,
        first_step: int,
        sensors: list[SensorWriter],
        actions: ActionReader,
        model: int = 0,
    ) -> None:
        self.name, self.kind, self.rows, self.groups, self.first_step = name, kind, rows, groups, first_step
        self.sensors, self.actions, self.model = sensors, actions, model


class _KindState:
    """State of the rows of one kind."""

    def __init__(self, rows: Rows, env: VectorEnv, kind: int, ids: Iterator[int]) -> None:
        spec = env.kinds[kind]
        size = len(rows.reward)
        width = int(np.prod(spec.action.shape, dtype=np.int64))
        self.reward, self.group_reward = np.zeros((2, size))
        self.held = np.zeros((size, width), dtype=spec.action.dtype)
        self.ids = np.fromiter(ids, dtype=np.int64, count=size)
        self.before = spec.obs.allocate(size)
        self.phase = np.zeros(size, dtype=np.int64)
        self.sizes = spec.action.sizes
        self.starts = np.cumsum((0, *self.sizes))[:-1]
        self.model, self.model_before = np.zeros((2, size), dtype=np.int64)
        self.ended = np.zeros(size, dtype=bool)

    def switch(self, rows: Rows, index: int, least: float, *, all_rows: bool) -> None:
        """Gives agents the behaviour of their new episodes, or all that of their running ones. An agent that switches
        within its episode is disabled for it, which ends its episode.
        """
        self.ended = rows.terminated | rows.truncated
        first = next(array for path, array in sorted(rows.obs.items()) if path != MASK)
        wanted = (first.reshape(len(first), -1)[:, index] >= least).astype(np.int64)
        self.model_before = self.model
        self.model = np.where(self.ended | all_rows, wanted, self.model)
        self.ended = self.ended | (self.model != self.model_before)

    def permit(self, mask: np.ndarray, which: np.ndarray) -> None:
        """Replaces held discrete actions that the mask no longer allows by the first allowed one."""
        held = self.held[which]
        for place, (start, size) in enumerate(zip(self.starts, self.sizes, strict=True)):
            allowed = mask[which, start : start + size]
            chosen = held[:, place].astype(np.int64)
            wrong = ~allowed[np.arange(len(held)), chosen]
            held[wrong, place] = allowed[wrong].argmax(axis=1)
        self.held[which] = held


class Scene:
    """Environment that runs like a game.

    Args:
        options: Of the player; what it is called there is made.
        areas: Number of environments.
        seed: Of all its episodes.
        parameters: Parameters of episodes, by name: values, or distributions that are drawn from.

    Attributes:
        behaviors: Whose agents there are.
        steps: Environment steps since the start.
        unknown: Parameters that the environment does not have.

    Raises:
        EnvError: If there is no such environment, or a player cannot show it.
    """

    def __init__(
        self, options: PlayerOptions, areas: int, seed: int, parameters: Mapping[str, float | Sampler]
    ) -> None:
        self._options, self._seed, self._resets = options, seed, 0
        self._is_new = True
        self.unknown: tuple[str, ...] = ()
        self._env = self._made(areas, parameters)
        self._values = dict(parameters)
        ids = iter(range(2**31))
        self.steps = 0
        self._states: list[_KindState] = []
        self._now: Step | None = None
        self._fresh = ids
        self.behaviors: list[SceneBehavior] = []
        self._parameters = parameters

    def _made(self, areas: int, parameters: Mapping[str, Any]) -> VectorEnv:
        """Creates the environment, with the parameters that it supports."""
        env_args, name = self._options.env_args, self._options.env
        made = make_env(name, env_args, (), areas, "auto", parameters=tuple(parameters) or None)
        has = made.parameters if isinstance(made, VectorBase) else {}
        self.unknown = tuple(sorted(set(parameters) - set(has)))
        if self.unknown:
            made.close()
            known = tuple(name for name in parameters if name in has)
            made = make_env(name, env_args, (), areas, "auto", parameters=known or None)
        return made

    # -- who is there --------------------------------------------------------------------------------------------------

    def _lay_out(self, step: Step) -> None:
        """Assigns behaviours and ids to agents."""
        env, options = self._env, self._options
        late = dict(options.late)
        members = {agent: number for number, agents in enumerate(_groups(env).values(), 1) for agent in agents}
        for kind, (spec, rows) in enumerate(zip(env.kinds, step.rows, strict=True)):
            if kind == len(self._states):
                self._states.append(_KindState(rows, env, kind, self._fresh))
                if options.is_staggered:
                    self._states[-1].phase[:] = np.arange(len(rows.reward)) % options.period
            elif len(self._states[kind].reward) != len(rows.reward):
                raise EnvError(f"{env.name}: agents that were not announced have come; a player cannot show that")
            names = [self._called(behavior_of(agent, options, self._alone())) for agent in spec.agents]
            for name in dict.fromkeys(names):
                if any(name == known.name and kind == known.kind for known in self.behaviors):
                    continue
                if any(name == known.name for known in self.behaviors):
                    raise EnvError(f"behaviour {name}: its agents have other spaces than others; name them apart")
                columns = np.array([at for at, one in enumerate(names) if one == name])
                lanes = np.arange(env.num_lanes)[:, None]
                groups = np.array([members.get(spec.agents[column], 0) for column in columns])
                of_lanes = np.where(groups > 0, groups + lanes * len(_groups(env)), 0)
                switched = (self._called(options.set_model[0]),) if options.set_model[0] else ()
                for model, called in enumerate((name, *switched)):
                    self.behaviors.append(
                        SceneBehavior(
                            called,
                            kind,
                            (lanes * len(spec.agents) + columns).reshape(-1),
                            of_lanes.reshape(-1),
                            late.get(name, late.get(name.partition(TEAM_MARK)[0], 0)),
                            sensor_writers(spec.obs, options),
                            ActionReader(spec.action, called, options),
                            model,
                        )
                    )
        names = [one.name for one in self.behaviors]
        if unknown := sorted(set(late) - {*names, *(name.partition(TEAM_MARK)[0] for name in names)}):
            raise EnvError(
                f"--late: there is no behaviour {unknown[0]}{nearest(unknown[0], names)}, but {', '.join(names)}"
            )

    def _called(self, name: str) -> str:
        """Returns a behaviour's name as it is announced."""
        return name if TEAM_MARK in name or not self._options.unity_names else f"{name}{TEAM_MARK}team=0"

    def _alone(self) -> str:
        """Returns the behaviour name for agents without names."""
        return env_name(self._options.env).rpartition(":")[2].rpartition(".")[2]

    # -- playing -------------------------------------------------------------------------------------------------------

    def set_parameter(self, name: str, value: float | Sampler) -> bool:
        """Sets a parameter of later episodes; returns whether the environment supports it."""
        self._values[name] = value
        has = self._env.parameters if isinstance(self._env, VectorBase) else {}
        return name in has and name not in self.unknown

    def reset(self) -> list[SceneMoment]:
        """Resets all areas; the ends of running episodes are not reported."""
        self._resets += 1
        self._now = self._env.reset(_ScenePlan(self._seed, self._resets, self._values, self.unknown))
        self._lay_out(self._now)
        for state in self._states:
            state.reward[:], state.group_reward[:], state.held[:] = 0.0, 0.0, 0
            state.model[:], state.model_before[:], state.ended[:] = 0, 0, False
        self._is_new = True
        return [self._moment(one, self._ended(one, self._now), self._now) for one in self._shown()]

    def act(self, behavior: SceneBehavior, rows: np.ndarray, actions: np.ndarray) -> None:
        """Sets the actions of agents of a behaviour from now on.

        Args:
            behavior: Which.
            rows: ``[N]`` their rows.
            actions: ``[N, elements]`` in stored form.
        """
        self._states[behavior.kind].held[rows] = actions

    def step(self) -> list[SceneMoment]:
        """Steps the environment with the last actions of its agents."""
        assert self._now is not None
        given = []
        for kind, rows, state in zip(self._env.kinds, self._now.rows, self._states, strict=True):
            if MASK in rows.obs:
                state.permit(rows.obs[MASK], np.flatnonzero(rows.waiting))
            for path, array in rows.obs.items():
                np.copyto(state.before[path], array)
            held = state.held[rows.waiting].reshape(-1, *kind.action.shape)
            given.append(kind.action.to_env(held))
        self._now = step = self._env.step(given)
        self.steps += 1
        self._lay_out(step) if len(step.rows) > len(self._states) else None
        for rows, state in zip(step.rows, self._states, strict=True):
            state.reward += rows.reward
            if rows.group_reward is not None:
                state.group_reward += rows.group_reward
            state.ended = rows.terminated | rows.truncated
            if self._options.set_model[0]:
                state.switch(rows, *self._options.set_model[1:], all_rows=self._is_new)
        self._is_new = False
        ended = [(one, self._ended(one, step)) for one in self._shown()]  # all first: agents may switch behaviours
        return [self._moment(one, over, step) for one, over in ended]

    def _shown(self) -> list[SceneBehavior]:
        return [one for one in self.behaviors if self.steps >= one.first_step]

    def _ended(self, behavior: SceneBehavior, step: Step) -> SceneAgents:
        """Returns the agents of a behaviour whose episodes have ended, and removes their rewards from the state."""
        rows, state, mine = step.rows[behavior.kind], self._states[behavior.kind], behavior.rows
        mine = mine[state.ended[mine] & (state.model_before[mine] == behavior.model)]
        ended = self._agents(state, mine, state.before)
        if not len(mine):
            return ended
        ended.truncated = (rows.truncated & ~rows.terminated)[mine]
        if ended.truncated.any():
            at = np.searchsorted(rows.final_index, mine[ended.truncated])
            for path, array in ended.obs.items():
                array[ended.truncated] = rows.final_obs[path][at]
        state.held[mine] = 0
        if self._options.ids == "new":
            state.ids[mine] = [next(self._fresh) for _ in range(len(mine))]
        return ended

    def _moment(self, behavior: SceneBehavior, ended: SceneAgents, step: Step) -> SceneMoment:
        """Returns the result for a behaviour, and removes the rewards of its agents from the state."""
        rows, state, mine = step.rows[behavior.kind], self._states[behavior.kind], behavior.rows
        mine = mine[state.model[mine] == behavior.model]
        waiting = rows.waiting[mine]
        period = self._options.period
        if self._options.is_silent:
            waiting = np.zeros(len(mine), dtype=bool)
        elif period > 1:
            waiting = waiting & ((self.steps + state.phase[mine]) % period == 0)
        return SceneMoment(behavior, ended, self._agents(state, mine[waiting], rows.obs))

    def _agents(self, state: _KindState, rows: np.ndarray, obs: Tree) -> SceneAgents:
        found = SceneAgents(
            rows,
            state.ids[rows],
            {path: array[rows] for path, array in obs.items()},
            state.reward[rows],
            state.group_reward[rows],
            np.zeros(len(rows), dtype=bool),
        )
        state.reward[rows] = state.group_reward[rows] = 0.0
        return found

    def close(self) -> None:
        """Closes the environment."""
        self._env.close()


NO_ROWS = np.zeros(0, dtype=np.int64)


def behavior_of(agent: str, options: PlayerOptions, alone: str) -> str:
    """Returns the name of an agent's behaviour: that of the player's options, or the agent's name without its number.

    Args:
        agent: Name of the agent.
        options: Of the player.
        alone: What it is if nothing is left of the agent's name, or it has none.
    """
    for pattern, name in options.behaviors:
        if fnmatchcase(agent, pattern):
            return name
    stem = agent.rstrip("0123456789").rstrip("_-#")
    return alone if stem in ("", "agent") else stem


def _groups(env: VectorEnv) -> Mapping[str, tuple[str, ...]]:
    return env.groups if isinstance(env, VectorBase) else {}


class _ScenePlan(EpisodePlan):
    """Seeds and parameters of episodes: independent of the trainer's seeds."""

    def __init__(self, seed: int, resets: int, values: Mapping[str, float | Sampler], unknown: tuple[str, ...]) -> None:
        self._given, self._values, self._unknown = (seed, resets), values, unknown

        def seeds(lane: int, episode: int) -> int:
            return int(np.random.SeedSequence((abs(seed), resets, lane, episode)).generate_state(1)[0] >> 1)

        super().__init__(seeds, Draws({}), _rng(self._given), {})

    def parameters(self, lane: int, episode: int) -> dict[str, Value]:
        """Returns the parameters of an episode, as last set by the trainer."""
        samplers = {
            name: value if isinstance(value, Sampler) else ConstantSampler(value)
            for name, value in self._values.items()
            if name not in self._unknown
        }
        return Draws(samplers).values({}, lambda name, seed: _rng(self._given)(lane, episode, name, seed))


def _rng(given: tuple[int, int]) -> Callable[[int, int, str, int | None], np.random.Generator]:
    def rng(lane: int, episode: int, name: str, seed: int | None) -> np.random.Generator:
        letters = int.from_bytes(name.encode()[:8], "little")
        return np.random.default_rng((abs(given[0] if seed is None else seed), given[1], lane, episode, letters))

    return rng
