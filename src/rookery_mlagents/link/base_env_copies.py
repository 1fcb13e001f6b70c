"""`BaseEnvCopies`: environments of ML-Agents' low-level API (`BaseEnv`) as asynchronous environments.

Whatever has `behavior_specs`, `get_steps`, `set_actions`, `step` and `reset` as they are there counts: one of
`mlagents_envs`, one of ours (`rookery_mlagents`), or one of the user's own. Its `step` blocks until an agent
requests an action or ends, so several environments have a thread each.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any

import numpy as np

from rookery.face import (
    MASK,
    Answer,
    Asking,
    AsyncCopiesEnv,
    CopyBehavior,
    Ended,
    EnvError,
    SeedPlan,
    SpaceError,
    StepMessage,
    Tree,
    close_env,
    described,
    slots_of,
)
from rookery_mlagents.link.base_env_checks import METHODS, WORKER, is_base_env
from rookery_mlagents.link.layouts import CHOICES, NUMBERS, BehaviorLayout, layout_of
from rookery_mlagents.link.messages import ActionSpecProto, AgentInfoProto, BrainParametersProto, ObservationProto

CLOSE_SECONDS = 5.0
"""Timeout in seconds for an environment to end its current step, after which it is abandoned."""


# --- conversion of messages -------------------------------------------------------------------------------------------


def layout_of_spec(name: str, spec: Any) -> BehaviorLayout:
    """Returns the layout of a behaviour, as for one sent by a player.

    Args:
        name: Its name.
        spec: A `BehaviorSpec`, of whichever package.

    Raises:
        SpaceError: If it has no observations or no actions.
    """
    observations = tuple(
        ObservationProto(
            shape=tuple(int(size) for size in sensor.shape),
            dimension_properties=tuple(int(one) for one in getattr(sensor, "dimension_property", ())),
            observation_type=int(getattr(getattr(sensor, "observation_type", 0), "value", 0)),
            name=str(getattr(sensor, "name", "")),
        )
        for sensor in spec.observation_specs
    )
    branches = tuple(int(size) for size in spec.action_spec.discrete_branches)
    numbers = int(spec.action_spec.continuous_size)
    actions = ActionSpecProto(numbers, len(branches), branches)
    return layout_of(
        BrainParametersProto(brain_name=name, action_spec=actions), AgentInfoProto(observations=observations)
    )


def asking_of(layout: BehaviorLayout, steps: Any) -> Asking | None:
    """Converts `DecisionSteps`; None if they have no agent.

    Raises:
        SpaceError: If they are not of the behaviour; names the sensor.
    """
    if not len(steps):
        return None
    tree = _seen(layout, steps)
    if layout.obs.has_mask:
        masks = steps.action_mask
        width = sum(layout.action.sizes)
        forbidden = np.zeros((len(steps), width), bool)
        if masks is not None:
            forbidden = np.concatenate([np.asarray(one, bool).reshape(len(steps), -1) for one in masks], axis=1)
        if forbidden.shape != (len(steps), width):
            raise SpaceError(f"action_mask has {forbidden.shape[1]} flags for {width} choices")
        tree[MASK] = ~forbidden
    ids, groups = _ids(steps), _groups(steps)
    return Asking(ids, tree, _rewards(steps.reward), groups, _rewards(steps.group_reward) if groups else None)


def ended_of(layout: BehaviorLayout, steps: Any) -> Ended | None:
    """Converts `TerminalSteps`; None if they have no agent.

    Raises:
        SpaceError: If they are not of the behaviour; names the sensor.
    """
    if not len(steps):
        return None
    tree = _seen(layout, steps)
    if layout.obs.has_mask:
        tree[MASK] = np.ones((len(steps), sum(layout.action.sizes)), bool)
    ids, groups, cut = _ids(steps), _groups(steps), np.asarray(steps.interrupted, bool)
    return Ended(ids, tree, _rewards(steps.reward), groups, _rewards(steps.group_reward) if groups else None, cut)


def _seen(layout: BehaviorLayout, steps: Any) -> Tree:
    """Returns the observations of agents, ``[N, *leaf.shape]`` by leaf path."""
    if len(steps.obs) != len(layout.sensors):
        raise SpaceError(f"{len(steps.obs)} observations, where behavior_specs names {len(layout.sensors)}")
    tree = {}
    for sensor, values in zip(layout.sensors, steps.obs, strict=True):
        array = np.asarray(values, np.float32)
        if array.shape != (wanted := (len(steps), *sensor.shape)):
            raise SpaceError(f"sensor {sensor.name or sensor.path!r}: shape {array.shape}, expected {wanted}")
        tree[sensor.path] = sensor.stored(array)
    return tree


def _ids(steps: Any) -> list[Hashable]:
    return [int(agent) for agent in steps.agent_id]


def _groups(steps: Any) -> list[Hashable | None]:
    """Returns the group of each agent; empty if no agent has one. Releases before groups have no such field."""
    numbers = [int(group) for group in getattr(steps, "group_id", ())]
    return [group or None for group in numbers] if any(numbers) else []


def _rewards(given: Any) -> np.ndarray:
    return np.asarray(given, np.float64)


def numbers_and_choices(layout: BehaviorLayout, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Splits actions ``[N, ...]`` in the form of the space into continuous and discrete parts.

    Returns:
        ``[N, numbers]`` float32 and ``[N, branches]`` int32.
    """
    num, spec = len(actions), layout.action
    if spec.kind == "composite":
        numbers = np.array([one[NUMBERS] for one in actions], np.float32).reshape(num, -1)
        return numbers, np.array([one[CHOICES] for one in actions], np.int32).reshape(num, -1)
    table = np.asarray(actions).reshape(num, -1)
    if spec.kind == "box":
        return table.astype(np.float32), np.zeros((num, 0), np.int32)
    return np.zeros((num, 0), np.float32), table.astype(np.int32)


# --- one copy ---------------------------------------------------------------------------------------------------------


class BaseEnvCopy:
    """One environment, and its last steps.

    Args:
        env: The environment.
        lane: Number of the copy.
        name: What runs, for messages.
    """

    def __init__(self, env: Any, lane: int, name: str) -> None:
        self.env, self.lane, self.name = env, lane, name
        self.layouts: dict[str, BehaviorLayout] = {}
        self._order: dict[str, list[Hashable]] = {}

    def reset(self) -> StepMessage:
        """Resets the environment, and runs it until an agent requests an action or ends.

        Raises:
            EnvError: If the environment raises, or returns something it did not declare.
        """
        self._called("reset")
        return self._arrival() or self.step({})

    def step(self, answers: Mapping[str, Answer]) -> StepMessage:
        """Answers the requesting agents, and runs the environment until an agent requests an action or ends.

        Raises:
            EnvError: As `reset`.
        """
        for behavior, answer in answers.items():
            self._set_actions(behavior, answer)
        while True:
            self._called("step")
            if (arrival := self._arrival()) is not None:
                return arrival

    def close(self) -> None:
        """Closes the environment, if possible; its exception becomes a warning."""
        close_env(self.env, self.name)

    def _set_actions(self, behavior: str, answer: Answer) -> None:
        """Sets actions in the order in which the environment listed its agents."""
        numbers, choices = numbers_and_choices(self.layouts[behavior], answer.actions)
        place = {agent: at for at, agent in enumerate(answer.ids)}
        order = [place[agent] for agent in self._order[behavior]]
        actions = self.env.behavior_specs[behavior].action_spec.empty_action(len(order))
        actions.add_continuous(numbers[order])
        actions.add_discrete(choices[order])
        try:
            self.env.set_actions(behavior, actions)
        except Exception as error:
            raise self._raised("set_actions", error) from error

    def _called(self, method: str) -> None:
        try:
            getattr(self.env, method)()
        except Exception as error:
            raise self._raised(method, error) from error

    def _raised(self, method: str, error: Exception) -> EnvError:
        return EnvError(f"{self.name}: environment {self.lane}: {method}() raised {described(error)}")

    def _arrival(self) -> StepMessage | None:
        """Converts the steps of agents to a message; None if there are none."""
        asking: dict[str, Asking] = {}
        ended: dict[str, Ended] = {}
        self._order = {}
        for behavior, spec in self.env.behavior_specs.items():
            try:
                if behavior not in self.layouts:
                    self.layouts[behavior] = layout_of_spec(behavior, spec)
                layout = self.layouts[behavior]
                decisions, terminals = self.env.get_steps(behavior)
                asks, gone = asking_of(layout, decisions), ended_of(layout, terminals)
            except SpaceError as error:
                raise EnvError(f"{self.name}: environment {self.lane}, behaviour {behavior}: {error}") from error
            except Exception as error:
                raise self._raised("get_steps", error) from error
            if asks is not None:
                asking[behavior], self._order[behavior] = asks, list(asks.ids)
            if gone is not None:
                ended[behavior] = gone
        return StepMessage(self.lane, asking, ended) if asking or ended else None


# --- all copies -------------------------------------------------------------------------------------------------------


@dataclass
class Outcome:
    """Result of one command to an environment's thread.

    Attributes:
        lane: The environment.
        begun: Number of the reset that it follows.
        arrival: Its step; None if it failed.
        error: The exception that it raised.
    """

    lane: int
    begun: int
    arrival: StepMessage | None = None
    error: Exception | None = None


class BaseEnvCopies:
    """All copies; see `envs/async_copies/step_message.py:Copies`. One copy is stepped by the caller of `step_messages`,
    several by a thread each.

    Args:
        envs: The environments, one for each copy; closed with this.
        name: Name of the environment in messages.

    Raises:
        EnvError: If one cannot be used.
    """

    own_episodes = True

    def __init__(self, envs: Sequence[Any], name: str) -> None:
        self.name = name
        self.notes: tuple[str, ...] = (
            f"{name}: keeps its own clock and draws its episodes itself; runs do not repeat (exact: false)",
        )
        self.parameters: Mapping[str, Any] = {}
        self.counters: dict[str, int] = {}
        self._copies = [BaseEnvCopy(env, lane, name) for lane, env in enumerate(envs)]
        _in_use.extend(envs)
        self._begun = [0] * len(envs)
        self._outcomes: SimpleQueue[Outcome] = SimpleQueue()
        self._orders: list[SimpleQueue[tuple[int, Callable[[], StepMessage]] | None]] = [SimpleQueue() for _ in envs]
        self._threads: list[threading.Thread] = []
        self._closed = False
        self._fresh: StepMessage | None = None
        """First step of the first environment, kept until its first episode begins."""
        self._known: dict[str, CopyBehavior] = {}
        self.behaviors: Mapping[str, CopyBehavior] = self._known
        try:
            self._fresh = self._copies[0].reset()
            self._look(self._fresh)
        except BaseException:
            self.close()
            raise
        if len(envs) > 1:
            for lane in range(len(envs)):
                thread = threading.Thread(target=self._work, args=(lane,), name=f"{name} {lane}", daemon=True)
                self._threads.append(thread)
                thread.start()

    def _look(self, arrival: StepMessage) -> None:
        """Reads the behaviours of the first environment and its first agents."""
        seats = slots_of(arrival)
        for behavior, layout in self._copies[0].layouts.items():
            names, places = layout.sensor_names, seats.get(behavior, (-1,))
            self._known[behavior] = CopyBehavior(layout.obs, layout.action, places, sensors=names)

    def begin(self, lane: int, episode: int, plan: SeedPlan) -> None:
        """Resets an environment; its earlier steps that were not taken are dropped. Such environments take no seeds."""
        self._begun[lane] += 1
        if lane == 0 and self._fresh is not None:
            self._outcomes.put(Outcome(lane, self._begun[lane], self._fresh))
            self._fresh = None
            return
        self._orders[lane].put((self._begun[lane], self._copies[lane].reset))

    def replan(self, plan: SeedPlan) -> None:
        """Does nothing: such environments take neither seeds nor parameters."""

    def step_messages(self, seconds: float) -> list[StepMessage]:
        """Waits until an environment has a step; see `Copies.step_messages`. One copy alone is stepped here,
        without a time limit.
        """
        if not self._threads:
            self._do(0)
        found: dict[int, StepMessage] = {}
        until = monotonic() + seconds
        while True:
            try:
                outcome = self._outcomes.get(
                    block=not found and bool(self._threads), timeout=max(until - monotonic(), 0.0)
                )
            except Empty:
                return list(found.values())
            if outcome.begun != self._begun[outcome.lane]:
                continue
            if outcome.error is not None:
                raise outcome.error
            assert outcome.arrival is not None
            for behavior in (*outcome.arrival.asking, *outcome.arrival.ended):
                self._know(outcome.lane, behavior)
            found[outcome.lane] = outcome.arrival

    def _know(self, lane: int, behavior: str) -> None:
        """Adds a behaviour that appears later; raises an error if another environment has it with other spaces."""
        layout = self._copies[lane].layouts[behavior]
        known = self._known.setdefault(behavior, CopyBehavior(layout.obs, layout.action, sensors=layout.sensor_names))
        if known.obs != layout.obs or known.action != layout.action:
            raise EnvError(
                f"{self.name}: environment {lane}, behaviour {behavior}: sees {layout.obs.space} and does "
                f"{layout.action.space}; in another environment it sees {known.obs.space} and does {known.action.space}"
            )

    def answer(self, lane: int, episode: int, answers: Mapping[str, Answer]) -> None:
        """Answers the last message of an environment, which continues."""
        copy = self._copies[lane]
        self._orders[lane].put((self._begun[lane], lambda: copy.step(answers)))

    def _work(self, lane: int) -> None:
        """Runs an environment's thread: executes commands until there are none."""
        while self._do(lane):
            pass

    def _do(self, lane: int) -> bool:
        """Executes the next command of an environment; without a thread, only if there is one. Returns False at the
        end.
        """
        try:
            order = self._orders[lane].get(block=bool(self._threads))
        except Empty:
            return False
        if order is None:
            return False
        begun, job = order
        if begun == self._begun[lane]:
            try:
                self._outcomes.put(Outcome(lane, begun, job()))
            except Exception as error:
                self._outcomes.put(Outcome(lane, begun, error=error))
        return True

    def close(self) -> None:
        """Ends the threads and closes the environments, including those that hang in a step."""
        if self._closed:
            return
        self._closed = True
        for orders in self._orders:
            orders.put(None)
        until = monotonic() + CLOSE_SECONDS
        for thread in self._threads:
            thread.join(max(until - monotonic(), 0.0))
        for copy in self._copies:
            _in_use[:] = [env for env in _in_use if env is not copy.env]
            copy.close()


def base_env(env: Any, config: Mapping[str, Any], num_lanes: int, name: str, first: Any = None) -> AsyncCopiesEnv:
    """Presents such environments as rows.

    Args:
        env: The environment itself, or what makes one: a class or a function. One with an argument `worker_id` is
            given the number of the copy, so that each has a port of its own.
        config: Arguments of what makes it.
        num_lanes: Number of environments.
        name: Name of the environment in messages.
        first: Existing environment, which becomes the first copy.

    Raises:
        EnvError: If one object is to be several copies, an environment cannot be made, or it cannot be used.
    """
    if is_base_env(env) and not inspect.isclass(env):
        _check_alone(env, config, num_lanes, name)
        return AsyncCopiesEnv(BaseEnvCopies([env], name), 1)
    made: list[Any] = [] if first is None else [first]
    try:
        while len(made) < num_lanes:
            made.append(_made(env, config, len(made), name))
    except BaseException:
        for one in made:
            one.close()
        raise
    return AsyncCopiesEnv(BaseEnvCopies(made, name), num_lanes)


def _check_alone(env: Any, config: Mapping[str, Any], num_lanes: int, name: str) -> None:
    """Raises an error if several environments are requested of a single object."""
    function = (
        f"a function that makes one a call (with an argument {WORKER}, the number of the copy, if each needs a port of "
        "its own)"
    )
    if any(env is other for other in _in_use):
        raise EnvError(
            f"{name}: this one environment is in use already, and a second use (evaluation, "
            f"say) needs an environment of its own: give {function}"
        )
    if config:
        raise EnvError(f"{name}: an environment that is made already takes no env.config {dict(config)}: leave it out")
    if num_lanes != 1:
        reason = f"one environment that is made already cannot be {num_lanes} copies"
        raise EnvError(f"{name}: {reason}: set sampling.num_envs=1, or give {function}")


_in_use: list[Any] = []
"""Environments in use."""


def _made(make: Any, config: Mapping[str, Any], lane: int, name: str) -> Any:
    try:
        takes = WORKER in inspect.signature(make).parameters and WORKER not in config
    except (TypeError, ValueError):
        takes = False
    numbered = {WORKER: lane} if takes else {}
    try:
        env = make(**config, **numbered)
    except EnvError:
        raise
    except Exception as error:
        raise EnvError(f"{name}: environment {lane}: making it raised {described(error)}") from error
    if not is_base_env(env):
        raise EnvError(
            f"{name}: makes {type(env).__name__}, expected an environment of ML-Agents' low-level API: "
            f"behavior_specs, {', '.join(METHODS)}"
        )
    return env
